"""Topology: the processes of a program, and the channels between them (D3log; Nigam et al. 2012, section 3.1)."""

from __future__ import annotations

from dataclasses import dataclass

from ..source import Span
from . import typed


@dataclass(frozen=True)
class Channel:
    """The transactions of one relation from the process that derives it to one that reads it.

    ``relation`` is the name that both have for it. With ``entries`` it carries each fact with what it was derived from,
    since the two processes are part of one recursion; prints as ``S1 -> S3: S1.host``.
    """

    relation: str
    sender: str
    reader: str
    columns: tuple[typed.Column, ...]
    entries: bool

    def __str__(self) -> str:
        columns = ", ".join(map(str, self.columns))
        return f"{self.sender} -> {self.reader}: {self.relation}({columns}){' with derivations' * self.entries}"


@dataclass(frozen=True)
class Feed:
    """An input relation of a process that no process derives: its changes come from outside."""

    relation: str
    reader: str
    columns: tuple[typed.Column, ...]

    def __str__(self) -> str:
        return f"outside -> {self.reader}: {self.relation}({', '.join(map(str, self.columns))})"


@dataclass(frozen=True)
class Process:
    """A process: its name, where it is declared, and the relations it shows to others and to the outside."""

    name: str
    span: Span
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Topology:
    """All processes in source order, the channels between them, and the feeds from outside.

    ``recursions`` are the components of relations that span several processes, as names in the whole program.
    """

    processes: tuple[Process, ...]
    channels: tuple[Channel, ...]
    feeds: tuple[Feed, ...]
    recursions: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        lines = [f"process {p.name}: {', '.join(p.outputs) or 'no output'}" for p in self.processes]
        lines += map(str, (*self.feeds, *self.channels))
        lines += [f"recursion across processes: {', '.join(names)}" for names in self.recursions]
        return "\n".join(lines) + "\n"
