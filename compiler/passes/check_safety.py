"""Checks that every variable of a rule has a value, and that values can be written out.

Accepted, and left as it is::

    r1: h(X, Z) :- p(X, Y), Z = X + Y, !q(Z, _), X < Y.

Refused, each with a code of its own::

    h(X, W) :- p(X, Y).                 % W of the head is bound by nothing
    h(X) :- p(X, Y), !q(X, W).          % W stands only in a negated atom
    h(X) :- p(X, Y), W < Y.             % W is only compared
    h(X) :- p(X, Y), V = W + 1, W = V.  % V and W wait for each other

Assigned values have no place of their own in a query: each is written out wherever its variable is used. Values that
use others twice, which use others twice, would so become as long as one likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..diagnostics import Diagnostics, Note
from ..ir import typed
from ..source import Span

#: How many operators a value may have, and how many in each other, with those of the assigned values in it.
_MOST_OPERATORS = 1000
_DEEPEST = 100

_BIND = "bind it by a positive atom or an assignment in the body"


def check_safety(program: typed.Program, diagnostics: Diagnostics) -> None:
    """Report every variable that no positive atom and no assignment binds."""
    for rule in program.rules:
        _check_rule(rule, diagnostics)
        _check_lengths(rule, diagnostics)


def _check_rule(rule: typed.Rule, diagnostics: Diagnostics) -> None:
    bound: set[str] = set()
    stuck: list[typed.Assignment] = []
    for literal in rule.body:
        if isinstance(literal, typed.Atom):
            bound |= {variable.name for variable in typed.variables_of(literal)}
        elif isinstance(literal, typed.Assignment):
            if all(variable.name in bound for variable in typed.variables_of(literal.value)):
                bound.add(literal.variable.name)
            else:
                stuck.append(literal)
    reporter = _Reporter(rule, bound, diagnostics)
    _check_assignments(stuck, reporter)
    reporter.bound |= {literal.variable.name for literal in stuck}
    reporter.head()
    for literal in rule.body:
        if isinstance(literal, typed.Comparison):
            reporter.unbound(typed.variables_of(literal), "E0403", "is only compared and has no value", _BIND)
    for literal in rule.negations:
        help = "write `_` for any value"
        reporter.unbound(typed.variables_of(literal), "E0402", "stands only in a negated atom", help)


def _check_lengths(rule: typed.Rule, diagnostics: Diagnostics) -> None:
    """Report the first value of a rule that has too many operators, with those of the assigned values in it."""
    sizes: dict[str, tuple[int, int]] = {}
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            number, depth = _operators(literal.value, sizes)
            sizes[literal.variable.name] = number, depth
            if number > _MOST_OPERATORS or depth > _DEEPEST:
                what = f"has more than {_MOST_OPERATORS:,} operators"
                if depth > _DEEPEST:
                    what = f"is nested more than {_DEEPEST} operators deep"
                message = f"the value of `{literal.variable}` {what}, with those of the assigned values in it"
                help = "compute a part of it in a relation of its own"
                diagnostics.report("E0711", message, literal.span, help=help)
                return


def _operators(node: object, sizes: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """How many operators and calls an expression has, and how many in each other."""
    if isinstance(node, typed.Variable):
        return sizes.get(node.name, (0, 0))
    parts = [_operators(part, sizes) for part in typed.parts_of(node)]
    if not parts:
        return 0, 0
    return 1 + sum(number for number, _ in parts), 1 + max(depth for _, depth in parts)


def _check_assignments(stuck: list[typed.Assignment], reporter: _Reporter) -> None:
    """Report what keeps assignments from being computed: a variable that nothing binds, or themselves."""
    values = {literal.variable.name: literal for literal in stuck}
    for literal in stuck:
        others = [variable for variable in typed.variables_of(literal.value) if variable.name not in values]
        reporter.unbound(others, "E0403", "has no value to compute with", _BIND)
    reported: set[str] = set()
    for literal in stuck:
        cycle = _cycle(literal, values)
        if cycle and not reported & set(cycle):
            reported |= set(cycle)
            names = " -> ".join(f"`{name}`" for name in (*cycle, cycle[0]))
            message = f"the assignments of this rule need each other: {names}"
            if len(cycle) == 1:
                message = f"the assignment of `{cycle[0]}` needs `{cycle[0]}` itself"
            reporter.report("E0406", message, literal.span, "bind one of the variables by an atom")


def _cycle(start: typed.Assignment, values: dict[str, typed.Assignment]) -> list[str]:
    """The variables of a cycle of assignments through ``start``, empty if there is none."""
    target = start.variable.name
    paths: list[list[str]] = [[target]]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        for variable in typed.variables_of(values[path[-1]].value):
            if variable.name == target:
                return path
            if variable.name in values and variable.name not in seen:
                seen.add(variable.name)
                paths.append([*path, variable.name])
    return []


class _Reporter:
    """Reports the unbound variables of one rule, each once."""

    def __init__(self, rule: typed.Rule, bound: set[str], diagnostics: Diagnostics) -> None:
        self.rule = rule
        self.bound = set(bound)
        self.diagnostics = diagnostics

    def head(self) -> None:
        """Check the variables of the head."""
        for argument in self.rule.head.arguments:
            if not self.rule.body and not self.rule.origin:
                help = 'a constant is a number, a `"string"`, `true`, `false` or a date'
                self.unbound(typed.variables_of(argument), "E0401", "stands in a fact, which has no variables", help)
            else:
                self.unbound(typed.variables_of(argument), "E0401", "of the head is not bound in the body", _BIND)

    def unbound(self, variables: Iterable[typed.Variable], code: str, what: str, help: str | None = None) -> None:
        """Report those of ``variables`` that have no value."""
        for variable in variables:
            if variable.name not in self.bound:
                self.bound.add(variable.name)
                self.report(code, f"`{variable}` {what}", variable.span, help)

    def report(self, code: str, message: str, span: Span, help: str | None) -> None:
        """Report once, also if several alternatives of a disjunction have the problem."""
        if any(item.code == code and item.span == span for item in self.diagnostics.items):
            return
        notes: tuple[Note, ...] = ()
        if self.rule.origin:
            notes = (Note(f"in {self.rule.origin} of the rule's disjunction"),)
        self.diagnostics.report(code, message, span, help=help, notes=notes)
