"""What several passes ask of terms and expressions."""

from __future__ import annotations

from ..ir import typed


def variables_of(node: object) -> list[typed.Variable]:
    """The variables of an expression, an atom, a negation or a condition, in order, repetitions kept."""
    match node:
        case typed.Variable():
            return [node]
        case typed.Binary() | typed.Comparison():
            return [*variables_of(node.left), *variables_of(node.right)]
        case typed.Negate() | typed.Convert():
            return variables_of(node.operand)
        case typed.ListLiteral():
            return [variable for item in node.items for variable in variables_of(item)]
        case typed.Call():
            return [variable for argument in node.arguments for variable in variables_of(argument)]
        case typed.Assignment():
            return [node.variable, *variables_of(node.value)]
        case typed.Negation():
            return variables_of(node.atom)
        case typed.Atom():
            return [variable for term in node.terms for variable in variables_of(term)]
        case typed.Aggregate():
            return variables_of(node.argument)
        case _:
            return []


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
