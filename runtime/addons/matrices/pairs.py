"""Sparse matrices of entries that come and go, as sorted arrays: rows, columns and entries are found by bisection."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .bounds import NotFitting

NUMBER_BITS = 31
"""Rows and columns have numbers below 2**NUMBER_BITS, so that a pair of them is one number."""

MOST_COUNT = 2**31
"""Counts and ranks are smaller than this."""

MOST_PATHS = 20_000_000
"""At most this many paths through matrices are held at once."""

MERGED_PARTS = 4
"""A part is merged with the one after it unless it has more than this many times as many entries."""

Array = Any
"""A NumPy array with one dimension."""


class LoadedLater:
    """A library that is loaded when it is first used, since a script may run where it is missing."""

    def __init__(self, name: str) -> None:
        """Load nothing yet."""
        self._name = name

    def __reduce__(self) -> tuple[type[LoadedLater], tuple[str]]:
        """Travel to another process without the library."""
        return LoadedLater, (self._name,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = getattr(importlib.import_module(self._name), name)
        setattr(self, name, attribute)
        return attribute


np: Any = LoadedLater("numpy")


class Paths(NamedTuple):
    """Paths through matrices: where each begins and ends, how many of them there are, and the greatest rank on them."""

    first: Array
    last: Array
    count: Array
    rank: Array

    @classmethod
    def joined(cls, parts: Iterable[Paths]) -> Paths:
        """Return several paths as one."""
        listed = list(parts)
        if not listed:
            return cls(*(np.zeros(0, np.int64) for _ in range(4)))
        return listed[0] if len(listed) == 1 else cls(*map(np.concatenate, zip(*listed, strict=True)))

    def where(self, chosen: Array) -> Paths:
        """Return the paths at some places, or those for which a condition is true."""
        return Paths(*(values[chosen] for values in self))


class Pairs:
    """The entries of a matrix. Each has a place, which it keeps: there are its row and column, its count, which is 0
    once it was removed, its rank, and the ID of its row in a table of DuckDB, -1 if it has none."""

    def __init__(self, keys: Array, counts: Array, ranks: Array | None = None, rows: Array | None = None) -> None:
        """Begin with entries at different ``keys``, see entry_keys."""
        size = len(keys)
        self.size = size
        self.keys = keys
        self.counts = counts.astype(np.int32)
        self.ranks = np.zeros(size, np.int32) if ranks is None else ranks.astype(np.int32)
        self.rows = np.full(size, -1, np.int64) if rows is None else rows
        sorted_keys, order = keys, np.arange(size, dtype=np.int32)
        if size and not (keys[1:] > keys[:-1]).all():
            order = ordered(keys)
            sorted_keys = keys[order]
        #: Sorted keys and their places, in parts that are merged as they grow; the same by column, made when asked for.
        self.parts: list[tuple[Array, Array]] = [(sorted_keys, order)] if size else []
        self.turned: list[tuple[Array, Array] | None] = [None] * len(self.parts)

    @property
    def bytes(self) -> int:
        """How many bytes the arrays take."""
        arrays = [self.keys, self.counts, self.ranks, self.rows, *(a for part in self.parts for a in part)]
        return sum(array.nbytes for array in (*arrays, *(a for part in self.turned if part for a in part)))

    @property
    def present_entries(self) -> int:
        """How many entries are there now."""
        return int(np.count_nonzero(self.counts[: self.size]))

    def find(self, keys: Array) -> Array:
        """Return the places of entries with ``keys``, also of removed ones; -1 if there never was one."""
        places_of_keys = np.full(len(keys), -1, np.int64)
        # Neighbours are found near each other, in memory that was just read.
        order = np.argsort(keys)
        sorted_keys = keys[order]
        for own, places in self.parts:
            at: Array = np.searchsorted(own, sorted_keys)
            at[at == len(own)] = 0
            hit = own[at] == sorted_keys
            places_of_keys[order[hit]] = places[at[hit]]
        return places_of_keys

    def present(self, keys: Array) -> Array:
        """Return the places of entries with ``keys``, -1 where there is none now."""
        places = self.find(keys)
        places[places >= 0] = np.where(self.counts[places[places >= 0]] > 0, places[places >= 0], -1)
        return places

    def put(self, keys: Array, counts: Array, ranks: Array) -> Array:
        """Add entries at different ``keys``, where none is now; return their places."""
        places = self.find(keys)
        new = places < 0
        added = int(new.sum())
        if added:
            places[new] = np.arange(self.size, self.size + added)
            self.keys = grown(self.keys, self.size, keys[new])
            self.counts = grown(self.counts, self.size, counts[new])
            self.ranks = grown(self.ranks, self.size, ranks[new])
            self.rows = grown(self.rows, self.size, np.full(added, -1, np.int64))
            self.size += added
            order = np.argsort(keys[new])
            self.parts.append((keys[new][order], places[new][order].astype(np.int32)))
            self.turned.append(None)
            self._merge()
        old = places[~new]
        self.counts[old], self.ranks[old] = counts[~new], ranks[~new]
        return places

    def _merge(self) -> None:
        """Merge parts until each has several times as many entries as the one after it."""
        while len(self.parts) > 1 and len(self.parts[-2][0]) <= MERGED_PARTS * len(self.parts[-1][0]):
            keys, places = (np.concatenate(pair) for pair in zip(*self.parts[-2:], strict=True))
            order = np.argsort(keys, kind="stable")
            self.parts[-2:] = [(keys[order], places[order])]
            self.turned[-2:] = [None]

    def in_rows(self, numbers: Array) -> tuple[Array, Array]:
        """Return the entries in the rows ``numbers``: for each, the index into these, and its place."""
        return self._near(self.parts, numbers)

    def in_columns(self, numbers: Array) -> tuple[Array, Array]:
        """Return the entries in the columns ``numbers``, as in_rows does."""
        for number, ((_, places), turned) in enumerate(zip(self.parts, self.turned, strict=True)):
            if turned is None:
                keys = turned_keys(self.keys[places])
                order = ordered(keys)
                self.turned[number] = (keys[order], places[order])
        return self._near([part for part in self.turned if part], numbers)

    def _near(self, parts: Sequence[tuple[Array, Array]], numbers: Array) -> tuple[Array, Array]:
        """Return the entries whose keys begin with ``numbers``."""
        entries = []
        different, which_of = numbered_distinct(numbers)
        for keys, places in parts:
            lows = np.searchsorted(keys, different << NUMBER_BITS)
            low = lows[which_of]
            lengths = (np.searchsorted(keys, (different + 1) << NUMBER_BITS) - lows)[which_of]
            total = int(lengths.sum())
            if total > MOST_PATHS:
                raise NotFitting("too many derivations follow from the changes at once")
            if not total:
                continue
            which = np.repeat(np.arange(len(numbers)), lengths)
            at = np.arange(total) + np.repeat(low - np.cumsum(lengths) + lengths, lengths)
            here = places[at]
            there = self.counts[here] > 0
            entries.append((which[there], here[there]))
        if not entries:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return entries[0] if len(entries) == 1 else tuple(map(np.concatenate, zip(*entries, strict=True)))

    def entries(self, places: Array) -> Pairs:
        """Return the entries at some places as a matrix of their own."""
        return Pairs(self.keys[places], self.counts[places], self.ranks[places], self.rows[places])

    def paths(self, own: bool, turned: bool) -> Paths:
        """Return the entries as paths; of the recursion itself, each is one, whatever its support."""
        there = np.flatnonzero(self.counts[: self.size] > 0)
        first, last = split_keys(self.keys[there])
        counts = np.ones(len(there), np.int64) if own else self.counts[there].astype(np.int64)
        ranks = self.ranks[there].astype(np.int64)
        return Paths(last, first, counts, ranks) if turned else Paths(first, last, counts, ranks)


def entry_keys(rows: Array, columns: Array) -> Array:
    """Return the keys of entries: sorted by row, then by column."""
    return rows << NUMBER_BITS | columns


def split_keys(keys: Array) -> tuple[Array, Array]:
    """Return the rows and the columns of keys."""
    return keys >> NUMBER_BITS, keys & (1 << NUMBER_BITS) - 1


def turned_keys(keys: Array) -> Array:
    """Return the keys of the transposed entries."""
    rows, columns = split_keys(keys)
    return entry_keys(columns, rows)


def ordered(keys: Array) -> Array:
    """Return the places of keys in ascending order. Digits are sorted from the last to the first: 16 bits at once take
    NumPy a time that grows with their number only."""
    order = np.arange(len(keys), dtype=np.int32)
    if len(keys) < 2**16:
        return order[np.argsort(keys)]
    varying = int(np.bitwise_or.reduce(keys ^ keys[0]))
    while varying:
        shift = (varying & -varying).bit_length() - 1
        digit = (keys[order] >> shift & 0xFFFF).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
        varying = varying >> shift + 16 << shift + 16
    return order


def grown(values: Array, size: int, new: Array) -> Array:
    """Return an array with ``new`` values after the first ``size`` ones, and room for more behind them."""
    needed = size + len(new)
    if needed > len(values):
        values = np.concatenate([values[:size], np.zeros(needed + needed // 8 - size, values.dtype)])
    values[size:needed] = new
    return values


def distinct_sorted(values: Array) -> Array:
    """Return the different values, sorted."""
    values = np.sort(values)
    return values[np.concatenate([[True], values[1:] != values[:-1]])] if len(values) else values


def numbered_distinct(values: Array) -> tuple[Array, Array]:
    """Return the different values, sorted, and for each value the index of its equal among these."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    new = np.concatenate([[True], ranked[1:] != ranked[:-1]]) if len(values) else np.zeros(0, bool)
    indexes = np.empty_like(order)
    indexes[order] = np.cumsum(new) - 1
    return ranked[new], indexes


def are_among(values: Array, known: Array) -> Array:
    """Return which values are among ``known`` ones, which are sorted."""
    at: Array = np.searchsorted(known, values)
    at[at == len(known)] = 0
    return known[at] == values if len(known) else np.zeros(len(values), bool)


def summed(groups: Array, counts: Array) -> tuple[Array, Array]:
    """Return the different ``groups``, sorted, with sums of their counts. Raise NotFitting if one is too great."""
    if not len(groups):
        return groups, counts
    order = np.argsort(groups, kind="stable")
    groups = groups[order]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    totals = np.add.reduceat(counts[order], starts)
    check_counts(totals)
    return groups[starts], totals


def check_counts(counts: Array) -> None:
    """Raise NotFitting if a count is too great."""
    if len(counts) and not 0 <= int(counts.min()) <= int(counts.max()) < MOST_COUNT:
        raise NotFitting("a tuple has too many derivations for an entry of a matrix")
