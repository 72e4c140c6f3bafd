"""The command ``move``: build a state in a folder from one in an SQLite file, or the other way round.

Of the former state are read the rows of the inputs in a commit that it keeps, and their net changes in each later one.
The new state applies the same batches, under the same IDs: all else follows from the rules. It is built beside its
place and then renamed, so it is there as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..database import decimals, external
from ..database.command_list import add_commits_kept, add_work
from ..database.recompute import former_relations
from ..database.schema import changes_table, differing, logged
from ..database.state import COMMITS_LOGGED, DatabaseState, Result, open_file_state, telling_errors
from ..engines.arrow import arrow_type
from ..engines.options import Options
from ..job.command_line import COMMANDS, Command, on_executor, request_of
from ..job.report import tuples_text
from ..job.shared_options import AddOptions, add_buckets, add_keeping, add_running, add_state, has_derivations, option
from ..kernel.errors import JobError, Passing
from ..kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program, Relation
from ..kernel.values import stored_row
from ..row_kernel import methods
from ..row_kernel.encodings import decoded_row, encoded_tuple
from ..row_kernel.model import RowProgram, RowRelation
from ..row_kernel.tables import listed
from ..store.batches import batch_lists
from ..store.commits import relation_rows, run_and_commit
from ..store.executors import Executor, LocalExecutor
from ..store.extensions import supply
from ..store.manifest import (
    COMMITS_KEPT,
    STATE_FORMAT,
    FeedRecord,
    Manifest,
    attempt_name,
    commit_numbers,
    load_manifest,
    manifest_path,
    read_manifest,
    read_state,
)
from ..store.request import Batch, Request
from ..store.retention import checked_keep, is_given_up, oldest_kept
from ..store.sealed_records import sealed
from ..store.stages import run_stages
from ..store.task_records import Outcome
from ..store.versions import check_program, program_record
from ..system.log import Log
from ..system.places import given_place, is_local, make_folder, remove_tree, scheme_of, sync, sync_files
from .feeds.file_state_feeds import feeds_of, record_feeds, write_rows
from .operations.changes import changed_tuples
from .operations.differences import apart

assert methods and decimals and external, "registered"

LOGS = ("-wal", "-shm", "-journal")
"""The suffixes of files that SQLite keeps beside a database."""

MovedRow = tuple[Any, ...]
"""Values of a relation's columns, None for null."""


@dataclass(frozen=True)
class MovedCommit:
    """A commit as it is moved: its number, the ID of its batch and whether the state has ``generated`` it, the command
    that made it, and its time in UTC."""

    number: int
    batch: str
    generated: bool
    command: str
    time: str


@dataclass(frozen=True)
class FormerState:
    """A state that is moved: its kept ``commits``, with functions for the rows of an input in one of them, and for its
    net changes in one behind the first; all batches, by ID, with whether the state has generated it; the feeds of the
    inputs, and the number of tuples of each relation that users see."""

    commits: Sequence[MovedCommit]
    rows: Callable[[str, int], Iterable[MovedRow]]
    changes: Callable[[str, int], Iterable[tuple[str, MovedRow]]]
    batches: Mapping[str, bool]
    feeds: Mapping[str, FeedRecord]
    counts: Mapping[str, int]

    def last(self, keep: str | None, most: int) -> Sequence[MovedCommit]:
        """Return the last commits, as many as the new state keeps by ``keep``, or by default, which are ``most``."""
        count = int(keep or most) if (keep or "0").isdigit() else len(self.commits)
        return self.commits[-count:]

    def changed(self, name: str, commit: MovedCommit, first: bool) -> Iterable[tuple[str, MovedRow]]:
        """Return the changes of an input in a commit; in the ``first`` one that is moved, its rows."""
        return (("+", row) for row in self.rows(name, commit.number)) if first else self.changes(name, commit.number)

    def before(self, commits: Sequence[MovedCommit]) -> dict[str, bool]:
        """Return the batches that none of the commits has applied."""
        own = {commit.batch for commit in commits}
        return {batch: generated for batch, generated in self.batches.items() if batch not in own}

    def check(self, counts: Mapping[str, int]) -> None:
        """Raise JobError unless the relations of the new state have as many tuples as those of this one."""
        wrong = [name for name, rows in self.counts.items() if counts.get(name) != rows]
        if wrong:
            raise JobError(
                f"{', '.join(wrong)} had other numbers of tuples than follow from the inputs, so nothing was moved: "
                "`verify` the former state"
            )


