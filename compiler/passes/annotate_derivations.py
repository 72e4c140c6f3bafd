"""Annotate the tuples of recursive relations with their derivations (Nigam et al. 2012, section 5).

Before::

    r1: reachable(S, D) :- link(S, D).
    r2: reachable(S, D) :- link(S, Z), reachable(Z, D).

After, abridged (``reachable_entries`` is hidden; "link(S,Z)" stands for the text of that fact)::

    r1: reachable_entries(S, D, derivation, infinite) :-
        link(S, D), derivation = set_of(["link(S,D)"]), infinite = [].
    r2: reachable_entries(S, D, derivation, infinite) :-
        link(S, Z), reachable_entries(Z, D, set, inf),
        derivation = set_of(concat(["link(S,Z)", "reachable(Z,D)"], set)),
        in_set(inf, "reachable(S,D)") = false,
        infinite = pick(inf, concat(["link(S,Z)", "reachable(Z,D)"], set), "reachable(S,D)").
    reachable_entry: reachable(x1, x2) :- reachable_entries(x1, x2, _, _).

An entry (p, S, H) is a fact p with its derivation set S, which contains all facts that p was derived from, and its
infinite-count set H, which contains those of them that lie on a cycle of the derivation. The fire rule takes the union
of the sets of the body; it does not fire if H contains the head. The pick rule adds the head to H if S contains it. A
derivation therefore goes round a cycle only once. Entries are derived from smaller entries only, so their derivations
can be counted in whatever order they arrive.

The sets represent a fact as text: the name of its relation and its values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import reduce

from ..diagnostics import Diagnostics
from ..functions import FUNCTIONS
from ..ir import typed
from ..naming import unused
from ..source import Span
from .components import between, components, is_recursive
from .warn_invention import inventions

SET = typed.list_of(typed.STRING)

UNION, HOLDS, PICK = "set_of", "in_set", "pick"
"""Functions for generated rules: the sorted, distinct elements of a list; whether a set contains a fact; and a set,
extended by a fact if a list contains that fact."""

_HELP = "maintain it with ranks: leave out `--recursion derivation-sets`"
_SPANNING = "a recursion over several processes is maintained with derivation sets; derive this in one process"


def annotate_derivations(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with entries for its recursions, unless ``recursion`` is ``ranks``. Report E0504 for those
    that aggregate, compute values or have columns without text.

    In a spanning recursion, the process reads the entries of others as inputs and outputs its own; what nodes send each
    other is taken by a rule, as if it were derived there. Recursions through negation are left for ``stratify``.
    """
    if program.recursion == "ranks":
        return program
    spanning = [between(program, part.members) for part in program.spanning]
    in_spanning = frozenset[str]().union(*spanning)
    groups = [*spanning, *(frozenset(members) for members in components(program) if in_spanning.isdisjoint(members))]
    for members in groups:
        rules = [rule for rule in program.rules if rule.head.relation in members]
        negates = any(negation.atom.relation in members for rule in rules for negation in rule.negations)
        aggregates = [aggregate for rule in rules for aggregate in rule.aggregates]
        recursive = members in spanning or is_recursive(rules, members)
        if not recursive or negates:
            continue
        help = _SPANNING if members in spanning else _HELP
        if _refused(program, rules, members, aggregates, help, diagnostics):
            continue
        arriving = frozenset[str]().union(*(part.arriving for part in program.spanning)) & members
        program = _Annotation(program, members, members in spanning, arriving).program()
    return program


def _refused(
    program: typed.TypedProgram,
    rules: list[typed.TypedRule],
    members: frozenset[str],
    aggregates: list[typed.Aggregate],
    help: str,
    diagnostics: Diagnostics,
) -> bool:
    """Report what derivation sets do not support (E0504); return whether anything was reported."""
    problems: list[tuple[str, Span]] = [
        (f"derivation sets do not cover a recursion by `{aggregate.function}`", aggregate.span)
        for aggregate in aggregates
    ]
    for rule in rules if not aggregates else ():
        problems += [
            (f"derivation sets do not cover a recursion that computes `{value}` from its own tuples", span)
            for _, value, span in inventions(rule, members)
        ]
        for atom in rule.atoms:
            for column in program.relation(atom.relation).columns:
                if text_of(typed.Variable("", column.type, rule.span)) is None:
                    message = f"a derivation set cannot name `{atom.relation}`, whose column `{column.name}` is of type"
                    problems.append((f"{message} `{column.type}`", atom.span))
                    break
    for message, span in problems:
        diagnostics.report("E0504", message, span, help=help)
    return bool(problems)


