"""The grammar for editors, in the engine of VS Code: it colours programs as the lexer for Pygments does."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name

from golden_tests.frontend.test_formatter import PROGRAMS
from golden_tests.integrations.environments import ROOT, WANTED, node_modules

PACKAGES = ("vscode-textmate@9.3.2", "vscode-oniguruma@2.0.1")
FOLDER = Path(__file__).parent / "grammar"
GRAMMAR = ROOT / "editors" / "flintlog.tmLanguage.json"

Lines = list[list[tuple[str, str]]]

#: What the lexer calls what the grammar calls by the longest of these names that its scope begins with.
KINDS = {
    "source": "Text.Whitespace",
    "comment": "Comment",
    "constant.character.escape": "Literal.String.Escape",
    "constant.language": "Keyword.Constant",
    "constant.numeric": "Literal.Number",
    "constant.other.date": "Literal.Date",
    "entity.name.function": "Name.Function",
    "entity.name.tag": "Name.Label",
    "entity.name.type": "Name.Class",
    "keyword.declaration": "Keyword.Declaration",
    "keyword.operator": "Operator",
    "keyword.operator.logical": "Operator.Word",
    "keyword.other": "Keyword",
    "punctuation": "Punctuation",
    "storage.type": "Keyword.Type",
    "string.quoted": "Literal.String.Double",
    "support.function.aggregate": "Name.Builtin",
    "variable.other": "Name",
    "variable.parameter": "Name.Attribute",
}


def coloured(programs: Mapping[str, str]) -> dict[str, Lines]:
    """The tokens of some programs by the grammar, line by line: texts and scopes."""
    modules = node_modules(*PACKAGES)
    given = {"grammar": str(GRAMMAR), "modules": str(modules), "programs": dict(programs)}
    done = subprocess.run(
        ["node", FOLDER / "tokens.mjs"], input=json.dumps(given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {
        name: [[(text, scope) for text, scope in line] for line in lines]
        for name, lines in json.loads(done.stdout).items()
    }


@WANTED
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.dl")))
def test_tokens(name: str, update_golden: bool) -> None:
    """The scope of every word, as a reviewer can read them."""
    (lines,) = coloured({name: (FOLDER / f"{name}.dl").read_text(encoding="utf-8")}).values()
    made = "".join(printed(lines))
    golden = FOLDER / f"{name}.txt"
    if update_golden:
        golden.write_text(made, encoding="utf-8")
    assert made == golden.read_text(encoding="utf-8")


def printed(lines: Lines) -> Iterator[str]:
    """A line of a program, and below it its tokens with their scopes, in order."""
    for line in lines:
        text = "".join(token for token, _ in line)
        if text.strip():
            yield f"{text}\n"
            yield from (f"    {token.strip()}  {scope}\n" for token, scope in line if token.strip())


@WANTED
def test_the_grammar_agrees_with_the_lexer() -> None:
    """On every character of all programs of the tests; the grammar reads a line at a time, so that it does not know
    `primary key` when it goes on in another line."""
    programs = {name: text.replace("\r\n", "\n").replace("\r", "\n") for name, text in PROGRAMS.items()}
    programs = {name: re.sub(r"primary\s+key\b", "primary key", text) for name, text in programs.items()}
    differences: dict[tuple[str, str], str] = {}
    for name, lines in coloured(programs).items():
        by_grammar = [
            (char, kind(scope)) for line in lines for text, scope in [*line, ("\n", "source")] for char in text
        ]
        by_lexer = lexed(programs[name] + "\n")
        assert [char for char, _ in by_grammar] == [char for char, _ in by_lexer]
        for place, ((char, one), (_, other)) in enumerate(zip(by_grammar, by_lexer, strict=True)):
            if char.strip() and one != other:
                number = programs[name].count("\n", 0, place)
                differences.setdefault((one, other), f"{name}: {programs[name].splitlines()[number]}, at {char}")
    assert differences == {}


def kind(scope: str) -> str:
    """What the lexer calls a scope."""
    return KINDS[max((name for name in KINDS if f"{scope}.".startswith(f"{name}.")), key=len)]


def lexed(text: str) -> list[tuple[str, str]]:
    """The characters of a program with what the lexer says they are, in the words of :data:`KINDS`."""
    lexer = get_lexer_by_name("flintlog", stripnl=False, ensurenl=False)
    found = []
    for token, part in lexer.get_tokens(text):
        name = str(token).removeprefix("Token.")
        for general in ("Comment", "Literal.Number"):
            name = general if name.startswith(general) else name
        found += [(char, name) for char in part]
    return found
