"""Read input files as Arrow tables of staged values, in constant memory.

Columns are converted as a whole where that is certain to give what the row readers would; otherwise the rows of that
part are read one by one, and what is wrong with them becomes a problem that names file, row and column.
"""

from __future__ import annotations

import gzip
import io
import itertools
import mmap
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ..arrow import arrow_type, string_array
from ..obstacles import momentary
from ..sql import plain_type
from .columns import arrow_kind, arrow_values, staged_values, text_values
from .compressed import CompressedDamage
from .dialects import Dialect
from .nulls import removes_keys, valid_rows
from .records import (
    Problems,
    Record,
    Warn,
    check_kinds,
    checked_rows,
    csv_header,
    csv_records,
    json_records,
    match_columns,
    match_header,
    refused,
    split_csv,
)
from .values import Absent, InputShape, value_reader

ROWS_AT_ONCE = 100_000

CSV_BLOCK = 16 * 1024 * 1024


class DataFile(Protocol):
    """A file of rows, which prints as its name; ``format`` is ``csv``, ``json`` or ``parquet``. ``partition`` are the
    columns and values in the names of its folders, None for null, as far as the relation has these columns."""

    @property
    def format(self) -> str:
        """The format of the file."""

    @property
    def dialect(self) -> Dialect:
        """How the file is written if it is CSV."""

    @property
    def partition(self) -> Mapping[str, str | None]:
        """The columns in the names of its folders, and their values."""

    def open(self) -> Any:
        """Open the file for reading bytes."""


def staged_schema(shape: InputShape) -> Any:
    """Return the Arrow schema of a staged file."""
    return pa.schema([(column.sql, arrow_type(column.type)) for column in shape.staged])


