"""The nodes of a located program, and their topology."""

from __future__ import annotations

from flintlog.compiler.graphs import reached
from flintlog.compiler.ir import typed
from flintlog.compiler.ir.localized import LocalizedProgram
from flintlog.compiler.ir.routes import carried
from flintlog.compiler.ir.topology import (
    Feed,
    NodeFeed,
    NodeRoute,
    NodesTopology,
    Topology,
    TopologyChannel,
    TopologyProcess,
)
from flintlog.runtime.addons.processes.nodes import Nodes, Route
from flintlog.runtime.addons.processes.partition import Address, Partition


def nodes_of(program: typed.TypedProgram, partition: Partition) -> Nodes:
    """Return the nodes of a program, as its script describes them."""
    routes = []
    for route in program.routes:
        sent, arrived = carried(program, route.sent, "derived"), carried(program, route.arrived, "input")
        columns = tuple(column.name for column in sent.columns)
        at = address_of(route.at) if route.at is not None else None
        needs = needed(program, sent)
        routes.append(Route(route.relation, sent.name, arrived.name, columns, route.location, at, needs))
    # Derivation sets need no identities, so nothing is said of dead ones.
    for part in program.spanning if program.recursion == "ranks" else ():
        (heard,) = part.others
        columns = tuple(column.name for column in program.relation(part.dead).columns)
        needs = needed(program, program.relation(part.dead))
        routes.append(Route(part.dead, part.dead, heard, columns, needs=needs, dead=True))
    carriers = {route.input for route in routes}
    inputs = [relation for relation in program.relations if relation.role == "input"]
    lives = next((relation.name for relation in inputs if relation.keeps == "lives"), "")
    fed = [r for r in inputs if r.name not in carriers and r.name != lives]
    constants = {r.public or r.name: address_of(r.at) for r in fed if r.at is not None}
    return Nodes(partition, tuple(routes), tuple(r.public or r.name for r in fed), lives, constants)


def address_of(constant: typed.Constant) -> Address:
    """Return the address that a constant is."""
    assert isinstance(constant.value, int | str)
    return constant.value


def needed(program: typed.TypedProgram, sent: typed.TypedRelation) -> tuple[str, ...]:
    """Return the inputs from which a sent relation is derived, except those that carry what depends on itself."""
    read = [(rule.head.relation, atom.relation) for rule in program.rules for atom in rule.read]
    names = {carried(program, route.sent, "derived").name: route for route in program.routes}
    across = [(carried(program, route.arrived, "input").name, name) for name, route in names.items()]
    behind = reached([sent.name], read)
    return tuple(
        relation.public or relation.name
        for relation in program.relations
        if relation.role == "input"
        and relation.name in behind
        and not relation.keeps
        and sent.name not in reached([relation.name], [*read, *across])
    )


def topology_of(nodes: Nodes, program: typed.TypedProgram) -> Topology:
    """Return the nodes as processes, with a channel for each route and pair of nodes, and their feeds."""
    outputs = tuple(r.name for r in program.relations if r.output and not r.hidden)
    numbers = range(nodes.partition.count)
    span = program.relations[0].span
    processes = tuple(TopologyProcess(nodes.name(number), span, outputs) for number in numbers)
    columns = {relation.name: relation.columns for relation in program.relations}
    recursive = {relation.name for relation in program.relations if relation.annotates}
    channels = tuple(
        TopologyChannel(c.relation, c.sender, c.reader, columns[c.output], c.output in recursive, c.dead)
        for number in numbers
        for c in nodes.process(number).sends
    )
    feeds = tuple(Feed(name, nodes.name(number), columns[name]) for number in numbers for name in nodes.fed)
    return Topology(processes, channels, feeds, tuple(tuple(sorted(part.members)) for part in program.spanning))


def nodes_topology(nodes: Nodes, program: typed.TypedProgram, whole: LocalizedProgram) -> NodesTopology:
    """Return what the nodes of a ``whole`` program have in common; each runs ``program``."""
    relations = {relation.name: relation for relation in program.relations}
    recursive = {relation.name for relation in program.relations if relation.annotates}
    feeds = [NodeFeed(name, holder(relations[name], "each node"), relations[name].columns) for name in nodes.fed]
    routes = []
    located = {found.relation: found for found in program.routes}
    for route in nodes.routes:
        sent = {located[route.relation].sent, route.output} if not route.dead else set()
        rules = [name for rule in program.rules if rule.head.relation in sent for name in served(rule, whole)]
        to = "all others"
        if not route.dead:
            at = located[route.relation].at or relations[route.output].columns[route.location or 0].name
            to = f"the node of {at}"
        columns = relations[route.output].columns
        routes.append(NodeRoute(route.relation, to, columns, tuple(dict.fromkeys(rules)), route.output in recursive))
    return NodesTopology(
        tuple(nodes.name(number) for number in range(nodes.partition.count)),
        tuple(relation.name for relation in program.relations if relation.output and not relation.hidden),
        tuple(feeds),
        tuple(routes),
        tuple(
            tuple(sorted(part.members & {relation.name for relation in whole.program.relations}))
            for part in program.spanning
        ),
    )


def served(rule: typed.TypedRule, whole: LocalizedProgram) -> list[str]:
    """Return the labels of the rules of a program that a rule of its nodes is part of: it may only send what they need
    elsewhere, or what they aggregate there."""
    parts = [other.rule.label for other in whole.rules if rule.label in {part.label for part in other.parts}]
    return parts or [other.rule.label for other in whole.rules if other.rule.span == rule.span]


def holder(relation: typed.TypedRelation, otherwise: str) -> str:
    """Return which node holds the tuples of a relation, in words."""
    if relation.at is not None:
        return f"the node of {relation.at}"
    return otherwise if relation.location is None else f"the node of {relation.columns[relation.location].name}"


def nodes_mermaid(nodes: Nodes, program: typed.TypedProgram) -> str:
    """Return a flowchart of one node for all: what it is fed, and what nodes send each other."""
    lines = ["flowchart LR", f'    node["each of {nodes.partition.count} nodes"]']
    lines += [f'    f{number}[/"{name}"/] -.-> node' for number, name in enumerate(nodes.fed)]
    recursive = {relation.name for relation in program.relations if relation.annotates}
    for route in nodes.routes:
        what = route.relation + (" with proofs" if route.output in recursive else "")
        lines.append(f'    node -->|"{what}"| node')
    return "\n".join(lines) + "\n"
