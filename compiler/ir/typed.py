"""Typed program: names resolved, every column and expression typed, disjunctions split into rules.

Later passes may assume:

* every relation that occurs is in ``TypedProgram.relations``, with as many columns as its atoms have arguments;
* the arguments of an atom are variables, constants and wildcards (an expression as an argument of a body atom is
  replaced by a variable with an assignment or a comparison);
* every variable of a head, a negated atom, a comparison or the right-hand side of an assignment is bound by a positive
  atom or by an earlier assignment in ``TypedRule.body``;
* labels are unique;
* no type is :data:`UNKNOWN` or :data:`BROKEN`, and no column type is :attr:`~Type.open`; these exist only until
  ``infer_types`` has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TypeAlias, assert_never

from ..source import SourceFile, Span
from .narrowed import Narrowed
from .routes import RoutedRelation
from .rule_origin import Making
from .spanning import Spanning
from .syntax import RelationFile


@dataclass(frozen=True)
class Type:
    """A column type: ``int`` (64-bit), ``float`` (double), ``decimal(p,s)``, ``string``, ``bool``, ``date``,
    ``timestamp`` or ``list<T>`` with T as ``element``; prints in the syntax of the language.

    An ``optional`` type ``T?`` is that of lists with one T, or none for null; see :mod:`..passes.expand_options`.
    """

    name: str
    precision: int = 0
    scale: int = 0
    element: Type | None = None
    optional: bool = False

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element}?" if self.optional else f"list<{self.element}>"
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    def with_element(self, element: Type) -> Type:
        """Return this type of lists or optional values with another element type, or the latter itself if it is unknown
        or broken."""
        return element if element in (UNKNOWN, BROKEN) else replace(self, name="list", element=element)

    @property
    def numeric(self) -> bool:
        """Whether the values are numbers."""
        return self.name in ("int", "float", "decimal")

    @property
    def ordered(self) -> bool:
        """Whether the values have an order; lists are ordered lexicographically if their elements are ordered."""
        return self.element.ordered if self.element is not None else self.name != "bool"

    @property
    def open(self) -> bool:
        """Whether an element type is still undetermined, because only empty lists are known."""
        return self == NOTHING or (self.element is not None and self.element.open)


INT, FLOAT, STRING, BOOL = Type("int"), Type("float"), Type("string"), Type("bool")
DATE, TIMESTAMP = Type("date"), Type("timestamp")

UNKNOWN = Type("unknown")
"""A type that ``infer_types`` has not inferred yet."""

BROKEN = Type("broken")
"""The type of expressions and columns with an error that is already reported; compatible with all types."""

NOTHING = Type("nothing")
"""The element type of an empty list, until ``infer_types`` determines it."""


def list_of(element: Type) -> Type:
    """Return the type of lists of ``element``, or ``element`` itself if it is unknown or broken."""
    return element if element in (UNKNOWN, BROKEN) else Type("list", element=element)


def optional_of(element: Type) -> Type:
    """Return the type of values of type ``element`` that may be null, or ``element`` itself if it is broken."""
    return element if element == BROKEN else Type("list", element=element, optional=True)


def joined(one: Type, other: Type) -> Type | None:
    """Return the type that unifies both, where empty lists have any list type; None if there is none."""
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if one.element is None or other.element is None or one.optional != other.optional:
        return None
    element = joined(one.element, other.element)
    return None if element is None else one.with_element(element)


# ---- terms and expressions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    """A variable of a rule; one ``for_argument`` stands for an expression, or a constant, as an argument of an atom."""

    name: str
    type: Type
    span: Span
    for_argument: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Wildcard:
    """``_`` in an atom; each match is a derivation of its own, as for any other variable."""

    type: Type
    span: Span

    def __str__(self) -> str:
        return "_"


_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in map(chr, range(32))} | str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
)
"""The escape sequences for characters that cannot stand in string literals."""


@dataclass(frozen=True)
class Constant:
    """A value of exactly type ``type``; decimals and floats are Decimals, dates and timestamps are text."""

    value: int | Decimal | str | bool
    type: Type
    span: Span

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if self.type in (DATE, TIMESTAMP):
            return f'{self.type}"{self.value}"'
        if isinstance(self.value, str):
            escaped = self.value.translate(_ESCAPES)
            return f'"{escaped}"'
        return str(self.value)


@dataclass(frozen=True)
class Binary:
    """``left op right`` with ``op`` one of ``+ - * / % ++``, computed in ``type``.

    Both operands have exactly that type; where the source mixes types, a :class:`Convert` or a literal of that type is
    inserted. The only exception: the factors of a decimal ``*`` keep their own decimal types, whose scales add up to
    that of ``type``. ``/`` of decimals is computed in float.
    """

    op: str
    left: Expression
    right: Expression
    type: Type
    span: Span

    def __str__(self) -> str:
        left = f"({self.left})" if isinstance(self.left, Binary) else str(self.left)
        right = f"({self.right})" if isinstance(self.right, Binary) else str(self.right)
        return f"{left} {self.op} {right}"


@dataclass(frozen=True)
class Negate:
    """``-operand``."""

    operand: Expression
    type: Type
    span: Span

    def __str__(self) -> str:
        return f"-({self.operand})" if isinstance(self.operand, Binary) else f"-{self.operand}"


@dataclass(frozen=True)
class Convert:
    """A conversion to ``type``: of a number (int to float or decimal, decimal to float or to a decimal of other digits;
    NULL if it does not fit) or of a list (an empty one to any list type).

    Prints as ``(X as float)``.
    """

    operand: Expression
    type: Type
    span: Span

    def __str__(self) -> str:
        return f"({self.operand} as {self.type})"


@dataclass(frozen=True)
class ListLiteral:
    """``[a, b]``; all items have exactly the element type of ``type``. If that is optional, it is a value or null."""

    items: tuple[Expression, ...]
    type: Type
    span: Span

    def __str__(self) -> str:
        if self.type.optional:
            return str(self.items[0]) if self.items else "null"
        return f"[{', '.join(map(str, self.items))}]"

    @property
    def is_null(self) -> bool:
        """Whether it is null."""
        return self.type.optional and not self.items


@dataclass(frozen=True)
class Call:
    """``function(arguments)``: a built-in function, or an ``external`` one of :attr:`TypedProgram.functions`.

    The arguments have exactly the types that the function takes. A ``partial`` call may have no value.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    span: Span
    partial: bool = False
    external: bool = False

    def __str__(self) -> str:
        return f"{self.function.rstrip('?')}({', '.join(map(str, self.arguments))})"


