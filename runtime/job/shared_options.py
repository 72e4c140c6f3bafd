"""The options of commands, in groups that commands share."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from ..engines.options import ENGINES, empty_argument, memory_option
from ..explain.proofs import MOST_PROOF_TUPLES
from ..inputs.values import NULLS_CHOICES
from ..kernel.errors import without_keys
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, Program
from ..store.manifest import COMMITS_KEPT
from ..store.published_names import LOCATION


class Parser(argparse.ArgumentParser):
    """A parser whose error messages hide keys in URIs, and which takes no empty arguments."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line, whose empty arguments are variables that are not set."""
        given = sys.argv[1:] if args is None else [*args]
        empty = empty_argument(given)
        if empty:
            self.error(empty)
        return super().parse_args(given, namespace)

    def error(self, message: str) -> NoReturn:
        """Print the message and the usage; exit with 2."""
        super().error(without_keys(message).encode(errors="backslashreplace").decode())


AddOptions: TypeAlias = Callable[[Parser, Any], None]
"""Adds options to the parser of a command of a program."""


def option(*names: str, **settings: Any) -> AddOptions:
    """Return what adds an option, or an argument, with the settings of ``add_argument``."""

    def add(parser: Parser, program: Any) -> None:
        parser.add_argument(*names, **settings)

    return add


def several(*groups: AddOptions) -> AddOptions:
    """Return what adds several groups of options."""

    def add(parser: Parser, program: Any) -> None:
        for group in groups:
            group(parser, program)

    return add


def seconds_option(text: str) -> float:
    """Return the text of an option as a number of seconds; raise ValueError unless it is positive."""
    seconds = pause_option(text)
    if not seconds:
        raise ValueError(f"{text} is not a positive number")
    return seconds


def pause_option(text: str) -> float:
    """Return the text of an option as a number of seconds; raise ValueError unless it is positive or zero, and at most
    what a thread can wait."""
    seconds = float(text)
    if not 0 <= seconds <= threading.TIMEOUT_MAX:
        raise ValueError(f"{text} is not a number of seconds")
    return seconds


def positive(text: str) -> int:
    """Return the text of an option as an integer, at most the greatest that places can be counted by; raise ValueError
    if it is less than 1."""
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return min(number, sys.maxsize)


add_printing = several(
    option("--json", action="store_true", help="print the result, or the error, as JSON on the last line"),
    option("--quiet", action="store_true", help="print only warnings on stderr, no progress"),
)
"""The options of all commands."""

add_state = several(
    add_printing, option("--state", required=True, metavar="DIR", help="the folder of the state, or its URI")
)
"""The options of a command with a state."""

add_engine = option(
    "--engine",
    choices=ENGINES,
    default="auto",
    help="the engine that evaluates rules (default: auto, which prefers DuckDB)",
)

add_working = several(
    option("--log", dest="log_file", metavar="FILE", help="append one line per event to this file"),
    add_engine,
    option(
        "--memory-limit",
        type=memory_option,
        default="",
        metavar="SIZE",
        help="the memory limit of DuckDB in a task, such as 2GB (default: from the executor's memory)",
    ),
)
"""The options that say how rules are evaluated."""

add_place = option(
    "--on",
    choices=["auto", "here", "spark"],
    default="auto",
    help="where to run: in this process, or on Spark (default: auto, which is Spark if spark-submit has started "
    "the job, if a Spark session is active, or for --engine spark)",
)


def add_functions(parser: Parser, program: Any) -> None:
    """Add the option that names the file with external functions, if there are any."""
    if program.functions:
        parser.add_argument(
            "--functions",
            required=True,
            metavar="FILE.py",
            help="the Python file that defines " + ", ".join(map(str, program.functions)),
        )


def has_derivations(program: Any) -> bool:
    """Return whether a program keeps live proofs or derivation sets."""
    return any(relation.kind in ("entries", "proofs") for relation in program.relations)


def is_explained(program: Program) -> bool:
    """Return whether a program has what only ``explain`` needs; it can be compiled without."""
    rules = [rule for stage in program.stages for stratum in stage.strata for rule in stratum.rules]
    return not rules or any(rule.asked for rule in rules)


def add_entries_option(parser: Parser, program: Any) -> None:
    """Add the option that prints derivations, if there are any."""
    if has_derivations(program):
        parser.add_argument(
            "--entries",
            action="store_true",
            help="print each tuple of a recursion with its derivation sets, or its live proof",
        )


add_rounds = option(
    "--max-rounds",
    type=positive,
    default=MOST_ROUNDS,
    metavar="N",
    help="refuse the batch if a recursion has not ended after N rounds (default: %(default)s)",
)


