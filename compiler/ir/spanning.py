"""Recursions that span several processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spanning:
    """A process's part of a recursion across processes: the relations ``members`` that it uses of it, and those of them
    that are ``extremal``, computed by ``min`` or ``max``. Columns of these, by relation and position, hold the extremal
    ``values`` or their ``witnesses``. Tuples of ``arriving`` members are derived here and also come from other
    processes. In the relation ``dead`` the process tells the others of the recursion which of its base facts are gone;
    in the relations ``others`` these tell it."""

    members: frozenset[str]
    extremal: frozenset[str]
    dead: str
    others: tuple[str, ...]
    arriving: frozenset[str] = frozenset()
    values: frozenset[tuple[str, int]] = frozenset()
    witnesses: frozenset[tuple[str, int]] = frozenset()
