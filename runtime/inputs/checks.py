"""Check rows, a column at a time, and stage those that fit.

This is the one way for the rows of all sources, if the state is a folder. A column is converted as a whole if that is
certain to give what the readers of :mod:`.values` would. Otherwise its values are read one by one, which finds the
wrong ones and the reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from ..engines.arrow import ROWS_AT_ONCE, arrow_type, place_array, string_array
from ..kernel.sql import is_optional
from ..kernel.values import shown
from .columns import null_places, objects_of, read_column, values_at
from .records import Problems, Record
from .values import REMOVE_KEY, Absent, InputShape, Unreadable, any_value

Reasons = dict[int, list[tuple[str, str]]]
"""The wrong values of rows, by place: their columns, and the reasons."""


@dataclass(frozen=True)
class SourceRows:
    """Rows of a source: ``columns`` in the order of InputShape.names, each an Arrow array or a list of Python objects,
    or None for an absent operation. ``text`` says that all values are text, as in CSV.

    ``numbers`` are those of the rows in the source. Rows of some sources have none; messages tell them by their values.
    Further rows are ``unreadable``: they have no values, but by number a message that says why.
    """

    columns: Sequence[Any]
    count: int
    text: bool = False
    numbers: Sequence[int] | None = None
    unreadable: Mapping[int, str] = field(default_factory=dict)

    def at(self, places: Sequence[int]) -> SourceRows:
        """Return the readable rows at some places."""
        if len(places) == self.count:
            return self
        return replace(self, columns=[values_at(column, places) for column in self.columns], count=len(places))


def rows_of_records(records: Iterator[Record], text: bool, shape: InputShape, first: int = 1) -> Iterator[SourceRows]:
    """Yield records, which are numbered from ``first``, at most ROWS_AT_ONCE of them at a time."""
    while chunk := list(islice(records, ROWS_AT_ONCE)):
        unreadable = {number: row for number, row in enumerate(chunk, first) if isinstance(row, str)}
        numbers = [number for number in range(first, first + len(chunk)) if number not in unreadable]
        columns = map(list, zip(*(row for row in chunk if not isinstance(row, str)), strict=True))
        yield SourceRows([*columns] or [[] for _ in shape.names], len(numbers), text, numbers, unreadable)
        first += len(chunk)


def staged_schema(shape: InputShape) -> Any:
    """Return the Arrow schema of a staged file."""
    return pa.schema([(column.sql, arrow_type(column.type)) for column in shape.staged])


def checked_tables(rows: SourceRows, name: str, shape: InputShape, problems: Problems) -> Iterator[Any]:
    """Yield the rows that fit as a table of staged values. Set the others aside, or add their problems, which call the
    source ``name``."""
    whole, deletions, left_out = divided(rows, shape)
    reasons: Reasons = {}
    tables: list[Any] = []
    places: list[Sequence[int]] = []
    for chosen, by_key in ((whole, False), (deletions, True), (removals(rows, left_out, shape), True)):
        if by_key and not chosen:
            continue
        table, unfit_values = read_rows(rows.at(chosen), by_key, shape)
        reasons |= {chosen[place]: unfit_values[place] for place in unfit_values}
        fitting: Sequence[int] = range(len(chosen))
        if unfit_values:
            fitting = [place for place in fitting if place not in unfit_values]
        if by_key and chosen is not deletions:
            signs = table.column("_op").to_pylist()
            fitting = [place for place in fitting if signs[place] in "+>"]
            sign = table.schema.get_field_index("_op")
            table = table.set_column(sign, table.field(sign), pa.repeat(REMOVE_KEY, len(chosen)))
        if len(fitting) < len(chosen):
            table, chosen = table.take(place_array(fitting)), [chosen[place] for place in fitting]
        tables.append(table)
        places.append(chosen)
    if shape.left_out is not None and left_out and not shape.numbered:
        set_aside = reasons.keys() & left_out if shape.aside is not None else ()
        shape.left_out[shape.relation.name] += len(left_out) - len(set_aside)
    if reasons or rows.unreadable:
        report(rows, reasons, name, shape, problems)
    staged = in_order(pa.concat_tables(tables), places, rows, shape)
    if staged.num_rows:
        yield staged


def in_order(table: Any, parts: Sequence[Sequence[int]], rows: SourceRows, shape: InputShape) -> Any:
    """Return a table of the rows at places, which are in order in each of the ``parts``, in their order; if they are to
    be numbered, with nulls for those that are not there."""
    if shape.numbered and rows.numbers is not None and table.num_rows < rows.count + len(rows.unreadable):
        positions = {rows.numbers[place]: position for position, place in enumerate(chain(*parts))}
        numbers = sorted([*rows.numbers, *rows.unreadable])
        rows_there = (positions.get(number) for number in numbers)
        return table.take(string_array(None if place is None else str(place) for place in rows_there).cast(pa.int64()))
    if len(parts) == 1:
        return table
    places = [*chain(*parts)]
    ordered: list[int] = sorted(range(len(places)), key=places.__getitem__)
    return table.take(place_array(ordered))


def divided(rows: SourceRows, shape: InputShape) -> tuple[Sequence[int], list[int], set[int]]:
    """Return the places of the rows all of whose values are read, of deletions of which only the key is, since others
    are missing, and of rows that are left out for a null."""
    columns, deletions = shape.relation.columns, set[int]()
    left_out = set[int]().union(*(null_places(rows.columns[place]) for place in shape.never_null))
    if shape.sequences is not None:
        lacking, keys = set[int](), shape.key_places
        for place in range(len(columns)):
            if place not in keys:
                lacking |= null_places(rows.columns[place], not is_optional(columns[place].type), absent=True)
        chosen = sorted(lacking)
        operations = values_at(rows.columns[len(columns)], chosen)
        signs, _ = read_column(operations, "operation", shape, rows.text, len(chosen))
        deletions = {place for place, sign in zip(chosen, signs.to_pylist(), strict=True) if sign == "-"}
        left_out -= deletions
    others = left_out | deletions
    whole = [place for place in range(rows.count) if place not in others] if others else range(rows.count)
    return whole, sorted(deletions), left_out


def removals(rows: SourceRows, left_out: set[int], shape: InputShape) -> list[int]:
    """Return the places of those rows that are left out and may remove the row with their key."""
    if not left_out or not shape.removes_keys or shape.numbered:
        return []
    return sorted(left_out.difference(*(null_places(rows.columns[place]) for place in shape.key_places)))


def read_rows(rows: SourceRows, by_key: bool, shape: InputShape) -> tuple[Any, Reasons]:
    """Return rows as a table of staged values, and what is wrong with those that do not fit. If rows are read
    ``by_key``, the other columns of the relation get any value."""
    keys, schema, reasons = shape.key_places, staged_schema(shape), Reasons()
    # A relation without columns is stored with one constant column.
    arrays = [] if shape.relation.columns else [pa.repeat(True, rows.count)]
    for place, (name, kind, column) in enumerate(zip(shape.names, shape.types, rows.columns, strict=True)):
        if by_key and place < len(shape.relation.columns) and place not in keys:
            arrays.append(pa.repeat(pa.scalar(any_value(kind), arrow_type(kind)), rows.count))
            continue
        array, unfit_values = read_column(column, kind, shape, rows.text, rows.count)
        arrays.append(array)
        for row, reason in unfit_values.items():
            reasons.setdefault(row, []).append((name, reason))
    return pa.Table.from_arrays(arrays, schema=schema), reasons


def report(rows: SourceRows, reasons: Reasons, name: str, shape: InputShape, problems: Problems) -> None:
    """Set rows aside that are unreadable or have wrong values, or add their problems, in the order of the rows."""
    places = sorted(reasons)
    columns = (objects_of(column, rows.text, shape.exact, len(places)) for column in rows.at(places).columns)
    bad: list[tuple[int, list[tuple[str, str]], Any]] = []
    for place, record in zip(places, zip(*columns, strict=True), strict=True):
        values = {column: v for column, v in zip(shape.names, record, strict=True) if v is not Absent.ABSENT}
        bad.append((rows.numbers[place] if rows.numbers is not None else 0, reasons[place], values))
    bad += [(number, [("", row)], row) for number, row in rows.unreadable.items()]
    for number, wrong, values in sorted(bad, key=lambda row: row[0]):
        readable = isinstance(values, dict)
        if shape.aside is not None and (readable or isinstance(values, Unreadable)):
            shape.aside.add(shape.relation, name, number, wrong, values if readable else values.raw)
            continue
        named = ", ".join(f"{column} {shown(value)}" for column, value in values.items()) if readable else ""
        where = f"{name}, row {number}" if number else f"{name}, a row with {named}"
        problems.add(*(f"{where}{column and f', column {column}'}: {reason}" for column, reason in wrong))
