"""A located program whose nodes are simulated beside an evaluation of the whole program, burst by burst."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flintlog.compiler.naming import counted
from flintlog.runtime.addons.processes.simulation import Network, Traffic
from flintlog.runtime.kernel.model import Program, Relation
from flintlog.runtime.kernel.values import hashable
from flintlog.runtime.local.session import Changes, Row, Session
from flintlog.runtime.system.printing import table_lines


class SimulatedSession(Session):
    """A session of the whole program. It passes each batch on to the nodes, lets messages flow until all is quiet, and
    compares the tables of the nodes with its own; ``write`` prints a line about that. During a burst, ``kills`` nodes
    are killed and return at random, half of them with what they had on their disks. ``rules`` are those that what is
    sent is for, by relation, as text."""

    def __init__(
        self,
        program: Program,
        network: Network,
        kills: int,
        write: Callable[[str], None],
        rules: Mapping[str, str],
    ) -> None:
        """Start with empty inputs."""
        super().__init__(program, network.max_rounds, network.functions, max_entries=network.max_entries)
        self.network, self.kills, self.write, self.rules = network, kills, write, rules
        self.random = random.Random(network.rng.random())
        self.bursts = self.wrong = 0

    def apply(self, changes: Changes) -> None:
        """Apply a batch here and at the nodes; raise JobError if either refuses it."""
        tables = {r.table: r for r in self.program.relations if r.kind == "input"}
        pairs = {table: list(pairs_of(tables[table], rows)) for table, rows in changes.items()}
        super().apply(pairs)
        if not any(pairs.values()):
            return
        before, batches = total(self.network), self.network.batches
        self.network.feed({tables[table].name: rows for table, rows in pairs.items() if rows})
        began, accidents = self.network.now, Accidents(self.network, self.random, self.kills)
        self.network.settle(during=accidents.happen)
        while accidents.pending:
            # Nothing is on its way any more, but somebody is still away, or lives longer than was meant.
            accidents.happen()
            self.network.settle(during=accidents.happen)
        self.bursts += 1
        changed = sum(len(rows) for rows in pairs.values())
        sent = total(self.network)
        differing = self.differing()
        self.wrong += bool(differing)
        what = f"differs in {', '.join(differing)}" if differing else "equal to the single evaluation"
        self.write(
            f"burst {self.bursts}: {counted(changed, 'change')}, quiet after {self.network.now - began} ticks, "
            f"{counted(self.network.batches - batches, 'step')}, "
            f"{counted(sent.messages - before.messages, 'message')}, {counted(sent.rows - before.rows, 'tuple')}, "
            f"{sent.bytes - before.bytes:,} bytes; {what}"
        )

    def differing(self) -> list[str]:
        """Return the relations whose tuples at the nodes are not those of the single evaluation."""
        tables = self.network.tables()
        visible = (relation for relation in self.program.relations if not relation.hidden)
        return [r.name for r in visible if tables[r.name] != {hashable(list(row)) for row in self.rows(r)}]

    def report(self) -> Iterator[str]:
        """Yield tables of what was sent, by relation and by node."""
        relations: dict[str, Traffic] = {}
        nodes: dict[str, tuple[Traffic, Traffic]] = {name: (Traffic(), Traffic()) for name in self.network.numbers}
        for (relation, sender, reader), sent in self.network.traffic.items():
            for one in (relations.setdefault(relation, Traffic()), nodes[sender][0], nodes[reader][1]):
                one.messages += sent.messages
                one.rows += sent.rows
                one.bytes += sent.bytes
        columns = ["relation", "for rules", "messages", "tuples", "bytes"]
        sums = sorted(relations.items())
        rows = [(name, self.rules.get(name, ""), one.messages, one.rows, one.bytes) for name, one in sums]
        yield from table_lines(columns, iter(rows))
        yield ""
        columns = ["node", "sent", "tuples sent", "received", "tuples received", "tuples kept"]
        kept = {number: self.kept(number) for number in self.network.running}
        yield from table_lines(
            columns,
            iter(
                (name, out.messages, out.rows, come.messages, come.rows, kept[self.network.numbers[name]])
                for name, (out, come) in nodes.items()
            ),
        )

    def kept(self, number: int) -> int:
        """Return how many tuples with proofs, or derivation sets, a node keeps."""
        session = self.network.running[number].session
        return sum(session.engine.rows(r.table) for r in session.program.relations if r.kind in ("proofs", "entries"))


class Accidents:
    """Kills nodes while messages flow, and lets them return; meanwhile others may notice that they are gone."""

    def __init__(self, network: Network, rng: random.Random, kills: int) -> None:
        """Plan this number of kills."""
        self.network, self.random, self.left = network, rng, kills
        #: What killed nodes have on their disks, None if they return with nothing.
        self.away: dict[int, Any] = {}

    @property
    def pending(self) -> bool:
        """Whether a node is still to be killed or to return."""
        return bool(self.left or self.away)

    def happen(self) -> None:
        """Let something happen, or nothing."""
        for node in sorted(self.away):
            for other in sorted(self.network.running):
                if self.random.random() < 0.1:
                    self.network.notice(other, node)
            if self.random.random() < 0.3:
                self.network.start(node, self.away.pop(node))
        if self.left and len(self.network.running) > 1 and self.random.random() < 0.3:
            node = self.random.choice(sorted(self.network.running))
            saved = self.network.kill(node)
            self.away[node] = saved if self.random.random() < 0.5 else None
            self.left -= 1
        if len(self.network.numbers) == 1:
            self.left = 0


def pairs_of(relation: Relation, rows: Any) -> Iterator[tuple[str, Row]]:
    """Yield changes as pairs, from an Arrow table or from pairs."""
    if not hasattr(rows, "num_rows"):
        yield from rows
        return
    columns = [rows.column(column.sql).to_pylist() for column in relation.tuple_columns]
    for op, *row in zip(rows.column("_op").to_pylist(), *columns, strict=True):
        yield op, hashable(row)[: len(relation.columns)]


def total(network: Network) -> Traffic:
    """Return all that was sent."""
    sent = list(network.traffic.values())
    return Traffic(sum(s.messages for s in sent), sum(s.rows for s in sent), sum(s.bytes for s in sent))
