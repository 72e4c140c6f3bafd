"""Changes that have an order: the last one of each row or key counts, and late ones are told, left out and counted.

With an order column, a relation with a primary key keeps for each key the sequence of its last change, also of a key
that is dead. In a later batch, changes of the key that are not newer are late. Each sequence stands with the commit of
its change and the one before it, which a revert restores. Scripts have this module if an input has a primary key.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..inputs.records import PROBLEMS_LISTED, Problems, Record
from ..inputs.typed_values import read_order
from ..inputs.values import REMOVE_KEY, Absent, Reader, RowShape, read_operation, read_value
from ..job.shared_options import option
from ..kernel.errors import JobError
from ..kernel.sql import is_optional
from ..kernel.values import shown
from ..row_kernel.encodings import decoded_row
from ..row_kernel.model import RowRelation
from ..row_kernel.tables import RowTables, listed, quoted_sql, same
from .reading import GivenChange, GivenChanges, RowReading, StoredChange, row_storing
from .schema import ORDERED, SETTINGS_READ
from .state import DatabaseState

SEQUENCE_COLUMNS = "_sequence TEXT, _last TEXT, _commit INTEGER NOT NULL, _sequence_before TEXT, _last_before TEXT"
"""What is known of a key of an input whose changes have an order: the sequence of its last change and whether that was
an insertion (``+``), its commit, and what was there before; NULL for no sequence."""

KEYS_OF_DIFFERENCES = 10
"""How many keys a difference names."""


def sequences_table(relation: RowRelation) -> str:
    """Return the name in SQL of the table with the sequences of an input relation."""
    return quoted_sql(f"_sequences_of_{relation.table}")


def sequences_schema(tables: RowTables, name: str) -> dict[tuple[str, str], str]:
    """Return the definition of the table with the sequences of an input relation."""
    relation = tables.program.inputs[name]
    key = f"{tables.tables[relation.table].typed(relation.key)}, "
    return {
        ("table", f"_sequences_of_{relation.table}"): (
            f"CREATE TABLE {sequences_table(relation)} ({key}{SEQUENCE_COLUMNS}, PRIMARY KEY ({listed(relation.key)})) "
            "WITHOUT ROWID"
        )
    }


class Kept(NamedTuple):
    """The sequence of a key and its last change, as far as there is one."""

    sequence: int | None = None
    last: str | None = None


# Reading


def order_reader() -> Reader:
    """Return a function that reads the order of a change."""
    return functools.partial(read_value, read_order, True)


def lacks_values(shape: RowShape, record: Record) -> bool:
    """Return whether a record is a deletion by its key: other values are null or missing."""
    keys = shape.key_places
    lacking = (
        record[place] is (Absent.ABSENT if is_optional(column.type) else None) or record[place] is Absent.ABSENT
        for place, column in enumerate(shape.relation.columns)
        if place not in keys
    )
    try:
        return bool(keys) and any(lacking) and read_operation(shape, record[len(shape.relation.columns)]) == "-"
    except ValueError:
        return False


def last_changes(given: GivenChanges) -> list[StoredChange]:
    """Return the last change of each row of a relation without a key, as it is stored; deletions come first among
    changes with the same order."""
    stored, last = row_storing(given.relation), dict[tuple[Any, ...], tuple[int, bool]]()
    for change in given.changes:
        row = stored(change.row)
        last[row] = max(last.get(row, (change.order, False)), (change.order, change.op != "-"))
    return [("+" if inserted else "-", row) for row, (_, inserted) in last.items()]


# Batches


def check_order(database: DatabaseState, names: Iterable[str], order_column: str | None) -> None:
    """Raise JobError if one of the inputs that a batch changes keeps sequences by another order column."""
    records = database.sequences
    for name in names:
        if name in records and records[name]["column"] != order_column:
            column = records[name]["column"]
            raise JobError(
                f"{name} keeps the sequence of each key, by the order column {column}: pass --order-column {column}, "
                f"so that late rows are recognized; `flintlog job vacuum SCRIPT --state FILE "
                f"--forget-sequences {name}` gives the sequences up"
            )


def changes_in_order(database: DatabaseState, reading: RowReading) -> dict[str, list[StoredChange]]:
    """Return the net changes by table of the relations with a key that were read with an order, and note their
    sequences for the next commit. Raise Refused for rows that contradict each other, or those of earlier batches."""
    check_order(database, reading.ordered, reading.order_column)
    problems, records = Problems(), database.sequences
    changes = {}
    for name, given in reading.ordered.items():
        if name not in records:
            records[name] = {"column": reading.order_column, "pruned": ""}
            for sql in sequences_schema(database.tables, name).values():
                database.connection.execute(sql)
        changes[given.relation.table] = KeyChanges(database, given, records[name]["pruned"]).net(reading, problems)
    problems.refuse()
    database.record("sequences", records)
    return changes


class KeyChanges:
    """The changes of a relation with a primary key, in an order."""

    def __init__(self, database: DatabaseState, given: GivenChanges, pruned: str) -> None:
        """Sequences of dead keys before ``pruned``, if that is not empty, are not kept."""
        self.database, self.given, self.relation = database, given, given.relation
        self.pruned = int(pruned) if pruned else None
        self.table = database.tables.tables[self.relation.table]

    def kept(self, key: Sequence[Any]) -> Kept:
        """Return the sequence of a key. Without one, a key that is not there is dead since the time of those that were
        pruned."""
        chosen = " AND ".join(f"{quoted_sql(name)} = ?" for name in self.relation.key)
        query = f"SELECT _sequence, _last FROM {sequences_table(self.relation)} WHERE {chosen}"
        found = self.database.connection.execute(query, key).fetchone()
        if found and found[0] is not None:
            return Kept(stored_sequence(self.database, found[0]), found[1])
        return Kept()

    def is_there(self, columns: Sequence[str], values: Sequence[Any]) -> bool:
        """Return whether a stored row has these values."""
        chosen = " AND ".join(f"{quoted_sql(name)} = ?" for name in columns)
        query = f"SELECT 1 FROM {self.table.name} WHERE {chosen}"
        return self.database.connection.execute(query, values).fetchone() is not None

    def net(self, reading: RowReading, problems: Problems) -> list[StoredChange]:
        """Return the last change of each key as it is stored, apart from those that are known, and note its sequence;
        count those that are late."""
        stored, columns = row_storing(self.relation), [column.sql for column in self.relation.columns]
        places = [columns.index(name) for name in self.relation.key]
        by_key: dict[tuple[Any, ...], list[tuple[GivenChange, tuple[Any, ...]]]] = {}
        for change in self.given.changes:
            row = stored(change.row)
            by_key.setdefault(tuple(row[place] for place in places), []).append((change, row))
        tied: list[tuple[Any, ...]] = []
        contradicted: list[tuple[Any, ...]] = []
        net, sequences = [], []
        for key, of in by_key.items():
            kept = self.kept(key)
            fresh = [(change, row) for change, row in of if not self.is_late(change, kept, key)]
            reading.late[self.relation.name] += len(of) - len(fresh)
            if not fresh:
                continue
            newest = max((change.order, change.op != "-") for change, _ in fresh)
            last = {
                (change.op, row if change.op == "+" else ()): row
                for change, row in fresh
                if (change.order, change.op != "-") == newest
            }
            if len(last) > 1:
                tied.append(key)
                continue
            (((op, _), row),) = last.items()
            if kept.sequence == newest[0] and (op == "-") == (kept.last == "-"):
                if op != kept.last or (op == "+" and not self.is_there(self.table.columns, row)):
                    contradicted.append(key)
                continue
            net.append(("+" if op == "+" else REMOVE_KEY, row))
            sequences.append((*key, str(newest[0]), op))
        self._tell(tied, "two rows with {} and the same {}", problems)
        self._tell(contradicted, "an earlier batch had another row with {} and the same {}", problems)
        note_sequences(self.database, self.relation, sequences)
        return net

    def is_late(self, change: GivenChange, kept: Kept, key: Sequence[Any]) -> bool:
        """Return whether a change is not newer than what is known of its key."""
        if kept.sequence is not None:
            as_new = change.order == kept.sequence and change.op == "-" and kept.last != "-"
            return change.order < kept.sequence or as_new
        return self.pruned is not None and change.order < self.pruned and not self.is_there(self.relation.key, key)

    def _tell(self, keys: list[tuple[Any, ...]], text: str, problems: Problems) -> None:
        """Add a problem for each of the first keys; all count."""
        for key in sorted(keys)[:PROBLEMS_LISTED]:
            problems.add(
                f"{self.relation.name}: {text.format(sequence_key_text(self.relation, key), self.given.shape.order)}"
            )
        problems.count += max(len(keys) - PROBLEMS_LISTED, 0)


def stored_sequence(database: DatabaseState, text: str) -> int:
    """Return a sequence that is stored as text; raise JobError if it is none."""
    try:
        return int(text)
    except ValueError as error:
        raise JobError(
            f"{database.path} is damaged: {shown(text)} is no sequence of a key; restore it from a copy"
        ) from error


def note_sequences(database: DatabaseState, relation: RowRelation, sequences: Iterable[Sequence[Any]]) -> None:
    """Note sequences for the next commit: keys, each with the sequence and the last change."""
    key = listed(relation.key)
    marks = ", ".join("?" * (len(relation.key) + 3))
    number = database.last.number + 1 if database.last else 1
    database.connection.executemany(
        f"INSERT INTO {sequences_table(relation)} ({key}, _sequence, _last, _commit) VALUES ({marks}) "
        f"ON CONFLICT ({key}) DO UPDATE SET _sequence_before = _sequence, _last_before = _last, "
        "_sequence = excluded._sequence, _last = excluded._last, _commit = excluded._commit",
        ((*row, number) for row in sequences),
    )


def sequence_key(relation: RowRelation, key: Sequence[Any]) -> dict[str, Any]:
    """Return the values of a stored key by the names of their columns."""
    columns = [next(column for column in relation.columns if column.sql == name) for name in relation.key]
    return {column.name: value for column, value in zip(columns, decoded_row(columns, key), strict=True)}


def sequence_key_text(relation: RowRelation, key: Sequence[Any]) -> str:
    """Return a stored key as text for messages."""
    return ", ".join(f"{name} = {shown(value)}" for name, value in sequence_key(relation, key).items())


# Reverts


def restore_sequences(database: DatabaseState, relation: RowRelation, number: int) -> None:
    """Restore the sequences from before a commit, of keys that none has changed since, for the next commit."""
    now = database.commit.number + 1
    database.connection.execute(
        f"UPDATE {sequences_table(relation)} SET _sequence = _sequence_before, _last = _last_before, "
        "_sequence_before = _sequence, _last_before = _last, _commit = ? WHERE _commit = ?",
        (now, number),
    )


def rows_of_later_sequences(
    database: DatabaseState, relation: RowRelation, number: int
) -> Iterator[tuple[int, str, tuple[Any, ...]]]:
    """Yield the keys whose sequences commits behind a number have changed, as changes of rows without other values."""
    query = f"SELECT _commit, {listed(relation.key)} FROM {sequences_table(relation)} WHERE _commit > ?"
    for commit, *key in database.connection.execute(query, (number,)):
        values = sequence_key(relation, key)
        yield commit, "+", tuple(values.get(column.name) for column in relation.columns)


# Commands


def sequences_said(database: DatabaseState) -> dict[str, dict[str, Any]]:
    """Return which relations keep sequences: the order column, the number of keys, and since when dead ones are
    known."""
    said = {}
    for name, record in database.sequences.items():
        table = sequences_table(database.program.inputs[name])
        count = f"SELECT COUNT(*) FROM {table} WHERE _sequence IS NOT NULL"
        (keys,) = database.connection.execute(count).fetchone()
        said[name] = {"column": record["column"], "keys": keys, "pruned": int(record["pruned"] or 0) or None}
    return said


def sequence_faults(database: DatabaseState) -> Iterator[dict[str, Any]]:
    """Yield how sequences differ from rows: a key has a row just if its last change was an insertion."""
    for name in database.sequences:
        relation = database.program.inputs[name]
        rows = f"{database.tables.tables[relation.table].name} AS r WHERE {same(relation.key, 'r', 's')}"
        for problem, wrong in (
            ("was inserted by its last change, and has no row", f"_last = '+' AND NOT EXISTS (SELECT 1 FROM {rows})"),
            ("was removed by its last change, and has a row", f"_last <> '+' AND EXISTS (SELECT 1 FROM {rows})"),
        ):
            key = listed(relation.key, "s")
            query = (
                f"SELECT {key} FROM {sequences_table(relation)} AS s WHERE _sequence IS NOT NULL AND {wrong} "
                f"ORDER BY {key} LIMIT {KEYS_OF_DIFFERENCES}"
            )
            keys = [sequence_key(relation, found) for found in database.connection.execute(query)]
            if keys:
                way_out = f"`flintlog job vacuum SCRIPT --state FILE --forget-sequences {name}` gives the sequences up"
                yield {"relation": name, "problem": f"a key {problem}; {way_out}", "tuples": keys}


def are_records_of_sequences(text: str) -> bool:
    """Return whether a text is a JSON object with the order column of each relation that keeps sequences, and up to
    where those of dead keys are gone."""
    records = json.loads(text)
    return isinstance(records, dict) and all(
        isinstance(record["column"], str) and (record["pruned"] == "" or str(int(record["pruned"])) == record["pruned"])
        for record in records.values()
    )


SETTINGS_READ["sequences"] = are_records_of_sequences
ORDERED.update(
    option=option("--order-column", metavar="NAME", help="the column that orders changes; the last change wins"),
    reader=order_reader,
    lacks=lacks_values,
    last=last_changes,
    check=check_order,
    changes=changes_in_order,
    schema=sequences_schema,
    restore=restore_sequences,
    later=rows_of_later_sequences,
    said=sequences_said,
    faults=sequence_faults,
)
