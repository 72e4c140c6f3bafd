"""``make demo-network``: six cities, each a node of its own, find all paths between them while links and nodes fail.

The program is the path-vector program of the papers: every node runs the same rules, knows its own links, and hears
from its neighbours; there is no coordinator. A link fails and returns. A node is killed with SIGKILL and comes back
with what it had; another one is killed while it takes in a change, and comes back with nothing. Each time, once all is
quiet, the tables of all nodes are compared with those of a single evaluation.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import flintlog
from flintlog.compiler.review.report.topology import Flow, run_flows, total
from flintlog.runtime.kernel.values import hashable
from rich.console import Console
from rich.live import Live
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from local_processes import Processes, Row, WrongTables
from picture import Link, Moment, Sample, draw

HERE = Path(__file__).parent
PROGRAM = HERE / "network.dl"
NODES = HERE / "nodes.csv"
LEASE = 3.0
"""The seconds after which a node that says nothing is gone."""

POLL = 0.2
CALM = 0.5
"""The seconds for which nothing must happen until all is quiet."""

HOME = "Amsterdam"
"""The best paths from here are drawn."""

LINKS: dict[Link, int] = {
    ("Amsterdam", "Copenhagen"): 11,
    ("Amsterdam", "Essen"): 2,
    ("Copenhagen", "Berlin"): 7,
    ("Essen", "Berlin"): 4,
    ("Essen", "Frankfurt"): 2,
    ("Frankfurt", "Dresden"): 5,
    ("Dresden", "Berlin"): 2,
}

console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=130)


@dataclass
class Network:
    """The links that are up, and the cities whose nodes run."""

    nodes: dict[str, str]
    links: set[Link] = field(default_factory=lambda: set(LINKS))
    running: set[str] = field(default_factory=set)

    def rows(self, city: str) -> list[Row]:
        """Return the links of a city, as it knows them."""
        ends = ((a, b, hours) for (x, y), hours in LINKS.items() if (x, y) in self.links for a, b in ((x, y), (y, x)))
        return [row for row in ends if row[0] == city]

    def expected(self, program: flintlog.Compiled) -> dict[str, set[Row]]:
        """Return what a single evaluation finds for the links of all cities whose nodes run."""
        found = flintlog.evaluate(program, {"link": [row for city in self.running for row in self.rows(city)]})
        return {name: {tuple(map(hashable, row)) for row in rows} for name, rows in found.items()}


@dataclass
class Story:
    """The nodes, and what was seen of them."""

    processes: Processes
    network: Network
    patience: float
    moments: list[Moment] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    live: Live | None = None

    def __post_init__(self) -> None:
        self.program = flintlog.compile(PROGRAM)
        self.began = time.monotonic()

    @property
    def now(self) -> float:
        """The seconds since the beginning."""
        return time.monotonic() - self.began

    # ---- what happens ----------------------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Tell each node its links, and start it."""
        for city, node in self.network.nodes.items():
            self.tell(city, [("+", row) for row in self.network.rows(city)])
            self.processes.start(node)
            self.network.running.add(city)

    def cut(self, link: Link) -> None:
        """Let a link fail, at both ends at once."""
        self.change("-", link)
        self.network.links.remove(link)

    def mend(self, link: Link) -> None:
        """Let a link return."""
        self.network.links.add(link)
        self.change("+", link)

    def kill(self, city: str) -> None:
        """Kill a node."""
        self.processes.kill(self.network.nodes[city])
        self.network.running.remove(city)

    def kill_at_work(self, city: str, link: Link) -> None:
        """Let a link of a city fail, and kill its node while it takes that in."""
        local, node = self.processes.local, self.network.nodes[city]
        before = local.status(node)["fed"]["link"]

        def at_work() -> bool:
            said = local.status(node)
            return bool(said) and (said["busy"] or said["fed"]["link"] != before)

        self.cut(link)
        self.processes.wait_until(at_work, f"{node} does not take in that a link fails")
        self.kill(city)

    def start(self, city: str) -> None:
        """Start a node with what it had."""
        self.processes.start(self.network.nodes[city])
        self.network.running.add(city)

    def start_elsewhere(self, city: str) -> None:
        """Start a node with nothing."""
        self.processes.start_elsewhere(self.network.nodes[city])
        self.network.running.add(city)

    def change(self, op: str, link: Link) -> None:
        """Tell both ends of a link about it."""
        for city in link:
            self.tell(city, [(op, row) for row in self.network.rows(city) if set(row[:2]) == set(link)])

    def tell(self, city: str, changes: list[tuple[str, Row]]) -> None:
        """Feed a node changes of its links."""
        self.processes.feed(self.network.nodes[city], "link", ("src", "dst", "hours"), changes)

    # ---- what is seen ----------------------------------------------------------------------------------------------

    def happens(self, title: str, action: Callable[[], None]) -> None:
        """Let something happen, wait until all is quiet, and compare the tables."""
        before, paths, began = total(self.flows().values()), self.paths(), self.now
        action()
        quiet = self.watch(title)
        sent = total(self.flows().values())
        found = self.tables()
        expected = self.network.expected(self.program)
        moment = Moment(
            title,
            began,
            quiet,
            sent.messages - before.messages,
            sent.tuples - before.tuples,
            paths,
            len(found["path"]),
            tuple(name for name, rows in expected.items() if found[name] != rows),
            frozenset(self.network.links),
            frozenset(self.network.nodes.keys() - self.network.running),
            frozenset(self.best_hops(found["best"])),
        )
        self.moments.append(moment)
        console.print(
            f"{moment.quiet:5.1f} s  {title}: quiet after {moment.quiet - began:.1f} s, {moment.messages} messages, "
            f"{moment.tuples:,} tuples, {moment.before} paths before and {moment.after} after; {verdict(moment)}",
            soft_wrap=True,
        )

    def best_hops(self, best: set[Row]) -> Iterator[Link]:
        """Yield the hops of the best paths from ``HOME`` to cities whose nodes run."""
        for source, target, _, cities in best:
            if source == HOME and target in self.network.running:
                yield from pairwise(cities)

    def watch(self, title: str) -> float:
        """Show the nodes until all is quiet; return since when it is."""
        local, end, quiet = self.processes.local, time.monotonic() + self.patience, 0.0
        while not quiet or self.now - quiet < CALM:
            if local.ended():
                raise RuntimeError(f"{', '.join(local.ended())} has ended")
            if time.monotonic() > end:
                raise TimeoutError(f"not quiet after {self.patience:g} seconds")
            if not local.is_quiet():
                quiet = 0.0
            elif not quiet:
                quiet = self.now
            self.samples += [
                Sample(self.now, city, said["incarnation"], said["out"])
                for city, node in self.network.nodes.items()
                if (said := local.status(node))
            ]
            if self.live:
                self.live.update(self.shown(title))
            time.sleep(0.1)
        return quiet

    def shown(self, title: str) -> Table:
        """Return the nodes as they are now."""
        grid = Table(title=f"{self.now:5.1f} s  {title}", title_justify="left")
        for heading in ("city", "node", "state"):
            grid.add_column(heading)
        for heading in ("run", "links", "paths", "steps", "tuples in", "tuples out"):
            grid.add_column(heading, justify="right")
        for city, node in self.network.nodes.items():
            said = self.processes.local.status(node)
            process = self.processes.local.running.get(node)
            known = process is not None and said.get("pid") == process.pid
            state = "killed" if process is None else "starting" if not known else "busy" if said["busy"] else "idle"
            sizes = [self.processes.size(node, "link"), self.processes.size(node, "path")]
            counts = [said.get(key, 0) for key in ("steps", "in", "out")]
            style = {"killed": "red", "busy": "green"}.get(state)
            grid.add_row(
                city, node, state, *(f"{n:,}" for n in (said.get("incarnation", 0), *sizes, *counts)), style=style
            )
        return grid

    def paths(self) -> int:
        """Return how many paths the nodes that run know."""
        return sum(self.processes.size(self.network.nodes[city], "path") for city in self.network.running)

    def tables(self) -> dict[str, set[Row]]:
        """Return what all nodes that run have together."""
        found: dict[str, set[Row]] = {}
        for city in self.network.running:
            node = self.network.nodes[city]
            for relation in self.processes.outputs(node):
                found.setdefault(relation, set()).update(self.processes.rows(node, relation))
        return found

    def flows(self) -> dict[str, Flow]:
        """Return what was sent so far, by channel, as the nodes have logged it."""
        return run_flows(self.processes.root)

    def summary(self) -> Table:
        """Return the story as a table."""
        grid = Table(title="what happened", title_justify="left")
        for heading in ("", "event"):
            grid.add_column(heading)
        for heading in ("quiet after", "messages", "tuples sent", "paths before", "after"):
            grid.add_column(heading, justify="right")
        grid.add_column("beside one evaluation")
        for number, one in enumerate(self.moments, 1):
            counts = [f"{n:,}" for n in (one.messages, one.tuples, one.before, one.after)]
            grid.add_row(str(number), one.title, f"{one.quiet - one.began:.1f} s", *counts, verdict(one))
        return grid

    def traffic(self) -> Table:
        """Return what was sent in all, by relation and pair of nodes."""
        found, nodes = self.flows(), self.network.nodes
        grid = Table(title="messages / tuples sent, by relation and pair of nodes", title_justify="left")
        for heading in ("relation", "from", *(f"to {city}" for city in nodes), "in all"):
            grid.add_column(heading, justify="left" if heading in ("relation", "from") else "right")
        channels = {
            (c["relation"].partition(".")[2], c["sender"], c["reader"]): f"{c['relation']}--{c['reader']}"
            for c in self.processes.jobs.TOPOLOGY["channels"]
        }
        for relation in dict.fromkeys(relation for relation, _, _ in channels):
            for city, node in nodes.items():
                sent = [found.get(channels.get((relation, node, reader), ""), Flow()) for reader in nodes.values()]
                grid.add_row(relation, city, *map(cell, sent), cell(total(sent)))
        grid.add_section()
        grid.add_row("all", "", *[""] * len(nodes), cell(total(found.values())))
        return grid


