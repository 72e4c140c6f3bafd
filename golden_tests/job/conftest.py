"""The job under test, and a state for it to work on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from golden_tests.job import assemble


@pytest.fixture(scope="session")
def job(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The script, imported."""
    return assemble.load(tmp_path_factory.mktemp("script"))


@pytest.fixture
def state(tmp_path: Path) -> str:
    """Where a test keeps its state."""
    return str(tmp_path / "state")


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], str]:
    """Writes a file below ``tmp_path`` and returns its path."""

    def write_file(name: str, content: str | bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write_file


@pytest.fixture
def stage(
    job: ModuleType, spark: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., list[dict[str, Any]]]:
    """Stages rows of one relation and returns them as dictionaries, sorted. Unless a test says otherwise, all rows of
    files without operations are insertions."""
    import pyarrow.parquet as pq

    runs = iter(range(1000))

    def stage_rows(
        name: str, *places: Any, op: str = "op", initial: bool = False, order: str = "", **more: Any
    ) -> list[dict[str, Any]]:
        into = tmp_path / f"staged-{next(runs)}"
        log = job.Log(quiet=True)
        reading = job.Reading(initial, op, order, **{"all_inserts": True, **more})
        staged = job.stage_inputs(job.executor_of(spark), job.PROGRAM, {name: places}, into, reading, log)
        (files,) = staged.values()
        rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
        return sorted(rows, key=lambda row: tuple(map(str, row.values())))

    return stage_rows
