"""What a change of a program changes: for those who review it.

Before and after::

    r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
    r2: reachable(@A, B) :- link(@A, C), reachable(@C, B), A != B.

say that rule ``r2`` has changed (not that its variables have other names), that ``reachable`` is maintained as before,
that an upgrade of a state recomputes it, and that whoever reads it may find other tuples.

Rules are compared as they are resolved, but for the names of variables, the order of literals, and how a comparison is
turned. Rules that are alike in this give the same derivations, so a relation has the same tuples if its rules are
alike, one by one, and what they read has the same tuples. Others may have the same tuples too; that is not looked into.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import count

from flintlog.targets.pyspark.upgrade import stored_program, upgrade_plan

from .diagnostics import Diagnostic
from .explain import Explainer
from .ir import syntax, topology, typed
from .pipeline import Compilation
from .processes import Processes

#: How much of two rules must be equal to call one a change of the other, as ``difflib`` counts it.
SIMILAR = 0.5

#: How many pairs of literals are tried before two rules are taken to differ.
MOST_TRIED = 20_000


@dataclass(frozen=True)
class WrittenRule:
    """A rule as the program has it: one, whatever its alternatives. ``text`` is one line, without the label; a rule
    that has no label is called after its head."""

    label: str
    relation: str
    text: str
    place: str


@dataclass(frozen=True)
class RuleChange:
    """A rule that is ``added``, ``removed`` or ``changed``, or ``rewritten`` without change of meaning: ``ways`` then
    says what differs, of ``label``, ``variables``, ``order`` (of literals) and ``notation``."""

    change: str
    old: WrittenRule | None
    new: WrittenRule | None
    ways: tuple[str, ...] = ()

    @property
    def rule(self) -> WrittenRule:
        """The new rule, or the old one if there is no new one."""
        found = self.new or self.old
        assert found is not None
        return found


@dataclass(frozen=True)
class Detail:
    """What differs in a declaration. ``what`` is ``column added``, ``column removed``, ``column renamed``, ``type``,
    ``column order``, ``location``, ``key``, ``role`` or ``symmetric``; ``column`` is named where one is concerned."""

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
    :class:`.strata.Stratum`; whether it is ``bucketed``, by which column, or else gathered; with the reasons that
    ``explain`` gives."""

    kind: str
    kind_reason: str
    together: tuple[str, ...]
    bucketed: bool
    column: str
    pivot_reason: str

    def same_decisions(self, other: Layout, renamed: Mapping[str, str]) -> bool:
        """Whether the same was decided, for whatever reasons; ``renamed`` columns of the other have new names."""
        column = renamed.get(other.column, other.column)
        decided = self.kind, set(self.together), self.bucketed, self.column
        return decided == (other.kind, set(other.together), other.bucketed, column)


@dataclass(frozen=True)
class LayoutChange:
    """A relation that is maintained in another way; ``old`` is None for a new one. ``helper`` relations are made by the
    compiler."""

    relation: str
    helper: bool
    old: Layout | None
    new: Layout


@dataclass(frozen=True)
class StageText:
    """A stage: its strata, whether it runs by bucket, and why it begins where it does."""

    strata: tuple[str, ...]
    bucketed: bool
    reason: str


@dataclass(frozen=True)
class StageChange:
    """The stages before and after."""

    old: tuple[StageText, ...]
    new: tuple[StageText, ...]


@dataclass(frozen=True)
class Recomputed:
    """A relation that an upgrade computes again, with the clauses that say why."""

    relation: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class InputNeed:
    """What an upgrade does with an input: it must be ``given``, it is new and ``empty`` unless it is given, it is
    ``refilled`` from its stored rows, or they are ``dropped``."""

    relation: str
    need: str


