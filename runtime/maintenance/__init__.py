"""The maintenance of strata; each module for a kind of stratum registers its method in ``METHODS``."""

from . import aggregate, counted, entries, extremal, ranked

__all__ = ["aggregate", "counted", "entries", "extremal", "ranked"]
