"""Conditions of feeds: one SQL expression over the columns of a table, read into a tree from which SQL is printed.

What a condition says comes from a file or a state that others may have written, so none of its text gets into SQL but
the names of columns and texts, quoted, and numbers. It has no subqueries, and no functions but ``CONDITION_FUNCTIONS``,
all of which depend on nothing but their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ...kernel.errors import JobError
from ...kernel.values import shown

LONGEST_CONDITION = 100_000

DEEPEST_CONDITION = 40

CONDITION_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w))|(?P<word>[^\W\d]\w*)
    |(?P<sign><=|>=|<>|!=|==|[-+*/%()\[\],.=<>]))""",
    re.VERBOSE,
)

CONDITION_FUNCTIONS = {
    **dict.fromkeys(("abs", "ceil", "day", "floor", "hour", "length", "lower", "ltrim", "minute", "month"), (1, 1)),
    **dict.fromkeys(("rtrim", "second", "trim", "upper", "year"), (1, 1)),
    **dict.fromkeys(("contains", "nullif"), (2, 2)),
    **dict.fromkeys(("substr", "substring"), (2, 3)),
    **dict.fromkeys(("greatest", "least"), (2, 100)),
    "coalesce": (1, 100),
    "replace": (3, 3),
    "round": (1, 2),
}
"""The functions of conditions, with the least and the greatest number of their arguments."""

CONDITION_TYPES = {
    **dict.fromkeys(("bigint", "boolean", "date", "double", "int", "smallint", "timestamp", "tinyint"), ""),
    "integer": "INT",
    "string": "VARCHAR",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
}
"""The types of CAST, with their names in DuckDB where they differ."""

NO_COLUMNS = frozenset(
    {"and", "between", "case", "distinct", "exists", "from", "ilike", "in", "is", "like", "not", "or", "select"}
    | {"current_date", "current_time", "current_timestamp", "current_user", "localtime", "localtimestamp", "user"}
)
"""Words that SQL reads as something else than a column unless they are quoted."""


@dataclass(frozen=True)
class Term:
    """A part of a condition: SQL with a ``{}`` for each of its parts."""

    sql: str
    parts: tuple[ConditionPart, ...] = ()


