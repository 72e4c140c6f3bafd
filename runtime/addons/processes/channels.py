"""Channels between processes, as files in a folder that all of them can access.

A process has incarnations, each an exclusively created file, and a lease that it renews while it runs. A channel
has the sessions of its reader and the messages in transit. A message file gets its name by an atomic rename once it
is complete, and its reader deletes it after everything that follows from it was sent on, so messages are delivered
at least once, in any order.

Every file carries a mark, computed from its content, its place and the secret that the processes share, if any.
Files that have a wrong mark or do not belong in the folder are ignored, with one warning each.

The folder may be unavailable for a moment or restored from a copy, so that numbers fall and are taken again. Each
number therefore has a nonce, and only both together identify the owner of a message. Within a session, lives
are ordered by their numbers.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import re
import stat
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...kernel.errors import JobError, Passing
from ...system.log import Log
from ...system.places import make_folder, sync, write_exclusively
from .partition import Partition, Pattern

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER_FILE = re.compile(r"[0-9]{6,18}")
MESSAGE_FILE = re.compile(
    r"([0-9]{6,18})-([0-9a-f]{16})-([0-9]{6,18})-([0-9a-f]{16})-([0-9]{6,18})-([0-9]{9,18})-(snapshot|changes)-"
    r"(complete|partial)\.([0-9a-f]{64})\.parquet"
)
"""The names of number files and of message files."""

TEMPORARY_FILE = re.compile(r"\..+\.[0-9a-f]{8,32}")
"""The name of a temporary file, which is still being written."""

UNREADABLE = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENOTDIR, errno.EINVAL)
"""Errors that are due to the file itself, not to the state of the system: retrying does not help."""

CUT_OFF = (
    *UNREADABLE,
    errno.ENOENT,
    errno.EEXIST,
    errno.EIO,
    errno.ESTALE,
    errno.ENODEV,
    errno.ENOTCONN,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
)
"""Errors that may concern a single channel. The channel is considered cut; the process goes on with the others."""

LEASE_FILE = "lease.json"
"""The name of the lease of a channel, beside its messages."""

SHORTEST_SECRET = 16


@dataclass(frozen=True)
class Channel:
    """A relation's channel from the process ``sender`` to the process ``reader``. The sender calls the relation
    ``output``, the reader ``input``; its columns are sent under the sender's names, ``columns``. The sender has
    caught up on the channel when everything has arrived for its inputs ``needs``, from which it derives the relation.
    The relation may say which base facts of the sender are ``dead``. To a ``node``, only tuples with its addresses in
    column number ``location`` are sent. If there are ``patterns``, only tuples that fit one of them are sent, since the
    reader can use no others.
    """

    relation: str
    sender: str
    reader: str
    output: str
    input: str
    columns: tuple[str, ...]
    needs: tuple[str, ...] = ()
    dead: bool = False
    location: int = -1
    node: int = -1
    patterns: tuple[Pattern, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the channel in stored files and in logs."""
        return f"{self.relation}--{self.reader}"


@dataclass(frozen=True)
class Process:
    """A process: the channels that it ``receives`` from and ``sends`` to, and its relations ``fed`` from outside. If it
    is part of a recursion with live proofs, its input ``lives`` says which processes are there. Nodes of a located
    program divide the addresses by their ``partition``; some of them receive the inputs that are ``carried``."""

    name: str
    receives: tuple[Channel, ...]
    sends: tuple[Channel, ...]
    fed: tuple[str, ...]
    lives: str = ""
    partition: Partition | None = None
    carried: tuple[str, ...] = ()

    @property
    def received(self) -> tuple[str, ...]:
        """Return the inputs whose rows come through channels, or are lives."""
        inputs = [*(channel.input for channel in self.receives), *self.carried, *[self.lives] * bool(self.lives)]
        return tuple(sorted({*inputs}))


class Number(NamedTuple):
    """The number of an incarnation or a session, and the random ``nonce`` of its owner; together they are unique."""

    number: int
    nonce: str

    def __str__(self) -> str:
        """Return the number as a part of file names."""
        return f"{self.number:06d}-{self.nonce}"


NO_NUMBER = Number(0, "")
"""Stands for a missing number."""


