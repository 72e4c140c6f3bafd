"""Scripts with some parts of the runtime: what they lack is refused with the option to compile with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.runtime.store.extensions import (
    COMMANDS_OF_PARTS,
    FEED_PARTS,
    FEEDS,
    FUNCTIONS_OF_PARTS,
    PARTS,
    TABLE_PARTS,
)
from flintlog.targets import bundle
from flintlog.targets.pyspark.emit import emit_script
from flintlog.targets.runtimes import PART_MODULES

from golden_tests.harness import VERSION, load_script
from golden_tests.nightly import by_day

if TYPE_CHECKING:
    from types import ModuleType

PROGRAM = """
    input relation link(src: int, dst: int)
    output relation reach(src: int, dst: int)
    reach(X, Y) :- link(X, Y).
    reach(X, Y) :- link(X, Z), reach(Z, Y).
    """


def job(*parts: str) -> ModuleType:
    """The job with these parts."""
    plan = compile_program(SourceFile("net.dl", PROGRAM)).plan
    return load_script(emit_script(plan, VERSION, format_code=False, parts=parts))


def rows(path: Path, text: str) -> str:
    """The path of a file with rows."""
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(text, "utf-8")
    return str(path)


def test_every_part_has_modules() -> None:
    """The parts are known by the same names everywhere."""
    assert PART_MODULES.keys() == PARTS.keys()
    others = {"explain", "matrices", "micro-batches", "openlineage", "operations", "quarantine"}
    assert {*FEED_PARTS, *TABLE_PARTS, *others} == {*PARTS}
    assert {*COMMANDS_OF_PARTS.values(), *FUNCTIONS_OF_PARTS.values()} <= {*PARTS, FEEDS}


def test_an_installed_runtime_has_every_part() -> None:
    """What scripts import registers the modules of all parts, and all others that register anything, without other
    imports. Without that of sequences, for one, no late change would be noticed."""
    loaded = "import sys, flintlog.runtime.script; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    needed = {name for names in PART_MODULES.values() for name in names}
    needed |= {name for name in bundle.sources() if any(not piece.binds for piece in bundle.module(name).pieces)}
    apart = (
        "local.",
        "row_kernel.",
        "database.",
        "addons.feeds.file_state_feeds",
        "addons.file_quarantine",
        "addons.move",
        "addons.processes.",
        "explain.base_facts",
    )
    needed -= {name for name in needed if name.startswith(apart)}
    assert "inputs.sequences" in needed
    assert {f"flintlog.runtime.{name}" for name in needed} <= {*modules}


def test_an_installed_runtime_has_all_that_processes_need() -> None:
    """Methods for rows, and values and files that are read, are registered by what their scripts import."""
    loaded = "import sys, flintlog.runtime.served; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout.split()
    needed = {name for name in bundle.sources() if any(not piece.binds for piece in bundle.module(name).pieces)}
    needed = {name for name in needed if name.startswith("row_kernel.")}
    needed |= {"database.decimals", "database.external", "database.parquet", "inputs.external_functions"}
    assert len(needed) > 20 and {f"flintlog.runtime.{name}" for name in needed} <= {*modules}


@by_day(4)
@pytest.mark.parametrize("part", PARTS)
def test_one_part(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A script with one part has its commands and functions, and its kind of feed, and no others."""
    module = job(part)
    there = {part, FEEDS} if part in FEED_PARTS else {part}
    for command, needed in COMMANDS_OF_PARTS.items():
        with pytest.raises(SystemExit) as ended:
            module.main([command, "--help"])
        told = capsys.readouterr().err
        if command == "depends":
            # The program has no derivations to ask for, whatever runs it.
            assert ended.value.code == 2 and "invalid choice: 'depends'" in told
        elif needed in there:
            assert ended.value.code == 0, command
        else:
            assert ended.value.code == 2
            assert f"the command {command} is not in this script: run `flintlog job {command} " in told
    for name, needed in FUNCTIONS_OF_PARTS.items():
        assert hasattr(module, name) is (needed in there)
        assert hasattr(module.JOB, name) is (needed in there)
        assert (name in dir(module.JOB)) is (needed in there)
    if part in FEED_PARTS:
        assert {*module.FEED_KINDS} == {part}
        assert {*module.TABLE_KINDS} == {part} & {*TABLE_PARTS}


