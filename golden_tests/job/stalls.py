"""Lets a writer stand still at a step on the file system while other jobs commit to its state, and then go on.

Either within one process, which applies the other batches at that step, or with SIGSTOP and SIGCONT for a process of
its own. Needs no Spark: the batches are small.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pyarrow.dataset  # noqa: F401  (PyArrow imports it when it first reads: not again in every child)
import pyarrow.parquet as pq

from golden_tests.job import assemble
from golden_tests.job.kill import STEPS, fork, in_child

Rows = set[tuple[int, int]]

OVERTAKEN = "another job has committed"
ALL = "relations=(LINK, PAIR, ALL_TYPES, PRICE, PRICED, GO, GONE)"
PROGRAM = assemble.PROGRAM.replace(ALL, "relations=(LINK, PAIR)")
"""Two relations, so that a batch takes no more steps than it must."""


class Steps:
    """Counts the steps of this process below a folder, and does something at one of them."""

    def __init__(self) -> None:
        """Watch from now on; a hook cannot be removed."""
        self.place, self.named, self.step, self.seen = "", "", 0, 0
        self.action: Callable[[], None] = list
        self.said = ""
        sys.addaudithook(self.hook)

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        """One step, if it is one."""
        if not self.place or event not in STEPS or self.place not in str(arguments[0]):
            return
        said = f"{event} {' '.join(map(str, arguments[:2]))}".replace(self.place, "")
        self.seen += self.named in said
        if self.seen == self.step:
            self.said, self.place = said, ""
            self.action()

    @contextlib.contextmanager
    def at(self, step: int, place: Path, action: Callable[[], None], named: str = "") -> Iterator[None]:
        """Do it at the n-th step below a folder within the body, of those whose text has a part."""
        self.seen, self.step, self.named, self.action, self.said = 0, step, named, action, ""
        self.place = str(place)
        try:
            yield
        finally:
            self.place = ""


class Race:
    """A state with two commits, a writer of a batch ``slow``, and other batches."""

    def __init__(self, job: ModuleType, folder: Path, kept: int, keep: str = "2") -> None:
        """Build the state; ``kept`` is how many manifests a job keeps, ``keep`` how many commits."""
        self.job, self.folder, self.kept = job, folder, kept
        self.built, self.state = folder / "built", folder / "state"
        self.log = job.Log(quiet=True)
        folder.mkdir(parents=True, exist_ok=True)
        job.MANIFESTS_KEPT = kept
        job.init(None, str(self.built), {"link": self.file("init", 1, 1)}, buckets=1, keep=keep, log=self.log)
        self.apply(self.built, "first", 2)

    def file(self, name: str, *rows: int) -> str:
        """A file with the link from each number to itself."""
        path = self.folder / f"{name}.csv"
        path.write_text("src,dst,op\n" + "".join(f"{row},{row},+\n" for row in rows))
        return str(path)

    def begin(self) -> None:
        """Take a new copy of the state."""
        shutil.rmtree(self.state, ignore_errors=True)
        shutil.copytree(self.built, self.state)

    def apply(self, state: Path, batch: str, row: int) -> str:
        """Apply a batch with one row; returns why it was refused, empty if it was not."""
        try:
            done = self.job.apply(None, str(state), {"link": self.file(batch, row)}, batch=batch, log=self.log)
        except self.job.JobError as error:
            return str(error)
        assert done["applied"]
        return ""

    def others(self, count: int) -> None:
        """Apply other batches."""
        for number in range(count):
            refused = self.apply(self.state, f"other-{number}", 100 + number)
            assert not refused, refused

    def rows(self) -> Rows:
        """What the state has."""
        rows: Rows = self.job.stored(str(self.state), self.job.read_manifest(self.state), self.job.PAIR)
        return rows

    def published(self) -> dict[str, list[tuple[object, ...]]]:
        """What is published, by batch."""
        found = {}
        for folder in (self.state / "published" / "pair" / "changes").glob("[!.]*"):
            rows = [row for file in folder.iterdir() for row in pq.ParquetFile(file).read().to_pylist()]
            found[folder.name.removeprefix("batch=")] = [tuple(row.values()) for row in rows]
        return found

    def check(self, refused: str, count: int, said: str) -> None:
        """The writer was told what the state says, and what is published; then it tries again, and all is tidy."""
        assert not refused or OVERTAKEN in refused, f"{said}: {refused}"
        numbers = {"slow": 50, **{f"other-{n}": 100 + n for n in range(count)}}
        if refused:
            del numbers["slow"]
        assert self.rows() == {(n, n) for n in (1, 2, *numbers.values())}, said
        published = {"first": 2, **numbers}
        assert self.published() == {batch: [("+", n, n)] for batch, n in published.items()}, said
        again = {"slow": 50} if refused else {}
        for batch, number in {**again, "last": 60, "end": 61}.items():
            assert self.apply(self.state, batch, number) == "", said
            numbers[batch] = number
        assert self.rows() == {(n, n) for n in (1, 2, *numbers.values())}, said
        assert len(self.published()) == len(numbers) + 1
        last = self.job.last_commit(self.state)
        first = self.job.read_manifest(self.state).kept_from
        manifests = [self.job.read_manifest(self.state, number) for number in range(first, last + 1)]
        assert last == len(manifests[-1].batches) == len(numbers) + 2
        referenced = {file for manifest in manifests for file in self.job.referenced_files(manifest)}
        there = {str(path.relative_to(self.state)) for path in (self.state / "data").rglob("*") if path.is_file()}
        assert there == referenced, said
        assert not list(self.state.rglob(".*")), said
        kept = range(max(1, min(first, last - self.kept + 1)), last + 1)
        names = {path.name for path in (self.state / "manifest").iterdir()}
        assert names == {f"{n:012d}.{end}" for n in kept for end in ("json", "published")}, said

    def stall(self, steps: Steps, step: int, count: int) -> bool:
        """Let others commit while the writer is at a step; False if it has no such step."""
        self.begin()
        with steps.at(step, self.state, lambda: self.others(count)):
            refused = self.apply(self.state, "slow", 50)
        if not steps.said:
            return False
        self.check(refused, count, f"{count} commits at step {step}, {steps.said}")
        return True

    def stop(self, step: int, count: int, named: str = "") -> bool:
        """The same with a process that is stopped and continued."""
        self.begin()
        said = self.folder / "said"
        said.unlink(missing_ok=True)

        def write() -> None:
            steps = Steps()
            with steps.at(step, self.state, lambda: os.kill(os.getpid(), signal.SIGSTOP), named):
                refused = self.apply(self.state, "slow", 50)
            said.write_text(f"{refused}\n{steps.said}")

        child = fork()
        if child == 0:
            os._exit(run(write))
        _, status = os.waitpid(child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            assert status == 0
            return False
        assert in_child(lambda: self.others(count)) == 0
        os.kill(child, signal.SIGCONT)
        _, status = os.waitpid(child, 0)
        assert status == 0
        refused, step_said = said.read_text().rsplit("\n", 1)
        self.check(refused, count, f"{count} commits while stopped at step {step}, {step_said}")
        return True


def run(work: Callable[[], None]) -> int:
    """The exit code of what a child process does."""
    try:
        work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0
