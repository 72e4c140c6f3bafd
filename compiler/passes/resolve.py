"""Resolves names: from syntax to a typed program whose types are still open.

Before::

    input relation link(@src: int, dst: int)
    near(S, D) :- link(S, D) ; link(S, Z), link(Z, D).
    r1: far(S, D) :- near(S, D), near(D, D + 1), !link(S, D).

After (the columns of undeclared relations and all variables are of type ``unknown``)::

    input relation link(@src: int, dst: int)
    relation near(S: unknown, D: unknown)
    relation far(S: unknown, D: unknown)

    near_1.1: near(S, D) :- link(S, D).
    near_1.2: near(S, D) :- link(S, Z), link(Z, D).
    r1: far(S, D) :- near(S, D), near(D, near_2), near_2 = D + 1, !link(S, D).

The columns of an undeclared relation are named after the variables of its first rule's head. Disjunctions become rules,
expressions among the arguments of body atoms become variables of their own. Where a name is wrong, a stand-in of type
``broken`` takes its place, so that the rest of the rule is still checked.
"""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ..diagnostics import Diagnostics, Note
from ..functions import FUNCTIONS
from ..ir import syntax, typed
from ..naming import counted
from ..source import Span
from .order_body import order_body
from .syntax_names import literal_names, variable_names

#: The functions that an aggregate of a head may name.
AGGREGATE_FUNCTIONS = ("min", "max", "sum", "count", "avg")
#: How many rules a disjunction may become.
MAX_ALTERNATIVES = 256

#: How many typedefs may lead from a name to a type.
_MOST_TYPEDEFS = 100
_TYPES = {"int": typed.INT, "float": typed.FLOAT, "string": typed.STRING, "bool": typed.BOOL}
_TYPES |= {"date": typed.DATE, "timestamp": typed.TIMESTAMP}
#: The names of types; ``decimal`` and ``list`` have parameters.
TYPE_NAMES = (*_TYPES, "decimal", "list")
_FOREIGN_TYPES = {
    **dict.fromkeys(("integer", "bigint", "long", "number", "signed", "unsigned", "i64", "int64", "bit"), "int"),
    **dict.fromkeys(("double", "real", "f64", "float64"), "float"),
    **dict.fromkeys(("str", "text", "varchar", "char", "symbol", "istring"), "string"),
    **dict.fromkeys(("boolean",), "bool"),
    **dict.fromkeys(("numeric",), "decimal(10,2)"),
    **dict.fromkeys(("datetime",), "timestamp"),
}


def resolve(program: syntax.Program, diagnostics: Diagnostics) -> typed.Program:
    """The program with every name resolved and bodies in order; types of undeclared columns are ``unknown``."""
    declarations = _Declarations(program, diagnostics)
    relations = declarations.relations()
    functions = declarations.functions()
    rules = _Rules(program, relations, functions, diagnostics)
    typed_rules = tuple(rules.rules())
    return typed.Program(
        relations=tuple(rules.relations.values()),
        rules=typed_rules,
        sources=program.sources,
        functions=tuple(functions.values()),
        recursion=program.recursion,
        spanning=program.spanning,
        process=program.process,
    )


def _did_you_mean(name: str, known: Iterable[str]) -> str | None:
    similar = difflib.get_close_matches(name, sorted(known), 1, 0.7)
    return f"did you mean `{similar[0]}`?" if similar else None


def _name_span(atom: syntax.Atom) -> Span:
    return atom.span.start(atom.relation)


def _atoms(body: Iterable[syntax.Literal]) -> Iterable[syntax.Atom]:
    """The atoms of a body, negated ones and those of disjunctions included, in source order."""
    for literal in body:
        if isinstance(literal, syntax.Atom):
            yield literal
        elif isinstance(literal, syntax.Negation):
            yield from _atoms([literal.atom])
        elif isinstance(literal, syntax.Disjunction):
            for alternative in literal.alternatives:
                yield from _atoms(alternative)


def _constant(constant: syntax.Constant) -> typed.Constant:
    return typed.Constant(constant.value, _TYPES[constant.kind], constant.span)


# ---- declarations --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Location:
    """A location as one place of the program states it: a column or a constant."""

    column: int | None
    at: syntax.Constant | None
    span: Span

    def __str__(self) -> str:
        return f"column {self.column + 1}" if self.column is not None else f"`{self.at.value if self.at else ''}`"

    def agrees(self, other: _Location) -> bool:
        if self.at is None or other.at is None:
            return self.column == other.column and self.at is other.at
        return (self.at.value, self.at.kind) == (other.at.value, other.at.kind)


