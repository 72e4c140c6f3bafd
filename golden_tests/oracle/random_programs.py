"""Random programs and change batches that are always valid: safe, stratified, well typed and terminating.

One builder serves both ways of choosing: a :class:`Chooser` answers its questions from a seeded generator
(:func:`random_program`, :func:`random_batches`) or from hypothesis (``strategies.py``), where every answer is a draw of
its own, and the answer 0 or no is always the simplest, so that a failing program shrinks to a small one.

A program has a few groups of derived relations, each reading the inputs and the groups before it: a single relation, a
recursive group of one to three relations, or an aggregate. Integers stay small: inside recursion arithmetic is taken
modulo a constant, and strings are only made longer outside of it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, localcontext
from typing import Any, TypeVar

from sqlglot.generator import Generator

from .batches import Batch, Change, Rows, apply, key_of
from .language import Program, Relation, Row, parse
from .names import Chooser, with_nasty_names

T = TypeVar("T")

FEATURES = frozenset(
    {
        "aggregates",
        "arithmetic",
        "comparisons",
        "constants",
        "disjunction",
        "duplicates",
        "expressions",
        "facts",
        "guards",
        "input_derived",
        "keys",
        "mutual",
        "negation",
        "negation_only",
        "nonlinear",
        "nullary",
        "paths",
        "recursion",
        "repeats",
        "same_relation",
        "strings",
        "wildcards",
    }
)
"""What random programs show unless told otherwise.

