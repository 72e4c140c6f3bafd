"""Expressions of rules in SQLite's SQL.

Values are stored so that ``=`` and, where the type has an order, ``<`` compare them as the language does: an int as an
integer, a float as a real, a bool as 0 or 1, dates and timestamps as text of one length, a decimal of at most 18 digits
as the integer of its last digit's units, a longer one as text in order, a list as JSON, and null as an empty blob,
which no other value is.

An expression without a value is NULL. SQLite makes a real of an integer that overflows, and this spreads to all that is
computed of it: so whole sums and products are looked at, not each of their parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from flintlog.compiler.ir import typed

#: The text of a value from which on it is too long to stand twice.
LONG = 120
NULL = "x''"


def quoted(name: str) -> str:
    """Return a name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_constant(text: str) -> str:
    """Return a text in SQL; SQLite's texts in SQL end at a NUL."""
    if "\0" in text:
        return f"CAST(x'{text.encode().hex()}' AS TEXT)"
    return "'" + text.replace("'", "''") + "'"


def kind_of(type_: typed.Type) -> str:
    """Return a type as the functions of decimals and lists take it."""
    return text_constant(str(type_))


class SqliteExpressions:
    """Prints expressions; ``values`` has the SQL of each variable."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def value(self, expression: typed.Expression | typed.Term) -> str:
        """Return an expression that is NULL where it has no value."""
        match expression:
            case typed.Variable():
                return self.values[expression.name]
            case typed.Constant():
                return self.constant(expression)
            case typed.Binary(op="++") if expression.type.name == "string":
                return f"({self.value(expression.left)} || {self.value(expression.right)})"
            case typed.Binary() | typed.Negate() if expression.type == typed.INT:
                text = self.raw(expression)
                if len(text) > LONG:
                    return f"_int({text})"
                return f"iif(typeof({text}) = 'integer', {text}, NULL)"
            case typed.Binary() | typed.Negate() if expression.type == typed.FLOAT:
                return f"_float({self.raw(expression)})"
            case typed.Binary(op="++"):
                return f"_joined({self.value(expression.left)}, {self.value(expression.right)})"
            case typed.Binary():
                left, right = self.value(expression.left), self.value(expression.right)
                kinds = f"{kind_of(expression.left.type)}, {kind_of(expression.right.type)}, {kind_of(expression.type)}"
                return f"_decimal('{expression.op}', {left}, {right}, {kinds})"
            case typed.Negate():
                kind, zero = kind_of(expression.type), decimal_constant(Decimal(0), expression.type)
                return f"_decimal('-', {zero}, {self.value(expression.operand)}, {kind}, {kind}, {kind})"
            case typed.Convert():
                return self.converted(expression)
            case typed.ListLiteral() if expression.type.optional:
                # With a sign in front it is no column, whose type SQLite would convert what it is compared with to.
                return f"+{self.value(expression.items[0])}" if expression.items else NULL
            case typed.ListLiteral():
                items = ", ".join(map(self.value, expression.items))
                return f"_list({', '.join([kind_of(expression.type), *filter(None, [items])])})"
            case typed.Call():
                return self.call(expression)
        raise AssertionError(expression)

    def raw(self, expression: typed.Expression) -> str:
        """Return a number; one that overflows may be a real or infinite."""
        match expression:
            case typed.Binary(op="/" | "%") if expression.type == typed.FLOAT and expression.op == "%":
                return f"_remainder({self.raw(expression.left)}, {self.raw(expression.right)})"
            case typed.Binary(op="/" | "%") if expression.type == typed.INT:
                # SQLite would cast a real to an integer.
                return f"({self.value(expression.left)} {expression.op} {self.value(expression.right)})"
            case typed.Binary():
                left, right = self.raw(expression.left), self.raw(expression.right)
                return f"({left} {expression.op} {right})"
            case typed.Negate() if expression.type == typed.FLOAT:
                return f"(0.0 - {self.raw(expression.operand)})"
            case typed.Negate():
                return f"(- {self.raw(expression.operand)})"
        return self.value(expression)

    def constant(self, constant: typed.Constant) -> str:
        """Return a constant."""
        value, kind = constant.value, constant.type
        if kind.name == "decimal":
            assert isinstance(value, Decimal | int)
            return decimal_constant(Decimal(value), kind)
        if isinstance(value, bool):
            return str(int(value))
        if kind == typed.FLOAT:
            number = float(value)
            return f"{number!r}" if number else "0.0"
        if kind == typed.TIMESTAMP:
            return text_constant(whole_moment(str(value)))
        if isinstance(value, str):
            return text_constant(value)
        if value == -(2**63):
            return "(-9223372036854775807 - 1)"
        return str(value) if value >= 0 else f"({value})"

    def converted(self, conversion: typed.Convert) -> str:
        """Return a converted value."""
        operand, given, kind = self.value(conversion.operand), conversion.operand.type, conversion.type
        if kind == typed.FLOAT and given == typed.INT:
            return f"CAST({operand} AS REAL)"
        if "decimal" in (kind.name, given.name):
            return f"_converted({operand}, {kind_of(given)}, {kind_of(kind)})"
        return operand

    def call(self, call: typed.Call) -> str:
        """Return a call of a function."""
        if call.function == "set_of":
            return self.union(call.arguments[0])
        arguments = [self.value(argument) for argument in call.arguments]
        if call.function == typed.VALUE:
            return f"nullif({arguments[0]}, {NULL})"
        if call.external:
            return f"{quoted('external__' + call.function)}({', '.join(arguments)})"
        kinds = "|".join([*(str(argument.type) for argument in call.arguments), str(call.type)])
        return f"_call({', '.join([text_constant(call.function), text_constant(kinds), *arguments])})"

    def union(self, value: typed.Expression) -> str:
        """Return the union of the parts of a list of text: first items, then lists."""
        parts = value.arguments if isinstance(value, typed.Call) and value.function == "concat" else (value,)
        items = [item for part in parts if isinstance(part, typed.ListLiteral) for item in part.items]
        lists = [part for part in parts if not isinstance(part, typed.ListLiteral)]
        return f"_union({', '.join([str(len(items)), *map(self.value, [*items, *lists])])})"


def decimal_constant(value: Decimal, kind: typed.Type) -> str:
    """Return a decimal as it is stored."""
    units = int(value.scaleb(kind.scale))
    return str(units) if kind.precision <= 18 else text_constant(ordered_digits(units))


def ordered_digits(units: int) -> str:
    """Return a number of at most 38 digits as text whose order is that of the numbers."""
    return f"1{units:038d}" if units >= 0 else f"0{10**38 + units:038d}"


def whole_moment(text: str) -> str:
    """Return a timestamp with all digits of its microseconds."""
    day, _, time = text.partition(" ")
    clock, _, fraction = (time or "00:00:00").partition(".")
    return f"{day} {clock}.{fraction:0<6}"
