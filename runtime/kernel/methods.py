"""All methods of maintenance: importing this module registers each of them in ``METHODS``."""

from . import acyclic, aggregate, counted, entries, epochs, extremal, identities, identity_ranges, proofs, ranked, timed

__all__ = [
    "acyclic",
    "aggregate",
    "counted",
    "entries",
    "epochs",
    "extremal",
    "identities",
    "identity_ranges",
    "proofs",
    "ranked",
    "timed",
]
