"""``flintlog run``: facts out of files, relations into files of every format, and what is said where that fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from flintlog.compiler import cli
from flintlog.compiler.cli.options import STAGES

from golden_tests.cli.test_commands import REACH, REFUSED, flintlog, written
from golden_tests.nightly import by_day

FORMATS = ("csv", "json", "parquet", "tsv")

COLUMNS = (
    "i: int, f: float, d: decimal(38,10), s: string, b: bool, day: date, at: timestamp, "
    "l: list<int>, n: list<list<string>>, p: list<decimal(4,2)>, m: list<timestamp>"
)
ROW = "I, F, D, S, B, Y, T, L, N, P, M"
TYPES = f"""\
input relation t({COLUMNS})
input relation on
output relation u({COLUMNS})
output relation off
output relation never(x: int)
u({ROW}) :- t({ROW}).
off :- on.
never(X) :- t(X, _, _, _, _, _, _, _, _, _, _), !on.
"""
ROWS = [
    {
        "i": -(2**63),
        "f": 1e-300,
        "d": "-0.0000000001",
        "s": "",
        "b": True,
        "day": "0001-01-01",
        "at": "2026-02-28 23:59:59.000001",
        "l": [1, -1],
        "n": [["a,b", '"'], []],
        "p": ["1.5"],
        "m": [],
    },
    {
        "i": 0,
        "f": -0.5,
        "d": "0",
        "s": ' " ,é😀 null \\ ',
        "b": False,
        "day": "9999-12-31",
        "at": "2026-03-01 00:00:00",
        "l": [],
        "n": [[], ["\t\n", "x"]],
        "p": [],
        "m": ["2026-01-31 12:00:00"],
    },
    {
        "i": 2**63 - 1,
        "f": 1e300,
        "d": "9999999999999999999999999999.5",
        "s": "NULL",
        "b": True,
        "day": "2026-02-28",
        "at": "2026-03-01 10:00:00",
        "l": [2**63 - 1],
        "n": [],
        "p": ["-99.99"],
        "m": [],
    },
]


def lines(rows: list[dict[str, object]]) -> str:
    """Rows as JSON, an object a line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def reach(tmp_path: Path) -> Path:
    """A program."""
    return written(tmp_path / "reach.dl", REACH)


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "facts"
    folder.mkdir()
    return folder


def test_tables(reach: Path, facts: Path) -> None:
    """Without a folder to write to, output relations are printed for the eye, in value order."""
    written(facts / "link.csv", "dst,src\n2,1\n3,2\n10,3\n")
    result = flintlog("run", reach, "--facts", facts)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "reachable (6 rows)\nsrc  dst\n---  ---\n1    2\n1    3\n1    10\n2    3\n2    10\n3    10\n"
    )


def test_without_facts(reach: Path) -> None:
    """Input relations are empty."""
    assert flintlog("run", reach).stdout == "reachable (no rows)\nsrc  dst\n---  ---\n"


@by_day(1)
@pytest.mark.parametrize("form", FORMATS)
def test_what_is_written_is_read(form: str, facts: Path, tmp_path: Path) -> None:
    """The same rows in every format, whatever is in them; a nullary relation too, and one without rows."""
    program = written(tmp_path / "types.dl", TYPES)
    tabs = [{"s": "no\ttab\r\n"}] if form != "tsv" else []
    written(facts / "t.jsonl", lines([*ROWS, *({**ROWS[0], **row} for row in tabs)]))
    written(facts / "on.facts", "()\n")
    shown = flintlog("run", program, "--facts", facts).stdout
    assert "never (no rows)" in shown and "off (1 row)" in shown and f"u ({3 + len(tabs)} rows)" in shown
    for number in range(2):
        out = tmp_path / f"out{number}"
        result = flintlog("run", program, "--facts", facts, "--out", out, "--format", form)
        assert (result.exit_code, result.stdout) == (0, ""), result.stderr
        assert result.stderr == (
            f"wrote {out / 'never'}.{form} (no rows)\nwrote {out / 'off'}.{form} (1 row)\n"
            f"wrote {out / 'u'}.{form} ({3 + len(tabs)} rows)\n"
        )
        assert sorted(path.name for path in out.iterdir()) == [f"{name}.{form}" for name in ("never", "off", "u")]
        facts = tmp_path / f"again{number}"
        facts.mkdir()
        (out / f"u.{form}").rename(facts / f"t.{form}")
        (out / f"off.{form}").rename(facts / f"on.{form}")
        again = flintlog("run", program, "--facts", facts)
        assert (again.stdout, again.stderr) == (shown, "")


