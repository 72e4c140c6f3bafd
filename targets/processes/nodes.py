"""The view of the nodes of a located program."""

from __future__ import annotations

from flintlog.compiler.graphs import reached
from flintlog.compiler.ir import typed
from flintlog.compiler.ir.routes import carried
from flintlog.runtime.processes.nodes import Nodes, Route
from flintlog.runtime.processes.partition import Partition


def nodes_of(program: typed.TypedProgram, partition: Partition) -> Nodes:
    """Return the nodes of a program, as its script describes them."""
    routes = []
    for route in program.routes:
        sent, arrived = carried(program, route.sent, "derived"), carried(program, route.arrived, "input")
        columns = tuple(column.name for column in sent.columns)
        at = route.at.value if route.at is not None else None
        assert at is None or isinstance(at, int | str)
        needs = needed(program, sent)
        routes.append(Route(route.relation, sent.name, arrived.name, columns, route.location, at, needs))
    for part in program.spanning:
        (heard,) = part.others
        columns = tuple(column.name for column in program.relation(part.dead).columns)
        needs = needed(program, program.relation(part.dead))
        routes.append(Route(part.dead, part.dead, heard, columns, needs=needs, dead=True))
    carriers = {route.input for route in routes}
    inputs = [relation for relation in program.relations if relation.role == "input"]
    lives = next((relation.name for relation in inputs if relation.keeps == "lives"), "")
    fed = tuple(r.public or r.name for r in inputs if r.name not in carriers and r.name != lives)
    return Nodes(partition, tuple(routes), fed, lives)


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
