"""The command ``flintlog test``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..naming import counted, reason
from .files import write_file
from .loading import missing_package
from .main import main
from .options import (
    OK,
    REFUSED,
    UNUSABLE,
    dialect_option,
    entries_option,
    include_option,
    recursion_option,
    rounds_option,
)
from .printing import coloured, print_coloured

if TYPE_CHECKING:
    from rich.text import Text

    from ..local.testfiles import Case
    from ..local.testing import Testing, TestOutcome


@main.command("test")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path, exists=True))
@click.option("-k", "wanted", metavar="NAME", help="Run only tests with NAME in their file or name, in any case.")
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the results as JUnit XML, too.",
)
@recursion_option
@rounds_option
@entries_option
@include_option
@dialect_option
def test_command(
    paths: tuple[Path, ...],
    wanted: str | None,
    junit: Path | None,
    recursion: str,
    max_rounds: int,
    max_entries: int,
    include_path: tuple[Path, ...],
    dialect: str,
) -> None:
    """Run tests of programs, without Spark.

    \b
    PATH is a test file NAME.test.toml, which tests NAME.dl, or a folder of such files:
      [[test]]
      name = "a link is deleted"
      given.link = [[1, 2], [2, 3]]         # or the path of a file: "link.csv"
      expect.reachable = [[1, 2], [1, 3], [2, 3]]
      [[test.batch]]
      delete.link = [[2, 3]]
      changes.reachable.delete = [[1, 3], [2, 3]]
    Without PATH, run the tests in this folder and below.

    The exit code is 0 if all tests pass, 1 if one fails, 2 if one cannot be run.
    Requires DuckDB and PyArrow: pip install "flintlog[run]".
    """
    from ..local.testfiles import SUFFIX, WrongTest, read_cases, test_files
    from ..local.testing import Testing

    if message := missing_package():
        _fail(message)
    files = test_files(paths or (Path(),))
    if not files:
        _fail(f"there is no file *{SUFFIX} in {', '.join(map(str, paths)) or 'this folder'} or below")
    cases: list[Case] = []
    mistakes: list[tuple[Path, str]] = []
    for file in files:
        try:
            cases += read_cases(file)
        except WrongTest as error:
            mistakes.append((file, str(error)))
        except OSError as error:
            mistakes.append((file, f"cannot read {file}: {reason(error)}"))
    if wanted is not None:
        cases = [case for case in cases if wanted.lower() in f"{case.file}: {case.name}".lower()]
        if not cases and not mistakes:
            _fail(f"no test has {wanted} in its file or name")
    outcomes = _run(cases, Testing(max_rounds, include_path, recursion, max_entries, dialect))
    for _, mistake in mistakes:
        print_coloured(f"error: {mistake}", coloured, sys.stderr)
    _finish(outcomes, mistakes, junit)


def _run(cases: list[Case], testing: Testing) -> list[TestOutcome]:
    """Run tests and print what becomes of each."""
    outcomes = []
    for case in cases:
        outcome = testing.run(case)
        outcomes.append(outcome)
        word = {"passed": "passed", "failed": "FAILED", "error": "ERROR "}[outcome.result]
        lines = (f"  {line}".rstrip() for line in outcome.lines)
        print_coloured("\n".join([f"{word}  {case.file}: {case.name}", *lines]), _as_difference)
    return outcomes


def _finish(outcomes: list[TestOutcome], mistakes: list[tuple[Path, str]], junit: Path | None) -> None:
    """Print the totals, write the JUnit file, and exit."""
    results = [outcome.result for outcome in outcomes]
    code = REFUSED if "failed" in results else OK
    code = UNUSABLE if mistakes or "error" in results else code
    numbers = [f"{results.count(name)} {name}" for name in ("passed", "failed") if name in results]
    unusable = results.count("error") + len(mistakes)
    numbers += [f"{unusable} with a mistake in the test file"] if unusable else []
    click.echo(f"{counted(len(outcomes), 'test')}: {', '.join(numbers)}")
    if junit is not None:
        from ..local.testing import junit as document

        try:
            write_file(junit, document(outcomes, mistakes))
        except OSError as error:
            _fail(f"cannot write {junit}: {reason(error)}")
    click.get_current_context().exit(code)


def _fail(message: str) -> None:
    """Print an error and exit: the command cannot be carried out."""
    print_coloured(f"error: {message}", coloured, sys.stderr)
    click.get_current_context().exit(UNUSABLE)


def _as_difference(text: str) -> Text:
    """Return the outcome of a test with colours."""
    from rich.text import Text

    result = Text(text)
    for pattern, style in (
        (r"^passed ", "green"),
        (r"^(FAILED|ERROR) ", "bold red"),
        (r"^ +- .*$", "red"),
        (r"^ +\+ .*$", "green"),
    ):
        result.highlight_regex(f"(?m){pattern}", style)
    return result
