"""Names that mean something to somebody, in the place of a random program's harmless ones.

A program names relations, columns, variables (which name the columns of relations that are not declared) and rules.
Here it gets names that an engine has for something else (keywords, types, functions, columns of its own), that the job
gives to its tables, columns and aliases, that Python or a file system has a meaning for, names that only differ in
case, and names that become alike once dots and underscores are gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from .language import TOKEN, parse, tokens


class Chooser(Protocol):
    """Answers the questions of those who build random programs."""

    def below(self, n: int) -> int:
        """An integer from 0 to ``n`` - 1; 0 is the simplest."""


KEYWORDS = """
    all analyze and anti any array as asc at between by case cast check column columns cross date day default
    desc describe distinct div double end escape except exists explain extract false_ filter first for from full
    group grouping having hour if in inner interval into is join key lambda last lateral left like limit list
    map minus month natural no not_ null nulls of offset on only or order outer over partition pivot position
    primary range replace right row rows sample select semi set show some sql struct summarize table tablesample
    then time timestamp to trailing true_ try_cast tuple type union unique unknown unnest unpivot user using
    value values view when where window with within year
""".split()  # noqa: SIM905

ENGINES = """
    rowid ROWID Rowid rowid_ _rowid filename file_row_number file_index file_name file_path metadata _metadata
    input_file_name __index_level_0__ _c0 grouping__id spark_partition_id oid ctid current_date
    current_timestamp current_user localtime session_user bigint varchar boolean decimal integer uuid json
    hugeint decimal_ string count sum min max avg hash coalesce greatest nullif abs mod concat len size
    transform read_parquet error main temp memory system information_schema pg_catalog sqlite_master
    duckdb_tables sys
""".split()  # noqa: SIM905

OWN = """
    _rank rank _support support _row _op op OP _Op _present _commit _unit unit _copies _item _item1 item _one
    _place _best best _bucket bucket _gone _behind _change _order _pairs _sum_c1 _ties_c1 _best_c1 _rows _stale
    _mark _count q d s b n k c e f g h l m o p r w a dead absent groups asked absent_0 absent_after _lost
    _gained _folded _1 _1_1 _any changed delta before after lost gained touched entering plus minus_ hit met x
    x1 x_2 X_2 inf derivation infinite total batch batch_ data manifest state published changes con nul
    input output relation derived process domain include symmetric function typedef extern a_b b_c a_b_c by_a a_by_b
""".split()  # noqa: SIM905

PYTHON = """
    def class import None_ lambda print self PROGRAM program Program Relation RELATION Column COLUMN Engine main
    ENGINE init apply engine stratum STRATUM rule Rule names os re T Any Path MAINTAIN JobError OPERATIONS DAY
""".split()  # noqa: SIM905

LONG = "a_name_of_many_characters_" * 5

#: Not variables: what stands before ``<`` is then an aggregate, and these are values or operators.
NO_VARIABLES = frozenset({"count", "sum", "min", "max", "avg", "null"})

TABLES = ("before", "after", "delta", "changed", "lost", "gained", "dead", "groups", "absent_after", "stored", "2")


def with_nasty_names(text: str, chooser: Chooser) -> str:
    """A program of ``random_programs.py`` with other names for some of what it names; the same program otherwise."""
    return _Names(text, chooser).renamed()


class _Names:
    """Chooses names, no two alike in one place."""

    def __init__(self, text: str, chooser: Chooser) -> None:
        self.text, self.chooser = text, chooser
        self.pool = (*ENGINES, *OWN, *KEYWORDS, *PYTHON, LONG, f"{LONG}2", "___", "__x", "x__", "_9")
        self.relations = {name: name for name in parse(text).relations if re.fullmatch(r"\w+", name)}
        self.variables: dict[str, str] = {}
        self.labels: dict[str, str] = {}

    def renamed(self) -> str:
        """The text with its new names."""
        known = list(self.relations)
        self.relations = dict(zip(known, self.different(known, dotted=True), strict=True))
        found = [token.text for token in tokens(self.text) if token.kind == "name"]
        known = [name for name in dict.fromkeys(found) if re.fullmatch("[A-Z][0-9]?", name)]
        self.variables = dict(zip(known, self.different(known, NO_VARIABLES), strict=True))
        known = [name for name in dict.fromkeys(found) if re.fullmatch("n[0-9]+", name)]
        self.labels = dict(zip(known, self.different(known), strict=True))
        return "".join(self.parts())

    def different(
        self,
        names: Sequence[str],
        without: frozenset[str] = frozenset(),
        dotted: bool = False,
        others: Sequence[str] = (),
    ) -> list[str]:
        """A name for each of ``names``, its own in the simplest case; sometimes one of ``others``."""
        made: list[str] = []
        for name in names:
            for _ in range(9):
                chosen = self.pick(others) if others and self.chooser.below(4) == 3 else self.name(name, made, dotted)
                if chosen not in made and chosen not in without and chosen not in names:
                    break
            else:
                chosen = name
            made.append(chosen)
        return made

    def name(self, own: str, others: Sequence[str], dotted: bool) -> str:
        """A name: one of the pool, or one that is like one of ``others``."""
        kind = self.chooser.below(10)
        if kind == 0:
            return own
        if kind < 7 or not others:
            return self.pick(self.pool)
        other = self.pick(others)
        if kind == 7:
            return other.swapcase() if self.chooser.below(2) else other.capitalize()
        if kind == 8:
            return f"{other}{self.pick(('__', '_'))}{self.pick(TABLES)}"
        if dotted:
            parted = re.sub("(?<=[A-Za-z0-9])_(?=[A-Za-z])", ".", other)
            return parted if parted != other else f"{other}.{self.pick(self.pool)}"
        return f"_{other}"

    def pick(self, options: Sequence[str]) -> str:
        """One of ``options``."""
        return options[self.chooser.below(len(options))]

    def parts(self) -> Iterator[str]:
        """The text piece by piece."""
        columns: dict[str, str] = {}
        before = ""
        pieces = list(pieces_of(self.text))
        for place, (kind, piece) in enumerate(pieces):
            behind = next((text for other, text in pieces[place + 1 :] if other != "space"), "")
            if kind != "name":
                yield piece
            elif before == "relation":
                columns = {}
                yield self.relations[piece]
            elif re.fullmatch("c[0-9]", piece):
                # The columns of a declaration, and then those of its key.
                if piece not in columns:
                    declared = re.findall(r"c[0-9](?=:)", self.declaration(pieces, place))
                    others = tuple(self.variables.values())
                    columns = dict(zip(declared, self.different(declared, others=others), strict=True))
                yield columns[piece]
            elif piece in self.labels and behind == ":":
                yield self.labels[piece]
            elif piece in self.relations:
                yield self.relations[piece]
            else:
                yield self.variables.get(piece, piece)
            before = piece if kind != "space" else before

    def declaration(self, pieces: Sequence[tuple[str, str]], place: int) -> str:
        """The text from a place up to the end of the line."""
        return "".join(piece for _, piece in pieces[place:]).split("\n", 1)[0]


def pieces_of(text: str) -> Iterator[tuple[str, str]]:
    """The tokens of a text with what is between them: their kinds and texts."""
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match
        assert match.lastgroup
        yield match.lastgroup, match.group()
        at = match.end()
