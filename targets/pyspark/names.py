"""The names of relations, columns, functions and folders in the SQL and the Python of a script."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flintlog.compiler.ir import typed
from flintlog.compiler.ir.plan import FACTOR, WEIGHTED
from flintlog.compiler.naming import apart, shortened, sql_names


@dataclass(frozen=True)
class Names:
    """SQL names: ``tables`` by relation, ``columns`` by relation and column index, ``functions`` by external
    function; and the ``folders`` in which output relations are published, which differ even if case is ignored.

    A relation without columns is stored with one column ``_unit``. ``projections`` maps a relation to the one that it
    has only some columns of, and their indexes; ``shown`` maps one to the relation that users see in its place, which
    has all of its tuples; ``copied`` maps one with the copies of a multiset to that.
    """

    tables: dict[str, str]
    columns: dict[str, tuple[str, ...]]
    functions: dict[str, str]
    folders: dict[str, str]
    projections: dict[str, tuple[str, tuple[int, ...]]]
    shown: dict[str, str]
    copied: dict[str, str]

    @classmethod
    def of(cls, program: typed.TypedProgram) -> Names:
        """Return the names for a program, which depend only on the names in its source."""
        tables = dict(sql_names(relation.name for relation in program.relations))
        columns = {
            relation.name: tuple(sql_names(column.name for column in relation.columns).values())
            for relation in program.relations
        }
        functions = apart({function.name: function.name for function in program.functions})
        called = {name: f"external__{stored_name}" for name, stored_name in functions.items()}
        outputs = {r.name: shortened(r.public or r.name) for r in program.relations if r.output}
        projections = {r.name: r.projects for r in program.relations if r.projects is not None}
        shown = {relation.name: relation.shown_as for relation in program.relations if relation.shown_as}
        copied = {relation.name: relation.public for relation in program.relations if relation.copies}
        return cls(tables, columns, called, dict(apart(outputs)), projections, shown, copied)

    def with_factors(self) -> Names:
        """Return these names with those of the columns of a factor's query."""
        factors = {FACTOR: ("_first", "_last"), WEIGHTED: ("_first", "_last", "_weight")}
        return replace(self, columns={**self.columns, **factors})

    def with_head(self, relation: str, columns: tuple[str, ...]) -> Names:
        """Return these names with those of the columns of a pretended relation."""
        return replace(self, columns={**self.columns, relation: columns})

    def tuple_columns(self, relation: str) -> tuple[str, ...]:
        """Return the columns that identify a tuple in SQL."""
        return self.columns[relation] or ("_unit",)
