"""Random programs with conditions on the time, and batches that change rows and move the time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

OPERATORS = ("<", ">", "<=", ">=", "<", ">", "<=", ">=", "=", "!=")
TIMES = ("T", "T", "add_seconds(T, -86400)", "add_seconds(T, 3600)")
DAYS = ("to_date(T)", "date_sub(to_date(T), 2)", "date_add(to_date(T), 1)", "last_day(to_date(T))")
FIRST = datetime(2026, 1, 1)
MOST_ROWS = 6

Batch = dict[str, list[tuple[str, tuple[Any, ...]]]]
"""Changes by relation."""


@dataclass(frozen=True)
class TimedProgram:
    """A program whose rules compare columns with the time; whether grants have a key, or count."""

    text: str
    keyed: bool
    counted: bool
    optional: tuple[bool, bool]

    def with_clock(self) -> str:
        """The program with an input relation for the time, of which nothing special is known."""
        return f"{self.text.replace('now(T)', 'clock(T)')}input relation clock(t: timestamp)\n"


def timed_program(seed: int) -> TimedProgram:
    """A random program."""
    rng = random.Random(seed)
    keyed, counted = rng.random() < 0.5, False
    if not keyed:
        counted = rng.random() < 0.5
    optional = rng.random() < 0.5, rng.random() < 0.5
    head = "input multiset relation" if counted else "input relation"
    lines = [
        f"{head} g(a: int, b: int, u: timestamp{'?' * optional[0]}){' primary key (a, b)' * keyed}",
        f"input relation s(a: int, d: date{'?' * optional[1]})",
        "input relation e(a: int, b: int)",
        "output relation r(a: int, b: int)",
        "r(A, B) :- e(A, B).",
        "r(A, C) :- r(A, B), e(B, C).",
        f"relation w(a: int, u: timestamp)\nw(B, U) :- g(A, _, U), e(A, B){', U != null' * optional[0]}.",
    ]
    for number in range(1, rng.randint(2, 5)):
        lines += rules_of(rng, f"o{number}", optional[0])
    return TimedProgram("\n".join(lines) + "\n", keyed, counted, optional)


def condition(rng: random.Random, variable: str, bounds: tuple[str, ...]) -> str:
    """One or two comparisons of a variable with the time."""

    def one() -> str:
        op, bound = rng.choice(OPERATORS), rng.choice(bounds)
        return f"{variable} {op} {bound}" if rng.random() < 0.6 else f"{bound} {op} {variable}"

    return ", ".join(one() for _ in range(rng.randint(1, 2)))


def rules_of(rng: random.Random, name: str, optional: bool) -> Iterator[str]:
    """Rules of an output relation."""
    times, days = condition(rng, "U", TIMES), condition(rng, "D", DAYS)
    match rng.randrange(7):
        case 0:
            yield f"output relation {name}(a: int, b: int)\n{name}(A, B) :- g(A, B, U), now(T), {times}."
            if optional:
                yield f"{name}(A, B) :- g(A, B, U), U = null."
        case 1:
            yield f"output relation {name}(a: int, c: int)\n{name}(A, count<*>) :- g(A, B, U), now(T), {times}."
        case 2:
            yield f"output relation {name}(a: int, c: int)\n{name}(A, max<B>) :- s(A, D), r(A, B), now(T), {days}."
        case 3:
            yield f"relation l{name}(a: int)\nl{name}(A) :- s(A, D), now(T), {days}."
            yield f"output relation {name}(a: int, b: int)\n{name}(A, B) :- e(A, B), !l{name}(A)."
        case 4:
            yield f"relation l{name}(a: int, b: int)\nl{name}(A, B) :- e(A, B), s(A, D), now(T), {days}."
            yield f"output relation {name}(a: int, b: int)\n{name}(A, B) :- l{name}(A, B)."
            yield f"{name}(A, C) :- {name}(A, B), l{name}(B, C)."
        case 5:
            yield f"output relation {name}(a: int, u: timestamp)\n{name}(A, U) :- w(A, U), now(T), {times}."
        case _:
            yield f"output relation {name}(a: int, b: int)"
            yield f"{name}(A, 1) :- g(A, B, U), s(B, D), now(T), {times}, {days}."


def moment(rng: random.Random) -> datetime:
    """A time at which something may end, or just behind it."""
    return FIRST + timedelta(hours=rng.randrange(0, 24 * 8, 6), microseconds=rng.choice([0, 0, 1]))


def timed_batches(program: TimedProgram, seed: int, count: int) -> Iterator[tuple[Batch, datetime]]:
    """Random batches, each with its time."""
    rng = random.Random(seed)
    rows: dict[str, list[tuple[Any, ...]]] = {"g": [], "s": [], "e": []}
    now = FIRST
    for _ in range(count):
        changes: Batch = {name: [] for name in rows}
        for name, of in rows.items():
            for row in [row for row in of if rng.random() < 0.25]:
                of.remove(row)
                changes[name].append(("-", row))
            for _ in range(rng.randrange(MOST_ROWS)):
                row = random_row(rng, name, program.optional)
                known = [other[:2] if name == "g" and program.keyed else other for other in of]
                new = (row[:2] if name == "g" and program.keyed else row) not in known
                if ("-", row) not in changes[name] and (new or (name == "g" and program.counted)):
                    of.append(row)
                    changes[name].append(("+", row))
        now += timedelta(hours=rng.choice([0, 0, 1, 6, 24, 50, 200]))
        yield changes, now


def random_row(rng: random.Random, name: str, optional: tuple[bool, bool]) -> tuple[Any, ...]:
    """A row of an input relation."""
    first, second = rng.randrange(4), rng.randrange(4)
    if name == "g":
        return first, second, None if optional[0] and rng.random() < 0.3 else moment(rng)
    if name == "s":
        return first, None if optional[1] and rng.random() < 0.3 else moment(rng).date()
    return first, second
