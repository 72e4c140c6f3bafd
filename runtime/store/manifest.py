"""Manifests: a JSON file per commit that lists all that the commit consists of, with a checksum."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from ..kernel.errors import JobError
from ..kernel.values import shown
from ..system.places import bare_location, is_local, scheme_of, without_scheme
from .published_names import is_location
from .sealed_records import check_seal, from_json, record_in

STATE_FORMAT = 3

BATCHES_INLINE = 1000

COMMITS_KEPT = 10
"""The number of commits that a state keeps by default: the last one, and those before it."""

PUBLISHED = "published"

ATTEMPT = re.compile(r"[0-9]{12}-[0-9a-f]{8}")

SEGMENT = re.compile(r"manifest/batches-[0-9]{12}\.json")

NUMBER = re.compile(r"(?:-?[0-9]{1,39})?")

KEEP = re.compile(r"(?:|[2-9]|[1-9][0-9]{1,8}|[1-9][0-9]{0,5}[dhm])")
"""Matches the time for which commits are kept: a number of commits, or of days, hours or minutes; empty for
COMMITS_KEPT."""


def parsed_moment(text: str) -> datetime:
    """Return the time of a commit; raise ValueError if it is none."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


COMMIT_TIME = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}(\.[0-9]{3})?Z")


def is_moment(text: str) -> bool:
    """Return whether a text is a time in UTC, as commits record it, or empty."""
    try:
        return not text or (COMMIT_TIME.fullmatch(text) is not None and bool(parsed_moment(text)))
    except ValueError:
        return False


def is_natural(value: int) -> bool:
    """Return whether a number is not negative."""
    return value >= 0


def is_data_file(name: str) -> bool:
    """Return whether a name is the path of a data file, relative to the state."""
    return name.startswith("data/") and inside(name)


def inside(path: str) -> bool:
    """Return whether a path is relative and stays below the folder that it is relative to."""
    return not {"", ".", ".."}.intersection(path.split("/")) and "\0" not in path


PUBLISHED_FOLDER = re.compile(r"(?:.*/)?changes/batch=[^/]+", re.DOTALL)
"""The end of every folder that changes are published in: what is in one may be replaced."""

SQL_NAME = re.compile(r"[^\W\d]\w{0,199}")

COPIES = "copies"
"""The type of the column with the numbers of copies, in the record of a multiset."""

SqlName = Annotated[str, SQL_NAME.fullmatch]
"""The name of a table or a column in SQL, which is also that of a folder."""

TypeName = Annotated[str, re.compile(r"[a-z][a-z0-9<>(),?]*").fullmatch]
"""The type of a column."""

Natural = Annotated[int, is_natural]
Moment = Annotated[str, is_moment]

AS_OF = re.compile(r"(?:(?!0000)\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6})?", re.ASCII)
"""Matches the time of a batch, or nothing."""


StateFile = Annotated[str, is_data_file]


@dataclass(frozen=True)
class StoredBucket:
    """The files of a bucket of a relation: base files, files of changes in the order of their commits, with the numbers
    of rows of each, and the number of tuples."""

    base: tuple[StateFile, ...]
    changes: tuple[StateFile, ...]
    change_rows: tuple[Natural, ...]
    base_rows: Natural
    rows: Natural

    @property
    def files(self) -> tuple[str, ...]:
        """All files of the bucket."""
        return (*self.base, *self.changes)


@dataclass(frozen=True)
class StoredRelation:
    """The number of tuples of a relation, and its buckets by number; empty ones may be missing."""

    rows: Natural = 0
    buckets: Mapping[int, StoredBucket] = field(default_factory=dict)


@dataclass(frozen=True)
class RelationRecord:
    """A relation as a manifest records it, with the types of its columns and a hash of its rules."""

    name: str
    kind: str
    columns: tuple[tuple[str, TypeName], ...]
    definition: str


@dataclass(frozen=True)
class ProgramRecord:
    """The program that wrote a state, as a manifest records it to tell later whether the state still matches it. Its
    relations are by table; ``hidden`` are the tables that users do not see."""

    name: str
    sha256: str
    compiler: str
    relations: Mapping[SqlName, RelationRecord]
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Publication:
    """The files with the net changes of a relation, the folder to publish them in, relative to the state if inside, and
    the published names of their columns. The folder has a subfolder for each value of the column ``by``, if it is
    given, or all is in the subfolder ``place``, that of a location."""

    relation: str
    folder: str
    files: tuple[StateFile, ...]
    columns: Mapping[str, str]
    by: str = ""
    place: str = ""


