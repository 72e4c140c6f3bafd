"""All add-ons: importing this module registers them."""

from __future__ import annotations

from ..inputs import external_functions, sequences, staged_time
from ..job import advance
from . import derivations, explain, lineage, micro_batch, quarantine
from .feeds import feeding, folder, iceberg, kafka_debezium, sources, spark_delta, spark_table, topic_staging
from .matrices import selection
from .operations import archive, changes, compact, history, rebuild, recover, revert, rollback, upgrade, vacuum
from .tables import delta
from .tables import iceberg as iceberg_tables

__all__ = [
    "advance",
    "archive",
    "changes",
    "compact",
    "delta",
    "derivations",
    "explain",
    "external_functions",
    "feeding",
    "folder",
    "history",
    "iceberg",
    "iceberg_tables",
    "kafka_debezium",
    "lineage",
    "micro_batch",
    "quarantine",
    "rebuild",
    "recover",
    "revert",
    "rollback",
    "selection",
    "sequences",
    "sources",
    "spark_delta",
    "spark_table",
    "staged_time",
    "topic_staging",
    "upgrade",
    "vacuum",
]
