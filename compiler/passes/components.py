"""The strongly connected components of a program's derived relations."""

from __future__ import annotations

from ..ir import typed


def components(program: typed.Program) -> list[list[str]]:
    """The derived relations that depend on each other, each group behind those that it depends on, in source order."""
    derived = [relation.name for relation in program.relations if relation.role == "derived"]
    reads: dict[str, list[str]] = {name: [] for name in derived}
    for rule in program.rules:
        for atom in rule.read:
            if atom.relation in reads:
                reads[rule.head.relation].append(atom.relation)
    found = _components(derived, reads)
    member_of = {name: index for index, members in enumerate(found) for name in members}
    assert all(member_of[b] <= member_of[a] for a, targets in reads.items() for b in targets)
    return found


def is_recursive(rules: tuple[typed.Rule, ...] | list[typed.Rule], members: set[str] | frozenset[str]) -> bool:
    """Whether the rules of a component read its own relations."""
    return any(atom.relation in members for rule in rules for atom in rule.read)


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
