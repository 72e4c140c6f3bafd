"""Parts of the runtime that a script can lack: commands that few jobs need, feeds, and tables of output relations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import JobError

PARTS = {
    "operations": "the commands changes, export, history, import, revert, rollback and vacuum",
    "delta": "feeds from Delta tables, and output relations as Delta tables",
    "files": "feeds from folders of change files",
    "iceberg": "feeds from Iceberg tables, and output relations as Iceberg tables",
    "kafka-debezium": "feeds from topics with Debezium's events",
    "quarantine": "the option --quarantine, which sets bad rows of inputs aside",
    "matrices": "recursions as sparse matrices, with GraphBLAS where it is installed",
    "table": "feeds from tables that Spark reads",
    "openlineage": "the option --openlineage, which sends events about batches",
    "micro-batches": "the function apply_micro_batch, for streaming queries",
}
"""What each part contains."""

FEED_PARTS = ("delta", "files", "iceberg", "kafka-debezium", "table")
"""The parts with a kind of feed, which has the same name."""

TABLE_PARTS = ("delta", "iceberg")
"""The parts with a kind of output tables, which has the same name."""

FEEDS = "the part of the feed"
"""What commands need that are for feeds of any kind."""

COMMANDS_OF_PARTS = {
    "connect": FEEDS,
    **dict.fromkeys(("changes", "export", "history", "import", "revert", "rollback", "vacuum"), "operations"),
}
"""The part that has a command."""

FUNCTIONS_OF_PARTS = {
    **{name: part for name, part in COMMANDS_OF_PARTS.items() if name != "import"},
    "import_archive": "operations",
    "apply_micro_batch": "micro-batches",
}
"""The part that has a function of jobs."""

TABLE_KINDS: dict[str, Any] = {}
"""The formats of output tables (``TableKind``), by what their places begin with. Their modules register them."""

FURTHER: dict[str, Callable[..., Any]] = {}
"""Functions of parts that the rest of the runtime calls, by their names. The modules of the parts register them."""


def further(name: str, part: str, purpose: str) -> Callable[..., Any]:
    """Return a function of a part that a ``purpose``, a noun, needs; raise JobError if the script lacks the part."""
    if name not in FURTHER:
        raise lacking_part(part, purpose)
    return FURTHER[name]


def lacking_part(part: str, purpose: str) -> JobError:
    """Return the error for a purpose, a noun, that needs a part which the script lacks."""
    one, *others = FEED_PARTS if part == FEEDS else (part,)
    hint = f", or with the part of another kind of feed: {', '.join(others)}" if others else ""
    return JobError(f"{purpose} is not in this script: compile the program with `flintlog compile --with {one}`{hint}")
