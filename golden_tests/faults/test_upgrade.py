"""``upgrade``: a state of another version of the program becomes one of this, and little is recomputed; ``compact``."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from golden_tests.harness import Row, compile_text, load_script, stored_tuples
from golden_tests.nightly import AT_NIGHT, by_day
from golden_tests.oracle import batches, evaluate, language

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
input relation link(@src: int, dst: int)
input relation mark(node: int, weight: int)
output relation reachable(@src: int, dst: int)
output relation marked(src: int, dst: int)
output relation total(src: int, sum: int)
output relation unseen(node: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
r3: marked(S, D) :- reachable(S, D), mark(D, _).
r4: total(S, sum<W>) :- marked(S, D), mark(D, W).
r5: unseen(N) :- mark(N, _), !reachable(_, N).
"""


def with_rule(old: str, new: str) -> str:
    """The program with a difference."""
    assert old in PROGRAM
    return PROGRAM.replace(old, new)


class States:
    """States of versions of a program, one after the other in the same place."""

    def __init__(
        self, place: SparkSession | None, folder: Path, buckets: int, engine: str = "auto", program: str = PROGRAM
    ) -> None:
        """Nothing is built; commands run at a ``place``: in a session, or here if it is None."""
        self.place, self.folder, self.buckets, self.engine = place, folder, buckets, engine
        self.state = str(folder / "state")
        self.rng = random.Random(buckets)
        self.inputs: dict[str, set[Row]] = {}
        self.log: Any = None
        self.use(program)

    def use(self, program: str) -> Any:
        """Go on with another version."""
        self.module: Any = load_script(compile_text(program, "steps.dl")[1])
        self.language = language.parse(program)
        self.log = self.module.Log(quiet=True)
        return self.module

    def changes(self) -> batches.Batch:
        """A random batch."""
        rng = self.rng
        links = {(rng.randrange(9), rng.randrange(9)): rng.choice("++-") for _ in range(9)}
        marks = {rng.randrange(9): (rng.choice("+-"), rng.randrange(3)) for _ in range(4)}
        return {
            "link": [(op, row) for row, op in links.items()],
            "mark": [(op, (node, weight)) for node, (op, weight) in marks.items()],
        }

    def files(self, batch: batches.Batch) -> dict[str, str]:
        """The batch as files."""
        for name, rows in batch.items():
            columns = [column.name for column in self.language.relations[name].columns]
            lines = [["op", *columns], *([op, *row] for op, row in rows)]
            (self.folder / f"{name}.csv").write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        return {name: str(self.folder / f"{name}.csv") for name in batch}

    def build(self) -> None:
        """Build the state, and apply a batch."""
        links: list[batches.Change] = [("+", (node, node + 1)) for node in (1, 2, 3, 5, 6)]
        self.init({"link": links, "mark": [("+", (n, n)) for n in (2, 3, 4, 8)]})
        self.apply()

    def init(self, batch: batches.Batch) -> None:
        """Build the state."""
        self.inputs = batches.apply({}, batch, self.language)
        module, engine = self.module, self.engine
        module.init(self.place, self.state, self.files(batch), self.buckets, engine=engine, log=self.log)

    def apply(self, batch: batches.Batch | None = None) -> None:
        """Apply a batch, a random one unless it is given."""
        batch = self.changes() if batch is None else batch
        self.inputs = batches.apply(self.inputs, batch, self.language)
        self.module.apply(self.place, self.state, self.files(batch), engine=self.engine, log=self.log)

    def columns(self) -> dict[str, list[tuple[str, str]]]:
        """The columns of the relations."""
        return {r.name: [(column.name, column.type) for column in r.columns] for r in self.module.PROGRAM.relations}

    def stored(self) -> dict[str, set[Row]]:
        """The relations that users see."""
        state, relations = Path(self.state), self.module.PROGRAM.relations
        manifest = self.module.read_manifest(state)
        return {r.name: stored_tuples(self.module, state, manifest, r) for r in relations if not r.hidden}

    def check(self, verify: bool = True) -> dict[str, set[Row]]:
        """The state is what the program makes of the inputs, as the oracle and the job itself see it; returns it."""
        stored = self.stored()
        expected = {**self.inputs, **evaluate.evaluate(self.language, self.inputs)}
        assert stored == {name: expected[name] for name in stored}
        if verify:
            verified = self.module.verify(self.place, self.state, engine=self.engine, log=self.log)
            assert verified["differences"] == []
        return stored

    def upgrade(self, program: str, **given: Any) -> tuple[set[str], set[str], list[str]]:
        """Upgrade to another version, check what is published, apply another batch; what was recomputed, kept and
        dropped."""
        result = self.turn(program, "upgrade", **given)
        self.apply()
        self.check()
        return set(result["recomputed"]), set(result["kept"]), result["dropped"]

    def turn(self, program: str, command: str, **given: Any) -> dict[str, Any]:
        """Go on with another version, by ``upgrade`` or ``rebuild``; check what is published."""
        before, columns = self.stored(), self.columns()
        module = self.use(program)
        self.inputs = {r.name: self.inputs.get(r.name, set()) for r in self.language.inputs}
        result: dict[str, Any] = getattr(module, command)(
            self.place, self.state, engine=self.engine, log=self.log, **given
        )
        after = self.check(verify=False)
        published = {}
        for name, folder in result["published"].items():
            rows = [tuple(row.values()) for file in Path(folder).iterdir() for row in pq.read_table(file).to_pylist()]
            assert len(rows) == len(set(rows))
            published[name] = {(op, tuple(row)) for op, *row in rows}
        same = {r.name for r in module.PROGRAM.relations if r.output} & {
            name for name, found in self.columns().items() if columns.get(name) == found
        }
        expected = batches.diff({name: before[name] for name in same}, {name: after[name] for name in same})
        assert published == expected
        assert result["batch"] == f"{command}-{result['commit']:06d}"
        assert module.status(self.state)["differs"] == []
        return result


