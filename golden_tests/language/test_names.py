"""Names that mean something to an engine, to Python or to the job itself."""

from __future__ import annotations

import ast
import random
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from flintlog.compiler.naming import LONGEST_NAME, PSEUDO_COLUMNS, RESERVED, constant_name, sql_names

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, compile_text, load_script
from golden_tests.nightly import AT_NIGHT, by_day, one_in, seeds
from golden_tests.oracle.batches import Batch, apply
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import parse
from golden_tests.oracle.names import ENGINES, KEYWORDS, OWN, PYTHON
from golden_tests.oracle.random_programs import Scenario
from golden_tests.random_search import check, check_in_memory, check_queries, scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DERIVES = "input relation e(k: int)  input derived relation r(k: int, {column}: int)  r(K, 1) :- r(K, 2), e(K)."
REACH = """
    input relation edge(src: int, {column}: int)
    output relation reach(src: int, {column}: int)
    reach(X, Y) :- edge(X, Y).
    reach(X, Y) :- edge(X, Z), reach(Z, Y).
    """


def rows(*texts: str) -> set[tuple[int, ...]]:
    """``"1 2"`` as a row of integers."""
    return {tuple(map(int, text.split())) for text in texts}


@by_day(1)
@pytest.mark.parametrize(
    "column",
    [
        *("rowid", "_rank"),
        *(
            pytest.param(name, marks=AT_NIGHT)
            for name in ("ROWID", "_rowid", "filename", "file_row_number", "_row", "_op")
        ),
    ],
)
def test_columns_that_hide_another(column: str) -> None:
    """A column whose name an engine, or the job, has for a column of its own loses nothing."""
    lost = Scenario(
        DERIVES.format(column=column),
        {"r": rows("3 2", "2 4", "4 1", "12 4", "13 4"), "e": set()},
        [{"r": [("+", (0, 4))]}, {"e": [("+", (3,))], "r": [("-", (2, 4))]}],
    )
    chain = [(n, n + 1) for n in range(9)]
    moved = Scenario(
        REACH.format(column=column),
        {"edge": {*chain, (4, 1)}},
        [{"edge": [("-", (4, 5))]}, {"edge": [("+", (4, 5)), ("-", (4, 1))]}, {"edge": [("-", (0, 1)), ("+", (8, 0))]}],
    )
    for scenario in (lost, moved):
        assert check_in_memory(scenario) == []
        assert check(scenario, 1) == []
        assert check(scenario, 2) == []


@AT_NIGHT
def test_columns_called_like_tables(spark: SparkSession) -> None:
    """Of relations that are negated: queries of both engines find the same rows."""
    text = """
        input relation person(id: int)
        input relation dead(person: int, absent: int, dead: int, groups: int)
        input derived relation seen(id: int)
        seen(P) :- seen(Q), person(P), person(Q), !dead(P, Q, P, Q).
        output relation alive(person: int)
        alive(P) :- person(P), !dead(P, _, _, _), !dead(_, P, _, _), seen(P).
        output relation few(n: int, person: int)
        few(count<*>, P) :- person(P), person(Q), !dead(P, Q, Q, P).
    """
    inputs: dict[str, Any] = {
        "person": {(number,) for number in range(4)},
        "dead": {(1, 2, 1, 2), (0, 0, 3, 3), (2, 3, 3, 2)},
        "seen": {(0,)},
    }
    batches: list[Any] = [{"dead": [("+", (3, 0, 3, 0)), ("-", (0, 0, 3, 3))], "person": [("-", (2,))]}]
    scenario = Scenario(text, inputs, batches)
    assert check_in_memory(scenario) == []
    assert check_queries(scenario, spark) == []


def test_folders_called_like_columns(tmp_path: Path) -> None:
    """What readers of Parquet files take for a partition, above a state, is none."""
    text = REACH.format(column="dst")
    compilation, script = compile_text(text)
    folder = tmp_path / "src=7" / "dst=a"
    folder.mkdir(parents=True)
    job = LocalJob(script, folder / "state", buckets=2)
    checked = Checked(job, text, compilation)
    assert checked.apply({"edge": [("+", (1, 2)), ("+", (2, 3))]}) == []
    assert checked.apply({"edge": [("-", (1, 2)), ("+", (3, 3))]}) == []
    job.close()


