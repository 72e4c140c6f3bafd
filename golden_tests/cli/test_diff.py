"""What ``flintlog diff`` tells: one folder per change under ``diff/``, in all forms; and that it is true."""

from __future__ import annotations

import json
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from flintlog.compiler import cli
from flintlog.compiler.ir import syntax
from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.processes import compile_any
from flintlog.compiler.review.compare import compare
from flintlog.compiler.review.comparison import ProgramComparison
from flintlog.compiler.review.comparison_text import REPORTS, text_report
from flintlog.compiler.review.matching import alike
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script
from flintlog.targets.pyspark.load import load_program
from flintlog.targets.pyspark.upgrades import expected_upgrade

from golden_tests.frontend.golden import compare as compare_text
from golden_tests.harness import VERSION, load_script
from golden_tests.nightly import by_day, one_in
from golden_tests.oracle.random_programs import FEATURES, random_scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
CASES = sorted((HERE / "diff").iterdir())
PROGRAMS = sorted((HERE.parent / "cases").glob("*/program.dl"))
ENDINGS = {"text": "txt", "markdown": "md", "json": "json"}

REACH = """\
input relation link(@src: int, dst: int)
output relation reachable(@src: int, dst: int)
r1: reachable(@S, D) :- link(@S, D).
r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
"""


def diff(*arguments: str | Path) -> Result:
    """Run the command in this process."""
    result = CliRunner().invoke(cli.main, ["diff", *map(str, arguments)], catch_exceptions=False)
    assert isinstance(result, Result)
    return result


def compiled(text: str) -> Compilation:
    """Compile a program given as text."""
    return compile_program(SourceFile("program.dl", text))


def compared(old: str, new: str) -> ProgramComparison:
    """What differs between two programs given as texts."""
    return compare(compiled(old), compiled(new))


# ---- golden cases ----------------------------------------------------------------------------------------------------


@by_day(6)
@pytest.mark.parametrize("form", ENDINGS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_report(case: Path, form: str, monkeypatch: pytest.MonkeyPatch, update_golden: bool) -> None:
    """The whole report, word for word."""
    monkeypatch.chdir(case)
    result = diff("old.dl", "new.dl", "--format", form)
    assert (result.exit_code, result.stderr) == (0, "")
    compare_text(result.stdout, case / f"expected.{ENDINGS[form]}", update_golden)
    if form == "json":
        assert json.loads(result.stdout)["same"] == (case.name == "nothing_changed")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_way_back(case: Path) -> None:
    """Whatever is added one way is removed the other way."""
    result = diff(case / "new.dl", case / "old.dl", "--exit-code")
    assert result.exit_code == (case.name != "nothing_changed")


# ---- programs nobody wrote -------------------------------------------------------------------------------------------


@by_day(8)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.parent.name)
def test_nothing_differs_from_itself(program: Path) -> None:
    """A program compared with itself."""
    old, new = compile_program(program), compile_program(program)
    found = compare(old, new)
    assert found.same and "\nNothing changes.\n" in text_report(found, "a", "b")


def mixed(program: syntax.SyntaxProgram, change: Callable[[list[str]], list[str]]) -> str:
    """The text of a program, its rules being changed."""
    text, pieces = program.sources[0].text, []
    rules = [s for s in program.statements if isinstance(s, syntax.RuleNode) and s.span.file == program.sources[0].name]
    for rule in rules:
        before, _, text = text.partition(rule.text)
        pieces.append(before)
    return "".join(piece for pair in zip(pieces, change([r.text for r in rules]), strict=True) for piece in pair) + text


def assert_same_meaning(old: Compilation, new: Compilation) -> ProgramComparison:
    """No rule has changed, and if the columns are the same, nor have tuples: the first rule of a relation that is not
    declared names its columns."""
    found = compare(old, new)
    assert all(change.change == "rewritten" for change in found.rules), found.rules
    columns = [{r.name: r.columns for r in c.typed.relations} for c in (old, new)]
    if columns[0] == columns[1]:
        assert found.same_meaning and not found.warnings
        assert all((r.change, r.contents, r.details) == ("stays", "same", ()) for r in found.readers)
    return found


@by_day(6)
@pytest.mark.parametrize("program", one_in(PROGRAMS, 2), ids=[path.parent.name for path in PROGRAMS])
def test_rules_in_another_order(program: Path) -> None:
    """Where a rule stands does not matter."""
    old = compile_program(program)

    def shuffled(rules: list[str]) -> list[str]:
        return random.Random(program.parent.name).sample(rules, len(rules))

    source = SourceFile(program.name, mixed(old.syntax, shuffled))
    included = {file.name: file for file in old.sources}
    found = assert_same_meaning(old, compile_program(source, included.get))
    assert found.rules == ()


