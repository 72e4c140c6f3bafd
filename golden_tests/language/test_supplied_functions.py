"""Jobs with lists and functions as their users run them: files of every format, what is shown and published, and
functions from a file or a mapping."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from golden_tests.harness import compile_text, frozen, load_script
from golden_tests.nightly import AT_NIGHT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LISTS = """
input relation trip(id: int, stops: list<string>, prices: list<decimal(6,2)>, legs: list<list<int>>) primary key (stops)
input relation seen(at: list<timestamp>)
output relation longest(stops: list<string>, legs: list<list<int>>)
longest(S, L) :- trip(_, S, _, L), f_size(S) > 1.
"""
TRIPS = [
    (1, ("a", "b, c"), (Decimal("1.50"), Decimal("2.00")), ((1, 2), ())),
    (2, (), (), ()),
    (3, ('say "x"', "né\u20ac🙂"), (Decimal("-0.01"),), ((-(2**63),),)),
]
CSV = '''id,stops,prices,legs
1,"[""a"", ""b, c""]","[1.5, ""2""]","[[1, 2], []]"
2,[],[],[]
3,"[""say \\""x\\"""", ""n\\u00e9\u20ac🙂""]",[-0.01],[[-9223372036854775808]]
'''

Run = Callable[..., tuple[int, str, str]]


def runner(module: ModuleType, state: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands of a script."""

    def run(name: str, *arguments: str) -> tuple[int, str, str]:
        code = module.main([name, *arguments, "--state", str(state)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture(scope="module")
def lists() -> ModuleType:
    """The script of :data:`LISTS`."""
    return load_script(compile_text(LISTS, "trips.dl")[1])


def as_json() -> str:
    """The trips as JSON lines."""
    names = ("id", "stops", "prices", "legs")
    return "".join(json.dumps(dict(zip(names, trip, strict=True)), default=str) + "\n" for trip in TRIPS)


def as_parquet(path: Path, **types: Any) -> None:
    """The trips as a Parquet file, with lists of other integers, decimals and strings than the state has."""
    kinds = {
        "id": pa.int32(),
        "stops": pa.large_list(pa.large_string()),
        "prices": pa.list_(pa.decimal128(20, 5)),
        "legs": pa.list_(pa.list_(pa.int64())),
    } | types
    columns = [pa.array([trip[n] for trip in TRIPS], kind) for n, kind in enumerate(kinds.values())]
    pq.write_table(pa.table(columns, names=list(kinds)), path)


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_lists_in_files(form: str, lists: ModuleType, place: SparkSession | None, tmp_path: Path) -> None:
    """The same rows from every format."""
    path = tmp_path / f"trip.{form}"
    if form == "parquet":
        as_parquet(path)
    else:
        path.write_text(CSV if form == "csv" else as_json(), encoding="utf-8")
    log = lists.Log(quiet=True)
    given, reading = {"trip": [str(path)]}, lists.Reading(initial=True)
    staged = lists.stage_inputs(lists.executor_of(place), lists.PROGRAM, given, tmp_path / "into", reading, log)
    rows = [row for file in staged["trip"] for row in pq.ParquetFile(file).read().to_pylist()]
    assert sorted(frozen(list(row.values())) for row in rows) == [(*trip, "+") for trip in TRIPS]


BAD = {
    "1": "1 is not a list",
    '"{}"': "{} is not a list",
    '"[1"': r'"\[1" is not a JSON array',
    '"[""a"", 1]"': "element 2: 1 is not a string",
    '"[null]"': "element 1: null",
    '"[[""a""]]"': r"element 1: \['a'\] is not a string",
    "": "null",
}


@pytest.mark.parametrize(("text", "reason"), BAD.items())
def test_bad_lists_in_csv(
    text: str, reason: str, lists: ModuleType, place: SparkSession | None, tmp_path: Path
) -> None:
    """What is no list is refused, and the message says where."""
    path = tmp_path / "trip.csv"
    path.write_text(f"id,stops,prices,legs\n1,[],[],[]\n2,{text},[],[]\n", encoding="utf-8")
    with pytest.raises(lists.JobError, match=rf"row 2, column stops: {reason}$"):
        lists.init(place, str(tmp_path / "state"), {"trip": str(path)}, log=lists.Log(quiet=True))


def test_bad_lists_in_parquet(lists: ModuleType, place: SparkSession | None, tmp_path: Path) -> None:
    """Lists of other values, lists with nulls and numbers that do not fit are refused."""
    path = tmp_path / "trip.parquet"

    def refused(pattern: str) -> None:
        with pytest.raises(lists.JobError, match=pattern):
            lists.init(place, str(tmp_path / "state"), {"trip": str(path)}, log=lists.Log(quiet=True))

    as_parquet(path, legs=pa.list_(pa.list_(pa.int64())), id=pa.float64())
    refused("column id has the type float and should be int")
    table = pa.table({"id": [1], "stops": [["a"]], "prices": [[1.5]], "legs": [[[1]]]})
    pq.write_table(table, path)
    refused(r"column prices has the type list<float> and should be list<decimal\(6,2\)>")
    fine = {"id": pa.array([1]), "stops": pa.array([["a", None]]), "legs": pa.array([[[1]]])}
    pq.write_table(pa.table({**fine, "prices": pa.array([[Decimal(1)]])}), path)
    refused("row 1, column stops: element 2: null")
    fine["stops"] = pa.array([["a"]])
    pq.write_table(pa.table({**fine, "prices": pa.array([[Decimal("1.505")]])}), path)
    refused("row 1, column prices: element 1: 1.505 has too many digits")


def test_lists_are_shown_and_published(
    lists: ModuleType, place: SparkSession | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists in all forms of ``show``, and read in again; ordered changes of keys that are lists; list columns."""
    run = runner(lists, tmp_path / "state", capsys)
    (tmp_path / "trip.csv").write_text(CSV, encoding="utf-8")
    moments = [[datetime(2026, 1, 31, 12), datetime(1, 1, 1)], []]
    pq.write_table(pa.table({"at": pa.array(moments, pa.list_(pa.timestamp("us")))}), tmp_path / "seen.parquet")
    assert run("init", "--input", str(tmp_path / "trip.csv"), "--input", str(tmp_path / "seen.parquet"))[0] == 0
    _, out, _ = run("show", "longest", "--format", "csv")
    assert out == 'stops,legs\n"[""a"", ""b, c""]","[[1, 2], []]"\n' + (
        '"[""say \\""x\\"""", ""né€🙂""]",[[-9223372036854775808]]\n'
    )
    _, out, _ = run("show", "trip", "--format", "json", "--limit", "1")
    assert json.loads(out) == {"id": 1, "stops": ["a", "b, c"], "prices": ["1.50", "2.00"], "legs": [[1, 2], []]}
    _, out, _ = run("show", "seen")
    assert (
        out
        == 'at\n----------------------------------------------\n[]\n["2026-01-31 12:00:00", "0001-01-01 00:00:00"]\n'
    )
    _, out, _ = run("show", "trip", "--format", "csv")
    (tmp_path / "again.csv").write_text(out, encoding="utf-8")
    again = lists.init(place, str(tmp_path / "again"), {"trip": str(tmp_path / "again.csv")}, log=lists.Log(quiet=True))
    assert again["rows"]["trip"] == 3
    (tmp_path / "changes.jsonl").write_text(
        '{"op": "u", "at": 3, "id": 9, "stops": ["a", "b, c"], "prices": [], "legs": [[7]]}\n'
        '{"op": "u", "at": 2, "id": 8, "stops": ["a", "b, c"], "prices": [], "legs": []}\n'
        '{"op": "d", "at": 2, "id": 2, "stops": [], "prices": [], "legs": []}\n',
        encoding="utf-8",
    )
    code, _, err = run("apply", "--changes", f"trip={tmp_path}/changes.jsonl", "--order-column", "at", "--batch", "b")
    assert code == 0, err
    published = pq.read_table(tmp_path / "state/published/longest/changes/batch=b")
    assert published.schema.field("legs").type == pa.list_(
        pa.field("element", pa.list_(pa.field("element", pa.int64())))
    )
    assert sorted(map(str, published.select(["op", "stops", "legs"]).to_pylist())) == [
        "{'op': '+', 'stops': ['a', 'b, c'], 'legs': [[7]]}",
        "{'op': '-', 'stops': ['a', 'b, c'], 'legs': [[1, 2], []]}",
    ]
    assert run("verify")[0] == 0


# ---- external functions --------------------------------------------------------------------------------------------

RISKS = """
extern function risk(x: int, s: string): float
input relation deal(id: int, who: string)
output relation rated(id: int, risk: float)
rated(I, risk(I, W)) :- deal(I, W).
"""
FILE = '''"""What is at risk."""

