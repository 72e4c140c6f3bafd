"""Feeds of relations whose copies count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from golden_tests.addons.feeds.conftest import Applied
from golden_tests.addons.feeds.world import FeedWorld, append, delete, links, make_table, refusal
from golden_tests.addons.feeds.world import applied as applied_now
from golden_tests.nightly import by_day

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


@by_day(1)
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


@by_day(2)
@pytest.mark.parametrize("option", ["", "--nulls", "--quarantine", "where"])
def test_rows_that_become_others(world: CopiesWorld, applied: Applied, option: str) -> None:
    """deltalake does not record that a row becomes like another one of its file, nor that two take turns: no option
    lets that pass, for copies or for sets."""
    rows = [(1, 5), (1, 7), (1, 9), (1, 9), (2, 1)]
    table = make_table(world.folder / "lake", links(*rows))
    options = {"--nulls": ("--nulls", "skip"), "--quarantine": ("--quarantine", str(world.folder / "aside"))}
    feeds = world.folder / "link.toml"
    feeds.write_text(f'[link]\nwhere = "{"src > 0" if option == "where" else ""}"\n', encoding="utf-8")
    given = options.get(option, ())
    assert world.run("connect", "--feeds", str(feeds), f"link=delta:{table}") == world.run("init", *given) == 0
    DeltaTable(table).update(updates={"dst": "5"}, predicate="dst = 7")
    applied(*given)
    world.check_copies((1, 5), (1, 5), *rows[2:])
    takes_turns = "CASE WHEN dst = 5 THEN 9 WHEN dst = 9 THEN 5 ELSE dst + 1 END"
    DeltaTable(table).update(updates={"dst": takes_turns})
    append(table, (3, 3))
    applied(*given)
    world.check_copies((1, 9), (1, 9), (1, 5), (1, 5), (2, 2), (3, 3))
    DeltaTable(table).update(updates={"dst": "CASE WHEN dst = 5 THEN 9 ELSE 5 END"}, predicate="dst > 4")
    delete(table, "dst = 3")
    applied(*given)
    world.check_copies((1, 9), (1, 9), (1, 5), (1, 5), (2, 2))


def test_copies_outside_of_a_filter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They make the change data feed of deltalake incomplete for a set, too: then all rows are compared, and copies
    inside are refused."""
    world = FeedWorld(tmp_path, PROGRAM.replace("multiset ", ""))
    table = make_table(tmp_path / "lake", links((1, 2), (-1, 5), (-1, 7), (2, 3), (2, 4)))
    (tmp_path / "link.toml").write_text('[link]\nwhere = "src > 0"\n', encoding="utf-8")
    assert world.run("connect", "--feeds", str(tmp_path / "link.toml"), f"link=delta:{table}") == world.run("init") == 0
    DeltaTable(table).update(updates={"dst": "5"}, predicate="dst = 7")
    append(table, (3, 4))
    assert applied_now(world, capsys, "--nulls", "skip")["changes"]["link"] == {"inserted": 1, "deleted": 0}
    world.check({(1, 2), (2, 3), (2, 4), (3, 4)})
    DeltaTable(table).update(updates={"dst": "4"}, predicate="dst = 3")
    assert "src = 2, dst = 4 more than once" in refusal(world, capsys)
    world.close()


def test_rows_that_a_feed_does_not_deliver(
    world: CopiesWorld, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of rows are compared before a filter, and whatever is left out or set aside."""
    table = make_table(world.folder / "lake", links((1, 2), (1, 2), (2, 3)))
    feeds, aside = world.folder / "link.toml", str(world.folder / "aside")
    feeds.write_text('[link]\nwhere = "src > 0"\n', encoding="utf-8")
    assert world.run("connect", "--feeds", str(feeds), f"link=delta:{table}") == world.run("init") == 0
    append(table, (3, 4), (3, 4))
    for name, said in (("load_cdf", "had 3, and with its changes 4"), ("scan", "gave 4")):
        real = getattr(DeltaTable, name)

        def lacking(*given: Any, real: Any = real, **named: Any) -> Any:
            found = pa.table(real(*given, **named))
            return found.slice(1)

        with monkeypatch.context() as patch:
            patch.setattr(DeltaTable, name, lacking)
            for options in ((), ("--nulls", "skip"), ("--quarantine", aside)):
                again = ("--resync", "link") if name == "scan" else ()
                assert f"has 5 rows, but {said}" in refusal(world, capsys, *options, *again)
    assert world.run("apply", "--nulls", "skip") == 0
    world.check_copies((1, 2), (1, 2), (2, 3), (3, 4), (3, 4))


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
