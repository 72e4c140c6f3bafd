"""Measure Flintlog's jobs against a recursive query in DuckDB and a loop written by hand; ``make bench`` runs this.

Two graphs (see ``workloads.py``), their transitive closure, and three steps each: ``init``, then two batches of
changes. Contenders:

* ``flintlog``: the compiled job through ``spark-submit``, which keeps the closure up to date;
* ``in session``: the same job, imported and called in one warm Spark session for all steps, without the start of Spark;
* ``duckdb``: the whole closure by a recursive query, from scratch after each step;
* ``by hand``: the loop of ``hand_loop.py`` through ``spark-submit``, from scratch, for ``init`` only: later steps
  would take it as long again.

Each measurement is a process of its own and gets two threads: wall-clock seconds from its start to its end, the seconds
it says its own work took (without the start of Python, the JVM and Spark), the peak memory of its process tree, and
the rows of the closure. After each step the rows and a checksum of what Flintlog stores must be those of DuckDB's
closure, and those of the changes it published must be the difference to the step before.

The compiler is measured too, on a program of 100 rules: the fastest of three runs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
from duckdb_cte import CHECKSUM
from measure import CommandFailed, Run, machine, run
from rich.console import Console
from rich.table import Table
from workloads import (
    GRAPHS,
    PROGRAM,
    QUICK_GRAPHS,
    Graph,
    Step,
    program_of_rules,
    steps,
    write_changes,
    write_links,
)

HERE = Path(__file__).parent
RULES = 100
CONTENDERS = ("flintlog", "in session", "duckdb", "by hand", "compiler")
SPARK_SUBMIT = ("spark-submit", "--master", "local[2]", "--driver-memory", "4g")

console = Console() if sys.stdout.isatty() else Console(width=120)


@dataclass(frozen=True)
class Result:
    """One measurement; ``job_seconds`` is what the process says its own work took, if it says."""

    workload: str
    contender: str
    step: str
    seconds: float
    job_seconds: float | None
    peak_mb: float
    rows: int


@dataclass(frozen=True)
class Closure:
    """What identifies a closure: its rows and the sum of ``duckdb_cte.CHECKSUM``."""

    rows: int
    checksum: int


class WrongAnswer(Exception):
    """A contender's closure is not that of DuckDB."""


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is being measured, with a clock that runs on a terminal."""
    with console.status(f"{what} ..."):
        yield


class Bench:
    """Runs the measurements of one invocation and collects their results."""

    def __init__(self, folder: Path, contenders: tuple[str, ...]) -> None:
        """``folder`` is written to, in a folder for each graph that is emptied first."""
        self.folder = folder
        self.contenders = contenders
        self.results: list[Result] = []

    def graph(self, graph: Graph) -> None:
        """Measure all contenders on one graph."""
        console.print(f"[bold]{graph.title}")
        folder = self.folder / graph.name
        shutil.rmtree(folder, ignore_errors=True)
        flintlog = FlintlogJob(folder) if "flintlog" in self.contenders else None
        before = None
        for step in steps(graph):
            links = folder / _batch(step) / "link.parquet"
            write_links(links, step.links)
            expected = self._duckdb(graph, step, links)
            if flintlog is not None:
                self._flintlog(graph, step, links, flintlog, expected, before)
            if graph.by_hand and step.name == "init" and "by hand" in self.contenders:
                self._by_hand(graph, step, links, expected)
            before = expected
        if "in session" in self.contenders:
            self._in_session(graph, folder)

    def compile_time(self) -> None:
        """Measure the compiler on a program of :data:`RULES` rules, with and without formatting."""
        workload = f"compile {RULES} rules"
        console.print(f"[bold]{workload}")
        program = self.folder / "rules.dl"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(program_of_rules(RULES), encoding="utf-8")
        for step, options in (("formatted", ()), ("--no-format", ("--no-format",))):
            command = ("flintlog", "compile", program, "-o", self.folder / "jobs", *options)
            with working(step):
                measured = min(
                    (run(command, self.folder / "compile.log") for _ in range(3)), key=lambda one: one.seconds
                )
            self._add(Result(workload, "compiler", step, measured.seconds, None, measured.peak_mb, RULES))

    def _duckdb(self, graph: Graph, step: Step, links: Path) -> Closure:
        command = (sys.executable, HERE / "duckdb_cte.py", links)
        with working(f"{graph.name}, {step.name}: duckdb"):
            measured = run(command, links.with_name("duckdb.log"))
        said = _last_object(measured)
        if "duckdb" in self.contenders:
            self._add(_result(graph, "duckdb", step, measured, said["seconds"], said["rows"]))
        return Closure(said["rows"], said["checksum"])

    def _flintlog(
        self, graph: Graph, step: Step, links: Path, job: FlintlogJob, expected: Closure, before: Closure | None
    ) -> None:
        with working(f"{graph.name}, {step.name}: flintlog"):
            measured, job_seconds = job.run(step, links)
        with working(f"{graph.name}, {step.name}: comparing the closures"):
            found = job.closure()
            _compare(found, expected, f"flintlog, {graph.name}, {step.name}")
            if before is not None:
                changed = Closure(expected.rows - before.rows, expected.checksum - before.checksum)
                _compare(job.published(step), changed, f"flintlog, {graph.name}, changes of {step.name}")
        self._add(_result(graph, "flintlog", step, measured, job_seconds, found.rows))

    def _in_session(self, graph: Graph, folder: Path) -> None:
        job = FlintlogJob(folder / "in-session")
        made = list(steps(graph))
        links = folder / _batch(made[0]) / "link.parquet"
        changes = [folder / "in-session" / f"{_batch(step)}.parquet" for step in made[1:]]
        for step, path in zip(made[1:], changes, strict=True):
            write_changes(path, step)
        command: list[str | Path] = [*SPARK_SUBMIT, HERE / "in_session.py", job.script, job.state, links, *changes]
        with working(f"{graph.name}, all steps: in session"):
            measured = run(command, folder / "in-session" / "log")
        with working(f"{graph.name}, all steps: comparing the closures"):
            final = folder / _batch(made[-1]) / "link.parquet"
            expected = _last_object(run((sys.executable, HERE / "duckdb_cte.py", final), folder / "duckdb.log"))
            closure = Closure(expected["rows"], expected["checksum"])
            _compare(job.closure(), closure, f"in session, {graph.name}, last step")
        for step, line in zip(made, measured.output.splitlines()[-len(made) :], strict=True):
            said = json.loads(line)
            seconds = said["seconds"]
            self._add(Result(graph.name, "in session", step.name, seconds, seconds, measured.peak_mb, said["rows"]))

    def _by_hand(self, graph: Graph, step: Step, links: Path, expected: Closure) -> None:
        out = links.with_name("by-hand")
        with working(f"{graph.name}, {step.name}: by hand"):
            measured = run((*SPARK_SUBMIT, HERE / "hand_loop.py", links, out), links.with_name("by-hand.log"))
        said = _last_object(measured)
        found = checksum(f"read_parquet('{out}/*.parquet')")
        _compare(found, expected, f"by hand, {graph.name}, {step.name}")
        self._add(_result(graph, "by hand", step, measured, said["seconds"], found.rows))

    def _add(self, result: Result) -> None:
        self.results.append(result)
        console.print(
            f"  {result.contender:10} {result.step:13} {result.seconds:8.2f} s"
            f" {_seconds(result.job_seconds):>8} {result.peak_mb:8,.0f} MB {result.rows:12,} rows"
        )


class FlintlogJob:
    """The compiled closure and its state below one folder."""

    def __init__(self, folder: Path) -> None:
        """Write the program below ``folder`` and compile it."""
        self.state = folder / "state"
        self.folder = folder
        program = folder / "closure.dl"
        folder.mkdir(parents=True)
        program.write_text(PROGRAM, encoding="utf-8")
        run(("flintlog", "compile", program, "-o", folder / "jobs"), folder / "compile.log")
        self.script = folder / "jobs" / "closure.py"

    def run(self, step: Step, links: Path) -> tuple[Run, float | None]:
        """Do a step; the measurement, and the seconds that the job reports."""
        if step.name == "init":
            arguments: list[str | Path] = ["init", "--state", self.state, "--input", f"link={links}"]
        else:
            changes = links.with_name("changes") / "link.parquet"
            write_changes(changes, step)
            arguments = ["apply", "--state", self.state, "--changes", changes.parent, "--batch", _batch(step)]
        measured = run((*SPARK_SUBMIT, self.script, *arguments, "--json"), links.with_name("flintlog.log"))
        return measured, _last_object(measured)["seconds"]

    def closure(self) -> Closure:
        """The closure as it is stored."""
        reader = (*SPARK_SUBMIT, HERE / "stored_closure.py", self.script, self.state, "reachable")
        said = _last_object(run(reader, self.folder / "stored_closure.log"))
        return Closure(said["rows"], said["checksum"])

    def published(self, step: Step) -> Closure:
        """The net changes published for a step: insertions less deletions."""
        folder = self.state / "published" / "reachable" / "changes" / f"batch={_batch(step)}"
        if not folder.exists():
            return Closure(0, 0)
        inserted = checksum(f"(FROM read_parquet('{folder}/*.parquet') WHERE op = '+')")
        deleted = checksum(f"(FROM read_parquet('{folder}/*.parquet') WHERE op = '-')")
        return Closure(inserted.rows - deleted.rows, inserted.checksum - deleted.checksum)


def _last_object(measured: Run) -> dict[str, Any]:
    """The JSON object on the last line: ``spark-submit`` prints a job's lines of progress before it."""
    said: dict[str, Any] = json.loads(measured.output.splitlines()[-1])
    return said


