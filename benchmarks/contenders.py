"""The contenders on one workload: how each is run, and what it answers."""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
from checksum import Answer, answer
from in_session import load_job
from measure import Run, run
from workloads import Step, Workload

HERE = Path(__file__).parent
HEAP_MB = 4096

Answers = dict[str, Answer]


def spark_submit(heap_mb: int = HEAP_MB) -> tuple[str | Path, ...]:
    """The command before a script, with this much heap for driver and executors together."""
    return ("spark-submit", "--master", "local[2]", "--driver-memory", f"{heap_mb}m")


@dataclass(frozen=True)
class Outcome:
    """A measured step: the process, the seconds that it says its own work took, its answers, and the seconds of the
    processor that this took."""

    measured: Run
    job_seconds: float
    answers: Answers
    processor: float


class Place:
    """The folder of a workload: its tables and changes after each step, and what contenders write."""

    def __init__(self, workload: Workload, folder: Path) -> None:
        """Empty the folder."""
        self.workload = workload
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def tables(self, step: Step) -> Path:
        """The folder with the input relations after a step."""
        return self.folder / step.batch / "tables"

    def changes(self, step: Step) -> Path:
        """The folder with the changes of a step."""
        return self.folder / step.batch / "changes"

    def log(self, step: Step | None, contender: str) -> Path:
        """Where a contender's standard error goes."""
        return self.folder / (step.batch if step else "") / f"{contender}.log".replace(" ", "-")


class DuckDB:
    """All from scratch in DuckDB."""

    def __init__(self, place: Place) -> None:
        """Nothing is to be prepared."""
        self.place = place

    def run(self, step: Step) -> Outcome:
        """The answers after a step."""
        workload = self.place.workload
        script = HERE / "duckdb_answers.py"
        command = (sys.executable, script, workload.program, self.place.tables(step), json.dumps(workload.answers))
        measured = run(command, self.place.log(step, "duckdb"))
        said = last_object(measured)
        answers = {name: Answer(**one) for name, one in said["answers"].items()}
        # Without the checksums.
        return Outcome(measured, said["seconds"], answers, said["processor"])


class FlintlogJob:
    """The compiled job and its state below one folder."""

    def __init__(self, place: Place, name: str = "flintlog", options: Sequence[str] = ()) -> None:
        """Compile the program with some options; ``name`` is that of the contender, which says where the job runs."""
        self.place, self.name = place, name
        self.folder = place.folder / name.replace(", ", "-").replace(" ", "-")
        self.state = self.folder / "state"
        command: Sequence[str | Path] = ("flintlog", "compile", place.workload.source, "-o", self.folder, *options)
        run(command, place.log(None, f"{name} compile"))
        self.script = self.folder / f"{place.workload.program}.py"

    @cached_property
    def module(self) -> ModuleType:
        """The job, imported."""
        return load_job(self.script)

    def run(self, step: Step) -> Outcome:
        """Do a step in a process of its own."""
        measured = run((*self.starter, self.script, *self.command(step), "--json"), self.place.log(step, self.name))
        return Outcome(measured, last_object(measured)["seconds"], self.answers(), measured.processor)

    def change(self, changes: Path, batch: str) -> None:
        """Apply further changes."""
        command = ("apply", "--state", self.state, "--changes", changes, "--batch", batch, "--json")
        run((*self.starter, self.script, *command), self.place.log(None, self.name))

    @property
    def starter(self) -> tuple[str | Path, ...]:
        """The command before a script."""
        here = self.name.endswith(("here", "cold", "warm", "database"))
        return (sys.executable,) if here else spark_submit()

    def command(self, step: Step) -> tuple[str | Path, ...]:
        """The job's arguments for a step."""
        if step.name == "init":
            return ("init", "--state", self.state, "--input", self.place.tables(step))
        return ("apply", "--state", self.state, "--changes", self.place.changes(step), "--batch", step.batch)

    def in_session(
        self, steps: Sequence[Step], options: Sequence[str | Path] = ()
    ) -> tuple[Run, list[Mapping[str, Any]]]:
        """Do all steps in one process; the whole run, and what it says of each step."""
        folders = [self.place.tables(steps[0]), *(self.place.changes(step) for step in steps[1:])]
        here = ("--here",) if self.name.endswith("warm") else ()
        command = (*self.starter, HERE / "in_session.py", *here, self.script, self.state, *folders, *options)
        measured = run(command, self.place.log(None, self.name))
        return measured, [json.loads(line) for line in measured.output.splitlines() if line.startswith('{"seconds"')]

    def answers(self) -> Answers:
        """The answers as they are stored, read by the job's own functions."""
        manifest = self.module.read_state(self.state)
        engine = self.module.DuckEngine(state=str(self.state))
        found = {}
        for name, columns in self.place.workload.answers.items():
            relation = self.module.PROGRAM.relation(name)
            entries = self.module.bucket_files(manifest.relations, relation, None)
            stored = self.module.stored_rows(engine, str(self.state), relation, entries)
            names = ", ".join(column.sql for column in relation.columns)
            found[name] = answer(
                engine.connection, f"(SELECT {names} FROM ({stored})) AS t({', '.join(columns)})", columns
            )
        engine.connection.close()
        return found

    def published(self, step: Step) -> Answers:
        """The net changes published for a step: insertions less deletions."""
        return published_below(self.state / "published", step.batch, self.place.workload)


