"""The command line of a compiled program."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .commands.apply import apply_batch
from .commands.compact import compact_state
from .commands.explain import explain_tuple
from .commands.follow import apply_batches, follow_batches, until_signal
from .commands.init import init_state
from .commands.rebuild import rebuild_state
from .commands.recover import recover_state
from .commands.report import REPORTS
from .commands.show import print_relation
from .commands.status import state_status
from .commands.upgrade import upgrade_state
from .commands.verify import verify_state
from .errors import JobError, Passing, Refused, failure, remember_keys, without_keys
from .explain import MOST_PROOF_TUPLES
from .log import Log
from .manifest import COMMITS_KEPT
from .metrics import Metrics
from .model import MOST_ENTRIES, MOST_ROUNDS, Program
from .options import ENGINES, memory_option
from .parsers import (
    COMMAND_PARTS,
    Parser,
    Shared,
    add_command,
    add_cut,
    add_format,
    add_nulls,
    add_place,
    add_publish,
    add_quarantine,
    add_reading,
    positive,
    seconds_option,
)
from .parts import COMMANDS_OF_PARTS, FEEDS, FURTHER, further, lacking_part
from .printing import discard_output, value_text, visible, visible_lines
from .session import choose_executor, submitted


def command_line(program: Program) -> argparse.ArgumentParser:
    """Return the parser of the command line: all commands and their options."""
    inputs = ", ".join(sorted(r.name for r in program.relations if r.kind == "input")) or "none"
    parser = Parser(
        description=f"Keep the views of {program.name} exact while its inputs change. Input relations: {inputs}.",
        epilog="Exit codes: 0 for success, 1 for a failure, refused input or differences, 2 for a wrong command line.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    printing = Parser(add_help=False)
    printing.add_argument(
        "--json", action="store_true", help="print the result, or the error, as JSON on the last line"
    )
    printing.add_argument("--quiet", action="store_true", help="print only warnings on stderr, no progress")
    common = Parser(add_help=False, parents=[printing])
    common.add_argument("--state", required=True, metavar="DIR", help="the folder of the state, or its URI")
    working = Parser(add_help=False)
    working.add_argument("--log", dest="log_file", metavar="FILE", help="append one line per event to this file")
    working.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="the engine that evaluates rules (default: auto, which prefers DuckDB)",
    )
    working.add_argument(
        "--memory-limit",
        type=memory_option,
        default="",
        metavar="SIZE",
        help="the memory limit of DuckDB in a task, such as 2GB (default: from the executor's memory)",
    )
    placed = Parser(add_help=False)
    add_place(placed)
    calling = Parser(add_help=False)
    if program.functions:
        calling.add_argument(
            "--functions",
            required=True,
            metavar="FILE.py",
            help="the Python file that defines " + ", ".join(map(str, program.functions)),
        )
    running = Parser(add_help=False, parents=[placed, working, calling])
    running.add_argument(
        "--max-rounds",
        type=positive,
        default=MOST_ROUNDS,
        metavar="N",
        help="refuse the batch if a recursion has not ended after N rounds (default: %(default)s)",
    )
    if any(relation.kind == "entries" for relation in program.relations):
        running.add_argument(
            "--max-entries",
            type=positive,
            default=MOST_ENTRIES,
            metavar="N",
            help="refuse the batch if a recursion has more than N derivation sets (default: %(default)s)",
        )
    giving = Parser(add_help=False)
    giving.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="REL=PATH|DIR",
        help="the rows of an input relation (CSV, JSON Lines, Parquet, a folder of such files, or table:NAME), or a "
        "folder with a file or folder for each relation; can be repeated",
    )
    giving.add_argument(
        "--all-inserts",
        action="store_true",
        help="treat no column of the rows as an operation column",
    )
    add_nulls(giving)
    add_quarantine(giving)
    building = Parser(add_help=False, parents=[giving])
    building.add_argument(
        "--buckets",
        type=positive,
        metavar="N",
        help="the number of buckets of a relation (default: the number of task slots; rebuild keeps the number)",
    )

    publishing = Parser(add_help=False)
    add_cut(publishing)
    placing = Parser(add_help=False)
    add_publish(placing)
    keeping = Parser(add_help=False)
    keeping.add_argument(
        "--keep",
        metavar="N|TIME",
        help="how many commits the state keeps from now on, or for how long, such as 7d, 12h or 90m (default of init: "
        f"{COMMITS_KEPT} commits)",
    )

    found = {}
    found["init"] = add_command(
        commands,
        "init",
        [common, building, running, keeping],
        "build the state",
        "Build the state from the rows of the input relations. An input relation that neither is given nor was "
        "connected starts empty.",
    )
    found["apply"] = applying = add_command(
        commands,
        "apply",
        [common, running, publishing, placing],
        "apply a batch of changes",
        "Apply a batch of changes and publish the resulting changes of output relations. Without --changes and "
        "--batches, apply everything that is new in the connected feeds. A change has the columns of "
        "its relation and an operation: + or -, insert or delete, Debezium's c, u, d and r, or Delta's _change_type.",
    )
    given = applying.add_mutually_exclusive_group()
    given.add_argument(
        "--changes",
        action="append",
        metavar="DIR|FILE|REL=PATH",
        help="a file or folder named after its relation, a folder of these, or REL=PATH; can be repeated",
    )
    given.add_argument(
        "--batches",
        metavar="DIR",
        help="a folder of batches: apply each subfolder, in the order of their names; its name is the ID of the batch",
    )
    applying.add_argument(
        "--batch", metavar="ID", help="the ID of the batch; applying an ID again changes nothing (default: a new ID)"
    )
    add_reading(applying)
    found["follow"] = following = add_command(
        commands,
        "follow",
        [common, running, publishing, placing],
        "apply batches as they arrive",
        "Apply what is new in the connected feeds again and again, or the batches in a folder, and those that arrive "
        "there, until SIGTERM or SIGINT. Give a batch a name that "
        "begins with a dot while it is being written.",
    )
    following.add_argument(
        "--batches",
        metavar="DIR",
        help="instead of feeds, a folder: each subfolder is a batch, and its name is the ID of the batch",
    )
    following.add_argument(
        "--poll",
        type=seconds_option,
        default=0.5,
        metavar="SECONDS",
        help="the interval at which to look for batches (default: %(default)s)",
    )
    add_reading(following)
    add_command(
        commands,
        "status",
        [common],
        "describe the state",
        "Print what the state contains, and whether this version of the program wrote it.",
    )
    explaining = add_command(
        commands,
        "explain",
        [common, placed, calling],
        "explain why a tuple is there, or why not",
        "Print a proof of a tuple from input rows. For a tuple that is not there, print how far each rule gets.",
    )
    explaining.add_argument(
        "asked", metavar="TUPLE", help="""for example 'reachable(1, "x")'; values are written as in a program"""
    )
    explaining.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="the engine that evaluates queries (default: auto, which prefers DuckDB)",
    )
    explaining.add_argument(
        "--limit",
        type=positive,
        default=MOST_PROOF_TUPLES,
        metavar="N",
        help="print at most N tuples of the proof (default: %(default)s)",
    )
    showing = add_command(commands, "show", [common, placed], "print a relation", "Print the tuples of a relation.")
    showing.add_argument("relation", metavar="REL", help="the relation")
    showing.add_argument("--at", metavar="LOCATION", help="print only the tuples at this location")
    showing.add_argument(
        "--support", action="store_true", help="also print the support and rank stored with the tuples"
    )
    add_format(showing, "tuples")
    showing.add_argument("--as-of", type=positive, metavar="COMMIT", help="print the relation as of an earlier commit")
    if has_derivations(program):
        showing.add_argument(
            "--entries",
            action="store_true",
            help="print each tuple of a recursion with its derivation sets, or its live proof",
        )
        depending = add_command(
            commands,
            "depends",
            [printing],
            "list what depends on a fact",
            "List the tuples of recursions whose live proof, or one of whose derivation sets, contains a fact.",
        )
        depending.add_argument("asked", metavar="TUPLE", help="the fact, for example 'link(1, \"x\")'")
        depending.add_argument(
            "--state",
            dest="states",
            action="append",
            required=True,
            metavar="DIR",
            help="the folder of the state, or a folder with the homes of processes; can be repeated",
        )
        depending.add_argument(
            "--limit",
            type=positive,
            default=MOST_PROOF_TUPLES,
            metavar="N",
            help="print at most N tuples (default: %(default)s)",
        )
    add_command(
        commands,
        "verify",
        [common, placed, working, calling],
        "compare the state with the rules",
        "Recount all derivations from the rules and compare them with the state. Exit with 1 if they differ.",
    )
    add_command(
        commands,
        "rebuild",
        [common, building, running, publishing],
        "recompute all relations from the stored inputs",
        "Recompute all derived relations from the stored inputs, even if another version of the program wrote the "
        "state. Rows that are given replace stored ones.",
    )
    add_command(
        commands,
        "upgrade",
        [common, giving, running, publishing],
        "recompute the relations affected by a change of the program",
        "Convert the state of another version of the program, and recompute only the relations that the change "
        "affects. Rows that are given replace stored ones.",
    )
    add_command(
        commands,
        "compact",
        [common, placed, working],
        "merge files of changes into the files of relations",
        "Merge the files of changes into the files of relations. Tuples do not change.",
    )
    add_command(
        commands,
        "recover",
        [common],
        "return to the last commit that can be read",
        "Return to the last commit whose manifest can be read, if later ones are damaged, and remove the batches that "
        "these published. The batches can then be applied again.",
    )
    shared = Shared(printing, common, placed, working, calling, running, giving, building, publishing, placing, keeping)
    for part in COMMAND_PARTS.values():
        part.add(program, commands, shared, found)
    return parser


def has_derivations(program: Program) -> bool:
    """Return whether a program keeps live proofs or derivation sets."""
    return any(relation.kind in ("entries", "proofs") for relation in program.relations)


def print_lines(log: Log, lines: Iterable[str]) -> None:
    """Print the result of a command at once. What the command did does not fail because nobody reads its result."""
    try:
        print(*lines, sep="\n", flush=True)
    except BrokenPipeError:
        discard_output()
    except OSError as error:
        discard_output()
        log.warn(f"the result cannot be printed: {error.strerror}")


def run_command(program: Program, argv: Sequence[str] | None = None, carried: Mapping[str, str] | None = None) -> int:
    """Run the command that ``argv``, by default the command line, asks for. ``carried`` maps what nodes send each other
    to its name on arrival. Return 0 if it succeeded, 1 if it was refused or failed, or if verify found differences."""
    given = sys.argv[1:] if argv is None else argv
    for argument in given:
        remember_keys(argument)
    line = command_line(program)
    runs = {name: run for part in COMMAND_PARTS.values() for name, run in part.runs.items()}
    asked = next((argument for argument in given if not argument.startswith("-")), "")
    if asked in COMMANDS_OF_PARTS.keys() - runs.keys():
        line.error(str(lacking_part(COMMANDS_OF_PARTS[asked], f"the command {asked}")))
    arguments = vars(line.parse_args(given))
    command, as_json = arguments.pop("command"), arguments.pop("json")
    quiet, log_file = arguments.pop("quiet"), arguments.pop("log_file", None)
    measured, metrics, watched = arguments.pop("metrics", None), None, arguments.pop("openlineage", False)
    # Spark-submit sends the standard error of a driver to its standard output, which is for results.
    quiet = quiet or submitted()
    log = Log(quiet)

    def refuse(message: str, kind: str) -> int:
        log.clear()
        said = visible_lines(without_keys(f"{command}: {message}"))
        with contextlib.suppress(OSError):
            print(said, file=sys.stderr, flush=True)
        if metrics:
            metrics.add({"error": said, "kind": kind})
        if as_json:
            print_lines(log, [json.dumps({"program": program.name, "error": said, "kind": kind})])
        return 1

    def tell(result: Mapping[str, Any]) -> None:
        log.clear()
        if metrics:
            metrics.add(result)
        lines = [json.dumps(result, default=value_text)] if as_json else map(visible, REPORTS[command](result))
        print_lines(log, lines)

    def trouble(error: Passing) -> None:
        if metrics:
            metrics.add({"error": f"{command}: {error}", "kind": "passing"})

    try:
        if log_file:
            log = Log(quiet, log_file)
        if measured:
            metrics = Metrics(measured, program.name, command, arguments["state"], log)
        if watched:
            log.watcher = further("lineage", "openlineage", "sending events (--openlineage)")(program, log)
        if command in runs:
            told = runs[command](program, log, as_json, arguments)
            if told is None:
                return 0
            result = told
        elif command == "status":
            result = state_status(program, **arguments)
        elif command == "recover":
            result = recover_state(program, log=log, **arguments)
        elif command == "depends":
            result = FURTHER["depends"](program, carried=carried, **arguments)
        elif command == "show" and arguments.pop("entries", False):
            if arguments.pop("support"):
                raise JobError("--entries cannot be combined with --support")
            form, name = arguments.pop("format"), arguments.pop("relation")
            arguments.pop("on")
            FURTHER["entries"](program, name=name, form="json" if as_json else form, **arguments)
            return 0
        elif command == "show":
            executor = choose_executor(program.name, arguments.pop("on"))
            form, name = arguments.pop("format"), arguments.pop("relation")
            print_relation(program, executor, name=name, form="json" if as_json else form, **arguments)
            return 0
        else:
            several = bool(arguments.get("batches"))
            keep = several or command == "follow"
            executor = choose_executor(program.name, arguments.pop("on"), arguments["engine"], keep=keep)
            if command == "follow" and not several:
                arguments.pop("batches")
                poll = arguments.pop("poll")
                apply_once = functools.partial(apply_batch, program, executor, log=log, **arguments)
                with contextlib.suppress(KeyboardInterrupt):
                    follow_feeds = further("follow_feeds", FEEDS, "a feed to follow")
                    follow_feeds(apply_once, poll, tell, log, until_signal(), trouble)
                log.clear()
                return 0
            if several:
                if arguments.pop("feeds", None) or arguments.pop("resync", None):
                    raise JobError("--feed and --resync are for batches from feeds, without --changes and --batches")
                if arguments.pop("batch", None):
                    raise JobError("--batch cannot be combined with --batches, whose folders name their batches")
                arguments.pop("changes", None)
                if command == "follow":
                    # PySpark replaces the handler of SIGINT: the batch that was interrupted changes nothing.
                    with contextlib.suppress(KeyboardInterrupt):
                        ended = until_signal()
                        follow_batches(
                            program, executor, told=tell, log=log, ended=ended, troubled=trouble, **arguments
                        )
                else:
                    for one in apply_batches(program, executor, log=log, **arguments):
                        tell(one)
                log.clear()
                return 0
            arguments.pop("batches", None)
            if "input" in arguments:
                arguments["inputs"] = arguments.pop("input")
            by_name: dict[str, Callable[..., dict[str, Any]]]
            by_name = {
                "init": init_state,
                "apply": apply_batch,
                "explain": explain_tuple,
                "verify": verify_state,
                "rebuild": rebuild_state,
                "upgrade": upgrade_state,
                "compact": compact_state,
            }
            result = by_name[command](program, executor, log=log, **arguments)
    except JobError as error:
        kind = "passing" if isinstance(error, Passing) else "refused" if isinstance(error, Refused) else "error"
        return refuse(str(error), kind)
    except Exception as error:
        log.clear()
        if not failure(error):
            said = traceback.format_exc()
            if without_keys(said) == said:
                raise
            print(without_keys(said), file=sys.stderr)
            return 1
        return refuse(failure(error), "passing")
    finally:
        if log.watcher:
            log.watcher.close()
    tell(result)
    return 1 if result.get("differences") else 0
