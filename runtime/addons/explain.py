"""The part ``explain``: prove a tuple of the state, or say why it is absent; and what a recursion was doing that was
stopped by a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..engines.options import ENGINES, Options
from ..explain.limits import tell_culprit
from ..explain.proofs import MOST_PROOF_TUPLES, Explainer, report_explanation
from ..inputs.tuples import parse_tuple
from ..job.command_line import COMMANDS, Command, on_executor
from ..job.shared_options import add_asked, add_functions, add_place, add_state, is_explained, option
from ..kernel.engine import Engine
from ..kernel.model import FunctionSource, Program, Relation
from ..kernel.recursion import CULPRITS
from ..spark.engine import SparkEngine
from ..spark.executor import executor_of
from ..store.commits import from_last_commit
from ..store.executors import Executor
from ..store.extensions import FURTHER, supply
from ..store.manifest import Manifest
from ..store.reading import bucket_files, stored_rows
from ..store.run_tasks import choose_engine, duck_engine
from ..store.task_records import Task
from ..store.versions import check_program
from ..system.log import Log
from ..system.machine import available_cores
from ..system.places import given_place

if TYPE_CHECKING:
    from ..spark.types import SparkSession


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
            with duck_engine(task, available_cores()) as duck:
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


COMMANDS["explain"] = Command(
    "explain",
    "explain why a tuple is there, or why not",
    "Print a proof of a tuple from input rows. For a tuple that is not there, print how far each rule gets.",
    (
        add_state,
        add_place,
        add_functions,
        add_asked,
        option(
            "--engine",
            choices=ENGINES,
            default="auto",
            help="the engine that evaluates queries (default: auto, which prefers DuckDB)",
        ),
    ),
    on_executor(explain_tuple),
    report_explanation,
    is_explained,
)
FURTHER["explain"] = explain_tuple
CULPRITS["told"] = tell_culprit
