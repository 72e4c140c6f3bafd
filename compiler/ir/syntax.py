"""Syntax: what the reader of a dialect found, one node per construct, nothing resolved yet.

Every dialect's reader makes these nodes; no later pass knows which dialect it was. Nodes carry the span of the text
they came from, and rules and declarations carry that text itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ..source import SourceFile, Span

# ---- expressions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    """An identifier in argument position, upper or lower case; prints as its name."""

    name: str
    span: Span


@dataclass(frozen=True)
class Wildcard:
    """``_``: a fresh variable each time."""

    span: Span


@dataclass(frozen=True)
class Constant:
    """A literal value; ``kind`` is ``int``, ``float`` (a :class:`~decimal.Decimal` of the text), ``string``, ``bool``
    or ``date`` (the text ``YYYY-MM-DD``, already checked)."""

    value: int | Decimal | str | bool
    kind: str
    span: Span


@dataclass(frozen=True)
class Unary:
    """``-x``; ``op`` is ``-``. A minus before a number literal is part of the :class:`Constant`."""

    op: str
    operand: Expression
    span: Span


@dataclass(frozen=True)
class Binary:
    """``left op right``; ``op`` is one of ``+ - * / % ++``. The span is that of the whole expression."""

    op: str
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True)
class Call:
    """``name(arguments)`` in expression position."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True)
class ListLiteral:
    """``[a, b]``."""

    items: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True)
class Aggregate:
    """``min<C>``, ``count<*>``, ``count<distinct X>``, only in heads; ``function`` is in lower case without ``a_``.

    ``argument`` is None for ``count<*>``.
    """

    function: str
    argument: Expression | None
    distinct: bool
    span: Span


Expression = Variable | Wildcard | Constant | Unary | Binary | Call | ListLiteral | Aggregate

# ---- literals ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Atom:
    """``relation(arguments)``; ``relation`` may be qualified (``S1.host``).

    A call that stands as a literal, ``f_inPath(P, S)``, is an atom until names are resolved.
    ``location`` is the index of the argument that carried ``@``, or None. ``at`` is the constant of a propositional
    atom with a location (``p@1``), which has no arguments.
    """

    relation: str
    arguments: tuple[Expression, ...]
    location: int | None
    at: Constant | None
    span: Span


@dataclass(frozen=True)
class Step:
    """A binary relation in a path."""

    relation: str
    span: Span


@dataclass(frozen=True)
class Inverse:
    """``^path``, or ``path-``: its pairs turned round."""

    path: Path
    span: Span


@dataclass(frozen=True)
class Sequence:
    """``a / b``, or ``a · b``: one path behind the other."""

    parts: tuple[Path, ...]
    span: Span


@dataclass(frozen=True)
class Choice:
    """``a | b``, or ``a + b``: either path."""

    options: tuple[Path, ...]
    span: Span


@dataclass(frozen=True)
class Repeat:
    """``path+``, ``path*`` or ``path?``; ``op`` is the last character."""

    path: Path
    op: str
    span: Span


#: A regular expression over binary relations (Bonifati et al. 2018, section 2).
Path = Step | Inverse | Sequence | Choice | Repeat


@dataclass(frozen=True)
class PathLiteral:
    """``(a / b+)(X, Y)``: a path leads from ``left`` to ``right``."""

    path: Path
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True)
class Negation:
    """``!atom`` or ``not atom``."""

    atom: Atom | PathLiteral
    span: Span


@dataclass(frozen=True)
class Comparison:
    """``left op right``; ``op`` is one of ``= != < <= > >= :=``. Whether ``=`` assigns or compares is decided later."""

    op: str
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True)
class Disjunction:
    """``(a, b ; c)``; an alternative is a conjunction of literals."""

    alternatives: tuple[tuple[Literal, ...], ...]
    span: Span


Literal = Atom | PathLiteral | Negation | Comparison | Disjunction

# ---- statements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypeName:
    """A type as written: ``int``, ``decimal(10,2)`` (``parameters`` are 10 and 2), an alias; ``list<T>`` has
    ``element``."""

    name: str
    parameters: tuple[int, ...]
    element: TypeName | None
    span: Span


