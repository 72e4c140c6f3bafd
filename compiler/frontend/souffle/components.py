"""Expand components: the statements of each instance, with names that say which instance they belong to.

    .comp Reach<T> { .decl edge, reach(x: T, y: T)  reach(x, y) :- edge(x, y). }
    .init roads = Reach<symbol>

becomes

    .decl roads.edge, roads.reach(x: symbol, y: symbol)  roads.reach(x, y) :- roads.edge(x, y).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ...diagnostics import Diagnostics
from ...naming import counted
from ...source import Span
from . import tree
from .scopes import Node, changed

_DEEPEST = 50
"""How deep instances may be nested; deeper ones contain themselves."""


@dataclass
class _Names:
    """The names of the program or of one instance, whose full names begin with ``prefix``. ``outer`` has the names
    around the instance, ``home`` those around its component. ``bound`` has the arguments of the instance by parameter,
    and ``members`` its statements.
    """

    prefix: str = ""
    outer: _Names | None = None
    home: _Names | None = None
    relations: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    components: dict[str, tuple[tree.Component, _Names]] = field(default_factory=dict)
    instances: dict[str, _Names] = field(default_factory=dict)
    bound: Bound = field(default_factory=dict)
    members: Sequence[_Member] = ()
    made_by: tree.Init | None = None

    def relation(self, name: str) -> str:
        """Return the full name of a relation that is called ``name`` here: of the innermost one around this place."""
        scope: _Names | None = self
        while scope is not None:
            holder, last = scope._holder(name)
            if holder is not None and last in holder.relations:
                return holder.prefix + last
            scope = scope.outer
        return name

    def type(self, name: str, bound: Bound) -> str:
        """Return the full name of a type that is called ``name`` in a component whose parameters are ``bound``."""
        if name in bound:
            return bound[name].type()
        scope: _Names | None = self
        while scope is not None:
            holder, last = scope._holder(name)
            if holder is not None and last in holder.types:
                return holder.prefix + last
            scope = scope.outer
        scope = self.home
        while scope is not None:
            if name in scope.bound:
                return scope.bound[name].type()
            scope = scope.home
        return name

    def _holder(self, name: str) -> tuple[_Names | None, str]:
        """Return the names of the instance that ``name`` is qualified by, None if there is none, and its last part."""
        *path, last = name.split(".")
        scope: _Names | None = self
        for part in path:
            scope = scope and scope.instances.get(part)
        return scope, last

    def component(self, name: str, bound: Bound) -> tuple[tree.Component, _Names] | None:
        """Return a component with the scope that declares it."""
        if name in bound:
            return bound[name].component()
        scope: _Names | None = self
        while scope is not None:
            if name in scope.components:
                return scope.components[name]
            if name in scope.bound:
                return scope.bound[name].component()
            scope = scope.home
        return None


@dataclass(frozen=True)
class _Argument:
    """The meaning of a parameter: ``name`` in a scope, in a component whose parameters are ``bound``."""

    name: str
    scope: _Names
    bound: Bound

    def type(self) -> str:
        """Return the full name of the type."""
        return self.scope.type(self.name, self.bound)

    def component(self) -> tuple[tree.Component, _Names] | None:
        """Return the component with the scope that declares it."""
        return self.scope.component(self.name, self.bound)


Bound = Mapping[str, _Argument]
"""The arguments of a component by parameter."""

_Member = tuple[tree.Statement, Bound]
"""A statement of a component, with the arguments of the component that it stands in."""


class _Instantiation:
    """Expands the instances of a program."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.endless = False

    def collect(self, members: Sequence[_Member], scope: _Names, depth: int = 0) -> None:
        """Collect the names of a program or instance, and those of its instances."""
        if depth > _DEEPEST and not self.endless:
            self.endless = True  # Two instances in each would be as many as two to the power of the depth.
            self._report("a component contains an instance of itself", members[0][0].span)
        if self.endless:
            return
        scope.members = members
        for statement, _ in members:
            match statement:
                case tree.Declaration():
                    scope.relations.add(statement.name)
                case tree.TypeDeclaration():
                    scope.types.add(statement.name)
                case tree.Component():
                    scope.components[statement.applied.name] = (statement, scope)
        instances = [
            (statement, bound, component)
            for statement, bound in members
            if isinstance(statement, tree.Init) and (component := self._instance(statement, scope, bound)) is not None
        ]
        # All instances are known before one of them is searched for names.
        for statement, bound, component in instances:
            inner = scope.instances[statement.name]
            assert inner.home is not None
            inner.bound = self._arguments(component, statement.applied, scope, bound)
            self.collect(self._members(component, inner.bound, inner, inner.home, ()), inner, depth + 1)

    def _instance(self, init: tree.Init, scope: _Names, bound: Bound) -> tree.Component | None:
        """Take in an instance, and return its component; None after reporting that it cannot be one."""
        declared = scope.component(init.applied.name, bound)
        if declared is None:
            self._report(f"there is no component `{init.applied.name}`", init.applied.span)
            return None
        if init.name in scope.instances:
            self._report(f"there are two instances `{init.name}`", init.span)
            return None
        component, home = declared
        scope.instances[init.name] = _Names(f"{scope.prefix}{init.name}.", scope, home, made_by=init)
        return component

    def statements(self, scope: _Names) -> Iterator[tree.Statement]:
        """Yield the statements of a program or instance, and those of its instances, with full names."""
        for statement, bound in scope.members:
            if isinstance(statement, tree.Init):
                instance = scope.instances.get(statement.name)
                if instance is not None and instance.made_by is statement:
                    yield from self.statements(instance)
            elif isinstance(statement, tree.Override):
                if not scope.prefix:
                    self._report("`.override` is used outside of a component", statement.span)
            elif not isinstance(statement, tree.Component):
                yield _renamed(statement, scope, bound)

    def _arguments(self, component: tree.Component, applied: tree.Applied, scope: _Names, bound: Bound) -> Bound:
        """Return the arguments of a component by parameter; they are names in ``scope``."""
        parameters, arguments = component.applied.arguments, applied.arguments
        if len(parameters) != len(arguments):
            number = counted(len(parameters), "parameter")
            message = f"the component `{component.applied.name}` has {number}, not {len(arguments)}"
            self._report(message, applied.span)
        return {name: _Argument(argument, scope, bound) for name, argument in zip(parameters, arguments, strict=False)}

    def _members(
        self, component: tree.Component, arguments: Bound, instance: _Names, home: _Names, below: tuple[str, ...]
    ) -> list[_Member]:
        """Return the statements of a component, which ``home`` declares, behind those of its bases that it does not
        override."""
        name = component.applied.name
        if name in below:
            self._report(f"the component `{name}` inherits from itself", component.span)
            return []
        overridden = {s.relation for s in component.statements if isinstance(s, tree.Override)}
        members: list[_Member] = []
        for base in component.bases:
            declared = home.component(base.name, arguments)
            if declared is None:
                self._report(f"there is no component `{base.name}`", base.span)
                continue
            base_arguments = self._arguments(declared[0], base, instance, arguments)
            inherited = self._members(declared[0], base_arguments, instance, declared[1], (*below, name))
            self._check_overridden(overridden, inherited, component)
            members += [(kept, bound) for s, bound in inherited for kept in _kept(s, overridden)]
        return members + [(statement, arguments) for statement in component.statements]

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
    program, running = _Names(), _Instantiation(diagnostics)
    running.collect([(statement, {}) for statement in statements], program)
    return tuple(running.statements(program))


