"""Reads a program in SQL: tables are inputs, views are relations, materialized views are outputs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sqlglot import exp

from ...diagnostics import Diagnostics
from ...dialects import Load
from ...ir import syntax, typed
from ...source import SourceFile
from ..files import Files
from .expressions import converted
from .functions import COMPARISONS
from .joins import checked_names, table_name
from .program import SqlProgram, is_set, keys_of
from .queries import Queries, Result
from .scope import SqlColumn, SqlTable
from .shorter import written_out
from .tables import created_table
from .text import STATEMENTS, SqlText, Unsupported, only, shown, shown_name
from .words import direct


def read(main: SourceFile, diagnostics: Diagnostics, load: Load, dialect: str = "") -> syntax.SyntaxProgram:
    """Read a program; see :data:`~flintlog.compiler.dialects.Read`. ``dialect`` is one of sqlglot."""
    files = Files(diagnostics, load)
    if not files.add(main):
        return syntax.SyntaxProgram((), tuple(files.sources), complete=False)
    text = SqlText(main, dialect)
    program = SqlProgram(text, diagnostics)
    complete = True
    given = list(text.statements(diagnostics))
    program.named_by_users = frozenset(name for node, _, _ in given for name in _names_of(node))
    for node, span, written in given:
        before = len(program.statements)
        program.begin(span, written)
        try:
            _statement(node, program)
            program.statements[before:] = direct(program.statements[before:])
        except Unsupported as refusal:
            complete = False
            del program.statements[before:]
            program.broken |= set(_names_of(node))
            if refusal.code:
                diagnostics.report(refusal.code, str(refusal), program.span(refusal.node), help=refusal.help)
        except RecursionError:
            complete = False
            del program.statements[before:]
            diagnostics.report("E0711", "the statement is nested too deeply", span)
    complete = complete and not diagnostics.failed
    return syntax.SyntaxProgram(tuple(program.statements), tuple(files.sources), complete=complete)


read_duckdb = partial(read, dialect="duckdb")
read_postgres = partial(read, dialect="postgres")
read_spark = partial(read, dialect="spark")


def _statement(node: exp.Expr, program: SqlProgram) -> None:
    """Read a statement."""
    kind = str(node.args.get("kind") or "").upper() if isinstance(node, exp.Create) else ""
    if isinstance(node, exp.Create) and kind == "TABLE" and node.args.get("expression") is None:
        created_table(node, program)
    elif isinstance(node, exp.Create) and kind == "VIEW" and node.args.get("expression") is not None:
        _view(node, program)
    else:
        name = f"CREATE {kind}" if kind else node.key.upper()
        raise Unsupported("E0791", f"{name} is not supported", None, STATEMENTS)


def _names_of(node: exp.Expr) -> Iterator[str]:
    """Yield the name of what a statement creates."""
    target = node.this.this if isinstance(node.this, exp.Schema) else node.this
    if isinstance(node, exp.Create) and isinstance(target, exp.Table):
        with suppress(Unsupported):
            yield table_name(target)


def _view(node: exp.Create, program: SqlProgram) -> None:
    """Read CREATE VIEW or CREATE MATERIALIZED VIEW."""
    only(node, "this", "kind", "expression", "properties", "replace", "exists")
    properties = node.args["properties"].expressions if node.args.get("properties") is not None else []
    for found in properties:
        if not isinstance(found, exp.MaterializedProperty):
            raise Unsupported("E0791", f"{shown(found)} is not supported for views", node.this)
    target = node.this
    names: list[str] = []
    if isinstance(target, exp.Schema):
        names = [
            shown_name(column.this if isinstance(column, exp.ColumnDef) else column) for column in target.expressions
        ]
        target = target.this
    name = table_name(target)
    if name in program.tables or name in program.views:
        raise Unsupported("E0794", f"there is a table or view `{name}` already", target)
    query = written_out(node.args["expression"], program.dialect)
    if len(names) > len(set(names)):
        raise Unsupported("E0794", f"two columns of `{name}` have one name", target)
    _warn_of_nulls(query, program)
    before = len(program.statements)
    result = Queries(program, name, {}).result(query, None, False)
    whole = result.distinct or result.unique or is_set(program, result.raw)
    if not whole:
        for statement in program.statements[before:]:
            if isinstance(statement, syntax.RelationDeclaration):
                del program.tables[statement.name]
        del program.statements[before:]
        program.made.clear()
        result = Queries(program, name, {}).result(query, None, True)
        whole = is_set(program, result.raw)
    if names:
        result = replace(result, names=checked_names(names, result.names, target))
    if len(result.names) > len(set(result.names)):
        twice = next(one for one in result.names if result.names.count(one) > 1)
        raise Unsupported("E0794", f"two columns of `{name}` are called `{twice}`", target, "write AS and another name")
    columns = program.columns(result.names, result.branches, result.types)
    if whole:
        table = SqlTable(name, columns, () if result.distinct else keys_of(program, result.names, result.raw))
        program.declare(table, "output" if properties else "")
        program.add_rules(table, result.branches)
        return
    # A view with copies is written out where it is read.
    program.views[name] = query if not names else _with_names(query, names)
    if properties:
        _output_copies(name, result, columns, program)


def _warn_of_nulls(query: exp.Expr, program: SqlProgram) -> None:
    """Warn of comparisons that are never true."""
    for node in query.walk():
        compared = type(node) in COMPARISONS
        sides = (node.this, node.expression) if compared else ()
        if isinstance(node, exp.Not) and isinstance(node.this, exp.In):
            sides = tuple(node.this.expressions)
        if any(isinstance(side, exp.Null) for side in sides):
            message = "this is never true: nothing equals NULL, and nothing differs from it"
            help = "write IS NULL or IS NOT NULL" if compared else "leave out NULL"
            program.diagnostics.report("W0814", message, program.span(node), help=help)


def _output_copies(name: str, result: Result, columns: tuple[SqlColumn, ...], program: SqlProgram) -> None:
    """Make an output of a query that may have equal rows: with their number as the last column."""
    if "copies" in result.names:
        message = "the view may have equal rows, which a column `copies` would count, and has such a column"
        raise Unsupported("E0794", message, None, "write DISTINCT, or give the column another name")
    program.declare(SqlTable(name, (*columns, SqlColumn("copies", typed.INT, False))), "output")
    del program.tables[name]
    for branch in result.branches:
        for tests, values in converted(branch.values, [column.type for column in columns]):
            count = syntax.AggregateNode("count", None, False, program.where)
            arguments = [*(value.expression for value in values), count]
            program.rule(name, arguments, (*branch.literals, *tests), span=branch.span)


def _with_names(query: exp.Expr, names: list[str]) -> exp.Expr:
    """Return a query whose columns have other names."""
    alias = exp.TableAlias(this=exp.to_identifier("q"), columns=[exp.to_identifier(n, quoted=True) for n in names])
    return exp.select("*").from_(exp.Subquery(this=query.copy(), alias=alias))