class _Declarations:
    """Makes the relations of a program out of its declarations and of the heads of its rules."""

    def __init__(self, program: syntax.Program, diagnostics: Diagnostics) -> None:
        self.program = program
        self.diagnostics = diagnostics
        self.typedefs: dict[str, syntax.Typedef] = {}
        self.cyclic: set[str] = set()  # typedefs that have been found to lead to themselves
        self.far = False
        self.declared: dict[str, syntax.RelationDeclaration] = {}
        self.rules = [statement for statement in program.statements if isinstance(statement, syntax.Rule)]
        self.made = {made.name: made for made in program.made}

    def relations(self) -> dict[str, typed.Relation]:
        """The relations by name, in the order in which they are first declared or derived."""
        self._collect()
        relations: dict[str, typed.Relation] = {}
        for statement in self.program.statements:
            if isinstance(statement, syntax.RelationDeclaration):
                if self.declared[statement.name] is statement:
                    relations[statement.name] = self._declared_relation(statement)
            elif isinstance(statement, syntax.Rule):
                name = statement.head.relation
                if name not in self.declared and name not in relations:
                    relations[name] = self._undeclared_relation(statement.head)
        self._outputs(relations)
        self._facts_of_inputs(relations)
        self._locations(relations)
        if self.program.complete:
            self._unused(relations)
        return relations

    def _collect(self) -> None:
        for statement in self.program.statements:
            if isinstance(statement, syntax.RelationDeclaration):
                first = self.declared.setdefault(statement.name, statement)
                if first is not statement:
                    message = f"the relation `{statement.name}` is declared twice"
                    notes = (Note("first declared here", first.name_span),)
                    self.diagnostics.report("E0202", message, statement.name_span, notes=notes)
            elif isinstance(statement, syntax.Typedef):
                if statement.name in TYPE_NAMES:
                    message = f"`{statement.name}` is a type of the language and cannot be defined"
                    self.diagnostics.report("E0202", message, statement.span)
                    continue
                known = self.typedefs.setdefault(statement.name, statement)
                if known is not statement:
                    message = f"the type `{statement.name}` is defined twice"
                    notes = (Note("first defined here", known.span),)
                    self.diagnostics.report("E0202", message, statement.span, notes=notes)
        for typedef in self.typedefs.values():
            self._type(typedef.type, (typedef.name,))

    def _type(self, name: syntax.TypeName, through: tuple[str, ...] = ()) -> typed.Type:
        """The type that ``name`` stands for; ``through`` are the typedefs that led to it."""
        if name.element is not None and name.name == "list":
            return typed.list_of(self._type(name.element, through))
        if name.element is not None and name.name in (*_TYPES, "decimal", *self.typedefs):
            self.diagnostics.report("E0210", f"the type `{name.name}` has no element type", name.span)
            return typed.BROKEN
        if name.name == "list":
            advice = "write the type of the elements, as in `list<int>`"
            self.diagnostics.report("E0210", "a list type names the type of its elements", name.span, help=advice)
            return typed.BROKEN
        if name.name == "decimal":
            return self._decimal(name)
        if name.parameters:
            self.diagnostics.report("E0210", f"the type `{name.name}` has no parameters", name.span)
            return typed.BROKEN
        if name.name in _TYPES:
            return _TYPES[name.name]
        if name.name in through:
            if not self.cyclic & set(through):
                message = f"the type `{name.name}` is defined by itself"
                self.diagnostics.report("E0208", message, self.typedefs[name.name].span)
            self.cyclic |= set(through)
            return typed.BROKEN
        if name.name in self.typedefs:
            if len(through) == _MOST_TYPEDEFS:
                if not self.far:
                    message = f"the type `{through[0]}` is more than {_MOST_TYPEDEFS} typedefs away from what it is"
                    self.diagnostics.report("E0711", message, self.typedefs[through[0]].span)
                self.far = True
                return typed.BROKEN
            return self._type(self.typedefs[name.name].type, (*through, name.name))
        foreign = _FOREIGN_TYPES.get(name.name.lower())
        known = {*TYPE_NAMES, *self.typedefs}
        help = f"write `{foreign}`" if foreign else _did_you_mean(name.name, known)
        self.diagnostics.report("E0209", f"there is no type `{name.name}`", name.span, help=help)
        return typed.BROKEN

    def functions(self) -> dict[str, typed.ExternalFunction]:
        """The external functions by name."""
        found: dict[str, typed.ExternalFunction] = {}
        for statement in self.program.statements:
            if not isinstance(statement, syntax.ExternalFunction):
                continue
            name = statement.name
            if name in FUNCTIONS:
                message = f"`{name}` is a function of the language and cannot be declared"
                self.diagnostics.report("E0213", message, statement.span)
            elif name in found:
                notes = (Note("first declared here", found[name].span),)
                message = f"the function `{name}` is declared twice"
                self.diagnostics.report("E0213", message, statement.span, notes=notes)
            elif not name.isidentifier() or keyword.iskeyword(name):
                message = f"`{name}` cannot be the name of a Python function"
                self.diagnostics.report("E0213", message, statement.span)
            parameters: list[typed.Column] = []
            for column in statement.parameters:
                if any(known.name == column.name for known in parameters):
                    message = f"the function `{name}` has two parameters called `{column.name}`"
                    self.diagnostics.report("E0205", message, column.span)
                parameters.append(typed.Column(column.name, self._type(column.type)))
            result = self._type(statement.result)
            found.setdefault(name, typed.ExternalFunction(name, tuple(parameters), result, statement.span))
        return found

    def _decimal(self, name: syntax.TypeName) -> typed.Type:
        help = "write the number of digits and how many of them stand behind the point, as in `decimal(10,2)`"
        if len(name.parameters) != 2:
            message = "a decimal type has two parameters, its precision and its scale"
            self.diagnostics.report("E0210", message, name.span, help=help)
            return typed.BROKEN
        precision, scale = name.parameters
        if not 1 <= precision <= 38 or scale > precision:
            message = "a decimal type has 1 to 38 digits, and not more of them behind the point"
            self.diagnostics.report("E0210", message, name.span, help=help)
            return typed.BROKEN
        return typed.Type("decimal", precision, scale)

    def _declared_relation(self, declaration: syntax.RelationDeclaration) -> typed.Relation:
        columns: list[typed.Column] = []
        location = None
        for place, column in enumerate(declaration.columns):
            if any(known.name == column.name for known in columns):
                message = f"the relation `{declaration.name}` has two columns called `{column.name}`"
                self.diagnostics.report("E0205", message, column.span)
            if column.located and location is not None:
                message = f"the relation `{declaration.name}` has two locations"
                self.diagnostics.report("E0602", message, column.span)
            elif column.located:
                location = place
            columns.append(typed.Column(column.name, self._type(column.type)))
        if declaration.symmetric:
            types = [column.type for column in columns[:2]]
            if len(types) < 2 or (types[0] != types[1] and typed.BROKEN not in types):
                message = "a symmetric relation begins with two columns of one type"
                self.diagnostics.report("E0211", message, declaration.name_span)
        accepts = declaration.is_input and declaration.is_derived
        return typed.Relation(
            name=declaration.name,
            columns=tuple(columns),
            role="input" if declaration.is_input and not accepts else "derived",
            output=declaration.is_output,
            span=declaration.name_span,
            key=self._key(declaration),
            location=location,
            at=None if declaration.at is None else _constant(declaration.at),
            symmetric=declaration.symmetric,
            accepts_input=accepts,
            public=declaration.name,
        )

    def _key(self, declaration: syntax.RelationDeclaration) -> tuple[int, ...]:
        names = [column.name for column in declaration.columns]
        key: list[int] = []
        for column in declaration.key:
            if column.name not in names:
                message = f"the relation `{declaration.name}` has no column `{column.name}`"
                self.diagnostics.report("E0204", message, column.span, help=_did_you_mean(column.name, names))
            elif names.index(column.name) in key:
                message = f"the column `{column.name}` stands twice in the key"
                self.diagnostics.report("E0204", message, column.span)
            else:
                key.append(names.index(column.name))
        return tuple(key)

    def _undeclared_relation(self, first: syntax.Atom) -> typed.Relation:
        heads = [rule.head for rule in self.rules if rule.head.relation == first.relation and rule.body]
        named = next((head for head in heads if len(head.arguments) == len(first.arguments)), first)
        names: list[str] = []
        for place, argument in enumerate(named.arguments):
            if isinstance(argument, syntax.Aggregate) and argument.function in ("min", "max"):
                argument = argument.argument or argument
            names.append(argument.name if isinstance(argument, syntax.Variable) else f"x{place + 1}")
        if len(set(names)) < len(names):
            names = [f"x{place + 1}" for place in range(len(names))]
        relation = typed.Relation(
            name=first.relation,
            columns=tuple(typed.Column(name, typed.UNKNOWN) for name in names),
            role="derived",
            output=False,
            span=_name_span(first),
            declared=False,
            public=first.relation,
        )
        made = self.made.get(first.relation)
        if made is None:
            return relation
        closure = typed.Closure(tuple(map(str, made.steps)), made.reflexive) if made.steps else None
        return replace(relation, span=made.span, public="", hidden=True, why=made.why, closure=closure)

    def _outputs(self, relations: dict[str, typed.Relation]) -> None:
        for statement in self.program.statements:
            if not isinstance(statement, syntax.OutputDirective):
                continue
            if statement.name in relations:
                relations[statement.name] = replace(relations[statement.name], output=True)
            elif self.program.complete:
                message = f"the published relation `{statement.name}` is neither declared nor derived"
                help = _did_you_mean(statement.name, relations)
                self.diagnostics.report("E0201", message, statement.span, help=help)

    def _facts_of_inputs(self, relations: dict[str, typed.Relation]) -> None:
        """Facts of the program are permanent: an input relation that has some derives them beside what arrives."""
        for rule in self.rules:
            relation = relations[rule.head.relation]
            declaration = self.declared.get(relation.name)
            if declaration is None or not declaration.is_input or declaration.is_derived:
                continue
            if not rule.body:
                relations[relation.name] = replace(relation, role="derived", accepts_input=True)
                continue
            message = f"the input relation `{relation.name}` cannot be derived by a rule"
            help = f"declare it `input derived relation {relation.name}` if it is both"
            notes = (Note("declared here", relation.span),)
            self.diagnostics.report("E0207", message, _name_span(rule.head), help=help, notes=notes)

    def _locations(self, relations: dict[str, typed.Relation]) -> None:
        """Give every relation the location that its declaration or its uses state, which have to agree."""
        stated: dict[str, _Location] = {}
        for declaration in self.declared.values():
            located = [place for place, column in enumerate(declaration.columns) if column.located]
            if located:
                span = declaration.columns[located[0]].span
                stated[declaration.name] = _Location(located[0], None, span)
            elif declaration.at is not None:
                stated[declaration.name] = _Location(None, declaration.at, declaration.at.span)
        for rule in self.rules:
            for atom in (rule.head, *_atoms(rule.body)):
                relation = relations.get(atom.relation)
                if relation is None or len(relation.columns) != len(atom.arguments):
                    continue
                if atom.location is not None:
                    found = _Location(atom.location, None, atom.arguments[atom.location].span)
                elif atom.at is not None:
                    found = _Location(None, atom.at, atom.at.span)
                else:
                    continue
                known = stated.setdefault(atom.relation, found)
                if not known.agrees(found):
                    message = f"`{atom.relation}` is located by {found} here, but by {known} elsewhere"
                    help = None
                    if found.at is not None:
                        help = f"make the location an argument, as in `{atom.relation}(@{found.at.value})`"
                    notes = (Note(f"located by {known} here", known.span),)
                    self.diagnostics.report("E0601", message, found.span, help=help, notes=notes)
                at = None if known.at is None else _constant(known.at)
                relations[atom.relation] = replace(relations[atom.relation], location=known.column, at=at)

    def _unused(self, relations: Mapping[str, typed.Relation]) -> None:
        used = {atom.relation for rule in self.rules for atom in _atoms(rule.body)}
        used |= {
            statement.atom.relation for statement in self.program.statements if isinstance(statement, syntax.Domain)
        }
        derived = {rule.head.relation for rule in self.rules}
        for relation in relations.values():
            if not relation.declared:
                continue
            if relation.name not in used and not relation.output:
                message = f"nothing uses the relation `{relation.name}`"
                help = None if relation.role == "input" else f"write `output relation {relation.name}` to publish it"
                self.diagnostics.report("W0801", message, relation.span, help=help)
            elif relation.role == "derived" and not relation.accepts_input and relation.name not in derived:
                message = f"the relation `{relation.name}` has no rules and is always empty"
                help = f"write `input relation {relation.name}` if its tuples arrive from outside"
                self.diagnostics.report("W0802", message, relation.span, help=help)


