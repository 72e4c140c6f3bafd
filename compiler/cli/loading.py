"""Load programs into the runtime, for the commands that run them without Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .options import UNUSABLE
from .reporting import Report

if TYPE_CHECKING:
    from flintlog.runtime.model import Program


def loaded_programs(report: Report) -> Iterator[Program]:
    """Yield the program of a report as the runtime's model; nothing if it is refused or a package is missing."""
    missing = [name for name in ("duckdb", "pyarrow") if importlib.util.find_spec(name) is None]
    for _, compilation in report.compilations():
        if missing:
            what = {"duckdb": "DuckDB", "pyarrow": "PyArrow"}[missing[0]]
            message = f'this command requires {what}, which is not installed: pip install "flintlog[run]"'
            report.fail(UNUSABLE, message)
            continue
        from flintlog.targets.pyspark.load import load_program

        yield load_program(compilation.plan)
