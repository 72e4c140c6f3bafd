"""The commands for all nodes of a program together: ``route``, and ``show`` and ``changes`` with ``--root``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ...job.shared_options import Parser, add_format, seconds_option
from ...kernel.errors import JobError
from ...row_kernel.model import RowProgram
from ...system.ended import until_signal
from ...system.log import Log
from ...system.permissions import private_files
from ...system.printing import RowPrinter
from .gathering import gathered_changes, gathered_rows, homes_of
from .nodes import ROUTER, Nodes
from .router import Router
from .serve import begun, exit_code_of, folder_here, process_main
from .state import with_inbox


def nodes_main(program: RowProgram, nodes: Nodes, argv: Sequence[str]) -> int:
    """Run a command for all nodes of a program, or one of those of a process for a node; return the exit code."""
    program = with_inbox(program, nodes.received)
    command, *arguments = argv or [""]
    if command == "route":
        asked = vars(route_parser(nodes).parse_args(arguments))
        with private_files(f"{asked['root']}/homes"):
            return exit_code_of(command, lambda: route(program, nodes, **asked))
    several = any(argument.split("=")[0] == "--root" for argument in arguments)
    if several and command in ("changes", "show"):
        options = gathering_parser(program, nodes, command).parse_args(arguments)
        return exit_code_of(command, lambda: print_gathered(program, nodes, command, options))
    return process_main(program, nodes, argv)


def route_parser(nodes: Nodes) -> Parser:
    """Return the parser of ``route``."""
    fed = ", ".join(nodes.fed) or "none"
    parser = Parser(
        prog=f"{Path(sys.argv[0]).name} route",
        description=f"Split one feed for all nodes by location until SIGTERM or SIGINT. Inputs: {fed}. Files in "
        f"DIR/feeds/{ROUTER}/RELATION/ are read like those that a node is fed, and their rows put into the feeds of "
        "the nodes that hold their addresses; inputs without a location go to all nodes.",
    )
    parser.add_argument("--root", required=True, metavar="DIR", help="the folder that all nodes share")
    parser.add_argument(
        "--poll", type=seconds_option, default=0.1, metavar="SECONDS", help="the interval at which to look for files"
    )
    parser.add_argument(
        "--once", action="store_true", help="end when all files were split; exit with 1 if some were refused"
    )
    return parser


def route(program: RowProgram, nodes: Nodes, root: str, poll: float = 0.1, once: bool = False) -> int:
    """Split the feeds of the router until SIGTERM or SIGINT, or ``once``, and return the exit code."""
    ended, log, shared = until_signal(twice=False), Log(), folder_here(root).absolute()
    router = begun(lambda: Router(program, nodes, shared, log), ended, log)
    if router is None:
        return 0
    log.event("routing", nodes=nodes.partition.count)
    try:
        while not ended.is_set():
            busy, pause = router.try_turn()
            if once and not busy and not pause:
                return 1 if router.feeds.refused else 0
            if not busy:
                ended.wait(pause or poll)
    finally:
        router.connection.close()
    return 0


def gathering_parser(program: RowProgram, nodes: Nodes, command: str) -> Parser:
    """Return the parser of ``show`` or ``changes`` for all nodes."""
    outputs = ", ".join(sorted(r.name for r in program.relations if r.output and not r.hidden)) or "none"
    what = "the tuples of a relation" if command == "show" else "the changes of an output relation"
    parser = Parser(
        prog=f"{Path(sys.argv[0]).name} {command}",
        description=f"Print {what} at all nodes. Each node is read as of its last commit. Outputs: {outputs}.",
    )
    parser.add_argument("relation", metavar="REL", help="the relation")
    parser.add_argument("--root", required=True, metavar="DIR", help="the folder that all nodes share")
    parser.add_argument(
        "--home",
        action="append",
        default=[],
        metavar="NODE=DIR",
        help=f"the home of a node, such as {nodes.name(0)}=DIR (default: as its status says); can be repeated",
    )
    if command == "show":
        parser.add_argument("--nodes", action="store_true", help="also print the node that holds each tuple")
    else:
        parser.add_argument(
            "--after",
            action="append",
            default=[],
            metavar="NODE=BATCH",
            help="only the changes of a node after this batch of it; can be repeated",
        )
    parser.add_argument("--at", metavar="LOCATION", help="print only tuples at this location")
    add_format("lines")(parser, program)
    return parser


def print_gathered(program: RowProgram, nodes: Nodes, command: str, options: argparse.Namespace) -> int:
    """Print the tuples of a relation at all nodes, or the changes that they keep. ``options`` are those of
    :func:`gathering_parser`."""
    homes = homes_of(nodes, Path(options.root).absolute(), named(nodes, options.home, "--home"))
    shared = (program, homes, options.relation, options.at)
    if command == "show":
        gathered = gathered_rows(*shared, options.nodes, options.limit)
    else:
        gathered = gathered_changes(*shared, named(nodes, options.after, "--after"), options.limit)
    RowPrinter(options.format).print(gathered.columns, iter(gathered.rows))
    return 0


def named(nodes: Nodes, given: Sequence[str], option: str) -> dict[str, str]:
    """Return the texts given for some nodes, as ``NODE=TEXT``, by node."""
    names = [nodes.name(number) for number in range(nodes.partition.count)]
    texts: dict[str, str] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or name not in names:
            raise JobError(f"{option} {item}: give it as NODE=..., for one of {', '.join(names)}")
        texts[name] = text
    return texts
