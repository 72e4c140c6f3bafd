"""Instances of DuckDB that wait in this process for their next use.

To open one takes longer than most tasks; an empty database within one is attached in the time of a statement.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import uuid
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MOST_WAITING = 4
"""At most this many instances wait, those used last; each needs a few megabytes."""


CLOSED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
"""Settings with which SQL finds neither extensions nor variables of Python."""


def open_database(place: str = ":memory:", folders: Sequence[str] = (), **settings: str) -> Any:
    """Return a connection to a database of DuckDB. Whatever a statement says, it loads no code, and reaches no files
    but those of the database itself and, with links followed, those in ``folders``."""
    import duckdb

    connection = duckdb.connect(place, config={**CLOSED, **settings})
    listed = ", ".join("'" + folder.replace("'", "''") + "'" for folder in folders)
    # This cannot be taken back, nor can the folders be changed afterwards.
    connection.execute(f"SET allowed_directories = [{listed}]")
    connection.execute("SET enable_external_access = false")
    return connection


def closed_connection() -> Any:
    """Return a connection to an empty database whose statements reach no files, and read times in UTC."""
    connection = open_database(temp_directory="")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def local_folder() -> str:
    """Return a folder on a local disk to spill to: the one that Spark names, if it names one."""
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
    return folder if folder and Path(folder).is_dir() else tempfile.gettempdir()


class Database:
    """An instance that belongs to one engine at a time, whose limits are its settings. Its statements reach the files
    of the state in ``state``, if that is not empty, and in a ``folder`` of its own, which exists while it is used."""

    def __init__(self, state: str, base: str) -> None:
        """Open the instance; its own folder is in ``base``, if that is not empty."""
        self.state, self.base = state, base
        self.folder = str(Path(base, f"flintlog-{uuid.uuid4().hex}")) if base else ""
        # Large states may have their data on another disk.
        folders = [state, str(Path(state, "data"))] if state else []
        self.connection = open_database(folders=folders, temp_directory=self.folder)
        self.settings: dict[str, str] = {}
        self.attached = 0
        if self.folder:
            weakref.finalize(self, remove_own, self.folder, os.getpid())

    def begin(self, settings: Mapping[str, str]) -> None:
        """Make the folder, which only this user can read, and change the settings."""
        if self.folder:
            Path(self.folder).mkdir(0o700)
        self.set(settings)

    def end(self) -> None:
        """Remove the folder."""
        if self.folder:
            remove_own(self.folder, os.getpid())

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
        """Close the instance."""
        self.connection.close()
        self.end()


def remove_own(folder: str, process: int) -> None:
    """Remove a folder that this process has made, not one that it knows since it was forked."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


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

    def take(self, settings: Mapping[str, str], state: str, base: str) -> Database:
        """Return an instance with these settings, and no other engine's, which reaches the files of a state and has a
        folder of its own in ``base``. Where no state is named, it may be one that was opened for a state."""
        with self._lock:
            if self._process != os.getpid():
                # Forked: the threads of these instances are not here, so that they cannot be closed either.
                self._left += self._waiting
                self._process, self._waiting = os.getpid(), []
            fitting = [one for one in self._waiting if one.base == base and (not state or one.state == state)]
            if fitting:
                self._waiting.remove(fitting[-1])
        instance = fitting[-1] if fitting else Database(state, base)
        instance.begin(settings)
        return instance

    def give(self, instance: Database) -> None:
        """Let an instance wait, all of whose databases are detached; close the one that has waited longest if enough of
        them wait."""
        instance.end()
        with self._lock:
            if self._process == os.getpid():
                self._waiting.append(instance)
                if len(self._waiting) <= MOST_WAITING:
                    return
                instance = self._waiting.pop(0)
        instance.close()


INSTANCES = Instances()
"""The instances of this process."""
