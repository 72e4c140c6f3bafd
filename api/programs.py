"""Compile programs that are given as text or as a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flintlog.compiler import Compiled, CompileOptions, compile_source
from flintlog.compiler.dialects import DIALECTS, SUFFIXES
from flintlog.compiler.frontend import Load, folder_loader
from flintlog.compiler.source import SourceFile

if TYPE_CHECKING:
    from flintlog.compiler.pipeline import Compilation

Program = str | Path
"""A program: its text, or a path. A text of one line that ends in a suffix of programs, as in ``.dl``, is a path."""

TEXT = "program.dl"
"""The name, in messages and generated files, of a program that is given as text."""


def compile(
    program: Program,
    *,
    target: str = "pyspark",
    format: bool = True,
    recursion: str = "ranks",
    runtime: str = "standalone",
    parts: Sequence[str] = (),
    include_path: Sequence[str | Path] = (),
    dialect: str = "",
) -> Compiled:
    """Compile a program to the files of a target, as ``flintlog compile`` does.

    The result has the texts of the ``files`` by name, and the ``warnings``; ``write(folder)`` writes the files, with
    the archive of a runtime ``beside`` them. The options are those of the command:
    ``format`` says whether to format the script with black, ``recursion`` is ``ranks`` or ``derivation-sets``,
    ``runtime`` is ``standalone``, ``beside`` or ``installed``, and ``parts`` are those of ``--with``. A program given
    as text includes files relative to the first folder of ``include_path``. ``dialect`` is the language of the program,
    one of those of ``--dialect``; by default, the suffix of the path says it, and a text is in Flintlog's own.

    Raises :class:`~flintlog.CompileError` if the program has errors, OSError if a file cannot be read, and ValueError
    for an unknown option.
    """
    from flintlog.targets import RUNTIMES, TARGETS, chosen_parts

    _check("target", target, TARGETS)
    _check("runtime", runtime, RUNTIMES)
    _check_recursion(recursion)
    _check_dialect(dialect)
    source, load, folders = _source(program, include_path)
    options = CompileOptions(
        target=target,
        format=format,
        recursion=recursion,
        include_path=tuple(folders),
        runtime=runtime,
        parts=chosen_parts(parts),
        dialect=dialect,
    )
    return compile_source(source, options, load)


def compilation_of(
    program: Program | Compiled, recursion: str, include_path: Sequence[str | Path], dialect: str
) -> Compilation:
    """Return a program, compiled up to its plan. Raises as :func:`compile` does."""
    if isinstance(program, Compiled):
        return program.compilation
    from flintlog.compiler.pipeline import compile_program

    _check_recursion(recursion)
    _check_dialect(dialect)
    source, load, folders = _source(program, include_path)
    return compile_program(source, load, recursion, folders, dialect)


def _source(
    program: Program, include_path: Sequence[str | Path]
) -> tuple[Path | SourceFile, Load | None, Sequence[Path]]:
    """Return what to compile, how it includes files, and the folders of ``include_path``."""
    folders = [Path(folder) for folder in include_path]
    if not isinstance(program, str):
        return Path(program), None, folders
    if program.endswith(SUFFIXES) and "\n" not in program:
        return Path(program), None, folders
    return SourceFile(TEXT, program), folder_loader(folders[0], folders) if folders else None, folders


def _check_recursion(given: str) -> None:
    from flintlog.compiler.ir.syntax import RECURSIONS

    _check("recursion", given, RECURSIONS)


def _check_dialect(given: str) -> None:
    if given:
        _check("dialect", given, tuple(DIALECTS))


def _check(option: str, given: str, known: Sequence[str]) -> None:
    """Raise ValueError unless an option has one of its known values."""
    if given not in known:
        raise ValueError(f"{option} is {given!r}, and should be one of these: {', '.join(known)}")
