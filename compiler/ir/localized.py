"""Localized program: each rule with a localized form, whose rule bodies read one location each.

The rules themselves do not change. On a single cluster the auxiliary relations need not be stored, so later passes plan
the original rules and use the localized forms to report what is sent. A target that runs locations separately takes
:meth:`LocalizedProgram.local_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from . import typed


@dataclass(frozen=True)
class Send:
    """The tuples of relation ``auxiliary`` that a rule sends from location ``source`` to ``destination``.

    ``carries`` names the relations whose tuples it joins; ``why`` is a clause that says why these are sent and not
    others. Prints as ``send link_at_dst: @S -> @Z (link)``.
    """

    auxiliary: str
    source: str
    destination: str
    carries: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return f"send {self.auxiliary}: @{self.source} -> @{self.destination} ({', '.join(self.carries)})"


@dataclass(frozen=True)
class LocalizedRule:
    """A rule with its localized form.

    ``location`` is where the body is finally evaluated, empty if no literal has a location. ``head_location`` is where
    the head is stored; the head is sent if the two differ. ``parts`` are the local rules, auxiliary ones first; a rule
    that is already local is its only part. ``broadcast`` names locations whose addresses no literal binds.
    """

    rule: typed.TypedRule
    location: str
    head_location: str
    sends: tuple[Send, ...]
    parts: tuple[typed.TypedRule, ...]
    broadcast: tuple[str, ...] = ()

    @property
    def sends_head(self) -> bool:
        """Whether the head is stored at another location than the body is evaluated at."""
        return bool(self.location and self.head_location and self.location != self.head_location)

    def text(self, show: Callable[[typed.TypedRule], str]) -> str:
        """Return the rule, where it is evaluated, and its sends and parts if there are any; ``show`` prints rules."""
        lines = [show(self.rule)]
        if self.location:
            lines.append(f"  evaluated @{self.location}" + (f", head sent to @{self.head_location}" * self.sends_head))
        lines += [f"  {send}" for send in self.sends]
        lines += [f"  cannot be brought together with @{location}" for location in self.broadcast]
        if self.sends:
            lines += [f"  {show(part)}" for part in self.parts]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text(str)


@dataclass(frozen=True)
class LocalizedProgram:
    """A typed program with the localized forms of its rules, in the order of ``program.rules``."""

    program: typed.TypedProgram
    rules: tuple[LocalizedRule, ...]
    auxiliaries: tuple[typed.TypedRelation, ...]

    def local_rules(self) -> typed.TypedProgram:
        """Return the program of the local rules, with the auxiliary relations as ordinary relations."""
        parts = {part.label: part for rule in self.rules for part in rule.parts}
        relations = (*self.program.relations, *self.auxiliaries)
        return replace(self.program, relations=relations, rules=tuple(parts.values()))

    def relation(self, name: str) -> typed.TypedRelation:
        """Return the relation ``name``, which may be auxiliary; raise KeyError if there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, typed.TypedRelation]:
        return {relation.name: relation for relation in (*self.program.relations, *self.auxiliaries)}

    def show(self, rule: typed.TypedRule) -> str:
        """Return the text of a rule of the program, or of a part of one, with ``@`` at locations."""
        return located_rule(rule, self.relation)

    def __str__(self) -> str:
        relations = "\n".join(map(str, (*self.program.relations, *self.auxiliaries)))
        return f"{relations}\n\n" + "\n".join(rule.text(self.show) for rule in self.rules) + "\n"


def located_rule(rule: typed.TypedRule, relation: Callable[[str], typed.TypedRelation]) -> str:
    """Return the text of a rule with ``@`` at locations: ``r1: reachable(@S, D) :- link(@S, D).``

    ``relation`` returns a relation by name.
    """
    body = ", ".join(located_literal(literal, relation) for literal in rule.body)
    head = _located(rule.head.relation, rule.head.arguments, relation)
    return f"{rule.label}: {head} :- {body}." if body else f"{rule.label}: {head}."


def located_literal(literal: typed.Literal, relation: Callable[[str], typed.TypedRelation]) -> str:
    """Return the text of a literal with ``@`` at its location; ``relation`` returns a relation by name."""
    match literal:
        case typed.Atom():
            return _located(literal.relation, literal.terms, relation)
        case typed.Negation():
            return f"!{located_literal(literal.atom, relation)}"
        case _:
            return str(literal)


def _located(name: str, arguments: Sequence[object], relation: Callable[[str], typed.TypedRelation]) -> str:
    declared = relation(name)
    if not arguments:
        return name if declared.at is None else f"{name}@{declared.at}"
    written = ", ".join(f"{'@' if i == declared.location else ''}{argument}" for i, argument in enumerate(arguments))
    return f"{name}({written})"
