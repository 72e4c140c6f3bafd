"""Commits: how manifests are put in place, how the last commit is read, and garbage collection."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .batches import batch_lists, last_commit, lost_race, with_batch
from .errors import JobError, Passing, failure, full_disk, reason
from .executors import Executor
from .inputs.aside import Aside, file_set_aside, has_notes, remove_noted
from .inputs.nulls import LeftOut
from .log import Log
from .manifest import (
    ATTEMPT,
    BATCHES_INLINE,
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
    is_stream,
    load_manifest,
    manifest_path,
    read_manifest,
    read_state,
    sealed,
)
from .model import Program, SuppliedFunctions
from .places import files_under, is_local, make_folder, remove_tree, sync, write_exclusively
from .publish import (
    check_publication,
    finish_publication,
    is_own,
    publication_place,
    publications,
    published_name,
    tables_function,
)
from .retention import from_commit, is_given_up, kept_after, moment_after, oldest_kept
from .stored import stored_files
from .task import Outcome
from .versions import check_program, columns_record, program_record, stored_input

MANIFESTS_KEPT = 20

READ_AGAIN = 5
"""How many commits a read-only command tries to read before it gives up."""


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
    wanted = (batch, attempt_id(attempt))
    return any(wanted in zip(listed.batches, listed.attempts, strict=True) for listed in batch_lists(root, latest))


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
    """Return what ``read`` makes of the last commit. If later commits remove its files meanwhile, read the newest,
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
    """Return what ``read`` makes of a commit, or of the last one, which is the default."""
    return from_last_commit(root, read, begun) if commit is None else from_commit(root, commit, read)


def referenced_files(manifest: Manifest | None) -> list[str]:
    """Return all files that a manifest refers to."""
    if manifest is None:
        return []
    return [*stored_files(manifest), *(file for files in manifest.changes.values() for file in files)]


def unconfirmed(root: Path, batch: str, error: Exception) -> JobError:
    """Return the error for a manifest that is in place although the fsync of its folder failed."""
    return JobError(
        f"{full_disk(error, str(root)) or reason(error)}; batch {batch} is committed, but the disk did not "
        "confirm it, so a power failure may undo it: check the disk; the next command publishes the batch if it is "
        "still committed"
    )


# Garbage


def collect_garbage(root: Path, manifest: Manifest, before: Manifest | None = None) -> None:
    """Remove files that no commit needs which is kept with the last one. The commit ``before`` is read unless given.

    A job that is suspended here removes nothing that a later commit needs: such a commit refers only to files in
    folders with higher numbers, and to files that commits refer to which this one keeps as well.
    """
    commit = manifest.commit
    if last_commit(root) > commit:
        return
    if before is None or before.commit != commit - 1:
        before = readable(root, commit - 1)
    first = oldest_kept(manifest)
    recent = {*referenced_files(manifest), *referenced_files(before)}
    earlier = files_kept_from(root, first, manifest) | recent
    names = attempts_in_lists(manifest)
    for folder in sorted((root / "data").glob("[0-9]*-*")):
        number = int(folder.name.partition("-")[0])
        if number > commit:
            # It belongs to a running job.
            continue
        if number < first:
            kept = earlier
        elif number >= commit - 1:
            kept = recent
        elif number > commit - BATCHES_INLINE and not is_commit(root, folder.name, names):
            kept = set()
        else:
            # It was tidied after its commit.
            continue
        # A job that lost the race may be removing or writing the same files; the next commit tries again.
        with contextlib.suppress(OSError):
            tidy(root, folder, kept, manifest)
    for path in sorted((root / "manifest").iterdir()):
        found = re.match(r"\.?(?:(?<=\.)batches-)?([0-9]{12})\.", path.name)
        limit = commit if path.name.startswith(".") else min(commit - MANIFESTS_KEPT, first - 1)
        if found and int(found[1]) <= limit:
            path.unlink(missing_ok=True)
    for publication in (*manifest.publish, *(before.publish if before else ())):
        place = publication_place(root, publication)
        if is_local(place):
            remove_unfinished(root, place.parent, commit)


