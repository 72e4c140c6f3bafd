"""The built-in functions of the language: signatures, summaries, and where they have no value.

This table is complete and the only one: types are inferred from it, ``docs/functions.md`` lists it, and every target
has SQL for each name in it. A signature is written as ``substring(string, int, int): string``. In it, ``T`` is any
type, ``O`` any type whose values have an order and ``N`` any numeric type, each the same throughout the signature;
``decimal`` is any decimal type, and ``...`` after the last parameter allows it to be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .ir import typed

VARIABLES = {"T": "any type", "O": "any type whose values have an order", "N": "int, float or decimal"}
"""The type variables of signatures, with short descriptions."""

Common = Callable[[typed.Type, typed.Type], typed.Type | None]
"""Returns the common type to which values of two types are converted, None if there is none."""


@dataclass(frozen=True)
class Pattern:
    """A type in a signature: a type variable, the name of a type, or a list of the pattern ``element``."""

    name: str
    element: Pattern | None = None

    def __str__(self) -> str:
        return f"list<{self.element}>" if self.element else self.name


@dataclass(frozen=True)
class Match:
    """The types of a call that matches a signature: of its arguments, after conversion, and of its result."""

    arguments: tuple[typed.Type, ...]
    result: typed.Type


@dataclass(frozen=True)
class Signature:
    """The types of a function's parameters and result; ``repeats`` if the last parameter may be repeated."""

    text: str
    parameters: tuple[Pattern, ...]
    result: Pattern
    repeats: bool = False

    def __str__(self) -> str:
        return self.text

    def match(self, given: Sequence[typed.Type], common: Common, widen: bool) -> Match | None:
        """Return how arguments of the types ``given`` match, None if they do not; ``widen`` permits conversions."""
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
        arguments = tuple(_filled(p, t, found) for p, t in zip(parameters, given, strict=True))
        return Match(arguments, _filled(self.result, arguments[0] if arguments else typed.UNKNOWN, found))


def _agree(
    pattern: Pattern, given: typed.Type, found: dict[str, typed.Type], common: Common, widen: bool, inside: bool = False
) -> bool:
    """Return whether the type ``given`` fits a pattern, and bind type variables in ``found``. ``widen`` permits numeric
    conversions, except of ``given`` itself if it is the element type of a list (``inside``)."""
    if pattern.element is not None:
        return given.element is not None and _agree(pattern.element, given.element, found, common, widen, True)
    if given == typed.NOTHING:
        return True
    if pattern.name in VARIABLES:
        bound = found.setdefault(pattern.name, given)
        met = typed.joined(bound, given)
        if met is None and widen and not inside:
            met = common(bound, given)
        elif met is None and widen:
            met = common(bound, given) if common(bound, given) == given else None
        found[pattern.name] = met or bound
        return met is not None
    if pattern.name == given.name:
        return True
    return widen and not inside and pattern.name == "float" and given.numeric


def _is_of(variable: str, type_: typed.Type) -> bool:
    """Return whether a type variable may stand for a type."""
    return {"N": type_.numeric, "O": type_.ordered}.get(variable, True)


def _filled(pattern: Pattern, given: typed.Type, found: dict[str, typed.Type]) -> typed.Type:
    """Return the type of a pattern with the type variables bound in ``found``; ``decimal`` becomes type ``given``."""
    if pattern.element is not None:
        return typed.list_of(_filled(pattern.element, given.element or typed.NOTHING, found))
    if pattern.name in VARIABLES:
        return found.get(pattern.name, typed.NOTHING)
    return given if pattern.name == "decimal" else typed.Type(pattern.name)


