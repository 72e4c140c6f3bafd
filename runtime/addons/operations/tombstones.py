"""Remove sequences that a state keeps for the keys of relations: those of dead keys, or all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...inputs.sequences import sequence_relations
from ...kernel.errors import JobError
from ...kernel.model import Program
from ...kernel.sql import names
from ...kernel.values import shown
from ...store.data_files import check_stored, stored_engine, stored_files
from ...store.manifest import Manifest, SequenceRecord
from ...store.request import Request
from ...store.stages import run_stages
from ...store.task_records import Outcome
from ...store.writing import write_staged

SEQUENCE_UNITS = {"": 1, "d": 86_400_000_000, "h": 3_600_000_000, "m": 60_000_000}
"""The lengths of units of time in sequences, which are microseconds if the order column holds points in time."""


def given_distances(before: Manifest, given: Iterable[str] | Mapping[str, Any]) -> dict[str, int]:
    """Return how far behind the newest sequence of a relation those of dead keys are kept, given as REL=DISTANCE or as
    a mapping. Raise JobError for a relation that keeps none, or another distance."""
    items = given.items() if isinstance(given, Mapping) else (item.rpartition("=")[::2] for item in given)
    distances = {}
    for name, distance in items:
        check_kept(before, [name])
        match = re.fullmatch(r"([0-9]{1,30})([dhm]?)", str(distance))
        if not match:
            raise JobError(f"{shown(distance)} is no distance: give a whole number, or a time such as 7d, 12h or 90m")
        distances[name] = int(match[1]) * SEQUENCE_UNITS[match[2]]
    return distances


def check_kept(before: Manifest, given: Iterable[str]) -> None:
    """Raise JobError if one of these relations keeps no sequences."""
    for name in given:
        if name not in before.sequences:
            keeping = ", ".join(sorted(before.sequences)) or "none"
            raise JobError(f"{name} keeps no sequences; these relations do: {keeping}")


def without_sequences(
    request: Request,
    before: Manifest,
    distances: Mapping[str, int],
    forgotten: Iterable[str],
    records: dict[str, SequenceRecord],
    removed: dict[str, int],
) -> Callable[[str], Any]:
    """Return what computes a commit without the sequences of dead keys that are further than these ``distances`` behind
    the newest one of their relation, and without all those of ``forgotten`` relations. It changes ``records``, and
    enters in ``removed`` how many sequences are removed."""
    kept, root = sequence_relations(before), request.root
    check_stored(root, before, stored_files(before, [before.sequences[name].table for name in distances]))

    def work(attempt: str) -> Outcome:
        staged: dict[str, list[str]] = {}
        for name, distance in distances.items():
            relation, folder = kept[name], root / "data" / attempt / "input" / kept[name].table
            with stored_engine(root, [before], relation) as (engine, (rows,)):
                old = f"_last <> '+' AND _order < (SELECT MAX(_order) FROM ({rows}) AS n) - {distance}"
                count = engine.table("dead", f"SELECT * FROM ({rows}) AS q WHERE {old}")
                removed[name] = count
                if count:
                    newest = int(engine.first("SELECT MAX(_order) AS newest FROM dead", 1)[0]["newest"])
                    since = max(newest + 1, int(records[name].pruned or newest + 1))
                    records[name] = replace(records[name], pruned=str(since))
                    sql = f"SELECT {names(relation.columns)}, '-' AS _op FROM dead"
                    staged[relation.table] = write_staged(engine, sql, folder)
        also = tuple(relation for relation in kept.values() if relation.table in staged)
        outcome = Outcome.of(before, before.buckets)
        if also:
            nothing = Program(before.program.name, "", "", (), ())
            alone = replace(request, program=nothing).in_buckets(before.buckets)
            outcome = run_stages(alone, before, staged, attempt, also=also)
        for name in forgotten:
            removed[name] = outcome.relations.pop(records.pop(name).table).rows
        return replace(outcome, changes={}, counts={})

    return work
