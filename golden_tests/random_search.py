"""Look for a program and batches on which a job and the oracle disagree.

Run ``python -m golden_tests.random_search FIRST LAST`` in the repository: the scenarios of the seeds from FIRST to
LAST - 1, with 1 to 3 buckets by turns unless ``--buckets`` says how many, or with ``--memory`` in one database without
files, or with ``--engine spark`` in files by Spark's engine, in one session for all of them. ``--nasty`` gives every
program names that mean something to an engine, to Python or to the job, ``--nulls`` columns that may be null,
``--multisets`` inputs whose copies count, and ``--types`` columns of every type and hostile values. Every difference is
printed with its seed and its program; the exit code says whether there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flintlog.compiler.pipeline import Compilation, compile_program
from flintlog.compiler.source import SourceFile

from .checks import Checked, insertions
from .harness import LocalJob, MatricesJob, MemoryJob, RoundsJob, compile_text, frozen_row, load_script
from .oracle.batches import Batch, key_of
from .oracle.language import parse
from .oracle.random_programs import FEATURES, Scenario, random_scenario, values_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A recursion over so few tuples that goes on for longer does not end.
MOST_ROUNDS = 500


def check(
    scenario: Scenario,
    buckets: int,
    heard: Counter[str] | None = None,
    make_job: Callable[[str, Path, int], LocalJob] = LocalJob,
) -> list[str]:
    """What is wrong with the job of a scenario, from the build to the last batch; stops at the first batch where
    something is. ``heard`` counts batches by what became of them.

    With 2 buckets all is done as where states are large.
    """
    heard = Counter() if heard is None else heard
    compilation, script = compile_text(scenario.text)
    job = make_job(script, Path(tempfile.mkdtemp(prefix="search-")), buckets)
    if buckets == 2:
        job.seem_large()
    job.use_strategy(strategy_for(scenario))
    job.limit_rounds(MOST_ROUNDS)
    job.net = "insert" if seems_even(scenario) else ""
    return checked_batches(scenario, compilation, job, f"{buckets} buckets", heard)


def check_in_memory(scenario: Scenario, heard: Counter[str] | None = None) -> list[str]:
    """The same for the program in one database, without files."""
    compilation = compile_program(SourceFile("test.dl", scenario.text))
    job = MemoryJob(compilation)
    job.use_strategy(strategy_for(scenario))
    job.limit_rounds(MOST_ROUNDS)
    return checked_batches(scenario, compilation, job, "in memory", Counter() if heard is None else heard)


def check_queries(scenario: Scenario, spark: SparkSession) -> list[str]:
    """Which queries of a program's rules find other rows in Spark than in DuckDB."""
    compilation, script = compile_text(scenario.text)
    return compare_queries(compilation, script, scenario.text, (insertions(scenario.inputs), *scenario.batches), spark)


def compare_queries(
    compilation: Compilation,
    script: str,
    text: str,
    batches: Iterable[Batch],
    spark: SparkSession,
    look: Callable[[str, str], None] = lambda label, sql: None,
) -> list[str]:
    """Which queries of a script's rules find other rows in Spark than in DuckDB; ``look`` may look at each of Spark's.

    The program runs in memory, to its last batch that is not refused; then all tables that queries read, also those of
    changes, hold the rows of its relations. So every query runs, though no round does: that is hundreds of statements.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    job, module = MemoryJob(compilation), load_script(script)
    names: set[str] = set()
    rounds = module.SparkEngine(spark, 1)
    try:
        checked = Checked(job, text, compilation)
        for batch in batches:
            checked.apply(batch, recount=False)
        if job.manifest is None:
            return []  # All are refused, and no table was made.
        engine = job.session.engine
        connection = engine.connection
        queries = list(queries_of(module))
        words = {word for _, both in queries for text in both for word in re.findall(r"\w+", text)}
        forms = {
            relation.table: words & {f"{relation.table}__{form}" for form in FORMS}
            for relation in job.program.relations
        }
        for table, read in forms.items():
            if not read:
                continue
            # Asked by the engine, which makes tables without rows only when they are named.
            rows = engine.arrow_reader(f"SELECT * FROM {table}", 10_000).read_all()
            schema = from_arrow_schema(rows.schema, prefer_timestamp_ntz=True)
            frame = spark.createDataFrame(rows if len(rows) else [], schema)
            for name in read:
                names.add(name)
                connection.register(f"both_{name}", rows)
                connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT * FROM both_{name}")
                frame.createOrReplaceTempView(name)
        problems = []
        for label, (duckdb, sql) in queries:
            look(label, sql)
            here = Counter(map(frozen_row, connection.execute(duckdb).fetchall()))
            there = Counter(frozen_row(row) for row in spark.sql(sql).collect())
            if here != there:
                problems.append(f"{label}: DuckDB finds {here - there}, Spark {there - here}")
        return problems
    finally:
        for name in names:
            spark.catalog.dropTempView(name)
        rounds.close()
        del sys.modules[module.__name__]
        job.close()


#: The forms of a table that rules read.
FORMS = ("before", "after", "delta", "absent_before", "absent_after", "absent_delta", "dead", "groups")


def queries_of(module: Any) -> Iterator[tuple[str, tuple[str, str]]]:
    """The queries that maintain a script's rules, for DuckDB and for Spark."""
    for rule in (rule for stage in module.PROGRAM.stages for stratum in stage.strata for rule in stratum.rules):
        made = [rule.full, *(delta.sql for delta in (*rule.deltas, *rule.rounds)), rule.returns]
        for place, query in enumerate(filter(None, made)):
            yield f"{rule.label}, {place}", (query, query) if isinstance(query, str) else (query.duckdb, query.spark)


