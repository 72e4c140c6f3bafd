"""Programs with something missing, doubled or in the wrong place: the compiler finds words for all of them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CompileError, Diagnostic, render
from flintlog.compiler.frontend.parser import _parser
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile, Span

from golden_tests.frontend.test_contract import check_program
from golden_tests.nightly import by_day, seeds

ROOT = Path(__file__).parents[2]
TEXTS = [
    path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("golden_tests/**/program.dl"), *ROOT.glob("examples/**/*.dl")])
]

#: Comments, strings, names, numbers and operators as far as mutations care; white space in between is kept.
TOKEN = re.compile(r'\s+|//[^\n]*|"(?:\\.|[^"\\\n])*"|[A-Za-z_][\w.]*|\d+(?:\.\d+)?|:-|:=|!=|<=|>=|\+\+|.', re.DOTALL)
TOKENS = sorted({token for text in TEXTS for token in TOKEN.findall(text) if not token.isspace()})
CHARACTERS = [*"()[]{}<>,.;:=!@*+-/%|^?\"'#`\\_~é日\u200b\0", ". ", "\n", "/*", "*/", "//", ":-"]

#: The names of the grammar's tokens, which no user has ever heard of.
TERMINALS = {terminal.name for terminal in _parser().terminals} | {"$END"}


def mutated(rng: random.Random) -> str:
    """A golden program with one to three tokens or stretches of text deleted, inserted or swapped."""
    tokens = TOKEN.findall(rng.choice(TEXTS))
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(tokens))
        match rng.randrange(6):
            case 0 | 1:
                tokens[place : place + rng.choice((1, 1, 1, 5))] = [""]
            case 2:
                tokens.insert(place, rng.choice(TOKENS))
            case 3:
                tokens.insert(place, rng.choice(CHARACTERS))
            case 4:
                other = rng.randrange(len(tokens))
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case 5:
                tokens[place] = tokens[place][: rng.randrange(len(tokens[place]) + 1)]
    return "".join(tokens)


def reported(source: SourceFile) -> Sequence[Diagnostic]:
    """What the compiler says about a program, which is checked if it is accepted."""
    try:
        compilation = compile_program(source)
    except CompileError as error:
        return error.diagnostics
    check_program(compilation.typed)
    return compilation.warnings


def check_place(span: Span, source: SourceFile) -> None:
    """Assert that a span lies in the program, or directly behind the end of a line."""
    assert span.file == source.name
    assert 1 <= span.line <= len(source.lines), span
    line = source.lines[span.line - 1]
    assert span.length >= 1 and 1 <= span.column <= len(line) + 1, span
    assert span.column + span.length <= max(len(line) + 1, span.column + 1), span


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_mutated_programs_are_answered_with_diagnostics(seed: int) -> None:
    """No accident, no name of a token, every place in the file and under a caret."""
    rng = random.Random(seed)
    for _ in range(250):
        source = SourceFile("program.dl", mutated(rng))
        for item in reported(source):
            words = set(re.findall(r"[A-Z$][A-Z_]+", re.sub(r"`[^`]*`", "", f"{item.message} {item.help or ''}")))
            assert not words & TERMINALS, f"{item.message}\n{source.text}"
            for span in (item.span, *(note.span for note in item.notes if note.span is not None)):
                check_place(span, source)
            excerpt = render(item, {source.name: source}).splitlines()[1:4]
            assert excerpt[0] == f"  --> program.dl:{item.span.line}:{item.span.column}"
            assert re.fullmatch(r" +\| [ \t]*\^+", excerpt[2]), excerpt


@by_day(4)
@pytest.mark.parametrize(
    "text",
    [
        "p(X) :- q(X), X = " + "(" * 3000 + "1" + ")" * 3000 + ".",
        "p(X) :- q(X), X = " + "-" * 3000 + "1.",
        "p(X) :- q(X), X = " + "+".join(["1"] * 3000) + ".",
        "p(X) :- q(X), X = " + "f(" * 3000 + "1" + ")" * 3000 + ".",
        "p(X) :- " + "!" * 3000 + "q(X).",
        "p(X) :- q" + "*?" * 3000 + "(X, X).",
        "p(X) :- q" + "(X)" * 3000 + ".",
        "p(" + "[" * 3000 + "]" * 3000 + ") :- q(X).",
        "p(" + "min<" * 500 + "X" + ">" * 500 + ") :- q(X).",
        "p" + "@1" * 3000 + ".",
        "(" * 3000,
        "input relation a(x: " + "list<" * 3000 + "int" + ">" * 3000 + ")",
    ],
    ids=lambda text: text[:24],
)
def test_deep_nesting_is_refused(text: str) -> None:
    """However deep, with a diagnostic."""
    with pytest.raises(CompileError) as refused:
        compile_program(SourceFile("program.dl", text))
    assert refused.value.diagnostics
