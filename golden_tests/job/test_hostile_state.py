"""States and archives that somebody else has written: whatever their texts say, no file appears outside the state, and
nothing else is removed or changed."""

from __future__ import annotations

import io
import json
import random
import shutil
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import seeds

PROGRAM = """
input relation edge(id: int, to: int) primary key (id)
input multiset relation sale(item: string, price: int)
input relation link(src: int, dst: int)
output relation pair(src: int, dst: int)
output relation sold(item: string, total: int)
pair(S, D) :- link(S, D).
pair(S, D) :- edge(S, D).
sold(I, sum<P>) :- sale(I, P).
"""


class World:
    """A job, a state of it with records of all kinds, and all files around it."""

    def __init__(self, folder: Path) -> None:
        """Build the state."""
        self.folder, self.state = folder, folder / "own" / "state"
        text = compile_text(PROGRAM, "net.dl")[1]
        self.job: Any = load_script(text)
        self.inputs = folder / "inputs"
        self.inputs.mkdir(parents=True)
        (self.inputs / "edge.csv").write_text("op,id,to,n\n+,1,2,1\n")
        (self.inputs / "sale.csv").write_text("op,item,price\n+,a,3\n+,a,3\n")
        (self.inputs / "link.csv").write_text("op,src,dst\n+,5,6\n")
        files = folder / "files"
        files.mkdir()
        (files / "0.csv").write_text("op,src,dst\n+,7,8\n")
        assert self.run("connect", f"link=files:{files}") == 0
        assert self.run("init") == 0
        ordered = ("--changes", f"edge={self.inputs / 'edge.csv'}", "--order-column", "n", "--batch", "one")
        assert self.run("apply", *ordered) == 0
        self.apply = ("apply", "--changes", f"sale={self.inputs / 'sale.csv'}", "--batch")
        assert self.run(*self.apply, "two") == 0
        self.saved = folder / "saved"
        shutil.copytree(self.state, self.saved)
        self.path = self.state / "manifest" / "000000000003.json"
        record = json.loads(self.path.read_bytes())
        del record["crc32"]
        self.record = record

    def run(self, command: str, *arguments: str) -> int:
        """Run a command, and return its exit code."""
        return int(self.job.main([command, "--state", str(self.state), "--quiet", *arguments]))

    def restore(self, record: Any) -> None:
        """Put the state back, with another last manifest, which is not published yet."""
        shutil.rmtree(self.state)
        shutil.copytree(self.saved, self.state)
        self.path.with_suffix(".published").unlink()
        self.path.write_text(self.job.sealed(record), encoding="utf-8")

    def around(self) -> dict[str, bytes]:
        """Return all files outside the state, with their contents."""
        found = (path for path in self.folder.rglob("*") if self.state not in path.parents and path.is_file())
        return {str(path): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world that the tests of this module share."""
    world = World(tmp_path_factory.mktemp("hostile"))
    yield world
    del sys.modules[world.job.__name__]


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to all texts in a JSON value; one that ends with None leads to the name of a member."""
    if isinstance(value, str):
        yield way
    for name, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(name, str):
            yield (*way, name, None)
        yield from places(item, (*way, name))


def replaced(value: Any, way: tuple[Any, ...], text: str) -> Any:
    """Return a copy of a JSON value with another text at a place."""
    if not way:
        return text
    if way[1:] == (None,):
        return {text if name == way[0] else name: item for name, item in value.items()}
    made = dict(value) if isinstance(value, dict) else list(value)
    made[way[0]] = replaced(value[way[0]], way[1:], text)
    return made


TEXTS = (
    "1=1); COPY (SELECT 1 AS x) TO '{out}'; --",
    "x'; COPY (SELECT 1 AS x) TO '{out}'; --",
    "x\"; COPY (SELECT 1 AS x) TO '{out}'; --",
    "x; COPY (SELECT 1 AS x) TO '{out}'",
    "bigint); COPY (SELECT 1 AS x) TO '{out}'; --",
    "../../../evil",
    "data/../../../evil.parquet",
    "{out}",
    "{out}/changes/../../batch=x",
    "published/../../../changes/batch=x",
    "`touch {out}`$(touch {out})",
    "x\x00y",
    "\x1b[2J<script>",
    "",
)


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_manifests(seed: int, hostile: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Any text in a manifest is replaced by a hostile one; the place of published changes apart, which is shown."""
    rng, out = random.Random(seed), hostile.folder / "out"
    ways = [way for way in places(hostile.record) if way != ("publish", 0, "folder")]
    assert len(ways) > 150
    before = hostile.around()
    for way in rng.sample(ways, 15):
        text = rng.choice(TEXTS).replace("{out}", str(out))
        hostile.restore(replaced(hostile.record, way, text))
        capsys.readouterr()
        for command, *arguments in (
            ("status",),
            ("show", "pair"),
            (*hostile.apply, "three"),
            ("apply",),
            ("verify",),
            ("compact",),
            ("upgrade",),
            ("rebuild", "--input", f"sale={hostile.inputs / 'sale.csv'}"),
        ):
            try:
                code = hostile.run(command, *arguments)
            except Exception as error:
                raise AssertionError(f"{way}: {text!r}: {command} fails with {error!r}") from error
            assert code in (0, 1)
            assert hostile.around() == before, (way, text, command)
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("time", ["x; y", "2026-13-01T00:00:00.000Z", "2026-01-01T00:00:00.000", "2026-01-01Z"])
def test_times(time: str, hostile: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A time that is none is a damage, whatever reads it first."""
    hostile.restore(replaced(hostile.record, ("time",), time))
    for command, *arguments in (("status",), (*hostile.apply, "three"), ("verify",)):
        assert hostile.run(command, *arguments) == 1
        assert "is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "folder", ["../../evil", "{out}", "{out}/changes", "{out}/changes/batch=a/../b", "s3://bucket/all", "data"]
)
def test_places_of_publication(folder: str, hostile: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What is published replaces what an interrupted command has left, so it must be a folder for changes."""
    record = replaced(hostile.record, ("publish", 0, "folder"), folder.replace("{out}", str(hostile.folder / "out")))
    hostile.restore(record)
    before = hostile.around()
    assert hostile.run("status") == 1
    assert "is not a folder to publish to" in capsys.readouterr().err
    assert hostile.around() == before


def member(name: str, content: bytes = b"x", **members: Any) -> tuple[tarfile.TarInfo, bytes]:
    """Return a file of an archive."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for one, value in members.items():
        setattr(info, one, value)
    return info, content


@pytest.mark.parametrize(
    "evil",
    [
        member("../evil.parquet"),
        member("data/../../evil.parquet"),
        member("/tmp/evil.parquet"),
        member("data//evil.parquet"),
        member("data/./evil.parquet"),
        member("evil"),
        member("manifest/../../evil.json"),
        member("manifest/000000000009.json"),
        member("manifest/feeds-000000000001.json"),
        member("manifest/000000000003.published"),
        member("data/link", b"", type=tarfile.SYMTYPE, linkname="/etc"),
        member("data/link", b"", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        member("data/pipe", b"", type=tarfile.FIFOTYPE),
        member("data/disk", b"", type=tarfile.BLKTYPE),
        member("data/folder", b"", type=tarfile.DIRTYPE),
        member("data/large", b"", type=tarfile.GNUTYPE_SPARSE),
    ],
    ids=lambda evil: f"{evil[0].name} {evil[0].type.decode()}",
)
def test_archives(evil: tuple[tarfile.TarInfo, bytes], hostile: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with any other place than those of a state, or anything but a file: nothing is imported."""
    hostile.restore(hostile.record)
    archive, made = hostile.folder / "archive.tar", hostile.folder / "evil.tar"
    archive.unlink(missing_ok=True)
    assert hostile.run("export", "--to", str(archive)) == 0
    with tarfile.open(archive) as old, tarfile.open(made, "w") as new:
        for number, info in enumerate(old):
            content = old.extractfile(info)
            assert content is not None
            new.addfile(info, content)
            if number == 0:
                new.addfile(evil[0], io.BytesIO(evil[1]))
    before = hostile.around()
    target = hostile.folder / "own" / "target"
    assert hostile.job.main(["import", str(made), "--state", str(target), "--quiet"]) == 1
    assert "is damaged, or no archive of a state" in capsys.readouterr().err
    assert not (target / "data").exists() and not list(target.glob("manifest/0*"))
    shutil.rmtree(target, ignore_errors=True)
    assert hostile.around() == before
