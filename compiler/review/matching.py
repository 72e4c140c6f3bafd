"""Match the rules of two versions of a program.

Of the change between ::

    r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
    r2: reachable(@A, B) :- link(@A, C), reachable(@C, B), A != B.

it finds that rule ``r2`` has changed, not that variables were renamed. Rules are compared as resolved, ignoring
variable names, the order of literals and the direction of comparisons.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count

from ..ir import syntax, typed
from ..pipeline import Compilation
from .comparison import WrittenRule

SIMILAR = 0.5
"""The least ``difflib`` similarity ratio at which one rule counts as a changed version of another."""

MOST_TRIED = 20_000
"""How many pairs of literals to try before two rules count as different."""


def alike(one: typed.TypedRule, other: typed.TypedRule, reorder: bool = True, types: bool = True) -> bool:
    """Return whether two rules differ only in variable names, in notation and, with ``reorder``, in the order of
    literals.

    Types are ignored, except those of constants, since relations and functions are compared separately. Without
    ``types``, numeric constants of different types are equal if their values are.
    """
    return _Match(one, other, reorder, types).found()


@dataclass(frozen=True)
class _Node:
    """A literal, term or expression without what a comparison ignores: ``kind`` is everything but its ``parts``. The
    parts of a ``symmetric`` node may be swapped."""

    kind: tuple[object, ...]
    parts: tuple[_Node, ...] = ()
    symmetric: bool = False


class _Match:
    """Searches for an injective renaming of the variables of one rule that turns it into another rule."""

    def __init__(self, one: typed.TypedRule, other: typed.TypedRule, reorder: bool, types: bool) -> None:
        self.heads = (_head(one, types), _head(other, types))
        self.bodies = [[_node(literal, types) for literal in _numbered(rule)] for rule in (one, other)]
        self.reorder = reorder
        self.tried = 0

    def found(self) -> bool:
        """Return whether there is such a renaming."""
        if sorted(repr(x.kind) for x in self.bodies[0]) != sorted(repr(x.kind) for x in self.bodies[1]):
            return False
        return any(
            self.rest(0, (*range(len(self.bodies[1])),), names)
            for names in self.match(self.heads[0], self.heads[1], {})
        )

    def rest(self, place: int, left: tuple[int, ...], names: Mapping[str, str]) -> bool:
        """Return whether the literals from ``place`` on match those ``left`` of the other rule, in MOST_TRIED tries."""
        if place == len(self.bodies[0]):
            return True
        for index in left if self.reorder else left[:1]:
            self.tried += 1
            if self.tried > MOST_TRIED:
                return False
            others = tuple(other for other in left if other != index)
            for binding in self.match(self.bodies[0][place], self.bodies[1][index], names):
                if self.rest(place + 1, others, binding):
                    return True
        return False

    def match(self, one: _Node, other: _Node, names: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """Yield the extensions of ``names`` under which two nodes are equal."""
        if one.kind[0] == other.kind[0] == "variable":
            name, new_name = str(one.kind[1]), str(other.kind[1])
            if names.get(name, new_name) == new_name and (name in names or new_name not in names.values()):
                yield {**names, name: new_name}
        elif one.kind == other.kind and len(one.parts) == len(other.parts):
            yield from self.all_parts(one.parts, other.parts, names)
            if one.symmetric:
                yield from self.all_parts(one.parts, other.parts[::-1], names)

    def all_parts(
        self, one: Sequence[_Node], other: Sequence[_Node], names: Mapping[str, str]
    ) -> Iterator[Mapping[str, str]]:
        """Yield the extensions of ``names`` under which two lists of nodes are equal."""
        if not one:
            yield names
            return
        for binding in self.match(one[0], other[0], names):
            yield from self.all_parts(one[1:], other[1:], binding)


def _numbered(rule: typed.TypedRule) -> list[typed.Literal]:
    """Return the body of a rule, with a fresh variable in place of each wildcard of a positive literal."""
    numbers = count()

    def named(term: typed.Term) -> typed.Term:
        return typed.Variable(f"_{next(numbers)}", term.type, term.span) if isinstance(term, typed.Wildcard) else term

    return [
        replace(literal, terms=tuple(map(named, literal.terms))) if isinstance(literal, typed.Atom) else literal
        for literal in rule.body
    ]


def _head(rule: typed.TypedRule, types: bool) -> _Node:
    return _Node(("head", rule.head.relation), tuple(_node(x, types) for x in rule.head.arguments))


_MIRRORED = {">": "<", ">=": "<="}


def _node(part: typed.Node, types: bool) -> _Node:
    """Return the node of a literal, term or expression; of types, it has only those of constants (see ``alike``)."""
    if isinstance(part, typed.Convert):
        return _node(part.operand, types)
    parts = tuple(_node(x, types) for x in typed.parts_of(part))
    match part:
        case typed.Variable():
            return _Node(("variable", part.name))
        case typed.Wildcard():
            return _Node(("wildcard",))
        case typed.Constant():
            kind = "number" if part.type.numeric and not types else str(part.type)
            return _Node(("constant", kind, _value(part)))
        case typed.Assignment():
            return _Node(("=",), parts, symmetric=True)
        case typed.Comparison() if part.op in _MIRRORED:
            return _Node((_MIRRORED[part.op],), parts[::-1])
        case typed.Comparison():
            return _Node((part.op,), parts, symmetric=part.op in ("=", "!="))
        case typed.Atom():
            return _Node(("atom", part.relation), parts)
        case typed.Binary():
            return _Node(("binary", part.op), parts)
        case typed.Call():
            return _Node(("call", part.function), parts)
        case typed.Aggregate():
            order = (str(part.limit), *(str(item.descending) for item in part.order))
            return _Node(("aggregate", part.function, part.distinct, *order), parts)
    return _Node((type(part).__name__,), parts)


def _value(constant: typed.Constant) -> str:
    """Return the value of a constant, the same for equal numbers of any type."""
    text = f"{Decimal(constant.value):f}" if constant.type.numeric else str(constant.value)
    return text.rstrip("0").rstrip(".") if constant.type.numeric and "." in text else text


@dataclass(frozen=True)
class SourceRule:
    """A rule as written, with its resolved rules, one per alternative; ``labelled`` if the program gives its label."""

    written: WrittenRule
    labelled: bool
    rules: tuple[typed.TypedRule, ...]

    def means(self, other: SourceRule, reorder: bool = True) -> bool:
        """Return whether another rule has the same alternatives.

        Rules with the same text may have constants of different types if columns do; that is no change of a rule.
        """
        types = self.written.text != other.written.text
        return same_rules(self.rules, other.rules, reorder, types)

    @property
    def resolved(self) -> str:
        """Return the resolved alternatives as text, without labels."""
        return " ; ".join(_without_label(rule) for rule in self.rules)


def _without_label(rule: typed.TypedRule) -> str:
    return str(rule).removeprefix(f"{rule.label}: ")


def same_rules(one: Sequence[typed.TypedRule], other: Sequence[typed.TypedRule], reorder: bool, types: bool) -> bool:
    """Return whether the rules of two lists are pairwise alike, in some order."""
    remaining = list(other)
    for rule in one:
        match = next((candidate for candidate in remaining if alike(rule, candidate, reorder, types)), None)
        if match is None:
            return False
        remaining.remove(match)
    return not remaining


def source_rules(compilation: Compilation) -> list[SourceRule]:
    """Return the rules of a program as written, without those made by the compiler."""
    program = compilation.typed
    labels = {s.span: s.label for s in compilation.syntax.statements if isinstance(s, syntax.RuleNode)}
    hidden = {relation.name for relation in program.relations if relation.hidden}
    groups: dict[tuple[object, str], list[typed.TypedRule]] = {}
    for rule in program.rules:
        if rule.head.relation not in hidden:
            groups.setdefault((rule.span, rule.head.relation), []).append(rule)
    written_rules = []
    for (_, relation), rules in groups.items():
        first = rules[0]
        label = labels.get(first.span)
        text = re.sub(r"^\s*[\w.]+\s*:(?![-=])\s*", "", " ".join(first.text.split())) if label else first.text
        name = label or (first.label.rpartition(".")[0] if len(rules) > 1 else first.label)
        written = WrittenRule(name, relation, " ".join(text.split()), str(first.span))
        written_rules.append(SourceRule(written, label is not None, tuple(rules)))
    return written_rules


def paired(old: list[SourceRule], new: list[SourceRule]) -> list[tuple[SourceRule, SourceRule]]:
    """Pair old and new rules: by label and meaning, by meaning, by label, then (except facts) by similarity."""
    pairs: list[tuple[SourceRule, SourceRule]] = []
    left, right = list(old), list(new)

    def pair(one: SourceRule, other: SourceRule) -> None:
        pairs.append((one, other))
        left.remove(one)
        right.remove(other)

    def label(rule: SourceRule) -> str:
        return rule.written.label if rule.labelled else ""

    tests = (
        lambda one, other: label(one) == label(other) and one.resolved == other.resolved,
        lambda one, other: label(one) == label(other) and one.means(other),
        lambda one, other: one.means(other),
        lambda one, other: label(one) == label(other) != "",
    )
    for test in tests:
        for one in tuple(left):
            match = next((other for other in right if test(one, other)), None)
            if match is not None:
                pair(one, match)
    ranked = sorted(
        (
            (-_similarity(one, other), i, j, one, other)
            for i, one in enumerate(left)
            for j, other in enumerate(right)
            if one.written.relation == other.written.relation and one.rules[0].body and other.rules[0].body
        ),
        key=lambda item: item[:3],
    )
    for score, _, _, one, other in ranked:
        if -score >= SIMILAR and one in left and other in right:
            pair(one, other)
    return pairs


def _similarity(one: SourceRule, other: SourceRule) -> float:
    words = [re.findall(r"\w+|\S", rule.resolved.partition(" :- ")[2]) for rule in (one, other)]
    return float(difflib.SequenceMatcher(None, words[0], words[1], autojunk=False).ratio())


def ways(one: SourceRule, other: SourceRule) -> tuple[str, ...]:
    """Return the ways in which two rules with the same meaning differ, as in :class:`RuleChange`."""
    ways = []
    if one.labelled != other.labelled or (one.labelled and one.written.label != other.written.label):
        ways.append("label")
    if one.resolved == other.resolved or one.written.text == other.written.text:
        return tuple(ways)
    differences = []
    names = [{v.name for rule in rules.rules for v in typed.variables_of(rule)} for rules in (one, other)]
    if names[0] != names[1] or (one.means(other, reorder=False) and _shape(one) == _shape(other)):
        differences.append("variables")
    if not one.means(other, reorder=False):
        differences.append("order")
    return (*ways, *(differences or ["notation"]))


def _shape(source: SourceRule) -> str:
    """Return the text of a resolved rule with a placeholder for each variable."""
    names = {v.name for rule in source.rules for v in typed.variables_of(rule)}
    return re.sub(r"\b\w+\b", lambda word: "·" if word[0] in names else word[0], source.resolved)
