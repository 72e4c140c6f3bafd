"""Syntax tree: the output of the frontend, one node per construct, with names not yet resolved.

Nodes have the span of their source text; rules, relation declarations and external functions also have that text.
Names end in ``Node`` where :mod:`.typed` has a class for the same construct.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ..source import SourceFile, Span
from .narrowed import Narrowed
from .rule_origin import Making
from .spanning import Spanning

# ---- expressions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VariableNode:
    """An identifier in argument position, in upper or lower case."""

    name: str
    span: Span


@dataclass(frozen=True)
class WildcardNode:
    """``_``: a fresh variable at each occurrence."""

    span: Span


@dataclass(frozen=True)
class ConstantNode:
    """A literal value; ``kind`` is ``int``, ``float`` (a :class:`~decimal.Decimal` of the exact digits), ``string``,
    ``bool``, ``date`` (the text ``YYYY-MM-DD``, already validated), ``timestamp`` (``YYYY-MM-DD HH:MM:SS``, with six
    digits behind the seconds if they have a fraction) or ``null`` (whose value is its name)."""

    value: int | Decimal | str | bool
    kind: str
    span: Span


@dataclass(frozen=True)
class Unary:
    """``-x``; ``op`` is ``-``. A minus before a number literal is part of the :class:`ConstantNode`."""

    op: str
    operand: Expression
    span: Span


@dataclass(frozen=True)
class BinaryNode:
    """``left op right``; ``op`` is one of ``+ - * / % ++``. The span is that of the whole expression."""

    op: str
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True)
class CallNode:
    """``name(arguments)`` as an expression."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True)
class ListNode:
    """``[a, b]``."""

    items: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True)
class OrderNode:
    """``S desc`` in the order of a ``first``."""

    value: Expression
    descending: bool


@dataclass(frozen=True)
class AggregateNode:
    """``min<C>``, ``count<*>``, ``count<distinct X>`` or ``first<3 by S desc, T>`` in a head.

    ``function`` is in lower case, without the prefix ``a_``. ``argument`` is None for ``count<*>`` and ``first``, which
    has a ``limit`` and an ``order``.
    """

    function: str
    argument: Expression | None
    distinct: bool
    span: Span
    limit: int = 0
    order: tuple[OrderNode, ...] = ()


Expression = VariableNode | WildcardNode | ConstantNode | Unary | BinaryNode | CallNode | ListNode | AggregateNode

# ---- literals ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AtomNode:
    """``relation(arguments)``; ``relation`` may be qualified (``S1.host``).

    A call used as a literal, ``f_inPath(P, S)``, is an atom until names are resolved. ``location`` is the index of the
    argument marked with ``@``, or None. ``at`` is the constant location of a propositional atom (``p@1``), which has no
    arguments.
    """

    relation: str
    arguments: tuple[Expression, ...]
    location: int | None
    at: ConstantNode | None
    span: Span


@dataclass(frozen=True)
class PathStep:
    """A binary relation in a path."""

    relation: str
    span: Span


@dataclass(frozen=True)
class PathInverse:
    """``^path``, or ``path-``: the pairs of the path with their ends swapped."""

    path: Path
    span: Span


@dataclass(frozen=True)
class PathSequence:
    """``a / b``, or ``a · b``: one path after the other."""

    parts: tuple[Path, ...]
    span: Span


@dataclass(frozen=True)
class PathChoice:
    """``a | b``, or ``a + b``: either path."""

    options: tuple[Path, ...]
    span: Span


@dataclass(frozen=True)
class PathRepeat:
    """``path+``, ``path*`` or ``path?``; ``op`` is the last character."""

    path: Path
    op: str
    span: Span


Path = PathStep | PathInverse | PathSequence | PathChoice | PathRepeat
"""A regular expression over binary relations (Bonifati et al. 2018, section 2)."""


@dataclass(frozen=True)
class PathLiteral:
    """``(a / b+)(X, Y)``: there is a path from ``left`` to ``right``."""

    path: Path
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True)
class NegationNode:
    """``!atom`` or ``not atom``."""

    atom: AtomNode | PathLiteral
    span: Span


@dataclass(frozen=True)
class ComparisonNode:
    """``left op right``; ``op`` is one of ``= != < <= > >= :=``. A later pass decides if ``=`` assigns or compares."""

    op: str
    left: Expression
    right: Expression
    span: Span


@dataclass(frozen=True)
class Disjunction:
    """``(a, b ; c)``; each alternative is a conjunction of literals."""

    alternatives: tuple[tuple[Literal, ...], ...]
    span: Span


Literal = AtomNode | PathLiteral | NegationNode | ComparisonNode | Disjunction

# ---- statements ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypeName:
    """A type as written: ``int``, ``decimal(10,2)`` (``parameters`` are 10 and 2), an alias, or ``list<T>`` (with T as
    ``element``)."""

    name: str
    parameters: tuple[int, ...]
    element: TypeName | None
    span: Span


@dataclass(frozen=True)
class ColumnDeclaration:
    """``name: type`` in a declaration of a relation, function or process; ``located`` if written ``@name: type``, and
    ``optional`` if ``name: type?``."""

    name: str
    type: TypeName
    located: bool
    span: Span
    optional: bool = False


