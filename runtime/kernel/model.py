"""The data model of a compiled program: columns, relations, rules, strata and stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from .errors import JobError
from .table_names import Change, TableName

MOST_ROUNDS, MOST_ENTRIES = 10_000, 10_000_000
"""The default limits on the rounds and on the derivation sets of a recursion."""

LIFE = 16
"""The length of the life of a process at the beginning of the identities of its base facts."""


@dataclass(frozen=True)
class Column:
    """A column: its name and type in the program, and its name in SQL and in the files of the state."""

    name: str
    type: str
    sql: str


@dataclass(frozen=True)
class NamedFile:
    """A text file that a program names for the rows of a relation: its ``path`` in the folder, the character between
    two fields, which have no quotes, and whether there is a line with the names of the columns above the rows."""

    path: str
    separator: str = "\t"
    header: bool = False


@dataclass(frozen=True)
class Relation:
    """A relation. ``kind`` says what is kept with its tuples: nothing (input, timed; also identities, epochs, dead and
    proofs, which have columns for it), the number of derivations in ``_support`` (counted), the rank in ``_rank`` and
    the number of derivations from lower ranks in ``_support`` (ranked: recursive), the number of copies in ``_support``
    (entries: facts with derivation sets), or partial results
    in ``extra`` (aggregate).

    A recursive relation may keep only the ``best`` tuple of each group, by MIN or MAX of a column. Entries annotate the
    facts of the relation ``annotates``: their last two columns hold the facts that a fact was derived from, and those
    of them that are on a cycle. ``location`` is the location column of localized rules; a relation without columns may
    be ``at`` a constant location instead, here as text. ``bucket_by`` is the column by
    which the relation is cut into buckets, ``definition`` a hash of its rules and layout. Its changes are published in
    a folder of its name, or in ``folder`` if the name is too long or differs from another only in case. The
    ``aggregated`` columns are computed from all derivations of a group; those in ``witnesses`` hold what reaches its
    extremum, or is ranked. Users know a hidden relation as ``shown_as``. Of an input that is a multiset, each copy of a
    row is a tuple, with its number, from 1, in column ``copy``, which no input file has. The program may name the
    ``file`` of an input; the ``clock`` has the time of the last batch.
    """

    name: str
    table: str
    columns: tuple[Column, ...]
    kind: str
    source: str
    output: bool = False
    folder: str = ""
    hidden: bool = False
    key: tuple[str, ...] = ()
    location: str = ""
    at: str | None = None
    bucket_by: str = ""
    extra: tuple[Column, ...] = ()
    best: tuple[str, str] | None = None
    annotates: str = ""
    definition: str = ""
    shown_as: str = ""
    aggregated: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()
    copy: str = ""
    file: NamedFile | None = None
    clock: bool = False

    @property
    def tables(self) -> TableName:
        """The name of its table, with the names of the tables beside it."""
        return TableName(self.table)

    @property
    def change(self) -> Change:
        """The tables of its net change in a batch."""
        return self.tables.change

    @property
    def row_columns(self) -> tuple[Column, ...]:
        """The columns of a row that is read or written for users, with a constant one if there are none."""
        return self.columns or (Column("_unit", "bool", "_unit"),)

    @property
    def term_columns(self) -> tuple[Column, ...]:
        """The columns for which a literal of a rule has terms."""
        return (*self.columns, Column(self.copy, "int", self.copy)) if self.copy else self.columns

    @property
    def tuple_columns(self) -> tuple[Column, ...]:
        """The columns that identify a tuple; a relation without columns is stored with one constant column."""
        return self.term_columns if self.copy else self.row_columns

    @property
    def state_columns(self) -> tuple[Column, ...]:
        """The columns of the stored relation: those of a tuple and those that are kept with it."""
        support = Column("_support", "int", "_support")
        rank = Column("_rank", "int", "_rank")
        hidden = {
            "input": (),
            "timed": (),
            "identities": (),
            "epochs": (),
            "dead": (),
            "proofs": (),
            "counted": (support,),
            "entries": (support,),
            "ranked": (support, rank),
            "aggregate": self.extra,
        }[self.kind]
        return (*self.tuple_columns, *hidden)


@dataclass(frozen=True)
class Both:
    """A query whose text differs between the two engines."""

    duckdb: str
    spark: str


@dataclass(frozen=True)
class Delta:
    """A rule with a body literal replaced by the changes of ``table``; a ``negated`` literal gains what that loses.

    ``lookups`` has SQL conditions by table, alternatives of equalities of a ``stored`` tuple of it and a ``changed``
    one of ``table``. The query needs only the stored tuples that meet a changed one by one of them; each is a test of
    its own, since no join hashes an alternative. Other tables that it reads are needed as a whole.

    In a recursion that orders its groups, it returns groups instead of derivations: those of the head that the changes
    affect; or, for changes of groups themselves, those that depend on them (``_to_1``, ...), with the changed ones
    (``_from_1``, ...) and the tuples of ``others``, the tables of the other literals (``_1_1``, ...).
    """

    table: str
    sql: str | Both
    negated: bool = False
    lookups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    @property
    def change(self) -> Change:
        """The tables of the net change of ``table``."""
        return TableName(self.table).change


@dataclass(frozen=True)
class Step:
    """A step of a rule in the words of the program: a condition, a literal over ``table`` (``negated``: no tuple may
    match), or the expression for ``column`` of the head."""

    text: str
    table: str = ""
    negated: bool = False
    column: str = ""


@dataclass(frozen=True)
class MatrixFactor:
    """A matrix in the product that a recursive rule computes, with rows and columns for the values of two ``types``. It
    has a 1 for each tuple of ``table``, whose ``columns`` say row and column; or, at the pairs that ``query`` returns
    as ``_first`` and ``_last``, how often each is derived, which is once if they are ``distinct``. If the type of rows
    is empty, there is one row. A relation of the stratum itself is transposed if ``columns`` are not in its order. In a
    stratum with extrema entries are values: the extremum, or what is added to it, ``_weight`` of a ``weighted`` query.
    """

    types: tuple[str, str]
    table: str = ""
    columns: tuple[str, str] = ("_first", "_last")
    query: str | Both = ""
    distinct: bool = False
    weighted: bool = False


@dataclass(frozen=True)
class Rule:
    """A rule: ``full`` gives all its derivations, ``deltas`` those that change with a relation of an earlier stratum,
    ``rounds`` those that change with a relation of its own stratum, one for each of its literals; ``returns`` those of
    dead tuples or, for aggregates and extrema, of listed groups. ``asked`` takes one head through the ``steps`` of the
    rule, for explanations. ``matrices`` are the factors of the product that a recursive rule is, if it is one; values
    of its head that are not ``apart`` are left out.

    Queries of ``filtered`` rules read more than their bucket, so their heads are reduced to it. ``partial`` columns are
    NULL where arithmetic or one of ``calls`` has no value, which refuses the batch; ``narrow`` ones only if the value
    does not fit.
    """

    label: str
    source: str
    head: str
    full: str | Both
    deltas: tuple[Delta, ...] = ()
    rounds: tuple[Delta, ...] = ()
    returns: str | Both = ""
    filtered: bool = False
    partial: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    matrices: tuple[MatrixFactor, ...] = ()
    apart: bool = False
    text: str = ""
    steps: tuple[Step, ...] = ()
    asked: str | Both = ""

    @property
    def joined(self) -> set[str]:
        """The tables of its positive literals: it derives nothing if one of them has no rows."""
        return {delta.table for delta in (*self.deltas, *self.rounds) if not delta.negated}

    def read_beside(self, delta: Delta) -> set[str]:
        """Return the tables of the literals that the query of a delta reads in a version before or after changes."""
        return {other.table for other in (*self.deltas, *self.rounds) if other is not delta}


@dataclass(frozen=True)
class Grouping:
    """A relation of a recursion that orders its groups, by its ``table``: table ``of`` has the groups that there may be
    in the same order of columns as ``groups``; ``compute`` and ``ranged`` are as for strata."""

    table: str
    of: str
    groups: tuple[str, ...]
    compute: str | Both
    ranged: tuple[str, ...] = ()

    @property
    def tables(self) -> TableName:
        """The name of its relation's table, with the names of the tables beside it."""
        return TableName(self.table)


