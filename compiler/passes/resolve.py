"""Resolve names: make a typed program, whose types are still open, from syntax.

Before::

    input relation link(@src: int, dst: int)
    near(S, D) :- link(S, D) ; link(S, Z), link(Z, D).
    r1: far(S, D) :- near(S, D), near(D, D + 1), !link(S, D).

After (the columns of undeclared relations and all variables have type ``unknown``)::

    input relation link(@src: int, dst: int)
    relation near(S: unknown, D: unknown)
    relation far(S: unknown, D: unknown)

    near_1.1: near(S, D) :- link(S, D).
    near_1.2: near(S, D) :- link(S, Z), link(Z, D).
    r1: far(S, D) :- near(S, D), near(D, near_2), near_2 = D + 1, !link(S, D).

The columns of an undeclared relation are named after the head variables of its first rule that is not a fact. Each
alternative of a disjunction becomes a rule; expressions among the arguments of body atoms become new variables. A wrong
name is replaced by a stand-in of type ``broken``, so that the rest of the rule is still checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..diagnostics import Diagnostics, Note
from ..diagnostics.foreign import word_advice
from ..functions import FUNCTIONS
from ..ir import syntax, typed
from ..ir.rule_origin import Making
from ..naming import counted
from ..source import Span
from .declarations import Declarations, constant_of, did_you_mean, name_span
from .order_body import order_body
from .syntax_names import literal_names, variable_names

AGGREGATE_FUNCTIONS = ("min", "max", "sum", "count", "avg", "first")
"""The aggregate functions that a head may use."""

CLOCK = "now"
"""The built-in relation with the time, unless the program has one of that name."""

MAX_ALTERNATIVES = 256
"""The maximum number of rules that the disjunctions of a rule may become."""


def resolve(program: syntax.SyntaxProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with names resolved and bodies ordered; undeclared columns have type ``unknown``."""
    declarations = Declarations(program, diagnostics)
    relations = declarations.relations()
    functions = declarations.functions()
    rules = _Rules(program, relations, functions, diagnostics)
    typed_rules = tuple(rules.rules())
    return typed.TypedProgram(
        relations=tuple(rules.relations.values()),
        rules=typed_rules,
        sources=program.sources,
        functions=tuple(functions.values()),
        recursion=program.recursion,
        spanning=program.spanning,
        process=program.process,
        narrowed=program.narrowed,
    )


@dataclass
class _Scope:
    """The variable names of one rule, used to choose fresh names for added variables."""

    names: set[str]

    def fresh(self, wish: str) -> str:
        """Return ``wish``, with underscores appended until no variable of the rule has that name; reserve it."""
        while wish in self.names:
            wish += "_"
        self.names.add(wish)
        return wish


