"""One feed for all nodes, split by location: each row is fed to its nodes once and in order, also by routers that were
killed at any step; what cannot be split is refused and stays."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.processes.network import nodes_main
from flintlog.runtime.addons.processes.nodes import Nodes
from flintlog.runtime.addons.processes.partition import Partition
from flintlog.runtime.addons.processes.router import Router, division_text
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.row_kernel.model import RowProgram
from flintlog.runtime.system.log import Log
from flintlog.targets.database.lower import lower_rows
from flintlog.targets.processes.nodes import nodes_of

from golden_tests.job.kill import in_child, kill_at
from golden_tests.nightly import AT_NIGHT, by_day

TEXT = """
input relation link(@src: string, dst: string, cost: int)
input relation known(name: string)
input relation on()
input relation node0(@op: int, day: date)
output relation near(@src: string, dst: string)
output relation late(@op: int, day: date)
output alarm.
near(@S, D) :- link(@S, D, _), known(D).
late(@N, D) :- node0(@N, D).
alarm@"hub" :- on@"hub".
"""

assert methods, "registered"

#: Addresses that files, paths and SQL could take for something else.
ODD = ["a/b", "..", ".", "", "'", '"', "a,b", "é", "日本", "%2F", "x" * 300, "\n", "NULL", "nodé", "*"]


def compiled(text: str = TEXT, count: int = 3, known: Mapping[str, int] | None = None) -> tuple[RowProgram, Nodes]:
    """Return a program and its nodes."""
    plan = compile_nodes(SourceFile("test.dl", text)).node.plan
    return lower_rows(plan), nodes_of(plan.program, Partition(count, dict(known or {})))


PROGRAM, NODES = compiled()


class Net:
    """The folder of some nodes and their router."""

    def __init__(self, root: Path, program: RowProgram = PROGRAM, nodes: Nodes = NODES) -> None:
        """Start without files."""
        self.root, self.program, self.nodes = root, program, nodes
        self.router: Any = None

    def feed(self, relation: str, name: str, text: str) -> Path:
        """Give the router a file."""
        path = self.root / "feeds" / "router" / relation / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def feed_rows(self, relation: str, name: str, columns: str, *rows: tuple[object, ...]) -> Path:
        """Give the router a file with rows as JSON."""
        lines = (json.dumps(dict(zip(columns.split(), row, strict=True))) for row in rows)
        return self.feed(relation, name, "".join(f"{line}\n" for line in lines))

    def run(self) -> None:
        """Start a router, and let it split what is there."""
        self.router = Router(self.program, self.nodes, self.root, Log(quiet=True))
        try:
            while self.router.turn():
                pass
        finally:
            self.router.connection.close()

    def fed(self, relation: str) -> dict[str, list[list[tuple[Any, ...]]]]:
        """What each node was fed, file by file in the order in which it reads them."""
        found = {}
        for number in range(self.nodes.partition.count):
            folder = self.root / "feeds" / f"node{number}" / relation
            files = sorted(path for path in folder.glob("*") if path.name[0] != ".") if folder.is_dir() else []
            tables = [pq.ParquetFile(path).read() for path in files]
            rows = [sorted(tuple(row.values()) for row in table.to_pylist()) for table in tables]
            found[f"node{number}"] = [[(row[-1], *row[:-1]) for row in table] for table in rows]
        return found

    def expected(self, *files: list[tuple[Any, ...]]) -> dict[str, list[list[tuple[Any, ...]]]]:
        """What nodes are to be fed of files, whose rows have their address behind the operation."""
        place = self.nodes.partition.node_of
        return {
            f"node{number}": [
                part for file in files if (part := sorted(row for row in file if place(row[1]) == number))
            ]
            for number in range(self.nodes.partition.count)
        }

    def status(self) -> dict[str, Any]:
        """What the router says of itself."""
        said: dict[str, Any] = json.loads((self.root / "status" / "router.json").read_text())
        return said


def in_order(found: Mapping[str, list[list[tuple[Any, ...]]]]) -> dict[str, list[list[tuple[Any, ...]]]]:
    """Sort the rows of each file."""
    return {node: [sorted(file) for file in files] for node, files in found.items()}


def test_rows_go_to_their_nodes(tmp_path: Path) -> None:
    """By whatever address, in all formats; others go to all nodes, and what is located at a constant to its node."""
    net = Net(tmp_path)
    first = [("+", name, f"to {name}", number) for number, name in enumerate(ODD)]
    second = [("-", *row[1:]) for row in first[:5]] + [("+", "new", "", -1)]
    net.feed_rows("link", "1.json", "op src dst cost", *first)
    net.feed_rows("link", "2.jsonl", "op src dst cost", *second)
    net.feed("known", "1.csv", 'op,name\n+,x\n+,""\n')
    net.feed("on", "1.csv", "op\n+\n")
    # The relation has the name of a node, and a column the name of the operation.
    net.feed("node0", "1.csv", "_op,op,day\n+,-7,2024-02-29\n-,9223372036854775807,0001-01-01\n")
    net.run()
    assert in_order(net.fed("link")) == in_order(net.expected(first, second))
    assert net.fed("known") == {name: [[("+", ""), ("+", "x")]] for name in ("node0", "node1", "node2")}
    hub = NODES.partition.node_of("hub")
    assert net.fed("on") == {f"node{number}": [[("+",)]] if number == hub else [] for number in range(3)}
    assert NODES.at == {"on": "hub"}
    days = [("+", -7, date(2024, 2, 29)), ("-", 2**63 - 1, date(1, 1, 1))]
    assert in_order(net.fed("node0")) == in_order(net.expected(days))
    said = net.status()
    assert said["fed"] == {"link": ["1.json", "2.jsonl"], "known": ["1.csv"], "on": ["1.csv"], "node0": ["1.csv"]}
    assert (said["refused"], said["busy"], said["steps"]) == ([], False, 5)
    assert (said["in"], said["out"]) == (len(first) + len(second) + 2 + 1 + 2, len(first) + len(second) + 6 + 1 + 2)


def test_order(tmp_path: Path) -> None:
    """Files are split in the order of their names, and nodes read their parts in that order; late ones are last."""
    net = Net(tmp_path, *compiled(count=1))
    for name in ("x.csv", "x.csv-2.csv", "x.csv.csv", "10.csv", "9.csv"):
        net.feed("known", name, f"op,name\n+,{name}\n")
    net.run()
    # A router that ends before it has done anything leaves all as it was.
    Router(net.program, net.nodes, net.root, Log(quiet=True)).connection.close()
    net.feed("known", "0.csv", "op,name\n+,0.csv\n")
    net.run()
    names = [file[0][1] for file in net.fed("known")["node0"]]
    assert names == ["10.csv", "9.csv", "x.csv", "x.csv-2.csv", "x.csv.csv", "0.csv"]


def test_what_is_refused_stays(tmp_path: Path) -> None:
    """With file, row and reason; later files of the relation wait, others do not."""
    net = Net(tmp_path)
    wrong = net.feed("link", "1.csv", "op,src,dst,cost\n+,a,b,1\n+,,b,2\n+,a,b,x\n")
    net.feed("link", "2.csv", "op,src,dst,cost\n-,a,b,1\n")
    net.feed("known", "1.csv", "op,name\n+,b\n-,b\n")
    net.feed("on", "1.csv", "op\n+\n")
    (tmp_path / "feeds" / "router" / "on" / "notes.txt").write_text("mine")
    net.run()
    assert not any(net.fed("link").values()) and not any(net.fed("known").values())
    said = net.status()
    assert said["held_up"] == ["known", "link"] and said["aside"]["on"] == ["notes.txt"]
    text = "\n".join(said["refused"])
    assert f'{wrong}, row 2, column src: null (write "" for an empty string)' in text
    assert f'{wrong}, row 3, column cost: "x" is not an int' in text
    assert 'name = "b" is both deleted' in text and "row 2) and inserted" in text
    assert wrong.exists() and sum(map(len, net.fed("on").values())) == 1
    # It is split once it has been mended.
    wrong.write_text("op,src,dst,cost\n+,a,b,1\n", encoding="utf-8")
    net.run()
    assert net.fed("link") == net.expected([("+", "a", "b", 1)], [("-", "a", "b", 1)])
    assert net.status()["held_up"] == ["known"]


def test_primary_keys(tmp_path: Path) -> None:
    """A node could not tell which of two rows with one key is the later one, so a file with both is refused."""
    text = "input relation r(@a: int, b: int, c: int) primary key (a, b)  output s.  s(@A) :- r(@A, _, _)."
    net = Net(tmp_path, *compiled(text))
    net.feed("r", "1.csv", "op,a,b,c\n+,1,1,1\nupdate,1,2,2\nupdate,1,1,3\n")
    net.run()
    assert "two different rows with the primary key a = 1, b = 1, in an unknown order" in net.status()["refused"][0]
    net.feed("r", "1.csv", "op,a,b,c\n+,1,1,1\nupdate,1,2,2\n+,1,1,1\n")
    net.run()
    assert net.fed("r") == net.expected([("+", 1, 1, 1), ("+", 1, 2, 2)])


def test_other_nodes(tmp_path: Path) -> None:
    """Records of another division are refused, and lost ones; two routers do not run at once."""
    net = Net(tmp_path)
    net.feed("known", "1.csv", "op,name\n+,b\n")
    net.run()
    for other in (compiled(count=4), compiled(known={"a": 1}), compiled(TEXT.replace("cost: int", "cost: float"))):
        with pytest.raises(JobError, match=r"records of a router for other nodes, or for inputs with other columns"):
            Router(*other, tmp_path, Log(quiet=True))
    holding = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); print(flush=True)"
    command = [sys.executable, "-c", f"{holding}; sys.stdin.read()", str(net.router.home / "router.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other_router:
        assert other_router.stdout and other_router.stdout.readline()
        with pytest.raises(JobError, match=r"router.db is in use: another router of .* is running"):
            Router(PROGRAM, NODES, tmp_path, Log(quiet=True))
        other_router.communicate()
    net.router.home.rename(tmp_path / "lost")
    with pytest.raises(JobError, match=r"router-000000000001\.parquet was put there by a router, and .* is new, or an"):
        Router(PROGRAM, NODES, tmp_path, Log(quiet=True))
    assert division_text(NODES, {}) != division_text(compiled(count=2)[1], {})


def test_something_in_the_way(tmp_path: Path) -> None:
    """A router does not replace what it has not made, and goes on when that is gone."""
    net = Net(tmp_path, *compiled(count=2))
    net.feed("known", "1.csv", "op,name\n+,b\n")
    mine = tmp_path / "feeds" / "node1" / "known" / "router-000000000001.parquet"
    router = Router(net.program, net.nodes, tmp_path, Log(quiet=True))
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(JobError, match=r"000001.parquet is in the way of what a router puts there"):
        router.turn()
    router.connection.close()
    mine.unlink()
    net.run()
    assert net.fed("known") == {"node0": [[("+", "b")]], "node1": [[("+", "b")]]}


def killed_at(step: int, net: Net) -> bool:
    """Run a router in a fork that is killed before its ``step``-th access to files; return whether it was."""

    def counts(event: str, arguments: tuple[object, ...]) -> bool:
        changes = event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree", "shutil.copyfile")
        return changes or (event == "open" and str(arguments[0]).startswith(str(net.root)))

    def work() -> None:
        kill_at(step, counts)
        net.run()

    ended = in_child(work, seconds=60)
    assert ended in (0, signal.SIGKILL)
    return ended != 0


@by_day(1)
@pytest.mark.parametrize("stride", [53, pytest.param(1, marks=AT_NIGHT)])
def test_kills(stride: int, tmp_path: Path) -> None:
    """Killed before any access to files, it goes on, and all is there once."""
    first = [("+", f"n{number}", "x", number) for number in range(8)]
    second = [("-", "n1", "x", 1), ("+", "n9", "y", 9)]
    killed, step = True, 1
    while killed:
        net = Net(tmp_path / str(step), *compiled(count=2))
        net.feed_rows("link", "1.json", "op src dst cost", *first)
        net.feed_rows("link", "2.json", "op src dst cost", *second)
        net.feed("known", "1.csv", "op,name\n+,x\n")
        killed = killed_at(step, net)
        if killed and step % 2:
            # Another one is killed, too, where it goes on.
            killed_at(1 + step // 3, net)
        for _ in range(2):
            net.run()
            assert in_order(net.fed("link")) == in_order(net.expected(first, second)), step
            assert net.fed("known") == {"node0": [[("+", "x")]], "node1": [[("+", "x")]]}, step
        left = [path.name for path in (tmp_path / str(step) / "feeds" / "router" / ".routed").iterdir()]
        assert [name for name in left if not name.startswith("router.db")] == []
        step += stride
    assert step > 60


def test_the_record_is_forced_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No part is in a feed before the parts are forced to disk and recorded; none is done before that."""
    from flintlog.runtime.addons.processes import router as module

    log: list[str] = []

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            log.append(f"{name} {' '.join(re.sub(rf'{tmp_path}/?', '', str(item)) for item in given)}")
            return function(*given)

        return run

    for name in ("sync", "sync_files", "put_whole"):
        monkeypatch.setattr(module, name, noted(name, getattr(module, name)))
    net = Net(tmp_path, *compiled(count=1))
    net.feed("known", "1.csv", "op,name\n+,b\n")
    router = Router(net.program, net.nodes, tmp_path, Log(quiet=True))
    statements = router.run
    monkeypatch.setattr(router, "run", lambda sql, values=(): (log.append(sql.split()[0]), statements(sql, values))[1])
    log.clear()
    router.turn()
    router.connection.close()
    home, feed = "feeds/router/.routed", "feeds/node0/known"
    done = [line for line in log if not line.startswith("SELECT")]
    assert done == [
        f"sync_files {home}/000000000001",
        "INSERT",
        f"put_whole {home}/000000000001/-1.parquet {feed}/router-000000000001.parquet",
        f"sync {feed}/.router-000000000001.parquet",
        f"sync {feed}",
        "UPDATE",
    ]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``route --once`` splits what is there, and tells by its exit code whether something was refused."""
    net = Net(tmp_path)
    net.feed("known", "1.csv", "op,name\n+,b\n")
    assert nodes_main(PROGRAM, NODES, ["route", "--root", str(tmp_path), "--once"]) == 0
    assert net.fed("known")["node2"] == [[("+", "b")]]
    net.feed("known", "2.csv", "op,names\n+,b\n")
    assert nodes_main(PROGRAM, NODES, ["route", "--root", str(tmp_path), "--once"]) == 1
    assert "2.csv: column name is missing" in capsys.readouterr().err


def test_a_feed_that_is_compacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A router that has split the files ignores the snapshot that replaces them; one in a new folder splits it; one
    that has split some of them cannot."""

    def compact(root: Path) -> str:
        assert nodes_main(PROGRAM, NODES, ["compact-feeds", "--router", "--root", str(root), "link"]) == 0
        return capsys.readouterr().out

    net = Net(tmp_path / "net")
    old = net.feed("link", "1.csv", "op,src,dst,cost\n+,a,b,1\n+,b,c,1\n")
    net.run()
    copied = Net(tmp_path / "copied")
    copied.feed("link", "1.csv", old.read_text())
    copied.run()
    net.feed("link", "2.csv", "op,src,dst,cost\n-,b,c,1\n+,é,a,1\n")
    assert "link: 1 files became snapshot-" in compact(net.root)
    assert compact(net.root) == "link: no files to compact that router has read\n"
    net.run()
    assert "link: 2 files became snapshot-" in compact(net.root) and not old.exists()
    net.feed("link", "3.csv", "op,src,dst,cost\n-,a,b,1\n")
    net.run()
    first, second = [("+", "a", "b", 1), ("+", "b", "c", 1)], [("-", "b", "c", 1), ("+", "é", "a", 1)]
    third = [("-", "a", "b", 1)]
    assert in_order(net.fed("link")) == in_order(net.expected(first, second, third))
    (snapshot,) = (net.root / "feeds" / "router" / "link").glob("snapshot-*")
    for other in (Net(tmp_path / "new"), copied):
        (folder := other.root / "feeds" / "router" / "link").mkdir(parents=True, exist_ok=True)
        shutil.copy(snapshot, folder)
        other.run()
    new = Net(tmp_path / "new")
    assert new.fed("link") == new.expected([("+", "a", "b", 1), ("+", "é", "a", 1)])
    assert copied.fed("link") == copied.expected(first)
    assert "stands for 1.csv, which was split already, and for files that were not" in copied.status()["refused"][0]
