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

The types of undeclared columns flow from bodies to heads until nothing changes. A number literal, or a list of such,
decides a column only where nothing else does, the integer ones making an int and the others a float. Variables never
convert between columns; arithmetic, comparisons and calls do, and then say so with ``Convert``. An empty list takes its
type from where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from heapq import heappop, heappush

from ..diagnostics import Diagnostics, Note, listed
from ..functions import FUNCTIONS, Match
from ..ir import typed
from ..source import Span

_INT_DIGITS = 19  # of the largest 64-bit int
_MAX_DIGITS = 38  # of a decimal in both engines


def infer_types(program: typed.Program, diagnostics: Diagnostics) -> typed.Program:
    """The program with all types in place; a type that an error leaves open is ``broken``."""
    columns = _infer_columns(program, diagnostics)
    relations = {relation.name: _with_types(relation, columns) for relation in program.relations}
    functions = {function.name: function for function in program.functions}
    rules = tuple(_RuleTyper(rule, relations, functions, diagnostics).rule() for rule in program.rules)
    return replace(program, relations=tuple(relations.values()), rules=rules)


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
    flow = _Flow(program, columns)
    flow.run(range(len(program.rules)))
    for place in columns:
        decided = _literal_default(program.rules_of(place[0]), place) if columns[place] == typed.UNKNOWN else None
        if decided is not None:
            columns[place] = decided
            flow.run(flow.readers.get(place[0], ()))
    for name, index in columns:
        if columns[name, index] != typed.UNKNOWN:
            continue
        relation = program.relation(name)
        declaration = ", ".join(f"{column.name}: ..." for column in relation.columns)
        message = f"the type of column `{relation.columns[index].name}` of `{name}` cannot be inferred"
        if not failed:
            diagnostics.report("E0303", message, relation.span, help=f"declare it: `relation {name}({declaration})`")
        columns[name, index] = typed.BROKEN
        flow.run(flow.readers.get(name, ()))
    return columns


def _unsafe_places(program: typed.Program) -> Iterable[tuple[str, int]]:
    """The head places whose variables nothing binds."""
    for rule in program.rules:
        bound = {variable.name for atom in rule.atoms for variable in typed.variables_of(atom)}
        bound |= {literal.variable.name for literal in rule.body if isinstance(literal, typed.Assignment)}
        for place, argument in enumerate(rule.head.arguments):
            if any(variable.name not in bound for variable in typed.variables_of(argument)):
                yield rule.head.relation, place


class _Flow:
    """Decides columns from the bodies of rules."""

    def __init__(self, program: typed.Program, columns: _Columns) -> None:
        self.rules, self.columns = program.rules, columns
        self.results = {function.name: function.result for function in program.functions}
        self.readers: dict[str, list[int]] = {}  # of each relation the places of the rules
        for place, rule in enumerate(program.rules):
            for name in dict.fromkeys(atom.relation for atom in rule.atoms):
                self.readers.setdefault(name, []).append(place)

    def run(self, places: Iterable[int]) -> None:
        """Go on from the rules at some places until nothing changes.

        Rules come in their order, again and again; those that read nothing new are left out.
        """
        waiting = [(0, place) for place in places]  # in order, so a heap
        known = set(waiting)
        while waiting:
            turn, place = heappop(waiting)
            if self._decide(self.rules[place]):
                for reader in self.readers.get(self.rules[place].head.relation, ()):
                    again = (turn + (reader <= place), reader)
                    if again not in known:
                        known.add(again)
                        heappush(waiting, again)

    def _decide(self, rule: typed.Rule) -> bool:
        """Decide columns of a rule's head; whether any was."""
        columns, changed = self.columns, False
        places = [(rule.head.relation, place) for place in range(len(rule.head.arguments))]
        if all(columns[place] != typed.UNKNOWN for place in places):
            return False
        types = _variable_types(rule, columns, self.results)
        for place, argument in zip(places, rule.head.arguments, strict=True):
            if columns[place] == typed.UNKNOWN and not _is_literal(argument):
                found = _argument_type(argument, types, self.results)
                columns[place] = typed.UNKNOWN if found.open else found
                changed = changed or columns[place] != typed.UNKNOWN
        return changed


_Results = Mapping[str, typed.Type]
"""The types of what external functions give."""


def _variable_types(rule: typed.Rule, columns: _Columns, results: _Results) -> dict[str, typed.Type]:
    """What is known of the types of a rule's variables."""
    types: dict[str, typed.Type] = {}
    for atom in rule.atoms:
        for place, term in enumerate(atom.terms):
            if isinstance(term, typed.Variable) and types.get(term.name, typed.UNKNOWN) == typed.UNKNOWN:
                types[term.name] = columns[atom.relation, place]
    for literal in rule.body:
        if isinstance(literal, typed.Assignment):
            types.setdefault(literal.variable.name, _expression_type(literal.value, types, results))
    return types


