"""What the functions of a job take: sessions and executors, and values of the declared kinds."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons import registration
from flintlog.runtime.job.job import Job
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.store.executors import LocalExecutor
from flintlog.runtime.system.log import Log
from flintlog.targets.pyspark.load import load_program

from golden_tests.harness import compile_text, load_script

assert registration

PROGRAM = """
input relation e(x: int, y: int)
output p.
p(X, Y) :- e(X, Y).
p(X, Y) :- p(X, Z), e(Z, Y).
"""

COMMANDS: dict[str, dict[str, Any]] = {
    "apply": {"changes": {}},
    "relation": {"name": "p"},
    "explain": {"asked": "p(1, 2)"},
    "verify": {},
    "changes": {"name": "p", "since": 1},
    "revert": {"reverted": "more"},
    "rebuild": {},
    "upgrade": {},
    "compact": {},
    "rollback": {"to": 1},
    "connect": {"sources": "e=files:nowhere"},
}
"""The functions that take a session, with further arguments; ``init`` comes before them."""


@pytest.fixture(scope="module")
def job() -> Job:
    """The functions of the program."""
    return Job(load_program(compile_program(SourceFile("net.dl", PROGRAM)).plan))


def made(job: Any, spark: Any, folder: Path, **options: Any) -> str:
    """A state of two commits."""
    rows, changes, state = folder / "e.csv", folder / "changes.csv", str(folder / "state")
    rows.write_text("x,y\n1,2\n2,3\n", encoding="utf-8")
    changes.write_text("op,x,y\n+,3,4\n", encoding="utf-8")
    job.init(spark, state, {"e": str(rows)}, log=Log(quiet=True), **options)
    job.apply(spark, state, {"e": str(changes)}, batch="more", log=Log(quiet=True))
    return state


def quietly(job: Any, name: str, given: Any, state: str) -> Any:
    """Call a function of the job."""
    call = getattr(job, name)
    log = {"log": Log(quiet=True)} if "log" in inspect.signature(call).parameters else {}
    return call(given, state, **COMMANDS[name], **log)


def test_commands_are_all_that_take_a_session(job: Job) -> None:
    """The list is complete."""
    takes = {name for name in dir(job) if name[0] != "_" and name != "program" and "spark" in signature(job, name)}
    assert takes == {*COMMANDS, "init"}


def signature(job: Job, name: str) -> list[str]:
    """The names of what a function takes."""
    return list(inspect.signature(getattr(job, name)).parameters)


def test_every_function_takes_an_executor(job: Job, tmp_path: Path) -> None:
    """With an executor of this process, functions do what they do with None."""
    with LocalExecutor(2, keep=True) as kept:
        results = []
        for number, given in enumerate((None, kept)):
            folder = tmp_path / str(number)
            folder.mkdir()
            state = made(job, given, folder)
            found = {name: quietly(job, name, given, state) for name in COMMANDS if name != "connect"}
            results.append(
                {
                    name: result.get("commit") if isinstance(result, dict) else sorted(result.to_pylist(), key=str)
                    for name, result in found.items()
                }
            )
    assert results[0] == results[1] and sorted(map(tuple, (row.values() for row in results[1]["changes"])))


@pytest.mark.parametrize("given", [object(), "local[2]", 2, LocalExecutor])
def test_others_are_refused(job: Job, tmp_path: Path, given: Any) -> None:
    """What is neither a session nor an executor is refused in one way, and changes nothing."""
    state = made(job, None, tmp_path)
    for name in COMMANDS:
        with pytest.raises(TypeError, match="takes a SparkSession, None or its own LocalExecutor, not builtins"):
            quietly(job, name, given, state)
    with pytest.raises(TypeError, match="takes a SparkSession, None or its own LocalExecutor, not"):
        made(job, given, tmp_path)
    assert job.status(state)["commit"] == 2


def test_executors_of_other_scripts_are_refused(job: Job, tmp_path: Path) -> None:
    """Databases that a process keeps belong to the runtime that made them."""
    script: Any = load_script(compile_text(PROGRAM, "net.dl")[1])
    state = made(job, None, tmp_path)
    with pytest.raises(TypeError, match="another script or runtime; take the one of flintlog"):
        job.apply(script.LocalExecutor(keep=True), state, {})
    with pytest.raises(TypeError, match=f"that of another script or runtime; take the one of {script.__name__}"):
        script.relation(LocalExecutor(), state, "p")


def test_values_of_other_kinds_are_refused(job: Job, tmp_path: Path) -> None:
    """What is declared to be text, a number or a truth value must be one; every refusal names the parameter."""
    state = made(job, None, tmp_path)
    for name in (*COMMANDS, "init", "status", "recover", "history", "vacuum", "export", "import_archive"):
        for parameter in inspect.signature(getattr(job, name)).parameters.values():
            if {*str(parameter.annotation).split(" | ")} <= {"str", "int", "bool", "None"}:
                needed = {"spark": None, "state": state, "to": "x", "archive": "x", **COMMANDS.get(name, {})}
                given = {one: needed[one] for one in signature(job, name) if one in needed} | {parameter.name: 2.5}
                with pytest.raises(TypeError, match=f"{parameter.name} is 2.5; it must be "):
                    getattr(job, name)(**given)
    assert job.status(state)["commit"] == 2


def test_kinds_of_values(job: Job, tmp_path: Path) -> None:
    """Paths are taken as text, whole numbers of all types as numbers; how many commits to keep also as a number."""
    state = Path(made(job, None, tmp_path, keep=40, buckets=np.int64(2)))
    assert job.status(state)["buckets"] == 2 and job.history(state, limit=np.int32(1))["keep"] == "40"
    assert job.vacuum(state, keep=np.int64(3), log=Log(quiet=True))["keep"] == "3"
    with pytest.raises(JobError, match='1" does not say how long to keep commits'):
        job.vacuum(state, keep=1)
    with pytest.raises(TypeError, match="buckets is True; it must be int or None"):
        job.rebuild(None, state, buckets=True)
