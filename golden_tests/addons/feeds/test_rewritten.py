"""Feeds whose history was written anew: what was read is no longer there, under the same numbers and names."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.addons.feeds.conftest import Applied
from golden_tests.addons.feeds.world import FeedWorld, append, links, make_table, refusal
from golden_tests.nightly import by_day

Said = pytest.CaptureFixture[str]


def entry(table: str, version: int) -> Path:
    """Return the path of the entry of a version in the log of a Delta table."""
    return Path(table, "_delta_log", f"{version:020d}.json")


def forget_marks(world: FeedWorld, name: str = "link") -> None:
    """Let the last commit be one of a job that did not know marks."""
    manifest = world.manifest
    record = dataclasses.replace(manifest.feeds[name], marks={}, rows=-1)
    text = world.job.sealed(dataclasses.replace(manifest, feeds={**manifest.feeds, name: record}))
    world.job.manifest_path(world.state, manifest.commit).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("recorded", [True, False], ids=["change data feed", "files of versions"])
def test_a_table_restored_from_a_backup(world: FeedWorld, applied: Applied, capsys: Said, recorded: bool) -> None:
    """Another version with the number of the one that was read is noticed, whether or not more follow."""
    table = make_table(world.folder / "lake", links((1, 2)), recorded)
    shutil.copytree(table, world.folder / "backup")
    append(table, (2, 3))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    shutil.rmtree(table)
    shutil.copytree(world.folder / "backup", table)
    assert "is an earlier copy" in refusal(world, capsys)
    append(table, (7, 8))
    for number in (2, 3):
        said = refusal(world, capsys)
        assert "has another version 1 than the one that link was read up to" in said
        assert "`apply --resync link`" in said
        append(table, (number, 9))
    world.check({(1, 2), (2, 3)})
    assert applied("--resync", "link")["changes"]["link"] == {"inserted": 3, "deleted": 1}
    world.check({(1, 2), (7, 8), (2, 9), (3, 9)})
    append(table, (4, 9))
    assert applied()["batch"] == "link@3..4"


def test_the_log_was_cleaned_up(world: FeedWorld, applied: Applied, capsys: Said) -> None:
    """Whether a table continues a version whose entry is gone cannot be told; a checkpoint alone is no obstacle."""
    table = make_table(world.folder / "lake", links((1, 2)))
    append(table, (2, 3))
    DeltaTable(table).create_checkpoint()
    entry(table, 0).unlink()
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    assert not applied()["applied"]
    append(table, (3, 4))
    assert applied()["batch"] == "link@1..2"
    append(table, (4, 5))
    DeltaTable(table).create_checkpoint()
    entry(table, 2).unlink()
    said = refusal(world, capsys)
    assert "no longer has the entry of version 2 in _delta_log, up to which link was read" in said
    assert "`apply --resync link`" in said
    entry(table, 3).rename(entry(table, 3).with_suffix(".away"))
    for command in ((), ("--resync", "link")):
        assert "is at version 3, whose entry is missing in _delta_log" in refusal(world, capsys, *command)
    entry(table, 3).with_suffix(".away").rename(entry(table, 3))
    assert applied("--resync", "link")["batch"] == "link@..3"
    world.check({(1, 2), (2, 3), (3, 4), (4, 5)})


def test_written_anew_while_it_is_read(
    world: FeedWorld, applied: Applied, capsys: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is not taken for what the table had when it was opened."""
    table = make_table(world.folder / "lake", links((1, 2)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    append(table, (2, 3))
    shutil.copytree(table, world.folder / "backup")
    real = DeltaTable.load_cdf

    def load(*given: object, **named: object) -> object:
        found = real(*given, **named)  # type: ignore[arg-type]
        entry(table, 1).write_bytes(entry(table, 1).read_bytes() + b"\n")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "load_cdf", load)
        assert "has another version 1 than when it was opened" in refusal(world, capsys)
    assert applied()["batch"] == "link@0..1"


@by_day(1)
@pytest.mark.parametrize("recorded", [True, False], ids=["change data feed", "files of versions"])
def test_what_the_feed_of_a_table_does_not_tell(world: FeedWorld, applied: Applied, recorded: bool) -> None:
    """Where types and partitions were others for a while, where columns are new, and where a range begins with RESTORE,
    all rows are compared."""
    table = make_table(world.folder / "lake", links((1, 2), (2, 3)), recorded)
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    append(table, (3, 4))
    applied()
    DeltaTable(table).restore(0)
    applied()
    world.check({(1, 2), (2, 3)})
    append(table, (3, 4))
    DeltaTable(table).restore(1)
    append(table, (4, 5))
    applied()
    world.check({(1, 2), (2, 3), (3, 4), (4, 5)})
    wider = links((1, 2), (5, 6)).append_column("more", pa.array([1, 2]))

    def overwrite(rows: pa.Table, **options: Any) -> None:
        write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite", **options)

    overwrite(wider)
    applied()
    world.check({(1, 2), (5, 6)})
    overwrite(pa.table({"src": ["a", "5"], "dst": ["b", "6"]}))
    overwrite(links((1, 2), (6, 7)))
    applied()
    world.check({(1, 2), (6, 7)})
    overwrite(wider.select(["more", "dst"]))
    overwrite(links((3, 3), (4, 4)))
    applied()
    world.check({(3, 3), (4, 4)})
    overwrite(links((3, 3), (7, 8)), partition_by=["src"])
    append(table, (8, 9))
    applied()
    world.check({(3, 3), (7, 8), (8, 9)})
    # Unlike overwriting, this takes the partitions back.
    DeltaTable(table).restore(DeltaTable(table).version() - 2)
    assert applied("--nulls", "skip")["changes"]["link"] == {"inserted": 1, "deleted": 2}
    world.check({(3, 3), (4, 4)})


def write_changes(path: Path, *lines: str) -> None:
    """Write a file of changes in place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["op,src,dst", *lines, ""]), encoding="utf-8")


def test_a_file_of_the_same_size(world: FeedWorld, applied: Applied, capsys: Said) -> None:
    """It must have the same contents, whatever its times say; it may be written once more, or come from a backup."""
    folder = world.folder / "in"
    write_changes(folder / "1.csv", "+,1,2")
    os.utime(folder / "1.csv", (1, 1))
    assert world.run("connect", f"link=files:{folder}") == world.run("init") == 0
    write_changes(folder / "1.csv", "+,1,3")
    os.utime(folder / "1.csv", (1, 1))
    for _ in range(2):
        said = refusal(world, capsys)
        assert "1.csv has other contents in its 17 bytes than it had when it was applied" in said
        assert "add changes as a file with a new name, and put this one back" in said
        write_changes(folder / "2.csv", "+,2,3")
    assert "has other contents" in refusal(world, capsys, "--resync", "link")
    write_changes(folder / "1.csv", "+,1,2")
    assert applied()["changes"]["link"] == {"inserted": 1, "deleted": 0}
    world.check({(1, 2), (2, 3)})
    shutil.copytree(folder, world.folder / "copy")
    assert not applied("--feed", f"link=files:{world.folder / 'copy'}")["applied"]
    write_changes(world.folder / "copy" / "2.csv", "-,1,2")
    assert "2.csv has other contents" in refusal(world, capsys, "--feed", f"link=files:{world.folder / 'copy'}")


def test_files_are_hashed_once(world: FeedWorld, applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as their times are old enough to tell a change: then a look reads no file that it knows."""
    folder = world.folder / "in"
    write_changes(folder / "1.csv", "+,1,2")
    assert world.run("connect", f"link=files:{folder}") == world.run("init") == 0
    assert world.manifest.feeds["link"].marks["1.csv"][1] == ""
    monkeypatch.setattr(world.job, "SETTLED", 0.0)
    write_changes(folder / "2.csv", "+,2,3")
    time.sleep(0.02)
    applied()
    marks = world.manifest.feeds["link"].marks
    assert all(len(known) == 32 and stamp for known, stamp in marks.values())
    with monkeypatch.context() as patch:
        patch.setattr(world.job, "hash_of_file", None)
        assert not applied()["applied"]
    write_changes(folder / "1.csv", "+,1,2")
    assert not applied()["applied"]
    write_changes(folder / "3.csv", "-,2,3")
    applied()
    assert world.manifest.feeds["link"].marks["1.csv"][1] != marks["1.csv"][1]
    world.check({(1, 2)})


def test_a_folder_read_before_there_were_marks(world: FeedWorld, applied: Applied, capsys: Said) -> None:
    """The next batch gets those of all files that are still there."""
    folder = world.folder / "in"
    write_changes(folder / "1.csv", "+,1,2")
    write_changes(folder / "2.csv", "+,2,3")
    assert world.run("connect", f"link=files:{folder}") == world.run("init") == 0
    forget_marks(world)
    (folder / "1.csv").unlink()
    result = applied()
    assert (result["batch"].partition("..")[2], result["changes"]) == (
        result["batch"].partition("@")[2].partition(".")[0],
        {},
    )
    assert world.manifest.feeds["link"].marks.keys() == {"2.csv"}
    assert not applied()["applied"]
    write_changes(folder / "2.csv", "+,2,4")
    assert "2.csv has other contents" in refusal(world, capsys)
    world.check({(1, 2), (2, 3)})


def test_folders_by_location(world: FeedWorld, applied: Applied) -> None:
    """Files of the same name in several of them are several."""
    folder = world.folder / "in"
    write_changes(folder / "location=a" / "1.csv", "+,1,2")
    write_changes(folder / "location=b" / "1.csv", "+,2,3")
    assert world.run("connect", f"link=files:{folder}") == world.run("init") == 0
    world.check({(1, 2), (2, 3)})
    write_changes(folder / "location=b" / "2.csv", "-,2,3")
    assert applied()["changes"]["link"] == {"inserted": 0, "deleted": 1}


def test_names_and_links_that_cannot_be_read(world: FeedWorld, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is in the way, and what to do about it."""
    folder = world.folder / "in"
    folder.mkdir()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.csv")).write_text("op,src,dst\n+,1,2\n", encoding="utf-8")
    said = refusal(world, capsys, f"link=files:{folder}", command="connect")
    assert '"\\udcff.csv" is not UTF-8' in said and "rename the file" in said
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "a.csv").symlink_to("b.csv")
    (folder / "b.csv").symlink_to("a.csv")
    said = refusal(world, capsys, f"link=files:{folder}", command="connect")
    assert "/a.csv" in said and "a link leads to itself; remove it" in said
    assert "link leads to itself" in refusal(world, capsys, "--input", f"link={folder}", command="init")
    (world.folder / "loop").symlink_to("loop")
    capsys.readouterr()
    assert world.job.main(["status", "--state", str(world.folder / "loop")]) == 1
    assert "loop cannot be opened: Symlink loop" in capsys.readouterr().err
    with monkeypatch.context() as without_stores:
        without_stores.setitem(sys.modules, "fsspec", None)
        assert world.job.main(["status", "--state", f"file:{world.folder / 'loop'}"]) == 1
    assert "loop cannot be opened: Symlink loop" in capsys.readouterr().err
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(world.folder))
    for given, command in (("link=files:s3://none/x", "connect"), ("link=s3://none/x.csv", "init")):
        arguments = (given,) if command == "connect" else ("--input", given)
        said = refusal(world, capsys, *arguments, command=command)
        assert "s3://none/x" in said and "AWS_ACCESS_KEY_ID" in said
    files = world.folder / "a.csv"
    files.write_text("op,src,dst\n", encoding="utf-8")
    assert "is not a folder" in refusal(world, capsys, f"link=files:{files}", command="connect")
