"""Cut the program into strata: strongly connected components, in topological order.

Before::

    r1: reachable(S, D) :- link(S, D).
    r2: reachable(S, D) :- link(S, Z), reachable(Z, D).
    r3: cut_off(S, D) :- node(S), node(D), !reachable(S, D).

After::

    stratum reachable: ranked
      r1, r2
    stratum cut_off: counted
      r3

Negation and aggregates within a component have no stratified meaning and are refused with the cycle.
"""

from __future__ import annotations

from ..diagnostics import Diagnostics, Note
from ..ir import typed
from ..ir.localized import Program as LocalizedProgram
from ..ir.strata import Program, Stratum


def stratify(localized: LocalizedProgram, diagnostics: Diagnostics) -> Program:
    """Return the strata; refuse negation (E0501) and aggregates (E0502) through recursion."""
    program = localized.program
    derived = [relation.name for relation in program.relations if relation.role == "derived"]
    reads: dict[str, list[str]] = {name: [] for name in derived}
    for rule in program.rules:
        for literal in (*rule.atoms, *(negation.atom for negation in rule.negations)):
            if literal.relation in reads:
                reads[rule.head.relation].append(literal.relation)
    components = _components(derived, reads)
    member_of = {name: index for index, members in enumerate(components) for name in members}
    strata = []
    for members in components:
        inside = set(members)
        rules = tuple(rule for rule in program.rules if rule.head.relation in inside)
        recursive = any(atom.relation in inside for rule in rules for atom in (*rule.atoms, *_negated(rule)))
        aggregate = any(rule.aggregates for rule in rules)
        if recursive:
            _check_cycles(program, rules, inside, diagnostics)
        relations = tuple(relation for relation in program.relations if relation.name in inside)
        kind = "ranked" if recursive else "aggregate" if aggregate else "counted"
        strata.append(Stratum("+".join(r.name for r in relations), relations, rules, kind))
    assert all(member_of[b] <= member_of[a] for a, targets in reads.items() for b in targets)
    diagnostics.check()
    return Program(localized, tuple(strata))


def _negated(rule: typed.Rule) -> tuple[typed.Atom, ...]:
    return tuple(negation.atom for negation in rule.negations)


def _components(nodes: list[str], edges: dict[str, list[str]]) -> list[list[str]]:
    """The strongly connected components, each after those it has edges to (Tarjan), deterministic in ``nodes``."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    result: list[list[str]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(edges[target])))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members: list[str] = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                        on_stack.remove(members[-1])
                    result.append([name for name in nodes if name in members])
    return result


def _check_cycles(
    program: typed.Program, rules: tuple[typed.Rule, ...], inside: set[str], diagnostics: Diagnostics
) -> None:
    for rule in rules:
        for negation in rule.negations:
            if negation.atom.relation in inside:
                cycle, through = _cycle(rules, inside, negation.atom.relation, rule.head.relation)
                text = " -> ".join([rule.head.relation, f"!{negation.atom.relation}", *cycle[1:]])
                diagnostics.report(
                    "E0501",
                    f"{rule.head.relation} depends on its own negation: {text}",
                    negation.span,
                    help="no order of evaluation gives this a meaning; negate a relation that does not depend on "
                    f"{rule.head.relation}",
                    notes=tuple(Note(f"{other.label} closes the cycle", other.span) for other in through),
                )
        for aggregate in rule.aggregates:
            atom = next((a for a in (*rule.atoms, *_negated(rule)) if a.relation in inside), None)
            if atom is None:
                continue
            cycle, through = _cycle(rules, inside, atom.relation, rule.head.relation)
            text = " -> ".join([f"{rule.head.relation} ({aggregate.function})", *cycle])
            diagnostics.report(
                "E0502",
                f"the aggregate {aggregate} is part of a recursion: {text}",
                aggregate.span,
                help="aggregate in a rule of its own, over the finished relation",
                notes=tuple(Note(f"{other.label} closes the cycle", other.span) for other in through),
            )


def _cycle(rules: tuple[typed.Rule, ...], inside: set[str], start: str, end: str) -> tuple[list[str], list[typed.Rule]]:
    """A shortest way in the dependency graph from ``start`` to ``end``: the relations, both ends included, and the
    rules that make the steps."""
    ways: dict[str, tuple[list[str], list[typed.Rule]]] = {start: ([start], [])}
    queue = [start]
    while queue and end not in ways:
        node = queue.pop(0)
        for rule in rules:
            if rule.head.relation == node:
                for atom in (*rule.atoms, *_negated(rule)):
                    if atom.relation in inside and atom.relation not in ways:
                        ways[atom.relation] = ([*ways[node][0], atom.relation], [*ways[node][1], rule])
                        queue.append(atom.relation)
    return ways[end]
