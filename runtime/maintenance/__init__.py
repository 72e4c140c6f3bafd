"""The maintenance of strata; each module for a kind of stratum registers its method in ``METHODS``."""

from . import acyclic, aggregate, counted, dead, entries, epochs, extremal, identities, proofs, ranked

__all__ = ["acyclic", "aggregate", "counted", "dead", "entries", "epochs", "extremal", "identities", "proofs", "ranked"]
