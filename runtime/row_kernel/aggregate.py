"""Maintain aggregates: fold changes into counts and sums, or compute the groups that changes affect again, also where
only the first rows of a group are kept."""

from __future__ import annotations

from collections.abc import Sequence

from .deltas import Derivations, absences, begin_row_changes, row_derivations, run_deltas
from .model import WHOLE_GROUP, Aggregated, RowRelation, RowRule, RowStratum
from .tables import LAYOUTS, NEW_ROWS, RECOMPUTED, ROW_METHODS, RowTable, RowTables, listed, quoted_sql, same


def is_folded(stratum: RowStratum) -> bool:
    """Return whether changes can be folded into all aggregates: counts, and sums of numbers that are exact."""
    if stratum.kind != "aggregate":
        return False
    exact = (a.function == "count" or (a.function in ("sum", "avg") and a.type != "float") for a in all_of(stratum))
    return all(exact)


def all_of(stratum: RowStratum) -> tuple[Aggregated, ...]:
    """Return the columns that a stratum of one relation aggregates."""
    return stratum.aggregates_of(stratum.relations[0].table)


def sums_of(stratum: RowStratum) -> list[Aggregated]:
    """Return the aggregates with an exact sum."""
    return [a for a in all_of(stratum) if a.function in ("sum", "avg") and a.type != "float"]


