"""Reading rows and changes: formats, spellings of operations, and everything that can be wrong with them.

Most tests run twice: as small input, which the driver reads, and as large input, which Spark reads. Both must agree to
the letter. So must the two ways in which the driver reads Parquet, by columns and by rows.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from golden_tests.nightly import by_day

Write = Callable[[str, str | bytes], str]
Stage = Callable[..., list[dict[str, Any]]]

MICROSECONDS = pa.timestamp("us")


@pytest.fixture(params=["whole", "parts"])
def way(request: pytest.FixtureRequest, job: ModuleType, monkeypatch: pytest.MonkeyPatch) -> str:
    """Reads the input as a whole, or in parts of a few rows and bytes."""
    if request.param == "parts":
        monkeypatch.setattr(job, "ROWS_AT_ONCE", 3)
        monkeypatch.setattr(job, "CSV_BLOCK", 40)
    return str(request.param)


def links(*rows: tuple[int, int, str]) -> list[dict[str, Any]]:
    """Staged rows of ``link``."""
    return [{"src": src, "dst": dst, "_op": op} for src, dst, op in rows]


def refusal(job: ModuleType, stage: Stage, *arguments: Any, **options: Any) -> list[str]:
    """The lines of the message with which input is refused."""
    with pytest.raises(job.JobError) as caught:
        stage(*arguments, **options)
    first, *lines = str(caught.value).splitlines()
    assert first == "refused, nothing has changed:"
    return [line.removeprefix("  ") for line in lines]


# ---- formats -------------------------------------------------------------------------------------------------------


def test_csv_columns_are_matched_by_name(way: str, stage: Stage, write: Write) -> None:
    """Whatever their order, with blanks around numbers and signs before them."""
    path = write("link.csv", "dst,op,src\n2,+,1\n 3 ,insert, -4\n5,-,+6\n")
    assert stage("link", path) == links((-4, 3, "+"), (1, 2, "+"), (6, 5, "-"))


def test_without_operations_all_rows_are_insertions(way: str, stage: Stage, write: Write) -> None:
    """In any line ending, with and without one at the end."""
    for name, text in {
        "link.csv": "src,dst\r\n1,2\r\n\r\n3,4",
        "link.jsonl": '{"src": 1, "dst": 2}\n\n{"dst": 4, "src": 3}\n',
    }.items():
        assert stage("link", write(name, text)) == links((1, 2, "+"), (3, 4, "+"))


def test_a_header_alone_is_an_empty_relation(way: str, stage: Stage, write: Write) -> None:
    """An empty file is refused, a header without rows is not."""
    assert stage("link", write("link.csv", "src,dst\n")) == []


def test_facts_of_souffle(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """Lines with tabs, without a header and quotes; an empty file is an empty relation."""
    for name in ("link.facts", "link.tsv"):
        assert stage("link", write(name, "1\t2\r\n3\t4\n5\t6")) == links((1, 2, "+"), (3, 4, "+"), (5, 6, "+"))
    assert stage("link", write("link.facts", "")) == []
    path = write("link.facts", "1\t2\n\n3,4\n")
    assert refusal(job, stage, "link", path) == [f"{path}, row {row}: 1 fields instead of 2" for row in (2, 3)]


def test_a_byte_order_mark_is_not_part_of_the_header(way: str, stage: Stage, write: Write) -> None:
    """Spreadsheets write one."""
    assert stage("link", write("link.csv", "\ufeffsrc,dst\n1,2\n")) == links((1, 2, "+"))


@pytest.mark.parametrize("extension", ["json", "jsonl", "ndjson", "JSONL"])
def test_json_lines(extension: str, way: str, stage: Stage, write: Write) -> None:
    """One object a line, in any order, with members that nobody asked for."""
    text = '{"src": 1, "dst": 2, "op": "c"}\n{"src": 3, "dst": 4, "op": "d", "more": {"x": [1]}}\n'
    assert stage("link", write(f"link.{extension}", text)) == links((1, 2, "+"), (3, 4, "-"))


def test_parquet_of_narrow_types(way: str, stage: Stage, tmp_path: Path) -> None:
    """Any integer type is read as int."""
    table = pa.table({"dst": pa.array([2, 4], pa.int16()), "src": pa.array([1, 3], pa.uint32()), "op": ["+", "-"]})
    pq.write_table(table, tmp_path / "link.parquet")
    assert stage("link", str(tmp_path / "link.parquet")) == links((1, 2, "+"), (3, 4, "-"))


def test_a_folder_of_files(way: str, stage: Stage, write: Write, tmp_path: Path) -> None:
    """Each file may have its own format and order of columns; Spark's own files are passed over."""
    write("link/a.csv", "src,dst\n1,2\n")
    write("link/b.csv", "dst,src\n4,3\n")
    write("link/c.jsonl", '{"src": 5, "dst": 6}\n')
    write("link/_SUCCESS", "")
    write("link/.a.csv.crc", "x")
    pq.write_table(pa.table({"src": [7], "dst": [8]}), tmp_path / "link" / "d.parquet")
    assert stage("link", str(tmp_path / "link")) == links((1, 2, "+"), (3, 4, "+"), (5, 6, "+"), (7, 8, "+"))


def test_a_path_with_characters_that_mean_something_elsewhere(way: str, stage: Stage, write: Write) -> None:
    """No pattern, no partition column, no escape."""
    path = write("a b/x=1,[y]{z}*%20/link.csv", "src,dst\n1,2\n")
    assert stage("link", path) == links((1, 2, "+"))
    assert stage("link", f"file:{path}") == stage("link", f"file://{path}") == links((1, 2, "+"))


@pytest.mark.parametrize("name", ["_link.csv", ".link.csv", "a:link.csv", "_link.jsonl", ".link.parquet"])
def test_files_that_spark_does_not_read(name: str, way: str, stage: Stage, write: Write, tmp_path: Path) -> None:
    """It leaves out files with some names, although they are given by name."""
    if name.endswith("csv"):
        write(name, "src,dst\n1,2\n")
    elif name.endswith("jsonl"):
        write(name, '{"src": 1, "dst": 2}\n')
    else:
        pq.write_table(pa.table({"src": [1], "dst": [2]}), tmp_path / name)
    assert stage("link", str(tmp_path / name)) == links((1, 2, "+"))


