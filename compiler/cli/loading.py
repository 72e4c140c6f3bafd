"""Load programs into the runtime, for the commands that run them without Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from .options import UNUSABLE, SessionOptions
from .reporting import Report

if TYPE_CHECKING:
    from flintlog.runtime.addons.processes.partition import Partition
    from flintlog.runtime.kernel.model import Program
    from flintlog.runtime.local.session import Session

    from ..ir.syntax import RelationFile


def loaded_programs(report: Report) -> Iterator[Program]:
    """Yield the program of a report as the runtime's model; nothing if it is refused or a package is missing."""
    for program, _ in loaded_with_files(report):
        yield program


def loaded_with_files(report: Report) -> Iterator[tuple[Program, Sequence[RelationFile]]]:
    """Yield the program of a report as :func:`loaded_programs` does, with the files that it names for relations."""
    for _, compilation in report.compilations():
        if lacks_packages(report):
            continue
        from flintlog.targets.pyspark.load import load_program

        yield load_program(compilation.plan), compilation.syntax.files


def session_of(program: Program, options: SessionOptions) -> Session:
    """Return a session of a program, with nothing built. Raise JobError if functions or memory are not as they must."""
    from flintlog.runtime.local.session import MemoryEngine, Session

    engine = MemoryEngine.within(options.memory_limit) if options.memory_limit else None
    return Session(program, options.max_rounds, options.function_file, max_entries=options.max_entries, engine=engine)


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
