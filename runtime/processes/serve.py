"""The ``serve`` command, which runs a process of the program.

A process takes in the messages of its channels and the files that it is fed, applies them to its state as a batch,
and sends on what changes. It does not depend on other processes being up, and there is no coordinator.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..cli import command_line, run_command
from ..errors import JobError, Passing, reason, without_keys
from ..log import Log
from ..model import MOST_ENTRIES, Program
from ..parsers import Parser, add_cut, add_place, positive
from ..printing import visible_lines
from ..session import choose_executor
from .across import explain_across
from .beat import Channels
from .channels import DirectoryChannels, Process, Seal, read_secret
from .compaction import compact_feed
from .feeds import feed_folder
from .kafka import KafkaChannels
from .nodes import ROUTER, Nodes
from .state import JobState
from .status import read_status
from .trouble import MOST_PAUSE, is_surroundings, with_causes
from .worker import Settings, Worker

#: What runs until it is told to end.
Running = TypeVar("Running")


def serve(
    program: Program,
    process: Process,
    root: str,
    home: str | None = None,
    lease: float = 5.0,
    hold: float = 0.0,
    poll: float = 0.1,
    channels: str | None = None,
    kafka_settings: str | None = None,
    functions: str | None = None,
    secret_file: str | None = None,
    on: str = "auto",
    max_entries: int = MOST_ENTRIES,
    publish_by: str | None = None,
    keep_published: bool = False,
) -> int:
    """Run the process until SIGTERM or SIGINT and return its exit code. ``lease``, ``hold`` and ``poll`` are in
    seconds. ``channels`` is a Kafka address, if the channels are not in ``root``; ``secret_file`` holds the secret of
    all processes, if they have one; ``on`` says where to run, as in ``choose_executor``. A recursion across processes
    may have ``max_entries`` tuples, or derivation sets, here. Changes may be published by ``location``;
    ``keep_published`` keeps those that were sent."""
    shared = Path(root)
    own = Path(home) if home else shared / "homes" / process.name
    settings = Settings(shared, own, lease, hold, keep_published)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    log = Log()
    seal = Seal(read_secret(secret_file) if secret_file is not None else b"")
    further = json.loads(Path(kafka_settings).read_text(encoding="utf-8")) if kafka_settings is not None else {}
    way: Channels = (
        KafkaChannels(channels, process, further, seal, log.warn)
        if channels is not None
        else DirectoryChannels(shared, seal, log.warn)
    )
    executor = choose_executor(program.name, on)
    log.event("runs", on=executor.name, reason=executor.why)

    def make() -> Worker:
        state = JobState(program, executor, own / "state", functions, max_entries, publish_by)
        return Worker(state, way, process, settings, log)

    worker = None
    try:
        worker = begun(make, ended, log)
    finally:
        if worker is None:
            way.close()
    if worker is None:
        return 0
    log.event("serving", process=process.name, incarnation=worker.incarnation.number)
    try:
        while not ended.is_set():
            busy, pause = worker.try_turn()
            if not busy:
                ended.wait(pause or poll)
    finally:
        worker.end()
    return 0


def begun(make: Callable[[], Running], ended: threading.Event, log: Log) -> Running | None:
    """Return a worker, or a router, as soon as one can start, retrying after system errors; None if ``ended`` is set
    before."""
    pause = 0.1
    while not ended.is_set():
        try:
            return make()
        except Exception as error:
            if not (is_surroundings(error) or any(isinstance(c, Passing) for c in with_causes(error))):
                raise
            pause = min(2 * pause, MOST_PAUSE)
            log.event("trouble", error=reason(error), again_in=pause)
            ended.wait(pause)
    return None


def process_main(program: Program, served: Process | Nodes, argv: Sequence[str]) -> int:
    """Run ``serve`` for a process, or for one of the nodes of a program, or run one of the commands of a job on the
    state of a process; return the exit code."""
    if argv[:1] in (["-h"], ["--help"]):
        commands = command_line(program)
        several = " For all nodes: route, changes, and show with --root." if isinstance(served, Nodes) else ""
        commands.epilog = (
            "The command serve runs the process, and compact-feeds compacts what it was fed; see serve --help and "
            f"compact-feeds --help. With --root, explain goes on at other processes.{several} {commands.epilog}"
        )
        commands.print_help()
        return 0
    if argv[:1] == ["compact-feeds"]:
        return compact_feeds(program, served, argv[1:])
    if argv[:1] in (["rollback"], ["revert"]):
        print(
            f"{argv[0]}: a process cannot take back what others have received; let them go on from a new state instead",
            file=sys.stderr,
        )
        return 1
    if argv[:1] == ["explain"] and any(argument.split("=")[0] == "--root" for argument in argv):
        return exit_code_of("explain", lambda: explain_across(program, served, argv[1:]))
    if argv[:1] != ["serve"]:
        routes = served.routes if isinstance(served, Nodes) else ()
        return run_command(program, argv, {route.output: route.input for route in routes})
    what = f"the process {served.name}" if isinstance(served, Process) else "a node"
    parser = process_parser(
        served,
        "serve",
        f"Run {what} until SIGTERM or SIGINT: apply the changes that arrive through its channels and feeds, and send "
        "the resulting changes to other processes.",
    )
    seconds: dict[str, Any] = {"type": float, "metavar": "SECONDS"}
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
        **seconds,
    )
    parser.add_argument("--poll", default=0.1, help="the interval at which to look for messages", **seconds)
    parser.add_argument(
        "--max-entries",
        type=positive,
        default=MOST_ENTRIES,
        metavar="N",
        help="end if a recursion across processes has more than N tuples or derivation sets (default: %(default)s)",
    )
    add_cut(parser)
    parser.add_argument(
        "--keep-published",
        action="store_true",
        help="keep the published changes of relations that other processes read after they were sent",
    )
    add_place(parser)
    if program.functions:
        parser.add_argument("--functions", required=True, metavar="FILE.py", help="the file with external functions")
    options = vars(parser.parse_args(argv[1:]))
    process = served.process(options.pop("node")) if isinstance(served, Nodes) else served
    return exit_code_of("serve", lambda: serve(program, process, **options))


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


def compact_feeds(program: Program, served: Process | Nodes, argv: Sequence[str]) -> int:
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
