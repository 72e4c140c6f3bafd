"""Choose where a command runs its tasks, and open its Spark session."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from ..kernel.errors import JobError
from ..spark.executor import SparkExecutor
from ..store.executors import Executor, LocalExecutor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUIET_SETTINGS = {"spark.log.level": "WARN", "spark.ui.showConsoleProgress": "false"}
"""Settings that leave Spark's own output to warnings."""


def choose_executor(name: str, on: str, engine: str = "auto", keep: bool = False) -> Executor:
    """Return the executor of a command of the program ``name``. ``on`` is ``here`` for this process, ``spark``, or
    ``auto``: Spark if spark-submit has started this process, if a session is active, or if the engine is Spark's. With
    ``keep``, this process keeps the tables that it reads. Raise JobError if the engine cannot be used there."""
    if on == "auto":
        on, why = where_to_run(engine)
    else:
        why = f"--on {on}"
    if on == "spark":
        return SparkExecutor(lambda: open_session(name), why)
    if engine == "spark":
        raise JobError("--engine spark needs Spark, and --on here runs without it: leave out one of them")
    return LocalExecutor(why=why, keep=keep)


def where_to_run(engine: str) -> tuple[str, str]:
    """Return where a command runs unless it was told, and why."""
    if engine == "spark":
        return "spark", "--engine spark"
    if submitted():
        return "spark", "started by spark-submit"
    if os.environ.get("SPARK_REMOTE"):
        return "spark", "SPARK_REMOTE is set"
    if active_session() is not None:
        return "spark", "a Spark session is active"
    return "here", "started by python"


def submitted() -> bool:
    """Return whether spark-submit has started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def active_session() -> Any:
    """Return the Spark session of this process, as in a notebook; None if there is none."""
    # A process with a session has imported PySpark.
    sql = sys.modules.get("pyspark.sql")
    return sql.SparkSession.getActiveSession() if sql else None


def open_session(name: str) -> SparkSession:
    """Return the Spark session; in local mode with settings that suit small steps, unless they were configured. Raise
    JobError if PySpark is not installed."""
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise JobError(
            f"PySpark is not installed for {sys.executable}: install it, or run on this machine without --on spark and "
            "--engine spark"
        ) from error
    builder = SparkSession.builder.appName(name)
    if active_session() is None and not os.environ.get("SPARK_REMOTE"):
        if submitted():
            # Only the JVM that spark-submit started knows the settings that it was given.
            SparkContext._ensure_initialized()
        submitted_with = SparkConf()
        if str(submitted_with.get("spark.master", "local")).startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        for setting, value in QUIET_SETTINGS.items():
            if not submitted_with.contains(setting):
                builder = builder.config(setting, value)
    spark = builder.getOrCreate()
    if hasattr(spark, "sparkContext"):
        context = spark.sparkContext
        context.setLogLevel("ERROR")
        slots = str(context.defaultParallelism)
        settings = {"spark.sql.shuffle.partitions": slots, "spark.sql.adaptive.enabled": "false"}
        for setting, value in settings.items() if str(context.master).startswith("local") else ():
            if not context.getConf().contains(setting):
                spark.conf.set(setting, value)
    return spark
