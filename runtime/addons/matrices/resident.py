"""Matrices of a recursion that stay in memory between batches, beside the tables of a database that is kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...engines.duckdb import DuckEngine
from ...kernel.changes import show_versions
from ...kernel.method_interface import Run
from ...kernel.model import MatrixFactor, Relation, Stratum
from ...kernel.table_names import TableName
from ...system.machine import task_bytes
from .bounds import NotFitting
from .numbers import End, ends_of, ends_of_factor
from .pairs import NUMBER_BITS, Array, Pairs, check_counts, entry_keys, np, split_keys

SHARE_OF_TASK = 0.25
"""Matrices that stay in memory take at most this share of a task's memory."""

BYTES_OF_PAIR = 64
"""About how many bytes an entry needs while its matrix is made."""

FEW_PLACES = 10_000
"""This many additional places do not matter."""

MOST_QUERIED = 300_000
"""A factor that is a query is computed again for each batch that changes what it reads, if it reads at most this many
rows."""

READ_AFTER = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?P<read>\b(?:FROM|JOIN)\s+(?P<table>\w+?)__(?:absent_)?)after\b"
)
"""Matches the relations that the query of a factor reads, and skips texts and quoted names."""


class ValueNumbers:
    """The numbers of the values of a type: whole numbers are their own, from the least on, if they are close together;
    other values are in a table of the database, in the order in which they came."""

    def __init__(self, engine: DuckEngine, table: str, kind: str) -> None:
        """Begin without values; ``table`` is the name of the table, if one is needed."""
        self.engine, self.table, self.kind = engine, table, kind
        self.size = 0
        self.least: int | None = None

    def begin(self, sources: Sequence[str]) -> None:
        """Number the values in the column ``_value`` of some queries."""
        values = " UNION ALL ".join(sources)
        if self.kind == "int":
            ((least, most),) = self.engine.run(f"SELECT MIN(_value), MAX(_value) FROM ({values}) AS q")
            half = 1 << NUMBER_BITS - 2
            if least is None or most - least < half:
                # There is room for values that come later.
                self.least = max((least or 0) - half, -(2**63))
                return
        distinct = f"SELECT DISTINCT _value FROM ({values}) AS q"
        self.engine.table(self.table, f"SELECT _value, ROW_NUMBER() OVER () - 1 AS _number FROM ({distinct}) AS v")
        self.size = self.engine.rows(self.table)

    def admit(self, source: str, columns: Sequence[str]) -> None:
        """Number the values in columns of a table that have no number yet."""
        if self.least is not None or not columns:
            return
        values = " UNION ALL ".join(f"SELECT {column} AS _value FROM {source}" for column in columns)
        new = f"SELECT DISTINCT _value FROM ({values}) AS q ANTI JOIN {self.table} USING (_value)"
        number = f"{self.size} + ROW_NUMBER() OVER () - 1 AS _number"
        self.engine.insert(self.table, f"SELECT _value, {number} FROM ({new}) AS v")
        self.size = self.engine.rows(self.table)
        if self.size >= 1 << NUMBER_BITS:
            raise NotFitting("there are too many values")

    def numbers(self, values: Array) -> Array:
        """Return the numbers of whole numbers that are their own. Raise NotFitting if one is far from the others."""
        assert self.least is not None
        if len(values) and not self.least <= int(values.min()) <= int(values.max()) < self.least + (1 << NUMBER_BITS):
            raise NotFitting("its numbers are too far apart")
        return values.astype(np.int64) - self.least


@dataclass
class Resident:
    """The matrices of a stratum: of its ``own`` relations, by table, and of the ``factors`` from earlier strata. They
    belong to the state of the tables in ``tables`` that a database keeps."""

    engine: DuckEngine
    stratum: Stratum
    values: dict[str, ValueNumbers] = field(default_factory=dict)
    own: dict[str, Pairs] = field(default_factory=dict)
    factors: dict[MatrixFactor, Pairs] = field(default_factory=dict)

    @property
    def tables(self) -> set[str]:
        """The tables without which the matrices are useless."""
        read = {table for factor in self.factors for table in sources_of(self.engine, factor)}
        return {*self.own, *read, *(v.table for v in self.values.values() if v.least is None)}

    @property
    def bytes(self) -> int:
        """How many bytes the matrices take."""
        return sum(pairs.bytes for pairs in (*self.own.values(), *self.factors.values()))

    @property
    def worn(self) -> float:
        """How many places of present and removed entries, and numbered values, there are for each present entry."""
        matrices = [*self.own.values(), *self.factors.values()]
        present = sum(pairs.present_entries for pairs in matrices)
        places = sum(pairs.size for pairs in matrices) + sum(values.size for values in self.values.values()) // 4
        return places / (present + FEW_PLACES)

    def read(self, source: str, first: End, last: End, more: Sequence[str] = ()) -> tuple[Array, dict[str, Array]]:
        """Return the keys of the entries that a table or view has in two columns, and other columns of it."""
        selected, joined = list(more), f"{source} AS q"
        for end, place in ((first, "_i"), (last, "_j")):
            if end.type:
                values = self.values[end.type]
                values.admit(source, [end.column])
                if values.least is None:
                    joined += f" JOIN {values.table} AS n{place} ON q.{end.column} = n{place}._value"
                    selected.append(f"n{place}._number AS {place}")
                else:
                    selected.append(f"q.{end.column} AS {place}")
        arrays = self.engine.arrays(f"SELECT {', '.join(selected)} FROM {joined}")
        sides = []
        for end, place in ((first, "_i"), (last, "_j")):
            if not end.type:
                sides.append(np.zeros(len(arrays["_j"]), np.int64))
            elif self.values[end.type].least is None:
                sides.append(arrays[place].astype(np.int64))
            else:
                sides.append(self.values[end.type].numbers(arrays[place]))
        return entry_keys(*sides), arrays

    def store(self, name: str, relation: Relation, keys: Array, more: dict[str, Array]) -> None:
        """Make table ``name`` with the tuples of a relation that have these keys, and columns ``more``."""
        first, last = ends_of(relation)
        selected, joined = [], f"{TableName(name).given} AS q"
        arrays = dict(more)
        for end, place, numbers in zip((first, last), ("_i", "_j"), split_keys(keys), strict=True):
            if not end.type:
                continue
            values = self.values[end.type]
            if values.least is None:
                arrays[place] = numbers
                joined += f" JOIN {values.table} AS n{place} ON q.{place} = n{place}._number"
                selected.append(f"n{place}._value AS {end.column}")
            else:
                arrays[place] = numbers + values.least
                selected.append(f"q.{place} AS {end.column}")
        selected += [f"q.{column}" for column in more]
        with self.engine.given(TableName(name).given, arrays):
            self.engine.table(name, f"SELECT {', '.join(selected)} FROM {joined}")


