"""Derivation sets where programs run without a job: equal results, and a refusal by name if there are too many."""

from __future__ import annotations

from pathlib import Path

import flintlog as library
import pytest
from flintlog.compiler.cli.options import REFUSED

from golden_tests.cli.test_commands import flintlog, written
from golden_tests.nightly import AT_NIGHT

MESH = "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).\np(X, Y) :- e(X, Z), p(Z, Y).\n"
EDGES = [(x, y) for x in range(4) for y in range(4) if x != y]
SETS = ("--recursion", "derivation-sets")
FEW = (*SETS, "--max-entries", "20")
TOO_MANY = "p_entries: more than 20 derivation sets; leave out --recursion derivation-sets, or raise --max-entries"


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program with its facts, a test and a command file beside it."""
    written(tmp_path / "facts" / "e.csv", "x,y\n" + "".join(f"{x},{y}\n" for x, y in EDGES))
    rows = [[x, y] for x in range(4) for y in range(4)]
    test = f'[[test]]\nname = "mesh"\ngiven.e = "facts/e.csv"\nexpect.p = {rows}\n'
    written(tmp_path / "mesh.test.toml", test)
    inserts = ", ".join(f"insert e({x}, {y})" for x, y in EDGES)
    written(tmp_path / "mesh.dat", f"start;\n{inserts};\ncommit dump_changes;\n")
    return str(written(tmp_path / "mesh.dl", MESH))


def arguments(command: str, program: str) -> list[str]:
    """What a command needs to evaluate the program."""
    folder = Path(program).parent
    return {
        "run": ["run", program, "--facts", str(folder / "facts")],
        "replay": ["replay", program, str(folder / "mesh.dat")],
        "test": ["test", str(folder)],
    }[command]


@pytest.mark.parametrize("command", ["run", "replay", "test"])
def test_commands(command: str, program: str) -> None:
    """Ranks and derivation sets give the same output; too many sets are refused, and ranks have no such limit."""
    given = arguments(command, program)
    plain = flintlog(*given)
    assert plain.exit_code == 0, plain.output
    sets = flintlog(*given, *SETS)
    assert (sets.exit_code, sets.stdout) == (0, plain.stdout)
    refused = flintlog(*given, *FEW)
    assert refused.exit_code == REFUSED
    assert TOO_MANY in refused.output
    assert flintlog(*given, "--max-entries", "20").stdout == plain.stdout


def test_library() -> None:
    """``flintlog.evaluate`` and sessions take both options."""
    facts = {"e": EDGES}
    expected = library.evaluate(MESH, facts)["p"].to_list()
    assert library.evaluate(MESH, facts, recursion="derivation-sets")["p"].to_list() == expected
    with pytest.raises(library.JobError, match=f"^{TOO_MANY}"):
        library.evaluate(MESH, facts, recursion="derivation-sets", max_entries=20)
    with library.Session(MESH, {"e": EDGES[:3]}, recursion="derivation-sets", max_entries=20) as session:
        with pytest.raises(library.JobError, match=TOO_MANY):
            session.apply(insert=facts)
        assert session.apply(delete={"e": EDGES[:1]})["p"].deleted.to_list() == [(0, 1)]


def test_uncovered_recursion(tmp_path: Path) -> None:
    """What derivation sets do not cover is refused with the reason."""
    path = written(tmp_path / "far.dl", "input relation e(x: int)\nn(X) :- e(X).\nn(X + 1) :- n(X), X < 3.\n")
    refused = flintlog("run", str(path), *SETS)
    assert refused.exit_code == REFUSED
    assert "E0504" in refused.output


@AT_NIGHT
def test_nodes(program: str, tmp_path: Path) -> None:
    """Nodes of a located program are simulated and compiled with derivation sets; too many of a node are refused."""
    located = str(
        written(tmp_path / "located.dl", MESH.replace("(x:", "(@x:").replace("(X,", "(@X,").replace("(Z,", "(@Z,"))
    )
    cut = written(tmp_path / "cut.dat", "start;\ndelete e(0, 1), delete e(2, 1);\ncommit;\n")
    facts = ("--facts", str(tmp_path / "facts"))
    given = ("simulate", located, "--nodes", "2", *facts, "--changes", str(cut), "--kills", "1", *SETS)
    done = flintlog(*given)
    assert done.exit_code == 0, done.output
    assert done.stdout.count("equal to the single evaluation") == 2
    refused = flintlog(*given, "--max-entries", "20")
    assert refused.exit_code == REFUSED
    assert "more than 20 derivation sets" in refused.output
    out = ("-o", str(tmp_path / "net"))
    compiled = flintlog("compile", located, "--target", "processes", "--nodes", "2", *SETS, *out)
    assert compiled.exit_code == 0, compiled.output
    assert "dead" not in (tmp_path / "net" / "topology.json").read_text(encoding="utf-8")
