"""Commands for programs with derivation sets: the command ``depends`` and ``show --entries``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..engines.duckdb import DuckEngine
from ..engines.options import Options
from ..explain.dependents import fact_text, kept_beside, report_dependents
from ..explain.proofs import MOST_PROOF_TUPLES
from ..inputs.tuples import parse_tuple
from ..job.command_line import COMMANDS, Command, Invocation
from ..job.shared_options import add_printing, has_derivations, option, positive
from ..job.show import rows_sql, wanted_relation
from ..kernel.engine import Engine
from ..kernel.model import Program, Relation
from ..kernel.sql import names
from ..kernel.values import Values, hashable, plain_row, sql_constant, tuple_text
from ..store.commits import from_chosen_commit, from_last_commit
from ..store.extensions import FURTHER
from ..store.manifest import Manifest
from ..store.run_tasks import duck_engine
from ..store.task_records import Task
from ..store.versions import check_program
from ..system.machine import available_cores
from ..system.places import given_place
from ..system.printing import RowPrinter
from .explain import stored_in

T = TypeVar("T")

MOST_LISTED = 10**9


def depends_on(
    program: Program, states: str | Sequence[str], asked: str, limit: int = MOST_PROOF_TUPLES
) -> dict[str, Any]:
    """Return the tuples with a derivation set that contains a fact, at most ``limit``, in states of the program. The
    fact is in program syntax: ``link(1, "x")``."""
    fact = parse_tuple(program, asked)
    use = partial(sets_with, fact_text(*fact))
    places = map(given_place, [states] if isinstance(states, str) else states)
    dependents = [row for place in places for row in with_state(program, place, use)]
    more = max(0, len(dependents) - limit)
    return {"program": program.name, "tuple": tuple_text(*fact), "tuples": dependents[:limit], "more": more}


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


def described(relation: Relation, values: Values) -> dict[str, Any]:
    """Return a tuple as results have it."""
    plain = list(plain_row(relation.columns, values))
    return {"tuple": tuple_text(relation, values), "relation": relation.name, "values": plain}


# Derivation sets


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
        for row in engine.first(ordered, MOST_LISTED):
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
    """Print the tuples of a relation of a recursion with their derivation sets, as of the last commit or commit
    ``as_of``."""
    printer = RowPrinter(form)

    def show(manifest: Manifest) -> None:
        relation, place = wanted_relation(program, manifest, name, at)
        kept = kept_beside(program, relation.name, {"entries": "derivation sets"})
        with opened(program, given_place(state), manifest) as engine:
            sql = f"{rows_sql(f'SELECT * FROM {kept.tables.stored}', kept, place, True)} ORDER BY ALL"
            rows = iter(engine.first(sql, MOST_LISTED if limit is None else limit))
            columns = [column for column in kept.state_columns if kept.columns or column not in kept.tuple_columns]
            printer.print([c.name for c in columns], (tuple(row[c.sql] for c in columns) for row in rows))

    from_chosen_commit(given_place(state), as_of, show, lambda: printer.begun)


def run_depends(call: Invocation) -> Mapping[str, Any]:
    """List what depends on a fact."""
    return depends_on(call.program, **call.options)


COMMANDS["depends"] = Command(
    "depends",
    "list what depends on a fact",
    "List the tuples of recursions of which a derivation set contains a fact.",
    (
        add_printing,
        option("asked", metavar="TUPLE", help="the fact, for example 'link(1, \"x\")'"),
        option(
            "--state",
            dest="states",
            action="append",
            required=True,
            metavar="DIR",
            help="the folder of the state; can be repeated",
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
