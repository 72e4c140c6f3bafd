"""Steps of derivations at one process, for derivations that go on at others.

A live proof says which base facts suffice to derive a tuple, not how. So the recursion is computed again from these
facts alone, at all processes that have some of them or are sent what follows; each tuple gets the number of the round
in which it was found. It is then explained by a rule that reads what was found earlier.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ...database.explain import RuleUse, known_values, stored_tuple_text
from ...database.state import DatabaseState
from ...inputs.tuples import read_constant
from ...kernel.errors import JobError
from ...kernel.values import Values, constant_text, hashable, plain_row
from ...row_kernel.batch import BEGINNING
from ...row_kernel.encodings import decoded_row
from ...row_kernel.model import Absence, ProofStratum, RowRelation, RowRule
from ...row_kernel.tables import listed, quoted_sql, same, stored
from .channels import Channel, Process
from .process_commands import parse_row
from .row_facts import GIVEN, ProcessExplainer, RowFacts

MOST_FOUND = 100_000
"""At most this many tuples are found at a process before the search ends."""

Texts = list[str]
"""The values of a tuple as programs write them, since they are passed on to other processes."""


class Tracer(ProcessExplainer):
    """Explains single steps of derivations at one process, in an opened state. Without its proof, a tuple of a
    recursion is ``traced``: it was found from the base facts of proofs.

    Rules of recursions then read temporary views in the place of the stored tables: of base facts, those of proofs that
    were asked for; of what is derived from them, what was found.
    """

    def __init__(self, database: DatabaseState, process: Process) -> None:
        """Find the relations of recursions, and make the tables of what is found."""
        super().__init__(database)
        self.process, self.facts = process, RowFacts(database)
        self.execute = database.connection.execute
        self.arrivals: dict[str, list[Channel]] = {}
        for channel in process.receives:
            self.arrivals.setdefault(channel.input, []).append(channel)
        self.departures: dict[str, list[Channel]] = {}
        for channel in process.sends:
            self.departures.setdefault(channel.output, []).append(channel)
        strata = [stratum for stratum in self.program.strata if isinstance(stratum, ProofStratum)]
        self.proving = [rule for stratum in strata for rule in stratum.rules]
        tables = [table for stratum in strata for kept in stratum.proofs for table in (kept.table, kept.received)]
        self.found = {table: self.relations[table] for table in tables if table}
        self.numbered = {one.table: facts for facts, all_of_it in self.facts.numbered.items() for one in all_of_it}
        epochs = {s.relations[0].table: s.rules[0].sources[0].table for s in self.program.strata if s.kind == "epochs"}
        self.ever = {
            rule.head: epochs[rule.sources[0].table]
            for stratum in self.program.strata
            for rule in stratum.rules
            if stratum.kind == "counted" and len(rule.sources) == 1 and rule.sources[0].table in epochs
        }
        self.apart = {*epochs, *(stratum.guards[0] for stratum in strata), BEGINNING}
        self.execute("CREATE TEMP TABLE _trace_before (k INTEGER)")
        self.execute("INSERT INTO _trace_before VALUES (1)")
        self.execute("CREATE TEMP TABLE _trace_ids (id TEXT PRIMARY KEY) WITHOUT ROWID")
        for relation in self.found.values():
            columns = listed(self.own_columns(relation))
            self.execute(f"CREATE TEMP TABLE {self.kept_in(relation)} ({columns or '_unit'}, _found INTEGER)")
            by = f"{columns or '_unit'}"
            index = quoted_sql(f"_trace_of_{relation.table}__1")
            self.execute(f"CREATE INDEX temp.{index} ON {quoted_sql(f'_trace_of_{relation.table}')} ({by})")

    def own_columns(self, relation: RowRelation) -> list[str]:
        """Return the columns of a tuple of a recursion, without its proof."""
        return [column.sql for column in relation.columns[:-1]]

    def kept_in(self, relation: RowRelation) -> str:
        """Return the table of the tuples of a recursion that were found, in SQL."""
        return f"temp.{quoted_sql(f'_trace_of_{relation.table}')}"

    def read_in(self, table: str) -> str:
        """Return what rules of recursions read in the place of a table, in SQL."""
        if table in self.numbered:
            identity = quoted_sql(self.relations[table].columns[-1].sql)
            return f"(SELECT * FROM {stored(table)} WHERE {identity} IN (SELECT id FROM temp._trace_ids))"
        if table in self.found:
            relation = self.found[table]
            columns = [*map(quoted_sql, self.own_columns(relation)), f"'[]' AS {quoted_sql(relation.columns[-1].sql)}"]
            before = "_found < (SELECT k FROM temp._trace_before)"
            return f"(SELECT {', '.join(columns)} FROM {self.kept_in(relation)} WHERE {before})"
        return stored(table)

    def set_before(self, clock: int) -> None:
        """Let rules of recursions read what was found before a round."""
        self.execute("UPDATE temp._trace_before SET k = ?", (clock,))

    # What others ask

    def asked(self, text: str) -> dict[str, Any]:
        """Return a tuple in program syntax as its table and values, and whether it is stored here."""
        relation, values = parse_row(self.program, text)
        return {**self.known(relation, values), "present": self.is_stored(relation, values)}

    def absent(self, text: str) -> dict[str, Any]:
        """Return how far each rule gets to a tuple that is not stored here."""
        return self.explain(*parse_row(self.program, text), 1)

    def lives(self) -> dict[str, str]:
        """Return the processes that are there by their lives."""
        return {life: name for life, (name, _) in self.facts.processes.items()}

    def input_table(self, name: str) -> str:
        """Return the table of an input that has tuples of a recursion."""
        return self.program.inputs[name].table

    def sent(self, output: str, texts: Texts) -> dict[str, Any] | None:
        """Return a tuple that this process sends; None if it has no such tuple."""
        relation = next((r for r in self.program.relations if r.name == output and r.kind != "input"), None)
        if relation is None:
            return None
        values = self.read(relation, texts)
        if relation.table in self.found and len(values) < len(relation.columns):
            return None if self.proof_of(relation, values) is None else self.known(relation, values, traced=True)
        return self.known(relation, values) if self.is_stored(relation, values) else None

    def step(self, table: str, texts: Texts, traced: bool) -> dict[str, Any]:
        """Return one step of a derivation: what is shown of the tuple and of the rule, and the premises. Instead of
        premises there may be a live proof, or the processes that may have sent it."""
        relation = self.relations[table]
        values = self.read(relation, texts)
        if traced:
            return self.traced(relation, values)
        if relation.name in self.arrivals and relation.kind == "input":
            # Show it as its sender has it: what is sent may be some of the columns.
            return {"node": {**self.described(relation, values), "shown": False}, "arrived": self.senders(relation)}
        if not self.is_stored(relation, values):
            return {"node": self.described(relation, values), "gone": True}
        stratum = self.strata.get(table)
        for rule in stratum.rules if stratum else ():
            if rule.head == table and (proofs := self.proofs_of(rule, relation)):
                ids = self.proof_of(proofs, values)
                if ids is None:
                    return {"node": self.described(relation, values), "gone": True}
                passed = self.known(proofs, values, traced=True)
                return {"node": self.described(relation, values), "passed": passed, "ids": ids}
        node, sources = self.derived(relation, values)
        apart = {*self.apart, *(one for one, _ in sources if self.only_competes(self.relations[one]))}
        if not {one for one, _ in sources} - apart:
            apart = self.apart
        premises = [self.known(self.relations[one], terms) for one, terms in sources if one not in apart]
        return {"node": {**self.described(relation, values), **node}, **self.passing(premises)}

    def advance(
        self, ids: Sequence[str], arrived: Iterable[tuple[str, Texts]], clock: int, best: bool, most: int
    ) -> dict[str, Any]:
        """Find what follows from base facts and from what has arrived, in at most ``most`` rounds. If ``best``, only
        what is stored is looked at. Return what is to be sent, by reader and input, and the last round."""
        self.execute("DELETE FROM temp._trace_ids")
        self.execute(f"INSERT INTO temp._trace_ids SELECT DISTINCT value FROM {GIVEN}", [json.dumps(sorted(ids))])
        begun = clock
        clock += 1
        for name, texts in arrived:
            relation = self.program.inputs[name]
            values = zip(self.read(relation, texts), relation.columns, strict=False)
            row = [self.encoded(value, column.type) for value, column in values]
            marks = ", ".join(f"? AS {quoted_sql(column)}" for column in self.own_columns(relation))
            self.note(relation, f"SELECT {marks or '1 AS _unit'}", clock, False, row)
        while most:
            clock += 1
            most -= 1
            self.set_before(clock)
            new = sum(self.derive(rule, clock, best) for rule in self.proving)
            counts = (f"SELECT COUNT(*) FROM {self.kept_in(relation)}" for relation in self.found.values())
            if not new or sum(self.execute(query).fetchone()[0] for query in counts) > MOST_FOUND:
                break
        return {"clock": clock, "sent": self.leaving(begun)}

    def is_found(self, table: str, texts: Texts) -> bool:
        """Return whether a tuple of a recursion has been found."""
        relation = self.relations[table]
        return self.round_of(relation, self.read(relation, texts)) is not None

    def received(self, ids: Collection[str]) -> list[list[Any]]:
        """Return the tuples of recursions that have come with proofs of some of these identities, by input."""
        kept = []
        for relation in (r for r in self.found.values() if r.kind == "input"):
            *columns, proof = relation.columns
            having = f"SELECT 1 FROM json_each({quoted_sql(proof.sql)}) AS p WHERE p.value IN {GIVEN}"
            order = listed(self.own_columns(relation)) or "1"
            query = f"SELECT {order} FROM {stored(relation.table)} WHERE EXISTS ({having}) ORDER BY {order} LIMIT ?"
            for row in self.execute(query, [json.dumps(sorted(ids)), MOST_FOUND]):
                values = known_values(columns, decoded_row(columns, row[: len(columns)]))
                kept.append([relation.name, self.texts(relation, values), self.senders(relation)])
        return kept

    # How

    def texts(self, relation: RowRelation, values: Sequence[Any]) -> Texts:
        """Return the values of a tuple as programs write them."""
        return [constant_text(value, column.type) for value, column in zip(values, relation.term_columns, strict=False)]

    def read(self, relation: RowRelation, texts: Texts) -> Values:
        """Return the values of a tuple whose texts are given; the proof may be missing."""
        pairs = zip(texts, relation.term_columns, strict=False)
        return tuple(hashable(read_constant(text, column.type)) for text, column in pairs)

    def known(self, relation: RowRelation, values: Sequence[Any], traced: bool = False) -> dict[str, Any]:
        """Return a tuple as other processes refer to it."""
        return {"table": relation.table, "values": self.texts(relation, values), "traced": traced}

    def senders(self, relation: RowRelation) -> list[list[str]]:
        """Return which processes may send tuples of an input, and what they call it."""
        return [[channel.sender, channel.output] for channel in self.arrivals.get(relation.name, ())]

    def is_stored(self, relation: RowRelation, values: Values) -> bool:
        """Return whether a tuple is stored here."""
        return bool(self.having(relation, values[: len(relation.columns)], 1))

    def only_competes(self, relation: RowRelation) -> bool:
        """Return whether a relation has the extremum of a group that a rule with witnesses was split off."""
        stratum = self.strata.get(relation.table)
        functions = {aggregated.function for aggregated in stratum.aggregates_of(relation.table)} if stratum else set()
        return relation.hidden and not relation.shown_as and bool(functions) and functions <= {"min", "max"}

    def described(self, relation: RowRelation, values: Values) -> dict[str, Any]:
        """Return the printed form of a tuple, and whether it is printed at all."""
        shown = not relation.hidden or bool(relation.shown_as)
        columns = relation.columns
        text, name = "", relation.annotates or relation.shown_as or relation.name
        if relation.annotates:
            columns = columns[: -1 if relation.table in self.found else -2]
            annotated = next((r for r in self.program.relations if r.name == relation.annotates and not r.hidden), None)
            shown = annotated is not None
            text = stored_tuple_text(annotated, values[: len(columns)]) if annotated else relation.annotates
        return {
            "tuple": text or stored_tuple_text(relation, values[: len(columns)]),
            "relation": name,
            "values": list(plain_row(columns, values[: len(columns)])),
            "shown": shown,
        }

    def passing(self, premises: list[dict[str, Any]]) -> dict[str, Any]:
        """Return premises; one that is the same tuple, as another process has sent it, is passed on. Rules of the
        program read other tuples, from inputs that are not hidden."""
        if len(premises) == 1:
            relation = self.relations[premises[0]["table"]]
            if relation.kind == "input" and relation.hidden and relation.name in self.arrivals:
                return {"passed": premises[0]}
        return {"premises": premises}

    def round_of(self, relation: RowRelation, values: Values) -> int | None:
        """Return the round in which a tuple of a recursion was found."""
        pairs = [*zip(relation.columns[:-1], values, strict=False)]
        held = " AND ".join(f"{quoted_sql(column.sql)} = ?" for column, _ in pairs) or "TRUE"
        given = [self.encoded(value, column.type) for column, value in pairs]
        row = self.execute(f"SELECT _found FROM {self.kept_in(relation)} WHERE {held} LIMIT 1", given).fetchone()
        return row and int(row[0])

    def traced(self, relation: RowRelation, values: Values) -> dict[str, Any]:
        """Return the step that found a tuple of a recursion, which reads only what was found before."""
        node = self.described(relation, values)
        number = self.round_of(relation, values)
        if number is None:
            return {"node": node, "gone": True}
        if relation.kind == "input":
            return {"node": node, "arrived": self.senders(relation)}
        self.set_before(number)
        for rule in (rule for rule in self.proving if rule.head == relation.table):
            sources = {place: (self.read_in(source.table), "") for place, source in enumerate(rule.sources)}
            pairs = zip(relation.columns[:-1], rule.values, values, strict=False)
            tests = [(f"{head} = ?", (self.encoded(value, column.type),)) for column, head, value in pairs]
            uses = self.rows_of(rule, self.all_derivations(rule, sources=sources), tests, 1, rule.absences)
            if uses:
                return self.told_by(node, rule, uses[0])
        return {"node": node, "gone": True}

    def told_by(self, node: dict[str, Any], rule: RowRule, use: RuleUse) -> dict[str, Any]:
        """Return the step of a rule of a recursion, with facts instead of their identities."""
        node |= {"rule": rule.label.removesuffix("_again"), "source": rule.source}
        node["text"] = rule.text or f"{node['tuple']}."
        premises = []
        for table, terms in use.premises:
            if table in self.numbered:
                premises.append(self.known(self.relations[self.numbered[table]], terms[:-1]))
            elif table in self.found:
                premises.append(self.known(self.relations[table], terms[:-1], traced=True))
            elif table not in self.apart:
                premises.append(self.known(self.relations[table], terms))
        if use.absent:
            node["absent"] = list(dict.fromkeys(use.absent))
        unlike = [premise for place, premise in enumerate(premises) if premise not in premises[:place]]
        return {"node": node, **self.passing(unlike)}

    def absent_text(self, absence: Absence, row: Sequence[Any]) -> str:
        """Return the tuple that a negated literal says is absent: of what has appeared, the fact itself."""
        of = self.ever.get(absence.table, absence.table)
        pairs = zip(self.relations[absence.table].columns, self.relations[of].columns, strict=True)
        names = {column.sql: own.sql for column, own in pairs}
        terms = tuple((names[column], value) for column, value in absence.terms)
        return super().absent_text(Absence(of, absence.alias, terms), row)

    def derive(self, rule: RowRule, clock: int, best: bool) -> int:
        """Note what a rule derives from what was found before; return the number of new tuples."""
        sources = {place: (self.read_in(source.table), "") for place, source in enumerate(rule.sources)}
        found = self.all_derivations(rule, sources=sources)
        relation = self.relations[rule.head]
        columns = self.own_columns(relation)
        values = [f"{value} AS {quoted_sql(c)}" for value, c in zip(found.values, columns, strict=False)]
        return self.note(relation, found.select(values or ["1 AS _unit"]), clock, best)

    def note(self, relation: RowRelation, rows: str, clock: int, best: bool, given: Sequence[Any] = ()) -> int:
        """Keep the new rows of a query with some given values, if ``best`` only stored ones; return their number."""
        columns, kept = self.own_columns(relation), self.kept_in(relation)
        key = columns or ["_unit"]
        conditions = [f"NOT EXISTS (SELECT 1 FROM {kept} AS f WHERE {same(key, 'f', 'd')})"]
        if best:
            conditions.append(f"EXISTS (SELECT 1 FROM {stored(relation.table)} AS s WHERE {same(columns, 's', 'd')})")
        conditions += [f"d.{quoted_sql(column)} IS NOT NULL" for column in columns]
        return self.execute(
            f"INSERT INTO {kept} SELECT DISTINCT {listed(key, 'd')}, ? FROM ({rows}) AS d "
            f"WHERE {' AND '.join(conditions)}",
            [clock, *given],
        ).rowcount

    def leaving(self, begun: int) -> list[list[Any]]:
        """Return what was found after a round and belongs to other processes: reader, input and values."""
        sent: list[list[Any]] = []
        for relation in self.found.values():
            for channel in self.departures.get(relation.name, ()) if relation.kind != "input" else ():
                columns = relation.columns[:-1]
                query = f"SELECT {listed(self.own_columns(relation)) or '1'} FROM {self.kept_in(relation)}"
                for row in self.execute(f"{query} WHERE _found > ? LIMIT ?", [begun, MOST_FOUND]).fetchall():
                    values = known_values(columns, decoded_row(columns, row[: len(columns)]))
                    if self.belongs(channel, values):
                        texts, named = self.texts(relation, values), self.known(relation, values, traced=True)
                        sent.append([channel.reader, channel.input, texts, named])
        return sent

    def belongs(self, channel: Channel, values: Sequence[Any]) -> bool:
        """Return whether the reader of a channel holds the address of a tuple, if it has one."""
        partition = self.process.partition
        if partition is None or channel.location < 0:
            return True
        return partition.node_of(values[channel.location]) == channel.node


def answer(tracer: Tracer, question: Sequence[Any]) -> Any:
    """Return the answer to a question: the name of a method for others, and its arguments."""
    name, *arguments = question
    if name not in ("absent", "advance", "asked", "input_table", "is_found", "lives", "received", "sent", "step"):
        raise JobError(f"there is no question {name}")
    return getattr(tracer, name)(*arguments)
