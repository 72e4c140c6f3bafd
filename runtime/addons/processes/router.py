"""The router of the nodes of a program: it splits one feed for all nodes by location.

The router reads the files in ``ROOT/feeds/router/RELATION/`` in the order of their names, as a process would, and puts
the rows of each into the feeds of the nodes that hold their addresses. Inputs without a location go to all nodes.

A file is split once. The parts are written to a folder of the router and forced to disk, then a transaction records
them under a number, and only then they are copied to the feeds, under names with that number. A router that was killed
before the transaction splits the file again; after it, it copies the parts that are missing.
"""

from __future__ import annotations

import contextlib
import filecmp
import hashlib
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...database.reading import StoredChange
from ...database.state import telling_errors
from ...inputs.records import refused
from ...kernel.errors import JobError, Refused, reason
from ...kernel.values import named_values, stored_row
from ...row_kernel.encodings import decoded_row
from ...row_kernel.model import RowProgram, RowRelation
from ...system.log import Log
from ...system.places import make_folder, sync, sync_files
from ...system.transient_errors import Troubles
from .channels import table_bytes
from .feeds import Feeds, feed_folder
from .nodes import ROUTER, Nodes
from .snapshots import FeedFolder, change_table, changes_in
from .status import write_status
from .unattended import passes_unattended

ROUTER_TABLES = (
    "made_for (text TEXT)",
    "passed (relation TEXT, file TEXT)",
    "routed (number INTEGER PRIMARY KEY, relation TEXT, file TEXT, parts TEXT, done INTEGER)",
)
"""What a router records: what it is for, the snapshots that stand for files that it has split, and the files."""

ROUTED_FILE = re.compile(r"router-([0-9]{12})\.parquet")
"""The names of the files that a router has put into the feeds of nodes."""


