"""Rewrite every rule into rules whose bodies are each evaluated at one location.

Before::

    r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).

After::

    link_at_dst: link_at_dst(@Z, S) :- link(@S, Z).
    r2: reachable(@S, D) :- link_at_dst(@Z, S), reachable(@Z, D).

This is the general rewrite: a tuple is sent to the location of the tuples that it joins with. The published rewrite
(Nigam et al. 2012, section 2.2), ``aux(@S, Z, D) :- reachable(@Z, D), link(@Z, S)``, follows the link backwards, which
is equivalent only if every link has its reverse; it is used for relations declared ``symmetric``.

Input relations are sent in preference to derived ones, because they change less. Bodies with more than two locations
are rewritten step by step. A negated literal cannot be sent (only its own location knows that a tuple is absent), so
the bindings of the positive literals are sent to it. Sent tuples keep all variables and have one for each wildcard, so
that a rule has as many derivations as before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from ..diagnostics import Diagnostics, listed
from ..ir import typed
from ..ir.localized import LocalizedProgram, LocalizedRule, Send, located_literal
from ..naming import unused
from .terms import equal_variables


def localize(program: typed.TypedProgram, diagnostics: Diagnostics) -> LocalizedProgram:
    """Return the localized program; report W0810 where no literal binds the address to send to."""
    sent = _Made(program)
    rules = tuple(_Localizer(program, rule, sent, diagnostics).run() for rule in program.rules)
    return LocalizedProgram(program, rules, tuple(sent.relations))


class _Made:
    """The auxiliary relations of a program; ``shared`` ones hold whole tuples of one relation, for several rules."""

    def __init__(self, program: typed.TypedProgram) -> None:
        self.names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.relations: list[typed.TypedRelation] = []
        self.shared: dict[tuple[str, int], tuple[typed.TypedRelation, typed.TypedRule]] = {}


@dataclass(frozen=True)
class _Group:
    """Positive atoms that have been brought together at ``location`` (empty if they have none).

    ``carries`` names the program's relations whose tuples the group contains; ``order`` is its position in the body.
    """

    location: str
    atoms: tuple[typed.Atom, ...]
    carries: tuple[str, ...]
    order: int

    @property
    def variables(self) -> dict[str, typed.Variable]:
        """Return the variables of the atoms by name, in order."""
        return {t.name: t for atom in self.atoms for t in atom.terms if isinstance(t, typed.Variable)}


@dataclass(frozen=True)
class _Address:
    """A destination: a term, and the assignments that compute it from the sender's bindings."""

    term: typed.Variable | typed.Constant
    computed: tuple[typed.Assignment, ...] = ()