class Life(NamedTuple):
    """The identity of a stream of messages on a channel: an ``incarnation`` of the sender sends it for a ``session``
    of the reader, and ``beginning`` counts the streams that the incarnation has started on the channel. The sender
    starts a new stream for each session that it finds. Within a session, lives lower than the highest one seen are
    void."""

    incarnation: Number
    session: Number
    beginning: int


NO_LIFE = Life(NO_NUMBER, NO_NUMBER, 0)
"""Stands for a missing life."""


class Sent(NamedTuple):
    """How many messages a sender has sent for a session in its current stream there, the one of ``beginning``."""

    session: Number
    beginning: int
    messages: int


class Lease(NamedTuple):
    """The last statement of a process about itself: its incarnation, a counter ``beat`` that it increments while it
    runs, whether it is still running, and what it has ``sent`` on each channel."""

    incarnation: Number
    beat: int
    running: bool
    sent: Mapping[str, Sent]


class Pulse(NamedTuple):
    """The lease of a channel, which takes the way of its messages: the sender's incarnation, a counter ``beat`` that it
    increments while messages on this channel get through, and the reader's latest session that it can see."""

    incarnation: Number
    beat: int
    session: Number


class Message(NamedTuple):
    """A transaction in transit: the parts of its :class:`Life`, and its sequence number in that life, from 1. The
    first message is a ``snapshot`` of the relation, the others are ``changes``. ``complete`` means that the sender
    has caught up."""

    incarnation: Number
    session: Number
    beginning: int
    sequence: int
    kind: str
    complete: bool

    @property
    def life(self) -> Life:
        """Return the life that the message belongs to."""
        return Life(self.incarnation, self.session, self.beginning)

    @property
    def name(self) -> str:
        """Return the name of the message's file, up to the mark."""
        state = "complete" if self.complete else "partial"
        return f"{self.incarnation}-{self.session}-{self.beginning:06d}-{self.sequence:09d}-{self.kind}-{state}"


class CutOff(Passing):
    """A single channel does not accept messages."""


def is_cut_off(error: Exception) -> bool:
    """Return whether an error may concern a single channel."""
    return isinstance(error, CutOff) or (isinstance(error, OSError) and error.errno in CUT_OFF)


@dataclass(frozen=True)
class CutOffs:
    """Why nothing gets through on some channels, as far as a process sees it."""

    log: Log
    why: dict[str, str]

    def note(self, channel: Channel, why: str) -> None:
        """Report that nothing gets through on a channel, or with an empty text that it does again."""
        if why == self.why.get(channel.name, ""):
            return
        if why:
            self.why[channel.name] = why
            self.log.event("cut_off", channel=channel.name, why=why)
        else:
            del self.why[channel.name]
            self.log.event("cut_off_over", channel=channel.name)


class UnsoundMessage(Exception):
    """Raised for a message that is unreadable, damaged, or not sent by a process with the same secret."""


