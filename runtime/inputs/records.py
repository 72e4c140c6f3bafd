"""Parse CSV and JSON records, and check rows value by value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ..errors import JobError, Refused
from ..model import Program, Relation
from ..sql import element_type, is_list, is_optional, plain_type
from .dialects import USUAL, Dialect, better_delimiter
from .nulls import any_value, as_removal, key_places, never_null, removes_keys
from .values import BLANKS, OPERATION_NAMES, Absent, InputShape, Reader, Unreadable, json_decoder, reader, shown

PROBLEMS_LISTED = 5

NO_HEADER = "there is none"

NOTHING: Mapping[str, Any] = MappingProxyType({})
"""No values of further columns."""

LONGEST_RECORD = 64 * 1024 * 1024

Warn = Callable[[str], None]

Record = list[Any] | str
"""The values of a row in the order of InputShape.names, or a message why there are none: Unreadable if only this row is
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
            raise Refused(str(refused(*problems, *self.advice)), str(refused(*problems)))


def refused(*lines: str) -> Refused:
    """Return the error that refuses a batch for these reasons."""
    return Refused("refused, nothing has changed:" + "".join(f"\n  {line}" for line in lines))


NO_OPERATION = "\0"
"""The name of the operation column where no column is one."""


def operation_column(relation: Relation, wanted: str = "op", none: bool = False) -> str:
    """Return the name of the operation column, distinct from the relation's own columns; NO_OPERATION if ``none``."""
    if none:
        return NO_OPERATION
    taken = {column.name for column in relation.columns}
    while wanted in taken:
        wanted = "_" + wanted
    return wanted


def input_relation(program: Program, name: str) -> Relation:
    """Return the input relation called ``name``; raise JobError if there is none."""
    for relation in program.relations:
        if relation.kind == "input" and relation.name == name:
            return relation
    inputs = ", ".join(sorted(r.name for r in program.relations if r.kind == "input")) or "none"
    if any(relation.name == name and not relation.hidden for relation in program.relations):
        raise JobError(f"{name} is not an input relation; {program.name} has these: {inputs}")
    raise JobError(f"there is no relation {name}; the input relations of {program.name}: {inputs}")


# Rows


def checked_rows(
    records: Iterable[Record], file: str, text: bool, shape: InputShape, problems: Problems, first: int = 1
) -> Iterator[list[Any]]:
    """Yield valid rows as they are staged; set others aside, or add their problems. Rows are numbered from
    ``first``; if that is 0, they have no numbers, and messages tell them by their values. ``text`` says that all values
    are text."""
    readers = [reader(type_name, shape, text) for type_name in shape.types]
    wanted, removing = never_null(shape), removal_readers(readers, shape)
    by_key = key_readers(readers, shape) if shape.sequences is not None else []
    for number, record in enumerate(records, start=first):
        if isinstance(record, str):
            if shape.aside is not None and isinstance(record, Unreadable):
                shape.aside.add(shape.relation, file, number, [("", str(record))], record.raw)
            else:
                problems.add(f"{file}, row {number}: {record}")
            if shape.numbered:
                yield [None] * len(shape.staged)
            continue
        left_out, used = any(record[place] is None for place in wanted), readers
        if by_key and deletes_key(record, readers, shape):
            left_out, used = False, by_key
        if left_out:
            if shape.numbered:
                yield [None] * len(shape.staged)
                continue
            assert shape.left_out is not None
            shape.left_out[shape.relation.name] += 1
            if not removing or any(record[place] is None for place in key_places(shape)):
                continue
            used = removing
        try:
            values = [read(value) for read, value in zip(used, record, strict=True)]
        except ValueError:
            present = {name: v for name, v in zip(shape.names, record, strict=True) if v is not Absent.ABSENT}
            found = row_problems(shape, used, record)
            if shape.numbered:
                yield [None] * len(shape.staged)
            if shape.aside is not None:
                if left_out and shape.left_out is not None:
                    shape.left_out[shape.relation.name] -= 1
                shape.aside.add(shape.relation, file, number if first else 0, found, present)
                continue
            named = ", ".join(f"{name} {shown(value)}" for name, value in present.items())
            where = f"{file}, row {number}" if first else f"{file}, a row with {named}"
            problems.add(*(f"{where}, column {name}: {reason}" for name, reason in found))
            continue
        if left_out:
            removal = as_removal(values, shape)
            if removal:
                yield removal
            continue
        # A relation without columns is stored with one constant column.
        yield values if shape.relation.columns else [True, *values]


def removal_readers(readers: Sequence[Reader], shape: InputShape) -> list[Reader]:
    """Return readers of the values by which a row that is left out removes a key: those of the key and the operation,
    and any values for other columns. Empty if such rows remove nothing."""
    return key_readers(readers, shape) if removes_keys(shape) else []


def key_readers(readers: Sequence[Reader], shape: InputShape) -> list[Reader]:
    """Return readers of the key and the operation, and any values for other columns."""
    kept = {*key_places(shape), *range(len(shape.relation.columns), len(shape.types))}
    values = map(any_value, (column.type for column in shape.relation.columns))
    others: list[Reader] = [lambda _, value=value: value for value in values]  # type: ignore[misc]
    return [read if place in kept else others[place] for place, read in enumerate(readers)]


