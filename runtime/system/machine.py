"""Cores and memory that this process may use of its machine or container."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

CONTROL_GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""The places where Linux shows the limits of control groups, and the groups of this process."""


def available_cores() -> int:
    """Return the number of cores that this process may use: those that it may run on, or fewer if control groups limit
    its time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in control_groups("cpu"):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
            else:
                quota, period = ((folder / f"cpu.cfs_{n}_us").read_text(encoding="ascii") for n in ("quota", "period"))
            if int(quota) > 0:
                # A share of a core is a core: its tasks would wait for each other.
                cores = min(cores, -(-int(quota) // int(period)))
    return max(1, cores)


def available_memory() -> int:
    """Return the bytes of memory of the machine, or of the container that this process runs in."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in control_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                memory = min(memory, int((folder / name).read_text(encoding="ascii")))
    return memory


def control_groups(controller: str) -> Iterator[Path]:
    """Yield the folders with the limits of this process: its groups and those around them, of both versions of control
    groups. Within a container, its own group may be the outermost one that is visible."""
    groups = {CONTROL_GROUPS: "/", CONTROL_GROUPS / controller: "/"}
    with contextlib.suppress(OSError, ValueError):
        for line in OWN_GROUPS.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                groups[CONTROL_GROUPS] = path
            elif controller in controllers.split(","):
                groups[CONTROL_GROUPS / controller] = path
    for root, path in groups.items():
        own = root / path.lstrip("/")
        yield from (folder for folder in (own, *own.parents) if folder == root or root in folder.parents)


def task_bytes(threads: int, sharing: int = 0) -> int:
    """Return how many bytes a task with ``threads`` threads may use: 80 % of what Spark grants a Python worker or, if
    it sets no limit, the task's share of 60 % of the machine or container. As many threads as ``sharing`` run tasks at
    the same time, or as this process has cores if that is 0."""
    granted = os.environ.get("PYSPARK_EXECUTOR_MEMORY_MB")
    if granted:
        return int(granted) * 8 // 10 * 2**20
    cores = sharing or available_cores()
    return available_memory() * 6 // 10 * min(threads, cores) // cores
