"""Reads a program, the main file and the files that it includes, into one syntax tree."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lark import Token, Tree

from ..diagnostics import CompileError, Diagnostics, Note
from ..dialects import Load, dialect_of
from ..ir import syntax
from ..source import SourceFile, Span
from .classify import Classifier, Closing, Include, Opening
from .files import MOST_CHARACTERS, Files, NotIncluded
from .parser import parse_statements

MOST_BYTES = 50_000_000
"""The maximum size of an included file, in bytes."""


def folder_loader(folder: Path, include_path: Sequence[Path] = (), root: Path | None = None) -> Load:
    """Return a :data:`Load` that reads files below ``folder``, by names relative to ``root``, by default ``folder``.

    Files outside of ``folder``, after resolving symbolic links, are read only below the folders of ``include_path``.
    """

    def load(name: str) -> SourceFile | None:
        given = Path(os.path.normpath(folder / (name if root is None else os.path.relpath(root / name, folder))))
        path = Path(os.path.realpath(given))
        if not is_below(path, (folder, *include_path)):
            raise outside(name)
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(status.st_mode):
            help = "include a file with a part of the program"
            raise NotIncluded("E0125", f"`{name}` is not a regular file", help)
        if status.st_size > MOST_BYTES:
            message = f"`{name}` has {status.st_size:,} bytes"
            raise NotIncluded("E0125", message, f"an included file has at most {MOST_BYTES:,}")
        return SourceFile(name, path.read_text(encoding="utf-8-sig"), str(given))

    return load


def is_below(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether ``path``, with its symbolic links already resolved, is below one of ``folders``."""
    return any(path.is_relative_to(os.path.realpath(folder)) for folder in folders)


def outside(name: str) -> NotIncluded:
    """Return the error (E0124) for a file outside of the folders that files may be included from."""
    message = f"`{name}` is outside of the folder of the program"
    return NotIncluded("E0124", message, "to allow it, pass its folder with --include-path")


def read_program(
    path_or_source: Path | SourceFile,
    diagnostics: Diagnostics,
    load: Load | None = None,
    include_path: Sequence[Path] = (),
    root: Path | None = None,
    dialect: str = "",
) -> syntax.SyntaxProgram:
    """Read a program and all files that it includes, each file once, with the statements in reading order.

    ``dialect`` is the name of its language, one of :data:`..dialects.DIALECTS`; empty if the suffix
    of the main file says it.

    A path is read from disk and named relative to ``root``, by default its folder; ``load`` finds includes by such
    names, by default below the folder of the path and those of ``include_path``. For a source without ``load``, no
    include is found. Errors are reported to ``diagnostics``, and statements with errors are left out. Raises OSError if
    the main file cannot be read.
    """
    if isinstance(path_or_source, SourceFile):
        main = path_or_source
    else:
        load = load or folder_loader(path_or_source.parent, include_path, root)
        name = path_or_source.name if root is None else Path(os.path.relpath(path_or_source, root)).as_posix()
        if not _is_unicode(name):
            raise OSError(errno.EILSEQ, "its name is not UTF-8", str(path_or_source))
        try:
            with path_or_source.open(encoding="utf-8-sig") as file:
                # One more is too many, and there may be no end of them.
                text = file.read(MOST_CHARACTERS + 1)
        except UnicodeDecodeError:
            text = ""
            diagnostics.report("E0119", f"`{name}` is not UTF-8 text", Span(name, 1, 1, 1))
        main = SourceFile(name, text, str(path_or_source))
    sources = [main]

    def loaded(name: str) -> SourceFile | None:
        """Return an included file, and note it."""
        source = load(name) if load is not None else None
        sources.extend([source] if source is not None else [])
        return source

    try:
        program = dialect_of(main.name, dialect).read(main, diagnostics, loaded)
    except CompileError:  # A file has so many errors that it was read no further.
        program = syntax.SyntaxProgram((), tuple(sources))
    return replace(program, complete=not diagnostics.failed)


