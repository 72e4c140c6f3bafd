"""Reads programs in the core of DDlog into the syntax tree of Flintlog.

Modules are read depth first, so what a file imports is declared before it. Declarations have no end of their own: a
statement goes on as long as its tokens follow the grammar.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lark import Token

from ...diagnostics import Diagnostics
from ...dialects import Load
from ...ir import syntax
from ...ir.syntax_printer import rule_text
from ...naming import unused
from ...source import SourceFile, Span
from ..files import Files
from ..statement_grammar import Node, child, span_of, tokens_in, trees
from ..syntax_errors import LeftOut, end_of, start_of
from .grammar import GRAMMAR
from .library import MODULES
from .refusals import refused
from .rules import Rules
from .tokens import tokens
from .types import IntType, ListType, RecordType, Type, leaves
from .values import binary, call, number
from .world import DeclaredFunction, DeclaredRelation, ModuleFile, World, key_of, plain_name

_SUFFIXES = (".dl", ".ddlog")
"""The suffixes of the files of modules, in the order in which they are tried."""

_STARTS = (
    *("typedef", "relation", "multiset", "stream", "input", "output", "internal", "import", "function", "extern"),
    *("apply", "for", "index", "transformer"),
)
_MOST_NESTED = 300
"""How deep the constructs of a statement may be nested."""

_ROLES = ("input", "output", "internal")
_KINDS = ("relation", "multiset", "stream")


def read(main: SourceFile, diagnostics: Diagnostics, load: Load) -> syntax.SyntaxProgram:
    """Read a program of DDlog; see :data:`...dialects.Read`."""
    reading = _DdlogReading(diagnostics, Files(diagnostics, load), World(diagnostics))
    reading.read(main, "")
    return syntax.SyntaxProgram(tuple(reading.statements()), tuple(reading.files.sources))


@dataclass
class _DdlogReading:
    """The statements of all modules, as parse trees."""

    diagnostics: Diagnostics
    files: Files
    world: World
    parsed: list[tuple[Node, ModuleFile]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    constructors: set[tuple[str, str]] = field(default_factory=set)
    """The constructors of types, by module and name."""

    # ---- files and statements --------------------------------------------------------------------------------------

    def read(self, source: SourceFile, name: str) -> None:
        """Read a module, and before it those that it imports."""
        if not self.files.add(source):
            return
        self.names[source.name] = name
        all_tokens = list(self._without_attributes(source, list(tokens(source, self.diagnostics))))
        place, imports = 0, []
        own: list[Node] = []
        while place < len(all_tokens):
            token = all_tokens[place]
            if str(token) == "import":
                place, imported = self._import(source, all_tokens, place)
                imports += [imported] if imported is not None else []
                continue
            place, tree = self._statement(source, all_tokens, place)
            if tree is not None:
                own.append(tree)
        module = ModuleFile(name, source, tuple(imports))
        self.parsed += [(tree, module) for tree in own]

    def _without_attributes(self, source: SourceFile, found: Sequence[Token]) -> Iterator[Token]:
        """Yield the tokens besides those of attributes, ``#[size = 8]``, which are reported."""
        place = 0
        while place < len(found):
            if found[place].type != "ATTRIBUTE":
                yield found[place]
                place += 1
                continue
            stop = _closed(found, place)
            if stop is None:
                span = span_of(source, found[place])
                self.diagnostics.report("E0104", "this `#[` is not closed", span, help="close it with `]`")
                return
            names = [str(found[n]) for n in range(place + 1, stop) if found[n - 1].type in ("ATTRIBUTE", "COMMA")]
            span = source.span(start_of(found[place]), end_of(found[stop - 1]))
            for name in names:
                self.world.ignore(f"the attribute `{name}`", span)
            place = stop

    def _import(self, source: SourceFile, found: Sequence[Token], start: int) -> tuple[int, str | None]:
        """Read the module that an import names; return the place after it and its name, None if there is none."""
        place = start + 1
        words: list[str] = []
        while place < len(found) and found[place].type in ("LOWER", "UPPER", "SCOPED", "DOT", "SCOPE"):
            if found[place].type in ("LOWER", "UPPER") and words and words[-1] not in (".", "::"):
                break
            words += str(found[place]).replace("::", " :: ").split()
            place += 1
        name = "::".join(word for word in words if word not in (".", "::"))
        if not name:
            message = "expected the name of a module after `import`"
            self.diagnostics.report("E0101", message, span_of(source, found[start]))
            return place, None
        if place < len(found) and found[place].type == "AS":
            place += 2
            self.world.refuse("E0787", "an import with another name is not supported", span_of(source, found[start]))
            return place, None
        span = source.span(start_of(found[start]), end_of(found[max(start, place - 1)]))
        path = posixpath.relpath("/".join(name.split("::")), posixpath.dirname(self.files.sources[0].name) or ".")
        for source_name, module in self.names.items():
            if module == name and source_name != source.name:
                return place, name
        quiet = Files(Diagnostics(), self.files.load, list(self.files.sources))
        base = self.files.sources[0]
        for suffix in _SUFFIXES:
            loaded = quiet.include(f"{path}{suffix}", base, span)
            if loaded is not None:
                self.read(loaded, name)
                return place, name
        if name in MODULES:
            help = "what Flintlog has of the library is known without it"
            self.world.ignore(f"the import of `{name}`, a part of DDlog's library,", span, help)
        else:
            self.files.include(f"{path}{_SUFFIXES[0]}", base, span)
        return place, None

    def _statement(self, source: SourceFile, found: Sequence[Token], start: int) -> tuple[int, Node | None]:
        """Return the place after the statement at ``start``, and its tree if it has no errors."""
        stop = _end_of_statement(found, start, source)
        statement = list(_tagged(found[start:stop]))
        refusal = refused(statement, source)
        if refusal is not None:
            token = refusal.token
            self.diagnostics.report(refusal.code, refusal.message, span_of(source, token), help=refusal.help)
            self._broken(statement)
            return stop, None
        if any(token.type in ("UNKNOWN", "OPEN_STRING") for token in statement):
            return stop, None  # Already reported.
        tree = GRAMMAR.parse(source, statement, self.diagnostics)
        if isinstance(tree, int):
            self._broken(statement)
            return (start + tree if tree < len(statement) else stop), None
        if (deep := _too_deep(tree)) is not None:
            message = f"this is nested more than {_MOST_NESTED} constructs deep"
            help = "compute a part of it in a separate relation"
            self.diagnostics.report("E0711", message, source.span(deep.meta.start_pos, deep.meta.end_pos), help=help)
            self._broken(statement)
            return stop, None
        return stop, tree

    def _broken(self, statement: Sequence[Token]) -> None:
        """Note the relation of a declaration that is left out, so that its uses are not reported, too."""
        if any(token.type == "KIND" for token in statement[:2]):
            self.world.broken |= {str(token) for token in statement if token.type == "UPPER"}
        elif statement[0].type in ("FUNCTION", "TYPEDEF") and len(statement) > 1:
            self.world.broken.add(str(statement[1]))

    # ---- declarations ----------------------------------------------------------------------------------------------

    def statements(self) -> Iterator[syntax.Statement]:
        """Yield the statements of the program."""
        for tree, module in self.parsed:
            self._declare_type(tree, module)
        relations = [(tree, module) for tree, module in self.parsed if tree.data == "relation"]
        rows: list[tuple[Node, ModuleFile, DeclaredRelation]] = []
        for tree, module in relations:
            try:
                rows.append((tree, module, self._relation(tree, module)))
            except LeftOut:
                self.world.broken.add(str(tokens_in(tree, "UPPER")[0]))
        for tree, module in self.parsed:
            if tree.data in ("function", "external"):
                try:
                    yield from self._declare_function(tree, module)
                except LeftOut:
                    self.world.broken.add(str(tokens_in(tree, "LOWER")[0]))
        rules = Rules(self.world, {relation.name for _, _, relation in rows})
        declared = {id(tree): relation for tree, _, relation in rows}
        for tree, module in self.parsed:
            with suppress(LeftOut):
                if tree.data == "relation" and id(tree) in declared:
                    yield from self._declaration(tree, module, declared[id(tree)], rules)
                elif tree.data == "rule":
                    yield from rules.translate(tree, module)
        self._report_unused()

    def _declare_type(self, tree: Node, module: ModuleFile) -> None:
        if tree.data != "typedef":
            return
        name_tree, body = trees(tree)
        (token,) = tokens_in(name_tree)
        name = str(token)
        if (module.name, name) in self.world.typedefs:
            self.world.refuse("E0202", f"the type `{name}` is declared twice", span_of(module.source, token))
            return
        constructors = trees(body) if body.data == "variants" else [body] * (body.data == "constructor")
        for constructor in (tokens_in(part, "UPPER")[0] for part in constructors):
            if (module.name, str(constructor)) in self.constructors:
                span = span_of(module.source, constructor)
                self.world.refuse(
                    "E0789", f"the constructor `{constructor}` is declared twice", span, "rename one of them"
                )
                self.world.broken.add(name)
                return
            self.constructors.add((module.name, str(constructor)))
        if body.data == "variants" and any(child(part, "field") is not None for part in trees(body)):
            message = f"`{name}` has several constructors with fields, which is not supported"
            help = "use a column with the name of the case, and columns for what the cases have"
            self.diagnostics.report("E0783", message, span_of(module.source, token), help=help)
            self.world.broken.add(name)
            return
        self.world.typedefs[module.name, name] = (body, module)
        if body.data == "constructor":
            self.world.constructors[module.name, str(tokens_in(body, "UPPER")[0])] = (body, module)

    def _relation(self, tree: Node, module: ModuleFile) -> DeclaredRelation:
        """Take in a relation."""
        token = tokens_in(tree, "UPPER")[0]
        name = str(token)
        span = span_of(module.source, token)
        types = [part for part in trees(tree) if part.data in ("named", "applied", "tuple_type")]
        if types:
            whole = self.world.type(types[0], module)
            named = isinstance(whole, RecordType) and whole.constructor
            row = whole if isinstance(whole, RecordType) and named else RecordType(name, (("value", whole),), name)
        else:
            if (module.name, name) in self.world.typedefs:
                help = f"write `{name}[{name}]` for a relation whose rows are of the type"
                raise self.world.refuse("E0202", f"`{name}` is a type already", span, help)
            whole = row = RecordType(name, tuple(self.world.fields(tree, module)), name)
        earlier = self.world.relations.get((module.name, name))
        if earlier is not None:
            raise self.world.refuse("E0202", f"the relation `{name}` is declared twice", span)
        relation = DeclaredRelation(module.known_as(name), whole, row, span)
        self.world.relations[module.name, name] = relation
        return relation

    def _declare_function(self, tree: Node, module: ModuleFile) -> Iterator[syntax.Statement]:
        name = tokens_in(tree, "LOWER")[0]
        span = span_of(module.source, name)
        parameters = tuple(self.world.fields(tree, module))
        others = [part for part in trees(tree) if part.data != "field"]
        result = self.world.type(others[0], module)
        body = others[1] if tree.data == "function" else None
        function = DeclaredFunction(str(name), parameters, result, body, module)
        overloads = self.world.functions.setdefault((module.name, str(name)), [])
        if any([type_ for _, type_ in other.parameters] == [type_ for _, type_ in parameters] for other in overloads):
            help = "rename one of them, or let them take values of different types"
            raise self.world.refuse("E0789", f"the function `{name}` is declared twice", span, help)
        if body is None:
            if any(isinstance(type_, RecordType) for type_ in (result, *(type_ for _, type_ in parameters))):
                help = "pass its fields"
                raise self.world.refuse(
                    "E0783", "external functions of tuples and structures are not supported", span, help
                )
            columns = tuple(
                syntax.ColumnDeclaration(parameter, _type_name(type_, span), False, span)
                for parameter, type_ in parameters
            )
            text = module.source.text[tree.meta.start_pos : tree.meta.end_pos]
            yield syntax.FunctionDeclaration(str(name), columns, _type_name(result, span), span, text)
        overloads.append(function)

    def _report_unused(self) -> None:
        """Report the types and functions of the main file that nothing uses, and which are not translated therefore."""
        for tree, module in self.parsed:
            if tree.data not in ("typedef", "function") or module.name:
                continue
            kind, head = ("function", tree) if tree.data == "function" else ("type", trees(tree)[0])
            (name,) = tokens_in(head, "LOWER", "UPPER")
            if id(trees(tree)[-1]) not in self.world.used:
                message = f"nothing uses the {kind} `{name}`, so it is not checked"
                self.diagnostics.report("W0812", message, span_of(module.source, name))

    def _declaration(
        self, tree: Node, module: ModuleFile, relation: DeclaredRelation, rules: Rules
    ) -> Iterator[syntax.Statement]:
        """Yield the declaration of a relation, and for an input a rule that refuses values out of range."""
        role = "".join(tokens_in(tree, "ROLE"))
        kind = str(tokens_in(tree, "KIND")[0])
        span = module.source.span(tree.meta.start_pos, tree.meta.end_pos)
        columns = [leaf for name, type_ in relation.row.fields for leaf in leaves(type_, name)]
        names = [name for name, _ in columns]
        if kind == "multiset" and role != "input":
            message = f"`{relation.name}` is a multiset that rules derive, which is not supported"
            raise self.world.refuse(
                "E0787", message, relation.declared, "omit `multiset`: count the derivations by `count`"
            )
        for name in names:
            if names.count(name) > 1:
                message = f"two fields of `{relation.name}` would be called `{name}`"
                raise self.world.refuse("E0205", message, relation.declared, "rename one of them")
        yield syntax.RelationDeclaration(
            name=relation.name,
            columns=tuple(
                syntax.ColumnDeclaration(name, _type_name(type_, span), False, relation.declared)
                for name, type_ in columns
            ),
            is_input=role == "input",
            is_output=role == "output",
            is_derived=False,
            is_multiset=kind == "multiset",
            symmetric=False,
            key=tuple(self._key(tree, module, relation)),
            at=None,
            name_span=relation.declared,
            span=span,
            text=module.source.text[tree.meta.start_pos : tree.meta.end_pos],
        )
        if role == "input":
            yield from _range_check(relation, columns, rules, relation.declared)

    def _key(self, tree: Node, module: ModuleFile, relation: DeclaredRelation) -> Iterator[syntax.KeyColumn]:
        """Yield the columns of a primary key, ``(r) r.x`` or ``(r) (r.x, r.y)``."""
        key = key_of(tree)
        if key is None:
            return
        row = str(tokens_in(key, "LOWER")[0])
        (expression,) = trees(key)
        columns: list[syntax.KeyColumn] = []
        first = f".{relation.row.fields[0][0]}" if relation.whole == relation.row and relation.row.fields else ""
        help = f"write the fields of the row, as in `({row}) {row}{first}`"
        for part in trees(expression) if expression.data == "tuple" else [expression]:
            path: list[str] = []
            place: Node = part
            while place.data == "member":
                path.insert(0, str(tokens_in(place, "LOWER", "INT")[0]))
                place = trees(place)[0]
            span = module.source.span(part.meta.start_pos, part.meta.end_pos)
            type_: Type | None = relation.whole
            for name in path:
                type_ = dict(type_.fields).get(name) if isinstance(type_, RecordType) else None
            path = path if relation.whole == relation.row else ["value", *path]
            if place.data != "variable" or place.children[0] != row or not path or type_ is None:
                raise self.world.refuse("E0204", "a primary key consists of fields of the row", span, help)
            columns += [syntax.KeyColumn(name, span) for name, _ in leaves(type_, "_".join(path))]
        if not columns:
            span = module.source.span(key.meta.start_pos, key.meta.end_pos)
            raise self.world.refuse("E0204", "this primary key has no columns", span, help)
        yield from columns


