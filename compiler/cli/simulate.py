"""The command ``flintlog simulate``."""

from __future__ import annotations

from pathlib import Path

import click

from ..naming import reason
from .loading import lacks_packages, partition_of
from .main import main
from .options import (
    REFUSED,
    UNUSABLE,
    dialect_option,
    functions_option,
    include_option,
    recursion_option,
    rounds_option,
)
from .printing import echo, warn
from .reporting import Report


@main.command()
@click.argument("program", metavar="PROG", type=click.Path(path_type=Path))
@click.option(
    "--nodes",
    required=True,
    metavar="N|FILE",
    help="The number of nodes, which share the addresses by hash, or a CSV file with the columns address and node.",
)
@click.option(
    "--facts",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="A folder with a file for each input relation, as for run: the first burst.",
)
@click.option(
    "--changes",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A command file as for replay; each of its transactions is a burst.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draw other delays and accidents.")
@click.option(
    "--delay",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="N",
    help="A message takes up to N ticks, so messages overtake each other.",
)
@click.option(
    "--repeated",
    type=click.FloatRange(0, 1),
    default=0.1,
    show_default=True,
    metavar="P",
    help="The share of messages that arrive twice.",
)
@click.option(
    "--kills",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="In each burst, kill N nodes, which return with what they had or with nothing.",
)
@recursion_option
@click.option(
    "--max-entries",
    type=click.IntRange(min=1),
    default=10_000_000,
    show_default=True,
    metavar="N",
    help="Stop if a recursion has more than N tuples, or derivation sets, at a node.",
)
@functions_option
@rounds_option
@include_option
@dialect_option
def simulate(
    program: Path,
    nodes: str,
    facts: Path | None,
    changes: Path | None,
    seed: int,
    delay: int,
    repeated: float,
    kills: int,
    recursion: str,
    max_entries: int,
    functions: Path | None,
    max_rounds: int,
    include_path: tuple[Path, ...],
    dialect: str,
) -> None:
    """Run all nodes of a located program in this process.

    The nodes exchange messages that are delayed, reordered and repeated. After each burst of
    changes, once all is quiet, the tables of the nodes are compared with those of a single
    evaluation; the exit code is 1 if they differ. At the end, messages, tuples and bytes are
    printed by relation and by node. Requires DuckDB: pip install "flintlog[run]".
    """
    report = Report((program,), recursion=recursion, include_path=include_path, dialect=dialect)
    if lacks_packages(report):
        report.finish()
        return
    from flintlog.runtime.errors import JobError
    from flintlog.runtime.local.facts import read_facts
    from flintlog.runtime.local.session import refusal
    from flintlog.runtime.local.simulation import Network
    from flintlog.targets.processes.nodes import nodes_of, nodes_topology
    from flintlog.targets.pyspark.load import load_program

    from ..local.dat.reader import Reader
    from ..local.dat.replay import Replay
    from ..local.simulated import SimulatedSession
    from ..nodes import compile_nodes
    from ..pipeline import compile_program

    partition = partition_of(nodes)
    with report.reporting(program):
        found = compile_nodes(program, recursion=recursion, include_path=include_path, dialect=dialect)
        report.diagnostics((program,), found.warnings, found.sources)
        described = nodes_of(found.node.plan.program, partition)
        network = Network(
            load_program(found.node.plan),
            described,
            seed,
            delay,
            repeated,
            max_rounds,
            max_entries,
            str(functions) if functions else None,
        )
        try:
            # By ranks, even if derivation sets explode.
            ranked = (
                found.whole
                if recursion == "ranks"
                else compile_program(program, include_path=include_path, dialect=dialect)
            )
            whole = load_program(ranked.plan)
            routes = nodes_topology(described, found.node.plan.program, found.whole.localized).routes
            session = SimulatedSession(whole, network, kills, echo, {r.relation: ", ".join(r.rules) for r in routes})
            if facts is not None:
                session.apply(read_facts(whole, facts, warn))
            if changes is not None:
                with changes.open("rb") as lines:

                    def refused(error: Exception) -> bool:
                        report.refused([changes], error)  # type: ignore[arg-type]
                        return False

                    Replay(session, Reader(str(changes), lines), echo).run_all(refused)
            echo("")
            for line in session.report():
                echo(line)
            if session.wrong:
                report.fail(REFUSED, f"after {session.wrong} of {session.bursts} bursts, tables were not equal")
        except JobError as error:
            report.fail(REFUSED, refusal(error))
        except OSError as error:
            if error.filename is None:
                raise
            report.fail(UNUSABLE, f"cannot read {error.filename}: {reason(error)}")
        finally:
            network.close()
    report.finish()
