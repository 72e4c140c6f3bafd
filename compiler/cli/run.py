"""The command ``flintlog run``."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..naming import counted, reason
from .files import replacing
from .loading import lacks_packages
from .main import main
from .options import (
    REFUSED,
    UNUSABLE,
    ProgramOptions,
    SessionOptions,
    dialect_option,
    entries_option,
    functions_option,
    in_record,
    include_option,
    memory_option,
    recursion_option,
    rounds_option,
    time_option,
)
from .printing import echo, warn
from .reporting import Report

if TYPE_CHECKING:
    from flintlog.local.session import AnySession
    from flintlog.runtime.kernel.model import NamedFile, Program, Relation
    from flintlog.runtime.row_kernel.model import RowProgram, RowRelation

    from ..ir.syntax import RelationFile
    from ..pipeline import Compilation

FEW_BYTES = 10_000
"""Facts of at most so many bytes are evaluated row by row, since DuckDB would take longer to start."""


@dataclass(frozen=True)
class FactsOptions:
    """Where the facts are, and how they are read."""

    folder: Path | None
    all_inserts: bool
    nulls: str

    @property
    def few(self) -> bool:
        """Whether there are few, in files of text; also if they cannot be read, which is told when they are."""
        from flintlog.runtime.inputs.dialects import split_dialect
        from flintlog.runtime.kernel.errors import JobError

        size = 0
        with contextlib.suppress(JobError, OSError, ValueError):
            for path in Path(split_dialect(str(self.folder))[0]).glob("**/*") if self.folder is not None else ():
                if path.is_file():
                    size += path.stat().st_size
                    if size > FEW_BYTES or path.suffix == ".parquet":
                        return False
        return True

    def read(self, program: Program | RowProgram, report: Report) -> dict[str, Any] | None:
        """Return the rows of input relations, or None after reporting that a file cannot be read."""
        from flintlog.local.given import rows_of_place
        from flintlog.runtime.local.facts import read_facts
        from flintlog.runtime.row_kernel.model import RowProgram

        if self.folder is None:
            return {}
        read = rows_of_place if isinstance(program, RowProgram) else None
        try:
            return read_facts(program, self.folder, warn, self.all_inserts, self.nulls, read)
        except OSError as error:
            report.fail(UNUSABLE, f"cannot read {error.filename}: {reason(error)}")
            return None


@dataclass(frozen=True)
class OutputOptions:
    """Which relations are printed or written, and how."""

    out: Path | None
    form: str | None
    names: tuple[str, ...]
    limit: int | None

    def check(self, interactive: bool) -> None:
        """Raise UsageError if options cannot be combined."""
        if interactive and (self.out is not None or self.form or self.names or self.limit is not None):
            raise click.UsageError("--interactive cannot be combined with --out, --format, --relation and --limit")
        if self.form == "parquet" and self.out is None:
            raise click.UsageError("--format parquet writes files; give their folder with --out DIR")
        if self.limit is not None and self.out is not None:
            raise click.UsageError("--limit cannot be combined with --out")


@main.command("run")
@click.argument("program", metavar="PROG", type=click.Path(path_type=Path))
@click.option(
    "--facts",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The folder with the facts, one file per input relation. Without it, input relations are empty.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write relations to files in this folder.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("csv", "json", "parquet", "tsv")),
    help="The output format.  [default: a table, or csv with --out]",
)
@click.option(
    "--relation",
    "names",
    multiple=True,
    metavar="REL",
    help="Output this relation instead of the output relations. Can be repeated.",
)
@click.option("--limit", type=click.IntRange(min=0), metavar="N", help="Print at most N rows of each relation.")
@click.option("-i", "--interactive", is_flag=True, help="Start an interactive session.")
@click.option("--all-inserts", is_flag=True, help="Treat no column of the facts as an operation column.")
@click.option(
    "--nulls",
    type=click.Choice(("refuse", "skip")),
    default="refuse",
    show_default=True,
    help="What to do with a row that has a null in a column that is never null.",
)
@functions_option
@recursion_option
@rounds_option
@entries_option
@memory_option
@time_option
@include_option
@dialect_option
@in_record("facts", FactsOptions)
@in_record("output", OutputOptions)
@in_record("evaluation", SessionOptions)
@in_record("options", ProgramOptions)
def run_command(
    program: Path,
    facts: FactsOptions,
    output: OutputOptions,
    interactive: bool,
    options: ProgramOptions,
    evaluation: SessionOptions,
) -> None:
    """Evaluate a program without Spark, once or interactively.

    \b
    The rows of an input relation REL are read from one file:
      REL.csv             with a header
      REL.json            one object per line; also .jsonl and .ndjson
      REL.parquet
      REL.facts, .tsv     separated by tabs, without header and quotes, as in Soufflé
    A relation without a file is empty. Any other file is an error, unless its name begins
    with a dot or with _, or the program names it, as .input of Soufflé does.
    Requires DuckDB: pip install duckdb pyarrow numpy.

    \b
    Output relations are printed as tables, unless --format or --out is given:
      --format json           print one object: for each relation, a list of its rows
      --format csv, tsv       print one relation
      --out DIR               write a file for each relation
    """
    output.check(interactive)
    for option, place in (("--facts", facts.folder), ("--out", output.out)):
        if place is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(place)):
            raise click.UsageError(f"{option} takes a folder on this machine, not a URI")
    report = Report((program,), options)
    for _, compilation in report.compilations():
        if lacks_packages(report):
            continue
        from flintlog.local.session import session_program
        from flintlog.runtime.kernel.errors import JobError
        from flintlog.runtime.local.session import refusal

        loaded = session_program(compilation, not evaluation.memory_limit and (interactive or facts.few))
        try:
            shown = _shown(loaded, program, output, interactive)
            session = _session(loaded, evaluation, compilation)
            changes = facts.read(loaded, report)
            if changes is None:
                continue
            session.apply(changes)
            if interactive:
                _interact(session, report)
            elif output.out is None:
                _print([_Rows.of(session, relation, output.limit) for relation in shown], output.form or "table")
            else:
                _write(session, shown, compilation.syntax.files, output.out, output.form, report)
        except JobError as error:
            report.fail(REFUSED, refusal(error))
    report.finish()


def _session(program: Program | RowProgram, options: SessionOptions, compilation: Compilation) -> AnySession:
    """Return a session of a program, with nothing built. Raise JobError if functions or memory are not as they must."""
    from flintlog.local.session import session_of
    from flintlog.runtime.local.session import MemoryEngine

    engine = MemoryEngine.within(options.memory_limit) if options.memory_limit else None
    given = options.max_rounds, options.function_file, options.max_entries
    session = session_of(program, *given, compilation, engine)
    session.as_of = options.as_of
    return session


def _shown(
    loaded: Program | RowProgram, program: Path, output: OutputOptions, interactive: bool
) -> list[Relation | RowRelation]:
    """Return the relations to output. Raise UsageError for names of others, and if the format takes one relation."""
    shown = _wanted(loaded.relations, output.names)
    if not shown and not interactive:
        advice = "publish one with `output NAME.`, or choose one with --relation"
        warn(f"{program.name} outputs no relation; {advice}")
    if output.form in ("csv", "tsv") and output.out is None and len(shown) != 1:
        every = ", ".join(relation.name for relation in shown) or "none"
        several = f"--format {output.form} prints one relation, but {program.name} outputs {every}"
        raise click.UsageError(f"{several}; choose one with --relation, or write files with --out DIR")
    return shown


def _wanted(relations: Sequence[Relation | RowRelation], names: Sequence[str]) -> list[Relation | RowRelation]:
    """Return the relations of some names, by default the output relations by name. Raise UsageError for others."""
    visible = {relation.name: relation for relation in relations if not relation.hidden}
    for name in names:
        if name not in visible:
            raise click.UsageError(f"there is no relation {name}; the program has {', '.join(sorted(visible))}")
    return [visible[name] for name in dict.fromkeys(names) or sorted(r.name for r in visible.values() if r.output)]


@dataclass(frozen=True)
class _Rows:
    """The rows of a relation to print, and how many further rows it has."""

    name: str
    columns: list[str]
    rows: Sequence[tuple[Any, ...]]
    left_out: int

    @staticmethod
    def of(session: AnySession, relation: Relation | RowRelation, limit: int | None) -> _Rows:
        """Return the first rows of a relation."""
        rows = session.rows(relation)
        return _Rows(relation.name, [c.name for c in relation.columns], rows[:limit], len(rows) - len(rows[:limit]))


def _print(relations: Sequence[_Rows], form: str) -> None:
    """Print relations in a format; report rows that are left out on standard error unless the format is a table."""
    from flintlog.runtime.local.facts import relation_lines

    texts = []
    for rows_of in relations:
        lines = list(relation_lines(rows_of.columns, rows_of.rows, form))
        more = f"{counted(rows_of.left_out, 'more row')}" if rows_of.left_out else ""
        if form == "table":
            total = counted(len(rows_of.rows) + rows_of.left_out, "row")
            texts.append("\n".join([f"{rows_of.name} ({total})", *lines, *([f"... {more}"] if more else [])]))
        elif form == "json":
            rows = "\n" + ",\n".join(f"    {line}" for line in lines) + "\n  " if lines else ""
            texts.append(f"  {json.dumps(rows_of.name)}: [{rows}]")
        else:
            texts += lines
        if more and form != "table":
            warn(f"{rows_of.name} has {more}")
    if form == "json":
        click.echo("{\n" + ",\n".join(texts) + "\n}" if texts else "{}")
    elif texts:
        click.echo(("\n\n" if form == "table" else "\n").join(texts))


def _interact(session: AnySession, report: Report) -> None:
    """Answer input lines until they end; if they are not typed at a terminal, a refused one sets the exit code."""
    from flintlog.local.interactive import Interactive, typed_lines

    answering = Interactive(session, echo)
    if sys.stdin.isatty():
        click.echo(f"{session.program.name}; type `help` for help", err=True)
    if not answering.run(typed_lines("> ", answering.words)) and not sys.stdin.isatty():
        report.code = max(report.code, REFUSED)


def _write(
    session: AnySession,
    relations: Sequence[Relation | RowRelation],
    files: Sequence[RelationFile],
    folder: Path,
    form: str | None,
    report: Report,
) -> None:
    """Write relations to files, in a format or, without one, as the program says, by default as CSV."""
    from flintlog.runtime.kernel.model import NamedFile

    outputs = [] if form else [file for file in files if file.direction == "output"]
    named = {file.relation: NamedFile(file.file, file.separator, file.header) for file in outputs}
    for relation in relations:
        file = named.get(relation.name)
        path = folder / (f"{relation.name}.{form or 'csv'}" if file is None else file.path)
        _write_relation(session, relation, path, report, file)


def _write_relation(
    session: AnySession, relation: Relation | RowRelation, path: Path, report: Report, file: NamedFile | None
) -> None:
    """Write the rows of a relation to a file, in the way that the program says, or in that of the file's suffix."""
    from flintlog.runtime.local.facts import write_output

    try:
        with replacing(path) as temporary:
            written = write_output(session, relation, temporary, file or path.suffix.removeprefix("."))
    except OSError as error:
        report.fail(UNUSABLE, f"cannot write {path}: {reason(error)}")
    else:
        click.echo(f"wrote {path} ({counted(written, 'row')})", err=True)
