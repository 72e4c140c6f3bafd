"""Keys in URIs: nothing prints them, and no manifest has them."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from golden_tests.job import assemble
from golden_tests.job.stalls import PROGRAM, Race

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfi"
KEYS = f"AKIAIOSFODNN7:{SECRET}"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """A job of two relations."""
    return assemble.load(tmp_path_factory.mktemp("script"), PROGRAM, "keys_job")


@pytest.fixture(autouse=True)
def forget(job: ModuleType) -> Iterator[None]:
    """What one test has seen is not known to the next."""
    yield
    job.KEYS_SEEN.clear()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"no state in s3://{KEYS}@bucket/a b", "no state in s3://***@bucket/a b"),
        (f"'s3a://{KEYS}@bucket/x', 'gs://b/y'", "'s3a://***@bucket/x', 'gs://b/y'"),
        (f"s3://a/b,s3://{KEYS}@c/d", "s3://a/b,s3://***@c/d"),
        (f"s3:/{KEYS}@bucket/x", "s3://***@bucket/x"),
        ("https://user:pass@word@host:8443/x?a=1", "https://***@host:8443/x?a=1"),
        ("https://token@host/x@y", "https://***@host/x@y"),
        ("jdbc:postgresql://h/db?user=a&password=b&ssl=1", "jdbc:postgresql://h/db?user=a&password=***&ssl=1"),
        ("jdbc:sqlserver://h;user=a;password=b;x=1", "jdbc:sqlserver://h;user=a;password=***;x=1"),
        (
            "https://a/b?X-Amz-Credential=1&X-Amz-Date=2&X-Amz-Security-Token=3&X-Amz-Signature=4",
            "https://a/b?X-Amz-Credential=***&X-Amz-Date=2&X-Amz-Security-Token=***&X-Amz-Signature=***",
        ),
        ("abfs://c@a.dfs.core.windows.net/x?sv=1&sig=a%2Fb", "abfs://c@a.dfs.core.windows.net/x?sv=1&sig=***"),
        ("s3://bucket/x?access_key=A&secretKey=B", "s3://bucket/x?access_key=***&secretKey=***"),
        ("kafka://user:password@host:9092/net", "kafka://***@host:9092/net"),
        ("https://maps.example/x?key=AIzaSyD4&q=1", "https://maps.example/x?key=***&q=1"),
        ("https://h/x?api-key=a1&apiKey=b2&x-api-key=c3", "https://h/x?api-key=***&apiKey=***&x-api-key=***"),
        ("https://h/cb#access_token=abc&state=7", "https://h/cb#access_token=***&state=7"),
        ("https://h/x?access%5Fkey=abc&n=1", "https://h/x?access%5Fkey=***&n=1"),
        (
            "https://b.s3.amazonaws.com/x?AWSAccessKeyId=A&Expires=1",
            "https://b.s3.amazonaws.com/x?AWSAccessKeyId=***&Expires=1",
        ),
        (
            "https://a.blob/x?sp=r&se=2030&spr=https&sv=2022&sr=b&sig=a%2Bb%3D",
            "https://a.blob/x?sp=r&se=2030&spr=https&sv=2022&sr=b&sig=***",
        ),
        (
            "https://g/x?X-Goog-Algorithm=1&X-Goog-Credential=2&X-Goog-Signature=3",
            "https://g/x?X-Goog-Algorithm=1&X-Goog-Credential=***&X-Goog-Signature=***",
        ),
        (
            "Protocol=https;AccountName=n;AccountKey=abc+/==;EndpointSuffix=s",
            "Protocol=https;AccountName=n;AccountKey=***;EndpointSuffix=s",
        ),
        (
            "s3://b/x?session_token=t&sessionToken=u&SESSIONTOKEN=v",
            "s3://b/x?session_token=***&sessionToken=***&SESSIONTOKEN=***",
        ),
        (
            "https://h/x?client_secret=t&clientSecret=u&refresh-token=v",
            "https://h/x?client_secret=***&clientSecret=***&refresh-token=***",
        ),
        (
            "jdbc:mysql://h/d?sslTrustStorePassword=a&pass=b&dbpwd=c",
            "jdbc:mysql://h/d?sslTrustStorePassword=***&pass=***&dbpwd=***",
        ),
        ("http://h/x?auth=abc&Authorization=def", "http://h/x?auth=***&Authorization=***"),
    ],
)
def test_what_is_hidden(text: str, shown: str, job: ModuleType) -> None:
    """And all else stays."""
    assert job.without_keys(text) == shown
    assert str(job.JobError(text)) == shown
    assert job.without_keys(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "/data/a:b@c/x",
        "file:///data/a:b@c/x",
        "hdfs://name:8020/data/x@y",
        "hdfs://me@name:8020/data",
        "s3://bucket/a:b@c",
        "abfs://container@account.dfs.core.windows.net/x",
        "reachable(@1, 12:30@x)",
        "STATE/published/pair/changes/batch=2024-01-01T00:00@x",
        "kafka://broker1:9092,broker2:9092/net",
        "?key=id, but the primary key of orders is nr",
        "orders=kafka-debezium://b1:9092,b2:9092/shop.orders?key=id,part&settings=/etc/kafka.json",
        "kafka-debezium://b1:9092/shop.orders?settings=f&key=id",
        "https://h/x?design=1&author=me&keyspace=k&signal=2&partition_key=p&primaryKey=q&sort_keys=1&monkey=3",
        "https://h/x?max_tokens=5&tokenizer=x&secretary=y&insight=1&compass=n&bypass=1&assign=2&oauthor=3&keys=4",
        "csv:/data/x.csv?quote=none&header=yes",
    ],
)
def test_what_is_not_hidden(text: str, job: ModuleType) -> None:
    """What only looks alike."""
    assert job.without_keys(text) == text


def test_a_library_quotes_a_key_without_its_uri(job: ModuleType) -> None:
    """It is known from the location that was given."""
    job.remember_keys(f"s3://{KEYS}@bucket/x")
    assert job.without_keys(f'Invalid bucket name "{KEYS}@bucket", {SECRET}') == 'Invalid bucket name "***@bucket", ***'


def test_a_library_quotes_a_value_without_its_name(job: ModuleType) -> None:
    """Signatures are known from the location, too; what a topic's source calls its key is none."""
    job.remember_keys(f"https://account.blob/x?sp=r&sig={SECRET}")
    job.remember_keys("kafka-debezium://b:9092/orders?key=number")
    assert job.without_keys(f"the signature {SECRET} of number 1") == "the signature *** of number 1"