class Router:
    """A running router. Its records are in a folder beside the feeds that it reads, so that copies have both."""

    def __init__(self, program: RowProgram, nodes: Nodes, root: Path, log: Log) -> None:
        """Open the records, or create them; raise JobError if they are of other nodes, or lack what nodes were fed."""
        self.program, self.nodes, self.root, self.log = program, nodes, root, log
        self.home = feed_folder(root, ROUTER, ".routed")
        self.relations = {name: program.inputs[name] for name in nodes.fed}
        make_folder(self.home)
        self.connection = self.open()
        try:
            self.check_records()
        except BaseException:
            self.connection.close()
            raise
        self.feeds = Feeds(root, ROUTER, nodes.fed, self.files_routed, log)
        self.counts = {"in": 0, "out": 0, "steps": 0}
        self.last = ""
        self.troubles = Troubles(log)
        self.said = b""

    # ---- records -----------------------------------------------------------------------------------------------------

    def open(self) -> sqlite3.Connection:
        """Open or create the database of the records; raise JobError if another router has it, or if it is of an
        earlier version."""
        path = self.home / "router.db"
        if (self.home / "router.duckdb").exists():
            raise JobError(
                f"{self.home} has the records of a router of an earlier version of Flintlog: start the nodes and their "
                "router in a new folder (--root)"
            )
        with telling_errors(str(path)):
            connection = sqlite3.connect(path, 0.0, isolation_level=None)
            try:
                for setting in ("trusted_schema = OFF", "locking_mode = EXCLUSIVE", "synchronous = FULL"):
                    connection.execute(f"PRAGMA {setting}")
                connection.execute("BEGIN EXCLUSIVE")
                for table in ROUTER_TABLES:
                    connection.execute(f"CREATE TABLE IF NOT EXISTS {table}")
                connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                connection.close()
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise JobError(f"{path} is in use: another router of {self.root} is running") from error
                raise
        return connection

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with telling_errors(str(self.home / "router.db")):
            return self.connection.execute(sql, values).fetchall()

    def check_records(self) -> None:
        """Record what this router splits; raise JobError if the records are of something else, or older than what nodes
        were fed."""
        made_for = division_text(self.nodes, self.relations)
        recorded = self.run("SELECT text FROM made_for")
        if not recorded:
            self.run("INSERT INTO made_for VALUES (?)", [made_for])
            sync(self.home)
        elif recorded != [(made_for,)]:
            raise JobError(
                f"{self.home} has the records of a router for other nodes, or for inputs with other columns: start the "
                "nodes and their router in a new folder (--root)"
            )
        unfinished = {f"{number:012d}" for (number,) in self.run("SELECT number FROM routed WHERE NOT done")}
        for folder in self.home.glob("[0-9]*"):
            if folder.name not in unfinished:
                shutil.rmtree(folder, ignore_errors=True)
        ((last,),) = self.run("SELECT COALESCE(MAX(number), 0) FROM routed")
        for node in range(self.nodes.partition.count):
            for name in self.nodes.fed:
                folder = self.feed_of(node, name)
                listing = FeedFolder(folder).listing()
                for file in sorted({*listing.files, *listing.covered}):
                    routed = ROUTED_FILE.fullmatch(file)
                    if routed and int(routed[1]) > last:
                        raise JobError(
                            f"{folder / file} was put there by a router, and {self.home} does not know of it: it is "
                            "new, or an older copy; restore it, or start the nodes and their router in a new folder "
                            "(--root)"
                        )

    def files_routed(self, relation: str) -> list[str]:
        """Return the names of the files that were split for a relation, and of snapshots of such, sorted."""
        all_files = "SELECT relation, file FROM routed UNION SELECT relation, file FROM passed"
        rows = self.run(f"SELECT file FROM ({all_files}) AS k WHERE relation = ? ORDER BY file", [relation])
        return [file for (file,) in rows]

    def feed_of(self, node: int, relation: str) -> Path:
        """Return the folder in which a node is fed a relation."""
        return feed_folder(self.root, self.nodes.name(node), relation)

    # ---- turns -------------------------------------------------------------------------------------------------------

    def try_turn(self) -> tuple[bool, float]:
        """Run a turn, and return whether there was news and how many seconds to wait. A transient error is logged, and
        the next call goes on; others are raised."""
        try:
            busy = self.turn()
        except Exception as error:
            if not passes_unattended(error):
                raise
            pause = self.troubles.note(reason(error))
            with contextlib.suppress(Exception):
                self.connection.close()
                self.connection = self.open()
                self.report(busy=True)
            return False, pause
        if self.troubles.over():
            self.report()
        return busy, 0.0

    def turn(self) -> bool:
        """Split the next file of each relation; return whether there was one."""
        self.deliver()
        waiting = self.feeds.next_files()
        for relation, files in self.feeds.passed.items():
            for file in files:
                self.run("INSERT INTO passed VALUES (?, ?)", [relation, file])
        if waiting:
            self.report(busy=True)
        for relation, path in waiting.items():
            self.route(relation, path)
        self.report()
        return bool(waiting)

    def route(self, name: str, path: Path) -> None:
        """Split a file and put its parts into the feeds of nodes, or refuse it."""
        ((number,),) = self.run("SELECT COALESCE(MAX(number), 0) + 1 FROM routed")
        folder = self.home / f"{number:012d}"
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        try:
            self.check_snapshot(name, path)
            parts = self.split(self.relations[name], path, folder)
        except Refused as error:
            if passes_unattended(error):
                raise
            self.feeds.refuse(name, path, error.plain)
            return
        sync_files(folder)
        self.run("INSERT INTO routed VALUES (?, ?, ?, ?, FALSE)", [number, name, path.name, json.dumps(parts)])
        self.deliver()
        self.counts["steps"] += 1
        self.last = datetime.now(UTC).isoformat(timespec="milliseconds")

    def check_snapshot(self, name: str, path: Path) -> None:
        """Raise Refused for a snapshot of a feed if some of the files that it stands for were split, but not all."""
        split = self.feeds.listing(name).snapshots.get(path.name, frozenset()).intersection(self.files_routed(name))
        if split:
            raise refused(f"{path} stands for {min(split)}, which was split already, and for files that were not")

    def split(self, relation: RowRelation, path: Path, folder: Path) -> dict[str, list[int]]:
        """Write the changes of a file, one file for each set of nodes that gets the same, and return these nodes by
        file. Raise Refused if a node would refuse the changes."""
        changes = changes_in(self.program, relation.name, path)
        check_unique(relation, changes)
        groups: dict[int, list[StoredChange]] = {}
        for change in changes:
            groups.setdefault(self.group_of(relation, change[1]), []).append(change)
        every = list(range(self.nodes.partition.count))
        for group, rows in groups.items():
            (folder / f"{group}.parquet").write_bytes(table_bytes(change_table(rows, relation)))
            self.counts["in"] += len(rows)
            self.counts["out"] += len(rows) * (len(every) if group < 0 else 1)
        return {f"{group}.parquet": every if group < 0 else [group] for group in groups}

    def group_of(self, relation: RowRelation, row: Sequence[Any]) -> int:
        """Return the node that a row belongs to; -1 stands for all nodes."""
        partition, at = self.nodes.partition, self.nodes.at.get(relation.name)
        if relation.location:
            place = next(i for i, column in enumerate(relation.columns) if column.sql == relation.location)
            return partition.node_of(row[place])
        return -1 if at is None else partition.node_of(at)

    def deliver(self) -> None:
        """Put the parts of the files that were recorded, and may not be in the feeds of all nodes, there."""
        for number, name, file, text in self.run(
            "SELECT number, relation, file, parts FROM routed WHERE NOT done ORDER BY number"
        ):
            folder, parts = self.home / f"{number:012d}", json.loads(text)
            for part, nodes in parts.items():
                for node in nodes:
                    put_whole(folder / part, self.feed_of(node, name) / f"router-{number:012d}.parquet")
            self.run("UPDATE routed SET done = TRUE WHERE number = ?", [number])
            shutil.rmtree(folder, ignore_errors=True)
            nodes = sorted({node for nodes in parts.values() for node in nodes})
            self.log.event("routed", relation=name, file=file, step=number, nodes=len(nodes))

    def report(self, busy: bool = False) -> None:
        """Write the status file, in the form of that of a process, if it has changed."""
        said = {
            "process": ROUTER,
            "pid": os.getpid(),
            "busy": busy,
            "fed": {relation: self.files_routed(relation) for relation in self.nodes.fed},
            "refused": [message for _, _, message in self.feeds.refused.values()],
            "held_up": sorted(self.feeds.refused),
            "aside": self.feeds.aside,
            "trouble": self.troubles.last,
            "last": self.last,
            **self.counts,
        }
        text = json.dumps(said).encode()
        if text != self.said and write_status(self.root, ROUTER, text, self.log):
            self.said = text


