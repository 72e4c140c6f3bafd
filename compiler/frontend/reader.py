"""Reads a program: the main file and what it includes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path

from ..diagnostics import Diagnostics, Note
from ..ir import syntax
from ..source import SourceFile, Span
from .classify import Classifier, Closing, Include, Opening
from .statements import parse_statements

#: Finds a program file by name, relative to the folder of the main file; None if there is none.
#: UnicodeDecodeError says that the file is not UTF-8.
Load = Callable[[str], SourceFile | None]

#: How many characters a program may have, with all that it includes: it is read statement by statement, at a rate of
#: some thousands in a second, and each takes a multiple of its text in memory.
MOST_CHARACTERS = 8_000_000
#: How much of a text that is longer is kept to point at.
_SHOWN = 200


def folder_loader(folder: Path) -> Load:
    """A :data:`Load` that reads files below ``folder`` and names them relative to it."""

    def load(name: str) -> SourceFile | None:
        try:
            text = (folder / name).read_text(encoding="utf-8-sig")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            return None
        return SourceFile(name, text)

    return load


def read_program(
    path_or_source: Path | SourceFile, diagnostics: Diagnostics, load: Load | None = None
) -> syntax.Program:
    """Read a program and all that it includes, each file once, statements in the order of reading.

    A path is read from disk and named by its last part; includes are found by ``load``, by default beside the path.
    With a source and no ``load`` there is nothing to include. Problems go to ``diagnostics``, and the statements that
    have one are left out. Raises OSError if the main file cannot be read.
    """
    if isinstance(path_or_source, SourceFile):
        main = path_or_source
    else:
        load = load or folder_loader(path_or_source.parent)
        try:
            text = path_or_source.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            text = ""
            span = Span(path_or_source.name, 1, 1, 1)
            diagnostics.report("E0119", f"`{path_or_source.name}` is not a text in UTF-8", span)
        main = SourceFile(path_or_source.name, text)
    reading = _Reading(diagnostics, load or (lambda name: None))
    reading.read(main)
    complete, processes = not diagnostics.failed, tuple(reading.processes)
    return syntax.Program(tuple(reading.statements), tuple(reading.sources), complete, processes=processes)


class _Reading:
    """What has been read so far."""

    def __init__(self, diagnostics: Diagnostics, load: Load) -> None:
        self.diagnostics = diagnostics
        self.load = load
        self.statements: list[syntax.Statement] = []
        self.processes: list[syntax.Process | syntax.Instance] = []
        self.opened: list[tuple[Opening, list[syntax.Statement]]] = []
        self.sources: list[SourceFile] = []
        self.characters = 0

    def read(self, source: SourceFile) -> None:
        """Read one file; the statements of an included file stand where the include stands."""
        self.characters += len(source.text)
        if self.characters > MOST_CHARACTERS:
            self.sources.append(SourceFile(source.name, source.text[:_SHOWN]))
            self.diagnostics.report(
                "E0124",
                f"the program has more than {MOST_CHARACTERS:,} characters, with all that it includes",
                Span(source.name, 1, 1, 1),
                help="give facts to an input relation, in a file, and make several programs of the rules",
            )
            return
        self.sources.append(source)
        classifier = Classifier(source, self.diagnostics)
        outside = len(self.opened)
        for tree in parse_statements(source, self.diagnostics):
            statement = classifier.statement(tree)
            match statement:
                case Include():
                    self._include(statement, source)
                case Opening():
                    self._open(statement)
                case Closing():
                    self._close()
                case syntax.Instance():
                    self.processes.append(statement)
                case None:
                    pass
                case _:
                    (self.opened[-1][1] if self.opened else self.statements).append(statement)
        for opening, _ in self.opened[outside:]:
            message = f"the process `{opening.name}` is never closed"
            self.diagnostics.report("E0123", message, opening.span, help="end it with `}`")
        while len(self.opened) > outside:
            self._close()

    def _open(self, opening: Opening) -> None:
        """Begin a process; what follows belongs to it."""
        if self.opened and opening.name is not None:
            message = f"the process `{opening.name}` begins inside the process `{self.opened[-1][0].name}`"
            notes = (Note("which begins here", self.opened[-1][0].span),)
            self.diagnostics.report("E0123", message, opening.span, help="end that one with `}`", notes=notes)
        self.opened.append((opening, []))

    def _close(self) -> None:
        """End the process that was opened last."""
        opening, statements = self.opened.pop()
        if opening.name is not None:
            self.processes.append(syntax.Process(opening.name, opening.parameters, tuple(statements), opening.span))

    def _include(self, include: Include, source: SourceFile) -> None:
        if not include.path or posixpath.isabs(include.path) or "\\" in include.path:
            help = "write it relative to the including file, with `/` between folders"
            self.diagnostics.report("E0118", "an include names a file by a relative path", include.span, help=help)
            return
        name = posixpath.normpath(posixpath.join(posixpath.dirname(source.name), include.path))
        if any(known.name == name for known in self.sources):
            return
        try:
            found = self.load(name)
        except UnicodeDecodeError:
            self.diagnostics.report("E0119", f"`{name}` is not a text in UTF-8", include.span)
            return
        if found is None:
            self.diagnostics.report("E0117", f"there is no file `{name}` to include", include.span)
            return
        self.read(found)