@dataclass(frozen=True)
class Function:
    """A built-in function.

    ``partial`` is a phrase that says where it has no value, which fails a batch that needs it; empty if it always has
    one. ``total`` are the types of the first argument for which it always has one nonetheless. ``invents`` says whether
    a recursion can compute unboundedly many values with it. ``group`` and ``summary`` are for the documentation.
    """

    name: str
    group: str
    signatures: tuple[Signature, ...]
    summary: str
    partial: str = ""
    total: tuple[str, ...] = ()
    invents: bool = True

    def may_lack_value(self, given: Sequence[typed.Type]) -> bool:
        """Return whether the function may have no value for arguments of the types ``given``."""
        return bool(self.partial) and given[0].name not in self.total

    def match(self, given: Sequence[typed.Type], common: Common) -> Match | None:
        """Return the match of the first signature that takes the types ``given`` as they are, or else with widening."""
        tries = ((s, widen) for widen in (False, True) for s in self.signatures)
        return next((found for s, widen in tries if (found := s.match(given, common, widen))), None)

    @property
    def tests(self) -> bool:
        """Whether the result is always a bool, so that a call can be used as a literal."""
        return all(signature.result.name == "bool" for signature in self.signatures)


def _pattern(text: str) -> Pattern:
    depth = text.count("list<")
    pattern = Pattern(text.replace("list<", "").replace(">", "").strip())
    for _ in range(depth):
        pattern = Pattern("list", pattern)
    return pattern


