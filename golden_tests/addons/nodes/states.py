"""States of processes in files, as these would have written them, from processes that were simulated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from flintlog.runtime.addons.processes.simulation import Network
from flintlog.runtime.job.apply import apply_batch
from flintlog.runtime.job.init import init_state
from flintlog.runtime.kernel.model import Program
from flintlog.runtime.store.executors import LocalExecutor
from flintlog.runtime.system.log import Log

from golden_tests.oracle.language import Row


def write_homes(network: Network, folder: Path) -> Path:
    """Write the states of all nodes that run, each into a home of its own; return the folder of the homes."""
    for number, node in sorted(network.running.items()):
        write_home(network.program, folder / "homes" / network.nodes.name(number), node.history)
    return folder / "homes"


def write_home(
    program: Program,
    home: Path,
    history: Iterable[Mapping[str, Sequence[tuple[str, Row]]]],
    functions: str | None = None,
) -> None:
    """Write a state into a home, from the changes that a process has applied: rows by table, in each step."""
    executor, log = LocalExecutor(), Log(quiet=True)
    names = {relation.table: relation for relation in program.relations if relation.kind == "input"}
    home.mkdir(parents=True)
    init_state(program, executor, str(home / "state"), {}, buckets=1, functions=functions, log=log)
    for step, batch in enumerate(history):
        files = {}
        for table, rows in batch.items():
            path = home.parent / f"{home.name}-{step}-{table}.json"
            columns = [column.name for column in names[table].columns]
            lines = (json.dumps({"op": op, **dict(zip(columns, row, strict=True))}) for op, row in rows)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            files[names[table].name] = str(path)
        if files:
            apply_batch(program, executor, str(home / "state"), files, functions=functions, log=log)
