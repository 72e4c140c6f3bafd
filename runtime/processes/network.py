"""The commands for all nodes of a program together: ``route``, and ``show`` and ``changes`` with ``--root``."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from ..errors import JobError
from ..log import Log
from ..model import Program
from ..parsers import Parser, positive
from ..printing import discard_output, shown_lines
from .gathering import gathered_changes, gathered_rows, homes_of
from .nodes import ROUTER, Nodes
from .router import Router
from .serve import begun, exit_code_of, process_main


def nodes_main(program: Program, nodes: Nodes, argv: Sequence[str]) -> int:
    """Run a command for all nodes of a program, or one of those of a process for a node; return the exit code."""
    command, *given = argv or [""]
    if command == "route":
        return exit_code_of(command, lambda: route(program, nodes, **vars(route_parser(nodes).parse_args(given))))
    several = any(argument.split("=")[0] == "--root" for argument in given)
    if several and command in ("changes", "show"):
        options = vars(gathering_parser(program, nodes, command).parse_args(given))
        return exit_code_of(command, lambda: print_gathered(program, nodes, command, **options))
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
        "--poll", type=float, default=0.1, metavar="SECONDS", help="the interval at which to look for files"
    )
    parser.add_argument(
        "--once", action="store_true", help="end when all files were split; exit with 1 if some were refused"
    )
    return parser


def route(program: Program, nodes: Nodes, root: str, poll: float = 0.1, once: bool = False) -> int:
    """Split the feeds of the router until SIGTERM or SIGINT, or ``once``, and return the exit code."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    log = Log()
    router = begun(lambda: Router(program, nodes, Path(root).absolute(), log), ended, log)
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


def gathering_parser(program: Program, nodes: Nodes, command: str) -> Parser:
    """Return the parser of ``show`` or ``changes`` for all nodes."""
    outputs = ", ".join(sorted(r.name for r in program.relations if r.output and not r.hidden)) or "none"
    what = "the tuples of a relation" if command == "show" else "the published changes of an output relation"
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
    parser.add_argument(
        "--format", choices=["table", "csv", "json"], default="table", help="the output format (default: table)"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="print at most N lines")
    return parser


def print_gathered(
    program: Program,
    served: Nodes,
    command: str,
    relation: str,
    root: str,
    home: Sequence[str],
    at: str | None,
    format: str,
    limit: int | None,
    nodes: bool = False,
    after: Sequence[str] = (),
) -> int:
    """Print what all nodes have of a relation, or have published of it."""
    homes = homes_of(served, Path(root).absolute(), named(served, home, "--home"))
    if command == "show":
        found = gathered_rows(program, homes, relation, at, nodes, limit)
    else:
        found = gathered_changes(program, homes, relation, at, named(served, after, "--after"), limit)
    try:
        for line in shown_lines(found.columns, iter(found.rows), format):
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe.
        discard_output()
    return 0


def named(nodes: Nodes, given: Sequence[str], option: str) -> dict[str, str]:
    """Return what is given for some nodes, each as ``NODE=TEXT``."""
    known = [nodes.name(number) for number in range(nodes.partition.count)]
    found: dict[str, str] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals or name not in known:
            raise JobError(f"{option} {item}: give it as NODE=..., for one of {', '.join(known)}")
        found[name] = text
    return found
