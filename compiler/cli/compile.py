"""The command ``flintlog compile``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flintlog.targets import DATABASE, PROCESSES, RUNTIME_PARTS, RUNTIMES, TARGETS, chosen_parts

from .loading import partition_of
from .main import main
from .options import (
    DUMPS,
    STAGES,
    ProgramOptions,
    diagnostics_option,
    dialect_option,
    in_record,
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


@dataclass(frozen=True)
class ScriptOptions:
    """How scripts are printed, and where they find the runtime."""

    target: str
    plain: bool
    runtime: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class OutputChoice:
    """Where scripts are written or printed, and which stages are printed."""

    folder: Path | None
    to_stdout: bool
    stages: tuple[str, ...]

    @property
    def dumped(self) -> tuple[str, ...]:
        """The stages and passes to print, in order."""
        return tuple(name for name in DUMPS if name in self.stages or ("all" in self.stages and name in STAGES))

    def check(self, programs: Sequence[Path], form: str) -> None:
        """Raise UsageError unless these options fit each other, the programs, and the form of diagnostics."""
        folder = self.folder
        if form != "text" and (self.to_stdout or self.stages):
            other = "--stdout" if self.to_stdout else "--dump"
            message = f"--diagnostics {form} and {other} both print to standard output; use only one of them"
            raise click.UsageError(message)
        if folder is None and not self.stages and not self.to_stdout:
            raise click.UsageError("give the folder for the scripts with -o DIR, or print one with --stdout")
        if folder is not None and folder.suffix == ".py" and not folder.exists():
            raise click.UsageError(
                f"-o takes a folder, but {folder} looks like a script; print one with --stdout > {folder}"
            )
        if self.to_stdout and len(programs) > 1:
            raise click.UsageError("--stdout prints one script; write several with -o DIR")

    def check_processes(self, programs: Sequence[Path], outside: Sequence[str], nodes: str | None) -> None:
        """Raise UsageError unless these options fit scripts of processes or nodes."""
        if nodes is not None and (len(programs) > 1 or outside):
            raise click.UsageError("--nodes divides one program; give no others, and no --outside")
        if self.stages:
            raise click.UsageError(f"--dump cannot be combined with --target {PROCESSES}")
        if self.to_stdout:
            raise click.UsageError(f"--target {PROCESSES} makes several files; give their folder with -o DIR")


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
    help="Which parts of the runtime scripts have besides the basic commands: "
    f"{'; '.join(f'{name} ({content})' for name, content in RUNTIME_PARTS.items())}; or all. Can be repeated.",
)
@recursion_option
@include_option
@dialect_option
@diagnostics_option
@in_record("script", ScriptOptions)
@in_record("output", OutputChoice)
@in_record("options", ProgramOptions)
def compile_command(
    programs: tuple[Path, ...],
    outside: tuple[str, ...],
    nodes: str | None,
    form: str,
    script: ScriptOptions,
    output: OutputChoice,
    options: ProgramOptions,
) -> None:
    """Compile programs to scripts, DIR/PROG.py for PROG.dl.

    A script is written only if its content changes.
    """
    output.check(programs, form)
    if script.target == PROCESSES:
        output.check_processes(programs, outside, nodes)
    elif outside or nodes is not None:
        raise click.UsageError(f"{'--outside' if outside else '--nodes'} requires --target {PROCESSES}")
    if script.target == DATABASE and (script.runtime != RUNTIMES[0] or script.parts):
        raise click.UsageError(f"--target {DATABASE} has none of the options --runtime and --with")
    if script.target == PROCESSES and script.parts:
        raise click.UsageError(f"--target {PROCESSES} does not have the option --with")
    from .. import CompileOptions

    compiling = CompileOptions(
        script.target, not script.plain, runtime=script.runtime, parts=script.parts, **vars(options)
    )
    report = Report(programs, options, form)
    if script.target != PROCESSES:
        _compile_scripts(report, output, compiling)
    elif nodes is not None:
        assert output.folder is not None
        _compile_nodes(programs[0], output.folder, nodes, compiling, report)
    else:
        assert output.folder is not None
        _compile_processes(programs, output.folder, outside, compiling, report)
    report.finish()


def _compile_scripts(report: Report, output: OutputChoice, options: CompileOptions) -> None:
    """Compile each program to a script; write or print it, and print stages."""
    from .. import emit

    dumped, headed = output.dumped, len(report.programs) * len(output.dumped) > 1
    written: dict[str, Path] = {}
    for program, compilation in report.compilations():
        files: Mapping[str, str] = {}
        if output.folder is not None or output.to_stdout or "script" in dumped:
            with report.reporting(program):
                files = emit(compilation, options)
            if not files:
                continue
        script = "\n".join(files.values())
        for stage in dumped:
            if headed:
                click.echo(f"# ---- {stage} of {program} ".ljust(101, "-") + "\n")
            if stage == "script":
                click.echo(script, nl=False)
            else:
                echo(compilation.dump(stage), nl=False)
            if headed:
                click.echo()
        if output.to_stdout:
            click.echo(script, nl=False)
        if output.folder is not None:
            write_files(output.folder, {**files, **options.shared}, program, written, report)


def _compile_processes(
    programs: tuple[Path, ...], folder: Path, outside: tuple[str, ...], options: CompileOptions, report: Report
) -> None:
    """Compile programs to one script per process."""
    from .. import compile_process_files

    with report.reporting(*programs):
        files, processes = compile_process_files(programs, options, outside=outside)
        report.diagnostics(programs, processes.warnings, processes.sources)
        write_files(folder, {**files, **options.shared}, programs[0], {}, report)


def _compile_nodes(program: Path, folder: Path, nodes: str, options: CompileOptions, report: Report) -> None:
    """Compile a located program to one script for all nodes."""
    from .. import compile_node_files

    partition = partition_of(nodes)
    with report.reporting(program):
        files, compiled = compile_node_files(program, partition, options)
        report.diagnostics((program,), compiled.warnings, compiled.sources)
        write_files(folder, {**files, **options.shared}, program, {}, report)
