"""Infer the types of columns from the rules that derive them.

The types of undeclared columns propagate from bodies to heads until a fixpoint. Number literals, and lists of them,
determine a column only if nothing else does: int if all are integers, float otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush

from ..diagnostics import Diagnostics
from ..ir import typed
from ..type_rules import (
    Arithmetic,
    aggregate_type,
    as_operand,
    common_type,
    element_type,
    is_literal,
    match_of,
    result_of,
)

_Columns = dict[tuple[str, int], typed.Type]
"""The types of columns, by relation and position."""

_Results = Mapping[str, typed.Type]
"""The result types of external functions, by name."""


def infer_columns(program: typed.TypedProgram, diagnostics: Diagnostics) -> _Columns:
    """Return the type of every column, propagated from bodies to heads; report E0303 for those that stay open."""
    failed = diagnostics.failed  # Then an earlier error may be why a type is open.
    columns: _Columns = {
        (relation.name, place): column.type
        for relation in program.relations
        for place, column in enumerate(relation.columns)
    }
    for place in _unsafe_places(program):
        if columns[place] == typed.UNKNOWN:
            columns[place] = typed.BROKEN  # check_safety reports the variable.
    flow = _Flow(program, columns)
    flow.run(range(len(program.rules)))
    for place in columns:
        decided = _literal_default(program.rules_of(place[0]), place) if columns[place] == typed.UNKNOWN else None
        if decided is not None:
            columns[place] = decided
            flow.run(flow.readers.get(place[0], ()))
    for name, index in columns:
        if columns[name, index] != typed.UNKNOWN:
            continue
        relation = program.relation(name)
        declaration = ", ".join(f"{column.name}: ..." for column in relation.columns)
        message = f"the type of column `{relation.columns[index].name}` of `{name}` cannot be inferred"
        if not failed:
            diagnostics.report("E0303", message, relation.span, help=f"declare it: `relation {name}({declaration})`")
        columns[name, index] = typed.BROKEN
        flow.run(flow.readers.get(name, ()))
    return columns


def _unsafe_places(program: typed.TypedProgram) -> Iterable[tuple[str, int]]:
    """Yield the head columns whose arguments have unbound variables."""
    for rule in program.rules:
        bound = {variable.name for atom in rule.atoms for variable in typed.variables_of(atom)}
        bound |= {literal.variable.name for literal in rule.body if isinstance(literal, typed.Assignment)}
        for place, argument in enumerate(rule.head.arguments):
            if any(variable.name not in bound for variable in typed.variables_of(argument)):
                yield rule.head.relation, place


class _Flow:
    """The propagation of column types from the bodies of rules to their heads."""

    def __init__(self, program: typed.TypedProgram, columns: _Columns) -> None:
        self.rules, self.columns = program.rules, columns
        self.results = {function.name: function.result for function in program.functions}
        self.readers: dict[str, list[int]] = {}  # the indexes of the rules that read each relation
        for place, rule in enumerate(program.rules):
            for name in dict.fromkeys(atom.relation for atom in rule.atoms):
                self.readers.setdefault(name, []).append(place)

    def run(self, places: Iterable[int]) -> None:
        """Propagate types from the rules at ``places`` until nothing changes.

        Rules are visited in source order, in repeated turns; rules that read nothing new are skipped.
        """
        waiting = [(0, place) for place in places]  # sorted, and therefore a heap
        queued = set(waiting)
        while waiting:
            turn, place = heappop(waiting)
            if self._decide(self.rules[place]):
                for reader in self.readers.get(self.rules[place].head.relation, ()):
                    again = (turn + (reader <= place), reader)
                    if again not in queued:
                        queued.add(again)
                        heappush(waiting, again)

    def _decide(self, rule: typed.TypedRule) -> bool:
        """Set the types of head columns that a rule determines; return whether any was set."""
        columns, changed = self.columns, False
        places = [(rule.head.relation, place) for place in range(len(rule.head.arguments))]
        if all(columns[place] != typed.UNKNOWN for place in places):
            return False
        types = variable_types(rule, columns, self.results)
        for place, argument in zip(places, rule.head.arguments, strict=True):
            if columns[place] == typed.UNKNOWN and not is_literal(argument):
                inferred = argument_type(argument, types, self.results)
                columns[place] = typed.UNKNOWN if inferred.open else inferred
                changed = changed or columns[place] != typed.UNKNOWN
        return changed


def variable_types(rule: typed.TypedRule, columns: _Columns, results: _Results) -> dict[str, typed.Type]:
    """Return the types of a rule's variables as far as they are known."""
    types: dict[str, typed.Type] = {}
    for atom in rule.atoms:
        for place, term in enumerate(atom.terms):
            if isinstance(term, typed.Variable) and types.get(term.name, typed.UNKNOWN) == typed.UNKNOWN:
                types[term.name] = columns[atom.relation, place]
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            types.setdefault(literal.variable.name, expression_type(literal.value, types, results))
    return types


