"""Random views in SQL, and random rows for the tables that they read."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

TABLES = """
CREATE TABLE a (id INTEGER PRIMARY KEY, g INTEGER, v INTEGER, t VARCHAR);
CREATE TABLE b (x INTEGER, y INTEGER, s VARCHAR, n DECIMAL(6, 2));
CREATE TABLE c (k INTEGER NOT NULL, w INTEGER NOT NULL, u VARCHAR, PRIMARY KEY (k, w));
"""

COLUMNS = {
    "a": {"id": "int", "g": "int", "v": "int", "t": "text"},
    "b": {"x": "int", "y": "int", "s": "text", "n": "number"},
    "c": {"k": "int", "w": "int", "u": "text"},
}
NEVER_NULL = {("a", "id"), ("c", "k"), ("c", "w")}
KEYS = {"a": (0,), "c": (0, 1)}
TEXTS = ("ab", "b", "abc", "", "B")

Columns = dict[str, str]
"""The types of columns by the names with which they are written."""


@dataclass
class SqlMaker:
    """Makes queries. ``names`` counts what was named; ``members`` of WITH, and other views, can be read."""

    rng: random.Random
    names: Counter[str] = field(default_factory=Counter)
    members: dict[str, list[str]] = field(default_factory=dict)

    def name(self, prefix: str) -> str:
        """Return a new name."""
        self.names[prefix] += 1
        return f"{prefix}{self.names[prefix]}"

    def query(self, depth: int, width: Sequence[str], outer: Columns | None = None) -> str:
        """Return a query with columns of these types, called c1, c2, ..."""
        if depth > 0 and outer is None and self.rng.random() < 0.15:
            return self.with_members(depth, width)
        if depth > 0 and self.rng.random() < 0.2:
            one, other = (self.query(depth - 1, width, outer) for _ in range(2))
            op = self.rng.choice(("UNION", "UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
            names = ", ".join(f"c{i + 1}" for i in range(len(width)))
            return f"SELECT {names} FROM (({one}) {op} ({other})) AS {self.name('q')}"
        return self.select(depth, width, outer)

    def with_members(self, depth: int, width: Sequence[str]) -> str:
        """Return a query with a WITH, perhaps a recursive one."""
        rng, name = self.rng, self.name("w")
        own = [rng.choice(("int", "int", "text")) for _ in range(rng.choice((1, 2, 2)))]
        names = [f"c{i + 1}" for i in range(len(own))]
        recursive = rng.random() < 0.6
        text = self.select(depth - 1, own, None)
        if recursive:
            table = rng.choice(("a", "b", "c"))
            alias = self.name("t")
            more = {f"{alias}.{n}": t for n, t in COLUMNS[table].items()}
            known = {f"{name}.{n}": t for n, t in zip(names, own, strict=True)}
            items = []
            for type_ in own:
                fitting = [n for n, t in {**more, **known}.items() if t == type_]
                items.append(rng.choice(fitting) if fitting else f"'{rng.choice(TEXTS)}'" if type_ == "text" else "1")
            where = f" WHERE {self.condition(0, {**more, **known}, None)}" if rng.random() < 0.4 else ""
            step = (
                f"SELECT {', '.join(items)} FROM {name} JOIN {table} AS {alias} ON {self.equality(known, more)}{where}"
            )
            text = f"{text} UNION {step}"
        self.members[name] = own
        whole = self.select(depth - 1, width, None)
        del self.members[name]
        return f"WITH {'RECURSIVE ' * recursive}{name}({', '.join(names)}) AS ({text}) {whole}"

    def numbered(self, width: Sequence[str]) -> str:
        """Return a query of the first rows of groups."""
        rng, table = self.rng, self.rng.choice(("a", "c"))
        alias, name = self.name("t"), self.name("q")
        columns = {f"{alias}.{n}": t for n, t in COLUMNS[table].items()}
        key = [f"{alias}.{list(COLUMNS[table])[i]}" for i in KEYS[table]]
        by = rng.choice([*columns])
        order = ", ".join(
            f"{n}{rng.choice(('', ' DESC'))} NULLS {rng.choice(('FIRST', 'LAST'))}"
            for n in (rng.choice([*columns]), *key)
        )
        every = ", ".join(f"{n} AS c{i + 1}" for i, n in enumerate(columns))
        inner = f"SELECT {every}, row_number() OVER (PARTITION BY {by} ORDER BY {order}) AS rn"
        if rng.random() < 0.3:
            inner += f", row_number() OVER (PARTITION BY {rng.choice([*columns])} ORDER BY {', '.join(key)}) AS other"
        inner += f" FROM {table} AS {alias}"
        if rng.random() < 0.3:
            inner += f" ORDER BY {', '.join(f'{n} NULLS LAST' for n in key)} LIMIT {rng.randint(1, 4)}"
            inner += rng.choice(("", f" OFFSET {rng.randint(0, 2)}"))
        known = {f"{name}.c{i + 1}": t for i, t in enumerate(columns.values())} | {f"{name}.rn": "int"}
        items = ", ".join(f"{self.value(0, t, known)} AS c{i + 1}" for i, t in enumerate(width))
        test = f"{name}.rn {rng.choice(('=', '<=', '<', '>'))} {rng.randint(1, 2)}"
        return f"SELECT {items} FROM ({inner}) AS {name} WHERE {test}"

    def select(self, depth: int, width: Sequence[str], outer: Columns | None) -> str:
        """Return a SELECT."""
        rng = self.rng
        if outer is None and rng.random() < 0.08:
            return self.numbered(width)
        text, columns = self.source(depth)
        for _ in range(rng.choice((0, 0, 1, 1, 2)) if depth else rng.choice((0, 0, 0, 1))):
            other, more = self.source(depth - 1)
            if rng.random() < 0.15:
                other, more = self.parenthesized(depth, other, more)
            kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", ","))
            on = self.equality(columns, more)
            if rng.random() < 0.1:
                text += f" {rng.choice(('SEMI', 'ANTI'))} JOIN {other} ON {on}"
                continue
            columns = {**columns, **more}
            if kind in ("JOIN", "LEFT JOIN") and rng.random() < 0.3:
                on = f"{on} AND {self.condition(0, columns, None)}"
            text += f" CROSS JOIN {other}" if kind == "," else f" {kind} {other} ON {on}"
        seen = {**(outer or {}), **columns}
        where = f" WHERE {self.condition(depth, seen, columns)}" if rng.random() < 0.6 else ""
        if rng.random() < 0.3:
            return self.grouped(depth, width, text, columns, where)
        distinct = "DISTINCT " if rng.random() < 0.3 else ""
        items = ", ".join(f"{self.value(depth, type_, columns)} AS c{i + 1}" for i, type_ in enumerate(width))
        return f"SELECT {distinct}{items} FROM {text}{where}"

    def parenthesized(self, depth: int, text: str, columns: Columns) -> tuple[str, Columns]:
        """Return an item of a FROM joined with another in parentheses, and the columns of both."""
        other, more = self.source(depth - 1)
        kind = self.rng.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
        return f"({text} {kind} {other} ON {self.equality(columns, more)})", {**columns, **more}

    def grouped(self, depth: int, width: Sequence[str], text: str, columns: Columns, where: str) -> str:
        """Return a SELECT with aggregates."""
        rng = self.rng
        whole = rng.random() < 0.2
        keys = {} if whole else dict(rng.sample([*columns.items()], k=min(len(columns), rng.choice((1, 1, 2)))))
        items = []
        for place, type_ in enumerate(width):
            fitting = [name for name, kind in keys.items() if kind == type_]
            if fitting and rng.random() < 0.6:
                items.append(f"{rng.choice(fitting)} AS c{place + 1}")
            elif keys and rng.random() < 0.15:
                inner, own = self.source(0)
                query = f"SELECT {self.aggregate(type_, own)} FROM {inner} WHERE {self.equality(keys, own)}"
                items.append(f"({query}) AS c{place + 1}")
            else:
                items.append(f"{self.aggregate(type_, columns)} AS c{place + 1}")
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = (
            f" HAVING {self.aggregate('int', columns)} {rng.choice(('>', '<', '='))} {rng.randint(0, 3)}"
            if rng.random() < 0.3 and keys
            else ""
        )
        if keys and not having and rng.random() < 0.15:
            having = f" HAVING {rng.choice(('', 'NOT '))}EXISTS ({self.select(0, ['int'], keys)})"
        return f"SELECT {', '.join(items)} FROM {text}{where}{by}{having}"

    def aggregate(self, type_: str, columns: Columns) -> str:
        """Return an aggregate."""
        rng = self.rng
        if type_ != "int":
            names = ("min", "max") if type_ == "text" else ("min", "max", "sum")
            return f"{rng.choice(names)}({self.value(0, type_, columns)})"
        kind = rng.choice(("count(*)", "count", "sum", "min", "max", "count(DISTINCT", "sum(DISTINCT"))
        if kind == "count(*)":
            call = kind
        elif kind.endswith("DISTINCT"):
            call = f"{kind} {self.value(0, 'int', columns)})"
        else:
            call = f"{kind}({self.value(rng.choice((0, 0, 1)), 'int', columns, deep=False)})"
        if rng.random() < 0.2:
            call += f" FILTER (WHERE {self.condition(0, columns, None)})"
        return call

    def source(self, depth: int) -> tuple[str, Columns]:
        """Return an item of a FROM, and its columns."""
        alias = self.name("t")
        if depth > 0 and self.rng.random() < 0.3:
            width = [self.rng.choice(("int", "int", "text", "number")) for _ in range(self.rng.choice((1, 2)))]
            text = f"({self.query(depth - 1, width)}) AS {alias}"
            return text, {f"{alias}.c{i + 1}": type_ for i, type_ in enumerate(width)}
        if self.members and self.rng.random() < 0.4:
            name, own = self.rng.choice([*self.members.items()])
            return f"{name} AS {alias}", {f"{alias}.c{i + 1}": type_ for i, type_ in enumerate(own)}
        table = self.rng.choice(("a", "a", "b", "c"))
        return f"{table} AS {alias}", {f"{alias}.{name}": type_ for name, type_ in COLUMNS[table].items()}

    def equality(self, columns: Columns, more: Columns) -> str:
        """Return an equality of columns of two items."""
        pairs = [(a, b) for a in columns for b in more if "text" not in {columns[a], more[b]} or columns[a] == more[b]]
        if not pairs:
            return "1 = 1"
        a, b = self.rng.choice(pairs)
        return f"{a} = {b}"

    def value(self, depth: int, type_: str, columns: Columns, deep: bool = True) -> str:
        """Return an expression."""
        rng = self.rng
        if type_ == "number" and rng.random() < 0.4:
            type_ = "int"
        fitting = [name for name, kind in columns.items() if kind == type_]
        choice = rng.random()
        if (depth <= 0 and choice < 0.9 and fitting) or (choice < 0.55 and fitting):
            return rng.choice(fitting)
        if choice < 0.65 or depth <= 0:
            constants = {"int": str(rng.randint(0, 4)), "number": f"{rng.randint(0, 8) / 4:.2f}"}
            return constants.get(type_) or f"'{rng.choice(TEXTS)}'"
        one, other = (self.value(depth - 1, type_, columns, deep) for _ in range(2))
        if choice < 0.75:
            return f"coalesce({one}, {other})"
        if choice < 0.8:
            return f"nullif({one}, {other})"
        if choice < 0.9:
            return f"CASE WHEN {self.condition(0, columns, None)} THEN {one} ELSE {other} END"
        if choice < 0.94 and deep and rng.random() < 0.4:
            return self.lookup(type_, columns)
        if choice < 0.94 and deep:
            inner, own = self.source(0)
            tests = (self.equality(columns, own), self.condition(0, {**columns, **own}, None))
            where = rng.choice((f" WHERE {tests[0]}", f" WHERE {tests[1]}", "", f" WHERE {' AND '.join(tests)}"))
            call = self.aggregate(type_, own)
            return f"(SELECT {call} FROM {inner}{where})"
        if type_ != "text":
            return f"({one} {rng.choice(('+', '-', '*'))} {other})"
        return rng.choice((f"upper({one})", f"({one} || {other})", f"substr({one}, 1, 1)"))

    def lookup(self, type_: str, columns: Columns) -> str:
        """Return a query that has one row at most."""
        rng, alias, table = self.rng, self.name("t"), self.rng.choice(("a", "a", "c"))
        own = {f"{alias}.{name}": kind for name, kind in COLUMNS[table].items()}
        key = [f"{alias}.{[*COLUMNS[table]][i]}" for i in KEYS[table]]
        tests = [f"{name} = {self.value(0, 'int', columns)}" for name in key]
        if rng.random() < 0.3:
            tests, order = [self.condition(0, {**columns, **own}, None)], ", ".join(key)
            where = f"{tests[0]} ORDER BY {order} LIMIT 1{rng.choice(('', ' OFFSET 1'))}"
            return f"(SELECT {self.value(0, type_, own)} FROM {table} AS {alias} WHERE {where})"
        if rng.random() < 0.3:
            tests.append(self.condition(0, {**columns, **own}, None))
        return f"(SELECT {self.value(1, type_, own, False)} FROM {table} AS {alias} WHERE {' AND '.join(tests)})"

    def condition(self, depth: int, columns: Columns, own: Columns | None) -> str:
        """Return a condition."""
        rng = self.rng
        choice = rng.random()
        type_ = rng.choice(("int", "int", "text", "number"))
        if choice < 0.4 or depth <= 0:
            one, other = self.value(depth - 1, type_, columns), self.value(depth - 1, type_, columns)
            kind = rng.random()
            if kind < 0.15:
                return f"{one} IS {rng.choice(('', 'NOT '))}NULL"
            if kind < 0.25 and type_ == "int":
                return f"{one} {rng.choice(('', 'NOT '))}BETWEEN {rng.randint(0, 2)} AND {rng.randint(1, 4)}"
            if kind < 0.35 and type_ == "int":
                return f"{one} {rng.choice(('', 'NOT '))}IN ({', '.join(rng.sample(['0', '1', '2', '3', 'NULL'], 2))})"
            if kind < 0.4:
                text = self.value(0, "text", columns)
                return f"{text} {rng.choice(('', 'NOT '))}LIKE '{rng.choice(('a%', '%b', '%b%', 'ab'))}'"
            return f"{one} {rng.choice(('=', '<>', '<', '<=', '>', '>='))} {other}"
        if choice < 0.55:
            return f"({self.condition(depth - 1, columns, own)} AND {self.condition(depth - 1, columns, own)})"
        if choice < 0.7:
            return f"({self.condition(depth - 1, columns, own)} OR {self.condition(depth - 1, columns, own)})"
        if choice < 0.78:
            return f"NOT ({self.condition(depth - 1, columns, own)})"
        if choice < 0.9:
            inner = self.select(0, [type_], columns)
            return f"{rng.choice(('', 'NOT '))}EXISTS ({inner})"
        inner = self.select(0, [type_], columns)
        words = rng.choice(("IN", "IN", "NOT IN", "NOT IN", "= ANY", "<> ALL"))
        return f"{self.value(0, type_, columns)} {words} ({inner})"


def made_views(seed: int | str) -> str:
    """Return views, of which v is materialized."""
    rng = random.Random(f"view {seed}")
    maker, views = SqlMaker(rng), []
    for number in range(rng.choice((0, 0, 1, 2))):
        width = [rng.choice(("int", "int", "text", "number")) for _ in range(rng.choice((1, 2)))]
        views.append(f"CREATE VIEW u{number} AS {maker.query(rng.choice((0, 1)), width)};\n")
        maker.members[f"u{number}"] = width
    width = [rng.choice(("int", "int", "text", "number")) for _ in range(rng.choice((1, 2, 2, 3)))]
    views.append(f"CREATE MATERIALIZED VIEW v AS {maker.query(rng.choice((0, 1, 1, 2)), width)};")
    return "".join(views)


Rows = dict[str, list[tuple[Any, ...]]]
"""Rows by table; of b, equal ones are copies."""


def made_row(rng: random.Random, table: str) -> tuple[Any, ...]:
    """Return a row."""
    return tuple(
        None
        if (table, name) not in NEVER_NULL and rng.random() < 0.25
        else rng.randint(0, 3)
        if type_ == "int"
        else Decimal(rng.randint(0, 6)) / 4
        if type_ == "number"
        else rng.choice(TEXTS)
        for name, type_ in COLUMNS[table].items()
    )


def made_batch(rng: random.Random, rows: Rows) -> dict[str, list[tuple[str, tuple[Any, ...]]]]:
    """Return random changes of rows, and make them."""
    changes: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}
    for table in COLUMNS:
        now, own = rows[table], changes.setdefault(table, [])
        for _ in range(rng.choice((0, 1, 2, 4))):
            if now and rng.random() < 0.45:
                gone = now.pop(rng.randrange(len(now)))
                if not any(row == gone for _, row in own):
                    own.append(("-", gone))
                else:
                    now.append(gone)
                continue
            row = made_row(rng, table)
            if table in KEYS:
                key = [row[i] for i in KEYS[table]]
                if any([known[i] for i in KEYS[table]] == key for known in (*now, *(r for _, r in own))):
                    continue
            elif any(known == row for _, known in own):
                continue
            own.append(("+", row))
            now.append(row)
    return changes


Execute = Callable[[str], Sequence[tuple[Any, ...]]]
