"""The commands ``upgrade`` and ``rebuild`` of a state in one SQLite file, which compute all relations again from the
inputs, in one transaction. Scripts lack them; ``flintlog job`` has them."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..job.report import report_commit
from ..kernel.errors import JobError, Refused
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource
from ..row_kernel.batch import BEGINNING, maintain_all
from ..row_kernel.model import RowProgram, RowRelation
from ..row_kernel.tables import listed, quoted_sql, same
from ..store.extensions import supply
from ..system.log import Log
from .commands import changes_said, rows_said
from .reading import RowReading, StoredChange, read_batch
from .schema import (
    FileRelation,
    changes_index,
    changes_table,
    check_schema,
    differing,
    expected_schema,
    is_logged,
    logged,
    recorded_relations,
    refuse_others,
    relation_record,
    stored_schema,
    view_name,
)
from .sequences import SEQUENCE_COLUMNS, sequences_table
from .state import CommitRecord, DatabaseState, Result, open_file_state

NAME = '"((?:[^"]|"")+)"'
"""Matches a name in the definition of a table."""

COLUMN = f"{NAME} (?:INTEGER|REAL|TEXT|BLOB)"

MADE = re.compile(
    f"CREATE TABLE {NAME} \\((_commit INTEGER NOT NULL, _op TEXT NOT NULL, )?(?P<columns>{COLUMN}(, {COLUMN})*)"
    f"(?(2)\\)|(, {SEQUENCE_COLUMNS})?, PRIMARY KEY \\({NAME}(, {NAME})*\\)\\) WITHOUT ROWID)"
)
"""Matches the definition of a table of changes, of tuples, or of sequences."""


class FormerRelation(NamedTuple):
    """A relation of the program that wrote a state: its table, and what is recorded of it."""

    table: str
    record: FileRelation

    @property
    def rows(self) -> str:
        """The name in SQL of the table of its tuples while they are compared."""
        return quoted_sql(f"_former_rows_of_{self.table}")

    @property
    def changes(self) -> str:
        """The name in SQL of the table of its changes meanwhile."""
        return quoted_sql(f"_former_changes_of_{self.table}")

    @property
    def sequences(self) -> str:
        """The name in SQL of the table of the sequences of its keys."""
        return quoted_sql(f"_sequences_of_{self.table}")

    def has_sequences(self, records: Mapping[str, object]) -> bool:
        """Return whether it is an input among those that have ``records`` of sequences."""
        return self.record.kind == "input" and bool(self.record.key) and self.record.name in records

    def has_key_of(self, relation: RowRelation) -> bool:
        """Return whether the relation has the primary key of one of the program."""
        former = [(name, sql, kind) for name, sql, kind in self.record.columns if sql in self.record.key]
        now = [(column.name, column.sql, column.type) for column in relation.columns if column.sql in relation.key]
        return self.record.key == [*relation.key] and former == now

    def has_columns_of(self, relation: RowRelation) -> bool:
        """Return whether the relation has the columns of one of the program."""
        record = relation_record(relation)
        return (self.record.columns, self.record.copy) == (record.columns, record.copy)

    def takes(self, relation: RowRelation) -> bool:
        """Return whether an input has the columns of one of the program, which may be null where they were not, and
        may count its rows or not."""
        former = [(name, kind) for name, _, kind in self.record.columns]
        now = [(column.name, column.type) for column in relation.columns]
        return len(former) == len(now) and all(
            name == old_name and kind in (old, f"{old}?")
            for (old_name, old), (name, kind) in zip(former, now, strict=True)
        )


def upgrade_file(
    program: RowProgram,
    state: str,
    inputs: str | Sequence[str] = (),
    reading: RowReading | None = None,
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    functions: FunctionSource = None,
    log: Log | None = None,
) -> Result:
    """Convert the state of another version of the program to this one: compute all relations again in one transaction,
    from the stored inputs, or from those in ``inputs``, which ``reading`` says how to read. Outputs that both versions
    have get the net changes. The result names the relations that are ``new`` or have other columns, and those that were
    ``dropped``.

    Raises JobError if stored rows of an input have other columns, and Refused for rows that cannot be read.
    """
    started, reading, log = time.monotonic(), reading or RowReading(True), log or Log()
    with open_file_state(
        program, state, supply(program, functions), max_rounds, recomputes=True, max_entries=max_entries
    ) as database:
        schema = stored_schema(database.connection) == expected_schema(database.tables, database.sequences)
        if not inputs and schema and not differing(program, database.settings, state) and has_its_functions(database):
            commit = database.commit
            named = {"batch": commit.batch, "commit": commit.number, "applied": False}
            return {"program": program.name, **named, "new": [], "dropped": []}
        return recompute_file(database, "upgrade", inputs, reading, log, started)


def rebuild_file(
    program: RowProgram,
    state: str,
    inputs: str | Sequence[str] = (),
    reading: RowReading | None = None,
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    functions: FunctionSource = None,
    log: Log | None = None,
) -> Result:
    """Compute all relations again as :func:`upgrade_file` does, also those of a state that ``verify`` finds wrong."""
    started, reading = time.monotonic(), reading or RowReading(True)
    with open_file_state(
        program, state, supply(program, functions), max_rounds, recomputes=True, max_entries=max_entries
    ) as database:
        return recompute_file(database, "rebuild", inputs, reading, log or Log(), started)


def has_its_functions(database: DatabaseState) -> bool:
    """Return whether the external functions of a state are those that it was made with."""
    sources = dict(database.supplied.sources) if database.supplied else {}
    return bool(json.loads(database.settings["functions"]) == sources)


def keep_feeds(database: DatabaseState, former: Sequence[FormerRelation], given: Mapping[str, Any]) -> None:
    """Keep the feeds of inputs. The next batch compares as a whole those whose relations do not have the rows that were
    read: since others were ``given``, by tables, or since the ``former`` program had no such input."""
    feeds, kept = database.feeds, {}
    stored = {one.table: one for one in former if one.record.kind == "input"}
    for name, relation in database.program.inputs.items():
        if name in feeds:
            stays = relation.table in stored and stored[relation.table].has_columns_of(relation)
            read = feeds[name] if stays and relation.table not in given else ("source", "columns", "where")
            kept[name] = {member: feeds[name][member] for member in read}
    database.set("feeds", json.dumps(kept))


def recompute_file(
    database: DatabaseState,
    command: str,
    inputs: str | Sequence[str],
    reading: RowReading,
    log: Log,
    started: float,
) -> Result:
    """Compute all relations again in a commit, and return the result of a command."""
    program = database.program
    given = read_batch(program, inputs, reading, log)
    former: list[FormerRelation] = []
    with database.transaction():
        former += former_relations(database)
        record = recompute_all(database, former, given, command, log)
        keep_feeds(database, former, given)
    compared = continued_relations(program, former).compared
    visible = {relation.name: relation.table for relation in program.relations if not relation.hidden}
    return {
        "program": program.name,
        "batch": record.batch,
        "commit": record.number,
        "applied": True,
        "changes": changes_said(program, record),
        "rows": rows_said(program, record),
        "published": {},
        "steps": [],
        "seconds": round(time.monotonic() - started, 3),
        **({"left_out": dict(reading.left_out)} if reading.left_out else {}),
        "new": [name for name, table in visible.items() if table not in compared],
        "dropped": [one.record.name for one in former if not one.record.hidden and one.record.name not in visible],
    }


def former_relations(database: DatabaseState) -> list[FormerRelation]:
    """Return the relations of the program that wrote a state. Raise JobError if the file has other tables than theirs,
    or views or triggers, which would run; it may lack views, and may have other indexes of the tables of tuples."""
    connection, kept = database.connection, database.records("sequences")
    former = [FormerRelation(*item) for item in recorded_relations(database.settings, database.path).items()]
    tables = {("table", f"_rows_of_{BEGINNING}"): ["_unit"]}
    others = {("table", "_commits"), ("table", "_settings")}
    for one in former:
        columns = [sql for _, sql, _ in one.record.columns] or ["_unit"]
        columns += [one.record.copy] if one.record.copy else []
        if one.has_sequences(kept):
            tables["table", f"_sequences_of_{one.table}"] = one.record.key
        tables["table", f"_rows_of_{one.table}"] = columns
        others |= {("view", view_name(one.table))} if not one.record.hidden else set()
        if one.record.logged:
            tables["table", f"_stored_changes_of_{one.table}"] = columns
            others |= {("view", f"_changes_of_{one.table}"), ("index", changes_index(one.table))}
        query = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?"
        others |= {("index", name) for (name,) in connection.execute(query, (f"_rows_of_{one.table}",))}
    there = stored_schema(connection)
    foreign = (
        key
        for key, sql in there.items()
        if not (key in others or (key in tables and {*tables[key]} <= made_columns(sql)))
    )
    refuse_others(database.path, foreign, (key for key in tables if key not in there))
    return former


def made_columns(sql: str) -> set[str]:
    """Return the columns of a table, by its definition; none if that has more than the program writes, such as checks
    or generated columns."""
    made = MADE.fullmatch(sql)
    return {name.replace('""', '"') for name in re.findall(COLUMN, made["columns"])} if made else set()


class Continued(NamedTuple):
    """The former relations that those of the program are compared with, and those whose kept changes they go on with,
    by their tables."""

    compared: dict[str, FormerRelation]
    logs: dict[str, FormerRelation]


def continued_relations(program: RowProgram, former: Sequence[FormerRelation]) -> Continued:
    """Return what goes on: inputs, also of relations that have facts or rules besides, and visible relations, if they
    have the same columns as before. Changes of what was derived are none of an input."""
    compared, logs = {}, {}
    for relation in program.relations:
        is_input = relation.kind == "input"
        found = (one for one in former if one.record.name == relation.name and one.has_columns_of(relation))
        fitting = [one for one in found if not one.record.hidden or (is_input and one.record.kind == "input")]
        fitting.sort(key=lambda one: (one.record.kind == "input") != is_input)
        if fitting and (is_input or not relation.hidden):
            compared[relation.table] = fitting[0]
            was_input = fitting[0].record.kind == "input"
            if is_logged(relation) and fitting[0].record.logged and (was_input or not is_input):
                logs[relation.table] = fitting[0]
    # Of a relation that has got facts or rules, the input goes on.
    inputs = {relation.table for relation in program.inputs.values()}
    for table, one in [*logs.items()]:
        if table not in inputs and any(logs[name] is one for name in inputs & logs.keys()):
            del logs[table]
    return Continued(compared, logs)


def recompute_all(
    database: DatabaseState,
    former: Sequence[FormerRelation],
    given: Mapping[str, list[StoredChange]],
    command: str,
    log: Log,
) -> CommitRecord:
    """Compute all relations again in the transaction that is open, and return the new commit. ``given`` has the rows of
    inputs, by table, that do not keep theirs."""
    program, tables, before = database.program, database.tables, database.commit
    kept = continued_inputs(database, former, given, log)
    compared, logs = continued_relations(program, former)
    keep_sequences(database, former, given, log)
    set_aside(database, former)
    for table, one in logs.items():
        database.connection.execute(f"ALTER TABLE {one.changes} RENAME TO {quoted_sql(f'_stored_changes_of_{table}')}")
    database.make_schema()
    tables.clock = 1
    tables.statistics.clear()
    try:
        maintain_all(tables, database.timed({**given, **kept}), True)
    except Refused as error:
        raise database.with_failures(error) from error
    changes = {}
    for relation in program.relations:
        if relation.table in compared:
            counts = log_differences(database, relation, compared[relation.table], before.number + 1)
            if any(counts):
                changes[relation.table] = counts
    rows = {relation.table: tables.tables[relation.table].gained for relation in program.relations}
    note_begun(database, former, logs, before.number + 1)
    rename_in_commits(database, {one.table: table for table, one in compared.items()})
    for one in former:
        for name in (one.rows, one.changes):
            database.connection.execute(f"DROP TABLE IF EXISTS {name}")
    record = database.add_commit(None, command, None, rows, changes)
    check_schema(database.connection, tables, database.path, database.sequences)
    return record


def keep_sequences(
    database: DatabaseState, former: Sequence[FormerRelation], given: Mapping[str, object], log: Log
) -> None:
    """Keep the sequences of inputs that have the same primary key and keep their rows. Warn of the others."""
    records, kept, execute = database.records("sequences"), {}, database.connection.execute
    for one in former:
        if not one.has_sequences(records):
            continue
        name = one.record.name
        relation = database.program.inputs.get(name)
        anew = relation is not None and relation.table in given
        if relation and not anew and one.has_key_of(relation):
            kept[name] = records[name]
            if relation.table != one.table:
                execute(f"ALTER TABLE {one.sequences} RENAME TO {sequences_table(relation)}")
            continue
        execute(f"DROP TABLE {one.sequences}")
        why = "its rows are given anew" if anew else "it has another primary key, or is no input any more"
        log.warn(f"{name} no longer keeps the sequences of its keys, since {why}")
    if records:
        database.record("sequences", kept)


def continued_inputs(
    database: DatabaseState, former: Sequence[FormerRelation], given: Mapping[str, object], log: Log
) -> dict[str, Iterator[StoredChange]]:
    """Return the stored rows of the inputs that keep theirs, by table, as insertions, which are read when needed. Warn
    of inputs that are gone or new; raise JobError for one whose stored rows have other columns."""
    kept = {}
    inputs = {one.record.name: one for one in former if one.record.kind == "input"}
    for relation in database.program.inputs.values():
        one = inputs.pop(relation.name, None)
        if relation.table in given or (relation.clock and one is None):
            continue
        if one is None:
            log.warn(f"{relation.name} is new and starts empty: no --input {relation.name}=PATH was given")
        elif not one.takes(relation):
            raise JobError(
                f"the columns of {relation.name} differ from those of its stored rows; pass rows with --input "
                f"{relation.name}=PATH"
            )
        else:
            kept[relation.table] = rows_put_in(database.connection, one, bool(relation.copy))
    for name in inputs:
        log.warn(f"{name} is no longer an input; its rows are dropped")
    return kept


def rows_put_in(connection: sqlite3.Connection, one: FormerRelation, counted: bool) -> Iterator[StoredChange]:
    """Yield the stored rows of a former input as insertions; each copy of a row only if they are ``counted``."""
    columns = listed(sql for _, sql, _ in one.record.columns) or listed(("_unit",))
    distinct = "" if counted or not one.record.copy else "DISTINCT "
    for row in connection.execute(f"SELECT {distinct}{columns} FROM {one.rows}"):
        yield "+", row


def set_aside(database: DatabaseState, former: Sequence[FormerRelation]) -> None:
    """Give the former tables other names, and drop their views and indexes."""
    execute = database.connection.execute
    for one in former:
        for view in (f"_changes_of_{one.table}", view_name(one.table)):
            execute(f"DROP VIEW IF EXISTS {quoted_sql(view)}")
        query = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
        for (index,) in execute(query, (f"_rows_of_{one.table}",)).fetchall():
            execute(f"DROP INDEX {quoted_sql(index)}")
        execute(f"ALTER TABLE {quoted_sql(f'_rows_of_{one.table}')} RENAME TO {one.rows}")
        if one.record.logged:
            execute(f"DROP INDEX IF EXISTS {quoted_sql(changes_index(one.table))}")
            execute(f"ALTER TABLE {quoted_sql(f'_stored_changes_of_{one.table}')} RENAME TO {one.changes}")
    execute(f"DROP TABLE {quoted_sql(f'_rows_of_{BEGINNING}')}")


def log_differences(database: DatabaseState, relation: RowRelation, one: FormerRelation, number: int) -> list[int]:
    """Keep the net changes of a relation in a commit, if they are kept; return how many tuples were inserted and
    deleted."""
    table, columns = database.tables.tables[relation.table], listed(database.tables.tables[relation.table].columns)
    counts = []
    for op, has, lacks in (("-", one.rows, table.name), ("+", table.name, one.rows)):
        absent = f"NOT EXISTS (SELECT 1 FROM {lacks} AS o WHERE {same(table.columns, 'o', 's')})"
        query = f"FROM {has} AS s WHERE {absent}"
        if is_logged(relation):
            inserted = database.connection.execute(
                f"INSERT INTO {changes_table(relation)} (_commit, _op, {columns}) "
                f"SELECT ?, ?, {listed(table.columns, 's')} {query}",
                (number, op),
            )
            counts.append(inserted.rowcount)
        else:
            counts.append(database.connection.execute(f"SELECT COUNT(*) {query}").fetchone()[0])
    return counts[::-1]


def note_begun(
    database: DatabaseState, former: Sequence[FormerRelation], logs: Mapping[str, FormerRelation], number: int
) -> None:
    """Record from which commit on relations, by their tables, have changes that are kept; and which inputs, by their
    names, are gone, derived now or have other columns, so that what was before cannot be undone."""
    begun, inputs = json.loads(database.setting("begun")), json.loads(database.setting("lost_inputs"))
    known = {logs[relation.table].table for relation in database.program.inputs.values() if relation.table in logs}
    gone = {one.record.name: number for one in former if one.record.kind == "input" and one.table not in known}
    since = {
        relation.table: begun.get(logs[relation.table].table, 1) if relation.table in logs else number
        for relation in logged(database.program)
    }
    database.set("begun", json.dumps({table: first for table, first in since.items() if first > 1}))
    database.set("lost_inputs", json.dumps(inputs | gone))


def rename_in_commits(database: DatabaseState, tables: Mapping[str, str]) -> None:
    """Let earlier commits name the tables as the program does, if it has others; tables that are gone are not named."""
    for commit in [*database.commits()]:
        named = [
            json.dumps({tables[name]: value for name, value in of.items() if name in tables})
            for of in (commit.rows, commit.changes)
        ]
        database.connection.execute(
            "UPDATE _commits SET rows = ?, changes = ? WHERE number = ?", (*named, commit.number)
        )


def report_recomputed(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report an upgrade: its commit, and what is new or was dropped."""
    if not result["applied"]:
        yield "nothing to do: no definition has changed"
        return
    yield from report_commit(result)
    for name in ("new", "dropped"):
        if result[name]:
            yield f"{name}: {', '.join(result[name])}"
