"""The commands on the state of a process, besides ``serve``: those of a state in one SQLite file that read, and those
for live proofs and derivation sets."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from ...database.command_list import FILE_COMMANDS, add_state_file, report_file_verify
from ...database.commands import place_condition, show_file
from ...database.explain import known_values, stored_tuple_text
from ...database.state import MEMORY, DatabaseState, open_file_state
from ...explain.dependents import fact_text, kept_beside, report_dependents
from ...explain.proofs import MOST_PROOF_TUPLES, report_explanation
from ...inputs.tuples import split_tuple, tuple_values
from ...job.command_line import Command, CommandCall
from ...job.shared_options import (
    add_asked,
    add_entries_option,
    add_functions,
    add_printing,
    has_derivations,
    option,
    positive,
)
from ...kernel.errors import JobError
from ...kernel.model import LIFE, FunctionSource
from ...kernel.values import Known, Values, hashable, plain_row
from ...row_kernel.deltas import row_derivations
from ...row_kernel.encodings import decoded_row
from ...row_kernel.model import RowProgram, RowRelation, RowRule
from ...row_kernel.tables import listed
from ...store.extensions import supply
from ...system.places import given_place
from ...system.printing import RowPrinter
from .row_facts import ProcessExplainer, RowFacts, numbered_rows
from .state import STATE_FILE

IDENTITY = re.compile(rf"[0-9a-f]{{{LIFE}}}[0-9]{{3}}(\(.*\))?[0-9]{{12}}", re.DOTALL)
"""The identity of a base fact, or of the absence of one."""

ROWS_NAMED = 1000
"""At most this many proofs are made readable at once."""


def parse_row(program: RowProgram, text: str, open: bool = False) -> tuple[RowRelation, Values]:
    """Return the relation and the values of a tuple in program syntax, as explanations have them; raise JobError for
    another text. If it may be ``open``, the value of a ``_`` is None."""
    name, words = split_tuple(text)
    relation = program.relation(name)
    return relation, tuple(map(hashable, tuple_values(relation.columns, words, text, open)))


def explain_process(
    program: RowProgram, state: str, asked: str, limit: int = MOST_PROOF_TUPLES, functions: FunctionSource = None
) -> dict[str, Any]:
    """Explain why a tuple is in the state of a process, or why not."""
    with open_file_state(program, state, supply(program, functions)) as database, database.reading():
        return ProcessExplainer(database).explain(*parse_row(program, asked, open=True), limit)


# What depends on a fact


def depends_on_fact(
    program: RowProgram,
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
    places, apart = states_at(program, [states] if isinstance(states, str) else states)
    identity = asked.strip() if IDENTITY.fullmatch(asked.strip()) else ""
    fact = None if identity else parse_row(program, asked)
    result: dict[str, Any] = {"program": program.name, "tuple": identity if fact is None else stored_tuple_text(*fact)}
    use: Callable[[DatabaseState], list[dict[str, Any]]]
    if any(relation.kind == "proofs" for relation in program.relations):
        ids = {identity}
        if fact is not None:
            facts = copies_of(program, carried or {}, *fact)
            ids = set[str]().union(*(of_state(program, at, lambda s: RowFacts(s).identities(facts)) for at in places))
        use = functools.partial(proven_by, ids)
        result |= {"identities": sorted(ids), "elsewhere": apart}
    elif fact is not None:
        use = functools.partial(sets_of, fact_text(*fact))
    else:
        raise JobError(f"{program.name} has no live proofs, so its facts have no identities")
    dependents = [row for place in places for row in of_state(program, place, use)]
    return {**result, "tuples": dependents[:limit], "more": max(0, len(dependents) - limit)}


def of_state(program: RowProgram, place: Path, use: Callable[[DatabaseState], Any]) -> Any:
    """Return the result of ``use`` on the last commit of a state."""
    with open_file_state(program, str(place)) as database, database.reading():
        return use(database)


def states_at(program: RowProgram, given: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the states to look at: those given, and in folders of homes those of this program; and the names of homes
    with states of other programs."""
    places, apart = [], []
    for place in map(given_place, given):
        if not place.is_dir():
            places.append(place)
            continue
        homes = [home for home in (place, *sorted(place.iterdir())) if (home / STATE_FILE).is_file()]
        if not homes:
            raise JobError(f"{place} is neither a state nor a folder with homes of processes")
        for home in homes:
            try:
                open_file_state(program, str(home / STATE_FILE)).close()
                places.append(home / STATE_FILE)
            except JobError:
                apart.append(home.name)
    return places, apart


