"""The command line: prints diagnostics, sets exit codes, nothing else.

What a command is asked for goes to standard output, what it has to say about it to standard error. Exit codes: 0 if all
is well, 1 if a program, its facts or a command for it is refused, or a certificate does not hold, 2 for a wrong command
line or a file that cannot be read or written.
"""

from __future__ import annotations

import gc
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click
from flintlog.targets import PROCESSES, TARGETS

from .naming import counted

if TYPE_CHECKING:
    from rich.text import Text

    from . import CompileOptions
    from .compare import Comparison, ProcessesComparison
    from .diagnostics import CompileError, Diagnostic
    from .pipeline import Compilation
    from .processes import Processes
    from .reports import Finding
    from .source import SourceFile

OK, REFUSED, UNUSABLE = 0, 1, 2

#: What a program is compiled to, one of processes or not.
Made = TypeVar("Made", bound="Compilation | Processes")

#: What ``--dump`` prints: the stages of ``pipeline.STAGES``, which is imported only when a program is compiled.
STAGES = ("syntax", "typed", "rewritten", "localized", "strata", "delta", "plan", "script")

programs_argument = click.argument(
    "programs", nargs=-1, required=True, metavar="PROG...", type=click.Path(path_type=Path)
)


diagnostics_option = click.option(
    "--diagnostics",
    "--format",
    "form",
    type=click.Choice(("text", "json", "sarif")),
    default="text",
    show_default=True,
    help="How to report: as text on standard error, or as one JSON or SARIF 2.1.0 document on standard output.",
)


recursion_option = click.option(
    "--recursion",
    type=click.Choice(("ranks", "derivation-sets")),
    default="ranks",
    show_default=True,
    help="How recursions are maintained: by ranked support, or by derivation sets, which tell all that a fact was "
    "derived from, and of which there can be very many.",
)


outside_option = click.option(
    "--outside",
    multiple=True,
    metavar="REL",
    help="A relation, or all of a process, that is fed from outside, in programs of processes. Can be repeated.",
)


include_option = click.option(
    "--include-path",
    "include_path",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="A folder in which included files may lie, beside that of the program. Can be repeated.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="flintlog", prog_name="flintlog")
def main() -> None:
    """Compile distributed Datalog to PySpark jobs that keep materialized views exact while their inputs change."""
    # Nearly all that a compiler makes lives until it ends; looking for what does not took a quarter of the time.
    gc.set_threshold(1_000_000, 10, 10)
    # Names of files need not be text.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@main.command("compile")
@programs_argument
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path), metavar="DIR", help="Where to write.")
@click.option(
    "--target",
    type=click.Choice((*TARGETS, PROCESSES)),
    default=TARGETS[0],
    show_default=True,
    help=f"What to make: a script per program, or with {PROCESSES} one per process of all PROGs together.",
)
@click.option(
    "--outside",
    multiple=True,
    metavar="REL",
    help=f"A relation, or all of a process, that is fed from outside, with --target {PROCESSES}. Can be repeated.",
)
@click.option("--stdout", "to_stdout", is_flag=True, help="Print the script instead of writing it.")
@click.option(
    "--dump",
    "stages",
    multiple=True,
    type=click.Choice((*STAGES, "all")),
    metavar="STAGE",
    help=f"Print a stage on the way to the script: {', '.join(STAGES)}, or all. Can be repeated.",
)
@click.option("--no-format", "plain", is_flag=True, help="Do not format the scripts with black, which takes a second.")
@recursion_option
@include_option
@diagnostics_option
def compile_command(
    programs: tuple[Path, ...],
    folder: Path | None,
    target: str,
    outside: tuple[str, ...],
    to_stdout: bool,
    stages: tuple[str, ...],
    plain: bool,
    recursion: str,
    form: str,
    include_path: tuple[Path, ...],
) -> None:
    """Compile programs to scripts, DIR/PROG.py for PROG.dl.

    A script that would not change is left alone.
    """
    if form != "text" and (to_stdout or stages):
        other = "--stdout" if to_stdout else "--dump"
        raise click.UsageError(f"--diagnostics {form} and {other} both print to standard output; take one of them")
    if folder is None and not stages and not to_stdout:
        raise click.UsageError("say where to write the scripts with -o DIR, or print one with --stdout")
    if to_stdout and len(programs) > 1:
        raise click.UsageError("--stdout prints one script; write several with -o DIR")
    if outside and target != PROCESSES:
        raise click.UsageError(f"--outside is for channels between processes, with --target {PROCESSES}")
    if target == PROCESSES and stages:
        raise click.UsageError(f"--dump prints stages of a program; it does not go with --target {PROCESSES}")
    if target == PROCESSES and to_stdout:
        raise click.UsageError(f"--target {PROCESSES} makes several files; write them with -o DIR")
    from . import CompileOptions, emit

    options = CompileOptions(target=target, format=not plain, recursion=recursion, include_path=include_path)
    report = Report(programs, form, recursion, include_path)
    if target == PROCESSES:
        assert folder is not None
        _compile_processes(programs, folder, outside, options, report)
        return
    wanted = tuple(stage for stage in STAGES if stage in stages or "all" in stages)
    written: dict[str, Path] = {}
    for program, compilation in report.compilations():
        files: Mapping[str, str] = {}
        if folder is not None or to_stdout or "script" in wanted:
            with report.reporting(program):
                files = emit(compilation, options)
            if not files:
                continue
        for stage in wanted:
            if len(programs) * len(wanted) > 1:
                click.echo(f"# ---- {stage} of {program} ".ljust(101, "-") + "\n")
            if stage == "script":
                click.echo("\n".join(files.values()), nl=False)
            else:
                _echo(compilation.dump(stage), nl=False)
            if len(programs) * len(wanted) > 1:
                click.echo()
        if to_stdout:
            click.echo("\n".join(files.values()), nl=False)
        if folder is not None:
            _write(folder, files, program, written, report)
    report.finish()


