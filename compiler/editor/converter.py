"""Print programs of any dialect in Flintlog's own language.

    .decl edge(x: number, y: number)
    .input edge

becomes

    input relation edge(x: int, y: int)

What is printed are the nodes of the syntax tree, so constructs that the language lacks are printed as what the frontend
made of them. Comments stand before the statement that they preceded or that they were in; files of rows that a program
names become comments.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ..diagnostics import CompileError, Diagnostic, Diagnostics
from ..frontend import read_program
from ..ir import syntax
from ..ir.syntax_printer import process_text, statement_text
from ..source import SourceFile, Span
from .formatter import MeaningChanged, bare, format_program

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
"""Comments, and strings, which may contain what looks like one."""


def convert(
    program: Path | SourceFile, include_path: Sequence[Path] = (), dialect: str = ""
) -> tuple[str, tuple[Diagnostic, ...], tuple[SourceFile, ...]]:
    """Read a program, with all files that it includes, and return it in Flintlog's own language, with the warnings of
    its frontend and the files that it consists of.

    Raise CompileError with the diagnostics if the program has syntax errors, OSError if it cannot be read, and
    MeaningChanged as :func:`converted` does.
    """
    diagnostics = Diagnostics()
    read = read_program(program, diagnostics, None, include_path, dialect=dialect)
    if diagnostics.failed:
        raise CompileError(diagnostics.sorted(), read.sources)
    return converted(read), diagnostics.sorted(), read.sources


def converted(program: syntax.SyntaxProgram) -> str:
    """Return a program in Flintlog's own language, formatted; raise MeaningChanged instead of returning one that reads
    differently."""
    source, diagnostics = SourceFile("converted.dl", _text(program)), Diagnostics()
    again = read_program(source, diagnostics)
    if diagnostics.failed or _meaning(again) != _meaning(program):
        raise MeaningChanged
    return format_program(source)


def _meaning(program: syntax.SyntaxProgram) -> object:
    """Return what two programs must have in common to be the same, with spans and texts left out."""
    return bare((*map(_plain, program.statements), *program.processes))


def _plain(statement: syntax.Statement) -> syntax.Statement:
    """Return a statement without what cannot be written: where a rule or a relation comes from, and conjunctions in
    parentheses."""
    if isinstance(statement, syntax.RuleNode):
        return replace(statement, origin="", body=_flat(statement.body))
    if isinstance(statement, syntax.RelationDeclaration):
        return replace(statement, why="")
    return statement


def _flat(body: Iterable[syntax.Literal]) -> tuple[syntax.Literal, ...]:
    """Return a conjunction without disjunctions of a single alternative, which are only parentheses."""
    literals: list[syntax.Literal] = []
    for literal in body:
        if isinstance(literal, syntax.Disjunction):
            alternatives = tuple(map(_flat, literal.alternatives))
            literals += alternatives[0] if len(alternatives) == 1 else (replace(literal, alternatives=alternatives),)
        else:
            literals.append(literal)
    return tuple(literals)


def _text(program: syntax.SyntaxProgram) -> str:
    """Return the statements of a program with its comments, unformatted; a blank line separates groups of lines that
    were separated by one."""
    comments, sources = _comments(program), {source.name: source for source in program.sources}
    lines: list[str] = []
    last: tuple[str, int] | None = None
    for place, statement in enumerate(program.statements):
        begin = statement.name_span if isinstance(statement, syntax.RelationDeclaration) else _span(statement)
        before = comments.get(place, [])
        first = min([begin.line, *(line for line, _ in before)])
        if last is not None and (begin.file != last[0] or _is_blank(sources[begin.file], last[1], first)):
            lines.append("")
        lines += [text for _, text in before]
        if isinstance(statement, syntax.RelationDeclaration):
            lines += [
                _file_text(file) for file in program.files if file.relation == statement.name and not file.is_usual
            ]
        lines.append(statement_text(statement))
        last = begin.file, _last_line(statement)
    lines += [process_text(process) for process in program.processes]
    rest = [text for _, text in comments.get(len(program.statements), [])]
    return "\n".join([*lines, *([""] if rest and lines else []), *rest]) + "\n"


def _file_text(file: syntax.RelationFile) -> str:
    """Return a comment that says where the rows of a relation are, for which the language has no words."""
    separated = "tabs" if file.separator == "\t" else f"`{file.separator}`"
    header = ", with the names of columns" if file.header else ""
    return f"// File of {file.direction} rows: {file.file}, separated by {separated}{header}."


def _is_blank(source: SourceFile, after: int, before: int) -> bool:
    """Return whether there is a blank line between two lines of a file."""
    return any(not line.strip() for line in source.lines[after : before - 1])


def _span(statement: syntax.Statement) -> Span:
    return statement.atom.span if isinstance(statement, syntax.Domain) else statement.span


def _last_line(statement: syntax.Statement) -> int:
    """Return the last line of a statement, as far as its text is known."""
    lines = statement.text.count("\n") if isinstance(statement, syntax.RuleNode | syntax.RelationDeclaration) else 0
    return _span(statement).line + lines


def _comments(program: syntax.SyntaxProgram) -> dict[int, list[tuple[int, str]]]:
    """Return the comments, with their lines, by the index of the statement that they are printed before; those at the
    end of a file by the number of statements."""
    by_place: dict[int, list[tuple[int, str]]] = {}
    for source in program.sources:
        own = [(_last_line(s), place) for place, s in enumerate(program.statements) if _span(s).file == source.name]
        ends = sorted(own)
        for match in _COMMENT.finditer(source.text):
            if match[0].startswith("/"):
                line = source.text.count("\n", 0, match.start()) + 1
                after = bisect_left(ends, (line, -1))
                place = ends[after][1] if after < len(ends) else len(program.statements)
                by_place.setdefault(place, []).append((line, "\n".join(_trimmed(match[0].split("\n")))))
    return by_place


def _trimmed(lines: Iterable[str]) -> list[str]:
    return [line.rstrip() for line in lines]
