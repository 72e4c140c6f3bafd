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
    for _, compilation in report.compilations():
        if lacks_packages(report):
            continue
        from flintlog.targets.pyspark.load import load_program

        yield load_program(compilation.plan)


def lacks_packages(report: Report) -> bool:
    """Return whether a package that runs programs is missing, after reporting it."""
    for name, what in (("duckdb", "DuckDB"), ("pyarrow", "PyArrow")):
        if importlib.util.find_spec(name) is None:
            report.fail(UNUSABLE, f'this command requires {what}, which is not installed: pip install "flintlog[run]"')
            return True
    return False