@pytest.mark.parametrize("rows", ["\0" * 3000, "\0\n" * 30, "1,2\n\0\0\n"])
def test_zero_bytes_are_no_rows(rows: str, way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """What a crash of a file system may leave is refused, and not taken for nothing."""
    with pytest.raises(job.JobError, match=r"row [12]: 1 fields instead of 2"):
        stage("link", write("link.csv", f"src,dst\n{rows}"))


@pytest.mark.parametrize("name", ["_corrupt", "_Corrupt", "_corrupt_", "_0", "_1"])
def test_columns_that_are_called_as_the_reader_calls_its_own(name: str, way: str, stage: Stage, write: Write) -> None:
    """They are not used, and not in the way."""
    assert stage("link", write("link.csv", f"{name},src,dst\nx,1,2\n")) == links((1, 2, "+"))


def test_a_table_and_a_frame(spark: Any, stage: Stage) -> None:
    """Temporary views and frames, as in foreachBatch."""
    frame = spark.createDataFrame([(1, 2, "+"), (3, 4, "-")], "src INT, dst BIGINT, op STRING")
    frame.createOrReplaceTempView("new_links")
    assert stage("link", "table:new_links") == stage("link", frame) == links((1, 2, "+"), (3, 4, "-"))


#: A row as it is staged; a column has the name that SQL has for it.
EVERYTHING = {
    "i": -(2**63),
    "f": 0.1,
    "d": decimal.Decimal("-1234.50"),
    "s": 'a,"b"\\\n\tü𝄞',
    "b": True,
    "day": datetime.date(2024, 2, 29),
    "at_": datetime.datetime(2024, 7, 1, 10, 20, 30, 123456),
    "_op": "+",
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "sample.csv",
            'i,f,d,s,b,day,at\n-9223372036854775808,.1,-1234.5,"a,""b""\\\n\tü𝄞",TRUE,2024-02-29,2024-07-01T10:20:30.123456Z\n',
        ),
        (
            "sample.jsonl",
            '{"i": -9223372036854775808, "f": 0.1, "d": -1234.50, "s": "a,\\"b\\"\\\\\\n\\t\\u00fc\\ud834\\udd1e",'
            ' "b": true, "day": "2024-02-29", "at": "2024-07-01 12:20:30.123456+02:00"}\n',
        ),
    ],
)
def test_every_type_in_text(name: str, text: str, way: str, stage: Stage, write: Write) -> None:
    """Extreme values, quoting, time zones, whatever the session's zone."""
    assert stage("sample", write(name, text)) == [EVERYTHING]


def test_every_type_in_parquet(way: str, stage: Stage, tmp_path: Path) -> None:
    """Timestamps with a zone and without, of different units."""
    moment = datetime.datetime(2024, 7, 1, 10, 20, 30, 123456)
    for index, (kind, stored) in enumerate(
        [
            (MICROSECONDS, moment),
            (pa.timestamp("us", "Asia/Tokyo"), moment.replace(tzinfo=datetime.UTC)),
            (pa.timestamp("ms", "UTC"), moment.replace(microsecond=0, tzinfo=datetime.UTC)),
        ]
    ):
        row = {name: [value] for name, value in EVERYTHING.items() if name not in ("_op", "at_")}
        table = pa.table({**row, "at": pa.array([stored], kind)})
        path = tmp_path / f"sample{index}.parquet"
        pq.write_table(table, path)
        assert stage("sample", str(path)) == [{**EVERYTHING, "at_": stored.replace(tzinfo=None)}]


def test_values_are_widened_but_never_rounded(way: str, stage: Stage, job: ModuleType, tmp_path: Path) -> None:
    """An exact conversion is done, any other is refused."""
    row = {"s": ["x"], "b": [False], "day": [datetime.date(1, 1, 1)], "at": [datetime.datetime(9999, 12, 31)]}
    wide = pa.table(
        {
            "i": pa.array([decimal.Decimal(7)], pa.decimal128(20, 2)),
            "f": pa.array([3], pa.int8()),
            "d": pa.array([5], pa.int64()),
            **row,
        }
    )
    pq.write_table(wide, tmp_path / "wide.parquet")
    (staged,) = stage("sample", str(tmp_path / "wide.parquet"))
    assert (staged["i"], staged["f"], staged["d"]) == (7, 3.0, decimal.Decimal("5.00"))
    assert (staged["day"], staged["at_"]) == (datetime.date(1, 1, 1), datetime.datetime(9999, 12, 31))
    lossy = pa.table(
        {
            "i": pa.array([decimal.Decimal("7.5")], pa.decimal128(20, 2)),
            "f": pa.array([float("nan")], pa.float32()),
            "d": pa.array([10000], pa.int64()),
            **row,
        }
    )
    path = str(tmp_path / "lossy.parquet")
    pq.write_table(lossy, path)
    assert refusal(job, stage, "sample", path) == [
        f"{path}, row 1, column i: 7.50 is not an int",
        f"{path}, row 1, column f: nan is not a finite float",
        f"{path}, row 1, column d: 10000 has too many digits for decimal(6,2)",
    ]


def test_negative_zero_is_zero(way: str, stage: Stage, write: Write) -> None:
    """-0.0 = 0.0, so a set holds one of them."""
    rest = ",1,x,true,2024-01-01,2024-01-01 00:00\n"
    path = write("sample.csv", f"i,f,d,s,b,day,at\n1,-0.0{rest}-0,0e5{rest}")
    assert [(str(row["f"]), row["i"]) for row in stage("sample", path)] == [("0.0", 0), ("0.0", 1)]


def test_a_relation_without_columns(way: str, stage: Stage, write: Write) -> None:
    """It has an operation column at most."""
    assert stage("go", write("go.csv", "op\n+\n+\n")) == [{"_unit": True, "_op": "+"}] * 2
    assert stage("go", write("go.csv", "op\n-\n")) == [{"_unit": True, "_op": "-"}]
    assert stage("go", write("go.jsonl", "{}\n")) == [{"_unit": True, "_op": "+"}]


def test_files_that_only_spark_reaches(
    stage: Stage, write: Write, job: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listed and read as those of a store are."""
    monkeypatch.setattr(job, "without_scheme", lambda location: None)
    parts = [write("link/a.csv", "src,dst\n1,2\n"), write("link/b.csv", "\ufeffdst,src\n4,3\n")]
    write("link/c.jsonl", '{"src": 5, "dst": 6}\n')
    folder = str(Path(parts[0]).parent)
    assert stage("link", f"file://{folder}") == links((1, 2, "+"), (3, 4, "+"), (5, 6, "+"))
    write("link/a.csv", "src,dst\n" + "1,2\n" * 100 + "x,1\n")
    assert refusal(job, stage, "link", f"file://{folder}") == [
        f'file://{parts[0]}, row 101, column src: "x" is not an int'
    ]
    assert stage("price", "file://" + write("price.csv", 'item,op\n"two\nlines",1\n')) == prices("two\nlines")
    assert refusal(job, stage, "link", f"file://{folder}/nothing") == [
        f"file://{folder}/nothing does not exist, or is a folder without files"
    ]


# ---- CSV quoting ---------------------------------------------------------------------------------------------------


def prices(*items: str) -> list[dict[str, Any]]:
    """Staged rows of ``price``."""
    return [{"item": item, "op_": 1, "_op": "+"} for item in sorted(items)]


@pytest.mark.parametrize(
    ("field", "item"),
    [
        ('""', ""),
        ('"a,b"', "a,b"),
        ('"say ""hi"""', 'say "hi"'),
        ('""""', '"'),
        ('"two\nlines"', "two\nlines"),
        ('"two\r\nlines\n\n"', "two\r\nlines\n\n"),
        (' "not quoted" ', ' "not quoted" '),
        ('5" pipe', '5" pipe'),
        ("back\\slash", "back\\slash"),
        ('"back\\"', "back\\"),
        (" spaces ", " spaces "),
        ("#no comment", "#no comment"),
        ("null", "null"),
        ("\ufffd", "\ufffd"),
    ],
)
def test_csv_fields(field: str, item: str, way: str, stage: Stage, write: Write) -> None:
    """Quotes as in RFC 4180; what is not quoted is taken as it stands."""
    path = write("price.csv", f"item,op\n{field},1\nlast,1\n")
    assert stage("price", path) == prices(item, "last")


