"""Parts of the runtime that a script can lack: commands that few jobs need, feeds, tables of output relations, and
functions that users supply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernel.errors import JobError
from ..kernel.model import FunctionSource, SuppliedFunctions

PARTS = {
    "explain": "the commands explain and depends, and the option --entries of show",
    "operations": "the commands changes, compact, export, history, import, rebuild, recover, revert, rollback, upgrade "
    "and vacuum",
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
"""The contents of each part."""

FEED_PARTS = ("delta", "files", "iceberg", "kafka-debezium", "table")
"""The parts with a kind of feed, which has the same name."""

TABLE_PARTS = ("delta", "iceberg")
"""The parts with a kind of output tables, which has the same name."""

FEEDS = "the part of the feed"
"""The name of the part that commands for feeds of any kind need."""

COMMANDS_OF_PARTS = {
    "connect": FEEDS,
    **dict.fromkeys(("explain", "depends"), "explain"),
    **dict.fromkeys(("rebuild", "upgrade", "compact", "recover", "history", "changes", "rollback"), "operations"),
    **dict.fromkeys(("revert", "vacuum", "export", "import"), "operations"),
}
"""The part that has a command."""

FUNCTIONS_OF_PARTS = {
    **{name: part for name, part in COMMANDS_OF_PARTS.items() if name not in ("import", "depends")},
    "import_archive": "operations",
    "apply_micro_batch": "micro-batches",
}
"""The part that has a function of jobs."""

TABLE_KINDS: dict[str, Any] = {}
"""The formats of output tables (``TableKind``), by the beginnings of their places. Their modules register them."""

FURTHER: dict[str, Callable[..., Any]] = {}
"""Functions that modules below theirs call, or that not all scripts have, by their names. Their modules register
them."""


def further(name: str, part: str, purpose: str) -> Callable[..., Any]:
    """Return a function of a part that a ``purpose``, a noun, needs; raise JobError if the script lacks the part."""
    if name not in FURTHER:
        raise lacking_part(part, purpose)
    return FURTHER[name]


def supply(program: Any, given: FunctionSource) -> SuppliedFunctions | None:
    """Return the functions given to a program, None if it declares none; raise JobError for undeclared ones."""
    if given and not program.functions:
        raise JobError(f"{program.name} declares no `extern function`, but functions were given")
    supplied: SuppliedFunctions | None = FURTHER["functions"](program, given) if program.functions else None
    return supplied


def lacking_part(part: str, purpose: str, line: str = "COMMAND SCRIPT ...") -> JobError:
    """Return the error for a purpose, a noun, that needs a part which the script lacks; ``line`` is what to give to
    ``flintlog job``, which has all parts, and empty if that does not help."""
    one, *others = FEED_PARTS if part == FEEDS else (part,)
    hint = f", or with the part of another kind of feed: {', '.join(others)}" if others else ""
    run = f"run `flintlog job {line}` where the package flintlog is installed, or " if line else ""
    return JobError(
        f"{purpose} is not in this script: {run}compile the program with `flintlog compile --with {one}`{hint}"
    )