def test_json_document(facts: Path, tmp_path: Path) -> None:
    """One object with all output relations, whose values are those that a JSON file would have."""
    program = written(tmp_path / "types.dl", TYPES)
    written(facts / "t.jsonl", lines(ROWS))
    written(facts / "on.facts", "()\n")
    result = flintlog("run", program, "--facts", facts, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    for row in found["u"]:
        assert re.fullmatch(r"-?\d+\.\d{10}", row["d"]) and all(re.fullmatch(r"-?\d+\.\d\d", p) for p in row["p"])
        row |= {"d": row["d"].rstrip("0").rstrip("."), "p": [p.rstrip("0") for p in row["p"]]}
    assert found == {"never": [], "off": [{}], "u": ROWS}
    out = tmp_path / "out"
    assert flintlog("run", program, "--facts", facts, "--format", "json", "--out", out).exit_code == 0
    one_a_line = (out / "u.json").read_text(encoding="utf-8").splitlines()
    assert [line.strip().removesuffix(",") for line in result.stdout.splitlines()][6:9] == one_a_line
    none = written(tmp_path / "none.dl", "input relation e(x: int)\np(X) :- e(X).\n")
    assert flintlog("run", none, "--format", "json").stdout == "{}\n"


def test_rows_on_standard_output(reach: Path, facts: Path) -> None:
    """As CSV or between tabs, of one relation; of several, one has to be chosen."""
    written(facts / "link.csv", "src,dst\n1,2\n2,3\n")
    result = flintlog("run", reach, "--facts", facts, "--format", "csv")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "src,dst\n1,2\n1,3\n2,3\n", "")
    chosen = flintlog("run", reach, "--facts", facts, "--format", "tsv", "--relation", "link")
    assert (chosen.exit_code, chosen.stdout) == (0, "1\t2\n2\t3\n")
    both = ("--relation", "reachable", "--relation", "link")
    assert list(json.loads(flintlog("run", reach, "--format", "json", *both).stdout)) == ["reachable", "link"]
    several = flintlog("run", reach, "--format", "csv", *both)
    assert several.exit_code == 2
    assert (
        "--format csv prints one relation, but reach.dl outputs reachable, link; choose one with --relation, "
        "or write files with --out DIR" in several.stderr
    )
    unknown = flintlog("run", reach, "--relation", "links")
    assert unknown.exit_code == 2
    assert "there is no relation links; the program has link, reachable" in unknown.stderr
    assert flintlog("run", reach, "--out", facts, "--relation", "link").stderr == (
        f"wrote {facts / 'link.csv'} (no rows)\n"
    )


def test_limit(reach: Path, facts: Path, tmp_path: Path) -> None:
    """The first rows, and how many there are more: in the table, or beside what programs read."""
    written(facts / "link.csv", "src,dst\n1,2\n2,3\n")
    result = flintlog("run", reach, "--facts", facts, "--limit", 2)
    assert result.stdout == "reachable (3 rows)\nsrc  dst\n---  ---\n1    2\n1    3\n... 1 more row\n"
    assert "more row" not in flintlog("run", reach, "--facts", facts, "--limit", 3).output
    for form, printed in (("csv", "src,dst\n"), ("json", '{\n  "reachable": []\n}\n')):
        result = flintlog("run", reach, "--facts", facts, "--limit", 0, "--format", form)
        assert (result.stdout, result.stderr) == (printed, "note: reachable has 3 more rows\n")
    assert "cannot be combined with --out" in flintlog("run", reach, "--limit", 1, "--out", tmp_path).stderr
    assert "cannot be combined with" in flintlog("run", reach, "--limit", 1, "-i").stderr


def test_tabs_between_tabs(facts: Path, tmp_path: Path) -> None:
    """What cannot be written is said, and no file is left behind, nor an old one harmed."""
    program = written(tmp_path / "p.dl", "input relation t(s: string)\noutput p.\np(S) :- t(S).\n")
    written(facts / "t.json", '{"s": "a\\tb"}\n')
    old = tmp_path / "p.tsv"
    written(old, "old\n")
    result = flintlog("run", program, "--facts", facts, "--out", tmp_path, "--format", "tsv")
    assert result.exit_code == 1
    assert result.stderr == 'error: "a\\tb" cannot be written in a tab-separated file; choose another format\n'
    assert old.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["facts", "p.dl", "p.tsv"]


