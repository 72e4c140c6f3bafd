"""The work of a task of a stage, and the results of the tasks of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..engines.options import Options
from ..kernel.engine import Engine
from ..kernel.method_interface import Bucket, Choice, Run
from ..kernel.model import Relation, Stage
from .manifest import Manifest, StoredBucket, StoredRelation


@dataclass
class Outcome:
    """The result of running the stages: the number of buckets, relations, clocks and effects for the next manifest, net
    changes by table (files, and numbers of insertions and deletions), a record of each step, and the time of the batch,
    if the program reads it."""

    buckets: int
    relations: dict[str, StoredRelation]
    clocks: dict[str, dict[int, int]]
    effects: dict[str, dict[int, tuple[float, ...]]]
    changes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    as_of: str = ""

    @classmethod
    def of(cls, commit: Manifest | None, buckets: int) -> Outcome:
        """Return the outcome of running nothing after a commit, or after none."""
        if commit is None:
            return cls(buckets, {}, {}, {})
        clocks = {name: dict(by_bucket) for name, by_bucket in commit.clocks.items()}
        effects = {name: dict(buckets_of) for name, buckets_of in commit.effects.items()}
        return cls(buckets, dict(commit.relations), clocks, effects)


@dataclass(frozen=True)
class WrittenRelation:
    """The part of a relation that a task has written: its buckets, the files of its net changes, and the numbers of
    tuples gained and lost."""

    buckets: Mapping[int, StoredBucket]
    net: tuple[str, ...]
    gained: int
    lost: int


@dataclass(frozen=True)
class Task:
    """The work of a task. ``relations`` is what was stored before it, ``before`` what was stored before the batch. It
    changes the relations ``inputs`` and runs ``stages``; ``fused`` means that these
    are all stages and the state is small. If there are stages, every task changes the inputs as a whole, since they are
    cut into buckets by columns of their own, and the first task writes them. After the ``last`` task nobody reads the
    changes of relations that are not published. Strata in ``rebuilt`` are computed from
    scratch and compared with the stored tuples, which may have been bucketed differently. The task may use ``cores``
    cores if it runs alone; ``sharing`` is how many threads of tasks share the memory of its machine, 0 if unknown."""

    options: Options
    state: str
    relations: Mapping[str, StoredRelation]
    inputs: tuple[Relation, ...] = ()
    stages: tuple[Stage, ...] = ()
    attempt: str = ""
    before: Mapping[str, StoredRelation] = field(default_factory=dict)
    clocks: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    effects: Mapping[str, Mapping[int, tuple[float, ...]]] = field(default_factory=dict)
    staged: Mapping[str, list[str]] = field(default_factory=dict)
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    initial: bool = False
    fused: bool = False
    last: bool = False
    rebuilt: frozenset[str] = frozenset()
    cores: int = 1
    sharing: int = 0
    read_tables: frozenset[str] = field(init=False)
    """The tables that strata of the task read."""

    def __post_init__(self) -> None:
        """Find out which tables are read, once for all relations."""
        read = (r.table for stage in self.stages for s in stage.strata for r in (*s.reads, *s.negates))
        object.__setattr__(self, "read_tables", frozenset(read))

    @property
    def buckets(self) -> int:
        """The number of buckets that relations are cut into."""
        return self.options.buckets

    @property
    def threads(self) -> int:
        """The threads of each task: one, or all cores of its executor if it runs alone without Python functions."""
        return self.cores if self.whole and not self.options.functions else 1

    @property
    def whole(self) -> bool:
        """Whether one task works on all buckets of what it computes."""
        gathered = bool(self.stages) and not any(stage.bucketed for stage in self.stages)
        return self.fused or gathered or self.buckets == 1

    def run(self, engine: Engine, bucket: Bucket, note: Callable[[str, str, int, int], None], choice: Choice) -> Run:
        """Return the Run that maintains the task's strata on ``engine`` and ``bucket``."""
        options = self.options
        return Run(engine, bucket, self.initial, options.max_rounds, options.max_entries, note, choice)

    def part_of(self, relation: Relation, part: int | None) -> int | None:
        """Return the bucket of ``relation`` that the task for bucket ``part`` changes; None means all buckets."""
        return None if self.stages and relation.kind == "input" else part

    @property
    def computed(self) -> tuple[Relation, ...]:
        """The relations that the task brings to their new state."""
        return (*self.inputs, *(r for stage in self.stages for s in stage.strata for r in s.relations))

    @property
    def external(self) -> tuple[Relation, ...]:
        """The relations that the task reads but does not compute, each once."""
        own = {relation.table for relation in self.computed}
        read = [r for stage in self.stages for s in stage.strata for r in (*s.reads, *s.negates)]
        return tuple({r.table: r for r in read if r.table not in own}.values())
