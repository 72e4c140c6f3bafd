"""Leave out rows with a null in a column that is never null, and count them (``--nulls skip``).

A relation then has the rows of its source that have no such null, whatever happened to the others. So a deletion of
such a row is left out, too. An insertion is more than that in the changes of a relation with a primary key: it says
that the row with its key is now one with a null, so it is staged as the removal of that key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from ..errors import JobError
from ..sql import is_list, is_optional
from .values import REMOVE_KEY, InputShape, decimal_size, shown

NULLS_CHOICES = ("refuse", "skip")
"""What can be done with rows that have nulls where none are allowed."""

LeftOut = Counter[str]
"""How many rows were left out, by relation."""


def left_out_counts(nulls: str) -> LeftOut | None:
    """Return where to count the rows that are left out; None if they are refused. Raise JobError for another choice."""
    if nulls not in NULLS_CHOICES:
        raise JobError(f"nulls must be {' or '.join(NULLS_CHOICES)}, not {shown(nulls)}")
    return Counter() if nulls == "skip" else None


def left_out_text(number: int) -> str:
    """Return a number of rows that were left out as text."""
    return f"{number:,} row{'' if number == 1 else 's'} with nulls left out"


def any_value(kind: str) -> Any:
    """Return a value of a type, for columns whose values do not matter."""
    if is_list(kind) or is_optional(kind):
        return []
    if kind.startswith("decimal"):
        return Decimal(0).scaleb(-decimal_size(kind)[1])
    known: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "string": "", "date": date(1970, 1, 1)}
    return datetime(1970, 1, 1) if kind == "timestamp" else known[kind]


def never_null(shape: InputShape) -> list[int]:
    """Return the places of the columns in which a null leaves a row out."""
    if shape.left_out is None:
        return []
    return [place for place, column in enumerate(shape.relation.columns) if not is_optional(column.type)]


def key_places(shape: InputShape) -> list[int]:
    """Return the places of the columns of the primary key."""
    return [place for place, column in enumerate(shape.relation.columns) if column.sql in shape.relation.key]


def removes_keys(shape: InputShape) -> bool:
    """Return whether an insertion that is left out removes the row with its key."""
    return shape.left_out is not None and bool(shape.relation.key) and not shape.initial and not shape.whole_rows


def valid_rows(columns: Sequence[Any], shape: InputShape) -> Any:
    """Return an Arrow array that says which rows of Arrow columns are not left out; None if none is."""
    import pyarrow.compute as pc

    valid = None
    for place in never_null(shape):
        if columns[place].null_count:
            present = columns[place].is_valid()
            valid = present if valid is None else pc.and_(valid, present)
    return valid


def as_removal(values: list[Any], shape: InputShape) -> list[Any] | None:
    """Return a staged row that is left out, with any values in the columns that are not part of the key, as the removal
    of its key; None if it is a deletion."""
    sign = len(shape.relation.row_columns)
    return [*values[:sign], REMOVE_KEY, *values[sign + 1 :]] if values[sign] in "+>" else None
