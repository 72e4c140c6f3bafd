"""The view of a script: under which names and comments its templates print a program, in the order of its plan."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from flintlog.compiler.ir import plan, typed
from flintlog.compiler.naming import constant_name, unused
from flintlog.runtime.kernel import model

from .lower import LoweredQuery, LoweredRule, LoweredStratum, lower
from .print_sql import Sql
from .python import one_line, quote, section
from .sql import FACTS


@dataclass(frozen=True)
class RelationView:
    """A relation, assigned to ``variable``, with a comment."""

    variable: str
    relation: model.Relation
    text: str


@dataclass(frozen=True)
class QueryView:
    """A query constant: its comment, its name and its SQL, in which a constant of ``facts`` may stand in braces."""

    comment: str
    constant: str
    sql: Sql
    facts: bool = False

    @property
    def reference(self) -> str:
        """Return the Python expression that refers to the query where the program is built."""
        return self.constant if self.sql.duckdb == self.sql.spark else f"Both(**{self.constant})"


@dataclass(frozen=True)
class RuleView:
    """A rule: ``quoted`` is its source as comment lines, ``queries`` are its constants, and ``asked`` is the one that
    only ``explain`` uses."""

    quoted: tuple[str, ...]
    queries: tuple[QueryView, ...]
    asked: QueryView | None


@dataclass(frozen=True)
class StratumView:
    """The section of a stratum, which is assigned to ``variable``."""

    title: str
    comments: tuple[str, ...]
    relations: tuple[RelationView, ...]
    rules: tuple[RuleView, ...]
    written: tuple[RuleView, ...]
    queries: tuple[QueryView, ...]
    variable: str
    stratum: model.Stratum


@dataclass(frozen=True)
class ScriptView:
    """Everything that a script prints: headings, comments and the program. ``names`` stand for values, by their
    identity; ``hashes``, ``lines`` and ``labels`` are the tables of what may change without a change of the part
    itself."""

    name: str
    title: str
    outline: tuple[str, ...]
    inputs: tuple[RelationView, ...]
    strata: tuple[StratumView, ...]
    program: model.Program
    asked: tuple[QueryView, ...]
    names: Mapping[int, str]
    hashes: Mapping[str, str]
    lines: Mapping[str, str]
    labels: Mapping[str, str]
    sources: Mapping[str, str]


class Viewer:
    """Makes the view of a program."""

    def __init__(
        self,
        program: plan.ProgramPlan,
        reserved: Iterable[str],
        compiler: str,
        spark: bool = True,
        explained: bool = True,
    ) -> None:
        """Choose names that differ from the ``reserved`` constants of the runtime. Without ``spark``, queries are as
        DuckDB alone needs them; if the program is not ``explained``, its source takes the place of what explains it."""
        self.plan, self.program = program, program.program
        self.explained = explained
        self.lowered = lower(program, compiler, spark, explained)
        self.localized = {rule.rule.label: rule for rule in program.deltas.stratified.localized.rules}
        self.constants = set(reserved)
        self.variables = {"program"}
        self.names: dict[int, str] = {}
        self.lines: dict[str, str] = {}
        self.labels: dict[str, str] = {}
        self.hashes: dict[str, str] = {}
        self.relations = {r.name: self.relation(r) for r in self.program.relations}
        self.queries: dict[LoweredQuery, QueryView] = {}

    def constant(self, name: str) -> str:
        """Return an unused name for a Python constant, and reserve it."""
        constant = unused(name, self.constants)
        self.constants.add(constant)
        return constant

    def variable(self, value: object, *parts: str) -> str:
        """Return an unused name for a Python variable, reserve it, and let it stand for a value."""
        name = constant_name(*parts).lower()
        variable = unused(f"{name}_" if keyword.iskeyword(name) else name, self.variables)
        self.variables.add(variable)
        self.names[id(value)] = variable
        return variable

    def query(self, query: LoweredQuery) -> QueryView:
        """Return the view of a query, whose name stands for its text."""
        view = QueryView(query.comment, self.constant(constant_name(*query.name)), query.sql)
        if query.facts is not None:
            facts = self.queries[query.facts]
            parts = ("", "") if facts.sql.duckdb == facts.sql.spark else ("['duckdb']", "['spark']")
            duckdb, spark = (
                text.replace(FACTS, f"({{{facts.constant}{part}}})", 1)
                for text, part in zip((query.sql.duckdb, query.sql.spark), parts, strict=True)
            )
            view = QueryView(query.comment, view.constant, Sql(duckdb, spark), True)
        self.queries[query] = view
        self.names[id(query.text)] = view.reference
        return view

    def place(self, kind: str, name: str, place: str) -> str:
        """Let an entry of LINES stand for the place of a relation or a rule, which changes with any line above it;
        return its key."""
        key = unused(f"{kind} {name}", self.lines)
        self.lines[key] = place
        self.names[id(place)] = f"LINES[{quote(key)}]"
        return key

    def script(self) -> ScriptView:
        """Return the view."""
        main = self.program.sources[0]
        strata = tuple(map(self.stratum, self.lowered.strata))
        outputs = ", ".join(r.name for r in self.program.relations if r.output) or "no relation"
        sources = () if self.explained else self.program.sources
        title = f"Keep {outputs} of {main.name} exact while the inputs change."
        return ScriptView(
            name=one_line(main.name),
            title=one_line(title.replace("\\", "\\\\").replace('"', '\\"')),
            outline=tuple(self.outline()),
            inputs=tuple(self.relations[r.name] for r in self.program.relations if r.role == "input"),
            strata=strata,
            program=self.lowered.program,
            asked=tuple(rule.asked for s in strata for rule in (*s.rules, *s.written) if rule.asked),
            names=self.names,
            hashes=self.hashes,
            lines=self.lines,
            labels=self.labels,
            sources={source.name: source.text for source in sources},
        )

    def outline(self) -> Iterable[str]:
        """Yield the lines of the script's docstring: its inputs, and how each stage computes what."""
        yield "Inputs:"
        for relation in self.program.relations:
            if relation.role == "input":
                yield f"    {relation.public or relation.name}"
        for number, stage in enumerate(self.plan.stages, 1):
            yield f"Stage {number}, {'in one task per bucket' if stage.bucketed else 'gathered in one task'}:"
            for stratum in stage.strata:
                yield f"    {stratum.stratum.name} ({_kind_text(stratum.stratum.kind)})"

    def relation(self, relation: typed.TypedRelation) -> RelationView:
        """Return the view of a relation."""
        lowered = self.lowered.relations[relation.name]
        self.place("relation", lowered.name, lowered.source)
        self.hashes[lowered.table] = lowered.definition
        text = f"{relation}: {relation.why}" if relation.why else str(relation)
        return RelationView(self.variable(lowered, lowered.table), lowered, text)

    def stratum(self, lowered: LoweredStratum) -> StratumView:
        """Return the section of a stratum."""
        stratum, pivots = lowered.planned.stratum, lowered.planned.pivots
        variable = self.variable(lowered.stratum, stratum.name, "stratum")
        where = "gathered"
        if lowered.bucketed:
            columns = {p.relation: p.column or 0 for p in pivots}
            named = dict.fromkeys(r.columns[columns[r.name]].name for r in stratum.relations)
            where = f"in buckets of {', '.join(named)}"
        return StratumView(
            title=section(f"{stratum.name} ({_kind_text(stratum.kind)}, {where})"),
            comments=tuple(dict.fromkeys(one_line(f"{p.relation}: {p.reason}") for p in pivots)),
            relations=tuple(self.relations[r.name] for r in stratum.relations),
            queries=tuple(map(self.query, lowered.queries)),
            rules=tuple(map(self.rule, lowered.rules)),
            written=tuple(map(self.rule, lowered.written)),
            variable=variable,
            stratum=lowered.stratum,
        )

    def rule(self, lowered: LoweredRule) -> RuleView:
        """Return the constants and comments of a rule."""
        planned, rule = lowered.planned, lowered.source
        key = self.place("rule", lowered.name, lowered.rule.source)
        if lowered.name != lowered.rule.label:
            self.labels[key] = lowered.rule.label
            self.names[id(lowered.rule.label)] = f"LABELS[{quote(key)}]"
        if planned is None:
            quoted = self.as_written(rule, lowered.name)
        else:
            quoted = self.quoted_facts(planned, lowered.name) if planned.full.facts else self.quoted(rule, lowered.name)
        return RuleView(
            quoted=tuple(map(one_line, quoted)),
            queries=tuple(map(self.query, lowered.queries)),
            asked=self.query(lowered.asked) if lowered.asked is not None else None,
        )

    def quoted(self, rule: typed.TypedRule, name: str) -> Iterable[str]:
        """Yield a rule as it is written, its rewritten form, and what is sent for it."""
        yield from self.as_written(rule, name)
        if rule.origin:
            yield f"  {rule.origin}: {replace(rule, label=name)}"
        yield from self.sent(rule)

    def sent(self, rule: typed.TypedRule) -> Iterable[str]:
        """Yield what is sent between locations to evaluate a rule."""
        localized = self.localized[rule.label]
        for send in localized.sends:
            yield f"  {send}"
        if localized.sends_head:
            yield f"  send {rule.head.relation}: @{localized.location} -> @{localized.head_location} (head)"

    def quoted_facts(self, planned: plan.RulePlan, name: str) -> Iterable[str]:
        """Yield the name of several facts, whose values are in a constant, and what is sent for them."""
        yield name
        yield from dict.fromkeys(line for rule in planned.rules for line in self.sent(rule))

    def as_written(self, rule: typed.TypedRule, name: str) -> Iterable[str]:
        """Yield the source of a rule, under its name if it does not begin with that."""
        if not rule.text.startswith(f"{name}:"):
            yield name
        for line in rule.text.splitlines():
            yield f"  {line.strip()}"


def _kind_text(kind: str) -> str:
    return {
        "ranked": "recursive",
        "counted": "not recursive",
        "extremal": "recursive, by extrema",
        "acyclic": "recursive, in the order of groups",
        "timed": "selected by a bound",
        "entries": "recursive, with derivation sets",
        "proofs": "recursive across processes, with live proofs",
        "identities": "identities of base facts",
        "epochs": "how often tuples have appeared",
        "dead": "identities that are dead for good",
    }.get(kind, kind)
