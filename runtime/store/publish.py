"""Publication of net changes: a folder of Parquet files per output relation and batch, which may be cut by location.
Tables that relations are kept as are brought up to date."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..engines.arrow import plain_array
from ..kernel.errors import JobError, full_disk, reason
from ..kernel.model import Program, Relation
from ..kernel.sql import is_optional
from ..kernel.values import shown
from ..system.places import (
    bare_location,
    given_place,
    is_local,
    make_folder,
    place_of,
    recorded_place,
    remove_tree,
    scheme_of,
    sync,
    sync_files,
    write_exclusively,
)
from .batches import has_later
from .cut_by_value import ROWS_CUT_AT_ONCE, rows_by_value, write_cut
from .data_files import check_files
from .executors import Executor
from .extensions import FEEDS, FURTHER, TABLE_KINDS, TABLE_PARTS, further, lacking_part
from .manifest import (
    ATTEMPT,
    PUBLISHED,
    Home,
    Manifest,
    Publication,
    commit_of,
    content_of,
    home_at,
    manifest_path,
    relative_folder,
)
from .published_names import LOCATION, batch_folder, is_location, location_folder, operation_column, published_file
from .sealed_records import check_seal, from_json, record_in, sealed
from .versions import recorded_relation

SMALL_PUBLICATION = 64 * 1024 * 1024


def publication_folder(root: Path, where: str, relation: Relation, name: str) -> Path:
    """Return the folder in which the changes of a relation in a batch are published: below ``where``, which may be
    relative to the state. ``name`` is that of the folder itself."""
    base = place_of(where) if scheme_of(where) else root / where
    return base / (relation.folder or relation.name) / "changes" / name


def published_name(before: Manifest | None, batch: str, commit: int) -> str:
    """Return the name of the folder in which a commit publishes a batch. If the batch was rolled back, consumers may
    have read what it published then, and it gets another name."""
    again = before is not None and any(batch == undone for undone, _ in before.undone)
    return batch_folder(batch, commit if again else 0)


def publications(
    root: Path, program: Program, where: str, name: str, changes: Mapping[str, tuple[str, ...]], by: str = ""
) -> tuple[Publication, ...]:
    """Return what to publish of the net ``changes`` of a batch, whose files are given by table, in folders with a
    ``name``. ``by`` is ``location`` if those of located relations are to be cut."""
    return tuple(
        Publication(
            relation.name,
            relative_folder(root, str(publication_folder(root, where, relation, name))),
            changes[relation.table],
            {"_op": operation_column(relation.columns), **{column.sql: column.name for column in relation.columns}},
            relation.location if by and not relation.hidden else "",
            place_of_constant(relation) if by and not relation.hidden else "",
        )
        for relation in program.relations
        if relation.output and changes.get(relation.table)
    )


def place_of_constant(relation: Relation) -> str:
    """Return the name of the folder for the changes of a relation that is at one location; empty for others."""
    return "" if relation.at is None else location_folder([operation_column(relation.columns)], relation.at)


def check_cut(program: Program, by: str | None) -> str:
    """Return how published changes are cut: by ``location``, or not (empty). Raise JobError if that is impossible."""
    if by not in (None, "", LOCATION):
        raise JobError(f"changes can be published by {LOCATION}, not by {shown(by)}")
    located = (r for r in program.relations if not r.hidden and (r.location or r.at is not None))
    if by and not any(relation.output for relation in located):
        raise JobError(f"no output relation of {program.name} has a location (@) to publish changes by")
    return by or ""


def published_where(publish: str | None) -> str:
    """Return where to publish changes, given a folder or nothing; raise JobError for a place of tables."""
    if publish and publish.partition(":")[0] in TABLE_PARTS:
        raise JobError(f"tables are kept from one commit to the next: run `connect --publish {publish}` once")
    return PUBLISHED if publish is None else str(given_place(publish))


def tables_function(name: str, place: str) -> Callable[..., Any]:
    """Return a function of the part that keeps output relations as tables at a place; raise JobError if the script
    lacks it."""
    kind, purpose = place.partition(":")[0], f"keeping relations as tables at {place}"
    if kind in TABLE_PARTS and kind not in TABLE_KINDS:
        raise lacking_part(kind, purpose)
    return further(name, FEEDS, purpose)


@dataclass(frozen=True)
class Owner:
    """The state that publishes in a folder outside: its ``home`` when it began."""

    home: Home


def owner_file(changes: Path, origin: str) -> Path:
    """Return the file, in a folder of published changes, that tells where the state with an ``origin`` lies. States of
    different origins may share the folder."""
    return changes / f"_owner-{origin}.json"


def check_owner(root: Path, changes: Path, origin: str) -> bool:
    """Return whether a state is known in a folder of published changes, or need not be since the folder is in it; raise
    JobError if a copy of it publishes there: consumers would read the changes of both."""
    relative = relative_folder(root, str(changes))
    if not (relative.startswith("/") or scheme_of(relative)):
        return True
    path = owner_file(changes, origin)
    try:
        data = content_of(path)
        check_seal(data)
        owner: Owner = from_json(Owner, record_in(data))
    except FileNotFoundError:
        return False
    except ValueError as error:
        raise JobError(f"{path} is damaged ({error}); remove it if no copy of this state publishes there") from error
    if owner.home.is_that_of(root):
        return True
    raise JobError(
        f"{changes} has the changes that the state in {owner.home.place} publishes, and this one, in "
        f"{bare_location(str(root))}, is a copy of it: publish elsewhere or, if this one is to go on in its place, "
        f"remove {path}"
    )


def check_publication(root: Path, program: Program, where: str, name: str, origin: str) -> None:
    """Raise JobError if a folder with a ``name`` that changes would be published in already exists, or is that of
    the state that this one, with an ``origin``, is a copy of."""
    for relation in program.relations:
        folder = publication_folder(root, where, relation, name)
        if relation.output:
            check_owner(root, folder.parent, origin)
        if relation.output and folder.exists():
            raise JobError(
                f"{folder} already exists: remove it if a commit of this state that was undone published it; "
                "otherwise publish elsewhere"
            )


def publication_place(root: Path, publication: Publication, given: str = "") -> Path:
    """Return the place of a publication in a manifest. Manifests contain no keys: ``given``, the folder that the
    command was told to publish to, is used if it differs only by its keys."""
    folder = publication.folder
    return recorded_place(root, given if given and bare_location(given) == folder else folder)


def finish_publication(
    program: Program, executor: Executor, root: Path, manifest: Manifest, where: str = "", tables: bool = True
) -> bool:
    """Publish the changes of the last commit, in folders and tables, and return True, or False if that was already
    done. Idempotent, so that it can be repeated after a crash. ``where`` is where the command that made the commit was
    told to publish. Without ``tables`` these stay behind, and are compared by the next commit that keeps them. Raise
    JobError if it fails."""
    if is_finished(root, manifest):
        return False
    try:
        if is_local(root):
            # The command that made the commit may have been killed before it fsynced the folder of the manifest.
            sync(mark_path(root, manifest).parent)
        if manifest.set_aside:
            further("show_set_aside", "quarantine", "a batch with rows that are set aside")(root, manifest)
        for publication in manifest.publish:
            # The folder of the relation, which can differ from its name, "changes", and the folder of the batch.
            asked = "/".join([where.rstrip("/"), *publication.folder.split("/")[-3:]])
            folder = publication_place(root, publication, asked)
            # In a store the folder may be incomplete, so it is written again.
            if not (is_local(folder) and is_published(folder, manifest.attempt)):
                check_files(root, publication.files)
                publish_changes(executor, root, publication, manifest, folder)
            if is_local(folder):
                sync(folder.parent)
        if tables and manifest.tables.place:
            try:
                tables_function("finish_tables", manifest.tables.place)(program, root, manifest)
            except JobError as error:
                raise unpublished(root, manifest, error) from error
        mark_published(root, manifest)
    except Exception as error:
        # A job that makes the next commit has published this one first.
        if has_later(root, manifest):
            return False
        if isinstance(error, JobError):
            raise
        raise unpublished(root, manifest, error) from error
    return True


def mark_path(root: Path, manifest: Manifest) -> Path:
    """Return the path of the mark that says that a commit is published."""
    return manifest_path(root, manifest.commit).with_suffix(".published")


def mark_published(root: Path, manifest: Manifest) -> None:
    """Mark a commit as published. A mark of another attempt is left from a commit that was removed by hand."""
    path = mark_path(root, manifest)
    text = sealed({"attempt": manifest.attempt})
    if not write_exclusively(path, text) and not is_finished(root, manifest):
        path.unlink(missing_ok=True)
        write_exclusively(path, text)


def is_finished(root: Path, manifest: Manifest) -> bool:
    """Return whether a commit is published: its mark names the attempt, or there is a later commit, since jobs
    publish the last commit before they make another. Raise JobError if the mark is damaged."""
    if has_later(root, manifest):
        return True
    path = mark_path(root, manifest)
    try:
        data = content_of(path)
        if not data:
            # Not every store writes a file in one step.
            return False
        mark = record_in(data)
        check_seal(data)
        attempt: str = from_json(str, mark.get("attempt"), "its attempt")
    except FileNotFoundError:
        return False
    except ValueError as error:
        raise JobError(
            f"{path} is damaged ({error}); remove it; the changes of batch {manifest.batch} are then "
            "published again if they are missing"
        ) from error
    return attempt == manifest.attempt


def unpublished(root: Path, manifest: Manifest, error: Exception) -> JobError:
    """Return the error for a commit that was made but could not be published."""
    return JobError(
        f"{full_disk(error, str(root)) or reason(error)}; batch {manifest.batch} is committed, and the next command "
        "publishes the rest of it"
    )


def published_after(root: Path, manifest: Manifest) -> Iterator[tuple[Path, bool]]:
    """Yield the folders in which attempts at later commits have published, in the state and beside this commit's
    publications, each with whether those attempts belong to this state: others may publish there too. Published files
    are named after attempts."""
    inside = {*(root / PUBLISHED).glob("*/changes")}
    outside = {publication_place(root, item).parent for item in manifest.publish} - inside
    for place in sorted({*inside, *outside}, key=str):
        for folder in sorted(place.iterdir() if place.is_dir() else (), key=str):
            later = [name for name in attempts_in(folder) if commit_of(name) > manifest.commit]
            if folder.name.startswith("batch=") and later:
                yield folder, place in inside or any(is_own(root, name) for name in later)


def attempts_in(folder: Path) -> set[str]:
    """Return the attempts that have published in a folder."""
    names = (ATTEMPT.match(path.name) for path in published_files(folder))
    return {name[0] for name in names if name}


def is_own(root: Path, attempt: str) -> bool:
    """Return whether an attempt is known to belong to this state: its data files still exist there."""
    return (root / "data" / attempt).exists()


def is_published(folder: Path, attempt: str) -> bool:
    """Return whether an attempt has published in a folder; its files are named after it."""
    return any(path.name.startswith(attempt) for path in published_files(folder))


def published_files(folder: Path) -> Iterator[Path]:
    """Yield the files that were published in the folder of a batch, also those in the folders of locations."""
    for path in sorted(folder.iterdir(), key=str) if folder.is_dir() else ():
        inside = sorted(path.iterdir(), key=str) if is_location(path.name) and path.is_dir() else [path]
        yield from (file for file in inside if file.suffix == ".parquet")


def publish_changes(executor: Executor, root: Path, publication: Publication, manifest: Manifest, folder: Path) -> None:
    """Publish the net changes of one relation under the program's column names: write them to a temporary folder beside
    ``folder``, fsync them and rename it. In a store, write them in place, after removing what an interrupted command
    has left. Raise JobError if something else is in place."""
    attempt, columns = manifest.attempt, publication.columns
    if is_local(folder):
        make_folder(folder.parent)
    if not check_owner(root, folder.parent, manifest.origin):
        path = owner_file(folder.parent, manifest.origin)
        if not write_exclusively(path, sealed(Owner(home_at(root)))):
            check_owner(root, folder.parent, manifest.origin)
    optional = optional_columns(publication, manifest)
    files = [root / name for name in publication.files]
    few = sum(file.stat().st_size for file in files) <= SMALL_PUBLICATION

    def write(target: Path) -> None:
        if publication.place:
            write_renamed(files, columns, target / publication.place, attempt, optional)
        elif publication.by:
            write_by_location(files, columns, publication.by, target, attempt, optional)
        elif few or executor.local:
            write_renamed(files, columns, target, attempt, optional)
        else:
            session = executor.session("publication")
            FURTHER["write_renamed_on_spark"](session, files, columns, target, attempt, optional)

    if not is_local(folder):
        remove_tree(folder)
        write(folder)
        return
    temporary = folder.with_name(f".{folder.name}.{attempt}.{uuid.uuid4().hex[:8]}")
    try:
        write(temporary)
        sync_files(temporary)
        if is_finished(root, manifest):
            # Another command has published it, and a consumer may have removed it since.
            return
        try:
            temporary.rename(folder)
        except OSError as error:
            # Two commands may finish the same publication, with the same rows.
            if not is_published(folder, attempt):
                if not os.path.lexists(folder):
                    raise
                raise JobError(f"{folder} is in the way of published changes") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def optional_columns(publication: Publication, manifest: Manifest) -> frozenset[str]:
    """Return the columns of a publication whose values may be null, by their names in the files of the state."""
    recorded = recorded_relation(manifest.program, publication.relation)
    kinds = dict(recorded[1].columns) if recorded else {}
    return frozenset(old for old, new in publication.columns.items() if is_optional(kinds.get(new, "")))


def renamed_rows(batch: Any, names: Mapping[str, str], optional: frozenset[str]) -> Any:
    """Return a record batch with other column names (old to new in ``names``), and the values of ``optional`` columns
    as users see them."""
    renamed = batch.select(list(names)).rename_columns(list(names.values()))
    if not optional:
        return renamed
    arrays = [plain_array(batch.column(old), "?" if old in optional else "") for old in names]
    return pa.RecordBatch.from_arrays(arrays, names=list(names.values()))


def write_renamed(
    files: list[Path],
    names: Mapping[str, str],
    folder: Path,
    attempt: str,
    optional: frozenset[str] = frozenset(),
) -> Path:
    """Copy Parquet files into one with other column names (old to new in ``names``), a batch of rows at a time, and
    return its path. The values of ``optional`` columns are written as users see them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / published_file(attempt)
    with contextlib.ExitStack() as opened:
        writer: Any = None
        for file in files:
            content = pq.ParquetFile(opened.enter_context(file.open("rb")))
            for batch in content.iter_batches(columns=list(names)):
                renamed = renamed_rows(batch, names, optional)
                if writer is None:
                    target = opened.enter_context(path.open("wb"))
                    writer = pq.ParquetWriter(target, renamed.schema, compression="zstd")
                    opened.enter_context(writer)
                writer.write_batch(renamed)
    return path


