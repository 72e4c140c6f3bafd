"""Obstacles outside the job, such as an unreachable store: ``follow`` tries again, and only lasting faults end it."""

from __future__ import annotations

import errno
import functools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyiceberg.catalog
import pytest
import requests
from botocore.exceptions import ClientError, EndpointConnectionError
from deltalake.exceptions import TableNotFoundError
from flintlog.runtime.addons.processes.unattended import passes_unattended
from flintlog.runtime.kernel.errors import JobError, Passing, Refused, reason
from flintlog.runtime.system.transient_errors import momentary, obstacles_pass
from pyiceberg.exceptions import NoSuchTableError, ServerError
from pyspark.errors import AnalysisException

from golden_tests.addons.feeds.lake import iceberg_links, lake_in
from golden_tests.addons.feeds.world import FeedWorld, append, links, make_table, refusal

#: What deltalake says if nothing listens at the address of a store.
UNREACHABLE = OSError(
    "Kernel error -> Generic S3 error\n          \x1b[31m↳\x1b[0m Error performing GET "
    "http://127.0.0.1:9/b/t/_delta_log/_last_checkpoint in 105.8ms, after 1 retries, max_retries\n           "
    "\x1b[31m↳\x1b[0m 1, retry_timeout\n            \x1b[31m↳\x1b[0m 1s  - HTTP error\n             "
    "\x1b[31m↳\x1b[0m error sending request\n              \x1b[31m↳\x1b[0m client error (Connect)\n               "
    "\x1b[31m↳\x1b[0m tcp connect error\n                \x1b[31m↳\x1b[0m Connection refused (os error 111)\n"
)


def caused(error: Exception, cause: Exception) -> Exception:
    """Return an error that another one has caused."""
    error.__cause__ = cause
    return error


def met(error: Exception, handled: Exception) -> Exception:
    """Return an error of the job that was raised while another one was handled."""
    error.__context__ = handled
    return error


def of_java(text: str) -> Exception:
    """Return an error of the JVM as it arrives in Python."""
    kind = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
    error: Exception = kind(f"An error occurred while calling o42.sql.\n: {text}\n\tat java.base/java.lang.Thread.run")
    return error


MOMENTARY = [
    UNREACHABLE,
    OSError("Generic S3 error: Server returned non-2xx status code: 503 Service Unavailable: <Code>SlowDown</Code>"),
    OSError(
        "When reading information for key 't/v1.metadata.json' in bucket 'b': AWS Error NETWORK_CONNECTION during "
        "HeadObject operation: curlCode: 6, Could not resolve hostname"
    ),
    OSError(errno.EBUSY, "Please reduce your request rate."),
    OSError(errno.ESTALE, "Stale file handle"),
    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    TimeoutError("timed out"),
    EndpointConnectionError(endpoint_url="http://127.0.0.1:9/b"),
    ClientError({"Error": {"Code": "SlowDown", "Message": "Please reduce your request rate."}}, "GetObject"),
    requests.exceptions.ConnectionError("HTTPConnectionPool(host='127.0.0.1', port=9): Max retries exceeded"),
    requests.exceptions.ReadTimeout("Read timed out."),
    ServerError("ServerError: the catalog is restarting"),
    of_java("java.net.ConnectException: Connection refused"),
    of_java("org.postgresql.util.PSQLException: Connection to db:5432 refused. Check that the hostname is correct"),
    AnalysisException("Traceback:\n  File x\nConnectionRefusedError: [Errno 111] Connection refused\n"),
    caused(JobError("delta:s3://b/t cannot be opened"), UNREACHABLE),
    caused(Refused("refused, nothing has changed: x is damaged"), caused(ValueError("x"), UNREACHABLE)),
]

LASTING = [
    TableNotFoundError("no log files"),
    NoSuchTableError("Table does not exist: db.link"),
    FileNotFoundError(errno.ENOENT, "No such file or directory", "/lake/connection refused"),
    PermissionError(errno.EACCES, "Access Denied"),
    OSError("Generic S3 error: Client error with status 403 Forbidden: InvalidAccessKeyId"),
    OSError("Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token: error sending request"),
    ClientError({"Error": {"Code": "NoSuchBucket", "Message": "The specified bucket does not exist"}}, "ListObjects"),
    of_java("org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `link`"),
    AnalysisException("[CAST_INVALID_INPUT] The value 'connection refused' cannot be cast"),
    ValueError("could not read 'connection refused' as an int"),
    JobError("delta:/lake/link is at version 1: connection refused"),
    Refused("refused, nothing has changed:\n  link.csv, row 1, column src: connection refused is not an int"),
]


@pytest.mark.parametrize("error", MOMENTARY, ids=lambda error: type(error).__name__)
def test_obstacles(error: Exception) -> None:
    """They are told by numbers, classes and texts of the libraries; the message stays."""
    assert momentary(error)
    with pytest.raises(Passing) as found, obstacles_pass():
        raise error
    assert str(found.value) == (str(error) if isinstance(error, JobError) else reason(error))


