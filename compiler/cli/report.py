"""The command ``flintlog report``."""

from __future__ import annotations

from pathlib import Path

import click

from .main import main
from .options import (
    UNUSABLE,
    ProgramOptions,
    dialect_option,
    in_record,
    include_option,
    outside_option,
    programs_argument,
    recursion_option,
)
from .reporting import Report


@main.command("report")
@programs_argument
@click.option(
    "-o",
    "--output",
    "page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The file to write.  [default: PROG.html]",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="A log that a job wrote with its option --log; adds sizes and times to the page. Can be repeated.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder of a run of processes; adds what was sent through the channels to the page.",
)
@outside_option
@recursion_option
@include_option
@dialect_option
@in_record("options", ProgramOptions)
def report_command(
    programs: tuple[Path, ...],
    page: Path | None,
    logs: tuple[Path, ...],
    root: Path | None,
    outside: tuple[str, ...],
    options: ProgramOptions,
) -> None:
    """Write an HTML page about a program, for reviewers.

    The page is one file that works offline. It shows the program; the graph of its relations with what is sent between
    locations; for each rule its localized form, its delta rules with the certificate, its SQL for both engines, and
    links to its lines of the script; processes and channels, if there are any; and, with --log, sizes and times by
    stratum and round.
    """
    from flintlog.targets import EmitOptions

    from .. import CompileOptions
    from ..processes import Processes, compile_any, compile_processes
    from ..review.report.joblog import has_events, read_log, read_runs, run_logs
    from ..review.report.page import report_page

    report = Report(programs, options)
    with report.reporting(*programs):
        compiled = (
            compile_processes(programs, None, outside, **vars(options))
            if len(programs) > 1
            else compile_any(programs[0], None, outside, **vars(options))
        )
        report.diagnostics(programs, compiled.warnings, compiled.sources)
        if isinstance(compiled, Processes):
            if logs:
                raise click.UsageError(
                    "--log is for programs of one process; for several, give the folder of a run with --root DIR"
                )
        elif root is not None or outside:
            raise click.UsageError("--root and --outside are for programs of processes")
        texts = {log: read_log(log) for log in logs}
        empty = [str(log) for log, text in texts.items() if not has_events(text)]
        together = "\n".join(texts.values())
        if empty:
            report.fail(UNUSABLE, f"{empty[0]} has no events; use the --log option of the job to write a log")
            report.finish()
        if logs and not read_runs(together):
            report.fail(UNUSABLE, f"{' and '.join(map(str, logs))}: no command in this log was committed")
            report.finish()
        given = run_logs(root) if root is not None else {compiled.sources[0].name: together}
        text = report_page(compiled, EmitOptions(CompileOptions().compiler), given)
        page = page or Path(f"{programs[0].stem}.html")
        if report.write(page, text) is not None:
            click.echo(f"wrote {page}", err=True)
    report.finish()
