"""Random programs whose recursions sum up, count and average, over links that mostly have no cycle.

Links go along an order of the nodes that changes from time to time, so that a batch reverses links; now and then one
goes against it. Values overflow, are zero where they divide, are null, and decide in conditions. Links may be a
multiset, heads may name a node, and sums may take distinct values only.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

from .batches import Batch, Change
from .language import Row
from .random_programs import Scenario

#: Values of columns that name nodes, by type.
NODES = {
    "int": (0, 1, -1, 2**63 - 1, 7, 8),
    "string": ("", "null", "'", "\u2028", "a b", "NaN"),
    "int?": (0, None, 1, 2, 3, 4),
    "list<int>": ((), (0,), (1, 2), (2, 1), (3,), (-1,)),
}
#: A node that heads may name, by type.
NAMED = {"int": "7", "string": '"a b"', "int?": "3", "list<int>": "[1, 2]"}
#: Values of links, by type; the first six are drawn most.
NUMBERS: dict[str, tuple[object, ...]] = {
    "int": (0, 1, 1, 2, 3, -1, 2, 5, 2**62, -(2**62)),
    "float": (0.0, 1.0, 0.5, 2.5, -1.0, 0.1, 3.0, 1e308),
    "int?": (0, None, 1, 2, 3, -1, None, 2**62),
    "decimal(12, 2)": tuple(
        Decimal(text) for text in ("0.00", "1.00", "0.10", "2.50", "-1.25", "3.00", "9999999999.99")
    ),
}
#: The first aggregates of relations, by the type of the values. Rules may compute values from what they come to alone,
#: and those must have that type: a count would not be a decimal.
FUNCTIONS = {
    "int": ("sum", "sum", "sum", "count", "max", "min"),
    "float": ("sum", "sum", "avg", "avg", "min"),
    "int?": ("sum", "sum", "count"),
    "decimal(12, 2)": ("sum", "sum", "sum", "max", "min"),
}
CONSTANTS = {"int": ("1", "2"), "int?": ("1", "2"), "float": ("1.5", "2.5"), "decimal(12, 2)": ("1", "2")}


@dataclass
class SumBuilder:
    """Builds a program over nodes of one type, with values of another."""

    rng: random.Random
    node: str
    value: str
    #: Whether links are counted.
    multiset: bool
    #: The type of columns of decimals.
    decimal: str
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
        if "d" in name:
            values = [re.sub("^(count|sum)<N>", r"\1<distinct N>", text) for text in values]
        if self.rng.random() < 0.1:
            nodes = [NAMED[self.node], *nodes[1:]]
        return f"{name}({', '.join([*nodes, *(values or ['N'])])})"

    def computed(self, name: str, given: list[str]) -> str:
        """An assignment of N from numbers. What has no aggregate only copies them, or a cycle would have no end."""
        rng = self.rng
        one, other = rng.choice(given), rng.choice([*given, CONSTANTS[self.value][1]])
        op = rng.choice(("*", "*", "+", "+", "-", "/" if rng.random() < 0.3 else "*"))
        if self.value.startswith("decimal"):
            op = rng.choice("++-")
        return f"N = {one} {op} {other}" if self.owned[name][1] and rng.random() < 0.9 else f"N = {one}"

    def condition(self, given: str) -> list[str]:
        """A condition on a value, or none."""
        rng, number = self.rng, CONSTANTS[self.value][0]
        if rng.random() < 0.75:
            return []
        return [rng.choice((f"{given} > {number}", f"{given} < 4", f"{given} != {number}", f"{given} <= K"))]

    def rules(self, name: str) -> list[str]:
        """An exit of a relation and a recursive rule."""
        rng, (arity, _) = self.rng, self.owned[name]
        nodes = ["X", "Y"][:arity]
        exits = [["e(X, Y, N)"], ["e(X, Y, K)", self.computed(name, ["K"])], ["f(X)", "f(Y)", "e(X, Y, N)"]]
        if arity == 1:
            exits = [["e(X, _, N)"], ["e(_, X, N)", "!f(X)"], ["f(X)", f"N = {CONSTANTS[self.value][0]}"]]
            exits = exits[:2] if self.value.startswith("decimal") else exits
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
            body = [*link, *chosen, *(self.condition("L") if "L" in known else []), self.computed(name, known or ["1"])]
            bodies.append([literal for literal in body if "K" in known or "<= K" not in literal])
        return [f"{self.head(name, nodes)} :- {', '.join(body)}." for body in (rng.choice(exits), *bodies)]

    def output(self, name: str) -> str:
        """How a relation is shown; declared columns take sums of decimals with fewer digits after the point."""
        arity, functions = self.owned[name]
        if not self.value.startswith("decimal"):
            return f"output {name}."
        values = ["int" if function == "count" else self.decimal for function in functions or ("sum",)]
        columns = ", ".join(f"c{place}: {type_}" for place, type_ in enumerate([*[self.node] * arity, *values]))
        return f"output relation {name}({columns})"

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
            # A head with values that may be null has one aggregate.
            more = () if self.value == "int?" else more
            functions = () if place and rng.random() < 0.3 else (first, *more)
            self.owned[name] = (rng.choice((1, 2, 2)), functions)
        columns = rng.sample(["a", "b", "_to_1", "_from_1", "_n", "rowid", "_rows"], 3)
        kind = "multiset relation" if self.multiset else "relation"
        lines = [f"input {kind} e({columns[0]}: {self.node}, {columns[1]}: {self.node}, {columns[2]}: {self.value})"]
        lines.append(f"input relation f({columns[2]}: {self.node})")
        lines += [self.output(name) for name in self.owned]
        for name in names:
            lines += self.rules(name)
        return "\n".join(dict.fromkeys(lines)) + "\n"


@dataclass
class Links:
    """The rows of the inputs, and the order of nodes that links go along."""

    rng: random.Random
    nodes: list[object]
    numbers: tuple[object, ...]
    #: The links with their numbers of copies, which stay at one unless ``multiset``.
    multiset: bool
    links: Counter[Row] = field(default_factory=Counter)
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
        rng, links, marks = self.rng, Counter(self.links), set(self.marks)
        if rng.random() < 0.3:
            rng.shuffle(self.nodes)
        if rng.random() < 0.9:
            links -= Counter(
                {row: n for row, n in links.items() if self.nodes.index(row[0]) > self.nodes.index(row[1])}
            )
        links -= Counter(rng.sample(sorted(links, key=repr), min(len(links), rng.randrange(most))))
        for _ in range(rng.randrange(most + 1)):
            row = self.row()
            links[row] = links[row] + rng.choice((1, 1, 2)) if self.multiset else 1
        marks ^= {(rng.choice(self.nodes),) for _ in range(rng.randrange(3))}
        changed: list[Change] = [("-", row) for row in (self.links - links).elements()]
        changed += [("+", row) for row in (links - self.links).elements()]
        marked: list[Change] = [
            *(("-", row) for row in self.marks - marks),
            *(("+", row) for row in marks - self.marks),
        ]
        self.links, self.marks = links, marks
        changes: Batch = {"e": sorted(changed, key=repr), "f": sorted(marked, key=repr)}
        return {name: found for name, found in changes.items() if found}


def sum_scenario(seed: int, batches: int = 5) -> Scenario:
    """A random program of sums, its inputs and batches. A refused batch changes nothing, so the next ones may delete
    rows that are not there."""
    rng = random.Random(f"sums {seed}")
    node = "int" if rng.random() < 0.5 else rng.choice(list(NODES))
    value, multiset = rng.choice(("int", *NUMBERS)), rng.random() < 0.3
    text = SumBuilder(rng, node, value, multiset, rng.choice(("decimal(38, 2)", "decimal(38, 4)"))).program()
    world = Links(rng, list(NODES[node]), NUMBERS[value], multiset)
    world.batch(9)
    links = world.links if multiset else set(world.links)
    return Scenario(text, {"e": links, "f": set(world.marks)}, [world.batch(4) for _ in range(batches)])
