"""Targets: what a compiled program is printed as."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import PurePosixPath
from typing import Protocol, cast

from flintlog.compiler.ir import plan

#: The targets by name, and the modules that hold them as ``TARGET``; a target is imported when it is asked for.
_MODULES = {"pyspark": "flintlog.targets.pyspark"}

#: The names of all targets.
TARGETS = tuple(_MODULES)

#: The target that makes a script for each process, of all programs together.
PROCESSES = "processes"

#: What generated scripts import beside the standard library, also through packages, and what else lies beside them.
_TAKEN = """
    duckdb numpy pandas py4j pyarrow pyspark flintlog flintlog_functions run_local
    confluent_kafka dateutil google googleapis_common_protos grpc pytz six
    adlfs aiobotocore aiohttp attr attrs azure boto3 botocore certifi fsspec gcsfs jmespath multidict pathlib_abc
    requests s3fs upath urllib3 wrapt yaml yarl
"""


@dataclass(frozen=True)
class EmitOptions:
    """What every target is told: the version of the compiler, for headers, and whether to format the output."""

    compiler: str
    format: bool = True


class Target(Protocol):
    """Prints plans. ``description`` says in a clause what it prints."""

    @property
    def name(self) -> str:
        """The name of the target, for ``--target``."""

    @property
    def description(self) -> str:
        """What it prints, in a clause."""

    def emit(self, program: plan.Program, options: EmitOptions) -> Mapping[str, str]:
        """The files that a program becomes: their texts by name, relative to the folder that they are written to."""


def target(name: str) -> Target:
    """The target called ``name``; KeyError if there is none."""
    return cast(Target, import_module(_MODULES[name]).TARGET)


def module_name(source: str) -> str:
    """The name of the Python module that a program becomes: ``reach`` for ``jobs/reach.dl``.

    Whatever the file is called, the module can be imported, and hides no module that the script needs: a folder with
    scripts comes first on the path of each of them.
    """
    stem = re.sub(r"\W", "_", PurePosixPath(source).stem)
    if not stem or stem[0].isdigit():
        stem = f"_{stem}"
    if keyword.iskeyword(stem) or stem in sys.stdlib_module_names or stem.lower() in _TAKEN.split():
        stem += "_"
    return stem
