"""Answers to path queries over Python sets, from scratch; they share nothing with Flintlog.

Paths are evaluated by their structure: union, composition, inverse and closure of sets of pairs. The conjuncts of a
query are joined two at a time, which is enough for chains, stars, cycles and what is made of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from itertools import chain

import numpy as np

from .generate import NOTHING, Relation
from .paths import Path, Query, Repeat, Sequence, Symbol, parts, symbols

State = Mapping[str, Relation]
"""The edges of each symbol that has any."""

Pairs = Mapping[int, set[int]]
"""A set of pairs: the second components by the first; sets may be shared and are never changed."""

Size = tuple[int, int]
"""The number of pairs of a set, and its checksum."""

KEPT = 600
"""How many results for paths and queries are kept: those of a few states of a graph."""

PRIME = 2147483647


class Evaluator:
    """Evaluates paths and queries over states of a graph with the nodes from 0 to ``last_node``.

    Results are kept by the relations that they come from, since an update leaves most of them as they are.
    """

    def __init__(self, last_node: int) -> None:
        """Nothing is known yet."""
        self.nodes = range(last_node + 1)
        self.identity: Pairs = {node: {node} for node in self.nodes}
        self.known_path = lru_cache(KEPT)(self.new_path)
        self.known_query = lru_cache(KEPT)(self.new_query)
        self.known_size = lru_cache(KEPT)(lambda query, read: measured(self.known_query(query, read)))

    def query(self, query: Query, state: State) -> Pairs:
        """Return the answer to a query."""
        return self.known_query(query, relations(query.symbols, state))

    def size(self, query: Query, state: State) -> Size:
        """Return the size and the checksum of the answer to a query."""
        return self.known_size(query, relations(query.symbols, state))

    def changes(self, query: Query, before: State, after: State) -> tuple[Size, Size]:
        """Return the sizes and the checksums of what appears in the answer to a query, and of what disappears."""
        old, new = self.query(query, before), self.query(query, after)
        if old is new:
            return (0, 0), (0, 0)
        return measured(subtracted(new, old)), measured(subtracted(old, new))

    def matches(self, query: Query, state: State) -> int:
        """Return in how many ways the largest join of a query holds: that of its conjuncts, or of a sequence of paths.

        For conjuncts around a cycle it is an upper bound, since one of them is left out.
        """
        joins = [[(one.source, one.target, self.path(one.path, state)) for one in query.conjuncts]]
        pending = [one.path for one in query.conjuncts]
        for path in pending:
            pending.extend(parts(path))
            if isinstance(path, Sequence):
                steps = enumerate(path.parts)
                joins.append([(f"x{place}", f"x{place + 1}", self.path(part, state)) for place, part in steps])
        return max(sum((weights(join, join[0][0], set()) or {}).values()) for join in joins)

    def path(self, path: Path, state: State) -> Pairs:
        """Return the pairs that a path connects."""
        return self.known_path(path, relations(symbols(path), state))

    def new_path(self, path: Path, read: tuple[tuple[str, Relation], ...]) -> Pairs:
        """Compute the pairs that a path connects."""
        state = dict(read)
        if isinstance(path, Symbol):
            edges: Pairs = state[path.name].forward
            return inverted(edges) if path.inverse else edges
        if isinstance(path, Repeat):
            pairs = closure(self.path(path.part, state))
            return pairs if path.sign == "+" else united([pairs, self.identity])
        found = [self.path(part, state) for part in path.parts]
        if not isinstance(path, Sequence):
            return united(found)
        return reduce(composed, found)

    def new_query(self, query: Query, read: tuple[tuple[str, Relation], ...]) -> Pairs:
        """Compute the answer to a query."""
        state = dict(read)
        left = [(one.source, one.target, self.path(one.path, state)) for one in query.conjuncts]
        while len(left) > 1:
            left = step(left, query)
        ((source, target, pairs),) = left
        if {source, target} != set(query.head):
            raise ValueError(f"{query.name} does not connect the variables of its head")
        return pairs if source == query.head[0] else inverted(pairs)


def relations(names: Iterable[str], state: State) -> tuple[tuple[str, Relation], ...]:
    """Return what a state has of some symbols."""
    return tuple((name, state.get(name, NOTHING)) for name in sorted(names))


Edge = tuple[str, str, Pairs]
"""Two variables, and the pairs of values that they may have."""


def step(edges: list[Edge], query: Query) -> list[Edge]:
    """Merge two of the edges between a query's variables into one."""
    by_ends: dict[frozenset[str], Edge] = {}
    by_variable: defaultdict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        source, target, pairs = edge
        ends = frozenset((source, target))
        if ends in by_ends:
            other = by_ends[ends]
            same = pairs if source == other[0] else inverted(pairs)
            return [*(one for one in edges if one not in (edge, other)), (*other[:2], intersected(other[2], same))]
        by_ends[ends] = edge
        by_variable[source].append(edge)
        by_variable[target].append(edge)
    for variable, around in by_variable.items():
        if variable in query.head or len(around) > 2:
            continue
        rest = [one for one in edges if one not in around]
        first, last = turned(around[0], variable), around[-1]
        if len(around) == 2:
            _, end, onward = last if last[0] == variable else (last[1], last[0], inverted(last[2]))
            return [*rest, (first[0], end, composed(first[2], onward))]
        # Nothing else asks for this variable: its neighbour has to have some value for it.
        neighbour = next((one for one in rest if first[0] in one[:2]), None)
        if neighbour is None:
            break
        source, target, pairs = neighbour
        if source == first[0]:
            kept: Pairs = {one: some for one, some in pairs.items() if one in first[2]}
        else:
            kept = {one: some & first[2].keys() for one, some in pairs.items()}
        return [*(one for one in rest if one is not neighbour), (source, target, without_empty(kept))]
    raise ValueError(f"{query.name} is not made of chains, stars and cycles around its head")


