"""The nodes of a located program, and what they send each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .channels import Channel, Process
from .partition import Address, Partition

ROUTER = "router"
"""The name of the process that splits one feed for all nodes; theirs end in numbers."""


@dataclass(frozen=True)
class Route:
    """The way in which nodes send each other a ``relation``: the sender calls it ``output``, the reader ``input``, and
    its ``columns`` are sent under the sender's names. A tuple goes to the node that holds the address in its column
    number ``location``, or the address ``at``; if there is neither, all other nodes get it: identities that are
    ``dead``."""

    relation: str
    output: str
    input: str
    columns: tuple[str, ...]
    location: int | None = None
    at: Address | None = None
    needs: tuple[str, ...] = ()
    dead: bool = False


@dataclass(frozen=True)
class Nodes:
    """The nodes of a program: the division of addresses, their ``routes``, and which relations each is ``fed``; if
    nodes need to know which of them are there, the input ``lives`` says so. All rows of some inputs are ``at`` one
    address."""

    partition: Partition
    routes: tuple[Route, ...]
    fed: tuple[str, ...]
    lives: str = ""
    at: Mapping[str, Address] = field(default_factory=dict)

    @property
    def received(self) -> tuple[str, ...]:
        """Return the inputs whose rows come through channels, or are lives, at any node."""
        return self.process(0).received

    def name(self, node: int) -> str:
        """Return the name of a node as a process."""
        return f"node{node}"

    def process(self, node: int) -> Process:
        """Return the process of a node."""
        every = range(self.partition.count)
        return Process(
            self.name(node),
            tuple(c for route in self.routes for sender in every for c in self.channels(route, sender, node)),
            tuple(c for route in self.routes for reader in every for c in self.channels(route, node, reader)),
            self.fed,
            self.lives,
            self.partition,
            tuple(route.input for route in self.routes),
        )

    def channels(self, route: Route, sender: int, reader: int) -> tuple[Channel, ...]:
        """Return the channel of a route from one node to another, if there is one."""
        if route.dead and sender == reader:
            return ()
        if route.at is not None and self.partition.node_of(route.at) != reader:
            return ()
        name = f"{self.name(sender)}.{route.relation}"
        ends = (self.name(sender), self.name(reader), route.output, route.input)
        place = -1 if route.location is None else route.location
        return (Channel(name, *ends, route.columns, route.needs, route.dead, place, reader),)
