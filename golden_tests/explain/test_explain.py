"""Why a tuple is there, or not: proofs and attempts on random programs against the oracle, and as they print."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.ir import typed
from flintlog.compiler.passes.split_aggregates import witnesses

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, MemoryJob, Row, compile_text, load_script
from golden_tests.nightly import AT_NIGHT, seeds
from golden_tests.oracle.evaluate import evaluate
from golden_tests.random_search import scenario_of, strategy_for

TUPLES = 3
"""Of each relation, this many tuples are asked for, and as many that are not there."""


class Asked:
    """A job with a state that the oracle knows too, and the answers to questions about it."""

    def __init__(self, text: str, folder: Path, buckets: int = 1, spark: Any = None) -> None:
        """Nothing is built yet; with ``spark``, its engine answers."""
        self.compilation, script = compile_text(text)
        self.text = text
        self.job = LocalJob(script, folder, buckets)
        self.spark = spark
        self.checked = Checked(self.job, text, self.compilation)

    def explain(self, relation: Any, row: Row, limit: int = 1000) -> dict[str, Any]:
        """The answer of the job, after a way through text and back."""
        job: Any = self.job.module
        text = job.tuple_text(relation, row)
        found, values = job.parse_tuple(self.job.program, text)
        assert (found, tuple(map(job.hashable, values))) == (relation, row), text
        task = job.Task(self.job.options, str(self.job.folder), self.job.manifest.relations)
        engine = job.SparkEngine(self.spark, 1) if self.spark else job.DuckEngine(state=str(self.job.folder))
        try:
            answer: dict[str, Any] = job.Explainer(self.job.program, engine, job.stored_in(engine, task)).explain(
                relation, row, limit
            )
        finally:
            if engine.name == "spark":
                engine.close()
        assert answer["tuple"] == text
        assert list(job.report_explanation(answer))
        json.dumps(answer, default=job.value_text)
        return answer

    @property
    def taken_apart(self) -> list[str]:
        """The helpers of aggregates, which explanations never name."""
        return [relation.name for relation in self.compilation.rewritten.relations if relation.part_of]

    @property
    def paths(self) -> set[str]:
        """The relations of paths, which have no other name than the compiler's."""
        hidden = [relation for relation in self.compilation.rewritten.relations if relation.hidden]
        return {r.name for r in hidden if not (r.part_of or r.shown_as or r.projects or r.annotates or r.public)}

    def relations(self) -> Iterator[tuple[Any, set[Row]]]:
        """The relations that users see, and what they hold."""
        for relation in self.job.program.relations:
            if not relation.hidden:
                known = self.checked.state if relation.name in self.checked.state else self.checked.inputs
                yield relation, known.get(relation.name, set())

    def holds(self, name: str) -> set[Row]:
        """What a relation holds."""
        return next(rows for relation, rows in self.relations() if relation.name == name)

    def check_proof(self, relation: Any, row: Row) -> None:
        """Every tuple of a proof is there, follows from others without a circle, and in the end from inputs."""
        answer = self.explain(relation, row)
        assert answer["present"], answer
        nodes = {node["id"]: node for node in answer["tuples"]}
        assert nodes[0]["tuple"] == answer["tuple"]
        hashable: Any = self.job.module.hashable  # type: ignore[attr-defined]
        leaves: dict[str, set[Row]] = {}
        for node in nodes.values():
            values = tuple(map(hashable, node["values"]))
            assert not node["tuple"].startswith(tuple(f"{name}(" for name in self.taken_apart)), node
            assert node.get("internal") or values in self.holds(node["relation"]), node
            if node.get("given"):
                leaves.setdefault(node["relation"], set()).add(values)
        self.check_order(nodes)
        positive = not any(node.get("absent") or "derivations" in node for node in nodes.values())
        if positive and "!" not in self.text:
            # What the proof uses is enough.
            alone = {name: leaves.get(name, set()) for name in self.checked.inputs}
            assert row in {**alone, **evaluate(self.checked.program, alone)}[relation.name]

    def check_order(self, nodes: dict[int, dict[str, Any]]) -> None:
        """No tuple is among its own reasons."""
        done: set[int] = set()
        while len(done) < len(nodes):
            ready = {n for n, node in nodes.items() if n not in done and set(node["because"]) <= done}
            assert ready, "a proof goes in a circle"
            done |= ready

    def check_attempts(self, relation: Any, row: Row) -> None:
        """Of a tuple that is not there: what rules found is there, what they miss is not; the group is right."""
        answer = self.explain(relation, row)
        assert not answer["present"]
        assert answer["input"] == (relation.kind == "input")
        self.check_group(relation, row, answer)
        for attempt in answer["rules"]:
            for text in attempt["found"]:
                assert self.matching(text), (text, attempt)
            if attempt.get("why") == "is not there":
                path = attempt["missing"].split("(")[0] in self.paths
                assert path or not self.matching(attempt["missing"], attempt["step"]), attempt
            elif attempt.get("why") == "is there":
                assert self.matching(attempt["missing"]), attempt
            elif "missing" not in attempt:
                assert answer["group"], "a rule that derives a tuple makes it be there, or another one of its group"

    def check_group(self, relation: Any, row: Row, answer: dict[str, Any]) -> None:
        """What is said of the group of a tuple that is not there."""
        rules = [r for r in self.compilation.typed.rules if r.head.relation == relation.name]
        arguments = rules[0].head.arguments if rules else ()
        computed = [i for i, argument in enumerate(arguments) if isinstance(argument, typed.Aggregate)]
        if not computed:
            assert "group" not in answer
            return
        by = [i for i in range(len(row)) if i not in computed and i not in witnesses(rules[0].head)]
        group = [r for r in self.holds(relation.name) if [r[i] for i in by] == [row[i] for i in by]]
        job: Any = self.job.module
        assert set(answer["group"]) <= {job.tuple_text(relation, r) for r in group}
        assert len(answer["group"]) == min(len(group), 3)

    def matching(self, text: str, step: str = "") -> bool:
        """Whether there are tuples like a text, in which ``_`` is any value, the same where a literal has a variable
        twice; helpers of paths are not looked into."""
        name, _, inside = text.partition("(")
        job: Any = self.job.module
        if name in self.paths:
            return True
        relation = self.job.relation(name)
        assert not relation.hidden, f"{text} names what users do not know"
        words = job.split_values(inside.removesuffix(")"))
        terms = job.split_values(step.partition("(")[2].removesuffix(")")) or words
        free = [i for i, (word, term) in enumerate(zip(words, terms, strict=True)) if word == "_" != term]
        same = [(i, k) for i in free for k in free if k < i and terms[i] == terms[k]]
        return any(
            all(row[i] == row[k] for i, k in same)
            and all(
                word in ("_", job.constant_text(value, column.type))
                for word, value, column in zip(words, row, relation.columns, strict=True)
            )
            for row in self.holds(name)
        )

    def check(self, draw: random.Random) -> int:
        """Ask for tuples of all relations, and for some that are not there; returns how many."""
        asked = 0
        for relation, rows in self.relations():
            known = sorted(rows, key=repr)
            for row in draw.sample(known, min(TUPLES, len(known))):
                self.check_proof(relation, row)
                other = draw.choice(known)
                place = draw.randrange(len(row)) if row else 0
                mixed = (*row[:place], *other[place:])
                asked += 1
                if mixed not in rows:
                    self.check_attempts(relation, mixed)
                    asked += 1
        return asked


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """After the rows at first, and after a batch: what is kept of a recursion that lost tuples proves the rest."""
    scenario = scenario_of(7000 + seed)
    asked = Asked(scenario.text, tmp_path, 1 + seed % 3)
    asked.job.use_strategy(strategy_for(scenario))
    try:
        problems = asked.checked.build(scenario.inputs)
        assert not problems
        if asked.checked.refused:
            return
        count = asked.check(random.Random(seed))
        for batch in scenario.batches[:2]:
            assert not asked.checked.apply(batch, recount=False)
        count += asked.check(random.Random(seed))
        assert count or not any(rows for _, rows in asked.relations())
    finally:
        asked.job.close()


