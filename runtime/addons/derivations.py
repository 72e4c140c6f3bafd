"""Commands for programs with live proofs or derivation sets: the command ``depends`` and ``show --entries``."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ..engines.duckdb import DuckEngine
from ..engines.options import Options
from ..explain.base_facts import MOST_ROWS, BaseFacts, numbered_relations
from ..explain.proofs import MOST_PROOF_TUPLES
from ..inputs.tuples import parse_tuple
from ..job.command_line import COMMANDS, Command, Invocation
from ..job.shared_options import add_printing, has_derivations, option, positive
from ..job.show import rows_sql, wanted_relation
from ..kernel.engine import Engine
from ..kernel.errors import JobError
from ..kernel.model import LIFE, Column, Program, Relation, Rule
from ..kernel.sql import names, plain_type
from ..kernel.values import Known, Values, hashable, plain_row, plain_value, sql_constant, tuple_text, value_text
from ..store.commits import from_chosen_commit, from_last_commit
from ..store.extensions import FURTHER
from ..store.manifest import Manifest, read_manifest
from ..store.run_tasks import duck_engine
from ..store.task_records import Task
from ..store.versions import check_program
from ..system.machine import available_cores
from ..system.places import given_place, is_local
from ..system.printing import RowPrinter
from .explain import stored_in

T = TypeVar("T")

IDENTITY = re.compile(rf"[0-9a-f]{{{LIFE}}}[0-9]{{3}}(\(.*\))?[0-9]{{12}}", re.DOTALL)
"""The identity of a base fact, or of the absence of one."""

ROWS_NAMED = 1000
"""At most this many proofs are made readable at once."""


def depends_on(
    program: Program,
    states: str | Sequence[str],
    asked: str,
    carried: Mapping[str, str] | None = None,
    limit: int = MOST_PROOF_TUPLES,
) -> dict[str, Any]:
    """Return the tuples that depend on a fact, at most ``limit``. The fact is in program syntax: ``link(1, "x")``.

    With live proofs, these are the tuples whose current proof contains the fact, which may also be given by its
    identity. ``states`` are those of processes that run this program, or folders with the homes of several; ``carried``
    maps what a process sends to what it is called on arrival, to find copies of the fact at other processes. With
    derivation sets, they are the tuples with a derivation set that contains the fact.
    """
    places, apart = places_of(program, [states] if isinstance(states, str) else states)
    identity = asked.strip() if IDENTITY.fullmatch(asked.strip()) else ""
    fact = None if identity else parse_tuple(program, asked)
    result: dict[str, Any] = {"program": program.name, "tuple": identity if fact is None else tuple_text(*fact)}
    use: Callable[[Program, DuckEngine], list[dict[str, Any]]]
    if any(relation.kind == "proofs" for relation in program.relations):
        ids = {identity}
        if fact is not None:
            facts = copies(program, carried or {}, fact[0], tuple(map(hashable, fact[1])))
            ids = set[str]().union(*(with_state(program, place, partial(ids_of, facts)) for place in places))
        use = partial(proven_with, ids)
        result |= {"identities": sorted(ids), "elsewhere": apart}
    elif fact is not None:
        use = partial(sets_with, fact_text(*fact))
    else:
        raise JobError(f"{program.name} has no live proofs, so its facts have no identities")
    dependents = [row for place in places for row in with_state(program, place, use)]
    return {**result, "tuples": dependents[:limit], "more": max(0, len(dependents) - limit)}


def places_of(program: Program, states: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the states to look at: those given, and in folders of homes those of this program; and the names of homes
    with states of other programs."""
    places, apart = [], []
    for state in states:
        place = given_place(state)
        if not is_local(place) or read_manifest(place) is not None or not place.is_dir():
            places.append(place)
            continue
        homes = [home for home in sorted(place.iterdir()) if (home / "state").is_dir()]
        if not homes:
            raise JobError(f"{place} is neither a state nor a folder with homes of processes")
        for home in homes:
            manifest = read_manifest(home / "state")
            try:
                if manifest is not None:
                    check_program(program, manifest)
                    places.append(home / "state")
            except JobError:
                apart.append(home.name)
    return places, apart


def with_state(program: Program, root: Path, use: Callable[[Program, DuckEngine], T]) -> T:
    """Return the result of ``use`` on the last commit of a state, given an engine with a view r__stored of each
    relation r."""

    def read(manifest: Manifest) -> T:
        check_program(program, manifest)
        with opened(program, root, manifest) as engine:
            return use(program, engine)

    result: T = from_last_commit(root, read)
    return result


