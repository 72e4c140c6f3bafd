"""From the plan to the script: choose the support blocks, print the templates, format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import black
from flintlog.compiler.ir import plan
from jinja2 import Environment, PackageLoader, StrictUndefined

from .view import Viewer


@dataclass(frozen=True)
class Block:
    """A piece of support code, the same in every script that has it: a file of templates/pyspark/support, and whether
    scripts whose strata are of certain kinds need it."""

    name: str
    needed: Callable[[frozenset[str]], bool] = lambda kinds: True


#: Support code in the order of printing, after the program.
BLOCKS = (
    Block("engine"),
    Block("maintain"),
    Block("counted", lambda kinds: "counted" in kinds),
    Block("aggregate", lambda kinds: "aggregate" in kinds),
    Block("ranked", lambda kinds: "ranked" in kinds),
    Block("recount"),
    Block("stages"),
    Block("state"),
    Block("inputs"),
    Block("progress"),
    Block("commands"),
)


def emit_script(program: plan.Program, compiler: str, format_code: bool = True) -> str:
    """The maintenance script of a program, formatted with black unless told otherwise.

    ``compiler`` is the version that the header names.
    """
    environment = Environment(
        loader=PackageLoader("flintlog.templates", "pyspark"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    assert environment.loader is not None

    def block(name: str) -> str:
        return environment.loader.get_source(environment, f"support/{name}.py.jinja")[0]  # type: ignore[union-attr]

    kinds = frozenset(s.stratum.kind for stage in program.stages for s in stage.strata)
    blocks = tuple(b.name for b in BLOCKS if b.needed(kinds))
    view = Viewer(program).script(compiler, block("imports").rstrip("\n"), blocks)
    text = environment.get_template("script.py.jinja").render(view=view, block=block)
    return format_script(text) if format_code else text


def format_script(text: str) -> str:
    """Python source as black formats it."""
    return black.format_str(text, mode=black.Mode(line_length=100))
