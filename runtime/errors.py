"""Errors that users can fix, and the removal of keys (credentials) from messages."""

from __future__ import annotations

import errno
import re
import traceback
from pathlib import Path

KEYS_BEFORE_HOST = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]+):/{1,2}((?:(?!://)[^\s'\"<>@])*(?:@[^\s'\"<>@/]*)*)@")

KEYS_IN_QUERY = re.compile(
    r"([?&;][^\s=&?;'\"]*(?:key|secret|token|sig|passw|pwd|credential|auth)[^\s=&?;'\"]*=)[^\s&;'\"<>]+", re.IGNORECASE
)

NAMES_BEFORE_HOST = ("abfs", "abfss", "wasb", "wasbs", "hdfs", "viewfs")
"""Schemes with a container or a user before the @, which is not a secret."""

KEYS_SEEN: set[str] = set()
"""What preceded the host in locations given to this process: libraries quote it without the scheme."""


def key_before_host(scheme: str, user: str) -> bool:
    """Return whether the text between :// and @ in a URI contains a key, rather than being a path with an @ in it."""
    name, colon, secret = user.partition(":")
    if "/" in name or scheme.lower() == "file":
        return False
    if not colon:
        return scheme.lower() not in NAMES_BEFORE_HOST
    return not re.match(r"[0-9]{1,5}/", secret) or scheme.lower().startswith("s3")


def remember_keys(location: str) -> None:
    """Hide the keys in a location from now on, wherever messages quote them."""
    for scheme, user in KEYS_BEFORE_HOST.findall(location):
        if key_before_host(scheme, user):
            # Shorter keys may occur in any message by chance.
            KEYS_SEEN.update(key for key in (user, user.partition(":")[2]) if len(key) > 5)


def without_keys(text: str) -> str:
    """Return a text with *** for the keys in its URIs: those before the host, and values of query parameters whose
    names contain key, secret, token, sig, passw, pwd, credential or auth."""

    def hide(found: re.Match[str]) -> str:
        return f"{found[1]}://***@" if key_before_host(found[1], found[2]) else found[0]

    text = KEYS_IN_QUERY.sub(r"\1***", KEYS_BEFORE_HOST.sub(hide, text))
    for key in sorted(KEYS_SEEN, key=len, reverse=True):
        text = text.replace(key, "***")
    return text


class JobError(Exception):
    """An error that the user can fix: printed as one message, without a traceback and without the keys in URIs."""

    def __init__(self, message: str) -> None:
        """Store the message without its keys."""
        super().__init__(without_keys(message))


class Refused(JobError):
    """Rows were refused and will be refused again unless they change. ``plain`` is the message without advice that is
    meant for callers of ``apply``. ``about`` has the table and the values of a row, for callers that know where it
    comes from."""

    def __init__(self, message: str, plain: str = "", about: tuple[str, str] | None = None) -> None:
        """Store both messages without their keys."""
        super().__init__(message)
        self.plain = without_keys(plain) or str(self)
        self.about = about


class Passing(JobError):
    """An obstacle outside the job that may disappear soon, such as a full disk or a commit by another job."""


class NothingDiffers(Exception):
    """A batch that is none: feeds that do not tell versions have the rows that the state has."""


class OutOfMemory(Passing):
    """A task that needed more memory than it may use."""


# Failures of the disk, the system and Spark

FULL_DISK = re.compile(
    r"no space left on device|disk quota exceeded|file too large|max_temp_directory_size", re.IGNORECASE
)


def full_disk(error: BaseException | None, place: str = "") -> str:
    """Return the message for an error that a full disk caused, else an empty string. Errors of Spark, DuckDB and
    PyArrow, in a task or not, share only the text of the operating system that they quote. ``place`` is where the
    caller was writing, for errors that name no path."""
    while error is not None:
        text = str(error)
        found = FULL_DISK.search(text)
        if "max_temp_directory_size" in text:
            return "no space left on device while writing what does not fit into memory"
        if found:
            named = re.search(r"['\"](/[^'\"\\\n]+)", text)
            place = named[1] if named else place
            return f"{found[0].lower()}{f' while writing {place}' if place else ''}"
        error = error.__cause__ or error.__context__
    return ""


def reason(error: Exception) -> str:
    """Return the one relevant line of an error of Spark's or Hadoop's, which may be of any class."""
    # hdfs-native quotes some of Java's traces.
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).replace(r"\n\tat ", "\n")
    lines = text.splitlines() or [type(error).__name__]
    nested = [line.strip(" \u21b3") for line in lines if line.lstrip().startswith("\u21b3")]
    if nested:
        # Errors of deltalake: what failed stands first, and why last.
        lines = [f"{lines[0].strip()}: {nested[-1]}"]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception)\b", line)]
    if "Python worker" in lines[0] and raised:
        where = " where Spark runs the tasks, with the interpreter that PYSPARK_PYTHON names"
        lines = [raised[-1] + (where if raised[-1].startswith("ModuleNotFoundError") else "")]
    return full_disk(error) or next((line[2:] for line in lines if line.startswith(": ")), lines[0])


DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Error numbers of a failing disk. A hard link that fails with any other may not be supported by the file system."""


def failure(error: Exception) -> str:
    """Return the message for an error of the operating system, of Spark or of HDFS, which is no bug; empty for any
    other error."""
    # The error of a lost connection to the JVM does not name it, but its traceback goes through Py4J.
    called = {part for place in traceback.extract_tb(error.__traceback__) for part in Path(place.filename).parts}
    if isinstance(error, OSError) and "py4j" in called:
        return f"Spark failed: its JVM no longer responds ({error})"
    if "hdfs_native" in called and isinstance(error, OSError | RuntimeError):
        return f"HDFS failed: {reason(error)}"
    if isinstance(error, OSError):
        return str(error)
    if is_of_spark(error) or type(error).__module__ == "py4j.protocol":
        return f"Spark failed: {reason(error)}"
    return ""


def is_of_spark(error: BaseException) -> bool:
    """Return whether an error is one of PySpark's, without importing PySpark."""
    return any(kind.__module__.startswith("pyspark.errors") for kind in type(error).__mro__)
