"""DDlog: what a program says is never left out without a word.

Each token and each part of the programs is removed in turn, and others are added. The program must be another one then,
or be refused, unless it is told (W0811, W0812) or known that the part has no effect.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from flintlog.compiler.diagnostics import Diagnostics
from flintlog.compiler.frontend.ddlog.grammar import GRAMMAR
from flintlog.compiler.frontend.ddlog.library import IDENTITIES
from flintlog.compiler.frontend.ddlog.reader import read
from flintlog.compiler.frontend.ddlog.tokens import tokens
from flintlog.compiler.frontend.statement_grammar import Grammar, Node, tokens_in
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.source import SourceFile
from lark import Lark

from golden_tests.nightly import NIGHTLY, START
from golden_tests.packed import Case, loader

from .test_ddlog import PROGRAMS

#: A change: what is changed, the places between which it is, and the text in their place.
Change = tuple[str, int, int, str]

EXTERNAL = """extern function len_of(s: string, n: u8): u8
input relation S(s: string)
output relation R(n: u8)
R(len_of(s, 1)) :- S(s), len_of(s, 2) <= 9.
"""
CASES = [*PROGRAMS, Case("external_function", "a function of Python", EXTERNAL)]
#: How many changes of a program are tried by day.
FEW = 12
OPENING, CLOSING = ("LPAR", "LSQB", "LBRACE", "LESS"), ("RPAR", "RSQB", "RBRACE", "GREATER")
#: Repeated in a list, separated by commas.
LISTED = ("argument", "by_name", "field", "constructor")


def outcome(case: Case, text: str) -> tuple[str | None, Diagnostics]:
    """Return a program in Flintlog's language, None if it is refused, and what is reported."""
    files, diagnostics = loader(case), Diagnostics()

    def load(name: str) -> SourceFile | None:
        found = files(name)
        return None if found is None else SourceFile(name, found)

    program = read(SourceFile("program.ddlog", text), diagnostics, load)
    return None if diagnostics.failed else syntax_text(program), diagnostics


def trees_of(case: Case, patch: pytest.MonkeyPatch) -> list[Node]:
    """Return the parse trees of the statements of the main file."""
    parse, found = Grammar.parse, []

    def kept(grammar: Grammar, source: SourceFile, *arguments: object) -> Node | int:
        tree: Node | int = parse(grammar, source, *arguments)  # type: ignore[arg-type]
        if not isinstance(tree, int) and source.text == case.program and tree.data != "embedded":
            found.append(tree)
        return tree

    patch.setattr(Grammar, "parse", kept)
    outcome(case, case.program)
    patch.undo()
    return found


def changes_of(case: Case, trees: list[Node]) -> Iterator[Change]:
    """Yield the changes to try."""
    text = case.program
    last = ""
    for token in tokens(SourceFile("program.ddlog", text), Diagnostics()):
        kind, start, end = token.type, token.start_pos or 0, token.end_pos or 0
        yield kind, start, end, ""
        if kind in ("UPPER", "LOWER") and last not in ("SCOPED", "DOT"):
            yield "elsewhere", start, start, "elsewhere::"
        if kind == "UPPER":
            yield "BITAND", start, start, "&"
        if kind in CLOSING:
            yield "added", start, start, "3" if last in OPENING else ", 3"
        last = kind
    for tree in trees:
        for part in tree.iter_subtrees():
            start, end = part.meta.start_pos, part.meta.end_pos
            yield str(part.data), start, end, ""
            if part.data in LISTED:
                yield "repeated", end, end, f", {text[start:end]}"
        yield "repeated", tree.meta.end_pos, tree.meta.end_pos, f"\n{text[tree.meta.start_pos : tree.meta.end_pos]}"


def has_no_effect(change: Change, text: str, diagnostics: Diagnostics) -> bool:
    """Return whether it is known or told that a change makes no difference."""
    kind, start, end, _ = change
    removed = text[start:end]
    for item in diagnostics.items:
        line = sum(map(len, text.splitlines(keepends=True)[: item.span.line - 1]))
        first = line + item.span.column - 1 if item.code == "W0811" else line
        stop = first + item.span.length if item.code == "W0811" else text.index("\n", line)
        if first <= start and end <= stop:
            return True
    return (
        # New variables of patterns need no `var`; fields without a pattern match anything, as does `_`.
        kind == "VAR"
        or removed == "_"
        # A prefix that no other module makes necessary.
        or (kind == "SCOPED" and removed in ("net::", "names::"))
        # References and interned values are the values themselves.
        or kind == "BITAND"
        or removed in IDENTITIES
        # What is counted: the ways to find a value are as many as those to find it with a constant.
        or (kind == "added" and text[end:].startswith(").group_by(()).count()"))
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_changes(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without one of its parts, or with one more, is another one."""
    whole, diagnostics = outcome(case, case.program)
    changes = sorted(set(changes_of(case, trees_of(case, monkeypatch))))
    if not NIGHTLY:
        changes = random.Random(START).sample(changes, FEW)
    assert whole is not None
    for change in changes:
        _, start, end, text = change
        changed = case.program[:start] + text + case.program[end:]
        if outcome(case, changed)[0] == whole:
            assert has_no_effect(change, case.program, diagnostics), changed


def test_all_constructs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs have all constructs of the grammar, and all of its tokens."""
    trees = [tree for case in CASES for tree in trees_of(case, monkeypatch)]
    grammar = Lark.open(str(GRAMMAR.path), start="statement", parser="lalr")
    names = {str(rule.alias or rule.origin.name) for rule in grammar.rules if rule.alias or not rule.options.expand1}
    words = {symbol.name for rule in grammar.rules for symbol in rule.expansion if symbol.is_term}
    parts = [part for tree in trees for part in tree.iter_subtrees()]
    found = {str(part.data) for part in parts}
    # `~`, `|` and `^` of numbers are refused, and what is in strings is read where they are translated.
    assert {name for name in names - found if not name.startswith("_")} == {"embedded", "complement"}
    assert words - {token.type for part in parts for token in tokens_in(part)} == {"EMBEDDED", "TILDE", "CARET"}
