"""The names that relations, columns and rules have in the SQL and Python of a script."""

from __future__ import annotations

from dataclasses import dataclass

from flintlog.compiler.ir import typed
from flintlog.compiler.naming import apart, constant_name, shortened, sql_names


@dataclass(frozen=True)
class Names:
    """SQL names: ``tables`` by relation, ``columns`` by relation and column index, ``functions`` by external function;
    and ``folders``, what output relations are published in, which differ also on disks that ignore case.

    A relation without columns is stored with the one column ``_unit``. Relations that are ``projections`` have some
    columns of another one, and some are ``shown`` to users as another one, which has all of their tuples.
    """

    tables: dict[str, str]
    columns: dict[str, tuple[str, ...]]
    functions: dict[str, str]
    folders: dict[str, str]
    projections: dict[str, tuple[str, tuple[int, ...]]]
    shown: dict[str, str]

    @classmethod
    def of(cls, program: typed.Program) -> Names:
        """The names for a program, by the names in its source alone."""
        tables = dict(sql_names(relation.name for relation in program.relations))
        columns = {
            relation.name: tuple(sql_names(column.name for column in relation.columns).values())
            for relation in program.relations
        }
        functions = apart({function.name: function.name for function in program.functions})
        called = {name: f"external__{made}" for name, made in functions.items()}
        outputs = {r.name: shortened(r.public or r.name) for r in program.relations if r.output}
        projections = {r.name: r.projects for r in program.relations if r.projects is not None}
        shown = {relation.name: relation.shown_as for relation in program.relations if relation.shown_as}
        return cls(tables, columns, called, dict(apart(outputs)), projections, shown)

    def tuple_columns(self, relation: str) -> tuple[str, ...]:
        """The columns that identify a tuple in SQL."""
        return self.columns[relation] or ("_unit",)

    def constant(self, relation: str) -> str:
        """The Python constant of a relation."""
        return constant_name(self.tables[relation])
