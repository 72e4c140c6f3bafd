"""Maintain a recursion across processes with one live proof for each tuple, in place.

The columns' method says what a proof is (``kernel/proofs.py``). Here a table beside each relation has the identities in
its proofs, so that those which die find their tuples by a search. These leave; of their groups, and of what is new
below, live proofs are derived, and from these further ones, round by round. A proof is stored as other lists are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..kernel.errors import Refused
from .deltas import Derivations, absences, begin_row_changes, row_derivations, run_deltas
from .liveness import Liveness, index_proofs
from .model import KeptProofs, ProofStratum, RowRelation, RowRule, RowStratum
from .received_proofs import Received
from .recount import RowFinding
from .tables import (
    LAYOUTS,
    NEW_ROWS,
    ROW_METHODS,
    ROW_PARTS,
    RowTable,
    RowTables,
    better_value,
    listed,
    quoted_sql,
    same,
    stored,
)


def maintain_proof_rows(tables: RowTables, stratum: RowStratum) -> None:
    """Drop proofs that have died, and find live ones for tuples without."""
    proofs = Proofs(tables, stratum)
    proofs.let_leave()
    proofs.find()
    proofs.note()


def proof_layout(
    stratum: RowStratum, relation: RowRelation, columns: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return which columns have one proof, those of the group first, and what else is kept with a row: the constant
    column of a relation that is one group."""
    assert isinstance(stratum, ProofStratum)
    key = next((kept.key for kept in stratum.proofs if kept.table == relation.table), columns)
    return key, tuple(column for column in key if column not in columns)