@contextlib.contextmanager
def opened(program: Program, root: Path, manifest: Manifest) -> Iterator[DuckEngine]:
    """Yield DuckDB with a view r__stored of each relation r of a commit."""
    task = Task(Options(manifest.buckets), str(root), manifest.relations)
    with duck_engine(task, available_cores()) as engine:
        stored = stored_in(engine, task)
        for relation in program.relations:
            engine.view(relation.tables.stored, stored(relation))
        yield engine


# Live proofs


def ids_of(facts: Sequence[Known], program: Program, engine: Engine) -> set[str]:
    """Return the identities that some base facts have at a process."""
    return BaseFacts(program, engine).identities(facts)


def proven_with(ids: Collection[str], program: Program, engine: Engine) -> list[dict[str, Any]]:
    """Return the tuples of a process whose current proof has one of these identities."""
    facts = BaseFacts(program, engine)
    process = next((name for name, own in facts.processes.values() if own), "")
    return [{**described(relation, values), "process": process} for relation, values in facts.depending(ids)]


def described(relation: Relation, values: Values) -> dict[str, Any]:
    """Return a tuple as results have it."""
    plain = list(plain_row(relation.columns, values))
    return {"tuple": tuple_text(relation, values), "relation": relation.name, "values": plain}


def copies(program: Program, carried: Mapping[str, str], relation: Relation, values: Values) -> list[Known]:
    """Return a fact and its copies in hidden relations, here and where they are sent to. Raise JobError if none of
    these relations has base facts."""
    relations = {relation.table: relation for relation in program.relations}
    engine = DuckEngine()
    try:
        facts = [(relation.table, values)]
        for table, row in facts:
            for rule, head in copying(program, carried, table):
                rows = [row] if rule is None else projected(engine, rule, relations[table], relations[head], row)
                facts += [copy for one in rows if (copy := (head, one)) not in facts]
    finally:
        engine.close()
    numbered = numbered_relations(program)
    if not any(table in numbered for table, _ in facts):
        bases = sorted(r.name for r in program.relations if not r.hidden and is_base(program, carried, r.table))
        raise JobError(
            f"{relation.name} has no base facts of a recursion across processes; "
            f"these have: {', '.join(bases) or 'none'}"
        )
    return facts


def copying(program: Program, carried: Mapping[str, str], table: str) -> Iterator[tuple[Rule | None, str]]:
    """Yield the hidden relations with copies of the tuples of a relation, with the rules that make them; no rule where
    they are sent."""
    relations = {relation.table: relation for relation in program.relations}
    for rule in (rule for stage in program.stages for stratum in stage.strata for rule in stratum.rules):
        read = [step for step in rule.steps if step.table]
        if relations[rule.head].hidden and len(read) == 1 and read[0].table == table and not read[0].negated:
            yield rule, rule.head
    if relations[table].kind != "input" and relations[table].name in carried:
        arrived = carried[relations[table].name]
        yield from ((None, r.table) for r in program.relations if r.kind == "input" and r.name == arrived)


def is_base(program: Program, carried: Mapping[str, str], table: str) -> bool:
    """Return whether tuples of a relation, or copies of them, are base facts."""
    numbered = numbered_relations(program)
    tables = [table]
    for table_read in tables:
        tables += [head for _, head in copying(program, carried, table_read) if head not in tables]
    return not numbered.keys().isdisjoint(tables)


def projected(engine: Engine, rule: Rule, relation: Relation, head: Relation, values: Values) -> list[Values]:
    """Return the heads that a rule derives from one tuple of the only relation that it reads."""
    row = ", ".join(
        f"{sql_constant(value, column.type, engine.name)} AS {column.sql}"
        for value, column in zip(values or (True,), relation.tuple_columns, strict=True)
    )
    engine.view(relation.tables.after, f"SELECT {row}")
    rows = engine.first(engine.text(rule.full), MOST_ROWS)
    return [tuple(hashable(head_row[column.sql]) for column in head.columns) for head_row in rows]


# Derivation sets


def fact_text(relation: Relation, values: Values) -> str:
    """Return a fact as derivation sets name it: ``link(1,"a")``."""
    texts = []
    for value, column in zip(values, relation.columns, strict=True):
        text = value_text(plain_value(value, column.type))
        if plain_type(column.type) == "string" and (column.type == "string" or value):
            text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        texts.append(text)
    return f"{relation.name}({','.join(texts)})"


