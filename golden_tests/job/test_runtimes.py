"""Scripts that find the runtime beside them or installed: they run as standalone ones do, and check what they find."""

from __future__ import annotations

import hashlib
import importlib
import sys
import traceback
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler import Compiled, CompileOptions, compile_node_files, compile_source
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.processes.partition import Partition
from flintlog.targets import RUNTIMES
from flintlog.targets.runtimes import ARCHIVE, PACKAGE, runtime_archive
from flintlog.targets.signature import is_edited, is_generated

from golden_tests.nightly import by_day

PROGRAM = """
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
reachable(X, Y) :- link(X, Y).
reachable(X, Z) :- reachable(X, Y), link(Y, Z).
"""


def write(folder: Path, way: str, release: str = "", name: str = "hops", parts: tuple[str, ...] = ()) -> Path:
    """Compile the program for one way to find the runtime."""
    options = CompileOptions(runtime=way, compiler=release or version("flintlog"), parts=parts)
    compile_source(SourceFile(f"{name}.dl", PROGRAM), options).write(folder)
    return folder


def forget() -> None:
    """Let what was imported from archives be as if it was not."""
    for name in [*sys.modules]:
        if name in ("hops", "other") or name.partition(".")[0] == PACKAGE:
            del sys.modules[name]
    importlib.invalidate_caches()


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the script of a folder, with what lies beside it."""

    def load(folder: Path, *places: Path) -> Any:
        forget()
        monkeypatch.setattr(sys, "path", [str(folder), *kept, *map(str, places)])
        return importlib.import_module("hops")

    kept = [*sys.path]
    yield load
    forget()


def test_all_ways_share_a_state(load: Any, tmp_path: Path, spark: Any) -> None:
    """Each script goes on where another has stopped."""
    (tmp_path / "link.csv").write_text("src,dst\n1,2\n2,3\n", encoding="utf-8")
    state, rows = str(tmp_path / "state"), 3
    for number, way in enumerate(RUNTIMES):
        job = load(write(tmp_path / way, way))
        if not number:
            job.init(spark, state, {"link": str(tmp_path / "link.csv")}, buckets=2)
        batch = tmp_path / f"{way}.csv"
        batch.write_text(f"op,src,dst\n+,{3 + number},{4 + number}\n", encoding="utf-8")
        result = job.apply(spark, state, {"link": str(batch)})
        rows += 3 + number
        assert result["rows"] == {"link": 3 + number, "reachable": rows}
        assert job.verify(spark, state)["differences"] == []
        assert job.main(["status", "--state", state, "--quiet"]) == 0


@by_day(1)
@pytest.mark.parametrize("way", RUNTIMES)
def test_explain_is_compiled_in(way: str, load: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts lack the queries of ``explain``, wherever their runtime is, unless they are compiled with that part."""
    job = load(write(tmp_path / "without", way))
    with pytest.raises(AttributeError, match="`flintlog job explain SCRIPT \\.\\.\\.` where"):
        _ = job.explain
    with pytest.raises(SystemExit):
        job.main(["explain", "--state", str(tmp_path), "reachable(1, 2)"])
    assert "explain is not in this script: run `flintlog job explain SCRIPT --state" in capsys.readouterr().err
    job = load(write(tmp_path / "with", way, parts=("explain",)))
    assert job.explain and job.main(["explain", "--state", str(tmp_path / "no state"), "reachable(1, 2)"]) == 1
    assert "is no state" in capsys.readouterr().err


