"""The command ``flintlog simulate``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flintlog.runtime.addons.processes.transit import Transit

from ..naming import reason
from .loading import lacks_packages, partition_of
from .main import main
from .options import (
    REFUSED,
    UNUSABLE,
    ProgramOptions,
    SessionOptions,
    dialect_option,
    functions_option,
    in_record,
    include_option,
    recursion_option,
    rounds_option,
)
from .printing import echo, warn
from .reporting import Report

if TYPE_CHECKING:
    from flintlog.local.simulated import SimulatedSession
    from flintlog.runtime.addons.processes.simulation import Network

    from ..nodes import NodeProgram


@dataclass(frozen=True)
class BurstOptions:
    """Where the changes come from, and how many nodes are killed during each burst of them."""

    facts: Path | None
    changes: Path | None
    kills: int


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
@in_record("bursts", BurstOptions)
@in_record("transit", Transit)
@in_record("evaluation", SessionOptions)
@in_record("options", ProgramOptions)
def simulate(
    program: Path,
    nodes: str,
    bursts: BurstOptions,
    transit: Transit,
    options: ProgramOptions,
    evaluation: SessionOptions,
) -> None:
    """Run all nodes of a located program in this process.

    The nodes exchange messages that are delayed, reordered and repeated. After each burst of
    changes, once all is quiet, the tables of the nodes are compared with those of a single
    evaluation; the exit code is 1 if they differ. At the end, messages, tuples and bytes are
    printed by relation and by node. Requires DuckDB: pip install duckdb pyarrow numpy.
    """
    report = Report((program,), options)
    if lacks_packages(report):
        report.finish()
        return
    from flintlog.runtime.addons.processes.simulation import Network
    from flintlog.runtime.kernel.errors import JobError
    from flintlog.runtime.local.session import refusal
    from flintlog.targets.processes.nodes import nodes_of
    from flintlog.targets.pyspark.load import load_program

    from ..nodes import compile_nodes

    partition = partition_of(nodes)
    with report.reporting(program):
        compiled = compile_nodes(program, **vars(options))
        report.diagnostics((program,), compiled.warnings, compiled.sources)
        described = nodes_of(compiled.node.plan.program, partition)
        network = Network(
            load_program(compiled.node.plan),
            described,
            transit,
            evaluation.max_rounds,
            evaluation.max_entries,
            evaluation.function_file,
        )
        try:
            session = _session(program, compiled, network, bursts.kills, options)
            _pass_on(session, bursts, report)
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


def _session(
    program: Path, compiled: NodeProgram, network: Network, kills: int, options: ProgramOptions
) -> SimulatedSession:
    """Return a session of the whole program beside the network of its nodes."""
    from flintlog.local.simulated import SimulatedSession
    from flintlog.targets.processes.nodes import nodes_topology
    from flintlog.targets.pyspark.load import load_program

    from ..pipeline import compile_program

    whole = compiled.whole
    if options.recursion != "ranks":
        # By ranks, even if derivation sets explode.
        whole = compile_program(program, **vars(replace(options, recursion="ranks")))
    routes = nodes_topology(network.nodes, compiled.node.plan.program, compiled.whole.localized).routes
    rules = {route.relation: ", ".join(route.rules) for route in routes}
    return SimulatedSession(load_program(whole.plan), network, kills, echo, rules)


def _pass_on(session: SimulatedSession, bursts: BurstOptions, report: Report) -> None:
    """Apply the facts, then the transactions of the command file."""
    from flintlog.local.dat.reader import Reader
    from flintlog.local.dat.replay import Replay
    from flintlog.runtime.local.facts import read_facts

    if bursts.facts is not None:
        session.apply(read_facts(session.program, bursts.facts, warn))
    if bursts.changes is not None:
        file = bursts.changes
        with file.open("rb") as lines:

            def refused(error: Exception) -> bool:
                report.refused([file], error)  # type: ignore[arg-type]
                return False

            Replay(session, Reader(str(file), lines), echo).run_all(refused)
