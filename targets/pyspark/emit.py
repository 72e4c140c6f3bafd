"""Print plans as scripts: the program part, formatted, followed by the runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from flintlog.compiler.ir import plan
from flintlog.compiler.ir.strata import METHODS
from flintlog.runtime.parts import PARTS
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from .. import EmitOptions
from ..bundle import constants
from ..runtimes import runtime_view
from ..signature import MARK, signed
from .view import WIDTH, ScriptView, Viewer

#: The runtime modules that strata need, by kind.
KINDS = {kind: f"maintenance.{kind}" for kind in sorted(METHODS)}


@dataclass(frozen=True)
class Script:
    """A script: its whole ``text``, the program ``part`` of it, and the ``view`` from which that was printed."""

    text: str
    part: str
    view: ScriptView


def emit_script(
    program: plan.ProgramPlan, compiler: str, format_code: bool = True, parts: Sequence[str] = tuple(PARTS)
) -> str:
    """Return the text of the standalone maintenance script of a program, with all parts of the runtime or with some;
    see :func:`make_script`."""
    return make_script(program, EmitOptions(compiler, format_code, parts=tuple(parts))).text


def make_script(program: plan.ProgramPlan, options: EmitOptions) -> Script:
    """Return the maintenance script of a program.

    The program part is followed by the runtime modules that it needs, which are not formatted here, or by imports
    from a runtime elsewhere.
    """
    return emit_with(job_templates(), program, options)


def emit_with(
    environment: Environment,
    program: plan.ProgramPlan,
    options: EmitOptions,
    roots: Sequence[str] = ("job",),
    **views: object,
) -> Script:
    """Return a script printed with the templates of ``environment`` and further ``views``, followed by the runtime
    modules that ``roots`` and the program need."""
    part, view = program_part(environment, program, options.compiler, options.format, True, **views)
    runtime = runtime_view(part, options, (*roots, *needed_modules(program)))
    text = environment.get_template("script.py.jinja").render(part=part, runtime=runtime, **views)
    return Script(signed(text), part, view)


def program_part(
    environment: Environment,
    program: plan.ProgramPlan,
    compiler: str,
    format_code: bool,
    spark: bool = True,
    **views: object,
) -> tuple[str, ScriptView]:
    """Return the part of a script that is specific to the program, and the view that it was printed from. Without
    ``spark``, its queries are as DuckDB alone needs them."""
    view = Viewer(program, {*constants(), "PROGRAM", "PROCESS", "NODES", "JOB"}, spark).script(compiler)
    text = environment.get_template("part.py.jinja").render(view=view, mark=MARK, **views)
    return (format_script(text) if format_code else text).rstrip("\n"), view


@cache
def templates(*folders: str, autoescape: bool = False) -> Environment:
    """Return the environment with the templates of these folders, each once compiled; the first folder that has a
    template gives it. ``autoescape`` is for HTML."""
    return Environment(
        loader=ChoiceLoader([PackageLoader("flintlog.templates", folder) for folder in folders]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=autoescape,
    )


def job_templates() -> Environment:
    """Return the environment with the templates of jobs."""
    return templates("pyspark")


def needed_modules(program: plan.ProgramPlan) -> tuple[str, ...]:
    """Return the runtime modules that the strata of a program need."""
    kinds = {s.stratum.kind for stage in program.stages for s in stage.strata}
    derivations = ("commands.derivations",) if kinds & {"entries", "proofs"} else ()
    keyed = ("sequences",) if any(r.role == "input" and r.key for r in program.program.relations) else ()
    return (*(module for kind, module in KINDS.items() if kind in kinds), *derivations, *keyed)


#: Constants as the templates print them. Black never changes those of queries, and others only if a line is too long.
_QUERY = re.compile(
    r'^[A-Z0-9_]+ = (?:f?"""\n.*?\n"""|\{\n    "duckdb": f?""".*?""",\n    "spark": f?""".*?""",\n\})$', re.S | re.M
)
_CALL = re.compile(r"^    \w+ = (?:Relation|Stratum)\(\n(?:     +[^\n]*\n)+    \)$", re.MULTILINE)
_STRING = re.compile(r""" *\w+=(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'),""")
_COMMENT = re.compile(r"# [^\n]*[^\n ]$", re.MULTILINE)


def format_script(text: str) -> str:
    """Return Python source formatted with black. Parts that black would not change are kept out of it, for speed."""
    import black

    kept: list[str] = []
    skeleton: list[str] = []
    place = 0
    for start, end in _settled(text):
        indent = "    " if text.startswith("    ", start) else ""
        skeleton += [text[place:start], f"{indent}SETTLED = {len(kept)}"]
        kept.append(text[start:end])
        place = end
    formatted = black.format_str("".join([*skeleton, text[place:]]), mode=black.Mode(line_length=WIDTH))
    return re.sub(r"^ *SETTLED = (\d+)$", lambda found: kept[int(found[1])], formatted, flags=re.MULTILINE)


def _settled(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a script that black leaves as they are: runs of constants and comments."""
    start = end = None
    place = 0
    while place < len(text):
        found = next((match for form in (_QUERY, _COMMENT, _CALL) if (match := form.match(text, place))), None)
        if found is not None and (found.re is not _CALL or _fits(found[0])):
            start, end = place if start is None else start, found.end()
            place = found.end() + 1
        elif text[place] == "\n" and start is not None and not text.startswith("\n\n\n", place):
            place += 1
        else:
            if start is not None and end is not None:
                yield start, end
            start = end = None
            # Skip a constant that does not fit as a whole.
            place = found.end() if found is not None else text.find("\n", place)
            place = len(text) if place < 0 else place + 1
    if start is not None and end is not None:
        yield start, end


def _fits(call: str) -> bool:
    """Return whether black leaves a call as the templates print it."""
    lines = call.split("\n")
    return "(\n        )" not in call and all(
        (len(line) <= WIDTH and line.isascii()) or _STRING.fullmatch(line) is not None for line in lines
    )