# ---- rules ---------------------------------------------------------------------------------------------------------


@dataclass
class _Scope:
    """The variables of one rule, so that those the compiler adds have names of their own."""

    names: set[str]
    added: list[typed.Literal] = field(default_factory=list)

    def fresh(self, wish: str) -> str:
        """A name that no variable of the rule has."""
        while wish in self.names:
            wish += "_"
        self.names.add(wish)
        return wish


class _Rules:
    """Makes typed rules out of the rules of a program."""

    def __init__(
        self,
        program: syntax.Program,
        relations: dict[str, typed.Relation],
        functions: Mapping[str, typed.ExternalFunction],
        diagnostics: Diagnostics,
    ) -> None:
        self.functions = functions
        self.source_rules = [statement for statement in program.statements if isinstance(statement, syntax.Rule)]
        self.domains = [statement for statement in program.statements if isinstance(statement, syntax.Domain)]
        self.relations = dict(relations)
        self.known = dict(relations)
        self.complete = program.complete
        self.diagnostics = diagnostics

    def rules(self) -> Iterable[typed.Rule]:
        """The rules in source order, one for each alternative of a disjunction."""
        self._aggregates_agree()
        for domain in self.domains:
            self._relation(domain.atom, negated=False)
        for rule, label in zip(self.source_rules, self._labels(), strict=True):
            alternatives = list(_alternatives(rule.body))
            if len(alternatives) > MAX_ALTERNATIVES:
                message = f"the disjunctions of this rule make more than {MAX_ALTERNATIVES} alternatives"
                help = "give a part of it a relation of its own"
                self.diagnostics.report("E0710", message, rule.head.span, help=help)
                alternatives = alternatives[:1]
            for place, body in enumerate(alternatives, 1):
                several = len(alternatives) > 1
                yield self._rule(
                    rule,
                    body,
                    label=f"{label}.{place}" if several else label,
                    origin=rule.origin or (f"alternative {place} of {len(alternatives)}" if several else ""),
                )

    def _labels(self) -> list[str]:
        """A label per rule: the user's, or the head with the rule's place among the rules of that head."""
        places: dict[str, int] = {}
        labels: list[str] = []
        for rule in self.source_rules:
            head = rule.head.relation
            places[head] = places.get(head, 0) + 1
            labels.append(rule.label or f"{head}_{places[head]}")
        first: dict[str, syntax.Rule] = {}
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
        """All rules of one aggregate head have the same functions at the same positions."""
        first: dict[str, syntax.Atom] = {}
        for rule in self.source_rules:
            head = rule.head
            other = first.setdefault(head.relation, head)
            if len(other.arguments) == len(head.arguments) and _functions(other) != _functions(head):
                message = f"the rules of `{head.relation}` do not have the same aggregates at the same places"
                notes = (Note("the first rule of this head", other.span),)
                self.diagnostics.report("E0524", message, head.span, notes=notes)

    def _rule(self, rule: syntax.Rule, body: tuple[syntax.Literal, ...], *, label: str, origin: str) -> typed.Rule:
        scope = _Scope({name for atom in (rule.head,) for name in variable_names(atom.arguments)})
        scope.names |= {name for literal in body for name in literal_names(literal)}
        literals: list[typed.Literal] = []
        for literal in body:
            literals += self._literal(literal, scope)
        head = self._head(rule.head)
        ordered = order_body(literals, self.diagnostics)
        return typed.Rule(label, head, ordered, rule.span, rule.text, origin)

    # ---- heads -----------------------------------------------------------------------------------------------------

    def _head(self, atom: syntax.Atom) -> typed.Head:
        relation = self._relation(atom, negated=False)
        arguments: list[typed.Expression | typed.Aggregate] = []
        extremum: syntax.Aggregate | None = None
        for argument in atom.arguments:
            if isinstance(argument, syntax.Aggregate):
                arguments.append(self._aggregate(argument))
                extremum = argument if argument.function in ("min", "max") else extremum
                continue
            if isinstance(argument, syntax.Wildcard):
                help = "write the value or the variable that belongs here"
                self.diagnostics.report("E0404", "a head cannot contain a wildcard", argument.span, help=help)
                arguments.append(typed.Constant(False, typed.BROKEN, argument.span))
                continue
            if extremum is not None and len(_functions(atom)) - _functions(atom).count(None) > 1:
                message = f"this is a witness of `{extremum.function}`, which then has to be the only aggregate"
                help = "to group by it, write it in front of the aggregates; or join relations with one aggregate each"
                self.diagnostics.report("E0525", message, argument.span, help=help)
            arguments.append(self._expression(argument))
        return typed.Head(relation, tuple(arguments), atom.span)

    def _aggregate(self, aggregate: syntax.Aggregate) -> typed.Expression | typed.Aggregate:
        broken = typed.Constant(False, typed.BROKEN, aggregate.span)
        if aggregate.function not in AGGREGATE_FUNCTIONS:
            message = f"there is no aggregate `{aggregate.function}`"
            help = _did_you_mean(aggregate.function, AGGREGATE_FUNCTIONS)
            help = help or "the aggregates are `min`, `max`, `sum`, `count` and `avg`"
            self.diagnostics.report("E0522", message, aggregate.span, help=help)
            return broken
        if aggregate.argument is None and (aggregate.function != "count" or aggregate.distinct):
            message = f"`{aggregate.function}` needs a value; only `count` takes `*`"
            if aggregate.distinct:
                message = "`distinct` needs a value; all derivations are distinct"
            self.diagnostics.report("E0522", message, aggregate.span)
            return broken
        argument = None if aggregate.argument is None else self._expression(aggregate.argument)
        # The least of the different values is the least of all.
        distinct = aggregate.distinct and aggregate.function not in ("min", "max")
        return typed.Aggregate(aggregate.function, argument, typed.UNKNOWN, aggregate.span, distinct)

    # ---- bodies ----------------------------------------------------------------------------------------------------

    def _literal(self, literal: syntax.Literal, scope: _Scope) -> list[typed.Literal]:
        """The literal, and the assignments that its arguments need."""
        match literal:
            case syntax.Atom():
                if self._is_call(literal):
                    return [self._condition(literal, True, literal.span)]
                atom, added = self._atom(literal, scope, negated=False)
                return [atom, *added]
            case syntax.Negation(atom=syntax.Atom() as negated):
                if self._is_call(negated):
                    return [self._condition(negated, False, literal.span)]
                atom, added = self._atom(negated, scope, negated=True)
                return [*added, typed.Negation(atom, literal.span)]
            case syntax.Comparison():
                left, right = self._expression(literal.left), self._expression(literal.right)
                return [typed.Comparison(literal.op, left, right, literal.span)]
        raise AssertionError(literal)  # Disjunctions have become rules of their own, paths atoms.

    def _is_call(self, atom: syntax.Atom) -> bool:
        """Whether what reads as an atom calls a function; a relation of that name goes first."""
        named = atom.relation in FUNCTIONS or atom.relation in self.functions or atom.relation.startswith("f_")
        return named and atom.relation not in self.known and bool(atom.arguments)

    def _condition(self, atom: syntax.Atom, wanted: bool, span: Span) -> typed.Literal:
        """A call as a literal, or negated."""
        call = self._expression(syntax.Call(atom.relation, atom.arguments, atom.span))
        return typed.Comparison("=", call, typed.Constant(wanted, typed.BOOL, span), span)

    def _atom(self, atom: syntax.Atom, scope: _Scope, *, negated: bool) -> tuple[typed.Atom, list[typed.Literal]]:
        relation = self._relation(atom, negated=negated)
        terms: list[typed.Term] = []
        added: list[typed.Literal] = []
        for place, argument in enumerate(atom.arguments, 1):
            if isinstance(argument, syntax.Wildcard):
                terms.append(typed.Wildcard(typed.UNKNOWN, argument.span))
                continue
            value = self._expression(argument)
            if isinstance(value, typed.Variable | typed.Constant):
                terms.append(value)
                continue
            name = scope.fresh(f"{atom.relation.replace('.', '_')}_{place}")
            variable = typed.Variable(name, typed.UNKNOWN, argument.span)
            terms.append(variable)
            added.append(typed.Comparison("=", variable, value, argument.span))
        return typed.Atom(relation, tuple(terms), atom.span), added

    def _relation(self, atom: syntax.Atom, *, negated: bool) -> str:
        """The relation of an atom; a stand-in, once reported, if there is none with as many columns."""
        name, number = atom.relation, len(atom.arguments)
        relation = self.known.get(name)
        if relation is None:
            if self.complete and name not in self.relations:
                message = f"the relation `{name}` is neither declared nor derived"
                tests = (f.name for f in FUNCTIONS.values() if f.tests)
                help = _did_you_mean(name, self.known) or _did_you_mean(name, tests)
                help = help or f"declare it with `input relation {name}(...)`, or give it a rule"
                self.diagnostics.report("E0201", message, _name_span(atom), help=help)
            return self._stand_in(atom, name)
        if len(relation.columns) == number:
            return name
        columns = f"{counted(len(relation.columns), 'column')}, but {counted(number, 'argument')} here"
        place = "declared here" if relation.declared else "first derived here"
        notes = (Note(place, relation.span),)
        self.diagnostics.report("E0203", f"`{name}` has {columns}", atom.span, notes=notes)
        return self._stand_in(atom, f"{name}/{number}")

    def _stand_in(self, atom: syntax.Atom, name: str) -> str:
        while name in self.relations and len(self.relations[name].columns) != len(atom.arguments):
            name = f"{name}/{len(atom.arguments)}"
        columns = tuple(typed.Column(f"x{place + 1}", typed.BROKEN) for place in range(len(atom.arguments)))
        self.relations.setdefault(name, typed.Relation(name, columns, "derived", False, _name_span(atom), hidden=True))
        return name

    # ---- expressions -----------------------------------------------------------------------------------------------

    def _call(self, call: syntax.Call) -> typed.Expression:
        arguments = tuple(self._expression(argument) for argument in call.arguments)
        name = call.name
        if name in FUNCTIONS or name in self.functions:
            return typed.Call(name, arguments, typed.UNKNOWN, call.span, external=name in self.functions)
        help = None
        if name in self.relations:
            help = f"`{name}` is a relation; it has no value, and stands as a literal of its own"
        elif name in AGGREGATE_FUNCTIONS:
            help = f"an aggregate is written `{name}<...>`, and stands in a head"
        help = help or _did_you_mean(name, {*FUNCTIONS, *self.functions})
        help = help or f"declare it with `extern function {name}(...): type` if you have it in Python"
        self.diagnostics.report("E0212", f"there is no function `{name}`", call.span.start(name), help=help)
        return typed.Constant(False, typed.BROKEN, call.span)

    def _expression(self, expression: syntax.Expression) -> typed.Expression:
        span = expression.span
        match expression:
            case syntax.Variable():
                return typed.Variable(expression.name, typed.UNKNOWN, span)
            case syntax.Constant():
                return _constant(expression)
            case syntax.Unary():
                return typed.Negate(self._expression(expression.operand), typed.UNKNOWN, span)
            case syntax.Binary():
                left, right = self._expression(expression.left), self._expression(expression.right)
                return typed.Binary(expression.op, left, right, typed.UNKNOWN, span)
            case syntax.Wildcard():
                help = "a wildcard stands only among the arguments of a body atom"
                self.diagnostics.report("E0405", "a wildcard has no value to compute with", span, help=help)
            case syntax.Call():
                return self._call(expression)
            case syntax.ListLiteral():
                items = tuple(self._expression(item) for item in expression.items)
                return typed.ListLiteral(items, typed.UNKNOWN, span)
            case syntax.Aggregate():
                message = "an aggregate stands only as an argument of a head"
                self.diagnostics.report("E0520", message, span)
        return typed.Constant(False, typed.BROKEN, span)


def _functions(head: syntax.Atom) -> list[str | None]:
    return [
        f"{argument.function}{' distinct' * argument.distinct}" if isinstance(argument, syntax.Aggregate) else None
        for argument in head.arguments
    ]


def _alternatives(body: tuple[syntax.Literal, ...]) -> Iterable[tuple[syntax.Literal, ...]]:
    """The bodies without disjunctions that ``body`` stands for, at most one more than are allowed."""
    result: list[tuple[syntax.Literal, ...]] = [()]
    for literal in body:
        ends: list[tuple[syntax.Literal, ...]] = [(literal,)]
        if isinstance(literal, syntax.Disjunction):
            ends = [end for alternative in literal.alternatives for end in _alternatives(alternative)]
        result = [(*begin, *end) for begin in result for end in ends][: MAX_ALTERNATIVES + 1]
    return result
