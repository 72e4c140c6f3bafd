"""Inputs whose copies count: in random programs and batches, in all commands of a job, and in this process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flintlog
import pytest
from flintlog.compiler.cli import main

from golden_tests.checks import Checked
from golden_tests.harness import LocalJob, MemoryJob, RoundsJob, compile_text, load_script
from golden_tests.nightly import AT_NIGHT, by_day, seeds
from golden_tests.oracle.batches import Batch
from golden_tests.random_search import check, check_in_memory, check_queries, scenario_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
input multiset relation sale(item: string, price: int)
output relation total(item: string, all: int, times: int)
output relation sold(item: string)
total(I, sum<P>, count<*>) :- sale(I, P).
sold(I) :- sale(I, _).
"""

AS_A_SET = PROGRAM.replace("multiset ", "")

#: Each aggregate over copies of each type of number, and products of copies of two relations.
NUMBERS = """
input multiset relation m(g: int, i: int, f: float, d: decimal(10,3), o: int?)
input multiset relation n(g: int)
output relation ints(g: int, s: int, c: int, a: float, least: int, most: int)
output relation floats(s: float, a: float)
output relation decimals(g: int, s: decimal(38,3), a: float, c: int)
output relation options(o: int?, n: int)
output relation sums(g: int, s: int)
output relation means(a: float)
output relation products(g: int, s: int, c: int)
output relation distinct_ones(c: int, s: int)
output relation dearest(g: int, most: int, f: float)
output relation without(g: int, c: int)
ints(G, sum<I>, count<*>, avg<I>, min<I>, max<I>) :- m(G, I, _, _, _).
floats(sum<F>, avg<F>) :- m(_, _, F, _, _).
decimals(G, sum<D>, avg<D>, count<D>) :- m(G, _, _, D, _).
options(O, count<*>) :- m(_, _, _, _, O).
sums(G, sum<O>) :- m(G, _, _, _, O).
means(avg<O>) :- m(_, _, _, _, O).
products(G, sum<I>, count<*>) :- m(G, I, _, _, _), n(G), m(_, I, _, _, _).
products(G, sum<I>, count<*>) :- n(G), n(I), G < I.
distinct_ones(count<distinct I>, sum<I>) :- m(_, I, _, _, _).
dearest(G, max<I>, F) :- m(G, I, F, _, _).
without(G, count<*>) :- n(G), !m(G, _, _, _, _).
"""

VALUES: dict[str, tuple[Any, ...]] = {
    "g": (1, 2, 3),
    "i": (-7, -1, 0, 5, 4_000_000_000_000_000_000),
    "f": (0.1, -0.1, 1e16, -1e16, 3.3),
    "d": (Decimal("0.001"), Decimal("-1234567.899"), Decimal("9999999.999")),
    "o": (None, -3, 0, 8),
}


@by_day(1)
@pytest.mark.parametrize("seed", seeds(2, 11))
def test_seeds(seed: int) -> None:
    """Copies under aggregates, and sets everywhere else: in joins, negation, paths and recursions."""
    assert check_in_memory(scenario_of(seed, nulls=seed % 2 == 0, multisets=True)) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(2, 5))
def test_seeds_in_files(seed: int) -> None:
    """The same with the state in files and in buckets."""
    assert check(scenario_of(seed, seed % 2 == 0, nulls=seed % 3 == 0, multisets=True), 1 + seed % 3) == []


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_queries_in_spark(seed: int, spark: SparkSession) -> None:
    """Spark finds the same rows as DuckDB."""
    assert check_queries(scenario_of(seed, multisets=True), spark) == []


