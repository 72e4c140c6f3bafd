"""Why a tuple is in a file, or not: proofs of random programs against the oracle, and as they print."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import flintlog
import pytest
from click.testing import CliRunner
from flintlog.compiler.cli import main
from flintlog.runtime.database.explain import explain_stored, known_values, stored_tuple_text
from flintlog.runtime.database.state import open_file_state
from flintlog.runtime.explain.proofs import report_explanation
from flintlog.runtime.kernel.values import hashable, value_text

from golden_tests.checks import REFUSALS, insertions
from golden_tests.database.test_recompute import FileStates
from golden_tests.harness import Row
from golden_tests.nightly import AT_NIGHT, seeds
from golden_tests.oracle import batches, evaluate
from golden_tests.oracle.random_programs import random_batches, random_inputs
from golden_tests.oracle.random_sums import sum_scenario
from golden_tests.row_kernel.test_programs import random_text

TUPLES = 4
"""Of each relation, this many tuples are asked for, and as many that are not there."""


class AskedFile(FileStates):
    """A state in a file, and the answers to questions about it."""

    def ask(self, relation: Any, row: Row) -> dict[str, Any]:
        """The answer for a tuple, after a way through text."""
        with open_file_state(self.program, self.file) as state:
            answer = explain_stored(state, stored_tuple_text(relation, known_values(relation.columns, row)))
        assert list(report_explanation(answer)) and json.dumps(answer, default=value_text)
        return answer

    def check_proof(self, relation: Any, row: Row, holds: dict[str, set[Row]], text: str) -> None:
        """Every tuple of a proof is there, follows from others without a circle, and in the end from inputs."""
        answer = self.ask(relation, row)
        assert answer["present"], (text, answer)
        nodes = {node["id"]: node for node in answer["tuples"]}
        leaves: dict[str, set[Row]] = {}
        for node in nodes.values():
            values = tuple(map(hashable, node["values"]))
            assert node.get("internal") or values in holds[node["relation"]], (text, node)
            if node.get("given"):
                leaves.setdefault(node["relation"], set()).add(values)
        done: set[int] = set()
        while len(done) < len(nodes):
            ready = {n for n, node in nodes.items() if n not in done and done.issuperset(node["because"])}
            assert ready, (text, "a proof goes in a circle")
            done |= ready
        if "!" not in text and not any("derivations" in node for node in nodes.values()):
            # What the proof uses is enough.
            alone = {r.name: leaves.get(r.name, set()) for r in self.language.inputs}
            assert row in {**alone, **evaluate.evaluate(self.language, alone)}[relation.name], text

    def check_all(self, draw: random.Random, text: str) -> int:
        """Ask for tuples of all relations, and for some that are not there; returns how many."""
        holds, asked = self.stored(), 0
        for relation in self.program.relations:
            known = [] if relation.hidden else sorted(holds[relation.name], key=repr)
            for row in draw.sample(known, min(TUPLES, len(known))):
                self.check_proof(relation, row, holds, text)
                other = draw.choice(known)
                place = draw.randrange(len(row)) if row else 0
                mixed = (*row[:place], *other[place:])
                asked += 1
                if mixed not in holds[relation.name]:
                    answer = self.ask(relation, mixed)
                    assert not answer["present"] and answer["input"] == (relation.kind == "input")
                    for attempt in answer["rules"]:
                        assert attempt.get("missing") or attempt["why"]
        return asked


@pytest.mark.parametrize("seed", seeds(4, 60))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """After the rows at first, and after batches: what is kept of a recursion that lost tuples proves the rest."""
    rng = random.Random(f"explained {seed}")
    if seed % 4 == 3:
        scenario = sum_scenario(seed)
        states, inputs = AskedFile(tmp_path, scenario.text), scenario.inputs
        given, text = scenario.batches, scenario.text
    else:
        text = random_text(rng)
        states = AskedFile(tmp_path, text)
        inputs = random_inputs(rng, states.language)
        given = random_batches(rng, states.language, inputs, 3)
    try:
        evaluate.evaluate(states.language, inputs)
    except tuple(REFUSALS):
        return
    states.init(insertions(inputs))
    count = states.check_all(rng, text)
    for batch in given:
        try:
            evaluate.evaluate(states.language, batches.apply(states.inputs, batch, states.language))
        except tuple(REFUSALS):
            continue
        states.apply(batch, check=False)
    count += states.check_all(rng, text)
    assert count or not any(states.stored().values())


PROGRAM = """
input relation link(@src: int, dst: int)
input relation closed(node: int)
input relation size(node: int, gb: decimal(6,2)?)
output relation reach(@src: int, dst: int)
output relation total(src: int, n: int, gb: decimal(38,2))
output relation any()
output relation fixed(x: string)
one: reach(@X, Y) :- link(@X, Y).
more: reach(@X, Z) :- link(@X, Y), reach(@Y, Z), !closed(Y).
total(X, count<*>, sum<G>) :- reach(X, Y), size(Y, G), G != null.
any() :- closed(_).
fixed("a").
"""

SAID = {
    "reach(1, 3)": """\
reach(1, 3)  by more: reach(@X, Z) :- link(@X, Y), reach(@Y, Z), !closed(Y).  (program.dl:10)
   no closed(2)
├─ link(1, 2)  given
└─ reach(2, 3)  by one: reach(@X, Y) :- link(@X, Y).  (program.dl:9)
   └─ link(2, 3)  given
""",
    "reach(1, 4)": """\
reach(1, 4) is not there
  one: reach(@X, Y) :- link(@X, Y).  (program.dl:9)
    link has no tuple that fits
  more: reach(@X, Z) :- link(@X, Y), reach(@Y, Z), !closed(Y).  (program.dl:10)
    found link(1, 2)
    reach has no tuple that fits
