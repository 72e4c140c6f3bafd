"""``--quarantine`` with a state in a file: a batch with bad rows changes what it changes without them, and these are in
a file, once."""

from __future__ import annotations

import contextlib
import errno
import json
import random
import signal
import sqlite3
from pathlib import Path
from typing import Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons import file_quarantine
from flintlog.runtime.database import commands, decimals, job_commands
from flintlog.runtime.database.state import open_file_state
from flintlog.runtime.kernel.errors import JobError, Passing
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.system.log import Log
from flintlog.targets.database.lower import lower_rows

from golden_tests.harness import VERSION
from golden_tests.job.kill import in_child, killing_connect
from golden_tests.job.test_quarantine import (
    COLUMNS,
    KEYED,
    KINDS,
    SET,
    json_lines,
    random_lines,
    set_aside,
    write,
)
from golden_tests.nightly import NIGHTLY, seeds

assert methods and decimals and job_commands and file_quarantine, "registered"

QUIET = Log(True)


class World:
    """A state in a file."""

    def __init__(self, folder: Path, text: str) -> None:
        """Build it without rows."""
        folder.mkdir()
        self.state = str(folder / "state.db")
        self.program = lower_rows(compile_program(SourceFile("test.dl", text)).plan, VERSION)
        commands.init_file(self.program, self.state, log=QUIET)

    def apply(self, file: str | Path, batch: str | None = None, **options: Any) -> Any:
        """Apply a file of changes."""
        return commands.apply_file(self.program, self.state, f"item={file}", batch, **{"log": QUIET, **options})

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The items and the totals."""
        with open_file_state(self.program, self.state) as database:
            assert database.differences() == []
            return [row for relation in self.program.relations for row in database.rows(relation)]

    @property
    def waiting(self) -> Any:
        """What is to be written to files."""
        with open_file_state(self.program, self.state) as database:
            return database.records("set_aside")


@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize("seed", seeds(2, 20))
def test_as_without_bad_rows(form: str, seed: int, tmp_path: Path) -> None:
    """A file with bad rows changes what the same file changes without them."""
    rng = random.Random(f"{form} {seed}")
    keyed, ordered = rng.random() < 0.5, rng.random() < 0.5
    world, other = (World(tmp_path / name, KEYED if keyed else SET) for name in ("with", "without"))
    names, aside = COLUMNS if ordered else COLUMNS[:-1], tmp_path / "aside"
    options = {"order_column": "at"} if ordered else {}
    for number in range(4):
        lines = random_lines(rng, form, keyed, ordered, number)
        good = [line for line in lines if not line.reason]
        if not good:
            continue
        with_bad = write(tmp_path / f"{number}{form}", names, lines)
        other.apply(write(tmp_path / f"good{form}", names, good), **options)
        bad = [(row, line) for row, line in enumerate(lines, start=1) if line.reason]
        if bad:
            with pytest.raises(JobError):
                world.apply(with_bad, str(number), **options)
        done = world.apply(with_bad, str(number), quarantine=str(aside), **options)
        assert done.get("set_aside", {}) == ({"item": len(bad)} if bad else {})
        assert world.rows == other.rows and world.waiting == {}
        found = [one for one in set_aside(aside) if one["file"] == with_bad]
        assert [(one["row"], one["relation"]) for one in found] == [(row, "item") for row, _ in bad]
        for one, (_, line) in zip(found, bad, strict=True):
            (problem,) = (said for said in one["problems"] if said["column"] == line.column)
            assert line.reason in problem["reason"]
            if isinstance(one["values"], dict):
                assert one["values"].keys() <= {*names}
            elif form == ".jsonl" or line.reason.startswith("text"):
                assert one["values"] == line.content
        assert not world.apply(with_bad, str(number), quarantine=str(aside), **options)["applied"]
    assert not [*aside.rglob(".*")]


def test_what_is_said(tmp_path: Path) -> None:
    """Counts and places are in the result and the log; nulls are left out if they are to be; rows can be mended."""
    world, log, aside = World(tmp_path / "state", KEYED), tmp_path / "log", tmp_path / "aside"
    path = tmp_path / "item.csv"
    path.write_text("op,id,shop,size,price,note\n+,1,a,1,1,\n+,2,,1,1,\n+,3,a,x,1,\nno,4,,1,1,\n+,5,a,x,99999,\n")
    done = world.apply(path, "b/1", nulls="skip", quarantine=str(aside), log=Log(True, file=str(log)))
    (file,) = done["quarantine"].values()
    assert (done["left_out"], done["set_aside"]) == ({"item": 1}, {"item": 3})
    assert Path(file).parent == aside / "batch=b%2F1" / "item"
    assert 'event="set aside"' in log.read_text() and f'relation=item rows=3 file="{file}"' in log.read_text()
    assert [json.loads(line)["problems"] for line in Path(file).read_text().splitlines()] == [
        [{"column": "size", "reason": '"x" is not an int'}],
        [{"column": "op", "reason": 'unknown operation "no"'}],
        [
            {"column": "size", "reason": '"x" is not an int'},
            {"column": "price", "reason": "99999 has too many digits for decimal(4,1)"},
        ],
    ]
    mended = [
        {**one["values"], "id": int(one["values"]["id"]), "size": 7, "shop": "b", "price": "0.5", "op": "+"}
        for one in set_aside(aside)
    ]
    lines = tmp_path / "item.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in mended), encoding="utf-8")
    assert world.apply(lines)["changes"]["item"] == {"inserted": 3, "deleted": 0}


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot take files is refused before anything is done; a folder that fails later is told, and taken again."""
    world, path = World(tmp_path / "state", SET), tmp_path / "item.csv"
    path.write_text("op,id,shop,size,price,note\n+,1,a,x,1,\n+,2,a,1,1,\n")
    with pytest.raises(JobError, match="is not a folder"):
        world.apply(path, "one", quarantine=str(path))
    blocked = tmp_path / "aside"
    blocked.mkdir()
    (blocked / "batch=one").write_text("a file where a folder is to be\n")
    with pytest.raises(JobError, match=r"rows cannot be set aside in .*; nothing has changed"):
        world.apply(path, "one", quarantine=str(blocked))
    assert world.waiting == {} and world.rows == []
    (blocked / "batch=one").unlink()
    with monkeypatch.context() as full, pytest.raises(Passing, match="the batch is applied, and rows that it has set"):
        full.setattr(file_quarantine, "write_new_file", no_space)
        world.apply(path, "one", quarantine=str(blocked))
    assert len(world.waiting) == 1 and len(world.rows) == 2
    assert not world.apply(path, "one")["applied"] and len(world.waiting) == 1
    assert "the next one with --quarantine DIR does" in capsys.readouterr().err
    other = tmp_path / "other"
    # The folder of the command is the one that counts.
    assert not world.apply(path, "one", quarantine=str(other))["applied"]
    assert len(set_aside(other)) == 1 and set_aside(blocked) == [] and world.waiting == {}


