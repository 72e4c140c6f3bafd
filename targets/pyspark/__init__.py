"""The target ``pyspark``: one standalone maintenance script per program."""

from __future__ import annotations

from flintlog.compiler.ir import plan

from .. import EmitOptions, Target, module_name


class PySpark:
    """The target; its parts are imported when it prints, since black, Jinja and sqlglot take long to load."""

    name = "pyspark"
    description = "a standalone PySpark script that builds and maintains the program's relations"

    def emit(self, program: plan.Program, options: EmitOptions) -> dict[str, str]:
        """The script, named after the program's main file."""
        from .emit import emit_script

        script = emit_script(program, options.compiler, options.format)
        return {f"{module_name(program.program.sources[0].name)}.py": script}


TARGET: Target = PySpark()
