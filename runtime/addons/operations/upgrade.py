"""The command ``upgrade``: recompute what a change of the program changes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...engines.options import Options
from ...inputs.files import Reading, Source, relation_sources
from ...inputs.sequences import kept_sequences
from ...inputs.staging import stage_inputs
from ...inputs.values import left_out_counts
from ...job.command_line import COMMANDS, Command, on_executor, request_of
from ...job.report import report_commit, summary
from ...job.shared_options import add_cut, add_rows, add_running, add_state, add_watching
from ...kernel.model import MOST_ENTRIES, MOST_ROUNDS, FunctionSource, Program
from ...store.batches import new_batch_id
from ...store.commits import known_feeds, run_and_commit
from ...store.data_files import check_stored, stored_files
from ...store.executors import Executor
from ...store.extensions import FURTHER, supply
from ...store.manifest import Manifest, StoredRelation, read_state
from ...store.publish import finish_publication
from ...store.reading import new_bucket
from ...store.request import Batch
from ...store.set_aside import quarantine_at
from ...store.stages import run_stages
from ...store.task_records import Outcome
from ...store.versions import UpgradePlan, has_columns_of, under_own_tables, upgrade_plan
from ...system.log import Log
from ...system.transient_errors import obstacles_pass
from .differences import differences, kept_inputs, stage_stored, under_own_columns

if TYPE_CHECKING:
    from ...spark.types import SparkSession


@obstacles_pass()
def upgrade_state(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    inputs: str | Sequence[str] | Mapping[str, Source | Sequence[Source]] = (),
    engine: str = "auto",
    max_rounds: int = MOST_ROUNDS,
    max_entries: int = MOST_ENTRIES,
    memory_limit: str = "",
    functions: FunctionSource = None,
    all_inserts: bool = False,
    publish_by: str | None = None,
    log: Log | None = None,
    nulls: str = "refuse",
    quarantine: str | None = None,
) -> dict[str, Any]:
    """Convert the state of another version of the program to this one: relations whose definition changed are
    recomputed, and those that depend on them are maintained. The result names the relations that were ``recomputed``,
    ``kept`` and ``dropped``.

    ``inputs`` replaces stored inputs, in the forms that :func:`init_state` takes, and its ``nulls`` and
    ``quarantine``. Changes to output relations are published as a batch, cut by ``publish_by`` as in
    :func:`apply_batch`.
    """
    started = time.monotonic()
    left_out, aside = left_out_counts(nulls), quarantine_at(quarantine)
    options = Options(1, engine, max_rounds, max_entries, memory_limit, supply(program, functions))
    request = request_of(program, spark, state, log, options, None, publish_by)
    executor, root, log = request.executor, request.root, request.log
    before = read_state(root)
    request, supplied = request.in_buckets(before.buckets), request.options.functions
    sources = relation_sources(program, inputs)
    planned = upgrade_plan(program, before.program, before.clocks, before.functions, sources, supplied)
    before = under_own_tables(program, before)
    named = {
        "recomputed": visible_names(program, planned.recomputed),
        "kept": visible_names(program, planned.kept),
        "dropped": list(planned.dropped),
    }
    finish_publication(program, executor, root, before)
    if not planned.recomputed and not planned.dropped:
        return {
            "program": program.name,
            "batch": before.batch,
            "commit": before.commit,
            "applied": False,
            **named,
        }
    stored = kept_inputs(program, root, before, set(sources), log)
    ordered_keys = kept_sequences(program, before, sources, log)
    check_stored(root, before, stored_files(before, planned.kept))
    batch = new_batch_id(root, before, "upgrade")

    def work(attempt: str) -> Outcome:
        folder = root / "data" / attempt
        reading = Reading(initial=True, all_inserts=all_inserts, left_out=left_out, aside=aside)
        staged = stage_inputs(executor, program, sources, folder / "input", reading, log)
        same_names = under_own_columns(program, root, before, folder / "former", attempt)
        for item in stored:
            if item.table in planned.recomputed:
                staged[item.table] = stage_stored(executor, root, same_names, item, folder / "input" / item.table)
        former = without_recomputed(program, planned, same_names)
        outcome = run_stages(request, former, staged, attempt, rebuilt=planned.rebuilt)
        outcome.relations |= {kept.table: before.relations[kept.table] for kept in ordered_keys.values()}
        # Relations that are new or have other columns have no net changes.
        comparable = [item for item in program.relations if has_columns_of(item, before.program)]
        changes = {item.table: outcome.changes.get(item.table, ()) for item in comparable}
        counts = {item.table: outcome.counts.get(item.table, (0, 0)) for item in comparable}
        after = replace(same_names, relations=outcome.relations)
        for item in comparable:
            if item.kind == "input" and item.table in planned.recomputed:
                found = differences(executor, root, same_names, after, item, folder)
                changes[item.table], counts[item.table] = found
        return replace(outcome, changes=changes, counts=counts)

    feeds = known_feeds(program, before, sources)
    recorded = Batch(batch, "upgrade", True, sources, left_out, aside, feeds=feeds)
    manifest = run_and_commit(request, before, recorded, work)
    return {**summary(program, root, manifest, started), **named}


def without_recomputed(program: Program, planned: UpgradePlan, before: Manifest) -> Manifest:
    """Return a commit as this program sees it, without what is dropped or filled again."""
    empty = StoredRelation(0, {number: new_bucket([], 0) for number in range(before.buckets)})
    relations = {}
    for relation in program.relations:
        again = relation.kind == "input" and relation.table in planned.recomputed
        comparable = has_columns_of(relation, before.program) and not again
        relations[relation.table] = before.relations.get(relation.table, empty) if comparable else empty
    names = {stratum.name for stage in program.stages for stratum in stage.strata}
    names -= planned.rebuilt
    clocks = {name: found for name, found in before.clocks.items() if name in names}
    effects = {name: found for name, found in before.effects.items() if name in names}
    return replace(before, relations=relations, clocks=clocks, effects=effects)


def visible_names(program: Program, tables: Iterable[str]) -> list[str]:
    """Return the names of those of the given tables that are visible to users."""
    listed = set(tables)
    return [r.name for r in program.relations if r.table in listed and not r.hidden]


def report_upgrade(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that report an upgrade: its commit, and what was recomputed, kept and dropped."""
    if not result["applied"]:
        yield "nothing to do: no definition has changed"
        return
    yield from report_commit(result)
    for name in ("recomputed", "kept", "dropped"):
        if result[name]:
            yield f"{name}: {', '.join(result[name])}"


COMMANDS["upgrade"] = Command(
    "upgrade",
    "recompute the relations affected by a change of the program",
    "Convert the state of another version of the program, and recompute only the relations that the change "
    "affects. Rows that are given replace stored ones.",
    (add_state, add_rows, add_running, add_cut, add_watching),
    on_executor(upgrade_state),
    report_upgrade,
)
FURTHER["upgrade"] = upgrade_state
