"""Many batches in a row, with a reader beside them: the state does not grow, no batch takes longer, no reader fails.

The job is a real one whose tasks run in this process, in DuckDB.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT

PROGRAM = """
input relation link(@src: int, dst: int)
output relation reachable(@src: int, dst: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
"""


@pytest.fixture
def job() -> Iterator[Any]:
    """The script."""
    module: Any = load_script(compile_text(PROGRAM, "many.dl")[1])
    yield module
    del sys.modules[module.__name__]


@AT_NIGHT
@pytest.mark.parametrize(("batches", "kept"), [(30, 5), pytest.param(300, 20, marks=AT_NIGHT)])
def test_many_batches(batches: int, kept: int, job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a link out of a ring or puts it back; a reader looks all the time and sees one commit or another."""
    monkeypatch.setattr(job, "MANIFESTS_KEPT", kept)
    state, log = str(tmp_path / "state"), job.Log(quiet=True)
    ring = [(node, (node + 1) % 12) for node in range(12)]
    rows = tmp_path / "link.csv"
    rows.write_text("src,dst\n" + "".join(f"{src},{dst}\n" for src, dst in ring))
    job.init(None, state, {"link": str(rows)}, buckets=2, log=log)
    seen: list[tuple[int, int]] = []
    failed: list[BaseException] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                rows_now = job.status(state)["rows"]
                seen.append((rows_now["link"], rows_now["reachable"]))
                assert job.explain(None, state, "reachable(3, 5)")["present"]
            except BaseException as error:
                failed.append(error)
                return

    reader = threading.Thread(target=read)
    reader.start()
    seconds, files = [], []
    try:
        for number in range(batches):
            # A link outside of the path that the reader looks for.
            src, dst = ring[8 + number // 2 % 3]
            rows.write_text(f"op,src,dst\n{'+-'[number % 2 == 0]},{src},{dst}\n")
            started = time.thread_time()
            assert job.apply(None, state, {"link": str(rows)}, log=log)["applied"]
            seconds.append(time.thread_time() - started)
            files.append(sum(path.is_file() for part in ("data", "manifest") for path in Path(state, part).rglob("*")))
            assert not failed, failed
    finally:
        ended.set()
        reader.join()
    assert not failed, failed
    assert {*seen} <= {(12, 144), (11, 66)}, {*seen}
    assert job.verify(None, state, log=log)["differences"] == []
    # Two manifests, their marks, and what the last two commits are made of.
    settled = files[2 * kept :]
    assert max(settled[len(settled) // 2 :]) <= max(settled[: len(settled) // 2]) + 4, files
    if batches >= 200:
        early, late = (statistics.median(part) for part in (seconds[50:150], seconds[-100:]))
        assert late < 1.5 * early, (early, late)
