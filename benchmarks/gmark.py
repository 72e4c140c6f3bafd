"""Check and measure Regular Datalog workloads: gMark graphs, path queries, updates; ``make gmark`` runs this.

The graphs, queries, updates and expected answers are generated (``graphs/``) into ``build/gmark-data``, unless they are
there already; ``--data`` names a folder with other data of the same layout.

A workload's queries are one program and one job, which shares what they have in common. For every scenario the job
builds its state from the base graph and applies the batches; after each step the size and the checksum of every answer,
and of what was published as having appeared and disappeared, must be the expected ones. Recomputation is the same job
building its state from the graph behind the batch; it must come to the same.

Where the answers are not known, each query is first tried alone: those whose answers are too large or take too long
(``trial.py`` has the limits) are left out and named.

The tables are those of Bonifati et al. 2018, section 5: the average time per view of incremental maintenance (IVM)
against full recomputation (FVM) for updates that insert all edges of some symbols, beside the paper's own gains; then
deletions of symbols, which the paper recomputes, and batches of edges, half of them deletions. Jobs run in this
process. Both ways begin with nothing in memory: a batch reads the files of the state, recomputation those of the graph.
Times of views are those of the job's tasks, which read, evaluate and write; what is done around them is the same for
both. Another table compares the processor seconds of whole batches, for each workload and over all seeds, with those
of recomputation. ``--document`` also writes the results to ``gmark.json`` and the tables to ``docs/performance.md``.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import duckdb
from flintlog.compiler import CompileOptions, compile_source
from graphs.files import ensure
from in_session import load_job
from report import Grid, write_document
from rich.console import Console
from trial import excess

HERE = Path(__file__).parent
RESULTS = HERE / "gmark.json"
DOCUMENT = HERE.parent / "docs" / "performance.md"
GENERATED = Path("build/gmark-data")
PAPER_SEED = 1
"""The seed of the results beside the paper's."""

MOST_RATIO, MOST_MORE = 1.2, 0.1
"""A batch takes at most this multiple of the processor seconds of recomputation, plus these seconds."""
DATASETS = ("wd-1k", "snb-1k", "wdd-1k", "snb-10k")
QUICK = ("wd-1k", "snb-1k", "wdd-1k")
WORKLOADS = ("rd", "rec", "nav")
SUPPORTS = ("0.05", "0.10", "0.15", "0.20", "0.25")
SAMPLE = (*(f"sym-{support}" for support in SUPPORTS), "symq-0.10", "symdel-0.10", "edgeq-1pct")
PAPER = {
    "wd": ((558.7, 484.75), (561.89, 472.7), (562.67, 475.96), (562.13, 476.4), (563.4, 482.64)),
    "snb": ((18.75, 10.88), (17.77, 10.55), (17.55, 11.68), (17.17, 11.71), (14.71, 11.0)),
}
"""Milliseconds of full recomputation and of incremental maintenance per view, by support (tables 1 and 2 of the
paper)."""

CHECKSUM = """
SELECT COUNT(*), COALESCE(SUM((h * h + a) % 2147483647), 0)::BIGINT FROM (
    SELECT a, (a * 48271 + 12345) % 2147483647 AS h FROM (
        SELECT (((c0 + 1) % 2147483647) * 1000003 + c1 + 1) % 2147483647 AS a FROM ({pairs}) AS q(c0, c1)))
"""

console = Console() if sys.stdout.isatty() else Console(width=140)

Answer = tuple[int, int]
"""The number of tuples and their checksum."""


@dataclass(frozen=True)
class Measurement:
    """Seconds of one step of one job: in its tasks, in all, and of the processor, if these were measured."""

    seed: int
    dataset: str
    workload: str
    scenario: str
    step: str
    views: int
    task_seconds: float
    seconds: float
    processor: float | None


