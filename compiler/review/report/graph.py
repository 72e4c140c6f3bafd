"""Draw the dependency graph of a program: relations, the rules between them, and what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ...ir.localized import LocalizedRule
from ...ir.strata import StratifiedProgram, TypedStratum
from . import layered

MOST_NAMED = 3
"""The most rules to name on an edge."""


@dataclass(frozen=True)
class Label:
    """A line of text on an edge; ``href`` may be empty. ``sent`` marks tuples that travel between locations."""

    text: str
    x: float
    y: float
    href: str
    sent: bool


@dataclass(frozen=True)
class EdgeView:
    """An edge: its SVG path and labels, whether all its rules negate the source, and whether tuples travel along it."""

    path: str
    labels: tuple[Label, ...]
    negated: bool
    sent: bool
    title: str


@dataclass(frozen=True)
class NodeView:
    """A relation: its box, title, subtitle, link target and CSS classes (``input``, ``output``, ...)."""

    box: layered.Box
    title: str
    subtitle: str
    href: str
    classes: str


@dataclass(frozen=True)
class GraphView:
    """The picture; ``areas`` are the names and boxes of strata with several relations."""

    width: float
    height: float
    nodes: tuple[NodeView, ...]
    areas: tuple[tuple[str, layered.Box], ...]
    edges: tuple[EdgeView, ...]


@dataclass
class _Connection:
    """An edge from one relation to another: rules by label (True if positive), and what travels for them."""

    rules: dict[str, bool]
    sent: dict[str, None]


def program_graph(
    program: StratifiedProgram,
    href: Callable[[str, str], str],
    sizes: Mapping[str, str],
) -> GraphView:
    """Return the picture of a program. ``href`` returns the link target of a ``relation`` or ``rule``, given this word
    and the name; ``sizes`` are the known numbers of tuples, as text."""
    relations = {relation.name: relation for relation in program.program.relations}
    blocks = {name: stratum for stratum in program.strata for name in stratum.members}
    connections = _connections(program)
    nodes = []
    for name, relation in relations.items():
        stratum = blocks.get(name)
        words = _kind(stratum) if stratum else "input"
        if name in sizes:
            words = sizes[name]
        nodes.append(layered.Node(name, relation.public or name, words, stratum.name if stratum else name))
    lines = {ends: _lines(connection, href) for ends, connection in connections.items()}
    drawn = layered.draw(
        nodes, [layered.Edge(*ends, tuple(text for text, _, _ in said)) for ends, said in lines.items()]
    )
    views = []
    for node in nodes:
        relation = relations[node.key]
        classes = ["input" if relation.role == "input" else "derived"]
        classes += ["output"] if relation.output else []
        classes += ["hidden"] if relation.hidden else []
        stratum = blocks.get(node.key)
        classes += ["recursive"] if stratum is not None and stratum.recursive else []
        leads = href("relation", node.key)
        views.append(NodeView(drawn.nodes[node.key], node.title, node.subtitle, leads, " ".join(classes)))
    edges = []
    for curve in drawn.curves:
        ends = curve.edge.source, curve.edge.target
        connection = connections[ends]
        labels = tuple(
            Label(text, curve.x, curve.y + layered.LINE * number, leads, sent)
            for number, (text, leads, sent) in enumerate(lines[ends])
        )
        negated = all(not positive for positive in connection.rules.values())
        title = f"{curve.edge.source} to {curve.edge.target}: {', '.join(connection.rules)}"
        edges.append(EdgeView(curve.path, labels, negated, bool(connection.sent), title))
    areas = tuple(drawn.blocks.items())
    return GraphView(drawn.width, drawn.height, tuple(views), areas, tuple(edges))


def _connections(program: StratifiedProgram) -> dict[tuple[str, str], _Connection]:
    """Return the connections between relations, by source and target."""
    connections: dict[tuple[str, str], _Connection] = {}
    for localized in program.localized.rules:
        rule = localized.rule
        positive = {atom.relation for atom in rule.atoms}
        for atom in rule.read:
            connection = connections.setdefault((atom.relation, rule.head.relation), _Connection({}, {}))
            is_positive = connection.rules.get(rule.label, False)
            connection.rules[rule.label] = is_positive or atom.relation in positive
            connection.sent.update(dict.fromkeys(_travels(localized, atom.relation)))
    return connections


def _travels(localized: LocalizedRule, relation: str) -> list[str]:
    """Return what travels for a rule along the edge from a body relation: its tuples or, if they stay, the heads."""
    sent = [f"@{send.source} → @{send.destination}" for send in localized.sends if relation in send.carries]
    if not sent and localized.sends_head:
        sent.append(f"head: @{localized.location} → @{localized.head_location}")
    return sent


def _lines(found: _Connection, href: Callable[[str, str], str]) -> list[tuple[str, str, bool]]:
    """Return the lines on an edge, each with its link: rules, negating ones with ``!``, and what travels (True)."""
    names = [(f"{'' if positive else '!'}{label}", href("rule", label)) for label, positive in found.rules.items()]
    lines = [(text, leads, False) for text, leads in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        lines.append((f"and {len(names) - MOST_NAMED} more", "", False))
    return lines + [(text, "", True) for text in found.sent]


def _kind(stratum: TypedStratum) -> str:
    """Return the subtitle of a relation whose size is unknown."""
    return {"counted": "", "timed": "by the time", "aggregate": "aggregate"}.get(stratum.kind, "recursive")