@dataclass(frozen=True)
class Upgrade:
    """What ``upgrade`` does to a state of the old program: relations by the names that users know.

    Of those that are ``kept``, some are ``following``: they take the net changes of what they read. ``helpers`` says
    whether relations that the compiler made are computed again. ``functions`` must be given with ``--functions``, in
    the file that made the state: with another one everything is computed again.
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
    """What readers of a published relation notice: it is ``new``, ``gone``, or it ``stays``, with other ``details``.

    ``contents`` are ``same`` (for the same inputs, and the same functions) or ``may differ``, because of ``causes``;
    empty for what is new or gone.
    """

    change: str
    relation: str
    details: tuple[Detail, ...] = ()
    contents: str = ""
    causes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Warned:
    """A warning that the compiler gives of one of the programs only."""

    change: str
    code: str
    message: str
    place: str


@dataclass(frozen=True)
class Comparison:
    """What differs between two programs; ``upgrade`` is None for a process, which has no such command."""

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
        """Whether all relations are the same and have the same tuples."""
        return not (self.relations or self.functions or any(rule.change != "rewritten" for rule in self.rules))

    @property
    def same(self) -> bool:
        """Whether there is nothing to report."""
        other = (self.rules, self.layouts, self.stages, self.warnings, self.upgrade and self.upgrade.needed)
        return self.same_meaning and not any(other)


@dataclass(frozen=True)
class ProcessChange:
    """A process that is ``added``, ``removed`` or ``changed``; only the last has a ``comparison``."""

    change: str
    name: str
    comparison: Comparison | None = None


@dataclass(frozen=True)
class ChannelChange:
    """A channel, or with ``outside`` as the sender a feed, that is ``added``, ``removed`` or ``changed``: ``old`` and
    ``new`` say what it carries."""

    change: str
    relation: str
    sender: str
    reader: str
    old: str
    new: str


@dataclass(frozen=True)
class ProcessesComparison:
    """What differs between two programs of several processes."""

    processes: tuple[ProcessChange, ...]
    channels: tuple[ChannelChange, ...]

    @property
    def same(self) -> bool:
        """Whether there is nothing to report."""
        return not self.processes and not self.channels


def compare(old: Compilation, new: Compilation, process: bool = False) -> Comparison:
    """What differs between two programs, or between two versions of a ``process``."""
    return _Comparer(old, new).comparison(process)


def compare_processes(old: Processes, new: Processes) -> ProcessesComparison:
    """What differs between two programs of processes, process by process, and in the channels between them."""
    was, now = old.compilations, new.compilations
    changes = [ProcessChange("added", name) for name in now if name not in was]
    changes += [ProcessChange("removed", name) for name in was if name not in now]
    for name in now:
        if name in was:
            found = compare(was[name], now[name], process=True)
            changes += [] if found.same else [ProcessChange("changed", name, found)]
    before, after = _carried(old.topology), _carried(new.topology)
    channels = []
    for key in dict.fromkeys([*before, *after]):
        carried = before.get(key, ""), after.get(key, "")
        if carried[0] != carried[1]:
            channels.append(ChannelChange(_change(*carried), *key, *carried))
    return ProcessesComparison(tuple(changes), tuple(channels))


def _carried(found: topology.Topology) -> dict[tuple[str, str, str], str]:
    """What flows, by relation, sender and reader."""
    flows = {(feed.relation, "outside", feed.reader): _listed(feed.columns) for feed in found.feeds}
    for channel in found.channels:
        text = _listed(channel.columns) + " with derivations" * channel.entries
        flows[channel.relation, channel.sender, channel.reader] = text
    return flows


def _listed(columns: Iterable[typed.Column]) -> str:
    return f"({', '.join(map(str, columns))})"


def _change(old: str, new: str) -> str:
    return "changed" if old and new else "added" if new else "removed"


# ---- rules that are alike --------------------------------------------------------------------------------------------


def alike(one: typed.Rule, other: typed.Rule, reorder: bool = True, types: bool = True) -> bool:
    """Whether two rules differ in the names of variables, in notation and, with ``reorder``, in the order of literals
    at most.

    Of types only those of constants are looked at, and without ``types`` not even these: all others are those of
    relations and functions, which are compared too.
    """
    return _Match(one, other, reorder, types).found()


@dataclass(frozen=True)
class _Node:
    """A part of a rule without what does not matter: ``kind`` is all of it but its ``parts``. A ``symmetric`` one may
    be turned round."""

    kind: tuple[object, ...]
    parts: tuple[_Node, ...] = ()
    symmetric: bool = False


class _Match:
    """Looks for names of the variables of one rule that make it another."""

    def __init__(self, one: typed.Rule, other: typed.Rule, reorder: bool, types: bool) -> None:
        self.heads = (_head(one, types), _head(other, types))
        self.bodies = [[_node(literal, types) for literal in _numbered(rule)] for rule in (one, other)]
        self.reorder = reorder
        self.tried = 0

    def found(self) -> bool:
        """Whether there are any."""
        if sorted(repr(x.kind) for x in self.bodies[0]) != sorted(repr(x.kind) for x in self.bodies[1]):
            return False
        return any(
            self.rest(0, (*range(len(self.bodies[1])),), names)
            for names in self.match(self.heads[0], self.heads[1], {})
        )

    def rest(self, place: int, left: tuple[int, ...], names: Mapping[str, str]) -> bool:
        """Whether the literals from a place on are those that are left of the other rule."""
        if place == len(self.bodies[0]):
            return True
        for index in left if self.reorder else left[:1]:
            self.tried += 1
            if self.tried > MOST_TRIED:
                return False
            others = tuple(other for other in left if other != index)
            for known in self.match(self.bodies[0][place], self.bodies[1][index], names):
                if self.rest(place + 1, others, known):
                    return True
        return False

    def match(self, one: _Node, other: _Node, names: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
        """The names with which two parts are equal, those that are known included."""
        if one.kind[0] == other.kind[0] == "variable":
            name, wanted = str(one.kind[1]), str(other.kind[1])
            if names.get(name, wanted) == wanted and (name in names or wanted not in names.values()):
                yield {**names, name: wanted}
        elif one.kind == other.kind and len(one.parts) == len(other.parts):
            yield from self.all_parts(one.parts, other.parts, names)
            if one.symmetric:
                yield from self.all_parts(one.parts, other.parts[::-1], names)

    def all_parts(
        self, one: Sequence[_Node], other: Sequence[_Node], names: Mapping[str, str]
    ) -> Iterator[Mapping[str, str]]:
        """The names with which two lists of parts are equal."""
        if not one:
            yield names
            return
        for known in self.match(one[0], other[0], names):
            yield from self.all_parts(one[1:], other[1:], known)


def _numbered(rule: typed.Rule) -> list[typed.Literal]:
    """The body of a rule, the wildcards of positive literals having names: each is a variable that stands once."""
    numbers = count()

    def named(term: typed.Term) -> typed.Term:
        return typed.Variable(f"_{next(numbers)}", term.type, term.span) if isinstance(term, typed.Wildcard) else term

    return [
        replace(literal, terms=tuple(map(named, literal.terms))) if isinstance(literal, typed.Atom) else literal
        for literal in rule.body
    ]


def _head(rule: typed.Rule, types: bool) -> _Node:
    return _Node(("head", rule.head.relation), tuple(_node(x, types) for x in rule.head.arguments))


_MIRRORED = {">": "<", ">=": "<="}


def _node(part: object, types: bool) -> _Node:
    """A literal, a term or an expression, without its place, and without types but (with ``types``) of constants."""
    if isinstance(part, typed.Convert):
        return _node(part.operand, types)
    parts = tuple(_node(x, types) for x in typed.parts_of(part) if x is not None)
    match part:
        case typed.Variable():
            return _Node(("variable", part.name))
        case typed.Wildcard():
            return _Node(("wildcard",))
        case typed.Constant():
            kind = "number" if part.type.numeric and not types else str(part.type)
            return _Node(("constant", kind, _value(part)))
        case typed.Assignment():
            return _Node(("=",), parts, symmetric=True)
        case typed.Comparison() if part.op in _MIRRORED:
            return _Node((_MIRRORED[part.op],), parts[::-1])
        case typed.Comparison():
            return _Node((part.op,), parts, symmetric=part.op in ("=", "!="))
        case typed.Atom():
            return _Node(("atom", part.relation), parts)
        case typed.Binary():
            return _Node(("binary", part.op), parts)
        case typed.Call():
            return _Node(("call", part.function), parts)
        case typed.Aggregate():
            return _Node(("aggregate", part.function, part.distinct), parts)
    return _Node((type(part).__name__,), parts)


def _value(constant: typed.Constant) -> str:
    """The value of a constant, the same for a number of any type."""
    text = f"{Decimal(constant.value):f}" if constant.type.numeric else str(constant.value)
    return text.rstrip("0").rstrip(".") if constant.type.numeric and "." in text else text


# ---- rules as they were written --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Source:
    """A rule as it was written, with the rules that it was resolved to, one for each alternative."""

    written: WrittenRule
    labelled: bool
    rules: tuple[typed.Rule, ...]

    def means(self, other: _Source, reorder: bool = True) -> bool:
        """Whether the other one has the same alternatives.

        What is written alike may have constants of other types, since columns have; that is no change of the rule.
        """
        types = self.written.text != other.written.text
        return _same_rules(self.rules, other.rules, reorder, types)

    @property
    def resolved(self) -> str:
        """The alternatives, without labels."""
        return " ; ".join(_without_label(rule) for rule in self.rules)


def _without_label(rule: typed.Rule) -> str:
    return str(rule).removeprefix(f"{rule.label}: ")


def _same_rules(one: Sequence[typed.Rule], other: Sequence[typed.Rule], reorder: bool, types: bool) -> bool:
    """Whether rules are alike one by one, in some order."""
    left = list(other)
    for rule in one:
        found = next((candidate for candidate in left if alike(rule, candidate, reorder, types)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


def _sources(compilation: Compilation) -> list[_Source]:
    """The rules of a program as they were written, but for those that the compiler made."""
    program = compilation.typed
    labels = {s.span: s.label for s in compilation.syntax.statements if isinstance(s, syntax.Rule)}
    hidden = {relation.name for relation in program.relations if relation.hidden}
    groups: dict[tuple[object, str], list[typed.Rule]] = {}
    for rule in program.rules:
        if rule.head.relation not in hidden:
            groups.setdefault((rule.span, rule.head.relation), []).append(rule)
    made = []
    for (_, relation), rules in groups.items():
        first = rules[0]
        given = labels.get(first.span)
        text = re.sub(r"^\s*[\w.]+\s*:(?![-=])\s*", "", " ".join(first.text.split())) if given else first.text
        name = given or (first.label.rpartition(".")[0] if len(rules) > 1 else first.label)
        written = WrittenRule(name, relation, " ".join(text.split()), str(first.span))
        made.append(_Source(written, given is not None, tuple(rules)))
    return made


def _pairs(old: list[_Source], new: list[_Source]) -> list[tuple[_Source, _Source]]:
    """Which rule became which: those that are alike, then those of one label, then the most similar of one head."""
    pairs: list[tuple[_Source, _Source]] = []
    left, right = list(old), list(new)

    def pair(one: _Source, other: _Source) -> None:
        pairs.append((one, other))
        left.remove(one)
        right.remove(other)

    def label(rule: _Source) -> str:
        return rule.written.label if rule.labelled else ""

    tests = (
        lambda one, other: label(one) == label(other) and one.resolved == other.resolved,
        lambda one, other: label(one) == label(other) and one.means(other),
        lambda one, other: one.means(other),
        lambda one, other: label(one) == label(other) != "",
    )
    for test in tests:
        for one in tuple(left):
            found = next((other for other in right if test(one, other)), None)
            if found is not None:
                pair(one, found)
    ranked = sorted(
        (
            (-_similarity(one, other), i, j, one, other)
            for i, one in enumerate(left)
            for j, other in enumerate(right)
            if one.written.relation == other.written.relation and one.rules[0].body and other.rules[0].body
        ),
        key=lambda item: item[:3],
    )
    for score, _, _, one, other in ranked:
        if -score >= SIMILAR and one in left and other in right:
            pair(one, other)
    return pairs


def _similarity(one: _Source, other: _Source) -> float:
    words = [re.findall(r"\w+|\S", rule.resolved.partition(" :- ")[2]) for rule in (one, other)]
    return float(difflib.SequenceMatcher(None, words[0], words[1], autojunk=False).ratio())


def _ways(one: _Source, other: _Source) -> tuple[str, ...]:
    """In what two rules of one meaning differ."""
    ways = []
    if one.labelled != other.labelled or (one.labelled and one.written.label != other.written.label):
        ways.append("label")
    if one.resolved == other.resolved or one.written.text == other.written.text:
        return tuple(ways)
    found = []
    names = [{v.name for rule in rules.rules for v in _variables(rule)} for rules in (one, other)]
    if names[0] != names[1] or (one.means(other, reorder=False) and _shape(one) == _shape(other)):
        found.append("variables")
    if not one.means(other, reorder=False):
        found.append("order")
    return (*ways, *(found or ["notation"]))


def _shape(source: _Source) -> str:
    """The rule with a mark for each variable."""
    names = {v.name for rule in source.rules for v in _variables(rule)}
    return re.sub(r"\b\w+\b", lambda word: "·" if word[0] in names else word[0], source.resolved)


def _variables(rule: typed.Rule) -> list[typed.Variable]:
    return [v for part in (*rule.head.arguments, *rule.body) for v in typed.variables_of(part)]


# ---- the comparison --------------------------------------------------------------------------------------------------


class _Comparer:
    """Compares two programs."""

    def __init__(self, old: Compilation, new: Compilation) -> None:
        self.old, self.new = old, new
        self.was = {r.name: r for r in old.typed.relations if not r.hidden}
        self.now = {r.name: r for r in new.typed.relations if not r.hidden}
        self.rules = self.rule_changes()
        self.functions = self.function_changes()
        self.relations = self.relation_changes()
        self.layouts = self.layout_changes()
        self.causes = self.all_causes()

    def comparison(self, process: bool) -> Comparison:
        """All of it."""
        return Comparison(
            self.rules,
            self.functions,
            self.relations,
            self.layouts,
            self.stage_change(),
            None if process else self.upgrade(),
            self.readers(),
            self.warnings(),
        )

    # ---- rules, functions and relations ----------------------------------------------------------------------------

    def rule_changes(self) -> tuple[RuleChange, ...]:
        """Rules in the order of the new program, then those that are gone."""
        old, new = _sources(self.old), _sources(self.new)
        before = {id(other): one for one, other in _pairs(old, new)}
        changes = []
        for rule in new:
            one = before.get(id(rule))
            if one is None:
                changes.append(RuleChange("added", None, rule.written))
            elif not one.means(rule):
                changes.append(RuleChange("changed", *_told_apart(one, rule)))
            elif ways := _ways(one, rule):
                changes.append(RuleChange("rewritten", one.written, rule.written, ways))
        kept = {id(one) for one in before.values()}
        changes += [RuleChange("removed", rule.written, None) for rule in old if id(rule) not in kept]
        return tuple(changes)

    def function_changes(self) -> tuple[FunctionChange, ...]:
        """External functions."""
        was = {f.name: str(f) for f in self.old.typed.functions}
        now = {f.name: str(f) for f in self.new.typed.functions}
        names = [name for name in dict.fromkeys([*now, *was]) if was.get(name) != now.get(name)]
        return tuple(
            FunctionChange(_change(was.get(name, ""), now.get(name, "")), name, was.get(name, ""), now.get(name, ""))
            for name in names
        )

    def relation_changes(self) -> tuple[RelationChange, ...]:
        """Relations in the order of the new program, then those that are gone."""
        changes = []
        for name, relation in self.now.items():
            if name not in self.was:
                changes.append(RelationChange("added", name, "", str(relation)))
            elif found := _details(self.was[name], relation):
                changes.append(RelationChange("changed", name, str(self.was[name]), str(relation), found))
        gone = [relation for name, relation in self.was.items() if name not in self.now]
        changes += [RelationChange("removed", relation.name, str(relation), "") for relation in gone]
        return tuple(changes)

    # ---- plans -----------------------------------------------------------------------------------------------------

    def layout_changes(self) -> tuple[LayoutChange, ...]:
        """Relations that are computed or cut in another way, and new ones."""
        old, new = _layouts(self.old), _layouts(self.new)
        helpers = {relation.name for relation in self.new.rewritten.relations if relation.hidden}
        renamed: dict[str, dict[str, str]] = {}
        for change in self.relations:
            renamed[change.name] = {d.old: d.new for d in change.details if d.what == "column renamed"}
        return tuple(
            LayoutChange(name, name in helpers, old.get(name), layout)
            for name, layout in new.items()
            if name not in old or not layout.same_decisions(old[name], renamed.get(name, {}))
        )

    def stage_change(self) -> StageChange | None:
        """The stages, if other relations run together."""
        old, new = _stages(self.old), _stages(self.new)
        sets = [
            {(stage.relations, stage.bucketed) for stage in compilation.plan.stages}
            for compilation in (self.old, self.new)
        ]
        return StageChange(old, new) if sets[0] != sets[1] else None

    # ---- what has other tuples -------------------------------------------------------------------------------------

    def all_causes(self) -> dict[str, dict[str, None]]:
        """The relations of the new program, hidden ones included, whose tuples may be others, with the causes."""
        program = self.new.typed
        known = {relation.name for relation in self.old.typed.relations}
        causes = {r.name: dict.fromkeys(self.own_causes(r)) if r.name in known else {} for r in program.relations}
        reads: dict[str, set[str]] = {}
        for rule in program.rules:
            reads.setdefault(rule.head.relation, set()).update(atom.relation for atom in rule.read)
        changed = True
        while changed:
            changed = False
            for name in causes:
                for read in sorted(reads.get(name, ()), key=list(causes).index):
                    more = {cause: None for cause in causes[read] if cause not in causes[name]}
                    causes[name].update(more)
                    changed = changed or bool(more)
        return {name: found for name, found in causes.items() if found}

    def own_causes(self, relation: typed.Relation) -> Iterator[str]:
        """Why a relation that both programs have may have other tuples, other than by what it reads."""
        name = relation.name
        old = self.old.typed.relation(name)
        for detail in _details(old, relation):
            match detail.what:
                case "type" | "column added" | "column removed":
                    yield f"`{name}` has other columns"
                case "column renamed" | "column order" if _is_input(relation):
                    yield f"`{name}` has other columns"
                case "key" if _is_input(relation):
                    yield f"`{name}` has another key"
                case "role" if _is_input(old) != _is_input(relation):
                    yield f"`{name}` is {role_of(relation)}, was {role_of(old)}"
        for change in self.rules:
            if change.change != "rewritten" and name in {r.relation for r in (change.old, change.new) if r}:
                yield f"rule `{change.rule.label}` is {change.change}"
        rules = self.old.typed.rules_of(name), self.new.typed.rules_of(name)
        if relation.hidden and not _same_rules(*rules, reorder=True, types=False):
            yield f"the paths of `{name}` are others"
        called = {call.function for rule in self.new.typed.rules_of(name) for call in typed.calls_in(rule)}
        for function in self.functions:
            if function.name in called:
                yield f"function `{function.name}` has changed"

    def readers(self) -> tuple[ReaderChange, ...]:
        """The published relations, in the order of the new program, then those that are published no more."""
        found = []
        for name, relation in self.now.items():
            if not relation.output:
                continue
            before = self.was.get(name)
            if before is None or not before.output:
                found.append(ReaderChange("new", name))
                continue
            details = tuple(d for d in _details(before, relation) if d.what not in ("role", "symmetric"))
            causes = tuple(self.causes.get(name, ()))
            found.append(ReaderChange("stays", name, details, "may differ" if causes else "same", causes))
        for name, relation in self.was.items():
            if relation.output and not (name in self.now and self.now[name].output):
                found.append(ReaderChange("gone", name))
        return tuple(found)

    # ---- upgrade ---------------------------------------------------------------------------------------------------

    def upgrade(self) -> Upgrade:
        """What the script of the new program does to a state of the old one."""
        was, now = stored_program(self.old.plan), stored_program(self.new.plan)
        plan = upgrade_plan(was, now)
        relations = now.relations
        moving = set(plan.recomputes)
        for stratum in now.strata:
            if moving.intersection(stratum.reads):
                moving.update(stratum.tables)
        recomputed = tuple(
            Recomputed(relations[table].name, self.why_recomputed(relations[table].name, reasons))
            for table, reasons in plan.recomputes.items()
            if not relations[table].hidden
        )
        kept = tuple(relations[table].name for table in plan.keeps if not relations[table].hidden)
        return Upgrade(
            plan.needed,
            recomputed,
            kept,
            tuple(relations[table].name for table in plan.keeps if table in moving and not relations[table].hidden),
            plan.drops,
            tuple(
                InputNeed(name, need)
                for need, names in (
                    ("given", plan.given),
                    ("empty", plan.empty),
                    ("refilled", plan.refilled),
                    ("dropped", plan.forgotten),
                )
                for name in names
            ),
            any(relations[table].hidden for table in plan.recomputes),
            tuple(function.name for function in self.new.typed.functions),
        )

    def why_recomputed(self, name: str, reasons: tuple[str, ...]) -> tuple[str, ...]:
        """The reasons, with what it is that is defined otherwise."""
        if "it is defined otherwise" not in reasons:
            return reasons
        found = [cause for cause in self.own_causes(self.now[name]) if cause.startswith(("rule", "function"))]
        found += [f"its {detail.what} has changed" for detail in _details(self.was[name], self.now[name])]
        layout = next((c for c in self.layouts if c.relation == name and c.old is not None), None)
        if layout is not None and layout.old is not None:
            old, new = layout.old, layout.new
            found += ["it is maintained in another way"] if old.kind != new.kind else []
            found += ["it is cut otherwise"] if (old.bucketed, old.column) != (new.bucketed, new.column) else []
        if not found and any(c.relation == name and c.old is None and c.helper for c in self.layouts):
            found = ["what it reads is rewritten"]
        if not found:
            found = ["its rules mean the same but are written otherwise, and an upgrade compares how they are written"]
        return tuple(dict.fromkeys(x for r in reasons for x in (found if r == "it is defined otherwise" else [r])))

    # ---- warnings --------------------------------------------------------------------------------------------------

    def warnings(self) -> tuple[Warned, ...]:
        """New ones, then those that are gone; they are compared but for the names of variables."""
        found = []
        for change, these, others in (("new", self.new, self.old), ("gone", self.old, self.new)):
            known = Counter(_warnings(others).values())
            for warning, key in _warnings(these).items():
                known[key] -= 1
                if known[key] < 0:
                    found.append(Warned(change, warning.code, warning.message, str(warning.span)))
        return tuple(found)


def _warnings(compilation: Compilation) -> dict[Diagnostic, tuple[str, str]]:
    """The warnings of a program, each with what it says, a mark standing for each variable."""
    names = {v.name for rule in compilation.typed.rules for v in _variables(rule)}
    return {
        warning: (warning.code, re.sub(r"\w+", lambda word: "·" if word[0] in names else word[0], warning.message))
        for warning in compilation.warnings
    }


def _told_apart(one: _Source, other: _Source) -> tuple[WrittenRule, WrittenRule]:
    """Two rules of different meaning: if they are written alike, as they were resolved."""
    if one.written.text != other.written.text:
        return one.written, other.written
    return replace(one.written, text=one.resolved), replace(other.written, text=other.resolved)


def _is_input(relation: typed.Relation) -> bool:
    return relation.role == "input" or relation.accepts_input


def role_of(relation: typed.Relation) -> str:
    """``input``, ``derived``, both, and whether it is ``output``."""
    words = (("input", _is_input(relation)), ("derived", relation.role == "derived"), ("output", relation.output))
    return " ".join(word for word, has in words if has)


def _details(old: typed.Relation, new: typed.Relation) -> tuple[Detail, ...]:
    """What differs between two declarations of a relation."""
    found = list(_column_details(old.columns, new.columns))
    renamed = {d.old: d.new for d in found if d.what == "column renamed"}
    was, now = _location(old), _location(new)
    if renamed.get(was.removeprefix("@"), was.removeprefix("@")) != now.removeprefix("@"):
        found.append(Detail("location", "", was, now))
    keys = [tuple(relation.columns[i].name for i in relation.key) for relation in (old, new)]
    if tuple(renamed.get(name, name) for name in keys[0]) != keys[1]:
        found.append(Detail("key", "", ", ".join(keys[0]), ", ".join(keys[1])))
    if role_of(old) != role_of(new):
        found.append(Detail("role", "", role_of(old), role_of(new)))
    if old.symmetric != new.symmetric:
        found.append(Detail("symmetric", "", *("yes" if r.symmetric else "no" for r in (old, new))))
    return tuple(found)


def _location(relation: typed.Relation) -> str:
    if relation.location is not None:
        return f"@{relation.columns[relation.location].name}"
    return "" if relation.at is None else f"@{relation.at}"


def _column_details(old: Sequence[typed.Column], new: Sequence[typed.Column]) -> Iterator[Detail]:
    """Columns by name; one that has another name at its place, the others staying, is renamed."""
    was, now = {c.name: c for c in old}, {c.name: c for c in new}
    renamed: dict[str, str] = {}
    if len(old) == len(new):
        for one, other in zip(old, new, strict=True):
            if one.name not in now and other.name not in was:
                renamed[one.name] = other.name
                yield Detail("column renamed", other.name, one.name, other.name)
                if one.type != other.type:
                    yield Detail("type", other.name, str(one.type), str(other.type))
    for one in old:
        if one.name not in now and one.name not in renamed:
            yield Detail("column removed", one.name, str(one.type), "")
    for other in new:
        if other.name not in was and other.name not in renamed.values():
            yield Detail("column added", other.name, "", str(other.type))
        elif other.name in was and was[other.name].type != other.type:
            yield Detail("type", other.name, str(was[other.name].type), str(other.type))
    orders = [[c.name for c in old if c.name in now], [c.name for c in new if c.name in was]]
    if orders[0] != orders[1]:
        yield Detail("column order", "", *(", ".join(c.name for c in columns) for columns in (old, new)))


def _layouts(compilation: Compilation) -> dict[str, Layout]:
    """How the relations of a program are maintained, but for inputs."""
    explainer = Explainer(compilation)
    found = {}
    for stage in compilation.plan.stages:
        for planned in stage.strata:
            stratum = planned.stratum
            for pivot in planned.pivots:
                column = "" if pivot.column is None else explainer.relations[pivot.relation].columns[pivot.column].name
                found[pivot.relation] = Layout(
                    stratum.kind,
                    explainer.kind(stratum),
                    tuple(relation.name for relation in stratum.relations),
                    stage.bucketed,
                    column,
                    pivot.reason,
                )
    return found


def _stages(compilation: Compilation) -> tuple[StageText, ...]:
    """The stages of a program."""
    explainer, stages = Explainer(compilation), compilation.plan.stages
    return tuple(
        StageText(
            tuple(planned.stratum.name for planned in stage.strata),
            stage.bucketed,
            explainer.why_apart(stage.strata[0], stage, stages[number - 1] if number else None),
        )
        for number, stage in enumerate(stages)
    )
