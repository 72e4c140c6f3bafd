"""The part of a relation that a reader is sent: the tuples whose addresses it holds, or those that its rules can
use."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
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

    def nodes(self, addresses: Any) -> Any:
        """Return the numbers of the nodes that hold the addresses in an Arrow array."""
        import pyarrow as pa

        distinct = addresses.dictionary_encode()
        return pa.array(map(self.node_of, distinct.dictionary.to_pylist()), pa.int64()).take(distinct.indices)

    def rows(self, rows: Any, location: int, node: int) -> Any:
        """Return those rows of an Arrow table, which begin with ``_op``, whose address in column ``location`` of the
        relation a node holds."""
        import pyarrow.compute as pc

        return rows.filter(pc.equal(self.nodes(rows.column(location + 1).combine_chunks()), node))


def fitting_rows(rows: Any, patterns: Sequence[Pattern]) -> Any:
    """Return those rows of an Arrow table, which begin with ``_op``, that have the values of one of the patterns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def has(column: int, value: int | str | bool) -> Any:
        values = rows.column(column + 1)
        return pc.equal(values, pa.scalar(value, values.type))

    fitting = (reduce(pc.and_, (has(column, value) for column, value in pattern)) for pattern in patterns)
    return rows.filter(reduce(pc.or_, fitting))
