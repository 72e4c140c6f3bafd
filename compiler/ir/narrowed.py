"""Channels between processes that carry only some of the columns of a relation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Narrowed:
    """The ``columns`` of a relation, by their numbers, that go through a channel. In the program of the sender, the
    relation ``sent`` has them; in that of the reader, the input has no others, and ``sent`` is empty."""

    relation: str
    columns: tuple[int, ...]
    sent: str = ""
