"""Find the best values of recursions with extrema, from scratch, with SuiteSparse:GraphBLAS.

A relation whose extremum is ``min`` or ``max`` is a matrix of its values, and a rule that adds along a chain is a
product in which entries along a path are added, and the best one of all paths counts. Each round multiplies the values
that have become better with the other factors, until none becomes better. Supports and ranks are found afterwards by
rounds of queries, which only have to look at the best values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...engines.duckdb import DuckEngine
from ...kernel.changes import all_derivations, lacking, show_versions
from ...kernel.method_interface import Run
from ...kernel.model import MatrixFactor, Relation, Rule, Stratum
from ...kernel.sql import names, union
from ...kernel.table_names import TableName
from .bounds import EntryBound, NotFitting, check_rounds, within_memory
from .fixpoint import LIBRARY
from .numbers import End, Numbering, ends_of, ends_of_factor, number_values, numbered, valued

MOST_VALUE = 2**62
"""Sums of the greatest values stay below this, so that none overflows."""


def find_best_values(run: Run, stratum: Stratum) -> None:
    """Make r__best of the best values of a stratum that is computed from scratch. Raise NotFitting if that cannot be
    done, also if a value may be out of range or does not exist: queries then say what is wrong."""
    engine = run.engine
    assert isinstance(engine, DuckEngine)
    show_versions(engine, stratum, "insert")
    sources = weighted_sources(engine, stratum)
    places: dict[str, list[tuple[str, str]]] = {}
    for factor, table in sources.items():
        for end in ends_of_factor(factor):
            places.setdefault(end.type, []).append((table, end.column))
    for relation in stratum.relations:
        make_best_exits(run, stratum, relation)
        for end in ends_of(relation):
            places.setdefault(end.type, []).append((relation.tables.exits, end.column))
    places.pop("", None)
    numbers = number_values(engine, stratum.relations[0].table, places)
    best = BestValues(run, stratum, numbers)
    with within_memory():
        for factor, table in sources.items():
            best.factors[factor] = best.read(table, *ends_of_factor(factor), "_weight" if factor.weighted else "")
        new = {}
        for relation in stratum.relations:
            new[relation.table] = best.read(relation.tables.exits, *ends_of(relation), value_of(relation))
        best.run(new)
    for relation in stratum.relations:
        best.store(relation)


def value_of(relation: Relation) -> str:
    """Return the column of a relation's extremum."""
    assert relation.best
    return relation.best[1]


def weighted_sources(engine: DuckEngine, stratum: Stratum) -> dict[MatrixFactor, str]:
    """Return for the factors of earlier strata a table or view with their pairs; make tables of those that have
    queries, with the best weight of each pair."""
    own = {relation.table: relation for relation in stratum.relations}
    sources: dict[MatrixFactor, str] = {}
    for rule in stratum.rules:
        function = own[rule.head].best[0] if own[rule.head].best else ""  # type: ignore[index]
        for factor in rule.matrices:
            if factor in sources or factor.table in own:
                continue
            if not factor.query:
                sources[factor] = TableName(factor.table).after
                continue
            table = stratum.relations[0].tables.beside(f"factor_{len(sources)}")
            pairs = engine.text(factor.query)
            best = f", {function}(_weight) AS _weight, COUNT(*) - COUNT(_weight) AS _missing" * factor.weighted
            engine.table(table, f"SELECT _first, _last{best} FROM ({pairs}) AS q GROUP BY _first, _last")
            if factor.weighted and engine.first(f"SELECT * FROM {table} WHERE _missing > 0", 1):
                raise NotFitting("a value that is added does not exist")
            sources[factor] = table
    return sources


def make_best_exits(run: Run, stratum: Stratum, relation: Relation) -> None:
    """Make r__exits of the best values that the rules that are not recursive derive."""
    assert relation.best
    engine, table, (function, value) = run.engine, relation.tables.exits, relation.best
    groups = ", ".join(end.column for end in ends_of(relation) if end.column)
    derived = all_derivations(engine, stratum, relation, run.bucket, exits=True)
    if not derived:
        engine.empty(table, relation.tuple_columns)
        return
    columns = names(relation.tuple_columns)
    missing = lacking(stratum, relation)
    absent = f"COUNT(CASE WHEN {missing} THEN 1 END)" if missing else "0"
    best = f"SELECT {groups}, {function}({value}) AS {value}, {absent} AS _missing FROM ({union(derived)}) AS q"
    engine.table(f"{table}_all", f"{best} GROUP BY {groups}")
    if engine.first(f"SELECT * FROM {table}_all WHERE _missing > 0", 1):
        raise NotFitting("a value does not exist")
    engine.table(table, f"SELECT {columns} FROM {table}_all")


