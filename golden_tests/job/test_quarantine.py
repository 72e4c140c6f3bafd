"""``--quarantine``: a batch with bad rows has the effect that it has without them, and they are in a file, once."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile
from flintlog.targets.pyspark.emit import emit_script

from golden_tests.addons.feeds.envelopes import MemoryTopic
from golden_tests.addons.feeds.world import RECORDED, FeedWorld, applied, refusal
from golden_tests.harness import VERSION, compile_text, load_script
from golden_tests.job.kill import STEPS, in_child, kill_at
from golden_tests.nightly import AT_NIGHT, by_day, seeds

SET = """
input relation item(id: int, shop: string, size: int, price: decimal(4,1), note: string?)
output relation total(shop: string, sizes: int)
total(P, sum<S>) :- item(_, P, S, _, _).
"""

KEYED = SET.replace("string?)", "string?) primary key (id)")

COLUMNS = ("id", "shop", "size", "price", "note", "op", "at")

# Columns that are neither of the key nor optional, and what is wrong with a row that lacks one.
OTHERS, LACKING = ("shop", "size", "price"), ("null", "missing")

Made = Callable[[str], FeedWorld]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Made]:
    """Makes a job in a folder of its own."""
    made: list[FeedWorld] = []

    def one(program: str) -> FeedWorld:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(FeedWorld(folder, program))
        return made[-1]

    yield one
    for world in made:
        world.close()


# ---- random files ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """A line of a file, or a row of Parquet: bad for a ``column`` and a ``reason``, unless that is empty."""

    content: Any
    column: str | None = None
    reason: str = ""


def good_row(rng: random.Random, keyed: bool) -> dict[str, Any]:
    """A change whose values hurt, but not for being wrong."""
    return {
        "id": rng.randrange(4) if keyed else rng.choice((0, -1, 2**63 - 1, 7)),
        "shop": rng.choice(("", "a", "null", "\u2028", 'say "b", c', "\ud7ff")),
        "size": rng.randrange(-3, 3),
        "price": rng.choice(("0.5", "-99.9", "3")),
        "note": rng.choice((None, "", "n")),
        "op": rng.choice(("+", "c", "d", "-")),
        "at": rng.randrange(5),
    }


def csv_line(row: dict[str, Any], names: tuple[str, ...]) -> str:
    """A row as a line of CSV: strings in quotes."""
    fields = []
    for name in names:
        value = row[name]
        text = "" if value is None else str(value)
        quoted = name in ("shop", "note") and value is not None
        fields.append('"' + text.replace('"', '""') + '"' if quoted else text)
    return ",".join(fields)


def csv_lines(rng: random.Random, row: dict[str, Any], names: tuple[str, ...], bad: bool) -> Line:
    """A line of a CSV file."""
    if not bad:
        return Line(csv_line(row, names))
    line = csv_line(row, names)
    kind = rng.randrange(8)
    if kind == 0:
        return Line(f"{line},", None, f"{len(names) + 1} fields instead of {len(names)}")
    if kind == 1:
        return Line(f'"x"y,{line}', None, "text after a closing quote")
    name, value, reason = (
        ("size", "x", '"x" is not an int'),
        ("size", 2**63, "does not fit 64 bits"),
        ("price", "0.55", "too many digits"),
        ("id", "", "null"),
        ("shop", None, "null"),
        ("op", "upset", 'unknown operation "upset"'),
    )[kind - 2]
    return Line(csv_line({**row, name: value}, names), name, reason)


def plain_lines(rng: random.Random, row: dict[str, Any], names: tuple[str, ...], bad: bool) -> Line:
    """A line of a CSV file without quotes, which Arrow splits as far as it can."""
    row |= {"shop": rng.choice(("a", "null", "\u2028")), "note": rng.choice((None, "n"))}
    while True:
        line = csv_lines(rng, row, names, bad)
        if line.column or not line.reason.startswith("text"):
            return Line(line.content.replace('"', ""), line.column, line.reason)


def json_lines(rng: random.Random, row: dict[str, Any], names: tuple[str, ...], bad: bool) -> Line:
    """A line of a JSON file."""
    row = {name: row[name] for name in names}
    if not bad:
        return Line(json.dumps(row))
    kind = rng.randrange(9)
    if kind == 0:
        return Line(json.dumps(row)[:-1], None, "broken JSON")
    if kind == 1:
        return Line(json.dumps(list(row.values())), None, "not a JSON object")
    if kind == 2:
        return Line(f'{{"id": 1, {json.dumps(row)[1:]}', None, "two members have the same name")
    if kind == 3:
        del row["size"]
        return Line(json.dumps(row), "size", "missing")
    if kind == 4:
        row["size"] = "HUGE"
        return Line(json.dumps(row).replace('"HUGE"', "1e999999999"), "size", "does not fit 64 bits")
    name, value, reason = (
        ("size", "7", "text in quotes"),
        ("shop", "\ud800", "half of a surrogate pair"),
        ("price", 0.55, "too many digits"),
        ("op", None, "null"),
    )[kind - 5]
    return Line(json.dumps({**row, name: value}), name, reason)


def parquet_rows(rng: random.Random, row: dict[str, Any], names: tuple[str, ...], bad: bool) -> Line:
    """A row of a Parquet file."""
    row = {name: row[name] for name in names}
    # Decimals, of which ints and prices are made.
    name, value, reason = rng.choice(
        (
            ("size", "0.5", "is not an int"),
            ("size", None, "null"),
            ("price", "1000.0", "too many digits"),
            ("shop", None, "null"),
            ("op", "upset", 'unknown operation "upset"'),
        )
    )
    return Line({**row, name: value}, name, reason) if bad else Line(row)


KINDS: dict[str, Callable[[random.Random, dict[str, Any], tuple[str, ...], bool], Line]] = {
    ".csv": csv_lines,
    "-plain.csv": plain_lines,
    ".jsonl": json_lines,
    ".parquet": parquet_rows,
}


def write(path: Path, names: tuple[str, ...], lines: list[Line]) -> str:
    """Write a file, and return its path."""
    if path.suffix == ".csv":
        text = "\n".join([",".join(names), *(line.content for line in lines), ""])
        path.write_text(text, encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{line.content}\n" for line in lines), encoding="utf-8")
    else:
        kinds = {"id": pa.int64(), "shop": pa.string(), "note": pa.string(), "op": pa.string(), "at": pa.int64()}
        columns = {}
        for name in names:
            values = [line.content[name] for line in lines]
            if name not in kinds:
                texts = [None if value is None else str(value) for value in values]
                columns[name] = pa.array(texts, pa.string()).cast(pa.decimal128(9, 1))
            else:
                columns[name] = pa.array(values, kinds[name])
        pq.write_table(pa.table(columns), path)
    return str(path)


def random_lines(rng: random.Random, form: str, keyed: bool, ordered: bool, batch: int) -> list[Line]:
    """Return changes that do not contradict each other, or those of earlier batches, and bad rows among them."""
    names = COLUMNS if ordered else COLUMNS[:-1]
    lines, seen = [], set()
    for number in range(rng.randrange(12)):
        row = good_row(rng, keyed)
        bad = rng.random() < 0.4
        row["at"] = 100 * batch + number
        line = KINDS[form](rng, row, names, bad)
        if keyed and ordered and row["op"] in ("d", "-") and line.column in OTHERS and line.reason in LACKING:
            # A deletion needs no more than the key.
            line = Line(line.content)
        key = row["id"] if keyed else (row["id"], row["shop"], row["size"], row["price"], row["note"])
        if not line.reason:
            if key in seen and not ordered:
                continue
            seen.add(key)
        lines.append(line)
    return lines


def set_aside(folder: Path) -> list[dict[str, Any]]:
    """Return all rows that are visible below a folder."""
    files = sorted(folder.rglob("*.jsonl"))
    assert not [file for file in files if file.name.startswith(".")]
    return [json.loads(line) for file in files for line in file.read_text("utf-8").split("\n") if line]


@by_day(2)
@pytest.mark.parametrize("form", KINDS)
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_as_without_bad_rows(
    make: Made, form: str, keyed: bool, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with bad rows changes what the same file changes without them."""
    rng = random.Random(seed)
    ordered, fed = rng.random() < 0.5, rng.random() < 0.3
    world, other = (make(KEYED if keyed else SET) for _ in range(2))
    # Rows are read in small parts.
    for module in (world.job, other.job):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", rng.choice((1, 2, 3, 100_000)))
        monkeypatch.setattr(module, "CSV_BLOCK", rng.choice((40, 80, 1 << 24)))
    names = COLUMNS if ordered else COLUMNS[:-1]
    options = ["--order-column", "at"] if ordered else []
    folder, aside = world.folder / "incoming", tmp_path / "aside"
    folder.mkdir()
    if fed:
        assert world.run("connect", f"item=files:{folder}") == 0
    assert world.run("init", "--quarantine", str(aside)) == other.run("init") == 0
    for number in range(4):
        lines = random_lines(rng, form, keyed, ordered, number)
        good = [line for line in lines if not line.reason]
        if not good:
            # An empty file is refused.
            continue
        with_bad = write(folder / f"{number}{form}", names, lines)
        without = write(other.folder / f"good{form}", names, good)
        given = [] if fed else ["--changes", f"item={with_bad}", "--batch", str(number)]
        assert other.run("apply", "--changes", f"item={without}", *options) == 0
        if len(good) < len(lines):
            assert world.run("apply", *given, *options) == 1
        assert world.run("apply", *given, *options, "--quarantine", str(aside)) == 0
        assert world.rows("item") == other.rows("item")
        bad = [(row, line) for row, line in enumerate(lines, start=1) if line.reason]
        assert {n: one.rows for n, one in world.manifest.set_aside.items()} == ({"item": len(bad)} if bad else {})
        found = [one for one in set_aside(aside) if one["file"] == with_bad]
        assert [(one["row"], one["relation"]) for one in found] == [(row, "item") for row, _ in bad]
        for one, (_, line) in zip(found, bad, strict=True):
            (problem,) = (said for said in one["problems"] if said["column"] == line.column)
            assert line.reason in problem["reason"]
            if isinstance(one["values"], dict):
                assert one["values"].keys() <= {*names}
            elif form == ".jsonl" or line.reason.startswith("text"):
                assert one["values"] == line.content
    assert world.job.verify(None, str(world.state), log=world.job.Log(quiet=True))["differences"] == []