``repeats`` are repeated variables within an atom, ``same_relation`` one relation several times in a body,
``expressions`` arithmetic among the arguments of heads and atoms, ``guards`` a division and the condition that makes it
safe; the other names speak for themselves.
"""

MORE_FEATURES = frozenset(
    {
        "locations",
        "witnesses",
        "distinct",
        "extremes",
        "lists",
        "functions",
        "nasty names",
        "many facts",
        "nulls",
        "multisets",
        "timestamps",
        "firsts",
        "types",
    }
)
"""What they show when asked: ``@`` on the first column of every relation, columns behind ``min`` or ``max``,
``count<distinct X>``, ``min`` inside recursion, columns of lists, calls of functions, names that mean something to
an engine, to Python or to the job (``names.py``), several facts of a relation in a row, columns whose values may be
null, inputs whose copies count, columns of timestamps, the first few of an order, and columns of every type, which may
be null, with the ends of 64 bits and strings that mean something to an engine or a file format."""

DOMAIN = 5
"""Integer columns of inputs and integer constants are drawn from 0 to ``DOMAIN`` - 1."""

VALUES: dict[str, Sequence[Any]] = {
    "int": range(DOMAIN),
    "int?": (None, *range(DOMAIN)),
    "string": ("a", "b", "ab"),
    "string?": (None, "a", "b"),
    "list<int>": ((1,), (), (1, 2), (2, 1), (3, 3)),
    "bool": (False, True),
    "float": (0.5, 1.0, 2.25),
    "decimal": (Decimal("0.50"), Decimal("1.00"), Decimal("2.25")),
    "date": (date(2026, 1, 31), date(2026, 2, 1), date(2026, 2, 28)),
    "timestamp": (
        datetime(2026, 1, 31, 12),
        datetime(2026, 1, 31, 12, 0, 0, 500_000),
        datetime(1, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
    ),
}
"""What input columns are filled with, per type without its parameters."""

#: The types of columns that "types" adds.
TYPES = (
    *("bool", "date", "decimal(10,2)", "float", "timestamp", "bool?", "date?", "decimal(10,2)?", "float?"),
    *("timestamp?", "list<int>?", "int?", "string?"),
)
#: What the columns of :data:`WILD` are filled with.
WILD_VALUES: dict[str, Sequence[Any]] = {
    "int": (2**63 - 1, -(2**63), 0, -1, 2**53 + 1),
    "string": (
        *("", "'", '"', "%", "_", "\\", "a\nb", "\t", ",", "null", "NULL", " a", "{x}", "$1", "--"),
        *("a\u0308", "\U0001f600", "\ufeff", Generator().SENTINEL_LINE_BREAK),
    ),
}
#: The relation with such values.
WILD = "wild"


@dataclass
class RandomChooser:
    """Answers from a seeded generator."""

    rng: random.Random

    def below(self, n: int) -> int:
        """An integer from 0 to ``n`` - 1, all equally likely."""
        return self.rng.randrange(n)


@dataclass(frozen=True)
class Signature:
    """A relation that rules may read: its column types, each a key of :data:`POOLS`."""

    name: str
    types: tuple[str, ...]


POOLS = {
    "int": ("X", "Y", "Z", "U"),
    "string": ("S", "T"),
    "float": ("F", "G"),
    "list<int>": ("L", "M"),
    "int?": ("N", "O"),
    "string?": ("P", "Q"),
    "timestamp": ("V", "W"),
    "bool": ("BA", "BB"),
    "bool?": ("BN", "BO"),
    "date": ("DA", "DB"),
    "date?": ("DN", "DO"),
    "decimal(10,2)": ("EA", "EB"),
    "decimal(10,2)?": ("EN", "EO"),
    "float?": ("FN", "FO"),
    "timestamp?": ("VN", "VO"),
    "list<int>?": ("LN", "LO"),
}
ASSIGNED = {"int": ("A", "B"), "string": ("C", "D"), "list<int>": ("K",)}


@dataclass
class Body:
    """Literals of a conjunction under construction and the variables they bind, per type in order of binding."""

    literals: list[str] = field(default_factory=list)
    bound: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in POOLS})

    def bind(self, type_name: str, variable: str) -> None:
        """Note that ``variable`` is bound."""
        if variable not in self.bound[type_name]:
            self.bound[type_name].append(variable)

    def binds(self, variables: Iterable[str]) -> bool:
        """Whether one of ``variables`` is bound."""
        return any(name in found for name in variables for found in self.bound.values())

    def copy(self) -> Body:
        """A body without literals that has the same variables bound."""
        return Body([], {name: list(found) for name, found in self.bound.items()})


class Builder:
    """Writes one program."""

    def __init__(self, chooser: Chooser, features: Iterable[str]) -> None:
        """Take ``features`` from :data:`FEATURES` and :data:`MORE_FEATURES`; ValueError for another name."""
        self.chooser = chooser
        self.features = frozenset(features)
        unknown = self.features - FEATURES - MORE_FEATURES
        if unknown:
            raise ValueError(f"unknown features: {', '.join(sorted(unknown))}")
        self.declarations: list[str] = []
        self.clauses: list[str] = []
        self.lower: list[Signature] = []
        self.plain = False
        self.located = "locations" in self.features
        self.domain = False
        self.computes = {"arithmetic", "expressions"} <= self.features
        self.aggregates = 0 if "aggregates" not in self.features else 9 if "multisets" in self.features else 2

    # choices

    def chance(self, percent: int, *needs: str) -> bool:
        """True in ``percent`` of 100 cases, never without the features ``needs``."""
        if not self.features.issuperset(needs):
            return False
        return self.chooser.below(100) >= 100 - percent

    def pick(self, options: Sequence[T]) -> T:
        """One of ``options``, the simplest first."""
        return options[self.chooser.below(len(options))]

    def weighted(self, *options: tuple[int, T]) -> T:
        """One of ``options`` by weight, the simplest first; an option of weight 0 never."""
        at = self.chooser.below(sum(weight for weight, _ in options))
        for weight, option in options:
            if at < weight:
                return option
            at -= weight
        raise AssertionError

    def number(self, least: int, most: int, percent: int) -> int:
        """``least``, and one more as long as a chance of ``percent`` holds."""
        found = least
        while found < most and self.chance(percent):
            found += 1
        return found

    # the program

    def program(self) -> str:
        """The text of a program."""
        self.inputs()
        for place in range(self.number(1, 4, 60)):
            kind = self.weighted(
                (3, "single"),
                (5 if "recursion" in self.features else 0, "recursive"),
                (self.aggregates, "aggregate"),
                (2 if "extremes" in self.features else 0, "extremes"),
                (8 if "firsts" in self.features else 0, "first"),
            )
            match kind:
                case "single":
                    self.group(place, recursive=False)
                case "recursive":
                    self.group(place, recursive=True)
                case "aggregate":
                    self.aggregate(place)
                case "first":
                    self.first(place)
                case _:
                    self.extremes(place)
        if not any(line.startswith("output") for line in self.declarations):
            self.declarations.append(f"output {self.lower[-1].name}.")
        if self.chance(20):
            self.clauses.reverse()
        text = "\n".join([*self.declarations, "", *self.clauses]) + "\n"
        return with_nasty_names(text, self.chooser) if "nasty names" in self.features else text

    def inputs(self) -> None:
        """Declare input relations."""
        self.input("e", ("int", "int"))
        if self.chance(70):
            self.input("f", ("int",))
        if self.chance(50):
            self.input("g", ("int", "int"))
        if self.chance(25, "keys"):
            self.input("k", ("int", "int"), "primary key (c0)")
        if self.chance(10, "keys"):
            self.input("kk", ("int", "int", "int"), "primary key (c0, c2)")
        if self.chance(25, "strings"):
            self.input("s", ("string", "int"))
        if self.chance(10, "strings"):
            self.input("w", ("string", "string"))
        if self.chance(15, "nullary"):
            self.input("on", ())
        if self.chance(60, "lists"):
            self.input("ls", ("int", "list<int>"), "primary key (c1)" if self.chance(10, "keys") else "")
        if self.chance(25, "lists"):
            self.input("li", ("list<int>",))
        if "timestamps" in self.features:
            self.input("at", ("int", "timestamp"), "primary key (c0)" if self.chance(10, "keys") else "")
        if "nulls" in self.features:
            self.input("o", ("int", "int?"), "primary key (c0)" if self.chance(10, "keys") else "")
            if self.chance(50):
                self.input("oo", ("int", "int?", "int?") if self.located else ("int?", "int?"))
            if self.chance(40, "strings"):
                self.input("so", ("int", "string?"))
        if "types" in self.features:
            for name in ("ty", "tz")[: self.number(1, 2, 60)]:
                columns = [self.pick(TYPES) for _ in range(self.number(1, 3, 60))]
                self.input(name, ("int", *columns), "primary key (c0)" if self.chance(20, "keys") else "")
            if self.chance(60, "strings"):
                self.input(WILD, ("int", "string"))
        nodes = any(relation.name == "f" for relation in self.lower)
        self.domain = self.chance(30, "paths", *(() if nodes else ("wildcards",)))
        if self.domain:
            self.declarations.append(f"domain {'f(X)' if nodes else 'e(X, _)'}.")

    def input(self, name: str, types: tuple[str, ...], key: str = "") -> None:
        """Declare one input relation."""
        counted = bool(types) and not key and self.chance(65, "multisets")
        self.declare("input multiset relation" if counted else "input relation", name, types, key)
        self.lower.append(Signature(name, types))
        if counted and self.chance(15, "facts"):
            self.clauses += [f"{self.constant_atom(self.lower[-1])}."] * self.number(1, 3, 40)

    def declare(self, words: str, name: str, types: tuple[str, ...], key: str = "") -> None:
        """Write a declaration; columns are called c0, c1, ..."""
        columns = ", ".join(
            f"{'@' if self.located and c == 0 else ''}c{c}: {type_name}" for c, type_name in enumerate(types)
        )
        self.declarations.append(f"{words} {name}{f'({columns})' if types else ''} {key}".rstrip())

    def publish(self, relation: Signature, *, takes_input: bool = False) -> None:
        """Declare or publish a derived relation in one of the ways there are."""
        if takes_input:
            self.declare("input derived relation", relation.name, relation.types)
            self.declarations.append(f"output {relation.name}.")
            return
        if any(kind.endswith("?") for kind in relation.types):
            # Of an undeclared relation, a column that is never given a null is not one that may be null.
            self.declare("output relation" if self.chance(70) else "relation", relation.name, relation.types)
            return
        way = self.weighted((50, "publish"), (30, "output"), (8, "relation"), (12, "nothing"))
        if any(kind.startswith("decimal") for kind in relation.types):
            # Of an undeclared relation, decimals that are all constants are floats.
            way = "relation" if way == "nothing" else "output"
        match way:
            case "publish":
                self.declarations.append(f"output {relation.name}.")
            case "output":
                self.declare("output relation", relation.name, relation.types)
            case "relation":
                self.declare("relation", relation.name, relation.types)

    def below(self) -> Signature:
        """A relation of the strata below, often one of the last."""
        return self.pick(self.lower[-3:] if self.chance(35) else self.lower)

    # groups

    def group(self, place: int, recursive: bool) -> None:
        """One relation, or one to three that read each other."""
        members = self.number(1, 3, 35) if recursive and "mutual" in self.features else 1
        own = [Signature(f"{'pqr'[member]}{place}", self.types()) for member in range(members)]
        for relation in own:
            self.publish(relation, takes_input=bool(relation.types) and self.chance(20, "input_derived"))
        for at, relation in enumerate(own):
            for _ in range(self.number(1, 3, 35)):
                self.add(self.rule(relation, []))
            if recursive:
                following = own[(at + 1) % members]
                self.add(self.rule(relation, own, first=following))
                for _ in range(self.number(0, 2, 30)):
                    self.add(self.rule(relation, own, first=self.pick(own)))
            if self.chance(15, "facts"):
                self.add(f"{self.constant_atom(relation)}.")
            if self.chance(30, "many facts"):
                for _ in range(self.number(2, 7, 70)):
                    self.add(f"{self.constant_atom(relation)}.")
            if self.chance(10, "negation", "negation_only"):
                self.add(f"{self.constant_atom(relation)} :- {self.negated(self.below(), Body())}.")
        self.lower += own

    def types(self) -> tuple[str, ...]:
        """Column types of a derived relation: mostly two integers."""
        floats = any("float" in relation.types for relation in self.lower)
        shape = self.weighted(
            (30, 1), (60, 2), (6, 3), (5 if "nullary" in self.features and not self.located else 0, 0)
        )
        return tuple(
            "string"
            if not (self.located and column == 0) and self.chance(15, "strings")
            else "list<int>"
            if not (self.located and column == 0) and self.chance(25, "lists")
            else "timestamp"
            if not (self.located and column == 0) and self.chance(35, "timestamps")
            else "float"
            if not (self.located and column == 0) and floats and self.chance(15)
            else self.pick(TYPES)
            if not (self.located and column == 0) and self.chance(50, "types")
            else self.pick(("int?", "int?", "string?"))
            if not (self.located and column == 0) and self.chance(35, "nulls")
            else "int"
            for column in range(shape)
        )

    def add(self, clause: str) -> None:
        """Keep a clause, now and then twice, now and then with a label."""
        if self.chance(10):
            self.clauses.append(f"n{len(self.clauses)}: {clause}")
        else:
            self.clauses.append(clause)
        if self.chance(6, "duplicates"):
            self.clauses.append(clause)

    # rules

    def rule(self, head: Signature, own: list[Signature], first: Signature | None = None) -> str:
        """A rule for ``head``; one that may read ``own`` is recursive and begins with an atom of ``first``.

        Many recursive rules are plain, with different variables throughout, so that the recursion goes deep.
        """
        if first is None and self.chance(8, "disjunction"):
            bodies = [self.body(own, None, most=2) for _ in range(self.number(2, 3, 25))]
            text = " ; ".join(", ".join(body.literals) for body in bodies)
            return f"{self.head(head, self.common(bodies), bool(own))} :- {text}."
        self.plain = bool(own) and not self.chance(40)
        body = self.body(own, first, most=3)
        written = self.head(head, body, bool(own))
        self.plain = False
        literals = body.literals
        if len(literals) > 1 and self.chance(20):
            literals = [*literals[1:], literals[0]]
        return f"{written} :- {', '.join(literals)}."

    def common(self, bodies: list[Body]) -> Body:
        """A body that binds what all of ``bodies`` bind."""
        return Body(
            [],
            {
                name: [v for v in bodies[0].bound[name] if all(v in other.bound[name] for other in bodies[1:])]
                for name in POOLS
            },
        )

    def body(self, own: list[Signature], first: Signature | None, most: int) -> Body:
        """One to ``most`` atoms and what else may stand in a body."""
        body = Body()
        recursive = bool(own)
        atoms = 2 if first and self.chance(75) else 1
        atoms = self.number(atoms, most, 40)
        previous: Signature | None = None
        for place in range(atoms):
            if place == 0 and first:
                relation = first
            elif (
                previous and self.chance(20, "same_relation") and (previous not in own or self.chance(50, "nonlinear"))
            ):
                relation = previous
            elif recursive and self.chance(20, "nonlinear"):
                relation = self.pick(own)
            else:
                relation = self.below()
                if self.plain and len(relation.types) < 2:
                    relation = self.lower[0]
            if place == 2 and len(relation.types) > 2:
                relation = self.lower[0]
            if place and self.chance(7, "arithmetic"):
                self.assignment(body, recursive)
            self.atom(relation, body, recursive)
            previous = relation
        if self.plain and self.chance(30 if "lists" in self.features else 70):
            return body
        if self.chance(10, "disjunction"):
            self.disjunction(body, own)
        if self.chance(20, "arithmetic") or self.chance(35, "functions"):
            self.assignment(body, recursive)
        if self.chance(8, "guards") or self.chance(8, "functions"):
            self.guarded(body)
        if self.chance(20, "comparisons"):
            self.insert(body, self.comparison(body))
        if self.chance(25, "functions"):
            self.insert(body, self.condition(body))
        if self.chance(45, "nulls") or self.chance(45, "types"):
            self.insert(body, self.null_test(body))
        for _ in range(self.number(0, 2, 25) if "negation" in self.features else 0):
            self.insert(body, self.negated(self.below(), body))
        return body

    def insert(self, body: Body, literal: str | None) -> None:
        """Put a literal that binds nothing anywhere in the body."""
        if literal is not None:
            body.literals.insert(len(body.literals) - self.chooser.below(len(body.literals) + 1), literal)

    def atom(self, relation: Signature, body: Body, recursive: bool) -> None:
        """Add a positive atom; its expressions use variables that are bound before it."""
        before = body.copy()
        special = self.features if not self.plain else frozenset()
        arguments: list[str] = []
        for column, type_name in enumerate(relation.types):
            location = self.located and column == 0
            fresh = [name for name in POOLS[type_name] if name not in before.bound[type_name] and name not in arguments]
            known = [name for name in self.fitting(type_name, before, 12) if name not in arguments]
            again = [name for name in arguments if name in body.bound[type_name]]
            kind = self.weighted(
                (40 if fresh else 0, "fresh"),
                (200 if known and self.plain and not before.binds(arguments) else 45 if known else 0, "known"),
                (7 if again and "repeats" in special else 0, "again"),
                (10 if "wildcards" in special and not location else 0, "wildcard"),
                (6 if "constants" in special and type_name != "float" else 0, "constant"),
                (2 if type_name == "int" and known and not location and self.computes and special else 0, "sum"),
                (0 if fresh or known else 1, "neither"),
            )
            match kind:
                case "fresh":
                    arguments.append(fresh[0])
                    body.bind(type_name, fresh[0])
                case "known":
                    arguments.append(self.pick(known))
                case "again":
                    arguments.append(self.pick(again))
                case "constant":
                    arguments.append(self.constant(type_name))
                case "sum":
                    arguments.append(self.expression(before, recursive))
                case _:
                    arguments.append(self.constant(type_name) if location else "_")
        if relation.types == ("int", "int") and self.chance(12, "paths"):
            held = set(before.bound["int"]) | set(map(str, VALUES["int"]))
            body.literals.append(f"{self.path(relation, any(a in held for a in arguments))}({', '.join(arguments)})")
            return
        body.literals.append(self.written(relation.name, arguments))

    def fitting(self, type_name: str, body: Body, percent: int) -> list[str]:
        """Bound variables for a column of an atom: those of its type; of a column that may be null, also those that
        have values, and of another column, in ``percent`` of 100 cases, also those that may be null."""
        found = list(body.bound[type_name])
        other = type_name.removesuffix("?") if type_name.endswith("?") else f"{type_name}?"
        if other in body.bound and (type_name.endswith("?") or self.chance(percent, "nulls")):
            found += [name for name in body.bound[other] if name not in found]
        return found

    def null_test(self, body: Body) -> str | None:
        """A test of a variable that may be null."""
        names = [(name, kind) for kind in POOLS if kind.endswith("?") for name in body.bound[kind]]
        if not names:
            return None
        name, kind = self.pick(names)
        op = self.weighted((6, "!="), (4, "="))
        if op == "!=":
            body.bind(kind.removesuffix("?"), name)
        return f"null {op} {name}" if self.chance(20) else f"{name} {op} null"

    # paths

    def path(self, relation: Signature, bound: bool) -> str:
        """A path that goes along ``relation``; it can be empty only with a domain or an end that is ``bound``."""
        steps = [other.name for other in self.lower if other.types == ("int", "int")]
        text, empty = self.step(relation.name)
        for _ in range(self.number(0, 2, 40)):
            step, nothing = self.step(self.pick(steps))
            if self.chance(50):
                text, empty = f"{text} | {step}", empty or nothing
            else:
                text, empty = f"({text}) / {step}", empty and nothing
            if self.chance(25):
                text, empty = f"({text})+", empty
        if "/" not in text and "|" not in text and text == relation.name:
            text = f"{text}+" if self.chance(60) else f"{text} / {self.pick(steps)}"
        if empty and not (bound or self.domain):
            text = f"{relation.name} / ({text})"
        return f"({text})"

    def step(self, name: str) -> tuple[str, bool]:
        """A relation of a path with what stands around it, and whether it can be empty."""
        text = f"^{name}" if self.chance(25) else name
        end = self.weighted((60, ""), (25, "+"), (10, "*"), (5, "?"))
        return f"({text}){end}" if end and text != name else f"{text}{end}", end in ("*", "?")

    def written(self, name: str, arguments: Sequence[str]) -> str:
        """An atom's text."""
        if self.located and arguments:
            arguments = [f"@{arguments[0]}", *arguments[1:]]
        return f"{name}({', '.join(arguments)})" if arguments else name

    def constant(self, type_name: str) -> str:
        """A constant of the type."""
        if type_name.endswith("?"):
            return "null" if self.chance(35) else self.constant(type_name.removesuffix("?"))
        match type_name:
            case "int":
                return str(self.pick(VALUES["int"]))
            case "string":
                wild = self.chance(30, "types")
                return json.dumps(self.pick(WILD_VALUES["string"] if wild else VALUES["string"]), ensure_ascii=False)
            case "list<int>":
                return str(list(self.pick(VALUES["list<int>"][:1] + VALUES["list<int>"][2:])))
            case "timestamp":
                text = str(self.pick(VALUES["timestamp"]))
                return f'timestamp"{text.rstrip("0") if "." in text else text}"'
            case "bool":
                return self.pick(("false", "true"))
            case "date":
                return f'date"{self.pick(VALUES["date"])}"'
        return str(self.pick(VALUES["float"]))

    def constant_atom(self, relation: Signature) -> str:
        """An atom of constants."""
        return self.written(relation.name, [self.constant(type_name) for type_name in relation.types])

    def negated(self, relation: Signature, body: Body) -> str:
        """A negated atom over bound variables, constants and wildcards."""
        arguments = []
        for column, type_name in enumerate(relation.types):
            location = self.located and column == 0
            bound = self.fitting(type_name, body, 40)
            if "repeats" not in self.features:
                bound = [name for name in bound if name not in arguments]
            wildcard = "wildcards" in self.features and not location
            constant = type_name != "float" and "constants" in self.features
            kind = self.weighted(
                (6 if bound else 0, "variable"),
                (1 if constant or not (bound or wildcard) else 0, "constant"),
                (2 if wildcard else 0, "wildcard"),
            )
            match kind:
                case "variable":
                    arguments.append(self.pick(bound))
                case "constant":
                    arguments.append(self.constant(type_name.removesuffix("?")))
                case _:
                    arguments.append("_")
        sign = "not " if self.chance(10) else "!"
        if relation.types == ("int", "int") and self.chance(15, "paths"):
            return f"!{self.path(relation, '_' not in arguments)}({', '.join(arguments)})"
        return sign + self.written(relation.name, arguments)

    def comparison(self, body: Body) -> str | None:
        """A comparison of a bound variable with another, a constant or an expression."""
        types = [type_name for type_name in POOLS if body.bound[type_name]]
        if not types:
            return None
        type_name = self.pick(types)
        left = self.pick(body.bound[type_name])
        right = self.weighted(
            (3, "constant"),
            (3 if len(body.bound[type_name]) > 1 else 0, "variable"),
            (1 if type_name == "int" and "arithmetic" in self.features else 0, "expression"),
        )
        if right == "variable":
            right = self.pick([name for name in body.bound[type_name] if name != left])
        elif right == "constant":
            right = self.constant(type_name.removesuffix("?"))
        else:
            right = self.expression(body, recursive=False)
        op = self.pick(("!=", "<", "<=", ">", ">=", "=") if not type_name.startswith("bool") else ("!=", "="))
        return f"{right} {op} {left}" if op != "=" and self.chance(15) else f"{left} {op} {right}"

    def expression(self, body: Body, recursive: bool) -> str:
        """Integer arithmetic over bound variables; bounded by a constant if ``recursive``."""
        if self.chance(25, "functions"):
            return self.number_call(body)
        names = body.bound["int"] or ["1"]
        one, other = self.pick(names), self.pick(names)
        number = 1 + self.chooser.below(DOMAIN - 1)
        inner = self.pick(
            (
                f"{one} + {number}",
                f"{one} - {number}",
                f"{one} + {other}",
                f"{one} - {other}",
                f"{one} * {number}",
                f"{number} - {one}",
                f"-{one}",
            )
        )
        bounded = (f"({inner}) % {DOMAIN}", f"{one} / {number + 1}", f"{one} % {number + 1}", f"({one} * {other}) % 3")
        if recursive:
            return self.pick(bounded)
        return self.pick((inner, *bounded, f"({inner}) * 2", f"({inner}) / {number + 1}", f"{one} * 2 - {other}"))

    def assignment(self, body: Body, recursive: bool) -> None:
        """Bind a new variable to an expression, or now and then compare one that is bound already."""
        if (body.bound["list<int>"] or body.bound["int"]) and self.chance(55, "lists"):
            target, type_name = ASSIGNED["list<int>"][0], "list<int>"
            value = self.list_value(body, recursive)
        elif body.bound["string"] and self.chance(60, "strings", "functions"):
            target, type_name = ASSIGNED["string"][0], "string"
            value = self.string_call(body, recursive)
        elif body.bound["string"] and not recursive and self.chance(40, "strings"):
            target = ASSIGNED["string"][0]
            one = self.pick(body.bound["string"])
            other = self.pick([f'"{VALUES["string"][0]}"', *body.bound["string"]])
            value = f"{one} ++ {other}"
            type_name = "string"
        elif body.bound["int"]:
            target = ASSIGNED["int"][0]
            value = self.expression(body, recursive)
            type_name = "int"
        else:
            return
        if target in body.bound[type_name] and self.chance(80):
            return
        body.literals.append(f"{target} = {value}")
        body.bind(type_name, target)

    # lists and functions

    def list_value(self, body: Body, recursive: bool) -> str:
        """A list of bound variables; in a recursion it is short, or no longer than one that is bound."""
        numbers, lists = body.bound["int"], body.bound["list<int>"]
        made = [f"[{one}, {other}]" for one in numbers[:1] for other in numbers[-1:]]
        made += [f"f_init({one}, {other})" for one in numbers[-1:] for other in numbers[:1]]
        made += [f"f_append({one})" for one in numbers[:1]]
        made += [f"[{one}]" for one in numbers[-1:]]
        if lists:
            one = self.pick(lists)
            made += [f"reverse({one})", f"slice({one}, 1, 2)", f"array_distinct({one})", f"array_sort({one})"]
            made += [f"array_remove({one}, {number})" for number in numbers[:1]]
            if not recursive:
                made += [f"{one} ++ [1]", f"{one} ++ {self.pick(lists)}", f"concat({one}, {one}, [])"]
                made += [f"f_concat({number}, {one})" for number in numbers[:1]]
                made += [f"array_append({one}, {number})" for number in numbers[-1:]]
        if lists and numbers and recursive and self.chance(60):
            one, number = self.pick(lists), self.pick(numbers)
            body.literals.append(f"f_size({one}) < 2")
            if self.chance(50):
                body.literals.append(self.pick((f"f_inPath({one}, {number}) = false", f"!f_inPath({one}, {number})")))
            return self.pick((f"f_concatPath({number}, {one})", f"{one} ++ [{number}]"))
        return self.pick(made)

    def string_call(self, body: Body, recursive: bool) -> str:
        """A string of bound variables, no longer than they are if ``recursive``."""
        one, other = self.pick(body.bound["string"]), self.pick(body.bound["string"])
        number = self.pick([*body.bound["int"], "1"])
        made = [f"upper({one})", f"reverse({one})", f"left({one}, {number})", f"substring({one}, {number}, 1)"]
        made += [f'replace({one}, "a", "b")', f"greatest({one}, {other})", f'trim({one} ++ " ")']
        if not recursive:
            made += [f"concat({one}, {other})", f'lpad({one}, 3, "x")', f"string({number})", f'concat_ws(",", {one})']
        return self.pick(made)

    def number_call(self, body: Body) -> str:
        """An integer that is no greater than the bound variables, or the length of one."""
        numbers = body.bound["int"] or ["1"]
        one, other = self.pick(numbers), self.pick(numbers)
        made = [f"abs({one})", f"pmod({one}, 3)", f"greatest({one}, {other})", f"least({one}, 3)", f"sign({one})"]
        for items in body.bound["list<int>"][:2]:
            made += [f"f_size({items})", f"f_member({items}, {one})", f"array_position({items}, {other})"]
        for text in body.bound["string"][:1]:
            made += [f"length({text})", f'instr({text}, "b")']
        return self.pick(made)

    def condition(self, body: Body) -> str | None:
        """A call that is true or false as a literal, perhaps negated, or a comparison of one with a constant."""
        numbers = [*body.bound["int"], "1"]
        made = [f"size({items}) {self.pick(('<', '=', '!='))} 2" for items in body.bound["list<int>"][:1]]
        for items in body.bound["list<int>"]:
            made += [f"f_inPath({items}, {self.pick(numbers)})", f"array_contains({items}, {self.pick(numbers)})"]
            made += [f"arrays_overlap({items}, [1, {self.pick(numbers)}])"]
        for text in body.bound["string"]:
            made += [f'contains({text}, "a")', f"startswith({text}, {self.pick(body.bound['string'])})"]
        if not made:
            return None
        literal = self.pick(made)
        if literal.endswith(")"):
            literal = self.pick((literal, f"!{literal}", f"not {literal}", f"{literal} = false"))
        return literal

    def guarded(self, body: Body) -> None:
        """A quotient or remainder whose divisor a condition keeps from being 0, or an element that is there."""
        if body.bound["list<int>"] and self.chance(50, "functions"):
            items = self.pick(body.bound["list<int>"])
            call = self.pick((f"f_first({items})", f"f_last({items})", f"element_at({items}, 1)"))
            body.literals += [f"B = {call}", self.pick((f"f_size({items}) > 0", f"{items} != []"))]
            body.bind("int", "B")
            return
        if not body.bound["int"]:
            return
        one, other = self.pick(body.bound["int"]), self.pick(body.bound["int"])
        literals = [f"B = {one} {self.pick(('/', '%'))} {other}", f"{other} {self.pick(('!=', '>'))} 0"]
        if self.chance(50):
            literals.reverse()
        if self.chance(30):
            literals.append(f"B {self.pick(('!=', '<'))} {self.constant('int')}")
        body.literals += literals
        body.bind("int", "B")

    def disjunction(self, body: Body, own: list[Signature]) -> None:
        """``(a ; b)``: alternatives of one atom or condition each; what all bind is bound behind it."""
        alternatives = []
        for _ in range(self.number(2, 3, 20)):
            part = body.copy()
            condition = self.comparison(part) if self.chance(40, "comparisons") else None
            if condition is None:
                recursive = bool(own) and self.chance(30)
                self.atom(self.pick(own) if recursive else self.below(), part, bool(own))
            else:
                part.literals.append(condition)
            if self.chance(20, "negation"):
                part.literals.append(self.negated(self.below(), part))
            alternatives.append(part)
        body.literals.append(f"({' ; '.join(', '.join(part.literals) for part in alternatives)})")
        for type_name, found in self.common(alternatives).bound.items():
            for variable in found:
                body.bind(type_name, variable)

    def head(self, head: Signature, body: Body, recursive: bool) -> str:
        """A head over the body's variables."""
        arguments = []
        for column, type_name in enumerate(head.types):
            bound = body.bound[type_name] if not type_name.endswith("?") else self.fitting(type_name, body, 0)
            if not self.chance(10, "repeats"):
                bound = [name for name in bound if name not in arguments] or bound
            if self.plain and column == len(head.types) - 1:
                bound = bound[-1:]
            kind = self.weighted(
                (90 if bound else 0, "variable"),
                (5 if "constants" in self.features or not bound else 0, "constant"),
                (
                    0 if self.located and column == 0 else 5 if type_name == "int" and bound and self.computes else 0,
                    "sum",
                ),
            )
            if kind == "variable":
                arguments.append(self.pick(bound))
            elif kind == "constant":
                arguments.append(self.constant(type_name))
            else:
                arguments.append(self.expression(body, recursive))
        return self.written(head.name, arguments)

    # aggregates

    def aggregate(self, place: int) -> None:
        """A relation of one to three aggregates over the derivations of one or two rules."""
        grouping = [
            "string"
            if not (self.located and c == 0) and self.chance(10, "strings")
            else "int?"
            if not (self.located and c == 0) and self.chance(30, "nulls")
            else "int"
            for c in range(max(int(self.located), self.number(0, 2, 70)))
        ]
        functions = [self.pick(("count*", "min", "max", "sum", "avg", "count"))]
        while len(functions) < 3 and self.chance(25):
            functions.append(self.pick(("count*", "min", "max", "sum", "avg", "count")))
        strings = all(function not in ("sum", "avg") for function in functions) and self.chance(15, "strings")
        value_type = "string" if strings else "int"
        first = not self.located and all(function not in ("min", "max") for function in functions) and self.chance(15)
        witness = len(functions) == 1 and functions[0] in ("min", "max") and self.chance(50, "witnesses")
        results = [{"count*": "int", "count": "int", "avg": "float"}.get(f, value_type) for f in functions]
        types = (*results, *grouping) if first else (*grouping, *results)
        relation = Signature(f"a{place}", (*types, "int") if witness else types)
        distinct = self.chance(40, "distinct")
        self.publish(relation)
        for _ in range(self.number(1, 2, 30)):
            body = self.body([], None, most=2)
            if not body.bound[value_type] or (witness and not body.bound["int"]):
                body.literals.append(self.written("e", ["X", "Y"]))
                body.bind("int", "X")
                body.bind("int", "Y")
                if strings and not body.bound["string"]:
                    body.literals.append('C = "a"')
                    body.bind("string", "C")
            written = []
            for function in functions:
                if function == "count*":
                    written.append("count<*>")
                    continue
                names = body.bound[value_type]
                if len(functions) == 1 and self.chance(50, "nulls"):
                    names = body.bound[f"{value_type}?"] or names
                variable = self.pick(names)
                name = f"a_{function.upper()}" if self.chance(5) else function
                written.append(f"{name}<{'distinct ' if distinct and function == 'count' else ''}{variable}>")
            groups = []
            for type_name in grouping:
                bound = body.bound[type_name] if not type_name.endswith("?") else self.fitting(type_name, body, 0)
                groups.append(
                    self.constant(type_name) if not bound or self.chance(5, "constants") else self.pick(bound)
                )
            arguments = [*written, *groups] if first else [*groups, *written]
            if witness:
                arguments.append(self.pick(body.bound["int"]))
            self.add(f"{self.written(relation.name, arguments)} :- {', '.join(body.literals)}.")
        self.lower.append(relation)

    def first(self, place: int) -> None:
        """A relation of the first few of an order in each group of the derivations of one or two rules."""
        kinds = ["int", "int", *(["string"] if "strings" in self.features else [])]
        kinds += ["timestamp"] if "timestamps" in self.features else []
        maybe = [*kinds, *(["int?", "string?"] if "nulls" in self.features else [])]
        grouping = ["int"] * max(int(self.located), self.number(0, 2, 50))
        order = [self.pick(kinds) for _ in range(self.number(0, 2, 70))]
        ranked = [self.pick(maybe) for _ in range(self.number(1, 2, 40))]
        directions = [self.pick(("", " desc", " desc", " asc")) for _ in order]
        limit = self.weighted((4, 1), (4, 2), (4, 3), (1, 50))
        relation = Signature(f"o{place}", (*grouping, "int", *ranked))
        self.publish(relation)
        for _ in range(self.number(1, 2, 30)):
            body = self.body([], None, most=2)
            for type_name in {*grouping, *order, *ranked}:
                if not self.fitting(type_name, body, 0):
                    if type_name == "int":
                        body.literals.append(self.written("e", ["X", "Y"]))
                        body.bind("int", "X")
                        body.bind("int", "Y")
                    elif type_name == "string":
                        body.literals.append('C = "a"')
                        body.bind("string", "C")
                    elif type_name == "timestamp":
                        body.literals.append(self.written("at", ["Z", "V"]))
                        body.bind("int", "Z")
                        body.bind("timestamp", "V")
            values = []
            for type_name, direction in zip(order, directions, strict=True):
                names = body.bound[type_name]
                names = (body.bound.get(f"{type_name}?") or names) if self.chance(40, "nulls") else names
                computed = type_name == "int" and body.bound["int"] and self.computes and self.chance(25)
                values.append(f"{self.expression(body, False) if computed else self.pick(names)}{direction}")
            shown = [
                self.pick(names) if (names := self.fitting(type_name, body, 0)) else self.constant(type_name)
                for type_name in (*grouping, *ranked)
            ]
            written = f"first<{limit}{' by ' if values else ''}{', '.join(values)}>"
            arguments = [*shown[: len(grouping)], written, *shown[len(grouping) :]]
            self.add(f"{self.written(relation.name, arguments)} :- {', '.join(body.literals)}.")
        self.lower.append(relation)

    def extremes(self, place: int) -> None:
        """``min`` or ``max`` inside recursion: shortest paths in three shapes, the least label of a component, or
        relations that carry the value around, with witnesses and functions that are not strict."""
        if not any(relation.name == "wt" for relation in self.lower):
            self.input("wt", ("int", "int", "int"))
        if self.chance(60):
            self.carried(place)
            return
        best = Signature(f"m{place}", ("int", "int", "int"))
        at = "@" if self.located else ""
        first, edge = f"{at}X, Y, min<C>", f"wt({at}X, Y, C)"
        match self.pick(("linear", "nonlinear", "mutual", "labels")):
            case "linear":
                self.clauses += [
                    f"m{place}({first}) :- {edge}.",
                    f"m{place}({first}) :- wt({at}X, Z, C1), m{place}({at}Z, Y, C2), C = C1 + C2.",
                ]
            case "nonlinear":
                self.clauses += [
                    f"m{place}({first}) :- {edge}.",
                    f"m{place}({first}) :- m{place}({at}X, Z, C1), m{place}({at}Z, Y, C2), C = C1 + C2.",
                ]
            case "mutual":
                self.clauses += [
                    f"t{place}({at}X, Y, C) :- {edge}.",
                    f"t{place}({at}X, Y, C) :- wt({at}X, Z, C1), m{place}({at}Z, Y, C2), C = C1 + C2.",
                    f"m{place}({first}) :- t{place}({at}X, Y, C).",
                ]
            case _:
                best = Signature(f"m{place}", ("int", "int"))
                self.clauses += [
                    f"m{place}({at}X, min<L>) :- e({at}X, _), L = X.",
                    f"m{place}({at}X, min<L>) :- e({at}X, Y), m{place}({at}Y, L).",
                ]
        self.publish(best)
        self.lower.append(best)

    def carried(self, place: int) -> None:
        """One to three relations that read each other; the first has a ``min`` or ``max``, others may be plain.

        No function betters a value, so that every best value has a proof by best values, but for a few programs in
        which one does; then the oracle says whether that is so. Values that plain relations carry are bounded.
        """
        function = self.pick(("min", "max"))
        own = [Carrier(f"m{place}", True, self.chance(35, "witnesses"))]
        for name in "tn"[: self.number(0, 2, 60)]:
            own.append(Carrier(f"{name}{place}", name == "n", self.chance(25, "witnesses")))
        at = "@" if self.located else ""
        for head in own if self.chance(30) else own[:1]:
            self.add(f"{head.written(f'{at}X', 'C', 'Y', function)} :- wt({at}X, Y, C).")
        for number, head in enumerate(own):
            read = [own[(number + 1) % len(own)], *(self.pick(own) for _ in range(self.number(0, 2, 50)))]
            for carrier in read:
                self.add(self.carrying(head, carrier, self.pick(own), function, at))
        for carrier in own:
            signature = Signature(carrier.name, ("int",) * (3 if carrier.witness else 2))
            self.declare(self.pick(("output relation", "relation")), signature.name, signature.types)
            self.lower.append(signature)

    def carrying(self, head: Carrier, read: Carrier, other: Carrier, function: str, at: str) -> str:
        """A rule that carries a value of ``read`` on, along an edge, where it is, or together with one of ``other``."""
        witness = "W" if read.witness else "Y"
        step = self.weighted((4, "weight"), (4, "edge"), (2, "here"), (2, "both"))
        match step:
            case "weight":
                body = [f"wt({at}X, Y, C2)", read.written(f"{at}Y", "C1", "W")]
            case "edge":
                body = [f"e({at}X, Y)", read.written(f"{at}Y", "C1", "W")]
            case "here":
                body, witness = [read.written(f"{at}X", "C1", "W")], "W" if read.witness else "X"
            case _:
                body = [f"e({at}X, Y)", read.written(f"{at}Y", "C1", "W"), other.written(f"{at}X", "C2", "_")]
        if self.chance(20):
            body.reverse()
        number = self.chooser.below(DOMAIN)
        if function == "min":
            values = ["C1", "C1 + 0", f"greatest(C1, {number})", "C1 * 3 / 2", "C1 * 2", f"C1 + {number}"]
            values += ["C1 + C2", "greatest(C1, C2)", "greatest(C1, C2, 2)"] if step in ("weight", "both") else []
            daring, bound = (f"least(C1, {number})", "C1 / 2"), "C < 9"
        else:
            values = ["C1", "C1 - 0", f"least(C1, {number})", "C1 / 2", "C1 / 1", "C1 - 1"]
            values += ["least(C1, C2)"] if step in ("weight", "both") else []
            daring, bound = (f"greatest(C1, {number})", "(C1 + 7) / 2"), "C >= 0"
        body.append(f"C = {self.pick(daring) if self.chance(4) else self.pick(values)}")
        if not head.extreme or "/" in body[-1] or "-" in body[-1]:
            body.append(bound)
        if self.chance(15, "negation"):
            body.append("!e(X, X)" if not self.located else f"!e({at}X, X)")
        return f"{head.written(f'{at}X', 'C', witness, function)} :- {', '.join(body)}."


