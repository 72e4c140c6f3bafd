"""Print plans as scripts whose state is a database: the program part, then what it needs of the runtime."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

from flintlog.compiler.ir import plan
from flintlog.runtime.kernel.sql import plain_type
from flintlog.runtime.row_kernel.model import RowProgram, RowRelation

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
}
"""The functions that the SQL of rules may call, by their modules."""

RECORDS = ("kernel.model", "row_kernel.model")
"""The modules with the records of the program part."""


@dataclass(frozen=True)
class RowScriptView:
    """What the program part prints: the name of the main file, a title, the rules as they are written, and records of
    the program as Python expressions."""

    name: str
    title: str
    rules: tuple[str, ...]
    program: RowProgram
    relations: tuple[str, ...]
    strata: tuple[str, ...]
    orders: tuple[str, ...]
    functions: str


def make_row_script(program: plan.ProgramPlan, options: EmitOptions) -> str:
    """Return the script of a program, whose state is a database."""
    lowered = lower_rows(program, options.compiler)
    environment = templates("database")
    text = environment.get_template("part.py.jinja").render(view=view_of(lowered), mark=MARK)
    part = (format_script(text) if options.format else text).rstrip("\n")
    whole = environment.get_template("script.py.jinja").render(
        part=part, bundle=bundle(roots_of(lowered, part)), functions=FUNCTIONS
    )
    return signed(whole)


def view_of(program: RowProgram) -> RowScriptView:
    """Return what the program part of a script prints."""
    name = one_line(program.name)
    written = dict.fromkeys(
        f"{rule.source}  {one_line(rule.text)}" for stratum in program.strata for rule in stratum.rules if rule.text
    )
    names = {id(relation): f"of[{quote(relation.table)}]" for relation in relations_of(program)}
    return RowScriptView(
        name,
        f"Keeps the views of {name} exact while its inputs change.",
        tuple(written),
        program,
        tuple(record_text(relation, {}) for relation in program.relations),
        tuple(record_text(stratum, names) for stratum in program.strata),
        tuple(record_text(order, {}) for order in program.orders),
        record_text(program.functions, {}),
    )


def relations_of(program: RowProgram) -> Iterator[RowRelation]:
    """Yield the relations as the program and its strata have them."""
    yield from program.relations
    for stratum in program.strata:
        yield from stratum.relations


def record_text(value: Any, names: Mapping[int, str]) -> str:
    """Return a record, or a value in it, as a Python expression; ``names`` stand for values, by their identity."""
    if id(value) in names:
        return names[id(value)]
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, tuple):
        return f"({', '.join(record_text(item, names) for item in value)}{',' if len(value) == 1 else ''})"
    if is_dataclass(value):
        given = []
        for each in fields(value):
            own = getattr(value, each.name)
            if each.default is MISSING or own != each.default:
                given.append(f"{each.name}={record_text(own, names)}")
        return f"{type(value).__name__}({', '.join(given)})"
    return repr(value)


def roots_of(program: RowProgram, part: str) -> dict[str, set[str]]:
    """Return the names by module that a script uses of the runtime."""
    used = {node.id for node in ast.walk(ast.parse(part)) if isinstance(node, ast.Name)}
    roots = {name: used & module(name).binding.keys() for name in RECORDS}
    roots["database.cli"] = {"run_file_command"}
    roots["database.commands"] = {"functools", *(f"{name}_file" for name in FUNCTIONS)}
    roots |= {f"row_kernel.{stratum.kind}": set() for stratum in program.strata}
    if any(stratum.kind in ("aggregate", "acyclic", "extremal") for stratum in program.strata):
        roots["row_kernel.sums"] = set()
    kinds = {plain_type(column.type) for relation in program.relations for column in relation.columns}
    if kinds - {"int", "string"}:
        roots["inputs.typed_values"] = set()
    if any(relation.key for relation in program.relations):
        roots["row_kernel.keys"] = set()
    if any(relation.copy for relation in program.relations):
        roots["row_kernel.copies"] = set()
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