def argument_type(
    argument: typed.Expression | typed.Aggregate, types: Mapping[str, typed.Type], results: _Results
) -> typed.Type:
    """Return the type of a head argument as far as ``types`` determines it."""
    if not isinstance(argument, typed.Aggregate):
        return expression_type(argument, types, results)
    if argument.argument is None:
        return typed.INT
    return aggregate_type(argument.function, expression_type(argument.argument, types, results))


def expression_type(expression: typed.Expression, types: Mapping[str, typed.Type], results: _Results) -> typed.Type:
    """Return the type of an expression as far as ``types`` determines it; ``broken`` if the rule will be rejected."""
    match expression:
        case typed.Variable():
            return types.get(expression.name, typed.BROKEN)
        case typed.Constant():
            return expression.type
        case typed.Negate() | typed.Convert():
            return expression_type(expression.operand, types, results)
        case typed.ListLiteral():
            items = [expression_type(item, types, results) for item in expression.items]
            return expression.type.with_element(element_type(expression.items, items) or typed.BROKEN)
        case typed.Call() if expression.function in results:
            return results[expression.function]
        case typed.Call():
            argument_types = [expression_type(argument, types, results) for argument in expression.arguments]
            for outcome in (typed.BROKEN, typed.UNKNOWN):
                if outcome in argument_types:
                    return outcome
            if expression.function == typed.VALUE:
                return argument_types[0].element or typed.BROKEN
            match_ = match_of(expression, argument_types)
            return typed.BROKEN if match_ is None else match_.result
        case typed.Binary():
            left = expression_type(expression.left, types, results)
            right = expression_type(expression.right, types, results)
            if typed.UNKNOWN in (left, right):
                return typed.UNKNOWN
            if left.element is not None and right.element is not None:
                left = right if is_literal(expression.left) else left
                right = left if is_literal(expression.right) else right
            arithmetic = result_of(
                expression.op, as_operand(expression.left, left, right), as_operand(expression.right, right, left)
            )
            return arithmetic.result if isinstance(arithmetic, Arithmetic) else typed.BROKEN


def _literal_default(rules: tuple[typed.TypedRule, ...], place: tuple[str, int]) -> typed.Type | None:
    """Return the type that the literals in the ``rules`` of its relation give a column, None if they give none."""
    common: typed.Type | None = typed.NOTHING
    for rule in rules:
        if len(rule.head.arguments) > place[1]:
            argument = rule.head.arguments[place[1]]
            if is_literal(argument) and common is not None:
                common = _met(common, argument_type(argument, {}, {}))
    return None if common is None or common.open else common


def _met(one: typed.Type, other: typed.Type) -> typed.Type | None:
    """Return the common type of two literals, float if either is a float, or None if there is none."""
    if one.element is not None and other.element is not None:
        element = _met(one.element, other.element)
        return None if element is None else one.with_element(element)
    return typed.joined(one, other) or common_type(one, other)
