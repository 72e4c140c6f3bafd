"""Read tables and DataFrames, which only Spark can."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engines.arrow import ROWS_AT_ONCE
from ..inputs.checks import SourceRows, checked_tables
from ..inputs.columns import arrow_kind
from ..inputs.files import InputFile
from ..inputs.records import Problems, Warn, check_kinds, match_columns, refused
from ..inputs.tables import open_parquet, sound_batches
from ..inputs.values import InputShape
from ..kernel.errors import JobError, full_disk, reason
from ..store.executors import Executor
from ..system.log import describe
from ..system.places import remove_tree
from ..system.transient_errors import momentary
from .places import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn


def spark_tables(
    executor: Executor, file: InputFile, shape: InputShape, folder: Path, problems: Problems, warn: Warn
) -> Iterator[Any]:
    """Yield the rows of a Spark table or a DataFrame, as Arrow tables of staged values. Spark writes them as Parquet
    files to ``folder``, which is removed in the end. They have no numbers: messages tell rows by their values."""
    from pyspark.sql import functions

    try:
        frame: Any = executor.session(str(file)).table(file.place) if isinstance(file.place, str) else file.place
        columns_there = frame.columns
    except JobError:
        raise
    except Exception as error:
        if momentary(error):
            raise
        problems.add(f"{file} cannot be read: {reason(error)}")
        return
    if match_columns(columns_there, str(file), shape, problems, warn) is None:
        return
    present = [name for name in shape.names if name in columns_there]
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    columns = [in_utc(functions.col(quoted(name)), kinds[name]).alias(str(n)) for n, name in enumerate(present)]
    describe(frame.sparkSession, f"read {shape.relation.name}")
    try:
        paths = write_parquet(frame.select(functions.lit(True).alias("row"), *columns), folder)
    except Exception as error:
        if full_disk(error) or momentary(error):
            raise
        raise refused(f"{file} cannot be read: {reason(error)}") from error
    for path in paths:
        part = InputFile(file.relation, path, "parquet")
        with open_parquet(part, part.open) as content:
            read = {name: arrow_kind(content.schema_arrow.field(str(n)).type) for n, name in enumerate(present)}
            if not check_kinds(read, str(file), shape, problems):
                break
            for batch in sound_batches(file, content.iter_batches(ROWS_AT_ONCE)):
                values = dict(zip(present, batch.columns[1:], strict=True))
                rows = SourceRows([values.get(name) for name in shape.names], batch.num_rows)
                yield from checked_tables(rows, str(file), shape, problems)
    remove_tree(folder)


def in_utc(column: SparkColumn, kind: Any) -> SparkColumn:
    """Convert timestamps with a time zone, those in arrays included, to timestamps in UTC without one: Spark writes
    the former in 96 bits, which do not hold all of them."""
    from pyspark.sql import functions

    name = kind.typeName()
    if name == "array":
        return functions.transform(column, lambda item: in_utc(item, kind.elementType))
    if name != "timestamp":
        return column
    epoch = functions.lit("1970-01-01 00:00:00").cast("TIMESTAMP_NTZ")
    return functions.timestamp_add("MICROSECOND", functions.unix_micros(column), epoch)


def quoted(name: str) -> str:
    """Quote a column name for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
