"""The command ``flintlog check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ..dialects import OWN_SUFFIXES
from .files import is_folder, programs_below
from .main import main
from .options import (
    ProgramOptions,
    diagnostics_option,
    dialect_option,
    in_record,
    include_option,
    outside_option,
    recursion_option,
)
from .reporting import Report


@main.command()
@click.argument("programs", nargs=-1, required=True, metavar="(PROG or DIR)...", type=click.Path(path_type=Path))
@outside_option
@recursion_option
@include_option
@dialect_option
@diagnostics_option
@in_record("options", ProgramOptions)
def check(programs: tuple[Path, ...], outside: tuple[str, ...], form: str, options: ProgramOptions) -> None:
    """Print the errors and warnings of programs.

    For a folder, check all programs below it, except hidden ones and those that another one includes; their suffixes
    say that they are programs. Each program is checked on its own, except that processes are checked together with
    those that they read from.

    \b
    With --diagnostics json, standard output is one object:
      diagnostics  a list, in the order of the programs and of their text:
        code, severity ("error" or "warning"), message, help (or null)
        file, line, column, end_line, end_column
                   from 1, in characters; end_column is exclusive
        notes      a list of message, file, line, column, end_line, end_column
        documentation
                   the URL of the explanation of the code, or null
      failures     a list of messages about files that cannot be read
    """
    report = Report(_checked(programs, options), options, form)
    report.check(outside)
    report.finish(always=True)


def _checked(paths: Sequence[Path], options: ProgramOptions) -> tuple[Path, ...]:
    """Return the programs to check: those given, and those in the given folders that no other one there includes."""
    programs = tuple(programs_below(paths, OWN_SUFFIXES))
    if not any(is_folder(path) for path in paths):
        return programs
    from ..frontend import included_files

    includes = {path: included_files(path, options.include_path, options.dialect) for path in programs}

    def is_part(path: Path) -> bool:
        """Return whether another file includes ``path``. Of files that include each other, the first is a program."""
        return any(
            path.resolve() in files and (other.resolve() not in includes[path] or other < path)
            for other, files in includes.items()
            if other.resolve() != path.resolve()
        )

    return tuple(path for path in programs if path in paths or not is_part(path))
