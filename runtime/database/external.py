"""External functions of programs whose state is a database."""

from __future__ import annotations

import sqlite3
from typing import Any

from ..inputs.external_functions import Supplied, call_supplied
from ..kernel.model import ExternalFunction
from ..row_kernel.encodings import encoded, read_stored
from ..row_kernel.model import RowProgram
from .state import EXTERNAL


def define_external(
    connection: sqlite3.Connection, program: RowProgram, supplied: Supplied, failures: list[str]
) -> None:
    """Make the functions of a program callable from SQL; failed calls are noted in ``failures``."""
    for declared in program.functions:
        define_one(connection, declared, supplied.functions[declared.name], failures)


def define_one(connection: sqlite3.Connection, declared: ExternalFunction, function: Any, failures: list[str]) -> None:
    """Make a function callable from SQL."""

    def call_external(*values: Any) -> Any:
        if None in values:
            return None
        given = [read_stored(value, kind) for value, kind in zip(values, declared.parameters, strict=True)]
        result = call_supplied(declared, function, failures, None, *given)
        return None if result is None else encoded(result, declared.result)

    connection.create_function(declared.sql, len(declared.parameters), call_external, deterministic=True)


EXTERNAL["define"] = define_external
