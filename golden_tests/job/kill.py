"""Kills ``apply`` (with SIGKILL) at its steps on the file system, and checks what it leaves behind.

Run as a script in an empty directory, with a number: 1 to kill at each step, 2 at every other one, and so on; prints at
how many steps it killed. Needs no Spark: the batches are small.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.dataset  # noqa: F401  (PyArrow imports it when it first reads: not again in every child)
import pyarrow.parquet as pq

from golden_tests.job import assemble

#: Audit events of the interpreter that stand for a step on the file system.
STEPS = ("open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.listdir", "os.scandir")


def fork() -> int:
    """``os.fork`` without file systems that tests before have opened: fsspec forgets them in the child, where those of
    HDFS would wait for threads that are not there."""
    files = sys.modules.get("fsspec.spec")
    kinds: list[Any] = [files.AbstractFileSystem] if files else []
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        kind.clear_instance_cache()
    return os.fork()  # noqa: TID251


def in_child(work: Callable[[], object], seconds: int = 300) -> int:
    """Runs ``work`` in a child process, for at most ``seconds``; returns how it ended, as :func:`os.waitpid` says
    it."""
    child = fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1]


def kill_at(step: int, counts: Callable[[str, tuple[object, ...]], bool]) -> None:
    """Ends this process at its n-th step: an audit event with arguments that ``counts``."""
    seen = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        if counts(event, arguments):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def killing_connect(steps: int) -> Callable[..., sqlite3.Connection]:
    """What stands in for ``sqlite3.connect``: connections that end this process after so many steps of SQLite's."""
    connect = sqlite3.connect

    def watched(*arguments: Any, **named: Any) -> sqlite3.Connection:
        connection, count = connect(*arguments, **named), iter(range(steps))

        def step() -> int:
            if next(count, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0

        connection.set_progress_handler(step, 1)
        return connection

    return watched


def build(job: ModuleType, root: Path, changes: dict[str, str]) -> None:
    """A state with a batch already, so that there is something to clean up."""
    log = job.Log(quiet=True)
    job.init(None, str(root), {"link": "first.csv", "price": [], "sample": [], "go": []}, buckets=1, keep="2", log=log)
    job.apply(None, str(root), {"link": "second.csv"}, batch="b", log=log)


def check(job: ModuleType, root: Path, changes: dict[str, str]) -> None:
    """The state is readable, and applying the batch (again, perhaps) gives what it would have given."""
    log = job.Log(quiet=True)
    before = job.status(str(root))["commit"]
    result = job.apply(None, str(root), changes, batch="x", log=log)
    assert result["applied"] is (before == 2), result
    manifest = job.read_manifest(root)
    assert manifest.commit == 3
    assert job.stored(str(root), manifest, job.PAIR) == {(2, 3), (4, 5), (5, 6)}
    folder = root / "published" / "pair" / "changes" / "batch=x"
    rows = [tuple(row.values()) for file in folder.iterdir() for row in pq.ParquetFile(file).read().to_pylist()]
    assert sorted(rows) == [("+", 5, 6), ("-", 1, 2)], rows
    job.apply(None, str(root), {"link": "second.csv"}, batch="y", log=log)
    manifests = (job.read_manifest(root, commit) for commit in (3, 4))
    referenced = {file for manifest in manifests for file in job.referenced_files(manifest)}
    assert {str(path.relative_to(root)) for path in (root / "data").rglob("*") if path.is_file()} == referenced
    assert not list(root.rglob(".*"))


def main() -> None:
    """Kills at one step after the other, until there are no more."""
    Path("first.csv").write_text("src,dst\n1,2\n2,3\n")
    Path("second.csv").write_text("src,dst,op\n4,5,+\n")
    Path("third.csv").write_text("src,dst,op\n1,2,-\n5,6,+\n")
    changes = {"link": "third.csv"}
    job = assemble.load(Path.cwd())
    assert in_child(lambda: build(job, Path("built").resolve(), changes)) == 0
    root = Path("state").resolve()
    apart = int(sys.argv[1])
    for number, step in enumerate(range(1, 10_000, apart)):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree("built", root)

        def killed(step: int = step) -> None:
            kill_at(step, lambda event, arguments: event in STEPS and str(root) in str(arguments[0]))
            job.apply(None, str(root), changes, batch="x", log=job.Log(quiet=True))

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        assert in_child(lambda: check(job, root, changes)) == 0, f"killed at step {step}"
        if ended == 0:
            print(number)
            return


if __name__ == "__main__":
    main()
