"""Find the base facts behind the identities in live proofs, and the tuples that depend on a base fact.

Identities are the same at all processes, so that tuples of one process may depend on base facts of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from ..kernel.engine import Engine
from ..kernel.model import LIFE, Program, Relation
from ..kernel.sql import tuple_names
from ..kernel.values import Known, hashable, sql_constant
from .proofs import PROVEN, SPACE, counted_facts

MOST_ROWS = 10**9


class BaseFacts:
    """The base facts of the recursions across processes that a process takes part in, and the proofs that it keeps. The
    engine has a view r__stored of each relation r."""

    def __init__(self, program: Program, engine: Engine) -> None:
        """Find the relations with identities, proofs and lives."""
        self.program, self.engine = program, engine
        self.relations = {relation.table: relation for relation in program.relations}
        self.numbered = numbered_relations(program)
        strata = [stratum for stage in program.stages for stratum in stage.strata]
        self.proofs = [relation for s in strata if s.kind == "proofs" for relation in s.relations]
        self.lives = next((s.guards[0] for s in strata if s.kind == "proofs"), None)
        # Tasks pickle this class, and a cached property has a lock.
        self._processes: dict[str, tuple[str, bool]] | None = None

    @property
    def processes(self) -> dict[str, tuple[str, bool]]:
        """By life, as identities begin with them, the names of the processes that are there, and whether it is this
        one."""
        if self._processes is None:
            self._processes = {}
            if self.lives is not None:
                process, life, own = tuple_names(self.lives)
                rows = self.engine.first(f"SELECT * FROM {self.lives.tables.stored}", MOST_ROWS)
                self._processes = {row[life]: (row[process], row[own]) for row in rows}
        return self._processes

    def found(self, ids: Collection[str]) -> dict[str, Known]:
        """Return the base facts of this process that have some of these identities."""
        facts: dict[str, Known] = {}
        if not ids:
            return facts
        self._ask_ids(ids)
        for table, numbered in ((table, one) for table, all_of_it in self.numbered.items() for one in all_of_it):
            same = f"s.{numbered.columns[-1].sql} = a.id"
            rows = f"SELECT s.* FROM {numbered.tables.stored} AS s JOIN proof__asked AS a ON {same}"
            for row in self.engine.first(rows, len(ids)):
                *terms, identity = (hashable(row[column.sql]) for column in numbered.columns)
                facts[identity] = table, tuple(terms)
        return facts

    def elsewhere(self, ids: Iterable[str]) -> list[str]:
        """Return how many base facts, and how many absences, of each process have these identities."""
        named = self.processes
        counts: Counter[tuple[str, bool]] = Counter()
        for one in ids:
            name, _ = named.get(one[:LIFE], ("a process that is gone", False))
            counts[name, one[LIFE + SPACE : LIFE + SPACE + 1] == "("] += 1
        return [f"{counted_facts(number, absent)} of {name}" for (name, absent), number in sorted(counts.items())]

    def _ask_ids(self, ids: Collection[str]) -> None:
        """Make table proof__asked with identities."""
        rows = ", ".join(f"({sql_constant(one, 'string', self.engine.name)})" for one in sorted(ids)) or "(NULL)"
        self.engine.table("proof__asked", f"SELECT * FROM (VALUES {rows}) AS v(id)")


def numbered_relations(program: Program) -> dict[str, list[Relation]]:
    """Return by the table of facts that are numbered the relations with their identities, one for each recursion."""
    numbered: dict[str, list[Relation]] = {}
    for stratum in (stratum for stage in program.stages for stratum in stage.strata):
        if stratum.kind == "identities":
            (facts,) = (read for read in stratum.reads if read not in stratum.guards)
            numbered.setdefault(facts.table, []).append(stratum.relations[0])
    return numbered


def facts_of_proof(program: Program, engine: Engine, proof: Collection[str]) -> tuple[list[Known], list[str]]:
    """Return the base facts of this process in a proof, and how many there are of each other process."""
    facts = BaseFacts(program, engine)
    own = facts.found(proof)
    return [own[one] for one in proof if one in own], facts.elsewhere(one for one in proof if one not in own)


PROVEN["facts"] = facts_of_proof
