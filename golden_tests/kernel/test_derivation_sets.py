"""Recursions with derivation sets: the job against the paper's transition rules, in any order of the updates."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.diagnostics import CompileError
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.checks import Checked
from golden_tests.harness import VERSION, LocalJob, MemoryJob, load_script
from golden_tests.nightly import AT_NIGHT, NIGHTLY, START, by_day, numbers, seeds
from golden_tests.oracle import psn
from golden_tests.oracle.batches import Batch
from golden_tests.oracle.evaluate import evaluate, strata
from golden_tests.oracle.language import Program, Row, parse
from golden_tests.random_search import scenario_of
from golden_tests.row_kernel.jobs import RowsJob

Inputs = dict[str, set[Row]]
AnyJob = MemoryJob | RowsJob

#: So many programs in a test.
SEEDS = 25 if NIGHTLY else 12

#: With more, the oracle would take minutes for a join of entries with entries.
MOST_ENTRIES = 500


def annotated(text: str) -> Any:
    """A program compiled with derivation sets."""
    return compile_program(SourceFile("test.dl", text), recursion="derivation-sets")


def text_of(fact: psn.Fact) -> str:
    """A fact as the job writes it; its values are integers, or strings without quotes."""
    values = (f'"{value}"' if isinstance(value, str) else str(value) for value in fact[1])
    return f"{fact[0]}({','.join(values)})"


def expected_entries(view: Counter[psn.Entry], members: set[str], kept: set[str]) -> Counter[tuple[Any, ...]]:
    """The entries of some relations in a view as the job holds them."""
    found: Counter[tuple[Any, ...]] = Counter()
    for (fact, derived, infinite), count in (+view).items():
        if fact[0] in members:
            assert kept >= {name for name, _ in derived}
            sets = (tuple(sorted(map(text_of, facts))) for facts in (derived, infinite))
            found[(*fact, *sets)] += count
    return found


def entries_in(job: AnyJob, members: set[str]) -> Counter[tuple[Any, ...]]:
    """The entries that a job holds."""
    found: Counter[tuple[Any, ...]] = Counter()
    for relation in job.program.relations:
        name = relation.name.removesuffix("_entries")
        if relation.kind == "entries" and name in members:
            for row, count in job.counts(relation).items():
                found[(name, row[:-2], *row[-2:])] += count
    return found


def as_batch(changes: list[tuple[int, psn.Fact]]) -> Batch:
    """A burst of updates as jobs take it."""
    batch: Batch = {}
    for sign, (name, row) in changes:
        batch.setdefault(name, []).append(("+" if sign > 0 else "-", row))
    return batch


def comparable(program: Program) -> set[str]:
    """The recursive relations whose recursion reads inputs and itself only: there the paper's sets and the job's are
    the same, while a job takes what an earlier stratum derives as given."""
    found: set[str] = set()
    inputs = {relation.name for relation in program.inputs}
    for stratum in strata(program):
        read = {a.relation for r in program.rules if r.head.relation in stratum.relations for a in r.body}  # type: ignore[union-attr]
        if stratum.recursive and read <= inputs | set(stratum.relations):
            found |= set(stratum.relations)
    return found


def run_both(text: str, bursts: list[Inputs], rng: random.Random, kind: Callable[[Any], AnyJob] = MemoryJob) -> int:
    """Take a job and the transition rules through bursts; returns how many entries were compared."""
    program = parse(text)
    system = psn.System(program.rules, psn.shuffled(rng))
    job = kind(annotated(text))
    members, before, compared = comparable(program), Inputs(), 0
    kept = {relation.name for relation in program.inputs} | members
    try:
        for inputs in bursts:
            changes = psn.changes_between(before, inputs)
            system.burst(changes)
            system.run()  # First: where this is too large, the job's copies may be more than there are numbers.
            job.run(as_batch(changes))
            before = inputs
            facts = psn.facts_of(system, program)
            assert facts == evaluate(program, inputs)
            assert {name: job.rows(name) for name in facts} == facts
            assert job.differences() == []
            expected = expected_entries(system.view, members, kept)
            assert entries_in(job, members) == expected
            compared += expected.total()
    finally:
        job.close()
    return compared


def random_inputs(rng: random.Random, size: int) -> Inputs:
    """Rows of e, f and g over a number of values."""
    return {
        name: {row for row in itertools.product(range(size), repeat=arity) if rng.random() < share}
        for name, arity, share in (("e", 2, 0.4), ("f", 1, 0.6), ("g", 2, 0.3))
    }


@AT_NIGHT
@pytest.mark.parametrize("block", numbers(1, 5))
def test_random_programs(block: int) -> None:
    """After every burst the job has the very entries, with their copies, that the rules lead to in a random order."""
    compared = large = 0
    for seed in range(START + SEEDS * block, START + SEEDS * (block + 1)):
        rng = random.Random(seed)
        text, size = psn.random_positive_program(rng), rng.randint(2, 3)
        try:
            compared += run_both(text, [random_inputs(rng, size) for _ in range(3)], rng)
        except psn.TooLarge:
            large += 1
    assert compared > 0 and large < SEEDS * 4 / 5


def run_alone(text: str, bursts: list[Inputs], kind: Callable[[Any], AnyJob] = MemoryJob) -> int:
    """Take a job through bursts, each held against recomputation; returns after how many it has too many sets."""
    program = parse(text)
    job = kind(annotated(text))
    job.limit_entries(1_000)
    before = Inputs()
    try:
        for number, inputs in enumerate(bursts):
            try:
                job.run(as_batch(psn.changes_between(before, inputs)))
            except job.module.JobError as error:
                assert "more than 1000 derivation sets" in str(error), text
                return number
            facts = evaluate(program, inputs)
            assert {name: job.rows(name) for name in facts} == facts, (text, before, inputs)
            assert job.differences() == [], (text, before, inputs)
            before = inputs
    finally:
        job.close()
    return len(bursts)


def random_bursts(rng: random.Random, size: int) -> Iterator[Inputs]:
    """Eight states of the inputs, of which some lose rows while others gain some."""
    now = random_inputs(rng, size)
    for _ in range(8):
        yield now
        other = random_inputs(rng, size)
        now = {n: rng.choice((rows, rows & other[n], rows | other[n], other[n], set())) for n, rows in now.items()}


@AT_NIGHT
@pytest.mark.parametrize("block", numbers(1, 5))
def test_random_bursts(block: int) -> None:
    """Many bursts in a row, each held against recomputation alone, since the transition rules take long."""
    done = 0
    for seed in range(START + SEEDS * block, START + SEEDS * (block + 1)):
        rng = random.Random(seed)
        text = psn.random_positive_program(rng)
        done += run_alone(text, list(random_bursts(rng, rng.randint(1, 2))))
    assert done > SEEDS


def test_what_comes_while_the_rest_goes() -> None:
    """Of the last relation things only go while others come; rounds saw the relations below as they were in between."""
    text = (
        "input relation f(x: int)\ninput relation g(x: int)\noutput p.\noutput q.\n"
        "p(X) :- f(X).\np(X) :- g(X), q(X), p(X).\nq(X) :- f(X).\nq(X) :- q(X), p(X).\n"
    )
    assert run_alone(text, [{"f": {(0,)}, "g": set()}, {"f": set(), "g": {(0,)}}, {"f": {(0,)}, "g": {(0,)}}]) == 3


#: In no state does what leaves meet what comes, or what comes what leaves; together they would divide by zero.
PASSING = """
input relation start(x: int)
input relation q(x: int, y: int)
output relation p(x: int)
p(X) :- start(X).
p(Z) :- p(X), q(X, Y), Z = 100 / Y.
"""


@by_day(2)
@pytest.mark.parametrize("buckets", [0, 2], ids=["memory", "files"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"start": [("+", (1,))]}, {"start": [("-", (1,))], "q": [("+", (1, 0))]}),
        ({"start": [("+", (1,))], "q": [("+", (1, 2))]}, {"q": [("-", (1, 2)), ("+", (50, 0))]}),
        ({"start": [("+", (1,))], "q": [("+", (1, 2)), ("+", (2, 0))]}, {"start": [("-", (1,)), ("+", (3,))]}),
    ],
)
def test_what_is_never_there_divides_nothing(first: Batch, second: Batch, buckets: int, tmp_path: Path) -> None:
    """A batch is refused for a value that is missing in a state, not for one between what leaves and what comes."""
    compilation = annotated(PASSING)
    script = emit_script(compilation.plan, VERSION, format_code=False)
    job = LocalJob(script, tmp_path, buckets) if buckets else MemoryJob(compilation)
    checked = Checked(job, PASSING, compilation)
    for batch in (first, second):
        assert checked.apply(batch) == []
        assert checked.refused == ""
    assert checked.apply({"start": [("+", (7,))], "q": [("+", (7, 0))]}) == []
    assert "division by zero" in checked.refused
    job.close()


#: Nigam et al. 2012: the program of section 5, and the one of section 3.3, with its view and its burst of updates.
SUPPORT = "input relation a\noutput relation p\noutput relation q\np :- a.\nq :- p.\np :- q.\n"
HOPS = """
input relation link(x: string, y: string)
output relation hop(x: string, y: string)
output relation tri_hop(x: string, y: string)
hop(X, Y) :- link(X, Z), link(Z, Y).
tri_hop(X, Y) :- hop(X, Z), link(Z, Y).
"""
LINKS = {tuple(pair) for pair in ("ab", "ad", "dc", "bc", "ch", "fg")}


def ends_of(text: str, changes: list[tuple[int, psn.Fact]], view: Counter[psn.Entry]) -> Counter[psn.Entry]:
    """The one view in which a burst ends, whatever the order."""
    (end,) = psn.all_ends(parse(text).rules, view, changes)
    return end


def test_every_order_of_section_5() -> None:
    """The fact a comes and goes while p and q support each other; in whichever order that is noticed, both go."""
    a: psn.Fact = ("a", ())
    came = ends_of(SUPPORT, [(1, a)], Counter())
    shown = {(fact[0], tuple(sorted(n for n, _ in s)), tuple(sorted(n for n, _ in h))) for fact, s, h in came}
    # As the paper lists them, and q once more, around the cycle.
    assert shown == {
        ("a", (), ()),
        ("p", ("a",), ()),
        ("q", ("a", "p"), ()),
        ("p", ("a", "p", "q"), ("p",)),
        ("q", ("a", "p", "q"), ("p", "q")),
    }
    job = MemoryJob(annotated(SUPPORT))
    job.run({"a": [("+", ())]})
    assert entries_in(job, {"p", "q"}) == expected_entries(came, {"p", "q"}, {name for (name, _), _, _ in came})
    assert ends_of(SUPPORT, [(-1, a)], came) == Counter()
    job.run({"a": [("-", ())]})
    assert entries_in(job, {"p", "q"}) == Counter()
    job.close()
    assert ends_of(SUPPORT, [(1, a), (-1, a)], Counter()) == Counter()
    assert ends_of(SUPPORT, [(-1, a), (1, a)], came) == came


def test_every_order_of_section_3() -> None:
    """The burst of the paper's example, in all orders: hop and tri_hop have the tuples that the paper comes to."""
    before = ends_of(HOPS, [(1, ("link", pair)) for pair in sorted(LINKS)[:3]], Counter())
    for pair in sorted(LINKS)[3:]:
        before = ends_of(HOPS, [(1, ("link", pair))], before)
    burst = [(1, ("link", ("d", "f"))), (1, ("link", ("a", "f"))), (-1, ("link", ("a", "b")))]
    after = ends_of(HOPS, burst, before)
    inputs = {"link": (LINKS | {("d", "f"), ("a", "f")}) - {("a", "b")}}
    found: Inputs = {"hop": set(), "tri_hop": set()}
    for (name, row), _, _ in after:
        if name in found:
            found[name].add(row)
    assert found == evaluate(parse(HOPS), inputs)
    assert ("d", "g") in found["hop"]


