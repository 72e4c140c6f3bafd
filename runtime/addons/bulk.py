"""Build a state in one SQLite file by columns, where counts say that this pays: DuckDB computes the relations, and
SQLite gets their rows in the order of their keys.

The file is what row by row would be made: the same tuples with the same supports and ranks, in one transaction. Where
DuckDB or PyArrow is missing, where columns cannot compute the program, and where they refuse something, rows do it, or
say why not.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..database.commands import FileBatch, commit_batch, init_file
from ..database.reading import RowReading, input_named, read_batch, rows_files
from ..database.schema import is_empty
from ..database.state import DatabaseState, Result, telling_errors, use_log
from ..engines.instances import local_folder
from ..inputs.files import Reading, relation_sources
from ..inputs.paths import named_places
from ..inputs.records import Problems
from ..inputs.staging import stage_inputs
from ..job.command_line import Command
from ..kernel.changes import REMOVALS
from ..kernel.errors import JobError
from ..kernel.model import Column, FunctionSource, Program, Relation
from ..kernel.sql import decimal_size, is_list, is_optional, names, plain_type
from ..local.session import MemoryEngine, Session
from ..row_kernel.batch import BEGINNING, RowChanges, definitions
from ..row_kernel.deltas import literals
from ..row_kernel.encodings import LEAST_INT, MOST_INT, NULL, encoded
from ..row_kernel.model import WHOLE_GROUP, RowProgram
from ..row_kernel.tables import NEW_ROWS, RowTable, RowTables, listed, quoted_sql
from ..row_kernel.units import SHORT
from ..store.executors import LocalExecutor
from ..system.log import Log
from ..system.machine import available_cores

ColumnProgram = Callable[[], Program | None]
"""Returns the same program for columns, None if it cannot be had."""

BYTES_FOR_COLUMNS = 800_000
"""From so many bytes of rows on, columns compute them: to read and store them row by row takes longer than to begin
with DuckDB."""

STEPS_OF_ROWS, STEPS_AT_ONCE = 20, 1_000_000
"""After so many times so many steps of SQLite's machine, which take about as long as to begin with DuckDB, a state is
no longer built row by row: few rows of input may have many tuples."""

COLUMN_KINDS = frozenset({"counted", "ranked", "extremal", "aggregate", "acyclic"})
"""The kinds of strata of which columns keep all that rows do."""

ROWS_LOADED, ROWS_OF_STATEMENT = 50_000, 128
"""How many rows are fetched at once, and how many a statement inserts: one for each row takes three times as long."""

LOADED = "_loaded"
"""A table that becomes an index."""

SECONDS_BETWEEN = 1.0
"""The interval at which progress is reported."""

UNITS_OF = "CAST(replace(CAST({} AS VARCHAR), '.', '') AS {})"
"""SQL for a decimal in units of its last digit."""


class StoredColumn(NamedTuple):
    """SQL for the values of a column as rows store them, and what is left to do with them in Python, if anything."""

    sql: str
    finish: Callable[[Any], Any] | None = None


def stored_column(value: str, kind: str) -> StoredColumn:
    """Return how values of a type, in the SQL of columns, are stored in rows."""
    if is_optional(kind):
        sql, finish = stored_column(f"LIST_EXTRACT({value}, 1)", plain_type(kind))
        return StoredColumn(sql, lambda one: NULL if one is None else finish(one) if finish else one)
    if is_list(kind):
        return StoredColumn(value, lambda items: encoded(items, kind))
    if kind.startswith("decimal"):
        if decimal_size(kind)[0] <= SHORT:
            return StoredColumn(UNITS_OF.format(value, "BIGINT"))
        units = UNITS_OF.format(value, "HUGEINT")
        negative = f"'0' || lpad(CAST(CAST('1{'0' * 38}' AS HUGEINT) + {units} AS VARCHAR), 38, '0')"
        return StoredColumn(
            f"CASE WHEN {value} < 0 THEN {negative} ELSE '1' || lpad(CAST({units} AS VARCHAR), 38, '0') END"
        )
    if kind == "timestamp":
        return StoredColumn(f"CAST(CAST({value} AS DATE) AS VARCHAR) || strftime({value}, ' %H:%M:%S.%f')")
    return StoredColumn(
        {"date": f"CAST({value} AS VARCHAR)", "bool": f"CAST({value} AS TINYINT)", "float": f"{value} + 0.0"}.get(
            kind, value
        )
    )


def kept_sum(text: str) -> int | str:
    """Return an exact sum, given as text, as rows keep it: text beyond 64 bits."""
    number = int(text)
    return number if LEAST_INT <= number <= MOST_INT else text


class ReportedSession(Session):
    """A session that takes the rows of inputs from staged files, and reports the rounds of recursions to a log."""

    log = Log(quiet=True)
    told = 0.0

    def stage(self, relation: Relation, changes: Any) -> None:
        """Make table r__changes of an input relation from its files, which have at most one operation for a row."""
        table = relation.tables.changes
        if changes:
            staged = f"SELECT {names(relation.row_columns)}, _op FROM {self.engine.files(changes)}"
            self.engine.table(table, staged, [REMOVALS])
        else:
            self.engine.empty(table, [*relation.row_columns, Column("_op", "string", "_op")])

    def note(self, stratum: str, phase: str, number: int, tuples: int) -> None:
        """Report a round, unless one was reported a moment ago."""
        now = time.monotonic()
        if now - self.told >= SECONDS_BETWEEN:
            self.told = now
            self.log.event("working", stratum=stratum, phase=phase, round=number, tuples=tuples)


class RankedEngine(MemoryEngine):
    """DuckDB that gives tuples of recursions the ranks that they have in rows: of the round in which they enter."""

    most_rows_to_leap = -1


class ColumnState:
    """The relations of a program, computed by columns, whose rows can be put into the tables of a new state."""

    def __init__(self, session: Session, log: Log) -> None:
        """Take a session that has applied its first batch."""
        self.session, self.engine, self.log = session, session.engine, log
        self.relations = {relation.table: relation for relation in session.program.relations}

    def load(self, tables: RowTables, changes: RowChanges, initial: bool = True) -> None:
        """Fill empty tables, and note their rows as gained, as :func:`maintain_all` does."""
        indexes = {name: sql for kind, name, sql in definitions(tables) if kind == "index"}
        for name in indexes:
            tables.execute(f"DROP INDEX {quoted_sql(name)}")
        for name, table in tables.tables.items():
            table.rows = table.lost = table.entered = 0
            table.gained = 1 if name == BEGINNING else self.engine.rows(name)
            table.version = NEW_ROWS
        tables.execute(f"INSERT INTO {tables.tables[BEGINNING].name} VALUES (1)")
        before = self.ranks_before(tables)
        for name, relation in self.relations.items():
            table, columns = tables.tables[name], self.stored(tables.tables[name], before.get(name, 0))
            first = [column for column in table.orders[0] if column in table.key]
            key = [*first, *(column for column in table.key if column not in first)]
            if table.gained:
                self.log.event("loading", relation=relation.name, tuples=table.gained)
                behind = [column for column in table.state if column not in key]
                self.fill(tables, table, table.name, {c: columns[c] for c in (*key, *behind)}, key)
            for number, order in enumerate(table.orders[1:], 1):
                index = f"{table.bare}__{number}"
                if table.gained:
                    self.log.event("indexing", relation=relation.name, by=", ".join(order))
                    entry = [*order, *(column for column in key if column not in order)]
                    self.fill_index(tables, table, index, indexes[index], {c: columns[c] for c in entry})
                else:
                    tables.execute(indexes[index])
        self.count_values(tables)

    def ranks_before(self, tables: RowTables) -> dict[str, int]:
        """Return by table what is added to ranks, which rows count from the end of one recursion to that of the next,
        and note the greatest."""
        before = {}
        for stratum in tables.program.strata:
            reads = {*stratum.guards, *(name for rule in stratum.rules for name in literals(rule))}
            if stratum.kind not in ("ranked", "extremal") or not any(tables.tables[name].gained for name in reads):
                continue
            rounds = 0
            for relation in stratum.relations:
                before[relation.table] = tables.clock
                if tables.tables[relation.table].gained:
                    (last,) = self.engine.run(f"SELECT MAX(_rank) FROM {relation.table}")[0]
                    rounds = max(rounds, last)
            # The last round finds nothing.
            tables.clock += rounds + 1
        return before

    @staticmethod
    def stored(table: RowTable, ranks: int) -> dict[str, StoredColumn]:
        """Return how the columns of a table are stored, by their names; ``ranks`` is added to ranks."""
        kinds = {column.sql: column.type for column in table.relation.tuple_columns}
        columns = {}
        for name in table.state:
            if name in kinds:
                columns[name] = stored_column(name, kinds[name])
            elif name.startswith("_sum_"):
                columns[name] = StoredColumn(f"CAST({UNITS_OF.format(name, 'HUGEINT')} AS VARCHAR)", kept_sum)
            else:
                columns[name] = StoredColumn({"_rank": f"_rank + {ranks}", WHOLE_GROUP: "1"}.get(name, name))
        return columns

    def fill(
        self,
        tables: RowTables,
        table: RowTable,
        into: str,
        columns: Mapping[str, StoredColumn],
        order: Sequence[str],
    ) -> None:
        """Insert columns of the rows of a relation into a table, in an order: then SQLite only appends."""
        width, connection = len(columns), tables.connection
        kept = {column.sql for column in table.relation.tuple_columns}
        by = ", ".join(name for name in order if name in kept) or "1"
        query = f"SELECT {', '.join(c.sql for c in columns.values())} FROM {table.relation.table} ORDER BY {by}"
        most = max(1, min(ROWS_OF_STATEMENT, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // width))
        insert, marks = f"INSERT INTO {into} ({listed(columns)}) VALUES", f"({', '.join('?' * width)})"
        done, told = 0, time.monotonic()
        for batch in self.engine.arrow(query, ROWS_LOADED):
            values: list[Any] = [None] * (batch.num_rows * width)
            for place, (column, array) in enumerate(zip(columns.values(), batch.columns, strict=True)):
                given = array.to_pylist()
                values[place::width] = [*map(column.finish, given)] if column.finish else given
            whole = batch.num_rows // most * most * width
            for rows, start, end in ((most, 0, whole), (1, whole, len(values))):
                connection.executemany(
                    f"{insert} {', '.join([marks] * rows)}",
                    (values[place : place + rows * width] for place in range(start, end, rows * width)),
                )
            done += batch.num_rows
            if time.monotonic() - told >= SECONDS_BETWEEN:
                told = time.monotonic()
                self.log.event("loading", relation=table.relation.name, tuples=table.gained, done=done)

    def fill_index(
        self, tables: RowTables, table: RowTable, index: str, made: str, columns: Mapping[str, StoredColumn]
    ) -> None:
        """Make an index, given its definition and the columns of its entries.

        To append entries in their order takes less than half as long as to let SQLite sort them. In its file format, an
        index of a table without row IDs is a table without row IDs of the columns of the index and the others of the
        key (https://sqlite.org/fileformat2.html, 2.5.1): one is made, and called the index.
        """
        tables.execute(f"CREATE TABLE {LOADED} ({table.typed(columns)}, PRIMARY KEY ({listed(columns)})) WITHOUT ROWID")
        self.fill(tables, table, LOADED, columns, [*columns])
        tables.execute("PRAGMA writable_schema = ON")
        try:
            tables.execute(
                "UPDATE sqlite_schema SET type = 'index', name = ?, tbl_name = ?, sql = ? WHERE name = ?",
                (index, table.bare, made, LOADED),
            )
        except sqlite3.DatabaseError:
            # Some builds of SQLite let nobody do so.
            tables.execute(f"DROP TABLE {LOADED}")
            tables.execute(made)
        finally:
            tables.execute("PRAGMA writable_schema = RESET")

    def count_values(self, tables: RowTables) -> None:
        """Count the values by which rules choose between orders of joins."""
        choices = [
            (rule.sources[place].table, columns)
            for stratum in tables.program.strata
            for rule in stratum.rules
            for choice in rule.choices
            for order in choice.orders
            for place, columns in order
        ]
        for name, columns in dict.fromkeys(choices):
            table = tables.tables[name]
            if table.gained and not {*table.key} <= {*columns}:
                distinct = f"SELECT DISTINCT {', '.join(columns)} FROM {name}" if columns else "SELECT 1"
                (values,) = self.engine.run(f"SELECT COUNT(*) FROM ({distinct}) AS q")[0]
                tables.statistics[name, columns] = table.gained, values, 0


# The choice


class RowsTakeLong(Exception):
    """Raised when rows have taken as many steps as they may."""


@contextlib.contextmanager
def few_steps(connection: sqlite3.Connection) -> Iterator[None]:
    """Raise RowsTakeLong if the statements of the body take too many steps."""
    steps = 0

    def too_many() -> bool:
        nonlocal steps
        steps += 1
        return steps > STEPS_OF_ROWS

    connection.set_progress_handler(too_many, STEPS_AT_ONCE)
    try:
        yield
    except sqlite3.OperationalError as error:
        if steps > STEPS_OF_ROWS:
            raise RowsTakeLong from error
        # What else interrupts a statement is an exception of the handler: Ctrl-C.
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            raise KeyboardInterrupt from error
        raise
    finally:
        connection.set_progress_handler(None, 0)


def bytes_given(program: RowProgram, inputs: str | Sequence[str]) -> int:
    """Return how many bytes the files of rows have; 0 if something is wrong with them, which reading them tells."""
    problems, size = Problems(), 0
    files_named = {name: relation.file for name, relation in program.inputs.items()}
    for item in [inputs] if isinstance(inputs, str) else inputs:
        for name, place in named_places(files_named, item):
            size += sum(file.size for file in rows_files(input_named(program, name), place, problems))
    return 0 if problems.count else size


def columns_are_there(program: RowProgram) -> bool:
    """Return whether columns can compute a program: its strata are of kinds of which they keep what rows keep, it does
    not read the time, and DuckDB is there."""
    own = {stratum.kind for stratum in program.strata} <= COLUMN_KINDS and program.clock is None
    return own and importlib.util.find_spec("duckdb") is not None


def init_by_rows(database: DatabaseState, given: FileBatch, inputs: str | Sequence[str], reading: RowReading) -> Result:
    """Build a new state from rows of the input relations, row by row."""
    changes = read_batch(database.program, inputs, reading, given.log)
    return commit_batch(database, given, lambda: changes, reading)


def init_by_counts(
    columnar: ColumnProgram,
    functions: FunctionSource,
    database: DatabaseState,
    given: FileBatch,
    inputs: str | Sequence[str],
    reading: RowReading,
) -> Result:
    """Build a new state from rows of the input relations: by rows, or, where there are many, by columns."""
    if not columns_are_there(database.program):
        return init_by_rows(database, given, inputs, reading)
    size = bytes_given(database.program, inputs)
    if size < BYTES_FOR_COLUMNS:
        with contextlib.suppress(RowsTakeLong), few_steps(database.connection):
            return init_by_rows(database, given, inputs, replace(reading))
        database.tables.statistics.clear()
    program = columnar()
    if program is None:
        return init_by_rows(database, given, inputs, reading)
    why = f"{size:,} bytes of rows" if size >= BYTES_FOR_COLUMNS else "many tuples"
    given.log.event("columns", reason=why)
    anew = replace(reading)
    with tempfile.TemporaryDirectory(prefix="flintlog-", dir=local_folder()) as folder:
        engine = RankedEngine(threads=available_cores(), state=folder)
        rounds, entries = database.tables.max_rounds, database.tables.max_entries
        session = ReportedSession(program, rounds, functions, max_entries=entries, engine=engine)
        session.log = given.log
        with contextlib.closing(session):
            try:
                session.apply(staged_rows(program, inputs, anew, Path(folder), given.log))
            except JobError as error:
                # Rows may need less memory, and say what is wrong in their own words.
                given.log.event("rows", reason=str(error).partition("\n")[0])
                return init_by_rows(database, given, inputs, reading)
            database.maintain = ColumnState(session, given.log).load
            with without_log(database):
                return commit_batch(database, given, dict, anew)


@contextlib.contextmanager
def without_log(database: DatabaseState) -> Iterator[None]:
    """Let the body write to the file itself, as only the first commit may, to which nobody looks: what goes through a
    log is written twice. If that does not work, or the log cannot be had back at once, nothing is lost: whoever opens
    the file next makes one."""
    with contextlib.suppress(sqlite3.OperationalError):
        if is_empty(database.connection):
            database.connection.execute("PRAGMA journal_mode = DELETE")
    try:
        yield
    finally:
        with contextlib.suppress(JobError), telling_errors(database.path):
            use_log(database)


def staged_rows(
    program: Program, inputs: str | Sequence[str], reading: RowReading, folder: Path, log: Log
) -> dict[str, list[str]]:
    """Stage the rows of the input relations below a folder, and return the files by table. Raise Refused, naming the
    rows, if anything is wrong."""
    how = Reading(True, all_inserts=reading.all_inserts, left_out=reading.left_out, aside=reading.aside)
    return stage_inputs(LocalExecutor(), program, relation_sources(program, inputs), folder, how, log)


def with_columns(command: Command, columnar: ColumnProgram) -> Command:
    """Return the command ``init`` of a state in one SQLite file so that it also computes by columns."""

    def run(call: Any) -> Result:
        def build(*arguments: Any) -> Result:
            return init_by_counts(columnar, call.options.get("functions"), *arguments)

        return init_file(call.program, log=call.log, build=build, **call.options)

    return replace(command, run=run)
