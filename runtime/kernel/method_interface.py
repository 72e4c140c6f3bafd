"""The interface of methods of maintenance, and their arguments: the run, its bucket, the choice of strategy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from .engine import Engine
from .model import Stratum


@dataclass(frozen=True)
class Bucket:
    """The part of the state that a task works on: bucket ``number`` of ``count``."""

    number: int = 0
    count: int = 1


class Finding(NamedTuple):
    """A query for tuples that show a problem of a relation."""

    relation: str
    problem: str
    sql: str


class Method(NamedTuple):
    """How strata of a kind are maintained, from the old state to the new one, given and returning the clock; how their
    invariants are checked; how many statements it takes at least to follow a change; and whether it always ``follows``
    changes, since what it keeps depends on them."""

    maintain: Callable[[Run, Stratum, int], int]
    recount: Callable[[Engine, Stratum, Bucket], list[Finding]]
    statements: int
    follows: bool = False


METHODS: dict[str, Method] = {}
"""The methods by kind of stratum; the module for each kind registers its own."""


class Run(NamedTuple):
    """How strata are being maintained: with which engine, on which bucket, whether for the first time, and in which
    way. ``note`` is called once a round with the stratum, the phase, the round and the number of tuples that changed.
    """

    engine: Engine
    bucket: Bucket
    initial: bool
    max_rounds: int
    max_entries: int
    note: Callable[[str, str, int, int], None]
    choice: Choice


PRICE_OF_ROUND = 0.025
"""The price of a round of deletions, in units of computing the stratum from scratch."""


class Effect(NamedTuple):
    """The effect of changes on a stratum. If it is recursive: rounds of deletions, and, apart from rounds, the price
    per share of what it reads that was lost, and that was gained. ``built`` and ``seconds`` are how many statements,
    and how many seconds of its thread, it took to compute the stratum the last time; ``followed`` and
    ``follow_seconds`` are how many it took to follow changes the last time, when the shares ``follow_lost`` and
    ``follow_gained`` were lost and gained; ``built_rounds`` is how many rounds it took to compute it. They are 0 if
    that is unknown."""

    rounds: float = 10.0
    lost: float = 8.0
    gained: float = 1.0
    built: float = 0.0
    seconds: float = 0.0
    followed: float = 0.0
    follow_seconds: float = 0.0
    follow_lost: float = 0.0
    follow_gained: float = 0.0
    built_rounds: float = 0.0

    def price(self, lost: float, gained: float) -> float:
        """Return the price of following changes if these shares were lost and gained."""
        rounds = PRICE_OF_ROUND * self.rounds if lost else 0.0
        return rounds + self.lost * lost + self.gained * gained


@dataclass
class Choice:
    """How to bring strata to their new state: by following changes (``incremental``), from scratch (``recompute``), or
    in the cheaper way (``auto``).

    ``effects`` has by stratum what earlier batches did, and is updated by this one. ``scratch`` collects by stratum why
    it was computed from scratch, ``rewritten`` the tables of these strata. ``matrices`` says whether to compute with
    matrices what can be (auto, always, never); ``algebra`` collects by stratum how, or why it was given up.
    """

    strategy: str = "auto"
    effects: dict[str, Effect] = field(default_factory=dict)
    scratch: dict[str, str] = field(default_factory=dict)
    rewritten: set[str] = field(default_factory=set)
    matrices: str = "auto"
    algebra: dict[str, str] = field(default_factory=dict)
