"""Print plans as scripts: the program part, formatted, followed by the runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from flintlog.compiler.ir import plan
from flintlog.compiler.ir.strata import METHODS
from flintlog.compiler.naming import unused
from flintlog.runtime.store.extensions import PARTS
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from .. import EmitOptions
from ..bundle import constants
from ..runtimes import runtime_view
from ..signature import MARK, signed
from .python import WIDTH, in_quotes, python, quote, section, without_gaps
from .view import ScriptView, Viewer

KINDS = {kind: f"kernel.{kind}" for kind in sorted(METHODS)} | {"dead": "kernel.identity_ranges"}
"""The runtime modules that strata need, by kind."""


OWN_CONSTANTS = ("PROGRAM", "JOB", "SHA256", "HASHES", "LINES", "LABELS", "SOURCES")
"""The constants of a script that belong to neither a rule nor the runtime."""


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
    environment, explained = job_templates(), "explain" in options.parts
    part, view = program_part(environment, program, options.compiler, options.format, True, explained)
    runtime = runtime_view(part, options, ("job.job", *needed_modules(program)))
    text = environment.get_template("script.py.jinja").render(part=part, runtime=runtime)
    return Script(signed(text), part, view)


def program_part(
    environment: Environment,
    program: plan.ProgramPlan,
    compiler: str,
    format_code: bool,
    spark: bool = True,
    explained: bool = True,
) -> tuple[str, ScriptView]:
    """Return the part of a script that is specific to the program, and the view that it was printed from. Without
    ``spark``, its queries are as DuckDB alone needs them; if it is not ``explained``, it has the source of the program
    instead of what only ``explain`` needs."""
    view = Viewer(program, {*constants(), *OWN_CONSTANTS}, compiler, spark, explained).script()
    text = environment.get_template("part.py.jinja").render(view=view, mark=MARK)
    return (format_script(text) if format_code else text).rstrip("\n"), view


@cache
def templates(*folders: str, autoescape: bool = False) -> Environment:
    """Return the environment with the templates of these folders, each once compiled; the first folder that has a
    template gives it. ``autoescape`` is for HTML."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("flintlog.templates", folder) for folder in folders]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=autoescape,
    )
    environment.filters.update(python=python, quote=quote, in_quotes=in_quotes, without_gaps=without_gaps)
    environment.globals["section"] = section
    return environment


def job_templates() -> Environment:
    """Return the environment with the templates of jobs."""
    return templates("pyspark")


def needed_modules(program: plan.ProgramPlan) -> tuple[str, ...]:
    """Return the runtime modules that the strata, keys and functions of a program need."""
    kinds = {s.stratum.kind for stage in program.stages for s in stage.strata}
    keyed = ("inputs.sequences",) if any(r.role == "input" and r.key for r in program.program.relations) else ()
    called = ("inputs.external_functions",) if program.program.functions else ()
    timed = ("inputs.staged_time", "job.advance") if any(r.clock for r in program.program.relations) else ()
    return (*(module for kind, module in KINDS.items() if kind in kinds), *keyed, *timed, *called)


_QUERY = re.compile(
    r'^[A-Z0-9_]+ = (?:f?"""\n.*?\n"""|\{\n    "duckdb": f?""".*?""",\n    "spark": f?""".*?""",\n\})$', re.S | re.M
)
_COMMENT = re.compile(r"# [^\n]*[^\n ]$", re.MULTILINE)
_RECORD = re.compile(
    r'^    \w+ = (?:Relation|Stratum)\(\n(?:(?: {8}[ -~]{1,92}| +text="[ -~]+",)\n)+    \)$', re.MULTILINE
)
"""The parts that black leaves as the templates print them: constants of queries, comments, and assignments in the
function that returns the program. Black knows how wide other characters than those of ASCII are, and how to split
longer lines."""


def format_script(text: str) -> str:
    """Return Python source formatted with black. Parts that black would not change are kept out of it, for speed."""
    import black

    mark = unused("SETTLED", {*re.findall(r"\w+", text)})
    settled: list[str] = []
    skeleton: list[str] = []
    place = 0
    for start, end in _settled(text):
        margin = re.match(" *", text[start:end])
        skeleton += [text[place:start], f"{margin[0] if margin else ''}{mark} = {len(settled)}"]
        settled.append(text[start:end])
        place = end
    formatted = black.format_str("".join([*skeleton, text[place:]]), mode=black.Mode(line_length=WIDTH))
    return re.sub(rf"^ *{mark} = (\d+)$", lambda match: settled[int(match[1])], formatted, flags=re.MULTILINE)


def _settled(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a script that black leaves as they are: runs of constants and comments, or of records."""
    start = end = None
    place = 0
    while place < len(text):
        match = next((match for form in (_QUERY, _COMMENT, _RECORD) if (match := form.match(text, place))), None)
        if match is not None:
            start, end = place if start is None else start, match.end()
            place = match.end() + 1
        elif text[place] == "\n" and start is not None and not text.startswith("\n\n\n", place):
            place += 1
        else:
            if start is not None and end is not None:
                yield start, end
            start = end = None
            place = text.find("\n", place)
            place = len(text) if place < 0 else place + 1
    if start is not None and end is not None:
        yield start, end
