"""Contender: the semi-naive loop that an engineer writes by hand with PySpark DataFrames.

Written with the care that the job deserves: few shuffle partitions, no adaptive planning, the links cached, the lineage
cut in every round, only the last round's new pairs joined again, and one action a round where one will do.

Usage: ``spark-submit hand_loop.py LINKS.parquet OUT``; prints a JSON object as the last line.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col


def closure(link: DataFrame, partitions: int) -> DataFrame:
    """All ``(src, dst)`` joined by a path of ``link``."""
    step = link.select(col("src").alias("middle"), col("dst").alias("end")).persist()
    reachable = link.select("src", "dst").distinct().localCheckpoint()
    delta = reachable
    while True:
        derived = delta.join(step, delta["dst"] == step["middle"]).select("src", col("end").alias("dst"))
        delta = derived.distinct().subtract(reachable).localCheckpoint()
        if delta.isEmpty():
            return reachable
        reachable = reachable.union(delta).coalesce(partitions).localCheckpoint()


def main() -> None:
    """Compute the closure, write it and report."""
    links, out = sys.argv[1:]
    spark = SparkSession.builder.appName("closure by hand").getOrCreate()
    partitions = 2 * spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    start = time.perf_counter()
    reachable = closure(spark.read.parquet(links), partitions)
    reachable.write.mode("overwrite").parquet(out)
    seconds = time.perf_counter() - start
    print(json.dumps({"rows": spark.read.parquet(out).count(), "seconds": seconds}))
    spark.stop()


if __name__ == "__main__":
    main()
