"""The dependency graph of a program as a picture: relations, the rules that lead from one to another, what is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..ir.localized import LocalizedRule
from ..ir.strata import Program, Stratum
from . import layered

#: How many rules are named on an edge.
MOST_NAMED = 3


@dataclass(frozen=True)
class Label:
    """A line on an edge: its text, its place, what it leads to (empty for nothing); ``sent`` if something travels."""

    text: str
    x: float
    y: float
    href: str
    sent: bool


@dataclass(frozen=True)
class EdgeView:
    """An edge: its path, its lines, whether it is a negation, and whether tuples travel along it."""

    path: str
    labels: tuple[Label, ...]
    negated: bool
    sent: bool
    title: str


@dataclass(frozen=True)
class NodeView:
    """A relation: its box, what is written in it, what it leads to, and its classes (``input``, ``output``, ...)."""

    box: layered.Box
    title: str
    subtitle: str
    href: str
    classes: str


@dataclass(frozen=True)
class GraphView:
    """The picture; ``areas`` are the strata with several relations."""

    width: float
    height: float
    nodes: tuple[NodeView, ...]
    areas: tuple[tuple[str, layered.Box], ...]
    edges: tuple[EdgeView, ...]


@dataclass
class _Connection:
    """What leads from one relation to another: rules by label, positive and negated ones, and what travels for them."""

    rules: dict[str, bool]
    sent: dict[str, None]


def program_graph(
    program: Program,
    href: Callable[[str, str], str],
    sizes: Mapping[str, str],
) -> GraphView:
    """The picture of a program. ``href`` leads to a ``relation`` or a ``rule``, by this word and a name; ``sizes`` say
    how many tuples there are, where that is known."""
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
    lines = {ends: _lines(found, href) for ends, found in connections.items()}
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
        found = connections[ends]
        labels = tuple(
            Label(text, curve.x, curve.y + layered.LINE * number, leads, sent)
            for number, (text, leads, sent) in enumerate(lines[ends])
        )
        negated = all(not positive for positive in found.rules.values())
        title = f"{curve.edge.source} to {curve.edge.target}: {', '.join(found.rules)}"
        edges.append(EdgeView(curve.path, labels, negated, bool(found.sent), title))
    areas = tuple(drawn.blocks.items())
    return GraphView(drawn.width, drawn.height, tuple(views), areas, tuple(edges))


def _connections(program: Program) -> dict[tuple[str, str], _Connection]:
    """What leads from where to where."""
    found: dict[tuple[str, str], _Connection] = {}
    for localized in program.localized.rules:
        rule = localized.rule
        positive = {atom.relation for atom in rule.atoms}
        for atom in rule.read:
            connection = found.setdefault((atom.relation, rule.head.relation), _Connection({}, {}))
            known = connection.rules.get(rule.label, False)
            connection.rules[rule.label] = known or atom.relation in positive
            connection.sent.update(dict.fromkeys(_travels(localized, atom.relation)))
    return found


def _travels(localized: LocalizedRule, relation: str) -> list[str]:
    """What travels for a rule along the edge from a relation of its body: its tuples, or, where it stays, the heads."""
    sent = [f"@{send.source} → @{send.destination}" for send in localized.sends if relation in send.carries]
    if not sent and localized.sends_head:
        sent.append(f"head: @{localized.location} → @{localized.head_location}")
    return sent


def _lines(found: _Connection, href: Callable[[str, str], str]) -> list[tuple[str, str, bool]]:
    """The lines on an edge: rules, ``!`` before those that negate, and what travels."""
    names = [(f"{'' if positive else '!'}{label}", href("rule", label)) for label, positive in found.rules.items()]
    lines = [(text, leads, False) for text, leads in names[:MOST_NAMED]]
    if len(names) > MOST_NAMED:
        lines.append((f"and {len(names) - MOST_NAMED} more", "", False))
    return lines + [(text, "", True) for text in found.sent]


def _kind(stratum: Stratum) -> str:
    """What is written on a relation whose size is not known."""
    return {"counted": "", "aggregate": "aggregate"}.get(stratum.kind, "recursive")
