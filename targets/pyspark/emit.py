"""From the plan to the script: choose the support blocks, print the templates, format."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from flintlog.compiler.ir import plan
from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined

from ..signature import MARK, signed
from .view import WIDTH, ScriptView, Viewer


@dataclass(frozen=True)
class Block:
    """A piece of support code, the same in every script that has it: a file of templates/pyspark/support, and whether
    scripts whose strata are of certain kinds, or that have external functions, need it. Code that is not for a ``job``
    alone needs nothing but DuckDB.
    """

    name: str
    needed: Callable[[frozenset[str]], bool] = lambda kinds: True
    job: bool = False


#: Support code in the order of printing, after the program.
BLOCKS = (
    Block("engine"),
    Block("maintain"),
    Block("choice"),
    Block("recount"),
    Block("supports", lambda kinds: not kinds.isdisjoint({"counted", "ranked", "extremal", "entries"})),
    Block("counted", lambda kinds: "counted" in kinds),
    Block("aggregate", lambda kinds: "aggregate" in kinds),
    Block("recursion", lambda kinds: not kinds.isdisjoint({"ranked", "extremal", "entries"})),
    Block("entries", lambda kinds: "entries" in kinds),
    Block("rounds", lambda kinds: not kinds.isdisjoint({"ranked", "extremal"})),
    Block("insertions", lambda kinds: not kinds.isdisjoint({"ranked", "extremal"})),
    Block("ranked", lambda kinds: "ranked" in kinds),
    Block("extremal", lambda kinds: "extremal" in kinds),
    Block("places", job=True),
    Block("spark_engine", job=True),
    Block("stages", job=True),
    Block("state", job=True),
    Block("records"),
    Block("inputs", job=True),
    Block("functions", lambda kinds: "external" in kinds),
    Block("no_functions", lambda kinds: "external" not in kinds),
    Block("spark_functions", lambda kinds: "external" in kinds, job=True),
    Block("progress", job=True),
    Block("printing"),
    Block("explain"),
    Block("commands", job=True),
)


@dataclass(frozen=True)
class Script:
    """A script that was printed, and the view that it was printed from."""

    text: str
    view: ScriptView


def emit_script(program: plan.Program, compiler: str, format_code: bool = True) -> str:
    """The text of the maintenance script of a program; see :func:`make_script`."""
    return make_script(program, compiler, format_code).text


def make_script(program: plan.Program, compiler: str, format_code: bool = True) -> Script:
    """The maintenance script of a program, formatted with black unless told otherwise.

    ``compiler`` is the version that the header names. Support blocks are kept formatted, so only what was printed for
    the program is formatted here; a placeholder stands for each block until then.
    """
    environment = template_environment(PackageLoader("flintlog.templates", "pyspark"))
    return emit_with(environment, program, compiler, format_code)


def emit_with(
    environment: Environment,
    program: plan.Program,
    compiler: str,
    format_code: bool,
    before: Sequence[str] = ("shapes",),
    after: Sequence[str] = (),
    **views: object,
) -> Script:
    """A script of the templates of an ``environment``, with the support blocks ``before`` the program, those that it
    needs and those ``after`` them, and with further ``views``."""
    loader = environment.loader
    assert loader is not None

    def source(name: str) -> str:
        return loader.get_source(environment, f"support/{name}.py.jinja")[0].rstrip("\n")

    blocks = (*needed_blocks(program), *after)
    # All blocks, also those left out: a rule that brings one in changes nobody's name.
    names = (*before, *(b.name for b in BLOCKS), *after)
    reserved = reserved_names(source("imports"), map(source, names))
    view = Viewer(program, reserved).script(compiler, source("imports"), blocks)
    text = environment.get_template("script.py.jinja").render(view=view, block=_placeholder, mark=MARK, **views)
    if format_code:
        text = format_script(text)
    first: list[str] = []
    for name in before:
        begun, mark, text = text.partition(_placeholder(name))
        assert mark
        first += [begun, source(name)]
    # From behind, since only the program stands before these, and may quote anything.
    last: list[str] = []
    for name in reversed(blocks):
        text, mark, rest = text.rpartition(_placeholder(name))
        assert mark
        last = [source(name), rest, *last]
    return Script(signed("".join([*first, text, *last])), view)


def template_environment(loader: BaseLoader, autoescape: bool = False) -> Environment:
    """How templates are printed: of Python as they are, of HTML with ``autoescape``."""
    return Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=autoescape,
    )


def needed_blocks(program: plan.Program) -> tuple[str, ...]:
    """The names of the blocks that the script of a program has."""
    kinds = frozenset(s.stratum.kind for stage in program.stages for s in stage.strata)
    kinds |= {"external"} if program.program.functions else frozenset()
    return tuple(b.name for b in BLOCKS if b.needed(kinds))


def reserved_names(imports: str, blocks: Iterable[str]) -> list[str]:
    """The constants of support code, which those of a program must not hide."""
    names = ["PROGRAM", "PROCESS", "SUPPLY", "MAINTAIN", "RECOUNT", *re.findall(r"\b[A-Z][A-Z0-9_]*\b", imports)]
    return names + re.findall(r"^([A-Z][A-Z0-9_]*)(?=:| =)", "\n".join(blocks), re.MULTILINE)


def _placeholder(name: str) -> str:
    """A line that stands for a support block."""
    return f"# block: {name}."


#: Constants as the templates print them: those of queries black leaves alone, and others where every line fits.
_QUERY = re.compile(
    r'^[A-Z0-9_]+ = (?:f?"""\n.*?\n"""|Both\(\n    duckdb=f?""".*?""",\n    spark=f?""".*?""",\n\))$', re.S | re.M
)
_CALL = re.compile(r"^[A-Z0-9_]+ = (?:Relation|Stratum)\(\n(?: +[^\n]*\n)+\)$", re.MULTILINE)
_STRING = re.compile(r""" *\w+=(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'),""")
_COMMENT = re.compile(r"# [^\n]*[^\n ]$", re.MULTILINE)


def format_script(text: str) -> str:
    """Python source as black formats it, but faster: what it would leave as it is stands aside meanwhile."""
    import black

    kept: list[str] = []
    skeleton: list[str] = []
    place = 0
    for start, end in _settled(text):
        skeleton += [text[place:start], f"SETTLED = {len(kept)}"]
        kept.append(text[start:end])
        place = end
    formatted = black.format_str("".join([*skeleton, text[place:]]), mode=black.Mode(line_length=WIDTH))
    return re.sub(r"^SETTLED = (\d+)$", lambda found: kept[int(found[1])], formatted, flags=re.MULTILINE)


def _settled(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a script that black leaves as they are: constants and comments in a row."""
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
            # A constant that does not fit is passed by as a whole.
            place = found.end() if found is not None else text.find("\n", place)
            place = len(text) if place < 0 else place + 1
    if start is not None and end is not None:
        yield start, end


def _fits(call: str) -> bool:
    """Whether black leaves a call as the templates print it."""
    lines = call.split("\n")
    return "(\n    )" not in call and all(
        (len(line) <= WIDTH and line.isascii()) or _STRING.fullmatch(line) is not None for line in lines
    )