class _Annotation:
    """A rewrite of one program that adds entries for the relations ``members`` of one recursion. Those that are
    ``arriving`` are derived here and also come from other nodes."""

    def __init__(
        self, program: typed.TypedProgram, members: frozenset[str], spanning: bool, arriving: frozenset[str]
    ) -> None:
        self.before = program
        self.members = members
        names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.entries: dict[str, typed.TypedRelation] = {}
        sent = {route.sent for route in program.routes}
        for relation in program.relations:
            if relation.name in members:
                # Nodes send what they have sent relations for, processes what they export.
                shown = relation.output and spanning and (not sent or relation.name in sent)
                entries = entries_of(relation, names, shown)
                names.add(entries.name)
                self.entries[relation.name] = entries
        #: By arriving relation, its entries as other nodes have sent them.
        self.received: dict[str, typed.TypedRelation] = {}
        for name in sorted(arriving):
            entries = replace(self.entries[name], name=unused(f"{name}_received", names), role="input", output=False)
            names.add(entries.name)
            self.received[name] = replace(
                entries, why=f"each fact of {name} as it was sent, with what it was derived from"
            )

    def program(self) -> typed.TypedProgram:
        """Return the program with entry relations and their rules."""
        relations: list[typed.TypedRelation] = []
        rules: list[typed.TypedRule] = []
        for relation in self.before.relations:
            relations += [self.received[relation.name]] if relation.name in self.received else []
            relations += [self.entries[relation.name]] if relation.name in self.members else []
            if relation.name in self.members and relation.role == "input":
                relation = replace(relation, role="derived")
                rules.append(self._visible(relation.name, relation.span))
            relations.append(relation)
        last = {rule.head.relation: rule for rule in self.before.rules}
        for name, received in self.received.items():
            rules.append(self._arrives(name))
            rules += [self._visible(name, received.span)] if name not in last else []
        for rule in self.before.rules:
            name = rule.head.relation
            rules.append(self._annotated(rule) if name in self.members else rule)
            if name in self.members and last[name] is rule:
                rules.append(self._visible(name, rule.span))
        return replace(self.before, relations=tuple(relations), rules=tuple(rules))

    def _arrives(self, name: str) -> typed.TypedRule:
        """Return the rule that derives the entries of an arriving relation from those that have arrived: one step more,
        from the fact that was sent."""
        sent = next(route.sent for route in self.before.routes if route.relation == name)
        received, span = self.received[name], self.received[name].span
        columns = _columns(self.before.relation(name), span)
        body = (typed.Atom(sent, columns, span),)
        label, text = self._label(f"{name}_arrives"), received.why or name
        annotated = self._annotated(typed.TypedRule(label, typed.Head(name, columns, span), body, span, text, ""))
        (first, *rest) = annotated.body
        assert isinstance(first, typed.Atom)
        return replace(annotated, body=(replace(first, relation=received.name), *rest), origin="takes what has arrived")

    def _label(self, wish: str) -> str:
        """Return an unused label for a rule."""
        label = unused(wish, self.labels)
        self.labels.add(label)
        return label

    def _visible(self, name: str, span: Span) -> typed.TypedRule:
        """Return the rule that derives the facts of a relation from their entries."""
        columns = _columns(self.before.relation(name), span)
        open_sets = (typed.Wildcard(SET, span), typed.Wildcard(SET, span))
        label = self._label(f"{name}_entry")
        head = typed.Head(name, columns, span)
        body = (typed.Atom(self.entries[name].name, (*columns, *open_sets), span),)
        text = f"{name}, whatever it was derived from"
        return typed.TypedRule(label, head, body, span, text, f"takes the facts of {self.entries[name].name}")

    def _annotated(self, rule: typed.TypedRule) -> typed.TypedRule:
        """Return the rule rewritten to derive entries; its head holds the union of the sets of the body."""
        names = {variable.name for variable in typed.variables_of(rule)}
        span = rule.span

        def variable(wish: str, kind: typed.Type) -> typed.Variable:
            fresh = typed.Variable(unused(wish, names), kind, span)
            names.add(fresh.name)
            return fresh

        facts: list[typed.Expression] = []
        sets: list[typed.Expression] = []
        infinite: list[typed.Expression] = []
        body: list[typed.Literal] = []
        for literal in rule.body:
            if not isinstance(literal, typed.Atom):
                body.append(literal)
                continue
            columns = self.before.relation(literal.relation).columns
            terms: list[typed.Variable | typed.Constant] = [
                variable(column.name, column.type) if isinstance(term, typed.Wildcard) else term
                for term, column in zip(literal.terms, columns, strict=True)
            ]
            facts.append(self._fact(literal.relation, terms, span))
            if literal.relation in self.members:
                derivation, cycle = variable("set", SET), variable("inf", SET)
                sets.append(derivation)
                infinite.append(cycle)
                entry = self.entries[literal.relation].name
                body.append(replace(literal, relation=entry, terms=(*terms, derivation, cycle)))
            else:
                body.append(replace(literal, terms=tuple(terms)))
        arguments = [argument for argument in rule.head.arguments if not isinstance(argument, typed.Aggregate)]
        head = self._fact(rule.head.relation, arguments, span)
        derived, on_cycle = variable("derivation", SET), variable("infinite", SET)
        used = _joined([typed.ListLiteral(tuple(facts), SET, span), *sets], span)
        body.append(typed.Assignment(derived, typed.Call(UNION, (used,), SET, span), span))
        if infinite:
            cycles = infinite[0] if len(infinite) == 1 else typed.Call(UNION, (_joined(infinite, span),), SET, span)
            holds = typed.Call(HOLDS, (cycles, head), typed.BOOL, span)
            body.append(typed.Comparison("=", holds, typed.Constant(False, typed.BOOL, span), span))
            body.append(typed.Assignment(on_cycle, typed.Call(PICK, (cycles, used, head), SET, span), span))
        else:
            body.append(typed.Assignment(on_cycle, typed.ListLiteral((), SET, span), span))
        entry = self.entries[rule.head.relation].name
        entry_head = replace(rule.head, relation=entry, arguments=(*arguments, derived, on_cycle))
        return replace(rule, head=entry_head, body=tuple(body), origin="annotated with its derivations")

    def _fact(self, relation: str, terms: Iterable[typed.Expression], span: Span) -> typed.Expression:
        """Return the text of a fact, with the relation under the name that all processes use for it."""
        local = self.before.process and "." not in relation
        return fact(f"{self.before.process}::{relation}" if local else relation, terms, span)


