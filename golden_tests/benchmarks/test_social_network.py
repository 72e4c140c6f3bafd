"""The example of a social network: random networks against a computation of its own, and the data of the contest."""

from __future__ import annotations

import importlib
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import flintlog
import pytest

from golden_tests.nightly import AT_NIGHT, by_day, seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
BENCHMARKS, EXAMPLE = ROOT / "benchmarks", ROOT / "examples" / "social_network"

Network = dict[str, set[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def social() -> Iterator[ModuleType]:
    """The benchmark, which finds the example."""
    sys.path[:0] = [str(BENCHMARKS), str(EXAMPLE)]
    yield importlib.import_module("social_case")
    sys.path.remove(str(BENCHMARKS))
    sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def program(social: ModuleType) -> flintlog.Compiled:
    """The program of the example."""
    return flintlog.compile(social.PROGRAM)


@pytest.fixture
def data(social: ModuleType) -> Path:
    """The data of the contest."""
    if not (social.DATA / "expected.csv").is_file():
        pytest.skip(f"{social.DATA} does not have the data of the contest")
    found: Path = social.DATA
    return found


def answers(network: Network) -> tuple[str, str]:
    """The answers as the case describes them, without the program. Equal times are ordered by number."""
    parents = {comment: parent for comment, _, parent, _ in network["comment"]}
    likes: dict[int, set[int]] = defaultdict(set)
    for who, comment in network["likes"]:
        likes[comment].add(who)
    scores = {post: 0 for post, *_ in network["post"]}
    for comment in parents:
        top = comment
        while top in parents:
            top = parents[top]
        scores[top] += 10 + len(likes[comment])
    squares = {}
    for comment in parents:
        left, squares[comment] = set(likes[comment]), 0
        while left:
            group, waiting = set(), {left.pop()}
            while waiting:
                one = waiting.pop()
                group.add(one)
                found = {other for other in left if network["friend"] & {(one, other), (other, one)}}
                left -= found
                waiting |= found
            squares[comment] += len(group) ** 2
    when = {row[0]: row[1] for name in ("post", "comment") for row in network[name]}
    first, second = (
        "|".join(str(key) for key in sorted(sorted(made), key=lambda key: (made[key], when[key]), reverse=True)[:3])
        for made in (scores, squares)
    )
    return first, second


def random_lines(rng: random.Random, changes: int) -> list[list[str]]:
    """Lines of a network, and of changes to it, as the contest writes them; all times differ."""
    parts, posts, comments, moment = [], ["1"], [], 0
    seen = set()
    for part in range(changes + 1):
        made = [f'Posts|1|2010-01-01 00:00:00|a, "b" \u2028 \x0b|{7}'] if not part else []
        for _ in range(rng.randint(1, 5) if part else 40):
            moment += 1
            at = f"2010-02-{moment % 28 + 1:02} 12:{moment // 60:02}:{moment % 60:02}"
            table = rng.choice(["Posts", "Comments", "Comments", "Likes", "Likes", "Likes", "Friends", "Users"])
            one, other = rng.sample(range(8), 2)
            if table == "Posts":
                posts.append(str(moment + 1))
                line = f"Posts|{moment + 1}|{at}||{one}"
            elif table == "Comments":
                line = f"Comments|{moment + 1}|{at}|text|{one}|{rng.choice([*posts, *comments])}"
                comments.append(str(moment + 1))
            elif table == "Likes":
                line = f"Likes|{one}|{rng.choice(comments)}" if comments else "Users|3|c"
            else:
                line = f"Friends|{one}|{other}" if table == "Friends" else f"Users|{one}|name"
            if line not in seen:
                made.append(line)
            seen.add(line)
        parts.append(made)
    return parts


def written(parts: list[list[str]], folder: Path) -> Path:
    """Write lines as files of the contest."""
    folder.mkdir()
    for table in ("Posts", "Comments", "Likes", "Friends", "Users"):
        own = [line.partition("|")[2] for line in parts[0] if line.startswith(table)]
        (folder / f"{table.lower()}.csv").write_text("".join(f"{line}\n" for line in own), encoding="utf-8")
    for number, lines in enumerate(parts[1:], 1):
        (folder / f"change{number:02}.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_random_networks(seed: int, social: ModuleType, program: flintlog.Compiled, tmp_path: Path) -> None:
    """The answers after every change, and while the changes are undone again."""
    folder = written(random_lines(random.Random(seed), 5), tmp_path / "data")
    convert = social.convert
    facts = convert.facts(folder)
    changes = [convert.change(file) for file in convert.changes(folder)]
    network: Network = {name: set(rows) for name, rows in facts.items()}
    session = social.InSession(program, facts)
    assert session.answers() == answers(network)
    for change, undo in [*((c, False) for c in changes), *((c, True) for c in reversed(changes))]:
        session.apply(change, undo)
        network = {name: rows - {*change[name]} if undo else rows | {*change[name]} for name, rows in network.items()}
        assert session.answers() == answers(network)
    session.close()


def test_the_converter_writes_rows_for_a_job(social: ModuleType, program: flintlog.Compiled, tmp_path: Path) -> None:
    """A job without Spark reads what it writes, and has the same answers."""
    folder = written(random_lines(random.Random(5), 3), tmp_path / "data")
    done = subprocess.run(
        [sys.executable, EXAMPLE / "convert.py", folder, tmp_path / "out"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "job").mkdir()
    facts = social.convert.facts(folder)
    network: Network = {name: set(rows) for name, rows in facts.items()}
    job = social.InJob(program, facts, tmp_path / "job", None)
    made, used = (folder / "facts" / "likes.csv" for folder in (tmp_path / "out", tmp_path / "job"))
    assert made.read_bytes() == used.read_bytes()
    for number, batch in enumerate(sorted((tmp_path / "out" / "batches").iterdir()), 1):
        job.job.apply(None, str(job.folder / "state"), str(batch), log=job.log)
        change = social.convert.change(folder / f"change{number:02}.csv")
        network = {name: rows | {*change[name]} for name, rows in network.items()}
        assert job.answers() == answers(network)


def test_a_wrong_answer_is_found(social: ModuleType) -> None:
    """The benchmark says where."""
    with pytest.raises(social.WrongAnswer, match=r"Q2, size 1, after change 3: 4\|5 instead of 5\|4"):
        social.compare(("1|2", "4|5"), ("1|2", "5|4"), "size 1, after change 3", "")
    social.compare(("1|2", "4|5"), ("1|2", "5|4"), "size 1, after change 3", "Q1")


@pytest.mark.parametrize("query", ["Q1", "Q2"])
def test_one_query_of_the_program(query: str, social: ModuleType) -> None:
    """The part of the program that a query needs has its output only."""
    text = social.program_of(query)
    assert flintlog.compile(text).files
    assert ("controversial(" in text) == (query == "Q2")
    assert ("influential(" in text) == (query == "Q1")


@by_day(2)
@pytest.mark.parametrize("size", ["1", *(pytest.param(size, marks=AT_NIGHT) for size in ("2", "4", "8", "16", "32"))])
def test_expected_answers(size: str, social: ModuleType, program: flintlog.Compiled, data: Path) -> None:
    """Those of the contest after each of its changes, and while these are undone."""
    times = social.run(lambda facts: social.InSession(program, facts), data, size, 1)
    assert (len(times.updates), len(times.undone)) == (20, 20)


@AT_NIGHT
@pytest.mark.parametrize("size", ["1", "2", "4"])
def test_expected_answers_on_spark(
    size: str, social: ModuleType, program: flintlog.Compiled, data: Path, spark: SparkSession, tmp_path: Path
) -> None:
    """The same of a job whose tasks run in Spark; by day for the first changes of the smallest network."""
    steps = 2 if size == "1" else 20
    (tmp_path / "job").mkdir()
    times = social.run(lambda facts: social.InJob(program, facts, tmp_path / "job", spark), data, size, 1, steps=steps)
    assert len(times.updates) == len(times.undone) == steps
