"""Scripts of the target database as users run them: the commands, the file, and files that are none."""

from __future__ import annotations

import ast
import json
import os
import sqlite3
import subprocess
import sys
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.database.jobs import loaded, script_text

ROOT = Path(__file__).parents[2]

REACH = ROOT / "examples" / "reach" / "reach.dl"


@cache
def reach() -> str:
    """The script of the example."""
    return script_text(compile_program(REACH), True)


def text_of(program: str) -> str:
    """The script of a program given as text."""
    return script_text(compile_program(SourceFile("test.dl", program)))


def run(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a script where nothing but the standard library can be imported."""
    command = [sys.executable, "-S", "-E", "-I", str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def links(tmp_path: Path) -> Path:
    """A folder with the script of the example and its links, and with a state."""
    (tmp_path / "reach.py").write_text(reach(), encoding="utf-8")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "link.csv").write_text("src,dst\n1,2\n2,3\n", encoding="utf-8")
    job = loaded(reach())
    job.init(str(tmp_path / "reach.db"), str(tmp_path / "links"), log=job.Log(True))
    return tmp_path


def changes(folder: Path, text: str, name: str = "link.csv") -> Path:
    """A file with changes."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_imports_are_of_the_standard_library() -> None:
    """The script imports nothing else, not even in functions that this program calls."""
    found = set()
    for node in ast.walk(ast.parse(reach())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            found.add(str(node.module).split(".")[0])
    assert found - sys.stdlib_module_names <= {"fsspec", "pyarrow", "upath"}, found


def test_commands(links: Path) -> None:
    """All commands, in a Python without packages."""
    script, state = links / "reach.py", links / "reach.db"
    batch = changes(links, "op,src,dst\n+,3,4\n-,1,2\n")

    def done(command: str, *arguments: str | Path) -> str:
        result = run(script, command, "--state", state, *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    fresh = run(script, "init", "--state", links / "fresh.db", "--input", links / "links")
    assert fresh.returncode == 0 and "reachable: 3 tuples  +3 -0" in fresh.stdout
    assert "reachable: 3 tuples  +2 -2" in done("apply", "--changes", batch, "--batch", "monday")
    assert done("apply", "--changes", batch, "--batch", "monday") == "batch monday was applied before; nothing to do\n"
    assert done("show", "reachable", "--format", "csv") == "src,dst\n2,3\n2,4\n3,4\n"
    assert done("show", "reachable", "--at", "2", "--format", "csv") == "src,dst\n2,3\n2,4\n"
    assert done("changes", "reachable", "--since", "1", "--format", "csv") == (
        "op,src,dst\n-,1,2\n-,1,3\n+,2,4\n+,3,4\n"
    )
    assert json.loads(done("status", "--json"))["rows"] == {"link": 2, "reachable": 3}
    assert "commit 2 is exact: 5 tuples" in done("verify")
    assert "commit 2: monday, apply," in done("history")
    assert "+2 -2" in done("revert", "monday")
    done("backup", "--to", links / "copy.db")
    copy = run(script, "show", "--state", links / "copy.db", "reachable", "--format", "csv")
    assert copy.stdout == "src,dst\n1,2\n1,3\n2,3\n"


def test_batches_of_a_folder(links: Path) -> None:
    """Batches in the order of their names, each once; a refused one stops those behind it."""
    job = loaded(reach())
    for name, rows in (("a", "+,3,4"), ("b", "-,3,4"), ("c", "+,x,4"), ("d", "+,7,8")):
        (links / "batches" / name).mkdir(parents=True)
        changes(links / "batches" / name, f"op,src,dst\n{rows}\n")
    arguments = ["apply", "--state", str(links / "reach.db"), "--batches", str(links / "batches"), "--quiet"]
    for _ in range(2):
        assert job.main(arguments) == 1
        assert job.status(str(links / "reach.db"))["batch"] == "b"
    changes(links / "batches" / "c", "op,src,dst\n+,6,4\n")
    assert job.main(arguments) == 0
    assert job.status(str(links / "reach.db"))["commit"] == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op,src,dst\n+,1,x\n", 'link.csv, row 1, column dst: "x" is not an int'),
        ("op,src,dst\n+,1,2\n?,1,3\n", 'link.csv, row 2, column op: unknown operation "?"'),
        ("op,src\n+,1\n", "link.csv: column dst is missing"),
        ("src,dst\n1,2\n", "link.csv: column op is missing, which holds the operation of each change"),
        ("op,src,dst\n+,1\n", "link.csv, row 1: 2 fields instead of 3"),
        ("op,src,dst\n+,1,\n", "link.csv, row 1, column dst: null"),
        ("op,src,dst\n+,9,9\n-,9,9\n", "is both deleted"),
    ],
)
def test_rows_that_are_refused(text: str, said: str, links: Path) -> None:
    """Messages name the file, the row and the column, as in other jobs; nothing changes."""
    job = loaded(reach())
    with pytest.raises(job.Refused, match="refused, nothing has changed") as error:
        job.apply(str(links / "reach.db"), str(changes(links, text)), log=job.Log(True))
    assert said in str(error.value)
    assert job.status(str(links / "reach.db"))["commit"] == 1


def test_views_have_values_as_people_read_them(tmp_path: Path) -> None:
    """Any client reads relations by their names: exact decimals, times, and nulls."""
    job = loaded(
        text_of(
            "input relation price(item: string?, cost: decimal(9,2), total: decimal(30,3), long: decimal(18,4), "
            "day: date, at: timestamp, yes: bool, list: list<int>)\noutput priced.\n"
            "priced(i, c, t, l, d, a, y, s) :- price(i, c, t, l, d, a, y, s)."
        )
    )
    rows: list[list[Any]] = [
        ["tea", "-12.05", "-0.001", "-0.0100", "2026-01-02", "2026-01-02 03:04:05", True, [1, 2]],
        [None, "0", "123456789012345678901234567.890", "12345678901234.5678", "0001-01-01", "9999-12-31", False, []],
        ["x", "7", "-100000000000000000000000000", "5", "2026-01-02", "2026-01-02T03:04:05.000006Z", False, []],
        ["y", "1", "0", "-0.5", "2026-01-02", "2026-01-02 03:04", False, []],
    ]
    rows[1][5] = "9999-12-31 23:59:59"
    names = ["item", "cost", "total", "long", "day", "at", "yes", "list"]
    file = tmp_path / "price.jsonl"
    file.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows), encoding="utf-8")
    job.init(str(tmp_path / "p.db"), str(file), log=job.Log(True))
    connection = sqlite3.connect(tmp_path / "p.db")
    found = connection.execute("SELECT i, c, t, l, d, y, s FROM priced").fetchall()
    by_item: dict[Any, Any] = {row[0]: row[1:] for row in found}
    assert by_item["tea"] == (-12.05, "-0.001", "-0.0100", "2026-01-02", 1, "[1,2]")
    assert by_item[None][:3] == (0.0, "123456789012345678901234567.890", "12345678901234.5678")
    assert Decimal(by_item["x"][1]) == -(10**26) and by_item["x"][2] == "5.0000"
    assert by_item["y"][1:3] == ("0.000", "-0.5000")
    connection.close()


