"""A hand-written reader of the language core, for the oracle alone.

It shares nothing with the compiler, so that a misreading there shows up as a difference here. It reads declarations,
facts and rules with negation, comparisons, assignments, arithmetic, lists, calls of functions, disjunction, head
aggregates and path literals; processes and imports are outside the core and are refused.

``parse(text)`` gives a :class:`Program`: disjunctions are split into rules, aliases of types are resolved, arities and
safety are checked. Location specifiers are read and dropped: where a tuple lives does not change what is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from .functions import FUNCTIONS

Value = int | float | bool | str | Decimal | date | datetime | tuple[Any, ...]
"""What a column holds: decimals are :class:`~decimal.Decimal`, dates :class:`~datetime.date`, lists tuples. Null is
None."""

Row = tuple[Any, ...]
"""One tuple of a relation: its :data:`Value` per column; ``()`` for a nullary relation that is true."""

AGGREGATES = ("min", "max", "sum", "count", "avg", "first")


class ProgramError(ValueError):
    """The text is not a valid program of the core; the message begins with the line number where that is known."""


# ---- expressions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variable:
    """An identifier in argument position."""

    name: str


@dataclass(frozen=True)
class Wildcard:
    """``_``, a fresh variable each time."""


@dataclass(frozen=True)
class Constant:
    """A literal; ``1.5`` is a float whose ``text`` is kept so that it can also be an exact decimal."""

    value: Any
    text: str = ""


@dataclass(frozen=True)
class Binary:
    """``left op right`` with ``op`` one of ``+ - * / % ++``."""

    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Negate:
    """``-operand``."""

    operand: Expression


@dataclass(frozen=True)
class ListOf:
    """``[a, b]``."""

    items: tuple[Expression, ...]


@dataclass(frozen=True)
class Call:
    """``name(arguments)``; ``function`` computes it, None until :func:`parse` has looked it up."""

    name: str
    arguments: tuple[Expression, ...]
    function: Callable[..., Any] | None = None


@dataclass(frozen=True)
class Aggregate:
    """``function<argument>`` in a head; ``argument`` is None for ``count<*>``. That of ``first<3 by S desc, T>`` is the
    list of what it orders by; ``descending`` says which of these."""

    function: str
    argument: Expression | None
    distinct: bool = False
    limit: int = 0
    descending: tuple[bool, ...] = ()


Expression = Variable | Wildcard | Constant | Binary | Negate | ListOf | Call | Aggregate

# ---- literals, rules, declarations ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Atom:
    """``relation(arguments)``, the location specifier dropped."""

    relation: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Negation:
    """``!atom`` or ``not atom``."""

    atom: Atom


@dataclass(frozen=True)
class Comparison:
    """``left op right`` with ``op`` one of ``= != < <= > >=``; ``:=`` is read as ``=``."""

    op: str
    left: Expression
    right: Expression


Literal = Atom | Negation | Comparison

# ---- paths ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Path:
    """A regular expression: ``op`` is ``step`` (of ``relation``), or one of ``+ * ? ^`` (one part), ``/`` and ``|``."""

    op: str
    parts: tuple[Path, ...] = ()
    relation: str = ""

    def __str__(self) -> str:
        return self.relation or f"({self.op} {' '.join(map(str, self.parts))})"

    @property
    def relations(self) -> set[str]:
        """The relations it goes along."""
        return {self.relation} if self.relation else {name for part in self.parts for name in part.relations}

    @property
    def nullable(self) -> bool:
        """Whether it can be empty."""
        match self.op:
            case "*" | "?":
                return True
            case "/":
                return all(part.nullable for part in self.parts)
        return any(part.nullable for part in self.parts)


@dataclass(frozen=True)
class Rule:
    """``label: head :- body.`` without disjunctions; a fact has an empty body."""

    head: Atom
    body: tuple[Literal, ...]
    label: str | None
    line: int

    @property
    def positive(self) -> tuple[Atom, ...]:
        """The positive body atoms in source order."""
        return tuple(literal for literal in self.body if isinstance(literal, Atom))

    @property
    def aggregated(self) -> bool:
        """Whether the head holds an aggregate."""
        return any(isinstance(argument, Aggregate) for argument in self.head.arguments)


@dataclass(frozen=True)
class Column:
    """A declared column; ``type`` is spelled out, as in ``decimal(10,2)``, aliases resolved, with a ``?`` if its values
    may be null."""

    name: str
    type: str


@dataclass
class Relation:
    """A relation of the program; ``columns`` is None if it is not declared.

    ``key`` holds the column positions of the primary key, empty if there is none. ``is_input`` and ``is_derived`` are
    both true for an ``input derived relation``, and also for an input relation with facts. Of a multiset, the copies of
    its rows count.
    """

    name: str
    arity: int
    columns: tuple[Column, ...] | None = None
    is_input: bool = False
    is_derived: bool = False
    is_output: bool = False
    is_multiset: bool = False
    symmetric: bool = False
    key: tuple[int, ...] = ()
    path: Path | None = None


@dataclass
class Program:
    """Relations by name in order of first mention, and the rules in source order.

    A path is a relation called by its text. ``domains`` are the atoms whose one variable is a node.
    """

    relations: dict[str, Relation] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    domains: tuple[Atom, ...] = ()

    @property
    def inputs(self) -> list[Relation]:
        """Relations that change from outside."""
        return [relation for relation in self.relations.values() if relation.is_input]

    @property
    def outputs(self) -> list[Relation]:
        """Published relations."""
        return [relation for relation in self.relations.values() if relation.is_output]

    @property
    def derived(self) -> list[Relation]:
        """Relations that rules or facts define, and declared ones that nothing fills."""
        return [relation for relation in self.relations.values() if relation.is_derived or not relation.is_input]

    def rules_of(self, relation: str) -> list[Rule]:
        """The rules whose head is ``relation``."""
        return [rule for rule in self.rules if rule.head.relation == relation]


# ---- lexer ---------------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<date>date"[^"\n]*")
    | (?P<timestamp>timestamp"[^"\n]*")
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?!\w))
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)
    | (?P<end>\.(?=\s|\Z))
    | (?P<mark>:-|:=|!=|<=|>=|\+\+|[-()<>=!,;:@+*/%^|?·\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
COMPARISONS = ("=", ":=", "!=", "<", "<=", ">", ">=")
MODIFIERS = ("input", "output", "derived", "multiset")


@dataclass(frozen=True)
class Token:
    """A token: ``kind`` is a group name of :data:`TOKEN`, or ``eof``."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> Iterator[Token]:
    """Split ``text``; raises :class:`ProgramError` at a character no token begins with."""
    at, line = 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise ProgramError(f"{line}: unexpected {text[at]!r}")
        kind = match.lastgroup
        assert kind
        if kind != "space":
            yield Token(kind, match.group(), line)
        line += match.group().count("\n")
        at = match.end()
    yield Token("eof", "", line)


