"""Nothing that the frontends for Soufflé and NDlog read is left out without a word, except for what is listed here."""

from __future__ import annotations

import pytest
from flintlog.compiler.frontend import statement_grammar
from flintlog.compiler.frontend.ndlog import reader as ndlog
from flintlog.compiler.frontend.souffle import parser as souffle

from .dropping import Hook, constructs, rules_of, unnoticed

#: Programs for each dialect, with blank lines between them, that have all constructs that are not refused.
PROGRAMS = {
    "ndlog": """
materialize(link, infinity, infinity, keys(1, 2:str)).
materialize(hub, infinity, 1, keys(1)).
materialize(far, infinity, infinity, keys(1, 2)).
materialize(p, infinity, infinity, keys()).
watch(hub). watch(far). watchmod(p, "ad").
r1-a: hub(@X, a_COUNT<*>) :- link(@X, Y, C, L).
r2 far(@X, Y, a_MIN<C>) :- link(@X, Z, C1, L), link(@Z, Y, C2, [Z, _]), C := C1 + 2 * C2 - (C1 % 2), !hub(@Y, 1),
  (C1 < 7 && C2 > -3 || !(C1 == 2) && f_size(L) >= 1 || C1 / 2 <> 3 || !link(@Y, X, 1, L)), -C1 <= 3.
r3 p@1 :- link(@10.1.1.1, "b", 0x1f, [a, B]), B != a, 1.5 > 0.5, f_member([a], B) == 1.
link(@n1, "n2", 1, ["n2", n3]).
link(@n2, n3, -4, []).
""",
    "souffle": """
.type City <: symbol
.type Place = City | Town
.type Town <: symbol
.decl train(src: City, dst: Place) btree
.input train(IO=file, filename="trains.txt", delimiter=";", headers=true)
.decl reach, other(src: City, dst: City)
.output reach(filename="reach.txt"), other
reach(x, y), other(y, x) :- train(x, y).
reach(x, z) :- reach(x, y), train(y, z), !(train(x, "Bonn") ; x = y), !!train(_, z), x != "a\\tb".
.plan 0:(2,1), 1:(1,2)

.pragma "legacy"
.decl train(x: symbol, y: symbol)
.decl cost(x: symbol, n: number)
.output cost
cost(x, 0b11 + 2 * 3 - 7 / 2 % 2 ^ 2) :- train(x, _), (match("B.*", x) ; contains("n", x)), true.
cost(x, m) :- cost(x, n), m = n - -1, n < 9, n <= 8, n > -4, n >= 0x1.
cost(x, a) <= cost(x, b) :- b < a.

.decl cost(x: symbol, n: number)
.decl total(x: symbol, n: number, f: float, s: symbol, u: unsigned)
.output total
total(x, n, to_float(m), cat(to_string(n), "-"), 3u) :-
  cost(x, _), n = sum c + 1 : { cost(x, c), c > 1 }, m = count : cost(x, _), 1 < max c : { cost(x, c) },
  min(n, m) < max(n, 10.1.0.1), mean c : cost(x, c) < 2.5.

.symbol_type Old
.number_type Count
.type Pair = [a: number, next: Pair]
.decl same(x: number, y: number) eqrel
.printsize same
.decl pair(p: Pair)
.output pair
pair([1, [2, nil]]). pair([x, [as(y, number), r]]) :- same(x, y), pair([x, r]), r != nil.
same(1, 2). same(3, 4).
.once

.decl reach(x: symbol)
.comp Base<T> { .decl seen(x: T) overridable .decl kept(x: T) }
.comp Closed<T> : Base<T> { .override seen seen(x) :- kept(x), kept(x). }
.init closed = Closed<symbol>
closed.kept(x) :- reach(x).
.output closed.seen
""",
}
HOOKS = {
    "ndlog": lambda: Hook(statement_grammar.Grammar, "parse"),
    "souffle": lambda: Hook(souffle._SouffleStatements, "_tree", ("next",)),
}
GRAMMARS = {"ndlog": lambda: statement_grammar.parser_of(ndlog._GRAMMAR.path, "statement"), "souffle": souffle._parser}
#: Tokens that their rule always has.
SIGNS = {
    "ndlog": """AND AT BANG COLON COMMA DOT GREATER IF KEYS LESS LPAR LSQB MATERIALIZE MINUS OR RPAR RSQB STAR WATCH
        WILDCARD""",
    "souffle": """BANG CLOSE COMP DECL END EQUALS GREATER IF LESS LESS_EQUAL NIL OPEN PLAN PRAGMA SUBTYPE UNDERSCORE
        INIT OVERRIDE TYPE SYMBOL_TYPE AS ONCE""",
}
#: What changes no results, and why.
IGNORED = {
    "ndlog": {
        "materialize key": "the location is part of each key",
        "materialize key NAME": "a type that the program shows in other places",
        "watch STRING": "which events of a tuple `watchmod` prints",
    },
    "souffle": {
        "declaration tag": "`btree`, `brie`, `magic` and the like say how a relation is stored and evaluated",
        "plan order": "the order of joins",
        "plan order NUMBER": "the order of joins",
        "pragma STRING": "options of Soufflé itself",
        "union name": "all parts of a union have one base",
        "disjunction conjunction truth": "`true` in a body",
        "directive directed option": "`IO=file`, as it is without it",
    },
}
#: Constructs that are refused, and thus have no tree in a program without errors; and files that are included.
REFUSED = {
    "ndlog": set(),
    "souffle": {
        *("branch", "choice", "closing", "counter", "delta_declaration", "functor", "key", "lattice", "parameter"),
        *("user_aggregate", "user_functor", "variant", "variants", "include"),
    },
}


@pytest.mark.parametrize("dialect", PROGRAMS)
def test_nothing_is_dropped(dialect: str) -> None:
    """A part of a program makes a difference, or it is one of those that are ignored on purpose."""
    found = unnoticed(dialect, PROGRAMS[dialect].split("\n\n"), HOOKS[dialect](), SIGNS[dialect].split())
    assert set(found) == set(IGNORED[dialect])


@pytest.mark.parametrize("dialect", PROGRAMS)
def test_all_constructs(dialect: str) -> None:
    """The programs have every construct of the grammars that is not refused."""
    found = constructs(dialect, PROGRAMS[dialect].split("\n\n"), HOOKS[dialect]())
    assert rules_of(GRAMMARS[dialect]) - found == REFUSED[dialect]
