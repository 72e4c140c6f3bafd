"""What the log of a job says: how large relations are, and how long stages, strata and rounds took.

A log is what a job writes to the file of ``--log``, or to standard error: lines such as ``event=round
seconds=0.512 stratum=reachable phase=insert round=3 tuples=14 bucket=0``, with whatever else Spark writes in between.
Several runs may stand behind each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

#: An event, which may stand behind a progress bar of Spark's, and one of its fields: a word or a JSON string.
_EVENT = re.compile(r"\bevent=(?=\S)")
_FIELD = re.compile(r'([\w]+)=("(?:[^"\\]|\\.)*"|[^\s"=]+)')


@dataclass(frozen=True)
class Round:
    """A round of a phase: how many tuples it has handled, in all buckets, and its seconds in the slowest of them."""

    number: int
    tuples: int
    seconds: float


@dataclass(frozen=True)
class Phase:
    """What a stratum did in a phase of a run, such as ``delete``; ``scratch`` says why it was computed from scratch."""

    stratum: str
    name: str
    rounds: tuple[Round, ...]
    scratch: str

    @property
    def tuples(self) -> int:
        """How many tuples all rounds have handled."""
        return sum(done.tuples for done in self.rounds)

    @property
    def seconds(self) -> float:
        """How long the rounds took."""
        return sum(done.seconds for done in self.rounds)


@dataclass(frozen=True)
class StageRun:
    """A stage of a run: its strata, in which engine it ran and why, or why it was skipped."""

    strata: str
    engine: str
    reason: str
    seconds: float
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Size:
    """A relation after a run, and how many tuples came and went."""

    relation: str
    tuples: int
    inserted: int
    deleted: int


@dataclass(frozen=True)
class Run:
    """A command that committed: its batch and commit, and what it did."""

    batch: str
    commit: str
    seconds: float
    stages: tuple[StageRun, ...]
    sizes: tuple[Size, ...]


def run_logs(root: Path) -> dict[str, str]:
    """The logs of a run of processes, by process; ``root`` is its folder. What is no file is left aside. Raises OSError
    if a log cannot be read."""
    return {path.stem: read_log(path) for path in sorted((root / "logs").glob("*.log")) if path.is_file()}


def read_log(path: Path) -> str:
    """The text of a log; what is no UTF-8 does not matter. Raises OSError if it cannot be read."""
    return path.read_text(encoding="utf-8", errors="replace")


def read_runs(text: str) -> tuple[Run, ...]:
    """The runs that a log tells of to the end; one that did not commit is left out."""
    runs = []
    reader = _Reader()
    for event in _events(text.splitlines()):
        run = reader.take(event)
        if run is not None:
            runs.append(run)
            reader = _Reader()
        elif event["event"] == "read" and (reader.stages or reader.stage):
            # A run that ended without a commit, and another one behind it.
            reader = _Reader()
    return tuple(runs)


def has_events(text: str) -> bool:
    """Whether a text has events of a job."""
    return next(_events(text.splitlines()), None) is not None


def _events(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    for line in lines:
        found = _EVENT.search(line)
        if found:
            fields = _FIELD.findall(line, found.start())
            yield {name: json.loads(value) if value.startswith('"') else value for name, value in fields}


@dataclass
class _Reader:
    """One run while its lines are read."""

    stages: list[StageRun] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    #: The stage that goes on: its event, and of each stratum and phase the rounds by number.
    stage: dict[str, str] | None = None
    phases: dict[tuple[str, str], dict[int, Round]] = field(default_factory=dict)
    scratch: dict[str, str] = field(default_factory=dict)
    #: When the last event of each bucket was, on the clock of its task.
    clocks: dict[str, float] = field(default_factory=dict)

    def take(self, event: dict[str, str]) -> Run | None:
        """Take the next event; the run, if it was the last one."""
        match event["event"]:
            case "stage":
                self.finish(event)
                if "skipped" in event:
                    self.stages.append(StageRun(event["strata"], "", f"skipped: {event['skipped']}", 0.0, ()))
                else:
                    self.stage = event
            case "from scratch":
                self.scratch[event["stratum"]] = event["reason"]
            case "again":
                self.phases.clear()
                self.clocks.clear()
            case "round":
                self.round(event)
            case "relation":
                self.finish(event)
                sizes = (int(event[name]) for name in ("tuples", "inserted", "deleted"))
                self.sizes.append(Size(event["relation"], *sizes))
            case "committed":
                self.finish(event)
                seconds = float(event["seconds"])
                return Run(event["batch"], event["commit"], seconds, tuple(self.stages), tuple(self.sizes))
        return None

    def round(self, event: dict[str, str]) -> None:
        """A round: of one bucket on the clock of its task, or of all of them on that of the job."""
        if self.stage is None:
            return
        now, bucket = float(event["seconds"]), event.get("bucket", "")
        before = self.clocks.get(bucket, 0.0 if bucket else float(self.stage["seconds"]))
        self.clocks[bucket] = now
        rounds = self.phases.setdefault((event["stratum"], event["phase"]), {})
        number, tuples, seconds = int(event["round"]), int(event["tuples"]), max(0.0, now - before)
        known = rounds.get(number, Round(number, 0, 0.0))
        rounds[number] = Round(number, known.tuples + tuples, max(known.seconds, seconds))

    def finish(self, event: dict[str, str]) -> None:
        """The stage that went on has ended when something else is told."""
        if self.stage is None:
            return
        phases = tuple(
            Phase(stratum, phase, tuple(rounds[number] for number in sorted(rounds)), self.scratch.get(stratum, ""))
            for (stratum, phase), rounds in self.phases.items()
        )
        seconds = float(event["seconds"]) - float(self.stage["seconds"])
        started = self.stage
        self.stages.append(StageRun(started["strata"], started["engine"], started["reason"], seconds, phases))
        self.stage = None
        self.phases, self.scratch, self.clocks = {}, {}, {}
