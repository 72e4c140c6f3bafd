"""Generated scripts are clean Python, and the same bytes every time."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from flintlog.compiler.processes import compile_processes
from flintlog.targets import RUNTIME_FILE, RUNTIME_MODULE, EmitOptions
from flintlog.targets.bundle import modules
from flintlog.targets.processes.emit import make_processes
from flintlog.targets.pyspark.emit import emit_script, job_templates, needed_modules, program_part
from flintlog.targets.runtimes import runtime_text, runtime_view
from flintlog.targets.signature import MARK

from golden_tests.harness import VERSION
from golden_tests.nightly import AT_NIGHT
from golden_tests.test_cases import CASES, compiled

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "golden_tests" / "cases"
PROCESSES = ROOT / "golden_tests" / "processes" / "cases"
PARTS = [*sorted(FOLDER.glob("*/script.py")), *sorted(PROCESSES.glob("*/expected/[!r]*.py"))]

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


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a script for each program part that imports the runtime, and one whole script for each choice of
    modules that some program needs."""
    folder = tmp_path_factory.mktemp("scripts")
    for script in PARTS:
        part = script.read_text(encoding="utf-8")
        names = runtime_view(part, EmitOptions(VERSION, runtime="beside"), ("job",)).names
        text = f"{part}\n\nfrom {RUNTIME_MODULE} import {', '.join(names)}\n\nprint(Job(program()))\n"
        (folder / f"{named(script)}_part.py").write_text(text, encoding="utf-8")
    for needed, case in choices().items():
        name = "_".join(module.rpartition(".")[2] for module in needed) or "none"
        whole = emit_script(compiled(case).plan, VERSION, format_code=False)
        (folder / f"{name}_whole.py").write_text(whole, encoding="utf-8")
    compiled_processes = compile_processes([PROCESSES / "switches" / "program.dl"])
    plans = {name: compilation.plan for name, compilation in compiled_processes.compilations.items()}
    process = make_processes(compiled_processes.topology, plans, EmitOptions(VERSION, format=False))["S1"]
    (folder / "process_whole.py").write_text(process.text, encoding="utf-8")
    (folder / RUNTIME_FILE).write_text(runtime_text(VERSION), encoding="utf-8")
    return folder


def choices() -> dict[tuple[str, ...], Path]:
    """The choices of modules that programs need, and for each a case that does."""
    return {needed_modules(compiled(case).plan): case for case in reversed(CASES)}


def test_scripts_pass_ruff(scripts: Path) -> None:
    """No script has an unused import, an unused variable or an undefined name; ``cases/ruff.toml`` has the rules."""
    rules = ROOT / "golden_tests" / "cases" / "ruff.toml"
    ran = run("ruff", "check", "--config", rules, "--extend-select", "F821", "--ignore", "E402", scripts)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(list(scripts.glob("*_part.py"))) == len(PARTS) and len(list(scripts.glob("*_whole.py"))) > 4


@AT_NIGHT
def test_scripts_pass_mypy(request: pytest.FixtureRequest, scripts: Path) -> None:
    """All scripts in one run, as strict as it gets."""
    config = scripts / "mypy.ini"
    config.write_text(CONFIG, encoding="utf-8")
    cache = request.config.cache.mkdir("mypy") if request.config.cache else scripts / "cache"
    ran = run("mypy", "--config-file", config, "--cache-dir", cache, *sorted(scripts.glob("*.py")))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_script_is_its_program_part_and_modules_of_the_runtime() -> None:
    """Each with its text as it stands in the package, under a heading with its hash, before those that need it."""
    for needed, case in choices().items():
        part, _ = program_part(job_templates(), compiled(case).plan, VERSION, False)
        script = emit_script(compiled(case).plan, VERSION, format_code=False)
        header, _, rest = part.partition(MARK)
        assert script.startswith(header) and script[len(header) + len(MARK) :].startswith(rest)
        sections = re.split(r"^# ---- runtime: (\S+), ([0-9a-f]{12}) -+$", script, flags=re.MULTILINE)
        found = dict(zip(sections[1::3], sections[3::3], strict=True))
        assert {"job", *needed} <= set(found)
        for number, (name, text) in enumerate(found.items()):
            module = modules()[name]
            assert module.body in text and module.sha256.startswith(sections[2::3][number])
            assert set(module.needs) <= set(list(found)[:number]), name


def bound(source: str) -> list[str]:
    """The names that a module binds at its top level, apart from imports, each as often as it does."""
    found: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = [name for name in ast.walk(node) if isinstance(name, ast.Name)]
            found += [name.id for name in names if isinstance(name.ctx, ast.Store)]
    return [name for name in found if not name.startswith("__")]


def test_no_two_modules_bind_a_name() -> None:
    """In a script, which has the text of several modules, the later one would replace the value of the earlier one."""
    homes: dict[str, set[str]] = {}
    for path in (ROOT / "runtime").rglob("*.py"):
        for name in bound(path.read_text(encoding="utf-8")):
            homes.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    assert {name: sorted(where) for name, where in homes.items() if len(where) > 1} == {}


def unused(sources: Iterable[str], mentioning: Iterable[str]) -> set[str]:
    """Functions, classes, constants and methods that ``sources`` define and nothing of ``mentioning`` mentions."""
    defined: set[str] = set()
    for source in sources:
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined.add(node.name)
                parts = node.body if isinstance(node, ast.ClassDef) else []
                methods = [part.name for part in parts if isinstance(part, ast.FunctionDef)]
                defined |= {name for name in methods if not name.startswith("__")}
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    mentioned: set[str] = set()
    for source in mentioning:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                mentioned.add(node.id)
            elif isinstance(node, ast.Attribute):
                mentioned.add(node.attr)
            # Annotations in quotes, and handlers that are found by name.
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                mentioned.add(node.value)
    return {name for name in defined - mentioned if not name.startswith("__")}


def test_the_runtime_has_nothing_unused() -> None:
    """What nothing in the project uses is removed."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "runtime").rglob("*.py")]
    others = [
        path.read_text(encoding="utf-8") for name in ("compiler", "targets") for path in (ROOT / name).rglob("*.py")
    ]
    template = (ROOT / "templates" / "pyspark" / "script.py.jinja").read_text(encoding="utf-8")
    left_over = unused(sources, [*sources, *others])
    called_by_libraries = {"readinto"}
    assert {name for name in left_over if name not in template} - called_by_libraries == set()


@pytest.mark.parametrize("case", ["strata_in_a_row", "names_of_sql"])
def test_same_bytes_whatever_the_hash_seed(case: str) -> None:
    """What a fresh process prints for a program depends on the program alone."""
    program = FOLDER / case / "program.dl"
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
    assert "class Job" in printed[0]
    assert printed[0] == printed[1]
