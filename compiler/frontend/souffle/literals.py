"""Rewrite literals of clauses of a Soufflé program, except for aggregates, and take the records in them apart.

    far([x, y], d)    with .type Point = [x: number, y: number] and .decl far(p: Point, d: number)

becomes

    far(point, d), size(point) = 2, x = element_at(point, 1), y = element_at(point, 2)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import syntax
from ...source import Span
from ..syntax_errors import LeftOut
from . import tree
from .declarations import DeclaredProgram, RelationNames
from .functors import text_test
from .scopes import ClauseVariables, plain_name, positive
from .values import Values

_FLIPPED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True)
class Literals:
    """Rewrites the literals of a program."""

    program: DeclaredProgram
    names: RelationNames
    values: Values

    def literal(self, literal: tree.Literal, clause: ClauseVariables, grounded: set[str]) -> list[syntax.Literal]:
        """Return the literals that say what a literal does; ``grounded`` are the variables that others bind."""
        match literal:
            case tree.AtomLiteral():
                return self._atom(literal, clause)
            case tree.ComparisonLiteral():
                return self._comparison(literal, clause, grounded)
            case tree.TruthLiteral():
                return [_truth(literal.value, literal.span)]
            case tree.Alternatives():
                parts = []
                for part in literal.alternatives:
                    parts.append(tuple(one for inner in part for one in self.literal(inner, clause, grounded)))
                if len(parts) == 1:
                    return list(parts[0])
                return [syntax.Disjunction(tuple(parts), literal.span)]
            case tree.NegationLiteral(literal=tree.AtomLiteral() as atom):
                self._check_known(atom)
                arguments = tuple(
                    self.values.value(argument, self.program.column_type(atom.relation, place), clause)
                    for place, argument in enumerate(atom.arguments)
                )
                negated = syntax.AtomNode(self.names.name(atom.relation), arguments, None, None, atom.span)
                return [syntax.NegationNode(negated, literal.span)]
            case tree.NegationLiteral():
                return self.literal(positive(literal), clause, grounded)

    def _check_known(self, atom: tree.AtomLiteral) -> None:
        """Refuse an atom of a relation that is not declared."""
        if atom.relation not in self.names:
            self.program.report_unknown(atom.relation, atom.span)
            raise LeftOut

    def _atom(self, atom: tree.AtomLiteral, clause: ClauseVariables) -> list[syntax.Literal]:
        """Return an atom of a body, and what its records consist of."""
        self._check_known(atom)
        further: list[syntax.Literal] = []
        arguments: list[syntax.Expression] = []
        for place, argument in enumerate(atom.arguments):
            kind = self.program.column_type(atom.relation, place)
            if isinstance(argument, tree.RecordTerm) and argument.items is not None:
                variable = syntax.VariableNode(clause.fresh(_word(kind)), argument.span)
                further += self._unpacked(argument, variable, kind, clause)
                arguments.append(variable)
            else:
                arguments.append(self.values.value(argument, kind, clause))
        name = self.names.name(atom.relation)
        return [syntax.AtomNode(name, tuple(arguments), None, None, atom.span), *further]

    def _comparison(
        self, given: tree.ComparisonLiteral, clause: ClauseVariables, grounded: set[str]
    ) -> list[syntax.Literal]:
        span = given.span
        if given.op in ("match", "contains"):
            part, text = (self.values.value(side, "symbol", clause) for side in (given.left, given.right))
            test = text_test(given.op, part, text, span)
            if isinstance(test, syntax.AtomNode):
                return [syntax.NegationNode(test, span) if given.negated else test]
            return [replace(test, op="!=") if given.negated else test]
        op = _FLIPPED[given.op] if given.negated else given.op
        kinds = [self.values.declared_type(side, clause) for side in (given.left, given.right)]
        kind = next((k for k in kinds if k), "")
        if op == "=":
            for one, other in ((given.left, given.right), (given.right, given.left)):
                if (
                    isinstance(one, tree.RecordTerm)
                    and one.items is not None
                    and isinstance(other, tree.VariableTerm)
                    and other.name in grounded
                ):
                    variable = syntax.VariableNode(plain_name(other.name), other.span)
                    return self._unpacked(one, variable, kind, clause)
        left, right = (self.values.value(side, kind, clause) for side in (given.left, given.right))
        return [syntax.ComparisonNode(op, left, right, span)]

    # ---- records ---------------------------------------------------------------------------------------------------

    def _unpacked(
        self, record: tree.RecordTerm, variable: syntax.VariableNode, kind: str, clause: ClauseVariables
    ) -> list[syntax.Literal]:
        """Return the literals that say that a variable, which is bound, is a record of these items."""
        span = record.span
        layout = self.values.layout(record, kind)
        assert record.items is not None
        size = syntax.CallNode("size", (variable,), span)
        op = ">=" if layout.records else "="
        literals: list[syntax.Literal] = [syntax.ComparisonNode(op, size, _int(layout.least, span), span)]
        place: syntax.Expression = _int(1, span)
        order = [*layout.values, *layout.records]
        while order and isinstance(record.items[order[-1]], tree.WildcardTerm):
            order.pop()
        for index in order:
            item, field = record.items[index], layout.fields[index]
            if index in layout.values:
                element = syntax.CallNode("element_at", (variable, place), span)
                part = self.values.decoded(element, layout, field.type)
                place = _plus(place, _int(1, span))
            elif index in layout.sized:
                number = syntax.VariableNode(clause.fresh("size"), item.span)
                element = syntax.CallNode("element_at", (variable, place), span)
                value = self.values.decoded(element, layout, "number")
                literals.append(syntax.ComparisonNode("=", number, value, item.span))
                place = _plus(place, _int(1, span))
                part = syntax.CallNode("slice", (variable, place, number), span)
                place = _plus(place, number)
            else:
                part = syntax.CallNode("slice", (variable, place, size), span)
            literals += self._item(item, part, field.type, clause)
        return literals

    def _item(
        self, item: tree.Argument, part: syntax.Expression, kind: str, clause: ClauseVariables
    ) -> list[syntax.Literal]:
        """Return the literals that say that a part of a record is an item."""
        if isinstance(item, tree.WildcardTerm):
            return []
        if isinstance(item, tree.RecordTerm) and item.items is not None:
            inner = syntax.VariableNode(clause.fresh(_word(kind)), item.span)
            equal = syntax.ComparisonNode("=", inner, part, item.span)
            return [equal, *self._unpacked(item, inner, kind, clause)]
        return [syntax.ComparisonNode("=", self.values.value(item, kind, clause), part, item.span)]


def without_truths(literals: list[syntax.Literal]) -> tuple[syntax.Literal, ...]:
    """Return a body without comparisons that always hold, unless it has no others."""
    others = tuple(literal for literal in literals if literal != _truth(True, literal.span))
    return others or tuple(literals)


def _truth(value: bool, span: Span) -> syntax.ComparisonNode:
    """Return a comparison that always or never holds."""
    return syntax.ComparisonNode("=", _int(1, span), _int(1 if value else 0, span), span)


def _int(value: int, span: Span) -> syntax.ConstantNode:
    return syntax.ConstantNode(value, "int", span)


def _plus(left: syntax.Expression, right: syntax.Expression) -> syntax.Expression:
    """Return a sum; that of two constants is a constant."""
    if isinstance(left, syntax.ConstantNode) and isinstance(right, syntax.ConstantNode):
        assert isinstance(left.value, int) and isinstance(right.value, int)
        return _int(left.value + right.value, left.span)
    return syntax.BinaryNode("+", left, right, left.span)


def _word(kind: str) -> str:
    """Return the name of a variable for a record of a type."""
    name = plain_name(kind.rpartition(".")[2])
    return name[:1].lower() + name[1:] if kind else "record"