def _batch(step: Step) -> str:
    return step.name.replace(" ", "-").replace("-%", "")


def checksum(relation: str) -> Closure:
    """Rows and checksum of a table expression of DuckDB."""
    row = duckdb.connect().execute(CHECKSUM.format(relation=relation)).fetchone()
    assert row is not None
    return Closure(row[0], int(row[1]))


def _compare(found: Closure, expected: Closure, what: str) -> None:
    if found != expected:
        raise WrongAnswer(f"{what}: {found}, but DuckDB finds {expected}")


def _result(graph: Graph, contender: str, step: Step, measured: Run, job: float | None, rows: int) -> Result:
    return Result(graph.name, contender, step.name, measured.seconds, job, measured.peak_mb, rows)


def table(title: str, results: list[Result]) -> Table:
    """The results of one workload; ratios are to Flintlog's for the step, of all seconds and of those in the job, and
    of the latter to the contender's ``init``."""
    made = Table(title=title, title_justify="left", title_style="bold")
    made.add_column("step")
    made.add_column("contender")
    headings = ("seconds", "to flintlog's", "in the job", "to flintlog's", "to its own init", "peak MB", "rows")
    for heading in headings:
        made.add_column(heading, justify="right")
    ours = {one.step: one for one in results if one.contender == "flintlog"}
    inits = {one.contender: one for one in results if one.step == "init"}
    order = list(dict.fromkeys(one.step for one in results))
    step = None
    for one in sorted(results, key=lambda one: order.index(one.step)):
        if step not in (None, one.step):
            made.add_section()
        made.add_row(
            one.step if one.step != step else "",
            one.contender,
            f"{one.seconds:.2f}",
            _ratio(one.seconds, ours[one.step].seconds if one.step in ours else None),
            _seconds(one.job_seconds),
            _ratio(one.job_seconds, ours[one.step].job_seconds if one.step in ours else None),
            _ratio(one.job_seconds, inits[one.contender].job_seconds if one.contender in inits else None),
            f"{one.peak_mb:,.0f}",
            f"{one.rows:,}",
        )
        step = one.step
    return made


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _ratio(seconds: float | None, reference: float | None) -> str:
    return "" if seconds is None or reference is None else f"{seconds / reference:.2f} x"


