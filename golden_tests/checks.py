"""A job and the oracle side by side: every batch goes to both, and everything that can be compared is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from flintlog.compiler.ir import typed
from flintlog.compiler.pipeline import Compilation

from .harness import LocalJob, MemoryJob, Row, kept
from .oracle import functions, language
from .oracle.batches import Batch, Changes, ConflictingUpserts, Contradiction, Rows, TooFewCopies, apply, diff
from .oracle.evaluate import (
    ArithmeticFault,
    CyclicGroups,
    KeyViolation,
    OnlyFromEachOther,
    counts,
    evaluate,
    evaluated,
    shown,
    strata,
    supports_ok,
)

REFUSALS = {
    ArithmeticFault: ("arithmetic overflow or division by zero", "does not fit its type"),
    KeyViolation: ("two tuples with the primary key",),
    CyclicGroups: ("depends on itself",),
    OnlyFromEachOther: ("only follow from each other",),
    ConflictingUpserts: ("two different rows with the primary key",),
    Contradiction: ("is both deleted",),
    TooFewCopies: ("more than it inserts",),
}
"""What a job says, one or the other, where the oracle raises; a job that comes upon a key first says that."""

Inputs = Mapping[str, set[Row] | Counter[Row]]
Functions = Mapping[str, Callable[..., Any]]


class Checked:
    """A job whose batches are checked against an oracle.

    ``program`` is read from the source by the oracle's own reader; ``rewritten`` is the compiler's program behind the
    rewriting passes in the oracle's form, for what depends on the rules themselves: supports and hidden relations.
    """

    def __init__(self, job: LocalJob | MemoryJob, text: str, compilation: Compilation) -> None:
        """Nothing is built yet. ``text`` is the whole program, without includes."""
        self.job = job
        supplied = job.supplied.functions if job.supplied else {}
        known = {name: functions.external(function) for name, function in supplied.items()}
        self.program = language.parse(text, known)
        self.rewritten = as_oracle(compilation.rewritten, {**functions.FUNCTIONS, **known})
        self.publics = {r.name: r.public or r.name for r in compilation.rewritten.relations}
        self.copies = {r.name for r in compilation.rewritten.relations if r.copies}
        self.inputs: dict[str, set[Row] | Counter[Row]] = {}
        self.state: dict[str, set[Row]] = {}
        self.refused = ""

    def build(self, inputs: Inputs) -> list[str]:
        """Build the state; returns what is wrong."""
        return self.apply(insertions(inputs))

    def apply(self, batch: Batch, recount: bool = True) -> list[str]:
        """Apply a batch; returns what is wrong, whether the oracle takes the batch or not.

        Where it does not, the job must refuse the batch as well; ``refused`` then says why, and the state stays.
        With ``recount`` the job recounts its own state too.
        """
        self.refused = ""
        expected: type[Exception] | None = None
        after, state = self.inputs, self.state
        try:
            after = apply(self.inputs, batch, self.program, self.job.net)
            state = evaluate(self.program, after)
        except tuple(REFUSALS) as error:
            expected = type(error)
        manifest = self.job.manifest
        try:
            self.job.run(batch)
        except self.job.module.JobError as error:
            self.refused = str(error)
        if expected is not None:
            # Strata may come in another order.
            late = {ArithmeticFault, CyclicGroups}
            others = {KeyViolation, *late} if expected in late else self.faults(batch)
            if not any(said in self.refused for error in (expected, *others) for said in REFUSALS[error]):
                return [f"the oracle says {expected.__name__}, the job {self.refused or 'nothing'}"]
            assert self.job.manifest == manifest
            return self.compare(self.inputs, self.state, recount) if manifest is not None else []
        if self.refused:
            return [f"the job refuses the batch: {self.refused}"]
        problems = [] if manifest is None else self.compare_changes(diff(self.state, state))
        self.inputs, self.state = after, state
        return problems + self.compare(after, state, recount)

    def faults(self, batch: Batch) -> set[type[Exception]]:
        """What is wrong with a batch, relation by relation; a job may come upon any of them first."""
        found: set[type[Exception]] = set()
        for name, changes in batch.items():
            try:
                apply(self.inputs, {name: changes}, self.program, self.job.net)
            except tuple(REFUSALS) as error:
                found.add(type(error))
        return found

    def compare_changes(self, expected: Changes) -> list[str]:
        """What is wrong with the net changes of the last batch, of every relation that users see."""
        problems = []
        for relation in self.job.program.relations:
            if not relation.hidden and (relation.name in self.state or relation.kind != "input"):
                problems += compared(
                    f"changes of {relation.name}", self.job.changes[relation.table], expected.get(relation.name, set())
                )
        return problems

    def compare(self, inputs: Inputs, state: Inputs, recount: bool) -> list[str]:
        """What is wrong with the stored state: tuples, supports, ranks, and the job's own recount."""
        problems = []
        stored = [(relation, self.job.tuples(relation)) for relation in self.job.program.relations]
        for relation, rows in stored:
            if relation.hidden:
                continue
            expected = state[relation.name] if relation.name in state else inputs.get(relation.name, set())
            problems += compared(relation.name, rows, expected)
        if recount:
            problems += [f"recount of the job: {found}" for found in self.job.differences()]
        return problems or self.compare_supports(inputs, [rows for _, rows in stored])

    def compare_supports(self, inputs: Inputs, stored: Sequence[set[Row]]) -> list[str]:
        """What is wrong with numbers of derivations, with ranks, and with hidden relations, given the ``stored`` tuples
        of all relations."""
        given = {r.name: inputs.get(self.publics[r.name], set()) for r in self.rewritten.inputs}
        given |= {name: numbered(given[name]) for name in self.copies}
        known = {r.name: kept_rows(r, given[r.name]) for r in self.rewritten.inputs}
        names = list(self.rewritten.relations)
        tables = dict(zip(names, self.job.program.relations, strict=True))
        tuples = dict(zip(names, stored, strict=True))
        store = evaluated(self.rewritten, known)
        derived = shown(self.rewritten, store)
        problems = []
        for name, rows in {**known, **derived}.items():
            found = kept_rows(self.rewritten.relations[name], tuples[name])
            problems += compared(f"rewritten {name}", found, rows)
        if problems:
            return problems
        ranked = {
            name: kept_keys(self.rewritten.relations[name], self.job.supports(t))
            for name, t in tables.items()
            if t.kind == "ranked"
        }
        recursive = {name for stratum in strata(self.rewritten) if stratum.recursive for name in stratum.relations}
        annotated = {name for name, table in tables.items() if table.kind == "entries"}
        ordered = {name for name, table in tables.items() if table.kind == "aggregate"}
        assert set(ranked) == recursive - annotated - ordered, "what is recursive is ranked, annotated or in order"
        unranked = {f"{name}: recursive, but not in the state" for name in annotated | ordered}
        problems += [found for found in supports_ok(self.rewritten, known, ranked, store) if found not in unranked]
        counted = counts(self.rewritten, known, store)
        for name, table in tables.items():
            if table.kind == "counted":
                stored = kept_keys(self.rewritten.relations[name], self.job.counts(table))
                problems += [
                    f"{name}{row}: support {stored.get(row, 0)}, counted {counted[name][row]}"
                    for row in sorted({*stored, *counted[name]}, key=repr)
                    if stored.get(row, 0) != counted[name][row]
                ]
        return problems