def renamed(rule: str) -> str:
    """A rule with other names of variables, which begin with capital letters here."""
    return re.sub(r'"[^"]*"|\b[A-Z]\w*', lambda found: found[0] if found[0][0] == '"' else f"{found[0]}_other", rule)


def declaring_all(text: str) -> str:
    """The program with declarations for all relations, so that variables name no columns."""
    found = compiled(text)
    declared = {s.name for s in found.syntax.statements if isinstance(s, syntax.RelationDeclaration)}
    more = [
        str(relation).replace("output ", "")
        for relation in found.typed.relations
        if not relation.hidden and relation.name not in declared and relation.columns
    ]
    return "\n".join([*(line.partition(" closure of")[0] for line in more), text])


@by_day(5)
@pytest.mark.parametrize("seed", one_in(range(40), 2))
def test_variables_with_other_names(seed: int) -> None:
    """They do not matter either."""
    text = declaring_all(random_scenario(seed, FEATURES).text)
    old = compiled(text)
    new = compiled(mixed(old.syntax, lambda rules: [renamed(rule) for rule in rules]))
    found = assert_same_meaning(old, new)
    assert {way for change in found.rules for way in change.ways} <= {"variables"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("p(X, Y) :- a(X, Y), b(Y).", "p(B, C) :- b(C), a(B, C).", True),
        ("p(X, Y) :- a(X, Y), b(Y).", "p(X, Y) :- a(X, Y), b(X).", False),
        ("p(X, Y) :- a(X, Y), a(Y, X).", "p(X, Y) :- a(Y, X), a(X, Y).", True),
        ("p(X, Y) :- a(X, Z), a(Z, Y).", "p(X, Y) :- a(Z, Y), a(X, Z).", True),
        ("p(X, Y) :- a(X, Z), a(Z, Y).", "p(X, Y) :- a(X, Z), a(Y, Z).", False),
        ("p(X, X) :- a(X, _).", "p(X, X) :- a(X, Unused).", True),
        ("p(X, X) :- a(X, _).", "p(X, Y) :- a(X, Y).", False),
        ("p(X, Y) :- a(X, Y), X < Y.", "p(X, Y) :- Y > X, a(X, Y).", True),
        ("p(X, Y) :- a(X, Y), X < Y.", "p(X, Y) :- a(X, Y), X <= Y.", False),
        ("p(X, Y) :- a(X, Y), X < Y.", "p(X, Y) :- a(X, Y), Y < X.", False),
        ("p(X, Z) :- b(X), Z = X + 1.", "p(X, X + 1) :- b(X).", False),
        ("p(X, Z) :- b(X), Z = X + 1.", "p(B, A) :- A = B + 1, b(B).", True),
        ("p(X, Z) :- b(X), Z = X + 1.", "p(X, Z) :- b(X), Z = 1 + X.", False),
        ("p(X, Y) :- a(X, Y), !b(X).", "p(X, Y) :- !b(X), a(X, Y).", True),
        ("p(X, Y) :- a(X, Y), !b(X).", "p(X, Y) :- a(X, Y), b(X).", False),
        ("p(1, 2).", "p(2, 1).", False),
        ("p(X, Y) :- a(X, Y) ; a(Y, X).", "p(X, Y) :- a(Y, X) ; a(X, Y).", True),
        ("p(X, Y) :- a(X, Y) ; a(Y, X).", "p(X, Y) :- a(X, Y) ; a(X, Y).", False),
        ("p(X, count<*>) :- a(X, _).", "p(A, count<*>) :- a(A, _).", True),
        ("p(X, count<Y>) :- a(X, Y).", "p(X, sum<Y>) :- a(X, Y).", False),
    ],
)
def test_meaning(one: str, other: str, same: bool) -> None:
    """Rules that mean the same, and rules that nearly do."""
    declared = "input relation a(x: int, y: int)\ninput relation b(x: int)\noutput relation p(x: int, y: int)\n"
    for old, new in ((one, other), (other, one)):
        assert compared(declared + old, declared + new).same_meaning == same


