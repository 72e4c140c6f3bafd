"""Reduce a staged batch to its net changes, at most one for each tuple, in DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.arrow import ROWS_AT_ONCE
from ..engines.duckdb import DuckEngine
from ..kernel.values import hashable, shown
from ..system.machine import available_cores
from ..system.places import rows_of_file
from .files import InputFile
from .origins import rows_again, table_rows
from .records import PROBLEMS_LISTED, Problems
from .values import REMOVE_KEY, InputShape

if TYPE_CHECKING:
    from ..store.resident import KeptEngines


class Netting:
    """A database for the queries of ``net_changes``, opened when it is needed. It can be used in a ``with`` statement;
    of ``kept`` ones, the database is kept for the next batch."""

    def __init__(self, kept: KeptEngines | None = None) -> None:
        """Open nothing yet."""
        self.kept = kept
        self._engine: DuckEngine | None = None

    @property
    def engine(self) -> DuckEngine:
        """The database."""
        if self._engine is None:
            self._engine = self.kept.take(NETTING) if self.kept else None
        if self._engine is None:
            self._engine = DuckEngine(threads=available_cores())
        return self._engine

    def __enter__(self) -> Netting:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        engine, self._engine = self._engine, None
        if engine and self.kept and kind is None:
            self.kept.give(NETTING, engine)
        elif engine:
            engine.close()


FEW_CHANGES = 1000
"""At most this many changes are compared in Python, which takes less time than opening a database for them."""

NETTING = ("netting",)
"""The key of the database that is kept for ``net_changes``."""


def net_changes(
    files: Sequence[InputFile], folder: Path, shape: InputShape, problems: Problems, netting: Netting
) -> Path:
    """Net the changes staged from ``files`` in ``folder`` and return the folder that holds the result.

    With an order, the last change of each tuple counts. In a relation with a primary key, the last inserted row of each
    key counts; it is staged as ``x`` if it was deleted afterwards. Without an order, a row that is both deleted and
    inserted is a problem, unless it belongs to an update that changes nothing or ``shape.net`` says that it stays.
    The copies of a multiset are netted where it is known how many there are.
    """
    if shape.relation.copy:
        return folder
    if shape.sequences is not None:
        found: Path = shape.sequences.net(files, folder, shape, problems)
        return found
    staged = sorted(folder.rglob("*.parquet"))
    if not shape.order and (have_one_sign(staged) or are_apart(staged)):
        return folder
    netted = folder / "net"
    netted.mkdir()
    path = netted / "rows.parquet"
    # Spaces tell names from those of columns.
    columns = ", ".join(column.sql for column in shape.relation.row_columns)
    if shape.order:
        key = ", ".join(shape.relation.key) or columns
        write_query(netting.engine, staged, ordered_query(columns, key, shape), path)
        twice = f"SELECT {key} FROM rows WHERE _op <> '-' GROUP BY {key} HAVING COUNT(*) > 1"
        rows, count = first_rows(netting.engine, path, twice)
        note_ties(rows, count, shape, problems)
    else:
        write_query(netting.engine, staged, unordered_query(columns, shape), path)
        rows, count = first_rows(netting.engine, path, f"SELECT {columns} FROM rows WHERE _op = '?'")
        note_contradictions(files, rows, count, shape, problems)
    return netted


def are_apart(files: Sequence[Path]) -> bool:
    """Return whether staged files have few rows, all of them insertions or deletions, and none that is both."""
    if sum(map(rows_of_file, files)) > FEW_CHANGES:
        return False
    by_sign: dict[str, set[tuple[Any, ...]]] = {"+": set(), "-": set()}
    for file in files:
        with file.open("rb") as content:
            for *values, sign in table_rows(pq.ParquetFile(content).read()):
                if sign not in by_sign:
                    return False
                by_sign[sign].add(tuple(map(hashable, values)))
    return by_sign["+"].isdisjoint(by_sign["-"])


def have_one_sign(files: Iterable[Path]) -> bool:
    """Return whether the footers of staged files prove that they hold only insertions or only deletions."""
    signs: set[str] = set()
    for file in files:
        with file.open("rb") as content:
            footer = pq.read_metadata(content)
        names = [footer.schema.column(place).path for place in range(footer.num_columns)]
        for number in range(footer.num_row_groups):
            statistics = footer.row_group(number).column(names.index("_op")).statistics
            has_signs = statistics is not None and statistics.has_min_max
            signs |= {statistics.min, statistics.max} if has_signs else {"+", "-"}
    return signs <= {"+"} or signs <= {"-"}


REMOVES = '"removes its key"'

REMOVAL = f", _op = '{REMOVE_KEY}' AS {REMOVES}"
"""A column by which queries tell the removal of a key from a row that happens to have the same values."""


def unordered_query(columns: str, shape: InputShape) -> str:
    """Return SQL for the net changes of a batch without an order; ``?`` is the sign of a row whose final state is
    undecided. A row stays if it occurs only as an image of updates, and at least as often after an update as before."""
    images = """"n +" + "n -" = 0 AND "n <" <= "n >\""""
    doubt = f"""WHEN "n -" + "n <" > 0 AND "n +" + "n >" > 0 AND NOT ({images}) THEN '?'"""
    counts = ", ".join(f"""COUNT(*) FILTER (_op = '{sign}') AS "n {sign}\"""" for sign in "+-<>")
    gone, removal = (f"WHEN {REMOVES} THEN '{REMOVE_KEY}'", REMOVAL) if shape.removes_keys else ("", "")
    kind = f"CASE {gone} {'' if shape.net else doubt} WHEN \"n +\" + \"n >\" > 0 THEN '+' ELSE '-' END AS _op"
    return f"""SELECT {columns}, {kind}
        FROM (SELECT {columns}{removal}, {counts} FROM rows GROUP BY {columns}{removal and f", {REMOVES}"})"""


