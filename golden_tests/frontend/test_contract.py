"""What the frontend promises to later passes, checked on the accepted programs and on random ones."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import Diagnostics
from flintlog.compiler.frontend import read_program
from flintlog.compiler.ir import typed
from flintlog.compiler.ir.typed import variables_of
from flintlog.compiler.source import SourceFile

from golden_tests.frontend.golden import front, rendered
from golden_tests.nightly import AT_NIGHT, NIGHTLY
from golden_tests.oracle.random_programs import random_program

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*/program.dl"))


def names(*expressions: typed.Expression | typed.Wildcard) -> set[str]:
    """The variables of some expressions."""
    return {variable.name for expression in expressions for variable in variables_of(expression)}


def check_program(program: typed.TypedProgram) -> None:
    """Assert what ``typed`` says that every later pass may assume."""
    labels = [rule.label for rule in program.rules]
    assert len(set(labels)) == len(labels)
    for rule in program.rules:
        check_rule(rule, program)


def check_rule(rule: typed.TypedRule, program: typed.TypedProgram) -> None:
    """Assert that the literals stand behind what binds them, and that types agree."""
    bound: set[str] = set()
    for literal in rule.body:
        match literal:
            case typed.Atom():
                bound |= names(*literal.terms)
                check_terms(literal, program)
            case typed.Negation():
                assert names(*literal.atom.terms) <= bound, rule
                check_terms(literal.atom, program)
            case typed.Assignment():
                assert names(literal.value) <= bound and literal.variable.name not in bound, rule
                assert literal.value.type == literal.variable.type
                check_expression(literal.value)
                bound.add(literal.variable.name)
            case typed.Comparison():
                assert names(literal.left, literal.right) <= bound, rule
                assert literal.left.type == literal.right.type
                check_expression(literal.left)
                check_expression(literal.right)
    columns = program.relation(rule.head.relation).columns
    for argument, column in zip(rule.head.arguments, columns, strict=True):
        assert argument.type == column.type
        value = argument.argument if isinstance(argument, typed.Aggregate) else argument
        if value is not None:
            assert names(value) <= bound, rule
            check_expression(value)


def check_terms(atom: typed.Atom, program: typed.TypedProgram) -> None:
    """Assert that an atom holds terms of the types of its columns."""
    for term, column in zip(atom.terms, program.relation(atom.relation).columns, strict=True):
        assert isinstance(term, typed.Variable | typed.Constant | typed.Wildcard)
        assert term.type == column.type


def check_expression(expression: typed.Expression) -> None:
    """Assert that operands are of the type in which they are computed."""
    assert expression.type not in (typed.UNKNOWN, typed.BROKEN)
    match expression:
        case typed.Negate() | typed.Convert():
            check_expression(expression.operand)
        case typed.ListLiteral(items):
            for item in items:
                check_expression(item)
                assert replace(expression.type, optional=False) == typed.list_of(item.type)
        case typed.Call(arguments=arguments):
            for argument in arguments:
                check_expression(argument)
        case typed.Binary():
            for operand in (expression.left, expression.right):
                check_expression(operand)
                decimal_product = expression.op == "*" and expression.type.name == "decimal"
                if decimal_product:
                    assert operand.type.name == "decimal"
                else:
                    assert operand.type == expression.type, expression


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name)
def test_accepted_program_meets_the_contract(path: Path) -> None:
    """The programs under ``programs/``."""
    check_program(front(path)[1])


def test_random_programs_meet_the_contract() -> None:
    """Programs nobody wrote."""
    for seed in range(200 if NIGHTLY else 60):
        _, resolved, diagnostics = front(random_program(random.Random(1000 + seed)).replace(":=", "="))
        if not diagnostics.failed:
            check_program(resolved)


@AT_NIGHT
def test_the_order_of_a_body_changes_no_meaning() -> None:
    """Every order of a body makes the same literals."""
    body = ["n(X, _)", "Y = X + 1", "Z = Y * 2", "!n(Z, _)", "Z > W", "W = Y"]
    found = set()
    for order in itertools.permutations(body):
        program, resolved, diagnostics = front(
            f"input relation n(a: int, b: int)\np(X, Y, Z, W) :- {', '.join(order)}.\n"
        )
        assert not diagnostics.failed, rendered(diagnostics, program)
        check_program(resolved)
        found.add(tuple(sorted(map(str, resolved.rules[0].body))))
    assert len(found) == 1


def test_an_unrelated_rule_changes_no_name() -> None:
    """Labels and columns depend on the rules of their own head only."""
    text = "input relation a(x: int)\np(X) :- a(X).\np(X) :- a(X), X > 1 ; a(X), X < 1.\n"
    before = front(text)[1]
    after = front("input relation b(x: int)\nq(X) :- b(X).\n" + text + "q(X) :- p(X) ; q(X).\n")[1]
    assert {rule.label for rule in before.rules} <= {rule.label for rule in after.rules}
    assert [relation.columns for relation in before.relations] == [
        after.relation(relation.name).columns for relation in before.relations
    ]


def test_rules_carry_their_text_and_place() -> None:
    """The text goes from the label to the dot, over lines; spans count from 1."""
    text = "input relation a(x: int)\n\n  r1: p(X) :-\n      a(X).  // why\np(1).\n"
    rules = front(text)[1].rules
    assert [rule.text for rule in rules] == ["r1: p(X) :-\n      a(X).", "p(1)."]
    assert [(rule.span.line, rule.span.column, rule.span.length) for rule in rules] == [(3, 3, 11), (5, 1, 5)]
    assert (rules[0].body[0].span.line, rules[0].body[0].span.column, rules[0].body[0].span.length) == (4, 7, 4)


def test_includes_are_found_relative_to_the_including_file() -> None:
    """Each file is asked for once, the main file is the first source."""
    files = {
        "lib/links.dl": 'include "../types.dl"\ninput relation link(a: Id, b: Id)\n',
        "types.dl": "typedef Id = string\n",
    }
    asked: list[str] = []

    def load(name: str) -> SourceFile | None:
        asked.append(name)
        return SourceFile(name, files[name]) if name in files else None

    diagnostics = Diagnostics()
    main = SourceFile("main.dl", 'include "lib/links.dl"\ninclude "types.dl"\noutput link.\n')
    program = read_program(main, diagnostics, load)
    assert not diagnostics.items
    assert asked == ["lib/links.dl", "types.dl"]
    assert [source.name for source in program.sources] == ["main.dl", "lib/links.dl", "types.dl"]
