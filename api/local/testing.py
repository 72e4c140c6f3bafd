"""Run tests of programs, and report how their relations differ from what is expected."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from flintlog.compiler.diagnostics import CompileError, listed, render, shortened
from flintlog.compiler.naming import counted
from flintlog.compiler.pipeline import compile_program
from flintlog.runtime.database.reading import GivenChanges, RowsFile
from flintlog.runtime.inputs.dialects import USUAL, dialect_of_file
from flintlog.runtime.inputs.paths import INPUT_FORMATS, format_of
from flintlog.runtime.inputs.records import Problems, input_relation
from flintlog.runtime.inputs.values import RowShape
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.model import MOST_ENTRIES, Program, Relation
from flintlog.runtime.kernel.sql import is_optional
from flintlog.runtime.kernel.values import hashable, plain_row
from flintlog.runtime.local.facts import check_keys
from flintlog.runtime.local.python_rows import python_record
from flintlog.runtime.local.session import refusal
from flintlog.runtime.row_kernel.model import RowProgram, RowRelation
from flintlog.runtime.store.published_names import NO_OPERATION
from flintlog.runtime.system.printing import table_lines, visible_lines

from .session import AnySession, Row, session_of, session_program
from .testfiles import Case, TestStep, WrongTest

SHOWN = 40
"""How many differing rows of a relation are shown."""


@dataclass(frozen=True)
class TestOutcome:
    """Result of a test: ``passed``, ``failed``, or ``error`` if it could not be run. ``lines`` say why."""

    case: Case
    result: str
    lines: tuple[str, ...]
    seconds: float


class Failed(Exception):
    """Raised if a test fails; has the lines that say why."""

    def __init__(self, *lines: str) -> None:
        """Store the lines."""
        super().__init__(*lines)
        self.lines = lines


class Testing:
    """Runs tests; compiles each program once."""

    def __init__(
        self,
        max_rounds: int,
        include_path: Sequence[Path],
        recursion: str = "ranks",
        max_entries: int = MOST_ENTRIES,
        dialect: str = "",
    ) -> None:
        """Start without programs."""
        self.max_rounds, self.max_entries = max_rounds, max_entries
        self.recursion, self.include_path, self.dialect = recursion, include_path, dialect
        self.programs: dict[Path, Program | RowProgram | CompileError] = {}

    def run(self, case: Case) -> TestOutcome:
        """Run a test."""
        start = time.monotonic()
        result = "passed"
        lines: tuple[str, ...] = ()
        try:
            self._check(case)
        except Failed as failed:
            result, lines = "failed", failed.lines
        except WrongTest as wrong:
            result, lines = "error", (shortened(str(wrong)),)
        return TestOutcome(case, result, lines, time.monotonic() - start)

    def _check(self, case: Case) -> None:
        program = self._program(case)
        if isinstance(program, CompileError):
            _check_errors(case, program)
            return
        if case.errors:
            raise Failed(f"the program has no error; expected {listed(case.errors)}")
        if program.functions and case.functions is None:
            raise WrongTest(f'{case.place}: {program.name} declares external functions; add functions = "FILE.py"')
        try:
            supplied = str(case.functions) if case.functions else None
            session = session_of(program, self.max_rounds, supplied, self.max_entries)
        except JobError as error:
            raise WrongTest(f"{case.place}: {error}") from error
        try:
            problems = [line for step in case.steps for line in _step(session, case, step)]
        finally:
            session.close()
        if problems:
            raise Failed(*problems)

    def _program(self, case: Case) -> Program | RowProgram | CompileError:
        """Return the program of a test, or the error of the compiler."""
        if case.program not in self.programs:
            try:
                compilation = compile_program(case.program, None, self.recursion, self.include_path, self.dialect)
                self.programs[case.program] = session_program(compilation)
            except CompileError as error:
                self.programs[case.program] = error
            except OSError as error:
                raise WrongTest(f"{case.place}: cannot read {case.program}: {error.strerror or error}") from error
        return self.programs[case.program]


def _check_errors(case: Case, error: CompileError) -> None:
    """Raise Failed unless a program has exactly the errors that a test expects."""
    errors = [diagnostic for diagnostic in error.diagnostics if diagnostic.severity == "error"]
    if {diagnostic.code for diagnostic in errors} == set(case.errors):
        return
    sources = {source.name: source for source in error.sources}
    expected = f"; expected {listed(sorted(case.errors))}" if case.errors else ""
    text = "\n\n".join(render(diagnostic, sources) for diagnostic in errors)
    raise Failed(f"the program is refused{expected}", *text.split("\n"))


def _step(session: AnySession, case: Case, step: TestStep) -> Iterator[str]:
    """Apply a batch, and yield lines about everything that is not as expected."""
    program, from_scratch = session.program, step.where == "given"
    # The facts of a test are called as they are written, given.link, and those of a batch as well, insert.link.
    place, words = (
        (case.place, ("given", "")) if from_scratch else (f"{case.place}, {step.where}", ("insert", "delete"))
    )
    visible: dict[str, Relation | RowRelation] = {r.name: r for r in program.relations if not r.hidden}

    def seen(name: str, key: str) -> Relation | RowRelation:
        if name not in visible:
            raise WrongTest(f"{place}, {key}: there is no relation {name}; there are {', '.join(sorted(visible))}")
        return visible[name]

    changes: dict[str, list[tuple[str, Row]]] = {}
    for by_name, sign, word in ((step.insert, "+", words[0]), (step.delete, "-", words[1])):
        for name, rows in by_name.items():
            called = f"{place}, {word}.{name}"
            try:
                relation = input_relation(program, name)
            except JobError as error:
                raise WrongTest(f"{called}: {error}") from error
            read = _read(relation, rows, called, case.folder, sign)
            changes.setdefault(relation.table, []).extend((sign, row) for row in read)
    expected = {name: _rows(seen(name, "expect"), rows, place, "expect", case) for name, rows in step.expect.items()}
    net = {
        (name, key): _rows(seen(name, "changes"), change.get(key, []), place, f"changes.{name}", case, key)
        for name, change in step.changes.items()
        for key in ("insert", "delete")
    }
    session.as_of = step.as_of
    try:
        session.apply(changes)
    except JobError as error:
        said = refusal(error)
        if step.refused is None or step.refused not in said:
            expected_text = "" if step.refused is None else f'; expected a message with "{step.refused}"'
            raise Failed(f"{step.where}: refused{expected_text}", *said.split("\n")) from error
    else:
        if step.refused is not None:
            raise Failed(f'{step.where}: not refused; expected a message with "{step.refused}"')
    for name, expected_rows in expected.items():
        where = f"expect.{name}" if from_scratch else f"{step.where}, expect.{name}"
        actual = [hashable(list(row)) for row in session.rows(visible[name])]
        yield from differences(where, visible[name], expected_rows, actual)
    by_relation: dict[str, Sequence[tuple[str, Row]]] = {}
    for (name, key), expected_rows in net.items():
        if name not in by_relation:
            by_relation[name] = session.changes(visible[name]) if step.refused is None else []
        sign = "+" if key == "insert" else "-"
        actual = [hashable(list(row)) for op, row in by_relation[name] if op == sign]
        yield from differences(f"{step.where}, changes.{name}.{key}", visible[name], expected_rows, actual)


def _rows(relation: Relation | RowRelation, rows: Any, place: str, key: str, case: Case, part: str = "") -> list[Row]:
    """Return rows of a test file as Python rows, with lists as tuples."""
    called = f"{place}, {key}.{part or relation.name}"
    return [hashable([*row]) for row in _read(relation, rows, called, case.folder, "+")]


def _read(relation: Relation | RowRelation, rows: Any, called: str, folder: Path, sign: str) -> list[Row]:
    """Return rows of a test file, or of a file that it names."""
    problems = Problems()
    shape = RowShape(relation, NO_OPERATION, "", True, "", True)
    given, path = GivenChanges(relation, shape, problems), ""
    try:
        if isinstance(rows, str):
            if not format_of(rows):
                formats = ", ".join(INPUT_FORMATS)
                raise WrongTest(f"{called}: {rows} does not have the suffix of a known format ({formats})")
            if format_of(rows) == "parquet":
                from flintlog.runtime.database import parquet

                assert parquet, "registered"
            path = str(folder / rows)
            dialect = dialect_of_file(path, USUAL, relation.file)
            given.take_file(RowsFile(path, format_of(path, dialect), 0, dialect, {}), problems.add)
        elif isinstance(rows, list):
            given.take((python_record(_with_nulls(relation, row), shape) for row in rows), called, False)
        else:
            hint = "; put a name with dots in quotes" if isinstance(rows, Mapping) else ""
            raise WrongTest(f"{called}: rows must be an array, or the path of a file in quotes{hint}")
        found = [tuple(plain_row(relation.columns, change.row)) for change in given.changes]
        if sign == "+":
            check_keys(found, path or called, shape, problems)
        problems.refuse()
    except OSError as error:
        raise WrongTest(f"{called}: cannot read {folder / rows}: {error.strerror or error}") from error
    except JobError as error:
        raise WrongTest(_as_written(str(error), called)) from error
    return found


def _with_nulls(relation: Relation | RowRelation, row: Any) -> Any:
    """Return a row with a null for each optional column that it leaves out: TOML has no nulls."""
    if not isinstance(row, Mapping):
        return row
    return {**{column.name: None for column in relation.columns if is_optional(column.type)}, **row}


def _as_written(message: str, called: str) -> str:
    """Return why rows are refused, without the headline of a batch, and with the place in front."""
    lines = [line.strip() for line in message.split("\n")[1:]] or [message]
    return "\n".join(line if line.startswith(called) else f"{called}: {line}" for line in lines)


def differences(
    where: str, relation: Relation | RowRelation, wanted: Sequence[Row], found: Sequence[Row]
) -> Iterator[str]:
    """Yield the lines of a comparison of rows: missing ones with ``-``, unexpected ones with ``+``."""
    missing, unexpected = set(wanted) - set(found), set(found) - set(wanted)
    if not missing and not unexpected:
        return
    counts = [
        f"{counted(len(rows), 'row')} {'is' if len(rows) == 1 else 'are'} {word}"
        for rows, word in ((missing, "missing (-)"), (unexpected, "unexpected (+)"))
        if rows
    ]
    yield f"{where}: {', '.join(counts)}"
    marked = [*((row, "-") for row in missing), *((row, "+") for row in unexpected)]
    marked.sort(key=lambda row: ([(value is not None, value) for value in row[0]], row[1]))
    rows = ((sign, *map(_as_list, row)) for row, sign in marked[:SHOWN])
    names = [column.name for column in relation.columns]
    lines = table_lines(["", *names], rows)
    for number, line in enumerate(lines):
        if number != 1:  # no rule under the names
            yield f"  {line}"
    if len(marked) > SHOWN:
        yield f"  ... and {len(marked) - SHOWN:,} more"


def _as_list(value: Any) -> Any:
    """Return a value with its tuples as lists, as they are printed."""
    return list(map(_as_list, value)) if isinstance(value, tuple) else value


# JUnit


def junit(outcomes: Sequence[TestOutcome], mistakes: Sequence[tuple[Path, str]]) -> str:
    """Return the outcomes of tests as a JUnit XML document. ``mistakes`` are test files that could not be read, each
    with the reason."""
    root = ElementTree.Element("testsuites", name="flintlog")
    suites: dict[Path, list[TestOutcome]] = {}
    for outcome in outcomes:
        suites.setdefault(outcome.case.file, []).append(outcome)
    for file, ran in suites.items():
        suite = _suite(root, file, ran)
        for outcome in ran:
            seconds = f"{outcome.seconds:.3f}"
            entry = _entry(suite, file, outcome.case.name, seconds)
            if outcome.result != "passed":
                _reason(entry, "failure" if outcome.result == "failed" else "error", outcome.lines)
    for file, reason in mistakes:
        suite = _suite(root, file, [], errors=1)
        _reason(_entry(suite, file, file.name, "0.000"), "error", reason.split("\n"))
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{sum(outcome.seconds for outcome in outcomes):.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, file: Path, ran: Sequence[TestOutcome], errors: int = 0) -> ElementTree.Element:
    results = [outcome.result for outcome in ran]
    return ElementTree.SubElement(
        root,
        "testsuite",
        name=_xml(file.as_posix()),
        tests=str(len(ran) + errors),
        failures=str(results.count("failed")),
        errors=str(results.count("error") + errors),
        skipped="0",
        time=f"{sum(outcome.seconds for outcome in ran):.3f}",
    )


def _entry(suite: ElementTree.Element, file: Path, name: str, seconds: str) -> ElementTree.Element:
    classname = ".".join(file.with_name(file.name.removesuffix(".toml")).parts).strip("/.")
    return ElementTree.SubElement(
        suite, "testcase", classname=_xml(classname), name=_xml(name), file=_xml(file.as_posix()), time=seconds
    )


def _reason(entry: ElementTree.Element, kind: str, lines: Sequence[str]) -> None:
    ElementTree.SubElement(entry, kind, message=_xml(lines[0]), type=kind).text = _xml("\n".join(lines))


def _xml(text: str) -> str:
    """Return a text without the characters that XML does not have."""
    return visible_lines(text)
