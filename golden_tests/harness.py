"""Runs generated scripts' stages: without Spark, one task after the other, or in a session; or programs in memory.

What is left out are the commands around the stages (reading files, committing, publishing); the job's tests have those.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import shutil
import sys
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner, Result
from flintlog.compiler import cli
from flintlog.compiler.ir import plan
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.engines.instances import INSTANCES
from flintlog.runtime.local import session as local_session
from flintlog.targets.bundle import bundle, reachable
from flintlog.targets.pyspark.emit import emit_script, job_templates, needed_modules, program_part
from flintlog.targets.pyspark.load import load_program
from flintlog.targets.runtimes import PART_MODULES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The compiler version in scripts made by tests, so that a release changes no golden file.
VERSION = "0.0.0"

#: The examples that are programs of one process.
EXAMPLES = sorted(
    path
    for path in (Path(__file__).parents[1] / "examples").glob("*/*.dl")
    if not re.search(r"^process ", path.read_text(encoding="utf-8"), re.MULTILINE)
)

Row = tuple[Any, ...]
Changes = Mapping[str, list[tuple[str, Row]]]


def compile_text(text: str, name: str = "test.dl") -> tuple[Compilation, str]:
    """Compile a program given as text; returns the compilation and the script, not formatted."""
    compilation = compile_program(SourceFile(name, text))
    return compilation, emit_script(compilation.plan, VERSION, format_code=False)


@functools.lru_cache(256)
def code_of(section: str) -> CodeType:
    """A section of a script, compiled; the support sections are the same in every script.

    Annotations are not evaluated, as in the script: this module's own future statement holds for the section too.
    """
    return compile(section, "<script>", "exec")


def load_script(text: str) -> ModuleType:
    """A generated script as a module; registered, because dataclasses look their module up."""
    module = ModuleType(f"generated_{uuid.uuid4().hex[:8]}")
    sys.modules[module.__name__] = module
    for section in re.split(r"^(?=# ---- )", text, flags=re.MULTILINE):
        exec(code_of(section), module.__dict__)
    if hasattr(module, "INSTANCES"):
        module.INSTANCES = INSTANCES
    return module


def run_job(command: str, script: Path | str, *arguments: Path | str) -> Result:
    """Run a command of a job by ``flintlog job`` in this process."""
    given = ["job", command, str(script), *map(str, arguments)]
    return CliRunner().invoke(cli.main, given, catch_exceptions=False)


def memory_script(program: plan.ProgramPlan, more: tuple[str, ...] = ()) -> str:
    """A program with the part of the runtime that keeps it in memory, and further modules of the runtime."""
    part, _ = program_part(job_templates(), program, VERSION, False, spark=False)
    runtime = bundle(whole_modules("local.session", "local.facts", *needed_modules(program), *more))
    return f"{part}\n\n\n{runtime}\n\n\nPROGRAM = program()\n"


def whole_modules(*roots: str) -> dict[str, Iterable[str]]:
    """Modules of the runtime and those that they need with all their names, for tests that use more than scripts."""
    return {module.name: module.binding for module in reachable(roots)}


def manifest_of(module: Any, program: Any, **members: Any) -> Any:
    """The manifest of a first commit that has nothing but the given members."""
    nothing: dict[str, Any] = {"relations": {}, "clocks": {}, "changes": {}, "counts": {}, "publish": (), "steps": ()}
    batches = {"batch": "init", "batches": ("init",), "attempts": ("",), "generated": (), "older_batches": ()}
    record = {"format": module.STATE_FORMAT, "commit": 1, "attempt": "000000000001-00000000", "buckets": 1}
    return module.Manifest(**{**record, "program": module.program_record(program), **batches, **nothing, **members})


def stored_tuples(module: Any, state: Path, manifest: Any, relation: Any) -> set[Row]:
    """The tuples of a relation in the files of a commit, of which none is there twice."""
    engine = module.DuckEngine(state=str(state))
    entries = module.bucket_files(manifest.relations, relation, None)
    records = engine.first(module.stored_rows(engine, str(state), relation, entries), 2**40)
    engine.close()
    rows = [row_of(record, relation) for record in records]
    assert len(rows) == len(set(rows)) == manifest.relations[relation.table].rows, relation.name
    return set(rows)


def tuples_in(found: Any) -> list[Row]:
    """The tuples of a relation, given as the job returns it: a frame of Spark, or a table without it."""
    if isinstance(found, pa.Table):
        return [tuple(row.values()) for row in found.to_pylist()]
    return list(map(tuple, found.collect()))


class QuietLog:
    """A log that says nothing."""

    def event(self, name: str, **fields: object) -> None:
        """Take no notice."""

    def warn(self, message: str) -> None:
        """Take no notice of this either."""


class LocalJob:
    """A job over a state in ``folder`` whose batches are committed in memory; its tasks run here, in DuckDB."""

    spark: SparkSession | None = None
    engine = "duckdb"
    #: Whether no batch finds tables that earlier ones have kept.
    cold = False

    def __init__(self, script: str, folder: Path, buckets: int = 1, functions: Path | None = None) -> None:
        """Load a script, and its external functions; nothing is built yet."""
        self.module = load_script(script)
        self.program = self.module.PROGRAM
        self.folder = folder
        self.supplied = self.module.supply(self.program, str(functions) if functions else None)
        self.options = self.module.Options(buckets=buckets, engine=self.engine, functions=self.supplied)
        self.manifest: Any = None
        self.attempts = 0
        self.changes: dict[str, set[tuple[str, Row]]] = {}
        self.scratch: list[str] = []
        #: How strata were computed with matrices in the last batch, or why not.
        self.algebra: list[str] = []
        #: ``insert`` if rows that a batch both deletes and inserts stay.
        self.net = ""
        self.prepare()

    def prepare(self) -> None:
        """Let databases be kept between batches."""
        self.warm = self.module.LocalExecutor(1, keep=True)

    def seem_large(self) -> None:
        """Work as where the state is large and changes are few: changes stay in files of their own, and tasks read, and
        look at, only the rows that they need."""
        module: Any = self.module
        module.COMPACT_SHARE = module.LOOKED_UP_SHARE = 10**9
        module.MOST_MET = module.MOST_VALUES_MET = 10**9
        module.LARGE_TABLE = module.MANY_ROWS = 0
        self.cold = True

    def close(self) -> None:
        """Forget the module and remove the state."""
        self.warm.close()
        del sys.modules[self.module.__name__]
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, changes: Changes) -> dict[str, set[tuple[str, Row]]]:
        """Build the state from the changes, or apply them; returns the net changes of the published relations.

        The first call publishes everything as inserted, as far as tests are concerned. If the job refuses the batch,
        its JobError is raised and nothing is committed.
        """
        initial = self.manifest is None
        self.attempts += 1
        attempt = f"{self.attempts:06d}-{uuid.uuid4().hex[:8]}"
        staged = self._stage(changes, attempt)
        request = self.module.Request(self.program, self.executor, self.folder, QuietLog(), self.options)
        outcome = self.module.run_stages(request, self.manifest, staged, attempt, initial)
        before, self.manifest = self.manifest, self._committed(outcome)
        self.algebra = [how for s in outcome.steps for task in s["tasks"] for how in task["algebra"].values()]
        self.scratch = [reason for s in outcome.steps for task in s["tasks"] for reason in task["scratch"].values()]
        self.changes = {}
        for relation in self.program.relations:
            if initial:
                net = {("+", row) for row in self.tuples(relation)}
            else:
                files = outcome.changes.get(relation.table, [])
                # Changes that nobody reads are counted, but not written.
                written = files or relation.output
                net = self._net(relation, files) if written else self._difference(before, relation)
            counted = outcome.counts.get(relation.table, (0, 0))
            assert counted == tuple(sum(op == sign for op, _ in net) for sign in "+-"), relation.table
            self.changes[relation.table] = net
        return {r.name: self.changes[r.table] for r in self.program.relations if r.output}

    def _difference(self, before: Any, relation: Any) -> set[tuple[str, Row]]:
        """What a relation has lost and gained since an earlier commit."""
        was, now = (stored_tuples(self.module, self.folder, m, relation) for m in (before, self.manifest))
        return {*(("-", row) for row in was - now), *(("+", row) for row in now - was)}

    @property
    def executor(self) -> Any:
        """What runs the tasks: Spark, or this thread, one after the other. Two of three batches find the tables that
        earlier ones have kept, if nobody else made a commit in between."""
        if self.spark:
            return self.module.executor_of(self.spark)
        return self.module.LocalExecutor(1) if self.cold or self.attempts % 3 == 2 else self.warm

    def use_strategy(self, strategy: str) -> None:
        """Maintain relations as ``strategy`` says; ``auto`` also where they are small, and soon from scratch."""
        self.options = dataclasses.replace(self.options, strategy=strategy)
        choose_soon(self.module)

    def limit_rounds(self, most: int) -> None:
        """Give up recursions after ``most`` rounds."""
        self.options = dataclasses.replace(self.options, max_rounds=most)

    def _stage(self, changes: Changes, attempt: str) -> dict[str, list[str]]:
        staged = {}
        for relation in self.program.relations:
            rows = changes.get(relation.name, [])
            if relation.kind != "input" or not rows:
                continue
            columns = relation.row_columns
            values = [row or (True,) for _, row in rows]
            arrays = [pa.array([kept(r[i], c.type) for r in values], arrow_type(c.type)) for i, c in enumerate(columns)]
            arrays.append(pa.array([op for op, _ in rows], pa.string()))
            path = self.folder / "staging" / attempt / relation.table / "rows.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table(arrays, names=[*(c.sql for c in columns), "_op"]), path)
            shape, problems = self.module.InputShape(relation, "op", "", False, self.net), self.module.Problems()
            with self.module.Netting() as netting:
                folder = self.module.net_changes([], path.parent, shape, problems, netting)
            problems.refuse()
            staged[relation.table] = [str(path) for path in sorted(folder.rglob("*.parquet"))]
        return staged

    def _committed(self, outcome: Any) -> Any:
        """The manifest of a commit, as it is read from its file."""
        known = {"relations": outcome.relations, "clocks": outcome.clocks, "effects": outcome.effects}
        made = manifest_of(self.module, self.program, buckets=self.options.buckets, **known)
        return self.module.from_json(self.module.Manifest, json.loads(json.dumps(made, default=vars)))

    def _net(self, relation: Any, paths: list[str]) -> set[tuple[str, Row]]:
        net = []
        for path in paths:
            for record in pq.ParquetFile(self.folder / path).read().to_pylist():
                net.append((record["_op"], row_of(record, relation)))
        assert len(net) == len(set(net)), f"{relation.name} publishes a change twice"
        return set(net)

    def relation(self, name: str) -> Any:
        """The relation that users know as ``name``, also a hidden one."""
        return named(self.program, name)

    def records(self, relation: Any) -> list[dict[str, Any]]:
        """The stored rows of a relation, all state columns."""
        assert self.manifest is not None
        entries = self.module.bucket_files(self.manifest.relations, relation, None)
        with contextlib.closing(self.module.DuckEngine(state=str(self.folder))) as engine:
            sql = self.module.stored_rows(engine, str(self.folder), relation, entries)
            return engine.first(sql, 2**40)  # type: ignore[no-any-return]

    def tuples(self, relation: Any) -> set[Row]:
        """The tuples of a relation, given as the script holds it."""
        rows = [row_of(record, relation) for record in self.records(relation)]
        assert len(rows) == len(set(rows)), f"{relation.name} holds a tuple twice"
        stored = self.manifest.relations.get(relation.table, self.module.StoredRelation()).rows
        assert len(rows) == stored, f"{relation.name} has {len(rows)} tuples and says {stored}"
        return set(rows)

    def rows(self, name: str) -> set[Row]:
        """The tuples of the relation that users know as ``name``."""
        return self.tuples(self.relation(name))

    def supports(self, relation: Any) -> dict[Row, tuple[int, int]]:
        """The stored support and rank of each tuple of a ranked relation."""
        return {row_of(record, relation): (record["_support"], record["_rank"]) for record in self.records(relation)}

    def counts(self, relation: Any) -> dict[Row, int]:
        """The stored number of derivations of each tuple of a counted relation."""
        return {row_of(record, relation): record["_support"] for record in self.records(relation)}

    def differences(self) -> list[dict[str, Any]]:
        """What the job's own verification finds."""
        return self.module.verify_stages(  # type: ignore[no-any-return]
            self.executor, self.program, self.manifest, str(self.folder), self.options
        )


