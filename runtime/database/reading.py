"""Read the rows of a batch from CSV and JSON files of this machine, one by one, and reduce them to net changes."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..inputs.dialects import Dialect
from ..inputs.paths import ListedFile, data_files, files_at, named_places, opened_file, text_lines, typed_partition
from ..inputs.records import (
    PROBLEMS_LISTED,
    Members,
    Problems,
    Record,
    Warn,
    csv_header,
    csv_records,
    json_records,
    match_header,
    no_input,
    plain_records,
    split_csv,
)
from ..inputs.values import (
    REMOVE_KEY,
    Absent,
    Reader,
    RowShape,
    Unreadable,
    left_out_counts,
    read_operation,
    value_reader,
)
from ..kernel.errors import JobError
from ..kernel.values import hashable, plain_value, shown
from ..row_kernel.encodings import encoded
from ..row_kernel.model import RowProgram, RowRelation
from ..store.published_names import operation_column
from ..system.log import Log
from ..system.places import without_scheme
from .schema import ORDERED

StoredChange = tuple[str, tuple[Any, ...]]
"""An operation, and a row of values as they are stored."""


@dataclass
class RowReading:
    """How to read rows: as the ``initial`` ones of a state or as changes, and the name of their operation column.
    ``net`` and ``all_inserts`` are as in RowShape; rows with ``nulls`` are refused, or counted in ``left_out``. With an
    ``order_column``, what was read of relations with a key is ``ordered``, by their names, and ``late`` changes are
    counted. With a ``quarantine``, bad rows are taken ``aside``. ``as_of`` is the time of the batch."""

    initial: bool = False
    op_column: str = "op"
    net: str | None = None
    all_inserts: bool = False
    nulls: str = "refuse"
    order_column: str | None = None
    quarantine: str | None = None
    as_of: str | None = None
    left_out: Counter[str] | None = field(init=False)
    ordered: dict[str, GivenChanges] = field(init=False, default_factory=dict)
    late: Counter[str] = field(init=False, default_factory=Counter)
    aside: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.left_out = left_out_counts(self.nulls)
        if self.quarantine is not None:
            self.aside = SET_ASIDE["open"](self.quarantine)
        if self.net and self.order_column:
            raise JobError("--net cannot be combined with --order-column, which decides by the last change")

    def shape(self, relation: RowRelation) -> RowShape:
        """Return what to read for a relation."""
        operation = operation_column(relation.columns, self.op_column, self.initial and self.all_inserts)
        order = self.order_column or ""
        return RowShape(relation, operation, order, self.initial, self.net or "", self.all_inserts, self.left_out)


def read_batch(
    program: RowProgram, given: str | Sequence[str], reading: RowReading, log: Log
) -> dict[str, list[StoredChange]]:
    """Return the net changes of stored rows by table. Rows are given as ``REL=PATH``, as files or folders named after
    relations, or as a folder of these. Raise Refused, naming the rows, if anything is wrong."""
    sources: dict[str, list[str]] = {}
    files_named = {name: relation.file for name, relation in program.inputs.items() if not relation.clock}
    for item in [given] if isinstance(given, str) else given:
        for name, place in named_places(files_named, item):
            sources.setdefault(name, []).append(place)
    return read_sources(program, sources, reading, log)


def read_sources(
    program: RowProgram, sources: Mapping[str, Sequence[str]], reading: RowReading, log: Log
) -> dict[str, list[StoredChange]]:
    """Return the same for the places of files and folders by relation."""
    problems = Problems()
    changes: dict[str, list[StoredChange]] = {}
    for name, places in sources.items():
        relation = input_named(program, name)
        read = GivenChanges(relation, reading.shape(relation), problems, reading.aside)
        files = [file for place in places for file in rows_files(relation, place, problems)]
        log.event("read", relation=name, files=len(files), bytes=sum(file.size for file in files))
        for file in files:
            read.take_file(file, log.warn)
        if reading.order_column and relation.key:
            reading.ordered[name] = read
        else:
            changes[relation.table] = read.net()
    problems.refuse()
    return changes


def input_named(program: RowProgram, name: str) -> RowRelation:
    """Return the input relation called ``name``; raise JobError if there is none."""
    if name in program.inputs and not program.inputs[name].clock:
        return program.inputs[name]
    raise no_input(program, name)


# Files


class RowsFile(NamedTuple):
    """A file of rows, which prints as its path. ``partition`` has columns and values from the names of its folders."""

    path: str
    format: str
    size: int
    dialect: Dialect
    partition: Mapping[str, str | None]

    def __str__(self) -> str:
        return self.path

    def open(self) -> Any:
        """Open the file for reading bytes."""
        return opened_file(Path(self.path))


def rows_files(relation: RowRelation, place: str, problems: Problems) -> Iterator[RowsFile]:
    """Yield the files behind a place given for a relation. Raise JobError for a URI."""

    def files_here(place: str) -> list[ListedFile]:
        path = without_scheme(place)
        if path is None:
            raise JobError(
                f"{place} is not on this machine, and a state in a database reads files of this machine only"
            )
        return list(files_at(Path(path), [column.name for column in relation.columns]))

    return itertools.starmap(RowsFile, data_files(relation.file, place, problems, files_here))


# Changes


class GivenChange(NamedTuple):
    """A change as it is read: its operation, its row, where it stands, and its order, if it has one."""

    op: str
    row: tuple[Any, ...]
    place: object
    number: int
    order: int = 0


class GivenChanges:
    """The changes of a relation, in the order in which they are read; what is wrong with them is added to
    ``problems``, or taken ``aside`` if only some rows are bad."""

    def __init__(self, relation: Any, shape: RowShape, problems: Problems, aside: Any = None) -> None:
        self.relation, self.shape, self.problems, self.aside = relation, shape, problems, aside
        self.changes: list[GivenChange] = []

    def take_file(self, file: RowsFile, warn: Warn) -> None:
        """Take the rows of a file."""
        lines, shape, problems = text_lines(file, file.open), self.shape, self.problems
        if file.format == "json":
            constant, members = typed_partition(file, file.partition, shape, problems), Members()
            if constant is not None:
                self.take(json_records(lines, shape, constant, members), file, False)
                members.check(str(file), shape, problems, warn)
        elif file.format == "csv":
            dialect = file.dialect
            fields = plain_records(lines, shape, dialect) if dialect.plain else split_csv(lines, dialect)
            header = csv_header(fields, shape, dialect)
            places = match_header(header, str(file), shape, problems, warn, dialect, file.partition)
            if places is not None:
                self.take(csv_records(fields, len(header), places, [*file.partition.values()]), file, True)
        elif file.format in FORMATS:
            FORMATS[file.format](self, file, warn)
        else:
            problems.add(f"{file}: this script reads CSV and JSON; run `flintlog job` with it to read {file.format}")

    def take(self, records: Iterable[Record], place: object, text: bool) -> None:
        """Take the records that fit, at a place; ``text`` says that all their values are text, as in CSV."""
        readers: list[Reader] = [value_reader(column.type, text, self.shape.exact) for column in self.relation.columns]
        readers.append(functools.partial(read_operation, self.shape))
        never, keys, width = self.shape.never_null, self.shape.key_places, len(self.relation.columns)
        if self.shape.order:
            readers.append(ORDERED["reader"]())
        behind = range(width, len(readers))
        for number, record in enumerate(records, 1):
            if isinstance(record, str):
                raw = record.raw if isinstance(record, Unreadable) else None
                self.note_problems(place, number, [("", str(record))], raw, isinstance(record, Unreadable))
                continue
            chosen: Sequence[int] | None = None
            deleted = bool(self.shape.order) and ORDERED["lacks"](self.shape, record)
            if deleted:
                chosen = [*keys, *behind]
            elif never and any(record[i] is None for i in never):
                if not self.shape.removes_keys or any(record[i] is None for i in keys):
                    self.leave_out()
                    continue
                chosen = [*keys, *behind]
            try:
                if chosen is None:
                    values = [read(value) for read, value in zip(readers, record, strict=False)]
                else:
                    values = [read(record[i]) if i in chosen else None for i, read in enumerate(readers)]
            except ValueError:
                wrong = [*self.wrong_values(readers, chosen or range(len(readers)), record)]
                known = zip(self.shape.names, record, strict=False)
                named = {name: value for name, value in known if value is not Absent.ABSENT}
                self.note_problems(place, number, wrong, named, True)
                continue
            order = values.pop() if self.shape.order else 0
            op = values.pop()
            if chosen is not None and not deleted:
                # An insertion that is left out for a null removes the row with its key.
                self.leave_out()
                if op not in "+>":
                    continue
                op = REMOVE_KEY
            self.changes.append(GivenChange(op, tuple(values), place, number, order))

    def leave_out(self) -> None:
        """Count a row that is left out for a null."""
        assert self.shape.left_out is not None
        self.shape.left_out[self.relation.name] += 1

    def wrong_values(self, readers: Sequence[Reader], chosen: Sequence[int], record: Any) -> Iterator[tuple[str, str]]:
        """Yield the columns of a record whose values do not fit, and why."""
        for i in chosen:
            try:
                readers[i](record[i])
            except ValueError as error:
                yield self.shape.names[i], str(error)

    def note_problems(
        self, place: object, number: int, wrong: Sequence[tuple[str, str]], values: Any, apart: bool
    ) -> None:
        """Take a row aside, if it can be told ``apart`` from others, or add what is wrong with it."""
        if self.aside is not None and apart:
            self.aside.add(self.relation, str(place), number, wrong, values)
            return
        where = f"{place}, row {number}"
        self.problems.add(*(f"{where}{column and f', column {column}'}: {reason}" for column, reason in wrong))

    def net(self) -> list[StoredChange]:
        """Return the net changes as they are stored, at most one for each row, unless its copies are counted. A row
        that is both deleted and inserted is a problem, unless it belongs to an update that changes nothing or
        ``shape.net`` says that it stays."""
        stored = row_storing(self.relation)
        if self.relation.copy:
            return [(change.op, stored(change.row)) for change in self.changes]
        if self.shape.order:
            last: list[StoredChange] = ORDERED["last"](self)
            return last
        listed = any(column.type.endswith(("?", ">")) for column in self.relation.columns)
        changes: dict[tuple[Any, ...], list[GivenChange]] = {}
        for change in self.changes:
            changes.setdefault(hashable([*change.row]) if listed else change.row, []).append(change)
        net, contradicted = [], []
        for key, of in changes.items():
            ops = of[0].op if len(of) == 1 else "".join(change.op for change in of)
            inserted = "+" in ops or ">" in ops
            if len(of) > 1 and inserted and not self.shape.net:
                images = not {"+", "-"} & {*ops} and ops.count("<") <= ops.count(">")
                if {"-", "<"} & {*ops} and not images:
                    contradicted.append(key)
            op = REMOVE_KEY if REMOVE_KEY in ops else "+" if inserted else "-"
            net.append((op, stored(of[0].row)))
        for key in sorted(contradicted)[:PROBLEMS_LISTED]:
            self.note_contradiction(changes[key])
        if contradicted:
            self.problems.count += max(len(contradicted) - PROBLEMS_LISTED, 0)
            self.problems.advice["their order is unknown: pass --net insert to keep such rows"] = None
        return net

    def note_contradiction(self, changes: Sequence[GivenChange]) -> None:
        """Add a problem for a row that is both deleted and inserted, with the places of both."""
        values = zip(self.relation.columns, hashable([*changes[0].row]), strict=True)
        text = ", ".join(f"{column.name} = {shown(value)}" for column, value in values) or "the row ()"
        deleted, inserted = (next(c for c in changes if c.op in ops) for ops in ("-<", "+>"))
        self.problems.add(
            f"{self.relation.name}: {text} is both deleted ({deleted.place}, row {deleted.number}) and inserted "
            f"({inserted.place}, row {inserted.number})"
        )


def row_storing(relation: RowRelation) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """Return what makes of a row that was read one as it is stored; one without columns has a constant."""
    kinds = [column.type for column in relation.columns]
    changed = [(place, kind) for place, kind in enumerate(kinds) if kind not in ("int", "string")]

    def stored(row: Sequence[Any]) -> tuple[Any, ...]:
        values = [*row]
        for place, kind in changed:
            if values[place] is not None:
                values[place] = encoded(plain_value(values[place], kind), kind)
        return tuple(values) or (1,)

    return stored


SET_ASIDE: dict[str, Callable[..., Any]] = {}
"""What takes bad rows aside, and writes them to files; its module registers it."""

FORMATS: dict[str, Callable[[GivenChanges, RowsFile, Warn], None]] = {}
"""What takes the rows of files in further formats; their modules register it."""
