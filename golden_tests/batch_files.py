"""Batches as files of commands, and what comes of them as ``flintlog replay`` prints it.

A batch is a transaction with its name in front::

    echo 01_replaced;
    start;
    delete price("a", 1, 5),
    insert price("a", 1, 12);
    commit dump_changes;
    # cost:
    # cost{.item = "a", .price = 12}: +1

Comments behind it say what comes of it. Unlike ``replay``, tests give the changes to a job as they stand, also those
that change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from flintlog.local.dat.printer import record_text, value_text
from flintlog.local.dat.reader import Reader
from flintlog.local.dat.syntax import Echo, Items, Scalar, Struct, Update, Value
from flintlog.runtime.kernel.model import Program
from flintlog.runtime.kernel.sql import element_type, is_list

from golden_tests.harness import Row, named
from golden_tests.oracle.batches import Batch
from golden_tests.oracle.random_programs import in_order

#: From what was written to a value of a column type; not by the runtime, which this is there to test.
_SCALARS: Mapping[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "decimal": Decimal,
    "bool": bool,
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "string": str,
}


def read_batches(path: Path, program: Program) -> dict[str, Batch]:
    """Return the batches of a file by name, in their order; AssertionError if it has anything else."""
    reader = Reader(path.name, path.read_bytes().splitlines(keepends=True))
    batches: dict[str, Batch] = {}
    while (command := reader.command()) is not None:
        match command:
            case Echo(name):
                assert name not in batches, f"{path} has two batches {name}"
                batches[name] = {}
            case Update(word, relation, Struct() as record):
                columns = named(program, relation.text).columns
                values = zip(record.arguments, columns, strict=True)
                row = tuple(_typed(value, column.type) for value, column in values)
                op = {"insert": "+", "delete": "-"}[word]
                batches[name].setdefault(relation.text, []).append((op, row))
            case Update():
                raise AssertionError(f"{path}:{command.span.line}: write insert or delete R(values)")
    return batches


def _typed(value: Value, kind: str) -> Any:
    if kind.endswith("?"):
        null = isinstance(value, Struct) and value.name == "null"
        return None if null else _typed(value, kind.removesuffix("?"))
    if isinstance(value, Items):
        assert is_list(kind)
        return tuple(_typed(item, element_type(kind)) for item in value.items)
    assert isinstance(value, Scalar)
    return _SCALARS[kind.partition("(")[0]](value.value)


def batch_text(name: str, batch: Batch) -> str:
    """Return the commands of a batch, which :func:`read_batches` reads."""
    updates = [
        f"{'insert' if op == '+' else 'delete'} {relation}({', '.join(map(value_text, row))})"
        for relation, changes in batch.items()
        for op, row in changes
    ]
    lines = [f"echo {name};", "start;", *([",\n".join(updates) + ";"] if updates else []), "commit dump_changes;"]
    return "\n".join(lines) + "\n"


def with_outcomes(text: str, outcomes: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a file with what comes of each batch, some lines of text, in comments behind it."""
    commands = re.split(r"^echo (.*);\n", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE), flags=re.MULTILINE)
    batches = zip(commands[1::2], commands[2::2], strict=True)
    return "\n".join(
        "".join([f"echo {name};\n{batch.rstrip()}\n", *(f"# {line}".rstrip() + "\n" for line in told(outcomes[name]))])
        for name, batch in batches
    )


def told(outcome: Sequence[str]) -> list[str]:
    """Return the lines of an outcome, whose texts may have several."""
    return [line for text in outcome for line in text.split("\n")]


def changes_text(relations: Iterable[Any], changes: dict[str, set[tuple[str, Row]]]) -> Iterator[str]:
    """Yield a line for each relation that changes and for each of its net changes, by table, sorted by row."""
    for relation in relations:
        names = [column.name for column in relation.columns]
        found: Sequence[tuple[str, Row]] = sorted(changes[relation.table], key=lambda c: (in_order(c[1]), c[0]))
        if relation.output and found:
            yield f"{relation.name}:"
            yield from (f"{record_text(relation.name, names, row)}: {op}1" for op, row in found)
