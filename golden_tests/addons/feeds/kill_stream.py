"""Kills two streaming queries (their process and its JVM, with SIGKILL) at random moments, and starts them again.

Run as a script in an empty directory, with two numbers: a seed, and how often to kill. Both queries change one state:
the first one links and people, the second one visits. Each micro-batch is a commit, and usually has one file. Now and
then the last file of a checkpoint's log of commits is removed, so that Spark runs the batch again.
"""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from golden_tests.addons.feeds.world import FeedWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROGRAM = """
input relation link(src: int, dst: int)
input relation person(id: int, name: string) primary key (id)
input multiset relation visit(id: int, page: string)
output relation reachable(src: int, dst: int)
output relation visits(name: string, n: int)
reachable(S, D) :- link(S, D).
reachable(S, D) :- link(S, Z), reachable(Z, D).
visits(N, count<P>) :- visit(I, P), person(I, N).
"""

NODES, TURNS = 6, 3
#: What Spark says, now and then, when its JVM no longer reaches the Python functions of a query.
LOST_PYTHON = b"py4j.Py4JException: Error while sending a command."


class Killed:
    """The folders that the queries read, and what the state must have once they have read them."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        """Build the state."""
        self.folder, self.rng, self.files = folder, rng, Counter[str]()
        self.world = FeedWorld(folder, PROGRAM)
        self.links, self.people, self.visits = set[tuple[int, int]](), dict[int, str](), Counter[tuple[int, str]]()
        for name in ("first", "second"):
            (folder / name).mkdir()
        assert self.world.run("init", "--keep", "1000") == 0

    def grow(self) -> None:
        """Write a file for each query. Files in a row change other links and people: a batch that happens to have
        several of them must not say both that a row comes and that it goes."""
        rng, first, second = self.rng, list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        turn = self.files["first"] % TURNS
        for a, b in {(rng.randrange(turn, NODES, TURNS), rng.randrange(NODES)) for _ in range(3)}:
            first.append(("-" if (a, b) in self.links else "+", a, str(b)))
            self.links ^= {(a, b)}
        person = rng.randrange(turn, NODES, TURNS)
        if person in self.people and rng.random() < 0.4:
            first.append(("-", person, self.people.pop(person)))
        else:
            self.people[person] = f"p{rng.randrange(3)}"
            first.append(("+", person, self.people[person]))
        for _ in range(3):
            visit = (rng.randrange(NODES), rng.choice("abc"))
            sign = "-" if self.visits[visit] and rng.random() < 0.5 else "+"
            # A batch that deletes a copy before it is there is refused, whatever the order of its rows.
            self.visits[visit] += 1 if sign == "+" else -1
            second.append((sign, *visit))
        for name, rows in (("first", first), ("second", second)):
            self.files[name] += 1
            path = self.folder / name / f".{self.files[name]}.csv"
            with path.open("w", newline="", encoding="utf-8") as content:
                csv.writer(content).writerows(rows)
            os.utime(path, (self.files[name], self.files[name]))
            path.rename(path.with_name(path.name[1:]))

    def forget(self) -> None:
        """Let Spark run the last batch of a query again."""
        folder = self.folder / f"seen_{self.rng.choice(['first', 'second'])}" / "commits"
        numbers = [int(path.name) for path in folder.glob("[0-9]*")] if folder.exists() else []
        if numbers:
            (folder / str(max(numbers))).unlink()
            (folder / f".{max(numbers)}.crc").unlink(missing_ok=True)

    def check(self) -> None:
        """Each file was applied once, each batch is a commit of its own, and each change was published once."""
        world = self.world
        assert world.rows("link") == self.links
        assert world.rows("person") == set(self.people.items())
        stored = world.job.relation(None, str(world.state), "visit", support=True).to_pylist()
        assert {(row["id"], row["page"]): row["_support"] for row in stored} == +self.visits
        assert world.job.verify(None, str(world.state), log=world.job.Log(quiet=True))["differences"] == []
        commits = world.job.history(str(world.state))["commits"]
        # A query that was killed between its logs of files and of offsets has two files in one batch.
        batches = [path for path in self.folder.glob("seen_*/offsets/*") if path.name.isdigit()]
        assert len(commits) == 1 + len(batches), (len(commits), len(batches))
        for name in ("reachable", "visits"):
            told: Counter[tuple[Any, ...]] = Counter()
            for file in (world.state / "published" / name / "changes").rglob("*.parquet"):
                for row in pq.ParquetFile(file).read().to_pylist():
                    sign = 1 if row.pop("op") == "+" else -1
                    told[tuple(row.values())] += sign
            assert set(told.values()) <= {0, 1}, (name, told)
            assert {row for row, count in told.items() if count} == world.rows(name)


def run_queries() -> None:
    """Run both queries until they have read all files. Others are killed meanwhile."""
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.log.level": "ERROR"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    world = FeedWorld(Path.cwd(), PROGRAM)

    def of_both(frame: DataFrame) -> dict[str, DataFrame]:
        number = frame.where("b RLIKE '^[0-9]+$'")
        return {
            "link": number.selectExpr("op", "a AS src", "CAST(b AS BIGINT) AS dst"),
            "person": frame.where("b NOT RLIKE '^[0-9]+$'").selectExpr("op", "a AS id", "b AS name"),
        }

    def of_visits(frame: DataFrame) -> dict[str, DataFrame]:
        return {"visit": frame.selectExpr("op", "a AS id", "b AS page")}

    queries = []
    for name, relations in (("first", of_both), ("second", of_visits)):

        def each(frame: DataFrame, number: int, relations: Any = relations) -> None:
            world.job.apply_micro_batch(
                frame, number, str(world.state), relations(frame), log=world.job.Log(quiet=True), engine="duckdb"
            )

        stream = spark.readStream.schema("op STRING, a BIGINT, b STRING").option("maxFilesPerTrigger", 1).csv(name)
        writer = stream.writeStream.foreachBatch(each).option("checkpointLocation", f"seen_{name}")
        queries.append(writer.trigger(availableNow=True).start())
    for query in queries:
        query.awaitTermination()
        assert query.exception() is None
    print("done", flush=True)


def main() -> None:
    """Kills again and again, then lets the queries end."""
    if sys.argv[1:] == ["run"]:
        run_queries()
        return
    rng, times, kills = random.Random(int(sys.argv[1])), int(sys.argv[2]), 0
    killed = Killed(Path.cwd(), rng)
    command, longest = [sys.executable, "-m", "golden_tests.addons.feeds.kill_stream", "run"], 20.0
    for number in range(times + 1):
        for _ in range(rng.randrange(1, 4) if number < times else 1):
            killed.grow()
        started = time.monotonic()
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            _, said = process.communicate(timeout=rng.uniform(longest / 4, longest) if number < times else None)
            if number < times and LOST_PYTHON in said:
                continue  # Spark itself has interrupted a query: one more way to be killed.
            assert process.returncode == 0, said.decode()
            longest = time.monotonic() - started
        except subprocess.TimeoutExpired:
            kills += 1
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            longest *= 1.1
        if rng.random() < 0.5:
            killed.forget()
    killed.check()
    print(kills)


if __name__ == "__main__":
    main()
