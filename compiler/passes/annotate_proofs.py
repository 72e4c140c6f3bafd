"""Annotate the tuples of recursions across processes with one live proof each.

Before, in process B, abridged::

    r1: B.reach(x, y) :- link(x, y).
    r2: B.reach(x, y) :- link(x, z), A.reach(z, y).

After, abridged (all added relations are hidden)::

    link_id: link_ids(x1, x2, id) :- link(x1, x2), lives(_, life, true), id = life ++ "000".
    received: A.reach_proofs(x1, x2, proof) :- A.reach_received(x1, x2, proof).
    r1: B.reach_proofs(x, y, proof) :- link_ids(x, y, id), proof = [id].
    r2: B.reach_proofs(x, y, proof) :- link_ids(x, z, id), A.reach_proofs(z, y, set), proof = set_of(concat([id], set)).
    B.reach_proof: B.reach(x1, x2) :- B.reach_proofs(x1, x2, _).
    dead_1: B.dead(first, last) :- link_ids(_, _, first), last = first.

A base fact of a recursion, an input tuple or a tuple of an earlier stratum, gets an identity each time it appears. A
proof of a tuple is a set of identities that suffices to derive it. A process keeps one proof for each tuple that it
derives, and sends it along. While that proof is live, that is, while all of its base facts are there, nothing more is
stored or sent for the tuple, whatever else derives it. When a base fact goes, its identity is dead for good, and each
process of the recursion hears of it, drops the proofs that contain it, and looks for others. No cycle can keep itself
alive, since proofs contain base facts only. Witnesses of ``min`` and ``max`` stay with their extremum: of each group,
all tuples with the best value are kept.

The runtime numbers the identities of a relation behind the prefix that its rule gives, and keeps one live proof of
those that the rules give (``identities``, ``dead`` and ``proofs`` in ``runtime/kernel``). Input ``lives`` has the
lives of the processes that are there: identities of other lives are dead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from ..diagnostics import Diagnostics
from ..ir import typed
from ..ir.spanning import Spanning
from ..naming import unused
from ..source import Span
from .annotate_derivations import UNION, fact, text_of
from .components import between
from .warn_invention import inventions

PROOF = typed.list_of(typed.STRING)


def annotate_proofs(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with proofs for its recursions across processes, unless it wants derivation sets for them.
    Report E0504 for recursions that use aggregates but ``min`` and ``max``, whose plain relations read the values of
    these, or that negate what has no text, and W0803 for those that compute values and may not end.
    """
    if program.recursion != "ranks" or not program.spanning:
        return program
    annotation = _ProofAnnotation(program)
    for part in program.spanning:
        part = replace(part, members=between(program, part.members))
        if not _refused(program, part, diagnostics):
            annotation.annotate(part)
    return annotation.program()


def _refused(program: typed.TypedProgram, part: Spanning, diagnostics: Diagnostics) -> bool:
    """Report what live proofs do not support (E0505), and what may not end; return whether anything was refused."""
    problems: list[tuple[str, Span, str]] = []
    for rule in program.rules:
        if rule.head.relation not in part.members:
            continue
        for aggregate in rule.aggregates:
            if aggregate.function not in ("min", "max") or len(rule.aggregates) > 1:
                message = f"a recursion over several processes cannot use `{aggregate}` here"
                problems.append((message, aggregate.span, "only one `min` or `max` for each head may be part of it"))
        problems += _kept_witnesses(rule, part)
        read = [atom for atom in rule.atoms if atom.relation in part.extremal and not rule.aggregates]
        if read and program.relation(rule.head.relation).hidden:
            message = "the rule sends several values of its recursion to another node at once"
            help = "join two literals at a time, each in a rule that computes its values by `min` or `max`, or negate "
            problems.append((message, rule.span, f"{help}where the last value is"))
            read = []
        for atom in read:
            name = rule.head.relation
            message = f"`{name}` reads the extremum `{atom.relation}` in a recursion over several processes"
            help = f"a tuple of `{name}` could be kept alive by a value that is no longer the best; compute "
            help += f"`{name}` by `min` or `max` too, or outside of the recursion"
            problems.append((message, atom.span, help))
        for negation in rule.negations:
            if negation.atom.relation not in part.members and key_text(negation, negation.span) is None:
                message = f"a recursion over several processes cannot negate `{negation.atom}`"
                problems.append((message, negation.span, "it has a column of a type without text; leave that out"))
        for place, value, span in inventions(rule, part.members):
            if not isinstance(rule.head.arguments[place], typed.Aggregate):
                diagnostics.report(
                    "W0803",
                    f"the recursion computes `{value}` from its own tuples and may not end",
                    span,
                    help="a step is refused once there are more than --max-entries tuples; make sure that a comparison "
                    "bounds the value",
                )
    for message, span, help in problems:
        diagnostics.report("E0505", message, span, help=help)
    return bool(problems)