class MatricesJob(LocalJob):
    """A job whose tasks compute with matrices what they compute from scratch, where they can."""

    engine = "matrices"


class MemoryJob:
    """A program that runs in this process, its relations in one database: what ``flintlog run`` and ``replay`` use.

    Its manifest is the number of batches applied, None before the first.
    """

    net = ""
    #: Further modules of the runtime.
    modules: tuple[str, ...] = ()

    def __init__(self, compilation: Compilation, functions: Path | None = None) -> None:
        """Load the program and its external functions; nothing is built yet."""
        self.compilation = compilation
        self.module = load_script(memory_script(compilation.plan, self.modules))
        self.session = self.module.Session(self.module.PROGRAM, functions=str(functions) if functions else None)
        self.supplied = self.session.supplied
        self.program = self.session.program
        self.changes: dict[str, set[tuple[str, Row]]] = {}

    @property
    def manifest(self) -> int | None:
        """Something that changes with every batch."""
        return self.session.batches or None

    def close(self) -> None:
        """Forget the module and its database."""
        del sys.modules[self.module.__name__]
        self.session.engine.close()

    def run(self, changes: Changes) -> dict[str, set[tuple[str, Row]]]:
        """Apply a batch; returns the net changes of the published relations. Raises the module's JobError."""
        inputs = {r.name: r.table for r in self.program.relations if r.kind == "input"}
        self.session.apply({inputs[name]: rows for name, rows in changes.items() if name in inputs})
        self.changes = {r.table: self._net(r) for r in self.program.relations}
        return {r.name: self.changes[r.table] for r in self.program.relations if r.output}

    def use_strategy(self, strategy: str) -> None:
        """Maintain relations as ``strategy`` says; ``auto`` also where they are small, and soon from scratch."""
        self.session.choice.strategy = strategy
        choose_soon(self.module)

    def limit_rounds(self, most: int) -> None:
        """Give up recursions after ``most`` rounds."""
        self.session.max_rounds = most

    def limit_entries(self, most: int) -> None:
        """Refuse recursions with more than ``most`` derivation sets."""
        self.session.max_entries = most

    @property
    def scratch(self) -> list[str]:
        """Why strata were computed from scratch in the last batch."""
        return list(self.session.choice.scratch.values())

    def _net(self, relation: Any) -> set[tuple[str, Row]]:
        net = [(op, frozen_row(row)) for op, row in self.session.changes(relation)]
        assert len(net) == len(set(net)), f"{relation.name} publishes a change twice"
        return set(net)

    def relation(self, name: str) -> Any:
        """The relation that users know as ``name``, also a hidden one."""
        return named(self.program, name)

    def tuples(self, relation: Any) -> set[Row]:
        """The tuples of a relation."""
        rows = list(map(frozen_row, self.session.rows(relation)))
        assert len(rows) == len(set(rows)), f"{relation.name} holds a tuple twice"
        counted = self.session.engine.rows(relation.table)
        assert len(rows) == counted, f"{relation.name} has {len(rows)} tuples and says {counted}"
        return set(rows)

    def rows(self, name: str) -> set[Row]:
        """The tuples of the relation that users know as ``name``."""
        return self.tuples(self.relation(name))

    def supports(self, relation: Any) -> dict[Row, tuple[int, int]]:
        """The support and rank of each tuple of a ranked relation."""
        return {row_of(r, relation): (r["_support"], r["_rank"]) for r in self._records(relation)}

    def counts(self, relation: Any) -> dict[Row, int]:
        """The number of derivations of each tuple of a counted relation."""
        return {row_of(r, relation): r["_support"] for r in self._records(relation)}

    def _records(self, relation: Any) -> list[dict[str, Any]]:
        return self.session.engine.first(f"SELECT * FROM {relation.table}", 2**40)  # type: ignore[no-any-return]

    def differences(self) -> list[dict[str, Any]]:
        """What the recount finds."""
        return self.session.differences()  # type: ignore[no-any-return]


