"""Checks of what each pass leaves, for tests to run after every pass.

:data:`CHECKS` has a check for each pass by its name; it raises AssertionError with the text of the offending node. A
pass may assume what the checks of the passes before it in the same representation establish, and must preserve it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from . import delta, localized, plan, strata, syntax, typed
from .closures import closure_of


def check_expanded(program: syntax.SyntaxProgram) -> None:
    """Check that no path literal is left, and that each relation made for a path has rules."""
    for statement in program.statements:
        for node in _parts(statement):
            assert not isinstance(node, syntax.PathLiteral), f"{node} is a path"
    heads = {statement.head.relation for statement in program.statements if isinstance(statement, syntax.RuleNode)}
    for addition in program.made:
        assert addition.name in heads, f"{addition.name} has no rules"


def _parts(node: object) -> Iterator[object]:
    """Yield a syntax node and the nodes in it."""
    yield node
    if isinstance(node, tuple):
        for item in node:
            yield from _parts(item)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _parts(getattr(node, field.name))


def check_resolved(program: typed.TypedProgram) -> None:
    """Check that names of relations and labels are unique, that atoms have as many terms as their relation has columns,
    that source rules have their text, and that declared columns have types."""
    relations = _relations(program)
    for rule in program.rules:
        assert rule.text, f"{rule} has no text"
        for name, terms in _reads(rule):
            assert name in relations, f"{rule}: no relation {name}"
            assert len(terms) == len(relations[name].columns), f"{rule}: arity of {name}"
    for relation in program.relations:
        for column in relation.columns:
            assert not relation.declared or column.type != typed.UNKNOWN, f"type of {relation.name}.{column.name}"


def check_inferred(program: typed.TypedProgram) -> None:
    """Check that all types are known, and that each term has the type of its column."""
    check_resolved(program)
    relations = _relations(program)
    for rule in program.rules:
        for name, terms in _reads(rule):
            _check_terms(rule, name, terms, relations)


def check_typed(program: typed.TypedProgram) -> None:
    """Check the contract of :mod:`.typed` (names resolved, types equal, variables bound, labels unique), and that the
    rules of closures form them."""
    _check_rules(program)
    for relation in program.relations:
        if relation.closure is not None:
            closure = closure_of(relation.name, program.rules_of(relation.name))
            assert closure is not None, f"{relation.name} has not the rules of a closure"
            assert _as_set(closure) == _as_set(relation.closure), f"{relation.name} is not {relation.closure}"


def check_plain_aggregates(program: typed.TypedProgram) -> None:
    """Check that aggregates are over all derivations, and that a plain argument never follows an extremum, except for
    witnesses in recursions across processes and what nodes send each other."""
    check_typed(program)
    sent = {name for route in program.routes for name in (route.sent, route.relation)}
    for rule in program.rules:
        extrema = False
        for place, argument in enumerate(rule.head.arguments):
            if isinstance(argument, typed.Aggregate):
                assert not argument.distinct, f"{rule}: {argument}"
                extrema = extrema or argument.function in ("min", "max")
            elif rule.head.relation not in sent:
                is_witness = place in program.relation(rule.head.relation).witnesses
                assert not extrema or is_witness, f"{rule}: {argument} is a witness"


def check_inputs(program: typed.TypedProgram) -> None:
    """Check that each relation is either input, and has no rules, or derived."""
    check_plain_aggregates(program)
    for relation in program.relations:
        assert not relation.accepts_input and not relation.multiset, f"{relation} is to be split"
        if relation.role == "input":
            assert not program.rules_of(relation.name), f"{relation} is input and has rules"


def check_grouped(program: typed.TypedProgram) -> None:
    """Check that groups have the columns that identify them, and that they follow from no values."""
    check_inputs(program)
    values = {relation.name for relation in program.relations if relation.grouped}
    for relation in program.relations:
        if relation.grouped:
            name, places = relation.grouped
            assert program.relation(name).columns == tuple(relation.columns[place] for place in places), str(relation)
            assert not any(a.relation in values for rule in program.rules_of(name) for a in rule.read), name


def check_linear(program: typed.TypedProgram) -> None:
    """Check that no rule is ``p(X, Y) :- p(X, Z), p(Z, Y)`` if p has other rules, and these read input relations."""
    check_inputs(program)
    for rule in program.rules if program.recursion == "ranks" else ():
        name = rule.head.relation
        others = [other for other in program.rules_of(name) if other is not rule]
        if others and all(program.relation(a.relation).role == "input" for other in others for a in other.read):
            assert not _is_transitive(rule), f"{rule} is not linear"


def _is_transitive(rule: typed.TypedRule) -> bool:
    """Return whether a rule joins its relation with itself as a transitive closure does."""
    parts = (rule.head.arguments, *(atom.terms for atom in rule.atoms))
    variables = all(isinstance(term, typed.Variable) for terms in parts for term in terms)
    if [atom.relation for atom in rule.atoms] != [rule.head.relation] * 2 or len(rule.body) != 2 or not variables:
        return False
    head, *ends = (tuple(map(str, terms)) for terms in parts)
    return any(
        len(head) == 2 and len({*head, first[1]}) == 3 and (first[0], *second) == (head[0], first[1], head[1])
        for first, second in (ends, ends[::-1])
    )


def check_annotated(program: typed.TypedProgram) -> None:
    """Check that a relation of entries has the columns of the relation that it annotates, and two sets."""
    check_inputs(program)
    for relation in program.relations:
        if relation.annotates:
            plain = [column.type for column in program.relation(relation.annotates).columns]
            assert [column.type for column in relation.columns] == [*plain, *(_SET,) * 2], f"{relation}: columns"


_SET = typed.list_of(typed.STRING)


def check_divided(program: typed.TypedProgram) -> None:
    """Check that every body is at one location, and that heads at other ones are sent."""
    check_typed(program)
    sent = {route.sent for route in program.routes}
    for rule in program.rules:
        places = set()
        for atom in rule.read:
            relation = program.relation(atom.relation)
            if relation.location is not None:
                places.add(str(atom.terms[relation.location]))
            assert atom.relation not in sent, f"{rule}: reads what is sent"
        assert len(places) < 2, f"{rule}: has several locations"


def check_proofs(program: typed.TypedProgram) -> None:
    """Check that relations with proofs have those as their last columns, and guards that say which are dead."""
    if program.recursion != "ranks" or not program.spanning:
        check_negations(program)
        return
    _check_rules(program)
    for relation in program.relations:
        if relation.keeps == "proofs":
            assert relation.columns[-1].type == _SET, f"{relation}: columns"
            assert relation.guards and program.relation(relation.guards[0]).keeps == "lives", f"{relation}: guards"
        if relation.keeps == "identities":
            assert relation.columns[-1].type == typed.STRING, f"{relation}: columns"


def check_negations(program: typed.TypedProgram) -> None:
    """Check that negated literals have no wildcards."""
    check_annotated(program)
    for rule in program.rules:
        for negation in rule.negations:
            assert not any(isinstance(t, typed.Wildcard) for t in negation.atom.terms), f"{rule}: {negation}"


def check_closures(program: typed.TypedProgram) -> None:
    """Check that each derived relation whose rules form a closure is marked."""
    check_proofs(program)
    for relation in program.relations:
        if relation.role == "derived" and relation.closure is None:
            assert closure_of(relation.name, program.rules_of(relation.name)) is None, f"{relation} is a closure"


def _relations(program: typed.TypedProgram) -> dict[str, typed.TypedRelation]:
    """Return the relations by name; check that names and labels are unique."""
    relations = {relation.name: relation for relation in program.relations}
    assert len(relations) == len(program.relations), "two relations have one name"
    labels = [rule.label for rule in program.rules]
    assert len(set(labels)) == len(labels), "two rules have one label"
    return relations


def _reads(rule: typed.TypedRule) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the relations of a rule, that of the head first, with their arguments."""
    yield rule.head.relation, rule.head.arguments
    for atom in rule.read:
        yield atom.relation, atom.terms