def group_layout(
    stratum: RowStratum, relation: RowRelation, columns: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which columns are those of a group, and what is kept with a row: how many derivations it has, and sums."""
    computed = {aggregated.column for aggregated in stratum.aggregates_of(relation.table)}
    key = tuple(column for column in columns if column not in computed) or (WHOLE_GROUP,)
    if stratum.ranking is not None:
        return key, ()
    sums = tuple(f"_sum_{a.column}" for a in sums_of(stratum)) if is_folded(stratum) else ()
    return key, (*((WHOLE_GROUP,) if key == (WHOLE_GROUP,) else ()), "_rows", *sums)


def groups_of(stratum: RowStratum, table: RowTable) -> tuple[str, ...]:
    """Return the columns by which a stratum groups."""
    if stratum.ranking is None:
        return table.key
    ranked = {stratum.ranking.place, *stratum.ranking.ranked}
    return tuple(column for column in table.columns if column not in ranked) or (WHOLE_GROUP,)


def maintain_aggregate_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Bring the stratum's only relation up to date."""
    begin_row_changes(tables, stratum)
    table = tables.tables[stratum.relations[0].table]
    place = {column: i for i, column in enumerate(table.columns)}
    sums = sums_of(stratum) if is_folded(stratum) else []
    extra = "".join(f", {quoted_sql(f'_sum_{a.column}')} NOT NULL" for a in sums)
    groups = groups_of(stratum, table)
    marks = tables.work_table(table, "marks", groups, f", _copies INTEGER{extra}")
    sum_names = [f"_sum_{a.column}" for a in sums]
    adds = ", ".join(f"{quoted_sql(n)} = _plus({quoted_sql(n)}, excluded.{quoted_sql(n)})" for n in sum_names)
    for phase, sign in (("delete", "-1"), ("insert", "1")):

        def emit(rule: RowRule, found: Derivations, sign: str = sign) -> None:
            key = ["1" if column == WHOLE_GROUP else found.values[place[column]] for column in groups]
            added = [f"_units({sign}, {found.values[place[a.column]]}, '{a.type}')" for a in sums]
            tables.execute(
                f"INSERT INTO {marks} ({listed([*groups, '_copies', *sum_names])}) "
                f"{found.select([*key, sign, *added])} ON CONFLICT DO UPDATE SET "
                f"{', '.join(filter(None, ['_copies = _copies + excluded._copies', adds]))}"
            )

        run_deltas(tables, stratum, phase, emit)
    following = tables.work_table(table, "next", table.state, key=table.key)
    columns = listed(table.state)
    if stratum.ranking is not None:
        rank_groups(tables, stratum, table, marks)
        return
    if sums or is_folded(stratum):
        rows = "coalesce(s._rows, 0) + m._copies"
        made = {column: f"m.{quoted_sql(column)}" for column in table.key} | {"_rows": rows}
        for aggregated in all_of(stratum):
            name = f"_sum_{aggregated.column}"
            total = f"_plus(coalesce(s.{quoted_sql(name)}, 0), m.{quoted_sql(name)})"
            made[name] = total
            made[aggregated.column] = (
                rows
                if aggregated.function == "count"
                else (f"_{aggregated.function}({rows}, {total}, '{aggregated.type}')")
            )
        tables.execute(
            f"INSERT INTO {following} ({columns}) SELECT {', '.join(made[c] for c in table.state)} FROM {marks} AS m "
            f"LEFT JOIN {table.name} AS s ON {same(table.key, 's', 'm')}"
        )
    else:
        compute_row_groups(tables, stratum, table, marks, following)
    note_groups(tables, table, following)


def compute_row_groups(
    tables: RowTables,
    stratum: RowStratum,
    table: RowTable,
    marks: str,
    following: str,
    groups: Sequence[str] | None = None,
) -> None:
    """Put the rows of marked groups, by the columns ``groups`` (default: all of the key), into a table, computed from
    all their derivations; of a group without any, a row with ``_rows`` 0."""
    place = {column: i for i, column in enumerate(table.columns)}
    own = stratum.aggregates_of(table.relation.table)
    values = [a.column for a in own]
    # An aggregate has another type than its values.
    kinds = {column: table.types.get(column, "BLOB") for column in table.key} | dict.fromkeys(values, "BLOB")
    needed = ", ".join(f"{quoted_sql(column)} {kind} NOT NULL" for column, kind in kinds.items())
    rows = tables.make(table.work("rows"), needed)
    groups = [column for column in table.key if column != WHOLE_GROUP] if groups is None else groups
    for rule in stratum.rules:
        if rule.head != table.relation.table:
            continue
        found = row_derivations(tables, rule, absent=absences(tables, rule, NEW_ROWS), first=f"{marks} AS _marks")
        key = ["1" if column == WHOLE_GROUP else found.values[place[column]] for column in table.key]
        matches = [f"_marks.{quoted_sql(column)} = {found.values[place[column]]}" for column in groups]
        chosen = found.select([*key, *(found.values[place[c]] for c in values)], matches)
        tables.execute(f"INSERT INTO {rows} {chosen}")
    made = {column: f"r.{quoted_sql(column)}" for column in table.key} | {"_rows": "COUNT(*)"}
    made |= {f"_sum_{a.column}": f"_units_sum(r.{quoted_sql(a.column)}, '{a.type}')" for a in own}
    for aggregated in own:
        value = f"r.{quoted_sql(aggregated.column)}"
        if aggregated.function == "count":
            made[aggregated.column] = "COUNT(*)"
        elif aggregated.function in ("min", "max"):
            made[aggregated.column] = extremum(aggregated, value)
        else:
            way = "float" if aggregated.type == "float" else "exact"
            made[aggregated.column] = f"_{way}_{aggregated.function}({value}, '{aggregated.type}')"
    columns = listed(table.state)
    tables.execute(
        f"INSERT INTO {following} ({columns}) SELECT {', '.join(made[c] for c in table.state)} FROM {rows} AS r "
        f"GROUP BY {listed(table.key, 'r')}"
    )


def rank_groups(tables: RowTables, stratum: RowStratum, table: RowTable, marks: str) -> None:
    """Note what a relation with the first rows of groups loses and gains in marked groups."""
    ranking, place = stratum.ranking, {column: i for i, column in enumerate(table.columns)}
    assert ranking is not None
    groups = groups_of(stratum, table)
    by = [f"_by_{number}" for number, _ in enumerate(ranking.order, 1)]
    columns = [*groups, *by, *ranking.ranked]
    needed = ", ".join(f"{quoted_sql(c)} {table.types.get(c, 'BLOB')} NOT NULL" for c in columns)
    rows = tables.make(table.work("rows"), needed)
    for rule in stratum.rules:
        found = row_derivations(tables, rule, absent=absences(tables, rule, NEW_ROWS), first=f"{marks} AS _marks")
        key = ["1" if column == WHOLE_GROUP else found.values[place[column]] for column in groups]
        matches = [f"_marks.{quoted_sql(c)} = {found.values[place[c]]}" for c in groups if c != WHOLE_GROUP]
        values = [*key, *rule.ordered, *(found.values[place[column]] for column in ranking.ranked)]
        tables.execute(f"INSERT INTO {rows} {found.select(values, matches)}")
    kinds = {c.sql: c.type for c in table.relation.columns}
    order = [sort_key(name, kind, down) for name, (kind, down) in zip(by, ranking.order, strict=True)]
    order += [sort_key(name, kinds[name], False) for name in ranking.ranked]
    placed = (
        f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {listed(groups)} ORDER BY {', '.join(order)}) AS "
        f"{quoted_sql(ranking.place)} FROM (SELECT DISTINCT {listed(columns)} FROM {rows})"
    )
    following, shown = table.work("next"), listed(table.columns)
    tables.execute(
        f"INSERT INTO {following} ({shown}) SELECT {shown} FROM ({placed}) "
        f"WHERE {quoted_sql(ranking.place)} <= {ranking.limit}"
    )
    alike = same(table.columns, "n", "s")
    found_in = same([c for c in groups if c != WHOLE_GROUP], "m", "s")
    table.lost = tables.execute(
        f"INSERT INTO {table.work('lost')} ({shown}) SELECT {listed(table.columns, 's')} FROM {marks} AS m CROSS JOIN "
        f"{table.name} AS s WHERE {found_in} AND NOT EXISTS (SELECT 1 FROM {following} AS n WHERE {alike})"
    ).rowcount
    table.gained = tables.execute(
        f"INSERT INTO {table.work('gained')} ({shown}) SELECT {shown} FROM {following} AS n WHERE NOT EXISTS "
        f"(SELECT 1 FROM {table.name} AS s WHERE {alike})"
    ).rowcount