@dataclass(frozen=True)
class FeedRecord:
    """The feed of an input relation: its ``source``, such as ``delta:/lake/link``, the names of the relation's columns
    in it where they differ, and the condition that its rows must meet (empty: none). Then how far it was read: the
    identity of its table, the position there (empty if it was never read), and a hash of the columns that were read.
    ``marks`` tell what was read from anything else at the same position, such as other commits with the same numbers
    (empty if it was read before there were marks), and ``rows`` is how many rows the table had, -1 if that is
    unknown. With a condition, which may read any column, ``types`` has a hash of the type of each."""

    source: str
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str = ""
    table: str = ""
    position: Mapping[str, Any] = field(default_factory=dict)
    schema: str = ""
    marks: Mapping[str, Any] = field(default_factory=dict)
    rows: int = -1
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def unread(self) -> FeedRecord:
        """The record of the same feed as if it was never read."""
        return FeedRecord(self.source, self.columns, self.where)


def fed_elsewhere(name: str, source: str) -> JobError:
    """Return the error for rows that are given for an input relation that has a feed."""
    return JobError(f"{name} is fed by {source}: change its rows there, or `connect --remove {name}` first")


@dataclass(frozen=True)
class OutputRecord:
    """The table that an output relation is kept as: its ``folder``, the attempt whose tuples it should have ``before``
    a commit is published (empty if only a comparison tells the changes), the one ``after`` it, and whether the table is
    ``known`` to be this state's."""

    folder: str
    before: str
    after: str
    known: bool


@dataclass(frozen=True)
class Home:
    """The location of a state: its place (empty if unknown) and, on a disk, the numbers of its folders (inodes), which
    stay when it is moved there, and are others in a copy."""

    place: str = ""
    inodes: tuple[Natural, ...] = ()

    def is_that_of(self, root: Path) -> bool:
        """Return whether a state is the one with this home, and no copy of it, as far as that can be told."""
        now = home_at(root)
        return now.place == self.place or bool(self.inodes and now.inodes == self.inodes)


def home_at(root: Path) -> Home:
    """Return where a state lies now."""
    folders = (root, root / "manifest", root / "data")
    local = is_local(root) and all(folder.is_dir() for folder in folders)
    return Home(bare_location(str(root)), tuple(folder.stat().st_ino for folder in folders) if local else ())


@dataclass(frozen=True)
class OutputTables:
    """The tables that output relations are kept as, by relation: their ``place``, such as ``delta:/lake/views`` (empty:
    there are none), a number that marks what this state writes there, and the ``home`` of the state when they were
    connected."""

    place: str
    writer: Natural
    relations: Mapping[str, OutputRecord]
    home: Home = Home()

    def belong_to(self, root: Path) -> bool:
        """Return whether it was this state that the tables were connected to, not one that it is a copy of."""
        return not self.place or self.home.is_that_of(root)

    def unknown(self, attempt: str) -> OutputTables:
        """Return the record of tables that are to be compared with the commit that an ``attempt`` makes."""
        relations = {name: replace(item, before="", after=attempt) for name, item in self.relations.items()}
        return replace(self, relations=relations)


@dataclass(frozen=True)
class SetAside:
    """How many rows of a relation a commit has set aside, and the folder that the file with them is in, relative to the
    state if inside."""

    rows: Natural
    folder: str


@dataclass(frozen=True)
class SequenceRecord:
    """Tells that a relation keeps the sequence of each key, by an order ``column``, in a ``table`` of its own. The
    columns of its ``key`` have names, types and SQL names. Sequences of dead keys before ``pruned``, a number as text,
    are not kept."""

    column: str
    table: SqlName
    key: tuple[tuple[str, TypeName, SqlName], ...]
    pruned: Annotated[str, NUMBER.fullmatch] = ""


STREAM = "stream:"
"""The beginning of the source of a relation that a streaming query changes; the ID of the query follows."""

NO_TABLES = OutputTables("", 0, {})
"""The record of a state whose relations are in no tables."""


