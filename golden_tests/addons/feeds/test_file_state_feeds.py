"""Feeds of states in one SQLite file."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flintlog
import pyarrow as pa
import pytest
from flintlog.runtime.addons.feeds import file_state_feeds
from flintlog.runtime.database.commands import open_file_state
from flintlog.runtime.kernel.errors import Passing
from flintlog.runtime.row_kernel import methods
from flintlog.targets.database.lower import lower_rows

from golden_tests.addons.feeds.test_folder import put
from golden_tests.addons.feeds.world import (
    NULLS,
    PROGRAM,
    FileWorld,
    append,
    applied,
    delete,
    links,
    make_table,
    refusal,
)
from golden_tests.harness import compile_text
from golden_tests.job.kill import in_child, killing_connect
from golden_tests.nightly import AT_NIGHT

assert methods, "registered"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[FileWorld]:
    """A program without a state."""
    made = FileWorld(tmp_path)
    yield made
    made.close()


def test_from_a_table_to_views(world: FileWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows at one version, then each range of versions once, and no commit where nothing is new."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)))
    assert world.run("connect", f"link=delta:{table}") == 0
    assert applied(world, capsys)["batch"] == "link@..0"
    world.check({(1, 2), (2, 3)})
    append(table, (3, 4))
    result = applied(world, capsys)
    assert result["batch"] == "link@0..1" and result["changes"]["link"] == {"inserted": 1, "deleted": 0}
    world.check({(1, 2), (2, 3), (3, 4)})
    assert world.run("apply") == 0
    assert f"nothing new in link (delta:{table})" in capsys.readouterr().out
    assert world.manifest.commit == 3
    assert world.run("status") == 0
    assert f"link is fed by delta:{table}, read up to version 1" in capsys.readouterr().out
    assert world.run("connect", f"link=delta:{table}") == 0
    assert "this is connected already" in capsys.readouterr().out


def test_rows_that_were_there(world: FileWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """A feed that is connected to a relation with rows is compared with them as a whole, nulls included."""
    nullable = FileWorld(world.folder / "nulls", NULLS)
    (world.folder / "nulls").mkdir()
    (world.folder / "mail.csv").write_text("id,email\n1,a@x\n2,\n3,\n")
    assert nullable.run("build", "--input", str(world.folder / "mail.csv")) == 0
    rows = pa.table({"id": pa.array([1, 2, 4], pa.int64()), "email": pa.array(["a@x", None, None])})
    table = make_table(world.folder / "mail", rows)
    assert nullable.run("connect", f"mail=delta:{table}") == 0
    assert applied(nullable, capsys)["changes"]["mail"] == {"inserted": 1, "deleted": 1}
    assert nullable.rows("mail") == {(1, "a@x"), (2, None), (4, None)}
    assert nullable.rows("silent") == {(2,), (4,)}
    nullable.close()


def test_many_rows(world: FileWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are compared are read a part at a time, and none is left out."""
    monkeypatch.setattr(file_state_feeds, "ROWS_AT_ONCE", 3)
    pairs = {(n, n + 1) for n in range(10)}
    table = make_table(world.folder / "lake", links(*sorted(pairs)))
    assert world.run("connect", f"link=delta:{table}") == world.run("apply") == 0
    world.check(pairs)
    assert applied(world, capsys, "--resync", "link")["changes"] == {}
    delete(table, "src > 7")
    assert applied(world, capsys, "--resync", "link")["changes"]["link"] == {"inserted": 0, "deleted": 2}
    world.check({pair for pair in pairs if pair[0] < 8})


