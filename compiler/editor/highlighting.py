"""A Pygments lexer, which highlights programs in documentation, on code hosts and in terminals.

The package registers it, so that Sphinx, MkDocs, ``pygmentize`` and everything else that uses Pygments knows the
language ``flintlog``, also under the name ``datalog``, which is common for Markdown code blocks.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups, include, words
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Punctuation, String, Whitespace

DECLARING = (
    "input",
    "output",
    "derived",
    "multiset",
    "relation",
    "typedef",
    "include",
    "domain",
    "process",
    "extern",
    "function",
)
"""Words that begin a declaration if a name or, after ``include``, a string follows; elsewhere they are names."""

TRAILING = ("primary", "key", "symmetric", "distinct")
"""Words after the columns of a relation, or before the argument of an aggregate."""

ORDERING = ("by", "asc", "desc")
"""Words of the order of a ``first``."""

NEGATING = ("not",)
CONSTANTS = ("true", "false", "null")
TYPES = ("int", "float", "string", "bool", "date", "timestamp", "decimal", "list")
AGGREGATES = ("min", "max", "sum", "count", "avg", "first")

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME_FOLLOWS = r"(?=\s+[A-Za-z_]|\s*/[/*])"
"""Matches before a name, possibly with comments between."""


def _parts(*kinds: Any) -> Any:
    """Return a callback that assigns one token type to each group of a match."""
    return bygroups(*kinds)  # type: ignore[no-untyped-call]


class FlintlogLexer(RegexLexer):
    """Lexer for Flintlog: Datalog with locations, regular paths, aggregates and processes."""

    name = "Flintlog"
    aliases: ClassVar[list[str]] = ["flintlog", "datalog"]
    filenames: ClassVar[list[str]] = ["*.dl"]
    mimetypes: ClassVar[list[str]] = ["text/x-flintlog"]

    tokens: ClassVar[dict[str, list[Any]]] = {
        "root": [
            (rf"({_NAME}(?:-[A-Za-z0-9_]+)*)(\s*)(:)(?![-=])", _parts(Name.Label, Whitespace, Punctuation)),
            (r"(typedef)(\s+)([A-Za-z_]\w*)", _parts(Keyword.Declaration, Whitespace, Name.Class)),
            (r'include(?=\s*")', Keyword.Declaration),
            (words(DECLARING, prefix=r"\b", suffix=rf"\b{_NAME_FOLLOWS}"), Keyword.Declaration),
            (r"(primary)(\s+)(key)\b", _parts(Keyword.Declaration, Whitespace, Keyword.Declaration)),
            (r"(?<!output )symmetric\b(?!\s*[(:@])", Keyword.Declaration),
            include("any"),
        ],
        "any": [
            (r"\s+", Whitespace),
            (r"//[^\n]*", Comment.Single),
            (r"/\*(?:[^*]|\*(?!/))*\*/", Comment.Multiline),
            (r'(?:date|timestamp)"[^"\n]*"', Literal.Date),
            (r'"', String.Double, "string"),
            (r"[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)", Number.Float),
            (r"[0-9]+", Number.Integer),
            (words(CONSTANTS, prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(NEGATING, prefix=r"\b", suffix=r"\b"), Operator.Word),
            (words(AGGREGATES, prefix=r"\b(?i:a_)?(?i:", suffix=r")(?=<)"), Name.Builtin),
            (r"(?<=<)distinct(?=\s)", Keyword),
            (rf"(?<=[0-9] ){ORDERING[0]}(?=\s)", Keyword),
            (words(ORDERING[1:], prefix=r"(?<=[A-Za-z0-9_)\]\"] )", suffix=r"(?=[,>])"), Keyword),
            (words(TYPES, prefix=r"(?<=<)", suffix=r"(?=[<>(])"), Keyword.Type),
            (words(TYPES, prefix=r"(?:(?<=:)|(?<=: ))", suffix=r"\b"), Keyword.Type),
            (words(TYPES, prefix=r"(?:(?<==)|(?<== ))", suffix=r"\b(?=[<(]|\s*(?:\n|//))"), Keyword.Type),
            (rf"{_NAME}(?:\.{_NAME})*(?=\()", Name.Function),
            (rf"{_NAME}(?:\.{_NAME})*", Name),
            (r":-|:=|!=|<=|>=|\+\+|[-+*/%|^?·=<>!@]", Operator),
            (r"\(", Punctuation, "group"),
            (r"\)", Punctuation, "#pop"),
            (r"[][{},;:.]", Punctuation),
        ],
        # A name before a colon is a column name inside parentheses, and a label elsewhere.
        "group": [
            (rf"({_NAME})(\s*)(:)(?![-=])", _parts(Name.Attribute, Whitespace, Punctuation)),
            include("any"),
        ],
        "string": [
            (r'[^"\\\n]+', String.Double),
            (r"\\(?:u[0-9A-Fa-f]{4}|.)", String.Escape),
            (r'"', String.Double, "#pop"),
        ],
    }
