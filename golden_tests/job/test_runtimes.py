"""Scripts that find the runtime beside them or installed: they run as standalone ones do, and check what they find."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler import CompileOptions, compile_node_files, compile_source
from flintlog.compiler.source import SourceFile
from flintlog.runtime.processes.partition import Partition
from flintlog.targets import RUNTIME_FILE, RUNTIMES

PROGRAM = """
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
reachable(X, Y) :- link(X, Y).
reachable(X, Z) :- reachable(X, Y), link(Y, Z).
"""


def write(folder: Path, way: str, release: str = "") -> Path:
    """Compile the program for one way to find the runtime."""
    options = CompileOptions(runtime=way, compiler=release or version("flintlog"))
    folder.mkdir(exist_ok=True)
    for name, text in compile_source(SourceFile("hops.dl", PROGRAM), options).files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import the script of a folder, with what lies beside it."""

    def forget() -> None:
        for name in ("hops", RUNTIME_FILE.removesuffix(".py")):
            sys.modules.pop(name, None)

    def load(folder: Path) -> Any:
        forget()
        monkeypatch.syspath_prepend(folder)
        return importlib.import_module("hops")

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


def test_a_runtime_of_another_release_is_refused(load: Any, tmp_path: Path) -> None:
    """Beside by its hash, whatever its line ends; installed by its version."""
    folder = write(tmp_path / "beside", "beside")
    runtime = folder / RUNTIME_FILE
    content = runtime.read_bytes()
    runtime.write_bytes(content.replace(b"\n", b"\r\n"))
    assert load(folder).PROGRAM.name == "hops.dl"
    runtime.write_bytes(content + b"# edited\n")
    shutil.rmtree(folder / "__pycache__", ignore_errors=True)
    with pytest.raises(ImportError, match=r"is not the runtime that this script was compiled for: compile all scripts"):
        load(folder)
    with pytest.raises(ImportError, match=r"compiled for the runtime of flintlog 9\.9\.9, but "):
        load(write(tmp_path / "installed", "installed", "9.9.9"))


@pytest.mark.parametrize("way", RUNTIMES)
def test_nodes(way: str, load: Any, tmp_path: Path) -> None:
    """The script of the nodes of a located program has what describes them."""
    program = PROGRAM.replace("(src: int", "(@src: int").replace("(X", "(@X").replace("(Y", "(@Y")
    partition = Partition(3, {'it\'s "0"': 2})
    options = CompileOptions(runtime=way, compiler=version("flintlog"))
    for name, text in compile_node_files(SourceFile("hops.dl", program), partition, options)[0].items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    nodes = load(tmp_path).NODES
    assert (nodes.partition.count, nodes.partition.known) == (3, partition.known)
    assert [channel.reader for channel in nodes.process(1).sends if channel.dead] == ["node0", "node2"]
