"""The state of a process: that of a job, in a folder of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...engines.duckdb import DuckEngine
from ...job.apply import apply_batch
from ...job.init import init_state
from ...kernel.model import MOST_ENTRIES, Program, Relation
from ...kernel.sql import names
from ...spark.executor import executor_of
from ...store.executors import Executor
from ...store.manifest import PUBLISHED, read_manifest, read_state
from ...store.publish import check_cut, publication_folder, published_files
from ...store.published_names import batch_folder, operation_column
from ...store.reading import bucket_files, stored_rows
from ...system.log import Log
from .inbox import InputStep

if TYPE_CHECKING:
    from ...spark.types import SparkSession

STEPS_KEPT = "2"
"""The number of commits that the state of a process keeps: the last one, and that before it, which may be being
read."""


class JobState:
    """The state of a process: that of a job, in a folder of its own."""

    def __init__(
        self,
        program: Program,
        spark: SparkSession | Executor | None,
        folder: Path,
        functions: str | None,
        max_entries: int = MOST_ENTRIES,
        publish_by: str | None = None,
    ) -> None:
        """Build the state if there is none in ``folder``. A step that makes a recursion across processes larger than
        ``max_entries`` is refused. Changes are published, and may be cut, as in ``apply_batch``."""
        self.program, self.max_entries = program, max_entries
        self.publish_by = check_cut(program, publish_by)
        self.executor, self.folder, self.functions = executor_of(spark), str(folder), functions
        if read_manifest(folder) is None:
            init_state(
                program, self.executor, self.folder, {}, 1, functions=functions, keep=STEPS_KEPT, log=Log(quiet=True)
            )

    def last_step(self) -> str:
        """Return the ID of the last step that was applied; empty if none. Other commits do not count."""
        batches = read_state(Path(self.folder)).batches
        return next((batch for batch in reversed(batches) if batch.startswith("step-")), "")

    def begin_anew(self, kept: str) -> None:
        """Build an empty state; rename the folder of the old one to end in ``kept``."""
        folder = Path(self.folder)
        folder.rename(folder.with_name(f"{folder.name}.{kept}"))
        self.__init__(  # type: ignore[misc]
            self.program, self.executor, folder, self.functions, self.max_entries, self.publish_by
        )

    def apply(self, step: InputStep) -> bool:
        """Apply the changes of a step as a batch; return False if that was done before."""
        done = apply_batch(
            self.program,
            self.executor,
            self.folder,
            step.files,
            batch=step.name,
            functions=self.functions,
            max_entries=self.max_entries,
            publish_by=self.publish_by,
            log=Log(quiet=True),
        )
        applied: bool = done["applied"]
        return applied

    def has_spark(self) -> bool:
        """Return whether tasks can still run: a stopped JVM cannot be restarted in this process."""
        if self.executor.local:
            return True
        try:
            context: Any = getattr(self.executor.session("the process"), "sparkContext", None)
            return context is None or not context._jsc.sc().isStopped()
        except Exception:
            return False

    def whole(self, relation: Relation) -> pa.Table:
        """Return all rows of a relation, each with ``_op`` 1."""
        manifest = read_state(Path(self.folder))
        engine = DuckEngine(state=self.folder)
        entries = bucket_files(manifest.relations, relation, None)
        stored = stored_rows(engine, self.folder, relation, entries)
        rows: pa.Table = engine.connection.sql(
            f"SELECT CAST(1 AS BIGINT) AS _op, {names(relation.tuple_columns)} FROM ({stored}) AS q"
        ).to_arrow_table()
        engine.close()
        return rows

    def changes(self, relation: Relation, step: InputStep) -> pa.Table | None:
        """Return the published changes of a relation in a step, with ``_op`` 1 or -1; None if there are none."""
        folder = publication_folder(Path(self.folder), PUBLISHED, relation, batch_folder(step.name))
        files = list(published_files(folder))
        if not files:
            return None
        rows = pa.concat_tables([pq.ParquetFile(file).read() for file in files])
        sign = pc.equal(rows.column(operation_column(relation.columns)), "+")
        signs = pc.if_else(sign, 1, -1).cast(pa.int64())
        columns = [rows.column(column.name) for column in relation.columns]
        if not columns:
            columns = [pa.chunked_array([pa.array([True] * rows.num_rows)])]
        return pa.table([signs, *columns], ["_op", *(c.sql for c in relation.tuple_columns)])

    def prune(self, relations: Iterable[Relation], step: str) -> None:
        """Remove the published changes of relations in a step, or in all steps if ``step`` is empty."""
        for relation in relations:
            folder = publication_folder(Path(self.folder), PUBLISHED, relation, batch_folder(step))
            for removed in [folder] if step else folder.parent.glob("batch=step-*"):
                shutil.rmtree(removed, ignore_errors=True)
