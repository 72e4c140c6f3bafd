"""Rows and values as text."""

from __future__ import annotations

import itertools
import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from .model import Relation
from .sql import element_type, is_list, is_optional, plain_type


def discard_output() -> None:
    """Discard what is left to print on standard output, so that it does not fail again when Python exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def shown_lines(columns: list[str], rows: Iterator[Any], form: str) -> Iterator[str]:
    """Yield rows as lines of text; ``form`` is ``csv``, ``json`` or ``table``."""
    if not columns:
        yield from ("{}" if form == "json" else "()" for _ in rows)
    elif form == "json":
        for row in rows:
            yield json.dumps(dict(zip(columns, row, strict=True)), default=value_text, ensure_ascii=False)
    elif form == "csv":
        yield ",".join(map(csv_field, columns))
        for row in rows:
            yield ",".join(map(csv_field, row))
    else:
        yield from table_lines(columns, rows)


FILLERS = "\u115f\u1160\u2800\u3164\uffa0"
"""Letters and signs that nobody sees."""


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


def visible_lines(text: str) -> str:
    """Return a text of several lines that is safe to print on a terminal; line breaks stay."""
    return "\n".join(map(visible, text.split("\n")))


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


def named_values(relation: Relation, row: Mapping[str, Any]) -> str:
    """Return the values of a row as programs write them, without those that are missing: ``x = 1, s = "a"``. ``row``
    maps SQL column names to values."""
    return ", ".join(
        f"{column.name} = {constant_text(row[column.sql], column.type)}"
        for column in relation.columns
        if row.get(column.sql) is not None
    )


def csv_field(value: Any) -> str:
    """Return a value as a CSV field; an empty string is quoted, to distinguish it from null."""
    if value is None:
        return ""
    text = value_text(value)
    quoted = isinstance(value, str | list) and (not text or any(mark in text for mark in '",\r\n'))
    return '"' + text.replace('"', '""') + '"' if quoted else text


def table_lines(columns: list[str], rows: Iterator[Any]) -> Iterator[str]:
    """Yield the lines of a table with aligned columns; the first 1000 rows determine the widths."""
    texts = ([visible(value_text(value)) for value in row] for row in rows)
    first = list(itertools.islice(texts, 1000))
    widths = [max(map(len, column)) for column in zip(columns, *first, strict=True)]
    lines = itertools.chain([columns, ["-" * width for width in widths]], first, texts)
    for line in lines:
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
