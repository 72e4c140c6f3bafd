"""Translates expressions of DDlog, with their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lark import Token, Tree

from ...ir import syntax
from ...naming import counted
from ...source import Span
from ..feeding import Node, child, tokens_in, trees
from ..syntax_errors import LeftOut
from .arguments import arguments_by_field
from .library import LIBRARY
from .numbers import closed, constant, constant_int, has_literal, integer, is_literal, negative_constant
from .operators import combined, converted, joined_bits, masked, negated, shifted, sliced
from .scope import RuleScope
from .strings import EmbeddedExpression, joined, string_parts
from .types import BOOL, STRING, EnumType, IntType, ListType, RecordType, Type
from .values import Value, call
from .world import DeclaredFunction

_COMPARISONS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
#: How deep calls of functions may be nested.
_MOST_CALLS = 50
_COUNT = IntType(64, False)


@dataclass(frozen=True)
class Expressions:
    """Translates the expressions of one rule or fact. What an expression needs besides itself, such as the two cases of
    ``if``, goes to the body of ``scope``."""

    scope: RuleScope

    # ---- conditions ------------------------------------------------------------------------------------------------

    def condition(self, tree: Node, wanted: bool = True) -> None:
        """Add a condition to the body, or its negation."""
        span = self.scope.span(tree)
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
                    one = self.scope.captured(lambda: self.condition(left, wanted))
                    other = self.scope.captured(lambda: self.condition(right, wanted))
                    self.scope.literals.append(syntax.Disjunction((one, other), span))
            case "comparison":
                self._comparison(tree, wanted)
            case _:
                value = self.expect(self.value(tree, BOOL), BOOL, tree)
                truth = syntax.ConstantNode(wanted, "bool", span)
                self.scope.compare("=", next(value.leaves()), truth, span)

    def _comparison(self, tree: Node, wanted: bool) -> None:
        first, token, second = tree.children
        assert isinstance(first, Tree) and isinstance(token, Token) and isinstance(second, Tree)
        op, span = _COMPARISONS[str(token)], self.scope.span(tree)
        op = op if wanted else _OPPOSITE[op]
        left, right = self.alike(first, second)
        pairs = list(zip(left.leaves(), right.leaves(), strict=True))
        if isinstance(left.type, EnumType) and op not in ("=", "!="):
            help = "compare with `==`, or use numbers"
            raise self.scope.refuse("E0784", f"`{token}` of constructors is not supported", tree, help)
        if len(pairs) == 1 or op == "=":
            for one, other in pairs:
                self.scope.compare(op, one, other, span)
        elif op == "!=":
            parts = tuple((syntax.ComparisonNode(op, one, other, span),) for one, other in pairs)
            self.scope.literals.append(syntax.Disjunction(parts, span))
        else:
            help = "compare their fields one by one"
            raise self.scope.refuse("E0784", f"`{token}` of tuples and structures is not supported", tree, help)

    def alike(self, first: Node, second: Node, expected: Type | None = None) -> tuple[Value, Value]:
        """Return two values of one type; number literals take that of the other side."""
        if has_literal(first) and not has_literal(second):
            right = self.value(second, expected)
            left = self.value(first, right.type)
        else:
            left = self.value(first, expected)
            right = self.value(second, left.type)
        left, right = closed(self.scope, left, right.type, first), closed(self.scope, right, left.type, second)
        if left.type != right.type:
            message = f"the values are of types {left.type} and {right.type}"
            help = "convert one of them, as in `x as u32`"
            raise self.scope.refuse("E0305", message, second, help)
        return left, right

    def expect(self, value: Value, type_: Type, tree: Node) -> Value:
        """Return a value of a type; report E0302 if it is of another one."""
        value = closed(self.scope, value, type_, tree)
        if value.type != type_:
            raise self.scope.refuse("E0302", f"this is of type {value.type}, but {type_} is needed", tree)
        return value

    # ---- values ----------------------------------------------------------------------------------------------------

    def value(self, tree: Node, expected: Type | None = None) -> Value:
        """Return a value; ``expected`` is the type of number literals and vectors that do not say theirs."""
        span = self.scope.span(tree)
        match str(tree.data):
            case "constant" if tokens_in(tree, "STRING"):
                return Value(STRING, self._string(tokens_in(tree, "STRING")))
            case "constant":
                return constant(self.scope, tree, expected)
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
                raise self.scope.refuse("E0114", "a variable is declared where a value is needed", tree)
            case "atom" | "whole":
                help = "write fields in braces, as in `Point{1, 2}`"
                raise self.scope.refuse("E0114", "a relation has no value", tree, help)
            case "complement":
                help = "subtract from the greatest value of the type"
                raise self.scope.refuse("E0784", "`~` is not supported", tree, help)
        raise self.scope.refuse("E0114", "this is not a value", tree)

    def _variable(self, tree: Node) -> Value:
        name = str(tree.children[0])
        if name not in self.scope.variables:
            message = f"`{name}` is not bound before this"
            help = "bind it by a positive atom or by `var`, from left to right"
            raise self.scope.refuse("E0403", message, tree, help)
        value = self.scope.variables[name]
        return _placed(value, self.scope.span(tree)) if self.scope.calls == 0 else value

    # ---- operators -------------------------------------------------------------------------------------------------

    def _negative(self, tree: Node, expected: Type | None) -> Value:
        found = negative_constant(self.scope, tree, expected)
        if found is not None:
            return found
        (inner,) = trees(tree)
        return negated(self.scope, self.value(inner, expected), tree)

    def _binary(self, tree: Node, expected: Type | None) -> Value:
        first, token, second = tree.children
        assert isinstance(first, Tree) and isinstance(token, Token) and isinstance(second, Tree)
        if token.type in ("SHIFT_LEFT", "SHIFT_RIGHT"):
            return shifted(self.scope, self.value(first, expected), token, constant_int(second), tree)
        if token.type in ("BITAND", "BAR", "CARET"):
            return masked(self.scope, self.value(first, expected), token, constant_int(second), tree)
        if str(token) == "++" and not has_literal(first) and not has_literal(second):
            bits = joined_bits(self.value(first), self.value(second), self.scope.span(tree))
            if bits is not None:
                return bits
        left, right = self.alike(first, second, expected)
        return combined(self.scope, str(token), left, right, tree)

    def _slice(self, tree: Node) -> Value:
        (inner,) = trees(tree)
        high, low = (integer(str(token)) for token in tokens_in(tree, "INT"))
        return sliced(self.scope, self.value(inner), high, low, tree)

    def _cast(self, tree: Node) -> Value:
        inner, kind = trees(tree)
        type_ = self.scope.world.type(kind, self.scope.module)
        value = self.value(inner, type_ if is_literal(inner) else None)
        if value.type == type_ or next(value.leaves(), None) is None:
            return self.expect(value, type_, tree)
        return converted(self.scope, value, type_, tree)

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
        enumeration = self.scope.world.enumeration(name, self.scope.module)
        if enumeration is not None:
            word = str(tokens_in(name, "UPPER")[0])
            return Value(enumeration, syntax.ConstantNode(word, "string", self.scope.span(tree)))
        record = self.scope.world.constructor(name, self.scope.module)
        given = arguments_by_field(self.scope, tree, record)
        for field_, _ in record.fields:
            if field_ not in given:
                raise self.scope.refuse("E0203", f"the field `{field_}` of `{record.constructor}` is missing", tree)
        parts = []
        for field_, type_ in record.fields:
            parts.append(self.expect(self.value(given[field_], type_), type_, given[field_]))
        return Value(record, None, tuple(parts))

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
            raise self.scope.refuse("E0783", message, tree)
        leaves = tuple(leaf for item in items for leaf in item.leaves())
        return Value(ListType(element), syntax.ListNode(leaves, self.scope.span(tree)))

    def _member(self, tree: Node) -> Value:
        value = self.value(trees(tree)[0])
        name = tokens_in(tree, "LOWER", "INT")[0]
        found = value.field(str(name))
        if found is None:
            raise self.scope.refuse("E0302", f"a value of type {value.type} has no field `{name}`", tree)
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
        span, found = self.scope.span(tree), []

        def case(wanted: bool, value: Callable[[], Value]) -> tuple[syntax.Literal, ...]:
            def work() -> None:
                condition(wanted)
                found.append(value())

            return self.scope.captured(work)

        one = case(True, first)
        other = case(False, lambda: second(found[0].type))
        found = [closed(self.scope, found[0], found[1].type, tree), closed(self.scope, found[1], found[0].type, tree)]
        if found[0].type != found[1].type:
            message = f"the cases are of types {found[0].type} and {found[1].type}"
            raise self.scope.refuse("E0305", message, tree)
        chosen = self.scope.variable("chosen", found[0].type, span)
        alternatives = tuple(
            (
                *literals,
                *(syntax.ComparisonNode("=", v, e, span) for v, e in zip(chosen.leaves(), value.leaves(), strict=True)),
            )
            for literals, value in zip((one, other), found, strict=True)
        )
        self.scope.literals.append(syntax.Disjunction(alternatives, span))
        return chosen

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _call(self, tree: Node, expected: Type | None) -> Value:
        name = tokens_in(tree, "LOWER")[0]
        prefix = "".join(tokens_in(tree, "SCOPED"))
        arguments, span = trees(tree), self.scope.span(tree)
        function = self.scope.world.function(name, prefix, self.scope.module)
        if function is not None:
            return self._called(function, arguments, tree)
        if str(name) in ("min", "max") and len(arguments) == 2:
            left, right = self.alike(arguments[0], arguments[1], expected)
            if isinstance(left.type, RecordType):
                raise self.scope.refuse("E0785", f"`{name}` of tuples and structures is not supported", tree)
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
        if str(name) in LIBRARY and not prefix and len(arguments) == len(LIBRARY[str(name)][1]):
            made, types, result = LIBRARY[str(name)]
            pairs = zip(arguments, types, strict=True)
            values = [self.expect(self.value(argument, type_), type_, argument) for argument, type_ in pairs]
            return Value(result, call(made, *(next(value.leaves()) for value in values), span=span))
        if str(name) in self.scope.world.broken:
            raise LeftOut
        help = "declare it as `extern function`, and give a Python function of that name"
        if str(name) == "group_by":
            help = "write `var x = y.group_by(z).sum()` as a literal of its own"
        raise self.scope.refuse("E0785", f"the function `{name}` is not supported", name, help)

    def _called(self, function: DeclaredFunction, arguments: Sequence[Node], tree: Node) -> Value:
        if len(arguments) != len(function.parameters):
            takes = counted(len(function.parameters), "argument")
            message = f"`{function.name}` takes {takes}, not {len(arguments)}"
            raise self.scope.refuse("E0312", message, tree)
        values = []
        for argument, (_, type_) in zip(arguments, function.parameters, strict=True):
            values.append(self.expect(self.value(argument, type_), type_, argument))
        if function.body is None:
            leaves = [leaf for value in values for leaf in value.leaves()]
            return Value(function.result, call(function.name, *leaves, span=self.scope.span(tree)))
        if self.scope.calls >= _MOST_CALLS:
            raise self.scope.refuse("E0785", f"calls of `{function.name}` are nested too deeply", tree)
        names = [name for name, _ in function.parameters]
        with self.scope.inside(function, dict(zip(names, values, strict=True))):
            return self.expect(self.value(function.body, function.result), function.result, function.body)

    # ---- strings ---------------------------------------------------------------------------------------------------

    def text(self, value: Value, tree: Node) -> syntax.Expression:
        """Return a value as a string."""
        if value.type == STRING:
            return next(value.leaves())
        name = value.type.name if isinstance(value.type, RecordType | EnumType) else ""
        for wanted in (f"{name}2string", "to_string"):
            function = self.scope.world.function(Token("LOWER", wanted), "", self.scope.module) if name else None
            if (
                function is not None
                and function.body is not None
                and [t for _, t in function.parameters] == [value.type]
            ):
                with self.scope.inside(function, {function.parameters[0][0]: value}):
                    return next(self.value(function.body, STRING).leaves())
        if isinstance(value.type, IntType) or value.type == BOOL:
            return call("string", next(value.leaves()), span=self.scope.span(tree))
        help = "join the parts that are strings, integers or truth values"
        raise self.scope.refuse("E0784", f"a value of type {value.type} cannot become a string", tree, help)

    def _string(self, literals: Sequence[Token]) -> syntax.Expression:
        """Return string literals, joined, with the values of the expressions in them."""
        world = self.scope.world
        parts = (part for token in literals for part in string_parts(token, self.scope.module.source, world))
        return joined([self._embedded(part) if isinstance(part, EmbeddedExpression) else part for part in parts])

    def _embedded(self, given: EmbeddedExpression) -> syntax.Expression:
        """Return the value of an expression in a string, as a string."""
        module = self.scope.module
        self.scope.module = replace(module, source=given.source)
        try:
            return self.text(self.value(given.tree), given.tree)
        finally:
            self.scope.module = module


def _placed(value: Value, span: Span) -> Value:
    """Return the value of a variable where it is used."""
    if isinstance(value.expression, syntax.VariableNode):
        return replace(value, expression=replace(value.expression, span=span))
    return value