class DatabaseJob(FlintlogJob):
    """The compiled job whose state is one SQLite file. It reads CSV files, which are not measured to be written."""

    def __init__(self, place: Place, name: str = "database") -> None:
        """Compile the program."""
        super().__init__(place, name, ("--target", "database"))
        self.state = self.folder / "state.db"
        #: A copy of the state as ``init`` has left it.
        self.first_state = self.folder / "first.db"

    def run(self, step: Step) -> Outcome:
        """Do a step in a process of its own."""
        outcome = super().run(step)
        if step.name == "init":
            shutil.copy(self.state, self.first_state)
        return outcome

    def command(self, step: Step) -> tuple[str | Path, ...]:
        """The job's arguments for a step."""
        return tuple(
            as_csv(part) if isinstance(part, Path) and part.is_dir() else part for part in super().command(step)
        )

    def embedded(self, steps: Sequence[Step]) -> tuple[Run, list[Mapping[str, Any]]]:
        """Apply the batches of steps behind ``init`` in one process, to the state that ``init`` has left; the whole
        run, and what it says of each batch."""
        self.state = self.first_state
        changes = [self.place.changes(step) for step in steps]
        start = (sys.executable, HERE / "embedded.py", self.place.workload.source)
        measured = run((*start, self.state, *changes), self.place.log(None, "embedded"))
        return measured, [json.loads(line) for line in measured.output.splitlines()]

    def answers(self) -> Answers:
        """The answers as any client of SQLite reads them."""
        with closing(sqlite3.connect(self.state)) as connection:
            answers = self.place.workload.answers
            return {name: answer(connection, name, columns) for name, columns in answers.items()}

    def published(self, step: Step) -> Answers:
        """The net changes that the file has of a step: insertions less deletions."""
        found = {}
        with closing(sqlite3.connect(self.state)) as connection:
            for name, columns in self.place.workload.answers.items():
                commit = f"(SELECT number FROM _commits WHERE batch = '{step.batch}')"
                rows = f"(SELECT * FROM _changes_of_{name} WHERE _commit = {commit} AND _op = '{{}}')"
                inserted, deleted = (answer(connection, rows.format(sign), columns) for sign in "+-")
                found[name] = inserted - deleted
        return found


class InstalledJob(DatabaseJob):
    """The same job by ``flintlog job``, whose ``init`` reads Parquet, and may compute by columns."""

    def __init__(self, place: Place) -> None:
        """Compile the program."""
        super().__init__(place, "installed")

    def run(self, step: Step) -> Outcome:
        """Do a step in a process of its own."""
        command, *options = FlintlogJob.command(self, step)
        process = ("flintlog", "job", command, self.script, *options, "--json")
        measured = run(process, self.place.log(step, self.name))
        return Outcome(measured, last_object(measured)["seconds"], self.answers(), measured.processor)


