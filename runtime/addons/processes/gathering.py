"""The tuples of a relation at all nodes of a program, and the changes that they have published."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...engines.duckdb import DuckEngine
from ...job.show import At, read_relation, shown_columns, wanted_relation
from ...kernel.errors import JobError
from ...kernel.model import Program, Relation
from ...kernel.values import sql_constant
from ...store.batches import batch_lists
from ...store.commits import from_last_commit
from ...store.manifest import PUBLISHED, Manifest
from ...store.publish import publication_folder, published_files
from ...store.published_names import batch_folder, operation_column
from .nodes import Nodes
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
    """Return the folder of the state of a node; raise JobError if there is none."""
    state = home / "state"
    if not (state / "manifest").is_dir():
        raise JobError(f"{node} has no state in {home}: start it, or say where its home is with --home {node}=DIR")
    return str(state)


def name_beside(name: str, taken: Iterable[str]) -> str:
    """Return a name for a column beside others, whose names it does not have in any case."""
    lowered = {other.lower() for other in taken}
    while name in lowered:
        name = f"_{name}"
    return name


def gathered_rows(
    program: Program, homes: Mapping[str, Path], name: str, at: str | None, with_nodes: bool, limit: int | None
) -> Gathered:
    """Return the tuples of a relation at all nodes in order, each once, or ``with_nodes`` once for each node that has
    it."""
    columns = [column.name for column in shown_columns(program.relation(name), False)]
    tables = [
        beside_places({"node": node}, read_relation(program, None, state_of(node, home), name, at))
        for node, home in homes.items()
    ]
    places = [f"c{place}" for place in range(len(columns))] + ["node"] * with_nodes
    if not places:
        # A relation without columns is shown by an empty row.
        return Gathered([], [()] * any(table.num_rows for table in tables))
    shown = [*columns, *[name_beside("node", columns)] * with_nodes]
    sql = f"SELECT DISTINCT {', '.join(places)} FROM rows ORDER BY {', '.join(places)}"
    return Gathered(shown, selected(pa.concat_tables(tables), sql, limit))


def gathered_changes(
    program: Program, homes: Mapping[str, Path], name: str, at: str | None, after: Mapping[str, str], limit: int | None
) -> Gathered:
    """Return the published changes of an output relation by node, batch and tuple; of some nodes only those ``after``
    a batch. Raise JobError if a node does not have that batch."""
    relation = program.relation(name)
    if not relation.output:
        raise JobError(f"{name} is not an output relation, so its changes are not published")
    columns = [operation_column(relation.columns), *(column.name for column in relation.columns)]
    beside = [name_beside("node", columns), name_beside("batch", columns)]
    tables, where = [], ""
    for number, (node, home) in enumerate(homes.items()):
        place, batches = changes_of_node(program, node, Path(state_of(node, home)), relation, at, after.get(node, ""))
        for step, batch, rows in batches:
            beside_each: dict[str, int | str] = {"number": number, "step": step, "node": node, "batch": batch}
            tables.append(beside_places(beside_each, rows.select(columns)))
        if place:
            where = (
                f" WHERE c{1 + relation.columns.index(place[0])} = {sql_constant(place[1], place[0].type, 'duckdb')}"
            )
    if not tables:
        return Gathered([*beside, *columns], [])
    places = [f"c{place}" for place in range(len(columns))]
    order = ", ".join(["number", "step", *places[1:], places[0]])
    sql = f"SELECT node, batch, {', '.join(places)} FROM rows{where} ORDER BY {order}"
    return Gathered([*beside, *columns], selected(pa.concat_tables(tables), sql, limit))


def changes_of_node(
    program: Program, node: str, state: Path, relation: Relation, at: str | None, after: str
) -> tuple[At, list[tuple[int, str, pa.Table]]]:
    """Return the location to select and what a node has published of a relation, all batches or those ``after`` one:
    the number and the ID of each batch, and rows."""

    def read(manifest: Manifest) -> tuple[At, list[tuple[int, str, pa.Table]]]:
        _, place = wanted_relation(program, manifest, relation.name, at)
        batches = batches_after(node, state, manifest, after)
        return place, [(s, b, rows) for s, b in enumerate(batches) for rows in published_rows(state, relation, b)]

    changes: tuple[At, list[tuple[int, str, pa.Table]]] = from_last_commit(state, read)
    return changes


def published_rows(state: Path, relation: Relation, batch: str) -> list[pa.Table]:
    """Return what was published of a relation in a batch, file by file, unless it was removed."""
    folder = publication_folder(state, PUBLISHED, relation, batch_folder(batch))
    columns = [operation_column(relation.columns), *(column.name for column in relation.columns)]
    try:
        return [pq.ParquetFile(path).read(columns=columns) for path in published_files(folder)]
    except FileNotFoundError:
        # A process removes what it has sent.
        if folder.exists():
            raise
        return []


def batches_after(node: str, state: Path, manifest: Manifest, batch: str) -> list[str]:
    """Return the batches of the state of a node in the order of their commits, those after ``batch`` if it is given.
    Raise JobError if the node does not have it."""
    applied = [name for listed in reversed([*batch_lists(state, manifest)]) for name in listed.batches]
    if batch and batch not in applied:
        raise JobError(f"{node} has no batch {batch}: it has started over since; read its changes from the first batch")
    return applied[applied.index(batch) + 1 :] if batch else applied


def beside_places(beside: Mapping[str, int | str], rows: Any) -> Any:
    """Return a table whose columns are called after their places, with columns of one value ``beside`` them."""
    columns = {
        name: pa.array([value] * rows.num_rows, pa.string() if isinstance(value, str) else pa.int64())
        for name, value in beside.items()
    }
    return pa.table(columns | {f"c{place}": column for place, column in enumerate(rows.columns)})


def selected(rows: Any, sql: str, limit: int | None) -> list[tuple[Any, ...]]:
    """Return the result of a query over the table ``rows``."""
    with contextlib.closing(DuckEngine()) as engine:
        engine.connection.register("rows", rows)
        rows_found = engine.connection.sql(sql + (f" LIMIT {limit}" if limit is not None else "")).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in rows_found.columns), strict=True))