@dataclass(frozen=True)
class Carrier:
    """A relation of a node, a value and perhaps a witness; the value is a ``min`` or ``max`` or not."""

    name: str
    extreme: bool
    witness: bool

    def written(self, node: str, value: str, witness: str, function: str = "") -> str:
        """An atom, or a head with the ``function``."""
        shown = f"{function}<{value}>" if function and self.extreme else value
        return f"{self.name}({node}, {shown}{f', {witness}' if self.witness else ''})"


# ---- change batches ------------------------------------------------------------------------------------------------


def values_of(type_name: str) -> Sequence[Any]:
    """What a column of this type is filled with; KeyError for a type that is not known."""
    if type_name in VALUES:
        return VALUES[type_name]
    if type_name.endswith("?"):
        return (None, *values_of(type_name.removesuffix("?")))
    if type_name.startswith("list<"):
        items = values_of(type_name.removeprefix("list<").removesuffix(">"))
        return ((), (items[0],), (items[-1], items[0]))
    if type_name.startswith("decimal("):
        precision, scale = map(int, type_name.removeprefix("decimal(").removesuffix(")").split(","))
        with localcontext(prec=40):
            found = [value.quantize(Decimal(1).scaleb(-scale)) for value in VALUES["decimal"]]
        return [value for value in dict.fromkeys(found) if abs(value) < 10 ** (precision - scale)] or [Decimal(0)]
    return VALUES[type_name]