# ---- parser --------------------------------------------------------------------------------------------------------

Conjunction = tuple[Literal, ...]


def unescaped(escape: re.Match[str]) -> str:
    """The character that an escape stands for; an unknown one stays as it is."""
    return chr(int(escape[1], 16)) if escape[1] else ESCAPES.get(escape[2], escape[0])


class Parser:
    """Recursive descent over the tokens of one program."""

    def __init__(self, text: str) -> None:
        """Split ``text`` into tokens."""
        self.tokens = list(tokens(text))
        self.at = 0
        self.aliases: dict[str, str] = {}
        self.declared: dict[str, Relation] = {}
        self.published: list[tuple[str, int]] = []
        self.rules: list[Rule] = []
        self.paths: dict[str, Path] = {}
        self.domains: list[Atom] = []

    # tokens

    @property
    def next(self) -> Token:
        """The token to be read."""
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> Token:
        """The token ``ahead`` places behind the next one."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def is_mark(self, *texts: str) -> bool:
        """Whether the next token is one of these marks."""
        return self.next.kind == "mark" and self.next.text in texts

    def is_word(self, *texts: str) -> bool:
        """Whether the next token is one of these words."""
        return self.next.kind == "name" and self.next.text in texts

    def take(self) -> Token:
        """Read a token."""
        token = self.next
        self.at += 1
        return token

    def skip(self, text: str) -> bool:
        """Read the next token if it is this mark or word."""
        if self.next.kind in ("mark", "name") and self.next.text == text:
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        """Read this mark or word."""
        if not (self.next.kind in ("mark", "name") and self.next.text == text):
            raise self.error(f"expected {text!r}")
        return self.take()

    def name(self) -> str:
        """Read a name."""
        if self.next.kind != "name":
            raise self.error("expected a name")
        return self.take().text

    def end(self) -> None:
        """Read the dot that ends a clause."""
        if self.next.kind != "end":
            raise self.error("expected a dot followed by white space")
        self.take()

    def error(self, message: str) -> ProgramError:
        """A complaint about the next token."""
        found = repr(self.next.text) if self.next.kind != "eof" else "the end of the text"
        return ProgramError(f"{self.next.line}: {message}, found {found}")

    # statements

    def statements(self) -> None:
        """Read everything."""
        while self.next.kind != "eof":
            following = self.peek()
            if self.is_word("typedef") and following.kind == "name":
                self.typedef()
            elif self.is_word("domain") and following.kind == "name":
                self.take()
                self.domains.append(self.atom())
                if self.next.kind == "end":
                    self.take()
            elif self.is_word("extern") and following.text == "function":
                self.external()
            elif self.is_word("relation") and following.kind == "name":
                self.declaration(set())
            elif self.is_word(*MODIFIERS) and following.kind == "name":
                self.modified()
            else:
                self.clause()

    def typedef(self) -> None:
        """``typedef name = type``."""
        self.take()
        name = self.name()
        self.expect("=")
        self.aliases[name] = self.type()
        if self.next.kind == "end":
            self.take()

    def external(self) -> None:
        """``extern function name(x: type): type``; what it does is told elsewhere."""
        self.take()
        self.take()
        self.name()
        self.expect("(")
        while not self.skip(")"):
            self.name()
            self.expect(":")
            self.type()
            if not self.is_mark(")"):
                self.expect(",")
        self.expect(":")
        self.type()
        if self.next.kind == "end":
            self.take()

    def type(self) -> str:
        """A type with aliases resolved."""
        name = self.name()
        if name in self.aliases:
            return self.aliases[name]
        if name == "list":
            self.expect("<")
            element = self.type()
            self.expect(">")
            return f"list<{element}>"
        if name == "decimal":
            self.expect("(")
            precision = self.take().text
            self.expect(",")
            scale = self.take().text
            self.expect(")")
            return f"decimal({precision},{scale})"
        if name not in ("int", "float", "string", "bool", "date", "timestamp"):
            raise self.error(f"unknown type {name!r}")
        return name

    def modified(self) -> None:
        """``input relation ...``, ``output relation ...``, ``input derived relation ...`` or ``output name.``."""
        words = set()
        while self.is_word(*MODIFIERS) and self.peek().kind == "name":
            words.add(self.take().text)
        if self.is_word("relation") and self.peek().kind == "name":
            self.declaration(words)
        elif words == {"output"}:
            self.published.append((self.name(), self.next.line))
            self.end()
        else:
            raise self.error("expected a relation declaration")

    def declaration(self, words: set[str]) -> None:
        """The declaration from the word ``relation`` on."""
        self.expect("relation")
        line = self.next.line
        name = self.name()
        columns: list[Column] = []
        if self.skip("@"):
            self.constant()
        elif self.skip("("):
            while not self.skip(")"):
                self.skip("@")
                column = self.name()
                self.expect(":")
                kind = self.type()
                columns.append(Column(column, f"{kind}?" if self.skip("?") else kind))
                if not self.is_mark(")"):
                    self.expect(",")
        key: list[int] = []
        symmetric = False
        while True:
            if self.is_word("primary") and self.peek().text == "key":
                self.take()
                self.take()
                key = self.key([column.name for column in columns])
            elif self.is_word("symmetric") and not (
                self.peek().kind == "mark" and self.peek().text in ("(", ":-", ":")
            ):
                self.take()
                symmetric = True
            else:
                break
        if self.next.kind == "end":
            self.take()
        if name in self.declared:
            raise ProgramError(f"{line}: {name} is declared twice")
        self.declared[name] = Relation(
            name,
            len(columns),
            tuple(columns),
            is_input="input" in words,
            is_derived="derived" in words or "input" not in words,
            is_output="output" in words,
            is_multiset="multiset" in words,
            symmetric=symmetric,
            key=tuple(key),
        )

    def key(self, columns: list[str]) -> list[int]:
        """``(a, b)`` as column positions."""
        self.expect("(")
        found = []
        while not self.skip(")"):
            self.skip("@")
            column = self.name()
            if column not in columns:
                raise self.error(f"no column {column!r}")
            found.append(columns.index(column))
            if not self.is_mark(")"):
                self.expect(",")
        return found

    def clause(self) -> None:
        """``[label:] head [:- body].``; one rule per alternative of the body."""
        label = None
        if self.next.kind == "name" and self.peek().kind == "mark" and self.peek().text == ":":
            label = self.name()
            self.take()
        line = self.next.line
        head = self.atom(in_head=True)
        bodies: list[Conjunction] = [()]
        if self.skip(":-"):
            bodies = self.body()
        self.end()
        self.rules.extend(Rule(head, body, label, line) for body in bodies)

    # bodies

    def body(self) -> list[Conjunction]:
        """Alternatives separated by ``;``, in disjunctive normal form, in source order."""
        alternatives = self.conjunction()
        while self.skip(";"):
            alternatives += self.conjunction()
        return alternatives

    def conjunction(self) -> list[Conjunction]:
        """Literals separated by commas, multiplied out."""
        product = self.literal()
        while self.skip(","):
            right = self.literal()
            product = [one + other for one in product for other in right]
        return product

    def literal(self) -> list[Conjunction]:
        """One literal as its alternatives; only a parenthesised disjunction has more than one."""
        if self.skip("!") or (self.is_word("not") and self.peek().kind == "name" and self.take()):
            return [(Negation(self.path_literal() or self.atom()),)]
        path = self.path_literal()
        if path is not None:
            return [(path,)]
        if self.is_mark("("):
            group = self.group()
            if group is not None:
                return group
        start = self.at
        if self.next.kind == "name" and self.next.text not in ("true", "false", "_"):
            atom = self.atom()
            if self.next.kind == "end" or self.is_mark(",", ";", ")"):
                return [(atom,)]
            self.at = start
        left = self.expression()
        if not self.is_mark(*COMPARISONS):
            raise self.error("expected a comparison")
        op = self.take().text
        return [(Comparison("=" if op == ":=" else op, left, self.expression()),)]

    # paths

    def path_literal(self) -> Atom | None:
        """``e+(X, Y)`` or ``(a / ^b)(X, Y)`` as an atom of the path's relation; None, nothing read, without one."""
        start = self.at
        try:
            path = self.repeated(outside=True)
            self.expect("(")
            left = self.expression()
            self.expect(",")
            right = self.expression()
            self.expect(")")
        except ProgramError:
            self.at = start
            return None
        if path.relation or not (self.next.kind == "end" or self.is_mark(",", ";", ")")):
            self.at = start
            return None
        self.paths[str(path)] = path
        return Atom(str(path), (left, right))

    def repeated(self, outside: bool = False) -> Path:
        """A relation or a group with what stands around it; ``outside``, the arguments may follow."""
        if self.skip("^"):
            return Path("^", (self.repeated(outside),))
        if self.skip("("):
            path = self.choice()
            self.expect(")")
        else:
            path = Path("step", relation=self.name())
        ends = (")", "/", "|", "·", "?", "+", "*", "-", *(("(",) if outside else ()))
        while self.is_mark("?") or (self.is_mark("+", "*", "-") and self.peek().kind == "mark" and self.follows(ends)):
            op = self.take().text
            path = Path("^" if op == "-" else op, (path,))
        return path

    def follows(self, marks: tuple[str, ...]) -> bool:
        """Whether one of ``marks`` follows the next token, which is then no sum."""
        return self.peek().text in marks

    def choice(self) -> Path:
        """``a | b`` or ``a + b``."""
        path = self.sequence()
        while self.skip("|") or self.skip("+"):
            path = Path("|", (path, self.sequence()))
        return path

    def sequence(self) -> Path:
        """``a / b`` or ``a · b``."""
        path = self.repeated()
        while self.skip("/") or self.skip("·"):
            path = Path("/", (path, self.repeated()))
        return path

    # groups and atoms

    def group(self) -> list[Conjunction] | None:
        """``(body)`` if that is what stands here; None, nothing read, if the parenthesis belongs to an expression."""
        start = self.at
        try:
            self.expect("(")
            alternatives = self.body()
            self.expect(")")
        except ProgramError:
            self.at = start
            return None
        if self.next.kind == "end" or self.is_mark(",", ";", ")"):
            return alternatives
        self.at = start
        return None

    def atom(self, in_head: bool = False) -> Atom:
        """``p``, ``p()``, ``p@1``, ``p(@X, 1)``."""
        relation = self.name()
        if self.skip("@"):
            self.constant()
            return Atom(relation, ())
        arguments: list[Expression] = []
        if self.skip("("):
            while not self.skip(")"):
                self.skip("@")
                arguments.append(self.aggregate() if in_head and self.at_aggregate() else self.expression())
                if not self.is_mark(")"):
                    self.expect(",")
        return Atom(relation, tuple(arguments))

    # expressions

    def at_aggregate(self) -> bool:
        """Whether ``min<`` or the like comes next."""
        following = self.peek()
        return (
            self.next.kind == "name"
            and self.next.text.lower().removeprefix("a_") in AGGREGATES
            and following.kind == "mark"
            and following.text == "<"
        )

    def aggregate(self) -> Aggregate:
        """``min<C>``, ``count<*>``, ``count<distinct X>``, ``a_MIN<C>``."""
        function = self.name().lower().removeprefix("a_")
        self.expect("<")
        if function == "first":
            return self.first()
        distinct = self.is_word("distinct") and self.peek().kind == "name" and bool(self.take())
        argument = None if self.skip("*") else self.expression()
        if argument is None and function != "count":
            raise self.error(f"{function} needs an argument")
        self.expect(">")
        return Aggregate(function, argument, distinct)

    def first(self) -> Aggregate:
        """``first<3 by S desc, T asc, U>``, behind the ``<``."""
        limit = int(self.take().text)
        order: list[Expression] = []
        descending: list[bool] = []
        if self.is_word("by"):
            self.take()
            while not order or self.skip(","):
                order.append(self.expression())
                descending.append(self.is_word("desc"))
                if self.is_word("asc", "desc"):
                    self.take()
        self.expect(">")
        if limit < 1:
            raise self.error("first needs a positive number")
        return Aggregate("first", ListOf(tuple(order)), False, limit, tuple(descending))

    def expression(self) -> Expression:
        """Sums and concatenations, left to right."""
        left = self.product()
        while self.is_mark("+", "-", "++"):
            op = self.take().text
            left = Binary(op, left, self.product())
        return left

    def product(self) -> Expression:
        """Products, left to right."""
        left = self.unary()
        while self.is_mark("*", "/", "%"):
            op = self.take().text
            left = Binary(op, left, self.unary())
        return left

    def unary(self) -> Expression:
        """``-x``, ``(x)``, a constant, a variable or a wildcard."""
        if self.is_mark("-"):
            self.take()
            if self.next.kind == "number":
                return self.constant("-")
            return Negate(self.unary())
        if self.skip("("):
            inner = self.expression()
            self.expect(")")
            return inner
        if self.skip("["):
            return ListOf(self.items("]"))
        if self.next.kind == "name" and self.next.text not in ("true", "false", "null"):
            name = self.name()
            if self.skip("("):
                return Call(name, self.items(")"))
            return Wildcard() if name == "_" else Variable(name)
        return self.constant()

    def items(self, closing: str) -> tuple[Expression, ...]:
        """Expressions up to a closing mark."""
        found: list[Expression] = []
        while not self.skip(closing):
            found.append(self.expression())
            if not self.is_mark(closing):
                self.expect(",")
        return tuple(found)

    def constant(self, sign: str = "") -> Constant:
        """A number, string, date, timestamp or truth value."""
        token = self.next
        if token.kind == "number":
            self.take()
            text = sign + token.text
            if not text.lstrip("-").isdigit():
                return Constant(float(text), text)
            if not -(2**63) <= int(text) < 2**63:
                raise ProgramError(f"{token.line}: {text} does not fit 64 bits")
            return Constant(int(text), text)
        if token.kind == "string":
            self.take()
            text = re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", unescaped, token.text[1:-1])
            return Constant(text, token.text)
        if token.kind == "date":
            self.take()
            return Constant(date.fromisoformat(token.text[5:-1]), token.text)
        if token.kind == "timestamp":
            self.take()
            return Constant(datetime.fromisoformat(token.text[10:-1]), token.text)
        if self.is_word("true", "false"):
            self.take()
            return Constant(token.text == "true", token.text)
        if self.is_word("null"):
            self.take()
            return Constant(None, "null")
        raise self.error("expected a constant")