def test_parquet_of_others(facts: Path, tmp_path: Path) -> None:
    """Columns in any order and of like types; moments with a time zone are taken in UTC."""
    program = written(
        tmp_path / "p.dl",
        "input relation t(i: int, at: timestamp, l: list<decimal(4,2)>)\noutput p.\np(I, A, L) :- t(I, A, L).\n",
    )
    duckdb.sql(
        f"COPY (SELECT [CAST(1.5 AS DECIMAL(3,1))] AS l, TIMESTAMPTZ '2026-03-01 12:00:00+02' AS at, 7::TINYINT AS i) "
        f"TO '{facts}/t.parquet'"
    )
    assert flintlog("run", program, "--facts", facts).stdout.endswith('7  2026-03-01 10:00:00  ["1.50"]\n')
    duckdb.sql(f"COPY (SELECT 1 AS i, [1.5::DOUBLE] AS l, [TIMESTAMPTZ '2026-03-01'] AS at) TO '{facts}/t.parquet'")
    result = flintlog("run", program, "--facts", facts)
    assert result.stderr == (
        "error: refused, nothing has changed:\n"
        f"  {facts}/t.parquet: column at has the type list<timestamp> and should be timestamp\n"
        f"  {facts}/t.parquet: column l has the type list<float> and should be list<decimal(4,2)>\n"
    )


def test_parquet_of_arrow(facts: Path, tmp_path: Path) -> None:
    """Wide decimals, nanoseconds with a time zone and lists of these are read as in a job."""
    program = written(
        tmp_path / "p.dl",
        "input relation t(d: decimal(38,2), at: timestamp, l: list<timestamp>)\noutput p.\np(D, A, L) :- t(D, A, L).\n",
    )
    at = pa.array([1_767_225_600_123_456_789], pa.timestamp("ns", "America/New_York"))
    columns = {
        "d": pa.array([Decimal("12.30")], pa.decimal256(50, 4)),
        "at": at,
        "l": pa.ListArray.from_arrays([0, 1], at),
    }
    pq.write_table(pa.table(columns), facts / "t.parquet")
    result = flintlog("run", program, "--facts", facts)
    assert result.stdout.endswith('12.30  2026-01-01 00:00:00.123456  ["2026-01-01 00:00:00.123456"]\n'), result.output
    columns["d"] = pa.array([Decimal("12.305")], pa.decimal256(50, 4))
    pq.write_table(pa.table(columns), facts / "t.parquet")
    message = f"{facts / 't.parquet'}, row 1, column d: 12.3050 has too many digits for decimal(38,2)"
    assert message in flintlog("run", program, "--facts", facts).stderr


def test_files_missing(facts: Path, tmp_path: Path) -> None:
    """Missing files are empty relations, which is said. Names with a dot or ``_`` in front are no matter."""
    program = written(
        tmp_path / "p.dl", "input relation a(x: int)\ninput relation b(x: int)\noutput p.\np(X) :- a(X), !b(X).\n"
    )
    written(facts / "a.csv", "x\n1\n")
    written(facts / "_SUCCESS", "")
    written(facts / ".b.csv", "x\n1\n")
    result = flintlog("run", program, "--facts", facts)
    assert (result.exit_code, result.stdout) == (0, "p (1 row)\nX\n-\n1\n")
    assert result.stderr == f"note: {facts} has no file for b, which is therefore empty\n"


def test_files_left_over(facts: Path, tmp_path: Path) -> None:
    """A file that is there and would not be read is an error, as in a job."""
    program = written(
        tmp_path / "p.dl", "input relation a(x: int)\ninput relation b(x: int)\noutput p.\np(X) :- a(X), !b(X).\n"
    )
    written(facts / "A.csv", "x\n2\n")
    written(facts / "a.txt.gz", "")
    (facts / "d").mkdir()
    written(facts / "d" / "b.csv", "x\n1\n")
    os.mkfifo(facts / "b.csv")
    written(facts / "p.json", '{"X": 3}\n')
    result = flintlog("run", program, "--facts", facts)
    assert (result.exit_code, result.stdout) == (1, "")
    known = "those of p.dl: a, b"
    assert result.stderr.splitlines()[-6:] == [
        "error: refused, nothing has changed:",
        f"  {facts / 'A.csv'}: there is no input relation A; {known}",
        f"  {facts / 'a.txt.gz'} does not have the suffix of a known format (.csv, .json, .jsonl, .ndjson, .parquet, "
        ".facts, .tsv)",
        f"  {facts / 'b.csv'} is not a file; give each relation a file",
        f"  {facts / 'd'} is a folder; give each relation a file",
        f"  {facts / 'p.json'}: there is no input relation p; {known}",
    ]


