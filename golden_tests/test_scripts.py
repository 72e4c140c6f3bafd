"""Generated scripts are clean Python, and the same bytes every time."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flintlog.targets.pyspark.emit import format_script

ROOT = Path(__file__).parents[1]
CASES = ROOT / "golden_tests" / "cases"
PROCESSES = ROOT / "golden_tests" / "processes" / "cases"
SCRIPTS = [*sorted(CASES.glob("*/script.py")), *sorted(PROCESSES.glob("*/expected/*.py"))]

CONFIG = """
[mypy]
strict = true
python_version = 3.11

[mypy-pyarrow.*]
ignore_missing_imports = true
"""


def named(script: Path) -> str:
    """A name for a script that no other has."""
    return "_".join(script.with_suffix("").relative_to(ROOT / "golden_tests").parts)


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python module with its arguments, in the repository."""
    return subprocess.run(
        [sys.executable, "-m", *map(str, command)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_scripts_pass_ruff() -> None:
    """No script has an unused import, an unused variable or an undefined name; ``cases/ruff.toml`` has the rules."""
    ran = run("ruff", "check", CASES, PROCESSES)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert SCRIPTS


def test_scripts_pass_mypy(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """All scripts in one run, as strict as it gets."""
    (tmp_path / "mypy.ini").write_text(CONFIG, encoding="utf-8")
    for script in SCRIPTS:
        (tmp_path / f"{named(script)}_script.py").write_bytes(script.read_bytes())
    cache = request.config.cache.mkdir("mypy") if request.config.cache else tmp_path / "cache"
    ran = run(
        "mypy", "--config-file", tmp_path / "mypy.ini", "--cache-dir", cache, *sorted(tmp_path.glob("*_script.py"))
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def unused(script: str) -> set[str]:
    """Functions, classes, constants and methods of a script that nothing in it mentions."""
    tree = ast.parse(script)
    defined: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
            methods = [
                part for part in node.body if isinstance(node, ast.ClassDef) and isinstance(part, ast.FunctionDef)
            ]
            defined |= {method.name for method in methods if not method.name.startswith("__")}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    mentioned = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    mentioned |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    # Annotations in quotes, and handlers that are found by name.
    mentioned |= {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return defined - mentioned


def test_scripts_have_no_unused_helpers() -> None:
    """Support code that a program has no use for is left out of its script; run_local.py is for other programs too."""
    scripts = [script for script in SCRIPTS if script.name != "run_local.py"]
    left_over = {named(script): unused(script.read_text(encoding="utf-8")) for script in scripts}
    assert {name: names for name, names in left_over.items() if names} == {}


def test_support_is_kept_as_black_formats_it() -> None:
    """Support code is not formatted when a script is made; it is kept formatted."""
    script = (CASES / "strata_in_a_row" / "script.py").read_text(encoding="utf-8")
    assert "# ---- support: " in script
    assert format_script(script) == script


@pytest.mark.parametrize("case", ["strata_in_a_row", "names_of_sql"])
def test_same_bytes_whatever_the_hash_seed(case: str) -> None:
    """What a fresh process prints for a program depends on the program alone."""
    program = CASES / case / "program.dl"
    code = (
        "import sys, pathlib; from flintlog.compiler.pipeline import STAGES, compile_program;"
        "from flintlog.targets.pyspark.emit import emit_script;"
        "made = compile_program(pathlib.Path(sys.argv[1]));"
        "print(*map(made.dump, STAGES), emit_script(made.plan, '0.0.0', format_code=False))"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code, str(program)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert "def main(" in printed[0]
    assert printed[0] == printed[1]
