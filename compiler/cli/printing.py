"""Print text for people: escape control characters, and use colours on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ..naming import counted

if TYPE_CHECKING:
    from rich.text import Text


def totals(found: Iterable[tuple[Path, int, int]]) -> str:
    """Return the total numbers of errors and warnings in words; ``found`` has both for each program."""
    numbers = list(found)
    errors, warnings = sum(n for _, n, _ in numbers), sum(n for _, _, n in numbers)
    return f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"


def echo(text: str, nl: bool = True) -> None:
    """Print text, escaping characters that a terminal would hide or interpret."""
    from ..diagnostics import escaped

    click.echo(escaped(text), nl=nl)


def print_coloured(text: str, colour: Callable[[str], Text], stream: TextIO | None = None) -> None:
    """Print text, escaped, and coloured on a terminal."""
    from ..diagnostics import escaped

    text = escaped(text)
    stream = stream or sys.stdout
    if not stream.isatty():
        click.echo(text, file=stream)
        return
    from rich.console import Console

    Console(file=stream).print(colour(text), soft_wrap=True)


def coloured(text: str) -> Text:
    """Return a diagnostic with colours."""
    from rich.text import Text

    result = Text(text)
    for pattern, style in (
        (r"^error(\[E\d+\])?:", "bold red"),
        (r"^warning(\[W\d+\])?:", "bold yellow"),
        (r"^(note|help):", "bold green"),
        (r"^ *--> .*$", "blue"),
        (r"^ *\d* \|", "blue"),
        (r"(?<= \| )\s*\^+$", "bold red"),
    ):
        result.highlight_regex(f"(?m){pattern}", style)
    return result


def warn(message: str) -> None:
    """Print a note on standard error."""
    print_coloured(f"note: {message}", coloured, sys.stderr)


def headed(text: str) -> Text:
    """Return an explanation with bold headings."""
    from rich.text import Text

    result = Text(text)
    result.highlight_regex(r"(?m)^[A-Z].*\n(?==+$|-+$)", "bold")
    return result
