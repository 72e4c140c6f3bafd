"""Fewer words for the rules of a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ...ir import syntax
from ...ir.syntax_printer import rule_text


def direct(statements: Iterable[syntax.Statement]) -> list[syntax.Statement]:
    """Return statements without relations that nothing reads, and those that only hand their rows on.

    Before::

        v_groups(city, count<*>) :- person(_, city).
        v(city, n) :- v_groups(city, n).

    After::

        v(city, count<*>) :- person(_, city).

    A recursion whose rows are handed on is named after the view.
    """
    given = _used(list(statements))
    rules = [one for one in given if isinstance(one, syntax.RuleNode)]
    declared = [one for one in given if isinstance(one, syntax.RelationDeclaration)]
    hidden = {one.name for one in declared if not one.is_input and not one.is_output}
    reads = Counter(atom.relation for rule in rules for atom in _read(rule) if atom.relation != rule.head.relation)
    recursive = {atom.relation for rule in rules for atom in _read(rule) if atom.relation == rule.head.relation}
    heads = Counter(rule.head.relation for rule in rules)
    for rule in rules:
        source = rule.body[0] if len(rule.body) == 1 else None
        if (
            isinstance(source, syntax.AtomNode)
            and source.relation in hidden
            and source.relation != rule.head.relation
            and reads[source.relation] == 1
            and heads[rule.head.relation] == 1
            and (places := _places(source, rule.head)) is not None
            and (source.relation not in recursive or places == sorted(places))
        ):
            made = [one for one in rules if one.head.relation == source.relation]
            moved = {id(one): _moved(one, rule.head, places) for one in made}
            if any(found is None for found in moved.values()):
                continue
            kept: list[syntax.Statement] = []
            for one in given:
                if isinstance(one, syntax.RelationDeclaration) and one.name == source.relation:
                    continue
                if one is not rule:
                    kept.append(moved.get(id(one)) or one)
            return direct(_declared_first(kept))
    return _declared_first(given)


def _used(statements: list[syntax.Statement]) -> list[syntax.Statement]:
    """Return statements without the relations of helpers that no other one reads."""
    while True:
        rules = [one for one in statements if isinstance(one, syntax.RuleNode)]
        reads = {atom.relation for rule in rules for atom in _read(rule) if atom.relation != rule.head.relation}
        helpers = {rule.head.relation for rule in rules if rule.origin} - reads
        if not helpers:
            return statements
        statements = [one for one in statements if _relation(one) not in helpers]


def _relation(statement: syntax.Statement) -> str:
    """Return the relation that a statement declares, or derives."""
    if isinstance(statement, syntax.RuleNode):
        return statement.head.relation
    return statement.name if isinstance(statement, syntax.RelationDeclaration) else ""


def _declared_first(statements: Iterable[syntax.Statement]) -> list[syntax.Statement]:
    """Return statements with declarations before rules."""
    return sorted(statements, key=lambda one: isinstance(one, syntax.RuleNode))


def _read(rule: syntax.RuleNode) -> Iterable[syntax.AtomNode]:
    for literal in rule.body:
        if isinstance(literal, syntax.AtomNode):
            yield literal
        elif isinstance(literal, syntax.NegationNode) and isinstance(literal.atom, syntax.AtomNode):
            yield literal.atom


def _places(source: syntax.AtomNode, head: syntax.AtomNode) -> list[int] | None:
    """Return the places in a body's only atom of the arguments of a head, if both have the same variables once."""
    given, wanted = source.arguments, head.arguments
    names = [argument.name for argument in given if isinstance(argument, syntax.VariableNode)]
    heads = [argument.name for argument in wanted if isinstance(argument, syntax.VariableNode)]
    if (
        len(names) < len(given)
        or len(heads) < len(wanted)
        or sorted(names) != sorted(heads)
        or len({*names}) < len(names)
    ):
        return None
    return [names.index(name) for name in heads]


def _moved(rule: syntax.RuleNode, head: syntax.AtomNode, places: list[int]) -> syntax.RuleNode | None:
    """Return a rule with another head, None if what stands before and behind an aggregate would
    change: groups, witnesses, and what is ranked."""
    arguments = tuple(rule.head.arguments[place] for place in places)
    ranked = any(isinstance(argument, syntax.AggregateNode) and argument.limit for argument in arguments)
    if ranked and places != sorted(places):
        return None
    seen = False
    for argument in arguments:
        if isinstance(argument, syntax.AggregateNode):
            seen = seen or argument.function in ("min", "max")
        elif seen:
            return None

    def renamed(literal: syntax.Literal) -> syntax.Literal:
        if isinstance(literal, syntax.AtomNode) and literal.relation == rule.head.relation:
            return replace(literal, relation=head.relation)
        return literal

    body = tuple(map(renamed, rule.body))
    moved = replace(rule, head=replace(head, arguments=arguments), body=body, origin="")
    return replace(moved, text=rule_text(moved))
