"""Read and write relations as files in a folder, one per relation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import JobError
from ..inputs.dialects import USUAL, Dialect, split_dialect
from ..inputs.nulls import left_out_counts, left_out_text
from ..inputs.paths import files_at, format_of, opened_file, relation_name, unknown_format
from ..inputs.records import NOTHING, Problems, Record, Warn, checked_rows, operation_column
from ..inputs.values import Absent, InputShape, shown
from ..model import Program, Relation
from ..printing import shown_lines, value_text
from ..sql import names, plain_column
from .session import Row, Session

FACTS_FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".facts": "tsv",
    ".tsv": "tsv",
}


@dataclass(frozen=True)
class LocalFile:
    """A file on this machine with rows of a relation; ``dialect`` and ``partition`` are as in InputFile."""

    path: Path
    dialect: Dialect = USUAL
    partition: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def format(self) -> str:
        """The format of the file: ``csv``, ``json``, ``parquet`` or ``tsv``."""
        return facts_format(self.path)

    def __str__(self) -> str:
        """Return the path, for messages."""
        return str(self.path)

    def open(self) -> Any:
        """Open the file for reading bytes."""
        return opened_file(self.path)


@dataclass(frozen=True)
class NamedFile:
    """A text file that a program names for the rows of a relation: its ``path`` in the folder, the character between
    two fields, which have no quotes, and whether there is a line with the names of the columns above the rows."""

    path: str
    separator: str = "\t"
    header: bool = False


def facts_format(path: Path) -> str:
    """Return the format of a file with facts by its name; empty if that is unknown."""
    return format_of(path.name) or FACTS_FORMATS.get(path.suffix.lower(), "")


def read_facts(
    program: Program,
    folder: Path,
    warn: Warn,
    all_inserts: bool = False,
    nulls: str = "refuse",
    named: Mapping[str, NamedFile] = NOTHING,
) -> dict[str, Any]:
    """Return the staged rows of the input relations in the files of a folder, as an Arrow table for each table.

    A relation without a file stays empty, with a warning. If ``nulls`` is ``skip``, rows with nulls in columns that are
    never null are left out, with a warning. ``named`` are the files that the program names for relations. Other names
    that begin with a dot or ``_`` are ignored, except those of input relations. Raise :class:`JobError` for the first
    problems of files and rows, including files that belong to no relation, and OSError if the folder cannot be read.
    """
    inputs = [r for r in program.relations if r.kind == "input"]
    found: dict[str, list[Path]] = {relation.name: [] for relation in inputs}
    problems = Problems()
    place, dialect = split_dialect(str(folder))
    folder = Path(place)
    known_files = {Path(file.path).parts[0] for file in named.values()}
    for path in sorted(folder.iterdir()):
        name = facts_name(path)
        if path.name in known_files:
            continue
        if path.name.startswith(("_", ".")) and name not in found:
            continue
        if path.is_dir() and name in found:
            found[name].append(path)
        elif not path.is_file():
            problems.add(f"{path} is {'a folder' if path.is_dir() else 'not a file'}; give each relation a file")
        elif not facts_format(path):
            problems.add(f"{path} {unknown_format(FACTS_FORMATS)}")
        elif name not in found:
            known = ", ".join(sorted(found)) or "none"
            problems.add(f"{path}: there is no input relation {name}; those of {program.name}: {known}")
        else:
            found[name].append(path)
    changes: dict[str, Any] = {}
    left_out = left_out_counts(nulls)
    for relation in inputs:
        files = found[relation.name]
        if relation.name in named and (folder / named[relation.name].path).is_file():
            shape = InputShape(relation, operation_column(relation, none=True), "", True, "", all_inserts, left_out)
            path = folder / named[relation.name].path
            changes[relation.table] = read_text(path, shape, problems, named[relation.name])
        elif len(files) > 1:
            problems.add(f"{relation.name} has several files: {', '.join(map(str, files))}")
        elif not files:
            warn(f"{folder} has no file for {relation.name}, which is therefore empty")
        else:
            operation = operation_column(relation, none=all_inserts)
            shape = InputShape(relation, operation, "", True, "", all_inserts, left_out)
            changes[relation.table] = read_place(files[0], shape, problems, warn, dialect)
    problems.refuse()
    for name, number in (left_out or {}).items():
        warn(f"{name}: {left_out_text(number)}")
    return changes


def facts_name(path: Path) -> str:
    """Return the relation that a file or folder with facts is named after."""
    name = relation_name(path)
    return path.stem if name == path.name and path.suffix.lower() in FACTS_FORMATS else name


def read_place(path: Path, shape: InputShape, problems: Problems, warn: Warn, dialect: Dialect) -> Any:
    """Return the staged rows of a file, or of all files in a folder, as one Arrow table."""
    import pyarrow as pa

    if path.is_file():
        return read_file(path, shape, problems, warn, dialect)
    tables = []
    for name, _, partition in files_at(path, shape.relation):
        if format_of(name):
            tables.append(read_file(Path(name), shape, problems, warn, dialect, partition))
        else:
            problems.add(f"{name} {unknown_format()}")
    if not tables:
        problems.add(f"{path} has no file with rows")
        return one_table([], shape)
    found = pa.concat_tables(tables)
    if len(tables) > 1:
        check_keys(found, str(path), shape, problems)
    return found


def read_file(
    path: Path,
    shape: InputShape,
    problems: Problems,
    warn: Warn,
    dialect: Dialect = USUAL,
    partition: Mapping[str, str | None] = NOTHING,
) -> Any:
    """Return the staged rows of one file as an Arrow table."""
    # Imported here because PyArrow is slow to import, and programs without facts do not need it.
    from ..inputs.tables import staged_tables

    file = LocalFile(path, dialect, partition)
    if file.format == "tsv":
        return read_text(path, shape, problems, NamedFile(str(path)))
    found = one_table(staged_tables(file, shape, problems, warn), shape)
    check_keys(found, str(file), shape, problems)
    return found


def read_text(path: Path, shape: InputShape, problems: Problems, file: NamedFile) -> Any:
    """Return the staged rows of a text file without quotes as an Arrow table."""
    from ..inputs.tables import row_tables, staged_schema, text_lines

    lines = text_lines(LocalFile(path))
    if file.header:
        next(lines, "")
    rows = checked_rows(tsv_records(lines, shape, file.separator), str(path), True, shape, problems)
    found = one_table(row_tables(rows, staged_schema(shape)), shape)
    check_keys(found, str(path), shape, problems)
    return found


def one_table(tables: Iterable[Any], shape: InputShape) -> Any:
    """Return staged rows as one Arrow table."""
    import pyarrow as pa

    from ..inputs.tables import staged_schema

    return pa.concat_tables([staged_schema(shape).empty_table(), *tables])


def check_keys(table: Any, name: str, shape: InputShape, problems: Problems) -> None:
    """Add a problem for each row that differs from an earlier row with the same primary key, unless there are problems
    already. ``table`` has the staged rows of a source called ``name``."""
    relation = shape.relation
    if not relation.key or problems.count:
        return
    rows = list(zip(*(table.column(column.sql).to_pylist() for column in relation.columns), strict=True))
    places = [place for place, column in enumerate(relation.columns) if column.sql in relation.key]
    first: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        # Lists cannot be hashed.
        earlier = first.setdefault(repr([row[place] for place in places]), number)
        if rows[earlier - 1] != row:
            key = ", ".join(f"{relation.columns[p].name} = {shown(row[p])}" for p in places)
            # Rows that were left out have no place in the table, but in the source.
            told = "two rows have" if shape.left_out else f"row {earlier} has"
            where = name if shape.left_out else f"{name}, row {number}"
            problems.add(f"{where}: {told} the primary key {key}{'' if shape.left_out else ' too'}")


def tsv_records(lines: Iterator[str], shape: InputShape, separator: str = "\t") -> Iterator[Record]:
    """Yield the records of a file in Soufflé's format for facts: with a separator, without header and quotes."""
    columns = shape.relation.columns
    for line in lines:
        text = line.rstrip("\r\n")
        fields = text.split(separator) if columns else []
        if not columns and text != "()":
            yield f"{shown(text)} instead of (), the one row without columns"
        elif len(fields) != len(columns):
            yield f"{len(fields)} fields instead of {len(columns)}"
        else:
            yield [*fields, Absent.ABSENT]


