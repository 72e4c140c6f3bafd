"""docs/jobs.md has what the jobs have: their options, events, results and functions."""

from __future__ import annotations

import argparse
import inspect
import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.documentation.pages import ROOT, in_code, table
from golden_tests.harness import VERSION, load_script
from golden_tests.nightly import AT_NIGHT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
CLOSURE = """
    input relation e(x: int, y: int)
    output p.
    p(X, Y) :- e(X, Y).
    p(X, Y) :- p(X, Z), e(Z, Y).
    """
TIMED = "input relation e(x: int, u: timestamp)  output p.  p(X) :- e(X, U), now(T), U > T."
CALLING = "extern function f(x: int): int  input relation e(x: int)  output p.  p(f(X)) :- e(X)."

#: The functions of a job that users call.
FUNCTIONS = (
    *(
        "connect",
        "init",
        "apply",
        "apply_micro_batch",
        "relation",
        "status",
        "explain",
        "verify",
        "rebuild",
        "upgrade",
        "compact",
        "recover",
    ),
    *("history", "changes", "rollback", "revert", "vacuum", "export", "import_archive"),
)
#: Those that are commands which print a result.
COMMANDS = (
    *(n for n in FUNCTIONS if n not in ("apply_micro_batch", "relation", "changes", "import_archive")),
    "import",
)


def job(text: str, recursion: str = "ranks") -> ModuleType:
    """The job of a program."""
    compilation = compile_program(SourceFile("test.dl", text), recursion=recursion)
    return load_script(emit_script(compilation.plan, VERSION, format_code=False))


def rows(mark: str) -> list[list[str]]:
    """The cells of the table behind a mark on the page, which is there."""
    found = table(PAGE, mark)
    assert found, mark
    return found