@main.command()
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The file with the table; else flintlog.toml or pyproject.toml, here or above.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 and a diff where a file is not as it is built.")
@click.option("--prune", is_flag=True, help="Remove generated files that the build does not make any more.")
@click.option("--force", is_flag=True, help="Write also over files that were edited by hand.")
@click.option("-MD", "depends", is_flag=True, help="Write what each file is made of, for Make.")
@click.option(
    "-MF",
    "depfile",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where -MD writes it (default: flintlog.d beside the table).",
)
@click.option("--watch", is_flag=True, help="Build again whenever a program or the table changes, until Ctrl-C.")
@diagnostics_option
def build(
    config: Path | None,
    check: bool,
    prune: bool,
    force: bool,
    depends: bool,
    depfile: Path | None,
    watch: bool,
    form: str,
) -> None:
    """Compile what a table lists, and write what has changed.

    
    In pyproject.toml (in flintlog.toml without the heading):
      [tool.flintlog]
      output = "jobs"            # the default
      programs = [
          "rules/*.dl",          # paths are relative to this file
          { path = "network.dl", target = "processes", output = "jobs/network" },
      ]
    Options, of all programs or of one: output, target, recursion, format, outside,
    include-path.

    Files are compared by content; one that was edited by hand since it was made is left alone.
    """
    if depfile is not None and not depends:
        raise click.UsageError("-MF says where -MD writes; give both")
    if check and (prune or force or depends or watch):
        raise click.UsageError("--check writes nothing; leave out --prune, --force, -MD and --watch")
    if watch and form != "text":
        raise click.UsageError(f"--watch has no end, and --diagnostics {form} prints one document in the end")
    from .building import Building, watching

    building = Building(config, check=check, prune=prune, force=force, depends=depends, depfile=depfile, form=form)
    report = building.run()
    if watch and building.sources:
        for _ in watching(building):
            building.run()
    report.finish()


@main.command()
@programs_argument
@outside_option
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with a picture.")
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder of a run; the page then says what has flowed.",
)
@include_option
def topology(
    programs: tuple[Path, ...],
    outside: tuple[str, ...],
    page: Path | None,
    root: Path | None,
    include_path: tuple[Path, ...],
) -> None:
    """Tell how the processes of programs are connected.

    Prints processes, what they are fed, and the channels between them.
    """
    from .processes import compile_processes
    from .report.joblog import run_logs
    from .report.page import topology_page

    if root is not None and page is None:
        raise click.UsageError("--root is for the page; say where to write it with --html FILE")
    report = Report(programs)
    with report.reporting(*programs):
        found = compile_processes(programs, outside=outside, include_path=include_path)
        report.diagnostics(programs, found.warnings, found.sources)
        _echo(str(found.topology), nl=False)
        if page is not None:
            title = ", ".join(path.name for path in programs)
            text = topology_page(found.topology, title, run_logs(root) if root is not None else {})
            if report.write(page, text) is not None:
                click.echo(f"wrote {page}", err=True)
    report.finish()


