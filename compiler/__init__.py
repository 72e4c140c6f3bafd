"""Flintlog's compiler: distributed Datalog in, maintenance jobs out.

    from pathlib import Path
    from flintlog.compiler import compile_source

    compiled = compile_source(Path("reach.dl"))
    for name, text in compiled.files.items():
        Path("jobs", name).write_text(text, encoding="utf-8", newline="\\n")

A program that is refused raises :class:`flintlog.compiler.diagnostics.CompileError`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .diagnostics import Diagnostic
    from .frontend import Load
    from .pipeline import Compilation
    from .processes import Processes
    from .source import SourceFile

__all__ = ["CompileOptions", "Compiled", "compile_process_files", "compile_source", "emit"]


def _version() -> str:
    # Not needed by most commands, and slow to import.
    from importlib.metadata import version

    return version("flintlog")


@dataclass(frozen=True)
class CompileOptions:
    """How to compile: for which target, how recursions are to be maintained (by ``ranks`` or ``derivation-sets``),
    whether to format what is printed, and below which folders includes may lie beside that of the program.

    ``compiler`` is the version that headers name, by default that of the installed package.
    """

    target: str = "pyspark"
    format: bool = True
    recursion: str = "ranks"
    compiler: str = field(default_factory=_version)
    include_path: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Compiled:
    """A compiled program: the texts of its files by name, and every stage on the way to them."""

    files: Mapping[str, str]
    compilation: Compilation

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the compiler has to say about a program that it accepts."""
        return self.compilation.warnings


def compile_source(
    source: SourceFile | Path, options: CompileOptions | None = None, load: Load | None = None
) -> Compiled:
    """Compile a program, given as a path or as its text, to the files of a target.

    Includes are found beside a path; for a text, ``load`` finds them. Raises
    :class:`~flintlog.compiler.diagnostics.CompileError` with all diagnostics if the program is refused, OSError if the
    path cannot be read, and KeyError if there is no such target.
    """
    from .pipeline import compile_program

    options = options or CompileOptions()
    compilation = compile_program(source, load, options.recursion, options.include_path)
    return Compiled(emit(compilation, options), compilation)


def compile_process_files(
    programs: Sequence[SourceFile | Path],
    options: CompileOptions | None = None,
    load: Load | None = None,
    outside: Collection[str] = (),
) -> tuple[Mapping[str, str], Processes]:
    """Compile the processes of some programs to the files of the target ``processes``; relations named in ``outside``
    are fed from outside. Raises as :func:`compile_source` does."""
    from flintlog.targets import EmitOptions
    from flintlog.targets.processes.emit import emit_processes

    from .pipeline import refusing_depth
    from .processes import compile_processes

    options = options or CompileOptions()
    found = compile_processes(programs, load, outside, options.recursion, options.include_path)
    plans = {name: compilation.plan for name, compilation in found.compilations.items()}
    with refusing_depth(found.sources[0]):
        return emit_processes(found.topology, plans, EmitOptions(options.compiler, options.format)), found


def emit(compilation: Compilation, options: CompileOptions) -> Mapping[str, str]:
    """The files of a compiled program: their texts by name.

    Raises KeyError if there is no such target, and CompileError if the program is nested too deeply.
    """
    from flintlog.targets import EmitOptions, target

    from .pipeline import refusing_depth

    with refusing_depth(compilation.sources[0]):
        return target(options.target).emit(compilation.plan, EmitOptions(options.compiler, options.format))
