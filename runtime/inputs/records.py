"""Parse the records of CSV and JSON, and match the columns of sources."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..kernel.errors import JobError, Refused
from ..kernel.model import Program, Relation
from ..kernel.sql import element_type, is_list, is_optional, plain_type
from ..kernel.values import shown
from .dialects import USUAL, Dialect, better_delimiter
from .values import BLANKS, OPERATION_NAMES, Absent, RowShape, Unreadable, json_decoder

PROBLEMS_LISTED = 5

NO_HEADER = "there is none"

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""No values of further columns."""

LONGEST_RECORD = 64 * 1024 * 1024

Warn = Callable[[str], None]

Record = list[Any] | str
"""The values of a row in the order of RowShape.names, or a message why there are none: Unreadable if only this row is
concerned."""

# The kinds of typed values that a column type accepts, if not only its own.
TAKEN_KINDS = {
    "int": ("int", "decimal"),
    "float": ("float", "int", "decimal"),
    "decimal": ("decimal", "int"),
    "order": ("int", "decimal", "date", "timestamp"),
}


class Problems:
    """The problems of a batch: the first messages, the total count, and advice to the user."""

    def __init__(self) -> None:
        """Start without problems."""
        self.listed: list[str] = []
        self.count = 0
        self.advice: dict[str, None] = {}

    def add(self, *messages: str) -> None:
        """Add problems."""
        self.count += len(messages)
        self.listed += messages[: PROBLEMS_LISTED - len(self.listed)]

    def refuse(self) -> None:
        """Raise Refused if there is any problem."""
        if self.count:
            more = self.count > len(self.listed)
            problems = [*self.listed, *([f"... {self.count} problems in all"] if more else [])]
            raise Refused(str(refused(*problems)), options="".join(f"\n  {line}" for line in self.advice))


def refused(*lines: str) -> Refused:
    """Return the error that refuses a batch for these reasons."""
    return Refused("refused, nothing has changed:" + "".join(f"\n  {line}" for line in lines))


def input_relation(program: Program, name: str) -> Relation:
    """Return the input relation called ``name``; raise JobError if there is none."""
    for relation in program.relations:
        if relation.kind == "input" and relation.name == name and not relation.clock:
            return relation
    raise no_input(program, name)


def no_input(program: Any, name: str) -> JobError:
    """Return the error for a name that no input relation of a program has, which is one of any methods."""
    inputs = ", ".join(sorted(r.name for r in program.relations if r.kind == "input" and not r.clock)) or "none"
    if any(relation.name == name and not relation.hidden for relation in program.relations):
        return JobError(f"{name} is not an input relation; {program.name} has these: {inputs}")
    return JobError(f"there is no relation {name}; the input relations of {program.name}: {inputs}")


# Columns


def match_columns(
    found: list[str], file: str, shape: RowShape, problems: Problems, warn: Warn
) -> list[int | None] | None:
    """Return the positions of the wanted columns among those of a file, with None for an absent operation column. Add
    problems and return None if a column is missing or ambiguous."""
    places: list[int | None] = []
    before = problems.count
    for name in shape.names:
        if found.count(name) > 1:
            problems.add(f"{file}: column {name} occurs {found.count(name)} times")
        elif name not in found and name != shape.operation:
            similar = [other for other in found if other.strip().lower() == name.lower()]
            hint = f"; there is {shown(similar[0])}, but names are matched exactly" if similar else ""
            problems.add(f"{file}: column {name} is missing{hint}")
        places.append(found.index(name) if name in found else None)
    if shape.operation not in found:
        check_operations(found, file, shape, problems)
    for name in found:
        if name not in shape.names:
            warn(f"{file}: column {name} is not used")
    return places if problems.count == before else None