def ordered_query(columns: str, key: str, shape: InputShape) -> str:
    """Return SQL for the net changes of a batch with an order. Among changes with the same order, deletions come
    first."""
    removal = REMOVE_KEY if shape.relation.key else "-"
    gone, removed = (f"WHEN {REMOVES} THEN '{REMOVE_KEY}'", REMOVAL) if shape.removes_keys else ("", "")
    return f"""SELECT {columns}, CASE
                {gone} WHEN "newest of key" IS NULL THEN '-' WHEN "last -" > "last +" THEN '{removal}' ELSE '+'
            END AS _op
        FROM (
            SELECT *, MAX("last +") OVER (PARTITION BY {key}) AS "newest of key" FROM (
                SELECT {columns}{removed}, MAX(_order) FILTER (_op <> '-') AS "last +",
                    MAX(_order) FILTER (_op = '-') AS "last -"
                FROM rows GROUP BY {columns}{removed and f", {REMOVES}"}
            )
        ) WHERE "newest of key" IS NULL OR "last +" = "newest of key\""""


def write_query(engine: DuckEngine, files: Sequence[Path], sql: str, path: Path) -> None:
    """Write the result of a query over the ``rows`` of staged files to a file."""
    engine.connection.register("rows", reader_of(files))
    reader: Any = engine.connection.sql(sql).to_arrow_reader(ROWS_AT_ONCE)
    with path.open("wb") as content, pq.ParquetWriter(content, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    engine.connection.unregister("rows")


def first_rows(engine: DuckEngine, path: Path, sql: str) -> tuple[list[tuple[Any, ...]], int]:
    """Return the first rows that a query finds among the ``rows`` of a staged file, and the number of all."""
    engine.connection.register("rows", reader_of([path]))
    count = engine.table("found", sql)
    rows: Sequence[tuple[Any, ...]] = ()
    if count:
        listed = engine.connection.sql(f"SELECT * FROM found ORDER BY ALL LIMIT {PROBLEMS_LISTED}").to_arrow_table()
        rows = [tuple(map(hashable, row)) for row in table_rows(listed)]
    engine.connection.unregister("rows")
    return [*rows], count


def reader_of(files: Sequence[Path]) -> Any:
    """Return a reader of the rows of staged files, which can be read once."""

    def batches() -> Iterator[Any]:
        for file in files:
            with file.open("rb") as content:
                yield from pq.ParquetFile(content).iter_batches(ROWS_AT_ONCE)

    with files[0].open("rb") as content:
        schema = pq.read_schema(content)
    return pa.RecordBatchReader.from_batches(schema, batches())


# Messages


def note_ties(rows: Iterable[tuple[Any, ...]], count: int, shape: InputShape, problems: Problems) -> None:
    """Add a problem for each key whose last row is ambiguous because two rows have the same order; ``count`` in all."""
    names = {column.sql: column.name for column in shape.relation.columns}
    columns = [names[name] for name in shape.relation.key]
    before = problems.count
    for key in rows:
        problems.add(f"{shape.relation.name}: two rows with {row_text(columns, key)} and the same {shape.order}")
    problems.count = before + count


def note_contradictions(
    files: Sequence[InputFile], rows: list[tuple[Any, ...]], count: int, shape: InputShape, problems: Problems
) -> None:
    """Add a problem for each row that is both deleted and inserted, with the places of both; ``count`` in all."""
    if not count:
        return
    places = places_of_rows(files, rows, shape)
    columns = [column.name for column in shape.relation.columns]
    before = problems.count
    for row in rows:
        deleted, inserted = (places.get((row, sign), "") for sign in "-+")
        text = row_text(columns, row) if columns else "the row ()"
        problems.add(f"{shape.relation.name}: {text} is both deleted{deleted} and inserted{inserted}")
    problems.count = before + count
    problems.advice["their order is unknown: pass --order-column NAME, or --net insert to keep such rows"] = None


def row_text(columns: Sequence[str], values: Sequence[Any]) -> str:
    """Return columns with their values as text for messages."""
    return ", ".join(f"{name} = {shown(value)}" for name, value in zip(columns, values, strict=False))


def places_of_rows(
    files: Iterable[InputFile], rows: Iterable[tuple[Any, ...]], shape: InputShape
) -> dict[tuple[tuple[Any, ...], str], str]:
    """Return where each of ``rows`` is first deleted (``-``) and first inserted (``+``), as text for messages."""
    sought = set(rows)
    places: dict[tuple[tuple[Any, ...], str], str] = {}
    for place, (*values, sign) in rows_again(files, shape):
        row = tuple(map(hashable, values))
        if row in sought:
            places.setdefault((row, "-" if sign in ("-", "<") else "+"), place)
    return places
