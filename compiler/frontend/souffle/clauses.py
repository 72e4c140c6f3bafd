"""Rewrite clauses of a Soufflé program to rules, and aggregates to relations with rules of their own.

    hub(x) :- city(x), 2 < count : { road(x, _) }.

becomes

    hub_count(x, count<*>) :- road(x, _).
    hub(x) :- city(x), 2 < count, (hub_count(x, count) ; !hub_count(x, _), count = 0).

Rules of relations that are added keep the place and the text of the clause that they are for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ...ir import syntax
from ...source import Span
from ..syntax_errors import LeftOut
from . import tree
from .declarations import DeclaredProgram, RelationNames
from .functors import NoEquivalent
from .literals import Literals, without_truths
from .scopes import (
    ClauseVariables,
    bound_in,
    conjunctions,
    depends_on_alternative,
    has_aggregate,
    plain_name,
    shape,
    variables_of,
    walk,
)
from .values import Values

_MOST_ALTERNATIVES = 1_000
"""How many alternatives a clause with aggregates or records may have."""

_FLOAT_ZERO = Decimal("0.0")
_AGGREGATES = {"count": "count", "sum": "sum", "min": "min", "max": "max", "mean": "avg"}


@dataclass(frozen=True)
class Clauses:
    """Rewrites the clauses of a program. ``aggregated`` has the relations made for aggregates, by these, the variables
    that they are grouped by and the place of their clause."""

    program: DeclaredProgram
    names: RelationNames
    values: Values
    literals: Literals
    aggregated: dict[tuple[object, tuple[str, ...], Span], str] = field(default_factory=dict)

    def statements(self, given: tree.Clause) -> Iterator[syntax.Statement]:
        """Yield the rules of a clause, those of relations that it needs first."""
        for head in given.heads:
            if head.relation not in self.program.relations:
                self.program.report_unknown(head.relation, head.span)
                raise LeftOut
        literals: tuple[tree.Literal, ...] = (given.body,) if given.body else ()
        for conjunction in _bodies(given):
            for head in given.heads:
                names = {plain_name(name) for name in variables_of((*given.heads, *literals))}
                clause = ClauseVariables(given, names)
                self.values.note_types((*conjunction, *given.heads), clause)
                yield from self._rule(head, conjunction, clause)

    def _rule(self, head: tree.AtomLiteral, body: tree.Body, clause: ClauseVariables) -> Iterator[syntax.Statement]:
        """Yield the rule of a head and a body, behind those of relations that it needs."""
        name = self.names.name(head.relation)
        before: list[tree.Literal] = []
        arguments = [_without_aggregates(argument, before, clause) for argument in head.arguments]
        literals, helpers = self._body((*body, *before), clause, name, variables_of(arguments))
        declared = self.program.relations[head.relation]
        if "eqrel" in declared.tags:
            name = self.names.pairs(declared.name, self.program.is_input(declared.name))
        values = [
            self.values.value(argument, self.program.column_type(head.relation, place), clause)
            for place, argument in enumerate(arguments)
        ]
        extreme = self.program.extremes.get(head.relation)
        if extreme is not None and extreme.column < len(values):
            value = values[extreme.column]
            if not isinstance(value, syntax.VariableNode):
                column = plain_name(declared.columns[extreme.column].name)
                variable = syntax.VariableNode(clause.fresh(column), value.span)
                literals = (*literals, syntax.ComparisonNode("=", variable, value, value.span))
                value = variable
            values[extreme.column] = syntax.AggregateNode(extreme.function, value, False, value.span)
        atom = syntax.AtomNode(name, tuple(values), None, None, head.span)
        yield from helpers
        yield syntax.RuleNode(None, atom, literals, clause.origin.span, clause.origin.text)

    def _body(
        self, body: tree.Body, clause: ClauseVariables, name: str, used: Collection[str] = ()
    ) -> tuple[tuple[syntax.Literal, ...], list[syntax.Statement]]:
        """Return the literals of a conjunction, and the statements of relations that they need. ``name`` begins the
        names of these; ``used`` are the variables of the head."""
        plain: list[tree.Literal] = []
        aggregates: list[tuple[str, tree.AggregateTerm]] = []
        for literal in body:
            plain += _extracted(literal, aggregates, clause)
        statements: list[syntax.Statement] = []
        translated: list[syntax.Literal] = []
        results = {variable for variable, _ in aggregates}
        for place, literal in enumerate(plain):
            # What is bound without this literal, which may bind more.
            grounded = bound_in((*plain[:place], *plain[place + 1 :]), results) if _has_record(literal) else set()
            translated += self.literals.literal(literal, clause, grounded)
        for place, (variable, aggregate) in enumerate(aggregates):
            others = {other for index, (other, _) in enumerate(aggregates) if index != place}
            outer = bound_in(tuple(plain), others)
            _check_witnesses(aggregate, outer | {variable}, variables_of(plain) | {*used})
            literal_, helpers = self._aggregate(variable, aggregate, tuple(plain), outer, clause, name)
            statements += helpers
            translated.append(literal_)
        return without_truths(translated), statements

    # ---- aggregates ------------------------------------------------------------------------------------------------

    def _aggregate(
        self,
        variable: str,
        given: tree.AggregateTerm,
        outer: tree.Body,
        grounded: set[str],
        clause: ClauseVariables,
        name: str,
    ) -> tuple[syntax.Literal, list[syntax.Statement]]:
        """Return the literal that gives ``variable`` the value of an aggregate, and the relations that compute it."""
        span, origin = given.span, clause.origin
        target = variables_of((given.target,)) if given.target else set()
        shared = sorted((variables_of(given.body) & grounded) - target, key=_order(outer))
        if isinstance(given.target, tree.AggregateTerm) or has_aggregate((given.target,) if given.target else ()):
            raise NoEquivalent(
                "E0772", "an aggregate of aggregates is not supported", span, "compute the inner one in a relation"
            )
        names = {plain_name(v) for v in variables_of(given.body) | target | set(shared)}
        inner_clause = ClauseVariables(origin, names, dict(clause.types))
        self.values.note_types(given.body, inner_clause)
        statements: list[syntax.Statement] = []
        bodies = conjunctions(tree.Alternatives((given.body,), span), 1)
        if bodies is None:
            # Tuples for which several alternatives hold would count several times.
            help = "write a relation with a rule for each alternative, and aggregate over that"
            raise NoEquivalent("E0772", "an aggregate over alternatives is not supported", span, help)
        (body,) = bodies
        # The inner variables must be bound inside; those of the outer rule that are not are bound by its tuples.
        missing = [v for v in shared if v not in bound_in(body, set())]
        if missing:
            context, helpers = self._context(shared, outer, clause, name)
            statements += helpers
            body = (context, *body)
        key = shape(given), tuple(shared), origin.span
        earlier = None if missing else self.aggregated.get(key)
        helper = earlier or self.names.helper(f"{name}_{given.function}")
        if not missing:
            self.aggregated[key] = helper
        literals, helpers = self._body(body, inner_clause, helper) if earlier is None else ((), [])
        statements += helpers
        group = tuple(syntax.VariableNode(plain_name(v), span) for v in shared)
        value = None if given.target is None else self.values.value(given.target, "", inner_clause)
        aggregate = syntax.AggregateNode(_AGGREGATES[given.function], value, False, span)
        head = syntax.AtomNode(helper, (*group, aggregate), None, None, span)
        purpose = f"for {name}"
        if earlier is None:
            statements.append(syntax.RuleNode(None, head, literals, origin.span, origin.text, purpose))
        result = syntax.VariableNode(plain_name(variable), span)
        atom = syntax.AtomNode(helper, (*group, result), None, None, span)
        if given.function not in ("count", "sum"):
            return atom, statements
        is_float = given.target is not None and self.values.primitive_type(given.target, inner_clause) == "float"
        zero = syntax.ConstantNode(_FLOAT_ZERO, "float", span) if is_float else syntax.ConstantNode(0, "int", span)
        none = syntax.NegationNode(replace(atom, arguments=(*group, syntax.WildcardNode(span))), span)
        empty = (none, syntax.ComparisonNode("=", result, zero, span))
        return syntax.Disjunction(((atom,), empty), span), statements

    def _context(
        self, shared: Sequence[str], outer: tree.Body, clause: ClauseVariables, name: str
    ) -> tuple[tree.AtomLiteral, list[syntax.Statement]]:
        """Return an atom of a relation with the values of variables of the outer rule, and the rule that derives it."""
        helper = self.names.helper(f"{name}_for")
        literals, helpers = self._body(outer, clause, helper)
        span = clause.origin.span
        group = tuple(syntax.VariableNode(plain_name(v), span) for v in shared)
        head = syntax.AtomNode(helper, group, None, None, span)
        rule = syntax.RuleNode(None, head, literals, span, clause.origin.text, f"for {name}")
        full = self.names.admit(helper)
        return tree.AtomLiteral(full, tuple(tree.VariableTerm(v, span) for v in shared), span), [*helpers, rule]


def _check_witnesses(aggregate: tree.AggregateTerm, outer: Collection[str], used: Collection[str]) -> None:
    """Refuse variables that only an aggregate binds, and that are used outside of it."""
    for node in walk((aggregate,)):
        if isinstance(node, tree.VariableTerm) and node.name in used and node.name not in outer:
            message = f"`{node.name}` is a witness of this aggregate: it has a value inside of it only"
            help = "look the witness up by the result, with another atom beside the aggregate"
            raise NoEquivalent("E0772", message, node.span, help)


def _bodies(given: tree.Clause) -> tuple[tree.Body, ...]:
    """Return the bodies that a clause has rules for: one, or one for each alternative if these have aggregates or
    records, whose variables are those of an alternative."""
    if given.body is None:
        return ((),)
    if not depends_on_alternative((*given.heads, given.body)):
        return given.body.alternatives if len(given.body.alternatives) == 1 else ((given.body,),)
    bodies = conjunctions(given.body, _MOST_ALTERNATIVES, keep=True)
    if bodies is None:
        message = f"this clause has more than {_MOST_ALTERNATIVES:,} alternatives"
        raise NoEquivalent("E0710", message, given.span, "write several clauses")
    return bodies


def _extracted(
    literal: tree.Literal, found: list[tuple[str, tree.AggregateTerm]], clause: ClauseVariables
) -> list[tree.Literal]:
    """Return a literal with variables instead of aggregates, which are added to ``found``; none for a literal that
    only says which variable has the value of an aggregate."""
    if isinstance(literal, tree.ComparisonLiteral) and literal.op == "=" and not literal.negated:
        for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(one, tree.VariableTerm) and isinstance(other, tree.AggregateTerm):
                found.append((one.name, other))
                return []
    extra: list[tree.Literal] = []

    def without(argument: tree.Argument) -> tree.Argument:
        return _without_aggregates(argument, extra, clause)

    match literal:
        case tree.AtomLiteral():
            literal = replace(literal, arguments=tuple(map(without, literal.arguments)))
        case tree.ComparisonLiteral():
            literal = replace(literal, left=without(literal.left), right=without(literal.right))
        case tree.NegationLiteral() if isinstance(literal.literal, tree.AtomLiteral):
            inner = literal.literal
            literal = replace(literal, literal=replace(inner, arguments=tuple(map(without, inner.arguments))))
    for equality in extra:
        _extracted(equality, found, clause)
    return [literal]


def _without_aggregates(argument: tree.Argument, before: list[tree.Literal], clause: ClauseVariables) -> tree.Argument:
    """Return an argument with variables instead of aggregates; what they are equal to is added to ``before``."""
    match argument:
        case tree.AggregateTerm():
            variable = tree.VariableTerm(clause.fresh(argument.function), argument.span)
            before.append(tree.ComparisonLiteral("=", variable, argument, argument.span))
            return variable
        case tree.CallTerm():
            inner = tuple(_without_aggregates(a, before, clause) for a in argument.arguments)
            return replace(argument, arguments=inner)
        case tree.CastTerm():
            return replace(argument, value=_without_aggregates(argument.value, before, clause))
        case tree.RecordTerm() if argument.items is not None:
            items = tuple(_without_aggregates(a, before, clause) for a in argument.items)
            return replace(argument, items=items)
    return argument


def _order(outer: tree.Body) -> Callable[[str], tuple[int, str]]:
    """Return a key that sorts variables by where they first occur in a body."""
    places: dict[str, int] = {}
    for node in walk(outer):
        if isinstance(node, tree.VariableTerm):
            places.setdefault(node.name, len(places))
    return lambda name: (places.get(name, len(places)), name)


def _has_record(literal: tree.Literal) -> bool:
    return any(isinstance(node, tree.RecordTerm) for node in walk((literal,)))
