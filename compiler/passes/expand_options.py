"""Rewrite rules over optional columns, whose values may be null, to rules over lists of at most one value.

Before::

    input relation person(name: string, email: string?)
    input relation banned(email: string)
    output relation mailed(name: string, email: string?)
    output relation namesakes(a: string, b: string)

    mailed_1: mailed(N, E) :- person(N, E), !banned(E).
    namesakes_1: namesakes(A, B) :- person(A, E), person(B, E), E != "none".

After (``E?`` is a list; an empty one prints as ``null``, one with a value as that value)::

    mailed_1.1: mailed(N, E?) :- person(N, E?), E? = null.
    mailed_1.2: mailed(N, E?) :- person(N, E?), E? != null, E = value(E?), !banned(E).
    namesakes_1: namesakes(A, B) :- person(A, E?), person(B, E?), E? != null, E = value(E?), E != "none".

A null equals nothing, so a variable has a value if it occurs in several atoms, in a comparison (except for the test
``E = null``), in an expression of the body or in an aggregate. A variable of which this is not known is passed on to
optional columns only. A negated atom holds if one of its variables is null, so its rule becomes one rule for each case.
As lists, nulls are values like any others: two of them are the same, a tuple that has one is found again, and groups
have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from ..diagnostics import Diagnostics
from ..ir import typed
from ..source import Span
from .resolve import MAX_ALTERNATIVES, as_alternative

_OPTIONAL = typed.Type("list", element=typed.UNKNOWN, optional=True)
"""A type of which only is known that its values may be null."""

_Columns = set[tuple[str, int]]
"""The columns that may be null, by relation and position."""


def expand_options(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with plain columns only; report nulls where a value is needed (E0316), where they have no
    meaning (E0317), and optional columns that cannot be (E0318)."""
    columns = {
        (relation.name, place)
        for relation in program.relations
        for place, column in enumerate(relation.columns)
        if column.type.optional
    }
    if not columns and not any(map(_has_null, program.rules)):
        return program
    uses = [_Uses.of(rule) for rule in program.rules]
    _infer(program, uses, columns)
    reporter = _Mistakes(diagnostics)
    _check_columns(program, columns, reporter)
    rules: list[typed.TypedRule] = []
    for rule, used in zip(program.rules, uses, strict=True):
        rules += _Cases(program, rule, used, columns, reporter).rules()
    return replace(program, rules=tuple(rules))


_PLAIN = "declare it without `?`"


def _nodes(node: typed.Node) -> Iterator[typed.Node]:
    yield node
    for part in typed.parts_of(node):
        yield from _nodes(part)


def _is_null(node: typed.Node) -> bool:
    return isinstance(node, typed.ListLiteral) and node.is_null


def _has_null(node: typed.Node) -> bool:
    return any(map(_is_null, _nodes(node)))


def _broken(span: Span) -> typed.Constant:
    """Return a stand-in for a value with an error that is reported."""
    return typed.Constant(False, typed.BROKEN, span)


def _names(node: typed.Node) -> set[str]:
    return {variable.name for variable in typed.variables_of(node)}


def _some(value: typed.Expression) -> typed.ListLiteral:
    """Return a value as that of an optional column."""
    return typed.ListLiteral((value,), _OPTIONAL, value.span)


def _null(span: Span) -> typed.ListLiteral:
    return typed.ListLiteral((), _OPTIONAL, span)


def _tested(literal: typed.Literal) -> str | None:
    """Return the variable that a comparison with null tests, None if it is none."""
    if isinstance(literal, typed.Comparison) and literal.op in ("=", "!="):
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(side, typed.Variable) and _is_null(other):
                return side.name
    return None


