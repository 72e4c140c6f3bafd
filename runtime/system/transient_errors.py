"""Errors that may pass, such as those of an unreachable network, and pauses before what they stopped is tried again."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator

from ..kernel.errors import JobError, Passing, is_of_spark, reason
from .log import Log

SURROUNDINGS = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EROFS,
    errno.EIO,
    errno.ESTALE,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EBUSY,
    errno.EINTR,
    errno.ENODEV,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.ENETRESET,
    errno.ENOTCONN,
    errno.EPIPE,
    errno.ECONNABORTED,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
)
"""System errors that do not depend on what was being done."""

CLIENTS = (
    "adlfs",
    "aiohttp",
    "azure",
    "botocore",
    "deltalake",
    "fsspec",
    "gcsfs",
    "google",
    "hdfs_native",
    "httpx",
    "psycopg2",
    "pyarrow",
    "pyiceberg",
    "requests",
    "s3fs",
    "sqlalchemy",
    "sqlite3",
    "thrift",
    "urllib3",
)
"""Packages that talk to stores and catalogs: the texts of their errors tell what failed, and quote no rows."""

UNREACHABLE = (
    "ConnectionError",
    "ConnectTimeoutError",
    "EndpointConnectionError",
    "ReadTimeoutError",
    "ServerError",
    "ServerTimeoutError",
    "ServiceUnavailableError",
    "Timeout",
    "TTransportException",
)
"""The names of their classes for what may be there again soon."""

UNREACHABLE_TEXT = re.compile(
    r"connection (?:refused|reset|aborted|closed|timed out)|timed? ?out\b|broken pipe|error sending request"
    r"|error decoding response body|incomplete message|dns error|could not resolve|temporary failure in name resolution"
    r"|name or service not known|network is unreachable|no route to host|could not connect|failed to establish"
    r"|NETWORK_CONNECTION|SLOW_?DOWN|throttl|too ?many ?requests|request rate|ServiceUnavailable|service unavailable"
    r"|InternalError|internal server error|bad gateway|database is locked|database system is (?:starting up|shutting)"
    r"|\b(?:status|code)\D{0,20}(?:408|429|500|502|503|504)\b",
    re.IGNORECASE,
)

UNREACHABLE_IN_JAVA = re.compile(
    r"java\.net\.(?:Connect|NoRouteToHost|PortUnreachable|Socket|SocketTimeout|UnknownHost)Exception"
    r"|java\.sql\.SQL(?:Transient\w*|Recoverable)Exception|TTransportException|CommunicationsException"
    r"|PSQLException: (?:Connection to \S+ refused|The connection attempt failed|FATAL: the database system is)"
    r"|MetaException\(message:Could not connect|ConnectTimeoutException|Unable to execute HTTP request"
    r"|AWSServiceThrottledException|SlowDown|ServiceUnavailable|Error 429\b|SQLITE_BUSY"
    r"|^(?:\w+\.)*(?:Connection\w*Error|TimeoutError|ConnectTimeout|ReadTimeout): ",
    re.MULTILINE,
)
"""In errors of Spark, which may quote rows: classes of Java, and those of Python in tasks."""

NO_CREDENTIALS = "169.254.169.254"
"""The address at which clients ask for credentials if the machine has none; no answer will come."""


def momentary(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is an obstacle outside the job that may disappear: a network, store
    or catalog that cannot be reached or refuses work for now, or a full disk. Messages of the job may quote rows, so
    only the errors that caused them count."""
    return any(
        isinstance(cause, Passing) or (not isinstance(cause, JobError) and is_obstacle(cause))
        for cause in causes_of(error)
    )


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that led to it, one after the other; to one of the job, only what it names as cause."""
    while error is not None:
        yield error
        error = error.__cause__ or (None if isinstance(error, JobError) else error.__context__)


def is_obstacle(error: BaseException) -> bool:
    """Return whether an error of the system or of a library is an obstacle that may disappear."""
    text = str(error)
    if NO_CREDENTIALS in text:
        return False
    if isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, OSError) and error.errno in SURROUNDINGS
    ):
        return True
    if is_of_spark(error) or type(error).__module__.partition(".")[0] == "py4j":
        return bool(UNREACHABLE_IN_JAVA.search(text))
    kinds = classes_of(error)
    if not any(package in CLIENTS for package, _ in kinds):
        # Libraries that are not written in Python raise OSError without a number. Others quote rows.
        return type(error) is OSError and error.errno is None and bool(UNREACHABLE_TEXT.search(text))
    return any(package in CLIENTS and name in UNREACHABLE for package, name in kinds) or bool(
        UNREACHABLE_TEXT.search(text)
    )


def classes_of(error: BaseException) -> list[tuple[str, str]]:
    """Return the classes of an error, each by its package and its name."""
    return [(kind.__module__.partition(".")[0].lstrip("_"), kind.__name__) for kind in type(error).__mro__]


@contextlib.contextmanager
def obstacles_pass() -> Iterator[None]:
    """Raise Passing, with the same message, for errors that an obstacle outside the job has caused."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Passing) or not momentary(error):
            raise
        raise Passing(str(error) if isinstance(error, JobError) else reason(error)) from error


MOST_PAUSE = 30.0
"""The longest pause between retries, in seconds."""


class Troubles:
    """Transient errors in a row, and the ``last`` one in words, empty if all is well."""

    def __init__(self, log: Log) -> None:
        """Start without any."""
        self.log, self.times, self.last = log, 0, ""

    def note(self, error: str, **about: str) -> float:
        """Report one more error, in words, and what it is ``about``; return how many seconds to wait."""
        self.times += 1
        self.last = error
        pause = pause_after(self.times)
        self.log.event("trouble", **about, error=self.last, again_in=pause)
        return pause

    def over(self) -> bool:
        """Return whether there was trouble, which is over; report it then."""
        if not self.times:
            return False
        self.times, self.last = 0, ""
        self.log.event("trouble_over")
        return True


def pause_after(times: int, first: float = 0.1) -> float:
    """Return how many seconds to wait after a number of errors in a row: twice as long each time, up to MOST_PAUSE."""
    return min(first * 2.0 ** min(times, 20), MOST_PAUSE)