def sources_of(engine: DuckEngine, factor: MatrixFactor) -> list[str]:
    """Return the tables that a factor of earlier strata is made from."""
    if not factor.query:
        return [factor.table]
    matches = READ_AFTER.finditer(engine.text(factor.query))
    return list(dict.fromkeys(match["table"] for match in matches if match["table"]))


def factors_below(stratum: Stratum) -> list[MatrixFactor]:
    """Return the factors of earlier strata in the products of a stratum."""
    own = {relation.table for relation in stratum.relations}
    return list(dict.fromkeys(f for rule in stratum.rules for f in rule.matrices if f.table not in own))


def make_resident(run: Run, stratum: Stratum) -> Resident:
    """Return the matrices of a stratum in the state before the batch. Raise NotFitting if that is not possible."""
    engine = run.engine
    assert isinstance(engine, DuckEngine)
    resident = Resident(engine, stratum)
    factors = factors_below(stratum)
    rows = sum(engine.rows(relation.table) for relation in stratum.relations)
    rows += sum(engine.rows(table) for factor in factors for table in sources_of(engine, factor))
    if rows * BYTES_OF_PAIR > SHARE_OF_TASK * task_bytes(engine.threads, engine.sharing):
        raise NotFitting("its matrices would take too much memory")
    show_versions(engine, stratum, "delete")
    sources: dict[MatrixFactor, str] = {}
    places: dict[str, list[str]] = {}
    for number, factor in enumerate(factors):
        sources[factor] = source_before(run, stratum, factor, number)
        for end in ends_of_factor(factor):
            places.setdefault(end.type, []).append(f"SELECT {end.column} AS _value FROM {sources[factor]} AS f{number}")
    for relation in stratum.relations:
        for end in ends_of(relation):
            places.setdefault(end.type, []).append(f"SELECT {end.column} AS _value FROM {relation.table}")
    for number, (kind, queries) in enumerate(places.items()):
        if kind:
            resident.values[kind] = ValueNumbers(engine, stratum.relations[0].tables.beside(f"values_{number}"), kind)
            resident.values[kind].begin(queries)
    for factor, source in sources.items():
        keys, arrays = resident.read(source, *ends_of_factor(factor), ["_copies"] if factor.query else [])
        counts = arrays["_copies"] if factor.query else np.ones(len(keys), np.int64)
        check_counts(counts)
        resident.factors[factor] = Pairs(keys, counts)
    for relation in stratum.relations:
        more = ["_support", "_rank", f"q.{engine.row_id} AS _row"]
        keys, arrays = resident.read(relation.table, *ends_of(relation), more)
        check_counts(arrays["_support"])
        check_counts(arrays["_rank"])
        resident.own[relation.table] = Pairs(keys, arrays["_support"], arrays["_rank"], arrays["_row"])
    return resident


def source_before(run: Run, stratum: Stratum, factor: MatrixFactor, number: int) -> str:
    """Return a table or view of a factor's pairs before the batch, with the column ``_copies`` if it is a query, given
    that the views of versions are those of deletions."""
    engine = run.engine
    assert isinstance(engine, DuckEngine)
    if not factor.query:
        return TableName(factor.table).before
    text = READ_AFTER.sub(lambda m: f"{m['read']}before" if m["read"] else m[0], engine.text(factor.query))
    return counted_pairs(engine, stratum, factor, number, text)


def counted_pairs(engine: DuckEngine, stratum: Stratum, factor: MatrixFactor, number: int, text: str) -> str:
    """Make a table of the pairs of a factor's query, with how often each is derived, and return its name."""
    rows = sum(engine.rows(table) for table in sources_of(engine, factor))
    if rows > MOST_QUERIED:
        raise NotFitting(f"a factor would be computed from {rows:,} rows")
    table = stratum.relations[0].tables.beside(f"factor_{number}")
    engine.table(table, f"SELECT _first, _last, COUNT(*) AS _copies FROM ({text}) AS q GROUP BY _first, _last")
    return table


def exits(stratum: Stratum) -> Stratum:
    """Return a stratum with those of its rules that are not recursive."""
    return replace(stratum, rules=tuple(rule for rule in stratum.rules if not rule.rounds))