def test_reserved_words_of_duckdb() -> None:
    """What DuckDB takes for a keyword wherever it stands is reserved."""
    import duckdb

    found = duckdb.connect().execute("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall()
    assert {word for word, kind in found if kind in ("reserved", "type_function")} <= RESERVED


@AT_NIGHT
def test_keywords_of_spark(spark: Any) -> None:
    """Of its words those can be names that are not reserved, however strict a session is."""
    parser, setting = spark._jsparkSession.sessionState().sqlParser(), "spark.sql.ansi.enforceReservedKeywords"
    words = [row[0].lower() for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()]
    before = spark.conf.get(setting)
    try:
        spark.conf.set(setting, "true")
        for word in set(words) - RESERVED:
            parser.parsePlan(
                f"SELECT {word}.{word} AS {word}, a.{word} + 1 AS x FROM {word}__after AS {word} "
                f"LEFT JOIN {word} AS a ON a.{word} = {word}.{word} WHERE {word}.{word} = 1 GROUP BY {word}"
            )
    finally:
        spark.conf.set(setting, before)
    assert len(words) > 300


def test_pseudo_columns_of_duckdb(tmp_path: Path) -> None:
    """What DuckDB finds in a table, or in a file, that has no such column, is known as a pseudo-column."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    connection.execute(f"COPY t TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
    candidates = {*PSEUDO_COLUMNS, *(word for word in (*ENGINES, *OWN, *KEYWORDS, *PYTHON))} - {"x"}
    hidden = set()
    for word in sorted(candidates):
        for table in ("t", f"read_parquet('{tmp_path / 't.parquet'}')"):
            try:
                connection.execute(f'SELECT q."{word}" FROM {table} AS q')
            except duckdb.BinderException:
                continue
            hidden.add(word.lower())
    assert "rowid" in hidden and "filename" in hidden
    assert hidden <= PSEUDO_COLUMNS


def test_names_differ_for_engines_that_ignore_case() -> None:
    """Names keep their spelling where they can, whatever comes before them."""
    assert dict(sql_names(["a.b", "a_b", "A", "a", "a_2"])) == {
        "a.b": "a_b_2",
        "a_b": "a_b",
        "A": "A",
        "a": "a_3",
        "a_2": "a_2",
    }
    assert dict(sql_names(["rowid_", "rowid", "order", "_x", "1", "__"])) == {
        "rowid_": "rowid_",
        "rowid": "rowid_2",
        "order": "order_",
        "_x": "x",
        "1": "x1",
        "__": "x_2",
    }
    long = sql_names([f"{'long_' * 60}{end}" for end in "abA"])
    assert all(len(name) <= LONGEST_NAME for name in long.values())
    everything = [*ENGINES, *OWN, *KEYWORDS, *PYTHON, *long]
    made = sql_names(dict.fromkeys(everything))
    assert len({name.lower() for name in made.values()}) == len(made) == len({*everything})
    for name in made.values():
        # The job's own columns begin with an underscore, its own tables have two.
        assert re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) and "__" not in name
        assert name.lower() not in RESERVED | PSEUDO_COLUMNS


def test_constants_are_identifiers() -> None:
    """Rules, relations and strata may have names that begin with a digit but for underscores."""
    assert constant_name("_1", "all") == "X1_ALL"
    script = compile_text(
        "input relation _1(x: int)  output __2p.  _3: __2p(X) :- _1(X).  _: __2p(X) :- _1(X), X > 1."
    )[1]
    ast.parse(script)
    module = load_script(script)
    assert [relation.table for relation in module.PROGRAM.relations] == ["x1", "x2p"]


def test_functions_that_differ_in_case(tmp_path: Path) -> None:
    """Each is called, not the one for the other."""
    text = """
        extern function next(x: int): int  extern function Next(x: int): int  extern function NEXT_2(x: int): int
        input relation e(x: int)
        output p.
        p(X, next(X), Next(X), NEXT_2(X)) :- e(X).
    """
    supplied = tmp_path / "functions.py"
    supplied.write_text(
        "next = lambda x: x + 1\nNext = lambda x: x + 10\nNEXT_2 = lambda x: x + 100\n", encoding="utf-8"
    )
    compilation, script = compile_text(text)
    job = LocalJob(script, tmp_path / "state", functions=supplied)
    job.run({"e": [("+", (1,))]})
    assert job.rows("p") == {(1, 2, 11, 101)}
    assert Checked(job, text, compilation).job is job
    job.close()


@by_day(1)
@pytest.mark.parametrize(
    "columns",
    one_in(["a: int, b_c: int, a_b: int, c: int", "a: int, b: int, a_b: int", "a: int, a_2: int, b: int"], 3),
)
def test_columns_that_are_alike_when_joined(columns: str) -> None:
    """What a negation leaves open is another thing for each choice of columns, whatever these are called."""
    names = re.findall(r"(\w+):", columns)
    free = ", ".join("_" for _ in names[1:])
    places = range(len(names))
    bodies = [
        ", ".join(v if place in chosen else "_" for place, v in zip(places, bound, strict=True))
        for chosen in ((0, 1), (len(names) - 2, len(names) - 1), (len(names) - 1,), (0,), (0, len(names) - 1))
        for bound in [[f"X{place}" for place in places]]
    ]
    rules = "".join(
        f"output relation o{n}({columns})\no{n}({', '.join(f'X{p}' for p in places)}) :- "
        f"t({', '.join(f'X{p}' for p in places)}), !r({body}).\n"
        for n, body in enumerate(bodies)
    )
    text = f"input relation r({columns})\ninput relation t({columns})\n{rules}output relation f(x: int)\n"
    text += f"f(X) :- t(X, {free}), !r(X, {free}).\n"
    rng = random.Random(columns)
    tuples = [tuple(rng.randrange(3) for _ in places) for _ in range(12)]
    changes = [("+" if rng.random() < 0.5 else "-", row) for row in tuples[:6]]
    batch = {"r": list({row: (op, row) for op, row in changes}.values())}
    scenario = Scenario(text, {"r": set(tuples[3:8]), "t": set(tuples)}, [batch])
    assert check_in_memory(scenario) == [] == check(scenario, 3)


def test_random_programs_draw_nasty_names() -> None:
    """Most of the names are drawn sooner or later, and programs stay what they are."""
    seen: set[str] = set()
    for seed in range(60):
        text = scenario_of(seed, nasty=True).text
        seen |= {word for name in re.findall(r"[A-Za-z_][\w.]*", text) for word in name.split(".")}
        assert len(parse(text).rules) == len(parse(scenario_of(seed, nasty=False).text).rules) or seed % 7 == 3
    assert len(seen & {*ENGINES, *OWN, *KEYWORDS, *PYTHON}) > 200


@by_day(1)
@pytest.mark.parametrize("seed", one_in([3_100_001, 3_100_003, 3_100_010], 3))
def test_nasty_names_in_files(seed: int) -> None:
    """A few of those of which ``random_search --nasty`` runs thousands."""
    assert check(scenario_of(seed, nasty=True), 1 + seed % 3) == []


@pytest.mark.parametrize("seed", seeds(0, 5))
def test_queries_with_nasty_names_in_both_engines(seed: int, spark: SparkSession) -> None:
    """Each query of the rules finds the same rows in Spark as in DuckDB."""
    assert check_queries(scenario_of(seed, nasty=True), spark) == []


def test_case_twins_in_files() -> None:
    """Relations, columns and rules that differ in case only."""
    batches: list[Batch] = [{"A": [("+", (2, 3))], "a": [("-", (1, 2))]}, {"A": [("-", (2, 3))]}]
    scenario = Scenario(
        """
        input relation A(x: int, X: int)  input relation a(x: int, X: int)
        output P.  output p.
        r: P(x, X) :- A(x, X), !a(X, x).
        R: p(x, X) :- a(x, X).
        R_2: p(x, Y) :- p(x, X), P(X, Y).
        """,
        {"A": {(1, 2), (2, 1)}, "a": {(1, 2), (0, 1)}},
        batches,
    )
    assert check_in_memory(scenario) == []
    assert check(scenario, 2) == []


# ---- the job's commands --------------------------------------------------------------------------------------------

NASTY = """
    input relation rowid(rowid: int, _op: string, op: int, A: int, a: int)
    input relation Select._x(metadata: int, filename: string) primary key (metadata)
    output relation Count(ROWID: int, _rank: string, batch: int, Op: int)
    output relation count(op: int, _support: int)
    output relation reach.__1(rowid: int, _metadata: int)
    _1: Count(x, op, A, a) :- rowid(x, op, _, A, a).
    __1: count(A, count<*>) :- rowid(_, _, _, A, _).
    None: reach.__1(A, a) :- rowid(_, _, _, A, a), !Select._x(A, "gone").
    none: reach.__1(A, b) :- rowid(_, _, _, A, a), reach.__1(a, b).
"""
FIRST = {(1, "x", 1, 0, 1), (2, "it's", 2, 1, 2), (3, "", 3, 2, 0), (4, "y", 4, 2, 5)}
THEN: Batch = {
    "rowid": [("-", (3, "", 3, 2, 0)), ("+", (5, "op", 0, 5, 6))],
    "Select._x": [("+", (0, "gone"))],
}


def write_rows(path: Path, columns: list[str], rows: list[tuple[object, ...]]) -> str:
    """Write rows in the format that the name says; returns the path."""
    import csv
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.suffix == ".parquet":
        pq.write_table(pa.table([list(column) for column in zip(*rows, strict=True)], names=columns), path)
        return str(path)
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            quoted = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
            quoted.writerows([columns, *rows])
        else:
            file.writelines(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    return str(path)


@by_day(1)
@pytest.mark.parametrize(
    ("form", "engine"),
    [("csv", "duckdb"), *(pytest.param(form, "spark", marks=AT_NIGHT) for form in ("json", "parquet"))],
)
def test_commands(
    form: str, engine: str, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files whose columns have such names are read, printed, explained and published."""
    import pyarrow.parquet as pq

    module: Any = load_script(compile_text(NASTY, "nasty.dl")[1])
    log, state = module.Log(quiet=True), str(tmp_path / "state")
    columns = ["rowid", "_op", "op", "A", "a"]
    given = {"rowid": write_rows(tmp_path / f"rowid.{form}", columns, sorted(FIRST))}
    module.init(spark, state, given, buckets=2, engine=engine, log=log)
    made = [(op, *row) for op, row in THEN["rowid"]]
    given = {
        "rowid": write_rows(tmp_path / f"then.{form}", ["__op", *columns], made),
        "Select._x": write_rows(tmp_path / f"x.{form}", ["op", "metadata", "filename"], [("+", 0, "gone")]),
    }
    module.apply(spark, state, given, "batch=1", engine=engine, log=log)
    program = parse(NASTY)
    after = apply(apply({}, {"rowid": [("+", row) for row in FIRST]}, program), THEN, program)
    expected = evaluate(program, after)
    for name, rows in expected.items():
        assert {tuple(row) for row in module.relation(spark, state, name).collect()} == rows
    assert module.verify(spark, state, engine=engine, log=log)["differences"] == []
    said = module.explain(spark, state, "reach.__1(1, 5)", engine=engine)
    assert said["present"] and said["tuples"][0]["rule"] in ("None", "none")
    published = {path.name for path in (tmp_path / "state" / "published").iterdir()}
    assert published >= {"Count", "reach.__1"}
    (folder,) = (tmp_path / "state" / "published" / "Count" / "changes").glob("batch=batch*1")
    (file,) = folder.glob("*.parquet")
    assert pq.ParquetFile(file).schema_arrow.names == ["op", "ROWID", "_rank", "batch", "Op"]
    assert module.main(["show", "--state", state, "Count", "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "ROWID,_rank,batch,Op"
    assert module.main(["status", "--state", state]) == 0
    assert "reach.__1" in capsys.readouterr().out
    del sys.modules[module.__name__]


@AT_NIGHT
def test_upgrade_of_states_with_other_names(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state whose tables and columns an earlier version named is refused, and upgraded or rebuilt without loss."""
    text = """
        input relation rowid(k: int, rowid: int)
        input relation filename(rowid: int) primary key (rowid)
        output relation p(k: int, filename: int)
        output relation metadata(rowid: int, n: int)
        p(K, V) :- rowid(K, V), filename(V).
        p(K, V) :- rowid(K, J), p(J, V).
        metadata(V, count<*>) :- p(_, V).
    """
    with monkeypatch.context() as patch:
        patch.setattr("flintlog.compiler.naming.PSEUDO_COLUMNS", frozenset())
        old: Any = load_script(compile_text(text, "names.dl")[1])
    new: Any = load_script(compile_text(text, "names.dl")[1])
    assert [r.table for r in old.PROGRAM.relations] == ["rowid", "filename", "p", "metadata"]
    assert [r.table for r in new.PROGRAM.relations] == ["rowid_", "filename_", "p", "metadata_"]
    log, state = old.Log(quiet=True), str(tmp_path / "state")
    links = {(1, 2), (2, 3), (3, 4), (5, 3)}
    given = {
        "rowid": write_rows(tmp_path / "rowid.csv", ["k", "rowid"], sorted(links)),
        "filename": write_rows(tmp_path / "filename.csv", ["rowid"], [(3,), (4,)]),
    }
    old.init(spark, state, given, buckets=2, log=log)
    one = {"rowid": write_rows(tmp_path / "more.csv", ["op", "k", "rowid"], [("+", 6, 5), ("-", 5, 3)])}
    old.apply(spark, state, one, "one", log=log)
    links = links - {(5, 3)} | {(6, 5)}
    with pytest.raises(new.JobError, match=r"rowid has different rules.*`upgrade`"):
        new.apply(spark, state, one, "two", log=log)
    program = parse(text)
    inputs: dict[str, set[tuple[Any, ...]]] = {"rowid": {*links}, "filename": {(3,), (4,)}}
    shutil.copytree(state, tmp_path / "copy")
    for command, place in ((new.upgrade, state), (new.rebuild, str(tmp_path / "copy"))):
        done = command(spark, place, log=log)
        assert done.get("dropped", []) == []
        # As every file of a state, also a copy is forced to the disk, and damage to it is seen.
        stored = new.stored_files(new.read_manifest(Path(place)))
        assert stored and all(re.search(r"\.[0-9a-f]{8}\.[0-9]+\.parquet$", name) for name in stored)
        for name, rows in {**inputs, **evaluate(program, inputs)}.items():
            assert {tuple(row) for row in new.relation(spark, place, name).collect()} == rows
        assert new.verify(spark, place, log=log)["differences"] == []
        published = {path.name for path in Path(place, "published", "p", "changes").iterdir()}
        assert published == {"batch=one"}, "nothing has changed"
        new.apply(
            spark,
            place,
            {"rowid": write_rows(tmp_path / "x.csv", ["k", "rowid"], [(9, 1)])},
            "last",
            all_inserts=True,
            log=log,
        )
        after = {**inputs, "rowid": {*links, (9, 1)}}
        assert {tuple(row) for row in new.relation(spark, place, "p").collect()} == evaluate(program, after)["p"]
        assert new.verify(spark, place, log=log)["differences"] == []
    for module in (old, new):
        del sys.modules[module.__name__]


def test_twins_in_another_order_keep_their_rows(tmp_path: Path, spark: SparkSession) -> None:
    """Tables of names that differ in case are told apart by the order of declarations; upgrades go by the names."""
    twins = ["input relation a(x: int)", "input relation A(x: int)"]
    rest = "output relation p(x: int)  p(X) :- a(X), !A(X)."
    modules: list[Any] = [
        load_script(compile_text("\n".join([*order, rest]), "twins.dl")[1]) for order in (twins, twins[::-1])
    ]
    old, new = modules
    log, state = old.Log(quiet=True), str(tmp_path / "state")
    given = {
        "a": write_rows(tmp_path / "a.csv", ["x"], [(1,), (2,)]),
        "A": write_rows(tmp_path / "A_.csv", ["x"], [(2,), (3,)]),
    }
    old.init(spark, state, given, buckets=1, log=log)
    with pytest.raises(new.JobError, match="is stored under a different name"):
        new.apply(spark, state, given, log=log)
    new.upgrade(spark, state, log=log)
    for name, rows in (("a", {1, 2}), ("A", {2, 3}), ("p", {1})):
        assert {row[0] for row in new.relation(spark, state, name).collect()} == rows
    for module in (old, new):
        del sys.modules[module.__name__]
