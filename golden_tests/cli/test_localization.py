"""Local rules mean what the rules they come from mean: both evaluated by the oracle, on graphs that are not symmetric.

Aggregates see the number of derivations, so rules under ``count<*>`` show that localization keeps it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from flintlog.compiler.ir import typed
from flintlog.compiler.ir.localized import LocalizedProgram, LocalizedRule
from flintlog.compiler.passes.terms import equal_variables
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.nightly import by_day
from golden_tests.oracle.evaluate import ArithmeticFault, evaluate
from golden_tests.oracle.language import Row, parse
from golden_tests.oracle.random_programs import FEATURES, random_inputs, random_program

DECLARATIONS = """
input relation link(@src: int, dst: int)
input relation cost(@src: int, dst: int, c: int)
input relation imports(importer: int, @imported: int)
input relation peer(@a: int, b: int) symmetric
input relation node(@n: int)
input relation colour(n: int, c: int)
input relation via(@x: int, y: int, z: int)
input relation up@0
"""

SHAPES = {
    "link restricted": "r(@S, D) :- link(@S, D). r(@S, D) :- link(@S, Z), r(@Z, D).",
    "the other way": "r(@S, D) :- link(@S, D). r(@S, D) :- r(@S, Z), link(@Z, D).",
    "not linear": "r(@S, D) :- link(@S, D). r(@S, D) :- r(@S, Z), r(@Z, D), S != D.",
    "located by the second column": "r(@M, X) :- imports(X, @M). r(@M, X) :- imports(Y, @M), r(@Y, X).",
    "symmetric": "r(@S, D) :- peer(@S, D). r(@S, D) :- peer(@S, Z), r(@Z, D).",
    "symmetric, counted": "r(@S, count<*>) :- peer(@S, Z), cost(@Z, _, _).",
    "symmetric, two names of a location": "r(@S, D) :- peer(@S, Z), Y = Z, link(@Y, D).",
    "symmetric, to a constant": "r(@S, D) :- peer(@S, 2), link(@2, D).",
    "symmetric, with itself": "r(@S, D) :- peer(@S, Z), peer(@Z, D).",
    "three locations": "r(@S, D) :- link(@S, X), link(@X, Y), link(@Y, D).",
    "three locations, counted": "r(@S, count<*>) :- link(@S, X), cost(@X, Y, _), cost(@Y, _, C), C > 0.",
    "three locations from one": "r(@S) :- via(@S, Y, Z), link(@Y, A), link(@Z, A).",
    "a way that has to be found": "r(A) :- via(@A, B, _), node(@B), link(@C, A).",
    "a ring": "r(@S) :- link(@S, X), link(@X, Y), link(@Y, S).",
    "constants": "r(@S, D) :- link(@1, S), link(@2, D).",
    "constant and variable": "r(@S) :- link(@S, Z), node(@1), Z > 1.",
    "propositions": "r(@D) :- up@0, link(@1, D).",
    "nullary": "r@1 :- up@0. s(@X) :- node(@X), up@0.",
    "remote negation": "r(@S, D) :- link(@S, D), !link(@D, S).",
    "remote negation, with a wildcard": "r(@S, D) :- link(@S, D), !cost(@D, S, _).",
    "remote negation, of what lives anywhere": "r(@S, D) :- link(@S, D), !imports(D, @_).",
    "two remote negations": "r(@S, D) :- link(@S, D), !link(@D, S), !node(@S), !node(@D).",
    "three remote negations": "r(@S) :- via(@S, X, Y), !node(@X), !node(@Y), !link(@X, S), !node(@1).",
    "negation at a computed place": "r(@S, D) :- link(@S, D), Z = S + D, !node(@Z).",
    "negation at a computed place, guarded": "r(@S, D) :- link(@S, D), D != 0, Z = S / D, !link(@Z, S).",
    "negations only": "r(@1) :- !node(@1), !node(@2).",
    "negation, positive literals without location": "r(N, C) :- colour(N, C), !node(@N), !node(@C).",
    "an address that is computed": "r(@S, D) :- link(@S, Z), Y = Z + 1, node(@Y), D = Z * 2.",
    "an address that is assigned": "r(@S) :- link(@S, Z), Y = Z, node(@Y).",
    "an address that is assigned a constant": "r(@S) :- link(@S, _), Y = 2, node(@Y), !node(@S).",
    "equal variables": "r(@S, D) :- link(@S, Z), link(@Y, D), Z = Y.",
    "equal constants": "r(@S, D) :- link(@S, Z), Z = 1, link(@1, D).",
    "repeated variables": "r(@S) :- link(@S, S), cost(@S, Z, Z), node(@Z).",
    "the same literal twice": "r(@S, count<*>) :- link(@S, Z), node(@Z), node(@Z).",
    "wildcards, counted": "r(@S, count<*>) :- cost(@S, Z, _), cost(@Z, _, _).",
    "open locations": "r(N) :- link(@_, N), imports(N, @_).",
    "without location": "r(@N, C) :- colour(N, C), link(@N, M), colour(M, C).",
    "head elsewhere": "r(S, @D) :- link(@S, D). s(@T, D) :- link(@S, D), T = S + 1.",
    "two rules send the same": "r(@S) :- link(@S, Z), node(@Z). s(@S, D) :- link(@S, Z), link(@Z, D).",
    "two places for the same": "r(@S) :- via(@S, Y, Z), link(@Y, Z). s(@S) :- via(@S, Y, Z), link(@Z, Y).",
    "a name that is taken": "link_at_dst(@X) :- node(@X). r(@S) :- link(@S, Z), link_at_dst(@Z).",
}


def compiled(text: str) -> Compilation:
    """Compile a program given as its text."""
    return compile_program(SourceFile("program.dl", text))


def program_text(program: typed.TypedProgram) -> str:
    """The inputs and rules of a typed program as a program that can be read."""
    lines = []
    for relation in program.relations:
        if relation.role == "input":
            columns = f"({', '.join(map(str, relation.columns))})" if relation.columns else ""
            lines.append(f"input relation {relation.name}{columns}")
    lines += [str(rule).removeprefix(f"{rule.label}: ") for rule in program.rules]
    return "\n".join(lines) + "\n"


def places(rule: typed.TypedRule, program: LocalizedProgram) -> set[str]:
    """The locations of the body of a rule."""
    same = equal_variables(rule)
    found = set()
    for literal in (*rule.atoms, *(negation.atom for negation in rule.negations)):
        relation = program.relation(literal.relation)
        if relation.location is not None:
            term = str(literal.terms[relation.location])
            found.add(same.get(term, term))
        elif relation.at is not None:
            found.add(str(relation.at))
    return found


def check_localized(rule: LocalizedRule, program: LocalizedProgram) -> None:
    """Assert that the parts of a rule are local, and that each sends what another one reads."""
    if rule.broadcast:
        assert rule.parts == (rule.rule,)
        return
    for part in rule.parts:
        assert len(places(part, program)) <= 1, part
    assert rule.parts[-1].head == rule.rule.head
    read = [atom.relation for part in rule.parts for atom in part.atoms]
    assert all(send.auxiliary in read for send in rule.sends)


def random_graph(rng: random.Random, program: Compilation) -> dict[str, set[Row]]:
    """Rows for the inputs, those of symmetric relations with their reverses."""
    inputs = {}
    for relation in program.typed.relations:
        if relation.role == "input":
            rows = {tuple(rng.randrange(5) for _ in relation.columns) for _ in range(rng.randrange(10))}
            inputs[relation.name] = rows | {row[::-1] for row in rows} if relation.symmetric else rows
    return inputs


def check_alike(text: str, program: Compilation, made: Iterable[dict[str, set[Row]]]) -> None:
    """Assert that the local rules of a program give what the program gives, on the inputs ``made``."""
    for rule in program.localized.rules:
        check_localized(rule, program.localized)
    # Local rules do not depend on how tuples are located, so the oracle need not know that.
    local = parse(program_text(program.localized.local_rules()))
    original = parse(text)
    for inputs in made:
        try:
            expected = evaluate(original, inputs)
        except ArithmeticFault:
            continue
        expected = {name: rows for name, rows in expected.items() if original.relations[name].path is None}
        found = evaluate(local, inputs)
        assert {name: found.get(name, set()) for name in expected} == expected, f"{text}\n{inputs}"


#: Shapes that cannot be localized.
NOWHERE = ("open locations", "remote negation, of what lives anywhere")


@pytest.mark.parametrize("shape", SHAPES)
def test_shape(shape: str) -> None:
    """One rule shape, on thirty graphs; all but those that cannot be localized are."""
    text = DECLARATIONS + "\n".join(f"{clause}." for clause in SHAPES[shape].removesuffix(".").split(". ")) + "\n"
    program = compiled(text)
    assert bool(program.warnings and "W0810" in {w.code for w in program.warnings}) == (shape in NOWHERE)
    rng = random.Random(shape)
    check_alike(text, program, (random_graph(rng, program) for _ in range(30)))


LITERALS = (
    "link(@{}, {})",
    "cost(@{}, {}, {})",
    "imports({}, @{})",
    "peer(@{}, {})",
    "node(@{})",
    "colour({}, {})",
    "via(@{}, {}, {})",
    "up@0",
)
CONDITIONS = ("{} != {}", "{} = {}", "{} < 3", "{} = 1", "{} + {} > 2")


def random_rule(rng: random.Random, head: str) -> str:
    """A rule over located relations, its literals held together by few variables."""

    def filled(pattern: str, terms: tuple[str, ...]) -> str:
        return pattern.format(*(rng.choice(terms) for _ in range(pattern.count("{}"))))

    names = tuple("XYZU"[: rng.randint(2, 4)])
    body = [filled(rng.choice(LITERALS), (*names, *names, "_", "1")) for _ in range(rng.randint(1, 4))]
    bound = tuple(name for name in names if any(name in literal for literal in body))
    if not bound:
        return f"{head}(@0, count<*>) :- up@0."
    terms = (*bound, *bound, "_", "2")
    body += [f"!{filled(rng.choice(LITERALS), terms)}" for _ in range(rng.choice((0, 0, 1, 2)))]
    body += [filled(rng.choice(CONDITIONS), bound) for _ in range(rng.choice((0, 0, 1)))]
    if rng.random() < 0.3:
        body += [filled("A = {} + {}", bound), rng.choice(("!", "")) + filled("link(@A, {})", bound)]
    rng.shuffle(body)
    argument = rng.choice(("count<*>", rng.choice(bound)))
    return f"{head}(@{rng.choice(bound)}, {argument}) :- {', '.join(body)}."


@by_day(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_rules(seed: int) -> None:
    """Rules that nobody wrote, all of whose literals have locations."""
    rng = random.Random(seed)
    for _ in range(20):
        text = DECLARATIONS + "\n".join(random_rule(rng, f"r{number}") for number in range(3)) + "\n"
        program = compiled(text)
        check_alike(text, program, [random_graph(rng, program) for _ in range(4)])


@by_day(1)
@pytest.mark.parametrize("seed", range(5))
def test_random_programs(seed: int) -> None:
    """Programs that nobody wrote, recursion, aggregates and all."""
    rng = random.Random(seed)
    for _ in range(10):
        text = random_program(rng, (FEATURES | {"locations"}) - {"input_derived"}).replace(":=", "=")
        program = compiled(text)
        if " as " not in str(program.localized):
            check_alike(text, program, [random_inputs(rng, text) for _ in range(2)])


def test_auxiliary_relations_are_shared() -> None:
    """Two rules that send the same tuples to the same place send them once."""
    program = compiled(DECLARATIONS + SHAPES["two rules send the same"].replace(". ", ".\n") + "\n").localized
    assert [relation.name for relation in program.auxiliaries] == ["link_at_dst"]
    assert [rule.label for rule in program.local_rules().rules] == ["link_at_dst", "r_1", "s_1"]


def test_rules_print_with_their_locations() -> None:
    """The rule as it was written, and the local rules that it becomes."""
    program = compiled(DECLARATIONS + SHAPES["remote negation"] + "\n").localized
    assert program.rules[0].text(program.show) == (
        "r_1: r(@S, D) :- link(@S, D), !link(@D, S).\n"
        "  evaluated @D, head sent to @S\n"
        "  send link_at_dst: @S -> @D (link)\n"
        "  link_at_dst: link_at_dst(@D, S) :- link(@S, D).\n"
        "  r_1: r(@S, D) :- link_at_dst(@D, S), !link(@D, S)."
    )
