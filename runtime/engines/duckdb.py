"""The DuckDB engine, which runs inside a task, on the task's bucket of the state.

The same SQL runs in one of two engines, DuckDB in tasks or Spark on the whole state. Algorithms change tables only
through the operations of an engine.
"""

from __future__ import annotations

import contextlib
import math
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..errors import JobError, OutOfMemory, Passing, full_disk
from ..files import READ_FILES, checked_file
from ..model import Both, Column, Relation, Stratum
from ..sql import no_rows
from .engine import out_of_range
from .instances import INSTANCES, Database

MOST_REMOVED, FEW_REMOVED = 3, 100_000
"""A table stays for the next batch if the rows that were ever inserted are at most this many times its present rows,
apart from this many."""

NAMED = re.compile(r"(?:'[^']*'|\bAS\s+\w+|\w+\.\w+)|(\w+)")
"""Finds the words of a statement that may be tables: no text, since folders of the state have the names of relations,
and neither aliases nor columns of a table."""

MOST_REMEMBERED = 2000
"""Of so many statements it is remembered which tables they may name: most come again with the next batch."""

MANY_ROWS = 500_000
"""A table with fewer rows is joined as a whole: that takes no longer than to find out which rows are needed."""

MOST_MET, MOST_VALUES_MET = 0.05, 0.5
"""A column of a table is looked up for at most this many other rows per row of the table, if these have at most this
share of the values in it."""

FEW_LEFT = 1000
"""Tables of at most so many rows are left in a database that is kept; to remove them would take longer than to replace
them."""


class NoRows(NamedTuple):
    """A query with these columns and no rows, whose text few tables ever need."""

    columns: tuple[Column, ...]

    def __str__(self) -> str:
        return no_rows(self.columns, DuckEngine.name)


