"""Helpers for the rounds of recursive strata, which run until nothing changes."""

from __future__ import annotations

from ..engines.engine import Engine
from ..errors import Refused
from ..model import Relation, Stratum
from .changes import possible


def changed_rows(engine: Engine, stratum: Stratum) -> int:
    """Return the number of rows in the r__changed tables of a stratum."""
    return sum(engine.rows(f"{relation.table}__changed") for relation in stratum.relations)


def following(engine: Engine, stratum: Stratum, relation: Relation) -> list[str]:
    """Return the queries for the derivations of ``relation`` that use a tuple of r__changed of its own stratum."""
    queries = (
        engine.text(delta.sql)
        for rule in stratum.rules
        if rule.head == relation.table
        for delta in rule.rounds
        if engine.rows(f"{delta.table}__changed")
    )
    return possible(engine, stratum, queries)


def check_round(stratum: Stratum, done: int, max_rounds: int) -> None:
    """Raise Refused if a recursion has run ``max_rounds`` rounds without an end."""
    if done >= max_rounds:
        raise Refused(
            f"{stratum.name}: not finished after {max_rounds} rounds; if the recursion needs more, "
            "raise --max-rounds; nothing was changed"
        )