def no_space(*given: Any) -> None:
    """Fail as a full disk."""
    raise OSError(errno.ENOSPC, "No space left on device")


HARMLESS = {f"{1:012d}-01234567.jsonl": ["b", {"item": "{}\n"}]}


@pytest.mark.parametrize(
    "waiting",
    [
        {"/tmp/x.jsonl": ["b", {"item": ""}]},
        {f"{1:012d}-01234567.jsonl/../x": ["b", {"item": ""}]},
        {f"{1:012d}-01234567.jsonl": ["b", {"../item": ""}]},
        {f"{1:012d}-01234567.jsonl": ["b", {"..": ""}]},
        {f"{1:012d}-01234567.jsonl": ["b", {"/tmp": ""}]},
        {f"{1:012d}-01234567.jsonl": ["b", {"item": 1}]},
        {f"{1:012d}-01234567.jsonl": ["b\n", {"item": ""}]},
        {f"{1:012d}-01234567.jsonl": [1, {"item": ""}]},
        {f"{1:012d}-01234567.jsonl": ["b", []]},
        {f"{1:012d}-01234567.jsonl": "b"},
        ["b"],
    ],
)
def test_a_file_of_others(waiting: Any, tmp_path: Path) -> None:
    """What a file says of rows to be written is refused if it names a place, and overwrites nothing."""
    world, path, aside = World(tmp_path / "state", SET), tmp_path / "item.csv", tmp_path / "aside"
    path.write_text("op,id,shop,size,price,note\n+,2,a,1,1,\n")

    def say(said: Any) -> None:
        with contextlib.closing(sqlite3.connect(world.state)) as connection, connection:
            connection.execute("REPLACE INTO _settings VALUES ('set_aside', ?)", (json.dumps(said),))

    say(waiting)
    with pytest.raises(JobError, match="is damaged: its setting set_aside cannot be read"):
        world.apply(path, "one", quarantine=str(aside))
    assert not aside.exists()
    say(HARMLESS)
    mine = aside / "batch=b" / "item" / next(iter(HARMLESS))
    mine.parent.mkdir(parents=True)
    mine.write_text("mine\n")
    assert world.apply(path, "one", quarantine=str(aside))["applied"]
    assert mine.read_text() == "mine\n" and world.waiting == {}
    assert [*mine.parent.iterdir()] == [mine]