def _columns(relation: typed.TypedRelation, span: Span) -> tuple[typed.Variable, ...]:
    """Return a variable for each column of a relation."""
    return tuple(typed.Variable(f"x{n}", c.type, span) for n, c in enumerate(relation.columns, 1))


def entries_of(relation: typed.TypedRelation, taken: Collection[str], output: bool) -> typed.TypedRelation:
    """Return the entry relation of ``relation``: its columns, the derivation set and the infinite-count set."""
    columns = [column.name for column in relation.columns]
    added = [typed.TypedColumn(unused(name, columns), SET) for name in ("derivation", "infinite")]
    return replace(
        relation,
        name=unused(f"{relation.name}_entries", taken),
        columns=(*relation.columns, *added),
        output=output,
        key=(),
        symmetric=False,
        declared=False,
        hidden=True,
        public="",
        why=f"each fact of {relation.name} with what it was derived from",
        closure=None,
        annotates=relation.name,
    )


def fact(relation: str, terms: Iterable[typed.Expression], span: Span) -> typed.Expression:
    """Return an expression for the text of a fact, ``reachable(1,"a")``. Different facts have different texts."""
    parts: list[typed.Expression] = [_string(f"{relation}(", span)]
    for place, term in enumerate(terms):
        text = text_of(term)
        assert text is not None, term
        parts += [_string(",", span)] if place else []
        parts.append(text)
    parts.append(_string(")", span))
    if any(not isinstance(part, typed.Constant) for part in parts):
        return reduce(lambda left, right: typed.Binary("++", left, right, typed.STRING, span), parts)
    return _string("".join(str(part.value) for part in parts if isinstance(part, typed.Constant)), span)


def text_of(term: typed.Expression) -> typed.Expression | None:
    """Return a value as text, strings in quotes, or None if its type has no text that is the same on all engines."""
    span = term.span
    if term.type.optional and term.type.element is not None:
        plain = text_of(typed.Call(typed.VALUE, (term,), term.type.element, span))
        return None if plain is None else typed.Call(typed.OR_NULL, (plain,), typed.STRING, span)
    if term.type == typed.STRING:
        quoted: typed.Expression = term
        for character in ("\\", '"'):
            arguments = (quoted, _string(character, span), _string(f"\\{character}", span))
            quoted = typed.Call("replace", arguments, typed.STRING, span)
        mark = _string('"', span)
        left = typed.Binary("++", mark, quoted, typed.STRING, span)
        return typed.Binary("++", left, mark, typed.STRING, span)
    printable = [signature.parameters[0].name for signature in FUNCTIONS["string"].signatures]
    return typed.Call("string", (term,), typed.STRING, span) if term.type.name in printable else None


def _string(text: str, span: Span) -> typed.Constant:
    return typed.Constant(text, typed.STRING, span)


def _joined(lists: list[typed.Expression], span: Span) -> typed.Expression:
    return lists[0] if len(lists) == 1 else typed.Call("concat", tuple(lists), SET, span)
