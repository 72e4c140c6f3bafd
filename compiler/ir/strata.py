"""Strata: the strongly connected components of the dependency graph, in topological order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from . import typed
from .localized import LocalizedProgram

METHODS = {
    "counted": "counting",
    "ranked": "ranked support",
    "extremal": "ranked support of extrema",
    "acyclic": "groups in the order of their dependencies",
    "entries": "derivation sets",
    "aggregate": "recomputed groups",
    "timed": "bounds",
    "proofs": "live proofs",
    "identities": "numbered identities",
    "epochs": "counted epochs",
    "dead": "ranges of dead identities",
}
"""The names of the maintenance methods, by kind of stratum."""


@dataclass(frozen=True)
class TypedStratum:
    """One component of derived relations and their rules, in source order.

    ``name`` joins the relations' names. ``kind`` selects the maintenance method: ``counted`` (not recursive),
    ``ranked`` (recursive), ``aggregate`` (not recursive, an aggregate head), ``extremal`` (recursive, with ``min`` or
    ``max``), ``acyclic`` (recursive, with other aggregates) or ``entries`` (recursive, annotated with derivations). For
    a recursion across processes, there are ``proofs`` (its tuples with live proofs), ``identities`` (of what it reads),
    ``epochs`` (of what it negates) and ``dead`` (identities that are gone).
    """

    name: str
    relations: tuple[typed.TypedRelation, ...]
    rules: tuple[typed.TypedRule, ...]
    kind: str

    @property
    def recursive(self) -> bool:
        """Whether the relations depend on each other or on themselves."""
        return self.kind in ("ranked", "extremal", "acyclic", "entries", "proofs")

    @property
    def closure(self) -> typed.Closure | None:
        """The closure that the stratum computes, if it consists of a single relation that is one."""
        return self.relations[0].closure if len(self.relations) == 1 and self.kind == "ranked" else None

    @cached_property
    def members(self) -> frozenset[str]:
        """The names of the relations."""
        return frozenset(relation.name for relation in self.relations)

    def rules_of(self, name: str) -> tuple[typed.TypedRule, ...]:
        """Return the rules whose head is the relation ``name``."""
        return self._by_head.get(name, ())

    @cached_property
    def _by_head(self) -> dict[str, tuple[typed.TypedRule, ...]]:
        return typed.rules_by_head(self.rules)

    def __str__(self) -> str:
        return "\n".join([f"stratum {self.name}: {self.kind}", *(f"  {rule}" for rule in self.rules)])


@dataclass(frozen=True)
class StratifiedProgram:
    """The strata in topological order: each depends only on earlier ones and on itself."""

    localized: LocalizedProgram
    strata: tuple[TypedStratum, ...]

    @property
    def program(self) -> typed.TypedProgram:
        """The typed program."""
        return self.localized.program

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.strata)) + "\n"
