"""Compute recursions from scratch as products of sparse matrices, with SuiteSparse:GraphBLAS.

A recursive relation is a matrix with an entry for each tuple. In each round the new entries of one factor are
multiplied with the other factors of a rule, over whole numbers and masked by the complement of what is known. So one
product finds which tuples are new and how many derivations each has: its support, since all of these use a tuple of the
round before and none is of a higher rank. Its rank is the number of the round. These are the very supports and ranks
that rounds of queries find.

What is known is a sum of matrices, each at most a share of the one before: rounds that add little do not rewrite it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...engines.duckdb import DuckEngine
from ...kernel.changes import all_derivations, check_defined, show_versions
from ...kernel.method_interface import Run
from ...kernel.model import MatrixFactor, Relation, Rule, Stratum
from ...kernel.sql import names, union
from ...kernel.table_names import TableName
from .bounds import EntryBound, NotFitting, check_rounds, within_memory
from .numbers import End, Numbering, ends_of, ends_of_factor, number_values, numbered, valued

MOST_SUPPORT = 2**31
"""An entry holds its rank and, in the lower 32 bits, its support, which has to be smaller than this."""

RANK_BITS = 32

MERGED = 4
"""A matrix of known entries is merged with the one after it unless it has more than this many times as many."""


class Library:
    """GraphBLAS, which is loaded when it is first used; tasks that run in threads load it once."""

    def __init__(self) -> None:
        """Load nothing yet."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Library], tuple[()]]:
        """Travel to another process without a lock."""
        return Library, ()

    def load(self, threads: int) -> Any:
        """Return the library, set to this number of threads; raise NotFitting if it does not load."""
        with self._lock:
            try:
                import graphblas

                # What is installed beside it loads when it is first used.
                graphblas.Matrix("INT64", 1, 1)
            except (ImportError, OSError) as error:
                reason, _, _ = str(error).partition("\n")
                raise NotFitting(f"GraphBLAS does not load ({reason})") from error
            graphblas.ss.config["nthreads"] = threads
            # It loads what it has when it is first asked for.
            semirings = [getattr(graphblas.semiring, f"plus_{name}") for name in ("pair", "first", "second", "times")]
            others = [graphblas.binary.plus, graphblas.monoid.max, graphblas.unary.one]
            assert all(operator["INT64"] for operator in (*semirings, *others)) and graphblas.select.offdiag
            return graphblas


LIBRARY = Library()
"""The library in this process."""


class Operand(NamedTuple):
    """A factor of a product, as the sum of ``parts``; ``ones`` if all of its entries count as 1."""

    parts: Sequence[Any]
    ones: bool


def fixpoint(run: Run, stratum: Stratum, clock: int) -> int:
    """Fill the empty tables of a stratum, whose rules are products of matrices; return the new clock. Raise NotFitting
    if its numbers or its memory do not allow that; then queries may compute it."""
    engine = run.engine
    assert isinstance(engine, DuckEngine)
    show_versions(engine, stratum, "insert")
    own = {relation.table: relation for relation in stratum.relations}
    sources = factor_sources(engine, stratum)
    places: dict[str, list[tuple[str, str]]] = {}
    for table, ends in sources.values():
        for end in ends:
            places.setdefault(end.type, []).append((table, end.column))
    for relation in stratum.relations:
        make_exits(run, stratum, relation)
        for end in ends_of(relation):
            places.setdefault(end.type, []).append((relation.tables.exits, end.column))
    places.pop("", None)
    numbers = number_values(engine, stratum.relations[0].table, places)
    search = Fixpoint(run, stratum, numbers, clock)
    with within_memory():
        for factor, (table, ends) in sources.items():
            search.read_factor(factor, table, *ends)
        new = {
            table: search.read(relation.tables.exits, *ends_of(relation), "_support") for table, relation in own.items()
        }
        search.run(new)
    for relation in stratum.relations:
        search.store(relation)
    return search.clock


def factor_sources(engine: DuckEngine, stratum: Stratum) -> dict[MatrixFactor, tuple[str, tuple[End, End]]]:
    """Return for the factors of earlier strata a table or view with their pairs, and its columns; make tables of
    those that have queries."""
    own = {relation.table for relation in stratum.relations}
    factors = dict.fromkeys(factor for rule in stratum.rules for factor in rule.matrices if factor.table not in own)
    sources: dict[MatrixFactor, tuple[str, tuple[End, End]]] = {}
    for order, factor in enumerate(factors):
        table = TableName(factor.table).after
        if factor.query:
            table, pairs = stratum.relations[0].tables.beside(f"factor_{order}"), engine.text(factor.query)
            counted = f"SELECT _first, _last, COUNT(*) AS _copies FROM ({pairs}) AS q GROUP BY _first, _last"
            engine.table(table, pairs if factor.distinct else counted)
        sources[factor] = table, ends_of_factor(factor)
    return sources


