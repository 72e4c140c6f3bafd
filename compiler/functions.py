"""The functions of the language: their signatures, what they give, and where they have no value.

The table is closed, and this is its one place: types are inferred from it, ``docs/functions.md`` lists it, and every
target has SQL for each name in it. A signature is written as ``substring(string, int, int): string``. In it, ``T``
stands for any type, ``O`` for one whose values have an order and ``N`` for a number, each the same throughout the
signature; ``decimal`` stands for any decimal type, and ``...`` behind the last parameter lets it stand several times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .ir import typed

#: Type variables of signatures, and in a few words what they stand for.
VARIABLES = {"T": "any type", "O": "any type whose values have an order", "N": "int, float or decimal"}

#: The type in which values of two types meet, None if there is none.
Common = Callable[[typed.Type, typed.Type], typed.Type | None]


@dataclass(frozen=True)
class Pattern:
    """A type in a signature: a type variable, a type's name, or a list of patterns."""

    name: str
    element: Pattern | None = None

    def __str__(self) -> str:
        return f"list<{self.element}>" if self.element else self.name


@dataclass(frozen=True)
class Match:
    """How a call fits a signature: the types of its arguments, converted, and that of its value."""

    arguments: tuple[typed.Type, ...]
    result: typed.Type


@dataclass(frozen=True)
class Signature:
    """What a function takes and gives; ``repeats`` says whether the last parameter may stand several times."""

    text: str
    parameters: tuple[Pattern, ...]
    result: Pattern
    repeats: bool = False

    def __str__(self) -> str:
        return self.text

    def match(self, given: Sequence[typed.Type], common: Common, widen: bool) -> Match | None:
        """How arguments of these types fit, None if they do not; with ``widen`` numbers may be converted."""
        parameters = list(self.parameters)
        if self.repeats and len(given) > len(parameters):
            parameters += parameters[-1:] * (len(given) - len(parameters))
        if len(parameters) != len(given):
            return None
        found: dict[str, typed.Type] = {}
        if not all(_agree(p, t, found, common, widen) for p, t in zip(parameters, given, strict=True)):
            return None
        if any(not _is_of(kind, found[kind]) for kind in found):
            return None
        wanted = tuple(_filled(p, t, found) for p, t in zip(parameters, given, strict=True))
        return Match(wanted, _filled(self.result, wanted[0] if wanted else typed.UNKNOWN, found))


def _agree(
    pattern: Pattern, given: typed.Type, found: dict[str, typed.Type], common: Common, widen: bool, inside: bool = False
) -> bool:
    """Whether a type fits a pattern, noting what type variables stand for; elements of lists are never converted."""
    if pattern.element is not None:
        return given.element is not None and _agree(pattern.element, given.element, found, common, widen, True)
    if given == typed.NOTHING:
        return True
    if pattern.name in VARIABLES:
        known = found.setdefault(pattern.name, given)
        met = typed.joined(known, given)
        if met is None and widen and not inside:
            met = common(known, given)
        elif met is None and widen:
            met = common(known, given) if common(known, given) == given else None
        found[pattern.name] = met or known
        return met is not None
    if pattern.name == given.name:
        return True
    return widen and not inside and pattern.name == "float" and given.numeric


def _is_of(variable: str, type_: typed.Type) -> bool:
    """Whether a type is one that a type variable stands for."""
    return {"N": type_.numeric, "O": type_.ordered}.get(variable, True)


def _filled(pattern: Pattern, given: typed.Type, found: dict[str, typed.Type]) -> typed.Type:
    """The type that a pattern has become; a decimal one is that of the argument."""
    if pattern.element is not None:
        return typed.list_of(_filled(pattern.element, given.element or typed.NOTHING, found))
    if pattern.name in VARIABLES:
        return found.get(pattern.name, typed.NOTHING)
    return given if pattern.name == "decimal" else typed.Type(pattern.name)


