"""Choose whether to compute a recursion whose rules are products of matrices with these, from scratch.

The library for matrices, GraphBLAS, is optional, and so is the part of the runtime that uses it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

from ..errors import JobError
from ..model import Stratum
from .run import Run

FIXPOINTS: dict[str, Callable[[Run, Stratum, int], int]] = {}
"""How to compute strata with ``matrices``, if there is the part of the runtime for them; its module registers it."""

FEW_PAIRS = 5_000
"""With fewer rows in the relations that a recursion reads, rounds of queries take less time than to load a library."""


class NotFitting(Exception):
    """Raised when a stratum cannot be computed with matrices: why."""


def by_matrices(run: Run, stratum: Stratum, clock: int) -> int | None:
    """Compute a stratum, whose tables are empty, with matrices, and return its new clock; return None if it is to be
    computed otherwise."""
    choice = run.choice
    if not stratum.equations or run.engine.name != "duckdb" or choice.matrices == "never":
        return None
    missing = lacks_matrices()
    if missing and choice.matrices == "always":
        raise JobError(f"the engine matrices {missing}")
    rows = sum(run.engine.rows(relation.table) for relation in stratum.reads)
    if missing or (choice.matrices == "auto" and rows < FEW_PAIRS):
        return None
    try:
        clock = FIXPOINTS["matrices"](run, stratum, clock)
        choice.algebra[stratum.name] = "; ".join(stratum.equations)
    except NotFitting as error:
        choice.algebra[stratum.name] = f"given up: {error}"
        return None
    return clock


def lacks_matrices() -> str:
    """Return what is missing to compute with matrices, as the rest of a sentence; empty if nothing is."""
    if "matrices" not in FIXPOINTS:
        return "is not in this script: compile the program with `flintlog compile --with matrices`"
    if importlib.util.find_spec("graphblas") is None:
        return "needs GraphBLAS where tasks run: install it with `pip install flintlog[matrices]`"
    return ""