class _Rules:
    """The typed rules of a program, made from its syntax."""

    def __init__(
        self,
        program: syntax.SyntaxProgram,
        relations: dict[str, typed.TypedRelation],
        functions: Mapping[str, typed.TypedFunction],
        diagnostics: Diagnostics,
    ) -> None:
        self.functions = functions
        self.source_rules = [statement for statement in program.statements if isinstance(statement, syntax.RuleNode)]
        self.domains = [statement for statement in program.statements if isinstance(statement, syntax.Domain)]
        self.relations = dict(relations)
        self.known = dict(relations)
        self.complete = program.complete
        self.diagnostics = diagnostics

    def rules(self) -> Iterable[typed.TypedRule]:
        """Yield the rules in source order, one for each alternative of a disjunction."""
        self._aggregates_agree()
        for domain in self.domains:
            self._relation(domain.atom)
        for rule, label in zip(self.source_rules, self._labels(), strict=True):
            alternatives = list(_alternatives(rule.body))
            if len(alternatives) > MAX_ALTERNATIVES:
                message = f"the disjunctions of this rule expand to more than {MAX_ALTERNATIVES} alternatives"
                help = "define a relation for a part of it"
                self.diagnostics.report("E0710", message, rule.head.span, help=help)
                alternatives = alternatives[:1]
            for place, body in enumerate(alternatives, 1):
                resolved = self._rule(rule, body, label)
                yield as_alternative(resolved, place, len(alternatives)) if len(alternatives) > 1 else resolved

    def _labels(self) -> list[str]:
        """Return a label per rule: the user's, or the head with the rule's number there; report duplicates (E0206)."""
        places: dict[str, int] = {}
        labels: list[str] = []
        for rule in self.source_rules:
            head = rule.head.relation
            places[head] = places.get(head, 0) + 1
            labels.append(rule.label or f"{head}_{places[head]}")
        first: dict[str, syntax.RuleNode] = {}
        for rule, label in zip(self.source_rules, labels, strict=True):
            if rule.label is None:
                first.setdefault(label, rule)
        unlabelled = dict(first)
        for rule in self.source_rules:
            if rule.label is None:
                continue
            span = rule.span.start(rule.label)
            if rule.label in unlabelled:
                other = unlabelled[rule.label]
                message = f"the label `{rule.label}` is the name of a rule without a label"
                notes = (Note(f"this rule is called `{rule.label}` after its head and its place", other.head.span),)
                self.diagnostics.report("E0206", message, span, notes=notes)
            elif first.setdefault(rule.label, rule) is not rule:
                message = f"the label `{rule.label}` names two rules"
                notes = (Note("first used here", first[rule.label].span.start(rule.label)),)
                self.diagnostics.report("E0206", message, span, notes=notes)
        return labels

    def _aggregates_agree(self) -> None:
        """Report E0524 if rules of one relation differ in their aggregates or the positions of these."""
        first: dict[str, syntax.AtomNode] = {}
        for rule in self.source_rules:
            head = rule.head
            other = first.setdefault(head.relation, head)
            if len(other.arguments) == len(head.arguments) and _functions(other) != _functions(head):
                message = f"the rules of `{head.relation}` differ in their aggregates"
                notes = (Note("the first rule of this head", other.span),)
                self.diagnostics.report("E0524", message, head.span, notes=notes)
            self._check_no_input(head)

    def _check_no_input(self, head: syntax.AtomNode) -> None:
        """Report (E0207) an aggregate in the head of a relation that takes rows from outside: these have no groups."""
        relation = self.relations.get(head.relation)
        aggregate = next((a for a in head.arguments if isinstance(a, syntax.AggregateNode)), None)
        if relation is not None and relation.accepts_input and not relation.multiset and aggregate is not None:
            message = f"the input relation `{head.relation}` cannot be derived by an aggregate"
            help = "give the aggregate a relation of its own, and derive the tuples of this one from it by another rule"
            notes = (Note("declared here", relation.span),)
            self.diagnostics.report("E0207", message, aggregate.span, help=help, notes=notes)

    def _rule(self, rule: syntax.RuleNode, body: tuple[syntax.Literal, ...], label: str) -> typed.TypedRule:
        scope = _Scope({name for atom in (rule.head,) for name in variable_names(atom.arguments)})
        scope.names |= {name for literal in body for name in literal_names(literal)}
        literals: list[typed.Literal] = []
        for literal in body:
            literals += self._literal(literal, scope)
        head = self._head(rule.head)
        ordered = order_body(literals, self.diagnostics)
        named = rule.label is not None
        return typed.TypedRule(label, head, ordered, rule.span, rule.text, rule.origin, rule.made, named)

    # ---- heads -----------------------------------------------------------------------------------------------------

    def _head(self, atom: syntax.AtomNode) -> typed.Head:
        relation = self._relation(atom)
        arguments: list[typed.Expression | typed.Aggregate] = []
        extremum: syntax.AggregateNode | None = None
        for argument in atom.arguments:
            if isinstance(argument, syntax.AggregateNode):
                arguments.append(self._aggregate(argument))
                extremum = argument if argument.function in ("min", "max", "first") else extremum
                continue
            if isinstance(argument, syntax.WildcardNode):
                help = "write a value or a variable"
                self.diagnostics.report("E0404", "a head cannot contain a wildcard", argument.span, help=help)
                arguments.append(typed.Constant(False, typed.BROKEN, argument.span))
                continue
            if extremum is not None and len(_functions(atom)) - _functions(atom).count(None) > 1:
                what = "is ranked by" if extremum.function == "first" else "is a witness of"
                message = f"this {what} `{extremum.function}`, which must then be the only aggregate"
                help = "to group by it, write it before the aggregates; or join relations with one aggregate each"
                self.diagnostics.report("E0525", message, argument.span, help=help)
            arguments.append(self._expression(argument))
        last = atom.arguments[-1] if atom.arguments else None
        if isinstance(last, syntax.AggregateNode) and last.function == "first" and last.limit:
            message = f"`{_shown(last)}` ranks nothing"
            help = "write behind it what it ranks; what is before it are the groups"
            self.diagnostics.report("E0526", message, last.span, help=help)
        return typed.Head(relation, tuple(arguments), atom.span)

    def _aggregate(self, aggregate: syntax.AggregateNode) -> typed.Expression | typed.Aggregate:
        broken = typed.Constant(False, typed.BROKEN, aggregate.span)
        if aggregate.function not in AGGREGATE_FUNCTIONS:
            message = f"there is no aggregate `{aggregate.function}`"
            help = did_you_mean(aggregate.function, AGGREGATE_FUNCTIONS)
            help = help or "the aggregates are `min`, `max`, `sum`, `count`, `avg` and `first`"
            self.diagnostics.report("E0522", message, aggregate.span, help=help)
            return broken
        if aggregate.function == "first" and not aggregate.limit:
            help = "write how many and by which order, as in `first<3 by S desc>`, and behind it what is ranked"
            self.diagnostics.report("E0526", "`first` requires a number", aggregate.span, help=help)
            return broken
        if aggregate.limit:
            order = tuple(typed.Ordering(self._expression(part.value), part.descending) for part in aggregate.order)
            return typed.Aggregate(
                aggregate.function, None, typed.UNKNOWN, aggregate.span, limit=aggregate.limit, order=order
            )
        if aggregate.argument is None and (aggregate.function != "count" or aggregate.distinct):
            message = f"`{aggregate.function}` requires a value; only `count` takes `*`"
            if aggregate.distinct:
                message = "`distinct` requires a value; all derivations are distinct"
            self.diagnostics.report("E0522", message, aggregate.span)
            return broken
        argument = None if aggregate.argument is None else self._expression(aggregate.argument)
        # `distinct` makes no difference to an extremum.
        distinct = aggregate.distinct and aggregate.function not in ("min", "max")
        return typed.Aggregate(aggregate.function, argument, typed.UNKNOWN, aggregate.span, distinct)

    # ---- bodies ----------------------------------------------------------------------------------------------------

    def _literal(self, literal: syntax.Literal, scope: _Scope) -> list[typed.Literal]:
        """Return the typed literal and the comparisons that define the variables added for its arguments."""
        match literal:
            case syntax.AtomNode():
                if self._is_call(literal):
                    return [self._condition(literal, True, literal.span)]
                atom, added = self._atom(literal, scope)
                return [atom, *added]
            case syntax.NegationNode(atom=syntax.AtomNode() as negated):
                if self._is_call(negated):
                    return [self._condition(negated, False, literal.span)]
                atom, added = self._atom(negated, scope)
                return [*added, typed.Negation(atom, literal.span)]
            case syntax.ComparisonNode():
                left, right = self._expression(literal.left), self._expression(literal.right)
                return [typed.Comparison(literal.op, left, right, literal.span)]
        raise AssertionError(literal)  # Disjunctions have become separate rules, and paths atoms.

    def _is_call(self, atom: syntax.AtomNode) -> bool:
        """Return whether a literal parsed as an atom calls a function; a relation of that name takes precedence."""
        named = atom.relation in FUNCTIONS or atom.relation in self.functions or atom.relation.startswith("f_")
        return named and atom.relation not in self.known and bool(atom.arguments)

    def _condition(self, atom: syntax.AtomNode, wanted: bool, span: Span) -> typed.Literal:
        """Return a call that is used as a literal as a comparison with ``wanted``, False if it is negated."""
        call = self._expression(syntax.CallNode(atom.relation, atom.arguments, atom.span))
        return typed.Comparison("=", call, typed.Constant(wanted, typed.BOOL, span), span)

    def _atom(self, atom: syntax.AtomNode, scope: _Scope) -> tuple[typed.Atom, list[typed.Literal]]:
        relation = self._relation(atom)
        terms: list[typed.Term] = []
        added: list[typed.Literal] = []
        for place, argument in enumerate(atom.arguments, 1):
            if isinstance(argument, syntax.WildcardNode):
                terms.append(typed.Wildcard(typed.UNKNOWN, argument.span))
                continue
            value = self._expression(argument)
            if isinstance(value, typed.Variable | typed.Constant):
                terms.append(value)
                continue
            name = scope.fresh(f"{atom.relation.replace('.', '_')}_{place}")
            variable = typed.Variable(name, typed.UNKNOWN, argument.span, for_argument=True)
            terms.append(variable)
            added.append(typed.Comparison("=", variable, value, argument.span))
        return typed.Atom(relation, tuple(terms), atom.span), added

    def _relation(self, atom: syntax.AtomNode) -> str:
        """Return the relation of an atom; report a missing one or a wrong number of columns and return a stand-in."""
        name, number = atom.relation, len(atom.arguments)
        relation = self.known.get(name)
        if relation is None and (name, number) == (CLOCK, 1):
            time = (typed.TypedColumn("time", typed.TIMESTAMP),)
            relation = typed.TypedRelation(name, time, "input", False, name_span(atom), declared=False, clock=True)
            self.relations[name] = self.known[name] = relation
        if relation is None:
            if self.complete and name not in self.relations:
                message = f"the relation `{name}` is neither declared nor derived"
                tests = (f.name for f in FUNCTIONS.values() if f.tests)
                help = word_advice(name) or did_you_mean(name, self.known) or did_you_mean(name, tests)
                help = help or f"declare it with `input relation {name}(...)`, or give it a rule"
                self.diagnostics.report("E0201", message, name_span(atom), help=help)
            return self._stand_in(atom, name)
        if len(relation.columns) == number:
            return name
        columns = f"{counted(len(relation.columns), 'column')}, but {counted(number, 'argument')} here"
        place = "declared here" if relation.declared else "first derived here"
        notes = (Note(place, relation.span),)
        self.diagnostics.report("E0203", f"`{name}` has {columns}", atom.span, notes=notes)
        return self._stand_in(atom, f"{name}/{number}")

    def _stand_in(self, atom: syntax.AtomNode, name: str) -> str:
        while name in self.relations and len(self.relations[name].columns) != len(atom.arguments):
            name = f"{name}/{len(atom.arguments)}"
        columns = tuple(typed.TypedColumn(f"x{place + 1}", typed.BROKEN) for place in range(len(atom.arguments)))
        self.relations.setdefault(
            name, typed.TypedRelation(name, columns, "derived", False, name_span(atom), hidden=True)
        )
        return name

    # ---- expressions -----------------------------------------------------------------------------------------------

    def _call(self, call: syntax.CallNode) -> typed.Expression:
        arguments = tuple(self._expression(argument) for argument in call.arguments)
        name = call.name
        if name in FUNCTIONS or name in self.functions:
            return typed.Call(name, arguments, typed.UNKNOWN, call.span, external=name in self.functions)
        help = None
        if name in self.relations:
            help = f"`{name}` is a relation, which has no value; write it as a separate literal"
        elif name in AGGREGATE_FUNCTIONS:
            help = f"write an aggregate as `{name}<...>`, in a head"
        elif not self.complete:  # An unreadable statement may declare it.
            return typed.Constant(False, typed.BROKEN, call.span)
        help = help or did_you_mean(name, {*FUNCTIONS, *self.functions})
        help = help or f"declare it with `extern function {name}(...): type` if you have it in Python"
        self.diagnostics.report("E0212", f"there is no function `{name}`", call.span.start(name), help=help)
        return typed.Constant(False, typed.BROKEN, call.span)

    def _expression(self, expression: syntax.Expression) -> typed.Expression:
        span = expression.span
        match expression:
            case syntax.VariableNode():
                return typed.Variable(expression.name, typed.UNKNOWN, span)
            case syntax.ConstantNode(kind="null"):
                return typed.ListLiteral((), typed.optional_of(typed.NOTHING), span)
            case syntax.ConstantNode():
                return constant_of(expression)
            case syntax.Unary():
                return typed.Negate(self._expression(expression.operand), typed.UNKNOWN, span)
            case syntax.BinaryNode():
                left, right = self._expression(expression.left), self._expression(expression.right)
                return typed.Binary(expression.op, left, right, typed.UNKNOWN, span)
            case syntax.WildcardNode():
                help = "wildcards are allowed only as arguments of body atoms"
                self.diagnostics.report("E0405", "a wildcard has no value", span, help=help)
            case syntax.CallNode():
                return self._call(expression)
            case syntax.ListNode():
                items = tuple(self._expression(item) for item in expression.items)
                return typed.ListLiteral(items, typed.UNKNOWN, span)
            case syntax.AggregateNode():
                message = "an aggregate is allowed only as an argument of a head"
                self.diagnostics.report("E0520", message, span)
        return typed.Constant(False, typed.BROKEN, span)


