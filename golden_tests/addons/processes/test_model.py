"""Random programs over several processes, and random accidents: in the end all is as if one process had computed it."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden_tests.addons.processes.model import MOST_ENTRIES, SHARED, World, evaluated
from golden_tests.nightly import AT_NIGHT, NIGHTLY, seeds
from golden_tests.oracle.language import Row

COLUMNS = {"e": ("c0", "c1"), "f": ("c0",), "w": ("c0", "c1", "c2")}


def random_processes(rng: random.Random) -> str:
    """Two or three processes with relations that read each other's, recursions across them among these, one perhaps
    through a path or through what a process keeps for itself, and one that counts and negates."""
    names = "AB" if rng.random() < 0.5 else "ABC"
    lines, through = [], rng.choice([*names, "", ""])
    for name in names:
        lines += [f"process {name} {{", "  input relation e(c0: int, c1: int)", "  input relation f(c0: int)"]
        for place in range(rng.randint(2, 3)):
            others = [f"{other}.p" for other in names] if place else []
            body = [rng.choice(["e", "f", *others, *others, *others]) for _ in range(rng.randint(1, 2))]
            if place == 1 and name == through:
                body = [rng.choice(["q", f"{rng.choice(names)}.p+", "(e|q)+"]), *rng.choice([[], ["e"], ["f"]])]
            atoms = [(atom, [rng.choice("XYZ") for _ in range(1 if atom == "f" else 2)]) for atom in body]
            bound = sorted({variable for _, terms in atoms for variable in terms})
            head = ", ".join(rng.choice(bound) for _ in range(2))
            text = ", ".join(f"{atom}({', '.join(terms)})" for atom, terms in atoms)
            lines.append(f"  {name}.p({head}) :- {text}.")
        lines += [f"  q(X, Y) :- {rng.choice(names)}.p(Y, X), f(X)."] * (name == through)
        lines.append("}")
    lines += ["process D {", "  input relation f(c0: int)"]
    lines += [f"  D.reached(X, count<Y>) :- {rng.choice(names)}.p(X, Y)."]
    lines += [f"  D.latest(X, first<2 by Y desc>, Y) :- {rng.choice(names)}.p(X, Y)."]
    lines += [f"  D.missing(X) :- f(X), !{rng.choice(names)}.p(X, _).", "}"]
    return "\n".join(lines) + "\n"


def random_recursion(rng: random.Random) -> str:
    """Two or three processes whose relations read each other's, with what each of them knows for itself and negates,
    with shortest distances over them, or both; and one that reads what they derive."""
    names = "AB" if rng.random() < 0.5 else "ABC"
    reaches, measures = rng.choice([(True, False), (False, True), (True, True)])
    # The next node of a shortest way, the last one before its end, or neither.
    witness = rng.choice(["", "next", "last"])
    lines = []
    for name in names:
        lines += [f"process {name} {{", "  input relation e(c0: int, c1: int)", "  input relation f(c0: int)"]
        lines += ["  input relation w(c0: int, c1: int, c2: int)", "  g(X) :- e(X, X).", "  k(count<X>) :- f(X)."]
        absent = ["!f(X)", "!f(Y)", "!e(Y, X)", "!e(X, _)", "!g(Y)", "!w(X, Y, 1)", "!k(1)", "g(X)", "f(Y)"]
        if reaches:
            lines.append(f"  {name}.p({rng.choice(['X, Y', 'Y, X'])}) :- e(X, Y).")
            for _ in range(rng.randint(1, 2)):
                first, second = (f"{rng.choice(names)}.p" for _ in range(2))
                body = rng.choice(["e(X, Z), {1}(Z, Y)", "{0}(X, Z), {1}(Z, Y)", "{0}(X, Y)", "{0}(Y, X), e(_, Y)"])
                also = rng.sample(absent, rng.choice([0, 1, 1, 2]))
                lines.append(f"  {name}.p(X, Y) :- {', '.join([body.format(first, second), *also])}.")
        if measures:
            # What literals have, what the first rule gives, and what the others give.
            ways = {"": ("", "", ""), "next": (", _", ", Y", ", Z"), "last": (", H", ", X", ", H")}
            has, starts, gives = ways[witness]
            before = ", _" if witness else ""
            lines.append(f"  {name}.d(X, Y, min<C>{starts}) :- w(X, Y, C).")
            for _ in range(rng.randint(1, 2)):
                first, second = (f"{rng.choice(names)}.d" for _ in range(2))
                body = rng.choice(["w(X, Z, C1), {1}(Z, Y, C2{2})", "{0}(X, Z, C1{3}), {1}(Z, Y, C2{2})"])
                also = rng.sample(absent, rng.choice([0, 0, 1]))
                body = ", ".join([body.format(first, second, has, before), *also])
                lines.append(f"  {name}.d(X, Y, min<C>{gives}) :- {body}, C = C1 + C2.")
        lines.append("}")
    lines.append("process D {")
    lines += [f"  D.reached(X, count<Y>) :- {rng.choice(names)}.p(X, Y)."] * reaches
    lines += [f"  D.far(X, max<C>) :- {rng.choice(names)}.d(X, _, C{', _' if witness else ''})."] * measures
    return "\n".join([*lines, "}"]) + "\n"


def random_changes(rng: random.Random, known: set[Row], arity: int, values: int) -> list[tuple[str, Row]]:
    """A few rows to delete, and a few to insert; never many, since a row that goes round several cycles has very many
    derivations."""
    gone = [row for row in sorted(known) if rng.random() < 0.4]
    new = {tuple(rng.randrange(values) for _ in range(arity)) for _ in range(rng.randint(0, 3))} - known
    new = set(sorted(new)[: max(5 - len(known) + len(gone), 0)])
    known.difference_update(gone)
    known.update(new)
    return [*(("-", row) for row in gone), *(("+", row) for row in sorted(new))]


def litter(rng: random.Random, root: Path) -> None:
    """Put something that belongs nowhere into one of the folders that processes read; damage a message."""
    folders = [place for place in sorted(root.rglob("*")) if place.is_dir() and "homes" not in place.parts]
    if not folders:
        return
    folder = rng.choice(folders)
    name = rng.choice([".nfs0001", "Thumbs.db", "junk.parquet", "000999", "99999999999999999999", "9" * 40, "x\udcff"])
    place = folder / name
    if os.path.lexists(place):
        return
    match rng.choice(["file", "empty", "folder", "dangling", "circle", "pipe", "damage"]):
        case "file" if folder.parent.parent.name != "feeds":
            place.write_text("what is this?")
        case "empty" if folder.parent.parent.name != "feeds":
            place.touch()
        case "folder":
            place.mkdir()
        case "dangling":
            place.symlink_to(root / "nowhere")
        case "circle":
            place.symlink_to(place)
        case "pipe":
            os.mkfifo(place)
        case "damage":
            for message in sorted(root.glob("channels/*/messages/[0-9]*.parquet"))[:1]:
                if message.is_file() and not message.is_symlink():
                    message.write_bytes(message.read_bytes()[: rng.randint(0, 500)])


#: What befalls what processes have and share.
SHARED_FOLDERS = ("processes", "channels", "processes/*", "channels/*", "channels/*/sessions")
ACCIDENTS = ("restore", "litter", "away", "closed", "copy", "copied", "overtaken", "lost", "compact", "severed")


def accident_of_channels(world: World, rng: random.Random, accident: str, name: str) -> None:
    """Something befalls what processes share, or the process ``name``."""
    folders = sorted(path for pattern in SHARED_FOLDERS for path in world.folder.glob(pattern))
    files = sorted(path for part in SHARED for path in world.folder.glob(f"{part}/**/*") if not path.is_dir())
    match accident:
        case "litter":
            litter(rng, world.folder)
        case "away" | "closed":
            places = rng.choice([folders, files]) if accident == "away" else files
            if not places:
                return
            place = rng.choice(places)
            with world.away(place) if accident == "away" else world.closing(place):
                for other in rng.choices(world.names, k=rng.randint(1, 5)):
                    if other in world.workers:
                        world.turn(other)
                    elif rng.random() < 0.3:
                        world.start(other)
        case "copy":
            world.copy_channels()
        case "copied":
            world.restore_channels(rng.choice([SHARED, SHARED, SHARED[:1], SHARED[1:]]))
            for other in rng.choice([[], world.names, rng.sample(world.names, 1)]):
                world.kill(other)
        case "overtaken":
            world.overtaken = name
        case "severed":
            channel = rng.choice(world.modules[name].PROCESS.receives or world.modules[name].PROCESS.sends or [None])
            if channel and not world.severed.pop(channel.name, ""):
                world.severed[channel.name] = rng.choice(["lost", "refused", "unseen", "dropped"])
        case "compact":
            for relation in world.modules[name].PROCESS.fed:
                world.compact(name, relation)
        case "lost":
            messages = sorted(world.folder.glob("channels/*/messages/[0-9]*-*"))
            if messages:
                rng.choice(messages).unlink()


def any_schedule(
    seed: int,
    folder: Path,
    kafka: str = "",
    hostile: bool = False,
    random_program: Callable[[random.Random], str] = random_processes,
) -> None:
    """Messages late, out of order and twice; processes killed at any point, stopped, and started with and without what
    they had. If it is ``hostile``, also with a part of that as it was earlier; a system that fails now and then; files
    that belong nowhere; folders and files that are away for a moment or closed; copies of channels restored; runs that
    are overtaken in mid-turn; and messages that are lost. Who says that it has caught up has."""
    rng = random.Random(seed)
    text = random_program(rng)
    values = 2 if "+(" in text or "- q(" in text else 3
    world = World(text, folder, rng, rng.choice([0.0, 0.0, 20.0]), kafka)
    if hostile:
        world.fault_rate = rng.choice([0.0, 0.02])
        world.secrets = dict.fromkeys(world.names, rng.choice([b"", b"known to all of them"]))
    weights = (30, 4, 8, 4, 1, 1, *([1, 1, 4, 2, 1, 1, 2, 2, 2, 2] if hostile else [0] * len(ACCIDENTS)))
    inputs: dict[tuple[str, str], set[Row]] = {
        (feed.reader, feed.relation): set() for feed in world.compiled.topology.feeds
    }

    def feed() -> None:
        place = rng.choice(sorted(inputs))
        changes = random_changes(rng, inputs[place], len(COLUMNS[place[1]]), values)
        if changes:
            world.feed(*place, COLUMNS[place[1]], changes)

    try:
        for _ in range(3):
            for _ in range(rng.randint(5, 60)):
                name = rng.choice(world.names)
                match rng.choices(["turn", "feed", "time", "start", "kill", "stop", *ACCIDENTS], weights)[0]:
                    case "turn" if name in world.workers:
                        world.turn(name)
                    case "feed":
                        feed()
                    case "time":
                        world.pass_time(rng.choice([0.5, 1.0, 6.0]))
                    case "start" if name not in world.workers:
                        world.start(name, elsewhere=rng.random() < 0.3)
                    case "kill" if name in world.workers:
                        world.kill(name)
                    case "stop" if name in world.workers:
                        world.stop(name)
                    case "restore" if name not in world.workers and name in world.states:
                        world.restore(name)
                    case accident:
                        if accident in ACCIDENTS:
                            feed()
                            accident_of_channels(world, rng, accident, name)
                            # Before something else lets channels begin anew.
                            if rng.random() < 0.15:
                                world.check_what_is_said(lambda: evaluated(world.compiled, inputs))
            world.settle()
            assert world.relations() == evaluated(world.compiled, inputs)
            assert world.says_all()
    except Exception as error:
        # By day no program of a plain schedule is refused; at night there are some with too many derivations.
        refused = re.search(f"more than {MOST_ENTRIES} derivation sets|Overflow in multiplication", str(error))
        if not (NIGHTLY or hostile) or not refused:
            raise
    finally:
        world.close()


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_any_schedule(seed: int, tmp_path: Path) -> None:
    """Channels are folders."""
    any_schedule(seed, tmp_path / "world")


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(0, 5) if NIGHTLY else [5])
def test_any_hostile_schedule(seed: int, tmp_path: Path) -> None:
    """The same with a system that fails, homes and channels of several ages, several runs, and litter. By day, those
    whose relations have few derivation sets."""
    any_schedule(seed, tmp_path / "world", hostile=True)


@AT_NIGHT
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_any_recursion(seed: int, tmp_path: Path) -> None:
    """Recursions across processes that negate, and that take the least value of each group."""
    any_schedule(seed, tmp_path / "world", hostile=seed % 2 == 1, random_program=random_recursion)


def test_recursion_through_what_the_compiler_makes(tmp_path: Path) -> None:
    """What a process derives in between is a part of a recursion too: a path, here. Without it, tuples that are derived
    from each other only would stay."""
    text = """
    process A {
      input relation e(x: int, y: int)
      A.p(X, Y) :- e(X, Y).
      A.p(X, Y) :- B.p+(X, Y).
    }
    process B {
      B.p(X, Y) :- A.p(X, Y).
    }
    """
    world = World(text, tmp_path / "world", random.Random(1))
    rows: set[Row] = {(1, 2), (2, 1)}
    try:
        for op, there in (("+", rows), ("-", set())):
            world.feed("A", "e", ("x", "y"), [(op, row) for row in sorted(rows)])
            world.settle()
            assert world.relations() == evaluated(world.compiled, {("A", "e"): there})
    finally:
        world.close()


def test_names(tmp_path: Path) -> None:
    """Relations and columns may be called as what a process keeps for itself, have texts, or no columns at all."""
    text = """
    process A {
      input relation n(x: int, text: string)
      A.steps(X, S) :- n(X, S).
      A.seen(X) :- n(X, _).
      A.any :- n(_, _).
    }
    process B {
      input relation A.steps(op: int, text: string)
      B.lines(X, S) :- A.steps(X, S), A.seen(X), A.any.
      B.before(count<X>) :- A.seen(X).
    }
    """
    world = World(text, tmp_path / "world", random.Random(1))
    rows: set[Row] = {(1, "a'b"), (2, 'c"d'), (2, "")}
    try:
        world.feed("A", "n", ("x", "text"), [("+", row) for row in sorted(rows)])
        world.settle()
        assert world.relations() == evaluated(world.compiled, {("A", "n"): rows})
        world.feed("A", "n", ("x", "text"), [("-", row) for row in sorted(rows)])
        world.settle()
        assert world.relations()["B.lines"] == world.relations()["A.any"] == set()
    finally:
        world.close()


def test_what_is_said_of_a_feed_that_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it; not the options of ``apply``, which a process has not."""
    world = World(
        "process A {\n  input relation e(x: int)\n  A.p(X) :- e(X).\n}\n", tmp_path / "world", random.Random(1)
    )
    warnings: list[str] = []
    try:
        world.start("A")
        worker, module = world.workers["A"], world.modules["A"]

        def refuse(changes: Any, step: str) -> None:
            if "e" in changes:
                plain = str(module.refused("column op is missing"))  # type: ignore[attr-defined]
                raise module.Refused(plain, options="\n  give --op-column NAME")  # type: ignore[attr-defined]

        world.states["A"].instead = refuse
        monkeypatch.setattr(worker.log, "warn", warnings.append, raising=False)
        world.feed("A", "e", ("x",), [("+", (1,))])
        world.turn("A")
        (said,) = [message for _, _, message in worker.feeds.refused.values()]
        assert said == "refused, nothing has changed:\n  column op is missing"
        assert len(warnings) == 1 and "--op-column" not in warnings[0]
    finally:
        world.close()


