"""The maintenance of strata; each module for a kind of stratum registers its method in ``METHODS``."""

from . import aggregate, counted, dead, entries, epochs, extremal, identities, proofs, ranked

__all__ = ["aggregate", "counted", "dead", "entries", "epochs", "extremal", "identities", "proofs", "ranked"]