@dataclass(frozen=True)
class ConditionColumn:
    """A column of the table, or a member of a structure in one: its names."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class ConditionText:
    """A text."""

    text: str


ConditionPart = Term | ConditionColumn | ConditionText


@dataclass(frozen=True)
class Condition:
    """A condition that was read, and its ``text`` for messages."""

    text: str
    part: ConditionPart

    def sql(self, columns: Iterable[str], engine: str) -> str:
        """Return the condition in SQL for an engine, over a table with these columns. Raise ValueError if it names
        others, or if the engine would read it in another way than others do."""
        known_columns = list(columns)

        def printed(part: ConditionPart) -> str:
            if isinstance(part, Term):
                return part.sql.format(*map(printed, part.parts))
            if isinstance(part, ConditionText):
                if engine == "spark" and "\\" in part.text:
                    raise ValueError(f"the text {shown(part.text)} has a backslash, which Spark reads in its own way")
                return "'" + part.text.replace("'", "''") + "'"
            first, *members = column_of(part.names[0], known_columns), *part.names[1:]
            quote = '"' if engine == "duckdb" else "`"
            quoted = [quote + name.replace(quote, 2 * quote) + quote for name in (first, *members)]
            if engine == "spark":
                return ".".join(quoted)
            member = quoted[0]
            for name in members:
                member = f"struct_extract({member}, {printed(ConditionText(name))})"
            return member

        return printed(self.part)


def column_of(name: str, columns: Sequence[str]) -> str:
    """Return the column that a condition names, whose case may differ if no other column has the name."""
    matching = [name] if name in columns else [one for one in columns if one.lower() == name.lower()]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ValueError(f"the columns {matching[0]} and {matching[1]} differ only in case; write one as it is")
    raise ValueError(f"there is no column {shown(name)}")


def condition_in(text: str, engine: str = "duckdb") -> Condition:
    """Return the condition that a text contains, which is to be read as an engine does; raise ValueError if it is
    none."""
    return Condition(text, ConditionReader(text, engine).condition())


class ConditionReader:
    """Reads a condition by recursive descent. Where dialects of SQL differ in what binds tighter, parentheses have to
    say it."""

    def __init__(self, text: str, engine: str) -> None:
        """Split the text into tokens: pairs of a kind and the text."""
        self.engine, self.place, self.depth = engine, 0, 0
        self.tokens: list[tuple[str, str]] = []
        if len(text) > LONGEST_CONDITION:
            raise ValueError(f"it has more than {LONGEST_CONDITION:,} characters")
        if "\0" in text:
            raise ValueError("it has a character that is none (NUL)")
        text, reached = text.strip(), 0
        while reached < len(text):
            token = CONDITION_TOKEN.match(text, reached)
            if token is None or (token[0].strip() == "-" and text.startswith("-", token.end())):
                raise ValueError(f"{shown(text[reached:].strip())} cannot be read")
            self.tokens.append((str(token.lastgroup), token[0].strip()))
            reached = token.end()

    def condition(self) -> ConditionPart:
        """Return the whole condition."""
        if not self.tokens:
            raise ValueError("it is empty")
        part = self._alternatives()
        if self.place < len(self.tokens):
            self._fail()
        return part

    # Tokens

    def _fail(self) -> NoReturn:
        rest = " ".join(text for _, text in self.tokens[self.place :])
        raise ValueError(f"{shown(rest)} is not expected" if rest else "it ends too early")

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else ("", "")

    def _take(self, kind: str) -> str:
        """Return the next token, which must be of a kind."""
        next_kind, text = self._peek()
        if next_kind != kind:
            self._fail()
        self.place += 1
        return text

    def _next(self, *texts: str) -> str:
        """Return the next token, in lower case, if it is one of some words or signs; otherwise nothing."""
        kind, text = self._peek()
        if kind in ("word", "sign") and text.lower() in texts:
            self.place += 1
            return text.lower()
        return ""

    def _need(self, text: str) -> None:
        if not self._next(text):
            self._fail()

    # Expressions

    def _alternatives(self) -> ConditionPart:
        self.depth += 1
        if self.depth > DEEPEST_CONDITION:
            raise ValueError("it is nested too deeply")
        part = self._joined("OR", lambda: self._joined("AND", self._negation))
        self.depth -= 1
        return part

    def _joined(self, word: str, read: Callable[[], ConditionPart]) -> ConditionPart:
        parts = [read()]
        while self._next(word.lower()):
            parts.append(read())
        return Term(f"({f' {word} '.join(['{}'] * len(parts))})", tuple(parts)) if len(parts) > 1 else parts[0]

    def _negation(self) -> ConditionPart:
        count = 0
        while self._next("not"):
            count += 1
        part = self._comparison()
        return Term("(NOT {})", (part,)) if count % 2 else part

    def _comparison(self) -> ConditionPart:
        operand = self._sum()
        sign = self._next("=", "==", "<>", "!=", "<", "<=", ">", ">=")
        if sign:
            sign = {"==": "=", "!=": "<>"}.get(sign, sign)
            return Term(f"({{}} {sign} {{}})", (operand, self._sum()))
        if self._next("is"):
            no = "NOT " if self._next("not") else ""
            if self._next("distinct"):
                self._need("from")
                return Term(f"({{}} IS {no}DISTINCT FROM {{}})", (operand, self._sum()))
            value = self._next("null", "true", "false") or self._fail()
            return Term(f"({{}} IS {no}{value.upper()})", (operand,))
        no = "NOT " if self._next("not") else ""
        if self._next("in"):
            self._need("(")
            values = self._listed()
            return Term(f"({{}} {no}IN ({', '.join(['{}'] * len(values))}))", (operand, *values))
        if self._next("between"):
            low = self._sum()
            self._need("and")
            return Term(f"({{}} {no}BETWEEN {{}} AND {{}})", (operand, low, self._sum()))
        like = self._next("like", "ilike")
        if like:
            return Term(f"({{}} {no}{like.upper()} {{}})", (operand, self._sum()))
        return self._fail() if no else operand

    def _sum(self) -> ConditionPart:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/", "%"), self._factor))

    def _chain(self, signs: tuple[str, ...], read: Callable[[], ConditionPart]) -> ConditionPart:
        part, depth = read(), self.depth
        while sign := self._next(*signs):
            self.depth += 1
            if self.depth > DEEPEST_CONDITION:
                raise ValueError("it is nested too deeply")
            part = Term(f"({{}} {sign} {{}})", (part, read()))
        self.depth = depth
        return part

    def _factor(self) -> ConditionPart:
        minus = False
        while self._next("-"):
            minus = not minus
        part = self._value()
        while self.engine == "duckdb" and self._next("["):
            index = f"{'-' if self._next('-') else ''}{self._take('number')}"
            if not re.fullmatch("-?[0-9]{1,9}", index):
                raise ValueError(f"{index} is not the number of an element")
            self._need("]")
            part = Term(f"list_extract({{}}, {index})", (part,))
        return Term("(-{})", (part,)) if minus else part

    def _value(self) -> ConditionPart:
        kind, text = self._peek()
        after, word = self._peek(1), text.lower()
        if kind == "number":
            self.place += 1
            return Term(text)
        if kind == "text":
            self.place += 1
            return ConditionText(text[1:-1].replace("''", "'"))
        if self._next("("):
            part = self._alternatives()
            self._need(")")
            return part
        if self._next("true", "false", "null"):
            return Term(word.upper())
        if kind == "word" and word in ("date", "timestamp") and after[0] == "text":
            self.place += 1
            return Term(f"CAST({{}} AS {word.upper()})", (self._value(),))
        if kind == "word" and word == "cast" and after[1] == "(":
            return self._cast()
        if kind == "word" and after[1] == "(":
            return self._call(word)
        return self._column()

    def _listed(self) -> tuple[ConditionPart, ...]:
        """Return the expressions up to a closing parenthesis."""
        parts = [self._alternatives()]
        while self._next(","):
            parts.append(self._alternatives())
        self._need(")")
        return tuple(parts)

    def _call(self, name: str) -> ConditionPart:
        if name not in CONDITION_FUNCTIONS:
            functions = ", ".join(sorted(CONDITION_FUNCTIONS))
            raise ValueError(f"there is no function {shown(name)} in conditions; these are there: {functions}")
        self.place += 2
        parts = self._listed()
        least, most = CONDITION_FUNCTIONS[name]
        if not least <= len(parts) <= most:
            raise ValueError(f"{name} cannot have {len(parts)} arguments")
        return Term(f"{name}({', '.join(['{}'] * len(parts))})", parts)

    def _cast(self) -> ConditionPart:
        self.place += 2
        value = self._alternatives()
        self._need("as")
        name = self._take("word").lower()
        if name in ("decimal", "numeric") and self._next("("):
            digits = self._take("number")
            scale = self._take("number") if self._next(",") else "0"
            self._need(")")
            if not re.fullmatch(r"[0-9]{1,2},[0-9]{1,2}", f"{digits},{scale}"):
                raise ValueError(f"there is no type decimal({digits},{scale})")
            kind = f"DECIMAL({digits}, {scale})"
        elif name in CONDITION_TYPES:
            kind = CONDITION_TYPES[name] or name.upper()
            kind = "STRING" if (kind, self.engine) == ("VARCHAR", "spark") else kind
        else:
            raise ValueError(f"CAST knows no type {shown(name)}")
        self._need(")")
        return Term(f"CAST({{}} AS {kind})", (value,))

    def _column(self) -> ConditionPart:
        names = [self._name(first=True)]
        while self._next("."):
            names.append(self._name(first=False))
        return ConditionColumn(tuple(names))

    def _name(self, first: bool) -> str:
        kind, text = self._peek()
        if kind == "quoted":
            if (text[0] == "`") != (self.engine == "spark"):
                own = "`name`" if self.engine == "spark" else '"name"'
                raise ValueError(f"{shown(text)}: names are quoted as {own} here, and texts as 'text'")
            self.place += 1
            return text[1:-1].replace(2 * text[0], text[0])
        if kind != "word" or (first and text.lower() in NO_COLUMNS):
            self._fail()
        self.place += 1
        return text


def unusable_condition(relation: str, text: str, problem: object) -> JobError:
    """Return the error for a condition that a feed cannot have, with the way out."""
    return JobError(
        f"{relation}: the condition (`where`) of its feed, {shown(text)}, cannot be used: {problem}. A condition is "
        "one expression of comparisons over the columns; give another one with `connect --feeds FILE.toml`, or filter "
        "by a rule of the program"
    )
