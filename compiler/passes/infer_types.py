"""Infer the type of every column, variable and expression.

Before::

    input relation link(@src: int, dst: int, cost: float)
    relation path(S: unknown, D: unknown, x3: unknown)

    path_1: path(S, D, 0) :- link(S, D, _).
    path_2: path(S, D, C) :- link(S, Z, C1), path(Z, D, _), C = C1 * 2.

After (the integer literals have become floats)::

    relation path(S: int, D: int, x3: float)

    path_1: path(S, D, 0.0) :- link(S, D, _).
    path_2: path(S, D, C) :- link(S, Z, C1), path(Z, D, _), C = C1 * 2.0.

:mod:`.column_types` infers the types of columns; the literals of rules are then converted to them. Variables are not
converted between columns, except decimals in heads of declared relations; arithmetic, comparisons and calls convert
operands with an explicit ``Convert``. An empty list takes its type from its context.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ..diagnostics import Diagnostics, Note, listed
from ..functions import FUNCTIONS
from ..ir import typed
from ..ir.rule_origin import Making
from ..source import Span
from ..type_rules import (
    Mistake,
    aggregate_type,
    as_operand,
    common_type,
    digits_of,
    element_type,
    is_retyped,
    match_of,
    result_of,
    widens,
)
from .column_types import infer_columns


def infer_types(program: typed.TypedProgram, diagnostics: Diagnostics) -> typed.TypedProgram:
    """Return the program with all types; a type that an error leaves open is ``broken``."""
    columns = infer_columns(program, diagnostics)
    relations = {relation.name: _with_types(relation, columns) for relation in program.relations}
    functions = {function.name: function for function in program.functions}
    orders: dict[str, list[typed.Type]] = {}
    values: dict[tuple[str, str], typed.Type] = {}
    rules = tuple(_RuleTyper(rule, relations, functions, diagnostics, orders, values).rule() for rule in program.rules)
    return replace(program, relations=tuple(relations.values()), rules=rules)


def _with_types(relation: typed.TypedRelation, columns: Mapping[tuple[str, int], typed.Type]) -> typed.TypedRelation:
    return replace(
        relation,
        columns=tuple(
            replace(column, type=columns[relation.name, place]) for place, column in enumerate(relation.columns)
        ),
    )


@dataclass(frozen=True)
class _Binding:
    """The type of a variable and where it comes from; ``where`` ends a note, as in "`X` is int by this assignment"."""

    type: typed.Type
    span: Span
    where: str


class _RuleTyper:
    """The type inference for one rule, given the types of all columns. ``orders`` has the types of what each ``first``
    orders by, by relation; ``values`` those of what other aggregates range over, by relation and column."""

    def __init__(
        self,
        rule: typed.TypedRule,
        relations: Mapping[str, typed.TypedRelation],
        functions: Mapping[str, typed.TypedFunction],
        diagnostics: Diagnostics,
        orders: dict[str, list[typed.Type]],
        values: dict[tuple[str, str], typed.Type],
    ) -> None:
        self.source = rule
        self.functions = functions
        self.orders = orders
        self.values = values
        self.relations = relations
        self.diagnostics = diagnostics
        self.bindings: dict[str, _Binding] = {}

    def rule(self) -> typed.TypedRule:
        """Return the rule with all types."""
        for atom in self.source.atoms:
            self._bind(atom)
        body = tuple(self._literal(literal) for literal in self.source.body)
        return replace(self.source, head=self._head(), body=body)

    def _bind(self, atom: typed.Atom) -> None:
        relation = self.relations[atom.relation]
        for term, column in zip(atom.terms, relation.columns, strict=True):
            if isinstance(term, typed.Variable) and column.type != typed.BROKEN:
                where = f"in {_column_name(column, relation)}"
                self.bindings.setdefault(term.name, _Binding(column.type, term.span, where))

    def _literal(self, literal: typed.Literal) -> typed.Literal:
        match literal:
            case typed.Atom():
                return self._atom(literal)
            case typed.Negation():
                return replace(literal, atom=self._atom(literal.atom))
            case typed.Assignment():
                value = self._assigned(literal.variable, self._expression(literal.value))
                binding = _Binding(value.type, literal.variable.span, "by this assignment")
                if isinstance(value, typed.Call) and value.function == typed.VALUE and not value.external:
                    option = value.arguments[0]
                    assert isinstance(option, typed.Variable)
                    binding = replace(self.bindings.get(option.name, binding), type=value.type)
                self.bindings.setdefault(literal.variable.name, binding)
                return replace(literal, variable=replace(literal.variable, type=value.type), value=value)
            case typed.Comparison():
                return self._comparison(literal)

    def _atom(self, atom: typed.Atom) -> typed.Atom:
        relation = self.relations[atom.relation]
        terms: list[typed.Term] = []
        for term, column in zip(atom.terms, relation.columns, strict=True):
            if isinstance(term, typed.Wildcard):
                terms.append(replace(term, type=column.type))
                continue
            value = self._in_column(self._expression(term), column, relation, matched=True)
            assert isinstance(value, typed.Variable | typed.Constant)
            terms.append(value)
        return replace(atom, terms=tuple(terms))

    def _head(self) -> typed.Head:
        head = self.source.head
        relation = self.relations[head.relation]
        arguments: list[typed.Expression | typed.Aggregate] = []
        for argument, column in zip(head.arguments, relation.columns, strict=True):
            if isinstance(argument, typed.Aggregate):
                arguments.append(self._aggregate(argument, column, relation))
            else:
                arguments.append(self._in_column(self._expression(argument), column, relation))
        return replace(head, arguments=tuple(arguments))

    def _in_column(
        self, value: typed.Expression, column: typed.TypedColumn, relation: typed.TypedRelation, matched: bool = False
    ) -> typed.Expression:
        """Return ``value`` in the column's type; convert literals, and ints and decimals in decimal columns of declared
        relations.

        A variable that is ``matched`` with a column is not converted. Report a mismatch as E0301, E0302 or E0306.
        """
        if typed.BROKEN in (value.type, column.type) or value.type == column.type:
            return value
        name = _column_name(column, relation)
        if column.type.optional and isinstance(value, typed.ListLiteral) and value.type.optional and value.items:
            assert column.type.element is not None
            plain = replace(column, type=column.type.element)
            return replace(value, items=(self._in_column(value.items[0], plain, relation),), type=column.type)
        element = column.type.element
        if element is not None and isinstance(value, typed.ListLiteral) and relation.declared and value.items:
            plain = replace(column, type=element)
            if all(_takes_decimal(element, item.type) for item in value.items):
                items = tuple(self._in_column(item, plain, relation) for item in value.items)
                return replace(value, items=items, type=column.type)
        if typed.joined(value.type, column.type) == column.type:
            return self._convert(value, column.type)
        if isinstance(value, typed.ListLiteral) and is_retyped(value, column.type):
            return self._convert(value, column.type)
        converted = relation.declared and not (matched and isinstance(value, typed.Variable))
        if isinstance(value, typed.Constant) and widens(value.type, column.type):
            fitting = _fit(value, column.type)
            if fitting is None:
                self.diagnostics.report("E0306", f"{name} is {column.type}, which cannot hold `{value}`", value.span)
            return fitting or value
        if converted and _takes_decimal(column.type, value.type):
            return self._convert(value, column.type)
        notes = self._notes(value, relation)
        code = "E0301" if isinstance(value, typed.Variable) else "E0302"
        message = f"{name} is {column.type}, but `{_shown(value)}` is {value.type}"
        self.diagnostics.report(code, message, value.span, help=_column_help(value, column.type), notes=notes)
        return value

    def _is_inside_path(self, variable: typed.Variable) -> bool:
        """Return whether a variable was made for a path: the rule's text lacks it, or the rule was made for one."""
        if variable.for_argument:
            return False
        written = re.search(rf"\b{re.escape(variable.name.rstrip('?'))}\b", self.source.text)
        return written is None or self.source.made is Making.PATH

    def _notes(self, value: typed.Expression, relation: typed.TypedRelation) -> tuple[Note, ...]:
        notes = []
        if isinstance(value, typed.Variable) and self._is_inside_path(value):
            notes.append(Note(f"`{value}` is an intermediate node of the path", value.span))
        if isinstance(value, typed.Variable) and value.name in self.bindings:
            binding = self.bindings[value.name]
            notes.append(Note(f"`{_shown(value)}` is {binding.type} {binding.where}", binding.span))
        notes.append(_relation_note(relation))
        return tuple(notes)

    def _aggregate(
        self, aggregate: typed.Aggregate, column: typed.TypedColumn, relation: typed.TypedRelation
    ) -> typed.Aggregate:
        argument = None if aggregate.argument is None else self._expression(aggregate.argument)
        order = tuple(replace(part, value=self._expression(part.value)) for part in aggregate.order)
        self._check_order(replace(aggregate, order=order), relation)
        if isinstance(argument, typed.Constant) and aggregate.function in ("sum", "min", "max"):
            # A literal is a number of the declared type, as in a column.
            wanted = relation.declared and widens(argument.type, column.type)
            argument = (_fit(argument, column.type) if wanted else None) or argument
        result = aggregate_type(aggregate.function, argument.type if argument is not None else typed.INT)
        extremum = aggregate.function in ("min", "max")
        widest = aggregate_type("sum", column.type)
        widened = aggregate.function == "sum" and result.name in ("int", "decimal") and column.type == widest != result
        if argument is not None and (extremum or widened) and relation.declared and _takes_decimal(column.type, result):
            argument, result = self._convert(argument, column.type), column.type
        if argument is not None and argument.type != typed.BROKEN:
            needs_number = aggregate.function in ("sum", "avg")
            if needs_number and not argument.type.numeric:
                message = f"`{aggregate.function}` requires numbers, but `{argument}` is {argument.type}"
                self.diagnostics.report("E0523", message, aggregate.span)
                result = typed.BROKEN
            elif extremum and not argument.type.ordered:
                message = f"`{aggregate.function}` requires ordered values, but `{argument}` is {argument.type}"
                self.diagnostics.report("E0523", message, aggregate.span)
                result = typed.BROKEN
        if typed.BROKEN not in (result, column.type) and result != column.type:
            message = f"{_column_name(column, relation)} is {column.type}, but `{aggregate}` is {result}"
            notes = (_relation_note(relation),)
            help = f"declare the column as {result}"
            if extremum and result.name == column.type.name == "decimal":
                wide = replace(result, precision=38)
                help = f"declare the column with enough digits, such as {wide}"
            elif result.name == column.type.name == "decimal" and result.scale > column.type.scale:
                help += ", or as float if a recursion multiplies decimals, and sum up `float(...)` in all rules"
            self.diagnostics.report("E0302", message, aggregate.span, help=help, notes=notes)
        elif argument is not None and argument.type.open:
            argument = self._refused_list(argument)
        elif argument is not None and (aggregate.function == "avg" or aggregate.distinct):
            self._check_values(aggregate, argument.type, column, relation)
        return replace(aggregate, argument=argument, type=result, order=order)

    def _check_values(
        self, aggregate: typed.Aggregate, kind: typed.Type, column: typed.TypedColumn, relation: typed.TypedRelation
    ) -> None:
        """Report values of another type than in an earlier rule (E0302), where the type of the result does not tell."""
        plain = kind.element if kind.optional and kind.element is not None else kind
        first = self.values.setdefault((relation.name, column.name), plain)
        alike = first.name == plain.name == "decimal" and first.scale == plain.scale
        if typed.BROKEN in (first, plain) or alike or typed.joined(first, plain) is not None:
            return
        message = f"`{aggregate.argument}` is {plain}, but the first rule of `{relation.name}` aggregates {first} here"
        help = "aggregate values of one type"
        if first.numeric and plain.numeric:
            help += ", such as `float(N)`"
        self.diagnostics.report("E0302", message, aggregate.span, help=help)

    def _check_order(self, aggregate: typed.Aggregate, relation: typed.TypedRelation) -> None:
        """Report values without an order (E0523), and those of other types than in an earlier rule (E0302)."""
        kinds = [part.value.type for part in aggregate.order]
        first = self.orders.setdefault(relation.name, kinds)
        for place, part in enumerate(aggregate.order):
            kind = part.value.type
            if typed.BROKEN in (kind, *first[place : place + 1]):
                continue
            if not kind.ordered:
                message = f"`{aggregate.function}` requires ordered values, but `{part.value}` is {kind}"
                self.diagnostics.report("E0523", message, part.value.span)
            elif first[place : place + 1] not in ([], [kind]):
                message = f"`{part.value}` is {kind}, but the first rule of `{relation.name}` orders by {first[place]}"
                self.diagnostics.report("E0302", message, part.value.span, help="order by values of one type")

    # ---- expressions -----------------------------------------------------------------------------------------------

    def _expression(self, expression: typed.Expression) -> typed.Expression:
        match expression:
            case typed.Variable():
                binding = self.bindings.get(expression.name)
                return replace(expression, type=typed.BROKEN if binding is None else binding.type)
            case typed.Constant() | typed.Convert():
                return expression
            case typed.Negate():
                operand = self._expression(expression.operand)
                if operand.type != typed.BROKEN and not operand.type.numeric:
                    message = f"`-` requires a number, but `{operand}` is {operand.type}"
                    self.diagnostics.report("E0304", message, expression.span)
                    return replace(expression, operand=operand, type=typed.BROKEN)
                return replace(expression, operand=operand, type=operand.type)
            case typed.Binary():
                return self._binary(expression)
            case typed.ListLiteral():
                return self._list(expression)
            case typed.Call():
                return self._call(expression)

    def _assigned(self, variable: typed.Variable, value: typed.Expression) -> typed.Expression:
        """Return the value of an assignment; an empty list takes the type of a column that the variable occurs in, and
        an argument of a negated atom that of its column."""
        if variable.for_argument and (place := self._negated_place(variable)) is not None:
            placed = self._in_column(value, *place)
            return placed if placed.type == place[0].type else replace(placed, type=typed.BROKEN)
        if not value.type.open:
            return value
        atoms = [(negation.atom.relation, negation.atom.terms) for negation in self.source.negations]
        for relation, terms in ((self.source.head.relation, self.source.head.arguments), *atoms):
            for term, column in zip(terms, self.relations[relation].columns, strict=True):
                is_term = isinstance(term, typed.Variable) and term.name == variable.name
                if is_term and typed.joined(value.type, column.type) == column.type:
                    return self._convert(value, column.type)
        return self._refused_list(value)

    def _negated_place(self, variable: typed.Variable) -> tuple[typed.TypedColumn, typed.TypedRelation] | None:
        """Return the column of a negated atom that a variable is in, as a column of its values if it may be null, and
        the relation."""
        for negation in self.source.negations:
            relation = self.relations[negation.atom.relation]
            for term, column in zip(negation.atom.terms, relation.columns, strict=True):
                if isinstance(term, typed.Variable) and term.name == variable.name:
                    return column, relation
        for literal in self.source.body:
            if isinstance(literal, typed.Assignment) and isinstance(literal.value, typed.ListLiteral):
                place = self._negated_place(literal.variable) if literal.value.items == (variable,) else None
                if place is not None and place[0].type.optional and place[0].type.element is not None:
                    return replace(place[0], type=place[0].type.element), place[1]
        return None

    def _refused_list(self, value: typed.Expression) -> typed.Expression:
        """Report a list whose type cannot be inferred (E0313), and return it with type ``broken``."""
        help = "use it where the type is known: in a column with a declared type, or together with another list"
        self.diagnostics.report("E0313", f"the type of `{value}` cannot be inferred", value.span, help=help)
        return replace(value, type=typed.BROKEN)

    def _list(self, expression: typed.ListLiteral) -> typed.ListLiteral:
        items = [self._expression(item) for item in expression.items]
        element = element_type(items, [item.type for item in items])
        if element is None:
            types = listed(str(item.type) for item in items)
            message = f"the elements of a list must have one type, but these are {types}"
            self.diagnostics.report("E0314", message, expression.span)
            element = typed.BROKEN
        converted = tuple(self._convert(item, element) for item in items)
        return replace(expression, items=converted, type=expression.type.with_element(element))

    def _call(self, call: typed.Call) -> typed.Call:
        arguments = tuple(self._expression(argument) for argument in call.arguments)
        call = replace(call, arguments=arguments, type=typed.BROKEN)
        types = [argument.type for argument in arguments]
        external = self.functions.get(call.function) if call.external else None
        if typed.BROKEN in types:
            return call if external is None else replace(call, type=external.result)
        if external is not None:
            return self._external_call(call, external)
        if call.function == typed.VALUE:
            return replace(call, type=types[0].element or typed.BROKEN)
        function, match_ = FUNCTIONS[call.function], match_of(call, types)
        if match_ is None:
            return self._wrong_arguments(call, "; ".join(map(str, function.signatures)))
        for argument, parameter in zip(arguments, match_.arguments, strict=True):
            if parameter.open and not match_.result.open:
                return self._wrong_list(call, argument)
        converted = tuple(self._convert(a, parameter) for a, parameter in zip(arguments, match_.arguments, strict=True))
        return replace(call, arguments=converted, type=match_.result, partial=function.may_lack_value(match_.arguments))

    def _wrong_list(self, call: typed.Call, argument: typed.Expression) -> typed.Call:
        self._refused_list(argument)
        return call

    def _external_call(self, call: typed.Call, function: typed.TypedFunction) -> typed.Call:
        parameters = [parameter.type for parameter in function.parameters]
        call = replace(call, type=function.result, partial=True)
        if typed.BROKEN in parameters:
            return call
        fits = len(parameters) == len(call.arguments) and all(
            self._fits(argument, type_) for argument, type_ in zip(call.arguments, parameters, strict=True)
        )
        if not fits:
            types = ", ".join(map(str, parameters))
            note = Note(f"`{function.name}` is declared here", function.span)
            return self._wrong_arguments(call, f"{function.name}({types}): {function.result}", note)
        converted = tuple(self._convert(a, type_) for a, type_ in zip(call.arguments, parameters, strict=True))
        return replace(call, arguments=converted)

    def _fits(self, value: typed.Expression, wanted: typed.Type) -> bool:
        """Return whether a value has the wanted type, or is a number or a list that can be converted to it."""
        if typed.joined(value.type, wanted) == wanted:
            return True
        if isinstance(value, typed.ListLiteral):
            return is_retyped(value, wanted)
        if isinstance(value, typed.Constant) and widens(value.type, wanted):
            return True
        return wanted == typed.FLOAT and value.type.numeric

    def _wrong_arguments(self, call: typed.Call, signatures: str, *notes: Note) -> typed.Call:
        types = ", ".join(str(argument.type) for argument in call.arguments) or "no arguments"
        message = f"`{call.function}` does not take ({types})"
        if not call.arguments:
            message = f"`{call.function}` takes arguments"
        self.diagnostics.report("E0312", message, call.span, help=f"it takes: {signatures}", notes=notes)
        return replace(call, type=typed.BROKEN)

    def _binary(self, expression: typed.Binary) -> typed.Binary:
        left, right = self._expression(expression.left), self._expression(expression.right)
        left, right = self._alike(left, right)
        outcome = result_of(
            expression.op, as_operand(left, left.type, right.type), as_operand(right, right.type, left.type)
        )
        if isinstance(outcome, Mistake):
            self.diagnostics.report(outcome.code, outcome.message, expression.span, help=outcome.help)
            return replace(expression, left=left, right=right, type=typed.BROKEN)
        left, right = self._convert(left, outcome.left), self._convert(right, outcome.right)
        return replace(expression, left=left, right=right, type=outcome.result)

    def _comparison(self, comparison: typed.Comparison) -> typed.Comparison:
        left, right = self._alike(self._expression(comparison.left), self._expression(comparison.right))
        compared = replace(comparison, left=left, right=right)
        if typed.BROKEN in (left.type, right.type):
            return compared
        if isinstance(left, typed.Call) and right.type == typed.BOOL != left.type and right.span == comparison.span:
            message = f"`{left.function}` returns {left.type}, but a literal must be true or false"
            advice = f"compare its value, as in `{left} = ...`"
            self.diagnostics.report("E0315", message, comparison.span, help=advice)
            return replace(compared, left=replace(left, type=typed.BROKEN))
        common = common_type(as_operand(left, left.type, right.type), as_operand(right, right.type, left.type))
        if common is None:
            message = f"`{_shown(left)}` is {left.type} and `{_shown(right)}` is {right.type}, which cannot be compared"
            help = _comparison_help(left, right) or _comparison_help(right, left)
            notes = tuple(
                Note(f"`{_shown(side)}` is {side.type} {binding.where}", binding.span)
                for side in (left, right)
                if isinstance(side, typed.Variable)
                for binding in [self.bindings[side.name]]
            )
            self.diagnostics.report("E0305", message, comparison.span, help=help, notes=notes)
            return compared
        if common.open:
            self._refused_list(left)
            return compared
        if not common.ordered and comparison.op not in ("=", "!="):
            message = f"`{comparison.op}` requires ordered values, but {common} has none"
            self.diagnostics.report("E0310", message, comparison.span, help="compare with `=` or `!=`")
        return replace(comparison, left=self._convert(left, common), right=self._convert(right, common))

    def _alike(self, left: typed.Expression, right: typed.Expression) -> tuple[typed.Expression, typed.Expression]:
        """Return the operands of an operation; a list of literals takes the type of the other operand if it can."""
        if isinstance(left, typed.ListLiteral) and left.type != right.type and is_retyped(left, right.type):
            left = self._convert(left, right.type)
        elif isinstance(right, typed.ListLiteral) and left.type != right.type and is_retyped(right, left.type):
            right = self._convert(right, left.type)
        return left, right

    def _convert(self, expression: typed.Expression, type_: typed.Type) -> typed.Expression:
        if expression.type == type_ or typed.BROKEN in (expression.type, type_):
            return expression
        if isinstance(expression, typed.ListLiteral) and type_.element is not None:
            element = type_.element
            items = tuple(self._convert(item, element) for item in expression.items)
            return replace(expression, items=items, type=type_)
        if not isinstance(expression, typed.Constant):
            return typed.Convert(expression, type_, expression.span)
        fitting = _fit(expression, type_)
        if fitting is None:
            message = f"the result type is {type_}, which cannot hold `{expression}`"
            self.diagnostics.report("E0306", message, expression.span)
        return fitting or expression


