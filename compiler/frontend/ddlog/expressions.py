"""Translates expressions of DDlog, with their types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

from lark import Token, Tree

from ...ir import syntax
from ...naming import counted, unused
from ...source import Span
from ..feeding import Grammar, Node, child, span_of, tokens_in, trees, unescaped
from ..syntax_errors import LeftOut
from .tokens import tokens
from .types import BOOL, DOUBLE, OPEN, STRING, EnumType, IntType, ListType, RecordType, Type
from .values import Value, arithmetic, binary, call, number, wrapped
from .world import DeclaredFunction, ModuleFile, World

WORDS = {
    "END": "`.`",
    "COMMA": "`,`",
    "IF": "`:-`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "RBRACE": "`}`",
    "RSQB": "`]`",
    "GREATER": "`>`",
    "COLON": "`:`",
    "EQUAL": "`=`",
    "ELSE": "`else`",
    "LOWER": "a name in lower case",
    "UPPER": "a name in upper case",
    "INT": "a number",
}
GRAMMAR = Grammar(Path(__file__).with_name("ddlog.lark"), WORDS)

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'", "0": "\0", "$": "$"}
_COMPARISONS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
#: How deep calls of functions may be nested.
_MOST_CALLS = 50

_TEXT, _TEXTS, _COUNT = STRING, ListType(STRING), IntType(64, False)
#: Functions of the standard library with equals in Flintlog: their names, parameters and results.
_LIBRARY: dict[str, tuple[str, tuple[Type, ...], Type]] = {
    "string_contains": ("contains", (_TEXT, _TEXT), BOOL),
    "contains": ("contains", (_TEXT, _TEXT), BOOL),
    "string_starts_with": ("startswith", (_TEXT, _TEXT), BOOL),
    "starts_with": ("startswith", (_TEXT, _TEXT), BOOL),
    "string_ends_with": ("endswith", (_TEXT, _TEXT), BOOL),
    "ends_with": ("endswith", (_TEXT, _TEXT), BOOL),
    "string_split": ("split", (_TEXT, _TEXT), _TEXTS),
    "split": ("split", (_TEXT, _TEXT), _TEXTS),
    "string_replace": ("replace", (_TEXT, _TEXT, _TEXT), _TEXT),
    "replace": ("replace", (_TEXT, _TEXT, _TEXT), _TEXT),
    "string_join": ("array_join", (_TEXTS, _TEXT), _TEXT),
    "join": ("array_join", (_TEXTS, _TEXT), _TEXT),
    "string_reverse": ("reverse", (_TEXT,), _TEXT),
}


@dataclass
class Expressions:
    """Translates the expressions of one rule or fact of a module.

    ``variables`` are those in scope. What an expression needs besides itself, such as the two cases of ``if``, goes to
    ``literals``, the body so far.
    """

    world: World
    module: ModuleFile
    taken: set[str]
    variables: dict[str, Value] = field(default_factory=dict)
    literals: list[syntax.Literal] = field(default_factory=list)
    calls: int = 0

    # ---- places and names ------------------------------------------------------------------------------------------

    def span(self, tree: Node) -> Span:
        """Return the span of a tree."""
        return self.module.source.span(tree.meta.start_pos, tree.meta.end_pos)

    def refuse(self, code: str, message: str, tree: Node | Token, help: str | None = None) -> LeftOut:
        """Report an error at a tree and return the exception to raise."""
        span = span_of(self.module.source, tree) if isinstance(tree, Token) else self.span(tree)
        return self.world.refuse(code, message, span, help)

    def new(self, name: str) -> str:
        """Return a name of a variable that is not in use."""
        made = unused("null_" if name == "null" else name, self.taken)
        self.taken.add(made)
        return made

    def variable(self, name: str, type_: Type, span: Span, known: bool = False) -> Value:
        """Return a value that consists of new variables; with ``known``, the name is that of the source."""
        if isinstance(type_, RecordType):
            parts = tuple(self.variable(f"{name}_{part}", inner, span) for part, inner in type_.fields)
            return Value(type_, None, parts)
        made = name if known and name != "null" else self.new(name)
        return Value(type_, syntax.VariableNode(made, span))

    def bind(self, name: str, type_: Type, span: Span) -> Value:
        """Bring a variable into scope."""
        # A variable of the source keeps its name, unless a function that is called has one of that name, too.
        self.variables[name] = self.variable(name, type_, span, known=self.calls == 0)
        return self.variables[name]

    def captured(self, work: Callable[[], object]) -> tuple[syntax.Literal, ...]:
        """Return the literals that ``work`` adds, without adding them."""
        before, self.literals = self.literals, []
        try:
            work()
            return tuple(self.literals)
        finally:
            self.literals = before

    def compare(self, op: str, left: syntax.Expression, right: syntax.Expression, span: Span) -> None:
        """Add a comparison to the body."""
        self.literals.append(syntax.ComparisonNode(op, left, right, span))

    # ---- conditions ------------------------------------------------------------------------------------------------

    def condition(self, tree: Node, wanted: bool = True) -> None:
        """Add a condition to the body, or its negation."""
        span = self.span(tree)
        match str(tree.data):
            case "tuple" if len(trees(tree)) == 1:
                self.condition(trees(tree)[0], wanted)
            case "negation":
                self.condition(trees(tree)[0], not wanted)
            case "conjunction" | "disjunction":
                left, right = trees(tree)
                if (tree.data == "conjunction") == wanted:
                    self.condition(left, wanted)
                    self.condition(right, wanted)
                else:
                    one = self.captured(lambda: self.condition(left, wanted))
                    other = self.captured(lambda: self.condition(right, wanted))
                    self.literals.append(syntax.Disjunction((one, other), span))
            case "comparison":
                self._comparison(tree, wanted)
            case _:
                value = self.expect(self.value(tree, BOOL), BOOL, tree)
                truth = syntax.ConstantNode(wanted, "bool", span)
                self.compare("=", next(value.leaves()), truth, span)

    def _comparison(self, tree: Node, wanted: bool) -> None:
        first, token, second = tree.children
        assert isinstance(first, Tree) and isinstance(token, Token) and isinstance(second, Tree)
        op, span = _COMPARISONS[str(token)], self.span(tree)
        op = op if wanted else _OPPOSITE[op]
        left, right = self.alike(first, second)
        pairs = list(zip(left.leaves(), right.leaves(), strict=True))
        if isinstance(left.type, EnumType) and op not in ("=", "!="):
            help = "compare with `==`, or use numbers"
            raise self.refuse("E0784", f"`{token}` of constructors is not supported", tree, help)
        if len(pairs) == 1 or op == "=":
            for one, other in pairs:
                self.compare(op, one, other, span)
        elif op == "!=":
            parts = tuple((syntax.ComparisonNode(op, one, other, span),) for one, other in pairs)
            self.literals.append(syntax.Disjunction(parts, span))
        else:
            help = "compare their fields one by one"
            raise self.refuse("E0784", f"`{token}` of tuples and structures is not supported", tree, help)

    def alike(self, first: Node, second: Node, expected: Type | None = None) -> tuple[Value, Value]:
        """Return two values of one type; number literals take that of the other side."""
        if _has_literal(first) and not _has_literal(second):
            right = self.value(second, expected)
            left = self.value(first, right.type)
        else:
            left = self.value(first, expected)
            right = self.value(second, left.type)
        left, right = self.closed(left, right.type, first), self.closed(right, left.type, second)
        if left.type != right.type:
            message = f"the values are of types {left.type} and {right.type}"
            help = "convert one of them, as in `x as u32`"
            raise self.refuse("E0305", message, second, help)
        return left, right

    def expect(self, value: Value, type_: Type, tree: Node) -> Value:
        """Return a value of a type; report E0302 if it is of another one."""
        value = self.closed(value, type_, tree)
        if value.type != type_:
            raise self.refuse("E0302", f"this is of type {value.type}, but {type_} is needed", tree)
        return value

    def closed(self, value: Value, type_: Type, tree: Node) -> Value:
        """Return a number whose type is open as one of ``type_``, if that is a type of integers."""
        if not (isinstance(value.type, IntType) and value.type.open and isinstance(type_, IntType)) or type_.open:
            return value
        expression = next(value.leaves())
        if isinstance(expression, syntax.ConstantNode) and isinstance(expression.value, int):
            return Value(type_, self._fitting(expression.value, type_, tree))
        return Value(type_, wrapped(expression, type_, self.span(tree)))

    # ---- values ----------------------------------------------------------------------------------------------------

    def value(self, tree: Node, expected: Type | None = None) -> Value:
        """Return a value; ``expected`` is the type of number literals and vectors that do not say theirs."""
        span = self.span(tree)
        match str(tree.data):
            case "constant":
                return self._constant(tree, expected)
            case "variable":
                return self._variable(tree)
            case "tuple":
                return self._tuple(tree, expected)
            case "construction" | "constructor_name":
                return self._construction(tree)
            case "vector":
                return self._vector(tree, expected)
            case "member":
                return self._member(tree)
            case "method" | "call":
                return self._call(tree, expected)
            case "cast":
                return self._cast(tree)
            case "slice":
                return self._slice(tree)
            case "negative":
                return self._negative(tree, expected)
            case "binary":
                return self._binary(tree, expected)
            case "choice":
                condition, first, second = trees(tree)
                return self._choice(
                    lambda wanted: self.condition(condition, wanted),
                    lambda: self.value(first, expected),
                    lambda type_: self.value(second, type_),
                    tree,
                )
            case "comparison" | "conjunction" | "disjunction" | "negation":
                return self._choice(
                    lambda wanted: self.condition(tree, wanted),
                    lambda: Value(BOOL, syntax.ConstantNode(True, "bool", span)),
                    lambda _: Value(BOOL, syntax.ConstantNode(False, "bool", span)),
                    tree,
                )
            case "declared" | "wildcard" | "named_pattern":
                raise self.refuse("E0114", "a variable is declared where a value is needed", tree)
            case "atom" | "whole":
                help = "write fields in braces, as in `Point{1, 2}`"
                raise self.refuse("E0114", "a relation has no value", tree, help)
            case "complement":
                raise self.refuse("E0784", "`~` is not supported", tree, "subtract from the greatest value of the type")
        raise self.refuse("E0114", "this is not a value", tree)

    def _variable(self, tree: Node) -> Value:
        name = str(tree.children[0])
        if name not in self.variables:
            message = f"`{name}` is not bound before this"
            raise self.refuse("E0403", message, tree, "bind it by a positive atom or by `var`, from left to right")
        value = self.variables[name]
        return _placed(value, self.span(tree)) if self.calls == 0 else value

    def _constant(self, tree: Node, expected: Type | None) -> Value:
        token, span = tree.children[0], self.span(tree)
        assert isinstance(token, Token)
        match token.type:
            case "TRUE" | "FALSE":
                return Value(BOOL, syntax.ConstantNode(token.type == "TRUE", "bool", span))
            case "STRING":
                return Value(STRING, self._strings(tokens_in(tree, "STRING")))
            case "INT" if expected == DOUBLE:
                return Value(DOUBLE, syntax.ConstantNode(Decimal(_integer(str(token))), "float", span))
            case "INT":
                type_ = expected if isinstance(expected, IntType) else OPEN
                return Value(type_, self._fitting(_integer(str(token)), type_, tree))
            case "SIZED":
                width, digits = token.split("'")
                signed = digits.startswith("s")
                digits = digits.lstrip("s")
                base = {"d": 10, "h": 16, "o": 8, "b": 2}[digits[0].lower()]
                type_ = expected if isinstance(expected, IntType) else OPEN
                if width:
                    type_ = IntType(int(width.replace("_", "")), signed)
                return Value(type_, self._fitting(int(digits[1:].replace("_", "")[:60], base), type_, tree))
        try:
            decimal = Decimal(token.replace("_", ""))
            fits = abs(float(decimal)) < float("inf") and (float(decimal) == 0) == (decimal == 0)
        except (InvalidOperation, ValueError):
            fits = False
        if not fits:
            raise self.refuse("E0307", "this number does not fit a double", tree)
        return Value(DOUBLE, syntax.ConstantNode(decimal, "float", span))

    def _fitting(self, value: int, type_: IntType, tree: Node) -> syntax.Expression:
        if not type_.least <= value <= type_.most:
            limit = f", which Flintlog holds up to {type_.most}" if type_.bits is None or type_.bits > 62 else ""
            raise self.refuse("E0307", f"this number does not fit {type_}{limit}", tree)
        return number(value, self.span(tree))

    def _negative(self, tree: Node, expected: Type | None) -> Value:
        (inner,) = trees(tree)
        token = inner.children[0] if inner.data == "constant" else None
        if isinstance(token, Token) and token.type == "INT" and expected != DOUBLE:
            type_ = expected if isinstance(expected, IntType) else OPEN
            return Value(type_, self._fitting(-_integer(str(token)), type_, tree))
        value = self.value(inner, expected)
        span, operand = self.span(tree), next(value.leaves())
        if value.type == DOUBLE:
            if isinstance(operand, syntax.ConstantNode) and isinstance(operand.value, Decimal):
                return Value(DOUBLE, replace(operand, value=-operand.value, span=span))
            return Value(DOUBLE, syntax.Unary("-", operand, span))
        if not isinstance(value.type, IntType):
            raise self.refuse("E0304", f"`-` requires a number, but this is {value.type}", tree)
        return Value(value.type, wrapped(syntax.Unary("-", operand, span), value.type, span))

    def _binary(self, tree: Node, expected: Type | None) -> Value:
        first, token, second = tree.children
        assert isinstance(first, Tree) and isinstance(token, Token) and isinstance(second, Tree)
        op, span = str(token), self.span(tree)
        if token.type in ("SHIFT_LEFT", "SHIFT_RIGHT"):
            return self._shift(tree, expected)
        if token.type in ("BITAND", "BAR", "CARET"):
            return self._bits(tree, expected)
        if op == "++":
            joined = self._bits_joined(first, second, span)
            if joined is not None:
                return joined
        left, right = self.alike(first, second, expected)
        type_, (one, other) = left.type, (next(left.leaves()), next(right.leaves()))
        if op == "++":
            if type_ != STRING and not isinstance(type_, ListType):
                raise self.refuse("E0309", f"`++` joins strings and vectors, but these are {type_}", tree)
            return Value(type_, binary("++", one, other, span))
        if isinstance(type_, IntType):
            return Value(type_, arithmetic(op, one, other, type_, span))
        if type_ == DOUBLE and op != "%":
            return Value(type_, binary(op, one, other, span))
        raise self.refuse("E0304", f"`{op}` requires numbers, but these are {type_}", tree)

    def _bits_joined(self, first: Node, second: Node, span: Span) -> Value | None:
        """Return two unsigned numbers as one with the bits of both; None if they are no such numbers."""
        if _has_literal(first) or _has_literal(second):
            return None
        left, right = self.value(first), self.value(second)
        one, other = left.type, right.type
        if not isinstance(one, IntType) or not isinstance(other, IntType) or one.signed or other.signed:
            return None
        bits = (one.bits or 0) + (other.bits or 0)
        if not one.bits or not other.bits or bits > 62:
            return None
        high = binary("*", next(left.leaves()), number(2**other.bits, span), span)
        return Value(IntType(bits, False), binary("+", high, next(right.leaves()), span))

    def _shift(self, tree: Node, expected: Type | None) -> Value:
        """Return a shift by a constant, as a multiplication or a division."""
        first, token, second = tree.children
        assert isinstance(first, Tree) and isinstance(token, Token) and isinstance(second, Tree)
        value, distance = self.value(first, expected), _constant_int(second)
        type_, span = value.type, self.span(tree)
        if not isinstance(type_, IntType) or distance is None or not 0 <= distance < 62:
            help = "shift by a constant below 62, or multiply"
            raise self.refuse("E0784", f"`{token}` by this is not supported", tree, help)
        power = number(2**distance, span)
        if token.type == "SHIFT_LEFT":
            return Value(type_, arithmetic("*", next(value.leaves()), power, type_, span))
        if type_.signed:
            raise self.refuse("E0784", "`>>` of signed integers is not supported", tree, "divide by a power of 2")
        return Value(type_, binary("/", next(value.leaves()), power, span))

    def _bits(self, tree: Node, expected: Type | None) -> Value:
        """Return ``x & mask`` for a mask of low bits, as a remainder."""
        first, token, second = tree.children
        assert isinstance(first, Tree) and isinstance(token, Token) and isinstance(second, Tree)
        mask = _constant_int(second)
        value = self.value(first, expected)
        type_, span = value.type, self.span(tree)
        low = token.type == "BITAND" and mask is not None and mask & (mask + 1) == 0 and mask < 2**62
        if not low or not isinstance(type_, IntType) or type_.signed or mask is None:
            help = "compute with `/` and `%`; `&` takes a constant of low bits, such as `0xff`"
            raise self.refuse("E0784", f"`{token}` of these bits is not supported", tree, help)
        return Value(type_, binary("%", next(value.leaves()), number(mask + 1, span), span))

    def _slice(self, tree: Node) -> Value:
        (inner,) = trees(tree)
        high, low = (_integer(str(token)) for token in tokens_in(tree, "INT"))
        value, span = self.value(inner), self.span(tree)
        type_ = value.type
        if not isinstance(type_, IntType) or type_.signed or not low <= high < (type_.bits or 0) or high > 61:
            raise self.refuse(
                "E0784", "this slice of bits is not supported", tree, "give the bits of an unsigned number"
            )
        expression = next(value.leaves())
        if low:
            expression = binary("/", expression, number(2**low, span), span)
        width = high - low + 1
        return Value(IntType(width, False), binary("%", expression, number(2**width, span), span))

    def _cast(self, tree: Node) -> Value:
        inner, kind = trees(tree)
        type_ = self.world.type(kind, self.module)
        value, span = self.value(inner, type_ if _is_literal(inner) else None), self.span(tree)
        expression = next(value.leaves(), None)
        if value.type == type_ or expression is None:
            return self.expect(value, type_, tree)
        if isinstance(value.type, IntType) and isinstance(type_, IntType):
            fits = type_.least <= value.type.least and value.type.most <= type_.most
            return Value(type_, expression if fits else wrapped(expression, type_, span))
        if isinstance(value.type, IntType) and type_ == DOUBLE:
            return Value(type_, call("float", expression, span=span))
        raise self.refuse("E0302", f"a value of type {value.type} cannot become {type_}", tree)

    # ---- records and vectors ---------------------------------------------------------------------------------------

    def _tuple(self, tree: Node, expected: Type | None) -> Value:
        inner = trees(tree)
        if len(inner) == 1:
            return self.value(inner[0], expected)
        wanted = [type_ for _, type_ in expected.fields] if isinstance(expected, RecordType) else []
        known = wanted if len(wanted) == len(inner) else [None] * len(inner)
        parts = tuple(self.value(part, type_) for part, type_ in zip(inner, known, strict=True))
        return Value(RecordType("", tuple((str(n), part.type) for n, part in enumerate(parts))), None, parts)

    def _construction(self, tree: Node) -> Value:
        name = child(tree, "qualified")
        assert name is not None
        enumeration = self.world.enumeration(name, self.module)
        if enumeration is not None:
            return Value(enumeration, syntax.ConstantNode(str(tokens_in(name, "UPPER")[0]), "string", self.span(tree)))
        record = self.world.constructor(name, self.module)
        given = self.arguments(tree, record)
        for field_, _ in record.fields:
            if field_ not in given:
                raise self.refuse("E0203", f"the field `{field_}` of `{record.constructor}` is missing", tree)
        parts = []
        for field_, type_ in record.fields:
            parts.append(self.expect(self.value(given[field_], type_), type_, given[field_]))
        return Value(record, None, tuple(parts))

    def arguments(self, tree: Node, record: RecordType) -> dict[str, Node]:
        """Return the arguments of an atom or constructor by the names of fields."""
        given: dict[str, Node] = {}
        positional = 0
        whole = [part for part in trees(tree) if part.data != "qualified"]
        for part in whole:
            inner = part
            if part.data == "argument":
                inner = trees(part)[0]
            if part.data == "by_name":
                name, inner = str(tokens_in(part, "LOWER")[0]), trees(part)[0]
                if name not in dict(record.fields):
                    raise self.refuse("E0203", f"`{record.constructor}` has no field `{name}`", part)
            else:
                if positional >= len(record.fields):
                    message = _misfit(record, len(whole))
                    raise self.refuse("E0203", message, tree)
                name = record.fields[positional][0]
                positional += 1
            given[name] = inner
        if positional and positional < len(record.fields) and positional == len(whole):
            message = _misfit(record, len(whole))
            raise self.refuse("E0203", message, tree, "name the fields, as in `.x = 1`, to leave others out")
        return given

    def _vector(self, tree: Node, expected: Type | None) -> Value:
        element = expected.element if isinstance(expected, ListType) else None
        items = []
        for part in trees(tree):
            value = self.value(part, element)
            element = element or value.type
            items.append(self.expect(value, element, part))
        if element is None or isinstance(element, RecordType):
            message = (
                "the type of this vector is unknown" if element is None else "vectors of records are not supported"
            )
            raise self.refuse("E0783", message, tree)
        leaves = tuple(leaf for item in items for leaf in item.leaves())
        return Value(ListType(element), syntax.ListNode(leaves, self.span(tree)))

    def _member(self, tree: Node) -> Value:
        value = self.value(trees(tree)[0])
        name = tokens_in(tree, "LOWER", "INT")[0]
        found = value.field(str(name))
        if found is None:
            raise self.refuse("E0302", f"a value of type {value.type} has no field `{name}`", tree)
        return found

    # ---- choices ---------------------------------------------------------------------------------------------------

    def _choice(
        self,
        condition: Callable[[bool], object],
        first: Callable[[], Value],
        second: Callable[[Type], Value],
        tree: Node,
    ) -> Value:
        """Return variables for one of two values; the body says which one."""
        span, found = self.span(tree), []

        def case(wanted: bool, value: Callable[[], Value]) -> tuple[syntax.Literal, ...]:
            def work() -> None:
                condition(wanted)
                found.append(value())

            return self.captured(work)

        one = case(True, first)
        other = case(False, lambda: second(found[0].type))
        found = [self.closed(found[0], found[1].type, tree), self.closed(found[1], found[0].type, tree)]
        if found[0].type != found[1].type:
            message = f"the cases are of types {found[0].type} and {found[1].type}"
            raise self.refuse("E0305", message, tree)
        chosen = self.variable("chosen", found[0].type, span)
        alternatives = tuple(
            (
                *literals,
                *(syntax.ComparisonNode("=", v, e, span) for v, e in zip(chosen.leaves(), value.leaves(), strict=True)),
            )
            for literals, value in zip((one, other), found, strict=True)
        )
        self.literals.append(syntax.Disjunction(alternatives, span))
        return chosen

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _call(self, tree: Node, expected: Type | None) -> Value:
        name = tokens_in(tree, "LOWER")[0]
        scope = "".join(tokens_in(tree, "SCOPED"))
        arguments, span = trees(tree), self.span(tree)
        function = self.world.function(name, scope, self.module)
        if function is not None:
            return self._called(function, arguments, tree)
        if str(name) in ("min", "max") and len(arguments) == 2:
            left, right = self.alike(arguments[0], arguments[1], expected)
            if isinstance(left.type, RecordType):
                raise self.refuse("E0785", f"`{name}` of tuples and structures is not supported", tree)
            least = "least" if name == "min" else "greatest"
            return Value(left.type, call(least, next(left.leaves()), next(right.leaves()), span=span))
        if str(name) in ("to_string", "__builtin_2string") and len(arguments) == 1:
            return Value(STRING, self.text(self.value(arguments[0]), arguments[0]))
        if str(name) in ("vec_len", "len", "size") and len(arguments) == 1:
            value = self.value(arguments[0])
            if isinstance(value.type, ListType):
                return Value(_COUNT, call("size", *value.leaves(), span=span))
        if str(name) in ("vec_contains", "contains") and len(arguments) == 2:
            value = self.value(arguments[0])
            if isinstance(value.type, ListType):
                element = value.type.element
                item = self.expect(self.value(arguments[1], element), element, arguments[1])
                return Value(BOOL, call("array_contains", *value.leaves(), *item.leaves(), span=span))
        if str(name) in _LIBRARY and not scope and len(arguments) == len(_LIBRARY[str(name)][1]):
            made, types, result = _LIBRARY[str(name)]
            pairs = zip(arguments, types, strict=True)
            values = [self.expect(self.value(argument, type_), type_, argument) for argument, type_ in pairs]
            return Value(result, call(made, *(next(value.leaves()) for value in values), span=span))
        if str(name) in self.world.broken:
            raise LeftOut
        help = "declare it as `extern function`, and give a Python function of that name"
        if str(name) == "group_by":
            help = "write `var x = y.group_by(z).sum()` as a literal of its own"
        raise self.refuse("E0785", f"the function `{name}` is not supported", name, help)

    def _called(self, function: DeclaredFunction, arguments: Sequence[Node], tree: Node) -> Value:
        if len(arguments) != len(function.parameters):
            takes = counted(len(function.parameters), "argument")
            message = f"`{function.name}` takes {takes}, not {len(arguments)}"
            raise self.refuse("E0312", message, tree)
        values = []
        for argument, (_, type_) in zip(arguments, function.parameters, strict=True):
            values.append(self.expect(self.value(argument, type_), type_, argument))
        if function.body is None:
            leaves = [leaf for value in values for leaf in value.leaves()]
            return Value(function.result, call(function.name, *leaves, span=self.span(tree)))
        if self.calls >= _MOST_CALLS:
            raise self.refuse("E0785", f"calls of `{function.name}` are nested too deeply", tree)
        outside, module = self.variables, self.module
        names = [name for name, _ in function.parameters]
        self.variables, self.module = dict(zip(names, values, strict=True)), function.module
        self.calls += 1
        try:
            return self.expect(self.value(function.body, function.result), function.result, function.body)
        finally:
            self.calls -= 1
            self.variables, self.module = outside, module

    # ---- strings ---------------------------------------------------------------------------------------------------

    def text(self, value: Value, tree: Node) -> syntax.Expression:
        """Return a value as a string."""
        if value.type == STRING:
            return next(value.leaves())
        name = value.type.name if isinstance(value.type, RecordType | EnumType) else ""
        for wanted in (f"{name}2string", "to_string"):
            function = self.world.function(Token("LOWER", wanted), "", self.module) if name else None
            if (
                function is not None
                and function.body is not None
                and [t for _, t in function.parameters] == [value.type]
            ):
                outside, module = self.variables, self.module
                self.variables, self.module = {function.parameters[0][0]: value}, function.module
                self.calls += 1
                try:
                    return next(self.value(function.body, STRING).leaves())
                finally:
                    self.calls -= 1
                    self.variables, self.module = outside, module
        if isinstance(value.type, IntType) or value.type == BOOL:
            return call("string", next(value.leaves()), span=self.span(tree))
        help = "join the parts that are strings, integers or truth values"
        raise self.refuse("E0784", f"a value of type {value.type} cannot become a string", tree, help)

    def _strings(self, found: Iterable[Token]) -> syntax.Expression:
        """Return string literals, joined, with the values of the expressions in them."""
        parts = [part for token in found for part in self._parts(token)]
        made: syntax.Expression | None = None
        for part in parts:
            constant = isinstance(part, syntax.ConstantNode) and isinstance(made, syntax.ConstantNode)
            if made is None:
                made = part
            elif constant and isinstance(part, syntax.ConstantNode) and isinstance(made, syntax.ConstantNode):
                made = replace(made, value=f"{made.value}{part.value}")
            else:
                made = binary("++", made, part, part.span)
        assert made is not None
        return made

    def _parts(self, token: Token) -> Iterator[syntax.Expression]:
        assert token.start_pos is not None and token.end_pos is not None
        source, span = self.module.source, span_of(self.module.source, token)
        raw = token.startswith(("[|", "$[|"))
        opening = token.index("[|") + 2 if raw else token.index('"') + 1
        start, stop = token.start_pos + opening, token.end_pos - (2 if raw else 1)
        interpolated = not raw or token.startswith("$")
        first = True
        while True:
            place = source.text.find("${", start, stop) if interpolated else -1
            while not raw and place > 0 and _escaped(source.text[start:place]):
                place = source.text.find("${", place + 1, stop)
            text = source.text[start : stop if place < 0 else place]
            if text or (first and place < 0):
                yield syntax.ConstantNode(text if raw else self._unescaped(text, start), "string", span)
            if place < 0:
                return
            first = False
            end = _closing(source.text, place + 2, stop)
            if end is None:
                raise self.world.refuse("E0101", "`${` in a string is not closed by `}`", source.span(place, place + 2))
            yield self._embedded(place + 2, end)
            start = end + 1

    def _embedded(self, start: int, end: int) -> syntax.Expression:
        """Return the value, as a string, of the expression between two places of a string."""
        before = self.module
        # Quotes inside of a string are escaped; without the backslashes, everything keeps its place.
        pieces = before.source.text[start:end].split('\\"')
        text = "".join(piece + (' "', '" ', "")[n % 2 if n + 1 < len(pieces) else 2] for n, piece in enumerate(pieces))
        source = replace(before.source, text=before.source.text[:start] + text + before.source.text[end:])
        inner = list(tokens(source, self.world.diagnostics, start, end))
        mark = Token("EMBEDDED", "${", start, end_pos=start)
        tree = GRAMMAR.parse(source, [mark, *inner], self.world.diagnostics)
        if isinstance(tree, int):
            raise LeftOut
        (expression,) = trees(tree)
        self.module = replace(before, source=source)
        try:
            return self.text(self.value(expression), expression)
        finally:
            self.module = before

    def _unescaped(self, text: str, start: int) -> str:
        text = _CONTINUED.sub("", text)

        def unknown(place: int, escape: str) -> str:
            span = self.module.source.span(start + place, start + place + 2)
            raise self.world.refuse("E0108", "unknown escape in a string", span, "write `\\\\` for a backslash")

        return unescaped(text, _ESCAPES, unknown)


def _misfit(record: RecordType, given: int) -> str:
    """Return that a relation or constructor has not as many fields as there are arguments."""
    fields, arguments = counted(len(record.fields), "field"), counted(given, "argument")
    return f"`{record.constructor}` has {fields}, but {arguments} here"


#: A line of a string that goes on in the next one.
_CONTINUED = re.compile(r"\\\s+\\")


def _escaped(text: str) -> bool:
    """Return whether a text ends with an odd number of backslashes that do not belong to the break of a line."""
    text = _CONTINUED.sub("", text)
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _closing(text: str, place: int, stop: int) -> int | None:
    """Return the place of the brace that closes one before ``place``."""
    depth = 1
    for at in range(place, stop):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at
    return None


def _placed(value: Value, span: Span) -> Value:
    """Return the value of a variable where it is used."""
    if isinstance(value.expression, syntax.VariableNode):
        return replace(value, expression=replace(value.expression, span=span))
    return value


def _is_literal(tree: Node) -> bool:
    """Return whether the type of a value is up to its context."""
    if tree.data == "constant":
        token = tree.children[0]
        return isinstance(token, Token) and (token.type == "INT" or (token.type == "SIZED" and token.startswith("'")))
    if tree.data in ("negative", "tuple", "binary"):
        return bool(trees(tree)) and all(map(_is_literal, trees(tree)))
    return tree.data == "vector"


def _has_literal(tree: Node) -> bool:
    """Return whether the type of a part of a value is up to its context."""
    return _is_literal(tree) or (tree.data == "tuple" and any(map(_has_literal, trees(tree))))


def _constant_int(tree: Node) -> int | None:
    """Return the value of a constant, None if a tree is none."""
    while tree.data == "tuple" and len(trees(tree)) == 1:
        tree = trees(tree)[0]
    token = tree.children[0] if tree.data == "constant" else None
    if isinstance(token, Token) and token.type == "INT":
        return _integer(str(token))
    return None


def _integer(text: str) -> int:
    """Return the value of digits; of very many, a number that is too large as well."""
    digits = text.replace("_", "").lower()
    base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2], 10)
    return int(digits[:100] if base == 10 else digits[2:200], base)
