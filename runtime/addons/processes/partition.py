"""The part of a relation that a reader is sent: the tuples whose addresses it holds, or those that its rules can
use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Address = int | str
"""An address: a value of the location column of a relation."""

Pattern = tuple[tuple[int, int | str | bool], ...]
"""Values that a tuple has, each with the number of its column."""


@dataclass(frozen=True)
class Partition:
    """The division of addresses among ``count`` nodes, which are numbered from 0: those whose text is ``known`` belong
    to the nodes given there, all others to the node that a hash of their text says."""

    count: int
    known: Mapping[str, int] = field(default_factory=dict)

    def node_of(self, address: Address) -> int:
        """Return the number of the node that holds an address."""
        text = str(address)
        if text in self.known:
            return self.known[text]
        digest = hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
        return int.from_bytes(digest[:8], "big") % self.count


def fits(row: Sequence[Any], patterns: Sequence[Pattern]) -> bool:
    """Return whether a row has the values of one of the patterns."""
    return any(all(row[column] == value for column, value in pattern) for pattern in patterns)
