"""Annotate the tuples of recursions across processes with one live proof each.

Before, in process B::

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
alive, since proofs contain base facts only.

The runtime numbers the identities of a relation behind the prefix that its rule gives, and keeps one live proof of
those that the rules give (``identities``, ``dead`` and ``proofs`` in ``runtime/maintenance``). Input ``lives`` has the
lives of the processes that are there: identities of other lives are dead.
"""

from __future__ import annotations

from dataclasses import replace

from ..diagnostics import Diagnostics
from ..ir import typed
from ..ir.spanning import Spanning
from ..naming import unused
from ..source import Span
from .annotate_derivations import UNION
from .components import between, is_recursive
from .warn_invention import inventions

PROOF = typed.list_of(typed.STRING)

_HELP = "derive this in one process, where ranks maintain the recursion"


def annotate_proofs(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with proofs for its recursions across processes, unless it wants derivation sets for them.
    Report E0504 for recursions by ``min`` or ``max``, through negation, or with computed values.
    """
    if program.recursion != "ranks" or not program.spanning:
        return program
    annotation = _Annotation(program)
    for part in program.spanning:
        part = replace(part, members=between(program, part.members))
        if not _refused(program, part.members, diagnostics):
            annotation.annotate(part)
    return annotation.program()


def _refused(program: typed.TypedProgram, members: frozenset[str], diagnostics: Diagnostics) -> bool:
    """Report what live proofs do not support (E0504); return whether anything was reported. Recursions through other
    aggregates, or through a negation of their own tuples, are left for ``stratify`` to report."""
    found: list[tuple[str, Span]] = []
    for rule in program.rules:
        if rule.head.relation not in members:
            continue
        for aggregate in rule.aggregates:
            found.append((f"a recursion over several processes cannot use `{aggregate.function}`", aggregate.span))
        for negation in rule.negations:
            found.append((f"a recursion over several processes cannot negate `{negation.atom}`", negation.span))
        found += [
            (f"a recursion over several processes cannot compute `{value}` from its own tuples", span)
            for _, value, span in inventions(rule, members)
        ]
    for message, span in found:
        diagnostics.report("E0504", message, span, help=_HELP)
    return bool(found)


class _Annotation:
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
        self.added: list[typed.TypedRelation] = []
        self.rules: dict[str, typed.TypedRule] = {}
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
            relations.append(replace(relation, role="derived") if derived else relation)
            relations += self.behind.get(relation.name, [])
        rules = [self.rules.get(rule.label, rule) for rule in self.before.rules]
        return replace(self.before, relations=tuple(relations), rules=(*rules, *self.more))

    def annotate(self, part: Spanning) -> None:
        """Add the proofs of one recursion."""
        others = [self.dead(name, role="input") for name in part.others]
        own = self.dead(part.dead, output=True, guards=(self.lives.name,))
        self.added += [*others, own]
        guards = (self.lives.name, own.name, *(other.name for other in others))
        for relation in self.before.relations:
            if relation.name in part.members:
                self.proofs[relation.name] = self.add_proofs(relation, guards)
        identities: dict[str, str] = {}
        for rule in self.before.rules:
            if rule.head.relation in part.members:
                for atom in rule.atoms:
                    if atom.relation not in part.members and atom.relation not in identities:
                        identities[atom.relation] = self.add_identities(atom.relation, own)
                self.rules[rule.label] = self.annotated(rule, identities)

    def hidden(self, name: str, columns: list[tuple[str, typed.Type]], **options: object) -> typed.TypedRelation:
        """Return a new hidden relation."""
        made = typed.TypedRelation(
            unused(name, self.names),
            tuple(typed.TypedColumn(*column) for column in columns),
            **{"role": "derived", "output": False, "span": self.span, "declared": False, "hidden": True, **options},  # type: ignore[arg-type]
        )
        self.names.add(made.name)
        return made

    def dead(self, name: str, **options: object) -> typed.TypedRelation:
        """Return the relation of dead identities of a process, in ranges; all processes call it by its ``name``."""
        columns = [("first", typed.STRING), ("last", typed.STRING)]
        return self.hidden(name, columns, keeps="dead", why="identities that are dead for good", **options)

    def add_proofs(self, relation: typed.TypedRelation, guards: tuple[str, ...]) -> str:
        """Add the relation with the proofs of a member, and the rule that derives the member from it. Proofs of a
        relation of another process come from it."""
        span = relation.span
        columns = [(column.name, column.type) for column in relation.columns]
        columns.append((unused("proof", {name for name, _ in columns}), PROOF))
        variables = _variables(columns, span)
        options = {"span": span, "annotates": relation.name}
        made = self.hidden(
            f"{relation.name}_proofs",
            columns,
            keeps="proofs",
            guards=guards,
            output=relation.output,
            why=f"each tuple of {relation.name} with a proof that is live",
            **options,
        )
        self.ahead[relation.name] = [made]
        if relation.role == "input":
            why = f"the tuples of {relation.name} as they were sent, with their proofs"
            received = self.hidden(f"{relation.name}_received", columns, role="input", why=why, **options)
            self.ahead[relation.name].insert(0, received)
            self.rule(f"{relation.name}_arrives", made, variables, [(received, variables)], span, "takes the live ones")
        body = (*variables[:-1], typed.Wildcard(PROOF, span))
        why = "takes the tuples that have a live proof"
        self.rule(f"{relation.name}_proof", relation, variables[:-1], [(made, body)], span, why)
        return made.name

    def add_identities(self, name: str, own: typed.TypedRelation) -> str:
        """Add the relation with the identities of the tuples of a relation, and the rules that number and bury them."""
        relation = self.before.relation(name)
        span = relation.span
        columns = [(column.name, column.type) for column in relation.columns]
        columns.append((unused("identity", {name for name, _ in columns}), typed.STRING))
        made = self.hidden(
            f"{name}_ids", columns, keeps="identities", span=span, why=f"each tuple of {name} with its identity"
        )
        self.behind.setdefault(name, []).append(made)
        variables = _variables(columns, span)
        life = typed.Variable("life", typed.STRING, span)
        known = (typed.Wildcard(typed.STRING, span), life, typed.Constant(True, typed.BOOL, span))
        prefix = typed.Binary("++", life, _string(f"{self.spaces:03d}", span), typed.STRING, span)
        self.spaces += 1
        self.rule(
            f"{name}_id",
            made,
            variables,
            [(relation, variables[:-1]), (self.lives, known)],
            span,
            "numbers them",
            typed.Assignment(variables[-1], prefix, span),
        )
        first, last = (typed.Variable(name, typed.STRING, span) for name in ("first", "last"))
        gone = (*(typed.Wildcard(kind, span) for _, kind in columns[:-1]), first)
        same = typed.Assignment(last, first, span)
        self.rule(f"{name}_dead", own, (first, last), [(made, gone)], span, "says which are gone", same)
        return made.name

    def rule(
        self,
        label: str,
        head: typed.TypedRelation,
        arguments: tuple[typed.Expression, ...],
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

    def annotated(self, rule: typed.TypedRule, identities: dict[str, str]) -> typed.TypedRule:
        """Return a rule of a recursion rewritten to derive proofs: the union of those of its body."""
        span, names = rule.span, {variable.name for variable in typed.variables_of(rule)}

        def variable(wish: str, kind: typed.Type) -> typed.Variable:
            made = typed.Variable(unused(wish, names), kind, span)
            names.add(made.name)
            return made

        body: list[typed.Literal] = []
        base: list[typed.Expression] = []
        sets: list[typed.Expression] = []
        for literal in rule.body:
            if not isinstance(literal, typed.Atom):
                body.append(literal)
            elif literal.relation in identities:
                base.append(variable("id", typed.STRING))
                body.append(
                    replace(literal, relation=identities[literal.relation], terms=(*literal.terms, base[-1]))  # type: ignore[arg-type]
                )
            else:
                sets.append(variable("set", PROOF))
                body.append(
                    replace(literal, relation=self.proofs[literal.relation], terms=(*literal.terms, sets[-1]))  # type: ignore[arg-type]
                )
        used: typed.Expression = typed.ListLiteral(tuple(base), PROOF, span)
        parts = [used, *sets] if base or not sets else sets
        if parts[1:]:
            used = typed.Call("concat", tuple(parts), PROOF, span)
        proof: typed.Expression = parts[0]
        if len(base) + len(sets) > 1:
            proof = typed.Call(UNION, (used,), PROOF, span)
        made = variable("proof", PROOF)
        body.append(typed.Assignment(made, proof, span))
        head = replace(
            rule.head, relation=self.proofs[rule.head.relation], arguments=(*rule.head.arguments, made)
        )
        return replace(rule, head=head, body=tuple(body), origin="with the proof of its tuples")


def _variables(columns: list[tuple[str, typed.Type]], span: Span) -> tuple[typed.Variable, ...]:
    """Return a variable for each column."""
    return tuple(typed.Variable(f"x{number}", kind, span) for number, (_, kind) in enumerate(columns, 1))


def _string(text: str, span: Span) -> typed.Constant:
    return typed.Constant(text, typed.STRING, span)
