"""The command ``explain``: prove a tuple of the state, or say why it is absent."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..commits import from_last_commit
from ..engines.engine import Engine
from ..engines.spark import SparkEngine
from ..executors import Executor, executor_of
from ..explain import MOST_PROOF_TUPLES, Explainer
from ..functions import supply
from ..log import Log
from ..manifest import Manifest
from ..model import FunctionSource, Program, Relation
from ..options import Options
from ..places import given_place
from ..reading import bucket_files, stored_rows
from ..task import Task
from ..tasks import choose_engine, duck_engine
from ..tuples import parse_tuple
from ..versions import check_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def explain_tuple(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    asked: str,
    engine: str = "auto",
    functions: FunctionSource = None,
    limit: int = MOST_PROOF_TUPLES,
    log: Log | None = None,
) -> dict[str, Any]:
    """Explain why a tuple is in the state, or why not. ``asked`` is in program syntax: ``reachable(1, "x")``.

    If the tuple is present, ``tuples`` of the result is a proof of at most ``limit`` tuples, starting with that tuple;
    each has the rule and the tuples that it is derived from, or is given. If it is absent, ``rules`` says for each rule
    how far it gets. Spark is not needed if DuckDB can open the state.
    """
    supplied = supply(program, functions)
    root, executor = given_place(state), executor_of(spark)

    def explained(manifest: Manifest) -> dict[str, Any]:
        check_program(program, manifest)
        options = Options(manifest.buckets, engine, functions=supplied)
        task = Task(options, str(root), manifest.relations)
        relation, values = parse_tuple(program, asked, open=True)
        if choose_engine(executor, task, engine)[0] == "duckdb":
            with duck_engine(task, os.cpu_count() or 1) as duck:
                return Explainer(program, duck, stored_in(duck, task)).explain(relation, values, limit)
        rounds = SparkEngine(executor.session("the engine spark"), options.buckets)
        try:
            if supplied:
                supplied.define(rounds)
            return Explainer(program, rounds, stored_in(rounds, task)).explain(relation, values, limit)
        finally:
            rounds.close()

    result: dict[str, Any] = from_last_commit(root, explained)
    return result


def stored_in(engine: Engine, task: Task) -> Callable[[Relation], str]:
    """Return a function from a relation to the query for its rows in the files of a state."""

    def stored(relation: Relation) -> str:
        entries = bucket_files(task.relations, relation, None)
        return stored_rows(engine, task.state, relation, entries)

    return stored
