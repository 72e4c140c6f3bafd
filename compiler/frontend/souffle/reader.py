"""Reads a program of Soufflé, the main file and the files that it includes, into one syntax tree."""

from __future__ import annotations

from ...diagnostics import Diagnostics
from ...dialects import Load
from ...ir import syntax
from ...source import SourceFile, Span
from ..files import Files
from . import tree
from .components import expanded
from .inlining import inlined
from .lowering import lowered
from .parser import Included, parse
from .preprocess import preprocessed


def read(main: SourceFile, diagnostics: Diagnostics, load: Load) -> syntax.SyntaxProgram:
    """Read a program; see :data:`~flintlog.compiler.dialects.Read`."""
    files = Files(diagnostics, load)
    statements = inlined(expanded(_statements(main, files), diagnostics), diagnostics)
    lowered_statements, named = lowered(statements, diagnostics)
    return syntax.SyntaxProgram(lowered_statements, tuple(files.sources), files=named)


def _statements(source: SourceFile, files: Files) -> list[tree.Statement]:
    """Return the statements of a file, with those of files that it includes in place of the includes."""

    def include(path: str, source: SourceFile, place: int) -> SourceFile | None:
        """Return the file of an ``#include``."""
        included = files.include(path, source, source.span(place, place + len(path) + 2))
        return included if included is not None and files.add(included) else None

    def mistake(message: str, span: Span) -> None:
        """Report a mistake in a line of the preprocessor."""
        files.diagnostics.report("E0770", message, span)

    if not files.add(source):
        return []
    statements: list[tree.Statement] = []
    for statement in parse(preprocessed(source, include, mistake), files.diagnostics):
        if not isinstance(statement, Included):
            statements.append(statement)
            continue
        including = next(s for s in files.sources if s.name == statement.span.file)
        included = files.include(statement.path, including, statement.span)
        if included is not None:
            statements += _statements(included, files)
    return statements
