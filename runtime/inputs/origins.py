"""Find the places of input rows that a batch is refused for once the state is known."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ..errors import Refused
from ..model import Program, Relation
from ..printing import named_values
from .again import tables_again
from .files import InputFile, Reading, Source, input_files
from .net import table_rows
from .records import Problems


@contextlib.contextmanager
def telling_places(program: Program, place: Callable[[Relation, str], str]) -> Iterator[None]:
    """Add to an error of the body that is about a row its ``place``: a text for the relation and the values."""
    try:
        yield
    except Refused as error:
        if error.about is None:
            raise
        table, named = error.about
        relation = next(relation for relation in program.relations if relation.table == table)
        raise Refused(str(error).replace(named, f"{named}{place(relation, named)}", 1)) from error


def place_in_sources(relation: Relation, named: str, sources: Mapping[str, Sequence[Source]], reading: Reading) -> str:
    """Return where the sources of a batch first delete a row."""
    given = sources.get(relation.name, ())
    files = (file for place in given for file in input_files(relation, place, Problems()))
    return place_of_deletion(relation, named, files, reading)


def place_of_deletion(relation: Relation, named: str, files: Iterable[InputFile], reading: Reading) -> str:
    """Return where a row, given by its values as messages name them, is first deleted, as text for messages; empty if
    no file does so. Rows of tables and DataFrames have no numbers."""
    shape = reading.shape(relation)
    columns = [column.sql for column in relation.row_columns]
    for file in files:
        tables = tables_again(file, shape)
        for number, row in enumerate((row for table in tables for row in table_rows(table)), start=1):
            values = dict(zip(columns, row, strict=False))
            if row[len(columns)] in ("-", "<") and named_values(relation, values) == named:
                return f" ({file}, row {number})"
    return ""
