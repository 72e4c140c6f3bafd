"""What several passes ask of terms and expressions."""

from __future__ import annotations

from ..ir import typed


def equal_variables(rule: typed.Rule) -> dict[str, str]:
    """For each variable that the rule equates with another variable or a constant, one text for all that are equal.

    That is the constant if there is one.
    """
    same: dict[str, str] = {}
    constants: set[str] = set()

    def root(text: str) -> str:
        while text in same:
            text = same[text]
        return text

    for literal in rule.body:
        match literal:
            case typed.Assignment(variable=left, value=right):
                pass
            case typed.Comparison(op="=", left=typed.Variable() as left, right=right):
                pass
            case typed.Comparison(op="=", left=right, right=typed.Variable() as left):
                pass
            case _:
                continue
        if isinstance(right, typed.Variable | typed.Constant):
            if isinstance(right, typed.Constant):
                constants.add(str(right))
            a, b = root(left.name), root(str(right))
            if a in constants:
                a, b = b, a
            if a != b and a not in constants:
                same[a] = b
    return {text: root(text) for text in same}
