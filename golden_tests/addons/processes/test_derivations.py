"""``explain --root`` across process blocks: scripts as they are compiled, each of which answers for its own state."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.targets import EmitOptions
from flintlog.targets.processes.emit import emit_processes

from golden_tests.addons.processes.model import World
from golden_tests.addons.processes.real import imported
from golden_tests.harness import VERSION, frozen_row
from golden_tests.nightly import AT_NIGHT, NIGHTLY, seeds
from golden_tests.oracle.evaluate import Store, evaluate, once
from golden_tests.oracle.language import Program, Row, parse

#: P is sent two of three columns of S.host, and Q the tuples that match its constants. W and X support each other, with
#: what W negates, and P counts what follows.
TEXT = """
process S {
  input relation host(id: int, port: int, name: string)
  s1: S.host(I, P, N) :- host(I, P, N).
  s2: S.host(I, P, "twice") :- host(I, P, _), host(I, P2, _), P < P2.
}
process P {
  p1: P.there(I) :- S.host(I, _, _).
  p2: P.named(N) :- S.host(_, _, N), !S.host(1, _, N).
  p3: P.ends(X, count<Y>) :- W.reach(X, Y), P.there(Y).
}
process Q {
  input relation wanted(id: int)
  q1: Q.found(I) :- wanted(I), P.there(I), S.host(I, 2, "it's"), !S.host(I, 1, _).
  q2: Q.any("yes") :- S.host(_, 3, "twice").
}
process W {
  input relation off(id: int)
  w1: W.reach(X, Y) :- S.host(X, Y, _).
  w2: W.reach(X, Z) :- W.reach(X, Y), X.edge(Y, Z, _), !off(Z).
}
process X {
  x1: X.edge(X, Y, "x") :- W.reach(X, Y), S.host(Y, _, _).
}
"""
#: The columns of what processes are fed.
COLUMNS = {("S", "host"): ("id", "port", "name"), ("Q", "wanted"): ("id",), ("W", "off"): ("id",)}


FEW = 3
"""So many derivations of an aggregated value are shown."""


def plain(text: str) -> str:
    """The rules of all processes, for the oracle."""
    lines = [line for line in text.splitlines() if not re.match(r"process|}", line)]
    return re.sub(r"\b([A-Z])\.(\w+)", lambda found: f"{found[1].lower()}_{found[2]}", "\n".join(lines))


class Written:
    """The scripts of processes in a folder, and the states that they left when they were at rest."""

    def __init__(self, text: str, folder: Path) -> None:
        """Write the scripts."""
        self.jobs, self.root = folder / "jobs", folder / "root"
        self.jobs.mkdir()
        compiled = compile_processes([SourceFile("test.dl", text)])
        plans = {name: compilation.plan for name, compilation in compiled.compilations.items()}
        for name, content in emit_processes(compiled.topology, plans, EmitOptions(VERSION, format=False)).items():
            (self.jobs / name).write_text(content, encoding="utf-8")

    def keep(self, world: World) -> None:
        """Write the states."""
        for name in world.names:
            home = self.root / "homes" / name
            home.mkdir(parents=True)
            world.kill(name)
            shutil.copy(world.states[name].file, home)

    def explain(self, process: str, *arguments: str, code: int = 0) -> str:
        """What the script of a process prints."""
        command = [sys.executable, str(self.jobs / f"{process}.py"), "explain", "--root", str(self.root), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr if code else done.stdout


def check(program: Program, tables: Mapping[str, set[Row]], said: Mapping[str, Any]) -> None:
    """Each leaf is a row that its process was fed, and each step an instance of a rule over tuples of this derivation,
    each of them at the process that it belongs to; nothing follows from itself."""
    nodes = said["tuples"]
    assert not said["missing"]

    def visit(number: int, above: tuple[int, ...]) -> None:
        assert number not in above, said
        node = nodes[number]
        owner, _, name = node["relation"].rpartition(".")
        name, row = f"{owner.lower()}_{name}" if owner else name, frozen_row(node["values"])
        assert row in tables[name], (node, said)
        if node.get("given"):
            assert (node["process"], name) in COLUMNS and not node["because"]
            return
        assert node["process"] == owner and "computed" not in node and "cut" not in node, node
        below = [nodes[one] for one in node["because"]]
        store = Store({})
        for one in below:
            store.add(one["relation"].replace(".", "_").lower(), [frozen_row(one["values"])])
        if node.get("derivations", 0) <= FEW:
            assert row in once(program, name, store, strict=False), (node, below)
        for one in node["because"]:
            visit(one, (*above, number))

    visit(0, ())


def constants(row: Row) -> str:
    """A row as programs write it."""
    return ", ".join(json.dumps(value) for value in row)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_any_rows(seed: int, tmp_path: Path) -> None:
    """Of tuples of any process, every leaf is a row that some process was fed, and every step an instance of a rule,
    although processes are sent some of the columns or some of the tuples only, and were killed before."""
    rng = random.Random(seed)
    written, world = Written(TEXT, tmp_path), World(TEXT, tmp_path / "world", rng)
    inputs: dict[tuple[str, str], set[Row]] = {place: set() for place in COLUMNS}
    hosts = [(i, p, n) for i in range(1, 5) for p in range(1, 5) for n in ("a", "it's", "twice")]
    try:
        for _ in range(2 if NIGHTLY else 1):
            for place, rows in inputs.items():
                new = {*rng.sample(hosts, 8)} if place == ("S", "host") else {(n,) for n in rng.sample(range(5), 3)}
                changes = [*(("-", row) for row in sorted(rows - new)), *(("+", row) for row in sorted(new - rows))]
                world.feed(*place, COLUMNS[place], changes)
                inputs[place] = new
            world.stir()
        world.settle()
        tables = evaluate(parse(plain(TEXT)), {name: rows for (_, name), rows in inputs.items()})
        every = sorted((name, row) for name, rows in world.relations().items() for row in rows)
        assert {name.lower().replace(".", "_"): rows for name, rows in world.relations().items()} == tables
        written.keep(world)
    finally:
        world.close()
    known = {**tables, **{name: rows for (_, name), rows in inputs.items()}}
    ends = [(name, row) for name, row in every if name == "P.ends"]
    for name, row in [*rng.sample(ends, 1), *rng.sample(every, 9 if NIGHTLY else 0)]:
        said = json.loads(written.explain(name[0], f"{name}({constants(row)})", "--json"))
        try:
            assert said["tuples"][0]["relation"] == name
            check(parse(plain(TEXT)), known, said)
        except AssertionError as error:
            raise AssertionError(f"{seed}: {json.dumps(said, indent=1)}") from error


FUNCTIONS = """
extern function half(x: int): int
process A {
  input relation n(x: int, s: string)
  A.n(X, S) :- n(X, S).
}
process B {
  B.half(Y) :- A.n(X, "it's"), Y = half(X).
}
process C {
  C.odd(X) :- B.half(Y), X = Y + 1, !A.n(X, _).
}
"""


@AT_NIGHT
def test_printed(tmp_path: Path) -> None:
    """Through three processes, all of which have the functions that one is given; and what is said of processes whose
    states or scripts are not here."""
    file = tmp_path / "functions.py"
    file.write_text("def half(x):\n    return x // 2\n", encoding="utf-8")
    written = Written(FUNCTIONS, tmp_path)
    rows: dict[str, dict[str, list[Row]]] = {
        "A": {"n": [(4, "it's"), (5, "no")]},
        "B": {"A_n": [(4, "it's")]},
        "C": {"B_half": [(2,)], "A_n": [(4,), (5,)]},
    }
    for name, known in rows.items():
        script: Any = imported(written.jobs / f"{name}.py")
        state = script.ProcessState(script.PROGRAM, script.PROCESS, written.root / "homes" / name, str(file))
        with state.database.transaction():
            state.apply({table: [("+", row) for row in found] for table, found in known.items()}, "step-1")
        state.close()
    given = ("C.odd(3)", "--functions", str(file))
    lines = written.explain("C", *given).splitlines()
    assert [re.sub(r"  by [\w.]+: .*", "", line) for line in lines] == [
        "C.odd(3) at C",
        "   no A.n(3)",
        "└─ B.half(2) at B",
        '   └─ A.n(4, "it\'s") at A',
        '      └─ n(4, "it\'s") at A  given',
    ]
    assert "pass their file with --functions FILE" in written.explain("C", given[0], code=1)
    (written.jobs / "A.py").rename(written.jobs / "a.py")
    held = written.explain("C", *given).splitlines()
    assert held[:3] == lines[:3] and held[3:] == [
        '   └─ A.n(4, "it\'s") at B  held by A, whose state is not here',
        "not looked at: the script of A is not beside this one",
    ]
    (written.root / "homes" / "B").rename(tmp_path / "away")
    lost = written.explain("C", *given, "--home", f"B={tmp_path / 'gone'}").splitlines()
    assert lost[2:] == [
        "└─ B.half(2) at C  held by B, whose state is not here",
        f"not looked at: B has no state in {tmp_path / 'gone'}",
    ]
    assert written.explain("C", *given, "--home", f"B={tmp_path / 'away'}").splitlines() == held
