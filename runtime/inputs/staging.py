"""Stage input rows and changes as Parquet files of the program's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from ..kernel.model import Program
from ..store.executors import Executor
from ..store.extensions import FURTHER
from ..system.log import Log
from .checks import staged_schema
from .files import InputFile, Reading, Source, input_files
from .net import Netting, net_changes
from .origins import tables_of_source
from .records import Problems, input_relation
from .values import InputShape


def stage_inputs(
    executor: Executor,
    program: Program,
    sources: Mapping[str, Sequence[Source]],
    into: Path,
    reading: Reading,
    log: Log,
) -> dict[str, list[str]]:
    """Stage all rows of a batch below ``into`` and return the files of each table. These hold the relation's columns
    and ``_op``; no row has both ``+`` and ``-``. If anything is wrong, raise Refused, naming the rows."""
    problems = Problems()
    staged: dict[str, list[str]] = {}
    with Netting(executor.kept) as netting:
        for name, places in sources.items():
            relation = input_relation(program, name)
            shape = reading.shape(relation)
            files = [file for place in places for file in input_files(relation, place, problems)]
            log.event("read", relation=name, files=len(files), bytes=sum(file.size for file in files))
            folder = into / relation.table
            folder.mkdir(parents=True, exist_ok=True)
            stage_relation(executor, files, shape, folder, problems, log)
            if not problems.count:
                folder = net_changes(files, folder, shape, problems, netting)
            staged[relation.table] = [str(path) for path in sorted(folder.rglob("*.parquet"))]
    problems.refuse()
    return staged


def stage_relation(
    executor: Executor, files: Sequence[InputFile], shape: InputShape, folder: Path, problems: Problems, log: Log
) -> None:
    """Stage the files of one relation in constant memory; add everything that is wrong with them to ``problems``."""
    # Staged files are read once or twice, then removed: fast writes matter more than size.
    with (
        (folder / "rows.parquet").open("wb") as content,
        pq.ParquetWriter(content, staged_schema(shape), use_dictionary=False) as writer,
    ):
        for number, file in enumerate(files):
            if file.format in ("table", "frame"):
                raw = folder / f"raw-{number}"
                tables = FURTHER["spark_tables"](executor, file, shape, raw, problems, log.warn)
            else:
                tables = tables_of_source(file, shape, problems, log.warn)
            for table in tables:
                writer.write_table(table)