VALUE, OR_NULL = "value?", "or_null?"
"""The functions of calls that take the value of what may be null, where it is not null, and that make a text "null"
where it has no value. Programs cannot call them."""

Expression = Variable | Constant | Binary | Negate | Convert | ListLiteral | Call
Term = Variable | Constant | Wildcard


@dataclass(frozen=True)
class Ordering:
    """A value by which ``first`` orders; prints as ``S desc``."""

    value: Expression
    descending: bool

    def __str__(self) -> str:
        return f"{self.value}{' desc' * self.descending}"


@dataclass(frozen=True)
class Aggregate:
    """``function<argument>`` in a head; ``function`` is one of ``min max sum count avg first``.

    ``argument`` is None for ``count<*>``. ``distinct`` aggregates are over values instead of derivations;
    ``split_aggregates`` replaces them. ``type`` is the result type: int for count, float for avg, the argument type for
    min and max, and int, float or ``decimal(38,s)`` for sum.

    ``first<3 by S desc, T>`` gives the places, from 1 to its ``limit``, of the distinct tuples of its ``order`` and of
    the arguments of the head behind it, in this order.
    """

    function: str
    argument: Expression | None
    type: Type
    span: Span
    distinct: bool = False
    limit: int = 0
    order: tuple[Ordering, ...] = ()

    def __str__(self) -> str:
        if self.limit:
            order = ", ".join(map(str, self.order))
            return f"{self.function}<{self.limit}{order and f' by {order}'}>"
        distinct = "distinct " * self.distinct
        return f"{self.function}<{distinct}{'*' if self.argument is None else self.argument}>"


# ---- literals ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Atom:
    """A positive literal."""

    relation: str
    terms: tuple[Term, ...]
    span: Span

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.terms))})" if self.terms else self.relation


@dataclass(frozen=True)
class Negation:
    """A negated literal: no tuple of the relation matches the terms; wildcards match anything."""

    atom: Atom
    span: Span

    def __str__(self) -> str:
        return f"!{self.atom}"


@dataclass(frozen=True)
class Assignment:
    """``variable = value`` where nothing earlier binds the variable; ``value.type == variable.type``."""

    variable: Variable
    value: Expression
    span: Span

    def __str__(self) -> str:
        return f"{self.variable} = {self.value}"


@dataclass(frozen=True)
class Comparison:
    """``left op right`` with ``op`` one of ``= != < <= > >=``; both sides are bound and have the same type."""

    op: str
    left: Expression
    right: Expression
    span: Span

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


