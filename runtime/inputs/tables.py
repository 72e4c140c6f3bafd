"""Read input files as Arrow tables of staged values, in constant memory."""

from __future__ import annotations

import codecs
import contextlib
import io
import itertools
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ..engines.arrow import ROWS_AT_ONCE, arrow_type
from ..kernel.sql import plain_type
from ..system.transient_errors import momentary
from .checks import SourceRows, checked_tables, rows_of_records
from .columns import arrow_kind
from .paths import text_lines, typed_partition
from .records import (
    Members,
    Problems,
    Warn,
    check_kinds,
    csv_header,
    csv_records,
    json_records,
    match_columns,
    match_header,
    plain_records,
    refused,
    split_csv,
)
from .values import InputShape

if TYPE_CHECKING:
    from .files import InputFile

CSV_BLOCK = 16 * 1024 * 1024


def staged_tables(file: InputFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a file, as Arrow tables of staged values."""
    read = {"parquet": parquet_tables, "csv": csv_tables, "json": json_tables}[file.format]
    return read(file, shape, problems, warn)


def json_tables(file: InputFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a JSON Lines file."""
    constant, members = typed_partition(file, file.partition, shape, problems), Members()
    if constant is None:
        return
    for rows in rows_of_records(json_records(text_lines(file, file.open), shape, constant, members), False, shape):
        yield from checked_tables(rows, str(file), shape, problems)
    members.check(str(file), shape, problems, warn)


# CSV


def csv_tables(file: InputFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a CSV file. Arrow splits a file without quotes, as far as it finds nothing to object to."""
    dialect, lines, done = file.dialect, text_lines(file, file.open), 0
    fields = plain_records(lines, shape, dialect) if dialect.plain else split_csv(lines, dialect)
    header = csv_header(fields, shape, dialect)
    places = match_header(header, str(file), shape, problems, warn, dialect, file.partition)
    if places is None:
        return
    constant = [*file.partition.values()]
    if not dialect.plain and is_plain(file):
        with contextlib.suppress(pa.ArrowException):
            for batch in plain_batches(file, len(header)):
                count = batch.num_rows
                further = (pa.repeat(pa.scalar(value, pa.string()), count) for value in constant)
                present = [*batch.columns, *further]
                columns = [None if place is None else present[place] for place in places]
                rows = SourceRows(columns, count, True, range(done + 1, done + 1 + count))
                yield from checked_tables(rows, str(file), shape, problems)
                done += count
            return
    records = itertools.islice(csv_records(fields, len(header), places, constant), done, None)
    for rows in rows_of_records(records, True, shape, done + 1):
        yield from checked_tables(rows, str(file), shape, problems)


def unheard(message: str) -> None:
    """Ignore a warning: it was given before, or is a problem already."""


def is_plain(file: InputFile) -> bool:
    """Return whether a file on this machine has no quotes and no zero bytes, does not begin with an empty line, which
    Arrow would take for the header, and has a name that Arrow takes."""
    with file.open() as content:
        if not isinstance(content, io.BufferedReader) or not is_unicode(str(content.name)):
            return False
        if content.peek(4).removeprefix(codecs.BOM_UTF8)[:1] in (b"", b"\n", b"\r"):
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


def plain_batches(file: InputFile, width: int) -> Iterator[Any]:
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


def with_partition(batch: Any, constant: Mapping[str, Any], shape: InputShape) -> Any:
    """Return a record batch with further columns that are ``constant``."""
    kinds = dict(zip(shape.names, shape.types, strict=True))
    for name, value in constant.items():
        kind = arrow_type(plain_type(kinds[name])) if kinds[name] not in ("operation", "order") else pa.string()
        batch = batch.append_column(name, pa.repeat(pa.scalar(value, kind), batch.num_rows))
    return batch


# Parquet


def parquet_tables(file: InputFile, shape: InputShape, problems: Problems, warn: Warn) -> Iterator[Any]:
    """Yield the rows of a Parquet file."""
    constant = typed_partition(file, file.partition, shape, problems)
    if constant is None:
        return
    with open_parquet(file, file.open) as content:

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
        rows = SourceRows(columns, batch.num_rows, numbers=range(first, first + batch.num_rows))
        yield from checked_tables(rows, name, shape, problems)
        first += batch.num_rows


def sound_batches(file: object, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of a Parquet file; raise Refused if it is damaged."""
    try:
        yield from batches
    except (pa.ArrowException, OSError) as error:
        if momentary(error):
            raise
        raise refused(f"{file} is damaged: {error}") from error


def open_parquet(file: object, opened: Callable[[], Any]) -> Any:
    """Open a Parquet file and read its footer; raise Refused, which names the ``file``, if it is not a Parquet file."""
    try:
        # INT96 timestamps span more years than fit into nanoseconds.
        return pq.ParquetFile(opened(), page_checksum_verification=True, coerce_int96_timestamp_unit="us")
    except (pa.ArrowException, OSError) as error:
        if momentary(error):
            raise
        raise refused(f"{file} is not a Parquet file: {error}") from error
