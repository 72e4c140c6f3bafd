"""Random programs whose recursive rules are chains: products of matrices of relations with one or two columns.

Between the literals of the recursion are groups of others, of every kind: joins, inverse relations, wide relations with
wildcards, filters, negations and comparisons. Names have quotes and the like; values are equal to an engine's words.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from .programs import Scenario, random_batches, random_inputs

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
        found = rng.choice(
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
        return found

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
