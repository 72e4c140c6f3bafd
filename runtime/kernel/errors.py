"""Errors that users can fix, and the removal of keys (credentials) from messages."""

from __future__ import annotations

import errno
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

KEYS_BEFORE_HOST = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]+):/{1,2}((?:(?!://)[^\s'\"<>@])*(?:@[^\s'\"<>@/]*)*)@")

KEYS_IN_QUERY = re.compile(r"([?&;#])([^\s=&?;#'\"]+)=([^\s&;'\"<>]+)")

SECRET_WORDS = frozenset(
    {"auth", "authorization", "cred", "creds", "pass", "passphrase", "passwd", "password", "pwd", "sas", "sig", "token"}
)
"""Words of a parameter's name that make its value a secret."""

SECRET_NAMES = re.compile(
    r"secret(?!ar)|passw|passphrase|credential|signature|(?:token|pwd)$"
    r"|(?:access|account|api|auth|client|encryption|private|secret|shared|signing|storage|subscription)key(?:id)?$"
)
"""Matches the part of a parameter's name, written without signs between its words, that makes its value a secret. Other
names with these letters, such as ``design``, ``author`` or ``keyspace``, do not."""

NAMES_BEFORE_HOST = ("abfs", "abfss", "wasb", "wasbs", "hdfs", "viewfs")
"""Schemes with a container or a user before the @, which is not a secret."""

KEYS_SEEN: set[str] = set()
"""The texts before the host in the locations given to this process; libraries quote them without the scheme."""


def key_before_host(scheme: str, user: str) -> bool:
    """Return whether the text between :// and @ in a URI contains a key, rather than being a path with an @ in it."""
    name, colon, secret = user.partition(":")
    if "/" in name or scheme.lower() == "file":
        return False
    if not colon:
        return scheme.lower() not in NAMES_BEFORE_HOST
    return not re.match(r"[0-9]{1,5}/", secret) or scheme.lower().startswith("s3")


def is_secret(name: str, before: str) -> bool:
    """Return whether the value of a parameter of a URI is a secret, given its name and the URI before it. A ``key``
    alone is one, but not in a topic's source or where no URI precedes: there it names columns."""
    name = unquote(name)
    words = [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]
    if words == ["key"]:
        return "://" in before and "kafka-debezium:" not in before
    return not SECRET_WORDS.isdisjoint(words) or bool(SECRET_NAMES.search("".join(words)))


def keys_in_query(text: str) -> Iterator[re.Match[str]]:
    """Yield the parameters of URIs in a text whose values are secrets; the third group of a match is the value."""
    for parameter in KEYS_IN_QUERY.finditer(text):
        before = re.split(r"[\s'\"<>]", text[: parameter.start()])[-1]
        if is_secret(parameter[2], before):
            yield parameter


def remember_keys(location: str) -> None:
    """Hide the keys in a location from now on, wherever messages quote them."""
    keys = [parameter[3] for parameter in keys_in_query(location)]
    for scheme, user in KEYS_BEFORE_HOST.findall(location):
        if key_before_host(scheme, user):
            keys += [user, user.partition(":")[2]]
    # Shorter keys may occur in any message by chance.
    KEYS_SEEN.update(key for key in keys if len(key) > 5 and key != "***")


def without_keys(text: str) -> str:
    """Return a text with *** for the keys in its URIs: those before the host, and the values of parameters that are
    secrets by their names."""

    def hide(start: re.Match[str]) -> str:
        return f"{start[1]}://***@" if key_before_host(start[1], start[2]) else start[0]

    text = KEYS_BEFORE_HOST.sub(hide, text)
    for parameter in reversed(list(keys_in_query(text))):
        text = f"{text[: parameter.start(3)]}***{text[parameter.end(3) :]}"
    for key in sorted(KEYS_SEEN, key=len, reverse=True):
        text = text.replace(key, "***")
    return text


class JobError(Exception):
    """An error that the user can fix: printed as one message, without a traceback and without the keys in URIs."""

    def __init__(self, message: str) -> None:
        """Store the message without its keys."""
        super().__init__(without_keys(message))


UNCHANGED = "; the batch was refused and the state is unchanged"
"""Advice for callers of ``apply``, who have a state."""


class Refused(JobError):
    """Rows were refused, and will be refused again unless they change.

    The message consists of the ``fault``, ``advice`` for callers of ``apply``, further lines of ``details``, and advice
    about ``options`` of commands. ``plain`` is the message without any advice, ``without_state`` the message without
    the advice for ``apply``. ``about`` is for callers that know where a faulty row stands: its table, its values, and
    the part of the fault behind the values.
    """

    def __init__(
        self,
        fault: str,
        advice: str = "",
        details: str = "",
        options: str = "",
        about: tuple[str, str, str] | None = None,
    ) -> None:
        """Store the parts of the message without their keys."""
        fault, advice, details, options = map(without_keys, (fault, advice, details, options))
        super().__init__(f"{fault}{advice}{details}{options}")
        self.parts = (fault, advice, details, options, about)
        self.plain = f"{fault}{details}"
        self.without_state = f"{fault}{details}{options}"
        self.about = about

    def at(self, place: str) -> Refused:
        """Return the error with the place of the row behind its values."""
        fault, advice, details, options, about = self.parts
        assert about is not None
        return Refused(f"{fault.removesuffix(about[2])}{place}{about[2]}", advice, details, options, about)


class Passing(JobError):
    """An obstacle outside the job that may disappear soon, such as a full disk or a commit by another job."""


class NothingDiffers(Exception):
    """A batch without changes: feeds that have no versions deliver the rows that the state already has."""


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
        quoted = FULL_DISK.search(text)
        if "max_temp_directory_size" in text:
            return "no space left on device while writing what does not fit into memory"
        if quoted:
            named = re.search(r"['\"](/[^'\"\\\n]+)", text)
            place = named[1] if named else place
            return f"{quoted[0].lower()}{f' while writing {place}' if place else ''}"
        error = error.__cause__ or error.__context__
    return ""


def reason(error: Exception) -> str:
    """Return the one relevant line of an error of Spark or Hadoop, which may be of any class."""
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
    """Return the message for an error of the operating system, of Spark or of HDFS; an empty string for any other
    error, which is a bug."""
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