def add_limits(parser: Parser, program: Any) -> None:
    """Add the limits of recursions."""
    add_rounds(parser, program)
    if any(relation.kind == "entries" for relation in program.relations):
        parser.add_argument(
            "--max-entries",
            type=positive,
            default=MOST_ENTRIES,
            metavar="N",
            help="refuse the batch if a recursion has more than N derivation sets (default: %(default)s)",
        )


add_running = several(add_place, add_working, add_functions, add_limits)
"""The options of a command that runs a batch."""


def add_as_of(parser: Parser, program: Any) -> None:
    """Add the option for the time of the batch, if the program reads it."""
    if program.clock is not None:
        parser.add_argument(
            "--as-of",
            metavar="TIME",
            help="the time of the batch in UTC, such as 2026-03-01 or '2026-03-01 12:00:00' (default: that of the "
            "clock)",
        )


add_nulls = option(
    "--nulls",
    choices=NULLS_CHOICES,
    default="refuse",
    help="what to do with a row that has a null in a column that is never null: refuse it with all others "
    "(default), or skip and count it",
)

add_quarantine = option(
    "--quarantine",
    metavar="DIR",
    help="set bad rows aside in files below this folder and go on with the others (default: refuse them all)",
)

add_op_column = option("--op-column", default="op", metavar="NAME", help="the operation column (default: op)")

add_all_inserts = option(
    "--all-inserts",
    action="store_true",
    help="insert the rows of files without an operation column (default: refuse these files)",
)

add_only_rows = option("--all-inserts", action="store_true", help="treat no column of the rows as an operation column")

add_rows = several(
    option(
        "--input",
        dest="inputs",
        action="append",
        default=[],
        metavar="REL=PATH|DIR",
        help="the rows of an input relation (CSV, JSON Lines, Parquet, a folder of such files, or table:NAME), or a "
        "folder with a file or folder for each relation; can be repeated",
    ),
    add_only_rows,
    add_nulls,
    add_quarantine,
)
"""The options that give rows of inputs."""

add_buckets = option(
    "--buckets",
    type=positive,
    metavar="N",
    help="the number of buckets of a relation (default: the number of task slots; rebuild keeps the number)",
)

add_strategy = option(
    "--strategy",
    choices=["auto", "incremental", "recompute"],
    default="auto",
    help="update relations incrementally or recompute them (default: the cheaper way for each relation)",
)

add_reading = several(
    add_op_column,
    option("--order-column", metavar="NAME", help="the column that orders changes; the last change wins"),
    option(
        "--net",
        choices=["insert"],
        help="without --order-column: keep rows that are both deleted and inserted (default: refuse them)",
    ),
    add_all_inserts,
    add_nulls,
    add_quarantine,
    add_strategy,
)
"""The options of a command that applies changes."""


add_asked = several(
    option("asked", metavar="TUPLE", help="""for example 'reachable(1, "x")'; values are written as in a program"""),
    option(
        "--limit",
        type=positive,
        default=MOST_PROOF_TUPLES,
        metavar="N",
        help="print at most N tuples of the proof (default: %(default)s)",
    ),
)
"""The options of a command that explains a tuple."""


def add_format(most: str) -> AddOptions:
    """Return what adds the options of a command that prints rows, ``most`` being what it prints at most."""
    return several(
        option(
            "--format", choices=["table", "csv", "json"], default="table", help="the output format (default: table)"
        ),
        option("--limit", type=positive, metavar="N", help=f"print at most N {most}"),
    )


add_publish = option("--publish", metavar="DIR", help="the folder for published changes (default: STATE/published)")

add_cut = option(
    "--publish-by",
    choices=[LOCATION],
    help="publish the changes of located relations (@) in a folder for each location",
)

add_keeping = option(
    "--keep",
    metavar="N|TIME",
    help="how many commits the state keeps from now on, or for how long, such as 7d, 12h or 90m (default of init: "
    f"{COMMITS_KEPT} commits)",
)

add_metrics = option(
    "--metrics", metavar="FILE", help="append a line of JSON for each batch, or for a failure, to this file"
)

add_watching = several(
    option(
        "--openlineage",
        action="store_true",
        help="send events about batches, as the Python client of OpenLineage is configured",
    ),
    add_metrics,
)
"""The options of a command whose batches can be watched."""

add_sequences_removed = several(
    option(
        "--tombstones",
        action="append",
        default=[],
        metavar="REL=DISTANCE",
        help="remove the sequences of dead keys of this relation that are further behind its newest sequence",
    ),
    option(
        "--forget-sequences",
        action="append",
        default=[],
        metavar="REL",
        help="remove all sequences of this relation, which keeps none from now on",
    ),
)