def in_order(row: Row) -> list[tuple[bool, Any]]:
    """A key to sort rows by: nulls first."""
    return [(value is not None, value) for value in row]


def build_row(builder: Builder, relation: Relation) -> Row:
    """A row of the relation's types."""
    assert relation.columns is not None
    values = WILD_VALUES.__getitem__ if relation.name == WILD else values_of
    return tuple(builder.pick(values(column.type)) for column in relation.columns)


def build_inputs(builder: Builder, program: Program, most: int) -> dict[str, set[Row] | Counter[Row]]:
    """Up to ``most`` rows per input relation, one per primary key, several copies of those of a multiset."""
    inputs: dict[str, set[Row] | Counter[Row]] = {}
    for relation in program.inputs:
        rows: dict[Row, Row] = {}
        for _ in range(builder.number(0, most, 90)):
            row = build_row(builder, relation)
            rows[key_of(relation, row)] = row
        inputs[relation.name] = set(rows.values())
        if relation.is_multiset:
            inputs[relation.name] = Counter({row: builder.number(1, 4, 40) for row in rows.values()})
    return inputs


def build_batch(builder: Builder, program: Program, inputs: Mapping[str, Rows], most: int) -> Batch:
    """Up to ``most`` changes per input relation, some of which change nothing."""
    batch: Batch = {}
    for relation in program.inputs:
        rows = sorted(inputs.get(relation.name, ()), key=in_order)
        changes: list[tuple[str, Row]] = []
        taken: dict[Row, Row] = {}
        if relation.is_multiset:
            changes = build_copies(builder, relation, Counter(inputs.get(relation.name, ())), most)
            if changes:
                batch[relation.name] = changes
            continue
        if rows and builder.chance(5):
            changes += [("-", row) for row in rows]
        for _ in range(builder.number(0, most, 60)):
            op = builder.pick("+-")
            row = (
                builder.pick(rows) if rows and builder.chance(75 if op == "-" else 10) else build_row(builder, relation)
            )
            if op == "+" and taken.setdefault(key_of(relation, row), row) != row:
                continue
            # Nobody could tell whether a row stays that is both deleted and inserted.
            if not {("+", row), ("-", row)} & {*changes}:
                changes.append((op, row))
        if changes:
            batch[relation.name] = changes
    return batch


