"""Follow changes of a recursion with matrices that stay in memory.

Deletions subtract, by rounds, the derivations that were lost from the supports of heads of higher rank; the dead return
if derivations are left; insertions enter by rounds. These are the steps that queries take (``deletions`` and
``insertions``), and give the same supports. A derivation is a path through the factors of a rule, from an entry that
has changed to both of its ends, so a step costs as much as the paths that it finds, however large the matrices are. The
table of the database is brought to the new state at the end, in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...engines.duckdb import DuckEngine
from ...kernel.changes import arriving, changes_of, check_defined, show_versions
from ...kernel.method_interface import Run
from ...kernel.model import MatrixFactor, Relation, Rule, Stratum
from ...kernel.sql import names, tuple_names, union
from ...kernel.strategy import FEW_TUPLES, PRICE_OF_SUSPECTS, UNFINISHED, TooManySuspects
from ...kernel.table_names import TableName
from .bounds import NotFitting, check_rounds, within_memory
from .numbers import ends_of, ends_of_factor
from .pairs import Array, Pairs, Paths, are_among, check_counts, distinct_sorted, entry_keys, np, split_keys, summed
from .resident import Resident, counted_pairs, exits, factors_below, make_resident, sources_of

MOST_WORN = 3.0
"""Matrices are read anew once they have more than this many places, of present and removed entries, for each present
one."""

MatrixSum = Sequence[Pairs]
"""A factor of a product, as the sum of matrices."""


class FactorChanges(NamedTuple):
    """The changes of a factor in a batch: the entries that it loses and those that it gains, with how many copies."""

    lost: Pairs
    gained: Pairs


def follow_by_matrices(run: Run, stratum: Stratum, clock: int, resident: Resident | None) -> int:
    """Bring a stratum to its new state with the matrices of the old one, which are read if there are none, and return
    the new clock; its database keeps the matrices. Raise NotFitting if that cannot be done; the table of the stratum
    then is as it was."""
    assert isinstance(run.engine, DuckEngine)
    resident = resident or make_resident(run, stratum)
    clock = Follower(run, stratum, resident, clock).run()
    if resident.worn <= MOST_WORN:
        run.engine.resident[stratum.name] = resident
    return clock


class Follower:
    """One batch of changes to the matrices of a stratum."""

    def __init__(self, run: Run, stratum: Stratum, resident: Resident, clock: int) -> None:
        """Begin at the old state."""
        assert isinstance(run.engine, DuckEngine)
        self.run_, self.stratum, self.resident, self.clock, self.start = run, stratum, resident, clock, clock
        self.engine = run.engine
        self.relations = {relation.table: relation for relation in stratum.relations}
        self.exits = exits(stratum)
        self.rules = [rule for rule in stratum.rules if rule.matrices]
        self.changes: dict[MatrixFactor, FactorChanges] = {}
        #: By table, the places of entries that were in the state and are touched, of those that died, and of those that
        #: entered or returned.
        self.touched: dict[str, list[Array]] = {table: [] for table in self.relations}
        self.died: dict[str, list[Array]] = {table: [] for table in self.relations}
        self.entered: dict[str, list[Array]] = {table: [] for table in self.relations}

    def run(self) -> int:
        """Follow the batch and return the new clock."""
        engine, stratum = self.engine, self.stratum
        with within_memory():
            show_versions(engine, stratum, "delete")
            middle = self.read_middle()
            lost = {table: self.derived_below(relation, "delete") for table, relation in self.relations.items()}
            show_versions(engine, stratum, "insert")
            self.read_changes(middle)
            self.delete(lost)
            self.insert()
        for table, relation in self.relations.items():
            self.store(table, relation)
        return self.clock

    # The changes of factors.

    def read_middle(self) -> dict[MatrixFactor, Pairs]:
        """Return the matrices of those factors that are queries and read something that has changed, at mid; the views
        of versions are those of deletions."""
        middle = {}
        for number, factor in enumerate(factors_below(self.stratum)):
            changed = any(changes_of(self.engine, TableName(table).change) for table in sources_of(self.engine, factor))
            if factor.query and changed:
                middle[factor] = self.read_query(factor, number)
        return middle

    def read_query(self, factor: MatrixFactor, number: int) -> Pairs:
        """Return the matrix of a factor that is a query, from the versions that are shown."""
        table = counted_pairs(self.engine, self.stratum, factor, number, self.engine.text(factor.query))
        keys, arrays = self.resident.read(table, *ends_of_factor(factor), ["_copies"])
        check_counts(arrays["_copies"])
        return Pairs(keys, arrays["_copies"])

    def read_changes(self, middle: Mapping[MatrixFactor, Pairs]) -> None:
        """Find what each factor loses and gains; the views of versions are those of insertions."""
        for number, factor in enumerate(factors_below(self.stratum)):
            old = self.resident.factors[factor]
            if factor in middle:
                lost = less(old, middle[factor])
                gained = less(self.read_query(factor, number), middle[factor])
            elif factor.query:
                lost = gained = Pairs(*no_keys())
            else:
                change = TableName(factor.table).change
                lost, gained = (self.changed(factor, table) for table in (change.lost, change.gained))
            self.changes[factor] = FactorChanges(lost, gained)

    def changed(self, factor: MatrixFactor, table: str) -> Pairs:
        """Return the entries of a factor for a table of lost or gained tuples."""
        if not self.engine.rows(table):
            return Pairs(*no_keys())
        keys, _ = self.resident.read(table, *ends_of_factor(factor))
        return Pairs(keys, np.ones(len(keys), np.int64))

    def derived_below(self, relation: Relation, phase: str) -> Array:
        """Return the keys of heads, one for each derivation by a rule that is not recursive, that a phase changes."""
        queries = arriving(self.engine, self.exits, relation, phase, self.run_.bucket)
        return self.heads(relation, queries)

    def heads(self, relation: Relation, queries: Sequence[str]) -> Array:
        """Return the keys of the heads that queries derive, one for each derivation."""
        if not queries:
            return no_keys()[0]
        table = relation.tables.arrived
        self.engine.table(table, f"SELECT {names(relation.tuple_columns)} FROM ({union(queries)}) AS q")
        check_defined(self.engine, self.stratum, relation, table)
        if not self.engine.rows(table):
            return no_keys()[0]
        return self.resident.read(table, *ends_of(relation))[0]

    # Paths through the factors of a rule.

    def derivations(self, rule: Rule, place: int, start: Pairs, operands: Callable[[int], MatrixSum]) -> Paths:
        """Return the derivations of a rule whose factor at ``place`` is an entry of ``start``; ``operands`` returns the
        other ones."""
        factor = rule.matrices[place]
        paths = start.paths(self.is_own(factor), self.is_turned(factor))
        for other in range(place + 1, len(rule.matrices)):
            paths = self.extended(paths, rule.matrices[other], operands(other), forward=True)
        for other in reversed(range(place)):
            paths = self.extended(paths, rule.matrices[other], operands(other), forward=False)
        return paths.where(paths.first != paths.last) if rule.apart else paths

    def is_own(self, factor: MatrixFactor) -> bool:
        """Return whether a factor is a relation of the recursion."""
        return factor.table in self.relations

    def is_turned(self, factor: MatrixFactor) -> bool:
        """Return whether a factor is the transposed matrix of a relation of the recursion."""
        if not self.is_own(factor):
            return False
        first, last = ends_of(self.relations[factor.table])
        return factor.columns != (first.column, last.column)

    def extended(self, paths: Paths, factor: MatrixFactor, operand: MatrixSum, forward: bool) -> Paths:
        """Return paths that are extended by an entry of a factor: behind them or, unless ``forward``, in front of
        them."""
        own, turned = self.is_own(factor), self.is_turned(factor)
        longer = []
        for pairs in operand:
            if not len(paths.first) or not pairs.size:
                continue
            meeting = paths.last if forward else paths.first
            which, places = pairs.in_rows(meeting) if forward != turned else pairs.in_columns(meeting)
            rows, columns = split_keys(pairs.keys[places])
            new = columns if forward != turned else rows
            count, rank = paths.count[which], paths.rank[which]
            if own:
                rank = np.maximum(rank, pairs.ranks[places])
            else:
                count = count * pairs.counts[places]
                check_counts(count)
            other = (paths.first if forward else paths.last)[which]
            longer.append(Paths(other, new, count, rank) if forward else Paths(new, other, count, rank))
        return Paths.joined(longer)

    def own_operand(self, rule: Rule, place: int, new: Mapping[str, Pairs]) -> Callable[[int], MatrixSum]:
        """Return the operands of a rule whose factor at ``place`` is one of ``new`` entries, which are not in the
        matrices: factors behind it may be new as well, those in front of it not."""

        def operand(other: int) -> MatrixSum:
            factor = rule.matrices[other]
            if not self.is_own(factor):
                return [self.resident.factors[factor]]
            stored = self.resident.own[factor.table]
            return [stored, new[factor.table]] if other > place and factor.table in new else [stored]

        return operand

    def changed_operand(self, rule: Rule, place: int, deleted: bool) -> Callable[[int], MatrixSum]:
        """Return the operands of a rule whose factor at ``place`` is a changed entry of an earlier stratum: factors on
        one side of it are at the start of the phase, those on the other at its end. The matrices are at mid."""

        def operand(other: int) -> MatrixSum:
            factor = rule.matrices[other]
            if self.is_own(factor):
                return [self.resident.own[factor.table]]
            more = self.changes[factor].lost if deleted else self.changes[factor].gained
            middle = self.resident.factors[factor]
            return [middle, more] if (other > place) == deleted else [middle]

        return operand

    def with_own(self, table: str, new: Mapping[str, Pairs]) -> Paths:
        """Return the derivations of a relation that use at least one of ``new`` entries."""
        derived = []
        for rule in self.rules:
            for place, factor in enumerate(rule.matrices) if rule.head == table else ():
                if factor.table in new and self.is_own(factor):
                    start = new[factor.table]
                    derived.append(self.derivations(rule, place, start, self.own_operand(rule, place, new)))
        return Paths.joined(derived)

    def with_changed(self, table: str, deleted: bool) -> Paths:
        """Return the derivations of a relation that use at least one changed entry of an earlier stratum."""
        derived = []
        for rule in self.rules:
            for place, factor in enumerate(rule.matrices) if rule.head == table else ():
                if not self.is_own(factor):
                    start = self.changes[factor].lost if deleted else self.changes[factor].gained
                    if start.size:
                        derived.append(self.derivations(rule, place, start, self.changed_operand(rule, place, deleted)))
        return Paths.joined(derived)

    # Deletions.

    def delete(self, exits_lost: Mapping[str, Array]) -> None:
        """Lead from the old state to mid."""
        for factor, changes in self.changes.items():
            subtract_entries(self.resident.factors[factor], changes.lost)
        lost = {}
        for table in self.relations:
            lost[table] = Paths.joined([self.with_changed(table, deleted=True), paths_to(exits_lost[table])])
        done = 0
        while any(len(paths.first) for paths in lost.values()):
            check_rounds(done, self.run_.max_rounds)
            done += 1
            dead = {table: self.subtracted(table, paths) for table, paths in lost.items() if len(paths.first)}
            dead = {table: pairs for table, pairs in dead.items() if pairs.size}
            self.run_.note(self.stratum.name, "delete", done, sum(pairs.size for pairs in dead.values()))
            self.check_touched(done)
            lost = {table: self.with_own(table, dead) for table in self.relations}

    def check_touched(self, done: int) -> None:
        """Raise TooManySuspects if the strategy is auto, and computing the stratum from scratch takes less time than
        following deletions that have touched this many tuples."""
        stored = sum(self.engine.rows(table) for table in self.relations)
        touched = sum(len(places) for touched_places in self.touched.values() for places in touched_places)
        if self.run_.choice.strategy == "auto" and stored >= FEW_TUPLES and PRICE_OF_SUSPECTS * touched > stored:
            raise TooManySuspects(f"deletions touched {touched} of {stored} tuples in {done} rounds", UNFINISHED)

    def subtracted(self, table: str, lost: Paths) -> Pairs:
        """Subtract lost derivations from the supports of a relation; return the entries that have none any more, which
        are removed."""
        own = self.resident.own[table]
        places = own.present(entry_keys(lost.first, lost.last))
        counted = (places >= 0) & (lost.rank < own.ranks[places])
        places, counts = summed(places[counted], lost.count[counted])
        left = own.counts[places] - counts
        if len(left) and int(left.min()) < 0:
            raise NotFitting("more derivations were lost than its tuples had")
        self.touched[table].append(places)
        gone = places[left == 0]
        self.died[table].append(gone)
        own.counts[places] = left
        return Pairs(own.keys[gone], np.ones(len(gone), np.int64), own.ranks[gone])

    # Insertions.

    def insert(self) -> None:
        """Lead from mid to the new state."""
        self.clock += 1
        dead = {table: joined(places) for table, places in self.died.items()}
        for table, relation in self.relations.items():
            if len(dead[table]):
                self.resident.store(relation.tables.dead, relation, self.resident.own[table].keys[dead[table]], {})
        new = {table: self.first_entering(table, dead[table]) for table in self.relations}
        for factor, changes in self.changes.items():
            add_entries(self.resident.factors[factor], changes.gained)
        done = 0
        while any(pairs.size for pairs in new.values()):
            check_rounds(done, self.run_.max_rounds)
            done += 1
            self.run_.note(self.stratum.name, "insert", done, sum(pairs.size for pairs in new.values()))
            new = {table: pairs for table, pairs in new.items() if pairs.size}
            following = {table: self.with_own(table, new) for table in self.relations}
            for table, pairs in new.items():
                places = self.resident.own[table].put(pairs.keys, pairs.counts, pairs.ranks)
                self.entered[table].append(places)
            self.clock += 1
            new = {table: self.entering(table, paths) for table, paths in following.items()}

    def first_entering(self, table: str, dead: Array) -> Pairs:
        """Return the entries that return, or enter since a relation below has gained tuples; add what survivors gain to
        their supports."""
        own, relation = self.resident.own[table], self.relations[table]
        gained = Paths.joined(
            [self.with_changed(table, deleted=False), paths_to(self.derived_below(relation, "insert"))]
        )
        keys = entry_keys(gained.first, gained.last)
        places = own.find(keys)
        there = np.zeros(len(keys), bool)
        there[places >= 0] = own.counts[places[places >= 0]] > 0
        more = np.zeros(len(keys), bool)
        more[there] = gained.rank[there] < own.ranks[places[there]]
        surviving, counts = summed(places[more], gained.count[more])
        # What is dead counts all of its derivations when it returns.
        dying = are_among(keys, np.sort(own.keys[dead]))
        entering = [(keys[~there & ~dying], gained.count[~there & ~dying]), self.returning(table, dead)]
        if len(surviving):
            raised = own.counts[surviving] + counts
            check_counts(raised)
            own.counts[surviving] = raised
            self.touched[table].append(surviving)
        entries, supports = summed(*(np.concatenate(parts) for parts in zip(*entering, strict=True)))
        return Pairs(entries, supports, np.full(len(entries), self.clock))

    def returning(self, table: str, dead: Array) -> tuple[Array, Array]:
        """Return the keys of dead entries, each once or more, with numbers of derivations from present entries."""
        if not len(dead):
            return no_keys()
        own, relation = self.resident.own[table], self.relations[table]
        queries = [
            f"SELECT {names(relation.tuple_columns)} FROM ({self.engine.text(rule.returns)}) AS q"
            for rule in self.exits.rules
            if rule.head == table
        ]
        heads = self.heads(relation, queries)
        derived = [(heads, np.ones(len(heads), np.int64))]
        for rule in self.rules:
            if rule.head == table:
                derived.append(self.returning_by(rule, own.keys[dead]))
        keys, counts = (np.concatenate(parts) for parts in zip(*derived, strict=True))
        return keys, counts

    def returning_by(self, rule: Rule, keys: Array) -> tuple[Array, Array]:
        """Return the keys of heads, once or more, with numbers of derivations by a rule. A path is followed from both
        ends of the head to the relation of the recursion between them."""
        pivot = next(place for place, factor in enumerate(rule.matrices) if self.is_own(factor))
        factor = rule.matrices[pivot]
        first, last = split_keys(keys)
        if rule.apart:
            keys = keys[first != last]
            first, last = split_keys(keys)
        ones, zeros = np.ones(len(keys), np.int64), np.zeros(len(keys), np.int64)
        left = Paths(np.arange(len(keys)), first, ones, zeros)
        for other in range(pivot):
            left = self.extended(left, rule.matrices[other], self.new_operand(rule.matrices[other]), forward=True)
        right = Paths(last[left.first], np.arange(len(left.first)), left.count, left.rank)
        for other in reversed(range(pivot + 1, len(rule.matrices))):
            right = self.extended(right, rule.matrices[other], self.new_operand(rule.matrices[other]), forward=False)
        rows, columns = left.last[right.last], right.first
        needed = entry_keys(columns, rows) if self.is_turned(factor) else entry_keys(rows, columns)
        places = self.resident.own[factor.table].present(needed)
        heads = keys[left.first[right.last]]
        return heads[places >= 0], right.count[places >= 0]

    def new_operand(self, factor: MatrixFactor) -> MatrixSum:
        """Return a factor as it is in the new state, or at mid of the recursion itself."""
        if self.is_own(factor):
            return [self.resident.own[factor.table]]
        return [self.resident.factors[factor], self.changes[factor].gained]

    def entering(self, table: str, paths: Paths) -> Pairs:
        """Return the entries that derivations give and that are not present."""
        own = self.resident.own[table]
        keys = entry_keys(paths.first, paths.last)
        absent = own.present(keys) < 0
        entries, supports = summed(keys[absent], paths.count[absent])
        return Pairs(entries, supports, np.full(len(entries), self.clock))

    # The tables of the database.

    def store(self, table: str, relation: Relation) -> None:
        """Bring the table of a relation from the old to the new state, and note what was touched."""
        own, engine = self.resident.own[table], self.engine
        places = distinct_sorted(joined([*self.touched[table], *self.entered[table]]))
        if not len(places):
            return
        entered, gone = (distinct_sorted(joined(found[table])) for found in (self.entered, self.died))
        arrays = {
            "_support": own.counts[places].astype(np.int64),
            "_rank": own.ranks[places].astype(np.int64),
            "_row": own.rows[places],
            "_gone": are_among(places, gone),
            "_entered": are_among(places, entered),
        }
        hit = relation.tables.hit
        self.resident.store(hit, relation, own.keys[places], arrays)
        stored = int((own.rows[places] >= 0).sum())
        if stored:
            engine.remove(table, hit, tuple_names(relation), stored, numbered=True)
        before = engine.inserted(table)
        engine.add(table, hit, names(relation.state_columns), "_support > 0")
        engine.add(relation.change.touched, hit, f"{names(relation.tuple_columns)}, _gone")
        if len(entered):
            engine.add(relation.tables.entered, hit, names(relation.tuple_columns), "_entered")
        own.rows[places] = -1
        if engine.inserted(table) > before:
            since = f"(SELECT *, {engine.row_id} AS _row FROM {table} WHERE {engine.row_id} >= {before})"
            keys, found = self.resident.read(since, *ends_of(relation), ["_row"])
            at = own.present(keys)
            assert len(at) == int((own.counts[places] > 0).sum()) and (at >= 0).all(), "rows have moved"
            own.rows[at] = found["_row"]


def no_keys() -> tuple[Array, Array]:
    """Return no keys and no counts."""
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def joined(places: Sequence[Array]) -> Array:
    """Return the places of several arrays as one array."""
    return np.concatenate(places) if places else no_keys()[0]


def paths_to(keys: Array) -> Paths:
    """Return derivations of heads that use nothing of the recursion."""
    return Paths(*split_keys(keys), np.ones(len(keys), np.int64), np.zeros(len(keys), np.int64))


def less(left: Pairs, right: Pairs) -> Pairs:
    """Return the entries of a matrix minus those of another one, which are not larger."""
    there = np.flatnonzero(left.counts[: left.size] > 0)
    keys, counts = left.keys[there], left.counts[there].astype(np.int64)
    places = right.find(keys)
    counts[places >= 0] -= right.counts[places[places >= 0]]
    check_counts(counts)
    return Pairs(keys[counts > 0], counts[counts > 0])


def subtract_entries(matrix: Pairs, lost: Pairs) -> None:
    """Subtract entries, which the matrix has, from a matrix."""
    places = matrix.present(lost.keys)
    if len(places) and (int(places.min()) < 0 or (matrix.counts[places] < lost.counts[: lost.size]).any()):
        raise NotFitting("a relation has lost what it did not have")
    matrix.counts[places] -= lost.counts[: lost.size]


def add_entries(matrix: Pairs, gained: Pairs) -> None:
    """Add entries to a matrix."""
    keys, counts = gained.keys[: gained.size], gained.counts[: gained.size].astype(np.int64)
    places = matrix.present(keys)
    there = places >= 0
    raised = matrix.counts[places[there]] + counts[there]
    check_counts(raised)
    matrix.counts[places[there]] = raised
    matrix.put(keys[~there], counts[~there], np.zeros(int((~there).sum()), np.int64))
