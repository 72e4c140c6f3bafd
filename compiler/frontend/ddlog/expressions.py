"""Translates expressions of DDlog, with their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lark import Token, Tree

from ...ir import syntax
from ...naming import counted
from ...source import Span
from ..statement_grammar import Node, child, tokens_in, trees
from ..syntax_errors import LeftOut
from .arguments import arguments_by_field
from .library import IDENTITIES, LIBRARY, in_library
from .numbers import closed, constant, constant_int, has_literal, is_literal, negative_constant
from .operators import combined, converted, joined_bits, masked, negated, shifted, sliced
from .scope import RuleScope
from .strings import EmbeddedExpression, joined, string_parts
from .tokens import integer
from .types import BOOL, STRING, EnumType, IntType, ListType, RecordType, Type, is_open
from .values import Value, call
from .world import DeclaredFunction

_COMPARISONS = {"==": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_COUNT = IntType(64, False)


@dataclass(frozen=True)
class Expressions:
    """Translates the expressions of one rule or fact. What an expression needs besides itself, such as the two cases of
    ``if``, goes to the body of ``scope``."""

    scope: RuleScope

    # ---- conditions ------------------------------------------------------------------------------------------------

    def condition(self, tree: Node, wanted: bool = True) -> None:
        """Add a condition to the body, or its negation."""
        with self.scope.deeper(tree):
            self._condition(tree, wanted)

    def _condition(self, tree: Node, wanted: bool) -> None:
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
            case "call" | "method" if functions := self._functions(tree):
                function, values = self._matching(functions, tree)
                if function.body is not None and function.result == BOOL:
                    with self.scope.inside(function, values, tree):
                        self.condition(function.body, wanted)
                else:
                    self._holds(self._called(function, values, tree), wanted, tree)
            case _:
                self._holds(self.value(tree, BOOL), wanted, tree)

    def _holds(self, value: Value, wanted: bool, tree: Node) -> None:
        """Add to the body that a value is true, or that it is false."""
        span = self.scope.span(tree)
        truth = syntax.ConstantNode(wanted, "bool", span)
        self.scope.compare("=", next(self.expect(value, BOOL, tree).leaves()), truth, span)

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
        elif op == "!=" and not pairs:
            never = syntax.ConstantNode(False, "bool", span)
            self.scope.compare("=", never, replace(never, value=True), span)
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
        return self.of_one_type(left, right, first, second)

    def of_one_type(self, left: Value, right: Value, first: Node, second: Node) -> tuple[Value, Value]:
        """Return two values; report E0305 if they are not of one type."""
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
        with self.scope.deeper(tree):
            return self._value(tree, expected)

    def _value(self, tree: Node, expected: Type | None) -> Value:
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
            case "ascription":
                inner, kind = trees(tree)
                type_ = self.scope.world.type(kind, self.scope.module)
                return self.expect(self.value(inner, type_), type_, tree)
            case "slice":
                return self._slice(tree)
            case "negative":
                return self._negative(tree, expected)
            case "binary":
                return self._binary(tree, expected)
            case "choice":
                condition, first, second = trees(tree)
                return self._choice(
                    self._decision(condition),
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
        return _placed(value, self.scope.span(tree)) if not self.scope.inner else value

    # ---- operators -------------------------------------------------------------------------------------------------

    def _negative(self, tree: Node, expected: Type | None) -> Value:
        value = negative_constant(self.scope, tree, expected)
        if value is not None:
            return value
        (inner,) = trees(tree)
        return negated(self.scope, self.value(inner, expected), tree)

    def _binary(self, tree: Node, expected: Type | None) -> Value:
        first, token, second = tree.children
        assert isinstance(first, Tree) and isinstance(token, Token) and isinstance(second, Tree)
        if token.type in ("SHIFT_LEFT", "SHIFT_RIGHT"):
            return shifted(self.scope, self.value(first, expected), token, constant_int(second), tree)
        if token.type in ("BITAND", "BAR", "CARET"):
            return masked(self.scope, self.value(first, expected), token, constant_int(second), tree)
        if str(token) == "++" and not has_literal(first):
            left = self.value(first)
            right = self.value(second, left.type if isinstance(left.type, ListType) else None)
            bits = joined_bits(left, right, self.scope.span(tree))
            if bits is not None:
                return bits
            if left.type == STRING:
                right = Value(STRING, self.text(right, second))
            left, right = self.of_one_type(left, right, first, second)
        else:
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
        fields = [type_ for _, type_ in expected.fields] if isinstance(expected, RecordType) else []
        types = fields if len(fields) == len(inner) else [None] * len(inner)
        parts = tuple(self.value(part, type_) for part, type_ in zip(inner, types, strict=True))
        return Value(RecordType("", tuple((str(n), part.type) for n, part in enumerate(parts))), None, parts)

    def _construction(self, tree: Node) -> Value:
        name = child(tree, "qualified")
        assert name is not None
        enumeration = self.scope.world.enumeration(name, self.scope.module)
        if enumeration is not None:
            word = str(tokens_in(name, "UPPER")[0])
            arguments_by_field(self.scope, tree, RecordType(word, ()))
            return Value(enumeration, syntax.ConstantNode(word, "string", self.scope.span(tree)))
        record = self.scope.world.constructor(name, self.scope.module)
        arguments = arguments_by_field(self.scope, tree, record)
        for field_, _ in record.fields:
            if field_ not in arguments:
                raise self.scope.refuse("E0203", f"the field `{field_}` of `{record.constructor}` is missing", tree)
        parts = []
        for field_, type_ in record.fields:
            parts.append(self.expect(self.value(arguments[field_], type_), type_, arguments[field_]))
        return Value(record, None, tuple(parts))

    def _vector(self, tree: Node, expected: Type | None) -> Value:
        expected_element = expected.element if isinstance(expected, ListType) else None
        element = None if expected_element is None or is_open(expected_element) else expected_element
        values = []
        for part in trees(tree):
            values.append(self.value(part, element))
            if element is None and not is_open(values[-1].type):
                element = values[-1].type
        element = element or expected_element or next((value.type for value in values), None)
        if element is None or isinstance(element, RecordType):
            message = (
                "the type of this vector is unknown" if element is None else "vectors of records are not supported"
            )
            raise self.scope.refuse("E0783", message, tree)
        items = [self.expect(value, element, part) for value, part in zip(values, trees(tree), strict=True)]
        leaves = tuple(leaf for item in items for leaf in item.leaves())
        return Value(ListType(element), syntax.ListNode(leaves, self.scope.span(tree)))

    def _member(self, tree: Node) -> Value:
        value = self.value(trees(tree)[0])
        name = tokens_in(tree, "LOWER", "INT")[0]
        member = value.field(str(name))
        if member is None:
            raise self.scope.refuse("E0302", f"a value of type {value.type} has no field `{name}`", tree)
        return member

    # ---- choices ---------------------------------------------------------------------------------------------------

    def _decision(self, tree: Node) -> Callable[[bool], object]:
        """Return what adds a condition to the body, or its negation; a value is computed once for both."""
        while tree.data == "tuple" and len(trees(tree)) == 1:
            (tree,) = trees(tree)
        if tree.data in ("comparison", "conjunction", "disjunction", "negation"):
            return lambda wanted: self.condition(tree, wanted)
        value = self.value(tree, BOOL)
        return lambda wanted: self._holds(value, wanted, tree)

    def _choice(
        self,
        condition: Callable[[bool], object],
        first: Callable[[], Value],
        second: Callable[[Type], Value],
        tree: Node,
    ) -> Value:
        """Return variables for one of two values; the body says which one."""
        span, values = self.scope.span(tree), []

        def case(wanted: bool, value: Callable[[], Value]) -> tuple[syntax.Literal, ...]:
            def work() -> None:
                condition(wanted)
                values.append(value())

            return self.scope.captured(work)

        one = case(True, first)
        other = case(False, lambda: second(values[0].type))
        values = [
            closed(self.scope, values[0], values[1].type, tree),
            closed(self.scope, values[1], values[0].type, tree),
        ]
        if values[0].type != values[1].type:
            message = f"the cases are of types {values[0].type} and {values[1].type}"
            raise self.scope.refuse("E0305", message, tree)
        chosen = self.scope.variable("chosen", values[0].type, span)
        alternatives = tuple(
            (
                *literals,
                *(syntax.ComparisonNode("=", v, e, span) for v, e in zip(chosen.leaves(), value.leaves(), strict=True)),
            )
            for literals, value in zip((one, other), values, strict=True)
        )
        self.scope.literals.append(syntax.Disjunction(alternatives, span))
        return chosen

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _call(self, tree: Node, expected: Type | None) -> Value:
        name = tokens_in(tree, "LOWER")[0]
        prefix = "".join(tokens_in(tree, "SCOPED"))
        arguments, span = trees(tree), self.scope.span(tree)
        if functions := self._functions(tree):
            return self._called(*self._matching(functions, tree), tree)
        if str(name) in self.scope.world.broken:
            raise LeftOut
        if not in_library(prefix):
            raise self.scope.refuse("E0785", f"there is no function `{prefix}{name}`", name)
        if str(name) in IDENTITIES and len(arguments) == 1:
            return self.value(arguments[0], expected)
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
                item = self.value(arguments[1], element)
                if is_open(element) and not is_open(item.type):
                    value = self.expect(value, ListType(item.type), arguments[0])
                else:
                    item = self.expect(item, element, arguments[1])
                return Value(BOOL, call("array_contains", *value.leaves(), *item.leaves(), span=span))
        library_name = f"string_{name.removeprefix('istring_')}" if name.startswith("istring_") else str(name)
        function, types, result = LIBRARY.get(library_name, ("", (), STRING))
        if function and len(arguments) == len(types):
            pairs = zip(arguments, types, strict=True)
            values = [self.expect(self.value(argument, type_), type_, argument) for argument, type_ in pairs]
            return Value(result, call(function, *(next(value.leaves()) for value in values), span=span))
        help = "declare it as `extern function`, and give a Python function of that name"
        if str(name) == "group_by":
            help = "write `var x = y.group_by(z).sum()` as a literal of its own"
        raise self.scope.refuse("E0785", f"the function `{name}` is not supported", name, help)

    def _functions(self, tree: Node) -> list[DeclaredFunction]:
        """Return the functions of the program that a call may mean."""
        name, prefix = str(tokens_in(tree, "LOWER")[0]), "".join(tokens_in(tree, "SCOPED"))
        return self.scope.world.functions_of(name, prefix, self.scope.module)

    def is_log(self, tree: Node) -> bool:
        """Return whether a call is one of the library's ``log``, which is true and has no effect on rows."""
        named_log = tokens_in(tree, "LOWER")[0] == "log" and "".join(tokens_in(tree, "SCOPED")) in ("", "log::")
        return named_log and len(trees(tree)) == 3 and not self._functions(tree)

    def _matching(self, functions: Sequence[DeclaredFunction], tree: Node) -> tuple[DeclaredFunction, list[Value]]:
        """Return which of the ``functions``, which have the same name, a call means, and the arguments."""
        arguments, name = trees(tree), functions[0].name
        fitting = [function for function in functions if len(function.parameters) == len(arguments)]
        if len(fitting) > 1:
            fitting = self._chosen(fitting, arguments)
        if len(fitting) != 1 and len(functions) == 1:
            takes = counted(len(functions[0].parameters), "argument")
            raise self.scope.refuse("E0312", f"`{name}` takes {takes}, not {len(arguments)}", tree)
        if len(fitting) != 1:
            which = "more than one function" if fitting else "no function"
            raise self.scope.refuse("E0312", f"{which} called `{name}` takes these arguments", tree)
        values = []
        for argument, (_, type_) in zip(arguments, fitting[0].parameters, strict=True):
            values.append(self.expect(self.value(argument, type_), type_, argument))
        return fitting[0], values

    def _called(self, function: DeclaredFunction, values: Sequence[Value], tree: Node) -> Value:
        """Return the value of a call of a function."""
        if function.body is None:
            leaves = [leaf for value in values for leaf in value.leaves()]
            return Value(function.result, call(function.name, *leaves, span=self.scope.span(tree)))
        with self.scope.inside(function, values, tree):
            return self.expect(self.value(function.body, function.result), function.result, function.body)

    def _chosen(self, functions: Sequence[DeclaredFunction], arguments: Sequence[Node]) -> list[DeclaredFunction]:
        """Return those of several functions whose parameters are of the types of the arguments."""
        types: list[Type] = []
        self.scope.captured(lambda: types.extend(self.value(argument).type for argument in arguments))

        def takes(function: DeclaredFunction) -> bool:
            pairs = zip(types, (type_ for _, type_ in function.parameters), strict=True)
            return all(
                one == other or (isinstance(one, IntType) and one.open and isinstance(other, IntType))
                for one, other in pairs
            )

        return [function for function in functions if takes(function)]

    # ---- strings ---------------------------------------------------------------------------------------------------

    def text(self, value: Value, tree: Node) -> syntax.Expression:
        """Return a value as a string."""
        if value.type == STRING:
            return next(value.leaves())
        name = value.type.name if isinstance(value.type, RecordType | EnumType) else ""
        for converter in (f"{name}2string", "to_string") if name else ():
            for function in self.scope.world.functions_of(converter, "", self.scope.module):
                if function.body is not None and [t for _, t in function.parameters] == [value.type]:
                    with self.scope.inside(function, [value], tree):
                        return next(self.expect(self.value(function.body, STRING), STRING, function.body).leaves())
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
