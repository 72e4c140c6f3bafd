"""The files of a program: the main one, and those that it includes."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field, replace

from ..diagnostics import Diagnostics
from ..dialects import Load
from ..naming import reason
from ..source import SourceFile, Span

MOST_CHARACTERS = 8_000_000
"""The maximum length of a program in characters, including all included files. Parsing reads some thousands of
statements per second, and each takes a multiple of its text in memory."""

_SHOWN = 200
"""How many characters of a file beyond that limit are kept for the diagnostic to show."""


class NotIncluded(Exception):
    """Raised for a file that must not be included; has the ``code``, ``message`` and ``help`` of the diagnostic."""

    def __init__(self, code: str, message: str, help: str) -> None:
        """Store the parts of the diagnostic."""
        super().__init__(message)
        self.code, self.message, self.help = code, message, help


@dataclass
class Files:
    """The files of a program that have been read, in reading order; each is read once."""

    diagnostics: Diagnostics
    load: Load
    sources: list[SourceFile] = field(default_factory=list)
    characters: int = 0

    def add(self, source: SourceFile) -> bool:
        """Take in a file; report E0126 and return False if it makes the program too long."""
        self.characters += len(source.text)
        if self.characters > MOST_CHARACTERS:
            self.sources.append(replace(source, text=source.text[:_SHOWN]))
            self.diagnostics.report(
                "E0126",
                f"the program has more than {MOST_CHARACTERS:,} characters, including its included files",
                Span(source.name, 1, 1, 1),
                help="read facts from files into input relations, and split the rules into several programs",
            )
            return False
        self.sources.append(source)
        return True

    def include(self, path: str, source: SourceFile, span: Span) -> SourceFile | None:
        """Return the file at ``path`` from ``source``; None if it was read before, or after reporting why it cannot be
        read at ``span``."""
        if not path or posixpath.isabs(path) or "\\" in path or not path.isprintable():
            help = "write the path relative to the including file, with `/` between folders"
            self.diagnostics.report("E0118", "the path of an include must be relative", span, help=help)
            return None
        name = posixpath.normpath(posixpath.join(posixpath.dirname(source.name), path))
        if any(name == other.name for other in self.sources):
            return None
        try:
            found = self.load(name)
        except UnicodeDecodeError:
            self.diagnostics.report("E0119", f"`{name}` is not UTF-8 text", span)
            return None
        except NotIncluded as refusal:
            self.diagnostics.report(refusal.code, refusal.message, span, help=refusal.help)
            return None
        except OSError as error:
            advice = "include a file that you may read" if isinstance(error, PermissionError) else None
            self.diagnostics.report("E0127", f"`{name}` cannot be read: {reason(error)}", span, help=advice)
            return None
        if found is None:
            self.diagnostics.report("E0117", f"there is no file `{name}` to include", span)
        return found