def readable(root: Path, commit: int) -> Manifest | None:
    """Return a commit; None if its manifest is missing, or damaged so that ``recover`` has gone on without it."""
    try:
        return read_manifest(root, commit)
    except JobError:
        return None


def files_kept_from(root: Path, first: int, manifest: Manifest) -> set[str]:
    """Return those files in folders before commit ``first`` that it or a later commit, up to the given last one, refers
    to. A file that a commit does not refer to is not referred to later, unless a commit jumps: so it suffices to look
    at the first commit and those that jump."""
    kept: set[str] = set()
    for number in range(first, manifest.commit):
        found = readable(root, number)
        kept.update(referenced_files(found))
        if found:
            break
    for number in manifest.jumps:
        kept.update(referenced_files(readable(root, number)))
    return kept


def attempts_in_lists(manifest: Manifest) -> set[str]:
    """Return the names, without numbers, of the attempts that made the last commits."""
    return {*manifest.attempts, *(attempt_id(attempt) for _, attempt in manifest.undone)}


def is_commit(root: Path, attempt: str, names: set[str]) -> bool:
    """Return whether an attempt made a commit, whose name may be in a list of ``names``."""
    if attempt_id(attempt) in names:
        return True
    found = readable(root, commit_of(attempt))
    return found is not None and found.attempt == attempt


def tidy(root: Path, folder: Path, kept: set[str], manifest: Manifest) -> None:
    """Remove the files of an attempt that are not in ``kept``, and the hidden ones with rows that it has set aside if
    it made no commit up to the given last one."""
    if has_notes(folder) and not is_commit(root, folder.name, attempts_in_lists(manifest)):
        remove_noted(root, folder)
    (remove_unreferenced if is_local(root) else remove_from_store)(root, folder, kept)


def remove_unreferenced(root: Path, folder: Path, kept: set[str]) -> None:
    """Remove the files of an attempt that are not in ``kept``, and the folders that this leaves empty."""
    for place, _, names in os.walk(folder, topdown=False):
        inside = place.removeprefix(f"{root}/")
        for name in names:
            if f"{inside}/{name}" not in kept:
                Path(place, name).unlink(missing_ok=True)
        remove_if_empty(Path(place))


