"""The languages that programs may be written in, and how to choose one.

A dialect is chosen by name, or by the suffix of a file. Its reader returns the same syntax tree as that of Flintlog's
own language, so that nothing after the frontend knows which one it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .diagnostics import Diagnostics
    from .ir.syntax import SyntaxProgram
    from .source import SourceFile

Load = Callable[[str], "SourceFile | None"]
"""Returns the program file with a name relative to the folder of the main file, None if there is no such file. Raises
UnicodeDecodeError if the file is not UTF-8, OSError if it cannot be read, and NotIncluded if it must not be."""

Read = Callable[["SourceFile", "Diagnostics", Load], "SyntaxProgram"]
"""Reads a program from its main file and the files that this includes. Reports errors, and leaves out statements with
errors. The ``sources`` of the result are all files, the main one first."""


@dataclass(frozen=True)
class ProgramDialect:
    """A language of programs: its name, what messages call it, the suffixes of its files, and the module of the
    frontend whose ``function`` is its :data:`Read`."""

    name: str
    title: str
    suffixes: tuple[str, ...]
    module: str
    function: str = "read"

    @property
    def read(self) -> Read:
        """The reader, imported when it is first used."""
        return cast(Read, getattr(import_module(f".frontend.{self.module}", __package__), self.function))


FLINTLOG = ProgramDialect("flintlog", "Flintlog", (".dl",), "reader")

DIALECTS = {
    dialect.name: dialect
    for dialect in (
        FLINTLOG,
        ProgramDialect("ndlog", "NDlog", (".olg", ".ndlog"), "ndlog.reader"),
        ProgramDialect("ddlog", "DDlog", (".ddlog",), "ddlog.reader"),
        ProgramDialect("souffle", "Soufflé", (".souffle",), "souffle.reader"),
        ProgramDialect("sql", "SQL", (".sql",), "sql.reader"),
        ProgramDialect("sql-duckdb", "SQL of DuckDB", (), "sql.reader", "read_duckdb"),
        ProgramDialect("sql-postgres", "SQL of PostgreSQL", (), "sql.reader", "read_postgres"),
        ProgramDialect("sql-spark", "SQL of Spark", (), "sql.reader", "read_spark"),
    )
}
"""All dialects, by name. A suffix belongs to one of them."""

SUFFIXES = tuple(suffix for dialect in DIALECTS.values() for suffix in dialect.suffixes)
"""The suffixes of program files."""

OWN_SUFFIXES = tuple(suffix for suffix in SUFFIXES if suffix != ".sql")
"""The suffixes of files that are programs wherever they are found: others in SQL need not be views."""


def dialect_of(file: str, name: str = "") -> ProgramDialect:
    """Return the dialect called ``name`` or, if that is empty, the one that ``file`` is written in by its suffix;
    Flintlog's own for other suffixes. Raise KeyError for an unknown name."""
    if name:
        return DIALECTS[name]
    suffix = PurePath(file).suffix
    return next((dialect for dialect in DIALECTS.values() if suffix in dialect.suffixes), FLINTLOG)
