"""The command ``flintlog replay``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..naming import reason
from .loading import lacks_packages
from .main import main
from .options import (
    OK,
    REFUSED,
    UNUSABLE,
    ProgramOptions,
    SessionOptions,
    dialect_option,
    entries_option,
    functions_option,
    in_record,
    include_option,
    recursion_option,
    rounds_option,
)
from .printing import echo
from .reporting import Report

if TYPE_CHECKING:
    from flintlog.local.session import AnySession

    from ..diagnostics import CompileError


@main.command()
@click.argument("program", metavar="PROG", type=click.Path(path_type=Path))
@click.argument("commands", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@functions_option
@recursion_option
@rounds_option
@entries_option
@include_option
@dialect_option
@in_record("evaluation", SessionOptions)
@in_record("options", ProgramOptions)
def replay(
    program: Path,
    commands: Path,
    options: ProgramOptions,
    evaluation: SessionOptions,
) -> None:
    """Maintain a program through a DDlog command file.

    \b
    FILE is executed as it is read; - is standard input. First, the changes caused by the
    facts of the program are printed, then the output of each command. The commands:
      start; commit; commit dump_changes; rollback;
      dump; dump REL; clear REL; echo TEXT; exit;
      timestamp; profile; log_level N; mssleep N;
    Updates, each ending with "," if another one follows, the last one with ";":
      insert REL(1, "a")    insert REL(.x = 1, .s = "a")    delete REL(1, "a")
    For a relation with a primary key:
      insert_or_update REL(1, "b")    delete_key REL 1    modify REL 1 <- REL{.s = "c"}

    The replay stops at the first wrong command, unless commands are typed at a terminal.
    With --recursion derivation-sets, requires DuckDB: pip install duckdb pyarrow numpy.
    """
    from flintlog.local.dat.reader import Reader
    from flintlog.local.dat.replay import Replay

    report = Report((program,), options)
    for _, compilation in report.compilations():
        if options.recursion != "ranks" and lacks_packages(report):
            continue
        from flintlog.local.session import session_of, session_program
        from flintlog.runtime.kernel.errors import JobError
        from flintlog.runtime.local.session import refusal

        try:
            given = evaluation.max_rounds, evaluation.function_file, evaluation.max_entries
            session = session_of(session_program(compilation), *given)
            try:
                stream = _typed_commands(session) if _is_terminal(commands) else click.open_file(str(commands), "rb")
            except OSError as error:
                report.fail(UNUSABLE, f"cannot read {commands}: {reason(error)}")
                continue
            with stream as lines:
                reader = Reader("standard input" if str(commands) == "-" else str(commands), lines)
                # Escape control characters on a terminal, but keep output for programs as it is.
                say = echo if sys.stdout.isatty() else click.echo
                running = Replay(session, reader, say)

                def refused(error: CompileError) -> bool:
                    report.refused([commands], error)
                    return _is_terminal(commands)

                running.run_all(refused)
                unread = running.unfinished()
                if unread is not None and report.code == OK:
                    report.diagnostics([commands], unread.diagnostics, unread.sources)
        except JobError as error:
            report.fail(REFUSED, refusal(error))
    report.finish()


def _is_terminal(commands: Path) -> bool:
    """Return whether the commands are typed at a terminal."""
    return str(commands) == "-" and sys.stdin.isatty()


@contextmanager
def _typed_commands(session: AnySession) -> Iterator[Iterator[bytes]]:
    """Provide the lines typed at the terminal, with completion of commands and relations."""
    from flintlog.local.dat.reader import COMMANDS
    from flintlog.local.interactive import typed_lines

    lines = typed_lines("", [*COMMANDS, *(relation.name for relation in session.program.relations)])
    try:
        yield (f"{line}\n".encode() for line in lines)
    finally:
        lines.close()
