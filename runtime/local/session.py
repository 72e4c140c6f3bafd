"""Run a program in this process, on tables of one in-memory database that persist between batches.

A batch is a transaction: if it is refused, nothing changes.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..engines.duckdb import DuckEngine
from ..explain.limits import tell_culprit
from ..explain.proofs import MOST_PROOF_TUPLES, Explainer
from ..inputs.times import GivenTime, time_changes
from ..inputs.tuples import parse_tuple
from ..inputs.values import REMOVE_KEY
from ..kernel.changes import REMOVALS, changes_of, net_changes_sql, no_changes, resolve_input
from ..kernel.errors import JobError, OutOfMemory, Refused
from ..kernel.method_interface import Bucket, Choice, Run
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, Column, FunctionSource, Program, Relation
from ..kernel.recount import recount
from ..kernel.recursion import CULPRITS, telling_culprits
from ..kernel.sql import is_optional, names, plain_column, sql_type, stored_type
from ..kernel.strategy import maintain
from ..kernel.values import named_values, plain_row, stored_row
from ..store.extensions import supply

CULPRITS["told"] = tell_culprit

ROWS_PER_TABLE = 50_000

Row = tuple[Any, ...]
"""The values of a row as users see them: None for null."""

Changes = Mapping[str, Any]
"""Per table of an input relation, its changes: an Arrow table of staged rows, or an iterable of pairs, each ``+`` or
``-`` and a row in the order of the relation's columns."""


def refusal(error: JobError) -> str:
    """Return why a batch is refused, without what applies only to a job with its state and options."""
    return error.without_state if isinstance(error, Refused) else str(error)


