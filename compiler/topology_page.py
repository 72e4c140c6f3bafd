"""A page with the picture of a topology, and what has flowed over its channels: one file that needs no network."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .ir.topology import Channel, Topology

WIDTH, RADIUS, BOX = 860, 270, (128, 46)

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #222; padding: 0 1rem; }
svg { width: 100%; height: auto; }
.process { fill: #eef4fa; stroke: #1b6ca8; stroke-width: 1.5; }
.channel { fill: none; stroke: #1b6ca8; stroke-width: 1.5; }
.derivations { stroke-dasharray: 6 3; }
.feed { fill: none; stroke: #888; }
text { font-size: 13px; text-anchor: middle; dominant-baseline: middle; }
.name { font-weight: 600; font-size: 15px; }
.on { paint-order: stroke; stroke: #fff; stroke-width: 5px; }
.outside { fill: #666; font-size: 12px; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: .25rem .8rem; border-bottom: 1px solid #ddd; }
td.number, th.number { text-align: right; }
"""

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


def flows(logs: Path) -> dict[str, Flow]:
    """What the logs of processes say that they have sent, by channel; empty if there are no logs."""
    found: dict[str, Flow] = {}
    for path in sorted(logs.glob("*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            sent = _SENT.search(line)
            if sent:
                flow = found.setdefault(sent["channel"], Flow())
                flow.messages += 1
                flow.snapshots += sent["kind"] == "snapshot"
                flow.inserted += int(sent["inserted"])
                flow.deleted += int(sent["deleted"])
    return found


def topology_page(topology: Topology, title: str, flowed: Mapping[str, Flow]) -> str:
    """The page."""
    shown = html.escape(title)
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{shown}</title><style>{_STYLE}</style></head><body>',
        f"<h1>{shown}</h1>",
        picture(topology),
        channel_table(topology, flowed),
        *(
            f"<p>Recursion across processes, maintained with derivation sets: {html.escape(', '.join(names))}.</p>"
            for names in topology.recursions
        ),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def picture(topology: Topology) -> str:
    """The processes on a circle, channels between them with their relations, and what they are fed."""
    places = _places([process.name for process in topology.processes])
    height = max((y for _, y in places.values()), default=0) + 90
    lines = [
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="processes and channels">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#1b6ca8"/></marker></defs>',
    ]
    between: dict[tuple[str, str], list[Channel]] = {}
    for channel in topology.channels:
        between.setdefault((channel.sender, channel.reader), []).append(channel)
    for (sender, reader), channels in between.items():
        lines += _edge(places[sender], places[reader], channels)
    for name, (x, y) in places.items():
        fed = [feed.relation for feed in topology.feeds if feed.reader == name]
        if fed:
            lines.append(f'<path class="feed" d="M{x:.0f} {y - 62:.0f}V{y - BOX[1] / 2:.0f}"/>')
            lines.append(f'<text class="outside" x="{x:.0f}" y="{y - 71:.0f}">{html.escape(", ".join(fed))}</text>')
        left, top = x - BOX[0] / 2, y - BOX[1] / 2
        size = f'width="{BOX[0]}" height="{BOX[1]}"'
        lines.append(f'<rect class="process" x="{left:.0f}" y="{top:.0f}" {size} rx="6"/>')
        lines.append(f'<text class="name" x="{x:.0f}" y="{y:.0f}">{html.escape(name)}</text>')
    return "\n".join([*lines, "</svg>"])


def _places(names: list[str]) -> dict[str, tuple[float, float]]:
    """Where processes stand: on a circle, the first on top."""
    radius = RADIUS if len(names) > 2 else 150
    found = {}
    for number, name in enumerate(names):
        angle = 2 * math.pi * number / max(1, len(names)) - math.pi / 2
        found[name] = (WIDTH / 2 + 1.15 * radius * math.cos(angle), radius + 110 + radius * math.sin(angle))
    return found


def _edge(start: tuple[float, float], end: tuple[float, float], channels: list[Channel]) -> list[str]:
    """A curve from one process to another, bent to its left, so that the way back lies beside it."""
    (x1, y1), (x2, y2) = start, end
    dx, dy = x2 - x1, y2 - y1
    length = math.hypot(dx, dy) or 1.0
    bend = 0.16 * length
    cx, cy = (x1 + x2) / 2 + bend * dy / length, (y1 + y2) / 2 - bend * dx / length
    x1, y1 = _at_box(x1, y1, cx, cy)
    x2, y2 = _at_box(x2, y2, cx, cy)
    mx, my = (x1 + 2 * cx + x2) / 4, (y1 + 2 * cy + y2) / 4
    marked = " derivations" if any(channel.entries for channel in channels) else ""
    path = f'd="M{x1:.0f} {y1:.0f}Q{cx:.0f} {cy:.0f} {x2:.0f} {y2:.0f}"'
    lines = [f'<path class="channel{marked}" {path} marker-end="url(#tip)"/>']
    for number, channel in enumerate(channels):
        place = my + 16 * (number - (len(channels) - 1) / 2)
        lines.append(f'<text class="on" x="{mx:.0f}" y="{place:.0f}">{html.escape(channel.relation)}</text>')
    return lines


def _at_box(x: float, y: float, to_x: float, to_y: float) -> tuple[float, float]:
    """Where the way from the middle of a box to a point leaves it."""
    dx, dy = to_x - x, to_y - y
    scale = min(BOX[0] / 2 / abs(dx) if dx else math.inf, BOX[1] / 2 / abs(dy) if dy else math.inf)
    return x + dx * min(scale, 1.0), y + dy * min(scale, 1.0)


def channel_table(topology: Topology, flowed: Mapping[str, Flow]) -> str:
    """A line per channel, with what has flowed if that is known."""
    heads = ["relation", "from", "to", "columns"]
    numbers = ["messages", "snapshots", "inserted", "deleted"] if flowed else []
    rows = [
        "<tr>" + "".join(f"<th>{head}</th>" for head in heads),
        *(f'<th class="number">{n}</th>' for n in numbers),
        "</tr>",
    ]
    lines = ["<table>", "".join(rows)]
    for channel in topology.channels:
        cells = [channel.relation, channel.sender, channel.reader, ", ".join(map(str, channel.columns))]
        if channel.entries:
            cells[-1] += ", and derivations"
        flow = flowed.get(f"{channel.relation}--{channel.reader}", Flow())
        counts = [flow.messages, flow.snapshots, flow.inserted, flow.deleted] if flowed else []
        line = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f"<tr>{line}{''.join(f'<td class=number>{count:,}</td>' for count in counts)}</tr>")
    return "\n".join([*lines, "</table>"])
