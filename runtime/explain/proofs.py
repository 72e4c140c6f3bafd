"""Explain why a tuple is in the state, or why not.

In a recursive stratum every tuple has a derivation from tuples of lower rank. Following these yields a finite proof,
and nothing is recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..kernel.engine import Engine
from ..kernel.errors import JobError
from ..kernel.model import Program, Relation, Rule, Step
from ..kernel.sql import names, tuple_names
from ..kernel.values import Known, Values, constant_text, hashable, plain_row, sql_constant, tuple_text

MOST_PROOF_TUPLES = 1000

FEW_DERIVATIONS = 3

BETTER = "derives it, but another value of its group is better"

PROVEN: dict[str, Callable[[Program, Engine, Collection[str]], tuple[list[Known], list[str]]]] = {}
"""The functions that only programs with live proofs have: ``facts`` returns the base facts of this process that have
some of the identities in a proof, and how many each other process has of the others. Its module registers it."""

SPACE = 3
"""The length of what sets the identities of a relation apart, behind the life. The identity of an absence goes on with
the tuple in parentheses, that of a fact with its number."""

ELSEWHERE = "derives it, but at another place, or behind the last one"

PART = "contributes to its group, whose value is computed from all contributions"


class Explainer:
    """Explains tuples by querying the stored relations, without loading them."""

    def __init__(self, program: Program, engine: Engine, stored: Callable[[Relation], str]) -> None:
        """Make the views that rules read; ``stored`` returns a query for the stored rows of a relation."""
        self.program, self.engine = program, engine
        self.relations = {relation.table: relation for relation in self.program.relations}
        strata = [stratum for stage in self.program.stages for stratum in stage.strata]
        # Show rules as written in the program, not those that they were split into.
        self.rules = {
            table: [rule for s in strata for rule in s.written if rule.head == table]
            or [rule for s in strata for rule in s.rules if rule.head == table]
            for table in self.relations
        }
        for relation in self.program.relations:
            table = relation.tables
            engine.view(table.stored, stored(relation))
            rank = ", _rank" if relation.kind == "ranked" else ""
            rows = f"SELECT {names(relation.tuple_columns)}{rank} FROM {table.stored}"
            engine.view(table.after, rows)
            engine.view(table.absent_after, rows)

    def explain(self, relation: Relation, values: Values, limit: int) -> dict[str, Any]:
        """Return what the command ``explain`` prints, with a proof of at most ``limit`` tuples.

        Values that are None are open: the first tuple that has the others is explained.
        """
        values = tuple(map(hashable, values))
        result: dict[str, Any] = {
            "program": self.program.name,
            "tuple": tuple_text(relation, values),
        }
        if None in values:
            tuples = self.having(relation, values)
            if not tuples:
                return {**result, "present": False, "input": relation.kind == "input", "rules": []}
            values, result["others"] = tuples[0], [tuple_text(relation, other) for other in tuples[1:]]
            result["tuple"] = tuple_text(relation, values)
        stored = self.stored(relation, values)
        result["present"] = stored is not None
        if stored is not None:
            return {**result, "tuples": self.proof((relation.table, values), limit)}
        if relation.aggregated:
            result["group"] = self.group(relation, values)
        rules = list(self.attempts(relation, values))
        return {**result, "input": relation.kind == "input", "rules": rules}

    def having(self, relation: Relation, values: Values) -> list[Values]:
        """Return the first stored tuples that have those of the values that are not None."""
        columns = names(relation.columns)
        held = [
            f"{column.sql} = {sql_constant(value, column.type, self.engine.name)}"
            for column, value in zip(relation.columns, values, strict=True)
            if value is not None
        ]
        rows = f"SELECT DISTINCT {columns} FROM {relation.tables.stored} WHERE {' AND '.join(held) or 'TRUE'}"
        stored = self.engine.first(f"{rows} ORDER BY {columns}", FEW_DERIVATIONS + 1)
        return [tuple(hashable(row[column.sql]) for column in relation.columns) for row in stored]

    def group(self, relation: Relation, values: Values) -> list[str]:
        """Return the first stored tuples in the group of an aggregated tuple; with witnesses there may be many."""
        self.ask(relation, values)
        table, columns = relation.tables, relation.columns
        computed = {*relation.aggregated, *relation.witnesses}
        same = [f"s.{c.sql} = a.{c.sql}" for c in columns if c.sql not in computed] or ["TRUE"]
        rows = (
            f"SELECT {names(columns, 's.')} FROM {table.stored} AS s JOIN {table.asked} AS a "
            f"ON {' AND '.join(same)} ORDER BY {names(columns, 's.')}"
        )
        stored = self.engine.first(rows, FEW_DERIVATIONS)
        return [tuple_text(relation, [row[column.sql] for column in columns]) for row in stored]

    def copied(self, rule: Rule, relation: Relation) -> Relation | None:
        """Return the hidden relation that a rule copies to the one that it is shown as, None for other rules."""
        source = self.relations[rule.steps[0].table] if len(rule.steps) == 1 and rule.steps[0].table else None
        return source if source and source.shown_as == relation.name else None

    def ask(self, relation: Relation, values: Values) -> None:
        """Make table r__asked with one tuple."""
        columns = [
            f"{sql_constant(value, column.type, self.engine.name)} AS {column.sql}"
            for value, column in zip(values or (True,), relation.tuple_columns, strict=True)
        ]
        self.engine.table(relation.tables.asked, f"SELECT {', '.join(columns)}")

    def stored(self, relation: Relation, values: Values) -> dict[str, Any] | None:
        """Return the stored row of a tuple, including hidden columns; None if there is none."""
        self.ask(relation, values)
        table = relation.tables
        same = " AND ".join(f"s.{name} = a.{name}" for name in tuple_names(relation))
        rows = f"SELECT s.* FROM {table.stored} AS s JOIN {table.asked} AS a ON {same}"
        return next(iter(self.engine.first(rows, 1)), None)

    def proof(self, root: Known, limit: int) -> list[dict[str, Any]]:
        """Return the tuples of a proof in breadth-first order, each with the IDs of its premises."""
        return proof_from(root, lambda table, values: self.derived(self.relations[table], values), limit)

    def derived(self, relation: Relation, values: Values) -> tuple[dict[str, Any], list[Known]]:
        """Return a stored tuple with a rule that derives it, and the premises; raise JobError if no rule does."""
        stored = self.stored(relation, values)
        assert stored is not None, "a derivation uses tuples that are there"
        node: dict[str, Any] = {"tuple": tuple_text(relation, values)}
        own = values[: len(relation.columns)]
        node |= {"relation": relation.shown_as or relation.name, "values": list(plain_row(relation.columns, own))}
        if relation.hidden and not relation.shown_as:
            node["internal"] = True
        node |= {name: stored[f"_{name}"] for name in ("rank", "support") if f"_{name}" in stored}
        if relation.kind == "input":
            return {**node, "given": True}, []
        several = bool(relation.aggregated) and not relation.witnesses and relation.kind != "ranked"
        premises: list[Known] = []
        for rule in self.rules[relation.table]:
            query, rows = self.derivations(rule, relation, stored, FEW_DERIVATIONS if several else 1)
            if not rows:
                continue
            if self.proofs_of(rule, relation):
                return self.proven(node, next(self.literals(rule, rows[0]))[1])
            if copied := self.copied(rule, relation):
                inner, sources = self.derived(copied, values)
                return {**inner, **node}, sources
            said = {"rule": rule.label, "source": rule.source, "text": rule.text}
            if "_at" in rows[0]:
                fact = f"{tuple_text(relation, values)}."
                said = {"rule": rows[0]["_rule"], "source": rows[0]["_at"], "text": fact}
            if "rule" in node:
                node.setdefault("also", []).append(said)
            else:
                node |= said
            if several:
                number = self.engine.first(f"SELECT COUNT(*) AS n FROM ({query}) AS c", 1)[0]["n"]
                node["derivations"] = node.get("derivations", 0) + number
                node["listed"] = node.get("listed", 0) + len(rows)
            literals = [literal for row in rows for literal in self.literals(rule, row)]
            absent = [tuple_text(self.relations[step.table], terms) for step, terms in literals if step.negated]
            if absent:
                node["absent"] = list(dict.fromkeys([*node.get("absent", ()), *absent]))
            premises += [(step.table, terms) for step, terms in literals if not step.negated]
            if not several:
                break
        if "rule" in node:
            return node, list(dict.fromkeys(premises))
        raise JobError(
            f"no rule derives {node['tuple']} from what is stored; `verify` tells what is wrong with the state"
        )

    def derivations(
        self, rule: Rule, relation: Relation, stored: Mapping[str, Any], limit: int
    ) -> tuple[str, list[dict[str, Any]]]:
        """Return a query for the derivations of a stored tuple by a rule, and the first ``limit`` of them."""
        held = [f"_{place}" for place, _ in enumerate(rule.steps, 1)]
        order = self.term_columns(rule)
        if relation.kind == "ranked":
            held.append(f"_rank < {stored['_rank']}")
            order.insert(0, "_rank")
        elif relation.kind == "aggregate":
            # Of a tuple at a place, the values that put it there.
            ordered_by = (column for column in relation.extra if column.sql.startswith("_by_"))
            held += [f"{c.sql} = {sql_constant(stored[c.sql], c.type, self.engine.name)}" for c in ordered_by]
        elif place := self.place_of_derivation(relation, rule):
            # A shortest derivation contains no cycle.
            size = "LEN" if self.engine.name == "duckdb" else "SIZE"
            order.insert(0, f"{size}({place})")
        query = f"SELECT * FROM ({self.engine.text(rule.asked)}) AS q WHERE {' AND '.join(held) or 'TRUE'}"
        ordered = f"{query} ORDER BY {', '.join(order)}" if order else query
        return query, self.engine.first(ordered, limit)

    def proofs_of(self, rule: Rule, relation: Relation) -> Relation | None:
        """Return the relation with the live proofs of a relation, if a rule takes its tuples from there."""
        source = self.relations[rule.steps[0].table] if len(rule.steps) == 1 and rule.steps[0].table else None
        return source if source and source.kind == "proofs" and source.annotates == relation.name else None

    def proven(self, node: dict[str, Any], values: Values) -> tuple[dict[str, Any], list[Known]]:
        """Return a tuple of a recursion across processes with what its live proof contains: the base facts of this
        process, and how many of each other process."""
        own, elsewhere = PROVEN["facts"](self.program, self.engine, values[-1])
        return {**node, "proof": elsewhere}, own

    def term_columns(self, rule: Rule) -> list[str]:
        """Return the query columns with the values of a rule's literals."""
        return [
            f"_{place}_{index}"
            for place, step in enumerate(rule.steps, 1)
            if step.table
            for index, _ in enumerate(self.relations[step.table].term_columns, 1)
        ]

    def place_of_derivation(self, relation: Relation, rule: Rule) -> str:
        """Return the query column with a fact's derivation set, empty unless the rule reads the fact's entries."""
        first = self.relations.get(rule.steps[0].table) if rule.steps else None
        if relation.annotates or first is None or first.kind != "entries":
            return ""
        return f"_1_{len(first.columns) - 1}"

    def literals(self, rule: Rule, row: Mapping[str, Any]) -> Iterator[tuple[Step, Values]]:
        """Yield the literals of a rule with their values in a derivation, None for values that are not known."""
        for place, step in enumerate(rule.steps, 1):
            if step.table:
                columns = self.relations[step.table].term_columns
                values = (row[f"_{place}_{index}"] for index, _ in enumerate(columns, 1))
                yield step, tuple(map(hashable, values))

    def attempts(self, relation: Relation, values: Values) -> Iterator[dict[str, Any]]:
        """Yield how far each rule gets; rules of a hidden relation replace the rule that copies it."""
        for rule in self.rules[relation.table]:
            copied = self.copied(rule, relation)
            if self.proofs_of(rule, relation):
                missing = {"missing": tuple_text(relation, values), "why": "has no live proof here", "step": ""}
                text = {"rule": rule.label, "source": rule.source, "text": rule.text}
                yield {**text, "found": [], **missing, "step": missing["missing"]}
            elif copied:
                yield from self.attempts(copied, values)
            else:
                yield self.attempt(rule, relation, values)

    def attempt(self, rule: Rule, relation: Relation, values: Values) -> dict[str, Any]:
        """Return how far a rule gets: the tuples ``found`` on its longest path and the ``missing`` step, with the value
        that the rule ``gives`` if that is one of the head; or that all steps hold, but the group has another value."""
        self.ask(relation, values)
        order = ", ".join([*(f"_{place} DESC" for place, _ in enumerate(rule.steps, 1)), *self.term_columns(rule)])
        query = f"SELECT * FROM ({self.engine.text(rule.asked)}) AS q"
        row = self.engine.first(f"{query} ORDER BY {order}" if order else query, 1)[0]
        said: dict[str, Any] = {"rule": rule.label, "source": rule.source, "text": rule.text}
        terms = self.literals(rule, row)
        matched: list[str] = []
        for place, step in enumerate(rule.steps, 1):
            text, gives = step.text, row.get(f"_{place}_1")
            if step.table:
                text = tuple_text(self.relations[step.table], next(terms)[1])
            elif step.column:
                column = next(c for c in relation.columns if c.sql == step.column)
                text = f"{column.name} = {step.text}"
            if not row[f"_{place}"]:
                why = "is there" if step.negated else "is not there" if step.table else "does not hold"
                literal = step.text if step.table else text
                missing = {"missing": text, "why": why, "step": literal}
                if step.column and gives is not None:
                    missing["gives"] = constant_text(gives, column.type)
                return {**said, "found": matched, **missing}
            if step.table and not step.negated:
                matched.append(text)
        compared = {step.column for step in rule.steps}
        best = compared.issuperset(relation.aggregated)
        ranked = relation.kind == "aggregate" and relation.witnesses
        return {**said, "found": matched, "why": ELSEWHERE if ranked else BETTER if best else PART}


