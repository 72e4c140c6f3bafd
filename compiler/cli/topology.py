"""The command ``flintlog topology``."""

from __future__ import annotations

from pathlib import Path

import click

from .main import main
from .options import include_option, outside_option, programs_argument
from .printing import echo
from .reporting import Report


@main.command()
@programs_argument
@outside_option
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
def topology(
    programs: tuple[Path, ...],
    outside: tuple[str, ...],
    page: Path | None,
    root: Path | None,
    include_path: tuple[Path, ...],
) -> None:
    """Print how the processes of programs are connected.

    The output lists the processes, their feeds from outside, and the channels between them.
    """
    from ..processes import compile_processes
    from ..review.report.joblog import run_logs
    from ..review.report.page import topology_page

    if root is not None and page is None:
        raise click.UsageError("--root adds to the page; name the file of the page with --html FILE")
    report = Report(programs)
    with report.reporting(*programs):
        found = compile_processes(programs, outside=outside, include_path=include_path)
        report.diagnostics(programs, found.warnings, found.sources)
        echo(str(found.topology), nl=False)
        if page is not None:
            title = ", ".join(path.name for path in programs)
            text = topology_page(found.topology, title, run_logs(root) if root is not None else {})
            if report.write(page, text) is not None:
                click.echo(f"wrote {page}", err=True)
    report.finish()
