"""What a state keeps beside its data (manifests, lists of batches, marks): damage is named, nothing damaged is
believed, and the advice in the messages works. No Spark.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

from golden_tests.job import assemble
from golden_tests.job.stalls import PROGRAM, Race

Place = tuple[Any, ...]

CHANGED: dict[type, list[Any]] = {
    str: ["", "x", None, 7, ["data/x"], {}, "../x", "/etc/passwd", "data/../../x"],
    int: [-1, 10**30, None, "7", [], {}, True, 1.0],
    list: [None, "x", {}, 7, [None], [[]], [7]],
    dict: [None, "x", [], 7, {"x": None}],
    bool: [None, "x", [], 7],
    float: [None, "x", [], {}],
}
"""What each value is changed to, by its type."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A job of two relations."""
    return assemble.load(tmp_path_factory.mktemp("script"), PROGRAM, "manifest_job")


@pytest.fixture(scope="module")
def built(job: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Race:
    """A state with two commits, and one with lists of batches in a file."""
    return Race(job, tmp_path_factory.mktemp("states") / "race", 20)


@pytest.fixture
def race(built: Race, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Race:
    """The same, to be damaged."""
    found = copy.copy(built)
    found.folder, found.state = tmp_path, tmp_path / "state"
    shutil.copytree(built.built, found.state)
    return found


def manifest_file(race: Race, commit: int) -> Path:
    """A manifest."""
    path: Path = race.job.manifest_path(race.state, commit)
    return path


def places(value: Any, path: Place = ()) -> Iterator[Place]:
    """Where the values of a record are, those that have values in them too."""
    if path:
        yield path
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def at(record: Any, path: Place) -> Any:
    """The value at a place."""
    for key in path:
        record = record[key]
    return record


class Variant(NamedTuple):
    """A record with one change: a new value at a place, or the member there is gone, or has another name."""

    record: dict[str, Any]
    place: Place
    said: str
    same_type: bool = False


def variants(record: dict[str, Any]) -> Iterator[Variant]:
    """The record with each value and key changed, one at a time."""
    for place in places(record):
        value = at(record, place)
        for new in CHANGED[type(value)]:
            if new != value or type(new) is not type(value):
                changed = copy.deepcopy(record)
                at(changed, place[:-1])[place[-1]] = new
                yield Variant(changed, place, f"{place} is {new!r}", type(new) is type(value))
        for name in ("", "x") if isinstance(place[-1], str) else ():
            changed = copy.deepcopy(record)
            members = at(changed, place[:-1])
            known = members.pop(place[-1])
            if name:
                members[place[-1] + name] = known
            yield Variant(changed, place, f"{place} is {'called ' + place[-1] + name if name else 'gone'}")


def refusal(work: Callable[[], object], job: ModuleType) -> str:
    """What is said of a command that is refused; empty if it is not."""
    try:
        work()
    except job.JobError as error:
        return str(error)
    return ""


def test_each_value_of_a_manifest_changed(race: Race, job: ModuleType) -> None:
    """One at a time: none is believed, since the CRC-32 differs; bytes too."""
    path = manifest_file(race, 2)
    data = path.read_bytes()
    record = json.loads(data)
    for variant in variants(record):
        path.write_text(json.dumps(variant.record, ensure_ascii=False))
        message = refusal(lambda: job.read_manifest(race.state), job)
        assert message.startswith(str(path)), variant.said
        assert "is damaged (" in message or "has format " in message, variant.said
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert refusal(lambda: job.read_manifest(race.state), job).startswith(str(path)), place
    for cut in range(0, len(data), 97):
        path.write_bytes(data[:cut])
        assert refusal(lambda: job.read_manifest(race.state), job).startswith(f"{path} is damaged ("), cut
    path.write_bytes(data)
    assert refusal(lambda: job.read_manifest(race.state), job) == ""


OPTIONAL = {"by", "place", "effects", "feeds", "tables", "functions", "hidden", "base_rows", "change_rows"}
OPTIONAL |= {"command", "time", "seconds", "keep", "kept_from", "jumps", "restores", "undone", "left_out", "set_aside"}
OPTIONAL |= {"sequences", "late", "home", "inodes", "origin", "as_of"}
"""Members that a manifest may do without."""
OF_ANY_NAME = {"relations", "buckets", "clocks", "changes", "counts", "columns", "functions", "effects"}
"""Members whose own members are called after something in the program."""


def test_each_value_of_a_sealed_manifest(race: Race, job: ModuleType) -> None:
    """Where the CRC-32 is right, its structure tells: every value has its type, the files are inside the state. Another
    value of the same type is not noticed."""
    path = manifest_file(race, 2)
    record = json.loads(path.read_bytes())
    del record["crc32"]
    path.write_text(job.sealed(record))

    def look() -> None:
        """Whatever reads the state comes upon it."""
        job.status(str(race.state))
        job.stored(str(race.state), job.read_manifest(race.state), job.PAIR)

    assert refusal(look, job) == ""
    for variant in variants(record):
        path.write_text(job.sealed(variant.record))
        try:
            message = refusal(look, job)
        except Exception as error:
            raise AssertionError(f"{variant.said}: {type(error).__name__} {error}") from error
        *above, last = variant.place
        if message:
            assert str(race.state) in message, f"{variant.said}: {message}"
        else:
            named = last in OPTIONAL or (above and above[-1] in OF_ANY_NAME) or "steps" in above
            assert variant.same_type or named, variant.said
            assert isinstance(last, str) or "'base'" not in str(above), variant.said


@pytest.mark.parametrize(("number", "advice"), [(2, "build the state again"), (4, "use a job of a later release")])
def test_another_format(number: int, advice: str, race: Race, job: ModuleType) -> None:
    """The message says what to do."""
    path = manifest_file(race, 2)
    record = json.loads(path.read_bytes())
    del record["crc32"]
    path.write_text(job.sealed(record | {"format": number}))
    said = f"{path} has format {number}, and this job reads format 3: {advice}"
    assert refusal(lambda: job.read_manifest(race.state), job).startswith(said)


@pytest.mark.parametrize("name", ["../x.parquet", "/etc/passwd", "data/../../x", "data//x", "manifest/x", "data/./x"])
def test_files_outside_the_state(name: str, race: Race, job: ModuleType) -> None:
    """Nothing makes a manifest refer to them, not even with its CRC-32."""
    path = manifest_file(race, 2)
    record = json.loads(path.read_bytes())
    del record["crc32"]
    for place in places(record):
        value = at(record, place)
        if isinstance(value, str) and value.startswith("data/"):
            changed = copy.deepcopy(record)
            at(changed, place[:-1])[place[-1]] = name
            path.write_text(job.sealed(changed))
            assert f"cannot be {json.dumps(name)}" in refusal(lambda: job.status(str(race.state)), job)
    folder = copy.deepcopy(record)
    folder["publish"][0]["folder"] = "../elsewhere"
    path.write_text(job.sealed(folder))
    assert '"../elsewhere" is not a folder to publish to' in refusal(lambda: job.status(str(race.state)), job)


def test_the_seal_covers_every_byte(job: ModuleType) -> None:
    """Its own too."""
    data = job.sealed({"a": 1, "b": 'ä", "crc32": "00000000"'}).encode()
    job.check_seal(data)
    assert json.loads(data)["crc32"] == f"{zlib.crc32(data[:-22]):08x}"
    for place in range(len(data)):
        with pytest.raises(ValueError, match="CRC-32"):
            job.check_seal(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


# ---- a damaged last manifest ---------------------------------------------------------------------------------------


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[:-20],
    "changed": lambda data: data.replace(b'"rows": 2', b'"rows": 3'),
    "no JSON": lambda data: b"\x00" * len(data),
}


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("how", DAMAGES)
def test_recover(how: str, published: bool, race: Race, job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says to do it; then the batch can be applied again, and what it changes is published."""
    state, path = str(race.state), manifest_file(race, 2)
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    if not published:
        shutil.rmtree(race.state / "published")
        path.with_suffix(".published").unlink()
    for command in (["status"], ["apply", "--changes", race.file("more", 3)], ["verify"]):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "open_session", lambda name: None)
            assert job.main([*command, "--state", state]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"{command[0]}: {path} is damaged (") and "; `recover` returns to commit 1" in said
    assert job.main(["recover", "--state", state]) == 0
    said = capsys.readouterr().out
    assert "commit 3 restores commit 1" in said
    folder = race.state / "published" / "pair" / "changes" / "batch=first"
    assert (f"removed: {folder}" in said) is published
    assert race.rows() == {(1, 1)} and race.published() == {}
    assert manifest_file(race, 3).read_text().count("crc32") == 1
    assert race.apply(race.state, "first", 2) == ""
    assert race.apply(race.state, "second", 3) == ""
    assert race.rows() == {(1, 1), (2, 2), (3, 3)}
    assert race.published() == {"first": [("+", 2, 2)], "second": [("+", 3, 3)]}
    assert job.main(["recover", "--state", state]) == 0
    assert capsys.readouterr().out == "nothing to do: commit 5 can be read\n"


def test_recover_is_interrupted(race: Race, job: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be run again."""
    path = manifest_file(race, 2)
    path.write_bytes(b"")
    for step in ("remove_tree", "commit_manifest", "finish_publication", "collect_garbage"):
        with monkeypatch.context() as patch:

            def fail(*arguments: Any) -> None:
                raise KeyboardInterrupt

            patch.setattr(job, step, fail)
            with pytest.raises(KeyboardInterrupt):
                job.recover(str(race.state), log=race.log)
        if race.job.commit_numbers(race.state)[-1] == 3:
            break
    assert job.recover(str(race.state), log=race.log)["commit"] == 3
    assert race.rows() == {(1, 1)} and race.published() == {}
    assert race.apply(race.state, "first", 2) == ""


def test_a_manifest_that_was_removed_by_hand(race: Race, job: ModuleType) -> None:
    """Its number is used again, but its mark does not stand for another attempt."""
    assert race.apply(race.state, "second", 3) == ""
    manifest_file(race, 3).unlink()
    assert job.status(str(race.state))["commit"] == 2
    assert "already exists: remove it if a commit of this state" in race.apply(race.state, "second", 3)
    assert race.apply(race.state, "third", 4) == ""
    assert race.published()["third"] == [("+", 4, 4)]
    assert race.rows() == {(1, 1), (2, 2), (4, 4)}
    mark = json.loads(manifest_file(race, 3).with_suffix(".published").read_text())
    assert mark["attempt"] == job.read_manifest(race.state).attempt


def test_no_commit_can_be_read(race: Race, job: ModuleType) -> None:
    """There is nothing to go back to."""
    for commit in (1, 2):
        manifest_file(race, commit).write_bytes(b"")
    message = refusal(lambda: job.recover(str(race.state)), job)
    assert "no commit" in message or "is damaged" in message


@pytest.mark.parametrize("content", ["", "copy", "forged"])
def test_a_stray_file(content: str, race: Race, job: ModuleType) -> None:
    """It is named, not believed, and the state goes on without it."""
    path = manifest_file(race, 999999999999)
    text = manifest_file(race, 2).read_text()
    if content == "forged":
        record = json.loads(text)
        del record["crc32"]
        path.write_text(job.sealed({**record, "commit": 999999999999}))
    else:
        path.write_text(text if content else "")
    refusals = {refusal(lambda: job.status(str(race.state)), job), refusal(lambda: job.recover(str(race.state)), job)}
    refusals.add(race.apply(race.state, "second", 3))
    (message,) = refusals
    assert message.startswith(f"{path} is not a manifest of this state (")
    assert message.endswith("whose last commit is 2: remove that file")
    path.unlink()
    assert race.apply(race.state, "second", 3) == ""
    assert race.rows() == {(1, 1), (2, 2), (3, 3)} and sorted(race.published()) == ["first", "second"]


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (Path.mkdir, "it is a folder"),
        (os.mkfifo, "it is not a file"),
        (lambda path: path.symlink_to("/nonexistent/9.json"), "it is not a file"),
    ],
    ids=["folder", "fifo", "dangling"],
)
def test_something_else_under_the_name_of_a_manifest(
    make: Callable[[Path], None], what: str, race: Race, job: ModuleType
) -> None:
    """It is named; nothing waits for it, and the last commit can be gone back from."""
    path = manifest_file(race, 999999999999)
    make(path)
    refusals = {refusal(lambda: job.status(str(race.state)), job), refusal(lambda: job.recover(str(race.state)), job)}
    refusals.add(race.apply(race.state, "second", 3))
    assert refusals == {f"{path} is not a manifest of this state ({what}), whose last commit is 2: remove that file"}
    path.rename(path.with_name("elsewhere"))
    assert race.apply(race.state, "second", 3) == ""
    manifest_file(race, 3).unlink()
    make(manifest_file(race, 3))
    message = refusal(lambda: job.status(str(race.state)), job)
    assert message == f"{manifest_file(race, 3)} is damaged ({what}); `recover` returns to commit 2"
    assert job.recover(str(race.state), log=race.log)["commit"] == 4
    assert race.rows() == {(1, 1), (2, 2)}


@pytest.mark.parametrize(("damage", "what"), [(None, "is missing"), (b"PAR1", "is damaged")])
def test_recover_looks_at_the_files_that_it_returns_to(
    damage: bytes | None, what: str, race: Race, job: ModuleType
) -> None:
    """Without them it changes nothing, also of what the damaged commit has published."""
    manifest_file(race, 2).write_bytes(b"")
    (name,) = job.load_manifest(race.state, 1).relations["link"].buckets[0].base
    content = (race.state / name).read_bytes()
    (race.state / name).unlink()
    if damage:
        (race.state / name).write_bytes(content.removesuffix(damage))
    before = set(race.state.rglob("*"))
    assert f"{race.state / name} {what}" in refusal(lambda: job.recover(str(race.state), log=race.log), job)
    assert set(race.state.rglob("*")) == before
    (race.state / name).write_bytes(content)
    assert job.recover(str(race.state), log=race.log)["commit"] == 3


def test_recover_looks_at_the_files_of_a_store(race: Race, job: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of their bytes, since no task does; else what a task reads is left to it, but for the marks of its files."""
    pytest.importorskip("upath", reason="universal-pathlib is not installed")
    monkeypatch.setitem(job.STORE_PACKAGES, "memory", "fsspec")
    root = job.place_of("memory://bucket/damaged")
    for path in race.state.rglob("*"):
        if path.is_file():
            place = root / path.relative_to(race.state).as_posix()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    first = manifest_file(race, 1)
    (name,) = job.load_manifest(race.state, 1).relations["link"].buckets[0].base
    content = (race.state / name).read_bytes()
    marked = name.replace(".parquet", f".{zlib.crc32(content):08x}.{len(content)}.parquet")
    record = json.loads(first.read_text().replace(name, marked))
    del record["crc32"]
    (root / "manifest" / first.name).write_text(job.sealed(record))
    (root / "manifest" / manifest_file(race, 2).name).write_bytes(b"")
    (root / marked).write_bytes(content[:9] + bytes([content[9] ^ 1]) + content[10:])
    job.check_files(root, [marked])
    assert f"{root / marked} is damaged" in refusal(lambda: job.recover(str(root), log=race.log), job)
    (root / marked).write_bytes(content)
    assert job.recover(str(root), log=race.log)["commit"] == 3
    (root / name).write_bytes(content[:-7])
    assert f"{root / name} is damaged" in refusal(lambda: job.check_files(root, [name]), job)


def test_a_copy_of_a_manifest_under_the_next_number(race: Race, job: ModuleType) -> None:
    """It says of itself that it is another one."""
    path = manifest_file(race, 3)
    shutil.copy(manifest_file(race, 2), path)
    message = refusal(lambda: job.status(str(race.state)), job)
    assert message == f"{path} is damaged (it belongs to commit 2); `recover` returns to commit 2"
    assert job.recover(str(race.state), log=race.log)["commit"] == 4
    assert race.rows() == {(1, 1), (2, 2)} and sorted(race.published()) == ["first"]


def test_other_files_beside_manifests(race: Race, job: ModuleType) -> None:
    """They are none of the job's business."""
    for name in (".nfs0001", "Thumbs.db", "000000000009.json~", "9.json", "notes.txt"):
        (race.state / "manifest" / name).write_text("x")
    assert race.apply(race.state, "second", 3) == ""
    assert (race.state / "manifest" / "Thumbs.db").read_text() == "x"


# ---- marks, and lists of batches -----------------------------------------------------------------------------------


def test_a_damaged_mark(race: Race, job: ModuleType) -> None:
    """It is named; without it, or where a crash left it empty, nothing is published twice."""
    path = manifest_file(race, 2).with_suffix(".published")
    for content in (b"x", b"[]", b'{"attempt": 7}', path.read_bytes()[:-3], path.read_bytes().replace(b"2-", b"3-")):
        path.write_bytes(content)
        message = refusal(lambda: job.status(str(race.state)), job)
        assert message.startswith(f"{path} is damaged (") and "; remove it; the changes of batch first" in message
    before = race.published()
    for interrupted in (path.unlink, lambda: path.write_bytes(b"")):
        interrupted()
        assert job.status(str(race.state))["finished_publication"] is True
        assert race.published() == before
        assert job.status(str(race.state))["finished_publication"] is False


def test_a_damaged_list_of_batches(race: Race, job: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named, and no batch is applied that may be in it."""
    monkeypatch.setattr(job, "BATCHES_INLINE", 2)
    for number in range(8):
        assert race.apply(race.state, str(number), 10 + number) == ""
    first, second = sorted((race.state / "manifest").glob("batches-*.json"))
    data = first.read_bytes()
    for variant in variants(json.loads(data)):
        first.write_text(json.dumps(variant.record))
        assert race.apply(race.state, "new", 90).startswith(f"{first} is damaged ("), variant.said
    for content in (b"", b"[7]", b"{}", data[:-1], second.read_bytes()):
        first.write_bytes(content)
        assert race.apply(race.state, "new", 90).startswith(f"{first} is damaged (")
    first.unlink()
    assert race.apply(race.state, "new", 90).startswith(f"{first} is missing")
    first.write_bytes(data)
    assert race.apply(race.state, "new", 90) == ""


# ---- IDs of batches ------------------------------------------------------------------------------------------------


def test_a_generated_id_meets_a_given_one(race: Race, job: ModuleType) -> None:
    """It is another one then, and no row is lost."""
    for batch in ("batch-000004", "batch-000005"):
        assert race.apply(race.state, batch, int(batch[-1])) == ""
    applied = [job.apply(None, str(race.state), {"link": race.file("x", 10 + n)}, log=race.log) for n in range(2)]
    assert [done["batch"] for done in applied] == ["batch-000006", "batch-000007"]
    assert all(done["applied"] for done in applied)
    assert race.rows() == {(n, n) for n in (1, 2, 4, 5, 10, 11)}


@pytest.mark.parametrize("batch", ["init", "batch-000003"])
def test_a_given_id_meets_a_generated_one(batch: str, race: Race, job: ModuleType) -> None:
    """It is refused: nobody can mean that batch."""
    job.apply(None, str(race.state), {"link": race.file("x", 10)}, log=race.log)
    message = f"{batch} is an ID that this state generated for another batch; choose a different one"
    assert race.apply(race.state, batch, 11) == message
    assert race.rows() == {(n, n) for n in (1, 2, 10)}


# ---- copies --------------------------------------------------------------------------------------------------------


def unpublished(race: Race, where: str = "") -> None:
    """A batch that is committed, and not published."""

    def fail(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(race.job, "publish_changes", fail)
        changes = {"link": race.file("second", 3)}
        race.job.apply(None, str(race.state), changes, batch="second", publish=where or None, log=race.log)


def test_recover_publishes_what_was_not(race: Race, job: ModuleType) -> None:
    """What goes back to a commit also finishes it; a damaged file beside it is no later commit."""
    unpublished(race)
    manifest_file(race, 4).write_text("x")
    assert job.recover(str(race.state), log=race.log)["from"] == 3
    assert race.published() == {"first": [("+", 2, 2)], "second": [("+", 3, 3)]}


def shared(race: Race, job: ModuleType) -> tuple[Path, Path]:
    """Another state, and the folder where both publish: one batch of the state, three of the other."""
    outside, other = race.folder / "lake", race.folder / "other"
    job.init(None, str(other), {"link": race.file("init", 1)}, buckets=1, log=race.log)
    for state, batches in ((race.state, 2), (other, 4)):
        for number in range(batches):
            name, changes = f"{state.name}-{number}", {"link": race.file("more", 20 + number)}
            job.apply(None, str(state), changes, batch=name, publish=str(outside), log=race.log)
    return outside / "pair" / "changes", other


def test_recover_leaves_what_other_states_have_published(race: Race, job: ModuleType) -> None:
    """States may publish into one folder, where numbers of commits tell nothing."""
    lake, _ = shared(race, job)
    path = manifest_file(race, 4)
    path.write_text("x")
    warned: list[str] = []
    race.log.warn = warned.append
    done = job.recover(str(race.state), log=race.log)
    assert done["unpublished"] == [str(lake / "batch=state-1")]
    left = {place.name for place in lake.iterdir() if not re.fullmatch("_owner-[0-9a-f]{8}[.]json", place.name)}
    assert left == {"batch=state-0", *(f"batch=other-{n}" for n in range(4))}
    assert warned[0] == f"{lake / 'batch=state-1'} is removed: the commit that published it cannot be read"
    assert warned[1].startswith(f"{lake / 'batch=other-2'}, {lake / 'batch=other-3'}: published by other states, or ")


def test_a_commit_leaves_what_other_states_are_publishing(race: Race, job: ModuleType) -> None:
    """What a crash has left is removed by the state that it was left by."""
    lake, other = shared(race, job)
    last = {state: job.read_manifest(state).attempt for state in (race.state, other)}
    beside = [lake / f".batch=x.{attempt}.0123abcd" for attempt in (*last.values(), "000000000001-01234567")]
    for folder in beside:
        folder.mkdir()
    for number in range(2):
        changes = {"link": race.file("more", 40 + number)}
        job.apply(None, str(race.state), changes, batch=f"more-{number}", publish=str(lake.parents[1]), log=race.log)
    assert [folder.exists() for folder in beside] == [False, True, True]


def test_a_batch_of_an_undone_commit_is_in_the_way(race: Race, job: ModuleType) -> None:
    """Where the damaged commit was the first to publish there, nobody knows of it; the message tells both ways out."""
    outside = race.folder / "outside"
    more: dict[str, Any] = {"batch": "second", "publish": str(outside), "log": race.log}
    shutil.rmtree(race.state)
    job.init(None, str(race.state), {"link": race.file("init", 1)}, buckets=1, log=race.log)
    job.apply(None, str(race.state), {"link": race.file("more", 2)}, **more)
    manifest_file(race, 2).write_text("x")
    assert job.recover(str(race.state), log=race.log)["unpublished"] == []
    folder = outside / "pair" / "changes" / "batch=second"
    with pytest.raises(job.JobError, match="remove it if a commit of this state that was undone published it"):
        job.apply(None, str(race.state), {"link": race.file("more", 2)}, **more)
    shutil.rmtree(folder)
    assert job.apply(None, str(race.state), {"link": race.file("more", 2)}, **more)["applied"] is True
    assert folder.exists()


def test_what_a_consumer_has_taken_is_not_published_again(
    race: Race, job: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands finish the same publication, and one of them stands still in the middle."""
    unpublished(race)
    forced = job.sync_files
    folder = race.state / "published" / "pair" / "changes" / "batch=second"

    def stand_still(place: Path) -> None:
        forced(place)
        monkeypatch.setattr(job, "sync_files", forced)
        assert job.status(str(race.state))["finished_publication"] is True
        shutil.rmtree(folder)

    monkeypatch.setattr(job, "sync_files", stand_still)
    job.status(str(race.state))
    assert not folder.exists()


@pytest.mark.parametrize("what", ["file", "standard error"])
def test_a_commit_is_finished_although_nobody_hears_of_it(
    what: str, race: Race, job: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log that cannot be written, and a pipe that is closed, do not hide that a batch is in the state."""
    log = job.Log(quiet=what == "file", file=str(race.folder / "job.log") if what == "file" else None)
    committed = job.commit_manifest

    def commit(*arguments: Any) -> None:
        committed(*arguments)
        if what == "file":
            log.file = Path("/dev/full")
        else:
            read, written = os.pipe()
            os.close(read)
            monkeypatch.setattr(sys, "stderr", os.fdopen(written, "w"))

    monkeypatch.setattr(job, "commit_manifest", commit)
    done = job.apply(None, str(race.state), {"link": race.file("more", 3)}, batch="second", log=log)
    assert done["applied"] is True and done["commit"] == 3
    assert race.published()["second"] == [("+", 3, 3)]
    if what == "file":
        assert capsys.readouterr().err.count("warning: /dev/full gets no more events: ") == 1


def test_a_folder_with_a_backslash(job: ModuleType, race: Race) -> None:
    """DuckDB would write elsewhere."""
    with pytest.raises(job.JobError, match="choose another folder"):
        job.init(None, str(race.folder / "a\\b"), {"link": race.file("init", 1)}, buckets=2, log=race.log)
    assert not (race.folder / "a\\b").exists()


def files_below(root: Path) -> dict[str, bytes]:
    """The contents of all files."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_a_copy_of_a_state_publishes_into_itself(race: Race, job: ModuleType) -> None:
    """A manifest has no path of the state."""
    unpublished(race)
    assert str(race.state) not in manifest_file(race, 3).read_text()
    shutil.copytree(race.state, race.folder / "copy")
    before = files_below(race.state)
    assert job.status(str(race.folder / "copy"))["finished_publication"] is True
    assert files_below(race.state) == before
    original, race.state = race.state, race.folder / "copy"
    assert race.published()["second"] == [("+", 3, 3)]
    race.state = original
    assert job.status(str(race.state))["finished_publication"] is True
    assert race.published()["second"] == [("+", 3, 3)]


def test_a_copy_publishes_what_goes_outside_once(race: Race, job: ModuleType) -> None:
    """The folder that ``--publish`` named is the same for both, and so is the attempt."""
    outside = race.folder / "outside"
    unpublished(race, str(outside))
    shutil.copytree(race.state, race.folder / "copy")
    for state in ("copy", "state"):
        assert job.status(str(race.folder / state))["finished_publication"] is True
        (file,) = (outside / "pair" / "changes" / "batch=second").iterdir()
        assert pq.read_table(file).to_pylist() == [{"op": "+", "src": 3, "dst": 3}]
    assert job.apply(None, str(race.folder / "copy"), {"link": []}, batch="second", log=race.log)["applied"] is False
