"""Infers the types of the columns of NDlog programs, which declare only some of their keys.

Whatever must be of one type is joined: columns and the variables in them, the sides of comparisons and assignments. The
types of constants, functions and keys then spread. ``+`` joins strings if one side is a string. What stays open is an
int if it is computed with or compared with an integer, otherwise a string, as addresses and symbols are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...functions import FUNCTIONS, VARIABLES
from ...ir import syntax
from ...source import Span

KEY_TYPES = {
    **dict.fromkeys(("int32", "uint32", "int64", "uint64", "int", "uint"), "int"),
    **dict.fromkeys(("double", "real", "float"), "float"),
    **dict.fromkeys(("str", "string", "cid", "id"), "string"),
    "bool": "bool",
    "list": "list",
}
"""The types of keys in RapidNet."""

_RESULTS = {
    **{
        name: result.name
        for name, function in FUNCTIONS.items()
        for result in [function.signatures[0].result]
        if result.name not in VARIABLES and result.element is None
    },
    **dict.fromkeys(("f_first", "f_last", "element_at", "array_min", "array_max", "flatten"), "element"),
    **dict.fromkeys(("slice", "reverse", "array_sort", "array_distinct", "abs", "greatest", "least"), "first"),
    **dict.fromkeys(("concat", "array_append", "array_prepend", "array_remove"), "first"),
    "f_concatPath": "second",
}
"""The result types of functions; ``first`` and ``second`` are the types of arguments, ``element`` of a list's
elements."""

_OF_LISTS = {
    **dict.fromkeys(("f_size", "size", "f_first", "f_last", "slice", "arrays_overlap", "flatten"), None),
    **dict.fromkeys(("f_member", "f_inPath", "array_contains", "array_position"), 1),
    **dict.fromkeys(("array_append", "array_prepend", "array_remove"), 1),
    **dict.fromkeys(("element_at", "array_sort", "array_distinct", "array_min", "array_max", "array_join"), None),
}
"""Functions whose first argument is a list, with the place of the argument that may be one of its elements."""

_OF_ONE_TYPE = ("concat", "arrays_overlap")
"""Functions whose arguments are all of one type."""


@dataclass
class _Class:
    """Knowledge of things of one type: its ``kind``, the class of the ``element`` of a list, whether it may be
    a number, and whether it is an address. While its kind is open, ``users`` are the steps that wait for it."""

    kind: str = ""
    element: int | None = None
    numeric: bool = False
    located: bool = False
    users: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Arithmetic:
    """An operation whose operands and result are classes."""

    op: str
    left: int
    right: int
    result: int


@dataclass(frozen=True)
class _Joined:
    """A call of ``f_concat``: its arguments, the first of which may be an element, and its result."""

    first: int
    second: int
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
        self.joined: list[_Joined] = []
        self.steps: list[_Joined | _Arithmetic] = []
        #: The steps through which something may follow from what has been decided, by round and place, and the last one
        #: that was looked at: rounds go through the steps in order.
        self.pending: list[tuple[int, int]] = []
        self.last = (0, -1)
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
        """Make two classes one, unless they are of different types or one is a list of the other; return whether that
        is new."""
        one, other = self.root(one), self.root(other)
        first, second = self.classes[one], self.classes[other]
        if one == other or (first.kind and second.kind and first.kind != second.kind):
            return False
        if other in self._elements(one) or one in self._elements(other):
            return False
        elements = (first.element, second.element)
        self.parents[other] = one
        self._share_users(first, second)
        first.kind = first.kind or second.kind
        first.numeric = first.numeric or second.numeric
        first.located = first.located or second.located
        first.element = elements[0] if elements[0] is not None else elements[1]
        if elements[0] is not None and elements[1] is not None:
            self.join(elements[0], elements[1])
        return True

    def _share_users(self, first: _Class, second: _Class) -> None:
        """Give the steps that wait for one of two classes to the first, or let them go on if the other is known."""
        few, many = sorted((first.users, second.users), key=len)
        many += few
        first.users, second.users = many, []
        if first.kind or second.kind:
            self._look_at(many)
            first.users = []

    def _elements(self, place: int) -> Iterator[int]:
        """Yield the classes of the elements of a list, of their elements, and so on."""
        element = self.classes[place].element
        while element is not None:
            element = self.root(element)
            yield element
            element = self.classes[element].element

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
            column = self.column(atom.relation, place)
            self.join(column, self._of(number, argument))
            if place == atom.location:
                self.classes[self.root(column)].located = True

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
        arguments = [self._of(number, argument) for argument in call.arguments]
        if call.name in self.functions:
            function = self.functions[call.name]
            for argument, parameter in zip(arguments, function.parameters, strict=False):
                self.join(argument, self._declared(parameter.type))
            return self._declared(function.result)
        element = self.new()
        if call.name in _OF_LISTS and arguments:
            self.join(arguments[0], self.new("list", element))
            place = _OF_LISTS[call.name]
            if place is not None and place < len(arguments):
                self.join(element, arguments[place])
        if call.name in ("f_init", "f_append"):
            for argument in arguments:
                self.join(element, argument)
            return self.new("list", element)
        if call.name in _OF_ONE_TYPE:
            for argument in arguments[1:]:
                self.join(arguments[0], argument)
        if call.name == "flatten":
            self.join(element, self.new("list"))
        if call.name == "split":
            return self.new("list", self.new("string"))
        if call.name == "f_concatPath" and len(arguments) == 2:
            self.join(arguments[1], self.new("list", element))
            self.join(element, arguments[0])
        if call.name == "f_concat" and len(arguments) == 2:
            result = self.new("list")
            self.joined.append(_Joined(arguments[0], arguments[1], result))
            return result
        kind = _RESULTS.get(call.name, "")
        if kind in ("first", "second"):
            place_of_result = 0 if kind == "first" else 1
            return arguments[place_of_result] if place_of_result < len(arguments) else self.new()
        return element if kind == "element" else self.new(kind)

    # ---- solution --------------------------------------------------------------------------------------------------

    def solve(self) -> None:
        """Decide the type of everything. What is decided stays so: a step is looked at again only when the kind of a
        class in it becomes known."""
        self.steps += [*self.joined, *self.arithmetic]
        for number, step in enumerate(self.steps):
            classes = (step.first,) if isinstance(step, _Joined) else (step.left, step.right, step.result)
            for class_ in (self.classes[self.root(place)] for place in classes):
                if not class_.kind:
                    class_.users.append(number)
        self._look_at(range(len(self.steps)))
        self._spread()
        for operation in self.arithmetic:
            while self._assume_operation(operation):
                self._spread()
        for call in self.joined:
            while self._assume_joined(call):
                self._spread()
        for place, parent in enumerate(self.parents):
            if parent == place and self._decide(place, "int" if self.classes[place].numeric else "string"):
                self._spread()

    def _look_at(self, steps: Iterable[int]) -> None:
        """Let steps be looked at: those behind the last one in this round, the others in the next."""
        number, last = self.last
        for step in steps:
            heapq.heappush(self.pending, (number if step > last else number + 1, step))

    def _spread(self) -> None:
        """Follow what is known through operations."""
        while self.pending:
            self.last = heapq.heappop(self.pending)
            self._follow(self.steps[self.last[1]])
        self.last = (self.last[0] + 1, -1)

    def _follow(self, step: _Joined | _Arithmetic) -> None:
        """Decide or join what follows through one step."""
        if isinstance(step, _Joined):
            kind = self.known(step.first)
            self.join(step.second, step.result)
            if kind == "list":
                self.join(step.first, step.result)
            elif kind:
                element = self.classes[self.root(step.result)].element
                assert element is not None
                self.join(element, step.first)
            return
        kinds = [self.known(step.left), self.known(step.right)]
        if step.op == "+" and "string" in (*kinds, self.known(step.result)):
            self._decide(step.result, "string")
        elif "float" in kinds:
            self._decide(step.result, "float")
        elif kinds == ["int", "int"]:
            self._decide(step.result, "int")

    def _decide(self, place: int, kind: str) -> bool:
        class_ = self.classes[self.root(place)]
        if class_.kind:
            return False
        class_.kind = kind
        self._look_at(class_.users)
        class_.users = []
        return True

    def _decide_all(self, places: Iterable[int], kind: str) -> bool:
        """Decide the types of all ``places`` that are open; return whether there was one."""
        return sum(self._decide(place, kind) for place in places) > 0

    def _assume_operation(self, step: _Arithmetic) -> bool:
        """Decide an open type of an operation by what is usual; return whether there was one."""
        places = (step.left, step.right, step.result)
        kinds = [self.known(place) for place in places]
        if all(kinds):
            return False
        if self.known(step.result) == "string":
            texts = [place for place in places[:2] if not self._is_number(place)]
            return self._decide_all(texts, "string") or self._decide_all(places[:2], "int")
        # An integer constant takes the type of the other side.
        return self._decide_all(places, "float" if "float" in kinds else "int")

    def _assume_joined(self, step: _Joined) -> bool:
        """Join the first argument of ``f_concat``, if it is open, with the result or its elements; return whether that
        is new."""
        class_ = self.classes[self.root(step.first)]
        if class_.kind:
            return False
        # Addresses and numbers are elements, and so is what the list has among its elements already.
        if not class_.located and not class_.numeric and self.join(step.first, step.result):
            return True
        element = self.classes[self.root(step.result)].element
        return element is not None and self.join(element, step.first)

    def _is_number(self, place: int) -> bool:
        return self.classes[self.root(place)].numeric

    def type_of(self, relation: str, place: int, span: Span) -> syntax.TypeName:
        """Return the type of a column, to be written in a declaration at ``span``."""
        return self._type(self.column(relation, place), span)

    def _type(self, place: int, span: Span) -> syntax.TypeName:
        class_ = self.classes[self.root(place)]
        if class_.kind != "list":
            return syntax.TypeName(class_.kind or "string", (), None, span)
        assert class_.element is not None
        return syntax.TypeName("list", (), self._type(class_.element, span), span)

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
