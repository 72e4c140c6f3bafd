"""Real processes, real kills: after all that happened, each has the tables that one process would compute."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from golden_tests.addons.processes.model import evaluated
from golden_tests.addons.processes.real import RealWorld
from golden_tests.nightly import AT_NIGHT
from golden_tests.oracle.language import Row

ROOT = Path(__file__).parents[3]
SWITCHES = (ROOT / "examples" / "switches" / "switches.dl").read_text(encoding="utf-8")

#: The program of Nigam et al. 2012, section 5, over three processes: p and q support each other, and a supports p.
CYCLE = """
process A {
  input relation a(x: int)
  A.a(X) :- a(X).
}
process P {
  P.p(X) :- A.a(X).
  P.p(X) :- Q.q(X).
}
process Q {
  input relation b(x: int)
  Q.q(X) :- P.p(X), !b(X).
  Q.reached(count<X>) :- Q.q(X).
}
"""


def check(world: RealWorld) -> None:
    """All is as if one process had computed it."""
    world.wait()
    assert world.relations() == evaluated(world.compiled, world.inputs)


def until(what: str, condition: object, seconds: float = 60.0) -> None:
    """Wait for something."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def test_switches(worlds: list[RealWorld], tmp_path: Path) -> None:
    """The controller killed in mid-batch and started elsewhere, a switch killed, another cut off and back."""
    secret = tmp_path / "secret"
    secret.write_text("what only these three know\n", encoding="utf-8")
    world = RealWorld(SWITCHES, tmp_path, ["--secret-file", str(secret)])
    worlds.append(world)
    root = world.local.root
    for place in ("processes/S1/incarnations", "channels/S1.host--S3/sessions", "channels/S1.host--S3/messages"):
        (root / place).mkdir(parents=True)
        for name in (".nfs0001", "Thumbs.db", "junk.parquet", "000777"):
            (root / place / name).touch()
    world.feed("S1", "host", [])
    (root / "feeds" / "S1" / "host" / "0000.csv").symlink_to(root / "nowhere")
    world.start("S1", "S2", "S3")
    world.feed("S1", "host", [("+", (host, 1)) for host in range(20)] + [("+", (5, 2))])
    world.feed("S2", "host", [("+", (host, 2)) for host in range(30, 50)])
    world.feed("S3", "blacklist", [("+", (host,)) for host in range(0, 60, 3)])
    check(world)
    world.feed("S3", "blacklist", [("-", (0,)), ("+", (1,))])
    before = len(world.local.status("S3")["fed"]["blacklist"])

    def begun() -> bool:
        said = world.local.status("S3")
        return said["busy"] or len(said["fed"]["blacklist"]) > before

    until("S3 is busy, or has been", begun)
    world.kill("S3")
    lines = [("S1", "S3.blacklist--S1"), ("S2", "S3.blacklist--S2")]
    for name, line in lines:
        until(f"{name} notices", lambda n=name, at=line: world.local.status(n)["receives"][at]["state"] == "cut")
    world.feed("S2", "host", [("-", (33, 2))])
    world.wait()
    assert world.relations()["S1.blacklist"] == world.relations()["S2.blacklist"] == set()
    world.start_elsewhere("S3")
    check(world)
    world.kill("S1")
    world.feed("S3", "blacklist", [("-", (3,)), ("+", (4,))])
    world.start("S1")
    world.pause("S2")
    until("S3 notices", lambda: world.local.status("S3")["receives"]["S2.host--S3"]["state"] == "cut")
    world.feed("S2", "host", [("+", (99, 2))])
    world.feed("S3", "blacklist", [("+", (99,))])
    world.go_on("S2")
    until("S2 is back", lambda: world.local.status("S3")["receives"]["S2.host--S3"]["state"] == "open")
    check(world)
    said = (root / "logs" / "S1.log").read_text(encoding="utf-8")
    for name in (".nfs0001", "Thumbs.db", "junk.parquet", "000777"):
        # Once in each of its runs.
        why = "has no incarnation with a valid mark" if name.isdigit() else "is not one of the incarnations"
        assert said.count(f"incarnations/{name} {why}") == 2
    assert said.count("0000.csv is a dangling link; it is ignored") == 2
    assert secret.read_text(encoding="utf-8").strip() not in said


@AT_NIGHT
@pytest.mark.parametrize("attempt", range(3))
def test_unreliable_switches(attempt: int, worlds: list[RealWorld], tmp_path: Path) -> None:
    """Messages late, out of order and twice, while processes are killed and started."""
    rng = random.Random(attempt)
    world = RealWorld(SWITCHES, tmp_path, unreliable=True)
    worlds.append(world)
    world.start("S1", "S2", "S3")
    for turn in range(12):
        for number, name in ((1, "S1"), (2, "S2")):
            world.feed(name, "host", [(rng.choice("+-"), (rng.randrange(9), number))])
        world.feed("S3", "blacklist", [(rng.choice("+-"), (rng.randrange(9),))])
        if turn % 4 == 3:
            name = rng.choice(["S1", "S2", "S3"])
            world.kill(name)
            world.start_elsewhere(name) if rng.random() < 0.5 else world.start(name)
        time.sleep(rng.random())
    check(world)


@AT_NIGHT
def test_a_channel_that_is_cut(worlds: list[RealWorld], tmp_path: Path) -> None:
    """While both of its ends live, its reader knows of no new tuples, or trusts none if it does not hear of deaths;
    nobody else loses anything. Mended, all is as before."""
    world = RealWorld(CYCLE, tmp_path)
    worlds.append(world)
    world.start("A", "P", "Q")
    world.feed("A", "a", [("+", (n,)) for n in range(4)])
    check(world)

    def state(name: str, channel: str) -> str:
        found: str = world.local.status(name)["receives"][channel]["state"]
        return found

    dead = next(path.name for path in (world.local.root / "channels").iterdir() if path.name.endswith(".dead--Q"))
    for channel, left in (("P.p--Q", {(2,), (3,)}), (dead, set[Row]())):
        world.sever(channel)
        until("Q notices", lambda at=channel: state("Q", at) == "cut")
        world.feed("A", "a", [("-", (0,)), ("+", (7,))])
        world.feed("Q", "b", [("+", (1,))])
        until("P goes on", lambda: world.relations()["P.p"] == {(1,), (2,), (3,), (7,)})
        until("Q has what it can prove", lambda known=left: world.relations()["Q.q"] == known)
        world.feed("A", "a", [("+", (0,)), ("-", (7,))])
        world.mend(channel)
        world.feed("Q", "b", [("-", (1,))])
        until("Q hears again", lambda at=channel: state("Q", at) == "open")
        check(world)
        assert world.relations()["Q.q"] == {(0,), (1,), (2,), (3,)}


@AT_NIGHT
def test_cycle_over_processes(worlds: list[RealWorld], tmp_path: Path) -> None:
    """Insertions and deletions race around a cycle of processes, with unreliable messages; what supports only itself
    goes."""
    rng = random.Random(1)
    world = RealWorld(CYCLE, tmp_path, unreliable=True)
    worlds.append(world)
    assert world.compiled.topology.recursions == (("P.p", "Q.q"),)
    world.start("A", "P", "Q")
    for _ in range(6):
        world.feed("A", "a", [(rng.choice("+-"), (n,)) for n in rng.sample(range(5), 2)])
        world.feed("Q", "b", [(rng.choice("+-"), (rng.randrange(5),))])
        time.sleep(rng.random())
    check(world)
    world.feed("A", "a", [("-", (n,)) for n in range(5)])
    check(world)
    assert world.relations()["P.p"] == set()