class Proofs:
    """A stratum with proofs while a batch changes it."""

    def __init__(self, tables: RowTables, stratum: RowStratum) -> None:
        assert isinstance(stratum, ProofStratum)
        self.tables, self.stratum, self.kept = tables, stratum, {kept.table: kept for kept in stratum.proofs}
        self.liveness = Liveness(tables, stratum)
        self.own = [tables.tables[name] for name in self.kept]
        self.held = sum(table.rows for table in self.own)
        begin_row_changes(tables, stratum)
        self.received = {
            table.relation.table: Received(tables, table, self.kept[table.relation.table], self.liveness)
            for table in self.own
        }
        for table in self.own:
            kept = self.kept[table.relation.table]
            columns = ", ".join(f"{quoted_sql(c)} {table.types.get(c, 'INTEGER')} NOT NULL" for c in table.state)
            # What lacks a value is refused.
            tables.make(table.work("found"), f"{columns}, PRIMARY KEY ({listed(table.key)})", "WITHOUT ROWID")
            tables.work_table(table, "leaving", table.key)
            tables.work_table(table, "gone", kept.group or table.key)
            for suffix in ("changed", "worse"):
                tables.work_table(table, suffix, table.state, key=table.key)

    def let_leave(self) -> None:
        """Remove the tuples whose proofs have died, or were withdrawn by the process that derives them."""
        execute = self.tables.execute
        self.liveness.show_new()
        for table in self.own:
            kept, leaving, lost = self.kept[table.relation.table], table.work("leaving"), table.work("lost")
            ways = self.liveness.died(stored(kept.identities))
            queries = [f"{listed(table.key, 'i')} FROM {way}" for way in ways]
            received = self.received[table.relation.table]
            received.take_back()
            source = received.source
            if source and source.lost:
                pairs = zip(table.columns, source.columns, strict=True)
                at = " AND ".join(f"s.{quoted_sql(one)} = w.{quoted_sql(other)}" for one, other in pairs)
                withdrawn = f"{source.work('lost')} AS w CROSS JOIN {table.name} AS s WHERE {at}"
                queries.append(f"{listed(table.key, 's')} FROM {withdrawn}")
            left = sum(execute(f"INSERT OR IGNORE INTO {leaving} SELECT {query}").rowcount for query in queries)
            if left:
                self.held -= left
                execute(
                    f"INSERT INTO {lost} ({listed(table.state)}) SELECT {listed(table.state, 's')} "
                    f"FROM {leaving} AS l CROSS JOIN {table.name} AS s WHERE {same(table.key, 's', 'l')}"
                )
                groups = listed(kept.group or table.key)
                execute(f"INSERT OR IGNORE INTO {table.work('gone')} SELECT {groups} FROM {leaving}")
                self.tables.remove(table, leaving)

    def find(self) -> None:
        """Find proofs of what is new below, and of groups that have lost theirs, and what follows from them."""
        tables, done = self.tables, 1
        run_deltas(tables, self.stratum, "insert", self.derive)
        self.liveness.show_new()
        revived = {name: received.revive() for name, received in self.received.items()}
        for rule in self.stratum.rules:
            table, kept = tables.tables[rule.head], self.kept[rule.head]
            absent = absences(tables, rule, NEW_ROWS)
            if revived[rule.head] and is_from_others(rule, kept):
                self.derive(rule, row_derivations(tables, rule, (0, revived[rule.head])))
            if tables.has_rows(table.work("gone")):
                found = row_derivations(tables, rule, absent=absent, first=f"{table.work('gone')} AS _gone")
                values = dict(zip(table.columns, found.values, strict=True))
                self.derive(rule, found, [f"_gone.{quoted_sql(column)} = {values[column]}" for column in kept.group])
        for name, received in self.received.items():
            if received.source:
                received.leave_out_dead()
                self.offer(
                    tables.tables[name], f"SELECT {listed(received.table.state)} FROM {received.sent} WHERE TRUE"
                )
        while True:
            entered = {table.relation.table: self.enter(table) for table in self.own}
            self.check_size()
            sources = [(rule, place) for rule in self.stratum.rules for place, _ in enumerate(rule.sources)]
            uses = [(rule, place) for rule, place in sources if entered.get(rule.sources[place].table)]
            if not uses:
                return
            tables.check_round(self.stratum.name, done)
            done += 1
            for rule, place in uses:
                changed = tables.tables[rule.sources[place].table].work("changed")
                absent = absences(tables, rule, NEW_ROWS)
                self.derive(rule, row_derivations(tables, rule, (place, changed), None, absent))

    def derive(self, rule: RowRule, found: Derivations, further: Sequence[str] = ()) -> None:
        """Note derivations that are to be kept: of groups that have no row, or one with a worse value, and with
        witnesses also those that are new beside tuples with the same value."""
        table = self.tables.tables[rule.head]
        query = self.wanted(rule, found, further)
        if is_from_others(rule, self.kept[rule.head]):
            sent = f"{self.received[rule.head].sent} ({listed(table.state)})"
            self.tables.execute(f"INSERT INTO {sent} {query} ON CONFLICT DO NOTHING")
        else:
            self.offer(table, query)

    def wanted(self, rule: RowRule, found: Derivations, further: Sequence[str] = ()) -> str:
        """Return the query for derivations that have no row in their place, or lack a value, which refuses them."""
        table = self.tables.tables[rule.head]
        values = dict(zip(table.columns, found.values, strict=True))
        absent = f"NOT ({' OR '.join(self.kept_already(table, self.kept[rule.head], values))})"
        conditions = [*further, f"({' OR '.join(filter(None, [absent, found.lacks]))})"]
        return found.select([*found.values, *("1" for _ in table.hidden)], conditions)

    def kept_already(self, table: RowTable, kept: KeptProofs, values: Mapping[str, str]) -> list[str]:
        """Return the conditions that a derivation of values has a row in its place."""

        def there(columns: Sequence[str], better: str = "") -> str:
            at = [f"_head.{quoted_sql(column)} = {values[column]}" for column in columns if column in values]
            conditions = " AND ".join([*at, *filter(None, [better])]) or "TRUE"
            return f"EXISTS (SELECT 1 FROM {table.name} AS _head WHERE {conditions})"

        if not table.relation.best:
            return [there(kept.key)]
        value = table.relation.best[1]
        several = value in kept.key
        better = better_value(table.relation, f"_head.{quoted_sql(value)}", values[value], equal=not several)
        return [there(kept.group, better), *([there(kept.key)] if several else [])]

    def offer(self, table: RowTable, query: str) -> None:
        """Add derivations to r__found, which keeps for each key the one with the best value and the shortest proof."""
        proof = quoted_sql(table.columns[-1])
        order = " < ".join(f"({size_of(side + proof)}, {side}{proof})" for side in ("excluded.", ""))
        changed = [proof]
        if table.relation.best and table.relation.best[1] not in table.key:
            value = quoted_sql(table.relation.best[1])
            changed.append(value)
            better = better_value(table.relation, f"excluded.{value}", value)
            order = f"{better} OR (excluded.{value} = {value} AND {order})"
        self.tables.execute(
            f"INSERT INTO {table.work('found')} ({listed(table.state)}) {query} ON CONFLICT DO UPDATE SET "
            f"{', '.join(f'{column} = excluded.{column}' for column in changed)} WHERE {order}"
        )

    def enter(self, table: RowTable) -> int:
        """Put the best ones of r__found into r, in place of worse ones; return how many."""
        execute, state, best = self.tables.execute, listed(table.state), table.relation.best
        group = self.kept[table.relation.table].group
        found, changed, worse = (table.work(suffix) for suffix in ("found", "changed", "worse"))
        several = best and best[1] in table.key
        execute(f"DELETE FROM {changed}")
        only = "TRUE"
        if best:
            value = quoted_sql(best[1])
            at = same(group, "o", "f")
            if several:
                bettered = f"{at} AND {better_value(table.relation, f'o.{value}', f'f.{value}')}"
                only = f"NOT EXISTS (SELECT 1 FROM {found} AS o WHERE {bettered})"
        entered = execute(f"INSERT INTO {changed} ({state}) SELECT {state} FROM {found} AS f WHERE {only}").rowcount
        execute(f"DELETE FROM {found}")
        if not entered:
            return 0
        if best:
            execute(f"DELETE FROM {worse}")
            better = better_value(table.relation, f"f.{value}", f"o.{value}")
            left = execute(
                f"INSERT OR IGNORE INTO {worse} ({state}) SELECT {listed(table.state, 'o')} FROM {changed} AS f "
                f"CROSS JOIN {table.name} AS o WHERE {at} AND {better}"
            ).rowcount
            if left:
                self.held -= left
                self.tables.remove(table, worse)
                self.note_rows(table, worse, "lost", "gained")
        self.tables.put(table, changed)
        self.note_rows(table, changed, "gained", "lost")
        self.held += entered
        return entered

    def note_rows(self, table: RowTable, rows: str, into: str, other: str) -> None:
        """Note rows of a table in r__lost or r__gained, or take them from the other one."""
        columns, state = listed(table.columns), listed(table.state)
        there = f"SELECT 1 FROM {table.work(other)} AS o WHERE {same(table.columns, 'o', 'r')}"
        self.tables.execute(
            f"INSERT INTO {table.work(into)} ({state}) SELECT {state} FROM {rows} AS r WHERE NOT EXISTS ({there})"
        )
        self.tables.execute(f"DELETE FROM {table.work(other)} WHERE ({columns}) IN (SELECT {columns} FROM {rows})")

    def check_size(self) -> None:
        """Raise Refused if a recursion has too many tuples: one that computes values may not end."""
        if self.held > self.tables.max_entries:
            raise Refused(
                f"{self.stratum.name}: more than {self.tables.max_entries} tuples; if the recursion ends, raise "
                "--max-entries; nothing was changed"
            )

    def note(self) -> None:
        """Note how many rows the tables lose and gain, and those of the identities in their proofs."""
        for table in self.own:
            ids = self.tables.tables[self.kept[table.relation.table].identities]
            table.lost, table.gained = (self.tables.count(table.work(suffix)) for suffix in ("lost", "gained"))
            table.version = NEW_ROWS
            self.received[table.relation.table].note()
            ids.lost, ids.gained = (
                index_proofs(self.tables, table, table.work(suffix), ids.work(suffix)) for suffix in ("lost", "gained")
            )


