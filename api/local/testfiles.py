"""Read test files: tests of programs, written in TOML.

[[test]]
name = "a link goes"
given.link = [[1, 2], [2, 3]]

[[test.batch]]
delete.link = [[2, 3]]
expect.reachable = [[1, 2]]
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

SUFFIX = ".test.toml"

FILE_KEYS = ("program", "functions", "test")
TEST_KEYS = ("name", "program", "functions", "error", "as_of", "given", "expect", "refused", "batch")
BATCH_KEYS = ("as_of", "insert", "delete", "expect", "changes", "refused")
CHANGE_KEYS = ("insert", "delete")

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*test[ \t]*\]\]", re.MULTILINE)


class WrongTest(Exception):
    """Raised for a mistake in a test file; the message says where it is."""


RowsByRelation = Mapping[str, Any]
"""Rows by relation: a list of arrays or tables, or the path of a file as text."""


@dataclass(frozen=True)
class TestStep:
    """A batch of a test, or its given facts (``where`` is ``given``), and what is expected after it: the whole rows of
    relations, their net ``changes``, or that it is ``refused`` with a message that contains a text. ``as_of`` is its
    time, by default that of the clock."""

    where: str
    insert: RowsByRelation = field(default_factory=dict)
    delete: RowsByRelation = field(default_factory=dict)
    expect: RowsByRelation = field(default_factory=dict)
    changes: Mapping[str, RowsByRelation] = field(default_factory=dict)
    refused: str | None = None
    as_of: str | date | None = None

    @property
    def checks(self) -> bool:
        """Whether anything is expected."""
        return bool(self.expect or self.changes or self.refused is not None)


@dataclass(frozen=True)
class Case:
    """A test: its place for messages, the program with its file of functions, and either the codes of the ``errors``
    that the compiler must report, or the steps. Paths in rows are relative to ``folder``."""

    file: Path
    place: str
    name: str
    program: Path
    functions: Path | None
    errors: tuple[str, ...] = ()
    steps: tuple[TestStep, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder of the test file."""
        return self.file.parent


def test_files(paths: Sequence[Path]) -> list[Path]:
    """Return the test files among ``paths`` and in the folders among them, without hidden ones, each once."""
    files: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            files[path] = None
            continue
        for file in sorted(path.rglob(f"*{SUFFIX}")):
            if not any(part.startswith(".") for part in file.relative_to(path).parts):
                files[file] = None
    return list(files)


def read_cases(file: Path) -> list[Case]:
    """Return the tests of a file; raise WrongTest for a mistake in it, and OSError if it cannot be read."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        content = tomllib.loads(text, parse_float=Decimal)
    except UnicodeDecodeError as error:
        raise WrongTest(f"{file} is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise WrongTest(f"{file} is not TOML: {error}") from error
    _check_keys(content, FILE_KEYS, str(file))
    tests = content.get("test", [])
    if not isinstance(tests, list) or not tests or not all(isinstance(test, dict) for test in tests):
        raise WrongTest(f"{file}: there is no test; a test begins with a line [[test]]")
    headers = [text.count("\n", 0, header.end()) + 1 for header in _HEADER.finditer(text)]
    # Without a line of its own, or with such a line in a string, a test has no number.
    lines = headers if len(headers) == len(tests) else [0] * len(tests)
    cases: list[Case] = []
    for line, test in zip(lines, tests, strict=True):
        place = f"{file}:{line}" if line else str(file)
        case = _case(file, place, content, test)
        if any(case.name == other.name for other in cases):
            raise WrongTest(f'{place}: there are two tests "{case.name}"')
        cases.append(case)
    return cases


def _case(file: Path, place: str, content: Mapping[str, Any], test: Mapping[str, Any]) -> Case:
    """Return a test of a file."""
    name = _text(test, "name", place)
    if not name:
        raise WrongTest(f"{place}: the test has no name")
    place = f'{place}: test "{name}"'
    _check_keys(test, TEST_KEYS, place)
    default = file.name.removesuffix(".toml").removesuffix(".test") + ".dl"
    program = file.parent / (_text(test, "program", place) or _text(content, "program", str(file)) or default)
    functions = _text(test, "functions", place) or _text(content, "functions", str(file))
    supplied = file.parent / functions if functions else None
    errors = test.get("error", [])
    errors = [errors] if isinstance(errors, str) else errors
    if not isinstance(errors, list) or not all(isinstance(code, str) for code in errors):
        raise WrongTest(f'{place}: error must be a code or a list of codes, such as "E0401"')
    if errors:
        others = [key for key in ("given", "expect", "refused", "batch") if key in test]
        if others:
            raise WrongTest(f"{place}: a program with an error does not run; leave out {', '.join(others)}")
        return Case(file, place, name, program, supplied, tuple(errors))
    steps = tuple(_steps(place, test))
    if not any(step.checks for step in steps):
        raise WrongTest(f"{place}: the test expects nothing; give expect, changes, refused or error")
    return Case(file, place, name, program, supplied, (), steps)


def _steps(place: str, test: Mapping[str, Any]) -> Iterator[TestStep]:
    """Yield the given facts of a test and its batches."""
    yield TestStep(
        "given",
        _table(test, "given", place),
        expect=_table(test, "expect", place),
        refused=_text(test, "refused", place),
        as_of=_time(test, place),
    )
    batches = test.get("batch", [])
    if not isinstance(batches, list) or not all(isinstance(batch, dict) for batch in batches):
        raise WrongTest(f"{place}: a batch must begin with a line [[test.batch]]")
    for number, batch in enumerate(batches, start=1):
        where = f"batch {number}"
        _check_keys(batch, BATCH_KEYS, f"{place}, {where}")
        changes = _table(batch, "changes", f"{place}, {where}")
        for relation, change in changes.items():
            called = f"{place}, {where}, changes.{relation}"
            if not isinstance(change, dict):
                raise WrongTest(f"{called} must be a table, {{ insert = [...], delete = [...] }}")
            _check_keys(change, CHANGE_KEYS, called)
        yield TestStep(
            where,
            _table(batch, "insert", f"{place}, {where}"),
            _table(batch, "delete", f"{place}, {where}"),
            _table(batch, "expect", f"{place}, {where}"),
            changes,
            _text(batch, "refused", f"{place}, {where}"),
            _time(batch, f"{place}, {where}"),
        )


def _check_keys(table: Mapping[str, Any], known: Sequence[str], place: str) -> None:
    for key in table:
        if key not in known:
            raise WrongTest(f"{place}: there is no key {key}; the keys are {', '.join(known)}")


def _text(table: Mapping[str, Any], key: str, place: str) -> str | None:
    text = table.get(key)
    if text is not None and not isinstance(text, str):
        raise WrongTest(f"{place}: {key} must be a string")
    return text


def _time(table: Mapping[str, Any], place: str) -> str | date | None:
    """Return the time of a batch, which may be text."""
    time = table.get("as_of")
    if time is not None and not isinstance(time, str | date):
        raise WrongTest(f"{place}: as_of must be a date or a timestamp")
    return time


def _table(table: Mapping[str, Any], key: str, place: str) -> Mapping[str, Any]:
    content = table.get(key, {})
    if not isinstance(content, dict):
        raise WrongTest(f"{place}: write {key} for each relation: {key}.RELATION = ...")
    return content