@dataclass(frozen=True)
class Stratum:
    """One strongly connected component: its relations, and the earlier relations that its rules read or negate.

    ``kind`` is the key of its method in ``METHODS``. An aggregate groups by ``groups``: ``compute`` makes rows of
    groups from all their derivations, ``fold`` from the old rows and the changes; ``ranged`` columns are NULL if a
    value is out of range. Of each group there are at most ``limit`` rows.
    The rules of a transitive ``closure`` extend a path at its ``start`` or its ``end``.
    Identities are dead if the ``guards`` say so: the relation of the lives that are there, then those of dead ranges.
    ``equations`` say how its recursive rules are products of matrices, if they are.
    ``joined_by`` maps tables to the columns that join them in the rounds of a recursion, by which Spark partitions
    them. ``groupings`` are those of the relations of a recursion that orders its groups.
    ``written`` has the rules of the program that the compiler replaced by others, for explanations.
    """

    name: str
    kind: str
    relations: tuple[Relation, ...]
    reads: tuple[Relation, ...]
    negates: tuple[Relation, ...]
    rules: tuple[Rule, ...]
    groups: tuple[str, ...] = ()
    compute: str | Both = ""
    fold: str | Both = ""
    ranged: tuple[str, ...] = ()
    limit: int = 1
    closure: str = ""
    guards: tuple[Relation, ...] = ()
    equations: tuple[str, ...] = ()
    joined_by: Mapping[str, str] = field(default_factory=dict)
    groupings: tuple[Grouping, ...] = ()
    written: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Consecutive strata that run in one task per bucket if ``bucketed``, otherwise in a single task."""

    strata: tuple[Stratum, ...]
    bucketed: bool


@dataclass(frozen=True)
class ExternalFunction:
    """A function that the user supplies in Python: its name, the types of its parameters and its result, and its SQL
    name if that is not its own with a prefix."""

    name: str
    parameters: tuple[str, ...]
    result: str
    renamed: str = ""

    @property
    def sql(self) -> str:
        """The name of the function in SQL, unique even in engines that ignore case."""
        return self.renamed or f"external__{self.name}"

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.parameters)}): {self.result}"


@dataclass(frozen=True)
class Program:
    """A compiled program; its relations and stages are in the order of evaluation."""

    name: str
    sha256: str
    compiler: str
    relations: tuple[Relation, ...]
    stages: tuple[Stage, ...]
    functions: tuple[ExternalFunction, ...] = ()

    @property
    def clock(self) -> Relation | None:
        """The input relation with the time, if the program reads it."""
        return next((relation for relation in self.relations if relation.clock), None)

    def relation(self, name: str) -> Relation:
        """Return the relation that users call ``name``; raise JobError if there is none."""
        for relation in self.relations:
            if relation.name == name and not relation.hidden:
                return relation
        names = ", ".join(sorted(relation.name for relation in self.relations if not relation.hidden))
        raise JobError(f"there is no relation {name} in {self.name}; it has {names}")


FunctionSource = str | Mapping[str, Callable[..., Any]] | None
"""Where Python functions come from: the path of a file, or a mapping by name."""


class SuppliedFunctions(Protocol):
    """The external functions supplied to a run. ``sources`` has for each a hash of the file that defines it, empty if
    there is none; ``failures`` says why calls failed."""

    sources: Mapping[str, str]
    failures: list[str]

    def define(self, engine: Any, notes: Path | None = None) -> None:
        """Make the functions callable from SQL; record failed calls in ``failures``, and in files in ``notes``."""

    def check(self, manifest: Mapping[str, Any]) -> None:
        """Raise JobError if the state was made with other versions of the functions."""
