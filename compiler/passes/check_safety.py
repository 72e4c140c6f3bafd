"""Check that every variable of a rule is bound and that no assigned value grows too large.

Accepted::

    r1: h(X, Z) :- p(X, Y), Z = X + Y, !q(Z, _), X < Y.

Rejected, each with its own error code::

    h(X, W) :- p(X, Y).                    % nothing binds W, which the head uses
    h(X, X) :- p(X, Y), !q(X, W).          % W occurs only in a negated atom
    h(X, X) :- p(X, Y), W < Y.             % W is only compared
    h(X, X) :- p(X, Y), V = W + 1, W = V.  % V and W depend on each other

Queries inline each assigned value wherever its variable is used. Values that use others twice, which in turn use others
twice, would grow exponentially, so their size and depth are limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..diagnostics import Diagnostics, Note
from ..diagnostics.foreign import constant_advice
from ..ir import typed
from ..ir.rule_origin import Making
from ..source import Span

_MOST_OPERATORS = 1000
_DEEPEST = 100
"""The maximum number of operators in a value and their maximum nesting depth, with assigned values inlined."""

_BIND = "bind it by a positive atom or an assignment in the body"


def check_safety(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program unchanged; report unbound variables (E0401 to E0403), cyclic assignments (E0406), oversized
    values (E0711) and variables named like constants (W0804)."""
    for rule in program.rules:
        _check_rule(rule, diagnostics)
        _check_lengths(rule, diagnostics)
        _warn_constants(rule, diagnostics)
    return program


def _warn_constants(rule: typed.TypedRule, diagnostics: Diagnostics) -> None:
    """Report (W0804) the first variable of a rule that is named like a constant of other languages."""
    for literal in rule.body:
        for variable in typed.variables_of(literal):
            advice = constant_advice(variable.name)
            if advice is not None:
                message = f"`{variable}` is a variable, not a constant"
                diagnostics.report("W0804", message, variable.span, help=advice)
                return


def _check_rule(rule: typed.TypedRule, diagnostics: Diagnostics) -> None:
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
        reporter.unbound(typed.variables_of(literal), "E0402", "occurs only in a negated atom", help)


def _check_lengths(rule: typed.TypedRule, diagnostics: Diagnostics) -> None:
    """Report the first value of a rule with too many or too deeply nested operators, assigned values inlined."""
    sizes: dict[str, tuple[int, int]] = {}
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            number, depth = _operators(literal.value, sizes)
            sizes[literal.variable.name] = number, depth
            if number > _MOST_OPERATORS or depth > _DEEPEST:
                what = f"has more than {_MOST_OPERATORS:,} operators"
                if depth > _DEEPEST:
                    what = f"is nested more than {_DEEPEST} operators deep"
                message = f"the value of `{literal.variable}` {what}, including those of assigned values"
                help = "compute a part of it in a separate relation"
                diagnostics.report("E0711", message, literal.span, help=help)
                return


def _operators(node: typed.Node, sizes: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return the number of operators and calls in an expression, and their depth; ``sizes`` has those of variables."""
    if isinstance(node, typed.Variable):
        return sizes.get(node.name, (0, 0))
    parts = [_operators(part, sizes) for part in typed.parts_of(node)]
    if not parts:
        return 0, 0
    return 1 + sum(number for number, _ in parts), 1 + max(depth for _, depth in parts)


def _check_assignments(stuck: list[typed.Assignment], reporter: _Reporter) -> None:
    """Report why assignments cannot be evaluated: a variable is unbound, or they depend on each other."""
    values = {literal.variable.name: literal for literal in stuck}
    for literal in stuck:
        others = [variable for variable in typed.variables_of(literal.value) if variable.name not in values]
        reporter.unbound(others, "E0403", "is used in an expression but has no value", _BIND)
    reported: set[str] = set()
    for literal in stuck:
        cycle = _cycle(literal, values)
        if cycle and not reported & set(cycle):
            reported |= set(cycle)
            names = " -> ".join(f"`{name}`" for name in (*cycle, cycle[0]))
            message = f"the assignments of this rule depend on each other: {names}"
            if len(cycle) == 1:
                message = f"the assignment of `{cycle[0]}` depends on `{cycle[0]}` itself"
            reporter.report("E0406", message, literal.span, "bind one of the variables by an atom")


def _cycle(start: typed.Assignment, values: dict[str, typed.Assignment]) -> list[str]:
    """Return the variables on a cycle of assignments through ``start``, empty if there is none."""
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
    """A reporter of the unbound variables of one rule; it reports each once."""

    def __init__(self, rule: typed.TypedRule, bound: set[str], diagnostics: Diagnostics) -> None:
        self.rule = rule
        self.bound = set(bound)
        self.diagnostics = diagnostics

    def head(self) -> None:
        """Report the unbound variables of the head (E0401), and aggregates of a fact that have none (E0520)."""
        for argument in self.rule.head.arguments:
            if not self.rule.body and self.rule.made is None:
                if isinstance(argument, typed.Aggregate) and not typed.variables_of(argument):
                    help = "write the value, or give the rule a body whose tuples it aggregates"
                    self.report("E0520", f"`{argument}` is an aggregate, but a fact has no tuples", argument.span, help)
                help = 'a constant is a number, a `"string"`, `true`, `false` or a date'
                self.unbound(typed.variables_of(argument), "E0401", "is a variable, but a fact has no variables", help)
            else:
                self.unbound(typed.variables_of(argument), "E0401", "of the head is not bound in the body", _BIND)

    def unbound(self, variables: Iterable[typed.Variable], code: str, what: str, help: str | None = None) -> None:
        """Report the unbound ``variables`` under ``code``; ``what`` completes the message."""
        for variable in variables:
            if variable.name not in self.bound:
                self.bound.add(variable.name)
                self.report(code, f"`{variable}` {what}", variable.span, constant_advice(variable.name) or help)

    def report(self, code: str, message: str, span: Span, help: str | None) -> None:
        """Report a problem once, even if several alternatives of a disjunction have it."""
        if any(item.code == code and item.span == span for item in self.diagnostics.items):
            return
        notes: tuple[Note, ...] = ()
        if self.rule.made is Making.ALTERNATIVE:
            notes = (Note(f"in {self.rule.origin} of the rule's disjunction"),)
        self.diagnostics.report(code, message, span, help=help, notes=notes)
