"""Compile programs for a command; report diagnostics and failures, and determine the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ..naming import counted, reason
from .files import write_file
from .options import OK, REFUSED, UNUSABLE, ProgramOptions
from .printing import coloured, print_coloured, totals

if TYPE_CHECKING:
    from ..diagnostics import CompileError, Diagnostic
    from ..diagnostics.documents import DocumentFinding
    from ..pipeline import Compilation
    from ..processes import Processes
    from ..source import SourceFile


Made = TypeVar("Made", bound="Compilation | Processes")
"""A compiled program, of one process or several."""


class Report:
    """Compiles programs, reports diagnostics and failures, and keeps the exit code.

    ``form`` is ``text``, which is printed immediately, or the name of a document to print at the end.
    """

    def __init__(self, programs: tuple[Path, ...], options: ProgramOptions | None = None, form: str = "text") -> None:
        """Start without findings."""
        self.programs = programs
        self.options = options or ProgramOptions()
        self.form = form
        self.code = OK
        self.found: list[tuple[Path, int, int]] = []
        #: The findings for a document, each once even if several programs include its file.
        self.findings: dict[DocumentFinding, None] = {}
        self.failures: list[str] = []

    def compilations(self, warn: bool = True) -> Iterator[tuple[Path, Compilation]]:
        """Yield the programs in turn, compiled; report and skip those that are refused or cannot be read.

        ``warn`` says whether to print the warnings of accepted programs.
        """
        from ..pipeline import compile_program

        return self._compiled(partial(compile_program, **vars(self.options)), warn)

    def each(self, outside: tuple[str, ...], warn: bool = True) -> Iterator[tuple[str, Compilation]]:
        """Yield the programs in turn, compiled, with their names; of a program of processes, each process. Relations
        named in ``outside`` are fed from outside."""
        from ..processes import Processes, compile_any

        compiling = partial(compile_any, outside=outside, **vars(self.options))
        for program, compiled in self._compiled(compiling, warn):
            if isinstance(compiled, Processes):
                yield from ((f"{program}, process {name}", one) for name, one in compiled.compilations.items())
            else:
                yield str(program), compiled

    def check(self, outside: tuple[str, ...]) -> None:
        """Compile the programs in turn, but processes together with those that they read from, and report diagnostics.
        Relations named in ``outside`` are fed from outside."""
        from ..processes import belonging_together, compile_any, compile_processes

        for programs in belonging_together(self.programs, outside, self.options.include_path, self.options.dialect):
            with self.reporting(*programs):
                if len(programs) == 1:
                    compiled = compile_any(programs[0], None, outside, **vars(self.options))
                else:
                    compiled = compile_processes(programs, None, outside, **vars(self.options))
                self.diagnostics(programs, compiled.warnings, compiled.sources)

    def _compiled(self, compiling: Callable[[Path], Made], warn: bool = True) -> Iterator[tuple[Path, Made]]:
        """Yield the programs as compiled by ``compiling``; see :meth:`compilations`."""
        for program in self.programs:
            with self.reporting(program):
                compiled = compiling(program)
                if warn:
                    self.diagnostics([program], compiled.warnings, compiled.sources)
                yield program, compiled

    def write(self, path: Path, content: str | bytes) -> bool | None:
        """Write to ``path``; return whether it changed, or None after reporting that it cannot be written."""
        try:
            return write_file(path, content)
        except OSError as error:
            self.fail(UNUSABLE, f"cannot write {path}: {reason(error)}")
            return None

    @contextmanager
    def reporting(self, *programs: Path) -> Iterator[None]:
        """Report the CompileError of the body, or the OSError about a file; one without a file is about the output."""
        from ..diagnostics import CompileError

        try:
            yield
        except CompileError as error:
            self.refused(programs, error)
        except OSError as error:
            if error.filename is None:
                raise
            self.fail(UNUSABLE, f"cannot read {error.filename}: {reason(error)}")

    def refused(self, programs: Sequence[Path], error: CompileError) -> None:
        """Report the diagnostics of refused programs."""
        self.code = max(self.code, REFUSED)
        self.diagnostics(programs, error.diagnostics, error.sources)

    def diagnostics(self, programs: Sequence[Path], items: Iterable[Diagnostic], sources: Iterable[SourceFile]) -> None:
        """Print the diagnostics of programs compiled together, or keep them for the document. Diagnostics about other
        files count towards the first program."""
        by_name = {source.name: source for source in sources}
        by_program: dict[Path, list[Diagnostic]] = {program: [] for program in programs}
        for item in items:
            path = Path(by_name[item.span.file].path) if item.span.file in by_name else programs[0]
            by_program[path if path in by_program else programs[0]].append(item)
        for program, own in by_program.items():
            self._diagnostics(program, own, by_name)

    def _diagnostics(self, program: Path, items: Iterable[Diagnostic], sources: Mapping[str, SourceFile]) -> None:
        """Print or keep the diagnostics of one program, about files that ``sources`` has by name."""
        if self.form != "text":
            from ..diagnostics.documents import findings

            self.findings |= dict.fromkeys(findings(items, sources.values()))
            return
        from ..diagnostics import render

        severities = []
        for item in items:
            print_coloured(f"{render(item, sources)}\n", coloured, sys.stderr)
            severities.append(item.severity)
        if severities:
            self.found.append((program, severities.count("error"), severities.count("warning")))
            if len(self.programs) > 1:
                print_coloured(f"{program}: {totals(self.found[-1:])}\n", coloured, sys.stderr)

    def fail(self, code: int, message: str) -> None:
        """Report an error that has no source position; the exit code becomes at least ``code``."""
        self.code = max(self.code, code)
        self.failures.append(message)
        print_coloured(f"error: {message}", coloured, sys.stderr)

    def finish(self, always: bool = False) -> None:
        """Print the document, or the totals if there are any (or ``always``), and exit with the exit code."""
        if self.form != "text":
            from ..diagnostics.documents import DOCUMENTS

            click.echo(DOCUMENTS[self.form](tuple(self.findings), self.failures))
        elif self.found or (always and self.code == OK):
            some = f"{len(self.found)} of " if self.found else ""
            among = f" in {some}{len(self.programs)} programs" if len(self.programs) != 1 else ""
            print_coloured(totals(self.found) + among, coloured, sys.stderr)
        click.get_current_context().exit(self.code)


def write_files(
    folder: Path, files: Mapping[str, str | bytes], program: Path, written: dict[str, Path], report: Report
) -> None:
    """Write the files of a program; ``written`` maps file names written earlier to their programs. What is no text is
    the same for all programs."""
    for name, content in files.items():
        path = folder / name
        if name in written:
            if isinstance(content, str):
                report.fail(UNUSABLE, f"{written[name]} and {program} both become {path}")
            continue
        written[name] = program
        changed = report.write(path, content)
        if changed is not None:
            size = size_of(content)
            click.echo(f"wrote {path} ({size})" if changed else f"{path} is up to date ({size})", err=True)


def size_of(content: str | bytes) -> str:
    """Return the size of a file in words."""
    return counted(content.count("\n"), "line") if isinstance(content, str) else counted(len(content), "byte")