# Reading


@contextlib.contextmanager
def state_in_file(program: Program, path: str, supplied: Any | None) -> Iterator[FormerState]:
    """Yield the state of a program in an SQLite file, as one commit has it. Raise JobError if another program, or
    another version of it, wrote the file."""
    if Path(path).is_dir():
        raise JobError(f"{path} is a folder: move it with the script of --target database")
    if has_derivations(program):
        raise JobError(f"{program.name} keeps derivation sets, which a state in a file does not")
    own = {field.name for field in fields(RowRelation)}
    relations = tuple(RowRelation(**{name: getattr(r, name) for name in own}) for r in program.relations)
    # What is derived is not read.
    whole = RowProgram(
        program.name, program.sha256, program.compiler, relations, (), tuple((r.table, ((),)) for r in relations)
    )
    with open_file_state(whole, path, recomputes=True) as database, database.reading():
        names = differing(whole, database.settings, path)
        if names:
            raise JobError(
                f"{path} is of another version of the program: {', '.join(names)} differ; `upgrade` it first"
            )
        former_relations(database)
        if kept := database.records("sequences"):
            raise JobError(
                f"the order of changes of {', '.join(kept)} is kept (--order-column), which is not moved: "
                "`flintlog job vacuum` with --forget-sequences gives it up"
            )
        if supplied:
            supplied.check(json.loads(database.settings["functions"]))
        commits, feeds = [*database.commits()], feeds_of(database)
        # Before these, changes are not there.
        first = max(map(database.kept_from, whole.inputs.values()), default=1)
        first = max([first, *(one.number for one in commits if one.command == "upgrade")])
        # The file knows how far the feeds were read in the end only, and a folder can go back to earlier commits.
        first = max([first, *(one.number for one in commits if feeds and "@" in one.batch)])
        if first > database.commit.number:
            raise JobError(f"{path} is damaged: no commit has its changes")
        shown = {relation.table: relation.name for relation in relations if not relation.hidden}

        def changes(name: str, number: int) -> Iterator[tuple[str, MovedRow]]:
            relation = whole.inputs[name]
            for _, op, row in database.stored_changes(relation, number - 1, number):
                yield op, row[: len(relation.columns)]

        yield FormerState(
            [MovedCommit(c.number, c.batch, c.generated, c.command, c.time) for c in commits if c.number >= first],
            lambda name, number: rows_at(database, whole.inputs[name], number),
            changes,
            {commit.batch: commit.generated for commit in commits},
            feeds,
            {shown[table]: rows for table, rows in database.commit.rows.items() if table in shown},
        )


def rows_at(database: DatabaseState, relation: RowRelation, number: int) -> Iterator[MovedRow]:
    """Yield the rows that an input had in a commit: those now, but as they were before they first changed."""
    table, own = database.tables.tables[relation.table], relation.columns
    columns = listed(table.columns)
    later = f"SELECT {columns}, _op, MIN(_commit) FROM {changes_table(relation)} WHERE _commit > ?1"
    first = f"({later} GROUP BY {columns})"
    query = (
        f"SELECT {columns} FROM {table.name} EXCEPT SELECT {columns} FROM {first} WHERE _op = '+' "
        f"UNION SELECT {columns} FROM {first} WHERE _op = '-'"
    )
    for row in database.connection.execute(query, (number,)):
        yield decoded_row(own, row[: len(own)])


