"""The target ``pyspark``: one maintenance script per program."""

from __future__ import annotations

from flintlog.compiler.ir import plan

from .. import EmitOptions, Target, module_name


class PySpark:
    """The target; its parts are imported when it prints, since black, Jinja and sqlglot are slow to load."""

    name = "pyspark"
    description = "a PySpark script that builds and maintains the program's relations"

    def emit(self, program: plan.ProgramPlan, options: EmitOptions) -> dict[str, str]:
        """Return the script, named after the program's main file, and the runtime file if ``options`` ask for one."""
        from ..runtimes import runtime_files
        from .emit import make_script

        script = make_script(program, options)
        return {f"{module_name(program.program.sources[0].name)}.py": script.text, **runtime_files(options)}


TARGET: Target = PySpark()
