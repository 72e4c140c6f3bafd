"""Expressions and conditions of SQL, as cases that exclude each other.

    CASE WHEN a > 0 THEN a ELSE b END

has the value a if ``a > 0``, b if ``a <= 0``, and b if ``a = null``. A condition is true, false or unknown, as in SQL;
each of these is a list of conjunctions. If ``exact``, they exclude each other, as they must where copies count;
otherwise they may overlap, which takes fewer of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ...functions import FUNCTIONS
from ...ir import syntax, typed
from ...ir.syntax_printer import literal_text
from ...source import Span
from ...type_rules import Arithmetic, common_type, digits_of, result_of
from ..constants import TOO_LARGE_FLOAT, TOO_LARGE_INT, float_number, is_date, moment_text, whole_number
from .functions import AGGREGATES, ARITHMETIC, COMPARISONS, OPPOSITE, STRICT
from .scope import Case, Literals, Row, SqlValue, is_null_test, null, null_of, variables, without_repeats
from .text import Unsupported, count_of, only, placed, shown

if TYPE_CHECKING:
    from .queries import Queries

MOST_PARTS = 5
"""How many ``%`` a pattern may have."""

MOST_LISTED = 32
"""How many constants, or rows of them, are written out; more are the rows of a relation."""

INTERVALS = {
    ("date", "day"): ("date_add", 1),
    ("date", "week"): ("date_add", 7),
    ("date", "month"): ("add_months", 1),
    ("date", "year"): ("add_months", 12),
    ("timestamp", "second"): ("add_seconds", 1),
    ("timestamp", "minute"): ("add_seconds", 60),
    ("timestamp", "hour"): ("add_seconds", 3600),
    ("timestamp", "day"): ("add_seconds", 86400),
    ("timestamp", "week"): ("add_seconds", 604800),
}
"""By a type and a unit, the function that adds an interval, and how often what it adds is in one."""

MOST_DIGITS = 15
"""To how many digits after the point floats are rounded at most."""

TRUE, FALSE, UNKNOWN = "true", "false", "unknown"

MOST_CASES = 256
"""How many cases a condition or an expression may have."""

_NOT = {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}

ZERO = syntax.ConstantNode(0, "int", Span("", 1, 1, 1))

_MOMENT = re.compile(r"([0-9-]{10})(?:[ T]([0-9]{2}:[0-9]{2})(:[0-9]{2}(?:\.[0-9]{1,6})?)?Z?)?")
"""A date, the hour and minute of a timestamp, and its seconds."""


class SqlExpressions:
    """Translates expressions and conditions in rows. Queries in them are those of ``queries``."""

    def __init__(self, queries: Queries, exact: bool) -> None:
        self.queries, self.program, self.exact = queries, queries.program, exact

    def exactly(self) -> SqlExpressions:
        """Return expressions whose cases exclude each other."""
        return self if self.exact else SqlExpressions(self.queries, True)

    # ---- values ----------------------------------------------------------------------------------------------------

    def values(self, node: exp.Expr, row: Row) -> list[Case]:
        """Return the cases of an expression."""
        with placed(node):
            cases = self._values(node, row)
        if len(cases) > MOST_CASES:
            raise Unsupported(
                "E0792", f"this expression has more than {MOST_CASES} cases", node, "compute parts in views"
            )
        return cases

    def _values(self, node: exp.Expr, row: Row) -> list[Case]:
        span = self.program.span(node)
        if row.computed and (known := row.computed.get(self.queries.canonical(node, row))) is not None:
            return [((), known)]
        match node:
            case exp.Paren():
                return self.values(node.this, row)
            case exp.Column():
                only(node, "this", "table")
                if isinstance(node.this, exp.Star):
                    raise Unsupported("E0792", "`*` is not a value", node)
                value = row.find(node)
                return [((), replace(value, expression=replace(value.expression, span=span)))]
            case exp.Null():
                return [((), null(span))]
            case exp.CurrentTimestamp() | exp.Localtimestamp() | exp.CurrentDate():
                return [self.program.time(node, isinstance(node, exp.CurrentDate))]
            case exp.Anonymous(this=str() as name) if name.lower() == "now" and not node.expressions:
                return [self.program.time(node, False)]
            case exp.Literal() | exp.Boolean():
                return [((), constant(node, span))]
            case exp.Neg(this=exp.Literal() as number) if not number.is_string:
                return [((), constant(number, span, "-"))]
            case exp.Neg():
                return self.strict([self.values(node.this, row)], lambda v: _negative(v[0], span))
            case exp.Div():
                return self._division(node, row, span)
            case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
                return self._days(node, row, span)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.DPipe():
                given = [self.values(side, row) for side in (node.this, node.expression)]
                return self.strict(given, lambda v: self._arithmetic(ARITHMETIC[type(node)], v, node, span))
            case exp.Round() if node.args.get("decimals") is not None:
                return self._rounded(node, row, span)
            case exp.Coalesce():
                return self._coalesced([node.this, *node.expressions], row)
            case exp.Nullif():
                equal = exp.EQ(this=node.this, expression=node.expression)
                return self._chosen([(equal, exp.Null())], node.this, row)
            case exp.Case():
                only(node, "this", "ifs", "default")
                tests = [
                    (
                        branch.this if node.this is None else exp.EQ(this=node.this, expression=branch.this),
                        branch.args["true"],
                    )
                    for branch in node.args["ifs"]
                ]
                return self._chosen(tests, node.args.get("default"), row)
            case exp.If():
                return self._chosen([(node.this, node.args["true"])], node.args.get("false"), row)
            case exp.Greatest() | exp.Least() if node.args.get("ignore_nulls"):
                return self.values(_of_those_there(node), row)
            case exp.Cast():
                only(node, "this", "to")
                return self._cast(node, row, span)
            case exp.Subquery() | exp.Select():
                return self.queries.scalar(node, row, self.exact)
            case exp.Window():
                raise Unsupported(
                    "E0792",
                    "a window is not supported here",
                    node,
                    "number rows with row_number() alone, or aggregate in another view and join it",
                )
            case _ if type(node) in AGGREGATES or isinstance(node, exp.AggFunc):
                raise Unsupported(
                    "E0792", f"{function_name(node)} cannot stand here", node, "aggregate in another view"
                )
            case _ if self.is_condition(node):
                return [
                    (literals, SqlValue(syntax.ConstantNode(outcome == TRUE, "bool", span), typed.BOOL))
                    if outcome != UNKNOWN
                    else (literals, null(span))
                    for outcome in (TRUE, FALSE, UNKNOWN)
                    for literals in self.exactly().holds(node, row, outcome)
                ]
            case _:
                return self._call(node, row, span)

    def strict(self, given: Sequence[list[Case]], build: Callable[[list[SqlValue]], SqlValue]) -> list[Case]:
        """Return the cases of what is null where one of the given values is null, and built of them otherwise."""
        result: list[Case] = []
        for chosen in product(*given):
            literals = tuple(literal for case in chosen for literal in case[0])
            values = [value for _, value in chosen]
            span = values[0].expression.span
            if any(value.is_null for value in values):
                result.append((literals, null(span)))
                continue
            tested: Literals = ()
            for value in dict.fromkeys(value for value in values if value.nullable):
                result.append(((*literals, *tested, test(value, "=")), null(span)))
                tested = (*tested, test(value, "!="))
            plain = [replace(value, nullable=False) for value in values]
            result.append(((*literals, *tested), build(plain)))
        return result

    def _coalesced(self, nodes: Sequence[exp.Expr], row: Row) -> list[Case]:
        """Return the cases of the first of some expressions that is not null."""
        result: list[Case] = []
        for literals, value in self.values(nodes[0], row):
            if not value.is_null:
                result.append(
                    ((*literals, *([test(value, "!=")] if value.nullable else ())), replace(value, nullable=False))
                )
            if value.nullable:
                lacking = literals if value.is_null else (*literals, test(value, "="))
                others = self._coalesced(nodes[1:], row) if nodes[1:] else [((), null(value.expression.span))]
                result += [((*lacking, *more), other) for more, other in others]
        return unified(result)

    def _chosen(self, tests: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None, row: Row) -> list[Case]:
        """Return the cases of the expression whose test is the first that is true."""
        exact = self.exactly()
        result: list[Case] = []
        rest: list[Literals] = [()]
        for condition, chosen in tests:
            true = exact.holds(condition, row, TRUE)
            found = self.values(chosen, row)
            result += [((*a, *b, *c), v) for a in rest for b in true for c, v in found if may_hold((*a, *b, *c))]
            other = [*exact.holds(condition, row, FALSE), *exact.holds(condition, row, UNKNOWN)]
            rest = without_repetition((*a, *b) for a in rest for b in other)
            if len(rest) + len(result) > MOST_CASES:
                raise Unsupported(
                    "E0792", f"this has more than {MOST_CASES} cases", condition, "compute parts in views"
                )
        last = self.values(default, row) if default is not None else [((), null(self.program.span(tests[0][0])))]
        result += [((*a, *b), v) for a in rest for b, v in last]
        return unified(result)

    def _arithmetic(self, op: str, values: Sequence[SqlValue], node: exp.Expr, span: Span) -> SqlValue:
        left, right = typed_alike(values)
        if op == "+" and right.type == typed.DATE:
            left, right = right, left
        if op in ("+", "-") and left.type == typed.DATE and right.type == typed.INT:
            name = "date_add" if op == "+" else "date_sub"
            return SqlValue(syntax.CallNode(name, (left.expression, right.expression), span), typed.DATE)
        if op == "-" and left.type == right.type == typed.DATE:
            return SqlValue(syntax.CallNode("datediff", (left.expression, right.expression), span), typed.INT)
        if op == "++":
            left, right = (as_text(value) for value in (left, right))
        outcome = result_of(op, *(operand(value, other) for value, other in ((left, right), (right, left))))
        if not isinstance(outcome, Arithmetic):
            if outcome.code == "E0311":
                raise Unsupported(outcome.code, outcome.message, node, "write CAST(... AS DOUBLE)")
            wanted, shown = ("texts", "||") if op == "++" else ("numbers", op)
            help = "write `||` to join texts" if op == "+" and typed.STRING in (left.type, right.type) else None
            message = f"`{shown}` takes {wanted}, and these are {sql_name(left.type)} and {sql_name(right.type)}"
            raise Unsupported("E0793", message, node, help)
        return SqlValue(syntax.BinaryNode(op, left.expression, right.expression, span), outcome.result)

    def _division(self, node: exp.Div, row: Row, span: Span) -> list[Case]:
        given = [self.values(side, row) for side in (node.this, node.expression)]
        whole = self.program.dialect in ("", "postgres")

        def divided(values: list[SqlValue]) -> SqlValue:
            left, right = values
            if left.type == right.type == typed.INT and not whole:
                one = syntax.ConstantNode(Decimal("1.0"), "float", span)
                left = SqlValue(syntax.BinaryNode("*", left.expression, one, span), typed.FLOAT)
            return self._arithmetic("/", (left, right), node, span)

        return self.strict(given, divided)

    def _rounded(self, node: exp.Round, row: Row, span: Span) -> list[Case]:
        """Return the cases of a float with some digits after the point."""
        only(node, "this", "decimals")
        digits = count_of(node.args["decimals"])
        if digits is None or digits > MOST_DIGITS:
            raise Unsupported("E0793", f"round takes a number of digits, at most {MOST_DIGITS}", node)
        power = syntax.ConstantNode(Decimal(f"{10**digits}.0"), "float", span)

        def rounded(values: list[SqlValue]) -> SqlValue:
            if values[0].type not in (typed.INT, typed.FLOAT):
                message = f"round to digits takes a float, and this is {sql_name(values[0].type)}"
                raise Unsupported("E0793", message, node, "write CAST(... AS DOUBLE)")
            scaled = syntax.BinaryNode("*", values[0].expression, power, span)
            whole = syntax.CallNode("round", (scaled,), span)
            return SqlValue(syntax.BinaryNode("/", whole, power, span), typed.FLOAT)

        return self.strict([self.values(node.this, row)], rounded)

    def _days(self, node: exp.Expr, row: Row, span: Span) -> list[Case]:
        """Return the cases of a date plus or minus days or months, or of a timestamp plus or minus seconds or more."""
        interval = node.expression
        unit = str(interval.args.get("unit") or "").lower().rstrip("s")
        amount = interval.this
        text = str(amount.this) if isinstance(amount, exp.Literal) else ""
        if not re.fullmatch(r"-?\d{1,6}", text):
            raise Unsupported("E0793", "only whole numbers of a unit of time can be added here", node)
        count = int(text) * (-1 if isinstance(node, exp.Sub) else 1)

        def later(values: list[SqlValue]) -> SqlValue:
            type_ = values[0].type
            name, times = INTERVALS.get((type_.name, unit), ("", 0))
            if not times:
                units = ", ".join(f"{other}s" for of, other in INTERVALS if of == type_.name) or "no intervals"
                raise Unsupported("E0793", f"to {sql_name(type_)}, {units} can be added", node)
            number = syntax.ConstantNode(count * times, "int", span)
            return SqlValue(syntax.CallNode(name, (values[0].expression, number), span), type_)

        return self.strict([self.values(node.this, row)], later)

    def _cast(self, node: exp.Cast, row: Row, span: Span) -> list[Case]:
        type_ = self.queries.types.type(node.args["to"], node.this)

        def converted(values: list[SqlValue]) -> SqlValue:
            return self.queries.types.cast(values[0], type_, node, span)

        return self.strict([self.values(node.this, row)], converted)

    def _call(self, node: exp.Expr, row: Row, span: Span) -> list[Case]:
        """Return the cases of a call."""
        name, arguments = self._function(node)
        given = [self.values(argument, row) for argument in arguments]

        def called(values: list[SqlValue]) -> SqlValue:
            function = FUNCTIONS[name]
            found = function.match([value.type for value in values], common_type)
            if found is None:
                types = ", ".join(sql_name(value.type) for value in values)
                signatures = " or ".join(signature.text for signature in function.signatures)
                raise Unsupported("E0793", f"{name} does not take {types}", node, f"it is {signatures}")
            return SqlValue(syntax.CallNode(name, tuple(value.expression for value in values), span), found.result)

        return self.strict(given, called) if given else [((), called([]))]

    def _function(self, node: exp.Expr) -> tuple[str, list[exp.Expr]]:
        """Return the name and the arguments of a call; raise Unsupported if there is no such function."""
        if type(node) in STRICT:
            name, parts = STRICT[type(node)]
            only(node, *parts)
            return name, [node.args[part] for part in parts if node.args.get(part) is not None]
        match node:
            case exp.Anonymous() if str(node.this).lower() in FUNCTIONS:
                return str(node.this).lower(), node.expressions
            case exp.Substring():
                only(node, "this", "start", "length")
                return "substring", [node.args[part] for part in ("this", "start", "length") if node.args.get(part)]
            case exp.Trim():
                only(node, "this", "position")
                position = str(node.args.get("position") or "").upper()
                return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(position, "trim"), [node.this]
            case exp.Concat() if not node.args.get("coalesce"):
                return "concat", node.expressions
            case exp.Greatest() | exp.Least():
                return node.key, [node.this, *node.expressions]
            case exp.Floor() | exp.Ceil():
                only(node, "this")
                return node.key, [node.this]
            case exp.Round():
                only(node, "this")
                return "round", [node.this]
            case exp.DateDiff() if not node.args.get("unit") or str(node.args["unit"]).lower() == "day":
                return "datediff", [node.this, node.expression]
        name = f"`{node.this if isinstance(node, exp.Anonymous) else function_name(node)}`".lower()
        name = name if isinstance(node, exp.Func) else shown(node)
        raise Unsupported("E0793", f"{name} has no equal here", node, "the functions are listed in docs/functions.md")

    # ---- conditions ------------------------------------------------------------------------------------------------

    def is_condition(self, node: exp.Expr) -> bool:
        """Return whether a node is true, false or unknown, without being a column, a constant or a call."""
        kinds = (exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Exists, exp.Like, exp.NullSafeEQ)
        return isinstance(node, (*kinds, exp.NullSafeNEQ)) or type(node) in COMPARISONS

    def holds(self, node: exp.Expr, row: Row, outcome: str) -> list[Literals]:
        """Return when a condition is true, false or unknown: a list of conjunctions."""
        with placed(node):
            found = without_repetition(self._holds(node, row, outcome))
        if len(found) > MOST_CASES:
            help = "write parts of it as views with DISTINCT"
            raise Unsupported("E0792", f"this condition has more than {MOST_CASES} cases", node, help)
        return found

    def _holds(self, node: exp.Expr, row: Row, outcome: str) -> list[Literals]:
        match node:
            case exp.Paren():
                return self.holds(node.this, row, outcome)
            case exp.Not():
                return self.holds(node.this, row, _NOT[outcome])
            case exp.And():
                return self._both(node, row, outcome, TRUE)
            case exp.Or():
                return self._both(node, row, outcome, FALSE)
            case exp.Between():
                only(node, "this", "low", "high")
                low = exp.GTE(this=node.this, expression=node.args["low"])
                high = exp.LTE(this=node.this, expression=node.args["high"])
                return self.holds(exp.And(this=low, expression=high), row, outcome)
            case exp.Is():
                return self._is(node.this, node.expression, row, outcome)
            case exp.NullSafeEQ():
                return self._same(node, row, outcome)
            case exp.NullSafeNEQ():
                return self._same(node, row, _NOT[outcome])
            case exp.Exists():
                return self.queries.exists(node.this, row, outcome, self.exact)
            case exp.In():
                return self._in(node, row, outcome)
            case exp.Like():
                return self._like(node, row, outcome)
            case exp.Boolean():
                return [()] if outcome == (TRUE if node.this else FALSE) else []
            case exp.Null():
                return [()] if outcome == UNKNOWN else []
            case _ if type(node) in COMPARISONS:
                return self.compared(COMPARISONS[type(node)], node, row, outcome)
            case exp.Literal():
                raise Unsupported("E0792", "this is not a condition", node)
        cases = self.values(node, row)
        if (type_ := common([value for _, value in cases])) not in (typed.BOOL, typed.NOTHING):
            raise Unsupported("E0793", f"{shown(node)} is {sql_name(type_)}, which is no condition", node)
        true = SqlValue(syntax.ConstantNode(True, "bool", self.program.span(node)), typed.BOOL)
        return [(*literals, *more) for literals, value in cases for more in compared("=", value, true, outcome)]

    def compared(self, op: str, node: exp.Expr, row: Row, outcome: str) -> list[Literals]:
        """Return when a comparison of two values has an outcome."""
        span, other = self.program.span(node), node.expression
        if isinstance(other, exp.Any | exp.All):
            if not isinstance(other.this, exp.Query):
                raise Unsupported("E0792", f"{other.key.upper()} takes a query", node)
            if isinstance(other, exp.All):
                op, outcome = OPPOSITE[op], _NOT[outcome]
            return self.queries.among(node.this, other.this, row, outcome, self.exact, op)
        if isinstance(node.this, exp.Tuple) and isinstance(node.expression, exp.Tuple) and op in ("=", "!="):
            sides = zip(node.this.expressions, node.expression.expressions, strict=True)
            equal = exp.and_(*(exp.EQ(this=one, expression=other) for one, other in sides))
            return self.holds(equal, row, outcome if op == "=" else _NOT[outcome])
        pairs = product(self.values(node.this, row), self.values(node.expression, row))
        return [(*a, *b, *more) for (a, left), (b, right) in pairs for more in compared(op, left, right, outcome, span)]

    def _both(self, node: exp.Expr, row: Row, outcome: str, true: str) -> list[Literals]:
        """Return when two conditions have an outcome together: with ``true``, that of AND; of OR it is the same with
        true and false exchanged."""
        false = _NOT[true]
        left, right = node.this, node.expression

        def of(side: exp.Expr, *outcomes: str) -> list[Literals]:
            return [literals for one in outcomes for literals in self.holds(side, row, one)]

        def with_both(ones: list[Literals], others: list[Literals]) -> list[Literals]:
            return [(*one, *other) for one in ones for other in others]

        if outcome == true:
            return with_both(of(left, true), of(right, true))
        if outcome == false:
            if not self.exact:
                return [*of(left, false), *of(right, false)]
            return [*of(left, false), *with_both(of(left, true, UNKNOWN), of(right, false))]
        unknown = of(left, UNKNOWN)
        return [*with_both(unknown, of(right, true, UNKNOWN)), *with_both(of(left, true), of(right, UNKNOWN))]

    def _is(self, node: exp.Expr, other: exp.Expr, row: Row, outcome: str) -> list[Literals]:
        """Return when IS NULL, IS TRUE, IS FALSE or IS UNKNOWN has an outcome."""
        if outcome == UNKNOWN:
            return []
        if isinstance(other, exp.Null) and not self.is_condition(node):
            result = []
            for literals, value in self.values(node, row):
                if value.is_null:
                    result += [literals] if outcome == TRUE else []
                elif value.nullable:
                    result.append((*literals, test(value, "=" if outcome == TRUE else "!=")))
                else:
                    result += [literals] if outcome == FALSE else []
            return result
        wanted = UNKNOWN if isinstance(other, exp.Null) else TRUE if other.this else FALSE
        if not isinstance(other, exp.Null | exp.Boolean):
            raise Unsupported("E0792", "IS is supported with NULL, TRUE and FALSE", node)
        outcomes = [one for one in (TRUE, FALSE, UNKNOWN) if (one == wanted) == (outcome == TRUE)]
        return [literals for one in outcomes for literals in self.holds(node, row, one)]

    def _same(self, node: exp.Expr, row: Row, outcome: str) -> list[Literals]:
        """Return when two values are equal or both null, or not."""
        if outcome == UNKNOWN:
            return []
        nulls = exp.and_(*(exp.Is(this=side, expression=exp.Null()) for side in (node.this, node.expression)))
        equal = exp.EQ(this=node.this, expression=node.expression)
        if outcome == TRUE:
            return [*self.holds(equal, row, TRUE), *self.holds(nulls, row, TRUE)]
        unknown = self.holds(equal, row, UNKNOWN)
        other = self.holds(nulls, row, FALSE)
        return [*self.holds(equal, row, FALSE), *((*one, *two) for one in unknown for two in other)]

    def _in(self, node: exp.In, row: Row, outcome: str) -> list[Literals]:
        """Return when a value is in a list, or among the rows of a query."""
        only(node, "this", "expressions", "query", "unnest")
        if node.args.get("unnest"):
            raise Unsupported("E0792", "IN UNNEST is not supported", node)
        if not node.expressions and node.args.get("query") is None:
            raise Unsupported("E0792", "IN needs a list or a query", node)
        query = node.args.get("query")
        if query is not None:
            return self.queries.among(node.this, query, row, outcome, self.exact)
        if len(node.expressions) > MOST_LISTED and not any(item.find(exp.Column) for item in node.expressions):
            listed = list(dict.fromkeys(node.expressions))
            if not isinstance(node.this, exp.Tuple):
                type_ = common([value for _, value in self.values(node.this, row)])
                listed = [
                    exp.cast(item, type_.name) if type_.name in ("date", "timestamp") else item for item in listed
                ]
            return self.queries.among(node.this, exp.Values(expressions=listed), row, outcome, self.exact)
        equal: exp.Expr = exp.EQ(this=node.this, expression=node.expressions[0])
        if all(isinstance(item, exp.Literal) for item in node.expressions) and not isinstance(node.this, exp.Tuple):
            items = list(dict.fromkeys(node.expressions))
            each = [exp.EQ(this=node.this, expression=item) for item in items]
            if outcome == TRUE:
                # Different constants exclude each other.
                return [literals for one in each for literals in self.holds(one, row, TRUE)]
            if outcome == UNKNOWN:
                return self.holds(equal, row, UNKNOWN)
            result = []
            for literals, value in self.values(node.this, row):
                if not value.is_null:
                    alike = [typed_alike((value, constant(item, self.program.span(item)))) for item in items]
                    differ = (
                        syntax.ComparisonNode("!=", a.expression, b.expression, b.expression.span) for a, b in alike
                    )
                    result.append((*literals, *differ))
            return result
        for item in node.expressions[1:]:
            equal = exp.Or(this=equal, expression=exp.EQ(this=node.this, expression=item))
        return self.holds(equal, row, outcome)

    def _like(self, node: exp.Like, row: Row, outcome: str) -> list[Literals]:
        """Return when a text is like a pattern with ``%``."""
        only(node, "this", "expression", "negate")
        if node.args.get("negate"):
            outcome = _NOT[outcome]
        pattern = node.expression
        text = str(pattern.this) if isinstance(pattern, exp.Literal) and pattern.is_string else None
        if text is None or "_" in text or "\\" in text:
            help = "patterns are constants in which `%` is the only special character"
            raise Unsupported("E0793", "this pattern of LIKE has no equal here", node, help)
        first, *inner = text.split("%")
        rest: exp.Expr = node.this
        tests: list[exp.Expr] = []
        if not inner:
            tests.append(exp.EQ(this=rest, expression=pattern))
        elif first:
            tests.append(exp.StartsWith(this=rest, expression=exp.Literal.string(first)))
            rest = _behind(rest, exp.Literal.number(len(first)))
        for part in filter(None, inner[:-1]):
            found = exp.StrPosition(this=rest, substr=exp.Literal.string(part))
            tests.append(exp.GT(this=found, expression=exp.Literal.number(0)))
            rest = _behind(rest, exp.Add(this=found, expression=exp.Literal.number(len(part) - 1)))
        if inner and inner[-1]:
            tests.append(exp.EndsWith(this=rest, expression=exp.Literal.string(inner[-1])))
        if len(inner) > MOST_PARTS:
            raise Unsupported("E0793", f"a pattern of LIKE with more than {MOST_PARTS} `%` has no equal", node)
        if not tests:
            tests = [exp.GTE(this=exp.Length(this=rest), expression=exp.Literal.number(0))]
        for made in tests:
            for literal in made.find_all(exp.Literal):
                literal.meta.update(pattern.meta)
        return self.holds(exp.and_(*tests), row, outcome)


def _behind(node: exp.Expr, count: exp.Expr) -> exp.Expr:
    """Return a text without its first characters."""
    return exp.Substring(this=node, start=exp.Add(this=count, expression=exp.Literal.number(1)))


def _of_those_there(node: exp.Greatest | exp.Least) -> exp.Expr:
    """Return the greatest or least of those of some values that are not null, two at a time."""
    whole: exp.Expr = node.this
    for other in node.expressions:
        both = type(node)(this=whole, expressions=[other])
        ifs = [
            exp.If(this=exp.Is(this=one, expression=exp.Null()), true=two)
            for one, two in ((whole, other), (other, whole))
        ]
        whole = exp.Case(ifs=ifs, default=both)
    return whole


def function_name(node: exp.Expr) -> str:
    """Return how SQL calls a function."""
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key


def test(value: SqlValue, op: str) -> syntax.ComparisonNode:
    """Return the test whether a value is null (``=``) or not."""
    span = value.expression.span
    return syntax.ComparisonNode(op, value.expression, null(span).expression, span)


def compared(op: str, left: SqlValue, right: SqlValue, outcome: str, span: Span | None = None) -> list[Literals]:
    """Return when a comparison of two values has an outcome."""
    if left.is_null or right.is_null:
        return [()] if outcome == UNKNOWN else []
    if outcome == UNKNOWN:
        first, *others = [*dict.fromkeys(value for value in (left, right) if value.nullable), None]
        found: list[Literals] = [] if first is None else [(test(first, "="),)]
        if first is not None and others[0] is not None:
            found.append((test(first, "!="), test(others[0], "=")))
        return found
    one, other = typed_alike((left, right))
    common_of(one.type, other.type, "cannot be compared")
    wanted = op if outcome == TRUE else OPPOSITE[op]
    known = _known(wanted, one, other)
    if known is not None:
        return [()] if known else []
    return [(syntax.ComparisonNode(wanted, one.expression, other.expression, span or left.expression.span),)]


def constant(node: exp.Expr, span: Span, sign: str = "") -> SqlValue:
    """Return the value of a literal, perhaps with a sign; raise Unsupported if it does not fit its type."""
    if isinstance(node, exp.Boolean):
        return SqlValue(syntax.ConstantNode(bool(node.this), "bool", span), typed.BOOL)
    text = str(node.this)
    if node.args.get("is_string"):
        return SqlValue(syntax.ConstantNode(text, "string", span), typed.STRING)
    if re.fullmatch(r"[0-9]+", text):
        if (whole := whole_number(sign, text)) is None:
            raise Unsupported("E0307", TOO_LARGE_INT, node, "write it with a decimal point")
        return SqlValue(syntax.ConstantNode(whole, "int", span), typed.INT)
    if (number := float_number(sign + text)) is None:
        raise Unsupported("E0307", TOO_LARGE_FLOAT, node)
    return SqlValue(syntax.ConstantNode(number, "float", span), typed.FLOAT)


def _known(op: str, one: SqlValue, other: SqlValue) -> bool | None:
    """Return whether a comparison of constants holds; None if they are no constants of one type."""
    values: list[Any] = [v.expression.value for v in (one, other) if isinstance(v.expression, syntax.ConstantNode)]
    if len(values) < 2 or one.type != other.type:
        return None
    a, b = values
    return bool({"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def _negative(value: SqlValue, span: Span) -> SqlValue:
    return replace(value, expression=syntax.Unary("-", value.expression, span))


def sql_name(type_: typed.Type) -> str:
    """Return how SQL calls a type."""
    if type_.element is not None:
        return f"{sql_name(type_.element)}[]"
    if type_.name == "decimal":
        return f"DECIMAL({type_.precision}, {type_.scale})"
    return {"int": "INTEGER", "float": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN"}.get(
        type_.name, type_.name.upper()
    )


def without_repetition(conjunctions: Iterable[Literals]) -> list[Literals]:
    """Return conjunctions that may hold, each once and without literals that it has before."""
    found: dict[frozenset[str], Literals] = {}
    for literals in conjunctions:
        if may_hold(literals):
            found.setdefault(frozenset(map(literal_text, literals)), without_repeats(literals))
    return list(found.values())


def may_hold(literals: Literals) -> bool:
    """Return whether nothing is both null and compared with a value."""
    nulls, values = set[str](), set[str]()
    for literal in literals:
        if isinstance(literal, syntax.ComparisonNode):
            is_null = is_null_test(literal) and literal.op == "="
            (nulls if is_null else values).update(variables(literal))
    return not nulls & values


def typed_alike(values: Sequence[SqlValue]) -> tuple[SqlValue, ...]:
    """Return values of which constants have the type of others: a text may stand for a date, a timestamp or a
    number."""
    others = [value.type for value in values if not isinstance(value.expression, syntax.ConstantNode)]
    return tuple(as_type(value, others[0]) if others else value for value in values)


def as_type(value: SqlValue, type_: typed.Type) -> SqlValue:
    """Return a constant as one of another type, if it can stand for that; other values as they are."""
    node = value.expression
    if not isinstance(node, syntax.ConstantNode) or value.type == type_:
        return value
    if node.kind == "string" and type_ in (typed.DATE, typed.TIMESTAMP):
        text = _moment(str(node.value), type_)
        return value if text is None else SqlValue(replace(node, value=text, kind=type_.name), type_)
    return value


def _moment(text: str, type_: typed.Type) -> str | None:
    """Return a date or timestamp as constants have it; None if a text is none. The time of a timestamp may be short."""
    found = _MOMENT.fullmatch(text)
    if found is None or not is_date(found[1]) or (type_ == typed.DATE and found[2]):
        return None
    return found[1] if type_ == typed.DATE else moment_text(f"{found[1]} {found[2] or '00:00'}{found[3] or ':00'}")


def operand(value: SqlValue, other: SqlValue) -> typed.Type:
    """Return the type of a value in arithmetic with another."""
    if isinstance(value.expression, syntax.ConstantNode) and value.type.numeric and other.type.name == "decimal":
        return digits_of(typed.Constant(value.expression.value, value.type, value.expression.span)) or value.type
    return value.type


def as_text(value: SqlValue) -> SqlValue:
    """Return a value as text, if it can be."""
    if value.type in (typed.INT, typed.DATE, typed.BOOL) or value.type.name == "decimal":
        return SqlValue(syntax.CallNode("string", (value.expression,), value.expression.span), typed.STRING)
    return value


def unified(cases: Iterable[Case]) -> list[Case]:
    """Return cases whose values have one type, if they can."""
    given = list(cases)
    wanted = common([value for _, value in given])
    return [((*literals, *tests), one) for literals, value in given for tests, (one,) in converted([value], [wanted])]


def converted(values: Sequence[SqlValue], types: Sequence[typed.Type]) -> Iterator[tuple[Literals, list[SqlValue]]]:
    """Yield values as those of types, and when they are so."""
    for chosen in product(*(told_apart(value, type_) for value, type_ in zip(values, types, strict=True))):
        made = [as_common(value, type_) for (_, value), type_ in zip(chosen, types, strict=True)]
        yield tuple(literal for case in chosen for literal in case[0]), made


def told_apart(value: SqlValue, type_: typed.Type) -> list[Case]:
    """Return a value as it is if it has a type, or can take it; otherwise whether it is null, and if it is not."""
    return null_or_not(value) if value.type != type_ else [((), value)]


def null_or_not(value: SqlValue) -> list[Case]:
    """Return a value that may be null as two cases: it is null, and it is not."""
    if not value.nullable or value.is_null:
        return [((), value)]
    return [((test(value, "="),), null_of(value)), ((test(value, "!="),), replace(value, nullable=False))]


def common(values: Iterable[SqlValue]) -> typed.Type:
    """Return the type that several values have, or are converted to."""
    given = list(values)
    nulls = (value.type for value in given if value.is_null and value.type != typed.NOTHING)
    known = [value for value in given if not value.is_null]
    result = typed.NOTHING
    # Constants take the type of others.
    for value in sorted(known, key=lambda value: isinstance(value.expression, syntax.ConstantNode)):
        type_ = operand(value, replace(value, type=result))
        if isinstance(value.expression, syntax.ConstantNode) and as_type(value, result).type == result:
            continue
        result = common_of(result, type_, "have no type in common")
    return next(nulls, typed.NOTHING) if result == typed.NOTHING else result


def is_widened(value: SqlValue) -> bool:
    """Return whether a value is one of more digits only as a column of a relation has it."""
    node = value.expression
    shown = isinstance(node, syntax.BinaryNode) and node.right == replace(ZERO, span=node.right.span)
    return value.type.name == "decimal" and (shown or isinstance(node, syntax.ConstantNode)) and not value.is_null


def met_types(left: Sequence[typed.Type], right: Sequence[typed.Type]) -> tuple[typed.Type, ...]:
    """Return the types of the columns of two queries, or of two ways to make rows of one, together."""
    return tuple(common_of(one, other, "have no type in common") for one, other in zip(left, right, strict=True))


def common_of(one: typed.Type, other: typed.Type, mistake: str) -> typed.Type:
    """Return the type in which values of two types are compared; raise Unsupported if there is none."""
    if typed.NOTHING in (one, other):
        return other if one == typed.NOTHING else one
    found = common_type(one, other)
    if found is None:
        raise Unsupported("E0793", f"{sql_name(one)} and {sql_name(other)} {mistake}", None)
    return found


def as_common(value: SqlValue, type_: typed.Type) -> SqlValue:
    """Return a value as one of a common type."""
    if value.is_null or value.type == type_ or type_ == typed.NOTHING:
        return replace(value, type=type_) if value.is_null else value
    node, span = value.expression, value.expression.span
    if isinstance(node, syntax.ConstantNode):
        changed = as_type(value, type_)
        return replace(changed, type=type_) if type_.numeric and value.type.numeric else changed
    if type_.name == "decimal" and isinstance(node, syntax.VariableNode):
        return replace(value, expression=syntax.BinaryNode("+", node, replace(ZERO, span=span), span), type=type_)
    if type_ == typed.FLOAT and value.type == typed.INT:
        one = syntax.ConstantNode(Decimal("1.0"), "float", span)
        return replace(value, expression=syntax.BinaryNode("*", node, one, span), type=type_)
    if type_ == typed.FLOAT and value.type.name == "decimal":
        return replace(
            value, expression=syntax.BinaryNode("/", node, syntax.ConstantNode(1, "int", span), span), type=type_
        )
    return value