def test_facts_that_look_like_changes(reach: Path, facts: Path) -> None:
    """Facts have no operations, so a column of them under another name than ``op`` is not passed over."""
    path = written(facts / "link.csv", "src,dst,Op\n1,2,+\n2,3,-\n")
    result = flintlog("run", reach, "--facts", facts)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"note: {path}: column Op is not used\n"
        "error: refused, nothing has changed:\n"
        f'  {path}: column "Op" looks like operations, but initial rows are all insertions\n'
        "  remove such a column, or pass --all-inserts if it does not hold operations\n"
    )
    result = flintlog("run", reach, "--facts", facts, "--all-inserts")
    assert result.exit_code == 0 and result.stdout.startswith("reachable (3 rows)")
    assert result.stderr == f"note: {path}: column Op is not used\n"


@pytest.mark.parametrize(
    ("kind", "value", "column", "shown"),
    [
        ("date", "'infinity'::DATE", "d", "5881580-07-11 is not in the years 1 to 9999 in UTC"),
        ("date", "DATE '12000-01-01'", "d", "12000-01-01 is not in the years 1 to 9999 in UTC"),
        ("date", "DATE '0044-03-15 (BC)'", "d", "-0043-03-15 is not in the years 1 to 9999 in UTC"),
        (
            "timestamp",
            "'-infinity'::TIMESTAMP",
            "d",
            "-290308-12-21 19:59:05.224193 is not in the years 1 to 9999 in UTC",
        ),
        (
            "timestamp",
            "'infinity'::TIMESTAMPTZ",
            "d",
            "294247-01-10 04:00:54.775807 is not in the years 1 to 9999 in UTC",
        ),
        (
            "timestamp",
            "TIMESTAMPTZ '10000-01-01 00:00:00+00'",
            "d",
            "10000-01-01 00:00:00 is not in the years 1 to 9999 in UTC",
        ),
        (
            "list<date>",
            "[DATE '2024-01-01', 'infinity'::DATE]",
            "d",
            "element 2: 5881580-07-11 is not in the years 1 to 9999 in UTC",
        ),
    ],
)
def test_moments_that_python_does_not_have(
    kind: str, value: str, column: str, shown: str, facts: Path, tmp_path: Path
) -> None:
    """They are refused with their row, not read as the last ones that it has."""
    program = written(tmp_path / "p.dl", f"input relation t({column}: {kind})\noutput p.\np(D) :- t(D).\n")
    duckdb.sql(f"COPY (SELECT {value} AS {column}) TO '{facts}/t.parquet'")
    result = flintlog("run", program, "--facts", facts)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: refused, nothing has changed:\n  {facts}/t.parquet, row 1, column {column}: {shown}\n"
    )


def test_the_last_moments_that_are_read(facts: Path, tmp_path: Path) -> None:
    """To the microsecond; of nanoseconds the rest is cut; in text, zones must not lead out of the years."""
    program = written(
        tmp_path / "p.dl",
        "input relation t(a: date, b: timestamp, c: timestamp)\noutput p.\np(A, B, C) :- t(A, B, C).\n",
    )
    duckdb.sql(
        "COPY (SELECT DATE '9999-12-31' AS a, TIMESTAMP '9999-12-31 23:59:59.999999' AS b, "
        f"make_timestamp_ns(1704067200123456789) AS c) TO '{facts}/t.parquet'"
    )
    result = flintlog("run", program, "--facts", facts)
    assert result.stdout.endswith("9999-12-31  9999-12-31 23:59:59.999999  2024-01-01 00:00:00.123456\n"), result
    (facts / "t.parquet").unlink()
    path = written(facts / "t.csv", "a,b,c\n2024-01-01,9999-12-31 23:59:59-12:00,0001-01-01T00:00:00+14:00\n")
    assert flintlog("run", program, "--facts", facts).stderr == (
        "error: refused, nothing has changed:\n"
        f'  {path}, row 1, column b: "9999-12-31 23:59:59-12:00" is not in the years 1 to 9999 in UTC\n'
        f'  {path}, row 1, column c: "0001-01-01T00:00:00+14:00" is not in the years 1 to 9999 in UTC\n'
    )


