"""The commands of a state in one SQLite file that only ``flintlog job`` has."""

from __future__ import annotations

from typing import Any

from ..explain.proofs import report_explanation
from ..job.command_line import Command
from ..job.shared_options import add_asked, add_functions, add_nulls, add_only_rows, add_sequences_removed, option
from . import clock, parquet, passing_time, sequences
from .command_list import FILE_COMMANDS, add_state_file, add_work
from .explain import explain_file
from .reading import RowReading
from .recompute import rebuild_file, report_recomputed, upgrade_file
from .vacuum import report_file_vacuum, vacuum_file

assert all((clock, parquet, passing_time, sequences)), "registered"

add_inputs = option(
    "--input",
    dest="inputs",
    action="append",
    default=[],
    metavar="REL=PATH|DIR",
    help="rows that replace the stored ones of an input relation; can be repeated",
)


def with_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Return options of a command with those of reading as one."""
    own = {name: options[name] for name in ("all_inserts", "nulls")}
    rest = {name: value for name, value in options.items() if name not in own}
    return {**rest, "reading": RowReading(True, **own)}


ALL_FILE_COMMANDS = (
    *FILE_COMMANDS,
    Command(
        "explain",
        "explain why a tuple is there, or why not",
        "Print a proof of a tuple from input rows. For a tuple that is not there, print how far each rule gets.",
        (add_state_file, add_functions, add_asked),
        lambda call: explain_file(call.program, **call.options),
        report_explanation,
    ),
    Command(
        "upgrade",
        "convert the state of another version of the program",
        "Convert the state of another version of the program to this one: compute all relations again from the "
        "stored inputs, in one transaction. Rows that are given replace stored ones.",
        (add_work, add_inputs, add_only_rows, add_nulls),
        lambda call: upgrade_file(call.program, log=call.log, **with_reading(call.options)),
        report_recomputed,
    ),
    Command(
        "rebuild",
        "compute all relations again",
        "Compute all relations again from the stored inputs, in one transaction. Rows that are given replace stored "
        "ones.",
        (add_work, add_inputs, add_only_rows, add_nulls),
        lambda call: rebuild_file(call.program, log=call.log, **with_reading(call.options)),
        report_recomputed,
    ),
    Command(
        "vacuum",
        "remove sequences of keys, and give room back",
        "Remove the sequences of keys that are not needed any more, and make the file as small as it can be.",
        (add_state_file, add_sequences_removed),
        lambda call: vacuum_file(call.program, **call.options),
        report_file_vacuum,
    ),
)
"""The commands of ``flintlog job`` for a state in one SQLite file."""
