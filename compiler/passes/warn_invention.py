"""Warn where a recursion makes values that are in no input, so that it may not end.

``dist(X, Z, C) :- dist(X, Y, C1), edge(Y, Z, C2), C = C1 + C2.`` gives ever larger costs around a cycle. It is allowed;
the job's limit of rounds stops it with an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ..diagnostics import Diagnostics
from ..functions import FUNCTIONS
from ..ir import typed
from ..ir.strata import Program, Stratum
from ..source import Span


def warn_invention(program: Program, diagnostics: Diagnostics) -> None:
    """Report W0803 for each rule of a recursive stratum whose head computes a value from that stratum's tuples.

    A value that a body atom holds as well, or that is taken modulo something, comes from a finite set. So do all values
    of a rule that adds to a list of the recursion only what the list does not hold yet, as paths without cycles do. Of
    what a recursion chooses by ``min`` or ``max`` the value ends where costs are not negative, a witness need not.
    """
    for stratum in program.strata:
        if not stratum.recursive or stratum.kind == "entries":
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


def inventions(rule: typed.Rule, members: Collection[str]) -> Iterator[tuple[int, object, Span]]:
    """The places of a head at which a rule computes new values from the tuples of its recursion, whose relations are
    ``members``, the values, and where they stand."""
    recursive = {v.name for a in rule.atoms if a.relation in members for v in typed.variables_of(a)}
    values = {x.variable.name: x.value for x in rule.body if isinstance(x, typed.Assignment)}
    outside = {v.name for a in rule.atoms if a.relation not in members for v in typed.variables_of(a)}
    if _lengthens_without_repeating(rule, values, recursive, outside):
        return
    for place, argument in enumerate(rule.head.arguments):
        value: object = argument
        while isinstance(value, typed.Variable) and value.name in values:
            value = values[value.name]
        if _is_new(value) and _feeds(value, values, recursive):
            yield place, value, argument.span


_UNBOUNDED = "the job stops with an error after --max-rounds rounds; "
_BOUNDS = "it ends if a comparison bounds the value, which is for you to see to"
_WITHOUT_COST = "around a cycle without cost it grows for ever; a `min` or `max` behind the recursion can choose too"


def _chosen(stratum: Stratum) -> set[tuple[str, int]]:
    """The columns of a recursion by ``min`` or ``max`` that hold what is chosen by, by relation and place."""
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


def _is_new(value: object) -> bool:
    """Whether an expression makes values that are not among those it is given, nor in a finite set."""
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
            invents = value.external or FUNCTIONS[value.function].invents
            return invents or any(map(_is_new, value.arguments))
    return False


#: Functions that add an element to a list: the places of the list and of the element.
_ADDING = {"f_concatPath": (1, 0), "f_concat": (1, 0), "array_prepend": (0, 1), "array_append": (0, 1)}
#: What says that a list holds an element, and the value by which it says that it does not.
_HOLDING = {"f_inPath": False, "array_contains": False, "f_member": 0}


def _lengthens_without_repeating(
    rule: typed.Rule, values: Mapping[str, typed.Expression], recursive: set[str], outside: set[str]
) -> bool:
    """Whether the head has a list of the recursion with one more element, which a condition says it does not hold.

    The element comes from an atom outside of the recursion, so from a finite set.
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
        if not isinstance(added, typed.Call) or added.function not in _ADDING:
            continue
        items, item = (added.arguments[place] for place in _ADDING[added.function])
        known = isinstance(items, typed.Variable) and items.name in recursive
        if known and str(item) in outside and (str(items), str(item)) in absent:
            return True
    return False


def _feeds(value: object, values: dict[str, typed.Expression], recursive: set[str]) -> bool:
    """Whether a variable of the recursion is used in ``value``, directly or through assignments."""
    names = {variable.name for variable in typed.variables_of(value)}
    return bool(names & recursive) or any(_feeds(values[name], values, recursive) for name in names if name in values)