def strategy_for(scenario: Scenario) -> str:
    """How to maintain the relations of a scenario: each way in turn."""
    return ("incremental", "auto", "recompute")[len(scenario.text) % 3]


def seems_even(scenario: Scenario) -> bool:
    """True of about half of all scenarios."""
    return len(scenario.text) % 2 == 0


def checked_batches(
    scenario: Scenario, compilation: Compilation, job: LocalJob | MemoryJob, where: str, heard: Counter[str]
) -> list[str]:
    """What is wrong at the first batch where something is; closes the job."""
    try:
        checked = Checked(job, scenario.text, compilation)
        rng = random.Random(scenario.text)
        for number, batch in enumerate([insertions(scenario.inputs), *scenario.batches]):
            # Batches in one task, and such as take several, follow each other.
            job.module.FEW_ROWS = rng.choice((300_000, 10, 0, 0))  # type: ignore[attr-defined]
            # The oracle counts supports after every batch; the job itself in the beginning and in the end.
            problems = checked.apply(batch, recount=number in (0, len(scenario.batches)))
            heard[checked.refused.split(":")[0][:24] or "applied"] += 1
            heard.update(f"from scratch: {re.sub('[0-9.%]+', 'n', reason)[:34]}" for reason in job.scratch)
            if problems:
                return [f"batch {number}, {where}: {problem}" for problem in problems]
    finally:
        job.close()
    return []


def made_daring(scenario: Scenario, rng: random.Random) -> Scenario:
    """The scenario with reasons to refuse a batch: guards are dropped, numbers are large, derived relations get keys,
    and batches insert several rows of one key, or delete what they insert."""
    text, batches = scenario.text, scenario.batches
    if rng.random() < 0.6:
        text = re.sub(r", (\w+ (!=|>) 0|f_size\(\w+\) > 0|\w+ != \[\])(?=[,)]|\.(?!\d))", "", text)
    if rng.random() < 0.3:
        text = re.sub(r"(?<=[A-Za-z_] [*]) [2-4]\b", " 4611686018427387904", text)
    if rng.random() < 0.3:
        text = re.sub(
            r"^(output relation [\w.]+\((\w+): \w+, [^)]*\))$", r"\1 primary key (\2)", text, flags=re.MULTILINE
        )
    if rng.random() < 0.5:
        batches = [with_conflict(text, batch, rng) for batch in batches]
    return replace(scenario, text=text, batches=batches)


def with_conflict(text: str, batch: Batch, rng: random.Random) -> Batch:
    """The batch, and now and then another row of a key that it inserts, or the other change of a row."""
    made = {name: list(changes) for name, changes in batch.items()}
    for relation in parse(text).inputs:
        inserted = [row for op, row in made.get(relation.name, ()) if op == "+"]
        if relation.key and inserted and rng.random() < 0.4:
            row = rng.choice(inserted)
            assert relation.columns is not None
            other = tuple(
                value if c in relation.key else next(v for v in values_of(relation.columns[c].type) if v != value)
                for c, value in enumerate(row)
            )
            assert key_of(relation, other) == key_of(relation, row)
            made[relation.name].append(("+", other))
        if relation.is_multiset and rng.random() < 0.2:
            changes = made.get(relation.name, [])
            made[relation.name] = [*changes, *(("-", row) for _, row in changes)]
        elif made.get(relation.name) and rng.random() < 0.15:
            op, row = rng.choice(made[relation.name])
            made[relation.name].insert(0, ("-" if op == "+" else "+", row))
    return made


