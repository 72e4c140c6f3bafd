"""Maintain a recursion across processes with one live proof for each tuple.

A proof is a set of identities of base facts that suffices to derive a tuple; it is live while none of them is dead. A
tuple is there if a rule gives a live proof of it, and one is kept: as long as it is live, no other is looked at. After
a batch, tuples whose proofs have died are removed, and derived again if they still can be. Nothing else follows from
that, since a tuple whose own proof is live stays. No cycle can keep itself alive: proofs contain base facts only.

Of a relation with ``min`` or ``max``, the best value of each group that has a live proof is kept. It is the value of a
real derivation, so values cannot count to infinity. With witnesses, all tuples of the group that have this value are
kept, each with a proof of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from .changes import (
    all_derivations,
    arriving,
    check_defined,
    lacking,
    live_rules,
    no_changes,
    note_touched,
    show_versions,
)
from .engine import Engine
from .method_interface import METHODS, Bucket, Finding, Method, Run
from .model import LIFE, Column, Relation, Stratum
from .recursion import LimitReached, changed_rows, check_round, following
from .sql import names, tuple_names, union


def maintain_proofs(run: Run, stratum: Stratum, clock: int) -> int:
    """Drop proofs that have died, and find live ones for tuples without; return the clock unchanged."""
    engine = run.engine
    engine.begin(stratum)
    for relation in stratum.relations:
        if run.initial:
            engine.empty(relation.table, relation.state_columns)
        no_changes(engine, relation)
        let_proofs_leave(run, stratum, relation)
    show_versions(engine, stratum, "insert")
    show_proofs(engine, stratum)
    derived = {relation.table: first_proofs(run, stratum, relation) for relation in stratum.relations}
    done = 0
    while any(derived.values()):
        check_round(stratum, done, run.max_rounds)
        done += 1
        for relation in stratum.relations:
            foreign = done == 1 and received_from(stratum, relation) is not None
            find_proofs(engine, stratum, relation, derived[relation.table], foreign)
        for relation in stratum.relations:
            enter_proofs(engine, relation)
        check_size(run, stratum)
        run.note(stratum.name, "prove", done, changed_rows(engine, stratum))
        derived = {r.table: following(engine, stratum, r) for r in stratum.relations}
    for relation in stratum.relations:
        settle_proofs(run, relation)
    return clock


def proved_columns(relation: Relation) -> tuple[Column, ...]:
    """Return the columns of a group: those of a tuple, without its proof, the value of its extremum and witnesses."""
    apart = (*relation.best[1:], *relation.witnesses) if relation.best else ()
    return tuple(c for c in relation.columns[:-1] if c.sql not in apart)


def proof_column(relation: Relation) -> str:
    """Return the column of the proof."""
    return relation.columns[-1].sql


def same_proved(relation: Relation, left: str, right: str) -> str:
    """Return the SQL condition that two rows are of the same group."""
    return " AND ".join(f"{left}.{column.sql} = {right}.{column.sql}" for column in proved_columns(relation)) or "TRUE"


def worse_value(relation: Relation, left: str, right: str) -> str:
    """Return the SQL condition that the value of one row is worse than that of another; of a relation without an
    extremum, no row is worse."""
    if not relation.best:
        return "FALSE"
    function, value = relation.best
    return f"{left}.{value} {'>' if function == 'MIN' else '<'} {right}.{value}"


def wanted_proofs(relation: Relation, derived: str) -> str:
    """Return a query for the rows of a query that are to be kept: those of groups that have no row, or one with a worse
    value, and with witnesses also those that are new beside tuples with the same value."""
    table, columns = relation.tables, names(relation.tuple_columns, "d.")
    same, better = same_proved(relation, "s", "d"), worse_value(relation, "s", "d")
    if not relation.witnesses or not relation.best:
        absent = f"s.{proof_column(relation)} IS NULL"
        return f"SELECT {columns} FROM ({derived}) AS d LEFT JOIN {table} AS s ON {same} WHERE {absent} OR {better}"
    value = relation.best[1]
    same_tuple = " AND ".join(f"t.{column.sql} = d.{column.sql}" for column in relation.columns[:-1])
    groups = names([column for column in relation.columns if column in proved_columns(relation) or column.sql == value])
    return (
        f"SELECT {columns} FROM ({derived}) AS d LEFT JOIN (SELECT DISTINCT {groups} FROM {table}) AS s ON {same} "
        f"ANTI JOIN {table} AS t ON {same_tuple} WHERE s.{value} IS NULL OR NOT ({worse_value(relation, 'd', 's')})"
    )


def received_from(stratum: Stratum, relation: Relation) -> Relation | None:
    """Return the input with the tuples and proofs of a relation that another process derives; None for others."""
    return next((r for r in stratum.reads if r.kind == "input" and r.annotates == relation.annotates), None)


def dead_ids(engine: Engine, stratum: Stratum, table: str, column: str, gained: bool) -> str:
    """Return a query for the dead ones of the identities in the proofs of a table. If ``gained``, only changes of this
    batch are looked at, since none was dead before."""
    lives, *dead = stratum.guards
    life = tuple_names(lives)[1]
    parts = [f"LEFT(u.id, {LIFE}) NOT IN (SELECT {life} FROM {lives.table})"]
    for relation in dead:
        of = relation.change.gained if gained else relation.table
        if engine.rows(of):
            first, last = tuple_names(relation)
            parts.append(f"EXISTS (SELECT 1 FROM {of} AS d WHERE u.id BETWEEN d.{first} AND d.{last})")
    ids = f"SELECT DISTINCT UNNEST({column}) AS id FROM {table}"
    return f"SELECT u.id FROM ({ids}) AS u WHERE {' OR '.join(parts)}"


def hit_by(proof: str, ids: str) -> str:
    """Return the SQL condition that a proof has one of the identities of a query."""
    return f"COALESCE(LIST_HAS_ANY({proof}, (SELECT LIST(id) FROM ({ids}) AS i)), FALSE)"


def let_proofs_leave(run: Run, stratum: Stratum, relation: Relation) -> None:
    """Remove the tuples whose proof has died, or was withdrawn by the process that derives them. Make r__lost of them,
    and r__dead of their groups."""
    engine, table, columns = run.engine, relation.tables, names(relation.tuple_columns)
    key = proved_columns(relation) or (Column("_unit", "bool", "_unit"),)
    gone: list[str] = []
    if not run.initial and engine.rows(table):
        lives, *dead = stratum.guards
        if engine.rows(lives.change.lost) or any(engine.rows(r.change.gained) for r in dead):
            hit = hit_by(proof_column(relation), dead_ids(engine, stratum, table, proof_column(relation), gained=True))
            gone.append(f"SELECT {columns} FROM {table} WHERE {hit}")
        source = received_from(stratum, relation)
        if source and engine.rows(source.change.lost):
            same = " AND ".join(
                f"s.{own.sql} = w.{theirs.sql}" for own, theirs in zip(relation.columns, source.columns, strict=True)
            )
            withdrawn = f"{table} AS s SEMI JOIN {source.change.lost} AS w ON {same}"
            gone.append(f"SELECT {names(relation.tuple_columns, 's.')} FROM {withdrawn}")
    lost = relation.change.lost
    if gone and engine.table(lost, "\nUNION\n".join(gone)):
        remove_proved(engine, relation, lost)
        groups = f"SELECT {names(proved_columns(relation)) or 'TRUE AS _unit'} FROM {lost}"
        engine.snapshot(table.dead, groups, engine.rows(lost))
    else:
        engine.empty(table.dead, key)


def remove_proved(engine: Engine, relation: Relation, rows: str) -> None:
    """Remove the rows of a table from r; without witnesses, a group has at most one row."""
    keys = [column.sql for column in (relation.columns[:-1] if relation.witnesses else proved_columns(relation))]
    engine.remove(relation.table, rows, keys or tuple_names(relation), engine.rows(rows))


def first_proofs(run: Run, stratum: Stratum, relation: Relation) -> list[str]:
    """Return the queries for proofs from what is new below, and for proofs of tuples that have lost theirs. Proofs with
    identities of lives that were unknown are looked at again once these are known."""
    engine = run.engine
    if run.initial:
        return all_derivations(engine, stratum, relation, run.bucket, exits=True)
    lives, *dead = stratum.guards
    if engine.rows(lives.change.gained) or any(engine.rows(r.change.lost) for r in dead):
        return all_derivations(engine, stratum, relation, run.bucket, exits=False)
    derived = arriving(engine, stratum, relation, "insert", run.bucket)
    if engine.rows(relation.tables.dead):
        derived += [engine.text(rule.returns) for rule in live_rules(engine, stratum, relation.table)]
    return derived


def show_proofs(engine: Engine, stratum: Stratum) -> None:
    """Define the versions of the stratum's tuples that the queries of a round read."""
    for relation in stratum.relations:
        table, columns = relation.tables, names(relation.state_columns)
        engine.empty(table.changed, relation.tuple_columns)
        for name in (table.before, table.after):
            engine.view(name, f"SELECT {columns} FROM {table}")
        engine.view(table.delta, f"SELECT {columns} FROM {table.changed}")


