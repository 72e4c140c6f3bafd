"""Late changes of relations with a primary key: what a state keeps to tell them.

With an order column, such a relation keeps for each key the sequence of its last change, also of a key that is dead. In
a later batch, changes of the key that are not newer are left out and counted. The sequences are stored like an input
relation, in the same commit as the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from ..errors import JobError
from ..log import Log
from ..manifest import Manifest, SequenceRecord
from ..model import Column, Program, Relation
from ..parts import FURTHER
from .files import Reading


def reading_in_order(reading: Reading, root: Path, before: Manifest, names: Iterable[str]) -> Reading:
    """Return how to read changes of the input relations ``names``: if they have an order, with the sequences that the
    state keeps. Raise JobError if one of them keeps sequences by another order column than that of the changes."""
    for name in names:
        record = before.sequences.get(name)
        if record and record.column != reading.order_column:
            raise JobError(
                f"{name} keeps the sequence of each key, by the order column {record.column}: pass --order-column "
                f"{record.column}, so that late rows are recognized; `vacuum --forget-sequences {name}` gives the "
                "sequences up"
            )
    if not reading.order_column or "sequences" not in FURTHER:
        return reading
    return replace(reading, sequences=FURTHER["sequences"](root, before))


def sequences_in(reading: Reading, staged: dict[str, list[str]]) -> tuple[Relation, ...]:
    """Add the new sequences that reading has led to, if any, to what is ``staged`` by table; return the relations that
    they are stored in."""
    if reading.sequences is None:
        return ()
    staged.update(reading.sequences.staged)
    return tuple(reading.sequences.relations)


def sequence_record(relation: Relation, column: str) -> SequenceRecord:
    """Return the record of a relation that begins to keep sequences, by an order column."""
    key = tuple((c.name, c.type, c.sql) for c in relation.columns if c.sql in relation.key)
    return SequenceRecord(column, f"{relation.table}__sequences", key)


def sequence_relation(name: str, record: SequenceRecord) -> Relation:
    """Return the relation in which the sequences of the input relation ``name`` are stored: the columns of its key, the
    sequence, and the last change: an insertion, a deletion, or a row that was left out for a null."""
    key = tuple(Column(*column) for column in record.key)
    columns = (*key, Column("_order", "decimal(38,0)", "_order"), Column("_last", "string", "_last"))
    own = tuple(column.sql for column in key)
    return Relation(name, record.table, columns, "input", "", hidden=True, key=own, bucket_by=own[0])


def sequence_relations(manifest: Manifest) -> dict[str, Relation]:
    """Return the relations in which a state stores sequences, by the name of the input relation."""
    return {name: sequence_relation(name, record) for name, record in manifest.sequences.items()}


def kept_sequences(program: Program, manifest: Manifest, given: Iterable[str], log: Log) -> dict[str, Relation]:
    """Return those relations with sequences that another version of the program keeps: the key has the same columns,
    and no rows are ``given`` anew. Warn of the others."""
    anew, found = set(given), {}
    for name, kept in sequence_relations(manifest).items():
        relation = next((r for r in program.relations if r.kind == "input" and r.name == name), None)
        record = manifest.sequences[name]
        if relation and name not in anew and sequence_record(relation, record.column).key == record.key:
            found[name] = kept
        else:
            why = "its rows are given anew" if name in anew else "it has another primary key, or is no input any more"
            log.warn(f"{name} no longer keeps the sequences of its keys, since {why}")
    return found


def late_text(number: int) -> str:
    """Return a number of late changes as text."""
    return f"{number:,} late change{'' if number == 1 else 's'} ignored"