def _range_check(
    relation: DeclaredRelation, columns: Sequence[tuple[str, Type]], rules: Rules, span: Span
) -> Iterator[syntax.Statement]:
    """Yield a rule without a value for rows that do not fit the types of an input, so that batches with them fail."""
    variables = {name: syntax.VariableNode("null_" if name == "null" else name, span) for name, _ in columns}
    used: set[str] = set()
    #: What is negative if a value is out of range.
    distances: list[syntax.Expression] = []
    for name, type_ in columns:
        if not isinstance(type_, IntType) or type_.bits is None or type_.least == -(2**63):
            continue
        used.add(name)
        low = number(-type_.least, span)
        distances.append(variables[name] if type_.least == 0 else binary("+", variables[name], low, span))
        if type_.most < 2**63 - 1:
            distances.append(binary("-", number(type_.most, span), variables[name], span))
    if not distances:
        return
    name = unused(f"{relation.name}_out_of_range", rules.taken)
    rules.taken.add(name)
    first = next(variable for column, variable in variables.items() if column in used)
    nothing = binary("/", number(0, span), binary("-", first, first, span), span)
    arguments = tuple(variable if n in used else syntax.WildcardNode(span) for n, variable in variables.items())
    least = distances[0] if len(distances) == 1 else call("least", *distances, span=span)
    body = (
        syntax.AtomNode(relation.name, arguments, None, None, span),
        syntax.ComparisonNode("<", least, number(0, span), span),
    )
    rule = syntax.RuleNode(None, syntax.AtomNode(name, (nothing,), None, None, span), body, span, "")
    yield replace(rule, text=rule_text(rule))