# ---- from statements to a program ----------------------------------------------------------------------------------


def variables(expression: Expression) -> set[str]:
    """Names of the variables in ``expression``."""
    match expression:
        case Variable(name):
            return {name}
        case Binary(_, left, right):
            return variables(left) | variables(right)
        case Negate(operand):
            return variables(operand)
        case ListOf(parts) | Call(_, parts):
            return set().union(*map(variables, parts))
        case Aggregate(_, argument) if argument is not None:
            return variables(argument)
    return set()


def holds_wildcard(expression: Expression) -> bool:
    """Whether a wildcard stands below the top of ``expression``."""
    match expression:
        case Binary(_, left, right):
            return any(isinstance(side, Wildcard) or holds_wildcard(side) for side in (left, right))
        case Negate(operand):
            return isinstance(operand, Wildcard) or holds_wildcard(operand)
        case ListOf(parts) | Call(_, parts):
            return any(isinstance(part, Wildcard) or holds_wildcard(part) for part in parts)
    return False


def bound_variables(rule: Rule) -> set[str]:
    """Variables bound by a positive atom, or by an equality with a side all of whose variables are bound."""
    bound = {a.name for atom in rule.positive for a in atom.arguments if isinstance(a, Variable)}
    equalities = [literal for literal in rule.body if isinstance(literal, Comparison) and literal.op == "="]
    grew = True
    while grew:
        grew = False
        for equality in equalities:
            for target, source in ((equality.left, equality.right), (equality.right, equality.left)):
                if isinstance(target, Variable) and target.name not in bound and variables(source) <= bound:
                    bound.add(target.name)
                    grew = True
    return bound


