"""Advice on what to write in a program instead of words and operators of SQL, Prolog and other languages."""

from __future__ import annotations

_COMPARE = "write `contains(S, ...)`, `startswith(S, ...)` or `endswith(S, ...)` to match a string"
_CASES = "write a rule for each case, with its condition in the body"
_ORDER = "relations have no order; `max` and `min` in a head find the first and the last"
_JOIN = "write atoms with commas between them; they are joined by the variables that they share"

_WORDS = {
    "and": "write `,`",
    "or": "write `;`",
    "not": "write `!` or `not` before an atom",
    "is": "write `=`",
    "in": "write an atom of the relation, or alternatives such as `(X = 1; X = 2)`",
    "between": "write two comparisons, as in `X >= 1, X <= 3`",
    "like": _COMPARE,
    "ilike": _COMPARE,
    "rlike": _COMPARE,
    "matches": _COMPARE,
    "mod": "write `%`",
    "div": "write `/`",
    "where": "write `,`; conditions are literals of the body",
    "having": "write a second rule with the condition on the relation of the aggregate",
    "group": "write the aggregate in the head, as in `p(X, sum<Y>)`; its other arguments form the groups",
    "order": _ORDER,
    "limit": _ORDER,
    "union": "write a rule for each part, with the same head",
    "except": "write `!` before an atom",
    "exists": "write the atom itself, with `_` for values that do not matter",
    "join": _JOIN,
    "on": _JOIN,
    "as": "write `X = ...` in the body to name a value",
    "then": _CASES,
    "else": _CASES,
    "when": _CASES,
}
"""The advice on a word between the parts of a clause, by the word in small letters."""

_RULE = "write a rule, as in `long(X) :- link(X, Y), Y > 3.`"
_CHANGE = "a program has no statements; facts are inserted and deleted by changes of input relations"

_STATEMENTS = {
    "select": _RULE,
    "from": _RULE,
    "where": _RULE,
    "with": "write rules; the body of a rule may use the relation of its head",
    "join": _JOIN,
    "create": "declare a relation, as in `relation link(src: int, dst: int)`; rules define it",
    "insert": "write a fact, as in `link(1, 2).`, or read facts from files",
    "values": "write facts, as in `link(1, 2).`",
    "delete": _CHANGE,
    "update": _CHANGE,
    "drop": _CHANGE,
    "alter": _CHANGE,
}
"""The advice on a statement of SQL, by its first word in small letters."""

_DIRECTIVES = {
    "decl": "write `relation NAME(COLUMN: TYPE, ...)`",
    "input": "write `input relation` in the declaration",
    "output": "write `output relation` in the declaration",
    "type": "write `typedef NAME = TYPE`",
    "include": 'write `include "FILE"`',
    "functor": "write `extern function NAME(PARAMETER: TYPE, ...): TYPE`",
}
"""The advice on a directive of Soufflé, by its name."""

_NO_NULL = "the constant is `null`; only columns whose type ends with `?` may be null"

_CONSTANTS = {
    **dict.fromkeys(("null", "NULL", "Null", "nil", "NIL", "None"), _NO_NULL),
    **dict.fromkeys(("TRUE", "True"), "write `true`"),
    **dict.fromkeys(("FALSE", "False"), "write `false`"),
}
"""The advice on a constant, by its name."""


def word_advice(word: str) -> str | None:
    """Return what to write instead of a word between the parts of a clause, or None if it is not a known one."""
    return _WORDS.get(word.lower())


def statement_advice(word: str) -> str | None:
    """Return what to write instead of a statement that begins with a word, or None if it is not a known one."""
    return _STATEMENTS.get(word.lower())


def directive_advice(name: str) -> str:
    """Return how to read a directive of Soufflé, or what to write instead."""
    written = _DIRECTIVES.get(name)
    return f"read the program with `--dialect souffle`{f', or {written}' if written else ''}"


def begins_statement(word: str) -> bool:
    """Return whether a line that begins with this word begins a new statement of SQL."""
    return word.lower() in ("with", "create", "insert", "delete", "update", "drop", "alter")


def constant_advice(name: str) -> str | None:
    """Return what to write instead of a constant, or None if ``name`` is not a known one."""
    return _CONSTANTS.get(name)
