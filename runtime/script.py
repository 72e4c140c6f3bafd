"""The names that scripts import from an installed runtime."""

from __future__ import annotations

from .addons import registration
from .addons.processes.channels import Channel, Process
from .addons.processes.network import nodes_main
from .addons.processes.nodes import Nodes, Route
from .addons.processes.partition import Partition
from .addons.processes.serve import process_main
from .job.job import Job
from .job.release import require_package
from .kernel import methods
from .kernel.model import (
    Both,
    Column,
    Delta,
    ExternalFunction,
    Grouping,
    MatrixFactor,
    NamedFile,
    Program,
    Relation,
    Rule,
    Stage,
    Step,
    Stratum,
)
from .row_kernel import lists, units

__all__ = [
    "Both",
    "Channel",
    "Column",
    "Delta",
    "ExternalFunction",
    "Grouping",
    "Job",
    "MatrixFactor",
    "NamedFile",
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
    "lists",
    "methods",
    "nodes_main",
    "process_main",
    "registration",
    "require_package",
    "units",
]
