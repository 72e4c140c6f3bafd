"""Steps of derivations at one process, for derivations that go on at others.

A live proof says which base facts suffice to derive a tuple, not how. So the recursion is computed again from these
facts alone, at all processes that have some of them or are sent what follows; each tuple gets the number of the round
in which it was found. It is then explained by a rule that reads what was found earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from ...explain.base_facts import BaseFacts
from ...explain.proofs import Explainer
from ...inputs.tuples import parse_tuple, read_constant
from ...kernel.engine import Engine
from ...kernel.errors import JobError
from ...kernel.model import Column, Program, Relation, Rule
from ...kernel.sql import names
from ...kernel.values import Values, constant_text, hashable, plain_row, sql_constant, tuple_text
from .channels import Channel, Process

MOST_FOUND = 100_000
"""At most this many tuples are found at a process before the search ends."""

Texts = list[str]
"""The values of a tuple as programs write them, since they are passed on to other processes."""


class Tracer(Explainer):
    """Explains single steps of derivations at one process. Without its proof, a tuple of a recursion is ``traced``: it
    was found from the base facts of proofs."""

    def __init__(self, program: Program, engine: Engine, stored: Callable[[Relation], str], process: Process) -> None:
        """Make the views that rules read: of the base facts, those of proofs that were asked for; of what is derived
        from them, what was found."""
        super().__init__(program, engine, stored)
        self.process = process
        self.facts = BaseFacts(program, engine)
        self.arrivals: dict[str, list[Channel]] = {}
        for channel in process.receives:
            self.arrivals.setdefault(channel.input, []).append(channel)
        self.departures: dict[str, list[Channel]] = {}
        for channel in process.sends:
            self.departures.setdefault(channel.output, []).append(channel)
        strata = [stratum for stage in program.stages for stratum in stage.strata]
        self.proving = [rule for s in strata if s.kind == "proofs" for rule in s.rules]
        self.found: dict[str, Relation] = {}
        for stratum in (stratum for stratum in strata if stratum.kind == "proofs"):
            received = (r for r in stratum.reads if r.kind == "input" and r.annotates)
            self.found |= {relation.table: relation for relation in (*stratum.relations, *received)}
        self.numbered = {one.table: facts for facts, all_of_it in self.facts.numbered.items() for one in all_of_it}
        self.counts = {r.table for s in strata if s.kind == "epochs" for r in s.relations}
        self.ever = {
            rule.head: read.table
            for s in strata
            if any(r.table in self.counts for r in s.reads) and s.kind == "counted"
            for rule in s.rules
            for epochs in strata
            if epochs.kind == "epochs" and epochs.relations[0] in s.reads
            for read in epochs.reads
            if read not in epochs.guards
        }
        lives = self.facts.lives
        self.apart = {*self.counts, *((lives.table,) if lives else ())}
        engine.table("trace__before", "SELECT 1 AS _k")
        engine.table("trace__ids", "SELECT '' AS id WHERE FALSE")
        for relation in (self.relations[table] for table in self.numbered):
            table, columns, identity = relation.tables, names(relation.columns, "s."), relation.columns[-1].sql
            rows = f"SELECT {columns} FROM {table.stored} AS s SEMI JOIN trace__ids AS i ON s.{identity} = i.id"
            engine.view(table.after, rows)
        for relation in self.found.values():
            table = relation.tables
            own = relation.columns[:-1]
            engine.empty(table.found, [*own, Column("_found", "int", "_found")])
            proof = f"CAST([] AS VARCHAR[]) AS {relation.columns[-1].sql}"
            listed = ", ".join([*(column.sql for column in own), proof])
            early = "WHERE _found < (SELECT _k FROM trace__before)"
            engine.view(table.after, f"SELECT {listed} FROM {table.found} {early}")

    # What others ask

    def asked(self, text: str) -> dict[str, Any]:
        """Return a tuple in program syntax as its table and values, and whether it is stored here."""
        relation, values = parse_tuple(self.program, text)
        values = tuple(map(hashable, values))
        return {**self.known(relation, values), "present": self.stored(relation, values) is not None}

    def absent(self, text: str) -> dict[str, Any]:
        """Return how far each rule gets to a tuple that is not stored here."""
        return self.explain(*parse_tuple(self.program, text), 1)

    def lives(self) -> dict[str, str]:
        """Return the processes that are there by their lives."""
        return {life: name for life, (name, _) in self.facts.processes.items()}

    def input_table(self, name: str) -> str:
        """Return the table of an input that has tuples of a recursion."""
        return next(r.table for r in self.found.values() if r.name == name and r.kind == "input")

    def sent(self, output: str, texts: Texts) -> dict[str, Any] | None:
        """Return a tuple that this process sends; None if it has no such tuple."""
        relation = next((r for r in self.program.relations if r.name == output and r.kind != "input"), None)
        if relation is None:
            return None
        values = self.read(relation, texts)
        if relation.table in self.found and len(values) < len(relation.columns):
            return None if self.proof_row(relation, values) is None else self.known(relation, values, traced=True)
        return None if self.stored(relation, values) is None else self.known(relation, values)

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
        stored = self.stored(relation, values)
        if stored is None:
            return {"node": self.described(relation, values), "gone": True}
        for rule in self.rules[relation.table]:
            if proofs := self.proofs_of(rule, relation):
                row = self.proof_row(proofs, values)
                if row is None:
                    return {"node": self.described(relation, values), "gone": True}
                passed = self.known(proofs, values, traced=True)
                return {"node": self.described(relation, values), "passed": passed, "ids": list(row)}
        node, sources = self.derived(relation, values)
        premises = [self.known(self.relations[one], terms) for one, terms in sources if one not in self.apart]
        return {"node": {**self.described(relation, values), **node}, **self.passing(premises)}

    def advance(
        self, ids: Sequence[str], arrived: Iterable[tuple[str, Texts]], clock: int, best: bool, most: int
    ) -> dict[str, Any]:
        """Find what follows from base facts and from what has arrived, in at most ``most`` rounds. If ``best``, only
        what is stored is looked at. Return what is to be sent, by reader and input, and the last round."""
        rows = ", ".join(f"({sql_constant(one, 'string', 'duckdb')})" for one in ids) or "(NULL)"
        self.engine.table("trace__ids", f"SELECT * FROM (VALUES {rows}) AS v(id)")
        begun = clock
        clock += 1
        for name, texts in arrived:
            relation = self.relations[self.input_table(name)]
            values = self.read(relation, texts)
            row = ", ".join(
                f"{sql_constant(value, column.type, 'duckdb')} AS {column.sql}"
                for value, column in zip(values, relation.columns[:-1], strict=True)
            )
            self.note(relation, f"SELECT {row or 'TRUE AS _unit'}", clock, False)
        while most:
            clock += 1
            most -= 1
            self.engine.table("trace__before", f"SELECT {clock} AS _k")
            new = sum(self.derive(rule, clock, best) for rule in self.proving)
            if not new or sum(self.engine.rows(relation.tables.found) for relation in self.found.values()) > MOST_FOUND:
                break
        return {"clock": clock, "sent": self.leaving(begun)}

    def is_found(self, table: str, texts: Texts) -> bool:
        """Return whether a tuple of a recursion has been found."""
        relation = self.relations[table]
        return self.round_of(relation, self.read(relation, texts)) is not None

    def received(self, ids: Collection[str]) -> list[list[Any]]:
        """Return the tuples of recursions that have come with proofs of some of these identities, by input."""
        listed = ", ".join(sql_constant(one, "string", "duckdb") for one in sorted(ids)) or "NULL"
        kept = []
        for relation in (r for r in self.found.values() if r.kind == "input"):
            *columns, proof = relation.columns
            sql = f"SELECT * FROM {relation.tables.stored} WHERE LIST_HAS_ANY({proof.sql}, [{listed}])"
            for row in self.engine.first(sql, MOST_FOUND):
                values = tuple(hashable(row[column.sql]) for column in columns)
                kept.append([relation.name, self.texts(relation, values), self.senders(relation)])
        return kept

    # How

    def texts(self, relation: Relation, values: Sequence[Any]) -> Texts:
        """Return the values of a tuple as programs write them."""
        return [constant_text(value, column.type) for value, column in zip(values, relation.term_columns, strict=False)]

    def read(self, relation: Relation, texts: Texts) -> Values:
        """Return the values of a tuple whose texts are given; the proof may be missing."""
        pairs = zip(texts, relation.term_columns, strict=False)
        return tuple(hashable(read_constant(text, column.type)) for text, column in pairs)

    def known(self, relation: Relation, values: Sequence[Any], traced: bool = False) -> dict[str, Any]:
        """Return a tuple as other processes refer to it."""
        return {"table": relation.table, "values": self.texts(relation, values), "traced": traced}

    def senders(self, relation: Relation) -> list[list[str]]:
        """Return which processes may send tuples of an input, and what they call it."""
        return [[channel.sender, channel.output] for channel in self.arrivals.get(relation.name, ())]

    def described(self, relation: Relation, values: Values) -> dict[str, Any]:
        """Return the printed form of a tuple, and whether it is printed at all."""
        shown = not relation.hidden or bool(relation.shown_as)
        columns, own = relation.columns, values[: len(relation.columns)]
        text = ""
        if relation.annotates:
            columns = columns[: -1 if relation.table in self.found else -2]
            own = own[: len(columns)]
            annotated = next((r for r in self.program.relations if r.name == relation.annotates and not r.hidden), None)
            shown = annotated is not None
            text = tuple_text(annotated, own) if annotated else relation.annotates
        return {
            "tuple": text or tuple_text(relation, values),
            "relation": relation.annotates or relation.shown_as or relation.name,
            "values": list(plain_row(columns, own)),
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

    def proof_row(self, proofs: Relation, values: Values) -> list[str] | None:
        """Return the live proof of a tuple."""
        same = [
            f"{column.sql} = {sql_constant(value, column.type, 'duckdb')}"
            for column, value in zip(proofs.columns[:-1], values, strict=False)
        ]
        rows = self.engine.first(f"SELECT * FROM {proofs.tables.stored} WHERE {' AND '.join(same) or 'TRUE'}", 1)
        return list(rows[0][proofs.columns[-1].sql]) if rows else None

    def round_of(self, relation: Relation, values: Values) -> int | None:
        """Return the round in which a tuple of a recursion was found."""
        same = [
            f"{column.sql} = {sql_constant(value, column.type, 'duckdb')}"
            for column, value in zip(relation.columns[:-1], values, strict=True)
        ]
        sql = f"SELECT _found FROM {relation.tables.found} WHERE {' AND '.join(same) or 'TRUE'}"
        rows = self.engine.first(sql, 1)
        return int(rows[0]["_found"]) if rows else None

    def traced(self, relation: Relation, values: Values) -> dict[str, Any]:
        """Return the step that found a tuple of a recursion, which reads only what was found before."""
        node = self.described(relation, values)
        number = self.round_of(relation, values)
        if number is None:
            return {"node": node, "gone": True}
        if relation.kind == "input":
            return {"node": node, "arrived": self.senders(relation)}
        self.engine.table("trace__before", f"SELECT {number} AS _k")
        self.ask(relation, (*values, ()))
        for rule in (rule for rule in self.proving if rule.head == relation.table):
            held = " AND ".join(f"_{place}" for place, _ in enumerate(rule.steps, 1)) or "TRUE"
            order = ", ".join(self.term_columns(rule))
            sql = f"SELECT * FROM ({self.engine.text(rule.asked)}) AS q WHERE {held}"
            rows = self.engine.first(f"{sql} ORDER BY {order}" if order else sql, 1)
            if rows:
                return {**self.told(node, rule, rows[0])}
        return {"node": node, "gone": True}

    def told(self, node: dict[str, Any], rule: Rule, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the step of a rule of a recursion, with facts instead of their identities."""
        node |= {"rule": rule.label.removesuffix("_again"), "source": rule.source, "text": rule.text}
        if "_at" in row:
            node |= {"rule": row["_rule"], "source": row["_at"], "text": f"{node['tuple']}."}
        premises, absent = [], []
        for step, terms in self.literals(rule, row):
            if step.negated:
                of = self.relations[self.ever.get(step.table, step.table)]
                absent.append(tuple_text(of, terms))
            elif step.table in self.numbered:
                premises.append(self.known(self.relations[self.numbered[step.table]], terms[:-1]))
            elif step.table in self.found:
                premises.append(self.known(self.relations[step.table], terms[:-1], traced=True))
            elif step.table not in self.apart:
                premises.append(self.known(self.relations[step.table], terms))
        if absent:
            node["absent"] = list(dict.fromkeys(absent))
        unlike = [premise for place, premise in enumerate(premises) if premise not in premises[:place]]
        return {"node": node, **self.passing(unlike)}

    def derive(self, rule: Rule, clock: int, best: bool) -> int:
        """Note what a rule derives from what was found before; return the number of new tuples."""
        relation = self.relations[rule.head]
        rows = f"SELECT {names(relation.columns[:-1]) or 'TRUE AS _unit'} FROM ({self.engine.text(rule.full)}) AS d"
        return self.note(relation, rows, clock, best)

    def note(self, relation: Relation, rows: str, clock: int, best: bool) -> int:
        """Keep the new rows of a query, if ``best`` only stored ones; return their number."""
        table, columns = relation.tables, relation.columns[:-1]
        listed = names(columns, "d.") or "TRUE AS _unit"

        def same(other: str) -> str:
            return " AND ".join(f"{other}.{column.sql} = d.{column.sql}" for column in columns) or "TRUE"

        sql = f"SELECT DISTINCT {listed} FROM ({rows}) AS d ANTI JOIN {table.found} AS f ON {same('f')}"
        if best:
            sql += f" SEMI JOIN {table.stored} AS s ON {same('s')}"
        if columns:
            sql += " WHERE " + " AND ".join(f"d.{column.sql} IS NOT NULL" for column in columns)
        new = self.engine.table(table.new, sql)
        if new:
            listed_found = ", ".join([*(column.sql for column in columns), f"{clock} AS _found"])
            self.engine.insert(table.found, f"SELECT {listed_found} FROM {table.new}")
        return new

    def leaving(self, begun: int) -> list[list[Any]]:
        """Return what was found after a round and belongs to other processes: reader, input and values."""
        sent: list[list[Any]] = []
        for relation in self.found.values():
            for channel in self.departures.get(relation.name, ()) if relation.kind != "input" else ():
                sql = f"SELECT * FROM {relation.tables.found} WHERE _found > {begun}"
                for row in self.engine.first(sql, MOST_FOUND):
                    values = [hashable(row[column.sql]) for column in relation.columns[:-1]]
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
