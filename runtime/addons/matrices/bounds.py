"""Bounds on the rounds and the memory of matrices: beyond these, queries compute the recursion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...engines.duckdb import DuckEngine
from ...system.machine import task_bytes

BYTES_OF_ENTRY, SHARE_OF_MEMORY = 48, 0.5
"""The bytes that an entry takes, with those of products and of its final row; and the share of a task's memory that
entries may take."""

BLOCKS = 4
"""A product is computed at once if it has at most one part in this many of the entries that fit."""


class NotFitting(Exception):
    """Raised when a stratum cannot be computed with matrices: why."""


def check_rounds(done: int, max_rounds: int) -> None:
    """Raise NotFitting after ``max_rounds`` rounds: queries, which may need fewer, decide whether that is too many."""
    if done >= max_rounds:
        raise NotFitting(f"it takes more than {max_rounds} rounds of products")


@contextmanager
def within_memory() -> Iterator[None]:
    """Raise NotFitting if Python, NumPy or GraphBLAS lack memory."""
    try:
        yield
    except MemoryError as error:
        raise NotFitting("there is too little memory for its matrices") from error
    except Exception as error:
        # The library with this error may be missing.
        if type(error).__name__ == "OutOfMemory" and type(error).__module__.startswith("graphblas"):
            raise NotFitting("there is too little memory for its matrices") from error
        raise


class EntryBound:
    """The number of entries that fit into the task of an engine."""

    def __init__(self, graphblas: Any, engine: DuckEngine) -> None:
        """Ask for the memory of the task."""
        self.graphblas = graphblas
        self.most = int(SHARE_OF_MEMORY * task_bytes(engine.threads, engine.sharing)) // BYTES_OF_ENTRY

    def check(self, entries: int) -> None:
        """Raise NotFitting if this number of entries does not fit."""
        if entries > self.most:
            raise NotFitting("its matrices would take too much memory")

    def blocks(self, left: Any, right: Any) -> Iterator[Any]:
        """Yield matrices whose sum is ``left``, cut between rows so that none has a large product with ``right``."""
        gb, most = self.graphblas, max(self.most // BLOCKS, 1)
        if left.nvals * min(right.nvals, right.ncols) <= most:
            yield left
            return
        paths = gb.semiring.plus_second(left @ right.reduce_rowwise(gb.agg.count).new()).new(dtype="INT64")
        rows, numbers = paths.to_coo()
        if int(numbers.sum()) <= most:
            yield left
            return
        left = left if isinstance(left, gb.Matrix) else left.new()
        blocks = (numbers.cumsum() - 1) // most
        ends = [int(row) for row, block, next_ in zip(rows, blocks, blocks[1:], strict=False) if block != next_]
        for start, end in zip([-1, *ends], [*ends, left.nrows - 1], strict=True):
            yield gb.select.rowle(gb.select.rowgt(left, start).new(), end).new()