def numbers(rng: random.Random) -> list[Batch]:
    """Batches of NUMBERS, some of which delete more copies than there are, or have sums that do not fit."""
    known: Counter[tuple[Any, ...]] = Counter()
    batches: list[Batch] = []
    for _ in range(6):
        batch: Batch = {"m": [], "n": []}
        for _ in range(rng.randrange(9)):
            row = tuple(rng.choice(values) for values in VALUES.values())
            if row[1] > 5 and rng.random() < 0.7:
                continue
            batch["m"] += [("+", row)] * rng.choice((1, 1, 2, 3))
        for row in rng.sample(sorted(known, key=repr), min(len(known), rng.randrange(5))):
            batch["m"] += [("-", row)] * rng.randint(1, known[row] + (rng.random() < 0.04))
        batch["n"] += [(rng.choice("++-"), (rng.choice(VALUES["g"]),)) for _ in range(rng.randrange(4))]
        rng.shuffle(batch["m"])
        batches.append(batch)
        for op, row in batch["m"]:
            known[row] += 1 if op == "+" else -1
        known = +known
    return batches


def played(job: LocalJob | MemoryJob, text: str, batches: list[Batch]) -> Counter[str]:
    """Play batches on a job and the oracle, and return how often which of them were refused."""
    compilation = compile_text(text)[0]
    try:
        checked = Checked(job, text, compilation)
        heard: Counter[str] = Counter()
        for batch in batches:
            assert checked.apply(batch) == []
            heard["copies" if "more than it inserts" in checked.refused else checked.refused[:10]] += 1
        return heard
    finally:
        job.close()


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_numbers(seed: int, tmp_path: Path) -> None:
    """Sums and averages of ints, floats, decimals and values that may be null, whatever the batches net."""
    compilation, script = compile_text(NUMBERS)
    batches = numbers(random.Random(seed))
    heard = played(MemoryJob(compilation), NUMBERS, batches)
    if seed % 5 == 0:
        assert heard == played(LocalJob(script, tmp_path, 1 + seed % 3), NUMBERS, batches)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_numbers_in_spark(seed: int, tmp_path: Path, spark: SparkSession) -> None:
    """The same by Spark's engine."""
    played(RoundsJob(compile_text(NUMBERS)[1], tmp_path, spark, 2), NUMBERS, numbers(random.Random(seed)))


# ---- jobs ----------------------------------------------------------------------------------------------------------


