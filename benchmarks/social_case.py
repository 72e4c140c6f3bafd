"""Measure the Social Media case of the Transformation Tool Contest 2018; ``make bench-social`` runs this.

For each size, the program of ``examples/social_network`` is evaluated for the network at the start, then each of the 20
changes is applied, and then each is undone, the last one first, until the network is as it was. After each step, the
answers to both queries are compared with the expected ones. Changes are applied and undone ``--rounds`` times; medians
are over all rounds but the first, which warms up, unless there is only one.

A *session* keeps the relations in the memory of this process. On *spark*, a job keeps its state in files, and tasks of
a local Spark session evaluate it; each change is a commit. The contest's data are read from ``--data``, from the folder
in the variable ``FLINTLOG_TTC2018``, or from ``../shared/data/ttc2018`` beside the project. Programs are compiled
before the time is taken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import flintlog
from in_session import load_job

HERE = Path(__file__).absolute().parent
EXAMPLE = HERE.parent / "examples" / "social_network"
PROGRAM = EXAMPLE / "social_network.dl"
sys.path.insert(0, str(EXAMPLE))

import convert  # noqa: E402

DATA = Path(os.environ.get("FLINTLOG_TTC2018") or HERE.parents[1] / "shared" / "data" / "ttc2018")
SIZES = ("1", "2", "4", "8", "16", "32")

PUBLISHED = (
    ("DDlog", "Q2", 64, 1777.0, 24.0),
    ("SQL", "Q2", 64, 596.0, 453.0),
    ("GraphBLAS, incremental", "Q2", 64, 24.0, 0.2),
    ("DDlog", "Q2", 1024, 141391.0, 699.0),
    ("differential dataflow", "Q2", 1024, 55356.0, 1.5),
    ("GraphBLAS", "Q2", 1024, 702.0, 0.8),
)
"""The medians published with the case, in milliseconds: who, the query, the size, at the start, and for an update. They
were measured on another machine in 2021."""

Answers = tuple[str, str]


class Network(Protocol):
    """The relations of a network, as changes come."""

    def apply(self, change: convert.Rows, undo: bool = False) -> None:
        """Insert the rows of a change, or delete them."""

    def answers(self) -> Answers:
        """Return the answers to the queries that are evaluated, empty for others."""

    def close(self) -> None:
        """Forget everything."""


class InSession:
    """A network in the memory of this process."""

    def __init__(self, program: flintlog.Compiled, facts: convert.Rows) -> None:
        """Evaluate a program."""
        self.session = flintlog.Session(program, facts)
        self.outputs = self.session.outputs()

    def apply(self, change: convert.Rows, undo: bool = False) -> None:
        """Apply a change."""
        self.session.apply(insert=None if undo else change, delete=change if undo else None)

    def answers(self) -> Answers:
        """Return the answers."""
        first, second = (
            top(row[1] for row in self.session[name].to_list()) if name in self.outputs else ""
            for name in ("influential", "controversial")
        )
        return first, second

    def close(self) -> None:
        """Close the session."""
        self.session.close()


class InJob:
    """A network whose state is in files, and which tasks of a Spark session evaluate, or this process without one."""

    def __init__(self, compiled: flintlog.Compiled, facts: convert.Rows, folder: Path, spark: Any) -> None:
        """Evaluate a program."""
        for name, text in compiled.files.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        self.job = load_job(folder / next(name for name in compiled.files if name.endswith(".py")))
        self.folder, self.spark, self.steps = folder, spark, 0
        self.log = self.job.Log(quiet=True)
        convert.write(facts, folder / "facts")
        self.job.init(spark, str(folder / "state"), str(folder / "facts"), log=self.log)

    def apply(self, change: convert.Rows, undo: bool = False) -> None:
        """Apply a change."""
        self.steps += 1
        changes = self.folder / f"change{self.steps}"
        convert.write(change, changes, op="-" if undo else "+")
        self.job.apply(self.spark, str(self.folder / "state"), str(changes), log=self.log)

    def answers(self) -> Answers:
        """Return the answers."""
        found = []
        for name in ("influential", "controversial"):
            table = self.job.relation(None, str(self.folder / "state"), name)
            ranked = sorted(zip(table["rank"].to_pylist(), table.column(1).to_pylist(), strict=True))
            found.append(top(row[1] for row in ranked))
        return found[0], found[1]

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder)


def top(ids: Iterable[int]) -> str:
    """Return an answer as the contest writes it."""
    return "|".join(map(str, ids))


@dataclass
class Times:
    """The seconds that the parts of a run took."""

    initial: float
    updates: list[float] = field(default_factory=list)
    undone: list[float] = field(default_factory=list)


class WrongAnswer(Exception):
    """An answer is not the expected one; the message says which."""


def run(
    make: Callable[[convert.Rows], Network], data: Path, size: str, rounds: int, only: str = "", steps: int = 20
) -> Times:
    """Apply the first ``steps`` changes of a size and undo them, ``rounds`` times; raise WrongAnswer if an answer to a
    query, or to the ``only`` one, is wrong."""
    expected = convert.expected(data / "expected.csv", size)
    facts = convert.facts(data / size)
    changes = [convert.change(file) for file in convert.changes(data / size)][:steps]
    started = time.perf_counter()
    network = make(facts)
    found = network.answers()
    times = Times(time.perf_counter() - started)
    compare(found, expected[0], f"size {size}, at the start", only)
    for _ in range(rounds):
        for step, change in enumerate(changes, 1):
            seconds, found = timed(network, change, False)
            times.updates.append(seconds)
            compare(found, expected[step], f"size {size}, after change {step}", only)
        for step, change in reversed(list(enumerate(changes))):
            seconds, found = timed(network, change, True)
            times.undone.append(seconds)
            compare(found, expected[step], f"size {size}, without change {step + 1} again", only)
    network.close()
    if rounds > 1:
        times.updates, times.undone = times.updates[len(changes) :], times.undone[len(changes) :]
    return times


def timed(network: Network, change: convert.Rows, undo: bool) -> tuple[float, Answers]:
    """Apply or undo a change; return the seconds until the answers are there, and these."""
    started = time.perf_counter()
    network.apply(change, undo)
    found = network.answers()
    return time.perf_counter() - started, found


def compare(found: Answers, wanted: Answers, where: str, only: str) -> None:
    """Raise WrongAnswer if answers differ."""
    for query, answer, right in zip(("Q1", "Q2"), found, wanted, strict=True):
        if only in ("", query) and answer != right:
            raise WrongAnswer(f"{query}, {where}: {answer or 'nothing'} instead of {right}")


def program_of(query: str) -> str:
    """Return the text of the program, or of the part that one query needs."""
    text = PROGRAM.read_text(encoding="utf-8")
    if not query:
        return text
    inputs, first, second = (part for part in text.replace("// Q2", "// Q1").split("// Q1"))
    other = "controversial" if query == "Q1" else "influential"
    kept = [line for line in inputs.splitlines() if f"relation {other}" not in line]
    return "\n".join(kept) + f"\n// {query}{first if query == 'Q1' else second}"


def lines(found: Sequence[tuple[str, str, str, Times]]) -> Iterator[str]:
    """Yield the lines of a table of measured and published times, in milliseconds."""
    yield f"{'where':24} {'queries':8} {'size':>5} {'initial':>10} {'update':>9} {'slowest':>9} {'undo':>9}"
    for where, query, size, times in found:
        middle, undone = statistics.median(times.updates), statistics.median(times.undone)
        numbers = (times.initial, middle, max(times.updates), undone)
        first, *others = (1000 * number for number in numbers)
        yield f"{where:24} {query or 'both':8} {size:>5} {first:10,.0f} " + " ".join(f"{n:9,.1f}" for n in others)
    yield ""
    yield "published medians, of another machine:"
    for who, query, number, initial, update in PUBLISHED:
        yield f"{who:24} {query:8} {number:>5} {initial:10,.0f} {update:9,.1f}"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with expected.csv")
    parser.add_argument("--size", action="append", choices=SIZES, help="all unless given; can be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="how often changes are applied and undone")
    parser.add_argument("--query", choices=("Q1", "Q2"), help="one of the queries; both at once unless given")
    parser.add_argument("--spark", action="append", default=[], metavar="SIZE", help="also measure this size on Spark")
    options = parser.parse_args()
    if not (options.data / "expected.csv").is_file():
        sys.exit(f"{options.data} has no expected.csv: get the data of the contest, and name their folder with --data")
    query, program = options.query or "", flintlog.compile(program_of(options.query or ""))
    found = []
    InSession(program, convert.rows(())).close()  # Load what the first evaluation needs.
    for size in options.size or SIZES:
        times = run(lambda facts: InSession(program, facts), options.data, size, options.rounds, query)
        found.append(("session", query, size, times))
        print(f"session, size {size}: all answers as expected", flush=True)
    if options.spark:
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[2]").appName("social network").getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        for size in options.spark:
            with tempfile.TemporaryDirectory() as folder:
                made = Path(folder) / "job"
                made.mkdir()
                job = partial(InJob, program, folder=made, spark=spark)
                times = run(job, options.data, size, 1, query)
            found.append(("job, tasks in Spark", query, size, times))
            print(f"spark, size {size}: all answers as expected", flush=True)
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