def signature(text: str) -> Signature:
    """Parse the text of a signature."""
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
    # The list functions of NDlog programs.
    _function(PATHS, "f_init(T, T): list<T>", "a list of the two arguments", invents=False),
    _function(PATHS, "f_append(T): list<T>", "a list of one element", invents=False),
    _function(
        PATHS,
        "f_concat(list<T>, list<T>): list<T>; f_concat(T, list<T>): list<T>",
        "the two lists joined, or the list with an element prepended (papers use both forms)",
    ),
    _function(PATHS, "f_concatPath(T, list<T>): list<T>", "the list with an element prepended"),
    _function(PATHS, "f_inPath(list<T>, T): bool", "whether the list contains the element", invents=False),
    _function(PATHS, "f_member(list<T>, T): int", "1 if the list contains the element, otherwise 0", invents=False),
    _function(PATHS, "f_size(list<T>): int", "the number of elements", invents=False),
    _function(PATHS, "f_first(list<T>): T", "the first element", "the list is empty", invents=False),
    _function(PATHS, "f_last(list<T>): T", "the last element", "the list is empty", invents=False),
    # Lists.
    _function(LISTS, "size(list<T>): int", "the number of elements", invents=False),
    _function(LISTS, "array_contains(list<T>, T): bool", "whether the list contains the element", invents=False),
    _function(
        LISTS,
        "array_position(list<T>, T): int",
        "the position of the first equal element, from 1; 0 if there is none",
        invents=False,
    ),
    _function(
        LISTS,
        "element_at(list<T>, int): T",
        "the element at a position, from 1; negative positions count from the end",
        "the list has no such position",
        invents=False,
    ),
    _function(
        LISTS,
        "slice(list<T>, int, int): list<T>",
        "the elements from a position (as in `element_at`), at most as many as the third argument; empty if "
        "the list has no such position",
        "the position is 0, or the third argument is negative",
        invents=False,
    ),
    _function(LISTS, "array_append(list<T>, T): list<T>", "the list with an element appended"),
    _function(LISTS, "array_prepend(list<T>, T): list<T>", "the list with an element prepended"),
    _function(
        LISTS,
        "array_remove(list<T>, T): list<T>",
        "the list without the elements equal to the second argument",
        invents=False,
    ),
    _function(
        LISTS,
        "array_distinct(list<T>): list<T>",
        "the list without repeated elements, in the order of their first occurrence",
        invents=False,
    ),
    _function(LISTS, "array_sort(list<O>): list<O>", "the elements in ascending order", invents=False),
    _function(LISTS, "array_min(list<O>): O", "the least element", "the list is empty", invents=False),
    _function(LISTS, "array_max(list<O>): O", "the greatest element", "the list is empty", invents=False),
    _function(
        LISTS, "arrays_overlap(list<T>, list<T>): bool", "whether the lists have an element in common", invents=False
    ),
    _function(LISTS, "flatten(list<list<T>>): list<T>", "the inner lists, joined"),
    _function(
        LISTS, "array_join(list<string>, string): string", "the strings joined, with the second argument between them"
    ),
    # Strings. Characters are Unicode code points.
    _function(STRINGS, "length(string): int", "the number of characters", invents=False),
    _function(STRINGS, "upper(string): string", "the string with a to z in upper case", invents=False),
    _function(STRINGS, "lower(string): string", "the string with A to Z in lower case", invents=False),
    _function(STRINGS, "trim(string): string", "the string without leading and trailing spaces", invents=False),
    _function(STRINGS, "ltrim(string): string", "the string without leading spaces", invents=False),
    _function(STRINGS, "rtrim(string): string", "the string without trailing spaces", invents=False),
    _function(
        STRINGS,
        "substring(string, int): string; substring(string, int, int): string",
        "the characters from a position on, at most as many as the third argument; positions are as in `element_at`",
        invents=False,
    ),
    _function(
        STRINGS, "left(string, int): string", "the first characters, as many as the second argument", invents=False
    ),
    _function(
        STRINGS, "right(string, int): string", "the last characters, as many as the second argument", invents=False
    ),
    _function(STRINGS, "concat(string...): string; concat(list<T>...): list<T>", "the arguments joined, as with `++`"),
    _function(
        STRINGS, "concat_ws(string, string...): string", "the other strings joined, with the first one between them"
    ),
    _function(
        STRINGS,
        "replace(string, string, string): string",
        "the string with each occurrence of the second string replaced by the third; unchanged if the second is empty",
    ),
    _function(
        STRINGS,
        "translate(string, string, string): string",
        "the string with each character of the second string replaced by the character at the same position "
        "in the third, or removed if there is none",
    ),
    _function(
        STRINGS, "reverse(string): string; reverse(list<T>): list<T>", "the characters or elements in reverse order"
    ),
    _function(
        STRINGS,
        "repeat(string, int): string",
        "the string repeated as often as the second argument says",
        "the result would have more than 1,000,000 characters",
    ),
    _function(
        STRINGS,
        "lpad(string, int, string): string",
        "the string cut to a length, or filled up to it at the beginning with the third argument",
        "the result would have more than 1,000,000 characters",
    ),
    _function(
        STRINGS,
        "rpad(string, int, string): string",
        "the string cut to a length, or filled up to it at the end with the third argument",
        "the result would have more than 1,000,000 characters",
    ),
    _function(
        STRINGS,
        "instr(string, string): int",
        "the position of the first occurrence of the second string, from 1; 0 if there is none",
        invents=False,
    ),
    _function(
        STRINGS, "startswith(string, string): bool", "whether the string begins with the second one", invents=False
    ),
    _function(STRINGS, "endswith(string, string): bool", "whether the string ends with the second one", invents=False),
    _function(STRINGS, "contains(string, string): bool", "whether the string contains the second one", invents=False),
    _function(
        STRINGS,
        "split(string, string): list<string>",
        "the parts between occurrences of the second string",
        "the second string is empty",
        invents=False,
    ),
    _function(
        STRINGS,
        "split_part(string, string, int): string",
        "one part of `split`, by its position from 1; negative positions count from the end; empty if there is none",
        "the second string is empty, or the position is 0",
        invents=False,
    ),
    _function(
        STRINGS, "ascii(string): int", "the code point of the first character; 0 if there is none", invents=False
    ),
    _function(STRINGS, "md5(string): string", "the MD5 hash of the string's UTF-8 bytes, as 32 hexadecimal digits"),
    # Numbers.
    _function(
        NUMBERS,
        "abs(N): N",
        "the absolute value",
        "the argument is the least int, which has no opposite",
        total=("float", "decimal"),
        invents=False,
    ),
    _function(NUMBERS, "sign(N): int", "-1, 0 or 1", invents=False),
    _function(
        NUMBERS,
        "floor(N): int",
        "the argument rounded down",
        "the result does not fit an int",
        total=("int",),
        invents=False,
    ),
    _function(
        NUMBERS,
        "ceil(N): int",
        "the argument rounded up",
        "the result does not fit an int",
        total=("int",),
        invents=False,
    ),
    _function(
        NUMBERS, "round(float): float", "the nearest whole number; halves are rounded away from 0", invents=False
    ),
    _function(NUMBERS, "sqrt(float): float", "the square root", "the argument is negative"),
    _function(
        NUMBERS,
        "pmod(int, int): int",
        "the remainder; not negative if the divisor is positive",
        "the divisor is 0",
        invents=False,
    ),
    _function(NUMBERS, "greatest(O, O...): O", "the greatest argument", invents=False),
    _function(NUMBERS, "least(O, O...): O", "the least argument", invents=False),
    _function(NUMBERS, "bit_count(int): int", "the number of set bits, of 64", invents=False),
    # Dates. The calendar ranges from 0001-01-01 to 9999-12-31.
    _function(DATES, "year(date): int; year(timestamp): int", "the year", invents=False),
    _function(DATES, "quarter(date): int; quarter(timestamp): int", "the quarter, 1 to 4", invents=False),
    _function(DATES, "month(date): int; month(timestamp): int", "the month, 1 to 12", invents=False),
    _function(DATES, "day(date): int; day(timestamp): int", "the day of the month", invents=False),
    _function(DATES, "dayofyear(date): int; dayofyear(timestamp): int", "the day of the year", invents=False),
    _function(
        DATES,
        "dayofweek(date): int; dayofweek(timestamp): int",
        "the day of the week, from 1 for Sunday to 7",
        invents=False,
    ),
    _function(
        DATES,
        "weekday(date): int; weekday(timestamp): int",
        "the day of the week, from 0 for Monday to 6",
        invents=False,
    ),
    _function(DATES, "weekofyear(date): int; weekofyear(timestamp): int", "the ISO 8601 week", invents=False),
    _function(DATES, "hour(timestamp): int", "the hour, in UTC", invents=False),
    _function(DATES, "minute(timestamp): int", "the minute", invents=False),
    _function(DATES, "second(timestamp): int", "the second, without fraction", invents=False),
    _function(DATES, "last_day(date): date", "the last day of the month", invents=False),
    _function(
        DATES, "date_add(date, int): date", "the date this many days later", "the result is not in the years 1 to 9999"
    ),
    _function(
        DATES,
        "date_sub(date, int): date",
        "the date this many days earlier",
        "the result is not in the years 1 to 9999",
    ),
    _function(
        DATES,
        "add_months(date, int): date",
        "the date this many months later, or the last day of that month if it is shorter",
        "the result is not in the years 1 to 9999",
    ),
    _function(
        DATES,
        "add_seconds(timestamp, int): timestamp",
        "the timestamp this many seconds later; earlier, if there are fewer than 0",
        "the result is not in the years 1 to 9999",
    ),
    _function(
        DATES, "datediff(date, date): int", "the number of days from the second date to the first", invents=False
    ),
    _function(DATES, "unix_date(date): int", "the number of days since 1970-01-01", invents=False),
    _function(DATES, "make_date(int, int, int): date", "the date of a year, month and day", "there is no such day"),
    _function(
        DATES,
        "to_date(string): date; to_date(timestamp): date",
        "the date in a string `YYYY-MM-DD`, or of a timestamp in UTC",
        "the string is not such a date",
        total=("timestamp",),
        invents=False,
    ),
    # Casts, named after the types of the language.
    _function(
        CASTS,
        "int(string): int; int(N): int; int(bool): int",
        "the int in a string of decimal digits with an optional sign; a number truncated toward 0; 1 for "
        "true, 0 for false",
        "the result does not fit an int, or the string is not an int",
        total=("int", "bool"),
        invents=False,
    ),
    _function(
        CASTS,
        "float(string): float; float(float): float",
        "the float in a string, with or without an exponent",
        "the string is not a float, or is out of range",
        total=("float",),
        invents=False,
    ),
    _function(
        CASTS,
        "string(int): string; string(decimal): string; string(bool): string; string(date): string; "
        "string(string): string",
        "the value as text; decimals with all digits after the point, dates as `YYYY-MM-DD`",
        invents=False,
    ),
)

FUNCTIONS = {function.name: function for function in _ALL}
"""All built-in functions by name."""
