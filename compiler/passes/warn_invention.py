"""Warn where a recursion makes values that are in no input, so that it may not end.

``dist(X, Z, C) :- dist(X, Y, C1), edge(Y, Z, C2), C = C1 + C2.`` gives ever larger costs around a cycle. It is allowed;
the job's limit of rounds stops it with an error.
"""

from __future__ import annotations

from ..diagnostics import Diagnostics
from ..ir import typed
from ..ir.strata import Program
from .terms import variables_of


def warn_invention(program: Program, diagnostics: Diagnostics) -> None:
    """Report W0803 for each rule of a recursive stratum whose head computes a value from that stratum's tuples.

    A value that a body atom holds as well, or that is taken modulo something, comes from a finite set.
    """
    for stratum in program.strata:
        if stratum.kind != "ranked":
            continue
        for rule in stratum.rules:
            recursive = {v.name for a in rule.atoms if a.relation in stratum.members for v in variables_of(a)}
            values = {x.variable.name: x.value for x in rule.body if isinstance(x, typed.Assignment)}
            for argument in rule.head.arguments:
                value: object = argument
                while isinstance(value, typed.Variable) and value.name in values:
                    value = values[value.name]
                computed = isinstance(value, typed.Negate) or (isinstance(value, typed.Binary) and value.op != "%")
                if computed and _feeds(value, values, recursive):
                    diagnostics.report(
                        "W0803",
                        f"the recursion computes `{value}` from its own tuples and may not end",
                        argument.span,
                        help="the job stops with an error after --max-rounds rounds; a comparison that bounds the "
                        "value makes it end",
                    )


def _feeds(value: object, values: dict[str, typed.Expression], recursive: set[str]) -> bool:
    """Whether a variable of the recursion is used in ``value``, directly or through assignments."""
    names = {variable.name for variable in variables_of(value)}
    return bool(names & recursive) or any(_feeds(values[name], values, recursive) for name in names if name in values)