def _shown(value: typed.Expression) -> str:
    """Return a value as it is written; the names of variables that may be null end with ``?`` here."""
    return str(value).removesuffix("?")


def _column_name(column: typed.TypedColumn, relation: typed.TypedRelation) -> str:
    if relation.declared:
        return f"column `{column.name}` of `{relation.name}`"
    position = [other.name for other in relation.columns].index(column.name)
    return f"argument {position + 1} of `{relation.name}`"


def _relation_note(relation: typed.TypedRelation) -> Note:
    return Note(f"`{relation.name}` is {'declared' if relation.declared else 'first derived'} here", relation.span)


def _takes_decimal(column: typed.Type, value: typed.Type) -> bool:
    """Return whether a decimal column accepts an int, or another decimal type, without rounding; overflows stop the
    batch."""
    return column.name == "decimal" and value.name in ("int", "decimal") and value.scale <= column.scale


def _fit(constant: typed.Constant, type_: typed.Type) -> typed.Constant | None:
    """Return a number literal converted to ``type_``, None if it does not fit."""
    assert not isinstance(constant.value, str)
    value = Decimal(constant.value)
    if type_ == typed.FLOAT:
        return typed.Constant(value if "." in str(value) else Decimal(f"{value:f}.0"), type_, constant.span)
    digits = digits_of(constant)
    if digits is None or digits.scale > type_.scale or digits.precision - digits.scale > type_.precision - type_.scale:
        return None
    return typed.Constant(Decimal(f"{value:.{type_.scale}f}"), type_, constant.span)