def sort_key(name: str, kind: str, descending: bool) -> str:
    """Return SQL that orders by a column: null comes first, lists by their items."""
    down, column = " DESC" if descending else "", quoted_sql(name)
    ordered = f"{column} COLLATE _list{down}" if "list<" in kind else f"{column}{down}"
    return f"{column} <> x''{down}, {ordered}" if kind.endswith("?") else ordered


def extremum(aggregated: Aggregated, value: str) -> str:
    """Return SQL for the least or the greatest value of a group."""
    if aggregated.type.startswith("list<") or aggregated.type.endswith("?"):
        return f"_{aggregated.function}imum({value})"
    return f"{aggregated.function}({value})"


def note_groups(tables: RowTables, table: RowTable, following: str) -> None:
    """Note what a table loses and gains as its groups become those in a table; of marked groups that are not there, all
    is lost. What only changes in hidden columns is changed at once."""
    marks, columns = table.work("marks"), listed(table.state)
    values = [column for column in table.columns if column not in table.key]
    alike, found = same(values, "n", "s"), same(table.key, "n", "s")
    lost = (
        f"INSERT INTO {table.work('lost')} ({columns}) SELECT {listed(table.state, 's')} FROM {following} AS n "
        f"CROSS JOIN {table.name} AS s WHERE {found} AND (n._rows = 0 OR NOT ({alike}))"
    )
    table.lost = tables.execute(lost).rowcount
    table.gained = tables.execute(
        f"INSERT INTO {table.work('gained')} ({columns}) SELECT {columns} FROM {following} AS n WHERE n._rows > 0 AND "
        f"NOT EXISTS (SELECT 1 FROM {table.name} AS s WHERE {found} AND {alike})"
    ).rowcount
    gone = f"NOT EXISTS (SELECT 1 FROM {following} AS n WHERE {same(table.key, 'n', 'm')})"
    table.lost += tables.execute(
        f"INSERT INTO {table.work('lost')} ({columns}) SELECT {listed(table.state, 's')} FROM {marks} AS m "
        f"CROSS JOIN {table.name} AS s WHERE {same(table.key, 'm', 's')} AND {gone}"
    ).rowcount
    tables.execute(
        f"INSERT OR REPLACE INTO {table.name} ({columns}) SELECT {listed(table.state, 'n')} FROM {following} AS n "
        f"CROSS JOIN {table.name} AS s WHERE {found} AND n._rows > 0 AND {alike}"
    )


ROW_METHODS["aggregate"] = maintain_aggregate_rows
LAYOUTS["aggregate"] = group_layout


def recompute(tables: RowTables, stratum: RowStratum, table: RowTable) -> None:
    """Fill r__next with the rows of all groups that are derived or stored."""
    groups = groups_of(stratum, table)
    marks = tables.work_table(table, "all", groups)
    following = tables.work_table(table, "next", table.state, key=table.key)
    for suffix in ("lost", "gained"):
        tables.work_table(table, suffix, table.state, key=table.columns)
    place = {column: i for i, column in enumerate(table.columns)}
    for rule in stratum.rules:
        if rule.head == table.relation.table:
            found = row_derivations(tables, rule)
            key = ["1" if column == WHOLE_GROUP else found.values[place[column]] for column in groups]
            tables.execute(f"INSERT INTO {marks} {found.select(key)} ON CONFLICT DO NOTHING")
    if stratum.ranking is not None:
        rank_groups(tables, stratum, table, marks)
    else:
        compute_row_groups(tables, stratum, table, marks, following)


RECOMPUTED["aggregate"] = RECOMPUTED["acyclic"] = recompute
