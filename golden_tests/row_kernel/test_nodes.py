"""Nodes on rows: live proofs, the identities of base facts, epochs and dead ranges, as columns keep them."""

from __future__ import annotations

import itertools
import random
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.runtime.kernel import model as kernel_model
from flintlog.runtime.kernel.errors import Refused
from flintlog.runtime.row_kernel import model as row_model
from flintlog.runtime.row_kernel.tables import RowTables
from flintlog.targets import EmitOptions
from flintlog.targets.database.emit import make_row_script, roots_of, view_of
from flintlog.targets.database.lower import lower_rows
from flintlog.targets.pyspark.load import load_program

from golden_tests.addons.nodes import test_simulation
from golden_tests.addons.nodes.programs import located_program, witnessed_program
from golden_tests.addons.processes import model, test_model
from golden_tests.addons.processes.test_model import random_processes, random_recursion
from golden_tests.harness import VERSION
from golden_tests.nightly import seeds
from golden_tests.row_kernel.nodes import RowSession, RowsState, TwinJob, TwinSession, use_sessions

#: What names of nodes begin with.
HOSTILE = "n\"\\0,(\u00e9]\U0010ffff':"


@pytest.mark.parametrize("program", [located_program, witnessed_program])
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_twins(seed: int, program: Callable[[random.Random, str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch of each node, whatever has come and is gone, leaves the same tables on rows and in columns."""
    use_sessions(monkeypatch, TwinSession)
    for number in range(2):
        test_simulation.run(1000 * seed + number, program, most=2)


@pytest.mark.parametrize("prefix", ["n", HOSTILE], ids=["plain", "hostile"])
@pytest.mark.parametrize("program", [located_program, witnessed_program])
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_any_program(
    seed: int, program: Callable[[random.Random, str], str], prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that send each other what they have on rows come to what one process computes."""
    use_sessions(monkeypatch, RowSession)
    for number in range(3):
        test_simulation.run(1000 * seed + number, program, most=2, prefix=prefix)


@pytest.mark.parametrize("program", [random_processes, random_recursion])
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_processes(
    seed: int, program: Callable[[random.Random], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So do processes that are killed, stopped and started again, whatever their channels do."""
    monkeypatch.setattr(model, "MemoryJob", TwinJob)
    test_model.any_schedule(seed, tmp_path / "world", random_program=program)


NAMES = """
process A {
  input relation e(_id: int, rowid: int, proof: string)
  A.p__ids(proof, life) :- e(_, life, proof).
  A.p__ids(i, l) :- B.p__ids(i, l), !lives(i).
  A.any :- e(_, _, _).
  A.any :- B.any.
  A.dead(1, min<X>) :- e(X, _, _).
  A.dead(1, min<Y>) :- B.dead(1, X), e(Z, _, _), Y = X + Z - 3.
  A.last(text, max<X>, g) :- e(X, _, text), g = text.
  A.last(text, max<X>, g) :- B.last(text, X, g).
  lives(proof) :- e(_, 2, proof).
}
process B {
  input relation w(x: int)
  B.p__ids(i, l) :- A.p__ids(i, l), w(l).
  B.any :- A.any, w(1).
  B.dead(1, min<Y>) :- A.dead(1, X), Y = X + 3.
  B.dead(1, min<X>) :- w(X).
  B.last(text, max<X>, g) :- A.last(text, X, g), !w(3).
}
"""


@pytest.mark.parametrize("seed", seeds(1, 10))
def test_names(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and values that mean something to somebody, relations without columns, and extrema of all tuples."""
    monkeypatch.setattr(model, "MemoryJob", TwinJob)
    rng = random.Random(f"names {seed}")
    world = model.World(NAMES, tmp_path / "world", rng)
    there: dict[tuple[str, str], set[Any]] = {("A", "e"): set(), ("B", "w"): set()}
    texts = ["", HOSTILE, "[", '","', "000000000000", "'"]
    try:
        for _ in range(4):
            new = {(rng.randrange(4), rng.randrange(4), rng.choice(texts)) for _ in range(3)}
            for place, columns, come in (
                (("A", "e"), ("_id", "rowid", "proof"), new),
                (("B", "w"), ("x",), {(rng.randrange(4),)}),
            ):
                gone = {row for row in sorted(there[place]) if rng.random() < 0.5}
                come -= there[place]
                there[place] = (there[place] - gone) | come
                changes = [*(("-", row) for row in sorted(gone)), *(("+", row) for row in sorted(come))]
                if changes:
                    world.feed(*place, columns, changes)
            world.settle()
            assert world.relations() == model.evaluated(world.compiled, there)
    finally:
        world.close()


REACH = """
input relation link(@a: int, b: int)
input relation off(@a: int, b: int)
output relation reach(@a: int, b: int)
reach(@X, Y) :- link(@X, Y), !off(@X, Y).
reach(@X, Y) :- link(@X, Z), reach(@Z, Y), X != Y.
"""

OWN, OTHER = "0" * 15 + "1", "0" * 15 + "2"


def node_of(text: str, **limits: int) -> RowsState:
    """A node of a program, which knows its life and another one."""
    program = lower_rows(compile_nodes(SourceFile("test.dl", text)).node.plan)
    node = RowsState(program, limits.get("max_rounds", 100), limits.get("max_entries", 10**6))
    node.apply({})
    node.apply({"lives": [("+", ("me", OWN, True)), ("+", ("you", OTHER, False))]})
    return node


def test_identities() -> None:
    """Numbers have no gaps and are not used again; those that are gone are ranges, which are joined."""
    node = node_of(REACH)
    tables = {relation.name: relation for relation in node.program.relations}

    def numbers() -> list[int]:
        return sorted(int(row[-1][-12:]) for row in node.rows(tables["link_ids"]))

    def dead() -> list[tuple[int, int]]:
        found = [row for row in node.rows(tables["dead"]) if row[0].startswith(f"{OWN}001")]
        return sorted((int(first[-12:]), int(last[-12:])) for first, last in found)

    node.apply({"link": [("+", (1, n)) for n in range(10)]})
    assert numbers() == [*range(1, 11)] and dead() == []
    node.apply({"link": [("-", (1, 2)), ("-", (1, 4)), ("+", (1, 10))]})
    assert numbers() == [1, 2, 4, 6, 7, 8, 9, 10, 11] and dead() == [(3, 3), (5, 5)]
    node.apply({"link": [("-", (1, 3)), ("-", (1, 8)), ("+", (1, 2))]})
    assert numbers() == [1, 2, 6, 7, 8, 10, 11, 12] and dead() == [(3, 5), (9, 9)]
    assert {row[0][-12:] for op, row in node.changes(tables["dead"]) if op == "-" and row[0][16:19] == "001"} == {
        f"{3:012}",
        f"{5:012}",
    }
    node.apply({"link": [("-", (1, n)) for n in (0, 1, 2, 5, 6, 7, 9, 10)]})
    assert numbers() == [] and dead() == [(1, 12)]
    other = "0" * 15 + "3"
    node.apply({"lives": [("-", ("me", OWN, True)), ("+", ("me", other, True))], "link": [("+", (5, 5))]})
    assert [row[-1] for row in node.rows(tables["link_ids"])] == [f"{other}001{13:012}"]
    assert not any(row[0].startswith(OWN) for row in node.rows(tables["dead"])) and not node.state.differences()
    node.close()


def test_lives_and_ranges() -> None:
    """What has come counts while all of its identities are live: other lives that begin, end and return, ranges that
    are dead, overlap or are dead no more."""
    node = node_of(REACH)
    received = next(r for r in node.program.relations if r.table.endswith("_received"))
    proofs = next(r for r in node.program.relations if r.table == received.table.replace("_received", "_proofs"))
    elsewhere = next(r for r in node.program.relations if r.name == "dead_elsewhere")
    ids = [f"{OTHER}001{number:012}" for number in range(20)]
    unknown = f"{'0' * 15}9001{1:012}"

    def known(**changes: Sequence[tuple[str, Any]]) -> set[Any]:
        node.apply(changes)
        assert not node.state.differences()
        return {row[1] for row in node.rows(proofs)}

    def ranges(sign: str, *pairs: tuple[int, int]) -> dict[str, list[tuple[str, Any]]]:
        return {elsewhere.table: [(sign, (ids[first], ids[last])) for first, last in pairs]}

    rows = [("+", (1, place, [ids[place], *([unknown] if place == 9 else [])])) for place in range(10)]
    assert known(**{received.table: rows}) == {*range(9)}
    assert known(lives=[("+", ("they", unknown[:16], False))]) == {*range(10)}
    assert known(**ranges("+", (2, 3))) == {0, 1, *range(4, 10)}
    assert known(**ranges("-", (2, 3))) == {*range(10)}
    assert known(**ranges("+", (5, 5))) == {*range(10)} - {5}
    assert known(**ranges("+", (1, 8))) == {0, 9}
    # A range within another one hides it from who looks at the last one that begins before.
    more = {received.table: [("+", (1, 100 + place, [ids[place]])) for place in (4, 7, 9)]}
    assert known(**more) == {0, 9, 109}
    assert known(**ranges("-", (5, 5))) == {0, 9, 109}
    assert known(**ranges("-", (1, 8))) == {*range(10), 104, 107, 109}
    assert known(lives=[("-", ("you", OTHER, False))]) == set()
    assert known(lives=[("+", ("you", OTHER, False))]) == {*range(10), 104, 107, 109}
    both = {received.table: [("-", (1, 0, [ids[0]])), ("+", (1, 0, [ids[19]])), ("-", (1, 1, [ids[1]]))]}
    assert known(**both) == {0, *range(2, 10), 104, 107, 109}
    node.close()


@pytest.mark.parametrize("seed", seeds(3, 100))
def test_overlaps(seed: int) -> None:
    """Any ranges say of any identity whether it is dead."""
    rng = random.Random(seed)
    node = node_of(REACH)
    received = next(r for r in node.program.relations if r.table.endswith("_received"))
    proofs = next(r for r in node.program.relations if r.table == received.table.replace("_received", "_proofs"))
    elsewhere = next(r for r in node.program.relations if r.name == "dead_elsewhere").table
    ranges: set[tuple[int, int]] = set()
    there: dict[int, list[int]] = {}
    for step in range(12):
        gone = {one for one in sorted(ranges) if rng.random() < 0.4}
        first = [rng.randrange(12) for _ in range(rng.randint(0, 3))]
        come = {(one, min(one + rng.randrange(5), 11)) for one in first} - ranges
        new = {100 * step + place: sorted(rng.sample(range(12), rng.randint(1, 3))) for place in range(3)}
        lost = [key for key in there if rng.random() < 0.2]
        changes = [("-", pair) for pair in sorted(gone)] + [("+", pair) for pair in sorted(come)]
        sent = [("-", (1, key, there.pop(key))) for key in lost] + [("+", (1, key, ids)) for key, ids in new.items()]
        ranges, there = (ranges - gone) | come, {**there, **new}
        node.apply(
            {
                elsewhere: [(op, tuple(map(identity, pair))) for op, pair in changes],
                received.table: [(op, (a, b, [*map(identity, ids)])) for op, (a, b, ids) in sent],
            }
        )
        dead = {number for number in range(12) if any(a <= number <= b for a, b in ranges)}
        assert {row[1] for row in node.rows(proofs)} == {key for key, ids in there.items() if dead.isdisjoint(ids)}
        assert not node.state.differences()
    node.close()


def test_files(tmp_path: Path) -> None:
    """A node in a file goes on where it was, also behind a batch that was refused."""
    rng, path = random.Random(7), str(tmp_path / "node.db")
    program = lower_rows(compile_nodes(SourceFile("test.dl", REACH)).node.plan)
    received = next(r for r in program.relations if r.table.endswith("_received")).table
    kept, there = RowsState(program, 100, 10**6), set[Any]()
    for step in range(12):
        new = {(rng.randrange(4), rng.randrange(4), (identity(rng.randrange(5)),)) for _ in range(4)} - there
        gone = {row for row in sorted(there) if rng.random() < 0.3}
        there = (there - gone) | new
        signed = [*(("-", row) for row in sorted(gone)), *(("+", row) for row in sorted(new))]
        links = {"link": [("-+"[step % 2], (1, 2)), ("+", (step, step + 1)), ("-", (step - 2, step - 1))]}
        batch = {received: [(op, (a, b, list(ids))) for op, (a, b, ids) in signed], **links}
        if step == 1:
            batch["lives"] = [("+", ("me", OWN, True)), ("+", ("you", OTHER, False))]
        if step > 5:
            batch["dead_elsewhere"] = [("-+"[step % 2], (identity(step % 3), identity(3)))]
        file = RowsState(program, 100, 10**6, path)
        if step > 2:
            file.state.tables.max_entries = 0
            with pytest.raises(Refused, match="more than 0 tuples"):
                file.apply({received: [("+", (9, 9, [identity(4)]))], "link": [("+", (8, 9))]})
            file.state.tables.max_entries = 10**6
        for state in (kept, file):
            state.apply(batch)
            assert not state.state.differences()
        for relation in program.relations:
            assert [*file.rows(relation)] == [*kept.rows(relation)], relation.name
        file.close()
    kept.close()


def identity(number: int) -> str:
    """An identity of the other life."""
    return f"{OTHER}001{number:012}"


RETURNED = """
input relation given(@a: int, b: int, c: int)
input relation link(@a: int, z: int, b: int, c: int)
output relation p(@a: int, b: int, c: int)
output relation s(@b: int, a: int, c: int)
p(@X, Y, min<C>) :- given(@X, Y, C).
p(@X, Y, min<C>) :- p(@X, Z, C1), link(@X, Z, Y, C2), C = C1 + C2.
s(@Y, X, min<C>) :- p(@X, Y, C).
p(@X, Y, min<C>) :- s(@Y, X, C).
"""


def test_what_leaves_twice() -> None:
    """A tuple may be withdrawn, come back with the same proof, and then be replaced by a better value."""
    plan = compile_nodes(SourceFile("test.dl", RETURNED)).node.plan
    twin = TwinSession(lower_rows(plan), load_program(plan))
    returned = (1, 2, 10, [f"{OWN}001{1:012}"])
    twin.apply({})
    twin.apply({"lives": [("+", ("me", OWN, True))]})
    twin.apply({"given": [("+", (1, 2, 10))], "link": [("+", (1, 3, 2, 1))]})
    twin.apply({"p_received": [("+", returned)]})
    twin.apply({"p_received": [("-", returned)], "given": [("+", (1, 3, 1))]})
    twin.twin.close()
    twin.engine.close()


PAIR = """
process A {
  input relation e(x: int, y: int)
  input relation f(x: int)
  A.p(X, Y) :- e(X, Y).
  A.p(X, Y) :- e(X, Z), B.p(Z, Y), !f(X).
}
process B {
  input relation e(x: int, y: int)
  B.p(X, Y) :- e(X, Y), A.p(X, Y).
}
"""


def steps(size: int, count: int) -> int:
    """The steps that a batch of changes of all kinds takes."""
    compiled = compile_processes([SourceFile("test.dl", PAIR)]).compilations["A"]
    node = RowsState(lower_rows(compiled.plan), 100, 10**6)
    tables = {relation.name: relation.table for relation in node.program.relations}
    received = next(table for table in tables.values() if table.endswith("_received"))

    def sent(numbers: range) -> list[tuple[str, Any]]:
        return [("+", (number, number, sorted({identity(number), identity(number // 2)}))) for number in numbers]

    node.apply({})
    node.apply({"lives": [("+", ("A", OWN, True)), ("+", ("B", OTHER, False))]})
    node.apply({"e": [("+", (n, n + 1)) for n in range(size)], received: sent(range(size))})
    counted = [0]

    def step() -> int:
        counted[0] += 1
        return 0

    node.state.connection.set_progress_handler(step, 10)
    node.apply(
        {
            "e": [("-", (3 * n, 3 * n + 1)) for n in range(count)]
            + [("+", (3 * n + 1, 3 * n + 4)) for n in range(count)],
            "f": [("+", (3 * n + 2,)) for n in range(count)],
            received: [("-", row) for _, row in sent(range(count))] + sent(range(size, size + count)),
            tables["B.dead"]: [("+", (identity(size // 2 + 4 * n), identity(size // 2 + 4 * n))) for n in range(count)],
        }
    )
    node.state.connection.set_progress_handler(None, 0)
    assert not node.state.differences()
    node.close()
    return counted[0]


def test_steps() -> None:
    """Four times the changes take about four times the steps, four times the state hardly more."""
    small, more, large = steps(2000, 25), steps(2000, 100), steps(8000, 25)
    assert small > 100 and more < 6 * small and large < 1.5 * small, (small, more, large)


COUNTING = """
input relation start(@a: int, n: int)
output relation up(@a: int, n: int)
up(@X, N) :- start(@X, N).
up(@X, M) :- up(@X, N), M = N + 1.
up(@X, N) :- start(@X, Y), up(@Y, N).
"""


def test_limits() -> None:
    """A recursion that does not end is refused, and nothing has changed."""
    node = node_of(COUNTING, max_rounds=30)
    with pytest.raises(Refused, match="not finished after 30 rounds; if the recursion needs more, raise --max-rounds"):
        node.apply({"start": [("+", (1, 1))]})
    node.state.tables.max_rounds, node.state.tables.max_entries = 1000, 50
    with pytest.raises(Refused, match="more than 50 tuples; if the recursion ends, raise --max-entries; nothing was"):
        node.apply({"start": [("+", (1, 1))]})
    assert not any([*node.rows(relation)] for relation in node.program.relations if relation.name == "up")
    large = [("+", (1, 2**63 - 20))]
    with pytest.raises(Refused, match=r"overflow or division by zero in .*up_2 \(test.dl:5\).* for a tuple of up"):
        node.apply({"start": large})
    assert not node.state.differences()
    node.close()


def test_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch searches relations; it reads whole ones only where a life of its own begins or ends."""
    plans: dict[str, list[str]] = {}
    execute = RowTables.execute

    def explained(tables: RowTables, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        if sql not in plans and not sql.startswith("CREATE"):
            plans[sql] = [row[3] for row in execute(tables, f"EXPLAIN QUERY PLAN {sql}", values)]
        return execute(tables, sql, values)

    monkeypatch.setattr(RowTables, "execute", explained)
    use_sessions(monkeypatch, RowSession)
    for seed, program in itertools.product(range(3), (located_program, witnessed_program)):
        test_simulation.run(seed, program, most=1, recount=False)
    found = {(table, sql) for sql, plan in plans.items() for table in whole_relations(sql, plan)}
    assert len(plans) > 500 and not found


#: What of a statement says that it reads all of a relation for a reason: who begins or ends a life, all epochs of
#: another life, groups that are computed, and statistics; and relations of few rows.
REASONS = re.compile(
    r'__(lost|gained)" AS "lives"| AS _marks|_epochs__(lost|gained)" .* FROM "[^"]+" AS [sc] WHERE NOT EXISTS'
    r"|SELECT COUNT\(\*\) FROM \(SELECT DISTINCT"
)
FEW = re.compile(r"_rows_of_(lives|\w+__last|\w+__overlaps|_beginning)")


def whole_relations(sql: str, plan: Sequence[str]) -> set[str]:
    """The relations that a statement reads from end to end without a reason."""
    tables = re.findall(r'(temp\.)?"(_rows_of_[^"]+)"(?: AS "?([^" )]+)"?)?', sql)
    names = {alias or table: table for temporary, table, alias in tables if not temporary}
    scans = [line.split()[1] for line in plan if line.startswith("SCAN ")]
    found = {names[scan] for scan in scans if scan in names}
    return {table for table in found if not FEW.fullmatch(table)} if not REASONS.search(sql) else set()


def test_records() -> None:
    """Strata can be printed into scripts, which such programs have for other targets only, yet."""
    plan = compile_nodes(SourceFile("test.dl", REACH)).node.plan
    view = view_of(lower_rows(plan), {})
    records = vars(kernel_model) | vars(row_model)
    tables = {"LINES": view.lines, "HASHES": view.hashes, "LABELS": view.labels}
    relations = [eval(text, records | tables) for text in view.relations]
    known = {**records, **tables, "of": {relation.table: relation for relation in relations}}
    assert tuple(eval(text, known) for text in view.strata) == view.program.strata
    assert {f"row_kernel.{stratum.kind}" for stratum in view.program.strata} <= roots_of(view.program, "x = 1").keys()
    with pytest.raises(ValueError, match="keeps no live proofs"):
        make_row_script(plan, EmitOptions(VERSION))