def _kept_witnesses(rule: typed.TypedRule, part: Spanning) -> Iterator[tuple[str, Span, str]]:
    """Yield an error for each witness that a rule passes on from a tuple of the recursion although its value may be the
    best one even if that of the tuple is not: what was derived from a worse value is only replaced by something better.
    """
    values = {x.variable.name: x.value for x in rule.body if isinstance(x, typed.Assignment)}
    name = rule.head.relation
    for aggregate in rule.aggregates:
        for place in (place for place, _ in enumerate(rule.head.arguments) if (name, place) in part.witnesses):
            argument = rule.head.arguments[place]
            used = _used(argument, values)
            for atom in rule.atoms:
                witnesses = {str(term) for i, term in enumerate(atom.terms) if (atom.relation, i) in part.witnesses}
                best = {str(term) for i, term in enumerate(atom.terms) if (atom.relation, i) in part.values}
                if used & witnesses and not any(_is_strict(aggregate.argument, one, values) for one in best):
                    message = f"`{argument}` passes on a witness of `{atom.relation}`, whose value may get better "
                    message += f"while `{aggregate}` stays the same"
                    help = "the witness of the worse value would stay; compute the value by addition, subtraction or "
                    help += "multiplication of `int` or `decimal`, which give different results for different values"
                    yield message, argument.span, help


def _used(value: typed.Node, values: Mapping[str, typed.Expression]) -> set[str]:
    """Return the names of the variables that an expression uses, directly or through assignments."""
    names = {variable.name for variable in typed.variables_of(value)}
    return names.union(*(_used(values[name], values) for name in names if name in values))


def _is_strict(value: typed.Expression | None, name: str, values: Mapping[str, typed.Expression]) -> bool:
    """Return whether an expression, which is monotone in a variable, differs for any two values of it."""
    match value:
        case typed.Variable():
            return value.name == name or (value.name in values and _is_strict(values[value.name], name, values))
        case typed.Convert():
            return value.type.name != "float" and _is_strict(value.operand, name, values)
        case typed.Binary(op="+" | "-" | "*") if value.type.name in ("int", "decimal"):
            return _is_strict(value.left, name, values) or _is_strict(value.right, name, values)
    return False


def key_text(negation: typed.Negation, span: Span) -> typed.Expression | None:
    """Return an expression for the text of the tuple that a literal negates; None if a value has no text."""
    terms = absent_terms(negation)
    return None if any(text_of(term) is None for term in terms) else fact("", terms, span)


def absent_terms(negation: typed.Negation) -> list[typed.Variable | typed.Constant]:
    """Return the terms of a negated literal; ``project_negations`` leaves no wildcards."""
    return [term for term in negation.atom.terms if not isinstance(term, typed.Wildcard)]


