"""Compare two versions of a program and collect what its reviewers need to know.

Of the change between ::

    r2: reachable(@S, D) :- link(@S, Z), reachable(@Z, D).
    r2: reachable(@A, B) :- link(@A, C), reachable(@C, B), A != B.

it reports that rule ``r2`` has changed (not that variables were renamed), that ``reachable`` is maintained as before,
that an upgrade of a state recomputes it, and that its readers may find different tuples.

Rules that are alike, as :mod:`.matching` finds, have the same derivations, so a relation has the same tuples if its
rules are pairwise alike and what they read has the same tuples. Others may have the same tuples too; this is not
examined.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from flintlog.targets.pyspark.load import load_program
from flintlog.targets.pyspark.upgrades import DEFINED_DIFFERENTLY, expected_upgrade, strata_of, tables_read

from ..diagnostics import Diagnostic
from ..ir import topology, typed
from ..pipeline import Compilation
from ..processes import Processes
from .comparison import (
    ChannelChange,
    Detail,
    FunctionChange,
    InputNeed,
    Layout,
    LayoutChange,
    ProcessChange,
    ProcessesComparison,
    ProgramComparison,
    ReaderChange,
    Recomputed,
    RelationChange,
    RuleChange,
    StageChange,
    StageText,
    Upgrade,
    Warned,
    WrittenRule,
)
from .explain import PlanExplainer
from .matching import SourceRule, paired, same_rules, source_rules, ways


def compare(old: Compilation, new: Compilation, process: bool = False) -> ProgramComparison:
    """Return the differences between two programs, or between two versions of a ``process``."""
    return _Comparer(old, new).comparison(process)


def compare_processes(old: Processes, new: Processes) -> ProcessesComparison:
    """Return how two programs of processes differ: process by process, and in the channels between them."""
    was, now = old.compilations, new.compilations
    changes = [ProcessChange("added", name) for name in now if name not in was]
    changes += [ProcessChange("removed", name) for name in was if name not in now]
    for name in now:
        if name in was:
            difference = compare(was[name], now[name], process=True)
            changes += [] if difference.same else [ProcessChange("changed", name, difference)]
    before, after = _carried(old.topology), _carried(new.topology)
    channels = []
    for key in dict.fromkeys([*before, *after]):
        carried = before.get(key, ""), after.get(key, "")
        if carried[0] != carried[1]:
            channels.append(ChannelChange(_change(*carried), *key, *carried))
    return ProcessesComparison(tuple(changes), tuple(channels))


def _carried(found: topology.Topology) -> dict[tuple[str, str, str], str]:
    """Return as text what each feed and channel carries, by relation, sender and reader."""
    flows = {(feed.relation, "outside", feed.reader): _listed(feed.columns) for feed in found.feeds}
    for channel in found.channels:
        text = _listed(channel.columns) + " with derivations" * channel.entries
        flows[channel.relation, channel.sender, channel.reader] = text
    return flows


def _listed(columns: Iterable[typed.TypedColumn]) -> str:
    return f"({', '.join(map(str, columns))})"


def _change(old: str, new: str) -> str:
    return "changed" if old and new else "added" if new else "removed"


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

    def comparison(self, process: bool) -> ProgramComparison:
        """Return all differences; a ``process`` has no upgrade."""
        return ProgramComparison(
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
        """Return the changes of rules in the order of the new program, then the removed rules."""
        old, new = source_rules(self.old), source_rules(self.new)
        before = {id(other): one for one, other in paired(old, new)}
        changes = []
        for rule in new:
            one = before.get(id(rule))
            if one is None:
                changes.append(RuleChange("added", None, rule.written))
            elif not one.means(rule):
                changes.append(RuleChange("changed", *_told_apart(one, rule)))
            elif differing := ways(one, rule):
                changes.append(RuleChange("rewritten", one.written, rule.written, differing))
        kept = {id(one) for one in before.values()}
        changes += [RuleChange("removed", rule.written, None) for rule in old if id(rule) not in kept]
        return tuple(changes)

    def function_changes(self) -> tuple[FunctionChange, ...]:
        """Return the changes of external functions."""
        was = {f.name: str(f) for f in self.old.typed.functions}
        now = {f.name: str(f) for f in self.new.typed.functions}
        names = [name for name in dict.fromkeys([*now, *was]) if was.get(name) != now.get(name)]
        return tuple(
            FunctionChange(_change(was.get(name, ""), now.get(name, "")), name, was.get(name, ""), now.get(name, ""))
            for name in names
        )

    def relation_changes(self) -> tuple[RelationChange, ...]:
        """Return the changes of relations in the order of the new program, then the removed relations."""
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
        """Return the relations whose layout differs, and new relations."""
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
        """Return the stages if they group relations differently, or are bucketed differently; otherwise None."""
        old, new = _stages(self.old), _stages(self.new)
        sets = [
            {(stage.relations, stage.bucketed) for stage in compilation.plan.stages}
            for compilation in (self.old, self.new)
        ]
        return StageChange(old, new) if sets[0] != sets[1] else None

    # ---- relations whose tuples may differ -------------------------------------------------------------------------

    def all_causes(self) -> dict[str, dict[str, None]]:
        """Return the relations of the new program, hidden ones included, whose tuples may differ, with all causes."""
        program = self.new.typed
        old_names = {relation.name for relation in self.old.typed.relations}
        causes = {r.name: dict.fromkeys(self.own_causes(r)) if r.name in old_names else {} for r in program.relations}
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
        return {name: clauses for name, clauses in causes.items() if clauses}

    def own_causes(self, relation: typed.TypedRelation) -> Iterator[str]:
        """Yield why a relation of both programs may have different tuples, apart from what it reads."""
        yield from self.changed_declaration(relation)
        rules = self.old.typed.rules_of(relation.name), self.new.typed.rules_of(relation.name)
        if relation.hidden and not same_rules(*rules, reorder=True, types=False):
            yield f"the paths of `{relation.name}` have changed"
        yield from self.changed_definition(relation.name)

    def changed_declaration(self, relation: typed.TypedRelation) -> Iterator[str]:
        """Yield what differs in the declaration of a relation such that its tuples may."""
        name = relation.name
        old = self.old.typed.relation(name)
        for detail in _details(old, relation):
            match detail.what:
                case "type" | "column added" | "column removed":
                    yield f"`{name}` has different columns"
                case "column renamed" | "column order" if _is_input(relation):
                    yield f"`{name}` has different columns"
                case "key" if _is_input(relation):
                    yield f"`{name}` has a different key"
                case "role" if (_is_input(old), old.multiset) != (_is_input(relation), relation.multiset):
                    yield f"`{name}` is {role_of(relation)}, was {role_of(old)}"

    def changed_definition(self, name: str) -> Iterator[str]:
        """Yield which rules of a relation, and functions that these call, have changed."""
        for change in self.rules:
            if change.change != "rewritten" and name in {r.relation for r in (change.old, change.new) if r}:
                yield f"rule `{change.rule.label}` is {change.change}"
        called = {call.function for rule in self.new.typed.rules_of(name) for call in typed.calls_in(rule)}
        for function in self.functions:
            if function.name in called:
                yield f"function `{function.name}` has changed"

    def readers(self) -> tuple[ReaderChange, ...]:
        """Return the changes of published relations in the order of the new program, then those no longer published."""
        changes = []
        for name, relation in self.now.items():
            if not relation.output:
                continue
            before = self.was.get(name)
            if before is None or not before.output:
                changes.append(ReaderChange("new", name))
                continue
            details = tuple(d for d in _details(before, relation) if d.what not in ("role", "symmetric"))
            causes = tuple(self.causes.get(name, ()))
            changes.append(ReaderChange("stays", name, details, "may differ" if causes else "same", causes))
        for name, relation in self.was.items():
            if relation.output and not (name in self.now and self.now[name].output):
                changes.append(ReaderChange("gone", name))
        return tuple(changes)

    # ---- upgrade ---------------------------------------------------------------------------------------------------

    def upgrade(self) -> Upgrade:
        """Return what the script of the new program does to a state of the old one."""
        program = load_program(self.new.plan)
        plan = expected_upgrade(load_program(self.old.plan), program)
        relations = {relation.table: relation for relation in program.relations}
        moving = set(plan.recomputes)
        for stratum in strata_of(program):
            if moving.intersection(tables_read(stratum)):
                moving.update(relation.table for relation in stratum.relations)
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
        """Return the reasons, with what differs in the definition in place of the one that says no more."""
        if DEFINED_DIFFERENTLY not in reasons:
            return reasons
        differences = [*self.changed_definition(name)]
        differences += [f"its {detail.what} has changed" for detail in _details(self.was[name], self.now[name])]
        layout = next((c for c in self.layouts if c.relation == name and c.old is not None), None)
        if layout is not None and layout.old is not None:
            old, new = layout.old, layout.new
            differences += ["it is maintained differently"] if old.kind != new.kind else []
            differences += (
                ["it is divided into buckets differently"]
                if (old.bucketed, old.column) != (new.bucketed, new.column)
                else []
            )
        if not differences and any(c.relation == name and c.old is None and c.helper for c in self.layouts):
            differences = ["what it reads is rewritten"]
        if not differences:
            differences = ["its rules are equivalent but written differently, and an upgrade compares their text"]
        return tuple(dict.fromkeys(x for r in reasons for x in (differences if r is DEFINED_DIFFERENTLY else [r])))

    # ---- warnings --------------------------------------------------------------------------------------------------

    def warnings(self) -> tuple[Warned, ...]:
        """Return new warnings, then those that are gone; warnings are compared without variable names."""
        changes = []
        for change, these, others in (("new", self.new, self.old), ("gone", self.old, self.new)):
            counts = Counter(_warnings(others).values())
            for warning, key in _warnings(these).items():
                counts[key] -= 1
                if counts[key] < 0:
                    changes.append(Warned(change, warning.code, warning.message, str(warning.span)))
        return tuple(changes)


def _warnings(compilation: Compilation) -> dict[Diagnostic, tuple[str, str]]:
    """Return the warnings of a program, each with its code and its message with placeholders for variables."""
    names = {v.name for rule in compilation.typed.rules for v in typed.variables_of(rule)}
    return {
        warning: (warning.code, re.sub(r"\w+", lambda word: "·" if word[0] in names else word[0], warning.message))
        for warning in compilation.warnings
    }


def _told_apart(one: SourceRule, other: SourceRule) -> tuple[WrittenRule, WrittenRule]:
    """Return two rules with different meanings as written; with their resolved text if they are written alike."""
    if one.written.text != other.written.text:
        return one.written, other.written
    return replace(one.written, text=one.resolved), replace(other.written, text=other.resolved)


def _is_input(relation: typed.TypedRelation) -> bool:
    return relation.role == "input" or relation.accepts_input


def role_of(relation: typed.TypedRelation) -> str:
    """Return the role of a relation: the words ``input``, ``multiset``, ``derived`` and ``output`` that apply."""
    words = (
        ("input", _is_input(relation)),
        ("multiset", relation.multiset),
        ("derived", relation.role == "derived" and not relation.multiset),
        ("output", relation.output),
    )
    return " ".join(word for word, has in words if has)


def _details(old: typed.TypedRelation, new: typed.TypedRelation) -> tuple[Detail, ...]:
    """Return the differences between two declarations of a relation."""
    details = list(_column_details(old.columns, new.columns))
    renamed = {d.old: d.new for d in details if d.what == "column renamed"}
    was, now = _location(old), _location(new)
    if renamed.get(was.removeprefix("@"), was.removeprefix("@")) != now.removeprefix("@"):
        details.append(Detail("location", "", was, now))
    keys = [tuple(relation.columns[i].name for i in relation.key) for relation in (old, new)]
    if tuple(renamed.get(name, name) for name in keys[0]) != keys[1]:
        details.append(Detail("key", "", ", ".join(keys[0]), ", ".join(keys[1])))
    if role_of(old) != role_of(new):
        details.append(Detail("role", "", role_of(old), role_of(new)))
    if old.symmetric != new.symmetric:
        details.append(Detail("symmetric", "", *("yes" if r.symmetric else "no" for r in (old, new))))
    return tuple(details)


def _location(relation: typed.TypedRelation) -> str:
    if relation.location is not None:
        return f"@{relation.columns[relation.location].name}"
    return "" if relation.at is None else f"@{relation.at}"


def _column_details(old: Sequence[typed.TypedColumn], new: Sequence[typed.TypedColumn]) -> Iterator[Detail]:
    """Yield column differences by name; in equally long lists, a lost name with a new one at its place is renamed."""
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
    """Return the layouts of the derived relations of a program."""
    explainer = PlanExplainer(compilation)
    layouts = {}
    for stage in compilation.plan.stages:
        for planned in stage.strata:
            stratum = planned.stratum
            for pivot in planned.pivots:
                column = "" if pivot.column is None else explainer.relations[pivot.relation].columns[pivot.column].name
                layouts[pivot.relation] = Layout(
                    stratum.kind,
                    explainer.kind(stratum),
                    tuple(relation.name for relation in stratum.relations),
                    stage.bucketed,
                    column,
                    pivot.reason,
                )
    return layouts


def _stages(compilation: Compilation) -> tuple[StageText, ...]:
    """Return the stages of a program."""
    explainer, stages = PlanExplainer(compilation), compilation.plan.stages
    return tuple(
        StageText(
            tuple(planned.stratum.name for planned in stage.strata),
            stage.bucketed,
            explainer.why_apart(stage.strata[0], stage, stages[number - 1] if number else None),
        )
        for number, stage in enumerate(stages)
    )