def proof_from(
    root: Known, derived: Callable[[str, Values], tuple[dict[str, Any], list[Known]]], limit: int
) -> list[dict[str, Any]]:
    """Return at most ``limit`` tuples of a proof in breadth-first order, each with the IDs of its premises; ``derived``
    returns what is said of a tuple in a table, and its premises."""
    numbers: dict[Known, int] = {root: 0}
    nodes: list[dict[str, Any]] = []
    waiting = [root]
    for fact in waiting:
        node, sources = derived(*fact)
        because = []
        for source in sources:
            if source not in numbers:
                if len(numbers) >= limit:
                    node["cut"] = True
                    continue
                numbers[source] = len(numbers)
                waiting.append(source)
            because.append(numbers[source])
        nodes.append({"id": numbers[fact], **node, "because": because})
    return nodes


def report_explanation(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a proof as a tree, or of how far each rule gets."""
    if not result["present"]:
        group = result.get("group")
        there = f"; its group has {' and '.join(group)}" if group else ""
        yield f"{result['tuple']} is not there{there}"
        if result["input"]:
            yield "  it is an input, and has no such row"
        for attempt in result["rules"]:
            yield f"  {rule_note(attempt)}"
            yield from (f"    found {text}" for text in attempt["found"])
            if "missing" in attempt:
                step = "" if attempt["step"] == attempt["missing"] else f", for {attempt['step']}"
                gives = f": the rule gives {attempt['gives']}" if "gives" in attempt else ""
                yield f"    {attempt['missing']} {attempt['why']}{gives}{step}"
            else:
                yield f"    {attempt['why']}"
        return
    others = result.get("others", [])
    tuples = {node["id"]: node for node in result["tuples"]}
    told: set[int] = set()
    # A stack of the tuples still to print: the lines before each, its branch mark and its ID.
    waiting: list[tuple[str, str, int]] = [("", "", 0)]
    while waiting:
        before, mark, number = waiting.pop()
        node = tuples[number]
        inside = before + {"": "", "├─ ": "│  ", "└─ ": "   "}[mark]
        yield f"{before}{mark}{node['tuple']}{proof_note(node, number in told)}"
        if number in told:
            continue
        told.add(number)
        yield from (f"{inside}   no {text}" for text in node.get("absent", ()))
        yield from (f"{inside}   and {text}" for text in node.get("proof", ()))
        children = [*node["because"]]
        for place, child in reversed(list(enumerate(children))):
            last = place == len(children) - 1
            waiting.append((inside, "└─ " if last else "├─ ", child))
    if others:
        yield f"the first of several; next: {' and '.join(others)}"


def proof_note(node: Mapping[str, Any], told: bool) -> str:
    """Return what is printed after a tuple of a proof."""
    if node.get("given"):
        return "  given"
    if told:
        return "  see above"
    if said := node.get("held") or node.get("gone"):
        return f"  {said}"
    if "unfinished" in node:
        return f"  by a live proof with {' and '.join(node['unfinished'])}"
    if "proof" in node:
        return "  by a live proof" + ("  ... (--limit shows more)" if node.get("cut") else "")
    more, rules = node.get("derivations", 0), [node, *node.get("also", ())]
    notes = f"  by {' and '.join(map(rule_note, rules))}" + (f" at {node['computed']}" if "computed" in node else "")
    if more > node.get("listed", more):
        notes += f"  {more:,} derivations, {node['listed']} of them shown"
    return notes + ("  ... (--limit shows more)" if node.get("cut") else "")


def rule_note(said: Mapping[str, Any]) -> str:
    """Return a rule with its label and its place in the source."""
    text = said["text"].removeprefix(f"{said['rule']}:").strip()
    return f"{said['rule']}: {text}  ({said['source']})"


def counted_facts(number: int, absent: bool = False) -> str:
    """Return a number of base facts, or of tuples whose absence is one, in words."""
    return f"{number} {'absent tuple' if absent else 'base fact'}{'s' * (number > 1)}"