Literal = Atom | Negation | Assignment | Comparison

Node: TypeAlias = "TypedRule | Literal | Aggregate | Term | Expression"
"""A rule, or what may occur in one."""


def parts_of(node: Node) -> tuple[Node, ...]:
    """Return the direct parts of a rule (body first), a literal, an atom or an expression, in order."""
    match node:
        case TypedRule():
            return (*node.body, *node.head.arguments)
        case Call():
            return node.arguments
        case ListLiteral():
            return node.items
        case Binary() | Comparison():
            return node.left, node.right
        case Negate() | Convert():
            return (node.operand,)
        case Assignment():
            return node.variable, node.value
        case Aggregate():
            ordered = tuple(part.value for part in node.order)
            return (node.argument, *ordered) if node.argument is not None else ordered
        case Negation():
            return (node.atom,)
        case Atom():
            return node.terms
        case Variable() | Constant() | Wildcard():
            return ()
    assert_never(node)


def variables_of(node: Node) -> list[Variable]:
    """Return the variables of a rule (body first), a literal or an expression, in order and with repetitions."""
    if isinstance(node, Variable):
        return [node]
    return [variable for part in parts_of(node) for variable in variables_of(part)]


def calls_in(node: Node) -> Iterator[Call]:
    """Yield the calls in a rule (body first), a literal or an expression, in order."""
    if isinstance(node, Call):
        yield node
    for part in parts_of(node):
        yield from calls_in(part)


