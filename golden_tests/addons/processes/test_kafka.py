"""Channels that are topics of Kafka, with a real broker."""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from flintlog.compiler.processes import compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.targets import EmitOptions
from flintlog.targets.processes.emit import emit_processes

from golden_tests.addons.processes.broker import Broker, running_broker
from golden_tests.addons.processes.model import World
from golden_tests.addons.processes.real import RealWorld
from golden_tests.addons.processes.test_model import any_schedule
from golden_tests.addons.processes.test_real import SWITCHES, check, until
from golden_tests.harness import VERSION, load_script
from golden_tests.nightly import AT_NIGHT, seeds

PAIR = """
process A {
  input relation e(x: int)
  A.p(X) :- e(X).
}
process B {
  B.p(X) :- A.p(X).
}
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests; each has topics of its own."""
    with running_broker(tmp_path_factory.mktemp("kafka") / "broker") as running:
        yield running


@pytest.fixture
def address(broker: Broker) -> str:
    """Topics that no other test has."""
    return f"kafka://{broker.hosts}/net-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def pair() -> dict[str, Any]:
    """The scripts of a sender and its reader."""
    compiled = compile_processes([SourceFile("pair.dl", PAIR)])
    plans = {name: compilation.plan for name, compilation in compiled.compilations.items()}
    files = emit_processes(compiled.topology, plans, EmitOptions(VERSION, format=False))
    return {name: load_script(files[f"{name}.py"]) for name in "AB"}


Open = Callable[[str], Any]


@pytest.fixture
def opened(address: str, pair: dict[str, Any]) -> Iterator[Open]:
    """Makes the ends of the channel, as often as is wanted."""
    made: list[Any] = []

    def end(name: str) -> Any:
        made.append(pair[name].KafkaChannels(address, pair[name].PROCESS, {}))
        return made[-1]

    yield end
    for one in made:
        one.close()


def seen(channels: Any, what: Callable[[], Any], seconds: float = 20.0) -> Any:
    """What is there as soon as something is."""
    end = time.monotonic() + seconds
    while True:
        channels.look()
        found = what()
        if found:
            return found
        assert time.monotonic() < end
        time.sleep(0.01)


def rows(count: int) -> pa.Table:
    """Rows that cannot be compressed."""
    rng = random.Random(1)
    values = [rng.getrandbits(60) for _ in range(count)]
    return pa.table({"_op": pa.array([1] * count, pa.int64()), "x": pa.array(values, pa.int64())})


@AT_NIGHT
def test_numbers(opened: Open, pair: dict[str, Any]) -> None:
    """No two runs have the same incarnation, later ones have higher ones, and others hear of them; so with sessions."""
    first, second = opened("A"), opened("A")
    taken = [one.take_incarnation("A") for _ in range(5) for one in (first, second)]
    assert taken == sorted(set(taken))
    assert len({one.nonce for one in taken}) == 10
    third = opened("A")
    assert third.last_incarnation("A") == taken[-1]
    assert third.last_incarnation("B") == pair["A"].NO_NUMBER
    assert seen(first, lambda: first.last_incarnation("A") == taken[-1])
    reader = opened("B")
    channel = reader.topics[next(iter(reader.topics))]
    assert third.session(channel) == pair["A"].NO_NUMBER
    sessions = [reader.open_session(channel) for _ in range(3)]
    assert sessions == sorted(set(sessions))
    assert seen(third, lambda: third.session(channel) == sessions[-1])


@AT_NIGHT
def test_leases(opened: Open, pair: dict[str, Any]) -> None:
    """What a process said last counts, but for what an older run of it says."""
    sender, reader, lease = opened("A"), opened("B"), pair["A"].Lease
    older, newer = (pair["A"].Number(number, "nonce") for number in (5, 7))
    sent = {"A.p--B": pair["A"].Sent(older, 1, 3)}
    assert reader.lease("A") is None
    sender.renew("A", lease(newer, 1, True, sent))
    assert seen(reader, lambda: reader.lease("A")) == (newer, 1, True, sent)
    sender.renew("A", lease(older, 9, True, {}))
    sender.renew("A", lease(newer, 2, False, {}))
    assert seen(reader, lambda: reader.lease("A").beat != 1)
    assert reader.lease("A") == (newer, 2, False, {})
    assert opened("B").lease("A") == (newer, 2, False, {})


