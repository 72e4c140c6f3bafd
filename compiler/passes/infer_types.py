"""Gives every column, variable and expression its type.

Before::

    input relation link(@src: int, dst: int, cost: float)
    relation path(S: unknown, D: unknown, C: unknown)

    path_1: path(S, D, 0) :- link(S, D, _).
    path_2: path(S, D, C) :- link(S, Z, C1), path(Z, D, C2), C = C1 + C2 * 2.

After (the literals have become floats)::

    relation path(S: int, D: int, C: float)

    path_1: path(S, D, 0.0) :- link(S, D, _).
    path_2: path(S, D, C) :- link(S, Z, C1), path(Z, D, C2), C = C1 + (C2 * 2.0).

The types of undeclared columns flow from bodies to heads until nothing changes. A number literal decides a column only
where nothing else does, the integer ones making an int and the others a float. Variables never convert between columns;
arithmetic and comparisons do, and then say so with ``Convert``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ..diagnostics import Diagnostics, Note
from ..ir import typed
from ..source import Span
from .terms import variables_of

_INT_DIGITS = 19  # of the largest 64-bit int
_MAX_DIGITS = 38  # of a decimal in both engines


def infer_types(program: typed.Program, diagnostics: Diagnostics) -> typed.Program:
    """The program with all types in place; a type that an error leaves open is ``broken``."""
    columns = _infer_columns(program, diagnostics)
    relations = {relation.name: _with_types(relation, columns) for relation in program.relations}
    rules = tuple(_RuleTyper(rule, relations, diagnostics).rule() for rule in program.rules)
    return typed.Program(tuple(relations.values()), rules, program.sources)


_Columns = dict[tuple[str, int], typed.Type]


def _with_types(relation: typed.Relation, columns: Mapping[tuple[str, int], typed.Type]) -> typed.Relation:
    return replace(
        relation,
        columns=tuple(
            replace(column, type=columns[relation.name, place]) for place, column in enumerate(relation.columns)
        ),
    )


# ---- columns -------------------------------------------------------------------------------------------------------


def _infer_columns(program: typed.Program, diagnostics: Diagnostics) -> _Columns:
    """The type of every column, by flow from bodies to heads."""
    failed = diagnostics.failed  # What a column lacks may then be what was refused.
    columns: _Columns = {
        (relation.name, place): column.type
        for relation in program.relations
        for place, column in enumerate(relation.columns)
    }
    for place in _unsafe_places(program):
        if columns[place] == typed.UNKNOWN:
            columns[place] = typed.BROKEN  # check_safety reports the variable.
    while True:
        _flow(program.rules, columns)
        missing = [place for place, type_ in columns.items() if type_ == typed.UNKNOWN]
        if not missing:
            return columns
        defaults = ((place, _literal_default(program.rules, place)) for place in missing)
        decided = next(((place, type_) for place, type_ in defaults if type_ is not None), None)
        if decided is not None:
            columns[decided[0]] = decided[1]
            continue
        name, index = missing[0]
        relation = program.relation(name)
        declaration = ", ".join(f"{column.name}: ..." for column in relation.columns)
        message = f"the type of column `{relation.columns[index].name}` of `{name}` cannot be inferred"
        if not failed:
            diagnostics.report("E0303", message, relation.span, help=f"declare it: `relation {name}({declaration})`")
        columns[name, index] = typed.BROKEN


def _unsafe_places(program: typed.Program) -> Iterable[tuple[str, int]]:
    """The head places whose variables nothing binds."""
    for rule in program.rules:
        bound = {variable.name for atom in rule.atoms for variable in variables_of(atom)}
        bound |= {literal.variable.name for literal in rule.body if isinstance(literal, typed.Assignment)}
        for place, argument in enumerate(rule.head.arguments):
            if any(variable.name not in bound for variable in variables_of(argument)):
                yield rule.head.relation, place


def _flow(rules: tuple[typed.Rule, ...], columns: _Columns) -> None:
    """Decide columns from the bodies of rules until nothing changes."""
    changed = True
    while changed:
        changed = False
        for rule in rules:
            places = [(rule.head.relation, place) for place in range(len(rule.head.arguments))]
            if all(columns[place] != typed.UNKNOWN for place in places):
                continue
            types = _variable_types(rule, columns)
            for place, argument in zip(places, rule.head.arguments, strict=True):
                if columns[place] == typed.UNKNOWN and not _is_number(argument):
                    columns[place] = _argument_type(argument, types)
                    changed = changed or columns[place] != typed.UNKNOWN


def _variable_types(rule: typed.Rule, columns: Mapping[tuple[str, int], typed.Type]) -> dict[str, typed.Type]:
    """What is known of the types of a rule's variables."""
    types: dict[str, typed.Type] = {}
    for atom in rule.atoms:
        for place, term in enumerate(atom.terms):
            if isinstance(term, typed.Variable) and types.get(term.name, typed.UNKNOWN) == typed.UNKNOWN:
                types[term.name] = columns[atom.relation, place]
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            types.setdefault(literal.variable.name, _expression_type(literal.value, types))
    return types


