"""The sequences of keys, and late changes: how those are told, left out and counted.

With an order column, a relation with a primary key keeps for each key the sequence of its last change, also of a key
that is dead. In a later batch, changes of the key that are not newer are left out and counted. The sequences are stored
like an input relation, in the same commit as the rows. Scripts have this module if an input has a primary key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..engines.duckdb import DuckEngine
from ..kernel.errors import JobError
from ..kernel.model import Column, Program, Relation
from ..kernel.sql import names
from ..kernel.values import hashable
from ..store.data_files import stored_engine
from ..store.extensions import FURTHER
from ..store.manifest import Manifest, SequenceRecord
from ..store.reading import bucket_files, stored_rows
from ..store.writing import write_staged
from ..system.log import Log
from ..system.machine import available_cores
from .files import InputFile, Reading
from .net import note_ties, reader_of, row_text, write_query
from .records import PROBLEMS_LISTED, Problems, input_relation
from .values import REMOVE_KEY, InputShape


def reading_in_order(reading: Reading, root: Path, before: Manifest, changed: Iterable[str]) -> Reading:
    """Return how to read changes of the input relations ``changed``: if they have an order, with the sequences that the
    state keeps. Raise JobError if one of them keeps sequences by another order column than that of the changes."""
    for name in changed:
        record = before.sequences.get(name)
        if record and record.column != reading.order_column:
            raise JobError(
                f"{name} keeps the sequence of each key, by the order column {record.column}: pass --order-column "
                f"{record.column}, so that late rows are recognized; `vacuum --forget-sequences {name}` gives the "
                "sequences up"
            )
    return replace(reading, sequences=KeptSequences(root, before)) if reading.order_column else reading


class KeptSequences:
    """The sequences that a state keeps, and what a batch makes of them: the ``records`` of relations, the files
    ``staged`` by table with new sequences, the ``relations`` that these are stored in, and how many changes were
    ``late``."""

    def __init__(self, root: Path, before: Manifest) -> None:
        """Begin with the sequences of a commit."""
        self.root, self.before = root, before
        self.records: dict[str, SequenceRecord] = dict(before.sequences)
        self.staged: dict[str, list[str]] = {}
        self.relations: list[Relation] = []
        self.late: Counter[str] = Counter()

    def net(self, files: Sequence[InputFile], folder: Path, shape: InputShape, problems: Problems) -> Path:
        """Net the changes staged in ``folder``, at most one for each key: the last one by the order, unless that is
        late. Return the folder with the result, and stage the new sequences beside ``folder``."""
        relation = shape.relation
        record = self.records.setdefault(relation.name, sequence_record(relation, shape.order))
        kept = sequence_relation(relation.name, record)
        staged = sorted(folder.rglob("*.parquet"))
        netted, beside = folder / "net", folder.parent / kept.table
        for place in (netted, beside):
            place.mkdir()
        with stored_engine(self.root, [self.before], kept, available_cores()) as (engine, (stored,)):
            engine.connection.register("rows", reader_of(staged))
            engine.table("given", f"SELECT {names(relation.columns)}, _op, _order FROM rows")
            engine.connection.unregister("rows")
            self.late[relation.name] += self._judge(engine, relation, record, stored)
            self._net(engine, shape, problems)
            rows, sequences = netted / "rows.parquet", beside / "rows.parquet"
            key = ", ".join(relation.key)
            changed = f"CASE _op WHEN '+' THEN '+' ELSE '{REMOVE_KEY}' END AS _op"
            write_query(engine, staged, f"SELECT {names(relation.columns)}, {changed} FROM net", rows)
            write_query(engine, staged, f"SELECT {key}, _order, _op AS _last, '+' AS _op FROM net", sequences)
        self.staged[kept.table] = [str(sequences)]
        self.relations.append(kept)
        return netted

    def _stored(self, engine: DuckEngine, relation: Relation) -> str:
        """Return SQL for the stored rows of a relation."""
        return stored_rows(engine, str(self.root), relation, bucket_files(self.before.relations, relation, None))

    def _judge(self, engine: DuckEngine, relation: Relation, record: SequenceRecord, known: str) -> int:
        """Make ``known`` of the sequences of the keys in ``given``, and ``fresh`` of the changes that are newer, or as
        new; return how many are late. Without its sequence, a key that is not there is dead since the time of those
        that were pruned."""
        key = ", ".join(relation.key)
        same = " AND ".join(f"g.{name} = k.{name}" for name in relation.key)
        engine.table(
            "known", f'SELECT {key}, _order AS "known at", _last FROM ({known}) AS q SEMI JOIN given USING ({key})'
        )
        late = """COALESCE(_order < "known at" OR (_order = "known at" AND _op = '-' AND _last <> '-'), FALSE)"""
        rows = f'SELECT g.*, k."known at", k._last FROM given AS g LEFT JOIN known AS k ON {same}'
        if record.pruned:
            there = f"SELECT {key} FROM ({self._stored(engine, relation)}) AS q SEMI JOIN given USING ({key})"
            engine.table("living", there)
            rows = (
                f'SELECT r.*, l."is there" FROM ({rows}) AS r LEFT JOIN '
                f'(SELECT DISTINCT {key}, TRUE AS "is there" FROM living) AS l USING ({key})'
            )
            late += f' OR ("known at" IS NULL AND "is there" IS NULL AND _order < {int(record.pruned)})'
        engine.table("judged", f'SELECT *, {late} AS "is late" FROM ({rows}) AS j')
        engine.table("fresh", f'SELECT {names(relation.columns)}, _op, _order FROM judged WHERE NOT "is late"')
        return engine.rows("judged") - engine.rows("fresh")

    def _net(self, engine: DuckEngine, shape: InputShape, problems: Problems) -> None:
        """Make ``net`` of the last change of each key in ``fresh``, apart from those that are known. Two different
        insertions of a key with the same sequence are a problem, also if an earlier batch had one of them."""
        relation = shape.relation
        columns, key = names(relation.columns), ", ".join(relation.key)
        free = [column.sql for column in relation.columns if column.sql not in relation.key]
        place = f"RANK() OVER (PARTITION BY {key} ORDER BY _order DESC, _op <> '-' DESC) AS place"
        newest = f"SELECT * FROM (SELECT *, {place} FROM fresh) WHERE place = 1"
        any_row = "".join(f", ANY_VALUE({name}) AS {name}" for name in free)
        removed = f"SELECT {key}{any_row}, _op, _order FROM newest WHERE _op <> '+' GROUP BY {key}, _op, _order"
        engine.table(
            "last",
            f"WITH newest AS ({newest}) SELECT DISTINCT {columns}, _op, _order FROM newest WHERE _op = '+' "
            f"UNION ALL SELECT {columns}, _op, _order FROM ({removed}) AS r",
        )
        twice = f"SELECT {key} FROM last GROUP BY {key} HAVING COUNT(*) > 1"
        note_ties(*first_keys(engine, relation, twice), shape, problems)
        tied = f'SELECT l.*, k._last FROM last AS l JOIN known AS k USING ({key}) WHERE _order = "known at"'
        if not engine.table("tied", f"{tied} AND (_op <> '-' OR _last = '-') AND NOT (_op <> '-' AND _last = '-')"):
            engine.table("net", "SELECT * FROM last")
            return
        there = f"SELECT {columns} FROM tied SEMI JOIN ({self._stored(engine, relation)}) AS q USING ({columns})"
        same = f"_op = _last AND (_op <> '+' OR ({columns}) IN (SELECT ({columns}) FROM there))"
        engine.table("repeated", f"WITH there AS ({there}) SELECT {key} FROM tied WHERE {same}")
        engine.table("net", f"SELECT * FROM last ANTI JOIN repeated USING ({key})")
        others = first_keys(engine, relation, f"SELECT {key} FROM tied ANTI JOIN repeated USING ({key})")
        note_contradicted(*others, shape, problems)


def first_keys(engine: DuckEngine, relation: Relation, sql: str) -> tuple[list[tuple[Any, ...]], int]:
    """Return the first keys that a query finds, and the number of all."""
    count = engine.table("found", sql)
    rows = engine.first("SELECT * FROM found ORDER BY ALL", PROBLEMS_LISTED) if count else []
    return [tuple(hashable(row[name]) for name in relation.key) for row in rows], count


def note_contradicted(keys: Sequence[tuple[Any, ...]], count: int, shape: InputShape, problems: Problems) -> None:
    """Add a problem for each key that has another row with the sequence of the one that is there; ``count`` in all."""
    column_names = {column.sql: column.name for column in shape.relation.columns}
    before = problems.count
    for key in keys:
        text = row_text([column_names[name] for name in shape.relation.key], key)
        problems.add(f"{shape.relation.name}: an earlier batch had another row with {text} and the same {shape.order}")
    problems.count = before + count


def sequence_differences(program: Program, root: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """Compare the sequences of a commit with its rows: a key has at most one, and has a row just if its last change was
    an insertion. Return the differences, with the first ten keys of each kind."""
    differences = []
    for name, kept in sequence_relations(manifest).items():
        relation = input_relation(program, name)
        key = names(column for column in kept.columns if column.sql in kept.key)
        with stored_engine(root, [manifest], kept, available_cores()) as (engine, (stored,)):
            rows = stored_rows(engine, str(root), relation, bucket_files(manifest.relations, relation, None))
            engine.view("sequences", stored)
            engine.view("living", f"SELECT {key} FROM ({rows}) AS r")
            for problem, wrong in (
                ("has several sequences", f"sequences GROUP BY {key} HAVING COUNT(*) > 1"),
                (
                    "was inserted by its last change, and has no row",
                    f"sequences ANTI JOIN living USING ({key}) WHERE _last = '+'",
                ),
                (
                    "was removed by its last change, and has a row",
                    f"sequences SEMI JOIN living USING ({key}) WHERE _last <> '+'",
                ),
            ):
                keys = engine.first(f"SELECT {key} FROM {wrong} ORDER BY ALL", 10)
                if keys:
                    way_out = f"`vacuum --forget-sequences {name}` gives the sequences up"
                    differences.append({"relation": name, "problem": f"a key {problem}; {way_out}", "tuples": keys})
    return differences


# Records


def sequence_record(relation: Relation, column: str) -> SequenceRecord:
    """Return the record of a relation that begins to keep sequences, by an order column."""
    key = tuple((c.name, c.type, c.sql) for c in relation.columns if c.sql in relation.key)
    return SequenceRecord(column, relation.tables.sequences, key)


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
    anew, sequences = set(given), {}
    for name, kept in sequence_relations(manifest).items():
        relation = next((r for r in program.relations if r.kind == "input" and r.name == name), None)
        record = manifest.sequences[name]
        if relation and name not in anew and sequence_record(relation, record.column).key == record.key:
            sequences[name] = kept
        else:
            why = "its rows are given anew" if name in anew else "it has another primary key, or is no input any more"
            log.warn(f"{name} no longer keeps the sequences of its keys, since {why}")
    return sequences


def stage_sequences(root: Path, manifest: Manifest, kept: Relation, folder: Path) -> list[str]:
    """Stage the sequences that a commit stores in a relation as insertions, and return the files."""
    with stored_engine(root, [manifest], kept) as (engine, (rows,)):
        return write_staged(engine, f"SELECT {names(kept.columns)}, '+' AS _op FROM ({rows}) AS q", folder)


FURTHER.update(sequences=reading_in_order, sequence_differences=sequence_differences)
