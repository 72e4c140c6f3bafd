"""The view of a script: what the templates print, as ready-made strings."""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flintlog.compiler.ir import plan, typed
from flintlog.compiler.ir.delta import LEAD, MARK, Versioned
from flintlog.compiler.ir.strata import TypedStratum
from flintlog.compiler.ir.typed import calls_in
from flintlog.compiler.naming import called_otherwise, constant_name, unused
from flintlog.runtime.printing import value_text

from .aggregates import AggregateColumn, Group
from .asked import AskedStep, asked_sql
from .dialects import Sql, facts_sql
from .names import Names
from .ranking import OrderColumn, Ranking
from .sql import FACTS, ORDERED_BY, QueryBuilder

WIDTH = 100

#: Control and format characters, which are invisible or change how or in which direction text is read.
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


@dataclass(frozen=True)
class RelationView:
    """A relation of the program part, assigned to ``variable``; the other fields are arguments of ``Relation``,
    except ``text``, which is a comment."""

    variable: str
    name: str
    table: str
    columns: str
    kind: str
    source: str
    options: tuple[tuple[str, str], ...]
    text: str


@dataclass(frozen=True)
class QueryView:
    """A query constant: its comment, its name and its SQL, in which a constant of ``facts`` may stand in braces."""

    comment: str
    constant: str
    sql: Sql
    facts: bool = False

    @property
    def text(self) -> str:
        """Return the Python expression: one string, or a dictionary by dialect if they differ."""
        duckdb, spark = (
            ("f" if self.facts else "") + string_literal(text) for text in (self.sql.duckdb, self.sql.spark)
        )
        return duckdb if duckdb == spark else f'{{\n    "duckdb": {duckdb},\n    "spark": {spark},\n}}'

    @property
    def reference(self) -> str:
        """Return the Python expression that refers to the query where the program is built."""
        return self.constant if self.sql.duckdb == self.sql.spark else f"Both(**{self.constant})"


@dataclass(frozen=True)
class RuleView:
    """A rule: ``quoted`` is its source as comment lines, ``queries`` are its constants, ``asked`` is the one that
    only ``explain`` uses, and the rest are arguments of ``Rule``."""

    label: str
    source: str
    quoted: tuple[str, ...]
    queries: tuple[QueryView, ...]
    asked: QueryView | None
    head: str
    full: str
    deltas: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StratumView:
    """The section of a stratum."""

    title: str
    comments: tuple[str, ...]
    relations: tuple[RelationView, ...]
    rules: tuple[RuleView, ...]
    written: tuple[RuleView, ...]
    queries: tuple[QueryView, ...]
    variable: str
    name: str
    kind: str
    relation_tuple: str
    reads: str
    negates: str
    options: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class StageView:
    """A stage: the variables of its strata, and whether it runs by bucket."""

    strata: tuple[str, ...]
    bucketed: bool


@dataclass(frozen=True)
class ScriptView:
    """Everything that a script prints; ``literal`` is the program's name as a Python string."""

    name: str
    literal: str
    sha256: str
    compiler: str
    title: str
    outline: tuple[str, ...]
    inputs_rule: str
    inputs: tuple[RelationView, ...]
    strata: tuple[StratumView, ...]
    program_rule: str
    relations: tuple[str, ...]
    stages: tuple[StageView, ...]
    functions: tuple[str, ...]
    explain_rule: str
    asked: tuple[QueryView, ...]


def section(title: str) -> str:
    """Return the comment line that opens a section."""
    return f"# ---- {title} ".ljust(WIDTH, "-")