def weights(edges: list[Edge], variable: str, seen: set[str]) -> Mapping[int, int] | None:
    """Return, for each value of a variable, in how many ways the edges that lead on from it hold; None if none does.

    Edges that lead back to a variable in ``seen`` are left out.
    """
    seen.add(variable)
    found: dict[int, int] | None = None
    for edge in edges:
        if variable not in edge[:2] or {*edge[:2]} <= seen:
            continue
        end, _, pairs = turned(edge, variable)
        further = weights(edges, end, seen)
        here: defaultdict[int, int] = defaultdict(int)
        for value, others in pairs.items():
            count = 1 if further is None else further.get(value, 0)
            for other in others:
                here[other] += count
        found = dict(here) if found is None else {value: found.get(value, 0) * n for value, n in here.items()}
    return found


def turned(edge: Edge, variable: str) -> Edge:
    """Return an edge so that it ends in a variable."""
    source, target, pairs = edge
    return edge if target == variable else (target, source, inverted(pairs))


def without_empty(pairs: Pairs) -> Pairs:
    """Return pairs without first components that have no second one."""
    return {one: some for one, some in pairs.items() if some}


def united(sets: Iterable[Pairs]) -> Pairs:
    """Return the pairs in any of some sets."""
    found: dict[int, set[int]] = {}
    for pairs in sets:
        for one, some in pairs.items():
            found[one] = found[one] | some if one in found else some
    return found


def intersected(left: Pairs, right: Pairs) -> Pairs:
    """Return the pairs in both sets."""
    return without_empty({one: some & right[one] for one, some in left.items() if one in right})


def subtracted(left: Pairs, right: Pairs) -> Pairs:
    """Return the pairs of the first set that are not in the second one."""
    return without_empty(
        {one: some - right.get(one, set()) for one, some in left.items() if some is not right.get(one)}
    )


def inverted(pairs: Pairs) -> Pairs:
    """Return the pairs the other way around."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for one, some in pairs.items():
        for other in some:
            found[other].add(one)
    return dict(found)


def composed(left: Pairs, right: Pairs) -> Pairs:
    """Return the pairs that a pair of each set connects."""
    found = {}
    for one, some in left.items():
        reached = [right[other] for other in some if other in right]
        if reached:
            found[one] = reached[0] if len(reached) == 1 else set().union(*reached)
    return found


def closure(pairs: Pairs) -> Pairs:
    """Return the pairs that one or more steps connect; nodes on a common cycle share their set."""
    found: dict[int, set[int]] = {}
    for component in components(pairs):
        inside = set(component)
        targets = set().union(*(pairs.get(node, set()) for node in component))
        reached = targets.union(*(found[target] for target in targets - inside if target in found))
        if reached:
            found.update(dict.fromkeys(component, reached | inside if len(component) > 1 else reached))
    return found


def components(pairs: Pairs) -> list[list[int]]:
    """Return the strongly connected components, each behind those that it leads to (Tarjan's algorithm)."""
    found: list[list[int]] = []
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    path: list[int] = []
    placed: set[int] = set()
    for start in pairs:
        if start in number:
            continue
        number[start] = lowest[start] = len(number)
        path.append(start)
        pending = [(start, iter(pairs[start]))]
        while pending:
            node, targets = pending[-1]
            for target in targets:
                if target not in number:
                    number[target] = lowest[target] = len(number)
                    path.append(target)
                    pending.append((target, iter(pairs.get(target, ()))))
                    break
                if target not in placed:
                    lowest[node] = min(lowest[node], number[target])
            else:
                pending.pop()
                if pending:
                    above = pending[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                if lowest[node] == number[node]:
                    place = path.index(node)
                    found.append(path[place:])
                    placed.update(path[place:])
                    del path[place:]
    return found


def measured(pairs: Pairs) -> Size:
    """Return the number of pairs and their checksum, the sum of a hash of each."""
    sizes = [len(some) for some in pairs.values()]
    count = sum(sizes)
    first = np.repeat(np.fromiter(pairs, np.int64, len(sizes)), sizes)
    second = np.fromiter(chain.from_iterable(pairs.values()), np.int64, count)
    mixed = ((first + 1) % PRIME * 1000003 + second + 1) % PRIME
    hashed = (mixed * 48271 + 12345) % PRIME
    return count, int(((hashed * hashed + mixed) % PRIME).sum())
