"""A small edit of a program changes few places of its script: what a reviewer sees are the hunks of a diff."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.review.compare import compare
from flintlog.compiler.source import SourceFile
from flintlog.targets import EmitOptions, target
from flintlog.targets.pyspark.emit import job_templates, program_part

from golden_tests.harness import EXAMPLES, VERSION
from golden_tests.language.test_cases import CASES
from golden_tests.nightly import by_day

PROGRAMS = [*(case / "program.dl" for case in CASES if (case / "script.py").exists()), *EXAMPLES]

PROGRAM = """
input relation e(a: int, b: int)
output relation p(a: int, b: int)
output relation q(a: int, n: int)
p(X, Y) :- e(X, Y), X < 10.
p(X, Z) :- p(X, Y), e(Y, Z), Z != 3.
q(X, count<Y>) :- p(X, Y).
"""


def part(text: str, path: Path | None = None) -> list[str]:
    """The lines of the program part of a standalone script."""

    def load(name: str) -> SourceFile | None:
        assert path is not None
        included = path.parent / name
        return SourceFile(name, included.read_text(encoding="utf-8")) if included.is_file() else None

    compilation = compile_program(SourceFile("program.dl", text), load)
    return program_part(job_templates(), compilation.plan, VERSION, True, explained=False)[0].splitlines()


def database_part(text: str) -> list[str]:
    """The lines of the program part of a script whose state is a database."""
    plan = compile_program(SourceFile("program.dl", text)).plan
    (script,) = target("database").emit(plan, EmitOptions(VERSION)).values()
    return script.partition("\n\n\nimport os\n")[0].splitlines()[2:]


def hunks(before: list[str], after: list[str]) -> list[list[str]]:
    """The hunks of the difference, as ``git diff`` has them, each with its changed lines."""
    found: list[list[str]] = []
    for line in [*difflib.unified_diff(before, after, lineterm="")][2:]:
        if line.startswith("@@"):
            found.append([])
        elif line[0] in "-+":
            found[-1].append(line)
    return found


@by_day(4)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.parent.name)
def test_a_comment(path: Path) -> None:
    """A line above everything changes the hash and the line numbers, which stand together at the end."""
    text = path.read_text(encoding="utf-8")
    before, after = part(text, path), part(f"// A comment.\n{text}", path)
    (hunk,) = hunks(before, after)
    assert all(re.match(r'[-+](SHA256 = |    "(relation|rule) |\}$|// A comment)', line) for line in hunk)


def test_a_constant() -> None:
    """It changes its rule, quoted and in three queries in one place, the hashes and the source; nothing else."""
    found = hunks(part(PROGRAM), part(PROGRAM.replace("X < 10", "X < 11")))
    changed = [line for hunk in found for line in hunk]
    assert len(found) == 3
    assert sum("11" in line for line in changed) == sum("10" in line for line in changed)
    others = [line for line in changed if not re.search(r"\b1[01]\b", line)]
    assert len(others) == 4 and all(re.match(r'[-+](SHA256 = |    "p": )', line) for line in others)


def test_a_rule_at_the_end_of_others() -> None:
    """It adds its section, its record and its line. Of the rest hashes and what lists all rules of ``p`` change."""
    more = PROGRAM.replace("q(X, count", "p(X, Y) :- e(Y, X), X > 100.\nq(X, count")
    found = hunks(part(PROGRAM), part(more))
    assert len(found) <= 4
    assert gone(found) == ["equations", '"p"', "SHA256 ", '"rule q_60f0"']


def test_a_rule_before_others() -> None:
    """It renames none of them. Their labels, which count, stand together at the end; besides there, they are in what
    says of all rules of ``p`` together how they are maintained."""
    more = PROGRAM.replace("p(X, Y) :-", "p(X, Y) :- e(Y, X), X > 100.\np(X, Y) :-", 1)
    found = hunks(part(PROGRAM), part(more))
    assert len(found) <= 5
    rules = ['"rule p_da0b"', '"rule p_a973"']
    assert gone(found) == ["# p", "equations", *rules, '"p"', "SHA256 ", *rules, '"rule q_60f0"']


EDITS = {
    "a comment": ("input relation e", "// A comment.\ninput relation e"),
    "a constant": ("X < 10", "X < 11"),
    "a rule at the end of others": ("q(X, count", "p(X, Y) :- e(Y, X), X > 100.\nq(X, count"),
    "a rule before others": ("p(X, Y) :- e", "p(X, Y) :- e(Y, X), X > 100.\np(X, Y) :- e"),
    "a rule removed": ("p(X, Z) :- p(X, Y), e(Y, Z), Z != 3.\n", ""),
    "a variable renamed": ("q(X, count<Y>) :- p(X, Y)", "q(A, count<Y>) :- p(A, Y)"),
    "a label": ("p(X, Y) :- e", "first: p(X, Y) :- e"),
    "a new relation": ("q(X, count", "output r.\nr(X) :- q(X, 2).\nq(X, count"),
    "another aggregate": ("count<Y>", "max<Y>"),
}


@pytest.mark.parametrize(
    ("edit", "most"),
    [("a comment", 1), ("a constant", 3), ("a rule at the end of others", 5), ("a rule before others", 4)],
)
def test_scripts_with_a_database(edit: str, most: int) -> None:
    """A line above everything changes what stands at the end, and a constant its rule, twice, and that. A rule more is
    also a line of the text that the script was made from."""
    before = database_part(PROGRAM)
    assert len(hunks(before, database_part(PROGRAM.replace(*EDITS[edit], 1)))) <= most
    assert not any(re.search(r"program\.dl:[0-9]", line) for line in before[: before.index("LINES = {")])


@by_day(3)
@pytest.mark.parametrize("edit", EDITS)
def test_the_script_tells_what_flintlog_diff_tells(edit: str) -> None:
    """Sections that change belong to relations of rules or declarations that ``flintlog diff`` names; the hashes of
    relations change, or there are more, where it says that something means another thing, and nowhere that it does not
    name."""
    texts = PROGRAM, PROGRAM.replace(*EDITS[edit], 1)
    comparison = compare(*(compile_program(SourceFile("program.dl", text)) for text in texts))
    before, after = map(sections, map(part, texts))
    rules = {change.rule.relation: change.change for change in comparison.rules}
    named = {*rules, *(change.name for change in comparison.relations)}
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} <= named
    old, new = map(hashes, map(part, texts))
    defined = {relation for relation, change in rules.items() if change != "rewritten"}
    changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    assert defined | {change.name for change in comparison.relations} <= changed <= named
    assert bool(named) == (edit != "a comment")


def sections(script: list[str]) -> dict[str, str]:
    """The sections of strata, by their names."""
    found = re.split(r"^# ---- (\w+) \(.*$", "\n".join(script).partition("# ---- the program")[0], flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def hashes(script: list[str]) -> dict[str, str]:
    """The hashes of the definitions of relations."""
    return dict(re.findall(r'^    "(\w+)": "([0-9a-f]{12})",$', "\n".join(script), flags=re.MULTILINE))


def gone(found: list[list[str]]) -> list[str]:
    """How the lines of a script that hunks remove begin, except for ends of lists."""
    lines = [line[1:].strip() for hunk in found for line in hunk if line[0] == "-"]
    return [re.split("[=:]", line)[0] for line in lines if line != "),"]
