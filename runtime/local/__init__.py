"""Run programs in one process, on tables in memory, with all methods and with explanations of live proofs."""

from ..explain import base_facts
from ..inputs import external_functions
from ..kernel import methods

__all__ = ["base_facts", "external_functions", "methods"]
