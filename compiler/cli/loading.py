"""Load programs into the runtime, for the commands that run them without Spark."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import click

from .options import UNUSABLE
from .reporting import Report

if TYPE_CHECKING:
    from flintlog.runtime.addons.processes.partition import Partition


def partition_of(nodes: str) -> Partition:
    """Return how the option ``--nodes`` divides addresses."""
    from flintlog.targets.processes.division import WrongNodes, read_nodes

    try:
        return read_nodes(nodes)
    except WrongNodes as error:
        raise click.UsageError(f"--nodes {error}") from None


def lacks_packages(report: Report) -> bool:
    """Return whether a package that runs programs is missing, after reporting it."""
    message = missing_package()
    if message:
        report.fail(UNUSABLE, message)
    return bool(message)


def missing_package() -> str:
    """Return that a package that runs programs is missing, as a message; empty if none is."""
    for name, what in (("duckdb", "DuckDB"), ("pyarrow", "PyArrow")):
        if importlib.util.find_spec(name) is None:
            return f"this command requires {what}, which is not installed: pip install duckdb pyarrow numpy"
    return ""