def test_functions_that_are_not_there() -> None:
    """The error names the option, or says that there is no such function at all."""
    module = job()
    lacks = r"the function history is not in this script: run `flintlog job history SCRIPT .*--with operations`$"
    for place in (module.JOB, module):
        with pytest.raises(AttributeError, match=lacks):
            _ = place.history
    with pytest.raises(AttributeError, match=r"is not in this script: compile the program with .*--with micro-batches"):
        _ = module.JOB.apply_micro_batch
    with pytest.raises(AttributeError, match="compile --with delta`, or with the part of another kind of feed: files"):
        _ = module.JOB.connect
    with pytest.raises(AttributeError, match="jobs have no function undo"):
        _ = module.JOB.undo


def test_a_state_with_feeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts without the feeds of a state say so, before and after its first commit, and leave the cursors alone."""
    state, feed = str(tmp_path / "state"), tmp_path / "in"
    rows(feed / "1.csv", "op,src,dst\n+,1,2\n")
    basic, fed, other = job(), job("files"), job("delta")

    def told(module: ModuleType, *given: str) -> dict[str, Any]:
        code = module.main([given[0], "--state", state, "--json", "--quiet", *given[1:]])
        said: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert code == ("error" in said)
        return said

    assert told(fed, "connect", f"link=files:{feed}")["applied"]
    assert "the feeds that are connected to this state" in told(basic, "init")["error"]
    assert "--with files" in told(other, "init")["error"]
    assert told(fed, "init")["rows"] == {"link": 1, "reach": 1}
    rows(feed / "2.csv", "op,src,dst\n+,2,3\n")
    assert "is not in this script: run `flintlog job COMMAND SCRIPT ...`" in told(basic, "apply")["error"]
    assert "--with files" in told(other, "apply")["error"]
    changes = rows(tmp_path / "more" / "link.csv", "op,src,dst\n+,7,8\n")
    assert "connect --remove link" in told(basic, "apply", "--changes", changes)["error"]
    assert told(job("operations"), "rebuild")["rows"] == {"link": 1, "reach": 1}
    before = told(basic, "status")["feeds"]
    assert before == {
        "link": {"source": f"files:{feed}", "columns": {}, "where": "", "position": before["link"]["position"]}
    }
    assert told(fed, "apply")["rows"] == {"link": 2, "reach": 3}


def test_a_state_with_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts without the kind of tables that a state is kept as make no commit that the tables would miss."""
    pytest.importorskip("deltalake")
    state = str(tmp_path / "state")
    given = rows(tmp_path / "link.csv", "src,dst\n1,2\n")
    place = f"delta:{tmp_path / 'lake'}"
    for module in (job(), job("files")):
        with pytest.raises(module.JobError, match="--with delta`"):
            module.init(None, state, {"link": given}, publish=place)
    with_tables = job("delta")
    with_tables.init(None, state, {"link": given}, publish=place)
    changes = rows(tmp_path / "more" / "link.csv", "op,src,dst\n+,7,8\n")
    for module in (job(), job("files"), job("operations")):
        with pytest.raises(module.JobError, match=r"keeping relations as tables at .*--with delta`"):
            module.apply(None, state, changes)
        assert module.status(state)["commit"] == 1
        assert module.relation(None, state, "reach").num_rows == 1
    assert with_tables.apply(None, state, changes)["rows"] == {"link": 2, "reach": 2}


def test_parts_from_python() -> None:
    """``compile`` of the package takes them in any order, each once or more often."""
    (text,) = flintlog.compile(PROGRAM, format=False, parts=["files", "operations", "files"]).files.values()
    assert "Besides the basic commands it has: operations, files.\n" in text
    with pytest.raises(ValueError, match="'tables' is not one of explain, operations, delta"):
        flintlog.compile(PROGRAM, parts=["tables"])


@pytest.mark.parametrize("given", [["operations"], ["all"], ["delta,files", "operations"], ["tables"]])
def test_the_option(given: list[str], tmp_path: Path) -> None:
    """``--with`` takes names, several of them, or ``all``; others are refused."""
    (tmp_path / "net.dl").write_text(PROGRAM, "utf-8")
    options = [option for text in given for option in ("--with", text)]
    result = CliRunner().invoke(main, ["compile", str(tmp_path / "net.dl"), "--stdout", "--no-format", *options])
    if given == ["tables"]:
        assert result.exit_code == 2
        assert "'tables' is not one of explain, operations, delta" in result.output
        return
    assert result.exit_code == 0
    named = {name for text in given for name in text.split(",")}
    listed = ", ".join(part for part in PARTS if part in named or "all" in named)
    assert f"Besides the basic commands it has: {listed}." in result.output