def test_parts_of_a_refusal(job: ModuleType) -> None:
    """What a task reports of it has no keys either."""
    said = (f"s3://{KEYS}@bucket/a is empty", f"; try s3://{KEYS}@bucket/b", f"\n  s3://{KEYS}@c/d", f"\n  {KEYS}@e")
    job.remember_keys(f"s3://{KEYS}@bucket/x")
    error = job.Refused(*said)
    assert SECRET not in repr([error.parts, error.plain, error.without_state, str(error)])


@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize("command", ["status", "apply", "init", "show", "explain", "recover", "apply --publish"])
def test_commands(
    command: str,
    query: bool,
    job: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whatever becomes of a state, of rows or of a place to publish to at such a URI."""
    pytest.importorskip("s3fs", reason="the extra s3 is not installed")
    for name, value in {"AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(job, "open_session", lambda name: None)
    uri = f"s3://bucket/x?X-Amz-Signature={SECRET}" if query else f"s3://{KEYS}@bucket/x"
    race = Race(job, tmp_path / "race", 20)
    arguments = {
        "status": ["--state", uri],
        "apply": ["--state", str(race.built), "--changes", uri, "--changes", f"link={uri}"],
        "init": ["--state", uri, "--input", f"link={race.file('x', 1)}"],
        "show": ["pair", "--state", uri],
        "explain": ["pair(1, 1)", "--state", uri],
        "recover": ["--state", uri],
        "apply --publish": ["--state", str(race.built), "--changes", race.file("link", 9), "--publish", uri],
    }[command]
    try:
        code = job.main([command.split()[0], *arguments])
    except Exception:
        code = 1
        traceback.print_exc()
    said = "".join(capfd.readouterr())
    assert code == 1 and SECRET not in said and "***" in said, said


def test_logs_and_descriptions(job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Events, warnings, on a terminal too, and the names of Spark's jobs."""
    uri = f"s3://{KEYS}@bucket/x"
    log = job.Log()
    log.event("read", files=uri)
    log.warn(f"{uri}: column x is not used")
    log.live = True
    log.event("read", files=uri)
    described: list[str] = []
    job.describe(SimpleNamespace(sparkContext=SimpleNamespace(setJobDescription=described.append)), f"read {uri}")
    said = capsys.readouterr().err + described[0]
    assert SECRET not in said and said.count("s3://***@bucket/x") == 4


def test_an_error_that_nobody_expected(
    job: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its traceback has none, however it came about."""

    def fail(program: Any, state: str) -> None:
        try:
            raise ValueError(f"cannot parse {state}")
        except ValueError as error:
            raise RuntimeError("no status") from error

    monkeypatch.setattr(job, "state_status", fail)
    assert job.main(["status", "--state", f"s3://{KEYS}@bucket/x"]) == 1
    said = capsys.readouterr().err
    assert "ValueError: cannot parse s3://***@bucket/x" in said and SECRET not in said
    with pytest.raises(RuntimeError):
        job.main(["status", "--state", "s3://bucket/x"])


def test_manifests(job: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place to publish to is kept without its keys; the command that was given it publishes there, and one that goes
    on later finds its keys elsewhere."""
    pytest.importorskip("upath", reason="universal-pathlib is not installed")
    import fsspec

    monkeypatch.setitem(job.STORE_PACKAGES, "memory", "fsspec")
    race = Race(job, tmp_path / "race", 20)
    race.begin()
    where = "memory://user:secret-key@bucket/out"
    for number, fails in ((3, False), (4, True)):
        changes = {"link": race.file("link", number)}
        batch = f"b{number}"
        with monkeypatch.context() as patch:
            if fails:
                patch.setattr(job, "publish_changes", lambda *_: sys.exit("killed"))
                with pytest.raises(SystemExit):
                    job.apply(None, str(race.state), changes, batch=batch, publish=where, log=race.log)
            else:
                done = job.apply(None, str(race.state), changes, batch=batch, publish=where, log=race.log)
                assert "secret-key" not in json.dumps(done)
        text = job.manifest_path(race.state, number).read_text()
        assert "secret-key" not in text and f"memory://bucket/out/pair/changes/batch={batch}" in text
    assert job.status(str(race.state))["finished_publication"] is True
    found = fsspec.filesystem("memory").find("/")
    assert any("user:secret-key@bucket/out/pair/changes/batch=b3" in name for name in found), found
    assert any(name.startswith("/bucket/out/pair/changes/batch=b4/") for name in found), found


def test_a_place_with_keys_for_a_relation_in_another_folder(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that was given the keys publishes there, too."""
    pytest.importorskip("upath", reason="universal-pathlib is not installed")
    import fsspec

    program = PROGRAM.replace("output=True,", 'output=True,\n    folder="pair~2",')
    assert program != PROGRAM
    job = assemble.load(tmp_path_factory.mktemp("script"), program, "folders_job")
    monkeypatch.setitem(job.STORE_PACKAGES, "memory", "fsspec")
    race = Race(job, tmp_path / "race", 20)
    race.begin()
    changes, where = {"link": race.file("link", 3)}, "memory://user:other-key@bucket/there"
    job.apply(None, str(race.state), changes, batch="b3", publish=where, log=race.log)
    assert "other-key" not in job.manifest_path(race.state, 3).read_text()
    found = fsspec.filesystem("memory").find("/")
    assert any("user:other-key@bucket/there/pair~2/changes/batch=b3" in name for name in found), found


@pytest.mark.parametrize("option", ["--engine", "--unknown", "--buckets", "--memory-limit"])
def test_a_command_line_that_is_wrong(option: str, job: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """What is quoted of it has no keys."""
    with pytest.raises(SystemExit) as ended:
        job.main(["init", "--state", "x", option, f"s3://{KEYS}@bucket/x"])
    said = capsys.readouterr().err
    assert ended.value.code == 2 and SECRET not in said and "s3://***@bucket/x" in said


def test_the_command_line_of_a_result(job: ModuleType, tmp_path: Path) -> None:
    """What ``--json`` prints is what the function returns, without keys."""
    root: Any = Path(f"/s3:/{KEYS}@bucket")
    race = Race(job, tmp_path / "race", 20)
    manifest = job.read_manifest(race.built)
    assert SECRET not in json.dumps(job.summary(job.PROGRAM, root, manifest, 0.0))
