"""Tell obstacles that may disappear, such as an unreachable network, from faults that last."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator

from .errors import JobError, Passing, is_of_spark, reason

#: System errors that do not depend on what was being done.
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
"""Where clients on a machine without credentials ask for some; no answer will come."""


def momentary(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, is an obstacle outside the job that may disappear: a network, store
    or catalog that cannot be reached or refuses work for now, or a full disk. Messages of the job may quote rows, so
    only the errors that caused them count."""
    while error is not None:
        if isinstance(error, Passing) or (not isinstance(error, JobError) and is_obstacle(error)):
            return True
        error = error.__cause__ or (None if isinstance(error, JobError) else error.__context__)
    return False


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
    kinds = [(kind.__module__.partition(".")[0].lstrip("_"), kind.__name__) for kind in type(error).__mro__]
    if not any(package in CLIENTS for package, _ in kinds):
        # Libraries that are not written in Python raise OSError without a number. Others quote rows.
        return type(error) is OSError and error.errno is None and bool(UNREACHABLE_TEXT.search(text))
    return any(package in CLIENTS and name in UNREACHABLE for package, name in kinds) or bool(
        UNREACHABLE_TEXT.search(text)
    )


@contextlib.contextmanager
def obstacles_pass() -> Iterator[None]:
    """Raise Passing, with the same message, for errors that an obstacle outside the job has caused."""
    try:
        yield
    except Exception as error:
        if isinstance(error, Passing) or not momentary(error):
            raise
        raise Passing(str(error) if isinstance(error, JobError) else reason(error)) from error
