"""Types of SQL, and conversions between them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ...functions import FUNCTIONS
from ...ir import syntax, typed
from ...source import Span
from ...type_rules import common_type
from .expressions import as_common, as_type, sql_name
from .scope import SqlValue
from .text import Unsupported, count_of

_SERIAL = ("SMALLSERIAL", "SERIAL", "BIGSERIAL")
_INTS = (*_SERIAL, "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT")
_TEXTS = ("TEXT", "VARCHAR", "CHAR", "NCHAR", "NVARCHAR", "NAME")
_NAMED = {
    **dict.fromkeys(_INTS, typed.INT),
    **dict.fromkeys(_TEXTS, typed.STRING),
    **dict.fromkeys(("FLOAT", "DOUBLE"), typed.FLOAT),
    "BOOLEAN": typed.BOOL,
    "DATE": typed.DATE,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), typed.TIMESTAMP),
}

_OTHERS = {
    "UUID": "VARCHAR",
    "JSON": "VARCHAR, or a table of its parts",
    "JSONB": "VARCHAR, or a table of its parts",
    "TIMESTAMPTZ": "TIMESTAMP, in UTC",
    "TIME": "VARCHAR, or INTEGER for seconds",
    "UBIGINT": "BIGINT, or DECIMAL(20, 0)",
    "INT128": "DECIMAL(38, 0)",
}
"""What to write instead of types that have no equal."""


class SqlTypes:
    """The types of columns and casts, in a dialect of sqlglot."""

    def __init__(self, dialect: str = "") -> None:
        self.dialect = dialect

    def type(self, node: exp.DataType, column: exp.Expr | None = None) -> typed.Type:
        """Return the type that values of an SQL type have, perhaps those of a ``column``; raise Unsupported if there is
        none."""
        name = node.this.name if hasattr(node.this, "name") else str(node.this)
        if name == "USERDEFINED":
            name = str(node.args.get("kind") or "").upper()
        if name in _NAMED:
            return _NAMED[name]
        if name in ("ARRAY", "LIST") and node.expressions:
            return typed.list_of(self.type(node.expressions[0], column))
        if name == "DECIMAL":
            digits = [count_of(part.this) for part in node.expressions]
            precision, scale = (*digits, 0, 0)[:2]
            if 1 <= len(digits) <= 2 and precision and scale is not None and scale <= precision <= 38:
                return typed.Type("decimal", precision, scale)
            raise Unsupported(
                "E0793", "a decimal type needs its digits, at most 38", column or node, "write DECIMAL(18, 2)"
            )
        instead = _OTHERS.get(name)
        help = f"write {instead}" if instead else "the types are listed in docs/sql.md"
        raise Unsupported("E0793", f"the type {name} has no equal here", column or node, help)

    def cast(self, value: SqlValue, type_: typed.Type, node: exp.Expr, span: Span) -> SqlValue:
        """Return a value that is not null as one of another type."""
        if value.type == type_:
            return value
        expression = value.expression
        if isinstance(expression, syntax.ConstantNode) and type_ in (typed.DATE, typed.TIMESTAMP):
            changed = as_type(value, type_)
            if changed.type == type_:
                return changed
            raise Unsupported("E0793", f"this is no {sql_name(type_)}", node)
        exact = isinstance(expression, syntax.CallNode) and expression.name in ("floor", "ceil", "round")
        if type_ == typed.INT and value.type.numeric and not exact and self.dialect != "spark":
            help = "write floor(x), ceil(x) or round(x): databases differ in how they cast"
            raise Unsupported("E0793", f"how a {sql_name(value.type)} becomes an integer has to be said", node, help)
        name = "to_date" if type_ == typed.DATE else type_.name
        is_constant = isinstance(expression, syntax.ConstantNode)
        if value.type.numeric and (type_ == typed.FLOAT or (is_constant and type_.name == "decimal")):
            return as_common(value, type_)
        if name in FUNCTIONS and type_ != typed.TIMESTAMP:
            found = FUNCTIONS[name].match([value.type], common_type)
            if found is not None and found.result == type_:
                return SqlValue(syntax.CallNode(name, (expression,), span), type_)
        if type_.name == "decimal" and value.type.name in ("int", "decimal") and value.type.scale <= type_.scale:
            return replace(as_common(value, type_), type=type_)
        raise Unsupported("E0793", f"a {sql_name(value.type)} cannot be cast to {sql_name(type_)} here", node)


def type_name(type_: typed.Type, span: Span) -> syntax.TypeName:
    """Return a type as declarations have it."""
    if type_.element is not None:
        return syntax.TypeName("list", (), type_name(type_.element, span), span)
    digits = (type_.precision, type_.scale) if type_.name == "decimal" else ()
    return syntax.TypeName(type_.name, digits, None, span)
