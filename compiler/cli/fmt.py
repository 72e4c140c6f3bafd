"""The command ``flintlog fmt``."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import click

from ..dialects import FLINTLOG
from .files import programs_below
from .main import main
from .options import REFUSED, UNUSABLE, ProgramOptions, dialect_option, in_record, include_option
from .reporting import Report


@main.command("fmt")
@click.argument("programs", nargs=-1, metavar="[PROG or DIR]...", type=click.Path(path_type=Path))
@click.option("--check", "checking", is_flag=True, help="Write nothing; exit with 1 if a program would change.")
@click.option("--diff", "comparing", is_flag=True, help="Write nothing; print what would change.")
@click.option("--stdin", "piped", is_flag=True, help="Format standard input and write it to standard output.")
@click.option(
    "--to",
    "wanted",
    type=click.Choice(("flintlog",)),
    help="Write nothing; print one program, in any dialect, in Flintlog's own language.",
)
@dialect_option
@include_option
@in_record("options", ProgramOptions)
def format_command(
    programs: tuple[Path, ...],
    checking: bool,
    comparing: bool,
    piped: bool,
    wanted: str | None,
    options: ProgramOptions,
) -> None:
    """Format programs; keep comments.

    For a folder, format all .dl files below it, except hidden ones. A program with syntax errors is not changed, and
    the exit code is 1. The result is parsed before it is written, to make sure that it is the same program. The style
    is described in docs/editors.md.

    With --to flintlog, print a program in Flintlog's own language, with the statements of all files that it includes.
    """
    if wanted is not None:
        if checking or comparing or piped or len(programs) != 1:
            raise click.UsageError("--to takes one program, and no --check, --diff or --stdin")
        _convert(programs[0], options)
        return
    if options.dialect not in ("", FLINTLOG.name):
        raise click.UsageError("only programs in Flintlog's own language are formatted; to print it in that, give --to")
    if piped == bool(programs):
        raise click.UsageError("give programs or --stdin" + ", not both" * piped)
    from ..editor.formatter import MeaningChanged, format_file

    programs = (Path("standard input"),) if piped else tuple(programs_below(programs))
    report = Report(programs)
    for program in programs:
        if not piped and program.suffix != ".dl":
            report.fail(UNUSABLE, f"{program} is not a .dl file")
            continue
        with report.reporting(program):
            content = sys.stdin.buffer.read() if piped else program.read_bytes()
            try:
                formatted = format_file(content, program.name, "" if piped else str(program))
            except MeaningChanged:
                mistake = "formatting would have changed its meaning, which is a bug of the formatter"
                report.fail(REFUSED, f"{program} was not changed: {mistake}")
                continue
            if comparing:
                click.echo(_difference(content, formatted, str(program)), nl=False)
            if checking and formatted != content:
                report.code = max(report.code, REFUSED)
                click.echo(f"{program} would change", err=True)
            if checking or comparing:
                continue
            if piped:
                click.echo(formatted, nl=False)
            else:
                _write_formatted(program, formatted, report)
    report.finish()


def _convert(program: Path, options: ProgramOptions) -> None:
    """Print a program in Flintlog's own language."""
    from ..editor.converter import convert
    from ..editor.formatter import MeaningChanged

    report = Report((program,), options)
    with report.reporting(program):
        try:
            text, warnings, sources = convert(program, options.include_path, options.dialect)
            click.echo(text, nl=False)
            report.diagnostics((program,), warnings, sources)
        except MeaningChanged:
            mistake = "the printed program would not be the same, which is a bug of the converter"
            report.fail(REFUSED, f"{program} cannot be printed: {mistake}")
    report.finish()


def _difference(before: bytes, after: bytes, name: str) -> str:
    """Return a unified diff of two contents of a file, empty if they are equal."""
    import difflib

    old, new = (io.StringIO(content.decode(), newline="\n").readlines() for content in (before, after))
    lines = difflib.unified_diff(old, new, name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _write_formatted(program: Path, content: bytes, report: Report) -> None:
    """Write a formatted program, and tell whether it has changed."""
    changed = report.write(program, content.decode())
    if changed is not None:
        click.echo(f"formatted {program}" if changed else f"{program} is unchanged", err=True)
