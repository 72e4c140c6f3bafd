"""The scope of a rule of DDlog that is being translated: its variables, and its body so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lark import Token

from ...ir import syntax
from ...naming import unused
from ...source import Span
from ..statement_grammar import Node, span_of
from ..syntax_errors import LeftOut
from .types import RecordType, Type
from .values import Value
from .world import DeclaredFunction, ModuleFile, World

_MOST_CALLS, _DEEPEST_CALL = 2000, 50
"""How many calls of functions a rule may have, those in functions counted each time, and how deep they may be
nested."""

_DEEPEST = 100
"""How deep expressions may be nested, with those of the functions that they call."""

_SHORT = 100
"""How many constants, variables and operators an argument of a function may have that is used as it is."""


@dataclass
class RuleScope:
    """The scope of one rule or fact of a module.

    ``variables`` are those in scope, and ``taken`` the names that new ones must not have. ``literals`` is the body so
    far. ``inner`` are the functions whose calls the translation is in; ``module`` is that of the innermost. ``calls``
    counts all calls, and ``depth`` the expressions around the one that is being translated.
    """

    world: World
    module: ModuleFile
    taken: set[str]
    variables: dict[str, Value] = field(default_factory=dict)
    literals: list[syntax.Literal] = field(default_factory=list)
    inner: list[DeclaredFunction] = field(default_factory=list)
    calls: int = 0
    depth: int = 0

    def span(self, tree: Node) -> Span:
        """Return the span of a tree."""
        return self.module.source.span(tree.meta.start_pos, tree.meta.end_pos)

    def refuse(self, code: str, message: str, tree: Node | Token, help: str | None = None) -> LeftOut:
        """Report an error at a tree and return the exception to raise."""
        span = span_of(self.module.source, tree) if isinstance(tree, Token) else self.span(tree)
        return self.world.refuse(code, message, span, help)

    @contextmanager
    def deeper(self, tree: Node) -> Iterator[None]:
        """Count an expression that is being translated. Report E0711 if too many others are around it."""
        if self.depth >= _DEEPEST:
            message = f"this is nested more than {_DEEPEST} expressions deep"
            raise self.refuse("E0711", message, tree, "compute a part of it in a separate relation")
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def new(self, name: str) -> str:
        """Return a name of a variable that is not in use."""
        variable = unused("null_" if name == "null" else name, self.taken)
        self.taken.add(variable)
        return variable

    def variable(self, name: str, type_: Type, span: Span, known: bool = False) -> Value:
        """Return a value that consists of new variables; with ``known``, the name is that of the source."""
        if isinstance(type_, RecordType):
            parts = tuple(self.variable(f"{name}_{part}", inner, span) for part, inner in type_.fields)
            return Value(type_, None, parts)
        own_name = name if known and name != "null" else self.new(name)
        return Value(type_, syntax.VariableNode(own_name, span))

    def bind(self, name: str, type_: Type, span: Span) -> Value:
        """Bring a variable into scope."""
        # A variable of the source keeps its name, unless a function that is called has one of that name, too.
        self.variables[name] = self.variable(name, type_, span, known=not self.inner)
        return self.variables[name]

    def new_to_scope(self, name: Token) -> str:
        """Return the name of a variable that is declared; report E0788 if it is in scope already."""
        if str(name) in self.variables:
            help = "choose another name, or compare with `==`"
            raise self.refuse("E0788", f"the variable `{name}` is declared a second time", name, help)
        return str(name)

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

    @contextmanager
    def inside(self, function: DeclaredFunction, values: Sequence[Value], tree: Node) -> Iterator[None]:
        """Have only the parameters of a function in scope, with the ``values`` that the call ``tree`` gives them.
        Report E0785 if the function calls itself, or if a rule has too many calls."""
        if any(function is other for other in self.inner):
            help = "write rules: a relation may be recursive"
            raise self.refuse("E0785", f"`{function.name}` calls itself, which is not supported", tree, help)
        self.calls += 1
        if self.calls > _MOST_CALLS or len(self.inner) >= _DEEPEST_CALL:
            how = "too many" if self.calls > _MOST_CALLS else "too deeply nested"
            help = "compute parts of the rule in relations of their own"
            raise self.refuse("E0785", f"the calls of functions, such as `{function.name}`, are {how}", tree, help)
        self.world.used.add(id(function.body))
        outside, module = self.variables, self.module
        names = (name for name, _ in function.parameters)
        self.variables = {name: self._held(name, value, tree) for name, value in zip(names, values, strict=True)}
        self.module = function.module
        self.inner.append(function)
        try:
            yield
        finally:
            self.inner.pop()
            self.variables, self.module = outside, module

    def _held(self, name: str, value: Value, tree: Node) -> Value:
        """Return the value of a parameter: a variable for a long expression, which the function may use many times."""
        if isinstance(value.type, RecordType):
            parts = zip(value.parts, value.type.fields, strict=True)
            return replace(value, parts=tuple(self._held(f"{name}_{part}", one, tree) for one, (part, _) in parts))
        assert value.expression is not None
        if _is_short(value.expression):
            return value
        held = self.variable(name, value.type, self.span(tree))
        self.compare("=", next(held.leaves()), value.expression, self.span(tree))
        return held


def _is_short(expression: syntax.Expression) -> bool:
    """Return whether an expression has few parts."""
    parts: list[syntax.Expression] = [expression]
    for _ in range(_SHORT):
        match parts.pop():
            case syntax.Unary(_, operand):
                parts.append(operand)
            case syntax.BinaryNode(_, left, right):
                parts += (left, right)
            case syntax.CallNode(_, inner) | syntax.ListNode(inner):
                parts += inner
        if not parts:
            return True
    return False
