"""The order in which a commit is forced to the disk, as ``strace`` sees it: ``docs/state.md`` says it in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from golden_tests.faults import stepping
from golden_tests.faults.traced import FORCES, MOVES, WRITES, Call, Traced
from golden_tests.faults.world import FORMER, World
from golden_tests.nightly import AT_NIGHT


class Disk:
    """What a loss of power may take from some folder after a sequence of calls: ``dirty`` files were written and not
    forced since, ``loose`` names were given and their folders not forced since."""

    def __init__(self, root: Path, passing: str = "$.") -> None:
        """All that is there is forced; ``passing`` matches paths that nothing depends on after a loss of power."""
        self.root, self.passing = str(root), re.compile(passing)
        self.dirty: set[str] = set()
        self.loose: set[str] = set()
        self.wrong: list[str] = []

    def see(self, call: Call) -> None:
        """Follow a call; what is wrong at once is noted: a file that gets a name that counts before it is forced."""
        paths = [path for path in call.paths if path.startswith(self.root)]
        if not paths or not call.changes or self.passing.search(paths[-1].removeprefix(self.root)):
            return
        path, name = paths[-1], call.name.removesuffix("at").removesuffix("at2")
        if name in WRITES or name == "ftruncate":
            self.dirty.add(path)
        elif name in FORCES:
            self.dirty.discard(path)
            self.loose = {loose for loose in self.loose if str(Path(loose).parent) != path}
        elif name in ("open", "mkdir"):
            self.loose.add(path)
        elif name in ("link", "rename"):
            unforced = self.unforced([paths[0]], names=False) + self.inside(paths[0])
            self.wrong += [f"{name} to {path}, {what}" for what in unforced]
            if name == "rename":
                self.forget(paths[0])
            self.loose.add(path)
        elif name in ("unlink", "rmdir"):
            self.forget(path)

    def forget(self, path: str) -> None:
        """A path is no more."""
        for known in (self.dirty, self.loose):
            known -= {other for other in known if other == path or other.startswith(path + "/")}

    def inside(self, folder: str) -> list[str]:
        """What is not forced below a folder."""
        return self.unforced([path for path in self.dirty | self.loose if path.startswith(folder + "/")])

    def unforced(self, paths: Sequence[str], names: bool = True) -> list[str]:
        """What of these files, or of the names of the folders they are in, is not forced."""
        found = [f"{path} is not forced" for path in paths if path in self.dirty]
        above = {str(part) for path in paths for part in (Path(path), *Path(path).parents)} if names else set()
        return found + [f"the name of {path} is not forced" for path in sorted(above & self.loose)]


def problems(calls: Sequence[Call], module: Any, state: Path, root: Path) -> list[str]:
    """What is wrong in the order of the calls of a command that made a commit, as far as they are below ``root``."""
    disk = Disk(root)
    manifest = module.read_manifest(state)
    place = module.manifest_path(state, manifest.commit)
    data = [str(state / name) for name in module.referenced_files(manifest)]
    published = [str(state / item.folder) for item in manifest.publish]
    for item in manifest.set_aside.values():
        data.append(str(state / item.folder / f".{manifest.attempt}.jsonl"))
        published.append(str(state / item.folder / f"{manifest.attempt}.jsonl"))
    steps = []
    for call in calls:
        if call.name in ("link", "linkat") and call.paths[-1].startswith(str(place.parent)):
            steps.append(Path(call.paths[-1]).suffix)
            promised = {".json": data, ".published": [str(place), *published]}[steps[-1]]
            disk.wrong += [f"{steps[-1]}: {what}" for what in disk.unforced(promised)]
        disk.see(call)
    assert steps == [".json", ".published"]
    mark = str(place.with_suffix(".published"))
    return disk.wrong + [f"at the end: {what}" for what in disk.unforced([str(place), mark, *data, *published])]


@pytest.mark.parametrize("buckets", ["2", pytest.param("1", marks=AT_NIGHT)])
def test_commands_force_what_they_promise(buckets: str, tmp_path: Path) -> None:
    """Files before the manifest that names them, the manifest before what is published, that before its mark; and the
    names of files and folders with them. Whole commands are traced, from a folder that is not there on."""
    world = World(tmp_path / "world")
    world.state = tmp_path / "above" / "state"
    former = World(tmp_path / "former", program=FORMER)
    jobs = {
        script: Traced(script, tmp_path / script.parent.name / "traced") for script in (world.script, former.script)
    }

    def run(*arguments: str, script: Path = world.script) -> None:
        answer = jobs[script].command(*arguments, "--state", str(world.state), traced=True)
        assert answer.code == 0, answer.err
        assert problems(answer.calls, world.module, world.state, tmp_path) == [], arguments

    try:
        run("init", "--input", str(world.folder / "batches" / "init"), "--buckets", buckets)
        for batch in (world.new_batch(), world.new_batch()):
            run("apply", "--changes", str(world.folder / "batches" / batch), "--batch", batch)
        (tmp_path / "bad.csv").write_text("op,src,dst\n+,1,x\n")
        aside = tmp_path / "above" / "aside"
        run("apply", "--changes", f"link={tmp_path / 'bad.csv'}", "--batch", "bad", "--quarantine", str(aside))
        assert len(list(aside.rglob("[0-9]*.jsonl"))) == 1
        run("compact")
        world.check(finished=True)
        run("upgrade", script=former.script)
        (tmp_path / "link.csv").write_text("src,dst\n1,2\n2,3\n")
        run("rebuild", "--input", str(tmp_path / "link.csv"))
        assert {item.relation for item in world.manifest().publish} == {"reachable", "degree"}
    finally:
        for job in jobs.values():
            job.close()


#: Of a process: what it says of itself, what it is fed (which is not its own), and what SQLite's log has already.
PASSING = r"^/(status|feeds|processes/\w+/[.]?lease[.]json|home/state[.]db(-shm)?$)"


def step_problems(calls: Sequence[Call], root: Path) -> list[str]:
    """What is wrong in the order of the calls of a process that makes a step. The step is forced before what follows
    from it is sent, and that before a message that was read goes."""
    disk, sent, acknowledged, noted = Disk(root, PASSING), 0, 0, 0
    for call in calls:
        last = call.paths[-1] if call.paths else ""
        # Temporary files have names that begin with a dot.
        before = [f"{path} is not forced" for path in sorted(disk.dirty | disk.loose) if "/." not in path]
        disk.see(call)
        if call.name in FORCES and last.endswith("/state.db-wal"):
            noted += 1
        elif call.name in MOVES and "/B.reach--C/messages/" in last:
            sent += 1
            disk.wrong += [f"sent: {what}" for what in before]
        elif call.name == "unlink" and "/A.link--B/messages/" in last:
            acknowledged += 1
            disk.wrong += [f"acknowledged: {what}" for what in before]
    assert noted and sent == 2 and acknowledged == 2
    return disk.wrong


def test_a_process_forces_what_it_promises(tmp_path: Path) -> None:
    """Its incarnation and its session before it reads, the state before a message leaves, and that before the message
    it follows from is removed."""
    folder, work = str(tmp_path / "root"), stepping.__name__
    traced = Traced(stepping.write_script(tmp_path), tmp_path / "traced")
    try:
        built = traced.ask(f"{work}:build", traced=True, folder=folder)
        assert built.code == 0, built.err
        made = traced.ask(f"{work}:step", traced=True, folder=folder, from_start=True)
        assert made.code == 0, made.err
    finally:
        traced.close()
    assert step_problems(made.calls, tmp_path / "root") == []
    disk = Disk(tmp_path / "root", PASSING)
    for call in built.calls:
        disk.see(call)
    assert disk.wrong == []
