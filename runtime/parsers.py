"""The parsers of command lines: options that commands share, and what parts of the runtime add."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .errors import without_keys
from .inputs.nulls import NULLS_CHOICES
from .locations import LOCATION
from .log import Log
from .metrics import MEASURED
from .model import Program


class Parser(argparse.ArgumentParser):
    """A parser whose error messages hide keys in URIs."""

    def error(self, message: str) -> NoReturn:
        """Print the message and the usage; exit with 2."""
        super().error(without_keys(message))


@dataclass(frozen=True)
class Shared:
    """The parsers with options that several commands have, which are parents of theirs: those of all commands
    (``common``), of all that print a result (``printing``), where they run (``placed``), how they evaluate rules
    (``working``), the external functions (``calling``), all that a batch needs (``running``), rows of inputs
    (``giving``, and with buckets ``building``), how changes are published (``publishing``) and where (``placing``), and
    how many commits are kept (``keeping``)."""

    printing: Parser
    common: Parser
    placed: Parser
    working: Parser
    calling: Parser
    running: Parser
    giving: Parser
    building: Parser
    publishing: Parser
    placing: Parser
    keeping: Parser


@dataclass(frozen=True)
class CommandPart:
    """What a part of the runtime adds to the command line: it can ``add`` parsers of commands, and options to those of
    others, which are given by their names, and it ``runs`` commands, given their arguments and whether to print JSON. A
    command that prints what it finds returns nothing, another one its result."""

    add: Callable[[Program, Any, Shared, Mapping[str, argparse.ArgumentParser]], None]
    runs: Mapping[str, Callable[[Program, Log, bool, dict[str, Any]], Mapping[str, Any] | None]]


COMMAND_PARTS: dict[str, CommandPart] = {}
"""What the parts of the runtime that are there add, by their names. Their modules register them."""


WATCHED = ("init", "apply", "follow", "rollback", "revert", "rebuild", "upgrade")
"""The commands whose batches can be watched."""


def add_command(
    commands: Any, name: str, parents: Sequence[argparse.ArgumentParser], help: str, description: str
) -> argparse.ArgumentParser:
    """Add a command with the options of ``parents``; return its parser."""
    parser: argparse.ArgumentParser = commands.add_parser(name, parents=parents, help=help, description=description)
    if name in WATCHED:
        parser.add_argument(
            "--openlineage",
            action="store_true",
            help="send events about batches, as the Python client of OpenLineage is configured",
        )
    if name in MEASURED:
        parser.add_argument(
            "--metrics", metavar="FILE", help="append a line of JSON for each batch, or for a failure, to this file"
        )
    return parser


def add_reading(applying: argparse.ArgumentParser) -> None:
    """Add the options of a command that applies changes."""
    applying.add_argument("--op-column", default="op", metavar="NAME", help="the operation column (default: op)")
    applying.add_argument("--order-column", metavar="NAME", help="the column that orders changes; the last change wins")
    applying.add_argument(
        "--net",
        choices=["insert"],
        help="without --order-column: keep rows that are both deleted and inserted (default: refuse them)",
    )
    applying.add_argument(
        "--all-inserts",
        action="store_true",
        help="insert the rows of files without an operation column (default: refuse these files)",
    )
    add_nulls(applying)
    add_quarantine(applying)
    add_strategy(applying)


def add_strategy(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how relations are updated."""
    parser.add_argument(
        "--strategy",
        choices=["auto", "incremental", "recompute"],
        default="auto",
        help="update relations incrementally or recompute them (default: the cheaper way for each relation)",
    )


def add_format(parser: argparse.ArgumentParser, most: str) -> None:
    """Add the options of a command that prints rows, ``most`` being what it prints at most."""
    parser.add_argument(
        "--format", choices=["table", "csv", "json"], default="table", help="the output format (default: table)"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help=f"print at most N {most}")


def add_nulls(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what is done with nulls."""
    parser.add_argument(
        "--nulls",
        choices=NULLS_CHOICES,
        default="refuse",
        help="what to do with a row that has a null in a column that is never null: refuse it with all others "
        "(default), or skip and count it",
    )


def add_quarantine(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where bad rows are set aside."""
    parser.add_argument(
        "--quarantine",
        metavar="DIR",
        help="set bad rows aside in files below this folder and go on with the others (default: refuse them all)",
    )


def add_publish(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where changes are published."""
    parser.add_argument("--publish", metavar="DIR", help="the folder for published changes (default: STATE/published)")


def add_cut(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how published changes are cut."""
    parser.add_argument(
        "--publish-by",
        choices=[LOCATION],
        help="publish the changes of located relations (@) in a folder for each location",
    )


def add_place(parser: argparse.ArgumentParser) -> None:
    """Add the option that says where tasks run."""
    parser.add_argument(
        "--on",
        choices=["auto", "here", "spark"],
        default="auto",
        help="where to run: in this process, or on Spark (default: auto, which is Spark if spark-submit has started "
        "the job, if a Spark session is active, or for --engine spark)",
    )


def seconds_option(text: str) -> float:
    """Return the text of an option as a number of seconds; raise ValueError unless it is positive."""
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise ValueError(f"{text} is not a positive number")
    return seconds


def positive(text: str) -> int:
    """Return the text of an option as an integer; raise ValueError if it is less than 1."""
    number = int(text)
    if number < 1:
        raise ValueError(f"{number} is less than 1")
    return number
