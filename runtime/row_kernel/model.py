"""The relations and rules of a program as methods for rows evaluate them: one piece of SQL for each part of a rule."""

from __future__ import annotations

from dataclasses import dataclass

from ..kernel.errors import JobError
from ..kernel.model import Column, ExternalFunction, NamedFile

UNIT_COLUMN = Column("_unit", "bool", "_unit")
"""What a relation without columns is stored with."""


@dataclass(frozen=True)
class RowRelation:
    """A relation. ``kind`` is ``input``, or says what is kept with its tuples. Of each group a recursive relation may
    keep only the ``best`` tuple, by MIN or MAX of a column. ``location`` is the location column, of a relation without
    columns ``at`` the constant location. ``definition`` is a hash of its rules. Users know a hidden relation as
    ``shown_as``; one that has tuples of another one with proofs or derivation sets ``annotates`` that. Of an input that
    is a multiset, each copy of a row is a tuple, with its number in column ``copy``. The program may name the ``file``
    of an input; the ``clock`` has the time of the last batch."""

    name: str
    table: str
    columns: tuple[Column, ...]
    kind: str
    source: str
    output: bool = False
    hidden: bool = False
    key: tuple[str, ...] = ()
    location: str = ""
    at: str | None = None
    best: tuple[str, str] | None = None
    definition: str = ""
    shown_as: str = ""
    copy: str = ""
    file: NamedFile | None = None
    clock: bool = False
    annotates: str = ""

    @property
    def row_columns(self) -> tuple[Column, ...]:
        """The columns of a row that is read or written for users, with a constant one if there are none."""
        return self.columns or (UNIT_COLUMN,)

    @property
    def term_columns(self) -> tuple[Column, ...]:
        """The columns for which a literal of a rule has terms."""
        return (*self.columns, Column(self.copy, "int", self.copy)) if self.copy else self.columns

    @property
    def tuple_columns(self) -> tuple[Column, ...]:
        """The columns that identify a tuple; a relation without columns is stored with one constant column."""
        return self.term_columns or (UNIT_COLUMN,)


@dataclass(frozen=True)
class RowSource:
    """A positive literal of a rule: its table, and the alias that the SQL of the rule has for it."""

    table: str
    alias: str


@dataclass(frozen=True)
class Absence:
    """A negated literal of a rule: no row of a table, under an alias, may have the values of ``terms``: columns, and
    SQL."""

    table: str
    alias: str
    terms: tuple[tuple[str, str], ...]

    @property
    def condition(self) -> str:
        """The condition that a row has the values."""
        alias, *columns = (name.replace('"', '""') for name in (self.alias, *(column for column, _ in self.terms)))
        pairs = zip(columns, (value for _, value in self.terms), strict=True)
        return " AND ".join(f'"{alias}"."{column}" = {value}' for column, value in pairs) or "TRUE"


@dataclass(frozen=True)
class Aggregated:
    """A column of a head that is aggregated: its name, the function, and the type and scale of what it adds up."""

    column: str
    function: str
    type: str = ""
    scale: int = 0


@dataclass(frozen=True)
class RowRanking:
    """How a relation has the first rows of each group: the column of the place, what it ranks, by the types and
    directions of what it is ordered by, and of how many rows."""

    place: str
    ranked: tuple[str, ...]
    order: tuple[tuple[str, bool], ...]
    limit: int


@dataclass(frozen=True)
class JoinChoice:
    """Orders in which the sources of a rule may be joined behind what they start with: each has the places of sources,
    with the columns by which they are searched."""

    start: int
    orders: tuple[tuple[tuple[int, tuple[str, ...]], ...], ...]


@dataclass(frozen=True)
class KeyedSource:
    """A positive literal of a rule, by its place, whose first ``columns`` are all that other literals and conditions
    need: behind its changes, those are joined once for each key, and then with the changes. ``values`` are those of the
    head, where these have alias ``_changed``."""

    place: int
    columns: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True)
