"""Print values of the model as Python; the templates print its records."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jinja2 import pass_context
from jinja2.runtime import Context

WIDTH = 100

HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control and format characters, which are invisible or change how or in which direction text is read."""


@pass_context
def python(context: Context, value: object) -> str:
    """Return a value as a Python expression on one line: the name that the view has for it, or a literal."""
    return expression(value, context["view"].names)


def expression(value: object, names: Mapping[int, str]) -> str:
    """Return a value as :func:`python` does; ``names`` are by the identity of values."""
    if (name := names.get(id(value))) is not None:
        return name
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, tuple):
        return f"({', '.join(expression(item, names) for item in value)}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{quote(key)}: {expression(item, names)}' for key, item in value.items())}}}"
    return repr(value)


def without_gaps(text: str) -> str:
    """Return text without the empty lines that absent fields leave."""
    return re.sub(r"^ *\n", "", text, flags=re.MULTILINE)


def section(title: str) -> str:
    """Return the comment line that opens a section."""
    return f"# ---- {title} ".ljust(WIDTH, "-")


def quote(text: str) -> str:
    """Return a Python string literal, in the quotes that need fewer escapes."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    return mark + one_line(text.replace("\\", "\\\\").replace(mark, f"\\{mark}")) + mark


def in_quotes(text: str) -> str:
    """Return text as it stands between triple quotes."""
    return visible(text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"'))


def visible(text: str) -> str:
    """Return text with escapes for characters that reviewers cannot see or that Python does not read as they are."""
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """Return text on one line, with escapes for line breaks and invisible characters."""
    return visible(text).replace("\n", "\\n")
