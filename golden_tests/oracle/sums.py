"""Random programs whose recursions sum up, count and average, over links that mostly have no cycle.

Links go along an order of the nodes that changes from time to time, so that a batch reverses links; now and then one
goes against it. Values overflow, are zero where they divide, and decide in conditions.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .batches import Batch, Change
from .language import Row
from .programs import Scenario

#: Values of columns that name nodes, by type.
NODES = {
    "int": (0, 1, -1, 2**63 - 1, 7, 8),
    "string": ("", "null", "'", "\u2028", "a b", "NaN"),
    "int?": (0, None, 1, 2, 3, 4),
    "list<int>": ((), (0,), (1, 2), (2, 1), (3,), (-1,)),
    "date": None,
}
NUMBERS = {"int": (0, 1, 1, 2, 3, -1, 2, 5, 2**62, -(2**62)), "float": (0.0, 1.0, 0.5, 2.5, -1.0, 0.1, 3.0, 1e308)}
FUNCTIONS = {"int": ("sum", "sum", "sum", "count", "max", "min"), "float": ("sum", "sum", "avg", "avg", "min")}


@dataclass
class SumBuilder:
    """Builds a program over nodes of one type, with values of another."""

    rng: random.Random
    node: str
    value: str
    #: By relation, how many columns name nodes, and the aggregates of its heads; none for relations without.
    owned: dict[str, tuple[int, tuple[str, ...]]] = field(default_factory=dict)

    def reading(self, name: str, nodes: list[str], value: str) -> str:
        """An atom of a recursion."""
        _, functions = self.owned[name]
        rest = [value, *("_" for _ in functions[1:])]
        if self.rng.random() < 0.1:
            rest[0] = "_" if not value.startswith("L") or self.rng.random() < 0.1 else value
        return f"{name}({', '.join([*nodes, *rest])})"

    def head(self, name: str, nodes: list[str]) -> str:
        """A head, of a value N."""
        _, functions = self.owned[name]
        values = [
            f"{function}<{'*' if function == 'count' and place else 'N'}>" for place, function in enumerate(functions)
        ]
        values = [
            text.replace("<N>", "<distinct N>") if text == "count<N>" and "d" in name else text for text in values
        ]
        return f"{name}({', '.join([*nodes, *(values or ['N'])])})"

    def computed(self, given: list[str]) -> str:
        """An assignment of N from numbers."""
        rng = self.rng
        one, other = rng.choice(given), rng.choice([*given, "2" if self.value == "int" else "2.5"])
        op = rng.choice(("*", "*", "+", "+", "-", "/" if rng.random() < 0.3 else "*"))
        return f"N = {one} {op} {other}" if rng.random() < 0.9 else f"N = {one}"

    def condition(self, given: str) -> list[str]:
        """A condition on a value, or none."""
        rng, number = self.rng, "1" if self.value == "int" else "0.5"
        if rng.random() < 0.75:
            return []
        return [rng.choice((f"{given} > {number}", f"{given} < 4", f"{given} != {number}", f"{given} <= K"))]

    def rules(self, name: str) -> list[str]:
        """An exit of a relation and a recursive rule."""
        rng, (arity, _) = self.rng, self.owned[name]
        nodes = ["X", "Y"][:arity]
        exits = [["e(X, Y, N)"], ["e(X, Y, K)", self.computed(["K"])], ["f(X)", "f(Y)", "e(X, Y, N)"]]
        if arity == 1:
            exits = [["e(X, _, N)"], ["e(_, X, N)", "!f(X)"], ["f(X)", f"N = {'1' if self.value == 'int' else '1.5'}"]]
        binary = [other for other, (columns, _) in self.owned.items() if columns == 2]
        unary = [other for other, (columns, _) in self.owned.items() if columns == 1]
        bodies = []
        for _ in range(rng.choice((1, 1, 2))):
            link = rng.choice((["e(X, Z, K)"], ["e(X, Z, K)", "!f(Z)"], ["e(X, Z, K)", "K != 3"]))
            if arity == 2:
                options = [[self.reading(rng.choice(binary), ["Z", "Y"], "L")]]
                options += [[self.reading(rng.choice(unary), ["Z"], "L"), "f(Y)"]] if unary else []
                if rng.random() < 0.2:
                    link, options = (
                        [],
                        [[self.reading(name, ["X", "Z"], "K"), self.reading(rng.choice(binary), ["Z", "Y"], "L")]],
                    )
            else:
                options = [[self.reading(rng.choice(unary), ["Z"], "L")]]
                options += [[self.reading(rng.choice(binary), ["Z", "X2"], "L"), "X2 != X"]] if binary else []
            chosen = rng.choice(options)
            known = [v for v in ("K", "L") if any(f"{v})" in t or f"{v}," in t for t in (*link, *chosen))]
            body = [*link, *chosen, *(self.condition("L") if "L" in known else []), self.computed(known or ["1"])]
            bodies.append([literal for literal in body if "K" in known or "<= K" not in literal])
        return [f"{self.head(name, nodes)} :- {', '.join(body)}." for body in (rng.choice(exits), *bodies)]

    def program(self) -> str:
        """The text."""
        rng = self.rng
        names = rng.sample(
            ["p", "dq", "rowid", "_rank", "p_groups", "_to_1", "q__waiting", "affected", "lead"],
            rng.choice((1, 1, 2, 3)),
        )
        for place, name in enumerate(names):
            first = rng.choice(FUNCTIONS[self.value])
            more = tuple(rng.choice(("count", "min", "sum")) for _ in range(rng.choice((0, 0, 0, 1))))
            # Alone, these are recursions of another kind.
            more = ("count",) if first in ("min", "max") else more
            functions = () if place and rng.random() < 0.3 else (first, *more)
            self.owned[name] = (rng.choice((1, 2, 2)), functions)
        columns = rng.sample(["a", "b", "_to_1", "_from_1", "_n", "rowid", "_rows"], 3)
        lines = [f"input relation e({columns[0]}: {self.node}, {columns[1]}: {self.node}, {columns[2]}: {self.value})"]
        lines.append(f"input relation f({columns[2]}: {self.node})")
        lines += [f"output {name}." for name in self.owned]
        for name in names:
            lines += self.rules(name)
        return "\n".join(dict.fromkeys(lines)) + "\n"


@dataclass
class Links:
    """The rows of the inputs, and the order of nodes that links go along."""

    rng: random.Random
    nodes: list[object]
    numbers: tuple[object, ...]
    links: set[Row] = field(default_factory=set)
    marks: set[Row] = field(default_factory=set)

    def row(self) -> Row:
        """A link."""
        rng = self.rng
        first, last = sorted(rng.sample(range(len(self.nodes)), 2))
        if rng.random() < 0.03:
            first, last = last, first
        wild = rng.random() < 0.05
        return (self.nodes[first], self.nodes[last], rng.choice(self.numbers if wild else self.numbers[:6]))

    def batch(self, most: int) -> Batch:
        """Change the rows; return how."""
        rng, links, marks = self.rng, set(self.links), set(self.marks)
        if rng.random() < 0.3:
            rng.shuffle(self.nodes)
        against = {row for row in links if self.nodes.index(row[0]) > self.nodes.index(row[1])}
        links -= against if rng.random() < 0.9 else set()
        links -= set(rng.sample(sorted(links, key=repr), min(len(links), rng.randrange(most))))
        links |= {self.row() for _ in range(rng.randrange(most + 1))}
        marks ^= {(rng.choice(self.nodes),) for _ in range(rng.randrange(3))}
        changes: Batch = {}
        for name, old, new in (("e", self.links, links), ("f", self.marks, marks)):
            found: list[Change] = [*(("-", row) for row in old - new), *(("+", row) for row in new - old)]
            if found:
                changes[name] = sorted(found, key=repr)
        self.links, self.marks = links, marks
        return changes


def sum_scenario(seed: int, batches: int = 5) -> Scenario:
    """A random program of sums, its inputs and batches. A refused batch changes nothing, so the next ones may delete
    rows that are not there."""
    rng = random.Random(f"sums {seed}")
    node = "int" if rng.random() < 0.5 else rng.choice([name for name, values in NODES.items() if values])
    value = rng.choice(("int", "int", "float"))
    text = SumBuilder(rng, node, value).program()
    world = Links(rng, list(NODES[node] or ()), NUMBERS[value])
    world.batch(9)
    return Scenario(text, {"e": set(world.links), "f": set(world.marks)}, [world.batch(4) for _ in range(batches)])
