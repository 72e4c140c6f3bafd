"""States of nodes in files, as their processes would have written them, from nodes that were simulated."""

from __future__ import annotations

import json
from pathlib import Path

from flintlog.runtime.commands.apply import apply_batch
from flintlog.runtime.commands.init import init_state
from flintlog.runtime.executors import LocalExecutor
from flintlog.runtime.local.simulation import Network
from flintlog.runtime.log import Log


def write_homes(network: Network, folder: Path) -> Path:
    """Write the states of all nodes that run, each into a home of its own; return the folder of the homes."""
    executor, log, program = LocalExecutor(), Log(quiet=True), network.program
    names = {relation.table: relation for relation in program.relations if relation.kind == "input"}
    for number, node in sorted(network.running.items()):
        home = folder / "homes" / network.nodes.name(number)
        home.mkdir(parents=True)
        init_state(program, executor, str(home / "state"), {}, buckets=1, log=log)
        for step, batch in enumerate(node.history):
            files = {}
            for table, rows in batch.items():
                path = folder / f"{home.name}-{step}-{table}.json"
                columns = [column.name for column in names[table].columns]
                lines = (json.dumps({"op": op, **dict(zip(columns, row, strict=True))}) for op, row in rows)
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
                files[names[table].name] = str(path)
            if files:
                apply_batch(program, executor, str(home / "state"), files, log=log)
    return folder / "homes"
