"""What SQL that is not ours could do on a connection of an engine: nothing outside of the state."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from flintlog.runtime.engines.duckdb import DuckEngine
from flintlog.runtime.engines.instances import Instances, closed_connection, open_database
from flintlog.runtime.engines.options import Options
from flintlog.runtime.local.session import MemoryEngine
from flintlog.runtime.store.run_tasks import open_engine
from flintlog.runtime.store.task_records import Task

READING = [
    "FROM read_text('{out}/secret.csv')",
    "FROM read_blob('{out}/secret.csv')",
    "FROM read_csv('{out}/*.csv')",
    "FROM read_csv('{state}/../out/secret.csv')",
    "FROM read_csv('file://{out}/secret.csv')",
    "FROM read_json('{out}/secret.json')",
    "FROM read_parquet('{out}/secret.parquet')",
    "FROM '{out}/secret.parquet'",
    "FROM read_parquet('{state}/link/secret.parquet')",
    "FROM read_parquet('https://example.invalid/secret.parquet')",
    "FROM read_parquet('s3://example/secret.parquet')",
    "FROM glob('{out}/*')",
    "FROM read_text('/proc/self/environ')",
    "ATTACH '{out}/secret.duckdb' AS other (READ_ONLY); FROM other.t",
    "FROM secret_of_python",
]
"""Statements that read what they must not."""

WRITING = [
    "COPY (SELECT 1 AS x) TO '{out}/new.csv'",
    "COPY (SELECT 1 AS x) TO '{out}/new.parquet'",
    "COPY (SELECT 1 AS x) TO '{state}/../out/new.csv'",
    "COPY (SELECT 1 AS x) TO '{state}/link/new.csv'",
    "COPY (SELECT 1 AS x) TO '{out}/secret.csv'",
    "COPY (SELECT 1 AS x, 2 AS y) TO '{out}/new' (FORMAT parquet, PARTITION_BY (x))",
    "EXPORT DATABASE '{out}/new'",
    "ATTACH '{out}/new.duckdb' AS other; CREATE TABLE other.t (x INT)",
    "CREATE PERSISTENT SECRET s (TYPE http, BEARER_TOKEN 'x')",
    "SET temp_directory = '{out}/new'",
    "SET log_query_path = '{out}/new.log'; SELECT 1",
]
"""Statements that write what they must not."""

OPENING = [
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "SET allowed_directories = ['/']",
    "RESET allowed_directories",
    "SET allowed_paths = ['{out}/secret.csv']",
    "SET allow_community_extensions = true",
    "SET allow_unsigned_extensions = true",
    "LOAD httpfs",
    "LOAD '{out}/new.duckdb_extension'",
    "SET extension_directory = '{out}'; LOAD httpfs",
    "SET autoinstall_known_extensions = true; INSTALL httpfs",
    "INSTALL httpfs FROM '{out}'",
    "INSTALL quack FROM community",
]
"""Statements that let others do so, or load code."""


def of_state(state: Path) -> DuckEngine:
    """The engine of a task."""
    return open_engine(Task(Options(1), str(state), {}))


def of_none(state: Path) -> DuckEngine:
    """An engine that needs no files."""
    return DuckEngine()


def of_memory(state: Path) -> DuckEngine:
    """The engine of ``flintlog run``."""
    return MemoryEngine()


def of_limited_memory(state: Path) -> DuckEngine:
    """The engine of ``flintlog run --memory-limit``."""
    return MemoryEngine.within("1GB")


def files_of(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def places(tmp_path: Path) -> dict[str, str]:
    """A state, and a folder with secrets that a link in the state leads to."""
    state, out = tmp_path / "state", tmp_path / "out"
    state.mkdir()
    out.mkdir()
    (state / "link").symlink_to(out)
    (out / "secret.csv").write_text("x\n1\n", encoding="utf-8")
    (out / "secret.json").write_text('{"x": 1}\n', encoding="utf-8")
    with contextlib.closing(duckdb.connect(str(out / "secret.duckdb"))) as free:
        free.execute(f"CREATE TABLE t AS SELECT 1 AS x; COPY t TO '{out}/secret.parquet'")
    return {"state": str(state), "out": str(out)}


@pytest.mark.parametrize("opened", [of_state, of_none, of_memory, of_limited_memory])
def test_engines(opened: Callable[[Path], DuckEngine], places: dict[str, str]) -> None:
    """Each statement fails, and so do the others after it."""
    secret_of_python = duckdb.connect().sql("SELECT 1 AS x").to_arrow_table()
    assert secret_of_python.num_rows == 1
    out = Path(places["out"])
    before = files_of(out)
    with contextlib.closing(opened(Path(places["state"]))) as engine:
        engine.reusable = False
        for statement in [*OPENING, *READING, *WRITING, *READING]:
            with pytest.raises(duckdb.Error) as refused:
                engine.connection.execute(statement.format(**places)).fetchall()
            assert not isinstance(refused.value, duckdb.ParserException), statement
        assert engine.connection.execute("SELECT 1").fetchall() == [(1,)]
    assert files_of(out) == before and not list(out.glob("new*"))


def test_databases_of_processes(places: dict[str, str], tmp_path: Path) -> None:
    """The databases of routers, and the connection for filters, reach their own files only."""
    home, out = tmp_path / "home", Path(places["out"])
    home.mkdir()
    before = files_of(out)
    for connection in (open_database(str(home / "split.duckdb"), threads="1"), closed_connection()):
        for statement in [*OPENING, *READING, *WRITING]:
            with pytest.raises(duckdb.Error):
                connection.execute(statement.format(**places)).fetchall()
        connection.execute("CREATE TABLE t AS SELECT * FROM range(100000)")
        connection.execute("CHECKPOINT")
        connection.close()
    with contextlib.closing(open_database(str(home / "split.duckdb"))) as again:
        assert again.execute("SELECT COUNT(*) FROM t").fetchall() == [(100000,)]
    assert files_of(out) == before and not list(out.glob("new*"))


def test_what_a_task_reaches(places: dict[str, str], tmp_path: Path) -> None:
    """A task reads and writes the state, also through a link to it and where its data is on another disk, and a folder
    of its own, which nobody else can read and which is gone afterwards."""
    data, linked = tmp_path / "other disk's [data]", tmp_path / "linked"
    data.mkdir()
    (Path(places["state"]) / "data").symlink_to(data)
    linked.symlink_to(places["state"])
    for state in (places["state"], str(linked)):
        with contextlib.closing(of_state(Path(state))) as engine:
            own = Path(engine.folder)
            assert stat.S_IMODE(own.stat().st_mode) == 0o700
            for number, folder in enumerate((Path(state), Path(state, "data"), own)):
                path = str(folder / f"{number}.parquet")
                engine.connection.execute(f"COPY (SELECT {number} AS x) TO '{path}'")
                assert engine.connection.execute(f"FROM '{path}'").fetchall() == [(number,)]
        assert not own.exists()


def test_instances_belong_to_states(tmp_path: Path) -> None:
    """An instance is used again for the same state, or where no files are needed, and for no other state; the one that
    has waited longest makes way."""
    instances = Instances()
    states = [str(tmp_path / name) for name in "abcdef"]
    base = str(tmp_path)
    first = instances.take({}, states[0], base)
    instances.give(first)
    assert instances.take({}, states[0], base) is first
    instances.give(first)
    assert instances.take({}, "", base) is first
    instances.give(first)
    assert instances.take({}, "", "") is not first
    others: list[Any] = [instances.take({}, state, base) for state in states[1:]]
    assert len({id(one) for one in (first, *others)}) == len(states)
    for one in others:
        instances.give(one)
    assert instances.take({}, states[0], base) is not first
    assert instances.take({}, states[-1], base) is others[-1]


def test_a_folder_to_spill_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into memory is in the folder of the instance; an instance that has spilled can do so again."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    used = set()
    for number in (3_000_000, 3_000_001):
        with contextlib.closing(DuckEngine("24MB")) as engine:
            folder = Path(engine.folder)
            assert folder.parent == tmp_path
            engine.connection.execute(
                f"CREATE TABLE t AS SELECT i, hash(i) AS h FROM range({number}) AS t(i) ORDER BY h"
            )
            assert any(folder.iterdir())
            assert engine.connection.execute("SELECT COUNT(*) FROM t").fetchall() == [(number,)]
            used.add(id(engine.instance))
        assert not list(tmp_path.iterdir())
    assert len(used) == 1
