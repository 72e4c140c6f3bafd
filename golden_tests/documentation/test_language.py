"""docs/language.md: its grammar is the one that the compiler reads, and it names every code of the language."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CODES, Diagnostics
from flintlog.compiler.diagnostics.index import sections
from flintlog.compiler.dialects import DIALECTS
from flintlog.compiler.frontend import read_program
from flintlog.compiler.frontend.parser import _parser
from flintlog.compiler.frontend.words import KEYWORDS, ORDER_WORDS
from flintlog.compiler.source import SourceFile
from lark import Lark
from lark.exceptions import LarkError
from lark.lexer import PatternStr

from golden_tests.documentation.pages import ROOT, pieces
from golden_tests.frontend.test_mutations import mutated
from golden_tests.nightly import AT_NIGHT, by_day, one_in

PAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")

PROGRAMS = [
    *sorted(ROOT.glob("golden_tests/cases/*/program.dl")),
    *sorted(ROOT.glob("golden_tests/frontend/programs/*/program.dl")),
    *sorted(ROOT.glob("examples/**/*.dl")),
]

#: What syntax is to the reader and not to the grammar: dates and times of the calendar, files that are included, where
#: `@` and a domain's variable may stand, numbers that are too large, how many a `first` keeps, nesting that is
#: too deep, and words that stand twice.
NOT_GRAMMAR = {"E0109", "E0117", "E0118", "E0119", "E0120", "E0121", "E0307", "E0526", "E0711"}
TWICE = "is repeated in this declaration"

#: A string, a class of characters, a name, or an operator of the notation.
PART = re.compile(r"""("[^"\n]*"|'[^'\n]*')|(\[[^\n\]]*\])|([A-Za-z_]+|[()|*+?]|\s+)|(::=)|(.)""")

#: What the page says behind the grammar, and that words and numbers end where no more letters follow.
RESERVED = r"(?!(?:not|true|false)(?![A-Za-z0-9_]))"
NAME = "[A-Za-z_][A-Za-z0-9_]*"
TERMINALS = {
    "END": r"\.(?=\s|\/\/|\/\*|\Z)",
    "NAME": rf"{RESERVED}{NAME}",
    "RELATION": rf"{RESERVED}(?!_(?![A-Za-z0-9_]))(?!(?:relation|input|derived)(\s|\/\/.*)+[A-Za-z_]){NAME}(\.{NAME})*",
    "INT": r"[0-9]+(?![A-Za-z0-9_])",
}
#: A word in an aggregate that the grammar alone takes for a variable too.
DISTINCT = re.compile(r"<\s*distinct\s*[^\s\w>]")
IGNORED = r"""
COMMENT: /\/\/[^\n]*|\/\*(.|\n)*?\*\//
SPACE: /\s+/
%ignore COMMENT
%ignore SPACE
"""


def shown_grammar() -> str:
    """The grammar as the page has it."""
    found = re.search(r"<!-- grammar -->\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def shown_words() -> set[str]:
    """The words and operators of the grammar: the strings of its rules that are written in small letters."""
    rules = re.findall(r"^[a-z_]+ +::=(.*)$", shown_grammar(), re.MULTILINE)
    return {word for rule in rules for word in re.findall(r'"([^"]*)"', rule)}


@cache
def page_parser() -> Lark:
    """The grammar of the page in the notation of Lark, which reads whole programs by it, ambiguous or not."""
    rules = []
    for part in PART.finditer(shown_grammar()):
        string, characters, same, defined, other = part.groups()
        assert not other, other
        if string and re.fullmatch("[a-z]+", string[1:-1]):
            rules.append(f"/{string[1:-1]}(?![A-Za-z0-9_])/")
        elif string:
            rules.append('"' + string[1:-1].replace("\\", "\\\\").replace('"', '\\"') + '"')
        elif characters:
            rules.append("/" + characters.replace("\\", "\\\\").replace("#xA", "\\n") + "/")
        else:
            rules.append(":" if defined else same)
    text = "".join(rules)
    for name, pattern in TERMINALS.items():
        before, line, after = re.split(rf"^({name} +:.*)$", text, maxsplit=1, flags=re.MULTILINE)
        text = f"{before}{line.partition(':')[0]}: /{pattern}/{after}"
    return Lark(text + IGNORED, start="program", parser="earley", lexer="dynamic")


def page_reads(text: str) -> bool:
    """Whether a program follows the grammar of the page."""
    try:
        page_parser().parse(text)
    except LarkError:
        return False
    return True


def syntax_errors(text: str) -> tuple[list[str], bool]:
    """What the compiler finds wrong with a program as the grammar says it, and whether there is more."""
    diagnostics = Diagnostics()
    read_program(SourceFile("program.dl", text), diagnostics)
    found = [item for item in diagnostics.items if item.code not in NOT_GRAMMAR and not item.message.endswith(TWICE)]
    wrong = [f"{item.span}: {item.message}" for item in found]
    return wrong, len(wrong) < len(diagnostics.items)


def test_words_and_operators_are_those_of_the_compiler() -> None:
    """Every keyword and every operator that the compiler knows stands in the grammar, and no other."""
    operators = {t.pattern.value for t in _parser().terminals if isinstance(t.pattern, PatternStr) and t.name != "DOT"}
    assert shown_words() == operators | set(KEYWORDS) | set(ORDER_WORDS) | {"{", "}"}


@by_day(12)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_follow_the_grammar(path: Path) -> None:
    """A program that compiles follows the grammar of the page."""
    page_parser().parse(path.read_text(encoding="utf-8"))


@AT_NIGHT
def test_examples_of_errors_follow_the_grammar_or_not() -> None:
    """What breaks the syntax in an explanation breaks the grammar of the page; what mends it follows it."""
    for code, text in sections().items():
        given = [piece for piece in pieces(text) if piece.language in ("datalog", *DIALECTS)]
        wrong, mended = given[0], [piece.text for piece in given[1:] if piece.language == "datalog"]
        if wrong.language == "datalog":
            assert page_reads(wrong.text) == (not syntax_errors(wrong.text)[0]), code
        assert all(map(page_reads, mended)), code


@AT_NIGHT
@pytest.mark.parametrize("seed", one_in(range(4), 4))
def test_mutated_programs_follow_the_grammar_or_not(seed: int) -> None:
    """What the compiler reads is what follows the grammar, in programs with something missing, doubled or exchanged."""
    rng = random.Random(seed)
    for text in (mutated(rng) for _ in range(150)):
        wrong, more = syntax_errors(text)
        if len(text) < 3000 and (wrong or not more) and not DISTINCT.search(text):
            assert page_reads(text) == (not wrong), f"{wrong}\n{text}"


def test_every_code_is_linked() -> None:
    """A reader finds where each code belongs; those of command files are no matter of the language, and those of
    dialects stand on their pages."""
    codes = [
        code
        for code in CODES
        if not code.startswith(
            ("E075", "E076", "E077", "E078", "E079", "W0811", "W0812", "W0813", "W0814", "E09", "W09")
        )
    ]
    assert [code for code in codes if f"[{code}](errors.md#{code.lower()})" not in PAGE] == []