def find_proofs(engine: Engine, stratum: Stratum, relation: Relation, derived: Sequence[str], foreign: bool) -> None:
    """Make r__entering of the derived rows that are to be kept: of each group those with the best value, and of each
    tuple the one with the shortest proof. Those that other processes have sent, if there are such ``foreign`` ones, may
    be dead, and are left out then."""
    table, columns, of = relation.tables, names(relation.tuple_columns), proof_column(relation)
    if not derived:
        engine.empty(table.entering, relation.tuple_columns)
        return
    candidates = f"SELECT {names(relation.tuple_columns, 'd.')} FROM ({union(derived)}) AS d"
    if engine.rows(table):
        candidates = wanted_proofs(relation, union(derived))
    first = ""
    if lacking(stratum, relation):
        if not engine.table(table.found, candidates):
            engine.empty(table.entering, relation.tuple_columns)
            return
        check_defined(engine, stratum, relation, table.found)
    else:
        first = f"WITH {table.found} AS {'MATERIALIZED ' if foreign else ''}({candidates}) "
    ids = dead_ids(engine, stratum, table.found, of, gained=False)
    live = f"NOT {hit_by(of, ids)}" if foreign else "TRUE"
    kept = f"{live} QUALIFY {chosen_proofs(relation)}"
    engine.table(table.entering, f"{first}SELECT {columns} FROM {table.found} WHERE {kept}")