class Viewer:
    """Makes the view of a program."""

    def __init__(self, program: plan.ProgramPlan, reserved: Iterable[str], spark: bool = True) -> None:
        """Choose names that differ from the ``reserved`` constants of the runtime. Without ``spark``, queries are as
        DuckDB alone needs them."""
        self.plan, self.spark = program, spark
        self.program = program.program
        self.names = Names.of(self.program)
        self.pivots = {p.relation: p for stage in program.stages for s in stage.strata for p in s.pivots}
        self.kinds = {r.name: "input" for r in self.program.relations if r.role == "input"}
        for stage in program.stages:
            for stratum in stage.strata:
                self.kinds.update({r.name: stratum.stratum.kind for r in stratum.stratum.relations})
        self.localized = {rule.rule.label: rule for rule in program.deltas.stratified.localized.rules}
        self.order = {relation.name: place for place, relation in enumerate(self.program.relations)}
        self.heads = {relation.name: relation for relation in self.program.relations}
        self.constants = set(reserved)
        self.variables = {"program"}
        self.relation_variables = {
            relation.name: self.variable(self.names.tables[relation.name]) for relation in self.program.relations
        }

    def constant(self, name: str) -> str:
        """Return an unused name for a Python constant, and reserve it."""
        made = unused(name, self.constants)
        self.constants.add(made)
        return made

    def variable(self, *parts: str) -> str:
        """Return an unused name for a Python variable, and reserve it."""
        name = constant_name(*parts).lower()
        made = unused(f"{name}_" if keyword.iskeyword(name) else name, self.variables)
        self.variables.add(made)
        return made

    def query(self, comment: str, constant: str, sql: Sql, facts: QueryView | None = None) -> QueryView:
        """Return a query that may read ``facts``, another constant whose text it then includes."""
        sql = sql if self.spark else sql.for_duckdb()
        if facts is None:
            return QueryView(comment, constant, sql)
        parts = ("", "") if facts.sql.duckdb == facts.sql.spark else ("['duckdb']", "['spark']")
        duckdb, spark = (
            text.replace(FACTS, f"({{{facts.constant}{part}}})", 1)
            for text, part in zip((sql.duckdb, sql.spark), parts, strict=True)
        )
        return QueryView(comment, constant, Sql(duckdb, spark, sql.partial, sql.narrow), True)

    def script(self, compiler: str) -> ScriptView:
        """Return the view."""
        main = self.program.sources[0]
        strata = tuple(self.stratum(s, stage) for stage in self.plan.stages for s in stage.strata)
        by_name = {s.name: s.variable for s in strata}
        inputs = tuple(self.relation(r) for r in self.program.relations if r.role == "input")
        outputs = ", ".join(r.name for r in self.program.relations if r.output) or "no relation"
        return ScriptView(
            name=one_line(main.name),
            literal=quote(main.name),
            sha256=hashlib.sha256("".join(s.sha256 for s in self.program.sources).encode()).hexdigest(),
            compiler=compiler,
            title=one_line(
                f"Keep {outputs} of {main.name} exact while the inputs change.".replace("\\", "\\\\").replace(
                    '"', '\\"'
                )
            ),
            outline=tuple(self.outline()),
            inputs_rule=section("inputs"),
            inputs=inputs,
            strata=strata,
            program_rule=section("the program"),
            relations=tuple(self.relation_variables[r.name] for r in self.program.relations),
            stages=tuple(
                StageView(tuple(by_name[s.stratum.name] for s in stage.strata), stage.bucketed)
                for stage in self.plan.stages
            ),
            functions=tuple(map(self.function, self.program.functions)),
            explain_rule=section("what only `explain` asks"),
            asked=tuple(rule.asked for s in strata for rule in (*s.rules, *s.written) if rule.asked),
        )

    def function(self, function: typed.TypedFunction) -> str:
        """Return the arguments of ``ExternalFunction``."""
        kinds = _tuple(quote(str(parameter.type)) for parameter in function.parameters)
        made = self.names.functions[function.name]
        other = f", {quote(made)}" if made != f"external__{function.name}" else ""
        return f"{quote(function.name)}, {kinds}, {quote(str(function.result))}{other}"

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
        columns = self.names.columns[relation.name]
        options: list[tuple[str, str]] = []
        if relation.output:
            options.append(("output", "True"))
            folder = self.names.folders[relation.name]
            if folder != (relation.public or relation.name):
                options.append(("folder", quote(folder)))
        if relation.hidden:
            options.append(("hidden", "True"))
        if relation.copies:
            options.append(("copy", quote(columns[-1])))
        if relation.key:
            options.append(("key", _tuple(quote(columns[i]) for i in relation.key)))
        if relation.location is not None:
            options.append(("location", quote(columns[relation.location])))
        if relation.at is not None:
            options.append(("at", quote(value_text(relation.at.value))))
        bucket = self.bucket_column(relation)
        if bucket is not None:
            options.append(("bucket_by", quote(columns[bucket])))
        if self.kept_as(relation) == "aggregate":
            extra = (f"Column({quote(n)}, {quote(kind)}, {quote(n)})" for n, kind in self.group(relation.name).extra)
            options.append(("extra", _tuple(extra)))
        if self.kinds[relation.name] in ("extremal", "proofs"):
            options += self.best(relation)
        if relation.annotates:
            options.append(("annotates", quote(relation.annotates)))
        if relation.shown_as:
            options.append(("shown_as", quote(relation.shown_as)))
        for name, places in self.made_of_groups(relation):
            options.append((name, _tuple(quote(columns[place]) for place in places)))
        options.append(("definition", quote(self.definition(relation))))
        return RelationView(
            variable=self.relation_variables[relation.name],
            name=quote(relation.public or relation.name),
            table=quote(self.names.tables[relation.name]),
            columns=_one_a_line(
                (
                    f"Column({quote(column.name)}, {quote(str(column.type))}, {quote(columns[i])})"
                    for i, column in enumerate(relation.columns[: -1 if relation.copies else None])
                ),
                "columns",
                8,
            ),
            kind=self.kept_as(relation),
            source=quote(str(relation.span)),
            options=tuple(options),
            text=f"{relation}: {relation.why}" if relation.why else str(relation),
        )

    def kept_as(self, relation: typed.TypedRelation) -> str:
        """Return how a relation's tuples are stored: the kind of its stratum, or one that is stored alike."""
        kind = self.kinds[relation.name]
        return {"extremal": "ranked", "acyclic": "aggregate"}.get(kind, kind)

    def made_of_groups(self, relation: typed.TypedRelation) -> Iterable[tuple[str, Sequence[int]]]:
        """Yield the options of a relation whose rules aggregate: its columns with aggregates, and with witnesses."""
        rules = relation.written or self.program.rules_of(relation.name)
        arguments = rules[0].head.arguments if rules else ()
        computed = [place for place, argument in enumerate(arguments) if isinstance(argument, typed.Aggregate)]
        if computed and not relation.part_of:
            yield "aggregated", computed
            if relation.witnesses:
                yield "witnesses", relation.witnesses

    def best(self, relation: typed.TypedRelation) -> Iterable[tuple[str, str]]:
        """Yield the option of a relation that keeps only the extremum of each group."""
        columns = self.names.columns[relation.name]
        rules = self.program.rules_of(relation.name)
        for place, argument in enumerate(rules[0].head.arguments if rules else ()):
            if isinstance(argument, typed.Aggregate):
                yield "best", _tuple((quote(argument.function.upper()), quote(columns[place])))

    def bucket_column(self, relation: typed.TypedRelation) -> int | None:
        """Return the column that splits a relation into buckets: its pivot, or for inputs the first key column."""
        if relation.role == "input":
            return (relation.key or (0,))[0] if relation.columns else None
        return self.pivots[relation.name].column

    def definition(self, relation: typed.TypedRelation) -> str:
        """Return a hash of everything that a relation's stored tuples depend on directly."""
        rules = [str(rule) for rule in self.program.rules_of(relation.name)]
        called = {call.function for rule in self.program.rules_of(relation.name) for call in calls_in(rule)}
        functions = [str(function) for function in self.program.functions if function.name in called]
        parts = [str(relation), self.kinds[relation.name], str(self.bucket_column(relation)), *rules, *functions]
        parts += relation.guards
        stored = zip(relation.columns, self.names.columns[relation.name], strict=True)
        parts += [made for column, made in stored if called_otherwise(column.name, made)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def stratum(self, placed: plan.StratumPlan, stage: plan.StagePlan) -> StratumView:
        """Return the section of a stratum."""
        stratum = placed.stratum
        variable = self.variable(stratum.name, "stratum")
        where = "gathered"
        if stage.bucketed:
            columns = dict.fromkeys(r.columns[self.pivots[r.name].column or 0].name for r in stratum.relations)
            where = f"in buckets of {', '.join(columns)}"
        options: list[tuple[str, str]] = []
        queries: list[QueryView] = []
        if stratum.kind == "aggregate":
            group = self.group(stratum.relations[0].name)
            options.append(("groups", _tuple(map(quote, group.groups))))
            texts = [("compute", group.compute(), "The rows of groups, from all their derivations")]
            fold = group.fold()
            if fold is not None:
                texts.append(("fold", fold, "The rows of groups, from their old rows and what changed"))
            for name, sql, comment in texts:
                made = self.constant(constant_name(stratum.name, name))
                queries.append(self.query(comment, made, sql))
                options.append((name, queries[-1].reference))
            if group.ranged:
                options.append(("ranged", _tuple(map(quote, group.ranged))))
            if group.limit > 1:
                options.append(("limit", str(group.limit)))
        if stratum.closure is not None:
            options.append(("closure", quote(stratum.closure.grows)))
        if placed.matrices:
            options.append(("equations", _spread(map(quote, map(one_line, placed.equations)), "equations", 8)))
        if placed.joined_by:
            columns_of = self.names.columns
            pairs = ((self.names.tables[name], columns_of[name][i]) for name, i in placed.joined_by.items())
            options.append(("joined_by", f"{{{', '.join(f'{quote(t)}: {quote(c)}' for t, c in pairs)}}}"))
        grouped = {relation.grouped[0] for relation in stratum.relations if relation.grouped}
        if grouped:
            computing, arguments = self.groupings(stratum)
            queries += computing
            options.append(("groupings", _one_a_line(arguments, "groupings", 8)))
        guards = dict.fromkeys(name for relation in stratum.relations for name in relation.guards)
        if guards:
            options.append(("guards", _spread((self.relation_variables[name] for name in guards), "guards", 8)))
        read = (
            {atom.relation for rule in stratum.rules for atom in rule.atoms} | {*guards} | grouped
        ) - stratum.members
        negated = {negation.atom.relation for rule in stratum.rules for negation in rule.negations}
        return StratumView(
            title=section(f"{stratum.name} ({_kind_text(stratum.kind)}, {where})"),
            comments=tuple(dict.fromkeys(one_line(f"{p.relation}: {p.reason}") for p in placed.pivots)),
            relations=tuple(self.relation(r) for r in stratum.relations),
            rules=tuple(self.rule(rule, placed) for rule in placed.rules),
            written=tuple(self.written(query, stratum) for query in placed.written),
            queries=tuple(queries),
            variable=variable,
            name=stratum.name,
            kind=stratum.kind,
            relation_tuple=self.relation_tuple(stratum.members, "relations"),
            reads=self.relation_tuple(read, "reads"),
            negates=self.relation_tuple(negated, "negates"),
            options=tuple(options),
        )

    def groupings(self, stratum: TypedStratum) -> tuple[list[QueryView], list[str]]:
        """Return the queries for the groups of a recursion that orders them, and the arguments of its groupings."""
        queries, arguments = [], []
        for relation in stratum.relations:
            assert relation.grouped is not None
            name, places = relation.grouped
            group = self.group(relation.name)
            constant = self.constant(constant_name(relation.name, "compute"))
            queries.append(
                self.query(
                    f"The rows of groups of {relation.name}, from all their derivations", constant, group.compute()
                )
            )
            columns = self.names.columns[relation.name]
            parts = [quote(self.names.tables[relation.name]), quote(self.names.tables[name])]
            parts += [_tuple(quote(columns[place]) for place in places), queries[-1].reference]
            parts += [f"ranged={_tuple(map(quote, group.ranged))}"] if group.ranged else []
            arguments.append(f"Grouping({', '.join(parts)})")
        return queries, arguments

    def relation_tuple(self, wanted: Iterable[str], argument: str) -> str:
        """Return a tuple of relation variables, in source order, as an argument of ``Stratum``."""
        chosen = sorted(wanted, key=self.order.__getitem__)
        return _spread((self.relation_variables[name] for name in chosen), argument, 8)

    def rule(self, planned: plan.RulePlan, placed: plan.StratumPlan) -> RuleView:
        """Return the constants and arguments of a rule."""
        rule, stratum = planned.rule, placed.stratum
        queries: list[QueryView] = []
        partial: tuple[str, ...] = ()
        narrow: tuple[str, ...] = ()
        facts: QueryView | None = None
        pivot = None
        if planned.filtered and any(isinstance(literal, typed.Negation) for literal in rule.body):
            pivot = next(p.column for p in placed.pivots if p.relation == rule.head.relation)
        if planned.full.facts:
            facts = self.query(
                f"{planned.label}, {len(planned.rules):,} facts with their labels and places",
                self.constant(constant_name(rule.label, "facts")),
                facts_sql(planned.full.facts),
            )
            queries.append(facts)

        def add(query: plan.Query, name: str, comment: str) -> str:
            nonlocal partial, narrow
            names = self.names_of_head(query, rule)
            sql = QueryBuilder(query, names, stratum.kind, stratum.members, pivot, beside).build()
            if query.purpose == "full":
                partial, narrow = sql.partial, sql.narrow
            queries.append(self.query(comment, self.constant(constant_name(rule.label, name)), sql, facts))
            return queries[-1].reference

        derived = self.heads[rule.head.relation]
        beside = derived.witnesses if stratum.kind == "proofs" else ()
        if derived.grouped:
            beside = tuple(place for place, _ in enumerate(derived.columns) if place not in derived.grouped[1])
        full = add(planned.full, "all", f"{planned.label}, all derivations")
        deltas = []
        for argument, group in (("deltas", planned.arriving), ("rounds", planned.following)):
            made = []
            for query in group:
                changed = query.changed
                assert changed is not None
                relation = changed.atom.relation
                table = self.names.tables[relation]
                what = f"{'the absence of ' if changed.negated else ''}{relation}"
                finds, name = f"a change arriving through {what}", f"delta_{table}"
                if query.rule.head.relation == MARK:
                    finds = f"the groups that a change of {what} affects"
                elif query.rule.head.relation == LEAD:
                    finds, name = f"what depends on {what}", f"lead_{table}"
                constant = add(query, name, f"{rule.label}, {finds}")
                negated = ", negated=True" if changed.negated else ""
                found = self.lookups(query) if stratum.kind in ("counted", "aggregate") else ""
                read = ""
                if query.rule.head.relation == LEAD:
                    read = f", others={_tuple(quote(self.names.tables[v.atom.relation]) for v in self.others(query))}"
                made.append(f"Delta({quote(table)}, {constant}{negated}{found and f', lookups={found}'}{read})")
            if made:
                deltas.append((argument, _one_a_line(made, argument, 16)))
        options: list[tuple[str, str]] = []
        if planned.returning is not None:
            by_group = stratum.kind in ("aggregate", "extremal", "acyclic")
            of = "the groups to recompute" if by_group else "tuples that died"
            comment = f"{planned.label}, the derivations of {of}"
            options.append(("returns", add(planned.returning, "returning", comment)))
        if planned.filtered:
            options.append(("filtered", "True"))
        if partial:
            options.append(("partial", _tuple(map(quote, partial))))
            options += [("narrow", _tuple(map(quote, narrow)))] if narrow else []
            calls = dict.fromkeys(call.function for call in calls_in(rule) if call.partial)
            options += [("calls", _tuple(map(quote, calls)))] if calls else []
        for product in (product for product in placed.matrices if product.label == rule.label):
            factors = []
            for place, factor in enumerate(product.factors, 1):
                if factor.query is not None:
                    builder = QueryBuilder(factor.query, self.names.with_factors(), "counted", frozenset())
                    constant = self.constant(constant_name(rule.label, f"matrix_{place}"))
                    queries.append(self.query(f"{rule.label}, pairs of a matrix", constant, builder.build()))
                    factors.append(self.factor(factor, queries[-1].reference))
                else:
                    factors.append(self.factor(factor))
            options.append(("matrices", _one_a_line(factors, "matrices", 16)))
            options += [("apart", "True")] if product.apart else []
        head = self.heads[rule.head.relation]
        asked = None
        if not (head.written or head.part_of):
            asked, told = self.asked(planned.asked, stratum, facts)
            options += told
        return RuleView(
            label=planned.label,
            source=quote(str(rule.span)),
            quoted=tuple(map(one_line, self.quoted_facts(planned) if facts else self.quoted(rule))),
            queries=tuple(queries),
            asked=asked,
            head=quote(self.names.tables[rule.head.relation]),
            full=full,
            deltas=tuple(deltas),
            options=tuple(options),
        )

    def names_of_head(self, query: plan.Query, rule: typed.TypedRule) -> Names:
        """Return the names for a query of a rule, whose head may be that of a mark or a lead."""
        relation = self.heads[rule.head.relation]
        if query.rule.head.relation not in (MARK, LEAD):
            return self.names
        assert relation.grouped is not None
        columns = self.names.columns[relation.name]
        keys = tuple(columns[place] for place in relation.grouped[1])
        if query.rule.head.relation == LEAD:
            changed = query.joins[0].atom
            onto = [f"_to_{place}" for place, _ in enumerate(keys, 1)]
            given = [f"_from_{place}" for place, _ in enumerate(changed.terms, 1)]
            others = [len(v.atom.terms) for v in self.others(query)]
            terms = [f"_{number}_{place}" for number, size in enumerate(others, 1) for place in range(1, size + 1)]
            keys = (*onto, *given, *terms)
        return self.names.with_head(query.rule.head.relation, keys)

    def others(self, query: plan.Query) -> list[Versioned]:
        """Return the positive literals of a lead except the changed one, in the order of the rule."""
        changed = query.joins[0]
        by_literal = {id(versioned.literal): versioned for versioned in query.joins}
        return [by_literal[id(x)] for x in query.rule.body if id(x) in by_literal and x is not changed.literal]

    def factor(self, factor: plan.Factor, query: str = "") -> str:
        """Return the ``MatrixFactor`` of a factor; ``query`` is the expression of its query, empty if it has none."""
        types = f"types={_tuple(quote(str(kind) if kind else '') for kind in factor.types)}"
        if query:
            options = [name for name in ("distinct", "weighted") if getattr(factor, name)]
            return f"MatrixFactor({', '.join([types, f'query={query}', *(f'{name}=True' for name in options)])})"
        columns = self.names.columns[factor.table]
        named = _tuple(quote("" if place is None else columns[place]) for place in factor.places)
        return f"MatrixFactor({types}, table={quote(self.names.tables[factor.table])}, columns={named})"

    def lookups(self, query: plan.Query) -> str:
        """Return the argument ``lookups`` of the ``Delta`` of a query, empty if it has none."""
        changed = self.names.columns[query.joins[0].atom.relation]
        told = []
        for relation, literals in shared_columns(query).items():
            columns = self.names.columns[relation]
            tests = (
                " AND ".join(f"stored.{columns[i]} = changed.{changed[j]}" for i, j in pairs) for pairs in literals
            )
            told.append(f"{quote(self.names.tables[relation])}: {quote(' OR '.join(dict.fromkeys(tests)))}")
        return f"{{{', '.join(told)}}}" if told else ""

    def written(self, query: plan.Query, stratum: TypedStratum) -> RuleView:
        """Return a rule of the program that was rewritten into others, as ``explain`` needs it."""
        asked, told = self.asked(query, stratum)
        return RuleView(
            label=query.rule.label,
            source=quote(str(query.rule.span)),
            quoted=tuple(map(one_line, self.as_written(query.rule))),
            queries=(),
            asked=asked,
            head=quote(self.names.tables[query.rule.head.relation]),
            full='""',
            deltas=(),
            options=told,
        )

    def asked(
        self, query: plan.Query, stratum: TypedStratum, facts: QueryView | None = None
    ) -> tuple[QueryView, tuple[tuple[str, str], ...]]:
        """Return the constant of a rule's query for one head, and the options of ``Rule`` that belong to it."""
        sql, steps = asked_sql(query, self.names, stratum.kind, stratum.members)
        rule = query.rule
        constant = self.constant(constant_name(rule.label, "asked"))
        text = f"{len(query.facts):,} facts" if facts else " ".join(line.strip() for line in rule.text.splitlines())
        made = self.query(f"{rule.label}, step by step for one head", constant, sql, facts)
        options = (
            ("text", quote(text)),
            ("steps", _spread(map(step_view, steps), "steps", 16)),
            ("asked", made.reference),
        )
        return made, options

    def quoted(self, rule: typed.TypedRule) -> Iterable[str]:
        """Yield the source of a rule with its place, its rewritten form, and what is sent for it."""
        yield from self.as_written(rule)
        if rule.origin:
            yield f"  {rule.origin}: {rule}"
        yield from self.sent(rule)

    def sent(self, rule: typed.TypedRule) -> Iterable[str]:
        """Yield what is sent between locations to evaluate a rule."""
        localized = self.localized[rule.label]
        for send in localized.sends:
            yield f"  {send}"
        if localized.sends_head:
            yield f"  send {rule.head.relation}: @{localized.location} -> @{localized.head_location} (head)"

    def quoted_facts(self, planned: plan.RulePlan) -> Iterable[str]:
        """Yield the place of the first of several facts, whose values are in a constant, and what is sent for them."""
        place = str(planned.rule.span)
        yield planned.label.ljust(WIDTH - len(place) - 2) + place
        yield from dict.fromkeys(line for rule in planned.rules for line in self.sent(rule))

    def as_written(self, rule: typed.TypedRule) -> Iterable[str]:
        """Yield the source of a rule with its place."""
        yield rule.label.ljust(WIDTH - len(str(rule.span)) - 2) + str(rule.span)
        for line in rule.text.splitlines():
            yield f"  {line.strip()}"

    def group(self, relation: str) -> Group | Ranking:
        """Return an aggregate relation in SQL."""
        rule = self.program.rules_of(relation)[0]
        pairs = list(zip(self.names.columns[relation], rule.head.arguments, strict=True))
        if rule.head.ranked:
            ranked = len(pairs) - len(rule.head.ranked)
            (place, aggregate) = next((i, a) for i, (_, a) in enumerate(pairs) if isinstance(a, typed.Aggregate))
            return Ranking(
                self.names.tables[relation],
                tuple(name for name, _ in pairs[:place]) or ("_unit",),
                pairs[place][0],
                tuple(name for name, _ in pairs[ranked:]),
                tuple(
                    OrderColumn(ORDERED_BY.format(number), str(part.value.type), part.descending)
                    for number, part in enumerate(aggregate.order, 1)
                ),
                aggregate.limit,
            )
        return Group(
            self.names.tables[relation],
            tuple(name for name, argument in pairs if not isinstance(argument, typed.Aggregate)) or ("_unit",),
            tuple(AggregateColumn(name, a) for name, a in pairs if isinstance(a, typed.Aggregate)),
        )


def step_view(step: AskedStep) -> str:
    """Return the Python expression for a step of a rule."""
    table = f", {quote(step.table)}" if step.table else ""
    column = f", column={quote(step.column)}" if step.column else ""
    return f"Step({quote(step.text)}{table}{', negated=True' if step.negated else ''}{column})"


def string_literal(text: str) -> str:
    """Return a triple-quoted Python string that begins and ends on lines of its own."""
    escaped = visible(text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"'))
    return f'"""\n{escaped}\n"""'


def quote(text: str) -> str:
    """Return a Python string literal, in the quotes that need fewer escapes."""
    mark = "'" if text.count('"') > text.count("'") else '"'
    return mark + one_line(text.replace("\\", "\\\\").replace(mark, f"\\{mark}")) + mark


def visible(text: str) -> str:
    """Return text with escapes for characters that reviewers cannot see or that Python does not read as they are."""
    return HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def one_line(text: str) -> str:
    """Return text on one line, with escapes for line breaks and invisible characters."""
    return visible(text).replace("\n", "\\n")


def shared_columns(query: plan.Query) -> dict[str, list[list[tuple[int, int]]]]:
    """Return for each relation of which all literals in a delta query have variables of the changed literal the columns
    in which each of them does, with those of the changed literal."""
    changed = query.joins[0].atom.terms
    places = {term.name: place for place, term in enumerate(changed) if isinstance(term, typed.Variable)}
    found: dict[str, list[list[tuple[int, int]]]] = {}
    for literal in (*query.joins[1:], *query.negations):
        terms = enumerate(literal.atom.terms)
        pairs = [(i, places[t.name]) for i, t in terms if isinstance(t, typed.Variable) and t.name in places]
        found.setdefault(literal.atom.relation, []).append(pairs)
    return {relation: literals for relation, literals in found.items() if all(literals)}


def _tuple(items: Iterable[str]) -> str:
    """Return a Python tuple of expressions."""
    listed = list(items)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _spread(items: Iterable[str], argument: str, indent: int) -> str:
    """Return a Python tuple as an argument, with one item per line if it is too long for one line."""
    listed = list(items)
    text = _tuple(listed)
    return text if indent + len(f"{argument}={text},") <= WIDTH else _lines(listed, indent)


def _one_a_line(items: Iterable[str], argument: str, indent: int) -> str:
    """Return a Python tuple as an argument, with one item per line unless a single item fits on one line."""
    listed = list(items)
    return _lines(listed, indent) if len(listed) > 1 else _spread(listed, argument, indent)


def _lines(listed: list[str], indent: int) -> str:
    margin = "\n" + " " * indent
    return "".join(["(", *(f"{margin}    {item}," for item in listed), margin, ")"])


def _kind_text(kind: str) -> str:
    known = {
        "ranked": "recursive",
        "counted": "not recursive",
        "extremal": "recursive, by extrema",
        "acyclic": "recursive, in the order of groups",
        "entries": "recursive, with derivation sets",
        "proofs": "recursive across processes, with live proofs",
        "identities": "identities of base facts",
        "epochs": "how often tuples have appeared",
        "dead": "identities that are dead for good",
    }
    return known.get(kind, kind)
