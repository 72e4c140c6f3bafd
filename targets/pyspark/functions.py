"""The functions of the language in SQL: an expression of DuckDB and one of Spark for each.

``DUCKDB`` and ``SPARK`` hold expressions over the arguments ``a``, ``b`` and ``c``, by the name of the function, by
``name/N`` for N arguments, or by ``name:type`` for the type of the first one. An expression is NULL where the
function has no value (the caller handles NULL arguments), and otherwise raises no error, since engines may evaluate
it where its value is not needed. Only DuckDB's expressions of partial functions may raise errors; they are
evaluated in TRY. The value has exactly the type in the signature, except for decimals, which the caller casts.

Spark's functions count characters and elements in 32 bits. Larger counts are clamped, which changes no result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import islice

import sqlglot
from flintlog.compiler.ir import typed
from sqlglot import exp

_SMALL, _CAPITAL = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_INTS = "a >= -9.223372036854775808E18 AND a < 9.223372036854775808E18"
_DATE = "'^[0-9]{4}-[0-9]{2}-[0-9]{2}$'"
_INTEGER = "^[+-]?[0-9]+"
_FLOATING = "^[+-]?([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?"
_LONGEST = 1_000_000
_MOST = 2**31
_FIRST_DAY, _LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31, in days since 1970


def _short(text: str) -> str:
    """Return SQL that clamps an integer to 32 bits."""
    return f"GREATEST(LEAST({text}, 2147483647), -2147483647)"


def _int(text: str) -> str:
    """Return SQL that clamps an integer to 32 bits and casts it to INT, as Spark's functions require."""
    return f"CAST({_short(text)} AS INT)"


# The number of characters before the substring; negative if it begins before the string.
_BEGIN = "CASE WHEN b > 0 THEN b - 1 WHEN b < 0 THEN LENGTH(a) + b ELSE 0 END"
_FROM = f"CAST(LEAST(GREATEST({_BEGIN}, 0), 2147483646) + 1 AS INT)"
_TIMES = f"GREATEST(LEAST(b, {_LONGEST} + 1), 0)"
_SECONDS = "GREATEST(LEAST(b, 400000000000), -400000000000)"

_MOMENTS = "CAST('0001-01-01 00:00:00' AS TIMESTAMP) AND CAST('9999-12-31 23:59:59.999999' AS TIMESTAMP)"

_DAYS = "GREATEST(LEAST(b, 4000000), -4000000)"
_MONTHS = "GREATEST(LEAST(b, 200000), -200000)"
_EPOCH = "CAST('1970-01-01' AS DATE)"
_MADE = (
    "CASE WHEN a BETWEEN 1 AND 9999 AND b BETWEEN 1 AND 12 AND c BETWEEN 1 AND 31 THEN TRY_CAST("
    "LPAD(CAST(a AS TEXT), 4, '0') || '-' || LPAD(CAST(b AS TEXT), 2, '0') || '-' || LPAD(CAST(c AS TEXT), 2, '0')"
    " AS DATE) END"
)

