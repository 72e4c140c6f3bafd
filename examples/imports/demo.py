"""``make demo``: from a program to jobs, to views of real input, to two batches of changes, checked at the end.

The input is the import graph of the standard library of the running Python (``import_graph.py``), the program says
which modules are affected by a change of each module (``imports.dl``). First the views are in one SQLite file, to which
the first batch is applied. Then their state is moved to a folder, where a PySpark job of the same program applies the
last batch, on Spark. Everything is written below ``build/demo``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from import_graph import Batch, Edge, Graph, affected_by, batches, importers_of, standard_library, write
from rich.console import Console
from rich.markup import escape
from rich.table import Table

HERE = Path(__file__).parent
PROGRAM = HERE / "imports.dl"

WELL_KNOWN = ("json", "csv", "typing")
"""Modules whose numbers are always reported, as far as the running Python has them."""

SHOWN = 3
"""How many tuples of a change are shown."""

console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=110)


class StepFailed(Exception):
    """A step ended with an error; the message says which, and ends with the last lines it wrote."""


@dataclass(frozen=True)
class Demo:
    """The folders of one run, and the master that the last batch is submitted to."""

    folder: Path
    master: str
    library: Path | None = None

    target: str = "pyspark"

    @property
    def script(self) -> Path:
        """The compiled job."""
        return self.folder / self.target / "imports.py"

    @property
    def state(self) -> Path:
        """The job's state."""
        return self.folder / ("state" if self.target == "pyspark" else "imports.db")

    def job(self, title: str, *arguments: str | Path, on_spark: bool = False) -> list[dict[str, Any]]:
        """Run a command of the job, with ``spark-submit`` if it is to run on Spark, and return the JSON objects that it
        printed."""
        start = ["spark-submit", "--master", self.master] if on_spark else ["python"]
        printed = self.run(f"{self.target} {title}", [*start, self.script, *arguments, "--state", self.state])
        return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]

    def events(self, title: str) -> Path:
        """The file for a command's progress."""
        return self.folder / "logs" / f"{title.replace(' ', '-')}.events"

    def run(self, title: str, command: Sequence[str | Path]) -> str:
        """Run a command, show that it works and for how long; what it wrote on standard error stays in a log."""
        line = shlex.join(str(part) for part in command)
        console.print(f"  [dim]$ {escape(line)}", soft_wrap=True)
        events = self.events(title)
        events.parent.mkdir(parents=True, exist_ok=True)
        log, output = events.with_suffix(".log"), events.with_suffix(".out")
        start = time.perf_counter()
        with log.open("wb") as errors, output.open("wb") as out, console.status(f"{title} ...") as status:
            process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=errors)
            while process.poll() is None:
                time.sleep(0.1)
                status.update(f"{title}, {time.perf_counter() - start:.0f} s  [dim]{escape(_last_event(events))}")
        if process.returncode != 0:
            tail = (log.read_text(errors="replace") + output.read_text(errors="replace")).splitlines()[-15:]
            raise StepFailed(
                "\n".join([f"{title} failed with exit code {process.returncode}; all of it: {log}", *tail])
            )
        return output.read_text(encoding="utf-8")


def _last_event(events: Path) -> str:
    """The job's last line of progress."""
    lines = events.read_text(errors="replace").splitlines() if events.exists() else []
    return lines[-1] if lines else ""


class Report:
    """Collects how long each step took."""

    def __init__(self) -> None:
        """Without any step."""
        self.steps: list[tuple[str, float, float | None, str]] = []

    def step(self, title: str, work: Callable[[], tuple[Any, str]]) -> Any:
        """Do a step; ``work`` returns its result and a short text about it.

        A result that is a job's report says how many of the seconds were the job's own, without the start of Python and
        of spark-submit.
        """
        console.print(f"[bold]{len(self.steps) + 1}. {title}")
        start = time.perf_counter()
        result, found = work()
        seconds = time.perf_counter() - start
        own = result.get("seconds") if isinstance(result, dict) else None
        self.steps.append((title, seconds, own, found))
        console.print(f"  {found}  [dim]({seconds:.1f} s)")
        return result

    def table(self) -> Table:
        """All steps."""
        made = Table(title="Steps", title_justify="left", title_style="bold")
        made.add_column("step")
        made.add_column("seconds", justify="right")
        made.add_column("in the job", justify="right")
        made.add_column("result")
        for title, seconds, own, found in self.steps:
            made.add_row(title, f"{seconds:.1f}", "" if own is None else f"{own:.1f}", found)
        return made


