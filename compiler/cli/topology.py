"""The command ``flintlog topology``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .loading import lacks_packages, partition_of
from .main import main
from .options import ProgramOptions, dialect_option, in_record, include_option, outside_option, programs_argument
from .printing import echo
from .reporting import Report

if TYPE_CHECKING:
    from ..ir.topology import NodesTopology, Topology


@main.command()
@programs_argument
@outside_option
@click.option(
    "--nodes",
    metavar="N|FILE",
    help="The nodes of a located program: their number, or a CSV file with the columns address and node.",
)
@click.option(
    "--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Also write an HTML page with a diagram."
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder of a run; adds what was sent through the channels to the page.",
)
@include_option
@dialect_option
@in_record("options", ProgramOptions)
def topology(
    programs: tuple[Path, ...],
    outside: tuple[str, ...],
    nodes: str | None,
    page: Path | None,
    root: Path | None,
    options: ProgramOptions,
) -> None:
    """Print how the processes of programs are connected.

    The output lists the processes, their feeds from outside, and the channels between them. With --nodes, it lists what
    the nodes of a located program are fed, what they send each other, and for which rules.
    """
    if root is not None and page is None:
        raise click.UsageError("--root adds to the page; name the file of the page with --html FILE")
    if nodes is not None and (len(programs) > 1 or outside):
        raise click.UsageError("--nodes divides one program; give no others, and no --outside")
    from ..review.report.page import nodes_page, topology_page
    from ..review.report.topology import run_flows

    report = Report(programs, options)
    if nodes is not None and lacks_packages(report):
        report.finish()
        return
    with report.reporting(*programs):
        flowed = run_flows(root) if root is not None else {}
        title = ", ".join(path.name for path in programs)
        if nodes is not None:
            divided = _nodes(programs[0], nodes, report)
            shown, text = str(divided), nodes_page(divided, title, flowed) if page else ""
        else:
            connected = _processes(programs, outside, report)
            shown, text = str(connected), topology_page(connected, title, flowed) if page else ""
        echo(shown, nl=False)
        if page is not None and report.write(page, text) is not None:
            click.echo(f"wrote {page}", err=True)
    report.finish()


def _processes(programs: tuple[Path, ...], outside: tuple[str, ...], report: Report) -> Topology:
    """Return the processes of programs and how they are connected."""
    from ..processes import compile_processes

    compiled = compile_processes(programs, outside=outside, **vars(report.options))
    report.diagnostics(programs, compiled.warnings, compiled.sources)
    return compiled.topology


def _nodes(program: Path, nodes: str, report: Report) -> NodesTopology:
    """Return the nodes of a located program."""
    from flintlog.targets.processes.nodes import nodes_of, nodes_topology

    from ..nodes import compile_nodes

    partition = partition_of(nodes)
    compiled = compile_nodes(program, **vars(report.options))
    report.diagnostics((program,), compiled.warnings, compiled.sources)
    described = nodes_of(compiled.node.plan.program, partition)
    return nodes_topology(described, compiled.node.plan.program, compiled.whole.localized)
