"""Routes: how the nodes of a located program send each other tuples (Nigam et al. 2012, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .typed import Constant, TypedProgram, TypedRelation


@dataclass(frozen=True)
class RoutedRelation:
    """A relation whose tuples nodes send to the node that holds their address: they are derived as ``sent``, and read
    as ``arrived``, which is the relation itself in a recursion. The address is the column ``location``, or the constant
    ``at``."""

    relation: str
    sent: str
    arrived: str
    location: int | None
    at: Constant | None = None

    def __str__(self) -> str:
        return f"route {self.relation}: {self.sent} -> {self.arrived}, by {self.at or f'column {self.location}'}"


def carried(program: TypedProgram, name: str, role: str) -> TypedRelation:
    """Return the relation that carries the tuples of ``name`` between processes, which is their ``role`` there: with
    their proofs or derivation sets if it has them."""
    annotated = (r for r in program.relations if r.annotates == name and r.role == role)
    return next(annotated, None) or program.relation(name)
