"""Recursions that span several processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spanning:
    """A process's part of a recursion across processes: the relations ``members`` that it uses of it, those of them that
    are ``extremal``, computed by ``min`` or ``max``, the relation ``dead`` in which it tells the other processes of the
    recursion which of its base facts are gone, and the relations ``others`` in which these tell it. Tuples of members
    that are ``arriving`` are derived here and also come from other processes."""

    members: frozenset[str]
    extremal: frozenset[str]
    dead: str
    others: tuple[str, ...]
    arriving: frozenset[str] = frozenset()