# ---- files that are no state of the program ------------------------------------------------------------------------


def refusal(links: Path) -> str:
    """What the job says of the file."""
    job = loaded(reach())
    for command in (job.status, job.verify):
        with pytest.raises(job.JobError) as error:
            command(str(links / "reach.db"))
    return str(error.value)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("PRAGMA application_id = 7", "not the state of a Flintlog program"),
        ("PRAGMA user_version = 2", "written by a newer version of Flintlog"),
        ("CREATE TRIGGER t AFTER INSERT ON _rows_of_link BEGIN DELETE FROM _commits; END", 'has the trigger "t"'),
        ("CREATE VIEW mine AS SELECT 1", 'has the view "mine"'),
        ("DROP VIEW reachable", 'lacks the view "reachable"'),
        ("CREATE INDEX i ON _rows_of_link (dst, src)", 'has the index "i"'),
        ("DROP TABLE _settings", "has no table _settings"),
        (
            "UPDATE _settings SET value = json_set(value, '$.link[2][0][0]', 'x') WHERE name = 'relations'",
            "link differ",
        ),
        *(
            (f"UPDATE _settings SET value = '{text}' WHERE name = 'relations'", "it does not say what its relations")
            for text in ("x", "7", "[]", '{"link": [1]}', '{"link": ["link", "input", [[1, 2, 3]], 5, 6, 7, 8, 9]}')
        ),
        ("DELETE FROM _commits", "it has no commit"),
    ],
)
def test_files_that_were_changed(sql: str, said: str, links: Path) -> None:
    """A file with anything else than what the program puts there is refused before anything runs."""
    connection = sqlite3.connect(links / "reach.db")
    connection.execute(sql)
    connection.commit()
    connection.close()
    assert said in refusal(links)


