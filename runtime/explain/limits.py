"""Say what a recursion was doing when a limit stopped it: the tuple with the most derivations, its rule, and the input
rows behind it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from ..kernel.engine import Engine
from ..kernel.errors import JobError
from ..kernel.model import Program, Relation, Rule, Stage, Stratum
from ..kernel.sql import names, tuple_names, union
from ..kernel.values import Known, Values, hashable, tuple_text
from .proofs import PROVEN, Explainer

MOST_VISITED = {"duckdb": 1000, "spark": 20}
"""At most this many tuples of a proof are looked at for the input rows behind a tuple: in Spark, each takes some
jobs."""

ROWS_LISTED = 5


def tell_culprit(
    engine: Engine, relations: Iterable[Relation], strata: Iterable[Stratum], stratum: Stratum
) -> list[str]:
    """Return lines that name the tuple with the most derivations of a stratum that a limit has stopped. The engine has
    tables of the ``relations`` up to there, and the ``strata`` have rules of some of them."""
    told: list[str] = []
    # The limit is the error to report, even if the tuples cannot be explained.
    with contextlib.suppress(JobError):
        told += Culprit(engine, relations, strata, stratum).told()
    return told


class Culprit:
    """The tuple with the most derivations among those from which a recursion would have gone on."""

    def __init__(
        self, engine: Engine, relations: Iterable[Relation], strata: Iterable[Stratum], stratum: Stratum
    ) -> None:
        """Make the views that rules read."""
        self.engine, self.stratum = engine, stratum
        self.own = {relation.table for relation in stratum.relations}
        known = {relation.table: relation for relation in relations}
        done: list[Stratum] = []
        for one in strata:
            done.append(replace(one, rules=explainable(one, known), written=()))
            if one.name == stratum.name:
                break
        self.ruled = {rule.head for one in done for rule in one.rules}
        later = {r.table for one in strata for r in one.relations} - {r.table for one in done for r in one.relations}
        # Of what earlier tasks computed, this one has read the tuples only.
        there = tuple(
            relation if table in self.ruled | self.own else replace(relation, kind="input")
            for table, relation in known.items()
            if table not in later
        )
        program = Program("", "", "", there, (Stage(tuple(done), False),))
        self.explainer = Explainer(program, engine, self.rows)

    def rows(self, relation: Relation) -> str:
        """Return SQL for the tuples of a relation so far."""
        table, columns = relation.tables, names(relation.state_columns)
        parts = [f"SELECT {columns} FROM {table}"]
        if relation.table not in self.own:
            return parts[0]
        others = (table.summed, table.changed) if relation.kind == "entries" else (table.changed,)
        parts += [f"SELECT {columns} FROM {other}" for other in others if self.engine.rows(other)]
        if relation.kind != "entries":
            return " UNION ".join(parts)
        key = names(relation.tuple_columns)
        return (
            f"SELECT {key}, CAST(SUM(_support) AS BIGINT) AS _support FROM ({union(parts)}) AS q "
            f"GROUP BY {key} HAVING SUM(_support) > 0"
        )

    def told(self) -> Iterator[str]:
        """Yield lines that name the tuple, its rule and the input rows behind it; none if no tuple can be named."""
        examples = [most for relation in self.stratum.relations if (most := self.most_derived(relation))]
        if not examples:
            return
        number, called, relation, values = max(examples, key=lambda one: one[0])
        yield f"{called} {tuple_text(relation, values)}{f', with {number:,}' if number else ''}"
        try:
            if relation.kind == "proofs":
                yield from self.proven(relation, values)
                return
            node, sources = self.explainer.derived(relation, values)
        except JobError:
            # What it was derived from has been replaced by better values.
            yield from self.recursive_rules(relation)
            return
        yield f"it follows by {rule_text(node['rule'], node['source'], node['text'])}"
        behind, cut = self.behind(sources)
        if cut and not behind:
            # The recursion is too deep for the bound; it began with the tuples of the lowest rank.
            first = self.first(relation)
            yield f"the recursion begins with {tuple_text(relation, first)}"
            behind, _ = self.behind([(relation.table, first)])
        yield from self.listed([tuple_text(self.explainer.relations[table], row) for table, row in behind])

    def recursive_rules(self, relation: Relation) -> Iterator[str]:
        """Yield lines with the recursive rules of a relation."""
        rules = (rule for rule in self.stratum.rules if rule.head == relation.table and rule.rounds)
        yield from (f"such tuples follow by {rule_text(rule.label, rule.source, rule.text)}" for rule in rules)

    def proven(self, relation: Relation, values: Values) -> Iterator[str]:
        """Yield the recursive rules of a relation with live proofs, and the base facts in the proof of a tuple."""
        yield from self.recursive_rules(relation)
        if all(guard.table in self.explainer.relations for guard in self.stratum.guards):
            own, elsewhere = PROVEN["facts"](self.explainer.program, self.engine, values[-1])
            facts = [tuple_text(self.explainer.relations[table], row) for table, row in own]
            yield from self.listed([*facts, *elsewhere])

    @staticmethod
    def listed(behind: Sequence[str]) -> Iterator[str]:
        """Yield a line that lists what is behind a tuple, if it is known."""
        more = f" and {len(behind) - ROWS_LISTED:,} more" if len(behind) > ROWS_LISTED else ""
        if behind:
            yield f"behind it: {', '.join(behind[:ROWS_LISTED])}{more}"

    def most_derived(self, relation: Relation) -> tuple[int, str, Relation, Values] | None:
        """Return the number of derivations of the tuple that has the most (0: unknown), what to call it, and the tuple.
        Of its derivation sets, the largest is taken."""
        table, columns = relation.tables, relation.tuple_columns
        key = names(columns)
        if relation.kind == "entries":
            fact = names(columns[:-2]) or "TRUE"
            size = "LEN" if self.engine.name == "duckdb" else "SIZE"
            place = f"ROW_NUMBER() OVER (PARTITION BY {fact} ORDER BY {size}({columns[-2].sql}) DESC, {key}) AS _place"
            sets = f"SELECT {key}, COUNT(*) OVER (PARTITION BY {fact}) AS _n, {place} FROM ({self.rows(relation)}) AS r"
            query = f"SELECT * FROM ({sets}) AS s WHERE _place = 1"
            called = "the tuple with the most derivation sets is"
        elif self.engine.rows(table.changed):
            counted = self.stratum.kind == "ranked"
            query = f"SELECT {key}, {'_support' if counted else '0'} AS _n FROM {table.changed}"
            called = f"of the last round, {'the tuple with the most derivations is' if counted else 'a tuple is'}"
        else:
            return None
        order = ", ".join(["_n DESC", *(f"{name} DESC" for name in tuple_names(relation))])
        for row in self.engine.first(f"{query} ORDER BY {order}", 1):
            return int(row["_n"]), called, relation, tuple(hashable(row[column.sql]) for column in columns)
        return None

    def first(self, relation: Relation) -> Values:
        """Return a tuple of the lowest rank."""
        order = ", ".join([*(["_rank"] if relation.kind == "ranked" else []), *tuple_names(relation)])
        (row,) = self.engine.first(f"SELECT * FROM ({self.rows(relation)}) AS r ORDER BY {order}", 1)
        return tuple(hashable(row[column.sql]) for column in relation.tuple_columns)

    def behind(self, sources: Collection[Known]) -> tuple[list[Known], bool]:
        """Return the input rows in a proof that begins with these tuples, and the tuples of relations that the task
        only reads; and whether the proof has more tuples than are looked at."""
        waiting = dict.fromkeys(sources)
        seen, rows = {*waiting}, []
        for _ in range(MOST_VISITED[self.engine.name]):
            if not waiting:
                break
            table, values = fact = next(iter(waiting))
            del waiting[fact]
            relation = self.explainer.relations[table]
            if relation.kind == "input" or table not in self.ruled:
                rows.append(fact)
                continue
            sources = self.explainer.derived(relation, values)[1]
            if not sources:
                # A fact of the program.
                rows.append(fact)
            further = [one for one in sources if one not in seen]
            seen.update(further)
            waiting |= dict.fromkeys(further)
        return rows, bool(waiting)


def explainable(stratum: Stratum, known: Collection[str]) -> tuple[Rule, ...]:
    """Return the rules of a stratum that can be followed back over the relations of ``known`` tables: those of the
    program, if it has any."""
    written = {rule.head for rule in stratum.written}
    rules = [*stratum.written, *(rule for rule in stratum.rules if rule.head not in written)]
    return tuple(r for r in rules if r.asked and all(step.table in known for step in r.steps if step.table))


def rule_text(label: str, source: str, text: str) -> str:
    """Return a rule for messages."""
    return f"rule {label} ({source}): {' '.join(text.removeprefix(f'{label}:').split())}"
