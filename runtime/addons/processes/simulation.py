"""Run all nodes of a located program in this process, over a network that delays, reorders and repeats messages.

Each node maintains the program of a node in a database of its own, as its process would. Channels work as those of
processes do: an accumulator for each counts what has arrived, a message has a life and a number, a reader that starts
over opens a session, which the sender answers with a snapshot. Time passes in ticks; a message takes a random number of
them. A node handles all that has arrived as one batch.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...kernel.errors import JobError
from ...kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program, Relation
from ...kernel.values import hashable
from ...local.session import MemoryEngine, Row, Session
from .channels import Channel
from .nodes import Nodes
from .transit import USUAL_TRANSIT, Transit

Bursts = Mapping[str, Iterable[tuple[str, Row]]]
"""By name of an input relation its changes: ``+`` or ``-``, and a row."""

PacketLife = tuple[int, int]
"""The incarnation of a sender and the session of a reader that a message belongs to; later ones are higher."""


class Packet(NamedTuple):
    """A message: when it arrives, on which channel, its life, its number in it, whether it is a snapshot, and rows."""

    arrives: int
    channel: Channel
    life: PacketLife
    number: int
    snapshot: bool
    rows: tuple[tuple[int, Row], ...]


@dataclass
class Accumulator:
    """The part of a channel that its reader has: the current life, the numbers of messages that have come, and the
    rows, counted. A deletion that comes before its insertion is a negative count."""

    session: int = 0
    life: PacketLife = (0, 0)
    seen: set[int] = field(default_factory=set)
    counts: Counter[Row] = field(default_factory=Counter)

    def copy(self) -> Accumulator:
        """Return a copy of the accumulator."""
        return Accumulator(self.session, self.life, set(self.seen), Counter(self.counts))


@dataclass
class Traffic:
    """The traffic of a relation: messages, rows, and bytes of their values."""

    messages: int = 0
    rows: int = 0
    bytes: int = 0


class SimulatedNode:
    """A node that runs: its number, its incarnation, its tables and its accumulators."""

    def __init__(self, network: Network, number: int, incarnation: int, session: Session) -> None:
        """Start with empty accumulators, and sessions of this incarnation."""
        self.network, self.number, self.incarnation, self.session = network, number, incarnation, session
        self.process = network.nodes.process(number)
        self.lines = {channel.name: Accumulator() for channel in self.process.receives}
        #: By table of an input relation and row, how many channels have the row.
        self.there: dict[str, Counter[Row]] = {}
        self.lives: set[Row] = set()
        self.fed: dict[str, set[Row]] = {relation: set() for relation in self.process.fed}
        self.sent: dict[str, tuple[PacketLife, int]] = {}
        #: What was applied, to build the state again as it was.
        self.history: list[dict[str, list[tuple[str, Row]]]] = []
        self.begun = False
        for line in self.lines.values():
            line.session = network.next_session()

    @property
    def life(self) -> str:
        """The life of this run, as identities have it."""
        return f"{self.number:04x}{self.incarnation:012x}"

    def turn(self, messages: list[Packet], due: Mapping[str, list[tuple[str, Row]]]) -> list[Packet]:
        """Take in messages and changes of inputs as a batch, and send what follows; return messages that came before
        the snapshot that they continue."""
        changes: dict[str, Counter[Row]] = {}
        early = [message for message in messages if not self.take(message, changes)]
        self.note_lives(changes)
        batch = self.network.signed(changes)
        for name, rows in due.items():
            before = set(self.fed[name])
            for op, row in rows:
                self.fed[name].add(row) if op == "+" else self.fed[name].discard(row)
            net = [*(("-", row) for row in before - self.fed[name]), *(("+", row) for row in self.fed[name] - before)]
            batch[self.network.inputs[name].table] = net
        batch = {table: rows for table, rows in batch.items() if rows}
        changed = bool(batch) or not self.begun
        if changed:
            self.begun = True
            self.session.apply(batch)
            self.history.append(batch)
            self.network.batches += 1
        self.send(changed)
        return early

    def take(self, message: Packet, changes: dict[str, Counter[Row]]) -> bool:
        """Add a message to its accumulator; return False if it came too early."""
        channel, line = message.channel, self.lines[message.channel.name]
        if message.life[1] != line.session or message.life < line.life:
            return True
        if message.life > line.life:
            if not message.snapshot:
                return False
            self.clear(channel, changes)
            line.life, line.seen = message.life, set()
        if message.number not in line.seen:
            line.seen.add(message.number)
            self.add(channel, message.rows, changes)
        return True

    def clear(self, channel: Channel, changes: dict[str, Counter[Row]]) -> None:
        """Forget all rows of a channel."""
        line = self.lines[channel.name]
        self.add(channel, [(-count, row) for row, count in line.counts.items()], changes)
        line.counts.clear()

    def add(self, channel: Channel, rows: Iterable[tuple[int, Row]], changes: dict[str, Counter[Row]]) -> None:
        """Add signed rows to the accumulator of a channel, and what that changes in its input to ``changes``."""
        counts, there = self.lines[channel.name].counts, self.there.setdefault(channel.input, Counter())
        for sign, row in rows:
            before = counts[row] > 0
            counts[row] += sign
            after = counts[row] > 0
            if before != after:
                was = there[row] > 0
                there[row] += 1 if after else -1
                if was != (there[row] > 0):
                    changes.setdefault(channel.input, Counter())[row] += 1 if after else -1

    def cut(self, sender: str, changes: dict[str, Counter[Row]]) -> None:
        """Delete the rows of a sender that is gone, and open sessions for its return."""
        for channel in self.process.receives:
            if channel.sender == sender and self.lines[channel.name].life != (0, 0):
                self.clear(channel, changes)
                self.lines[channel.name] = Accumulator(session=self.network.next_session())

    def note_lives(self, changes: dict[str, Counter[Row]]) -> None:
        """Add what has changed in the lives of nodes."""
        if not self.process.lives:
            return
        lives: set[Row] = {(self.process.name, self.life, True)}
        for channel in self.process.receives:
            line = self.lines[channel.name]
            if channel.dead and line.life != (0, 0):
                number = self.network.numbers[channel.sender]
                lives.add((channel.sender, f"{number:04x}{line.life[0]:012x}", False))
        counts = changes.setdefault(self.process.lives, Counter())
        counts.update(lives - self.lives)
        counts.subtract(self.lives - lives)
        self.lives = lives

    def send(self, changed: bool) -> None:
        """Send what has changed to the nodes that it belongs to, and snapshots to readers with a new session."""
        # By output and reader: all rows, and those that have changed.
        whole: dict[str, dict[int, list[tuple[int, Row]]]] = {}
        split: dict[str, dict[int, list[tuple[int, Row]]]] = {}
        for channel in self.process.sends:
            reader = self.network.running.get(channel.node)
            if reader is None:
                continue
            life = (self.incarnation, reader.lines[channel.name].session)
            last_life, number = self.sent.get(channel.name, ((0, 0), 0))
            if last_life != life:
                if channel.output not in whole:
                    rows = self.session.rows(self.network.relation(channel.output))
                    whole[channel.output] = self.network.divided(channel, [(1, hashable(list(row))) for row in rows])
                mine = whole[channel.output].get(channel.node, [])
                self.network.post(Packet(0, channel, life, 1, True, tuple(mine)))
                self.sent[channel.name] = life, 1
            elif changed:
                if channel.output not in split:
                    changes = self.session.changes(self.network.relation(channel.output))
                    signed = [(1 if op == "+" else -1, hashable(list(row))) for op, row in changes]
                    split[channel.output] = self.network.divided(channel, signed)
                mine = split[channel.output].get(channel.node, [])
                if mine:
                    self.network.post(Packet(0, channel, life, number + 1, False, tuple(mine)))
                    self.sent[channel.name] = life, number + 1


class Network:
    """The nodes of a program, the messages on their way, and what was sent."""

    def __init__(
        self,
        program: Program,
        nodes: Nodes,
        transit: Transit = USUAL_TRANSIT,
        max_rounds: int = MOST_ROUNDS,
        max_entries: int = MOST_ENTRIES,
        functions: FunctionSource = None,
    ) -> None:
        """Start all nodes with empty inputs."""
        self.program, self.nodes = program, nodes
        self.transit, self.rng = transit, random.Random(transit.seed)
        self.max_rounds, self.max_entries, self.functions = max_rounds, max_entries, functions
        self.inputs = {relation.name: relation for relation in program.relations if relation.kind == "input"}
        self.engine = MemoryEngine()
        self.numbers = {nodes.name(number): number for number in range(nodes.partition.count)}
        self.now = self.sessions = self.batches = self.restarts = 0
        self.flight: list[Packet] = []
        self.traffic: dict[tuple[str, str, str], Traffic] = {}
        #: What each node was fed in all, which its feeds keep.
        self.feeds: dict[int, dict[str, set[Row]]] = {}
        self.due: dict[int, dict[str, list[tuple[str, Row]]]] = {}
        #: Nodes that have noticed less than there is: they take a turn although nothing has come.
        self.awake: set[int] = set()
        self.incarnations = dict.fromkeys(self.numbers.values(), 0)
        self.running: dict[int, SimulatedNode] = {}
        self.saved: dict[int, tuple[int, dict[str, Accumulator], dict[str, set[Row]], set[Row]]] = {}
        for number in self.numbers.values():
            self.feeds[number] = {relation: set() for relation in nodes.fed}
            self.start(number, None)

    def relation(self, name: str) -> Relation:
        """Return a derived relation by the name that channels have for it."""
        return next(r for r in self.program.relations if r.name == name and r.kind != "input")

    def signed(self, changes: Mapping[str, Counter[Row]]) -> dict[str, list[tuple[str, Row]]]:
        """Return changes of inputs, counted by name and row, as a batch."""
        return {
            self.inputs[name].table: [("+" if n > 0 else "-", row) for row, n in counts.items() if n]
            for name, counts in changes.items()
        }

    def next_session(self) -> int:
        """Return the number of a new session."""
        self.sessions += 1
        return self.sessions

    def divided(self, channel: Channel, rows: Iterable[tuple[int, Row]]) -> dict[int, list[tuple[int, Row]]]:
        """Return signed rows by the node that they belong to; all of them for each if they have no address."""
        if channel.location < 0:
            every = list(rows)
            return dict.fromkeys(self.numbers.values(), every) if every else {}
        by_node: dict[int, list[tuple[int, Row]]] = {}
        for sign, row in rows:
            by_node.setdefault(self.nodes.partition.node_of(row[channel.location]), []).append((sign, row))
        return by_node

    def post(self, message: Packet) -> None:
        """Send a message, which comes once or more often; count it."""
        channel = message.channel
        kept = self.traffic.setdefault((channel.relation.partition(".")[2], channel.sender, channel.reader), Traffic())
        kept.messages += 1
        kept.rows += len(message.rows)
        kept.bytes += sum(len(str(row)) for _, row in message.rows)
        times = 1 + (self.rng.random() < self.transit.repeated)
        for _ in range(times):
            self.flight.append(message._replace(arrives=self.now + self.rng.randint(1, self.transit.delay)))

    def feed(self, changes: Bursts) -> None:
        """Change inputs, each tuple at the node that holds its address; those without an address at all nodes."""
        for name, rows in changes.items():
            relation = self.inputs[name]
            place = next((i for i, c in enumerate(relation.columns) if c.sql == relation.location), None)
            for op, row in rows:
                every = list(self.numbers.values())
                for number in every if place is None else [self.nodes.partition.node_of(row[place])]:
                    rows_fed = self.feeds[number][name]
                    rows_fed.add(row) if op == "+" else rows_fed.discard(row)
                    self.due.setdefault(number, {}).setdefault(name, []).append((op, row))

    def start(self, number: int, saved: tuple[Any, ...] | None) -> None:
        """Start a node with nothing, or as it was ``saved``; its feeds are read again from where it was."""
        self.incarnations[number] += 1
        # External functions would be defined twice in one DuckDB.
        engine = None if self.functions else self.engine.beside()
        session = Session(self.program, self.max_rounds, self.functions, max_entries=self.max_entries, engine=engine)
        node = SimulatedNode(self, number, self.incarnations[number], session)
        if saved is not None:
            history, lines, fed, lives = saved
            for batch in history:
                session.apply(batch)
            node.history, node.begun = list(history), bool(history)
            for name, line in lines.items():
                node.lines[name] = Accumulator(
                    node.lines[name].session, line.life, set(line.seen), Counter(line.counts)
                )
            for channel in node.process.receives:
                there = node.there.setdefault(channel.input, Counter())
                for row, count in node.lines[channel.name].counts.items():
                    there[row] += count > 0
            node.fed, node.lives = {name: set(rows) for name, rows in fed.items()}, set(lives)
        self.running[number] = node
        self.due[number] = {
            name: [*(("-", row) for row in node.fed[name] - rows), *(("+", row) for row in rows - node.fed[name])]
            for name, rows in self.feeds[number].items()
        }
        self.awake.update(self.running)

    def save(self, number: int) -> tuple[Any, ...]:
        """Return a copy of what a node has on its disk."""
        node = self.running[number]
        lines = {name: line.copy() for name, line in node.lines.items()}
        return list(node.history), lines, {name: set(rows) for name, rows in node.fed.items()}, set(node.lives)

    def kill(self, number: int) -> tuple[Any, ...]:
        """End a node at once, and return what it has on its disk; messages to and from it may be lost."""
        saved = self.save(number)
        self.running.pop(number).session.engine.close()
        name, self.restarts = self.nodes.name(number), self.restarts + 1
        self.flight = [
            m for m in self.flight if name not in (m.channel.sender, m.channel.reader) or self.rng.random() < 0.5
        ]
        return saved

    def notice(self, number: int, sender: int) -> None:
        """Let a node notice that another has been silent for too long."""
        changes: dict[str, Counter[Row]] = {}
        node = self.running[number]
        node.cut(self.nodes.name(sender), changes)
        node.note_lives(changes)
        batch = self.signed(changes)
        if any(batch.values()):
            node.session.apply(batch)
            node.history.append(batch)
            node.send(True)
        self.awake.update(self.running)

    def tick(self) -> None:
        """Let time pass: each node handles what has arrived."""
        self.now += 1
        arrived: dict[int, list[Packet]] = {}
        later: list[Packet] = []
        for message in self.flight:
            if message.arrives <= self.now:
                arrived.setdefault(message.channel.node, []).append(message)
            else:
                later.append(message)
        self.flight = later
        order = sorted(self.running)
        self.rng.shuffle(order)
        for number in order:
            messages, due = arrived.pop(number, []), self.due.pop(number, {})
            if messages or any(due.values()) or number in self.awake:
                self.awake.discard(number)
                early = self.running[number].turn(messages, due)
                self.flight += [message._replace(arrives=self.now + 1) for message in early]

    def is_quiet(self) -> bool:
        """Return whether nothing is on its way, and no node has anything to do."""
        return not (self.flight or self.awake or any(rows for due in self.due.values() for rows in due.values()))

    def settle(self, limit: int = 100_000, during: Callable[[], None] | None = None) -> int:
        """Let time pass until all is quiet, and return the number of ticks. Raise JobError after ``limit``."""
        began = self.now
        while not self.is_quiet():
            self.tick()
            if during:
                during()
            if self.now - began > limit:
                raise JobError(f"the network is not quiet after {limit} ticks")
        return self.now - began

    def tables(self) -> dict[str, set[Row]]:
        """Return the tuples of all relations that users see, of all nodes that run."""
        tables: dict[str, set[Row]] = {r.name: set() for r in self.program.relations if not r.hidden}
        for node in self.running.values():
            for relation in self.program.relations:
                if not relation.hidden:
                    tables[relation.name].update(hashable(list(row)) for row in node.session.rows(relation))
        return tables

    def close(self) -> None:
        """Close the databases of all nodes."""
        for node in self.running.values():
            node.session.engine.close()
        self.engine.close()