class Shop:
    """A job with sales, and its state."""

    def __init__(self, folder: Path) -> None:
        """Compile the program, and the same one with a set in place of the multiset."""
        self.folder, self.state = folder, str(folder / "state")
        self.job, self.set_job = (load_script(compile_text(text, "shop.dl")[1]).JOB for text in (PROGRAM, AS_A_SET))
        self.batches = 0

    def file(self, *changes: str) -> dict[str, list[str]]:
        """Write a file of changes such as ``+tea,3``, and return it as the source of the relation."""
        self.batches += 1
        path = self.folder / f"{self.batches}.csv"
        lines = [f"{change[0]},{change[1:]}" for change in changes]
        path.write_text("\n".join(["op,item,price", *lines, ""]), encoding="utf-8")
        return {"sale": [str(path)]}

    def apply(self, *changes: str, **options: Any) -> dict[str, Any]:
        """Apply a batch, and return the result."""
        found: dict[str, Any] = self.job.apply(None, self.state, self.file(*changes), **options)
        return found

    def totals(self, job: Any = None, **options: Any) -> dict[str, tuple[int, int]]:
        """Return the sum and the number of the sales of each item; the state is exact."""
        job = job or self.job
        rows = job.relation(None, self.state, "total", **options).to_pylist()
        assert job.verify(None, self.state)["differences"] == []
        return {row["item"]: (row["all"], row["times"]) for row in rows}

    def copies(self) -> dict[tuple[str, int], int]:
        """Return the number of copies of each row."""
        rows = self.job.relation(None, self.state, "sale", support=True).to_pylist()
        return {(row["item"], row["price"]): row["_support"] for row in rows}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A job whose state has three sales of tea."""
    made = Shop(tmp_path)
    made.job.init(None, made.state, made.file("+tea,3", "+tea,3", "+tea,4"), buckets=2)
    return made


def test_batches_net_copies(shop: Shop) -> None:
    """In any order, and with an order column too; what was inserted twice counts two."""
    assert shop.totals() == {"tea": (10, 3)}
    changed = shop.apply("-tea,3", "-tea,3", "+tea,3", "+rice,1", "+rice,1")["changes"]
    assert changed["sale"] == {"inserted": 1, "deleted": 0}
    assert shop.copies() == {("tea", 3): 1, ("tea", 4): 1, ("rice", 1): 2}
    assert shop.apply("-rice,1", "+rice,1", net="insert")["changes"].get("sale") is None
    path = shop.folder / "ordered.csv"
    path.write_text("op,item,price,at\n+,rice,1,2\n-,rice,1,1\n-,rice,1,1\n-,rice,1,1\n", encoding="utf-8")
    shop.job.apply(None, shop.state, {"sale": [str(path)]}, order_column="at")
    assert shop.totals() == {"tea": (7, 2)}
    images = shop.folder / "images.csv"
    images.write_text("op,item,price\nupdate_preimage,tea,3\nupdate_postimage,tea,4\n", encoding="utf-8")
    shop.job.apply(None, shop.state, {"sale": [str(images)]})
    assert shop.copies() == {("tea", 4): 2}


@pytest.mark.parametrize("buckets", [1, 3])
def test_deleting_more_than_there_are_is_refused(tmp_path: Path, buckets: int) -> None:
    """With the file, the row and the number of copies; nothing has changed."""
    shop = Shop(tmp_path)
    shop.job.init(None, shop.state, shop.file("+tea,3", "+tea,3", "+rice,5"), buckets=buckets)
    for changes, said in (
        (
            ("+tea,1", "-tea,3", "-tea,3", "-tea,3"),
            r"3 copies of the row with item = \"tea\", price = 3 \(.*2.csv, row 2\)",
        ),
        (("-milk,1",), r"1 copy of the row with item = \"milk\", price = 1 \(.*3.csv, row 1\).* and there is no copy"),
        (("-rice,5", "-rice,5"), r"4.csv, row 1\) more than it inserts, and there is 1 copy"),
    ):
        with pytest.raises(Exception, match=said) as caught:
            shop.apply(*changes)
        assert type(caught.value).__name__ == "Refused"
    assert shop.totals() == {"tea": (6, 2), "rice": (5, 1)}


def test_commands_of_operators(shop: Shop, tmp_path: Path) -> None:
    """History, revert, rollback, earlier states, changes, rebuild, export and import."""
    job, state = shop.job, shop.state
    shop.apply("-tea,3", "+rice,1", "+rice,1", batch="b")
    shop.apply("+rice,1", batch="c")
    assert shop.totals() == {"tea": (7, 2), "rice": (3, 3)}
    assert job.history(state)["commits"][1]["in"] == {"sale": {"inserted": 2, "deleted": 1}}
    job.revert(None, state, "b")
    assert shop.totals() == {"tea": (10, 3), "rice": (1, 1)}
    with pytest.raises(Exception, match="more than it inserts"):
        job.revert(None, state, "b", batch="again")
    assert shop.totals(as_of=2) == {"tea": (7, 2), "rice": (2, 2)}
    job.rollback(None, state, to=2)
    assert shop.totals() == {"tea": (7, 2), "rice": (2, 2)}
    job.rebuild(None, state, buckets=3)
    assert shop.totals() == {"tea": (7, 2), "rice": (2, 2)}
    assert shop.copies() == {("tea", 3): 1, ("tea", 4): 1, ("rice", 1): 2}
    job.rebuild(None, state, shop.file("+tea,3", "+tea,3"))
    assert shop.totals() == {"tea": (6, 2)}


def test_explanations(shop: Shop) -> None:
    """A proof has the copies of a row, and what is missing is told as in the program."""
    proof = shop.job.explain(None, shop.state, 'total("tea", 10, 3)')["tuples"]
    assert [node["tuple"] for node in proof[1:]] == [
        'sale("tea", 3), copy 1',
        'sale("tea", 3), copy 2',
        'sale("tea", 4), copy 1',
    ]
    assert proof[1]["values"] == ["tea", 3]
    assert [node["tuple"] for node in shop.job.explain(None, shop.state, 'sold("tea")')["tuples"]][1:2] == [
        'sale("tea", 3)'
    ]
    (missing,) = shop.job.explain(None, shop.state, 'total("milk", 1, 1)')["rules"]
    assert (missing["missing"], missing["step"]) == ('sale("milk", _)', "sale(I, P)")


def test_upgrades_to_and_from_a_set(shop: Shop) -> None:
    """Copies become one row; each row becomes one copy; and a new column asks for rows."""
    shop.set_job.upgrade(None, shop.state)
    assert shop.totals(shop.set_job) == {"tea": (7, 2)}
    shop.set_job.apply(None, shop.state, shop.file("+tea,3", "+rice,2"))
    shop.job.upgrade(None, shop.state)
    assert shop.totals() == {"tea": (7, 2), "rice": (2, 1)}
    shop.apply("+tea,3", "+tea,3")
    assert shop.totals() == {"tea": (13, 4), "rice": (2, 1)}
    shop.job.upgrade(None, shop.state, shop.file("+tea,3", "+tea,3"))
    other = load_script(
        compile_text(PROGRAM.replace("sold(I) :- sale(I, _).", "sold(I) :- sale(I, 3)."), "shop.dl")[1]
    ).JOB
    other.upgrade(None, shop.state)
    shop.job = other
    assert shop.copies() == {("tea", 3): shop.totals()["tea"][1]}
    wider = PROGRAM.replace("price: int", "price: int, by: string", 1).replace("sale(I, P)", "sale(I, P, _)")
    wider = wider.replace("sale(I, _)", "sale(I, _, _)")
    with pytest.raises(Exception, match="the columns of sale differ"):
        load_script(compile_text(wider, "shop.dl")[1]).JOB.upgrade(None, shop.state)


@AT_NIGHT
def test_in_spark(tmp_path: Path, spark: SparkSession) -> None:
    """By tasks of Spark and by its engine: the same totals, and the same refusal."""
    shop = Shop(tmp_path)
    shop.job.init(spark, shop.state, shop.file("+tea,3", "+tea,3", "+rice,5"), buckets=2)
    for engine in ("duckdb", "spark"):
        shop.job.apply(spark, shop.state, shop.file("+tea,3", "-rice,5", "+rice,5"), engine=engine)
        with pytest.raises(Exception, match=r"row 1\) more than it inserts, and there is 1 copy"):
            shop.job.apply(spark, shop.state, shop.file("-rice,5", "-rice,5"), engine=engine)
    assert shop.totals() == {"tea": (12, 4), "rice": (5, 1)}
    shop.job.rebuild(spark, shop.state, engine="spark")
    shop.set_job.upgrade(spark, shop.state)
    shop.job.upgrade(spark, shop.state)
    assert shop.totals() == {"tea": (3, 1), "rice": (5, 1)}
    frame = spark.createDataFrame(
        [("-", "rice", 5), ("+", "tea", 3), ("+", "tea", 3)], "op string, item string, price long"
    )
    shop.job.apply(spark, shop.state, {"sale": frame})
    assert shop.totals() == {"tea": (9, 3)}


# ---- in this process -----------------------------------------------------------------------------------------------


def test_python() -> None:
    """Rows may be equal, and are deleted one by one."""
    session = flintlog.Session(PROGRAM, {"sale": [("tea", 3), ("tea", 3), ("rice", 1)]})
    assert session["total"].to_list() == [("rice", 1, 1), ("tea", 6, 2)]
    changes = session.apply(delete={"sale": [("tea", 3), ("tea", 3)]}, insert={"sale": [("tea", 3)]})
    assert changes["total"].deleted.to_list() == [("tea", 6, 2)]
    assert session["total"].to_list() == [("rice", 1, 1), ("tea", 3, 1)]
    with pytest.raises(flintlog.JobError, match=r"deletes 2 copies .* and there is 1 copy"):
        session.apply(delete={"sale": [("rice", 1), ("rice", 1)]})
    assert session["sale"].to_list() == [("rice", 1), ("tea", 3)]


Say = Callable[..., str]


@pytest.fixture
def say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs a command on the program, and returns what it prints."""
    (tmp_path / "shop.dl").write_text(PROGRAM, encoding="utf-8")

    def ran(*arguments: str) -> str:
        capsys.readouterr()
        main.main([part.replace("@", f"{tmp_path}/") for part in arguments], standalone_mode=False)
        return capsys.readouterr().out

    return ran


