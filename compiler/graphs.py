"""Algorithms on directed graphs: reachability and strongly connected components."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def reached(starts: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> set[Node]:
    """Return the nodes that are reachable from ``starts`` by one or more edges."""
    targets: dict[Node, list[Node]] = {}
    for start, end in edges:
        targets.setdefault(start, []).append(end)
    nodes: set[Node] = set()
    waiting = list(starts)
    while waiting:
        new = set(targets.get(waiting.pop(), ())) - nodes
        nodes |= new
        waiting += new
    return nodes


def strongly_connected(nodes: list[str], edges: dict[str, list[str]]) -> list[list[str]]:
    """Return the strongly connected components (Tarjan), each after those it has edges to, ordered as ``nodes``."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    result: list[list[str]] = []
    places = {node: place for place, node in enumerate(nodes)}
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
                    result.append(sorted(members, key=places.__getitem__))
    return result
