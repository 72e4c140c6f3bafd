"""The command ``explain`` of a state in one SQLite file: a proof of a tuple, by searches of the stored tables. Scripts
lack it; ``flintlog job`` and ``flintlog.open`` have it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..explain.proofs import BETTER, ELSEWHERE, FEW_DERIVATIONS, MOST_PROOF_TUPLES, PART, proof_from
from ..inputs.tuples import split_tuple, tuple_values
from ..kernel.errors import JobError
from ..kernel.model import Column, FunctionSource, Relation
from ..kernel.sql import is_optional
from ..kernel.values import Known, Values, constant_text, hashable, plain_row, plain_value
from ..row_kernel.batch import BEGINNING
from ..row_kernel.deltas import Derivations, row_derivations
from ..row_kernel.encodings import decoded_row, encoded
from ..row_kernel.model import Absence, RowProgram, RowRelation, RowRule, RowSource, RowStratum
from ..row_kernel.tables import RowTable, quoted_sql
from ..store.extensions import supply
from .state import DatabaseState, Result, open_file_state

STRING = re.compile("'(?:[^']|'')*'")
"""Matches a string in SQL."""

Test = tuple[str, tuple[Any, ...]]
"""A condition in SQL, and the values of its parameters."""


class RuleUse(NamedTuple):
    """A derivation by a rule: the tuples that its positive literals have, and the texts of those that are absent."""

    premises: list[Known]
    absent: list[str]


def explain_file(
    program: RowProgram, state: str, asked: str, limit: int = MOST_PROOF_TUPLES, functions: FunctionSource = None
) -> Result:
    """Explain why a tuple is in the state, or why not, as :func:`explain_stored` does."""
    with open_file_state(program, state, supply(program, functions)) as database:
        return explain_stored(database, asked, limit)


def explain_stored(database: DatabaseState, asked: str, limit: int = MOST_PROOF_TUPLES) -> Result:
    """Explain why a tuple is in an opened state, or why not; ``asked`` is in program syntax: ``reachable(1, _)``.

    If the tuple is present, ``tuples`` of the result is a proof of at most ``limit`` tuples, beginning with it; each
    has the rule and the tuples that it is derived from, or is given. If it is absent, ``rules`` says for each rule how
    far it gets. Raises JobError for a text that is no tuple of the program.
    """
    name, words = split_tuple(asked)
    relation = database.program.relation(name)
    values = tuple_values(relation.columns, words, asked, open=True)
    with database.reading():
        return RowExplainer(database).explain(relation, values, limit)


class RowExplainer:
    """Explains tuples by queries of the stored tables."""

    def __init__(self, database: DatabaseState) -> None:
        self.database, self.program = database, database.program
        self.relations = {relation.table: relation for relation in self.program.relations}
        self.strata = {r.table: stratum for stratum in self.program.strata for r in stratum.relations}

    def explain(self, relation: RowRelation, values: Values, limit: int) -> Result:
        """Return the explanation of a tuple; values that are None are open, and the first tuple that has the others is
        explained."""
        values = tuple(map(hashable, values))
        result: Result = {"program": self.program.name, "tuple": stored_tuple_text(relation, values)}
        if None in values:
            found = self.having(relation, values)
            if not found:
                return {**result, "present": False, "input": relation.kind == "input", "rules": []}
            values, result["others"] = found[0], [stored_tuple_text(relation, other) for other in found[1:]]
            result["tuple"] = stored_tuple_text(relation, values)
        there = self.having(relation, values, 1)
        result["present"] = bool(there)
        if there:
            root = (relation.table, there[0])
            return {**result, "tuples": proof_from(root, lambda t, v: self.derived(self.relations[t], v), limit)}
        aggregated = self.aggregated(relation)
        if aggregated:
            alike = [None if c.sql in aggregated else v for c, v in zip(relation.columns, values, strict=True)]
            result["group"] = [stored_tuple_text(relation, other) for other in self.having(relation, alike)]
        return {**result, "input": relation.kind == "input", "rules": list(self.attempts(relation, values))}

    def table_of(self, relation: RowRelation) -> RowTable:
        """Return the table of a relation."""
        return self.database.tables.tables[relation.table]

    def having(self, relation: RowRelation, values: Sequence[Any], limit: int = FEW_DERIVATIONS + 1) -> list[Values]:
        """Return the first stored tuples, without numbers of copies, that have those of the values that are not
        None."""
        pairs = [(c, v) for c, v in zip(relation.columns, values, strict=True) if v is not None]
        held = " AND ".join(f"{quoted_sql(column.sql)} = ?" for column, _ in pairs) or "TRUE"
        columns = ", ".join(quoted_sql(column.sql) for column in relation.columns) or "_unit"
        rows = self.database.connection.execute(
            f"SELECT DISTINCT {columns} FROM {self.table_of(relation).name} WHERE {held} ORDER BY {columns} LIMIT ?",
            [*(self.encoded(value, column.type) for column, value in pairs), limit],
        ).fetchall()
        return [
            known_values(relation.columns, decoded_row(relation.columns, row[: len(relation.columns)])) for row in rows
        ]

    @staticmethod
    def encoded(value: Any, kind: str) -> Any:
        """Return a value, as hashable ones are, as it is stored."""
        return encoded(plain_value(value, kind), kind)

    def aggregated(self, relation: RowRelation) -> set[str]:
        """Return the columns of a relation that are computed of a group: those that a derivation need not have."""
        stratum = self.strata.get(relation.table)
        if stratum is None:
            return set()
        if stratum.ranking is not None:
            return {stratum.ranking.place, *stratum.ranking.ranked}
        best = {relation.best[1]} if relation.best else set()
        return {item.column for item in stratum.aggregates_of(relation.table)} | best

    # ---- present -----------------------------------------------------------------------------------------------------

    def derived(self, relation: RowRelation, values: Values) -> tuple[Result, list[Known]]:
        """Return a stored tuple with a rule that derives it, and the premises; raise JobError if no rule does."""
        node, stratum = self.told(relation, values), self.strata.get(relation.table)
        if stratum is None:
            return {**node, "given": True}, []
        kept = self.kept(relation, values)
        node |= {name: kept[f"_{name}"] for name in ("rank", "support") if f"_{name}" in kept}
        several = self.is_summed(stratum, relation)
        premises: list[Known] = []
        for rule in stratum.rules:
            if rule.head != relation.table:
                continue
            number, found = self.derivations(rule, stratum, values, kept.get("_rank"), several)
            if not found:
                continue
            if copied := self.copied(rule, relation):
                inner, sources = self.derived(copied, values)
                return {**inner, **node}, sources
            fact = f"{stored_tuple_text(relation, values)}."
            said = {"rule": rule.label, "source": rule.source, "text": rule.text or fact}
            if "rule" in node:
                node.setdefault("also", []).append(said)
            else:
                node |= said
            premises += [premise for use in found for premise in use.premises]
            absent = [text for use in found for text in use.absent]
            if absent:
                node["absent"] = list(dict.fromkeys([*node.get("absent", ()), *absent]))
            if not several:
                break
            node["derivations"] = node.get("derivations", 0) + number
            node["listed"] = node.get("listed", 0) + len(found)
        if "rule" in node:
            return node, list(dict.fromkeys(premises))
        raise JobError(
            f"no rule derives {node['tuple']} from what is stored; `verify` tells what is wrong with the state"
        )

    def told(self, relation: RowRelation, values: Values) -> Result:
        """Return a tuple as results have it."""
        node: Result = {"tuple": stored_tuple_text(relation, values), "relation": relation.shown_as or relation.name}
        node["values"] = list(plain_row(relation.columns, values))
        return {**node, "internal": True} if relation.hidden and not relation.shown_as else node

    def is_summed(self, stratum: RowStratum, relation: RowRelation) -> bool:
        """Return whether a tuple follows from all derivations of its group together."""
        return any(a.function not in ("min", "max") for a in stratum.aggregates_of(relation.table))

    def kept(self, relation: RowRelation, values: Values) -> dict[str, Any]:
        """Return what is kept with a stored tuple."""
        table = self.table_of(relation)
        shown = [name for name in ("_rank", "_support") if name in table.hidden]
        if not shown:
            return {}
        held = " AND ".join(f"{quoted_sql(column.sql)} = ?" for column in relation.tuple_columns)
        given = [self.encoded(v, c.type) for v, c in zip(values, relation.columns, strict=True)] or [1]
        query = f"SELECT {', '.join(shown)} FROM {table.name} WHERE {held}"
        return dict(zip(shown, self.database.connection.execute(query, given).fetchone(), strict=True))

    def copied(self, rule: RowRule, relation: RowRelation) -> RowRelation | None:
        """Return the hidden relation that a rule copies to the one that it is shown as, None for other rules."""
        source = self.relations.get(rule.sources[0].table) if len(rule.sources) == 1 else None
        return source if source and source.hidden and source.shown_as == relation.name else None

    def wanted(self, rule: RowRule, stratum: RowStratum, values: Values) -> list[Test]:
        """Return what says that a rule derives a tuple, or one that counts for it."""
        summed = {a.column for a in stratum.aggregates_of(rule.head) if a.function not in ("min", "max")}
        summed |= {stratum.ranking.place} if stratum.ranking is not None else set()
        pairs = zip(self.relations[rule.head].columns, rule.values, values, strict=False)
        return [
            (f"{head} = ?", (self.encoded(value, column.type),))
            for column, head, value in pairs
            if column.sql not in summed
        ]

    def derivations(
        self, rule: RowRule, stratum: RowStratum, values: Values, rank: int | None, several: bool
    ) -> tuple[int, list[RuleUse]]:
        """Return how many derivations of a stored tuple a rule has, and the first ones: one, unless the tuple follows
        from ``several`` together."""
        ranked = stratum.kind in ("ranked", "extremal")
        members = frozenset(relation.table for relation in stratum.relations) if ranked else frozenset[str]()
        found, tests = self.all_derivations(rule, members=members), self.wanted(rule, stratum, values)
        if found.ranks and rank is not None:
            tests.append((f"{found.rank} < ?", (rank,)))
        limit = FEW_DERIVATIONS if several else 1
        rows = self.rows_of(rule, found, tests, limit, rule.absences)
        number = len(rows)
        if number == limit and several:
            query = found.select(["COUNT(*)"], [condition for condition, _ in tests])
            given = [value for _, values in tests for value in values]
            number = self.database.connection.execute(query, given).fetchone()[0]
        return number, rows

    def all_derivations(self, rule: RowRule, **options: Any) -> Derivations:
        """Return the derivations of a rule; in a state, none lacks a value."""
        return replace(row_derivations(self.database.tables, rule, **options), lacking=())

    def rows_of(
        self, rule: RowRule, found: Derivations, tests: Sequence[Test], limit: int, absences: Sequence[Absence] = ()
    ) -> list[RuleUse]:
        """Return the first derivations of a rule, which meet tests, with the tuples of negated literals."""
        there = [source for source in rule.sources if is_joined(source, found) and source.table != BEGINNING]
        columns = [
            f"{quoted_sql(source.alias)}.{quoted_sql(column.sql)}"
            for source in there
            for column in self.relations[source.table].tuple_columns
        ]
        terms = [value for absence in absences for _, value in absence.terms]
        query = found.select([*columns, *terms] or ["1"], [condition for condition, _ in tests])
        order = f" ORDER BY {', '.join(columns)}" if columns else ""
        given = [value for _, values in tests for value in values]
        uses = []
        for row in self.database.connection.execute(f"{query}{order} LIMIT ?", [*given, limit]):
            premises, place = [], 0
            for source in there:
                relation = self.relations[source.table]
                own = decoded_row(relation.columns, row[place : place + len(relation.columns)])
                premises.append((relation.table, known_values(relation.columns, own)))
                place += len(relation.tuple_columns)
            absent = []
            for absence in absences:
                absent.append(self.absent_text(absence, row[place : place + len(absence.terms)]))
                place += len(absence.terms)
            uses.append(RuleUse(premises, absent))
        return uses

    def absent_text(self, absence: Absence, row: Sequence[Any]) -> str:
        """Return the tuple that a negated literal says is absent, with ``_`` for values that it does not say."""
        relation, said = self.relations[absence.table], dict(zip((name for name, _ in absence.terms), row, strict=True))
        columns = [column for column in relation.columns if column.sql in said]
        known = known_values(columns, decoded_row(columns, [said[column.sql] for column in columns]))
        values = dict(zip((column.sql for column in columns), known, strict=True))
        return stored_tuple_text(relation, tuple(values.get(column.sql) for column in relation.columns))

    # ---- absent ------------------------------------------------------------------------------------------------------

    def attempts(self, relation: RowRelation, values: Values) -> Iterator[Result]:
        """Yield how far each rule gets; rules of a hidden relation replace the rule that copies it."""
        stratum = self.strata.get(relation.table)
        for rule in stratum.rules if stratum else ():
            if rule.head == relation.table and stratum:
                if copied := self.copied(rule, relation):
                    yield from self.attempts(copied, values)
                else:
                    yield self.attempt(rule, stratum, values)

    def attempt(self, rule: RowRule, stratum: RowStratum, values: Values) -> Result:
        """Return how far a rule gets: the tuples ``found`` for the most literals, in the order of their joins, and the
        relation whose tuples are ``missing``; or that all literals hold, but the group has another value."""
        first = len(rule.sources)
        said: Result = {"rule": rule.label, "source": rule.source, "text": rule.text}
        without = self.all_derivations(rule, absent={first + place: () for place, _ in enumerate(rule.absences)})
        tests: list[Test] = [(condition, ()) for condition in without.conditions]
        tests += self.wanted(rule, stratum, values)
        order = [rule.sources[place] for place in rule.joins[-1]]
        for length in range(len(order), 0, -1):
            later = [quoted_sql(source.alias) for source in order[length:]]
            part = replace(without, items=without.items[:length], conditions=())
            reads = [test for test in tests if not any(f"{alias}." in STRING.sub("", test[0]) for alias in later)]
            if found := self.rows_of(rule, part, reads, 1):
                break
        else:
            length, found = 0, [RuleUse([], [])]
        said["found"] = [stored_tuple_text(self.relations[table], known) for table, known in found[0].premises]
        if length < len(order):
            table = order[length].table
            if table == BEGINNING:
                return {**said, "why": "is another tuple"}
            return {**said, **self.missing(table, "has no tuple that fits")}
        for place, absence in enumerate(rule.absences):
            one = self.all_derivations(rule, absent={first + i: () for i, _ in enumerate(rule.absences) if i != place})
            if not self.rows_of(rule, one, self.wanted(rule, stratum, values), 1):
                return {**said, **self.missing(absence.table, "has a tuple that must not be there")}
        if stratum.ranking is not None:
            return {**said, "why": ELSEWHERE}
        return {**said, "why": PART if self.is_summed(stratum, self.relations[rule.head]) else BETTER}

    def missing(self, table: str, why: str) -> Result:
        """Return what says that a relation lacks a tuple, or has one too many."""
        relation = self.relations[table]
        name = relation.shown_as or relation.name
        if relation.kind == "timed" and self.program.clock is not None:
            times = [row[0] for row in self.database.rows(self.program.clock)]
            why = f"{why} at {', '.join(map(str, times))}"
        return {"missing": name, "why": why, "step": name}


def known_values(columns: Sequence[Column], row: Sequence[Any]) -> Values:
    """Return values of columns as explanations have them: of one that may be null, a tuple of it, or an empty one."""
    return tuple(
        hashable(value) if not is_optional(column.type) else () if value is None else (hashable(value),)
        for column, value in zip(columns, row, strict=True)
    )


def stored_tuple_text(relation: Relation | RowRelation, values: Values) -> str:
    """Return a tuple in program syntax, with ``_`` for a value that is open."""
    pairs = zip(values, relation.columns, strict=True)
    texts = ["_" if value is None else constant_text(value, column.type) for value, column in pairs]
    if relation.annotates:
        # The last columns are a live proof or derivation sets.
        texts = texts[: -2 if relation.kind == "entries" else -1]
    name = relation.annotates or relation.shown_as or relation.name
    return f"{name}({', '.join(texts)})" if texts else name


def is_joined(source: RowSource, found: Derivations) -> bool:
    """Return whether the items of a query have a literal, whatever it reads."""
    return any(item.endswith(f" AS {quoted_sql(source.alias)}") for item in found.items)
