"""Programs of other languages with random mistakes: the frontends report errors, and never fail themselves."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CompileError, Diagnostics, render
from flintlog.compiler.dialects import DIALECTS
from flintlog.compiler.pipeline import run_passes
from flintlog.compiler.source import SourceFile

from golden_tests.nightly import seeds
from golden_tests.packed import cases_of

HERE = Path(__file__).parent
PROGRAMS = {
    dialect: [case.program for name in ("programs.txt", "refused.txt") for case in cases_of(HERE / dialect / name)]
    for dialect in ("ndlog", "ddlog", "souffle", "sql")
}
#: What is deleted, repeated and exchanged.
PIECE = re.compile(r"\s+|\w+|\W")
STRANGE = (
    *('"', "/*", "${", "}", "(", ")", "[", "'", "\\", "\n#", "#define A A", "@"),
    *(".", "::", "é", "\0", "0x", "9" * 30, ">>"),
    *("\n#define", "\n#ifdef", "\n#if", "\n#else\n", "\n#endif\n", "\n#include", "\n#define A(X,", "##", "\n#pragma\n"),
)


def mutated(text: str, rng: random.Random) -> str:
    """A program with some mistakes in it."""
    pieces = PIECE.findall(text)
    for _ in range(rng.randint(1, 4)):
        place, other = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        match rng.randrange(4):
            case 0:
                del pieces[place]
            case 1:
                pieces.insert(place, pieces[other])
            case 2:
                pieces[place], pieces[other] = pieces[other], pieces[place]
            case _:
                pieces.insert(place, rng.choice(STRANGE))
        pieces = pieces or [" "]
    return "".join(pieces)


@pytest.mark.parametrize("dialect", PROGRAMS)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_mutations(dialect: str, seed: int) -> None:
    """Every program either becomes a syntax tree, which the passes take, or has errors that can be shown."""
    rng = random.Random(seed)
    refused = 0
    for _ in range(60):
        source = SourceFile(f"program.{dialect}", mutated(rng.choice(PROGRAMS[dialect]), rng))
        diagnostics = Diagnostics()
        program = DIALECTS[dialect].read(source, diagnostics, lambda name: None)
        if not diagnostics.failed:
            with contextlib.suppress(CompileError):
                run_passes(program, diagnostics)
        refused += diagnostics.failed
        for item in diagnostics.items:
            assert render(item, {source.name: source for source in program.sources})
    assert refused > 30
