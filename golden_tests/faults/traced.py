"""Runs a script's commands without Spark, each in a process of its own that ``strace`` watches, and lets fail or kills.

A command takes a fraction of a second, and all its system calls are in one thread: the n-th of a kind is the same one
in every run.

Called with a script: waits for requests, lines of JSON, and forks for each.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from golden_tests.faults.runner import load
from golden_tests.integrations.environments import folder_for, unpacked

WRITES = ("write", "pwrite64", "writev")
FORCES = ("fsync", "fdatasync")
MOVES = ("link", "linkat", "rename", "renameat", "renameat2")
OTHERS = ("open", "openat", "mkdir", "mkdirat", "unlink", "unlinkat", "rmdir", "ftruncate")

#: Where only a parent may trace a process, the process says that others may, too.
ALLOW_TRACING = "import ctypes; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)"


class Call(NamedTuple):
    """A system call that succeeded: its name, the paths in it, what strace finds it by, its number among those of this
    name and place in its thread, and how strace prints it."""

    name: str
    paths: tuple[str, ...]
    place: str
    number: int
    text: str

    @property
    def changes(self) -> bool:
        """Whether it changes something on a disk, or forces a change to it."""
        return self.name not in ("open", "openat") or "O_CREAT" in self.text


class Fault(NamedTuple):
    """What happens to a system call: ``error=ENOSPC``, ``error=EIO`` or ``signal=SIGKILL``; and to which."""

    what: str
    name: str
    place: str
    number: int


class Answer(NamedTuple):
    """The exit code of a command, negative if a signal ended it, what it said, and its calls, if it was traced.
    ``injected``: whether a call was made to fail."""

    code: int
    out: str
    err: str
    calls: list[Call]
    injected: bool


LINE = re.compile(r"^(\d+) +(?:(\w+)\(|<\.\.\. (\w+) resumed>)(.*)$")
UNFINISHED = " <unfinished ...>"


def parsed(trace: str) -> Iterator[Call]:
    """The calls in what strace has written, in the order in which they ended."""
    counts: collections.Counter[tuple[str, str, str]] = collections.Counter()
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        found = LINE.match(line)
        if found is None:
            continue
        thread, name, text = found[1], found[2] or found[3], begun.pop(found[1], "") + found[4]
        if text.endswith(UNFINISHED):
            begun[thread] = text.removesuffix(UNFINISHED)
            continue
        place, paths = places(name, text)
        counts[thread, name, place] += 1
        if re.search(r"\) += \d", text):
            yield Call(name, paths, place, counts[thread, name, place], f"{name}({text}")


def places(name: str, text: str) -> tuple[str, tuple[str, ...]]:
    """By what strace finds a call with these arguments, and the paths in it."""
    descriptor = re.match(r"\d+<(/[^>]*)>", text)
    if name in (*WRITES, *FORCES, "ftruncate"):
        paths = (descriptor[1],) if descriptor else ()
        return (paths or ("",))[0], paths
    given = re.findall(r'"([^"]*)"', text)
    if descriptor and given and not given[0].startswith("/"):
        # A name in a folder that is open: strace knows the folder.
        return descriptor[1], (f"{descriptor[1]}/{given[0]}",)
    return (given or [""])[0], tuple(given)


def faults_at(calls: Sequence[Call], root: Path, what: str) -> list[Fault]:
    """A fault at each call that changes something below a folder, if it can be one of that call."""
    found = [call for call in calls if call.changes and any(path.startswith(str(root)) for path in call.paths)]
    if what == "error=ENOSPC":
        found = [call for call in found if not call.name.startswith(("unlink", "rmdir", "ftruncate"))]
    return list(dict.fromkeys(Fault(what, call.name, call.place, call.number) for call in found))


def missed(faults: Iterable[Fault], fails: Callable[[Fault], bool]) -> list[Fault]:
    """Let one call after the other fail; return those that did not. Raises AssertionError with all that is wrong."""
    wrong, none = [], []
    for fault in faults:
        try:
            if not fails(fault):
                none.append(fault)
        except AssertionError as error:
            wrong.append(f"{fault}: {error}")
    assert wrong == []
    return none


class Traced:
    """A process that has a script loaded, and forks for each command."""

    def __init__(self, script: Path, scratch: Path) -> None:
        """Start it; ``scratch`` is a folder for traces. Skips the test where there is no strace."""
        self.scratch, self.strace = scratch, strace()
        scratch.mkdir(parents=True, exist_ok=True)
        self.temporary = scratch / "temporary"
        self.temporary.mkdir(exist_ok=True)
        environment = {
            **{name: value for name, value in os.environ.items() if name != "SPARK_LOCAL_DIRS"},
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "PYTHONHASHSEED": "0",
            "TMPDIR": str(self.temporary),
        }
        self.log = scratch / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "golden_tests.faults.traced", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=scratch,
                env=environment,
                text=True,
            )

    def ask(
        self, work: str, traced: bool = False, fault: Fault | None = None, seed: int = 0, **arguments: Any
    ) -> Answer:
        """Let a fork do some ``work``, a function of a module, with the script and these arguments. With the same
        ``seed`` the same work gives its files the same names; 0 stands for new ones."""
        request = {
            "work": work,
            "arguments": arguments,
            "traced": traced or fault is not None,
            "fault": fault,
            "seed": seed,
            "scratch": str(self.scratch),
            "strace": self.strace,
        }
        # What a killed command has left there has a name that the same seed gives again.
        for left in self.temporary.iterdir():
            shutil.rmtree(left)
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        said = json.loads(self.process.stdout.readline() or "null")
        assert said is not None, self.log.read_text("utf-8")
        trace = (self.scratch / "trace").read_text("utf-8", "replace") if request["traced"] else ""
        out, err = ((self.scratch / name).read_text("utf-8") for name in ("out", "err"))
        injected = "(INJECTED)" in trace or "killed by SIGKILL" in trace
        return Answer(said["code"], out, err, [*parsed(trace)], injected)

    def command(self, *arguments: str, traced: bool = False, fault: Fault | None = None, seed: int = 0) -> Answer:
        """Run a command of the script."""
        return self.ask(f"{__name__}:run_command", traced, fault, seed, given=arguments)

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def run_command(module: Any, go: Any, given: list[str]) -> int:
    """A command of a script, as its main function runs it."""
    go()
    code: int = module.main([*given, "--quiet"])
    return code


@functools.cache
def strace() -> tuple[str, dict[str, str]]:
    """The program, one on the path or Debian's, unpacked, and the variables that it wants; skips the test if there is
    none, or none that may watch a process that it has not started."""
    path = shutil.which("strace")
    variables: dict[str, str] = {}
    if path is None:
        folder = folder_for("strace")
        if not folder.exists():
            made = folder.with_name(f"{folder.name}-{os.getpid()}")
            made.mkdir(parents=True)
            if not unpacked("strace", made):
                pytest.skip("strace is not there, and apt-get does not bring it: apt-get install strace")
            with contextlib.suppress(OSError):
                made.rename(folder)
            shutil.rmtree(made, ignore_errors=True)
        path = str(folder / "usr" / "bin" / "strace")
        variables = {"LD_LIBRARY_PATH": os.pathsep.join({str(p.parent) for p in folder.rglob("*.so.*")})}
    code = f"{ALLOW_TRACING}; print(flush=True); input()"
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as watched:
        watched.stdout.readline()
        command = [path, "-p", str(watched.pid), "-o", os.devnull]
        environment = {**os.environ, **variables}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as watching:
            assert watching.stderr is not None
            said = watching.stderr.readline()
            watched.communicate(b"\n")
    if "attached" not in said:
        pytest.skip(f"strace may not watch another process here: {said}")
    return path, variables


# In the process that forks


def child(module: ModuleType, request: dict[str, Any], ready: int, gate: int) -> None:
    """Do the work of a request; ``go``, which the work calls, waits for the parent."""
    exec(ALLOW_TRACING)
    if request["seed"]:
        rng = random.Random(request["seed"])
        vars(module)["uuid"] = SimpleNamespace(uuid4=lambda: uuid.UUID(int=rng.getrandbits(128), version=4))

    def go() -> None:
        os.write(ready, b".")
        assert os.read(gate, 1) == b"."

    scratch, code = Path(request["scratch"]), 70
    with (scratch / "out").open("w") as out, (scratch / "err").open("w") as err:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                place, _, name = request["work"].partition(":")
                code = getattr(importlib.import_module(place), name)(module, go, **request["arguments"])
            except BaseException:
                traceback.print_exc()
        out.flush()
        err.flush()
    os._exit(code)


def tracer(pid: int, request: dict[str, Any]) -> subprocess.Popen[str]:
    """strace, attached to a process."""
    scratch, fault, (path, variables) = Path(request["scratch"]), request["fault"], request["strace"]
    known = ",".join(f"?{name}" for name in (*WRITES, *FORCES, *MOVES, *OTHERS))
    command = [path, "-f", "-y", "-s", "0", "-o", str(scratch / "trace"), "-e", f"trace={known}", "-p", str(pid)]
    if fault:
        what, name, place, number = fault
        command += ["-P", place, "-e", f"inject={name}:{what}:when={number}"]
    made = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables})
    assert made.stderr is not None
    said = made.stderr.readline()
    assert "attached" in said, said
    return made


def serve() -> None:
    """Load the script, and fork for each request."""
    module = load(Path(sys.argv[1]))
    # One task after the other.
    vars(module).update(available_cores=lambda: 1)
    importlib.import_module("duckdb")
    for line in sys.stdin:
        request = json.loads(line)
        (ready, told), (gate, opened) = os.pipe(), os.pipe()
        pid = os.fork()  # noqa: TID251  (nothing else has run in this process)
        if pid == 0:
            child(module, request, told, gate)
        os.close(told)
        os.close(gate)
        begun = os.read(ready, 1) == b"."
        watching = tracer(pid, request) if begun and request["traced"] else None
        if begun:
            os.write(opened, b".")
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if watching is not None:
            watching.communicate(timeout=60)
        os.close(ready)
        os.close(opened)
        print(json.dumps({"pid": pid, "code": code}), flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve()
