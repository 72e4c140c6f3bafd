"""Lower what recursions across processes keep beside their relations: identities of base facts, and live proofs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace

from flintlog.compiler.ir import typed
from flintlog.runtime.kernel.model import Column, Relation
from flintlog.runtime.row_kernel.model import (
    UNIT_COLUMN,
    WHOLE_GROUP,
    KeptProofs,
    ProofStratum,
    RowRelation,
    RowStratum,
    named_beside,
)

from ..pyspark.names import Names

IDENTITY = Column("_id", "string", "_id")

Orders = tuple[tuple[str, ...], ...]
"""The orders of columns by which a table is searched."""


class Guarded:
    """The relations of a program that are kept ``beside`` others, by tables."""

    def __init__(self, program: typed.TypedProgram, names: Names, by_table: Mapping[str, Relation]) -> None:
        """Find them; ``by_table`` has all other relations."""
        self.names, self.by_table = names, by_table
        inputs = [relation for relation in program.relations if relation.role == "input"]
        #: The tables of what comes from other processes, by the relations whose tuples those are.
        self.received = {r.annotates: names.tables[r.name] for r in inputs if r.annotates}
        self.dead = [names.tables[r.name] for r in inputs if r.keeps == "dead"]
        self.beside = {
            table: kept for table, relation in by_table.items() if (kept := dict(self.kept_beside(table, relation)))
        }

    def kept_beside(self, table: str, relation: Relation) -> Iterator[tuple[RowRelation, Orders]]:
        """Yield what is kept beside a relation, with its orders."""

        def made(what: str, columns: Sequence[Column], kind: str) -> RowRelation:
            name, hash_ = named_beside(table, what), relation.definition
            return RowRelation(name, name, tuple(columns), kind, relation.source, hidden=True, definition=hash_)

        if relation.kind == "proofs":
            columns = {column.sql: column for column in (*relation.columns, UNIT_COLUMN)}
            key = [columns[name] for name in proved_key(relation)]
            ids = (IDENTITY, *key)
            yield made("ids", ids, "proofs"), (tuple(column.sql for column in ids),)
            if relation.annotates in self.received:
                waiting = (IDENTITY, *relation.columns)
                withdrawn = proved_group(relation) or (relation.columns[-1].sql,)
                yield made("waiting", waiting, "proofs"), (tuple(column.sql for column in waiting), withdrawn)
        elif relation.kind == "identities":
            yield made("last", [Column("_number", "int", "_number")], "identities"), (("_number",),)
        elif table in self.dead:
            yield made("overlaps", relation.columns, "overlaps"), (tuple(column.sql for column in relation.columns),)

    def orders(self) -> Iterator[tuple[str, Orders]]:
        """Yield the orders of what is kept beside others, by tables."""
        for kept in self.beside.values():
            for relation, orders in kept.items():
                yield relation.table, orders

    def overlaps(self) -> Iterator[RowStratum]:
        """Yield the strata of overlaps of dead ranges, which come from other processes."""
        for table in self.dead:
            (relation,) = self.beside[table]
            yield RowStratum(relation.name, "overlaps", (relation,), (), guards=(table,))

    def stratum(self, stratum: RowStratum, relations: Sequence[typed.TypedRelation]) -> RowStratum:
        """Return a stratum of typed relations with what says which identities are dead, if there is such, and with what
        is kept beside its relations."""
        guards = tuple(dict.fromkeys(self.names.tables[name] for relation in relations for name in relation.guards))
        if not guards:
            return stratum
        beside = (kept for relation in stratum.relations for kept in self.beside.get(relation.table, ()))
        stratum = replace(stratum, relations=(*stratum.relations, *beside), guards=guards)
        if stratum.kind != "proofs":
            return stratum
        overlaps = tuple((table, named_beside(table, "overlaps")) for table in guards if table in self.dead)
        given = {field.name: getattr(stratum, field.name) for field in fields(RowStratum)}
        kept = tuple(self.proofs(self.names.tables[relation.name]) for relation in relations)
        return ProofStratum(**given, proofs=kept, overlaps=overlaps)

    def proofs(self, table: str) -> KeptProofs:
        """Return how the relation of a table keeps proofs."""
        relation = self.by_table[table]
        received = self.received.get(relation.annotates, "")
        waiting = named_beside(table, "waiting") if received else ""
        key = proved_key(relation)
        return KeptProofs(table, proved_group(relation), key, named_beside(table, "ids"), received, waiting)


def proved_group(relation: Relation) -> tuple[str, ...]:
    """Return the columns of a group: those of a tuple, without its proof, the value of its extremum and witnesses."""
    return tuple(column.sql for column in relation.columns if column.sql not in unproved(relation))


def unproved(relation: Relation) -> tuple[str, ...]:
    """Return the columns of a relation with proofs that are apart from its groups."""
    return (*(relation.best or ())[1:], *(relation.witnesses if relation.best else ()), relation.columns[-1].sql)


def proved_key(relation: Relation) -> tuple[str, ...]:
    """Return the columns that have one proof: those of a group, or with witnesses those of a tuple behind it."""
    witnessed = unproved(relation)[:-1] if relation.best and relation.witnesses else ()
    return (*proved_group(relation), *witnessed) or (WHOLE_GROUP,)
