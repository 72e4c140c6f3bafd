"""Helpers for the rounds of recursive strata, which run until nothing changes."""

from __future__ import annotations

from ..engines.engine import Engine
from ..errors import Refused
from ..model import Relation, Stratum
from .changes import possible


class LimitReached(Refused):
    """Raised when a ``stratum`` is stopped, since it may not end or becomes too large."""

    def __init__(self, message: str, stratum: Stratum) -> None:
        """Note the message and the stratum."""
        super().__init__(message)
        self.stratum = stratum


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


def check_round(stratum: Stratum, done: int, max_rounds: int, deleting: bool = False) -> None:
    """Raise LimitReached if a recursion has run ``max_rounds`` rounds without an end, Refused if it was ``deleting``:
    then the tuples of the last round follow from nothing any more."""
    if done >= max_rounds:
        message = (
            f"{stratum.name}: not finished after {max_rounds} rounds; if the recursion needs more, "
            "raise --max-rounds; nothing was changed"
        )
        raise Refused(message) if deleting else LimitReached(message, stratum)
