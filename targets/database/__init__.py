"""The target ``database``: a script whose state is one SQLite file."""

from __future__ import annotations

from flintlog.compiler.ir import plan

from .. import DATABASE, RUNTIMES, EmitOptions, Target, module_name


class DatabaseTarget:
    """The target; its parts are imported when it prints, since black and Jinja are slow to load."""

    name = DATABASE
    description = "a script that needs Python only and keeps the program's relations in one SQLite file"

    def emit(self, program: plan.ProgramPlan, options: EmitOptions) -> dict[str, str]:
        """Return the script, named after the program's main file. Raise ValueError for other runtimes, or parts."""
        if options.runtime != RUNTIMES[0] or options.parts:
            raise ValueError("scripts of the target database contain their runtime, and have no further parts")
        from .emit import make_row_script

        return {f"{module_name(program.program.sources[0].name)}.py": make_row_script(program, options)}


TARGET: Target = DatabaseTarget()
