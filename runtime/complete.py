"""The whole runtime: importing this module registers all parts."""

from __future__ import annotations

from .commands import derivations, feeding, micro_batch, operations, sources
from .feeds import folder, iceberg, messages, spark_delta, spark_table, topic
from .matrices import best, fixpoint, follow
from .outputs import delta
from .outputs import iceberg as iceberg_outputs

__all__ = [
    "best",
    "delta",
    "derivations",
    "feeding",
    "fixpoint",
    "folder",
    "follow",
    "iceberg",
    "iceberg_outputs",
    "messages",
    "micro_batch",
    "operations",
    "sources",
    "spark_delta",
    "spark_table",
    "topic",
]
