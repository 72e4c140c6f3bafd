"""The feed ``kafka-debezium:`` on a topic in memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flintlog.runtime.addons.feeds.debezium_events import EventReader, MessageForm, TopicMessage, murmur2
from flintlog.runtime.addons.feeds.kafka_client import client_settings, topic_address
from flintlog.runtime.inputs.records import Problems
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.model import Column, Relation

from golden_tests.addons.feeds.conftest import Applied
from golden_tests.addons.feeds.envelopes import MemoryTopic, envelope, key_of
from golden_tests.addons.feeds.world import FeedWorld, refusal

PROGRAM = """
input relation orders(id: int, name: string, note: string?) primary key (id)
output relation named(name: string, id: int)
named(N, I) :- orders(I, N, _).
"""

SOURCE = "kafka-debezium://broker:9092/orders"


class TopicWorld(FeedWorld):
    """A job whose input ``orders`` is fed by a topic in memory."""

    def __init__(self, folder: Path, program: str = PROGRAM, partitions: int = 1) -> None:
        """Compile the program, and begin with an empty topic."""
        super().__init__(folder, program)
        self.topic = MemoryTopic(partitions)
        self.topic.install(self.job)

    def put(self, operation: str, number: int, name: str | None = None, part: int = 0, **more: Any) -> None:
        """Append what Debezium writes about an order: for a deletion, also the tombstone."""
        row = {"id": number, "name": name, "note": None, **more}
        if operation == "d":
            self.topic.write(key_of(id=number), envelope("d", {"id": number}), part)
            self.topic.write(key_of(id=number), None, part)
        else:
            self.topic.write(key_of(id=number), envelope(operation, None, row), part)

    def begin(self, source: str = SOURCE) -> None:
        """Connect the topic, and build the state."""
        assert self.run("connect", f"orders={source}") == self.run("init") == 0

    @property
    def orders(self) -> dict[int, Any]:
        """The names of the orders."""
        return {number: name for number, name, _ in self.rows("orders")}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TopicWorld]:
    """A job without a state."""
    made = TopicWorld(tmp_path)
    yield made
    made.close()


def test_from_a_topic_to_views(world: TopicWorld, applied: Applied) -> None:
    """Snapshot rows, then each range of offsets once, by key; a tombstone behind a deletion says nothing more."""
    world.put("r", 1, "a")
    world.put("r", 2, "b")
    world.put("u", 1, "c")
    world.begin(f"{SOURCE}?key=id")
    assert world.orders == {1: "c", 2: "b"}
    assert world.manifest.feeds["orders"].position["offsets"] == {"0": 3}
    world.put("d", 2)
    world.put("c", 3, "d")
    world.put("u", 3, "e")
    result = applied()
    assert (result["batch"], result["changes"]["orders"]) == ("orders@3..7", {"inserted": 1, "deleted": 1})
    assert world.rows("named") == {("c", 1), ("e", 3)}
    assert not applied()["applied"]


def test_keys_decide(world: TopicWorld, applied: Applied) -> None:
    """``before`` may have the key alone, or nothing; a changed key is a deletion and a creation, or one update with the
    row before; a row that comes back after a deletion is there; a repeated message changes nothing."""
    for number, name in enumerate("abcd"):
        world.put("r", number, name)
    world.begin()
    world.topic.write(key_of(id=0), envelope("d", None))
    world.topic.write(key_of(id=0), None)
    world.topic.write(key_of(id=1), envelope("d", {"id": 1, "name": None, "note": None}))
    world.topic.write(key_of(id=1), None)
    world.put("c", 10, "b")
    world.put("d", 2)
    world.put("c", 2, "new")
    world.put("c", 2, "new")
    world.put("u", 3, "x")
    world.put("u", 3, "d")
    rows = ({"id": number, "name": "d", "note": None} for number in (3, 30))
    world.topic.write(key_of(id=30), envelope("u", *rows))
    assert applied()["changes"]["orders"] == {"inserted": 3, "deleted": 4}
    assert world.orders == {10: "b", 2: "new", 30: "d"}


def test_order_is_that_of_offsets(world: TopicWorld, applied: Applied) -> None:
    """Not that of milliseconds: a clock may go back."""
    world.put("r", 1, "a")
    world.begin()
    for name, clock in (("b", 9), ("c", 8), ("d", 7)):
        world.topic.write(key_of(id=1), envelope("u", None, {"id": 1, "name": name, "note": None}, ts_ms=clock))
    applied()
    assert world.orders == {1: "d"}


def test_a_tombstone_whose_deletion_was_compacted_away(world: TopicWorld, applied: Applied) -> None:
    """It deletes the row: after compaction it is all that is left of the deletion."""
    world.topic.policy, world.topic.kept_deletions = "compact", 86_400.0
    for number in range(3):
        world.put("r", number, "a")
    world.begin()
    world.put("d", 1)
    world.put("u", 2, "b")
    world.topic.compact()
    assert applied()["changes"]["orders"] == {"inserted": 1, "deleted": 2}
    assert world.orders == {0: "a", 2: "b"}


def test_deletions_that_compaction_has_forgotten(
    world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]
) -> None:
    """A topic that was not read for longer than tombstones are kept may have lost deletions; resync finds them."""
    world.topic.policy, world.topic.kept_deletions = "compact", 86_400.0
    for number in range(3):
        world.put("r", number, "a")
    world.begin()
    world.put("d", 1)
    world.put("u", 2, "b")
    world.topic.compact(deletions=True)
    clock = time.time
    world.job.time = SimpleNamespace(**{**vars(time), "time": lambda: clock() + 90_000})
    said = refusal(world, capsys)
    assert "partition 0 from offset 3 up to 5 were compacted away" in said and "`apply --resync orders`" in said
    applied("--resync", "orders")
    assert world.orders == {0: "a", 2: "b"}


def test_one_offset_is_missing_after_a_transaction(world: TopicWorld, applied: Applied) -> None:
    """The mark of a transaction is no lost deletion, however long ago the topic was read."""
    world.topic.policy, world.topic.kept_deletions = "compact", 60.0
    world.put("r", 1, "a")
    world.topic.mark()
    world.begin()
    world.topic.mark()
    world.put("u", 1, "b")
    world.topic.mark()
    applied()
    assert world.orders == {1: "b"}
    world.topic.mark()
    assert applied()["batch"] == "orders@5..6"


def test_retention_has_removed_what_was_not_read(
    world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]
) -> None:
    """The offsets are named. The rest of the topic does not tell all rows until a snapshot is in it."""
    world.put("r", 1, "a")
    world.put("r", 2, "b")
    world.begin()
    world.put("d", 1)
    world.put("u", 2, "c")
    world.topic.forget(4)
    said = refusal(world, capsys)
    assert "partition 0 from offset 2 up to 4 are gone" in said and "`apply --resync orders`" in said
    said = refusal(world, capsys, "--resync", "orders")
    assert "the messages before offset 4 of partition 0 are gone" in said and "?complete=true" in said
    world.put("u", 7, "late")
    world.put("r", 2, "c", source="incremental")
    world.put("r", 7, "late")
    result = applied("--resync", "orders", "--feed", f"orders={SOURCE}?complete=true")
    assert result["batch"] == "orders@..8"
    assert world.orders == {2: "c", 7: "late"}
    world.put("u", 2, "d")
    assert applied()["batch"] == "orders@8..9"
    assert "complete" not in world.manifest.feeds["orders"].source


def test_a_topic_that_was_made_again(world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]) -> None:
    """Told by its ID; where brokers have none, by offsets."""
    world.put("r", 1, "a")
    world.put("r", 2, "a")
    world.begin()
    other = MemoryTopic(identity="cluster/orders/two")
    other.write(key_of(id=1), envelope("r", None, {"id": 1, "name": "z", "note": None}))
    other.install(world.job)
    assert "is another table than the one that was read up to 2" in refusal(world, capsys)
    other.identity = "cluster/orders/one"
    said = refusal(world, capsys)
    assert "partition 0 ends at offset 1, and orders was read up to 2" in said
    applied("--resync", "orders")
    assert world.orders == {1: "z"}


def lose(topic: MemoryTopic, number: int, part: int = 0) -> None:
    """Remove the last messages of a partition, as a broker does that was elected without having them."""
    del topic.logs[part][-number:]
    topic.ends[part] -= number


@pytest.mark.parametrize("more", [0, 1, 5])
def test_a_topic_that_lost_its_tail(
    more: int, world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is noticed also when it has as many messages again, or more; the last message that was read is another one."""
    for number in range(4):
        world.put("r", number, "a")
    world.begin()
    assert not applied()["applied"]
    lose(world.topic, 2)
    assert "ends at offset 2" in refusal(world, capsys)
    for number in range(2 + more):
        world.put("c", 10 + number, "z")
    for _ in range(2):
        said = refusal(world, capsys)
        assert "the message at offset 3 of partition 0, the last one that was read into orders, is another" in said
        assert "`apply --resync orders`" in said
    applied("--resync", "orders")
    assert world.orders == {0: "a", 1: "a", **{10 + number: "z" for number in range(2 + more)}}
    world.put("u", 10, "y")
    assert applied()["changes"]["orders"] == {"inserted": 1, "deleted": 1}


