"""Expand components: the statements of each instance, with names that say which instance they belong to.

    .comp Reach<T> { .decl edge, reach(x: T, y: T)  reach(x, y) :- edge(x, y). }
    .init roads = Reach<symbol>

becomes

    .decl roads.edge, roads.reach(x: symbol, y: symbol)  roads.reach(x, y) :- roads.edge(x, y).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from ...diagnostics import Diagnostics
from ...naming import counted
from ...source import Span
from . import tree

#: How deep instances may be nested; deeper ones contain themselves.
_DEEPEST = 50

Node = TypeVar("Node", bound=tree.Argument | tree.Literal)


@dataclass
class _Names:
    """The names of the program or of one instance, whose full names begin with ``prefix``. ``bound`` has the arguments
    of the instance by parameter."""

    prefix: str = ""
    outer: _Names | None = None
    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    components: dict[str, tuple[tree.Component, _Names]] = field(default_factory=dict)
    instances: dict[str, _Names] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)

    def relation(self, name: str) -> str:
        """Return the full name of a relation that is called ``name`` here."""
        first, _, rest = name.partition(".")
        scope: _Names | None = self
        while scope is not None:
            if rest and first in scope.instances:
                return scope.instances[first].relation_inside(rest)
            if not rest and name in scope.relations:
                return scope.prefix + name
            scope = scope.outer
        return name

    def relation_inside(self, name: str) -> str:
        """Return the full name of a relation of this instance."""
        first, _, rest = name.partition(".")
        return self.instances[first].relation_inside(rest) if rest and first in self.instances else self.prefix + name

    def type(self, name: str, bound: Mapping[str, str]) -> str:
        """Return the full name of a type that is called ``name`` in a component whose parameters are ``bound``."""
        if name in bound:
            return bound[name]
        first, _, rest = name.partition(".")
        scope: _Names | None = self
        while scope is not None:
            if rest and first in scope.instances:
                return scope.instances[first].prefix + rest
            if name in scope.types:
                return scope.prefix + name
            if name in scope.bound:
                return scope.bound[name]
            scope = scope.outer
        return name

    def component(self, name: str, bound: Mapping[str, str]) -> tuple[tree.Component, _Names] | None:
        """Return a component with the scope that declares it."""
        name = bound.get(name, name)
        scope: _Names | None = self
        while scope is not None:
            if name in scope.components:
                return scope.components[name]
            name = scope.bound.get(name, name)
            scope = scope.outer
        return None


#: A statement of a component with the arguments of the component it stands in, and whether it was overridden.
_Member = tuple[tree.Statement, Mapping[str, str]]


class _Instantiation:
    """Expands the instances of a program."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics

    def expand(self, members: Sequence[_Member], scope: _Names, depth: int = 0) -> Iterator[tree.Statement]:
        """Yield the statements of a program or instance, and those of its instances, with full names."""
        if depth > _DEEPEST:
            self._report("a component contains an instance of itself", members[0][0].span)
            return
        for statement, _ in members:
            match statement:
                case tree.Declaration():
                    scope.relations.add(statement.name)
                case tree.TypeDeclaration():
                    scope.types.add(statement.name)
                case tree.Component():
                    scope.components[statement.applied.name] = (statement, scope)
        inner: dict[int, list[tree.Statement]] = {}
        for index, (statement, bound) in enumerate(members):
            if isinstance(statement, tree.Init):
                inner[index] = list(self._instance(statement, scope, bound, depth))
        for index, (statement, bound) in enumerate(members):
            if isinstance(statement, tree.Init):
                yield from inner[index]
            elif isinstance(statement, tree.Override):
                if not scope.prefix:
                    self._report("`.override` is used outside of a component", statement.span)
            elif not isinstance(statement, tree.Component):
                yield _renamed(statement, scope, bound)

    def _instance(
        self, init: tree.Init, scope: _Names, bound: Mapping[str, str], depth: int
    ) -> Iterator[tree.Statement]:
        found = scope.component(init.applied.name, bound)
        if found is None:
            self._report(f"there is no component `{init.applied.name}`", init.applied.span)
            return
        component, outer = found
        arguments = self._arguments(component, init.applied, lambda name: scope.type(name, bound))
        made = _Names(f"{scope.prefix}{init.name}.", outer, bound=arguments)
        scope.instances[init.name] = made
        yield from self.expand(self._members(component, arguments, outer, ()), made, depth + 1)

    def _arguments(
        self, component: tree.Component, applied: tree.Applied, resolve: Callable[[str], str]
    ) -> Mapping[str, str]:
        """Return the arguments of a component by parameter."""
        wanted, given = component.applied.arguments, applied.arguments
        if len(wanted) != len(given):
            message = (
                f"the component `{component.applied.name}` has {counted(len(wanted), 'parameter')}, not {len(given)}"
            )
            self._report(message, applied.span)
        return {name: resolve(argument) for name, argument in zip(wanted, given, strict=False)}

    def _members(
        self, component: tree.Component, arguments: Mapping[str, str], scope: _Names, below: tuple[str, ...]
    ) -> list[_Member]:
        """Return the statements of a component, behind those of its bases that it does not override."""
        name = component.applied.name
        if name in below:
            self._report(f"the component `{name}` inherits from itself", component.span)
            return []
        overridden = {s.relation for s in component.statements if isinstance(s, tree.Override)}
        found: list[_Member] = []
        for base in component.bases:
            known = scope.component(base.name, arguments)
            if known is None:
                self._report(f"there is no component `{base.name}`", base.span)
                continue
            given = self._arguments(known[0], base, lambda name: scope.type(name, arguments))
            inherited = self._members(known[0], given, known[1], (*below, name))
            self._check_overridden(overridden, inherited, component)
            found += [(s, bound) for s, bound in inherited if _head(s) not in overridden]
        return found + [(statement, arguments) for statement in component.statements]

    def _check_overridden(self, overridden: set[str], inherited: list[_Member], component: tree.Component) -> None:
        """Report what is overridden although its declaration does not allow it."""
        for statement, _ in inherited:
            if not isinstance(statement, tree.Declaration) or statement.name not in overridden:
                continue
            if "overridable" not in statement.tags:
                place = next(
                    s for s in component.statements if isinstance(s, tree.Override) and s.relation == statement.name
                )
                help = "add `overridable` to the declaration"
                self._report(f"`{statement.name}` is not overridable", place.span, help)

    def _report(self, message: str, span: Span, help: str | None = None) -> None:
        self.diagnostics.report("E0766", message, span, help=help)


