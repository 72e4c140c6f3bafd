"""Channels carry only the columns that rules of their readers need; what agrees on these is counted by the sender."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile

from golden_tests.addons.processes.model import World, evaluated
from golden_tests.nightly import AT_NIGHT, seeds
from golden_tests.oracle.language import Row

TEXT = """
process S {
  input relation host(id: int, port: int, name: string)
  S.host(I, P, N) :- host(I, P, N).
  S.host(I, P, "twice") :- host(I, P, _), host(I, P2, _), P < P2.
  S.port(P) :- P.there(P).
}
process P {
  P.there(I) :- S.host(I, _, _).
  P.named(N) :- S.host(_, _, N), !S.host(1, _, N).
  P.least(min<I>) :- S.host(I, _, _).
}
process Q {
  input relation wanted(id: int)
  Q.any("yes") :- S.host(_, _, _).
  Q.found(I) :- wanted(I), P.there(I), !S.host(I, 2, _).
}
process R {
  R.count(count<I>) :- S.host(I, _, _).
}
process T {
  input relation S.host(id: int, port: int, name: string)
  T.all(I) :- S.host(I, _, _).
}
process U {
  U.there(I) :- S.host(I, _, N), N != "a".
}
process V {
  V.same(I) :- S.host(I, _, N), N = "a".
}
process W {
  W.reach(X, Y) :- S.host(X, Y, _).
  W.reach(X, Z) :- W.reach(X, Y), X.edge(Y, Z, _).
}
process X {
  X.edge(X, Y, "x") :- W.reach(X, Y), S.host(Y, _, _).
}
"""


def test_columns() -> None:
    """Each reader gets those that it needs, or all if it declares the relation, or counts; recursions are whole."""
    topology = compile_processes([SourceFile("test.dl", TEXT)]).topology
    found = {
        (c.relation, c.reader): (", ".join(column.name for column in c.columns), c.sent)
        for c in topology.channels
        if not c.dead
    }
    assert found == {
        ("S.host", "P"): ("I, N", "S.host_I_N"),
        ("S.host", "Q"): ("I, P", "S.host_I_P"),
        ("S.host", "R"): ("I, P, N", ""),
        ("S.host", "T"): ("I, P, N", ""),
        ("S.host", "U"): ("I, N", "S.host_I_N"),
        ("S.host", "V"): ("I, N", "S.host_I_N"),
        ("S.host", "W"): ("I, P", "S.host_I_P"),
        ("S.host", "X"): ("I", "S.host_I"),
        ("P.there", "S"): ("I", ""),
        ("P.there", "Q"): ("I", ""),
        ("X.edge", "W"): ("X, Y, x3", ""),
        ("W.reach", "X"): ("X, Y", ""),
    }


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_what_agrees_is_counted(seed: int, tmp_path: Path) -> None:
    """Rows come and go that differ in what is not sent, while processes are killed and return."""
    rng = random.Random(seed)
    world = World(TEXT, tmp_path / "world", rng, rng.choice([0.0, 20.0]))
    inputs: dict[tuple[str, str], set[Row]] = {("S", "host"): set(), ("Q", "wanted"): {(1,), (2,)}}
    world.feed("Q", "wanted", ("id",), [("+", (1,)), ("+", (2,))])
    try:
        for _ in range(3):
            old = inputs["S", "host"]
            new = {(i, p, n) for i in (1, 2) for p in (1, 2, 3) for n in "ab" if rng.random() < rng.choice([0.1, 0.5])}
            inputs["S", "host"] = new
            changes = [*(("-", row) for row in sorted(old - new)), *(("+", row) for row in sorted(new - old))]
            if changes:
                world.feed("S", "host", ("id", "port", "name"), changes)
            world.stir()
            world.settle()
            assert world.relations() == evaluated(world.compiled, inputs)
    finally:
        world.close()
