"""A Spark session that runs what it reads from standard input, a JSON value on each line: a text is a statement in SQL,
a list the arguments of a job's script, an object a table of Iceberg that gets a file with equality deletes, which only
programs in Java add. It answers with the rows, with exit code and output, or with an error.

Run by the environment of the connectors, with the settings of the session as JSON; it imports nothing of the project.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    """Answer line by line."""
    builder = SparkSession.builder.master("local[2]")
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    answer({"ready": spark.version})
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            if isinstance(asked, str):
                answer(statement(spark, asked))
            else:
                answer(job(*asked) if isinstance(asked, list) else equality_deletes(spark, **asked))
        except Exception as error:
            answer({"error": str(error)})


def answer(value: Any) -> None:
    """Print a line that the tests tell from what libraries print."""
    print("ANSWER " + json.dumps(value, default=str), flush=True)


def statement(spark: SparkSession, text: str) -> list[dict[str, Any]]:
    """Return the rows of a statement."""
    return [row.asDict(True) for row in spark.sql(text).collect()]


def equality_deletes(spark: SparkSession, table: str, file: str) -> bool:
    """List a file with deletes by the values of the first column."""
    iceberg = spark._jvm.org.apache.iceberg
    opened = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    fields = spark._sc._gateway.new_array(spark._jvm.int, 1)
    fields[0] = 1
    builder = iceberg.FileMetadata.deleteFileBuilder(opened.spec()).ofEqualityDeletes(fields)
    opened.newRowDelta().addDeletes(
        builder.withPath(file).withFormat("parquet").withFileSizeInBytes(1000).withRecordCount(1).build()
    ).commit()
    return True


def job(script: str, *arguments: str) -> dict[str, Any]:
    """Return the exit code of a command of a job, and what it says."""
    spec = importlib.util.spec_from_file_location(Path(script).stem, script)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = module.main(list(arguments))
    return {"code": code, "said": said.getvalue()}


if __name__ == "__main__":
    main()