_BOTH = {
    "abs:decimal": "CASE WHEN a < 0E0 THEN 0 - a ELSE a END",  # Spark's ABS and minus round to 34 digits.
    "abs:float": "ABS(a)",
    "abs:int": "CASE WHEN a >= -9223372036854775807 THEN ABS(a) END",
    "ceil:decimal": "TRY_CAST(CEIL(a) AS BIGINT)",
    "ceil:float": f"CASE WHEN {_INTS} THEN CAST(CEIL(a) AS BIGINT) END",
    "ceil:int": "a",
    "flatten": "FLATTEN(a)",
    "float": "a",
    "floor:decimal": "TRY_CAST(FLOOR(a) AS BIGINT)",
    "floor:float": f"CASE WHEN {_INTS} THEN CAST(FLOOR(a) AS BIGINT) END",
    "floor:int": "a",
    "int:bool": "CAST(a AS BIGINT)",
    "int:decimal": "TRY_CAST(CASE WHEN a < 0E0 THEN CEIL(a) ELSE FLOOR(a) END AS BIGINT)",
    "int:int": "a",
    "last_day": "LAST_DAY(a)",
    "lower": f"TRANSLATE(a, '{_CAPITAL}', '{_SMALL}')",
    "make_date": _MADE,
    "md5": "MD5(a)",
    "replace": "REPLACE(a, b, c)",
    "round": "ROUND(a) + 0E0",
    "sign": "CAST(CASE WHEN a > 0E0 THEN 1 WHEN a < 0E0 THEN -1 ELSE 0 END AS BIGINT)",
    "sqrt": "CASE WHEN a >= 0 THEN SQRT(a) END",
    "string:bool": "CAST(a AS TEXT)",
    "string:date": "CAST(a AS TEXT)",
    "string:int": "CAST(a AS TEXT)",
    "string:string": "a",
    "substring/2": f"SUBSTRING(a, {_FROM})",
    "substring/3": f"SUBSTRING(a, {_FROM}, "
    f"CAST(GREATEST(LEAST(LEAST({_BEGIN}, 0) + GREATEST(c, 0), 2147483647), 0) AS INT))",
    "to_date:timestamp": "CAST(a AS DATE)",
    "translate": "TRANSLATE(a, b, c)",
    "upper": f"TRANSLATE(a, '{_SMALL}', '{_CAPITAL}')",
    "contains": "CONTAINS(a, b)",
}

