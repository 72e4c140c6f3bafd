"""Typed program: names resolved, every column and expression typed, disjunctions split into rules.

What every later pass may assume:

* every relation that occurs is in ``Program.relations``, with as many columns as its atoms have arguments;
* an atom's arguments are variables, constants and wildcards only (an expression among the arguments of a body atom has
  become a variable with an assignment or a comparison);
* every variable of a head, a negated atom, a comparison or an assignment's right-hand side is bound by a positive atom
  or by an assignment that stands before it in ``Rule.body``;
* labels are unique;
* nothing is of type :data:`UNKNOWN` or :data:`BROKEN`, and no column of an :attr:`~Type.open` one; those are for the
  passes up to ``infer_types``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from ..source import SourceFile, Span


@dataclass(frozen=True)
class Type:
    """A column type: ``int`` (64-bit), ``float`` (double), ``decimal(p,s)``, ``string``, ``bool``, ``date``,
    ``timestamp`` or ``list<T>`` with T as ``element``; prints as the language writes it."""

    name: str
    precision: int = 0
    scale: int = 0
    element: Type | None = None

    def __str__(self) -> str:
        if self.element is not None:
            return f"list<{self.element}>"
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    @property
    def numeric(self) -> bool:
        """Whether arithmetic applies."""
        return self.name in ("int", "float", "decimal")

    @property
    def ordered(self) -> bool:
        """Whether its values have an order; lists have that of their elements, the first that differ deciding."""
        return self.element.ordered if self.element is not None else self.name != "bool"

    @property
    def open(self) -> bool:
        """Whether it is that of a list that may be of any type, there being only empty lists in it."""
        return self == NOTHING or (self.element is not None and self.element.open)


INT, FLOAT, STRING, BOOL = Type("int"), Type("float"), Type("string"), Type("bool")
DATE, TIMESTAMP = Type("date"), Type("timestamp")

#: A type that ``infer_types`` has yet to find.
UNKNOWN = Type("unknown")
#: A type that an error, already reported, leaves open; it agrees with every other.
BROKEN = Type("broken")
#: The type of the elements of an empty list, until ``infer_types`` knows better.
NOTHING = Type("nothing")


def list_of(element: Type) -> Type:
    """The type of lists whose elements are of type ``element``."""
    return element if element in (UNKNOWN, BROKEN) else Type("list", element=element)


def joined(one: Type, other: Type) -> Type | None:
    """The type of both, where empty lists are of any list type; None if there is none."""
    if one == other or other == NOTHING:
        return one
    if one == NOTHING:
        return other
    if one.element is None or other.element is None:
        return None
    element = joined(one.element, other.element)
    return None if element is None else list_of(element)


# ---- terms and expressions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    """A variable of a rule."""

    name: str
    type: Type
    span: Span

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Wildcard:
    """``_`` in an atom; it multiplies derivations like any other variable."""

    type: Type
    span: Span

    def __str__(self) -> str:
        return "_"


#: How strings write what cannot stand in them.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in map(chr, range(32))} | str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
)


@dataclass(frozen=True)
class Constant:
    """A value of exactly the type ``type``: int as int, decimal and float as Decimal, date as its text."""

    value: int | Decimal | str | bool
    type: Type
    span: Span

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if self.type == DATE:
            return f'date"{self.value}"'
        if isinstance(self.value, str):
            escaped = self.value.translate(_ESCAPES)
            return f'"{escaped}"'
        return str(self.value)


@dataclass(frozen=True)
class Binary:
    """``left op right`` with ``op`` one of ``+ - * / % ++``, computed in ``type``.

    Both operands are of that type exactly, a :class:`Convert` or a literal of that type seeing to it where the source
    mixes types. One exception: the factors of a decimal ``*`` keep decimal types of their own, whose precisions and
    scales add up to that of ``type``. ``/`` of decimals is computed in float.
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
    """A number as one of another type (int to float or decimal, decimal to float or to a decimal of other digits, NULL
    where it does not fit), or an empty list as one of a certain type.

    Prints as ``(X as float)``.
    """

    operand: Expression
    type: Type
    span: Span

    def __str__(self) -> str:
        return f"({self.operand} as {self.type})"


