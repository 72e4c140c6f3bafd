"""Draw a graph in layers from top to bottom (Sugiyama, Tagawa, Toda 1981).

A block holds the nodes of a cycle side by side, so the graph of blocks has no cycle. Each block lies below all its
predecessors. Edges across several layers get a cell in each of them. The blocks of a layer are ordered to avoid
crossings and moved towards their neighbours. All lengths are in pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

CHARACTER, SMALL_CHARACTER, NODE_HEIGHT, LINE = 8.0, 6.6, 40.0, 14.0
GAP, PADDING, MARGIN, LAYER_GAP = 26.0, 16.0, 12.0, 46.0
"""The widths of a character in titles and in labels, the heights of a node and a line, and the distances."""

ROW, ORDERINGS, MOVES = 4, 12, 10
"""The nodes per row of a block, and the numbers of ordering and moving passes."""

BEND = 0.22
"""How far an edge within a block bends to its left, relative to its length."""

SPOTS = (0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74, 0.18, 0.82)
"""The possible positions of a label on its edge, best first."""


@dataclass(frozen=True)
class Node:
    """A node: its key, its title, a subtitle in small letters, and its block."""

    key: str
    title: str
    subtitle: str
    block: str

    @property
    def width(self) -> float:
        """Return the width of the node."""
        return max(64.0, CHARACTER * len(self.title) + 24, SMALL_CHARACTER * len(self.subtitle) + 20)


@dataclass(frozen=True)
class Edge:
    """An edge between nodes, by key, with the lines of its label."""

    source: str
    target: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Box:
    """The position of a node or block: its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """Return the x coordinate of the centre."""
        return self.x + self.width / 2


@dataclass(frozen=True)
class Curve:
    """An edge as an SVG path, with the centre of the first line of its label."""

    edge: Edge
    path: str
    x: float
    y: float


@dataclass(frozen=True)
class Drawing:
    """A graph with positions: nodes by key, blocks of several nodes by name, and edges."""

    width: float
    height: float
    nodes: Mapping[str, Box]
    blocks: Mapping[str, Box]
    curves: tuple[Curve, ...]


def draw(nodes: Sequence[Node], edges: Sequence[Edge]) -> Drawing:
    """Return the drawing of a graph. Raise ValueError if blocks form a cycle."""
    return _Layout(nodes, edges).drawing()


@dataclass
class _Cell:
    """A block, or a place of a long edge, in a layer; ``room`` is its width, or that of its edges' labels if wider."""

    key: str
    layer: int
    width: float
    height: float
    room: float = 0.0
    x: float = 0.0  # of the centre
    above: list[_Cell] = field(default_factory=list)
    below: list[_Cell] = field(default_factory=list)


