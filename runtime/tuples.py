"""Tuples in program syntax: read, printed, and in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from .errors import JobError
from .inputs.values import shown, value_reader
from .model import Program, Relation
from .printing import constant_text, value_text
from .sql import element_type, is_list, is_optional, plain_type, sql_type, stored_type

Values: TypeAlias = tuple[Any, ...]

Known: TypeAlias = tuple[str, Values]
"""A tuple: its table and its values."""


def parse_tuple(program: Program, text: str, open: bool = False) -> tuple[Relation, Values]:
    """Parse a tuple in program syntax, ``reachable(@1, "x")``, into relation and typed values, or raise JobError.

    If it may be ``open``, the value of a ``_`` is None.
    """
    found = re.fullmatch(r"\s*([\w.]+)\s*(?:\((.*)\))?\s*\.?\s*", text, re.DOTALL)
    if not found:
        raise JobError(f"{shown(text)} is not a tuple; write one as in a program: reachable(1, 4)")
    relation = program.relation(found[1])
    words = split_values(found[2] or "")
    wanted = ", ".join(f"{column.name}: {column.type}" for column in relation.columns)
    if len(words) != len(relation.columns):
        raise JobError(
            f"{relation.name} has {len(relation.columns)} columns ({wanted}), "
            f"and {text.strip()} has {len(words)} values"
        )
    values: list[Any] = []
    for word, column in zip(words, relation.columns, strict=True):
        word = word.removeprefix("@").strip()
        try:
            values.append(None if open and word == "_" else read_constant(word, column.type))
        except ValueError as error:
            raise JobError(f"{text.strip()}: {column.name}: {error}") from error
    return relation, tuple(values)


def read_constant(text: str, kind: str) -> Any:
    """Return the value of a constant in program syntax; raise ValueError if it is of another type."""
    if is_optional(kind):
        return [] if text == "null" else [read_constant(text, plain_type(kind))]
    if is_list(kind):
        if not (text.startswith("[") and text.endswith("]")):
            raise ValueError(f"{shown_constant(text)} is not a {kind}, which is written [...]")
        items = []
        for number, item in enumerate(split_values(text[1:-1]), start=1):
            try:
                items.append(read_constant(item, element_type(kind)))
            except ValueError as error:
                raise ValueError(f"element {number}: {error}") from error
        return items
    found = re.fullmatch(r'(date|timestamp)?("(?:[^"\\]|\\.)*")', text, re.DOTALL)
    given = (found[1] or "string") if found else ""
    wanted = kind if kind in ("string", "date", "timestamp") else ""
    if given != wanted:
        marks = {"string": ", which is written in quotes", "": ""}
        how = marks.get(wanted, f', which is written {wanted}"..."')
        article = "an" if kind == "int" else "a"
        raise ValueError(f"{shown_constant(text)} is not {article} {kind}{how}")
    if not found:
        return value_reader(kind, True)(text)
    try:
        value = json.loads(found[2], strict=False)
    except ValueError as error:
        raise ValueError(f"{text} has an unknown escape") from error
    return value_reader(kind, True)(value)


def shown_constant(text: str) -> str:
    """Return the text of a constant for messages."""
    return (text if len(text) <= 60 else f"{text[:57]}...") or "nothing"


def split_values(text: str) -> list[str]:
    """Split text at the commas outside quotes and brackets."""
    parts = re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]]|,|[^",\[\]]+', text)
    if "".join(parts) != text:
        raise JobError(f"{shown(text)} has a string that is not closed")
    values, depth = [""], 0
    for part in parts:
        depth += (part == "[") - (part == "]")
        if part == "," and depth == 0:
            values.append("")
        else:
            values[-1] += part
    return [value.strip() for value in values] if text.strip() else []


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
