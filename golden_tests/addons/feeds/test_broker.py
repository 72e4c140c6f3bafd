"""The feed ``kafka-debezium:`` with a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from golden_tests.addons.feeds.envelopes import envelope, key_of
from golden_tests.addons.feeds.world import FeedWorld, refusal
from golden_tests.addons.processes.broker import Broker, running_broker
from golden_tests.nightly import AT_NIGHT

pytestmark = AT_NIGHT

PROGRAM = """
input relation orders(id: int, name: string) primary key (id)
output relation named(name: string, id: int)
named(N, I) :- orders(I, N).
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests; each has a topic of its own."""
    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


class BrokerWorld(FeedWorld):
    """A job whose input ``orders`` is fed by a topic of a broker."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        """Compile the program, and name a topic."""
        super().__init__(folder, PROGRAM)
        self.topic = f"shop.public.orders-{uuid.uuid4().hex[:8]}"
        self.settings = {"bootstrap.servers": broker.hosts, "log_level": 0}
        self.admin = AdminClient(self.settings)
        self.producer = Producer({**self.settings, "partitioner": "murmur2_random"})
        self.source = f"kafka-debezium://{broker.hosts}/{self.topic}"

    def make(self, partitions: int = 1, **settings: str) -> None:
        """Make the topic."""
        self.admin.create_topics([NewTopic(self.topic, partitions, config=settings)])[self.topic].result()

    def put(self, operation: str, number: int, name: str | None = None, producer: Any = None) -> None:
        """Queue what Debezium writes about an order."""
        producer, key = producer or self.producer, key_of(id=number)
        row = None if operation == "d" else {"id": number, "name": name}
        producer.produce(self.topic, envelope(operation, None, row), key)
        if operation == "d":
            producer.produce(self.topic, None, key)

    def begin(self) -> None:
        """Connect the topic, and build the state."""
        self.producer.flush()
        assert self.run("connect", f"orders={self.source}") == self.run("init") == 0


@pytest.fixture
def world(tmp_path: Path, broker: Broker) -> Iterator[BrokerWorld]:
    """A job without a state, and no topic yet."""
    made = BrokerWorld(tmp_path, broker)
    yield made
    made.close()


def test_transactions_and_identity(world: BrokerWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """What was aborted is not read, nor what is undecided; a topic that was made again has another identity. No topic
    is made, no group is joined, and no offset committed."""
    assert "there is no topic" in refusal(world, capsys, f"orders={world.source}", command="connect")
    assert world.topic not in world.admin.list_topics().topics
    world.make(partitions=2)
    for number in range(20):
        world.put("r", number, "a")
    world.begin()
    sender = Producer({**world.settings, "partitioner": "murmur2_random", "transactional.id": world.topic})
    sender.init_transactions()
    for end in (sender.abort_transaction, sender.commit_transaction):
        sender.begin_transaction()
        for number in range(5):
            world.put("u", number, end.__name__, sender)
        world.put("d", 7, None, sender)
        sender.flush()
        assert world.run("apply") == 0
        end()
    for number in range(10, 15):
        world.put("u", number, "plain")
    world.producer.flush()
    assert world.run("apply") == 0
    names = {**dict.fromkeys(range(20), "a"), **dict.fromkeys(range(5), "commit_transaction")}
    names |= dict.fromkeys(range(10, 15), "plain")
    del names[7]
    assert world.rows("orders") == {*names.items()}
    # What was aborted is a range without changes.
    assert world.manifest.commit == 3
    assert "nothing new" in capsys.readouterr().out
    groups = world.admin.list_consumer_groups().result()
    assert [group.group_id for group in groups.valid] == []
    world.admin.delete_topics([world.topic])[world.topic].result()
    for _ in range(50):
        if world.topic not in world.admin.list_topics().topics:
            break
        time.sleep(0.1)
    world.make(partitions=2)
    world.put("r", 1, "new")
    world.producer.flush()
    assert "is another table than the one that was read" in refusal(world, capsys)
    assert world.run("apply", "--resync", "orders") == 0
    assert world.rows("orders") == {(1, "new")}


def test_messages_that_are_removed(world: BrokerWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """By the offsets that brokers tell."""
    world.make()
    world.put("r", 1, "a")
    world.begin()
    for name in "bcdef":
        world.put("u", 1, name)
    world.producer.flush()
    world.admin.delete_records([TopicPartition(world.topic, 0, 4)])[TopicPartition(world.topic, 0)].result()
    assert "partition 0 from offset 1 up to 4 are gone" in refusal(world, capsys)
    assert "?complete=true" in refusal(world, capsys, "--resync", "orders")
    source = f"orders={world.source}?complete=true"
    assert world.run("apply", "--resync", "orders", "--feed", source) == 0
    assert world.rows("orders") == {(1, "f")}


def test_a_compacted_topic(world: BrokerWorld) -> None:
    """The broker removes messages by key, and the feed finds the same rows as before."""
    world.make(**{
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "200",
    })  # fmt: skip
    for number in range(5):
        world.put("r", number, "a")
    world.begin()
    for name in "bcd":
        for number in range(4):
            world.put("u", number, name)
    world.put("d", 3)
    world.producer.flush()
    wanted = {(number, "d") for number in range(3)} | {(4, "a")}
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(1)
        world.put("u", 4, "a")
        world.producer.flush()
        reader = world.job.TopicReader(world.job.topic_address(world.source.partition(":")[2]))
        found = [one.offset for part in reader.messages(reader.state().bounds) for one in part]
        if 5 not in found:
            break
    else:
        pytest.skip("the broker has not compacted the topic")
    assert world.run("apply") == 0
    assert world.rows("orders") == wanted
    assert world.run("apply", "--resync", "orders") == 0
    assert world.rows("orders") == wanted


def test_many_messages(world: BrokerWorld) -> None:
    """Of several partitions, in batches that begin where the last one ended, whatever arrives meanwhile."""
    world.make(partitions=3)
    for number in range(30_000):
        world.put("r", number, "a" * 100)
        world.producer.poll(0)
    world.begin()
    for name in "bc":
        for number in range(0, 30_000, 3):
            world.put("u", number, name)
            world.producer.poll(0)
        world.producer.flush()
        assert world.run("apply") == 0
    assert world.rows("orders") == {(n, "a" * 100 if n % 3 else "c") for n in range(30_000)}


def test_a_broker_that_goes_away(world: BrokerWorld, broker: Broker) -> None:
    """``follow`` waits for it, and goes on; the command that is not following says that it cannot be reached."""
    world.make()
    world.put("r", 1, "a")
    world.begin()
    patient = world.script.with_name("patient.py")
    text = world.script.read_text(encoding="utf-8").replace("KAFKA_PATIENCE = 60.0", "KAFKA_PATIENCE = 2.0")
    patient.write_text(text, encoding="utf-8")
    command = [sys.executable, str(patient), "follow", "--state", str(world.state), "--json"]
    with subprocess.Popen(
        [*command, "--poll", "0.05"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout
        assert process.stderr
        world.put("u", 1, "b")
        world.producer.flush()
        assert json.loads(process.stdout.readline())["batch"] == "orders@1..2"
        broker.stop()
        assert any("event=trouble" in line for line in process.stderr)
        broker.start()
        world.put("u", 1, "c")
        world.producer.flush()
        assert json.loads(process.stdout.readline())["batch"] == "orders@2..3"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert world.rows("orders") == {(1, "c")}


def test_brokers_that_cannot_be_reached(world: BrokerWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """That may pass, so it is not blamed on the input."""
    world.job.KAFKA_PATIENCE = 1.0
    assert world.run("connect", "orders=kafka-debezium://127.0.0.1:9/orders", "--json") == 1
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert said["kind"] == "passing"
    assert "kafka-debezium://127.0.0.1:9/orders" in said["error"]
