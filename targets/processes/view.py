"""The view of a process: what its script describes in addition to that of a job."""

from __future__ import annotations

from collections.abc import Mapping

from flintlog.compiler.graphs import reached
from flintlog.compiler.ir import plan, typed
from flintlog.compiler.ir.topology import Topology, TopologyChannel
from flintlog.runtime.addons.processes.channels import Channel, Process
from flintlog.runtime.addons.processes.partition import Pattern

SIMPLE = ("int", "string", "bool")
"""The types whose values have one form in all engines."""


def process_view(name: str, topology: Topology, plans: Mapping[str, plan.ProgramPlan]) -> Process:
    """Return the process called ``name``."""
    return Process(
        name=name,
        receives=tuple(channel_view(c, topology, plans) for c in topology.channels if c.reader == name),
        sends=tuple(channel_view(c, topology, plans) for c in topology.channels if c.sender == name),
        fed=tuple(feed.relation for feed in topology.feeds if feed.reader == name),
        lives=next((r.name for r in plans[name].program.relations if r.keeps == "lives"), ""),
    )


def channel_view(channel: TopologyChannel, topology: Topology, plans: Mapping[str, plan.ProgramPlan]) -> Channel:
    """Return a channel as its ends know it."""
    output, read = sent_name(channel, plans[channel.sender]), carried(channel, plans[channel.reader])
    sent = next(r for r in plans[channel.sender].program.relations if (r.public or r.name) == output)
    return Channel(
        channel.relation,
        channel.sender,
        channel.reader,
        output,
        read,
        columns=tuple(column.name for column in sent.columns),
        needs=tuple(needed(channel, topology, plans)),
        dead=channel.dead,
        patterns=patterns(read, plans[channel.reader].program),
    )


def patterns(name: str, program: typed.TypedProgram) -> tuple[Pattern, ...]:
    """Return the patterns of the tuples of an input that the literals of a program can match; none if a literal matches
    all."""
    relation = next(r.name for r in program.relations if r.role == "input" and (r.public or r.name) == name)
    by_literal = [
        tuple(
            (place, term.value)
            for place, term in enumerate(atom.terms)
            if isinstance(term, typed.Constant) and isinstance(term.value, int | str) and term.type.name in SIMPLE
        )
        for rule in program.rules
        for atom in rule.read
        if atom.relation == relation
    ]
    return tuple(dict.fromkeys(by_literal)) if all(by_literal) else ()


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
    behind = {start} | reached([start], read)
    return [r.public or r.name for r in program.relations if r.name in behind and r.role == "input"]


def sent_name(channel: TopologyChannel, program: plan.ProgramPlan) -> str:
    """Return the sender's name for the relation that a channel carries: that of a projection if it carries one."""
    return channel.sent or carried(channel, program)


def carried(channel: TopologyChannel, program: plan.ProgramPlan) -> str:
    """Return a process's name for the relation that a channel carries: that of the entries if it carries
    derivations."""
    if not channel.entries:
        return channel.relation
    entries = next(r for r in program.program.relations if r.annotates == channel.relation)
    return entries.public or entries.name