class DuckEngine:
    """DuckDB in memory, with ``threads`` threads, within ``memory_limit``, spilling to the folder ``spill``.

    Views, empty tables and tables over files are created when a statement names them: a batch that changes little
    leaves most of them alone, and a statement costs as much as the work on a small table.
    """

    name = "duckdb"
    row_id = "rowid"
    rounds_before_leaps = 3
    most_rows_to_leap = math.inf
    seconds_of_statement = 0.0015
    threads = 1

    def __init__(self, memory_limit: str = "", spill: str = "", threads: int = 1) -> None:
        """Open a database; ``memory_limit`` is in DuckDB's syntax (``2GB``), empty for DuckDB's default."""
        self.threads = threads
        settings = {"threads": str(threads), "preserve_insertion_order": "false", "error_on_division_by_zero": "true"}
        # A common subexpression of two TRYs would be computed outside of both, and its error not caught. Of similar
        # queries in a union, DuckDB 2.0 computes only one, and takes its columns for those of the other.
        settings["disabled_optimizers"] = "'common_subexpressions,common_subplan'"
        # A checkpoint would change the row IDs.
        settings |= {"checkpoint_threshold": "'1000TB'"} if self.row_id else {}
        settings |= {"memory_limit": f"'{memory_limit}'"} if memory_limit else {}
        settings |= {"temp_directory": f"'{spill}'"} if spill else {}
        try:
            self._open(INSTANCES.take(settings), spill)
        except ImportError as error:
            raise JobError(without_duckdb()) from error

    def _open(self, instance: Database, spill: str = "", shared: bool = False) -> None:
        """Begin with an empty database in an instance, which others may use later or, if it is ``shared``, use now."""
        self.instance, self._shared = instance, shared
        self.connection, self._database = instance.attach()
        #: Whether nothing but tables and settings was changed in the instance.
        self.reusable = True
        self._start(spill)

    def _start(self, folder: str) -> None:
        """Begin with an empty database."""
        self.folder = folder
        self.resources = contextlib.ExitStack()
        self._rows: dict[str, int] = {}
        self._views: dict[str, str] = {}
        self._later: dict[str, str | NoRows] = {}
        self._selected: dict[str, Callable[[str], str]] = {}
        self._reducible: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._made: dict[str, int] = {}
        self._numbered: dict[str, int] = {}
        self._ordered: dict[str, int] = {}
        self._conditions: dict[str, Sequence[str]] = {}
        self._counted: dict[str, dict[str, int]] = {}
        self._values: dict[str, dict[str, int]] = {}
        self._sources: dict[str, object] = {}
        self._named: dict[str, tuple[str, ...]] = {}
        #: What is kept in memory beside tables, by stratum: its ``bytes``, and ``tables`` without which it is dropped.
        self.resident: dict[str, Any] = {}
        #: Tables whose rows are in the order of some columns, with these; large parts may change places.
        self.in_order: dict[str, tuple[str, ...]] = {}
        #: How many seconds queries have taken to follow changes, by stratum, for the choice to keep something beside.
        self.spent: dict[str, float] = {}
        self.statements = 0
        self._reading = 0.0
        #: Whether tables are read as a whole, since the next batch will use them again.
        self.keeps = False
        self.failed_calls: Callable[[], str] = str
        #: Maps a file that a statement names to one that DuckDB can open.
        self.fetch: Callable[[str], str] = checked_file

    def _known(self) -> tuple[dict[str, Any], ...]:
        """Return all that is known of tables and views."""
        noted = self._read, self._made, self._numbered, self._ordered, self._values, self._sources
        counts = self._conditions, self._counted
        return self._rows, self._views, self._later, self._selected, self._reducible, *noted, *counts

    def close(self) -> None:
        """Discard the database, and what was opened for it."""
        import duckdb

        self.resident.clear()
        try:
            self.instance.detach(self.connection, self._database)
        except duckdb.Error:
            self.reusable = False
        if not self._shared:
            INSTANCES.give(self.instance) if self.reusable else self.instance.close()
        self.resources.close()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        self._make_named(sql)
        return self._execute(sql).fetchall()  # type: ignore[no-any-return]

    def _execute(self, sql: str, run: Callable[[str], Any] | None = None) -> Any:
        """Run a statement; raise JobError for overflow and for problems with files or memory."""
        import duckdb

        if "read_parquet(" in sql:
            sql = READ_FILES.sub(self._fetched, sql)
        try:
            return (run or self.connection.execute)(sql)
        except duckdb.OutOfMemoryException as error:
            if full_disk(error):
                raise
            # Further lines suggest settings that users do not have.
            raise OutOfMemory(f"DuckDB ran out of memory in a task: {str(error).splitlines()[0]}") from error
        except duckdb.OutOfRangeException as error:
            raise out_of_range(error) from error
        except duckdb.IOException as error:
            raise Passing(f"a file of the state cannot be read or written: {error}") from error
        except duckdb.Error as error:
            # Damage in files of earlier versions, which have no checksum, raises errors of several classes.
            read = re.findall(r"'((?:[^']|'')*\.parquet)'", sql) if "read_parquet(" in sql else []
            misused = isinstance(error, duckdb.ProgrammingError) and ".parquet" not in str(error)
            if not read or misused:
                raise
            raise JobError(f"{' or '.join(read)} is damaged, or cannot be read: {error}") from error

    def _fetched(self, quoted: re.Match[str]) -> str:
        """Return a file name quoted in a statement as the quoted path of a file that DuckDB can open."""
        path = self.fetch(quoted[1].replace("''", "'"))
        return "'" + path.replace("'", "''") + "'"

    def _make_named(self, sql: str) -> None:
        """Create the deferred tables and views that a statement names, directly or through views."""
        names = self._named.get(sql)
        if names is None:
            if len(self._named) >= MOST_REMEMBERED:
                self._named.clear()
            names = self._named[sql] = tuple(dict.fromkeys(NAMED.findall(sql)))
        for name in names:
            if name in self._views:
                self._make_named(self._views[name])
            if name in self._later:
                kind = "VIEW" if name in self._views else "TABLE"
                before, started = self._reading, time.thread_time()
                self.run(f"CREATE OR REPLACE {kind} {name} AS {self._later.pop(name)}")
                if kind == "TABLE":
                    self._made[name] = self._rows[name]
                    # What it names itself was read meanwhile.
                    self._reading = before + time.thread_time() - started

    def text(self, sql: str | Both) -> str:
        """Return a query in DuckDB's dialect."""
        return sql if isinstance(sql, str) else sql.duckdb

    def begin(self, stratum: Stratum) -> None:
        """Do nothing: a stratum needs no preparation."""

    def prepare(self, relations: Iterable[Relation], rows: int) -> None:
        """Do nothing: rows need not be moved for joins."""

    def meeting(
        self, relation: Relation, derived: str, after: int, columns: Sequence[str] = ()
    ) -> tuple[str, list[str]]:
        """Return the query itself, and the whole table as its only part. If a few rows meet a large table, return a
        table of them, and the stored rows that may agree with one of them by their values in single columns: these are
        faster to compare than rows, and most row groups of a table are skipped if it is sorted by such a column."""
        table = relation.table
        if table in self._later or self.rows(table) < MANY_ROWS or after > MOST_MET * self.rows(table):
            return f"({derived})", [table]
        few, row = f"{table}__derived", f", {self.row_id}" if self.row_id else ""
        if self.table(few, derived) > MOST_MET * self.rows(table):
            return few, [table]
        tests = [f"{name} IN (SELECT {name} FROM {few})" for name in self._selective(relation, few, columns)]
        return few, [f"(SELECT *{row} FROM {table} WHERE {' AND '.join(tests)})" if tests else table]

    def _selective(self, relation: Relation, few: str, columns: Sequence[str]) -> list[str]:
        """Return those of ``columns``, by default of all, in which the rows of ``few`` have a small share of the values
        of a relation."""
        values = self._number_of_values(relation)
        chosen = [column for column in columns or values if column in values]
        if not chosen:
            return []
        counts = self.run(f"SELECT {', '.join(f'COUNT(DISTINCT {column})' for column in chosen)} FROM {few}")[0]
        shares = {column: count / values[column] for column, count in zip(chosen, counts, strict=True)}
        return [column for column, share in shares.items() if share <= MOST_VALUES_MET]

    def _number_of_values(self, relation: Relation) -> dict[str, int]:
        """Return how many values columns of a relation have, as DuckDB estimates; it does not for lists."""
        table, names = relation.table, [column.sql for column in relation.tuple_columns]
        if table not in self._values:
            stats = self.run(f"SELECT {', '.join(f'stats({name})' for name in names)} FROM {table} LIMIT 1")
            known = {name: found.get("approx_unique") for row in stats for name, found in zip(names, row, strict=True)}
            self._values[table] = {name: number for name, number in known.items() if number}
        return self._values[table]

    def table(self, name: str, sql: str | Both, counts: Sequence[str] = ()) -> int:
        """Run a query now and keep its rows as a table; return their number."""
        self.replace(name, counts)
        self.note_rows(name, int(self.run(f"CREATE OR REPLACE TABLE {name} AS {self.text(sql)}")[0][0]))
        return self._rows[name]

    def replace(self, name: str, counts: Sequence[str] = ()) -> None:
        """Forget what is known of a table that will be made anew."""
        self.forget(name)
        for known in (self._later, self._read, self._ordered, self._values, self.in_order):
            known.pop(name, None)
        self._conditions[name] = counts
        self._counted.pop(name, None)
        self.statements += 1

    def forget(self, name: str) -> None:
        """Drop what is kept in memory beside a table that is no longer what it was."""
        for stratum in [stratum for stratum, held in self.resident.items() if name in held.tables]:
            del self.resident[stratum]

    def note_rows(self, name: str, rows: int) -> None:
        """Note that a table was made with so many rows."""
        self._rows[name] = self._made[name] = self._numbered[name] = rows

    def later(
        self, name: str, sql: str | NoRows, rows: int, selected: Callable[[str], str] | None = None, reducible: int = 0
    ) -> None:
        """Create a table over files once a statement names it."""
        self.forget(name)
        self._sources.pop(name, None)
        self.in_order.pop(name, None)
        self._later[name], self._rows[name] = sql, rows
        self._conditions.pop(name, None)
        self._read[name] = self._numbered[name] = self._ordered[name] = rows
        self._selected.pop(name, None)
        self._reducible[name] = reducible
        if selected:
            self._selected[name] = selected

    def look_up(self, name: str, of: str, condition: str) -> bool:
        """Make a table of the rows of a deferred table that meet a condition, from its files."""
        if self.keeps or of not in self._later or of not in self._selected:
            return False
        self.table(name, self._selected[of](condition))
        return True

    def reduce(self, name: str, changes: str, columns: Sequence[str], most: int) -> None:
        """Read only those rows of a deferred table that agree with a row of ``changes``, if they are all it needs."""
        if not self.keeps and name in self._later and name in self._selected and 0 < most <= self._reducible[name]:
            same = " AND ".join(f"stored.{column} = changed.{column}" for column in columns)
            self._later[name] = self._selected[name](f"EXISTS (SELECT 1 FROM {changes} AS changed WHERE {same})")
            self._read[name] = 0

    def empty(self, name: str, columns: Iterable[Column]) -> None:
        """Create a table without rows once a statement names it."""
        self.later(name, NoRows(tuple(columns)), 0)

    def part(self, name: str, of: str, columns: str, condition: str) -> int:
        """Copy the rows of a table that meet a condition to a new table; return their number."""
        if self.counted(of, condition) == 0:
            self.later(name, f"SELECT {columns} FROM {of} WHERE FALSE", 0)
            return 0
        return self.table(name, f"SELECT {columns} FROM {of} WHERE {condition}")

    def view(self, name: str, sql: str, rows: int | None = None) -> None:
        """Create a view of a query once a statement names it."""
        if self._views.get(name) != sql:
            self._views[name] = self._later[name] = sql

    def snapshot(self, name: str, sql: str, rows: int) -> str:
        """Return the name of a table, made once a statement names it: joins are planned by the statistics of tables."""
        self.later(name, sql, rows)
        return name

    def worked(self) -> float:
        """Return how many seconds the thread has worked, apart from reading files."""
        return time.thread_time() - self._reading

    def rows(self, name: str) -> int:
        """Return the number of rows of a table."""
        return self._rows[name]

    def counted(self, name: str, condition: str) -> int | None:
        """Return how many rows of a table meet one of the conditions that were given when it was made; all of them are
        counted at once, when this is first asked."""
        conditions = self._conditions.get(name, ())
        if condition not in conditions:
            return None
        if name not in self._counted:
            counts = ", ".join(f"COUNT(CASE WHEN {one} THEN 1 END)" for one in conditions)
            self._counted[name] = dict(zip(conditions, self.run(f"SELECT {counts} FROM {name}")[0], strict=True))
        return self._counted[name][condition]

    def add(self, name: str, of: str, columns: str = "*", condition: str = "TRUE") -> None:
        """Append the rows of a table that meet a condition to another."""
        if self.counted(of, condition) == 0:
            return
        self.insert(name, f"SELECT {columns} FROM {of} WHERE {condition}")

    def insert(self, name: str, sql: str) -> None:
        """Append the rows of a query to a table."""
        self.statements += 1
        self._conditions.pop(name, None)
        self.in_order.pop(name, None)
        added = int(self.run(f"INSERT INTO {name} BY NAME {sql}")[0][0])
        self._rows[name] += added
        self._numbered[name] += added
        self._made[name] += added

    def remove(
        self, name: str, keys: str, columns: Sequence[str], count: int | None = None, numbered: bool = False
    ) -> None:
        """Remove rows; those known by row ID are found without comparing the columns of the whole table."""
        if self.rows(keys):
            matches = " AND ".join(f"{name}.{column} = {keys}.{column}" for column in columns)
            if numbered and self.row_id:
                # Fail instead of removing a wrong row if a row has moved.
                same = f"CASE WHEN {matches} THEN TRUE ELSE error('a row of {name} has moved') END"
                matches = f"{name}.{self.row_id} = {keys}._row AND {same}"
            self.statements += 1
            self._conditions.pop(name, None)
            removed = int(self.run(f"DELETE FROM {name} USING {keys} WHERE {matches}")[0][0])
            assert count is None or removed == count, f"rows of {name} are not those that were looked up"
            self._rows[name] -= removed

    def rename(self, name: str, to: str) -> None:
        """Rename a table, replacing the table of that name."""
        for renamed in (name, to):
            self.forget(renamed)
            self.in_order.pop(renamed, None)
            self._conditions.pop(renamed, None)
        self._rows[to], self._read[to] = self._rows.pop(name), self._read.pop(name, 0)
        self._numbered[to], self._ordered[to] = self._numbered.pop(name, 0), self._ordered.pop(name, 0)
        if name in self._later:
            self._later[to] = self._later.pop(name)
            return
        self._later.pop(to, None)
        if to in self._made:
            self.run(f"DROP TABLE {to}")
        self.run(f"ALTER TABLE {name} RENAME TO {to}")
        self._made[to] = self._made.pop(name)

    def arrays(self, sql: str) -> dict[str, Any]:
        """Return the rows of a query as NumPy arrays, by column."""
        self._make_named(sql)
        return self._execute(sql).fetchnumpy()  # type: ignore[no-any-return]

    @contextlib.contextmanager
    def given(self, name: str, arrays: dict[str, Any]) -> Iterator[None]:
        """Let queries in the body read NumPy arrays of equal length as a table."""
        self.connection.register(name, arrays)
        try:
            yield
        finally:
            self.connection.unregister(name)

    def arrow_reader(self, sql: str, rows: int) -> Any:
        """Return a reader of Arrow batches of ``rows`` rows for a query."""
        self._make_named(sql)
        return self._execute(sql, self.connection.sql).to_arrow_reader(rows)

    def arrow(self, sql: str, rows: int) -> Iterator[Any]:
        """Yield the rows of a query in Arrow batches of ``rows`` rows, each made on demand."""
        try:
            yield from self.arrow_reader(sql, rows)
        except OSError as error:
            raise Passing(f"rows of the state cannot be read: {error}") from error

    def since_read(self, name: str) -> str:
        """Return SQL for the rows inserted since a table was read: row IDs follow the order of insertion."""
        if not self.row_id:
            return name
        return f"(SELECT * FROM {name} WHERE {self.row_id} >= {self._read.get(name, 0)})"

    def holds(self, name: str, source: object) -> bool:
        """Return whether a table has been kept since an earlier batch, with the rows of ``source``."""
        return name in self._sources and self._sources[name] == source

    def kept(self, name: str) -> bool:
        """Return whether a table has been kept since an earlier batch."""
        return name in self._sources and name not in self._later

    def inserted(self, name: str) -> int:
        """Return how many rows were ever inserted into a table, which is the row ID of the next one."""
        return self._numbered[name]

    def scattered(self, name: str) -> int:
        """Return how many rows of a table were inserted since it was last read from files, which are sorted."""
        return self._numbered.get(name, 0) - self._ordered.get(name, 0)

    def clear(self, tables: Collection[str] = ()) -> None:
        """Discard everything but ``tables``, which stay for the next batch as if they had been read then. What takes
        little memory stays until it is made again, but is not known any more."""
        self.resident = {name: held for name, held in self.resident.items() if held.tables <= {*tables}}
        for name in [name for name, rows in self._made.items() if rows > FEW_LEFT and name not in tables]:
            self.connection.execute(f"DROP TABLE {name}")
            del self._made[name]
        self._sources = {}
        self.in_order.clear()
        self._selected.clear()
        self._values.clear()
        self._conditions.clear()
        self._later = {name: sql for name, sql in self._later.items() if name in tables or name in self._views}
        for known in (self._rows, self._read, self._numbered, self._ordered):
            for name in [name for name in known if name not in tables]:
                del known[name]
        self._read.update(self._numbered)

    def keep(self, name: str, source: object) -> None:
        """Note that a table has the rows of ``source``, unless it is still to be read or mostly removed rows."""
        read = name in self._rows and name in self._made and name not in self._later
        if read and self._numbered[name] <= MOST_REMOVED * self._rows[name] + FEW_REMOVED:
            self._sources[name] = source

    def memory(self) -> int:
        """Return the memory that the database uses, and what is kept beside it, in bytes."""
        beside = sum(int(held.bytes) for held in self.resident.values())
        used = "SELECT SUM(memory_usage_bytes) FROM duckdb_memory()"
        return beside + int(self.connection.execute(used).fetchall()[0][0])

    def first(self, sql: str, limit: int) -> list[dict[str, Any]]:
        """Return the first ``limit`` rows of a query."""
        self._make_named(sql)
        cursor = self._execute(f"SELECT * FROM ({sql}) AS q LIMIT {limit}")
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def without_duckdb() -> str:
    """Return the message for a missing DuckDB."""
    return (
        f"DuckDB is not installed for {sys.executable}: install it (with Spark, where the tasks run: PYSPARK_PYTHON "
        "names their interpreter), or run with spark-submit and --engine spark"
    )
