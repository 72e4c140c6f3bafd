"""Values and tuples: as users see them, as they are stored, in program syntax and in SQL."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from .model import Column, Relation
from .sql import element_type, is_list, is_optional, plain_type, sql_type, stored_type

Values: TypeAlias = tuple[Any, ...]

Known: TypeAlias = tuple[str, Values]
"""A tuple: its table and its values."""

FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that are invisible."""


def plain_value(value: Any, kind: str) -> Any:
    """Return a stored value of type ``kind`` as users see it: None for null."""
    return (value[0] if value else None) if is_optional(kind) else value


def stored_value(value: Any, kind: str) -> Any:
    """Return a value of type ``kind``, None for null, as it is stored."""
    return ([] if value is None else [value]) if is_optional(kind) else value


def plain_row(columns: Sequence[Column], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return stored values of columns as users see them."""
    return tuple(plain_value(value, column.type) for value, column in zip(row, columns, strict=True))


def stored_row(columns: Sequence[Column], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return values of columns, None for null, as they are stored."""
    return tuple(stored_value(value, column.type) for value, column in zip(row, columns, strict=True))


def hashable(value: Any) -> Any:
    """Return a value with its lists as tuples."""
    return tuple(map(hashable, value)) if isinstance(value, list) else value


def shown(value: object) -> str:
    """Return a value as text for messages, at most 60 characters of it."""
    try:
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
    except Exception:
        # An int of thousands of digits, by itself or in a list, or an object that cannot print itself.
        text = str(Decimal(value)) if isinstance(value, int) else f"a value of the type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def visible(text: str) -> str:
    """Return a text that is safe to print on a terminal: control characters, those that change the writing direction
    and invisible ones are escaped as in JSON."""
    if text.isascii() and text.isprintable():
        return text
    shown = (
        (
            char
            if (char.isprintable() or unicodedata.category(char) == "Zs") and char not in FILLERS
            else json.dumps(char)[1:-1].replace("\x7f", "\\u007f")
        )
        for char in text
    )
    return "".join(shown)


def value_text(value: Any) -> str:
    """Return a value as text that can be read back; None as ``null``."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return json.dumps(value, default=value_text, ensure_ascii=False)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)


def constant_text(value: Any, kind: str) -> str:
    """Return a value of type ``kind`` as a constant of the Datalog program."""
    if is_optional(kind):
        return constant_text(value[0], plain_type(kind)) if value else "null"
    if is_list(kind):
        return f"[{', '.join(constant_text(item, element_type(kind)) for item in value)}]"
    text = value_text(value)
    if kind == "string":
        return visible(json.dumps(text, ensure_ascii=False))
    return f'{kind}"{text}"' if kind in ("date", "timestamp") else text


def tuple_text(relation: Relation, values: Sequence[Any]) -> str:
    """Return a tuple in program syntax, with ``_`` for a value that is not known; a copy of a row of a multiset has
    its number."""
    texts = [
        "_" if value is None else constant_text(value, column.type)
        for value, column in zip(values, relation.term_columns, strict=True)
    ]
    if relation.copy:
        number = texts.pop()
        return f"{relation.name}({', '.join(texts)})" + ("" if number == "_" else f", copy {number}")
    if relation.annotates:
        # The last columns are a live proof or derivation sets, which the rest of the proof shows.
        texts = texts[: -1 if relation.kind == "proofs" else -2]
    name = known_as(relation)
    return f"{name}({', '.join(texts)})" if texts else name


def known_as(relation: Relation) -> str:
    """Return the name by which users know a relation."""
    return relation.annotates or relation.shown_as or relation.name


def sql_constant(value: Any, kind: str, engine: str) -> str:
    """Return a value in SQL."""
    kind = stored_type(kind)
    if is_list(kind):
        items = ", ".join(sql_constant(item, element_type(kind), engine) for item in value)
        listed = f"[{items}]" if engine == "duckdb" else f"ARRAY({items})"
        return f"CAST({listed} AS {sql_type(kind, engine)})"
    text = repr(value) if isinstance(value, float) else value_text(value)
    text = text.replace("\\", "\\\\").replace("'", "\\'") if engine == "spark" else text.replace("'", "''")
    return f"CAST('{text}' AS {sql_type(kind, engine)})"


def named_values(relation: Any, row: Mapping[str, Any]) -> str:
    """Return the values of a row as programs write them, without those that are missing: ``x = 1, s = "a"``. ``row``
    maps SQL column names to values. The relation is one of any methods."""
    return ", ".join(
        f"{column.name} = {constant_text(row[column.sql], column.type)}"
        for column in relation.columns
        if row.get(column.sql) is not None
    )