def check_operations(found: Iterable[str], file: str, shape: RowShape, problems: Problems) -> None:
    """Add a problem for a file that has columns ``found`` but no operation column, unless ``all_inserts`` is set or the
    rows are initial and no column looks like operations. With ``all_inserts``, no column of changes may look like them:
    its deletions would be insertions."""
    similar = [name for name in found if looks_like_operation(name) and name not in shape.names]
    if shape.initial and (shape.all_inserts or not similar):
        return
    if shape.all_inserts:
        problems.add(*(f"{file}: column {shown(name)} looks like operations, which are not read" for name in similar))
        if similar:
            named = f"--op-column {shown(similar[0])}"
            problems.advice[f"pass {named} if it holds them, or rename or remove it if it does not"] = None
        return
    if shape.initial:
        problems.add(f"{file}: column {shown(similar[0])} looks like operations, but initial rows are all insertions")
        problems.advice["remove such a column, or pass --all-inserts if it does not hold operations"] = None
        return
    own = [column.name for column in shape.relation.columns if looks_like_operation(column.name)]
    hint = f"; {', '.join(map(shown, similar))} looks like it" if similar else ""
    hint = hint or (f"; {', '.join(own)} is a column of the relation" if own else "")
    problems.add(f"{file}: column {shape.operation} is missing, which holds the operation of each change{hint}")
    named = f"--op-column {shown(similar[0])}" if similar else "--op-column NAME"
    problems.advice[
        f"pass {named} if it has another name, or --all-inserts if all rows of files without it are insertions"
    ] = None


def looks_like_operation(name: str) -> bool:
    """Return whether a column has a usual name of operation columns, regardless of case and punctuation."""
    return bool(OPERATION_NAMES.fullmatch(re.sub(r"[\W_]+", "", name).lower()))


# CSV


def csv_records(
    records: Iterator[list[str | None] | str], width: int, places: Sequence[int | None], constant: Sequence[str | None]
) -> Iterator[Record]:
    """Yield the records of a CSV file, whose header has a ``width``, with the values at ``places``. Behind its own, a
    record has ``constant`` ones."""
    for record in records:
        if isinstance(record, str):
            yield record
        elif len(record) != width:
            yield Unreadable(f"{len(record)} fields instead of {width}", record)
        else:
            values = [*record, *constant]
            yield [Absent.ABSENT if place is None else values[place] for place in places]


def csv_header(records: Iterator[list[str | None] | str], shape: RowShape, dialect: Dialect) -> list[str | None] | str:
    """Return the header, which is the first of the records, unless the file has none."""
    if dialect.header and not dialect.plain:
        return next(records, NO_HEADER)
    return [*dialect.columns] or [column.name for column in shape.relation.columns]


def match_header(
    header: list[str | None] | str,
    file: str,
    shape: RowShape,
    problems: Problems,
    warn: Warn,
    dialect: Dialect = USUAL,
    constant: Mapping[str, str | None] = NOTHING,
) -> list[int | None] | None:
    """Return the positions of the wanted columns in a CSV header and the ``constant`` columns behind it; add problems
    and return None if it does not fit."""
    if isinstance(header, str):
        problems.add(f"{file}, header: {header}")
        return None
    columns = [name or "" for name in header]
    needed = [column.name for column in shape.relation.columns if column.name not in constant]
    if needed and not any(name.lower() in {*map(str.lower, columns)} for name in shape.names):
        header_text, needed_text = ", ".join(columns), ", ".join(needed)
        problems.add(f"{file} has no header: it starts with {shown(header_text)}, not with the columns {needed_text}")
        better = better_delimiter(dialect.delimiter.join(columns), needed)
        if better:
            problems.advice[f"the columns are there with another delimiter: add {better} to the place"] = None
        return None
    return match_columns([*columns, *constant], file, shape, problems, warn)


def plain_records(lines: Iterator[str], shape: RowShape, dialect: Dialect) -> Iterator[list[str | None] | str]:
    """Yield the fields of each line of a plain file; the one row without columns is written ``()``."""
    if dialect.header:
        next(lines, "")
    for line in lines:
        text = line.rstrip("\r\n")
        if shape.relation.columns:
            yield [*text.split(dialect.delimiter)]
        else:
            yield [] if text == "()" else Unreadable(f"{shown(text)} instead of (), the one row without columns", text)


def split_csv(lines: Iterator[str], dialect: Dialect = USUAL) -> Iterator[list[str | None] | str]:
    """Yield the fields of each record, None for a null; for a malformed record, a message."""
    quote, delimiter = dialect.quote, dialect.delimiter
    usual = dialect.nulls == USUAL.nulls
    for line in lines:
        if not quote or quote not in line:
            text = line.rstrip("\r\n")
            if text:
                fields = text.split(delimiter)
                yield [field or None for field in fields] if usual else [*map(dialect.value, fields)]
            continue
        record = line
        split = split_quoted(record.rstrip("\r\n"), dialect)
        while split is None:
            added = open_field_lines(lines, quote)
            if not added:
                # All that follows belongs to the field: no further record is found.
                yield "a quote is not closed"
                break
            record += added
            split = split_quoted(record.rstrip("\r\n"), dialect)
        else:
            yield Unreadable(split, record.rstrip("\r\n")) if isinstance(split, str) else split


