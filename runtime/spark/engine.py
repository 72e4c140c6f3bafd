"""The Spark engine, for strata too large for one task, or workers without DuckDB.

A table is a list of segments: query results, checkpointed so that plans do not grow with the number of rounds. An
insertion adds a segment and a removal records the keys of removed rows, so a round costs its changes and one look at
the stored rows; segments are merged now and then. Those of a relation are partitioned by one of its columns and
sorted. Derived rows are shuffled to them, so that joins neither move nor sort the stored rows again.
"""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..kernel.engine import out_of_range
from ..kernel.model import Both, Column, ExternalFunction, Relation, Stratum
from ..kernel.sql import no_rows, sql_type, tuple_names
from ..kernel.table_names import TableName, holds_dead
from ..system.log import describe
from ..system.places import files_of_buckets, remove_tree
from .places import spark_folder, spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FEW_SPARK_ROWS = 300_000
"""Up to this many rows are broadcast instead of shuffling what they are joined with."""

PARTITION_ROWS = 2_000_000
"""With more rows than this in a partition, a relation gets more partitions."""

UNWANTED_RULES = (
    "org.apache.spark.sql.catalyst.optimizer.PushDownLeftSemiAntiJoin",
    "org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases",
)
"""Optimizer rules to exclude: the first would compare derived rows with stored ones before shuffling them, and so
shuffle the stored ones; after the second a checkpoint no longer knows how its rows are partitioned."""

PARSER_SETTINGS = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.legacy.setopsPrecedence.enabled": "false",
}
"""Settings that queries rely on: others change the meaning of constants (``${env:HOME}`` is text) or joins."""

ARRIVING = re.compile(r"DISTRIBUTE BY \w+ SORT BY ([\w, ]+)\)")
"""Matches a query that shuffles its rows to the partitions of a relation, sorted by the columns in the group."""

FILE_BITS = 40

MOST_BITS = 20_000
"""A table goes through a file if its size estimate may have more bits. Spark estimates a join as the product of its
sides, also of checkpointed ones, so estimates grow every round until planning does nothing but multiply."""

MOST_SEGMENTS = 8
"""A table with more segments or removals is merged; one of at most FEW_SPARK_ROWS rows if it has more than two."""


def columns_schema(columns: Iterable[Column]) -> str:
    """Return the columns as a Spark schema string."""
    return ", ".join(f"`{column.sql}` {sql_type(column.type, 'spark')}" for column in columns)


@dataclass
class Removal:
    """Removed rows: those that agree in ``columns`` with one of the ``rows`` rows of ``keys``."""

    keys: DataFrame
    rows: int
    columns: tuple[str, ...]

    def applied(self, frame: DataFrame, sent: bool = False) -> DataFrame:
        """Return the rows of ``frame`` that remain; ``sent`` broadcasts the keys, so that these rows stay in place."""
        from pyspark.sql import functions

        keys = functions.broadcast(self.keys) if sent else self.keys
        kept = frame.join(keys, list(self.columns), "left_anti")
        # Without new identities, Spark takes the two sides of a join of the table with itself for one.
        return renewed(kept, frame.columns)


