"""Stable names: what relations and columns are called in SQL and Python, derived from the names in the source; and
how many of something there are, in words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping

#: Words that one of the engines, or a reader of the SQL, takes for something else.
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


#: What engines call columns that a table has without declaring them: DuckDB numbers rows (and hides that number behind
#: a column of the same name), and both tell of the file that a row was read from. No column of ours is called so.
PSEUDO_COLUMNS = frozenset(
    """
    ctid file_block_length file_block_start file_index file_modification_time file_name file_path file_row_number
    file_size filename grouping__id grouping_id input_file_name metadata oid rowid rownum tableoid
    """.split()  # noqa: SIM905
)

#: How long an SQL name may be. Folders of the state are called after tables, and a folder's name has at most 255 bytes.
LONGEST_NAME = 120


def sql_names(names: Iterable[str], taken: Iterable[str] = ()) -> Mapping[str, str]:
    """Return an SQL identifier for each of ``names``, all different also for engines that ignore case.

    A name keeps its spelling where it can. Qualified names join with an underscore. Leading underscores and double
    underscores are dropped: the former mark columns of the job's own, the latter its tables. Reserved words and names
    of pseudo-columns get an underscore, and very long names end in a hash. A name that then collides with another gets
    a number; names that keep their spelling come first, so that no other name takes theirs.
    """
    return apart({name: _plain(name) for name in names}, taken)


def apart(wanted: Mapping[str, str], taken: Iterable[str] = ()) -> Mapping[str, str]:
    """Return for each name the identifier that it wants, or that with a number, so that all differ also without case.

    Names that can be called as they are come first; among others, and among those that differ in case only, the earlier
    one.
    """
    used = {name.lower() for name in taken}
    made: dict[str, str] = {}
    for name, plain in wanted.items():
        if name == plain and name.lower() not in used:
            used.add(name.lower())
            made[name] = name
    for name in [name for name in wanted if name not in made]:
        candidate, number = wanted[name], 2
        while candidate.lower() in used:
            candidate, number = f"{wanted[name].rstrip('_')}_{number}", number + 1
        used.add(candidate.lower())
        made[name] = candidate
    return {name: made[name] for name in wanted}


def _plain(name: str) -> str:
    """Return the identifier that a name becomes unless another one has it."""
    plain = re.sub(r"_+", "_", re.sub(r"\W", "_", name)).lstrip("_") or "x"
    plain = f"x{plain}" if plain[0].isdigit() else plain
    return shortened(f"{plain}_" if plain.lower() in RESERVED | PSEUDO_COLUMNS else plain)


def shortened(name: str) -> str:
    """Return ``name``, or, if it is very long, its beginning and a hash of it."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9].rstrip('_')}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def called_otherwise(name: str, made: str) -> bool:
    """Return whether other versions of the compiler, or of the program, may give column ``name`` another SQL name than
    ``made``: it does not follow from the name alone, or avoids that of a pseudo-column."""
    plain = name.strip("_").lower()
    return made.strip("_").lower() != re.sub(r"_+", "_", plain) or plain in PSEUDO_COLUMNS


def constant_name(*parts: str) -> str:
    """Return the name of a Python constant: ``R2_DELTA_LINK`` for ``r2``, ``delta``, ``link``."""
    plain = re.sub(r"_+", "_", re.sub(r"\W", "_", "_".join(parts))).strip("_").upper()
    return f"X{plain}" if plain[:1].isdigit() else plain


def unused(name: str, taken: Collection[str]) -> str:
    """``name``, or ``name`` with the first number that makes it differ from all ``taken``."""
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def counted(number: int, noun: str) -> str:
    """How many there are: ``1 row``, ``2 rows``, ``no rows``."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
