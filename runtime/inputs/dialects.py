"""How CSV files are written, as options behind a place say: ``sale.csv?delimiter=;&null=NA``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from urllib.parse import unquote

from ..kernel.errors import JobError
from ..kernel.model import NamedFile
from ..kernel.values import shown

DIALECT_OPTIONS = ("delimiter", "quote", "header", "columns", "null")

OPTIONS_BEHIND = re.compile(rf"\?(?=(?:{'|'.join(DIALECT_OPTIONS)})=)")
"""Matches the beginning of options. Any other question mark belongs to the place."""

HEADERS = {"yes": True, "no": False, "true": True, "false": False}

NAMED_DELIMITERS = {"tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


@dataclass(frozen=True)
class Dialect:
    """How CSV files are written: the ``delimiter``; the ``quote``, empty if there is none; whether there is a
    ``header``, and without one the ``columns``, by default those of the relation; and which fields without quotes are
    ``nulls``. In a ``plain`` file, every line is a row, and a header is passed over."""

    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    columns: tuple[str, ...] = ()
    nulls: tuple[str, ...] = ("",)
    given: str = ""
    plain: bool = False
    one_field: re.Pattern[str] = field(init=False)
    open_field: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        """Compile the patterns of a field, and of one whose quote is still open."""
        delimiter = re.escape(self.delimiter)
        plain = rf"([^{delimiter}]*+)(?={delimiter}|\Z)"
        if self.quote:
            q = re.escape(self.quote)
            inside = rf"[^{q}]*+(?:{q}{q}[^{q}]*+)*+"
            plain = rf"{q}({inside}){q}(?={delimiter}|\Z)|(?!{q}){plain}"
            object.__setattr__(self, "open_field", re.compile(rf"{q}{inside}\Z"))
        else:
            plain = rf"(?!)(.)|{plain}"
            object.__setattr__(self, "open_field", re.compile(r"(?!)"))
        object.__setattr__(self, "one_field", re.compile(plain))

    def value(self, text: str) -> str | None:
        """Return a field without quotes, None if it is a null."""
        return None if text in self.nulls else text


USUAL = Dialect()
"""Commas, double quotes, a header, and empty fields for nulls."""

PLAIN = Dialect("\t", "", header=False, nulls=(), plain=True)
"""Facts of Soufflé: tabs, neither quotes nor nulls, and no header."""

PLAIN_SUFFIXES = (".facts", ".tsv")


def dialect_of_file(name: str, dialect: Dialect, named: NamedFile | None) -> Dialect:
    """Return how a file is written, if the options of its place do not say so: as the program says of the file that it
    has ``named``, or as the suffix says."""
    if dialect.given:
        return dialect
    path = PurePath(name)
    if named is not None and path.parts[-len(PurePath(named.path).parts) :] == PurePath(named.path).parts:
        return replace(PLAIN, delimiter=named.separator, header=named.header)
    bare = name.lower().removesuffix(".gz").removesuffix(".zst")
    return PLAIN if bare.endswith(PLAIN_SUFFIXES) else dialect


def split_dialect(place: str) -> tuple[str, Dialect]:
    """Return a place without the options behind it, and what these say; raise JobError if they are not valid."""
    mark = OPTIONS_BEHIND.search(place)
    if mark is None:
        return place, USUAL
    bare, text = place[: mark.start()], place[mark.end() :]
    options: dict[str, list[str]] = {}
    for item in text.split("&"):
        name, separator, value = item.partition("=")
        if name not in DIALECT_OPTIONS or not separator:
            raise JobError(f"{place}: {shown(name)} is no option of CSV files; these are {', '.join(DIALECT_OPTIONS)}")
        if name in options and name != "null":
            raise JobError(f"{place}: {name} is given twice")
        options.setdefault(name, []).append(unquote(value))
    return bare, dialect_of(place, options, text)


def dialect_of(place: str, options: dict[str, list[str]], given: str) -> Dialect:
    """Return what options say; raise JobError, naming the ``place``, if one has a value that makes no sense."""
    first = {name: values[0] for name, values in options.items()}
    delimiter = NAMED_DELIMITERS.get(first.get("delimiter", ","), first.get("delimiter", ","))
    quote = "" if first.get("quote") == "none" else first.get("quote", '"')
    for name, sign in (("delimiter", delimiter), *((("quote", quote),) if quote else ())):
        if len(sign) != 1 or not (sign == "\t" or " " <= sign <= "~"):
            words = ", ".join(NAMED_DELIMITERS) if name == "delimiter" else "none"
            raise JobError(f"{place}: {name}={shown(sign)} must be one character of ASCII, or one of: {words}")
    if delimiter == quote:
        raise JobError(f"{place}: {shown(quote)} cannot be both the delimiter and the quote")
    header = HEADERS.get(first.get("header", "yes"))
    if header is None:
        raise JobError(f"{place}: header={first['header']} must be yes or no")
    columns = tuple(first["columns"].split(",")) if "columns" in first else ()
    if columns and "header" in first and header:
        raise JobError(
            f"{place}: columns= names the columns of files without a header; leave out header={first['header']}"
        )
    if "" in columns:
        raise JobError(f"{place}: columns={first['columns']} has an empty name")
    for null in options.get("null", ()):
        if any(sign and sign in null for sign in (delimiter, quote, "\n", "\r")):
            raise JobError(f"{place}: null={shown(null)} contains a delimiter, a quote or a line end")
    return Dialect(delimiter, quote, header and not columns, columns, tuple(options.get("null", ("",))), given)


def better_delimiter(line: str, names: list[str]) -> str:
    """Return an option that makes the columns of a header those that are wanted; empty if none does."""
    for name, sign in NAMED_DELIMITERS.items():
        if {*names} <= {text.strip(' "\r\n') for text in line.split(sign)}:
            return f"?delimiter={name}"
    return ""
