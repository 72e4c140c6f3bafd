"""Run a command and measure it: seconds on the clock and of the processor, and the most memory that it and all its
children held at once."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

FIRST_PERIOD, LAST_PERIOD = 0.01, 0.25
"""Seconds between two looks at the memory: often at first, lest a short process be missed, then seldom, not to
disturb."""


@dataclass(frozen=True)
class Run:
    """What a command printed on its standard output, its wall-clock seconds, its peak memory in MB (10^6 bytes), and
    the seconds of the processor that it and its children took."""

    output: str
    seconds: float
    peak_mb: float
    processor: float = 0.0


class CommandFailed(Exception):
    """A measured command ended with an error; the message ends with the last lines it wrote."""


class OutOfTime(Exception):
    """A measured command took longer than it was given and was ended."""

    def __init__(self, measured: Run) -> None:
        """``measured`` has what was seen of it until then."""
        super().__init__(f"ended after {measured.seconds:.0f} s")
        self.measured = measured


def run(command: Sequence[str | Path], log: Path, limit: float | None = None) -> Run:
    """Run ``command``, its standard error going to ``log``, and measure it. ``limit``: seconds that it may take.

    Memory is the proportional set size, summed over the process tree, so that pages shared by a process and its forks
    count once; where the system does not tell, the resident set size.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        start, spent = time.perf_counter(), processor_of_children()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        peak = _Peak(process.pid)
        peak.start()
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired as error:
            seconds = time.perf_counter() - start
            peak.stop()
            end_tree(process)
            raise OutOfTime(Run("", seconds, peak.bytes / 1e6)) from error
        seconds = time.perf_counter() - start
        peak.stop()
    text = output.decode()
    if process.returncode != 0:
        tail = (log.read_text(errors="replace") + text).splitlines()[-15:]
        raise CommandFailed("\n".join([f"exit code {process.returncode}, log in {log}", *tail]))
    return Run(text, seconds, peak.bytes / 1e6, processor_of_children() - spent)


def processor_of_children() -> float:
    """Return the seconds of the processor of all commands that have ended, those of the system included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End a process and all its children."""
    tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for one in tree:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()
    process.communicate()


class _Peak(threading.Thread):
    """Looks at the memory of a process tree until stopped; ``bytes`` is the most it saw."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.bytes = 0
        self._root = pid
        self._done = threading.Event()

    def run(self) -> None:
        period = FIRST_PERIOD
        while not self._done.wait(period):
            self.bytes = max(self.bytes, _memory(self._root))
            period = min(period * 1.2, LAST_PERIOD)

    def stop(self) -> None:
        self._done.set()
        self.join()


def _memory(root: int) -> int:
    try:
        process = psutil.Process(root)
        tree = [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    return sum(_held(process) for process in tree)


def _held(process: psutil.Process) -> int:
    try:
        held: int = process.memory_full_info().pss
    except (psutil.Error, AttributeError, OSError):
        try:
            held = process.memory_info().rss
        except psutil.Error:
            return 0
    return held


def machine() -> dict[str, object]:
    """The size of this machine: cores that this process may use and memory in MB."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cores": cores, "memory_mb": round(psutil.virtual_memory().total / 1e6)}