import math


def risk(x, s):
    return scaled(x) + len(s)


def scaled(x):
    return math.sqrt(x)
'''


@pytest.fixture(scope="module")
def risks() -> ModuleType:
    """The script of :data:`RISKS`."""
    return load_script(compile_text(RISKS, "risks.dl")[1])


@pytest.fixture
def run(risks: ModuleType, place: SparkSession | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs commands of :data:`RISKS`, with files of functions, inputs and changes beside the state."""
    (tmp_path / "risk.py").write_text(FILE, encoding="utf-8")
    (tmp_path / "deal.csv").write_text('id,who\n4,ann\n9,""\n', encoding="utf-8")
    (tmp_path / "change").mkdir()
    (tmp_path / "change/deal.csv").write_text("op,id,who\n-,4,ann\n+,16,bob\n", encoding="utf-8")
    return runner(risks, tmp_path / "state", capsys)


def test_functions_from_a_file(run: Run, tmp_path: Path) -> None:
    """Build, change and verify; a batch that a function fails on changes nothing; another file needs a rebuild."""
    check_functions_from_a_file("duckdb", run, tmp_path)


@AT_NIGHT
def test_functions_from_a_file_in_spark(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    """The same by Spark's engine."""
    check_functions_from_a_file("spark", run, tmp_path)


def check_functions_from_a_file(engine: str, run: Run, tmp_path: Path) -> None:
    """Run the commands with an engine."""
    file, options = tmp_path / "risk.py", ("--engine", engine, "--functions", str(tmp_path / "risk.py"))
    code, _, err = run("init", "--input", str(tmp_path / "deal.csv"), *options)
    assert code == 0, err
    assert run("apply", "--changes", str(tmp_path / "change"), *options)[0] == 0
    _, out, _ = run("show", "rated", "--format", "csv")
    assert out == "id,risk\n9,3.0\n16,7.0\n"
    (tmp_path / "change/deal.csv").write_text("op,id,who\n+,-1,eve\n+,25,fay\n", encoding="utf-8")
    code, _, err = run("apply", "--changes", str(tmp_path / "change"), "--quiet", *options)
    assert code == 1
    assert (
        "risk without a value, in rated_1 (risks.dl:5), for a tuple of rated with id = -1; the batch was refused" in err
    )
    assert err.endswith("\n  risk(-1, 'eve'): ValueError: math domain error\n")
    assert run("verify", *options)[0] == 0
    assert run("show", "rated", "--format", "csv")[1] == out
    file.write_text(FILE + "# Another day.\n", encoding="utf-8")
    code, _, err = run("apply", "--changes", str(tmp_path / "change"), "--quiet", *options)
    assert code == 1 and "made with another version of risk: the file that defines it differs; `rebuild`" in err
    file.write_text(FILE.replace("math.sqrt(x)", "1"), encoding="utf-8")
    assert run("verify", *options)[0] == 1, "it finds what the new function would give"
    assert run("rebuild", *options)[0] == 0
    assert run("apply", "--changes", str(tmp_path / "change"), *options)[0] == 0
    assert run("show", "rated", "--format", "csv")[1] == "id,risk\n-1,4.0\n9,1.0\n16,4.0\n25,4.0\n"
    assert run("status")[0] == 0


def test_functions_that_are_not_there(
    run: Run, risks: ModuleType, lists: ModuleType, place: SparkSession | None, tmp_path: Path
) -> None:
    """Files that have no such function, cannot be read or are no Python; functions that are not given, or too many."""
    bad = {"nothing.py": "risky = 1", "broken.py": "def risk(:", "failing.py": "1 / 0", "value.py": "risk = 1"}
    said = []
    for name, text in bad.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        code, _, err = run(
            "init", "--input", str(tmp_path / "deal.csv"), "--functions", str(tmp_path / name), "--quiet"
        )
        assert code == 1
        said.append(err.replace(str(tmp_path), "").strip())
    assert [re.sub(r"; .*|: invalid.*", "", text) for text in said] == [
        "init: /nothing.py has no function risk",
        "init: /broken.py cannot be read: SyntaxError",
        "init: /failing.py cannot be read: ZeroDivisionError: division by zero",
        "init: /value.py has no function risk",
    ]
    assert not (tmp_path / "state").exists()
    with pytest.raises(SystemExit):
        run("init", "--input", str(tmp_path / "deal.csv"))
    state, deals = str(tmp_path / "state"), {"deal": str(tmp_path / "deal.csv")}
    for given, pattern in (
        (None, "needs Python functions; pass their file with --functions FILE: risk"),
        ({}, r"has no function risk; risks.dl declares risk\(int, string\): float"),
        ({"risk": len, "more": len}, "declares no function more"),
    ):
        with pytest.raises(risks.JobError, match=pattern):
            risks.init(place, state, deals, functions=given)
    with pytest.raises(lists.JobError, match="declares no `extern function`"):
        lists.init(place, state, {}, functions={"risk": len})


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "it returned 'text', which is no float"),
        (True, "it returned True, which is no float"),
        (None, "it returned None, which is no float"),
        (float("nan"), "it returned nan: nan is not a finite float"),
        ([1.0], "it returned [1.0], which is no float"),
    ],
)
def test_functions_that_return_something_else(
    value: object, said: str, risks: ModuleType, place: SparkSession | None, tmp_path: Path
) -> None:
    """What is no value of the declared type is none."""
    (tmp_path / "deal.csv").write_text("id,who\n4,ann\n", encoding="utf-8")
    with pytest.raises(risks.JobError) as refusal:
        risks.init(
            place,
            str(tmp_path / "state"),
            {"deal": str(tmp_path / "deal.csv")},
            functions={"risk": lambda x, s: value},
            log=risks.Log(quiet=True),
        )
    assert str(refusal.value).endswith(f"\n  risk(4, 'ann'): {said}")