def is_from_others(rule: RowRule, kept: KeptProofs) -> bool:
    """Return whether a rule takes what another process derives."""
    return bool(kept.received) and any(source.table == kept.received for source in rule.sources)


def size_of(proof: str) -> str:
    """Return SQL for the number of identities in a proof: quotes within them are escaped."""
    return f"length({proof}) - length(replace({proof}, '\",\"', '\"\"'))"


def recount_proof_rows(tables: RowTables, stratum: RowStratum) -> Iterator[RowFinding]:
    """Yield queries for tuples that rules give a live proof of, which are missing or have a worse value, for proofs
    that are dead, and for identities of proofs that are missing or left over."""
    proofs = Proofs(tables, stratum)
    for rule in stratum.rules:
        sent, columns = proofs.received[rule.head].sent, listed(tables.tables[rule.head].state)
        query = proofs.wanted(rule, row_derivations(tables, rule))
        tables.execute(f"INSERT OR IGNORE INTO {sent} ({columns}) {query}")
    for table in proofs.own:
        kept, name = proofs.kept[table.relation.table], table.relation.name
        ids, key = tables.tables[kept.identities], listed(table.key, "i")
        received = proofs.received[table.relation.table]
        received.leave_out_dead()
        problem = "missing or not the best" if table.relation.best else "missing"
        yield name, problem, f"SELECT {listed(table.columns)} FROM {received.sent}"
        dead = proofs.liveness.is_dead("i._id")
        yield name, "dead proof", f"SELECT DISTINCT {key} FROM {ids.name} AS i WHERE {dead}"
        if received.source and received.waiting:
            waiting, columns, gained = received.waiting, listed(table.columns), received.waiting.work("gained")
            pairs = [*zip(table.columns, received.source.columns, strict=True)]
            at = " AND ".join(f"r.{quoted_sql(other)} = i.{quoted_sql(one)}" for one, other in pairs)
            there = f"SELECT 1 FROM {received.source.name} AS r WHERE {at}"
            yield name, "waits", f"SELECT {columns} FROM {waiting.name} AS i WHERE NOT {dead} OR NOT EXISTS ({there})"
            waits = f"SELECT 1 FROM {waiting.name} AS w WHERE {same(table.columns, 'w', 'i')}"
            left = f"EXISTS ({there}) AND NOT EXISTS ({waits})"
            yield name, "does not wait", f"SELECT {columns} FROM {gained} AS i WHERE {left}"
        index_proofs(tables, table, table.name, ids.work("gained"))
        for what, one, other in (
            ("missing", ids.work("gained"), ids.name),
            ("left over", ids.name, ids.work("gained")),
        ):
            there = f"SELECT 1 FROM {other} AS o WHERE {same(ids.columns, 'o', 'i')}"
            yield name, f"identities {what}", f"SELECT {listed(ids.columns)} FROM {one} AS i WHERE NOT EXISTS ({there})"
        if table.relation.best and table.relation.best[1] in table.key:
            value = quoted_sql(table.relation.best[1])
            better = f"{same(kept.group, 'o', 's')} AND {better_value(table.relation, f'o.{value}', f's.{value}')}"
            worse = f"{table.name} AS s WHERE EXISTS (SELECT 1 FROM {table.name} AS o WHERE {better})"
            yield name, "worse than another one of its group", f"SELECT {listed(table.columns)} FROM {worse}"


ROW_METHODS["proofs"] = maintain_proof_rows
LAYOUTS["proofs"] = proof_layout
ROW_PARTS["recount proofs"] = recount_proof_rows
