"""``flintlog.evaluate`` and ``flintlog.Session``: rows in and out in every form, and what is refused."""

from __future__ import annotations

import os
import signal
import threading
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import flintlog
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from golden_tests.nightly import by_day

REACH = """\
input relation link(src: int, dst: int)
output relation reachable(src: int, dst: int)
reachable(X, Y) :- link(X, Y).
reachable(X, Z) :- link(X, Y), reachable(Y, Z).
"""

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
never(I) :- t(I, _, _, _, _, _, _, _, _, _, _), !on.
"""
ROWS: list[tuple[Any, ...]] = [
    (
        *(-(2**63), 1e-300, Decimal("-0.0000000001"), "", True, date(1, 1, 1)),
        *(datetime(2026, 2, 28, 23, 59, 59, 1), [1, -1], [["a,b", '"'], []], [Decimal("1.50")], []),
    ),
    (
        *(0, -0.5, Decimal("0E-10"), ' " ,é😀 null \\ ', False, date(9999, 12, 31)),
        *(datetime(1, 1, 1), [], [[], ["\t\n", "x"]], [], [datetime(9999, 12, 31, 12)]),
    ),
    (
        *(2**63 - 1, 1e300, Decimal("9999999999999999999999999999.5000000000"), "NULL", True, date(2026, 2, 28)),
        *(datetime(2026, 3, 1, 10), [2**63 - 1], [], [Decimal("-99.99")], []),
    ),
]


def given(rows: Any, columns: str = "src: int, dst: int", **options: Any) -> list[tuple[Any, ...]]:
    """The rows that a relation with these columns has after rows were given for it."""
    variables = ", ".join(f"X{n}" for n in range(columns.count(":")))
    program = f"input relation link({columns})\noutput relation o({columns})\no({variables}) :- link({variables}).\n"
    return flintlog.evaluate(program, {"link": rows}, **options)["o"].to_list()


def refusal(rows: Any, columns: str = "src: int, dst: int") -> str:
    """Why rows are refused, without the first line."""
    with pytest.raises(flintlog.JobError) as caught:
        given(rows, columns)
    first, *lines = str(caught.value).splitlines()
    assert first == "refused, nothing has changed:"
    return "\n".join(line.removeprefix("  ") for line in lines)


def test_every_type_both_ways() -> None:
    """What comes back in any form is what was given, and can be given again."""
    first = flintlog.evaluate(TYPES, {"t": ROWS, "on": [()]})
    assert first["u"].to_list() == ROWS == list(first["u"])
    assert (first["off"].to_list(), first["off"].to_dicts(), len(first["never"])) == ([()], [{}], 0)
    assert first["u"].types == tuple(column.partition(": ")[2] for column in COLUMNS.split(", "))
    assert [field.type for field in first["never"].to_arrow().schema] == [pa.int64()]
    for form in ("to_list", "to_dicts", "to_arrow", "to_pandas", "to_polars"):
        facts = {"t": getattr(first["u"], form)(), "on": getattr(first["off"], form)()}
        if form == "to_polars":
            facts["on"] = first["off"]  # Polars has no rows without columns.
        again = flintlog.evaluate(TYPES, facts)
        assert again["u"].to_list() == ROWS, form
        assert again["off"].to_list() == [()], form
        assert flintlog.evaluate(TYPES, {"t": [], "on": []})["u"].to_list() == []


def test_values_of_numpy_and_pandas() -> None:
    """Their scalars, arrays and missing values are those of Python."""
    assert given(np.array([[1, 2], [3, 4]])) == [(1, 2), (3, 4)]
    assert given([(np.int8(1), np.int64(2))]) == [(1, 2)]
    at, day = np.datetime64("2026-01-01T00:00:00.123456000"), np.datetime64("2026-01-01")
    columns = "b: bool, s: string, f: float, at: timestamp, d: date, l: list<int>"
    row = (np.bool_(True), np.str_("x"), np.float64(1.5), at, day, np.array([1, 2]))
    moment = datetime(2026, 1, 1, 0, 0, 0, 123456)
    assert given([row], columns) == [(True, "x", 1.5, moment, date(2026, 1, 1), [1, 2])]
    assert given([(pd.Timestamp("2026-01-01T00:00:00.123456000"),)], "at: timestamp") == [(moment,)]
    assert refusal([(pd.NaT,), (pd.NA,)], "at: timestamp") == (
        "link, row 1, column at: null\nlink, row 2, column at: null"
    )


def test_frames_as_others_make_them() -> None:
    """Zones, nanoseconds, categories, nullable and mixed columns, an index, no rows."""
    zoned = pd.DataFrame({"at": pd.to_datetime(["2026-01-01T02:00:00.123456000+02:00"])})
    assert given(zoned, "at: timestamp") == [(datetime(2026, 1, 1, 0, 0, 0, 123456),)]
    assert given(pl.DataFrame({"at": [datetime(2026, 1, 1, tzinfo=UTC)]}), "at: timestamp") == [(datetime(2026, 1, 1),)]
    east = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    assert given([(east,), ("2026-01-02 10:00:00",)], "at: timestamp") == [
        (datetime(2025, 12, 31, 23),),
        (datetime(2026, 1, 2, 10),),
    ]
    assert given(pd.DataFrame({"s": ["a", "b"]}, dtype="category"), "s: string") == [("a",), ("b",)]
    assert given(pl.DataFrame({"s": ["a", "b"]}, schema={"s": pl.Categorical}), "s: string") == [("a",), ("b",)]
    assert given(pd.DataFrame({"src": [1, 2], "dst": [2, 3]}, dtype="Int64")) == [(1, 2), (2, 3)]
    assert given(pd.DataFrame({"src": [1], "dst": [Decimal(2)]}, index=["x"])) == [(1, 2)]
    assert given(pd.DataFrame({"d": [1, Decimal("1.5")]}, dtype=object), "d: decimal(3,1)") == [
        (Decimal("1.0"),),
        (Decimal("1.5"),),
    ]
    for empty in (
        pd.DataFrame(columns=["src", "dst"]),
        pl.DataFrame({"dst": [], "src": []}),
        pa.table({"src": [], "dst": []}),
    ):
        assert given(empty) == []
    assert given(pa.table({"dst": [1], "src": [2]}).to_batches()[0]) == [(2, 1)]
    assert given({(1, 2), (1, 2)}) == given(row for row in [(1, 2)]) == [(1, 2)]


def test_decimals_close_to_zero() -> None:
    """As rows and as constants; DuckDB does not read all of them with an exponent."""
    kind = "decimal(38, 38)"
    rows = [(Decimal(f"{n}E-38"),) for n in (1, 2, 10)]
    assert given(rows, f"d: {kind}") == rows
    text = f"input relation e(d: {kind})\noutput relation p(d: {kind})\n"
    text += "p(D) :- e(D), D > 0.00000000000000000000000000000000000001.\np(3e-38) :- e(1e-37).\n"
    assert set(flintlog.evaluate(text, {"e": rows})["p"]) == {*rows[1:], (Decimal("3E-38"),)}


@by_day(6)
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 2), (1, None)], "link, row 2, column dst: null"),
        ([(1, "a")], 'link, row 1, column dst: "a" is text in quotes'),
        ([(1.0, True)], "link, row 1, column src: 1.0 is not an int\nlink, row 1, column dst: True is not an int"),
        ([(2**63, 1)], "link, row 1, column src: 9223372036854775808 does not fit 64 bits"),
        ([(1, 2), (1,)], "link, row 2: 1 values instead of 2 (src, dst)"),
        ([{"src": 1}], "link, row 1, column dst: missing"),
        ([{"src": 1, "dst": 2, "w": 3}], 'link, row 1: there is no column "w"; link has src, dst'),
        ([1], "link, row 1: 1 is not a row, which is a tuple or a dict"),
        ("ab", "link: rows are a DataFrame, an Arrow table, or a list of tuples or dicts, and not str"),
        ({"src": [1]}, "link: rows are a DataFrame, an Arrow table, or a list of tuples or dicts, and not dict"),
        (pl.LazyFrame(), "link: rows are a DataFrame, an Arrow table, or a list of tuples or dicts, and not LazyFrame"),
        (pd.DataFrame({"src": [1, None], "dst": [1, 2]}), "link, row 2, column src: null"),
        (pd.DataFrame({"src": [1.5, None], "dst": [1, 2]}), "link: column src has the type float and should be int"),
        (pd.DataFrame({"src": [1, "x"], "dst": [1, 2]}), 'link, row 2, column src: "x" is text in quotes'),
        (pd.DataFrame({"src": [None], "dst": [1]}), "link, row 1, column src: null"),
        (pd.DataFrame({"src": [1]}), "link: column dst is missing"),
        (pd.DataFrame({"src": [1], "dst": [1], "w": [1]}), 'link: there is no column "w"; link has src, dst'),
        (pd.DataFrame([[1, 2]], columns=["src", "src"]),
         "link: column src occurs 2 times\nlink: column dst is missing"),
        (pl.DataFrame({"src": [1, None], "dst": [1, 2]}), "link, row 2, column src: null"),
        (pl.DataFrame({"src": ["a"], "dst": [1]}), "link: column src has the type string and should be int"),
        (pa.table({"src": [1], "DST": [1]}), 'link: there is no column "DST"; link has src, dst\nlink: column dst is '
         'missing; there is "DST", but names are matched exactly'),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_rows(rows: Any, message: str) -> None:
    """Relation, row and column are named."""
    assert refusal(rows) == message


def test_wrong_relations() -> None:
    """A relation that is none, or no input, and one without facts."""
    for facts, message in (
        ({}, "link: no facts are given; give [] for a relation without rows"),
        ({"link": [], "x": []}, "there is no relation x; the input relations of program.dl: link"),
        ({"link": [], "reachable": []}, "reachable is not an input relation; program.dl has these: link"),
    ):
        with pytest.raises(flintlog.JobError) as caught:
            flintlog.evaluate(REACH, facts)
        assert str(caught.value) == message
    assert flintlog.evaluate(REACH)["reachable"].to_list() == []


def test_session() -> None:
    """Net changes of outputs; a refused batch changes nothing; any relation can be looked at and explained."""
    with flintlog.Session(REACH, {"link": [(1, 2), (2, 3)]}) as session:
        changes = session.apply(
            insert={"link": [(3, 4), (1, 2)]}, delete={"link": pd.DataFrame({"src": [2], "dst": [3]})}
        )
        assert list(changes) == ["reachable"] and changes["reachable"]
        assert changes["reachable"].inserted.to_list() == [(3, 4)]
        assert changes["reachable"].deleted.to_list() == [(1, 3), (2, 3)]
        for insert, delete, message in (
            ([(7, 8)], [(7, 8)], "link: src = 7, dst = 8 is both deleted and inserted"),
            ([(7, 8)], [(7, "x")], 'link, deleted, row 1, column dst: "x" is text in quotes'),
        ):
            with pytest.raises(flintlog.JobError, match=message):
                session.apply(insert={"link": insert}, delete={"link": delete})
        assert not session.apply()["reachable"]
        assert session["link"].to_list() == [(1, 2), (3, 4)] == session.outputs()["reachable"].to_list()
        assert session["link"][0] == (1, 2) and session["link"][1:] == ((3, 4),)
        assert session.explain("reachable(1, 2)").startswith("reachable(1, 2)  by ")
        with pytest.raises(KeyError, match="there is no relation nothing; there are link, reachable"):
            session["nothing"]
    assert repr(changes["reachable"].deleted) == "reachable (2 rows)\nsrc  dst\n---  ---\n1    3\n2    3"


def test_many_facts() -> None:
    """They are evaluated in DuckDB, and few row by row: with the same rows, in every form, and the same messages."""
    links = [(n, n + 1) for n in range(1, 2000)]
    text = "input relation link(src: int, dst: int)\noutput relation o(x: int)\no(100 / X) :- link(X, _).\n"
    for rows in (links, pd.DataFrame(links, columns=["src", "dst"]), (link for link in links)):
        assert flintlog.evaluate(text, {"link": rows})["o"].to_list() == sorted({(100 // x,) for x, _ in links})
    said = set()
    for given in ([(0, 1)], [(0, 1), *links]):
        with pytest.raises(flintlog.JobError) as caught:
            flintlog.evaluate(text, {"link": given})
        said.add(str(caught.value))
    assert len(said) == 1


def test_explained_later() -> None:
    """What explains a session follows its changes, however many, and those that are refused."""
    program = REACH + "output relation part(x: int)\npart(100 / X) :- link(X, _).\n"
    with flintlog.Session(program, {"link": [(1, 2)]}) as session:
        for last in range(3, 24):
            session.apply(insert={"link": [(last - 1, last)]})
            if last in (4, 5, 22, 23):
                assert f"link({last - 1}, {last})  given" in session.explain(f"reachable({last - 2}, {last})")
                with pytest.raises(flintlog.JobError, match="division by zero"):
                    session.apply(insert={"link": [(0, 1)]})
        session.apply(delete={"link": [(1, 2)]})
        assert session.explain("link(1, 2)").startswith("link(1, 2) is not there")


def test_threads() -> None:
    """Threads can use a session in turn."""
    with flintlog.Session(REACH, {"link": [(1, 2)]}) as session:
        thread = threading.Thread(target=lambda: session.apply(insert={"link": [(2, 3)]}))
        thread.start()
        thread.join()
        assert session["reachable"].to_list() == [(1, 2), (1, 3), (2, 3)]


def test_interrupted(request: pytest.FixtureRequest) -> None:
    """Ctrl-C ends a query of half a minute, and leaves everything as it was."""
    program = (
        "input relation a(x: int)\noutput relation n(x: int)\nn(count<*>) :- a(X), a(Y), a(Z), X + Y = Z + 1000.\n"
    )
    # Another test may have left the handler of a command.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with flintlog.Session(program, {"a": [(1,)]}) as session:
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            session.apply(insert={"a": [(x,) for x in range(500)]})
        assert session["a"].to_list() == [(1,)]
        assert session.apply(insert={"a": [(500,), (501,)]})["n"].inserted.to_list() == [(2,)]


def test_primary_keys() -> None:
    """An inserted row replaces the one with its key; two rows of a key are refused with their numbers."""
    program = (
        "input relation k(x: int, y: int) primary key (x)\noutput relation o(x: int, y: int)\no(X, Y) :- k(X, Y).\n"
    )
    with flintlog.Session(program, {"k": [(1, 1), (2, 2)]}) as session:
        assert session.apply(insert={"k": [(1, 5)]})["o"].deleted.to_list() == [(1, 1)]
        with pytest.raises(flintlog.JobError, match="k, row 2: row 1 has the primary key x = 3 too"):
            session.apply(insert={"k": [(3, 1), (3, 2)]})
        assert session.apply(delete={"k": [(1, 7), (1, 5)]})["o"].deleted.to_list() == [(1, 5)]


def test_functions(tmp_path: Path) -> None:
    """A mapping of callables, or a file."""
    program = """\
