"""Paths and URIs of the state, and durable operations on its files.

A place is a pathlib path, or an object with its methods: on a local or mounted file system, or in a store that a
Python package opens, in the driver and in every task.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import sys
import uuid
import warnings
from pathlib import Path
from typing import Any

from ..kernel.errors import DISK_FAILURES, JobError, reason, remember_keys, without_keys
from .checksums import check_file, checked_file, damaged

STORE_PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "hdfs": "hdfs_native",
    "viewfs": "hdfs_native",
}
"""The packages that open stores, by scheme. In all of these a file can be created exclusively: with a conditional write
or, in Hadoop's file systems, by a rename that does not overwrite."""


def scheme_of(location: str) -> str:
    """Return the scheme of a URI in lower case, empty for a path."""
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", location)
    return scheme[1].lower() if scheme else ""


def without_scheme(location: str) -> str | None:
    """Return a location as the path of a local or mounted file; None if it is any other URI."""
    if scheme_of(location) not in ("", "file"):
        return None
    path = location[len("file:") :] if scheme_of(location) else location
    return path[2:] if path.startswith("///") else path


def bare_location(location: str) -> str:
    """Return a location without the credentials in it."""
    clean = without_keys(location).replace("***@", "")
    return clean.partition("?")[0] if "=***" in clean else clean


def place_of(location: str) -> Path:
    """Return the place of a path or URI."""
    path = without_scheme(location)
    return Path(path) if path is not None else store_place(location)


def input_place(location: str) -> Path:
    """Return the place of input files, which may be anywhere that fsspec opens, since nothing is created there."""
    check_location(location)
    path = without_scheme(location)
    return Path(path) if path is not None else store_place(location, read_only=True)


def check_location(location: str) -> None:
    """Raise JobError for a location that names nothing, such as that of a variable that is not set."""
    if not location or "\0" in location:
        raise JobError(f"{location!r} is not the name of a file or folder; is a variable not set?")


def given_place(location: str) -> Path:
    """Return the place, absolute if local, of a location given by a user; raise JobError if it cannot be opened, or
    recorded."""
    check_location(location)
    try:
        str(Path(location).absolute()).encode()
    except UnicodeEncodeError as error:
        raise JobError(f"{str(Path(location).absolute())!r} is not UTF-8, and cannot be recorded: rename it") from error
    place = place_of(location)
    try:
        if is_local(place):
            return place.resolve()
        place.exists()
    except Exception as error:
        forget_clients(location)
        raise JobError(f"{location} cannot be opened: {reason(error)}") from error
    return place


def forget_clients(location: str) -> None:
    """Let the next client of a location's store, if it is in one, look for credentials anew: fsspec keeps clients, also
    those that found none."""
    if without_scheme(location) is None:
        importlib.import_module("fsspec").get_filesystem_class(scheme_of(location)).clear_instance_cache()


def is_local(place: Path) -> bool:
    """Return whether a place is on a local disk or mounted."""
    return isinstance(place, Path)


def store_place(location: str, read_only: bool = False) -> Path:
    """Return the place of a URI other than a file's. Raise JobError if the package for its scheme is not installed, or
    if none is known: what is ``read_only`` may have any scheme of fsspec's."""
    remember_keys(location)
    scheme = scheme_of(location)
    package = STORE_PACKAGES.get(scheme)
    if not package and not read_only:
        raise JobError(
            f"{location} cannot hold a state or what it publishes, because commits create files exclusively: give a "
            f"folder on a local or mounted file system, or a URI of {', '.join(STORE_PACKAGES)}"
        )
    try:
        for name in ("upath", package or "fsspec"):
            importlib.import_module(name)
    except ImportError as error:
        name = (package or "fsspec").replace("_", "-")
        raise JobError(
            f"{location} needs the Python packages universal-pathlib and {name} on the driver"
            f"{'' if read_only else ' and where Spark runs the tasks'}: {error.name} is not installed for "
            f"{sys.executable}"
        ) from error
    if package == "hdfs_native":
        register_hadoop_files(scheme)
    try:
        importlib.import_module("fsspec").get_filesystem_class(scheme)
    except (ImportError, ValueError) as error:
        raise JobError(
            f"{location} cannot be read: {reason(error)}; pass rows that only Spark can read as a table or a DataFrame"
        ) from error
    # A package that keeps listings would not see what other processes have made. HDFS has no such option.
    options = {"use_listings_cache": False} if package and package != "hdfs_native" else {}
    path = location[len(scheme) + 1 :]
    uri = f"{scheme}:{path if path.startswith('//') else f'//{path}'}"
    with warnings.catch_warnings():
        # The package warns of schemes that it was not tested with.
        warnings.simplefilter("ignore")
        return importlib.import_module("upath").UPath(uri, **options)  # type: ignore[no-any-return]