def test_run(say: Say, tmp_path: Path) -> None:
    """Files of facts may have equal rows."""
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "sale.csv").write_text("item,price\ntea,3\ntea,3\n", encoding="utf-8")
    assert "tea   6    2" in say("run", "@shop.dl", "--facts", "@facts")


def test_replay(say: Say, tmp_path: Path) -> None:
    """Each update is a copy; a transaction nets them, and ``clear`` removes all."""
    (tmp_path / "shop.dat").write_text(
        'start; insert sale("tea", 3), insert sale("tea", 3), insert sale("rice", 1); commit dump_changes;\n'
        'start; delete sale("tea", 3), insert sale("rice", 2); commit dump_changes;\n'
        'start; clear sale; insert sale("tea", 3), insert sale("tea", 3), insert sale("tea", 3); commit dump_changes;\n'
        'start; delete sale("tea", 3), delete sale("tea", 3), insert sale("tea", 3); rollback;\n'
        "dump total; dump sale;\n",
        encoding="utf-8",
    )
    said = say("replay", "@shop.dl", "@shop.dat")
    assert 'total{.item = "tea", .all = 3, .times = 1}: +1' in said
    assert 'total{.item = "rice", .all = 3, .times = 2}: +1' in said
    assert said.endswith('total{.item = "tea", .all = 9, .times = 3}\nsale{.item = "tea", .price = 3}\n')


