"""Stage what a feed delivers as the net changes of a batch, and check that the state took exactly these."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...engines.arrow import ROWS_AT_ONCE
from ...engines.duckdb import DuckEngine
from ...engines.instances import closed_connection
from ...inputs.checks import SourceRows, checked_tables, staged_schema
from ...inputs.columns import arrow_kind
from ...inputs.files import InputFile, Reading
from ...inputs.net import FEW_CHANGES, Netting, first_rows, net_changes, row_text, write_query
from ...inputs.origins import table_rows
from ...inputs.records import Problems, check_kinds, match_columns, refused
from ...inputs.staging import stage_relation
from ...inputs.values import InputShape
from ...kernel.errors import JobError, Refused
from ...kernel.model import Relation
from ...kernel.sql import names
from ...kernel.values import hashable
from ...spark.frames import renamed_frame
from ...spark.inputs import spark_tables
from ...store.data_files import stored_engine
from ...store.manifest import Manifest, StoredRelation
from ...store.published_names import operation_column
from ...store.task_records import Outcome
from ...system.log import Log
from ...system.places import rows_of_file
from .condition import unusable_condition
from .feed import Delivery, FeedRequest, Look, change_of_rows, way_out


class StoredInputs(Protocol):
    """The rows of the input relations that a state has before a batch."""

    def count(self, relation: Relation) -> int:
        """Return how many rows a relation has."""

    def rows(self, relation: Relation) -> AbstractContextManager[tuple[DuckEngine, str]]:
        """Return a context of DuckDB, and a query for the rows of a relation."""


@dataclass(frozen=True)
class CommittedInputs:
    """The rows of a commit in a folder."""

    root: Path
    manifest: Manifest
    threads: int

    def count(self, relation: Relation) -> int:
        """Return how many rows a relation has."""
        return self.manifest.relations[relation.table].rows

    @contextlib.contextmanager
    def rows(self, relation: Relation) -> Iterator[tuple[DuckEngine, str]]:
        """Yield DuckDB, and a query for the rows of a relation."""
        with stored_engine(self.root, [self.manifest], relation, self.threads) as (engine, (query,)):
            yield engine, query


BOTH_WAYS = (("then__", "now__"), ("now__", "then__"))
"""The stored rows of a relation and those of its feed, and the other way round."""


@dataclass(frozen=True)
class Taken:
    """Delivery of a feed to a batch: the staged files, how many tuples it should insert and delete (None if a change
    may have no effect), and how many the relation should have afterwards (None if that is unknown). ``origins`` are the
    change files that it takes."""

    request: FeedRequest
    files: list[str]
    effect: tuple[int, int] | None = None
    rows: int | None = None
    origins: tuple[InputFile, ...] = ()

    @property
    def table(self) -> str:
        """The table of the relation."""
        return self.request.relation.table


@dataclass(frozen=True)
class Staging:
    """The folder that rows are staged in, how they are read, and the log."""

    folder: Path
    reading: Reading
    log: Log


def take_rows(
    request: FeedRequest,
    delivery: Delivery,
    look: Look,
    stored: StoredInputs | None,
    staging: Staging,
) -> Taken:
    """Stage all rows of a feed; after a commit, the difference to what that has."""
    relation = request.relation
    with Netting(request.executor.kept) as netting:
        if delivery.has_events:
            files = events_of(request, delivery, staging, netting)
            paths, exact = present_rows(files, staging.folder, relation, netting), False
        else:
            paths, exact = [stage_rows(request, delivery, look, staging)], True
        count = sum(map(rows_of_file, paths))
        if stored is None:
            return Taken(request, list(map(str, paths)), None, count)
        if exact and not relation.copy:
            check_copies(netting, request, paths)
    staged = difference(request, stored, paths, staging.folder)
    return Taken(request, [str(staged)], signs_of(staged), count if exact else None)


def take_changes(request: FeedRequest, delivery: Delivery, look: Look, staging: Staging) -> Taken:
    """Stage the changes that a feed delivers, at most one for each tuple, or for each copy of a row of a multiset."""
    with Netting(request.executor.kept) as netting:
        if delivery.has_events:
            files = events_of(request, delivery, staging, netting)
            return Taken(request, list(map(str, files)), origins=tuple(delivery.files))
        path = net_of_images(netting, request, stage_rows(request, delivery, look, staging), staging.folder)
    return Taken(request, [str(path)], signs_of(path), rows_there(request, look, staging.reading))


def rows_there(request: FeedRequest, look: Look, reading: Reading) -> int | None:
    """Return how many rows the relation should have; None if some may be left out or set aside."""
    fewer = request.record.where or reading.left_out is not None or reading.aside is not None
    return None if fewer else look.rows


# Staging


def stage_rows(request: FeedRequest, delivery: Delivery, look: Look, staging: Staging) -> Path:
    """Stage rows under the names of the relation's columns, those that the filter leaves, and return the file. Raise
    Refused for values that do not fit, or if the number of rows, whether they are staged or not, is not the one that
    the feed should have delivered."""
    relation, problems = request.relation, Problems()
    folder, reading, log = staging.folder, staging.reading, staging.log
    if delivery.operation:
        problems.advice[f"if the table no longer has such rows, {way_out(request)}"] = None
    counts: Counter[str] = Counter()
    delivery = counting_rows(delivery, counts)
    operation = operation_column(relation.columns, reading.op_column)
    shape = InputShape(
        relation,
        operation,
        "",
        False,
        all_inserts=True,
        left_out=reading.left_out,
        whole_rows=True,
        aside=reading.aside,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rows.parquet"
    with path.open("wb") as content, pq.ParquetWriter(content, staged_schema(shape), use_dictionary=False) as writer:
        if delivery.frame is not None:
            frame = framed(request, delivery, operation)
            file = InputFile(relation, frame, "frame")
            tables = spark_tables(request.executor, file, shape, folder / "raw", problems, log.warn)
        else:
            tables = arrow_rows(request, delivery, shape, problems, log)
        try:
            for table in tables:
                writer.write_table(table)
        except Refused as error:
            if delivery.explained and error.__cause__:
                raise delivery.explained(error.__cause__) from error
            raise
    problems.refuse()
    check_number(request, delivery, look, counts)
    return path


def counting_rows(delivery: Delivery, counts: Counter[str]) -> Delivery:
    """Return a delivery that counts its Arrow rows by their operation, which is an insertion where there is none."""
    if delivery.schema is None or delivery.messages is not None:
        return delivery
    place = delivery.schema.get_field_index(delivery.operation) if delivery.operation else None

    def batches() -> Iterator[Any]:
        for batch in delivery.batches:
            if place is None:
                counts["insert"] += batch.num_rows
            else:
                for item in pc.value_counts(usual_layout(batch.column(place))).to_pylist():
                    counts[item["values"]] += item["counts"]
            yield batch

    return replace(delivery, batches=batches())


def check_number(request: FeedRequest, delivery: Delivery, look: Look, counts: Counter[str]) -> None:
    """Raise Refused if a feed has delivered fewer or more rows than it should, as far as it tells how many it has."""
    before = request.record.rows if delivery.operation else 0
    if delivery.schema is None or before < 0 or look.rows is None:
        return
    for _ in delivery.batches:
        # A filter that no row can meet reads none.
        pass
    reached = before + change_of_rows(counts)
    if reached != look.rows:
        read = f"had {before:,}, and with its changes {reached:,}" if delivery.operation else f"gave {reached:,}"
        raise refused(f"{request.record.source} has {look.rows:,} rows, but {read}", way_out(request))


def arrow_rows(
    request: FeedRequest, delivery: Delivery, shape: InputShape, problems: Problems, log: Log
) -> Iterator[Any]:
    """Yield the rows of Arrow batches, as tables of staged values. They have no numbers: messages tell rows by their
    values."""
    if delivery.schema is None:
        # A folder of change files that is still empty.
        return
    source = str(request.record.source)
    origins = dict(zip((column.name for column in shape.relation.columns), request.columns, strict=True))
    origins |= {shape.operation: delivery.operation} if delivery.operation else {}
    missing = [name for name in origins.values() if name not in delivery.schema.names]
    if missing:
        problems.add(f"{source}: column {missing[0]} is missing")
        return
    batches = filtered(delivery, request) if request.record.where else delivery.batches
    kinds: dict[str, str] = {}
    for batch in batches:
        columns = {name: batch.column(batch.schema.get_field_index(origin)) for name, origin in origins.items()}
        if not kinds:
            kinds = {name: arrow_kind(column.type) for name, column in columns.items()}
            if match_columns(list(columns), source, shape, problems, log.warn) is None or not check_kinds(
                kinds, source, shape, problems
            ):
                return
        rows = SourceRows([usual_layout(columns.get(name)) for name in shape.names], batch.num_rows)
        yield from checked_tables(rows, source, shape, problems)


def check_cases(source: str, columns: Sequence[str]) -> None:
    """Raise Refused if columns differ only in case, which a filter could not tell apart."""
    folded = Counter(name.lower() for name in columns)
    alike = [name for name in columns if folded[name.lower()] > 1]
    if alike:
        raise refused(
            f"{source}: the columns {', '.join(alike)} differ only in case, so a filter (`where`) could not tell them "
            "apart: rename them, or write the filter as a rule of the program"
        )


def usual_layout(column: Any) -> Any:
    """Return an Arrow column of strings in the usual layout; any other as it is."""
    return column.cast(pa.string()) if column is not None and pa.types.is_string_view(column.type) else column


def filtered(delivery: Delivery, request: FeedRequest) -> Iterator[Any]:
    """Yield the batches of the rows for which the filter is true; raise JobError if it is not valid."""
    import duckdb

    raised: list[Exception] = []

    def read() -> Iterator[Any]:
        try:
            yield from delivery.batches
        except Exception as error:
            # DuckDB tells no more than its text.
            raised.append(error)
            raise

    check_cases(request.record.source, delivery.schema.names)
    condition = request.check_filter(delivery.schema.names, "duckdb")
    with contextlib.closing(closed_connection()) as connection:
        connection.register("rows", pa.RecordBatchReader.from_batches(delivery.schema, read()))
        connection.execute("SET lock_configuration = true")
        try:
            yield from connection.sql(f"SELECT * FROM rows WHERE {condition}").to_arrow_reader(ROWS_AT_ONCE)
        except Exception as error:
            if raised:
                raise raised[0] from None
            if not isinstance(error, duckdb.Error):
                raise
            said = str(error).splitlines()[0]
            raise unusable_condition(request.relation.name, request.record.where, said) from error


def framed(request: FeedRequest, delivery: Delivery, operation: str) -> Any:
    """Return a frame of Spark's with the names of the relation's columns, and the rows that the filter leaves."""
    frame = delivery.frame
    if request.record.where:
        frame = frame.where(request.check_filter(frame.columns, "spark"))
    origins = {column.name: origin for column, origin in zip(request.relation.columns, request.columns, strict=True)}
    origins |= {operation: delivery.operation} if delivery.operation else {}
    return renamed_frame(frame, origins)


def events_of(request: FeedRequest, delivery: Delivery, staging: Staging, netting: Netting) -> list[Path]:
    """Return the files with the net changes of files, one after the other, or by the order of their events.
    Those of a multiset are netted later."""
    relation, executor = request.relation, request.executor
    problems = Problems()
    folder, reading, log = staging.folder, staging.reading, staging.log
    shape = reading.shape(relation)
    groups = [list(delivery.files)] if reading.order_column else [[file] for file in delivery.files]
    netted = []
    for number, group in enumerate(groups):
        part = folder / f"{number:06d}"
        part.mkdir(parents=True)
        stage_relation(executor, group, shape, part, problems, log)
        problems.refuse()
        netted.append(net_changes(group, part, shape, problems, netting))
        problems.refuse()
    if len(netted) > 1 and not relation.copy:
        ordered = replace(shape, order="file")
        merged = folder / "merged"
        merged.mkdir()
        write_numbered(netted, merged / "rows.parquet", staged_schema(ordered))
        netted = [net_changes(delivery.files, merged, ordered, problems, netting)]
        problems.refuse()
    return sorted(path for part in netted for path in part.rglob("*.parquet"))


def write_numbered(folders: Sequence[Path], path: Path, schema: Any) -> None:
    """Write the staged rows of folders to one file, with the number of the folder as their order."""
    with path.open("wb") as content, pq.ParquetWriter(content, schema) as writer:
        for number, folder in enumerate(folders):
            for file in sorted(folder.rglob("*.parquet")):
                with file.open("rb") as opened:
                    for batch in pq.ParquetFile(opened).iter_batches(ROWS_AT_ONCE):
                        order = pa.array([number], pa.int64()).cast(schema.field("_order").type)
                        orders = pa.repeat(order[0], batch.num_rows)
                        writer.write_table(pa.Table.from_arrays([*batch.columns, orders], schema=schema))


# Net changes


def net_of_images(netting: Netting, request: FeedRequest, staged: Path, folder: Path) -> Path:
    """Write the net changes of staged ones, each of which comes with the whole row, and return the file: a row that is
    deleted as often as it is inserted stays as it was, in whatever order. Raise Refused if a row has copies, unless
    these count."""
    relation = request.relation
    columns = names(relation.row_columns)
    path = folder / "net.parquet"
    with staged.open("rb") as content:
        if rows_of_file(staged) <= FEW_CHANGES:
            table = pq.ParquetFile(content).read()
            counts: Counter[tuple[Any, ...]] = Counter()
            for *values, sign in table_rows(table):
                counts[tuple(map(hashable, values))] += 1 if sign in "+>" else -1
            net = [(*row, "+" if n > 0 else "-") for row, n in counts.items() for _ in range(abs(n))]
            copies = [row for row, n in counts.items() if abs(n) > 1]
            arrays = [pa.array([row[place] for row in net], field.type) for place, field in enumerate(table.schema)]
            pq.write_table(pa.Table.from_arrays(arrays, schema=table.schema), path)
        else:
            signed = "SUM(CASE WHEN _op IN ('+', '>') THEN 1 ELSE -1 END)"
            sums = f'SELECT {columns}, {signed} AS "n" FROM rows GROUP BY {columns}'
            twice = f'SELECT {columns} FROM ({sums}) WHERE ABS("n") > 1'
            copies = first_rows(netting.engine, staged, twice)[0]
            write_query(netting.engine, [staged], copies_sql(columns, sums), path)
    if copies and not relation.copy:
        raise has_copies(request, copies[0])
    return path


def copies_sql(columns: str, sums: str) -> str:
    """Return SQL for as many changes of each row as the number ``n`` says that a query returns with it."""
    sign = "CASE WHEN \"n\" > 0 THEN '+' ELSE '-' END AS _op"
    each = f'SELECT {columns}, "n", UNNEST(RANGE(CAST(ABS("n") AS BIGINT))) FROM ({sums})'
    return f"SELECT {columns}, {sign} FROM ({each})"


def check_copies(netting: Netting, request: FeedRequest, paths: Sequence[Path]) -> None:
    """Raise Refused if staged rows have copies or, with a primary key, two of them have the same."""
    key = request.relation.key
    columns = ", ".join(key) or names(request.relation.row_columns)
    for path in paths:
        twice = f"SELECT {columns} FROM rows GROUP BY {columns} HAVING COUNT(*) > 1"
        copies, _ = first_rows(netting.engine, path, twice)
        if copies and key:
            key_columns = [column.name for column in request.relation.columns if column.sql in key]
            raise refused(
                f"{request.record.source} has two rows with the primary key {row_text(key_columns, copies[0])}"
            )
        if copies:
            raise has_copies(request, copies[0])


def has_copies(request: FeedRequest, row: Sequence[Any]) -> JobError:
    """Return the error for a row that a table has more than once: a relation has each tuple once, so the deletion of a
    copy could not be told from that of the row."""
    text = row_text([column.name for column in request.relation.columns], row) or "the row ()"
    return refused(
        f"{request.record.source} has the row with {text} more than once, and {request.relation.name} is a set: "
        "deleting one of its copies must not delete the tuple",
        f"declare {request.relation.name} as `input multiset`, which counts them, or add columns that tell them apart",
    )


def present_rows(files: Sequence[Path], folder: Path, relation: Relation, netting: Netting) -> list[Path]:
    """Return a file with the rows that are there after net changes to nothing."""
    path = folder / "present.parquet"
    columns = names(relation.row_columns)
    if not files:
        return []
    if relation.copy:
        signed = "SUM(CASE WHEN _op IN ('+', '>') THEN 1 ELSE -1 END)"
        sums = f'SELECT {columns}, {signed} AS "n" FROM rows GROUP BY {columns}'
        write_query(netting.engine, files, copies_sql(columns, sums), path)
        with path.open("rb") as content:
            lacking = pq.read_table(content, filters=[("_op", "=", "-")]).slice(0, 1)
        for row in table_rows(lacking):
            text = row_text([column.name for column in relation.columns], row)
            raise refused(f"{relation.name}: the files delete more copies of the row with {text} than they insert")
        return [path]
    write_query(netting.engine, files, f"SELECT {columns}, '+' AS _op FROM rows WHERE _op = '+'", path)
    return [path]


def difference(request: FeedRequest, stored: StoredInputs, paths: Sequence[Path], folder: Path) -> Path:
    """Write the changes from the stored rows of a relation to those in ``paths``, and return the file."""
    relation, path = request.relation, folder / "difference.parquet"
    columns, without = names(relation.row_columns), "EXCEPT ALL" if relation.copy else "EXCEPT"
    with stored.rows(relation) as (engine, query):
        rows = engine.files(list(map(str, paths))) if paths else f"({query}) AS q WHERE false"
        now = f"SELECT {columns} FROM {rows}"
        engine.table("now__", now)
        engine.table("then__", f"SELECT {columns} FROM ({query}) AS q")
        # Unlike a join, this takes two nulls for the same.
        gone, new = (f"SELECT {columns} FROM {one} {without} SELECT {columns} FROM {two}" for one, two in BOTH_WAYS)
        changes = f"SELECT *, '-' AS _op FROM ({gone}) AS q UNION ALL SELECT *, '+' AS _op FROM ({new}) AS p"
        reader = engine.arrow_reader(changes, ROWS_AT_ONCE)
        with path.open("wb") as content, pq.ParquetWriter(content, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
    return path


def signs_of(path: Path) -> tuple[int, int]:
    """Return how many insertions and deletions a file of net changes has."""
    with path.open("rb") as content:
        signs = Counter(pq.ParquetFile(content).read(["_op"]).column("_op").to_pylist())
    return signs["+"], signs["-"]


# Checks


def check_outcome(taken: Taken, outcome: Outcome, initial: bool) -> None:
    """Raise Refused unless the changes of a feed had exactly the effect that they should have."""
    stored = outcome.relations.get(taken.table, StoredRelation()).rows
    check_taken(taken, stored, None if initial else outcome.counts.get(taken.table, (0, 0)))


def check_taken(taken: Taken, stored: int, effect: tuple[int, int] | None) -> None:
    """Raise Refused unless the relation has now as many ``stored`` rows as the feed, and gained and lost as many as its
    ``effect`` should be, None for the first commit: otherwise the table and the relation are not the same set of rows,
    and a deletion may hit the wrong one."""
    request = taken.request
    name, source = request.relation.name, request.record.source
    if effect is None:
        if taken.rows is not None and stored != taken.rows:
            with Netting() as netting:
                check_copies(netting, request, list(map(Path, taken.files)))
            raise refused(f"{source} has {taken.rows:,} rows, of which {name} kept {stored:,}")
        return
    if taken.effect is not None and effect != taken.effect:
        raise refused(
            f"{source}: {taken.effect[0]:,} rows were inserted and {taken.effect[1]:,} deleted, but {name} gained "
            f"{effect[0]:,} tuples and lost {effect[1]:,}: the table has a row more than once, two rows with one key, "
            f"or {name} did not have its rows before",
            way_out(request),
        )
    if taken.rows is not None and stored != taken.rows:
        raise refused(
            f"{source} has {taken.rows:,} rows, but {name} would have {stored:,}: the changes that were read are not "
            "all that happened, or rows were left out or set aside before, and this command lacks --nulls skip or "
            "--quarantine",
            way_out(request),
        )