def _check_rules(program: typed.TypedProgram) -> None:
    relations = _relations(program)
    for rule in program.rules:
        _check_rule(rule, relations)


def _as_set(closure: typed.Closure) -> typed.Closure:
    return replace(closure, steps=tuple(sorted(closure.steps)))


def _check_rule(rule: typed.TypedRule, relations: Mapping[str, typed.TypedRelation]) -> None:
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


def _check_terms(
    rule: typed.TypedRule, name: str, terms: Iterable[Any], relations: Mapping[str, typed.TypedRelation]
) -> None:
    assert name in relations, f"{rule}: no relation {name}"
    columns = relations[name].columns
    listed = list(terms)
    assert len(listed) == len(columns), f"{rule}: arity of {name}"
    for term, column in zip(listed, columns, strict=True):
        assert term.type == column.type, f"{rule}: {term} in {name}.{column}"
        assert term.type not in (typed.UNKNOWN, typed.BROKEN) and not term.type.open, f"{rule}: type of {term}"


def _names(nodes: Iterable[typed.Node]) -> set[str]:
    """Return the names of the variables in terms and expressions."""
    return {variable.name for node in nodes for variable in typed.variables_of(node)}


def check_localized(program: localized.LocalizedProgram) -> None:
    """Check that every rule has a localized form, and that each part reads one location (except with ``broadcast``)."""
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


def _place(rule: typed.TypedRule, text: str) -> str:
    """Return one canonical text for all terms that the rule equates with the term that prints as ``text``."""
    equal = [
        {str(x.variable), str(x.value)} if isinstance(x, typed.Assignment) else {str(x.left), str(x.right)}
        for x in rule.body
        if isinstance(x, typed.Assignment) or (isinstance(x, typed.Comparison) and x.op == "=")
    ]
    same = {text}
    for _ in equal:
        same |= {name for pair in equal if pair & same for name in pair}
    return min(same)