def as_alternative(rule: typed.TypedRule, place: int, number: int) -> typed.TypedRule:
    """Return a rule as that of one of ``number`` alternatives; what is known of how it was made stays."""
    origin = rule.origin or f"alternative {place} of {number}"
    return replace(rule, label=f"{rule.label}.{place}", origin=origin, made=rule.made or Making.ALTERNATIVE)


def _functions(head: syntax.AtomNode) -> list[str | None]:
    return [
        f"{a.function}{' distinct' * a.distinct} {a.limit} {[part.descending for part in a.order]}"
        if isinstance(a, syntax.AggregateNode)
        else None
        for a in head.arguments
    ]


def _shown(aggregate: syntax.AggregateNode) -> str:
    """Return the beginning of a ``first``."""
    return f"{aggregate.function}<{aggregate.limit}{' by ...' * bool(aggregate.order)}>"


def _alternatives(body: tuple[syntax.Literal, ...]) -> Iterable[tuple[syntax.Literal, ...]]:
    """Return the bodies without disjunctions that ``body`` expands to, at most MAX_ALTERNATIVES + 1."""
    result: list[tuple[syntax.Literal, ...]] = [()]
    for literal in body:
        ends: list[tuple[syntax.Literal, ...]] = [(literal,)]
        if isinstance(literal, syntax.Disjunction):
            ends = [end for alternative in literal.alternatives for end in _alternatives(alternative)]
        result = [(*begin, *end) for begin in result for end in ends][: MAX_ALTERNATIVES + 1]
    return result