@dataclass(frozen=True)
class Function:
    """A function of the table.

    ``partial`` says in a few words where it has no value, which stops a batch that needs it; empty if it always has
    one. ``total`` are types of the first argument for which it has one nonetheless. ``invents`` says whether a
    recursion can make ever new values with it. ``summary`` is what the documentation says.
    """

    name: str
    group: str
    signatures: tuple[Signature, ...]
    summary: str
    partial: str = ""
    total: tuple[str, ...] = ()
    invents: bool = True

    def may_lack_value(self, given: Sequence[typed.Type]) -> bool:
        """Whether there are arguments of these types for which it has no value."""
        return bool(self.partial) and given[0].name not in self.total

    def match(self, given: Sequence[typed.Type], common: Common) -> Match | None:
        """How arguments of these types fit the first signature that takes them as they are, or else converted."""
        tries = ((s, widen) for widen in (False, True) for s in self.signatures)
        return next((found for s, widen in tries if (found := s.match(given, common, widen))), None)

    @property
    def tests(self) -> bool:
        """Whether it gives a truth value, so that a call can stand as a literal."""
        return all(signature.result.name == "bool" for signature in self.signatures)


def _pattern(text: str) -> Pattern:
    depth = text.count("list<")
    found = Pattern(text.replace("list<", "").replace(">", "").strip())
    for _ in range(depth):
        found = Pattern("list", found)
    return found


def signature(text: str) -> Signature:
    """A signature from its text."""
    inside, _, result = text.partition("(")[2].rpartition("):")
    repeats = inside.endswith("...")
    parameters = inside.removesuffix("...").split(",") if inside.strip() else []
    return Signature(text, tuple(map(_pattern, parameters)), _pattern(result), repeats)


def _function(
    group: str, texts: str, summary: str, partial: str = "", *, total: tuple[str, ...] = (), invents: bool = True
) -> Function:
    signatures = tuple(signature(text) for text in texts.split("; "))
    return Function(texts.partition("(")[0], group, signatures, summary, partial, total, invents)


LISTS, PATHS, STRINGS, NUMBERS, DATES, CASTS = (
    "Lists",
    "Lists, as NDlog has them",
    "Strings",
    "Numbers",
    "Dates",
    "Casts",
)