def _argument_type(argument: typed.Expression | typed.Aggregate, types: Mapping[str, typed.Type]) -> typed.Type:
    if not isinstance(argument, typed.Aggregate):
        return _expression_type(argument, types)
    if argument.argument is None:
        return typed.INT
    return _aggregate_type(argument.function, _expression_type(argument.argument, types))


def _expression_type(expression: typed.Expression, types: Mapping[str, typed.Type]) -> typed.Type:
    """The type of an expression as far as ``types`` tell it; ``broken`` where the rule will be refused."""
    match expression:
        case typed.Variable():
            return types.get(expression.name, typed.BROKEN)
        case typed.Constant():
            return expression.type
        case typed.Negate() | typed.Convert():
            return _expression_type(expression.operand, types)
        case typed.Binary():
            left = _expression_type(expression.left, types)
            right = _expression_type(expression.right, types)
            if typed.UNKNOWN in (left, right):
                return typed.UNKNOWN
            arithmetic = _arithmetic(
                expression.op, _as_operand(expression.left, left, right), _as_operand(expression.right, right, left)
            )
            return arithmetic.result if isinstance(arithmetic, _Arithmetic) else typed.BROKEN


def _literal_default(rules: tuple[typed.Rule, ...], place: tuple[str, int]) -> typed.Type | None:
    """The type that the number literals of a column give it, None if it has none."""
    found = [
        argument.type
        for rule in rules
        if rule.head.relation == place[0] and len(rule.head.arguments) > place[1]
        for argument in [rule.head.arguments[place[1]]]
        if isinstance(argument, typed.Constant) and _is_number(argument)
    ]
    if not found:
        return None
    return typed.FLOAT if typed.FLOAT in found else typed.INT


def _is_number(argument: typed.Expression | typed.Aggregate) -> bool:
    return isinstance(argument, typed.Constant) and argument.type.numeric


# ---- the rules of arithmetic ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Arithmetic:
    """The types to which the operands are converted, and that of the result."""

    left: typed.Type
    right: typed.Type
    result: typed.Type


@dataclass(frozen=True)
class _Mistake:
    """Why two operands do not go together."""

    code: str
    message: str
    help: str | None = None


def _arithmetic(op: str, left: typed.Type, right: typed.Type) -> _Arithmetic | _Mistake:
    """How ``left op right`` is computed."""
    types = (left, right)
    if typed.BROKEN in types:
        return _Arithmetic(left, right, typed.BROKEN)
    if op == "++":
        if left == right == typed.STRING:
            return _Arithmetic(left, right, typed.STRING)
        return _Mistake("E0309", f"`++` joins strings, but this joins {left} with {right}")
    if op == "+" and typed.STRING in types:
        return _Mistake("E0308", f"`+` adds numbers, but this adds {left} and {right}", "write `++` to join strings")
    if not (left.numeric and right.numeric):
        return _Mistake("E0304", f"`{op}` needs numbers, but this has {left} and {right}")
    if typed.FLOAT in types or (op == "/" and left != right) or (op == "/" and left.name == "decimal"):
        return _Arithmetic(typed.FLOAT, typed.FLOAT, typed.FLOAT)
    if left == right == typed.INT:
        return _Arithmetic(left, right, typed.INT)
    left, right = _as_decimal(left), _as_decimal(right)
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if op == "*":
        scale = left.scale + right.scale
        if scale > _MAX_DIGITS:
            message = f"the product of {left} and {right} has {scale} digits behind the point, more than {_MAX_DIGITS}"
            return _Mistake("E0311", message)
        result = typed.Type("decimal", min(_MAX_DIGITS, left.precision + right.precision + 1), scale)
        return _Arithmetic(left, right, result)
    carry = 1 if op in ("+", "-") else 0
    result = typed.Type("decimal", min(_MAX_DIGITS, whole + scale + carry), scale)
    return _Arithmetic(result, result, result)


def _common(left: typed.Type, right: typed.Type) -> typed.Type | None:
    """The type in which values of two types are compared, None if they cannot be."""
    if left == right:
        return left
    if not (left.numeric and right.numeric):
        return None
    found = _arithmetic("%", left, right)
    return found.result if isinstance(found, _Arithmetic) else None


def _as_decimal(type_: typed.Type) -> typed.Type:
    return typed.Type("decimal", _INT_DIGITS, 0) if type_ == typed.INT else type_


def _as_operand(expression: typed.Expression, type_: typed.Type, other: typed.Type) -> typed.Type:
    """The type with which an operand enters arithmetic: a literal beside a decimal is a decimal of its own digits."""
    if isinstance(expression, typed.Constant) and type_.numeric and other.name == "decimal":
        return _digits(expression) or type_
    return type_