@contextlib.contextmanager
def state_in_folder(program: RowProgram, root: Path, executor: Executor, supplied: Any | None) -> Iterator[FormerState]:
    """Yield the state of a program in a folder. Raise JobError if another program, or another version of it, wrote
    it."""
    if is_local(root) and root.is_file():
        raise JobError(f"{root} is a file: move it with a script of another target than database")
    last = read_state(root)
    own = [field.name for field in fields(RowRelation)]
    relations = tuple(Relation(**{name: getattr(r, name) for name in own}) for r in program.relations)
    check_program(Program(program.name, program.sha256, program.compiler, relations, ()), last)
    if supplied:
        supplied.check(last.functions)
    if last.sequences:
        listed = ", ".join(last.sequences)
        raise JobError(
            f"the order of changes of {listed} is kept (--order-column), which is not moved: `vacuum` with "
            "--forget-sequences gives it up"
        )
    if last.tables.place:
        raise JobError(f"outputs are kept as tables ({last.tables.place}), which a file has no place for")
    inputs = {relation.name: relation for relation in relations if relation.kind == "input"}
    kept = [last]
    for number in range(last.commit - 1, max([oldest_kept(last) - 1, *(jump - 1 for jump in last.jumps)]), -1):
        before = read_manifest(root, number)
        if before is None or before.program.relations != last.program.relations:
            break
        kept.insert(0, before)
    by_number = {manifest.commit: manifest for manifest in kept}

    def rows(name: str, number: int) -> Iterator[MovedRow]:
        after = by_number[number]
        return (row for _, row in changes_between(name, replace(after, relations={}), after))

    def changes(name: str, number: int) -> Iterator[tuple[str, MovedRow]]:
        return changes_between(name, by_number[number - 1], by_number[number])

    def changes_between(name: str, before: Manifest, after: Manifest) -> Iterator[tuple[str, MovedRow]]:
        relation = inputs[name]
        for op, *row in changed_tuples(executor, root, *apart(before, after, relation.table), relation):
            yield op, tuple(row)

    try:
        yield FormerState(
            [MovedCommit(m.commit, m.batch, m.batch in m.generated, m.command, m.time) for m in kept],
            rows,
            changes,
            {name: name in one.generated for one in reversed([*batch_lists(root, last)]) for name in one.batches},
            last.feeds,
            relation_rows(Program(program.name, "", "", relations, ()), last),
        )
    except Exception as error:
        if is_given_up(root, kept[0]):
            raise Passing(
                f"{root} did not keep commit {kept[0].commit} while it was read: move it while nothing else changes it"
            ) from error
        raise


# Writing


@contextlib.contextmanager
def built_beside(state: str) -> Iterator[Path]:
    """Yield where a state is built, then give it its name and let the disk confirm that; if it fails, nothing is left.
    Raise JobError if the name is taken."""
    if scheme_of(state) not in ("", "file"):
        raise JobError(f"{state}: a state is moved to a place on this machine, from which it can be copied")
    place = given_place(state)
    check_free(place)
    beside = place.with_name(f"{place.name}.moving")
    if beside.exists():
        raise JobError(f"{beside} is there: remove it if no other command is moving a state to {state}")
    try:
        yield beside
        check_free(place)
    except BaseException:
        remove_tree(beside)
        for suffix in ("", *LOGS):
            Path(f"{beside}{suffix}").unlink(missing_ok=True)
        raise
    beside.rename(place)
    sync(place.absolute().parent)


def check_free(place: Path) -> None:
    """Raise JobError if there is something in a place, or the log of a database that was there, which SQLite applies to
    the next one."""
    if place.exists():
        raise JobError(f"{place} is there already: a state is moved to a new place")
    for log in (Path(f"{place}{suffix}") for suffix in LOGS):
        if log.exists():
            raise JobError(f"{log} is there, of a database that was at {place}: choose another place, or remove it")


