"""Parquet files read into a state in one SQLite file, by ``flintlog job``: the same rows and the same messages as those
that a state in a folder gets."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import flintlog
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from flintlog.compiler.cli import main

PROGRAM = """
input output relation s(
    i: int, f: float, b: bool, t: string, d: date, m: timestamp, n: decimal(10,2), l: list<int>, o: int?
)
output relation many(c: int)
many(count<*>) :- s(_, _, _, _, _, _, _, _, _).
"""

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("f", pa.float32()),
        ("b", pa.bool_()),
        ("t", pa.dictionary(pa.int8(), pa.string())),
        ("d", pa.date32()),
        ("m", pa.timestamp("ns", "UTC")),
        ("n", pa.decimal128(12, 4)),
        ("l", pa.large_list(pa.int16())),
        ("o", pa.int64()),
    ]
)

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901)

ROWS: list[tuple[Any, ...]] = [
    (1, 0.5, True, "a'\n\"é", date(1, 1, 1), MOMENT, Decimal("1.5000"), [1, 2], None),
    (-(2**31), -0.0, False, "", date(9999, 12, 31), MOMENT, Decimal("-12345678.9000"), [], 2**63 - 1),
]


def table(rows: list[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows as a table."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The scripts of both targets."""
    found = {}
    for target in ("database", "pyspark"):
        path = tmp_path_factory.mktemp(target) / "program.py"
        path.write_text(flintlog.compile(PROGRAM, target=target, format=False).files["program.py"], encoding="utf-8")
        found[target] = str(path)
    return found


def job(script: str, command: str, *arguments: str | Path) -> Result:
    """Run a command by ``flintlog job``."""
    return CliRunner().invoke(main, ["job", command, script, *map(str, arguments)])


def shown(script: str, state: Path) -> str:
    """The rows of the state."""
    done = job(script, "show", "s", "--state", state, "--format", "json")
    assert done.exit_code == 0, done.output
    return "\n".join(sorted(done.output.splitlines()))


def test_types(scripts: dict[str, str], tmp_path: Path) -> None:
    """Rows of all types, and changes of them; both kinds of state have the same."""
    pq.write_table(table(ROWS), tmp_path / "s.parquet")
    changes = table(ROWS[:1]).append_column("op", pa.array(["-"]))
    (tmp_path / "changes").mkdir()
    pq.write_table(changes, tmp_path / "changes" / "s.parquet")
    said = {}
    for target, script in scripts.items():
        state = tmp_path / target
        assert job(script, "init", "--input", tmp_path / "s.parquet", "--state", state).exit_code == 0
        said[target] = shown(script, state)
        done = job(script, "apply", "--changes", tmp_path / "changes", "--state", state)
        assert done.exit_code == 0, done.output
        said[target] += "\n\n" + shown(script, state)
        assert job(script, "verify", "--state", state).exit_code == 0
    assert said["database"] == said["pyspark"] and said["database"].count("{") == 3


BAD: dict[str, Any] = {
    "a null": table([(None, *ROWS[0][1:])]),
    "a float that is none": table([(1, math.nan, *ROWS[0][2:])]),
    "a decimal with more digits": table([(*ROWS[0][:6], Decimal("1.5050"), *ROWS[0][7:])]),
    "another type": table(ROWS).set_column(0, "i", pa.array(["a", "b"])),
    "a column less": table(ROWS).drop_columns(["d"]),
    "a column twice": table(ROWS).append_column("I", pa.array([1, 2])).append_column("i", pa.array([1, 2])),
    "a year that dates lack": table(ROWS).set_column(4, "d", pa.array([10**7, 5], pa.int32()).cast(pa.date32())),
    "no file of the format": b"PAR1 and no more",
    "a damaged one": b"",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, scripts: dict[str, str], tmp_path: Path) -> None:
    """They are refused with the same words."""
    path = tmp_path / "s.parquet"
    if isinstance(BAD[name], bytes):
        path.write_bytes(BAD[name])
    else:
        pq.write_table(BAD[name], path)
    said = []
    for target, script in scripts.items():
        done = job(script, "init", "--input", path, "--state", tmp_path / target)
        assert done.exit_code == 1 and not isinstance(done.exception, ValueError), done.output
        said.append(re.sub(r"event=.*\n", "", done.output))
    assert said[0] == said[1] and str(path) in said[0]


def test_folders_of_partitions(scripts: dict[str, str], tmp_path: Path) -> None:
    """Columns from the names of folders."""
    folder = tmp_path / "s" / "i=7"
    folder.mkdir(parents=True)
    pq.write_table(table(ROWS).drop_columns(["i"]), folder / "part.parquet")
    said = []
    for target, script in scripts.items():
        done = job(script, "init", "--input", f"s={tmp_path / 's'}", "--state", tmp_path / target)
        assert done.exit_code == 0, done.output
        said.append(shown(script, tmp_path / target))
    assert said[0] == said[1] and '"i": 7' in said[0]
