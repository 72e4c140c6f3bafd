"""Targets: the forms in which a compiled program can be printed."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePosixPath
from typing import Protocol, cast

from flintlog.compiler.ir import plan
from flintlog.runtime.store.extensions import PARTS

DATABASE = "database"
"""The target whose scripts keep their state in one SQLite file."""

_MODULES = {"pyspark": "flintlog.targets.pyspark", DATABASE: "flintlog.targets.database"}
"""The modules that define the targets as ``TARGET``, by target name; a module is imported on demand."""

TARGETS = tuple(_MODULES)
"""The names of all targets."""

PROCESSES = "processes"
"""The target that prints a script for each process, from the programs of all processes."""

RUNTIMES = ("standalone", "beside", "installed")
"""The places where scripts find the runtime: in the script, in an archive beside it, or in the installed package."""

RUNTIME_PARTS = PARTS
"""The parts that standalone scripts can have besides the basic commands, by name."""

_TAKEN = """
    duckdb numpy pandas py4j pyarrow pyspark flintlog flintlog_functions flintlog_runtime run_local
    confluent_kafka dateutil google googleapis_common_protos grpc pytz six
    adlfs aiobotocore aiohttp argcomplete attr attrs azure boto3 botocore certifi fastavro fsspec gcsfs hdfs_native
    jmespath multidict pathlib_abc requests s3fs typing_extensions upath urllib3 wrapt yaml yarl
"""
"""The modules that generated scripts import beside the standard library, also through packages, and other files beside
them."""


@dataclass(frozen=True)
class EmitOptions:
    """Options of all targets: the version of the ``compiler``, for headers; whether to ``format`` the output; where
    scripts find the ``runtime``, one of ``RUNTIMES``; and which ``parts`` of the runtime standalone scripts have that
    they could do without."""

    compiler: str
    format: bool = True
    runtime: str = RUNTIMES[0]
    parts: tuple[str, ...] = ()


def chosen_parts(names: Iterable[str]) -> tuple[str, ...]:
    """Return parts of the runtime by their names, in the usual order; all of them for ``all``. Raise ValueError for an
    unknown one."""
    chosen = list(names)
    for name in chosen:
        if name not in (*RUNTIME_PARTS, "all"):
            raise ValueError(f"{name!r} is not one of {', '.join(RUNTIME_PARTS)}, all")
    return tuple(part for part in RUNTIME_PARTS if part in chosen or "all" in chosen)


class Target(Protocol):
    """A printer of plans."""

    @property
    def name(self) -> str:
        """Return the name of the target, for ``--target``."""

    @property
    def description(self) -> str:
        """Return what the target prints, as a clause."""

    def emit(self, program: plan.ProgramPlan, options: EmitOptions) -> Mapping[str, str]:
        """Return the files of a program: their texts by name, relative to the output folder."""


def target(name: str) -> Target:
    """Return the target called ``name``. Raise KeyError if there is none."""
    return cast(Target, import_module(_MODULES[name]).TARGET)


def module_name(source: str) -> str:
    """Return the name of the Python module for a program: ``reach`` for ``jobs/reach.dl``.

    The name can be imported whatever the file is called, and shadows no module that scripts import, since the folder
    of a script comes first on its import path.
    """
    stem = re.sub(r"\W", "_", PurePosixPath(source).stem)
    if not stem or stem[0].isdigit():
        stem = f"_{stem}"
    if keyword.iskeyword(stem) or stem in sys.stdlib_module_names or stem.lower() in _TAKEN.split():
        stem += "_"
    return stem
