"""Programs as programs write them: many statements, or few long ones. One shape each, of any size.

Run as a script, it checks and compiles one of each shape, and prints the processor seconds (user and system) and the
peak memory of each command as a table::

    .venv/bin/python benchmarks/large_programs.py --shape rules --shape facts --scale 0.5
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

Shape: TypeAlias = Callable[[int], str]
"""Makes a program of a size."""


def rules(count: int) -> str:
    """Rules that each derive a relation of their own from others, of all kinds."""
    kinds = (
        "d{n}(X, Z) :- e(X, Y), f(Y, Z), X != Z.",
        "d{n}(X, Z) :- d{m}(X, Y), e(Y, Z).",
        "d{n}(X, Y) :- e(X, Y), !f(Y, X).",
        "d{n}(X, Z) :- e(X, Y), Z = X * {n} + Y.",
        "d{n}(X, count<*>) :- f(X, _).",
    )
    lines = ["input relation e(x: int, y: int)", "input relation f(x: int, y: int)"]
    lines += [kinds[n % len(kinds)].format(n=n, m=n - 1) for n in range(count)]
    return _program(lines)


def rules_of_one_head(count: int) -> str:
    """Rules that all derive one relation."""
    lines = ["input relation e(x: int, y: int)", *(f"p(X, Y) :- e(X, Y), X > {n}." for n in range(count))]
    return _program(lines)


def relations(count: int) -> str:
    """Input relations, each read by one rule."""
    lines = [f"input relation e{n}(x: int, y: int)" for n in range(count)]
    return _program([*lines, *(f"d{n}(X) :- e{n}(X, _)." for n in range(count))])


def chain(count: int) -> str:
    """Relations, each read by the next one: as many strata."""
    lines = ["input relation e(x: int, y: int)", "d0(X, Y) :- e(X, Y)."]
    return _program([*lines, *(f"d{n}(X, Y) :- d{n - 1}(X, Y)." for n in range(1, count))])


def recursion(count: int) -> str:
    """Relations that depend on each other in a ring: one stratum."""
    lines = ["input relation e(x: int, y: int)", "r0(X, Y) :- e(X, Y)."]
    return _program([*lines, *(f"r{(n + 1) % count}(X, Z) :- r{n}(X, Y), e(Y, Z)." for n in range(count))])


def chain_backwards(count: int) -> str:
    """The same, each relation standing before the one that it reads, and gets its types from."""
    lines = [f"d{n}(X, Y) :- d{n + 1}(X, Y)." for n in range(count)]
    return _program(["input relation e(x: int, y: int)", *lines, f"d{count}(X, Y) :- e(X, Y)."])


def shuffled_recursion(count: int) -> str:
    """A ring of relations, those that stand first far from each other, that no pivot suits."""
    lines = [f"r{(n + 1) % count}(X, Y) :- r{n}(X, Y)." for n in (*range(0, count, 2), *range(1, count, 2))]
    return _program(["input relation e(x: int, y: int)", *lines, "r0(X, Y) :- e(X, Y).", "r0(Y, X) :- r0(X, Y)."])


def closures(count: int) -> str:
    """Closures, written with a square."""
    lines = []
    for n in range(count):
        lines += [f"input relation e{n}(x: int, y: int)", f"c{n}(X, Y) :- e{n}(X, Y)."]
        lines += [f"c{n}(X, Z) :- c{n}(X, Y), c{n}(Y, Z)."]
    return _program(lines)


def facts(count: int) -> str:
    """Facts of one relation."""
    lines = ["relation p(x: int, y: int)", *(f"p({n}, {n * 7 % 1000})." for n in range(count))]
    return _program([*lines, "q(X) :- p(X, Y), X < Y."])


def facts_of_strings(count: int) -> str:
    """Facts that hold strings."""
    lines = ["relation p(x: string, y: string)", *(f'p("name {n}", "value \\"{n % 13}\\"").' for n in range(count))]
    return _program([*lines, "q(X) :- p(X, Y), X != Y."])


def facts_of_many(count: int) -> str:
    """Relations that nothing declares, a fact of each."""
    return _program([f'p{n}({n}, "{n}", {n}.5).' for n in range(count)])


def literals(count: int) -> str:
    """One rule with a long body, a join along a path."""
    body = ", ".join(f"e(X{n}, X{n + 1})" for n in range(count))
    return _program(["input relation e(x: int, y: int)", f"p(X0, X{count}) :- {body}."])


def star(count: int) -> str:
    """One rule with a long body, all of whose literals share a variable, each of its own relation."""
    lines = [f"input relation e{n}(x: int, y: int)" for n in range(count)]
    body = ", ".join(f"e{n}(X, Y{n})" for n in range(count))
    return _program([*lines, f"p(X) :- {body}."])


def negations(count: int) -> str:
    """Rules with two negations each, one of which leaves a column open."""
    lines = ["input relation n(x: int)", *(f"input relation e{k}(x: int, y: int)" for k in range(count))]
    lines += [f"p{k}(X) :- n(X), !e{k}(X, X), !e{k}(_, X)." for k in range(count)]
    return _program(lines)


def aggregates(count: int) -> str:
    """Aggregate relations."""
    functions = ("min<Y>", "max<Y>", "sum<Y>", "count<*>", "avg<Y>")
    lines = [f"d{n}(X, {functions[n % len(functions)]}) :- e(X, Y), Y > {n}." for n in range(count)]
    return _program(["input relation e(x: int, y: int)", *lines])


def columns(count: int) -> str:
    """A wide relation, copied and selected from."""
    declared = ", ".join(f"c{n}: int" for n in range(count))
    names = ", ".join(f"C{n}" for n in range(count))
    return _program([f"input relation w({declared})", f"copy({names}) :- w({names}).", f"one(C0) :- copy({names})."])


def comparisons(count: int) -> str:
    """One rule with many comparisons and assignments, each of which needs the one before it."""
    body = ", ".join(f"V{n + 1} = V{n} + {n}, V{n + 1} != {n}" for n in range(count))
    return _program(["input relation e(x: int)", f"p(V{count}) :- e(V0), {body}."])


def disjunction(count: int) -> str:
    """One disjunction of many alternatives."""
    body = " ; ".join(f"e(X, {n})" for n in range(count))
    return _program(["input relation e(x: int, y: int)", f"p(X) :- {body}."])


def path(count: int) -> str:
    """A long path of steps that go on and back."""
    steps = " / ".join(("e", "^f", "(e | f)", "f+")[n % 4] for n in range(count))
    lines = ["input relation e(x: int, y: int)", "input relation f(x: int, y: int)"]
    return _program([*lines, f"p(X, Y) :- ({steps})(X, Y)."])


def strings(count: int) -> str:
    """A long concatenation."""
    return _program(["input relation e(x: string)", f"p(Y) :- e(X), Y = {' ++ '.join(['X'] * count)}."])


def processes(count: int) -> str:
    """Processes, each of which reads what the one before it outputs."""
    lines = []
    for n in range(count):
        read = f"P{n - 1}.r(X)" if n else "e(X)"
        lines += [
            f"process P{n} {{",
            "  input relation e(x: int)",
            f"  output relation P{n}.r(x: int)",
            f"  P{n}.r(X) :- {read}, e(X).",
            "}",
        ]
    return _program(lines)


SHAPES: Mapping[str, tuple[Shape, int]] = {
    "rules": (rules, 1000),
    "rules of one head": (rules_of_one_head, 1000),
    "relations": (relations, 1000),
    "relations in a chain": (chain, 1000),
    "relations in a recursion": (recursion, 300),
    "relations in a chain, backwards": (chain_backwards, 1000),
    "relations in a recursion, shuffled": (shuffled_recursion, 300),
    "closures": (closures, 300),
    "facts": (facts, 5000),
    "facts of strings": (facts_of_strings, 5000),
    "facts of many relations": (facts_of_many, 1000),
    "literals in a rule": (literals, 200),
    "literals that share a variable": (star, 200),
    "negations": (negations, 1000),
    "aggregates": (aggregates, 100),
    "columns": (columns, 300),
    "comparisons in a rule": (comparisons, 40),
    "alternatives": (disjunction, 200),
    "steps of a path": (path, 80),
    "strings joined": (strings, 90),
    "processes": (processes, 200),
}
"""The shapes by name, and the size that each is measured at."""


def _program(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def main() -> int:
    """Measure the compiler on the shapes that are asked for."""
    parser = argparse.ArgumentParser(description="Measure the compiler on programs as programs write them.")
    parser.add_argument("--shape", action="append", choices=SHAPES, help="only this one; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="what the sizes are multiplied by")
    options = parser.parse_args()
    print("| shape | size | check | compile | peak MB | script MB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for shape in options.shape or SHAPES:
            make, size = SHAPES[shape]
            count = max(int(size * options.scale), 2)
            program = folder / "program.dl"
            program.write_text(make(count), encoding="utf-8")
            target = ("--target", "processes") if shape == "processes" else ()
            check, _ = measured("check", program)
            compiled, peak = measured("compile", program, "-o", folder / shape, *target)
            made = sum(path.stat().st_size for path in (folder / shape).iterdir())
            numbers = f"{check:.1f} | {compiled:.1f} | {peak:,.0f} | {made / 1e6:.1f}"
            print(f"| {shape} | {count:,} | {numbers} |", flush=True)
    return 0


def measured(*command: str | Path) -> tuple[float, float]:
    """The processor seconds of a command of Flintlog, and its peak memory in MB."""
    arguments = [sys.executable, "-m", "flintlog", *map(str, command)]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"flintlog {' '.join(map(str, command))} ended with exit code {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
