"""Runs generated scripts without Spark: their stages, tasks and files, one task after the other."""

from __future__ import annotations

import json
import shutil
import sys
import uuid
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

#: The compiler version in scripts made by tests, so that a release changes no golden file.
VERSION = "0.0.0"

Row = tuple[Any, ...]


def compile_text(text: str, name: str = "test.dl") -> tuple[Compilation, str]:
    """Compile a program given as text; returns the compilation and the script, not formatted."""
    compilation = compile_program(SourceFile(name, text))
    return compilation, emit_script(compilation.plan, VERSION, format_code=False)


def load_script(text: str) -> ModuleType:
    """A generated script as a module; registered, because dataclasses look their module up."""
    module = ModuleType(f"generated_{uuid.uuid4().hex[:8]}")
    sys.modules[module.__name__] = module
    exec(compile(text, module.__name__, "exec"), module.__dict__)
    return module


class QuietLog:
    """A log that says nothing."""

    def event(self, name: str, **fields: object) -> None:
        """Take no notice."""


class LocalJob:
    """A job whose tasks run here, in DuckDB, over a state in ``folder``; batches are committed in memory."""

    def __init__(self, script: str, folder: Path, buckets: int = 1) -> None:
        """Load a script; nothing is built yet."""
        self.module = load_script(script)
        self.program = self.module.PROGRAM
        self.folder = folder
        self.buckets = buckets
        self.manifest: dict[str, Any] | None = None
        self.commits = 0
        self.module.run_tasks = self._run_tasks  # type: ignore[attr-defined]
        self.module.describe = lambda spark, text: None  # type: ignore[attr-defined]

    def close(self) -> None:
        """Forget the module and remove the state."""
        del sys.modules[self.module.__name__]
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run_tasks(self, spark: object, task: Any, numbers: range) -> list[dict[str, Any]]:
        return [json.loads(json.dumps(self.module.run_task(task, number))) for number in numbers]

    def run(self, changes: Mapping[str, list[tuple[str, Row]]]) -> dict[str, set[tuple[str, Row]]]:
        """Build the state from the changes, or apply them; returns the net changes of the published relations.

        The first call publishes everything as inserted, as far as tests are concerned.
        """
        initial = self.manifest is None
        before = {} if initial else None
        attempt = f"{self.commits:06d}-{uuid.uuid4().hex[:8]}"
        staged = self._stage(changes, attempt)
        options = self.module.Options(buckets=self.buckets, engine="duckdb")
        outcome = self.module.run_stages(
            None, self.program, self.manifest, staged, str(self.folder), attempt, options, QuietLog(), initial
        )
        self.manifest = {"relations": outcome.relations, "clocks": outcome.clocks}
        self.commits += 1
        outputs = [relation for relation in self.program.relations if relation.output]
        if before is not None:
            return {r.name: {("+", row) for row in self.rows(r.name)} for r in outputs}
        return {r.name: self._net(r, outcome.changes.get(r.table, [])) for r in outputs}

    def _stage(self, changes: Mapping[str, list[tuple[str, Row]]], attempt: str) -> dict[str, list[str]]:
        staged = {}
        for relation in self.program.relations:
            rows = changes.get(relation.name, [])
            if relation.kind != "input" or not rows:
                continue
            columns = relation.tuple_columns
            values = [row or (True,) for _, row in rows]
            arrays = [pa.array([row[i] for row in values], arrow_type(c.type)) for i, c in enumerate(columns)]
            arrays.append(pa.array([op for op, _ in rows], pa.string()))
            path = self.folder / "staging" / attempt / f"{relation.table}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(arrays, names=[*(c.sql for c in columns), "_op"]), path)
            staged[relation.table] = [str(path)]
        return staged

    def _net(self, relation: Any, paths: list[str]) -> set[tuple[str, Row]]:
        net = []
        for path in paths:
            for record in pq.read_table(self.folder / path).to_pylist():
                net.append((record["_op"], tuple(record[c.sql] for c in relation.columns)))
        assert len(net) == len(set(net)), f"{relation.name} publishes a change twice"
        return set(net)

    def relation(self, name: str) -> Any:
        """The relation that users know as ``name``, also a hidden one."""
        found = [r for r in self.program.relations if r.name == name]
        return next((r for r in found if not r.hidden), found[0])

    def records(self, relation: Any) -> list[dict[str, Any]]:
        """The stored rows of a relation, all state columns."""
        engine = self.module.DuckEngine()
        assert self.manifest is not None
        entries = self.module.bucket_files(self.manifest["relations"], relation, None)
        sql = self.module.stored_rows(engine, str(self.folder), relation, entries)
        return engine.first(sql, 2**40)  # type: ignore[no-any-return]

    def rows(self, name: str) -> set[Row]:
        """The tuples of a relation."""
        relation = self.relation(name)
        rows = [tuple(record[c.sql] for c in relation.columns) for record in self.records(relation)]
        assert len(rows) == len(set(rows)), f"{name} holds a tuple twice"
        return set(rows)

    def supports(self, name: str) -> dict[Row, tuple[int, int]]:
        """The stored support and rank of each tuple of a ranked relation."""
        relation = self.relation(name)
        return {
            tuple(record[c.sql] for c in relation.columns): (record["_support"], record["_rank"])
            for record in self.records(relation)
        }

    def differences(self) -> list[dict[str, Any]]:
        """What the job's own verification finds."""
        found: list[dict[str, Any]] = []
        assert self.manifest is not None
        for stage in self.program.stages:
            task = self.module.Task(
                (), (stage,), self.buckets, str(self.folder), "", self.manifest["relations"], {}, {}, {}, False, 10, ""
            )
            bucketed = stage.bucketed and self.buckets > 1
            for number in range(self.buckets if bucketed else 1):
                bucket = self.module.Bucket(number, self.buckets) if bucketed else self.module.Bucket()
                found += self.module.check_stage(
                    self.module.DuckEngine(), task, bucket, number if bucketed else None
                )
        return found


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a column type."""
    if kind.startswith("decimal"):
        precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return {
        "int": pa.int64(),
        "float": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
    }[kind]


def plain(value: Any) -> Any:
    """A value as the oracle holds it."""
    return Decimal(value) if isinstance(value, Decimal) else value