@dataclass(frozen=True)
class ListLiteral:
    """``[a, b]``, its items of exactly the element type of ``type``."""

    items: tuple[Expression, ...]
    type: Type
    span: Span

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True)
class Call:
    """``function(arguments)``: a function of the table, or an external one of :attr:`Program.functions`.

    The arguments are of exactly the types that the function takes. A ``partial`` call may have no value.
    """

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    span: Span
    partial: bool = False
    external: bool = False

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Expression = Variable | Constant | Binary | Negate | Convert | ListLiteral | Call
Term = Variable | Constant | Wildcard


@dataclass(frozen=True)
class Aggregate:
    """``function<argument>`` in a head; ``function`` is one of ``min max sum count avg``.

    ``argument`` is None for ``count<*>``; ``distinct`` ones, of values and not of derivations, are gone when
    ``split_aggregates`` has run. ``type`` is that of the result: int for count, float for avg, the argument's
    for min and max; for sum int, float or ``decimal(38,s)``.
    """

    function: str
    argument: Expression | None
    type: Type
    span: Span
    distinct: bool = False

    def __str__(self) -> str:
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
    """``variable = value`` where nothing else binds the variable before; ``value.type == variable.type``."""

    variable: Variable
    value: Expression
    span: Span

    def __str__(self) -> str:
        return f"{self.variable} = {self.value}"


@dataclass(frozen=True)
class Comparison:
    """``left op right`` with ``op`` one of ``= != < <= > >=``, both sides bound and of the same type."""

    op: str
    left: Expression
    right: Expression
    span: Span

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


Literal = Atom | Negation | Assignment | Comparison


def parts_of(node: object) -> tuple[object, ...]:
    """What a literal, an atom or an expression consists of, in order."""
    match node:
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
            return (node.argument,)
        case Negation():
            return (node.atom,)
        case Atom():
            return node.terms
    return ()


def variables_of(node: object) -> list[Variable]:
    """The variables of an expression, an atom, a negation or a condition, in order, repetitions kept."""
    if isinstance(node, Variable):
        return [node]
    return [variable for part in parts_of(node) for variable in variables_of(part)]


def calls_in(node: object) -> Iterator[Call]:
    """The calls in a rule, a literal or an expression, in order."""
    if isinstance(node, Call):
        yield node
    for part in (*node.body, *node.head.arguments) if isinstance(node, Rule) else parts_of(node):
        yield from calls_in(part)


# ---- the program ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column of a relation."""

    name: str
    type: Type

    def __str__(self) -> str:
        return f"{self.name}: {self.type}"


@dataclass(frozen=True)
class Closure:
    """What a relation is the transitive closure of: of the union of ``steps``, each a relation, or one turned round
    (``^knows``); a ``reflexive`` one also leads from each node of a domain to itself. ``grows`` says at which side its
    rules go on, ``start`` or ``end``."""

    steps: tuple[str, ...]
    reflexive: bool
    grows: str = "end"

    def __str__(self) -> str:
        text = "|".join(self.steps)
        return f"{f'({text})' if len(self.steps) > 1 else text}{'*' if self.reflexive else '+'}"


