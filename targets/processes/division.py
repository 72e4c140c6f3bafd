"""Read how the addresses of a located program are divided among nodes."""

from __future__ import annotations

import csv
from pathlib import Path

from flintlog.runtime.addons.processes.partition import Partition

MOST_NODES = 1_000
"""The most nodes that a program can be divided among; each pair of them has channels."""


class WrongNodes(ValueError):
    """Raised if a division among nodes cannot be read; says why."""


def read_nodes(text: str) -> Partition:
    """Return the division that ``text`` says: a number of nodes, or the path of a CSV file with the columns ``address``
    and ``node``, whose nodes are numbered from 0. Raise :class:`WrongNodes` if that cannot be read."""
    if text.isdecimal():
        if not 1 <= int(text) <= MOST_NODES:
            raise WrongNodes(f"{text}: give from 1 to {MOST_NODES} nodes")
        return Partition(int(text))
    try:
        with Path(text).open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise WrongNodes(f"{text}: not a number, and as a file it cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise WrongNodes(f"{text}: not a CSV file: {error}") from error
    if not rows or [name.strip() for name in rows[0]] != ["address", "node"]:
        raise WrongNodes(f"{text}: the first line must be address,node")
    node_of: dict[str, int] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2 or not row[1].strip().isdecimal() or int(row[1]) >= MOST_NODES:
            raise WrongNodes(f"{text}:{number}: expected an address and the number of a node below {MOST_NODES}")
        if node_of.setdefault(row[0], int(row[1])) != int(row[1]):
            raise WrongNodes(f"{text}:{number}: {row[0]} belongs to node {node_of[row[0]]} already")
    if not node_of:
        raise WrongNodes(f"{text}: has no nodes")
    return Partition(max(node_of.values()) + 1, node_of)
