"""Each pass, before and after: ``passes/PASS.txt`` has small programs, and what the pass is given and makes of them.

``--update-golden`` writes both anew. A program begins with a title behind ``====``, which may
contain ``[derivation-sets]`` for that method of maintaining recursions and ``[nodes]`` for the program of a node;
diagnostics that the pass reports stand behind its result. What the docstring of a pass shows stands in its file, too.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.diagnostics import Diagnostics
from flintlog.compiler.frontend import read_program
from flintlog.compiler.ir.syntax import RECURSIONS, SyntaxProgram
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.ir.verify import CHECKS
from flintlog.compiler.pipeline import NODE_PASSES, PASSES, Pass
from flintlog.compiler.source import SourceFile

from golden_tests.frontend.golden import compare

FOLDER = Path(__file__).parent

#: Passes whose check refuses the program that the first example of their file gives them, as the pass has yet to
#: rewrite it; the others leave checks as they find them, or change the representation.
REWRITING = (
    *("expand_paths", "infer_types", "split_aggregates", "split_inputs", "linearize"),
    *("project_negations", "mark_closures", "gather_facts"),
)

STEPS = tuple({step.name: step for step in (*NODE_PASSES, *PASSES)}.values())

#: Modules that do a part of a pass, by which they are shown.
PARTS = {"order_body": "resolve", "plan_joins": "plan_stages"}


@dataclass(frozen=True)
class Example:
    """A program of a file, and the representations before and after the pass."""

    title: str
    source: str
    before: Any
    after: Any
    reported: Diagnostics

    def __str__(self) -> str:
        before, after = shown(self.before), shown(self.after)
        parts = [f"==== {self.title}\n{self.source}"]
        parts.append(f"---- unchanged\n{after}" if before == after else f"---- before\n{before}---- after\n{after}")
        for item in self.reported.sorted():
            parts.append(f"{item.severity}[{item.code}] {item.span.line}:{item.span.column}: {item.message}\n")
        return "".join(parts)


def shown(program: Any) -> str:
    """The text of a representation, that of syntax as a program."""
    return syntax_text(program) if isinstance(program, SyntaxProgram) else str(program)


def examples(step: Pass) -> list[Example]:
    """The programs of a pass's file, compiled as far as the pass."""
    text = (FOLDER / f"{step.name}.txt").read_text(encoding="utf-8")
    found = []
    for part in re.split(r"^==== ", text, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        source = re.split(r"^---- ", rest, flags=re.MULTILINE)[0].strip() + "\n"
        found.append(example(step, title, source))
    return found


def example(step: Pass, title: str, source: str) -> Example:
    """Run the passes up to ``step``, which alone may report an error."""
    recursion = next((name for name in RECURSIONS if f"[{name}]" in title), RECURSIONS[0])
    diagnostics = Diagnostics()
    program: Any = replace(read_program(SourceFile("program.dl", source), diagnostics), recursion=recursion)
    passes = NODE_PASSES if "[nodes]" in title else PASSES
    for earlier in passes[: passes.index(step)]:
        program = earlier.run(program, diagnostics)
    assert not diagnostics.failed, f"{title}: {diagnostics.items}"
    reported = Diagnostics()
    return Example(title, source, program, step.run(program, reported), reported)


def by_name(step: Pass) -> str:
    """The name of a pass in test reports."""
    return step.name


@pytest.mark.parametrize("step", STEPS, ids=by_name)
def test_before_and_after(step: Pass, update_golden: bool) -> None:
    """What a pass makes of the programs in its file."""
    compare("\n".join(map(str, examples(step))), FOLDER / f"{step.name}.txt", update_golden)


def test_every_file_is_of_a_pass() -> None:
    """And every pass has one."""
    assert sorted(path.name for path in FOLDER.glob("*.txt")) == sorted(f"{step.name}.txt" for step in STEPS)


@pytest.mark.parametrize("step", STEPS, ids=by_name)
def test_checks(step: Pass) -> None:
    """The check of a pass accepts what it makes, and refuses what it is given if it has to rewrite that."""
    for number, found in enumerate(examples(step)):
        if not found.reported.failed:
            CHECKS[step.name](found.after)
        if step.name in REWRITING and number == 0:
            with pytest.raises(AssertionError):
                CHECKS[step.name](found.before)


@pytest.mark.parametrize(("module", "step"), [*((p.name, p.name) for p in STEPS), *PARTS.items()])
def test_docstrings_are_true(module: str, step: str) -> None:
    """A pass opens with a program before and after it, line by line that of an example in its file, if not abridged."""
    docstring = importlib.import_module(f"flintlog.compiler.passes.{module}").__doc__ or ""
    blocks = re.findall(r"^(\w[^\n]*)::\n((?:\n|    [^\n]*\n)+)", docstring, re.MULTILINE)
    assert blocks, f"{module} has no example"
    found = examples(next(known for known in STEPS if known.name == step))
    given = flat("\n".join(f"{x.source}\n{shown(x.before)}" for x in found))
    made = flat("\n".join(shown(x.after) for x in found))
    for heading, block in blocks:
        if "abridged" in heading:
            continue
        for line in block.splitlines():
            line = flat(re.sub(r"  %.*", "", line))
            assert line in (made if heading.startswith("After") else given), f"{module}: {line}"


def flat(text: str) -> str:
    """A text on one line, with single spaces."""
    return " ".join(text.split())