class _Localizer:
    """The localization of one rule."""

    def __init__(
        self, program: typed.TypedProgram, rule: typed.TypedRule, made: _Made, diagnostics: Diagnostics
    ) -> None:
        self.program, self.rule, self.made, self.diagnostics = program, rule, made, diagnostics
        self.same = equal_variables(rule)
        self.sends: list[Send] = []
        self.parts: list[typed.TypedRule] = []
        self.checked: list[typed.Literal] = []
        self.fresh = _fresh_variables(rule)

    def run(self) -> LocalizedRule:
        """Return the localized rule: bring its positive literals together step by step, then visit the negated ones."""
        head_place = self.place(self.rule.head.relation, self.rule.head.arguments)
        groups = {group.location: group for group in self.groups()}
        anywhere = [negation for negation in self.rule.negations if self.asked_everywhere(negation.atom)]
        if anywhere:
            return self.absent_everywhere(groups, anywhere, head_place)
        meetings = self.meetings(tuple(groups.values()), set())
        if meetings is None:
            return self.unlocalized(tuple(groups.values()), head_place)
        for source, target, why in meetings:
            met = self.meet(groups.pop(source), groups.pop(target), why)
            groups[met.location] = met
        group = self.visit_negations(next(iter(groups.values()), _Group("", (), (), 0)))
        if not self.sends:
            # A wildcard location has a fresh variable here, which must not appear in the result.
            location = group.location if group.location in self.places() else "_"
            return LocalizedRule(self.rule, location if group.location else "", head_place, (), (self.rule,))
        rest = [x for x in self.rule.body if not isinstance(x, typed.Atom) and x not in self.checked]
        self.parts.append(replace(self.rule, body=(*group.atoms, *_bound_by(group, rest))))
        return LocalizedRule(self.rule, group.location, head_place, tuple(self.sends), tuple(self.parts))

    def unlocalized(self, groups: tuple[_Group, ...], head_place: str) -> LocalizedRule:
        """Report W0810 and return the rule unchanged: no group binds an address of the others."""
        places = tuple(group.location if group.location in self.places() else "_" for group in groups)
        self.diagnostics.report(
            "W0810",
            f"{listed([f'`{self.shown(group)}`' for group in groups])} are at different locations, "
            "and no literal has both addresses",
            self.rule.span,
            help="on one cluster, the rule is evaluated anyway; to separate the locations, join them by a "
            "literal with both addresses",
        )
        return LocalizedRule(self.rule, places[0], head_place, (), (self.rule,), places[1:])

    def absent_everywhere(
        self, groups: Iterable[str], anywhere: Sequence[typed.Negation], head_place: str
    ) -> LocalizedRule:
        """Report W0810 and return the rule unchanged: it negates tuples at all locations."""
        there = [f"`{self.shown(group)}`" for group in self.groups() if group.location]
        absent = [f"`!{self.negated(negation.atom)}`" for negation in anywhere]
        self.diagnostics.report(
            "W0810",
            f"{listed([*there, *absent])} are at different locations, and no literal has both addresses"
            if there
            else f"{listed(absent)} {'is' if len(absent) == 1 else 'are'} at all locations, and no literal has their "
            "addresses",
            self.rule.span,
            help="on one cluster, the rule is evaluated anyway; to separate the locations, negate at one location, "
            "which another literal binds",
        )
        places = tuple(place if place in self.places() else "_" for place in groups if place) or ("_",)
        return LocalizedRule(self.rule, places[0], head_place, (), (self.rule,), (*places[1:], "_"))

    def asked_everywhere(self, atom: typed.Atom) -> bool:
        """Return whether a negated literal had a wildcard as its location."""
        projects = self.program.relation(atom.relation).projects
        location = self.program.relation(projects[0]).location if projects else None
        return projects is not None and location is not None and location not in projects[1]

    def negated(self, atom: typed.Atom) -> str:
        """Return a negated literal as it was before ``project_negations``."""
        projects = self.program.relation(atom.relation).projects
        assert projects is not None
        name, kept = projects
        terms = dict(zip(kept, atom.terms, strict=True))
        columns = self.program.relation(name).columns
        wild = (terms.get(i, typed.Wildcard(column.type, atom.span)) for i, column in enumerate(columns))
        return located_literal(replace(atom, relation=name, terms=tuple(wild)), self.program.relation)

    # ---- places and addresses ----------------------------------------------------------------------------------------

    def place(self, relation: str, terms: Sequence[object]) -> str:
        """Return the location of a tuple with these terms as text, equal for equal variables, empty if it has none."""
        declared = self.program.relation(relation)
        if declared.at is not None:
            return self.root(str(declared.at))
        if declared.location is None:
            return ""
        return self.root(str(terms[declared.location]))

    def root(self, text: str) -> str:
        """Return the text that stands for all variables and constants that the rule equates with this one."""
        return self.same.get(text, text)

    def place_of(self, atom: typed.Atom) -> str:
        """Return the location of a body atom's tuples."""
        return self.place(atom.relation, atom.terms)

    def places(self) -> set[str]:
        """Return the locations of the rule's literals; wildcards have not been replaced."""
        return {self.place_of(literal) for literal in self.rule.read}

    def address(self, group: _Group, place: str) -> _Address | None:
        """Return the address ``place`` as ``group`` knows it: bound, constant or computed; None if it does not."""
        for variable in group.variables.values():
            if self.root(variable.name) == place:
                return _Address(variable)
        constant = next((c for c in self.constants() if self.root(str(c)) == place), None)
        if constant is not None:
            return _Address(constant)
        for definition in _definitions(self.rule):
            if self.root(definition.variable.name) == place:
                needed = self.computable(group, definition.value)
                if needed is not None:
                    return _Address(definition.variable, (*needed, definition))
        return None

    def computable(self, group: _Group, *users: typed.Node) -> list[typed.Assignment] | None:
        """Return the assignments that ``group`` needs to bind all variables of ``users``, None if it cannot."""
        unbound = {v.name for user in users for v in typed.variables_of(user)} - set(group.variables)
        chosen: list[typed.Assignment] = []
        for literal in reversed(self.rule.body):
            if isinstance(literal, typed.Assignment) and literal.variable.name in unbound:
                chosen.append(literal)
                unbound.remove(literal.variable.name)
                unbound |= {v.name for v in typed.variables_of(literal.value)} - set(group.variables)
        return None if unbound else chosen[::-1]

    def constants(self) -> Iterator[typed.Constant]:
        """Yield the constants that are locations of the rule's literals or that the rule equates with variables."""
        for atom in self.rule.read:
            relation = self.program.relation(atom.relation)
            if relation.at is not None:
                yield relation.at
            elif relation.location is not None:
                term = atom.terms[relation.location]
                if isinstance(term, typed.Constant):
                    yield term
        yield from (x.value for x in _definitions(self.rule) if isinstance(x.value, typed.Constant))

    # ---- positive literals -------------------------------------------------------------------------------------------

    def groups(self) -> list[_Group]:
        """Return the positive literals grouped by location; those without one join the first group."""
        by_place: dict[str, list[typed.Atom]] = {}
        for atom in map(self.with_location, self.rule.atoms):
            by_place.setdefault(self.place_of(atom), []).append(atom)
        anywhere = by_place.pop("", [])
        if not by_place:
            return [_Group("", tuple(anywhere), (), 0)] if anywhere else []
        groups = [
            _Group(place, tuple(atoms), tuple(atom.relation for atom in atoms), order)
            for order, (place, atoms) in enumerate(by_place.items())
        ]
        return [replace(groups[0], atoms=(*groups[0].atoms, *anywhere)), *groups[1:]]

    def with_location(self, atom: typed.Atom) -> typed.Atom:
        """Return the atom with a fresh variable for a wildcard at its location."""
        location = self.program.relation(atom.relation).location
        if location is None or not isinstance(atom.terms[location], typed.Wildcard):
            return atom
        return replace(atom, terms=tuple(self.named(t) if i == location else t for i, t in enumerate(atom.terms)))

    def meetings(
        self, groups: tuple[_Group, ...], hopeless: set[frozenset[tuple[str, frozenset[typed.Atom]]]]
    ) -> list[tuple[str, str, str]] | None:
        """Return the order in which to bring the groups together: for each step, source, target and reason.

        Tries the cheapest step first. Returns None if no order works; ``hopeless`` caches sets of groups without one.
        """
        if len(groups) < 2:
            return []
        key = frozenset((group.location, frozenset(group.atoms)) for group in groups)
        if key in hopeless:
            return None
        possible = [
            (source, target)
            for source in groups
            for target in groups
            if source is not target and self.address(source, target.location) is not None
        ]
        for source, target in sorted(possible, key=lambda pair: (self.derived(pair[0]), pair[0].order, pair[1].order)):
            met = replace(
                target,
                location=source.location if self.way_back(source, target) else target.location,
                atoms=(*source.atoms, *target.atoms),
                carries=(*source.carries, *target.carries),
            )
            rest = tuple(met if group is target else group for group in groups if group is not source)
            further = self.meetings(rest, hopeless)
            if further is not None:
                return [(source.location, target.location, self.why(source, target, possible)), *further]
        hopeless.add(key)
        return None

    def derived(self, group: _Group) -> int:
        """Return how many relations in a group are derived; these change more than input relations."""
        return sum(self.program.relation(name).role == "derived" for name in group.carries)

    def why(self, source: _Group, target: _Group, possible: list[tuple[_Group, _Group]]) -> str:
        """Return why ``source`` is sent to ``target``, or ``target`` to ``source`` along a symmetric relation."""
        ours, theirs = self.shown(source), self.shown(target)
        if self.way_back(source, target):
            return f"{source.carries[0]} is symmetric, so tuples at {target.location} can be sent back along it"
        if (target, source) not in possible:
            has, does = "has" if " and " not in ours else "have", "does" if " and " not in theirs else "do"
            return f"{ours} {has} the address {target.location}, and {theirs} {does} not have {source.location}"
        if self.derived(source) < self.derived(target):
            return f"each has the other's address, and {ours} is an input, which changes less than derived relations"
        return f"each has the other's address, and {ours} comes first"

    def shown(self, group: _Group) -> str:
        """Return the content of a group as text for messages."""
        if any(self.place_of(atom) not in ("", group.location) for atom in group.atoms):
            return f"the join at {group.location}"
        names = {v.name for atom in self.rule.atoms for v in typed.variables_of(atom)}
        atoms = []
        for atom in group.atoms:
            if self.place_of(atom):
                terms = [
                    typed.Wildcard(t.type, t.span) if typed.variables_of(t) and str(t) not in names else t
                    for t in atom.terms
                ]
                atoms.append(located_literal(replace(atom, terms=tuple(terms)), self.program.relation))
        return listed(atoms)

    def meet(self, source: _Group, target: _Group, why: str) -> _Group:
        """Send ``source`` to ``target``, or along a symmetric relation the reverse; return the joint group."""
        carries = (*source.carries, *target.carries)
        back = self.way_back(source, target)
        if back is None:
            sent = self.ship(source, target.location, why)
            return replace(target, atoms=(*sent.atoms, *target.atoms), carries=carries)
        named = replace(target, atoms=tuple(map(self.named_atom, target.atoms)))
        there = replace(named, atoms=(*named.atoms, back))
        sent = self.ship(there, source.location, why, keep=set(named.variables))
        return replace(sent, atoms=(*source.atoms, *sent.atoms), carries=carries)

    def way_back(self, source: _Group, target: _Group) -> typed.Atom | None:
        """Return the reverse of ``source``, which leads from ``target`` to it; None unless it is one symmetric atom.

        The reverse swaps the atom's location with the address of the target and has wildcards elsewhere.
        """
        if len(source.atoms) != 1 or not self.program.relation(source.atoms[0].relation).symmetric:
            return None
        atom = source.atoms[0]
        here = self.program.relation(atom.relation).location
        there = next((i for i, t in enumerate(atom.terms) if i != here and self.root(str(t)) == target.location), None)
        if here is None or there is None or not isinstance(atom.terms[here], typed.Variable):
            return None
        terms: list[typed.Term] = [typed.Wildcard(term.type, atom.span) for term in atom.terms]
        terms[here], terms[there] = atom.terms[there], atom.terms[here]
        return replace(atom, terms=tuple(terms))

    # ---- negated literals --------------------------------------------------------------------------------------------

    def visit_negations(self, group: _Group) -> _Group:
        """Send ``group`` from the location of one negated literal to the next; check those at each before leaving it.

        Return the group at its last location, where the remaining negations are to be checked.
        """
        for place in dict.fromkeys(self.place_of(negation.atom) for negation in self.rule.negations):
            if place and not group.location:
                group = replace(group, location=place)
            waiting = [n for n in self.rule.negations if n not in self.checked and self.place_of(n.atom) == place]
            if not waiting or place in ("", group.location):
                continue
            here = [n for n in self.rule.negations if n not in self.checked and self.place_of(n.atom) == group.location]
            absent = listed([f"no {located_literal(n.atom, self.program.relation)}" for n in waiting])
            why = f"only at {place} is it known that there is {absent}"
            group = self.ship(group, place, why, here)
            self.checked += here
        return group

    # ---- sending -----------------------------------------------------------------------------------------------------

    def ship(
        self,
        group: _Group,
        place: str,
        why: str,
        negations: Sequence[typed.Negation] = (),
        keep: set[str] | None = None,
    ) -> _Group:
        """Send the bindings of a group to ``place``; return the group there, which is one auxiliary atom.

        ``negations`` are checked before sending. ``keep`` names the variables to send, by default all.
        """
        if keep is None:
            group = replace(group, atoms=tuple(map(self.named_atom, group.atoms)))
        address = self.address(group, place)
        assert address is not None, (str(self.rule), place)
        target = address.term
        others = [v for v in group.variables.values() if str(v) != str(target) and (keep is None or v.name in keep)]
        terms = (target, *others)
        position = self.sent_whole(group, target) if keep is None and not negations else None
        if position is None:
            relation, part = self.make(group, terms, address.computed, negations)
        else:
            relation, part = self.make_whole(group.atoms[0], terms, position)
        self.parts.append(part)
        self.sends.append(Send(relation.name, group.location, place, group.carries, why))
        return _Group(place, (typed.Atom(relation.name, terms, self.rule.span),), group.carries, group.order)

    def sent_whole(self, group: _Group, wanted: typed.Variable | typed.Constant) -> int | None:
        """Return the address's position if the group is one atom of distinct variables, which rules share, or None."""
        if len(group.atoms) != 1 or not group.carries:
            return None
        names = [term.name for term in group.atoms[0].terms if isinstance(term, typed.Variable)]
        if len(set(names)) < len(group.atoms[0].terms) or str(wanted) not in names:
            return None
        return names.index(str(wanted))

    def make_whole(
        self, atom: typed.Atom, terms: tuple[typed.Variable | typed.Constant, ...], position: int
    ) -> tuple[typed.TypedRelation, typed.TypedRule]:
        """Return the shared relation, and its rule, for tuples of ``atom`` sent to the address at ``position``."""
        key = (atom.relation, position)
        if key not in self.made.shared:
            shipped = self.program.relation(atom.relation)
            of = {str(term): column.name for term, column in zip(atom.terms, shipped.columns, strict=True)}
            name = f"{atom.relation}_at_{shipped.columns[position].name}"
            relation = self.relation(name, [(of[str(term)], term.type) for term in terms])
            self.made.shared[key] = relation, self.part(relation.name, relation, terms, (atom,))
        return self.made.shared[key]

    def make(
        self,
        group: _Group,
        terms: tuple[typed.Variable | typed.Constant, ...],
        computed: Sequence[typed.Assignment],
        negations: Sequence[typed.Negation],
    ) -> tuple[typed.TypedRelation, typed.TypedRule]:
        """Return a new auxiliary relation for the bindings of a group, and its rule.

        Conditions are checked before sending if possible. Those that compute something may raise errors only for
        bindings that satisfy the whole rule, so they wait, unless they guard a value that is computed here.
        """
        needed = self.computable(group, *negations)
        assert needed is not None, str(self.rule)
        bound = {x.variable.name for x in (*needed, *computed)} | set(group.variables)
        conditions: list[typed.Literal] = []
        for literal in self.rule.body:
            if isinstance(literal, typed.Comparison) and literal not in self.checked:
                plain = all(isinstance(x, typed.Variable | typed.Constant) for x in (literal.left, literal.right))
                if (plain or needed or computed) and {v.name for v in typed.variables_of(literal)} <= bound:
                    conditions.append(literal)
        # The last rule repeats equalities, because they tell it that two names are one location.
        self.checked += [x for x in conditions if isinstance(x, typed.Comparison) and x.op != "="]
        assignments = tuple(dict.fromkeys((*needed, *computed)))
        equal_to_address = [x for x in conditions if any(_says(x, made) for made in computed)]
        conditions = [x for x in conditions if x not in equal_to_address]
        names: list[str] = []
        for term in terms:
            names.append(unused(term.name if isinstance(term, typed.Variable) else "address", names))
        types = [(name, term.type) for name, term in zip(names, terms, strict=True)]
        relation = self.relation(re.sub(r"\W+", "_", f"{self.rule.label}_to_{terms[0]}").strip("_"), types)
        label = f"{self.rule.label}_{len(self.sends) + 1}"
        body = (*group.atoms, *_bound_by(group, assignments), *conditions, *negations)
        return relation, self.part(label, relation, terms, body)

    def relation(self, name: str, columns: list[tuple[str, typed.Type]]) -> typed.TypedRelation:
        """Return a new auxiliary relation, located by its first column."""
        relation = typed.TypedRelation(
            unused(name, self.made.names),
            tuple(typed.TypedColumn(name, type_) for name, type_ in columns),
            "derived",
            False,
            self.rule.span,
            location=0,
            declared=False,
            hidden=True,
            why=f"what travels for {self.rule.label}",
        )
        self.made.names.add(relation.name)
        self.made.relations.append(relation)
        return relation

    def part(
        self,
        label: str,
        relation: typed.TypedRelation,
        terms: tuple[typed.Variable | typed.Constant, ...],
        body: tuple[typed.Literal, ...],
    ) -> typed.TypedRule:
        """Return the rule that derives an auxiliary relation."""
        label = unused(label, self.made.labels)
        self.made.labels.add(label)
        head = typed.Head(relation.name, terms, self.rule.span)
        origin = f"sends to @{terms[0]} what {self.rule.label} needs there"
        return typed.TypedRule(label, head, body, self.rule.span, self.rule.text, origin, named=self.rule.named)

    def named_atom(self, atom: typed.Atom) -> typed.Atom:
        """Return the atom with variables for its wildcards, so that different derivations stay different tuples."""
        return replace(atom, terms=tuple(self.named(t) for t in atom.terms))

    def named(self, term: typed.Term) -> typed.Term:
        """Return a fresh variable for a wildcard, and other terms unchanged."""
        return typed.Variable(next(self.fresh), term.type, term.span) if isinstance(term, typed.Wildcard) else term


