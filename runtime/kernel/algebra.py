"""Recursions whose rules are products of matrices, which an optional part computes."""

from __future__ import annotations

from collections.abc import Callable

from .errors import JobError
from .method_interface import Run
from .model import Stratum

RECURSIONS: dict[str, Callable[[Run, Stratum, int], int | None]] = {}
"""How ``matrices`` compute a stratum, or follow changes of it, from a clock to a new one; None if they do not."""

BEST: dict[str, Callable[[Run, Stratum], bool]] = {}
"""How ``matrices`` find the best values of a stratum with extrema; returns whether they did."""


def by_matrices(run: Run, stratum: Stratum, clock: int) -> int | None:
    """Compute a stratum, whose tables are empty, with matrices, or follow changes of it if it is there; return its new
    clock, or None if another method has to do that. Raise JobError if matrices were asked for and are not available."""
    check_part(run, stratum)
    return RECURSIONS["matrices"](run, stratum, clock) if RECURSIONS else None


def best_by_matrices(run: Run, stratum: Stratum) -> bool:
    """Make r__best of the best values of a stratum that is computed from scratch, with matrices; return whether that
    was done. Raise JobError as by_matrices does."""
    if not run.initial:
        return False
    check_part(run, stratum)
    return BEST["matrices"](run, stratum) if BEST else False


def check_part(run: Run, stratum: Stratum) -> None:
    """Raise JobError if a stratum is to be computed with matrices and that part of the runtime is missing."""
    needed = stratum.equations and run.choice.matrices == "always" and run.engine.name == "duckdb"
    if needed and not RECURSIONS:
        raise JobError(
            "the engine matrices is not in this script: compile the program with `flintlog compile --with matrices`"
        )