@AT_NIGHT
def test_in_spark(spark: Any, tmp_path: Path) -> None:
    """Spark's engine says the same."""
    scenario = scenario_of(7001)
    asked = Asked(scenario.text, tmp_path, spark=spark)
    try:
        assert not asked.checked.build(scenario.inputs)
        assert asked.check(random.Random(1)) > 0
    finally:
        asked.job.close()


PROGRAM = """
input relation link(@src: int, dst: int)
input relation closed(node: int)
input relation road(a: string, b: string, len: int)
output relation reachable(@src: int, dst: int)
output relation degree(src: int, nodes: int)
output relation dist(b: string, len: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
r3: degree(S, count<D>) :- reachable(S, D), !closed(S).
r4: dist(B, min<L>) :- road("home", B, L).
r5: dist(C, min<L>) :- dist(B, M), road(B, C, N), L = M + N, L < 100.
"""
ROWS = {
    "link": "src,dst\n1,2\n2,3\n3,1\n3,4\n7,8\n",
    "closed": "node\n7\n",
    "road": "a,b,len\nhome,x,5\nx,y,6\nhome,y,20\ny,z,95\n",
}
ANSWERS = {
    "reachable(@1, 4)": """
reachable(1, 4)  by r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).  (test.dl:9)
├─ link(1, 2)  given
└─ reachable(2, 4)  by r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).  (test.dl:9)
   ├─ link(2, 3)  given
   └─ reachable(3, 4)  by r1: reachable(@S, D) :- link(@S, D).  (test.dl:8)
      └─ link(3, 4)  given
""",
    "degree(3, 4)": """
degree(3, 4)  by r3: degree(S, count<D>) :- reachable(S, D), !closed(S).  (test.dl:10)  4 derivations, 3 of them shown
   no closed(3)
├─ reachable(3, 1)  by r1: reachable(@S, D) :- link(@S, D).  (test.dl:8)
│  └─ link(3, 1)  given
├─ reachable(3, 2)  by r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).  (test.dl:9)
│  ├─ link(3, 1)  given
│  └─ reachable(1, 2)  by r1: reachable(@S, D) :- link(@S, D).  (test.dl:8)
│     └─ link(1, 2)  given
└─ reachable(3, 3)  by r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).  (test.dl:9)
   ├─ link(3, 1)  given
   └─ reachable(1, 3)  by r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).  (test.dl:9)
      ├─ link(1, 2)  given
      └─ reachable(2, 3)  by r1: reachable(@S, D) :- link(@S, D).  (test.dl:8)
         └─ link(2, 3)  given
""",
    "degree(7, 1)": """
degree(7, 1) is not there
  r3: degree(S, count<D>) :- reachable(S, D), !closed(S).  (test.dl:10)
    found reachable(7, 8)
    closed(7) is there, for !closed(S)
""",
    'dist("y", 20)': """
dist("y", 20) is not there; its group has dist("y", 11)
  r4: dist(B, min<L>) :- road("home", B, L).  (test.dl:11)
    found road("home", "y", 20)
    derives it, but another value of its group is better
  r5: dist(C, min<L>) :- dist(B, M), road(B, C, N), L = M + N, L < 100.  (test.dl:12)
    found road("x", "y", 6)
    found dist("x", 5)
    len = L does not hold: the rule gives 11
""",
    'dist("z", 106)': """
dist("z", 106) is not there
  r4: dist(B, min<L>) :- road("home", B, L).  (test.dl:11)
    road("home", "z", _) is not there, for road("home", B, L)
  r5: dist(C, min<L>) :- dist(B, M), road(B, C, N), L = M + N, L < 100.  (test.dl:12)
    found road("y", "z", 95)
    found dist("y", 11)
    L < 100 does not hold
""",
    "link(9, 9)": """
link(9, 9) is not there
  it is an input, and has no such row
""",
}
REFUSED = {
    "dist(y, 3)": "dist(y, 3): b: y is not a string, which is written in quotes",
    "degree(1, x)": 'degree(1, x): nodes: "x" is not an int',
    'degree(1, "1")': 'degree(1, "1"): nodes: "1" is not an int',
    "nope(1)": "there is no relation nope in test.dl; it has closed, degree, dist, link, reachable, road",
    "reachable(1)": "reachable has 2 columns (src: int, dst: int), and reachable(1) has 1 values",
    "reachable": "reachable has 2 columns (src: int, dst: int), and reachable has 0 values",
    "reachable(1, 2": '"reachable(1, 2" is not a tuple; write one as in a program: reachable(1, 4)',
}