def test_killed(tmp_path: Path) -> None:
    """Whenever the command is killed: the batch and its rows are there, or neither; the next one moves them."""
    world, path = World(tmp_path / "state", SET), tmp_path / "item.csv"
    path.write_text("op,id,shop,size,price,note\n+,1,a,x,1,\n+,2,a,1,1,\n+,3,a\n")
    content, ended, kills, steps = Path(world.state).read_bytes(), int(signal.SIGKILL), 0, 100
    while ended:
        kills, steps = kills + 1, int(steps * (1.02 if NIGHTLY else 1.2))
        aside = tmp_path / f"aside {kills}"
        Path(world.state).write_bytes(content)

        def killed(steps: int = steps, aside: Path = aside) -> None:
            sqlite3.connect = killing_connect(steps)  # type: ignore[assignment]
            world.apply(path, "one", quarantine=str(aside))

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        there = commands.status_file(world.program, world.state)["batch"] == "one"
        assert len(world.rows) == (2 if there else 0)
        done = world.apply(path, "one", quarantine=str(aside))
        assert done["applied"] is not there
        assert [one["row"] for one in set_aside(aside)] == [1, 3] and world.waiting == {}
    assert kills > 10


def test_commands(tmp_path: Path) -> None:
    """`flintlog job` has the option; the script has not."""
    files = flintlog.compile(SET, target="database", format=False).files
    script = tmp_path / "test.py"
    script.write_text(next(iter(files.values())), encoding="utf-8")
    rng = random.Random(1)
    row = {"id": 1, "shop": "a", "size": 1, "price": "0.5", "note": None, "op": "+"}
    lines = [json_lines(rng, dict(row), COLUMNS[:-1], bad) for bad in (True, False)]
    given = write(tmp_path / "item.jsonl", COLUMNS[:-1], lines)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(
            main, ["job", arguments[0], str(script), "--state", str(tmp_path / "s.db"), *arguments[1:]]
        )

    assert run("init").exit_code == 0
    done = run("apply", "--changes", given, "--quarantine", str(tmp_path / "aside"))
    assert done.exit_code == 0 and "(1 row set aside)" in done.output and "  set aside of item: " in done.output
    assert len(set_aside(tmp_path / "aside")) == 1
    assert "--quarantine" not in script.read_text(encoding="utf-8")
