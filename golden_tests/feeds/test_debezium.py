"""The feed ``kafka-debezium:`` on a topic in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden_tests.feeds.conftest import Applied
from golden_tests.feeds.envelopes import MemoryTopic, envelope, key_of
from golden_tests.feeds.world import FeedWorld

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
