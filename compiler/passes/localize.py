"""Rewrite every rule into rules whose body lives at one location.

Before::

    r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).

After::

    link_at_dst: link_at_dst(@Z, S) :- link(@S, Z).
    r2: reachable(@S, D) :- link_at_dst(@Z, S), reachable(@Z, D).

This is the general rewrite: the tuple itself travels to where its partner lives. The form of the papers (Nigam et al.
2012, section 2.2), ``aux(@S, Z, D) :- reachable(@Z, D), link(@Z, S)``, follows the link backwards, which equals the
original only where each link has its reverse; it is used for relations declared ``symmetric``.

What travels is chosen on purpose: input relations before derived ones, because they change least. A body with more
locations is rewritten step by step. A negated literal cannot travel (its absence is known at its own location only), so
the bindings of the positive literals are sent to it. What is sent keeps all variables and has one for each wildcard, so
that a rule has as many derivations as before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from ..diagnostics import Diagnostics, listed
from ..ir import typed
from ..ir.localized import LocalizedRule, Program, Send, located_literal
from ..naming import unused
from .terms import equal_variables


def localize(program: typed.Program, diagnostics: Diagnostics) -> Program:
    """Return the localized program; warn (W0810) where no literal binds the address to send to."""
    made = _Made(program)
    rules = tuple(_Localizer(program, rule, made, diagnostics).run() for rule in program.rules)
    return Program(program, rules, tuple(made.relations))


class _Made:
    """The auxiliary relations of a program; those that ship an input's tuples whole are shared between rules."""

    def __init__(self, program: typed.Program) -> None:
        self.names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.relations: list[typed.Relation] = []
        self.shared: dict[tuple[str, int], tuple[typed.Relation, typed.Rule]] = {}


@dataclass(frozen=True)
class _Group:
    """Positive atoms that have been brought together at ``location`` (empty: they live nowhere in particular).

    ``carries`` are the relations of the program whose tuples are in it, ``order`` is its place in the body.
    """

    location: str
    atoms: tuple[typed.Atom, ...]
    carries: tuple[str, ...]
    order: int

    @property
    def variables(self) -> dict[str, typed.Variable]:
        """The variables of the atoms, in order."""
        return {t.name: t for atom in self.atoms for t in atom.terms if isinstance(t, typed.Variable)}


@dataclass(frozen=True)
class _Address:
    """Where to send: a term, and the assignments that compute it from what the sender has."""

    term: typed.Variable | typed.Constant
    computed: tuple[typed.Assignment, ...] = ()


