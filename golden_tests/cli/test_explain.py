"""What ``flintlog explain`` tells: one folder per program under ``explain/``, word for word."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler import cli
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.review.explain import MOST_WIDE, explain
from flintlog.compiler.source import SourceFile

from golden_tests.frontend.golden import compare
from golden_tests.harness import EXAMPLES
from golden_tests.oracle.random_programs import FEATURES, random_scenario

CASES = sorted((Path(__file__).parent / "explain").iterdir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_explanation(case: Path, update_golden: bool) -> None:
    """The whole text, and the localized program that it quotes."""
    compilation = compile_program(case / "program.dl")
    compare(explain(compilation), case / "expected.txt", update_golden)
    compare(compilation.dump("localized"), case / "localized.txt", update_golden)


def test_processes() -> None:
    """Of a program of processes each process is told about, and certified."""
    path = str(CASES[0].parents[2] / "addons" / "processes" / "cases" / "reach_over_two" / "program.dl")
    told = CliRunner().invoke(cli.main, ["explain", path], catch_exceptions=False)
    assert told.exit_code == 0
    assert "How process A of program.dl is evaluated and maintained\n" in told.stdout
    assert "part of a recursion over several processes" in " ".join(told.stdout.split())
    certified = CliRunner().invoke(cli.main, ["certify", path], catch_exceptions=False)
    assert [line for line in certified.stdout.splitlines() if line.startswith(path)] == [
        f"{path}, process {name}: the certificate holds for {number} rules" for name, number in (("A", 7), ("B", 8))
    ]


@pytest.mark.parametrize(
    "path", [*(case / "program.dl" for case in CASES), *EXAMPLES], ids=lambda path: path.parent.name
)
def test_lines_are_short(path: Path) -> None:
    """A line is longer than it should be only if a rule or a relation is."""
    for line in explain(compile_program(path)).splitlines():
        assert len(line) <= MOST_WIDE or line.startswith("      "), line


@pytest.mark.parametrize("seed", range(40))
def test_every_program_can_be_explained(seed: int) -> None:
    """Programs nobody wrote: every relation that is not input, and every rule, is told about."""
    features = FEATURES | {"locations"} if seed % 2 else FEATURES
    compilation = compile_program(SourceFile("p.dl", random_scenario(seed, features).text.replace(":=", "=")))
    text = explain(compilation)
    for stage in compilation.plan.stages:
        for planned in stage.strata:
            assert all(f"{pivot.relation} " in text for pivot in planned.pivots)
            assert all(f" {rule.rule.label}: " in text for rule in planned.rules)
    assert not any(word in text for word in ("None", "Since  ", "since ,", ": ."))


def test_explanations_do_not_depend_on_the_hash_seed() -> None:
    """Sets and dictionaries never decide the order of anything."""
    script = (
        "import sys; from pathlib import Path; from flintlog.compiler.review.explain import explain; "
        "from flintlog.compiler.pipeline import compile_program\n"
        "for path in sys.argv[1:]:\n"
        "    compilation = compile_program(Path(path))\n"
        "    print(explain(compilation), compilation.localized)"
    )
    programs = [str(case / "program.dl") for case in CASES]
    said = [
        subprocess.run(
            [sys.executable, "-c", script, *programs],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2026")
    ]
    assert said[0] == said[1] != b""
