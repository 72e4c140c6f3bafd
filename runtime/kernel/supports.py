"""Checks of support counts, for all strata that keep them."""

from __future__ import annotations

from collections.abc import Sequence

from .engine import Engine
from .errors import JobError
from .method_interface import Finding
from .model import Relation
from .sql import names, tuple_names


def matching(relation: Relation, left: str, right: str) -> str:
    """Return the SQL condition that two rows hold the same tuple."""
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in tuple_names(relation))


def check_supports(engine: Engine, relation: Relation, table: str) -> None:
    """Raise JobError if more derivations were lost than there were: the state was not made by this program."""
    if engine.counted(table, "_support < 0") != 0 and engine.first(f"SELECT * FROM {table} WHERE _support < 0", 1):
        raise JobError(
            f"the state of {relation.name} is inconsistent with its inputs: more derivations were lost than it had; "
            "nothing was changed; `verify` shows the differences, `rebuild` corrects them"
        )


def support_findings(
    engine: Engine, relation: Relation, derived: str, extra: Sequence[str], counted: str, own: Sequence[str] = ()
) -> list[Finding]:
    """Return queries for missing tuples and wrong supports, given all derivations. ``counted`` is SQL for the support
    of a tuple s by its derivations d; these have the tuple's columns, the columns ``extra``, which are stored as well,
    and ``own`` ones."""
    table, columns = relation.tables, names(relation.tuple_columns)
    listed = ", ".join([columns, *extra, *own])
    engine.table(table.recount, f"SELECT {listed}, 1 AS _one FROM ({derived}) AS q")
    stored = ", ".join([names(relation.tuple_columns, "s."), "s._support", *(f"s.{e}" for e in extra)])
    return [
        Finding(
            relation.name,
            "missing",
            f"SELECT DISTINCT {columns} FROM {table.recount} ANTI JOIN {table} USING ({columns})",
        ),
        Finding(
            relation.name,
            "wrong support",
            f"SELECT {stored}, {counted} AS _recounted FROM {table} AS s "
            f"LEFT JOIN {table.recount} AS d ON {matching(relation, 's', 'd')} "
            f"GROUP BY {stored} HAVING s._support < 1 OR s._support <> {counted}",
        ),
    ]
