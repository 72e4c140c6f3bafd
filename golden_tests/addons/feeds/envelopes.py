"""Messages as Debezium writes them, and a topic in memory that keeps them like a broker does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SOURCE = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "lsn": 1}

Fields = Mapping[str, str | Mapping[str, Any]]
"""The columns of a table, each with its type, or its whole schema."""


def schema_of(fields: Fields, **more: Any) -> dict[str, Any]:
    """Return the schema of a row."""
    members = [
        {"field": name, "optional": True, **({"type": kind} if isinstance(kind, str) else kind)}
        for name, kind in fields.items()
    ]
    return {"type": "struct", "fields": members, **more}


def envelope(
    operation: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    fields: Fields | None = None,
    **source: Any,
) -> bytes:
    """Return a message about a row; with the schemas of its ``fields`` if they are given."""
    payload = {
        "before": before,
        "after": after,
        "source": {**SOURCE, **source},
        "op": operation,
        "ts_ms": 1_700_000_000_000,
        "transaction": None,
    }
    if fields is None:
        return json.dumps(payload).encode()
    members = [
        schema_of(fields, field=side, optional=True, name="shop.public.orders.Value") for side in ("before", "after")
    ]
    members += [
        {"type": "struct", "fields": [], "field": "source"},
        {"type": "string", "field": "op", "optional": False},
    ]
    schema = {"type": "struct", "fields": members, "name": "shop.public.orders.Envelope"}
    return json.dumps({"schema": schema, "payload": payload}).encode()


def key_of(fields: Fields | None = None, **values: Any) -> bytes:
    """Return the key of a message; with a schema if ``fields`` are given."""
    if fields is None:
        return json.dumps(values).encode()
    chosen = {name: fields[name] for name in values}
    return json.dumps({"schema": schema_of(chosen, name="shop.public.orders.Key"), "payload": values}).encode()


@dataclass
class MemoryTopic:
    """A topic in memory. ``logs`` has the messages of each partition with their offsets; None stands for a mark of a
    transaction, or a message of an aborted one."""

    partitions: int = 1
    identity: str = "cluster/orders/one"
    policy: str = "delete"
    kept_deletions: float | None = None
    logs: list[list[tuple[int, bytes | None, bytes | None]]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    lows: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin empty."""
        self.logs, self.ends, self.lows = ([make() for _ in range(self.partitions)] for make in (list, int, int))

    def write(self, key: bytes | None, value: bytes | None, part: int = 0) -> None:
        """Append a message."""
        self.logs[part].append((self.ends[part], key, value))
        self.ends[part] += 1

    def mark(self, part: int = 0) -> None:
        """Append what readers do not see."""
        self.ends[part] += 1

    def compact(self, deletions: bool = False) -> None:
        """Keep the last message of each key; without tombstones if ``deletions`` are no longer kept."""
        for log in self.logs:
            last = {key: offset for offset, key, _ in log}
            log[:] = [one for one in log if last[one[1]] == one[0] and not (deletions and one[2] is None)]

    def forget(self, before: int, part: int = 0) -> None:
        """Remove the messages before an offset, as retention does."""
        self.logs[part] = [one for one in self.logs[part] if one[0] >= before]
        self.lows[part] = before

    def install(self, job: Any) -> None:
        """Let a job read this topic, whatever its sources say."""
        topic = self

        class MemoryReader:
            """Reads the topic as the client does."""

            def __init__(self, address: Any) -> None:
                """Note the address."""

            def state(self) -> Any:
                """Return what is in the topic."""
                bounds = {part: (topic.lows[part], topic.ends[part]) for part in range(len(topic.logs))}
                return job.TopicState(topic.identity, bounds, topic.policy, topic.kept_deletions)

            def messages(self, ranges: Mapping[int, tuple[int, int]]) -> Iterator[list[Any]]:
                """Yield the messages of ranges, a few at a time, and sometimes none."""
                for part, (begin, end) in ranges.items():
                    wanted = [job.TopicMessage(part, *one) for one in topic.logs[part] if begin <= one[0] < end]
                    for place in range(0, len(wanted), 3):
                        yield wanted[place : place + 3]
                        yield []

        job.TopicReader = MemoryReader
