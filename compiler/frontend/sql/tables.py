"""CREATE TABLE: inputs."""

from __future__ import annotations

from sqlglot import exp

from .joins import table_name
from .program import SqlProgram
from .scope import SqlColumn, SqlTable
from .text import Unsupported, only, shown_name
from .types import SqlTypes

_UNCHECKED = (exp.Reference, exp.CheckColumnConstraint, exp.ForeignKey, exp.Check)
_GIVEN = (exp.DefaultColumnConstraint, exp.AutoIncrementColumnConstraint, exp.GeneratedAsIdentityColumnConstraint)
_IGNORED = (exp.CommentColumnConstraint, exp.NotNullColumnConstraint)


def created_table(node: exp.Create, program: SqlProgram) -> None:
    """Declare the input of a CREATE TABLE. Warn of constraints that are not checked."""
    only(node, "this", "kind", "exists", "replace")
    if not isinstance(node.this, exp.Schema):
        raise Unsupported("E0791", "a table needs its columns", node.this)
    name, types = table_name(node.this.this), SqlTypes()
    if name in program.tables or name in program.views:
        raise Unsupported("E0794", f"there is a table or view `{name}` already", node.this.this)
    columns: list[SqlColumn] = []
    key: list[str] = []
    unique: list[list[str]] = []
    for item in node.this.expressions:
        if isinstance(item, exp.ColumnDef):
            only(item, "this", "kind", "constraints")
            column = shown_name(item.this)
            kinds = [constraint.kind for constraint in item.args.get("constraints") or ()]
            required = any(
                isinstance(kind, exp.GeneratedAsIdentityColumnConstraint)
                or (isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"))
                for kind in kinds
            )
            for kind in kinds:
                if isinstance(kind, exp.PrimaryKeyColumnConstraint):
                    key.append(column)
                elif isinstance(kind, exp.UniqueColumnConstraint):
                    unique.append([column])
                else:
                    _constraint(kind, item, program)
            if item.args.get("kind") is None:
                raise Unsupported("E0793", f"column `{column}` has no type", item)
            columns.append(SqlColumn(column, types.type(item.args["kind"], item.this), not required))
        else:
            constraint = item.expressions[0] if isinstance(item, exp.Constraint) else item
            if isinstance(constraint, exp.PrimaryKey):
                key += [
                    shown_name(part.this if isinstance(part, exp.Ordered) else part) for part in constraint.expressions
                ]
            elif isinstance(constraint, exp.UniqueColumnConstraint):
                unique.append([shown_name(part) for part in constraint.this.expressions])
            else:
                _constraint(constraint, item, program)
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise Unsupported("E0794", f"table `{name}` has two columns of one name", node.this.this)
    for chosen in (key, *unique):
        if unknown := [column for column in chosen if column not in names]:
            raise Unsupported("E0794", f"`{name}` has no column `{unknown[0]}`", node.this.this)
    optional = {column.name for column in columns if column.nullable} - {*key}
    if not key and unique and not optional & {*unique[0]}:
        key = unique.pop(0)
    for others in unique:
        _warn(f"UNIQUE ({', '.join(others)}) is not checked", node.this.this, program)
    columns = [SqlColumn(c.name, c.type, c.name in optional) for c in columns]
    table = SqlTable(name, tuple(columns), (frozenset(key),) if key else (), not key)
    program.declare(table, "input", key)


def _constraint(kind: exp.Expr, item: exp.Expr, program: SqlProgram) -> None:
    """Warn of a constraint that is not checked; raise Unsupported for one that would change rows."""
    if isinstance(kind, _IGNORED):
        return
    if isinstance(kind, _GIVEN):
        name = "DEFAULT" if isinstance(kind, exp.DefaultColumnConstraint) else "a generated number"
        _warn(f"{name} is given to no row", item, program, "rows of inputs have values for all columns")
        return
    if isinstance(kind, _UNCHECKED):
        name = "CHECK" if isinstance(kind, exp.CheckColumnConstraint | exp.Check) else "a foreign key"
        _warn(f"{name} is not checked", item, program)
        return
    name = kind.key.replace("columnconstraint", "").upper()
    names = {"COMPUTED": "a computed column", "GENERATEDASROW": "a generated column"}
    raise Unsupported("E0791", f"{names.get(name, name)} is not supported for inputs", item, "compute it in a view")


def _warn(message: str, node: exp.Expr, program: SqlProgram, help: str = "rows are taken as they are") -> None:
    program.diagnostics.report("W0813", message, program.span(node), help=help)
