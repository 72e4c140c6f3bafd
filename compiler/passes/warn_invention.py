"""Warn where a recursion computes values that are in no input, so that it may not terminate.

Accepted with a warning::

    r2: dist(X, Z, C) :- dist(X, Y, C1), edge(Y, Z, C2), C = C1 + C2.

This rule derives ever larger costs around a cycle. The job's limit on rounds stops it with an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal

from ..diagnostics import Diagnostics
from ..functions import FUNCTIONS
from ..ir import typed
from ..ir.strata import StratifiedProgram, TypedStratum
from ..source import Span


def warn_invention(program: StratifiedProgram, diagnostics: Diagnostics) -> StratifiedProgram:
    """Return the program unchanged; report W0803 for each rule of a recursive stratum whose head computes a value from
    that stratum's tuples.

    Values that a body atom also contains, and results of modulo, come from a finite set. So do values of a rule that
    extends a list of the recursion only by elements that the list does not contain, as for paths without cycles, and of
    one that compares what it counts, or all that it computes with, with constants. In a
    recursion by ``min`` or ``max``, the value converges if costs are not negative, but witnesses may grow forever.
    """
    for stratum in program.strata:
        if not stratum.recursive or stratum.kind in ("acyclic", "entries", "proofs"):
            continue
        chosen = _chosen(stratum)
        for rule in stratum.rules:
            for place, value, span in inventions(rule, stratum.members):
                if (rule.head.relation, place) not in chosen and not _is_bounded(rule, value, stratum.members):
                    diagnostics.report(
                        "W0803",
                        f"the recursion computes `{value}` from its own tuples and may not end",
                        span,
                        help=_UNBOUNDED + _WITHOUT_COST if stratum.kind == "extremal" else _UNBOUNDED + _BOUNDS,
                    )
    return program


def inventions(rule: typed.TypedRule, members: Collection[str]) -> Iterator[tuple[int, typed.Node, Span]]:
    """Yield the head positions at which a rule computes new values from the relations ``members`` of its recursion,
    with the values and their spans."""
    recursive = {v.name for a in rule.atoms if a.relation in members for v in typed.variables_of(a)}
    values = {x.variable.name: x.value for x in rule.body if isinstance(x, typed.Assignment)}
    outside = {v.name for a in rule.atoms if a.relation not in members for v in typed.variables_of(a)}
    if _lengthens_without_repeating(rule, values, recursive, outside):
        return
    for place, argument in enumerate(rule.head.arguments):
        value = _resolved(argument, values)
        if _is_new(value) and _variables(value, values) & recursive:
            yield place, value, argument.span


def _is_bounded(rule: typed.TypedRule, value: typed.Node, members: Collection[str]) -> bool:
    """Return whether comparisons with constants leave only finitely many values for an expression of a head: if it, or
    all that it takes from the recursion, has a bound on both sides, or if it adds to a variable of the recursion what
    is not negative, or subtracts it, and one of these has a bound on that side."""
    values = {x.variable.name: x.value for x in rule.body if isinstance(x, typed.Assignment)}
    bounds: dict[str, set[str]] = {}
    for literal in rule.body:
        if isinstance(literal, typed.Comparison) and literal.op != "!=":
            for one, other, greater in ((literal.left, literal.right, ">"), (literal.right, literal.left, "<")):
                if not typed.variables_of(other):
                    sides = {"<", ">"} if literal.op == "=" else {">" if literal.op[0] == greater else "<"}
                    bounds.setdefault(str(one), set()).update(sides)
                    if _is_natural(other) and ">" in sides:
                        bounds[str(one)].add("natural")
    names = [name for name, assigned in values.items() if _resolved(assigned, values) == value]
    own = set().union(*(bounds.get(name, set()) for name in (str(value), *names)))
    recursive = {v.name for a in rule.atoms if a.relation in members for v in typed.variables_of(a)}
    used = _variables(value, values) & recursive
    exact = isinstance(value, typed.Binary | typed.Negate) and str(value.type) != "float"
    if exact and any({"<", ">"} <= sides for sides in (own, _common(bounds.get(name, set()) for name in used))):
        return True
    if not isinstance(value, typed.Binary) or value.op not in "+-":
        return False
    side = "<" if value.op == "+" else ">"
    pairs = [(value.left, value.right), *([(value.right, value.left)] if value.op == "+" else [])]
    return any(
        (_is_natural(step) or "natural" in bounds.get(str(step), set()))
        and not _variables(step, values) & recursive
        and side in own | bounds.get(str(counted), set())
        for counted, step in pairs
    )


def _resolved(value: typed.Node, values: Mapping[str, typed.Expression]) -> typed.Node:
    """Return the expression that a variable is assigned."""
    while isinstance(value, typed.Variable) and value.name in values:
        value = values[value.name]
    return value


def _variables(value: typed.Node, values: Mapping[str, typed.Expression]) -> set[str]:
    """Return the variables that an expression uses, directly or through assignments."""
    names = {variable.name for variable in typed.variables_of(value)}
    return names.union(*(_variables(values[name], values) for name in names if name in values))


def _is_natural(value: typed.Node) -> bool:
    """Return whether an expression is a constant that is not negative."""
    return isinstance(value, typed.Constant) and isinstance(value.value, int | Decimal) and value.value >= 0


def _common(found: Iterable[set[str]]) -> set[str]:
    """Return what is in all of some sets; nothing if there are none."""
    listed = list(found)
    return set.intersection(*listed) if listed else set()


_UNBOUNDED = "the job stops with an error after --max-rounds rounds; "
_BOUNDS = "make sure that a comparison bounds the value"
_WITHOUT_COST = "on a cycle without cost, it grows forever; alternatively, apply `min` or `max` outside the recursion"


def _chosen(stratum: TypedStratum) -> set[tuple[str, int]]:
    """Return the columns, as relation and position, that hold the values a recursive ``min`` or ``max`` compares."""
    chosen: set[tuple[str, int]] = set()
    before = -1
    while before != len(chosen):
        before = len(chosen)
        for rule in stratum.rules:
            for place, argument in enumerate(rule.head.arguments):
                if isinstance(argument, typed.Aggregate):
                    chosen.add((rule.head.relation, place))
                if (rule.head.relation, place) in chosen:
                    names = {variable.name for variable in typed.variables_of(argument)}
                    chosen |= {
                        (atom.relation, at)
                        for atom in rule.atoms
                        for at, term in enumerate(atom.terms)
                        if atom.relation in stratum.members and str(term) in names
                    }
    return chosen


def _is_new(value: typed.Node) -> bool:
    """Return whether an expression can produce values that are neither among its inputs nor in a finite set."""
    match value:
        case typed.Negate():
            return True
        case typed.Binary():
            return value.op != "%"
        case typed.Convert():
            return _is_new(value.operand)
        case typed.ListLiteral():
            return any(map(_is_new, value.items))
        case typed.Call():
            invents = value.external or (value.function != typed.VALUE and FUNCTIONS[value.function].invents)
            return invents or any(map(_is_new, value.arguments))
    return False


_ADDING = {"f_concatPath": (1, 0), "f_concat": (1, 0), "array_prepend": (0, 1), "array_append": (0, 1)}
"""Functions that add an element to a list, with the argument positions of the list and of the element."""

_HOLDING = {"f_inPath": False, "array_contains": False, "f_member": 0}
"""Functions that tell whether a list contains an element, with the result if it does not."""


def _lengthens_without_repeating(
    rule: typed.TypedRule, values: Mapping[str, typed.Expression], recursive: set[str], outside: set[str]
) -> bool:
    """Return whether the head extends a list of the recursion by an element that a condition says it lacks.

    The element comes from an atom outside the recursion, and therefore from a finite set.
    """
    absent = {
        (str(call.arguments[0]), str(call.arguments[1]))
        for literal in rule.body
        if isinstance(literal, typed.Comparison) and literal.op == "="
        for call, value in ((literal.left, literal.right), (literal.right, literal.left))
        if isinstance(call, typed.Call) and call.function in _HOLDING
        if isinstance(value, typed.Constant) and value.value == _HOLDING[call.function]
    }
    for argument in rule.head.arguments:
        added = _resolved(argument, values)
        if not isinstance(added, typed.Call):
            continue
        for items, item in _additions(added, values):
            is_recursive = isinstance(items, typed.Variable) and items.name in recursive
            if is_recursive and str(item) in outside and (str(items), str(item)) in absent:
                return True
    return False


def _additions(
    call: typed.Call, values: Mapping[str, typed.Expression]
) -> Iterator[tuple[typed.Expression, typed.Expression]]:
    """Yield the list and the element of a call that adds an element to a list: as it is, or as a list of its own, which
    ``f_append`` makes, at either end."""
    if call.function in _ADDING:
        items, item = (call.arguments[place] for place in _ADDING[call.function])
        yield items, item
    if call.function == "f_concat":
        for one, other in (call.arguments, call.arguments[::-1]):
            value = _resolved(one, values)
            if isinstance(value, typed.Call) and value.function == "f_append":
                yield other, value.arguments[0]
