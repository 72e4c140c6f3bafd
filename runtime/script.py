"""The names that scripts import from an installed runtime."""

from __future__ import annotations

from . import complete, maintenance
from .job import Job
from .model import (
    Both,
    Column,
    Delta,
    ExternalFunction,
    Grouping,
    MatrixFactor,
    Program,
    Relation,
    Rule,
    Stage,
    Step,
    Stratum,
)
from .processes.channels import Channel, Process
from .processes.network import nodes_main
from .processes.nodes import Nodes, Route
from .processes.partition import Partition
from .processes.serve import process_main
from .release import require_package

__all__ = [
    "Both",
    "Channel",
    "Column",
    "Delta",
    "ExternalFunction",
    "Grouping",
    "Job",
    "MatrixFactor",
    "Nodes",
    "Partition",
    "Process",
    "Program",
    "Relation",
    "Route",
    "Rule",
    "Stage",
    "Step",
    "Stratum",
    "complete",
    "maintenance",
    "nodes_main",
    "process_main",
    "require_package",
]
