"""Rewrite every rule into rules whose body lives at one location.

Before::

    r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).

After::

    r2_link_at_dst: link_at_dst(@Z, S) :- link(@S, Z).
    r2: reachable(@S, D) :- link_at_dst(@Z, S), reachable(@Z, D).

This is the general rewrite: the tuple itself travels to where its partner lives. The form of the papers (Nigam et al.
2012, section 2.2), ``aux(@S, Z, D) :- reachable(@Z, D), link(@Z, S)``, follows the link backwards, which equals the
original only where each link has its reverse; it is used for relations declared ``symmetric``.

What travels is chosen on purpose: input relations before derived ones, because they change least. A body with more
locations is rewritten step by step. A negated literal cannot travel (its absence is known at its own location only), so
the bindings of the positive literals are sent to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from ..diagnostics import Diagnostics
from ..ir import typed
from ..ir.localized import LocalizedRule, Program, Send
from ..naming import unused
from .terms import equal_variables, variables_of


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
    """Positive atoms that have been brought together at ``location`` (empty: they live nowhere in particular)."""

    location: str
    atoms: tuple[typed.Atom, ...]
    carries: tuple[str, ...]
    order: int

    @property
    def variables(self) -> dict[str, typed.Variable]:
        """The variables of the atoms, in order."""
        return {t.name: t for atom in self.atoms for t in atom.terms if isinstance(t, typed.Variable)}


class _Localizer:
    """Localizes one rule."""

    def __init__(self, program: typed.Program, rule: typed.Rule, made: _Made, diagnostics: Diagnostics) -> None:
        self.program, self.rule, self.made, self.diagnostics = program, rule, made, diagnostics
        self.same = equal_variables(rule)
        self.sends: list[Send] = []
        self.parts: list[typed.Rule] = []
        self.fresh = _fresh_variables(rule)

    def run(self) -> LocalizedRule:
        """Bring the positive literals together, step by step, then visit the negated ones."""
        head_place = self.place(self.rule.head.relation, self.rule.head.arguments)
        groups = self.groups()
        while len(groups) > 1:
            step = self.cheapest_merge(groups)
            if step is None:
                return self.unlocalized(groups, head_place)
            source, target = step
            merged = self.merge(source, target)
            groups = [merged if group is target else group for group in groups if group is not source]
        group = groups[0] if groups else _Group("", (), (), 0)
        visited: list[typed.Negation] = []
        for place in dict.fromkeys(self.place_of(n.atom) for n in self.rule.negations):
            if group.location and place and place != group.location:
                here = [n for n in self.rule.negations if self.place_of(n.atom) == group.location]
                visited += here
                group = self.ship(group, place, here)
        if self.sends:
            rest = [x for x in self.rule.body if not isinstance(x, typed.Atom) and x not in visited]
            self.parts.append(replace(self.rule, body=(*group.atoms, *_bound_by(group, rest))))
        else:
            self.parts.append(self.rule)
        return LocalizedRule(self.rule, group.location, head_place, tuple(self.sends), tuple(self.parts))

    def unlocalized(self, groups: list[_Group], head_place: str) -> LocalizedRule:
        """The rule as it is, with a warning: its tuples cannot be addressed to each other."""
        places = tuple(f"@{group.location}" for group in groups)
        self.diagnostics.report(
            "W0810",
            f"the tuples at {' and '.join(places)} cannot meet: no literal binds the address of another",
            self.rule.span,
            help="on one cluster the rule is evaluated all the same; to run the locations apart, join them by a literal "
            "that holds both addresses",
        )
        location = groups[0].location
        return LocalizedRule(
            self.rule, location, head_place, (), (self.rule,), tuple(group.location for group in groups[1:])
        )

    def place(self, relation: str, terms: tuple[object, ...]) -> str:
        """Where a tuple of ``relation`` with these terms lives, as it prints; equal variables print alike."""
        declared = self.program.relation(relation)
        if declared.at is not None:
            return str(declared.at)
        if declared.location is None:
            return ""
        text = str(terms[declared.location])
        return self.same.get(text, text)

    def place_of(self, atom: typed.Atom) -> str:
        """Where a body atom's tuples live."""
        return self.place(atom.relation, atom.terms)

    def groups(self) -> list[_Group]:
        """The positive literals by location; those without one join the first group."""
        by_place: dict[str, list[typed.Atom]] = {}
        for atom in self.rule.atoms:
            by_place.setdefault(self.place_of(atom), []).append(atom)
        anywhere = by_place.pop("", [])
        if not by_place:
            return [_Group("", tuple(anywhere), (), 0)] if anywhere else []
        groups = [
            _Group(place, tuple(atoms), tuple(atom.relation for atom in atoms), order)
            for order, (place, atoms) in enumerate(by_place.items())
        ]
        return [replace(groups[0], atoms=(*groups[0].atoms, *anywhere)), *groups[1:]]

    def cheapest_merge(self, groups: list[_Group]) -> tuple[_Group, _Group] | None:
        """Which group to send where: one that knows the other's address, of input relations if possible."""
        possible = [
            (source, target)
            for source in groups
            for target in groups
            if source is not target and self.address(source, target.location) is not None
        ]
        return min(possible, key=lambda pair: (self.derived(pair[0]), pair[0].order, pair[1].order), default=None)

    def derived(self, group: _Group) -> int:
        """How many of the relations in a group are derived, which change more than input relations."""
        return sum(self.program.relation(name).role == "derived" for name in group.carries)

    def address(self, group: _Group, place: str) -> typed.Variable | typed.Constant | None:
        """The term of ``group`` that holds the address ``place``: a variable that equals it, or a constant."""
        for variable in group.variables.values():
            if self.same.get(variable.name, variable.name) == place:
                return variable
        return next((c for c in self.constant_places() if str(c) == place), None)

    def constant_places(self) -> Iterator[typed.Constant]:
        """The constants that say where a literal of the rule lives."""
        for atom in (*self.rule.atoms, *(negation.atom for negation in self.rule.negations)):
            relation = self.program.relation(atom.relation)
            if relation.at is not None:
                yield relation.at
            elif relation.location is not None:
                term = atom.terms[relation.location]
                if isinstance(term, typed.Constant):
                    yield term

    def merge(self, source: _Group, target: _Group) -> _Group:
        """Send ``source`` to ``target``, or, along a symmetric relation, ``target`` to ``source``."""
        if len(source.atoms) == 1 and self.program.relation(source.atoms[0].relation).symmetric:
            back = self.reversed_atom(source.atoms[0], target.location)
            if back is not None:
                there = replace(target, atoms=(*target.atoms, back))
                sent = self.ship(there, source.location, [], set(target.variables))
                return replace(sent, atoms=(*source.atoms, *sent.atoms), carries=(*source.carries, *target.carries))
        sent = self.ship(source, target.location, [])
        return replace(target, atoms=(*sent.atoms, *target.atoms), carries=(*source.carries, *target.carries))

    def reversed_atom(self, atom: typed.Atom, place: str) -> typed.Atom | None:
        """The reverse of an atom of a symmetric relation, its location and ``place`` exchanged, the rest left open."""
        here = self.program.relation(atom.relation).location
        there = next(
            (i for i, t in enumerate(atom.terms) if i != here and self.same.get(str(t), str(t)) == place), None
        )
        if here is None or there is None or not isinstance(atom.terms[here], typed.Variable):
            return None
        terms: list[typed.Term] = [typed.Wildcard(term.type, atom.span) for term in atom.terms]
        terms[here], terms[there] = atom.terms[there], atom.terms[here]
        return replace(atom, terms=tuple(terms))

    def ship(self, group: _Group, place: str, negations: list[typed.Negation], keep: set[str] | None = None) -> _Group:
        """Send the bindings of a group to ``place``; returns the group there, one auxiliary atom.

        ``negations`` are checked before sending. ``keep`` are the variables to send, all by default.
        """
        atoms = tuple(self.named(atom) for atom in group.atoms) if keep is None else group.atoms
        group = replace(group, atoms=atoms)
        wanted = self.address(group, place) or self.assigned_address(place)
        assert wanted is not None, (str(self.rule), place)
        others = [v for v in group.variables.values() if v != wanted and (keep is None or v.name in keep)]
        terms = (wanted, *others)
        whole = len(atoms) == 1 and not negations and keep is None and isinstance(wanted, typed.Variable)
        variables = [term for term in atoms[0].terms if isinstance(term, typed.Variable)] if whole else []
        whole = whole and len({v.name for v in variables}) == len(atoms[0].terms)
        position = next((i for i, t in enumerate(atoms[0].terms) if t == wanted), 0)
        key = (atoms[0].relation, position)
        if whole and key in self.made.shared:
            relation, part = self.made.shared[key]
        else:
            relation, part = self.make(group, terms, negations, position if whole else None)
            if whole:
                self.made.shared[key] = relation, part
        self.parts.append(part)
        carried = tuple(name for name in group.carries)
        self.sends.append(Send(relation.name, group.location, place, carried))
        return _Group(place, (typed.Atom(relation.name, terms, self.rule.span),), carried, group.order)

    def make(
        self,
        group: _Group,
        terms: tuple[typed.Variable | typed.Constant, ...],
        negations: list[typed.Negation],
        position: int | None,
    ) -> tuple[typed.Relation, typed.Rule]:
        """A new auxiliary relation and its rule; ``position`` is the address column if an atom is sent whole."""
        atom = group.atoms[0]
        if position is not None:
            shipped = self.program.relation(atom.relation)
            of = {str(term): column.name for term, column in zip(atom.terms, shipped.columns, strict=True)}
            name = f"{atom.relation}_at_{shipped.columns[position].name}"
            columns = tuple(typed.Column(of[str(term)], term.type) for term in terms)
        else:
            name = f"{self.rule.label}_to_{terms[0] if isinstance(terms[0], typed.Variable) else 'constant'}"
            columns = tuple(typed.Column(t.name if isinstance(t, typed.Variable) else "address", t.type) for t in terms)
        relation = typed.Relation(
            unused(name, self.made.names),
            columns,
            "derived",
            False,
            self.rule.span,
            location=0,
            declared=False,
            hidden=True,
            why=f"what travels for {self.rule.label}",
        )
        self.made.names.add(relation.name)
        label = relation.name if position is not None else f"{self.rule.label}_{len(self.sends) + 1}"
        label = unused(label, self.made.labels)
        self.made.labels.add(label)
        self.made.relations.append(relation)
        needed = _needed_assignments(self.rule, group, [*negations, terms[0]])
        head = typed.Head(relation.name, terms, self.rule.span)
        body = (*group.atoms, *_bound_by(group, needed), *negations)
        origin = f"sends to @{terms[0]} what {self.rule.label} needs there"
        return relation, typed.Rule(label, head, body, self.rule.span, self.rule.text, origin)

    def named(self, atom: typed.Atom) -> typed.Atom:
        """The atom with variables for its wildcards, so that each derivation still has its own tuples."""
        terms = tuple(
            typed.Variable(next(self.fresh), term.type, term.span) if isinstance(term, typed.Wildcard) else term
            for term in atom.terms
        )
        return replace(atom, terms=terms)

    def assigned_address(self, place: str) -> typed.Variable | None:
        """The variable ``place`` if an assignment binds it."""
        return next(
            (x.variable for x in self.rule.body if isinstance(x, typed.Assignment) and x.variable.name == place), None
        )


