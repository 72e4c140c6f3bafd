"""Print records and values like DDlog."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}


def record_text(name: str, columns: Iterable[str], row: Sequence[Any]) -> str:
    """Return a record as ``R{.f = v, .g = v}``."""
    return f"{name}{{{', '.join(f'.{c} = {value_text(v)}' for c, v in zip(columns, row, strict=True))}}}"


def value_text(value: Any) -> str:
    """Return a value as text; values of types that DDlog lacks are printed as the string from which they are read."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return string_text(value)
        case float():
            return re.sub(r"e([+-]?)0*", lambda found: f"e{found[1].strip('+')}", repr(value))
        case datetime():
            return string_text(value.isoformat(" "))
        case date():
            return string_text(value.isoformat())
        case list() | tuple():
            return f"[{', '.join(map(value_text, value))}]"
        case Decimal():
            return f"{value:f}"
    return str(value)


def string_text(text: str) -> str:
    """Return a string literal with the escapes of Rust for quotes, line breaks and invisible characters."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    escape = _ESCAPES.get(character)
    if escape is not None:
        return escape
    if character == " " or (character.isprintable() and unicodedata.category(character) not in ("Mn", "Me")):
        return character
    return f"\\u{{{ord(character):x}}}"