def cell(flow: Flow) -> str:
    """Return the messages and the tuples of a cell."""
    return f"{flow.messages:,} / {flow.tuples:,}" if flow.messages else ""


def verdict(moment: Moment) -> str:
    """Return how the tables of all nodes compare with those of a single evaluation."""
    return f"DIFFERS in {', '.join(moment.differing)}" if moment.differing else "equal"


def tell(story: Story) -> None:
    """Let everything happen."""
    fails, later = ("Essen", "Berlin"), ("Dresden", "Berlin")
    story.happens("six nodes start", story.start_all)
    story.happens(f"{'-'.join(fails)} fails", partial(story.cut, fails))
    story.happens(f"{'-'.join(fails)} returns", partial(story.mend, fails))
    story.happens("Frankfurt is killed", partial(story.kill, "Frankfurt"))
    story.happens("Frankfurt is back, with what it had", partial(story.start, "Frankfurt"))
    story.happens(f"{'-'.join(later)} fails, Berlin is killed", partial(story.kill_at_work, "Berlin", later))
    story.happens("Berlin is back, with nothing", partial(story.start_elsewhere, "Berlin"))
    story.happens(f"{'-'.join(later)} returns", partial(story.mend, later))
    check(story)


def check(story: Story) -> None:
    """Raise WrongTables if tables differed after any event."""
    differing = [moment.title for moment in story.moments if moment.differing]
    if differing:
        raise WrongTables(f"tables differ from those of a single evaluation after: {', '.join(differing)}")