@pytest.mark.parametrize("error", LASTING, ids=lambda error: type(error).__name__)
def test_faults(error: Exception) -> None:
    """Others stay what they are, whatever rows and names they quote."""
    assert not momentary(error)
    with pytest.raises(type(error)) as found, obstacles_pass():
        raise error
    assert found.value is error


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (PermissionError(errno.EACCES, "Access Denied"), True),
        (caused(JobError("x cannot be read"), PermissionError(errno.EACCES, "Access Denied")), True),
        (caused(Refused("x cannot be read"), PermissionError(errno.EACCES, "Access Denied")), False),
        (caused(Refused("x is damaged"), OSError(errno.EIO, "Input/output error")), True),
        (MemoryError(), True),
        (pa.ArrowInvalid("x"), True),
        (caused(JobError("x is damaged"), duckdb.InternalException("x")), False),
        (caused(JobError("x is not published"), duckdb.OutOfMemoryException("No space left on device")), True),
        (duckdb.BinderException("x"), False),
        (ValueError("x"), False),
        (ValueError("row 1: 'no space left on device' is no date"), False),
        (met(KeyError("x"), FileNotFoundError(errno.ENOENT, "No such file")), False),
        (JobError("x"), False),
    ],
)
def test_processes_try_again(error: Exception, passes: bool) -> None:
    """After more errors than commands do, but not after those that rows or the program have caused."""
    assert passes_unattended(error) is passes


def test_errors_of_many_lines_in_one() -> None:
    """What failed and why are told, without colours."""
    assert reason(UNREACHABLE) == "Kernel error -> Generic S3 error: Connection refused (os error 111)"


class Watched:
    """The end of ``follow``: it ends when it waits for more, and notes how long it wants to wait after errors."""

    def __init__(self) -> None:
        """Start."""
        self.pauses: list[float] = []
        self.ended = False

    def is_set(self) -> bool:
        """Return whether to end."""
        return self.ended

    def wait(self, seconds: float) -> None:
        """Note a pause, or end."""
        self.ended = self.ended or seconds == POLL
        if not self.ended:
            self.pauses.append(seconds)


POLL = 0.011


def followed(world: FeedWorld) -> tuple[list[Any], list[str], list[float]]:
    """Follow until nothing is new; return the batches, the troubles, and the pauses."""
    watched, told, troubles = Watched(), [], []
    log = world.job.Log(quiet=True)
    apply = functools.partial(world.job.apply, None, str(world.state), log=log)
    world.job.follow_feeds(
        apply, POLL, lambda one: told.append(one["batch"]), log, watched, lambda error: troubles.append(str(error))
    )
    return told, troubles, watched.pauses


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[int]]]:
    """Let the first calls of a function fail."""

    def fail(owner: Any, name: str, error: Exception, times: int = 3) -> list[int]:
        real, calls = getattr(owner, name), [0]

        def call(*given: Any, **named: Any) -> Any:
            calls[0] += 1
            if calls[0] <= times:
                # One of its own: its traceback keeps what is open there.
                raise type(error)(*error.args)
            return real(*given, **named)

        if name == "DeltaTable":
            call.is_deltatable = real.is_deltatable  # type: ignore[attr-defined]
        monkeypatch.setattr(owner, name, call)
        return calls

    yield fail


@pytest.mark.parametrize(
    ("owner", "name"), [(deltalake, "DeltaTable"), (deltalake.DeltaTable, "load_cdf"), (deltalake.DeltaTable, "schema")]
)
def test_delta_feed(owner: Any, name: str, world: FeedWorld, tmp_path: Path, failing: Callable[..., list[int]]) -> None:
    """A table that cannot be read for a while is read later, once, after pauses that grow."""
    path = make_table(tmp_path / "link", links((1, 2)))
    assert world.run("connect", f"link=delta:{path}") == 0
    assert world.run("init") == 0
    append(path, (2, 3))
    failing(owner, name, UNREACHABLE)
    told, troubles, pauses = followed(world)
    assert told == ["link@0..1"]
    assert pauses == [0.2, 0.4, 0.8]
    assert len(troubles) == 3
    assert all("Connection refused" in trouble and str(tmp_path) in trouble for trouble in troubles)
    world.check([(1, 2), (2, 3)])


