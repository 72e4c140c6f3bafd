"""Keep the identities of base facts that are gone, as ranges, in place: see ``kernel/identity_ranges.py``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..kernel.model import LIFE
from .batch import BEGINNING
from .deltas import begin_row_changes, row_derivations
from .identities import NUMBER_WIDTH
from .model import RowStratum
from .recount import RowFinding
from .tables import LAYOUTS, MID_ROWS, NEW_ROWS, ROW_METHODS, ROW_PARTS, RowTable, RowTables, listed, quoted_sql

IdentityRange = tuple[str, int, int]
"""The prefix of identities, the first number and the last one."""


def maintain_dead_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Add the identities that are gone; those of an ended life are dead anyway, and left out."""
    begin_row_changes(tables, stratum)
    if tables.tables[BEGINNING].gained:
        return
    table, lives = tables.tables[stratum.relations[0].table], tables.tables[stratum.guards[0]]
    # With a life of its own a process begins new epochs, which are not over.
    tables.move(lives.relation.table, MID_ROWS)
    gone = buried_ranges(tables, stratum)
    tables.move(lives.relation.table, NEW_ROWS)
    _, life, own = map(quoted_sql, lives.columns)
    living = {text for (text,) in tables.execute(f"SELECT {life} FROM {lives.name} WHERE {own}")}
    new = [one for one in gone if one[0][:LIFE] in living]
    old = {found for one in joined_ranges(new) for found in touched_ranges(tables, table, one)}
    following = {*joined_ranges([*new, *old])}
    ended = set()
    if lives.lost:
        first, last = map(quoted_sql, table.columns)
        for start, end in tables.execute(
            f"SELECT s.{first}, s.{last} FROM (SELECT DISTINCT {life} AS _life FROM {lives.work('lost')}) AS g "
            f"CROSS JOIN {table.name} AS s WHERE s.{first} > g._life AND s.{first} < g._life || ':'"
        ):
            if start[:LIFE] not in living:
                ended.add(range_of(start, end))
    for suffix, ranges in (("lost", (old - following) | ended), ("gained", following - old)):
        into = f"INSERT INTO {table.work(suffix)} ({listed(table.columns)}) VALUES (?, ?)"
        tables.connection.executemany(into, map(bounds_of, sorted(ranges)))
    table.lost, table.gained = len((old - following) | ended), len(following - old)


def buried_ranges(tables: RowTables, stratum: RowStratum) -> list[IdentityRange]:
    """Return the ranges that have died: identities of tuples that are gone, and, with each new epoch, those of earlier
    epochs of the same tuple."""
    found = []
    for rule in stratum.rules:
        source = tables.tables[rule.sources[0].table]
        suffix = "lost" if source.relation.kind == "identities" else "gained"
        if source.lost if suffix == "lost" else source.gained:
            derived = row_derivations(tables, rule, (0, source.work(suffix)))
            found += [range_of(*row) for row in tables.execute(derived.select(derived.values))]
    return found


def range_of(first: str, last: str) -> IdentityRange:
    """Return the range of identities from one to another."""
    return first[:-NUMBER_WIDTH], int(first[-NUMBER_WIDTH:]), int(last[-NUMBER_WIDTH:])


def bounds_of(one: IdentityRange) -> tuple[str, str]:
    """Return the first and the last identity of a range."""
    prefix, first, last = one
    return f"{prefix}{first:0{NUMBER_WIDTH}d}", f"{prefix}{last:0{NUMBER_WIDTH}d}"


def joined_ranges(ranges: Iterable[IdentityRange]) -> list[IdentityRange]:
    """Return ranges in order, those that touch each other as one."""
    joined: list[IdentityRange] = []
    for prefix, first, last in sorted(ranges):
        if joined and joined[-1][0] == prefix and first <= joined[-1][2] + 1:
            first, last = joined[-1][1], max(last, joined.pop()[2])
        joined.append((prefix, first, last))
    return joined


def touched_ranges(tables: RowTables, table: RowTable, one: IdentityRange) -> list[IdentityRange]:
    """Return the stored ranges that touch one."""
    prefix, first, last = one
    start, end = map(quoted_sql, table.columns)
    least, most = bounds_of((prefix, 0, last + 1))
    rows = f"SELECT {start}, {end} FROM {table.name} WHERE {start} BETWEEN ? AND ? ORDER BY {start}"
    here, _ = bounds_of(one)
    before = tables.execute(f"{rows} DESC LIMIT 1", (least, here)).fetchall()
    found = {range_of(*row) for row in [*before, *tables.execute(rows, (here, most))]}
    return [other for other in found if other[2] + 1 >= first]


def recount_dead_rows(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield queries for identities of facts that are there although they are dead."""
    table = tables.tables[stratum.relations[0].table]
    first, last = map(quoted_sql, table.columns)
    for rule in stratum.rules:
        source = tables.tables[rule.sources[0].table]
        if source.relation.kind == "identities":
            name = f"i.{quoted_sql(source.columns[-1])}"
            dead = f"{source.name} AS i JOIN {table.name} AS d ON {name} BETWEEN d.{first} AND d.{last}"
            yield table.relation.name, "there although dead", f"SELECT {name} FROM {dead}"


ROW_METHODS["dead"] = maintain_dead_rows
ROW_PARTS["recount dead"] = recount_dead_rows
LAYOUTS["dead"] = lambda stratum, relation, columns: (columns, ())