def proven_by(ids: set[str], database: DatabaseState) -> list[dict[str, Any]]:
    """Return the tuples of a process whose current proof has one of these identities."""
    facts = RowFacts(database)
    process = next((name for name, own in facts.processes.values() if own), "")
    return [{**described_row(relation, values), "process": process} for relation, values in facts.depending(ids)]


def described_row(relation: RowRelation, values: Values) -> dict[str, Any]:
    """Return a tuple as results have it."""
    plain = list(plain_row(relation.columns, values))
    return {"tuple": stored_tuple_text(relation, values), "relation": relation.name, "values": plain}


def copies_of(program: RowProgram, carried: Mapping[str, str], relation: RowRelation, values: Values) -> list[Known]:
    """Return a fact and its copies in hidden relations, here and where they are sent to. Raise JobError if none of
    these relations has base facts."""
    relations = {each.table: each for each in program.relations}
    facts: list[Known] = [(relation.table, values)]
    with DatabaseState(program, MEMORY) as database:
        for table, row in facts:
            for rule, head in copied_to(program, carried, table):
                rows = [row] if rule is None else heads_of(database, rule, relations[table], relations[head], row)
                facts += [copy for one in rows if (copy := (head, one)) not in facts]
    numbered = numbered_rows(program)
    if not any(table in numbered for table, _ in facts):
        bases = sorted(r.name for r in program.relations if not r.hidden and has_base(program, carried, r.table))
        raise JobError(
            f"{relation.name} has no base facts of a recursion across processes; "
            f"these have: {', '.join(bases) or 'none'}"
        )
    return facts


def copied_to(program: RowProgram, carried: Mapping[str, str], table: str) -> Iterator[tuple[RowRule | None, str]]:
    """Yield the hidden relations with copies of the tuples of a relation, with the rules that make them; no rule where
    they are sent."""
    relations = {relation.table: relation for relation in program.relations}
    for rule in (rule for stratum in program.strata for rule in stratum.rules):
        reads = [source.table for source in rule.sources] + [absence.table for absence in rule.absences]
        if relations[rule.head].hidden and reads == [table] and not rule.absences:
            yield rule, rule.head
    if relations[table].kind != "input" and relations[table].name in carried:
        yield None, program.inputs[carried[relations[table].name]].table


def has_base(program: RowProgram, carried: Mapping[str, str], table: str) -> bool:
    """Return whether tuples of a relation, or copies of them, are base facts."""
    tables = [table]
    for one in tables:
        tables += [head for _, head in copied_to(program, carried, one) if head not in tables]
    return not numbered_rows(program).keys().isdisjoint(tables)


def heads_of(
    database: DatabaseState, rule: RowRule, relation: RowRelation, head: RowRelation, values: Values
) -> list[Values]:
    """Return the heads that a rule derives from one tuple of the only relation that it reads."""
    table = database.tables.tables[relation.table]
    asked = database.tables.work_table(table, "asked", table.columns)
    given = [ProcessExplainer.encoded(v, c.type) for v, c in zip(values, relation.columns, strict=True)] or [1]
    marks = ", ".join("?" * len(given))
    database.connection.execute(f"INSERT INTO {asked} ({listed(table.columns)}) VALUES ({marks})", given)
    found = row_derivations(database.tables, rule, (0, asked))
    rows = database.connection.execute(found.select(found.values))
    return [known_values(head.columns, decoded_row(head.columns, row[: len(head.columns)])) for row in rows]