def chosen_proofs(relation: Relation) -> str:
    """Return the SQL condition on a row, among others, that it has the best value of its group, and the shortest proof
    of its tuple."""
    of = proof_column(relation)
    order, best = f"LEN({of}), {of}", ""
    partition = f"PARTITION BY {names(proved_columns(relation))} " if proved_columns(relation) else ""
    if relation.best:
        function, value = relation.best
        by_value = f"{value} {'ASC' if function == 'MIN' else 'DESC'}"
        if relation.witnesses:
            best = f"RANK() OVER ({partition}ORDER BY {by_value}) = 1 AND "
            partition = f"PARTITION BY {names(relation.columns[:-1])} "
        else:
            order = f"{by_value}, {order}"
    return f"{best}ROW_NUMBER() OVER ({partition}ORDER BY {order}) = 1"


def enter_proofs(engine: Engine, relation: Relation) -> None:
    """Put r__entering into r in place of worse values, and add it to r__gained; it becomes r__changed."""
    table, columns = relation.tables, names(relation.tuple_columns, "s.")
    if engine.rows(table.entering):
        if relation.best and engine.rows(table):
            same = same_proved(relation, "s", "e")
            same += f" AND {worse_value(relation, 's', 'e')}" if relation.witnesses else ""
            worse = f"SELECT {columns} FROM {table} AS s SEMI JOIN {table.entering} AS e ON {same}"
            if engine.table(table.worse, worse):
                remove_proved(engine, relation, table.worse)
                engine.add(relation.change.lost, table.worse)
        engine.add(table, table.entering)
        if engine.rows(relation.change.gained):
            engine.add(relation.change.gained, table.entering)
        else:
            engine.part(relation.change.gained, table.entering, "*", "TRUE")
    engine.rename(table.entering, table.changed)