def scenario_of(seed: int, nasty: bool = False, **wanted: bool) -> Scenario:
    """The scenario of a seed; every fifth is a daring one, every third puts relations at locations, every second has
    aggregates over distinct values, witnesses, and recursion with ``min``, every fourth has facts in a row, and every
    seventh, or each if ``nasty``, has names that mean something to somebody. Further features are ``wanted`` by their
    names, such as ``nulls=True``."""
    features = FEATURES | {"lists", "functions"} | {name for name, asked in wanted.items() if asked}
    features = features | {"many facts"} if seed % 4 == 1 else features
    features = features | {"nasty names"} if nasty or seed % 7 == 3 else features
    features = features | {"locations"} if seed % 3 == 2 else features
    features = features | {"distinct", "witnesses", "extremes"} if seed % 2 else features
    scenario = random_scenario(seed, features)
    return made_daring(scenario, random.Random(seed)) if seed % 5 == 4 else scenario


#: What makes Spark quick with many small queries: to compile one takes longer than to run it.
FOR_SMALL_QUERIES = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@contextlib.contextmanager
def small_queries(spark: SparkSession) -> Iterator[None]:
    """Let a session run many small queries, with its settings as before in the end."""
    before = {name: spark.conf.get(name, None) for name in FOR_SMALL_QUERIES}
    for name, value in FOR_SMALL_QUERIES.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            spark.conf.unset(name) if kept is None else spark.conf.set(name, kept)


def quick_session() -> SparkSession:
    """A Spark session for many small queries: one core, one partition, and nothing that pays for large ones only."""
    import logging

    from pyspark.sql import SparkSession

    # Each statement that fails would be logged, also those of programs that refuse a batch.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.default.parallelism": "1",
        "spark.sql.adaptive.enabled": "false",
        **FOR_SMALL_QUERIES,
        "spark.sql.session.timeZone": "America/New_York",
    }
    builder = SparkSession.builder.master("local[1]").appName("random search")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def main() -> int:
    """Search, and print what is found."""
    parser = argparse.ArgumentParser(description="look for differences between jobs and the oracle")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--buckets", type=int, default=0, help="1 to 3 by turns unless given")
    parser.add_argument("--memory", action="store_true", help="in one database, without files")
    parser.add_argument("--queries", action="store_true", help="compare what each query of the rules finds in Spark")
    parser.add_argument("--nasty", action="store_true", help="with nasty names in every program")
    parser.add_argument("--nulls", action="store_true", help="with columns that may be null")
    parser.add_argument("--multisets", action="store_true", help="with inputs whose copies count")
    parser.add_argument("--timestamps", action="store_true", help="with columns of timestamps")
    parser.add_argument("--firsts", action="store_true", help="with the first few of an order")
    parser.add_argument("--types", action="store_true", help="with columns of every type, and hostile values")
    parser.add_argument(
        "--engine", choices=("duckdb", "matrices", "spark"), default="duckdb", help="which runs the rounds in files"
    )
    arguments = parser.parse_args()
    make_job: Callable[[str, Path, int], LocalJob] = LocalJob
    spark = quick_session() if arguments.queries or arguments.engine == "spark" else None
    if arguments.engine == "spark":
        make_job = lambda script, folder, buckets: RoundsJob(script, folder, spark, buckets)  # noqa: E731
    if arguments.engine == "matrices":
        make_job = MatricesJob
    heard: Counter[str] = Counter()
    failed, started = [], time.monotonic()
    for seed in range(arguments.first, arguments.last):
        more = {name: getattr(arguments, name) for name in ("nulls", "multisets", "timestamps", "firsts", "types")}
        scenario = scenario_of(seed, arguments.nasty, **more)
        try:
            if arguments.queries:
                assert spark is not None
                problems = check_queries(scenario, spark)
            elif arguments.memory:
                problems = check_in_memory(scenario, heard)
            else:
                problems = check(scenario, arguments.buckets or 1 + seed % 3, heard, make_job)
        except Exception:
            problems = [traceback.format_exc(limit=-8)]
        if problems:
            failed.append(seed)
            print(f"==== seed {seed}\n{scenario}\n---- " + "\n---- ".join(problems), flush=True)
        if seed % (5 if arguments.engine == "spark" else 50) == 0:
            print(f"up to {seed}: {time.monotonic() - started:.0f} s, {dict(heard)}, failed: {failed}", flush=True)
    print(f"failed: {failed or 'none'}; {dict(heard)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
