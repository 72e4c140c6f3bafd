"""All contenders on all workloads: ``init`` and then batches of changes, every answer compared with DuckDB's.

After each step the rows and checksums of what a contender answers must be DuckDB's, and those of the changes that
Flintlog published must be the difference to the step before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from contenders import Answers, ByHand, DatabaseJob, DuckDB, FlintlogJob, InstalledJob, Outcome, Place, Souffle
from measure import OutOfTime, Run, run
from results import Result, compare, console, working
from workloads import BATCHES, WITHOUT_SOUFFLE, Step, Workload, program_of_rules, steps, write_changes, write_tables

CONTENDERS = (
    *("here", "warm", "flintlog", "in session", "database", "installed", "embedded"),
    *("duckdb", "souffle", "by hand"),
)
RULES = 100


class Comparison:
    """Measures the contenders, one process at a time, and collects the results."""

    def __init__(self, folder: Path, contenders: Collection[str], limit: float) -> None:
        """``folder``: a folder in it per workload, emptied first. ``limit``: seconds for the loop written by hand."""
        self.folder, self.contenders, self.limit = folder, contenders, limit
        self.results: list[Result] = []

    def workload(self, workload: Workload, batches: Sequence[tuple[str, float]] = BATCHES) -> None:
        """Measure all contenders on one workload and batches: those with a process for each step in turn, step by
        step, then those that do all steps in one process."""
        console.print(f"[bold]{workload.title}")
        place = Place(workload, self.folder / workload.name.replace(" ", "-"))
        made = []
        for step in steps(workload, batches):
            write_tables(workload, step, place.tables(step))
            write_changes(workload, step, place.changes(step))
            made.append(Step(step.name, {}, {}, {}))
        jobs = {name: FlintlogJob(place, name) for name in ("here", "flintlog") if name in self.contenders}
        stored = DatabaseJob(place) if {"database", "embedded"} & {*self.contenders} else None
        installed = InstalledJob(place) if "installed" in self.contenders else None
        duckdb, expected = DuckDB(place), dict[str, Answers]()
        for number, step in enumerate(made):
            what = f"{workload.name}, {step.name}"
            with working(f"{what}: duckdb"):
                outcome = duckdb.run(step)
            expected[step.name] = outcome.answers
            if "duckdb" in self.contenders:
                self._add(place, "duckdb", step, outcome)
            before = expected[made[number - 1].name] if number else None
            for name, job in jobs.items():
                self._process(job, name, step, expected[step.name], before)
            if stored and (step.name == "init" or "database" in self.contenders):
                self._process(stored, "database", step, expected[step.name], before)
            if installed and step.name == "init":
                self._process(installed, "installed", step, expected[step.name], before)
        if stored and "embedded" in self.contenders:
            self._embedded(stored, made, expected)
        for name in ("warm", "in session"):
            if name in self.contenders:
                self._in_session(place, made, expected, name)
        if "souffle" in self.contenders and workload.program not in WITHOUT_SOUFFLE:
            souffle = Souffle(place)
            for step in made:
                with working(f"{workload.name}, {step.name}: souffle"):
                    outcome = souffle.run(step)
                compare(outcome.answers, expected[step.name], f"souffle, {workload.name}, {step.name}")
                self._add(place, "souffle", step, outcome)
        if "by hand" in self.contenders:
            self._by_hand(place, made[0], expected)

    def compile_time(self) -> None:
        """Measure the compiler on a program of :data:`RULES` rules: the fastest of three runs, with and without
        formatting."""
        workload = f"compile {RULES} rules"
        console.print(f"[bold]{workload}")
        program = self.folder / "rules.dl"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(program_of_rules(RULES), encoding="utf-8")
        for step, options in (("formatted", ()), ("--no-format", ("--no-format",))):
            command = ("flintlog", "compile", program, "-o", self.folder / "jobs", *options)
            with working(step):
                runs = [run(command, self.folder / "compile.log") for _ in range(3)]
            measured = min(runs, key=lambda one: one.seconds)
            self._say(Result(workload, "compiler", step, measured.seconds, None, measured.peak_mb, RULES))

    def _process(self, job: FlintlogJob, name: str, step: Step, expected: Answers, before: Answers | None) -> None:
        what = f"{job.place.workload.name}, {step.name}"
        with working(f"{what}: {name}"):
            outcome = job.run(step)
        compare(outcome.answers, expected, f"{name}, {what}")
        if before is not None:
            compare(job.published(step), difference(expected, before), f"{name}, {what}, what is published")
        if name in self.contenders:
            self._add(job.place, name, step, outcome)

    def _embedded(self, job: DatabaseJob, made: Sequence[Step], expected: dict[str, Answers]) -> None:
        name = job.place.workload.name
        with working(f"{name}, all batches: embedded"):
            measured, said = job.embedded(made[1:])
        compare(job.answers(), expected[made[-1].name], f"embedded, {name}, last step")
        for before, step, one in zip(made, made[1:], said, strict=False):
            changed = difference(expected[step.name], expected[before.name])
            compare(job.published(step), changed, f"embedded, {name}, {step.name}, what is published")
            rows = sum(answer.rows for answer in expected[step.name].values())
            self._say_session(job.place, "embedded", step, one, measured, rows)

    def _in_session(self, place: Place, made: Sequence[Step], expected: dict[str, Answers], contender: str) -> None:
        job = FlintlogJob(place, contender)
        name = place.workload.name
        with working(f"{name}, all steps: {contender}"):
            measured, said = job.in_session(made)
        compare(job.answers(), expected[made[-1].name], f"{contender}, {name}, last step")
        for number, (step, one) in enumerate(zip(made, said, strict=True)):
            if number:
                changed = difference(expected[step.name], expected[made[number - 1].name])
                compare(job.published(step), changed, f"{contender}, {name}, {step.name}, what is published")
            rows = sum(one["rows"][answer] for answer in place.workload.answers)
            self._say_session(place, contender, step, one, measured, rows)

    def _say_session(
        self, place: Place, contender: str, step: Step, one: Mapping[str, Any], measured: Run, rows: int
    ) -> None:
        seconds, parts, name = one["seconds"], one.get("parts") or None, place.workload.name
        figures = (seconds, seconds, measured.peak_mb, rows)
        self._say(Result(name, contender, step.name, *figures, parts=parts, processor=one["processor"]))

    def _by_hand(self, place: Place, step: Step, expected: dict[str, Answers]) -> None:
        name = place.workload.name
        try:
            with working(f"{name}, {step.name}: by hand"):
                outcome = ByHand(place, self.limit).run(step)
        except OutOfTime as error:
            seen = error.measured
            self._say(Result(name, "by hand", step.name, seen.seconds, seen.seconds, seen.peak_mb, 0, ended=True))
            return
        compare(outcome.answers, expected[step.name], f"by hand, {name}, {step.name}")
        self._add(place, "by hand", step, outcome)

    def _add(self, place: Place, contender: str, step: Step, outcome: Outcome) -> None:
        rows = sum(answer.rows for answer in outcome.answers.values())
        seen = outcome.measured
        figures = (seen.seconds, outcome.job_seconds, seen.peak_mb, rows)
        self._say(Result(place.workload.name, contender, step.name, *figures, processor=outcome.processor))

    def _say(self, result: Result) -> None:
        self.results.append(result)
        job = "" if result.job_seconds is None else f"{result.job_seconds:.2f}"
        processor = "" if result.processor is None else f"{result.processor:.3f} s of the processor"
        console.print(
            f"  {result.contender:10} {result.step:13} {'over' if result.ended else '':4} {result.seconds:8.2f} s"
            f" {job:>8} {result.peak_mb:8,.0f} MB {result.rows:12,} rows {processor}"
        )


def difference(after: Answers, before: Answers) -> Answers:
    """What a step adds to the answers, less what it takes away."""
    return {name: answer - before[name] for name, answer in after.items()}
