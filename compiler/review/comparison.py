"""The differences between two versions of a program: what :mod:`.compare` finds and :mod:`.comparison_text` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class WrittenRule:
    """A rule as written, with all its alternatives. ``text`` is one line, without the label; the ``label`` of a rule
    that has none is derived from its head."""

    label: str
    relation: str
    text: str
    place: str


@dataclass(frozen=True)
class RuleChange:
    """A rule that is ``added``, ``removed``, ``changed``, or ``rewritten`` without change of meaning. For the last,
    ``ways`` lists what differs: ``label``, ``variables``, ``order`` (of literals) or ``notation``."""

    change: str
    old: WrittenRule | None
    new: WrittenRule | None
    ways: tuple[str, ...] = ()

    @property
    def rule(self) -> WrittenRule:
        """Return the new rule, or the old one if there is no new one."""
        present = self.new or self.old
        assert present is not None
        return present


@dataclass(frozen=True)
class Detail:
    """A difference in a declaration. ``what`` is ``column added``, ``column removed``, ``column renamed``, ``type``,
    ``column order``, ``location``, ``key``, ``role`` or ``symmetric``; ``column`` is empty if none is concerned."""

    what: str
    column: str
    old: str
    new: str


@dataclass(frozen=True)
class RelationChange:
    """A relation that is ``added``, ``removed`` or ``changed``; ``old`` and ``new`` are declarations."""

    change: str
    name: str
    old: str
    new: str
    details: tuple[Detail, ...] = ()


@dataclass(frozen=True)
class FunctionChange:
    """An external function that is ``added``, ``removed`` or ``changed``; ``old`` and ``new`` are declarations."""

    change: str
    name: str
    old: str
    new: str


@dataclass(frozen=True)
class Layout:
    """How a relation is maintained: ``kind`` and ``together`` (the relations of its stratum) as in
    :class:`.strata.TypedStratum`; whether it is ``bucketed``, and by which ``column``, or gathered in one task. The
    reasons are those of ``explain``."""

    kind: str
    kind_reason: str
    together: tuple[str, ...]
    bucketed: bool
    column: str
    pivot_reason: str

    def same_decisions(self, other: Layout, renamed: Mapping[str, str]) -> bool:
        """Return whether only reasons differ from ``other``, an older layout; ``renamed`` maps its columns to new
        ones."""
        column = renamed.get(other.column, other.column)
        decided = self.kind, set(self.together), self.bucketed, self.column
        return decided == (other.kind, set(other.together), other.bucketed, column)


@dataclass(frozen=True)
class LayoutChange:
    """A relation whose layout has changed; ``old`` is None for a new relation. ``helper`` relations are made by the
    compiler."""

    relation: str
    helper: bool
    old: Layout | None
    new: Layout


@dataclass(frozen=True)
class StageText:
    """A stage: its strata, whether it has one task per bucket, and why it begins where it does."""

    strata: tuple[str, ...]
    bucketed: bool
    reason: str


@dataclass(frozen=True)
class StageChange:
    """The stages before and after the change."""

    old: tuple[StageText, ...]
    new: tuple[StageText, ...]


@dataclass(frozen=True)
class Recomputed:
    """A relation that an upgrade recomputes, with the reasons as clauses."""

    relation: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class InputNeed:
    """The treatment of an input by an upgrade: it must be ``given``; it is new, and ``empty`` unless given; it is
    ``refilled`` from its stored rows; or these are ``dropped``."""

    relation: str
    need: str


@dataclass(frozen=True)
class Upgrade:
    """The effect of ``upgrade`` on a state of the old program; relations have their public names.

    Of the ``kept`` relations, those ``following`` take the net changes of what they read. ``helpers`` says whether
    relations made by the compiler are recomputed. ``functions`` must be given with ``--functions``, in the same file
    that made the state; any other file recomputes everything.
    """

    needed: bool
    recomputed: tuple[Recomputed, ...]
    kept: tuple[str, ...]
    following: tuple[str, ...]
    dropped: tuple[str, ...]
    inputs: tuple[InputNeed, ...]
    helpers: bool
    functions: tuple[str, ...]


@dataclass(frozen=True)
class ReaderChange:
    """Change of a published relation: it is ``new`` or ``gone``, or it ``stays``, with other ``details``.

    ``contents`` is ``same`` (for the same inputs and functions) or ``may differ``, because of ``causes``; it is empty
    for relations that are new or gone.
    """

    change: str
    relation: str
    details: tuple[Detail, ...] = ()
    contents: str = ""
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Warned:
    """A compiler warning about only one of the programs: ``new`` or ``gone``."""

    change: str
    code: str
    message: str
    place: str


@dataclass(frozen=True)
class ProgramComparison:
    """The differences between two programs; ``upgrade`` is None for a process, which has no such command."""

    rules: tuple[RuleChange, ...]
    functions: tuple[FunctionChange, ...]
    relations: tuple[RelationChange, ...]
    layouts: tuple[LayoutChange, ...]
    stages: StageChange | None
    upgrade: Upgrade | None
    readers: tuple[ReaderChange, ...]
    warnings: tuple[Warned, ...]

    @property
    def same_meaning(self) -> bool:
        """Return whether all relations are the same and have the same tuples."""
        return not (self.relations or self.functions or any(rule.change != "rewritten" for rule in self.rules))

    @property
    def same(self) -> bool:
        """Return whether there is nothing to report."""
        other = (self.rules, self.layouts, self.stages, self.warnings, self.upgrade and self.upgrade.needed)
        return self.same_meaning and not any(other)


@dataclass(frozen=True)
class ProcessChange:
    """A process that is ``added``, ``removed`` or ``changed``; only a changed one has a ``comparison``."""

    change: str
    name: str
    comparison: ProgramComparison | None = None


@dataclass(frozen=True)
class ChannelChange:
    """A channel, or a feed if the sender is ``outside``, that is ``added``, ``removed`` or ``changed``; ``old`` and
    ``new`` are the columns that it carries."""

    change: str
    relation: str
    sender: str
    reader: str
    old: str
    new: str


@dataclass(frozen=True)
class ProcessesComparison:
    """The differences between two programs of several processes."""

    processes: tuple[ProcessChange, ...]
    channels: tuple[ChannelChange, ...]

    @property
    def same(self) -> bool:
        """Return whether there is nothing to report."""
        return not self.processes and not self.channels