class RowRule:
    """A rule in SQL. ``values`` are the values of the head's columns, NULL where arithmetic has none: of an aggregated
    column, the value that is aggregated; ``ordered`` those by which a head is ranked. ``where`` are the conditions that
    hold together with the sources. ``joins`` has the order in which the sources are joined, by their places: for each
    literal, the positive ones first, that of its changes, and behind these that for wanted heads; ``choices`` are the
    orders between which statistics choose, by the same places, -1 for wanted heads. Of ``lacking`` none may be NULL.
    ``keyed`` are the sources of which many rows may change for one key."""

    label: str
    source: str
    head: str
    values: tuple[str, ...]
    sources: tuple[RowSource, ...]
    where: tuple[str, ...] = ()
    absences: tuple[Absence, ...] = ()
    ordered: tuple[str, ...] = ()
    joins: tuple[tuple[int, ...], ...] = ()
    text: str = ""
    choices: tuple[JoinChoice, ...] = ()
    lacking: tuple[str, ...] = ()
    keyed: tuple[KeyedSource, ...] = ()


@dataclass(frozen=True)
class RowGrouping:
    """A relation of a recursion that orders its groups: its table, and the table ``of`` the groups that there may be,
    whose columns are ``groups`` in the same order.
    ``marks`` derive the groups in which derivations change with relations below; ``leads`` derive, behind a group of
    this relation, the group that it depends on, a row of the table ``of`` at the place that they begin with."""

    table: str
    of: str
    groups: tuple[str, ...]
    marks: tuple[RowRule, ...]
    leads: tuple[tuple[RowRule, int], ...]


@dataclass(frozen=True)
class RowStratum:
    """A strongly connected component: its relations and rules, and the kind of its method. ``aggregated`` are the
    columns that it aggregates, by table; ``guards`` say which identities are dead: lives, then dead ranges. A timed
    one selects by a bound: ``crossing`` derives what one bound, the first source, selects, and another, the second one,
    does not."""

    name: str
    kind: str
    relations: tuple[RowRelation, ...]
    rules: tuple[RowRule, ...]
    aggregated: tuple[tuple[str, tuple[Aggregated, ...]], ...] = ()
    ranking: RowRanking | None = None
    groupings: tuple[RowGrouping, ...] = ()
    guards: tuple[str, ...] = ()
    crossing: RowRule | None = None

    def aggregates_of(self, table: str) -> tuple[Aggregated, ...]:
        """Return the columns that are aggregated in a table."""
        return dict(self.aggregated).get(table, ())


def named_beside(table: str, what: str) -> str:
    """Return the name of a table that is kept beside one; relations have no double underscores in their names."""
    return f"{table}__{what}"


@dataclass(frozen=True)
class KeptProofs:
    """How a relation keeps live proofs, which are in its last column: one for each tuple of ``key`` columns, of which a
    ``group`` has several if they are witnesses of its extremum. Table ``identities`` has those in its proofs, table
    ``received`` the tuples that another process derives, if there are such, table ``waiting`` those of them whose
    proofs are dead."""

    table: str
    group: tuple[str, ...]
    key: tuple[str, ...]
    identities: str
    received: str = ""
    waiting: str = ""


@dataclass(frozen=True)
class ProofStratum(RowStratum):
    """A stratum whose relations keep ``proofs``. ``overlaps`` maps guards that are inputs to the tables of those of
    their ranges that may overlap others."""

    proofs: tuple[KeptProofs, ...] = ()
    overlaps: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class RowProgram:
    """A compiled program; its relations and strata are in the order of evaluation. ``orders`` has for each table the
    orders of columns by which it is searched, that of its primary key first. A file has further tables and indexes
    ``beside`` those of relations: types, names and definitions."""

    name: str
    sha256: str
    compiler: str
    relations: tuple[RowRelation, ...]
    strata: tuple[RowStratum, ...]
    orders: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    functions: tuple[ExternalFunction, ...] = ()
    beside: tuple[tuple[str, str, str], ...] = ()

    @property
    def inputs(self) -> dict[str, RowRelation]:
        """The input relations by their names."""
        return {relation.name: relation for relation in self.relations if relation.kind == "input"}

    @property
    def clock(self) -> RowRelation | None:
        """The input relation with the time, if the program reads it."""
        return next((relation for relation in self.relations if relation.clock), None)

    def relation(self, name: str) -> RowRelation:
        """Return the relation that users call ``name``; raise JobError if there is none."""
        shown = {relation.name: relation for relation in self.relations if not relation.hidden}
        if name not in shown:
            raise JobError(f"there is no relation {name} in {self.name}; it has {', '.join(sorted(shown))}")
        return shown[name]


WHOLE_GROUP = "_unit"
"""The column of a group that is all there is."""