def test_arrow_reads_ahead_without_the_interpreter(
    stage: Stage, write: Write, job: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that reads ahead in a file of Python's aborts the process that ends after a wrong row."""
    read: list[object] = []
    split = pyarrow.csv.open_csv

    def open_csv(content: object, *options: object) -> object:
        read.append(content)
        return split(content, *options)

    monkeypatch.setattr(pyarrow.csv, "open_csv", open_csv)
    with pytest.raises(job.JobError):
        stage("price", write("price.csv", "item,op\nfirst,x\n"))
    (content,) = read
    assert isinstance(content, pa.OSFile) and content.closed


def test_a_name_that_is_no_text(stage: Stage, write: Write) -> None:
    """Arrow does not take names with bytes that are not UTF-8; the file is read all the same."""
    assert stage("price", write("price\udcff.csv", "item,op\nfirst,1\n")) == prices("first")


@pytest.mark.parametrize("beginning", ["\n", "\r\n", "\n\n", "\ufeff\n"])
def test_empty_lines_above_the_header(beginning: str, stage: Stage, write: Write) -> None:
    """They are none, however the file is read."""
    for quote in ("", '"'):
        path = write("price.csv", f"{beginning}item,op\n{quote}first{quote},1\n")
        assert stage("price", path) == prices("first")


def test_csv_split_by_arrow_and_line_by_line_agree(
    way: str, stage: Stage, write: Write, job: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random files, with and without quotes, with all line ends and blanks, also before the header."""
    source, beginnings = random.Random(20240229), ("", "", "\n", "\r\n", "\r", "\n\n", " \n", "\ufeff", "\ufeff\n")

    def outcome(path: str, plain: bool) -> object:
        with monkeypatch.context() as patch:
            if not plain:
                patch.setattr(job, "is_plain", lambda file: False)
            try:
                return stage("price", path)
            except job.JobError as error:
                return str(error)

    for number in range(60):
        quotes = 3 if number % 2 else 0
        weights = [8, quotes, 2, 1, 1, 1, 1, 1]
        lines = ["".join(source.choices('a",\n \r\té', weights, k=source.randrange(12))) for _ in range(4)]
        beginning = beginnings[number % len(beginnings)]
        path = write(f"price{number}.csv", f"{beginning}item,op\n" + "".join(f"{line},1\n" for line in lines))
        assert outcome(path, True) == outcome(path, False), Path(path).read_bytes()


# ---- operations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelling", "sign"),
    [
        ("+", "+"),
        ("-", "-"),
        ("insert", "+"),
        ("INSERT", "+"),
        ("Upsert", "+"),
        ("delete", "-"),
        ("c", "+"),
        ("r", "+"),
        ("d", "-"),
        ("update_preimage", "-"),
        ("update_postimage", "+"),
    ],
)
def test_spellings_of_operations(spelling: str, sign: str, stage: Stage, write: Write) -> None:
    """Those of Debezium and of Delta's change feed among them."""
    assert stage("link", write("link.csv", f"src,dst,op\n1,2,{spelling}\n")) == links((1, 2, sign))


def test_updates_need_a_key(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """Without a key nobody can tell which row an update replaces."""
    assert stage("price", write("price.csv", "item,op,_op\na,1,u\n")) == prices("a")
    path = write("link.csv", "src,dst,op\n1,2,u\n")
    assert refusal(job, stage, "link", path) == [
        f'{path}, row 1, column op: "u" of a relation without a primary key; delete the old row, insert the new one'
    ]


def test_the_operation_column_gives_way_to_a_column_of_the_relation(way: str, stage: Stage, write: Write) -> None:
    """``_op`` where the relation has a column ``op``."""
    path = write("price.csv", "item,op,_op\na,1,+\nb,2,-\n")
    assert stage("price", path) == [{"item": "a", "op_": 1, "_op": "+"}, {"item": "b", "op_": 2, "_op": "-"}]


def test_the_operation_column_can_be_named(way: str, stage: Stage, write: Write) -> None:
    """As Delta calls it."""
    path = write("link.csv", "src,dst,_change_type\n1,2,update_preimage\n1,3,update_postimage\n")
    assert stage("link", path, op="_change_type") == links((1, 2, "-"), (1, 3, "+"))


# ---- order ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "moments",
    [
        ["1", "2", "10"],
        ["2024-01-01", "2024-01-01T00:00:01", "2024-01-01 01:00:00.5+00:30"],
    ],
)
def test_the_last_change_of_a_tuple_wins(moments: list[str], way: str, stage: Stage, write: Write) -> None:
    """At the same time, deletions come before insertions."""
    a, b, c = moments
    rows = [("1,2", "-", b), ("1,2", "+", a), ("3,4", "+", c), ("3,4", "-", b), ("5,6", "+", a), ("5,6", "-", a)]
    path = write("link.csv", "src,dst,op,ts\n" + "".join(f"{row},{op},{at}\n" for row, op, at in rows))
    assert stage("link", path, order="ts") == links((1, 2, "-"), (3, 4, "+"), (5, 6, "+"))


def test_the_last_change_of_a_row_wins(way: str, stage: Stage, write: Write) -> None:
    """Sets of changes cannot say that a row is deleted whatever it was, so ``x`` does."""
    rows = [
        ("replaced", 1, "+", 1),
        ("replaced", 2, "+", 2),
        ("replaced", 1, "-", 3),
        ("added and deleted", 1, "+", 1),
        ("added and deleted", 1, "-", 2),
        ("deleted", 1, "-", 1),
        ("deleted", 2, "-", 2),
        ("moved", 1, "-", 5),
        ("moved", 2, "+", 5),
    ]
    path = write(
        "price.jsonl", "".join(f'{{"item": "{i}", "op": {p}, "_op": "{o}", "ts": {t}}}\n' for i, p, o, t in rows)
    )
    staged = [(row["item"], row["op_"], row["_op"]) for row in stage("price", path, order="ts")]
    assert staged == [
        ("added and deleted", 1, "x"),
        ("deleted", 1, "-"),
        ("deleted", 2, "-"),
        ("moved", 2, "+"),
        ("replaced", 2, "+"),
    ]


def test_two_last_rows_of_a_key(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """Nobody can say which is the later."""
    path = write("price.csv", "item,op,_op,ts\na,1,+,7\na,2,+,7\n")
    assert refusal(job, stage, "price", path, order="ts") == ['price: two rows with item = "a" and the same ts']


def test_many_changes_at_the_same_time(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """The first keys are named, each once, and all are counted."""
    rows = "".join(f"i{item},{op},+,1\n" for item in range(7) for op in range(3))
    lines = refusal(job, stage, "price", write("price.csv", f"item,op,_op,ts\n{rows}"), order="ts")
    assert len(lines) == 6 and lines[-1] == "... 7 problems in all"
    assert len({*lines}) == 6 and all(line.endswith(" and the same ts") for line in lines[:-1])


def test_a_key_in_another_order_than_the_columns(job: ModuleType) -> None:
    """Its values stand with their columns."""
    relation = dataclasses.replace(job.PRICE, key=("op_", "item"))
    shape, problems = job.InputShape(relation, "_op", "at", False, ""), job.Problems()
    job.note_ties([(7, "a")], 1, shape, problems)
    assert problems.listed == ['price: two rows with op = 7, item = "a" and the same at']


def test_an_order_must_be_there_and_be_one(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """Text is not compared as text."""
    path = write("link.csv", "src,dst,op,ts\n1,2,+,\n1,2,+,1.5\n1,2,+,0/16B37\n")
    assert refusal(job, stage, "link", path, order="ts") == [
        f"{path}, row 1, column ts: null",
        f'{path}, row 2, column ts: "1.5" is not a whole number or timestamp',
        f'{path}, row 3, column ts: "0/16B37" is not a whole number or timestamp',
    ]
    assert refusal(job, stage, "link", path, order="when") == [f"{path}: column when is missing"]


# ---- refusals ------------------------------------------------------------------------------------------------------


CSV_VALUES = [
    ("i", "abc", '"abc" is not an int'),
    ("i", "1.5", '"1.5" is not an int'),
    ("i", "1e3", '"1e3" is not an int'),
    ("i", "0x10", '"0x10" is not an int'),
    ("i", "1_000", '"1_000" is not an int'),
    ("i", "", "null"),
    ("i", '" "', '"" is not an int'),
    ("i", "9223372036854775808", "9223372036854775808 does not fit 64 bits"),
    ("i", "-9223372036854775809", "-9223372036854775809 does not fit 64 bits"),
    ("f", "NaN", '"NaN" is not a float'),
    ("f", "-Infinity", '"-Infinity" is not a float'),
    ("f", "1e999", '"1e999" is not a finite float'),
    ("f", "1d", '"1d" is not a float'),
    ("d", "12345", "12345 has too many digits for decimal(6,2)"),
    ("d", "0.005", "0.005 has too many digits for decimal(6,2)"),
    ("d", "1e2", '"1e2" is not a decimal(6,2)'),
    ("s", "", 'null (write "" for an empty string)'),
    ("b", "yes", '"yes" is not a bool'),
    ("day", "2023-02-29", '"2023-02-29" is not a date'),
    ("day", "2023-2-3", '"2023-2-3" is not a date'),
    ("day", "0000-01-01", '"0000-01-01" is not a date'),
    ("at", "2023-01-01", '"2023-01-01" is not a timestamp'),
    ("at", "2023-01-01 25:00:00", '"2023-01-01 25:00:00" is not a timestamp'),
    ("at", "2023-01-01 10:00 PST", '"2023-01-01 10:00 PST" is not a timestamp'),
]
JSON_VALUES = [
    ("i", '"1"', '"1" is text in quotes'),
    ("i", "1.5", "1.5 is not an int"),
    ("i", "true", "True is not an int"),
    ("i", "null", "null"),
    ("i", "9223372036854775808", "9223372036854775808 does not fit 64 bits"),
    ("f", '"1"', '"1" is text in quotes'),
    ("f", "1e999", "1E+999 is not a finite float"),
    ("d", '"0.005"', "0.005 has too many digits for decimal(6,2)"),
    ("s", "5", "5 is not a string"),
    ("s", '{"x": 1}', "{'x': 1} is not a string"),
    ("s", '"\\ud800"', "half of a surrogate pair at character 1"),
    ("b", "1", "1 is not a bool"),
    ("day", "20240101", "20240101 is not a date"),
    ("at", '"now"', '"now" is not a timestamp'),
]
GOOD_VALUES = {
    "i": "1",
    "f": "1",
    "d": "1.50",
    "s": '"x"',
    "b": "true",
    "day": '"2024-01-01"',
    "at": '"2024-01-01 00:00:00"',
}


def bad_csv(values: list[tuple[str, str, str]]) -> tuple[str, list[str]]:
    """A CSV file with a good row and then a row for each bad value, and what should be said of it."""
    rows = [GOOD_VALUES, *({**GOOD_VALUES, column: text} for column, text, _ in values)]
    lines = [",".join(GOOD_VALUES), *(",".join(row.values()) for row in rows)]
    return "\n".join(lines), messages(values)


def bad_json(values: list[tuple[str, str, str]]) -> tuple[str, list[str]]:
    """The same in JSON lines."""
    rows = [GOOD_VALUES, *({**GOOD_VALUES, column: text} for column, text, _ in values)]
    lines = ["{" + ", ".join(f'"{name}": {text}' for name, text in row.items()) + "}" for row in rows]
    return "\n".join(lines), messages(values)


def messages(values: list[tuple[str, str, str]]) -> list[str]:
    """What should be said of values in the rows from the second on."""
    return [f", row {row}, column {column}: {reason}" for row, (column, _, reason) in enumerate(values, start=2)]


@pytest.mark.parametrize("value", CSV_VALUES, ids=lambda value: f"{value[0]}={value[1]}")
def test_a_csv_value_of_the_wrong_type(
    value: tuple[str, str, str], stage: Stage, write: Write, job: ModuleType
) -> None:
    """Each value by itself."""
    text, reasons = bad_csv([value])
    path = write("sample.csv", text)
    assert refusal(job, stage, "sample", path) == [path + reason for reason in reasons]


@pytest.mark.parametrize("value", JSON_VALUES, ids=lambda value: f"{value[0]}={value[1]}")
def test_a_json_value_of_the_wrong_type(
    value: tuple[str, str, str], stage: Stage, write: Write, job: ModuleType
) -> None:
    """Each value by itself."""
    text, reasons = bad_json([value])
    path = write("sample.jsonl", text)
    assert refusal(job, stage, "sample", path) == [path + reason for reason in reasons]


@pytest.mark.parametrize(("name", "values"), [("sample.csv", CSV_VALUES), ("sample.jsonl", JSON_VALUES)])
def test_every_value_of_the_wrong_type_in_one_file(
    name: str,
    values: list[tuple[str, str, str]],
    way: str,
    stage: Stage,
    write: Write,
    job: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is named with its row."""
    monkeypatch.setattr(job, "PROBLEMS_LISTED", 1000)
    text, reasons = (bad_csv if name.endswith("csv") else bad_json)(values)
    path = write(name, text)
    assert refusal(job, stage, "sample", path) == [path + reason for reason in reasons]


#: Signs that values are made of.
SIGNS = [*"019-+.e:T Z\tx_", "\u0661", "00", "12", "E5", "nan", "inf", "true"]

#: Values that are easily mistaken; the first is one of the kind.
SPELLED = {
    "int": ["7", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "-0", "+007", "1_0", "++1"],
    "float": ["1e308", "1e309", "-0.0", ".5", "5.", "+1e-400", "0x1p3", "1e+5", "Infinity", "4.9e-324", "+-1"],
    "bool": ["TRUE", "False", "1", "t", "yes", "truefalse"],
    "date": ["2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "2024-1-1"],
    "timestamp": [
        *("2024-01-01 10:20:30.123456", "2024-02-29 24:00:00", "2024-01-01T00:00", "2024-01-01 00:00:60"),
        *("2024-01-01 10:20:30.1", "2024-01-01 10:20:30Z", "0000-01-01 00:00:00", "0001-01-01 00:00:00"),
        *("9999-12-31 23:59:59.999999", "2024-01-01 10:20:30+01:00", "2024-01-01T10:20:30", "2024-01-01 1:2:3"),
    ],
    "decimal(6,2)": ["1234.56", "12345.6", "1.234", "-0", "+.50", "1.", "9999.99", "10000", "1e2", "0001.50", "-0.00"],
    "decimal(38,0)": ["9" * 38, "1" + "0" * 38, "-" + "9" * 38, "1.0", "0" * 40],
    "order": ["9" * 38, "1" + "0" * 38, "2024-01-01", "2024-01-01 10:20:30", "-5"],
    "operation": ["+", "INSERT", "u", " d ", "X", "Update_Preimage"],
    "string": ["", " ", "null"],
}


@by_day(3)
@pytest.mark.parametrize("kind", SPELLED)
def test_columns_of_text_are_read_as_values_are(kind: str, job: ModuleType) -> None:
    """What a column at once is converted to is what the readers make of each value; else it is left to them."""
    rng, known = random.Random(kind), SPELLED[kind]
    shape = job.InputShape(job.PRICE, "_op", "", False)
    read, converted = job.reader(kind, shape, True), set()
    values = [*known, *("".join(rng.choices(SIGNS, k=rng.randrange(8))) for _ in range(3000))]
    for number, value in enumerate(values):
        given = [value] if number % 2 else [known[0], value]
        try:
            found = job.text_values(pa.array(given, pa.string()), kind, shape).to_pylist()
        except (ValueError, OverflowError, pa.ArrowException):
            continue
        converted.add(value)
        assert [*map(repr, found)] == [repr(read(value)) for value in given] or found == [*map(read, given)], given
    assert known[0] in converted


@pytest.mark.parametrize(
    ("name", "text", "reasons"),
    [
        ("link.csv", "src,dst\n1,2\n3\n", [", row 2: 1 fields instead of 2"]),
        ("link.csv", "src,dst\n1,2\n3,4,5\n", [", row 2: 3 fields instead of 2"]),
        ("link.csv", 'src,dst\n"1,2\n3,4\n', [", row 1: a quote is not closed"]),
        ("link.csv", 'src,dst\n"1"x,2\n', [", row 1: text after a closing quote"]),
        ("link.csv", "1,2\n3,4\n", [' has no header: it starts with "1, 2", not with the columns src, dst']),
        ("link.csv", "src\n1\n", [": column dst is missing"]),
        ("link.csv", "src,Dst\n1,2\n", [': column dst is missing; there is "Dst", but names are matched exactly']),
        ("link.csv", "src,src,dst\n1,1,2\n", [": column src occurs 2 times"]),
        ("link.csv", "", [" is empty"]),
        ("link.csv", "\n", [", header: there is none"]),
        ("link.csv", b"src,dst\n1,2\n\xff,3\n", [" is not UTF-8: invalid start byte"]),
        ("link.csv", "src,dst,op\n1,2,*\n", [', row 1, column op: unknown operation "*"']),
        ("link.csv", "src,dst,op\n1,2,\n", [", row 1, column op: null"]),
        ("link.jsonl", '{"src": 1}\n', [", row 1, column dst: missing"]),
        ("link.jsonl", '{"src": 1, "dst": 2\n', [", row 1: broken JSON: Expecting ',' delimiter at character 21"]),
        ("link.jsonl", '{"src": 1, "dst": 2} {}\n', [", row 1: broken JSON: Extra data at character 22"]),
        ("link.jsonl", '{"src": 1, "src": 2, "dst": 2}\n', [", row 1: broken JSON: two members have the same name"]),
        ("link.jsonl", '{"src": NaN, "dst": 2}\n', [", row 1: broken JSON: NaN is not a JSON value"]),
        ("link.jsonl", "[1, 2]\n", [", row 1: not a JSON object"]),
        (
            "link.jsonl",
            '{"src": 1, "dst": 2}\n{"src": 3, "dst": 4, "op": "-"}\n',
            [", row 1, column op: missing, but row 2 has it"],
        ),
        ("link.parquet", b"PAR1 and then nothing", None),
        (
            "link.txt",
            "src,dst\n1,2\n",
            [" does not have the suffix of a known format (.csv, .json, .jsonl, .ndjson, .parquet, .facts, .tsv)"],
        ),
    ],
)
def test_a_file_that_is_not_in_order(
    name: str, text: str | bytes, reasons: list[str] | None, way: str, stage: Stage, write: Write, job: ModuleType
) -> None:
    """A file that is not in order."""
    path = write(name, text)
    lines = refusal(job, stage, "link", path)
    if reasons is None:
        assert len(lines) == 1 and path in lines[0]
    else:
        assert lines == [path + reason for reason in reasons]


def test_a_parquet_file_of_other_columns(way: str, stage: Stage, job: ModuleType, tmp_path: Path) -> None:
    """Types are checked before rows."""
    path = tmp_path / "link.parquet"
    pq.write_table(pa.table({"src": ["1"], "op": [1]}), path)
    assert refusal(job, stage, "link", str(path)) == [f"{path}: column dst is missing"]
    pq.write_table(pa.table({"src": ["1"], "dst": [1.0], "op": [1]}), path)
    assert refusal(job, stage, "link", str(path)) == [
        f"{path}: column src has the type string and should be int",
        f"{path}: column dst has the type float and should be int",
        f"{path}: column op has the type int and should be operation",
    ]


def test_bad_rows_of_parquet_and_tables(way: str, stage: Stage, job: ModuleType, spark: Any, tmp_path: Path) -> None:
    """A row of a table has no number, so its values name it."""
    path = tmp_path / "link.parquet"
    pq.write_table(pa.table({"src": [1, None, 3], "dst": [1, 2, 3], "op": ["+", "+", "?"]}), path)
    assert refusal(job, stage, "link", str(path)) == [
        f"{path}, row 2, column src: null",
        f'{path}, row 3, column op: unknown operation "?"',
    ]
    spark.read.parquet(str(path)).where("src IS NULL").createOrReplaceTempView("bad_links")
    assert refusal(job, stage, "link", "table:bad_links") == [
        'table bad_links, a row with src None, dst 2, op "+", column src: null'
    ]


MOMENTS = [
    datetime.datetime(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime.datetime(9999, 1, 1),
]
NEAR = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2024, 7, 1, 10, 20, 30)]
DECIMALS = [decimal.Decimal(text) for text in ("0", "-1234.5", "9999.99", "10000", "0.005", "7")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("int", pa.array([-128, 127], pa.int8())),
        ("int", pa.array([0, 2**63 - 1, 2**63], pa.uint64())),
        ("int", pa.array(DECIMALS, pa.decimal128(30, 3))),
        ("int", pa.array([decimal.Decimal(2**63 - 1), decimal.Decimal(2**63)], pa.decimal256(50, 2))),
        ("float", pa.array([1.5, -0.0, float("nan"), float("inf")], pa.float32())),
        ("float", pa.array([2**53 + 1, -(2**63)], pa.int64())),
        ("float", pa.array([2**64 - 1, 2**53 + 1], pa.uint64())),
        ("float", pa.array([decimal.Decimal(f"{n}.{n}{n}3") for n in range(100000, 100300)], pa.decimal128(38, 20))),
        ("decimal(6,2)", pa.array(DECIMALS, pa.decimal128(30, 3))),
        ("decimal(6,2)", pa.array([0, -9999, 10000])),
        ("decimal(38,30)", pa.array([0, -9999, 10**8])),
        ("string", pa.array(["", "ü𝄞", "a", "a"]).dictionary_encode()),
        ("string", pa.array(["x", None, "y"], pa.large_string())),
        ("bool", pa.array([True, None, False])),
        ("date", pa.array([moment.date() for moment in MOMENTS], pa.date32())),
        ("date", pa.array([86_400_001], pa.date64())),
        ("timestamp", pa.array(MOMENTS, pa.timestamp("us"))),
        ("timestamp", pa.array(MOMENTS, pa.timestamp("us", "Asia/Tokyo"))),
        ("timestamp", pa.array([-1, -1000, 1001], pa.timestamp("ns", "Asia/Tokyo"))),
        ("timestamp", pa.array([-1, 1001], pa.timestamp("s", "Asia/Tokyo"))),
        ("order", pa.array([-(2**63), 5])),
        ("order", pa.array([decimal.Decimal("5.00"), decimal.Decimal("5.50")])),
        ("order", pa.array([moment.date() for moment in MOMENTS], pa.date32())),
        ("order", pa.array(NEAR, pa.timestamp("us", "Asia/Tokyo"))),
        ("operation", pa.array(["+", " Insert ", "delete", "+"])),
        ("operation", pa.array(["+", "u"])),
        ("list<float>", pa.array([[-0.0, 2.5], [], [1.0]], pa.list_(pa.float32()))),
        ("list<list<int>>", pa.array([[[1, 2], []], [], [[3]]], pa.large_list(pa.list_(pa.int8())))),
        ("list<string>", pa.array([["a", None], []], pa.list_(pa.string()))),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.type),
)
def test_parquet_read_by_columns_and_by_rows_agrees(kind: str, values: Any, job: ModuleType) -> None:
    """Of every value by itself, and of all in the middle of an array: columns are never taken that rows refuse, and
    hardly ever refused where rows are taken."""
    shape = job.InputShape(job.LINK, "op", "", False)
    read = job.reader(kind, shape, False)
    stored = job.arrow_type({"operation": "string", "order": "decimal(38,0)"}.get(kind, kind))
    for part in [values, values.slice(1), *(values.slice(place, 1) for place in range(len(values)))]:
        try:
            by_rows = pa.array([read(value) for value in job.arrow_values(part)], stored)
        except ValueError:
            with pytest.raises((ValueError, pa.ArrowException)):
                job.staged_values(part, kind, shape)
        else:
            try:
                by_columns = job.staged_values(part, kind, shape)
            except (ValueError, pa.ArrowException):
                assert (kind, str(values.type)) in [("decimal(38,30)", "int64"), ("date", "date64[ms]")]
            else:
                assert by_columns.type == stored
                assert str(by_columns.to_pylist()) == str(by_rows.to_pylist())


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([0, 10**7], pa.date32()), "day: 29349-01-26 is not in the years 1 to 9999 in UTC"),
        (pa.array([0, 2**31 - 1], pa.date32()), "day: 5881580-07-11 is not in the years 1 to 9999 in UTC"),
        (pa.array([0, -719_529], pa.date32()), "day: -0001-12-31 is not in the years 1 to 9999 in UTC"),
        (pa.array([0, 2**62], MICROSECONDS), "at: 148108-07-06 14:00:27.387904 is not in the years 1 to 9999 in UTC"),
        (
            pa.array([0, 253402300800_000], pa.timestamp("ms", "Asia/Tokyo")),
            "at: 10000-01-01 00:00:00 is not in the years 1 to 9999 in UTC",
        ),
        (
            pa.array([0, 2**62], pa.timestamp("ms")),
            "at: 146140482-04-24 15:36:27.904000 is not in the years 1 to 9999 in UTC",
        ),
        (pa.array([b"x", b"\xff"]).view(pa.string()), "s: b'\\xff' is not UTF-8"),
    ],
    ids=["date", "infinite", "negative", "micros", "zone", "millis", "string"],
)
def test_values_that_python_does_not_have(
    column: Any, reason: str, way: str, stage: Stage, job: ModuleType, tmp_path: Path
) -> None:
    """They are refused by row and column like all others."""
    row = {name.removesuffix("_"): pa.array([value] * 2) for name, value in EVERYTHING.items() if name != "_op"}
    row["day" if pa.types.is_date(column.type) else "at" if pa.types.is_timestamp(column.type) else "s"] = column
    path = tmp_path / "sample.parquet"
    pq.write_table(pa.table(row), path)
    if way == "large" and reason.startswith("at: 146140482"):
        pytest.skip("Spark itself has no microseconds for it, and says so of the file")
    assert refusal(job, stage, "sample", str(path)) == [f"{path}, row 2, column {reason}"]


def test_a_bad_row_far_into_a_parquet_file(
    stage: Stage, job: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are counted from the start of the file, whichever way those before it were read."""
    monkeypatch.setattr(job, "ROWS_AT_ONCE", 3)
    path = str(tmp_path / "link.parquet")
    pq.write_table(pa.table({"src": [*range(7), None], "dst": [*range(4), None, *range(3)]}), path)
    assert refusal(job, stage, "link", path) == [f"{path}, row 5, column dst: null", f"{path}, row 8, column src: null"]


def test_five_problems_are_listed_and_all_are_counted(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """The message stays short."""
    path = write("link.csv", "src,dst\n" + "x,1\n" * 7)
    expected = [f'{path}, row {number}, column src: "x" is not an int' for number in range(1, 6)]
    assert refusal(job, stage, "link", path) == [*expected, "... 7 problems in all"]


def test_missing_files_and_folders(way: str, stage: Stage, job: ModuleType, tmp_path: Path, write: Write) -> None:
    """Also folders that are not what they look like, and places only Spark could reach."""
    (tmp_path / "empty").mkdir()
    for name in ("nothing.csv", "empty"):
        path = str(tmp_path / name)
        assert refusal(job, stage, "link", path) == [f"{path} does not exist, or is a folder without files"]
    write("delta/_delta_log/0.json", "{}")
    with pytest.raises(job.JobError, match="is a Delta table, not a folder of files; pass it as table:NAME"):
        stage("link", str(tmp_path / "delta"))
    write("deep/day/a.csv", "src,dst\n")
    with pytest.raises(job.JobError, match="contains a folder, day, whose name is not of the form COLUMN=VALUE"):
        stage("link", str(tmp_path / "deep"))
    lines = refusal(job, stage, "link", "table:nowhere")
    assert len(lines) == 1 and lines[0].startswith("table nowhere cannot be read: [TABLE_OR_VIEW_NOT_FOUND]")
    with pytest.raises(
        job.JobError, match=r"nofs://x/link\.csv cannot be read: Protocol not known: nofs; pass rows that only"
    ):
        stage("link", "nofs://x/link.csv")


def test_relations_that_take_no_input(stage: Stage, write: Write, job: ModuleType) -> None:
    """The message says which do."""
    with pytest.raises(job.JobError) as caught:
        stage("pair", write("pair.csv", "src,dst\n"))
    assert str(caught.value) == "pair is not an input relation; reach has these: go, link, price, sample"
    with pytest.raises(job.JobError) as caught:
        stage("nothing", write("nothing.csv", "src,dst\n"))
    assert str(caught.value) == "there is no relation nothing; the input relations of reach: go, link, price, sample"


def test_a_first_build_takes_rows_only(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """There is nothing to delete yet."""
    path = write("link.csv", "src,dst,op\n1,2,+\n3,4,delete\n")
    assert refusal(job, stage, "link", path, initial=True, all_inserts=False) == [
        f'{path}, row 2, column op: "delete" in the initial rows, where there is nothing to delete'
    ]
    assert stage("link", path, initial=True, all_inserts=True) == links((1, 2, "+"), (3, 4, "+"))


def test_columns_that_are_not_used_are_named_once(
    way: str, stage: Stage, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """Columns that are not used are named once."""
    path = write("link.csv", "src,note,dst\n1,x,2\n")
    assert stage("link", path) == links((1, 2, "+"))
    assert capsys.readouterr().err == f"warning: {path}: column note is not used\n"


# ---- files without operations --------------------------------------------------------------------------------------


def no_operations(column: str, hint: str = "") -> str:
    """What is said of a file without the column of operations."""
    return f": column {column} is missing, which holds the operation of each change{hint}"


def without_it(name: str = "NAME") -> str:
    """What helps."""
    named = f"pass --op-column {name} if it has another name"
    return f"{named}, or --all-inserts if all rows of files without it are insertions"


@pytest.mark.parametrize(
    "name",
    [
        "operation",
        "Op",
        " op",
        "OP ",
        "__op",
        "_op",
        "_change_type",
        "action",
        "op_type",
        "__deleted",
        "is_deleted",
        "DML",
    ],
)
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_column_that_looks_like_operations(
    form: str, name: str, stage: Stage, write: Write, job: ModuleType, tmp_path: Path
) -> None:
    """It is not passed over, which would turn deletions into insertions; named, it is read."""
    if form == "csv":
        path = write("link.csv", f"src,dst,{name}\n1,2,-\n")
    elif form == "jsonl":
        path = write("link.jsonl", f'{{"src": 1, "dst": 2, "{name}": "-"}}\n')
    else:
        path = str(tmp_path / "link.parquet")
        pq.write_table(pa.table({"src": [1], "dst": [2], name: ["-"]}), path)
    assert refusal(job, stage, "link", path, all_inserts=False) == [
        f"{path}{no_operations('op', f'; {job.shown(name)} looks like it')}",
        without_it(job.shown(name)),
    ]
    assert stage("link", path, op=name, all_inserts=False) == links((1, 2, "-"))
    assert refusal(job, stage, "link", path, all_inserts=True) == [
        f"{path}: column {job.shown(name)} looks like operations, which are not read",
        f"pass --op-column {job.shown(name)} if it holds them, or rename or remove it if it does not",
    ]
    assert refusal(job, stage, "link", path, initial=True, all_inserts=False) == [
        f"{path}: column {job.shown(name)} looks like operations, but initial rows are all insertions",
        "remove such a column, or pass --all-inserts if it does not hold operations",
    ]


def test_files_without_operations(
    way: str, stage: Stage, write: Write, job: ModuleType, spark: Any, tmp_path: Path
) -> None:
    """Of every kind; each is named. First rows have no operations."""
    write("link/a.csv", "src,dst\n1,2\n")
    write("link/b.jsonl", '{"src": 3, "dst": 4}\n\n{"src": 5, "dst": 6, "note": 1}\n')
    write("link/c.csv", "src,dst,op\n7,8,+\n")
    pq.write_table(pa.table({"src": [9], "dst": [10]}), tmp_path / "link" / "d.parquet")
    folder = str(tmp_path / "link")
    lines = refusal(job, stage, "link", folder, all_inserts=False)
    missing = {f"{folder}/{name}{no_operations('op')}" for name in ("a.csv", "b.jsonl", "d.parquet")}
    assert (set(lines[:-1]), lines[-1]) == (missing, without_it())
    everything = links((1, 2, "+"), (3, 4, "+"), (5, 6, "+"), (7, 8, "+"), (9, 10, "+"))
    assert sorted(stage("link", folder, all_inserts=True), key=lambda row: row["src"]) == everything
    assert len(stage("link", folder, initial=True, all_inserts=False)) == 5
    frame = spark.createDataFrame([(1, 2)], "src INT, dst BIGINT")
    assert refusal(job, stage, "link", frame, all_inserts=False) == [
        f"the DataFrame given for link{no_operations('op')}",
        without_it(),
    ]
    path = write("price.csv", "item,op\na,1\n")
    assert refusal(job, stage, "price", path, all_inserts=False) == [
        f"{path}{no_operations('_op', '; op is a column of the relation')}",
        without_it(),
    ]


def test_first_rows_in_json_with_operations_of_another_name(
    way: str, stage: Stage, write: Write, job: ModuleType
) -> None:
    """Found among the members of all rows."""
    path = write("link.jsonl", '{"src": 1, "dst": 2}\n{"src": 1, "dst": 2, "_Change-Type": "delete"}\n')
    assert refusal(job, stage, "link", path, initial=True, all_inserts=False)[:1] == [
        f'{path}: column "_Change-Type" looks like operations, but initial rows are all insertions'
    ]
    assert stage("link", path, initial=True, all_inserts=True) == links((1, 2, "+"), (1, 2, "+"))


# ---- rows deleted and inserted at once -----------------------------------------------------------------------------

WHICH = "their order is unknown: pass --order-column NAME, or --net insert to keep such rows"


def test_a_row_that_is_deleted_and_inserted(
    way: str, stage: Stage, write: Write, job: ModuleType, tmp_path: Path
) -> None:
    """Refused with the places of both, over all files of a relation; of a key too, unless it is another row."""
    write("link/a.csv", "src,dst,op\n1,2,-\n5,6,-\n3,4,+\n")
    write("link/b.jsonl", '{"src": 1, "dst": 2, "op": "c"}\n')
    pq.write_table(pa.table({"src": [7, 3], "dst": [8, 4], "op": ["-", "-"]}), tmp_path / "link" / "c.parquet")
    folder = str(tmp_path / "link")
    assert sorted(refusal(job, stage, "link", folder)) == [
        f"link: src = 1, dst = 2 is both deleted ({folder}/a.csv, row 1) and inserted ({folder}/b.jsonl, row 1)",
        f"link: src = 3, dst = 4 is both deleted ({folder}/c.parquet, row 2) and inserted ({folder}/a.csv, row 3)",
        WHICH,
    ]
    netted = links((1, 2, "+"), (3, 4, "+"), (5, 6, "-"), (7, 8, "-"))
    assert stage("link", folder, net="insert") == netted
    path = write("price.csv", "item,op,_op\na,1,-\na,2,+\nb,1,-\n")
    assert [(row["item"], row["op_"], row["_op"]) for row in stage("price", path)] == [
        ("a", 1, "-"),
        ("a", 2, "+"),
        ("b", 1, "-"),
    ]
    path = write("price.csv", "item,op,_op\na,1,-\na,2,+\na,2,-\n")
    assert refusal(job, stage, "price", path) == [
        f'price: item = "a", op = 2 is both deleted ({path}, row 3) and inserted ({path}, row 2)',
        WHICH,
    ]


def test_images_of_updates(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """An update that changed nothing of a row leaves it there; what else happened to it as well is not known."""
    rows = [(1, "update_preimage"), (1, "update_postimage"), (2, "update_preimage"), (3, "update_postimage")]
    path = write("link.csv", "src,dst,op\n" + "".join(f"{src},0,{op}\n" for src, op in rows))
    assert stage("link", path) == links((1, 0, "+"), (2, 0, "-"), (3, 0, "+"))
    for number, more in enumerate(["1,0,update_preimage\n", "2,0,insert\n", "3,0,delete\n", "1,0,delete\n"]):
        path = write(f"link{number}.csv", "src,dst,op\n" + "".join(f"{src},0,{op}\n" for src, op in rows) + more)
        lines = refusal(job, stage, "link", path)
        assert len(lines) == 2 and lines[0].startswith(f"link: src = {more[0]}, dst = 0 is both deleted")
        assert {row["_op"] for row in stage("link", path, net="insert") if row["src"] == int(more[0])} == {"+"}


def test_many_rows_deleted_and_inserted(way: str, stage: Stage, write: Write, job: ModuleType) -> None:
    """The first are named, all are counted; rows without columns and frames, which have no numbers."""
    path = write("link.csv", "src,dst,op\n" + "".join(f"{row},0,{op}\n" for row in range(7) for op in "+-"))
    lines = refusal(job, stage, "link", path)
    assert len(lines) == 7 and lines[-2:] == ["... 7 problems in all", WHICH]
    path = write("go.csv", "op\n-\n+\n")
    assert refusal(job, stage, "go", path)[0] == (
        f"go: the row () is both deleted ({path}, row 1) and inserted ({path}, row 2)"
    )


def test_a_frame_that_deletes_and_inserts_a_row(stage: Stage, job: ModuleType, spark: Any) -> None:
    """Its rows have no numbers."""
    frame = spark.createDataFrame([(1, 2, "+"), (1, 2, "-")], "src INT, dst BIGINT, op STRING")
    assert refusal(job, stage, "link", frame) == ["link: src = 1, dst = 2 is both deleted and inserted", WHICH]


@by_day(1)
@pytest.mark.parametrize("mode", ["order", "net", "neither"])
def test_random_changes_come_to_what_they_say(mode: str, job: ModuleType, tmp_path: Path) -> None:
    """Of random changes of few rows, with an order and without."""
    rng = random.Random(f"changes {mode}")
    for number in range(60):
        names = ["insert", "delete", "update_preimage", "update_postimage"]
        rows = [
            (f"{rng.randrange(3)}", rng.randrange(2), rng.choice(names), rng.randrange(4))
            for _ in range(rng.randrange(1, 7))
        ]
        shape = job.InputShape(job.PRICE, "_op", "at" if mode == "order" else "", False, "insert" * (mode == "net"))
        folder = tmp_path / f"{number}"
        folder.mkdir()
        values = [[item, op, shape.operations[name], *([at] if shape.order else [])] for item, op, name, at in rows]
        write_staged(job, values, shape, folder)
        expected = net_of(rows, mode)
        problems = job.Problems()
        with job.Netting() as netting:
            netted = job.net_changes([], folder, shape, problems, netting)
        found = [row for file in netted.glob("*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]
        said = {(row["item"], row["op_"]): row["_op"] for row in found}
        assert (said if not problems.count else None) == expected, rows


def test_few_changes_need_no_database(job: ModuleType, tmp_path: Path) -> None:
    """Changes of different rows are their own net changes; one row that may have two, or an update, takes a query."""
    apart = [["a", 1, "+"], ["a", 2, "-"], ["b", 1, "+"], ["b", 1, "+"]]
    both, update = [*apart, ["a", 1, "-"]], [*apart, ["c", 1, ">"]]
    shape = job.InputShape(job.PRICE, "_op", "", False, "insert")
    for number, (rows, needed) in enumerate([(apart, False), (both, True), (update, True), (apart * 300, True)]):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        write_staged(job, rows, shape, folder)
        with job.Netting() as netting:
            netted = job.net_changes([], folder, shape, job.Problems(), netting)
            assert (netting._engine is not None) == (netted != folder) == needed


def write_staged(job: ModuleType, rows: list[list[Any]], shape: Any, folder: Path) -> None:
    """Write staged rows to a file in a folder."""
    schema = job.staged_schema(shape)
    columns = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), folder / "rows.parquet")


def net_of(rows: list[tuple[str, int, str, int]], mode: str) -> dict[tuple[str, int], str] | None:
    """What changes of ``price`` come to, found row by row; None if nobody knows."""
    if mode != "order":
        found: dict[tuple[str, int], str] = {}
        for row in {(item, op) for item, op, _, _ in rows}:
            names = [name for item, op, name, _ in rows if (item, op) == row]
            gone = names.count("delete") + names.count("update_preimage")
            come = names.count("insert") + names.count("update_postimage")
            updates = not {"insert", "delete"} & {*names} and names.count("update_preimage") <= come
            if gone and come and mode != "net" and not updates:
                return None
            found[row] = "+" if come else "-"
        return found
    ordered: dict[tuple[str, int], str] = {}
    for item in {item for item, _, _, _ in rows}:
        mine = [
            (at, name in ("insert", "update_postimage"), op) for name_item, op, name, at in rows if name_item == item
        ]
        last = max((at for at, come, _ in mine if come), default=None)
        if last is None:
            ordered |= {(item, op): "-" for _, _, op in mine}
            continue
        kept = {op for at, come, op in mine if come and at == last}
        if len(kept) > 1:
            return None
        (op,) = kept
        deleted = any(not come and at > last and other == op for at, come, other in mine)
        ordered[item, op] = "x" if deleted else "+"
    return ordered