class _Mistakes:
    """Reports each problem once, even if several cases of a rule have it."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics

    def report(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        """Report a problem, unless it is known."""
        if not any(item.code == code and item.span == span for item in self.diagnostics.items):
            self.diagnostics.report(code, message, span, help=help)


@dataclass(frozen=True)
class _Uses:
    """The uses of a rule's variables: the columns of positive atoms, ``assigned`` variables, and those that have a
    ``value`` because the body or an aggregate needs it. Those needed by aggregates alone are not in ``body``."""

    places: Mapping[str, list[tuple[str, int]]]
    assigned: frozenset[str]
    body: frozenset[str]
    value: frozenset[str]

    @classmethod
    def of(cls, rule: typed.TypedRule) -> _Uses:
        """Return the uses of a rule's variables."""
        places: dict[str, list[tuple[str, int]]] = {}
        for atom in rule.atoms:
            for index, term in enumerate(atom.terms):
                if isinstance(term, typed.Variable):
                    places.setdefault(term.name, []).append((atom.relation, index))
        body = {name for name, uses in places.items() if len(uses) > 1}
        assigned = set()
        for literal in rule.body:
            name = _tested(literal)
            if name is not None:
                body |= {name} if isinstance(literal, typed.Comparison) and literal.op == "!=" else set()
            elif isinstance(literal, typed.Assignment):
                assigned.add(literal.variable.name)
                body |= _names(literal)
            elif isinstance(literal, typed.Comparison):
                body |= _names(literal)
        aggregated = {name for aggregate in rule.aggregates for name in _names(aggregate)}
        return cls(places, frozenset(assigned), frozenset(body), frozenset(body | aggregated))

    def may_be_null(self, columns: _Columns, *, aggregated: bool = True) -> list[str]:
        """Return the variables that may be null; ``aggregated`` says whether those of aggregates have values."""
        certain = self.value if aggregated else self.body
        return [name for name, uses in self.places.items() if name not in certain and uses[0] in columns]

    def is_bound(self, name: str) -> bool:
        """Return whether a positive atom or an assignment binds a variable."""
        return name in self.places or name in self.assigned


def _infer(program: typed.TypedProgram, uses: Iterable[_Uses], columns: _Columns) -> None:
    """Add the columns of undeclared relations that some rule may give a null."""
    undeclared = {relation.name for relation in program.relations if not relation.declared and not relation.hidden}
    rules = [(r, u) for r, u in zip(program.rules, uses, strict=True) if r.head.relation in undeclared]
    before = -1
    while before != len(columns):
        before = len(columns)
        for rule, used in rules:
            nulls = used.may_be_null(columns)
            for place, argument in enumerate(rule.head.arguments):
                if _is_null(argument) or (isinstance(argument, typed.Variable) and argument.name in nulls):
                    columns.add((rule.head.relation, place))


def _check_columns(program: typed.TypedProgram, columns: _Columns, reporter: _Mistakes) -> None:
    """Report (E0318) the columns that may be null where a relation needs values."""
    for name, place in sorted(columns):
        relation = program.relation(name)
        column = f"column `{relation.columns[place].name}` of `{name}`"
        if program.process:
            message = f"{column} may be null, which processes cannot send each other"
            reporter.report("E0318", message, relation.span, _PLAIN)
        elif relation.location == place:
            reporter.report("E0318", f"{column} is the location, which cannot be null", relation.span, _PLAIN)
        elif place in relation.key:
            reporter.report("E0318", f"{column} is part of the key, which cannot be null", relation.span, _PLAIN)
    for rule in program.rules:
        head = program.relation(rule.head.relation)
        if not head.hidden or head.declared:
            continue
        for atom in rule.read:
            for place, term in enumerate(atom.terms):
                if (atom.relation, place) in columns and isinstance(term, typed.Variable):
                    column = f"column `{program.relation(atom.relation).columns[place].name}` of `{atom.relation}`"
                    message = f"{column} may be null, so no path leads along it"
                    help = "define a relation of the tuples with values, and use that"
                    reporter.report("E0318", message, atom.span, help)


@dataclass
class _Case:
    """A rule in the making: the variables that are ``null`` in it and those that may be, and its literals."""

    null: frozenset[str]
    nullable: frozenset[str]
    opened: dict[str, Span] = field(default_factory=dict)
    atoms: list[typed.Literal] = field(default_factory=list)
    others: list[typed.Literal] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def option(self, variable: typed.Variable) -> typed.Variable:
        """Return the variable for the optional value of a variable."""
        self.opened.setdefault(variable.name, variable.span)
        return replace(variable, name=f"{variable.name}?")

    def fresh(self, atom: typed.Atom, place: int, span: Span) -> typed.Variable:
        """Return a new variable for a constant of an atom."""
        wish = f"{atom.relation.replace('.', '_')}_{place + 1}"
        while wish in self.taken:
            wish += "_"
        self.taken.add(wish)
        return typed.Variable(f"{wish}?", typed.UNKNOWN, span, for_argument=True)