def _argument_type(
    argument: typed.Expression | typed.Aggregate, types: Mapping[str, typed.Type], results: _Results
) -> typed.Type:
    if not isinstance(argument, typed.Aggregate):
        return _expression_type(argument, types, results)
    if argument.argument is None:
        return typed.INT
    return _aggregate_type(argument.function, _expression_type(argument.argument, types, results))


def _expression_type(expression: typed.Expression, types: Mapping[str, typed.Type], results: _Results) -> typed.Type:
    """The type of an expression as far as ``types`` tell it; ``broken`` where the rule will be refused."""
    match expression:
        case typed.Variable():
            return types.get(expression.name, typed.BROKEN)
        case typed.Constant():
            return expression.type
        case typed.Negate() | typed.Convert():
            return _expression_type(expression.operand, types, results)
        case typed.ListLiteral():
            items = [_expression_type(item, types, results) for item in expression.items]
            return typed.list_of(_element(expression.items, items) or typed.BROKEN)
        case typed.Call() if expression.function in results:
            return results[expression.function]
        case typed.Call():
            given = [_expression_type(argument, types, results) for argument in expression.arguments]
            for outcome in (typed.BROKEN, typed.UNKNOWN):
                if outcome in given:
                    return outcome
            match_ = _match(expression, given)
            return typed.BROKEN if match_ is None else match_.result
        case typed.Binary():
            left = _expression_type(expression.left, types, results)
            right = _expression_type(expression.right, types, results)
            if typed.UNKNOWN in (left, right):
                return typed.UNKNOWN
            if left.element is not None and right.element is not None:
                left = right if _is_literal(expression.left) else left
                right = left if _is_literal(expression.right) else right
            arithmetic = _arithmetic(
                expression.op, _as_operand(expression.left, left, right), _as_operand(expression.right, right, left)
            )
            return arithmetic.result if isinstance(arithmetic, _Arithmetic) else typed.BROKEN


def _literal_default(rules: tuple[typed.Rule, ...], place: tuple[str, int]) -> typed.Type | None:
    """The type that the literals of a column give it in the ``rules`` of its relation, None if they have none."""
    found: typed.Type | None = typed.NOTHING
    for rule in rules:
        if len(rule.head.arguments) > place[1]:
            argument = rule.head.arguments[place[1]]
            if _is_literal(argument) and found is not None:
                found = _met(found, _argument_type(argument, {}, {}))
    return None if found is None or found.open else found


def _met(one: typed.Type, other: typed.Type) -> typed.Type | None:
    """The type of two literals, floats where one of them is one."""
    if one.element is not None and other.element is not None:
        element = _met(one.element, other.element)
        return None if element is None else typed.list_of(element)
    return typed.joined(one, other) or _common(one, other)


def _is_literal(argument: typed.Expression | typed.Aggregate) -> bool:
    """Whether it is a number literal, or a list of such or of nothing."""
    if isinstance(argument, typed.ListLiteral):
        return all(map(_is_literal, argument.items))
    return isinstance(argument, typed.Constant) and argument.type.numeric


# ---- lists and calls -----------------------------------------------------------------------------------------------


def _element(items: Sequence[typed.Expression], types: Sequence[typed.Type]) -> typed.Type | None:
    """The type in which items of these types become elements of one list, None if there is none."""
    found = typed.NOTHING
    for outcome in (typed.BROKEN, typed.UNKNOWN):
        if outcome in types:
            return outcome
    for type_ in _beside(items, types):
        met = typed.joined(found, type_) or _common(found, type_)
        if met is None:
            return None
        found = met
    return found


def _beside(values: Sequence[typed.Expression], types: Sequence[typed.Type]) -> list[typed.Type]:
    """The types of values, those of number literals beside decimals being decimals of their own digits."""
    decimal = next((type_ for type_ in types if type_.name == "decimal"), typed.NOTHING)
    return [_as_operand(value, type_, decimal) for value, type_ in zip(values, types, strict=True)]


def _match(call: typed.Call, given: Sequence[typed.Type]) -> Match | None:
    """How the arguments of a call of the table's functions, of these types, fit."""
    function = FUNCTIONS[call.function]
    return function.match(given, _common) or function.match(_beside(call.arguments, given), _common)


