"""A state and its copy that publish to one folder: their changes would be mixed, so the second one is refused."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.harness import compile_text, load_script

PROGRAM = """
input relation link(src: int, dst: int)
output relation pair(src: int, dst: int)
pair(S, D) :- link(S, D).
"""


class Publisher:
    """A job with states that publish to a folder outside."""

    def __init__(self, folder: Path) -> None:
        """Build a state."""
        self.folder, self.out = folder, folder / "out"
        self.job: Any = load_script(compile_text(PROGRAM, "net.dl")[1])
        self.rows = folder / "rows.csv"
        self.rows.write_text("src,dst\n1,2\n")
        self.number = 2
        assert self.init("state") == 0

    def init(self, state: str) -> int:
        """Build a state."""
        return self.run("init", state, "--input", f"link={self.rows}")

    def run(self, command: str, state: str, *arguments: str) -> int:
        """Run a command on a state."""
        return int(self.job.main([command, "--state", str(self.folder / state), "--quiet", *arguments]))

    def apply(self, state: str, batch: str = "", out: str = "") -> int:
        """Apply a batch with one row more, and publish its changes outside."""
        self.number += 1
        changes = self.folder / "changes.csv"
        changes.write_text(f"op,src,dst\n+,{self.number},1\n")
        batch = batch or f"b{self.number}"
        where = ("--publish", out or str(self.out), "--batch", batch)
        return self.run("apply", state, "--changes", f"link={changes}", *where)

    @property
    def owner(self) -> Path:
        """The file that tells where the only state that publishes outside lies."""
        (found,) = (self.out / "pair" / "changes").glob("_owner-*.json")
        return found

    def published(self) -> int:
        """Return how many batches are published."""
        return len(list((self.out / "pair" / "changes").glob("batch=*")))


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[Publisher]:
    """A job with a state."""
    made = Publisher(tmp_path)
    yield made
    del sys.modules[made.job.__name__]


def test_a_copy(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused before it commits, and publishes elsewhere; when the original is gone, it can take its place."""
    assert publisher.apply("state") == publisher.apply("state") == 0
    shutil.copytree(publisher.folder / "state", publisher.folder / "copy")
    capsys.readouterr()
    assert publisher.apply("copy") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"the state in {publisher.folder / 'state'} publishes, and this one, in {publisher.folder / 'copy'}" in said
    assert f"remove {publisher.owner}" in said
    assert len(list((publisher.folder / "copy" / "manifest").glob("0*.json"))) == 3
    assert publisher.published() == 2
    assert publisher.apply("copy", out=str(publisher.folder / "other")) == 0
    assert publisher.apply("state") == 0
    publisher.owner.unlink()
    assert publisher.apply("copy") == 0
    assert publisher.apply("state") == 1


def test_another_state(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    """States of their own may share a folder, also one built where the first one was; each is told from its copies."""
    assert publisher.apply("state") == 0
    shutil.move(publisher.folder / "state", publisher.folder / "former")
    assert publisher.apply("former") == 0
    assert publisher.init("state") == 0
    assert publisher.apply("state", "x") == 0
    assert publisher.published() == 3
    shutil.copytree(publisher.folder / "state", publisher.folder / "copy")
    assert publisher.apply("copy", "y") == 1
    assert "is a copy of it" in " ".join(capsys.readouterr().err.split())
    assert publisher.apply("state", "y") == publisher.apply("former", "z") == 0
    assert publisher.published() == 5


def test_a_state_of_an_earlier_release(publisher: Publisher) -> None:
    """It gets its origin with the next commit; a folder without an owner gets one."""
    job, root = publisher.job, publisher.folder / "state"
    assert publisher.apply("state") == 0
    publisher.owner.unlink()
    path = root / "manifest" / "000000000002.json"
    record = vars(job.read_state(root)) | {"origin": ""}
    path.write_text(job.sealed(record))
    assert publisher.apply("state") == publisher.apply("state") == 0
    assert publisher.owner.exists() and job.read_state(root).origin
    assert publisher.run("rollback", "state", "--to", "2", "--publish", str(publisher.out)) == 0
    assert publisher.apply("state") == 0


def test_a_damaged_owner(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    """It says how to go on."""
    assert publisher.apply("state") == 0
    publisher.owner.write_text("{}")
    assert publisher.apply("state") == 1
    assert ".json is damaged (its CRC-32 is missing); remove it" in " ".join(capsys.readouterr().err.split())