DUCKDB = _BOTH | {
    # For derivation sets and optional values only; programs cannot call these.
    "in_set": "LIST_CONTAINS(a, b)",
    "value?": "LIST_EXTRACT(a, 1)",
    "item?": "LIST_EXTRACT(a, b)",
    "or_null?": "COALESCE(a, 'null')",
    "pick": "CASE WHEN LIST_CONTAINS(b, c) THEN LIST_SORT(LIST_APPEND(a, c)) ELSE a END",
    "set_of": "LIST_SORT(LIST_DISTINCT(a))",
    "add_months": f"CASE WHEN YEAR(a) * 12 + MONTH(a) + {_MONTHS} BETWEEN 13 AND 120000 "
    f"THEN CAST(a + TO_MONTHS(CAST({_MONTHS} AS INT)) AS DATE) END",
    "array_append": "LIST_CONCAT(a, [b])",
    "array_contains": "LIST_CONTAINS(a, b)",
    "array_distinct": "LIST_FILTER(a, LAMBDA _x, _i : LIST_POSITION(a, _x) = _i)",
    "array_join": "SUBSTRING(LIST_REDUCE(a, LAMBDA _x, _y : _x || b || _y, ''), LENGTH(b) + 1)",
    "array_max": "LIST_MAX(a)",
    "array_min": "LIST_MIN(a)",
    "array_position": "COALESCE(CAST(LIST_POSITION(a, b) AS BIGINT), 0)",
    "array_prepend": "LIST_CONCAT([b], a)",
    "array_remove": "LIST_FILTER(a, LAMBDA _x : _x <> b)",
    "array_sort": "LIST_SORT(a)",
    "arrays_overlap": "LIST_HAS_ANY(a, b)",
    "ascii": "CAST(CASE WHEN a = '' THEN 0 ELSE UNICODE(a) END AS BIGINT)",
    "bit_count": "CAST(BIT_COUNT(a) AS BIGINT)",
    "date_add": f"CASE WHEN (a - {_EPOCH}) + {_DAYS} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} "
    f"THEN a + CAST({_DAYS} AS INT) END",
    "date_sub": f"CASE WHEN (a - {_EPOCH}) - {_DAYS} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} "
    f"THEN a - CAST({_DAYS} AS INT) END",
    "add_seconds": f"CASE WHEN a + TO_SECONDS({_SECONDS}) BETWEEN {_MOMENTS} THEN a + TO_SECONDS({_SECONDS}) END",
    "datediff": "CAST(a - b AS BIGINT)",
    "day": "DAY(CAST(a AS DATE))",
    "dayofweek": "DAYOFWEEK(CAST(a AS DATE)) + 1",
    "dayofyear": "DAYOFYEAR(CAST(a AS DATE))",
    "element_at": f"LIST_EXTRACT(a, NULLIF({_short('b')}, 0))",
    "endswith": "ENDS_WITH(a, b)",
    "f_append": "[a]",
    "f_concat:element": "LIST_CONCAT([a], b)",
    "f_concat:list": "LIST_CONCAT(a, b)",
    "f_first": "LIST_EXTRACT(a, 1)",
    "f_init": "[a, b]",
    "f_last": "LIST_EXTRACT(a, -1)",
    "f_member": "CAST(LIST_CONTAINS(a, b) AS BIGINT)",
    "float:string": f"CASE WHEN REGEXP_MATCHES(a, '{_FLOATING}\\z') THEN NULLIF(NULLIF(TRY_CAST(a AS DOUBLE), "
    "CAST('Infinity' AS DOUBLE)), CAST('-Infinity' AS DOUBLE)) + 0E0 END",
    "hour": "HOUR(a)",
    "instr": "INSTR(a, b)",
    "int:float": f"CASE WHEN {_INTS} THEN CAST(TRUNC(a) AS BIGINT) END",
    "int:string": f"CASE WHEN REGEXP_MATCHES(a, '{_INTEGER}\\z') THEN TRY_CAST(a AS BIGINT) END",
    "left": f"LEFT(a, GREATEST({_short('b')}, 0))",
    "length": "LENGTH(a)",
    "lpad": f"CASE WHEN b <= {_LONGEST} THEN CASE WHEN b <= 0 THEN '' WHEN c = '' THEN LEFT(a, b) "
    "ELSE LPAD(a, CAST(b AS INT), c) END END",
    "ltrim": "LTRIM(a, ' ')",
    "minute": "MINUTE(a)",
    "month": "MONTH(CAST(a AS DATE))",
    "pmod": "CAST(CAST(a AS HUGEINT) % NULLIF(b, 0) "
    "+ CASE WHEN CAST(a AS HUGEINT) % NULLIF(b, 0) < 0 AND b > 0 THEN b ELSE 0 END AS BIGINT)",
    "quarter": "QUARTER(CAST(a AS DATE))",
    "repeat": f"CASE WHEN LENGTH(a) * {_TIMES} <= {_LONGEST} THEN REPEAT(a, {_TIMES}) END",
    "reverse:list": "LIST_REVERSE(a)",
    "reverse:string": "ARRAY_TO_STRING(LIST_REVERSE(STRING_SPLIT(a, '')), '')",
    "right": f"RIGHT(a, GREATEST({_short('b')}, 0))",
    "rpad": f"CASE WHEN b <= {_LONGEST} THEN CASE WHEN b <= 0 THEN '' WHEN c = '' THEN LEFT(a, b) "
    "ELSE RPAD(a, CAST(b AS INT), c) END END",
    "rtrim": "RTRIM(a, ' ')",
    "second": "SECOND(a)",
    "size": "LEN(a)",
    "slice": "CASE WHEN b = 0 OR c < 0 THEN NULL WHEN b > LEN(a) OR b < -LEN(a) THEN LIST_SLICE(a, 1, 0) "
    "ELSE LIST_SLICE(a, CASE WHEN b > 0 THEN b ELSE LEN(a) + b + 1 END, "
    "CASE WHEN b > 0 THEN b ELSE LEN(a) + b + 1 END + LEAST(c, LEN(a)) - 1) END",
    "split": "CASE WHEN b <> '' THEN STRING_SPLIT(a, b) END",
    "split_part": f"CASE WHEN b <> '' AND c <> 0 THEN SPLIT_PART(a, b, {_short('c')}) END",
    "startswith": "STARTS_WITH(a, b)",
    "string:decimal": "REGEXP_REPLACE(CAST(a AS TEXT), '^(-?)[.]', '\\1' || '0.')",
    "to_date:string": f"CASE WHEN REGEXP_MATCHES(a, {_DATE}) AND LENGTH(a) = 10 AND a >= '0001' "
    "THEN TRY_CAST(a AS DATE) END",
    "trim": "TRIM(a, ' ')",
    "unix_date": f"a - {_EPOCH}",
    "weekday": "ISODOW(CAST(a AS DATE)) - 1",
    "weekofyear": "WEEKOFYEAR(CAST(a AS DATE))",
    "year": "YEAR(CAST(a AS DATE))",
}

