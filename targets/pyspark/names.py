"""The names that relations, columns and rules have in the SQL and Python of a script."""

from __future__ import annotations

from dataclasses import dataclass

from flintlog.compiler.ir import typed
from flintlog.compiler.naming import constant_name, sql_names


@dataclass(frozen=True)
class Names:
    """SQL names: ``tables`` by relation, ``columns`` by relation and column index.

    A relation without columns is stored with the one column ``_unit``. Relations that are ``projections`` have some
    columns of another one, and some are ``shown`` to users as another one, which has all of their tuples.
    """

    tables: dict[str, str]
    columns: dict[str, tuple[str, ...]]
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
        projections = {r.name: r.projects for r in program.relations if r.projects is not None}
        shown = {relation.name: relation.shown_as for relation in program.relations if relation.shown_as}
        return cls(tables, columns, projections, shown)

    def tuple_columns(self, relation: str) -> tuple[str, ...]:
        """The columns that identify a tuple in SQL."""
        return self.columns[relation] or ("_unit",)

    def constant(self, relation: str) -> str:
        """The Python constant of a relation."""
        return constant_name(self.tables[relation])