def test_test_files(say: Say, tmp_path: Path) -> None:
    """Rows of tests may be equal, and a batch is refused as in a job."""
    (tmp_path / "shop.test.toml").write_text(
        """
[[test]]
name = "copies"
given.sale = [["tea", 3], ["tea", 3]]
expect.total = [["tea", 6, 2]]

[[test.batch]]
delete.sale = [["tea", 3]]
expect.sale = [["tea", 3]]
changes.total.insert = [["tea", 3, 1]]
changes.total.delete = [["tea", 6, 2]]

[[test.batch]]
delete.sale = [["tea", 3], ["tea", 3]]
refused = "and there is 1 copy"
""",
        encoding="utf-8",
    )
    assert "1 passed" in say("test", "@shop.test.toml")


def test_reviews(say: Say, tmp_path: Path) -> None:
    """``explain`` says how copies are stored; ``diff`` that a multiset has other sums, and keeps the rows."""
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "shop.dl").write_text(AS_A_SET, encoding="utf-8")
    assert "sale is a multiset. Each copy of a row" in say("explain", "@shop.dl")
    said = say("diff", "@set/shop.dl", "@shop.dl")
    assert "`sale`: it is `input multiset`, was `input`" in said
    assert "`total`: its tuples may differ, since `sale` is input multiset, was input" in said
    assert "recomputes  `sale`, from its rows" in said


@by_day(2)
@pytest.mark.parametrize("path", ["(^m)(X, Y)", "^m(Y, X)", "m?(X, Y), n(X, Y)", "(m / n)(X, Y)", "(^m | n)(X, Y)"])
def test_paths_see_sets_under_aggregates(path: str) -> None:
    """Also a path of one step: its copies do not count, while those of atoms beside it do."""
    text = "input multiset relation m(x: int, y: int)\ninput multiset relation n(x: int, y: int)\noutput p.\n"
    text += f"p(X, sum<Y>, count<*>) :- {path}, n(X, _).\n"
    compilation = compile_text(text)[0]
    job = MemoryJob(compilation)
    checked = Checked(job, text, compilation)
    rows = [(1, 2), (1, 2), (1, 2), (2, 1), (2, 2), (2, 2)]
    assert checked.build({"m": Counter(rows), "n": Counter([*rows, (1, 2), (2, 3)])}) == []
    for batch in ({"m": [("-", (1, 2)), ("+", (2, 1))]}, {"m": [("-", (1, 2)), ("-", (1, 2))]}):
        assert checked.apply(batch) == []
        assert not checked.refused
    job.close()
