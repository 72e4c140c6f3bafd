"""How messages travel between the simulated nodes of a program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transit:
    """A message takes up to ``delay`` ticks, and comes again with probability ``repeated``, both drawn by ``seed``."""

    seed: int = 0
    delay: int = 3
    repeated: float = 0.1


USUAL_TRANSIT = Transit()
