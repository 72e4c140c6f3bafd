"""Draw a topology, with what was sent over its channels."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from ...ir.topology import Topology, TopologyChannel
from .joblog import run_logs
from .layered import Box, bent

WIDTH, RADIUS, SIZE, BEND = 860, 270, (128.0, 46.0), 0.16

_SENT = re.compile(
    r"event=sent .*?channel=(?P<channel>\S+) kind=(?P<kind>\S+) .*?inserted=(?P<inserted>\d+) deleted=(?P<deleted>\d+)"
)
"""A message sent, in the log of a process."""


@dataclass
class Flow:
    """Traffic of a channel: messages, the snapshots among them, and the tuples in them."""

    messages: int = 0
    snapshots: int = 0
    inserted: int = 0
    deleted: int = 0

    @property
    def tuples(self) -> int:
        """Return the number of tuples that were sent, inserted or deleted."""
        return self.inserted + self.deleted


def total(found: Iterable[Flow]) -> Flow:
    """Return the sum of what was sent over channels."""
    return Flow(*map(sum, zip(astuple(Flow()), *map(astuple, found), strict=True)))


def run_flows(root: Path) -> dict[str, Flow]:
    """Return what the processes of the run in the folder ``root`` sent, by channel, according to their logs. If the log
    of a process is elsewhere, its status says what it has sent since it was started. Raise OSError if a log cannot be
    read."""
    logs = run_logs(root)
    totals = flows(logs.values())
    for path in sorted((root / "status").glob("*.json")):
        if path.stem not in logs and path.is_file():
            try:
                sends = json.loads(path.read_text(encoding="utf-8"))["sends"]
                totals |= {channel: Flow(**said["total"]) for channel, said in sends.items()}
            except (OSError, ValueError, TypeError, LookupError, AttributeError):
                # It is being replaced, or something else has this name.
                continue
    return totals


def flows(logs: Iterable[str]) -> dict[str, Flow]:
    """Return what processes sent, according to their logs, by channel; empty without logs."""
    by_channel: dict[str, Flow] = {}
    for log in logs:
        for line in log.splitlines():
            sent = _SENT.search(line)
            if sent:
                flow = by_channel.setdefault(sent["channel"], Flow())
                flow.messages += 1
                flow.snapshots += sent["kind"] == "snapshot"
                flow.inserted += int(sent["inserted"])
                flow.deleted += int(sent["deleted"])
    return by_channel


@dataclass(frozen=True)
class ProcessNode:
    """A process in the picture: its box, its link target (or empty), and the relations fed from outside, as text, which
    point at it from above or below."""

    name: str
    box: Box
    href: str
    fed: str
    fed_from_below: bool


@dataclass(frozen=True)
class ChannelEdge:
    """The channels from one process to another as a curve; ``labels`` are the relations carried, with positions."""

    path: str
    derivations: bool
    labels: tuple[tuple[str, float, float], ...]


@dataclass(frozen=True)
class ChannelRow:
    """A row of the table of channels; ``flowed`` has messages, snapshots, insertions and deletions, or is empty."""

    cells: tuple[str, ...]
    flowed: tuple[str, ...]


@dataclass(frozen=True)
class TopologyView:
    """The view of a topology on a page: the picture, the table of channels, and recursions across processes."""

    width: int
    height: int
    nodes: tuple[ProcessNode, ...]
    edges: tuple[ChannelEdge, ...]
    rows: tuple[ChannelRow, ...]
    flowed: bool
    recursions: tuple[str, ...]


def topology_view(topology: Topology, flowed: Mapping[str, Flow], anchors: Mapping[str, str]) -> TopologyView:
    """Return the view of a topology: processes on a circle, the channels between them, and their feeds.

    ``flowed`` is by channel, empty if unknown; ``anchors`` are the link targets of processes by name.
    """
    boxes = _boxes([process.name for process in topology.processes])
    between: dict[tuple[str, str], list[TopologyChannel]] = {}
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
        edges=tuple(_edge(boxes[sender], boxes[reader], channels) for (sender, reader), channels in between.items()),
        rows=tuple(_row(channel, flowed) for channel in topology.channels),
        flowed=bool(flowed),
        recursions=tuple(", ".join(names) for names in topology.recursions),
    )


def _boxes(names: list[str]) -> dict[str, Box]:
    """Return the boxes of processes on a circle, the first at the top."""
    radius = RADIUS if len(names) > 2 else 150
    boxes = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / max(1, len(names)) - math.pi / 2
        x, y = WIDTH / 2 + 1.15 * radius * math.cos(angle), radius + 110 + radius * math.sin(angle)
        boxes[name] = Box(x - SIZE[0] / 2, y - SIZE[1] / 2, *SIZE)
    return boxes


def _edge(start: Box, end: Box, channels: list[TopologyChannel]) -> ChannelEdge:
    """Return a curve from one process to another, bent to its left so that the opposite edge does not cover it."""
    path, (x, y) = bent(start, end, BEND)
    middle = (len(channels) - 1) / 2
    return ChannelEdge(
        path,
        any(channel.entries for channel in channels),
        tuple((channel.relation, x, y + 16 * (number - middle)) for number, channel in enumerate(channels)),
    )


def _row(channel: TopologyChannel, flowed: Mapping[str, Flow]) -> ChannelRow:
    """Return the table row of a channel."""
    columns = ", ".join(map(str, channel.columns)) + (", and derivations" if channel.entries else "")
    flow = flowed.get(f"{channel.relation}--{channel.reader}", Flow())
    counts = (flow.messages, flow.snapshots, flow.inserted, flow.deleted) if flowed else ()
    return ChannelRow((channel.relation, channel.sender, channel.reader, columns), tuple(f"{n:,}" for n in counts))