def test_messages(opened: Open, pair: dict[str, Any]) -> None:
    """Of any size, and whole; those of an older session are dropped, and who begins sees nothing that is older."""
    sender, reader, message = opened("A"), opened("B"), pair["A"].Message
    (channel,) = sender.topics.values() or pair["A"].PROCESS.sends
    session, incarnation = reader.open_session(channel), sender.take_incarnation("A")
    sent = {}
    for sequence, count in enumerate((0, 10, 300_000), 1):
        sent[message(incarnation, session, 1, sequence, "changes", sequence == 2)] = rows(count)
    for one, content in sent.items():
        sender.send(channel, one, content)
    found = seen(reader, lambda: len(reader.waiting(channel)) == 3 and reader.waiting(channel))
    assert found == list(sent)
    for one in found:
        assert reader.read(channel, one).equals(sent[tuple(one)])
    reader.done(channel, found[0])
    assert reader.waiting(channel) == found[1:]
    again = opened("B")
    again.look(0.5)
    assert again.waiting(channel) == []
    assert reader.open_session(channel) > session
    assert reader.waiting(channel) == []


def test_what_is_made_up(address: str, pair: dict[str, Any]) -> None:
    """Without the secret no number is taken, no lease renewed and no message sent; what was said before counts no more
    when it is said again."""
    warnings: list[str] = []
    made = []

    def end(name: str, secret: bytes) -> Any:
        script = pair[name]
        made.append(script.KafkaChannels(address, script.PROCESS, {}, script.Seal(secret), warnings.append))
        return made[-1]

    secret = b"what only these two know"
    sender, reader, forger = end("A", secret), end("B", secret), end("A", b"what somebody guessed")
    (channel,) = pair["A"].PROCESS.sends
    lease, message = pair["A"].Lease, pair["A"].Message
    life, session = sender.take_incarnation("A"), reader.open_session(channel)
    sender.renew("A", lease(life, 1, True, {}))
    forger.take_incarnation("A")
    forger.take_incarnation("B")
    forger._take("session", channel.name)
    forger.renew("A", lease(life, 9, False, {}))
    forger._produce(forger.registry, {"session/A.p--B": b"x", "what is this?": b"\xff"})
    forger.send(channel, message(life, session, 1, 1, "snapshot", True), rows(1))
    forger._produce(forger.topic(channel), {"what is this?": b"", "a/b/c": b""})
    sent = message(life, session, 1, 1, "snapshot", False)
    sender.send(channel, sent, rows(10))
    assert seen(reader, lambda: len(reader.waiting(channel)) == 2)
    assert reader.read(channel, sent).equals(rows(10))
    with pytest.raises(pair["B"].UnsoundMessage, match="is damaged or was not sent with the secret"):
        reader.read(channel, message(life, session, 1, 1, "snapshot", True))
    assert seen(sender, lambda: sender.session(channel) == session)
    assert sender.last_incarnation("A") == life
    assert reader.last_incarnation("A") == life
    assert reader.lease("A") == (life, 1, True, {})
    assert reader.last_incarnation("B") == pair["B"].NO_NUMBER
    assert sum("valid mark" in warning for warning in warnings) >= 7
    again = end("A", secret)
    assert (again.last_incarnation("A"), again.session(channel)) == (life, session)
    for one in made:
        one.close()