def make_exits(run: Run, stratum: Stratum, relation: Relation) -> None:
    """Make r__exits of what the rules that are not recursive derive, with supports."""
    engine, table, columns = run.engine, relation.tables.exits, names(relation.tuple_columns)
    derived = all_derivations(engine, stratum, relation, run.bucket, exits=True)
    if derived:
        counted = f"SELECT {columns}, COUNT(*) AS _support FROM ({union(derived)}) AS q GROUP BY {columns}"
        engine.table(table, counted)
        check_defined(engine, stratum, relation, table)
    else:
        engine.empty(table, relation.state_columns)


class Fixpoint:
    """The matrices of a stratum, until no round brings a new entry."""

    def __init__(self, run: Run, stratum: Stratum, numbers: Mapping[str, Numbering], clock: int) -> None:
        """Begin without any entry."""
        assert isinstance(run.engine, DuckEngine)
        graphblas = LIBRARY.load(run.engine.threads)
        self.run_, self.stratum, self.numbers, self.clock = run, stratum, numbers, clock
        self.engine, self.graphblas = run.engine, graphblas
        self.relations = {relation.table: relation for relation in stratum.relations}
        #: Per relation, the matrices whose sum is known; an entry is its rank, and its support in the lower bits.
        self.known: dict[str, list[Any]] = {table: [] for table in self.relations}
        self.factors: dict[MatrixFactor, Operand] = {}
        self.bound = EntryBound(graphblas, run.engine)

    def read(self, table: str, first: End, last: End, copies: str = "") -> Any:
        """Return the matrix with the pairs in a table; an entry is 1, or the number in column ``copies``."""
        arrays = self.engine.arrays(numbered(self.numbers, table, first, last, copies))
        return self.graphblas.Matrix.from_coo(
            arrays["_i"],
            arrays["_j"],
            arrays[copies] if copies else 1,
            dtype="INT64",
            nrows=self.numbers[first.type].size,
            ncols=self.numbers[last.type].size,
        )

    def read_factor(self, factor: MatrixFactor, table: str, first: End, last: End) -> None:
        """Read a factor of earlier strata."""
        counted = bool(factor.query) and not factor.distinct
        matrix = self.read(table, first, last, "_copies" if counted else "")
        most = self.most(matrix)
        self.check_support(most)
        self.factors[factor] = Operand([matrix], most <= 1)

    def most(self, matrix: Any) -> int:
        """Return the greatest entry of a matrix, 0 if it is empty."""
        return int(matrix.reduce_scalar(self.graphblas.monoid.max).new().value or 0)

    def check_support(self, support: int) -> None:
        """Raise NotFitting if a support is too great."""
        if not 0 <= support < MOST_SUPPORT:
            raise NotFitting("a tuple has too many derivations for an entry of a matrix")

    def run(self, new: dict[str, Any]) -> None:
        """Add entries, and what follows from them, round by round."""
        done = 0
        while any(matrix.nvals for matrix in new.values()):
            check_rounds(done, self.run_.max_rounds)
            done += 1
            self.clock += 1
            self.run_.note(self.stratum.name, "insert", done, sum(int(matrix.nvals) for matrix in new.values()))
            before = {table: tuple(parts) for table, parts in self.known.items()}
            for table, matrix in new.items():
                self.add(table, matrix)
            self.bound.check(self.known_entries())
            new = {table: self.following(table, new, before) for table in self.relations}

    def known_entries(self) -> int:
        """Return the number of known entries."""
        return sum(int(part.nvals) for parts in self.known.values() for part in parts)

    def add(self, table: str, matrix: Any) -> None:
        """Add new entries, with their supports, to what is known."""
        if not matrix.nvals:
            return
        self.check_support(self.most(matrix))
        gb, parts = self.graphblas, self.known[table]
        # A list that other operands hold stays as it is.
        parts = [*parts, matrix.apply(gb.binary.plus, right=self.clock << RANK_BITS).new()]
        while len(parts) > 1 and parts[-2].nvals <= MERGED * parts[-1].nvals:
            last = parts.pop()
            parts.append(parts.pop().ewise_add(last, gb.monoid.max).new())
        self.known[table] = parts

    def following(self, table: str, new: Mapping[str, Any], before: Mapping[str, Sequence[Any]]) -> Any:
        """Return the entries of a relation that follow from ``new`` ones and are not known; ``before`` was known before
        these. Of several factors of the recursion each in turn is new, those before it old, and those after it any."""
        gb = self.graphblas
        rows, columns = (self.numbers[end.type].size for end in ends_of(self.relations[table]))
        entries = gb.Matrix("INT64", rows, columns)
        for rule in self.stratum.rules:
            own = [place for place, factor in enumerate(rule.matrices) if factor.table in self.relations]
            for place in own if rule.head == table else ():
                if new[rule.matrices[place].table].nvals:
                    self.derive(entries, rule, place, new, before)
        for part in self.known[table][1:]:
            entries(~part.S, replace=True) << entries
        return entries

    def derive(
        self, found: Any, rule: Rule, place: int, new: Mapping[str, Any], before: Mapping[str, Sequence[Any]]
    ) -> None:
        """Add to ``found`` the derivations of a rule whose factor at ``place`` is new, without most of the known
        ones."""
        gb, present = self.graphblas, self.known[rule.head][:1]
        operands = []
        for at, factor in enumerate(rule.matrices):
            if factor.table not in self.relations:
                operands.append(self.factors[factor])
                continue
            parts: Sequence[Any] = [new[factor.table]]
            if at != place:
                parts = before[factor.table] if at < place else self.known[factor.table]
            operands.append(Operand([self.turned(part, factor) for part in parts], True))
        if not all(operand.parts for operand in operands):
            return
        left, product, right = operands[:place], operands[place], operands[place + 1 :]
        mask = {"mask": ~present[0].S} if present else {}
        target = gb.Matrix("INT64", found.nrows, found.ncols)
        steps = [(operand, True) for operand in reversed(left)] + [(operand, False) for operand in right]
        for number, (operand, before_it) in enumerate(steps, 1):
            one, other = (operand, product) if before_it else (product, operand)
            product = self.times(one, other, target if number == len(steps) else None, mask)
        if not steps:
            target(**mask) << product.parts[0].apply(gb.unary.one)
        self.check_support(self.most(target))
        found(gb.binary.plus) << (gb.select.offdiag(target) if rule.apart else target)

    def turned(self, matrix: Any, factor: MatrixFactor) -> Any:
        """Return a matrix of the recursion as a factor has it: transposed if its columns are in the other order."""
        first, last = ends_of(self.relations[factor.table])
        return matrix if factor.columns == (first.column, last.column) else matrix.T

    def times(self, left: Operand, right: Operand, target: Any, mask: Mapping[str, Any]) -> Operand:
        """Return the product of two sums, added to the matrix ``target``, if there is one, where the mask allows."""
        gb = self.graphblas
        semiring = {
            (True, True): gb.semiring.plus_pair,
            (True, False): gb.semiring.plus_second,
            (False, True): gb.semiring.plus_first,
            (False, False): gb.semiring.plus_times,
        }[left.ones, right.ones]
        total, entries = target, self.known_entries()
        for one in left.parts:
            for other in right.parts:
                for block in self.bound.blocks(one, other):
                    product = semiring(block @ other)
                    if total is None:
                        total = product.new(dtype="INT64")
                    elif target is None:
                        total(gb.binary.plus) << product
                    else:
                        total(gb.binary.plus, **mask) << product
                    self.bound.check(entries + int(total.nvals))
        if target is None:
            self.check_support(self.most(total))
        return Operand([total], False)

    def store(self, relation: Relation) -> None:
        """Fill the table of a relation with its entries."""
        gb, engine, table = self.graphblas, self.engine, relation.tables
        total = None
        for part in reversed(self.known[table]):
            total = part if total is None else total.ewise_add(part, gb.monoid.max).new()
        if total is None:
            engine.empty(table, relation.state_columns)
            return
        rows, columns, entries = total.to_coo()
        # Numbers that are not negative, without a copy.
        arrays = {"_i": rows.view("int64"), "_j": columns.view("int64"), "_entry": entries}
        hidden = f"q._entry & {2**RANK_BITS - 1} AS _support, q._entry >> {RANK_BITS} AS _rank"
        with engine.given(table.found, arrays):
            found = valued(self.numbers, table.found, *ends_of(relation), hidden)
            engine.table(table, found)
        if not any(self.numbers[end.type].table for end in ends_of(relation)):
            engine.tables[table].order = tuple(column.sql for column in relation.tuple_columns)
