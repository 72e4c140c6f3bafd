"""Put load on the service, with requests from another process, and compare all answers with the rules.

Usage: ``python load.py --checks 1000 --batches 20 --seconds 10``. Rates are requests a second. A request counts from
when it was due: if the service falls behind, the times grow.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import flintlog

HERE = Path(__file__).parent
PROGRAM = HERE / "permissions.dl"

Row = tuple[str, ...]
Facts = dict[str, set[Row]]
Changes = dict[str, list[list[str]]]

PEOPLE, GROUPS, FOLDERS, ITEMS = (
    [f"{kind}{number}" for number in range(count)]
    for kind, count in (("person", 200), ("group", 40), ("folder", 20), ("item", 200))
)
ACTIONS = ["read", "write", "share"]

START = {"member": 400, "nested": 10, "granted": 80, "denied": 20}
"""How many random rows there are at the start, besides the trees of groups and folders."""

WEIGHTS = {"member": 80, "granted": 10, "denied": 8, "nested": 2}
"""How often a change is one of each relation."""


class Service:
    """The service as a process, with its file in a folder. It can be used in a ``with`` statement."""

    def __init__(self, folder: Path) -> None:
        """Start the service and wait until it listens."""
        self.log = folder / "service.log"
        start = self.log.stat().st_size if self.log.exists() else 0
        options = ("--app-dir", str(HERE), "--port", "0", "--no-access-log", "--no-use-colors")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "service:app", *options],
                env=os.environ | {"PERMISSIONS": str(folder / "permissions.db")},
                stderr=log,
            )
        while not (found := re.search(r"running on http://127.0.0.1:(\d+)", self.log.read_text("utf-8")[start:])):
            if self.process.poll() is not None:
                raise RuntimeError(f"the service does not start:\n{self.log.read_text('utf-8')[start:]}")
            time.sleep(0.02)
        self.port = int(found[1])

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGTERM)

    def end(self, how: signal.Signals) -> None:
        """End the process by a signal."""
        self.process.send_signal(how)
        self.process.wait()


class Client:
    """A connection to the service."""

    def __init__(self, port: int) -> None:
        """Connect with the first request."""
        self.connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read())

    def get(self, path: str, **parameters: str | int) -> Any:
        """Return an answer to GET; raise RuntimeError if the request is refused."""
        return self._answer("GET", f"{path}?{urlencode(parameters)}")

    def put(self, batch: str, changes: Changes) -> Any:
        """Return the answer to a batch; raise RuntimeError if it is refused."""
        return self._answer("PUT", f"/batches/{quote(batch)}", changes)

    def _answer(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.request(method, path, body)
        if status != 200:
            raise RuntimeError(f"{method} {path}: {status} {answer}")
        return answer


class Policy:
    """What a client believes to be the rows of the inputs, and random changes of them."""

    def __init__(self, seed: int) -> None:
        """Make the rows of the start: groups and folders are trees, with more groups nested at random."""
        self.random, self.facts = random.Random(seed), defaultdict[str, set[Row]](set)
        self.facts["nested"] = {(GROUPS[i], GROUPS[i // 3]) for i in range(1, len(GROUPS))}
        self.facts["placed"] = {(FOLDERS[i], FOLDERS[i // 3]) for i in range(1, len(FOLDERS))}
        self.facts["placed"] |= {(item, self.random.choice(FOLDERS)) for item in ITEMS}
        for relation, count in START.items():
            self.facts[relation] |= {self.row(relation) for _ in range(count)}

    def row(self, relation: str) -> Row:
        """Return a random row of a relation."""
        choose = self.random.choice
        if relation == "member":
            return choose(PEOPLE), choose(GROUPS)
        if relation == "nested":
            return choose(GROUPS[20:]), choose(GROUPS[20:])
        return choose(GROUPS), choose(ACTIONS), choose(FOLDERS[10:] + ITEMS)

    def first(self) -> Changes:
        """Return the batch that inserts the rows of the start."""
        return {relation: [["+", *row] for row in sorted(rows)] for relation, rows in self.facts.items()}

    def change(self) -> Changes:
        """Return a batch of one to four changes; as many rows are deleted as inserted."""
        found: dict[str, dict[Row, str]] = defaultdict(dict)
        for relation in self.random.choices([*WEIGHTS], [*WEIGHTS.values()], k=self.random.randint(1, 4)):
            rows = self.facts[relation]
            delete = rows and self.random.random() < 0.5
            row = self.random.choice(sorted(rows)) if delete else self.row(relation)
            if row not in found[relation]:
                found[relation][row] = "-" if row in rows else "+"
        for relation, changed in found.items():
            update(self.facts[relation], ([op, *row] for row, op in changed.items()))
        return {relation: [[op, *row] for row, op in changed.items()] for relation, changed in found.items()}


def update(rows: set[Row], changes: Iterator[list[str]] | list[list[str]]) -> None:
    """Apply changes to rows."""
    for op, *row in changes:
        (rows.add if op == "+" else rows.discard)(tuple(row))


def facts_of(batches: dict[int, Changes]) -> Facts:
    """Return the rows of the inputs behind batches, by the numbers of their commits."""
    facts: Facts = {relation: set() for relation in ("member", "nested", "placed", "granted", "denied")}
    for _, batch in sorted(batches.items()):
        for relation, changes in batch.items():
            update(facts[relation], changes)
    return facts


class Check(NamedTuple):
    """An answer: its commit, what was asked, what was said, and the last commit that the client knew when it asked."""

    commit: int
    asked: Row
    allowed: bool
    known: int


class Load:
    """Threads that send requests at given rates, and what they were answered."""

    def __init__(self, port: int, seed: int = 0) -> None:
        """Send the rows of the start, as the first batch."""
        self.port, self.policy, self.lock = port, Policy(seed), threading.Lock()
        self.stopped = threading.Event()
        self.checks: list[Check] = []
        self.batches: dict[int, Changes] = {}
        self.changes: list[tuple[int, str, Row]] = []
        self.times: dict[str, list[float]] = {"checks": [], "batches": []}
        self.numbers = itertools.count(1)
        first = self.policy.first()
        self.known = Client(port).put("first", first)["commit"]
        self.batches[self.known] = first

    def run(self, checks: float, batches: float, seconds: float, connections: int = 8) -> None:
        """Send requests, so many a second of each kind."""
        start = time.perf_counter() + 0.1
        kinds = [("checks", self.check, checks, connections), ("batches", self.batch, batches, 2)]
        with ThreadPoolExecutor(connections + 3) as threads:
            follower = threads.submit(self.follow)
            paced = [
                threads.submit(self.pace, kind, send, start + seconds, start + place / rate, count / rate, place)
                for kind, send, rate, count in kinds
                for place in range(count)
            ]
            try:
                for work in paced:
                    work.result()
            finally:
                self.stopped.set()
            follower.result()

    def pace(
        self,
        kind: str,
        send: Callable[[Client, random.Random], None],
        end: float,
        due: float,
        step: float,
        seed: int,
    ) -> None:
        """Send a request at each of the times in steps, or as soon as the one before is answered."""
        client, chosen = Client(self.port), random.Random(seed)
        while due < end and time.perf_counter() < end:
            time.sleep(max(0.0, due - time.perf_counter()))
            send(client, chosen)
            self.times[kind].append(time.perf_counter() - due)
            due += step

    def check(self, client: Client, chosen: random.Random) -> None:
        """Ask whether somebody may do something."""
        known = self.known
        asked = chosen.choice(PEOPLE), chosen.choice(ACTIONS), chosen.choice(ITEMS)
        answer = client.get("/check", **dict(zip(("person", "action", "item"), asked, strict=True)))
        self.checks.append(Check(answer["commit"], asked, answer["allowed"], known))

    def batch(self, client: Client, chosen: random.Random) -> None:
        """Send a batch, and one in ten of them twice."""
        with self.lock:
            batch, changes = f"batch {next(self.numbers)}", self.policy.change()
        commit = client.put(batch, changes)["commit"]
        with self.lock:
            assert commit not in self.batches, f"two batches are commit {commit}"
            self.batches[commit] = changes
            self.known = max(self.known, commit)
        if chosen.random() < 0.1:
            again = client.put(batch, changes)
            assert again == {"commit": commit, "granted": [], "revoked": []}, f"{batch}, sent twice: {again}"

    def follow(self) -> None:
        """Ask for changes until all requests are answered, and once again."""
        client, since, stopped = Client(self.port), 1, False
        while not stopped:
            stopped = self.stopped.wait(0.2)
            answer = client.get("/changes", since=since)
            self.changes += [(commit, op, tuple(row)) for commit, op, *row in answer["changes"]]
            since = answer["commit"]

    def verify(self) -> int:
        """Compare each check with the changes up to its commit, and the end with a new evaluation of the rules; return
        how many rows are allowed. Raises AssertionError if anything differs."""
        rows: set[Row] = set()
        place = 0
        for check in sorted(self.checks):
            behind = bisect.bisect_right(self.changes, check.commit, key=lambda change: change[0])
            for _, op, row in self.changes[place:behind]:
                assert (row in rows) == (op == "-"), f"{op} {row} is no net change"
                update(rows, [[op, *row]])
            place = behind
            assert check.known <= check.commit, f"{check} does not see a batch that was acknowledged before"
            assert (check.asked in rows) == check.allowed, f"{check} is wrong"
        update(rows, [[op, *row] for _, op, row in self.changes[place:]])
        expected = {*flintlog.evaluate(PROGRAM, facts_of(self.batches))["allowed"]}
        assert rows == expected, "the changes do not lead to the result of the rules"
        client = Client(self.port)
        answers = {(person, *row) for person in PEOPLE for row in client.get("/allowed", person=person)["allowed"]}
        assert answers == expected, "what persons may do differs from the result of the rules"
        return len(rows)


def percentiles(times: list[float]) -> str:
    """Return the median and the 95th percentile of times, in milliseconds."""
    ordered = sorted(times)
    return ", ".join(f"p{share} {ordered[len(ordered) * share // 100] * 1000:.1f} ms" for share in (50, 95, 99))


def main() -> None:
    """Start the service, put load on it, and print the figures."""
    parser = argparse.ArgumentParser(description="Put load on the service and compare all answers with the rules.")
    parser.add_argument("--checks", type=float, default=1000, help="how many checks a second [1000]")
    parser.add_argument("--batches", type=float, default=20, help="how many batches a second [20]")
    parser.add_argument("--seconds", type=float, default=10, help="for how long [10]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder)) as service:
        load = Load(service.port)
        load.run(options.checks, options.batches, options.seconds)
        print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {options.seconds:g} s")
        for kind, times in load.times.items():
            print(f"{kind}: {len(times) / options.seconds:,.0f} a second, {percentiles(times)}")
        print(f"all answers are right; {load.verify():,} rows are allowed, {len(load.changes):,} changes")


if __name__ == "__main__":
    main()