@dataclass(frozen=True)
class KeyColumn:
    """The name of a column in ``primary key (...)``."""

    name: str
    span: Span


@dataclass(frozen=True)
class RelationDeclaration:
    """``input derived relation p(...) primary key (...) symmetric``.

    ``is_derived`` is set only by the word ``derived``, which marks an input relation that rules also derive.
    ``is_multiset`` says that the copies of its rows are counted. ``at`` is
    the constant location of a propositional relation (``input relation t@1``). ``name_span`` covers the name alone.
    A relation that a frontend made says ``why``, and is hidden.
    """

    name: str
    columns: tuple[ColumnDeclaration, ...]
    is_input: bool
    is_output: bool
    is_derived: bool
    is_multiset: bool
    symmetric: bool
    key: tuple[KeyColumn, ...]
    at: ConstantNode | None
    name_span: Span
    span: Span
    text: str
    why: str = ""


@dataclass(frozen=True)
class OutputDirective:
    """``output reachable.``: publishes a relation, which need not be declared."""

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
    """``domain person(X).``: the values of the single variable of ``atom`` are nodes. A path that may be empty leads
    from each node to itself."""

    atom: AtomNode
    span: Span


@dataclass(frozen=True)
class FunctionDeclaration:
    """``extern function risk(x: int, s: string): float``; the span is that of the name."""

    name: str
    parameters: tuple[ColumnDeclaration, ...]
    result: TypeName
    span: Span
    text: str


@dataclass(frozen=True)
class RuleNode:
    """``[label:] head :- body.``, or a fact if the body is empty. ``text`` is the source text from the label to the
    final dot. ``origin`` is a clause that says what the compiler made the rule for; empty for source rules. ``made``
    says the same to passes."""

    label: str | None
    head: AtomNode
    body: tuple[Literal, ...]
    span: Span
    text: str
    origin: str = ""
    made: Making | None = None


Statement = RelationDeclaration | OutputDirective | Typedef | Domain | FunctionDeclaration | RuleNode


@dataclass(frozen=True)
class ProcessBlock:
    """``process S1 { ... }``: the statements of one process. With ``parameters``, ``process Switch(n: int) { ... }``,
    it is a pattern for instances. The span is that of the name."""

    name: str
    parameters: tuple[ColumnDeclaration, ...]
    statements: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True)
class Instance:
    """``process S1 = Switch(1)``: a process instantiated from a pattern; the spans are those of the two names."""

    name: str
    pattern: str
    arguments: tuple[ConstantNode, ...]
    span: Span
    pattern_span: Span


@dataclass(frozen=True)
class ClosureStep:
    """The pairs of a binary relation, swapped if ``inverse``; prints as ``e`` or ``^e``."""

    relation: str
    inverse: bool = False

    def __str__(self) -> str:
        return f"{'^' * self.inverse}{self.relation}"


@dataclass(frozen=True)
class MadeRelation:
    """A binary or unary relation that the compiler adds for a path; ``why`` is a clause that says what it holds.

    A relation with ``steps`` is their closure: it connects nodes by one or more steps, and if it is ``reflexive`` also
    each node of the domain to itself.
    """

    name: str
    why: str
    span: Span
    steps: tuple[ClosureStep, ...] = ()
    reflexive: bool = False


@dataclass(frozen=True)
class RelationFile:
    """Where the rows of an input are read, or ``flintlog run`` writes those of an output, if the program says so: the
    name of a ``file`` below the folder with the inputs or the results, the character between two columns, and whether
    there is a line with the names of columns. ``direction`` is ``input`` or ``output``."""

    relation: str
    direction: str
    file: str
    separator: str
    header: bool

    @property
    def is_usual(self) -> bool:
        """Whether the file is called after the relation and has tabs and no header, as in Soufflé."""
        suffix = "facts" if self.direction == "input" else "csv"
        return (self.file, self.separator, self.header) == (f"{self.relation}.{suffix}", "\t", False)


RECURSIONS = ("ranks", "derivation-sets")
"""The methods of maintaining recursions: ranked support, or derivation sets."""


@dataclass(frozen=True)
class SyntaxProgram:
    """The statements of the main file and of the files it includes, each file once, in reading order.

    ``sources[0]`` is the main file. A program is not ``complete`` if the frontend refused statements and left them out;
    passes then do not report missing definitions. ``made`` are the relations that ``expand_paths`` adds, and
    ``processes`` the process blocks and instances. ``recursion`` is the method of maintaining recursions, one of
    :data:`RECURSIONS`. If the program is one of several processes, ``process`` is its name, ``spanning`` has its parts
    of recursions across processes, and ``narrowed`` says of which relations only some columns are sent.
    ``files`` are those that the program names for rows of relations.
    """

    statements: tuple[Statement, ...]
    sources: tuple[SourceFile, ...]
    complete: bool = True
    made: tuple[MadeRelation, ...] = ()
    processes: tuple[ProcessBlock | Instance, ...] = ()
    recursion: str = RECURSIONS[0]
    spanning: tuple[Spanning, ...] = ()
    process: str = ""
    narrowed: tuple[Narrowed, ...] = ()
    files: tuple[RelationFile, ...] = ()