def write_by_location(
    files: list[Path], names: Mapping[str, str], by: str, folder: Path, attempt: str, optional: frozenset[str]
) -> None:
    """Write the rows of Parquet files under other column names (old to new in ``names``) into a folder for each value
    of the column ``by``. Files are numbered across folders, so that none is lost where a file system takes the names of
    two folders for the same."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = itertools.count()
    with contextlib.ExitStack() as opened:
        contents = [pq.ParquetFile(opened.enter_context(file.open("rb"))) for file in files]
        first = contents[0].schema_arrow
        kinds = {old: first.field(old).type for old in names}
        types = [kinds[old].value_type if old in optional else kinds[old] for old in names]
        schema = pa.schema([pa.field(new, kind) for new, kind in zip(names.values(), types, strict=True)])
        batches = (
            pa.RecordBatch.from_arrays(
                [
                    column.cast(kind)
                    for column, kind in zip(renamed_rows(batch, names, optional).columns, types, strict=True)
                ],
                schema=schema,
            )
            for content in contents
            for batch in content.iter_batches(ROWS_CUT_AT_ONCE, columns=list(names))
        )
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        groups = rows_by_value(reader, list(names).index(by), schema)

        def file_of(location: object) -> Path:
            return folder / location_folder(names.values(), location) / published_file(attempt, next(numbers))

        write_cut(groups, schema, file_of)