def open_field_lines(lines: Iterator[str], quote: str) -> str:
    """Return the lines up to one that may close an open quote; empty if none does within LONGEST_RECORD."""
    added, size = [], 0
    for line in lines:
        added.append(line)
        size += len(line)
        if line.count(quote) % 2:
            return "".join(added)
        if size > LONGEST_RECORD:
            break
    return ""


def split_quoted(record: str, dialect: Dialect) -> list[str | None] | str | None:
    """Return the fields of a record with quotes, None if it continues on the next line, a message if malformed."""
    fields: list[str | None] = []
    position = 0
    while True:
        field = dialect.one_field.match(record, position)
        if field is None:
            return None if dialect.open_field.match(record, position) else "text after a closing quote"
        quoted = field[1]
        fields.append(dialect.value(field[2]) if quoted is None else quoted.replace(dialect.quote * 2, dialect.quote))
        position = field.end() + 1
        if position > len(record):
            return fields


# JSON


class Members:
    """The members of the records of a JSON file: those that are ``unused``, and by whether a row has an operation the
    ``first`` such row."""

    def __init__(self) -> None:
        """Start without records."""
        self.unused: dict[str, None] = {}
        self.first: dict[bool, int] = {}

    def check(self, file: str, shape: RowShape, problems: Problems, warn: Warn) -> None:
        """Add a problem if operations are missing that should be there, and warn of unused members."""
        if len(self.first) == 2:
            row, other = self.first[False], self.first[True]
            problems.add(f"{file}, row {row}, column {shape.operation}: missing, but row {other} has it")
        elif False in self.first:
            check_operations(sorted(self.unused), file, shape, problems)
        for name in sorted(self.unused):
            warn(f"{file}: column {name} is not used")


def json_records(
    lines: Iterator[str], shape: RowShape, constant: Mapping[str, Any], members: Members
) -> Iterator[Record]:
    """Yield the records of a JSON Lines file, with the values of further columns that are ``constant``; note their
    ``members``."""
    names = shape.names
    for number, line in enumerate((line for line in lines if line.strip(BLANKS)), start=1):
        try:
            record = json_decoder().decode(line)
        except json.JSONDecodeError as error:
            yield Unreadable(f"broken JSON: {error.msg} at character {error.pos + 1}", line.strip(BLANKS))
        except (ValueError, RecursionError) as error:
            yield Unreadable(f"broken JSON: {error}", line.strip(BLANKS))
        else:
            if isinstance(record, dict) and not constant.keys().isdisjoint(record):
                twice = shown(min(constant.keys() & record))
                yield Unreadable(f"{twice} is a member and in the name of the folder", line.strip(BLANKS))
            elif isinstance(record, dict):
                record |= constant
                members.unused |= dict.fromkeys(record.keys() - names)
                members.first.setdefault(shape.operation in record, number)
                yield [record.get(name, Absent.ABSENT) for name in names]
            else:
                yield Unreadable("not a JSON object", line.strip(BLANKS))


# Types


def check_kinds(kinds: Mapping[str, str], file: str, shape: RowShape, problems: Problems) -> bool:
    """Return whether the relation accepts the column types of a typed source; add problems for those it does not."""
    before = problems.count
    for name, kind in zip(shape.names, shape.types, strict=True):
        lacking = shape.left_out is not None and kind not in ("operation", "order") and kinds.get(name) == "null"
        if name in kinds and not lacking and not takes(kind, kinds[name]):
            problems.add(f"{file}: column {name} has the type {kinds[name]} and should be {kind}")
    return problems.count == before


def takes(wanted: str, found: str) -> bool:
    """Return whether a column of type ``wanted`` accepts values of kind ``found``; elements are compared for lists."""
    if is_optional(wanted):
        return found == "null" or takes(plain_type(wanted), found)
    if is_list(wanted):
        return is_list(found) and takes(element_type(wanted), element_type(found))
    short = {"operation": "string"}.get(wanted, wanted.split("(")[0])
    return found in TAKEN_KINDS.get(short, (short,))
