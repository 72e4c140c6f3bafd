"""Make a located program the program of each of its nodes.

Before, localized::

    link_at_b: link_at_b(@Z, S) :- link(@S, Z).
    r2: reachable(@S, D) :- link_at_b(@Z, S), reachable(@Z, D).

After (added relations are hidden)::

    link_at_b: link_at_b_sent(Z, S) :- link(S, Z).
    link_at_b_arrives: link_at_b(x1, x2) :- link_at_b_arrived(x1, x2).
    r2: reachable_sent(S, D) :- link_at_b(Z, S), reachable(Z, D).

A relation with a location lives at the node that holds the address, cut by its location. Each literal of a localized
rule is at one location, so every node evaluates the same rules over the tuples that it holds. Heads that belong
elsewhere are sent, only to the node of their address: the least and greatest value of each group, of other aggregates
what they aggregate. Inputs without a location are the same at every node. What arrives in a recursion across nodes is
left for ``annotate_proofs``, since it comes with proofs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ..diagnostics import Diagnostics
from ..graphs import strongly_connected
from ..ir import typed
from ..ir.localized import LocalizedProgram, LocalizedRule
from ..ir.routes import RoutedRelation
from ..ir.spanning import Spanning
from ..naming import unused

ADDRESSES = ("int", "string")
"""The types of addresses."""


def split_nodes(localized: LocalizedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program of a node, with routes and its recursions across nodes; report what nodes cannot run
    (E0740), columns that may be null (E0318), and multisets (E0214)."""
    for relation in localized.program.relations:
        if relation.copies:
            message = f"`{relation.public}` is a multiset, and what a node takes in are sets"
            help = "omit `multiset`, and add a column that tells the copies apart, such as a number"
            diagnostics.report("E0214", message, relation.span, help=help)
        column = next((column for column in relation.columns if column.type.optional and not relation.hidden), None)
        if column is not None:
            message = f"column `{column.name}` of `{relation.name}` may be null, which nodes cannot send each other"
            diagnostics.report("E0318", message, relation.span, help="declare it without `?`")
    splitting = _NodeSplitting(localized, diagnostics)
    splitting.check()
    return localized.program if diagnostics.failed else splitting.program()


