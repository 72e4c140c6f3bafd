"""Read Parquet files into states in one SQLite file, with PyArrow. Scripts lack it; ``flintlog job`` has it."""

from __future__ import annotations

from collections.abc import Iterator

from ..engines.arrow import ROWS_AT_ONCE
from ..inputs.columns import arrow_kind, objects_of
from ..inputs.paths import typed_partition
from ..inputs.records import Record, Warn, check_kinds, match_columns
from ..inputs.tables import open_parquet, sound_batches
from ..inputs.values import Absent
from .reading import FORMATS, GivenChanges, RowsFile


def take_parquet(given: GivenChanges, file: RowsFile, warn: Warn) -> None:
    """Take the rows of a Parquet file; raise Refused if it is damaged."""
    shape, problems = given.shape, given.problems
    constant = typed_partition(file, file.partition, shape, problems)
    if constant is None:
        return
    with open_parquet(file, file.open) as content:
        schema = content.schema_arrow
        if match_columns([*schema.names, *constant], str(file), shape, problems, warn) is None:
            return
        kinds = {name: arrow_kind(schema.field(name).type) for name in shape.names if name in schema.names}
        if not check_kinds(kinds, str(file), shape, problems):
            return

        def records() -> Iterator[Record]:
            for batch in sound_batches(file, content.iter_batches(ROWS_AT_ONCE, columns=[*kinds])):
                columns = [
                    objects_of(batch.column(name), False, False, batch.num_rows)
                    if name in kinds
                    else [constant.get(name, Absent.ABSENT)] * batch.num_rows
                    for name in shape.names
                ]
                yield from map(list, zip(*columns, strict=True))

        given.take(records(), file, False)


FORMATS["parquet"] = take_parquet
