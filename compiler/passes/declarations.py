"""Collect the relations, types and functions that a program declares, and the relations that its rules derive."""

from __future__ import annotations

import difflib
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..diagnostics import Diagnostics, Note
from ..functions import FUNCTIONS
from ..ir import syntax, typed
from ..source import Span

_MOST_TYPEDEFS = 100
"""The maximum number of typedefs between a name and its type."""

_TYPES = {
    "int": typed.INT,
    "float": typed.FLOAT,
    "string": typed.STRING,
    "bool": typed.BOOL,
    "date": typed.DATE,
    "timestamp": typed.TIMESTAMP,
}
TYPE_NAMES = (*_TYPES, "decimal", "list")
"""The names of types; ``decimal`` and ``list`` take parameters."""

_FOREIGN_TYPES = {
    **dict.fromkeys(("integer", "bigint", "long", "number", "signed", "unsigned", "i64", "int64", "bit"), "int"),
    **dict.fromkeys(("double", "real", "f64", "float64"), "float"),
    **dict.fromkeys(("str", "text", "varchar", "char", "symbol", "istring"), "string"),
    **dict.fromkeys(("boolean",), "bool"),
    **dict.fromkeys(("numeric",), "decimal(10,2)"),
    **dict.fromkeys(("datetime",), "timestamp"),
}


def _in_small_letters(name: str) -> str | None:
    """Return the type that is called ``name`` in small letters, None if there is none."""
    return name.lower() if name.lower() in _TYPES else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a help that suggests the most similar of the ``known`` names, None if none is similar."""
    similar = difflib.get_close_matches(name, sorted(known), 1, 0.7)
    return f"did you mean `{similar[0]}`?" if similar else None


def name_span(atom: syntax.AtomNode) -> Span:
    """Return the span of the relation's name in an atom."""
    return atom.span.start(atom.relation)


def _atoms(body: Iterable[syntax.Literal]) -> Iterable[syntax.AtomNode]:
    """Yield the atoms of a body in source order, including negated ones and those in disjunctions."""
    for literal in body:
        if isinstance(literal, syntax.AtomNode):
            yield literal
        elif isinstance(literal, syntax.NegationNode):
            yield from _atoms([literal.atom])
        elif isinstance(literal, syntax.Disjunction):
            for alternative in literal.alternatives:
                yield from _atoms(alternative)


def constant_of(constant: syntax.ConstantNode) -> typed.Constant:
    """Return a constant with its type."""
    return typed.Constant(constant.value, _TYPES[constant.kind], constant.span)


@dataclass(frozen=True)
class _Location:
    """A location as stated at one place of the program: a column or a constant."""

    column: int | None
    at: syntax.ConstantNode | None
    span: Span

    def __str__(self) -> str:
        return f"column {self.column + 1}" if self.column is not None else f"`{self.at.value if self.at else ''}`"

    def agrees(self, other: _Location) -> bool:
        if self.at is None or other.at is None:
            return self.column == other.column and self.at is other.at
        return (self.at.value, self.at.kind) == (other.at.value, other.at.kind)


