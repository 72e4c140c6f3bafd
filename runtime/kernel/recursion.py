"""Helpers for the rounds of recursive strata, which run until nothing changes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from .changes import live_rules
from .engine import Engine
from .errors import Refused
from .model import Relation, Stratum
from .table_names import TableName


class LimitReached(Refused):
    """Raised when a ``stratum`` is stopped, since it may not end or becomes too large."""

    def __init__(self, message: str, stratum: Stratum) -> None:
        """Note the message and the stratum."""
        super().__init__(message)
        self.stratum = stratum


CULPRITS: dict[str, Callable[[Engine, Iterable[Relation], Iterable[Stratum], Stratum], list[str]]] = {}
"""Functions that tell, in lines of text, what a stratum was doing when a limit stopped it. The explanations of tuples
register theirs."""


@contextlib.contextmanager
def telling_culprits(engine: Engine, relations: Iterable[Relation], strata: Iterable[Stratum]) -> Iterator[None]:
    """If a limit stops the maintenance in the body, add to the message what the recursion was doing. The engine has
    tables of the ``relations`` up to there, and the ``strata`` have rules of some of them."""
    try:
        yield
    except LimitReached as error:
        if "told" in CULPRITS:
            told = CULPRITS["told"](engine, relations, strata, error.stratum)
        else:
            told = ["apply it with `flintlog job`, or a script that was compiled `--with explain`, to see its tuples"]
        raise Refused("".join([str(error), *(f"\n  {line}" for line in told)])) from error


def changed_rows(engine: Engine, stratum: Stratum) -> int:
    """Return the number of rows in the r__changed tables of a stratum."""
    return sum(engine.rows(relation.tables.changed) for relation in stratum.relations)


def following(engine: Engine, stratum: Stratum, relation: Relation) -> list[str]:
    """Return the queries for the derivations of ``relation`` that use a tuple of r__changed of its own stratum."""
    return [
        engine.text(delta.sql)
        for rule in live_rules(engine, stratum, relation.table)
        for delta in rule.rounds
        if engine.rows(TableName(delta.table).changed)
    ]


def check_round(stratum: Stratum, done: int, max_rounds: int, deleting: bool = False) -> None:
    """Raise LimitReached if a recursion has run ``max_rounds`` rounds without an end, Refused if it was ``deleting``:
    then the tuples of the last round follow from nothing any more."""
    if done >= max_rounds:
        message = (
            f"{stratum.name}: not finished after {max_rounds} rounds; if the recursion needs more, "
            "raise --max-rounds; nothing was changed"
        )
        raise Refused(message) if deleting else LimitReached(message, stratum)
