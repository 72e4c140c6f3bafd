"""The tuples of a relation at all nodes of a program, and the changes that they keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ...database.commands import place_condition
from ...database.state import DatabaseState, open_file_state
from ...kernel.errors import JobError
from ...row_kernel.encodings import encoded_row
from ...row_kernel.model import RowProgram, RowRelation
from ...store.published_names import operation_column
from .nodes import Nodes
from .state import STATE_FILE
from .status import read_status


class Gathered(NamedTuple):
    """Rows to print, under the names of their columns."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


def homes_of(nodes: Nodes, root: Path, given: Mapping[str, str]) -> dict[str, Path]:
    """Return the homes of all nodes: those ``given``, or where their status says that they are."""
    homes = {}
    for number in range(nodes.partition.count):
        name = nodes.name(number)
        told = given.get(name) or read_status(root, name).get("home")
        homes[name] = Path(told) if isinstance(told, str) else root / "homes" / name
    return homes


def state_of(node: str, home: Path) -> str:
    """Return the file of the state of a node; raise JobError if there is none."""
    state = home / STATE_FILE
    if not state.is_file():
        raise JobError(f"{node} has no state in {home}: start it, or say where its home is with --home {node}=DIR")
    return str(state)


def name_beside(name: str, taken: Iterable[str]) -> str:
    """Return a name for a column beside others, whose names it does not have in any case."""
    lowered = {other.lower() for other in taken}
    while name in lowered:
        name = f"_{name}"
    return name


def gathered_rows(
    program: RowProgram, homes: Mapping[str, Path], name: str, at: str | None, with_nodes: bool, limit: int | None
) -> Gathered:
    """Return the tuples of a relation at all nodes in order, each once, or ``with_nodes`` once for each node that has
    it."""
    relation = program.relation(name)
    where, values = place_condition(relation, at)
    # Stored values are in the order of the language.
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for node, home in homes.items():
        with open_file_state(program, state_of(node, home)) as database, database.reading():
            for row in database.rows(relation, where, values):
                beside = (node,) if with_nodes else ()
                found[(*encoded_row(relation.term_columns, row[: len(relation.term_columns)]), *beside)] = (
                    *row,
                    *beside,
                )
    columns = [column.name for column in relation.term_columns]
    rows = [found[key] for key in islice(sorted(found, key=value_order), limit)]
    return Gathered([*columns, *[name_beside("node", columns)] * with_nodes], rows)


def value_order(values: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return what stored values are ordered by, of whatever types they are."""
    return [(type(value).__name__, value) for value in values]


def gathered_changes(
    program: RowProgram,
    homes: Mapping[str, Path],
    name: str,
    at: str | None,
    after: Mapping[str, str],
    limit: int | None,
) -> Gathered:
    """Return the changes of an output relation that nodes keep, by node, batch and tuple; of some nodes only those
    ``after`` a batch. Raise JobError if a node does not have that batch."""
    relation = program.relation(name)
    if not relation.output:
        raise JobError(f"{name} is not an output relation, so its changes are not kept")
    where = place_condition(relation, at)
    columns = [operation_column(relation.columns), *(column.name for column in relation.columns)]
    beside = [name_beside("node", columns), name_beside("batch", columns)]

    def rows() -> Iterator[tuple[Any, ...]]:
        for node, home in homes.items():
            with open_file_state(program, state_of(node, home)) as database, database.reading():
                yield from (
                    (node, *row) for row in changes_of_node(node, database, relation, where, after.get(node, ""))
                )

    return Gathered([*beside, *columns], [*islice(rows(), limit)])


def changes_of_node(
    node: str, database: DatabaseState, relation: RowRelation, where: tuple[str, list[Any]], after: str
) -> Iterator[tuple[Any, ...]]:
    """Yield the changes of a relation that a node keeps, all or those ``after`` a batch, in order: the ID of the batch,
    the operation and the row. Raise JobError if the node does not have the batch."""
    batches = {record.number: record.batch for record in database.commits()}
    first = next((number for number, batch in batches.items() if batch == after), 0)
    if after and not first:
        raise JobError(
            f"{node} has no batch {after}: it has started over since, or keeps it no longer; read its changes from the "
            "first batch"
        )
    condition, values = where
    stored = database.stored_changes(
        relation, first, database.commit.number, condition.replace(" WHERE ", " AND "), values
    )
    found = [(number, value_order(encoded_row(relation.columns, row)), op, row) for number, op, row in stored]
    for number, _, op, row in sorted(found, key=lambda change: change[:3]):
        yield (batches[number], op, *row[: len(relation.columns)])
