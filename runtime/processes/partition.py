"""The division of addresses among the nodes of a located program."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Address = int | str
"""An address: a value of the location column of a relation."""


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

    def rows(self, rows: Any, location: int, node: int) -> Any:
        """Return those rows of an Arrow table, which begin with ``_op``, whose address in column ``location`` of the
        relation a node holds."""
        import pyarrow as pa

        addresses = rows.column(location + 1).combine_chunks().dictionary_encode()
        own = pa.array([self.node_of(address) == node for address in addresses.dictionary.to_pylist()], pa.bool_())
        return rows.filter(own.take(addresses.indices))
