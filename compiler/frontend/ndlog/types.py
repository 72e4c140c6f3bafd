"""Infers the types of the columns of NDlog programs, which declare only some of their keys.

Whatever must be of one type is joined: columns and the variables in them, the sides of comparisons and assignments. The
types of constants, functions and keys then spread. ``+`` joins strings if one side is a string. What stays open is an
int if it is computed with or compared with an integer, otherwise a string, as addresses and symbols are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...ir import syntax
from ...source import Span

#: The types of keys in RapidNet.
KEY_TYPES = {
    **dict.fromkeys(("int32", "uint32", "int64", "uint64", "int", "uint"), "int"),
    **dict.fromkeys(("double", "real", "float"), "float"),
    **dict.fromkeys(("str", "string", "cid", "id"), "string"),
    "bool": "bool",
    "list": "list",
}

#: The result types of functions; ``first`` and ``second`` are the types of arguments, ``element`` of a list's elements.
_RESULTS = {
    **dict.fromkeys(("f_size", "f_member", "size", "length", "year", "month", "day", "sign", "floor", "ceil"), "int"),
    **dict.fromkeys(("int", "instr", "array_position", "bit_count", "pmod", "datediff"), "int"),
    **dict.fromkeys(("float", "sqrt", "round"), "float"),
    **dict.fromkeys(("string", "upper", "lower", "trim", "substring", "replace", "md5", "concat_ws"), "string"),
    **dict.fromkeys(("split_part", "left", "right", "array_join"), "string"),
    **dict.fromkeys(("f_inPath", "contains", "startswith", "endswith", "array_contains"), "bool"),
    **dict.fromkeys(("f_first", "f_last", "element_at", "array_min", "array_max"), "element"),
    **dict.fromkeys(("slice", "reverse", "array_sort", "array_distinct", "abs", "greatest", "least"), "first"),
    "f_concatPath": "second",
}
#: Functions whose first argument is a list, with the place of the argument that may be one of its elements.
_OF_LISTS = {
    **dict.fromkeys(("f_size", "size", "f_first", "f_last", "slice"), None),
    **dict.fromkeys(("f_member", "f_inPath", "array_contains", "array_position"), 1),
    **dict.fromkeys(("element_at", "array_sort", "array_distinct", "array_min", "array_max", "array_join"), None),
}


@dataclass
class _Class:
    """Knowledge of things of one type: its ``kind``, the class of the ``element`` of a list, and whether it may be
    a number."""

    kind: str = ""
    element: int | None = None
    numeric: bool = False


@dataclass(frozen=True)
class _Arithmetic:
    """An operation whose operands and result are classes."""

    op: str
    left: int
    right: int
    result: int


class Inference:
    """The types of columns and of expressions, from all rules of a program."""

    def __init__(self, functions: Mapping[str, syntax.FunctionDeclaration], relations: Iterable[str]) -> None:
        self.functions = functions
        self.relations = frozenset(relations)
        self.parents: list[int] = []
        self.classes: list[_Class] = []
        self.columns: dict[tuple[str, int], int] = {}
        self.variables: dict[tuple[int, str], int] = {}
        self.arithmetic: list[_Arithmetic] = []
        #: The first argument, the second and the result of ``f_concat``, whose first argument may be an element.
        self.joined: list[tuple[int, int, int]] = []
        self.results: dict[int, int] = {}
        self.operands: dict[int, tuple[int, int]] = {}

    # ---- classes ---------------------------------------------------------------------------------------------------

    def new(self, kind: str = "", element: int | None = None, numeric: bool = False) -> int:
        """Return a new class."""
        self.parents.append(len(self.parents))
        if kind == "list" and element is None:
            element = self.new()
            self.parents.append(len(self.parents))
        while len(self.classes) < len(self.parents):
            self.classes.append(_Class())
        place = len(self.parents) - 1
        self.classes[place] = _Class(kind, element, numeric)
        return place

    def root(self, place: int) -> int:
        """Return the class that ``place`` has been joined to."""
        while self.parents[place] != place:
            self.parents[place] = self.parents[self.parents[place]]
            place = self.parents[place]
        return place

    def known(self, place: int) -> str:
        """Return the kind of a class, empty if it is open."""
        return self.classes[self.root(place)].kind

    def join(self, one: int, other: int) -> bool:
        """Make two classes one, unless they are of different types; return whether that is new."""
        one, other = self.root(one), self.root(other)
        first, second = self.classes[one], self.classes[other]
        if one == other or (first.kind and second.kind and first.kind != second.kind):
            return False
        elements = (first.element, second.element)
        self.parents[other] = one
        first.kind = first.kind or second.kind
        first.numeric = first.numeric or second.numeric
        first.element = elements[0] if elements[0] is not None else elements[1]
        if elements[0] is not None and elements[1] is not None:
            self.join(elements[0], elements[1])
        return True

    def column(self, relation: str, place: int) -> int:
        """Return the class of a column."""
        if (relation, place) not in self.columns:
            self.columns[relation, place] = self.new()
        return self.columns[relation, place]

    def declare(self, relation: str, place: int, type_: syntax.TypeName) -> None:
        """Give a column the type of a declaration."""
        self.join(self.column(relation, place), self._declared(type_))

    def _declared(self, type_: syntax.TypeName) -> int:
        if type_.name == "list":
            return self.new("list", self._declared(type_.element) if type_.element is not None else None)
        return self.new(type_.name)

    # ---- rules -----------------------------------------------------------------------------------------------------

    def add(self, number: int, rule: syntax.RuleNode) -> None:
        """Learn from a rule, which has the given number."""
        self._atom(number, rule.head)
        self._body(number, rule.body)

    def _body(self, number: int, body: Sequence[syntax.Literal]) -> None:
        for literal in body:
            match literal:
                case syntax.AtomNode():
                    self._atom(number, literal)
                case syntax.NegationNode(syntax.AtomNode() as atom):
                    self._atom(number, atom)
                case syntax.ComparisonNode():
                    self.join(self._of(number, literal.left), self._of(number, literal.right))
                case syntax.Disjunction():
                    for alternative in literal.alternatives:
                        self._body(number, alternative)

    def _atom(self, number: int, atom: syntax.AtomNode) -> None:
        if atom.relation not in self.relations:
            self._call(number, syntax.CallNode(atom.relation, atom.arguments, atom.span))
            return
        for place, argument in enumerate(atom.arguments):
            self.join(self.column(atom.relation, place), self._of(number, argument))

    def _of(self, number: int, expression: syntax.Expression) -> int:
        """Return the class of an expression."""
        match expression:
            case syntax.VariableNode():
                if (number, expression.name) not in self.variables:
                    self.variables[number, expression.name] = self.new()
                return self.variables[number, expression.name]
            case syntax.WildcardNode():
                return self.new()
            case syntax.ConstantNode():
                if expression.kind == "int":
                    return self.new(numeric=True)
                return self.new(expression.kind)
            case syntax.Unary():
                place = self._of(number, expression.operand)
                self.classes[self.root(place)].numeric = True
                return place
            case syntax.BinaryNode():
                left, right = self._of(number, expression.left), self._of(number, expression.right)
                result = self.new()
                self.arithmetic.append(_Arithmetic(expression.op, left, right, result))
                self.results[id(expression)], self.operands[id(expression)] = result, (left, right)
                return result
            case syntax.ListNode():
                element = self.new()
                for item in expression.items:
                    self.join(element, self._of(number, item))
                return self.new("list", element)
            case syntax.AggregateNode():
                argument = self.new() if expression.argument is None else self._of(number, expression.argument)
                kind = {"count": "int", "avg": "float"}.get(expression.function)
                return argument if kind is None else self.new(kind)
            case syntax.CallNode():
                return self._call(number, expression)

    def _call(self, number: int, call: syntax.CallNode) -> int:
        given = [self._of(number, argument) for argument in call.arguments]
        if call.name in self.functions:
            function = self.functions[call.name]
            for argument, parameter in zip(given, function.parameters, strict=False):
                self.join(argument, self._declared(parameter.type))
            return self._declared(function.result)
        element = self.new()
        if call.name in _OF_LISTS and given:
            self.join(given[0], self.new("list", element))
            place = _OF_LISTS[call.name]
            if place is not None and place < len(given):
                self.join(element, given[place])
        if call.name in ("f_init", "f_append"):
            for argument in given:
                self.join(element, argument)
            return self.new("list", element)
        if call.name == "f_concatPath" and len(given) == 2:
            self.join(given[1], self.new("list", element))
            self.join(element, given[0])
        if call.name == "f_concat" and len(given) == 2:
            result = self.new("list")
            self.joined.append((given[0], given[1], result))
            return result
        kind = _RESULTS.get(call.name, "")
        if kind in ("first", "second"):
            wanted = 0 if kind == "first" else 1
            return given[wanted] if wanted < len(given) else self.new()
        return element if kind == "element" else self.new(kind)

    # ---- solution --------------------------------------------------------------------------------------------------

    def solve(self) -> None:
        """Decide the type of everything."""
        while self._spread() or self._assume():
            pass

    def _spread(self) -> bool:
        """Follow what is known through operations; return whether anything was decided."""
        changed = False
        for first, second, result in self.joined:
            kind = self.known(first)
            changed |= self.join(second, result)
            if kind == "list":
                changed |= self.join(first, result)
            elif kind:
                element = self.classes[self.root(result)].element
                assert element is not None
                changed |= self.join(element, first)
        for step in self.arithmetic:
            kinds = [self.known(step.left), self.known(step.right)]
            if step.op == "+" and "string" in (*kinds, self.known(step.result)):
                changed |= self._decide(step.result, "string")
            elif "float" in kinds:
                changed |= self._decide(step.result, "float")
            elif kinds == ["int", "int"]:
                changed |= self._decide(step.result, "int")
        return changed

    def _decide(self, place: int, kind: str) -> bool:
        found = self.classes[self.root(place)]
        if found.kind:
            return False
        found.kind = kind
        return True

    def _decide_all(self, places: Iterable[int], kind: str) -> bool:
        """Decide the types of all ``places`` that are open; return whether there was one."""
        return sum(self._decide(place, kind) for place in places) > 0

    def _assume(self) -> bool:
        """Decide one open type by what is usual; return whether there was one."""
        for first, _, result in self.joined:
            if not self.known(first):
                return self.join(first, result)
        for step in self.arithmetic:
            places = (step.left, step.right, step.result)
            kinds = [self.known(place) for place in places]
            if all(kinds):
                continue
            if self.known(step.result) == "string":
                texts = [place for place in places[:2] if not self._is_number(place)]
                return self._decide_all(texts, "string") or self._decide_all(places[:2], "int")
            # An integer constant takes the type of the other side.
            return self._decide_all(places, "float" if "float" in kinds else "int")
        for place in range(len(self.classes)):
            if self.parents[place] == place and not self.classes[place].kind:
                return self._decide(place, "int" if self.classes[place].numeric else "string")
        return False

    def _is_number(self, place: int) -> bool:
        return self.classes[self.root(place)].numeric

    def type_of(self, relation: str, place: int, span: Span) -> syntax.TypeName:
        """Return the type of a column, to be written in a declaration at ``span``."""
        return self._type(self.column(relation, place), span, 0)

    def _type(self, place: int, span: Span, depth: int) -> syntax.TypeName:
        found = self.classes[self.root(place)]
        if found.kind != "list" or depth > 50:
            return syntax.TypeName(found.kind or "string", (), None, span)
        assert found.element is not None
        return syntax.TypeName("list", (), self._type(found.element, span, depth + 1), span)

    # ---- strings ---------------------------------------------------------------------------------------------------

    def joining(self, rule: syntax.RuleNode) -> syntax.RuleNode:
        """Return a rule in which ``+`` between strings is ``++``, and the other side is converted to a string."""
        head = replace(rule.head, arguments=tuple(map(self._joining, rule.head.arguments)))
        return replace(rule, head=head, body=tuple(map(self._joining_literal, rule.body)))

    def _joining_literal(self, literal: syntax.Literal) -> syntax.Literal:
        match literal:
            case syntax.AtomNode():
                return replace(literal, arguments=tuple(map(self._joining, literal.arguments)))
            case syntax.NegationNode(syntax.AtomNode() as atom):
                return replace(literal, atom=replace(atom, arguments=tuple(map(self._joining, atom.arguments))))
            case syntax.ComparisonNode():
                return replace(literal, left=self._joining(literal.left), right=self._joining(literal.right))
            case syntax.Disjunction():
                parts = (tuple(map(self._joining_literal, alternative)) for alternative in literal.alternatives)
                return replace(literal, alternatives=tuple(parts))
        return literal

    def _joining(self, expression: syntax.Expression) -> syntax.Expression:
        match expression:
            case syntax.BinaryNode():
                left, right = self._joining(expression.left), self._joining(expression.right)
                if expression.op == "+" and self.known(self.results[id(expression)]) == "string":
                    sides = zip((left, right), self.operands[id(expression)], strict=True)
                    left, right = (
                        side if self.known(place) == "string" else syntax.CallNode("string", (side,), side.span)
                        for side, place in sides
                    )
                    return replace(expression, op="++", left=left, right=right)
                return replace(expression, left=left, right=right)
            case syntax.Unary():
                return replace(expression, operand=self._joining(expression.operand))
            case syntax.CallNode():
                return replace(expression, arguments=tuple(map(self._joining, expression.arguments)))
            case syntax.ListNode():
                return replace(expression, items=tuple(map(self._joining, expression.items)))
            case syntax.AggregateNode() if expression.argument is not None:
                return replace(expression, argument=self._joining(expression.argument))
        return expression