def as_csv(folder: Path) -> Path:
    """Return a folder with the Parquet files of another one as CSV, which is made if it is not there."""
    made = folder.with_name(f"{folder.name}-csv")
    if not made.exists():
        made.mkdir()
        with database() as connection:
            for path in sorted(folder.glob("*.parquet")):
                connection.execute(f"COPY (FROM '{path}') TO '{made / path.stem}.csv' (FORMAT csv, HEADER)")
    return made


class Souffle:
    """All from scratch by a program that Soufflé compiles."""

    def __init__(self, place: Place) -> None:
        """Compile the program, for two threads."""
        self.place = place
        self.program = place.folder / "souffle"
        source = HERE / "souffle" / f"{place.workload.program}.dl"
        run(("souffle", "-j", "2", "-o", self.program, source), place.log(None, "souffle compile"))

    def run(self, step: Step) -> Outcome:
        """The answers after a step."""
        facts, out = self.place.folder / step.batch / "facts", self.place.folder / step.batch / "souffle"
        with database() as connection:
            for path in sorted(self.place.tables(step).glob("*.parquet")):
                facts.mkdir(exist_ok=True)
                target = facts / f"{path.stem}.facts"
                connection.execute(f"COPY (FROM '{path}') TO '{target}' (FORMAT csv, DELIMITER '\t', HEADER false)")
            out.mkdir(exist_ok=True)
            measured = run((self.program, "-j", "2", "-F", facts, "-D", out), self.place.log(step, "souffle"))
            answers = {}
            for name, columns in self.place.workload.answers.items():
                types = ", ".join(f"'{column}': 'BIGINT'" for column in columns)
                rows = f"read_csv('{out / name}.csv', delim = '\t', header = false, columns = {{{types}}})"
                answers[name] = answer(connection, rows, columns)
        return Outcome(measured, measured.seconds, answers, measured.processor)


class ByHand:
    """All from scratch by a loop over DataFrames."""

    def __init__(self, place: Place, limit: float) -> None:
        """``limit``: the seconds after which it is ended."""
        self.place, self.limit = place, limit

    def run(self, step: Step) -> Outcome:
        """The answers after a step; raises :class:`measure.OutOfTime`."""
        out = self.place.folder / step.batch / "by-hand"
        script, program = HERE / "hand_loops.py", self.place.workload.program
        command = (*spark_submit(), script, program, self.place.tables(step), out)
        measured = run(command, self.place.log(step, "by hand"), self.limit)
        with database() as connection:
            answers = {
                name: answer(connection, f"read_parquet('{out / name}/*.parquet')", columns)
                for name, columns in self.place.workload.answers.items()
            }
        return Outcome(measured, last_object(measured)["seconds"], answers, measured.processor)


def published_below(folder: Path, batch: str, workload: Workload) -> Answers:
    """What is published below a folder for a batch: insertions less deletions, per relation."""
    found = {}
    with database() as connection:
        for name, columns in workload.answers.items():
            found[name] = Answer(0, 0)
            files = folder / name / "changes" / f"batch={batch}" / "*.parquet"
            if files.parent.exists() and any(files.parent.glob("*.parquet")):
                rows = f"(FROM read_parquet('{files}') WHERE op = '{{}}')"
                inserted, deleted = (answer(connection, rows.format(sign), columns) for sign in "+-")
                found[name] = inserted - deleted
    return found


@contextmanager
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database in memory."""
    connection = duckdb.connect()
    try:
        yield connection
    finally:
        connection.close()


def last_object(measured: Run) -> dict[str, Any]:
    """The JSON object on the last line: ``spark-submit`` prints a job's lines of progress before it."""
    said: dict[str, Any] = json.loads(measured.output.splitlines()[-1])
    return said
