"""Parses the text of a Soufflé program into the statements of :mod:`.tree`.

Statements are parsed one by one: the LALR parser takes tokens until it cannot go on, so that a syntax error does not
affect other statements. What Flintlog has no equivalent for is reported by its name, and left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, NoReturn, cast

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedToken

from ...diagnostics import Diagnostics
from ...naming import unused
from ...source import Span
from ..statement_grammar import parser_of
from ..syntax_errors import LeftOut
from . import tree
from .preprocess import MappedText
from .scopes import plain_name

Node = Tree[Token]

_DIRECTIVES = frozenset(
    {"DECL", "TYPE", "NUMBER_TYPE", "SYMBOL_TYPE", "DIRECTIVE", "COMP", "INIT", "OVERRIDE", "PRAGMA", "PLAN", "FUNCTOR"}
    | {"LATTICE", "INCLUDE", "ONCE"}
)
_ESCAPES = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_NAMES = {
    "IDENT": "a name",
    "QUALIFIED": "a name",
    "STRING": "a string",
    "NUMBER": "a number",
    "END": "a dot",
    "COMMA": "a comma",
    "SEMICOLON": "`;`",
    "RPAR": "a closing parenthesis",
    "LPAR": "an opening parenthesis",
    "RSQB": "`]`",
    "IF": "`:-`",
    "COLON": "`:`",
    "OPEN": "`{`",
    "CLOSE": "`}`",
    "EQUALS": "`=`",
    "SUBTYPE": "`<:`",
    "GREATER": "`>`",
}
"""The names of tokens in messages."""

_VALUES = frozenset({"IDENT", "STRING", "NUMBER"})


@dataclass(frozen=True)
class Included:
    """``.include "file"``."""

    path: str
    span: Span


def _parser() -> Lark:
    return parser_of(Path(__file__).with_name("souffle.lark"), "statement", "junk")


def parse(text: MappedText, diagnostics: Diagnostics) -> Iterator[tree.Statement | Included]:
    """Yield the statements of a text; report those that cannot be parsed or that have no equivalent."""
    yield from _SouffleStatements(text, diagnostics).statements()


@dataclass
class _SouffleStatements:
    """The tokens of a text, and the index where the next statement begins."""

    text: MappedText
    diagnostics: Diagnostics
    tokens: list[Token] = field(default_factory=list)
    next: int = 0

    def statements(self) -> Iterator[tree.Statement | Included]:
        """Yield the statements, parsing them one by one; a component contains those up to its closing brace."""
        for token in _parser().lex(self.text.text):
            self._add(token)
        while self.next < len(self.tokens):
            yield from self._statement()

    def _add(self, token: Token) -> None:
        """Append a token of the lexer; report those that belong to no statement."""
        if token.type == "OPEN_STRING":
            self.report("E0105", "this string is not closed on its line", token, help='end it with `"`')
            token = Token.new_borrow_pos("STRING", '""', token)
        elif token.type == "OPEN_COMMENT":
            span = self.text.span(token.start_pos or 0, (token.start_pos or 0) + 2)
            self.diagnostics.report("E0106", "this comment is never closed", span, help="end it with `*/`")
            return
        elif token.type == "UNKNOWN":
            help = "comments begin with `//`, or are enclosed in `/*` and `*/`" if token == "#" else None
            self.report("E0107", f"the character `{token}` has no meaning here", token, help)
            return
        self.tokens.append(token)

    def _statement(self) -> Iterator[tree.Statement | Included]:
        """Yield the next statement, or none if it is only noted or refused."""
        start = self.next
        node = self._tree()
        if node is None:
            return
        words = {str(token) for token in self.tokens[start : self.next] if token.type == "IDENT"}
        builder = Builder(self.text, self.diagnostics, self.tokens[start], self.tokens[self.next - 1], words)
        if node.data == "component":
            yield from self._component(node, builder)
            return
        if node.data == "closing":
            self.report("E0101", "unexpected `}`", self.tokens[start])
            return
        try:
            yield from builder.statement(node)
        except LeftOut:
            return

    def _component(self, node: Node, builder: Builder) -> Iterator[tree.Component]:
        """Yield a component with its statements."""
        applied = [builder.applied(child) for child in node.children if isinstance(child, Tree)]
        inner: list[tree.Statement] = []
        while self.next < len(self.tokens) and self.tokens[self.next].type != "CLOSE":
            for statement in self._statement():
                if isinstance(statement, Included):
                    message = "a file cannot be included inside of a component"
                    self.diagnostics.report("E0766", message, statement.span, help="include it before the component")
                else:
                    inner.append(statement)
        if self.next == len(self.tokens):
            message = f"the component `{applied[0].name}` is never closed"
            self.diagnostics.report("E0766", message, applied[0].span, help="end it with `}`")
        self.next += 1
        yield tree.Component(applied[0], tuple(applied[1:]), tuple(inner), applied[0].span)

    def _tree(self) -> Node | None:
        """Return the parse tree of the next statement, or None after reporting that there is none."""
        parser = self._parser(self.next)
        index = self.next
        while index < len(self.tokens):
            token = self.tokens[index]
            ended = index > self.next and "$END" in parser.choices()
            try:
                parser.feed_token(token)
            except UnexpectedToken:
                if not ended:
                    self._complain(index, parser)
                    return None
                # The token has changed the parser.
                parser = self._parser(index)
                break
            index += 1
            if token.type == "END" or (token.type == "CLOSE" and index == self.next + 1):
                break
        try:
            statement = parser.feed_eof()
        except UnexpectedToken:
            self._complain(index, parser)
            return None
        self.next = index
        return cast(Node, statement)

    def _parser(self, until: int) -> Any:
        """Return a parser that has read the tokens of the statement before index ``until``."""
        parser = _parser().parse_interactive("", start="statement")
        for token in self.tokens[self.next : until]:
            parser.feed_token(token)
        return parser

    def _complain(self, bad: int, parser: Any) -> None:
        """Report the token that a statement cannot go on with, and continue with the next statement."""
        accepted = parser.accepts()
        listed = [name for kind, name in _NAMES.items() if kind in accepted]
        if accepted >= _VALUES:
            listed = ["a value" if "LPAR" in accepted else "a name", *(n for n in listed if n in ("a dot", "`]`"))]
        expected = f"expected {' or '.join(dict.fromkeys(listed[:3]))}, " if listed else ""
        if bad < len(self.tokens):
            self.report(
                "E0101", f"{expected}{'found' if expected else 'unexpected'} `{self.tokens[bad]}`", self.tokens[bad]
            )
        else:
            self.report(
                "E0101", f"{expected}{'found' if expected else 'unexpected'} the end of the file", self.tokens[-1]
            )
        index = max(bad, self.next)
        if index == self.next:
            index += 1
        while index < len(self.tokens):
            kind = self.tokens[index].type
            if kind in _DIRECTIVES or kind == "CLOSE" or (index and self.tokens[index - 1].type == "END"):
                break
            index += 1
        self.next = index

    def report(self, code: str, message: str, token: Token, help: str | None = None) -> None:
        """Report a mistake at a token."""
        self.diagnostics.report(code, message, self.text.span(token.start_pos or 0, token.end_pos or 0), help=help)


@dataclass
class Builder:
    """Makes the statements of one parse tree, whose tokens are those from ``first`` to ``last``."""

    text: MappedText
    diagnostics: Diagnostics
    first: Token
    last: Token
    words: set[str]

    # ---- statements ------------------------------------------------------------------------------------------------

    def statement(self, node: Node) -> Iterator[tree.Statement | Included]:
        """Yield the statements that a parse tree makes; report what has no equivalent and raise :class:`LeftOut`."""
        match str(node.data):
            case "declaration":
                yield from self._declaration(node)
            case "subtype" | "union" | "record_type" | "old_type":
                yield self._type(node)
            case "variants":
                help = "write a relation for each kind of value, with a key that says which value it is"
                self.refuse("E0761", "algebraic data types are not supported", self.first, help)
            case "directive":
                yield from self._directive(node)
            case "instance":
                name = _tokens(node)[1]
                yield tree.Init(str(name), self.applied(_trees(node)[0]), self.span(name))
            case "override":
                name = _tokens(node)[1]
                yield tree.Override(str(name), self.span(name))
            case "include":
                path = _tokens(node)[1]
                yield Included(self._string(path), self.span(path))
            case "functor":
                help = "declare it in a Flintlog program, as in `extern function f(x: int): int`"
                self.refuse("E0763", f"the functor `{_tokens(node)[1]}` is defined by the user", self.first, help)
            case "lattice" | "delta_declaration":
                what = "lattices are" if node.data == "lattice" else "`debug_delta` is"
                self.refuse("E0768", f"{what} not supported", self.first)
            case "clause":
                yield self._clause(node)
            case "subsumption":
                yield self._subsumption(node)
            case _:  # Query plans and pragmas, which change no results; what .once says is always so.
                return

    def _declaration(self, node: Node) -> Iterator[tree.Declaration]:
        names, columns, *rest = _trees(node)
        tags = tuple(str(_tokens(child)[0]) for child in rest if child.data == "tag")
        for child in rest:
            if child.data == "choice":
                help = "`min` or `max` in a head chooses one tuple of a group, the same in each evaluation"
                self.refuse("E0762", "`choice-domain` is not supported", _tokens(child)[0], help)
        attributes = tuple(self._column(child) for child in _trees(columns))
        text = self._text()
        for name in _tokens(names):
            yield tree.Declaration(str(name), attributes, tags, self.span(name), text)

    def _column(self, node: Node) -> tree.Attribute:
        name, kind = _tokens(node)[0], _tokens(_trees(node)[0])[0]
        if len(_tokens(node)) > 1:
            self.refuse("E0768", "lattices are not supported", kind)
        return tree.Attribute(str(name), str(kind), self.span(name), self.span(kind))

    def _type(self, node: Node) -> tree.TypeDeclaration:
        word, name = _tokens(node)[:2]
        if node.data == "old_type":
            base = "number" if word.type == "NUMBER_TYPE" else "symbol"
            return tree.TypeDeclaration(str(name), ((base, self.span(name)),), None, self.span(name))
        if node.data == "record_type":
            fields = tuple(self._column(child) for child in _trees(node))
            return tree.TypeDeclaration(str(name), (), fields, self.span(name))
        parts = [_tokens(child)[0] for child in _trees(node)]
        return tree.TypeDeclaration(str(name), tuple((str(p), self.span(p)) for p in parts), None, self.span(name))

    def _directive(self, node: Node) -> Iterator[tree.Directive]:
        kind = str(_tokens(node)[0]).removeprefix(".")
        for directed in _trees(node):
            name, *nodes = _trees(directed)
            options = []
            for option in nodes:
                key, value = (token for token in _tokens(option) if token.type != "EQUALS")
                text = self._string(value) if value.type == "STRING" else str(value)
                options.append((str(key), text, self.span(key)))
            token = _tokens(name)[0]
            yield tree.Directive(kind, str(token), tuple(options), self.span(token))

    def applied(self, node: Node) -> tree.Applied:
        """Return the name and the arguments of a component."""
        name = _tokens(node)[0]
        arguments = tuple(str(_tokens(child)[0]) for child in _trees(node))
        return tree.Applied(str(name), arguments, self.span(name))

    def _clause(self, node: Node) -> tree.Clause:
        heads, *body = _trees(node)
        atoms = tuple(self._atom(head) for head in _trees(heads))
        return tree.Clause(atoms, self._group(body[0]) if body else None, atoms[0].span, self._text())

    def _subsumption(self, node: Node) -> tree.Subsumption:
        less, greater, *body = _trees(node)
        first = self._atom(less)
        return tree.Subsumption(
            first, self._atom(greater), self._group(body[0]) if body else None, first.span, self._text()
        )

    # ---- literals --------------------------------------------------------------------------------------------------

    def _group(self, node: Node) -> tree.Alternatives:
        alternatives = tuple(tuple(self._literal(child) for child in _trees(part)) for part in _trees(node))
        return tree.Alternatives(alternatives, self.node_span(node))

    def _literal(self, node: Node) -> tree.Literal:
        span = self.node_span(node)
        match str(node.data):
            case "atom":
                return self._atom(node)
            case "comparison":
                left, right = (self._argument(child) for child in _trees(node))
                return tree.ComparisonLiteral(str(_tokens(node)[0]), left, right, span)
            case "text_test":
                left, right = (self._argument(child) for child in _trees(node))
                return tree.ComparisonLiteral(str(_tokens(node)[0]), left, right, span)
            case "truth":
                return tree.TruthLiteral(_tokens(node)[0].type == "TRUE", span)
            case "negation":
                return tree.NegationLiteral(self._literal(_trees(node)[0]), span)
            case _:
                return self._group(node)

    def _atom(self, node: Node) -> tree.AtomLiteral:
        name, arguments = _trees(node)
        return tree.AtomLiteral(str(_tokens(name)[0]), self._arguments(arguments), self.node_span(node))

    def _arguments(self, node: Node) -> tuple[tree.Argument, ...]:
        return tuple(self._argument(child) for child in _trees(node))

    # ---- arguments -------------------------------------------------------------------------------------------------

    def _argument(self, node: Node) -> tree.Argument:
        span = self.node_span(node)
        match str(node.data):
            case "variable":
                return tree.VariableTerm(self._variable(str(_tokens(node)[0])), span)
            case "wildcard":
                return tree.WildcardTerm(span)
            case "constant":
                return self._constant(_tokens(node)[0], span)
            case "nil":
                return tree.RecordTerm(None, span)
            case "record":
                return tree.RecordTerm(self._arguments(_trees(node)[0]), span)
            case "cast":
                value, kind = _trees(node)
                return tree.CastTerm(self._argument(value), str(_tokens(kind)[0]), span)
            case "call":
                children = _trees(node)
                arguments = (
                    self._arguments(children[0])
                    if children and children[0].data == "args"
                    else tuple(map(self._argument, children))
                )
                return tree.CallTerm(str(_tokens(node)[0]), arguments, span)
            case "binary":
                left, right = (self._argument(child) for child in _trees(node))
                return tree.CallTerm(str(_tokens(node)[0]), (left, right), span)
            case "unary":
                return self._unary(node, span)
            case "aggregate":
                *target, body = _trees(node)
                function = str(_tokens(node)[0])
                aggregated = _trees(body)[0]
                group = self._group(aggregated) if aggregated.data == "disjunction" else None
                literals = group.alternatives[0] if group else (self._atom(aggregated),)
                if group and len(group.alternatives) > 1:
                    help = "write a relation with a rule for each alternative, and aggregate over that"
                    self.refuse("E0772", "an aggregate over alternatives is not supported", _tokens(node)[0], help)
                if not target and function != "count":
                    self.refuse("E0772", f"`{function}` needs a value to aggregate", _tokens(node)[0])
                if target and function == "count":
                    self.refuse("E0772", "`count` counts tuples and takes no value", _tokens(node)[0])
                return tree.AggregateTerm(function, self._argument(target[0]) if target else None, literals, span)
            case "variant":
                help = "write a relation for each kind of value, with a key that says which value it is"
                self.refuse("E0761", "algebraic data types are not supported", self.first_token(node), help)
            case "counter":
                message = f"`{self.first_token(node)}` has no fixed value, so it is not supported"
                help = 'build a key from the values of the tuple, as in `cat(x, "-", y)`'
                self.refuse("E0764", message, self.first_token(node), help)
            case "user_functor" | "user_aggregate":
                name = next(token for token in _tokens(node) if token.type == "IDENT")
                help = "declare it in a Flintlog program, as in `extern function f(x: int): int`"
                self.refuse("E0763", f"the functor `{name}` is defined by the user", name, help)
        raise AssertionError(node.data)

    def _variable(self, text: str) -> str:
        """Return the name of a variable without question marks, and unlike others of the statement."""
        name = plain_name(text)
        return name if name == text else unused(name, self.words)

    def _unary(self, node: Node, span: Span) -> tree.Argument:
        operator, operand = _tokens(node)[0], self._argument(_trees(node)[0])
        if operator.type == "MINUS" and isinstance(operand, tree.ConstantTerm) and not isinstance(operand.value, str):
            return tree.ConstantTerm(-operand.value, operand.kind, span)
        return tree.CallTerm(str(operator), (operand,), span)

    def _constant(self, token: Token, span: Span) -> tree.ConstantTerm:
        match token.type:
            case "STRING":
                return tree.ConstantTerm(self._string(token), "symbol", span)
            case "FLOAT":
                return tree.ConstantTerm(Decimal(str(token)), "float", span)
            case "ADDRESS":
                value = 0
                for part in token.split("."):
                    value = value * 256 + int(part[:20])
                return tree.ConstantTerm(value, "number", span)
        digits, kind = str(token), "unsigned" if token.type == "UNSIGNED" else "number"
        digits = digits.removesuffix("u") if kind == "unsigned" else digits
        base = {"0b": 2, "0x": 16}.get(digits[:2], 10)
        # Python refuses very long decimal texts; these do not fit 64 bits.
        value = int(digits, base) if base != 10 else int((digits.lstrip("0") or "0")[:20])
        if value >= 2**63:
            self.refuse("E0307", "this number does not fit a 64-bit int", token)
        return tree.ConstantTerm(value, kind, span)

    def _string(self, token: Token) -> str:
        """Return the value of a string literal."""
        parts, body, index = [], str(token)[1:-1], 0
        while index < len(body):
            if body[index] != "\\":
                parts.append(body[index])
                index += 1
                continue
            escape = body[index + 1]
            if escape not in _ESCAPES:
                self.refuse("E0108", f"unknown escape `\\{escape}` in a string", token)
            parts.append(_ESCAPES[escape])
            index += 2
        return "".join(parts)

    # ---- places ----------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        return self.text.original(self.first.start_pos or 0, self.last.end_pos or 0)

    def span(self, token: Token) -> Span:
        """Return the span of a token."""
        return self.text.span(token.start_pos or 0, token.end_pos or 0)

    def node_span(self, node: Node) -> Span:
        """Return the span of a parse tree, or of the whole statement if it has no tokens."""
        if node.meta.empty:
            return self.span(self.first)
        return self.text.span(node.meta.start_pos, node.meta.end_pos)

    def first_token(self, node: Node) -> Token:
        """Return the first token of a parse tree."""
        return next(node.scan_values(lambda value: isinstance(value, Token)))

    def refuse(self, code: str, message: str, token: Token, help: str | None = None) -> NoReturn:
        """Report why a statement is left out, and raise :class:`LeftOut`."""
        self.diagnostics.report(code, message, self.span(token), help=help)
        raise LeftOut


def _trees(node: Node) -> list[Node]:
    return [child for child in node.children if isinstance(child, Tree)]


def _tokens(node: Node) -> list[Token]:
    return [child for child in node.children if isinstance(child, Token)]
