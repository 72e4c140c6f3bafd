"""The picture of a topology, and what has flowed over its channels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..ir.topology import Channel, Topology
from .layered import Box, bent

WIDTH, RADIUS, SIZE, BEND = 860, 270, (128.0, 46.0), 0.16

#: A line of a process's log about what it has sent.
_SENT = re.compile(
    r"event=sent .*?channel=(?P<channel>\S+) kind=(?P<kind>\S+) .*?inserted=(?P<inserted>\d+) deleted=(?P<deleted>\d+)"
)


@dataclass
class Flow:
    """What has flowed over a channel: messages, snapshots among them, and the tuples in them."""

    messages: int = 0
    snapshots: int = 0
    inserted: int = 0
    deleted: int = 0


def flows(logs: Iterable[str]) -> dict[str, Flow]:
    """What the logs of processes say that they have sent, by channel; empty if there are no logs."""
    found: dict[str, Flow] = {}
    for log in logs:
        for line in log.splitlines():
            sent = _SENT.search(line)
            if sent:
                flow = found.setdefault(sent["channel"], Flow())
                flow.messages += 1
                flow.snapshots += sent["kind"] == "snapshot"
                flow.inserted += int(sent["inserted"])
                flow.deleted += int(sent["deleted"])
    return found


@dataclass(frozen=True)
class ProcessNode:
    """A process in the picture: its box, what it leads to (empty for nothing), and the relations that it is fed, which
    come from outside of the circle."""

    name: str
    box: Box
    href: str
    fed: str
    fed_from_below: bool


@dataclass(frozen=True)
class ChannelEdge:
    """The channels from one process to another as a curve, with the relations that they carry, a line for each."""

    path: str
    derivations: bool
    labels: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class ChannelRow:
    """A line of the table of channels; ``flowed`` has messages, snapshots, tuples inserted and deleted, if known."""

    cells: tuple[str, ...]
    flowed: tuple[str, ...]


@dataclass(frozen=True)
class TopologyView:
    """What a page shows of a topology: the picture, the table of channels, and recursions over several processes."""

    width: int
    height: int
    nodes: tuple[ProcessNode, ...]
    edges: tuple[ChannelEdge, ...]
    rows: tuple[ChannelRow, ...]
    flowed: bool
    recursions: tuple[str, ...]


def topology_view(topology: Topology, flowed: Mapping[str, Flow], anchors: Mapping[str, str]) -> TopologyView:
    """The processes on a circle, channels between them with their relations, and what they are fed.

    ``flowed`` is by channel, empty if nothing is known; ``anchors`` are what processes lead to, by name.
    """
    boxes = _boxes([process.name for process in topology.processes])
    between: dict[tuple[str, str], list[Channel]] = {}
    for channel in topology.channels:
        between.setdefault((channel.sender, channel.reader), []).append(channel)
    highest = min((box.y for box in boxes.values()), default=0.0)
    fed = {name: ", ".join(feed.relation for feed in topology.feeds if feed.reader == name) for name in boxes}
    return TopologyView(
        width=WIDTH,
        height=round(max((box.y for box in boxes.values()), default=0) + 110),
        nodes=tuple(
            ProcessNode(name, box, anchors.get(name, ""), fed[name], box.y > highest) for name, box in boxes.items()
        ),
        edges=tuple(_edge(boxes[sender], boxes[reader], found) for (sender, reader), found in between.items()),
        rows=tuple(_row(channel, flowed) for channel in topology.channels),
        flowed=bool(flowed),
        recursions=tuple(", ".join(names) for names in topology.recursions),
    )


def _boxes(names: list[str]) -> dict[str, Box]:
    """Where processes stand: on a circle, the first on top."""
    radius = RADIUS if len(names) > 2 else 150
    found = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / max(1, len(names)) - math.pi / 2
        x, y = WIDTH / 2 + 1.15 * radius * math.cos(angle), radius + 110 + radius * math.sin(angle)
        found[name] = Box(x - SIZE[0] / 2, y - SIZE[1] / 2, *SIZE)
    return found


def _edge(start: Box, end: Box, channels: list[Channel]) -> ChannelEdge:
    """A curve from one process to another, bent to its left, so that the way back lies beside it."""
    path, (x, y) = bent(start, end, BEND)
    middle = (len(channels) - 1) / 2
    return ChannelEdge(
        path,
        any(channel.entries for channel in channels),
        tuple((channel.relation, x, y + 16 * (number - middle)) for number, channel in enumerate(channels)),
    )


def _row(channel: Channel, flowed: Mapping[str, Flow]) -> ChannelRow:
    """What a channel carries, and what has flowed."""
    columns = ", ".join(map(str, channel.columns)) + (", and derivations" if channel.entries else "")
    flow = flowed.get(f"{channel.relation}--{channel.reader}", Flow())
    counts = (flow.messages, flow.snapshots, flow.inserted, flow.deleted) if flowed else ()
    return ChannelRow((channel.relation, channel.sender, channel.reader, columns), tuple(f"{n:,}" for n in counts))