def numbered(rows: Rows) -> set[Row]:
    """The copies of the rows of a multiset, each with its number."""
    return {(*row, number) for row, copies in Counter(rows).items() for number in range(1, copies + 1)}


def insertions(inputs: Inputs) -> Batch:
    """The batch that inserts all rows."""
    found = {name: rows.elements() if isinstance(rows, Counter) else rows for name, rows in inputs.items()}
    return {name: [("+", row) for row in sorted(rows, key=repr)] for name, rows in found.items()}


def kept_row(relation: language.Relation, row: Row) -> Row:
    """A tuple as the rules of the rewritten program see it: what may be null as a list."""
    assert relation.columns is not None
    return tuple(kept(value, column.type) for value, column in zip(row, relation.columns, strict=True))


def kept_rows(relation: language.Relation, rows: Iterable[Row]) -> set[Row]:
    """Tuples as the rules of the rewritten program see them."""
    return {kept_row(relation, row) for row in rows}


def kept_keys(relation: language.Relation, found: Mapping[Row, Any]) -> dict[Row, Any]:
    """What is known of tuples, these as the rules of the rewritten program see them."""
    return {kept_row(relation, row): value for row, value in found.items()}


def compared(what: str, found: set[Any], expected: set[Any]) -> list[str]:
    """The difference of two sets, as messages."""
    if found == expected:
        return []
    missing, extra = sorted(expected - found, key=repr), sorted(found - expected, key=repr)
    return [f"{what}: missing {missing}, too many {extra}"]


