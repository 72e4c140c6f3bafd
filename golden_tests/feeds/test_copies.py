"""Feeds of relations whose copies count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.feeds.conftest import Applied
from golden_tests.feeds.world import FeedWorld, append, delete, links, make_table, refusal

PROGRAM = """
input multiset relation link(src: int, dst: int)
output relation often(src: int, times: int, all: int)
output relation reachable(src: int, dst: int)
often(S, count<*>, sum<D>) :- link(S, D).
reachable(S, D) :- link(S, D).
reachable(S, D) :- link(S, Z), reachable(Z, D).
"""

Pair = tuple[int, int]


class CopiesWorld(FeedWorld):
    """A job whose links have copies."""

    def check_copies(self, *pairs: Pair) -> None:
        """The state has these links, as often as they are named, and what follows from them."""
        self.check(pairs)
        found = self.job.relation(None, str(self.state), "link", support=True).to_pylist()
        assert {(row["src"], row["dst"]): row["_support"] for row in found} == Counter(pairs)
        groups = {(s, sum(a == s for a, _ in pairs), sum(b for a, b in pairs if a == s)) for s, _ in pairs}
        assert self.rows("often") == groups


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopiesWorld]:
    """A job without a state."""
    made = CopiesWorld(tmp_path, PROGRAM)
    yield made
    made.close()


@pytest.mark.parametrize("recorded", [True, False], ids=["change data feed", "files of versions"])
def test_a_table_without_a_key(world: CopiesWorld, applied: Applied, recorded: bool) -> None:
    """Each row is a copy: appended, updated, rewritten, deleted, restored, and compared as a whole."""
    table = make_table(world.folder / "lake", links((1, 2), (1, 2), (2, 3)), recorded)
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    world.check_copies((1, 2), (1, 2), (2, 3))
    append(table, (1, 2), (2, 3))
    append(table, (4, 1), (4, 1))
    assert applied()["changes"]["link"] == {"inserted": 1, "deleted": 0}
    world.check_copies((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (4, 1), (4, 1))
    DeltaTable(table).optimize.compact()
    DeltaTable(table).update(updates={"dst": "2"}, predicate="src = 4")
    assert world.run("apply") == 0
    world.check_copies((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (4, 2), (4, 2))
    write_deltalake(table, links((1, 2), (2, 3), (2, 3), (2, 3)), mode="overwrite")
    assert world.run("apply") == 0
    world.check_copies((1, 2), (2, 3), (2, 3), (2, 3))
    append(table, (1, 2))
    assert world.run("apply", "--resync", "link") == 0
    world.check_copies((1, 2), (1, 2), (2, 3), (2, 3), (2, 3))
    delete(table, "src = 2")
    append(table, (1, 2))
    assert world.run("apply") == 0
    world.check_copies((1, 2), (1, 2), (1, 2))
    assert world.run("rollback", "--to", "1") == 0
    world.check_copies((1, 2), (1, 2), (2, 3))
    assert world.run("apply") == 0
    world.check_copies((1, 2), (1, 2), (1, 2))


def test_many_rows(world: CopiesWorld, applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    """More changes than are compared in Python."""
    table = make_table(world.folder / "lake", links((1, 2), (1, 2)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    monkeypatch.setattr(world.job, "FEW_CHANGES", 0)
    append(table, (1, 2), (1, 2), (2, 3))
    DeltaTable(table).update(updates={"dst": "4"}, predicate="src = 1")
    applied()
    world.check_copies((1, 4), (1, 4), (1, 4), (1, 4), (2, 3))


def test_a_set_becomes_a_multiset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a set is refused; after the upgrade, the next batch compares all rows."""
    plain = FeedWorld(tmp_path, PROGRAM.replace("multiset ", ""))
    table = make_table(tmp_path / "lake", links((1, 2), (2, 3)))
    assert plain.run("connect", f"link=delta:{table}") == plain.run("init") == 0
    append(table, (1, 2))
    assert "input multiset" in refusal(plain, capsys, "--resync", "link")
    plain.close()
    world = CopiesWorld(tmp_path, PROGRAM)
    assert world.run("upgrade") == world.run("apply") == 0
    world.check_copies((1, 2), (1, 2), (2, 3))
    world.close()


def test_change_files(world: CopiesWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Files are netted together; too many deletions are refused with the place, in every batch."""
    folder = world.folder / "incoming"
    folder.mkdir()

    def put(name: str, *changes: str) -> None:
        lines = [f"{change[0]},{change[1:]}" for change in changes]
        (folder / name).write_text("\n".join(["op,src,dst", *lines, ""]), encoding="utf-8")

    put("1.csv", "+1,2", "+1,2", "+2,3", "-1,2", "+1,2")
    put("2.csv", "-2,3", "+1,2")
    assert world.run("connect", f"link=files:{folder}") == world.run("init") == 0
    world.check_copies((1, 2), (1, 2), (1, 2))
    put("3.csv", "-1,2", "-5,6")
    put("4.csv", "+5,6", "+5,6", "-1,2")
    assert world.run("apply") == 0
    world.check_copies((1, 2), (5, 6))
    put("5.csv", "+5,6", "-1,2", "-1,2")
    assert "5.csv, row 2) more than it inserts, and there is 1 copy" in refusal(world, capsys)
    put("5.csv", "-1,2")
    assert world.run("apply", "--resync", "link") == 0
    world.check_copies((5, 6))


def test_topics_are_refused(world: CopiesWorld, capsys: pytest.CaptureFixture[str]) -> None:
    """Debezium may write a change twice, unless the source says that it does not."""
    said = refusal(world, capsys, "link=kafka-debezium://broker/db.link", command="connect")
    assert "link is a multiset, and Debezium may write a change again" in said


def test_connecting_again(world: CopiesWorld) -> None:
    """What differs meanwhile is found by comparing all rows."""
    table = make_table(world.folder / "lake", links((1, 2), (1, 2)))
    assert world.run("connect", f"link=delta:{table}") == world.run("init") == 0
    assert world.run("connect", "--remove", "link") == 0
    path = world.folder / "changes.csv"
    path.write_text("op,src,dst\n-,1,2\n+,3,4\n", encoding="utf-8")
    assert world.run("apply", "--changes", f"link={path}") == 0
    append(table, (1, 2))
    assert world.run("connect", f"link=delta:{table}") == world.run("apply") == 0
    world.check_copies((1, 2), (1, 2), (1, 2))