@dataclass(frozen=True)
class ColumnDeclaration:
    """``@name: type`` in a relation declaration; ``located`` says whether the ``@`` was there."""

    name: str
    type: TypeName
    located: bool
    span: Span


@dataclass(frozen=True)
class KeyColumn:
    """A column named in ``primary key (...)``."""

    name: str
    span: Span


@dataclass(frozen=True)
class RelationDeclaration:
    """``input derived relation p(...) primary key (...) symmetric``.

    ``is_derived`` is set by the word ``derived`` only (input and derived at once). ``at`` is the constant location of a
    propositional relation (``input relation t@1``). ``name_span`` covers the name alone.
    """

    name: str
    columns: tuple[ColumnDeclaration, ...]
    is_input: bool
    is_output: bool
    is_derived: bool
    symmetric: bool
    key: tuple[KeyColumn, ...]
    at: Constant | None
    name_span: Span
    span: Span
    text: str


@dataclass(frozen=True)
class OutputDirective:
    """``output reachable.``: publishes a relation that is declared elsewhere or not at all."""

    name: str
    span: Span


@dataclass(frozen=True)
class Typedef:
    """``typedef NodeId = int``."""

    name: str
    type: TypeName
    span: Span


@dataclass(frozen=True)
class Domain:
    """``domain person(X).``: the values of the one variable of ``atom`` are nodes; a path that may be empty leads from
    each node to itself."""

    atom: Atom
    span: Span


@dataclass(frozen=True)
class ExternalFunction:
    """``extern function risk(x: int, s: string): float``; the span is that of the name."""

    name: str
    parameters: tuple[ColumnDeclaration, ...]
    result: TypeName
    span: Span
    text: str


@dataclass(frozen=True)
class Rule:
    """``[label:] head :- body.``, or a fact if the body is empty. ``text`` is the source text from the label to the
    final dot. ``origin`` says in a clause what the compiler made the rule for; empty if it did not."""

    label: str | None
    head: Atom
    body: tuple[Literal, ...]
    span: Span
    text: str
    origin: str = ""


Statement = RelationDeclaration | OutputDirective | Typedef | Domain | ExternalFunction | Rule


@dataclass(frozen=True)
class Process:
    """``process S1 { ... }``: the statements of one process. With ``parameters``, ``process Switch(n: int) { ... }``,
    it is a pattern for several. The span is that of the name."""

    name: str
    parameters: tuple[ColumnDeclaration, ...]
    statements: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True)
class Instance:
    """``process S1 = Switch(1)``: a process made from a pattern; the spans are those of the two names."""

    name: str
    pattern: str
    arguments: tuple[Constant, ...]
    span: Span
    pattern_span: Span


@dataclass(frozen=True)
class Edge:
    """The pairs of a relation, turned round if ``inverse``; prints as ``e`` or ``^e``."""

    relation: str
    inverse: bool = False

    def __str__(self) -> str:
        return f"{'^' * self.inverse}{self.relation}"


@dataclass(frozen=True)
class Made:
    """A binary or unary relation that the compiler adds for a path: ``why`` says in a clause for what.

    That of a closure leads along one or more of the ``steps``; a ``reflexive`` one also from each node of the domain to
    itself.
    """

    name: str
    why: str
    span: Span
    steps: tuple[Edge, ...] = ()
    reflexive: bool = False


#: How recursions are maintained: by ranked support, or by derivation sets.
RECURSIONS = ("ranks", "derivation-sets")


@dataclass(frozen=True)
class Program:
    """The statements of the main file and of the files it includes, each file once, in the order of reading.

    ``sources[0]`` is the main file. A program is not ``complete`` if statements were left out because the reader had to
    refuse them; what it lacks is then no error of its own. ``made`` are the relations that ``expand_paths`` adds.
    ``processes`` are those that blocks declare. ``recursion`` says how recursions are maintained, one of
    :data:`RECURSIONS`; the relations of each of ``spanning`` are a part of a recursion over several processes,
    of which the program is the one called ``process``.
    """

    statements: tuple[Statement, ...]
    sources: tuple[SourceFile, ...]
    complete: bool = True
    made: tuple[Made, ...] = ()
    processes: tuple[Process | Instance, ...] = ()
    recursion: str = RECURSIONS[0]
    spanning: tuple[frozenset[str], ...] = ()
    process: str = ""