def read(main: SourceFile, diagnostics: Diagnostics, load: Load) -> syntax.SyntaxProgram:
    """Read a program in Flintlog's own language; see :data:`..dialects.Read`."""
    reading = _Reading(diagnostics, load)
    reading.read_all(main)
    return syntax.SyntaxProgram(
        tuple(reading.statements), tuple(reading.found.sources), processes=tuple(reading.processes)
    )


def included_files(program: Path, include_path: Sequence[Path] = (), dialect: str = "") -> frozenset[Path]:
    """Return the resolved paths of the files that a program includes, directly or indirectly; none if the program
    cannot be read."""
    try:
        if "include" not in program.read_text(encoding="utf-8", errors="replace"):
            return frozenset()
        sources = read_program(program, Diagnostics(), None, include_path, dialect=dialect).sources
    except (OSError, RecursionError):
        return frozenset()
    return frozenset(Path(source.path).resolve() for source in sources[1:])


def _is_unicode(name: str) -> bool:
    """Return whether a file name is valid Unicode; Python decodes other bytes to lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class _File:
    """A file that is being read: ``trees`` are its unread statements; ``outside`` processes were open at its start."""

    source: SourceFile
    classifier: Classifier
    trees: Iterator[Tree[Token]]
    outside: int


class _Reading:
    """The state of reading a program: the statements and processes so far, and the open files and processes."""

    def __init__(self, diagnostics: Diagnostics, load: Load) -> None:
        self.diagnostics = diagnostics
        self.found = Files(diagnostics, load)
        self.statements: list[syntax.Statement] = []
        self.processes: list[syntax.ProcessBlock | syntax.Instance] = []
        self.opened: list[tuple[Opening, list[syntax.Statement]]] = []
        #: The stack of open files: the last one is being read, and each includes the next.
        self.files: list[_File] = []

    def read_all(self, main: SourceFile) -> None:
        """Read all files; the statements of an included file take the place of the include."""
        self._begin(main)
        while self.files:
            file = self.files[-1]
            tree = next(file.trees, None)
            if tree is None:
                self._end(file)
            else:
                self._take(file.classifier.statement(tree), file.source)

    def _begin(self, source: SourceFile) -> None:
        """Push a file to be read next, or report E0126 if it makes the program too long."""
        if not self.found.add(source):
            return
        trees = parse_statements(source, self.diagnostics)
        self.files.append(_File(source, Classifier(source, self.diagnostics), trees, len(self.opened)))

    def _end(self, file: _File) -> None:
        """Pop a file; report (E0123) and close the processes that it leaves open."""
        for opening, _ in self.opened[file.outside :]:
            message = f"the process `{opening.name}` is never closed"
            self.diagnostics.report("E0123", message, opening.span, help="end it with `}`")
        while len(self.opened) > file.outside:
            self._close()
        self.files.pop()

    def _take(
        self, statement: syntax.Statement | Include | Opening | Closing | syntax.Instance | None, source: SourceFile
    ) -> None:
        """Add a statement to the innermost open process or to the program, or act on it if it is a directive."""
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

    def _open(self, opening: Opening) -> None:
        """Open a process, to which the following statements belong; report E0123 if another is open."""
        if self.opened and opening.name is not None:
            message = f"the process `{opening.name}` begins inside the process `{self.opened[-1][0].name}`"
            notes = (Note("it begins here", self.opened[-1][0].span),)
            self.diagnostics.report("E0123", message, opening.span, help="end the first one with `}`", notes=notes)
        self.opened.append((opening, []))

    def _close(self) -> None:
        """Close the innermost open process; drop its statements if its name could not be read."""
        opening, statements = self.opened.pop()
        if opening.name is not None:
            self.processes.append(
                syntax.ProcessBlock(opening.name, opening.parameters, tuple(statements), opening.span)
            )

    def _include(self, include: Include, source: SourceFile) -> None:
        included = self.found.include(include.path, source, include.span)
        if included is not None:
            self._begin(included)