def folder_from_file(
    program: Program,
    spark: Any,
    state: str,
    former: str,
    buckets: int | None = None,
    keep: str | int | None = None,
    engine: str = "auto",
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    memory_limit: str = "",
    functions: FunctionSource = None,
    log: Log | None = None,
) -> Result:
    """Build a state in a folder from one in an SQLite file, and return what it has."""
    started, kept = time.monotonic(), checked_keep(keep)
    options = Options(1, engine, max_rounds, max_entries, memory_limit, supply(program, functions))
    with built_beside(state) as beside, state_in_file(program, former, options.functions) as source:
        request = request_of(program, spark, str(beside), log, options)
        if buckets is not None:
            request = request.in_buckets(buckets)
        make_folder(beside / "manifest")
        moved = source.last(kept, COMMITS_KEPT)
        manifest = commit_before(program, source, moved)
        for commit in moved:
            manifest = moved_commit(request, manifest, source, commit, commit is moved[0], kept)
        source.check(relation_rows(program, manifest))
        times = {commit.number: commit.time for commit in moved}
        for number in commit_numbers(beside):
            made = load_manifest(beside, number)
            # There is none before the first one.
            made = replace(made, time=times[number], kept_from=max(made.kept_from, moved[0].number))
            manifest_path(beside, number).write_text(sealed(made), encoding="utf-8")
        sync_files(beside)
    return moved_result(program.name, source, moved, started)


def commit_before(program: Program, source: FormerState, moved: Sequence[MovedCommit]) -> Manifest:
    """Return a commit without rows that has the batches before those that are moved."""
    earlier, first = source.before(moved), moved[0].number
    return Manifest(
        format=STATE_FORMAT,
        commit=first - 1,
        attempt=attempt_name(first - 1),
        program=program_record(program),
        buckets=1,
        batch=next(reversed(earlier), ""),
        batches=tuple(earlier),
        attempts=("",) * len(earlier),
        generated=tuple(batch for batch, generated in earlier.items() if generated),
        older_batches=(),
        relations={},
        clocks={},
        changes={},
        counts={},
        publish=(),
        steps=(),
        feeds=source.feeds,
        kept_from=first,
    )


def moved_commit(
    request: Request, before: Manifest, source: FormerState, commit: MovedCommit, first: bool, keep: str | None
) -> Manifest:
    """Make a commit again in a new state, and return it."""

    def work(attempt: str) -> Outcome:
        staged, as_of = {}, ""
        for relation in request.program.relations:
            if relation.kind == "input":
                folder = request.root / "data" / attempt / "input" / relation.table
                changes = source.changed(relation.name, commit, first)
                if relation.clock:
                    changes = [*changes]
                    as_of = next((row[0].isoformat(" ", "microseconds") for op, row in changes if op == "+"), "")
                staged[relation.table] = [str(staged_file(relation, changes, folder))]
        outcome = run_stages(request, None if first else before, staged, attempt, initial=first)
        outcome.as_of = as_of
        return outcome

    batch = Batch(commit.batch, commit.command, commit.generated, feeds=source.feeds, keep=keep if first else None)
    return run_and_commit(request, before, batch, work)


def staged_file(relation: Relation, changes: Iterable[tuple[str, MovedRow]], folder: Path) -> Path:
    """Stage changes of an input, and return the file."""
    folder.mkdir(parents=True)
    path, columns = folder / "rows.parquet", relation.row_columns
    schema = pa.schema([*((column.sql, arrow_type(column.type)) for column in columns), ("_op", pa.string())])
    write_rows(path, schema, ((*(stored_row(relation.columns, row) or (True,)), op) for op, row in changes))
    return path


