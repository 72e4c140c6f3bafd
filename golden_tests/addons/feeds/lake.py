"""A catalog of Iceberg tables, and what tests do with these."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyiceberg.catalog
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.table import Table
from pyiceberg.utils.config import Config

from golden_tests.addons.feeds.world import links


def settings(folder: Path) -> dict[str, str]:
    """Return the variables that configure the catalog ``lake``, which is in a folder, as the default one."""
    return {
        "PYICEBERG_DEFAULT_CATALOG": "lake",
        "PYICEBERG_CATALOG__LAKE__URI": f"sqlite:///{folder}/catalog.db",
        "PYICEBERG_CATALOG__LAKE__WAREHOUSE": f"file://{folder}/warehouse",
    }


@contextmanager
def lake_in(folder: Path) -> Iterator[Catalog]:
    """Configure this process for a new catalog ``lake`` with a namespace ``db``."""
    with ExitStack() as patched:
        patched.enter_context(mock.patch.dict(os.environ, settings(folder)))
        # The library reads its configuration once, when it is imported.
        patched.enter_context(mock.patch.object(pyiceberg.catalog, "_ENV_CONFIG", Config()))
        catalog = load_catalog("lake")
        catalog.create_namespace("db")
        yield catalog


def iceberg_links(catalog: Catalog, *pairs: tuple[int, int], **options: Any) -> Table:
    """Make the table ``db.link`` with some rows."""
    return filled(catalog, "db.link", links(*pairs), **options)


def filled(catalog: Catalog, name: str, rows: pa.Table, **options: Any) -> Table:
    """Make a table with rows as its first snapshot."""
    table = catalog.create_table(name, rows.schema, **options)
    table.append(rows)
    return table


def snapshot_of(table: Table) -> int:
    """Return the number of the present snapshot."""
    found = table.refresh().current_snapshot()
    assert found
    return int(found.snapshot_id)


def without_snapshots(table: Table, *numbers: int) -> str:
    """Return the source of a table whose snapshots have expired: a file with metadata. Unlike pyiceberg, the library
    for Java lets the next snapshots tell their parents."""
    place = Path(table.refresh().metadata_location.removeprefix("file://"))
    known = json.loads(place.read_text())
    for name in ("snapshots", "snapshot-log"):
        known[name] = [item for item in known[name] if item["snapshot-id"] not in numbers]
    expired = place.with_name(f"expired-{place.name}")
    expired.write_text(json.dumps(known))
    return f"iceberg:{expired}"
