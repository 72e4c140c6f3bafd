"""Contender: the semi-naive loops that an engineer writes by hand with PySpark DataFrames.

Written with the care that the jobs deserve: few shuffle partitions, no adaptive planning, the inputs cached, the
lineage cut in every round, only the last round's new tuples joined again, and one action a round where one will do.

Usage: ``spark-submit hand_loops.py PROGRAM FOLDER OUT``, the folder holding a Parquet file per input relation; a folder
per answer is written below OUT. Prints a JSON object as the last line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, col, count
from pyspark.sql.functions import min as least
from pyspark.sql.functions import sum as total

Tables = Mapping[str, DataFrame]


def closure(inputs: Tables, partitions: int) -> Tables:
    """All ``(src, dst)`` joined by a path of ``link``."""
    link = inputs["link"]
    step = link.select(col("src").alias("middle"), col("dst").alias("end")).persist()
    reachable = link.select("src", "dst").distinct().localCheckpoint()
    delta = reachable
    while True:
        derived = delta.join(step, delta["dst"] == step["middle"]).select("src", col("end").alias("dst"))
        delta = derived.distinct().subtract(reachable).localCheckpoint()
        if delta.isEmpty():
            return {"reachable": reachable}
        reachable = reachable.union(delta).coalesce(partitions).localCheckpoint()


def same_generation(inputs: Tables, partitions: int) -> Tables:
    """The children of one parent, then the children of those pairs, and so on."""
    parent = inputs["parent"]
    left = parent.select(col("parent").alias("a"), col("child").alias("x")).persist()
    right = parent.select(col("parent").alias("b"), col("child").alias("y")).persist()
    siblings = left.join(right, col("a") == col("b")).select(col("x").alias("a"), col("y").alias("b"))
    same = siblings.distinct().localCheckpoint()
    delta = same
    while True:
        derived = delta.join(left, "a").join(right, "b").select(col("x").alias("a"), col("y").alias("b"))
        delta = derived.distinct().subtract(same).localCheckpoint()
        if delta.isEmpty():
            return {"same": same}
        same = same.union(delta).coalesce(partitions).localCheckpoint()


def points_to(inputs: Tables, partitions: int) -> Tables:
    """Both relations grow in the same rounds; what is joined is what the last round added to either."""
    assign = inputs["assign"].select("target", col("source").alias("var")).persist()
    load = inputs["load"].select("target", col("base").alias("var"), "field").persist()
    put_in = inputs["store"].select(col("base").alias("var"), "field", "source").persist()
    put_from = inputs["store"].select(col("source").alias("var"), "field", col("base").alias("holder")).persist()
    points = inputs["alloc"].select("var", "object").distinct().localCheckpoint()
    spark = points.sparkSession
    holds = spark.createDataFrame([], "base long, field long, object long").coalesce(1).localCheckpoint()
    new_points, new_holds = points, holds
    while True:
        based = points.select("var", col("object").alias("base"))
        new_based = new_points.select("var", col("object").alias("base"))
        moved = new_points.join(assign, "var").select(col("target").alias("var"), "object")
        read = new_based.join(load, "var").join(holds, ["base", "field"])
        read_new = based.join(load, "var").join(new_holds, ["base", "field"])
        found = moved.union(read.union(read_new).select(col("target").alias("var"), "object"))
        held = points.select(col("var").alias("source"), "object")
        new_held = new_points.select(col("var").alias("source"), "object")
        into = new_based.join(put_in, "var").join(held, "source").select("base", "field", "object")
        holders = based.select(col("var").alias("holder"), "base")
        stored = new_held.withColumnRenamed("source", "var").join(put_from, "var").join(holders, "holder")
        found_held = into.union(stored.select("base", "field", "object"))
        new_points = found.distinct().subtract(points).localCheckpoint()
        new_holds = found_held.distinct().subtract(holds).localCheckpoint()
        if new_points.isEmpty() and new_holds.isEmpty():
            return {"points": points, "holds": holds}
        points = points.union(new_points).coalesce(partitions).localCheckpoint()
        holds = holds.union(new_holds).coalesce(partitions).localCheckpoint()


def orders(inputs: Tables, partitions: int) -> Tables:
    """One query; there is no recursion."""
    customer = inputs["customer"].join(inputs["blocked"], col("id") == inputs["blocked"]["customer"], "left_anti")
    purchase = inputs["purchase"].select(col("customer").alias("buyer"), "product")
    product = inputs["product"].withColumnRenamed("id", "good")
    joined = purchase.join(customer, col("buyer") == col("id")).join(broadcast(product), col("product") == col("good"))
    return {"sold": joined.groupBy("region", "category").agg(count("*").alias("orders"))}


def shortest_paths(inputs: Tables, partitions: int) -> Tables:
    """A round extends the paths that were the best so far in the last one."""
    road = inputs["road"].select(col("src").alias("node"), "dst", col("length").alias("step")).persist()
    first = inputs["source"].withColumn("source", col("node")).join(road, "node")
    first = first.groupBy("source", col("dst").alias("node")).agg(least("step").alias("length"))
    distance = first.localCheckpoint()
    delta = distance
    while True:
        longer = delta.join(road, "node").select(
            "source", col("dst").alias("node"), (col("length") + col("step")).alias("n")
        )
        best = longer.groupBy("source", "node").agg(least("n").alias("n"))
        known = distance.select("source", "node", "length")
        better = best.join(known, ["source", "node"], "left").where("length IS NULL OR n < length")
        delta = better.select("source", "node", col("n").alias("length")).localCheckpoint()
        if delta.isEmpty():
            return {"distance": distance}
        kept = distance.join(delta.select("source", "node"), ["source", "node"], "left_anti")
        distance = kept.union(delta).coalesce(partitions).localCheckpoint()


def bill_of_materials(inputs: Tables, partitions: int) -> Tables:
    """A round adds up what the last one contributes to the parts one link above."""
    contains = inputs["contains"].persist()
    level = inputs["price"].localCheckpoint()
    added = level
    while True:
        above = level.join(contains, "part").groupBy("whole").agg(total(col("quantity") * col("cents")).alias("cents"))
        level = above.select(col("whole").alias("part"), "cents").localCheckpoint()
        if level.isEmpty():
            return {"cost": added.groupBy("part").agg(total("cents").alias("cents"))}
        added = added.union(level).coalesce(partitions).localCheckpoint()


LOOPS = {
    "closure": closure,
    "same_generation": same_generation,
    "points_to": points_to,
    "orders": orders,
    "shortest_paths": shortest_paths,
    "bill_of_materials": bill_of_materials,
}


def main() -> None:
    """Compute the answers, write them and report."""
    program, folder, out = sys.argv[1:]
    spark = SparkSession.builder.appName(f"{program} by hand").getOrCreate()
    partitions = 2 * spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    start = time.perf_counter()
    inputs = {path.stem: spark.read.parquet(str(path)) for path in sorted(Path(folder).glob("*.parquet"))}
    for name, rows in LOOPS[program](inputs, partitions).items():
        rows.write.mode("overwrite").parquet(f"{out}/{name}")
    print(json.dumps({"seconds": time.perf_counter() - start}))
    spark.stop()


if __name__ == "__main__":
    main()
