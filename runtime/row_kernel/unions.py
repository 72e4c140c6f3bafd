"""Unions of sets of text, which proofs and derivation sets are: lists in order, each item once."""

from __future__ import annotations

import json

from .encodings import SQL_FUNCTIONS
from .lists import stored_list


def union_of(count: int, *values: str | None) -> str | None:
    """Return the union of ``count`` items and of the stored lists behind them."""
    items = {*values[:count]}
    for text in values[count:]:
        if text is None:
            return None
        items.update(json.loads(text))
    return None if None in items else stored_list(sorted(item for item in items if item is not None))


SQL_FUNCTIONS["_union"] = -1, union_of