def test_two_files_for_a_relation(reach: Path, facts: Path) -> None:
    """It is not guessed which is meant."""
    written(facts / "link.csv", "src,dst\n1,2\n")
    written(facts / "link.json", "")
    result = flintlog("run", reach, "--facts", facts)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: refused, nothing has changed:\n  link has several files: {facts / 'link.csv'}, {facts / 'link.json'}\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("link.csv", "src,dst\n1,2\n1,x\n", 'row 2, column dst: "x" is not an int'),
        ("link.csv", "src,dst\n1,\n", "row 1, column dst: null"),
        ("link.csv", "src,dst\n1,2,3\n", "row 1: 3 fields"),
        ("link.csv", "src\n1\n", ": column dst is missing"),
        ("link.csv", "", ", header: there is none"),
        ("link.csv", "src,dst\n9223372036854775808,1\n", "row 1, column src: 9223372036854775808 does not fit 64 bits"),
        ("link.json", '{"src": 1, "dst": 2}\n{"src": 1}\n', "row 2, column dst: missing"),
        ("link.json", '{"src": 1, "dst": "2"}\n', 'row 1, column dst: "2" is text in quotes'),
        ("link.json", '{"src": 1,\n', "row 1: broken JSON"),
        ("link.jsonl", "[1, 2]\n", "row 1: not a JSON object"),
        ("link.tsv", "1\t2\n1 2\n", "row 2: 1 fields instead of 2"),
        ("link.facts", "1\t2.5\n", 'row 1, column dst: "2.5" is not an int'),
        ("link.parquet", "1,2\n", " is not a Parquet file"),
    ],
)
def test_bad_rows(name: str, text: str, message: str, reach: Path, facts: Path, tmp_path: Path) -> None:
    """File, row and column are named, and nothing is written."""
    path = written(facts / name, text)
    result = flintlog("run", reach, "--facts", facts, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (1, "")
    first, second, *_ = result.stderr.splitlines()
    assert first == "error: refused, nothing has changed:"
    assert second.startswith(f"  {path}") and message in second
    assert not (tmp_path / "out").exists()


def test_files_that_are_not_utf_8(reach: Path, facts: Path) -> None:
    """This is said of the file."""
    (facts / "link.csv").write_bytes(b"src,dst\n\xff,2\n")
    assert f"  {facts / 'link.csv'} is not UTF-8" in flintlog("run", reach, "--facts", facts).stderr


def test_two_rows_of_a_key(facts: Path, tmp_path: Path) -> None:
    """Both are named; the same row twice is one."""
    program = written(
        tmp_path / "p.dl",
        "input relation t(k: list<int>, v: int, w: int) primary key (w, k)\noutput p.\np(V) :- t(_, V, _).\n",
    )
    written(facts / "t.tsv", "[1]\t5\t0\n[1]\t5\t1\n[1]\t5\t0\n[1, 2]\t5\t0\n")
    assert flintlog("run", program, "--facts", facts).stdout == "p (1 row)\nV\n-\n5\n"
    written(facts / "t.tsv", "[1]\t5\t0\n[2]\t5\t0\n[1]\t6\t0\n")
    assert flintlog("run", program, "--facts", facts).stderr == (
        "error: refused, nothing has changed:\n"
        f"  {facts / 't.tsv'}, row 3: row 1 has the primary key k = [1], w = 0 too\n"
    )


def test_arithmetic_that_has_no_value(facts: Path, tmp_path: Path) -> None:
    """The rule and the tuple are named; there is no state to speak of."""
    program = written(tmp_path / "p.dl", "input relation t(x: int)\noutput p.\nhalf: p(X, 6 / X) :- t(X).\n")
    written(facts / "t.csv", "x\n0\n3\n")
    result = flintlog("run", program, "--facts", facts)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: arithmetic overflow or division by zero in half (p.dl:3), for a tuple of p with X = 0\n"
    )


def test_recursion_without_end(tmp_path: Path) -> None:
    """It stops after the given number of rounds."""
    program = written(tmp_path / "p.dl", "output n.\nn(1).\nn(X + 1) :- n(X).\n")
    result = flintlog("run", program, "--max-rounds", "5")
    assert result.exit_code == 1
    assert "error: n: not finished after 5 rounds" in result.stderr