class _ProofAnnotation:
    """A rewrite of one program that adds proofs to its parts of recursions across processes."""

    def __init__(self, program: typed.TypedProgram) -> None:
        self.before = program
        self.names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.span = program.relations[0].span
        #: The relations to put before and behind those of the program, by name, and further rules by head.
        self.ahead: dict[str, list[typed.TypedRelation]] = {}
        self.behind: dict[str, list[typed.TypedRelation]] = {}
        self.proofs: dict[str, str] = {}
        self.dropped: set[str] = set()
        self.sent = {route.sent for route in program.routes}
        self.added: list[typed.TypedRelation] = []
        self.replaced: dict[str, list[typed.TypedRule]] = {}
        self.more: list[typed.TypedRule] = []
        self.spaces = 0
        lives = [("process", typed.STRING), ("life", typed.STRING), ("own", typed.BOOL)]
        self.lives = self.hidden("lives", lives, role="input", keeps="lives", why="the lives of the processes")

    def program(self) -> typed.TypedProgram:
        """Return the rewritten program."""
        relations: list[typed.TypedRelation] = [self.lives, *self.added]
        for relation in self.before.relations:
            relations += self.ahead.get(relation.name, [])
            # A relation of another process is derived from the proofs that came.
            derived = relation.name in self.proofs and relation.role == "input"
            if relation.name not in self.dropped:
                relations.append(replace(relation, role="derived") if derived else relation)
            relations += self.behind.get(relation.name, [])
        rules = [replacement for rule in self.before.rules for replacement in self.replaced.get(rule.label, [rule])]
        return replace(self.before, relations=tuple(relations), rules=(*rules, *self.more))

    def annotate(self, part: Spanning) -> None:
        """Add the proofs of one recursion."""
        others = [self.dead(name, role="input") for name in part.others]
        own = self.dead(part.dead, output=True, guards=(self.lives.name,))
        self.added += [*others, own]
        guards = (self.lives.name, own.name, *(other.name for other in others))
        outside = {atom.relation for r in self.before.rules if r.head.relation not in part.members for atom in r.read}
        for relation in self.before.relations:
            if relation.name in part.members:
                shown = not relation.hidden or relation.name in outside
                self.proofs[relation.name] = self.add_proofs(relation, part, guards, shown)
        identities: dict[str, str] = {}
        epochs: dict[str, _Epochs] = {}
        for rule in self.before.rules:
            if rule.head.relation in part.members:
                for atom in rule.atoms:
                    if atom.relation not in part.members and atom.relation not in identities:
                        identities[atom.relation] = self.add_identities(atom.relation, own)
                for negation in rule.negations:
                    name = negation.atom.relation
                    if name not in part.members and name not in epochs:
                        epochs[name] = self.add_epochs(name, own)
                self.replaced[rule.label] = self.annotated(rule, identities, epochs)

    def hidden(self, name: str, columns: list[tuple[str, typed.Type]], **options: object) -> typed.TypedRelation:
        """Return a new hidden relation."""
        relation = typed.TypedRelation(
            unused(name, self.names),
            tuple(typed.TypedColumn(*column) for column in columns),
            **{"role": "derived", "output": False, "span": self.span, "declared": False, "hidden": True, **options},  # type: ignore[arg-type]
        )
        self.names.add(relation.name)
        return relation

    def dead(self, name: str, **options: object) -> typed.TypedRelation:
        """Return the relation of dead identities of a process, in ranges; all processes call it by its ``name``."""
        columns = [("first", typed.STRING), ("last", typed.STRING)]
        return self.hidden(name, columns, keeps="dead", why="identities that are dead for good", **options)

    def add_proofs(self, relation: typed.TypedRelation, part: Spanning, guards: tuple[str, ...], shown: bool) -> str:
        """Add the relation with the proofs of a member and, if that is ``shown``, the rule that derives the member from
        it. Tuples that come from other processes have their proofs with them."""
        span = relation.span
        columns = [(column.name, column.type) for column in relation.columns]
        columns.append((unused("proof", {name for name, _ in columns}), PROOF))
        variables = _variables(columns, span)
        options = {"span": span, "annotates": relation.name, "witnesses": relation.witnesses}
        proofs = self.hidden(
            f"{relation.name}_proofs",
            columns,
            keeps="proofs",
            guards=guards,
            output=relation.output and (not self.sent or relation.name in self.sent),
            why=f"each tuple of {relation.name} with a proof that is live",
            **options,
        )
        self.ahead[relation.name] = [proofs]
        if relation.role == "input" or relation.name in part.arriving:
            why = f"the tuples of {relation.name} as they were sent, with their proofs"
            received = self.hidden(f"{relation.name}_received", columns, role="input", why=why, **options)
            self.ahead[relation.name].insert(0, received)
            sent = next((route.sent for route in self.before.routes if route.relation == relation.name), relation.name)
            best = next((rule.head.arguments for rule in self.before.rules_of(sent) if rule.aggregates), ())
            arguments = tuple(
                replace(argument, argument=variable) if isinstance(argument, typed.Aggregate) else variable
                for argument, variable in zip((*best, *[None] * (len(variables) - len(best))), variables, strict=True)
            )
            self.rule(
                f"{relation.name}_arrives", proofs, arguments, [(received, variables)], span, "takes the live ones"
            )
        if not shown:
            self.dropped.add(relation.name)
            return proofs.name
        body: tuple[typed.Term, ...] = (*variables[:-1], typed.Wildcard(PROOF, span))
        why = "takes the tuples that have a live proof"
        self.rule(f"{relation.name}_proof", relation, variables[:-1], [(proofs, body)], span, why)
        return proofs.name

    def add_identities(self, name: str, own: typed.TypedRelation) -> str:
        """Add the relation with the identities of the tuples of a relation, and the rules that number and bury them."""
        relation = self.before.relation(name)
        span = relation.span
        columns = [(column.name, column.type) for column in relation.columns]
        columns.append((unused("identity", {name for name, _ in columns}), typed.STRING))
        identities = self.hidden(
            f"{name}_ids",
            columns,
            keeps="identities",
            guards=(self.lives.name,),
            span=span,
            why=f"each tuple of {name} with its identity",
        )
        self.behind.setdefault(name, []).append(identities)
        variables = _variables(columns, span)
        life = typed.Variable("life", typed.STRING, span)
        prefix = typed.Binary("++", life, self.space(span), typed.STRING, span)
        self.rule(
            f"{name}_id",
            identities,
            variables,
            [(relation, variables[:-1]), (self.lives, _own(life))],
            span,
            "numbers them",
            typed.Assignment(variables[-1], prefix, span),
        )
        first, last = (typed.Variable(name, typed.STRING, span) for name in ("first", "last"))
        gone: tuple[typed.Term, ...] = (*(typed.Wildcard(kind, span) for _, kind in columns[:-1]), first)
        same = typed.Assignment(last, first, span)
        self.rule(f"{name}_dead", own, (first, last), [(identities, gone)], span, "says which are gone", same)
        return identities.name

    def add_epochs(self, name: str, own: typed.TypedRelation) -> _Epochs:
        """Add the relation that counts how often the tuples of a relation have appeared, the relation of those that
        ever have, and the rules of both; with each epoch, absences of earlier ones are dead."""
        relation = self.before.relation(name)
        span = relation.span
        columns = [(column.name, column.type) for column in relation.columns]
        for wish in ("epoch", "last"):
            columns.append((unused(wish, {name for name, _ in columns}), typed.STRING))
        epochs = self.hidden(
            f"{name}_epochs",
            columns,
            keeps="epochs",
            guards=(self.lives.name,),
            span=span,
            why=f"each tuple of {name} with the number of times that it has appeared, and the number before",
        )
        ever = self.hidden(f"{name}_ever", columns[:-2], span=span, why=f"the tuples of {name} that have appeared")
        self.behind.setdefault(name, []).extend([epochs, ever])
        variables = _variables(columns, span)
        tuples, (epoch, last) = variables[:-2], variables[-2:]
        counted = (typed.Assignment(epoch, _string("", span), span), typed.Assignment(last, epoch, span))
        self.rule(f"{name}_epoch", epochs, variables, [(relation, tuples)], span, "counts them", *counted)
        open_epoch = tuple(typed.Wildcard(typed.STRING, span) for _ in range(2))
        self.rule(f"{name}_once", ever, tuples, [(epochs, (*tuples, *open_epoch))], span, "takes them all")
        life = typed.Variable("life", typed.STRING, span)
        result = _Epochs(epochs, ever, self.space(span))
        first_one, last_one = (typed.Variable(name, typed.STRING, span) for name in ("first", "until"))
        key = result.identity(life, fact("", tuples, span))
        self.rule(
            f"{name}_over",
            own,
            (first_one, last_one),
            [(epochs, (*tuples, open_epoch[0], last)), (self.lives, _own(life))],
            span,
            "says which absences are over",
            typed.Assignment(first_one, _joined(key, _string(NEVER, span)), span),
            typed.Assignment(last_one, _joined(key, last), span),
        )
        return result

    def space(self, span: Span) -> typed.Constant:
        """Return what sets the identities of a relation apart from those of others."""
        self.spaces += 1
        return _string(f"{self.spaces:03d}", span)

    def rule(
        self,
        label: str,
        head: typed.TypedRelation,
        arguments: tuple[typed.Expression | typed.Aggregate, ...],
        atoms: list[tuple[typed.TypedRelation, tuple[typed.Term, ...]]],
        span: Span,
        origin: str,
        *others: typed.Literal,
    ) -> None:
        """Add a rule."""
        label = unused(label, self.labels)
        self.labels.add(label)
        body = (*(typed.Atom(relation.name, terms, span) for relation, terms in atoms), *others)
        self.more.append(
            typed.TypedRule(label, typed.Head(head.name, arguments, span), body, span, head.why or head.name, origin)
        )

    def annotated(
        self, rule: typed.TypedRule, identities: Mapping[str, str], epochs: Mapping[str, _Epochs]
    ) -> list[typed.TypedRule]:
        """Return a rule of a recursion rewritten to derive proofs, the union of those of its body. What it negates has
        never appeared, or not since its last epoch: that makes two rules for each negation."""
        span, names = rule.span, {variable.name for variable in typed.variables_of(rule)}

        def variable(wish: str, kind: typed.Type) -> typed.Variable:
            fresh = typed.Variable(unused(wish, names), kind, span)
            names.add(fresh.name)
            return fresh

        body: list[typed.Literal] = []
        base: list[typed.Expression] = []
        sets: list[typed.Expression] = []
        negations = [x for x in rule.negations if x.atom.relation in epochs]
        for literal in rule.body:
            if isinstance(literal, typed.Atom):
                is_base = literal.relation in identities
                support = variable("id", typed.STRING) if is_base else variable("set", PROOF)
                (base if is_base else sets).append(support)
                name = identities[literal.relation] if is_base else self.proofs[literal.relation]
                body.append(replace(literal, relation=name, terms=(*literal.terms, support)))
            elif literal not in negations:
                body.append(literal)
        if negations:
            life = variable("life", typed.STRING)
            body.append(typed.Atom(self.lives.name, _own(life), span))
        absent = [variable("absent", typed.STRING) for _ in negations]
        used = typed.ListLiteral((*base, *absent), PROOF, span)
        parts: list[typed.Expression] = [used, *sets] if used.items or not sets else sets
        together = parts[0] if len(parts) == 1 else typed.Call("concat", tuple(parts), PROOF, span)
        several = len(used.items) + len(sets) > 1
        value = typed.Call(UNION, (together,), PROOF, span) if several else together
        proof = variable("proof", PROOF)
        head = replace(rule.head, relation=self.proofs[rule.head.relation], arguments=(*rule.head.arguments, proof))
        made_rules = []
        for ever in product((False, True), repeat=len(negations)):
            own = list(body)
            for negation, identity, before in zip(negations, absent, ever, strict=True):
                of, terms = epochs[negation.atom.relation], negation.atom.terms
                key = of.identity(life, fact("", absent_terms(negation), span))
                if before:
                    epoch = variable("epoch", typed.STRING)
                    own.append(typed.Atom(of.counted.name, (*terms, epoch, typed.Wildcard(typed.STRING, span)), span))
                    own.append(negation)
                else:
                    own.append(replace(negation, atom=replace(negation.atom, relation=of.ever.name)))
                own.append(typed.Assignment(identity, _joined(key, epoch if before else _string(NEVER, span)), span))
            own.append(typed.Assignment(proof, value, span))
            label = rule.label if not any(ever) else unused(f"{rule.label}_again", self.labels)
            self.labels.add(label)
            origin = "with the proof of its tuples"
            made_rules.append(replace(rule, label=label, head=head, body=tuple(own), origin=origin))
        return made_rules