_ALL = (
    # What NDlog programs use.
    _function(PATHS, "f_init(T, T): list<T>", "the list of two elements", invents=False),
    _function(PATHS, "f_append(T): list<T>", "the list of one element", invents=False),
    _function(
        PATHS,
        "f_concat(list<T>, list<T>): list<T>; f_concat(T, list<T>): list<T>",
        "two lists joined, or an element in front of a list, as the papers write it",
    ),
    _function(PATHS, "f_concatPath(T, list<T>): list<T>", "an element in front of a list"),
    _function(PATHS, "f_inPath(list<T>, T): bool", "whether a list holds an element", invents=False),
    _function(PATHS, "f_member(list<T>, T): int", "1 if a list holds an element, otherwise 0", invents=False),
    _function(PATHS, "f_size(list<T>): int", "the number of elements", invents=False),
    _function(PATHS, "f_first(list<T>): T", "the first element", "the list is empty", invents=False),
    _function(PATHS, "f_last(list<T>): T", "the last element", "the list is empty", invents=False),
    # Lists.
    _function(LISTS, "size(list<T>): int", "the number of elements", invents=False),
    _function(LISTS, "array_contains(list<T>, T): bool", "whether a list holds an element", invents=False),
    _function(
        LISTS,
        "array_position(list<T>, T): int",
        "the place of the first element that is equal, counted from 1; 0 if there is none",
        invents=False,
    ),
    _function(
        LISTS,
        "element_at(list<T>, int): T",
        "the element at a place, counted from 1, or from -1 backwards",
        "the list has no such place",
        invents=False,
    ),
    _function(
        LISTS,
        "slice(list<T>, int, int): list<T>",
        "so many elements from a place on, counted as in `element_at`; empty if the list has no such place",
        "the place is 0, or the number negative",
        invents=False,
    ),
    _function(LISTS, "array_append(list<T>, T): list<T>", "a list with an element behind it"),
    _function(LISTS, "array_prepend(list<T>, T): list<T>", "a list with an element in front of it"),
    _function(LISTS, "array_remove(list<T>, T): list<T>", "a list without the elements that are equal", invents=False),
    _function(LISTS, "array_distinct(list<T>): list<T>", "the elements, each where it stands first", invents=False),
    _function(LISTS, "array_sort(list<O>): list<O>", "the elements in ascending order", invents=False),
    _function(LISTS, "array_min(list<O>): O", "the least element", "the list is empty", invents=False),
    _function(LISTS, "array_max(list<O>): O", "the greatest element", "the list is empty", invents=False),
    _function(
        LISTS, "arrays_overlap(list<T>, list<T>): bool", "whether two lists have an element in common", invents=False
    ),
    _function(LISTS, "flatten(list<list<T>>): list<T>", "the lists in a list, joined"),
    _function(LISTS, "array_join(list<string>, string): string", "the strings of a list, with a string between them"),
    # Strings. Characters are Unicode code points.
    _function(STRINGS, "length(string): int", "the number of characters", invents=False),
    _function(STRINGS, "upper(string): string", "with the letters a to z in upper case", invents=False),
    _function(STRINGS, "lower(string): string", "with the letters A to Z in lower case", invents=False),
    _function(STRINGS, "trim(string): string", "without spaces at both ends", invents=False),
    _function(STRINGS, "ltrim(string): string", "without spaces at the beginning", invents=False),
    _function(STRINGS, "rtrim(string): string", "without spaces at the end", invents=False),
    _function(
        STRINGS,
        "substring(string, int): string; substring(string, int, int): string",
        "from a place on, counted from 1 or from -1 backwards, at most so many characters",
        invents=False,
    ),
    _function(STRINGS, "left(string, int): string", "the first characters", invents=False),
    _function(STRINGS, "right(string, int): string", "the last characters", invents=False),
    _function(
        STRINGS, "concat(string...): string; concat(list<T>...): list<T>", "strings or lists joined, as `++` does"
    ),
    _function(STRINGS, "concat_ws(string, string...): string", "strings joined, with the first one between them"),
    _function(
        STRINGS,
        "replace(string, string, string): string",
        "with the third string in the place of the second; an empty one is nowhere",
    ),
    _function(
        STRINGS,
        "translate(string, string, string): string",
        "with each character of the second string replaced by the one at its place in the third, or left out",
    ),
    _function(STRINGS, "reverse(string): string; reverse(list<T>): list<T>", "backwards, character by character"),
    _function(
        STRINGS, "repeat(string, int): string", "so many times", "the result would have more than 1000000 characters"
    ),
    _function(
        STRINGS,
        "lpad(string, int, string): string",
        "cut or filled at the beginning to so many characters",
        "the result would have more than 1000000 characters",
    ),
    _function(
        STRINGS,
        "rpad(string, int, string): string",
        "cut or filled at the end to so many characters",
        "the result would have more than 1000000 characters",
    ),
    _function(
        STRINGS,
        "instr(string, string): int",
        "the place of the first occurrence of the second string, counted from 1; 0 if there is none",
        invents=False,
    ),
    _function(STRINGS, "startswith(string, string): bool", "whether it begins with the second string", invents=False),
    _function(STRINGS, "endswith(string, string): bool", "whether it ends with the second string", invents=False),
    _function(STRINGS, "contains(string, string): bool", "whether the second string occurs in it", invents=False),
    _function(
        STRINGS,
        "split(string, string): list<string>",
        "the parts between the occurrences of the second string, which is no pattern here",
        "the second string is empty",
        invents=False,
    ),
    _function(
        STRINGS,
        "split_part(string, string, int): string",
        "one of these parts, counted from 1 or from -1 backwards; empty if there is none",
        "the second string is empty, or the place 0",
        invents=False,
    ),
    _function(
        STRINGS, "ascii(string): int", "the code point of the first character; 0 if there is none", invents=False
    ),
    _function(STRINGS, "md5(string): string", "the MD5 of its UTF-8, in 32 hexadecimal digits"),
    # Numbers.
    _function(
        NUMBERS,
        "abs(N): N",
        "without its sign",
        "of the least int, which has no opposite",
        total=("float", "decimal"),
        invents=False,
    ),
    _function(NUMBERS, "sign(N): int", "-1, 0 or 1", invents=False),
    _function(
        NUMBERS,
        "floor(N): int",
        "the greatest int that is not greater",
        "it does not fit an int",
        total=("int",),
        invents=False,
    ),
    _function(
        NUMBERS,
        "ceil(N): int",
        "the least int that is not less",
        "it does not fit an int",
        total=("int",),
        invents=False,
    ),
    _function(NUMBERS, "round(float): float", "the nearest whole number; halves away from 0", invents=False),
    _function(NUMBERS, "sqrt(float): float", "the square root", "of a negative number"),
    _function(
        NUMBERS,
        "pmod(int, int): int",
        "the remainder that is not negative where the divisor is not",
        "the divisor is 0",
        invents=False,
    ),
    _function(NUMBERS, "greatest(O, O...): O", "the greatest", invents=False),
    _function(NUMBERS, "least(O, O...): O", "the least", invents=False),
    _function(NUMBERS, "bit_count(int): int", "the number of bits set, of 64", invents=False),
    # Dates. The calendar is from 0001-01-01 to 9999-12-31.
    _function(DATES, "year(date): int; year(timestamp): int", "the year", invents=False),
    _function(DATES, "quarter(date): int; quarter(timestamp): int", "the quarter, 1 to 4", invents=False),
    _function(DATES, "month(date): int; month(timestamp): int", "the month, 1 to 12", invents=False),
    _function(DATES, "day(date): int; day(timestamp): int", "the day of the month", invents=False),
    _function(DATES, "dayofyear(date): int; dayofyear(timestamp): int", "the day of the year", invents=False),
    _function(DATES, "dayofweek(date): int; dayofweek(timestamp): int", "1 for Sunday to 7", invents=False),
    _function(DATES, "weekday(date): int; weekday(timestamp): int", "0 for Monday to 6", invents=False),
    _function(DATES, "weekofyear(date): int; weekofyear(timestamp): int", "the week as ISO 8601 counts", invents=False),
    _function(DATES, "hour(timestamp): int", "the hour, in UTC", invents=False),
    _function(DATES, "minute(timestamp): int", "the minute", invents=False),
    _function(DATES, "second(timestamp): int", "the second, without its fraction", invents=False),
    _function(DATES, "last_day(date): date", "the last day of the month", invents=False),
    _function(DATES, "date_add(date, int): date", "so many days later", "the calendar ends before"),
    _function(DATES, "date_sub(date, int): date", "so many days earlier", "the calendar begins later"),
    _function(
        DATES,
        "add_months(date, int): date",
        "so many months later, on the last day of a month that is too short",
        "the calendar ends before",
    ),
    _function(DATES, "datediff(date, date): int", "the days from the second to the first", invents=False),
    _function(DATES, "unix_date(date): int", "the days since 1970-01-01", invents=False),
    _function(DATES, "make_date(int, int, int): date", "of year, month and day", "there is no such day"),
    _function(
        DATES,
        "to_date(string): date; to_date(timestamp): date",
        "the date written `YYYY-MM-DD`, or that of a moment",
        "the string is no such date",
        total=("timestamp",),
        invents=False,
    ),
    # Casts, named after the types of the language.
    _function(
        CASTS,
        "int(string): int; int(N): int; int(bool): int",
        "a whole number: of decimal digits with a sign, cut toward 0, or 1 for true",
        "it does not fit an int, or the string has something else",
        total=("int", "bool"),
        invents=False,
    ),
    _function(
        CASTS,
        "float(string): float; float(float): float",
        "a float: of a decimal number, with an exponent or without",
        "the string has something else, or is beyond the floats",
        total=("float",),
        invents=False,
    ),
    _function(
        CASTS,
        "string(int): string; string(decimal): string; string(bool): string; string(date): string; "
        "string(string): string",
        "as text; a decimal with all digits behind its point, a date as `YYYY-MM-DD`",
        invents=False,
    ),
)

#: The functions by name.
FUNCTIONS = {function.name: function for function in _ALL}