@dataclass(frozen=True)
class Relation:
    """A relation of the program.

    ``role`` is ``input`` (extensional) or ``derived``. ``public`` is the name users know it by: that of the relation
    itself, but for the hidden input of an input-and-derived relation. ``hidden`` relations were made by the compiler
    and are not shown to users unless asked. ``key`` holds column indexes. The location is a column (``location``), a
    constant (``at``, for propositional relations) or neither.
    """

    name: str
    columns: tuple[Column, ...]
    role: str
    output: bool
    span: Span
    key: tuple[int, ...] = ()
    location: int | None = None
    at: Constant | None = None
    symmetric: bool = False
    declared: bool = True
    accepts_input: bool = False  # derived relations declared `input derived`, until split_inputs has made them two
    hidden: bool = False
    public: str = ""
    why: str = ""  # for hidden relations: one clause that says what it is there for
    closure: Closure | None = None
    witnesses: tuple[int, ...] = ()  # the columns that hold what reaches an extremum
    annotates: str = ""  # the relation whose facts it holds, each with what it was derived from
    part_of: str = ""  # the relation whose rules were taken apart to make it
    shown_as: str = ""  # for hidden relations: the relation that has all of its tuples
    projects: tuple[str, tuple[int, ...]] | None = None  # the relation of which it has only these columns
    written: tuple[Rule, ...] = ()  # its rules as they were before they were taken apart

    def __str__(self) -> str:
        columns = ", ".join(f"{'@' if i == self.location else ''}{c}" for i, c in enumerate(self.columns))
        parts = [
            "hidden" if self.hidden else "",
            "input" if self.role == "input" or self.accepts_input else "",
            "derived" if self.accepts_input else "",
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
    """A head: one argument per column of the relation."""

    relation: str
    arguments: tuple[Expression | Aggregate, ...]
    span: Span

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.arguments))})" if self.arguments else self.relation


@dataclass(frozen=True)
class Rule:
    """A rule or, with an empty body, a fact. ``text`` is the source text of the whole rule, before any rewriting.

    ``origin`` says in a clause how the compiler made it from that text; empty if it did not.
    """

    label: str
    head: Head
    body: tuple[Literal, ...]
    span: Span
    text: str
    origin: str = ""

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
        """The atoms of all literals, the negated ones included."""
        return (*self.atoms, *(negation.atom for negation in self.negations))

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The aggregates of the head."""
        return tuple(argument for argument in self.head.arguments if isinstance(argument, Aggregate))


def rules_by_head(rules: Iterable[Rule]) -> dict[str, tuple[Rule, ...]]:
    """The rules of each relation that they derive, in their order."""
    found: dict[str, list[Rule]] = {}
    for rule in rules:
        found.setdefault(rule.head.relation, []).append(rule)
    return {name: tuple(of) for name, of in found.items()}


@dataclass(frozen=True)
class ExternalFunction:
    """A function that the user supplies: a deterministic Python callable of that name."""

    name: str
    parameters: tuple[Column, ...]
    result: Type
    span: Span

    def __str__(self) -> str:
        return f"extern function {self.name}({', '.join(map(str, self.parameters))}): {self.result}"


@dataclass(frozen=True)
class Program:
    """A typed program. ``relations`` and ``rules`` are in source order; ``sources[0]`` is the main file.

    ``recursion`` says how recursions are maintained: by ``ranks`` or by ``derivation-sets``; the relations of each of
    ``spanning`` are a part of a recursion over several processes, of which this is the one called ``process``.
    """

    relations: tuple[Relation, ...]
    rules: tuple[Rule, ...]
    sources: tuple[SourceFile, ...]
    functions: tuple[ExternalFunction, ...] = ()
    recursion: str = "ranks"
    spanning: tuple[frozenset[str], ...] = ()
    process: str = ""

    def relation(self, name: str) -> Relation:
        """The relation called ``name``; KeyError if there is none."""
        return self.by_name[name]

    @cached_property
    def by_name(self) -> dict[str, Relation]:
        """The relations by their names."""
        return {relation.name: relation for relation in self.relations}

    def rules_of(self, name: str) -> tuple[Rule, ...]:
        """The rules whose head is the relation ``name``."""
        return self._by_head.get(name, ())

    @cached_property
    def _by_head(self) -> dict[str, tuple[Rule, ...]]:
        return rules_by_head(self.rules)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.functions), *map(str, self.relations), "", *map(str, self.rules)]) + "\n"
