"""The delta rules of a stratum, each run at the moment at which all tables have the version that it reads.

For deletions the relations below a stratum go from old to mid, for insertions from mid to new, one after the other. A
delta rule for changes of one of them reads those that have moved in their new version and the others in their old one:
any order of literals gives the same derivations (Nigam et al. 2012, section 3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .model import KeyedSource, RowRule, RowStratum
from .tables import MID_ROWS, NEW_ROWS, OLD_ROWS, ROW_PARTS, RowTables, listed, quoted_sql, same, stored


@dataclass(frozen=True)
class Derivations:
    """The derivations of a rule as parts of a query: FROM items, of which the first is the least, conditions, and the
    values of the head; ``ranks`` are those of its own relations' tuples, ``lacking`` what must not be NULL."""

    items: tuple[str, ...]
    conditions: tuple[str, ...]
    values: tuple[str, ...]
    ranks: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    @property
    def lacks(self) -> str:
        """The condition that a derivation lacks a value which it needs, empty if none can."""
        return " OR ".join(f"({value}) IS NULL" for value in self.lacking)

    @property
    def rank(self) -> str:
        """The rank of a derivation: the greatest of its tuples of the same stratum."""
        if len(self.ranks) > 1:
            return f"max({', '.join(self.ranks)})"
        return self.ranks[0] if self.ranks else "0"

    def select(self, values: Sequence[str], further: Sequence[str] = (), items: Sequence[str] = ()) -> str:
        """Return the query for values of each derivation, which meets further conditions with further items. The first
        value, which no table takes as NULL, is NULL where the derivation lacks a value."""
        first, *others = values
        listed = ", ".join([f"iif({self.lacks}, NULL, {first})" if self.lacking else first, *others])
        conditions = " AND ".join([*self.conditions, *further]) or "TRUE"
        return f"SELECT {listed} FROM {' CROSS JOIN '.join([*self.items, *items])} WHERE {conditions}"


def join_order(tables: RowTables, rule: RowRule, place: int) -> tuple[int, ...]:
    """Return the order in which the sources of a rule are joined behind the literal at a place, or, at -1, behind
    wanted heads."""
    for choice in rule.choices:
        if choice.start == place:
            order: tuple[int, ...] = ROW_PARTS["join order"](tables, rule, choice)
            return order
    return rule.joins[place]


def keyed_source(tables: RowTables, rule: RowRule, place: int) -> KeyedSource | None:
    """Return how the other literals of a rule are joined with the changes of the one at a place, if that is once for
    each key of these. Tables of changes are searched by the columns of their tuples in order."""
    keyed = next((one for one in rule.keyed if one.place == place), None)
    table = tables.tables[rule.sources[place].table] if keyed else None
    return keyed if table and table.key == table.columns else None


def row_derivations(
    tables: RowTables,
    rule: RowRule,
    start: tuple[int, str] | None = None,
    sources: Mapping[int, tuple[str, str]] | None = None,
    absent: Mapping[int, Sequence[str]] | None = None,
    members: frozenset[str] = frozenset(),
    first: str = "",
) -> Derivations:
    """Return the derivations of a rule.

    ``start`` says that a literal (positive ones are counted first) reads another table than its own. ``sources`` say so
    for further positive literals, with a condition on their rows, in which ``{}`` is the alias; ``absent`` which tables
    negated literals look into. ``members`` are tables with ranks; ``first`` is a further first item.
    """
    place, changed = start if start is not None else (-1, "")
    items: list[str] = [first] if first else []
    conditions = list(rule.where)
    keyed = keyed_source(tables, rule, place)
    if 0 <= place < len(rule.sources):
        read = f"(SELECT DISTINCT {listed(keyed.columns)} FROM {changed})" if keyed else changed
        items.append(f"{read} AS {quoted_sql(rule.sources[place].alias)}")
    # Of all derivations, nothing is bound, so there is no choice.
    for number in join_order(tables, rule, place) if start or first else rule.joins[-1]:
        source = rule.sources[number]
        table, condition = (sources or {}).get(number, (stored(source.table), ""))
        alias = quoted_sql(source.alias)
        items.append(f"{table} AS {alias}")
        if condition:
            conditions.append(condition.format(alias))
    if keyed:
        items.append(f"{changed} AS _changed")
        conditions.append(same(keyed.columns, "_changed", quoted_sql(rule.sources[place].alias)))
    ranks = [
        "_changed._rank" if keyed and number == place else f"{quoted_sql(source.alias)}._rank"
        for number, source in enumerate(rule.sources)
        if source.table in members
    ]
    for number, absence in enumerate(rule.absences, len(rule.sources)):
        alias = quoted_sql(absence.alias)
        if number == place:
            items.insert(0, f"{changed} AS {alias}")
            conditions.append(absence.condition)
            continue
        for table in (absent or {}).get(number, (stored(absence.table),)):
            conditions.append(f"NOT EXISTS (SELECT 1 FROM {table} AS {alias} WHERE {absence.condition})")
    values = keyed.values if keyed else rule.values
    return Derivations(tuple(items), tuple(conditions), values, tuple(ranks), rule.lacking)


