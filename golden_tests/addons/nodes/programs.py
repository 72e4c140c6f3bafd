"""Random located programs: what tuples of neighbours say, again and again, with negation, counts and least values."""

from __future__ import annotations

import random
import re

#: The inputs, with their columns; the first one is the address.
INPUTS = {"e": 2, "f": 2, "w": 3}
#: What joins two or three literals of two columns, the address first.
JOINS = (
    ("X", "Y"),
    ("X", "Y", "X", "Z"),
    ("X", "Z", "Z", "Y"),
    ("X", "Z", "Z", "Y"),
    ("X", "Z", "Z", "X"),
    ("Z", "X", "Z", "Y"),
    ("X", "Z", "Z", "W", "W", "Y"),
    ("X", "Y", "X", "Z", "Z", "W"),
)


def located_program(rng: random.Random, address: str = "int") -> str:
    """Return a program of one to three components, each of which reads the inputs, those below it, and itself."""
    lines = [f"input relation e(@a: {address}, b: {address})", f"input relation f(@a: {address}, b: {address})"]
    lines += [f"input relation w(@a: {address}, b: {address}, c: int)"]
    below = ["e", "f"]
    for number in range(rng.choice([1, 1, 1, 2])):
        kind = rng.choice(["plain", "plain", "plain", "least", "path"])
        own = [f"{name}{number}" for name in "pq"[: rng.randint(1, 2)]]
        if kind == "plain":
            made = [rule for name in own for rule in plain_rules(rng, name, own, below)]
            columns = f"@a: {address}, b: {address}"
            read = own
        elif kind == "least":
            own = own[:1]
            witness = rng.choice(["", "", "next", "last", "path"])
            made = witnessed_rules(rng, own[0], below, witness) if witness else least_rules(rng, own[0], below)
            columns = f"@a: {address}, b: {address}, c: int"
            columns += f", h: list<{address}>" if witness == "path" else f", h: {address}" if witness else ""
            beside = ", _" if witness else ""
            made.append(f"near{number}(@X, Y) :- {own[0]}(@X, Y, C{beside}), C < {rng.randint(1, 4)}.")
            lines.append(f"output relation near{number}(@a: {address}, b: {address})")
            read = [f"near{number}"]
        else:
            own = own[:1]
            made = path_rules(rng, own[0], rng.choice(below))
            columns = f"@a: {address}, b: {address}, p: list<{address}>"
            made.append(f"ends{number}(@Y, X) :- {own[0]}(@X, Y, _).")
            lines.append(f"output relation ends{number}(@a: {address}, b: {address})")
            read = [f"ends{number}"]
        lines += [f"output relation {name}({columns})" for name in own]
        if rng.random() < 0.4:
            other = rng.choice(read)
            ranked = ["@X, first<2 by Y desc>, Y", "@Y, first<1>, X"]
            sums = ["@(X + Y), sum<Y>", "@-Y, sum<X>"] if address == "int" else ["@(X ++ Y), count<Y>"]
            extrema = ["@Y, min<X>", f"@(X {'+' if address == 'int' else '++'} Y), max<X>"]
            where = rng.choice(["@X, count<Y>", "@Y, count<X>", "@Y, count<distinct X>", *sums, *extrema, *ranked])
            kind = address if where in extrema else "int"
            last = f", b: {address}" if where in ranked else ""
            lines.append(f"output relation c{number}(@a: {address}, n: {kind}{last})")
            made.append(f"c{number}({where}) :- {other}(@X, Y).")
        lines += made
        below += read
    text = "\n".join(lines) + "\n"
    free = sorted({*INPUTS, *re.findall(r"^output relation (\w+)", text, re.MULTILINE)} - {*re.findall(_LAST, text)})
    return with_addresses_second(text, [name for name in free if rng.random() < 0.3])


#: A head in which no address may be behind the aggregate.
_LAST = re.compile(r"^(c\d+)\([^\n]*?(?:first|min|max)<", re.MULTILINE)
#: An argument of an atom, and a column.
_ARGUMENT = r"(?:@?-?\([^()]*\)|[^(),])+"


def with_addresses_second(text: str, names: list[str]) -> str:
    """Return a program in which the first two columns of some relations are exchanged."""
    atoms = re.compile(rf"\b({'|'.join(names)})\(({_ARGUMENT}), ({_ARGUMENT})(?=[,)])")
    return atoms.sub(r"\1(\3, \2", text) if names else text


def plain_rules(rng: random.Random, name: str, own: list[str], below: list[str]) -> list[str]:
    """Return rules of a relation, one of which starts it."""
    start = rng.choice(["X, Y", "Y, X"])
    rules = [f"{name}(@{start}) :- {rng.choice(below)}(@X, Y)."]
    for _ in range(rng.randint(1, 3)):
        terms = rng.choice(JOINS)
        pairs = [(terms[place], terms[place + 1]) for place in range(0, len(terms), 2)]
        read = [rng.choice([*below[-3:], *own, *own]) for _ in pairs]
        body = [f"{of}(@{a}, {b})" for of, (a, b) in zip(read, pairs, strict=True)]
        bound = sorted(set(terms))
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            place, other = rng.choice(bound), rng.choice([*bound, "_"])
            body.append(f"!{rng.choice(below)}(@{place}, {other})")
        if rng.random() < 0.2:
            body.append(f"{rng.choice(bound)} != {rng.choice(bound)}")
        rules.append(f"{name}(@{rng.choice(bound)}, {rng.choice(bound)}) :- {', '.join(body)}.")
    return rules


