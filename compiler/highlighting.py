"""Colours programs in documentation, on code hosts and in terminals: a lexer for Pygments.

Installing Flintlog tells Pygments about it, so that Sphinx, MkDocs, ``pygmentize`` and whatever else uses Pygments know
the language ``flintlog``, also as ``datalog``, which blocks of Markdown are called.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pygments.lexer import RegexLexer, bygroups, include, words
from pygments.token import Comment, Keyword, Literal, Name, Number, Operator, Punctuation, String, Whitespace

#: Words that begin a declaration where a name or, behind ``include``, a string follows; elsewhere they are names.
DECLARING = ("input", "output", "derived", "relation", "typedef", "include", "domain", "process", "extern", "function")
#: Words behind the columns of a relation, and before the argument of an aggregate.
TRAILING = ("primary", "key", "symmetric", "distinct")
NEGATING = ("not",)
CONSTANTS = ("true", "false")
TYPES = ("int", "float", "string", "bool", "date", "timestamp", "decimal", "list")
AGGREGATES = ("min", "max", "sum", "count", "avg")

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
#: A name follows, perhaps behind comments.
_NAME_FOLLOWS = r"(?=\s+[A-Za-z_]|\s*/[/*])"


def _parts(*kinds: Any) -> Any:
    """Each group of a match is of its own kind."""
    return bygroups(*kinds)  # type: ignore[no-untyped-call]


class FlintlogLexer(RegexLexer):
    """Flintlog: Datalog with locations, regular paths, aggregates and processes."""

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
            (r'date"[^"\n]*"', Literal.Date),
            (r'"', String.Double, "string"),
            (r"[0-9]+(?:\.[0-9]+(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)", Number.Float),
            (r"[0-9]+", Number.Integer),
            (words(CONSTANTS, prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(NEGATING, prefix=r"\b", suffix=r"\b"), Operator.Word),
            (words(AGGREGATES, prefix=r"\b(?i:a_)?(?i:", suffix=r")(?=<)"), Name.Builtin),
            (r"(?<=<)distinct(?=\s)", Keyword),
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
        # Inside parentheses a name before a colon is that of a column, outside it is a label.
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