Use = tuple[RowRule, int]
"""A rule and the number of one of its literals, the positive ones first."""

Emit = Callable[[RowRule, Derivations], None]
"""What is done with the derivations of a rule that a changed literal gives or takes."""


def literals(rule: RowRule) -> list[str]:
    """Return the tables of a rule's literals, the positive ones first."""
    return [*(source.table for source in rule.sources), *(absence.table for absence in rule.absences)]


def below(stratum: RowStratum) -> list[str]:
    """Return the tables that a stratum reads, without its own."""
    own = {relation.table for relation in stratum.relations}
    return [name for name in dict.fromkeys(t for rule in stratum.rules for t in literals(rule)) if name not in own]


def absences(tables: RowTables, rule: RowRule, version: str) -> dict[int, list[str]]:
    """Return where negated literals look, if all are to be absent from one version."""
    first = len(rule.sources)
    return {i: tables.absent_from(a.table, version) for i, a in enumerate(rule.absences, first)}


def run_deltas(tables: RowTables, stratum: RowStratum, phase: str, emit: Emit) -> None:
    """Move the relations below a stratum through a phase, ``delete`` or ``insert``, and emit the derivations lost or
    gained with each."""
    source, target = (OLD_ROWS, MID_ROWS) if phase == "delete" else (MID_ROWS, NEW_ROWS)
    own = frozenset(relation.table for relation in stratum.relations)
    members = own if stratum.kind in ("ranked", "extremal", "entries") else frozenset[str]()
    uses: dict[tuple[bool, str], list[Use]] = {}
    for rule in stratum.rules:
        for number, name in enumerate(literals(rule)):
            if name not in own:
                uses.setdefault((number >= len(rule.sources), name), []).append((rule, number))
    negated = {name: source for is_negated, name in uses if is_negated}
    for _, name in uses:
        tables.move(name, source)

    def run(use: Use, changed: str, overlaid: Sequence[int] = ()) -> None:
        """Emit what a changed literal gives; of those overlaid, each reads its table or the changes."""
        rule, place = use
        name, is_negated = literals(rule)[place], place >= len(rule.sources)
        absent: dict[int, Sequence[str]] = {}
        for number, absence in enumerate(rule.absences, len(rule.sources)):
            version = negated[absence.table]
            if is_negated and absence.table == name:
                version = target if number < place else source
            absent[number] = tables.absent_from(absence.table, version)
        variants: list[Mapping[int, tuple[str, str]]] = [{}]
        for number in overlaid:
            variants += [{**variant, number: (changed, "")} for variant in variants]
        for sources in variants:
            emit(rule, row_derivations(tables, rule, (place, changed), sources, absent, members))

    for (is_negated, name), of in sorted(uses.items(), key=lambda pair: pair[0]):
        table = tables.tables[name]
        if is_negated:
            if table.gained if phase == "delete" else table.lost:
                for use in of:
                    run(use, table.work("gained" if phase == "delete" else "lost"))
            negated[name] = target
            continue
        after: list[tuple[Use, list[int]]] = []
        if table.lost if phase == "delete" else table.gained:
            changed = table.work("lost" if phase == "delete" else "gained")
            for rule, place in of:
                places = [number for other, number in of if other is rule]
                if place == places[0]:
                    # The others are still in the version from which the phase leads.
                    run((rule, place), changed)
                    continue
                # Those before it have moved. Those behind it have not: they also read what was lost; or, when rows are
                # gained, the table has them too soon: the rule runs before the move, and those before it read more.
                later = [number for number in places if number > place]
                if not later or phase == "delete":
                    after.append(((rule, place), later))
                else:
                    run((rule, place), changed, [number for number in places if number < place])
        tables.move(name, target)
        for use, overlaid in after:
            run(use, changed, overlaid)


def begin_row_changes(tables: RowTables, stratum: RowStratum) -> None:
    """Make the work tables of what the relations of a stratum lose and gain."""
    for relation in stratum.relations:
        table = tables.tables[relation.table]
        for suffix in ("lost", "gained"):
            tables.work_table(table, suffix, table.state, key=table.columns)


def add_derivations(tables: RowTables, into: str, columns: str, query: str) -> int:
    """Add the derivations of a query, with their number ``_copies``, to a work table; return how many there are."""
    return tables.execute(
        f"INSERT INTO {into} ({columns}, _copies) {query} "
        "ON CONFLICT DO UPDATE SET _copies = _copies + excluded._copies"
    ).rowcount