class _Layout:
    """A graph while it is being laid out."""

    def __init__(self, nodes: Sequence[Node], edges: Sequence[Edge]) -> None:
        self.nodes = {node.key: node for node in nodes}
        self.edges = edges
        self.members: dict[str, list[Node]] = {}
        for node in nodes:
            self.members.setdefault(node.block, []).append(node)
        looped = {edge.source for edge in edges if edge.source == edge.target}
        inner = [e for e in edges if e.source != e.target and self.block(e.source) == self.block(e.target)]
        self.inner = {self.block(edge.source) for edge in inner}
        #: The room to the right of nodes with an edge to themselves, for its label.
        self.loops = {
            key: 30 + max(label_width(edge) for edge in edges if (edge.source, edge.target) == (key, key))
            for key in looped
        }
        self.offsets: dict[str, tuple[float, float]] = {}
        sizes = {block: self.arranged(members) for block, members in self.members.items()}
        layers = self.layers()
        self.cells = {block: _Cell(block, layers[block], *size, room=size[0]) for block, size in sizes.items()}
        self.rows: list[list[_Cell]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
        for cell in self.cells.values():
            self.rows[cell.layer].append(cell)
        #: The cells along each edge between blocks, by the index of the edge.
        self.ways = {index: self.way(index, edge) for index, edge in enumerate(edges) if self.leaves(edge)}

    def block(self, key: str) -> str:
        return self.nodes[key].block

    def leaves(self, edge: Edge) -> bool:
        return self.block(edge.source) != self.block(edge.target)

    def arranged(self, members: Sequence[Node]) -> tuple[float, float]:
        """Arrange the nodes of a block in rows; return the width and height of the block."""
        several = len(members) > 1
        padding = PADDING if several else 0.0
        apart = 2.6 * GAP if self.block(members[0].key) in self.inner else GAP
        widest, y = 0.0, padding + (LINE if several else 0.0)
        for start in range(0, len(members), ROW):
            x = padding
            for node in members[start : start + ROW]:
                self.offsets[node.key] = (x, y)
                x += node.width + self.loops.get(node.key, 0.0) + apart
            widest = max(widest, x - apart + padding)
            y += NODE_HEIGHT + apart
        return widest, y - apart + padding

    def layers(self) -> dict[str, int]:
        """Return the layer of each block: below all predecessors or, without any, just above the highest successor."""
        after: dict[str, set[str]] = {block: set() for block in self.members}
        missing = dict.fromkeys(self.members, 0)
        for edge in self.edges:
            source, target = self.block(edge.source), self.block(edge.target)
            if source != target and target not in after[source]:
                after[source].add(target)
                missing[target] += 1
        first = [block for block, count in missing.items() if not count]
        ready, layer = list(first), dict.fromkeys(first, 0)
        for block in ready:
            for target in after[block]:
                layer[target] = max(layer.get(target, 0), layer[block] + 1)
                missing[target] -= 1
                if not missing[target]:
                    ready.append(target)
        if len(ready) < len(self.members):
            raise ValueError("blocks lead to each other in a cycle")
        for block in first:
            if after[block]:
                layer[block] = min(layer[target] for target in after[block]) - 1
        return layer

    def way(self, index: int, edge: Edge) -> list[_Cell]:
        """Return the cells along an edge from block to block, adding one in each layer between them."""
        start, end = self.cells[self.block(edge.source)], self.cells[self.block(edge.target)]
        way = [start]
        for layer in range(start.layer + 1, end.layer):
            cell = _Cell(f"{index}/{layer}", layer, 14.0, 0.0, room=14.0)
            self.rows[layer].append(cell)
            way.append(cell)
        way.append(end)
        for cell in (start, end):
            cell.room = max(cell.room, label_width(edge))
        for upper, lower in pairwise(way):
            upper.below.append(lower)
            lower.above.append(upper)
        return way

    # ---- positions -------------------------------------------------------------------------------------------------

    def drawing(self) -> Drawing:
        """Order and move the cells of all layers, and return the drawing."""
        self.order()
        self.move()
        y, tops = MARGIN, []
        for row in self.rows:
            height = max(cell.height for cell in row)
            y += LINE * max(0, self.labelled(row) - 1)
            tops.append((y, height))
            y += height + LAYER_GAP
        self.tops = tops
        nodes = {key: self.place(key) for key in self.nodes}
        blocks = {}
        for name, members in self.members.items():
            cell = self.cells[name]
            if len(members) > 1:
                blocks[name] = Box(cell.x - cell.width / 2, self.top(cell), cell.width, cell.height)
        curves, boxes = [], list(nodes.values())
        for index, edge in enumerate(self.edges):
            curves.append(self.curve(index, edge, nodes, boxes))
        right = max([box.x + box.width for box in boxes], default=0.0)
        right = max([right, *(cell.x + cell.width / 2 for row in self.rows for cell in row)])
        return Drawing(right + MARGIN, y - LAYER_GAP + MARGIN if tops else 0.0, nodes, blocks, tuple(curves))

    def labelled(self, row: Sequence[_Cell]) -> int:
        """Return the most lines of labels on the edges into any node of a layer."""
        lines: dict[str, int] = {}
        for index, way in self.ways.items():
            if way[-1] in row:
                edge = self.edges[index]
                lines[edge.target] = lines.get(edge.target, 0) + len(edge.labels)
        return max(lines.values(), default=0)

    def top(self, cell: _Cell) -> float:
        """Return the y coordinate of a cell, centred vertically in its layer."""
        y, height = self.tops[cell.layer]
        return y + (height - cell.height) / 2

    def place(self, key: str) -> Box:
        node, cell = self.nodes[key], self.cells[self.block(key)]
        dx, dy = self.offsets[key]
        return Box(cell.x - cell.width / 2 + dx, self.top(cell) + dy, node.width, NODE_HEIGHT)

    def order(self) -> None:
        """Sort layers by the mean place of neighbours, down and up in turn; keep the order with fewest crossings."""
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for turn in range(ORDERINGS):
            down = turn % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                places = {id(cell): i for layer in self.rows for i, cell in enumerate(layer)}
                keys = {}
                for i, cell in enumerate(row):
                    near = cell.above if down else cell.below
                    keys[id(cell)] = sum(places[id(other)] for other in near) / len(near) if near else float(i)
                row.sort(key=lambda cell: keys[id(cell)])
            crossings = self.crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def crossings(self) -> int:
        """Return the number of pairs of edges that cross between layers."""
        total = 0
        for upper, lower in pairwise(self.rows):
            places = {id(cell): i for i, cell in enumerate(lower)}
            ends = [sorted(places[id(other)] for other in cell.below) for cell in upper]
            flat = [end for row in ends for end in row]
            total += sum(1 for i, one in enumerate(flat) for other in flat[i + 1 :] if other < one)
        return total

    def move(self) -> None:
        """Move cells towards the mean x of their neighbours, as far as the cells beside them allow."""
        for row in self.rows:
            x = 0.0
            for cell in row:
                cell.x = x + cell.room / 2
                x += cell.room + GAP
        for turn in range(MOVES):
            for row in self.rows if turn % 2 == 0 else reversed(self.rows):
                targets = []
                for cell in row:
                    near = [*cell.above, *cell.below] if turn > 1 else (cell.above if turn % 2 == 0 else cell.below)
                    targets.append(sum(other.x for other in near) / len(near) if near else cell.x)
                for cell, x in zip(row, apart(targets, [cell.room for cell in row]), strict=True):
                    cell.x = x
        left = min((cell.x - cell.room / 2 for row in self.rows for cell in row), default=0.0)
        for row in self.rows:
            for cell in row:
                cell.x += MARGIN - left

    # ---- edges -----------------------------------------------------------------------------------------------------

    def curve(self, index: int, edge: Edge, nodes: Mapping[str, Box], taken: list[Box]) -> Curve:
        """Return an edge with a free position for its label if there is one; add the label's box to ``taken``."""
        start, end = nodes[edge.source], nodes[edge.target]
        width = label_width(edge)
        height = LINE * len(edge.labels)
        if edge.source == edge.target:
            x, y = start.x + start.width, start.y + start.height / 2
            taken.append(Box(x + 26, y - height / 2, width, height))
            path = f"M{x:.0f} {y - 9:.0f}C{x + 28:.0f} {y - 22:.0f} {x + 28:.0f} {y + 22:.0f} {x:.0f} {y + 9:.0f}"
            return Curve(edge, path, x + 26 + width / 2, y - height / 2 + LINE / 2)
        if index in self.ways:
            points = [(start.middle, start.y + start.height)]
            for cell in self.ways[index][1:-1]:
                y, tall = self.tops[cell.layer]
                points += [(cell.x, y), (cell.x, y + tall)]
            points.append((end.middle + self.fan(index, edge), end.y))
            segments = [(a, b) for a, b in pairwise(points)]
            path = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
            for (x1, y1), (x2, y2) in segments:
                half = (y2 - y1) / 2
                path += f"C{x1:.0f} {y1 + half:.0f} {x2:.0f} {y2 - half:.0f} {x2:.0f} {y2:.0f}"
            spots = [_on(segment, t) for t in SPOTS for segment in reversed(segments)]
        else:
            path, spot = bent(start, end, BEND)
            spots = [spot]
        boxes = [Box(x - width / 2, y - height / 2, width, height) for x, y in spots]
        free = [box for box in boxes if not any(_overlap(box, other) for other in taken)]
        chosen = (free or boxes)[0]
        taken.append(chosen)
        return Curve(edge, path, chosen.middle, chosen.y + LINE / 2)

    def fan(self, index: int, edge: Edge) -> float:
        """Return how far from its target's middle an edge ends, so that edges from the left end on the left."""
        coming = [i for i, way in self.ways.items() if self.edges[i].target == edge.target]
        coming.sort(key=lambda i: self.ways[i][-2].x)
        room = self.nodes[edge.target].width * 0.6
        return room * ((coming.index(index) + 0.5) / len(coming) - 0.5)


def label_width(edge: Edge) -> float:
    """Return the width of an edge's label."""
    return SMALL_CHARACTER * max(map(len, edge.labels), default=0)


def apart(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Return the centres nearest to the wanted ones (least squares) that keep the order, with gaps between the widths.

    Isotonic regression by pooling adjacent violators, of the wanted centres less the minimal offsets to their left.
    """
    offsets = [0.0]
    for one, other in pairwise(widths):
        offsets.append(offsets[-1] + (one + other) / 2 + GAP)
    pools: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=True):
        mean, count = place - offset, 1
        while pools and pools[-1][0] > mean:
            before, number = pools.pop()
            mean, count = (mean * count + before * number) / (count + number), count + number
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


def _on(segment: tuple[tuple[float, float], tuple[float, float]], t: float) -> tuple[float, float]:
    """Return the point at parameter ``t`` of the curve drawn for a segment."""
    (x1, y1), (x2, y2) = segment
    half = (y2 - y1) / 2
    weights = ((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3)
    ys = (y1, y1 + half, y2 - half, y2)
    return (sum(w * x for w, x in zip(weights, (x1, x1, x2, x2), strict=True)), sum(map(float.__mul__, weights, ys)))


def bent(start: Box, end: Box, bend: float) -> tuple[str, tuple[float, float]]:
    """Return the SVG path of a curve between boxes, bent to its left by a fraction of its length, and its midpoint."""
    (x1, y1), (x2, y2) = _centre(start), _centre(end)
    cx, cy = (x1 + x2) / 2 + bend * (y2 - y1), (y1 + y2) / 2 - bend * (x2 - x1)
    (x1, y1), (x2, y2) = _edge_of(start, cx, cy), _edge_of(end, cx, cy)
    path = f"M{x1:.0f} {y1:.0f}Q{cx:.0f} {cy:.0f} {x2:.0f} {y2:.0f}"
    return path, ((x1 + 2 * cx + x2) / 4, (y1 + 2 * cy + y2) / 4)


def _centre(box: Box) -> tuple[float, float]:
    return box.middle, box.y + box.height / 2


def _edge_of(box: Box, to_x: float, to_y: float) -> tuple[float, float]:
    """Return the point where the line from a box's centre to another point leaves the box."""
    x, y = _centre(box)
    dx, dy = to_x - x, to_y - y
    scales = [half / abs(way) for half, way in ((box.width / 2, dx), (box.height / 2, dy)) if way]
    scale = min([1.0, *scales])
    return x + dx * scale, y + dy * scale


def _overlap(one: Box, other: Box) -> bool:
    """Return whether two boxes overlap, not only touch."""
    beside = one.x >= other.x + other.width or other.x >= one.x + one.width
    return not (beside or one.y >= other.y + other.height or other.y >= one.y + one.height)
