"""Read the data of the Social Media case of the Transformation Tool Contest 2018, and write it as rows for a job.

A folder of the case has ``posts.csv``, ``comments.csv``, ``likes.csv``, ``friends.csv`` and ``users.csv``, and the
changes ``change01.csv`` to ``change20.csv``. Columns are separated by ``|``, nothing is quoted, and there is no header.

Usage: ``python convert.py FOLDER OUT`` writes ``OUT/facts`` for ``init`` and ``OUT/batches`` for ``apply --batches``.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

Row = tuple[Any, ...]
Rows = dict[str, list[Row]]

COLUMNS = {
    "post": ("id", "at", "author"),
    "comment": ("id", "at", "parent", "author"),
    "likes": ("who", "comment"),
    "friend": ("one", "other"),
}
"""The input relations, with their columns."""

READERS: Mapping[str, Callable[..., tuple[str, Row]]] = {
    "Posts": lambda id, at, text, by: ("post", (int(id), datetime.fromisoformat(at), int(by))),
    "Comments": lambda id, at, text, by, parent: (
        "comment",
        (int(id), datetime.fromisoformat(at), int(parent), int(by)),
    ),
    "Likes": lambda who, comment: ("likes", (int(who), int(comment))),
    "Friends": lambda one, other: ("friend", (int(one), int(other))),
}
"""What a line of a table says: the relation and the row. Texts, and names of users, are left out."""


def facts(folder: Path) -> Rows:
    """Return the rows of the network at the start, by relation."""
    return rows((table, line) for table in READERS for line in lines(folder / f"{table.lower()}.csv"))


def change(file: Path) -> Rows:
    """Return the rows that a change inserts, by relation."""
    return rows((table, line) for table, _, line in (line.partition("|") for line in lines(file)))


def rows(found: Iterable[tuple[str, str]]) -> Rows:
    """Return the rows of lines with the names of their tables; there are none for users."""
    made: Rows = {name: [] for name in COLUMNS}
    for table, line in found:
        if table in READERS:
            relation, row = READERS[table](*line.split("|"))
            made[relation].append(row)
    return made


def lines(file: Path) -> list[str]:
    """Return the lines of a file; texts may contain other characters that separate lines."""
    return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


def changes(folder: Path) -> list[Path]:
    """Return the files of changes in their order."""
    return sorted(folder.glob("change*.csv"))


def expected(file: Path, size: str) -> list[tuple[str, str]]:
    """Return the answers to both queries at the start and after each change, as in ``expected.csv``."""
    with file.open(encoding="utf-8", newline="") as read:
        found = {(row["query"], int(row["step"])): row["top3"] for row in csv.DictReader(read) if row["size"] == size}
    return [(found["Q1", step], found["Q2", step]) for step in range(len(found) // 2)]


def write(made: Rows, folder: Path, **more: str) -> None:
    """Write rows as CSV files, one for each relation, with ``more`` columns of one value each."""
    folder.mkdir(parents=True)
    for name, columns in COLUMNS.items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow((*more, *columns))
            writer.writerows((*more.values(), *row) for row in made[name])


def main() -> None:
    """Convert a folder."""
    if len(sys.argv) != 3:
        sys.exit("usage: python convert.py FOLDER OUT")
    folder, out = map(Path, sys.argv[1:])
    write(facts(folder), out / "facts")
    for file in changes(folder):
        write(change(file), out / "batches" / file.stem, op="+")


if __name__ == "__main__":
    main()
