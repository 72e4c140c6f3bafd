"""Compares text with an expected file, or writes the file anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from flintlog.compiler.diagnostics import Diagnostics, render
from flintlog.compiler.frontend import read_program
from flintlog.compiler.ir import syntax, typed
from flintlog.compiler.passes.check_safety import check_safety
from flintlog.compiler.passes.expand_paths import expand_paths
from flintlog.compiler.passes.infer_types import infer_types
from flintlog.compiler.passes.resolve import resolve
from flintlog.compiler.source import SourceFile


def compare(actual: str, expected: Path, update: bool) -> None:
    """Fail unless ``expected`` holds ``actual``; with ``update``, write it there."""
    if update:
        expected.write_text(actual, encoding="utf-8")
    assert expected.exists(), f"{expected.name} is missing; run with --update-golden and read what it wrote"
    assert actual == expected.read_text(encoding="utf-8")


def front(source: Path | SourceFile | str) -> tuple[syntax.SyntaxProgram, typed.TypedProgram, Diagnostics]:
    """Read a program, given as a path or as its text, and type it."""
    diagnostics = Diagnostics()
    main = SourceFile("program.dl", source) if isinstance(source, str) else source
    program = read_program(main, diagnostics)
    resolved = infer_types(resolve(expand_paths(program, diagnostics), diagnostics), diagnostics)
    check_safety(resolved, diagnostics)
    return program, resolved, diagnostics


def rendered(diagnostics: Diagnostics, program: syntax.SyntaxProgram) -> str:
    """All that was reported about a program, with the names of its files instead of their paths."""
    sources = {source.name: replace(source, path="") for source in program.sources}
    return "\n".join(render(item, sources) + "\n" for item in diagnostics.sorted())