def main() -> int:
    """Measure, print a table and write the results."""
    parser = argparse.ArgumentParser(description="Measure Flintlog's jobs against DuckDB and a loop written by hand.")
    names = [*(graph.name for graph in GRAPHS), "compile"]
    parser.add_argument("--quick", action="store_true", help="small graphs, to see that everything runs")
    parser.add_argument("--workload", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="only this one; may be repeated")
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where graphs and states go")
    parser.add_argument("--results", type=Path, help="default benchmarks/results.json; with --quick in --folder")
    options = parser.parse_args()
    chosen = options.workload or names
    graphs = QUICK_GRAPHS if options.quick else GRAPHS
    results = options.results or (options.folder if options.quick else HERE) / "results.json"
    bench = Bench(options.folder, tuple(options.contender or CONTENDERS))
    size = machine()
    console.print(f"{size['cores']} cores, {size['memory_mb']:,} MB of memory; every contender gets two threads")
    try:
        for graph in graphs:
            if graph.name in chosen:
                bench.graph(graph)
        if "compile" in chosen and "compiler" in bench.contenders:
            bench.compile_time()
    except (CommandFailed, WrongAnswer, FileNotFoundError) as error:
        console.print(f"error: {error}", style="red", markup=False)
        return 1
    titles = {graph.name: graph.title for graph in graphs}
    for workload in dict.fromkeys(one.workload for one in bench.results):
        own = [one for one in bench.results if one.workload == workload]
        console.print()
        console.print(table(titles.get(workload, workload), own))
    measured = {"machine": size, "quick": options.quick, "results": [asdict(one) for one in bench.results]}
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
    console.print(f"written to {results}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
