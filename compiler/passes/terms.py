"""Find the variables and constants that a rule equates."""

from __future__ import annotations

from ..ir import typed


def equal_variables(rule: typed.TypedRule) -> dict[str, str]:
    """Return for each variable that a rule equates with a variable or a constant the text that represents its class.

    That text is the constant if there is one.
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
