"""Variables of a clause and of its parts, and which of them are bound; and clauses without negated groups."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace

from ...naming import unused
from . import tree

Part = tree.Argument | tree.Literal
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
        found = unused(name, self.taken)
        self.taken.add(found)
        return found


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
        case tree.Alternatives():
            return tuple(itertools.chain(*node.alternatives))
    return ()


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
    found: set[str] = set()
    for argument in arguments:
        if isinstance(argument, tree.VariableTerm):
            found.add(argument.name)
        elif isinstance(argument, tree.RecordTerm):
            found |= _bound_by(argument.items or ())
    return found


def plain_name(name: str) -> str:
    """Return a name without question marks, which names of the language cannot have, and unlike its reserved words."""
    found = name.replace("?", "") or "x"
    return f"{found}_" if found in _RESERVED else found


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
    made = tree.NegationLiteral(literal, literal.span)
    return made if isinstance(literal, tree.AtomLiteral) else positive(made)


def conjunctions(group: tree.Alternatives, most: int, keep: bool = False) -> tuple[tree.Body, ...] | None:
    """Return the alternatives of a group as conjunctions without groups; None if there are more than ``most``.

    With ``keep``, groups without aggregates and records stay as they are.
    """
    found: list[tree.Body] = []
    for part in group.alternatives:
        made: list[tree.Body] = [()]
        for literal in part:
            literal = positive(literal) if isinstance(literal, tree.NegationLiteral) else literal
            inner: tuple[tree.Body, ...] | None = ((literal,),)
            if isinstance(literal, tree.Alternatives) and not (keep and not depends_on_alternative((literal,))):
                inner = conjunctions(literal, most, keep)
            if inner is None or len(made) * len(inner) > most:
                return None
            made = [(*one, *other) for one in made for other in inner]
        found += made
    return tuple(found) if len(found) <= most else None