def test_files_that_are_no_databases(links: Path) -> None:
    """Text, nothing, a folder, and a database that is cut off."""
    state = links / "reach.db"
    whole = state.read_bytes()
    state.write_text("no database, and long enough to have a header " * 20, encoding="utf-8")
    assert "is not an SQLite database" in refusal(links)
    state.write_bytes(b"")
    assert "there is no state in" in refusal(links)
    state.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in refusal(links)
    state.unlink()
    assert "there is no state in" in refusal(links)
    assert not state.exists()


def test_a_backup_is_forced_to_disk(links: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also its entry in the folder, before anything is said."""
    job, forced = loaded(reach()), []
    monkeypatch.setattr(job, "sync", lambda path: forced.append((path, (links / "copy.db").exists())))
    job.backup(str(links / "reach.db"), str(links / "copy.db"))
    assert forced == [(links, True)]


def test_a_backup_follows_no_link(links: Path) -> None:
    """A link with the name that the copy has until it is whole is no way to somebody's database."""
    job, others = loaded(reach()), links / "others.db"
    with sqlite3.connect(others) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    content = others.read_bytes()
    for name in (f"copy.db.{os.getpid()}.part", "copy.db.part"):
        (links / name).symlink_to(others)
    job.backup(str(links / "reach.db"), str(links / "copy.db"))
    assert others.read_bytes() == content and not (links / "copy.db").is_symlink()
    assert job.status(str(links / "copy.db"))["commit"] == 1


def test_another_program(links: Path, tmp_path: Path) -> None:
    """The state of another version of the program is refused."""
    job = loaded(text_of(REACH.read_text(encoding="utf-8") + "r3: reachable(@S, S) :- link(@S, _).\n"))
    with pytest.raises(job.JobError, match=r"reachable differ; `flintlog job upgrade"):
        job.status(str(links / "reach.db"))
    with pytest.raises(job.JobError, match="there is a database in"):
        job.init(str(links / "reach.db"), str(links / "links"), log=job.Log(True))


def test_a_file_that_is_locked(links: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command waits for another that writes, and gives up with a message that says so; readers do not wait."""
    job = loaded(reach())
    monkeypatch.setattr(job, "LOCK_SECONDS", 0.1)
    other = sqlite3.connect(links / "reach.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    batch = changes(links, "op,src,dst\n+,3,4\n")
    with pytest.raises(job.Passing, match="another process has locked"):
        job.apply(str(links / "reach.db"), str(batch), log=job.Log(True))
    assert job.status(str(links / "reach.db"))["commit"] == 1
    other.execute("ROLLBACK")
    other.close()
    assert job.apply(str(links / "reach.db"), str(batch), log=job.Log(True))["commit"] == 2


def test_changes_that_are_kept(links: Path) -> None:
    """As many commits keep their changes as the state says; those of others cannot be asked for or undone."""
    job, state = loaded(reach()), str(links / "kept.db")
    log = job.Log(True)
    job.init(state, str(links / "links"), keep=2, log=log)
    for number in range(4):
        job.apply(state, str(changes(links, f"op,src,dst\n+,7,{number}\n")), f"b{number}", log=log)
    assert job.status(state)["kept_from"] == 3
    with pytest.raises(job.JobError, match="the state before it is not kept"):
        job.revert(state, "b1", log=log)
    assert job.revert(state, "b2", log=log)["changes"]["link"] == {"inserted": 0, "deleted": 1}
    assert not job.verify(state, log=log)["differences"]


# ---- the command that makes them -----------------------------------------------------------------------------------


def flintlog(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command ``flintlog``."""
    command = [sys.executable, "-m", "flintlog", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_compile(tmp_path: Path) -> None:
    """The command writes the script; what the target lacks is refused."""
    done = flintlog("compile", REACH, "--target", "database", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "reach.py").read_text(encoding="utf-8").count("\n") == reach().count("\n")
    for options in (["--runtime", "beside"], ["--with", "operations"]):
        refused = flintlog("compile", REACH, "--target", "database", "-o", tmp_path, *options)
        assert refused.returncode == 2 and "has none of the options" in refused.stderr
    job = flintlog("job", "status", tmp_path / "reach.py", "--state", tmp_path / "reach.db")
    assert job.returncode == 1 and "there is no state in" in job.stderr