class _NodeSplitting:
    """The relations and rules of a node."""

    def __init__(self, localized: LocalizedProgram, diagnostics: Diagnostics) -> None:
        self.before, self.diagnostics = localized, diagnostics
        self.relations = {r.name: r for r in (*localized.program.relations, *localized.auxiliaries)}
        self.rules: list[typed.TypedRule] = []
        self.labels = {part.label for rule in localized.rules for part in rule.parts}
        #: By relation, how its tuples travel, and the hidden relation of those that are sent.
        self.routes: dict[str, RoutedRelation] = {}
        self.sent: dict[str, typed.TypedRelation] = {}
        self.pairs: dict[str, tuple[str, str]] = {}

    def check(self) -> None:
        """Report rules that cannot be localized, relations that are nowhere, addresses without text, and keys
        without address."""
        for rule in self.before.rules:
            projections = (self.relations[negation.atom.relation] for negation in rule.rule.negations)
            # What is negated at all locations is reported with the relation.
            if rule.broadcast and all(r.projects is None or r.location is not None for r in projections):
                message = f"`{rule.rule.label}` reads several locations, and no literal has the address of the others"
                help = "join the locations by a literal that has both addresses"
                self.diagnostics.report("E0740", message, rule.rule.span, help=help)
        everywhere, chosen = self.everywhere(), self.check_addresses()
        for relation in self.relations.values():
            if relation.part_of in chosen:
                continue
            if relation.location is not None:
                kind = relation.columns[relation.location].type
                if kind.name not in ADDRESSES and relation.name not in chosen:
                    message = f"the address of `{relation.name}` is of type `{kind}`"
                    help = f"addresses of nodes are of type {' or '.join(ADDRESSES)}"
                    self.diagnostics.report("E0740", message, relation.span, help=help)
                if relation.key and relation.location not in relation.key:
                    address = relation.columns[relation.location].name
                    message = f"two nodes may have tuples of `{relation.name}` with the same primary key"
                    help = f"add its address to the key: `{address}`"
                    self.diagnostics.report("E0740", message, relation.span, help=help)
            elif relation.at is None and relation.role == "derived" and relation.name not in everywhere:
                # Of a projection for a negation, the program has the relation that is negated.
                name = relation.projects[0] if relation.projects else relation.part_of or relation.name
                message = f"`{name}` has no location, so it belongs to no node"
                help = "mark the column with its address by `@`"
                if relation.projects:
                    message = f"no node knows that `{name}` has no such tuple at any location"
                    help = "negate it at one location, which another literal binds"
                self.diagnostics.report("E0740", message, relation.span, help=help)

    def check_addresses(self) -> set[str]:
        """Report addresses that aggregates compute or choose, for which no node has all tuples of a group; return the
        relations with such addresses."""
        addressed: set[str] = set()
        for relation in self.relations.values():
            heads = [rule.head for rule in relation.written or self.before.program.rules_of(relation.name)]
            if relation.location is None or relation.part_of or not heads:
                continue
            head, address = heads[0], heads[0].arguments[relation.location]
            if isinstance(address, typed.Aggregate):
                message = f"the address of `{relation.name}` is `{address}`, so no node has all that it aggregates"
                help = "derive it in a relation with another address, and from that this one by another rule"
            elif relation.location in relation.witnesses:
                does = "ranks" if head.ranked else "chooses from"
                message = f"the tuples that `{relation.name}` {does} are at different nodes"
                function = next(a.function for a in head.arguments if isinstance(a, typed.Aggregate))
                help = f"write the address before `{function}`, so that all tuples of a group are at one node"
            else:
                continue
            self.diagnostics.report("E0740", message, head.span, help=help)
            addressed.add(relation.name)
        return addressed

    def everywhere(self) -> set[str]:
        """Return the relations without location that every node can derive from inputs that all have."""
        names = {r.name for r in self.relations.values() if r.role == "input" and r.location is None and r.at is None}
        before = -1
        while before != len(names):
            before = len(names)
            for relation in self.relations.values():
                rules = self.before.program.rules_of(relation.name)
                nowhere = relation.location is None and relation.at is None and relation.role == "derived"
                if nowhere and all(atom.relation in names for rule in rules for atom in rule.read):
                    names.add(relation.name)
        return names

    def program(self) -> typed.TypedProgram:
        """Return the program of a node."""
        done: set[str] = set()
        crossing: set[str] = set()
        for rule in self.before.rules:
            for part in rule.parts:
                remote = is_remote(rule, part, self.relations[part.head.relation])
                crossing |= {rule.rule.head.relation} if remote else set()
                if part.label not in done:
                    done.add(part.label)
                    self.add(part, remote)
        spanning = tuple(self.with_values(part) for part in self.recursions())
        recursive = frozenset[str]().union(*(part.arriving for part in spanning))
        relations: list[typed.TypedRelation] = []
        for relation in self.relations.values():
            route = self.routes.get(relation.name)
            if route:
                relations.append(self.sent[relation.name])
            if route and relation.name in recursive:
                self.routes[relation.name] = replace(route, arrived=relation.name)
            elif route:
                relations.append(self.hidden(route.arrived, relation, role="input"))
                self.arrives(relation)
            relations.append(relation)
        return replace(
            self.before.program,
            relations=tuple(self.explained(relations, crossing)),
            rules=tuple(self.rules),
            routes=tuple(self.routes.values()),
            spanning=spanning,
        )

    def explained(self, relations: Sequence[typed.TypedRelation], crossing: set[str]) -> Iterator[typed.TypedRelation]:
        """Yield relations. Those that split_aggregates split, and whose rules are ``crossing`` from node to node, are
        explained by their parts, since no node has all that the rules as written read."""
        parts: dict[str, set[str]] = {}
        for relation in relations:
            parts.setdefault(relation.part_of, {relation.part_of}).add(relation.name)
        split = {r.name for r in relations if r.written and not crossing.isdisjoint(parts[r.name])}
        chosen = frozenset[str]().union(*(parts[r.name] for r in relations if r.name in split and r.witnesses))
        aggregated = {rule.head.relation for rule in self.before.program.rules if rule.aggregates}
        extrema = self.with_copies(aggregated & chosen)
        by_head = typed.rules_by_head(self.rules)
        for relation in relations:
            rules = by_head.get(relation.name, ())
            if relation.name in split:
                rules = (self.as_written(relation, rules[0]),)
            elif relation.name in extrema or all(atom.relation not in extrema for rule in rules for atom in rule.atoms):
                rules = ()
            if rules:
                relation = replace(relation, written=tuple(without(rule, extrema) for rule in rules))
            yield replace(relation, part_of="") if relation.part_of in split else relation

    def with_copies(self, names: set[str]) -> set[str]:
        """Return the names of some relations with those of all that is derived from these alone."""
        before = -1
        while before != len(names):
            before = len(names)
            for rule in self.rules:
                if rule.atoms and all(atom.relation in names for atom in rule.atoms):
                    names = {*names, *self.pair(rule.head.relation)}
        return names

    def as_written(self, relation: typed.TypedRelation, rule: typed.TypedRule) -> typed.TypedRule:
        """Return the rule of a relation, which reads its parts or what arrives, with the aggregates of the rules as
        written and, if it reads the parts, with their text."""
        arguments = tuple(
            replace(aggregate, argument=argument)
            if isinstance(aggregate, typed.Aggregate) and not isinstance(argument, typed.Aggregate)
            else argument
            for aggregate, argument in zip(relation.written[0].head.arguments, rule.head.arguments, strict=True)
        )
        head = replace(rule.head, arguments=arguments)
        if relation.name in self.routes:
            return replace(rule, head=head)
        if len(relation.written) == 1:
            return replace(relation.written[0], head=head, body=rule.body)
        return replace(rule, head=head, text="\n".join(one.text for one in relation.written))

    def add(self, rule: typed.TypedRule, remote: bool) -> None:
        """Add a rule; what it derives is sent if it is ``remote``."""
        relation = self.relations[rule.head.relation]
        if not remote:
            self.rules.append(rule)
            return
        if any(aggregate.function not in ("min", "max") for aggregate in rule.aggregates):
            rule = self.bindings(rule, relation)
            relation = self.relations[rule.head.relation]
        if relation.name not in self.routes:
            names = {*self.relations, *(name for route in self.routes.values() for name in (route.sent, route.arrived))}
            base = relation.name
            while f"{base}_sent" in names or f"{base}_arrived" in names:
                base += "_"
            self.routes[relation.name] = RoutedRelation(
                relation.name, f"{base}_sent", f"{base}_arrived", relation.location, relation.at
            )
            self.sent[relation.name] = self.hidden(f"{base}_sent", relation, output=True)
            self.pairs |= dict.fromkeys((relation.name, f"{base}_sent"), (relation.name, f"{base}_sent"))
        head = replace(rule.head, relation=self.sent[relation.name].name)
        self.rules.append(replace(rule, head=head, origin=rule.origin or "sent to the node of its address"))

    def pair(self, name: str) -> tuple[str, str]:
        """Return the names of a relation and of what is sent of it, given one of the two; the same if nothing is."""
        return self.pairs.get(name, (name, name))

    def hidden(self, name: str, relation: typed.TypedRelation, **options: object) -> typed.TypedRelation:
        """Return the hidden relation of the tuples of ``relation`` that are sent, or have arrived."""
        return typed.TypedRelation(
            name,
            relation.columns,
            **{  # type: ignore[arg-type]
                "role": "derived",
                "output": False,
                "span": relation.span,
                "declared": False,
                "hidden": True,
                "witnesses": relation.witnesses,
                "why": f"tuples of {relation.name} {'from all nodes' if 'role' in options else 'for their nodes'}",
                **options,
            },
        )

    def bindings(self, rule: typed.TypedRule, relation: typed.TypedRelation) -> typed.TypedRule:
        """Return the rule that derives the bindings of a rule with an aggregate, which is evaluated where they go."""
        span = rule.span
        rule = with_names(rule)
        bound = {variable.name: variable for variable in typed.variables_of(rule)}
        address: typed.Expression | typed.Aggregate | None = relation.at
        if relation.location is not None:
            address = rule.head.arguments[relation.location]
        assert address is not None and not isinstance(address, typed.Aggregate)
        term = address
        if not isinstance(term, typed.Variable | typed.Constant):
            term = typed.Variable(unused("address", bound), address.type, address.span)
            arguments = (term if at == relation.location else a for at, a in enumerate(rule.head.arguments))
            rule = replace(rule, head=replace(rule.head, arguments=tuple(arguments)))
        others = [v for v in bound.values() if not isinstance(address, typed.Variable) or v.name != address.name]
        names: list[str] = []
        for wish in ["address", *(variable.name for variable in others)]:
            names.append(unused(wish, names))
        binding = typed.TypedRelation(
            unused(f"{rule.label}_values", self.relations),
            tuple(typed.TypedColumn(n, t.type) for n, t in zip(names, (address, *others), strict=True)),
            "derived",
            False,
            span,
            location=0,
            declared=False,
            hidden=True,
            why=f"what {rule.label} aggregates",
        )
        self.relations[binding.name] = binding
        label = unused(f"{rule.label}_values", self.labels)
        self.labels.add(label)
        read = typed.Atom(binding.name, (term, *others), span)
        self.rules.append(replace(rule, body=(read,), origin="at the node of its address"))
        head = typed.Head(binding.name, (address, *others), span)
        return replace(rule, label=label, head=head, origin="sends what is aggregated")

    def recursions(self) -> tuple[Spanning, ...]:
        """Return the recursions that go through other nodes."""
        names = [*self.relations, *(sent.name for sent in self.sent.values())]
        reads: dict[str, list[str]] = {name: [] for name in names}
        for rule in self.rules:
            reads[rule.head.relation] += [atom.relation for atom in rule.read]
        for name, sent in self.sent.items():
            reads[name].append(sent.name)
        taken_names, parts = set(names), []
        for members in strongly_connected(names, reads):
            arriving = frozenset(name for name, sent in self.sent.items() if sent.name in members)
            if len(members) > 1 and arriving:
                told, heard = (unused(name, taken_names) for name in ("dead", "dead_elsewhere"))
                taken_names |= {told, heard}
                extremal = {rule.head.relation for rule in self.rules if rule.aggregates}
                parts.append(
                    Spanning(frozenset(members), extremal.intersection(members), told, (heard,), arriving)  # type: ignore[arg-type]
                )
        return tuple(parts)

    def with_values(self, part: Spanning) -> Spanning:
        """Return a recursion in which what is sent of the least or greatest values of groups, to be joined elsewhere,
        are such values too, one for each group of all else that is sent."""
        extremal, before = set(part.extremal), -1
        while before != len(extremal):
            before = len(extremal)
            for place, rule in enumerate(self.rules):
                name = rule.head.relation
                relation, sent = self.pair(name)
                if name not in part.members or rule.aggregates or relation == sent or name != sent:
                    continue
                values = {v for atom in rule.atoms if atom.relation in extremal for v in self.values(atom)}
                if len(values) != 1:
                    continue
                ((function, value, witnesses),) = values
                arguments = tuple(
                    typed.Aggregate(function, a, a.type, rule.span)
                    if isinstance(a, typed.Variable) and a.name == value
                    else a
                    for a in rule.head.arguments
                )
                if arguments != rule.head.arguments:
                    self.rules[place] = replace(rule, head=replace(rule.head, arguments=arguments))
                    extremal |= {name, relation}
                    beside = tuple(place for place, a in enumerate(arguments) if str(a) in witnesses)
                    self.sent[relation] = replace(self.sent[relation], witnesses=beside)
                    self.relations[relation] = replace(self.relations[relation], witnesses=beside)
        return self.with_columns(replace(part, extremal=frozenset(extremal)))

    def with_columns(self, part: Spanning) -> Spanning:
        """Return a recursion with the columns of its extremal values and of their witnesses."""
        values: set[tuple[str, int]] = set()
        witnesses: set[tuple[str, int]] = set()
        for rule in self.rules:
            if rule.head.relation in part.extremal and rule.aggregates:
                pair = self.pair(rule.head.relation)
                places = [at for at, a in enumerate(rule.head.arguments) if isinstance(a, typed.Aggregate)]
                for name in pair:
                    values |= {(name, place) for place in places}
                    witnesses |= {(name, place) for place in self.relations[pair[0]].witnesses}
        return replace(part, values=frozenset(values), witnesses=frozenset(witnesses))

    def values(self, atom: typed.Atom) -> list[tuple[str, str, frozenset[str]]]:
        """Return the function and the variable of each extremum that a literal reads, and those of its witnesses."""
        names = self.pair(atom.relation)
        head = next(rule.head for rule in self.rules if rule.head.relation in names and rule.aggregates)
        witnesses = frozenset(str(atom.terms[place]) for place in self.relations[atom.relation].witnesses)
        return [
            (argument.function, str(term), witnesses)
            for argument, term in zip(head.arguments, atom.terms, strict=True)
            if isinstance(argument, typed.Aggregate)
        ]

    def arrives(self, relation: typed.TypedRelation) -> None:
        """Add the rule that takes in what has arrived, the best values of groups if the relation has such."""
        rules = [rule for rule in self.rules if rule.head.relation == self.sent[relation.name].name]
        variables = tuple(
            typed.Variable(f"x{number}", column.type, relation.span)
            for number, column in enumerate(relation.columns, 1)
        )
        arguments = tuple(
            replace(argument, argument=variable) if isinstance(argument, typed.Aggregate) else variable
            for argument, variable in zip(rules[0].head.arguments, variables, strict=True)
        )
        label = unused(f"{relation.name}_arrives", self.labels)
        self.labels.add(label)
        body = (typed.Atom(self.routes[relation.name].arrived, variables, relation.span),)
        head = typed.Head(relation.name, arguments, relation.span)
        text = f"{relation.name} from all nodes"
        self.rules.append(typed.TypedRule(label, head, body, relation.span, text, "takes what has arrived"))