def _column_help(value: typed.Expression, column: typed.Type) -> str | None:
    if isinstance(value, typed.Constant) and value.type == typed.STRING:
        return _literal_help(str(value.value), column)
    if column == typed.STRING and isinstance(value, typed.Constant):
        return f'write `"{value}"` for a string'
    if column == typed.FLOAT and (value.type == typed.INT or value.type.name == "decimal"):
        text = f"({value})" if isinstance(value, typed.Binary) else str(value)
        operation = "* 1.0" if value.type == typed.INT else "/ 1"
        return f"write `{text} {operation}` to make a float of it"
    return None


def _comparison_help(side: typed.Expression, other: typed.Expression) -> str | None:
    if isinstance(side, typed.Constant) and side.type == typed.STRING:
        return _literal_help(str(side.value), other.type)
    return None


def _literal_help(text: str, wanted: typed.Type) -> str | None:
    """Return help on writing the text of a string literal as a value of the wanted type, None if there is none."""
    if wanted == typed.DATE:
        return 'write dates as `date"2026-01-31"`'
    if wanted == typed.TIMESTAMP:
        return 'write timestamps as `timestamp"2026-01-31 12:00:00"`, in UTC'
    if wanted.numeric and text.removeprefix("-").replace(".", "", 1).isdecimal():
        return f"write `{text}` without quotes"
    if wanted == typed.BOOL and text in ("true", "false"):
        return f"write `{text}` without quotes"
    return None
