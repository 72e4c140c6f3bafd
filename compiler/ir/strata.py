"""Strata: the strongly connected components of the dependency graph, in topological order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from . import typed
from .localized import Program as LocalizedProgram

#: By what strata of each kind are maintained.
METHODS = {
    "counted": "counting",
    "ranked": "ranked support",
    "extremal": "ranked support of extrema",
    "entries": "derivation sets",
    "aggregate": "recomputed groups",
}


@dataclass(frozen=True)
class Stratum:
    """One component of derived relations and their rules, in source order.

    ``name`` joins the relations' names. ``kind`` says how it is maintained: ``counted`` (no recursion), ``ranked``
    (recursive), ``aggregate`` (no recursion, an aggregate head), ``extremal`` (recursive, with ``min`` or ``max``) or
    ``entries`` (recursive, annotated with derivations).
    """

    name: str
    relations: tuple[typed.Relation, ...]
    rules: tuple[typed.Rule, ...]
    kind: str

    @property
    def recursive(self) -> bool:
        """Whether its relations read each other."""
        return self.kind in ("ranked", "extremal", "entries")

    @property
    def closure(self) -> typed.Closure | None:
        """What its relation is the closure of, if it has one relation that is a closure."""
        return self.relations[0].closure if len(self.relations) == 1 and self.kind == "ranked" else None

    @cached_property
    def members(self) -> frozenset[str]:
        """The names of the relations."""
        return frozenset(relation.name for relation in self.relations)

    def rules_of(self, name: str) -> tuple[typed.Rule, ...]:
        """The rules whose head is the relation ``name``."""
        return self._by_head.get(name, ())

    @cached_property
    def _by_head(self) -> dict[str, tuple[typed.Rule, ...]]:
        return typed.rules_by_head(self.rules)

    def __str__(self) -> str:
        return "\n".join([f"stratum {self.name}: {self.kind}", *(f"  {rule}" for rule in self.rules)])


@dataclass(frozen=True)
class Program:
    """The strata, each depending on earlier ones and on itself only."""

    localized: LocalizedProgram
    strata: tuple[Stratum, ...]

    @property
    def program(self) -> typed.Program:
        """The typed program."""
        return self.localized.program

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.strata)) + "\n"