def build_copies(builder: Builder, relation: Relation, copies: Counter[Row], most: int) -> list[Change]:
    """Up to ``most`` times some copies of a row, inserted or deleted, of a multiset with ``copies``."""
    rows = sorted(copies, key=in_order)
    changes: list[Change] = []
    if rows and builder.chance(5):
        changes += [("-", row) for row in copies.elements()]
        copies = Counter()
    for _ in range(builder.number(0, most, 60)):
        op = builder.pick("+-")
        row = builder.pick(rows) if rows and builder.chance(75) else build_row(builder, relation)
        times = builder.number(1, 4, 40)
        times = times if op == "+" else min(times, copies[row])
        copies = copies + Counter({row: times}) if op == "+" else copies - Counter({row: times})
        changes += [(op, row)] * times
    if builder.chance(30):
        changes.reverse()
    return changes


@dataclass(frozen=True)
class Scenario:
    """A program's text, its first inputs, and batches to apply one after the other."""

    text: str
    inputs: dict[str, set[Row] | Counter[Row]]
    batches: list[Batch]

    def __str__(self) -> str:
        """The program and its data, to be read when a test fails."""
        lines = [self.text, *(f"{name} = {in_list(rows)}" for name, rows in self.inputs.items())]
        return "\n".join([*lines, *(f"batch {number}: {batch}" for number, batch in enumerate(self.batches, 1))])