def test_types_of_constants() -> None:
    """A constant of another type is another one; one whose column has another type was not changed by its rule."""
    declared = "input relation a(x: int, y: float)\noutput relation p(x: int)\np(X) :- a(X, Y), "
    assert not compared(f"{declared}Y > X * (1 / 2).", f"{declared}Y > X * (1.0 / 2).").same_meaning
    assert not compared(f"{declared}Y > 7 / 2.", f"{declared}Y > 7.0 / 2.").same_meaning
    old, new = (
        f"input relation a(x: {kind})\noutput relation p(x: {kind})\np(X) :- a(X), X > 1.\n"
        for kind in ("int", "decimal(5,2)")
    )
    found = compared(old, new)
    assert found.rules == () and [change.name for change in found.relations] == ["a", "p"]
    assert found.readers[0].causes == ("`p` has different columns", "`a` has different columns")


def test_contents_that_cannot_be_told() -> None:
    """What an input means, functions and paths are looked into too."""
    text = """
    extern function f(x: int): int
    input relation a(x: int, y: int) primary key (x)
    output relation p(x: int)
    output relation q(x: int, y: int)
    output relation r(x: int)
    domain d(X).
    input relation d(x: int)
    p(X) :- a(X, Y), f(Y) > 0.
    q(X, Y) :- a*(X, Y).
    r(X) :- d(X).
    """

    def told(old: str, new: str) -> dict[str, tuple[str, ...]]:
        assert old in text
        return {reader.relation: reader.causes for reader in compared(text, text.replace(old, new)).readers}

    key = ("`a` has a different key",)
    assert told(" primary key (x)", "") == {"p": key, "q": key, "r": ()}
    function = ("function `f` has changed",)
    assert told("f(x: int): int", "f(y: int): int") == {"p": function, "q": (), "r": ()}
    found = told("domain d(X).", "domain a(X, _).")
    assert found["p"] == found["r"] == () and found["q"] != ()
    role = ("`d` is derived, was input",)
    assert told("input relation d", "relation d") == {"p": (), "q": role, "r": role}
    assert not any(told("input relation a", "input derived relation a").values())


def test_all_fields_are_described() -> None:
    """The page names every field of the JSON document."""
    page = (HERE.parents[1] / "docs" / "review.md").read_text(encoding="utf-8")

    def fields(node: Any) -> set[str]:
        if isinstance(node, list):
            return set().union(*map(fields, node))
        return set(node).union(*map(fields, node.values())) if isinstance(node, dict) else set()

    documents = [json.loads((case / "expected.json").read_text(encoding="utf-8")) for case in CASES]
    assert {name for name in fields(documents) if f"`{name}`" not in page} == set()


def test_a_rule_with_many_alike_literals_ends() -> None:
    """Two circles of different lengths are not tried in every way."""

    def circles(*lengths: int) -> str:
        body = [f"a(X{n}_{i}, X{n}_{(i + 1) % n})" for n in lengths for i in range(n)]
        return f"input relation a(x: int, y: int)\noutput relation p(x: int)\np(1) :- {', '.join(body)}.\n"

    assert not compared(circles(9, 5), circles(8, 6)).same_meaning
    (rule,) = compiled(circles(7)).typed.rules
    assert alike(rule, rule)


# ---- which rule became which -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "r1: p(X) :- a(X, _).\nr2: p(X) :- a(_, X).",
            "r1: p(X) :- a(X, _).\nr2: p(X) :- b(X).\nr3: p(X) :- a(_, X).",
            {("added", "", "r2"), ("rewritten", "r2", "r3")},
            id="labels moved on",
        ),
        pytest.param(
            "p(X) :- a(X, _).\np(X) :- a(_, X), X > 1.",
            "p(X) :- b(X).\np(X) :- a(X, _).\np(X) :- a(_, X), X > 2.",
            {("added", "", "p_1"), ("changed", "p_2", "p_3")},
            id="without labels",
        ),
        pytest.param("r1: p(X) :- a(X, _).", "r1: p(X) :- b(X).", {("changed", "r1", "r1")}, id="by label"),
        pytest.param("p(X) :- a(X, _).", "r1: p(X) :- a(X, _).", {("rewritten", "p_1", "r1")}, id="a label is given"),
        pytest.param("p(1).\np(2).", "p(1).\np(3).", {("added", "", "p_2"), ("removed", "p_2", "")}, id="facts"),
        pytest.param("p(X) :- b(X).\np(X) :- b(X).", "p(X) :- b(X).", {("removed", "p_2", "")}, id="twice and once"),
    ],
)
def test_pairs(old: str, new: str, expected: set[tuple[str, str, str]]) -> None:
    """Rules that mean the same, those of one label, those most alike."""
    declared = "input relation a(x: int, y: int)\ninput relation b(x: int)\noutput relation p(x: int)\n"
    found = {
        (change.change, change.old.label if change.old else "", change.new.label if change.new else "")
        for change in compared(declared + old, declared + new).rules
    }
    assert found == expected


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_nothing_is_hidden(form: str) -> None:
    """Characters that turn text round are seen."""
    declared = "input relation a(x: string)\noutput relation p(x: string)\n"
    found = compared(f'{declared}p(X) :- a(X), X != "b".', f'{declared}p(X) :- a(X), X != "\u202eb".')
    said = REPORTS[form](found, "old.dl", "new.dl")
    assert '+ p_1: p(X) :- a(X), X != "\\u202eb".\n' in said and "\u202e" not in said


