"""Let conditions on the time select from stored relations, by bounds.

Before::

    live_1: live(W) :- granted(W, U?), now(T), U? != null, U = value(U?), T < U.

After::

    granted_timed: granted_timed(who, until) :- granted(who, until), now(?bound), until != null, until? = value(until),
        until? > ?bound.
    live_1: live(W) :- granted_timed(W, U?), U? != null, U = value(U?).

``now`` and relations of bounds have one tuple. A ``timed`` relation changes with the one that it selects from, and
when its bound moves: then only by the tuples between the bound before and the bound after.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..diagnostics import Diagnostics
from ..ir import typed
from ..naming import unused

FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
"""The operators with their sides exchanged."""

NEGATED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "!=": "="}
"""The operators of the opposite comparisons."""

ADVICE = (
    "compare a column, alone at its side, with the time or with what is computed of it: a row counts as long as that "
    "holds"
)


def bound_times(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with conditions on the time in rules of their own; report (E0507) other uses of the time."""
    clock = next((relation for relation in program.relations if relation.clock), None)
    if clock is None:
        return program
    if program.process:
        return refuse_time(program, diagnostics)
    return _Bounding(program, clock.name, diagnostics).bounded()


def refuse_time(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program of a process or of nodes, which have no time in common; report one that reads it (E0507)."""
    for relation in program.relations:
        if relation.clock:
            help = "let another relation have the time, and feed it"
            diagnostics.report("E0507", "processes and nodes do not read the time", relation.span, help=help)
    return program


def crossing(rule: typed.TypedRule) -> typed.TypedRule:
    """Return the rule for the tuples of a ``timed`` relation that meet the condition of its ``rule`` for the first of
    two bounds and not for the second."""
    source, bound, *conditions, comparison = rule.body
    assert isinstance(bound, typed.Atom) and isinstance(comparison, typed.Comparison)
    (before,) = bound.terms
    assert isinstance(before, typed.Variable)
    after = replace(before, name=f"{before.name}?after")
    opposite = replace(comparison, op=NEGATED[comparison.op], right=after)
    return replace(rule, body=(bound, replace(bound, terms=(after,)), source, *conditions, comparison, opposite))


class _Bounding:
    """The relations of bounds, and those that select by them, with their rules."""

    def __init__(self, program: typed.TypedProgram, clock: str, diagnostics: Diagnostics) -> None:
        self.program, self.clock, self.diagnostics = program, clock, diagnostics
        self.names = {relation.name for relation in program.relations}
        self.labels = {rule.label for rule in program.rules}
        self.relations = dict(program.by_name)
        self.bounds: dict[str, str] = {}
        self.selections: dict[tuple[str, int, str, str], str] = {}
        self.made: list[typed.TypedRule] = []

    def bounded(self) -> typed.TypedProgram:
        """Return the program."""
        rules = tuple(self.rule(rule) for rule in self.program.rules)
        for name in {rule.head.relation for rule, was in zip(rules, self.program.rules, strict=True) if rule != was}:
            if not self.relations[name].written:
                self.relations[name] = replace(self.relations[name], written=self.program.rules_of(name))
        return replace(self.program, relations=tuple(self.relations.values()), rules=(*self.made, *rules))

    def rule(self, rule: typed.TypedRule) -> typed.TypedRule:
        """Return a rule without the time."""
        clocks = [atom for atom in rule.atoms if atom.relation == self.clock]
        for negation in rule.negations:
            if negation.atom.relation == self.clock:
                self.refuse("the time cannot be negated", negation)
        if not clocks:
            return rule
        stored = {str(term) for atom in rule.atoms if atom not in clocks for term in atom.terms}
        equal: list[typed.Literal] = []
        named = {str(atom.terms[0]) for atom in clocks} - stored
        given = {x: equated for x in rule.body if (equated := value_of(x)) and equated.variable.name in named}
        if given:
            # What equals the time, and may be null, is assigned instead.
            rest = [x for x in rule.body if x not in given and x not in rule.atoms]
            rule = replace(rule, body=(*rule.atoms, *map(is_there, given.values()), *given.values(), *rest))
            stored |= {assignment.variable.name for assignment in given.values()}
        times: dict[str, typed.Atom | typed.Assignment] = {}
        for atom in clocks:
            (term,) = atom.terms
            if isinstance(term, typed.Variable) and term.name in stored:
                time = replace(term, name=f"{term.name}?now")
                equal.append(typed.Comparison("=", term, time, atom.span))
                times[time.name] = replace(atom, terms=(time,))
            elif isinstance(term, typed.Variable):
                times[term.name] = atom
            elif not isinstance(term, typed.Wildcard):
                self.refuse("the time is compared with a value", atom)
        for literal in rule.body:
            if isinstance(literal, typed.Assignment) and is_of_time(literal.value, times):
                times[literal.variable.name] = literal
        body = [x for x in rule.body if x not in clocks and x not in times.values()] + equal
        for literal in [x for x in body if uses(x, times)]:
            selected = self.selected(literal, body, times) if isinstance(literal, typed.Comparison) else None
            if selected is None:
                self.refuse("the time is not compared with a column", literal)
                return rule
            place, atom = selected
            body[place] = atom
            body.remove(literal)
        if uses(rule.head, times):
            self.refuse("the time is in a result, all of which would change with each batch", rule.head)
        return replace(rule, body=tuple(body))

    def refuse(self, message: str, at: typed.Literal | typed.Head) -> None:
        """Report a use of the time that is not kept by bounds."""
        self.diagnostics.report("E0507", message, at.span, help=ADVICE)

    def selected(
        self,
        comparison: typed.Comparison,
        body: list[typed.Literal],
        times: dict[str, typed.Atom | typed.Assignment],
    ) -> tuple[int, typed.Atom] | None:
        """Return a literal in the place of one of a body, by its number, which has only what meets a comparison with
        the time; None if no column is compared."""
        stored, op, time = comparison.left, comparison.op, comparison.right
        if is_of_time(stored, times):
            stored, op, time = time, FLIPPED[op], stored
        if not is_of_time(time, times):
            return None
        given = {x.variable.name: x.value for x in body if isinstance(x, typed.Assignment)}
        match given.get(str(stored), stored):
            case typed.Call(function=typed.VALUE, arguments=(typed.Variable() as column,)):
                pass
            case typed.Variable() as column:
                pass
            case _:
                return None
        for number, literal in enumerate(body):
            terms = [str(term) for term in literal.terms] if isinstance(literal, typed.Atom) else []
            if isinstance(literal, typed.Atom) and column.name in terms:
                bound = self.bound(time, times)
                name = self.selection(literal.relation, terms.index(column.name), op, bound, stored.type)
                return number, replace(literal, relation=name)
        return None

    def bound(self, time: typed.Expression, times: dict[str, typed.Atom | typed.Assignment]) -> str:
        """Return the relation with the value of an expression of the time."""
        if isinstance(time, typed.Variable) and isinstance(times[time.name], typed.Atom):
            return self.clock
        needed: list[typed.Atom | typed.Assignment] = []
        wanted = {variable.name for variable in typed.variables_of(time)}
        for name, literal in reversed(times.items()):
            if name in wanted:
                needed.insert(0, literal)
                if isinstance(literal, typed.Assignment):
                    wanted |= {variable.name for variable in typed.variables_of(literal.value)}
        key = f"{time} of {[str(literal) for literal in needed]}"
        if key not in self.bounds:
            name = self.name(f"{self.clock}_bound")
            self.bounds[key] = name
            clock = self.relations[self.clock]
            columns = (typed.TypedColumn("bound", time.type),)
            self.relations[name] = typed.TypedRelation(
                name, columns, "derived", False, clock.span, declared=False, hidden=True, why=f"{time}"
            )
            head = typed.Head(name, (time,), time.span)
            self.add(name, head, tuple(needed), f"the bound {time}")
        return self.bounds[key]

    def selection(self, name: str, place: int, op: str, bound: str, kind: typed.Type) -> str:
        """Return the relation with the tuples of one whose value at a place, of a type, is in some order with a
        bound."""
        key = (name, place, op, bound)
        if key not in self.selections:
            relation = self.relations[name]
            made = self.name(f"{name}_timed")
            self.selections[key] = made
            span, columns = relation.span, relation.columns
            variables = tuple(typed.Variable(column.name, column.type, span) for column in columns)
            value, conditions = variables[place], list[typed.Literal]()
            if value.type.optional and not kind.optional:
                conditions.append(typed.Comparison("!=", value, typed.ListLiteral((), value.type, span), span))
                value = typed.Variable(f"{value.name}?", kind, span)
                call = typed.Call(typed.VALUE, (variables[place],), kind, span)
                conditions.append(typed.Assignment(value, call, span))
            limit = typed.Variable("?bound", self.relations[bound].columns[0].type, span)
            what = self.bounds_text(bound)
            self.relations[made] = typed.TypedRelation(
                made,
                columns,
                "derived",
                False,
                span,
                location=relation.location,
                at=relation.at,
                declared=False,
                hidden=True,
                why=f"the tuples of {name} whose {columns[place].name} is {op} {what}",
                shown_as=relation.shown_as or relation.public or name,
                timed=True,
            )
            body = (
                typed.Atom(name, variables, span),
                typed.Atom(bound, (limit,), span),
                *conditions,
                typed.Comparison(op, value, limit, span),
            )
            text = f"{self.relations[made].shown_as}, as long as {columns[place].name} {op} {what}"
            self.add(made, typed.Head(made, variables, span), body, text)
        return self.selections[key]

    def bounds_text(self, bound: str) -> str:
        """Return a bound in words."""
        return self.relations[bound].why or self.clock

    def add(self, label: str, head: typed.Head, body: tuple[typed.Literal, ...], text: str) -> None:
        """Note a rule."""
        name = unused(label, self.labels)
        self.labels.add(name)
        self.made.append(typed.TypedRule(name, head, body, head.span, text, "made for a condition on the time"))

    def name(self, wish: str) -> str:
        """Return the name of a new relation."""
        name = unused(wish, self.names)
        self.names.add(name)
        return name


def value_of(literal: typed.Literal) -> typed.Assignment | None:
    """Return a comparison of a variable with what may be null as an assignment of its value; None for others."""
    if not isinstance(literal, typed.Comparison) or literal.op != "=":
        return None
    for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
        match one, other:
            case typed.Variable(), typed.Call(function=typed.VALUE):
                return typed.Assignment(one, other, literal.span)
            case typed.ListLiteral(items=(typed.Variable() as item,)), typed.Variable() if other.type.optional:
                return typed.Assignment(item, typed.Call(typed.VALUE, (other,), item.type, one.span), literal.span)
    return None


def is_there(assignment: typed.Assignment) -> typed.Comparison:
    """Return the condition that an assignment of the value of what may be null has one."""
    (column,) = typed.parts_of(assignment.value)
    assert isinstance(column, typed.Variable)
    return typed.Comparison("!=", column, typed.ListLiteral((), column.type, column.span), assignment.span)


def uses(node: typed.Literal | typed.Head, times: Iterable[str]) -> bool:
    """Return whether a literal or a head has a variable that depends on the time."""
    parts = node.arguments if isinstance(node, typed.Head) else (node,)
    return any(variable.name in times for part in parts for variable in typed.variables_of(part))


def is_of_time(expression: typed.Expression, times: Iterable[str]) -> bool:
    """Return whether an expression depends on the time, and on no other variable."""
    names = {variable.name for variable in typed.variables_of(expression)}
    return bool(names) and names <= {*times}
