"""The standard library of DDlog: its modules, and its functions that have equals in Flintlog."""

from __future__ import annotations

from .types import BOOL, STRING, ListType, Type

MODULES = frozenset(
    (
        *("allocate", "base64", "ddlog_bigint", "ddlog_log", "ddlog_rt", "ddlog_std", "debug", "fp", "graph", "group"),
        *("hashset", "intern", "internment", "json", "libfloat", "log", "log4j", "map", "net::ipaddr", "net::ipv4"),
        *("net::ipv6", "ovsdb", "print", "regex", "set", "souffle_lib", "souffle_types", "std", "time", "tinyset"),
        *("unit", "url", "uuid", "vec"),
    )
)
"""The modules of the library."""

IDENTITIES = ("deref", "intern", "istring_str", "ival", "ref_new", "string_intern")
"""Functions between a value and the same one, shared or interned: a difference in memory alone."""

_TEXT, _TEXTS = STRING, ListType(STRING)
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
"""The functions by name: their names in Flintlog, parameters and results. ``istring_`` may stand for ``string_``."""


def in_library(scope: str) -> bool:
    """Return whether a name with the prefix ``scope`` may be one of the library."""
    module = scope.removesuffix("::")
    return not module or any(name == module or name.endswith(f"::{module}") for name in MODULES)