# ---- what an upgrade does --------------------------------------------------------------------------------------------


def assert_upgrades_agree(old: Compilation, new: Compilation) -> None:
    """The script decides the same, without running."""
    before, after = (load_script(emit_script(c.plan, VERSION, format_code=False)) for c in (old, new))
    strata = {stratum.name for stage in before.PROGRAM.stages for stratum in stage.strata}
    found = expected_upgrade(load_program(old.plan), load_program(new.plan))
    written = after.program_record(before.PROGRAM)
    planned = after.upgrade_plan(after.PROGRAM, written, strata, {}, found.given, None)
    assert tuple(found.recomputes) == planned.recomputed and all(found.recomputes.values())
    assert found.keeps == planned.kept
    assert found.drops == planned.dropped


@by_day(1)
@pytest.mark.parametrize("seed", one_in(range(12), 3))
def test_upgrades_of_programs_nobody_wrote(seed: int) -> None:
    """To the same with its rules in another order, with a rule more, and to another program."""
    rng = random.Random(seed)
    old = compiled(random_scenario(seed, FEATURES).text)

    def one_twice(rules: list[str]) -> list[str]:
        chosen = rng.randrange(len(rules))
        return [f"{rule}\n{rule}" if place == chosen else rule for place, rule in enumerate(rules)]

    for change in (lambda rules: rng.sample(rules, len(rules)), one_twice):
        assert_upgrades_agree(old, compiled(mixed(old.syntax, change)))
    assert_upgrades_agree(old, compiled(random_scenario(seed + 1, FEATURES).text))


FUNCTIONS = "def risk(x):\n    return x / 10\n"

UPGRADES = [case for case in CASES if "process" not in (case / "old.dl").read_text(encoding="utf-8")]


