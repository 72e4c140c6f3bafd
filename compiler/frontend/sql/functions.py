"""Functions of SQL that have an equal among those of the language."""

from __future__ import annotations

from sqlglot import exp

STRICT: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StartsWith: ("startswith", ("this", "expression")),
    exp.EndsWith: ("endswith", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.StrPosition: ("instr", ("this", "substr")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.MD5: ("md5", ("this",)),
    exp.Year: ("year", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
    exp.Hour: ("hour", ("this",)),
    exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
    exp.LastDay: ("last_day", ("this",)),
    exp.Unicode: ("ascii", ("this",)),
}
"""The function that a class of nodes is, and its arguments. Each is null if one of these is."""

EXTRACTED = {
    "year": "year",
    "quarter": "quarter",
    "month": "month",
    "day": "day",
    "doy": "dayofyear",
    "dayofyear": "dayofyear",
    "week": "weekofyear",
    "hour": "hour",
    "minute": "minute",
    "second": "second",
}
"""The functions of parts of dates, by their names in EXTRACT."""

ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%", exp.DPipe: "++"}

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

OPPOSITE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The comparisons that hold where others do not, of values that are not null."""

AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}
