"""The tables that belong to a relation beside that of its rows, and what each of them holds.

Those of a relation r are called r__lost, r__delta and so on. Relations have no double underscores in their own names.
"""

from __future__ import annotations

from typing import NamedTuple


class Change(NamedTuple):
    """The tables of the net change of a relation in a batch: the tuples that it ``lost`` and those that it ``gained``;
    and the ``touched`` ones, which are written: those of the net change, and those whose hidden columns may differ."""

    lost: str
    gained: str
    touched: str


class Beside:
    """An attribute of the name of a table r: the name of the table r__ATTRIBUTE."""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.suffix = f"__{attribute}"

    def __get__(self, table: object, owner: type) -> TableName:
        return TableName(f"{table}{self.suffix}")


class TableName(str):
    """The name of a table r, that of a relation; its attributes are the names of the tables beside it."""

    __slots__ = ()

    # What rules read: versions of a relation, and for a negated literal the tuples that make it false.
    before = Beside()  # the tuples at the start of the phase, or before the round
    after = Beside()  # those at its end
    delta = Beside()  # the difference that a query follows
    absent_before = Beside()
    absent_after = Beside()
    absent_delta = Beside()
    mid = Beside()  # the tuples that are there before and after the batch
    met = Beside()  # the rows of a large table that meet changes; rows with the derivations that arrive for them
    dead = Beside()  # tuples, or groups, that are gone and return if a rule still derives them
    groups = Beside()  # groups that are computed from all their derivations
    rows = Beside()  # the derivations that an aggregate is computed from
    minus = Beside()  # derivations lost in this batch
    plus = Beside()  # derivations gained in this batch
    reached = Beside()  # groups in which derivations were lost or gained

    # Inputs.
    changes = Beside()  # the rows of a batch, with their operation in _op
    net = Beside()  # rows of a multiset, with the change of their number
    sequences = Beside()  # stored: the last sequence of each key

    # Rounds of a recursion.
    changed = Beside()  # the tuples that changed in the last round, which the next one starts from
    entering = Beside()  # the tuples that enter at the end of the round
    entered = Beside()  # the tuples that have entered in this batch
    hit = Beside()  # the stored tuples that derivations support, with their new support
    arrived = Beside()  # derivations gained with relations below, or by a leap
    leapt = Beside()  # paths that a leap has found
    summed = Beside()  # the entries of all rounds of a batch
    found = Beside()  # derivations that are looked at before they are used

    # Extrema and proofs.
    best = Beside()  # the best values, which alone may enter
    replaced = Beside()  # tuples from before the batch that a better value has replaced
    deleted = Beside()  # r__dead of the tuples that had lost their support before better values were found
    left = Beside()  # tuples, or groups, without those that are settled already
    worse = Beside()  # tuples that a better value replaces now
    between = Beside()  # tuples that were there only while the batch was computed
    ids = Beside()  # the dead ones of the identities in proofs

    # Aggregates, counts and recursions that order their groups.
    was = Beside()  # rows as they were before the batch
    counts = Beside()  # tuples with the change of their number of derivations
    next = Beside()  # rows as they will be; the groups to compute in the next round
    folded = Beside()  # rows of groups with the changes folded in
    computed = Beside()  # rows of groups that were computed from all derivations
    fresh = Beside()  # those of a round
    old = Beside()  # rows of groups that are computed again
    marked = Beside()  # groups to compute again
    now = Beside()  # what a step adds to a table
    wave = Beside()  # marked groups from which dependencies are still to be followed
    waiting = Beside()  # groups with the number of those that they depend on and that are still to be computed
    gone = Beside()  # groups that there cannot be any more
    leaving = Beside()  # rows of groups that are taken out

    # Checks and explanations.
    recount = Beside()  # all derivations, to compare supports with
    stored = Beside()  # the rows of a commit; changes that are laid over files
    asked = Beside()  # the tuple, or the identities, that are asked about
    new = Beside()  # tuples found in the last round of a search

    # Engines, matrices and files.
    derived = Beside()  # a few derived rows, to be met with stored ones
    inserted = Beside()  # rows that are appended
    recent = Beside()  # rows that were not read from files
    written = Beside()  # the tuples to write
    exits = Beside()  # what rules without recursion derive
    given = Beside()  # rows that are an array in memory
    former = Beside()  # stored: a relation that the program had before it named another one so

    @property
    def change(self) -> Change:
        """The tables of the relation's net change."""
        return Change(*map(self.beside, Change._fields))

    def beside(self, kind: str) -> TableName:
        """Return the table of a kind that is one of several, or is chosen at run time."""
        return TableName(f"{self}__{kind}")


def holds_dead(table: str) -> bool:
    """Return whether a table is called as those are that list dead tuples."""
    return table.endswith(TableName("").dead)
