"""Run the processes of topology.json on this machine, and show how they are.

Each is in a Python of its own. Changes from outside are files (CSV, JSON
lines, Parquet) in ROOT/feeds/PROCESS/RELATION/, with a column op, taken in by the order of their names; those that
begin with a dot are left alone until they are renamed. What the processes say goes to ROOT/logs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute().parent
try:
    TOPOLOGY: dict[str, Any] = json.loads((HERE / "topology.json").read_text(encoding="utf-8"))
except (OSError, ValueError) as error:
    sys.exit(f"{HERE / 'topology.json'} cannot be read: {error}; compile the program again")
PROCESSES = {p["name"]: [p["script"], "serve", *p.get("arguments", ())] for p in TOPOLOGY["processes"]}
# Splits one feed for all nodes.
PROCESSES |= {router["name"]: [router["script"], "route"] for router in TOPOLOGY.get("routers", ())}
ORDER = list(PROCESSES)
NODES = [process["name"] for process in TOPOLOGY["processes"] if "arguments" in process]
MOST_PAIRED = 12
"""The nodes of a located program, and the number of nodes above which pairs are not shown."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that tell this script to end."""


@dataclass
class Local:
    """Processes on this machine. ``options`` go to each."""

    root: Path
    options: Sequence[str] = ()
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    """All that were ever started here; others may run elsewhere."""

    patience: float = 30.0
    """The seconds in which processes have to end that are told to."""

    def start(self, name: str, home: Path | None = None) -> None:
        """Start a process; in a new ``home`` it knows nothing of what it was before."""
        script, *arguments = PROCESSES[name]
        # As a module, which Python compiles once.
        command = [sys.executable, "-m", Path(script).stem, *arguments, "--root", str(self.root.absolute())]
        command += self.options if arguments[0] == "serve" else []
        if home is not None:
            command += ["--home", str(home.absolute())]
        logs = self.root / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, cwd=HERE, stdout=log, stderr=log, start_new_session=True)
        self.started.add(name)

    def end(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End a process: with SIGTERM it says goodbye, with SIGKILL it does not."""
        self.tell(name, how)
        self.see_out([name])

    def end_all(self) -> None:
        """End all processes."""
        # Told once more to end, this goes on with it.
        main = threading.current_thread() is threading.main_thread()
        before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING if main}
        try:
            for name in self.running:
                self.tell(name, signal.SIGTERM)
            self.see_out(list(self.running))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def tell(self, name: str, how: signal.Signals) -> None:
        """Send a process a signal; SIGKILL goes to what it has started too."""
        process = self.running[name]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how) if how == signal.SIGKILL else process.send_signal(how)

    def see_out(self, names: Sequence[str]) -> None:
        """Wait until processes have ended, but no longer than a while for all of them; then whatever is left of them is
        killed."""
        end = time.monotonic() + self.patience
        for name in names:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.running[name].wait(max(end - time.monotonic(), 0))
        for name in names:
            process = self.running.pop(name)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def feed(self, process: str, relation: str, name: str, text: str) -> None:
        """Give a process rows from outside, as the text of a file."""
        folder = self.root / "feeds" / process / relation
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f".{name}").write_text(text, encoding="utf-8")
        (folder / f".{name}").rename(folder / name)

    def status(self, name: str) -> dict[str, Any]:
        """The last status of a process; empty if it never did, or nothing that can be read."""
        path = self.root / "status" / f"{name}.json"
        try:
            said = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except (OSError, ValueError):
            return {}
        return said if isinstance(said, dict) and "pid" in said else {}

    def ended(self) -> list[str]:
        """The processes that were started and are not running any more."""
        return [name for name, process in self.running.items() if process.poll() is not None]

    def is_quiet(self) -> bool:
        """Whether all running processes have done all that can be done: what was sent to them was processed, what they
        are fed was taken in or refused, their readers have begun, and they are not at work."""
        statuses = {name: self.status(name) for name in self.running}
        for name, said in statuses.items():
            if said.get("pid") != self.running[name].pid or said["busy"]:
                return False
            for relation, last in said["fed"].items():
                if relation in said["held_up"]:
                    continue
                folder = self.root / "feeds" / name / relation
                names = (
                    {file for file in (path.name for path in folder.iterdir()) if file[0] != "."}
                    if folder.is_dir()
                    else set()
                )
                if names - {*last, *said["aside"][relation]}:
                    return False
        for channel in TOPOLOGY["channels"]:
            name, sender = f"{channel['relation']}--{channel['reader']}", channel["sender"]
            if channel["reader"] not in self.running:
                continue
            line = statuses[channel["reader"]]["receives"][name]
            if sender not in self.running:
                # What was started here and has ended is to be noticed; what runs elsewhere may say what it has sent.
                sent = {} if sender in self.started else self.status(sender).get("sends", {})
                if line["state"] == "open" and (
                    sender in self.started or (sent and self.waiting(sent[name], line) != 0)
                ):
                    return False
            elif self.waiting(statuses[sender]["sends"][name], line) != 0:
                return False
        return True

    def waiting(self, sent: dict[str, Any], line: dict[str, Any]) -> int | None:
        """How many messages of a channel were sent and have not come; None if its ends speak of different lives."""
        if sent["life"] != line["life"] or sent["life"][1] != line["session"]:
            return None
        return int(sent["messages"]) - int(line["messages"])

    def wait_until_quiet(self, seconds: float = 120.0) -> None:
        """Wait until all is quiet, and still is a little later; raises TimeoutError, and RuntimeError if a process has
        ended."""
        end, quiet_since = time.monotonic() + seconds, 0.0
        while time.monotonic() < end:
            if self.ended():
                raise RuntimeError(f"{', '.join(self.ended())} has ended; see {self.root / 'logs'}")
            if not self.is_quiet():
                quiet_since = 0.0
            elif not quiet_since:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > 0.5:
                return
            time.sleep(0.05)
        raise TimeoutError(f"not quiet after {seconds:g} seconds")

    def problems(self) -> list[str]:
        """Return a line for each refusal of a running process, and for each obstacle that stops one."""
        messages = []
        for name in self.running:
            said = self.status(name)
            for message in (*said.get("refused", ()), *filter(None, [said.get("trouble")])):
                messages.append(f"{name}: {' '.join(message.split())}")
        return messages

    def table(self) -> list[str]:
        """A line for each process, and for each channel or, of nodes, for each relation and node that sends."""
        statuses = {name: self.status(name) for name in ORDER}
        rows = [("process", "incarnation", "state", "in", "out", "steps", "last transaction")]
        for name, said in statuses.items():
            state = "not started"
            if name in self.running:
                alive = self.running[name].poll() is None
                started = said.get("pid") == self.running[name].pid
                state = "ended" if not alive else "starting" if not started else "busy" if said["busy"] else "idle"
            elif said:
                state = "gone"
            counts = [str(said.get(key, "")) for key in ("in", "out", "steps", "last")]
            rows.append((name, str(said.get("incarnation", "")), state, *counts))
        if NODES:
            return [*aligned(rows), "", *aligned(self.relations(statuses)), "", *aligned(self.pairs(statuses))]
        return [*aligned(rows), "", *aligned(self.channels(statuses))]

    def channels(self, known: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """A row for each channel, with the messages and tuples that its sender has sent since it was started."""
        rows: list[tuple[str, ...]] = [("channel", "from", "to", "state", "life", "messages", "tuples", "waiting")]
        for channel, sent, line in self.ends(known):
            waiting = self.waiting(sent, line) if sent and line else None
            state, life = (line["state"], shown_life(line["life"])) if line else ("", "")
            counts = [str(n) for n in total([sent])] if sent else ["", ""]
            ends = (channel["relation"], channel["sender"], channel["reader"])
            rows.append((*ends, state, life, *counts, "" if waiting is None else str(waiting)))
        return rows

    def relations(self, known: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """A row for each relation that nodes send each other, with what was sent of it since they were started."""
        sent_rows: dict[str, list[Any]] = {}
        waits: dict[str, int] = {}
        for channel, sent, line in self.ends(known):
            relation = channel["relation"].partition(".")[2]
            sent_rows.setdefault(relation, []).append(sent)
            waits[relation] = waits.get(relation, 0) + ((self.waiting(sent, line) or 0) if sent and line else 0)
        counted = [(name, *map(str, total(sent)), str(waits[name])) for name, sent in sent_rows.items()]
        return [("relation", "messages", "tuples", "waiting"), *counted]

    def pairs(self, known: Mapping[str, Any]) -> list[tuple[str, ...]]:
        """A row for each node, with the messages and tuples that it has sent to each of the others, if they are few."""
        shown = NODES if len(NODES) <= MOST_PAIRED else []
        sent_rows: dict[tuple[str, str], list[Any]] = {(name, to): [] for name in NODES for to in ("all", *shown)}
        for channel, sent, _ in self.ends(known):
            for to in {"all", channel["reader"]} & {"all", *shown}:
                sent_rows[channel["sender"], to].append(sent)
        texts = {pair: "/".join(map(str, total(sent))) for pair, sent in sent_rows.items()}
        counted = [(name, *(texts[name, to] for to in ("all", *shown))) for name in NODES]
        return [("messages/tuples sent", "to all", *(f"to {name}" for name in shown)), *counted]

    def ends(self, known: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
        """Each channel, with what its sender and its reader say of it."""
        for channel in TOPOLOGY["channels"]:
            name = f"{channel['relation']}--{channel['reader']}"
            yield (
                channel,
                known[channel["sender"]].get("sends", {}).get(name),
                known[channel["reader"]].get("receives", {}).get(name),
            )


def total(sent: Iterable[Any]) -> tuple[int, int]:
    """The messages and tuples on channels, of which senders say what they have sent."""
    counts = [said.get("total", {}) for said in sent if said]
    tuples = sum(count.get("inserted", 0) + count.get("deleted", 0) for count in counts)
    return sum(count.get("messages", 0) for count in counts), tuples


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table, the first row being its heading."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def shown_life(life: Sequence[Any]) -> str:
    """A life as people read it: incarnation, session, and how often the sender began with it."""
    incarnation, session, beginning = life
    return f"{incarnation[0]}.{session[0]}.{beginning}"


def stop(number: int, _frame: Any) -> None:
    """End as by Ctrl-C, with the exit code that tells the signal."""
    raise SystemExit(128 + number)


def main() -> int:
    """Start the processes, show them until they are ended by Ctrl-C, or until all is quiet."""
    parser = argparse.ArgumentParser(description=f"Runs the processes {', '.join(ORDER)} on this machine.")
    parser.add_argument(
        "--root", type=Path, default=Path("processes"), help="the folder that they share (default: %(default)s)"
    )
    parser.add_argument("--only", action="append", choices=ORDER, help="start only this process; can be repeated")
    parser.add_argument(
        "--lease", default="5", help="treat a process as gone after this many seconds without a message"
    )
    parser.add_argument("--hold", default="0", help="keep the facts of a process that is gone for this many seconds")
    parser.add_argument(
        "--keep", metavar="N|TIME", help="how many commits of a process keep their changes, or for how long, such as 7d"
    )
    parser.add_argument(
        "--channels", metavar="kafka://HOST:PORT/NAME", help="use Kafka topics as channels instead of folders"
    )
    parser.add_argument("--kafka-settings", metavar="FILE.json", help="further settings of the Kafka client")
    parser.add_argument("--secret-file", metavar="FILE", help="sign messages with the secret in this file")
    parser.add_argument("--until-quiet", action="store_true", help="end when all changes have been processed")
    options = parser.parse_args()
    passed = ["--lease", options.lease, "--hold", options.hold]
    passed += ["--keep", options.keep] if options.keep is not None else []
    # What is given and empty is a mistake, of which the processes speak.
    passed += ["--channels", options.channels] if options.channels is not None else []
    for option, file in (("--kafka-settings", options.kafka_settings), ("--secret-file", options.secret_file)):
        passed += [option, str(Path(file).absolute()) if file else file] if file is not None else []
    local = Local(options.root.absolute(), passed)
    for number in ENDING[1:]:
        signal.signal(number, stop)
    live, shown, quiet = sys.stdout.isatty(), 0, 0
    told: list[str] = []
    try:
        for name in options.only or ORDER:
            local.start(name)
        while True:
            lines, problems = local.table(), local.problems()
            for problem in problems:
                if problem not in told:
                    # Above the table, and once.
                    print(f"\x1b[{shown}A\x1b[J" * bool(shown), end="", flush=True)
                    print(problem, file=sys.stderr)
                    shown = 0
            told = problems
            if live:
                print(f"\x1b[{shown}A" * bool(shown) + "\n".join(f"\x1b[K{line}" for line in lines), flush=True)
                shown = len(lines)
            if local.ended():
                print(f"{', '.join(local.ended())} has ended; see {local.root / 'logs'}", file=sys.stderr)
                return 1
            quiet = quiet + 1 if local.is_quiet() else 0
            if options.until_quiet and quiet > 3:
                if not live:
                    print("\n".join(lines))
                return 1 if problems else 0
            time.sleep(0.3)
    except KeyboardInterrupt:
        return 0
    finally:
        local.end_all()


if __name__ == "__main__":
    sys.exit(main())
