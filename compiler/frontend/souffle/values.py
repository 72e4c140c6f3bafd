"""Rewrite values of a Soufflé program, and find their types: an argument becomes an expression.

    [1, ["a", nil]]    of type P, with .type P = [x: number, next: Q] and .type Q = [s: symbol, next: Q]

becomes

    [string(1), "a"]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from ...ir import syntax
from ...naming import counted
from ...source import Span
from . import tree
from .declarations import DeclaredProgram
from .functors import NoEquivalent, called
from .scopes import ClauseVariables, plain_name
from .types import RecordLayout


@dataclass(frozen=True)
class Values:
    """Rewrites the values of a program. ``kind`` is the type that a value should have, empty if that is unknown."""

    program: DeclaredProgram

    def value(self, argument: tree.Argument, kind: str, clause: ClauseVariables) -> syntax.Expression:
        """Return the expression of an argument."""
        span = argument.span
        match argument:
            case tree.VariableTerm():
                return syntax.VariableNode(plain_name(argument.name), span)
            case tree.WildcardTerm():
                return syntax.WildcardNode(span)
            case tree.RecordTerm():
                return self._packed(argument, kind, clause)
            case tree.ConstantTerm():
                return _constant(argument, self.program.types.kind(kind))
            case tree.CallTerm():
                kinds = tuple(self.primitive_type(inner, clause) for inner in argument.arguments)
                values = tuple(self.value(inner, "", clause) for inner in argument.arguments)
                return called(argument.function, values, kinds, span)
            case tree.CastTerm():
                self._check_cast(argument, clause)
                return self.value(argument.value, argument.type, clause)
            case tree.AggregateTerm():
                raise AssertionError(argument)

    def _check_cast(self, cast: tree.CastTerm, clause: ClauseVariables) -> None:
        """Refuse a cast between values that are not stored alike, of which Soufflé keeps the bits."""
        types = self.program.types
        if not types.kind(cast.type):
            raise NoEquivalent("E0209", f"there is no type `{cast.type}`", cast.span)
        value_type = self.declared_type(cast.value, clause)
        if isinstance(cast.value, tree.RecordTerm):
            value_type = cast.type if types.kind(cast.type) == "record" else "record"
        kinds = [types.kind(cast.type), types.kind(value_type) or self.primitive_type(cast.value, clause)]
        fields = [[field.type for field in types.fields(name)] for name in (cast.type, value_type)]
        if (kinds[0] != kinds[1] and set(kinds) != {"number", "unsigned"}) or fields[0] != fields[1]:
            message = f"`as` between `{value_type or kinds[1] or 'an unknown type'}` and `{cast.type}` is not supported"
            help = "it keeps the bits of a value: convert it, as by `to_float` or `to_string`, or omit `as`"
            raise NoEquivalent("E0764", message, cast.span, help)

    # ---- types -----------------------------------------------------------------------------------------------------

    def primitive_type(self, argument: tree.Argument, clause: ClauseVariables) -> str:
        """Return the primitive type of an argument, empty if it is unknown."""
        if isinstance(argument, tree.ConstantTerm):
            return argument.kind
        if isinstance(argument, tree.CastTerm):
            return self.program.types.kind(argument.type)
        if isinstance(argument, tree.CallTerm):
            if argument.function in ("to_float", "itof", "utof"):
                return "float"
            if argument.function in ("cat", "substr", "to_string"):
                return "symbol"
            if argument.function in ("strlen", "to_number", "ftoi", "utoi", "to_unsigned"):
                return "number"
            kinds = [self.primitive_type(inner, clause) for inner in argument.arguments]
            return next((kind for kind in ("float", "symbol", "number") if kind in kinds), "")
        return self.program.types.kind(self.declared_type(argument, clause))

    def declared_type(self, argument: tree.Argument, clause: ClauseVariables) -> str:
        """Return the declared type of an argument, empty if it is unknown."""
        if isinstance(argument, tree.CastTerm):
            return argument.type
        return clause.types.get(argument.name, "") if isinstance(argument, tree.VariableTerm) else ""

    def note_types(self, literals: Iterable[tree.Literal], clause: ClauseVariables) -> None:
        """Note the types of variables that are arguments of atoms, or items of records in them."""
        for literal in literals:
            match literal:
                case tree.AtomLiteral():
                    for place, argument in enumerate(literal.arguments):
                        self._note(argument, self.program.column_type(literal.relation, place), clause)
                case tree.NegationLiteral():
                    self.note_types((literal.literal,), clause)
                case tree.Alternatives():
                    for part in literal.alternatives:
                        self.note_types(part, clause)
                case tree.ComparisonLiteral(op="="):
                    for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                        self._note(one, self.declared_type(other, clause), clause)

    def _note(self, argument: tree.Argument, kind: str, clause: ClauseVariables) -> None:
        if not kind:
            return
        if isinstance(argument, tree.VariableTerm):
            clause.types.setdefault(argument.name, kind)
        elif isinstance(argument, tree.RecordTerm) and argument.items is not None:
            fields = self.program.types.fields(kind)
            for item, field in zip(argument.items, fields, strict=False):
                self._note(item, field.type, clause)

    # ---- records ---------------------------------------------------------------------------------------------------

    def layout(self, record: tree.RecordTerm, kind: str) -> RecordLayout:
        """Return how a record is stored; refuse one with another number of items than its type has fields."""
        layout = self.program.types.layout(kind, record.span)
        if record.items is not None and len(record.items) != len(layout.fields):
            fields = counted(len(layout.fields), "field")
            message = f"a record of type `{kind}` has {fields}, not {len(record.items)}"
            raise NoEquivalent("E0769", message, record.span)
        return layout

    def decoded(self, part: syntax.Expression, layout: RecordLayout, kind: str) -> syntax.Expression:
        """Return the value of an element of the list that a record is stored as."""
        if layout.element == "string" and self.program.types.kind(kind) != "symbol":
            return syntax.CallNode("int", (part,), part.span)
        return part

    def _encoded(self, value: syntax.Expression, layout: RecordLayout, kind: str) -> syntax.Expression:
        """Return the element of a list for a value."""
        if layout.element == "string" and self.program.types.kind(kind) != "symbol":
            return syntax.CallNode("string", (value,), value.span)
        return value

    def _packed(self, record: tree.RecordTerm, kind: str, clause: ClauseVariables) -> syntax.Expression:
        """Return the value of a record."""
        span = record.span
        layout = self.layout(record, kind)
        if record.items is None:
            return syntax.ListNode((), span)
        values = [self.value(i, f.type, clause) for i, f in zip(record.items, layout.fields, strict=True)]
        items = [self._encoded(values[index], layout, layout.fields[index].type) for index in layout.values]
        prefix: syntax.Expression | None = None
        for index in layout.records:
            value = values[index]
            size: syntax.Expression = syntax.CallNode("size", (value,), span)
            if isinstance(value, syntax.ListNode):
                size = syntax.ConstantNode(len(value.items), "int", span)
            if index in layout.sized:
                items.append(self._encoded(size, layout, "number"))
            if isinstance(value, syntax.ListNode):
                items += value.items
            else:
                prefix, items = _joined(_joined(prefix, items, span), value, span), []
        return _joined(prefix, items, span) or syntax.ListNode((), span)


def _joined(
    made: syntax.Expression | None, further: syntax.Expression | list[syntax.Expression], span: Span
) -> syntax.Expression | None:
    """Return a list with another one, or with further items, behind it."""
    if isinstance(further, list):
        if not further:
            return made
        further = syntax.ListNode(tuple(further), span)
    return further if made is None else syntax.BinaryNode("++", made, further, span)


def _constant(given: tree.ConstantTerm, kind: str) -> syntax.ConstantNode:
    """Return a constant; a whole number in a float column is a float."""
    match given.value:
        case str():
            return syntax.ConstantNode(given.value, "string", given.span)
        case int() if kind != "float":
            return syntax.ConstantNode(given.value, "int", given.span)
    return syntax.ConstantNode(Decimal(given.value), "float", given.span)
