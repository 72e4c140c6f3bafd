"""Commits: how manifests are put in place, and how the last commit is read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from ..kernel.errors import JobError, Passing, failure, full_disk, reason
from ..kernel.model import Program, SuppliedFunctions
from ..system.places import files_under, is_local, make_folder, remove_tree, sync, write_exclusively
from .batches import batch_lists, last_commit, lost_race, with_batch
from .data_files import referenced_files
from .executors import Executor
from .garbage import collect_garbage
from .manifest import (
    NO_TABLES,
    STATE_FORMAT,
    FeedRecord,
    Manifest,
    OutputTables,
    SequenceRecord,
    StoredRelation,
    attempt_id,
    attempt_name,
    commit_numbers,
    commit_of,
    damaged_manifest,
    fed_elsewhere,
    is_stream,
    load_manifest,
    manifest_path,
    read_manifest,
    read_state,
)
from .publish import (
    check_publication,
    finish_publication,
    publications,
    published_name,
    tables_function,
)
from .request import Batch, Request, Watcher
from .retention import checked_moment, from_commit, is_given_up, kept_after, moment_after
from .sealed_records import sealed
from .set_aside import file_set_aside
from .task_records import Outcome
from .versions import check_program, columns_record, program_record, stored_input

READ_AGAIN = 5
"""A read-only command tries to read at most this many commits."""


def commit_manifest(root: Path, manifest: Manifest) -> None:
    """Make a manifest the last commit of a state; raise Passing if another job has made a commit with its number. The
    data files were fsynced when they were written; this fsyncs the folders above them, innermost first."""
    if is_local(root):
        own = [Path(n) for n in referenced_files(manifest) if n.split("/")[1] == manifest.attempt]
        folders = {folder for path in own for folder in path.parents if folder.name}
        for folder in sorted(folders, key=lambda path: (-len(path.parts), path)):
            sync(root / folder)
    if not write_exclusively(manifest_path(root, manifest.commit), sealed(manifest)):
        raise lost_race(root)
    if last_commit(root) > manifest.commit and not is_committed(root, manifest.attempt, manifest.batch):
        withdraw(root, manifest.attempt)
        raise lost_race(root)


def is_committed(root: Path, attempt: str, batch: str) -> bool | None:
    """Return whether a state contains an attempt to commit a batch; None if it has not reached the attempt's number.

    A manifest in place is no proof: if the job was suspended, the number may be free only because the manifest that had
    it was removed long ago. So the lists of attempts in the last commit are searched.
    """
    latest = read_manifest(root)
    if latest is None or latest.commit < commit_of(attempt):
        return None
    if latest.commit == commit_of(attempt):
        return latest.attempt == attempt
    if (batch, attempt) in latest.undone:
        return True
    entry = (batch, attempt_id(attempt))
    return any(entry in zip(listed.batches, listed.attempts, strict=True) for listed in batch_lists(root, latest))


def withdraw(root: Path, attempt: str) -> None:
    """Remove the manifest that a suspended job has put in the place of a removed one; nobody has read it."""
    with contextlib.suppress(OSError, ValueError):
        if load_manifest(root, commit_of(attempt)).attempt == attempt:
            manifest_path(root, commit_of(attempt)).unlink()


def check_arrival(root: Path, manifest: Manifest) -> None:
    """Raise JobError if tasks have written files of this attempt that the driver does not see."""
    start = f"data/{manifest.attempt}/"
    there = {start + name for name in files_under(root / "data" / manifest.attempt)}
    for name in referenced_files(manifest):
        if name.startswith(start) and name not in there:
            raise JobError(
                f"{root / name}, which a task has written, is not there for the driver: the state must lie where all "
                "machines see the same files; nothing was committed"
            )


# Reading


def from_last_commit(root: Path, read: Callable[[Manifest], Any], begun: Callable[[], bool] = bool) -> Any:
    """Return the result of ``read`` on the last commit. If later commits remove its files meanwhile, read the newest,
    READ_AGAIN times in all. Raise JobError after that, or if output has ``begun`` by then."""
    for _ in range(READ_AGAIN):
        manifest = read_state(root)
        try:
            return read(manifest)
        except Exception as error:
            if isinstance(error, BrokenPipeError) or not is_given_up(root, manifest):
                raise
            if begun():
                raise JobError(
                    f"commit {manifest.commit} was removed by later commits while it was printed, so the output is "
                    "incomplete: run the command again"
                ) from error
    raise JobError(
        f"{root} did not keep the commit that was read during any of {READ_AGAIN} attempts: run the command again"
    )


def from_chosen_commit(
    root: Path, commit: int | None, read: Callable[[Manifest], Any], begun: Callable[[], bool] = bool
) -> Any:
    """Return the result of ``read`` on a commit, by default the last one."""
    return from_last_commit(root, read, begun) if commit is None else from_commit(root, commit, read)


def unconfirmed(root: Path, batch: str, error: Exception) -> JobError:
    """Return the error for a manifest that is in place although the fsync of its folder failed."""
    return JobError(
        f"{full_disk(error, str(root)) or reason(error)}; batch {batch} is committed, but the disk did not "
        "confirm it, so a power failure may undo it: check the disk; the next command publishes the batch if it is "
        "still committed"
    )


def open_state(program: Program, executor: Executor, root: Path, tables: bool = True) -> Manifest:
    """Return the last commit of a state; check that this program wrote it, and publish its changes if necessary, except
    in the tables of output relations if these are not wanted."""
    manifest = read_state(root)
    check_program(program, manifest)
    if tables and manifest.tables.place:
        tables_function("finish_tables", manifest.tables.place)
    finish_publication(program, executor, root, manifest, tables=tables)
    return manifest


# Commits

Work = Callable[[str], "Outcome"]
"""Computes what to commit, given the name of an attempt."""


def tables_after(
    request: Request, before: Manifest | None, batch: Batch, attempt: str, counts: Mapping[str, tuple[int, int]]
) -> OutputTables:
    """Return the record in a commit of the tables that output relations are kept as; see ``next_tables``."""
    place = (before.tables.place if before else "") if batch.tables is None else batch.tables
    if not place:
        return NO_TABLES
    tables: OutputTables = tables_function("next_tables", place)(request, before, batch, attempt, counts, place)
    return tables


def run_and_commit(request: Request, before: Manifest | None, batch: Batch, work: Work) -> Manifest:
    """Compute a commit in a folder of its own, make it the last one, publish its changes, collect garbage and return
    its manifest. Raise Passing if another job commits first, or if the disk, the system or Spark fails before the
    commit."""
    program, root, log, publish = request.program, request.root, request.log, request.publish
    commit, started = before.commit + 1 if before else 1, time.monotonic()
    folder = published_name(before, batch.id, commit)
    check_publication(root, program, publish, folder, before.origin if before else "")
    if before and before.tables.place and batch.tables is None:
        tables_function("check_home", before.tables.place)(root, before.tables)
    attempt = attempt_name(commit)
    watcher: Watcher | None = log.watcher
    if watcher:
        watcher.begin(request, before, batch)
    try:
        if before is None:
            make_folder(root / "manifest")
        if is_local(root):
            make_folder(root / "data")
        (root / "data" / attempt).mkdir(parents=True)
        if batch.aside:
            batch.aside.begin(root, folder, attempt)
        outcome = work(attempt)
        manifest = next_manifest(request, before, batch, attempt, folder, outcome)
        manifest = replace(manifest, seconds=round(time.monotonic() - started, 3))
        check_arrival(root, manifest)
        commit_manifest(root, manifest)
    except BaseException as error:
        try:
            committed = is_committed(root, attempt, batch.id)
        except Exception as unknown:
            # The files may belong to a commit. If they do not, a later commit removes them.
            raise error from unknown
        if not committed:
            withdraw(root, attempt)
            if batch.aside:
                # Its data tell where its files are, if this is killed.
                batch.aside.withdraw()
            remove_tree(root / "data" / attempt)
        if watcher:
            watcher.fail(error)
        explained = failed_commit(root, batch, committed, error)
        if explained is None:
            raise
        raise explained from error
    log_commit(request, manifest)
    try:
        finish_publication(program, request.executor, root, manifest, publish)
    except BaseException as error:
        if log.watcher:
            log.watcher.fail(error)
        raise
    if log.watcher:
        log.watcher.end(manifest)
    try:
        collect_garbage(root, manifest, before)
    except OSError as error:
        log.warn(f"files that no commit needs could not be removed: {error}; a later commit removes them")
    return replace(manifest, steps=tuple(outcome.steps))


def next_manifest(
    request: Request, before: Manifest | None, batch: Batch, attempt: str, folder: str, outcome: Outcome
) -> Manifest:
    """Return the manifest of an attempt to commit a batch, published in folders called ``folder``."""
    program, root, commit = request.program, request.root, commit_of(attempt)
    manifest = Manifest(
        format=STATE_FORMAT,
        commit=commit,
        attempt=attempt,
        program=program_record(program),
        buckets=outcome.buckets,
        functions=recorded_functions(program, before, request.options.functions),
        **with_batch(root, batch.restored or before, attempt, batch.id, batch.generated),
        relations=outcome.relations,
        clocks=outcome.clocks,
        effects=outcome.effects,
        feeds=known_feeds(program, before) if batch.feeds is None else batch.feeds,
        tables=tables_after(request, before, batch, attempt, outcome.counts),
        changes=outcome.changes,
        counts=outcome.counts,
        publish=publications(root, program, request.publish, folder, outcome.changes, request.by),
        # The rounds of each task are for the report only.
        steps=tuple({k: v for k, v in step.items() if k != "tasks"} for step in outcome.steps),
        command=batch.command,
        left_out=dict(+batch.left_out) if batch.left_out else {},
        set_aside=batch.aside.seal() if batch.aside else {},
        sequences=recorded_sequences(before, batch.sequences, outcome.relations),
        late=dict(+batch.late) if batch.late else {},
        origin=(before.origin if before else "") or attempt_id(attempt),
        as_of=outcome.as_of or (before.as_of if before else ""),
        **kept_members(root, before, batch.keep, commit, batch.jump),
    )
    if batch.restored is None:
        return manifest
    return replace(
        manifest,
        **{name: getattr(batch.restored, name) for name in OF_STATE},
        jumps=(*manifest.jumps, commit),
        restores=batch.restored.commit,
        undone=(*manifest.undone, *undone_since(root, before, batch.restored)),
    )


def failed_commit(root: Path, batch: Batch, committed: bool | None, error: BaseException) -> JobError | None:
    """Return the error that tells users of an ``error`` in an attempt to commit; None if that tells it itself.
    ``committed`` is what :func:`is_committed` says of the attempt."""
    if not isinstance(error, Exception):
        return None
    if committed:
        return unconfirmed(root, batch.id, error)
    if committed is False:
        # The error may be due to the other commit, which may have removed files that this job was reading.
        return lost_race(root)
    obstacle = full_disk(error, str(root)) or failure(error)
    return Passing(f"{obstacle}; nothing was committed, the state is unchanged") if obstacle else None


def log_commit(request: Request, manifest: Manifest) -> None:
    """Log what a commit has changed and left out."""
    program, log = request.program, request.log
    for name, rows in relation_rows(program, manifest).items():
        inserted, deleted = manifest.counts.get(program.relation(name).table, (0, 0))
        log.event("relation", relation=name, tuples=rows, inserted=inserted, deleted=deleted)
    for name, lacking in manifest.left_out.items():
        log.event("left out", relation=name, rows=lacking)
    for name, ignored in manifest.late.items():
        log.event("late", relation=name, rows=ignored)
    for name, bad in manifest.set_aside.items():
        log.event("set aside", relation=name, rows=bad.rows, file=file_set_aside(request.root, manifest, name))
    log.event("committed", commit=manifest.commit, batch=manifest.batch)


OF_STATE = ("buckets", "functions", "relations", "clocks", "effects", "feeds", "sequences", "as_of")
"""The members of a manifest that describe the state rather than the commit."""


def kept_members(
    root: Path, before: Manifest | None, keep: str | None, commit: int, jump: timedelta | None = None
) -> dict[str, Any]:
    """Return the members of a manifest that say when it was made, and what is kept after it. With ``jump``, it may be
    made before the last commit."""
    if before is None:
        return {"time": moment_after(""), "keep": keep or "", "kept_from": commit}
    keep = before.keep if keep is None else keep
    moment = checked_moment(before, keep, jump)
    first = kept_after(root, before, keep, moment, commit)
    jumps = tuple(number for number in before.jumps if number >= first)
    return {"time": moment, "keep": keep, "kept_from": first, "jumps": jumps, "undone": before.undone}


def undone_since(root: Path, before: Manifest | None, restored: Manifest) -> list[tuple[str, str]]:
    """Return the batches of the commits after one that is ``restored``, each with its attempt."""
    last = before.commit if before else 0
    manifests = (read_manifest(root, number) for number in range(restored.commit + 1, last + 1))
    earlier = {*(before.undone if before else ())}
    undone = [(manifest.batch, manifest.attempt) for manifest in manifests if manifest]
    return [item for item in undone if item not in earlier]


def recorded_functions(
    program: Program, before: Manifest | None, supplied: SuppliedFunctions | None
) -> Mapping[str, str]:
    """Return the file hash of each external function; a command that calls none keeps those recorded."""
    if supplied:
        return dict(supplied.sources)
    return before.functions if before and program.functions else {}


def recorded_sequences(
    before: Manifest | None, changed: Mapping[str, SequenceRecord] | None, stored: Container[str]
) -> dict[str, SequenceRecord]:
    """Return which relations keep sequences: those that did before, or as the command has ``changed`` that, as far as
    the sequences are ``stored``."""
    records = changed if changed is not None else before.sequences if before else {}
    return {name: record for name, record in records.items() if record.table in stored}


def known_feeds(program: Program, before: Manifest | None, given: Iterable[str] = ()) -> dict[str, FeedRecord]:
    """Return the feeds of the inputs that the program still has. A feed is read again from the beginning if its
    relation has other columns than before, or if its rows were ``given``."""
    anew = set(given)
    kept = {}
    for relation in program.relations:
        record = before.feeds.get(relation.name) if before and relation.kind == "input" else None
        if before and record:
            stored = stored_input(relation, before.program)
            same = (
                stored
                and relation.name not in anew
                and before.program.relations[stored].columns == columns_record(relation)
            )
            # A streaming query goes on where it is.
            kept[relation.name] = record if same or is_stream(record) else record.unread
    return kept


def check_unfed(before: Manifest | None, given: Iterable[str]) -> None:
    """Raise JobError if rows are given for a relation that has a feed: it would no longer have the rows of that."""
    for name in given:
        if before and name in before.feeds:
            raise fed_elsewhere(name, before.feeds[name].source)


def relation_rows(program: Program, manifest: Manifest) -> dict[str, int]:
    """Return the number of tuples of every relation that is visible to users."""
    return {
        relation.name: manifest.relations.get(relation.table, StoredRelation()).rows
        for relation in program.relations
        if not relation.hidden
    }


def last_readable(root: Path) -> Manifest | None:
    """Return the last commit whose manifest can be read, or None. Raise JobError for a damaged manifest whose number
    does not follow that of another: it is not part of the state."""
    numbers = commit_numbers(root)
    for place, number in reversed([*enumerate(numbers)]):
        try:
            return load_manifest(root, number)
        except ValueError as error:
            if place and numbers[place - 1] < number - 1:
                message = damaged_manifest(manifest_path(root, number), numbers[:place], error)
                raise JobError(message) from error
    return None