class BestValues:
    """The matrices of the values of a stratum, until no round makes one better."""

    def __init__(self, run: Run, stratum: Stratum, numbers: Mapping[str, Numbering]) -> None:
        """Begin without any value."""
        assert isinstance(run.engine, DuckEngine)
        self.run_, self.stratum, self.numbers, self.engine = run, stratum, numbers, run.engine
        self.graphblas = LIBRARY.load(run.engine.threads)
        self.relations = {relation.table: relation for relation in stratum.relations}
        self.factors: dict[MatrixFactor, Any] = {}
        self.known: dict[str, Any] = {}
        self.bound = EntryBound(self.graphblas, run.engine)

    def read(self, table: str, first: End, last: End, value: str) -> Any:
        """Return the matrix with the pairs in a table; an entry is the number in column ``value``, 0 without one."""
        arrays = self.engine.arrays(numbered(self.numbers, table, first, last, value))
        return self.graphblas.Matrix.from_coo(
            arrays["_i"],
            arrays["_j"],
            arrays[value].astype("int64") if value else 0,
            dtype="INT64",
            nrows=self.numbers[first.type].size,
            ncols=self.numbers[last.type].size,
        )

    def run(self, new: dict[str, Any]) -> None:
        """Enter values, and values that follow from them, until none is better than the known one."""
        gb, done = self.graphblas, 0
        self.known = {table: gb.Matrix("INT64", matrix.nrows, matrix.ncols) for table, matrix in new.items()}
        greatest = sum(self.greatest(matrix) for matrix in self.factors.values())
        factors = max(len(rule.matrices) for rule in self.stratum.rules)
        while any(matrix.nvals for matrix in new.values()):
            check_rounds(done, self.run_.max_rounds)
            done += 1
            self.run_.note(self.stratum.name, "improve", done, sum(int(matrix.nvals) for matrix in new.values()))
            for table, matrix in new.items():
                self.known[table](self.better(table)) << matrix
            self.bound.check(self.known_entries())
            if greatest + factors * max(self.greatest(matrix) for matrix in self.known.values()) > MOST_VALUE:
                raise NotFitting("its values are too great")
            new = {table: self.improved(table, new) for table in self.relations}

    def greatest(self, matrix: Any) -> int:
        """Return the greatest absolute value of the entries of a matrix, 0 if it is empty."""
        monoid = self.graphblas.monoid
        least, most = (matrix.reduce_scalar(one).new().value or 0 for one in (monoid.min, monoid.max))
        return max(abs(int(least)), abs(int(most)))

    def better(self, table: str) -> Any:
        """Return the operator that chooses the better one of two values of a relation."""
        best = self.relations[table].best
        return self.graphblas.binary.min if best and best[0] == "MIN" else self.graphblas.binary.max

    def improved(self, table: str, new: Mapping[str, Any]) -> Any:
        """Return the values of a relation that follow from ``new`` ones and are better than what is known."""
        gb = self.graphblas
        better = gb.Matrix("INT64", self.known[table].nrows, self.known[table].ncols)
        for rule in self.stratum.rules:
            own = [place for place, factor in enumerate(rule.matrices) if factor.table in self.relations]
            for place in own if rule.head == table else ():
                if new[rule.matrices[place].table].nvals:
                    self.derive(better, rule, place, new)
        least = self.better(table) is gb.binary.min
        compared = better.ewise_mult(self.known[table], gb.binary.ge if least else gb.binary.le).new(dtype="BOOL")
        worse = gb.select.valueeq(compared, True).new()
        better(~worse.S, replace=True) << better
        return better

    def derive(self, found: Any, rule: Rule, place: int, new: Mapping[str, Any]) -> None:
        """Enter into ``found`` the best values of a rule whose factor at ``place`` is new, and whose other factors are
        any."""
        gb, better = self.graphblas, self.better(rule.head)
        semiring = gb.semiring.min_plus if better is gb.binary.min else gb.semiring.max_plus
        operands = []
        for at, factor in enumerate(rule.matrices):
            if factor.table in self.relations:
                matrix = (new if at == place else self.known)[factor.table]
                first, last = ends_of(self.relations[factor.table])
                operands.append(matrix if factor.columns == (first.column, last.column) else matrix.T)
            else:
                operands.append(self.factors[factor])
        product = operands[place]
        for other in reversed(operands[:place]):
            product = self.times(other, product, semiring, better)
        for other in operands[place + 1 :]:
            product = self.times(product, other, semiring, better)
        found(better) << (gb.select.offdiag(product) if rule.apart else product)

    def times(self, left: Any, right: Any, semiring: Any, better: Any) -> Any:
        """Return the product of two matrices."""
        product, entries = self.graphblas.Matrix("INT64", left.nrows, right.ncols), self.known_entries()
        for block in self.bound.blocks(left, right):
            product(better) << semiring(block @ right)
            self.bound.check(entries + int(product.nvals))
        return product

    def known_entries(self) -> int:
        """Return the number of known values."""
        return sum(int(matrix.nvals) for matrix in self.known.values())

    def store(self, relation: Relation) -> None:
        """Fill r__best with the values of a relation."""
        engine, name, value = self.engine, relation.tables.best, value_of(relation)
        rows, columns, values = self.known[relation.table].to_coo()
        arrays = {"_i": rows.view("int64"), "_j": columns.view("int64"), "_value": values}
        with engine.given(name.found, arrays):
            more = f"q._value AS {value}"
            engine.table(name, valued(self.numbers, name.found, *ends_of(relation), more))
