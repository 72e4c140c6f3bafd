"""What each stage promises, checked: tests run these after every pass.

Each function raises AssertionError with the offending node's text. :data:`CHECKS` has them by stage name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from . import delta, localized, plan, strata, typed
from .closures import closure_of


def check_typed(program: typed.Program) -> None:
    """Names are resolved, types agree, variables are bound, labels differ (the contract of :mod:`.typed`), and closures
    have the rules of closures."""
    _check_rules(program)
    for relation in program.relations:
        if relation.closure is not None:
            found = closure_of(relation.name, program.rules_of(relation.name))
            assert found is not None, f"{relation.name} has not the rules of a closure"
            assert _as_set(found) == _as_set(relation.closure), f"{relation.name} is not {relation.closure}"


def _check_rules(program: typed.Program) -> None:
    relations = {relation.name: relation for relation in program.relations}
    assert len(relations) == len(program.relations), "two relations have one name"
    labels = [rule.label for rule in program.rules]
    assert len(set(labels)) == len(labels), "two rules have one label"
    for rule in program.rules:
        _check_rule(rule, relations)


def _as_set(closure: typed.Closure) -> typed.Closure:
    return replace(closure, steps=tuple(sorted(closure.steps)))


def _check_rule(rule: typed.Rule, relations: Mapping[str, typed.Relation]) -> None:
    _check_terms(rule, rule.head.relation, rule.head.arguments, relations)
    bound = {v for atom in rule.atoms for v in _names(atom.terms)}
    for literal in rule.body:
        match literal:
            case typed.Atom():
                _check_terms(rule, literal.relation, literal.terms, relations)
            case typed.Negation():
                _check_terms(rule, literal.atom.relation, literal.atom.terms, relations)
                assert _names(literal.atom.terms) <= bound, f"{rule}: unbound in {literal}"
            case typed.Assignment():
                assert _names([literal.value]) <= bound, f"{rule}: unbound in {literal}"
                assert literal.value.type == literal.variable.type, f"{rule}: types of {literal}"
                bound.add(literal.variable.name)
            case typed.Comparison():
                assert _names([literal.left, literal.right]) <= bound, f"{rule}: unbound in {literal}"
                assert literal.left.type == literal.right.type, f"{rule}: types of {literal}"
    assert _names(rule.head.arguments) <= bound, f"{rule}: unbound in the head"


def _check_terms(rule: typed.Rule, name: str, terms: Iterable[Any], relations: Mapping[str, typed.Relation]) -> None:
    assert name in relations, f"{rule}: no relation {name}"
    columns = relations[name].columns
    listed = list(terms)
    assert len(listed) == len(columns), f"{rule}: arity of {name}"
    for term, column in zip(listed, columns, strict=True):
        assert term.type == column.type, f"{rule}: {term} in {name}.{column}"
        assert term.type not in (typed.UNKNOWN, typed.BROKEN) and not term.type.open, f"{rule}: type of {term}"


def _names(nodes: Iterable[object]) -> set[str]:
    """The variables of terms and expressions."""
    return {variable.name for node in nodes for variable in typed.variables_of(node)}


def check_rewritten(program: typed.Program) -> None:
    """Relations are input or derived, and negated literals have no wildcards."""
    check_typed(program)
    for relation in program.relations:
        assert not relation.accepts_input, f"{relation} is input and derived"
        if relation.role == "input":
            assert not program.rules_of(relation.name), f"{relation} is input and has rules"
    for rule in program.rules:
        for negation in rule.negations:
            assert not any(isinstance(t, typed.Wildcard) for t in negation.atom.terms), f"{rule}: {negation}"


def check_localized(program: localized.Program) -> None:
    """Every rule has its localized form, whose parts have all their body at one location."""
    assert tuple(rule.rule for rule in program.rules) == program.program.rules, "rules without localized form"
    local = program.local_rules()
    _check_rules(local)
    for rule in program.rules:
        for part in () if rule.broadcast else rule.parts:
            places = set()
            for atom in part.read:
                relation = local.relation(atom.relation)
                if relation.location is not None:
                    places.add(_place(part, str(atom.terms[relation.location])))
                elif relation.at is not None:
                    places.add(str(relation.at))
            assert len(places) <= 1, f"{part} has its body at {sorted(places)}"


def _place(rule: typed.Rule, text: str) -> str:
    """One text for all terms that the rule equates with the one printed ``text``."""
    equal = [
        {str(x.variable), str(x.value)} if isinstance(x, typed.Assignment) else {str(x.left), str(x.right)}
        for x in rule.body
        if isinstance(x, typed.Assignment) or (isinstance(x, typed.Comparison) and x.op == "=")
    ]
    same = {text}
    for _ in equal:
        same |= {name for pair in equal if pair & same for name in pair}
    return min(same)


def check_strata(program: strata.Program) -> None:
    """Every derived relation is in one stratum, which reads earlier ones and itself, itself never by negation."""
    done = {relation.name for relation in program.program.relations if relation.role == "input"}
    for stratum in program.strata:
        assert not done & stratum.members, f"{stratum.name} comes twice"
        for rule in stratum.rules:
            assert rule.head.relation in stratum.members, f"{rule} is in the wrong stratum"
            for atom in rule.atoms:
                assert atom.relation in done | stratum.members, f"{rule} reads a later stratum"
                assert stratum.recursive or atom.relation not in stratum.members, f"{stratum.name} is recursive"
            for negation in rule.negations:
                assert negation.atom.relation in done, f"{rule} negates a later stratum"
        done |= stratum.members
    assert done == {relation.name for relation in program.program.relations}, "a relation is in no stratum"


def check_delta(program: delta.Program) -> None:
    """Each literal of a rule has its delta rule: after the change before it, before the change behind it."""
    for stratum in program.strata:
        assert tuple(deltas.rule for deltas in stratum.rules) == stratum.stratum.rules
        for deltas in stratum.rules:
            literals = [x for x in deltas.rule.body if isinstance(x, typed.Atom | typed.Negation)]
            assert len(deltas.all) == len(literals), f"{deltas.rule}: a literal without delta rule"
            for position, rule in enumerate(deltas.all):
                form = [delta.Version.AFTER] * position + [delta.Version.DELTA]
                form += [delta.Version.BEFORE] * (len(literals) - position - 1)
                assert [versioned.version for versioned in rule.body] == form, f"{deltas.rule}: {rule}"
                assert sorted(map(str, literals)) == sorted(str(v.literal) for v in rule.body), str(deltas.rule)


def check_plan(program: plan.Program) -> None:
    """Every stratum is in one stage, and every query has each literal of its rule once."""
    planned = [s.stratum for stage in program.stages for s in stage.strata]
    assert planned == [deltas.stratum for deltas in program.deltas.strata], "stages change the order of strata"
    for stage in program.stages:
        for placed in stage.strata:
            for pivot in placed.pivots:
                assert (pivot.column is not None) == stage.bucketed, f"pivot of {pivot.relation}"
            assert tuple(rule for planned in placed.rules for rule in planned.rules) == placed.stratum.rules
            for rule in placed.rules:
                assert not (rule.rule.body and rule.full.facts), f"{rule.rule} is no fact"
                literals = [x for x in rule.rule.body if isinstance(x, typed.Atom | typed.Negation)]
                for query in rule.queries:
                    found = [v.literal for v in (*query.joins, *query.negations)]
                    assert sorted(map(str, found)) == sorted(map(str, literals)), f"{rule.rule}: {query}"


CHECKS: Mapping[str, Callable[[Any], None]] = {
    "typed": check_typed,
    "rewritten": check_rewritten,
    "localized": check_localized,
    "strata": check_strata,
    "delta": check_delta,
    "plan": check_plan,
}
