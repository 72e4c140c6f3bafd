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
from ..feeding import Node, child, span_of, tokens_in, trees
from ..files import Files
from ..syntax_errors import LeftOut, end_of, start_of
from .grammar import GRAMMAR
from .refusals import refused
from .rules import Rules
from .tokens import tokens
from .types import IntType, ListType, RecordType, Type, leaves
from .values import binary, call, number
from .world import DeclaredFunction, DeclaredRelation, ModuleFile, World, key_of, plain_name

#: The suffixes of the files of modules, in the order in which they are tried.
_SUFFIXES = (".dl", ".ddlog")
_STARTS = (
    *("typedef", "relation", "multiset", "stream", "input", "output", "internal", "import", "function", "extern"),
    *("apply", "for", "index", "transformer"),
)
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
    found: list[tuple[Node, ModuleFile]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    # ---- files and statements --------------------------------------------------------------------------------------

    def read(self, source: SourceFile, name: str) -> None:
        """Read a module, and before it those that it imports."""
        if not self.files.add(source):
            return
        self.names[source.name] = name
        all_tokens = list(tokens(source, self.diagnostics))
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
        self.found += [(tree, module) for tree in own]

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
        for known, module in self.names.items():
            if module == name and known != source.name:
                return place, name
        quiet = Files(Diagnostics(), self.files.load, list(self.files.sources))
        base = self.files.sources[0]
        for suffix in _SUFFIXES:
            loaded = quiet.include(f"{path}{suffix}", base, span)
            if loaded is not None:
                self.read(loaded, name)
                return place, name
        self.files.include(f"{path}{_SUFFIXES[0]}", base, span)
        return place, None

    def _statement(self, source: SourceFile, found: Sequence[Token], start: int) -> tuple[int, Node | None]:
        """Return the place after the statement at ``start``, and its tree if it has no errors."""
        if found[start].type == "ATTRIBUTE":
            return _closed(found, start), None
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
        for tree, module in self.found:
            self._declare_type(tree, module)
        relations = [(tree, module) for tree, module in self.found if tree.data == "relation"]
        rows: list[tuple[Node, ModuleFile, DeclaredRelation]] = []
        for tree, module in relations:
            try:
                rows.append((tree, module, self._relation(tree, module)))
            except LeftOut:
                self.world.broken.add(str(tokens_in(tree, "UPPER")[0]))
        for tree, module in self.found:
            with suppress(LeftOut):
                yield from self._declare_function(tree, module)
        rules = Rules(self.world, {relation.name for _, _, relation in rows})
        declared = {id(tree): relation for tree, _, relation in rows}
        for tree, module in self.found:
            with suppress(LeftOut):
                if tree.data == "relation" and id(tree) in declared:
                    yield from self._declaration(tree, module, declared[id(tree)], rules)
                elif tree.data == "rule":
                    yield from rules.translate(tree, module)

    def _declare_type(self, tree: Node, module: ModuleFile) -> None:
        if tree.data != "typedef":
            return
        name_tree, made = trees(tree)
        name = str(name_tree.children[0])
        if made.data == "variants" and any(child(part, "field") is not None for part in trees(made)):
            token = name_tree.children[0]
            assert isinstance(token, Token)
            message = f"`{name}` has several constructors with fields, which is not supported"
            help = "use a column with the name of the case, and columns for what the cases have"
            self.diagnostics.report("E0783", message, span_of(module.source, token), help=help)
            self.world.broken.add(name)
            return
        self.world.typedefs[module.name, name] = (made, module)
        if made.data == "constructor":
            self.world.constructors[module.name, str(tokens_in(made, "UPPER")[0])] = (made, module)

    def _relation(self, tree: Node, module: ModuleFile) -> DeclaredRelation:
        """Take in a relation."""
        token = tokens_in(tree, "UPPER")[0]
        name = str(token)
        span = span_of(module.source, token)
        types = [part for part in trees(tree) if part.data in ("named", "applied", "tuple_type")]
        if types:
            row = self.world.type(types[0], module)
            if not isinstance(row, RecordType):
                row = RecordType(name, (("value", row),), name)
        else:
            row = RecordType(name, tuple(self.world.fields(tree, module)), name)
        known = self.world.relations.get((module.name, name))
        if known is not None:
            raise self.world.refuse("E0202", f"the relation `{name}` is declared twice", span)
        relation = DeclaredRelation(module.known_as(name), row, span)
        self.world.relations[module.name, name] = relation
        return relation

    def _declare_function(self, tree: Node, module: ModuleFile) -> Iterator[syntax.Statement]:
        if tree.data not in ("function", "external"):
            return
        name = tokens_in(tree, "LOWER")[0]
        parameters = tuple(self.world.fields(tree, module))
        others = [part for part in trees(tree) if part.data != "field"]
        result = self.world.type(others[0], module)
        body = others[1] if tree.data == "function" else None
        self.world.functions[module.name, str(name)] = DeclaredFunction(str(name), parameters, result, body, module)
        if body is None:
            span = span_of(module.source, name)
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
        for part in trees(expression) if expression.data == "tuple" else [expression]:
            path: list[str] = []
            place: Node = part
            while place.data == "member":
                path.insert(0, str(tokens_in(place, "LOWER", "INT")[0]))
                place = trees(place)[0]
            span = module.source.span(part.meta.start_pos, part.meta.end_pos)
            type_: Type | None = relation.row
            for name in path:
                type_ = dict(type_.fields).get(name) if isinstance(type_, RecordType) else None
            if place.data != "variable" or place.children[0] != row or not path or type_ is None:
                help = (
                    f"write the fields of the row, as in `({row}) {row}.{relation.row.fields[0][0]}`"
                    if relation.row.fields
                    else None
                )
                raise self.world.refuse("E0204", "a primary key consists of fields of the row", span, help)
            for name, _ in leaves(type_, "_".join(path)):
                yield syntax.KeyColumn(name, span)


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


def _closed(found: Sequence[Token], start: int) -> int:
    """Return the place after the bracket that closes the one at ``start``, or the end."""
    depth = 0
    for place in range(start, len(found)):
        depth += (found[place].type in ("LPAR", "LSQB", "LBRACE", "ATTRIBUTE")) - (
            found[place].type in ("RPAR", "RSQB", "RBRACE")
        )
        if depth <= 0 and place > start:
            return place + 1
    return len(found)


def _end_of_statement(found: Sequence[Token], start: int, source: SourceFile) -> int:
    """Return the place after a statement: a rule ends with its dot, a declaration before the next statement."""
    declares = str(found[start]) in _STARTS and found[start].type == "LOWER"
    depth = 0
    for place in range(start, len(found)):
        token = found[place]
        if place > start and depth <= 0 and _first_on_line(found, place, source):
            starts = str(token) in _STARTS and token.type == "LOWER"
            rule = declares and (token.type in ("UPPER", "SCOPED") or token.type == "BITAND")
            if starts or token.type == "ATTRIBUTE" or (rule and found[place - 1].type not in ("BAR", "EQUAL", "COLON")):
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
