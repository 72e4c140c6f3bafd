"""The commands of a job whose state is one SQLite file, as functions."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..inputs.values import value_reader
from ..job.batch_folder import BatchFolder
from ..job.command_line import CommandCall
from ..kernel.errors import JobError, Passing, Refused
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource
from ..kernel.values import plain_value, shown
from ..row_kernel.batch import RowChanges
from ..row_kernel.encodings import encoded, encoded_row, encoded_tuple
from ..row_kernel.model import RowProgram, RowRelation
from ..row_kernel.tables import ROW_PARTS, quoted_sql
from ..store.extensions import supply
from ..store.published_names import check_batch, operation_column
from ..store.retention import checked_keep
from ..system.ended import until_signal
from ..system.log import Log
from ..system.places import sync
from ..system.printing import RowPrinter
from ..system.transient_errors import Troubles
from .reading import SET_ASIDE, RowReading, StoredChange, read_batch
from .schema import CLOCK, ORDERED, logged
from .state import CommitRecord, DatabaseState, Result, open_file_state, telling_errors


class FileBatch(NamedTuple):
    """A batch that a command is to commit: the name of the command, the ID of the batch if it is given, the log, the
    start of the command by ``time.monotonic()``, and the batch that it reverts."""

    command: str
    batch: str | None
    log: Log
    started: float
    reverts: str | None = None


def init_file(
    program: RowProgram,
    state: str,
    inputs: str | Sequence[str] = (),
    all_inserts: bool = False,
    nulls: str = "refuse",
    quarantine: str | None = None,
    keep: str | int | None = None,
    as_of: str | None = None,
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    functions: FunctionSource = None,
    log: Log | None = None,
    build: Callable[..., Result] | None = None,
) -> Result:
    """Build the state from rows of the input relations; raise JobError if there is one. ``build`` is how, if not row by
    row."""
    started, log = time.monotonic(), log or Log()
    reading = RowReading(True, all_inserts=all_inserts, nulls=nulls, quarantine=quarantine, as_of=as_of)
    kept, supplied = checked_keep(keep), supply(program, functions)
    check_folder(state)
    with open_file_state(program, state, supplied, max_rounds, new=True, max_entries=max_entries) as database:
        database.keep = kept or database.keep
        given = FileBatch("init", None, log, started)
        try:
            if build:
                return build(database, given, inputs, reading)
            changes = read_batch(program, inputs, reading, log)
            return commit_batch(database, given, lambda: changes, reading)
        except Refused as error:
            # Without advice for those who have a state.
            raise Refused(error.without_state) from error


def check_folder(state: str) -> None:
    """Raise JobError if a file cannot be made at a place, or would be a folder."""
    path = Path(state).absolute()
    if not path.parent.is_dir():
        raise JobError(f"{path.parent} is not a folder, in which {path.name} could be made")
    if path.is_dir():
        raise JobError(f"{state} is a folder; the state of this program is a file")


def apply_file(
    program: RowProgram,
    state: str,
    changes: str | Sequence[str],
    batch: str | None = None,
    op_column: str = "op",
    net: str | None = None,
    all_inserts: bool = False,
    nulls: str = "refuse",
    order_column: str | None = None,
    quarantine: str | None = None,
    as_of: str | None = None,
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    functions: FunctionSource = None,
    log: Log | None = None,
) -> Result:
    """Apply a batch of changes in one transaction. A batch whose ID is there already changes nothing."""
    reading = RowReading(False, op_column, net, all_inserts, nulls, order_column, quarantine, as_of)
    with open_file_state(program, state, supply(program, functions), max_rounds, max_entries=max_entries) as database:
        return apply_to(database, changes, batch, reading, log or Log())


def apply_to(
    database: DatabaseState, changes: str | Sequence[str], batch: str | None, reading: RowReading, log: Log
) -> Result:
    """Apply a batch of changes to an opened state."""
    started = time.monotonic()
    if SET_ASIDE:
        SET_ASIDE["write"](database, reading.quarantine, log)
    if batch is not None:
        check_batch(batch)
        with telling_errors(database.path):
            if database.known_batch(batch):
                return known_batch_summary(database, batch, log)
    rows = read_batch(database.program, changes, reading, log)

    def changes_read() -> RowChanges:
        reading.late.clear()
        changes = rows | (ORDERED["changes"](database, reading) if reading.ordered else {})
        database.check_order(changes, reading.order_column)
        return database.unfed(changes)

    return commit_batch(database, FileBatch("apply", batch, log, started), changes_read, reading)


def commit_batch(
    database: DatabaseState,
    given: FileBatch,
    changes: Callable[[], RowChanges],
    reading: RowReading | None = None,
) -> Result:
    """Apply changes in one transaction, unless there is a commit of the batch, and return the result. They were read as
    ``reading`` says, if they were."""
    command, batch, log, _, reverts = given
    apart: Result = {}
    database.as_of = reading.as_of if reading else None
    with database.transaction():
        # Another process may have applied it meanwhile.
        known = database.known_batch(batch)
        record = database.commit if known else database.apply(changes(), batch, command, reverts)
        if reading and reading.aside and not known:
            apart = reading.aside.note(database, record)
    if reading and apart:
        SET_ASIDE["write"](database, reading.quarantine, log)
    if known:
        return known_batch_summary(database, str(batch), log)
    late = dict(+reading.late) if reading else {}
    for name, count in late.items():
        log.event("late", relation=name, rows=count)
    apart |= {"late": late} if late else {}
    return {**batch_summary(database, record, given, reading.left_out if reading else None), **apart}


def batch_summary(
    database: DatabaseState, record: CommitRecord, given: FileBatch, left_out: Mapping[str, int] | None
) -> Result:
    """Return the result of a command that has committed a batch."""
    return {
        "program": database.program.name,
        "batch": record.batch,
        "commit": record.number,
        "applied": True,
        "changes": changes_said(database.program, record),
        "rows": rows_said(database.program, record),
        "published": {},
        "steps": [],
        "seconds": round(time.monotonic() - given.started, 3),
        **({"left_out": dict(left_out)} if left_out else {}),
        **({"reverts": given.reverts} if given.reverts is not None else {}),
    }


def known_batch_summary(database: DatabaseState, batch: str, log: Log) -> Result:
    """Return the result of a command that commits nothing, since the state has applied its batch before."""
    log.event("known", batch=batch)
    database.refresh()
    number = database.commit.number
    return {"program": database.program.name, "batch": batch, "commit": number, "applied": False}


def changes_said(program: RowProgram, record: CommitRecord) -> dict[str, dict[str, int]]:
    """Return how many tuples of each relation a commit has inserted and deleted."""
    return {
        relation.name: dict(zip(("inserted", "deleted"), record.changes[relation.table], strict=True))
        for relation in program.relations
        if relation.table in record.changes and not relation.hidden
    }


def rows_said(program: RowProgram, record: CommitRecord) -> dict[str, int]:
    """Return how many tuples each relation has."""
    return {relation.name: record.rows[relation.table] for relation in program.relations if not relation.hidden}


# Folders of batches


def apply_given(call: CommandCall) -> None:
    """Apply a batch, or the batches of a folder, as the command ``apply`` asks for, and tell the results."""
    options = dict(call.options)
    state, changes, batches, batch = (options.pop(name) for name in ("state", "changes", "batches", "batch"))
    if not batches:
        if not changes and call.program.clock is None:
            raise JobError("give the changes with --changes, or a folder of batches with --batches")
        call.tell(apply_file(call.program, state, changes or (), batch, log=call.log, **options))
        return
    if batch:
        raise JobError("--batch cannot be combined with --batches, whose folders name their batches")
    with opened_by(call, state, options) as database:
        folder = waiting_batches(database, batches)
        for waiting in folder.waiting():
            call.tell(apply_waiting(database, folder, waiting, call.log, options))


def follow_folder(call: CommandCall) -> None:
    """Apply the batches of a folder, and those that arrive in it, until a signal, and tell the results."""
    options, log, ended, troubles = dict(call.options), call.log, until_signal(), Troubles(call.log)
    state, batches, poll = (options.pop(name) for name in ("state", "batches", "poll"))
    if not batches:
        raise JobError("give a folder of batches with --batches")
    with contextlib.suppress(KeyboardInterrupt), opened_by(call, state, options) as database:
        folder = waiting_batches(database, batches)
        log.event("follow", folder=batches, known=len(folder.known))
        while not ended.is_set():
            try:
                waiting = folder.waiting(complete=False)
                for batch in waiting:
                    call.tell(apply_waiting(database, folder, batch, log, options))
                    troubles.over()
                    if ended.is_set():
                        return
            except Passing as error:
                ended.wait(troubles.note(str(error)))
                continue
            if not waiting:
                tell_time(call, database)
                ended.wait(poll)


def tell_time(call: CommandCall, database: DatabaseState) -> None:
    """Apply what the time has changed, if the program reads it and that is anything, and tell the result."""
    if CLOCK and (result := CLOCK["advance"](database, call.log)):
        call.tell(result)


def opened_by(call: CommandCall, state: str, options: dict[str, Any]) -> DatabaseState:
    """Return the state for a command; its options for that are taken out of ``options``."""
    supplied = supply(call.program, options.pop("functions", None))
    entries = options.pop("max_entries", MOST_ENTRIES)
    return open_file_state(call.program, state, supplied, options.pop("max_rounds"), max_entries=entries)


def waiting_batches(database: DatabaseState, batches: str) -> BatchFolder:
    """Return the batches of a folder that the state does not have."""
    given = database.connection.execute("SELECT batch FROM _commits WHERE NOT generated")
    return BatchFolder(batches, (batch for (batch,) in given))


def apply_waiting(
    database: DatabaseState, folder: BatchFolder, batch: str, log: Log, options: Mapping[str, Any]
) -> Result:
    """Apply a batch of a folder and return its result; raise JobError, naming the batch, if that fails."""
    try:
        result = apply_to(database, folder.place(batch), batch, RowReading(False, **options), log)
    except JobError as error:
        raise type(error)(f"batch {batch}: {error}") from error
    folder.known.add(batch)
    return result


# Reading


def status_file(program: RowProgram, state: str) -> Result:
    """Return what the state contains."""
    with open_file_state(program, state) as database, database.reading():
        pages, size = (
            database.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        return {
            "program": program.name,
            "compiler": program.compiler,
            "commit": database.commit.number,
            "batch": database.commit.batch,
            "rows": rows_said(program, database.commit),
            "keep": database.keep,
            "kept_from": database.forgotten,
            "bytes": pages * size,
            **({"sequences": ORDERED["said"](database)} if database.sequences else {}),
        }


def verify_file(program: RowProgram, state: str, functions: FunctionSource = None, log: Log | None = None) -> Result:
    """Check the file, then recount every relation from the rules themselves, not from their delta rules;
    ``differences`` of the result is empty if the state is exact."""
    started, log = time.monotonic(), log or Log()
    with open_file_state(program, state, supply(program, functions)) as database, telling_errors(state):
        log.event("verify", commit=database.commit.number)
        damage = [text for (text,) in database.connection.execute("PRAGMA integrity_check(10)") if text != "ok"]
        if damage:
            raise JobError(f"{state} is damaged: {damage[0]}; restore it from a copy")
        differences = database.differences()
        return {
            "program": program.name,
            "commit": database.commit.number,
            "rows": rows_said(program, database.commit),
            "differences": differences,
            "seconds": round(time.monotonic() - started, 3),
        }


def show_file(
    program: RowProgram, state: str, relation: str, form: str, limit: int | None, at: str | None, support: bool
) -> None:
    """Print the tuples of a relation, in order."""
    shown_one = program.relation(relation)
    with open_file_state(program, state) as database, database.reading():
        where, values = place_condition(shown_one, at)
        kept = database.tables.tables[shown_one.table].hidden if support else ()
        hidden = [column for column in kept if column in ("_support", "_rank")]
        names = [column.name for column in shown_one.term_columns if shown_one.columns]
        rows = database.rows(shown_one, where, values, hidden)
        RowPrinter(form).print([*names, *hidden], itertools.islice(rows, limit))


def place_condition(relation: RowRelation, at: str | None) -> tuple[str, list[Any]]:
    """Return the condition that selects the tuples at a location, and its values; raise JobError for a relation that
    has none."""
    if at is None or at == relation.at:
        return "", []
    if relation.at is not None:
        raise JobError(f"{relation.name} is at {relation.at} only, not at {shown(at)}")
    place = next((column for column in relation.columns if column.sql == relation.location), None)
    if place is None:
        raise JobError(f"{relation.name} has no location")
    try:
        value = value_reader(place.type, True)(at)
    except ValueError as error:
        raise JobError(f"{relation.name} cannot be located at {shown(at)}: {error}") from error
    return f" WHERE {quoted_sql(place.sql)} = ?", [encoded(plain_value(value, place.type), place.type)]


def changes_file(
    program: RowProgram, state: str, relation: str, since: int, until: int | None, form: str, limit: int | None
) -> None:
    """Print by what rows a relation differs in commit ``until`` (default: the last) from commit ``since``."""
    changed = program.relation(relation)
    with open_file_state(program, state) as database, database.reading():
        changes = net_between(database, changed, since, until)
        names = [column.name for column in changed.columns]
        RowPrinter(form).print([operation_column(changed.columns), *names], itertools.islice(changes, limit))


def net_between(
    database: DatabaseState, relation: RowRelation, since: int, until: int | None
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows by which a relation differs between two commits, each behind its operation. Raise JobError unless
    the changes between them are kept."""
    if relation not in [*logged(database.program)]:
        raise JobError(f"{relation.name} is neither an input nor an output; changes are kept of those only")
    last = database.commit.number
    until = last if until is None else until
    oldest = database.kept_from(relation)
    for number in (since, until):
        if not oldest <= number <= last:
            raise JobError(
                f"commit {number} is not kept: {database.path} has the changes of {relation.name} from commit {oldest} "
                f"to {last}"
            )
    sign = 1 if until >= since else -1
    net: dict[tuple[Any, ...], int] = {}
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for _, op, row in database.stored_changes(relation, min(since, until), max(since, until)):
        key = encoded_row(relation.term_columns, row)
        rows[key] = row
        net[key] = net.get(key, 0) + (sign if op == "+" else -sign)
    for op, sign in (("-", -1), ("+", 1)):
        yield from ((op, *rows[key]) for key, count in net.items() if count == sign)