def _fresh_variables(rule: typed.TypedRule) -> Iterator[str]:
    """Return an iterator over names that no variable of the rule has."""
    used = {t.name for atom in rule.atoms for t in atom.terms if isinstance(t, typed.Variable)}
    used |= {x.variable.name for x in rule.body if isinstance(x, typed.Assignment)}
    return (f"W{number}" for number in count(1) if f"W{number}" not in used)


def _definitions(rule: typed.TypedRule) -> Iterator[typed.Assignment]:
    """Yield the assignments and equalities of a rule, as assignments to their variables."""
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            yield literal
        elif isinstance(literal, typed.Comparison) and literal.op == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(side, typed.Variable):
                    yield typed.Assignment(side, other, literal.span)


def _says(condition: typed.Literal, assignment: typed.Assignment) -> bool:
    """Return whether a condition has the same two sides as an assignment."""
    sides = (assignment.variable, assignment.value)
    return isinstance(condition, typed.Comparison) and {condition.left, condition.right} == set(sides)


def _bound_by(group: _Group, literals: Sequence[typed.Literal]) -> list[typed.Literal]:
    """Return the literals, with assignments to variables that the group already binds turned into comparisons."""
    bound = group.variables
    return [
        typed.Comparison("=", x.variable, x.value, x.span)
        if isinstance(x, typed.Assignment) and x.variable.name in bound
        else x
        for x in literals
    ]
