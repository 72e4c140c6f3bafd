"""States of processes in files, as these would have written them, from processes that were simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from flintlog.compiler.ir.syntax import RECURSIONS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.source import SourceFile
from flintlog.runtime.addons.processes.channels import Process
from flintlog.runtime.addons.processes.simulation import Network
from flintlog.runtime.addons.processes.state import ProcessState
from flintlog.runtime.row_kernel import methods
from flintlog.runtime.row_kernel.encodings import encoded_tuple
from flintlog.runtime.row_kernel.model import RowProgram
from flintlog.targets.database.lower import lower_rows

from golden_tests.oracle.language import Row

assert methods, "registered"


def rows_of(text: str, recursion: str = RECURSIONS[0]) -> RowProgram:
    """Return the program of the nodes of a located program, for rows."""
    return lower_rows(compile_nodes(SourceFile("test.dl", text), recursion=recursion).node.plan)


def write_homes(network: Network, program: RowProgram, folder: Path) -> Path:
    """Write the states of all nodes that run, each into a home of its own; return the folder of the homes."""
    for number, node in sorted(network.running.items()):
        home = folder / "homes" / network.nodes.name(number)
        write_home(program, network.nodes.process(number), home, node.history)
    return folder / "homes"


def write_home(
    program: RowProgram,
    process: Process,
    home: Path,
    history: Iterable[Mapping[str, Sequence[tuple[str, Row]]]],
    functions: str | None = None,
) -> None:
    """Write a state into a home, from the changes that a process has applied: rows by table, in each step."""
    state = ProcessState(program, process, home, functions)
    relations = {relation.table: relation for relation in program.relations}
    for number, batch in enumerate(history, 1):
        changes = {
            table: [(op, encoded_tuple(relations[table].columns, row)) for op, row in rows]
            for table, rows in batch.items()
        }
        with state.database.transaction():
            state.apply(changes, f"step-{number}")
    state.close()
