"""Topology: the processes of a program and their channels (D3log; Nigam et al. 2012, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from ..source import Span
from . import typed


@dataclass(frozen=True)
class TopologyChannel:
    """A channel for the transactions of one relation, from the process that derives it to one that reads it.

    ``relation`` is its name in both processes. With ``entries``, each fact comes with what it was derived from, because
    the two processes are part of one recursion; with ``dead``, it is the relation that says which base facts of the
    sender are gone. If the reader needs only some columns, ``columns`` has these, and the sender calls the projection
    ``sent``. Prints as ``S1 -> S3: S1.host(id: int)``.
    """

    relation: str
    sender: str
    reader: str
    columns: tuple[typed.TypedColumn, ...]
    entries: bool
    dead: bool = False
    sent: str = ""

    def __str__(self) -> str:
        columns = ", ".join(map(str, self.columns))
        return f"{self.sender} -> {self.reader}: {self.relation}({columns}){' with derivations' * self.entries}"


@dataclass(frozen=True)
class Feed:
    """An input relation of process ``reader`` that no process derives; its changes come from outside."""

    relation: str
    reader: str
    columns: tuple[typed.TypedColumn, ...]

    def __str__(self) -> str:
        return f"outside -> {self.reader}: {self.relation}({', '.join(map(str, self.columns))})"


@dataclass(frozen=True)
class TopologyProcess:
    """A process: its name, where it is declared, and the relations that it outputs to other processes and outside."""

    name: str
    span: Span
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """All processes in source order, the channels between them, and the feeds from outside.

    ``recursions`` are the recursive components that span several processes, as relation names in the whole program.
    """

    processes: tuple[TopologyProcess, ...]
    channels: tuple[TopologyChannel, ...]
    feeds: tuple[Feed, ...]
    recursions: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        lines = [f"process {p.name}: {', '.join(p.outputs) or 'no output'}" for p in self.processes]
        lines += map(str, (*self.feeds, *self.channels))
        lines += [f"recursion across processes: {', '.join(names)}" for names in self.recursions]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class NodeRoute:
    """A relation that the nodes of a located program send each other: ``to`` is the node or nodes that get it, in
    words, and ``rules`` derive what is sent or need it there. With ``entries``, each fact comes with a proof. Prints as
    ``node -> the node of src: path(src: int, dst: int, proof: list<string>), by r2``.
    """

    relation: str
    to: str
    columns: tuple[typed.TypedColumn, ...]
    rules: tuple[str, ...]
    entries: bool

    def __str__(self) -> str:
        columns = ", ".join(map(str, self.columns))
        by = f", by {', '.join(self.rules)}" if self.rules else ""
        return f"node -> {self.to}: {self.relation}({columns}){by}"


@dataclass(frozen=True)
class NodeFeed:
    """An input of nodes: ``to`` is the node or nodes that need its tuples, in words."""

    relation: str
    to: str
    columns: tuple[typed.TypedColumn, ...]

    def __str__(self) -> str:
        return f"outside -> {self.to}: {self.relation}({', '.join(map(str, self.columns))})"


@dataclass(frozen=True)
class NodesTopology:
    """The nodes of a located program, which are all alike: their ``names``, what each outputs, what they are fed, what
    they send each other, and the recursions that span nodes."""

    names: tuple[str, ...]
    outputs: tuple[str, ...]
    feeds: tuple[NodeFeed, ...]
    routes: tuple[NodeRoute, ...]
    recursions: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        lines = [f"{len(self.names)} node{'s' * (len(self.names) != 1)}: {', '.join(self.outputs) or 'no output'}"]
        lines += map(str, (*self.feeds, *self.routes))
        lines += [f"recursion across nodes: {', '.join(names)}" for names in self.recursions]
        return "\n".join(lines) + "\n"