def deletes_key(record: Sequence[Any], readers: Sequence[Reader], shape: InputShape) -> bool:
    """Return whether a record is a deletion that lacks values outside the key. A null of an optional column is one."""
    columns, key = shape.relation.columns, key_places(shape)
    size = len(columns)
    others = [(record[place], is_optional(columns[place].type)) for place in range(size) if place not in key]
    if all(value is not Absent.ABSENT and (value is not None or optional) for value, optional in others):
        return False
    try:
        return bool(readers[size](record[size]) == "-")
    except ValueError:
        return False


def row_problems(shape: InputShape, readers: list[Reader], record: list[Any]) -> list[tuple[str, str]]:
    """Return the column of each invalid value of a row, and what is wrong with it."""
    found = []
    for name, read, value in zip(shape.names, readers, record, strict=True):
        try:
            read(value)
        except ValueError as error:
            found.append((name, str(error)))
    return found


def match_columns(
    found: list[str], file: str, shape: InputShape, problems: Problems, warn: Warn
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


def check_operations(found: Iterable[str], file: str, shape: InputShape, problems: Problems) -> None:
    """Add a problem for a file that has columns ``found`` but no operation column, unless ``all_inserts`` is set or the
    rows are initial and no column looks like operations."""
    similar = [name for name in found if looks_like_operation(name) and name not in shape.names]
    if shape.all_inserts or (shape.initial and not similar):
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
    return re.sub(r"[\W_]+", "", name).lower() in OPERATION_NAMES


def csv_records(
    lines: Iterator[str],
    file: str,
    shape: InputShape,
    problems: Problems,
    warn: Warn,
    dialect: Dialect = USUAL,
    constant: Mapping[str, str | None] = NOTHING,
) -> Iterator[Record]:
    """Yield the records of a CSV file after its header, with the values of further columns that are ``constant``."""
    records = split_csv(lines, dialect)
    header = csv_header(records, shape, dialect)
    places = match_header(header, file, shape, problems, warn, dialect, constant)
    if places is None:
        return
    further = [*constant.values()]
    for record in records:
        if isinstance(record, str):
            yield record
        elif len(record) != len(header):
            yield Unreadable(f"{len(record)} fields instead of {len(header)}", record)
        else:
            values = [*record, *further]
            yield [Absent.ABSENT if place is None else values[place] for place in places]


def csv_header(
    records: Iterator[list[str | None] | str], shape: InputShape, dialect: Dialect
) -> list[str | None] | str:
    """Return the header, which is the first of the records, unless the file has none."""
    if dialect.header:
        return next(records, NO_HEADER)
    return [*dialect.columns] or [column.name for column in shape.relation.columns]


def match_header(
    header: list[str | None] | str,
    file: str,
    shape: InputShape,
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
    wanted = [column.name for column in shape.relation.columns if column.name not in constant]
    if wanted and not any(name.lower() in {*map(str.lower, columns)} for name in shape.names):
        found, wanted_text = ", ".join(columns), ", ".join(wanted)
        problems.add(f"{file} has no header: it starts with {shown(found)}, not with the columns {wanted_text}")
        better = better_delimiter(dialect.delimiter.join(columns), wanted)
        if better:
            problems.advice[f"the columns are there with another delimiter: add {better} to the place"] = None
        return None
    return match_columns([*columns, *constant], file, shape, problems, warn)


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


def json_records(
    lines: Iterator[str],
    file: str,
    shape: InputShape,
    problems: Problems,
    warn: Warn,
    constant: Mapping[str, Any] = NOTHING,
) -> Iterator[Record]:
    """Yield the records of a JSON Lines file, with the values of further columns that are ``constant``."""
    unused: dict[str, None] = {}
    # The numbers of the first row with an operation (True) and of the first one without (False).
    first: dict[bool, int] = {}
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
                unused |= dict.fromkeys(record.keys() - shape.names)
                first.setdefault(shape.operation in record, number)
                yield [record.get(name, Absent.ABSENT) for name in shape.names]
            else:
                yield Unreadable("not a JSON object", line.strip(BLANKS))
    if len(first) == 2:
        problems.add(f"{file}, row {first[False]}, column {shape.operation}: missing, but row {first[True]} has it")
    elif False in first:
        check_operations(sorted(unused), file, shape, problems)
    for name in sorted(unused):
        warn(f"{file}: column {name} is not used")


def check_kinds(kinds: Mapping[str, str], file: str, shape: InputShape, problems: Problems) -> bool:
    """Return whether the relation accepts the column types of a typed source; add problems for those it does not."""
    before = problems.count
    for name, wanted in zip(shape.names, shape.types, strict=True):
        lacking = shape.left_out is not None and wanted not in ("operation", "order") and kinds.get(name) == "null"
        if name in kinds and not lacking and not takes(wanted, kinds[name]):
            problems.add(f"{file}: column {name} has the type {kinds[name]} and should be {wanted}")
    return problems.count == before


def takes(wanted: str, found: str) -> bool:
    """Return whether a column of type ``wanted`` accepts values of kind ``found``; elements are compared for lists."""
    if is_optional(wanted):
        return found == "null" or takes(plain_type(wanted), found)
    if is_list(wanted):
        return is_list(found) and takes(element_type(wanted), element_type(found))
    short = {"operation": "string"}.get(wanted, wanted.split("(")[0])
    return found in TAKEN_KINDS.get(short, (short,))