def parse(text: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> Program:
    """Read a program of the core; ``functions`` are the external ones, as :mod:`.functions` has the others.

    Raises :class:`ProgramError` for text outside the core, arities that disagree, a relation that is neither declared
    nor defined, and unsafe rules. Stratification is checked by the evaluation.
    """
    parser = Parser(text)
    parser.statements()
    relations = dict(parser.declared)
    defined = {*relations, *parser.paths, *(rule.head.relation for rule in parser.rules)}
    parser.rules = [with_calls(rule, defined, {**FUNCTIONS, **(functions or {})}) for rule in parser.rules]
    for name, path in parser.paths.items():
        relations[name] = Relation(name, 2, is_derived=True, path=path)
    if not parser.domains:
        parser.rules = [split for rule in parser.rules for split in without_empty_paths(rule, parser.paths)]
    for rule in parser.rules:
        head = rule.head
        known = relations.setdefault(head.relation, Relation(head.relation, len(head.arguments)))
        if known.is_input and not known.is_derived and rule.body:
            raise ProgramError(f"{rule.line}: {head.relation} is an input and has a rule; declare it input derived")
        known.is_derived = True
    for rule in parser.rules:
        check_rule(rule, relations)
    for name, line in parser.published:
        if name not in relations:
            raise ProgramError(f"{line}: {name} is published and not defined")
        relations[name].is_output = True
    for path in parser.paths.values():
        unknown = path.relations - set(relations)
        if unknown:
            raise ProgramError(f"{path} goes along {', '.join(sorted(unknown))}, which is not defined")
    program = Program(relations, tuple(coerced(rule, relations) for rule in parser.rules), tuple(parser.domains))
    check_aggregates(program)
    return program


def without_empty_paths(rule: Rule, paths: dict[str, Path]) -> list[Rule]:
    """The rules in which no path is empty: a positive one leads elsewhere, or its ends are the same."""
    bodies: list[Conjunction] = [()]
    for number, literal in enumerate(rule.body):
        atom = literal.atom if isinstance(literal, Negation) else literal
        if isinstance(atom, Comparison) or atom.relation not in paths or not paths[atom.relation].nullable:
            bodies = [(*body, literal) for body in bodies]
            continue
        left, right = (
            Variable(f"End{number}{place}") if isinstance(end, Wildcard) else end
            for place, end in enumerate(atom.arguments)
        )
        elsewhere = Comparison("!=", left, right)
        if isinstance(literal, Negation):
            bodies = [(*body, literal, elsewhere) for body in bodies]
            continue
        open_end = any(isinstance(end, Wildcard) for end in atom.arguments)
        same: Conjunction = () if open_end else (Comparison("=", left, right),)
        there = Atom(atom.relation, (left, right))
        bodies = [(*body, *chosen) for body in bodies for chosen in ((there, elsewhere), same)]
    return [Rule(rule.head, body, rule.label, rule.line) for body in bodies]


def with_calls(rule: Rule, relations: set[str], functions: Mapping[str, Callable[..., Any]]) -> Rule:
    """The rule with every call's function looked up, and with calls for the literals that are no relations."""

    def expression(node: Expression) -> Expression:
        match node:
            case Binary(op, left, right):
                return Binary(op, expression(left), expression(right))
            case Negate(operand):
                return Negate(expression(operand))
            case ListOf(items):
                return ListOf(tuple(map(expression, items)))
            case Aggregate(argument=argument) if argument is not None:
                return replace(node, argument=expression(argument))
            case Call(name, arguments):
                if name not in functions:
                    raise ProgramError(f"{rule.line}: there is no function {name}")
                return Call(name, tuple(map(expression, arguments)), functions[name])
        return node

    def atom(node: Atom) -> Atom:
        return Atom(node.relation, tuple(map(expression, node.arguments)))

    def literal(node: Literal) -> Literal:
        if isinstance(node, Comparison):
            return Comparison(node.op, expression(node.left), expression(node.right))
        inner = node.atom if isinstance(node, Negation) else node
        if inner.relation in relations or inner.relation not in functions:
            return Negation(atom(inner)) if isinstance(node, Negation) else atom(inner)
        call = expression(Call(inner.relation, inner.arguments))
        return Comparison("=", call, Constant(isinstance(node, Atom)))

    return Rule(atom(rule.head), tuple(map(literal, rule.body)), rule.label, rule.line)


def check_rule(rule: Rule, relations: dict[str, Relation]) -> None:
    """Arities, known relations, safety, and where wildcards and aggregates may stand."""
    atoms = [rule.head]
    atoms += [
        literal.atom if isinstance(literal, Negation) else literal
        for literal in rule.body
        if not isinstance(literal, Comparison)
    ]
    for atom in atoms:
        if atom.relation not in relations:
            raise ProgramError(f"{rule.line}: {atom.relation} is neither declared nor defined")
        if len(atom.arguments) != relations[atom.relation].arity:
            raise ProgramError(f"{rule.line}: {atom.relation} has {relations[atom.relation].arity} columns")
    bound = bound_variables(rule)
    used: list[Expression] = list(rule.head.arguments)
    for literal in rule.body:
        if isinstance(literal, Comparison):
            used += [literal.left, literal.right]
            if isinstance(literal.left, Wildcard) or isinstance(literal.right, Wildcard):
                raise ProgramError(f"{rule.line}: a wildcard in a comparison")
        else:
            used += literal.atom.arguments if isinstance(literal, Negation) else literal.arguments
    for expression in used:
        unbound = variables(expression) - bound
        if unbound:
            raise ProgramError(f"{rule.line}: nothing binds {', '.join(sorted(unbound))}")
        if holds_wildcard(expression):
            raise ProgramError(f"{rule.line}: a wildcard in an expression")
    if any(isinstance(argument, Wildcard) for argument in rule.head.arguments):
        raise ProgramError(f"{rule.line}: a wildcard in a head")


def check_aggregates(program: Program) -> None:
    """All rules of an aggregated relation agree on which columns are aggregates, and nothing else fills it."""
    for relation in program.relations.values():
        rules = program.rules_of(relation.name)
        shapes = {
            tuple(
                (a.function, a.distinct, a.limit, a.descending) if isinstance(a, Aggregate) else None
                for a in rule.head.arguments
            )
            for rule in rules
        }
        if not any(rule.aggregated for rule in rules):
            continue
        if len(shapes) > 1:
            raise ProgramError(f"{rules[0].line}: the rules of {relation.name} aggregate different columns")
        if relation.is_input:
            raise ProgramError(f"{rules[0].line}: {relation.name} is an input and has an aggregate")


def coerced(rule: Rule, relations: dict[str, Relation]) -> Rule:
    """The rule with constants at declared decimal and float columns given the type of the column."""

    def fit(atom: Atom) -> Atom:
        columns = relations[atom.relation].columns
        if columns is None:
            return atom
        return Atom(
            atom.relation, tuple(as_type(a, column.type) for a, column in zip(atom.arguments, columns, strict=True))
        )

    body = tuple(
        fit(literal)
        if isinstance(literal, Atom)
        else Negation(fit(literal.atom))
        if isinstance(literal, Negation)
        else literal
        for literal in rule.body
    )
    return Rule(fit(rule.head), body, rule.label, rule.line)


def as_type(expression: Expression, type_name: str) -> Expression:
    """A number literal as a value of ``type_name``; anything else as it is."""
    type_name = type_name.removesuffix("?")
    if isinstance(expression, ListOf) and type_name.startswith("list<"):
        element = type_name.removeprefix("list<").removesuffix(">")
        return ListOf(tuple(as_type(item, element) for item in expression.items))
    if (
        isinstance(expression, Constant)
        and isinstance(expression.value, int | float)
        and not isinstance(expression.value, bool)
    ):
        if type_name.startswith("decimal"):
            return Constant(Decimal(expression.text), expression.text)
        if type_name == "float":
            return Constant(float(expression.value), expression.text)
    return expression