@dataclass(frozen=True)
class Manifest:
    """A commit. Of the batches, the last ones are listed with the attempts that committed them (empty if unknown);
    ``generated`` are those whose ID the job has made up, ``older_batches`` files that list the others. Of each stratum,
    ``clocks`` and ``effects`` have a value for each bucket. Of each table, ``changes`` has the files of net changes,
    ``counts`` the numbers of tuples inserted and deleted. ``feeds`` has the feeds of input relations by name: this
    commit covers all that they had up to their positions. ``tables`` are those that output relations are kept as.

    ``command`` made the commit in ``seconds``, at a ``time`` in UTC that is not before that of an earlier
    commit, unless that was said to be wrong. ``keep`` says how long commits are kept, ``kept_from`` which is the oldest
    one that is. Of the commits that are kept, ``jumps`` are those that do not continue the one before them;
    ``restores`` is the commit whose state this
    one has again. ``undone`` are batches, each with the attempt that committed it, that were rolled back. ``left_out``
    has the number of rows that the commit has left out of each input relation, by its name, ``set_aside`` tells of
    those that it has set aside, and ``late`` has the number of those that it has ignored. ``sequences`` tells which
    relations keep the sequences of their keys. ``as_of`` is the time of the batch, if the program reads it."""

    format: Natural
    commit: Natural
    attempt: Annotated[str, ATTEMPT.fullmatch]
    program: ProgramRecord
    buckets: Natural
    batch: str
    batches: tuple[str, ...]
    attempts: tuple[str, ...]
    generated: tuple[str, ...]
    older_batches: tuple[Annotated[str, SEGMENT.fullmatch], ...]
    relations: Mapping[SqlName, StoredRelation]
    clocks: Mapping[str, Mapping[int, Natural]]
    changes: Mapping[SqlName, tuple[StateFile, ...]]
    counts: Mapping[SqlName, tuple[Natural, Natural]]
    publish: tuple[Publication, ...]
    steps: tuple[Mapping[str, Any], ...]
    functions: Mapping[str, str] = field(default_factory=dict)
    effects: Mapping[str, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    feeds: Mapping[str, FeedRecord] = field(default_factory=dict)
    tables: OutputTables = NO_TABLES
    command: str = ""
    time: Moment = ""
    seconds: float = 0.0
    keep: Annotated[str, KEEP.fullmatch] = ""
    kept_from: Natural = 0
    jumps: tuple[Natural, ...] = ()
    restores: Natural = 0
    undone: tuple[tuple[str, Annotated[str, ATTEMPT.fullmatch]], ...] = ()
    left_out: Mapping[str, Natural] = field(default_factory=dict)
    set_aside: Mapping[str, SetAside] = field(default_factory=dict)
    sequences: Mapping[str, SequenceRecord] = field(default_factory=dict)
    late: Mapping[str, Natural] = field(default_factory=dict)
    origin: str = ""
    as_of: Annotated[str, AS_OF.fullmatch] = ""


# Manifests


def manifest_path(root: Path, commit: int) -> Path:
    """Return the path of the manifest of a commit."""
    return root / "manifest" / f"{commit:012d}.json"


def is_stream(record: FeedRecord) -> bool:
    """Return whether a feed is a streaming query, which brings its changes itself."""
    return record.source.startswith(STREAM)


def connected_files(root: Path) -> list[Path]:
    """Return the records of the feeds that were connected before the first commit, the last one at the end."""
    folder = root / "manifest"
    return sorted(folder.glob("feeds-[0-9]*.json")) if folder.is_dir() else []


def commit_numbers(root: Path) -> list[int]:
    """Return the numbers of the commits whose manifests still exist, in ascending order."""
    folder = root / "manifest"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name[:12]) for name in names if re.fullmatch(r"[0-9]{12}\.json", name))


def read_manifest(root: Path, commit: int | None = None) -> Manifest | None:
    """Return the manifest of a commit (default: the last), or None. Raise JobError if it is damaged."""
    while True:
        numbers = commit_numbers(root)
        if not numbers or commit not in (None, *numbers):
            return None
        number = numbers[-1] if commit is None else commit
        path = manifest_path(root, number)
        try:
            return load_manifest(root, number)
        except FileNotFoundError:
            # A later commit has removed it meanwhile; if there is none, it is an error.
            if commit_numbers(root) == numbers:
                raise
        except ValueError as error:
            raise JobError(damaged_manifest(path, numbers[: numbers.index(number)], error)) from error


def load_manifest(root: Path, commit: int) -> Manifest:
    """Return the manifest of a commit. Raise ValueError if it is damaged or that of another commit, JobError if it has
    another format."""
    path = manifest_path(root, commit)
    return manifest_in(content_of(path), commit, str(path))


