"""Change batches, as the model of the language takes them.

A batch is a set of changes without an order. A tuple that it both deletes and inserts leaves open whether it stays, so
the batch is refused, unless it is said that such tuples are inserted (``net``). Inserting what is there and deleting
what is not there change nothing. In a relation with
a primary key an insertion takes the place of the row that has its key, and two different insertions of one key leave
open which one wins, so they are refused. Input derived relations are resolved against what was put in, never against
what was derived.

Of a multiset, every insertion is a copy more and every deletion one less, whatever their order; to delete more copies
than there are is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set

from .language import Program, Relation, Row

Change = tuple[str, Row]
"""``("+", row)`` or ``("-", row)``."""

Batch = dict[str, list[Change]]
"""Changes per input relation; the order within a list means nothing."""

Changes = dict[str, set[Change]]
"""Net changes per relation; relations that did not change are left out."""


class BatchError(ValueError):
    """A batch that no relation of the program can take."""


class Contradiction(BatchError):
    """One batch deletes and inserts the same row."""


class ConflictingUpserts(BatchError):
    """Two different rows of one key are inserted by one batch."""


class TooFewCopies(BatchError):
    """More copies of a row are deleted than there are."""


Rows = Set[Row] | Counter[Row]
"""The rows of an input relation; of a multiset with their numbers of copies."""


def apply(
    inputs: Mapping[str, Rows], batch: Batch, program: Program, net: str = ""
) -> dict[str, set[Row] | Counter[Row]]:
    """The input relations after ``batch``; ``inputs`` stays as it is. ``net``: ``insert`` if rows that are both deleted
    and inserted are there afterwards.

    Raises :class:`Contradiction`, which comes before :class:`ConflictingUpserts`, and :class:`BatchError` for a
    relation that is no input, a row of the wrong length or an unknown operation.
    """
    for name in batch:
        if name not in program.relations or not program.relations[name].is_input:
            raise BatchError(f"{name} is not an input relation")
        both = {row for op, row in batch[name] if op == "-"} & {row for op, row in batch[name] if op == "+"}
        if both and net != "insert" and not program.relations[name].is_multiset:
            raise Contradiction(f"{name} loses and gets {min(both, key=repr)}")
    return {
        relation.name: changed(relation, inputs.get(relation.name, set()), batch.get(relation.name, []))
        for relation in program.inputs
    }


def changed(relation: Relation, rows: Rows, changes: Sequence[Change]) -> set[Row] | Counter[Row]:
    """One relation after its changes."""
    for op, row in changes:
        if op not in ("+", "-") or len(row) != relation.arity:
            raise BatchError(f"{relation.name} cannot take {op}{row}")
    if relation.is_multiset:
        copies = Counter(rows)
        for op, row in changes:
            copies[row] += 1 if op == "+" else -1
        for row, count in copies.items():
            if count < 0:
                raise TooFewCopies(f"{relation.name} lacks {-count} copies of {row}")
        return +copies
    after = set(rows) - {row for op, row in changes if op == "-"}
    inserted = {row for op, row in changes if op == "+"}
    if relation.key:
        taken: dict[Row, Row] = {}
        for row in inserted:
            key = key_of(relation, row)
            if taken.setdefault(key, row) != row:
                raise ConflictingUpserts(f"{relation.name} gets two rows with the key {key}")
        after = {row for row in after if key_of(relation, row) not in taken}
    return after | inserted


def key_of(relation: Relation, row: Row) -> Row:
    """The row's primary key, or the whole row if there is none."""
    return tuple(row[c] for c in relation.key) if relation.key else row


def diff(old: Mapping[str, Set[Row]], new: Mapping[str, Set[Row]]) -> Changes:
    """Net changes from ``old`` to ``new``, per relation that changed."""
    found: Changes = {}
    for name in sorted({*old, *new}):
        before, after = old.get(name, set()), new.get(name, set())
        changes = {("-", row) for row in before - after} | {("+", row) for row in after - before}
        if changes:
            found[name] = changes
    return found


def split(batch: Batch, program: Program, place: Callable[[str, Row], int], parts: int) -> list[Batch]:
    """Spread ``batch`` over ``parts`` batches that do the same in any order.

    Changes of one key (or of one tuple, without a primary key) depend on each other and stay together.
    ``place(relation, key)`` says in which part, from 0 to ``parts`` - 1.
    """
    result: list[Batch] = [{} for _ in range(parts)]
    for name, changes in batch.items():
        for op, row in changes:
            part = result[place(name, key_of(program.relations[name], row))]
            part.setdefault(name, []).append((op, row))
    return result
