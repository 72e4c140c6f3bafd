"""Check that the values of recursive ``min`` and ``max`` aggregates flow monotonically.

Accepted::

    near(X, Y, min<C>) :- road(X, Y, C).
    near(X, Y, min<C>) :- near(X, Z, C1), road(Z, Y, C2), C = C1 + C2, C1 < 100.

Rejected, because a smaller value in the body can lead to a larger one in the head::

    near(X, Y, min<C>) :- near(X, Z, C1), road(Z, Y, C2), C = C2 - C1.
    near(X, Y, min<C>) :- near(X, Z, C1), road(Z, Y, C2), C = C1 + C2, C1 > 3.

If a better value of one group can only improve other values and make other conditions true, the rules have a unique
meaning, and replacing values with better ones reaches it (Ross and Sagiv 1992). A column holds such a value if an
aggregate of the recursion computes it, or if a rule of the recursion fills it from such a column. Witnesses are
replaced together with the extremum that they attain: rules may pass them on and compute with them, but must not group
or join by them, and no condition may depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..diagnostics import Diagnostics, listed
from ..ir import typed
from ..ir.rule_origin import Making
from ..ir.strata import StratifiedProgram, TypedStratum
from ..source import Span

_FINE = {"min": ("<", "<="), "max": (">", ">=")}
_WITNESS = "witness"
_MONOTONE = ("least", "greatest", "floor", "ceil", "round", "int")
"""Functions that never decrease when a numeric argument increases."""


def check_monotone(program: StratifiedProgram, diagnostics: Diagnostics) -> StratifiedProgram:
    """Return the program unchanged; report E0503 where a value of a recursion does not flow monotonically."""
    for stratum in program.strata:
        if stratum.kind == "extremal" and all(a.function in _FINE for rule in stratum.rules for a in rule.aggregates):
            _Check(program.program, stratum, diagnostics).run()
    return program


@dataclass(frozen=True)
class _Wrong(Exception):
    """The reason why a rule is rejected, and where."""

    message: str
    span: Span
    help: str = ""


class _Check:
    def __init__(self, program: typed.TypedProgram, stratum: TypedStratum, diagnostics: Diagnostics) -> None:
        self.program, self.rules, self.members, self.diagnostics = program, stratum.rules, stratum.members, diagnostics
        self.directions: dict[tuple[str, int], str] = {}  # min, max or witness, by column
        self.filled: dict[tuple[str, int], Span] = {}  # where a rule first fills the column

    def run(self) -> None:
        """Find the columns that hold values, and report every use of them that is not monotone."""
        wrong: dict[Span, _Wrong] = {}
        for rule in self.rules:
            for place, argument in enumerate(rule.head.arguments):
                if isinstance(argument, typed.Aggregate):
                    self.directions[rule.head.relation, place] = argument.function
        for name in self.members:
            for place in self.program.relation(name).witnesses:
                self.directions[name, place] = _WITNESS
        before = -1
        while before != len(self.directions):
            before = len(self.directions)
            wrong = {}
            for rule in self.rules:
                try:
                    self._rule(rule)
                except _Wrong as found:
                    wrong.setdefault(found.span, found)
        for one in wrong.values():
            self.diagnostics.report("E0503", one.message, one.span, help=one.help or None)

    def _rule(self, rule: typed.TypedRule) -> None:
        values = self._bound(rule)
        for literal in rule.body:
            if isinstance(literal, typed.Assignment):
                direction = self._direction(literal.value, values)
                if direction is not None:
                    values[literal.variable.name] = direction
        for literal in rule.body:
            if isinstance(literal, typed.Negation) and literal.atom.relation not in self.members:
                self._unused(literal.atom.terms, values, "is used in a negated atom")
            elif isinstance(literal, typed.Comparison):
                self._comparison(literal, values)
        aggregates = len(rule.aggregates)
        if aggregates > 1:
            raise _Wrong("a rule in a recursion can have only one aggregate", rule.head.span)
        if aggregates and aggregates == len(rule.head.arguments):
            help = "add a grouping column; it may be a constant"
            raise _Wrong("an aggregate inside a recursion needs a column to group by", rule.head.span, help)
        for place, argument in enumerate(rule.head.arguments):
            self._head(rule, place, argument, values)

    def _bound(self, rule: typed.TypedRule) -> dict[str, str]:
        """Return the directions of the body variables that hold values of the recursion; raise _Wrong for bad joins."""
        values: dict[str, str] = {}
        seen: list[str] = []
        for atom in rule.atoms:
            for place, term in enumerate(atom.terms):
                direction = self.directions.get((atom.relation, place)) if atom.relation in self.members else None
                if direction in _FINE and isinstance(term, typed.Constant):
                    message = f"a value of the recursion is compared with `{term}`"
                    raise _Wrong(message, term.span, self._advice(str(direction)))
                if isinstance(term, typed.Variable):
                    seen.append(term.name)
                    if direction is not None:
                        values[term.name] = direction
        # Rules made by split_aggregates join on an extremum to select the tuples that attain it.
        chooses = rule.made is Making.CHOICE
        for atom in rule.atoms:
            for term in atom.terms:
                if chooses or not isinstance(term, typed.Variable) or term.name not in values:
                    continue
                if seen.count(term.name) > 1:
                    what = "witness" if values[term.name] == _WITNESS else "value"
                    message = f"the {what} `{term}` of the recursion is joined with another column"
                    raise _Wrong(message, term.span, self._advice(values[term.name]))
        return values

    def _direction(self, expression: typed.Expression, values: Mapping[str, str]) -> str | None:
        """Return the direction of an expression, None if it holds no value; raise _Wrong if it is not monotone."""
        match expression:
            case typed.Variable():
                return values.get(expression.name)
            case typed.Convert():
                return self._direction(expression.operand, values)
            case typed.Binary():
                left, right = self._direction(expression.left, values), self._direction(expression.right, values)
                if left is None and right is None:
                    return None
                if _WITNESS in (left, right):
                    return _WITNESS
                monotone = (
                    (expression.op == "+" and (left is None or right is None or left == right))
                    or (expression.op == "-" and right is None)
                    or (expression.op == "*" and right is None and _is_positive(expression.right))
                    or (expression.op == "*" and left is None and _is_positive(expression.left))
                    or (expression.op == "/" and right is None and _is_positive(expression.right))
                )
                if monotone:
                    return left or right
                message = f"`{expression}` is not monotone in the value of the recursion"
                help = "a value may be added to, or be multiplied or divided by a positive constant"
                raise _Wrong(message, expression.span, help)
            case typed.ListLiteral() | typed.Call():
                return self._of_parts(expression, values)
            case typed.Negate():
                direction = self._direction(expression.operand, values)
                if direction in _FINE:
                    raise _Wrong("a value of the recursion is negated here", expression.span)
                return direction
            case _:
                return None

    def _of_parts(self, expression: typed.ListLiteral | typed.Call, values: Mapping[str, str]) -> str | None:
        """Return the direction of a list or a call, None if it holds no value; raise _Wrong if it is not monotone."""
        called = expression.function if isinstance(expression, typed.Call) else ""
        parts = expression.arguments if isinstance(expression, typed.Call) else expression.items
        directions = {direction for part in parts if (direction := self._direction(part, values)) is not None}
        if not directions:
            return None
        if _WITNESS in directions:
            return _WITNESS
        numbers = all(part.type.numeric for part in parts)
        if called in _MONOTONE and numbers and len(directions) == 1:
            return directions.pop()
        message = f"`{expression}` is not monotone in the value of the recursion"
        help = f"the monotone functions are {listed(f'`{name}`' for name in _MONOTONE)}"
        raise _Wrong(message, expression.span, help)

    def _comparison(self, literal: typed.Comparison, values: Mapping[str, str]) -> None:
        left, right = self._direction(literal.left, values), self._direction(literal.right, values)
        if _WITNESS in (left, right):
            message = f"`{literal}` depends on a witness of the recursion"
            raise _Wrong(message, literal.span, self._advice(_WITNESS))
        if left is None and right is None:
            return
        op = literal.op
        if left is None:
            op = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)
        direction = left or right
        assert direction is not None
        if (left is not None and right is not None) or op not in _FINE[direction]:
            worse = "larger" if direction == "min" else "smaller"
            message = f"`{literal}` may hold for a {worse} value of the recursion but not for a better one"
            raise _Wrong(message, literal.span, self._advice(direction))

    def _head(
        self, rule: typed.TypedRule, place: int, argument: typed.Expression | typed.Aggregate, values: Mapping[str, str]
    ) -> None:
        if isinstance(argument, typed.Aggregate):
            direction = self._direction(argument.argument, values) if argument.argument is not None else None
            if direction not in (None, argument.function):
                shown = f"`{direction}`" if direction in _FINE else direction
                message = f"`{argument}` is computed from a {shown} of the recursion"
                raise _Wrong(message, argument.span)
            return
        direction = self._direction(argument, values)
        if direction is None:
            return
        if rule.aggregates:
            what = "a witness of its extremum" if direction == _WITNESS else "a value that it computes itself"
            span, shown = argument.span, str(argument)
            if rule.made is Making.EXTREMUM:  # split_aggregates has moved the grouping argument to another rule.
                column = next(
                    (atom.relation, i) for atom in rule.atoms for i, term in enumerate(atom.terms) if str(term) == shown
                )
                span = self.filled.get(column, span)
            raise _Wrong(f"a recursion groups by {what}", span)
        first = self.directions.setdefault((rule.head.relation, place), direction)
        self.filled.setdefault((rule.head.relation, place), argument.span)
        if first != direction:
            message = f"`{argument}` is a {direction} of the recursion here and a {first} in another rule"
            raise _Wrong(message, argument.span)

    def _unused(self, terms: Sequence[typed.Term], values: Mapping[str, str], what: str) -> None:
        for term in terms:
            for variable in typed.variables_of(term):
                if variable.name in values:
                    raise _Wrong(f"the value `{variable}` of the recursion {what}", variable.span)

    def _advice(self, direction: str) -> str:
        if direction == _WITNESS:
            return "it disappears when a better value arrives: inside the recursion, only pass it on or compute with it"
        return f"compare a `{direction}` inside its recursion with {' or '.join(f'`{op}`' for op in _FINE[direction])}"


def _is_positive(expression: typed.Expression) -> bool:
    while isinstance(expression, typed.Convert):
        expression = expression.operand
    return isinstance(expression, typed.Constant) and not isinstance(expression.value, str) and expression.value > 0