def holders() -> dict[str, str]:
    """Return the node of each city."""
    with NODES.open(encoding="utf-8", newline="") as file:
        return {row["address"]: f"node{row['node']}" for row in csv.DictReader(file)}


def main() -> int:
    """Compile, tell the story, and show what was seen."""
    parser = argparse.ArgumentParser(description="six nodes find all paths between them while links and nodes fail")
    parser.add_argument("--folder", type=Path, default=Path("build/network"), help="where everything is written")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait until all is quiet")
    options = parser.parse_args()
    folder = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    compiling = ["flintlog", "compile", PROGRAM, "--target", "processes", "--nodes", NODES, "-o", folder / "jobs"]
    console.print(f"[bold]{' '.join(map(str, compiling))}", soft_wrap=True)
    subprocess.run(compiling, check=True)
    given = ["--lease", str(LEASE), "--poll", str(POLL)]
    processes = Processes(folder / "jobs", folder / "run", given)
    story = Story(processes, Network(holders()), options.patience)
    try:
        if console.is_terminal:
            with Live(console=console, transient=True, auto_refresh=False) as story.live:
                tell(story)
        else:
            tell(story)
    except (WrongTables, TimeoutError, RuntimeError) as error:
        console.print(f"error: {error}; logs are in {folder / 'run' / 'logs'}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        processes.local.end_all()
        show(story, folder / "network.svg")
    return 0


def show(story: Story, picture: Path) -> None:
    """Print what was seen, and draw it."""
    if not story.moments:
        return
    console.print()
    console.print(story.summary())
    console.print(story.traffic())
    picture.write_text(draw(story.moments, story.samples, list(story.network.nodes), HOME), encoding="utf-8")
    console.print(f"the picture of it is {picture}", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