class _Cases:
    """The rules that a rule over optional columns becomes."""

    def __init__(
        self,
        program: typed.TypedProgram,
        rule: typed.TypedRule,
        used: _Uses,
        columns: _Columns,
        reporter: _Mistakes,
    ) -> None:
        self.program, self.rule, self.used, self.columns, self.reporter = program, rule, used, columns, reporter
        self.nullable = used.may_be_null(columns)

    def rules(self) -> Iterator[typed.TypedRule]:
        """Yield the rules, one for each choice of the variables of negated atoms that are null."""
        self._check_nulls()
        self._check_aggregates()
        read = {(atom.relation, place) for atom in self.rule.read for place in range(len(atom.terms))}
        read |= {(self.rule.head.relation, place) for place in range(len(self.rule.head.arguments))}
        if not read & self.columns and not _has_null(self.rule):
            yield self.rule
            return
        negated = {name for negation in self.rule.negations for name in _names(negation)}
        split = [name for name in self.nullable if name in negated]
        number = 2 ** len(split)
        if number > MAX_ALTERNATIVES:
            message = f"the variables of negated atoms that may be null need more than {MAX_ALTERNATIVES} rules"
            self.reporter.report("E0710", message, self.rule.head.span, "define a relation for a part of it")
            split, number = split[:1], 2
        for place, chosen in enumerate(product((True, False), repeat=len(split)), 1):
            null = frozenset(name for name, is_null in zip(split, chosen, strict=True) if is_null)
            rule = self._case(_Case(null, frozenset(self.nullable) - set(split)))
            if number > 1:
                rule = as_alternative(rule, place, number)
            yield rule

    # ---- checks ----------------------------------------------------------------------------------------------------

    def _check_nulls(self) -> None:
        """Report (E0317) nulls in the body that are no tests of a variable that may be null."""
        for literal in self.rule.body:
            name = _tested(literal)
            if name is None:
                self._check_null_in(literal)
            elif self.used.is_bound(name) and not self.columns & set(self.used.places.get(name, ())):
                message = f"`{name}` is never null"
                if name in self.used.places:
                    relation, place = self.used.places[name][0]
                    column = self.program.relation(relation).columns[place].name
                    message = f"column `{column}` of `{relation}` is never null"
                help = "the type of a column that may be null ends with `?`, as in `email: string?`"
                self.reporter.report("E0317", message, literal.span, help)
        for argument in self.rule.head.arguments:
            if not _is_null(argument):
                self._check_null_in(argument)

    def _check_null_in(self, node: typed.Node) -> None:
        for part in _nodes(node):
            if _is_null(part) and isinstance(part, typed.ListLiteral):
                help = "null is written in a head, or after `=` or `!=` to test a variable of a positive atom"
                self.reporter.report("E0317", "`null` is no value to compute or compare with", part.span, help)

    def _check_aggregates(self) -> None:
        """Report (E0316) aggregates of values that may be null beside others, as they would need a result without any
        value."""
        if len(self.rule.aggregates) < 2:
            return
        nulls = self.used.may_be_null(self.columns, aggregated=False)
        for aggregate in self.rule.aggregates:
            for name in sorted(_names(aggregate) & set(nulls)):
                message = f"`{name}` may be null, so `{aggregate}` may lack a value where another aggregate has one"
                help = f"add `{name} != null` to the body, or give each aggregate a relation of its own"
                self.reporter.report("E0316", message, aggregate.span, help)

    # ---- rewriting -------------------------------------------------------------------------------------------------

    def _case(self, case: _Case) -> typed.TypedRule:
        case.taken = set(_names(self.rule))
        case.atoms += [self._atom(atom, case) for atom in self.rule.atoms]
        for literal in self.rule.body:
            match literal:
                case typed.Atom():
                    continue
                case typed.Negation():
                    if not _names(literal) & case.null:
                        case.others.append(replace(literal, atom=self._negated(literal.atom, case)))
                case _:
                    self._condition(literal, case)
        head = self._head(case)
        used = {name for literal in case.others for name in _names(literal)} | _names_of(head)
        guards, last = self._guards(case, used)
        return replace(self.rule, head=head, body=(*case.atoms, *guards, *case.others, *last))

    def _atom(self, atom: typed.Atom, case: _Case) -> typed.Atom:
        """Return a positive atom; variables and constants of optional columns become lists."""
        terms: list[typed.Term] = []
        for place, term in enumerate(atom.terms):
            if (atom.relation, place) not in self.columns or isinstance(term, typed.Wildcard):
                terms.append(term)
            elif isinstance(term, typed.Variable):
                terms.append(case.option(term))
            else:
                variable = case.fresh(atom, place, term.span)
                terms.append(variable)
                case.others.append(typed.Comparison("=", variable, _some(term), term.span))
        return replace(atom, terms=tuple(terms))

    def _negated(self, atom: typed.Atom, case: _Case) -> typed.Atom:
        """Return a negated atom of which no variable is null."""
        terms: list[typed.Term] = []
        for place, term in enumerate(atom.terms):
            plain = (atom.relation, place) not in self.columns or isinstance(term, typed.Wildcard)
            if plain or (isinstance(term, typed.Variable) and not self.used.is_bound(term.name)):
                terms.append(term)
            elif isinstance(term, typed.Variable) and term.name in case.opened:
                terms.append(case.option(term))
            else:
                value = term
                assert isinstance(value, typed.Variable | typed.Constant)
                if isinstance(value, typed.Variable):
                    option = replace(value, name=f"{value.name}?")
                else:
                    option = case.fresh(atom, place, value.span)
                assigned = [item.variable.name for item in case.others if isinstance(item, typed.Assignment)]
                if option.name not in assigned:
                    case.others.append(typed.Assignment(option, _some(value), value.span))
                terms.append(option)
        return replace(atom, terms=tuple(terms))

    def _condition(self, literal: typed.Literal, case: _Case) -> None:
        """Add a comparison or an assignment. That a variable is not null is said by the guards."""
        name = _tested(literal)
        if isinstance(literal, typed.Assignment) and _has_null(literal):
            case.others.append(replace(literal, value=_broken(literal.span)))
        elif name is None and not _has_null(literal):
            case.others.append(literal)
        elif name is None or not self.columns & set(self.used.places.get(name, ())):
            return  # It is reported.
        elif isinstance(literal, typed.Comparison) and literal.op == "=":
            tested = case.option(typed.Variable(name, typed.UNKNOWN, literal.span))
            case.others.append(typed.Comparison("=", tested, _null(literal.span), literal.span))

    def _guards(self, case: _Case, used: set[str]) -> tuple[list[typed.Literal], list[typed.Literal]]:
        """Return the literals that say which variables have values, and give those to the ``used`` ones: those that
        precede the others, and those that follow."""
        guards: list[typed.Literal] = []
        last: list[typed.Literal] = []
        for name, span in case.opened.items():
            option = typed.Variable(f"{name}?", typed.UNKNOWN, span)
            plain = typed.Variable(name, typed.UNKNOWN, span)
            if name in case.null:
                guards.append(typed.Comparison("=", option, _null(span), span))
            elif name in self.used.assigned or set(self.used.places[name]) - self.columns:
                last.append(typed.Comparison("=", option, _some(plain), span))
            elif name not in case.nullable:
                guards.append(typed.Comparison("!=", option, _null(span), span))
                if name in used:
                    value = typed.Call(typed.VALUE, (option,), typed.UNKNOWN, span)
                    guards.append(typed.Assignment(plain, value, span))
        return guards, last

    def _head(self, case: _Case) -> typed.Head:
        head = self.rule.head
        relation = self.program.relation(head.relation)
        nulls = case.nullable | case.null
        arguments: list[typed.Expression | typed.Aggregate] = []
        for place, argument in enumerate(head.arguments):
            optional = (head.relation, place) in self.columns
            may_be = sorted(_names(argument) & nulls)
            if isinstance(argument, typed.Aggregate):
                if optional:
                    message = f"column `{relation.columns[place].name}` may be null, but an aggregate never is"
                    self.reporter.report("E0316", message, argument.span, "declare the column without `?`")
                arguments.append(_broken(argument.span) if optional else argument)
            elif optional and _is_null(argument):
                arguments.append(argument)
            elif _has_null(argument) and not _is_null(argument):
                arguments.append(_broken(argument.span))  # It is reported.
            elif optional and isinstance(argument, typed.Variable) and argument.name in case.opened:
                arguments.append(case.option(argument))
            elif may_be or _is_null(argument):
                what = f"`{may_be[0]}` may be null" if may_be else "this is null"
                where = "is not in a column that may be" if isinstance(argument, typed.Variable) or not may_be else ""
                if not relation.hidden or relation.declared:
                    self.reporter.report("E0316", *self._unfit(what, where, argument, place, may_be))
                arguments.append(_broken(argument.span))
            else:
                arguments.append(_some(argument) if optional else argument)
        return replace(head, arguments=tuple(arguments))

    def _unfit(
        self, what: str, where: str, argument: typed.Expression, place: int, may_be: list[str]
    ) -> tuple[str, Span, str]:
        """Return the message, the span and the help for a head argument that may be null and must not be."""
        relation = self.program.relation(self.rule.head.relation)
        column = f"column `{relation.columns[place].name}` of `{relation.name}`"
        help = f"add `{may_be[0]} != null` to the body" if may_be else "write a value"
        if where:
            if relation.declared:
                help += ", or declare the column with `?`"
            return f"{what}, but {column} never is", argument.span, help
        return f"{what}, and `{argument}` then has no value", argument.span, help


def _names_of(head: typed.Head) -> set[str]:
    return {name for argument in head.arguments for name in _names(argument)}
