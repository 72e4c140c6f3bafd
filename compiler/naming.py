"""Stable SQL and Python names, derived from the names in the source; and counts and errors in words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

RESERVED = frozenset(
    """
    all alter analyse analyze and anti any array as asc asof asymmetric at authorization between binary both by call
    case cast check collate collation collations column columns concurrently connect_by_root constraint create cross
    cube current_catalog current_date current_path current_role current_schema current_time current_timestamp
    current_user date default deferrable delete desc describe distinct div do drop else end escape except execute exists
    extract false fetch filter first following for force foreign freeze from full generated glob grant group having
    ilike in initially inner insert install intersect interval into is isnull join key lambda last lateral leading left
    like limit localtime localtimestamp lock map minus natural not notnull null offset on only or order out outer over
    overlaps partition partitioned_by pivot pivot_longer pivot_wider placing positional preceding primary qualify range
    recursive references regexp returning revoke right rlike rollback rollup row rows select semi session_user set show
    similar some sql stream struct summarize symmetric table tablesample then time timestamp to trailing true try_cast
    tuple uncache union unique unknown unpack unpivot update user using values variadic verbose view when where window
    with within xor
    """.split()  # noqa: SIM905
)
"""Words that an engine or another reader of the SQL does not take for plain identifiers."""


PSEUDO_COLUMNS = frozenset(
    """
    ctid file_block_length file_block_start file_index file_modification_time file_name file_path file_row_number
    file_size filename grouping__id grouping_id input_file_name metadata oid rowid rownum tableoid
    """.split()  # noqa: SIM905
)
"""Columns that engines add to tables implicitly: DuckDB has row numbers (which a column of the same name hides), and
both engines have the file that a row was read from. Generated columns never have these names."""

LONGEST_NAME = 120
"""The maximum length of an SQL name. State folders are named after tables, and a folder name has at most 255 bytes."""


def sql_names(names: Iterable[str], taken: Iterable[str] = ()) -> Mapping[str, str]:
    """Return an SQL identifier for each of ``names``; they differ even if case is ignored, also from ``taken``.

    Names keep their spelling where possible. The parts of qualified names are joined with an underscore. Leading
    underscores are dropped and double ones reduced to one, since they mark a job's internal columns and tables.
    Reserved words and names of pseudo-columns get an underscore appended, and very long names end in a hash. A name
    that then collides with another gets a number; names that keep their spelling take precedence.
    """
    return apart({name: _plain(name) for name in names}, taken)


def apart(wanted: Mapping[str, str], taken: Iterable[str] = ()) -> Mapping[str, str]:
    """Return the ``wanted`` identifier of each name, with a number if it otherwise equals another or one of ``taken``.

    Case is ignored. Names that equal their identifier take precedence over others, and earlier names over later ones.
    """
    used = {name.lower() for name in taken}
    chosen: dict[str, str] = {}
    for name, plain in wanted.items():
        if name == plain and name.lower() not in used:
            used.add(name.lower())
            chosen[name] = name
    for name in [name for name in wanted if name not in chosen]:
        candidate, number = wanted[name], 2
        while candidate.lower() in used:
            candidate, number = f"{wanted[name].rstrip('_')}_{number}", number + 1
        used.add(candidate.lower())
        chosen[name] = candidate
    return {name: chosen[name] for name in wanted}


def _plain(name: str) -> str:
    """Return the SQL identifier for a name, before collisions are resolved."""
    plain = re.sub(r"_+", "_", re.sub(r"\W", "_", name)).lstrip("_") or "x"
    plain = f"x{plain}" if plain[0].isdigit() else plain
    return shortened(f"{plain}_" if plain.lower() in RESERVED | PSEUDO_COLUMNS else plain)


def shortened(name: str) -> str:
    """Return ``name``, or if it is longer than :data:`LONGEST_NAME` its beginning and a hash of it."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9].rstrip('_')}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def called_otherwise(name: str, made: str) -> bool:
    """Return whether other versions of the compiler or of the program may give column ``name`` another SQL name than
    ``made``, because that does not follow from ``name`` alone or avoids a pseudo-column."""
    plain = name.strip("_").lower()
    return made.strip("_").lower() != re.sub(r"_+", "_", plain) or plain in PSEUDO_COLUMNS


def constant_name(*parts: str) -> str:
    """Return the name of a Python constant: ``R2_DELTA_LINK`` for ``r2``, ``delta``, ``link``."""
    plain = re.sub(r"_+", "_", re.sub(r"\W", "_", "_".join(parts))).strip("_").upper()
    return f"X{plain}" if plain[:1].isdigit() else plain


def unused(name: str, taken: Collection[str]) -> str:
    """Return ``name``, with the first number from 2 on that makes it differ from all ``taken`` if it is taken."""
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def counted(number: int, noun: str) -> str:
    """Return a count in words: ``1 row``, ``2 rows`` or ``no rows``."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def reason(error: OSError) -> str:
    """Return the system's message for an error, with a lower-case first letter for use within a sentence."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
