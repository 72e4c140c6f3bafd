"""What is in the file of a state, and the check that nothing else is.

Users read views with the names and columns of the program's relations. The names of all other tables begin with an
underscore; ``docs/database.md`` says which of them stay as they are.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..kernel.errors import JobError
from ..kernel.model import Column
from ..kernel.sql import is_list, is_optional, plain_type
from ..kernel.values import shown
from ..row_kernel.batch import definitions
from ..row_kernel.model import UNIT_COLUMN, RowProgram, RowRelation
from ..row_kernel.tables import RowTables, quoted_sql
from ..store.manifest import KEEP

APPLICATION_ID = 0x464C4E54
"""What tells a file of Flintlog from other databases: FLNT."""

NAMES_TOLD = 10
"""How many relations a message names."""

SCHEMA_VERSION = 1
"""The version of what is in a file."""

READABLE: dict[str, Callable[[str, str], str]] = {}
"""SQL for stored decimals as people read them, by name and type; its module registers it."""

ORDERED: dict[str, Callable[..., Any]] = {}
"""What is done with changes that have an order; their module registers it."""

CLOCK: dict[str, Callable[..., Any]] = {}
"""What gives batches their time; its module registers it."""

COMMITS = """CREATE TABLE _commits (
    number INTEGER PRIMARY KEY, batch TEXT NOT NULL UNIQUE, generated INTEGER NOT NULL, command TEXT NOT NULL,
    reverts TEXT, time TEXT NOT NULL, clock INTEGER NOT NULL, rows TEXT NOT NULL, changes TEXT NOT NULL
)"""
"""A row for each commit: the ID of its batch, and whether the state has generated it; the command that made it, and the
batch that it reverts; its time; the greatest rank; and by table, as JSON, the number of its tuples, and of those that
were inserted and deleted."""

SETTINGS = "CREATE TABLE _settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
"""What the file is of: the name of the program and its hash, its relations and functions; how many commits keep their
changes, and up to which they are forgotten; from which commit on relations have changes, by tables, and inputs are gone
or have other columns, by names; and statistics by tables and columns."""


def is_record(text: str) -> bool:
    """Return whether a text is a JSON object."""
    return isinstance(json.loads(text), dict)


def is_record_of_feeds(text: str) -> bool:
    """Return whether a text is a JSON object of the records of feeds, as far as what has no feeds reads them."""
    feeds = json.loads(text)
    return isinstance(feeds, dict) and all(
        isinstance(record, dict) and isinstance(record.get("source"), str) and {"columns", "where"} <= record.keys()
        for record in feeds.values()
    )


def is_count(value: object) -> bool:
    """Return whether a value of JSON is a number of rows."""
    return type(value) is int and 0 <= value < 2**62


def are_statistics(text: str) -> bool:
    """Return whether a text is a JSON array of statistics, each with the name of a table, those of columns, and numbers
    of rows, of values and of changes."""
    return all(
        len(numbers) == 3 and all(map(is_count, numbers)) and all(isinstance(text, str) for text in (name, *columns))
        for name, columns, *numbers in json.loads(text)
    )


SETTINGS_READ: dict[str, Callable[[str], bool]] = {
    "program": bool,
    "relations": bool,
    "functions": is_record,
    "begun": is_record,
    "lost_inputs": is_record,
    "feeds": is_record_of_feeds,
    "statistics": are_statistics,
    "keep": lambda text: bool(KEEP.fullmatch(text)),
    "forgotten": str.isdecimal,
}
"""The settings that are read, and whether one of them is as it has to be."""


def view_name(table: str) -> str:
    """Return the name of the view of a relation: that of its table, but SQLite keeps some names for itself."""
    return f"relation_{table}" if table.lower().startswith("sqlite_") else table


def logged(program: RowProgram) -> Iterator[RowRelation]:
    """Yield the relations whose net changes are kept: outputs, and inputs, which a revert restores. A process does not
    go back, so it keeps none of what it has received without being asked for."""
    for relation in filter(is_logged, program.relations):
        if not (program.beside and relation.hidden):
            yield relation


def is_logged(relation: RowRelation) -> bool:
    """Return whether the net changes of a relation are kept."""
    return (relation.output and not relation.hidden) or relation.kind == "input"


def changes_table(relation: RowRelation) -> str:
    """Return the name of the table of the net changes of a relation in SQL."""
    return quoted_sql(f"_stored_changes_of_{relation.table}")


def changes_index(table: str) -> str:
    """Return the name of the index of the net changes of a relation."""
    return f"_stored_changes_of_{table}__1"


def expected_schema(tables: RowTables, sequences: Iterable[str] = ()) -> dict[tuple[str, str], str]:
    """Return the definitions of all that a file has, by types and names; some inputs have ``sequences``."""
    made = {("table", "_commits"): COMMITS, ("table", "_settings"): SETTINGS}
    made |= {(kind, name): sql for kind, name, sql in (*definitions(tables), *tables.program.beside)}
    for relation in logged(tables.program):
        table = tables.tables[relation.table]
        columns = table.typed(table.columns)
        name = f"_stored_changes_of_{relation.table}"
        made["table", name] = (
            f"CREATE TABLE {quoted_sql(name)} (_commit INTEGER NOT NULL, _op TEXT NOT NULL, {columns})"
        )
        index = changes_index(relation.table)
        made["index", index] = f"CREATE INDEX {quoted_sql(index)} ON {quoted_sql(name)} (_commit)"
        made["view", f"_changes_of_{relation.table}"] = view_of(
            f"_changes_of_{relation.table}", relation, name, ("_commit", "_op")
        )
    for relation in tables.program.relations:
        if not relation.hidden:
            name = view_name(relation.table)
            made["view", name] = view_of(name, relation, f"_rows_of_{relation.table}")
    for name in sequences:
        made |= ORDERED["schema"](tables, name)
    return made


def view_of(name: str, relation: RowRelation, table: str, first: Sequence[str] = ()) -> str:
    """Return the definition of a view with the values of a relation's columns as people read them."""
    columns = relation.columns or (UNIT_COLUMN,)
    names = [*first, *(quoted_sql(column.sql) for column in columns)]
    values = [*first, *(readable_value(column) for column in columns)]
    return f"CREATE VIEW {quoted_sql(name)} ({', '.join(names)}) AS SELECT {', '.join(values)} FROM {quoted_sql(table)}"


