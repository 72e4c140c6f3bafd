"""Load a compiled program as an object of the runtime, to run it in this Python process."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from flintlog.compiler.ir import plan
from flintlog.runtime import model

from ..runtimes import PART_MODULES
from .emit import job_templates, program_part


def load_program(program: plan.ProgramPlan) -> model.Program:
    """Return the runtime's program that the program part of a script defines, with queries for DuckDB alone.

    If it has recursions that are products of matrices, what computes them so is imported, which registers itself.
    """
    text, _ = program_part(job_templates(), program, "", False, spark=False)
    names = dict(vars(model))
    exec(compile(text, "<program>", "exec"), names)
    loaded = cast(model.Program, names["program"]())
    products = any(stratum.equations for stage in loaded.stages for stratum in stage.strata)
    if products:
        for name in PART_MODULES["matrices"]:
            import_module(f"flintlog.runtime.{name}")
    return loaded
