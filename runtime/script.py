"""The names that scripts import from an installed runtime."""

from __future__ import annotations

from .addons import registration
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

__all__ = [
    "Both",
    "Column",
    "Delta",
    "ExternalFunction",
    "Grouping",
    "Job",
    "MatrixFactor",
    "NamedFile",
    "Program",
    "Relation",
    "Rule",
    "Stage",
    "Step",
    "Stratum",
    "methods",
    "registration",
    "require_package",
]
