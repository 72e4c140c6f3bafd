"""A generated script as its users run it: every command, in Spark, from files to published changes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from golden_tests.harness import compile_text, load_script
from golden_tests.oracle import evaluate, language

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
// Who may read what: groups nest, an owner of a document is the last one named, some people are suspended.
input relation member(who: string, @team: string)
input relation owner(document: string, team: string, since: int) primary key (document)
input relation suspended(who: string, why: string)
output relation inside(who: string, @team: string)
output relation may_read(who: string, document: string)
output relation readers(document: string, people: int, first: string)

r1: inside(X, @G) :- member(X, @G).
r2: inside(X, @G) :- inside(X, @H), member(H, @G).
r3: may_read(X, D) :- owner(D, G, _), inside(X, @G), !suspended(X, _).
r4: readers(D, count<*>, min<X>) :- may_read(X, D).
"""

MEMBER = {("ann", "core"), ("bob", "core"), ("core", "staff"), ("eve", "guests"), ("staff", "all"), ("all", "staff")}
OWNER = {("plan", "staff", 1), ("menu", "all", 1)}

Command = Callable[..., Any]


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command of the compiled program on a state in ``tmp_path``; returns its exit code, output and errors."""
    module = load_script(compile_text(PROGRAM, "access.dl")[1])

    def run(name: str, *arguments: str) -> tuple[int, str, str]:
        code = module.main([name, *arguments, "--state", str(tmp_path / "state")])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def write(path: Path, header: str, rows: set[tuple[Any, ...]]) -> str:
    """A CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [header, *(",".join(map(str, row)) for row in sorted(rows))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def tuples(job: Command, relation: str) -> set[tuple[Any, ...]]:
    """A relation as ``show`` gives it."""
    code, out, err = job("show", relation, "--format", "json")
    assert code == 0, err
    return {tuple(json.loads(line).values()) for line in out.splitlines()}


def check(job: Command, inputs: dict[str, set[tuple[Any, ...]]]) -> None:
    """The published relations are what the oracle computes, and the job's own verification agrees."""
    expected = evaluate.evaluate(language.parse(PROGRAM), inputs)
    for relation in ("inside", "may_read", "readers"):
        assert tuples(job, relation) == expected[relation], relation
    code, out, err = job("verify")
    assert code == 0, out + err


def test_a_state_is_built_changed_and_verified(job: Command, tmp_path: Path) -> None:
    """Build, apply an ordered batch with upserts, apply it again, refuse a bad one, rebuild."""
    inputs = {"member": MEMBER, "owner": OWNER, "suspended": {("eve", "quiz")}}
    build = tmp_path / "build"
    for name, header in (("member", "who,team"), ("owner", "document,team,since"), ("suspended", "who,why")):
        write(build / f"{name}.csv", header, inputs[name])
    code, out, err = job("init", "--input", str(build))
    assert code == 0, err
    check(job, inputs)

    monday = tmp_path / "monday"
    write(monday / "member.csv", "op,who,team,at", {("-", "core", "staff", 1), ("+", "guests", "all", 1)})
    changes = {("+", "plan", "core", 2, 1), ("+", "plan", "guests", 3, 2), ("-", "menu", "all", 1, 3)}
    write(monday / "owner.csv", "op,document,team,since,at", changes)
    write(monday / "suspended.csv", "op,who,why,at", {("-", "eve", "quiz", 1), ("+", "bob", "leave", 2)})
    arguments = ("--changes", str(monday), "--batch", "monday", "--order-column", "at")
    code, out, err = job("apply", *arguments)
    assert code == 0, err
    inputs = {
        "member": (MEMBER - {("core", "staff")}) | {("guests", "all")},
        "owner": {("plan", "guests", 3)},
        "suspended": {("bob", "leave")},
    }
    check(job, inputs)
    published = tmp_path / "state" / "published" / "may_read" / "changes" / "batch=monday"
    net = {(row["op"], row["who"], row["document"]) for row in pq.read_table(published).to_pylist()}
    # core has left staff, which the team of the plan no longer is; nobody owns the menu
    assert net == {
        *(("-", who, "plan") for who in ("ann", "bob", "core", "all", "staff")),
        *(("-", who, "menu") for who in ("ann", "bob", "core", "all", "staff")),
        ("+", "eve", "plan"),
    }

    code, out, _ = job("apply", *arguments)
    assert code == 0
    assert "monday was applied before" in out
    check(job, inputs)

    bad = write(tmp_path / "bad" / "owner.csv", "op,document,team,since,at", {("+", "plan", "core", "soon", 4)})
    code, out, err = job("apply", "--changes", bad, "--batch", "tuesday", "--order-column", "at")
    assert code == 1
    assert "row 1" in err
    assert "since" in err
    check(job, inputs)

    code, out, err = job("rebuild")
    assert code == 0, err
    check(job, inputs)


def test_a_key_that_ends_removed_is_removed(job: Command, tmp_path: Path) -> None:
    """An ordered batch that replaces a row and then deletes the replacement leaves nothing of either."""
    owner = write(tmp_path / "owner.csv", "document,team,since", {("plan", "core", 1), ("menu", "core", 1)})
    member = write(tmp_path / "member.csv", "who,team", {("ann", "core")})
    code, _, err = job("init", "--input", f"owner={owner}", "--input", f"member={member}")
    assert code == 0, err
    changes = {("+", "plan", "core", 2, 1), ("-", "plan", "core", 2, 2)}
    path = write(tmp_path / "changes" / "owner.csv", "op,document,team,since,at", changes)
    code, _, err = job("apply", "--changes", path, "--order-column", "at")
    assert code == 0, err
    check(job, {"member": {("ann", "core")}, "owner": {("menu", "core", 1)}, "suspended": set()})


def test_the_functions_of_an_imported_script_take_a_session(spark: SparkSession, tmp_path: Path) -> None:
    """Notebooks and schedulers import the script; its functions reach the executors all the same."""
    script = tmp_path / f"job_{uuid.uuid4().hex[:8]}.py"
    script.write_text(compile_text(PROGRAM, "access.dl")[1], encoding="utf-8")
    module = load_script(script.read_text(encoding="utf-8"))
    state = str(tmp_path / "state")
    members = spark.createDataFrame(sorted(MEMBER), "who string, team string")
    module.init(spark, state, {"member": members}, buckets=3)
    changed = spark.createDataFrame([("-", "core", "staff")], "op string, who string, team string")
    result = module.apply(spark, state, {"member": changed}, batch="one")
    assert result["batch"] == "one"
    inside = {tuple(row) for row in module.relation(spark, state, "inside").collect()}
    expected = evaluate.evaluate(
        language.parse(PROGRAM), {"member": MEMBER - {("core", "staff")}, "owner": set(), "suspended": set()}
    )
    assert inside == expected["inside"]
    assert module.verify(spark, state)["differences"] == []
