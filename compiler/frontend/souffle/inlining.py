"""Put the clauses of inline relations in the place of their atoms, where these relations have no rows of their own.

    .decl eq(a: number, b: number) inline
    eq(a, b) :- a = b.
    p(x) :- q(x, y), eq(x, y + 1).

becomes

    p(x) :- q(x, y), x = y + 1.

An inline relation whose clauses bind all variables of their heads stays a relation: its rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from ...diagnostics import Diagnostics
from ...graphs import strongly_connected
from ...naming import unused
from ...source import Span
from ..syntax_errors import LeftOut
from . import tree
from .scopes import bound_in, changed, variables_of, walk

_Definition = tuple[tree.AtomLiteral, tree.Body]
"""A head of a clause, with the body."""


def inlined(statements: Sequence[tree.Statement], diagnostics: Diagnostics) -> tuple[tree.Statement, ...]:
    """Return the statements of a program without components, with atoms of inline relations replaced."""
    inline = {s.name: s for s in statements if isinstance(s, tree.Declaration) and "inline" in s.tags}
    definitions: dict[str, list[_Definition]] = {name: [] for name in inline}
    for statement in statements:
        if isinstance(statement, tree.Clause):
            for head in statement.heads:
                if head.relation in inline:
                    body = (statement.body,) if statement.body else ()
                    definitions[head.relation].append((head, body))
    needed = _needed(definitions)
    if not needed:
        return tuple(statements)
    return tuple(_Inlining({name: definitions[name] for name in needed}, diagnostics).statements(statements))


def _needed(definitions: Mapping[str, Sequence[_Definition]]) -> set[str]:
    """Return the relations of which a clause does not bind its head, or only by other such relations."""
    relations: set[str] = set()
    size = -1
    while size != len(relations):
        size = len(relations)
        for name, clauses in definitions.items():
            for head, body in clauses:
                plain = tuple(_without(literal, relations) for literal in body)
                if not variables_of((head,)) <= bound_in(plain, set()):
                    relations.add(name)
    return relations


def _without(literal: Any, relations: set[str]) -> Any:
    """Return a literal in which atoms of some relations bind nothing."""
    if isinstance(literal, tree.AtomLiteral) and literal.relation in relations:
        return tree.TruthLiteral(True, literal.span)
    return changed(literal, lambda part: _without(part, relations))


class _Inlining:
    """Replaces the atoms of the relations that have ``definitions``."""

    def __init__(self, definitions: Mapping[str, Sequence[_Definition]], diagnostics: Diagnostics) -> None:
        self.definitions, self.diagnostics = definitions, diagnostics
        self.taken: set[str] = set()

    def statements(self, given: Sequence[tree.Statement]) -> Iterator[tree.Statement]:
        """Yield the statements; report those that cannot be read."""
        edges = {
            name: [atom.relation for _, body in clauses for atom in self._atoms(body)]
            for name, clauses in self.definitions.items()
        }
        recursive = {
            name
            for component in strongly_connected(list(edges), edges)
            for name in component
            if len(component) > 1 or name in edges[name]
        }
        for statement in given:
            try:
                match statement:
                    case tree.Declaration() if statement.name in self.definitions:
                        if statement.name in recursive:
                            help = "omit `inline`, and bind all variables of the heads in the bodies"
                            self._refuse(f"`{statement.name}` is inlined into itself", statement.span, help)
                        if {"input", "output", "printsize"} & {*statement.tags}:
                            self._refuse_rows(statement.name, statement.span)
                    case tree.Directive() if statement.relation in self.definitions:
                        self._refuse_rows(statement.relation, statement.span)
                    case tree.Clause() if not recursive:
                        yield from self._clause(statement)
                    case tree.Clause():
                        pass
                    case _:
                        yield statement
            except LeftOut:
                continue

    def _atoms(self, body: tree.Body) -> list[tree.AtomLiteral]:
        return [n for n in walk(body) if isinstance(n, tree.AtomLiteral) and n.relation in self.definitions]

    def _clause(self, clause: tree.Clause) -> Iterator[tree.Clause]:
        """Yield a clause without the heads of inline relations, and without atoms of them."""
        heads = tuple(head for head in clause.heads if head.relation not in self.definitions)
        if heads:
            body = (clause.body,) if clause.body else ()
            self.taken = variables_of((*heads, *body))
            replaced = tuple(map(self._replaced, heads))
            yield replace(clause, heads=replaced, body=clause.body and self._replaced(clause.body))

    def _replaced(self, node: Any) -> Any:
        """Return a literal or an argument without atoms of inline relations."""
        match node:
            case tree.AtomLiteral() if node.relation in self.definitions:
                return self._group(node)
            case tree.NegationLiteral(literal=tree.AtomLiteral() as atom) if atom.relation in self.definitions:
                own = any(variables_of(body) - variables_of((head,)) for head, body in self.definitions[atom.relation])
                if own or any(isinstance(part, tree.WildcardTerm) for part in walk((atom,))):
                    help = "omit `inline`, and bind all variables of the heads in the bodies"
                    message = f"`{atom.relation}` cannot be inlined where it is negated, since some variables are local"
                    self._refuse(message, node.span, help)
        return changed(node, self._replaced)

    def _group(self, atom: tree.AtomLiteral) -> tree.Literal:
        """Return the bodies of a relation, with the arguments of an atom for the variables of the heads."""
        bodies = []
        for head, body in self.definitions[atom.relation]:
            if len(head.arguments) != len(atom.arguments):
                message = (
                    f"`{atom.relation}` has {len(head.arguments)} columns, but {len(atom.arguments)} arguments here"
                )
                self.diagnostics.report("E0203", message, atom.span)
                raise LeftOut
            arguments: dict[str, tree.Argument] = {}
            equalities: list[tree.Literal] = []
            for parameter, argument in zip(head.arguments, atom.arguments, strict=True):
                if isinstance(argument, tree.WildcardTerm):
                    argument = self._fresh("any", argument.span)
                if isinstance(parameter, tree.VariableTerm) and parameter.name not in arguments:
                    arguments[parameter.name] = argument
                elif not isinstance(parameter, tree.WildcardTerm):
                    equalities.append(tree.ComparisonLiteral("=", parameter, argument, atom.span))
            for name in sorted(variables_of((head, *body)) - arguments.keys()):
                arguments[name] = self._fresh(name, atom.span)
            equal = (
                replace(e, left=_put(e.left, arguments)) for e in equalities if isinstance(e, tree.ComparisonLiteral)
            )
            literals = (*(_put(literal, arguments) for literal in body), *equal)
            bodies.append(tuple(map(self._replaced, literals)) or (tree.TruthLiteral(True, atom.span),))
        if not bodies:
            return tree.TruthLiteral(False, atom.span)
        return tree.Alternatives(tuple(bodies), atom.span)

    def _fresh(self, name: str, span: Span) -> tree.VariableTerm:
        variable = unused(name, self.taken)
        self.taken.add(variable)
        return tree.VariableTerm(variable, span)

    def _refuse_rows(self, relation: str, span: Span) -> NoReturn:
        message = f"`{relation}` is inlined, so it has no rows to read or write"
        self._refuse(message, span, "omit `inline`, and bind all variables of the heads in the bodies")

    def _refuse(self, message: str, span: Span, help: str) -> NoReturn:
        """Report why a statement is left out, and raise :class:`LeftOut`."""
        self.diagnostics.report("E0768", message, span, help=help)
        raise LeftOut


def _put(node: Any, values: Mapping[str, tree.Argument]) -> Any:
    """Return a literal or an argument with values for its variables."""
    if isinstance(node, tree.VariableTerm):
        return values.get(node.name, node)
    return changed(node, lambda part: _put(part, values))
