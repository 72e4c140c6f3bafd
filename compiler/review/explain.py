"""Explain in prose which decisions the compiler made about a program, and why.

Each section covers decisions of one kind, and is left out if the program needs none.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from ..diagnostics import in_a_line, listed
from ..ir import typed
from ..ir.localized import LocalizedRule
from ..ir.plan import StagePlan, StratumPlan
from ..ir.rule_origin import Making
from ..ir.strata import TypedStratum
from ..passes.linearize import is_transitive, rules_that_need
from ..passes.plan_stages import broken_literals, candidates
from ..pipeline import Compilation

WIDTH, MOST_WIDE = 92, 100
"""The width of lines in columns, and the most that a line with a rule may have."""

MOST_TOLD = 4
"""The most relations or rules to describe individually."""

_ROLES = ("input", "multiset", "derived", "output")
"""The roles of relations, as they are told."""


def explain(compilation: Compilation) -> str:
    """Return the explanation of a program, in lines of up to :data:`WIDTH` columns where the program's text allows."""
    return "\n".join(PlanExplainer(compilation).lines()).rstrip() + "\n"


class PlanExplainer:
    """Explains one program."""

    def __init__(self, compilation: Compilation) -> None:
        """Index the relations, rules and pivots of a compiled program."""
        self.compilation = compilation
        self.program = compilation.rewritten
        self.relations = {relation.name: relation for relation in self.program.relations}
        self.stages = compilation.plan.stages
        self.pivots = {p.relation: p for stage in self.stages for s in stage.strata for p in s.pivots}

    def lines(self) -> Iterator[str]:
        """Yield the explanation line by line."""
        name = self.compilation.sources[0].name
        process = f"process {self.program.process} of " if self.program.process else ""
        title = f"How {process}{name} is evaluated and maintained"
        yield from (title, "=" * len(title), "")
        for heading, section in (
            ("Relations", self.about_relations()),
            ("Rules that were rewritten", self.about_rewritings()),
            ("Locations", self.about_locations()),
            ("Strata and stages", self.about_stages()),
            ("How relations are maintained", self.about_strategies()),
            ("Warnings", self.about_warnings()),
        ):
            lines = list(section)
            if lines:
                yield from (heading, "-" * len(heading), "", *lines)

    # ---- relations ---------------------------------------------------------------------------------------------------

    def about_relations(self) -> Iterator[str]:
        """Yield inputs, outputs and other relations, with their columns and source positions."""
        groups: dict[tuple[bool, ...], list[typed.TypedRelation]] = {}
        for relation in (r for r in self.compilation.typed.relations if not r.hidden):
            is_input = relation.role == "input" or relation.accepts_input
            derived = relation.role == "derived" and (is_input or not relation.output) and not relation.multiset
            roles = (is_input, relation.multiset, derived, relation.output)
            groups.setdefault(roles, []).append(relation)
        entries = [
            (", ".join(word for word, has in zip(_ROLES, roles, strict=True) if has), relation)
            for roles in sorted(groups, key=lambda roles: (not roles[0], not roles[3]))
            for relation in groups[roles]
        ]
        entries += [("helper", relation) for relation in self.program.relations if relation.hidden]
        width = max((len(kind) for kind, _ in entries), default=0)
        for kind, relation in entries:
            text = f"{kind.ljust(width)}  {_signature(relation)}"
            yield self.entry(text, "" if relation.hidden else str(relation.span))
            if relation.hidden:
                yield from _paragraph(f"{relation.why}.", width + 4, width + 4)
        yield ""

    def entry(self, text: str, place: str, indent: int = 2) -> str:
        """Return a line with the source position on its right, or below it if there is no room."""
        line = " " * indent + text
        if len(line) + len(place) > MOST_WIDE - 2:
            return f"{line}\n{place.rjust(WIDTH)}".rstrip()
        return f"{line.ljust(WIDTH - len(place) - 2)}  {place}".rstrip()

    # ---- rewritings --------------------------------------------------------------------------------------------------

    def about_rewritings(self) -> Iterator[str]:
        """Yield how the compiler rewrote rules, and why it could not make some transitive rules linear."""
        yield from self.about_disjunctions()
        yield from self.about_inputs()
        yield from self.about_proofs()
        yield from self.about_changed_rules()
        yield from self.about_transitive_rules()

    def about_inputs(self) -> Iterator[str]:
        """Yield what became of inputs that are multisets, or are derived, too."""
        for relation in self.program.relations:
            if relation.hidden and relation.role == "input" and relation.public:
                name = relation.public
                if relation.copies:
                    yield from _paragraph(
                        f"{name} is a multiset. Each copy of a row from outside is a tuple of {relation.name}, with "
                        f"its number. Sums, counts and averages are over these; {name} itself is the set of the rows, "
                        "which everything else reads."
                    )
                    yield ""
                    continue
                yield from _paragraph(
                    f"{name} is an input and is derived, too. Rows from outside are stored in {relation.name}, and a "
                    f"rule copies them to {name}: a row that is deleted there stays in {name} as long as another rule "
                    "derives it."
                )
                yield ""

    def about_proofs(self) -> Iterator[str]:
        """Yield which relations have proofs, because their recursion spans processes."""
        proved = [r.annotates for r in self.program.relations if r.keeps == "proofs"]
        if proved:
            yield from _paragraph(
                f"{listed(proved)} {_verb(proved, 'is', 'are')} part of a recursion over several processes. Each tuple "
                "comes with one live proof, a set of identities of base facts that suffices to derive it. The rules "
                "take the union of the proofs of what they read, and the identities of what is not part of the "
                "recursion."
            )
            yield ""

    def about_changed_rules(self) -> Iterator[str]:
        """Yield which rules were made linear, or negate a projection."""
        written = {rule.label: rule for rule in self.compilation.typed.rules}
        for rule in self.program.rules:
            before = written.get(rule.label)
            if before is None or before.body == rule.body:
                continue
            if rule.made is Making.LINEAR:
                name = rule.head.relation
                exits = self.exits(rule)
                yield from _paragraph(
                    f"{self.at(rule)} joins {name} with itself. Since {listed(exits)} {_verb(exits, 'does', 'do')} not "
                    f"use {name}, it is enough to extend paths by one step at a time, which allows {name} to be cut "
                    "into buckets:"
                )
                yield from self.was_and_is(before, rule)
            negated = [
                (old, new)
                for old, new in zip(before.negations, rule.negations, strict=True)
                if old.atom.relation != new.atom.relation
            ]
            for old, new in negated:
                yield from _paragraph(
                    f"{self.at(rule)} negates {old.atom}. It reads {new.atom.relation}, which is "
                    f"{old.atom.relation} without the columns of wildcards, so that replacing a tuple of "
                    f"{old.atom.relation} by one that differs only in these is not a change:"
                )
                yield from self.was_and_is(before, rule)

    def about_transitive_rules(self) -> Iterator[str]:
        """Yield why some transitive rules could not be made linear."""
        for rule in self.program.rules:
            if is_transitive(rule):
                using = rules_that_need(self.program, rule)
                why = (
                    f"{listed([r.label for r in using])} {_verb(using, 'derives', 'derive')} it from itself as well"
                    if using
                    else "no other rule derives it"
                )
                yield from _paragraph(
                    f"{self.at(rule)} joins {rule.head.relation} with itself and stays as it is: to make it linear, "
                    f"the other rules of {rule.head.relation} must not use it, but {why}."
                )
                yield ""

    def exits(self, rule: typed.TypedRule) -> list[str]:
        """Return the labels of the exit rules of the relation whose ``rule`` was made linear."""
        name = rule.head.relation
        base = self.relations[rule.atoms[0].relation]
        gathered = base.hidden and base.role == "derived"
        return [other.label for other in self.program.rules_of(base.name if gathered else name) if other is not rule]

    def about_disjunctions(self) -> Iterator[str]:
        """Yield which rules are the alternatives of one disjunction."""
        written = [rule for rule in self.compilation.typed.rules if not self.relations[rule.head.relation].hidden]
        for _, group in groupby(written, lambda rule: (str(rule.span), rule.span.column)):
            rules = list(group)
            if len(rules) > 1:
                yield from _paragraph(
                    f"The disjunction at {rules[0].span} becomes a rule for each alternative: "
                    f"{listed([rule.label for rule in rules])}."
                )
                yield ""

    def was_and_is(self, before: typed.TypedRule, after: typed.TypedRule) -> Iterator[str]:
        """Yield a rule before and after rewriting."""
        yield f"    was  {_without_label(self.shown(before))}"
        yield f"    is   {_without_label(self.shown(after))}"
        yield ""

    # ---- locations ---------------------------------------------------------------------------------------------------

    def about_locations(self) -> Iterator[str]:
        """Yield where tuples live, which rules are local, and what is sent for the other rules."""
        located = [r for r in self.program.relations if r.location is not None or r.at is not None]
        if not located:
            return
        places = [f"{r.name} at {r.at if r.location is None else r.columns[r.location].name}" for r in located]
        text = f"Relations have these locations: {listed(places)}."
        anywhere = [r.name for r in self.program.relations if r not in located]
        if anywhere:
            text += (
                f" {listed(anywhere)} {_verb(anywhere, 'has', 'have')} no location: {_verb(anywhere, 'its', 'their')} "
                "tuples are assumed to be known everywhere."
            )
        yield from _paragraph(text)
        yield ""
        rules = self.compilation.localized.rules
        staying = [r for r in rules if not r.sends and not r.broadcast and not r.sends_head]
        local = [r.rule for r in staying if r.head_location or not r.location]
        if local:
            yield from _paragraph(
                f"{self.told(local)} {_verb(local, 'is', 'are')} local: everything that is read is at the location of "
                "the head."
            )
            yield ""
        spread = [r.rule for r in staying if r.rule not in local]
        if spread:
            yield from _paragraph(
                f"{self.told(spread)} {_verb(spread, 'reads', 'read')} at one location and "
                f"{_verb(spread, 'derives', 'derive')} tuples that are assumed to be known everywhere."
            )
            yield ""
        for rule in rules:
            if rule not in staying:
                yield from self.about_sends(rule)
        helpers = [relation.name for relation in self.compilation.localized.auxiliaries]
        if helpers:
            yield from _paragraph(
                f"On one cluster, {listed(helpers)} {_verb(helpers, 'is', 'are')} not stored but "
                f"{_verb(helpers, 'shows', 'show')} what would be sent. Rules are planned as they were written."
            )
            yield ""

    def about_sends(self, rule: LocalizedRule) -> Iterator[str]:
        """Yield what is sent for one rule."""
        if rule.broadcast:
            places = listed(f"@{place}" for place in dict.fromkeys((rule.location, *rule.broadcast)))
            yield from _paragraph(
                f"{self.at(rule.rule)} cannot be made local: its tuples are at {places}, and no literal has the "
                "addresses to send them to. On one cluster it is evaluated anyway."
            )
            yield from self.block([rule.rule])
            return
        steps = []
        for send in rule.sends:
            what = " joined with ".join(send.carries) or "bound values"
            steps.append(f"{what} goes from {send.source} to {send.destination} as {send.auxiliary}, since {send.why}")
        if rule.sends_head:
            head = _without_label(self.shown(rule.rule)).partition(" :- ")[0]
            steps.append(f"the head {head} goes from {rule.location} to {rule.head_location}")
        if rule.sends:
            yield from _paragraph(f"{self.at(rule.rule)} is evaluated at {rule.location}:")
            for step in steps:
                yield from _paragraph(f"- {step};" if step is not steps[-1] else f"- {step}.", 2, 4)
            yield from self.block(rule.parts)
        else:
            yield from _paragraph(f"{self.at(rule.rule)} finds its body at {rule.location}; {steps[0]}.")
            yield ""

    # ---- strata ------------------------------------------------------------------------------------------------------

    def about_stages(self) -> Iterator[str]:
        """Yield the strata in the order of evaluation, their pivots, and why each stage begins."""
        if not self.stages:
            return
        strata, stages = sum(len(stage.strata) for stage in self.stages), len(self.stages)
        order = (
            f"{_number(strata, 'stratum', 'strata')} in {_number(stages, 'stage')}. A stratum comes after those that "
            "it reads; a stage runs its strata one after the other, without exchange between tasks"
        )
        bucketed = any(stage.bucketed for stage in self.stages)
        order += ". Each bucket of tuples is a separate task." if bucketed else "."
        yield from _paragraph(order[0].upper() + order[1:])
        yield ""
        for number, stage in enumerate(self.stages, 1):
            where = "one task per bucket" if stage.bucketed else "gathered in one task"
            yield f"Stage {number}: {', '.join(s.stratum.name for s in stage.strata)} ({where})"
            yield ""
            before = self.stages[number - 2] if number > 1 else None
            for place, planned in enumerate(stage.strata):
                earlier = frozenset(name for s in stage.strata[:place] for name in s.stratum.members)
                why = self.why_joined(planned, stage, earlier) if place else self.why_apart(planned, stage, before)
                yield from self.about_stratum(planned, why)
                yield ""

    def about_stratum(self, planned: StratumPlan, why_here: str) -> Iterator[str]:
        """Yield the kind, rules and pivots of a stratum; ``why_here`` says why it is in its stage."""
        stratum = planned.stratum
        yield from _paragraph(f"{' and '.join(r.name for r in stratum.relations)}: {self.kind(stratum)}.", 2, 2)
        for rule in stratum.rules:
            yield self.entry(self.shown(rule), str(rule.span), 6)
        told = []
        gathered: dict[str, list[str]] = {}
        for pivot in planned.pivots:
            if pivot.column is None:
                gathered.setdefault(pivot.reason, []).append(pivot.relation)
            else:
                column = self.relations[pivot.relation].columns[pivot.column].name
                told.append(f"{pivot.relation} is cut into buckets of {column}: {pivot.reason}.")
        for reason, names in gathered.items():
            told.append(f"{listed(names)} {_verb(names, 'is', 'are')} not cut into buckets: {reason}.")
        filtered = [rule.label for rule in planned.rules if rule.filtered]
        if filtered:
            every = [written.label for rule in planned.rules if rule.filtered for written in rule.rules]
            told.append(
                f"{listed(filtered)} {_verb(every, 'reads', 'read')} no tuples of this stage, so every bucket "
                f"evaluates {_verb(every, 'it', 'them')} and keeps the heads that belong to it."
            )
        told.append(why_here)
        yield from _paragraph(" ".join(told), 2, 2)

    def kind(self, stratum: TypedStratum) -> str:
        """Return the kind of a stratum, and why, as a clause."""
        if stratum.recursive:
            best = dict.fromkeys(f"`{a}`" for rule in stratum.rules for a in rule.aggregates)
            return self.recursion(stratum) + (f", keeping {listed(best)} of each group" if best else "")
        if stratum.kind == "aggregate":
            functions = dict.fromkeys(str(a) for rule in stratum.rules for a in rule.aggregates)
            head = stratum.rules[0].head
            groups = [
                column.name
                for place, column in enumerate(stratum.relations[0].columns)
                if not isinstance(head.arguments[place], typed.Aggregate) and place not in head.ranked
            ]
            return f"aggregates {listed(functions)} {f'by {listed(groups)}' if groups else 'over all tuples'}"
        if stratum.kind == "identities":
            return "numbers the tuples that a recursion over several processes reads"
        if stratum.kind == "epochs":
            return "counts how often tuples have appeared that a recursion over several processes negates"
        if stratum.kind == "dead":
            return "tells the other processes which identities are dead"
        if stratum.kind == "timed":
            return "selected by a bound"
        return "not recursive" if stratum.rules else "has no rules, so it is empty"

    def recursion(self, stratum: TypedStratum) -> str:
        """Return through which rules a stratum is recursive, as a clause."""
        reads: dict[str, list[str]] = {}
        for rule in stratum.rules:
            for name in dict.fromkeys(a.relation for a in rule.atoms if a.relation in stratum.members):
                reads.setdefault(f"{rule.head.relation} from {name}", []).append(rule.label)
        if not reads:
            return "part of a recursion over several processes: its inputs depend on what it derives"
        if len(stratum.members) == 1:
            labels = next(iter(reads.values()))
            return f"recursive, because {listed(labels)} {_verb(labels, 'reads', 'read')} {stratum.name} itself"
        steps = [f"{listed(labels)} {_verb(labels, 'derives', 'derive')} {step}" for step, labels in reads.items()]
        return f"recursive through each other, because {listed(steps)}"

    def why_joined(self, planned: StratumPlan, stage: StagePlan, earlier: frozenset[str]) -> str:
        """Return why a stratum runs in the stage of the strata before it, whose relations are ``earlier``."""
        read = [
            (rule, literal, literal in rule.atoms)
            for rule in planned.stratum.rules
            for literal in rule.read
            if literal.relation in earlier
        ]
        if not stage.bucketed:
            names = listed(literal.relation for _, literal, _ in read)
            return f"It joins the stage, since {f'it reads {names}' if names else 'it is gathered too'}."
        if not read:
            return "It joins the stage, since it reads nothing of it."
        kept = [
            f"{rule.label} {'finds' if positive else 'looks for'} {literal} in the bucket of {self.pivot_term(rule)}"
            for rule, literal, positive in read
        ]
        return f"It joins the stage, since {listed(kept[:MOST_TOLD])}."

    def why_apart(self, planned: StratumPlan, stage: StagePlan, before: StagePlan | None) -> str:
        """Return why a stratum begins a stage; empty for the first stage."""
        if before is None:
            return ""
        names = listed(r.name for s in before.strata for r in s.stratum.relations)
        if not stage.bucketed:
            return f"It begins a stage, since it is not cut into buckets, unlike {names}."
        if not before.bucketed:
            return f"It begins a stage, since it is cut into buckets, unlike {names}."
        fixed = {p.relation: p.column for s in before.strata for p in s.pivots if p.column is not None}
        stratum = planned.stratum
        if len(stratum.relations) == 1:
            relation = stratum.relations[0]
            reasons: dict[str, list[str]] = {}
            for column in sorted(candidates(stratum, relation)):
                reason = self.first_broken(stratum, {**fixed, relation.name: column})
                reasons.setdefault(reason, []).append(relation.columns[column].name)
            why = [f"cut by {' or '.join(columns)}, {reason}" for reason, columns in reasons.items()]
        else:
            why = [self.first_broken(stratum, {**fixed, **{p.relation: p.column or 0 for p in planned.pivots}})]
        read = dict.fromkeys(x.relation for r in stratum.rules for x in r.read if x.relation in fixed)
        cuts = listed(f"{name} by {self.relations[name].columns[fixed[name]].name}" for name in read)
        return f"It begins a stage, since the one before has cut {cuts}: {'; '.join(why[:MOST_TOLD])}."

    def first_broken(self, stratum: TypedStratum, pivots: Mapping[str, int]) -> str:
        """Return as a clause what a rule needs from other buckets if relations are cut by ``pivots``."""
        broken = [(rule, atom) for rule in stratum.rules for atom in broken_literals(rule, pivots)]
        return f"{broken[0][0].label} would need {broken[0][1]} of other buckets" if broken else "it is not checked"

    def pivot_term(self, rule: typed.TypedRule) -> str:
        """Return the term at the pivot of a rule's head."""
        column = self.pivots[rule.head.relation].column
        assert column is not None
        return str(rule.head.arguments[column])

    # ---- strategies --------------------------------------------------------------------------------------------------

    def about_strategies(self) -> Iterator[str]:
        """Yield how the strata of each kind are maintained."""
        of: dict[str, list[str]] = {}
        for stage in self.stages:
            for planned in stage.strata:
                of.setdefault(planned.stratum.kind, []).extend(r.name for r in planned.stratum.relations)
        texts = {
            "counted": "Counting. A tuple is stored with the number of its derivations; a batch adds those that it "
            "creates and subtracts those that it removes, each counted once. At 0 the tuple is deleted.",
            "ranked": "Ranked support. A tuple is stored with the round in which it was derived and the number of "
            "derivations that use only earlier tuples. A deletion first removes the tuples that lose all of these, "
            "then restores those that have another derivation; tuples on a cycle cannot keep each other alive.",
            "extremal": "Ranked support of extrema. A group is stored with its best value, the round in which it "
            "was derived, and the number of its derivations from earlier rounds. A group that loses all of these, or "
            "gets a better value, is removed, and restored with the best value that the remaining tuples derive.",
            "acyclic": "Groups in the order of their dependencies. A batch finds the groups in which derivations "
            "change, and all that depend on them, and computes each again after those that it depends on. If groups "
            "depend on each other in a cycle, the batch is refused.",
            "entries": "Derivation sets. Each fact is stored once for every set of facts that it was derived from; a "
            "batch updates these derivations in any order, and each follows a cycle only once.",
            "timed": "Bounds. Tuples of another relation are selected by comparing a column with a bound, such as the "
            "time. When the bound moves, only those between where it was and where it is enter or leave.",
            "identities": "Identities. Each tuple is stored with a number that no other tuple had or will have.",
            "epochs": "Epochs. Each tuple is stored with the number of times that it has appeared, even if it is gone.",
            "dead": "Dead identities. Those of tuples that are gone are stored as ranges of numbers.",
            "proofs": "Live proofs. Each tuple, or group with an extremum, is stored with one proof. A batch removes "
            "the tuples whose proofs contain a dead identity, and derives again those that it still can.",
            "aggregate": "Recomputed groups. A batch recomputes only the groups that lost or gained a row.",
        }
        for kind in texts:
            if kind in of:
                yield from _paragraph(f"{listed(of[kind])}: {texts[kind]}")
                yield ""
        if of:
            yield from _paragraph(
                "A batch publishes exactly the difference between the states before and after it. `flintlog certify` "
                "proves that every change of a rule's body is counted exactly once."
            )
            yield ""

    def about_warnings(self) -> Iterator[str]:
        """Yield the compiler's warnings."""
        for warning in self.compilation.warnings:
            yield from _paragraph(f"{in_a_line(warning)}.")
            yield ""

    # ---- text --------------------------------------------------------------------------------------------------------

    def told(self, rules: list[typed.TypedRule]) -> str:
        """Return the labels of rules as a list in words, with source positions if there are few."""
        return listed(self.at(rule) if len(rules) <= MOST_TOLD else rule.label for rule in rules)

    def at(self, rule: typed.TypedRule) -> str:
        """Return a rule's label and source position."""
        return f"{rule.label} ({rule.span})"

    def shown(self, rule: typed.TypedRule) -> str:
        """Return a rule with its locations."""
        return self.compilation.localized.show(rule)

    def block(self, rules: Iterable[typed.TypedRule]) -> Iterator[str]:
        """Yield rules as a block of lines."""
        yield from (f"      {self.shown(rule)}" for rule in rules)
        yield ""


def _signature(relation: typed.TypedRelation) -> str:
    """Return the name and columns of a relation, without its role."""
    return str(relation).partition("relation ")[2]


def _without_label(text: str) -> str:
    return text.partition(": ")[2]


def _verb(subjects: Iterable[object], one: str, many: str = "are") -> str:
    """Return the verb form that agrees with the number of subjects."""
    return one if len(list(subjects)) == 1 else many


def _number(count: int, one: str, many: str = "") -> str:
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return f"{words[count] if count < len(words) else count} {one if count == 1 else many or f'{one}s'}"


def _paragraph(text: str, first: int = 0, rest: int = 0) -> Iterator[str]:
    """Yield wrapped text, indented by ``first``, then ``rest``; keep literals, and labels with places, together."""
    whole = re.sub(
        r"\((?:[^()]|\([^()]*\))*\)",
        lambda match: match[0].replace(" ", "\xa0") if len(match[0]) < 40 else match[0],
        text,
    )
    whole = re.sub(r" (?=\([\w./]+:\d+\))", "\xa0", whole)
    lines = textwrap.wrap(
        whole,
        WIDTH,
        initial_indent=" " * first,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    yield from (line.replace("\xa0", " ") for line in lines)
