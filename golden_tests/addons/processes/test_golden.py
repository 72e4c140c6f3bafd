"""What programs of several processes become, file by file; ``--update-golden`` writes it anew."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from flintlog.compiler import CompileOptions, compile_process_files
from flintlog.compiler.diagnostics import CompileError
from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.runtime import served
from flintlog.runtime.addons.processes.partition import Partition
from flintlog.targets import EmitOptions, module_name
from flintlog.targets.database.lower import lower_rows
from flintlog.targets.processes import emit
from flintlog.targets.processes.emit import emit_nodes, make_processes, served_part
from flintlog.targets.processes.nodes import nodes_of
from flintlog.targets.processes.view import process_view
from flintlog.targets.signature import MARK

from golden_tests.frontend.golden import compare
from golden_tests.harness import VERSION

CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/program.dl"))
EXAMPLE = Path(__file__).parents[3] / "examples" / "switches" / "switches.dl"


def program_part(script: str) -> str:
    """The part of a script that is of its program."""
    return script.partition("\n\n\nimport os\n")[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_files(case: Path, update_golden: bool) -> None:
    """The program parts of the scripts, topology and picture; nothing else stands in the folder."""
    files, found = compile_process_files([case / "program.dl"], CompileOptions(compiler=VERSION))
    plans = {name: compilation.plan for name, compilation in found.compilations.items()}
    scripts = make_processes(found.topology, plans, EmitOptions(compiler=VERSION))
    lowered = {name: lower_rows(program, VERSION) for name, program in plans.items()}
    parts = {
        f"{module_name(name)}.py": f"{served_part(lowered[name], EmitOptions(VERSION), served_one)}\n"
        for name, served_one in ((name, process_view(name, found.topology, plans)) for name in scripts)
    }
    assert all(part[:-1].partition(MARK)[2] in files[name] for name, part in parts.items())
    texts = {**files, **parts, "topology.txt": str(found.topology)}
    heading, _, body = texts.pop("run_local.py").partition(", unless it was edited.\n")
    assert body == Path(emit.__file__).with_name("run_local.py").read_text(encoding="utf-8") and all(
        name in heading for name in scripts
    )
    for name, text in texts.items():
        compare(text, case / "expected" / name, update_golden)
    assert {path.name for path in (case / "expected").iterdir()} == set(texts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_printed_process(case: Path) -> None:
    """A script describes the process that was compiled."""
    compiled = compile_processes([case / "program.dl"])
    plans = {name: compilation.plan for name, compilation in compiled.compilations.items()}
    for name, script in make_processes(compiled.topology, plans, EmitOptions(compiler=VERSION, format=False)).items():
        names = vars(served).copy()
        exec(compile(program_part(script), name, "exec"), names)
        assert names["process"]() == process_view(name, compiled.topology, plans)
        assert names["program"]() == lower_rows(plans[name], VERSION)


@pytest.mark.parametrize("division", [Partition(2), Partition(3, {"1": 2, 'a "b"': 0})], ids=["hash", "known"])
def test_printed_nodes(division: Partition) -> None:
    """A script describes the nodes of a located program."""
    text = """
        input relation link(@s: string, d: string)  input relation on@"it's"  output small.
        output relation reach(@s: string, d: string)
        reach(@S, D) :- link(@S, D).  reach(@S, D) :- link(@S, Z), reach(@Z, D).
        small@"o\\\\3" :- on@"it's".
        """
    plan = compile_nodes(SourceFile("program.dl", text)).node.plan
    described = nodes_of(plan.program, division)
    script, *_ = emit_nodes(plan, division, EmitOptions(VERSION, format=False, runtime="installed")).values()
    names = vars(served).copy()
    exec(compile(program_part(script), "<nodes>", "exec"), names)
    assert names["nodes"]() == described and len(described.routes) == 4 and described.at
    assert names["program"]() == lower_rows(plan, VERSION)


def test_the_example_is_a_case() -> None:
    """What is shown to readers is what is compared."""
    case = next(case for case in CASES if case.name == "switches")
    assert (case / "program.dl").read_text(encoding="utf-8") == EXAMPLE.read_text(encoding="utf-8")


def test_files_and_blocks_are_alike() -> None:
    """The note's listings, each a file, and the same as blocks; but for its slip, which is an error."""
    listing_1 = """
        input relation host(hostID: int, switchID: int)
        input relation S3.blacklist(hostID: int, switchID: int)
        output relation S1.host(hostID: int)
        output relation S1.blacklist(hostID: int)
        S1.host(id) :- host(id, 1).
        S1.blacklist(id) :- S3.blacklist(id, 1).
        """
    listing_2 = """
        input relation S1.host(hostID: int)
        input relation S2.host(hostID: int)
        input relation blacklist(hostID: int)
        output relation S3.host(hostID: int, switchID: int)
        output relation S3.blacklist(hostID: int, switchID: int)
        S3.host(id, 1) :- S1.host(id).
        S3.host(id, 2) :- S2.host(id).
        S3.blacklist(hostID, switchID) :- blacklist(hostID), S3.host(hostID, switchID).
        """
    second = re.sub(r"\bS1\b", "S2", listing_1).replace("(id, 1)", "(id, 2)")
    files = [SourceFile(f"{n}.dl", text) for n, text in enumerate((listing_1, second, listing_2))]
    from_files = compile_processes(files)
    from_blocks = compile_processes([EXAMPLE])
    assert str(from_files.topology).splitlines() == str(from_blocks.topology).splitlines()
    alone = compile_processes([files[0], files[2]], outside=["S2"])
    assert "outside -> S3: S2.host(hostID: int)" in str(alone.topology)


