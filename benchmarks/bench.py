"""Measure Flintlog's jobs against DuckDB, Soufflé and loops written by hand; ``make bench`` runs this.

Seven parts:

* ``workloads``: seven programs (see ``workloads.py``), each built from scratch and then kept up to date through two
  batches of changes, by these contenders:

  * ``here``: the compiled job without Spark, a process for each step;
  * ``warm``: the same job, imported and called in one process, which keeps its tables between steps;
  * ``flintlog``: the compiled job through ``spark-submit``;
  * ``in session``: the same job, imported and called in one warm Spark session for all steps, without the start of
    Spark; its peak memory is that of all steps;
  * ``duckdb``: everything from scratch after each step, by a recursive query or a loop, whichever is better;
  * ``souffle``: the same by Soufflé, compiled, if ``souffle`` is on PATH; compiling is not measured, reading and
    writing are;
  * ``by hand``: the loops of ``hand_loops.py`` through ``spark-submit``, from scratch, for ``init`` only: later steps
    would take them as long again. They are ended after ``--limit`` seconds.

* ``database``: the same workloads and a batch more, by ``here``, ``warm``, ``duckdb`` and

  * ``database``: the script of ``--target database``, which reads CSV, a process for each step;
  * ``installed``: ``flintlog job init`` with that script, which reads Parquet and may compute by columns;
  * ``embedded``: ``flintlog.open`` in one process, on the state that ``init`` of ``database`` has built;

* ``scaling``: batches of the same number of changes on small and large states;
* ``strategies``: batches from 0.001 % to 50 % of the rows, incrementally and by recomputing;
* ``batches``: batches of all sizes on recursions that are products of matrices, by queries and with matrices, in
  processes of their own and warm;
* ``rounds``: more than 50 million tuples built, changed and verified by Spark's engine, in a heap of 2.75 GiB;
* ``compile``: the compiler on a program of 100 rules, the fastest of three runs.

Each measurement is a process of its own and gets two threads: wall-clock seconds from its start to its end, the seconds
it says its own work took (without the start of Python, the JVM and Spark), the peak memory of its process tree, and
the rows of the answers. Every answer is compared with DuckDB's, and so is what Flintlog publishes.

What is measured replaces what ``results.json`` has of the same workload and contender, and leaves the rest there; the
tables of ``docs/performance.md`` and the pictures are made from that file, by ``--report`` without measuring anything.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import batches
import distributed
import report
import scaling
import strategies
import workloads
from comparison import CONTENDERS, Comparison
from measure import CommandFailed, machine
from report import Measured
from results import Batch, Distributed, Result, Scaled, Strategy, WrongAnswer, console

HERE = Path(__file__).absolute().parent
DOCS = HERE.parent / "docs"
DOCUMENT = "performance.md"
RESULTS = "default benchmarks/results.json; document and pictures go beside any other; with --quick in --folder"
PARTS = ("workloads", "database", "scaling", "strategies", "batches", "rounds", "compile")


def main() -> int:
    """Measure, print tables and write the results."""
    parser = argparse.ArgumentParser(description="Measure Flintlog's jobs against DuckDB, Soufflé and loops by hand.")
    names = [workload.name for workload in workloads.WORKLOADS]
    parser.add_argument("--quick", action="store_true", help="small data, to see that everything runs")
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--workload", action="append", choices=names, help="only this one; may be repeated")
    parser.add_argument("--contender", action="append", choices=CONTENDERS, help="only this one; may be repeated")
    parser.add_argument(
        "--limit", type=float, help="seconds for a loop written by hand (default: 300, with --quick 30)"
    )
    parser.add_argument("--folder", type=Path, default=Path("build/bench"), help="where data and states go")
    parser.add_argument("--results", type=Path, help=RESULTS)
    parser.add_argument("--report", action="store_true", help="measure nothing, write tables and pictures anew")
    options = parser.parse_args()
    folder = options.folder.absolute()
    results = options.results.absolute() if options.results else (folder if options.quick else HERE) / "results.json"
    before, failed = load(results), False
    if not options.report:
        measured = Measured(machine())
        try:
            measure(options, folder, measured)
        except (CommandFailed, WrongAnswer, FileNotFoundError) as error:
            console.print(f"error: {error}", style="red", markup=False)
            failed = True
        # Also what was measured before something went wrong.
        before = merged(before, measured)
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text(json.dumps(asdict(before), indent=1) + "\n", encoding="utf-8")
    chosen = workloads.QUICK if options.quick else workloads.WORKLOADS
    titles = {workload.name: workload.title for workload in chosen}
    tables = report.grids(before, titles)
    for grid in tables:
        console.print()
        console.print(grid.rich())
    docs = DOCS
    if results.parent != HERE:
        docs = results.parent
        shutil.copy(DOCS / DOCUMENT, docs / DOCUMENT)
    report.write_document(docs / DOCUMENT, tables)
    pictures = report.draw(before, titles, docs)
    if not report.ready_to_draw():
        console.print("no pictures: Matplotlib is not installed", style="yellow")
    console.print(f"written: {', '.join(map(str, (results, docs / DOCUMENT, *pictures)))}")
    return int(failed)


def measure(options: argparse.Namespace, folder: Path, measured: Measured) -> None:
    """Measure what the options ask for, and enter it into ``measured``."""
    only = {"database", "installed", "embedded"}
    stored = ["database"] if only & {*(options.contender or ())} else ["workloads"]
    parts = options.part or (stored if options.workload or options.contender else PARTS)
    size = measured.machine
    console.print(f"{size['cores']} cores, {size['memory_mb']:,} MB of memory; every contender gets two threads")
    contenders = options.contender or list(CONTENDERS)
    if "souffle" in contenders and shutil.which("souffle") is None:
        console.print("souffle is not on PATH and is left out", style="yellow")
        contenders.remove("souffle")
    limit = options.limit or (30 if options.quick else 300)
    comparison = Comparison(folder, [name for name in contenders if name not in only], limit)
    beside = Comparison(folder / "database", [name for name in contenders if name in report.STORED], limit)
    measured.comparison, measured.database = comparison.results, beside.results
    chosen: Sequence[workloads.Workload] = workloads.QUICK if options.quick else workloads.WORKLOADS
    for workload in (one for one in chosen if one.name in (options.workload or [one.name])):
        if "workloads" in parts:
            comparison.workload(workload)
        if "database" in parts:
            beside.workload(workload, workloads.MORE_BATCHES)
    if "compile" in parts:
        comparison.compile_time()
    if "scaling" in parts:
        measured.scaling = scaling.scale(folder / "scaling", scaling.QUICK if options.quick else scaling.SERIES)
    if "strategies" in parts:
        chosen = strategies.QUICK if options.quick else strategies.WORKLOADS
        measured.strategies = strategies.measure_strategies(folder, chosen)
    if "batches" in parts:
        measured.batches = batches.measure_batches(folder, batches.QUICK if options.quick else batches.WORKLOADS)
    if "rounds" in parts:
        measured.distributed = distributed.rounds(folder, distributed.QUICK if options.quick else distributed.WORKLOAD)


def load(path: Path) -> Measured:
    """The results in a file, none if there is no file."""
    if not path.exists():
        return Measured()
    known = json.loads(path.read_text(encoding="utf-8"))
    return Measured(
        known["machine"],
        [Result(**one) for one in known["comparison"]],
        [Scaled(**one) for one in known["scaling"]],
        [Strategy(**one) for one in known["strategies"]],
        [Distributed(**one) for one in known.get("distributed", ())],
        [Batch(**one) for one in known.get("batches", ())],
        [Result(**one) for one in known.get("database", ())],
    )


def merged(before: Measured, now: Measured) -> Measured:
    """All results, those of now in place of what was measured before; workloads stay in their order."""
    names = [workload.name for workload in workloads.WORKLOADS]

    def replaced(results: list[Result], newer: list[Result]) -> list[Result]:
        new = {(one.workload, one.contender) for one in newer}
        kept = [one for one in results if (one.workload, one.contender) not in new] + newer
        return sorted(kept, key=lambda one: names.index(one.workload) if one.workload in names else len(names))

    return Measured(
        now.machine,
        replaced(before.comparison, now.comparison),
        now.scaling or before.scaling,
        now.strategies or before.strategies,
        now.distributed or before.distributed,
        now.batches or before.batches,
        replaced(before.database, now.database),
    )


if __name__ == "__main__":
    sys.exit(main())