class Seal:
    """Computes and checks marks, so that readers detect damage and, with a ``secret``, messages of other senders.

    A mark is an HMAC-SHA256 of the content and of its place: the kind of file, the process or channel, and its
    numbers. It is therefore valid nowhere else.
    """

    def __init__(self, secret: bytes = b"") -> None:
        """Set the secret. Without one anybody can compute marks, which then only detect damage."""
        self._secret = secret

    def mark(self, place: Sequence[object], content: bytes = b"") -> str:
        """Return the mark of a content at a place, in hexadecimal."""
        said = json.dumps(list(place)).encode() + b"\0" + content
        return hmac.new(self._secret, said, hashlib.sha256).hexdigest()

    def accepts(self, mark: object, place: Sequence[object], content: bytes = b"") -> bool:
        """Return whether a mark is the right one for a content at a place, comparing in constant time."""
        right = self.mark(place, content)
        return isinstance(mark, str) and hmac.compare_digest(mark.encode("utf-8", "replace"), right.encode())

    def number_text(self, kind: str, name: str, taken: Number) -> str:
        """Return the text of a number's file: its nonce and its mark."""
        return f"{taken.nonce} {self.mark((kind, name, *taken))}"

    def read_number(self, kind: str, name: str, number: int, text: str) -> Number | None:
        """Return the number whose file has this text; None if the text is malformed or its mark is wrong."""
        nonce, _, mark = text.partition(" ")
        claimed = Number(number, nonce)
        right = re.fullmatch("[0-9a-f]{16}", nonce) and self.accepts(mark, (kind, name, *claimed))
        return claimed if right else None

    def lease_text(self, process: str, lease: Lease) -> bytes:
        """Return a lease and its mark as JSON."""
        return json.dumps([*lease, self.mark(("lease", process, *lease))]).encode()

    def read_lease(self, process: str, text: bytes) -> Lease | None:
        """Return the lease in a text; None if the text is malformed or its mark is wrong."""
        try:
            *said, mark = json.loads(text)
            if not self.accepts(mark, ("lease", process, *said)):
                return None
            incarnation, beat, running, sent = said
            sent_on = {name: Sent(Number(*s), int(b), int(m)) for name, (s, b, m) in sent.items()}
            return Lease(Number(*incarnation), int(beat), bool(running), sent_on)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return None

    def pulse_text(self, channel: Channel, pulse: Pulse) -> bytes:
        """Return the lease of a channel and its mark as JSON."""
        return json.dumps([*pulse, self.mark(("pulse", channel.name, channel.sender, *pulse))]).encode()

    def read_pulse(self, channel: Channel, text: bytes) -> Pulse | None:
        """Return the lease of a channel in a text; None if the text is malformed or its mark is wrong."""
        try:
            incarnation, beat, session, mark = json.loads(text)
            right = self.accepts(mark, ("pulse", channel.name, channel.sender, incarnation, beat, session))
            numbers = (Number(int(number), str(nonce)) for number, nonce in (incarnation, session))
            return Pulse(next(numbers), int(beat), next(numbers)) if right else None
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
            return None

    def message_file(self, channel: Channel, message: Message, content: bytes) -> str:
        """Return the name of a message's file, including the mark."""
        mark = self.mark(("message", channel.name, channel.sender, message.name), content)
        return f"{message.name}.{mark}.parquet"

    def read_message(self, channel: Channel, message: Message, file: str, content: bytes) -> pa.Table:
        """Return the rows in a message's file. Raise :class:`UnsoundMessage` if the mark or the format is wrong."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        mark = file.split(".")[-2]
        if not self.accepts(mark, ("message", channel.name, channel.sender, message.name), content):
            who = " or was not sent with the secret of this process" if self._secret else ""
            raise UnsoundMessage(f"{file} of {channel.name} is damaged{who}")
        try:
            return pq.read_table(pa.BufferReader(content))
        except (pa.ArrowException, OSError) as error:
            raise UnsoundMessage(f"{file} of {channel.name} is not a table: {error}") from error


class DirectoryChannels:
    """Channels in a folder."""

    def __init__(self, root: Path, seal: Seal | None = None, warn: Callable[[str], None] = lambda _: None) -> None:
        """Create the folder ``root`` if it is missing; ``warn`` is called for each ignored file."""
        self.root, self.seal, self.warn = root, seal or Seal(), warn
        self.files: dict[str, dict[Message, list[str]]] = {}
        #: What number files had when they were last read: if access to one is refused now, that is not permanent.
        self.accepted: dict[Path, tuple[bytes, Number]] = {}
        self.folders: dict[str, Path] = {}
        make_folder(root)

    def look(self) -> None:
        """Do nothing: files are looked up on demand."""

    def glance(self) -> DirectoryChannels:
        """Return the source of sessions and incarnations for the thread that renews leases: these files."""
        return self

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def take_incarnation(self, process: str) -> Number:
        """Take an incarnation number that no other run of the process has, higher than all that are visible."""
        return self._take("incarnation", process, self._incarnations(process))

    def last_incarnation(self, process: str) -> Number:
        """Return the latest incarnation that is visible now."""
        return self._last("incarnation", process, self._incarnations(process))

    def renew(self, process: str, lease: Lease) -> None:
        """Write the lease of a process, which says that it runs or that it ends."""
        # Do not create the folder: if it is missing for a moment, a new one would block its return.
        write_whole(self._lease(process), self.seal.lease_text(process, lease), forced=False)

    def lease(self, process: str) -> Lease | None:
        """Return the last lease of a process; None if there is none or it cannot be read."""
        path = self._lease(process)
        text = self._content(path)
        lease = self.seal.read_lease(process, text) if text is not None else None
        if text is not None and lease is None:
            self._aside(path, "is not a lease with a valid mark")
        return lease

    def renew_channel(self, channel: Channel, pulse: Pulse) -> None:
        """Write the lease of a channel as its sender. Raise OSError if messages could not be written either."""
        path = self._folder(channel) / "messages" / LEASE_FILE
        write_whole(path, self.seal.pulse_text(channel, pulse), forced=False)

    def pulse(self, channel: Channel) -> Pulse | None:
        """Return the last lease of a channel; None if there is none or it cannot be read."""
        path = self._folder(channel) / "messages" / LEASE_FILE
        text = self._content(path)
        pulse = self.seal.read_pulse(channel, text) if text is not None else None
        if text is not None and pulse is None:
            self._aside(path, "is not a lease with a valid mark")
        return pulse

    def open_session(self, channel: Channel) -> Number:
        """Start a new session as the reader of a channel: the sender answers with a snapshot; delete older messages."""
        make_folder(self._folder(channel) / "messages")
        session = self._take("session", channel.name, self._folder(channel) / "sessions")
        for message in self.waiting(channel):
            if message.session != session and message.session.number <= session.number:
                try:
                    self.done(channel, message)
                except OSError as error:
                    self.warn(f"{error}; it is no longer needed and can be removed")
        return session

    def session(self, channel: Channel) -> Number:
        """Return the reader's latest session that is visible now."""
        return self._last("session", channel.name, self._folder(channel) / "sessions")

    def send(self, channel: Channel, message: Message, rows: pa.Table) -> None:
        """Send a message: rows with ``_op`` (1 or -1), then the columns of the relation."""
        content = table_bytes(rows)
        name = self.seal.message_file(channel, message, content)
        folder = self._folder(channel) / "messages"
        if not folder.is_dir():
            # Create no parents: they may be missing for a moment.
            folder.mkdir(exist_ok=True)
            sync(folder.parent)
        write_whole(folder / name, content, forced=True)

    def waiting(self, channel: Channel) -> list[Message]:
        """Return the messages that have arrived, in order."""
        folder = self._folder(channel) / "messages"
        copies: dict[Message, list[str]] = {}
        for name in self._names(folder):
            message = parsed_message(name)
            if message is not None:
                copies.setdefault(message, []).append(name)
            elif name != LEASE_FILE and not TEMPORARY_FILE.fullmatch(name):
                self._aside(folder / name, "is not a message")
        self.files[channel.name] = copies
        return sorted(copies)

    def read(self, channel: Channel, message: Message) -> pa.Table:
        """Return the rows of a waiting message. Raise :class:`UnsoundMessage`, or FileNotFoundError if it is gone."""
        folder = self._folder(channel) / "messages"
        problem: UnsoundMessage | None = None
        for name in self.files[channel.name].get(message, ()):
            try:
                return self.seal.read_message(channel, message, name, read_regular(folder / name))
            except UnsoundMessage as error:
                problem = error
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in (*UNREADABLE, errno.EIO):
                    raise
                problem = UnsoundMessage(f"{name} of {channel.name} {error.strerror}")
        raise problem or FileNotFoundError(errno.ENOENT, "the message is gone", message.name)

    def done(self, channel: Channel, message: Message) -> None:
        """Acknowledge a message by deleting it, once it was processed and everything that follows from it was sent."""
        for name in self.files[channel.name].pop(message, ()):
            (self._folder(channel) / "messages" / name).unlink(missing_ok=True)

    def _folder(self, channel: Channel) -> Path:
        name = channel.name
        if name not in self.folders:
            self.folders[name] = self.root / "channels" / name
        return self.folders[name]

    def _incarnations(self, process: str) -> Path:
        return self.root / "processes" / process / "incarnations"

    def _lease(self, process: str) -> Path:
        return self.root / "processes" / process / "lease.json"

    def _take(self, kind: str, name: str, folder: Path) -> Number:
        """Create the next file in a folder of numbered files, exclusively and with fsync, and return its number."""
        make_folder(folder)
        claimed = Number(self._last(kind, name, folder).number + 1, uuid.uuid4().hex[:16])
        while True:
            text = self.seal.number_text(kind, name, claimed)
            if write_exclusively(folder / f"{claimed.number:06d}", text):
                break
            claimed = claimed._replace(number=claimed.number + 1)
        self.accepted[folder / f"{claimed.number:06d}"] = text.encode(), claimed
        return claimed

    def _last(self, kind: str, name: str, folder: Path) -> Number:
        """Return the highest number in a folder of numbered files with a right mark, or ``NO_NUMBER``."""
        numbers = set()
        for file in self._names(folder):
            if NUMBER_FILE.fullmatch(file) and f"{int(file):06d}" == file:
                numbers.add(int(file))
            elif not TEMPORARY_FILE.fullmatch(file):
                self._aside(folder / file, f"is not one of the {kind}s")
        for number in sorted(numbers, reverse=True):
            path = folder / f"{number:06d}"
            content = self._content(path)
            if content is None:
                continue
            accepted = self.accepted.get(path)
            if accepted is not None and accepted[0] == content:
                return accepted[1]
            claimed = self.seal.read_number(kind, name, number, content.decode("utf-8", "replace"))
            if claimed is not None:
                self.accepted[path] = content, claimed
                return claimed
            self._aside(path, f"has no {kind} with a valid mark")
        return NO_NUMBER

    def _names(self, folder: Path) -> list[str]:
        """Return the sorted names in a folder; none if the folder is missing."""
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208, paths take several times as long
        except FileNotFoundError:
            return []

    def _content(self, path: Path) -> bytes | None:
        """Return the bytes of a file; None if it is missing or can never be read. Raise OSError if that may pass."""
        try:
            return read_regular(path)
        except FileNotFoundError:
            if path.is_symlink():
                self._aside(path, "is a dangling link")
        except OSError as error:
            refused = error.errno in (errno.EACCES, errno.EPERM)
            if error.errno not in UNREADABLE or (refused and path in self.accepted):
                raise
            self._aside(path, f"cannot be read ({error.strerror})")
        return None

    def _aside(self, path: Path, why: str) -> None:
        """Warn of a file that is ignored."""
        self.warn(f"{path_text(path)} {why}; it is ignored")