class ImportedJob(MemoryJob):
    """The same with the runtime that this process imports, as commands have it: quicker to load, but with no settings
    of its own."""

    def __init__(self, compilation: Compilation) -> None:
        """Load the program; nothing is built yet."""
        self.compilation = compilation
        self.module = local_session
        self.session = local_session.Session(load_program(compilation.plan))
        self.supplied = self.session.supplied
        self.program = self.session.program
        self.changes = {}

    def close(self) -> None:
        """Discard the database."""
        self.session.engine.close()


class MemoryMatricesJob(MemoryJob):
    """A program in memory that computes with matrices what it computes from scratch, where it can."""

    modules = PART_MODULES["matrices"]

    def __init__(self, compilation: Compilation, functions: Path | None = None) -> None:
        """Load the program; no recursion is too small."""
        super().__init__(compilation, functions)
        self.module.FEW_PAIRS = 0

    @property
    def algebra(self) -> list[str]:
        """How strata were computed with matrices in the last batch, or why not."""
        return list(self.session.choice.algebra.values())


class TaskJob(LocalJob):
    """A job whose tasks run in DuckDB inside the tasks of a Spark session."""

    def __init__(
        self, script: str, folder: Path, spark: SparkSession, buckets: int = 1, functions: Path | None = None
    ) -> None:
        """Load a script, and its external functions; nothing is built yet."""
        self.spark = spark
        super().__init__(script, folder, buckets, functions)

    def prepare(self) -> None:
        """Leave everything to the script."""

    def close(self) -> None:
        """Forget the module and remove the state."""
        del sys.modules[self.module.__name__]
        shutil.rmtree(self.folder, ignore_errors=True)