Make = Callable[..., States]


@pytest.fixture
def make(place: SparkSession | None, tmp_path: Path) -> Make:
    """Builds a state of the program."""

    def build(buckets: int = 2, engine: str = "auto") -> States:
        states = States(place, tmp_path, buckets, engine)
        states.build()
        return states

    return build


ALL = {"link", "mark", "reachable", "marked", "total", "unseen"}

CHANGES = {
    "in the middle": ("reachable(S, D), mark(D, _)", "reachable(S, D), mark(D, W), W > 2", {"marked"}, []),
    "of recursion": ("reachable(@S, D) :- link(@S, D).", "reachable(@S, D) :- link(@S, D), S != D.", {"reachable"}, []),
    "on top": (
        "r5:",
        "output relation pair(a: int, b: int)\nr6: pair(A, B) :- marked(A, B), unseen(B).\nr5:",
        {"pair"},
        [],
    ),
    "removed": ("r4: total(S, sum<W>) :- marked(S, D), mark(D, W).", "", {"total"}, []),
}


@by_day(3)
@pytest.mark.parametrize("change", CHANGES)
def test_only_what_changed_is_recomputed(change: str, make: Make) -> None:
    """What depends on it follows its net changes."""
    old, new, recomputed, dropped = CHANGES[change]
    states = make()
    program = with_rule(old, new)
    assert states.upgrade(program) == (
        recomputed,
        (ALL | {"pair"} if change == "on top" else ALL) - recomputed,
        dropped,
    )


