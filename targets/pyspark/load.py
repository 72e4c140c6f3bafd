"""Load a compiled program as an object of the runtime, to run it in this Python process."""

from __future__ import annotations

from typing import cast

from flintlog.compiler.ir import plan
from flintlog.runtime import model

from .emit import job_templates, program_part


def load_program(program: plan.ProgramPlan) -> model.Program:
    """Return the runtime's program that the program part of a script defines, with queries for DuckDB alone."""
    text, _ = program_part(job_templates(), program, "", False, spark=False)
    names = dict(vars(model))
    exec(compile(text, "<program>", "exec"), names)
    return cast(model.Program, names["program"]())
