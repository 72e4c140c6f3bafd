"""Print plans as scripts whose state is a database: the program part, then what it needs of the runtime."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from hashlib import sha256
from typing import Any

from flintlog.compiler.ir import plan
from flintlog.runtime.kernel.sql import plain_type
from flintlog.runtime.row_kernel.model import RowProgram, RowRelation, RowRule
from jinja2 import Environment

from .. import EmitOptions
from ..bundle import bundle, module
from ..pyspark.emit import format_script, templates
from ..pyspark.python import one_line, quote
from ..signature import MARK, signed
from .lower import lower_rows

FUNCTIONS = ("init", "apply", "status", "verify", "history", "revert", "backup")
"""The functions of a script: those of the runtime for files, bound to the program."""

CALLED = {
    "row_kernel.decimals": ("_decimal", "_converted", "_remainder"),
    "row_kernel.functions": ("_call", "_list", "_joined"),
    "row_kernel.unions": ("_union",),
}
"""The functions that the SQL of rules may call, by their modules."""

RECORDS = (
    *("kernel.model", "row_kernel.model"),
    *("addons.processes.channels", "addons.processes.nodes", "addons.processes.partition"),
)
"""The modules with the records of the program part."""


@dataclass(frozen=True)
class RowScriptView:
    """What the program part prints: the name of the main file, a title, the rules as they are written, records of the
    program as Python expressions, and what changes with any line of the text: labels of rules that the text has none
    for, hashes of relations, lines, and the text itself, by the names of files."""

    name: str
    title: str
    rules: tuple[str, ...]
    program: RowProgram
    relations: tuple[str, ...]
    strata: tuple[str, ...]
    orders: tuple[str, ...]
    functions: str
    labels: Mapping[str, str]
    hashes: Mapping[str, str]
    lines: Mapping[str, str]
    sources: Mapping[str, str]


def make_row_script(program: plan.ProgramPlan, options: EmitOptions) -> str:
    """Return the script of a program, whose state is a database. Raise ValueError if it keeps live proofs, which
    only processes do."""
    lowered = lower_rows(program, options.compiler)
    if any(stratum.guards for stratum in lowered.strata):
        raise ValueError("the target database keeps no live proofs")
    environment = templates("database", "pyspark")
    sources = {source.name: source.text for source in program.program.sources}
    part = row_part(environment, lowered, options.format, sources=sources)
    roots = roots_of(lowered, part)
    roots["database.command_list"] = {"run_file_command"}
    roots["database.commands"] = {"functools", *(f"{name}_file" for name in FUNCTIONS)}
    whole = environment.get_template("script.py.jinja").render(part=part, bundle=bundle(roots), functions=FUNCTIONS)
    return signed(whole)


def row_part(
    environment: Environment,
    program: RowProgram,
    format_code: bool,
    served: Mapping[str, str] | None = None,
    sources: Mapping[str, str] | None = None,
) -> str:
    """Return the part of a script that is specific to the program, and to what is ``served``: a record, its name, and
    its text. It has the ``sources`` of the program, if they are given."""
    view = view_of(program, sources or {})
    text = environment.get_template("part.py.jinja").render(view=view, mark=MARK, served=served)
    return (format_script(text) if format_code else text).rstrip("\n")


def view_of(program: RowProgram, sources: Mapping[str, str]) -> RowScriptView:
    """Return what the program part of a script prints."""
    name, printer = one_line(program.name), RecordPrinter()
    relations = tuple(map(printer.text, program.relations))
    printer.names = {relation: f"of[{quote(relation.table)}]" for relation in program.relations}
    strata = tuple(map(printer.text, program.strata))
    written = (rule.text for stratum in program.strata for rule in stratum.rules if rule.text)
    return RowScriptView(
        name,
        f"Keep the views of {name} exact while its inputs change.",
        tuple(map(one_line, dict.fromkeys(written))),
        program,
        relations,
        strata,
        tuple(map(printer.text, program.orders)),
        printer.text(program.functions),
        printer.labels,
        printer.hashes,
        printer.lines,
        sources,
    )


class RecordPrinter:
    """Prints records as Python expressions. Relations that have ``names`` are printed so; what changes with any line of
    a program is collected in ``labels``, ``hashes`` and ``lines``, whose entries stand for it."""

    def __init__(self) -> None:
        self.names: dict[RowRelation, str] = {}
        self.labels: dict[str, str] = {}
        self.hashes: dict[str, str] = {}
        self.lines: dict[str, str] = {}

    def text(self, value: Any) -> str:
        """Return a record, or a value in it, as an expression."""
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, tuple):
            return f"({', '.join(map(self.text, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, RowRelation) and value in self.names:
            return self.names[value]
        if not is_dataclass(value):
            return repr(value)
        apart = self.apart(value)
        given = []
        for each in fields(value):
            own = getattr(value, each.name)
            if each.default is MISSING or own != each.default:
                given.append(f"{each.name}={apart.get(each.name) or self.text(own)}")
        return f"{type(value).__name__}({', '.join(given)})"

    def apart(self, record: Any) -> dict[str, str]:
        """Return the entries that stand for fields of a record, by their names."""
        if isinstance(record, RowRelation):
            return {
                "source": entry("LINES", f"relation {record.table}", record.source, self.lines),
                "definition": entry("HASHES", record.table, record.definition, self.hashes),
            }
        if not isinstance(record, RowRule):
            return {}
        if record.text.startswith(f"{record.label}:"):
            return {"source": entry("LINES", f"rule {record.label}", record.source, self.lines)}
        key = f"rule {record.head}_{sha256(record.text.encode()).hexdigest()[:4]}"
        return {
            "label": entry("LABELS", key, record.label, self.labels),
            "source": entry("LINES", key, record.source, self.lines),
        }


def entry(table: str, key: str, value: str, entries: dict[str, str]) -> str:
    """Add a value to the entries of a table, and return the expression for it."""
    while entries.setdefault(key, value) != value:
        key += "'"
    return f"{table}[{quote(key)}]"


def roots_of(program: RowProgram, part: str) -> dict[str, set[str]]:
    """Return the names by module that the program part of a script, and what it registers, use of the runtime."""
    used = {node.id for node in ast.walk(ast.parse(part)) if isinstance(node, ast.Name)}
    roots = {name: names for name in RECORDS if (names := used & module(name).binding.keys())}
    roots |= {f"row_kernel.{stratum.kind}": set() for stratum in program.strata}
    if any(stratum.kind in ("aggregate", "acyclic", "extremal") for stratum in program.strata):
        roots["row_kernel.sums"] = set()
    kinds = {plain_type(column.type) for relation in program.relations for column in relation.columns}
    if kinds - {"int", "string"}:
        roots["inputs.typed_values"] = set()
    if any(relation.key for relation in program.relations):
        roots["row_kernel.keys"] = set()
    if any(relation.key and relation.kind == "input" for relation in program.relations):
        roots["database.sequences"] = set()
    if program.clock is not None:
        roots |= {"database.clock": set(), "database.passing_time": set()}
    if any(relation.copy for relation in program.relations):
        roots["row_kernel.copies"] = set()
    if "choices=" in part:
        roots["row_kernel.join_orders"] = set()
    if "decimal" in part:
        roots["row_kernel.units"] = set()
    if any(kind.startswith("decimal") for kind in kinds):
        roots["database.decimals"] = set()
    if "list<" in part or "_compare(" in part:
        roots["row_kernel.lists"] = set()
    if program.functions:
        roots["database.external"] = set()
    for home, called in CALLED.items():
        if any(f"{name}(" in part for name in called):
            roots[home] = set()
    return roots
