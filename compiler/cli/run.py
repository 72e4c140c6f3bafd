"""The command ``flintlog run``."""

from __future__ import annotations

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
from .loading import loaded_with_files
from .main import main
from .options import (
    REFUSED,
    UNUSABLE,
    dialect_option,
    entries_option,
    functions_option,
    include_option,
    recursion_option,
    rounds_option,
)
from .printing import echo, warn
from .reporting import Report

if TYPE_CHECKING:
    from flintlog.runtime.local.facts import NamedFile
    from flintlog.runtime.local.session import Session
    from flintlog.runtime.model import Relation


@main.command("run")
@click.argument("program", metavar="PROG", type=click.Path(path_type=Path))
@click.option(
    "--facts",
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
@include_option
@dialect_option
def run_command(
    program: Path,
    facts: Path | None,
    out: Path | None,
    form: str | None,
    names: tuple[str, ...],
    limit: int | None,
    interactive: bool,
    all_inserts: bool,
    nulls: str,
    functions: Path | None,
    recursion: str,
    max_rounds: int,
    max_entries: int,
    include_path: tuple[Path, ...],
    dialect: str,
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
    Requires DuckDB: pip install "flintlog[run]".

    \b
    Output relations are printed as tables, unless --format or --out is given:
      --format json           print one object: for each relation, a list of its rows
      --format csv, tsv       print one relation
      --out DIR               write a file for each relation
    """
    if interactive and (out is not None or form or names or limit is not None):
        raise click.UsageError("--interactive cannot be combined with --out, --format, --relation and --limit")
    for option, given in (("--facts", facts), ("--out", out)):
        if given is not None and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(given)):
            raise click.UsageError(f"{option} takes a folder on this machine, not a URI")
    if form == "parquet" and out is None:
        raise click.UsageError("--format parquet writes files; give their folder with --out DIR")
    if limit is not None and out is not None:
        raise click.UsageError("--limit cannot be combined with --out")
    report = Report((program,), recursion=recursion, include_path=include_path, dialect=dialect)
    for made, files in loaded_with_files(report):
        from flintlog.runtime.errors import JobError
        from flintlog.runtime.local.facts import NamedFile, read_facts
        from flintlog.runtime.local.session import Session, refusal

        try:
            wanted = _wanted(made.relations, names)
            if not wanted and not interactive:
                advice = "publish one with `output NAME.`, or choose one with --relation"
                warn(f"{program.name} outputs no relation; {advice}")
            if form in ("csv", "tsv") and out is None and len(wanted) != 1:
                every = ", ".join(relation.name for relation in wanted) or "none"
                several = f"--format {form} prints one relation, but {program.name} outputs {every}"
                raise click.UsageError(f"{several}; choose one with --relation, or write files with --out DIR")
            named: dict[str, dict[str, NamedFile]] = {"input": {}, "output": {}}
            for file in files:
                named[file.direction][file.relation] = NamedFile(file.file, file.separator, file.header)
            supplied = str(functions) if functions else None
            session = Session(made, max_rounds, supplied, max_entries=max_entries)
            changes = {}
            if facts is not None:
                try:
                    changes = read_facts(made, facts, warn, all_inserts, nulls, named["input"])
                except OSError as error:
                    report.fail(UNUSABLE, f"cannot read {error.filename}: {reason(error)}")
                    continue
            session.apply(changes)
            if interactive:
                _interact(session, report)
                continue
            if out is None:
                _print([_Rows.of(session, relation, limit) for relation in wanted], form or "table")
                continue
            for relation in wanted:
                file_ = None if form else named["output"].get(relation.name)
                path = out / (f"{relation.name}.{form or 'csv'}" if file_ is None else file_.path)
                _write_relation(session, relation, path, report, file_)
        except JobError as error:
            report.fail(REFUSED, refusal(error))
    report.finish()


def _wanted(relations: Sequence[Relation], names: Sequence[str]) -> list[Relation]:
    """Return the relations of some names, by default the output relations by name. Raise UsageError for others."""
    known = {relation.name: relation for relation in relations if not relation.hidden}
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no relation {name}; the program has {', '.join(sorted(known))}")
    return [known[name] for name in dict.fromkeys(names) or sorted(r.name for r in known.values() if r.output)]


@dataclass(frozen=True)
class _Rows:
    """The rows of a relation to print, and how many further rows it has."""

    name: str
    columns: list[str]
    rows: list[tuple[Any, ...]]
    left_out: int

    @staticmethod
    def of(session: Session, relation: Relation, limit: int | None) -> _Rows:
        """Return the first rows of a relation."""
        rows = session.rows(relation)
        return _Rows(relation.name, [c.name for c in relation.columns], rows[:limit], len(rows) - len(rows[:limit]))


def _print(relations: Sequence[_Rows], form: str) -> None:
    """Print relations in a format; report rows that are left out on standard error unless the format is a table."""
    from flintlog.runtime.local.facts import relation_lines

    texts = []
    for found in relations:
        lines = list(relation_lines(found.columns, found.rows, form))
        more = f"{counted(found.left_out, 'more row')}" if found.left_out else ""
        if form == "table":
            total = counted(len(found.rows) + found.left_out, "row")
            texts.append("\n".join([f"{found.name} ({total})", *lines, *([f"... {more}"] if more else [])]))
        elif form == "json":
            rows = "\n" + ",\n".join(f"    {line}" for line in lines) + "\n  " if lines else ""
            texts.append(f"  {json.dumps(found.name)}: [{rows}]")
        else:
            texts += lines
        if more and form != "table":
            warn(f"{found.name} has {more}")
    if form == "json":
        click.echo("{\n" + ",\n".join(texts) + "\n}" if texts else "{}")
    elif texts:
        click.echo(("\n\n" if form == "table" else "\n").join(texts))


def _interact(session: Session, report: Report) -> None:
    """Answer input lines until they end; if they are not typed at a terminal, a refused one sets the exit code."""
    from ..local.interactive import Interactive, typed_lines

    answering = Interactive(session, echo)
    if sys.stdin.isatty():
        click.echo(f"{session.program.name}; type `help` for help", err=True)
    if not answering.run(typed_lines("> ", answering.words)) and not sys.stdin.isatty():
        report.code = max(report.code, REFUSED)


def _write_relation(session: Session, relation: Relation, path: Path, report: Report, file: NamedFile | None) -> None:
    """Write the rows of a relation to a file, in the way that the program says, or in that of the file's suffix."""
    from flintlog.runtime.local.facts import write_output

    try:
        with replacing(path) as temporary:
            written = write_output(session, relation, temporary, file or path.suffix.removeprefix("."))
    except OSError as error:
        report.fail(UNUSABLE, f"cannot write {path}: {reason(error)}")
    else:
        click.echo(f"wrote {path} ({counted(written, 'row')})", err=True)
