"""Runs a program from a part of its facts, with the others as batches of changes: equal to the evaluation of all."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from flintlog.compiler.diagnostics import Diagnostics
from flintlog.compiler.ir import syntax
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.pipeline import run_passes

from golden_tests.checks import REFUSALS, Checked, insertions
from golden_tests.harness import MemoryJob, Row
from golden_tests.oracle import language
from golden_tests.oracle.batches import Batch, apply
from golden_tests.oracle.evaluate import evaluate

Facts = Mapping[str, set[Row]]


def without_facts(program: syntax.SyntaxProgram) -> tuple[syntax.SyntaxProgram, dict[str, set[Row]]]:
    """Return the program without the facts of its inputs, and these as rows; copies of multisets do not count."""
    inputs = {s.name: s for s in program.statements if isinstance(s, syntax.RelationDeclaration) and s.is_input}
    facts: dict[str, set[Row]] = {name: set() for name in inputs}
    kept: list[syntax.Statement] = []
    for statement in program.statements:
        if isinstance(statement, syntax.RuleNode) and not statement.body and statement.head.relation in inputs:
            facts[statement.head.relation].add(_row(statement.head, inputs[statement.head.relation]))
        else:
            kept.append(statement)
    return replace(program, statements=tuple(kept)), facts


def _row(head: syntax.AtomNode, relation: syntax.RelationDeclaration) -> Row:
    pairs = zip(head.arguments, relation.columns, strict=True)
    return tuple(_value(argument, column.type.name) for argument, column in pairs)


def _value(expression: syntax.Expression, kind: str) -> Any:
    match expression:
        case syntax.ConstantNode(value):
            return float(value) if kind == "float" or isinstance(value, Decimal) else value
        case syntax.ListNode(items):
            return tuple(_value(item, "") for item in items)
    raise AssertionError(expression)


def problems_of(program: syntax.SyntaxProgram, seed: int, text: str = "", strategy: str = "incremental") -> list[str]:
    """Return what is wrong when a program starts with a random half of its facts, gets the others in batches, and loses
    half of them. The oracle reads ``text``, by default the program as Flintlog's language has it."""
    rng = random.Random(seed)
    bare, facts = without_facts(program)
    compilation = run_passes(bare, Diagnostics())
    job = MemoryJob(compilation)
    try:
        job.use_strategy(strategy)
        checked = Checked(job, text or syntax_text(bare), compilation)
        order = [(name, row) for name in sorted(facts) for row in sorted(facts[name], key=repr)]
        rng.shuffle(order)
        half = len(order) // 2
        first: dict[str, set[Row]] = {name: set() for name in facts}
        for name, row in order[:half]:
            first[name].add(row)
        found = checked.build(first)
        rest = order[half:]
        while rest and not found:
            size = rng.randint(1, max(1, len(rest)))
            found = checked.apply(_batch("+", rest[:size]))
            rest = rest[size:]
        rng.shuffle(order)
        if not found:
            found = checked.apply(_batch("-", order[:half]))
        return found
    finally:
        job.close()


def _batch(op: str, changes: list[tuple[str, Row]]) -> Batch:
    found: dict[str, list[tuple[str, Row]]] = {}
    for name, row in changes:
        found.setdefault(name, []).append((op, row))
    return found  # type: ignore[return-value]


def rows_of(program: syntax.SyntaxProgram) -> str:
    """Return the rows of the outputs that the oracle finds, one a line in order, for a program that the compiler takes;
    or what it refuses."""
    run_passes(program, Diagnostics())
    bare, facts = without_facts(program)
    read = language.parse(syntax_text(bare))
    try:
        state = evaluate(read, apply({}, insertions(facts), read))
    except tuple(REFUSALS) as error:
        return f"refused: {type(error).__name__}\n"
    lines = [
        f"{relation.name}({', '.join(map(shown, row))})"
        for relation in sorted(read.outputs, key=lambda relation: relation.name)
        for row in sorted(state.get(relation.name, facts.get(relation.name, set())), key=repr)
    ]
    return "".join(f"{line}\n" for line in lines)


def shown(value: Any) -> str:
    """Return a value as the language writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)
