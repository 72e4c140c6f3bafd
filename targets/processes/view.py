"""The view of a process: what its script prints in addition to that of a job, as ready strings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintlog.compiler.graphs import reached
from flintlog.compiler.ir import plan, typed
from flintlog.compiler.ir.topology import Topology, TopologyChannel

from ..pyspark.view import quote, section


@dataclass(frozen=True)
class ProcessView:
    """The section of a process: its heading ``rule``, its name, the arguments of ``Channel`` for each channel, the
    relations ``fed`` from outside, and the one with the ``lives`` of processes, if there is one."""

    rule: str
    name: str
    receives: tuple[str, ...]
    sends: tuple[str, ...]
    fed: tuple[str, ...]
    lives: str


def process_view(name: str, topology: Topology, plans: Mapping[str, plan.ProgramPlan]) -> ProcessView:
    """Return the section of the process called ``name``."""
    return ProcessView(
        rule=section("the process"),
        name=quote(name),
        receives=tuple(channel_arguments(c, topology, plans) for c in topology.channels if c.reader == name),
        sends=tuple(channel_arguments(c, topology, plans) for c in topology.channels if c.sender == name),
        fed=tuple(quote(feed.relation) for feed in topology.feeds if feed.reader == name),
        lives=next((quote(r.name) for r in plans[name].program.relations if r.keeps == "lives"), ""),
    )


def channel_arguments(channel: TopologyChannel, topology: Topology, plans: Mapping[str, plan.ProgramPlan]) -> str:
    """Return the arguments of ``Channel`` for a channel, as Python source."""
    names = [channel.relation, channel.sender, channel.reader]
    names += [sent_name(channel, plans[channel.sender]), carried(channel, plans[channel.reader])]
    sent = next(r for r in plans[channel.sender].program.relations if (r.public or r.name) == names[3])
    columns = ", ".join(quote(column.name) for column in sent.columns) + "," * (len(sent.columns) == 1)
    needs = needed(channel, topology, plans)
    listed = f", needs=({', '.join(map(quote, needs))},)" if needs else ""
    found = patterns(names[4], plans[channel.reader].program)
    only = f", patterns=({', '.join(found)},)" if found else ""
    return f"{', '.join(map(quote, names))}, ({columns}){listed}{', dead=True' * channel.dead}{only}"


def patterns(name: str, program: typed.TypedProgram) -> list[str]:
    """Return the patterns of the tuples of an input that the literals of a program can match, as Python source; none if
    a literal matches all. Values are integers, strings and booleans, which have one form in all engines."""
    relation = next(r.name for r in program.relations if r.role == "input" and (r.public or r.name) == name)
    found: dict[str, None] = {}
    for atom in (atom for rule in program.rules for atom in rule.read if atom.relation == relation):
        pairs = [
            f"({place}, {quote(term.value) if isinstance(term.value, str) else term.value})"
            for place, term in enumerate(atom.terms)
            if isinstance(term, typed.Constant) and term.type.name in ("int", "string", "bool")
        ]
        if not pairs:
            return []
        found[f"({', '.join(pairs)},)"] = None
    return list(found)


def needed(channel: TopologyChannel, topology: Topology, plans: Mapping[str, plan.ProgramPlan]) -> list[str]:
    """Return the sender's inputs from which a channel's relation is derived, except those that depend on that
    relation themselves: waiting for these would never end."""
    feeding = [(c, other) for c in topology.channels for other in brought(c, topology, plans).values()]
    through = brought(channel, topology, plans)
    waiting = []
    for name in inputs_of(sent_name(channel, plans[channel.sender]), plans[channel.sender].program):
        behind = {through[name], *reached([through[name]], feeding)} if name in through else set()
        if channel.relation not in {c.relation for c in behind}:
            waiting.append(name)
    return waiting


def brought(
    channel: TopologyChannel, topology: Topology, plans: Mapping[str, plan.ProgramPlan]
) -> dict[str, TopologyChannel]:
    """Return those of the sender's inputs behind a channel that other channels deliver, with these channels."""
    sender = plans[channel.sender]
    inputs = inputs_of(sent_name(channel, sender), sender.program)
    carriers = {carried(c, sender): c for c in topology.channels if c.reader == channel.sender}
    return {name: carriers[name] for name in inputs if name in carriers}


def inputs_of(name: str, program: typed.TypedProgram) -> list[str]:
    """Return the public names of the inputs from which a relation of a program is derived."""
    start = next(relation.name for relation in program.relations if name == (relation.public or relation.name))
    read = ((rule.head.relation, atom.relation) for rule in program.rules for atom in rule.read)
    found = {start} | reached([start], read)
    return [r.public or r.name for r in program.relations if r.name in found and r.role == "input"]


def sent_name(channel: TopologyChannel, program: plan.ProgramPlan) -> str:
    """Return the sender's name for the relation that a channel carries: that of a projection if it carries one."""
    return channel.sent or carried(channel, program)


def carried(channel: TopologyChannel, program: plan.ProgramPlan) -> str:
    """Return a process's name for the relation that a channel carries: that of the entries if it carries
    derivations."""
    if not channel.entries:
        return channel.relation
    found = next(r for r in program.program.relations if r.annotates == channel.relation)
    return found.public or found.name