SPARK = _BOTH | {
    "in_set": "ARRAY_CONTAINS(a, b)",
    "value?": "TRY_ELEMENT_AT(a, 1)",
    "item?": "TRY_ELEMENT_AT(a, b)",
    "or_null?": "COALESCE(a, 'null')",
    "pick": "CASE WHEN ARRAY_CONTAINS(b, c) THEN ARRAY_SORT(CONCAT(a, ARRAY(c))) ELSE a END",
    "set_of": "ARRAY_SORT(ARRAY_DISTINCT(a))",
    "add_months": f"CASE WHEN YEAR(a) * 12 + MONTH(a) + {_MONTHS} BETWEEN 13 AND 120000 "
    f"THEN ADD_MONTHS(a, CAST({_MONTHS} AS INT)) END",
    "array_append": "CONCAT(a, ARRAY(b))",
    "array_contains": "ARRAY_CONTAINS(a, b)",
    "array_distinct": "ARRAY_DISTINCT(a)",
    "array_join": "ARRAY_JOIN(a, b)",
    "array_max": "ARRAY_MAX(a)",
    "array_min": "ARRAY_MIN(a)",
    "array_position": "ARRAY_POSITION(a, b)",
    "array_prepend": "CONCAT(ARRAY(b), a)",
    "array_remove": "ARRAY_REMOVE(a, b)",
    "array_sort": "ARRAY_SORT(a)",
    "arrays_overlap": "ARRAYS_OVERLAP(a, b)",
    "ascii": "CAST(ASCII(a) AS BIGINT)",
    "bit_count": "CAST(BIT_COUNT(a) AS BIGINT)",
    "date_add": f"CASE WHEN UNIX_DATE(a) + {_DAYS} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} "
    f"THEN DATE_ADD(a, CAST({_DAYS} AS INT)) END",
    "date_sub": f"CASE WHEN UNIX_DATE(a) - {_DAYS} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} "
    f"THEN DATE_ADD(a, CAST(-{_DAYS} AS INT)) END",
    "add_seconds": f"CASE WHEN a + MAKE_DT_INTERVAL(0, 0, 0, {_SECONDS}) BETWEEN {_MOMENTS} "
    f"THEN a + MAKE_DT_INTERVAL(0, 0, 0, {_SECONDS}) END",
    "datediff": "CAST(UNIX_DATE(a) - UNIX_DATE(b) AS BIGINT)",
    "element_at": f"TRY_ELEMENT_AT(a, NULLIF({_int('b')}, 0))",
    "endswith": "ENDSWITH(a, b)",
    "f_append": "ARRAY(a)",
    "f_concat:element": "CONCAT(ARRAY(a), b)",
    "f_concat:list": "CONCAT(a, b)",
    "f_first": "TRY_ELEMENT_AT(a, 1)",
    "f_init": "ARRAY(a, b)",
    "f_last": "TRY_ELEMENT_AT(a, -1)",
    "f_member": "CAST(ARRAY_CONTAINS(a, b) AS BIGINT)",
    "float:string": "CASE WHEN a RLIKE '" + _FLOATING.replace("\\", "\\\\") + "\\\\z' THEN NULLIF(NULLIF("
    "TRY_CAST(a AS DOUBLE), CAST('Infinity' AS DOUBLE)), CAST('-Infinity' AS DOUBLE)) + 0E0 END",
    "instr": "CAST(INSTR(a, b) AS BIGINT)",
    "int:float": f"CASE WHEN {_INTS} THEN CAST(a AS BIGINT) END",
    "int:string": f"CASE WHEN a RLIKE '{_INTEGER}\\\\z' THEN TRY_CAST(a AS BIGINT) END",
    "left": f"LEFT(a, {_int('b')})",
    "length": "CAST(LENGTH(a) AS BIGINT)",
    "lpad": f"CASE WHEN b <= {_LONGEST} THEN CASE WHEN b <= 0 THEN '' WHEN c = '' THEN LEFT(a, {_int('b')}) "
    f"ELSE LPAD(a, {_int('b')}, c) END END",
    "ltrim": "LTRIM(a)",
    "pmod": "TRY_MOD(a, b) + CASE WHEN TRY_MOD(a, b) < 0 AND b > 0 THEN b ELSE 0 END",
    "repeat": f"CASE WHEN LENGTH(a) * {_TIMES} <= {_LONGEST} THEN REPEAT(a, CAST({_TIMES} AS INT)) END",
    "reverse": "REVERSE(a)",
    "right": f"RIGHT(a, {_int('b')})",
    "rpad": f"CASE WHEN b <= {_LONGEST} THEN CASE WHEN b <= 0 THEN '' WHEN c = '' THEN LEFT(a, {_int('b')}) "
    f"ELSE RPAD(a, {_int('b')}, c) END END",
    "rtrim": "RTRIM(a)",
    "size": "CAST(SIZE(a) AS BIGINT)",
    "slice": f"CASE WHEN b <> 0 AND c >= 0 THEN SLICE(a, {_int('b')}, {_int('c')}) END",
    "split": "CASE WHEN b <> '' THEN SPLIT("
    "a, CONCAT('\\\\Q', REPLACE(b, '\\\\E', '\\\\E\\\\\\\\E\\\\Q'), '\\\\E'), -1) END",
    "split_part": f"CASE WHEN b <> '' AND c <> 0 THEN SPLIT_PART(a, b, {_int('c')}) END",
    "startswith": "STARTSWITH(a, b)",
    "string:decimal": "CAST(a AS STRING)",
    "to_date:string": f"CASE WHEN a RLIKE {_DATE} AND LENGTH(a) = 10 AND a >= '0001' THEN TRY_CAST(a AS DATE) END",
    "trim": "TRIM(a)",
    "unix_date": "CAST(UNIX_DATE(a) AS BIGINT)",
}
for _name in ("day", "dayofweek", "dayofyear", "month", "quarter", "weekday", "weekofyear", "year"):
    SPARK[_name] = f"CAST({_name.upper()}(CAST(a AS DATE)) AS BIGINT)"
