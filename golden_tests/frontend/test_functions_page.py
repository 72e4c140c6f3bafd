"""docs/functions.md lists the functions of the compiler's table, no more and no fewer."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from flintlog.compiler.functions import FUNCTIONS, VARIABLES, Function

from .golden import compare

PAGE = Path(__file__).parents[2] / "docs" / "functions.md"

INTRODUCTION = """\
# Functions

This page lists the built-in functions and explains how to declare functions of your own. Calls are used in
expressions, such as `C = length(S) + 1`. Calls that return a bool can also be literals, such as `f_inPath(P, X)` and
`!contains(S, "a")`; as a literal, a relation of the program takes precedence over a function of the same name.

Names and meanings are those of Spark SQL, [with some differences](#differences-from-spark). Characters are Unicode
code points. Each function returns the same result in both engines, DuckDB and Spark. Where a function has no value, a
batch that needs the value is rejected, as for a division by zero. A condition can avoid this: with
`f_size(P) > 0, X = f_first(P)` the value is not needed for empty lists. Numbers are converted as in arithmetic, for
example an int to a float.

In the signatures, {variables}. `decimal` is
any decimal type, and `...` means that the last parameter may be repeated.
"""

ENDING = """
## Differences from Spark

* `upper` and `lower` change only the letters a to z, since the engines disagree about others. `trim`, `ltrim` and
  `rtrim` remove only spaces.
* `split` takes its second argument literally, not as a regular expression, and has no third argument.
* `floor`, `ceil` and `sign` return an int. `round` takes only floats, and no number of digits, because the engines
  disagree on halves that floats cannot represent exactly.
* `int`, `float` and `string` convert to the types of the language and parse text strictly: no white space around a
  number, no `NaN`, no infinity. `string` does not accept floats, which the engines print differently.
* `exp`, `ln`, `log10`, `power` and the trigonometric functions are not available, because their last digits depend on
  the engine. Also not available are regular expressions (`like`, `rlike`, `regexp_replace`), whose dialects differ,
  `initcap`, formats of dates and numbers, and functions that depend on time, randomness or the session.

## List values

A list type is written `list<T>`. Elements may have any type, including lists, and are never null; a column
of type `list<T>?` may be null as a whole. Lists are equal if they have the same elements in the same order. `<`, `min`
and `max` compare them by their first differing elements; a
prefix is less than a longer list. A list of bools has no order. `++` concatenates lists of one type. An empty list
takes its type from its context: a declared column, the other side of a comparison or of `++`, or the other elements
of a list.

A CSV file stores a list as a JSON array in a field, `1,"[1, 2]"`; JSON lines use an array, Parquet a list column.
Values within arrays are written as in JSON lines: strings, dates and timestamps in quotes, decimals with or without
quotes. The job reads JSON lines, and CSV files with lists, row by row; use Parquet for large inputs.

## Functions of your own

`extern function risk(x: int, s: string): float` declares a Python function. Pass the file that defines it to the
commands `init`, `apply`, `follow`, `verify`, `rebuild`, `upgrade` and `explain` with `--functions FILE.py`. From
Python, pass the file name or a mapping: `apply(spark, ..., functions={"risk": risk})`. The file may import anything
that is installed where the tasks run. DuckDB needs NumPy to call such functions.

* The function must be deterministic and depend only on its arguments; otherwise views do not stay exact. The engine
  may call it any number of times, also for rows that no derivation needs.
* Arguments and results are `int`, `float`, `str`, `bool`, `decimal.Decimal`, `datetime.date`, `datetime.datetime` and
  lists. Tuples are accepted as lists, and an int as a float. Nothing else is converted.
* If the function raises an exception, or returns None or a value of the wrong type, the call has no value. A batch
  that needs it is rejected with a message that names the rule, the function and its arguments, and the state does not
  change.
* The state stores a hash of the file that defines each function. `apply` rejects a file that differs, even in a
  comment, since the stored tuples may depend on the change; `rebuild` and `upgrade` recompute them. So keep the
  functions in a separate file. Files that it imports, and functions that no file defines, are not checked: after
  changing those, run `rebuild`.
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
        lines = [f"\n## {group}\n", "| signature | returns | no value if |", "|---|---|---|", *map(row, functions)]
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