def test_constants_travel_to_the_sender(tmp_path: Path) -> None:
    """A reader is sent the tuples that its literals can match, and no others."""
    text = """
    process A {
      input relation n(x: int, s: string, b: bool)
      A.n(X, S, B) :- n(X, S, B).
    }
    process B {
      B.some(X) :- A.n(X, "a'b", true).
      B.some(X) :- A.n(X, S, B), S = "c", B = false, !A.n(7, _, false).
    }
    process C {
      C.some(X) :- A.n(X, "a'b", true).
      C.some(S) :- A.n(7, S, _), S != "d".
    }
    """.replace("C.some(S)", "C.other(S)")
    world = World(text, tmp_path / "world", random.Random(1))
    rows: set[Row] = {(x, s, b) for x in (1, 7) for s in ("a'b", "c", "d") for b in (True, False)}
    try:
        for op, there in (("+", rows), ("-", set())):
            world.feed("A", "n", ("x", "s", "b"), [(op, row) for row in sorted(rows)])
            world.settle()
            assert world.relations() == evaluated(world.compiled, {("A", "n"): there})
            assert world.states["B"].tuples("A.n", "input") == there
            fitting = {row for row in there if row[0] == 7 or row[1:] == ("a'b", True)}
            assert world.states["C"].tuples("A.n", "input") == fitting
    finally:
        world.close()