def test_names_of_the_user() -> None:
    """A variable may be named as a column for which there is a wildcard, or as what the annotation adds."""
    text = """
input relation d(u: int, v: int)
output p.
p(v, inf) :- d(v, _), d(_, inf).
p(set, derivation) :- p(set, infinite), p(infinite, derivation).
"""
    compilation = annotated(text)
    job = MemoryJob(compilation)
    checked = Checked(job, text, compilation)
    assert checked.apply({"d": [("+", (1, 2)), ("+", (2, 2)), ("+", (3, 1))]}) == []
    assert checked.apply({"d": [("-", (2, 2))]}) == []
    job.close()


def test_too_many(tmp_path: Path) -> None:
    """A recursion with more derivations than are wanted stops the batch, and says what to do."""
    text = "input relation e(x: int, y: int)\noutput p.\np(X, Y) :- e(X, Y).\np(X, Y) :- e(X, Z), p(Z, Y).\n"
    job = LocalJob(emit_script(annotated(text).plan, VERSION, format_code=False), tmp_path)
    job.options = replace(job.options, max_entries=20)
    rows = [("+", (x, y)) for x in range(4) for y in range(4) if x != y]
    with pytest.raises(job.module.JobError, match=r"more than 20 derivation sets; .*--max-entries"):  # type: ignore[attr-defined]
        job.run({"e": rows})
    job.run({"e": rows[:4]})
    assert job.differences() == []
    job.close()