# ---- the program ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TypedColumn:
    """A column of a relation."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True)
class Closure:
    """The transitive closure of the union of ``steps``, each a relation or an inverse relation (``^knows``); if
    ``reflexive``, also from each node of a domain to itself. ``grows`` is the side at which the recursive rules extend
    paths, ``start`` or ``end``."""

    steps: tuple[str, ...]
    reflexive: bool
    grows: str = "end"

    def __str__(self) -> str:
        text = "|".join(self.steps)
        return f"{f'({text})' if len(self.steps) > 1 else text}{'*' if self.reflexive else '+'}"


@dataclass(frozen=True)
class TypedRelation:
    """A relation of the program.

    ``role`` is ``input`` (extensional) or ``derived``. ``hidden`` relations are made by the compiler and are shown only
    on request. ``public`` is the name that users see: for the hidden input of an input-and-derived relation that of the
    relation, empty for other hidden relations. ``key`` holds column indexes. The location is a column index
    (``location``), a constant (``at``, for propositional relations) or neither.
    """

    name: str
    columns: tuple[TypedColumn, ...]
    role: str
    output: bool
    span: Span
    key: tuple[int, ...] = ()
    location: int | None = None
    at: Constant | None = None
    symmetric: bool = False
    declared: bool = True
    accepts_input: bool = False  # derived relations declared `input derived`, until split_inputs splits them in two
    multiset: bool = False  # the copies of its tuples count, until split_inputs tells them apart
    copies: bool = False  # its last column numbers the copies of each tuple
    hidden: bool = False
    public: str = ""
    why: str = ""  # for hidden relations: a clause that says what it holds
    closure: Closure | None = None
    witnesses: tuple[int, ...] = ()  # the columns of the witnesses of an extremum, or behind `first`
    annotates: str = ""  # the relation whose facts it holds, each with its derivation set or its proof
    keeps: str = ""  # for relations of annotate_proofs: lives, identities, epochs, dead or proofs
    guards: tuple[str, ...] = ()  # for proofs: the relations that say which identities are dead, that of lives first
    part_of: str = ""  # the relation whose rules were split to make it, unless explanations follow these parts
    grouped: tuple[str, tuple[int, ...]] | None = None  # the relation of its groups, and the columns that identify one
    shown_as: str = ""  # for hidden relations: the relation that contains all of its tuples
    projects: tuple[str, tuple[int, ...]] | None = None  # the relation that it is a projection of, and the columns
    written: tuple[TypedRule, ...] = ()  # for explanations: its rules before they were split, or those over its parts
    file: RelationFile | None = None  # for inputs: the file in a folder of all rows, if the program says so
    clock: bool = False  # the built-in input with the time of the batch as its only tuple
    timed: bool = False  # the tuples of one relation that are in some order with a bound, the only tuple of another

    def __str__(self) -> str:
        columns = ", ".join(f"{'@' if i == self.location else ''}{c}" for i, c in enumerate(self.columns))
        parts = [
            "hidden" if self.hidden else "",
            "input" if self.role == "input" or self.accepts_input else "",
            "derived" if self.accepts_input and not self.multiset else "",
            "multiset" if self.multiset or self.copies else "",
            "output" if self.output else "",
            "relation",
            f"{self.name}({columns})" + (f"@{self.at}" if self.at is not None else ""),
            f"primary key ({', '.join(self.columns[i].name for i in self.key)})" if self.key else "",
            "symmetric" if self.symmetric else "",
            f"closure of {self.closure}" if self.closure else "",
        ]
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Head:
    """The head of a rule: one argument per column of the relation."""

    relation: str
    arguments: tuple[Expression | Aggregate, ...]
    span: Span

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.arguments))})" if self.arguments else self.relation

    @property
    def ranked(self) -> tuple[int, ...]:
        """The places of what a ``first`` ranks, which are those behind it."""
        for place, argument in enumerate(self.arguments):
            if isinstance(argument, Aggregate) and argument.limit:
                return tuple(range(place + 1, len(self.arguments)))
        return ()


@dataclass(frozen=True)
class TypedRule:
    """A rule or, with an empty body, a fact. ``text`` is the source text of the whole rule, before any rewriting.

    ``origin`` is a clause that says how the compiler made it from that text; empty for source rules. It is only shown;
    ``made`` is for passes. A rule is ``named`` if its label comes from the source: those of others count the rules
    of a head.
    """

    label: str
    head: Head
    body: tuple[Literal, ...]
    span: Span
    text: str
    origin: str = ""
    made: Making | None = None
    named: bool = False

    def __str__(self) -> str:
        body = ", ".join(map(str, self.body))
        return f"{self.label}: {self.head} :- {body}." if body else f"{self.label}: {self.head}."

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The positive literals."""
        return tuple(literal for literal in self.body if isinstance(literal, Atom))

    @property
    def negations(self) -> tuple[Negation, ...]:
        """The negated literals."""
        return tuple(literal for literal in self.body if isinstance(literal, Negation))

    @property
    def read(self) -> tuple[Atom, ...]:
        """The atoms of all literals, positive and then negated."""
        return (*self.atoms, *(negation.atom for negation in self.negations))

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates of the head."""
        return tuple(argument for argument in self.head.arguments if isinstance(argument, Aggregate))


def rules_by_head(rules: Iterable[TypedRule]) -> dict[str, tuple[TypedRule, ...]]:
    """Return the rules of each relation in a head, in their order."""
    by_head: dict[str, list[TypedRule]] = {}
    for rule in rules:
        by_head.setdefault(rule.head.relation, []).append(rule)
    return {name: tuple(of) for name, of in by_head.items()}


@dataclass(frozen=True)
class TypedFunction:
    """A function that the user supplies as a deterministic Python callable of the same name."""

    name: str
    parameters: tuple[TypedColumn, ...]
    result: Type
    span: Span

    def __str__(self) -> str:
        return f"extern function {self.name}({', '.join(map(str, self.parameters))}): {self.result}"


@dataclass(frozen=True)
class TypedProgram:
    """A typed program. ``relations`` and ``rules`` are in source order; ``sources[0]`` is the main file.

    ``recursion`` is the method of maintaining recursions, ``ranks`` or ``derivation-sets``. If the program is one of
    several processes, ``process`` is its name, ``spanning`` has its parts of recursions across processes, and
    ``narrowed`` says of which relations only some columns are sent, until ``project_channels`` leaves out the others.
    If it is that of a node of a located program, ``routes`` say what nodes send each other.
    """

    relations: tuple[TypedRelation, ...]
    rules: tuple[TypedRule, ...]
    sources: tuple[SourceFile, ...]
    functions: tuple[TypedFunction, ...] = ()
    recursion: str = "ranks"
    spanning: tuple[Spanning, ...] = ()
    process: str = ""
    routes: tuple[RoutedRelation, ...] = ()
    narrowed: tuple[Narrowed, ...] = ()

    def relation(self, name: str) -> TypedRelation:
        """Return the relation ``name``; raise KeyError if there is none."""
        return self.by_name[name]

    @cached_property
    def by_name(self) -> dict[str, TypedRelation]:
        """The relations by name."""
        return {relation.name: relation for relation in self.relations}

    def rules_of(self, name: str) -> tuple[TypedRule, ...]:
        """Return the rules whose head is the relation ``name``."""
        return self._by_head.get(name, ())

    @cached_property
    def _by_head(self) -> dict[str, tuple[TypedRule, ...]]:
        return rules_by_head(self.rules)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.functions), *map(str, self.relations), "", *map(str, self.rules)]) + "\n"
