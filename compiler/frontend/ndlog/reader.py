"""Reads programs in NDlog, as RapidNet writes it, into the syntax tree of Flintlog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from lark import Token

from ...diagnostics import Diagnostics
from ...dialects import Load
from ...ir import syntax
from ...source import SourceFile
from ..classify import Classifier
from ..files import Files
from ..parser import parse_statements
from ..statement_grammar import Grammar, span_of
from ..syntax_errors import LeftOut
from .program import Assembly, Read
from .refusals import refused
from .tokens import Inclusion, Preprocessor, label_length
from .translate import Translator

DECLARES = "//:"
"""How a line begins that NDlog takes for a comment, and Flintlog for a declaration."""

_WORDS = {
    "DOT": "`.`",
    "COMMA": "`,`",
    "IF": "`:-`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "GREATER": "`>`",
    "KEYS": "`keys(...)`",
    "VARIABLE": "a variable",
    "NAME": "a name",
    "INT": "a number",
    "EQUAL": "a comparison",
    "ASSIGN": "`:=`",
}
_GRAMMAR = Grammar(Path(__file__).with_name("ndlog.lark"), _WORDS)


def read(main: SourceFile, diagnostics: Diagnostics, load: Load) -> syntax.SyntaxProgram:
    """Read a program of NDlog; see :data:`...dialects.Read`."""
    reading = _NdlogReading(diagnostics, Files(diagnostics, load))
    reading.read(main)
    statements = tuple(Assembly(reading.statements, diagnostics).program())
    return syntax.SyntaxProgram(statements, tuple(reading.files.sources))


class _NdlogReading:
    """The statements of the files that have been read."""

    def __init__(self, diagnostics: Diagnostics, files: Files) -> None:
        self.diagnostics, self.files = diagnostics, files
        self.statements: list[Read] = []
        self.preprocessor = Preprocessor(diagnostics)
        self.functions: set[str] = set()

    def read(self, source: SourceFile) -> None:
        """Read a file and those that it includes."""
        if not self.files.add(source):
            return
        self._declarations(source)
        statement: list[Token] = []
        tokens = self.preprocessor.tokens(source)
        try:
            for token in tokens:
                if isinstance(token, Inclusion):
                    if statement:
                        self._statement(source, statement)
                        statement = []
                    included = self.files.include(token.path, source, span_of(source, token.token))
                    if included is not None:
                        self.read(included)
                    continue
                statement.append(token)
                if token.type == "DOT":
                    self._statement(source, statement)
                    statement = []
        except LeftOut:
            return
        if statement:
            self._statement(source, statement)

    def _declarations(self, source: SourceFile) -> None:
        """Read the lines that declare relations and functions in Flintlog's own language."""
        lines = [line.lstrip().startswith(DECLARES) for line in source.lines]
        if not any(lines):
            return
        masked = [
            " " * (line.index(DECLARES) + len(DECLARES)) + line[line.index(DECLARES) + len(DECLARES) :]
            if declares
            else " " * len(line)
            for line, declares in zip(source.lines, lines, strict=True)
        ]
        classifier = Classifier(source, self.diagnostics)
        for tree in parse_statements(SourceFile(source.name, "\n".join(masked)), self.diagnostics):
            statement = classifier.statement(tree)
            match statement:
                case syntax.FunctionDeclaration():
                    self.functions.add(statement.name)
                    self.statements.append(statement)
                case syntax.RelationDeclaration() | syntax.Typedef() | syntax.OutputDirective() | syntax.Domain():
                    self.statements.append(statement)
                case None:
                    pass
                case _:
                    span = source.span(tree.meta.start_pos, tree.meta.end_pos)
                    message = f"only declarations may stand in lines that begin with `{DECLARES}`"
                    self.diagnostics.report("E0758", message, span, help="omit the colon, or write the rule in NDlog")

    def _statement(self, source: SourceFile, tokens: list[Token]) -> None:
        """Read one statement; leave it out if it has errors."""
        if any(token.type in ("UNKNOWN", "OPEN_STRING", "DIRECTIVE") for token in tokens):
            return  # Already reported.
        refusal = refused(tokens)
        if refusal is not None:
            span = span_of(source, refusal.token)
            self.diagnostics.report(refusal.code, refusal.message, span, help=refusal.help)
            return
        tagged = list(_tagged(tokens))
        tree = _GRAMMAR.parse(source, tagged, self.diagnostics)
        if isinstance(tree, int):
            if tree < len(tagged):
                self._statement(source, tokens[tree - len(tagged) :])
            return
        with suppress(LeftOut):
            self.statements.append(Translator(source, self.diagnostics, frozenset(self.functions)).statement(tree))


def _tagged(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens of a statement, with its keywords and its label marked."""
    first, following = tokens[0], tokens[1].type if len(tokens) > 1 else ""
    if following == "LPAR" and str(first) in ("materialize", "watch", "watchmod"):
        yield _as(first, "MATERIALIZE" if first == "materialize" else "WATCH")
        for token in tokens[1:]:
            yield _as(token, "KEYS") if token == "keys" and first == "materialize" else token
        return
    length = label_length(tokens)
    if length:
        label = "".join(tokens[:length])
        yield Token("LABEL", label, first.start_pos, end_pos=tokens[length - 1].end_pos)
    yield from tokens[length + (length > 0 and tokens[length].type == "COLON") :]


def _as(token: Token, kind: str) -> Token:
    return Token.new_borrow_pos(kind, str(token), token)