def demonstrate(demo: Demo) -> None:
    """All steps, in order."""
    report = Report()
    graph: Graph = report.step("Read the import graph", lambda: _read(demo))
    edges = set(graph.edges)
    changes = batches(graph)
    file = replace(demo, target="database")
    report.step("Compile for database", lambda: _compile(file))
    rows = f"imports={demo.folder / 'imports.csv'}"
    report.step("Build the SQLite file (init)", lambda: _commit(file, "init", "--input", rows))
    applied = _maintain(file, changes[:-1], edges, report)
    report.step("Compile for pyspark", lambda: _compile(demo))
    report.step("Move the state to a folder", lambda: _move(demo, file))
    applied += _maintain(demo, changes[-1:], edges, report, " on Spark")
    for job, batch, done in applied:
        console.print()
        _print_batch(job, batch, done)
    console.print()
    console.print(report.table())
    for job in (file, demo):
        console.print(f"A job to read: {job.script}; its state: {job.state}")


def _maintain(
    demo: Demo, changes: Sequence[Batch], edges: set[Edge], report: Report, where: str = ""
) -> list[tuple[Demo, Batch, dict[str, Any]]]:
    """Apply batches to the state of a job and to ``edges``, verify it, and compare it with a search of these; the
    results of the batches."""
    applied: list[tuple[Demo, Batch, dict[str, Any]]] = []
    for batch in changes:
        folder = demo.folder / "batches" / batch.name
        work = partial(_commit, demo, "apply", "--changes", folder, "--batch", batch.name, on_spark=bool(where))
        applied.append((demo, batch, report.step(f"Apply batch {batch.name}{where}", work)))
        edges -= {*batch.deletions}
        edges |= {*batch.insertions}
    report.step("Recompute and compare (verify)", lambda: _verify(demo))
    _, adopted = changes[-1].insertions[-1]
    report.step("Compare with a search in Python", lambda: _search(demo, edges, adopted))
    return applied


def _read(demo: Demo) -> tuple[Graph, str]:
    with console.status("reading with ast ..."):
        graph = standard_library(demo.library)
        write(demo.folder, graph, batches(graph))
    of = f"Python {platform.python_version()}'s library"
    return graph, f"{of}: {len(graph.modules):,} modules, {len(graph.edges):,} imports"


def _compile(demo: Demo) -> tuple[None, str]:
    program, jobs = os.path.relpath(PROGRAM), str(demo.script.parent)
    demo.run(f"{demo.target} compile", ["flintlog", "compile", program, "--target", demo.target, "-o", jobs])
    lines = len(demo.script.read_text(encoding="utf-8").splitlines())
    return None, f"{demo.script}, {lines:,} lines"


def _commit(demo: Demo, command: str, *options: str | Path, on_spark: bool = False) -> tuple[dict[str, Any], str]:
    title = command if command == "init" else f"{command} {options[-1]}"
    (done,) = demo.job(
        title, command, *options, "--json", "--log", demo.events(f"{demo.target} {title}"), on_spark=on_spark
    )
    rows = ", ".join(f"{name} {count:,}" for name, count in done["rows"].items())
    return done, rows


def _move(demo: Demo, former: Demo) -> tuple[dict[str, Any], str]:
    """Make the state of a job from that of another."""
    places: list[str | Path] = ["--state", demo.state, "--from", former.state]
    printed = demo.run("move", ["flintlog", "job", "move", demo.script, *places, "--quiet", "--json"])
    done: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return done, f"commits {done['kept_from']} to {done['commit']}"


def _verify(demo: Demo) -> tuple[dict[str, Any], str]:
    (done,) = demo.job("verify", "verify", "--json", "--log", demo.events(f"{demo.target} verify"))
    if done["differences"]:
        raise StepFailed(f"verify found {len(done['differences'])} differences")
    return done, f"{sum(done['rows'].values()):,} tuples compared, no difference"