@dataclass(frozen=True)
class Dataset:
    """A graph of a seed with its scenarios and expected answers."""

    seed: int
    name: str
    root: Path

    @property
    def schema(self) -> str:
        """The schema, and so the workloads, it belongs to."""
        return {"wdd": "wd"}.get(self.name.split("-")[0], self.name.split("-")[0])

    @property
    def scenarios(self) -> list[str]:
        """The names of its scenarios."""
        return sorted(path.name for path in (self.root / "scenarios").iterdir())

    @property
    def has_answers(self) -> bool:
        """Whether there are expected answers."""
        return (self.root / "expected").is_dir()

    def expected(self, workload: str) -> dict[tuple[str, str, int], dict[str, Answer]]:
        """By query, scenario and batch: the answer (``""``), what appears (``ins_``) and disappears (``del_``)."""
        found: dict[tuple[str, str, int], dict[str, Answer]] = {}
        with gzip.open(self.root / "expected" / f"{workload}.csv.gz", "rt", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                if row["sem"] == "node":
                    found[row["query"], row["scenario"], int(row["batch"])] = {
                        kind: (int(row[f"{kind}card"]), int(row[f"{kind}checksum"]))
                        for kind in ("", "ins_", "del_")
                        if row[f"{kind}card"]
                    }
        return found


class Graphs:
    """The graph of a dataset as it is after each batch of a scenario, in a database of its own."""

    def __init__(self, dataset: Dataset, folder: Path) -> None:
        """Read the whole graph; files go to ``folder``."""
        self.dataset, self.folder = dataset, folder
        self.database = duckdb.connect()
        self.database.execute("CREATE TABLE whole (pred VARCHAR, src BIGINT, dst BIGINT)")
        for path in sorted((dataset.root / "full").iterdir()):
            predicate = path.name.split(".")[0]
            rows = f"read_parquet('{path}')"
            if path.suffix != ".parquet":
                rows = f"read_csv('{path}', header = false, sep = '\t', columns = {{src: 'BIGINT', dst: 'BIGINT'}})"
            self.database.execute(f"INSERT INTO whole SELECT '{predicate}', src, dst FROM {rows}")
        self.last_node = max(
            int(line.split("\t")[3])
            for line in (dataset.root / "nodes.tsv").read_text(encoding="utf-8").splitlines()[1:]
        )

    def batches(self, scenario: str) -> int:
        """Prepare tables base, and changes1, changes2, ... (op, pred, src, dst); returns how many there are."""
        database, place = self.database, self.dataset.root / "scenarios" / scenario
        known = json.loads((place / "scenario.json").read_text(encoding="utf-8"))
        if "symbols" in known:
            symbols = ", ".join(f"'{symbol}'" for symbol in known["symbols"])
            deletes = known["kind"] == "symdel"
            rest = "" if deletes else f" WHERE pred NOT IN ({symbols})"
            database.execute(f"CREATE OR REPLACE TABLE base AS SELECT * FROM whole{rest}")
            database.execute(
                f"CREATE OR REPLACE TABLE changes1 AS SELECT '{'-' if deletes else '+'}' AS op, pred, src, dst "
                f"FROM whole WHERE pred IN ({symbols})"
            )
            return 1
        files = ["withheld.tsv.gz", *(batch["file"] for batch in known["batches"])]
        for number, name in enumerate(files):
            database.execute(
                f"CREATE OR REPLACE TABLE changes{number} AS SELECT * FROM read_csv('{place / name}', header = false, "
                "sep = '\t', columns = {op: 'VARCHAR', pred: 'VARCHAR', src: 'BIGINT', dst: 'BIGINT'})"
            )
        database.execute(
            "CREATE OR REPLACE TABLE base AS SELECT * FROM whole ANTI JOIN changes0 USING (pred, src, dst)"
        )
        return len(files) - 1

    def write(self, table: str, relations: Iterable[str], name: str) -> dict[str, str]:
        """Write the rows of a table to a file per relation; returns the files."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        columns = "op, src, dst" if table.startswith("changes") else "src, dst"
        files = {}
        for relation in relations:
            rows = f"SELECT {columns} FROM {table} WHERE pred = '{relation}'"
            if relation == "node":
                rows = f"SELECT range AS id FROM range({self.last_node + 1})"
            files[relation] = str(folder / f"{relation}.parquet")
            self.database.execute(f"COPY ({rows}) TO '{files[relation]}' (FORMAT parquet)")
        return files

    def changed(self, number: int, relations: Iterable[str]) -> list[str]:
        """The relations among ``relations`` that a batch changes."""
        rows = self.database.execute(f"SELECT DISTINCT pred FROM changes{number}").fetchall()
        return sorted({name for (name,) in rows} & set(relations))

    def after(self, number: int) -> str:
        """Make and name the table of the graph after a batch."""
        self.database.execute(
            f"CREATE OR REPLACE TABLE after AS (SELECT pred, src, dst FROM {'base' if number == 1 else 'after'} "
            f"EXCEPT SELECT pred, src, dst FROM changes{number} WHERE op = '-') "
            f"UNION SELECT pred, src, dst FROM changes{number} WHERE op = '+'"
        )
        return "after"


class Workload:
    """A workload on a dataset: its job, and what came of it."""

    def __init__(self, dataset: Dataset, name: str, graphs: Graphs, folder: Path, engine: str = "auto") -> None:
        """Compile the queries to one job, which ``engine`` evaluates: if their answers are not known, those that stay
        within the limits of a trial. ``left_out`` says of each other one why."""
        self.dataset, self.name, self.graphs, self.engine = dataset, name, graphs, engine
        self.folder = folder / f"{dataset.name}-{name}"
        paths = query_files(dataset, name)
        self.left_out = {} if dataset.has_answers else tried(dataset, name, graphs, paths, folder)
        self.job = compiled(dataset, name, [path for path in paths if path.stem not in self.left_out], folder)
        self.inputs = [relation.name for relation in self.job.PROGRAM.relations if relation.kind == "input"]
        self.queries = [relation.name for relation in self.job.PROGRAM.relations if relation.output]
        self.expected = dataset.expected(name) if dataset.has_answers else {}
        self.measured: list[Measurement] = []
        self.compared = 0
        self.mismatches: list[str] = []

    @cached_property
    def whole(self) -> dict[str, str]:
        """The files of the whole graph."""
        return self.graphs.write("whole", self.inputs, "whole")

    def run(self, scenario: str, repeat: int) -> None:
        """Build the base state, apply the batches, recompute behind them, and compare everything. Both are done
        ``repeat`` times, in turn, each time from the state before the batch."""
        number = self.graphs.batches(scenario)
        deletes = scenario.startswith("symdel")
        base = self.whole if deletes else self.graphs.write("base", self.inputs, "base")
        state, before = self.folder / "state", self.folder / "before"
        self.build(base, scenario, "init", state)
        self.compare(scenario, 0, state)
        for batch in range(1, number + 1):
            changed = self.graphs.changed(batch, self.inputs)
            changes = self.graphs.write(f"changes{batch}", changed, "changes")
            after = self.whole
            if scenario.startswith(("edge", "symdel")):
                after = self.graphs.write(self.graphs.after(batch), self.inputs, "after")
            shutil.rmtree(before, ignore_errors=True)
            shutil.copytree(state, before)
            for _ in range(repeat):
                shutil.rmtree(state)
                shutil.copytree(before, state)
                options = {"batch": str(batch), "engine": self.engine, "log": self.job.Log(quiet=True)}
                result = self.measure(scenario, f"apply {batch}", self.job.apply, str(state), changes, **options)
                self.compare(scenario, batch, state, result["published"])
                self.build(after, scenario, f"rebuild {batch}", self.folder / "rebuilt")
                self.compare(scenario, batch, self.folder / "rebuilt")

    def build(self, files: dict[str, str], scenario: str, step: str, state: Path) -> None:
        """Build a state from nothing."""
        shutil.rmtree(state, ignore_errors=True)
        options = {"buckets": 1, "engine": self.engine, "log": self.job.Log(quiet=True)}
        self.measure(scenario, step, self.job.init, str(state), files, **options)

    def measure(self, scenario: str, step: str, command: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Run a command of the job, with nothing kept in memory, note its seconds and return its result."""
        started = time.process_time()
        result: dict[str, Any] = command(None, *arguments, **options)
        processor = time.process_time() - started
        tasks = sum(max(task["seconds"] for task in step["tasks"]) for step in result["steps"])
        seconds = (round(tasks, 3), round(result["seconds"], 3), round(processor, 3))
        dataset = self.dataset
        self.measured.append(
            Measurement(dataset.seed, dataset.name, self.name, scenario, step, len(self.queries), *seconds)
        )
        return result

    def compare(self, scenario: str, batch: int, state: Path, published: dict[str, str] | None = None) -> None:
        """Compare every answer, and what was published, with what is expected."""
        manifest = self.job.read_state(state)
        engine = self.job.DuckEngine(state=str(state))
        for query in self.queries:
            relation = self.job.PROGRAM.relation(query)
            entries = self.job.bucket_files(manifest.relations, relation, None)
            columns = self.job.names(relation.tuple_columns)
            stored = self.job.stored_rows(engine, str(state), relation, entries)
            found = {"": answer(engine.connection, f"SELECT {columns} FROM ({stored})")}
            for kind, sign in (("ins_", "+"), ("del_", "-")) if published is not None else ():
                folder = (published or {}).get(query)
                rows = f"FROM read_parquet('{folder}/*.parquet', hive_partitioning = false) WHERE op = '{sign}'"
                there = folder is not None and any(Path(folder).glob("*.parquet"))
                names = ", ".join(column.sql for column in relation.columns)
                found[kind] = answer(engine.connection, f"SELECT {names} {rows}") if there else (0, 0)
            if not self.dataset.has_answers and (query, scenario, batch) not in self.expected:
                # What the job finds when it builds the state behind the batch will have to be the same.
                self.expected[query, scenario, batch] = found
                continue
            expected = self.expected[query, scenario, batch]
            for kind, value in found.items():
                self.compared += 1
                if value != expected[kind]:
                    self.mismatches.append(
                        f"{self.dataset.name} {self.name} {query} {scenario} batch {batch} {kind or 'whole'}: "
                        f"{value}, expected {expected[kind]}"
                    )


def query_files(dataset: Dataset, workload: str) -> list[Path]:
    """The programs of a workload's queries, by number."""
    folder = dataset.root.parent / "workloads" / dataset.schema / workload / "paths"
    return sorted(folder.glob("q*.dl"), key=lambda path: int(path.stem[1:]))


def tried(dataset: Dataset, workload: str, graphs: Graphs, queries: Sequence[Path], folder: Path) -> dict[str, str]:
    """Evaluate each query alone on the whole graph; return by query which limit it exceeds."""
    found = {}
    for query in queries:
        place = folder / "trial"
        job = compiled(dataset, workload, [query], place)
        inputs = [relation.name for relation in job.PROGRAM.relations if relation.kind == "input"]
        found[query.stem] = excess(Path(job.__file__ or ""), graphs.write("whole", inputs, "whole"))
        shutil.rmtree(place)
    return {query: reason for query, reason in found.items() if reason}


def compiled(dataset: Dataset, workload: str, queries: Iterable[Path], folder: Path) -> ModuleType:
    """The job of some of a workload's queries."""
    declarations: dict[str, None] = {}
    rules: list[str] = []
    for path in queries:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(("input ", "domain ")):
                declarations[line] = None
            elif not line.startswith("//"):
                rules.append(line)
    name = f"gmark_{dataset.schema}_{workload}"
    source = folder / "jobs" / f"{name}.dl"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("\n".join([*declarations, *rules]) + "\n", encoding="utf-8")
    for file, text in compile_source(source, CompileOptions(parts=("matrices",))).files.items():
        (source.parent / file).write_text(text, encoding="utf-8")
    return load_job(source.with_suffix(".py"))


def answer(database: duckdb.DuckDBPyConnection, pairs: str) -> Answer:
    """The size and the checksum of a query's pairs."""
    row = database.execute(CHECKSUM.format(pairs=pairs)).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


# ---- tables --------------------------------------------------------------------------------------------------------


def tables(measured: list[Measurement], datasets: Iterable[str]) -> Iterator[Grid]:
    """The times for every dataset and kind of scenario."""
    titles = {
        "sym": "insertions of symbols",
        "symq": "insertions of symbols that the queries use",
        "symdel": "deletions of symbols that the queries use, which the paper recomputes",
        "edge": "batches of edges, half of them deletions",
        "edgeq": "batches of edges of symbols that the queries use, half of them deletions",
    }
    for dataset in datasets:
        for kind, title in titles.items():
            mine = [one for one in measured if one.dataset == dataset and one.scenario.split("-")[0] == kind]
            if mine:
                headings = ("update", "FVM ms", "IVM ms", "gain ms", "gain", "job FVM ms", "job IVM ms")
                yield Grid(f"gmark {dataset} {kind}", f"{dataset}: {title}", headings, list(rows(mine)))


def rows(measured: list[Measurement]) -> Iterator[tuple[str, ...]]:
    """Milliseconds per view of one kind of scenarios, by the size of the update."""
    for size in sorted({one.scenario.split("-", 1)[1] for one in measured}):
        full, step = times([one for one in measured if one.scenario.split("-", 1)[1] == size])
        yield (size, *gains(full[0], step[0]), f"{full[1]:.0f}", f"{step[1]:.0f}")


def gains(full: float, step: float) -> tuple[str, str, str, str]:
    """Milliseconds of recomputation and of maintenance, and what maintenance gains."""
    return f"{full:.1f}", f"{step:.1f}", f"{full - step:.1f}", f"{100 - 100 * step / full:.1f} %"


def side_by_side(measured: list[Measurement]) -> Grid:
    """The tables of the paper beside ours: insertions of shares of all symbols into graphs of 1k nodes."""
    made = []
    for schema, numbers in PAPER.items():
        for support, theirs in zip(SUPPORTS, numbers, strict=True):
            subject = (PAPER_SEED, f"{schema}-1k", f"sym-{support}")
            mine = [one for one in measured if (one.seed, one.dataset, one.scenario) == subject]
            if mine:
                full, step = times(mine)
                ours = gains(full[0], step[0])
                made.append((schema if support == SUPPORTS[0] else "", support, *gains(*theirs), *ours))
    columns = ("FVM ms", "IVM ms", "gain ms", "gain")
    headings = ("graph", "symbols", *(f"paper {name}" for name in columns), *columns)
    return Grid("gmark paper", "Insertions of symbols: the paper's times for each view, and ours", headings, made)


def times(measured: list[Measurement]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The averages of recomputation and of maintenance."""
    full, step = (average([one for one in measured if one.step.startswith(kind)]) for kind in ("rebuild", "apply"))
    return full, step


def average(measured: list[Measurement]) -> tuple[float, float]:
    """Milliseconds per view, in the tasks and in the whole job, over all workloads and batches."""
    views = sum(one.views for one in measured)
    return (
        1000 * sum(one.task_seconds for one in measured) / views,
        1000 * sum(one.seconds for one in measured) / views,
    )


class Batch(NamedTuple):
    """Processor seconds of a batch of a seed, applied and recomputed: the medians of all repetitions."""

    seed: int
    applied: float
    rebuilt: float

    @property
    def ratio(self) -> float:
        """How many times as much it takes to apply it."""
        return self.applied / self.rebuilt

    @property
    def over(self) -> bool:
        """Whether it takes more than it should."""
        return self.applied > MOST_RATIO * self.rebuilt + MOST_MORE


def by_workload(measured: list[Measurement]) -> Grid:
    """For each workload the processor seconds of batches, over all seeds: the least, the median and the most."""
    made = []
    keys = dict.fromkeys((one.dataset, one.workload, one.scenario) for one in measured)
    for key in sorted(keys):
        found = list(batches([one for one in measured if (one.dataset, one.workload, one.scenario) == key]))
        seeds = sorted({batch.seed for batch in found})
        if len(seeds) > 1:
            applied, rebuilt = ([batch[place] for batch in found] for place in (1, 2))
            ratios = [batch.ratio for batch in found]
            last = max(batch.ratio for batch in found if batch.seed == seeds[-1])
            numbers = (spread(applied, 2), spread(rebuilt, 2), spread(ratios, 2), f"{last:.2f}")
            over = f"{sum(batch.over for batch in found)} of {len(found)}"
            made.append((*key, f"{seeds[0]} to {seeds[-1]}", *numbers, over))
    headings = ("graph", "workload", "update", "seeds", "apply", "rebuild", "apply to rebuild", "last seed", "over")
    return Grid("gmark workloads", "Processor seconds of whole batches: least, median and most", headings, made)


def batches(measured: list[Measurement]) -> Iterator[Batch]:
    """The batches among measurements of one dataset and workload."""
    seconds: defaultdict[tuple[int, str, str], list[float]] = defaultdict(list)
    for one in measured:
        if one.processor is not None:
            seconds[one.seed, one.scenario, one.step].append(one.processor)
    for (seed, scenario, step), applied in seconds.items():
        if step.startswith("apply"):
            rebuilt = seconds[seed, scenario, step.replace("apply", "rebuild")]
            yield Batch(seed, median(applied), median(rebuilt))


def spread(values: Sequence[float], digits: int) -> str:
    """The least, the median and the greatest of some values."""
    return " / ".join(f"{value:.{digits}f}" for value in (min(values), median(values), max(values)))


def documented(measured: list[Measurement]) -> list[Grid]:
    """The tables of the document, those that there are results for."""
    return [grid for grid in (side_by_side(measured), by_workload(measured)) if grid.rows]


def as_json(measured: list[Measurement]) -> str:
    """The measurements as JSON, one per line."""
    return "[\n" + ",\n".join(json.dumps(asdict(one)) for one in measured) + "\n]\n"


def beside(known: Iterable[dict[str, Any]], measured: list[Measurement]) -> list[Measurement]:
    """New measurements, and the known ones of other seeds, datasets, workloads and scenarios."""

    def subject(one: Measurement) -> tuple[int, str, str, str]:
        return one.seed, one.dataset, one.workload, one.scenario

    new = {subject(one) for one in measured}
    return [*(one for one in (Measurement(**record) for record in known) if subject(one) not in new), *measured]


def main() -> int:
    """Run the scenarios, print tables and mismatches; 1 if there is any."""
    parser = argparse.ArgumentParser(description="Check and measure Regular Datalog workloads on gMark graphs.")
    parser.add_argument("--data", type=Path, help="a folder with given graphs (default: generate them)")
    parser.add_argument("--seed", type=int, action="append", help="of generated graphs (default: 1); may be repeated")
    parser.add_argument("--repeat", type=int, default=1, help="how often to measure each batch (default: %(default)s)")
    parser.add_argument("--dataset", action="append", help="only this one, such as snb-10k; may be repeated")
    parser.add_argument("--workload", action="append", choices=WORKLOADS, help="only this one; may be repeated")
    parser.add_argument("--scenario", action="append", help="only this one; may be repeated")
    parser.add_argument("--quick", action="store_true", help="the 1k graphs and a few scenarios")
    parser.add_argument("--document", action="store_true", help="add results to gmark.json and docs/performance.md")
    parser.add_argument(
        "--folder", type=Path, default=Path("build/gmark"), help="where states go (default: %(default)s)"
    )
    parser.add_argument("--engine", default="auto", help="such as duckdb, without matrices (default: %(default)s)")
    options = parser.parse_args()
    names = options.dataset or (QUICK if options.quick else DATASETS)
    scenarios = options.scenario or (SAMPLE if options.quick else None)
    started = time.monotonic()

    def say(text: str) -> None:
        console.print(f"{time.monotonic() - started:6.0f} s  {text}")

    datasets: list[Dataset] = []
    try:
        for seed in options.seed or [1]:
            data = options.data or GENERATED / f"seed-{seed}"
            if not options.data:
                ensure(data, names, seed, say)
            for name in names:
                if not (data / name).is_dir():
                    raise ValueError(f"there is no {data / name}")
            datasets += [Dataset(seed, name, data / name) for name in names]
    except ValueError as error:
        print(f"gmark: {error}", file=sys.stderr)
        return 1
    measured: list[Measurement] = []
    mismatches: list[str] = []
    left_out: list[str] = []
    compared = 0
    folder = options.folder.absolute()
    for dataset in datasets:
        named = f"{dataset.name}, seed {dataset.seed}," if len(datasets) > len(names) else dataset.name
        if not dataset.has_answers:
            say(f"{named}: no expected answers; each update is compared with recomputation")
        graphs = Graphs(dataset, folder / "graphs")
        for workload in options.workload or WORKLOADS:
            run = Workload(dataset, workload, graphs, folder, options.engine)
            left_out += [f"{named} {workload} {query}: {reason}" for query, reason in run.left_out.items()]
            if not run.queries:
                continue
            for scenario in scenarios or dataset.scenarios:
                run.run(scenario, options.repeat)
                counted = f"{run.compared:,} answers compared, {len(run.mismatches)} mismatches"
                say(f"{named} {workload} {scenario}: {counted}")
            shutil.rmtree(run.folder, ignore_errors=True)
            measured += run.measured
            mismatches += run.mismatches
            compared += run.compared
    shown = [*tables(measured, names), *documented(measured)]
    places = [folder / "results.json", *([RESULTS] if options.document else [])]
    places[0].write_text(as_json(measured), encoding="utf-8")
    if options.document:
        measured = beside(json.loads(RESULTS.read_text(encoding="utf-8")), measured)
        RESULTS.write_text(as_json(measured), encoding="utf-8")
    for grid in shown:
        console.print()
        console.print(grid.rich())
    if options.document:
        write_document(DOCUMENT, documented(measured))
    for query in left_out:
        console.print(f"left out, {query}")
    for mismatch in mismatches:
        console.print(mismatch)
    console.print(
        f"\n{compared:,} answers compared, {len(mismatches)} mismatches; times in {', '.join(map(str, places))}"
    )
    return 1 if mismatches else 0


if __name__ == "__main__":
    sys.exit(main())