def test_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The sets of a relation are printed, and the tuples that have a set with a fact, with strings and decimals."""
    text = """input relation e(x: string, y: string, c: decimal(4,2))
output p.
p(X, Y) :- e(X, Y, _).
p(X, Y) :- e(X, Z, _), p(Z, Y).
"""
    job: Any = load_script(emit_script(annotated(text).plan, VERSION, format_code=False))
    state, rows = ("--state", str(tmp_path / "state")), tmp_path / "e.csv"
    rows.write_text('x,y,c\n"a""",b,1.5\nb,\\,1\n"a""",\\,2\n', encoding="utf-8")
    assert job.main(["init", "--input", str(rows), "--on", "here", "--quiet", *state]) == 0
    capsys.readouterr()

    def said(*arguments: str, code: int = 0) -> list[str]:
        assert job.main([*arguments, *state]) == code
        found = capsys.readouterr()
        return (found.err if code else found.out).splitlines()

    assert said("depends", r'e("a\"", "b", 1.50)') == [
        r'p("a\"", "\\")  in 1 of 2 derivation sets',
        r'p("a\"", "b")  in 1 of 1 derivation sets',
    ]
    assert said("depends", 'e("b", "b", 1)') == ['nothing depends on e("b", "b", 1.00)']
    assert said("depends", "0" * 31, code=1) == [f"depends: there is no relation {'0' * 31} in test.dl; it has e, p"]
    lines = [json.loads(line) for line in said("show", "p", "--entries", "--format", "json")]
    assert {"X": "b", "Y": "\\", "derivation": [r'e("b","\\",1.00)'], "infinite": [], "_support": 1} in lines
    assert len(lines) == 4
    (message,) = said("show", "e", "--entries", code=1)
    assert message == "show: e has no derivation sets; these have: p"

    changes = tmp_path / "b.csv"
    changes.write_text("op,x,y,c\n-,b,\\,1\n", encoding="utf-8")
    assert job.main(["apply", "--batch", "b", "--changes", f"e={changes}", "--on", "here", "--quiet", *state]) == 0
    capsys.readouterr()
    assert len(said("show", "p", "--entries", "--format", "json")) == 2
    assert [json.loads(line) for line in said("show", "p", "--entries", "--format", "json", "--as-of", "1")] == lines