def check_unique(relation: RowRelation, changes: Sequence[StoredChange]) -> None:
    """Raise Refused if changes insert two rows with one primary key, of which a node could not tell the later."""
    places = [place for place, column in enumerate(relation.columns) if column.sql in relation.key]
    known: dict[tuple[Any, ...], Any] = {}
    for op, row in changes:
        key = tuple(row[place] for place in places)
        if places and op in "+>" and known.setdefault(key, row) != row:
            columns = [relation.columns[place] for place in places]
            stored = stored_row(columns, decoded_row(columns, key))
            values = named_values(relation, {c.sql: value for c, value in zip(columns, stored, strict=True)})
            raise refused(f"{relation.name}: two different rows with the primary key {values}, in an unknown order")


def division_text(nodes: Nodes, relations: Mapping[str, RowRelation]) -> str:
    """Return what decides how a router splits its feeds, as text that is equal if that is."""
    placed = json.dumps(sorted(nodes.partition.known.items()))
    inputs = {
        name: [[[c.name, c.type] for c in relation.columns], relation.location, nodes.at.get(name), list(relation.key)]
        for name, relation in relations.items()
    }
    return json.dumps([nodes.partition.count, hashlib.sha256(placed.encode()).hexdigest(), inputs], sort_keys=True)


def put_whole(source: Path, target: Path) -> None:
    """Copy a file to a place where others see it whole or not at all, and force it to disk; if the copy is there
    already, only its folder is forced. Raise JobError if something else is there."""
    if os.path.lexists(target):
        if not filecmp.cmp(source, target, shallow=False):
            raise JobError(f"{target} is in the way of what a router puts there: remove or rename it")
        sync(target.parent)
        return
    make_folder(target.parent)
    temporary = target.with_name(f".{target.name}")
    shutil.copyfile(source, temporary)
    sync(temporary)
    temporary.rename(target)
    sync(target.parent)