def test_set_aside_rows_can_be_mended(make: Made, tmp_path: Path) -> None:
    """The values of a file are rows of JSON, which can be applied once they are right."""
    world = make(KEYED)
    rows = [
        {"id": 1, "shop": "a", "size": "x", "price": 1.5, "note": None},
        {"id": 2, "shop": "\ud7ff", "size": "x", "price": "0.5", "note": "n"},
    ]
    path = tmp_path / "item.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert world.run("init", "--input", f"item={path}", "--quarantine", str(tmp_path / "aside")) == 0
    assert world.rows("item") == set()
    mended = [{**one["values"], "size": 7, "op": "+"} for one in set_aside(tmp_path / "aside")]
    path.write_text("".join(json.dumps(row) + "\n" for row in mended), encoding="utf-8")
    assert world.run("apply", "--changes", f"item={path}") == 0
    assert {row[:3] for row in world.rows("item")} == {(1, "a", 7), (2, "\ud7ff", 7)}


# ---- what is said, and what is refused nevertheless ------------------------------------------------------------------


def test_what_is_said(make: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Counts and places are in the result, the log and the history; nulls are left out if they are to be."""
    world, log, aside = make(KEYED), tmp_path / "log", tmp_path / "aside"
    path = tmp_path / "item.csv"
    path.write_text("op,id,shop,size,price,note\n+,1,a,1,1,\n+,2,,1,1,\n+,3,a,x,1,\nno,4,,1,1,\n+,5,a,x,99999,\n")
    options = ["--changes", f"item={path}", "--nulls", "skip", "--quarantine", str(aside), "--batch", "b/1"]
    assert world.run("init") == 0
    result = applied(world, capsys, *options, "--log", str(log))
    file = aside / "batch=b%2F1" / "item" / f"{world.manifest.attempt}.jsonl"
    assert (result["left_out"], result["set_aside"]) == ({"item": 1}, {"item": 3})
    assert result["quarantine"] == {"item": str(file)}
    assert f'relation=item rows=3 file="{file}"' in log.read_text()
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {
            "relation": "item",
            "file": str(path),
            "row": row,
            "problems": [{"column": column, "reason": reason} for column, reason in problems],
            "values": {**dict(zip(("id", "shop", "size", "price"), values, strict=True)), "note": None, "op": op},
        }
        for row, problems, values, op in (
            (3, [("size", '"x" is not an int')], ("3", "a", "x", "1"), "+"),
            (4, [("op", 'unknown operation "no"')], ("4", None, "1", "1"), "no"),
            (
                5,
                [("size", '"x" is not an int'), ("price", "99999 has too many digits for decimal(4,1)")],
                ("5", "a", "x", "99999"),
                "+",
            ),
        )
    ]
    assert applied(world, capsys, *options)["applied"] is False
    assert world.run("apply", *options[:-1], "b2") == 0
    said = capsys.readouterr().out
    assert "item: 1 tuple  (1 row with nulls left out, 3 rows set aside)" in said
    assert f"  set aside of item: {aside}/batch=b2/item/{world.manifest.attempt}.jsonl" in said
    assert world.run("history", "--limit", "1") == 0
    assert "  in: item, 3 rows set aside" in capsys.readouterr().out
    # Undone, and applied again: another attempt, in another folder.
    assert world.run("rollback", "--to", "2") == 0
    assert world.run("apply", *options[:-1], "b2") == 0
    assert (aside / "batch=b2@5" / "item" / f"{world.manifest.attempt}.jsonl").exists()
    assert world.run("status", "--quiet") == 0


def test_what_is_refused(make: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong with a file, or with several rows together, is no matter of one row; nothing is left behind."""
    world, aside, path = make(KEYED), tmp_path / "aside", tmp_path / "item.csv"
    assert world.run("init") == 0

    def said(text: str, *more: str) -> str:
        path.write_text(text)
        found = refusal(world, capsys, "--changes", f"item={path}", "--quarantine", str(aside), *more)
        assert not aside.exists() or not list(aside.iterdir())
        return found

    head, bad = "op,id,shop,size,price,note\n", "+,1,a,x,1,\n"
    assert "column note is missing" in said(f"op,id,shop,size,price\n{bad}")
    assert "row 2: a quote is not closed" in said(f'{head}{bad}+,2,"a,1,1,\n+,3,a,1,1,\n')
    assert "two different rows with the primary key" in said(f"{head}{bad}+,2,a,1,1,\n+,2,a,2,1,\n")
    assert f"deleted ({path}, row 2) and inserted ({path}, row 3)" in said(f"{head}{bad}-,2,a,1,1,\n+,2,a,1,1,\n")
    assert "column op is missing" in said(f"id,shop,size,price,note\n{bad[2:]}")
    assert "is not a folder; rows are set aside in a folder" in refusal(
        world, capsys, "--changes", f"item={path}", "--quarantine", str(path)
    )


def test_multisets(make: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Too many deletions are refused, with the place of the row among the bad ones; copies of bad rows all count."""
    world, aside, path = make(SET.replace("input", "input multiset")), tmp_path / "a", tmp_path / "i.csv"
    given = ["--changes", f"item={path}", "--quarantine", str(aside)]
    assert world.run("init") == 0
    path.write_text("op,id,shop,size,price,note\n+,1,a,x,1,\n-,2,a,1,1,\n")
    assert f"({path}, row 2)" in refusal(world, capsys, *given)
    assert not aside.exists() or not list(aside.iterdir())
    path.write_text("op,id,shop,size,price,note\n+,1,a,x,1,\n+,1,a,x,1,\n+,2,a,1,1,\n+,2,a,1,1,\n")
    assert applied(world, capsys, *given)["set_aside"] == {"item": 2}
    assert len(set_aside(aside)) == 2


def test_part(tmp_path: Path) -> None:
    """A script without the part says what it lacks, also if it has to finish what another one began."""
    plan = compile_program(SourceFile("net.dl", SET)).plan
    job: Any = load_script(emit_script(plan, VERSION, format_code=False, parts=("files",)))
    with pytest.raises(job.JobError, match=r"setting rows aside \(--quarantine\) is not in this .* --with quarantine"):
        job.init(None, str(tmp_path / "state"), quarantine=str(tmp_path / "aside"))
    del sys.modules[job.__name__]


def test_a_script_without_the_part(make: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot finish what another one has begun, and says so; once that is done, it goes on."""
    world, path = make(SET), tmp_path / "item.csv"
    state, log = str(world.state), world.job.Log(quiet=True)
    path.write_text("id,shop,size,price,note\n1,a,x,1,\n")
    with monkeypatch.context() as patch:
        patch.setattr(world.job, "finish_publication", lambda *_, **__: False)
        world.job.init(None, state, {"item": str(path)}, quarantine=str(tmp_path / "aside"), log=log)
    plan = compile_program(SourceFile("net.dl", SET)).plan
    other: Any = load_script(emit_script(plan, VERSION, format_code=False, parts=()))
    with pytest.raises(other.JobError, match=r"a batch with rows that are set aside is not in this script.*quarantine"):
        other.status(state)
    assert set_aside_files(tmp_path) == []
    assert world.job.status(state)["finished_publication"] is True
    assert len(set_aside_files(tmp_path)) == 1
    assert other.status(state)["finished_publication"] is False
    del sys.modules[other.__name__]


def test_archives(make: Made, tmp_path: Path) -> None:
    """Rows that were set aside inside the state are not part of it, and nobody waits for them in a copy."""
    world, path = make(SET), tmp_path / "item.csv"
    path.write_text("id,shop,size,price,note\n1,a,x,1,\n")
    assert world.run("init", "--input", f"item={path}", "--quarantine", str(world.state / "aside")) == 0
    assert world.manifest.set_aside["item"].folder == "aside/batch=init/item"
    assert len(set_aside(world.state / "aside")) == 1
    archive, copy = str(tmp_path / "state.tar"), str(tmp_path / "copy")
    world.job.export(str(world.state), archive)
    world.job.import_archive(copy, archive)
    assert world.job.status(copy)["finished_publication"] is False
    world.state.rename(tmp_path / "moved")
    assert world.job.status(str(tmp_path / "moved"))["commit"] == 1


# ---- feeds -----------------------------------------------------------------------------------------------------------


def test_delta_feed(make: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows have no numbers; both sides of an update are judged alone, and the numbers of rows are not compared."""
    world, table, aside = make(KEYED), str(tmp_path / "lake"), str(tmp_path / "aside")
    number, text = pa.int64(), pa.string()
    types = (number, text, number, pa.decimal128(8, 2), text)
    kinds = pa.schema(list(zip(COLUMNS[:5], types, strict=True)))

    def rows(*values: tuple[Any, ...]) -> pa.Table:
        plain = pa.Table.from_pylist([dict(zip(kinds.names, row, strict=True)) for row in values])
        return pa.table({f.name: plain.column(f.name).cast(pa.string()).cast(f.type) for f in kinds})

    write_deltalake(table, rows((1, "a", 1, 0.5, "n"), (2, None, 1, 0.5, "n")), configuration=RECORDED)
    assert world.run("connect", f"item=delta:{table}") == 0
    assert refusal(world, capsys, command="init")
    assert world.run("init", "--quarantine", aside) == 0
    assert {row[0] for row in world.rows("item")} == {1}
    write_deltalake(table, rows((3, "a", 1, 0.25, "n")), mode="append")
    assert "0.25" in refusal(world, capsys)
    DeltaTable(table).update(updates={"shop": "'b'"}, predicate="id = 2")
    DeltaTable(table).update(updates={"shop": "NULL"}, predicate="id = 1")
    result = applied(world, capsys, "--quarantine", aside)
    assert result["set_aside"] == {"item": 3}
    assert {row[:2] for row in world.rows("item")} == {(2, "b")}
    assert {(one["row"], one["values"]["id"]) for one in set_aside(Path(aside))} == {(None, n) for n in (1, 2, 3)}
    # Without the option, the numbers of rows tell that something is missing.
    write_deltalake(table, rows((4, "a", 1, 0.5, "n")), mode="append")
    assert "and this command lacks --nulls skip or --quarantine" in refusal(world, capsys)
    assert "set_aside" not in applied(world, capsys, "--quarantine", aside)
    assert applied(world, capsys, "--resync", "item", "--quarantine", aside)["set_aside"] == {"item": 2}
    assert {row[0] for row in world.rows("item")} == {2, 4}


def test_topics_are_refused(make: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By the name of the option, and why."""
    world = make(KEYED)
    MemoryTopic(1).install(world.job)
    assert world.run("connect", "item=kafka-debezium://broker:9092/items") == 0
    for command in ("init", "init", "apply"):
        option = ["--quarantine", str(tmp_path / "aside")] if command == "apply" or capsys.readouterr() else []
        if command == "apply":
            assert world.run("init") == 0
        assert "--quarantine cannot set messages of kafka-debezium://broker:9092/items aside" in refusal(
            world, capsys, *option, command=command
        )


# ---- kills -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def job() -> Iterator[Any]:
    """A script."""
    module: Any = load_script(compile_text(KEYED, "net.dl")[1])
    yield module
    del sys.modules[module.__name__]


@by_day(1)
@pytest.mark.parametrize("apart", [61, pytest.param(1, marks=AT_NIGHT)])
def test_killed(apart: int, job: Any, tmp_path: Path) -> None:
    """At whatever step in the state and in the folder: the rows are visible once, with the commit and not before."""
    built, now = tmp_path / "built", tmp_path / "now"
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    first.write_text("id,shop,size,price,note\n1,a,1,1,\n2,a,x,1,\n")
    second.write_text("op,id,shop,size,price,note\n+,3,a,1,1,\n+,4,a,x,1,\n+,5,,1,1,\n")
    third = tmp_path / "third.csv"
    third.write_text("op,id,shop,size,price,note\n+,9,a,1,1,\n")
    state, aside, log = str(now / "state"), now / "aside", job.Log(quiet=True)

    def apply(batch: str, **options: Any) -> Any:
        return job.apply(None, state, {"item": str(second)}, batch=batch, log=log, **options)

    def build() -> None:
        job.init(None, str(built / "state"), {"item": str(first)}, quarantine=str(built / "aside"), log=log)

    assert in_child(build) == 0
    for step in range(1, 10_000, apart):
        shutil.rmtree(now, ignore_errors=True)
        shutil.copytree(built, now)

        def killed(step: int = step) -> None:
            kill_at(step, lambda event, found: event in STEPS and str(now) in str(found[0]))
            apply("x", quarantine=str(aside))

        def check(step: int = step) -> None:
            committed = job.read_state(Path(state)).commit == 2
            shown = [one for one in set_aside_files(aside) if "batch=x" in one]
            assert committed or not shown
            if not committed and step % 2:
                # The next command need not know of the folder.
                job.apply(None, state, {"item": str(third)}, batch="good", log=log)
                assert {one.partition("/")[0] for one in set_aside_files(aside, hidden=True)} == {"batch=init"}
                assert [one.name for one in aside.iterdir()] == ["batch=init"]
            assert apply("x", quarantine=str(aside))["applied"] is not committed
            manifest = job.read_state(Path(state))
            assert [one for one in set_aside_files(aside) if "batch=x" in one] == [
                f"batch=x/item/{manifest.attempt}.jsonl"
            ]
            apply("y", quarantine=str(aside))
            # What the killed attempt has left is gone.
            assert sorted(one.partition("/")[0] for one in set_aside_files(aside, hidden=True)) == [
                "batch=init",
                "batch=x",
                "batch=y",
            ]
            assert [one["row"] for one in set_aside(aside / "batch=x")] == [2, 3]
            assert [one["values"]["size"] for one in set_aside(aside / "batch=x")] == ["x", "1"]
            assert job.verify(None, state, log=log)["differences"] == []

        ended = in_child(killed)
        assert ended in (0, signal.SIGKILL), ended
        assert in_child(check) == 0, f"killed at step {step}"
        if ended == 0:
            assert step > 60
            return


def set_aside_files(folder: Path, hidden: bool = False) -> list[str]:
    """Return the files with rows below a folder."""
    found = [path for path in folder.rglob("*.jsonl") if hidden or not path.name.startswith(".")]
    return sorted(str(path.relative_to(folder)) for path in found)


def test_a_refused_commit_leaves_nothing(job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the commit, a commit of another job, a folder that is gone after the commit."""
    path, aside = tmp_path / "first.csv", tmp_path / "aside"
    path.write_text("op,id,shop,size,price,note\n+,1,a,1,1,\n+,2,a,x,1,\n")
    state, log = str(tmp_path / "state"), job.Log(quiet=True)

    def apply(batch: str) -> Any:
        return job.apply(None, state, {"item": str(path)}, batch=batch, quarantine=str(aside), log=log)

    job.init(None, state, log=log)
    with monkeypatch.context() as patch:
        patch.setattr(job, "is_local", lambda _: False)
        with pytest.raises(job.JobError, match="cannot take rows that are set aside, because their files are renamed"):
            apply("x")
    with monkeypatch.context() as patch:

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr(job, "commit_manifest", full)
        with pytest.raises(job.Passing, match="nothing was committed"):
            apply("x")
    assert list(aside.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr(job, "finish_publication", lambda *_, **__: False)
        apply("x")
    shutil.move(aside, tmp_path / "away")
    with pytest.raises(job.JobError, match="aside is missing, where batch x has set rows of item aside: bring it back"):
        job.status(state)
    shutil.move(tmp_path / "away", aside)
    assert job.status(state)["finished_publication"] is True
    assert set_aside_files(aside) == [f"batch=x/item/{job.read_state(Path(state)).attempt}.jsonl"]
    with monkeypatch.context() as patch:
        patch.setattr(job, "finish_publication", lambda *_, **__: False)
        apply("y")
    shutil.rmtree(aside)
    aside.mkdir()
    assert job.status(state)["finished_publication"] is True
