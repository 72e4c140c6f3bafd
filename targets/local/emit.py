"""From the plan to a module that runs in this process."""

from __future__ import annotations

from flintlog.compiler.ir import plan
from jinja2 import ChoiceLoader, PackageLoader

from ..pyspark.emit import BLOCKS, needed_blocks, reserved_names, template_environment
from ..pyspark.view import Viewer

#: Support code beside that of the job, in the order of printing.
OWN = ("calls", "session", "facts")


def emit_module(program: plan.Program) -> str:
    """The module of a program: its rules as in the job's script, support code that needs DuckDB only, and its own."""
    own = PackageLoader("flintlog.templates", "local")
    shared = PackageLoader("flintlog.templates", "pyspark")
    environment = template_environment(ChoiceLoader([own, shared]))

    def source(name: str) -> str:
        loader = own if name in (*OWN, "imports") else shared
        return loader.get_source(environment, f"support/{name}.py.jinja")[0].rstrip("\n")

    job = {block.name for block in BLOCKS if block.job}
    blocks = (*(name for name in needed_blocks(program) if name not in job), *OWN)
    reserved = reserved_names(source("imports"), map(source, blocks))
    view = Viewer(program, reserved).script("", source("imports"), blocks)
    return environment.get_template("module.py.jinja").render(view=view, block=source)