def readable_value(column: Column) -> str:
    """Return SQL for a stored value as people read it, in functions that each SQLite has."""
    name, kind = quoted_sql(column.sql), plain_type(column.type)
    value = name
    if kind.startswith("decimal") and not is_list(kind):
        value = READABLE["decimal"](name, kind)
    return f"CASE WHEN {name} = x'' THEN NULL ELSE {value} END" if is_optional(column.type) else value


class FileRelation(NamedTuple):
    """What a file has of a relation: the names, names in SQL and types of its ``columns``, whether its changes are kept
    (``logged``), and the rest as in RowRelation."""

    name: str
    kind: str
    columns: list[list[str]]
    key: list[str]
    copy: str
    hidden: bool
    logged: bool
    definition: str


def relation_record(relation: RowRelation) -> FileRelation:
    """Return the record of a relation."""
    columns = [[column.name, column.sql, column.type] for column in relation.columns]
    key, copy = [*relation.key], relation.copy
    return FileRelation(
        relation.name, relation.kind, columns, key, copy, relation.hidden, is_logged(relation), relation.definition
    )


def is_relation_record(record: FileRelation) -> bool:
    """Return whether the record of a relation in a file is one."""
    texts = (record.name, record.kind, record.copy, *(text for column in record.columns for text in column))
    return all(isinstance(text, str) for text in texts) and all(len(column) == 3 for column in record.columns)


def relation_records(program: RowProgram) -> str:
    """Return what tells the relations of one version of a program from those of others, as JSON by table."""
    return json.dumps({relation.table: relation_record(relation) for relation in program.relations}, sort_keys=True)


def recorded_relations(settings: Mapping[str, str], path: str) -> dict[str, FileRelation]:
    """Return the records of the relations of the program that wrote a state, by table."""
    try:
        records = {table: FileRelation(*record) for table, record in json.loads(settings["relations"]).items()}
        if all(map(is_relation_record, records.values())):
            return records
    except (ValueError, TypeError, AttributeError):
        pass
    raise JobError(f"{path} is damaged: it does not say what its relations are")