def _type_name(type_: Type, span: Span) -> syntax.TypeName:
    """Return a type, which is no record, as Flintlog writes it."""
    if isinstance(type_, ListType):
        return syntax.TypeName("list", (), _type_name(type_.element, span), span)
    return syntax.TypeName(plain_name(type_), (), None, span)


# ---- statements ----------------------------------------------------------------------------------------------------


def _first_on_line(found: Sequence[Token], place: int, source: SourceFile) -> bool:
    return place == 0 or "\n" in source.text[end_of(found[place - 1]) : start_of(found[place])]


def _too_deep(tree: Node) -> Node | None:
    """Return a tree that is nested too deeply in another one for those who walk through it, None if there is none."""
    waiting = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _MOST_NESTED:
            return node
        waiting += [(inner, depth + 1) for inner in trees(node)]
    return None


def _closed(found: Sequence[Token], start: int) -> int | None:
    """Return the place after the bracket that closes the one at ``start``, None if there is none."""
    depth = 0
    for place in range(start, len(found)):
        depth += (found[place].type in ("LPAR", "LSQB", "LBRACE", "ATTRIBUTE")) - (
            found[place].type in ("RPAR", "RSQB", "RBRACE")
        )
        if depth <= 0:
            return place + 1
    return None


def _end_of_statement(found: Sequence[Token], start: int, source: SourceFile) -> int:
    """Return the place after a statement: a rule ends with its dot, a declaration before the next statement."""
    declares = str(found[start]) in _STARTS and found[start].type == "LOWER"
    depth = 0
    for place in range(start, len(found)):
        token = found[place]
        if place > start and depth <= 0 and _first_on_line(found, place, source):
            starts = str(token) in _STARTS and token.type == "LOWER"
            rule = declares and (token.type in ("UPPER", "SCOPED") or token.type == "BITAND")
            if starts or (rule and found[place - 1].type not in ("BAR", "EQUAL", "COLON")):
                return place
        depth += (token.type in ("LPAR", "LSQB", "LBRACE")) - (token.type in ("RPAR", "RSQB", "RBRACE"))
        if token.type == "END" and (depth <= 0 or not declares):
            return place + 1
        ended = (
            depth == 0 and token.type in ("RPAR", "RBRACE", "RSQB", "GREATER", "LOWER", "UPPER") and place > start + 1
        )
        if declares and ended and place + 1 < len(found):
            follows = found[place + 1]
            if follows.type == "LOWER" and str(follows) in _STARTS:
                return place + 1
    return len(found)