def test_refusals(world: FileWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """What has a feed is changed there only; what is wrong leaves the state and its feeds as they were."""
    assert world.run("build") == 0
    assert "no feed is connected to this state" in refusal(world, capsys)
    folder = world.folder / "incoming"
    put(folder, "a.csv", "+1,2")
    assert "person has no feed; these have one: none" in refusal(world, capsys, "--remove", "person", command="connect")
    assert world.run("connect", f"link=files:{folder}") == world.run("apply", "--batch", "b") - 1 == 0
    assert "--batch is for changes that are given" in capsys.readouterr().err
    assert world.run("apply") == 0
    given = world.folder / "link.csv"
    given.write_text("op,src,dst\n+,5,6\n")
    told = f"link is fed by files:{folder}: change its rows there, or `connect --remove link` first"
    assert told in refusal(world, capsys, "--changes", str(given))
    assert "--feed and --resync are for feeds" in refusal(world, capsys, "--changes", str(given), "--resync", "link")
    batch = next(iter(world.manifest.feeds["link"].position["files"]))
    assert batch == "a.csv"
    with open_file_state(world.program, str(world.state)) as database:
        name = database.commit.batch
    assert told in refusal(world, capsys, name, command="revert")
    with (
        flintlog.open(world_program(world), world.state) as view,
        pytest.raises(flintlog.JobError, match="is fed by files:"),
    ):
        view.apply(link=[("+", 7, 8)])
    put(folder, "b.csv", "+3,x")
    assert "b.csv" in refusal(world, capsys)
    world.check({(1, 2)})
    assert world.run("connect", "--remove", "link") == 0
    assert world.run("apply", "--changes", str(given)) == 0
    world.check({(1, 2), (5, 6)})


def world_program(world: FileWorld) -> Path:
    """Return a file with the program."""
    path = world.folder / "net.dl"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def test_rows_given_anew(world: FileWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """``rebuild`` with other rows lets the next batch compare them with the feed as a whole."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)))
    assert world.run("connect", f"link=delta:{table}") == world.run("apply") == 0
    given = world.folder / "link.csv"
    given.write_text("src,dst\n8,9\n")
    assert world.run("rebuild", "--input", str(given)) == 0
    world.check({(8, 9)})
    assert applied(world, capsys)["changes"]["link"] == {"inserted": 2, "deleted": 1}
    world.check({(1, 2), (2, 3)})


def test_upgrades(world: FileWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """A feed stays where its input has the rows that were read, is compared anew where they are read otherwise, and
    goes with the input; one that comes back is connected anew."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)))
    assert world.run("connect", f"link=delta:{table}") == world.run("apply") == 0

    def turn(text: str) -> str:
        """Upgrade the state to a program, and return what is said."""
        world.program = lower_rows(compile_text(text, "net.dl")[0].plan)
        assert world.run("upgrade") == 0
        return capsys.readouterr().out

    turn(PROGRAM.replace("reachable(S, D) :- link(S, D).", "reachable(S, D) :- link(S, D), S != D."))
    assert world.run("apply") == 0
    assert "nothing new in link" in capsys.readouterr().out
    turn(PROGRAM.replace("input relation link", "input multiset relation link"))
    assert world.manifest.feeds["link"].position == {}
    assert applied(world, capsys)["changes"] == {}
    assert world.rows("link") == {(1, 2), (2, 3)}
    turn("input relation person(id: int, name: string)\noutput person.")
    assert world.manifest.feeds == {}
    turn(PROGRAM)
    assert world.rows("link") == set()
    assert "no feed is connected" in refusal(world, capsys)
    assert world.run("connect", f"link=delta:{table}") == world.run("apply") == 0
    world.check({(1, 2), (2, 3)})


def test_another_process_commits(
    world: FileWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were compared with an earlier commit are not applied; the next try compares them again."""
    table = make_table(world.folder / "lake", links((1, 2)))
    assert world.run("connect", f"link=delta:{table}") == 0
    take, other = file_state_feeds.take, world.folder / "person.csv"
    other.write_text("op,id,name\n+,2,two\n")

    def slow(*given: Any) -> Any:
        monkeypatch.setattr(file_state_feeds, "take", take)
        assert world.run("apply", "--changes", str(other)) == 0
        return take(*given)

    monkeypatch.setattr(file_state_feeds, "take", slow)
    assert world.run("apply") == 1
    assert "another process has changed" in capsys.readouterr().err
    assert issubclass(Passing, flintlog.JobError)
    assert world.run("apply") == 0
    world.check({(1, 2)})
    assert world.rows("named") == {(1, "two")}


UNREAD = "is damaged: its setting feeds cannot be read"
FORGED = {
    '{"link": 7}': UNREAD,
    '{"link": {"source": 7}}': UNREAD,
    "[]": UNREAD,
    "{": UNREAD,
    '{"link": {"source": "files:", "columns": 7, "where": ""}}': "is damaged: of its feeds",
    '{"link": {"source": "files:", "columns": {}, "where": ""}}': "files: is not a feed",
}


@pytest.mark.parametrize(("feeds", "said"), FORGED.items())
def test_a_forged_record(feeds: str, said: str, world: FileWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused with a reason, by commands that read no feed as well."""
    assert world.run("build") == 0
    with sqlite3.connect(world.state) as connection:
        connection.execute("REPLACE INTO _settings VALUES ('feeds', ?)", (feeds,))
    connection.close()
    given = world.folder / "link.csv"
    given.write_text("op,src,dst\n+,5,6\n")
    told = said if said == UNREAD else "link is fed by files:"
    for command, wanted in ((["apply"], said), (["apply", "--changes", str(given)], told), (["status"], said)):
        code = world.run(*command)
        assert code == (0 if "is not a feed" in said and command == ["status"] else 1)
        assert code == 0 or wanted in capsys.readouterr().err


@pytest.mark.parametrize("apart", [61, pytest.param(5, marks=AT_NIGHT)])
def test_killed(apart: int, tmp_path: Path) -> None:
    """Killed after any number of steps of SQLite's, a range is applied and recorded, or neither."""
    for number, steps in enumerate(range(3, 40_000, apart * 10)):
        folder = tmp_path / str(number)
        folder.mkdir()
        world = FileWorld(folder)
        put(folder / "incoming", "a.csv", "+1,2", "+2,3")
        assert world.run("connect", f"link=files:{folder / 'incoming'}") == world.run("apply") == 0
        put(folder / "incoming", "b.csv", "+3,4")

        def work(steps: int = steps, world: FileWorld = world) -> None:
            sqlite3.connect = killing_connect(steps)
            assert world.run("apply") == 0

        ended = in_child(work)
        assert ended in (0, signal.SIGKILL), ended
        assert world.run("apply") == 0
        world.check({(1, 2), (2, 3), (3, 4)})
        assert world.manifest.commit == 3
        world.close()
        if ended == 0:
            assert number > 2
            return


def test_follow(world: FileWorld) -> None:
    """By the command line, until a signal; each batch is a range of versions."""
    table = make_table(world.folder / "lake", links((1, 2)))
    files = flintlog.compile(PROGRAM, target="database").files
    script = world.folder / "net.py"
    script.write_text(files["program.py"], encoding="utf-8")
    state = world.folder / "other.db"

    def command(name: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "flintlog", "job", name, str(script), "--state", str(state), *arguments]

    subprocess.run([sys.executable, script, "init", "--state", state, "--quiet"], check=True, capture_output=True)
    said = subprocess.run([sys.executable, script, "connect", "--state", state], capture_output=True, text=True)
    assert said.returncode == 2 and "run `flintlog job connect SCRIPT`" in said.stderr
    subprocess.run(command("connect", f"link=delta:{table}"), check=True, capture_output=True)
    follow = command("follow", "--json", "--poll", "0.02")
    with subprocess.Popen(
        follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout
        assert json.loads(process.stdout.readline())["batch"] == "link@..0"
        append(table, (2, 3))
        assert json.loads(process.stdout.readline())["batch"] == "link@0..1"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    with sqlite3.connect(state) as connection:
        rows = connection.execute("SELECT src, dst FROM reachable ORDER BY 1, 2").fetchall()
    connection.close()
    assert rows == [(1, 2), (1, 3), (2, 3)]
