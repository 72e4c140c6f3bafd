"""``make demo-switches``: two switches and their controller, which is killed and comes back elsewhere, with nothing.

The story is that of the figures of the D3log note on reconfiguration: normal operation, failure, recovery. S3 is ended
with SIGKILL while it applies a batch. The story is told twice: as it is, and with the gadget at the end of the note, by
which S1 and S2 hold what they had from S3 until it is back.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from local_processes import Processes, WrongTables

HERE = Path(__file__).parent
PROGRAM = HERE / "switches.dl"
LEASE = 4.0
HOLD = 300.0

console = Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=110)


@dataclass
class Network:
    """The hosts of each switch, and the blacklist."""

    hosts: dict[int, set[int]]
    blacklist: set[int]

    def tables(self) -> dict[str, set[tuple[int, ...]]]:
        """What each process has to publish."""
        found: dict[str, set[tuple[int, ...]]] = {
            "S3.host": {(host, switch) for switch, hosts in self.hosts.items() for host in hosts},
            "S3.blacklist": {(host, switch) for switch, hosts in self.hosts.items() for host in hosts & self.blacklist},
        }
        for switch, hosts in self.hosts.items():
            found[f"S{switch}.host"] = {(host,) for host in hosts}
            found[f"S{switch}.blacklist"] = {(host,) for host in hosts & self.blacklist}
        return found


@dataclass
class Story:
    """The processes of one telling, and what was seen."""

    processes: Processes
    network: Network
    handled: dict[str, list[int]] = field(default_factory=dict)

    def begin(self) -> None:
        """Start all three, and give them their rows."""
        for name in self.processes.jobs.ORDER:
            self.processes.start(name)
        for switch, hosts in self.network.hosts.items():
            self.feed(f"S{switch}", "host", ("hostID", "switchID"), ((host, switch) for host in sorted(hosts)))
        self.feed("S3", "blacklist", ("hostID",), ((host,) for host in sorted(self.network.blacklist)))
        self.processes.local.wait_until_quiet(180)

    def feed(self, process: str, relation: str, columns: tuple[str, ...], rows: Iterable[tuple[int, ...]]) -> None:
        """Give a process new rows from outside."""
        self.processes.feed(process, relation, columns, (("+", row) for row in rows))

    def fail(self) -> None:
        """Kill S3 while it applies a batch, and wait until the switches have noticed."""
        new = set(range(100_000, 100_000 + len(self.network.blacklist) // 10))
        self.network.blacklist |= new
        self.network.hosts[1] |= {host for host in new if host % 2}
        self.feed("S1", "host", ("hostID", "switchID"), ((host, 1) for host in sorted(new) if host % 2))
        self.feed("S3", "blacklist", ("hostID",), ((host,) for host in sorted(new)))
        local, switches = self.processes.local, ("S1", "S2")
        self.processes.wait_until(self.is_begun, "S3 does not take the batch in")
        self.processes.kill("S3")
        noticed = "S1 and S2 do not notice that S3 is gone"
        self.processes.wait_until(lambda: all(self.line(name) != "open" for name in switches), noticed)
        local.wait_until_quiet(60)

    def is_begun(self) -> bool:
        """Whether S3 takes in the batch, or has taken it in, which is a matter of milliseconds."""
        said = self.processes.local.status("S3")
        return bool(said["busy"] or len(said["fed"]["blacklist"]) > 1)

    def recover(self) -> None:
        """Start S3 again, in an empty folder."""
        self.processes.start_elsewhere("S3")
        self.processes.local.wait_until_quiet(180)

    def line(self, name: str) -> str:
        """The state of a switch's channel from S3."""
        state: str = self.processes.local.status(name)["receives"][f"S3.blacklist--{name}"]["state"]
        return state

    def note(self) -> None:
        """Note how many tuples each switch has handled so far."""
        for name in ("S1", "S2"):
            self.handled.setdefault(name, []).append(self.processes.local.status(name)["in"])

    def tables(self) -> dict[str, set[tuple[int, ...]]]:
        """What the running processes have."""
        return {
            relation: self.processes.rows(name, relation)
            for name in self.processes.local.running
            for relation in self.processes.outputs(name)
        }

    def show(self, title: str) -> dict[str, set[tuple[int, ...]]]:
        """Print the sizes of the tables."""
        found = self.tables()
        expected = self.network.tables()
        grid = Table(title=title, title_justify="left")
        grid.add_column("relation")
        grid.add_column("tuples", justify="right")
        grid.add_column("by the rules", justify="right")
        for relation in expected:
            size = f"{len(found[relation]):,}" if relation in found else "S3 is gone"
            grid.add_row(relation, size, f"{len(expected[relation]):,}")
        console.print(grid)
        return found

    def check(self, title: str) -> None:
        """Print the tables, which have to be those of the rules."""
        found, expected = self.show(title), self.network.tables()
        for relation, rows in expected.items():
            if found[relation] != rows:
                raise WrongTables(f"{relation} has {len(found[relation])} tuples, not the {len(rows)} of the rules")