def parsed_message(name: str) -> Message | None:
    """Return the message that a file name denotes; None if it denotes none."""
    parts = MESSAGE_FILE.fullmatch(name)
    if not parts:
        return None
    incarnation, session = Number(int(parts[1]), parts[2]), Number(int(parts[3]), parts[4])
    numbers = (incarnation, session, int(parts[5]), int(parts[6]))
    message = Message(*numbers, parts[7], parts[8] == "complete")
    return message if name.startswith(f"{message.name}.") else None


def table_bytes(rows: pa.Table) -> bytes:
    """Return rows as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    content = pa.BufferOutputStream()
    pq.write_table(rows, content)
    written: bytes = content.getvalue().to_pybytes()
    return written


def read_regular(path: Path) -> bytes:
    """Return the bytes of a regular file, following links. Raise OSError for pipes and devices, which could block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def read_secret(path: str) -> bytes:
    """Return the secret in a file, without trailing line ends. Raise JobError if it is too short."""
    secret = read_regular(Path(path)).rstrip(b"\r\n")
    if len(secret) < SHORTEST_SECRET:
        raise JobError(
            f"{path}: a secret must have at least {SHORTEST_SECRET} bytes; `openssl rand -hex 32` prints one"
        )
    return secret


def path_text(path: Path) -> str:
    """Return a path for messages, escaped if it is not printable."""
    text = str(path)
    return text if text.isprintable() else ascii(text)


def write_whole(path: Path, content: bytes, forced: bool) -> None:
    """Write a file that others see either complete or not at all. With ``forced``, fsync its content before the
    atomic rename, and its folder after it."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        temporary.write_bytes(content)
        if forced:
            sync(temporary)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if forced:
        sync(path.parent)
