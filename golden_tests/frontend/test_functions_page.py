"""docs/functions.md lists the functions of the compiler's table, no more and no fewer."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from flintlog.compiler.functions import FUNCTIONS, VARIABLES, Function

from .golden import compare

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"

INTRODUCTION = """\
# Functions

Calls stand in expressions, `C = length(S) + 1`, and those that give a bool as literals too: `f_inPath(P, X)`,
`!contains(S, "a")`, `f_inPath(P, X) = false`. As a literal, a relation of the program goes before a function of its
name.

Names and meanings are those of Spark SQL, in the types of the language: an `int` has 64 bits, characters are Unicode
code points, places count from 1, strings compare by code points. Each function gives the same in both engines on
whatever it is given. Where the table says that it has no value, a batch that needs the value is refused, as by a
division by zero; a condition that keeps it from being needed (`f_size(P) > 0, X = f_first(P)`) will do. Numbers are
converted as in arithmetic, an int to a float for instance.

In the signatures, {variables}. `decimal` is
any decimal type, and `...` says that the last parameter may stand several times.
"""

ENDING = """
## What is different from Spark, and what is left out

* `upper` and `lower` change the letters a to z only, since engines disagree about others. `trim`, `ltrim` and `rtrim`
  take away spaces only, no other white space.
* `split` takes its second argument as it stands, not as a regular expression, and has no third.
* `floor`, `ceil` and `sign` give an int; `round` takes floats only, and no number of digits, because engines disagree
  on halves that floats do not have exactly. The parts of dates are ints of 64 bits, as all ints are.
* `int`, `float` and `string` make values of the types of the language, and read text strictly: no white space around
  a number, no `NaN`, no infinity. `string` does not take floats, which engines write differently.
* `exp`, `ln`, `log10`, `power` and the trigonometric functions are left out: their last digits depend on the engine.
  So are regular expressions (`like`, `rlike`, `regexp_replace`), whose dialects differ, `initcap`, formats of dates and
  numbers, and what depends on the time, on chance or on the session.

## Values that are lists

A list type is written `list<T>`; elements are of any type, lists included, and never null. Lists are equal if they
have the same elements in the same order. `<`, `min` and `max` compare them by the first elements that differ, a
beginning being less than what it is the beginning of; a list of bools has no order. `++` joins lists of one type. An
empty list takes its type from where it stands: a declared column, the other side of a comparison or of `++`, the other
elements of a list.

A CSV file has a list as a JSON array in a field, `1,"[1, 2]"`; JSON lines have an array, Parquet a list column. Inside
an array values are written as in JSON lines: strings, dates and timestamps in quotes, decimals with or without.
CSV and JSON lines with lists in them are read row by row in the driver: give large inputs as Parquet.

## Functions of your own

`extern function risk(x: int, s: string): float` declares a Python function. The job takes the file that defines it,
`--functions FILE.py`, with `init`, `apply`, `verify`, `rebuild`, `upgrade` and `explain`; called from Python it
takes the file's name or a mapping: `apply(spark, ..., functions={"risk": risk})`. The file may import what is installed
where Spark's tasks run.

* It must be deterministic, and depend on its arguments alone: views stay exact only if it gives the same today and
  tomorrow. It is called as often as the engine likes, also for rows that no derivation needs in the end.
* It takes and returns `int`, `float`, `str`, `bool`, `decimal.Decimal`, `datetime.date`, `datetime.datetime` and lists
  (tuples will do); an int is good enough for a float. Nothing else is converted.
* If it raises an exception, or returns None or what is no value of its type, the call has no value: a batch that needs
  it is refused, naming the rule, the function and its arguments, and the state is as it was.
* The state remembers a hash of the file that defines each function. `apply` refuses to go on with another file, be
  it a comment that changed, since nobody can tell what it would give for the tuples that are there; `rebuild` and
  `upgrade` recompute them. Keep the functions in a file of their own. What that file imports is not looked at, nor are
  functions that no file defines: after changing those, `rebuild`.
"""


def row(function: Function) -> str:
    """A function's row of the table."""
    signatures = "<br>".join(f"`{signature}`" for signature in function.signatures)
    lacking = function.partial
    if lacking and function.total:
        lacking += f" (never for {' and '.join(f'`{name}`' for name in function.total)})"
    return f"| {signatures} | {function.summary} | {lacking} |"


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION.format(variables=", ".join(f"`{name}` is {what}" for name, what in VARIABLES.items()))]
    for group, functions in groupby(FUNCTIONS.values(), lambda function: function.group):
        lines = [f"\n## {group}\n", "| signature | gives | no value if |", "|---|---|---|", *map(row, functions)]
        parts.append("\n".join(lines) + "\n")
    return "".join([*parts, ENDING])


def test_page_lists_the_functions(update_golden: bool) -> None:
    """The page is what the table says; ``--update-golden`` writes it anew."""
    compare(page(), PAGE, update_golden)


def test_table_is_large_and_in_groups() -> None:
    """Functions of a group stand together, under their own names, and no two signatures of one are alike."""
    groups = [group for group, _ in groupby(FUNCTIONS.values(), lambda function: function.group)]
    assert len(groups) == len(set(groups)) and len(FUNCTIONS) > 60
    for name, function in FUNCTIONS.items():
        assert all(str(signature).startswith(f"{name}(") for signature in function.signatures)
        assert len({signature.parameters for signature in function.signatures}) == len(function.signatures)