def least_rules(rng: random.Random, name: str, below: list[str]) -> list[str]:
    """Return the rules of distances, linear or not."""
    rules = [f"{name}(@X, Y, min<C>) :- w(@X, Y, C)."]
    for _ in range(rng.randint(1, 2)):
        body = rng.choice(
            [
                "w(@X, Z, C1), {0}(@Z, Y, C2)",
                "{0}(@X, Z, C1), w(@Z, Y, C2)",
                "{0}(@X, Z, C1), {0}(@Z, Y, C2)",
            ]
        ).format(name)
        # Two values cannot travel together to where a tuple may be absent.
        linear = body.count(f"{name}(") == 1
        also = (
            f", !{rng.choice(below)}(@{rng.choice('XYZ')}, {rng.choice('XYZ_')})"
            if linear and rng.random() < 0.3
            else ""
        )
        rules.append(f"{name}(@X, Y, min<C>) :- {body}, C = C1 + C2{also}.")
    return rules


def witnessed_program(rng: random.Random, address: str = "int") -> str:
    """Return a program of distances with witnesses."""
    witness = rng.choice(["next", "last", "path"])
    lines = [f"input relation {name}(@a: {address}, b: {address})" for name in "ef"]
    lines.append(f"input relation w(@a: {address}, b: {address}, c: int)")
    kept = f"list<{address}>" if witness == "path" else address
    lines.append(f"output relation p(@a: {address}, b: {address}, c: int, h: {kept})")
    return "\n".join([*lines, *witnessed_rules(rng, "p", ["e", "f"], witness)]) + "\n"


def witnessed_rules(rng: random.Random, name: str, below: list[str], witness: str) -> list[str]:
    """Return the rules of distances with witnesses: the next node, the last one before the end, or the path."""
    first = {"next": "Y", "last": "X", "path": "P"}[witness]
    made = ", P = f_init(X, Y)" if witness == "path" else ""
    rules = [f"{name}(@X, Y, min<C>, {first}) :- w(@X, Y, C){made}."]
    for _ in range(rng.randint(1, 2)):
        body = rng.choice(
            [
                "w(@X, Z, C1), {0}(@Z, Y, C2, H)",
                "{0}(@X, Z, C1, _), {0}(@Z, Y, C2, H)",
                *["{0}(@X, Z, C1, _), w(@Z, Y, C2)"] * (witness != "path"),
            ]
        ).format(name)
        linear = body.count(f"{name}(") == 1
        ends = ", H)" not in body
        # Paths get longer even if links cost nothing; the next node does not depend on how the value is computed.
        value = "C1 + C2 + 1" if witness == "path" else "C1 + C2"
        if witness == "next" and rng.random() < 0.5:
            value = "greatest(C1, C2)"
        given = {"next": "Z", "last": "Z" if ends else "H", "path": "P"}[witness]
        made = ", P = f_concatPath(X, H)" if witness == "path" else ""
        also = (
            f", !{rng.choice(below)}(@{rng.choice('XYZ')}, {rng.choice('XYZ_')})"
            if linear and rng.random() < 0.3
            else ""
        )
        rules.append(f"{name}(@X, Y, min<C>, {given}) :- {body}, C = {value}{made}{also}.")
    return rules


def aggregated_program(rng: random.Random, address: str = "int") -> str:
    """Return a program of a relation that has distinct values or witnesses of tuples at several nodes, and its address
    in any column."""
    lines = [f"input relation {name}(@a: {address}, b: {address})" for name in "ef"]
    lines.append(f"input relation w(@a: {address}, b: {address}, c: int)")
    to, other = rng.sample(["X", "Y"], 2)
    plus = "+" if address == "int" else "++"
    at = rng.choice([f"@{to}", f"@{to}", f"@({to} {plus} {other})"])
    if rng.random() < 0.5:
        further = ["sum<distinct C>", "sum<C>", "max<C>", f"count<{other}>"]
        head = [at, f"count<distinct {other}>", *rng.sample(further, rng.randint(0, 2))]
        if "max<C>" not in head:
            rng.shuffle(head)
    else:
        groups = [at, *rng.choice([[], ["C % 2"], [other]])]
        rng.shuffle(groups)
        head = [*groups, rng.choice(["min<C>", "max<C>"]), rng.choice([other, "C + 1"])]
    kinds = [address if part in (at, other) else "int" for part in head]
    columns = [f"{'@' * (part == at)}{name}: {kind}" for name, part, kind in zip("abcd", head, kinds, strict=False)]
    lines.append(f"output relation c({', '.join(columns)})")
    read = "w"
    if rng.random() < 0.3:
        read = "p"
        lines.append(f"output relation p(@a: {address}, b: {address}, c: int)")
        lines += least_rules(rng, "p", ["e", "f"])
    bodies = ["{0}(@X, Y, C)", "{0}(@Y, X, C)", "e(@X, Z), {0}(@Z, Y, C)", "{0}(@X, Y, C0), C = C0 + 1"]
    for _ in range(rng.choice([1, 1, 2])):
        absent = rng.choice(["", "", f", !f(@{rng.choice('XY')}, {rng.choice('XY_')})"])
        lines.append(f"c({', '.join(head)}) :- {rng.choice(bodies).format(read)}{absent}.")
    return with_addresses_second("\n".join(lines) + "\n", [name for name in INPUTS if rng.random() < 0.3])


def path_rules(rng: random.Random, name: str, step: str) -> list[str]:
    """Return the rules of paths without cycles (Nigam et al. 2012, section 1)."""
    return [
        f"{name}(@X, Y, P) :- {step}(@X, Y), P = f_init(X, Y), X != Y.",
        f"{name}(@X, Y, P) :- {step}(@X, Z), {name}(@Z, Y, P2), f_inPath(P2, X) = false, P = f_concatPath(X, P2).",
    ]