def test_command(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the command prints, and what it refuses; it starts no session."""
    _, script = compile_text(PROGRAM)
    job: Any = load_script(script)
    try:
        (tmp_path / "rows").mkdir()
        for name, text in ROWS.items():
            (tmp_path / "rows" / f"{name}.csv").write_text(text, encoding="utf-8")
        state = str(tmp_path / "state")
        job.init(spark, state, str(tmp_path / "rows"), buckets=2, log=job.Log(quiet=True))
        job.open_session = None
        for asked, expected in ANSWERS.items():
            assert job.main(["explain", "--state", state, asked]) == 0
            assert capsys.readouterr().out == expected.lstrip("\n")
        for asked, expected in REFUSED.items():
            assert job.main(["explain", "--state", state, asked]) == 1
            assert capsys.readouterr().err == f"explain: {expected}\n"
        assert job.main(["explain", "--state", state, "reachable(1, 4)", "--json", "--limit", "2"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert [node["tuple"] for node in said["tuples"]] == ["reachable(1, 4)", "link(1, 2)"]
        first = said["tuples"][0]
        assert (first["relation"], first["values"], first["rule"], first["because"]) == ("reachable", [1, 4], "r2", [1])
        assert first["cut"] is True
    finally:
        del sys.modules[job.__name__]


TYPES = """
input relation row(i: int, f: float, d: decimal(4,2), b: bool, s: string, day: date, at: timestamp, l: list<int>)
output relation same(l: list<int>, s: string)
same(L, S) :- row(_, _, _, _, S, _, _, L).
"""
FITTING = ["1", "1.5", "12.34", "true", '"1"', 'date"2026-01-31"', 'timestamp"2026-01-31 12:00:00"', "[1, 2]"]
OTHERS = {
    "i": ['"1"', "1.5", "true", 'date"2026-01-31"', "[1]", ""],
    "f": ['"1.5"', "true", "nan", "inf", "1e999", "x"],
    "d": ['"12.34"', "12.345", "123.45", "true"],
    "b": ['"true"', "1", "yes"],
    "s": ["1", "one", "true", 'date"2026-01-31"', '["1"]', '"\\ud800"'],
    "day": ['"2026-01-31"', "2026-01-31", 'timestamp"2026-01-31 12:00:00"', 'date"2026-02-30"'],
    "at": ['"2026-01-31 12:00:00"', 'date"2026-01-31"', "5"],
    "l": ["1", '"[1, 2]"', '["1"]', "[1, x]", "[[1]]", "[1"],
}


def test_constants_of_other_types() -> None:
    """What stands for a value is a constant of the column's type; a refusal says which that is."""
    job: Any = MemoryJob(compile_text(TYPES)[0]).module
    relation, values = job.parse_tuple(job.PROGRAM, f"row({', '.join(FITTING)})")
    assert job.parse_tuple(job.PROGRAM, job.tuple_text(relation, values)) == (relation, values)
    for place, column in enumerate(relation.columns):
        for wrong in OTHERS[column.name]:
            asked = f"row({', '.join([*FITTING[:place], wrong, *FITTING[place + 1 :]])})"
            with pytest.raises(job.JobError) as error:
                job.parse_tuple(job.PROGRAM, asked)
            said = str(error.value)
            assert f": {column.name}: " in said or "values" in said or "not closed" in said, said


GROUPS = """
input relation link(x: int, y: int, c: int)
input relation visit(p: int, u: int, s: int)
output relation best(x: int, c: int, y: int)
output relation far(x: int, c: int, y: int)
output relation visitors(p: int, n: int, s: int)
output relation longest(x: int, n: int)
output relation reach(x: int, y: int)
output relation lists(l: list<int>)
b: best(X, min<C>, Y) :- link(X, Y, C).
f: far(X, min<C>, Y) :- link(X, Y, C1), link(Y, _, C2), C = C1 + C2.
g: far(X, min<C>, Y) :- link(X, Y, C), C > 100.
v: visitors(P, count<distinct U>, sum<S>) :- visit(P, U, S), !link(_, P, _).
m: longest(X, max<C>) :- link(X, _, C).
r: reach(X, Y) :- link(X, Y, _).
s: reach(X, Y) :- reach(X, Z), reach(Z, Y).
l: lists([X, Y]) :- link(X, Y, _).
"""
GROUP_FACTS = {"link": [(1, 2, 3), (2, 3, 4), (1, 3, 1)], "visit": [(1, 1, 5), (1, 2, 5), (1, 2, 6), (2, 1, 7)]}
GROUP_ANSWERS = {
    "best(1, 1, 3)": """
best(1, 1, 3)  by b: best(X, min<C>, Y) :- link(X, Y, C).  (test.dl:10)
└─ link(1, 3, 1)  given
""",
    "best(1, 3, 2)": """
best(1, 3, 2) is not there; its group has best(1, 1, 3)
  b: best(X, min<C>, Y) :- link(X, Y, C).  (test.dl:10)
    found link(1, 2, 3)
    derives it, but another value of its group is better
""",
    "far(1, 8, 2)": """
far(1, 8, 2) is not there; its group has far(1, 7, 2)
  f: far(X, min<C>, Y) :- link(X, Y, C1), link(Y, _, C2), C = C1 + C2.  (test.dl:11)
    found link(1, 2, 3)
    found link(2, 3, 4)
    c = C does not hold: the rule gives 7
  g: far(X, min<C>, Y) :- link(X, Y, C), C > 100.  (test.dl:12)
    found link(1, 2, 3)
    C > 100 does not hold
""",
    "visitors(1, 2, 15)": """
visitors(1, 2, 15) is not there; its group has visitors(1, 2, 16)
  v: visitors(P, count<distinct U>, sum<S>) :- visit(P, U, S), !link(_, P, _).  (test.dl:13)
    found visit(1, 1, 5)
    contributes to its group, whose value is computed from all contributions
""",
    "visitors(1, 2, 16)": """
visitors(1, 2, 16)  by v: visitors(P, count<distinct U>, sum<S>) :- visit(P, U, S), !link(_, P, _).  (test.dl:13)
   no link(_, 1, _)
├─ visit(1, 1, 5)  given
├─ visit(1, 2, 5)  given
└─ visit(1, 2, 6)  given
""",
    "visitors(2, 1, 7)": """
visitors(2, 1, 7) is not there
  v: visitors(P, count<distinct U>, sum<S>) :- visit(P, U, S), !link(_, P, _).  (test.dl:13)
    found visit(2, 1, 7)
    link(_, 2, _) is there, for !link(_, P, _)
""",
    "longest(1, 1)": """
longest(1, 1) is not there; its group has longest(1, 3)
  m: longest(X, max<C>) :- link(X, _, C).  (test.dl:14)
    found link(1, 3, 1)
    derives it, but another value of its group is better
""",
    "reach(1, 3)": """
reach(1, 3)  by r: reach(X, Y) :- link(X, Y, _).  (test.dl:15)
└─ link(1, 3, 1)  given
""",
    "reach(3, 1)": """
reach(3, 1) is not there
  r: reach(X, Y) :- link(X, Y, _).  (test.dl:15)
    link(3, 1, _) is not there, for link(X, Y, _)
  s: reach(X, Y) :- reach(X, Z), reach(Z, Y).  (test.dl:16)
    reach(3, _) is not there, for reach(X, Z)
""",
    "lists([1, 2])": """
lists([1, 2])  by l: lists([X, Y]) :- link(X, Y, _).  (test.dl:17)
└─ link(1, 2, 3)  given
""",
    "lists([2, 1])": """
lists([2, 1]) is not there
  l: lists([X, Y]) :- link(X, Y, _).  (test.dl:17)
    found link(1, 2, 3)
    l = [X, Y] does not hold: the rule gives [1, 2]
""",
}


def test_groups_and_rules_as_written() -> None:
    """Rules are told as the program has them, and what the group of a tuple has instead; no helper has a name."""
    job = MemoryJob(compile_text(GROUPS)[0])
    module: Any = job.module
    job.session.apply({name: [("+", row) for row in rows] for name, rows in GROUP_FACTS.items()})
    for asked, expected in GROUP_ANSWERS.items():
        said = "\n".join(module.report_explanation(job.session.explain(asked)))
        assert said + "\n" == expected.lstrip("\n"), said


FACTS = """input relation e(x: int)
relation p(x: int, s: string)
p(1, "it's {1}").
named: p(2, "\\\\ \\"two\\"").
p(2, "\\\\ \\"two\\"").
p(X, "e") :- e(X).
output q.
q(X) :- p(X, _).
"""
FACT_ANSWERS = {
    "q(2)": """
q(2)  by q_1: q(X) :- p(X, _).  (test.dl:8)
└─ p(2, "\\\\ \\"two\\"")  by named: p(2, "\\\\ \\"two\\"").  (test.dl:4)
""",
    'p(1, "it\'s {1}")': """
p(1, "it's {1}")  by p_1: p(1, "it's {1}").  (test.dl:3)
""",
    'p(3, "e")': """
p(3, "e") is not there
  p_1 to p_3: 3 facts  (test.dl:3)
    that this tuple is one of the facts does not hold
  p_4: p(X, "e") :- e(X).  (test.dl:6)
    e(3) is not there, for e(X)
""",
}


def test_facts_in_a_row() -> None:
    """Each is told by its own label and place; of a tuple that is none they are told together."""
    job = MemoryJob(compile_text(FACTS)[0])
    module: Any = job.module
    job.session.apply({"e": [("+", (5,))]})
    for asked, expected in FACT_ANSWERS.items():
        said = "\n".join(module.report_explanation(job.session.explain(asked)))
        assert said + "\n" == expected.lstrip("\n"), said
