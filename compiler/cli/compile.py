"""The command ``flintlog compile``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flintlog.targets import PROCESSES, RUNTIME_FILE, RUNTIME_PARTS, RUNTIMES, TARGETS, chosen_parts

from .loading import partition_of
from .main import main
from .options import (
    DUMPS,
    STAGES,
    diagnostics_option,
    dialect_option,
    include_option,
    programs_argument,
    recursion_option,
)
from .printing import echo
from .reporting import Report, write_files

if TYPE_CHECKING:
    from .. import CompileOptions


def given_parts(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts that an option names; raise BadParameter for an unknown one."""
    try:
        return chosen_parts(name.strip() for text in given for name in text.split(","))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@main.command("compile")
@programs_argument
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder to write to.",
)
@click.option(
    "--target",
    type=click.Choice((*TARGETS, PROCESSES)),
    default=TARGETS[0],
    show_default=True,
    help=f"Make one script per program or, with {PROCESSES}, one per process of all programs together.",
)
@click.option(
    "--outside",
    multiple=True,
    metavar="REL",
    help=f"With --target {PROCESSES}: a relation, or a process with all its relations, that is fed from outside. "
    "Can be repeated.",
)
@click.option(
    "--nodes",
    metavar="N|FILE",
    help=f"With --target {PROCESSES}: divide a located program among N nodes, by a hash of addresses, or as a CSV file "
    "with the columns address and node says.",
)
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the script instead of writing it.")
@click.option(
    "--dump",
    "stages",
    multiple=True,
    type=click.Choice((*DUMPS, "all")),
    metavar="STAGE",
    help=f"Print a compiler stage: {', '.join(STAGES)}, or all; or the result of a pass, such as resolve. Can be "
    "repeated.",
)
@click.option("--no-format", "plain", is_flag=True, help="Do not format the scripts with black, which takes a second.")
@click.option(
    "--runtime",
    type=click.Choice(RUNTIMES),
    default=RUNTIMES[0],
    show_default=True,
    help="Where scripts find the runtime: in the script itself, in one file in the same folder, or in the installed "
    "package.",
)
@click.option(
    "--with",
    "parts",
    multiple=True,
    callback=given_parts,
    metavar="PART,...",
    help="Which parts of the runtime standalone scripts have besides the basic commands: "
    f"{'; '.join(f'{name} ({content})' for name, content in RUNTIME_PARTS.items())}; or all. Can be repeated.",
)
@recursion_option
@include_option
@dialect_option
@diagnostics_option
def compile_command(
    programs: tuple[Path, ...],
    folder: Path | None,
    target: str,
    outside: tuple[str, ...],
    nodes: str | None,
    to_stdout: bool,
    stages: tuple[str, ...],
    plain: bool,
    runtime: str,
    parts: tuple[str, ...],
    recursion: str,
    form: str,
    include_path: tuple[Path, ...],
    dialect: str,
) -> None:
    """Compile programs to scripts, DIR/PROG.py for PROG.dl.

    A script is written only if its content changes.
    """
    if form != "text" and (to_stdout or stages):
        other = "--stdout" if to_stdout else "--dump"
        raise click.UsageError(f"--diagnostics {form} and {other} both print to standard output; use only one of them")
    if folder is None and not stages and not to_stdout:
        raise click.UsageError("give the folder for the scripts with -o DIR, or print one with --stdout")
    if folder is not None and folder.suffix == ".py" and not folder.exists():
        raise click.UsageError(
            f"-o takes a folder, but {folder} looks like a script; print one with --stdout > {folder}"
        )
    if to_stdout and len(programs) > 1:
        raise click.UsageError("--stdout prints one script; write several with -o DIR")
    if outside and target != PROCESSES:
        raise click.UsageError(f"--outside requires --target {PROCESSES}")
    if nodes is not None and target != PROCESSES:
        raise click.UsageError(f"--nodes requires --target {PROCESSES}")
    if nodes is not None and (len(programs) > 1 or outside):
        raise click.UsageError("--nodes divides one program; give no others, and no --outside")
    if target == PROCESSES and stages:
        raise click.UsageError(f"--dump cannot be combined with --target {PROCESSES}")
    if target == PROCESSES and to_stdout:
        raise click.UsageError(f"--target {PROCESSES} makes several files; give their folder with -o DIR")
    from .. import CompileOptions, emit

    options = CompileOptions(
        target=target,
        format=not plain,
        recursion=recursion,
        include_path=include_path,
        runtime=runtime,
        parts=parts,
        dialect=dialect,
    )
    report = Report(programs, form, recursion, include_path, dialect)
    if target == PROCESSES:
        assert folder is not None
        if nodes is not None:
            _compile_nodes(programs[0], folder, nodes, options, report)
            return
        _compile_processes(programs, folder, outside, options, report)
        return
    wanted = tuple(name for name in DUMPS if name in stages or ("all" in stages and name in STAGES))
    written: dict[str, Path] = {}
    for program, compilation in report.compilations():
        files: Mapping[str, str] = {}
        if folder is not None or to_stdout or "script" in wanted:
            with report.reporting(program):
                files = emit(compilation, options)
            if not files:
                continue
        script = "\n".join(text for name, text in files.items() if name != RUNTIME_FILE)
        for stage in wanted:
            if len(programs) * len(wanted) > 1:
                click.echo(f"# ---- {stage} of {program} ".ljust(101, "-") + "\n")
            if stage == "script":
                click.echo(script, nl=False)
            else:
                echo(compilation.dump(stage), nl=False)
            if len(programs) * len(wanted) > 1:
                click.echo()
        if to_stdout:
            click.echo(script, nl=False)
        if folder is not None:
            write_files(folder, files, program, written, report)
    report.finish()


def _compile_processes(
    programs: tuple[Path, ...], folder: Path, outside: tuple[str, ...], options: CompileOptions, report: Report
) -> None:
    """Compile programs to one script per process."""
    from .. import compile_process_files

    with report.reporting(*programs):
        files, found = compile_process_files(programs, options, outside=outside)
        report.diagnostics(programs, found.warnings, found.sources)
        write_files(folder, files, programs[0], {}, report)
    report.finish()


def _compile_nodes(program: Path, folder: Path, nodes: str, options: CompileOptions, report: Report) -> None:
    """Compile a located program to one script for all nodes."""

    from .. import compile_node_files

    partition = partition_of(nodes)
    with report.reporting(program):
        files, found = compile_node_files(program, partition, options)
        report.diagnostics((program,), found.warnings, found.sources)
        write_files(folder, files, program, {}, report)
    report.finish()