def _digits(constant: typed.Constant) -> typed.Type | None:
    """The smallest decimal type that holds a number literal, None if none does."""
    assert not isinstance(constant.value, str)
    _, digits, exponent = Decimal(constant.value).as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    return typed.Type("decimal", precision, scale) if precision <= _MAX_DIGITS else None


def _aggregate_type(function: str, argument: typed.Type) -> typed.Type:
    if function == "count":
        return typed.INT
    if argument in (typed.BROKEN, typed.UNKNOWN):
        return argument
    if function == "avg":
        return typed.FLOAT
    if function == "sum" and argument.name == "decimal":
        return typed.Type("decimal", _MAX_DIGITS, argument.scale)
    return argument


# ---- rules ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Binding:
    """The type of a variable and the place that gave it: ``where`` ends a sentence that says so."""

    type: typed.Type
    span: Span
    where: str


class _RuleTyper:
    """Types one rule, with the types of all columns known."""

    def __init__(self, rule: typed.Rule, relations: Mapping[str, typed.Relation], diagnostics: Diagnostics) -> None:
        self.source = rule
        self.relations = relations
        self.diagnostics = diagnostics
        self.bindings: dict[str, _Binding] = {}

    def rule(self) -> typed.Rule:
        """The rule with types."""
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
                value = self._expression(literal.value)
                binding = _Binding(value.type, literal.variable.span, "by this assignment")
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
            value = self._in_column(self._expression(term), column, relation)
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

    def _in_column(self, value: typed.Expression, column: typed.Column, relation: typed.Relation) -> typed.Expression:
        """``value``, which has to be of the column's type, or a literal of one that has its value there."""
        if typed.BROKEN in (value.type, column.type) or value.type == column.type:
            return value
        name = _column_name(column, relation)
        if isinstance(value, typed.Constant) and _widens(value.type, column.type):
            fitting = _fit(value, column.type)
            if fitting is None:
                self.diagnostics.report("E0306", f"{name} is {column.type}, which cannot hold `{value}`", value.span)
            return fitting or value
        notes = self._notes(value, relation)
        code = "E0301" if isinstance(value, typed.Variable) else "E0302"
        message = f"{name} is {column.type}, but `{value}` is {value.type}"
        self.diagnostics.report(code, message, value.span, help=_column_help(value, column.type), notes=notes)
        return value

    def _is_inside_path(self, variable: typed.Variable) -> bool:
        """Whether a variable was made for a path: it is not in the text of the rule, or the rule was made for one."""
        written = re.search(rf"\b{re.escape(variable.name)}\b", self.source.text)
        return written is None or self.source.origin.startswith("made for the")

    def _notes(self, value: typed.Expression, relation: typed.Relation) -> tuple[Note, ...]:
        notes = []
        if isinstance(value, typed.Variable) and self._is_inside_path(value):
            notes.append(Note(f"`{value}` stands for a node on the way, which the path does not name", value.span))
        if isinstance(value, typed.Variable) and value.name in self.bindings:
            binding = self.bindings[value.name]
            notes.append(Note(f"`{value}` is {binding.type} {binding.where}", binding.span))
        notes.append(_relation_note(relation))
        return tuple(notes)

    def _aggregate(self, aggregate: typed.Aggregate, column: typed.Column, relation: typed.Relation) -> typed.Aggregate:
        argument = None if aggregate.argument is None else self._expression(aggregate.argument)
        result = _aggregate_type(aggregate.function, argument.type if argument is not None else typed.INT)
        if argument is not None and argument.type != typed.BROKEN:
            needs_number = aggregate.function in ("sum", "avg")
            if needs_number and not argument.type.numeric:
                message = f"`{aggregate.function}` needs numbers, but `{argument}` is {argument.type}"
                self.diagnostics.report("E0523", message, aggregate.span)
                result = typed.BROKEN
            elif aggregate.function in ("min", "max") and argument.type == typed.BOOL:
                message = f"`{aggregate.function}` needs values with an order, but `{argument}` is bool"
                self.diagnostics.report("E0523", message, aggregate.span)
                result = typed.BROKEN
        if typed.BROKEN not in (result, column.type) and result != column.type:
            message = f"{_column_name(column, relation)} is {column.type}, but `{aggregate}` is {result}"
            notes = (_relation_note(relation),)
            help = f"declare the column as {result}"
            self.diagnostics.report("E0302", message, aggregate.span, help=help, notes=notes)
        return replace(aggregate, argument=argument, type=result)

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
                    message = f"`-` needs a number, but `{operand}` is {operand.type}"
                    self.diagnostics.report("E0304", message, expression.span)
                    return replace(expression, operand=operand, type=typed.BROKEN)
                return replace(expression, operand=operand, type=operand.type)
            case typed.Binary():
                return self._binary(expression)

    def _binary(self, expression: typed.Binary) -> typed.Binary:
        left, right = self._expression(expression.left), self._expression(expression.right)
        found = _arithmetic(
            expression.op, _as_operand(left, left.type, right.type), _as_operand(right, right.type, left.type)
        )
        if isinstance(found, _Mistake):
            self.diagnostics.report(found.code, found.message, expression.span, help=found.help)
            return replace(expression, left=left, right=right, type=typed.BROKEN)
        left, right = self._convert(left, found.left), self._convert(right, found.right)
        return replace(expression, left=left, right=right, type=found.result)

    def _comparison(self, comparison: typed.Comparison) -> typed.Comparison:
        left, right = self._expression(comparison.left), self._expression(comparison.right)
        compared = replace(comparison, left=left, right=right)
        if typed.BROKEN in (left.type, right.type):
            return compared
        common = _common(_as_operand(left, left.type, right.type), _as_operand(right, right.type, left.type))
        if common is None:
            message = f"`{left}` is {left.type} and `{right}` is {right.type}, which cannot be compared"
            help = _comparison_help(left, right) or _comparison_help(right, left)
            notes = tuple(
                Note(f"`{side}` is {side.type} {binding.where}", binding.span)
                for side in (left, right)
                if isinstance(side, typed.Variable)
                for binding in [self.bindings[side.name]]
            )
            self.diagnostics.report("E0305", message, comparison.span, help=help, notes=notes)
            return compared
        if common == typed.BOOL and comparison.op not in ("=", "!="):
            message = f"`{comparison.op}` needs values with an order, but bool has none"
            self.diagnostics.report("E0310", message, comparison.span, help="compare with `=` or `!=`")
        return replace(comparison, left=self._convert(left, common), right=self._convert(right, common))

    def _convert(self, expression: typed.Expression, type_: typed.Type) -> typed.Expression:
        if expression.type == type_ or typed.BROKEN in (expression.type, type_):
            return expression
        if not isinstance(expression, typed.Constant):
            return typed.Convert(expression, type_, expression.span)
        fitting = _fit(expression, type_)
        if fitting is None:
            message = f"this is computed in {type_}, which cannot hold `{expression}`"
            self.diagnostics.report("E0306", message, expression.span)
        return fitting or expression


