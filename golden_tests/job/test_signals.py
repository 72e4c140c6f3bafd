"""Signals while a command imports what it needs, before it does anything."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flintlog
import pytest

from golden_tests.nightly import NIGHTLY, by_day, one_in

PROGRAM = "input relation link(src: int, dst: int)\noutput reach.\nreach(X, Y) :- link(X, Y).\n"

#: A module in the place of an imported one, which waits to be interrupted. A signal may come just before it sleeps.
WAITING = "import time\nprint('importing', flush=True)\nfor _ in range(600):\n    time.sleep(0.1)\n"


def interrupted(folder: Path, module: str, command: list[str], number: signal.Signals) -> tuple[int, str]:
    """The exit code of a command that gets a signal while it imports a module, and what it says."""
    (folder / "modules").mkdir()
    (folder / "modules" / f"{module}.py").write_text(WAITING, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder / "modules")}
    with subprocess.Popen(
        [sys.executable, *command], stdout=-1, stderr=-1, text=True, cwd=folder, env=environment
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "importing\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        return process.returncode, said


@by_day(2)
@pytest.mark.parametrize("runtime", ["standalone", "beside", "installed"])
@pytest.mark.parametrize(
    ("command", "number", "code"),
    [
        ("init", signal.SIGINT, -signal.SIGINT),
        ("init", signal.SIGTERM, -signal.SIGTERM),
        ("follow", signal.SIGINT, 0),
        ("follow", signal.SIGTERM, 0),
    ],
)
def test_a_job(runtime: str, command: str, number: signal.Signals, code: int, tmp_path: Path) -> None:
    """No traceback, and the exit code that is documented."""
    flintlog.compile(PROGRAM, runtime=runtime, format=False).write(tmp_path)
    script = [str(tmp_path / "program.py"), command, "--state", "state"]
    assert interrupted(tmp_path, "pyarrow", script, number) == (code, "")
    assert not (tmp_path / "state").exists()


def test_flintlog(tmp_path: Path) -> None:
    """No traceback."""
    assert interrupted(tmp_path, "click", ["-m", "flintlog", "check", "x.dl"], signal.SIGINT) == (-signal.SIGINT, "")


def test_a_command_that_works(tmp_path: Path) -> None:
    """It says so in a line, and the state is that of the last commit."""
    text = PROGRAM.replace("output", "extern function wait(x: int): int\noutput").replace(
        "link(X, Y).", "link(X, Z), Y = wait(Z)."
    )
    for name, script in flintlog.compile(text, runtime="installed", format=False).files.items():
        (tmp_path / name).write_text(script, encoding="utf-8")
    (tmp_path / "link.csv").write_text("src,dst\n1,2\n", encoding="utf-8")
    said = "print('importing\\n', end='', flush=True)"
    wait = f"import time\n\n\ndef wait(x):\n    {said}\n    time.sleep(3)\n    return x\n"
    (tmp_path / "f.py").write_text(wait, encoding="utf-8")
    command = ["program.py", "init", "--state", "state", "--input", "link.csv", "--functions", "f.py", "--quiet"]
    code, said = interrupted(tmp_path, "unused", command, signal.SIGINT)
    assert (code, said) == (130, "init: interrupted; what is committed is published by the next command\n")
    assert not list((tmp_path / "state" / "manifest").iterdir())


def caught(process: subprocess.Popen[str]) -> set[int]:
    """The signals that a process has handlers for."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        mask = int(re.findall(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[0], 16)
        return {number for number in range(1, 32) if mask & 1 << (number - 1)}
    return set()


def wait_until(said: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + 60
    while not said():
        assert time.monotonic() < end
        time.sleep(0.001)


def ended(command: list[str], folder: Path, begun: Callable[[Any], None], delay: float, number: int) -> tuple[int, str]:
    """The exit code of a command that gets a signal a while after it has begun, and what it says."""
    with subprocess.Popen([sys.executable, *command], stdout=-1, stderr=-1, text=True, cwd=folder) as process:
        begun(process)
        time.sleep(delay)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        return process.returncode, said


@by_day(1)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("runtime", one_in(["standalone", "beside", "installed"], 3))
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_follow_at_any_time(runtime: str, number: signal.Signals, tmp_path: Path) -> None:
    """From its first line on, whatever it does, it ends with 0 and in silence; also while the runtime is compiled."""
    flintlog.compile(PROGRAM, runtime=runtime, format=False).write(tmp_path)
    (tmp_path / "link.csv").write_text("src,dst\n1,2\n", encoding="utf-8")
    (tmp_path / "batches").mkdir()
    init = ["program.py", "init", "--state", "state", "--input", "link.csv", "--quiet"]
    subprocess.run([sys.executable, *init], cwd=tmp_path, check=True, stdout=-1)
    command = ["program.py", "follow", "--state", "state", "--batches", "batches", "--quiet"]
    for delay in (0.0, 0.03, 0.1, 0.3, 0.6, 1.0, 1.5, 2.5)[:: 1 if NIGHTLY else 2]:
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        found = ended(command, tmp_path, lambda p: wait_until(lambda: signal.SIGTERM in caught(p)), delay, number)
        assert found == (0, ""), delay


#: Signals that come at any time in the wait for them.
WAITS = """
import random, signal
from flintlog.runtime.system.ended import until_signal

for _ in range(3000):
    ended = until_signal()
    signal.signal(signal.SIGALRM, signal.getsignal(signal.SIGTERM))
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 3e-4))
    while not ended.wait(1e-5):
        pass
    assert ended.is_set()
print("ended")
"""


def test_a_signal_in_a_wait() -> None:
    """The handler waits for nothing that the wait holds."""
    run = subprocess.run([sys.executable, "-c", WAITS], capture_output=True, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("ended\n", "")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_ctrl_c_at_any_time(tmp_path: Path) -> None:
    """Another command has no traceback either, and has done what it should or nothing."""
    for name, text in flintlog.compile(PROGRAM, format=False).files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "link.csv").write_text("src,dst\n1,2\n", encoding="utf-8")

    def begun(process: subprocess.Popen[str]) -> None:
        # Python handles the signal while it reads the script.
        wait_until(lambda: signal.SIGINT in caught(process))
        wait_until(lambda: signal.SIGINT not in caught(process))

    for delay in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0)[:: 1 if NIGHTLY else 2]:
        command = ["program.py", "init", "--state", f"state {delay}", "--input", "link.csv", "--quiet"]
        code, said = ended(command, tmp_path, begun, delay, signal.SIGINT)
        assert code in (0, 130, -signal.SIGINT) and "Traceback" not in said, (delay, said)
        manifests = list((tmp_path / f"state {delay}" / "manifest").glob("*.json"))
        assert code or len(manifests) == 1, delay