def test_what_is_wrong(broker: Broker, address: str, pair: dict[str, Any]) -> None:
    """An address that is none, a broker that is not there, and a topic with several partitions."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    script = pair["A"]
    with pytest.raises(script.JobError, match="an address of channels is kafka://HOST:PORT/NAME"):
        script.KafkaChannels("localhost:9092", script.PROCESS, {})
    script.KAFKA_PATIENCE = 2.0
    with pytest.raises(script.JobError, match=r"cannot use Kafka at 127\.0\.0\.1:9: "):
        script.KafkaChannels("kafka://127.0.0.1:9/net", script.PROCESS, {})
    script.KAFKA_PATIENCE = 60.0
    name = f"{address.rpartition('/')[2]}.A.p--B"
    admin = AdminClient({"bootstrap.servers": broker.hosts})
    for made in admin.create_topics([NewTopic(name, 2)]).values():
        made.result()
    with pytest.raises(script.JobError, match=f"the topic {name} has several partitions"):
        script.KafkaChannels(address, script.PROCESS, {})


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_any_schedule(seed: int, address: str, tmp_path: Path) -> None:
    """Random programs and accidents, as with folders."""
    any_schedule(seed, tmp_path / "world", address)


def test_a_sender_that_is_busy(address: str, tmp_path: Path) -> None:
    """A reader that starts again keeps what it had while its sender works on a batch, for longer than a lease: the
    leases of the sender say that it has heard of the reader's new session."""
    world = World(PAIR, tmp_path / "root", random.Random(1), kafka=address)
    try:
        world.calm = True
        world.start_all()
        world.feed("A", "e", ("x",), [("+", (1,)), ("+", (2,))])
        world.settle()
        world.calm = True
        world.kill("B")
        world.logs["B"].events.clear()
        world.start("B")
        for _ in range(20):
            world.pass_time(1.0)
            time.sleep(0.05)
            world.turn("B")
        assert world.relations()["B.p"] == {(1,), (2,)}
        assert not [event for event, _ in world.logs["B"].events if event == "cut"]
        world.settle()
        assert world.says_all() and world.relations()["B.p"] == {(1,), (2,)}
    finally:
        world.close()


@AT_NIGHT
def test_switches(broker: Broker, address: str, tmp_path: Path) -> None:
    """Real processes: the controller killed in mid-batch and started elsewhere; the broker killed and started again."""
    world = RealWorld(SWITCHES, tmp_path, ["--channels", address])
    try:
        world.start("S1", "S2", "S3")
        world.feed("S1", "host", [("+", (host, 1)) for host in range(20)])
        world.feed("S2", "host", [("+", (host, 2)) for host in range(30, 50)])
        world.feed("S3", "blacklist", [("+", (host,)) for host in range(0, 60, 3)])
        check(world)
        assert not (tmp_path / "root" / "channels").exists()
        world.feed("S3", "blacklist", [("-", (0,)), ("+", (1,))])
        until(
            "S3 has begun",
            lambda: world.local.status("S3")["busy"] or len(world.local.status("S3")["fed"]["blacklist"]) > 1,
        )
        world.kill("S3")
        for name in ("S1", "S2"):
            line = f"S3.blacklist--{name}"
            until(f"{name} notices", lambda n=name, at=line: world.local.status(n)["receives"][at]["state"] == "cut")
        world.start_elsewhere("S3")
        check(world)
        broker.stop(signal.SIGKILL)
        world.feed("S2", "host", [("-", (33, 2))])
        time.sleep(3)
        broker.start()
        check(world)
    finally:
        world.close()


def test_topics_that_are_new_to_all(broker: Broker, pair: dict[str, Any]) -> None:
    """Processes that begin at once make their topics together, and wait until the broker has them."""
    for _ in range(10):
        address = f"kafka://{broker.hosts}/net-{uuid.uuid4().hex[:8]}"
        with ThreadPoolExecutor() as pool:
            names = ["A", "B", "A", "B"]
            begun = [pool.submit(pair[name].KafkaChannels, address, pair[name].PROCESS, {}) for name in names]
            made = [one.result() for one in begun]
        taken = [one.take_incarnation("A") for one in made]
        assert taken == sorted(set(taken))
        for one in made:
            one.close()
