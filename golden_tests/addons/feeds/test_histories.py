"""Random histories of a table, as Debezium writes them to a topic, and cut into batches anywhere."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flintlog.runtime.addons.feeds.debezium_events import murmur2

from golden_tests.addons.feeds.envelopes import MemoryTopic, envelope, key_of
from golden_tests.addons.feeds.world import FeedWorld, FileWorld
from golden_tests.nightly import by_day, seeds

COLUMNS = "(shop: int, id: string, name: string, note: string?, size: int?)"
KEYED = f"""
input relation orders{COLUMNS} primary key (id, shop)
output relation named(name: string, many: int)
output relation noted(id: string, note: string)
named(N, count<I>) :- orders(_, I, N, _, _).
noted(I, N) :- orders(S, I, _, N, Z), N != null, Z != null.
"""
SET = KEYED.replace(" primary key (id, shop)", "")
FIELDS = {
    "shop": "int64",
    "id": "string",
    "name": "string",
    "note": {"type": "string", "name": "io.debezium.data.Json"},
    "size": "int32",
}
UNCHANGED = "__debezium_unavailable_value"
TEXTS = ("", "a", "null", "é", "O'Hara", "a,b", "-", "\u0000", "__debezium_unavailable", "{}", " a")
NUMBERS = (0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63))

Key = tuple[int, str]
Row = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """What a message says in effect: a row, with the columns that stay as they are, or that there is none. All rows are
    gone if it has no key."""

    part: int
    offset: int
    key: Key | None
    row: Row | None = None
    kept: tuple[str, ...] = ()


class History:
    """A table that changes at random, and what a connector writes about it."""

    def __init__(self, rng: random.Random, topic: MemoryTopic, keyed: bool) -> None:
        """Choose how the connector is configured."""
        self.rng, self.topic, self.keyed = rng, topic, keyed
        self.table: dict[Key, Row] = {}
        self.said: list[Said] = []
        self.fields = FIELDS if rng.random() < 0.5 else None
        self.before = rng.choice(("full", "key", "none")) if keyed else "full"
        self.unwrapped = keyed and rng.random() < 0.25
        self.tombstones = rng.random() < 0.7
        self.sizes = (0, 1, -1, 2**31 - 1)

    def step(self) -> None:
        """Change the table, or let the connector begin again from an earlier message."""
        choice = self.rng.random()
        if self.keyed and choice < 0.04 and self.said:
            self.again()
        elif choice < 0.07 and len(self.topic.logs) == 1 and not self.unwrapped:
            self.table.clear()
            self.write(None, envelope("t", fields=self.fields), None)
        elif choice < 0.15:
            self.topic.mark(self.rng.randrange(len(self.topic.logs)))
        elif choice < 0.25 and self.table:
            self.snapshot_row()
        else:
            self.change()

    def change(self) -> None:
        """Insert, update or delete a row."""
        rng = self.rng
        key = (rng.choice(NUMBERS), rng.choice(TEXTS))
        old = self.table.get(key)
        if old is None:
            self.put("c", key, None, self.new_row(key))
        elif rng.random() < 0.35:
            self.delete(key)
        elif rng.random() < 0.2:
            other = (rng.choice(NUMBERS), rng.choice(TEXTS))
            if other not in self.table:
                # A changed key is a deletion and a creation.
                row = {**old, "shop": other[0], "id": other[1]}
                self.delete(key)
                self.put("c", other, None, row)
        else:
            changed = {name: value for name, value in self.new_row(key).items() if rng.random() < 0.5}
            self.put("u", key, old, {**old, **changed})

    def new_row(self, key: Key) -> Row:
        """Return a row with this key."""
        note, size = self.rng.choice((*TEXTS, None)), self.rng.choice((*self.sizes, None))
        return {"shop": key[0], "id": key[1], "name": self.rng.choice(TEXTS), "note": note, "size": size}

    def snapshot_row(self) -> None:
        """Let an incremental snapshot read a row."""
        if self.keyed:
            key = self.rng.choice(sorted(self.table))
            self.put("r", key, None, self.table[key])

    def put(self, operation: str, key: Key, old: Row | None, row: Row) -> None:
        """Write that a row is there; unchanged text is not always sent."""
        kept: tuple[str, ...] = ()
        if operation == "u" and old is not None and self.rng.random() < 0.4:
            kept = tuple(name for name in ("name", "note") if row[name] == old[name] and old[name] is not None)
        sent = {**row, **dict.fromkeys(kept, UNCHANGED)}
        self.table[key] = row
        if self.unwrapped:
            value = json.dumps({**sent, "__op": operation, "__deleted": "false"}).encode()
        else:
            value = envelope(operation, self.old(key, old), sent, self.fields)
        self.write(key, value, row, kept)

    def delete(self, key: Key) -> None:
        """Write that a row is gone."""
        old = self.table.pop(key)
        if self.unwrapped:
            value = json.dumps({**old, **dict.fromkeys(("name", "note", "size")), "__deleted": "true"}).encode()
        else:
            value = envelope("d", self.old(key, old), None, self.fields)
        self.write(key, value, None)
        if self.tombstones and not self.unwrapped:
            self.write(key, None, None)

    def old(self, key: Key, row: Row | None) -> Mapping[str, Any] | None:
        """Return what a message has of the row before it."""
        if row is None or self.before == "none":
            return None
        return row if self.before == "full" else {**dict.fromkeys(FIELDS), "shop": key[0], "id": key[1]}

    def write(self, key: Key | None, value: bytes | None, row: Row | None, kept: tuple[str, ...] = ()) -> None:
        """Append a message to the partition of its key."""
        named = None if key is None else key_of(self.fields, shop=key[0], id=key[1])
        count = len(self.topic.logs)
        part = 0 if named is None else (murmur2(named) & 0x7FFF_FFFF) % count
        self.said.append(Said(part, self.topic.ends[part], key, row, kept))
        self.topic.write(named, value, part)

    def again(self) -> None:
        """Repeat the last messages, as a connector does that was killed before it had noted how far it was."""
        first = self.rng.randrange(max(0, len(self.said) - 12), len(self.said))
        for one in self.said[first:]:
            _, key, value = next(found for found in self.topic.logs[one.part] if found[0] == one.offset)
            self.said.append(Said(one.part, self.topic.ends[one.part], one.key, one.row, one.kept))
            self.topic.write(key, value, one.part)

    def rows(self, ends: Mapping[int, int]) -> set[tuple[Any, ...]]:
        """Return the rows that the messages before some offsets tell."""
        found: dict[Key, Row] = {}
        for one in self.said:
            if one.offset >= ends[one.part]:
                continue
            if one.key is None:
                found.clear()
            elif one.row is None:
                found.pop(one.key, None)
            else:
                known = found.get(one.key, one.row)
                found[one.key] = {**one.row, **{name: known[name] for name in one.kept}}
        return {tuple(row[name] for name in FIELDS) for row in found.values()}


@by_day(1)
@pytest.mark.parametrize("kind_of_world", [FeedWorld, FileWorld])
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_any_history(seed: int, kind_of_world: type[FeedWorld], tmp_path: Path) -> None:
    """After each batch, the relation has the rows that its messages tell, and the views what follows from them."""
    rng = random.Random(seed)
    keyed = rng.random() < 0.75
    topic = MemoryTopic(rng.choice((1, 2, 3)) if keyed else 1)
    world = kind_of_world(tmp_path, KEYED if keyed else SET)
    topic.install(world.job)
    history = History(rng, topic, keyed)
    for _ in range(rng.randrange(12)):
        history.step()
    assert world.run("connect", "orders=kafka-debezium://broker/orders?tables=several") == world.run("init") == 0
    for number in range(6):
        assert world.rows("orders") == history.rows(dict(enumerate(topic.ends)))
        for _ in range(rng.randrange(40)):
            history.step()
        resync = ("--resync", "orders") if number == 3 else ()
        assert world.run("apply", *resync) == 0
    assert world.rows("orders") == {tuple(row[name] for name in FIELDS) for row in history.table.values()}
    assert world.differences() == []
    world.close()
