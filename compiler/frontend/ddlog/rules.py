"""Translates rules of DDlog: from left to right, since a literal may use what those before it bind.

    Cheapest(item, least) :- Price(item, vendor, price), var least = price.group_by(item).min().

becomes::

    Cheapest_by_item(item, min<price>) :- Price(item, vendor, price).
    Cheapest(item, least) :- Cheapest_by_item(item, least).

The elements of a vector, ``var x = FlatMap(v)``, come from a relation that counts through it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lark import Token, Tree

from ...ir import syntax
from ...ir.syntax_printer import rule_text
from ...naming import unused
from ...source import Span
from ..statement_grammar import Node, child, span_of, tokens_in, trees
from ..syntax_errors import LeftOut
from .arguments import arguments_by_field
from .expressions import Expressions
from .library import in_library
from .numbers import closed
from .scope import RuleScope
from .types import DOUBLE, IntType, ListType, RecordType, Type
from .values import Value, binary, call, number, wrapped
from .world import DeclaredRelation, ModuleFile, World

_COUNT = IntType(64, False)
_REDUCTIONS = {
    "count": ("count", False),
    "size": ("count", False),
    "count_distinct": ("count", True),
    "sum": ("sum", False),
    "min": ("min", False),
    "max": ("max", False),
}
"""The ways to reduce groups: the aggregate of Flintlog, and whether it is over distinct values."""


@dataclass
class Rules:
    """Translates the rules of a program; ``taken`` are the names of its relations."""

    world: World
    taken: set[str]

    def translate(self, tree: Node, module: ModuleFile) -> list[syntax.RuleNode]:
        """Return the rules that a rule stands for: one per head, and those of helper relations before them."""
        return _Rule(self, tree, module).rules()


class _Rule:
    """The translation of one rule."""

    def __init__(self, rules: Rules, tree: Node, module: ModuleFile) -> None:
        self.whole, self.world, self.tree, self.module = rules, rules.world, tree, module
        words = {str(token) for token in tree.scan_values(lambda v: isinstance(v, Token) and v.type == "LOWER")}
        self.scope = RuleScope(self.world, module, words)
        self.expressions = Expressions(self.scope)
        self.source = module.source
        self.span = self.source.span(tree.meta.start_pos, tree.meta.end_pos)
        self.text = self.source.text[tree.meta.start_pos : tree.meta.end_pos]
        self.helpers: list[syntax.RuleNode] = []
        place = next((n for n, part in enumerate(tree.children) if isinstance(part, Token) and part.type == "IF"), None)
        parts = [(n, part) for n, part in enumerate(tree.children) if isinstance(part, Tree)]
        self.heads = [part for n, part in parts if place is None or n < place]
        self.items = [part for n, part in parts if place is not None and n > place]
        first = child(self.heads[0], "qualified")
        assert first is not None
        self.name = str(tokens_in(first, "UPPER")[0])

    def rules(self) -> list[syntax.RuleNode]:
        """Return all rules."""
        for item in self.items:
            self.item(item)
        rules = []
        for head in self.heads:
            before = list(self.scope.literals)
            atom = self.head(head)
            body = tuple(self.scope.literals)
            rules.append(syntax.RuleNode(None, atom, body, self.span, self.text))
            self.scope.literals = before
        return [*self.helpers, *rules]

    def head(self, tree: Node) -> syntax.AtomNode:
        """Return the atom of a head."""
        relation = self.relation(tree)
        values = []
        if tree.data == "whole":
            inner = trees(tree)[1]
            value = closed(self.scope, self.expressions.value(inner, relation.whole), relation.whole, inner)
            if not _same(value.type, relation.whole):
                self.expressions.expect(value, relation.whole, inner)
            values.append(value)
        else:
            arguments = arguments_by_field(self.scope, tree, relation.row)
            for name, type_ in relation.row.fields:
                if name not in arguments:
                    raise self.scope.refuse("E0203", f"the field `{name}` of `{relation.name}` is missing", tree)
                value = self.expressions.value(arguments[name], type_)
                values.append(self.expressions.expect(value, type_, arguments[name]))
        leaves = tuple(leaf for value in values for leaf in value.leaves())
        return syntax.AtomNode(relation.name, leaves, None, None, self.scope.span(tree))

    def relation(self, tree: Node) -> DeclaredRelation:
        """Return the relation of an atom; report E0201 if there is none."""
        name = child(tree, "qualified")
        assert name is not None
        relation = self.world.relation(name, self.module)
        if relation is None:
            token = tokens_in(name, "UPPER")[0]
            if str(token) in self.world.broken:
                raise LeftOut
            raise self.world.refuse("E0201", f"there is no relation `{token}`", span_of(self.source, token))
        return relation

    # ---- literals --------------------------------------------------------------------------------------------------

    def item(self, tree: Node) -> None:
        """Add a literal to the body."""
        match str(tree.data):
            case "atom" | "whole" if not self.is_aggregate(tree):
                self.scope.literals.append(self.atom(tree)[0])
            case "binding":
                atom = trees(tree)[0]
                name = self.scope.new_to_scope(tokens_in(tree, "LOWER")[0])
                literal, value = self.atom(atom, name)
                self.scope.literals.append(literal)
                self.scope.variables[name] = value
            case "negation" if trees(tree)[0].data in ("atom", "whole"):
                bound = dict(self.scope.variables)
                negated, _ = self.atom(trees(tree)[0])
                for name in (name for name in self.scope.variables if name not in bound):
                    help = "bind it before, or write `_`"
                    raise self.scope.refuse("E0403", f"`{name}` is not bound before this negation", tree, help)
                self.scope.literals.append(syntax.NegationNode(negated, self.scope.span(tree)))
            case "assignment":
                self.assignment(tree)
            case "inspect":
                self.world.ignore("`Inspect`, with its expression,", self.scope.span(tree))
            case "call" if self.expressions.is_log(tree):
                self.world.ignore("a call of `log`", self.scope.span(tree))
            case _:
                self.expressions.condition(tree)

    def atom(self, tree: Node, name: str = "") -> tuple[syntax.AtomNode, Value]:
        """Return an atom of the body, and the row that it matches, whose variables are called after ``name``."""
        relation = self.relation(tree)
        span = self.scope.span(tree)
        if tree.data == "whole":
            row = self.pattern(trees(tree)[1], relation.whole)
            row = self.named(row, name) if name else row
        else:
            arguments = arguments_by_field(self.scope, tree, relation.row)
            parts = []
            for field_, type_ in relation.row.fields:
                part = self.pattern(arguments[field_], type_) if field_ in arguments else _wildcard(type_, span)
                called = f"{name}_{field_}" if relation.whole == relation.row else name
                parts.append(self.named(part, called) if name else part)
            row = Value(relation.row, None, tuple(parts)) if relation.whole == relation.row else parts[0]
        return syntax.AtomNode(relation.name, tuple(row.leaves()), None, None, span), row

    def named(self, value: Value, name: str) -> Value:
        """Return a value with variables for its wildcards."""
        if isinstance(value.type, RecordType):
            parts = zip(value.parts, value.type.fields, strict=True)
            return replace(value, parts=tuple(self.named(part, f"{name}_{field_}") for part, (field_, _) in parts))
        if isinstance(value.expression, syntax.WildcardNode):
            return Value(value.type, syntax.VariableNode(self.scope.new(name), value.expression.span))
        return value

    def pattern(self, tree: Node, type_: Type) -> Value:
        """Return the value that a pattern matches, and bind its new variables."""
        span = self.scope.span(tree)
        match str(tree.data):
            case "wildcard":
                return _wildcard(type_, span)
            case "declared":
                word = self.scope.new_to_scope(tokens_in(tree, "LOWER")[0])
                return self.scope.bind(word, self.of_type(tree, type_), span)
            case "ascription":
                return self.pattern(trees(tree)[0], self.of_type(tree, type_))
            case "variable" if str(tree.children[0]) not in self.scope.variables:
                return self.scope.bind(str(tree.children[0]), type_, span)
            case "named_pattern":
                word = self.scope.new_to_scope(tokens_in(tree, "LOWER")[0])
                self.scope.variables[word] = self.named(self.pattern(trees(tree)[0], type_), word)
                return self.scope.variables[word]
            case "tuple" if len(trees(tree)) == 1:
                return self.pattern(trees(tree)[0], type_)
            case "tuple" if isinstance(type_, RecordType) and not type_.constructor:
                inner = trees(tree)
                if len(inner) == len(type_.fields):
                    parts = (self.pattern(p, t) for p, (_, t) in zip(inner, type_.fields, strict=True))
                    return Value(type_, None, tuple(parts))
            case "construction" | "constructor_name" if isinstance(type_, RecordType):
                name = child(tree, "qualified")
                assert name is not None
                record = self.world.constructor(name, self.module)
                if _same(record, type_):
                    arguments = arguments_by_field(self.scope, tree, record)
                    parts = (
                        self.pattern(arguments[field_], kind) if field_ in arguments else _wildcard(kind, span)
                        for field_, kind in record.fields
                    )
                    return Value(type_, None, tuple(parts))
        return self.expressions.expect(self.expressions.value(tree, type_), type_, tree)

    def of_type(self, tree: Node, type_: Type) -> Type:
        """Return the type that a pattern says, by default ``type_``; report E0302 if it is another one."""
        if not (said := self.said(tree)) or _same(said, type_):
            return type_
        if isinstance(said, IntType) and isinstance(type_, IntType) and type_.open:
            return said
        raise self.scope.refuse("E0302", f"this is of type {type_}, but {said} is needed", tree)

    def said(self, tree: Node) -> Type | None:
        """Return the type that a pattern says, None if it does not."""
        if tree.data == "tuple":
            parts = [self.said(part) for part in trees(tree)]
            fields = tuple((str(place), part) for place, part in enumerate(parts) if part)
            return parts[0] if len(parts) == 1 else RecordType("", fields) if len(fields) == len(parts) else None
        typed = tree.data == "ascription" or (tree.data == "declared" and trees(tree))
        return self.world.type(trees(tree)[-1], self.module) if typed else None

    def assignment(self, tree: Node) -> None:
        """Add ``var x = value`` or ``pattern = value`` to the body."""
        left, right = trees(tree)
        span = self.scope.span(tree)
        if right.data == "atom" and self.is_aggregate(right):
            self.old_aggregate(left, right)
            return
        if right.data == "method" and str(tokens_in(right, "LOWER")[0]) in _REDUCTIONS:
            inner = trees(right)[0]
            if inner.data == "method" and tokens_in(inner, "LOWER")[0] == "group_by":
                of, *keys = trees(inner)
                function = tokens_in(right, "LOWER")[0]
                if len(trees(right)) > 1:
                    raise self.scope.refuse("E0786", f"`{function}` of a group takes no arguments", right)
                if len(keys) != 1:
                    help = "write the variables as a tuple, as in `group_by((x, y))`, or `()` for none"
                    raise self.scope.refuse("E0786", "`group_by` takes one argument", inner, help)
                self.aggregate(left, keys[0], of, function, right)
                return
        if left.data == "variable":
            name = str(left.children[0])
            if name in self.scope.variables:
                help = "compare with `==`"
                raise self.scope.refuse("E0781", f"`{name}` cannot be assigned a second time", tree, help)
            raise self.scope.refuse("E0113", "a new variable is declared by `var`", left, f"write `var {name} = ...`")
        said = self.said(left)
        value = self.expressions.value(right, said)
        value = closed(self.scope, value, said, right) if said else value
        expected = self.pattern(left, value.type)
        for one, other in zip(expected.leaves(), value.leaves(), strict=True):
            if not isinstance(one, syntax.WildcardNode):
                self.scope.compare("=", one, other, span)

    def is_aggregate(self, tree: Node) -> bool:
        """Return whether an atom is one of the operators ``FlatMap`` and ``Aggregate``."""
        name = child(tree, "qualified")
        if name is None or tokens_in(tree, "BITAND") or tokens_in(name, "SCOPED"):
            return False
        operator = str(tokens_in(name, "UPPER")[0]) in ("FlatMap", "Aggregate")
        return operator and self.world.relation(name, self.module) is None

    # ---- groups and vectors ----------------------------------------------------------------------------------------

    def old_aggregate(self, left: Node, tree: Node) -> None:
        """Add ``var x = FlatMap(v)`` or ``var x = Aggregate((k), group_sum(v))`` to the body."""
        name = child(tree, "qualified")
        assert name is not None
        arguments = [trees(part)[0] for part in trees(tree) if part.data == "argument"]
        word = str(tokens_in(name, "UPPER")[0])
        if word == "FlatMap" and len(arguments) == 1:
            self.elements(left, arguments[0], tree)
        elif word == "Aggregate" and len(arguments) == 2 and arguments[1].data == "call":
            function = tokens_in(arguments[1], "LOWER")[0]
            reduction = Token.new_borrow_pos("LOWER", str(function).removeprefix("group_"), function)
            values = trees(arguments[1])
            scope = "".join(tokens_in(arguments[1], "SCOPED"))
            if str(reduction) not in _REDUCTIONS or len(values) != 1 or not in_library(scope):
                raise self.unknown(function)
            self.aggregate(left, arguments[0], values[0], reduction, tree)
        else:
            raise self.scope.refuse("E0203", f"`{word}` does not take these arguments", tree)

    def unknown(self, function: Token) -> Exception:
        """Report a reduction that is not supported."""
        help = f"groups are reduced by {', '.join(f'`{name}`' for name in _REDUCTIONS if name != 'size')}"
        return self.scope.refuse("E0786", f"the aggregate `{function}` is not supported", function, help)

    def aggregate(self, left: Node, keys: Node, tree: Node, function: Token, whole: Node) -> None:
        """Let a helper relation reduce the groups of the body so far, which then is an atom of that relation."""
        name, distinct = _REDUCTIONS[str(function)]
        span = self.scope.span(whole)
        value = self.expressions.value(tree)
        leaves = tuple(value.leaves())
        several = len(leaves) != 1
        if several and name != "count":
            help = "apply it to one field"
            raise self.scope.refuse("E0786", f"`{function}` of several values is not supported", tree, help)
        if name == "sum" and not (isinstance(value.type, IntType) or value.type == DOUBLE):
            raise self.scope.refuse("E0786", f"`sum` requires numbers, but these are {value.type}", tree)
        kept: dict[str, Value] = {}
        for key in self.keys(keys):
            kept[str(key.children[0])] = self.expressions.value(key)
        groups = tuple(leaf for key in kept.values() for leaf in key.leaves())
        if several and distinct:
            values = self.helper(f"{self.name}_values")
            self.help(syntax.AtomNode(values, (*groups, *leaves), None, None, span), tuple(self.scope.literals))
            kept = {key: self.kept(of, key) for key, of in kept.items()}
            groups = tuple(leaf for key in kept.values() for leaf in key.leaves())
            self.scope.literals = []
            self.read(values, (*groups, *(syntax.WildcardNode(span) for _ in leaves)), span)
            distinct = False
        argument = leaves[0] if name != "count" or distinct else None
        helper = self.helper(f"{self.name}_by_{'_'.join(kept)}" if kept else f"{self.name}_total")
        aggregate = syntax.AggregateNode(name, argument, distinct, span)
        self.help(syntax.AtomNode(helper, (*groups, aggregate), None, None, span), tuple(self.scope.literals))
        type_ = _COUNT if name == "count" else value.type
        self.scope.literals = []
        self.scope.variables = {key: self.kept(of, key) for key, of in kept.items()}
        groups = tuple(leaf for key in self.scope.variables.values() for leaf in key.leaves())
        if name == "sum" and isinstance(type_, IntType):
            total = syntax.VariableNode(self.scope.new("total"), span)
            result = self.pattern(left, type_)
            self.read(helper, (*groups, total), span)
            (one,) = result.leaves()
            self.scope.compare("=", one, wrapped(total, type_, span), span)
            return
        result = self.pattern(left, type_)
        self.read(helper, (*groups, *result.leaves()), span)

    def kept(self, value: Value, name: str) -> Value:
        """Return a value of which only the variables are known, which keep their names."""
        if isinstance(value.type, RecordType):
            parts = zip(value.parts, value.type.fields, strict=True)
            return replace(value, parts=tuple(self.kept(part, f"{name}_{field_}") for part, (field_, _) in parts))
        assert value.expression is not None
        if isinstance(value.expression, syntax.VariableNode):
            return value
        return Value(value.type, syntax.VariableNode(self.scope.new(name), value.expression.span))

    def keys(self, tree: Node) -> list[Node]:
        """Return the variables that groups are formed by."""
        parts = trees(tree) if tree.data == "tuple" else [tree]
        variables: list[Node] = []
        for part in parts:
            if part.data == "tuple":
                variables += self.keys(part)
            elif part.data == "variable":
                variables.append(part)
            else:
                help = "name the value by `var` first"
                raise self.scope.refuse("E0786", "groups are formed by variables", part, help)
        return variables

    def elements(self, left: Node, tree: Node, whole: Node) -> None:
        """Let a helper relation count through a vector, and read its elements."""
        span = self.scope.span(whole)
        value = self.expressions.value(tree)
        if not isinstance(value.type, ListType):
            raise self.scope.refuse("E0302", f"`FlatMap` takes a vector, but this is {value.type}", tree)
        (items,) = value.leaves()
        if not isinstance(items, syntax.VariableNode):
            name = syntax.VariableNode(self.scope.new("items"), span)
            self.scope.compare("=", name, items, span)
            items = name
        helper = self.helper(f"{self.name}_items")
        place, one = syntax.VariableNode(self.scope.new("place"), span), number(1, span)
        size = call("size", items, span=span)
        filled = syntax.ComparisonNode(">", size, number(0, span), span)
        first = (items, one, call("element_at", items, one, span=span))
        self.help(syntax.AtomNode(helper, first, None, None, span), (*self.scope.literals, filled))
        # One more than the place, written as a remainder: of these there are not more than the vector has elements.
        bound = binary("+", size, one, span)
        following = binary("%", binary("+", place, one, span), bound, span)
        further = (items, following, call("element_at", items, following, span=span))
        body = (
            syntax.AtomNode(helper, (items, place, syntax.WildcardNode(span)), None, None, span),
            syntax.ComparisonNode("<", place, size, span),
        )
        self.help(syntax.AtomNode(helper, further, None, None, span), body)
        element = self.pattern(left, value.type.element)
        self.read(helper, (items, syntax.WildcardNode(span), *element.leaves()), span)

    def helper(self, name: str) -> str:
        """Return the name of a new relation."""
        relation = unused(name, self.whole.taken)
        self.whole.taken.add(relation)
        return relation

    def help(self, head: syntax.AtomNode, body: tuple[syntax.Literal, ...]) -> None:
        """Add a rule of a helper relation."""
        rule = syntax.RuleNode(None, head, body, self.span, "")
        self.helpers.append(replace(rule, text=rule_text(rule)))

    def read(self, relation: str, arguments: tuple[syntax.Expression, ...], span: Span) -> None:
        """Add an atom of a helper relation to the body."""
        self.scope.literals.append(syntax.AtomNode(relation, arguments, None, None, span))


def _wildcard(type_: Type, span: Span) -> Value:
    """Return a value that anything matches."""
    if isinstance(type_, RecordType):
        return Value(type_, None, tuple(_wildcard(inner, span) for _, inner in type_.fields))
    return Value(type_, syntax.WildcardNode(span))


def _same(one: Type, other: Type) -> bool:
    """Return whether two record types have the same constructor and fields, whatever they are called."""
    if not isinstance(one, RecordType) or not isinstance(other, RecordType):
        return one == other
    return (one.constructor, one.fields) == (other.constructor, other.fields)