def file_from_folder(
    program: RowProgram,
    state: str,
    former: str,
    keep: str | int | None = None,
    max_rounds: int = MOST_ROUNDS,
    functions: FunctionSource = None,
    log: Log | None = None,
) -> Result:
    """Build a state in an SQLite file from one in a folder, and return what it has."""
    started, kept, known = time.monotonic(), checked_keep(keep), supply(program, functions)
    with (
        LocalExecutor() as executor,
        built_beside(state) as beside,
        state_in_folder(program, given_place(former), executor, known) as source,
    ):
        moved = source.last(kept, int(COMMITS_LOGGED))
        with open_file_state(program, str(beside), known, max_rounds, new=True) as database:
            database.keep = kept or database.keep
            for commit in moved:
                changes = {
                    relation.table: stored_changes(relation, source.changed(name, commit, commit is moved[0]))
                    for name, relation in program.inputs.items()
                }
                with database.transaction():
                    database.apply(changes, commit.batch, commit.command)
            source.check({one.name: database.commit.rows[one.table] for one in program.relations if not one.hidden})
            with database.transaction():
                number_commits(database, source, moved)
                record_feeds(database, source.feeds)
            with telling_errors(str(beside)):
                database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sync(beside)
    return moved_result(program.name, source, moved, started)


def stored_changes(
    relation: RowRelation, changes: Iterable[tuple[str, MovedRow]]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield changes as rows of a file."""
    for op, row in changes:
        yield op, encoded_tuple(relation.columns, row)


def number_commits(database: DatabaseState, source: FormerState, moved: Sequence[MovedCommit]) -> None:
    """Give the commits in a file the numbers and times that they had, and put the earlier batches before them."""
    execute, before, ahead = (database.connection.execute, source.before(moved), moved[0].number - 1)
    tables = ["_commits", *map(changes_table, logged(database.program))]
    for table in tables:
        column = "number" if table == "_commits" else "_commit"
        # No two commits have one number meanwhile.
        execute(f"UPDATE {table} SET {column} = -{column}")
        execute(f"UPDATE {table} SET {column} = ? - {column}", (ahead,))
    for one in moved:
        execute("UPDATE _commits SET generated = ?, time = ? WHERE number = ?", (one.generated, one.time, one.number))
    for number, (batch, generated) in enumerate(before.items(), ahead - len(before) + 1):
        values = (number, batch, generated, "apply", None, moved[0].time, 1, "{}", "{}")
        execute(f"INSERT INTO _commits VALUES ({', '.join('?' * len(values))})", values)
    database.set("forgotten", str(moved[0].number))


# Both


def moved_result(program: str, source: FormerState, moved: Sequence[MovedCommit], started: float) -> Result:
    """Return the result of the command."""
    last = moved[-1]
    return {
        "program": program,
        "batch": last.batch,
        "commit": last.number,
        "kept_from": moved[0].number,
        "rows": dict(source.counts),
        "seconds": round(time.monotonic() - started, 3),
    }


def report_moved(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line about the new state."""
    commits = result["commit"] - result["kept_from"] + 1
    moved = f"{commits} commit{'' if commits == 1 else 's'} moved, {result['seconds']:.1f} s"
    yield f"commit {result['commit']}, batch {result['batch']}: {tuples_text(sum(result['rows'].values()))}; {moved}"


MOVES = "build the state from one of the other kind"
DESCRIPTION = (
    "Build the state, which is in {}, from one of the same program in {}: rows, feeds, and the batches whose commits "
    "it keeps, under their IDs. The former state stays as it is."
)


def add_former(what: str) -> AddOptions:
    """Return what adds the option for the state that is moved."""
    return option("--from", dest="former", required=True, metavar=what, help="the former state")


COMMANDS["move"] = Command(
    "move",
    MOVES,
    DESCRIPTION.format("a folder", "an SQLite file"),
    (add_state, add_former("FILE"), add_buckets, add_keeping, add_running),
    on_executor(folder_from_file),
    report_moved,
)

MOVE_TO_FILE = Command(
    "move",
    MOVES,
    DESCRIPTION.format("an SQLite file", "a folder"),
    (add_work, add_former("DIR"), add_commits_kept),
    lambda call: file_from_folder(call.program, log=call.log, **call.options),
    report_moved,
)
"""The command for a state in one SQLite file."""
