"""Expressions of the language as trees of SQL, which are NULL, or raise an error, where they have no value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from flintlog.compiler.ir import typed
from sqlglot import exp

from .functions import call_tree, is_large, let_tree, named_value
from .print_sql import bare, constant_tree, sql_type, wide_remainder

_ARITHMETIC: dict[str, type[exp.Binary]] = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul, "%": exp.Mod}


class ExpressionBuilder:
    """Builds the trees of expressions over variables with ``values``. ``functions`` has the names of external functions
    in SQL; ``conditions`` say how many items lists have at least."""

    def __init__(self, functions: Mapping[str, str], conditions: Iterable[typed.Assignment | typed.Comparison]) -> None:
        self.functions = functions
        self.values: dict[str, exp.Expr] = {}
        #: Values that are too large for copies, by the names that stand for them; each may use those before it.
        self.large: dict[str, exp.Expr] = {}
        self.uncertain: set[str] = set()
        self.assigned: dict[str, typed.Expression] = {}
        #: The number of items that lists have at least, by variable.
        self.sizes = dict(filter(None, map(_least_size, conditions)))

    def is_uncertain(self, expression: typed.Expression | typed.Term) -> bool:
        """Return whether an expression may have no value."""
        match expression:
            case typed.Binary(op="++"):
                return self.is_uncertain(expression.left) or self.is_uncertain(expression.right)
            case typed.ListLiteral():
                return any(map(self.is_uncertain, expression.items))
            case typed.Call():
                partial = expression.partial and not self.finds_items(expression)
                return partial or any(map(self.is_uncertain, expression.arguments))
            case typed.Binary() | typed.Negate():
                return True
            case typed.Convert():
                return self.is_uncertain(expression.operand) or _is_narrowing(expression)
            case typed.Variable():
                return expression.name in self.uncertain
            case _:
                return False

    def finds_items(self, call: typed.Call) -> bool:
        """Return whether a call takes items from a list and has a value if its arguments have: a condition demands that
        the list has so many items, or the call takes as many as there are from a place on."""
        if call.external or call.function not in ("element_at", "slice"):
            return False
        of, place, *number = call.arguments
        if not isinstance(place, typed.Constant) or not isinstance(place.value, int) or place.value < 1:
            return False
        if number:
            return _is_size(number[0])
        return isinstance(of, typed.Variable) and place.value <= self.sizes.get(of.name, 0)

    def only_fits(self, expression: typed.Expression | typed.Term) -> bool:
        """Return whether an expression lacks a value only if one does not fit its type: exact decimal arithmetic."""
        match expression:
            case typed.Variable() if expression.name in self.assigned:
                return self.only_fits(self.assigned[expression.name])
            case typed.Convert():
                return self.only_fits(expression.operand)
            case typed.Binary(op="+" | "-" | "*") if expression.type.name == "decimal":
                return self.only_fits(expression.left) and self.only_fits(expression.right)
            case typed.Negate() if expression.type.name == "decimal":
                return self.only_fits(expression.operand)
        return not self.is_uncertain(expression)

    def tried(self, expression: typed.Expression | typed.Term) -> exp.Expr:
        """Return an expression that is NULL where it has no value."""
        tree = self.expression(expression)
        return exp.Try(this=tree) if self.is_uncertain(expression) else tree

    def expression(self, expression: typed.Expression | typed.Term) -> exp.Expr:
        """Return an expression that may raise the errors of the engine."""
        tree = self.tree(expression)
        for name, value in reversed(self.large.items()):
            if any(not column.table and column.name == name for column in tree.find_all(exp.Column)):
                tree = let_tree(name, value.copy(), tree)
        return tree

    def shared(self, tree: exp.Expr) -> exp.Expr:
        """Return a value for several places of a tree: a name for it if it is large."""
        if not is_large(tree):
            return tree
        name = f"_v{len(self.large) + 1}"
        self.large[name] = tree
        return named_value(name)

    def tree(self, expression: typed.Expression | typed.Term) -> exp.Expr:
        """Return an expression in which large values have names."""
        match expression:
            case typed.Variable():
                return self.values[expression.name].copy()
            case typed.Constant():
                return constant_tree(expression)
            case typed.Convert():
                operand = self.tree(expression.operand)
                if expression.type == typed.FLOAT and _is_large_integer(expression.operand.type):
                    operand = exp.cast(operand, sql_type(typed.STRING))
                # Not exp.cast, which treats decimals of all sizes as one type.
                return exp.Cast(this=operand, to=sql_type(expression.type))
            case typed.Negate() if expression.type.name == "float":
                return exp.Sub(this=_zero(), expression=_grouped(self.tree(expression.operand), "-", right=True))
            case typed.Negate():
                return exp.Neg(this=_grouped(self.tree(expression.operand), "*", right=True))
            case typed.Binary():
                return self.binary(expression)
            case typed.ListLiteral():
                items = [self.part(item) for item in expression.items]
                array: exp.Expr = exp.Array(expressions=items)
                if not items:
                    array = exp.cast(array, sql_type(expression.type))
                return self.with_values(array, expression.items, items)
            case typed.Call():
                arguments = [self.part(part) for part in expression.arguments]
                call = call_tree(expression, arguments, self.functions)
                if expression.type.name == "decimal":
                    call = exp.Cast(this=call, to=sql_type(expression.type))
                return self.with_values(call, expression.arguments, arguments)
        raise AssertionError(expression)

    def part(self, expression: typed.Expression) -> exp.Expr:
        """Return an item of a list or an argument of a call; ``with_values`` copies those without a value."""
        tree = with_type(self.tree(expression), expression.type)
        return self.shared(tree) if self.is_uncertain(expression) else tree

    def with_values(self, tree: exp.Expr, parts: Sequence[typed.Expression], trees: Sequence[exp.Expr]) -> exp.Expr:
        """Return a tree that is NULL if one of its uncertain parts is, as lists and functions need not be."""
        there: list[exp.Expr] = [
            exp.Is(this=_grouped(part.copy(), "*", right=True), expression=exp.Not(this=exp.Null()))
            for source, part in zip(parts, trees, strict=True)
            if self.is_uncertain(source)
        ]
        return exp.Case(ifs=[exp.If(this=all_of(there), true=tree)]) if there else tree

    def binary(self, expression: typed.Binary) -> exp.Expr:
        """Return an operation of exactly its type. Floats that are not finite become NULL, and -0.0 becomes 0.0."""
        left, right = self.tree(expression.left), self.tree(expression.right)
        if not right.find(exp.Column, exp.Cast):
            left = with_type(left, expression.left.type)
        if expression.type == typed.INT and (_adds_constant(left) or _adds_constant(right)):
            left, right = _tried_apart(left), _tried_apart(right)
        left = _grouped(left, expression.op, right=False)
        right = _grouped(right, expression.op, right=True)
        if expression.op == "++":
            return exp.DPipe(this=left, expression=right)
        if expression.op == "/":
            if expression.type.name == "int":
                return exp.IntDiv(this=left, expression=right)
            result: exp.Expr = exp.Div(this=left, expression=right)
        elif expression.op == "%" and expression.type.name == "int" and not _is_positive(expression.right):
            result = wide_remainder(left, right)
        else:
            if expression.op == "*" and _is_narrow(expression):
                left = exp.cast(bare(left), exp.DataType.build(f"DECIMAL(19, {expression.left.type.scale})"))
            result = _ARITHMETIC[expression.op](this=left, expression=right)
        if expression.type.name == "decimal":
            return exp.Cast(this=result, to=sql_type(expression.type))
        if expression.type.name == "float":
            if expression.op in ("*", "/", "%"):
                result = exp.Add(this=result, expression=_zero())
            for outside in ("Infinity", "-Infinity", "NaN"):
                value = exp.cast(exp.Literal.string(outside), sql_type(typed.FLOAT))
                result = exp.Nullif(this=result, expression=value)
        return result


def _is_large_integer(type_: typed.Type) -> bool:
    """Return whether a type has integers of over 64 bits, which DuckDB 2.0 does not round to the nearest float."""
    return type_.name == "decimal" and type_.scale == 0 and type_.precision > 18


def _zero() -> exp.Expr:
    """Return the float 0, which added to -0.0 makes 0.0: the two are equal but print differently."""
    return exp.Literal.number("0E0")


def _is_positive(expression: typed.Expression) -> bool:
    """Return whether an expression is a positive integer literal."""
    return isinstance(expression, typed.Constant) and isinstance(expression.value, int) and expression.value > 0


def _is_narrowing(conversion: typed.Convert) -> bool:
    """Return whether a conversion is to a decimal with too few integer digits for some numbers."""
    target, source = conversion.type, conversion.operand.type
    digits = 19 if source == typed.INT else source.precision - source.scale
    return target.name == "decimal" and target.precision - target.scale < digits


def _is_narrow(product: typed.Binary) -> bool:
    """Return whether DuckDB would compute a product of decimals in 18 digits although it may have more."""
    digits = (product.left.type.precision, product.right.type.precision)
    return product.type.name == "decimal" and max(digits) <= 18 < sum(digits)


def _least_size(condition: typed.Assignment | typed.Comparison) -> tuple[str, int] | None:
    """Return the variable of which a condition says that it is a list of at least so many items, with this number."""
    match condition:
        case typed.Comparison(op="=" | ">=" | ">", left=size, right=typed.Constant(value=int(number))):
            pass
        case typed.Comparison(op="=" | "<=" | "<", left=typed.Constant(value=int(number)), right=size):
            pass
        case _:
            return None
    match size:
        case typed.Call(function="size" | "f_size", arguments=(typed.Variable(name=name),), external=False):
            return name, number + (condition.op in ("<", ">"))
    return None


def _is_size(number: typed.Expression) -> bool:
    """Return whether a number is never negative: a size, or such a constant."""
    if isinstance(number, typed.Call):
        return number.function == "size" and not number.external
    return isinstance(number, typed.Constant) and isinstance(number.value, int) and number.value >= 0


_CHAINED = (exp.Add, exp.Sub, exp.Mul)


def _adds_constant(tree: exp.Expr) -> bool:
    """Return whether a tree is a number literal, or a sum, difference or product with one."""
    tree = bare(tree.this if isinstance(tree, exp.Cast | exp.Neg) else tree)
    if isinstance(tree, _CHAINED):
        return _adds_constant(tree.expression) or _adds_constant(tree.this)
    return isinstance(tree, exp.Literal)


def _tried_apart(tree: exp.Expr) -> exp.Expr:
    """Return an operand in a TRY of its own: DuckDB would turn (X + 1) + 2 into X + 3, which overflows elsewhere."""
    inner = bare(tree.this if isinstance(tree, exp.Cast | exp.Neg) else tree)
    return exp.Try(this=bare(tree)) if isinstance(inner, _CHAINED) else tree


def with_type(tree: exp.Expr, type_: typed.Type) -> exp.Expr:
    """Return an expression, cast to 64 bits if it has only integer literals, for which engines would take 32."""
    literals = type_ == typed.INT and not tree.find(exp.Column, exp.Cast)
    return exp.cast(tree, sql_type(type_)) if literals else tree


def all_of(conditions: list[exp.Expr]) -> exp.Expr:
    """Return the conjunction of conditions, without parentheses."""
    return reduce(lambda left, right: exp.And(this=left, expression=right), conditions)


def _grouped(tree: exp.Expr, op: str, right: bool) -> exp.Expr:
    """Return a tree as an operand of ``op``, in parentheses if it binds less tightly."""
    additive = isinstance(tree, exp.Add | exp.Sub | exp.DPipe)
    tight = op in ("*", "/", "%")
    multiplicative = isinstance(tree, exp.Mul | exp.Div | exp.IntDiv | exp.Mod)
    loose = (additive and (tight or right)) or (multiplicative and tight) or isinstance(tree, exp.Neg)
    return exp.paren(tree, copy=False) if loose else tree
