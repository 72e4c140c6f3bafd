"""What is known in a rule of DDlog that is being translated: its variables, and its body so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lark import Token

from ...ir import syntax
from ...naming import unused
from ...source import Span
from ..feeding import Node, span_of
from ..syntax_errors import LeftOut
from .types import RecordType, Type
from .values import Value
from .world import DeclaredFunction, ModuleFile, World


@dataclass
class RuleScope:
    """The scope of one rule or fact of a module.

    ``variables`` are those in scope, and ``taken`` the names that new ones must not have. ``literals`` is the body so
    far. ``calls`` says in how many functions that are called the translation is; ``module`` is that of the innermost.
    """

    world: World
    module: ModuleFile
    taken: set[str]
    variables: dict[str, Value] = field(default_factory=dict)
    literals: list[syntax.Literal] = field(default_factory=list)
    calls: int = 0

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

    @contextmanager
    def inside(self, function: DeclaredFunction, arguments: Mapping[str, Value]) -> Iterator[None]:
        """Have only the parameters of a function in scope, whose values are ``arguments``."""
        outside, module = self.variables, self.module
        self.variables, self.module = dict(arguments), function.module
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1
            self.variables, self.module = outside, module