def history_file(program: RowProgram, state: str, limit: int | None = None) -> Result:
    """Return the last commits of a state, at most ``limit``, the newest first."""
    with open_file_state(program, state) as database, database.reading():
        last = database.commit.number
        first = max(1, last - limit + 1) if limit is not None else 1
        records = [
            {
                "commit": record.number,
                "batch": record.batch,
                "command": record.command,
                "time": record.time,
                "changes": changes_said(program, record),
                "kept": record.number >= database.forgotten,
                **({"reverts": record.reverts} if record.reverts is not None else {}),
            }
            for record in database.commits(first)
        ]
        return {
            "program": program.name,
            "commit": last,
            "keep": database.keep,
            "kept_from": database.forgotten,
            "commits": records[::-1],
        }


# Going back


def revert_file(
    program: RowProgram,
    state: str,
    reverted: str,
    batch: str | None = None,
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    functions: FunctionSource = None,
    log: Log | None = None,
) -> Result:
    """Apply, as a batch of its own, the inverse of what the batch ``reverted`` has changed in the inputs. Raise Refused
    if a later batch has changed a row with a primary key that it changed."""
    started, supplied = time.monotonic(), supply(program, functions)
    if batch is not None:
        check_batch(batch)
    with open_file_state(program, state, supplied, max_rounds, max_entries=max_entries) as database:
        changes = functools.partial(inverse_changes, database, reverted)
        return commit_batch(database, FileBatch("revert", batch, log or Log(), started, reverted), changes)