def parsers(module: ModuleType) -> dict[str, argparse.ArgumentParser]:
    """The commands of a job."""
    line: argparse.ArgumentParser = module.command_line(module.PROGRAM, module.commands_of(module.PROGRAM))
    (commands,) = (action for action in line._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


def shown(action: argparse.Action) -> tuple[str, ...]:
    """How the page writes an option: with what it takes, or with its choices."""
    if not action.option_strings:
        return (str(action.metavar),)
    first, *others = map(str, action.choices or [action.metavar or ""])
    return (f"{action.option_strings[0]} {first}".strip(), *others)


def test_options() -> None:
    """Each option of each command stands in the table, with its choices and its default, and no other."""
    commands = (*COMMANDS, "changes", "show", "follow", "depends")
    found = set()
    for module in (job(CLOSURE), job(CLOSURE, "derivation-sets"), job(CALLING), job(TIMED)):
        further = {"depends"} if module.has_derivations(module.PROGRAM) else set()
        assert parsers(module).keys() == {*commands} - {"depends"} | further
        for command, parser in parsers(module).items():
            for action in parser._actions:
                if not isinstance(action, argparse._HelpAction):
                    default = "" if action.default in (None, False, "", []) else str(action.default)
                    found.add((command, shown(action), default, action.required and command != "show"))
    told = set()
    for option, of, meaning in rows("options"):
        for command in commands if of == "all" else in_code(of):
            same = [x for x in found if x[:2] == (command, tuple(in_code(option)))]
            assert len(same) == 1, (command, option)
            told.add(same[0])
            default = same[0][2]
            assert not default or re.search(rf"`?{re.escape(default)}`? unless", meaning), (command, option, default)
    assert found - told == set()


def test_events() -> None:
    """Each event that the code of jobs logs stands in the table with its fields, and no other."""
    modules = (path for path in sorted((ROOT / "runtime").rglob("*.py")) if path.parent.name != "processes")
    support = "".join(path.read_text("utf-8") for path in modules)
    logged: dict[str, set[str]] = {}
    for call in re.finditer(r"log\.event\(\s*\"([^\"]+)\"(.*?)\)\n", support, re.DOTALL):
        logged.setdefault(call[1], set()).update(re.findall(r"[(,]\s*(\w+)=", call[2]))
    told = {in_code(event)[0]: set(in_code(fields)) for event, _, fields in rows("events")}
    assert {name: fields - {"seconds"} for name, fields in logged.items()} == told


def test_functions(update_golden: bool) -> None:
    """The page has the functions with their parameters and defaults."""
    module = job(CLOSURE)
    lines = [signature(name, getattr(module, name)) for name in FUNCTIONS]
    made = "<!-- functions -->\n```text\n" + "\n".join(lines) + "\n```"
    block = re.compile(r"<!-- functions -->\n```text\n.*?\n```", re.DOTALL)
    if update_golden:
        page = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
        (ROOT / "docs" / "jobs.md").write_text(block.sub(lambda _: made, page), encoding="utf-8")
    else:
        assert made in PAGE


def signature(name: str, function: Any) -> str:
    """A function as the page shows it, in lines that are not too long."""
    parameters = [
        str(p).split(":")[0] + (f"={p.default!r}" if p.default is not p.empty else "")
        for p in inspect.signature(function).parameters.values()
    ]
    lines, line = [], f"{name}("
    for place, parameter in enumerate(parameters):
        text = parameter + ("," if place < len(parameters) - 1 else ")")
        if len(line) + len(text) > 118:
            lines.append(line.rstrip())
            line = " " * (len(name) + 1)
        line += text + " "
    return "\n".join([*lines, line.rstrip()])


@AT_NIGHT
def test_results(spark: SparkSession, tmp_path: Path) -> None:
    """What commands print with ``--json`` has the members of the table."""
    module: Any = job(CLOSURE)
    rows_of_e = tmp_path / "e.csv"
    rows_of_e.write_text("x,y\n2,3\n" + "".join(f"{n},{n}\n" for n in range(10, 60)), encoding="utf-8")
    changes = tmp_path / "changes" / "e.csv"
    changes.parent.mkdir()
    changes.write_text("op,x,y\n-,10,10\n+,3,4\n", encoding="utf-8")
    other: Any = job(CLOSURE.replace("p(X, Y) :- e(X, Y).", "p(X, Y) :- e(X, Y), X != Y."))
    other.PROGRAM = other.replace(other.PROGRAM, sha256="0" * 64)
    told: dict[str, set[str]] = {}
    commands = COMMANDS
    for of, members, _ in rows("results"):
        left_out = in_code(of) if of.startswith("all") else [name for name in commands if name not in in_code(of)]
        for command in commands:
            if command not in left_out:
                told.setdefault(command, set()).update(in_code(members))
    state = str(tmp_path / "state")

    def members(command: str, *arguments: str, program: Any = module) -> set[str]:
        output, errors = io.StringIO(), io.StringIO()
        with redirect_stdout(output), redirect_stderr(errors):
            code = program.main([command, "--state", state, "--json", *arguments])
        assert code == 0, errors.getvalue()
        return {str(name) for name in json.loads(output.getvalue().splitlines()[-1])}

    folder = tmp_path / "feed"
    folder.mkdir()
    assert members("connect", f"e=files:{folder}") == told["connect"]
    assert members("connect", "--remove", "e") == told["connect"]
    assert members("init", "--input", str(rows_of_e)) == told["init"]
    assert members("apply", "--changes", str(changes)) == told["apply"]
    assert members("status") == told["status"]
    assert members("verify") == told["verify"]
    counting: Any = job(f"{CLOSURE}\noutput relation n(x: int, c: int)\nn(X, count<Y>) :- p(X, Y).\n")
    elsewhere = ("--state", str(tmp_path / "counting"))
    members("init", "--input", str(rows_of_e), *elsewhere, program=counting)
    explained = members("explain", "p(2, 4)") | members("explain", "p(7, 8)") | members("explain", "p(2, _)")
    explained |= members("explain", "n(2, 9)", *elsewhere, program=counting)
    assert explained == told["explain"]
    assert members("revert", "batch-000002") == told["revert"]
    assert members("compact") == told["compact"]
    assert members("rollback", "--to", "2") == told["rollback"]
    assert members("vacuum", "--keep", "2") == told["vacuum"]
    assert members("history") == told["history"]
    (told_of_commits,) = (text for of, member, text in rows("results") if (of, member) == ("`history`", "`commits`"))
    found = {name for commit in module.history(state)["commits"] for name in commit}
    assert {*found, "feeds"} == {*in_code(told_of_commits)} - {"status"}
    archive = str(tmp_path / "state.tar")
    assert members("export", "--to", archive) == told["export"]
    assert members("import", archive, "--state", str(tmp_path / "copy")) == told["import"]
    assert members("upgrade", program=other) == told["upgrade"]
    assert members("rebuild", program=other) == told["rebuild"]
    max(Path(state, "manifest").glob("*.json")).write_bytes(b"")
    assert members("recover") == told["recover"]


@pytest.mark.parametrize("name", ["FEW_TUPLES", "LARGE_SHARE", "MOST_BUCKET_ROWS", "PROBLEMS_LISTED"])
def test_numbers(name: str) -> None:
    """Numbers that the page names are those of the job."""
    said = {
        "FEW_TUPLES": "fewer than {:,}",
        "LARGE_SHARE": "more than {:.0%}",
        "MOST_BUCKET_ROWS": "more than {:,}",
        "PROBLEMS_LISTED": "",
    }[name]
    value = getattr(job(CLOSURE), name)
    text = " ".join(PAGE.split()).replace(" million", ",000,000").replace(" %", "%")
    assert said.format(value) in text if said else (value == 5 and "up to five problems" in text)
