"""Rows and checksum of a relation as a generated job reads it from its state, by the job's own function ``relation``.

Usage: ``spark-submit stored_closure.py SCRIPT STATE RELATION``; prints a JSON object as the last line.
"""

from __future__ import annotations

import importlib.util
import json
import sys

from duckdb_cte import CHECKSUM
from pyspark.sql import SparkSession


def main() -> None:
    """Import the job, read the relation and report."""
    script, state, name = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("job", script)
    assert spec is not None
    assert spec.loader is not None
    job = importlib.util.module_from_spec(spec)
    sys.modules["job"] = job
    spec.loader.exec_module(job)
    spark = SparkSession.builder.appName("stored closure").getOrCreate()
    job.relation(spark, state, name).createOrReplaceTempView("stored")
    rows, checksum = spark.sql(CHECKSUM.format(relation="stored")).collect()[0]
    print(json.dumps({"rows": rows, "checksum": checksum}))
    spark.stop()


if __name__ == "__main__":
    main()