def _kept(statement: tree.Statement, overridden: Collection[str]) -> Iterator[tree.Statement]:
    """Yield a statement of a base component without the heads of relations that are overridden; nothing if it has no
    others."""
    if isinstance(statement, tree.Clause):
        heads = tuple(head for head in statement.heads if head.relation not in overridden)
        if heads:
            yield replace(statement, heads=heads)
    elif not (isinstance(statement, tree.Subsumption) and statement.less.relation in overridden):
        yield statement


def _renamed(statement: tree.Statement, scope: _Names, bound: Bound) -> tree.Statement:
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
            heads = tuple(_with_names(head, scope, bound) for head in statement.heads)
            body = statement.body and _with_names(statement.body, scope, bound)
            return replace(statement, heads=heads, body=body)
        case tree.Subsumption():
            less, greater = (_with_names(atom, scope, bound) for atom in (statement.less, statement.greater))
            body = statement.body and _with_names(statement.body, scope, bound)
            return replace(statement, less=less, greater=greater, body=body)
    return statement


def _with_names(node: Node, scope: _Names, bound: Bound) -> Node:
    """Return a literal or argument with the full names of its relations and types."""
    named: Any = changed(node, lambda part: _with_names(part, scope, bound))
    if isinstance(named, tree.AtomLiteral):
        named = replace(named, relation=scope.relation(named.relation))
    elif isinstance(named, tree.CastTerm):
        named = replace(named, type=scope.type(named.type, bound))
    return cast(Node, named)