class RoundsJob(TaskJob):
    """A job whose rounds are Spark SQL."""

    engine = "spark"


class AlternatingJob(TaskJob):
    """A job that runs its batches in turn in threads of this process and in the tasks of a Spark session."""

    @property
    def executor(self) -> Any:
        """What runs the tasks of this batch."""
        return self.module.LocalExecutor(2) if self.attempts % 2 else self.module.executor_of(self.spark)


def choose_soon(module: Any) -> None:
    """Let a job choose between incremental and from scratch also where relations are small, stop early, and choose
    alike each time: a statement counts as five milliseconds."""
    module.FEW_TUPLES, module.LARGE_SHARE = 0, 0.6
    module.PRICE_OF_ROUND, module.PRICE_OF_SUSPECTS = 0.04, 8.0
    module.seconds_worked = lambda engine: engine.statements / 200


def row_of(record: Mapping[str, Any], relation: Any) -> Row:
    """The tuple in a stored record, as the oracle holds it: lists as tuples, None for null."""
    return frozen_row(plain(record[column.sql], column.type) for column in relation.term_columns)


def plain(value: Any, kind: str) -> Any:
    """A stored value as the oracle holds it; values that may be null are stored as lists."""
    return (value[0] if value else None) if kind.endswith("?") else value


def kept(value: Any, kind: str) -> Any:
    """A value of the oracle as it is stored."""
    return value if not kind.endswith("?") else () if value is None else (value,)


def frozen_row(values: Iterable[Any]) -> Row:
    """A tuple with lists as tuples."""
    return tuple(map(frozen, values))


def frozen(value: Any) -> Any:
    """A value with lists as tuples."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def named(program: Any, name: str) -> Any:
    """The relation of a program that users know as ``name``, also a hidden one."""
    found = [r for r in program.relations if r.name == name]
    return next((r for r in found if not r.hidden), found[0])


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type in which a column type is stored."""
    if kind.endswith("?"):
        return pa.list_(arrow_type(kind.removesuffix("?")))
    if kind.startswith("list<"):
        return pa.list_(arrow_type(kind.removeprefix("list<").removesuffix(">")))
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
