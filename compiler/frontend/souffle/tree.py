"""The tree of a Soufflé program as it is written, one node per construct, before it is rewritten to syntax nodes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ...source import Span

# ---- arguments -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VariableTerm:
    """``x``; the name has no question mark at its beginning any more."""

    name: str
    span: Span


@dataclass(frozen=True)
class WildcardTerm:
    """``_``."""

    span: Span


@dataclass(frozen=True)
class ConstantTerm:
    """A number, string or float; ``kind`` is ``number``, ``unsigned``, ``float`` or ``symbol``."""

    value: int | Decimal | str
    kind: str
    span: Span


@dataclass(frozen=True)
class RecordTerm:
    """``[a, b]``, or ``nil`` if ``items`` is None."""

    items: tuple[Argument, ...] | None
    span: Span


@dataclass(frozen=True)
class CallTerm:
    """``function(arguments)``, also an operator by its sign or word: ``+``, ``band``, ``-`` with one argument."""

    function: str
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True)
class AggregateTerm:
    """``sum target : { body }``; ``function`` is ``count``, ``sum``, ``min``, ``max`` or ``mean``."""

    function: str
    target: Argument | None
    body: Body
    span: Span


@dataclass(frozen=True)
class CastTerm:
    """``as(value, type)``."""

    value: Argument
    type: str
    span: Span


Argument = VariableTerm | WildcardTerm | ConstantTerm | RecordTerm | CallTerm | AggregateTerm | CastTerm

# ---- literals ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtomLiteral:
    """``relation(arguments)``; the name may be qualified."""

    relation: str
    arguments: tuple[Argument, ...]
    span: Span


@dataclass(frozen=True)
class ComparisonLiteral:
    """``left op right``; ``op`` is one of ``= != < <= > >= match contains``, the last two with the pattern or the part
    at the left."""

    op: str
    left: Argument
    right: Argument
    span: Span
    negated: bool = False


@dataclass(frozen=True)
class TruthLiteral:
    """``true`` or ``false``."""

    value: bool
    span: Span


@dataclass(frozen=True)
class NegationLiteral:
    """``!literal``, where the literal may be a group."""

    literal: Literal
    span: Span


@dataclass(frozen=True)
class Alternatives:
    """``(a, b ; c)``."""

    alternatives: tuple[Body, ...]
    span: Span


Literal = AtomLiteral | ComparisonLiteral | TruthLiteral | NegationLiteral | Alternatives
Body = tuple[Literal, ...]
"""A conjunction."""

# ---- statements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attribute:
    """``name: type`` of a relation or record; the spans are those of the name and of the type."""

    name: str
    type: str
    span: Span
    type_span: Span


@dataclass(frozen=True)
class Declaration:
    """One of the relations of ``.decl a, b(x: number) inline``; the span is that of the name."""

    name: str
    columns: tuple[Attribute, ...]
    tags: tuple[str, ...]
    span: Span
    text: str


@dataclass(frozen=True)
class TypeDeclaration:
    """``.type name <: base``, a union of ``parts``, or a record of ``fields``; the span is that of the name."""

    name: str
    parts: tuple[tuple[str, Span], ...]
    fields: tuple[Attribute, ...] | None
    span: Span


@dataclass(frozen=True)
class Directive:
    """One of the relations of ``.input a(IO=file, filename="a.csv")``; ``kind`` is ``input``, ``output``, ``printsize``
    or ``limitsize``."""

    kind: str
    relation: str
    options: tuple[tuple[str, str, Span], ...]
    span: Span


@dataclass(frozen=True)
class Clause:
    """``a(x), b(x) :- body.``, or facts if there is no body; ``text`` is the source text."""

    heads: tuple[AtomLiteral, ...]
    body: Alternatives | None
    span: Span
    text: str


@dataclass(frozen=True)
class Subsumption:
    """``less <= greater :- body.``: the tuple ``less`` is dropped where ``greater`` is there, too."""

    less: AtomLiteral
    greater: AtomLiteral
    body: Alternatives | None
    span: Span
    text: str


@dataclass(frozen=True)
class Applied:
    """``Component<T, U>`` in a declaration, an inheritance or an instance; also a component's name with parameters."""

    name: str
    arguments: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Component:
    """``.comp applied : bases { statements }``."""

    applied: Applied
    bases: tuple[Applied, ...]
    statements: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True)
class Init:
    """``.init name = applied``."""

    name: str
    applied: Applied
    span: Span


@dataclass(frozen=True)
class Override:
    """``.override relation``: the clauses of the base components for it are dropped."""

    relation: str
    span: Span


Statement = Declaration | TypeDeclaration | Directive | Clause | Subsumption | Component | Init | Override
