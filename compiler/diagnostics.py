"""Diagnostics: codes, severities, and their text form with carets.

Every problem found in a program becomes a :class:`Diagnostic`. Passes report into a :class:`Diagnostics` and go on as far
as they can, so that one run shows all problems of a program; :meth:`Diagnostics.check` stops between passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .source import SourceFile, Span

#: Stable codes and their titles. E01: syntax, E02: names and declarations, E03: types, E04: safety,
#: E05: strata and aggregates, E06: locations, E07: not supported by this version, W08: warnings.
CODES: dict[str, str] = {}


@dataclass(frozen=True)
class Note:
    """A second place that helps to understand a diagnostic."""

    message: str
    span: Span | None = None


@dataclass(frozen=True)
class Diagnostic:
    """One problem: ``code`` from :data:`CODES`, what is wrong in one sentence, where, and how to mend it."""

    code: str
    message: str
    span: Span
    help: str | None = None
    notes: tuple[Note, ...] = ()

    @property
    def severity(self) -> str:
        """``error`` or ``warning``."""
        return "warning" if self.code.startswith("W") else "error"


class CompileError(Exception):
    """A program was refused; ``diagnostics`` says why, warnings included."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.span}: {d.code}: {d.message}" for d in self.diagnostics))


@dataclass
class Diagnostics:
    """Collects what the passes report."""

    items: list[Diagnostic] = field(default_factory=list)

    def report(
        self, code: str, message: str, span: Span, *, help: str | None = None, notes: tuple[Note, ...] = ()
    ) -> None:
        """Add a diagnostic; the same one at the same place is kept once."""
        assert code in CODES, code
        item = Diagnostic(code, message, span, help, notes)
        if item not in self.items:
            self.items.append(item)

    @property
    def failed(self) -> bool:
        """Whether an error was reported."""
        return any(item.severity == "error" for item in self.items)

    def sorted(self) -> tuple[Diagnostic, ...]:
        """The diagnostics in source order."""
        return tuple(sorted(self.items, key=lambda d: (d.span.file, d.span.line, d.span.column, d.code)))

    def check(self) -> None:
        """Raise :class:`CompileError` if an error was reported."""
        if self.failed:
            raise CompileError(self.sorted())


def render(diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> str:
    """The text form of a diagnostic: a headline, the offending line with carets, notes and help."""
    lines = [f"{diagnostic.severity}[{diagnostic.code}]: {diagnostic.message}"]
    lines += _excerpt(diagnostic.span, sources)
    for note in diagnostic.notes:
        lines.append(f"note: {note.message}")
        if note.span is not None:
            lines += _excerpt(note.span, sources)
    if diagnostic.help is not None:
        lines.append(f"help: {diagnostic.help}")
    return "\n".join(lines)


def _excerpt(span: Span, sources: Mapping[str, SourceFile]) -> list[str]:
    source = sources.get(span.file)
    lines = [f"  --> {span.file}:{span.line}:{span.column}"]
    if source is not None and 0 < span.line <= len(source.lines):
        text = source.lines[span.line - 1]
        number = str(span.line)
        # Tabs are kept in front of the carets so that they line up whatever the terminal's tab width is.
        lead = "".join("\t" if character == "\t" else " " for character in text[: span.column - 1])
        lines.append(f"{number} | {text}")
        lines.append(f"{' ' * len(number)} | {lead}{'^' * span.length}")
    return lines
