"""The command line of a program whose state is one SQLite file."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..job.command_line import Command, CommandCall, run_commands
from ..job.report import tuples_text
from ..job.shared_options import (
    Parser,
    add_all_inserts,
    add_format,
    add_functions,
    add_limits,
    add_nulls,
    add_only_rows,
    add_op_column,
    add_printing,
    option,
    positive,
    seconds_option,
    several,
)
from ..row_kernel.model import RowProgram
from .commands import (
    apply_given,
    backup_file,
    changes_file,
    follow_folder,
    history_file,
    init_file,
    revert_file,
    show_file,
    status_file,
    verify_file,
)
from .reading import SET_ASIDE
from .schema import CLOCK, ORDERED

add_state_file = several(
    add_printing, option("--state", required=True, metavar="FILE", help="the SQLite file of the state")
)

add_log = option("--log", dest="log_file", metavar="FILE", help="append one line per event to this file")


def add_order(parser: Parser, program: RowProgram) -> None:
    """Add the option for the order of changes, if the script reads it."""
    if ORDERED:
        ORDERED["option"](parser, program)


def add_aside(parser: Parser, program: RowProgram) -> None:
    """Add the option that sets bad rows aside, if the script does."""
    if SET_ASIDE:
        SET_ASIDE["option"](parser, program)


def add_time(parser: Parser, program: RowProgram) -> None:
    """Add the option for the time, if the script has it."""
    if CLOCK:
        CLOCK["option"](parser, program)


add_batch_options = several(
    add_op_column,
    option("--net", choices=["insert"], help="keep rows that are both deleted and inserted (default: refuse them)"),
    add_all_inserts,
    add_nulls,
    add_order,
    add_aside,
)

add_commits_kept = option(
    "--keep",
    metavar="N|TIME",
    help="how many commits keep their changes, or for how long, such as 7d, 12h or 90m (default: 1000)",
)
add_work = several(add_state_file, add_log, add_functions, add_limits)


def report_file_status(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that describe the state."""
    yield f"{result['program']}: commit {result['commit']}, batch {result['batch']}, {result['bytes']:,} bytes"
    for name, rows in result["rows"].items():
        yield f"  {name}: {tuples_text(rows)}"
    for name, kept in result.get("sequences", {}).items():
        since = f", those of dead keys since {kept['pruned']}" if kept["pruned"] else ""
        yield f"  {name} keeps {kept['keys']:,} sequences by {kept['column']}{since}"
    yield f"changes are kept from commit {result['kept_from']} on"


def report_file_verify(
    result: Mapping[str, Any], advice: str = "`flintlog job rebuild SCRIPT --state FILE` computes all relations again"
) -> Iterator[str]:
    """Yield the first ten differences and their number, with advice, or a line that says that the state is exact."""
    for difference in result["differences"][:10]:
        yield "  ".join(f"{name}: {value}" for name, value in difference.items())
    if result["differences"]:
        number = len(result["differences"])
        yield f"{number} differences; {advice}"
    else:
        rows = tuples_text(sum(result["rows"].values()))
        yield f"commit {result['commit']} is exact: {rows}, {result['seconds']:.1f} s"


