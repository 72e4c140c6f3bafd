"""What identifies a relation: its rows and a sum over them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

PRIME = 2**31 - 1


@dataclass(frozen=True)
class Answer:
    """The rows of a relation and their checksum."""

    rows: int
    checksum: int

    def __sub__(self, other: Answer) -> Answer:
        """What the difference of two relations has, if the second is part of the first."""
        return Answer(self.rows - other.rows, self.checksum - other.checksum)

    def __str__(self) -> str:
        return f"{self.rows:,} rows with checksum {self.checksum}"


def checksum_query(relation: str, columns: Iterable[str]) -> str:
    """The query of rows and checksum over a table expression whose columns hold integers from 0 on.

    An exchange of columns, or of one column between two rows, does not leave the sum as it was.
    """
    number = "CAST(1 AS BIGINT)"
    for column in columns:
        number = f"(({number} * 1000003 + {column}) % {PRIME})"
    return f"SELECT count(*), coalesce(sum(n * n % {PRIME}), 0) FROM (SELECT {number} AS n FROM {relation}) AS numbers"


def answer(connection: duckdb.DuckDBPyConnection | sqlite3.Connection, relation: str, columns: Iterable[str]) -> Answer:
    """Rows and checksum of a table expression."""
    row = connection.execute(checksum_query(relation, columns)).fetchone()
    assert row is not None
    return Answer(int(row[0]), int(row[1]))
