"""Rows and values as text."""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from ..kernel.values import value_text, visible


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


class RowPrinter:
    """Prints rows in a ``form`` of :func:`shown_lines`, until the reader closes the pipe. It has ``begun`` once a line
    is printed."""

    def __init__(self, form: str) -> None:
        """Print nothing yet."""
        self.form, self.begun = form, False

    def print(self, columns: list[str], rows: Iterator[Any]) -> None:
        """Print rows, each as a line."""
        try:
            for line in shown_lines(columns, rows, self.form):
                print(line)
                self.begun = True
            sys.stdout.flush()
        except BrokenPipeError:
            discard_output()


def visible_lines(text: str) -> str:
    """Return a text of several lines that is safe to print on a terminal; line breaks stay."""
    return "\n".join(map(visible, text.split("\n")))


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
