"""Warn where a recursion computes values that are in no input, so that it may not terminate.

Accepted with a warning::

    r2: dist(X, Z, C) :- dist(X, Y, C1), edge(Y, Z, C2), C = C1 + C2.

This rule derives ever larger costs around a cycle. The job's limit on rounds stops it with an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..diagnostics import Diagnostics
from ..functions import FUNCTIONS
from ..ir import typed
from ..ir.strata import StratifiedProgram, TypedStratum
from ..source import Span


def warn_invention(program: StratifiedProgram, diagnostics: Diagnostics) -> StratifiedProgram:
    """Return the program unchanged; report W0803 for each rule of a recursive stratum whose head computes a value from
    that stratum's tuples.

    Values that a body atom also contains, and results of modulo, come from a finite set. So do values of a rule that
    extends a list of the recursion only by elements that the list does not contain, as for paths without cycles. In a
    recursion by ``min`` or ``max``, the value converges if costs are not negative, but witnesses may grow forever.
    """
    for stratum in program.strata:
        if not stratum.recursive or stratum.kind in ("acyclic", "entries", "proofs"):
            continue
        chosen = _chosen(stratum)
        for rule in stratum.rules:
            for place, value, span in inventions(rule, stratum.members):
                if (rule.head.relation, place) not in chosen:
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
        value: typed.Node = argument
        while isinstance(value, typed.Variable) and value.name in values:
            value = values[value.name]
        if _is_new(value) and _feeds(value, values, recursive):
            yield place, value, argument.span


_UNBOUNDED = "the job stops with an error after --max-rounds rounds; "
_BOUNDS = "make sure that a comparison bounds the value"
_WITHOUT_COST = "on a cycle without cost, it grows forever; alternatively, apply `min` or `max` outside the recursion"


def _chosen(stratum: TypedStratum) -> set[tuple[str, int]]:
    """Return the columns, as relation and position, that hold the values a recursive ``min`` or ``max`` compares."""
    found: set[tuple[str, int]] = set()
    before = -1
    while before != len(found):
        before = len(found)
        for rule in stratum.rules:
            for place, argument in enumerate(rule.head.arguments):
                if isinstance(argument, typed.Aggregate):
                    found.add((rule.head.relation, place))
                if (rule.head.relation, place) in found:
                    names = {variable.name for variable in typed.variables_of(argument)}
                    found |= {
                        (atom.relation, at)
                        for atom in rule.atoms
                        for at, term in enumerate(atom.terms)
                        if atom.relation in stratum.members and str(term) in names
                    }
    return found


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


#: Functions that add an element to a list, with the argument positions of the list and of the element.
_ADDING = {"f_concatPath": (1, 0), "f_concat": (1, 0), "array_prepend": (0, 1), "array_append": (0, 1)}
#: Functions that tell whether a list contains an element, with the result if it does not.
_HOLDING = {"f_inPath": False, "array_contains": False, "f_member": 0}


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
        added: typed.Expression | typed.Aggregate = argument
        while isinstance(added, typed.Variable) and added.name in values:
            added = values[added.name]
        if not isinstance(added, typed.Call):
            continue
        for items, item in _additions(added, values):
            known = isinstance(items, typed.Variable) and items.name in recursive
            if known and str(item) in outside and (str(items), str(item)) in absent:
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
            made: typed.Expression = one
            while isinstance(made, typed.Variable) and made.name in values:
                made = values[made.name]
            if isinstance(made, typed.Call) and made.function == "f_append":
                yield other, made.arguments[0]


def _feeds(value: typed.Node, values: dict[str, typed.Expression], recursive: set[str]) -> bool:
    """Return whether ``value`` uses a variable of the recursion, directly or through assignments."""
    names = {variable.name for variable in typed.variables_of(value)}
    return bool(names & recursive) or any(_feeds(values[name], values, recursive) for name in names if name in values)
