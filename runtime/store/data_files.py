"""Check and read the data files of a committed state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..engines.duckdb import DuckEngine
from ..engines.options import Options
from ..kernel.errors import JobError
from ..kernel.model import Relation
from ..system.checksums import FINGERPRINT, SMALL_FILES, check_file, damaged
from ..system.places import files_under, is_local
from .batches import last_commit, lost_race
from .manifest import Manifest
from .reading import bucket_files, stored_rows
from .run_tasks import duck_engine
from .task_records import Task


def check_stored(root: Path, manifest: Manifest, files: Sequence[str], whole: bool = False) -> None:
    """Check files that a commit builds on; if that fails because another job has committed, raise its error instead."""
    try:
        check_files(root, files, whole)
    except (JobError, OSError) as error:
        if last_commit(root) > manifest.commit:
            raise lost_race(root) from error
        raise


# Data files


def stored_files(manifest: Manifest, tables: Iterable[str] | None = None) -> list[str]:
    """Return the files that hold relations: all of them, or those of ``tables``."""
    relations = manifest.relations
    chosen = relations if tables is None else [table for table in tables if table in relations]
    return [file for table in chosen for bucket in relations[table].buckets.values() for file in bucket.files]


def referenced_files(manifest: Manifest | None) -> list[str]:
    """Return all files that a manifest refers to."""
    if manifest is None:
        return []
    return [*stored_files(manifest), *(file for files in manifest.changes.values() for file in files)]


def check_files(root: Path, files: Sequence[str], whole: bool = False) -> None:
    """Raise JobError for state files that are missing or truncated; with ``whole``, or if they are small in total, also
    for changed bytes. The bytes of files in a store are checked when a task fetches them."""
    if not is_local(root):
        sizes = files_under(root / "data") if files else {}
        for name in files:
            size, fingerprint = sizes.get(name.removeprefix("data/")), FINGERPRINT.search(name)
            if size is None:
                raise damaged(str(root / name), "is missing")
            if fingerprint and size != int(fingerprint[2]):
                raise damaged(str(root / name), f"is damaged (it has {size} bytes of {fingerprint[2]})")
            if not fingerprint:
                check_file(root / name, whole=False)
        return
    for name in files:
        check_file(root / name, whole=False)
    if whole or sum((root / name).stat().st_size for name in files) <= SMALL_FILES:
        for name in files:
            check_file(root / name, whole=True)


@contextlib.contextmanager
def stored_engine(
    root: Path, manifests: Sequence[Manifest], relation: Relation, threads: int = 1
) -> Iterator[tuple[DuckEngine, list[str]]]:
    """Yield DuckDB, and a query for the stored rows of a relation in each of some commits."""
    queries = []
    with duck_engine(Task(Options(1), str(root), {}), threads) as engine:
        for manifest in manifests:
            entries = bucket_files(manifest.relations, relation, None)
            check_files(root, [name for entry in entries for name in entry.files])
            queries.append(stored_rows(engine, str(root), relation, entries))
        yield engine, queries


def stored_bytes(root: Path, manifest: Manifest) -> int:
    """Return the total size of the files that hold relations."""
    if is_local(root):
        return sum((root / name).stat().st_size for name in stored_files(manifest))
    sizes = files_under(root / "data")
    return sum(sizes[name.removeprefix("data/")] for name in stored_files(manifest))