@main.command("report")
@programs_argument
@click.option(
    "-o",
    "--output",
    "page",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write.  [default: PROG.html]",
)
@click.option(
    "--log",
    "logs",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="What a job has written with its option --log; the page then has sizes and times. Can be repeated.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="The folder of a run of processes; the page then says what has flowed.",
)
@outside_option
@recursion_option
@include_option
def report_command(
    programs: tuple[Path, ...],
    page: Path | None,
    logs: tuple[Path, ...],
    root: Path | None,
    outside: tuple[str, ...],
    recursion: str,
    include_path: tuple[Path, ...],
) -> None:
    """Write a page about a program, for those who review it: one HTML file that needs no network.

    It has the program; the graph of its relations with what is sent between locations; for each rule its localized
    form, its delta rules with the certificate, its SQL for both engines, and links to its lines of the script; the
    processes and channels if there are any; and, from a job's log, sizes and times by stratum and round.
    """
    from flintlog.targets import EmitOptions

    from . import CompileOptions
    from .processes import Processes, compile_any, compile_processes
    from .report.joblog import has_events, read_log, read_runs, run_logs
    from .report.page import report_page

    report = Report(programs, recursion=recursion)
    with report.reporting(*programs):
        found = (
            compile_processes(programs, None, outside, recursion, include_path)
            if len(programs) > 1
            else compile_any(programs[0], None, outside, recursion, include_path)
        )
        report.diagnostics(programs, found.warnings, found.sources)
        if isinstance(found, Processes):
            if logs:
                raise click.UsageError(
                    "--log is for a program of one process; give the folder of a run with --root DIR"
                )
        elif root is not None or outside:
            raise click.UsageError("--root and --outside are for programs of processes")
        texts = {log: read_log(log) for log in logs}
        empty = [str(log) for log, text in texts.items() if not has_events(text)]
        together = "\n".join(texts.values())
        if empty:
            report.fail(UNUSABLE, f"{empty[0]} has no events; a job writes them to FILE with its option --log FILE")
            report.finish()
        if logs and not read_runs(together):
            report.fail(UNUSABLE, f"{' and '.join(map(str, logs))}: no command in it has come to its commit")
            report.finish()
        given = run_logs(root) if root is not None else {found.sources[0].name: together}
        text = report_page(found, EmitOptions(CompileOptions().compiler), given)
        page = page or Path(f"{programs[0].stem}.html")
        if report.write(page, text) is not None:
            click.echo(f"wrote {page}", err=True)
    report.finish()


@main.command()
@programs_argument
@outside_option
@recursion_option
@include_option
@diagnostics_option
def check(
    programs: tuple[Path, ...], outside: tuple[str, ...], recursion: str, form: str, include_path: tuple[Path, ...]
) -> None:
    """Check programs and print what is wrong with them.

    Each is checked by itself, but for files of processes that read of others: these are checked together.

    \b
    With --diagnostics json, standard output is one object:
      diagnostics  a list, in the order of the programs and of their text:
        code, severity ("error" or "warning"), message, help (or null)
        file, line, column, end_line, end_column
                   from 1, in characters; end_column is behind the last one
        notes      a list of message, file, line, column, end_line, end_column
        documentation
                   the URL of what `flintlog errors CODE` prints, or null
      failures     a list of messages: what could not be read or written
    """
    report = Report(programs, form, recursion, include_path)
    report.check(outside)
    report.finish(always=True)


@main.command("fmt")
@click.argument("programs", nargs=-1, metavar="[PROG or DIR]...", type=click.Path(path_type=Path))
@click.option("--check", "checking", is_flag=True, help="Write nothing; the exit code is 1 if a program would change.")
@click.option("--diff", "comparing", is_flag=True, help="Write nothing; print what would change.")
@click.option("--stdin", "piped", is_flag=True, help="Format standard input and write it to standard output.")
def format_command(programs: tuple[Path, ...], checking: bool, comparing: bool, piped: bool) -> None:
    """Lay programs out as docs/editors.md says, comments and all.

    Of a folder, all files below it whose names end in .dl are, but for hidden ones. A program with syntax errors is
    left alone and the exit code is 1. What was made is read again before it is written, and has to be the same program.
    """
    if piped == bool(programs):
        raise click.UsageError("say which programs to format, or --stdin" + " and not both" * piped)
    from .formatter import MeaningChanged, format_file

    programs = (Path("standard input"),) if piped else tuple(_below(programs))
    report = Report(programs)
    for program in programs:
        if not piped and program.suffix != ".dl":
            report.fail(UNUSABLE, f"{program} is no program of Flintlog; the names of those end in .dl")
            continue
        with report.reporting(program):
            content = sys.stdin.buffer.read() if piped else program.read_bytes()
            try:
                made = format_file(content, program.name)
            except MeaningChanged:
                mistake = "formatting would have changed its meaning, which is a mistake of the formatter"
                report.fail(REFUSED, f"{program} is left alone: {mistake}")
                continue
            if comparing:
                click.echo(_difference(content, made, str(program)), nl=False)
            if checking and made != content:
                report.code = max(report.code, REFUSED)
                click.echo(f"{program} would change", err=True)
            if checking or comparing:
                continue
            if piped:
                click.echo(made, nl=False)
            else:
                _write_formatted(program, made, report)
    report.finish()