def manifest_in(data: bytes, commit: int, called: str) -> Manifest:
    """Return the manifest of a commit that a file contains, which is ``called`` so in messages."""
    record = record_in(data)
    version = record.get("format")
    if type(version) is int and version != STATE_FORMAT:
        advice = "use a job of a later release" if version > STATE_FORMAT else "build the state again in another folder"
        raise JobError(f"{called} has format {version}, and this job reads format {STATE_FORMAT}: {advice}")
    check_seal(data)
    manifest: Manifest = from_json(Manifest, record)
    check_manifest(manifest, commit)
    return manifest


def content_of(path: Path) -> bytes:
    """Return the bytes of a record of the state; raise ValueError if something other than a file is in its place."""
    if is_local(path) and not path.is_file() and (path.exists() or path.is_symlink()):
        raise ValueError("it is a folder" if path.is_dir() else "it is not a file")
    return path.read_bytes()


def damaged_manifest(path: Path, before: Sequence[int], error: ValueError) -> str:
    """Return the message for a damaged manifest; commits ``before`` it have manifests too."""
    number = int(path.stem)
    if not before:
        return f"{path} is damaged ({error}), and there is no earlier commit: build the state again in another folder"
    if before[-1] < number - 1:
        return f"{path} is not a manifest of this state ({error}), whose last commit is {before[-1]}: remove that file"
    return f"{path} is damaged ({error}); `recover` returns to commit {number - 1}"


def check_manifest(manifest: Manifest, commit: int) -> None:
    """Raise ValueError if a manifest is not that of this commit, or contradicts itself."""
    if manifest.commit != commit or commit_of(manifest.attempt) != commit:
        raise ValueError(f"it belongs to commit {manifest.commit}")
    if manifest.batches[-1:] != (manifest.batch,):
        raise ValueError(f"its batch is {shown(manifest.batch)}, not the last one in its list")
    if manifest.kept_from > commit:
        raise ValueError(f"the oldest commit that is kept cannot be {manifest.kept_from}")
    if len(manifest.attempts) != len(manifest.batches):
        raise ValueError("its lists of batches and of attempts differ in length")
    for table, stored in manifest.relations.items():
        if stored.rows != sum(bucket.rows for bucket in stored.buckets.values()):
            raise ValueError(f"the number of rows of {table} is not that of its buckets")
        if any(number >= manifest.buckets for number in stored.buckets):
            raise ValueError(f"{table} has more than {manifest.buckets} buckets")
    for table, record in manifest.program.relations.items():
        name, kind = record.columns[-1] if record.columns else ("", "")
        if kind == COPIES and not SQL_NAME.fullmatch(name):
            raise ValueError(f"{table} cannot count copies in the column {shown(name)}")
    for publication in manifest.publish:
        folder = publication.folder
        outside = folder.startswith("/") or scheme_of(folder)
        if not (outside or inside(folder)) or not PUBLISHED_FOLDER.fullmatch(folder):
            raise ValueError(f"{shown(folder)} is not a folder to publish to")
        if publication.by and publication.by not in publication.columns:
            raise ValueError(f"{shown(publication.by)} is not a published column")
        if publication.place and ("/" in publication.place or not is_location(publication.place)):
            raise ValueError(f"{shown(publication.place)} is not the folder of a location")


def relative_folder(root: Path, folder: str) -> str:
    """Return a folder as manifests record it: relative to the state if inside, and without keys."""
    relative = folder.removeprefix(str(root).rstrip("/") + "/")
    if relative != folder and not scheme_of(relative):
        return relative
    return folder if without_scheme(folder) else bare_location(folder)


def commit_of(attempt: str) -> int:
    """Return the commit number in the name of an attempt."""
    return int(attempt.partition("-")[0])


def attempt_name(commit: int) -> str:
    """Return a new name for an attempt at a commit, which is also that of its folder in ``data``."""
    return f"{commit:012d}-{uuid.uuid4().hex[:8]}"


def attempt_id(attempt: str) -> str:
    """Return the part of an attempt's name that differs between attempts at the same commit."""
    return attempt.partition("-")[2]


# Publication


def read_state(root: Path) -> Manifest:
    """Return the last commit of a state; raise JobError if there is none."""
    manifest = read_manifest(root)
    if manifest is None:
        raise JobError(f"there is no state in {root}; create one with `init`")
    return manifest
