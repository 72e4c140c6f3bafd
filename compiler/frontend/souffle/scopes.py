"""Variables of a clause and of its parts, and which of them are bound; and clauses without negated groups."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from ...naming import unused
from . import tree

Part = tree.Argument | tree.Literal
Node = TypeVar("Node", bound=tree.Argument | tree.Literal)
_RESERVED = ("not", "true", "false", "null")


@dataclass
class ClauseVariables:
    """The variables of the clause ``origin``, which is being rewritten: their names, as the syntax tree has them, with
    those that were added, and the types that are known, by the names in the clause."""

    origin: tree.Clause
    taken: set[str]
    types: dict[str, str] = field(default_factory=dict)

    def fresh(self, name: str) -> str:
        """Return a variable that the clause does not have yet."""
        variable = unused(name, self.taken)
        self.taken.add(variable)
        return variable


def parts_of(node: Part) -> tuple[Part, ...]:
    """Return the parts that a literal or an argument directly consists of."""
    match node:
        case tree.AtomLiteral() | tree.CallTerm():
            return node.arguments
        case tree.RecordTerm():
            return node.items or ()
        case tree.AggregateTerm():
            return (*((node.target,) if node.target else ()), *node.body)
        case tree.ComparisonLiteral():
            return node.left, node.right
        case tree.NegationLiteral():
            return (node.literal,)
        case tree.CastTerm():
            return (node.value,)
        case tree.Alternatives():
            return tuple(itertools.chain(*node.alternatives))
    return ()


def changed(node: Node, change: Callable[[Any], Any]) -> Node:
    """Return a literal or an argument with its direct parts changed."""
    result: Any = node
    match node:
        case tree.AtomLiteral() | tree.CallTerm():
            result = replace(node, arguments=tuple(map(change, node.arguments)))
        case tree.ComparisonLiteral():
            result = replace(node, left=change(node.left), right=change(node.right))
        case tree.NegationLiteral():
            result = replace(node, literal=change(node.literal))
        case tree.Alternatives():
            result = replace(node, alternatives=tuple(tuple(map(change, part)) for part in node.alternatives))
        case tree.RecordTerm() if node.items is not None:
            result = replace(node, items=tuple(map(change, node.items)))
        case tree.CastTerm():
            result = replace(node, value=change(node.value))
        case tree.AggregateTerm():
            result = replace(node, target=node.target and change(node.target), body=tuple(map(change, node.body)))
    return cast(Node, result)


def walk(nodes: Iterable[Part], into_aggregates: bool = True) -> Iterator[Part]:
    """Yield nodes and all their parts, those of aggregates only if wanted."""
    for node in nodes:
        yield node
        if into_aggregates or not isinstance(node, tree.AggregateTerm):
            yield from walk(parts_of(node), into_aggregates)


def shape(node: object) -> object:
    """Return a node as nested tuples without spans, which are equal if the nodes say the same."""
    if isinstance(node, tuple):
        return tuple(map(shape, node))
    if not is_dataclass(node):
        return type(node).__name__, node
    return (type(node).__name__, *(shape(getattr(node, f.name)) for f in fields(node) if f.name != "span"))


def variables_of(nodes: Iterable[Part]) -> set[str]:
    """Return the names of all variables in some nodes."""
    return {node.name for node in walk(nodes) if isinstance(node, tree.VariableTerm)}


def has_aggregate(nodes: Iterable[Part]) -> bool:
    """Return whether there is an aggregate in some nodes."""
    return any(isinstance(node, tree.AggregateTerm) for node in walk(nodes))


def depends_on_alternative(nodes: Iterable[Part]) -> bool:
    """Return whether there is an aggregate or record in some nodes, whose value depends on the alternative of a group
    that holds."""
    return any(isinstance(node, tree.AggregateTerm | tree.RecordTerm) for node in walk(nodes))


def bound_in(body: tree.Body, known: set[str]) -> set[str]:
    """Return the variables that a conjunction binds: by its atoms, and by equalities with values of bound ones."""
    bound = set(known)
    for literal in body:
        if isinstance(literal, tree.AtomLiteral):
            bound |= _bound_by(literal.arguments)
        elif isinstance(literal, tree.Alternatives):
            bound |= set.intersection(*(bound_in(part, bound) for part in literal.alternatives))
    equalities = [
        item for item in body if isinstance(item, tree.ComparisonLiteral) and item.op == "=" and not item.negated
    ]
    size = -1
    while size != len(bound):
        size = len(bound)
        for equality in equalities:
            for one, other in ((equality.left, equality.right), (equality.right, equality.left)):
                if isinstance(one, tree.VariableTerm | tree.RecordTerm) and (
                    isinstance(other, tree.AggregateTerm) or variables_of((other,)) <= bound
                ):
                    bound |= _bound_by((one,))
    return bound


def _bound_by(arguments: Iterable[tree.Argument]) -> set[str]:
    """Return the variables that arguments of an atom bind: themselves, and items of records."""
    variables: set[str] = set()
    for argument in arguments:
        if isinstance(argument, tree.VariableTerm):
            variables.add(argument.name)
        elif isinstance(argument, tree.RecordTerm):
            variables |= _bound_by(argument.items or ())
        elif isinstance(argument, tree.CastTerm):
            variables |= _bound_by((argument.value,))
    return variables


def plain_name(name: str) -> str:
    """Return a name without question marks, which names of the language cannot have, and unlike its reserved words."""
    plain = name.replace("?", "") or "x"
    return f"{plain}_" if plain in _RESERVED else plain


def positive(negation: tree.NegationLiteral) -> tree.Literal:
    """Return a literal that says the same as a negated comparison or group, with negations of atoms only."""
    inner = negation.literal
    match inner:
        case tree.ComparisonLiteral():
            return replace(inner, negated=not inner.negated)
        case tree.TruthLiteral():
            return replace(inner, value=not inner.value)
        case tree.NegationLiteral():
            return inner.literal if not isinstance(inner.literal, tree.NegationLiteral) else positive(inner.literal)
        case tree.Alternatives():
            # Not (a, b ; c) is (not a ; not b), not c.
            parts = tuple(
                tree.Alternatives(tuple((_negated(literal),) for literal in part), inner.span)
                for part in inner.alternatives
            )
            return tree.Alternatives(
                (tuple(p.alternatives[0][0] if len(p.alternatives) == 1 else p for p in parts),), inner.span
            )
    return negation


def _negated(literal: tree.Literal) -> tree.Literal:
    negation = tree.NegationLiteral(literal, literal.span)
    return negation if isinstance(literal, tree.AtomLiteral) else positive(negation)


def conjunctions(group: tree.Alternatives, most: int, keep: bool = False) -> tuple[tree.Body, ...] | None:
    """Return the alternatives of a group as conjunctions without groups; None if there are more than ``most``.

    With ``keep``, groups without aggregates and records stay as they are.
    """
    bodies: list[tree.Body] = []
    for part in group.alternatives:
        bodies_of_part: list[tree.Body] = [()]
        for literal in part:
            literal = positive(literal) if isinstance(literal, tree.NegationLiteral) else literal
            inner: tuple[tree.Body, ...] | None = ((literal,),)
            if isinstance(literal, tree.Alternatives) and not (keep and not depends_on_alternative((literal,))):
                inner = conjunctions(literal, most, keep)
            if inner is None or len(bodies_of_part) * len(inner) > most:
                return None
            bodies_of_part = [(*one, *other) for one in bodies_of_part for other in inner]
        bodies += bodies_of_part
    return tuple(bodies) if len(bodies) <= most else None
