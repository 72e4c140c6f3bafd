"""How lists are stored, and how they and what may be null are compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ..kernel.sql import element_type, is_list
from .encodings import CODECS, SQL_COLLATIONS, SQL_FUNCTIONS, encoded, read_stored


def stored_list(items: Iterable[Any]) -> str:
    """Return a list as it is stored: as JSON without spaces."""
    return json.dumps(list(items), ensure_ascii=False, separators=(",", ":"))


def encoded_list(items: Iterable[Any], kind: str) -> str:
    """Return a list of items of a type as it is stored."""
    return stored_list(item_of(item, kind) for item in items)


def decoded_list(text: str, kind: str) -> list[Any]:
    """Return a stored list of items of a type."""
    return [decoded_item(item, kind) for item in json.loads(text)]


def item_of(value: Any, kind: str) -> Any:
    """Return an item of a list as JSON has it."""
    return [item_of(item, element_type(kind)) for item in value] if is_list(kind) else encoded(value, kind)


def decoded_item(value: Any, kind: str) -> Any:
    """Return an item of a list."""
    return [decoded_item(item, element_type(kind)) for item in value] if is_list(kind) else read_stored(value, kind)


def comparable(value: Any) -> Any:
    """Return a list or what may be null so that Python compares it as the language does."""
    if isinstance(value, bytes):
        return ()
    return json.loads(value) if isinstance(value, str) and value[:1] == "[" else (value,)


def compare_stored(one: Any, other: Any) -> int | None:
    """Return -1, 0 or 1 as a list or an optional value is less than, equal to or greater than another."""
    if one is None or other is None:
        return None
    left, right = comparable(one), comparable(other)
    return int(left > right) - int(left < right)


CODECS["list"] = encoded_list, decoded_list
SQL_FUNCTIONS["_compare"] = (2, compare_stored)
SQL_COLLATIONS["_list"] = lambda one, other: compare_stored(one, other) or 0
