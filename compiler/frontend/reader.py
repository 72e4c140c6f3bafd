"""Reads a program: the main file and what it includes."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lark import Token, Tree

from ..diagnostics import Diagnostics, Note
from ..ir import syntax
from ..source import SourceFile, Span
from .classify import Classifier, Closing, Include, Opening
from .statements import parse_statements

#: Included files have at most so many bytes.
MOST_BYTES = 50_000_000

#: Finds a program file by name, relative to the folder of the main file; None if there is none.
#: UnicodeDecodeError says that the file is not UTF-8, NotIncluded that it must not be read.
Load = Callable[[str], SourceFile | None]

#: How many characters a program may have, with all that it includes: it is read statement by statement, at a rate of
#: some thousands in a second, and each takes a multiple of its text in memory.
MOST_CHARACTERS = 8_000_000
#: How much of a text that is longer is kept to point at.
_SHOWN = 200


class NotIncluded(Exception):
    """A file that must not be included: ``code`` and ``message`` of the diagnostic, and ``help``."""

    def __init__(self, code: str, message: str, help: str) -> None:
        """Keep what the diagnostic says."""
        super().__init__(message)
        self.code, self.message, self.help = code, message, help


def folder_loader(folder: Path, include_path: Sequence[Path] = ()) -> Load:
    """A :data:`Load` that reads files below ``folder`` and names them relative to it.

    Files that lie elsewhere, symbolic links being followed, are read only below the folders of ``include_path``.
    """

    def load(name: str) -> SourceFile | None:
        path = Path(os.path.realpath(folder / name))
        if not is_below(path, (folder, *include_path)):
            raise outside(name)
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISREG(status.st_mode):
            help = "include a file that holds a part of the program"
            raise NotIncluded("E0125", f"`{name}` is not a regular file", help)
        if status.st_size > MOST_BYTES:
            message = f"`{name}` has {status.st_size:,} bytes"
            raise NotIncluded("E0125", message, f"a file of a program has at most {MOST_BYTES:,}")
        return SourceFile(name, path.read_text(encoding="utf-8-sig"))

    return load


def is_below(path: Path, folders: Sequence[Path]) -> bool:
    """Whether a path, in which symbolic links are followed already, is below one of some folders."""
    return any(path.is_relative_to(os.path.realpath(folder)) for folder in folders)


def outside(name: str) -> NotIncluded:
    """The refusal of a file that lies where nothing is included from."""
    message = f"`{name}` lies outside of the folder of the program"
    return NotIncluded("E0124", message, "name its folder with --include-path if files there may be included")


def read_program(
    path_or_source: Path | SourceFile,
    diagnostics: Diagnostics,
    load: Load | None = None,
    include_path: Sequence[Path] = (),
) -> syntax.Program:
    """Read a program and all that it includes, each file once, statements in the order of reading.

    A path is read from disk and named by its last part; includes are found by ``load``, by default below the folder of
    the path and those of ``include_path``. With a source and no ``load`` there is nothing to include. Problems go to
    ``diagnostics``, and the statements that have one are left out. Raises OSError if the main file cannot be read.
    """
    if isinstance(path_or_source, SourceFile):
        main = path_or_source
    else:
        load = load or folder_loader(path_or_source.parent, include_path)
        name = path_or_source.name
        if not _is_unicode(name):
            raise OSError(errno.EILSEQ, "its name is not in UTF-8", str(path_or_source))
        try:
            with path_or_source.open("rb") as file:
                # What has more bytes has too many characters, and perhaps no end.
                content = file.read(4 * MOST_CHARACTERS + 4)
            whole = len(content) < 4 * MOST_CHARACTERS + 4
            text = content.decode("utf-8-sig", "strict" if whole else "replace")
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            text = ""
            diagnostics.report("E0119", f"`{name}` is not a text in UTF-8", Span(name, 1, 1, 1))
        main = SourceFile(name, text)
    reading = _Reading(diagnostics, load or (lambda name: None))
    reading.read_all(main)
    complete, processes = not diagnostics.failed, tuple(reading.processes)
    return syntax.Program(tuple(reading.statements), tuple(reading.sources), complete, processes=processes)


def _is_unicode(name: str) -> bool:
    """Whether a name of a file is text: other bytes are halves of surrogate pairs."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class _File:
    """A file that is being read: what is left of it, and how many processes were open when it began."""

    source: SourceFile
    classifier: Classifier
    trees: Iterator[Tree[Token]]
    outside: int


class _Reading:
    """What has been read so far."""

    def __init__(self, diagnostics: Diagnostics, load: Load) -> None:
        self.diagnostics = diagnostics
        self.load = load
        self.statements: list[syntax.Statement] = []
        self.processes: list[syntax.Process | syntax.Instance] = []
        self.opened: list[tuple[Opening, list[syntax.Statement]]] = []
        self.sources: list[SourceFile] = []
        self.names: set[str] = set()
        #: The file at hand is the last one; those before it wait for what they include.
        self.files: list[_File] = []
        self.characters = 0

    def read_all(self, main: SourceFile) -> None:
        """Read all files; the statements of an included file stand where the include stands."""
        self._begin(main)
        while self.files:
            file = self.files[-1]
            tree = next(file.trees, None)
            if tree is None:
                self._end(file)
            else:
                self._take(file.classifier.statement(tree), file.source)

    def _begin(self, source: SourceFile) -> None:
        """Let a file be read next, unless the program is too long with it."""
        self.characters += len(source.text)
        if self.characters > MOST_CHARACTERS:
            self.sources.append(SourceFile(source.name, source.text[:_SHOWN]))
            self.diagnostics.report(
                "E0126",
                f"the program has more than {MOST_CHARACTERS:,} characters, with all that it includes",
                Span(source.name, 1, 1, 1),
                help="give facts to an input relation, in a file, and make several programs of the rules",
            )
            return
        self.sources.append(source)
        self.names.add(source.name)
        trees = parse_statements(source, self.diagnostics)
        self.files.append(_File(source, Classifier(source, self.diagnostics), trees, len(self.opened)))

    def _end(self, file: _File) -> None:
        """Close what a file has left open."""
        for opening, _ in self.opened[file.outside :]:
            message = f"the process `{opening.name}` is never closed"
            self.diagnostics.report("E0123", message, opening.span, help="end it with `}`")
        while len(self.opened) > file.outside:
            self._close()
        self.files.pop()

    def _take(
        self, statement: syntax.Statement | Include | Opening | Closing | syntax.Instance | None, source: SourceFile
    ) -> None:
        """Put a statement where it belongs."""
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
        path = include.path
        if not path or posixpath.isabs(path) or "\\" in path or not path.isprintable():
            help = "write it relative to the including file, with `/` between folders"
            self.diagnostics.report("E0118", "an include names a file by a relative path", include.span, help=help)
            return
        name = posixpath.normpath(posixpath.join(posixpath.dirname(source.name), path))
        if name in self.names:
            return
        try:
            found = self.load(name)
        except UnicodeDecodeError:
            self.diagnostics.report("E0119", f"`{name}` is not a text in UTF-8", include.span)
            return
        except NotIncluded as refusal:
            self.diagnostics.report(refusal.code, refusal.message, include.span, help=refusal.help)
            return
        if found is None:
            self.diagnostics.report("E0117", f"there is no file `{name}` to include", include.span)
            return
        self._begin(found)