def test_an_archive(load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the same bytes on every machine. Nothing is written where it lies; tracebacks show the lines in it."""
    folder = write(tmp_path / "a folder", "beside")
    archive = folder / ARCHIVE.format(version("flintlog"))
    runtime_archive.cache_clear()
    assert archive.read_bytes() == runtime_archive(version("flintlog"))
    with zipfile.ZipFile(archive) as made:
        names = made.namelist()
        assert names == sorted(names) and names[0] == f"{PACKAGE}/__init__.py"
        told = {(m.date_time, m.compress_type, m.create_system, m.external_attr, m.extra) for m in made.infolist()}
        assert told == {((1980, 1, 1, 0, 0, 0), zipfile.ZIP_STORED, 3, 0o100644 << 16, b"")}
        text = made.read(names[0]).decode()
        assert is_generated(text) and not is_edited(text)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    load(folder)
    with pytest.raises(ImportError) as caught:
        sys.modules[f"{PACKAGE}.job.release"].require_package("0.0.0")
    assert f"{archive}/{PACKAGE}/job/release.py" in (said := "".join(traceback.format_exception(caught.value)))
    assert "\n    raise ImportError(\n" in said
    assert {path.name for path in folder.iterdir()} == {"hops.py", archive.name}


def torn(archive: Path) -> None:
    """Leave the first half of a file."""
    archive.write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])


def edited(archive: Path) -> None:
    """Change one byte of a file."""
    content = archive.read_bytes()
    archive.write_bytes(content.replace(b"Return ", b"return ", 1))


@pytest.mark.parametrize("change", [torn, edited, Path.unlink])
def test_a_wrong_archive_is_refused(change: Any, load: Any, tmp_path: Path) -> None:
    """Before anything in it runs. The message says which file, what was expected, and what to do."""
    archive = write(tmp_path, "beside") / ARCHIVE.format(version("flintlog"))
    expected = hashlib.sha256(archive.read_bytes()).hexdigest()
    change(archive)
    found = f"has {hashlib.sha256(archive.read_bytes()).hexdigest()}" if archive.exists() else "cannot be read (No such"
    with pytest.raises(ImportError, match="compile all scripts of its folder again") as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"{archive} should have the SHA-256 {expected}, with which this script was ")
    assert found in str(caught.value) and PACKAGE not in sys.modules


def test_an_archive_on_the_path(load: Any, tmp_path: Path) -> None:
    """Spark puts an archive that is sent, or its folder, on the import path."""
    archive = write(tmp_path / "jobs", "beside") / ARCHIVE.format(version("flintlog"))
    sent = archive.rename(tmp_path / archive.name)
    for place in (sent, sent.parent):
        assert load(tmp_path / "jobs", place).PROGRAM.name == "hops.dl"


def test_two_releases(load: Any, tmp_path: Path) -> None:
    """Scripts of both are in one folder, each with its runtime; one process imports one runtime."""
    write(tmp_path, "beside", "9.9.8")
    write(tmp_path, "beside", "9.9.9", "other")
    assert load(tmp_path).PROGRAM.compiler == "9.9.8"
    with pytest.raises(ImportError, match=r"-9\.9\.8\.zip \(imported already\) should have .* put the .*-9\.9\.9\.zip"):
        importlib.import_module("other")
    forget()
    assert importlib.import_module("other").PROGRAM.compiler == "9.9.9"


def test_another_installed_release_is_refused(load: Any, tmp_path: Path) -> None:
    """By its version."""
    with pytest.raises(ImportError, match=r"compiled for the runtime of flintlog 9\.9\.9, but "):
        load(write(tmp_path / "installed", "installed", "9.9.9"))


@by_day(1)
@pytest.mark.parametrize("way", RUNTIMES)
def test_nodes(way: str, load: Any, tmp_path: Path) -> None:
    """The script of the nodes of a located program has what describes them."""
    program = PROGRAM.replace("(src: int", "(@src: int").replace("(X", "(@X").replace("(Y", "(@Y")
    partition = Partition(3, {'it\'s "0"': 2})
    options = CompileOptions(runtime=way, compiler=version("flintlog"))
    files, compiled = compile_node_files(SourceFile("hops.dl", program), partition, options)
    Compiled(files, compiled.node, options.shared).write(tmp_path)
    nodes = load(tmp_path).NODES
    assert (nodes.partition.count, nodes.partition.known) == (3, partition.known)
    assert [channel.reader for channel in nodes.process(1).sends if channel.dead] == ["node0", "node2"]