class _Localizer:
    """Localizes one rule."""

    def __init__(self, program: typed.Program, rule: typed.Rule, made: _Made, diagnostics: Diagnostics) -> None:
        self.program, self.rule, self.made, self.diagnostics = program, rule, made, diagnostics
        self.same = equal_variables(rule)
        self.sends: list[Send] = []
        self.parts: list[typed.Rule] = []
        self.checked: list[typed.Literal] = []
        self.fresh = _fresh_variables(rule)

    def run(self) -> LocalizedRule:
        """Bring the positive literals together, step by step, then visit the negated ones."""
        head_place = self.place(self.rule.head.relation, self.rule.head.arguments)
        groups = {group.location: group for group in self.groups()}
        meetings = self.meetings(tuple(groups.values()), set())
        if meetings is None:
            return self.unlocalized(tuple(groups.values()), head_place)
        for source, target, why in meetings:
            met = self.meet(groups.pop(source), groups.pop(target), why)
            groups[met.location] = met
        group = self.visit_negations(next(iter(groups.values()), _Group("", (), (), 0)))
        if not self.sends:
            # A location that the rule leaves open has got a variable here, which nobody else has seen.
            known = group.location if group.location in self.places() else "_"
            return LocalizedRule(self.rule, known if group.location else "", head_place, (), (self.rule,))
        rest = [x for x in self.rule.body if not isinstance(x, typed.Atom) and x not in self.checked]
        self.parts.append(replace(self.rule, body=(*group.atoms, *_bound_by(group, rest))))
        return LocalizedRule(self.rule, group.location, head_place, tuple(self.sends), tuple(self.parts))

    def unlocalized(self, groups: tuple[_Group, ...], head_place: str) -> LocalizedRule:
        """The rule as it is, with a warning: its tuples cannot be addressed to each other."""
        places = tuple(group.location if group.location in self.places() else "_" for group in groups)
        self.diagnostics.report(
            "W0810",
            f"{listed([f'`{self.shown(group)}`' for group in groups])} live apart and no literal brings them together",
            self.rule.span,
            help="on one cluster the rule is evaluated all the same; to run the locations apart, join them by a "
            "literal that holds both addresses",
        )
        return LocalizedRule(self.rule, places[0], head_place, (), (self.rule,), places[1:])

    # ---- places and addresses ----------------------------------------------------------------------------------------

    def place(self, relation: str, terms: Sequence[object]) -> str:
        """Where a tuple of ``relation`` with these terms lives, as it prints; equal variables print alike."""
        declared = self.program.relation(relation)
        if declared.at is not None:
            return self.root(str(declared.at))
        if declared.location is None:
            return ""
        return self.root(str(terms[declared.location]))

    def root(self, text: str) -> str:
        """One text for all variables and constants that the rule equates."""
        return self.same.get(text, text)

    def place_of(self, atom: typed.Atom) -> str:
        """Where a body atom's tuples live."""
        return self.place(atom.relation, atom.terms)

    def places(self) -> set[str]:
        """Where the literals of the rule live, as they are written."""
        return {self.place_of(literal) for literal in self.rule.read}

    def address(self, group: _Group, place: str) -> _Address | None:
        """How ``group`` knows the address ``place``: it holds it, it is a constant, or it can be computed."""
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

    def computable(self, group: _Group, *users: object) -> list[typed.Assignment] | None:
        """The assignments by which ``group`` has all variables of ``users``; None if it cannot have them."""
        wanted = {v.name for user in users for v in typed.variables_of(user)} - set(group.variables)
        chosen: list[typed.Assignment] = []
        for literal in reversed(self.rule.body):
            if isinstance(literal, typed.Assignment) and literal.variable.name in wanted:
                chosen.append(literal)
                wanted.remove(literal.variable.name)
                wanted |= {v.name for v in typed.variables_of(literal.value)} - set(group.variables)
        return None if wanted else chosen[::-1]

    def constants(self) -> Iterator[typed.Constant]:
        """The constants that say where a literal of the rule lives."""
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
        """The positive literals by location; those without one join the first group."""
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
        """The atom with a variable of its own for a location that the rule leaves open."""
        location = self.program.relation(atom.relation).location
        if location is None or not isinstance(atom.terms[location], typed.Wildcard):
            return atom
        return replace(atom, terms=tuple(self.named(t) if i == location else t for i, t in enumerate(atom.terms)))

    def meetings(
        self, groups: tuple[_Group, ...], hopeless: set[frozenset[tuple[str, frozenset[typed.Atom]]]]
    ) -> list[tuple[str, str, str]] | None:
        """In which order to bring the groups together: the locations of who travels and of whom it meets, and why.

        Tries the cheapest step first. None if there is no way; ``hopeless`` are sets of groups known to have none.
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
            found = self.meetings(rest, hopeless)
            if found is not None:
                return [(source.location, target.location, self.why(source, target, possible)), *found]
        hopeless.add(key)
        return None

    def derived(self, group: _Group) -> int:
        """How many of the relations in a group are derived, which change more than input relations."""
        return sum(self.program.relation(name).role == "derived" for name in group.carries)

    def why(self, source: _Group, target: _Group, possible: list[tuple[_Group, _Group]]) -> str:
        """Why ``source`` travels to ``target``, or the other way where there is a way back."""
        ours, theirs = self.shown(source), self.shown(target)
        if self.way_back(source, target):
            return f"{source.carries[0]} is symmetric, so what lives at {target.location} finds its way back along it"
        if (target, source) not in possible:
            know, do = "s" * (" and " not in ours), "does" if " and " not in theirs else "do"
            return f"{ours} know{know} the address {target.location}, and {theirs} {do} not know {source.location}"
        if self.derived(source) < self.derived(target):
            return f"each knows the other's address, and {ours} is input, which changes less than what is derived"
        return f"each knows the other's address, and {ours} is first"

    def shown(self, group: _Group) -> str:
        """What is in a group, for people."""
        if any(self.place_of(atom) not in ("", group.location) for atom in group.atoms):
            return f"what has met at {group.location}"
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
        """Send ``source`` to ``target``, or, along a symmetric relation, ``target`` to ``source``."""
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
        """If ``source`` is an atom of a symmetric relation: its reverse, which leads from ``target`` to it.

        Its location and the address of the target are exchanged, the rest is left open.
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
        """Send ``group`` from one negated literal to the next, those at one location checked before it leaves.

        Returns the group at its last location, where what has not been checked is left to be checked.
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
        """Send the bindings of a group to ``place``; returns the group there, one auxiliary atom.

        ``negations`` are checked before sending. ``keep`` are the variables to send, all by default.
        """
        if keep is None:
            group = replace(group, atoms=tuple(map(self.named_atom, group.atoms)))
        address = self.address(group, place)
        assert address is not None, (str(self.rule), place)
        wanted = address.term
        others = [v for v in group.variables.values() if str(v) != str(wanted) and (keep is None or v.name in keep)]
        terms = (wanted, *others)
        position = self.sent_whole(group, wanted) if keep is None and not negations else None
        if position is None:
            relation, part = self.make(group, terms, address.computed, negations)
        else:
            relation, part = self.make_whole(group.atoms[0], terms, position)
        self.parts.append(part)
        self.sends.append(Send(relation.name, group.location, place, group.carries, why))
        return _Group(place, (typed.Atom(relation.name, terms, self.rule.span),), group.carries, group.order)

    def sent_whole(self, group: _Group, wanted: typed.Variable | typed.Constant) -> int | None:
        """If the group is one atom of different variables, the one that is the address; other rules may send it too."""
        if len(group.atoms) != 1 or not group.carries:
            return None
        names = [term.name for term in group.atoms[0].terms if isinstance(term, typed.Variable)]
        if len(set(names)) < len(group.atoms[0].terms) or str(wanted) not in names:
            return None
        return names.index(str(wanted))

    def make_whole(
        self, atom: typed.Atom, terms: tuple[typed.Variable | typed.Constant, ...], position: int
    ) -> tuple[typed.Relation, typed.Rule]:
        """The auxiliary relation for the tuples of ``atom``, sent to the address at ``position``, and its rule."""
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
    ) -> tuple[typed.Relation, typed.Rule]:
        """An auxiliary relation for the bindings of a group, and its rule.

        Conditions that can be checked before sending are. Those that compute something may only fail on bindings that
        the whole rule has, so they wait, unless they guard something that is computed here.
        """
        needed = self.computable(group, *negations)
        assert needed is not None, str(self.rule)
        known = {x.variable.name for x in (*needed, *computed)} | set(group.variables)
        conditions: list[typed.Literal] = []
        for literal in self.rule.body:
            if isinstance(literal, typed.Comparison) and literal not in self.checked:
                plain = all(isinstance(x, typed.Variable | typed.Constant) for x in (literal.left, literal.right))
                if (plain or needed or computed) and {v.name for v in typed.variables_of(literal)} <= known:
                    conditions.append(literal)
        # Equalities are checked again at the end: they say there that two names are one location.
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

    def relation(self, name: str, columns: list[tuple[str, typed.Type]]) -> typed.Relation:
        """A new auxiliary relation, located by its first column."""
        relation = typed.Relation(
            unused(name, self.made.names),
            tuple(typed.Column(name, type_) for name, type_ in columns),
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
        relation: typed.Relation,
        terms: tuple[typed.Variable | typed.Constant, ...],
        body: tuple[typed.Literal, ...],
    ) -> typed.Rule:
        """The rule of an auxiliary relation."""
        label = unused(label, self.made.labels)
        self.made.labels.add(label)
        head = typed.Head(relation.name, terms, self.rule.span)
        origin = f"sends to @{terms[0]} what {self.rule.label} needs there"
        return typed.Rule(label, head, body, self.rule.span, self.rule.text, origin)

    def named_atom(self, atom: typed.Atom) -> typed.Atom:
        """The atom with variables for its wildcards, so that each derivation still has its own tuples."""
        return replace(atom, terms=tuple(self.named(t) for t in atom.terms))

    def named(self, term: typed.Term) -> typed.Term:
        """A new variable for a wildcard; another term as it is."""
        return typed.Variable(next(self.fresh), term.type, term.span) if isinstance(term, typed.Wildcard) else term


def _fresh_variables(rule: typed.Rule) -> Iterator[str]:
    """Names that no variable of the rule has."""
    used = {t.name for atom in rule.atoms for t in atom.terms if isinstance(t, typed.Variable)}
    used |= {x.variable.name for x in rule.body if isinstance(x, typed.Assignment)}
    return (f"W{number}" for number in count(1) if f"W{number}" not in used)


def _definitions(rule: typed.Rule) -> Iterator[typed.Assignment]:
    """What the rule says that variables are equal to."""
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            yield literal
        elif isinstance(literal, typed.Comparison) and literal.op == "=":
            for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(side, typed.Variable):
                    yield typed.Assignment(side, other, literal.span)


def _says(condition: typed.Literal, assignment: typed.Assignment) -> bool:
    """Whether a condition says the same as an assignment."""
    sides = (assignment.variable, assignment.value)
    return isinstance(condition, typed.Comparison) and {condition.left, condition.right} == set(sides)


def _bound_by(group: _Group, literals: Sequence[typed.Literal]) -> list[typed.Literal]:
    """The literals, an assignment to a variable that the group binds already having become a comparison."""
    bound = group.variables
    return [
        typed.Comparison("=", x.variable, x.value, x.span)
        if isinstance(x, typed.Assignment) and x.variable.name in bound
        else x
        for x in literals
    ]
