"""Net the changes of relations with a primary key by their order, over all batches."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .engines.duckdb import DuckEngine
from .inputs.files import InputFile
from .inputs.late import sequence_record, sequence_relation, sequence_relations
from .inputs.net import note_ties, reader_of, row_text, write_query
from .inputs.records import PROBLEMS_LISTED, Problems, input_relation
from .inputs.values import REMOVE_KEY, InputShape, hashable
from .manifest import Manifest, SequenceRecord
from .model import Program, Relation
from .parts import FURTHER
from .reading import bucket_files, stored_rows
from .sql import names
from .stored import stored_engine


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
        with stored_engine(self.root, [self.before], kept, os.cpu_count() or 1) as (engine, (known,)):
            engine.connection.register("rows", reader_of(staged))
            engine.table("given", f"SELECT {names(relation.columns)}, _op, _order FROM rows")
            engine.connection.unregister("rows")
            self.late[relation.name] += self._judge(engine, relation, record, known)
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
    known = {column.sql: column.name for column in shape.relation.columns}
    before = problems.count
    for key in keys:
        text = row_text([known[name] for name in shape.relation.key], key)
        problems.add(f"{shape.relation.name}: an earlier batch had another row with {text} and the same {shape.order}")
    problems.count = before + count


def sequence_differences(program: Program, root: Path, manifest: Manifest) -> list[dict[str, Any]]:
    """Compare the sequences of a commit with its rows: a key has at most one, and has a row just if its last change was
    an insertion. Return the differences, with the first ten keys of each kind."""
    found = []
    for name, kept in sequence_relations(manifest).items():
        relation = input_relation(program, name)
        key = names(column for column in kept.columns if column.sql in kept.key)
        with stored_engine(root, [manifest], kept, os.cpu_count() or 1) as (engine, (known,)):
            rows = stored_rows(engine, str(root), relation, bucket_files(manifest.relations, relation, None))
            engine.view("sequences", known)
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
                    found.append({"relation": name, "problem": f"a key {problem}; {way_out}", "tuples": keys})
    return found


FURTHER.update(sequences=KeptSequences, sequence_differences=sequence_differences)
