"""Random programs whose recursive rules are chains: products of matrices of relations with one or two columns.

Between the literals of the recursion are groups of others, of every kind: joins, inverse relations, wide relations with
wildcards, filters, negations and comparisons. Names have quotes and the like; values are equal to an engine's words.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .random_programs import Scenario, random_batches, random_inputs

TYPES = ("int", "string", "int?", "list<int>", "decimal(9,2)", "date", "bool")


@dataclass
class ChainBuilder:
    """Builds a program over the values of one type."""

    rng: random.Random
    kind: str
    fresh: int = 0
    owned: dict[str, int] = field(default_factory=dict)

    def variable(self) -> str:
        """A new variable."""
        self.fresh += 1
        return f"V{self.fresh}"

    def group(self, first: str, last: str) -> list[str]:
        """Literals between two variables."""
        rng, inner = self.rng, self.variable()
        return rng.choice(
            [
                [f"e({first}, {last})"],
                [f"e({last}, {first})"],
                [f"w({first}, _, {last})"],
                [f"w({last}, {inner}, {first})", f"{inner} != 1"],
                [f"e({first}, {inner})", f"w({inner}, _, {last})"],
                [f"e({first}, {last})", f"!f({last})"],
                [f"f({first})", f"e({first}, {last})"],
                [f"e({first}, {last})", f"{first} != {last}"],
                [f"f({first})", f"f({last})"],
            ]
        )

    def exits(self, name: str) -> str:
        """A rule of a relation that is not recursive."""
        rng = self.rng
        if self.owned[name] == 1:
            return f"{name}(X) :- {rng.choice(['f(X)', 'e(X, _)', 'w(_, 1, X)', 'f(X), !e(X, X)'])}."
        body = rng.choice(["e(X, Y)", "e(Y, X)", "w(X, _, Y)", "f(X), f(Y)", "e(X, Y), X != Y", "e(X, Z), e(Z, Y)"])
        return f"{name}(X, Y) :- {body}."

    def rule(self, name: str) -> str:
        """A recursive rule of a relation: a chain from its first variable to its last."""
        rng, binary = self.rng, [n for n, arity in self.owned.items() if arity == 2]
        unary = [n for n, arity in self.owned.items() if arity == 1]
        body, place = list[str](), "X"
        links = [rng.choice("rrg") for _ in range(rng.choice((1, 2, 2, 2, 3)))]
        if self.owned[name] == 1:
            # The chain begins at a tuple of a relation with one column.
            body, place = [f"{rng.choice(unary)}(X)"], "X"
            links = links[: rng.choice((0, 1, 1, 2))] or (["g"] if rng.random() < 0.9 else [])
            links = links if binary else ["g"]
        elif "r" not in links:
            links[rng.randrange(len(links))] = "r"
        # Two groups side by side are one.
        links = [link for at, link in enumerate(links) if link == "r" or links[at - 1 : at] != ["g"]]
        for number, link in enumerate(links, 1):
            following = "Y" if number == len(links) else self.variable()
            if link == "g":
                body += self.group(place, following)
            else:
                relation = rng.choice(binary)
                body.append(f"{relation}({', '.join(rng.sample([place, following], 2))})")
                if rng.random() < 0.15:
                    body.append(f"f({rng.choice([place, following])})")
            place = following
        if self.owned[name] == 2 and rng.random() < 0.15:
            body.append("X != Y")
        rng.shuffle(body)
        body.sort(key=lambda literal: literal[0] == "!" or " != " in literal)
        head = f"{name}(X, {place})" if self.owned[name] == 2 else f"{name}({place})"
        return f"{head} :- {', '.join(body)}."

    def program(self) -> str:
        """The text."""
        rng, kind = self.rng, self.kind
        names = rng.sample(["p", "q", "rowid", "_rank", "select", "c0", "p__after"], rng.choice((1, 1, 2, 3)))
        names = [name for name in names if name not in ("select",)] or ["p"]
        self.owned = {name: 2 if rng.random() < 0.75 else 1 for name in names}
        columns = rng.sample(["a", "b", "_first", "_last", "_i", "rowid", "_support"], 2)
        named = ", ".join(f"{column}: {kind}" for column in columns)
        lines = [f"input relation e({named})", f"input relation w(x: {kind}, n: int, y: {kind})"]
        lines.append(f"input relation f({columns[0]}: {kind})")
        lines += [
            f"output relation {name}({named if arity == 2 else f'{columns[1]}: {kind}'})"
            for name, arity in self.owned.items()
        ]
        for name in names:
            lines += [self.exits(name) for _ in range(rng.choice((1, 1, 2)))]
            lines += [self.rule(name) for _ in range(rng.choice((1, 1, 2)))]
        return "\n".join(dict.fromkeys(lines)) + "\n"


def chain_scenario(seed: int, batches: int = 5) -> Scenario:
    """A random program of chains, its inputs and batches."""
    rng = random.Random(f"chains {seed}")
    kind = TYPES[0] if rng.random() < 0.5 else rng.choice(TYPES)
    text = ChainBuilder(rng, kind).program()
    inputs: dict[str, Any] = random_inputs(rng, text, 10)
    return Scenario(text, inputs, random_batches(rng, text, inputs, batches, 4))


@dataclass
class WeightedChainBuilder:
    """Builds a program of best values, which add along chains, over the names of one type."""

    rng: random.Random
    kind: str
    best: str
    fresh: int = 0
    owned: dict[str, int] = field(default_factory=dict)

    def variable(self) -> str:
        """A new variable."""
        self.fresh += 1
        return f"V{self.fresh}"

    def group(self, first: str, last: str) -> tuple[list[str], str]:
        """Literals between two variables, and what they add, which makes no value better; empty if that is nothing."""
        rng, weight = self.rng, self.variable()
        worse = f"{weight} >= 0" if self.best == "min" else f"{weight} <= 0"
        sign = "" if self.best == "min" else "-"
        return rng.choice(
            [
                ([f"w({first}, {weight}, {last})", worse], weight),
                ([f"w({last}, {weight}, {first})", worse], weight),
                ([f"w({first}, {weight}, {last})", worse, f"!f({last})"], f"{weight} + {sign}2"),
                ([f"e({first}, {last})"], f"{sign}1"),
                ([f"e({first}, {last})"], ""),
                ([f"e({last}, {first})", f"w({first}, {weight}, {last})", worse], f"{weight}"),
                ([f"w({first}, {weight}, {last})", worse], f"{weight} * 3"),
            ]
        )

    def rules(self, name: str) -> list[str]:
        """An exit of a relation and a recursive rule."""
        rng, binary = self.rng, self.owned[name] == 2
        head = f"{name}(X, Y, {self.best}<C>)" if binary else f"{name}(Y, {self.best}<C>)"
        # Sums of such values make none better.
        worse, sign = ("C >= 0", "") if self.best == "min" else ("C <= 0", "-")
        exits = [f"w(Y, C, _), {worse}", "f(Y), C = 0"]
        if binary:
            exits = [f"w(X, C, Y), {worse}", f"e(X, Y), C = {sign}4", f"w(Y, C, X), X != Y, {worse}"]
        others = [n for n, arity in self.owned.items() if arity == 2]
        body, place, added = list[str](), "X", list[str]()
        if not binary:
            unary = rng.choice([n for n, arity in self.owned.items() if arity == 1])
            value = self.variable()
            body, added = [f"{unary}(X, {value})"], [value]
        links = rng.choice(("rg", "gr", "rr", "grg")) if binary and others else "g"
        links = links if others else "g"
        for number, link in enumerate(links, 1):
            following = "Y" if number == len(links) else self.variable()
            if link == "g":
                literals, more = self.group(place, following)
                body += literals
                added += [more] if more else []
            else:
                value = self.variable()
                body.append(f"{rng.choice(others)}({', '.join(rng.sample([place, following], 2))}, {value})")
                added.append(value)
            place = following
        rng.shuffle(body)
        rng.shuffle(added)
        body.sort(key=lambda literal: literal[0] == "!" or " != " in literal or "= 0" in literal)
        return [f"{head} :- {rng.choice(exits)}.", f"{head} :- {', '.join(body)}, C = {' + '.join(added)}."]

    def program(self) -> str:
        """The text."""
        rng, kind = self.rng, self.kind
        names = rng.sample(["p", "rowid", "_rank"], rng.choice((1, 1, 2)))
        self.owned = {name: 2 if rng.random() < 0.75 else 1 for name in names}
        lines = [f"input relation e(a: {kind}, b: {kind})", f"input relation w(x: {kind}, n: int, y: {kind})"]
        lines.append(f"input relation f(a: {kind})")
        for name, arity in self.owned.items():
            columns = f"_first: {kind}, _i: {kind}" if arity == 2 else f"_i: {kind}"
            lines.append(f"output relation {name}({columns}, _weight: int)")
        for name in names:
            lines += self.rules(name)
        return "\n".join(dict.fromkeys(lines)) + "\n"


def weighted_scenario(seed: int, batches: int = 5) -> Scenario:
    """A random program of best values along chains, its inputs and batches."""
    rng = random.Random(f"weighted chains {seed}")
    kind = "int" if rng.random() < 0.5 else rng.choice(TYPES)
    text = WeightedChainBuilder(rng, kind, rng.choice(("min", "max"))).program()
    inputs: dict[str, Any] = random_inputs(rng, text, 10)
    return Scenario(text, inputs, random_batches(rng, text, inputs, batches, 4))
