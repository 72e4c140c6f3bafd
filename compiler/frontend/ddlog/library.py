"""Functions of the standard library of DDlog that have equals in Flintlog."""

from __future__ import annotations

from .types import BOOL, STRING, ListType, Type

_TEXT, _TEXTS = STRING, ListType(STRING)
#: The functions by name: their names in Flintlog, parameters and results.
LIBRARY: dict[str, tuple[str, tuple[Type, ...], Type]] = {
    "string_contains": ("contains", (_TEXT, _TEXT), BOOL),
    "contains": ("contains", (_TEXT, _TEXT), BOOL),
    "string_starts_with": ("startswith", (_TEXT, _TEXT), BOOL),
    "starts_with": ("startswith", (_TEXT, _TEXT), BOOL),
    "string_ends_with": ("endswith", (_TEXT, _TEXT), BOOL),
    "ends_with": ("endswith", (_TEXT, _TEXT), BOOL),
    "string_split": ("split", (_TEXT, _TEXT), _TEXTS),
    "split": ("split", (_TEXT, _TEXT), _TEXTS),
    "string_replace": ("replace", (_TEXT, _TEXT, _TEXT), _TEXT),
    "replace": ("replace", (_TEXT, _TEXT, _TEXT), _TEXT),
    "string_join": ("array_join", (_TEXTS, _TEXT), _TEXT),
    "join": ("array_join", (_TEXTS, _TEXT), _TEXT),
    "string_reverse": ("reverse", (_TEXT,), _TEXT),
}
