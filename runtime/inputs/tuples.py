"""Tuples in program syntax: read, printed, and in SQL."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..kernel.errors import JobError
from ..kernel.model import Column, Program, Relation
from ..kernel.sql import element_type, is_list, is_optional, plain_type
from ..kernel.values import Values, shown
from .values import value_reader


def parse_tuple(program: Program, text: str, open: bool = False) -> tuple[Relation, Values]:
    """Parse a tuple in program syntax, ``reachable(@1, "x")``, into relation and typed values, or raise JobError.

    If it may be ``open``, the value of a ``_`` is None.
    """
    name, words = split_tuple(text)
    relation = program.relation(name)
    return relation, tuple_values(relation.columns, words, text, open)


def split_tuple(text: str) -> tuple[str, list[str]]:
    """Return the name of the relation of a tuple in program syntax, and its constants; raise JobError for another
    text."""
    match = re.fullmatch(r"\s*([\w.]+)\s*(?:\((.*)\))?\s*\.?\s*", text, re.DOTALL)
    if not match:
        raise JobError(f"{shown(text)} is not a tuple; write one as in a program: reachable(1, 4)")
    return match[1], split_values(match[2] or "")


def tuple_values(columns: Sequence[Column], words: Sequence[str], text: str, open: bool) -> Values:
    """Return the values of the constants of the tuple in ``text``, None for a ``_`` if it may be ``open``; raise
    JobError for one that does not fit its column."""
    if len(words) != len(columns):
        listed = ", ".join(f"{column.name}: {column.type}" for column in columns)
        name = text.partition("(")[0].strip()
        raise JobError(f"{name} has {len(columns)} columns ({listed}), and {text.strip()} has {len(words)} values")
    values: list[Any] = []
    for word, column in zip(words, columns, strict=True):
        word = word.removeprefix("@").strip()
        try:
            values.append(None if open and word == "_" else read_constant(word, column.type))
        except ValueError as error:
            raise JobError(f"{text.strip()}: {column.name}: {error}") from error
    return tuple(values)


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
    match = re.fullmatch(r'(date|timestamp)?("(?:[^"\\]|\\.)*")', text, re.DOTALL)
    written_type = (match[1] or "string") if match else ""
    needed_type = kind if kind in ("string", "date", "timestamp") else ""
    if written_type != needed_type:
        marks = {"string": ", which is written in quotes", "": ""}
        how = marks.get(needed_type, f', which is written {needed_type}"..."')
        article = "an" if kind == "int" else "a"
        raise ValueError(f"{shown_constant(text)} is not {article} {kind}{how}")
    if not match:
        return value_reader(kind, True)(text)
    try:
        value = json.loads(match[2], strict=False)
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