# Derivation sets


def sets_of(text: str, database: DatabaseState) -> list[dict[str, Any]]:
    """Return the tuples that have a derivation set with a fact, each with the number of these sets and of all its sets.
    A process names its own relations after itself, as in ``A::link(1)``."""
    dependents: list[dict[str, Any]] = []
    for kept in database.program.relations:
        shown = (r for r in database.program.relations if r.name == kept.annotates and not r.hidden)
        relation = next(shown, None)
        if kept.kind != "entries" or relation is None:
            continue
        counts: dict[Values, list[int]] = {}
        for *row, facts, _ in database.rows(kept):
            count = counts.setdefault(known_values(relation.columns, row[: len(relation.columns)]), [0, 0])
            count[0] += any(fact == text or fact.endswith(f"::{text}") for fact in facts)
            count[1] += 1
        for values, (having, of) in counts.items():
            if having:
                dependents.append({**described_row(relation, values), "sets": having, "of": of})
    return dependents


# Entries


def show_process(program: RowProgram, support: bool, entries: bool = False, **given: Any) -> None:
    """Print the tuples of a relation, or with ``entries`` also their derivation sets or live proofs."""
    if not entries:
        show_file(program, support=support, **given)
        return
    if support:
        raise JobError("--entries cannot be combined with --support")
    with open_file_state(program, given["state"]) as database, database.reading():
        relation = program.relation(given["relation"])
        where, values = place_condition(relation, given["at"])
        kept = kept_beside(program, relation.name, {"entries": "derivation sets", "proofs": "live proofs"})
        hidden = ["_support"] if kept.kind == "entries" else []
        rows = islice(database.rows(kept, where, values, hidden), given["limit"])
        names = [column.name for column in kept.columns]
        RowPrinter(given["form"]).print([*names, *hidden], with_facts(database, kept, rows))


def with_facts(
    database: DatabaseState, kept: RowRelation, rows: Iterator[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows with the base facts of their proofs instead of identities."""
    facts = RowFacts(database)
    while some := [*islice(rows, ROWS_NAMED)]:
        if kept.kind == "proofs":
            texts = facts.readable([row[-1] for row in some])
            some = [(*row[:-1], text) for row, text in zip(some, texts, strict=True)]
        yield from some


# The list


def show_given(call: CommandCall) -> None:
    """Print a relation, as the command asks for."""
    show_process(call.program, form=call.form(), **call.options)


def process_commands(carried: Mapping[str, str]) -> tuple[Command, ...]:
    """Return the commands; ``carried`` maps what nodes send each other to its name on arrival."""
    by_name = {command.name: command for command in FILE_COMMANDS}
    show, verify = by_name["show"], by_name["verify"]
    advice = "let the process start over in a new home (serve --home)"
    return (
        by_name["status"],
        replace(show, options=(*show.options, add_entries_option), run=show_given),
        replace(verify, report=functools.partial(report_file_verify, advice=advice)),
        by_name["changes"],
        by_name["history"],
        by_name["backup"],
        Command(
            "explain",
            "explain why a tuple is there, or why not",
            "Print a proof of a tuple from input rows. For a tuple that is not there, print how far each rule gets.",
            (add_state_file, add_functions, add_asked),
            lambda call: explain_process(call.program, **call.options),
            report_explanation,
        ),
        Command(
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
                    metavar="FILE|DIR",
                    help="the SQLite file of the state, or a folder with the homes of processes; can be repeated",
                ),
                option(
                    "--limit",
                    type=positive,
                    default=MOST_PROOF_TUPLES,
                    metavar="N",
                    help="print at most N tuples (default: %(default)s)",
                ),
            ),
            lambda call: depends_on_fact(call.program, carried=carried, **call.options),
            report_dependents,
            has_derivations,
        ),
    )