def test_what_may_be_gone_before_the_cursor(
    world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]
) -> None:
    """What retention or compaction has removed, and marks of transactions; but no single message."""
    for number in range(4):
        world.put("r", number, "a")
    world.topic.mark()
    world.begin()
    assert world.manifest.feeds["orders"].position["read"]["last"]["0"][0] == 3
    world.topic.mark()
    assert applied()["batch"] == "orders@5..6"
    assert world.manifest.feeds["orders"].position["read"]["last"]["0"][0] == 3
    del world.topic.logs[0][3]
    world.put("u", 0, "b")
    assert "offset 3 of partition 0, the last one that was read into orders, is gone" in refusal(world, capsys)
    world.topic.policy = "compact"
    applied()
    world.topic.policy = "delete"
    world.topic.forget(7)
    world.put("u", 0, "c")
    applied()
    assert world.orders == {0: "c", 1: "a", 2: "a", 3: "a"}


def test_two_tables_in_two_batches(world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]) -> None:
    """They are refused like two tables in one batch."""
    world.put("r", 1, "a")
    world.begin()
    assert world.manifest.feeds["orders"].position["read"]["table"] == "shop.public.orders"
    other = envelope("c", None, {"id": 1, "name": "other", "note": None}, table="customers")
    world.topic.write(key_of(id=1), other)
    said = refusal(world, capsys)
    assert "a change of shop.public.customers, in a topic with changes of shop.public.orders" in said
    assert applied("--feed", f"orders={SOURCE}?tables=several")["changes"]["orders"] == {"inserted": 1, "deleted": 1}


