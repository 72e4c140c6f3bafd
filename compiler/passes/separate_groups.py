"""Separate the groups of recursions with ``sum``, ``count`` or ``avg`` from their values.

Before::

    r1: needs(W, P, sum<N>) :- contains(W, P, N).
    r2: needs(W, P, sum<N>) :- contains(W, M, K), needs(M, P, L), N = K * L, L < 100.

After (``needs_groups`` is hidden, and has every group that there may be)::

    r1_groups: needs_groups(W, P) :- contains(W, P, _).
    r2_groups: needs_groups(W, P) :- contains(W, M, _), needs_groups(M, P).
    r1: needs(W, P, sum<N>) :- contains(W, P, N).
    r2: needs(W, P, sum<N>) :- contains(W, M, K), needs(M, P, L), N = K * L, L < 100.

A group depends on the groups that its rows are computed from. Where these dependencies have no cycle, the program has
one meaning, whatever the order of evaluation: it is locally stratified (Przymusinski 1988). The groups, and what they
depend on, follow from an ordinary recursion, if no value decides which groups there may be. Conditions on values are
left out of it, so it may have groups that are empty in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..diagnostics import Diagnostics
from ..ir import typed
from ..naming import unused
from ..source import Span
from .components import components, is_recursive

Groups = Mapping[str, tuple[str, tuple[int, ...]]]
"""The relations of recursions by name, each with that of its groups and its columns that identify a group."""

_ADVICE = "in a recursion with `sum`, `count` or `avg`, values may be computed with, compared and aggregated"


def separate_groups(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with a relation for the groups of each relation of a recursion with ``sum``, ``count`` or
    ``avg``. Report E0502 where a value of such a recursion, or a ``first``, would decide which groups there are.

    Recursions through negation are left for ``stratify`` to report, those across processes for ``annotate_proofs``, and
    those that are to have derivation sets for ``annotate_derivations``.
    """
    spanning = frozenset[str]().union(*(part.members for part in program.spanning))
    for names in components(program) if program.recursion == "ranks" else ():
        members = frozenset(names)
        rules = [rule for rule in program.rules if rule.head.relation in members]
        sums = any(aggregate.function not in ("min", "max") for rule in rules for aggregate in rule.aggregates)
        negates = any(negation.atom.relation in members for rule in rules for negation in rule.negations)
        if sums and is_recursive(rules, members) and not negates and members.isdisjoint(spanning):
            values = _values(rules, members)
            if not (_chooses(rules, diagnostics) or _refused(rules, values, diagnostics)):
                program = _separated(program, members, rules, values)
    return program


def _chooses(rules: Sequence[typed.TypedRule], diagnostics: Diagnostics) -> bool:
    """Report each ``first`` in the heads of a recursion (E0502); return whether there is one."""
    aggregates = {str(a): a.span for rule in rules for a in rule.aggregates if a.function == "first"}
    for text, span in aggregates.items():
        message = f"`{text}` is part of a recursion, and its order decides which tuples there are"
        diagnostics.report("E0502", message, span, help="choose the first tuples in a rule outside of the recursion")
    return bool(aggregates)


def over_groups(rule: typed.TypedRule, groups: Groups) -> tuple[typed.Literal, ...]:
    """Return the body of a rule with the relations of its recursion replaced by their groups, and without the
    conditions on values."""
    hidden = _value_names(rule, {(name, place) for name, place in _value_places(rule, groups)})
    needed = {v.name for node in (*_keys(rule, groups), *rule.atoms) for v in typed.variables_of(node)}
    body: list[typed.Literal] = []
    for literal in reversed(rule.body):
        used = {variable.name for variable in typed.variables_of(literal)}
        if isinstance(literal, typed.Assignment | typed.Comparison) and used & hidden:
            continue
        if isinstance(literal, typed.Assignment) and literal.variable.name not in needed:
            continue
        if isinstance(literal, typed.Atom) and literal.relation in groups:
            name, places = groups[literal.relation]
            literal = replace(literal, relation=name, terms=tuple(literal.terms[place] for place in places))
        elif not isinstance(literal, typed.Atom):
            needed |= used
        body.insert(0, literal)
    return tuple(body)


def _keys(rule: typed.TypedRule, groups: Groups) -> list[typed.Expression | typed.Aggregate]:
    """Return the arguments of a rule's head that identify a group."""
    return [rule.head.arguments[place] for place in groups[rule.head.relation][1]]


def _value_places(rule: typed.TypedRule, groups: Groups) -> list[tuple[str, int]]:
    """Return the columns with values of the relations that a rule reads, as relation and place."""
    read = (atom for atom in rule.atoms if atom.relation in groups)
    return [(a.relation, i) for a in read for i, _ in enumerate(a.terms) if i not in groups[a.relation][1]]


def _values(rules: Sequence[typed.TypedRule], members: frozenset[str]) -> set[tuple[str, int]]:
    """Return the columns of a recursion that hold values, as relation and place: those that aggregates compute, and
    those that rules fill with what they compute from them."""
    values: set[tuple[str, int]] = set()
    before = -1
    while before != len(values):
        before = len(values)
        for rule in rules:
            hidden = _value_names(rule, values)
            for place, argument in enumerate(rule.head.arguments):
                used = {variable.name for variable in typed.variables_of(argument)}
                if isinstance(argument, typed.Aggregate) or used & hidden:
                    values.add((rule.head.relation, place))
    return values


