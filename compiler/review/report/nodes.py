"""Draw the nodes of a located program, with what they sent each other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...ir.topology import NodesTopology
from ...naming import counted
from .layered import Box, bent
from .topology import BEND, RADIUS, WIDTH, Flow, total

MOST_DRAWN = 24
"""With more nodes there is no room for a picture, and a table of pairs is too wide."""

SIZE, THIN, THICK = (76.0, 34.0), 1.0, 7.0
"""The size of a node, and the widths of lines: between nodes that sent the fewest tuples and the most."""


@dataclass(frozen=True)
class NodeEdge:
    """Drawing of what a node sends another one: a curve, the width of its line, and what it says in words."""

    path: str
    width: float
    title: str


@dataclass(frozen=True)
class NodesPageView:
    """The view of nodes on a page: a picture, if what they sent is known and they are few enough; their feeds; a table
    of what they send each other; and, of a run, a table of what each has sent each of them."""

    size: int
    height: int
    count: str
    outputs: str
    nodes: tuple[tuple[str, Box], ...]
    edges: tuple[NodeEdge, ...]
    feeds: tuple[tuple[str, str, str], ...]
    routes: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    readers: tuple[str, ...]
    senders: tuple[tuple[str, tuple[str, ...]], ...]
    recursions: tuple[str, ...]
    flowed: bool


def nodes_view(topology: NodesTopology, flowed: Mapping[str, Flow]) -> NodesPageView:
    """Return the view of nodes. ``flowed`` is what was sent by channel, empty if unknown."""
    names = topology.names if len(topology.names) <= MOST_DRAWN else ()
    relations: dict[str, list[Flow]] = {route.relation: [] for route in topology.routes}
    pairs: dict[tuple[str, str], list[Flow]] = {}
    for channel, flow in flowed.items():
        sent, _, reader = channel.rpartition("--")
        sender, _, relation = sent.partition(".")
        relations.setdefault(relation, []).append(flow)
        for to in (reader, "all"):
            pairs.setdefault((sender, to), []).append(flow)
    totals = {pair: total(each) for pair, each in pairs.items()}
    boxes = _boxes(names)
    readers = ("all", *names) if flowed else ()
    return NodesPageView(
        size=WIDTH,
        height=2 * RADIUS + 80,
        count=counted(len(topology.names), "node"),
        outputs=", ".join(topology.outputs),
        nodes=tuple(boxes.items()),
        edges=tuple(_edges(boxes, totals)) if flowed else (),
        feeds=tuple((f.relation, f.to, ", ".join(map(str, f.columns))) for f in topology.feeds),
        routes=tuple(
            (
                (route.relation, ", ".join(route.rules), route.to, ", ".join(map(str, route.columns))),
                _counts(total(relations[route.relation])) if flowed else (),
            )
            for route in topology.routes
        ),
        readers=readers,
        senders=tuple((name, tuple(_cell(totals.get((name, to))) for to in readers)) for name in topology.names)
        if flowed
        else (),
        recursions=tuple(", ".join(members) for members in topology.recursions),
        flowed=bool(flowed),
    )


def _boxes(names: tuple[str, ...]) -> dict[str, Box]:
    """Return the boxes of nodes on a circle, the first at the top."""
    boxes = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / len(names) - math.pi / 2
        x, y = WIDTH / 2 + 1.3 * RADIUS * math.cos(angle), RADIUS + 40 + RADIUS * math.sin(angle)
        boxes[name] = Box(x - SIZE[0] / 2, y - SIZE[1] / 2, *SIZE)
    return boxes


def _edges(boxes: Mapping[str, Box], sent: Mapping[tuple[str, str], Flow]) -> Iterator[NodeEdge]:
    """Yield a curve for each pair of nodes of which one sent tuples to the other, as wide as they are many."""
    between = {pair: flow for pair, flow in sent.items() if pair[0] != pair[1] and set(pair) <= boxes.keys()}
    most = max((flow.tuples for flow in between.values()), default=0)
    for (sender, reader), flow in between.items():
        if flow.tuples:
            path, _ = bent(boxes[sender], boxes[reader], BEND)
            width = THIN + (THICK - THIN) * flow.tuples / most
            yield NodeEdge(path, width, f"{sender} to {reader}: {flow.messages:,} messages, {flow.tuples:,} tuples")


def _counts(flow: Flow) -> tuple[str, ...]:
    """Return the cells of a relation."""
    return tuple(f"{n:,}" for n in (flow.messages, flow.snapshots, flow.inserted, flow.deleted))


def _cell(flow: Flow | None) -> str:
    """Return the cell of a pair of nodes: messages and tuples."""
    return f"{flow.messages:,} / {flow.tuples:,}" if flow else ""