def test_what_comes_from_outside_is_declared() -> None:
    """Its columns stand nowhere else."""
    text = "process B {\n  input relation e(x: int)\n  B.q(X) :- e(X), S.r(X).\n}\n"
    with pytest.raises(CompileError, match=r"the columns of `S.r`, which is fed from outside, are not declared"):
        compile_processes([SourceFile("b.dl", text)], outside=["S.r"])
    declared = text.replace("B.q(X)", "input relation S.r(x: int)\n  B.q(X)")
    found = compile_processes([SourceFile("b.dl", declared)], outside=["S.r"])
    assert "outside -> B: S.r(x: int)" in str(found.topology)


def test_recursions_inside_a_process() -> None:
    """They are maintained as the options say."""
    text = """
    process A {
      input relation e(x: int, y: int)
      A.p(X, Y) :- e(X, Y).
      A.p(X, Z) :- e(X, Y), A.p(Y, Z).
    }
    """
    kinds = {}
    for recursion in RECURSIONS:
        _, found = compile_process_files([SourceFile("a.dl", text)], CompileOptions(format=False, recursion=recursion))
        kinds[recursion] = [s.kind for s in found.compilations["A"].strata.strata]
    assert kinds == {"ranks": ["ranked"], "derivation-sets": ["entries", "counted"]}


def test_topology_is_for_programs() -> None:
    """The JSON names all that connects the processes."""
    files, _ = compile_process_files([EXAMPLE], CompileOptions(format=False))
    topology = json.loads(files["topology.json"])
    assert [process["name"] for process in topology["processes"]] == ["S1", "S2", "S3"]
    assert {(c["sender"], c["reader"], c["relation"]) for c in topology["channels"]} == {
        ("S1", "S3", "S1.host"),
        ("S2", "S3", "S2.host"),
        ("S3", "S1", "S3.blacklist"),
        ("S3", "S2", "S3.blacklist"),
    }
    assert all(process["script"] in files for process in topology["processes"])


def test_topology_page(tmp_path: Path) -> None:
    """One file that needs no network: the picture, and what the logs of a run say."""
    logs = tmp_path / "root" / "logs"
    logs.mkdir(parents=True)
    (logs / "S3.log").write_text(
        "event=sent seconds=1.0 channel=S3.blacklist--S1 kind=snapshot incarnation=1 session=1 sequence=1 "
        "inserted=1500 deleted=0 caught_up=True\nevent=step seconds=2 step=1 handled=1\n"
        "event=sent seconds=3.0 channel=S3.blacklist--S1 kind=changes incarnation=1 session=1 sequence=2 "
        "inserted=2 deleted=7 caught_up=True\n",
        encoding="utf-8",
    )
    page = tmp_path / "page.html"
    ran = subprocess.run(
        ["flintlog", "topology", EXAMPLE, "--html", page, "--root", tmp_path / "root"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "S1 -> S3: S1.host(hostID: int)" in ran.stdout
    text = page.read_text(encoding="utf-8")
    assert "http" not in text
    assert text.count('class="process"') == 3 and text.count('<path class="channel"') == 4
    cells = re.findall(r'<td class="number">([\d,]+)</td>', text)
    assert cells[:4] == ["2", "1", "1,502", "7"]
    assert set(cells[4:]) == {"0"}
