"""Open the Spark session of a job."""

from __future__ import annotations

from pyspark.sql import SparkSession


def open_session(name: str) -> SparkSession:
    """Return the Spark session; in local mode with settings that suit small steps, unless they were configured."""
    spark = SparkSession.builder.appName(name).getOrCreate()
    if hasattr(spark, "sparkContext"):
        context = spark.sparkContext
        context.setLogLevel("ERROR")
        slots = str(context.defaultParallelism)
        settings = {"spark.sql.shuffle.partitions": slots, "spark.sql.adaptive.enabled": "false"}
        for name, value in settings.items() if str(context.master).startswith("local") else ():
            if not context.getConf().contains(name):
                spark.conf.set(name, value)
    return spark