def sets_with(text: str, program: Program, engine: Engine) -> list[dict[str, Any]]:
    """Return the tuples that have a derivation set with a fact, each with the number of these sets and of all its sets.
    A process names its own relations after itself, as in ``A::link(1)``."""
    dependents = []
    for kept in program.relations:
        relation = next((r for r in program.relations if r.name == kept.annotates and not r.hidden), None)
        if kept.kind != "entries" or relation is None:
            continue
        columns, derivation = names(kept.columns[:-2]), kept.columns[-2].sql
        fact = sql_constant(text, "string", engine.name)
        local = sql_constant(f"::{text}", "string", engine.name)
        hit = f"LEN(LIST_FILTER({derivation}, lambda f: f = {fact} OR ENDS_WITH(f, {local}))) > 0"
        counts = f"COUNT(*) FILTER ({hit}) AS _with, COUNT(*) AS _of"
        grouped = f" GROUP BY {columns}" if columns else ""
        rows = f"SELECT {f'{columns}, ' if columns else ''}{counts} FROM {kept.tables.stored}{grouped} HAVING _with > 0"
        ordered = f"{rows} ORDER BY {columns}" if columns else rows
        for row in engine.first(ordered, MOST_ROWS):
            values = tuple(hashable(row[column.sql]) for column in kept.columns[:-2])
            dependents.append({**described(relation, values), "sets": row["_with"], "of": row["_of"]})
    return dependents


# Entries


def print_entries(
    program: Program,
    state: str,
    name: str,
    form: str,
    limit: int | None = None,
    at: str | None = None,
    as_of: int | None = None,
) -> None:
    """Print the tuples of a relation of a recursion with their derivation sets or their live proofs, as of the last
    commit or commit ``as_of``."""
    printer = RowPrinter(form)

    def show(manifest: Manifest) -> None:
        relation, place = wanted_relation(program, manifest, name, at)
        kept = kept_with(program, relation)
        with opened(program, given_place(state), manifest) as engine:
            sql = f"{rows_sql(f'SELECT * FROM {kept.tables.stored}', kept, place, True)} ORDER BY ALL"
            rows = iter(engine.first(sql, MOST_ROWS if limit is None else limit))
            columns = [column for column in kept.state_columns if kept.columns or column not in kept.tuple_columns]
            printer.print([c.name for c in columns], readable_rows(program, engine, kept, columns, rows))

    from_chosen_commit(given_place(state), as_of, show, lambda: printer.begun)


def kept_with(program: Program, wanted: Relation) -> Relation:
    """Return the relation that keeps the tuples of another one with derivation sets or proofs; raise JobError if there
    is none."""
    kept = {r.annotates: r for r in program.relations if r.kind in ("entries", "proofs")}
    if wanted.name not in kept:
        others = ", ".join(sorted(r.name for r in program.relations if not r.hidden and r.name in kept))
        raise JobError(f"{wanted.name} has neither derivation sets nor live proofs; these have: {others or 'none'}")
    return kept[wanted.name]


def readable_rows(
    program: Program, engine: Engine, kept: Relation, columns: Sequence[Column], rows: Iterator[dict[str, Any]]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows with the base facts of their proofs instead of identities."""
    proof, facts = kept.columns[-1].sql, BaseFacts(program, engine)
    while some := [*islice(rows, ROWS_NAMED)]:
        if kept.kind == "proofs":
            texts = facts.readable([row[proof] for row in some])
            some = [{**row, proof: text} for row, text in zip(some, texts, strict=True)]
        yield from (tuple(row[column.sql] for column in columns) for row in some)


def report_dependents(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that list what depends on a fact."""
    if "identities" in result and not result["identities"]:
        yield f"{result['tuple']} is not there"
    elif not result["tuples"]:
        yield f"nothing depends on {result['tuple']}"
    for dependent in result["tuples"]:
        where = f"  at {dependent['process']}" if dependent.get("process") else ""
        sets = f"  in {dependent['sets']} of {dependent['of']} derivation sets" if "sets" in dependent else ""
        yield f"{dependent['tuple']}{where}{sets}"
    if result["more"]:
        yield f"... and {result['more']:,} more (--limit shows more)"
    for name in result["elsewhere"] if result.get("identities") else ():
        listed = " and ".join(result["identities"])
        yield f"{name} runs another program; ask its script: depends {listed}"


def run_depends(call: Invocation) -> Mapping[str, Any]:
    """List what depends on a fact."""
    return depends_on(call.program, carried=call.carried, **call.options)


COMMANDS["depends"] = Command(
    "depends",
    "list what depends on a fact",
    "List the tuples of recursions whose live proof, or one of whose derivation sets, contains a fact.",
    (
        add_printing,
        option("asked", metavar="TUPLE", help="the fact, for example 'link(1, \"x\")'"),
        option(
            "--state",
            dest="states",
            action="append",
            required=True,
            metavar="DIR",
            help="the folder of the state, or a folder with the homes of processes; can be repeated",
        ),
        option(
            "--limit",
            type=positive,
            default=MOST_PROOF_TUPLES,
            metavar="N",
            help="print at most N tuples (default: %(default)s)",
        ),
    ),
    run_depends,
    report_dependents,
    has_derivations,
)
FURTHER.update(depends=depends_on, entries=print_entries)