extern function half(x: int): int
input relation a(x: int)
output relation b(x: int)
b(Y) :- a(X), Y = half(X).
"""
    file = tmp_path / "functions.py"
    file.write_text("def half(x):\n    return x // 2\n", encoding="utf-8")
    for functions in ({"half": lambda x: x // 2}, file, str(file)):
        assert flintlog.evaluate(program, {"a": [(4,)]}, functions=functions)["b"].to_list() == [(2,)]
    with pytest.raises(flintlog.JobError, match=r"^program.dl declares external functions; pass functions=, with half"):
        flintlog.evaluate(program, {"a": []})
    with pytest.raises(flintlog.JobError, match=r"half\(4\): it returned 2.0, which is no int"):
        flintlog.evaluate(program, {"a": [(4,)]}, functions={"half": lambda x: x / 2})


def test_programs(tmp_path: Path) -> None:
    """Text, a path of either kind, and a compiled program; includes; errors as the command line prints them."""
    (tmp_path / "links.dl").write_text(REACH.splitlines()[0] + "\n", encoding="utf-8")
    text = 'include "links.dl"\n' + "".join(REACH.splitlines(keepends=True)[1:])
    path = tmp_path / "reach.dl"
    path.write_text(text, encoding="utf-8")
    facts = {"link": [(1, 2)]}
    compiled = flintlog.compile(path, format=False)
    assert list(compiled.files) == ["reach.py"] and compiled.warnings == ()
    for program in (path, str(path), compiled):
        assert flintlog.evaluate(program, facts)["reachable"].to_list() == [(1, 2)]
    assert flintlog.evaluate(text, facts, include_path=[tmp_path])["reachable"].to_list() == [(1, 2)]
    flintlog.compile(text, format=False, include_path=[str(tmp_path)], runtime="beside").write(tmp_path / "jobs")
    assert {path.name for path in (tmp_path / "jobs").iterdir()} == {
        "program.py",
        f"flintlog_runtime-{version('flintlog')}.zip",
    }
    with pytest.raises(OSError, match="missing"):
        flintlog.evaluate("missing.dl")
    with pytest.raises(flintlog.CompileError) as caught:
        flintlog.evaluate(REACH + "p(X) :- link(Y, Z).\n")
    assert str(caught.value) == (
        "\nerror[E0401]: `X` of the head is not bound in the body\n  --> program.dl:5:3\n5 | p(X) :- link(Y, Z).\n"
        "  |   ^\nhelp: bind it by a positive atom or an assignment in the body"
    )
    for option in ("target", "runtime", "recursion"):
        with pytest.raises(ValueError, match=f"{option} is 'x', and should be one of these: "):
            flintlog.compile(REACH, **{option: "x"})  # type: ignore[arg-type]


def test_limits() -> None:
    """A recursion that does not end, and arithmetic without a value, are refused in the words of the program."""
    program = "input relation a(x: int)\noutput relation b(x: int)\nb(X) :- a(X).\nb(X + 1) :- b(X).\n"
    with pytest.raises(flintlog.JobError, match="20 rounds"):
        flintlog.evaluate(program, {"a": [(1,)]}, max_rounds=20)
    program = "input relation a(x: int)\noutput relation b(x: int)\nb(1 / X) :- a(X).\n"
    with pytest.raises(flintlog.JobError, match="division by zero"):
        flintlog.evaluate(program, {"a": [(0,)]})


def test_nulls_are_skipped() -> None:
    """Rows with nulls are left out and counted; in a relation with a primary key they remove the row with their key."""
    program = (
        "input relation p(k: int, v: string, w: int?) primary key (k)\noutput relation q(k: int)\nq(K) :- p(K, _, _).\n"
    )
    frame = pd.DataFrame({"k": [1, 2, 3, None], "v": ["a", None, "", "d"], "w": [None, 5, None, 6]})
    assert flintlog.evaluate(program, {"p": frame}, nulls="skip")["q"].to_list() == [(1,), (3,)]
    with flintlog.Session(program, {"p": frame}, nulls="skip") as session:
        assert session.left_out == {"p": 2}
        session.apply(insert={"p": [(1, None, 0), (4, "d", None), (None, None, 1)]}, delete={"p": [(3, "", None)]})
        assert session["p"].to_list() == [(4, "d", None)]
        assert session.left_out == {"p": 4}
        session.apply(insert={"p": pa.table({"k": [4, 5], "v": [None, ""], "w": [0, None]})})
        assert session["q"].to_list() == [(5,)]
        with pytest.raises(flintlog.JobError, match="two different rows with the primary key k = 5"):
            session.apply(insert={"p": [(5, None, 0), (5, "e", None)]})
        session.apply(insert={"p": [(5, None, 0)]}, delete={"p": [(5, "", None)]})
        assert session["p"].to_list() == []
    with pytest.raises(flintlog.JobError, match="p, row 2, column v: null"):
        flintlog.evaluate(program, {"p": [(1, "a", None), (2, None, 5)]})