@AT_NIGHT
def test_an_upgrade_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Its engine finds the same differences."""
    states = States(spark, tmp_path, 2)
    states.build()
    states.engine = "spark"
    turned = with_rule("link(@S, Z), reachable(@Z, D)", "reachable(@S, Z), link(@Z, D)")
    assert states.upgrade(turned.replace("mark(D, _)", "mark(D, W), W > 2"))[0] == {"reachable", "marked"}


@AT_NIGHT
@pytest.mark.parametrize(("buckets", "few"), [(3, 0), pytest.param(1, 300_000, marks=AT_NIGHT)])
def test_upgrades_one_after_the_other(buckets: int, few: int, make: Make) -> None:
    """There and back again, however the state is cut."""
    states = make(buckets)
    dropped = with_rule("r4: total(S, sum<W>) :- marked(S, D), mark(D, W).\n", "").replace(
        "output relation total(src: int, sum: int)\n", ""
    )
    use = states.use

    def use_with_few(program: str) -> Any:
        use(program).FEW_ROWS = few
        return states.module

    states.use = use_with_few  # type: ignore[method-assign]
    assert states.upgrade(dropped) == (set(), ALL - {"total"}, ["total"])
    assert states.upgrade(PROGRAM) == ({"total"}, ALL - {"total"}, [])
    # The pivot: paths that grow at the start are cut by their end, and the other way round.
    turned = with_rule("link(@S, Z), reachable(@Z, D)", "reachable(@S, Z), link(@Z, D)")
    assert states.upgrade(turned)[0] == {"reachable"}
    keyed = turned.replace("mark(node: int, weight: int)", "mark(node: int, weight: int) primary key (node)")
    states.inputs["mark"] = {(n, n) for n in (1, 2, 3)}
    given = {"mark": states.files({"mark": [("+", row) for row in states.inputs["mark"]]})["mark"]}
    assert states.upgrade(keyed, inputs=given)[0] == {"mark", "marked", "total", "unseen"}


@by_day(1)
def test_other_columns(make: Make) -> None:
    """Rows of an input with other columns have to be given; what reads a relation with other columns is recomputed."""
    states = make()
    wider = with_rule("marked(src: int, dst: int)", "marked(src: int, dst: int, more: int)")
    wider = wider.replace("r3: marked(S, D)", "r3: marked(S, D, 1)").replace(
        "marked(S, D), mark", "marked(S, D, _), mark"
    )
    assert states.upgrade(wider)[0] == {"marked", "total"}
    more = with_rule("mark(node: int, weight: int)", "mark(node: int, weight: int, why: int)")
    more = more.replace("mark(D, _)", "mark(D, _, _)").replace("mark(D, W)", "mark(D, W, _)")
    module = states.use(more.replace("mark(N, _)", "mark(N, _, _)"))
    with pytest.raises(module.JobError) as refused:
        module.upgrade(states.place, states.state, log=states.log)
    assert (
        str(refused.value)
        == "the columns of mark differ from those of its stored rows; pass rows with --input mark=PATH"
    )


@by_day(1)
def test_an_unchanged_program(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """Another comment changes nothing, and nothing is written."""
    states = make()
    for program in (PROGRAM, f"// Who reaches whom.\n{PROGRAM}"):
        module = states.use(program)
        files = sorted(Path(states.state).rglob("*"))
        result = module.upgrade(states.place, states.state, log=states.log)
        assert result["applied"] is False and result["recomputed"] == [] and set(result["kept"]) == ALL
        assert sorted(Path(states.state).rglob("*")) == files
    capsys.readouterr()
    assert module.main(["upgrade", "--state", states.state]) == 0
    assert capsys.readouterr().out == "nothing to do: no definition has changed\n"


@by_day(1)
def test_other_commands_name_upgrade(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """They do not work on a state of another version."""
    states = make()
    module = states.use(with_rule("mark(D, _)", "mark(D, W), W > 2"))
    capsys.readouterr()
    for command in ("verify", "compact"):
        assert module.main([command, "--state", states.state, "--quiet"]) == 1
        assert capsys.readouterr().err == (
            f"{command}: the state was written by another version of steps.dl: marked has different rules; "
            "`upgrade` recomputes the relations that this affects\n"
        )
    assert module.main(["upgrade", "--state", states.state, "--quiet"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("batch upgrade-000003 is commit 3, in ")
    assert out[-2:] == ["recomputed: marked", "kept: link, mark, reachable, total, unseen"]


@by_day(1)
def test_compact(make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    """No file of changes is left, no tuple has changed, and the next batch goes on from there."""
    check_compact(make(), "auto", capsys)


@AT_NIGHT
def test_compact_by_spark(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same by Spark's engine."""
    states = States(spark, tmp_path, 2)
    states.build()
    check_compact(states, "spark", capsys)


def check_compact(states: States, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Compact a state with an engine."""
    module, state = states.module, states.state
    module.COMPACT_SHARE = 100
    for _ in range(2):
        states.apply()
    before = module.read_manifest(Path(state))
    assert any(entry.changes for r in before.relations.values() for entry in r.buckets.values())
    stored = states.check()
    result = module.compact(states.place, state, engine=engine, log=states.log)
    assert result["batch"] == f"compact-{result['commit']:06d}" and result["published"] == {}
    assert result["files"][1] < result["files"][0] and result["bytes"][1] < result["bytes"][0]
    after = module.read_manifest(Path(state))
    assert not any(entry.changes for r in after.relations.values() for entry in r.buckets.values())
    assert after.clocks == before.clocks
    assert states.check() == stored
    states.apply()
    states.check()
    module.compact(states.place, state, log=states.log)
    capsys.readouterr()
    assert module.main(["compact", "--state", state, "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("nothing to merge: no relation has files of changes (")
