"""Lower plans to the programs that the runtime evaluates: relations, rules with their SQL, and strata."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from flintlog.compiler.ir import plan, typed
from flintlog.compiler.ir.delta import LEAD, MARK, Versioned
from flintlog.compiler.ir.strata import TypedStratum
from flintlog.compiler.ir.typed import calls_in
from flintlog.compiler.naming import called_otherwise
from flintlog.runtime.kernel import model
from flintlog.runtime.kernel.table_names import TableName
from flintlog.runtime.kernel.values import value_text

from .aggregates import AggregateColumn, Group
from .explanations import asked_sql
from .first_rows import OrderColumn, Ranking
from .names import Names
from .print_sql import Sql, facts_sql
from .sql import FACTS, ORDERED_BY, QueryBuilder


@dataclass(frozen=True, eq=False)
class LoweredQuery:
    """A query of a program: what it finds, the two parts of its name in a script, and its SQL, in which those facts
    that are constants of their own are a placeholder. ``text`` is what the runtime gets."""

    comment: str
    name: tuple[str, str]
    sql: Sql
    facts: LoweredQuery | None
    text: str | model.Both


@dataclass(frozen=True)
class LoweredRule:
    """A rule, the typed one that it comes from (of several facts, the first), and its queries in the order of their
    names; ``asked`` is the one that only ``explain`` uses. ``name`` is what a script calls the rule."""

    rule: model.Rule
    planned: plan.RulePlan | None
    source: typed.TypedRule
    queries: tuple[LoweredQuery, ...]
    asked: LoweredQuery | None
    name: str


@dataclass(frozen=True)
class LoweredStratum:
    """A stratum, with the queries that belong to none of its rules, and what became of its rules."""

    stratum: model.Stratum
    planned: plan.StratumPlan
    bucketed: bool
    queries: tuple[LoweredQuery, ...]
    rules: tuple[LoweredRule, ...]
    written: tuple[LoweredRule, ...]


@dataclass(frozen=True)
class LoweredProgram:
    """A program, and what its parts come from."""

    program: model.Program
    relations: Mapping[str, model.Relation]
    strata: tuple[LoweredStratum, ...]


def lower(program: plan.ProgramPlan, compiler: str = "", spark: bool = True, explained: bool = True) -> LoweredProgram:
    """Return the program of a plan as the runtime has it, made by a version of the ``compiler``. Without ``spark``, its
    queries are as DuckDB alone needs them; if it is not ``explained``, it lacks what only ``explain`` needs."""
    return _Lowering(program, spark, explained).lowered(compiler)


class _Lowering:
    """Lowers a plan."""

    def __init__(self, program: plan.ProgramPlan, spark: bool, explained: bool) -> None:
        self.plan, self.spark, self.explained = program, spark, explained
        self.program = program.program
        self.names = Names.of(self.program)
        self.pivots = {p.relation: p for stage in program.stages for s in stage.strata for p in s.pivots}
        self.kinds = {r.name: "input" for r in self.program.relations if r.role == "input"}
        for stage in program.stages:
            for stratum in stage.strata:
                self.kinds.update({r.name: stratum.stratum.kind for r in stratum.stratum.relations})
        self.heads = {relation.name: relation for relation in self.program.relations}
        self.relations = {relation.name: self.relation(relation) for relation in self.program.relations}

    def lowered(self, compiler: str) -> LoweredProgram:
        """Return the lowered program."""
        main = self.program.sources[0]
        strata = [[self.stratum(planned, stage) for planned in stage.strata] for stage in self.plan.stages]
        program = model.Program(
            name=main.name,
            sha256=hashlib.sha256("".join(s.sha256 for s in self.program.sources).encode()).hexdigest(),
            compiler=compiler,
            relations=tuple(self.relations.values()),
            stages=tuple(
                model.Stage(tuple(lowered.stratum for lowered in group), stage.bucketed)
                for group, stage in zip(strata, self.plan.stages, strict=True)
            ),
            functions=tuple(map(self.function, self.program.functions)),
        )
        return LoweredProgram(program, self.relations, tuple(lowered for group in strata for lowered in group))

    def function(self, function: typed.TypedFunction) -> model.ExternalFunction:
        """Return an external function."""
        kinds = tuple(str(parameter.type) for parameter in function.parameters)
        called = self.names.functions[function.name]
        other = called if called != f"external__{function.name}" else ""
        return model.ExternalFunction(function.name, kinds, str(function.result), other)

    # ---- relations -------------------------------------------------------------------------------------------------

    def relation(self, relation: typed.TypedRelation) -> model.Relation:
        """Return a relation."""
        columns = self.names.columns[relation.name]
        called = relation.public or relation.name
        folder = self.names.folders[relation.name] if relation.output else called
        bucket = self.bucket_column(relation)
        aggregated = self.aggregated(relation)
        file = relation.file if relation.role == "input" else None
        return model.Relation(
            name=called,
            table=self.names.tables[relation.name],
            columns=tuple(
                model.Column(column.name, str(column.type), columns[i])
                for i, column in enumerate(relation.columns[: -1 if relation.copies else None])
            ),
            kind=self.kept_as(relation),
            source=str(relation.span),
            output=relation.output,
            folder=folder if folder != called else "",
            hidden=relation.hidden,
            key=tuple(columns[i] for i in relation.key),
            location=columns[relation.location] if relation.location is not None else "",
            at=value_text(relation.at.value) if relation.at is not None else None,
            bucket_by=columns[bucket] if bucket is not None else "",
            extra=self.extra(relation),
            best=self.best(relation),
            annotates=relation.annotates,
            definition=self.definition(relation),
            shown_as=relation.shown_as,
            aggregated=tuple(columns[place] for place in aggregated),
            witnesses=tuple(columns[place] for place in relation.witnesses) if aggregated else (),
            copy=columns[-1] if relation.copies else "",
            file=model.NamedFile(file.file, file.separator, file.header) if file is not None else None,
            clock=relation.clock,
        )

    def kept_as(self, relation: typed.TypedRelation) -> str:
        """Return how a relation's tuples are stored: the kind of its stratum, or one that is stored alike."""
        kind = self.kinds[relation.name]
        return {"extremal": "ranked", "acyclic": "aggregate"}.get(kind, kind)

    def extra(self, relation: typed.TypedRelation) -> tuple[model.Column, ...]:
        """Return the columns with the partial results of an aggregate."""
        if self.kept_as(relation) != "aggregate":
            return ()
        return tuple(model.Column(name, kind, name) for name, kind in self.group(relation.name).extra)

    def aggregated(self, relation: typed.TypedRelation) -> list[int]:
        """Return the columns of a relation that its rules aggregate."""
        rules = relation.written or self.program.rules_of(relation.name)
        arguments = rules[0].head.arguments if rules and not relation.part_of else ()
        return [place for place, argument in enumerate(arguments) if isinstance(argument, typed.Aggregate)]

    def best(self, relation: typed.TypedRelation) -> tuple[str, str] | None:
        """Return by which function of which column a relation keeps only the extremum of each group, if it does."""
        if self.kinds[relation.name] not in ("extremal", "proofs"):
            return None
        rules = self.program.rules_of(relation.name)
        extrema = [
            (argument.function.upper(), self.names.columns[relation.name][place])
            for place, argument in enumerate(rules[0].head.arguments if rules else ())
            if isinstance(argument, typed.Aggregate)
        ]
        return extrema[-1] if extrema else None

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
        parts += [stored_name for column, stored_name in stored if called_otherwise(column.name, stored_name)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def group(self, relation: str) -> Group | Ranking:
        """Return an aggregate relation in SQL."""
        rule = self.program.rules_of(relation)[0]
        pairs = list(zip(self.names.columns[relation], rule.head.arguments, strict=True))
        if rule.head.ranked:
            ranked = len(pairs) - len(rule.head.ranked)
            (place, aggregate) = next((i, a) for i, (_, a) in enumerate(pairs) if isinstance(a, typed.Aggregate))
            return Ranking(
                TableName(self.names.tables[relation]),
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
            TableName(self.names.tables[relation]),
            tuple(name for name, argument in pairs if not isinstance(argument, typed.Aggregate)) or ("_unit",),
            tuple(AggregateColumn(name, a) for name, a in pairs if isinstance(a, typed.Aggregate)),
        )

    # ---- strata ----------------------------------------------------------------------------------------------------

    def stratum(self, planned: plan.StratumPlan, stage: plan.StagePlan) -> LoweredStratum:
        """Return a stratum."""
        source = planned.stratum
        queries: list[LoweredQuery] = []
        stratum = model.Stratum(source.name, source.kind, self.in_order(source.members), (), (), ())
        if source.kind == "aggregate":
            stratum = self.aggregate(stratum, source, queries)
        grouped = {relation.grouped[0] for relation in source.relations if relation.grouped}
        if grouped:
            stratum = replace(stratum, groupings=tuple(self.grouping(r, queries) for r in source.relations))
        guards = dict.fromkeys(name for relation in source.relations for name in relation.guards)
        read = {atom.relation for rule in source.rules for atom in rule.atoms} | {*guards} | grouped
        tables, columns = self.names.tables, self.names.columns
        rules = tuple(self.rule(rule, planned) for rule in planned.rules)
        written = tuple(self.written(query, source) for query in planned.written if self.explained)
        stratum = replace(
            stratum,
            reads=self.in_order(read - source.members),
            negates=self.in_order(negation.atom.relation for rule in source.rules for negation in rule.negations),
            rules=tuple(lowered.rule for lowered in rules),
            closure=source.closure.grows if source.closure is not None else "",
            guards=tuple(self.relations[name] for name in guards),
            equations=tuple(planned.equations) if planned.matrices else (),
            joined_by={tables[name]: columns[name][place] for name, place in planned.joined_by.items()},
            written=tuple(lowered.rule for lowered in written),
        )
        return LoweredStratum(stratum, planned, stage.bucketed, tuple(queries), rules, written)

    def in_order(self, wanted: Iterable[str]) -> tuple[model.Relation, ...]:
        """Return relations in source order."""
        chosen = {*wanted}
        return tuple(relation for name, relation in self.relations.items() if name in chosen)

    def aggregate(self, stratum: model.Stratum, source: TypedStratum, queries: list[LoweredQuery]) -> model.Stratum:
        """Return the stratum of an aggregate with its groups, and add the queries that compute them."""
        group = self.group(source.relations[0].name)
        compute = self.query(
            "The rows of groups, from all their derivations", (source.name, "compute"), group.compute()
        )
        queries.append(compute)
        fold, text = group.fold(), ""
        if fold is not None:
            comment = "The rows of groups, from their old rows and what changed"
            queries.append(self.query(comment, (source.name, "fold"), fold))
        return replace(
            stratum,
            groups=group.groups,
            compute=compute.text,
            fold=queries[-1].text if fold is not None else text,
            ranged=tuple(group.ranged),
            limit=max(group.limit, 1),
        )

    def grouping(self, relation: typed.TypedRelation, queries: list[LoweredQuery]) -> model.Grouping:
        """Return a grouping of a recursion that orders its groups, and add the query that computes it."""
        assert relation.grouped is not None
        name, places = relation.grouped
        group = self.group(relation.name)
        comment = f"The rows of groups of {relation.name}, from all their derivations"
        queries.append(self.query(comment, (relation.name, "compute"), group.compute()))
        columns = self.names.columns[relation.name]
        return model.Grouping(
            self.names.tables[relation.name],
            self.names.tables[name],
            tuple(columns[place] for place in places),
            queries[-1].text,
            tuple(group.ranged),
        )

    # ---- rules -----------------------------------------------------------------------------------------------------

    def query(self, comment: str, name: tuple[str, str], sql: Sql, facts: LoweredQuery | None = None) -> LoweredQuery:
        """Return a query that may read ``facts``, another one, whose text takes the place of the placeholder."""
        sql = sql if self.spark else sql.for_duckdb()
        duckdb, spark = sql.duckdb, sql.spark
        if facts is not None:
            of = facts.text if isinstance(facts.text, model.Both) else model.Both(facts.text, facts.text)
            duckdb, spark = duckdb.replace(FACTS, f"({of.duckdb})", 1), spark.replace(FACTS, f"({of.spark})", 1)
        # On lines of its own, as it stands in a script.
        both = model.Both(f"\n{duckdb}\n", f"\n{spark}\n")
        return LoweredQuery(comment, name, sql, facts, both if duckdb != spark else both.duckdb)

    def rule(self, planned: plan.RulePlan, placed: plan.StratumPlan) -> LoweredRule:
        """Return a rule, or facts that are evaluated together."""
        source, stratum = planned.rule, placed.stratum
        head = self.heads[source.head.relation]
        queries: list[LoweredQuery] = []
        facts: LoweredQuery | None = None
        called = stable_name(source, bool(planned.full.facts))
        if planned.full.facts:
            comment = f"{called}, {len(planned.rules):,} facts with their labels and places"
            facts = self.query(comment, (called, "facts"), facts_sql(planned.full.facts))
            queries.append(facts)
        pivot = None
        if planned.filtered and any(isinstance(literal, typed.Negation) for literal in source.body):
            pivot = next(p.column for p in placed.pivots if p.relation == source.head.relation)
        beside = head.witnesses if stratum.kind == "proofs" else ()
        if head.grouped:
            beside = tuple(place for place, _ in enumerate(head.columns) if place not in head.grouped[1])

        def add(query: plan.Query, name: str, comment: str) -> Sql:
            names = self.names_of_head(query, source)
            sql = QueryBuilder(query, names, stratum.kind, stratum.members, pivot, beside).build()
            queries.append(self.query(comment, (called, name), sql, facts))
            return sql

        sql = add(planned.full, "all", f"{called}, all derivations")
        full = queries[-1].text
        changes: list[tuple[model.Delta, ...]] = []
        for group in (planned.arriving, planned.following):
            deltas = []
            for query in group:
                add(query, *self.finds(query, called))
                deltas.append(self.delta(query, stratum, queries[-1].text))
            changes.append(tuple(deltas))
        returns: str | model.Both = ""
        if planned.returning is not None:
            by_group = stratum.kind in ("aggregate", "extremal", "acyclic")
            of = "the groups to recompute" if by_group else "tuples that died"
            add(planned.returning, "returning", f"{called}, the derivations of {of}")
            returns = queries[-1].text
        factors, apart = self.product(source, placed, queries)
        calls = dict.fromkeys(call.function for call in calls_in(source) if call.partial) if sql.partial else {}
        lowered = model.Rule(
            planned.label,
            str(source.span),
            self.names.tables[source.head.relation],
            full,
            deltas=changes[0],
            rounds=changes[1],
            returns=returns,
            filtered=planned.filtered,
            partial=sql.partial,
            narrow=sql.narrow if sql.partial else (),
            calls=tuple(calls),
            matrices=factors,
            apart=apart,
        )
        if head.written or head.part_of or not self.explained:
            return LoweredRule(lowered, planned, source, tuple(queries), None, called)
        asked, lowered = self.asked(planned.asked, stratum, lowered, facts)
        return LoweredRule(lowered, planned, source, tuple(queries), asked, called)

    def finds(self, query: plan.Query, name: str) -> tuple[str, str]:
        """Return the name of the query for a delta of the rule ``name``, and what it finds."""
        changed = query.changed
        assert changed is not None
        relation = changed.atom.relation
        table = self.names.tables[relation]
        what = f"{'the absence of ' if changed.negated else ''}{relation}"
        if query.rule.head.relation == MARK:
            return f"delta_{table}", f"{name}, the groups that a change of {what} affects"
        if query.rule.head.relation == LEAD:
            return f"lead_{table}", f"{name}, what depends on {what}"
        if query.purpose == "crossing":
            return f"delta_{table}", f"{name}, what {relation} passes when it moves"
        return f"delta_{table}", f"{name}, a change arriving through {what}"

    def delta(self, query: plan.Query, stratum: TypedStratum, text: str | model.Both) -> model.Delta:
        """Return a delta of a rule."""
        changed = query.changed
        assert changed is not None
        others = self.others(query) if query.rule.head.relation == LEAD else []
        return model.Delta(
            self.names.tables[changed.atom.relation],
            text,
            changed.negated,
            self.lookups(query) if stratum.kind in ("counted", "aggregate") else {},
            tuple(self.names.tables[other.atom.relation] for other in others),
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
            origins = [f"_from_{place}" for place, _ in enumerate(changed.terms, 1)]
            others = [len(v.atom.terms) for v in self.others(query)]
            terms = [f"_{number}_{place}" for number, size in enumerate(others, 1) for place in range(1, size + 1)]
            keys = (*onto, *origins, *terms)
        return self.names.with_head(query.rule.head.relation, keys)

    def others(self, query: plan.Query) -> list[Versioned]:
        """Return the positive literals of a lead except the changed one, in the order of the rule."""
        changed = query.joins[0]
        by_literal = {id(versioned.literal): versioned for versioned in query.joins}
        return [by_literal[id(x)] for x in query.rule.body if id(x) in by_literal and x is not changed.literal]

    def lookups(self, query: plan.Query) -> dict[str, tuple[str, ...]]:
        """Return the lookups of the delta of a query."""
        changed = self.names.columns[query.joins[0].atom.relation]
        told = {}
        for relation, literals in shared_columns(query).items():
            columns = self.names.columns[relation]
            tests = (
                " AND ".join(f"stored.{columns[i]} = changed.{changed[j]}" for i, j in pairs) for pairs in literals
            )
            told[self.names.tables[relation]] = tuple(dict.fromkeys(tests))
        return told

    def product(
        self, rule: typed.TypedRule, placed: plan.StratumPlan, queries: list[LoweredQuery]
    ) -> tuple[tuple[model.MatrixFactor, ...], bool]:
        """Return the factors of the product that a rule is, if it is one, and whether values of its head are apart; add
        the queries of the factors."""
        factors: list[model.MatrixFactor] = []
        apart = False
        for product in (product for product in placed.matrices if product.label == rule.label):
            apart = product.apart
            for place, factor in enumerate(product.factors, 1):
                if factor.query is not None:
                    builder = QueryBuilder(factor.query, self.names.with_factors(), "counted", frozenset())
                    name = (stable_name(rule), f"matrix_{place}")
                    queries.append(self.query(f"{stable_name(rule)}, pairs of a matrix", name, builder.build()))
                factors.append(self.factor(factor, queries[-1].text if factor.query is not None else ""))
        return tuple(factors), apart

    def factor(self, factor: plan.Factor, query: str | model.Both) -> model.MatrixFactor:
        """Return a factor of a product; ``query`` is empty if it has none."""
        first, last = (str(kind) if kind else "" for kind in factor.types)
        if factor.query is not None:
            matrix = model.MatrixFactor((first, last), query=query)
            return replace(matrix, distinct=factor.distinct, weighted=factor.weighted)
        columns = self.names.columns[factor.table]
        one, other = ("" if place is None else columns[place] for place in factor.places)
        return model.MatrixFactor((first, last), self.names.tables[factor.table], (one, other))

    def written(self, query: plan.Query, stratum: TypedStratum) -> LoweredRule:
        """Return a rule of the program that was rewritten into others, as ``explain`` needs it."""
        rule = query.rule
        lowered = model.Rule(rule.label, str(rule.span), self.names.tables[rule.head.relation], "")
        asked, lowered = self.asked(query, stratum, lowered)
        return LoweredRule(lowered, None, rule, (), asked, stable_name(rule))

    def asked(
        self, query: plan.Query, stratum: TypedStratum, rule: model.Rule, facts: LoweredQuery | None = None
    ) -> tuple[LoweredQuery, model.Rule]:
        """Return a rule's query for one head, and the rule with that."""
        sql, steps = asked_sql(query, self.names, stratum.kind, stratum.members)
        source = query.rule
        text = f"{len(query.facts):,} facts" if facts else " ".join(line.strip() for line in source.text.splitlines())
        name = stable_name(source, facts is not None)
        asked_query = self.query(f"{name}, step by step for one head", (name, "asked"), sql, facts)
        model_steps = tuple(model.Step(step.text, step.table, step.negated, step.column) for step in steps)
        return asked_query, replace(rule, text=text, steps=model_steps, asked=asked_query.text)


def stable_name(rule: typed.TypedRule, facts: bool = False) -> str:
    """Return what a script calls a rule: its label or, if the source has none, its head and a short hash of the rule,
    so that other rules of its head change no name; the head alone for the ``facts`` that it is the first of. The hash
    leaves out numbers and strings, so that a change of one shows only where it stands."""
    if facts and not rule.named:
        return rule.head.relation
    if rule.named or not re.search(r"_\d+(?![^._])", rule.label):
        return rule.label
    text = re.sub(r'"(?:[^"\\]|\\.)*"|\b\d[\w.]*', "?", str(replace(rule, label="")))
    return f"{rule.head.relation}_{hashlib.sha256(text.encode()).hexdigest()[:4]}"


def shared_columns(query: plan.Query) -> dict[str, list[list[tuple[int, int]]]]:
    """Return for each relation of which all literals in a delta query have variables of the changed literal the columns
    in which each of them does, with those of the changed literal."""
    changed = query.joins[0].atom.terms
    places = {term.name: place for place, term in enumerate(changed) if isinstance(term, typed.Variable)}
    shared: dict[str, list[list[tuple[int, int]]]] = {}
    for literal in (*query.joins[1:], *query.negations):
        terms = enumerate(literal.atom.terms)
        pairs = [(i, places[t.name]) for i, t in terms if isinstance(t, typed.Variable) and t.name in places]
        shared.setdefault(literal.atom.relation, []).append(pairs)
    return {relation: literals for relation, literals in shared.items() if all(literals)}