@pytest.mark.parametrize("rule", ["p(X, Y) :- e(X, Y).", "p(X, Y) :- e(X, Y), e(X, Y)."])
def test_derivations_from_the_same_facts_are_counted(rule: str) -> None:
    """Two rules derive an entry from the same facts; what follows from it goes with either of the relations read."""
    rng = random.Random(0)
    text = (
        "input relation e(x: int, y: int)\ninput relation f(x: int)\noutput p.\n"
        f"p(X, Y) :- e(X, Y).\n{rule}\np(X, Y) :- p(X, Z), e(Z, Y), f(Z).\n"
    )
    edges, nodes = {(0, 1), (1, 2), (2, 3)}, {(1,), (2,)}
    bursts = [
        {"e": edges, "f": nodes},
        {"e": edges, "f": {(2,)}},
        {"e": edges, "f": nodes},
        {"e": {(1, 2)}, "f": nodes},
    ]
    assert run_both(text, bursts, rng) > 0


def test_in_buckets_and_files(tmp_path: Path) -> None:
    """The state of entries in files and buckets, through batches, against the oracle."""
    text = (
        "input relation e(x: int, s: string)\ninput relation f(s: string, y: int)\noutput p.\n"
        "p(X, Y) :- e(X, S), f(S, Y).\np(X, Z) :- p(X, Y), p(Y, Z).\n"
    )
    compilation = annotated(text)
    job = LocalJob(emit_script(compilation.plan, VERSION, format_code=False), tmp_path, 2)
    checked = Checked(job, text, compilation)
    assert checked.build({"e": {(1, 'a"b'), (2, "\\")}, "f": {('a"b', 2), ("\\", 1), ("c", 3)}}) == []
    assert checked.apply({"e": [("+", (2, "c"))], "f": [("-", ("\\", 1))]}) == []
    assert checked.apply({"e": [("-", (1, 'a"b'))]}) == []
    job.close()


@by_day(1)
@pytest.mark.parametrize("seed", seeds(3, 5))
def test_any_program(seed: int) -> None:
    """Random programs with all that the language has: refused for a reason, or kept exact with derivation sets."""
    scenario = scenario_of(seed)
    try:
        compilation = annotated(scenario.text)
    except CompileError as error:
        assert {found.code for found in error.diagnostics if found.severity == "error"} == {"E0504"}
        return
    job = MemoryJob(compilation)
    job.session.max_entries = MOST_ENTRIES
    try:
        checked = Checked(job, scenario.text, compilation)
        for batch in ({n: [("+", row) for row in rows] for n, rows in scenario.inputs.items()}, *scenario.batches):
            problems = checked.apply(batch, recount=True)
            assert problems == [] or f"more than {MOST_ENTRIES} derivation sets" in problems[0]
            if problems:
                return
    finally:
        job.close()
