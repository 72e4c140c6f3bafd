"""The DuckDB engine, which runs inside a task, on the task's bucket of the state.

The same SQL runs in one of two engines, DuckDB in tasks or Spark on the whole state. Algorithms change tables only
through the operations of an engine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..kernel.engine import out_of_range
from ..kernel.errors import JobError, OutOfMemory, Passing, full_disk
from ..kernel.model import Both, Column, ExternalFunction, Relation, Stratum
from ..kernel.sql import no_rows, sql_type
from ..system.checksums import READ_FILES, checked_file
from ..system.permissions import share_like_parent
from ..system.places import files_of_buckets, is_local
from .instances import INSTANCES, Database, local_folder

MOST_REMOVED, FEW_REMOVED = 3, 100_000
"""A table stays for the next batch if the rows that were ever inserted are at most this many times its present rows,
apart from this many."""

NAMED = re.compile(r"(?:'[^']*'|\bAS\s+\w+|\w+\.\w+)|(\w+)")
"""Matches the words of a statement that may be tables: no quoted text, since folders of the state have the names of
relations, no aliases, and no columns of a table."""

MOST_REMEMBERED = 2000
"""For at most this many statements the engine remembers which tables they may name: most statements come again with the
next batch."""

MANY_ROWS = 500_000
"""A table with fewer rows is joined as a whole: that takes no longer than to find out which rows are needed."""

MOST_MET, MOST_VALUES_MET = 0.05, 0.5
"""A column of a table is looked up for at most this many other rows per row of the table, if these have at most this
share of the values in it."""

FEW_LEFT = 1000
"""Tables of at most this many rows are left in a database that is kept; removing them would take longer than replacing
them."""


class NoRows(NamedTuple):
    """A query with these columns and no rows, whose text few tables ever need."""

    columns: tuple[Column, ...]

    def __str__(self) -> str:
        return no_rows(self.columns, DuckEngine.name)


@dataclass
class DuckTable:
    """A table or a view, as the engine knows it: its ``rows``, the query that makes it ``later``, when a statement
    names it, and the query of a ``view`` in any case.

    In the database, ``created`` rows were inserted since it is there; None if it is not. Row IDs are numbers of
    insertions: ``numbered`` is the next one, -1 if nothing is known of its rows; those below ``read`` were read from
    files, and those below ``ordered`` are in their order. Of a deferred table over files, ``selected`` returns a query
    for the rows that meet a condition, and only rows to be changed are needed if these are at most ``reducible``.
    ``conditions`` may be asked for, and are ``counted`` then. ``values`` estimates how many there are, by column. The
    rows are in the ``order`` of these columns, except that large parts may have changed places. ``source`` identifies
    rows that are kept for the next batch."""

    rows: int = 0
    later: str | NoRows | None = None
    view: str | None = None
    created: int | None = None
    numbered: int = -1
    read: int = 0
    ordered: int = 0
    selected: Callable[[str], str] | None = None
    reducible: int = 0
    conditions: Sequence[str] = ()
    counted: Mapping[str, int] | None = None
    values: Mapping[str, int] | None = None
    order: tuple[str, ...] = ()
    source: object = None


class DuckEngine:
    """DuckDB in memory, with ``threads`` threads, within ``memory_limit``. Its statements reach the files of the state
    in the local folder ``state``, and those in a ``folder`` of its own, to which it spills.

    Views, empty tables and tables over files are created when a statement names them: a batch that changes little
    leaves most of them alone, and a statement costs as much as the work on a small table.
    """

    name = "duckdb"
    row_id = "rowid"
    rounds_before_leaps = 3
    most_rows_to_leap = math.inf
    seconds_of_statement = 0.0015
    threads = 1
    sharing = 0

    def __init__(self, memory_limit: str = "", threads: int = 1, state: str = "", spills: bool = True) -> None:
        """Open a database; ``memory_limit`` is in DuckDB's syntax (``2GB``), empty for DuckDB's default. Without
        ``spills``, it fails when that is used up."""
        self.threads = threads
        settings = {"threads": str(threads), "preserve_insertion_order": "false", "error_on_division_by_zero": "true"}
        # A common subexpression of two TRYs would be computed outside of both, and its error not caught. Of similar
        # queries in a union, DuckDB 2.0 computes only one, and takes its columns for those of the other.
        settings["disabled_optimizers"] = "'common_subexpressions,common_subplan'"
        # A checkpoint would change the row IDs.
        settings |= {"checkpoint_threshold": "'1000TB'"} if self.row_id else {}
        settings |= {"memory_limit": f"'{memory_limit}'"} if memory_limit else {}
        try:
            self._open(INSTANCES.take(settings, state, local_folder() if spills else ""))
        except ImportError as error:
            raise JobError(without_duckdb()) from error

    def _open(self, instance: Database, shared: bool = False) -> None:
        """Begin with an empty database in an instance, which others may use later or, if it is ``shared``, use now."""
        self.instance, self._shared = instance, shared
        self.connection, self._database = instance.attach()
        #: Whether nothing but tables and settings was changed in the instance.
        self.reusable = True
        self._start(instance.folder)

    def _start(self, folder: str) -> None:
        """Begin with an empty database."""
        self.folder = folder
        self.resources = contextlib.ExitStack()
        self.tables: dict[str, DuckTable] = {}
        self._named: dict[str, tuple[str, ...]] = {}
        #: What is kept in memory beside tables, by stratum: its ``bytes``, and ``tables`` without which it is dropped.
        self.resident: dict[str, Any] = {}
        #: How many seconds queries have taken to follow changes, by stratum, for the choice to keep something beside.
        self.spent: dict[str, float] = {}
        self.statements = 0
        self._reading = 0.0
        #: Whether tables are read as a whole, since the next batch will use them again.
        self.keeps = False
        self.failed_calls: Callable[[], str] = str
        #: Maps a file that a statement names to one that DuckDB can open.
        self.fetch: Callable[[str], str] = checked_file

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
            table = self.tables.get(name)
            if table is None:
                continue
            if table.view is not None:
                self._make_named(table.view)
            if table.later is not None:
                kind = "TABLE" if table.view is None else "VIEW"
                before, started = self._reading, time.thread_time()
                query, table.later = table.later, None
                self.run(f"CREATE OR REPLACE {kind} {name} AS {query}")
                if kind == "TABLE":
                    table.created = table.rows
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
        table = relation.tables
        if self.tables[table].later is not None or self.rows(table) < MANY_ROWS or after > MOST_MET * self.rows(table):
            return f"({derived})", [table]
        few, row = table.derived, f", {self.row_id}" if self.row_id else ""
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

    def _number_of_values(self, relation: Relation) -> Mapping[str, int]:
        """Return how many values columns of a relation have, as DuckDB estimates; it does not for lists."""
        table, names = self.tables[relation.tables], [column.sql for column in relation.tuple_columns]
        if table.values is None:
            stats = self.run(f"SELECT {', '.join(f'stats({name})' for name in names)} FROM {relation.table} LIMIT 1")
            estimates = {
                name: column.get("approx_unique") for row in stats for name, column in zip(names, row, strict=True)
            }
            table.values = {name: number for name, number in estimates.items() if number}
        return table.values

    def table(self, name: str, sql: str | Both, counts: Sequence[str] = ()) -> int:
        """Run a query now and keep its rows as a table; return their number."""
        self.replace(name, counts)
        self.note_rows(name, int(self.run(f"CREATE OR REPLACE TABLE {name} AS {self.text(sql)}")[0][0]))
        return self.tables[name].rows

    def replace(self, name: str, counts: Sequence[str] = ()) -> None:
        """Forget everything about a table that will be made anew."""
        self.forget(name)
        before = self.tables.get(name, DuckTable())
        self.tables[name] = DuckTable(created=before.created, conditions=counts)
        self.statements += 1

    def forget(self, name: str) -> None:
        """Drop what is kept in memory beside a table that is no longer what it was."""
        for stratum in [stratum for stratum, held in self.resident.items() if name in held.tables]:
            del self.resident[stratum]

    def note_rows(self, name: str, rows: int) -> None:
        """Note that a table was made with ``rows`` rows."""
        table = self.tables[name]
        table.rows = table.created = table.numbered = rows

    def files(self, paths: Sequence[str], columns: Sequence[Column] = ()) -> str:
        """Return a FROM item for the rows of Parquet files; ``columns`` must be given if their columns differ."""
        listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        # Folders above the state called `name=value` must not be read as columns.
        by_name = ", union_by_name = true" if columns else ""
        return f"read_parquet([{listed}], hive_partitioning = false{by_name})"

    def lay_over(
        self, name: str, base: tuple[str, int], changes: tuple[str, int], columns: Sequence[str], rows: int
    ) -> bool:
        """Return False: a query over both takes less time."""
        return False

    def write(
        self, sql: str, bucket: str, order: Sequence[str], state: Path, folder: str, buckets: int
    ) -> tuple[Path, dict[int, list[Path]]]:
        """Write the rows of a query to Parquet files, one for each bucket: below ``state``, or below a folder of this
        engine's if that is in a store."""
        base = state if is_local(state) else Path(self.folder, "written")
        place = base / folder
        place.parent.mkdir(parents=True, exist_ok=True)
        escaped = str(place).replace("'", "''")
        ordered = f" ORDER BY {', '.join(order)}" if order else ""
        # Version 2 stores the differences of numbers: files are smaller, and faster to write and to read.
        form = "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd"
        if bucket.isdigit():
            self.run(f"COPY ({sql}{ordered}) TO '{escaped}.parquet' ({form})")
            return base, {int(bucket): [Path(f"{place}.parquet")]}
        rows = f"SELECT q.*, CAST({bucket} AS INT) AS _bucket FROM ({sql}) AS q{ordered}"
        self.run(f"COPY ({rows}) TO '{escaped}' ({form}, PARTITION_BY (_bucket))")
        share_like_parent(place)
        return base, files_of_buckets(place)

    def define(self, declared: ExternalFunction, call: Callable[..., Any]) -> None:
        """Let queries call a function, with Arrow arrays of arguments. Raise JobError if NumPy is missing."""
        import inspect

        import pyarrow as pa

        from .arrow import arrow_type

        if importlib.util.find_spec("numpy") is None:
            raise JobError(
                f"NumPy is not installed for {sys.executable}: install it; DuckDB needs it to call {declared}"
            )

        def on_arrays(*columns: Any) -> Any:
            values = zip(*(column.to_pylist() for column in columns), strict=True)
            return pa.array([call(*row) for row in values], arrow_type(declared.result))

        # DuckDB inspects the signature, and SQL passes one argument even to a function without parameters.
        kinds = declared.parameters or ("bool",)
        places = [inspect.Parameter(f"x{n}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in range(len(kinds))]
        on_arrays.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
        self.reusable = False
        self.connection.create_function(
            declared.sql,
            on_arrays,
            [sql_type(kind, "duckdb") for kind in kinds],
            sql_type(declared.result, "duckdb"),
            type="arrow",
            null_handling="special",
            side_effects=False,
        )

    def later(
        self, name: str, sql: str | NoRows, rows: int, selected: Callable[[str], str] | None = None, reducible: int = 0
    ) -> None:
        """Create a table over files once a statement names it."""
        self.forget(name)
        before = self.tables.get(name, DuckTable())
        self.tables[name] = DuckTable(
            rows,
            sql,
            # What was a view stays one in the database.
            view=None if before.view is None else str(sql),
            created=before.created,
            numbered=rows,
            read=rows,
            ordered=rows,
            selected=selected,
            reducible=reducible,
        )

    def look_up(self, name: str, of: str, condition: str) -> bool:
        """Make a table of the rows of a deferred table that meet a condition, from its files."""
        table = self.tables[of]
        if self.keeps or table.later is None or table.selected is None:
            return False
        self.table(name, table.selected(condition))
        return True

    def reduce(self, name: str, changes: str, columns: Sequence[str], most: int) -> None:
        """Read only those rows of a deferred table that agree with a row of ``changes``, if they are all it needs."""
        table = self.tables[name]
        if not self.keeps and table.later is not None and table.selected is not None and 0 < most <= table.reducible:
            same = " AND ".join(f"stored.{column} = changed.{column}" for column in columns)
            table.later = table.selected(f"EXISTS (SELECT 1 FROM {changes} AS changed WHERE {same})")
            table.read = 0

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
        table = self.tables.setdefault(name, DuckTable())
        if table.view != sql:
            table.view = table.later = sql

    def snapshot(self, name: str, sql: str, rows: int) -> str:
        """Return the name of a table, made once a statement names it: joins are planned by the statistics of tables."""
        self.later(name, sql, rows)
        return name

    def worked(self) -> float:
        """Return how many seconds the thread has worked, apart from reading files."""
        return time.thread_time() - self._reading

    def rows(self, name: str) -> int:
        """Return the number of rows of a table."""
        table = self.tables[name]
        if table.numbered < 0:
            raise KeyError(name)
        return table.rows

    def counted(self, name: str, condition: str) -> int | None:
        """Return how many rows of a table meet one of the conditions that were given when it was made; all of them are
        counted at once, when this is first asked."""
        table = self.tables.get(name)
        if table is None or condition not in table.conditions:
            return None
        if table.counted is None:
            counts = ", ".join(f"COUNT(CASE WHEN {one} THEN 1 END)" for one in table.conditions)
            table.counted = dict(zip(table.conditions, self.run(f"SELECT {counts} FROM {name}")[0], strict=True))
        return table.counted[condition]

    def add(self, name: str, of: str, columns: str = "*", condition: str = "TRUE") -> None:
        """Append the rows of a table that meet a condition to another."""
        if self.counted(of, condition) == 0:
            return
        self.insert(name, f"SELECT {columns} FROM {of} WHERE {condition}")

    def insert(self, name: str, sql: str) -> None:
        """Append the rows of a query to a table."""
        self.statements += 1
        table = self.tables[name]
        table.conditions, table.order = (), ()
        added = int(self.run(f"INSERT INTO {name} BY NAME {sql}")[0][0])
        table.rows += added
        table.numbered += added
        table.created = (table.created or 0) + added

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
            table = self.tables[name]
            table.conditions = ()
            removed = int(self.run(f"DELETE FROM {name} USING {keys} WHERE {matches}")[0][0])
            assert count is None or removed == count, f"rows of {name} are not those that were looked up"
            table.rows -= removed

    def rename(self, name: str, to: str) -> None:
        """Rename a table, replacing the table of that name."""
        for renamed in (name, to):
            self.forget(renamed)
        table, replaced = self.tables.pop(name), self.tables.get(to, DuckTable())
        self.tables[to] = DuckTable(
            table.rows,
            table.later,
            created=replaced.created if table.later is not None else table.created,
            numbered=table.numbered,
            read=table.read,
            ordered=table.ordered,
            selected=table.selected,
            reducible=table.reducible,
        )
        if table.later is not None:
            if table.created is not None:
                self.tables[name] = DuckTable(created=table.created)
            return
        if replaced.created is not None:
            self.run(f"DROP TABLE {to}")
        self.run(f"ALTER TABLE {name} RENAME TO {to}")

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
        return f"(SELECT * FROM {name} WHERE {self.row_id} >= {self.tables[name].read})"

    def holds(self, name: str, source: object) -> bool:
        """Return whether a table has been kept since an earlier batch, with the rows of ``source``."""
        table = self.tables.get(name)
        return table is not None and table.source is not None and table.source == source

    def kept(self, name: str) -> bool:
        """Return whether a table has been kept since an earlier batch."""
        table = self.tables.get(name)
        return table is not None and table.source is not None and table.later is None

    def inserted(self, name: str) -> int:
        """Return how many rows were ever inserted into a table, which is the row ID of the next one."""
        return self.tables[name].numbered

    def scattered(self, name: str) -> int:
        """Return how many rows of a table were inserted since it was last read from files, which are sorted."""
        table = self.tables.get(name, DuckTable())
        return max(table.numbered, 0) - table.ordered

    def clear(self, tables: Collection[str] = ()) -> None:
        """Discard everything but ``tables``, which stay for the next batch as if they had been read then. What takes
        little memory stays until it is made again, but is not known any more."""
        self.resident = {name: held for name, held in self.resident.items() if held.tables <= {*tables}}
        for name, table in [*self.tables.items()]:
            if name in tables:
                self.tables[name] = DuckTable(
                    table.rows, table.later, table.view, table.created, table.numbered, table.numbered, table.ordered
                )
                continue
            if table.created is not None and table.created > FEW_LEFT:
                self.connection.execute(f"DROP TABLE {name}")
                table.created = None
            if table.view is not None:
                self.tables[name] = DuckTable(later=table.later, view=table.view, created=table.created)
            elif table.created is not None:
                self.tables[name] = DuckTable(created=table.created)
            else:
                del self.tables[name]

    def keep(self, name: str, source: object) -> None:
        """Note that a table has the rows of ``source``, unless it is still to be read or mostly removed rows."""
        table = self.tables.get(name, DuckTable())
        read = table.numbered >= 0 and table.created is not None and table.later is None
        if read and table.numbered <= MOST_REMOVED * table.rows + FEW_REMOVED:
            table.source = source

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
