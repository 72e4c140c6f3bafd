"""Run programs in one process, on tables in memory; what explains live proofs registers itself."""

from .. import basefacts

__all__ = ["basefacts"]