def _retyped(literal: typed.ListLiteral, type_: typed.Type) -> bool:
    """Whether the items of a list can be written as elements of a list type."""
    return type_.element is not None and all(
        _retyped(item, type_.element)
        if isinstance(item, typed.ListLiteral) and item.type != type_.element
        else item.type == type_.element
        or typed.joined(item.type, type_.element) == type_.element
        or (isinstance(item, typed.Constant) and _widens(item.type, type_.element))
        for item in literal.items
    )


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
        result = typed.joined(left, right)
        if result is not None and result.element is not None:
            return _Arithmetic(result, result, result)
        return _Mistake("E0309", f"`++` joins strings or lists of one type, but this joins {left} with {right}")
    if op == "+" and (left.element is not None or right.element is not None):
        return _Mistake("E0308", f"`+` adds numbers, but this adds {left} and {right}", "write `++` to join lists")
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
    met = typed.joined(left, right)
    if met is not None or not (left.numeric and right.numeric):
        return met
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

    def __init__(
        self,
        rule: typed.Rule,
        relations: Mapping[str, typed.Relation],
        functions: Mapping[str, typed.ExternalFunction],
        diagnostics: Diagnostics,
    ) -> None:
        self.source = rule
        self.functions = functions
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
                value = self._assigned(literal.variable, self._expression(literal.value))
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
        self, value: typed.Expression, column: typed.Column, relation: typed.Relation, matched: bool = False
    ) -> typed.Expression:
        """``value``, which has to be of the column's type, or a literal of one that has its value there.

        A variable that is ``matched`` with a column is not converted.
        """
        if typed.BROKEN in (value.type, column.type) or value.type == column.type:
            return value
        name = _column_name(column, relation)
        if typed.joined(value.type, column.type) == column.type:
            return self._convert(value, column.type)
        if isinstance(value, typed.ListLiteral) and _retyped(value, column.type):
            return self._convert(value, column.type)
        converted = relation.declared and not (matched and isinstance(value, typed.Variable))
        if converted and _takes_decimal(column.type, value.type):
            return self._convert(value, column.type)
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
        extremum = aggregate.function in ("min", "max")
        if argument is not None and extremum and relation.declared and _takes_decimal(column.type, result):
            argument, result = self._convert(argument, column.type), column.type
        if argument is not None and argument.type != typed.BROKEN:
            needs_number = aggregate.function in ("sum", "avg")
            if needs_number and not argument.type.numeric:
                message = f"`{aggregate.function}` needs numbers, but `{argument}` is {argument.type}"
                self.diagnostics.report("E0523", message, aggregate.span)
                result = typed.BROKEN
            elif extremum and not argument.type.ordered:
                message = f"`{aggregate.function}` needs values with an order, but `{argument}` is {argument.type}"
                self.diagnostics.report("E0523", message, aggregate.span)
                result = typed.BROKEN
        if typed.BROKEN not in (result, column.type) and result != column.type:
            message = f"{_column_name(column, relation)} is {column.type}, but `{aggregate}` is {result}"
            notes = (_relation_note(relation),)
            help = f"declare the column as {result}"
            if extremum and result.name == column.type.name == "decimal":
                wide = replace(result, precision=38)
                help = f"declare the column with the digits that its values may need, such as {wide}"
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
            case typed.ListLiteral():
                return self._list(expression)
            case typed.Call():
                return self._call(expression)

    def _assigned(self, variable: typed.Variable, value: typed.Expression) -> typed.Expression:
        """The value of an assignment; an empty list is of the type of a column that takes the variable."""
        if not value.type.open:
            return value
        atoms = [(negation.atom.relation, negation.atom.terms) for negation in self.source.negations]
        for relation, terms in ((self.source.head.relation, self.source.head.arguments), *atoms):
            for term, column in zip(terms, self.relations[relation].columns, strict=True):
                taken = isinstance(term, typed.Variable) and term.name == variable.name
                if taken and typed.joined(value.type, column.type) == column.type:
                    return self._convert(value, column.type)
        return self._refused_list(value)

    def _refused_list(self, value: typed.Expression) -> typed.Expression:
        """A list of a type that nothing tells, once reported."""
        help = "let it stand where a list of a certain type is expected: in a declared column, or beside another list"
        self.diagnostics.report("E0313", f"the type of `{value}` cannot be inferred", value.span, help=help)
        return replace(value, type=typed.BROKEN)

    def _list(self, expression: typed.ListLiteral) -> typed.ListLiteral:
        items = [self._expression(item) for item in expression.items]
        element = _element(items, [item.type for item in items])
        if element is None:
            types = listed(str(item.type) for item in items)
            message = f"the elements of a list are of one type, but these are {types}"
            self.diagnostics.report("E0314", message, expression.span)
            element = typed.BROKEN
        converted = tuple(self._convert(item, element) for item in items)
        return replace(expression, items=converted, type=typed.list_of(element))

    def _call(self, call: typed.Call) -> typed.Call:
        arguments = tuple(self._expression(argument) for argument in call.arguments)
        call = replace(call, arguments=arguments, type=typed.BROKEN)
        given = [argument.type for argument in arguments]
        external = self.functions.get(call.function) if call.external else None
        if typed.BROKEN in given:
            return call if external is None else replace(call, type=external.result)
        if external is not None:
            return self._external_call(call, external)
        function, match_ = FUNCTIONS[call.function], _match(call, given)
        if match_ is None:
            return self._wrong_arguments(call, "; ".join(map(str, function.signatures)))
        for argument, wanted in zip(arguments, match_.arguments, strict=True):
            if wanted.open and not match_.result.open:
                return self._wrong_list(call, argument)
        converted = tuple(self._convert(a, wanted) for a, wanted in zip(arguments, match_.arguments, strict=True))
        return replace(call, arguments=converted, type=match_.result, partial=function.may_lack_value(match_.arguments))

    def _wrong_list(self, call: typed.Call, argument: typed.Expression) -> typed.Call:
        self._refused_list(argument)
        return call

    def _external_call(self, call: typed.Call, function: typed.ExternalFunction) -> typed.Call:
        wanted = [parameter.type for parameter in function.parameters]
        call = replace(call, type=function.result, partial=True)
        if typed.BROKEN in wanted:
            return call
        fits = len(wanted) == len(call.arguments) and all(
            self._fits(argument, type_) for argument, type_ in zip(call.arguments, wanted, strict=True)
        )
        if not fits:
            types = ", ".join(map(str, wanted))
            note = Note(f"`{function.name}` is declared here", function.span)
            return self._wrong_arguments(call, f"{function.name}({types}): {function.result}", note)
        converted = tuple(self._convert(a, type_) for a, type_ in zip(call.arguments, wanted, strict=True))
        return replace(call, arguments=converted)

    def _fits(self, value: typed.Expression, wanted: typed.Type) -> bool:
        """Whether a value is of the type wanted, or a number or list that becomes one."""
        if typed.joined(value.type, wanted) == wanted:
            return True
        if isinstance(value, typed.ListLiteral):
            return _retyped(value, wanted)
        if isinstance(value, typed.Constant) and _widens(value.type, wanted):
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
        found = _arithmetic(
            expression.op, _as_operand(left, left.type, right.type), _as_operand(right, right.type, left.type)
        )
        if isinstance(found, _Mistake):
            self.diagnostics.report(found.code, found.message, expression.span, help=found.help)
            return replace(expression, left=left, right=right, type=typed.BROKEN)
        left, right = self._convert(left, found.left), self._convert(right, found.right)
        return replace(expression, left=left, right=right, type=found.result)

    def _comparison(self, comparison: typed.Comparison) -> typed.Comparison:
        left, right = self._alike(self._expression(comparison.left), self._expression(comparison.right))
        compared = replace(comparison, left=left, right=right)
        if typed.BROKEN in (left.type, right.type):
            return compared
        if isinstance(left, typed.Call) and right.type == typed.BOOL != left.type and right.span == comparison.span:
            message = f"`{left.function}` gives {left.type}, and a literal is true or false"
            advice = f"compare its value, as in `{left} = ...`"
            self.diagnostics.report("E0315", message, comparison.span, help=advice)
            return replace(compared, left=replace(left, type=typed.BROKEN))
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
        if common.open:
            self._refused_list(left)
            return compared
        if not common.ordered and comparison.op not in ("=", "!="):
            message = f"`{comparison.op}` needs values with an order, but {common} has none"
            self.diagnostics.report("E0310", message, comparison.span, help="compare with `=` or `!=`")
        return replace(comparison, left=self._convert(left, common), right=self._convert(right, common))

    def _alike(self, left: typed.Expression, right: typed.Expression) -> tuple[typed.Expression, typed.Expression]:
        """Two values that meet in an operation: a list of literals is of the other's type if it can be."""
        if isinstance(left, typed.ListLiteral) and left.type != right.type and _retyped(left, right.type):
            left = self._convert(left, right.type)
        elif isinstance(right, typed.ListLiteral) and left.type != right.type and _retyped(right, left.type):
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
            message = f"this is computed in {type_}, which cannot hold `{expression}`"
            self.diagnostics.report("E0306", message, expression.span)
        return fitting or expression


def _column_name(column: typed.Column, relation: typed.Relation) -> str:
    if relation.declared:
        return f"column `{column.name}` of `{relation.name}`"
    return f"argument {relation.columns.index(column) + 1} of `{relation.name}`"


def _relation_note(relation: typed.Relation) -> Note:
    return Note(f"`{relation.name}` is {'declared' if relation.declared else 'first derived'} here", relation.span)


def _takes_decimal(column: typed.Type, value: typed.Type) -> bool:
    """Whether a decimal column takes another decimal type: nothing is rounded; what is too large stops the batch."""
    return column.name == value.name == "decimal" and value.scale <= column.scale


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