""",
    "reach(2, 4)": """\
reach(2, 4) is not there
  one: reach(@X, Y) :- link(@X, Y).  (program.dl:9)
    link has no tuple that fits
  more: reach(@X, Z) :- link(@X, Y), reach(@Y, Z), !closed(Y).  (program.dl:10)
    found link(2, 3)
    found reach(3, 4)
    closed has a tuple that must not be there
""",
    "total(1, 2, 4.00)": """\
total(1, 2, 4.00)  by total_1: total(X, count<*>, sum<G>) :- reach(X, Y), size(Y, G), G != null.  (program.dl:11)
├─ reach(1, 2)  by one: reach(@X, Y) :- link(@X, Y).  (program.dl:9)
│  └─ link(1, 2)  given
├─ size(2, 1.50)  given
├─ reach(1, 3)  by more: reach(@X, Z) :- link(@X, Y), reach(@Y, Z), !closed(Y).  (program.dl:10)
│     no closed(2)
│  ├─ link(1, 2)  given
│  └─ reach(2, 3)  by one: reach(@X, Y) :- link(@X, Y).  (program.dl:9)
│     └─ link(2, 3)  given
└─ size(3, 2.50)  given
""",
    "total(1, 3, 4.00)": """\
total(1, 3, 4.00) is not there; its group has total(1, 2, 4.00)
  total_1: total(X, count<*>, sum<G>) :- reach(X, Y), size(Y, G), G != null.  (program.dl:11)
    found reach(1, 2)
    found size(2, 1.50)
    contributes to its group, whose value is computed from all contributions
""",
    "any": """\
any  by any_1: any() :- closed(_).  (program.dl:12)
└─ closed(3)  given
""",
    'fixed("a")': """\
fixed("a")  by fixed_1: fixed("a").  (program.dl:13)
""",
    'fixed("b")': """\
fixed("b") is not there
  fixed_1: fixed("a").  (program.dl:13)
    is another tuple
""",
    "link(1, 9)": """\
link(1, 9) is not there
  it is an input, and has no such row
""",
    "reach(_, 4)": """\
reach(3, 4)  by one: reach(@X, Y) :- link(@X, Y).  (program.dl:9)
└─ link(3, 4)  given
""",
}


@pytest.fixture(scope="module")
def view() -> Any:
    """A view in memory."""
    made = flintlog.open(PROGRAM)
    links, sizes = [(1, 2), (2, 3), (3, 4)], [(2, "1.50"), (3, "2.50"), (4, None)]
    made.apply(
        link=[("+", *row) for row in links], closed=[("+", 3)], size=[("+", *row) for row in sizes], batch="first"
    )
    return made


@pytest.mark.parametrize("asked", SAID)
def test_texts(asked: str, view: Any) -> None:
    """As they print."""
    assert "\n".join([*report_explanation(view.explain(asked)), ""]) == SAID[asked]


def test_wrong_questions(view: Any) -> None:
    """What is no tuple of the program is refused."""
    for asked, said in (("reach(1)", "reach has 2 columns"), ("other(1)", "there is no relation other"), ("", "tuple")):
        with pytest.raises(flintlog.JobError, match=said):
            view.explain(asked)
    assert len(view.explain("reach(1, 3)", limit=2)["tuples"]) == 2


def test_command(tmp_path: Path) -> None:
    """By the command line, on the file of a script."""
    script, state = tmp_path / "program.py", tmp_path / "state.db"
    script.write_text(flintlog.compile(PROGRAM, target="database").files["program.py"], encoding="utf-8")
    with flintlog.open(PROGRAM, state) as view:
        view.apply(link=[("+", 1, 2), ("+", 2, 3)])
    command = ["job", "explain", str(script), "--state", str(state)]
    done = CliRunner().invoke(main, [*command, "reach(1, 3)"])
    assert done.exit_code == 0 and done.output == SAID["reach(1, 3)"]
    done = CliRunner().invoke(main, [*command, "reach(1, 3)", "--json"])
    assert json.loads(done.output)["tuples"][0]["rule"] == "more"
    assert CliRunner().invoke(main, [*command, "reach(1, x)"]).exit_code == 1


@AT_NIGHT
def test_strings_like_aliases(tmp_path: Path) -> None:
    """A condition is not taken for one on a literal that its string looks like."""
    text = (
        "input relation x(a: string)\ninput relation y(a: string)\noutput relation q(a: string)\n"
        'q(A) :- x(A), A != "\\"y\\".", y(A).\n'
    )
    states = AskedFile(tmp_path, text)
    states.init({"x": [("+", ('"y".',)), ("+", ("z",))]})
    answers = [states.ask(states.program.relation("q"), (word,))["rules"][0] for word in ('"y".', "z")]
    assert [(answer["found"], answer["missing"]) for answer in answers] == [([], "x"), (['x("z")'], "y")]


def test_rules_that_may_lack_values() -> None:
    """What a tuple lacks is found in a part of the rule, which does not read all that must have a value."""
    program = """
        input relation e(x: int, y: int)
        input relation f(x: int, y: int)
        input relation no(x: int)
        output relation p(x: int)
        p(X) :- e(X, Y), f(Y, Z), A = X + Z, A > 3, !no(A).
    """
    with flintlog.open(program) as view:
        view.apply(e=[("+", 1, 2), ("+", 3, 4), ("+", 5, 6)], f=[("+", 2, 9), ("+", 4, 1)], no=[("+", 4)])
        assert view.explain("p(1)")["present"]
        for asked, found, missing in (("p(3)", 2, "no"), ("p(5)", 1, "f"), ("p(7)", 0, "e")):
            (rule,) = view.explain(asked)["rules"]
            assert (len(rule["found"]), rule["missing"]) == (found, missing)
