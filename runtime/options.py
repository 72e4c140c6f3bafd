"""The options that say how a command evaluates strata."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass

from .errors import JobError
from .inputs.values import shown
from .model import MOST_ENTRIES, MOST_ROUNDS, SuppliedFunctions

ENGINES = ("auto", "duckdb", "matrices", "spark")
"""The engines that can be asked for: DuckDB with queries alone, or with matrices where rules allow them; or Spark."""


@dataclass(frozen=True)
class Options:
    """How to evaluate strata. ``engine`` is one of ENGINES; ``strategy`` is auto, incremental or recompute.
    ``memory_limit`` is that of DuckDB in a task, such as 2GB; if empty it is derived from the executor's memory."""

    buckets: int
    engine: str = "auto"
    max_rounds: int = MOST_ROUNDS
    max_entries: int = MOST_ENTRIES
    memory_limit: str = ""
    functions: SuppliedFunctions | None = None
    strategy: str = "auto"

    def __post_init__(self) -> None:
        """Raise JobError if an option has a value that it cannot have."""
        for name, known in (
            ("engine", ENGINES),
            ("strategy", ("auto", "incremental", "recompute")),
        ):
            if getattr(self, name) not in known:
                raise JobError(f"{name} is {shown(getattr(self, name))}; it can be {', '.join(known)}")
        for name in ("buckets", "max_rounds", "max_entries"):
            if getattr(self, name) < 1:
                raise JobError(f"{name} is {getattr(self, name)}; it is a number from 1 on")
        if self.memory_limit:
            memory_size(self.memory_limit)


def memory_size(text: str) -> str:
    """Return ``text`` if DuckDB takes it as an amount of memory; raise JobError otherwise."""
    unit = r"(?:[kmgt](?:i?b)?|b|bytes?|%)"
    if not re.fullmatch(rf"\s*(?:[0-9]+(?:\.[0-9]+)?\s*{unit}|none|-1)\s*", text, re.IGNORECASE):
        raise JobError(f"{shown(text)} is not an amount of memory; write one such as 2GB or 512MiB")
    return text


def memory_option(text: str) -> str:
    """Check an amount of memory on the command line, where it may be empty; raise ArgumentTypeError if it is wrong."""
    try:
        return memory_size(text) if text else ""
    except JobError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