def differing(program: RowProgram, settings: Mapping[str, str], path: str) -> list[str]:
    """Return the names of the relations in which a program differs from the one that wrote a state, as users know
    them; none if they are the same."""
    written = recorded_relations(settings, path)
    own = {relation.table: relation_record(relation) for relation in program.relations}
    tables = [table for table in sorted(written.keys() | own.keys()) if written.get(table) != own.get(table)]
    if not tables:
        return []
    told = {relation.table: relation.shown_as for relation in program.relations if relation.hidden}
    told = {t: record.name for t, record in written.items() if not record.hidden} | told
    told |= {relation.table: relation.name for relation in program.relations if not relation.hidden}
    return [*dict.fromkeys(told[table] for table in tables if told.get(table))] or ["its rules"]


def check_settings(program: RowProgram, settings: Mapping[str, str], path: str) -> None:
    """Raise JobError if a file is of another program, or of another version of it."""
    names = differing(program, settings, path)
    if names:
        listed = ", ".join([*names[:NAMES_TOLD], *(["..."] if len(names) > NAMES_TOLD else [])])
        raise JobError(
            f"{path} was written by another program, {shown(settings['program'])}, or by another version of it: "
            f"{listed} differ{conversion(program)}"
        )


def conversion(program: RowProgram) -> str:
    """Return how a file is converted, for messages; that of a process is not."""
    return "" if program.beside else "; `flintlog job upgrade SCRIPT --state FILE` converts it"


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return whether a database has nothing in it."""
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is None


def check_origin(connection: sqlite3.Connection, path: str) -> dict[str, str]:
    """Return what a file says of itself; raise JobError unless it is the state of a program, in this version."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise JobError(f"{path} is an SQLite database, but not the state of a Flintlog program")
    if version != SCHEMA_VERSION:
        newer = (
            "a newer version of Flintlog: compile the program with that one"
            if version > SCHEMA_VERSION
            else ("an older version of Flintlog: build a new file with `init`")
        )
        raise JobError(f"{path} was written by {newer}")
    for name, sql in (("_settings", SETTINGS), ("_commits", COMMITS)):
        query = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?"
        if connection.execute(query, (name,)).fetchone() != (sql,):
            raise JobError(f"{path} is damaged, or was changed by another program: it has no table {name} of a state")
    # Files have feeds once these were connected, statistics once joins were chosen by them, sequences once changes had
    # an order, and rows set aside once there were any.
    settings = {"feeds": "{}", "statistics": "[]", "sequences": "{}", "set_aside": "{}"}
    settings |= dict(connection.execute("SELECT name, value FROM _settings"))
    for name, has in SETTINGS_READ.items():
        try:
            read = isinstance(settings[name], str) and has(settings[name])
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError, JobError):
            read = False
        if not read:
            raise JobError(f"{path} is damaged: its setting {name} cannot be read; restore it from a copy")
    return settings


def check_schema(connection: sqlite3.Connection, tables: RowTables, path: str, sequences: Iterable[str]) -> None:
    """Raise JobError unless a file has what the program puts there, and nothing else: a table or a trigger of somebody
    else might do anything."""
    there, known = stored_schema(connection), expected_schema(tables, sequences)
    if there == known:
        return
    foreign = [key for key, sql in there.items() if known.get(key) != sql]
    missing = [key for key in known if key not in there]
    both = there.keys() & known.keys()  # A table is an index, too, by its primary key.
    if all(key[1].startswith("_rows_of_") and (key[0] == "index" or key in both) for key in (*foreign, *missing)):
        raise JobError(
            f"{path} has other indexes than the program: another version of Flintlog made it"
            f"{conversion(tables.program)}"
        )
    refuse_others(path, foreign, missing)


def stored_schema(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Return the definitions of all that a file has, by types and names, but for what is SQLite's own: the indexes of
    unique columns, and what ANALYZE leaves."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema")
    return {(k, n): sql for k, n, sql in rows if not (n.startswith("sqlite_") and (sql is None or k == "table"))}


def refuse_others(path: str, foreign: Iterable[tuple[str, str]], missing: Iterable[tuple[str, str]]) -> None:
    """Raise JobError if a file has anything foreign, or if anything is missing, by types and names."""
    for kind, name in foreign:
        strange = "which the program has not made or has made otherwise"
        raise JobError(f"{path} has the {kind} {shown(name)}, {strange}: it was changed by another program")
    for kind, name in missing:
        raise JobError(f"{path} lacks the {kind} {shown(name)}: it was changed by another program")
