"""Run the rounds of a task as Spark jobs on the whole state."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from ..kernel.method_interface import Bucket
from ..store.executors import as_json
from ..store.run_tasks import choice_for, compute
from ..store.task_records import Task
from ..store.writing import write_computed
from ..system.log import Log, describe
from ..system.places import place_of
from .engine import SparkEngine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOST_ROWS = ("CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", "BlockFetchException")
"""The texts by which Spark reports that rows on the disk of a lost executor are gone."""

MOST_STARTS = 5
"""A stage is started at most this many times if executors are lost again and again."""


def run_rounds(spark: SparkSession, task: Task, log: Log) -> dict[str, Any]:
    """Run a task's strata on the whole state in Spark; return a report like that of a DuckDB task. Start again from the
    beginning if an executor was lost with rows that it kept."""
    start = 1
    while True:
        try:
            return rounds_once(spark, task, log)
        except Exception as error:
            if start == MOST_STARTS or not any(words in str(error) for words in LOST_ROWS):
                raise
            start += 1
            log.event("again", start=start, reason="an executor was lost, and rows that it kept")


def rounds_once(spark: SparkSession, task: Task, log: Log) -> dict[str, Any]:
    """Run a task's strata once on the whole state in Spark; return a report like that of a DuckDB task."""
    started = time.monotonic()
    rounds: list[tuple[str, str, int, int, float]] = []
    folder = place_of(task.state) / "data" / task.attempt / "rounds"
    engine = SparkEngine(spark, task.buckets, folder)

    def note(stratum: str, phase: str, done: int, tuples: int) -> None:
        rounds.append((stratum, phase, done, tuples, round(time.monotonic() - started, 3)))
        describe(spark, f"stratum {stratum}: {phase}, round {done + 1}")
        log.event("round", stratum=stratum, phase=phase, round=done, tuples=tuples)

    try:
        if task.options.functions:
            notes = place_of(task.state) / "data" / task.attempt / "failed_calls"
            task.options.functions.define(engine, notes)
        choice = choice_for(task, None)
        run = task.run(engine, Bucket(), note, choice)
        clocks = compute(run, task, None)
        written = write_computed(run, task, None)
    finally:
        engine.close()
    return {
        "bucket": 0,
        "whole": True,
        "clocks": clocks,
        "effects": choice.effects,
        "scratch": choice.scratch,
        "algebra": choice.algebra,
        "written": json.loads(json.dumps(written, default=as_json)),
        "rounds": rounds,
        "seconds": round(time.monotonic() - started, 3),
    }