@by_day(4)
@pytest.mark.parametrize("case", UPGRADES, ids=lambda case: case.name)
def test_the_real_upgrade(case: Path, place: SparkSession | None, tmp_path: Path) -> None:
    """A state of the old program becomes one of the new, and the command says what was told before."""
    old, new = (compile_program(case / name) for name in ("old.dl", "new.dl"))
    found = compare(old, new).upgrade
    assert found is not None
    before, after = (load_script(emit_script(c.plan, VERSION, format_code=False)) for c in (old, new))
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    state, functions = str(tmp_path / "state"), str(tmp_path / "functions.py") if found.functions else None

    def rows(module: Any, name: str) -> str:
        """A file with two rows."""
        columns = module.PROGRAM.relation(name).columns
        values = {"int": "12", "string": "ab", "bool": ("true", "false"), "decimal(10,2)": "12"}
        lines = [",".join(c.name for c in columns), *(",".join(values[c.type][i] for c in columns) for i in (0, 1))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
        return str(tmp_path / f"{name}.csv")

    log = before.Log(quiet=True)
    inputs = [r.name for r in before.PROGRAM.relations if r.kind == "input" and not r.hidden]
    before.init(place, state, {name: rows(before, name) for name in inputs}, 2, functions=functions, log=log)
    given = [need.relation for need in found.inputs if need.need == "given"]
    log = after.Log(quiet=True)
    if given:
        with pytest.raises(
            after.JobError, match=f"^the columns of {given[0]} differ from those of its stored rows; pass rows with"
        ):
            after.upgrade(place, state, functions=functions, log=log)
    warned: list[str] = []
    log.warn = warned.append
    supplied = {name: rows(after, name) for name in given}
    result = after.upgrade(place, state, supplied, functions=functions, log=log)
    assert result["applied"] == found.needed
    assert result["recomputed"] == [r.relation for r in found.recomputed]
    assert result["kept"] == [*found.kept]
    assert result["dropped"] == [*found.dropped]
    if found.needed:
        texts = {
            "empty": "{0} is new and starts empty: no --input {0}=PATH was given",
            "dropped": "{0} is no longer an input; its rows are dropped",
        }
        assert warned == [texts[n.need].format(n.relation) for n in found.inputs if n.need in texts]
    assert after.verify(place, state, functions=functions, log=log)["differences"] == []


# ---- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a program of two files, in two revisions, of which the second is committed and tagged."""
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    jobs = tmp_path / "repository" / "jobs"
    (jobs / "parts").mkdir(parents=True)
    git(tmp_path / "repository", "init", "--quiet")
    (jobs / "reach.dl").write_text(f'include "parts/rules.dl"\n{REACH}')
    (jobs / "parts" / "rules.dl").write_text("output relation self(node: int)\ns1: self(X) :- reachable(X, X).\n")
    commit(jobs, "first")
    (jobs / "parts" / "rules.dl").write_text("output relation self(node: int)\ns1: self(X) :- link(X, X).\n")
    commit(jobs, "second")
    git(jobs, "tag", "tagged")
    monkeypatch.chdir(tmp_path / "repository")
    return tmp_path / "repository"


def git(folder: Path, *arguments: str) -> None:
    """Run git."""
    names = ["-c", "user.name=tests", "-c", "user.email=tests@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, message: str) -> None:
    """Commit all that is in a folder."""
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", message)


def test_revisions(repository: Path) -> None:
    """The working tree is compared with HEAD, or another revision; includes come from there too."""
    program = Path("jobs/reach.dl")
    result = diff(program)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "From HEAD:jobs/reach.dl to jobs/reach.dl"
    assert "Nothing changes." in result.stdout
    assert diff(program, "--exit-code").exit_code == 0
    found = diff("--rev", "HEAD~1", program, "--exit-code")
    assert found.exit_code == 1
    assert "- s1: self(X) :- reachable(X, X).\n" in found.stdout and "+ s1: self(X) :- link(X, X).\n" in found.stdout
    assert "changed  `s1` (parts/rules.dl:2)\n" in found.stdout
    program.write_text(program.read_text().replace("reachable(@Z, D)", "reachable(@Z, D), S != D"))
    assert "rule `r2` is changed" in diff("--rev", "tagged", program).stdout
    assert diff(program, "--exit-code").exit_code == 1


def test_refused_revisions(repository: Path) -> None:
    """Diagnostics say which revision they are about, also in included files."""
    part = repository / "jobs" / "parts" / "rules.dl"
    right = part.read_text()
    part.write_text("output relation self(node: int)\ns1: self(Y) :- link(X, X).\n")
    commit(repository, "wrong")
    part.write_text(right)
    result = diff("jobs/reach.dl")
    assert result.exit_code == 1
    assert "  --> HEAD:jobs/parts/rules.dl:2:10\n" in result.stderr


def test_revisions_that_cannot_be_read(repository: Path, tmp_path: Path) -> None:
    """One sentence each, and exit code 2."""
    (repository / "jobs" / "new.dl").write_text(REACH)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "reach.dl").write_text(REACH)
    where = tmp_path / "outside"
    for arguments, message in (
        (["--rev", "nowhere", "jobs/reach.dl"], "cannot read jobs/reach.dl at nowhere: git has no such revision"),
        (["--rev=--all", "jobs/reach.dl"], "cannot read jobs/reach.dl at --all: git has no such revision"),
        (["jobs/new.dl"], "cannot read jobs/new.dl at HEAD: it does not exist there"),
        ([where / "reach.dl"], f"cannot read {where / 'reach.dl'} at HEAD: {where} is not in a git repository"),
        (["nowhere/reach.dl"], "cannot read nowhere/reach.dl: there is no folder nowhere"),
    ):
        result = diff(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert f"error: {message}" in result.stderr.splitlines()


def test_programs_that_cannot_be_compared(tmp_path: Path) -> None:
    """Refused ones are reported as by ``check``; others are missing, or of another sort."""
    good, bad, many = tmp_path / "good.dl", tmp_path / "bad.dl", tmp_path / "many.dl"
    good.write_text(REACH)
    bad.write_text("input relation a(x: int)\noutput p.\np(X, Y) :- a(X).\n")
    many.write_text("process A {\n  input relation x(n: int)\n  output relation A.y(n: int)\n  A.y(N) :- x(N).\n}\n")
    result = diff(good, bad)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"  --> {bad}:3:6" in result.stderr
    assert diff(good, tmp_path / "none.dl").exit_code == 2
    assert diff(good).exit_code == 2
    result = diff(good, many)
    assert result.exit_code == 1
    assert result.stderr == f"error: only {many} has processes; compare it with another program of processes\n"
    assert diff(good, good, "--rev", "HEAD").exit_code == 2
    assert diff(good, good, good).exit_code == 2
    assert diff(many, many).stdout.endswith("Nothing changes.\n")
    assert compile_any(many)