class MemoryEngine(DuckEngine):
    """DuckDB with transactions, and tables made of Python rows or Arrow tables."""

    memory_limit = ""
    row_id = ""  # Within a transaction, DuckDB 2.0 may move rows or fail on row IDs.

    @classmethod
    def within(cls, memory_limit: str) -> MemoryEngine:
        """Return an engine that may use this much memory, and gives up if that does not suffice."""
        engine = cls(memory_limit, spills=False)
        engine.memory_limit = memory_limit
        return engine

    def beside(self) -> MemoryEngine:
        """Return an engine with a database of its own in the same instance of DuckDB."""
        other = MemoryEngine.__new__(MemoryEngine)
        other._open(self.instance, shared=True)
        return other

    @contextlib.contextmanager
    def computing(self, what: str) -> Iterator[None]:
        """If memory runs out in the body, say what was computed, and which limit was set."""
        try:
            yield
        except OutOfMemory as error:
            limit = f"--memory-limit {self.memory_limit} is" if self.memory_limit else "the memory is"
            raise OutOfMemory(f"{limit} too little to compute {what}: {error}") from error

    @contextlib.contextmanager
    def transaction(self, keep: bool = True) -> Iterator[None]:
        """Execute the body as a whole or not at all; roll it back in any case unless ``keep``."""
        before = {name: replace(table) for name, table in self.tables.items()}
        self.connection.execute("BEGIN TRANSACTION")
        kept = False
        try:
            yield
            if keep:
                self.connection.execute("COMMIT")
                kept = True
        except RuntimeError as error:
            # DuckDB handles Ctrl-C first; Python sees only the interrupted query.
            if str(error) == "Query interrupted":
                raise KeyboardInterrupt from error
            raise
        finally:
            if not kept:
                # A failed transaction may have ended already.
                with contextlib.suppress(Exception):
                    self.connection.execute("ROLLBACK")
                self.tables = before

    def fill(self, name: str, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> int:
        """Make a table of Python rows, if there are any; return their number."""
        self.replace(name)
        # Pass decimals as text: for a list, DuckDB would use the precision and scale of its first element.
        texts = ["decimal" in column.type for column in columns]
        casts = ", ".join(
            f"CAST(UNNEST(CAST(${number} AS {travels}[])) AS {kind}) AS {column.sql}"
            for number, (column, text) in enumerate(zip(columns, texts, strict=True), 1)
            for kind in [sql_type(column.type, self.name)]
            for travels in ["VARCHAR" + "[]" * stored_type(column.type).count("<") if text else kind]
        )
        if any(is_optional(column.type) for column in columns):
            rows = (stored_row(columns, row) for row in rows)
        remaining, done = iter(rows), 0
        while chunk := list(itertools.islice(remaining, ROWS_PER_TABLE)):
            values = [
                [decimal_text(value) for value in column] if text else list(column)
                for column, text in zip(zip(*chunk, strict=True), texts, strict=True)
            ]
            into = "INSERT INTO {}" if done else "CREATE OR REPLACE TABLE {} AS"
            self.connection.execute(f"{into.format(name)} SELECT {casts}", values)
            done += len(chunk)
        self.note_rows(name, done) if done else self.empty(name, columns)
        return done

    def note_count(self, name: str, condition: str, rows: int) -> None:
        """Note how many rows of a table meet a condition."""
        table = self.tables[name]
        table.conditions, table.counted = [condition], {condition: rows}

    def take(self, name: str, columns: Sequence[Column], rows: Any) -> None:
        """Make a table of the rows of an Arrow table."""
        self.connection.register("rows_to_take", rows)
        try:
            typed = (f"CAST({column.sql} AS {sql_type(column.type, self.name)}) AS {column.sql}" for column in columns)
            self.table(name, f"SELECT {', '.join(typed)} FROM rows_to_take")
        finally:
            self.connection.unregister("rows_to_take")


def counted_rows(changes: Iterable[tuple[str, Row]], kinds: Counter[str]) -> Iterator[Row]:
    """Yield changes as rows that end in their kind, and count the kinds."""
    for op, row in changes:
        kinds[op] += 1
        yield (*(row or (True,)), op)


def decimal_text(value: Any) -> Any:
    """Return a decimal, or each one in a list, as text without an exponent, of which DuckDB refuses some."""
    return list(map(decimal_text, value)) if isinstance(value, list | tuple) else f"{value:f}"


class Session:
    """The relations of a program, empty at first; the first batch builds them, and every later one maintains them."""

    def __init__(
        self,
        program: Program,
        max_rounds: int = MOST_ROUNDS,
        functions: FunctionSource = None,
        strategy: str = "auto",
        max_entries: int = MOST_ENTRIES,
        engine: MemoryEngine | None = None,
    ) -> None:
        """Start with nothing built, not even the program's own facts. ``functions`` is the file with the external
        functions, or a mapping by name; ``strategy`` is as in :class:`Choice`; ``engine`` has an empty database."""
        self.program = program
        self.engine = engine or MemoryEngine()
        self.supplied = supply(program, functions)
        if self.supplied:
            self.supplied.define(self.engine)
        self.max_rounds = max_rounds
        self.max_entries = max_entries
        self.choice = Choice(strategy)
        self.clocks: dict[str, int] = {}
        self.batches = 0
        self.as_of: GivenTime = None
        """The time of the next batch, if the program reads it."""
        for relation in self.program.relations:
            self.engine.empty(relation.table, relation.state_columns)

    def apply(self, changes: Changes) -> None:
        """Apply a batch; raise :class:`JobError` if it is refused, and leave everything unchanged."""
        with self.engine.transaction():
            kept = self._maintain(changes)
        self.clocks, self.choice = kept
        self.batches += 1

    def _maintain(self, changes: Changes) -> tuple[dict[str, int], Choice]:
        """Bring the tables to their new state, within a transaction; return the clocks and the choice."""
        clocks = dict(self.clocks)
        if self.supplied:
            self.supplied.failures.clear()
        if self.program.clock is not None and self.program.clock.table not in changes:
            times = [time for (time,) in self.rows(self.program.clock)]
            made = time_changes(self.as_of, times[0] if times else None)
            changes = {**changes, self.program.clock.table: made}
        choice = Choice(self.choice.strategy, dict(self.choice.effects))
        limits = self.max_rounds, self.max_entries
        run = Run(self.engine, Bucket(), not self.batches, *limits, self.note, choice)
        for relation in self.program.relations:
            if relation.kind == "input":
                with self.engine.computing(f"the input relation {relation.name}"):
                    self.stage(relation, changes.get(relation.table, ()))
                    resolve_input(self.engine, relation)
        strata = [stratum for stage in self.program.stages for stratum in stage.strata]
        with telling_culprits(self.engine, self.program.relations, strata):
            for stratum in strata:
                computed = dict.fromkeys(relation.name for relation in stratum.relations)
                with self.engine.computing(f"{', '.join(computed)} (stratum {stratum.name})"):
                    clocks[stratum.name] = maintain(run, stratum, clocks.get(stratum.name, 0))
        return clocks, choice

    def stage(self, relation: Relation, changes: Any) -> None:
        """Make table r__changes of an input relation; raise JobError if a row is both deleted and inserted, unless
        its copies count."""
        columns = [*relation.row_columns, Column("_op", "string", "_op")]
        table, row_columns = relation.tables.changes, names(relation.row_columns)
        kinds: Counter[str] = Counter()
        if not hasattr(changes, "num_rows"):
            rows = self.engine.fill(table, columns, counted_rows(changes, kinds))
            self.engine.note_count(table, REMOVALS, rows - kinds["+"])
        elif changes.num_rows:
            self.engine.take(table, columns, changes)
            kinds.update("+-")
        else:
            self.engine.empty(table, columns)
        if len(kinds) < 2 or relation.copy:
            return
        whole_rows = f"{table} WHERE _op <> '{REMOVE_KEY}'"
        both = f"SELECT {row_columns} FROM {whole_rows} GROUP BY {row_columns} HAVING COUNT(DISTINCT _op) > 1"
        for row in self.engine.first(both, 1):
            text = named_values(relation, row)
            raise JobError(f"{relation.name}: {text or '()'} is both deleted and inserted")

    def note(self, stratum: str, phase: str, number: int, tuples: int) -> None:
        """Note a round of a recursion."""

    def close(self) -> None:
        """Discard the relations."""
        self.engine.close()

    def changes(self, relation: Relation) -> list[tuple[str, Row]]:
        """Return the net changes of the last batch, sorted by row; the first batch inserted everything."""
        return [("+", row) for row in self.rows(relation)] if self.batches == 1 else self._net_changes(relation)

    def _net_changes(self, relation: Relation) -> list[tuple[str, Row]]:
        if not changes_of(self.engine, relation.change):
            return []
        rows = self.engine.run(f"{net_changes_sql(relation)} ORDER BY {names(relation.tuple_columns)}")
        shown = relation.term_columns
        return [(op, plain_row(shown, row[: len(shown)])) for op, *row in rows]

    def rows(self, relation: Relation) -> list[Row]:
        """Return the tuples of a relation, sorted."""
        if not self.engine.rows(relation.table):
            return []
        columns = names(relation.tuple_columns)
        stored = self.engine.run(f"SELECT {columns} FROM {relation.table} ORDER BY {columns}")
        return [plain_row(relation.term_columns, row[: len(relation.term_columns)]) for row in stored]

    def arrow(self, relation: Relation) -> Any:
        """Return a reader of the tuples of a relation, sorted, as Arrow data; a tuple without columns is ``+``."""
        from ..engines.arrow import ROWS_AT_ONCE

        listed = ", ".join(f'{plain_column(c, c.sql)} AS "{c.name}"' for c in relation.columns) or "'+' AS op"
        ordered = f"SELECT {listed} FROM {relation.table} AS q ORDER BY {names(relation.tuple_columns, 'q.')}"
        return self.engine.arrow_reader(ordered, ROWS_AT_ONCE)

    def explain(self, text: str, limit: int = MOST_PROOF_TUPLES) -> dict[str, Any]:
        """Return why a tuple in program syntax is there or not, like the job's ``explain``."""
        relation, values = parse_tuple(self.program, text, open=True)
        with self.engine.transaction(keep=False):
            looking = Explainer(self.program, self.engine, lambda stored: f"SELECT * FROM {stored.table}")
            return looking.explain(relation, values, limit)

    def without(self, relation: Relation, row: Row) -> list[tuple[Relation, str, Row]] | None:
        """Return how the derived relations would change if a row of an input relation were deleted; None if it is not
        there."""
        with self.engine.transaction(keep=False):
            time = {self.program.clock.table: ()} if self.program.clock else {}
            self._maintain({**time, relation.table: [("-", row)]})
            if not self.engine.rows(relation.change.lost):
                return None
            return [
                (other, op, changed)
                for other in self.program.relations
                if other.kind != "input" and not other.hidden
                for op, changed in self._net_changes(other)
            ]

    def differences(self) -> list[dict[str, Any]]:
        """Recount the relations from the rules and return what is wrong, with the first tuples of each finding."""
        findings = []
        with self.engine.transaction(keep=False):
            for relation in self.program.relations:
                no_changes(self.engine, relation)
            for stratum in (stratum for stage in self.program.stages for stratum in stage.strata):
                for finding in recount(self.engine, stratum, Bucket()):
                    rows = self.engine.first(finding.sql, 10)
                    if rows:
                        named = {"relation": finding.relation, "problem": finding.problem}
                        findings.append({**named, "tuples": rows})
        return findings