def local_copy(folder: str, location: str) -> str:
    """Return a file's path for DuckDB; files in a store are copied to ``folder`` once. Raise JobError for damage."""
    if not scheme_of(location):
        return checked_file(location)
    copy = Path(folder, "read", location.partition("://")[2].lstrip("/"))
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        source = place_of(location)
        try:
            source.fs.get_file(source.path, str(copy))  # type: ignore[attr-defined]
        except FileNotFoundError as error:
            raise damaged(location, "is missing") from error
        check_file(copy, whole=True, called=location)
    return str(copy)


def remove_tree(place: Path) -> None:
    """Remove a folder with all its contents, ignoring errors."""
    if is_local(place):
        shutil.rmtree(place, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            place.fs.rm(place.path, recursive=True)  # type: ignore[attr-defined]


def recorded_place(root: Path, folder: str) -> Path:
    """Return the place of a folder as manifests record it: relative to the state if inside."""
    return place_of(folder) if folder.startswith("/") or scheme_of(folder) else root / folder


def files_under(place: Path) -> dict[str, int]:
    """Return the files below a folder, as paths relative to it, with their sizes."""
    if is_local(place):
        files = (path for path in place.rglob("*") if path.is_file())
        return {path.relative_to(place).as_posix(): path.stat().st_size for path in files}
    infos = place.fs.find(place.path, detail=True)  # type: ignore[attr-defined]
    start = len(place.path.rstrip("/")) + 1  # type: ignore[attr-defined]
    return {name[start:]: int(info["size"]) for name, info in infos.items()}


def rows_of_file(path: Path) -> int:
    """Return the number of rows of a Parquet file."""
    import pyarrow.parquet as pq

    with path.open("rb") as file:
        return int(pq.read_metadata(file).num_rows)


def exposed(path: str) -> str:
    """Return a warning if every user of this machine may read a file with secrets; empty otherwise."""
    with contextlib.suppress(OSError):
        if Path(path).stat().st_mode & stat.S_IROTH:
            return (
                f"{path} has secrets, and every user of this machine may read it: run `chmod 600 {shlex.quote(path)}`"
            )
    return ""


def sync(path: Path) -> None:
    """Force a file, or the entries of a folder, to disk with fsync."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_files(folder: Path) -> None:
    """Force the files in a folder and below it to disk, then its entries."""
    for path in sorted(folder.iterdir()):
        (sync_files if path.is_dir() else sync)(path)
    sync(folder)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and force the entry of each to disk before anything is put into it.

    An existing empty folder is included: a killed command may have made it. A folder with contents was either made
    here, so that its entry is on disk, or by somebody else.
    """
    if not is_local(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return
    missing = not folder.is_dir()
    if missing:
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
    else:
        with os.scandir(folder) as entries:
            if any(True for _ in entries):
                return
    try:
        sync(folder.parent)
    except PermissionError:
        # Somebody else made it, in a folder that this user cannot read.
        if missing:
            raise


def register_hadoop_files(scheme: str) -> None:
    """Let universal-pathlib open a scheme with hdfs-native, with three differences: URIs keep their host, names may
    contain ``#`` and ``?``, and closed files are on the disks of the data nodes."""
    fsspec, spec, native = map(importlib.import_module, ("fsspec", "fsspec.spec", "hdfs_native"))
    files, upath, paths = map(importlib.import_module, ("hdfs_native.fsspec", "upath", "upath.registry"))
    if fsspec.get_filesystem_class(scheme).__name__ == "HadoopFiles":
        return

    class HadoopFile(spec.AbstractBufferedFile):  # type: ignore[misc, name-defined]
        """A file that is read ahead, and written in blocks."""

        def _fetch_range(self, start: int, end: int) -> bytes:
            return self.fs.client.read(self.path).read_range(start, end - start)  # type: ignore[no-any-return]

        def _initiate_upload(self) -> None:
            self.stream = self.fs.client.create(self.path, native.WriteOptions(overwrite="x" not in self.mode))

        def _upload_chunk(self, final: bool = False) -> bool:
            self.stream.write(self.buffer.getvalue())
            if final:
                try:
                    self.stream.hsync()
                except RuntimeError as error:
                    if "not supported for erasure-coded files" not in str(error):
                        raise
                self.stream.close()
            return True

    class HadoopFiles(files.HdfsFileSystem):  # type: ignore[misc, name-defined]
        """One of Hadoop's file systems."""

        protocol = scheme

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return re.sub(r"^\w+://[^/]*", "", path).rstrip("/") or "/"

        @staticmethod
        def _get_kwargs_from_urls(path: str) -> dict[str, str]:
            return {"host": path.partition("://")[2].partition("/")[0]}

        def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            options.pop("autocommit", None)
            return HadoopFile(self, path, mode, **options)

    class HadoopPath(upath.UPath):  # type: ignore[misc, name-defined]
        """A path with the host in its URI."""

        def __reduce__(self) -> Any:
            return place_of, (str(self),)

        def __str__(self) -> str:
            return re.sub(rf"^{scheme}://(?=/)", f"{scheme}://{self.storage_options['host']}", super().__str__())

    fsspec.register_implementation(scheme, HadoopFiles, clobber=True)
    paths.register_implementation(scheme, HadoopPath, clobber=True)


def write_exclusively(path: Path, text: str) -> bool:
    """Put a whole file in place in one atomic step; return False if a file of this name exists already."""
    if STORE_PACKAGES.get(scheme_of(str(path))) == "hdfs_native":
        return rename_exclusively(path, text)
    if not is_local(path):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            # The store may have created it although its reply was lost.
            return path.read_text("utf-8") == text
        return True
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    created = True
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            # A network file system may have made the link although its reply was lost.
            created = temporary.exists() and temporary.stat().st_nlink > 1
        except FileNotFoundError:
            # The temporary file is gone, which only a later commit removes.
            created = False
        except OSError as error:
            if error.errno in DISK_FAILURES:
                raise
            # Without hard links, the file system can still create exclusively.
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
            except FileExistsError:
                created = False
            except BaseException:
                path.unlink(missing_ok=True)
                raise
    finally:
        # A leftover is removed after a later commit.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    # Even if the file existed: its writer may have been killed before this.
    sync(path.parent)
    return created


def rename_exclusively(path: Path, text: str) -> bool:
    """Put a file in place in one of Hadoop's file systems, where a created file is visible before it is written."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_text(text, "utf-8")
        try:
            path.fs.mv(temporary.path, path.path)  # type: ignore[attr-defined]
        except (FileExistsError, FileNotFoundError):
            # It may have been renamed although the reply was lost; if not, and it is gone, a later commit removed it.
            return path.exists() and path.read_text("utf-8") == text
    finally:
        # A leftover is removed after a later commit.
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
    return True


def files_of_buckets(folder: Path) -> dict[int, list[Path]]:
    """Return the Parquet files that an engine has written below ``folder``, by their buckets."""
    files: dict[int, list[Path]] = {}
    for path in sorted(folder.glob("_bucket=*/*.parquet")):
        files.setdefault(int(path.parent.name.removeprefix("_bucket=")), []).append(path)
    return files