def test_external_functions(facts: Path, tmp_path: Path) -> None:
    """They come out of a Python file; why a call fails is said."""
    program = written(
        tmp_path / "p.dl",
        "extern function half(x: int): int\ninput relation t(x: int)\noutput p.\np(half(X)) :- t(X).\n",
    )
    functions = written(tmp_path / "functions.py", "def half(x):\n    return 6 // x\n")
    written(facts / "t.csv", "x\n2\n")
    assert flintlog("run", program, "--facts", facts, "--functions", functions).stdout.endswith("\n3\n")
    assert flintlog("run", program).stderr == (
        "error: p.dl needs Python functions; pass their file with --functions FILE: half(int): int\n"
    )
    written(facts / "t.csv", "x\n0\n")
    result = flintlog("run", program, "--facts", facts, "--functions", functions)
    assert "\n  half(0): ZeroDivisionError: " in result.stderr
    assert flintlog("run", program, "--functions", tmp_path / "none.py").exit_code == 2


def test_what_cannot_be_read_or_written(reach: Path, facts: Path, tmp_path: Path) -> None:
    """The file or folder is named; the exit code is 2."""
    written(facts / "link.csv", "src,dst\n1,2\n")
    file = written(tmp_path / "file", "")
    for arguments, message in (
        ((tmp_path / "none.dl",), f"cannot read {tmp_path / 'none.dl'}: no such file or directory"),
        ((reach, "--facts", tmp_path / "none"), f"cannot read {tmp_path / 'none'}: no such file or directory"),
        ((reach, "--facts", file), f"cannot read {file}: not a directory"),
        ((reach, "--facts", facts, "--out", file), f"cannot write {file / 'reachable.csv'}: file exists"),
    ):
        result = flintlog("run", *arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"error: {message}\n"


def test_programs_and_commands_that_are_refused(tmp_path: Path, facts: Path) -> None:
    """Nothing is run."""
    assert "give their folder with --out DIR" in flintlog("run", "p.dl", "--format", "parquet").stderr
    program = written(tmp_path / "refused.dl", REFUSED)
    result = flintlog("run", program, "--facts", facts, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith("2 errors, no warnings\n")
    assert not (tmp_path / "out").exists()


HOSTILE = 'a\x1b]0;title\x07\u202eevil\u200b\u3164\u115f\n\t\x9b31m\x7f"end'
HOSTILE_SHOWN = "\\u001b]0;title\\u0007\\u202eevil\\u200b\\u3164\\u115f\\n\\t\\u009b31m\\u007f"


def test_what_a_terminal_would_obey(tmp_path: Path) -> None:
    """Tables, explanations and messages escape what controls a terminal; files and CSV keep it."""
    program = written(tmp_path / "p.dl", "input relation e(s: string)\noutput relation o(s: string)\no(S) :- e(S).\n")
    written(tmp_path / "facts" / "e.json", json.dumps({"s": HOSTILE}) + "\n")
    table = flintlog("run", program, "--facts", tmp_path / "facts").stdout
    assert HOSTILE_SHOWN in table
    assert flintlog("run", program, "--facts", tmp_path / "facts", "--out", tmp_path / "out").exit_code == 0
    assert HOSTILE.replace('"', '""') in (tmp_path / "out" / "o.csv").read_bytes().decode()
    asked = CliRunner().invoke(
        cli.main,
        ["run", str(program), "-i", "--facts", str(tmp_path / "facts")],
        input=f'o\nwhy o("{HOSTILE_SHOWN[:6]}")\nnothing\u202e\x1b\n',
    )
    refused = written(tmp_path / "bad" / "e.csv", "s,x\u202e\n1,2\n")
    noted = flintlog("run", program, "--facts", refused.parent)
    shown = written(tmp_path / "shown.dl", 'o("\u202e \x9b") :- none("\u200b").\n')
    checked = flintlog("check", shown)
    sound = written(tmp_path / "sound.dl", 'input relation e(s: string)\no(S) :- e(S), S != "\u202e \x9b".\n')
    dumped = [flintlog("compile", sound, "--dump", stage).stdout for stage in STAGES]
    certified = flintlog("certify", sound).stdout
    assert sum("\\u202e" in text for text in dumped) > 4, dumped
    printed = (table, asked.output, noted.stderr, noted.stdout, checked.stderr, flintlog("explain", program).stdout)
    for text in (*printed, *dumped, certified):
        assert all(c.isprintable() or c in "\n\t" for c in text), text
    assert HOSTILE_SHOWN in asked.output and "nothing\\u202e\\u001b" in asked.output


def test_zero_has_no_sign(tmp_path: Path) -> None:
    """-0.0 equals 0.0 and prints like it, however it is computed."""
    rules = ("X * -1.0", "-X", "X / -2.0", "-(X * 2.0)", "(X - 5.0) % 5.0", "abs(-X)", "round(-X)", "-0.0")
    heads = "".join(f"o({number}, {rule}) :- e(X).\n" for number, rule in enumerate(rules))
    text = f"input relation e(x: float)\noutput relation o(k: int, x: float)\n{heads}"
    program = written(tmp_path / "p.dl", text)
    written(tmp_path / "facts" / "e.csv", "x\n0.0\n")
    done = flintlog("run", program, "--facts", tmp_path / "facts")
    assert done.stdout.splitlines()[3:] == [f"{number}  0.0" for number in range(len(rules))]


def test_a_value_that_does_not_fit(tmp_path: Path) -> None:
    """What is too large for its column is no overflow of arithmetic."""
    text = "input relation d(y: decimal(4,2))\noutput relation g(x: decimal(4,2))\ng(X) :- d(Y), X = Y + 99999.0.\n"
    program = written(tmp_path / "p.dl", text)
    written(tmp_path / "facts" / "d.csv", "y\n12.34\n")
    done = flintlog("run", program, "--facts", tmp_path / "facts")
    assert done.exit_code == 1
    assert "error: a value that does not fit its type decimal(4,2), in x, in g_1 (p.dl:3)" in done.stderr
    quotient = "input relation d(y: float)\noutput relation g(x: float)\ng(X) :- d(Y), X = 1.0 / Y.\n"
    written(program, quotient)
    written(tmp_path / "facts" / "d.csv", "y\n0\n")
    done = flintlog("run", program, "--facts", tmp_path / "facts")
    assert "error: arithmetic overflow or division by zero in g_1" in done.stderr


@pytest.mark.parametrize("option", ["--facts", "--out"])
def test_folders_are_no_uris(option: str, tmp_path: Path) -> None:
    """Nothing is made of one, and its keys are not shown."""
    program = written(tmp_path / "p.dl", REACH)
    result = flintlog("run", program, option, "s3://AKIAKEY:SECRETSECRET@bucket/x")
    assert result.exit_code == 2 and f"{option} takes a folder on this machine, not a URI" in result.stderr
    assert "SECRET" not in result.output and not Path("s3:").exists()


def test_a_program_without_outputs(tmp_path: Path) -> None:
    """A note says why nothing is printed."""
    program = written(tmp_path / "p.dl", "p(1).\nq(X) :- p(X).\n")
    done = flintlog("run", program)
    assert (done.exit_code, done.stdout) == (0, "")
    message = "p.dl outputs no relation; publish one with `output NAME.`, or choose one with --relation"
    assert done.stderr == f"note: {message}\n"
    assert flintlog("run", program, "--relation", "q", "--format", "csv").stdout == "X\n1\n"


def test_files_that_a_program_names(tmp_path: Path) -> None:
    """A program of Soufflé says where rows are and how they are written; what is written is read again."""
    program = tmp_path / "files.souffle"
    program.write_text(
        """.decl a(x: number, s: symbol)
.input a(IO=file, filename="lists/a.csv", delimiter=",", headers=true)
.comp C { .decl r(x: symbol) .input r }
.init c = C
.decl b(x: number, s: symbol)
.output b(filename="lists/b.txt", delimiter=";", headers=true)
.output c.r
b(x, s) :- a(x, s), c.r(s).
""",
        encoding="utf-8",
    )
    facts = tmp_path / "given"
    (facts / "lists").mkdir(parents=True)
    (facts / "lists" / "a.csv").write_text('n,s\n1,p "q\n2,\n3,z\n', encoding="utf-8")
    (facts / "c.r.facts").write_text('p "q\n\n', encoding="utf-8")
    done = flintlog("run", program, "--facts", facts, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out" / "lists" / "b.txt").read_text(encoding="utf-8") == 'x;s\n1;p "q\n2;\n'
    assert (tmp_path / "out" / "c.r.csv").read_text(encoding="utf-8") == '\np "q\n'
    as_json = flintlog("run", program, "--facts", facts, "--out", tmp_path / "json", "--format", "json")
    assert as_json.exit_code == 0 and (tmp_path / "json" / "b.json").is_file()
    (facts / "lists" / "a.csv").write_text("n,s\n1,a,b\n", encoding="utf-8")
    (facts / "other.facts").write_text("", encoding="utf-8")
    wrong = flintlog("run", program, "--facts", facts)
    assert wrong.exit_code == 1 and "a.csv, row 1: 3 fields instead of 2" in wrong.stderr
    # As in Soufflé, files that no directive names do not matter.
    assert "other" not in wrong.stderr
    (facts / "lists" / "a.csv").write_text("n,s\n1,a;b\n", encoding="utf-8")
    (facts / "c.r.facts").write_text("a;b\n", encoding="utf-8")
    unwritten = flintlog("run", program, "--facts", facts, "--out", tmp_path / "again")
    assert unwritten.exit_code == 1 and 'cannot be written in a file with ";" between fields' in unwritten.stderr


SOUFFLE = """.decl edge(x: symbol, y: symbol)
.input edge
.decl named(x: number, y: symbol)
.input named(IO=file, filename="sub/named.txt", delimiter=";", headers=true)
.comp C { .decl one(x: symbol) .input one }
.init c = C
.decl tagged(x: number) input
.decl path(x: symbol, y: symbol) output
path(x, y) :- edge(x, y).
path(x, y) :- named(_, x), c.one(y).
path(to_string(x), "tagged") :- tagged(x).
"""


@by_day(1)
@pytest.mark.parametrize("runtime", ["standalone", "installed"])
def test_files_of_a_souffle_job(runtime: str, tmp_path: Path) -> None:
    """A job reads the files that ``flintlog run`` reads, in the same way, and ignores what no directive names."""
    program = written(tmp_path / "prog.souffle", SOUFFLE)
    facts = tmp_path / "facts"
    (facts / "sub").mkdir(parents=True)
    written(facts / "edge.facts", 'a\tb\n"q"\t\n')
    written(facts / "edge.csv", "x,y\nwrong,wrong\n")
    written(facts / "relations.schema", "no relation\n")
    written(facts / "sub" / "named.txt", "a header;x\n1;n\n")
    written(facts / "c.one.facts", "v\n\n")
    written(facts / "tagged.csv", "x\n7\n")
    expected = 'x,y\n7,tagged\na,b\nn,""\nn,v\n"""q""",""\n'
    ran = flintlog("run", program, "--facts", facts, "--format", "csv")
    assert sorted(ran.stdout.splitlines()) == sorted(expected.splitlines()), ran.stderr
    assert flintlog("compile", program, "--runtime", runtime, "-o", tmp_path).exit_code == 0
    state = ["--state", tmp_path / "state"]
    for command in (["init", *state, "--input", facts, "--quiet"], ["show", "path", *state, "--format", "csv"]):
        done = subprocess.run(
            [sys.executable, str(tmp_path / "prog.py"), *map(str, command)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(expected.splitlines())


def test_memory_limit(tmp_path: Path) -> None:
    """A program that needs more memory than it may use is refused: which limit that was, and what was computed."""
    rows = "".join(f"{number},{number + 1}\n" for number in range(600))
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "e.csv").write_text(f"x,y\n{rows}", encoding="utf-8")
    text = (
        "input relation e(x: int, y: int)\noutput few. few(X) :- e(X, _), X < 3.\n"
        "output pair. pair(X, Y) :- e(X, _), e(Y, _). pair(X, Z) :- pair(X, Y), e(Y, Z)."
    )
    program = written(tmp_path / "pairs.dl", text)
    given = ["run", program, "--facts", tmp_path / "facts", "--relation", "few", "--format", "csv"]
    refused = flintlog(*given, "--memory-limit", "20MB")
    assert refused.exit_code == 1 and refused.stdout == ""
    said = "error: --memory-limit 20MB is too little to compute pair (stratum pair): DuckDB ran out of memory"
    assert said in refused.stderr and "Traceback" not in refused.stderr
    assert flintlog(*given, "--memory-limit", "1 GiB").stdout == "X\n0\n1\n2\n"
    wrong = flintlog(*given, "--memory-limit", "lots")
    assert wrong.exit_code == 2 and '"lots" is not an amount of memory; write one such as 2GB' in wrong.stderr
