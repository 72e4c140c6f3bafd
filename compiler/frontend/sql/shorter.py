"""Words of SQL that are short for others: ``bool_and``, ``count_if``, ``date_trunc``, parts of dates.

SELECT bool_and(paid) FROM sale     ->     SELECT min(CASE WHEN paid THEN 1 WHEN NOT paid THEN 0 END) = 1 FROM sale
"""

from __future__ import annotations

from sqlglot import exp

from .functions import EXTRACTED
from .text import Unsupported


def written_out(query: exp.Expr, dialect: str) -> exp.Expr:
    """Return a query in which words that are short for others are written out; raise Unsupported for what cannot be."""
    whole = query.copy()
    for node in reversed(list(whole.walk())):
        made = _written_out(node, dialect)
        if made is not None:
            whole = made if node is whole else whole
            node.replace(made)
    return whole


def _written_out(node: exp.Expr, dialect: str) -> exp.Expr | None:
    """Return what is written in place of a node, None if that is the node."""
    name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
    part = _part(node, name, dialect)
    if part is not None:
        return _extracted(*part, node)
    match node:
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _truncated(node)
        case exp.Filter(this=exp.EQ() as equal):
            # A condition that was written out.
            node.set("this", equal.this)
            return exp.EQ(this=node.copy(), expression=equal.expression)
        case exp.CountIf() | exp.LogicalAnd() | exp.LogicalOr() | exp.Anonymous() if not name or name == "every":
            condition = node.expressions[0] if name else node.this
            true, false = (
                exp.If(this=test, true=exp.Literal.number(value))
                for test, value in ((condition.copy(), 1), (exp.Not(this=exp.Paren(this=condition.copy())), 0))
            )
            if isinstance(node, exp.CountIf):
                # In DuckDB, it is null if there are no conditions.
                counts = dialect != "duckdb"
                return exp.Count(this=exp.Case(ifs=[true])) if counts else exp.Sum(this=exp.Case(ifs=[true, false]))
            extremum = exp.Max if isinstance(node, exp.LogicalOr) else exp.Min
            return exp.EQ(this=extremum(this=exp.Case(ifs=[true, false])), expression=exp.Literal.number(1))
    return None


def _part(node: exp.Expr, name: str, dialect: str) -> tuple[str, exp.Expr] | None:
    """Return the part of a date that is asked for, perhaps by a call of a function that has no class, and the date;
    None if something else is."""
    match node:
        case exp.Extract():
            return str(node.this).lower(), node.expression
        case exp.DayOfWeek() if dialect == "duckdb":
            return "dow", node.this
        case exp.DayOfWeekIso():
            return "isodow", node.this
        case exp.WeekOfYear():
            return "week", node.this
        case exp.Anonymous(expressions=[date]) if name == "weekday" and dialect == "duckdb":
            return "dow", date
        case exp.Anonymous(expressions=[exp.Literal() as part, date]) if name in ("date_part", "datepart"):
            return str(part.this).lower(), date
    return None


def _extracted(part: str, date: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Return a part of a date."""
    if part in ("dow", "dayofweek"):
        return exp.Sub(this=_call("dayofweek", date), expression=exp.Literal.number(1))
    if part == "isodow":
        return exp.Add(this=_call("weekday", date), expression=exp.Literal.number(1))
    if part not in EXTRACTED:
        raise Unsupported(
            "E0793", f"the part `{part}` of a date has no equal here", node, f"there are {', '.join(EXTRACTED)}"
        )
    return _call(EXTRACTED[part], date)


def _truncated(node: exp.TimestampTrunc | exp.DateTrunc) -> exp.Expr:
    """Return the first day of the year, the quarter, the month or the week of a date."""
    unit, date = str(node.args.get("unit")).lower().strip("'"), exp.cast(node.this, "date")
    if unit in ("day", "week"):
        return date if unit == "day" else exp.Sub(this=date, expression=_call("weekday", date.copy()))
    month: exp.Expr = exp.Literal.number(1)
    if unit == "month":
        month = _call("month", date)
    elif unit == "quarter":
        tripled = exp.Mul(this=_call("quarter", date), expression=exp.Literal.number(3))
        month = exp.Sub(this=tripled, expression=exp.Literal.number(2))
    elif unit != "year":
        raise Unsupported(
            "E0793", f"date_trunc to `{unit}` has no equal here", node, "there are day, week, month, quarter and year"
        )
    return _call("make_date", _call("year", date.copy()), month, exp.Literal.number(1))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a call of a function of the language."""
    return exp.Anonymous(this=name, expressions=[*arguments])
