"""Instances of DuckDB that wait in this process for their next use.

To open one takes longer than most tasks; an empty database within one is attached in the time of a statement.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

MOST_WAITING = 4
"""So many instances wait at most; each needs a few megabytes."""


class Database:
    """An instance that belongs to one engine at a time, whose limits are its settings."""

    def __init__(self) -> None:
        """Open it."""
        import duckdb

        self.connection = duckdb.connect()
        self.settings: dict[str, str] = {}
        self.attached = 0

    def set(self, settings: Mapping[str, str]) -> None:
        """Change settings, given as SQL; those that are not given get their default values again."""
        changed = [f"SET {name} = {value}" for name, value in settings.items() if self.settings.get(name) != value]
        changed += [f"RESET {name}" for name in self.settings if name not in settings]
        for statement in changed:
            self.connection.execute(statement)
        self.settings = dict(settings)

    def attach(self) -> tuple[Any, str]:
        """Return a new connection whose tables are in an empty database, and the name of that."""
        self.attached += 1
        name = f"database_{self.attached}"
        connection = self.connection.cursor()
        connection.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
        return connection, name

    def detach(self, connection: Any, name: str) -> None:
        """Discard a database and the connection to it."""
        connection.close()
        self.connection.execute(f"DETACH {name}")

    def close(self) -> None:
        """Close it."""
        self.connection.close()


class Instances:
    """The instances that wait."""

    def __init__(self) -> None:
        """Begin without any."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._waiting: list[Database] = []
        self._left: list[Database] = []

    def __reduce__(self) -> tuple[type[Instances], tuple[()]]:
        """Travel to another process without instances."""
        return Instances, ()

    def take(self, settings: Mapping[str, str]) -> Database:
        """Return an instance with these settings, and no other engine's."""
        import duckdb

        with self._lock:
            if self._process != os.getpid():
                # Forked: the threads of these instances are not here, so that they cannot be closed either.
                self._left += self._waiting
                self._process, self._waiting = os.getpid(), []
            found = self._waiting.pop() if self._waiting else Database()
        try:
            found.set(settings)
        except duckdb.Error:
            # Where something was spilled, the folder for that can no longer be changed.
            found.close()
            found = Database()
            found.set(settings)
        return found

    def give(self, instance: Database) -> None:
        """Let an instance wait, all of whose databases are detached, or close it if enough of them wait."""
        with self._lock:
            if len(self._waiting) < MOST_WAITING and self._process == os.getpid():
                self._waiting.append(instance)
                return
        instance.close()


INSTANCES = Instances()
"""The instances of this process."""
