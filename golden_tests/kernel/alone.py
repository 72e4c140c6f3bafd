"""Maintain a program with nothing of the runtime but its kernel, and an engine that does no more than its interface.

Reads a pickle from standard input: the program part of a script, and batches by the names of tables. Writes another:
after each batch the tuples of every relation, and what is wrong by a recount.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import duckdb


class Nothing(MetaPathFinder):
    """Finds nothing of Flintlog but the kernel: an import of anything else fails."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise ImportError for a module that the kernel must do without."""
        kernel = "flintlog.runtime.kernel"
        if name.startswith("flintlog.") and not f"{kernel}.".startswith(f"{name}.") and not name.startswith(kernel):
            raise ImportError(f"the kernel imports {name}")


class PlainEngine:
    """Tables in memory, each made at once; nothing is put off, kept, sorted or estimated."""

    name = "duckdb"
    row_id = ""
    rounds_before_leaps = 4
    most_rows_to_leap = 1_000.0
    seconds_of_statement = 0.001
    failed_calls: Callable[[], str] = str

    def __init__(self) -> None:
        """Begin with an empty database."""
        self.statements = 0
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'")
        self.views: set[str] = set()

    def run(self, sql: str) -> list[Any]:
        """Run a statement and return its rows."""
        return self.connection.execute(sql).fetchall()

    def begin(self, stratum: Any) -> None:
        """Prepare nothing."""

    def table(self, name: str, sql: Any, counts: Sequence[str] = ()) -> int:
        """Make a table of the rows of a query."""
        self.statements += 1
        self.drop_view(name)
        self.run(f"CREATE OR REPLACE TABLE {name} AS {self.text(sql)}")
        return self.rows(name)

    def part(self, name: str, of: str, columns: str, condition: str) -> int:
        """Make a table of some rows of another."""
        return self.table(name, f"SELECT {columns} FROM {of} WHERE {condition}")

    def later(self, name: str, sql: str, rows: int, selected: Any = None, reducible: int = 0) -> None:
        """Make the table now."""
        self.table(name, sql)

    def look_up(self, name: str, of: str, condition: str) -> bool:
        """Return False: all tables are there."""
        return False

    def reduce(self, name: str, changes: str, columns: Sequence[str], most: int) -> None:
        """Leave the table as it is."""

    def empty(self, name: str, columns: Iterable[Any]) -> None:
        """Make a table without rows."""
        typed = ", ".join(f"CAST(NULL AS {sql_type(column.type, self.name)}) AS {column.sql}" for column in columns)
        self.table(name, f"SELECT * FROM (SELECT {typed}) AS q WHERE FALSE")

    def view(self, name: str, sql: str, rows: int | None = None) -> None:
        """Define a view."""
        if name not in self.views:
            self.run(f"DROP TABLE IF EXISTS {name}")
        self.run(f"CREATE OR REPLACE VIEW {name} AS {sql}")
        self.views.add(name)

    def drop_view(self, name: str) -> None:
        """Make room for a table of this name."""
        if name in self.views:
            self.run(f"DROP VIEW {name}")
            self.views.remove(name)

    def snapshot(self, name: str, sql: str, rows: int) -> str:
        """Make a table."""
        self.table(name, sql)
        return name

    def worked(self) -> float:
        """Return a time by the number of statements."""
        return self.statements / 200

    def rows(self, name: str) -> int:
        """Return the number of rows."""
        return int(self.run(f"SELECT COUNT(*) FROM {name}")[0][0])

    def counted(self, name: str, condition: str) -> int | None:
        """Return None: nothing is counted beforehand."""
        return None

    def add(self, name: str, of: str, columns: str = "*", condition: str = "TRUE") -> None:
        """Append rows of another table."""
        self.insert(name, f"SELECT {columns} FROM {of} WHERE {condition}")

    def insert(self, name: str, sql: str) -> None:
        """Append the rows of a query."""
        self.statements += 1
        self.run(f"INSERT INTO {name} BY NAME {sql}")

    def remove(
        self, name: str, keys: str, columns: Sequence[str], count: int | None = None, numbered: bool = False
    ) -> None:
        """Remove the rows that agree with a key."""
        self.statements += 1
        matches = " AND ".join(f"{name}.{column} = {keys}.{column}" for column in columns)
        removed = int(self.run(f"DELETE FROM {name} USING {keys} WHERE {matches}")[0][0])
        assert count is None or removed == count

    def rename(self, name: str, to: str) -> None:
        """Rename a table."""
        self.drop_view(to)
        self.run(f"DROP TABLE IF EXISTS {to}")
        self.run(f"ALTER TABLE {name} RENAME TO {to}")

    def since_read(self, name: str) -> str:
        """Return all rows."""
        return name

    def holds(self, name: str, source: object) -> bool:
        """Return False: no table is kept."""
        return False

    def prepare(self, relations: Iterable[Any], rows: int) -> None:
        """Prepare nothing."""

    def meeting(self, relation: Any, derived: str, after: int, columns: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Return the query and the whole table."""
        return f"({derived})", [relation.table]

    def text(self, sql: Any) -> str:
        """Return a query."""
        return sql if isinstance(sql, str) else str(sql.duckdb)

    def first(self, sql: str, limit: int) -> list[dict[str, Any]]:
        """Return the first rows."""
        found = self.connection.execute(f"SELECT * FROM ({sql}) AS q LIMIT {limit}")
        return [dict(zip([column[0] for column in found.description], row, strict=True)) for row in found.fetchall()]

    def files(self, paths: Sequence[str], columns: Sequence[Any] = ()) -> str:
        """Raise an error: there are no files."""
        raise NotImplementedError

    def lay_over(self, name: str, base: Any, changes: Any, columns: Sequence[str], rows: int) -> bool:
        """Return False."""
        return False

    def write(self, sql: str, bucket: str, order: Sequence[str], state: Path, folder: str, buckets: int) -> Any:
        """Raise an error: there are no files."""
        raise NotImplementedError

    def define(self, declared: Any, call: Callable[..., Any]) -> None:
        """Raise an error: no functions are supplied."""
        raise NotImplementedError


def maintained(part: str, batches: Sequence[dict[str, list[tuple[str, tuple[Any, ...]]]]]) -> list[Any]:
    """Return, after each batch, the rows of each relation by its table, and what a recount finds."""
    namespace = {name: getattr(model, name) for name in dir(model)}
    exec(compile(part, "part", "exec", dont_inherit=True), namespace)
    program = namespace["program"]()
    engine, clocks, found, choice = PlainEngine(), {}, [], Choice()
    for relation in program.relations:
        engine.empty(relation.table, relation.state_columns)
    for number, batch in enumerate(batches):
        run = Run(engine, Bucket(), not number, 10_000, 10_000, lambda *_: None, choice)
        for relation in program.relations:
            if relation.kind == "input":
                columns = [*relation.row_columns, model.Column("_op", "string", "_op")]
                engine.empty(f"{relation.table}__changes", columns)
                rows = [[*(stored_row(relation.row_columns, row or (True,))), op] for op, row in batch[relation.table]]
                if rows:
                    marks = ", ".join("?" * len(columns))
                    engine.connection.executemany(f"INSERT INTO {relation.table}__changes VALUES ({marks})", rows)
                resolve_input(engine, relation)
        strata = [stratum for stage in program.stages for stratum in stage.strata]
        for stratum in strata:
            clocks[stratum.name] = maintain(run, stratum, clocks.get(stratum.name, 0))
        tuples = {
            relation.table: [
                plain_row(relation.term_columns, row)
                for row in engine.run(f"SELECT {names(relation.term_columns)} FROM {relation.table}")
            ]
            for relation in program.relations
            if relation.term_columns
        }
        for relation in program.relations:
            for net in ("lost", "gained"):
                engine.empty(f"{relation.table}__{net}", relation.tuple_columns)
        findings = [finding for stratum in strata for finding in recount(engine, stratum, Bucket())]
        wrong = [(finding.relation, finding.problem) for finding in findings if engine.first(finding.sql, 1)]
        found.append((tuples, wrong))
    return found


if __name__ == "__main__":
    sys.meta_path.insert(0, Nothing())
    from flintlog.runtime.kernel import methods, model
    from flintlog.runtime.kernel.changes import resolve_input
    from flintlog.runtime.kernel.method_interface import Bucket, Choice, Run
    from flintlog.runtime.kernel.recount import recount
    from flintlog.runtime.kernel.sql import names, sql_type
    from flintlog.runtime.kernel.strategy import maintain
    from flintlog.runtime.kernel.values import plain_row, stored_row

    assert methods
    pickle.dump([maintained(*one) for one in pickle.load(sys.stdin.buffer)], sys.stdout.buffer)
