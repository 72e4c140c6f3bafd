"""Rows and checksum of a relation as a generated job reads it from its state, by the job's own function ``relation``.

Usage: ``spark-submit stored_closure.py SCRIPT STATE RELATION``; prints a JSON object as the last line.
"""

from __future__ import annotations

import json
import sys

from duckdb_cte import CHECKSUM
from in_session import load_job
from pyspark.sql import SparkSession


def main() -> None:
    """Import the job, read the relation and report."""
    script, state, name = sys.argv[1:]
    job = load_job(script)
    spark = SparkSession.builder.appName("stored closure").getOrCreate()
    job.relation(spark, state, name).createOrReplaceTempView("stored")
    rows, checksum = spark.sql(CHECKSUM.format(relation="stored")).collect()[0]
    print(json.dumps({"rows": rows, "checksum": checksum}))
    spark.stop()


if __name__ == "__main__":
    main()
