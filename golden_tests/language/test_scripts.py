"""Generated scripts are clean Python, and the same bytes every time."""

from __future__ import annotations

import ast
import builtins
import hashlib
import io
import os
import re
import subprocess
import symtable
import sys
import zipfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.processes import compile_processes
from flintlog.targets import EmitOptions
from flintlog.targets.bundle import reachable, sources
from flintlog.targets.processes.emit import make_processes
from flintlog.targets.pyspark.emit import emit_script, job_templates, make_script, needed_modules, program_part
from flintlog.targets.runtimes import PACKAGE, PART_MODULES, runtime_archive, runtime_view
from flintlog.targets.signature import MARK

from golden_tests.harness import EXAMPLES, VERSION
from golden_tests.language.test_cases import CASES, compiled
from golden_tests.nightly import AT_NIGHT, by_day

HEADING = r"^# ---- runtime: (\S+), ([0-9a-f]{12}) -+\n"

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "golden_tests" / "cases"
PROCESSES = ROOT / "golden_tests" / "addons" / "processes" / "cases"

CONFIG = """
[mypy]
strict = true
python_version = 3.11

[mypy-pyarrow.*,graphblas.*]
ignore_missing_imports = true

[mypy-flintlog_runtime.spark.types]
implicit_reexport = true
"""


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
    parts = {case.name: program_part(job_templates(), compiled(case).plan, VERSION, False)[0] for case in CASES}
    for case_name, part in parts.items():
        names = runtime_view(part, EmitOptions(VERSION, runtime="beside"), ("job",)).names
        text = f"{part}\n\nfrom {PACKAGE}.script import {', '.join(names)}\n\nprint(Job(program()))\n"
        (folder / f"{case_name}_part.py").write_text(text, encoding="utf-8")
    for needed, case in choices().items():
        name = "_".join(module.rpartition(".")[2] for module in needed) or "none"
        whole = emit_script(compiled(case).plan, VERSION, format_code=False)
        (folder / f"{name}_whole.py").write_text(whole, encoding="utf-8")
    compiled_processes = compile_processes([PROCESSES / "switches" / "program.dl"])
    plans = {name: compilation.plan for name, compilation in compiled_processes.compilations.items()}
    process = make_processes(compiled_processes.topology, plans, EmitOptions(VERSION, format=False))["S1"]
    (folder / "process_whole.py").write_text(process, encoding="utf-8")
    beside = make_script(compiled(CASES[0]).plan, EmitOptions(VERSION, format=False, runtime="beside"))
    (folder / "beside_whole.py").write_text(beside.text, encoding="utf-8")
    with zipfile.ZipFile(io.BytesIO(runtime_archive(VERSION))) as archive:
        archive.extractall(folder)
    return folder


def choices() -> dict[tuple[str, ...], Path]:
    """The choices of modules that programs need, and for each a case that does."""
    return {needed_modules(compiled(case).plan): case for case in reversed(CASES)}


def test_scripts_pass_ruff(scripts: Path) -> None:
    """No script has an unused import, an unused variable or an undefined name; ``cases/ruff.toml`` has the rules."""
    rules = ROOT / "golden_tests" / "cases" / "ruff.toml"
    ran = run("ruff", "check", "--config", rules, "--extend-select", "F821", "--ignore", "E402", *scripts.glob("*.py"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(list(scripts.glob("*_part.py"))) == len(CASES) and len(list(scripts.glob("*_whole.py"))) > 4


@AT_NIGHT
def test_scripts_pass_mypy(request: pytest.FixtureRequest, scripts: Path) -> None:
    """All scripts in one run, as strict as it gets."""
    config = scripts / "mypy.ini"
    config.write_text(CONFIG, encoding="utf-8")
    kept = getattr(request.config, "cache", None)
    cache = kept.mkdir("mypy") if kept else scripts / "cache"
    ran = run("mypy", "--config-file", config, "--cache-dir", cache, *sorted(scripts.glob("*.py")))
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_script_is_its_program_part_and_pieces_of_the_runtime() -> None:
    """Each with its text as it stands in the package, under a heading with the hash of what is there of the module."""
    found: set[tuple[str, str, str]] = set()
    for needed, case in choices().items():
        part, _ = program_part(job_templates(), compiled(case).plan, VERSION, False)
        script = emit_script(compiled(case).plan, VERSION, format_code=False)
        header, _, rest = part.partition(MARK)
        assert script.startswith(header) and script[len(header) + len(MARK) :].startswith(rest)
        runtime, _, _ = script.partition("\n\n\nPROGRAM = program()")
        sections = re.split(HEADING, runtime, flags=re.MULTILINE)
        assert {"job.job", *needed} <= {*sections[1::3]}
        found |= {*zip(sections[1::3], sections[2::3], sections[3::3], strict=True)}
    for name, sha256, text in found:
        doc, body = text.strip("\n").split("\n\n\n", 1)
        assert doc.replace("\n# ", "\n").removeprefix("# ") in sources()[name].replace("\n\n", "\n#\n")
        assert hashlib.sha256(body.encode()).hexdigest().startswith(sha256), name
        module = re.sub(r"^ +from \..*\n", "", sources()[name], flags=re.MULTILINE)
        assert all(f"\n{text}\n" in module for text, _ in statements_of(body)), name


def statements_of(text: str) -> list[tuple[str, ast.stmt]]:
    """The statements of a module, each with its text."""
    lines, found = text.split("\n"), []
    for node in ast.parse(text).body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
        found.append(("\n".join(lines[first - 1 : node.end_lineno]), node))
    return found


def globals_of(table: symtable.SymbolTable) -> set[str]:
    """The names of the module that a scope and those in it use."""
    own = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() or table.get_type() == "module"}
    return own.union(*map(globals_of, table.get_children()))


@cache
def uses(section: str) -> list[tuple[set[str], set[str]]]:
    """For each statement of a section of a script the names that it binds, and all of the module that it uses or
    imports."""
    found = []
    for text, node in statements_of(section):
        imports = [each for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)]
        imported = {(alias.asname or alias.name).split(".")[0] for each in imports for alias in each.names}
        started = {"_code", "_endless", "_number"} if text.startswith("if __name__") else set()
        if "__future__" not in text:
            names = globals_of(symtable.symtable(text, "script", "exec"))
            found.append(({*bound(text)} | imported | started, names))
    return found