def expanded(statements: Iterable[tree.Statement], diagnostics: Diagnostics) -> tuple[tree.Statement, ...]:
    """Return the statements of a program without components, with those of their instances."""
    return tuple(_Instantiation(diagnostics).expand([(statement, {}) for statement in statements], _Names()))


def _head(statement: tree.Statement) -> str | None:
    """Return the relation that a clause derives."""
    if isinstance(statement, tree.Clause):
        return statement.heads[0].relation
    return statement.less.relation if isinstance(statement, tree.Subsumption) else None


def _renamed(statement: tree.Statement, scope: _Names, bound: Mapping[str, str]) -> tree.Statement:
    """Return a statement with the full names of its relations and types."""

    def column(given: tree.Attribute) -> tree.Attribute:
        return replace(given, type=scope.type(given.type, bound))

    match statement:
        case tree.Declaration():
            columns = tuple(map(column, statement.columns))
            return replace(statement, name=scope.prefix + statement.name, columns=columns)
        case tree.TypeDeclaration():
            parts = tuple((scope.type(name, bound), span) for name, span in statement.parts)
            fields = None if statement.fields is None else tuple(map(column, statement.fields))
            return replace(statement, name=scope.prefix + statement.name, parts=parts, fields=fields)
        case tree.Directive():
            return replace(statement, relation=scope.relation(statement.relation))
        case tree.Clause():
            heads = tuple(with_relations(head, scope.relation) for head in statement.heads)
            body = statement.body and with_relations(statement.body, scope.relation)
            return replace(statement, heads=heads, body=body)
        case tree.Subsumption():
            less, greater = (with_relations(atom, scope.relation) for atom in (statement.less, statement.greater))
            body = statement.body and with_relations(statement.body, scope.relation)
            return replace(statement, less=less, greater=greater, body=body)
    return statement


def with_relations(node: Node, name: Callable[[str], str]) -> Node:
    """Return a literal or argument with other names of relations."""
    made: Any = node
    match node:
        case tree.AtomLiteral():
            made = replace(node, relation=name(node.relation), arguments=_each(node.arguments, name))
        case tree.ComparisonLiteral():
            made = replace(node, left=with_relations(node.left, name), right=with_relations(node.right, name))
        case tree.NegationLiteral():
            made = replace(node, literal=with_relations(node.literal, name))
        case tree.Alternatives():
            made = replace(node, alternatives=tuple(_each(part, name) for part in node.alternatives))
        case tree.RecordTerm() if node.items is not None:
            made = replace(node, items=_each(node.items, name))
        case tree.CallTerm():
            made = replace(node, arguments=_each(node.arguments, name))
        case tree.AggregateTerm():
            target = node.target and with_relations(node.target, name)
            made = replace(node, target=target, body=_each(node.body, name))
    return cast(Node, made)


def _each(nodes: tuple[Node, ...], name: Callable[[str], str]) -> tuple[Node, ...]:
    return tuple(with_relations(node, name) for node in nodes)
