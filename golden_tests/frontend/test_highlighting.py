"""Colours: the lexer for Pygments and the grammar of editors know the compiler's words, and read all programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flintlog.compiler.editor import highlighting
from flintlog.compiler.frontend import parser
from flintlog.compiler.frontend.words import KEYWORDS, ORDER_WORDS
from flintlog.compiler.passes.declarations import TYPE_NAMES
from flintlog.compiler.passes.resolve import AGGREGATE_FUNCTIONS
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.token import Error, Token

from golden_tests.frontend.test_formatter import PROGRAMS

EDITORS = Path(__file__).parents[2] / "editors"
GRAMMAR = json.loads((EDITORS / "flintlog.tmLanguage.json").read_text(encoding="utf-8"))
SAMPLE = """\
typedef Money = decimal(12,2)
input relation input(@key: int, price: Money, tags: list<string>) primary key (key)
r-1: p(X, min<C>, count<distinct X>) :- S1.b+(X, C), not c(X), X != 1.5. // "comment"
"""


def tokens(text: str) -> list[tuple[Any, str]]:
    """The tokens of a text."""
    return list(get_lexer_by_name("flintlog", stripnl=False, ensurenl=False).get_tokens(text))


def expressions(node: object) -> Iterator[str]:
    """The regular expressions of a grammar."""
    if isinstance(node, dict):
        yield from (node[name] for name in ("match", "begin", "end", "while") if name in node)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from expressions(child)


def names(node: object) -> Iterator[str]:
    """What a grammar includes."""
    if isinstance(node, dict) and "include" in node:
        yield node["include"]
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from names(child)


def alternatives(*marks: str) -> list[list[str]]:
    """The words of those expressions of the grammar that hold some words."""
    found = [group.split("|") for text in expressions(GRAMMAR) for group in re.findall(r"\(\?:([a-zA-Z|]+)\)", text)]
    return [words for words in found if set(marks) <= set(words)]


def test_words_are_those_of_the_compiler() -> None:
    """No list can drift from another one."""
    lexer = highlighting
    ours = {*lexer.DECLARING, *lexer.TRAILING, *lexer.NEGATING, *lexer.CONSTANTS}
    marks = {"DECLARE", "OPEN", "CLOSE", "LABEL", "POSTFIX", "AGGREGATE_OPEN", "AGGREGATE_STAR", "AGGREGATE_CLOSE"}
    marks |= {"LIMIT"}
    declared = {str(name) for name in re.findall(r"^%declare (.*)$", grammar(), re.MULTILINE) for name in name.split()}
    named = {"input", "derived", "multiset", "relation", "null"}
    assert {name.lower() for name in declared - marks} | named == {*KEYWORDS, *ORDER_WORDS} == {*ours, *lexer.ORDERING}
    assert set(lexer.TYPES) == set(TYPE_NAMES)
    assert set(lexer.AGGREGATES) == set(AGGREGATE_FUNCTIONS)


def grammar() -> str:
    """The text of the compiler's grammar."""
    return Path(parser.__file__).with_name("flintlog.lark").read_text(encoding="utf-8")


def test_words_of_the_editors_are_those_of_the_lexer() -> None:
    """The lists of the grammar for editors."""
    (declaring,) = alternatives("input", "relation")
    (constants,) = alternatives("true")
    (aggregates,) = alternatives("count")
    assert tuple(declaring) == highlighting.DECLARING
    assert tuple(constants) == highlighting.CONSTANTS
    lower = highlighting.AGGREGATES
    assert aggregates == [*lower, *map(str.upper, lower)]
    assert [tuple(types) for types in alternatives("decimal")] == [highlighting.TYPES] * 2
    texts = " ".join(expressions(GRAMMAR))
    for word in (*highlighting.TRAILING, *highlighting.NEGATING):
        assert re.search(rf"(\\b|\W){word}(\\b|\W)", texts), word


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_lexer_reads_programs(name: str) -> None:
    """Nothing is an error, and nothing is lost."""
    found = tokens(PROGRAMS[name])
    assert "".join(text for _, text in found) == PROGRAMS[name]
    assert [text for kind, text in found if kind in Error] == []


def test_lexer_is_found_by_name_and_file() -> None:
    """Pygments knows it once Flintlog is installed."""
    assert isinstance(get_lexer_for_filename("reach.dl"), highlighting.FlintlogLexer)
    assert get_lexer_by_name("flintlog").name == "Flintlog"


def test_lexer_tells_words_from_names() -> None:
    """A word is a keyword only where the language gives it a meaning."""
    kinds: dict[str, list[str]] = {}
    for kind, text in tokens(SAMPLE):
        kinds.setdefault(str(kind).removeprefix("Token."), []).append(text)
    assert kinds["Keyword.Declaration"] == ["typedef", "input", "relation", "primary", "key"]
    assert kinds["Keyword.Type"] == ["decimal", "int", "list", "string"]
    assert kinds["Name.Label"] == ["r-1"]
    assert kinds["Name.Attribute"] == ["key", "price", "tags"]
    assert kinds["Name.Function"] == ["input", "p", "c"]
    assert kinds["Name.Builtin"] == ["min", "count"]
    assert kinds["Operator.Word"] == ["not"]
    assert kinds["Comment.Single"] == ['// "comment"']
    assert Token.Error not in kinds


def test_grammar_of_editors() -> None:
    """Expressions that Python's ``re`` reads as well, and only includes that are there."""
    for text in expressions(GRAMMAR):
        re.compile(text)
    assert {name.removeprefix("#") for name in names(GRAMMAR)} == set(GRAMMAR["repository"])
    assert GRAMMAR["scopeName"] == "source.flintlog"


def test_extension_names_its_files() -> None:
    """What ``package.json`` points at is there, and is JSON."""
    package = json.loads((EDITORS / "package.json").read_text(encoding="utf-8"))
    (language,) = package["contributes"]["languages"]
    (entry,) = package["contributes"]["grammars"]
    assert (EDITORS / entry["path"]).name == "flintlog.tmLanguage.json"
    assert entry["scopeName"] == GRAMMAR["scopeName"]
    assert (language["id"], language["extensions"]) == (entry["language"], [".dl"])
    configuration = json.loads((EDITORS / language["configuration"]).read_text(encoding="utf-8"))
    assert configuration["comments"] == {"lineComment": "//", "blockComment": ["/*", "*/"]}