def test_a_gap_is_not_told_while_nothing_can_be_read(
    world: FeedWorld, tmp_path: Path, failing: Callable[..., list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The search for lost versions does not take unreachable ones for lost."""
    path = make_table(tmp_path / "link", links((1, 2)))
    assert world.run("connect", f"link=delta:{path}") == 0
    assert world.run("init") == 0
    append(path, (2, 3))
    real, calls = deltalake.DeltaTable.load_cdf, []

    def load(*given: Any, **named: Any) -> Any:
        calls.append(named)
        if len(calls) < 3:
            raise (
                OSError("Object at location x not found: no answer") if len(calls) == 1 else OSError(*UNREACHABLE.args)
            )
        return real(*given, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltalake.DeltaTable, "load_cdf", load)
        assert followed(world)[0] == ["link@0..1"]
    shutil.rmtree(tmp_path / "link")
    with pytest.raises(world.job.JobError, match="cannot be opened"):
        followed(world)
    assert "cannot be opened" in refusal(world, capsys)


@pytest.mark.parametrize("name", ["write_deltalake", "DeltaTable"])
def test_delta_output(name: str, world: FeedWorld, tmp_path: Path, failing: Callable[..., list[int]]) -> None:
    """A batch whose tables cannot be written is committed, and the tables follow when they can be."""
    source = tmp_path / "changes"
    source.mkdir()
    assert world.run("connect", f"link=files:{source}") == 0
    assert world.run("init", "--publish", f"delta:{tmp_path}/views") == 0
    (source / "1.csv").write_text("op,src,dst\n+,1,2\n", encoding="utf-8")
    failing(deltalake, name, UNREACHABLE, 2)
    told, troubles, pauses = followed(world)
    assert (told, pauses) == ([], [0.2, 0.4])
    assert all("is committed, and the next command publishes the rest" in trouble for trouble in troubles)
    world.check([(1, 2)])
    rows = deltalake.DeltaTable(f"{tmp_path}/views/reachable").to_pyarrow_table().to_pylist()
    assert rows == [{"src": 1, "dst": 2}]


def test_iceberg_feed(world: FeedWorld, tmp_path: Path, failing: Callable[..., list[int]]) -> None:
    """A catalog that is unreachable is asked again."""
    with lake_in(tmp_path) as catalog:
        table = iceberg_links(catalog, (1, 2))
        assert world.run("connect", "link=iceberg:db.link") == 0
        assert world.run("init") == 0
        table.append(links((2, 3)))
        failing(pyiceberg.catalog, "load_catalog", MOMENTARY[9], 2)
        told, troubles, pauses = followed(world)
    assert (len(told), len(troubles), pauses) == (1, 2, [0.2, 0.4])
    world.check([(1, 2), (2, 3)])


def test_files_feed(world: FeedWorld, tmp_path: Path, failing: Callable[..., list[int]]) -> None:
    """A folder on a file system that does not respond is listed again; a folder that is gone ends it."""
    source = tmp_path / "changes"
    source.mkdir()
    assert world.run("connect", f"link=files:{source}") == 0
    assert world.run("init") == 0
    (source / "1.csv").write_text("op,src,dst\n+,1,2\n", encoding="utf-8")
    real, calls = Path.iterdir, []

    def listed(path: Path) -> Any:
        if path == source:
            calls.append(path)
            if len(calls) < 3:
                raise OSError(errno.ESTALE, "Stale file handle")
        return real(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "iterdir", listed)
        told, troubles, _ = followed(world)
    assert (len(told), len(troubles)) == (1, 2)
    world.check([(1, 2)])
    source.rename(tmp_path / "elsewhere")
    with pytest.raises(world.job.JobError, match="is not a folder"):
        followed(world)


def test_the_kind_of_error(
    world: FeedWorld, tmp_path: Path, failing: Callable[..., list[int]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that an obstacle stops fails as ``passing``, also in the measurements; the next one succeeds."""
    path = make_table(tmp_path / "link", links((1, 2)))
    failing(deltalake, "DeltaTable", UNREACHABLE, 1)
    assert world.run("connect", f"link=delta:{path}", "--json") == 1
    assert json.loads(capsys.readouterr().out)["kind"] == "passing"
    assert world.run("connect", f"link=delta:{path}") == 0
    failing(deltalake, "DeltaTable", UNREACHABLE, 1)
    metrics = tmp_path / "metrics.jsonl"
    assert [world.run("init", "--metrics", str(metrics)) for _ in range(2)] == [1, 0]
    lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    assert [line.get("kind", "") for line in lines] == ["passing", ""]
    world.check([(1, 2)])


def test_a_folder_of_batches(world: FeedWorld, tmp_path: Path) -> None:
    """A folder that cannot be listed for a while does not end ``follow`` either."""
    assert world.run("init") == 0
    (tmp_path / "batches" / "a").mkdir(parents=True)
    (tmp_path / "batches" / "a" / "link.csv").write_text("op,src,dst\n+,1,2\n", encoding="utf-8")
    watched, told, troubles = Watched(), [], []
    job, log = world.job, world.job.Log(quiet=True)
    real, calls = Path.iterdir, []

    def listed(path: Path) -> Any:
        if path == tmp_path / "batches":
            calls.append(path)
            if len(calls) == 1:
                raise OSError(errno.EIO, "Input/output error")
        return real(path)

    def tell(result: dict[str, Any]) -> None:
        told.append(result["batch"])
        watched.ended = True

    watched.wait = lambda seconds: troubles.append(seconds)  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "iterdir", listed)
        executor, place = job.LocalExecutor(), str(tmp_path / "batches")
        job.follow_batches(job.PROGRAM, executor, str(world.state), place, POLL, tell, log, watched)
    assert told == ["a"]
    assert troubles[0] == 0.2
