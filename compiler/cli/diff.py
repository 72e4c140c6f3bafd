"""The command ``flintlog diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .main import main
from .options import (
    REFUSED,
    UNUSABLE,
    ProgramOptions,
    dialect_option,
    in_record,
    include_option,
    outside_option,
    recursion_option,
)
from .printing import echo
from .reporting import Report

if TYPE_CHECKING:
    from ..pipeline import Compilation
    from ..review.comparison import ProcessesComparison, ProgramComparison


@main.command(context_settings={"max_content_width": 100})
@click.argument("programs", nargs=-1, required=True, metavar="[OLD] PROG", type=click.Path(path_type=Path))
@click.option("--rev", metavar="REV", help="The git revision to compare with, if there is no OLD.  [default: HEAD]")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "markdown", "json")),
    default="text",
    show_default=True,
    help="The output format: text, Markdown for pull requests, or JSON (see docs/review.md).",
)
@click.option("--exit-code", "strict", is_flag=True, help="Exit with 1 if there is anything to report.")
@outside_option
@recursion_option
@include_option
@dialect_option
@in_record("options", ProgramOptions)
def diff(
    programs: tuple[Path, ...],
    rev: str | None,
    form: str,
    strict: bool,
    outside: tuple[str, ...],
    options: ProgramOptions,
) -> None:
    """Report the effects of a change to a program.

    \b
      flintlog diff OLD PROG          compares two files
      flintlog diff PROG              compares a file with what git has at HEAD
      flintlog diff --rev main PROG   compares it with what git has at a revision

    Included files are read from the same revision.

    The report lists the rules and relations that differ, ignoring the names of variables and the
    order of literals; changes in how relations are maintained; what the command upgrade of the new
    script recomputes, keeps and requires; and the effects on readers of published relations.
    """
    if len(programs) > 2 or (len(programs) == 2 and rev is not None):
        raise click.UsageError("give two programs, or one and the revision to compare it with")
    from ..review.comparison_text import REPORTS

    rev = None if len(programs) == 2 else (rev or "HEAD")
    old, new = Path(f"{rev}:{programs[0].as_posix()}") if rev else programs[0], programs[-1]
    report = Report((old, new), options)
    comparison = _compared(old, new, rev, outside, report)
    if comparison is None:
        report.finish()
        return
    text = REPORTS[form](comparison, old.as_posix(), new.as_posix())
    (echo if form == "text" else click.echo)(text, nl=False)
    if strict and not comparison.same:
        report.code = max(report.code, REFUSED)
    click.get_current_context().exit(report.code)


def _compared(
    old: Path, new: Path, rev: str | None, outside: tuple[str, ...], report: Report
) -> ProgramComparison | ProcessesComparison | None:
    """Return the differences between two programs, or None after reporting that one is refused or cannot be read. With
    ``rev``, the old program is ``new`` at that revision."""
    from ..processes import Processes, compile_any
    from ..review.compare import compare, compare_processes
    from ..review.revisions import NoRevision, program_at

    options = report.options
    compiled: list[Compilation | Processes] = []
    for path in (old, new):
        try:
            with report.reporting(path):
                source, load = (
                    program_at(new, rev, options.include_path) if rev is not None and path == old else (path, None)
                )
                compiled.append(compile_any(source, load, outside, **vars(options)))
        except NoRevision as error:
            report.fail(UNUSABLE, str(error))
    match compiled:
        case [Processes() as one, Processes() as other]:
            return compare_processes(one, other)
        case [one, other] if not isinstance(one, Processes) and not isinstance(other, Processes):
            return compare(one, other)
        case [_, _]:
            which = [path for path, program in zip((old, new), compiled, strict=True) if isinstance(program, Processes)]
            report.fail(REFUSED, f"only {which[0]} has processes; compare it with another program of processes")
    return None
