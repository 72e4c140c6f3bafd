"""The base facts behind the identities in live proofs, and the tuples that depend on a base fact, in states of
processes.

Identities are the same at all processes, so that tuples of one process may depend on base facts of another.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ...database.explain import RowExplainer, known_values, stored_tuple_text
from ...database.state import DatabaseState
from ...explain.proofs import SPACE, counted_facts
from ...kernel.model import LIFE
from ...kernel.values import Known, Values
from ...row_kernel.encodings import decoded_row
from ...row_kernel.model import ProofStratum, RowProgram, RowRelation, RowRule
from ...row_kernel.tables import listed, quoted_sql, stored


class RowFacts:
    """The base facts of the recursions across processes that a process takes part in, and the proofs that it keeps, in
    an opened state."""

    def __init__(self, database: DatabaseState) -> None:
        """Find the relations with identities, proofs and lives."""
        self.program, self.connection = database.program, database.connection
        self.relations = {relation.table: relation for relation in self.program.relations}
        self.numbered = numbered_rows(self.program)
        self.strata = [stratum for stratum in self.program.strata if isinstance(stratum, ProofStratum)]
        self.processes: dict[str, tuple[str, bool]] = {}
        """By life, as identities begin with them, the names of the processes that are there, and whether it is this
        one."""
        for lives in {stratum.guards[0] for stratum in self.strata}:
            columns = listed(column.sql for column in self.relations[lives].columns)
            rows = self.connection.execute(f"SELECT {columns} FROM {stored(lives)}")
            self.processes |= {life: (process, bool(own)) for process, life, own in rows}

    def found(self, ids: Collection[str]) -> dict[str, Known]:
        """Return the base facts of this process that have some of these identities."""
        facts: dict[str, Known] = {}
        for table, numbered in ((table, one) for table, all_of_it in self.numbered.items() for one in all_of_it):
            *columns, identity = numbered.columns
            listed_columns = listed(column.sql for column in numbered.columns)
            query = f"SELECT {listed_columns} FROM {stored(numbered.table)} WHERE {quoted_sql(identity.sql)} IN {GIVEN}"
            for *row, one in self.connection.execute(query, [json.dumps(sorted(ids))]):
                facts[one] = table, known_values(columns, decoded_row(columns, row))
        return facts

    def identities(self, facts: Iterable[Known]) -> set[str]:
        """Return the identities of those facts that are base facts of this process."""
        ids: set[str] = set()
        for table, values in facts:
            for numbered in self.numbered.get(table, ()):
                *columns, identity = numbered.columns
                held = " AND ".join(f"{quoted_sql(column.sql)} = ?" for column in columns) or "TRUE"
                given = [RowExplainer.encoded(v, c.type) for v, c in zip(values, columns, strict=True)]
                query = f"SELECT {quoted_sql(identity.sql)} FROM {stored(numbered.table)} WHERE {held}"
                ids.update(one for (one,) in self.connection.execute(query, given))
        return ids

    def depending(self, ids: Collection[str]) -> Iterator[tuple[RowRelation, Values]]:
        """Yield the tuples whose current proof has one of these identities, of the relations that users see."""
        shown = {relation.name: relation for relation in self.program.relations if not relation.hidden}
        for kept in (kept for stratum in self.strata for kept in stratum.proofs):
            proofs = self.relations[kept.table]
            relation = shown.get(proofs.annotates)
            if relation is None:
                continue
            columns = listed((column.sql for column in proofs.columns[:-1]), "s")
            at = " AND ".join(f"s.{quoted_sql(c)} = i.{quoted_sql(c)}" for c in kept.key)
            rows = (
                f"SELECT DISTINCT {columns or '1'} FROM {stored(kept.identities)} AS i CROSS JOIN {stored(kept.table)} "
                f"AS s WHERE i._id IN {GIVEN} AND {at} ORDER BY {columns or '1'}"
            )
            for row in self.connection.execute(rows, [json.dumps(sorted(ids))]):
                width = len(relation.columns)
                yield relation, known_values(relation.columns, decoded_row(relation.columns, row[:width]))

    def elsewhere(self, ids: Iterable[str]) -> list[str]:
        """Return how many base facts, and how many absences, of each process have these identities."""
        counts: Counter[tuple[str, bool]] = Counter()
        for one in ids:
            name, _ = self.processes.get(one[:LIFE], ("a process that is gone", False))
            counts[name, one[LIFE + SPACE : LIFE + SPACE + 1] == "("] += 1
        return [f"{counted_facts(number, absent)} of {name}" for (name, absent), number in sorted(counts.items())]

    def readable(self, proofs: Sequence[Sequence[str]]) -> Iterator[list[str]]:
        """Yield for each proof its base facts of this process, and how many of each other process."""
        known = self.found({one for proof in proofs for one in proof})
        for proof in proofs:
            own = (known[one] for one in proof if one in known)
            facts = [stored_tuple_text(self.relations[table], values) for table, values in own]
            yield [*facts, *self.elsewhere(one for one in proof if one not in known)]


GIVEN = "(SELECT value FROM json_each(?))"
"""The values of a JSON array in SQL."""


class ProcessExplainer(RowExplainer):
    """Explains tuples of a process. Of one of a recursion across processes it has a live proof: the base facts of this
    process, and how many there are of each other one."""

    def proofs_of(self, rule: RowRule, relation: RowRelation) -> RowRelation | None:
        """Return the relation with the live proofs of a relation, if a rule takes its tuples from there."""
        source = self.relations.get(rule.sources[0].table) if len(rule.sources) == 1 else None
        return source if source and source.kind == "proofs" and source.annotates == relation.name else None

    def proof_of(self, proofs: RowRelation, values: Values) -> list[str] | None:
        """Return the live proof of a tuple, None if it has none."""
        pairs = [*zip(proofs.columns, values, strict=False)][: len(proofs.columns) - 1]
        held = " AND ".join(f"{quoted_sql(column.sql)} = ?" for column, _ in pairs) or "TRUE"
        proof = quoted_sql(proofs.columns[-1].sql)
        given = [self.encoded(value, column.type) for column, value in pairs]
        query = f"SELECT {proof} FROM {stored(proofs.table)} WHERE {held} LIMIT 1"
        row = self.database.connection.execute(query, given).fetchone()
        return [*json.loads(row[0])] if row else None

    def derived(self, relation: RowRelation, values: Values) -> tuple[dict[str, Any], list[Known]]:
        """Return a stored tuple with a rule that derives it, and the premises, or with its live proof."""
        stratum = self.strata.get(relation.table)
        for rule in stratum.rules if stratum else ():
            proofs = self.proofs_of(rule, relation)
            if proofs is None or rule.head != relation.table:
                continue
            facts, ids = RowFacts(self.database), self.proof_of(proofs, values) or []
            own = facts.found(ids)
            node = {**self.told(relation, values), "proof": facts.elsewhere(one for one in ids if one not in own)}
            return node, list(dict.fromkeys(own[one] for one in ids if one in own))
        return super().derived(relation, values)

    def attempts(self, relation: RowRelation, values: Values) -> Iterator[dict[str, Any]]:
        """Yield how far each rule gets; none says why there is no live proof."""
        stratum = self.strata.get(relation.table)
        for rule in stratum.rules if stratum else ():
            if rule.head == relation.table and self.proofs_of(rule, relation):
                text = stored_tuple_text(relation, values)
                said = {"rule": rule.label, "source": rule.source, "text": rule.text}
                yield {**said, "found": [], "missing": text, "why": "has no live proof here", "step": text}
                return
        yield from super().attempts(relation, values)


def numbered_rows(program: RowProgram) -> dict[str, list[RowRelation]]:
    """Return by the table of facts that are numbered the relations with their identities, one for each recursion."""
    numbered: dict[str, list[RowRelation]] = {}
    for stratum in program.strata:
        if stratum.kind == "identities":
            facts = next(source.table for source in stratum.rules[0].sources if source.table not in stratum.guards)
            numbered.setdefault(facts, []).append(stratum.relations[0])
    return numbered