def in_list(rows: Rows) -> list[Row]:
    """Rows in order, each as often as it has copies."""
    return sorted(rows.elements() if isinstance(rows, Counter) else rows, key=in_order)


def build_batches(builder: Builder, program: Program, inputs: Mapping[str, Rows], n: int, most: int) -> list[Batch]:
    """``n`` batches, each drawn with the inputs that those before it leave."""
    now: Mapping[str, Rows] = inputs
    batches = []
    for _ in range(n):
        batches.append(build_batch(builder, program, now, most))
        now = apply(now, batches[-1], program)
    return batches


def as_program(program: Program | str) -> Program:
    """Parse a text."""
    return parse(program) if isinstance(program, str) else program


def seeded(rng: random.Random, features: Iterable[str] = FEATURES) -> Builder:
    """A builder that chooses by ``rng``."""
    return Builder(RandomChooser(rng), features)


def random_program(rng: random.Random, features: Iterable[str] = FEATURES) -> str:
    """The text of a random program that shows some of ``features``."""
    return seeded(rng, features).program()


def random_inputs(rng: random.Random, program: Program | str, most: int = 12) -> dict[str, set[Row] | Counter[Row]]:
    """Random rows, at most ``most`` per input relation."""
    return build_inputs(seeded(rng), as_program(program), most)


def random_batches(
    rng: random.Random, program: Program | str, inputs: Mapping[str, Rows], n: int, most: int = 6
) -> list[Batch]:
    """``n`` random batches to be applied to ``inputs`` one after the other."""
    return build_batches(seeded(rng), as_program(program), inputs, n, most)


def random_scenario(
    seed: int,
    features: Iterable[str] = FEATURES,
    batches: int = 4,
    accept: Callable[[str], bool] = lambda text: True,
) -> Scenario:
    """The scenario of ``seed``; the first program that ``accept`` takes."""
    rng = random.Random(seed)
    text = random_program(rng, features)
    while not accept(text):
        text = random_program(rng, features)
    inputs = random_inputs(rng, text)
    return Scenario(text, inputs, random_batches(rng, text, inputs, batches))
