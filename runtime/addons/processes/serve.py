"""The ``serve`` command, which runs a process of the program.

A process takes in the messages of its channels and the files that it is fed, applies them to its state as a batch,
and sends on what changes. It does not depend on other processes being up, and there is no coordinator.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...database.command_list import FILE_COMMANDS, OTHERS, add_commits_kept, run_file_command
from ...job.command_line import command_line
from ...job.shared_options import Parser, pause_option, positive, seconds_option
from ...kernel.errors import JobError, reason, without_keys
from ...kernel.model import MOST_ENTRIES
from ...row_kernel.model import RowProgram
from ...system.ended import until_signal
from ...system.log import Log
from ...system.permissions import private_files
from ...system.places import exposed, given_place, is_local
from ...system.printing import visible_lines
from ...system.transient_errors import Troubles, momentary
from .channels import DirectoryChannels, Process, Seal, read_secret
from .compaction import compact_feed
from .feeds import feed_folder
from .kafka import KafkaChannels
from .lease_renewal import Channels
from .nodes import ROUTER, Nodes
from .process_commands import process_commands
from .spanning_derivations import explain_across
from .state import ProcessState, with_inbox
from .status import read_status
from .worker import Settings, Worker

Running = TypeVar("Running")
"""A worker or a router, which runs until it is told to end."""


def serve(program: RowProgram, process: Process, options: argparse.Namespace) -> int:
    """Run the process until SIGTERM or SIGINT and return its exit code. ``options`` are those of
    :func:`serve_parser`."""
    shared = folder_here(options.root)
    own = folder_here(options.home) if options.home else shared / "homes" / process.name
    settings = Settings(shared, own, options.lease, options.hold)
    ended, log = until_signal(twice=False), Log()
    channels = opened_channels(process, shared, options, log)

    def make() -> Worker:
        state = ProcessState(program, process, own, options.functions, options.max_entries, options.keep)
        return Worker(state, channels, settings, log)

    worker = None
    try:
        worker = begun(make, ended, log)
    finally:
        if worker is None:
            channels.close()
    if worker is None:
        return 0
    log.event("serving", process=process.name, incarnation=worker.incarnation.number)
    try:
        while not ended.is_set():
            busy, pause = worker.try_turn()
            if not busy:
                ended.wait(pause or options.poll)
    finally:
        worker.end()
    return 0


def opened_channels(process: Process, shared: Path, options: argparse.Namespace, log: Log) -> Channels:
    """Return the channels of a process: topics of Kafka if there is an address, otherwise folders in ``shared``."""
    for file in filter(None, (options.secret_file, options.kafka_settings)):
        if warning := exposed(file):
            log.warn(warning)
    seal = Seal(read_secret(options.secret_file) if options.secret_file is not None else b"")
    if options.channels is None:
        return DirectoryChannels(shared, seal, log.warn)
    settings = read_settings(options.kafka_settings) if options.kafka_settings is not None else {}
    return KafkaChannels(options.channels, process, settings, seal, log.warn)


def folder_here(location: str) -> Path:
    """Return the path of a folder on this machine; raise JobError if it can be none."""
    place = given_place(location)
    if not is_local(place):
        raise JobError(f"{location} is not a folder of this machine")
    return place


def read_settings(file: str) -> dict[str, Any]:
    """Return the settings of the Kafka client in a JSON file; raise JobError if they are none."""
    try:
        settings = json.loads(Path(file).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise JobError(f"{file} is not JSON: {error}") from error
    if not isinstance(settings, dict) or not all(isinstance(value, str | int | float) for value in settings.values()):
        raise JobError(f'{file} must be one object of settings, such as {{"security.protocol": "ssl"}}')
    return settings


def begun(make: Callable[[], Running], ended: threading.Event, log: Log) -> Running | None:
    """Return a worker, or a router, as soon as one can start, retrying after system errors; None if ``ended`` is set
    before."""
    troubles = Troubles(log)
    while not ended.is_set():
        try:
            return make()
        except Exception as error:
            if not momentary(error):
                raise
            ended.wait(troubles.note(reason(error)))
    return None


def process_main(program: RowProgram, served: Process | Nodes, argv: Sequence[str]) -> int:
    """Run ``serve`` for a process, or for one of the nodes of a program, or run a command on the state of a process;
    return the exit code."""
    program = with_inbox(program, served.received)
    carried = {route.output: route.input for route in served.routes} if isinstance(served, Nodes) else {}
    commands = {command.name: command for command in process_commands(carried) if command.applies(program)}
    asked = argv[0] if argv else ""
    if asked in ("-h", "--help"):
        line = command_line(program, commands)
        several = " For all nodes: route, changes, and show with --root." if isinstance(served, Nodes) else ""
        line.epilog = (
            "The command serve runs the process, and compact-feeds compacts what it was fed; see serve --help and "
            f"compact-feeds --help. With --root, explain goes on at other processes.{several} {line.epilog}"
        )
        line.print_help()
        return 0
    if asked == "compact-feeds":
        return compact_feeds(program, served, argv[1:])
    if asked in ({command.name for command in FILE_COMMANDS} | OTHERS) - commands.keys():
        print(
            f"{asked}: the state of a process follows from its feeds and from what others send, and they have what it "
            "has sent: feed it changes, or let it start over in a new home",
            file=sys.stderr,
        )
        return 1
    if asked == "explain" and any(argument.split("=")[0] == "--root" for argument in argv):
        return exit_code_of("explain", lambda: explain_across(program, served, argv[1:]))
    if asked != "serve":
        # Of the command line itself, it is known that the process is there for it alone.
        own = None if [*argv] == sys.argv[1:] else argv
        return run_file_command(program, own, [*commands.values()])
    options = serve_parser(program, served).parse_args(argv[1:])
    process = served.process(options.node) if isinstance(served, Nodes) else served
    with private_files(f"{options.root}/homes"):
        return exit_code_of("serve", lambda: serve(program, process, options))


def serve_parser(program: RowProgram, served: Process | Nodes) -> Parser:
    """Return the parser of ``serve``."""
    what = f"the process {served.name}" if isinstance(served, Process) else "a node"
    parser = process_parser(
        served,
        "serve",
        f"Run {what} until SIGTERM or SIGINT: apply the changes that arrive through its channels and feeds, and send "
        "the resulting changes to other processes.",
    )
    seconds: dict[str, Any] = {"type": seconds_option, "metavar": "SECONDS"}
    parser.add_argument(
        "--channels",
        metavar="kafka://HOST:PORT/NAME",
        help="use Kafka topics that begin with NAME as channels instead of folders below --root",
    )
    parser.add_argument(
        "--kafka-settings",
        metavar="FILE.json",
        help="a JSON object with further settings of the Kafka client, such as security.protocol",
    )
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="sign messages with the secret in this file, and accept only messages signed with it",
    )
    parser.add_argument("--home", metavar="DIR", help="the folder of this process (default: ROOT/homes/PROCESS)")
    parser.add_argument(
        "--lease", default=5.0, help="treat a sender as gone after this time without a message", **seconds
    )
    parser.add_argument(
        "--hold",
        default=0.0,
        help="keep the facts of a sender that is gone for this time, or until it returns",
        type=pause_option,
        metavar="SECONDS",
    )
    parser.add_argument("--poll", default=0.1, help="the interval at which to look for messages", **seconds)
    parser.add_argument(
        "--max-entries",
        type=positive,
        default=MOST_ENTRIES,
        metavar="N",
        help="end if a recursion across processes has more than N tuples or derivation sets (default: %(default)s)",
    )
    add_commits_kept(parser, program)
    parser.set_defaults(functions=None)
    if program.functions:
        parser.add_argument("--functions", required=True, metavar="FILE.py", help="the file with external functions")
    return parser


def process_parser(served: Process | Nodes, command: str, description: str, router: bool = False) -> Parser:
    """Return a parser of a command for a process or one of several nodes, or their router, with what says which."""
    parser = Parser(prog=f"{Path(sys.argv[0]).name} {command}", description=description)
    if isinstance(served, Nodes):
        numbers = range(served.partition.count)
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument(
            "--node",
            type=int,
            choices=numbers,
            metavar="N",
            help=f"the number of the node, from 0 to {numbers[-1]}",
        )
        if router:
            which.add_argument("--router", action="store_true", help=f"the feeds in DIR/feeds/{ROUTER}")
    parser.add_argument(
        "--root",
        required=True,
        metavar="DIR",
        help="the folder that all processes share; with --channels, it may be used by this process alone",
    )
    return parser


def exit_code_of(command: str, work: Callable[[], int]) -> int:
    """Return the exit code of a command; print why it fails."""
    try:
        return work()
    except (JobError, OSError) as error:
        said = str(error) if isinstance(error, JobError) else reason(error)
        print(visible_lines(without_keys(f"{command}: {said}")), file=sys.stderr)
        return 1


def compact_feeds(program: RowProgram, served: Process | Nodes, argv: Sequence[str]) -> int:
    """Run ``compact-feeds``, which replaces the files that a process has read by snapshots; return the exit code."""
    what = f"the process {served.name}" if isinstance(served, Process) else "a node"
    parser = process_parser(
        served,
        "compact-feeds",
        f"Replace the files that {what} was fed and has read by one file for each relation, with the rows that remain "
        "of them. The process may run meanwhile.",
        router=True,
    )
    parser.add_argument("relations", nargs="*", metavar="REL", help="the relations (default: all that are fed)")
    options = parser.parse_args(argv)
    process = served.process(options.node or 0) if isinstance(served, Nodes) else served
    name = ROUTER if isinstance(served, Nodes) and options.node is None else process.name
    if unknown := set(options.relations).difference(process.fed):
        parser.error(f"{name} is not fed {', '.join(sorted(unknown))}")

    def work() -> int:
        told = read_status(Path(options.root), name).get("fed")
        for relation in options.relations or process.fed:
            read = told.get(relation, ()) if isinstance(told, dict) else ()
            folder = feed_folder(Path(options.root), name, relation)
            if not folder.exists() and not options.relations:
                continue
            count, snapshot, rows = compact_feed(program, relation, folder, frozenset(map(str, read)))
            print(
                f"{relation}: {count} files became {snapshot} ({rows} rows)"
                if snapshot
                else f"{relation}: no files to compact that {name} has read"
            )
        return 0

    return exit_code_of("compact-feeds", work)