@dataclass(frozen=True)
class _Epochs:
    """The relation that counts how often tuples have appeared, the one of those that ever have, and what sets the
    identities of their absences apart."""

    counted: typed.TypedRelation
    ever: typed.TypedRelation
    space: typed.Constant

    def identity(self, life: typed.Variable, key: typed.Expression) -> typed.Expression:
        """Return an expression for the identity of an absence, up to the epoch."""
        return _joined(_joined(life, self.space), key)


NEVER = "0" * 12
"""The epoch of a tuple that has never appeared, as long as the numbers of identities."""


def _own(life: typed.Variable) -> tuple[typed.Term, ...]:
    """Return the terms of a literal that binds the life of this process."""
    return (typed.Wildcard(typed.STRING, life.span), life, typed.Constant(True, typed.BOOL, life.span))


def _joined(left: typed.Expression, right: typed.Expression) -> typed.Expression:
    return typed.Binary("++", left, right, typed.STRING, left.span)


def _variables(columns: list[tuple[str, typed.Type]], span: Span) -> tuple[typed.Variable, ...]:
    """Return a variable for each column."""
    return tuple(typed.Variable(f"x{number}", kind, span) for number, (_, kind) in enumerate(columns, 1))


def _string(text: str, span: Span) -> typed.Constant:
    return typed.Constant(text, typed.STRING, span)
