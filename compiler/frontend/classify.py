"""Converts parse trees to syntax; the context decides what each part of the operator grammar is.

As a literal ``f(X, Y)`` is an atom, ``X`` a nullary atom and ``(a, b)`` a conjunction; elsewhere they are a call, a
variable, and the argument list after a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token, Tree

from ..ir import syntax
from ..source import Span
from .constants import ConstantReader, Node, token_of
from .syntax_errors import BY_POSITION, LeftOut

_MAX_DEPTH = 100
_PATHS = "paths are built with `/`, `|`, `^`, `+`, `*` and `?`, as in `(a / ^b+ | c)(X, Y)`"
_NESTING = ("binary", "prefixed", "repeated", "negation", "group", "comparison", "list", "list_type")
_PATH_OPERATORS = ("STAR", "PLUS", "SLASH", "BAR", "MIDDLE_DOT", "MINUS")


@dataclass(frozen=True)
class Include:
    """``include "file.dl"``."""

    path: str
    span: Span


@dataclass(frozen=True)
class Opening:
    """``process S1 {``, or ``process Switch(n: int) {``; ``name`` is None if it could not be parsed."""

    name: str | None
    parameters: tuple[syntax.ColumnDeclaration, ...]
    span: Span


@dataclass(frozen=True)
class Closing:
    """The brace that ends a process."""


class Classifier(ConstantReader):
    """Converts the parse trees of one file to syntax."""

    def statement(self, tree: Node) -> syntax.Statement | syntax.Instance | Include | Opening | Closing | None:
        """Return the statement of a parse tree; report its errors and return None if it has any."""
        try:
            self._check_depth(tree)
            match str(tree.data):
                case "declaration":
                    return self._declaration(tree)
                case "output":
                    name = _child(tree, "relation_name")
                    return syntax.OutputDirective(_name(name), self._span(name))
                case "typedef":
                    alias, type_ = tree.children[1], tree.children[2]
                    assert isinstance(alias, Token) and isinstance(type_, Tree)
                    return syntax.Typedef(str(alias), self._type(type_), self._span(alias))
                case "domain":
                    return self._domain(tree)
                case "external":
                    return self._external(tree)
                case "process":
                    return self._opening(tree)
                case "closing":
                    return Closing()
                case "instance":
                    return self._instance(tree)
                case "include":
                    path = tree.children[1]
                    assert isinstance(path, Token)
                    return Include(self._string(path), self._span(path))
                case _:
                    return self._clause(tree)
        except LeftOut:
            return None

    def _check_depth(self, tree: Node) -> None:
        """Refuse a tree whose nesting would exceed what recursive passes can follow."""
        waiting: list[tuple[Node, int]] = [(tree, 0)]
        while waiting:
            node, depth = waiting.pop()
            if depth > _MAX_DEPTH:
                if node.data in ("list_type", "type"):
                    raise self._refuse("E0711", f"this type is nested more than {_MAX_DEPTH} lists deep", tree)
                help = "compute a part of it in a separate relation"
                raise self._refuse("E0711", f"this is nested more than {_MAX_DEPTH} operators deep", node, help)
            inside = depth + (node.data in _NESTING)
            waiting += [(child, inside) for child in node.children if isinstance(child, Tree)]

    # ---- declarations ----------------------------------------------------------------------------------------------

    def _declaration(self, tree: Node) -> syntax.RelationDeclaration:
        tokens = [child for child in tree.children if isinstance(child, Token) and child.type == "DECLARE"]
        words = [str(token) for token in tokens]
        name = _child(tree, "relation_name")
        if words[-1] != "relation":
            text = " ".join(words)
            if _name(name) == "relation":
                raise self._refuse("E0110", f"expected a name after `{text} relation`", name)
            raise self._refuse(
                "E0110", f"expected `relation` after `{text}`", tokens[-1], f"write `{text} relation {_name(name)}`"
            )
        for place, token in enumerate(tokens):
            if token in words[:place]:
                raise self._refuse("E0110", f"`{token}` is repeated in this declaration", token)
        if "derived" in words and "input" not in words:
            derived = tokens[words.index("derived")]
            help = "relations are derived unless they are inputs: omit the word, or write `input derived relation`"
            raise self._refuse("E0110", "`derived` is allowed only after `input`", derived, help)
        if "multiset" in words and "input" not in words:
            counted = tokens[words.index("multiset")]
            help = "copies are counted of rows from outside: omit the word, or write `input multiset relation`"
            raise self._refuse("E0110", "`multiset` is allowed only for inputs", counted, help)
        marks = [child for child in tree.children if isinstance(child, Token) and child.type == "SYMMETRIC"]
        if len(marks) > 1:
            raise self._refuse("E0110", "`symmetric` is repeated in this declaration", marks[1])
        columns: list[syntax.ColumnDeclaration] = []
        key: list[syntax.KeyColumn] = []
        at = None
        for child in tree.children:
            if isinstance(child, Tree) and child.data == "columns":
                columns = [self._column(column) for column in child.children if isinstance(column, Tree)]
            elif isinstance(child, Tree) and child.data == "key":
                if key:
                    raise self._refuse("E0110", "a relation has only one primary key", child)
                names = [token for token in child.children if isinstance(token, Token) and token.type == "NAME"]
                key = [syntax.KeyColumn(str(token), self._span(token)) for token in names]
            elif isinstance(child, Tree) and child.data == "at":
                at = self._location(child)
        return syntax.RelationDeclaration(
            name=_name(name),
            columns=tuple(columns),
            is_input="input" in words,
            is_output="output" in words,
            is_derived="derived" in words,
            is_multiset="multiset" in words,
            symmetric=bool(marks),
            key=tuple(key),
            at=at,
            name_span=self._span(name),
            span=self._span(tree),
            text=self._text(tree),
        )

    def _column(self, tree: Node) -> syntax.ColumnDeclaration:
        name, type_ = (child for child in tree.children if not isinstance(child, Token) or child.type == "NAME")
        assert isinstance(name, Token) and isinstance(type_, Tree)
        marks = {child.type for child in tree.children if isinstance(child, Token)}
        return syntax.ColumnDeclaration(
            str(name), self._type(type_), "AT" in marks, self._span(name), optional="QUESTION" in marks
        )

    def _external(self, tree: Node) -> syntax.FunctionDeclaration:
        name = next(child for child in tree.children if isinstance(child, Token) and child.type == "NAME")
        trees = [child for child in tree.children if isinstance(child, Tree)]
        parameters = tuple(self._column(child) for child in trees if child.data == "parameter")
        return syntax.FunctionDeclaration(
            str(name), parameters, self._type(trees[-1]), self._span(name), self._text(tree)
        )

    def _opening(self, tree: Node) -> Opening:
        if not tree.children:
            return Opening(None, (), Span(self.source.name, 1, 1, 1))
        name = tree.children[1]
        assert isinstance(name, Token)
        trees = [child for child in tree.children if isinstance(child, Tree)]
        return Opening(str(name), tuple(map(self._column, trees)), self._span(name))

    def _instance(self, tree: Node) -> syntax.Instance:
        tokens = [child for child in tree.children if isinstance(child, Token) and child.type == "NAME"]
        trees = [child for child in tree.children if isinstance(child, Tree)]
        name, pattern = tokens
        arguments = tuple(self._constant_of(child) for child in trees)
        return syntax.Instance(str(name), str(pattern), arguments, self._span(name), self._span(pattern))

    def _constant_of(self, tree: Node) -> syntax.ConstantNode:
        """Return the constant of a literal, which may have a minus sign."""
        *minus, token = tree.children
        return self._constant(Tree("constant", [token], tree.meta), negative=bool(minus), whole=tree)

    def _type(self, tree: Node) -> syntax.TypeName:
        name, *rest = tree.children
        element, parameters = None, []
        for part in rest:
            if isinstance(part, Tree):
                element = self._type(part)
            elif part.type == "INT":
                parameters.append(int(part[:9]))  # No type has nine digits; int() refuses very long texts.
        return syntax.TypeName(str(name), tuple(parameters), element, self._span(tree))

    def _domain(self, tree: Node) -> syntax.Domain:
        name = _child(tree, "relation_name")
        arguments = tuple(self._expression(argument) for argument in self._group(_child(tree, "group")))
        span = self.source.span(self._bounds(name)[0], self._bounds(_child(tree, "group"))[1])
        variables = [argument for argument in arguments if isinstance(argument, syntax.VariableNode)]
        others = [
            a for a in arguments if not isinstance(a, syntax.VariableNode | syntax.WildcardNode | syntax.ConstantNode)
        ]
        if len(variables) != 1 or others:
            message = "a domain must have exactly one variable, which stands for its nodes"
            self.diagnostics.report("E0121", message, span, help="for example, `domain person(X, _).`")
            raise LeftOut
        return syntax.Domain(syntax.AtomNode(_name(name), arguments, None, None, span), self._span(tree))

    # ---- clauses ---------------------------------------------------------------------------------------------------

    def _clause(self, tree: Node) -> syntax.RuleNode:
        parts = list(tree.children)
        label = str(parts.pop(0)) if isinstance(parts[0], Token) and parts[0].type == "LABEL" else None
        head = self._head(parts[0])
        body: tuple[syntax.Literal, ...] = ()
        bodies = [part for part in parts[1:] if isinstance(part, Tree)]
        if bodies:
            alternatives = self._alternatives(bodies[0])
            body = alternatives[0]
            if len(alternatives) > 1:
                body = (syntax.Disjunction(alternatives, self._span(bodies[0])),)
        return syntax.RuleNode(label, head, body, self._span(tree), self._text(tree))

    def _head(self, node: Node | Token) -> syntax.AtomNode:
        assert isinstance(node, Tree)
        if node.data == "negation":
            raise self._refuse("E0115", "a head cannot be negated", node)
        if node.data in ("application", "located", "relation_name"):
            return self._atom(node, head=True)
        raise self._refuse("E0115", "the head of a rule is an atom such as `p(X, Y)`", node)

    def _alternatives(self, tree: Node) -> tuple[tuple[syntax.Literal, ...], ...]:
        """Return the alternatives of a disjunction; read every literal before refusing, to report all errors."""
        alternatives, refused = [], False
        for items in tree.children:
            if not isinstance(items, Tree):
                continue
            literals = []
            for item in items.children:
                assert isinstance(item, Tree)
                try:
                    literals.append(self._literal(item))
                except LeftOut:
                    refused = True
            alternatives.append(tuple(literals))
        if refused:
            raise LeftOut
        return tuple(alternatives)

    def _literal(self, tree: Node) -> syntax.Literal:
        applied = self._applied_path(tree)
        if applied is not None:
            return self._path_literal(tree, *applied)
        match str(tree.data):
            case "relation_name" | "application" | "located":
                return self._atom(tree, head=False)
            case "negation":
                return self._negation(tree)
            case "comparison":
                return self._comparison(tree)
            case "group":
                if not tree.children:
                    raise self._refuse("E0113", "expected a literal inside the parentheses", tree)
                inner = _child(tree, "alternatives")
                return syntax.Disjunction(self._alternatives(inner), self._span(tree))
            case "aggregate":
                raise self._refuse("E0520", "aggregates are allowed only in heads", tree)
        if tree.data == "binary" and _child(tree).data == "application" and str(tree.children[1]) == "|":
            help = "write `;` between alternatives"
            raise self._refuse("E0122", "`|` joins paths, not literals", tree, help)
        if _is_path(tree):
            raise self._refuse("E0122", "a path must be in parentheses and followed by two arguments", tree, _PATHS)
        help = "a literal is an atom, a negated atom or a comparison"
        raise self._refuse("E0113", "this is a value, not a literal", tree, help)

    def _negation(self, tree: Node) -> syntax.NegationNode:
        operand = tree.children[1]
        assert isinstance(operand, Tree)
        literal = self._literal(operand)
        while isinstance(literal, syntax.Disjunction) and len(literal.alternatives) == 1:
            if len(literal.alternatives[0]) != 1:
                break
            literal = literal.alternatives[0][0]
        if isinstance(literal, syntax.AtomNode | syntax.PathLiteral):
            return syntax.NegationNode(literal, self._span(tree))
        help = None
        if isinstance(literal, syntax.ComparisonNode):
            opposite = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}.get(literal.op)
            help = f"write `{opposite}` instead of `{literal.op}`" if opposite else None
        elif isinstance(literal, syntax.Disjunction):
            help = "define a relation for the negated part"
        raise self._refuse("E0116", "only an atom can be negated", tree, help)

    def _comparison(self, tree: Node) -> syntax.ComparisonNode:
        left, op, right = tree.children
        assert isinstance(left, Tree) and isinstance(right, Tree)
        if left.data == "comparison":
            middle = left.children[2]
            help = f"write `{self._text(left)}, {self._text(middle)} {op} {self._text(right)}`"
            raise self._refuse("E0112", "comparisons cannot be chained", tree, help)
        return syntax.ComparisonNode(str(op), self._expression(left), self._expression(right), self._span(tree))

    # ---- atoms -----------------------------------------------------------------------------------------------------

    def _atom(self, tree: Node, *, head: bool) -> syntax.AtomNode:
        span = self._span(tree)
        base = tree if tree.data == "relation_name" else tree.children[0]
        assert isinstance(base, Tree)
        if base.data == "constant" or (base.data == "relation_name" and _name(base) == "_"):
            raise self._refuse("E0115" if head else "E0113", "expected the name of a relation", base)
        if tree.data == "relation_name":
            return syntax.AtomNode(_name(tree), (), None, None, span)
        rest = tree.children[1]
        assert isinstance(rest, Tree)
        if tree.data == "located":
            if base.data != "relation_name":
                help = "mark the argument that is the location, as in `p(@S, X)`"
                raise self._refuse("E0120", "only a relation without columns is located this way", rest, help)
            return syntax.AtomNode(_name(base), (), None, self._location(rest), span)
        if base.data != "relation_name":
            raise self._refuse("E0115", "a path cannot be the head of a rule", tree)
        location = None
        arguments: list[syntax.Expression] = []
        for place, argument in enumerate(self._group(rest)):
            if argument.data == "prefixed" and token_of(argument).type == "AT":
                if location is not None:
                    raise self._refuse("E0120", "an atom has only one location", argument)
                location = place
                inner = argument.children[1]
                assert isinstance(inner, Tree)
                argument = inner
            if head and argument.data == "aggregate":
                arguments.append(self._aggregate(argument))
            else:
                arguments.append(self._expression(argument))
        return syntax.AtomNode(_name(base), tuple(arguments), location, None, span)

    def _group(self, tree: Node) -> list[Node]:
        """Return the arguments inside parentheses."""
        if not tree.children:
            return []
        alternatives = _child(tree, "alternatives").children
        if len(alternatives) > 1:
            raise self._refuse("E0114", "arguments are separated by commas, not by `;`", tree)
        items = alternatives[0]
        assert isinstance(items, Tree)
        return [item for item in items.children if isinstance(item, Tree)]

    def _location(self, tree: Node) -> syntax.ConstantNode:
        """Return the constant of ``@constant``."""
        value = self._expression(_child(tree))
        if isinstance(value, syntax.ConstantNode) and value.kind != "null":
            return value
        help = "write the location as an argument, as in `p(@S)`"
        raise self._refuse("E0120", "the location of a relation without columns is a constant", tree, help)

    # ---- paths -----------------------------------------------------------------------------------------------------

    def _applied_path(self, tree: Node) -> tuple[syntax.Path, Node] | None:
        """Return the path and the arguments of a literal such as ``e+(X, Y)``, ``^e(X, Y)`` or ``(a / b)(X, Y)``."""
        if tree.data == "application":
            base, arguments = tree.children
            assert isinstance(base, Tree) and isinstance(arguments, Tree)
            return (self._path(base), arguments) if base.data in ("group", "repeated", "prefixed") else None
        if tree.data == "prefixed" and token_of(tree).type == "CARET":
            inner = tree.children[1]
            assert isinstance(inner, Tree)
            if inner.data == "application":
                base, arguments = inner.children
                assert isinstance(base, Tree) and isinstance(arguments, Tree)
                return syntax.PathInverse(self._path(base), self._span(tree)), arguments
        if tree.data == "binary":
            left, operator, arguments = tree.children
            assert isinstance(left, Tree) and isinstance(operator, Token) and isinstance(arguments, Tree)
            path = left.data in ("relation_name", "group", "repeated", "prefixed")
            if path and operator.type in ("PLUS", "STAR", "MINUS") and arguments.data == "group":
                return self._repeated(self._path(left), operator, tree), arguments
        return None

    def _path_literal(self, tree: Node, path: syntax.Path, group: Node) -> syntax.PathLiteral:
        arguments = self._group(group)
        if len(arguments) != 2:
            raise self._refuse("E0122", "a path has two arguments, its start and its end", group)
        for argument in arguments:
            if argument.data == "prefixed" and token_of(argument).type == "AT":
                help = "omit the `@`: the relations of the path determine the locations"
                raise self._refuse("E0120", "a path literal cannot have a location specifier", argument, help)
        left, right = (self._expression(argument) for argument in arguments)
        return syntax.PathLiteral(path, left, right, self._span(tree))

    def _path(self, tree: Node) -> syntax.Path:
        """Return the path of a tree inside parentheses or before a postfix operator."""
        span = self._span(tree)
        match str(tree.data):
            case "relation_name":
                return syntax.PathStep(_name(tree), span)
            case "group":
                items = self._group(tree)
                if len(items) != 1:
                    raise self._refuse("E0122", "a path in parentheses has one expression", tree, _PATHS)
                return self._path(items[0])
            case "prefixed" if token_of(tree).type == "CARET":
                inner = tree.children[1]
                assert isinstance(inner, Tree)
                return syntax.PathInverse(self._path(inner), span)
            case "repeated":
                inner, operator = tree.children
                assert isinstance(inner, Tree) and isinstance(operator, Token)
                return self._repeated(self._path(inner), operator, tree)
            case "binary":
                left, operator, right = tree.children
                assert isinstance(left, Tree) and isinstance(operator, Token) and isinstance(right, Tree)
                if operator.type in ("SLASH", "MIDDLE_DOT"):
                    return syntax.PathSequence((self._path(left), self._path(right)), span)
                if operator.type in ("BAR", "PLUS"):
                    return syntax.PathChoice((self._path(left), self._path(right)), span)
                raise self._refuse("E0122", f"`{operator}` does not join two paths", operator, _PATHS)
        raise self._refuse("E0122", "this is not a path", tree, _PATHS)

    def _repeated(self, path: syntax.Path, operator: Token, tree: Node) -> syntax.Path:
        """Return ``path`` with a postfix operator: ``+``, ``*``, ``?``, ``-`` for the inverse, or ``++`` for ``+``."""
        span = self._span(tree)
        if operator == "-":
            return syntax.PathInverse(path, span)
        return syntax.PathRepeat(path, operator[0], span)

    # ---- expressions -----------------------------------------------------------------------------------------------

    def _aggregate(self, tree: Node) -> syntax.AggregateNode:
        opening = tree.children[0]
        assert isinstance(opening, Token)
        function = str(opening).lower().removeprefix("a_")
        argument = None
        number = tree.children[1]
        if isinstance(number, Token) and number.type == "LIMIT":
            return self._first(tree, function, number)
        if isinstance(tree.children[-2], Tree):
            inner = tree.children[-2]
            if inner.data == "aggregate":
                raise self._refuse("E0521", "an aggregate cannot contain another one", inner)
            argument = self._expression(inner)
        distinct = any(isinstance(child, Token) and child.type == "DISTINCT" for child in tree.children)
        return syntax.AggregateNode(function, argument, distinct, self._span(tree))

    def _first(self, tree: Node, function: str, number: Token) -> syntax.AggregateNode:
        """Return ``first<3 by S desc, T>``."""
        limit = int(number[:20]) if number.isdecimal() else 0
        if not 0 < limit < 2**63:
            help = "write how many, at least 1, as in `first<3 by S desc>`"
            raise self._refuse("E0526", "the number of `first` is a positive integer constant", number, help)
        order = []
        for part in (child for child in tree.children if isinstance(child, Tree)):
            inner = part.children[0]
            assert isinstance(inner, Tree)
            if inner.data == "aggregate":
                raise self._refuse("E0521", "an aggregate cannot contain another one", inner)
            last = part.children[-1]
            descending = isinstance(last, Token) and last.type == "DESC"
            order.append(syntax.OrderNode(self._expression(inner), descending))
        return syntax.AggregateNode(function, None, False, self._span(tree), limit, tuple(order))

    def _expression(self, tree: Node) -> syntax.Expression:
        span = self._span(tree)
        match str(tree.data):
            case "relation_name":
                name = _name(tree)
                if name == "_":
                    return syntax.WildcardNode(span)
                if name == "null":
                    return syntax.ConstantNode(name, name, span)
                if "." in name:
                    raise self._refuse("E0114", f"`{name}` names a relation and has no value", tree)
                return syntax.VariableNode(name, span)
            case "constant":
                return self._constant(tree, negative=False, whole=tree)
            case "prefixed":
                return self._prefixed(tree)
            case "binary":
                left, op, right = tree.children
                assert isinstance(left, Tree) and isinstance(right, Tree) and isinstance(op, Token)
                if op.type in ("BAR", "MIDDLE_DOT"):
                    raise self._refuse("E0114", f"`{op}` is not an operator on values", op)
                return syntax.BinaryNode(str(op), self._expression(left), self._expression(right), span)
            case "application":
                base, group = tree.children
                assert isinstance(base, Tree) and isinstance(group, Tree)
                if base.data != "relation_name":
                    raise self._refuse("E0114", "expected an operator before this parenthesis", group)
                arguments = tuple(self._expression(argument) for argument in self._group(group))
                return syntax.CallNode(_name(base), arguments, span)
            case "list":
                items = _child(tree).children if tree.children else []
                return syntax.ListNode(tuple(self._expression(item) for item in items if isinstance(item, Tree)), span)
            case "group":
                items_ = self._group(tree)
                if len(items_) != 1:
                    raise self._refuse("E0114", "expected one value inside these parentheses", tree)
                return self._expression(items_[0])
            case "aggregate":
                raise self._refuse("E0520", "an aggregate is allowed only as an argument of a head", tree)
            case "comparison" | "negation":
                left, op = tree.children[:2]
                named = isinstance(left, Tree) and left.data == "relation_name" and str(op) in ("=", ":=")
                help = f"{BY_POSITION}; " * named + "write a condition as a separate literal"
                raise self._refuse("E0114", "expected a value, found a comparison or a negation", tree, help)
            case "repeated":
                operator = tree.children[1]
                assert isinstance(operator, Token)
                raise self._refuse("E0101", f"expected an expression after `{operator}`", operator)
            case "located":
                raise self._refuse("E0120", "`@` must come before the argument that holds the location", tree)
        raise self._refuse("E0114", "this is not an expression", tree)

    def _prefixed(self, tree: Node) -> syntax.Expression:
        operator, operand = token_of(tree), tree.children[1]
        assert isinstance(operand, Tree)
        if operator.type == "AT":
            help = "write `@` before an argument of an atom"
            raise self._refuse("E0120", "a location specifier is not allowed here", tree, help)
        if operator.type == "CARET":
            raise self._refuse("E0114", "`^` is not an operator on values", operator)
        if operand.data == "constant" and token_of(operand).type in ("INT", "NUMBER"):
            return self._constant(operand, negative=True, whole=tree)
        return syntax.Unary("-", self._expression(operand), self._span(tree))


def _child(tree: Node, data: str | None = None) -> Node:
    """Return the first child that is a tree, of kind ``data`` if that is given."""
    for child in tree.children:
        if isinstance(child, Tree) and data in (None, child.data):
            return child
    raise AssertionError(tree)


def _name(tree: Node) -> str:
    return str(token_of(tree))


def _is_path(tree: Node) -> bool:
    """Return whether a tree in literal position looks like a path: ``e*(X, Y)``, ``a | b(X, Y)``, ``a / b(X, Y)``."""
    if tree.data == "repeated":
        return True
    if tree.data == "prefixed" and token_of(tree).type == "CARET":
        return True
    if tree.data != "binary":
        return False
    operator, right = tree.children[1], tree.children[2]
    assert isinstance(operator, Token) and isinstance(right, Tree)
    if operator.type in ("BAR", "MIDDLE_DOT"):
        return True
    return operator.type in _PATH_OPERATORS and right.data in ("group", "application")
