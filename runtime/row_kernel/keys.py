"""Primary keys: no two rows of a relation share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..kernel.errors import UNCHANGED, Refused
from ..kernel.values import constant_text, shown
from .encodings import decoded_row, encoded_row
from .model import RowRelation
from .tables import ROW_PARTS, RowTable, RowTables, listed, same

KEYS_TOLD = 5


def check_given_key(tables: RowTables, table: RowTable, rows: str) -> None:
    """Raise Refused if two rows of a batch share a primary key."""
    relation = table.relation
    key = listed(relation.key)
    twice = tables.execute(f"SELECT {key} FROM ({rows}) GROUP BY {key} HAVING COUNT(*) > 1 ORDER BY {key}").fetchone()
    if twice:
        raise Refused(
            f"{relation.name}: two different rows with the primary key {row_key_text(relation, twice)} in one batch, "
            "and their order is unknown",
            UNCHANGED,
        )


def row_key_text(relation: RowRelation, values: tuple[Any, ...]) -> str:
    """Return a primary key as programs write it."""
    columns = [column for name in relation.key for column in relation.columns if column.sql == name]
    told = zip(columns, decoded_row(columns, values), strict=True)
    return ", ".join(f"{column.name} = {constant_text(value, column.type)}" for column, value in told)


def check_derived_key(tables: RowTables, table: RowTable) -> None:
    """Raise Refused if two tuples of a derived relation share its primary key."""
    key = table.relation.key
    if not table.gained:
        return
    gained = f"SELECT {listed(key)} FROM {table.work('gained')}"
    rows = (
        f"SELECT {listed(table.columns, 's')} FROM ({gained}) AS g CROSS JOIN {table.name} AS s "
        f"WHERE {same(key, 'g', 's')}"
    )
    twice = tables.execute(
        f"SELECT {listed(key)} FROM (SELECT DISTINCT * FROM ({rows})) GROUP BY {listed(key)} HAVING COUNT(*) > 1"
    ).fetchone()
    if twice:
        relation = table.relation
        raise Refused(
            f"{relation.source}: {relation.name} would have two tuples with the primary key "
            f"{row_key_text(relation, twice)}",
            UNCHANGED,
        )


def check_later_changes(
    relation: RowRelation, rows: Iterable[Sequence[Any]], later: Iterable[tuple[int, str, Sequence[Any]]], batch: str
) -> None:
    """Raise Refused if rows that a batch changed, and that are to be restored, have keys whose rows ``later`` changes
    concern, too."""
    places = [place for place, column in enumerate(relation.columns) if column.sql in relation.key]
    columns = [relation.columns[place] for place in places]

    def key_of(row: Sequence[Any]) -> tuple[Any, ...]:
        return encoded_row(columns, [row[place] for place in places])

    keys = {key_of(row): [row[place] for place in places] for row in rows}
    changed = dict.fromkeys(key for _, _, row in later if (key := key_of(row)) in keys)
    if changed:
        texts = [
            ", ".join(f"{c.name} = {shown(value)}" for c, value in zip(columns, keys[key], strict=True))
            for key in [*changed][:KEYS_TOLD]
        ]
        raise Refused(
            f"{relation.name}: later batches have changed rows that batch {batch} changed, with the primary key "
            f"{'; '.join(texts)}{'; ...' if len(changed) > KEYS_TOLD else ''}: revert those first, or apply a "
            "batch that says what these rows are to be"
        )


ROW_PARTS["given key"] = check_given_key
ROW_PARTS["derived key"] = check_derived_key
ROW_PARTS["later changes"] = check_later_changes