def tell(scripts: Path, folder: Path, size: int, hold: float) -> dict[str, int]:
    """Tell the story once; returns how many tuples each switch handled from the failure to the end."""
    rng = random.Random(7)
    hosts = {switch: set(rng.sample(range(switch * 50_000, switch * 50_000 + 40_000), size)) for switch in (1, 2)}
    network = Network(hosts, {host for one in hosts.values() for host in one if rng.random() < 0.5})
    shutil.rmtree(folder, ignore_errors=True)
    story = Story(Processes(scripts, folder, ["--lease", str(LEASE), "--hold", str(hold)]), network)
    try:
        story.begin()
        story.check("normal operation")
        story.note()
        story.fail()
        during = story.show(f"S3 was killed{', its tuples are held' if hold else ''}")
        for name in ("S1", "S2"):
            if bool(during[f"{name}.blacklist"]) != bool(hold):
                raise WrongTables(f"{name}.blacklist has {len(during[f'{name}.blacklist'])} tuples while S3 is gone")
        story.note()
        story.recover()
        story.note()
        story.check("S3 is back, elsewhere and with nothing")
    finally:
        story.processes.local.end_all()
    return {name: counts[-1] - counts[0] for name, counts in story.handled.items()}


def main() -> int:
    """Compile, tell the story without and with the gadget, and print what it saves."""
    parser = argparse.ArgumentParser(description="two switches and a controller that is killed and comes back")
    parser.add_argument("--folder", type=Path, default=Path("build/switches"), help="where everything is written")
    parser.add_argument("--size", type=int, default=1_000, help="hosts of each switch (default: %(default)s)")
    options = parser.parse_args()
    folder = options.folder.absolute()
    scripts = folder / "jobs"
    console.print(f"[bold]flintlog compile {PROGRAM.name} --target processes -o {scripts}")
    subprocess.run(["flintlog", "compile", PROGRAM, "--target", "processes", "-o", scripts], check=True)
    handled = {}
    for title, hold in (("as it is", 0.0), ("with the gadget", HOLD)):
        console.print(f"\n[bold]{title}")
        try:
            handled[title] = tell(scripts, folder / title.replace(" ", "-"), options.size, hold)
        except (WrongTables, TimeoutError, RuntimeError) as error:
            console.print(f"error: {error}; logs are in {folder}", style="red", markup=False)
            return 1
    grid = Table(title="tuples that a switch handles from the failure to the recovery", title_justify="left")
    for heading in ("", "S1", "S2"):
        grid.add_column(heading, justify="right" if heading else "left")
    for title, counts in handled.items():
        grid.add_row(title, f"{counts['S1']:,}", f"{counts['S2']:,}")
    console.print()
    console.print(grid)
    return 0


if __name__ == "__main__":
    sys.exit(main())