for _name in ("hour", "minute", "second"):
    SPARK[_name] = f"CAST({_name.upper()}(a) AS BIGINT)"
for _table in (DUCKDB, SPARK):
    for _name, _same in (
        ("f_concatPath", "f_concat:element"),
        ("f_inPath", "array_contains"),
        ("f_size", "size"),
    ):
        _table[_name] = _table[_same]


_OF_LANGUAGE = "of_language"
"""Marks a call of a function of the language before printing, whose name is its key in ``DUCKDB`` and ``SPARK``. Node
types of our own cannot be had where sqlglot is compiled."""


def call_tree(call: typed.Call, arguments: Sequence[exp.Expr], external: Mapping[str, str]) -> exp.Expr:
    """Return the tree of a call for both engines. ``external`` has the SQL names of external functions."""
    name, types = call.function, [argument.type for argument in call.arguments]
    if call.external:
        return exp.Anonymous(this=external[name], expressions=list(arguments) or [exp.true()])
    if name in ("greatest", "least"):
        return exp.Anonymous(this=name.upper(), expressions=list(arguments)) if len(types) > 1 else arguments[0]
    place = call.arguments[-1] if name == "element_at" else None
    if isinstance(place, typed.Constant) and isinstance(place.value, int) and 0 < abs(place.value) < _MOST:
        return item_tree(arguments[0], place.value)
    if name == "concat_ws":
        return exp.Anonymous(this="CONCAT_WS", expressions=list(arguments))
    if name == "concat":
        tree = arguments[0]
        for argument in arguments[1:]:
            tree = exp.DPipe(this=tree, expression=argument)
        return exp.paren(tree, copy=False) if len(types) > 1 else tree
    kind = types[0].name
    if name == "f_concat":
        kind = "list" if types[0] == types[1] else "element"
    keys = (f"{name}/{len(types)}", f"{name}:{kind}", name)
    key = next(key for key in keys if key in DUCKDB)
    return exp.Anonymous(this=key, expressions=list(arguments), **{_OF_LANGUAGE: True})


