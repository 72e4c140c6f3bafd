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
    ProgramOptions,
    SessionOptions,
    dialect_option,
    entries_option,
    in_record,
    include_option,
    recursion_option,
    rounds_option,
)
from .printing import coloured, print_coloured

if TYPE_CHECKING:
    from flintlog.local.testfiles import Case
    from flintlog.local.testing import Testing, TestOutcome
    from rich.text import Text


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
@in_record("evaluation", SessionOptions)
@in_record("options", ProgramOptions)
def test_command(
    paths: tuple[Path, ...],
    wanted: str | None,
    junit: Path | None,
    options: ProgramOptions,
    evaluation: SessionOptions,
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
    Files of Parquet and --recursion derivation-sets require DuckDB and PyArrow:
    pip install duckdb pyarrow numpy.
    """
    from flintlog.local.testfiles import SUFFIX, WrongTest, read_cases, test_files
    from flintlog.local.testing import Testing

    from ..diagnostics import shortened

    if options.recursion != "ranks" and (message := missing_package()):
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
            mistakes.append((file, shortened(str(error))))
        except OSError as error:
            mistakes.append((file, f"cannot read {file}: {reason(error)}"))
    if wanted is not None:
        cases = [case for case in cases if wanted.lower() in f"{case.file}: {case.name}".lower()]
        if not cases and not mistakes:
            _fail(f"no test has {wanted} in its file or name")
    outcomes = _run(cases, Testing(evaluation.max_rounds, max_entries=evaluation.max_entries, **vars(options)))
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
        from flintlog.local.testing import junit as document

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
