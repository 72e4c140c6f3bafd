"""The options that say how a command evaluates strata."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..kernel.errors import JobError
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, SuppliedFunctions
from ..kernel.values import shown

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
        for name, values in (
            ("engine", ENGINES),
            ("strategy", ("auto", "incremental", "recompute")),
        ):
            if getattr(self, name) not in values:
                raise JobError(f"{name} is {shown(getattr(self, name))}; it can be {', '.join(values)}")
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


MAY_BE_EMPTY = ("--at", "--memory-limit", "--separator")
"""Options for which an empty text has a meaning."""


def empty_argument(given: Sequence[str]) -> str:
    """Return what is wrong with a command line that has an empty argument; empty if nothing is. As the path of a
    variable that is not set, it would stand for the current folder."""
    for before, argument in itertools.pairwise(["", *given]):
        option, equals, value = argument.partition("=") if argument.startswith("--") else (before, "", argument)
        if not value and (equals or not argument) and option not in MAY_BE_EMPTY:
            named = option if option.startswith("-") and option != "--" else "an argument"
            return f"{named} is empty; is a variable not set?"
    return ""
