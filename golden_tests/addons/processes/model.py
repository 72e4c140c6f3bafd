"""Processes in one Python process: the code of the generated scripts, with accidents at random.

Each process is a script of its own, loaded as a module; its state is a file, and its clock is that of the test.
Channels are folders or topics of Kafka, but what has come is told late, out of order and repeatedly.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from flintlog.compiler.processes import Processes, compile_processes
from flintlog.compiler.source import SourceFile
from flintlog.targets import EmitOptions
from flintlog.targets.processes.emit import emit_processes

from golden_tests.harness import VERSION, MemoryJob, QuietLog, frozen_row, load_script
from golden_tests.oracle.language import Row

#: A recursion with more derivation sets is refused.
MOST_ENTRIES = 3_000
#: What the system may say at any time.
SHARED = ("processes", "channels")
FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOMEM, errno.ETIMEDOUT)


class Killed(BaseException):
    """A process was killed at some point of its work."""


class Stored:
    """The state of a process in its home, which outlives the run that has it open."""

    def __init__(self, world: World, name: str, home: Path) -> None:
        self.world, self.name, self.home = world, name, home
        #: Raised, each once: ``before`` a step is applied, ``after`` that, and when it is ``committed``.
        self.faults: list[tuple[str, Exception]] = []
        #: What the next step does instead of being applied.
        self.instead: Callable[[Any, str], None] | None = None
        #: Copies of the file, the oldest first.
        self.copies: list[Path] = []

    @property
    def file(self) -> Path:
        """The file of the state."""
        return self.home / "state.db"

    @contextlib.contextmanager
    def opened(self) -> Iterator[Any]:
        """The state, as a running process has it or as a command opens it."""
        worker = self.world.workers.get(self.name)
        if worker is not None and worker.state.home == self.home:
            yield worker.state.database
            return
        module: Any = self.world.modules[self.name]
        program = module.with_inbox(module.PROGRAM, module.PROCESS.received)
        with module.open_file_state(program, str(self.file)) as database:
            yield database

    def tuples(self, name: str, kind: str = "") -> set[Row]:
        """The tuples of a relation."""
        if not self.file.exists():
            return set()
        with self.opened() as database:
            relations = database.program.relations
            known = [r for r in relations if r.name == name and (r.kind == "input") == (kind == "input")]
            return {frozen_row(row) for row in database.rows(known[0])}

    @property
    def steps(self) -> int:
        """How many steps were applied."""
        with self.opened() as database:
            last: int = database.commit.number
            return last - 1

    def differences(self) -> list[dict[str, Any]]:
        """What a recount finds."""
        with self.opened() as database:
            found: list[dict[str, Any]] = database.differences()
            return found

    def copy(self) -> Path:
        """Keep a copy of the file, which nobody has open."""
        self.copies.append(self.home.with_name(f"{self.home.name}-copy-{len(self.copies)}.db"))
        shutil.copy(self.file, self.copies[-1])
        return self.copies[-1]

    def lose(self, older: Path | None = None) -> None:
        """Lose the file, or have a copy of it again."""
        for file in self.home.glob("state.db*"):
            file.unlink()
        if older is not None:
            shutil.copy(older, self.file)

    def fail(self, when: str) -> None:
        """Raise a fault that is due."""
        for fault in [fault for fault in self.faults if fault[0] == when]:
            self.faults.remove(fault)
            raise fault[1]


class KeptLog(QuietLog):
    """A log that keeps what it was told."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.events: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        """Keep an event."""
        self.events.append((name, fields))

    def warn(self, message: str) -> None:
        """Keep a warning, once."""
        if message not in self.warnings:
            self.warnings.append(message)


class World:
    """Some processes, and what happens to them."""

    def __init__(self, text: str, folder: Path, rng: random.Random, hold: float = 0.0, kafka: str = "") -> None:
        """Compile the processes; none runs yet. Channels are in ``folder`` unless there is an address of Kafka's."""
        self.rng, self.folder, self.hold, self.kafka = rng, folder, hold, kafka
        self.compiled: Processes = compile_processes([SourceFile("test.dl", text)])
        plans = {name: compilation.plan for name, compilation in self.compiled.compilations.items()}
        files = emit_processes(self.compiled.topology, plans, EmitOptions(VERSION, format=False))
        self.scripts = {p.name: files[f"{p.name}.py"] for p in self.compiled.topology.processes}
        self.names = list(self.scripts)
        self.now = 0.0
        self.files = 0
        #: The channels that are cut, and how: messages are ``lost`` or ``refused``, they get through but their sender
        #: cannot see new sessions (``unseen``), or they are lost and the lease gets through (``dropped``).
        self.severed: dict[str, str] = {}
        #: Per channel, the last session that its sender has seen.
        self.sessions: dict[str, Any] = {}
        self.calm = False
        self.lives = dict.fromkeys(self.names, 0)
        self.secrets = dict.fromkeys(self.names, b"")
        self.logs = {name: KeptLog() for name in self.names}
        #: How often an access to files fails, unless all is calm.
        self.fault_rate = 0.0
        self.modules: dict[str, ModuleType] = {name: self._module(text) for name, text in self.scripts.items()}
        self.states: dict[str, Stored] = {}
        self.workers: dict[str, Any] = {}
        #: The process that is to be overtaken by another run of it in mid-turn.
        self.overtaken = ""
        #: Whether there is a copy of the channels, and whether what is there may not be what was there last.
        self.copied = self.restored = False
        #: The file that cannot be read.
        self.closed: Path | None = None

    def _module(self, text: str) -> ModuleType:
        module = load_script(text)
        self_ = self
        real_time = module.time

        kind = module.KafkaChannels if self.kafka else module.DirectoryChannels

        class Channels(kind):  # type: ignore[misc, valid-type]
            """Tells late, out of order and repeatedly what has come."""

            def pulse(self, channel: Any) -> Any:
                return None if self_.is_severed(channel) else super().pulse(channel)

            def renew_channel(self, channel: Any, pulse: Any) -> None:
                if not self_.is_severed(channel):
                    super().renew_channel(channel, pulse)

            def session(self, channel: Any) -> Any:
                if channel.sender == module.PROCESS.name != channel.reader:
                    if self_.severed.get(channel.name) != "unseen":
                        self_.sessions[channel.name] = super().session(channel)
                    return self_.sessions.get(channel.name, module.NO_NUMBER)
                return super().session(channel)

            def waiting(self, channel: Any) -> list[Any]:
                if self_.is_severed(channel):
                    return []
                self_.perhaps_overtaken(self, module.PROCESS.name)
                self_.perhaps_fails()
                found: list[Any] = super().waiting(channel)
                if self_.calm:
                    return found
                return self_.rng.sample(found, self_.rng.randint(0, len(found)))

            def read(self, channel: Any, message: Any) -> Any:
                self_.perhaps_fails()
                return super().read(channel, message)

            def open_session(self, channel: Any) -> Any:
                self_.perhaps_overtaken(self, module.PROCESS.name)
                session: Any = super().open_session(channel)
                self_.perhaps_fails()
                return session

            def done(self, channel: Any, message: Any) -> None:
                self_.perhaps_overtaken(self, module.PROCESS.name)
                self_.perhaps_fails()
                if self_.calm or self_.rng.random() < 0.7:
                    super().done(channel, message)

            def send(self, channel: Any, message: Any, rows: Any) -> None:
                if self_.is_severed(channel) or self_.severed.get(channel.name) == "dropped":
                    return
                self_.perhaps_killed()
                self_.perhaps_overtaken(self, module.PROCESS.name)
                self_.perhaps_fails()
                super().send(channel, message, rows)
                self_.perhaps_fails()
                self_.perhaps_killed()

        class Beat(module.Beat):  # type: ignore[misc, name-defined]
            """Beats when the test says so."""

            def __init__(self, channels: Any, process: Any, incarnation: Any, every: float, log: Any) -> None:
                self.channels, self.process, self.incarnation, self.beat = channels, process, incarnation, 0
                self.sent: dict[str, Any] = {}
                self.cut_off, self.silent, self.log = frozenset(), set(), log
                self.renew()

            def end(self) -> None:
                """Say goodbye."""
                with contextlib.suppress(OSError):
                    lease = module.Lease(self.incarnation, self.beat + 1, False, self.sent)
                    self.channels.renew(self.process.name, lease)

        class ProcessState(module.ProcessState):  # type: ignore[misc, name-defined]
            """Fails when the test says so, and is killed now and then."""

            def apply(self, changes: Any, step: str) -> None:
                stored = self_.states[module.PROCESS.name]
                stored.fail("before")
                self_.perhaps_killed()
                if stored.instead is not None:
                    stored.instead(changes, step)
                for relation in (self.program.inputs[name] for name in self.process.received):
                    known = {row for _, row in self.whole(relation)} if relation.table in changes else set()
                    for op, row in changes.get(relation.table, ()):
                        assert (row in known) == (op == "-"), "a step changes what it says"
                super().apply(changes, step)
                self_.perhaps_killed()
                stored.fail("after")

        class Sender(module.Sender):  # type: ignore[misc, name-defined]
            """Fails once a step is committed when the test says so."""

            def try_to_send(self, channel: Any, caught_up: bool) -> None:
                self_.states[module.PROCESS.name].fail("committed")
                self_.perhaps_killed()
                super().try_to_send(channel, caught_up)

        read = module.read_regular

        def read_regular(path: Path) -> bytes:
            if path == self.closed:
                raise PermissionError(errno.EACCES, "closed to us", str(path))
            content: bytes = read(path)
            return content

        vars(module).update(
            read_regular=read_regular,
            Channels=Channels,
            Beat=Beat,
            ProcessState=ProcessState,
            Sender=Sender,
            time=SimpleNamespace(**{**vars(real_time), "monotonic": lambda: self.now}),
        )
        return module

    def is_severed(self, channel: Any) -> bool:
        """Whether a channel is cut while its ends may live: what is sent is lost, or refused with an error."""
        if self.severed.get(channel.name) == "refused":
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN), channel.name)
        return self.severed.get(channel.name) == "lost"

    def perhaps_killed(self) -> None:
        """Kill the process that is at work, now and then."""
        if not self.calm and self.rng.random() < 0.01:
            raise Killed

    def perhaps_fails(self) -> None:
        """Let the system fail, now and then."""
        if self.fault_rate and not self.calm and self.rng.random() < self.fault_rate:
            raise OSError(self.rng.choice(FAULTS), "what the system says")

    def perhaps_overtaken(self, channels: Any, name: str) -> None:
        """Let another run of a process begin while one is at work, and others go on, now and then."""
        worker = self.workers.get(name)
        if self.calm or self.overtaken != name or worker is None or worker.channels is not channels:
            return
        if self.rng.random() < 0.5:
            self.overtaken = ""
            del self.workers[name]
            # Of two runs with one home, the new one waits for the end of a transaction.
            elsewhere = worker.state.database.connection.in_transaction or self.rng.random() < 0.5
            self.start(name, elsewhere)
            for other in self.rng.choices(self.names, k=self.rng.randint(0, 6)):
                if other in self.workers:
                    self.turn(other)

    def start(self, name: str, elsewhere: bool = False) -> None:
        """Start a process, with what its last run has left or ``elsewhere`` without."""
        module: Any = self.modules[name]
        if name not in self.states or elsewhere:
            self.lives[name] += 1
            self.states[name] = Stored(self, name, self.home(name))
        if self.states[name].file.is_file() and not list(self.home(name).glob("*-wal")):
            self.states[name].copy()
        settings = module.Settings(self.folder, self.home(name), lease=5.0, hold=self.hold)
        where = (self.kafka, module.PROCESS, {}) if self.kafka else (self.folder,)
        channels = module.Channels(*where, module.Seal(self.secrets[name]), self.logs[name].warn)
        try:
            state = module.ProcessState(module.PROGRAM, module.PROCESS, settings.home, max_entries=MOST_ENTRIES)
            self.workers[name] = module.Worker(state, channels, settings, self.logs[name])
        except (Killed, OSError):
            self.kill(name)

    def feed(self, process: str, relation: str, columns: Sequence[str], changes: Sequence[tuple[str, Row]]) -> None:
        """Give a process rows from outside."""
        folder = self.folder / "feeds" / process / relation
        folder.mkdir(parents=True, exist_ok=True)
        rows = [{"op": op, **dict(zip(columns, row, strict=True))} for op, row in changes]
        self.files += 1
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{self.files:06d}.parquet")

    def compact(self, process: str, relation: str) -> None:
        """Compact what a process was fed, as far as it says that it has read it."""
        module: Any = self.modules[process]
        folder = self.folder / "feeds" / process / relation
        if folder.is_dir():
            read = module.read_status(self.folder, process).get("fed", {}).get(relation, ())
            module.compact_feed(module.PROGRAM, relation, folder, frozenset(read))

    def kill(self, name: str) -> None:
        """End a process without a word; what it has written stays."""
        worker = self.workers.pop(name, None)
        if worker is not None:
            self._drop(worker)

    def _drop(self, worker: Any) -> None:
        worker.state.close()
        if self.kafka:
            worker.channels.consumer.close()
            worker.channels.watcher.close()

    def home(self, name: str) -> Path:
        """The home of a process that was started."""
        return self.folder / "homes" / f"{name}-{self.lives[name]}"

    def restore(self, name: str) -> None:
        """Lose the home of a process that does not run, or have it as it was once."""
        stored = self.states[name]
        stored.lose(self.rng.choice([None, *stored.copies]))

    def stop(self, name: str) -> None:
        """End a process that says goodbye."""
        self.workers.pop(name).end()

    def turn(self, name: str) -> bool:
        """Let a process look for news; whether there were any."""
        worker, module = self.workers[name], self.modules[name]
        ends = f"another run of {name} has taken over|restored from a copy"
        try:
            busy, pause = worker.try_turn()
            busy = bool(busy or pause)
        except Killed:
            busy = True
        except module.JobError as error:  # type: ignore[attr-defined]
            if not re.search(ends, str(error)) or not self.restored:
                raise
            busy = True
        else:
            if self.workers.get(name) is worker:
                return busy
            # It was overtaken, and notices.
            with contextlib.suppress(module.JobError):  # type: ignore[attr-defined]
                _, pause = worker.try_turn()
                assert pause, "an overtaken run goes on"
        if self.workers.get(name) is worker:
            del self.workers[name]
        self._drop(worker)
        return busy

    def pass_time(self, seconds: float) -> None:
        """Let time pass; who lives renews its lease."""
        self.now += seconds
        for worker in self.workers.values():
            with contextlib.suppress(OSError):
                worker.beat.renew()

    def stir(self) -> None:
        """Let processes turn at random, while some are killed and return with what they had or with nothing."""
        for _ in range(20):
            name = self.rng.choice(self.names)
            if name not in self.workers:
                self.start(name, elsewhere=self.rng.random() < 0.5)
            elif self.rng.random() < 0.1:
                self.kill(name)
            else:
                self.turn(name)
            self.pass_time(self.rng.choice([0.5, 6.0]))

    def start_all(self) -> None:
        """Start what does not run, and again what says that it is to be started again."""
        for name in self.names:
            worker = self.workers.get(name)
            if worker and "start the process again" in f"{worker.troubles.last} {worker.cut_off}":
                self.kill(name)
            if name not in self.workers:
                self.start(name)

    def settle(self) -> None:
        """Let everything run without accidents until nobody has anything to do."""
        self.calm = True
        self.severed.clear()
        self._turn_until_quiet()
        self.pass_time(self.hold + 1.0)
        self._turn_until_quiet()
        self.calm = False

    def _turn_until_quiet(self) -> None:
        quiet = 0
        for _ in range(500):
            self.start_all()
            self.pass_time(1.0)
            busy = [self.turn(name) for name in self.names]
            quiet = 0 if any(busy) else quiet + 1
            # What is on its way in a network is seen by nobody; what was lost is asked for again after a while.
            if quiet > (5 if self.kafka else 0) and (quiet > 40 or self.says_all()):
                return
            time.sleep(0.05 if self.kafka and quiet else 0.0)
        raise AssertionError("the processes do not come to rest")

    def says_all(self) -> bool:
        """Whether all processes say that they have caught up."""
        places = [self.folder / "status" / f"{name}.json" for name in self.names]
        return all(place.exists() and json.loads(place.read_bytes())["caught_up"] for place in places)

    def check_what_is_said(self, expected: Callable[[], dict[str, set[Row]]]) -> None:
        """All go on for a moment, too short for leases to run out; if all then say they have caught up, they have."""
        self.calm = True
        quiet = 0
        for _ in range(6):
            self.start_all()
            self.pass_time(0.01)
            busy = [self.turn(name) for name in self.names]
            quiet = 0 if any(busy) else quiet + 1
            if quiet > 1 and len(self.workers) == len(self.names) and self.says_all():
                assert self.relations() == expected()
                break
        self.calm = False

    def copy_channels(self) -> None:
        """Keep a copy of what processes share."""
        self.copied = True
        for part in SHARED:
            shutil.rmtree(self.folder.parent / "copy" / part, ignore_errors=True)
            if (self.folder / part).is_dir():
                self._copy(self.folder / part, self.folder.parent / "copy" / part)

    def restore_channels(self, parts: Sequence[str]) -> None:
        """Have again what was kept."""
        self.restored = True
        for part in parts if self.copied else ():
            shutil.rmtree(self.folder / part, ignore_errors=True)
            if (self.folder.parent / "copy" / part).is_dir():
                self._copy(self.folder.parent / "copy" / part, self.folder / part)

    def _copy(self, source: Path, target: Path) -> None:
        def pipes(folder: str, names: list[str]) -> list[str]:
            return [name for name in names if (Path(folder) / name).is_fifo()]

        shutil.copytree(source, target, symlinks=True, ignore=pipes)

    @contextlib.contextmanager
    def away(self, place: Path) -> Iterator[None]:
        """A folder or a file is not there for a moment."""
        self.restored = True
        kept = self.folder.parent / "away"
        place.rename(kept)
        yield
        if place.is_dir():
            shutil.rmtree(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        kept.replace(place)

    @contextlib.contextmanager
    def closing(self, place: Path) -> Iterator[None]:
        """A file cannot be read for a moment."""
        self.closed = place
        yield
        self.closed = None

    def relations(self) -> dict[str, set[Row]]:
        """What each process publishes."""
        found = {}
        for process in self.compiled.topology.processes:
            for relation in process.outputs:
                found[relation] = self.states[process.name].tuples(relation)
        return found

    def close(self) -> None:
        """Forget everything."""
        for name in list(self.workers):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)


def evaluated(compiled: Processes, inputs: Mapping[tuple[str, str], set[Row]]) -> dict[str, set[Row]]:
    """What one process computes from the rules and the inputs of all; inputs by process and relation."""
    job = MemoryJob(compiled.whole)
    names = {r.name for r in job.program.relations if r.kind == "input"}
    batch = {}
    for (process, relation), rows in inputs.items():
        name = f"{process}::{relation}" if f"{process}::{relation}" in names else relation
        batch[name] = [("+", row) for row in sorted(rows)]
    job.run(batch)
    outputs = [relation for process in compiled.topology.processes for relation in process.outputs]
    found = {relation: job.rows(relation) for relation in outputs}
    job.close()
    return found
