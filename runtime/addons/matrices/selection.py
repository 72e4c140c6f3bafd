"""Choose whether to use matrices to compute a recursion whose rules are products of matrices, and to follow its
changes."""

from __future__ import annotations

import importlib.util

from ...engines.duckdb import DuckEngine
from ...kernel.algebra import BEST, RECURSIONS
from ...kernel.errors import JobError
from ...kernel.method_interface import Effect, Run
from ...kernel.model import Stratum
from .best import find_best_values
from .bounds import NotFitting
from .fixpoint import fixpoint
from .follow import follow_by_matrices

FEW_PAIRS = 5_000
"""With fewer rows in the relations that a recursion reads, rounds of queries take less time than to load a library."""

SECONDS_OF_PAIR = 1.5e-7
"""The seconds that it takes to read a tuple into a matrix that stays in memory."""


def compute_where_it_pays(run: Run, stratum: Stratum, clock: int) -> int | None:
    """Compute a stratum, whose tables are empty, with matrices, or follow changes of it if it is there; return its new
    clock, or None if queries have to do that."""
    engine, choice = run.engine, run.choice
    if not isinstance(engine, DuckEngine):
        return None
    resident = engine.resident.pop(stratum.name, None)
    if not uses_matrices(run, stratum, engine, resident is not None):
        return None
    try:
        if run.initial:
            clock = fixpoint(run, stratum, clock)
            choice.algebra[stratum.name] = "; ".join(stratum.equations)
        else:
            clock = follow_by_matrices(run, stratum, clock, resident)
            choice.algebra[stratum.name] = f"changes of {'; '.join(stratum.equations)}"
    except NotFitting as error:
        choice.algebra[stratum.name] = f"given up: {error}"
        return None
    return clock


def find_best_where_it_pays(run: Run, stratum: Stratum) -> bool:
    """Make r__best of the best values of a stratum that is computed from scratch, with matrices; return whether that
    was done."""
    engine, choice = run.engine, run.choice
    if not (isinstance(engine, DuckEngine) and uses_matrices(run, stratum, engine, False)):
        return False
    try:
        find_best_values(run, stratum)
    except NotFitting as error:
        choice.algebra[stratum.name] = f"given up: {error}"
        return False
    choice.algebra[stratum.name] = "; ".join(stratum.equations)
    return True


def uses_matrices(run: Run, stratum: Stratum, engine: DuckEngine, resident: bool) -> bool:
    """Return whether to use matrices for a stratum, which may be ``resident`` in memory. Raise JobError if they were
    asked for and are not available."""
    choice = run.choice
    if not stratum.equations or choice.matrices == "never":
        return False
    missing = lacks_graphblas()
    if missing and choice.matrices == "always":
        raise JobError(f"the engine matrices {missing}")
    return not missing and (choice.matrices == "always" or pays(run, stratum, engine, resident))


def pays(run: Run, stratum: Stratum, engine: DuckEngine, resident: bool) -> bool:
    """Return whether matrices are expected to take less time than queries: to compute a stratum, if it reads more than
    a few rows; to follow changes, if they are in memory, or once queries have taken as long, in a database that is
    kept, as it takes to read them. So even if no batch comes after that, it takes at most twice the time."""
    if run.initial:
        return sum(engine.rows(relation.table) for relation in stratum.reads) >= FEW_PAIRS
    tables = [relation.table for relation in stratum.relations]
    if resident or not engine.keeps or not all(map(engine.kept, tables)):
        return resident
    took = run.choice.effects.get(stratum.name, Effect()).follow_seconds
    engine.spent[stratum.name] = engine.spent.get(stratum.name, 0.0) + took
    return engine.spent[stratum.name] >= SECONDS_OF_PAIR * sum(map(engine.rows, tables))


def lacks_graphblas() -> str:
    """Return how to get GraphBLAS if it is missing, as the rest of a sentence; empty if it is there."""
    # GraphBLAS comes in two packages, of which the first can be installed alone.
    if not all(importlib.util.find_spec(name) for name in ("graphblas", "suitesparse_graphblas")):
        return "needs GraphBLAS where tasks run: install it with `pip install python-graphblas suitesparse-graphblas`"
    return ""


RECURSIONS["matrices"] = compute_where_it_pays

BEST["matrices"] = find_best_where_it_pays
