"""Maintain recursions annotated with their derivations (Nigam et al. 2012, section 5).

Relations hold entries: facts with a derivation set and an infinite-count set, and the number of their derivations in
``_support``. The changes of a round are a multiset with signs, and so are their consequences. An entry is derived
only from smaller ones, so rounds end, and deletions follow the paths that insertions took.
"""

from __future__ import annotations

from collections.abc import Sequence

from .changes import all_derivations, check_defined, no_changes, show_versions
from .counted import add_counts, signed_arrivals
from .engine import Engine
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import Relation, Stratum
from .recursion import LimitReached, changed_rows, check_round, following
from .sql import names, union
from .supports import support_findings


def maintain_entries(run: Run, stratum: Stratum, clock: int) -> int:
    """Propagate the changes below from entry to entry, then add their sum to the state; return the clock unchanged."""
    engine = run.engine
    engine.begin(stratum)
    for relation in stratum.relations:
        if run.initial:
            engine.empty(relation.table, relation.state_columns)
        for table in (relation.tables.changed, relation.tables.summed):
            engine.empty(table, relation.state_columns)
    first_entries(run, stratum)
    done = 0
    while changed := changed_rows(engine, stratum):
        check_round(stratum, done, run.max_rounds)
        done += 1
        show_entries(engine, stratum)
        derived = {r.table: following(engine, stratum, r) for r in stratum.relations}
        for relation in stratum.relations:
            sum_entries(engine, stratum, relation, derived[relation.table], relation.tables.entering)
        for relation in stratum.relations:
            table = relation.tables
            if engine.rows(table.changed):
                engine.add(table.summed, table.changed)
            engine.rename(table.entering, table.changed)
        run.note(stratum.name, "entries", done, changed)
        check_entries(run, stratum)
    for relation in stratum.relations:
        settle_entries(run, stratum, relation)
    return clock


def first_entries(run: Run, stratum: Stratum) -> None:
    """Make r__changed of the first round: the entries whose derivations changed with a relation below."""
    engine = run.engine
    if run.initial:
        show_versions(engine, stratum, "insert")
        for relation in stratum.relations:
            derived = all_derivations(engine, stratum, relation, run.bucket, exits=True)
            sum_entries(engine, stratum, relation, derived, relation.tables.changed)
        return
    show_entries(engine, stratum)
    for relation in stratum.relations:
        arrived = signed_arrivals(run, stratum, relation, "_copies")
        sum_entries(engine, stratum, relation, arrived, relation.tables.changed)
    # The first entries came from the versions in the two phases; all rounds read the new state below the stratum.
    show_versions(engine, stratum, "insert")


def sum_entries(engine: Engine, stratum: Stratum, relation: Relation, derived: Sequence[str], table: str) -> None:
    """Make ``table`` of the derived entries, each once with the sum of its copies, without those whose sum is 0."""
    columns = names(relation.tuple_columns)
    if not derived:
        engine.empty(table, relation.state_columns)
        return
    engine.table(
        table,
        f"SELECT {columns}, CAST(SUM(_copies) AS BIGINT) AS _support FROM ({union(derived)}) AS q "
        f"GROUP BY {columns} HAVING SUM(_copies) <> 0",
    )


def show_entries(engine: Engine, stratum: Stratum) -> None:
    """Define the versions of the stratum's entries that the queries of a round read; copies need not be summed."""
    for relation in stratum.relations:
        table, columns = relation.tables, names(relation.state_columns)
        changed = engine.rows(table.changed)
        parts = [f"SELECT {columns} FROM {table}"]
        parts += [f"SELECT {columns} FROM {table.summed}"] * bool(engine.rows(table.summed))
        engine.view(table.before, union(parts))
        engine.view(table.delta, f"SELECT {columns} FROM {table.changed}", changed)
        parts += [f"SELECT {columns} FROM {table.changed}"] * bool(changed)
        engine.view(table.after, union(parts))


def check_entries(run: Run, stratum: Stratum) -> None:
    """Raise LimitReached if a recursion has too many derivation sets, apart from those that come and go within a
    batch."""
    engine = run.engine
    tables = [relation.tables for relation in stratum.relations]
    held = sum(engine.rows(part) for table in tables for part in (table, table.summed, table.changed))
    if held > run.max_entries and sum(held_entries(engine, r) for r in stratum.relations) > run.max_entries:
        raise LimitReached(
            f"{stratum.name}: more than {run.max_entries} derivation sets; leave out --recursion "
            "derivation-sets, or raise --max-entries; nothing was changed",
            stratum,
        )


def held_entries(engine: Engine, relation: Relation) -> int:
    """Return how many entries a relation has once r__summed and r__changed are added. Those that the next round would
    start from count, since it pairs them with each other before it can be refused."""
    table, columns = relation.tables, names(relation.tuple_columns)
    parts = [f"SELECT {columns}, _support FROM {part}" for part in (table, table.summed, table.changed)]
    sums = f"SELECT {columns} FROM ({union(parts)}) AS q GROUP BY {columns} HAVING SUM(_support) <> 0"
    return int(engine.first(f"SELECT COUNT(*) AS n FROM ({sums}) AS h", 1)[0]["n"])


def settle_entries(run: Run, stratum: Stratum, relation: Relation) -> None:
    """Add r__summed to the state. Missing values are checked only here: entries derived from tuples that coexist
    neither before the batch nor after it have cancelled out."""
    engine, table, columns = run.engine, relation.tables, names(relation.tuple_columns)
    summed = f"CAST(SUM(_support) AS BIGINT) AS {'_support' if run.initial else '_change'}"
    sums = f"SELECT {columns}, {summed} FROM {table.summed} GROUP BY {columns} HAVING SUM(_support) <> 0"
    if run.initial:
        engine.table(table, sums)
        check_defined(engine, stratum, relation, table)
        no_changes(engine, relation)
    elif engine.rows(table.summed):
        engine.table(table.counts, sums)
        add_counts(engine, stratum, relation)
    else:
        no_changes(engine, relation)


def recount_entries(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for missing entries and wrong numbers of derivations."""
    for relation in stratum.relations:
        for table in (relation.tables.changed, relation.tables.summed):
            engine.empty(table, relation.state_columns)
    show_entries(engine, stratum)
    findings = []
    for relation in stratum.relations:
        derived = union(all_derivations(engine, stratum, relation, bucket, exits=False))
        findings += support_findings(engine, relation, derived, [], "COALESCE(SUM(d._copies), 0)", ["_copies"])
    return findings


METHODS["entries"] = Method(maintain_entries, recount_entries, 12)
