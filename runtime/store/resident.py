"""Databases that this process keeps between batches, with the tables of the state that tasks have read.

A table is known by the files that it was made from, or that were written from it. The names of files are unique, so
that a table is used again only if the commit that a batch starts from lists the same files; it does not matter who made
the commits in between, or whether a batch was committed after its tasks had run.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from ..engines.duckdb import DuckEngine
from .manifest import StoredRelation
from .reading import source_of
from .task_records import Task

KEPT_SHARE = 0.25
"""Databases are kept as long as they need no more than this share of the machine's memory in total. It comes on top of
what running tasks may use."""

Key: TypeAlias = tuple[object, ...]


class KeptEngines:
    """The databases that are kept, by the work of their tasks; those used last are kept longest."""

    def __init__(self, most_bytes: int) -> None:
        """Keep databases that need up to ``most_bytes`` bytes in total."""
        self.most_bytes = most_bytes
        self._engines: dict[Key, tuple[DuckEngine, int]] = {}
        self._lock = threading.Lock()

    def take(self, key: Key) -> DuckEngine | None:
        """Return the database with a key, which is not kept any more; None if there is none."""
        with self._lock:
            engine, _ = self._engines.pop(key, (None, 0))
            return engine

    def give(self, key: Key, engine: DuckEngine, tables: Collection[str] = ()) -> None:
        """Keep a database with some of its tables."""
        engine.clear(tables)
        with self._lock:
            self._engines[key] = (engine, engine.memory())
            while sum(size for _, size in self._engines.values()) > self.most_bytes:
                first = next(iter(self._engines))
                self._engines.pop(first)[0].close()

    def label(self, task: Task, numbers: Iterable[int], relations: Mapping[str, StoredRelation]) -> None:
        """Note which files the tables of a task's databases now correspond to, given what the task has written."""
        for number in numbers:
            engine, _ = self._engines.get(key_of(task, number), (None, 0))
            if engine is None:
                continue
            part = None if task.whole else number
            for relation in task.computed:
                own = task.part_of(relation, part)
                engine.keep(relation.table, source_of(relations, relation, own, relation.state_columns))
            for relation in task.external:
                engine.keep(relation.table, source_of(relations, relation, None, relation.tuple_columns))

    def close(self) -> None:
        """Discard all databases."""
        with self._lock:
            while self._engines:
                self._engines.popitem()[1][0].close()


def key_of(task: Task, number: int) -> Key:
    """Return what distinguishes the database of a task on bucket ``number`` from others."""
    tables = tuple(relation.table for relation in task.computed)
    return (task.state, tables, task.whole or number, task.buckets, task.threads, task.options.memory_limit)
