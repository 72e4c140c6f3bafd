"""What a process may use: cores and memory, as control groups of both versions limit them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flintlog.runtime.engines.options import Options
from flintlog.runtime.spark.executor import SparkExecutor
from flintlog.runtime.store.executors import LocalExecutor
from flintlog.runtime.store.run_tasks import duck_engine
from flintlog.runtime.store.task_records import Task
from flintlog.runtime.system import machine

GIB = 2**30


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 64 cores and 512 GiB, without control groups; the folder for them."""
    monkeypatch.setattr(machine, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(machine, "OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 512 * GIB // 4096)
    monkeypatch.delenv("PYSPARK_EXECUTOR_MEMORY_MB", raising=False)
    return tmp_path


def limit(folder: Path, **files: str) -> None:
    """Write limits; a double underscore stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(f"{text}\n", encoding="ascii")


def test_no_limits(groups: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the machine, but no more cores than the process may run on."""
    limit(groups, cpu__max="max 100000", memory__max="max")
    assert (machine.available_cores(), machine.available_memory()) == (64, 512 * GIB)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 7})
    assert machine.available_cores() == 2


def test_second_version(groups: Path) -> None:
    """A container's own limits, and the tightest of those of a group and of the groups around it."""
    limit(groups, cpu__max="350000 100000", memory__max=f"{8 * GIB}")
    assert (machine.available_cores(), machine.available_memory()) == (4, 8 * GIB)
    (groups / "own").write_text("0::/system.slice/job.service\n", encoding="ascii")
    limit(groups / "system.slice", cpu__max="200000 100000", memory__max="max")
    limit(groups / "system.slice" / "job.service", cpu__max="max 100000", memory__max=f"{4 * GIB}")
    assert (machine.available_cores(), machine.available_memory()) == (2, 4 * GIB)
    limit(groups / "system.slice", cpu__max="5000 100000")
    assert machine.available_cores() == 1


def test_first_version(groups: Path) -> None:
    """The same of groups with a folder for each controller; -1 is no limit."""
    (groups / "own").write_text("4:memory:/job\n3:cpuacct,cpu:/job\n", encoding="ascii")
    limit(groups / "cpu", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    limit(groups / "cpu" / "job", cpu__cfs_quota_us="250000", cpu__cfs_period_us="100000")
    limit(groups / "memory" / "job", memory__limit_in_bytes=f"{8 * GIB}")
    limit(groups / "memory", memory__limit_in_bytes=str(2**63 - 4096))
    assert (machine.available_cores(), machine.available_memory()) == (3, 8 * GIB)


def test_damaged_files(groups: Path) -> None:
    """What cannot be understood limits nothing."""
    limit(groups, cpu__max="", memory__max="much", own="a line without colons")
    limit(groups / "cpu", cpu__cfs_quota_us="100000", cpu__cfs_period_us="0")
    assert (machine.available_cores(), machine.available_memory()) == (64, 512 * GIB)


def test_share_of_a_task(groups: Path) -> None:
    """A task gets its share of what the process may use, not of the node's cores."""
    limit(groups, cpu__max="200000 100000", memory__max=f"{8 * GIB}")
    whole = 8 * GIB * 6 // 10
    assert machine.task_bytes(1) == whole // 2 and machine.task_bytes(2) == machine.task_bytes(64) == whole
    assert machine.task_bytes(1, 8) == whole // 8 and machine.task_bytes(1, 1) == whole
    assert LocalExecutor().sharing() == 2 and LocalExecutor(3).sharing() == 3


@pytest.mark.parametrize(("sharing", "part"), [(0, 4), (8, 8), (1, 1)])
def test_limit_of_the_database(groups: Path, sharing: int, part: int) -> None:
    """DuckDB gets the share of its task as its limit."""
    limit(groups, cpu__max="400000 100000", memory__max=f"{8 * GIB}")
    with duck_engine(Task(Options(4), "", {}, sharing=sharing)) as engine:
        ((said,),) = engine.run("SELECT current_setting('memory_limit')")
        size, unit = said.split()
        found = float(size) * {"GiB": GIB, "MiB": 2**20}[unit]
        assert found == pytest.approx(8 * GIB * 0.6 / part, rel=0.1)  # it is shown with one digit


@pytest.mark.parametrize(
    ("settings", "master", "sharing"),
    [({"spark.executor.cores": "6"}, "yarn", 6), ({}, "yarn", 0), ({}, "local[5]", 5), ({}, None, 0)],
)
def test_executors_of_spark(settings: dict[str, str], master: str | None, sharing: int) -> None:
    """Tasks share the memory of as many cores as Spark gives to an executor; if it does not say, the task asks."""
    spark: Any = SimpleNamespace(conf=settings)
    if master:
        spark.sparkContext = SimpleNamespace(master=master, defaultParallelism=5)
    executor = SparkExecutor(lambda: spark)
    assert (executor.sharing(), executor.cores()) == (sharing, sharing or 1)
