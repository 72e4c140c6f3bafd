"""Compiles located programs to the program that each node of a network runs (Nigam et al. 2012, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .diagnostics import CompileError, Diagnostic, Diagnostics
from .frontend import Load, read_program
from .ir import syntax
from .pipeline import NODE_PASSES, Compilation, run_passes
from .source import SourceFile, Span


@dataclass(frozen=True)
class NodeProgram:
    """A located program: what each ``node`` of it runs, and the ``whole`` program as a single job would."""

    node: Compilation
    whole: Compilation

    @property
    def sources(self) -> tuple[SourceFile, ...]:
        """The source files of the program, the main one first."""
        return self.whole.sources

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The warnings about the program."""
        return self.whole.warnings


def compile_nodes(
    program: Path | SourceFile,
    load: Load | None = None,
    recursion: str = syntax.RECURSIONS[0],
    include_path: Sequence[Path] = (),
    dialect: str = "",
) -> NodeProgram:
    """Compile a located program for nodes. ``dialect`` is its language, by default that of its suffix.

    Raises :class:`~flintlog.compiler.diagnostics.CompileError` with all diagnostics if the program has errors or cannot
    run on nodes (E0740), and OSError if the main file cannot be read.
    """
    diagnostics = Diagnostics()
    read = replace(read_program(program, diagnostics, load, include_path, dialect=dialect), recursion=recursion)
    for process in read.processes[:1]:
        help = "compile it without --nodes; each process block is a process already"
        diagnostics.report("E0740", "a program with process blocks is not a program for nodes", process.span, help=help)
    diagnostics.check()
    whole = run_passes(read, diagnostics)
    if all(relation.location is None and relation.at is None for relation in whole.typed.relations):
        message = "no relation of the program has a location, so nothing can be divided among nodes"
        help = "mark the column with the address by `@`, as in `relation link(@src: string, dst: string)`"
        raise CompileError([Diagnostic("E0740", message, Span(whole.sources[0].name, 1, 1, 1), help)], whole.sources)
    return NodeProgram(run_passes(read, Diagnostics(), NODE_PASSES), whole)