def check_size(run: Run, stratum: Stratum) -> None:
    """Raise Refused if a recursion has too many tuples: one that computes values may not end."""
    held = sum(run.engine.rows(relation.table) for relation in stratum.relations)
    if held > run.max_entries:
        raise LimitReached(
            f"{stratum.name}: more than {run.max_entries} tuples; if the recursion ends, raise --max-entries; "
            "nothing was changed",
            stratum,
        )


def settle_proofs(run: Run, relation: Relation) -> None:
    """Take from r__lost and r__gained what is in both: tuples that were only there in between, or have come back; make
    r__touched."""
    engine, table, columns = run.engine, relation.tables, names(relation.tuple_columns)
    lost, gained, _ = relation.change
    if run.initial:
        no_changes(engine, relation)
        return
    if engine.rows(lost) and engine.rows(gained):
        both = f"SELECT {columns} FROM {lost} SEMI JOIN {gained} USING ({columns})"
        if engine.table(table.between, both):
            # A tuple may leave, come back, and be replaced by a better one: then it was lost twice and gained once.
            for left, name, other in ((table.worse, lost, gained), (table.entering, gained, lost)):
                engine.table(left, f"SELECT {columns} FROM {name} EXCEPT ALL SELECT {columns} FROM {other}")
            engine.rename(table.worse, lost)
            engine.rename(table.entering, gained)
    if engine.rows(lost) + engine.rows(gained):
        note_touched(engine, relation)


def recount_proofs(engine: Engine, stratum: Stratum, bucket: Bucket) -> list[Finding]:
    """Return queries for tuples that rules give a live proof of, which are missing or have a worse value, for proofs
    that are dead, and for groups, or with witnesses tuples, with several."""
    show_proofs(engine, stratum)
    findings = []
    for relation in stratum.relations:
        table, columns = relation.tables, names(relation.tuple_columns)
        engine.table(table.found, union(all_derivations(engine, stratum, relation, bucket, exits=False)))
        for name in (table, table.found):
            engine.table(name.ids, dead_ids(engine, stratum, name, proof_column(relation), gained=False))
        dead = "LIST_HAS_ANY({}, COALESCE((SELECT LIST(id) FROM {}), []))"
        live = f"NOT {dead.format(f'd.{proof_column(relation)}', table.found.ids)}"
        better = wanted_proofs(relation, f"SELECT * FROM {table.found}")
        missing = f"SELECT {names(relation.tuple_columns, 'd.')} FROM ({better}) AS d WHERE {live}"
        findings += [
            Finding(relation.name, "missing or not the best" if relation.best else "missing", missing),
            Finding(
                relation.name,
                "dead proof",
                f"SELECT {columns} FROM {table} WHERE {dead.format(proof_column(relation), table.ids)}",
            ),
        ]
        if relation.witnesses:
            same, worse = same_proved(relation, "s", "b"), worse_value(relation, "s", "b")
            rows = f"SELECT {names(relation.tuple_columns, 's.')} FROM {table} AS s"
            replaced = f"{rows} SEMI JOIN {table} AS b ON {same} AND {worse}"
            findings.append(Finding(relation.name, "worse than another one of its group", replaced))
        grouped = names(relation.columns[:-1] if relation.witnesses else proved_columns(relation))
        if grouped:
            several = f"SELECT {grouped} FROM {table} GROUP BY {grouped} HAVING COUNT(*) > 1"
            findings.append(Finding(relation.name, "several proofs", several))
    return findings


METHODS["proofs"] = Method(maintain_proofs, recount_proofs, 8, follows=True)