def _tagged(statement: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens of a statement, with its keywords marked."""
    first = str(statement[0])
    place = 0
    if statement[0].type == "LOWER" and first in _STARTS:
        if first in _ROLES and len(statement) > 1 and str(statement[1]) in _KINDS:
            yield _as(statement[0], "ROLE")
            place = 1
        kind = {"typedef": "TYPEDEF", "function": "FUNCTION", "extern": "EXTERN"}.get(str(statement[place]))
        yield _as(statement[place], kind or ("KIND" if str(statement[place]) in _KINDS else "LOWER"))
        place += 1
        if first == "extern" and place < len(statement) and statement[place] == "function":
            yield _as(statement[place], "FUNCTION")
            place += 1
    relation = first in (*_ROLES, *_KINDS)
    while place < len(statement):
        token = statement[place]
        if token.type == "UPPER" and token == "Inspect" and statement[place - 1].type in ("IF", "COMMA"):
            token = _as(token, "INSPECT")
        follows = str(statement[place + 1]) if place + 1 < len(statement) else ""
        if relation and token == "primary" and follows == "key":
            yield _as(token, "PRIMARY")
            yield _as(statement[place + 1], "KEY")
            place += 2
            continue
        yield token
        place += 1


def _as(token: Token, kind: str) -> Token:
    return Token.new_borrow_pos(kind, str(token), token)
