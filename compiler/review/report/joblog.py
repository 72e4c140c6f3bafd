"""Read from the log of a job the sizes of relations and the times of stages, strata and rounds.

A job writes its log to the file given with ``--log``, or to standard error: lines such as ``event=round seconds=0.512
stratum=reachable phase=insert round=3 tuples=14 bucket=0``, mixed with output of Spark. A log may contain several runs
in sequence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_EVENT = re.compile(r"\bevent=(?=\S)")
_FIELD = re.compile(r'([\w]+)=("(?:[^"\\]|\\.)*"|[^\s"=]+)')
"""An event, which may follow a Spark progress bar on its line, and one of its fields: a word or a JSON string."""


@dataclass(frozen=True)
class Round:
    """A round of a phase: the tuples handled in all buckets, and the seconds taken by the slowest bucket."""

    number: int
    tuples: int
    seconds: float


@dataclass(frozen=True)
class Phase:
    """The rounds of a stratum in a phase such as ``delete``; ``scratch`` is why it was computed from scratch, if so."""

    stratum: str
    name: str
    rounds: tuple[Round, ...]
    scratch: str

    @property
    def tuples(self) -> int:
        """Return the number of tuples handled in all rounds."""
        return sum(done.tuples for done in self.rounds)

    @property
    def seconds(self) -> float:
        """Return the duration of all rounds."""
        return sum(done.seconds for done in self.rounds)


@dataclass(frozen=True)
class StageRun:
    """A stage of a run: its strata, the engine and the reason for choosing it, or why the stage was skipped."""

    strata: str
    engine: str
    reason: str
    seconds: float
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Size:
    """The number of tuples of a relation after a run, and of those inserted and deleted by it."""

    relation: str
    tuples: int
    inserted: int
    deleted: int


@dataclass(frozen=True)
class LoggedRun:
    """A command that committed: its batch and commit, its duration, its stages, and the sizes of all relations."""

    batch: str
    commit: str
    seconds: float
    stages: tuple[StageRun, ...]
    sizes: tuple[Size, ...]


def run_logs(root: Path) -> dict[str, str]:
    """Return the logs of a run of processes by process name, from the folder ``root``; skip what is not a file. Raise
    OSError if a log cannot be read."""
    return {path.stem: read_log(path) for path in sorted((root / "logs").glob("*.log")) if path.is_file()}


def read_log(path: Path) -> str:
    """Return the text of a log, with invalid UTF-8 replaced. Raise OSError if it cannot be read."""
    return path.read_text(encoding="utf-8", errors="replace")


def read_runs(text: str) -> tuple[LoggedRun, ...]:
    """Return the complete runs in a log, without those that did not commit."""
    runs = []
    reader = _Reader()
    for event in _events(text.splitlines()):
        run = reader.take(event)
        if run is not None:
            runs.append(run)
            reader = _Reader()
        elif event["event"] == "read" and (reader.stages or reader.stage):
            # The previous run ended without a commit.
            reader = _Reader()
    return tuple(runs)


def has_events(text: str) -> bool:
    """Return whether a text contains events of a job."""
    return next(_events(text.splitlines()), None) is not None


def _events(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    for line in lines:
        event = _EVENT.search(line)
        if event:
            fields = _FIELD.findall(line, event.start())
            yield {name: json.loads(value) if value.startswith('"') else value for name, value in fields}


@dataclass
class _Reader:
    """Collects the events of one run."""

    stages: list[StageRun] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    stage: dict[str, str] | None = None
    phases: dict[tuple[str, str], dict[int, Round]] = field(default_factory=dict)
    """The event of the current stage, and the rounds by number for each of its strata and phases."""

    scratch: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, float] = field(default_factory=dict)
    """The time of the last event of each bucket, on the clock of its task."""

    def take(self, event: dict[str, str]) -> LoggedRun | None:
        """Process an event; return the run if this was its last event."""
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
                return LoggedRun(event["batch"], event["commit"], seconds, tuple(self.stages), tuple(self.sizes))
        return None

    def round(self, event: dict[str, str]) -> None:
        """Add a round: of one bucket, on the clock of its task, or of all buckets, on the clock of the job."""
        if self.stage is None:
            return
        now, bucket = float(event["seconds"]), event.get("bucket", "")
        before = self.clocks.get(bucket, 0.0 if bucket else float(self.stage["seconds"]))
        self.clocks[bucket] = now
        rounds = self.phases.setdefault((event["stratum"], event["phase"]), {})
        number, tuples, seconds = int(event["round"]), int(event["tuples"]), max(0.0, now - before)
        earlier = rounds.get(number, Round(number, 0, 0.0))
        rounds[number] = Round(number, earlier.tuples + tuples, max(earlier.seconds, seconds))

    def finish(self, event: dict[str, str]) -> None:
        """End the current stage, if any, at the time of ``event``."""
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