def report_file_history(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each commit, and lines for what it changed."""
    for record in result["commits"]:
        notes = [f"reverts {record['reverts']}"] if "reverts" in record else []
        notes += [] if record["kept"] else ["not kept"]
        told = f"; {', '.join(notes)}" if notes else ""
        moment = record["time"].replace("T", " ").partition(".")[0]
        yield f"commit {record['commit']}: {record['batch']}, {record['command']}, {moment}{told}"
        for name, change in record["changes"].items():
            yield f"  {name} +{change['inserted']:,} -{change['deleted']:,}"
    yield f"changes are kept from commit {result['kept_from']} on"


def report_backup(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line about the copy."""
    yield f"{result['file']} has commit {result['commit']}, {result['bytes']:,} bytes, {result['seconds']:.1f} s"


FILE_COMMANDS = (
    Command(
        "init",
        "build a state",
        "Build the state from rows of the input relations, in a new SQLite file.",
        (
            add_work,
            option(
                "--input",
                dest="inputs",
                action="append",
                default=[],
                metavar="REL=PATH|DIR",
                help="the rows of an input relation (CSV, JSON Lines, or a folder of such files), or a folder with a "
                "file or folder for each relation; can be repeated",
            ),
            add_only_rows,
            add_nulls,
            add_aside,
            add_time,
            add_commits_kept,
        ),
        lambda call: init_file(call.program, log=call.log, **call.options),
    ),
    Command(
        "apply",
        "apply a batch of changes",
        "Apply a batch of changes in one transaction. A change has the columns of its relation and an operation: + or "
        "-, insert or delete, Debezium's c, u, d and r, or Delta's _change_type.",
        (
            add_work,
            option(
                "--changes",
                action="append",
                metavar="DIR|FILE|REL=PATH",
                help="a file or folder named after its relation, a folder of these, or REL=PATH; can be repeated",
            ),
            option(
                "--batches",
                metavar="DIR",
                help="a folder of batches: apply each subfolder, in the order of their names; its name is the ID of "
                "the batch",
            ),
            option(
                "--batch",
                metavar="ID",
                help="the ID of the batch; applying an ID again changes nothing (default: a new ID)",
            ),
            add_batch_options,
            add_time,
        ),
        apply_given,
    ),
    Command(
        "follow",
        "apply batches as they arrive",
        "Apply the batches in a folder, and those that arrive there, until SIGTERM or SIGINT. Give a batch a name that "
        "begins with a dot while it is being written.",
        (
            add_work,
            option(
                "--batches",
                metavar="DIR",
                help="a folder: each subfolder is a batch, and its name is the ID of the batch",
            ),
            option(
                "--poll",
                type=seconds_option,
                default=0.5,
                metavar="SECONDS",
                help="the interval at which to look for batches (default: %(default)s)",
            ),
            add_batch_options,
        ),
        follow_folder,
    ),
    Command(
        "status",
        "describe the state",
        "Print what the state contains.",
        (add_state_file,),
        lambda call: status_file(call.program, **call.options),
        report_file_status,
    ),
    Command(
        "show",
        "print a relation",
        "Print the tuples of a relation.",
        (
            add_state_file,
            option("relation", metavar="REL", help="the relation"),
            option("--at", metavar="LOCATION", help="print only the tuples at this location"),
            option("--support", action="store_true", help="also print the support and rank stored with the tuples"),
            add_format("tuples"),
        ),
        lambda call: show_file(call.program, form=call.form(), **call.options),
    ),
    Command(
        "verify",
        "compare the state with the rules",
        "Check the file, recount all derivations from the rules and compare them with the state. Exit with 1 if they "
        "differ.",
        (add_state_file, add_log, add_functions),
        lambda call: verify_file(call.program, log=call.log, **call.options),
        report_file_verify,
    ),
    Command(
        "changes",
        "print the changes of a relation",
        "Print by what rows an input or an output differs between two commits.",
        (
            add_state_file,
            option("relation", metavar="REL", help="the relation"),
            option("--since", type=positive, required=True, metavar="COMMIT", help="the earlier commit"),
            option("--until", type=positive, metavar="COMMIT", help="the later commit (default: the last one)"),
            add_format("changes"),
        ),
        lambda call: changes_file(call.program, form=call.form(), **call.options),
    ),
    Command(
        "history",
        "list the commits",
        "List the last commits, the newest first: what made each of them, when, and what it changed.",
        (add_state_file, option("--limit", type=positive, metavar="N", help="list at most N commits")),
        lambda call: history_file(call.program, **call.options),
        report_file_history,
    ),
    Command(
        "revert",
        "undo a batch",
        "Undo what one batch has done to the inputs, as a batch of its own.",
        (
            add_work,
            option("reverted", metavar="BATCH", help="the ID of the batch to undo"),
            option("--batch", metavar="ID", help="the ID of the new batch (default: a new ID)"),
        ),
        lambda call: revert_file(call.program, log=call.log, **call.options),
    ),
    Command(
        "backup",
        "copy the state",
        "Copy the state, as of its last commit, to a new file, while others may read it and write to it.",
        (add_state_file, option("--to", required=True, metavar="FILE", help="the new file")),
        lambda call: backup_file(call.program, **call.options),
        report_backup,
    ),
)
"""The commands of scripts whose state is a database."""

OTHERS = {"connect", "explain", "move", "rebuild", "upgrade", "vacuum"}
"""The commands that only ``flintlog job`` has."""


def run_file_command(
    program: RowProgram,
    argv: Sequence[str] | None = None,
    commands: Sequence[Command] = FILE_COMMANDS,
    called: str = "",
) -> int:
    """Run the command that ``argv``, by default the command line, asks for; return its exit code. ``called`` is as for
    :func:`run_commands`."""
    by_name = {command.name: command for command in commands}

    def lacking(asked: str, given: Sequence[str]) -> str:
        return f"this script lacks {asked}: run `flintlog job {asked} SCRIPT`" if asked in OTHERS - {*by_name} else ""

    return run_commands(program, by_name, functools.partial(CommandCall, program), argv, called, lacking)