def inverse_changes(database: DatabaseState, batch: str) -> dict[str, list[StoredChange]]:
    """Return the changes of stored rows by table that undo those of a batch. Raise JobError if they are not kept."""
    record = database.commit_of_batch(batch)
    if record is None:
        raise JobError(f"{database.path} has no commit of batch {shown(batch)}; `history` lists them")
    number = record.number
    if number <= database.forgotten:
        raise JobError(
            f"batch {shown(batch)} is commit {number}, and the state before it is not kept: {database.path} has the "
            f"changes from commit {database.forgotten} on"
        )
    for name, since in json.loads(database.setting("lost_inputs")).items():
        if number < since:
            raise JobError(
                f"batch {shown(batch)} is commit {number}, and commit {since} has dropped {name}, or given it other "
                "columns: apply a batch that undoes what is to be undone"
            )
    inverse, kept = {"+": "-", "-": "+"}, database.sequences
    found: dict[str, list[StoredChange]] = {}
    for relation in database.program.relations:
        # Before that it was no input.
        if relation.kind != "input" or relation.clock or number <= database.kept_from(relation):
            continue
        width = len(relation.columns)
        changes = [(op, row[:width]) for _, op, row in database.stored_changes(relation, number - 1, number)]
        if changes and relation.key:
            later = database.stored_changes(relation, number, database.commit.number)
            also = ORDERED["later"](database, relation, number) if relation.name in kept else ()
            ROW_PARTS["later changes"](relation, [row for _, row in changes], itertools.chain(later, also), batch)
        if relation.name in kept:
            ORDERED["restore"](database, relation, number)
        if not changes:
            continue
        columns = relation.columns
        found[relation.table] = [(inverse[op], encoded_tuple(columns, row)) for op, row in changes]
    return database.unfed(found)


