"""Runs commands of a script in a process that is killed, at a moment or at a step that a request names.

Called with the script, a folder for notes, and where tasks run (``here`` or ``spark``). Each line of standard input is
a request, a JSON object: ``arguments`` of the script's command line, ``set`` constants of the script to change before,
``kill`` a :class:`Kill` or nothing. The answer is a line too: the exit code, what was printed, and the steps that the
command took.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

#: Audit events of the interpreter that stand for a step on the file system.
STEPS = ("open", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.listdir", "os.scandir")


class Kill(NamedTuple):
    """When a runner kills itself and all its processes (``family``), or only its ``jvm``, or only the Python ``worker``
    that is at it: at the n-th step from the first one on whose text contains ``first``. ``place``: whether steps of the
    driver on the file system are meant (``driver``), or SQL statements of tasks (``task``).
    """

    place: str
    step: int
    first: str = ""
    victim: str = "family"


def family(root: int) -> list[int]:
    """A process and all that descend from it, itself first."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        return [root, *(child.pid for child in psutil.Process(root).children(recursive=True))]
    return []


def kill_family(root: int) -> None:
    """End a process and all that descend from it at once; the caller, if it is one of them, last."""
    members = family(root)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in members:
            if pid != os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
    if os.getpid() in members:
        os.kill(os.getpid(), signal.SIGKILL)


def kill_victim(victim: str, root: int) -> None:
    """End what a :class:`Kill` names, of the process ``root`` and those that descend from it."""
    import psutil

    if victim == "family":
        kill_family(root)
    elif victim == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    for pid in family(root):
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).name() == "java":
                os.kill(pid, signal.SIGKILL)


class Steps:
    """Counts the steps of the driver below ``place``, and kills at one."""

    def __init__(self) -> None:
        """Watch from now on; a hook cannot be removed."""
        self.seen: list[str] = []
        self.kill: Kill | None = None
        self.place = ""
        self.left = 0
        sys.addaudithook(self.hook)

    def start(self, place: str, kill: Kill | None) -> None:
        """Count steps below ``place`` from here on."""
        self.seen = []
        self.place, self.kill = place, kill if kill and kill.place == "driver" else None
        self.left = self.kill.step if self.kill else 0

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        """One step, if it is one."""
        if event not in STEPS or not self.place or self.place not in str(arguments[0]):
            return
        self.seen.append(f"{event} {' '.join(map(str, arguments[:2]))}".replace(self.place, ""))
        if self.kill and (self.left < self.kill.step or self.kill.first in self.seen[-1]):
            if self.left == 0:
                kill_victim(self.kill.victim, os.getpid())
            self.left -= 1


def count_statements(module: ModuleType, notes: Path) -> None:
    """Let tasks note the statements they begin, and kill the whole family at one that a file names."""
    run, root = module.DuckEngine.run, os.getpid()
    # Also what a worker needs; it cannot import this module.
    parts: tuple[Any, ...] = (kill_victim, str(notes / "statements"), str(notes / "kill_at"))

    def counted(engine: Any, sql: str) -> Any:
        kill, statements, kill_at = parts
        with open(statements, "ab") as file:  # noqa: PTH123
            file.write(b".")
            count = file.tell()
        with open(kill_at) as file:  # noqa: PTH123
            step, victim = file.read().split()
        if count == int(step):
            kill(victim, root)
        return run(engine, sql)

    module.DuckEngine.run = counted


def load(path: Path) -> ModuleType:
    """The script as an imported module."""
    spec = importlib.util.spec_from_file_location("job_under_test", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["job_under_test"] = module
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def with_constants(module: ModuleType, values: dict[str, Any]) -> Iterator[None]:
    """Change constants of a module for the time of the body."""
    found = {name: getattr(module, name) for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(found)


def answer(module: ModuleType, steps: Steps, notes: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Run one command."""
    kill = Kill(*request["kill"]) if request.get("kill") else None
    (notes / "statements").write_bytes(b"")
    (notes / "kill_at").write_text(f"{kill.step} {kill.victim}" if kill and kill.place == "task" else "-1 nobody")
    out, err = io.StringIO(), io.StringIO()
    changed = with_constants(module, request.get("set", {}))
    with changed, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        steps.start(request["state"], kill)
        code = module.main([*request["arguments"], "--state", request["state"]])
        steps.place = ""
    statements = (notes / "statements").stat().st_size
    return {"code": code, "out": out.getvalue(), "err": err.getvalue(), "steps": steps.seen, "statements": statements}


def warm_up_spark(module: ModuleType) -> None:
    """Start a session and its Python worker."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules["__main__"])  # type: ignore[no-untyped-call]
    spark = module.open_session("tests")
    same: Callable[[Any], Any] = lambda batches: batches  # noqa: E731
    spark.range(1).mapInArrow(same, "id long").collect()


def main() -> None:
    """Warm up, with a session if tasks run in Spark, and do what is asked for."""
    script, notes = map(Path, sys.argv[1:3])
    requests, answers = sys.stdin, os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    (notes / "kill_at").write_text("-1 nobody")
    module = load(script)
    count_statements(module, notes)
    if sys.argv[3] == "spark":
        warm_up_spark(module)
    steps = Steps()
    print("ready", file=answers)
    for line in requests:
        print(json.dumps(answer(module, steps, notes, json.loads(line))), file=answers)


if __name__ == "__main__":
    main()