def _fresh_variables(rule: typed.Rule) -> Iterator[str]:
    """Names that no variable of the rule has."""
    used = {t.name for atom in rule.atoms for t in atom.terms if isinstance(t, typed.Variable)}
    used |= {x.variable.name for x in rule.body if isinstance(x, typed.Assignment)}
    return (f"W{number}" for number in count(1) if f"W{number}" not in used)


def _needed_assignments(rule: typed.Rule, group: _Group, users: list[object]) -> list[typed.Literal]:
    """The assignments that ``users`` (negations or an address) need beyond what the group binds, in order."""
    wanted = {term.name for user in users for term in variables_of(user)} - set(group.variables)
    chosen: list[typed.Literal] = []
    for literal in reversed(rule.body):
        if isinstance(literal, typed.Assignment) and literal.variable.name in wanted:
            chosen.append(literal)
            wanted |= {v.name for v in variables_of(literal.value)} - set(group.variables)
    return chosen[::-1]


def _bound_by(group: _Group, literals: Sequence[typed.Literal]) -> list[typed.Literal]:
    """The literals, an assignment to a variable that the group binds already having become a comparison."""
    bound = group.variables
    return [
        typed.Comparison("=", x.variable, x.value, x.span)
        if isinstance(x, typed.Assignment) and x.variable.name in bound
        else x
        for x in literals
    ]
