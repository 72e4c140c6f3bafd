"""Localized program: how each rule is evaluated where tuples live.

The rules themselves stay as they are; beside each stands its localized form, rules that have all their body at one
location. On one cluster the auxiliary relations need not be stored, so later passes plan the rule itself and use the
localized form to say what travels; a target that runs the locations apart takes :meth:`Program.local_rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from . import typed


@dataclass(frozen=True)
class Send:
    """What travels for a rule: the tuples of ``auxiliary``, from ``source`` to ``destination``.

    Prints as ``send link_at_dst: @S -> @Z (link)``; ``carries`` names the relations whose tuples are in it, ``why``
    says in a clause why these travel, and not others.
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

    ``location`` is where the body is evaluated in the end, empty if no literal has a location. ``head_location`` is
    where the head lives; the head is sent if that differs. ``parts`` are the local rules, auxiliary ones first; a rule
    that was local is its own only part. ``broadcast`` names locations whose address no literal binds.
    """

    rule: typed.Rule
    location: str
    head_location: str
    sends: tuple[Send, ...]
    parts: tuple[typed.Rule, ...]
    broadcast: tuple[str, ...] = ()

    @property
    def sends_head(self) -> bool:
        """Whether the head lives elsewhere than the body."""
        return bool(self.location and self.head_location and self.location != self.head_location)

    def text(self, show: Callable[[typed.Rule], str]) -> str:
        """The rule, where it is evaluated, what is sent for it, and its parts if they are others."""
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
class Program:
    """A typed program with the localized form of its rules, in the order of ``program.rules``."""

    program: typed.Program
    rules: tuple[LocalizedRule, ...]
    auxiliaries: tuple[typed.Relation, ...]

    def local_rules(self) -> typed.Program:
        """The program in which every rule is local and auxiliary relations are relations like others."""
        parts = {part.label: part for rule in self.rules for part in rule.parts}
        relations = (*self.program.relations, *self.auxiliaries)
        return replace(self.program, relations=relations, rules=tuple(parts.values()))

    def relation(self, name: str) -> typed.Relation:
        """The relation called ``name``, auxiliary ones included; KeyError if there is none."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, typed.Relation]:
        return {relation.name: relation for relation in (*self.program.relations, *self.auxiliaries)}

    def show(self, rule: typed.Rule) -> str:
        """A rule of the program, or a part of one, with its locations."""
        return located_rule(rule, self.relation)

    def __str__(self) -> str:
        relations = "\n".join(map(str, (*self.program.relations, *self.auxiliaries)))
        return f"{relations}\n\n" + "\n".join(rule.text(self.show) for rule in self.rules) + "\n"


def located_rule(rule: typed.Rule, relation: Callable[[str], typed.Relation]) -> str:
    """A rule as it prints, with ``@`` at locations: ``r1: reachable(@S, D) :- link(@S, D).``

    ``relation`` finds the relations by name.
    """
    body = ", ".join(located_literal(literal, relation) for literal in rule.body)
    head = _located(rule.head.relation, rule.head.arguments, relation)
    return f"{rule.label}: {head} :- {body}." if body else f"{rule.label}: {head}."


def located_literal(literal: typed.Literal, relation: Callable[[str], typed.Relation]) -> str:
    """A literal as it prints, with ``@`` at its location."""
    match literal:
        case typed.Atom():
            return _located(literal.relation, literal.terms, relation)
        case typed.Negation():
            return f"!{located_literal(literal.atom, relation)}"
        case _:
            return str(literal)


def _located(name: str, arguments: Sequence[object], relation: Callable[[str], typed.Relation]) -> str:
    found = relation(name)
    if not arguments:
        return name if found.at is None else f"{name}@{found.at}"
    written = ", ".join(f"{'@' if i == found.location else ''}{argument}" for i, argument in enumerate(arguments))
    return f"{name}({written})"