def _below(paths: Iterable[Path]) -> Iterator[Path]:
    """Programs as they are given, and in the place of a folder the programs below it that are not hidden, in order."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for found in sorted(path.rglob("*.dl")):
            if any(part.startswith(".") for part in found.relative_to(path).parts):
                continue
            if found.is_file():
                yield found
            else:
                click.echo(f"{found} is not a file; it is left aside", err=True)


def _difference(before: bytes, after: bytes, name: str) -> str:
    """A unified diff of two contents of a file; empty if they are the same."""
    import difflib

    old, new = (io.StringIO(content.decode(), newline="\n").readlines() for content in (before, after))
    lines = difflib.unified_diff(old, new, name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _write_formatted(program: Path, content: bytes, report: Report) -> None:
    """Write a program that was formatted, unless it was before."""
    changed = report.write(program, content.decode())
    if changed is not None:
        click.echo(f"formatted {program}" if changed else f"{program} needs no change", err=True)


@main.command()
@programs_argument
@outside_option
@recursion_option
@include_option
def explain(
    programs: tuple[Path, ...], outside: tuple[str, ...], recursion: str, include_path: tuple[Path, ...]
) -> None:
    """Tell in prose what was decided about programs, or about each process of them, and why."""
    from .explain import explain as explanation

    report = Report(programs, recursion=recursion, include_path=include_path)
    texts = [explanation(compilation) for _, compilation in report.each(outside, warn=False)]
    if texts:
        _print("\n\n".join(texts).rstrip("\n"), _headed)
    report.finish()


@main.command()
@programs_argument
@outside_option
@include_option
def certify(programs: tuple[Path, ...], outside: tuple[str, ...], include_path: tuple[Path, ...]) -> None:
    """Print for every rule the certificate that its delta rules count each change exactly once."""
    from .certify import certify as certificates

    report = Report(programs, include_path=include_path)
    for program, compilation in report.each(outside):
        found = certificates(compilation.delta)
        for certificate in found:
            _echo(f"{certificate}\n")
        broken = [certificate.deltas.rule.label for certificate in found if not certificate.holds]
        if broken:
            report.fail(REFUSED, f"{program}: the certificate does not hold for {', '.join(broken)}")
        else:
            click.echo(f"{program}: the certificate holds for {counted(len(found), 'rule')}")
    report.finish()


@main.command(context_settings={"max_content_width": 100})
@click.argument("programs", nargs=-1, required=True, metavar="[OLD] PROG", type=click.Path(path_type=Path))
@click.option("--rev", metavar="REV", help="The git revision to compare with, where there is no OLD.  [default: HEAD]")
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "markdown", "json")),
    default="text",
    show_default=True,
    help="How to print it: as text, as Markdown for a pull request, or as the JSON that docs/review.md describes.",
)
@click.option("--exit-code", "strict", is_flag=True, help="Exit with 1 if there is anything to report.")
@outside_option
@recursion_option
@include_option
def diff(
    programs: tuple[Path, ...],
    rev: str | None,
    form: str,
    strict: bool,
    outside: tuple[str, ...],
    recursion: str,
    include_path: tuple[Path, ...],
) -> None:
    """Tell what a change of a program changes, for those who review it.

    \b
      flintlog diff OLD PROG          compares two files
      flintlog diff PROG              compares a file with what git has at HEAD
      flintlog diff --rev main PROG   compares it with what git has at a revision

    Files that a program includes are read from the same revision.

    Tells which rules and relations differ, rules being compared but for the names of variables and
    the order of literals; what is maintained in another way; what the command upgrade of the new
    script recomputes, keeps and needs; and what readers of published relations notice.
    """
    if len(programs) > 2 or (len(programs) == 2 and rev is not None):
        raise click.UsageError("give two programs, or one and the revision to compare it with")
    from .compare_report import REPORTS

    rev = None if len(programs) == 2 else (rev or "HEAD")
    old, new = Path(f"{rev}:{programs[0].as_posix()}") if rev else programs[0], programs[-1]
    report = Report((old, new), recursion=recursion, include_path=include_path)
    found = _compared(old, new, rev, outside, report)
    if found is None:
        report.finish()
        return
    text = REPORTS[form](found, old.as_posix(), new.as_posix())
    (_echo if form == "text" else click.echo)(text, nl=False)
    if strict and not found.same:
        report.code = max(report.code, REFUSED)
    click.get_current_context().exit(report.code)


def _compared(
    old: Path, new: Path, rev: str | None, outside: tuple[str, ...], report: Report
) -> Comparison | ProcessesComparison | None:
    """What differs between two programs, ``old`` being that of a revision if there is one; None if one of them is
    refused or cannot be read, which is reported."""
    from .compare import compare, compare_processes
    from .processes import Processes, compile_any
    from .revisions import NoRevision, program_at

    found: list[Compilation | Processes] = []
    for path in (old, new):
        try:
            with report.reporting(path):
                source, load = (
                    program_at(new, rev, report.include_path) if rev is not None and path == old else (path, None)
                )
                found.append(compile_any(source, load, outside, report.recursion, report.include_path))
        except NoRevision as error:
            report.fail(UNUSABLE, str(error))
    match found:
        case [Processes() as one, Processes() as other]:
            return compare_processes(one, other)
        case [one, other] if not isinstance(one, Processes) and not isinstance(other, Processes):
            return compare(one, other)
        case [_, _]:
            which = [path for path, program in zip((old, new), found, strict=True) if isinstance(program, Processes)]
            report.fail(REFUSED, f"only {which[0]} is a program of processes; such a one is compared with its like")
    return None


@main.command()
@click.argument("codes", nargs=-1, metavar="[CODE...]")
def errors(codes: tuple[str, ...]) -> None:
    """Tell what the codes of errors and warnings mean, with examples; without a CODE, list them."""
    from .diagnostics import CODES
    from .error_index import plain

    wanted = [code.upper() for code in codes]
    for code in wanted:
        if code not in CODES:
            raise click.UsageError(f"there is no code {code}; `flintlog errors` lists them")
    texts = ["\n".join(f"{code}: {title}" for code, title in CODES.items())] if not wanted else map(plain, wanted)
    click.echo("\n\n".join(texts))


functions_option = click.option(
    "--functions",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE.py",
    help="The Python file with the functions that the program declares as extern.",
)
rounds_option = click.option(
    "--max-rounds",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Stop a recursion that has not ended after so many rounds.",
)


@main.command("run")
@click.argument("program", metavar="PROG", type=click.Path(path_type=Path))
@click.option(
    "--facts",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the input relations are, in a file each; without it they are empty.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where to write the output relations.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("csv", "json", "parquet", "tsv")),
    help="How to write them; csv unless given.",
)
@click.option("-i", "--interactive", is_flag=True, help="Go on by what is typed: facts, and questions about tuples.")
@click.option("--all-inserts", is_flag=True, help="A column of facts that looks like operations is not one.")
@functions_option
@rounds_option
@include_option
def run_command(
    program: Path,
    facts: Path | None,
    out: Path | None,
    form: str | None,
    interactive: bool,
    all_inserts: bool,
    functions: Path | None,
    max_rounds: int,
    include_path: tuple[Path, ...],
) -> None:
    """Evaluate a program once, without Spark, or interactively.

    \b
    The rows of an input relation REL are read from one file:
      REL.csv             with a header
      REL.json, .jsonl    an object a line
      REL.parquet
      REL.facts, .tsv     between tabs, without header and quotes, as for Soufflé
    A relation without a file is empty; a file that is none of these is an error, unless
    its name begins with a dot or with _. Output relations are written to files named
    likewise, or printed as tables. Needs DuckDB, which the extra flintlog[run] brings.
    """
    if interactive and out is not None:
        raise click.UsageError("--interactive shows relations when it is asked; leave out --out")
    for option, given in (("--facts", facts), ("--out", out)):
        if given is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(given)):
            raise click.UsageError(f"{option} is a folder on this machine, not a URI")
    if form and out is None:
        raise click.UsageError(f"--format {form} is for files; say where to write them with --out DIR")
    report = Report((program,), include_path=include_path)
    for module in _modules(report):
        try:
            session = module.Session(max_rounds, str(functions) if functions else None)
            changes = {}
            if facts is not None:
                try:
                    changes = module.read_facts(session.engine, facts, _warn, all_inserts)
                except OSError as error:
                    report.fail(UNUSABLE, f"cannot read {error.filename}: {reason(error)}")
                    continue
            session.apply(changes)
            if interactive:
                _interact(module, session, report)
                continue
            outputs = sorted((r for r in session.program.relations if r.output), key=lambda r: str(r.name))
            for place, relation in enumerate(outputs):
                if out is None:
                    rows = session.rows(relation)
                    lines = module.relation_lines([c.name for c in relation.columns], rows, "table")
                    between = [""] if place else []
                    click.echo("\n".join([*between, f"{relation.name} ({counted(len(rows), 'row')})", *lines]))
                else:
                    _write_relation(module, session, relation, out / f"{relation.name}.{form or 'csv'}", report)
        except module.JobError as error:
            report.fail(REFUSED, module.refusal(error))
    report.finish()


def _interact(module: Any, session: Any, report: Report) -> None:
    """Answer what is typed, until that ends."""
    from .interactive import Interactive, typed_lines

    answering = Interactive(module, session, _echo)
    if sys.stdin.isatty():
        click.echo(f"{session.program.name}; `help` tells what can be typed", err=True)
    if not answering.run(typed_lines("> ", answering.words)) and not sys.stdin.isatty():
        report.code = max(report.code, REFUSED)


def _write_relation(module: Any, session: Any, relation: Any, path: Path, report: Report) -> None:
    """Write the rows of a relation to a file."""
    try:
        with replacing(path) as temporary:
            written = module.write_relation(session, relation, temporary, path.suffix.removeprefix("."))
    except OSError as error:
        report.fail(UNUSABLE, f"cannot write {path}: {reason(error)}")
    else:
        click.echo(f"wrote {path} ({counted(written, 'row')})", err=True)


@main.command()
@click.argument("program", metavar="PROG", type=click.Path(path_type=Path))
@click.argument("commands", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@functions_option
@rounds_option
@include_option
def replay(
    program: Path, commands: Path, functions: Path | None, max_rounds: int, include_path: tuple[Path, ...]
) -> None:
    """Maintain a program through a DDlog command file.

    \b
    FILE is read as it comes, - being standard input; nothing but DuckDB is started.
    Prints the changes that the program's own facts cause, then what each command prints:
      start; commit; commit dump_changes; rollback;
      dump; dump REL; clear REL; echo TEXT; exit;
      timestamp; profile; log_level N; mssleep N;
    and these updates, which end with "," where others follow, all of them with ";":
      insert REL(1, "a")    insert REL(.x = 1, .s = "a")    delete REL(1, "a")
    and for a relation with a primary key:
      insert_or_update REL(1, "b")    delete_key REL 1    modify REL 1 <- REL{.s = "c"}

    It stops at the first command that is wrong, unless a person types them.
    Needs DuckDB, which the extra flintlog[run] brings.
    """
    from .dat.reader import Reader
    from .dat.replay import Replay

    report = Report((program,), include_path=include_path)
    for module in _modules(report):
        try:
            session = module.Session(max_rounds, str(functions) if functions else None)
            try:
                stream = _typed_commands(session) if _is_terminal(commands) else click.open_file(str(commands), "rb")
            except OSError as error:
                report.fail(UNUSABLE, f"cannot read {commands}: {reason(error)}")
                continue
            with stream as lines:
                reader = Reader("standard input" if str(commands) == "-" else commands.name, lines)
                # What a program reads back is not changed; a terminal is not to obey it.
                say = _echo if sys.stdout.isatty() else click.echo
                running = Replay(module, session, reader, say)

                def refused(error: CompileError) -> bool:
                    report.refused([commands], error)
                    return _is_terminal(commands)

                running.run_all(refused)
                left = running.unfinished()
                if left is not None and report.code == OK:
                    report.diagnostics([commands], left.diagnostics, left.sources)
        except module.JobError as error:
            report.fail(REFUSED, module.refusal(error))
    report.finish()


def _is_terminal(commands: Path) -> bool:
    """Whether a person types the commands."""
    return str(commands) == "-" and sys.stdin.isatty()


@contextmanager
def _typed_commands(session: Any) -> Iterator[Iterator[bytes]]:
    """The lines that a person types."""
    from .dat.reader import COMMANDS
    from .interactive import typed_lines

    lines = typed_lines("", [*COMMANDS, *(relation.name for relation in session.program.relations)])
    try:
        yield (f"{line}\n".encode() for line in lines)
    finally:
        lines.close()


def _modules(report: Report) -> Iterator[Any]:
    """The program of a report as a module that runs here; none if it is refused, or DuckDB is missing."""
    from flintlog.targets.local import MissingDuckDB, load

    for _, compilation in report.compilations():
        try:
            yield load(compilation.plan)
        except MissingDuckDB as error:
            report.fail(UNUSABLE, str(error))


def _warn(message: str) -> None:
    """Say something on standard error that does not stop the work."""
    _print(f"note: {message}", _coloured, sys.stderr)


class Report:
    """Compiles programs, prints what there is to say about them, and keeps the exit code.

    ``form`` is ``text``, which is printed at once, or the name of a document that is printed in the end.
    """

    def __init__(
        self,
        programs: tuple[Path, ...],
        form: str = "text",
        recursion: str = "ranks",
        include_path: tuple[Path, ...] = (),
    ) -> None:
        """Begin with nothing to say."""
        self.programs = programs
        self.recursion = recursion
        self.include_path = include_path
        self.form = form
        self.code = OK
        self.found: list[tuple[Path, int, int]] = []
        #: For documents; what several programs include is reported once.
        self.findings: dict[Finding, None] = {}
        self.failures: list[str] = []

    def compilations(self, warn: bool = True) -> Iterator[tuple[Path, Compilation]]:
        """Compile the programs in turn; those that are refused or cannot be read are reported and left out.

        ``warn`` says whether to print the warnings of those that are accepted.
        """
        from .pipeline import compile_program

        return self._compiled(partial(compile_program, recursion=self.recursion, include_path=self.include_path), warn)

    def each(self, outside: tuple[str, ...], warn: bool = True) -> Iterator[tuple[str, Compilation]]:
        """The same with their names, and of a program of processes each process; some relations are fed from
        outside."""
        from .processes import Processes, compile_any

        compiling = partial(compile_any, outside=outside, recursion=self.recursion, include_path=self.include_path)
        for program, found in self._compiled(compiling, warn):
            if isinstance(found, Processes):
                yield from ((f"{program}, process {name}", one) for name, one in found.compilations.items())
            else:
                yield str(program), found

    def check(self, outside: tuple[str, ...]) -> None:
        """Compile the programs in turn, together those that are processes which read of others, and report what there
        is to say; some relations are fed from outside."""
        from .processes import belonging_together, compile_any, compile_processes

        for programs in belonging_together(self.programs, outside, self.include_path):
            with self.reporting(*programs):
                if len(programs) == 1:
                    found = compile_any(programs[0], None, outside, self.recursion, self.include_path)
                else:
                    found = compile_processes(programs, None, outside, self.recursion, self.include_path)
                self.diagnostics(programs, found.warnings, found.sources)

    def _compiled(self, compiling: Callable[[Path], Made], warn: bool = True) -> Iterator[tuple[Path, Made]]:
        """The programs as ``compiling`` makes them, in turn; see :meth:`compilations`."""
        for program in self.programs:
            with self.reporting(program):
                found = compiling(program)
                if warn:
                    self.diagnostics([program], found.warnings, found.sources)
                yield program, found

    def write(self, path: Path, text: str) -> bool | None:
        """Put ``text`` at ``path``; whether that changed it, and None if it cannot be written, which is reported."""
        try:
            return write_file(path, text)
        except OSError as error:
            self.fail(UNUSABLE, f"cannot write {path}: {reason(error)}")
            return None

    @contextmanager
    def reporting(self, *programs: Path) -> Iterator[None]:
        """Report programs that the body refuses or cannot read."""
        from .diagnostics import CompileError

        try:
            yield
        except CompileError as error:
            self.refused(programs, error)
        except OSError as error:
            self.fail(UNUSABLE, f"cannot read {error.filename or programs[0]}: {reason(error)}")

    def refused(self, programs: Sequence[Path], error: CompileError) -> None:
        """Report why programs are refused."""
        self.code = max(self.code, REFUSED)
        self.diagnostics(programs, error.diagnostics, error.sources)

    def diagnostics(self, programs: Sequence[Path], items: Iterable[Diagnostic], sources: Iterable[SourceFile]) -> None:
        """Print the diagnostics of programs that were compiled together, or keep them for the document; those about a
        file that is none of them count to the first."""
        sources, names = list(sources), {program.name for program in programs}
        by_name: dict[str, list[Diagnostic]] = {}
        for item in items:
            by_name.setdefault(item.span.file if item.span.file in names else programs[0].name, []).append(item)
        for program in programs:
            self._diagnostics(program, by_name.get(program.name, []), sources)

    def _diagnostics(self, program: Path, items: Iterable[Diagnostic], sources: Iterable[SourceFile]) -> None:
        """The same of one program."""
        if self.form != "text":
            from .reports import findings

            self.findings |= dict.fromkeys(findings(program, items, sources))
            return
        from .diagnostics import render

        by_name = {source.name: source for source in sources}
        severities = []
        for item in items:
            _print(f"{render(item, by_name)}\n", _coloured, sys.stderr)
            severities.append(item.severity)
        if severities:
            self.found.append((program, severities.count("error"), severities.count("warning")))
            if len(self.programs) > 1:
                _print(f"{program}: {_totals(self.found[-1:])}\n", _coloured, sys.stderr)

    def fail(self, code: int, message: str) -> None:
        """Print an error that has no place in a program."""
        self.code = max(self.code, code)
        self.failures.append(message)
        _print(f"error: {message}", _coloured, sys.stderr)

    def finish(self, always: bool = False) -> None:
        """Print the document, or how much was found (``always``, also if it is nothing); leave with the exit code."""
        if self.form != "text":
            from .reports import DOCUMENTS

            click.echo(DOCUMENTS[self.form](tuple(self.findings), self.failures))
        elif self.found or (always and self.code == OK):
            some = f"{len(self.found)} of " if self.found else ""
            among = f" in {some}{len(self.programs)} programs" if len(self.programs) > 1 else ""
            _print(_totals(self.found) + among, _coloured, sys.stderr)
        click.get_current_context().exit(self.code)


def _compile_processes(
    programs: tuple[Path, ...], folder: Path, outside: tuple[str, ...], options: CompileOptions, report: Report
) -> None:
    """Compile programs to processes."""
    from . import compile_process_files

    with report.reporting(*programs):
        files, found = compile_process_files(programs, options, outside=outside)
        report.diagnostics(programs, found.warnings, found.sources)
        _write(folder, files, programs[0], {}, report)
    report.finish()


def _write(folder: Path, files: Mapping[str, str], program: Path, written: dict[str, Path], report: Report) -> None:
    """Write the files of a program; ``written`` says which program has written what before."""
    for name, text in files.items():
        path = folder / name
        if name in written:
            report.fail(UNUSABLE, f"{written[name]} and {program} both become {path}")
            continue
        written[name] = program
        changed = report.write(path, text)
        if changed is not None:
            lines = counted(text.count("\n"), "line")
            click.echo(f"wrote {path} ({lines})" if changed else f"{path} is up to date ({lines})", err=True)


def write_file(path: Path, text: str) -> bool:
    """Put ``text`` at ``path`` in one step, so that nobody ever sees half of it; False if it is there already."""
    path = Path(os.path.realpath(path))
    content = text.encode()
    if path.is_file() and path.read_bytes() == content:
        return False
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return True


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, in a folder that need not exist; it becomes ``path`` in one step in the end, unless
    something is raised."""
    path = Path(os.path.realpath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        if path.exists():
            shutil.copymode(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# ---- words and colours -----------------------------------------------------------------------------------------------


def _totals(found: Iterable[tuple[Path, int, int]]) -> str:
    numbers = list(found)
    errors, warnings = sum(n for _, n, _ in numbers), sum(n for _, _, n in numbers)
    return f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"


def reason(error: OSError) -> str:
    """What the system says, in the middle of a sentence."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def _echo(text: str, nl: bool = True) -> None:
    """Print text with escapes for what a terminal would not show or would obey."""
    from .diagnostics import escaped

    click.echo(escaped(text), nl=nl)


def _print(text: str, colour: Callable[[str], Text], stream: TextIO | None = None) -> None:
    """Print text, in colour on a terminal."""
    from .diagnostics import escaped

    text = escaped(text)
    stream = stream or sys.stdout
    if not stream.isatty():
        click.echo(text, file=stream)
        return
    from rich.console import Console

    Console(file=stream).print(colour(text), soft_wrap=True)


def _coloured(text: str) -> Text:
    """A diagnostic in colour."""
    from rich.text import Text

    result = Text(text)
    for pattern, style in (
        (r"^error(\[E\d+\])?:", "bold red"),
        (r"^warning(\[W\d+\])?:", "bold yellow"),
        (r"^(note|help):", "bold green"),
        (r"^ *--> .*$", "blue"),
        (r"^ *\d* \|", "blue"),
        (r"(?<= \| )\s*\^+$", "bold red"),
    ):
        result.highlight_regex(f"(?m){pattern}", style)
    return result


def _headed(text: str) -> Text:
    """An explanation, its headings in bold."""
    from rich.text import Text

    result = Text(text)
    result.highlight_regex(r"(?m)^[A-Z].*\n(?==+$|-+$)", "bold")
    return result