class Declarations:
    """The relations and external functions of a program, made from its declarations and the heads of its rules."""

    def __init__(self, program: syntax.SyntaxProgram, diagnostics: Diagnostics) -> None:
        self.program = program
        self.files = {file.relation: file for file in program.files if file.direction == "input"}
        self.diagnostics = diagnostics
        self.typedefs: dict[str, syntax.Typedef] = {}
        self.cyclic: set[str] = set()  # typedefs that were found to lead into a cycle
        self.far = False  # whether E0711 was reported
        self.declared: dict[str, syntax.RelationDeclaration] = {}
        self.rules = [statement for statement in program.statements if isinstance(statement, syntax.RuleNode)]
        #: The heads of rules that are no facts, by relation.
        self.heads: dict[str, list[syntax.AtomNode]] = {}
        for rule in self.rules:
            if rule.body:
                self.heads.setdefault(rule.head.relation, []).append(rule.head)
        self.made = {relation.name: relation for relation in program.made}

    def relations(self) -> dict[str, typed.TypedRelation]:
        """Return the relations by name, in the order in which they are first declared or derived."""
        self._collect()
        relations: dict[str, typed.TypedRelation] = {}
        for statement in self.program.statements:
            if isinstance(statement, syntax.RelationDeclaration):
                if self.declared[statement.name] is statement:
                    relations[statement.name] = self._declared_relation(statement)
            elif isinstance(statement, syntax.RuleNode):
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
                definition = self.typedefs.setdefault(statement.name, statement)
                if definition is not statement:
                    message = f"the type `{statement.name}` is defined twice"
                    notes = (Note("first defined here", definition.span),)
                    self.diagnostics.report("E0202", message, statement.span, notes=notes)
        for typedef in self.typedefs.values():
            self._type(typedef.type, (typedef.name,))

    def _type(self, name: syntax.TypeName, through: tuple[str, ...] = ()) -> typed.Type:
        """Return the type that ``name`` denotes; ``through`` lists the typedefs that led to it."""
        if name.element is not None and name.name == "list":
            return typed.list_of(self._type(name.element, through))
        if name.element is not None and name.name in (*_TYPES, "decimal", *self.typedefs):
            self.diagnostics.report("E0210", f"the type `{name.name}` has no element type", name.span)
            return typed.BROKEN
        if name.name == "list":
            advice = "write the type of the elements, as in `list<int>`"
            self.diagnostics.report("E0210", "a list type must state the type of its elements", name.span, help=advice)
            return typed.BROKEN
        if name.name == "decimal":
            return self._decimal(name)
        if name.parameters:
            foreign_name = "decimal" if name.name.lower() == "decimal" else _FOREIGN_TYPES.get(name.name.lower())
            help = f"write `{foreign_name}`" if foreign_name else None
            self.diagnostics.report("E0210", f"the type `{name.name}` has no parameters", name.span, help=help)
            return typed.BROKEN
        if name.name in _TYPES:
            return _TYPES[name.name]
        if name.name in through:
            if not self.cyclic & set(through):
                message = f"the type `{name.name}` is defined in terms of itself"
                self.diagnostics.report("E0208", message, self.typedefs[name.name].span)
            self.cyclic |= set(through)
            return typed.BROKEN
        if name.name in self.typedefs:
            if len(through) == _MOST_TYPEDEFS:
                if not self.far:
                    message = f"the type `{through[0]}` is defined by more than {_MOST_TYPEDEFS} nested typedefs"
                    self.diagnostics.report("E0711", message, self.typedefs[through[0]].span)
                self.far = True
                return typed.BROKEN
            return self._type(self.typedefs[name.name].type, (*through, name.name))
        foreign = _FOREIGN_TYPES.get(name.name.lower()) or _in_small_letters(name.name)
        if not self.program.complete and not foreign:  # An unreadable statement may define it.
            return typed.BROKEN
        names = {*TYPE_NAMES, *self.typedefs}
        help = f"write `{foreign}`" if foreign else did_you_mean(name.name, names)
        self.diagnostics.report("E0209", f"there is no type `{name.name}`", name.span, help=help)
        return typed.BROKEN

    def functions(self) -> dict[str, typed.TypedFunction]:
        """Return the external functions by name."""
        functions: dict[str, typed.TypedFunction] = {}
        for statement in self.program.statements:
            if not isinstance(statement, syntax.FunctionDeclaration):
                continue
            name = statement.name
            if name in FUNCTIONS:
                message = f"`{name}` is a function of the language and cannot be declared"
                self.diagnostics.report("E0213", message, statement.span)
            elif name in functions:
                notes = (Note("first declared here", functions[name].span),)
                message = f"the function `{name}` is declared twice"
                self.diagnostics.report("E0213", message, statement.span, notes=notes)
            elif not name.isidentifier() or keyword.iskeyword(name):
                message = f"`{name}` cannot be the name of a Python function"
                self.diagnostics.report("E0213", message, statement.span)
            parameters: list[typed.TypedColumn] = []
            for column in statement.parameters:
                if any(other.name == column.name for other in parameters):
                    message = f"the function `{name}` has two parameters called `{column.name}`"
                    self.diagnostics.report("E0205", message, column.span)
                parameters.append(typed.TypedColumn(column.name, self._type(column.type)))
            result = self._type(statement.result)
            functions.setdefault(name, typed.TypedFunction(name, tuple(parameters), result, statement.span))
        return functions

    def _decimal(self, name: syntax.TypeName) -> typed.Type:
        help = "write the number of digits and of those after the point, as in `decimal(10,2)`"
        if len(name.parameters) != 2:
            message = "a decimal type has two parameters, its precision and its scale"
            self.diagnostics.report("E0210", message, name.span, help=help)
            return typed.BROKEN
        precision, scale = name.parameters
        if not 1 <= precision <= 38 or scale > precision:
            message = "a decimal type has 1 to 38 digits, and at most as many after the point"
            self.diagnostics.report("E0210", message, name.span, help=help)
            return typed.BROKEN
        return typed.Type("decimal", precision, scale)

    def _declared_relation(self, declaration: syntax.RelationDeclaration) -> typed.TypedRelation:
        columns: list[typed.TypedColumn] = []
        location = None
        for place, column in enumerate(declaration.columns):
            if any(other.name == column.name for other in columns):
                message = f"the relation `{declaration.name}` has two columns called `{column.name}`"
                self.diagnostics.report("E0205", message, column.span)
            if column.located and location is not None:
                message = f"the relation `{declaration.name}` has two locations"
                self.diagnostics.report("E0602", message, column.span)
            elif column.located:
                location = place
            kind = self._type(column.type)
            columns.append(typed.TypedColumn(column.name, typed.optional_of(kind) if column.optional else kind))
        if declaration.symmetric:
            types = [column.type for column in columns[:2]]
            if len(types) < 2 or (types[0] != types[1] and typed.BROKEN not in types):
                message = "the first two columns of a symmetric relation must have one type"
                self.diagnostics.report("E0211", message, declaration.name_span)
        self._check_multiset(declaration)
        accepts = declaration.is_input and (declaration.is_derived or declaration.is_multiset)
        return typed.TypedRelation(
            name=declaration.name,
            columns=tuple(columns),
            role="input" if declaration.is_input and not accepts else "derived",
            output=declaration.is_output,
            span=declaration.name_span,
            key=self._key(declaration),
            location=location,
            at=None if declaration.at is None else constant_of(declaration.at),
            symmetric=declaration.symmetric,
            accepts_input=accepts,
            multiset=declaration.is_multiset,
            public=declaration.name,
            hidden=bool(declaration.why),
            why=declaration.why,
            file=self.files.get(declaration.name),
        )

    def _check_multiset(self, declaration: syntax.RelationDeclaration) -> None:
        """Report (E0214) what a relation whose copies count cannot have."""
        if not declaration.is_multiset:
            return
        message, help = "", ""
        if declaration.is_derived:
            message = f"`{declaration.name}` cannot be both derived and a multiset: only rows from outside have copies"
            help = "declare a second relation, and derive it from this one and by the rules"
        elif declaration.key:
            message = f"the multiset `{declaration.name}` cannot have a primary key, which allows one row per key"
            help = "omit the key, or `multiset`"
        elif not declaration.columns:
            message = f"the multiset `{declaration.name}` has no columns"
            help = "add a column, or omit `multiset`"
        elif self.program.process:
            message = f"`{declaration.name}` is a multiset, and what a process takes in are sets"
            help = "omit `multiset`, and add a column that tells the copies apart, such as a number"
        if message:
            self.diagnostics.report("E0214", message, declaration.name_span, help=help)

    def _key(self, declaration: syntax.RelationDeclaration) -> tuple[int, ...]:
        names = [column.name for column in declaration.columns]
        key: list[int] = []
        for column in declaration.key:
            if column.name not in names:
                message = f"the relation `{declaration.name}` has no column `{column.name}`"
                self.diagnostics.report("E0204", message, column.span, help=did_you_mean(column.name, names))
            elif names.index(column.name) in key:
                message = f"the column `{column.name}` occurs twice in the key"
                self.diagnostics.report("E0204", message, column.span)
            else:
                key.append(names.index(column.name))
        return tuple(key)

    def _undeclared_relation(self, first: syntax.AtomNode) -> typed.TypedRelation:
        heads = self.heads.get(first.relation, ())
        named = next((head for head in heads if len(head.arguments) == len(first.arguments)), first)
        names: list[str] = []
        for place, argument in enumerate(named.arguments):
            if isinstance(argument, syntax.AggregateNode) and argument.function in ("min", "max"):
                argument = argument.argument or argument
            if isinstance(argument, syntax.AggregateNode) and argument.function == "first":
                names.append("rank")
                continue
            names.append(argument.name if isinstance(argument, syntax.VariableNode) else f"x{place + 1}")
        if len(set(names)) < len(names):
            names = [f"x{place + 1}" for place in range(len(names))]
        relation = typed.TypedRelation(
            name=first.relation,
            columns=tuple(typed.TypedColumn(name, typed.UNKNOWN) for name in names),
            role="derived",
            output=False,
            span=name_span(first),
            declared=False,
            public=first.relation,
        )
        origin = self.made.get(first.relation)
        if origin is None:
            return relation
        closure = typed.Closure(tuple(map(str, origin.steps)), origin.reflexive) if origin.steps else None
        return replace(relation, span=origin.span, public="", hidden=True, why=origin.why, closure=closure)

    def _outputs(self, relations: dict[str, typed.TypedRelation]) -> None:
        for statement in self.program.statements:
            if not isinstance(statement, syntax.OutputDirective):
                continue
            if statement.name in relations:
                relations[statement.name] = replace(relations[statement.name], output=True)
            elif self.program.complete:
                message = f"the published relation `{statement.name}` is neither declared nor derived"
                help = did_you_mean(statement.name, relations)
                self.diagnostics.report("E0201", message, statement.span, help=help)

    def _facts_of_inputs(self, relations: dict[str, typed.TypedRelation]) -> None:
        """Make input relations with facts derived as well, since facts are permanent; report other rules (E0207)."""
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
            if declaration.is_multiset:
                help = "derive another relation from it and by the rule"
            notes = (Note("declared here", relation.span),)
            self.diagnostics.report("E0207", message, name_span(rule.head), help=help, notes=notes)

    def _locations(self, relations: dict[str, typed.TypedRelation]) -> None:
        """Set the location of each relation from its declaration or uses; report E0601 where these disagree."""
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
                    location = _Location(atom.location, None, atom.arguments[atom.location].span)
                elif atom.at is not None:
                    location = _Location(None, atom.at, atom.at.span)
                else:
                    continue
                expected = stated.setdefault(atom.relation, location)
                if not expected.agrees(location):
                    message = f"`{atom.relation}` is located by {location} here, but by {expected} elsewhere"
                    help = None
                    if location.at is not None:
                        help = f"make the location an argument, as in `{atom.relation}(@{location.at.value})`"
                    notes = (Note(f"located by {expected} here", expected.span),)
                    self.diagnostics.report("E0601", message, location.span, help=help, notes=notes)
                at = None if expected.at is None else constant_of(expected.at)
                relations[atom.relation] = replace(relations[atom.relation], location=expected.column, at=at)

    def _unused(self, relations: Mapping[str, typed.TypedRelation]) -> None:
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
                is_input = relation.role == "input" or relation.multiset
                help = None if is_input else f"write `output relation {relation.name}` to publish it"
                self.diagnostics.report("W0801", message, relation.span, help=help)
            elif relation.role == "derived" and not relation.accepts_input and relation.name not in derived:
                message = f"the relation `{relation.name}` has no rules and is always empty"
                help = f"write `input relation {relation.name}` if its tuples come from outside"
                self.diagnostics.report("W0802", message, relation.span, help=help)
