"""Stable names: what relations and columns are called in SQL and Python, derived from the names in the source; and
how many of something there are, in words."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

#: Words that one of the engines, or a reader of the SQL, takes for something else.
RESERVED = frozenset(
    """
    all alter analyse analyze and anti any array as asc asof asymmetric at authorization between binary both by case
    cast check collate collation column columns concurrently connect_by_root constraint create cross cube
    current_catalog current_date current_role current_time current_timestamp current_user date default deferrable
    delete desc describe distinct div do drop else end except exists extract false fetch filter first following for
    force foreign freeze from full generated glob grant group having ilike in initially inner insert install
    intersect interval into is isnull join key lambda last lateral leading left like limit localtime localtimestamp
    lock map minus natural not notnull null offset on only or order out outer over overlaps partition partitioned_by
    pivot pivot_longer pivot_wider placing positional preceding primary qualify range references regexp returning
    revoke right rlike rollback rollup row rows select semi session_user set show similar some struct summarize
    symmetric table tablesample then time timestamp to trailing true try_cast uncache union unique unknown unpack
    unpivot update user using values variadic verbose view when where window with xor
    """.split()  # noqa: SIM905
)


def sql_names(names: Iterable[str], taken: Iterable[str] = ()) -> Mapping[str, str]:
    """An SQL identifier for each of ``names``, in order, all different also for engines that ignore case.

    A name keeps its spelling where it can. Qualified names join with an underscore; a leading underscore, a double
    underscore (which marks the compiler's own names) and reserved words are changed; a name that then collides with
    an earlier one gets a number.
    """
    used = {name.lower() for name in taken}
    result: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"_+", "_", re.sub(r"\W", "_", name)).lstrip("_") or "x"
        plain = f"x{plain}" if plain[0].isdigit() else plain
        plain = f"{plain}_" if plain.lower() in RESERVED else plain
        candidate, number = plain, 2
        while candidate.lower() in used:
            candidate, number = f"{plain}_{number}", number + 1
        used.add(candidate.lower())
        result[name] = candidate
    return result


def constant_name(*parts: str) -> str:
    """The name of a Python constant: ``R2_DELTA_LINK`` for ``r2``, ``delta``, ``link``."""
    return re.sub(r"_+", "_", re.sub(r"\W", "_", "_".join(parts))).strip("_").upper()


def unused(name: str, taken: Collection[str]) -> str:
    """``name``, or ``name`` with the first number that makes it differ from all ``taken``."""
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    return candidate


def counted(number: int, noun: str) -> str:
    """How many there are: ``1 row``, ``2 rows``, ``no rows``."""
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