def staged_tables(file: DataFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a file, as Arrow tables of staged values."""
    if file.format == "parquet":
        yield from parquet_tables(file, shape, problems, warn)
    elif file.format == "csv":
        yield from csv_tables(file, shape, problems, warn)
    else:
        constant = typed_partition(file, shape, problems)
        if constant is None:
            return
        records = json_records(text_lines(file), str(file), shape, problems, warn, constant)
        yield from row_tables(checked_rows(records, str(file), False, shape, problems), staged_schema(shape))


def row_tables(rows: Iterator[list[Any]], schema: Any) -> Iterator[Any]:
    """Yield rows as tables of at most ROWS_AT_ONCE rows."""
    while chunk := list(itertools.islice(rows, ROWS_AT_ONCE)):
        columns = zip(*chunk, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.Table.from_arrays(arrays, schema=schema)


def converted(
    columns: Sequence[Any], count: int, text: bool, where: tuple[str, int], shape: InputShape, problems: Problems
) -> Iterator[Any]:
    """Yield ``count`` rows, whose ``columns`` are Arrow arrays in the order of InputShape.names, None for an absent
    operation. ``where`` is the name of the file and the number of the first row, ``text`` as in ``reader``."""
    schema = staged_schema(shape)
    try:
        valid = valid_rows(columns, shape)
        kept, rows, others = columns, count, []
        if valid is not None:
            kept, rows = rows_chosen(columns, valid), pc.sum(valid, min_count=0).as_py()
            others = left_out_tables(rows_chosen(columns, pc.invert(valid)), count - rows, text, where[0], shape)
        tables = [converted_table(kept, rows, text, shape), *others]
    except (ValueError, OverflowError, pa.ArrowException):
        records = column_records(columns, count, text)
        yield from row_tables(checked_rows(records, where[0], text, shape, problems, where[1]), schema)
        return
    if shape.left_out is not None:
        shape.left_out[shape.relation.name] += count - rows
    yield from tables


def converted_table(columns: Sequence[Any], count: int, text: bool, shape: InputShape) -> Any:
    """Return columns as a table of staged values; raise as :func:`staged_values`."""
    convert = text_values if text else staged_values
    # A relation without columns is stored with one constant column.
    arrays = [] if shape.relation.columns else [pa.repeat(True, count)]
    arrays += [
        pa.repeat("+", count) if column is None else convert(column, kind, shape)
        for column, kind in zip(columns, shape.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=staged_schema(shape))


def column_records(columns: Sequence[Any], count: int, text: bool) -> Iterator[Record]:
    """Return the rows of Arrow columns as records."""
    read = (lambda column: column.to_pylist()) if text else arrow_values
    values = [[Absent.ABSENT] * count if column is None else read(column) for column in columns]
    return map(list, zip(*values, strict=True))


def rows_chosen(columns: Sequence[Any], wanted: Any) -> list[Any]:
    """Return the rows of Arrow columns for which an Arrow array is true."""
    return [None if column is None else column.filter(wanted) for column in columns]


def left_out_tables(columns: Sequence[Any], count: int, text: bool, name: str, shape: InputShape) -> list[Any]:
    """Return what to stage for rows that are left out. Raise ValueError if something is wrong with them, or if they
    have to keep their places among the others."""
    if shape.numbered or shape.sequences is not None:
        raise ValueError("rows keep their numbers, or are deletions by key")
    if not removes_keys(shape):
        return []
    found, problems = replace(shape, left_out=Counter(), aside=None), Problems()
    rows = checked_rows(column_records(columns, count, text), name, text, found, problems)
    tables = [*row_tables(rows, staged_schema(shape))]
    if problems.count:
        raise ValueError("a value does not fit")
    return tables


# CSV


def csv_tables(file: DataFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a CSV file. Arrow splits a file without quotes, as far as it finds nothing to object to."""
    done, dialect, partition = 0, file.dialect, file.partition
    if is_plain(file):
        header = csv_header(split_csv(text_lines(file), dialect), shape, dialect)
        places = match_header(header, str(file), shape, problems, warn, dialect, partition)
        if places is None:
            return
        try:
            for batch in plain_batches(file, len(header)):
                further = [pa.repeat(pa.scalar(value, pa.string()), batch.num_rows) for value in partition.values()]
                present = [*batch.columns, *further]
                columns = [None if place is None else present[place] for place in places]
                yield from converted(columns, batch.num_rows, True, (str(file), done + 1), shape, problems)
                done += batch.num_rows
            return
        except pa.ArrowException:
            warn = unheard
    read = csv_records(text_lines(file), str(file), shape, problems, warn, dialect, partition)
    records = itertools.islice(read, done, None)
    while chunk := list(itertools.islice(records, ROWS_AT_ONCE)):
        yield from record_tables(chunk, (str(file), done + 1), shape, problems)
        done += len(chunk)


def unheard(message: str) -> None:
    """Ignore a warning: it was given before, or is a problem already."""


def record_tables(
    records: Sequence[Record], where: tuple[str, int], shape: InputShape, problems: Problems
) -> Iterator[Any]:
    """Yield the rows of CSV records."""
    if any(isinstance(record, str) for record in records):
        rows = checked_rows(records, where[0], True, shape, problems, where[1])
        yield from row_tables(rows, staged_schema(shape))
        return
    columns = [None if values[0] is Absent.ABSENT else string_array(values) for values in zip(*records, strict=True)]
    yield from converted(columns, len(records), True, where, shape, problems)


def is_plain(file: DataFile) -> bool:
    """Return whether a file on this machine has no quotes and no zero bytes, and a name that Arrow takes."""
    with file.open() as content:
        if not isinstance(content, io.BufferedReader) or not content.peek(1) or not is_unicode(str(content.name)):
            return False
        with mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            quote = [file.dialect.quote.encode()] if file.dialect.quote else []
            return not any(whole.find(sign) >= 0 for sign in (*quote, b"\0"))


def is_unicode(name: str) -> bool:
    """Return whether the name of a file is text, and not just bytes."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def plain_batches(file: DataFile, width: int) -> Iterator[Any]:
    """Yield the rows behind the header of a CSV file without quotes, as batches of text columns.

    Arrow reads ahead in a thread of its own. With a file of Python's, that thread may ask for the interpreter when the
    process ends after a row that is refused, and abort it.
    """
    names = [str(number) for number in range(width)]
    with file.open() as content, pa.OSFile(content.name) as native:
        yield from pyarrow.csv.open_csv(
            native,
            pyarrow.csv.ReadOptions(block_size=CSV_BLOCK, column_names=names, skip_rows=int(file.dialect.header)),
            pyarrow.csv.ParseOptions(delimiter=file.dialect.delimiter, quote_char=False, escape_char=False),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[*file.dialect.nulls],
                strings_can_be_null=True,
            ),
        )


def text_lines(file: DataFile) -> Iterator[str]:
    """Yield the lines of a file with their line ends; raise Refused if it is not UTF-8."""
    try:
        with file.open() as content, io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as lines:
            yield from lines
    except UnicodeDecodeError as error:
        raise refused(f"{file} is not UTF-8: {error.reason}") from error
    except (EOFError, zlib.error, gzip.BadGzipFile, CompressedDamage) as error:
        raise refused(f"{file} is damaged: {error}") from error


# Values in the names of folders


def typed_partition(file: DataFile, shape: InputShape, problems: Problems) -> dict[str, Any] | None:
    """Return the values in the names of the folders of a file by column, None for null; add a problem and return None
    if one does not fit."""
    found: dict[str, Any] = {}
    kinds = dict(zip(shape.names, shape.types, strict=True))
    for name, text in file.partition.items():
        kind = plain_type(kinds[name])
        try:
            found[name] = text if text is None or kind in ("operation", "order") else value_reader(kind, True)(text)
        except ValueError as error:
            problems.add(f"{file}, column {name}, in the name of a folder: {error}")
            return None
    return found


def with_partition(batch: Any, constant: Mapping[str, Any], shape: InputShape) -> Any:
    """Return a record batch with further columns that are ``constant``."""
    kinds = dict(zip(shape.names, shape.types, strict=True))
    for name, value in constant.items():
        kind = arrow_type(plain_type(kinds[name])) if kinds[name] not in ("operation", "order") else pa.string()
        batch = batch.append_column(name, pa.repeat(pa.scalar(value, kind), batch.num_rows))
    return batch


# Parquet


def parquet_tables(file: DataFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a Parquet file."""
    constant = typed_partition(file, shape, problems)
    if constant is None:
        return
    with open_parquet(file) as content:

        def batches(columns: list[str]) -> Iterator[Any]:
            present = [name for name in columns if name not in constant]
            read = content.iter_batches(ROWS_AT_ONCE, columns=present)
            return (with_partition(batch, constant, shape) for batch in sound_batches(file, read))

        schema = content.schema_arrow
        if constant:
            # A column that is in the file, too, is ambiguous.
            further = with_partition(pa.RecordBatch.from_pylist([], pa.schema([])), constant, shape).schema
            schema = pa.schema([*schema, *further])
        yield from arrow_tables(schema, batches, str(file), shape, problems, warn)


def arrow_tables(
    schema: Any,
    batches: Callable[[list[str]], Iterable[Any]],
    name: str,
    shape: InputShape,
    problems: Problems,
    warn: Warn,
) -> Iterator[Any]:
    """Yield the rows of a source with an Arrow schema; ``batches`` returns its record batches, reduced to the columns
    with the given names. Messages call the source ``name``."""
    if match_columns(schema.names, name, shape, problems, warn) is None:
        return
    kinds = {column: arrow_kind(schema.field(column).type) for column in shape.names if column in schema.names}
    if not check_kinds(kinds, name, shape, problems):
        return
    first = 1
    for batch in batches(list(kinds)):
        columns = [batch.column(column) if column in kinds else None for column in shape.names]
        yield from converted(columns, batch.num_rows, False, (name, first), shape, problems)
        first += batch.num_rows


def sound_batches(file: DataFile, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of a Parquet file; raise Refused if it is damaged."""
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        if momentary(error):
            raise
        raise refused(f"{file} is damaged: {error}") from error


def open_parquet(file: DataFile) -> Any:
    """Open a Parquet file and read its footer; raise Refused if it is not a Parquet file."""
    try:
        # INT96 timestamps span more years than fit into nanoseconds.
        return pq.ParquetFile(file.open(), page_checksum_verification=True, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError) as error:
        if momentary(error):
            raise
        raise refused(f"{file} is not a Parquet file: {error}") from error