def _column_name(column: typed.Column, relation: typed.Relation) -> str:
    if relation.declared:
        return f"column `{column.name}` of `{relation.name}`"
    return f"argument {relation.columns.index(column) + 1} of `{relation.name}`"


def _relation_note(relation: typed.Relation) -> Note:
    return Note(f"`{relation.name}` is {'declared' if relation.declared else 'first derived'} here", relation.span)


def _widens(literal: typed.Type, column: typed.Type) -> bool:
    """Whether a literal is accepted where a number of another type is expected."""
    return literal in (typed.INT, typed.FLOAT) and column.name in ("float", "decimal") and literal != column


def _fit(constant: typed.Constant, type_: typed.Type) -> typed.Constant | None:
    """A number literal as one of ``type_``, None if it does not fit."""
    assert not isinstance(constant.value, str)
    value = Decimal(constant.value)
    if type_ == typed.FLOAT:
        return typed.Constant(value if "." in str(value) else Decimal(f"{value:f}.0"), type_, constant.span)
    digits = _digits(constant)
    if digits is None or digits.scale > type_.scale or digits.precision - digits.scale > type_.precision - type_.scale:
        return None
    return typed.Constant(Decimal(f"{value:.{type_.scale}f}"), type_, constant.span)


def _column_help(value: typed.Expression, column: typed.Type) -> str | None:
    if isinstance(value, typed.Constant) and value.type == typed.STRING:
        return _literal_help(str(value.value), column)
    if column == typed.STRING and isinstance(value, typed.Constant):
        return f'write `"{value}"` for a string'
    if column == typed.FLOAT and value.type == typed.INT:
        text = f"({value})" if isinstance(value, typed.Binary) else str(value)
        return f"write `{text} * 1.0` to make a float of it"
    return None


def _comparison_help(side: typed.Expression, other: typed.Expression) -> str | None:
    if isinstance(side, typed.Constant) and side.type == typed.STRING:
        return _literal_help(str(side.value), other.type)
    return None


def _literal_help(text: str, wanted: typed.Type) -> str | None:
    """How to write what stands in a string literal as a value of the type wanted."""
    if wanted == typed.DATE:
        return 'write dates as `date"2026-01-31"`'
    if wanted.numeric and text.removeprefix("-").replace(".", "", 1).isdecimal():
        return f"write `{text}` without quotes"
    if wanted == typed.BOOL and text in ("true", "false"):
        return f"write `{text}` without quotes"
    return None