def item_tree(of: exp.Expr, place: int) -> exp.Expr:
    """Return the tree of the item of a list at a place, from 1 or, counted from its end, from -1."""
    number = exp.Literal.number(place)
    return exp.Anonymous(this="item?", expressions=[of, number], **{_OF_LANGUAGE: True})


MOST_COPIED = 100
"""So many nodes at most are printed more than once, where a value is used several times."""


def is_large(tree: exp.Expr) -> bool:
    """Return whether a tree is too large for copies of it: a copy of copies of copies never ends."""
    return len(list(islice(tree.walk(), MOST_COPIED + 1))) > MOST_COPIED


def named_value(name: str) -> exp.Expr:
    """Return the tree of a value that :func:`let_tree` names."""
    return exp.Column(this=exp.Identifier(this=name))


def let_tree(name: str, value: exp.Expr, tree: exp.Expr) -> exp.Expr:
    """Return a tree in which a value has a name, so that it is computed, and printed, once."""
    return exp.Anonymous(this=f"{_LET}{name}", expressions=[value, tree], **{_OF_LANGUAGE: True})


_LET = "let?"
"""Begins the name of a call that names a value: the item of a list of one, as neither engine has an expression for
it."""


@cache
def _template(engine: str, key: str) -> exp.Expr:
    if key.startswith(_LET):
        name = key.removeprefix(_LET)
        duckdb = f"LIST_EXTRACT(LIST_TRANSFORM([a], LAMBDA {name} : b), 1)"
        text = duckdb if engine == "duckdb" else f"ELEMENT_AT(TRANSFORM(ARRAY(a), {name} -> b), 1)"
        return sqlglot.parse_one(text, dialect=engine)
    table = DUCKDB if engine == "duckdb" else SPARK
    return sqlglot.parse_one(table.get(key) or table[key.partition(":")[0]], dialect=engine)


def expanded(tree: exp.Expr, engine: str) -> exp.Expr:
    """Return a tree with each call replaced by the expression of one engine, arguments first. The tree is modified."""
    for child in list(tree.iter_expressions()):
        grown = expanded(child, engine)
        if grown is not child:
            child.replace(grown)
    if not tree.args.get(_OF_LANGUAGE):
        return tree
    arguments = dict(zip("abc", tree.expressions, strict=False))
    expansion = _template(engine, tree.this).copy()
    columns = [c for c in expansion.find_all(exp.Column) if c.name in arguments]
    uses = Counter(column.name for column in columns)
    repeated = {name: value for name, value in arguments.items() if uses[name] > 1 and is_large(value)}
    lets = {name: f"_w{place}" for place, name in enumerate(repeated, _unused(tree))} if repeated else {}
    arguments |= {name: named_value(let) for name, let in lets.items()}
    for column in columns:
        argument: exp.Expr = arguments[column.name].copy()
        if isinstance(column.parent, exp.Binary | exp.Unary | exp.Predicate):
            argument = _operand(argument)
        if column is expansion:
            return argument
        column.replace(argument)
    for name, let in lets.items():
        expansion = expanded(let_tree(let, repeated[name], expansion), engine)
    return _operand(expansion)


def _unused(tree: exp.Expr) -> int:
    """Return a number that no name of a value inside a tree has."""
    names = (identifier.name for identifier in tree.find_all(exp.Identifier))
    return 1 + max((int(name[2:]) for name in names if name[:2] == "_w" and name[2:].isdecimal()), default=0)


def _operand(tree: exp.Expr) -> exp.Expr:
    """Return a tree as an operand, in parentheses if it needs them."""
    loose = isinstance(tree, exp.Binary | exp.Unary) and not isinstance(tree, exp.Paren | exp.Func | exp.Bracket)
    # ArrayOverlaps is printed as an operator for DuckDB.
    return exp.paren(tree, copy=False) if loose or isinstance(tree, exp.ArrayOverlaps) else tree