def is_remote(rule: LocalizedRule, part: typed.TypedRule, head: typed.TypedRelation) -> bool:
    """Return whether the head of a part of a rule may belong to another node than its body."""
    if part is not rule.parts[-1]:
        return True
    located = head.location is not None or head.at is not None
    return located and rule.location != rule.head_location


def without(rule: typed.TypedRule, extrema: Collection[str]) -> typed.TypedRule:
    """Return a rule without the atoms of ``extrema``, for explanations: of a tuple that is there, the value is the
    extremum. Comparisons with variables that only these atoms bind become assignments again."""
    body = [x for x in rule.body if not (isinstance(x, typed.Atom) and x.relation in extrema)]
    bound = {variable.name for x in body if isinstance(x, typed.Atom) for variable in typed.variables_of(x)}
    for place, x in enumerate(body):
        match x:
            case typed.Comparison("=", typed.Variable(name) as variable) if name not in bound:
                body[place] = typed.Assignment(variable, x.right, x.span)
                bound.add(name)
            case typed.Assignment():
                bound.add(x.variable.name)
    return replace(rule, body=tuple(body))


def with_names(rule: typed.TypedRule) -> typed.TypedRule:
    """Return a rule with variables for the wildcards of its positive literals, since each match is a derivation."""
    names = {variable.name for variable in typed.variables_of(rule)}
    body: list[typed.Literal] = []
    for literal in rule.body:
        if isinstance(literal, typed.Atom):
            terms: list[typed.Term] = []
            for term in literal.terms:
                if isinstance(term, typed.Wildcard):
                    term = typed.Variable(unused("W1", names), term.type, term.span)
                    names.add(term.name)
                terms.append(term)
            literal = replace(literal, terms=tuple(terms))
        body.append(literal)
    return replace(rule, body=tuple(body))