def _search(demo: Demo, edges: Iterable[Edge], module: str) -> tuple[None, str]:
    """Compare what is affected by one module, and the number for each module, with a breadth-first search."""
    importers = importers_of(edges)
    rows_at = demo.job(f"show {module}", "show", "affected", "--at", module, "--format", "json")
    _compare({row["affected"] for row in rows_at}, affected_by(importers, module), f"affected by {module}")
    rows = demo.job("show all", "show", "blast_radius", "--format", "json")
    shown = {row["module"]: row["modules"] for row in rows}
    with console.status("searching the graph from every module ..."):
        modules = sorted({module for edge in edges for module in edge})
        found = {module: len(affected) for module in modules if (affected := affected_by(importers, module))}
    _compare(set(shown.items()), set(found.items()), "the number of modules affected by each module")
    at = f"{len(rows_at):,} modules affected by {module}"
    return None, f"the same {at}, and as many by each of {len(modules):,} modules"


def _compare(shown: set[Any], found: set[Any], what: str) -> None:
    if shown != found:
        differing = sorted(shown ^ found)[:SHOWN]
        raise StepFailed(f"{what}: the job and the search differ in {len(shown ^ found)} places, first {differing}")


def _print_batch(demo: Demo, batch: Batch, done: dict[str, Any]) -> None:
    """What a batch changed in the views, by the job's counts and by the changes themselves."""
    console.print(f"[bold]Batch {batch.name}[/]: {batch.story}")
    counts = Table("relation", "inserted", "deleted")
    for column in counts.columns[1:]:
        column.justify = "right"
    for name, change in done["changes"].items():
        counts.add_row(name, f"{change['inserted']:,}", f"{change['deleted']:,}")
    console.print(counts)
    affected = _changes(demo, done, "affected")
    modules = _radius(_changes(demo, done, "blast_radius"), batch)
    if modules:
        radius = Table("a change of", "affected", "and now", "for example")
        for column in radius.columns[1:3]:
            column.justify = "right"
        for module, before, after in modules:
            radius.add_row(module, f"{before:,}", f"{after:,}", ", ".join(_examples(affected, module)))
        console.print(radius)


Change = tuple[str, str, Any]
"""``+`` or ``-``, a module, and a module that it affects or their number."""


def _radius(changes: Iterable[Change], batch: Batch) -> list[tuple[str, int, int]]:
    """Of the batch's own and the well-known modules those that changed, with the number affected before and after."""
    before, after = ({module: modules for op, module, modules in changes if op == sign} for sign in "-+")
    own = [imported for _, imported in (*batch.deletions, *batch.insertions)]
    wanted = dict.fromkeys([*own, *WELL_KNOWN])
    return [(name, before.get(name, 0), after.get(name, 0)) for name in wanted if name in {*before, *after}]


def _examples(changes: Iterable[Change], module: str) -> list[str]:
    """Some of the tuples that came or went at a module: the shortest names, which are the best known."""
    found = sorted((len(affected), affected, op) for op, name, affected in changes if name == module)
    return [op + affected for _, affected, op in found[:SHOWN]]


def _changes(demo: Demo, done: dict[str, Any], relation: str) -> list[Change]:
    """How a batch has changed a relation: what the file keeps, or what the job has published."""
    if demo.target == "database":
        with contextlib.closing(sqlite3.connect(demo.state)) as connection:
            of = f"SELECT * FROM _changes_of_{relation} WHERE _commit = ?"
            return [change for _, *change in connection.execute(of, (done["commit"],))]
    if relation not in done["published"]:
        return []
    pattern = str(Path(done["published"][relation]) / "*.parquet").replace("'", "''")
    return duckdb.execute(f"SELECT * FROM read_parquet('{pattern}', hive_partitioning = false)").fetchall()


def main() -> int:
    """Empty the folder and demonstrate."""
    parser = argparse.ArgumentParser(description="Compile, build, change and verify the views of an import graph.")
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="where everything is written")
    parser.add_argument("--library", type=Path, help="library to read instead of the running Python's")
    parser.add_argument("--master", default="local[*]", help="where Spark runs the last batch")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    try:
        demonstrate(Demo(options.folder, options.master, options.library))
    except (StepFailed, FileNotFoundError) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