def loose(script: str) -> tuple[set[str], set[str]]:
    """The names that a script uses and does not have, and the definitions that nothing in it reaches, from statements
    that bind nothing and from what the end of the script gives names to."""
    sections = re.split(r"^(?=# ---- runtime: |PROGRAM = program\(\))", script, flags=re.MULTILINE)
    statements = [statement for section in sections for statement in uses(section)]
    waiting = [*uses(sections[-1]), *(statement for statement in statements if not statement[0])]
    by_name: dict[str, list[set[str]]] = {}
    for binds, names in statements:
        for name in binds:
            by_name.setdefault(name, []).append(names)
    reached: set[str] = set()
    while waiting:
        binds, names = waiting.pop()
        new = (binds | names) - reached
        reached |= new
        waiting += [({name}, more) for name in new for more in by_name.get(name, [])]
    used = set().union(*(names for _, names in statements))
    unreached = {name for binds, _ in statements if not binds & reached for name in binds}
    own = {"__file__", "__getattr__"}  # of the module itself
    return used - by_name.keys() - {*dir(builtins)} - own, unreached - {"SOURCES"}  # for `flintlog job`


def kinds_of_scripts() -> Iterator[tuple[str, str]]:
    """A script of each choice of modules, with each part of the runtime, with all and with none; of each example; of a
    process and of a node."""
    for needed, case in choices().items():
        yield str(needed), emit_script(compiled(case).plan, VERSION, format_code=False)
    plan = compiled(CASES[0]).plan
    for parts in [(), *((part,) for part in PART_MODULES)]:
        yield str(parts), emit_script(plan, VERSION, format_code=False, parts=parts)
    for path in EXAMPLES:
        yield path.parent.name, emit_script(compile_program(path).plan, VERSION, format_code=False, parts=())
    processes = compile_processes([PROCESSES / "switches" / "program.dl"])
    plans = {name: compilation.plan for name, compilation in processes.compilations.items()}
    yield "process", make_processes(processes.topology, plans, EmitOptions(VERSION, format=False))["S1"]


def test_scripts_have_what_they_use_and_use_what_they_have() -> None:
    """All names of the module that are used are bound, and every function, class and constant is reached from the end
    of the script or from something that is registered."""
    for kind, script in kinds_of_scripts():
        assert loose(script) == (set(), set()), kind


def test_scripts_lose_no_registration() -> None:
    """What a module registers in a table is there wherever something of it is, and with each part that needs it."""
    everything = emit_script(compiled(CASES[0]).plan, VERSION, format_code=False)
    for module in reachable(("job.job", *(name for names in PART_MODULES.values() for name in names))):
        for piece in module.pieces:
            assert piece.binds or f"\n{piece.text}\n" in everything, module.name


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
        path.read_text(encoding="utf-8")
        for name in ("compiler", "targets", "api")
        for path in (ROOT / name).rglob("*.py")
    ]
    template = (ROOT / "templates" / "pyspark" / "script.py.jinja").read_text(encoding="utf-8")
    left_over = unused(sources, [*sources, *others])
    called_by_libraries = {"readinto"}
    assert {name for name in left_over if name not in template} - called_by_libraries == set()


@by_day(1)
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
