"""The target ``pyspark``: one maintenance script per program."""

from __future__ import annotations

from flintlog.compiler.ir import plan

from .. import EmitOptions, Target, module_name


class PySpark:
    """The target; its parts are imported when it prints, since black, Jinja and sqlglot are slow to load."""

    name = "pyspark"
    description = "a PySpark script that builds and maintains the program's relations"

    def emit(self, program: plan.ProgramPlan, options: EmitOptions) -> dict[str, str]:
        """Return the script, named after the program's main file."""
        from .emit import make_script

        return {f"{module_name(program.program.sources[0].name)}.py": make_script(program, options).text}


TARGET: Target = PySpark()