def test_a_topic_without_a_snapshot(world: TopicWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """A change of a row that was never created shows that rows are missing."""
    world.put("c", 1, "a")
    world.put("u", 2, "b")
    assert world.run("connect", f"orders={SOURCE}") == 0
    assert "begins with a change of a row that it does not have, with id = 2" in refusal(world, capsys, command="init")
    assert world.run("connect", f"orders={SOURCE}?complete=true") == world.run("init") == 0
    assert world.orders == {1: "a", 2: "b"}


def test_truncate(world: TopicWorld, applied: Applied) -> None:
    """Removes all rows, those of earlier messages in the batch, too."""
    world.put("r", 1, "a")
    world.put("r", 2, "b")
    world.begin()
    world.put("c", 3, "c")
    world.topic.write(None, envelope("t"))
    world.put("c", 2, "b")
    world.put("c", 4, "d")
    world.put("d", 4)
    assert applied()["changes"]["orders"] == {"inserted": 0, "deleted": 1}
    assert world.orders == {2: "b"}
    world.topic.write(None, envelope("t"))
    applied()
    assert world.orders == {}


def test_a_snapshot_that_is_taken_again(
    world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows replace those with the same keys; what was deleted meanwhile is not told, which is said."""
    world.put("r", 1, "a")
    world.put("r", 2, "b")
    world.begin()
    world.put("r", 2, "c")
    applied()
    row = {"id": 2, "name": "d", "note": None}
    world.topic.write(key_of(id=2), envelope("r", None, row, snapshot="first_in_data_collection"))
    assert world.run("apply") == 0
    assert "has taken a snapshot of the table again" in capsys.readouterr().err
    assert world.orders == {1: "a", 2: "d"}


LONG = "x" * 3_000
UNCHANGED = "__debezium_unavailable_value"


def test_unchanged_values_that_were_not_sent(world: TopicWorld, applied: Applied) -> None:
    """They are those of earlier messages, or of the stored row; the placeholder is never stored."""
    world.put("r", 1, LONG, note="one")
    world.put("r", 2, "b", note=LONG)
    world.put("u", 2, "c", note=UNCHANGED)
    world.begin()
    assert world.rows("orders") == {(1, LONG, "one"), (2, "c", LONG)}
    world.put("u", 1, UNCHANGED, note="two")
    world.put("c", 3, "c", note="deep")
    world.put("u", 3, "d", note=UNCHANGED)
    world.put("u", 3, UNCHANGED, note=UNCHANGED)
    world.put("u", 2, "e", note=None)
    world.put("u", 2, UNCHANGED, note=UNCHANGED)
    applied()
    assert world.rows("orders") == {(1, LONG, "two"), (2, "e", None), (3, "d", "deep")}
    world.put("u", 1, UNCHANGED, note=UNCHANGED)
    world.put("d", 1)
    world.put("u", 3, UNCHANGED, note="last")
    applied()
    assert world.rows("orders") == {(2, "e", None), (3, "d", "last")}


@pytest.mark.parametrize("deleted", [False, True])
def test_unchanged_values_that_nobody_has(deleted: bool, world: TopicWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """After a changed key, or without the row: refused, and not taken from a row that was deleted."""
    world.put("r", 1, LONG)
    world.begin()
    if deleted:
        world.put("u", 1, "another row's")
        world.put("d", 1)
    world.put("c", 1 if deleted else 2, UNCHANGED)
    said = refusal(world, capsys)
    assert f"column name of the row with id = {1 if deleted else 2} has the placeholder" in said
    assert "REPLICA IDENTITY FULL" in said


def test_unchanged_values_are_not_taken_from_a_doubtful_state(
    world: TopicWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """When all rows are read again, the stored ones may be out of date."""
    world.put("r", 1, LONG)
    world.begin()
    world.topic.logs[0].clear()
    world.topic.ends[0] = 0
    world.topic.policy = "compact"
    world.put("u", 1, UNCHANGED)
    assert "has the placeholder of an unchanged value" in refusal(world, capsys, "--resync", "orders")


def test_what_is_not_about_rows(world: TopicWorld, applied: Applied) -> None:
    """Heartbeats, marks of transactions, changes of the schema and messages of applications are passed over."""
    world.put("r", 1, "a")
    world.begin()
    for value in (
        {"ts_ms": 5},
        {"status": "BEGIN", "id": "571", "ts_ms": 1, "event_count": None, "data_collections": None},
        {"status": "END", "id": "571", "ts_ms": 1, "event_count": 2, "data_collections": []},
        {"source": {}, "ts_ms": 1, "databaseName": "shop", "ddl": "ALTER TABLE", "tableChanges": []},
        {"op": "m", "ts_ms": 1, "source": {}, "message": {"prefix": "p", "content": "aGFsbG8="}},
    ):
        world.topic.write(b"any", json.dumps(value).encode())
    result = applied()
    assert (result["applied"], result["changes"]) == (True, {})


def test_schemas_that_grow(world: TopicWorld, applied: Applied, capsys: pytest.CaptureFixture[str]) -> None:
    """A new column passes; one that is gone, or has a type that does not fit, stops the feed, and is named."""
    fields: dict[str, Any] = {"id": "int64", "name": "string", "note": "string"}

    def put(fields: dict[str, Any], operation: str = "u", **row: Any) -> None:
        world.topic.write(key_of(fields, id=row["id"]), envelope(operation, None, row, fields))

    put(fields, "r", id=1, name="a", note=None)
    put(fields, "r", id=2**53 + 1, name="a", note=None)
    world.begin()
    put({**fields, "more": "int32"}, id=1, name="b", note="n", more=7)
    put({**fields, "id": "int32"}, id=3, name="c", note=None)
    applied()
    assert world.orders == {1: "b", 2**53 + 1: "a", 3: "c"}
    put({"id": "int64", "title": "string", "note": "string"}, id=1, title="c", note=None)
    assert "partition 0, offset 4, column name: missing" in refusal(world, capsys)
    world.topic.logs[0].pop()
    world.topic.ends[0] -= 1
    put({**fields, "name": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}}, id=1, name=5, note=None)
    said = refusal(world, capsys)
    assert "column name: has the type io.debezium.time.MicroTimestamp and should be string" in said
    world.topic.logs[0].pop()
    world.topic.ends[0] -= 1
    put(fields, id=1, name=None, note=None)
    assert "offset 4, column name (string): null" in refusal(world, capsys)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"k", b"hello", "not JSON"),
        (b"k", b"\xff", "not JSON"),
        (b"k", b"[1]", "is not a message of Debezium's"),
        (b"k", b'{"id": 1}', "not an envelope of Debezium's"),
        (b"k", b'{"id": 1, "__op": "c"}', "delete.tombstone.handling.mode=rewrite"),
        (b"k", b"\0\0\0\0\1abc", "?avro=DIR"),
        (None, None, "neither a key nor a value"),
        (b'{"id": 1}', envelope("x"), 'unknown operation "x"'),
        (b'{"id": 1}', envelope("u"), "operation u without the row after it"),
        (b'{"id": 2}', envelope("u", None, {"id": 1, "name": "a", "note": None}), "another id than the row"),
        (b'{"id": 1, "shop": 2}', envelope("d", {"id": 1}), "the key of the message is id, shop, and the primary key"),
        (None, envelope("d"), "a deletion with neither a key nor the row before it"),
        (None, envelope("u", None, {"id": 1, "name": "a", "note": None}), "message.key.columns"),
        (b'{"id": 1}', envelope("u", None, {"id": 1, "name": "a"}), "column note: missing"),
        (b'{"id": 1}', envelope("u", None, {"id": 1, "NAME": "a", "note": "b"}), "there is NAME"),
        (b'{"id": 1}', envelope("u", None, {"id": 1, "name": 5, "note": "b"}), "5 is not a string"),
        (
            b'{"id": 1}',
            b'{"schema": {"type": "struct"}, "payload": {"id": 1, "__deleted": "true"}}',
            "is not the schema",
        ),
        (b'{"id": 1}', b'{"id": 1, "id": 2, "__deleted": "true"}', "two members have the same name"),
        (b'{"id": 1}', b'{"id": 1, "__deleted": "maybe"}', "and not true or false"),
        (b'{"id": 1}', b'{"id": 1, "__op": "t", "__deleted": "true"}', "leave it out"),
        (b'{"id": 1}', envelope("c", None, {"id": 1, "name": "a", "note": None}, table="people"), "?tables=several"),
    ],
)
def test_messages_that_are_refused(key: bytes | None, value: bytes | None, said: str, tmp_path: Path) -> None:
    """With partition and offset, and what to do."""
    columns = (Column("id", "int", "id"), Column("name", "string", "name"), Column("note", "string?", "note"))
    relation = Relation("orders", "orders", columns, "input", "net.dl:1", key=("id",))
    reader, problems = EventReader(relation, {}, 1, MessageForm(UNCHANGED)), Problems()
    assert reader.events(TopicMessage(0, 1, b'{"id": 9}', envelope("d")), problems, "topic")
    assert reader.events(TopicMessage(0, 4, key, value), problems, "topic") == []
    assert problems.count == 1
    assert problems.listed[0].startswith("topic, partition 0, offset 4")
    assert said in problems.listed[0]


def test_rows_of_extract_new_record_state(world: TopicWorld, applied: Applied) -> None:
    """By key, if deletions are rewritten; with columns whose names look like those of an envelope."""

    def put(number: int, deleted: str, **row: Any) -> None:
        value = {
            "id": number,
            "op": "x",
            "source": "y",
            **row,
            "__op": "d" if deleted == "true" else "u",
            "__deleted": deleted,
        }
        world.topic.write(key_of(id=number), json.dumps(value).encode())

    put(1, "false", name="a", note=None)
    put(2, "false", name="b", note="n")
    world.topic.policy = "compact"
    world.begin()
    put(1, "true", name=None, note=None)
    put(3, "false", name="c", note=None)
    put(2, "false", name="z", note=UNCHANGED)
    applied()
    assert world.rows("orders") == {(2, "z", "n"), (3, "c", None)}


def test_columns_with_other_names(tmp_path: Path) -> None:
    """The key is known by its name in the table, too; a filter is refused."""
    world = TopicWorld(tmp_path)
    feeds = tmp_path / "feeds.toml"
    feeds.write_text(f'[orders]\nfrom = "{SOURCE}?key=orderId"\ncolumns = {{ id = "orderId", name = "Name" }}\n')
    for number in (1, 2):
        row = {"orderId": number, "Name": "a", "note": None, "id": "no"}
        world.topic.write(key_of(orderId=number), envelope("r", None, row))
    assert world.run("connect", "--feeds", str(feeds)) == world.run("init") == 0
    world.topic.write(key_of(orderId=1), envelope("d", {"orderId": 1}))
    assert world.run("apply") == 0
    assert world.orders == {2: "a"}
    feeds.write_text(f'[orders]\nfrom = "{SOURCE}"\nwhere = "id > 1"\n')
    assert world.run("connect", "--feeds", str(feeds)) == 1
    world.close()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("kafka-debezium:orders", "is not of the form kafka-debezium://HOST:PORT,HOST:PORT/TOPIC"),
        ("kafka-debezium://user:secret12@broker:9092/orders", "a source of Kafka has no user and password"),
        (f"{SOURCE}?key=number", "`primary key (number)`"),
        (f"{SOURCE}?sasl.password=x", "is not an option of kafka-debezium:"),
        (f"{SOURCE}?complete=yes", "the only value of complete is true"),
        (f"{SOURCE}?complete=true&complete=true", "given twice"),
    ],
)
def test_sources_that_are_refused(
    source: str, said: str, world: TopicWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to write instead, and without showing a password."""
    found = refusal(world, capsys, f"orders={source}", command="connect")
    assert said in found
    assert "secret12" not in found


def test_settings_of_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file that the source or the environment names; the brokers are those of the source."""
    path = tmp_path / "kafka.json"
    path.write_text('{"sasl.password": "p", "bootstrap.servers": "elsewhere"}')
    wanted = {"log_level": 0, "sasl.password": "p", "bootstrap.servers": "broker:9092"}
    assert client_settings(topic_address(f"//broker:9092/orders?settings={path}")) == wanted
    monkeypatch.setenv("FLINTLOG_KAFKA_SETTINGS", str(path))
    assert client_settings(topic_address("//broker:9092/orders")) == wanted
    path.write_text("[1]")
    with pytest.raises(JobError, match="must be a JSON object"):
        client_settings(topic_address("//broker:9092/orders"))


# Partitions


def test_settings_that_everybody_can_read(world: TopicWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """They have a password, so a warning says how to mend it; the messages are read all the same."""
    file = world.folder / "kafka settings.json"
    file.write_text('{"sasl.password": "x"}', encoding="utf-8")
    world.put("r", 1, "a")
    file.chmod(0o600)
    world.begin(f"{SOURCE}?settings={str(file).replace(' ', '%20')}")
    assert "warning" not in capsys.readouterr().err
    file.chmod(0o644)
    world.put("u", 1, "b")
    assert world.run("apply") == 0
    said = capsys.readouterr().err
    assert f"warning: {file} has secrets, and every user of this machine may read it: run `chmod 600 '{file}'`" in said
    assert world.orders == {1: "b"}


def part_of(number: int, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for an order."""
    return (murmur2(key_of(id=number)) & 0x7FFF_FFFF) % partitions


def test_several_partitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has its own offsets. A key in another partition than its own is refused, as is TRUNCATE."""
    world = TopicWorld(tmp_path, partitions=3)
    for number in range(9):
        world.put("r", number, "a", part_of(number, 3))
    world.begin()
    for number in range(0, 9, 2):
        world.put("u", number, "b", part_of(number, 3))
    world.put("d", 1, None, part_of(1, 3))
    assert world.run("apply") == 0
    assert world.orders == {n: "a" if n % 2 else "b" for n in range(9) if n != 1}
    wrong = (part_of(2, 3) + 1) % 3
    world.put("u", 2, "c", wrong)
    assert f"its key belongs to partition {part_of(2, 3)} of 3" in refusal(world, capsys)
    source = f"orders={SOURCE}?partitioner=by-key"
    assert world.run("apply", "--feed", source) == 0
    world.put("u", 2, "d", wrong)
    world.put("u", 2, "e", part_of(2, 3))
    assert "changes of the row with id = 2 are in the partitions" in refusal(world, capsys, "--feed", source)
    world.topic.logs[wrong].pop()
    world.topic.logs[part_of(2, 3)].pop()
    world.topic.write(None, envelope("t"))
    assert "TRUNCATE in one of 3 partitions" in refusal(world, capsys)
    world.topic.logs[0].pop()
    world.topic.write(None, envelope("c", None, {"id": 20, "name": "a", "note": None}))
    assert "no key, in a topic of 3 partitions" in refusal(world, capsys)
    world.close()


def test_partitions_that_are_added(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All is well if everything before was read; a late message in the old partition is refused."""
    world = TopicWorld(tmp_path, partitions=1)
    world.put("r", 1, "a")
    world.put("r", 2, "a")
    world.begin()
    topic = world.topic
    topic.logs.append([])
    topic.ends.append(0)
    topic.lows.append(0)
    for number in range(1, 9):
        world.put("u", number, "b", part_of(number, 2))
    assert world.run("apply") == 0
    assert world.orders == dict.fromkeys(range(1, 9), "b")
    late = next(number for number in range(1, 9) if part_of(number, 2) == 1)
    world.put("u", late, "c", 0)
    assert "its key belongs to partition 1 of 2" in refusal(world, capsys)
    world.close()


# Relations without a primary key

SET = """
input relation orders(id: int, name: string, note: string?)
output relation named(name: string)
named(N) :- orders(_, N, _).
"""


def test_a_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes need the whole row before them. Copies, unknown rows, and rows without the key are refused."""
    world = TopicWorld(tmp_path, SET)

    def row(number: int, name: str) -> dict[str, Any]:
        return {"id": number, "name": name, "note": None}

    def put(operation: str, before: Any, after: Any, key: bytes | None = None) -> None:
        world.topic.write(key, envelope(operation, before, after))

    def take_back() -> None:
        world.topic.logs[0].pop()
        world.topic.ends[0] -= 1

    for number in range(4):
        put("r", None, row(number, "a"))
    put("u", row(0, "a"), row(0, "b"))
    put("d", row(1, "a"), None)
    world.begin()
    assert world.orders == {0: "b", 2: "a", 3: "a"}
    put("u", row(0, "b"), row(0, "c"))
    put("u", row(0, "c"), row(0, "b"))
    put("u", row(2, "a"), {**row(2, "z"), "note": UNCHANGED})
    put("d", row(3, "a"), None)
    assert world.run("apply") == 0
    assert world.orders == {0: "b", 2: "z"}
    for operation, before, after, said in (
        ("u", None, row(2, "y"), "an update without the row before it, and orders has no primary key"),
        ("d", {"id": 2}, None, "column name: missing"),
        ("d", row(2, "wrong"), None, "0 rows were inserted and 1 deleted, but orders gained 0 tuples and lost 0"),
        ("c", None, row(2, "z"), "the table has a row more than once"),
        ("c", None, {**row(5, "z"), "note": UNCHANGED}, "the placeholder of an unchanged value"),
    ):
        put(operation, before, after)
        assert said in refusal(world, capsys), said
        take_back()
    put("c", None, row(7, "q"), key_of(number=7))
    assert "orders has no column for number, so its rows cannot be told apart" in refusal(world, capsys)
    take_back()
    world.topic.write(key_of(id=2), b'{"id": 2, "name": "z", "note": null, "__deleted": "false"}')
    assert "has no primary key: declare one" in refusal(world, capsys)
    take_back()
    world.topic.write(None, envelope("t"))
    put("c", None, row(8, "n"))
    assert world.run("apply") == 0
    assert world.orders == {8: "n"}
    world.topic.policy = "compact"
    assert "is compacted" in refusal(world, capsys)
    world.close()


def test_a_set_without_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A deletion of a row that was never created shows that rows are missing."""
    world = TopicWorld(tmp_path, SET)
    world.topic.write(None, envelope("d", {"id": 1, "name": "a", "note": None}))
    assert world.run("connect", f"orders={SOURCE}") == 0
    assert "begins with a change of a row that it does not have, with id = 1" in refusal(world, capsys, command="init")
    world.close()


def test_a_multiset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is a copy more or less, if the connector is known to send each change once."""
    program = "input multiset relation orders(name: string, size: int) output relation total(n: int) "
    world = TopicWorld(tmp_path, f"{program} total(sum<S>) :- orders(_, S).")

    def put(operation: str, before: Any, after: Any) -> None:
        rows = [None if row is None else dict(zip(("name", "size"), row, strict=True)) for row in (before, after)]
        world.topic.write(None, envelope(operation, *rows))

    for _ in range(3):
        put("r", None, ("a", 5))
    assert "which would count as another copy" in refusal(world, capsys, f"orders={SOURCE}", command="connect")
    world.begin(f"{SOURCE}?delivery=exactly-once")
    assert world.rows("total") == {(15,)}
    put("d", ("a", 5), None)
    put("u", ("a", 5), ("b", 7))
    put("c", None, ("b", 7))
    assert world.run("apply") == 0
    assert world.rows("total") == {(19,)}
    put("d", ("a", 5), None)
    put("d", ("a", 5), None)
    assert 'deletes 2 copies of the row with name = "a", size = 5' in refusal(world, capsys)
    world.topic.logs[0].pop()
    world.topic.write(None, envelope("t"))
    put("c", None, ("b", 7))
    put("c", None, ("b", 7))
    assert world.run("apply") == 0
    assert world.rows("total") == {(14,)}
    assert world.job.verify(None, str(world.state), log=world.job.Log(quiet=True))["differences"] == []
    world.close()
