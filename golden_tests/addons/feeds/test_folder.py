"""The feed ``files:``, ``follow`` of feeds, and kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from golden_tests.addons.feeds.conftest import Applied
from golden_tests.addons.feeds.lake import settings
from golden_tests.addons.feeds.world import FeedWorld, append, links, make_table
from golden_tests.nightly import AT_NIGHT, by_day


def put(folder: Path, name: str, *changes: str) -> None:
    """Put a file with changes such as ``+3,4`` into a folder."""
    folder.mkdir(exist_ok=True)
    lines = [f"{change[0]},{change[1:]}" for change in changes]
    (folder / f".{name}").write_text("\n".join(["op,src,dst", *lines, ""]), encoding="utf-8")
    (folder / f".{name}").rename(folder / name)


def test_new_names_are_new(world: FeedWorld, applied: Applied, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file is applied once, those of one batch in the order of their names; a removed one stays known."""
    folder = world.folder / "incoming"
    put(folder, "b.csv", "+1,2", "+2,3")
    assert world.run("connect", f"link=files:{folder}") == world.run("init") == 0
    put(folder, "c.csv", "-1,2", "+3,4")
    put(folder, "a.csv", "+9,9")
    put(folder, "d.csv", "+1,2", "-9,9", "-3,4")
    put(folder, ".half.csv", "+5")
    assert applied()["changes"] == {}
    world.check({(1, 2), (2, 3)})
    (folder / "b.csv").unlink()
    put(folder, "e.csv", "-2,3")
    assert applied()["changes"]["link"] == {"inserted": 0, "deleted": 1}
    world.check({(1, 2)})
    put(folder, "b.csv", "+1,2", "+2,3")
    assert not applied()["applied"]
    put(folder, "b.csv", "+1,2", "+2,3", "+7,7")
    assert world.run("apply") == 1
    assert "add changes as a file with a new name" in " ".join(capsys.readouterr().err.split())
    (folder / "b.csv").unlink()
    assert world.run("apply", "--resync", "link") == 1
    assert "is no longer there" in capsys.readouterr().err


def test_a_contradiction_in_one_file_is_refused(world: FeedWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """As without a feed: the rows of a file have no order."""
    folder = world.folder / "incoming"
    put(folder, "1.csv", "+1,2")
    assert world.run("connect", f"link=files:{folder}") == world.run("init") == 0
    put(folder, "2.csv", "-1,2", "+1,2")
    assert world.run("apply") == 1
    assert "is both deleted" in capsys.readouterr().err
    assert world.run("apply", "--net", "insert") == 0
    world.check({(1, 2)})


def test_follow_applies_what_arrives(world: FeedWorld) -> None:
    """Until a signal; each batch is a range of versions."""
    table = make_table(world.folder / "lake", links((1, 2)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    append(table, (2, 3))
    command = [sys.executable, str(world.script), "follow", "--state", str(world.state), "--json", "--poll", "0.02"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stdout
        assert json.loads(process.stdout.readline())["batch"] == "link@0..1"
        append(table, (3, 4))
        assert json.loads(process.stdout.readline())["batch"] == "link@1..2"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    world.check({(1, 2), (2, 3), (3, 4)})


@by_day(1)
@pytest.mark.parametrize(
    ("kind", "apart"),
    [
        ("lake", 157),
        ("topic", 157),
        # Each child takes longer, since it opens the catalog.
        ("iceberg", 409),
        *(pytest.param(kind, 4, marks=AT_NIGHT) for kind in ("lake", "topic", "iceberg")),
        # Output relations are tables, too.
        ("topic delta", 809),
        *(
            pytest.param(f"{kind} {views}", 4, marks=AT_NIGHT)
            for kind in ("lake", "topic", "iceberg")
            for views in ("delta", "iceberg")
        ),
    ],
)
def test_killed_at_any_step(tmp_path: Path, apart: int, kind: str) -> None:
    """Each range is applied and published exactly once."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", "golden_tests.addons.feeds.kill", str(apart), *kind.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root), **settings(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) >= 50 // apart
