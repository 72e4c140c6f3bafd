"""Converts parse trees of NDlog to syntax. Names in lower case are constants; ``+`` may still join strings."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from lark import Token, Tree

from ...diagnostics import Diagnostics
from ...ir import syntax
from ...source import SourceFile, Span
from ..statement_grammar import Node, child, span_of, tokens_in, trees, unescaped
from ..syntax_errors import LeftOut
from .refusals import FUNCTIONS

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_OPERATORS = {"==": "=", "<>": "!="}
_OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class KeyPlace:
    """A column of ``keys(1, 3:str)`` by its position from 1, with the name of its type, empty if there is none."""

    place: int
    type: str
    span: Span


@dataclass(frozen=True)
class Materialized:
    """``materialize(name, lifetime, size, keys(...))``."""

    name: str
    lifetime: str
    size: str
    keys: tuple[KeyPlace, ...]
    name_span: Span
    lifetime_span: Span
    size_span: Span
    span: Span
    text: str


@dataclass(frozen=True)
class Watched:
    """``watch(name)``, or ``watchmod(name, "modifiers")``."""

    name: str
    span: Span


@dataclass(frozen=True)
class Translator:
    """Converts the statements of one file; ``functions`` are those that the program declares itself."""

    source: SourceFile
    diagnostics: Diagnostics
    functions: frozenset[str]

    def statement(self, tree: Node) -> Materialized | Watched | syntax.RuleNode:
        """Return the statement of a tree; report its errors and raise LeftOut if it has any."""
        if tree.data == "materialize":
            return self._materialized(tree)
        if tree.data == "watch":
            name = tokens_in(tree, "NAME")[0]
            return Watched(str(name), span_of(self.source, name))
        return self._clause(tree)

    def _span(self, tree: Node) -> Span:
        return self.source.span(tree.meta.start_pos, tree.meta.end_pos)

    def _text(self, tree: Node) -> str:
        return self.source.text[tree.meta.start_pos : tree.meta.end_pos]

    def _refuse(self, code: str, message: str, span: Span, help: str | None = None) -> LeftOut:
        self.diagnostics.report(code, message, span, help=help)
        return LeftOut()

    # ---- statements ------------------------------------------------------------------------------------------------

    def _materialized(self, tree: Node) -> Materialized:
        name = tokens_in(tree, "NAME")[0]
        lifetime, size = (part for part in trees(tree) if part.data == "limit")
        keys = []
        for part in trees(tree):
            if part.data == "key":
                place, *kind = tokens_in(part, "INT", "NAME")
                keys.append(KeyPlace(_number(place), "".join(kind), self._span(part)))
        return Materialized(
            str(name),
            str(lifetime.children[0]),
            str(size.children[0]),
            tuple(keys),
            span_of(self.source, name),
            self._span(lifetime),
            self._span(size),
            self._span(tree),
            self._text(tree),
        )

    def _clause(self, tree: Node) -> syntax.RuleNode:
        labels = tokens_in(tree, "LABEL")
        head = child(tree, "atom")
        assert head is not None
        literals = child(tree, "literals")
        body: list[syntax.Literal] = []
        for part in trees(literals) if literals is not None else ():
            body += self._literals(part)
        label = str(labels[0]) if labels else None
        return syntax.RuleNode(label, self._atom(head, head=True), tuple(body), self._span(tree), self._text(tree))

    # ---- literals --------------------------------------------------------------------------------------------------

    def _literals(self, tree: Node) -> list[syntax.Literal]:
        """Return the literals of a part of a body; those of a conjunction one by one."""
        match str(tree.data):
            case "group":
                return self._literals(trees(tree)[0])
            case "conjunction":
                return [literal for part in trees(tree) for literal in self._literals(part)]
            case "disjunction":
                parts = [tree]
                while parts[0].data == "disjunction":
                    parts[:1] = trees(parts[0])
                return [syntax.Disjunction(tuple(tuple(self._literals(part)) for part in parts), self._span(tree))]
            case "negation":
                return [self._negation(tree)]
            case "comparison":
                return [self._comparison(tree)]
            case "atom":
                return [self._atom(tree)]
        help = "a literal is an atom, a comparison or an assignment"
        raise self._refuse("E0113", "this is a value, not a literal", self._span(tree), help)

    def _negation(self, tree: Node) -> syntax.Literal:
        operand = trees(tree)[0]
        while operand.data == "group":
            operand = trees(operand)[0]
        if operand.data == "atom":
            return syntax.NegationNode(self._atom(operand), self._span(tree))
        if operand.data == "comparison":
            comparison = self._comparison(operand)
            if comparison.op in _OPPOSITE:
                left, right = comparison.left, comparison.right
                return syntax.ComparisonNode(_OPPOSITE[comparison.op], left, right, self._span(tree))
        help = "negate its parts one by one, with `||` for `&&`"
        raise self._refuse("E0116", "only an atom or a comparison can be negated", self._span(tree), help)

    def _comparison(self, tree: Node) -> syntax.ComparisonNode:
        left, op, right = tree.children
        assert isinstance(left, Tree) and isinstance(op, Token) and isinstance(right, Tree)
        if left.data == "comparison":
            raise self._refuse("E0112", "comparisons cannot be chained", self._span(tree), "write one after the other")
        sign = _OPERATORS.get(str(op), str(op))
        return syntax.ComparisonNode(sign, self._expression(left), self._expression(right), self._span(tree))

    def _atom(self, tree: Node, head: bool = False) -> syntax.AtomNode:
        name = tokens_in(tree, "NAME")[0]
        self._check_function(name)
        location, at = None, child(tree, "constant")
        arguments: list[syntax.Expression] = []
        for place, argument in enumerate(part for part in trees(tree) if part.data == "argument"):
            inner = trees(argument)[0]
            marks = [*tokens_in(argument, "AT"), *(tokens_in(inner, "AT") if inner.data == "aggregate" else ())]
            if marks:
                if location is not None:
                    raise self._refuse("E0120", "an atom has only one location", self._span(argument))
                location = place
            if inner.data == "aggregate":
                if not head:
                    raise self._refuse("E0520", "aggregates are allowed only in heads", self._span(inner))
                arguments.append(self._aggregate(inner))
            else:
                arguments.append(self._expression(inner))
        place_ = None if at is None else self._constant(tokens_in(at)[0], self._span(at), "")
        return syntax.AtomNode(str(name), tuple(arguments), location, place_, self._span(tree))

    # ---- expressions -----------------------------------------------------------------------------------------------

    def _aggregate(self, tree: Node) -> syntax.AggregateNode:
        name = tokens_in(tree, "AGGREGATE")[0]
        values = trees(tree)
        argument = self._expression(values[0]) if values else None
        return syntax.AggregateNode(str(name)[2:].lower(), argument, False, self._span(tree))

    def _expression(self, tree: Node) -> syntax.Expression:
        span = self._span(tree)
        match str(tree.data):
            case "variable":
                return syntax.VariableNode(str(tree.children[0]), span)
            case "wildcard":
                return syntax.WildcardNode(span)
            case "constant":
                token = tree.children[0]
                assert isinstance(token, Token)
                return self._constant(token, span, "")
            case "negative":
                operand = trees(tree)[0]
                token = operand.children[0]
                if operand.data == "constant" and isinstance(token, Token) and token.type in ("INT", "NUMBER"):
                    return self._constant(token, span, "-")
                return syntax.Unary("-", self._expression(operand), span)
            case "binary":
                left, op, right = tree.children
                assert isinstance(left, Tree) and isinstance(right, Tree)
                return syntax.BinaryNode(str(op), self._expression(left), self._expression(right), span)
            case "list":
                return syntax.ListNode(tuple(map(self._expression, trees(tree))), span)
            case "group":
                return self._expression(trees(tree)[0])
            case "atom":
                return self._call(tree)
        help = "write a condition as a separate literal"
        raise self._refuse("E0114", "expected a value, found a condition", span, help)

    def _call(self, tree: Node) -> syntax.Expression:
        name, span = tokens_in(tree, "NAME")[0], self._span(tree)
        self._check_function(name)
        atom = self._atom(tree)
        if atom.location is not None or atom.at is not None:
            help = "write `@` before an argument of an atom"
            raise self._refuse("E0120", "a location specifier is not allowed here", span, help)
        if str(name) in self.functions:
            return syntax.CallNode(str(name), atom.arguments, span)
        one, size = syntax.ConstantNode(1, "int", span), syntax.CallNode("f_size", atom.arguments, span)
        match (str(name), len(atom.arguments)):
            case ("f_empty", 0):
                return syntax.ListNode((), span)
            case ("f_removeLast", 1):
                shorter = syntax.BinaryNode("-", size, one, span)
                return syntax.CallNode("slice", (*atom.arguments, one, shorter), span)
            case ("f_removeFirst", 1):
                two = syntax.ConstantNode(2, "int", span)
                return syntax.CallNode("slice", (*atom.arguments, two, size), span)
        return syntax.CallNode(str(name), atom.arguments, span)

    def _check_function(self, name: Token) -> None:
        """Report (E0756) a function of RapidNet that the language lacks."""
        if str(name) in FUNCTIONS and str(name) not in self.functions:
            span = span_of(self.source, name)
            raise self._refuse("E0756", f"the function `{name}` is not supported", span, FUNCTIONS[str(name)])

    def _constant(self, token: Token, span: Span, sign: str) -> syntax.ConstantNode:
        match token.type:
            case "INT":
                value = int(f"{sign}1") * _number(token)
                if not -(2**63) <= value < 2**63:
                    raise self._refuse("E0307", "this number does not fit a 64-bit int", span)
                return syntax.ConstantNode(value, "int", span)
            case "NUMBER":
                try:
                    number = Decimal(sign + token)
                    fits = abs(float(number)) < float("inf") and (float(number) == 0) == (number == 0)
                except (InvalidOperation, ValueError):
                    fits = False
                if not fits:
                    raise self._refuse("E0307", "this number does not fit a float", span)
                return syntax.ConstantNode(number, "float", span)
            case "STRING":
                return syntax.ConstantNode(unescaped(token[1:-1], _ESCAPES, lambda _, text: text), "string", span)
            case "TRUE" | "FALSE":
                return syntax.ConstantNode(token.type == "TRUE", "bool", span)
        return syntax.ConstantNode(str(token), "string", span)


def _number(token: Token) -> int:
    """Return the value of an integer; of one that is far too long, a number that is too large as well."""
    text = token.rstrip("U").lower()
    if text.startswith("0x"):
        return int(text[:40], 16)
    # As in C, a number that begins with 0 is octal.
    octal = len(text) > 1 and text.startswith("0") and set(text) <= set("01234567")
    return int(text[:40], 8 if octal else 10)