@dataclass
class Segment:
    """A part of a table: ``left``, the ``rows`` rows of ``frame`` without those that are ``removed``. ``placed`` is the
    number of partitions that they are shuffled and sorted into, 0 if they are where a file or a query left them.
    ``filed`` rows were read from files. ``bits`` bounds the length of Spark's size estimate (see MOST_BITS)."""

    frame: DataFrame
    rows: int
    placed: int = 0
    filed: bool = False
    bits: int = FILE_BITS
    removed: list[Removal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.left = self.frame
        for removal in self.removed:
            self._take_out(removal)

    def _take_out(self, removal: Removal) -> None:
        self.left = removal.applied(self.left, removal.rows <= FEW_SPARK_ROWS < self.rows)

    def remove(self, removal: Removal) -> None:
        """Record the removal of rows."""
        self.removed.append(removal)
        self._take_out(removal)

    def meeting(self, keys: DataFrame, columns: Sequence[str]) -> DataFrame:
        """Return the rows that agree with one of a few ``keys`` in ``columns``; removals are applied only to these."""
        from pyspark.sql import functions

        # Looking up one hash is much faster than comparing several columns.
        mark = functions.xxhash64(*columns)
        marked = functions.broadcast(keys.select(mark.alias("_mark")))
        candidates = self.frame.join(marked, mark == marked["_mark"], "left_semi")
        met = candidates.join(functions.broadcast(keys), list(columns), "left_semi")
        met = renewed(met, self.frame.columns)
        return functools.reduce(lambda rows, removal: removal.applied(rows), self.removed, met)


def renewed(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return a frame whose columns have the same names, but new identities for Spark."""
    return frame.selectExpr(*(f"{name} AS {name}" for name in columns))


@dataclass
class Table:
    """A table: its segments, the number of its rows, and how many of them meet the conditions that were counted."""

    segments: list[Segment]
    rows: int
    counted: dict[str, int] = field(default_factory=dict)

    def frame(self) -> DataFrame:
        """Return all rows."""
        return functools.reduce(lambda rows, more: rows.unionByName(more), [s.left for s in self.segments])

    @property
    def bits(self) -> int:
        """An upper bound on the bits of Spark's size estimate."""
        return sum(segment.bits for segment in self.segments)


class SparkEngine:
    """Spark SQL, on the whole state."""

    name = "spark"
    row_id = ""
    rounds_before_leaps = 10
    most_rows_to_leap = 1_000_000.0
    seconds_of_statement = 0.2

    def __init__(self, spark: SparkSession, partitions: int, folder: Path | None = None) -> None:
        """Use ``spark``, with ``partitions`` partitions at first, and a temporary ``folder`` that ``close`` removes."""
        self.spark = spark
        self.folder = folder
        self.statements = 0
        self.partitions = partitions
        # Rounds are small and many; constraints make planning slow, and checkpoints of some unions fail. Rows that are
        # partitioned by one column count as partitioned by more, and sorted rows are counted without a hash table.
        # A decimal result keeps all its digits after the point or overflows.
        self.settings = {
            "spark.sql.shuffle.partitions": str(partitions),
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.constraintPropagation.enabled": "false",
            "spark.sql.requireAllClusterKeysForCoPartition": "false",
            "spark.sql.execution.replaceHashWithSortAgg": "true",
            "spark.sql.decimalOperations.allowPrecisionLoss": "false",
            "spark.sql.optimizer.excludedRules": "",
            **PARSER_SETTINGS,
        }
        self.found = {name: spark.conf.get(name, None) for name in self.settings}
        rules = "spark.sql.optimizer.excludedRules"
        self.settings[rules] = ",".join([*filter(None, [self.found[rules]]), *UNWANTED_RULES])
        for name, value in self.settings.items():
            spark.conf.set(name, value)
        self._tables: dict[str, Table] = {}
        self._views: dict[str, tuple[str, int | None]] = {}
        self._places: dict[str, tuple[str, list[str]]] = {}
        self._stale: set[str] = set()
        self._made: set[str] = set()
        self._bits: dict[str, int] = {}
        self._files = 0
        self.failed_calls: Callable[[], str] = str

    def text(self, sql: str | Both) -> str:
        """Return a query in Spark's dialect."""
        return sql if isinstance(sql, str) else sql.spark

    def files(self, paths: Sequence[str], columns: Sequence[Column] = ()) -> str:
        """Return a view of the rows of Parquet files; ``columns`` are needed if the files differ in their columns."""
        self._files += 1
        reader = self.spark.read.schema(columns_schema(columns)) if columns else self.spark.read
        name = f"files__{self._files}"
        self._made.add(name)
        reader.parquet(*map(spark_path, paths)).createOrReplaceTempView(name)
        return name

    def begin(self, stratum: Stratum) -> None:
        """Choose the column that partitions each relation that a stratum computes or reads: the bucket column, which
        lets derivations stay in place, if all that it reads is small enough to broadcast; otherwise the column that
        joins the relations, the location of localized rules, so that only derived rows are shuffled."""
        large = any(self.rows(relation.table) > FEW_SPARK_ROWS for relation in stratum.reads)
        for relation in (*stratum.reads, *stratum.relations):
            columns = tuple_names(relation)
            group = stratum.groups if relation in stratum.relations and stratum.groups else columns
            group = [name for name in group if not relation.best or name != relation.best[1]]
            order = [*group, *(name for name in columns if name not in group)]
            joined = stratum.joined_by.get(relation.table, relation.location)
            preferred = (joined, relation.bucket_by) if large else (relation.bucket_by, joined)
            home = next(name for name in (*preferred, group[0]) if name in group)
            if relation in stratum.reads:
                order.sort(key=lambda name, home=home: name != home)  # type: ignore[misc]
            self._places[relation.table] = (home, order)

    def query(self, sql: str) -> DataFrame:
        """Return the rows of a query as a frame, first updating the views of changed tables that it names."""
        from pyspark.sql import functions

        for name in set(re.findall(r"\w+", sql)) & self._stale:
            table = self._tables[name]
            frame = table.frame()
            if holds_dead(name) and self._few(table.rows):
                frame = functions.broadcast(frame)
            frame.createOrReplaceTempView(name)
            self._stale.discard(name)
            self._made.add(name)
        return self.spark.sql(sql)

    def _bits_of(self, sql: str) -> int:
        """Return an upper bound on the bits of Spark's size estimate for a query."""
        joined = re.findall(r"(?:FROM|(?<!ANTI )(?<!SEMI )JOIN)\s+(\w+)", sql)
        tables = sum(self._tables[name].bits for name in joined if name in self._tables)
        return tables + sum(self._bits.get(name, 0) for name in joined)

    def _set(self, name: str, table: Table) -> None:
        """Bind a name to a table; its view is updated when a query names it."""
        self._tables[name] = table
        self._stale.add(name)

    def _kept(
        self, frame: DataFrame, placed: bool, bits: int, counts: Sequence[str] = ()
    ) -> tuple[Segment, dict[str, int]]:
        """Compute ``frame`` now, in one action; return its rows, and how many of them meet each condition."""
        from pyspark import StorageLevel
        from pyspark.errors import ArithmeticException
        from pyspark.sql import Observation, functions

        counted = Observation()
        aggregates = [functions.count(functions.lit(1)).alias("rows")]
        aggregates += [
            functions.expr(f"COUNT(CASE WHEN {condition} THEN 1 END)").alias(f"c{number}")
            for number, condition in enumerate(counts)
        ]
        # Placed rows keep their partitions; others are coalesced, since a union has all partitions of its parts.
        frame = renewed(frame, frame.columns) if placed else frame.coalesce(self.partitions)
        try:
            kept = frame.observe(counted, *aggregates).localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)
        except ArithmeticException as error:
            raise out_of_range(error) from error
        # Spark Connect does not return the observations of a checkpoint.
        numbers = counted.get or kept.agg(*aggregates).collect()[0].asDict()
        segment = Segment(kept, int(numbers["rows"]), self.partitions if placed else 0, bits=bits)
        return segment, {name: int(numbers[f"c{number}"]) for number, name in enumerate(counts)}

    def table(self, name: str, sql: str | Both, counts: Sequence[str] = ()) -> int:
        """Run a query now and keep its rows as a table; return their number."""
        self.statements += 1
        text = self.text(sql)
        frame, bits, arriving = self.query(text), self._bits_of(text), ARRIVING.search(text)
        if arriving:
            # Spark skips this sort if the rows are in this order already.
            columns = frame.columns
            order = [column for column in arriving[1].split(", ") if column in columns]
            frame = frame.sortWithinPartitions(*order)
        segment, counted = self._kept(frame, bool(arriving), bits, counts)
        if bits > MOST_BITS and self.folder:
            segment = self._through_file(name, segment)
            for other in self._places.keys() & self._tables.keys():
                self._refresh(other)
        self._set(name, Table([segment], segment.rows, counted))
        return segment.rows

    def _through_file(self, name: str, segment: Segment) -> Segment:
        """Write the rows of a segment to files and return a segment that reads them, whose size Spark knows."""
        assert self.folder
        self._files += 1
        place = self.folder / f"{name}-{self._files}"
        segment.left.write.parquet(spark_folder(place))
        read = self.spark.read.schema(segment.frame.schema).parquet(spark_path(place))
        return Segment(read, segment.rows)

    def _refresh(self, name: str) -> None:
        """Replace the segments of a relation whose size Spark overestimates by far with segments read from files."""
        table = self._tables[name]
        segments = [
            self._through_file(name, segment) if segment.bits > MOST_BITS // 64 else segment
            for segment in table.segments
        ]
        self._set(name, Table(segments, table.rows))

    def part(self, name: str, of: str, columns: str, condition: str) -> int:
        """Make a table from the rows of another that meet a condition, copying them only if their number is unknown."""
        segment = self._part(of, columns, condition)
        self._set(name, Table([segment], segment.rows))
        return segment.rows

    def _part(self, of: str, columns: str, condition: str) -> Segment:
        """Return the rows of a table that meet a condition as a segment, computed only if their number is unknown."""
        table = self._tables[of]
        rows = table.rows if condition == "TRUE" else table.counted.get(condition)
        # Not as SQL: Spark Connect would resolve the name at each use, when it may belong to another table.
        frame = table.frame().where(condition).selectExpr(*columns.split(", "))
        placed = table.segments[0].placed if len(table.segments) == 1 else 0
        if rows is None:
            return self._kept(frame, placed == self.partitions, table.bits)[0]
        return Segment(frame, rows, placed, bits=table.bits)

    def later(
        self, name: str, sql: str, rows: int, selected: Callable[[str], str] | None = None, reducible: int = 0
    ) -> None:
        """Define a table over files, which are read by each query that uses it."""
        self._set(name, Table([Segment(self.query(sql), rows, filed=True)], rows))

    def look_up(self, name: str, of: str, condition: str) -> bool:
        """Return False: queries read files themselves."""
        return False

    def reduce(self, name: str, changes: str, columns: Sequence[str], most: int) -> None:
        """Do nothing: queries read files themselves."""

    def lay_over(
        self, name: str, base: tuple[str, int], changes: tuple[str, int], columns: Sequence[str], rows: int
    ) -> bool:
        """Lay few changes over a table over files, which need not be read then."""
        if changes[1] > FEW_SPARK_ROWS:
            return False
        self.later(name, *base)
        laid = TableName(name).stored
        self.table(laid, changes[0])
        (filed,) = self._tables[name].segments
        few = self._tables[laid]
        filed.remove(Removal(few.frame().select(*columns), few.rows, tuple(columns)))
        shown = few.frame().where("_present").select(*filed.frame.columns)
        self._set(name, Table([filed, Segment(shown, few.rows, filed=True)], rows))
        return True

    def write(
        self, sql: str, bucket: str, order: Sequence[str], state: Path, folder: str, buckets: int
    ) -> tuple[Path, dict[int, list[Path]]]:
        """Write the rows of a query to Parquet files below ``state``, one for each bucket."""
        place = state / folder
        parts = self.query(f"SELECT q.*, CAST({bucket} AS INT) AS _bucket FROM ({sql}) AS q")
        parts = parts.repartition(buckets, "_bucket")
        parts = parts.sortWithinPartitions("_bucket", *order) if order else parts
        parts.write.partitionBy("_bucket").parquet(spark_folder(place))
        return state, files_of_buckets(place)

    def define(self, declared: ExternalFunction, call: Callable[..., Any]) -> None:
        """Let queries call a function."""
        ship_functions_by_value()
        self.spark.udf.register(declared.sql, call_of_rows(call), sql_type(declared.result, "spark"))

    def empty(self, name: str, columns: Iterable[Column]) -> None:
        """Make a table without rows, without a Spark job."""
        self._set(name, Table([Segment(self.spark.sql(no_rows(columns, self.name)), 0)], 0))

    def view(self, name: str, sql: str, rows: int | None = None) -> None:
        """Define ``name`` as a view of a query, which is resolved now, against the current tables."""
        from pyspark.sql import functions

        frame = self.query(sql)
        self._views[name] = (sql, rows)
        self._bits[name] = self._bits_of(sql)
        few = rows is not None and self._few(rows)
        (functions.broadcast(frame) if few else frame).createOrReplaceTempView(name)

    def snapshot(self, name: str, sql: str, rows: int) -> str:
        """Return the query: its rows would be computed again with each table that is made of them."""
        return f"({sql}) AS q"

    def _few(self, rows: int) -> bool:
        """Return whether to broadcast this number of rows; if all tables are small, that costs more than it saves."""
        large = any(table.rows > FEW_SPARK_ROWS for table in self._tables.values())
        return large and rows <= FEW_SPARK_ROWS

    def worked(self) -> float:
        """Return the time: executors work while this thread waits."""
        return time.monotonic()

    def rows(self, name: str) -> int:
        """Return the number of rows of a table."""
        return self._tables[name].rows

    def counted(self, name: str, condition: str) -> int | None:
        """Return how many rows meet a condition, or None if they were not counted when the table was made."""
        table = self._tables.get(name)
        return table.counted.get(condition) if table else None

    def insert(self, name: str, sql: str) -> None:
        """Append the rows of a query to a table."""
        inserted = TableName(name).inserted
        self.table(inserted, sql)
        self.add(name, inserted)

    def add(self, name: str, of: str, columns: str = "*", condition: str = "TRUE") -> None:
        """Append the rows of a table that meet a condition to another, as a segment."""
        table, segment = self._tables[name], self._part(of, columns, condition)
        if segment.rows:
            ordered = segment.frame.select(*table.segments[0].frame.columns)
            segments = [s for s in table.segments if s.rows]
            self._set(name, Table([*segments, replace(segment, frame=ordered)], table.rows + segment.rows))
            self._tidy(name)

    def remove(
        self, name: str, keys: str, columns: Sequence[str], count: int | None = None, numbered: bool = False
    ) -> None:
        """Record the removal of the rows that agree with a row of ``keys``."""
        if not self.rows(keys) or not self.rows(name):
            return
        table, removed = self._tables[name], self._tables[keys].frame().select(*columns)
        removal = Removal(removed, self.rows(keys), tuple(columns))
        for segment in table.segments:
            segment.remove(removal)
        if count is None:
            count = table.rows - sum(segment.left.count() for segment in table.segments)
        self._set(name, Table(table.segments, table.rows - count))
        self._tidy(name)

    def _tidy(self, name: str) -> None:
        """Merge the segments and the steps of removals of a table if there are many."""
        table = self._tables[name]
        most = MOST_SEGMENTS if table.rows > FEW_SPARK_ROWS else 2
        steps = max(len(segment.removed) for segment in table.segments)
        if len(table.segments) <= most and steps <= most:
            return
        describe(self.spark, f"merge the parts of {name}")
        large = [s for s in table.segments if s.rows > max(FEW_SPARK_ROWS, table.rows // 8)]
        small = [s for s in table.segments if not any(s is other for other in large)]
        kept = [replace(segment, removed=self._merged(segment)) for segment in large]
        if small:
            segment = self._placed(name, Table(small, 0))
            kept += [segment] if segment.rows or not kept else []
        self._set(name, Table(kept, table.rows))

    def _merged(self, segment: Segment) -> list[Removal]:
        """Return the removals from a segment merged into one for each choice of columns."""
        steps: dict[tuple[str, ...], DataFrame] = {}
        for removal in segment.removed:
            earlier = steps.get(removal.columns)
            steps[removal.columns] = earlier.unionByName(removal.keys) if earlier else removal.keys
        merged = [(self._kept(keys.distinct(), False, 0)[0], names) for names, keys in steps.items()]
        return [Removal(kept.frame, kept.rows, names) for kept, names in merged]

    def _placed(self, name: str, table: Table) -> Segment:
        """Compute the rows of a table now; those of a relation are shuffled to its partitions and sorted."""
        bits = max(segment.bits for segment in table.segments) + len(table.segments)
        if name not in self._places:
            return self._kept(table.frame(), False, bits)[0]
        home, columns = self._places[name]
        sent = table.frame().repartition(self.partitions, home).sortWithinPartitions(*columns)
        return self._kept(sent, True, bits)[0]

    def place(self, name: str) -> None:
        """Shuffle and sort all rows of a relation into one segment; add partitions if they would be too large."""
        table = self._tables[name]
        if table.rows > PARTITION_ROWS * self.partitions:
            self.partitions = 1 + table.rows // (PARTITION_ROWS // 2)
            self.spark.conf.set("spark.sql.shuffle.partitions", str(self.partitions))
        if any(segment.placed != self.partitions for segment in table.segments):
            describe(self.spark, f"sort {table.rows} rows of {name} into {self.partitions} partitions")
            self._set(name, Table([self._placed(name, table)], table.rows))
            for view, (sql, rows) in self._views.items():
                if re.search(rf"\b{name}\b", sql):
                    self.view(view, sql, rows)

    def prepare(self, relations: Iterable[Relation], rows: int) -> None:
        """Place those of the relations that are large, if the number of ``rows`` to join with them is large, too."""
        for relation in relations:
            if min(rows, self.rows(relation.table)) > FEW_SPARK_ROWS:
                self.place(relation.table)

    def meeting(
        self, relation: Relation, derived: str, after: int, columns: Sequence[str] = ()
    ) -> tuple[str, list[str]]:
        """Return FROM items for the rows of ``derived`` and for the stored rows that they may agree with.

        Few derived rows are computed at once and broadcast, to look up stored rows in files or wherever these are. Many
        are shuffled to the partitions of the relation.
        """
        table, keys = relation.tables, list(columns) or tuple_names(relation)
        stored = self._tables[table]
        large = stored.rows > FEW_SPARK_ROWS
        in_place = all(segment.placed == self.partitions for segment in stored.segments)
        if large and not in_place and after <= FEW_SPARK_ROWS:
            few = table.derived
            if self.table(few, derived) <= FEW_SPARK_ROWS:
                found = self._tables[few].frame().select(*keys)
                segments = [segment for segment in stored.segments if segment.rows]
                return few, self._parts(table, segments, [s.meeting(found, keys) for s in segments])
            derived = f"SELECT * FROM {few}"
        if large:
            self.place(table)
        home = next(name for name in (self._places[table][0], *keys) if name in keys)
        rows = f"(SELECT * FROM ({derived}) AS q DISTRIBUTE BY {home} SORT BY {', '.join(keys)})"
        segments = self._tables[table].segments
        return rows, self._parts(table, segments, [segment.left for segment in segments])

    def _parts(self, table: str, segments: Sequence[Segment], frames: Sequence[DataFrame]) -> list[str]:
        """Define a view for the frame of each segment; return the names of the views."""
        parts: list[str] = [TableName(table).beside(f"part{number}") for number in range(len(segments))]
        for name, segment, frame in zip(parts, segments, frames, strict=True):
            self._made.add(name)
            self._bits[name] = segment.bits
            frame.createOrReplaceTempView(name)
        return parts

    def rename(self, name: str, to: str) -> None:
        """Rename a table, replacing the table of that name."""
        self._set(to, self._tables.pop(name))
        self._stale.discard(name)
        if name in self._made:
            self._made.discard(name)
            self.spark.catalog.dropTempView(name)

    def holds(self, name: str, source: object) -> bool:
        """Return False: every batch reads the files anew."""
        return False

    def since_read(self, name: str) -> str:
        """Return a table of the segments that were not read from files, or the table itself if none was."""
        segments = [segment for segment in self._tables[name].segments if not segment.filed]
        if len(segments) == len(self._tables[name].segments):
            return name
        none = Segment(self._tables[name].frame().limit(0), 0)
        recent = TableName(name).recent
        self._set(recent, Table(segments or [none], 0))
        return recent

    def first(self, sql: str, limit: int) -> list[dict[str, Any]]:
        """Return the first ``limit`` rows of a query."""
        return [row.asDict() for row in self.query(sql).limit(limit).collect()]

    def close(self) -> None:
        """Remove the engine's files, restore the session's settings, and drop all tables and views."""
        if self.folder:
            remove_tree(self.folder)
        for setting, value in self.found.items():
            if value is None:
                self.spark.conf.unset(setting)
            else:
                self.spark.conf.set(setting, value)
        for name in [*self._views, *self._made]:
            self.spark.catalog.dropTempView(name)
        self._tables.clear()
        self._views.clear()


def ship_functions_by_value() -> None:
    """Pickle the runtime (a script, a module or a package) and the user's functions by value, so that executors need
    neither installed."""
    from pyspark import cloudpickle

    for name in (__name__.removesuffix(".spark.engine"), "flintlog_functions"):
        if name != "__main__" and name in sys.modules:
            cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]


def call_of_rows(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a callable in a plain function, as Spark requires."""

    def on_row(*arguments: Any) -> Any:
        return call(*arguments)

    return on_row