def write_output(session: Session, relation: Relation, path: Path, form: str | NamedFile) -> int:
    """Write the sorted rows of a relation so that :func:`read_facts` reads the same; return their number."""
    columns = [column.name for column in relation.columns]
    if isinstance(form, NamedFile):
        lines = (
            form.separator.join(tsv_field(value, form.separator) for value in row) if columns else "()"
            for row in session.rows(relation)
        )
        return write_lines(path, [*([form.separator.join(columns)] if form.header else []), *lines]) - form.header
    if form == "parquet":
        # A row without columns is written as its operation only, here and in CSV.
        listed = ", ".join(f'{plain_column(c, c.sql)} AS "{c.name}"' for c in relation.columns) or "'+' AS op"
        escaped = str(path).replace("'", "''")
        order = names(relation.tuple_columns, "q.")
        ordered = f"SELECT {listed} FROM {relation.table} AS q ORDER BY {order}"
        session.engine.run(f"COPY ({ordered}) TO '{escaped}' (FORMAT parquet)")
        return session.engine.rows(relation.table)
    rows = session.rows(relation)
    write_lines(path, relation_lines(columns, rows, form))
    return len(rows)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a file; return their number."""
    with path.open("w", encoding="utf-8", newline="") as file:
        return sum(bool(file.write(line + "\n")) for line in lines)


def relation_lines(columns: list[str], rows: list[Row], form: str) -> Iterator[str]:
    """Yield the lines of a file, or of a table for display."""
    if form == "tsv":
        yield from ("\t".join(map(tsv_field, row)) if columns else "()" for row in rows)
    elif form == "csv" and not columns:
        yield from shown_lines(["op"], iter([("+",) for _ in rows]), form)
    else:
        if form == "csv" and (None,) in rows:
            raise JobError("a null in the only column cannot be written as CSV; choose another format")
        yield from shown_lines(columns, iter(rows), form)


def tsv_field(value: Any, separator: str = "\t") -> str:
    """Return a value as a field without quotes; raise JobError if it is null, or contains the separator or a line
    break."""
    kind = "a tab-separated file" if separator == "\t" else f"a file with {shown(separator)} between fields"
    if value is None:
        raise JobError(f"null cannot be written in {kind}; choose another format")
    text = value_text(value)
    if any(mark in text for mark in f"{separator}\r\n"):
        raise JobError(f"{shown(text)} cannot be written in {kind}; choose another format")
    return text