def remove_from_store(root: Path, folder: Path, kept: set[str]) -> None:
    """Remove the files of an attempt that are not in ``kept`` from a store, which has no empty folders."""
    start = f"data/{folder.name}/"
    names = [start + name for name in files_under(folder)]
    if not kept.intersection(names):
        remove_tree(folder)
        return
    for name in names:
        if name not in kept:
            (root / name).unlink(missing_ok=True)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is empty."""
    if not any(folder.iterdir()):
        folder.rmdir()


def remove_unfinished(root: Path, changes: Path, commit: int) -> None:
    """Remove the temporary folders that crashes have left beside published folders in ``changes``. Another job may just
    be publishing the last commit, and another state any of its commits: those stay."""
    inside = str(changes).startswith(f"{root}/")
    for folder in changes.glob(".batch=*"):
        attempt = re.search(rf"{ATTEMPT.pattern}\Z", folder.stem)
        own = inside or (attempt is not None and is_own(root, attempt[0]))
        if own and (attempt is None or commit_of(attempt[0]) < commit):
            shutil.rmtree(folder, ignore_errors=True)


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

Work = Callable[[str], tuple["Outcome", Mapping[str, tuple[str, ...]], Mapping[str, tuple[int, int]]]]
"""Computes what to commit, given the name of an attempt: the relations, and per table the files of net changes and
their counts (inserted, deleted)."""


def tables_after(
    program: Program,
    before: Manifest | None,
    attempt: str,
    counts: Mapping[str, tuple[int, int]],
    place: str | None,
    compared: bool,
) -> OutputTables:
    """Return what a commit records of the tables that output relations are kept as: at a ``place``, or where they were;
    see ``next_tables``."""
    if place is None:
        place = before.tables.place if before else ""
    if not place:
        return NO_TABLES
    found: OutputTables = tables_function("next_tables", place)(program, before, attempt, counts, place, compared)
    return found


def run_and_commit(
    program: Program,
    executor: Executor,
    root: Path,
    before: Manifest | None,
    batch: str,
    publish: str,
    supplied: SuppliedFunctions | None,
    log: Log,
    work: Work,
    generated: bool = True,
    by: str = "",
    feeds: Mapping[str, FeedRecord] | None = None,
    command: str = "apply",
    keep: str | None = None,
    restored: Manifest | None = None,
    tables: str | None = None,
    left_out: LeftOut | None = None,
    aside: Aside | None = None,
    sources: Mapping[str, Sequence[Any]] | None = None,
    sequences: Mapping[str, SequenceRecord] | None = None,
    late: Counter[str] | None = None,
) -> Manifest:
    """Compute a commit in a folder of its own, make it the last one, publish its changes, collect garbage and return
    its manifest. ``generated``: the job has chosen the ID of the batch. ``by`` is how published changes are cut.
    ``feeds`` are those of the commit; by default they stay as they were. The ``command`` may say how long to ``keep``
    commits from now on, and at which place to keep output relations as ``tables``. Of what is ``restored``, an earlier
    commit, the new one has all but what describes the commit itself. ``left_out`` counts rows that are left out,
    ``aside`` has those that are set aside, and ``late`` counts those that are ignored. ``sequences`` tells which
    relations keep sequences, as far as these are stored; by default it stays as it was. Rows come from ``sources``, by
    relation. Raise Passing if another job commits first, or if the disk, the system or Spark fails before the
    commit."""
    commit, started = before.commit + 1 if before else 1, time.monotonic()
    folder = published_name(before, batch, commit)
    check_publication(root, program, publish, folder)
    attempt = attempt_name(commit)
    if log.watcher:
        log.watcher.begin(root, command, batch, before, publish, sources, feeds)
    try:
        if before is None:
            make_folder(root / "manifest")
        if is_local(root):
            make_folder(root / "data")
        (root / "data" / attempt).mkdir(parents=True)
        if aside:
            aside.begin(root, folder, attempt)
        outcome, changes, counts = work(attempt)
        manifest = Manifest(
            format=STATE_FORMAT,
            commit=commit,
            attempt=attempt,
            program=program_record(program),
            buckets=outcome.buckets,
            functions=known_functions(program, before, supplied),
            **with_batch(root, restored or before, attempt, batch, generated),
            relations=outcome.relations,
            clocks=outcome.clocks,
            effects=outcome.effects,
            feeds=known_feeds(program, before) if feeds is None else feeds,
            tables=tables_after(program, before, attempt, counts, tables, command in COMPARED),
            changes=changes,
            counts=counts,
            publish=publications(root, program, publish, folder, changes, by),
            # The rounds of each task are for the report only.
            steps=tuple({k: v for k, v in step.items() if k != "tasks"} for step in outcome.steps),
            command=command,
            seconds=round(time.monotonic() - started, 3),
            left_out=dict(+left_out) if left_out else {},
            set_aside=aside.seal() if aside else {},
            sequences=known_sequences(before, sequences, outcome.relations),
            late=dict(+late) if late else {},
            **kept_members(root, before, keep, commit),
        )
        if restored:
            manifest = replace(
                restored,
                **{name: getattr(manifest, name) for name in OF_COMMIT},
                jumps=(*manifest.jumps, commit),
                restores=restored.commit,
                undone=(*manifest.undone, *undone_since(root, before, restored)),
            )
        check_arrival(root, manifest)
        commit_manifest(root, manifest)
    except BaseException as error:
        try:
            committed = is_committed(root, attempt, batch)
        except Exception as unknown:
            # The files may belong to a commit. If they do not, a later commit removes them.
            raise error from unknown
        if not committed:
            withdraw(root, attempt)
            if aside:
                # Its data tell where its files are, if this is killed.
                aside.withdraw()
            remove_tree(root / "data" / attempt)
        if log.watcher:
            log.watcher.fail(error)
        if not isinstance(error, Exception):
            raise
        if committed:
            raise unconfirmed(root, batch, error) from error
        if committed is False:
            # The error may be due to the other commit, which may have removed files that this job was reading.
            raise lost_race(root) from error
        said = full_disk(error, str(root)) or failure(error)
        if said:
            raise Passing(f"{said}; nothing was committed, the state is unchanged") from error
        raise
    for name, rows in relation_rows(program, manifest).items():
        inserted, deleted = counts.get(program.relation(name).table, (0, 0))
        log.event("relation", relation=name, tuples=rows, inserted=inserted, deleted=deleted)
    for name, lacking in manifest.left_out.items():
        log.event("left out", relation=name, rows=lacking)
    for name, ignored in manifest.late.items():
        log.event("late", relation=name, rows=ignored)
    for name, bad in manifest.set_aside.items():
        log.event("set aside", relation=name, rows=bad.rows, file=file_set_aside(root, manifest, name))
    log.event("committed", commit=commit, batch=batch)
    try:
        finish_publication(program, executor, root, manifest, publish)
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


COMPARED = ("rebuild", "upgrade", "rollback")
"""Commands that may change relations without telling how."""

OF_COMMIT = (
    "format",
    "commit",
    "attempt",
    "program",
    "batch",
    "batches",
    "attempts",
    "generated",
    "older_batches",
    "changes",
    "counts",
    "publish",
    "tables",
    "steps",
    "command",
    "time",
    "seconds",
    "left_out",
    "set_aside",
    "late",
    "keep",
    "kept_from",
)
"""The members of a manifest that describe the commit rather than the state."""


def kept_members(root: Path, before: Manifest | None, keep: str | None, commit: int) -> dict[str, Any]:
    """Return the members of a manifest that say when it was made, and what is kept after it."""
    moment = moment_after(before.time if before else "")
    if before is None:
        return {"time": moment, "keep": keep or "", "kept_from": commit}
    keep = before.keep if keep is None else keep
    first = kept_after(root, before, keep, moment, commit)
    jumps = tuple(number for number in before.jumps if number >= first)
    return {"time": moment, "keep": keep, "kept_from": first, "jumps": jumps, "undone": before.undone}


def undone_since(root: Path, before: Manifest | None, restored: Manifest) -> list[tuple[str, str]]:
    """Return the batches of the commits after one that is ``restored``, each with its attempt."""
    last = before.commit if before else 0
    found = (read_manifest(root, number) for number in range(restored.commit + 1, last + 1))
    known = {*(before.undone if before else ())}
    undone = [(manifest.batch, manifest.attempt) for manifest in found if manifest]
    return [item for item in undone if item not in known]


def known_functions(program: Program, before: Manifest | None, supplied: SuppliedFunctions | None) -> Mapping[str, str]:
    """Return the file hash of each external function; a command that calls none keeps those recorded."""
    if supplied:
        return dict(supplied.sources)
    return before.functions if before and program.functions else {}


def known_sequences(
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
            kept[relation.name] = (
                record if same or is_stream(record) else replace(record, table="", position={}, schema="")
            )
    return kept


def check_unfed(before: Manifest | None, given: Iterable[str]) -> None:
    """Raise JobError if rows are given for a relation that has a feed: it would no longer have the rows of that."""
    for name in given:
        if before and name in before.feeds:
            source = before.feeds[name].source
            raise JobError(f"{name} is fed by {source}: change its rows there, or `connect --remove {name}` first")


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