def backup_file(program: RowProgram, state: str, to: str) -> Result:
    """Copy the state, as of its last commit, to a new file, while others may read it and write to it."""
    started = time.monotonic()
    check_folder(to)
    if Path(to).exists():
        raise JobError(f"{to} exists already")
    with open_file_state(program, state) as database, telling_errors(state):
        # A file with this name is what a killed process has left, or a link to somebody else's.
        part = f"{to}.{os.getpid()}.part"
        Path(part).unlink(missing_ok=True)
        target = sqlite3.connect(part, isolation_level=None)
        try:
            target.execute("PRAGMA synchronous = FULL")
            database.connection.backup(target)
            (commit,) = target.execute("SELECT MAX(number) FROM _commits").fetchone()
        finally:
            target.close()
        try:
            os.link(part, to)
        except FileExistsError as error:
            raise Passing(f"{to} was made by another process meanwhile") from error
        finally:
            with contextlib.suppress(OSError):
                Path(part).unlink()
        try:
            sync(Path(to).absolute().parent)
        except OSError as error:
            Path(to).unlink()
            raise Passing(f"{to} cannot be forced to disk: {error.strerror}") from error
        seconds = round(time.monotonic() - started, 3)
        return {
            "program": program.name,
            "commit": commit,
            "file": to,
            "bytes": Path(to).stat().st_size,
            "seconds": seconds,
        }