def _value_names(rule: typed.TypedRule, values: set[tuple[str, int]]) -> set[str]:
    """Return the names of the variables of a rule that hold values of its recursion, or what is computed from them."""
    names = {
        variable.name
        for atom in rule.atoms
        for place, term in enumerate(atom.terms)
        if (atom.relation, place) in values
        for variable in typed.variables_of(term)
    }
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            used = {variable.name for variable in typed.variables_of(literal.value)}
            names |= {literal.variable.name} if used & names else set()
    return names


def _refused(rules: Sequence[typed.TypedRule], values: set[tuple[str, int]], diagnostics: Diagnostics) -> bool:
    """Report uses of values that would decide which groups there are (E0502); return whether there are any."""
    problems: dict[tuple[str, Span | None], tuple[Span, str]] = {}  # by message, and by rule where it is about one
    for rule in rules:
        head, hidden = rule.head, _value_names(rule, values)
        if all((head.relation, place) in values for place, _ in enumerate(head.arguments)):
            message = f"`{head.relation}`, which is part of a recursion with an aggregate, has no column to group by"
            problems.setdefault((message, None), (head.span, "add a grouping column; it may be a constant"))
        terms = [(atom.relation, place, term) for atom in rule.atoms for place, term in enumerate(atom.terms)]
        seen = Counter(term.name for _, _, term in terms if isinstance(term, typed.Variable))
        for relation, place, term in terms:
            if not isinstance(term, typed.Variable) or term.name not in hidden:
                continue
            if seen[term.name] > 1 or (relation, place) not in values:
                message = f"the value `{term}` of the recursion is joined with another column"
                problems.setdefault((message, head.span), (term.span, _ADVICE))
        for variable in (v for negation in rule.negations for v in typed.variables_of(negation)):
            if variable.name in hidden:
                message = f"the value `{variable}` of the recursion is used in a negated atom"
                problems.setdefault((message, head.span), (variable.span, _ADVICE))
        for argument in head.arguments if rule.aggregates else ():
            used = {variable.name for variable in typed.variables_of(argument)}
            if used & hidden and not isinstance(argument, typed.Aggregate):
                message = f"the recursion groups by `{argument}`, a value that it computes itself"
                problems.setdefault((message, head.span), (argument.span, _ADVICE))
    for (message, _), (span, help) in problems.items():
        diagnostics.report("E0502", message, span, help=help)
    return bool(problems)


def _separated(
    program: typed.TypedProgram,
    members: frozenset[str],
    rules: Sequence[typed.TypedRule],
    values: set[tuple[str, int]],
) -> typed.TypedProgram:
    """Return the program with the relations of groups of one recursion, and their rules."""
    names = {relation.name for relation in program.relations}
    labels = {rule.label for rule in program.rules}
    groups: dict[str, tuple[str, tuple[int, ...]]] = {}
    relations: list[typed.TypedRelation] = []
    for relation in program.relations:
        if relation.name in members:
            places = tuple(i for i, _ in enumerate(relation.columns) if (relation.name, i) not in values)
            name = unused(f"{relation.name}_groups", names)
            names.add(name)
            groups[relation.name] = name, places
            relations.append(_groups_of(relation, name, places))
            relation = replace(relation, grouped=(name, places))
        relations.append(relation)
    added = []
    for rule in rules:
        label = unused(f"{rule.label}_groups", labels)
        labels.add(label)
        name = groups[rule.head.relation][0]
        keys = tuple(argument for argument in _keys(rule, groups) if not isinstance(argument, typed.Aggregate))
        head = typed.Head(name, keys, rule.head.span)
        added.append(_open(replace(rule, label=label, head=head, body=over_groups(rule, groups), origin=f"for {name}")))
    first = next(place for place, rule in enumerate(program.rules) if rule.head.relation in members)
    listed = (*program.rules[:first], *added, *program.rules[first:])
    return replace(program, relations=tuple(relations), rules=listed)


def _groups_of(relation: typed.TypedRelation, name: str, places: tuple[int, ...]) -> typed.TypedRelation:
    """Return the hidden relation of the groups of a relation, which the columns at ``places`` identify."""
    return typed.TypedRelation(
        name,
        tuple(relation.columns[place] for place in places),
        "derived",
        False,
        relation.span,
        location=places.index(relation.location) if relation.location in places else None,
        declared=False,
        hidden=True,
        why=f"the groups that there may be in {relation.name}, whatever their values",
        part_of=relation.name,
    )


def _open(rule: typed.TypedRule) -> typed.TypedRule:
    """Return a rule with a wildcard for each variable that only one term of an atom holds."""
    seen = Counter(variable.name for variable in typed.variables_of(rule))

    def term(old: typed.Term) -> typed.Term:
        single = isinstance(old, typed.Variable) and seen[old.name] == 1
        return typed.Wildcard(old.type, old.span) if single else old

    body = (
        replace(literal, terms=tuple(map(term, literal.terms))) if isinstance(literal, typed.Atom) else literal
        for literal in rule.body
    )
    return replace(rule, body=tuple(body))
