"""The names that scripts of processes import from an installed runtime."""

from __future__ import annotations

from .addons.processes.channels import Channel, Process
from .addons.processes.network import nodes_main
from .addons.processes.nodes import Nodes, Route
from .addons.processes.partition import Partition
from .addons.processes.serve import process_main
from .database import decimals, external
from .inputs import external_functions
from .job.release import require_package
from .kernel.model import Column, ExternalFunction, NamedFile
from .row_kernel import methods
from .row_kernel.model import (
    Absence,
    Aggregated,
    JoinChoice,
    KeptProofs,
    KeyedSource,
    ProofStratum,
    RowGrouping,
    RowProgram,
    RowRanking,
    RowRelation,
    RowRule,
    RowSource,
    RowStratum,
)

__all__ = [
    "Absence",
    "Aggregated",
    "Channel",
    "Column",
    "ExternalFunction",
    "JoinChoice",
    "KeptProofs",
    "KeyedSource",
    "NamedFile",
    "Nodes",
    "Partition",
    "Process",
    "ProofStratum",
    "Route",
    "RowGrouping",
    "RowProgram",
    "RowRanking",
    "RowRelation",
    "RowRule",
    "RowSource",
    "RowStratum",
    "decimals",
    "external",
    "external_functions",
    "methods",
    "nodes_main",
    "process_main",
    "require_package",
]