def check_strata(program: strata.StratifiedProgram) -> None:
    """Check that each derived relation is in one stratum, which reads earlier strata and itself (never negated)."""
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


def check_delta(program: delta.DeltaProgram) -> None:
    """Check that each literal has a delta rule, with new versions of the literals before it and old ones after it."""
    for stratum in program.strata:
        assert tuple(deltas.rule for deltas in stratum.rules) == stratum.stratum.rules
        assert all((deltas.marks is not None) == (stratum.stratum.kind == "acyclic") for deltas in stratum.rules)
        for deltas in (*stratum.rules, *(deltas.marks for deltas in stratum.rules if deltas.marks)):
            literals = [x for x in deltas.rule.body if isinstance(x, typed.Atom | typed.Negation)]
            assert len(deltas.all) == len(literals), f"{deltas.rule}: a literal without delta rule"
            for position, rule in enumerate(deltas.all):
                form = [delta.Version.AFTER] * position + [delta.Version.DELTA]
                form += [delta.Version.BEFORE] * (len(literals) - position - 1)
                assert [versioned.version for versioned in rule.body] == form, f"{deltas.rule}: {rule}"
                assert sorted(map(str, literals)) == sorted(str(v.literal) for v in rule.body), str(deltas.rule)


def check_plan(program: plan.ProgramPlan) -> None:
    """Check that every stratum is in one stage, and that every query has each literal of its rule once."""
    planned = [s.stratum for stage in program.stages for s in stage.strata]
    assert planned == [deltas.stratum for deltas in program.deltas.strata], "stages change the order of strata"
    for stage in program.stages:
        for placed in stage.strata:
            for pivot in placed.pivots:
                assert (pivot.column is not None) == stage.bucketed, f"pivot of {pivot.relation}"
            assert tuple(rule for planned in placed.rules for rule in planned.rules) == placed.stratum.rules
            for rule in placed.rules:
                assert not (rule.rule.body and rule.full.facts), f"{rule.rule} is no fact"
                for query in rule.queries:
                    literals = [x for x in query.rule.body if isinstance(x, typed.Atom | typed.Negation)]
                    joined = [v.literal for v in (*query.joins, *query.negations)]
                    assert sorted(map(str, joined)) == sorted(map(str, literals)), f"{rule.rule}: {query}"


def check_matrices(program: plan.ProgramPlan) -> None:
    """Check that a stratum has no products, or one for each recursive rule, whose factors fit together and to it."""
    check_plan(program)
    for placed in (placed for stage in program.stages for placed in stage.strata):
        members = placed.stratum.members
        recursive = {p.label: p.rule for p in placed.rules if any(atom.relation in members for atom in p.rule.atoms)}
        assert not placed.matrices or [product.label for product in placed.matrices] == [*recursive], str(placed)
        for product in placed.matrices:
            types = [factor.types for factor in product.factors]
            arguments = recursive[product.label].head.arguments
            head = [getattr(a, "type", None) for a in arguments if not isinstance(a, typed.Aggregate)]
            ends = [None, *head][-2:]
            assert [types[0][0], types[-1][1]] == ends, str(product)
            assert all(one[1] == other[0] for one, other in pairwise(types)), str(product)
            assert any(factor.table in members for factor in product.factors), str(product)


def check_gathered(program: plan.ProgramPlan) -> None:
    """Check that no two facts that one query could return follow each other."""
    check_plan(program)
    for placed in (s for stage in program.stages for s in stage.strata if s.stratum.kind in ("counted", "ranked")):
        for key, group in groupby(placed.rules, _fact_key):
            assert key is None or len(list(group)) == 1, f"facts of {key[0]} are not gathered"


def _fact_key(planned: plan.RulePlan) -> tuple[str, bool] | None:
    """Return what facts have in common that one query could return, None for other rules."""
    head = planned.rules[0].head
    if planned.rule.body or not head.arguments or not all(isinstance(a, typed.Constant) for a in head.arguments):
        return None
    return head.relation, planned.filtered


CHECKS: Mapping[str, Callable[[Any], None]] = {
    "expand_paths": check_expanded,
    "resolve": check_resolved,
    "expand_options": check_resolved,
    "infer_types": check_inferred,
    "check_safety": check_typed,
    "project_channels": check_typed,
    "split_aggregates": check_plain_aggregates,
    "split_inputs": check_inputs,
    "bound_times": check_inputs,
    "separate_groups": check_grouped,
    "linearize": check_linear,
    "annotate_derivations": check_annotated,
    "project_negations": check_negations,
    "annotate_proofs": check_proofs,
    "mark_closures": check_closures,
    "localize": check_localized,
    "stratify": check_strata,
    "check_monotone": check_strata,
    "warn_invention": check_strata,
    "derive_deltas": check_delta,
    "plan_stages": check_plan,
    "find_matrices": check_matrices,
    "gather_facts": check_gathered,
    "project_sends": check_localized,
    "split_nodes": check_divided,
}
"""The check of what each pass leaves, by the name of the pass."""
