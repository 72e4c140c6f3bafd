"""The commands ``export`` and ``import``: the last commit of a state as one archive, and a state from it.

An archive is a tar file. It begins with ``flintlog-state.json``, which says of which commit it is, continues with the
files of that commit under their paths, and ends with ``checksums.json``: the size and the SHA-256 of each file.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...job.command_line import COMMANDS, Command
from ...job.report import feeds_said, report_feeds, report_tables
from ...job.shared_options import add_state, option
from ...job.status import tables_said
from ...kernel.errors import JobError
from ...kernel.model import Program
from ...store.commits import from_last_commit
from ...store.data_files import referenced_files, stored_bytes
from ...store.executors import LocalExecutor
from ...store.extensions import FURTHER
from ...store.manifest import (
    STATE_FORMAT,
    Manifest,
    commit_numbers,
    is_data_file,
    manifest_in,
    manifest_path,
)
from ...store.publish import finish_publication, mark_path
from ...store.sealed_records import from_json, record_in, sealed
from ...system.checksums import check_file
from ...system.places import given_place, is_local, make_folder, remove_tree, sync, write_exclusively

ARCHIVE_FORMAT = 1

HEAD = "flintlog-state.json"

SUMS = "checksums.json"

BYTES_AT_ONCE = 1 << 20


def export_state(program: Program, state: str, to: str) -> dict[str, Any]:
    """Write the last commit of a state to an archive, which must not exist yet. Jobs may work on the state meanwhile;
    what is written is one commit as a whole. Spark is not needed."""
    started = time.monotonic()
    root, target = given_place(state), given_place(to)
    if target.exists():
        raise JobError(f"{to} exists already; give the name of a new file")

    def write(manifest: Manifest) -> Manifest:
        finish_publication(program, LocalExecutor(), root, manifest)
        write_archive(root, manifest, target)
        return manifest

    manifest: Manifest = from_last_commit(root, write)
    return {
        "program": manifest.program.name,
        "commit": manifest.commit,
        "batch": manifest.batch,
        "archive": to,
        "bytes": target.stat().st_size,
        "seconds": round(time.monotonic() - started, 3),
    }


def alone(manifest: Manifest) -> Manifest:
    """Return a commit as the only one that a state keeps."""
    return replace(manifest, format=STATE_FORMAT, kept_from=manifest.commit, jumps=())


def write_archive(root: Path, manifest: Manifest, target: Path) -> None:
    """Write a commit to an archive, which appears when it is complete and on disk, or not at all."""
    local = is_local(target)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}") if local else target
    sums: dict[str, tuple[int, str]] = {}
    try:
        with temporary.open("wb") as content:
            with tarfile.open(fileobj=content, mode="w|", format=tarfile.PAX_FORMAT) as archive:
                head = {"format": ARCHIVE_FORMAT, "program": manifest.program.name, "commit": manifest.commit}
                add_text(archive, HEAD, sealed(head), {})
                for name in (*manifest.older_batches, *dict.fromkeys(referenced_files(manifest))):
                    add_file(archive, root, name, sums)
                own = manifest_path(root, manifest.commit).relative_to(root).as_posix()
                add_text(archive, own, sealed(alone(manifest)), sums)
                add_text(archive, SUMS, sealed({"files": sums}), {})
            if local:
                content.flush()
                os.fsync(content.fileno())
        if local:
            # Unlike a rename, this fails if somebody else has made the file meanwhile.
            os.link(temporary, target)
            sync(target.parent)
    except FileExistsError as error:
        raise JobError(f"{target} exists already; give the name of a new file") from error
    except BaseException:
        if not local:
            with contextlib.suppress(OSError):
                target.unlink(missing_ok=True)
        raise
    finally:
        if local:
            temporary.unlink(missing_ok=True)


def add_text(archive: tarfile.TarFile, name: str, text: str, sums: dict[str, tuple[int, str]]) -> None:
    """Add a file with a text to an archive, and its size and SHA-256 to ``sums``."""
    data = text.encode()
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))
    sums[name] = (len(data), hashlib.sha256(data).hexdigest())


class Summed:
    """A file whose SHA-256 is computed while it is read."""

    def __init__(self, content: Any) -> None:
        """Read nothing yet."""
        self.content, self.sum = content, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        data: bytes = self.content.read(size)
        self.sum.update(data)
        return data


def add_file(archive: tarfile.TarFile, root: Path, name: str, sums: dict[str, tuple[int, str]]) -> None:
    """Add a file of a state to an archive, and its size and SHA-256 to ``sums``; raise JobError if it is damaged."""
    path = root / name
    if is_data_file(name):
        check_file(path, whole=True)
    member = tarfile.TarInfo(name)
    member.size = path.stat().st_size
    with path.open("rb") as content:
        summed = Summed(content)
        archive.addfile(member, summed)
    sums[name] = (member.size, summed.sum.hexdigest())


def import_state(program: Program, state: str, archive: str) -> dict[str, Any]:
    """Make a state from an archive that ``export`` has written; raise JobError if there is a state already, or if the
    archive is damaged. The state appears as a whole or not at all. Tables that output relations are kept as stay those
    of the state that was exported, as with any copy. Spark is not needed."""
    started = time.monotonic()
    root, source = given_place(state), given_place(archive)
    if commit_numbers(root):
        raise JobError(f"there is a state in {root} already; import the archive into another folder")
    if not source.exists():
        raise JobError(f"{archive} does not exist")
    fresh = not (root / "data").exists()
    try:
        with source.open("rb") as content, tarfile.open(fileobj=content, mode="r|") as opened:
            manifest = unpacked(root, opened)
        if not write_exclusively(manifest_path(root, manifest.commit), sealed(manifest)):
            raise JobError(f"there is a state in {root} already; import the archive into another folder")
    except BaseException as error:
        if fresh and not commit_numbers(root):
            remove_tree(root / "data")
        if isinstance(error, tarfile.TarError | ValueError | EOFError):
            message = f"{archive} is damaged, or no archive of a state: {error}; nothing was imported"
            raise JobError(message) from error
        raise
    write_exclusively(mark_path(root, manifest), sealed({"attempt": manifest.attempt}))
    return {
        "program": manifest.program.name,
        "commit": manifest.commit,
        "batch": manifest.batch,
        "archive": archive,
        "bytes": stored_bytes(root, manifest),
        "feeds": feeds_said(manifest.feeds),
        "tables": tables_said(manifest.tables),
        "seconds": round(time.monotonic() - started, 3),
    }


def unpacked(root: Path, archive: tarfile.TarFile) -> Manifest:
    """Unpack the files of an archive to their places, and force them to disk; return the manifest, which is put in its
    place last. Raise ValueError if anything is wrong."""
    unpacked_sums: dict[str, tuple[int, str]] = {}
    texts: dict[str, bytes] = {}
    folders: set[Path] = set()
    recorded_sums: Any = None
    for member in archive:
        content = archive.extractfile(member)
        # A sparse file may be of any size, although its archive is small.
        if content is None or not member.isfile() or member.issparse():
            raise ValueError(f"{member.name} is not a file")
        if member.name in (HEAD, SUMS) or member.name.startswith("manifest/"):
            texts[member.name] = data = content.read()
            unpacked_sums[member.name] = (len(data), hashlib.sha256(data).hexdigest())
        elif is_data_file(member.name) and HEAD in texts:
            path = root / member.name
            make_folder(path.parent)
            unpacked_sums[member.name] = unpack(content, path)
            folders.update(folder for folder in path.parents if folder != root and root in folder.parents)
        else:
            raise ValueError(f"it contains {member.name}")
        if member.name == HEAD:
            head = record_in(texts[HEAD])
            if head.get("format") != ARCHIVE_FORMAT:
                raise ValueError(f"its format is {head.get('format')}, and this job reads format {ARCHIVE_FORMAT}")
        if member.name == SUMS:
            recorded_sums = record_in(texts.pop(SUMS)).get("files")
    unpacked_sums = {name: sums for name, sums in unpacked_sums.items() if name not in (HEAD, SUMS)}
    if recorded_sums is None:
        raise ValueError("it ends before its checksums")
    listed = from_json(Mapping[str, tuple[int, str]], recorded_sums)
    for name in sorted({*listed, *unpacked_sums}):
        if listed.get(name) != unpacked_sums.get(name):
            raise ValueError(f"{name} is missing or has changed")
    commit = from_json(int, record_in(texts.pop(HEAD)).get("commit"), "its commit")
    own = texts.pop(manifest_path(Path(), commit).as_posix(), None)
    if own is None:
        raise ValueError(f"it has no manifest of commit {commit}")
    manifest = manifest_in(own, commit, "its manifest")
    lacking = {*referenced_files(manifest), *manifest.older_batches} - unpacked_sums.keys()
    if lacking:
        raise ValueError(f"it lacks {min(lacking)}")
    make_folder(root / "manifest")
    for name, data in texts.items():
        if name not in manifest.older_batches:
            raise ValueError(f"it contains {name}")
        write_exclusively(root / name, data.decode())
    for folder in sorted(folders, key=lambda path: (-len(path.parts), str(path))) if is_local(root) else ():
        sync(folder)
    return manifest


def unpack(content: Any, path: Path) -> tuple[int, str]:
    """Write a file of an archive to its place, on a disk durably, and return its size and SHA-256."""
    size, total = 0, hashlib.sha256()
    with path.open("wb") as target:
        while data := content.read(BYTES_AT_ONCE):
            target.write(data)
            total.update(data)
            size += len(data)
        if is_local(path):
            target.flush()
            os.fsync(target.fileno())
    return size, total.hexdigest()


def report_export(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line that says what the archive contains."""
    yield f"{result['archive']}: commit {result['commit']}, batch {result['batch']}, {result['bytes']:,} bytes"


def report_import(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines that say what the new state contains, and what it will read."""
    yield f"commit {result['commit']}, batch {result['batch']}, from {result['archive']}: {result['bytes']:,} bytes"
    yield from report_feeds(result)
    yield from report_tables(result)


COMMANDS["export"] = Command(
    "export",
    "write the state to an archive",
    "Write the last commit of the state to one file, with checksums. Jobs may work on the state meanwhile.",
    (
        add_state,
        option("--to", required=True, metavar="FILE.tar", help="the archive, which must not exist yet"),
    ),
    lambda call: export_state(call.program, **call.options),
    report_export,
)
COMMANDS["import"] = Command(
    "import",
    "make a state from an archive",
    "Make a new state from an archive that export has written.",
    (add_state, option("archive", metavar="FILE.tar", help="the archive")),
    lambda call: import_state(call.program, **call.options),
    report_import,
)
FURTHER.update(export=export_state, import_archive=import_state)
