"""Read and write relations as files in a folder, one per relation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..inputs.dialects import USUAL, Dialect, dialect_of_file, split_dialect
from ..inputs.paths import files_at, files_of_relations, format_of, relation_name, unknown_format
from ..inputs.records import NOTHING, Problems, Warn
from ..inputs.values import InputShape, RowShape, left_out_counts, not_taken_text
from ..kernel.errors import JobError
from ..kernel.model import NamedFile, Program, Relation
from ..kernel.values import shown, value_text
from ..row_kernel.model import RowProgram, RowRelation
from ..store.published_names import operation_column
from ..system.printing import shown_lines
from .session import Row


def read_facts(
    program: Program | RowProgram,
    folder: Path,
    warn: Warn,
    all_inserts: bool = False,
    nulls: str = "refuse",
    read: Callable[..., Any] | None = None,
) -> dict[str, Any]:
    """Return the staged rows of the input relations in the files of a folder, as an Arrow table for each table, or as
    ``read`` returns them, which is called like :func:`read_place`.

    A relation without a file stays empty, with a warning. If ``nulls`` is ``skip``, rows with nulls in columns that are
    never null are left out, with a warning. The files that the program names for relations come first. Names that begin
    with a dot or ``_`` are ignored, except those of input relations. Raise :class:`JobError` for the first problems of
    files and rows, including files that belong to no relation, and OSError if the folder cannot be read.
    """
    inputs: list[Any] = [r for r in program.relations if r.kind == "input" and not r.clock]
    paths: dict[str, list[Path]] = {relation.name: [] for relation in inputs}
    problems = Problems()
    place, dialect = split_dialect(str(folder))
    folder = Path(place)
    named = {r.name: folder / r.file.path for r in inputs if r.file and (folder / r.file.path).is_file()}
    for path in files_of_relations(folder, {r.name: r.file for r in inputs}, named):
        name = relation_name(path)
        if path.is_dir() and name in paths:
            paths[name].append(path)
        elif not path.is_file():
            problems.add(f"{path} is {'a folder' if path.is_dir() else 'not a file'}; give each relation a file")
        elif not format_of(path.name):
            problems.add(f"{path} {unknown_format()}")
        elif name not in paths:
            inputs_listed = ", ".join(sorted(paths)) or "none"
            problems.add(f"{path}: there is no input relation {name}; those of {program.name}: {inputs_listed}")
        else:
            paths[name].append(path)
    changes: dict[str, Any] = {}
    left_out = left_out_counts(nulls)
    for relation in inputs:
        files = [named[relation.name]] if relation.name in named else paths[relation.name]
        if len(files) > 1:
            problems.add(f"{relation.name} has several files: {', '.join(map(str, files))}")
        elif not files:
            warn(f"{folder} has no file for {relation.name}, which is therefore empty")
        else:
            operation = operation_column(relation.columns, none=all_inserts)
            shape = InputShape(relation, operation, "", True, "", all_inserts, left_out)
            changes[relation.table] = (read or read_place)(files[0], shape, problems, warn, dialect)
    problems.refuse()
    for name, number in (left_out or {}).items():
        warn(f"{name}: {not_taken_text('left_out', number)}")
    return changes


def read_place(path: Path, shape: InputShape, problems: Problems, warn: Warn, dialect: Dialect) -> Any:
    """Return the staged rows of a file, or of all files in a folder, as one Arrow table."""
    import pyarrow as pa

    tables = [
        read_file(file, shape, problems, warn, dialect, partition)
        for file, partition in files_of_place(path, shape, problems)
    ]
    table = pa.concat_tables(tables or [one_table([], shape)])
    if len(tables) > 1:
        check_keys(rows_of_table(table, shape.relation), str(path), shape, problems)
    return table


def files_of_place(path: Path, shape: RowShape, problems: Problems) -> Iterator[tuple[Path, Mapping[str, str | None]]]:
    """Yield a file, or all files in a folder, each with the columns and values in the names of its folders."""
    if path.is_file():
        yield path, NOTHING
        return
    found = False
    for name, _, partition in files_at(path, [column.name for column in shape.relation.columns]):
        if format_of(name):
            found = True
            yield Path(name), partition
        else:
            problems.add(f"{name} {unknown_format()}")
    if not found:
        problems.add(f"{path} has no file with rows")


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
    from ..inputs.files import InputFile
    from ..inputs.tables import staged_tables

    written = dialect_of_file(str(path), dialect, shape.relation.file)
    file = InputFile(shape.relation, path, format_of(path.name, written), 0, written, partition)
    table = one_table(staged_tables(file, shape, problems, warn), shape)
    check_keys(rows_of_table(table, file.relation), str(file), shape, problems)
    return table


def one_table(tables: Iterable[Any], shape: InputShape) -> Any:
    """Return staged rows as one Arrow table."""
    import pyarrow as pa

    from ..inputs.checks import staged_schema

    return pa.concat_tables([staged_schema(shape).empty_table(), *tables])


def check_keys(rows: Iterable[Row], name: str, shape: RowShape, problems: Problems) -> None:
    """Add a problem for each row of a source called ``name`` that differs from an earlier row with the same primary
    key, unless there are problems already."""
    relation = shape.relation
    if not relation.key or problems.count:
        return
    rows = list(rows)
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


def rows_of_table(table: Any, relation: Relation) -> Iterator[Row]:
    """Yield the staged rows of an Arrow table, as they are stored."""
    yield from zip(*(table.column(column.sql).to_pylist() for column in relation.columns), strict=True)


def write_output(session: Any, relation: Relation | RowRelation, path: Path, form: str | NamedFile) -> int:
    """Write the sorted rows of a relation so that :func:`read_facts` reads the same; return their number."""
    columns = [column.name for column in relation.columns]
    if isinstance(form, NamedFile):
        lines = (
            form.separator.join(tsv_field(value, form.separator) for value in row) if columns else "()"
            for row in session.rows(relation)
        )
        return write_lines(path, [*([form.separator.join(columns)] if form.header else []), *lines]) - form.header
    if form == "parquet":
        import pyarrow.parquet as pq

        # A row without columns is written as its operation only, here and in CSV.
        reader, written = session.arrow(relation), 0
        with path.open("wb") as content, pq.ParquetWriter(content, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
                written += batch.num_rows
        return written
    rows = session.rows(relation)
    write_lines(path, relation_lines(columns, rows, form))
    return len(rows)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write lines to a file; return their number."""
    with path.open("w", encoding="utf-8", newline="") as file:
        return sum(bool(file.write(line + "\n")) for line in lines)


def relation_lines(columns: list[str], rows: Sequence[Row], form: str) -> Iterator[str]:
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