# ---- the compiler's programs in the oracle's form ------------------------------------------------------------------


#: What the compiler adds to rules, for values that may be null and to annotate facts with their derivations.
ANNOTATING: Functions = {
    "set_of": lambda facts: tuple(sorted(set(facts))),
    "value?": lambda option: option[0] if option else functions.Undefined("null"),
    "in_set": lambda facts, fact: fact in facts,
    "pick": lambda infinite, used, head: tuple(sorted({*infinite, head})) if head in used else infinite,
}


def as_oracle(program: typed.TypedProgram, known: Functions) -> language.Program:
    """A typed program as the oracle holds programs."""
    known = {**known, **ANNOTATING}
    relations = {
        relation.name: language.Relation(
            relation.name,
            len(relation.columns),
            tuple(language.Column(column.name, str(column.type).replace(" ", "")) for column in relation.columns),
            is_input=relation.role == "input",
            is_derived=relation.role != "input",
            is_output=relation.output,
            key=relation.key,
        )
        for relation in program.relations
    }
    rules = tuple(
        language.Rule(
            language.Atom(rule.head.relation, tuple(as_expression(a, known) for a in rule.head.arguments)),
            tuple(as_literal(literal, known) for literal in rule.body),
            rule.label,
            rule.span.line,
        )
        for rule in program.rules
    )
    return language.Program(relations, rules)


def as_literal(literal: typed.Literal, known: Functions) -> language.Literal:
    """A literal as the oracle holds it."""
    match literal:
        case typed.Atom(relation, terms):
            return language.Atom(relation, tuple(as_expression(term, known) for term in terms))
        case typed.Negation(typed.Atom(relation, terms)):
            return language.Negation(language.Atom(relation, tuple(as_expression(term, known) for term in terms)))
        case typed.Assignment(variable, value):
            return language.Comparison("=", language.Variable(variable.name), as_expression(value, known))
        case typed.Comparison(op, left, right):
            return language.Comparison(op, as_expression(left, known), as_expression(right, known))
    raise AssertionError(literal)


def as_expression(expression: typed.Expression | typed.Term | typed.Aggregate, known: Functions) -> language.Expression:
    """An expression as the oracle holds it; conversions are left to the oracle."""
    match expression:
        case typed.Variable(name):
            return language.Variable(name)
        case typed.Wildcard():
            return language.Wildcard()
        case typed.Constant(value, kind):
            return language.Constant(as_value(value, kind.name), str(value))
        case typed.Convert(operand):
            return as_expression(operand, known)
        case typed.Negate(operand):
            return language.Negate(as_expression(operand, known))
        case typed.ListLiteral(items):
            return language.ListOf(tuple(as_expression(item, known) for item in items))
        case typed.Call(name, arguments):
            return language.Call(name, tuple(as_expression(part, known) for part in arguments), known[name])
        case typed.Binary(op, left, right):
            return language.Binary(op, as_expression(left, known), as_expression(right, known))
        case typed.Aggregate() if expression.limit:
            order = language.ListOf(tuple(as_expression(part.value, known) for part in expression.order))
            directions = tuple(part.descending for part in expression.order)
            return language.Aggregate(expression.function, order, False, expression.limit, directions)
        case typed.Aggregate(function, argument):
            return language.Aggregate(function, None if argument is None else as_expression(argument, known))
    raise AssertionError(expression)


def as_value(value: Any, kind: str) -> Any:
    """A constant's value as the oracle holds it."""
    match kind:
        case "float":
            return float(value)
        case "decimal":
            return Decimal(value)
        case "date":
            return date.fromisoformat(value)
        case "timestamp":
            return datetime.fromisoformat(value)
    return value
