"""Start Spark with a connector, and have it run statements and jobs."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

from golden_tests.integrations.environments import environment
from golden_tests.maven import jars

PACKAGES = ("pyspark==4.1.4", "duckdb>=2.0,<3", "pyarrow>=20,<27", "pandas>=2.2,<3", "setuptools")

SETTINGS = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.ui.showConsoleProgress": "false"}

CONNECTORS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        # Fifty, unless given.
        "spark.databricks.delta.snapshotPartitions": "1",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}


class ConnectorFailed(Exception):
    """A statement that failed."""


class ConnectorLane:
    """A Spark session with one connector, in a process of its own; tables are in the folder ``warehouse``. Skips the
    test if the connector cannot be had."""

    def __init__(self, connector: str, folder: Path) -> None:
        """Start the process."""
        here = Path(__file__).parent
        found = jars(here / connector / "pom.xml", f"connectors/{connector}")
        self.warehouse = folder / "warehouse"
        settings = SETTINGS | CONNECTORS[connector]
        settings["spark.jars"] = ",".join(map(str, sorted(found.glob("*.jar"))))
        settings["spark.sql.warehouse.dir"] = str(folder / "spark-warehouse")
        if connector == "iceberg":
            settings["spark.sql.catalog.lake.warehouse"] = str(self.warehouse)
        python = environment(*PACKAGES) / "python"
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
        self.log = folder / "spark.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [python, here / "session.py", json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env={**variables, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"},
            )
        self._answer()

    def sql(self, *statements: str) -> list[dict[str, Any]]:
        """Run statements, and return the rows of the last one."""
        rows: list[dict[str, Any]] = []
        for statement in statements:
            rows = self._ask(statement)
        return rows

    def job(self, script: Path, *arguments: str) -> tuple[int, str]:
        """Run a command of a job on Spark, and return its exit code and what it says."""
        found = self._ask([str(script), *arguments])
        return found["code"], " ".join(found["said"].split())

    def equality_deletes(self, table: str) -> None:
        """Add a file with equality deletes to a table of Iceberg, which is not partitioned."""
        self._ask({"table": table, "file": str(self.warehouse / "deletes.parquet")})

    def _ask(self, what: Any) -> Any:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                found = json.loads(line.removeprefix("ANSWER "))
                if isinstance(found, dict) and "error" in found:
                    raise ConnectorFailed(found["error"])
                return found
        raise AssertionError(f"Spark has ended: {self.log.read_text()[-2000:]}")

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(60)


def usual_changes(table: str, rng: random.Random, number: int) -> list[str]:
    """Changes of rows that Spark makes in tables of any format, in SQL; ``number`` tells them from earlier ones."""
    src, other = rng.randrange(30), rng.randrange(30)
    merged = f"SELECT {src} AS src, {100 + number} AS dst, 'k0' AS kind"
    merged += f" UNION ALL SELECT {200 + number}, {other}, 'k1'"
    return [
        f"INSERT INTO {table} VALUES ({100 + number}, {number}, 'k1'), ({300 + number}, 5, 'k2')",
        f"DELETE FROM {table} WHERE src % 7 = {number % 7}",
        f"DELETE FROM {table} WHERE src IN ({src}, {other})",
        f"UPDATE {table} SET dst = {400 + number} WHERE src = {src}",
        f"UPDATE {table} SET kind = 'k{number % 3}' WHERE src BETWEEN {src} AND {src + 3}",
        f"MERGE INTO {table} AS t USING ({merged}) AS s ON t.src = s.src WHEN MATCHED THEN "
        "UPDATE SET dst = s.dst WHEN NOT MATCHED THEN INSERT *",
    ]
