"""Scripts of the target database, run in this process on a file, as the checks take them."""

from __future__ import annotations

import itertools
import json
import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from flintlog.compiler.pipeline import Compilation
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.sql import element_type, is_list, plain_type
from flintlog.runtime.kernel.values import value_text
from flintlog.targets import EmitOptions, target

from golden_tests.harness import VERSION, Changes, Row, frozen_row, named

NUMBERS = itertools.count()


def script_text(compilation: Compilation, form: bool = False) -> str:
    """The script of a program, formatted or not."""
    (text,) = target("database").emit(compilation.plan, EmitOptions(VERSION, form)).values()
    return text


@cache
def code_of_script(text: str) -> types.CodeType:
    """A script, compiled."""
    return compile(text, "database_job", "exec")


def loaded(text: str) -> types.ModuleType:
    """A script as a module."""
    module = types.ModuleType(f"database_job_{next(NUMBERS)}")
    sys.modules[module.__name__] = module
    exec(code_of_script(text), module.__dict__)
    return module


def in_json(value: Any, kind: str) -> Any:
    """A value as JSON has it."""
    kind = plain_type(kind)
    if is_list(kind) and value is not None:
        return [in_json(item, element_type(kind)) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else value_text(value)


def write_changes(program: Any, changes: Changes, folder: Path, operations: bool = True) -> list[str]:
    """Write changes as JSON Lines, a file for each relation; returns the arguments that name them."""
    folder.mkdir(parents=True)
    arguments = []
    for number, (name, rows) in enumerate(changes.items()):
        relation = next((r for r in program.relations if r.name == name and r.kind == "input"), None)
        if relation is None:
            continue
        operation = "op"
        while operation in {column.name for column in relation.columns}:
            operation = f"_{operation}"
        path = folder / f"{number}.jsonl"
        with path.open("w", encoding="utf-8") as lines:
            # Where there is no state yet, nothing can be deleted.
            for op, row in rows if operations else [change for change in rows if change[0] == "+"]:
                record = {column.name: in_json(v, column.type) for column, v in zip(relation.columns, row, strict=True)}
                lines.write(json.dumps(record | ({operation: op} if operations else {})) + "\n")
        if path.stat().st_size:
            arguments.append(f"{name}={path}")
    return arguments


class FileJob:
    """A program whose relations are in a file: each batch is written to files and applied by the command."""

    def __init__(self, text: str, folder: Path, functions: Path | None = None) -> None:
        """Load the script; nothing is built yet."""
        self.job = loaded(text)
        self.functions = str(functions) if functions else None
        self.supplied = self.job.supply(self.job.PROGRAM, self.functions)
        self.module = types.SimpleNamespace(JobError=JobError)
        self.module.JobError = self.job.JobError
        self.program = self.job.PROGRAM
        self.folder, self.file = folder, folder / "state.db"
        self.net = ""
        self.limits: dict[str, int] = {}
        self.commits = 0
        self.changes: dict[str, set[tuple[str, Row]]] = {}

    @property
    def manifest(self) -> int | None:
        """The number of the last commit, None before the first."""
        return self.commits or None

    def close(self) -> None:
        """Forget the module."""
        del sys.modules[self.job.__name__]

    def run(self, changes: Changes) -> None:
        """Apply a batch, or build the state; raises the module's JobError."""
        self.commits = self.apply(changes)
        self.changes = {relation.table: set() for relation in self.program.relations}
        with self.opened() as state:
            for relation in self.job.logged(self.program):
                stored = list(state.stored_changes(relation, self.commits - 1, self.commits))
                net = [(op, frozen_row(row)) for _, op, row in stored]
                assert len(net) == len(set(net)), f"{relation.name} has a change twice"
                self.changes[relation.table] = set(net)

    def apply(self, changes: Changes) -> int:
        """Apply a batch, or build the state; returns the number of its commit."""
        options = {"functions": self.functions, "log": self.job.Log(True), **self.limits}
        given = write_changes(self.program, changes, self.folder / f"batch-{next(NUMBERS)}", bool(self.commits))
        if self.commits:
            result = self.job.apply(str(self.file), given, net=self.net or None, **options)
        else:
            result = self.job.init(str(self.file), given, **options)
        return int(result["commit"])

    def limit_entries(self, most: int) -> None:
        """Refuse more derivation sets than this."""
        self.limits = {"max_entries": most}

    def rows(self, name: str) -> set[Row]:
        """The tuples of the relation that users know as ``name``."""
        return self.tuples(self.program.relation(name))

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """The state, opened."""
        with self.job.open_file_state(self.program, str(self.file), self.supplied) as state:
            yield state

    def relation(self, name: str) -> Any:
        """The relation that users know as ``name``, also a hidden one."""
        return named(self.program, name)

    def tuples(self, relation: Any) -> set[Row]:
        """The tuples of a relation."""
        with self.opened() as state:
            rows = list(map(frozen_row, state.rows(relation)))
        assert len(rows) == len(set(rows)), f"{relation.name} holds a tuple twice"
        return set(rows)

    def supports(self, relation: Any) -> dict[Row, tuple[int, int]]:
        """The support and rank of each tuple of a ranked relation."""
        return dict(self._kept(relation, ("_support", "_rank")))

    def counts(self, relation: Any) -> dict[Row, int]:
        """The number of derivations of each tuple of a counted relation."""
        return {row: kept[0] for row, kept in self._kept(relation, ("_support",))}

    def _kept(self, relation: Any, columns: Sequence[str]) -> list[tuple[Row, Any]]:
        """The tuples of a relation, each with what is kept with it in columns."""
        width = len(relation.term_columns)
        with self.opened() as state:
            table = state.tables.tables[relation.table]
            query = f"SELECT {self.job.listed((*table.columns, *columns))} FROM {table.name}"
            rows = state.connection.execute(query).fetchall()
        decode = self.job.decoded_row
        return [(frozen_row(decode(relation.term_columns, r[:width])), r[-len(columns) :]) for r in rows]

    def differences(self) -> list[dict[str, Any]]:
        """What the recount finds."""
        found: list[dict[str, Any]] = self.job.verify(str(self.file), self.functions, self.job.Log(True))["differences"]
        return found
