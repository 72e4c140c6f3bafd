"""The explanations of codes: a section for every code, whose examples give what it says.

In a section, the blocks of a program in front of the output are the wrong program, those behind it the mended one. A
block that names a file is that file, in the encoding behind the name if there is one; the others are ``program.dl``.
Where there is a ``changes.dat``, its commands are replayed; the mended ones may be for the same program.
``--update-golden`` writes outputs anew, and the tables of ``docs/errors.md``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from flintlog.compiler.diagnostics import CODES, CompileError, Diagnostic, Diagnostics, render
from flintlog.compiler.diagnostics.index import PAGE, groups, plain, sections, tables
from flintlog.compiler.dialects import DIALECTS
from flintlog.compiler.frontend.reader import MOST_CHARACTERS
from flintlog.compiler.nodes import compile_nodes
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.processes import compile_any, compile_processes
from flintlog.local.dat.reader import Reader
from flintlog.local.dat.replay import Replay
from flintlog.local.session import RowSession
from flintlog.runtime.row_kernel.model import RowProgram
from flintlog.targets.database.lower import lower_rows

from golden_tests.frontend.golden import front, rendered

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)(?: ([^ \n]+))?(?: ([^ \n]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXPLANATIONS = ROOT / "compiler" / "diagnostics" / "explanations"
GROUPS = {
    "Syntax": "E01",
    "Names and declarations": "E02",
    "Types": "E03",
    "Safety": "E04",
    "Strata and aggregates": "E05",
    "Locations": "E06",
    "Not supported by this version": "E070 E071",
    "Processes": "E073 E074",
    "NDlog": "E075",
    "Soufflé": "E076 E077",
    "DDlog": "E078",
    "SQL": "E079",
    "Command files": "E09",
    "Warnings": "W0",
}
#: The examples of these codes are compiled with another ``--recursion``.
RECURSION = {"E0504": "derivation-sets"}


@dataclass(frozen=True)
class Section:
    """The wrong program and the mended one as files, and the output between them."""

    title: str
    wrong: dict[str, bytes]
    output: str
    mended: dict[str, bytes]


def section(code: str) -> Section:
    """Take the section of a code apart."""
    text = sections()[code]
    title = re.match(r"\*\*(.*)\*\*\n", text)
    assert title, "the title is missing"
    blocks = list(BLOCK.finditer(text))
    (place,) = (place for place, block in enumerate(blocks) if block[1] == "text")
    assert all(block[1] in ("datalog", "dat", *DIALECTS) for block in blocks[:place] + blocks[place + 1 :])
    wrong, mended = files(blocks[:place]), files(blocks[place + 1 :])
    if "changes.dat" in mended:
        mended = {"program.dl": wrong["program.dl"], **mended}
    assert main_of(wrong) and main_of(mended)
    return Section(title[1], wrong, blocks[place][4], mended)


def files(blocks: list[re.Match[str]]) -> dict[str, bytes]:
    """The files of a program."""
    found = {block[2] or f"program{suffix_of(block[1])}": block[4].encode(block[3] or "utf-8") for block in blocks}
    assert len(found) == len(blocks)
    return found


def main_of(program: dict[str, bytes]) -> str:
    """The name of the main file, which says its language."""
    (name,) = (name for name in program if name.startswith("program."))
    return name


def suffix_of(language: str) -> str:
    """The suffix of programs in the language of a block."""
    return DIALECTS[language].suffixes[0] if language in DIALECTS else ".dl"


def written(program: dict[str, bytes], folder: Path) -> Path:
    """Write the files of a program into a folder, and return the main one."""
    for name, content in program.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder / main_of(program)


def reported(code: str, program: dict[str, bytes], folder: Path) -> tuple[tuple[Diagnostic, ...], str]:
    """What the compiler says about the program of a code, or a replay about its commands, and how that is printed."""
    main = written(program, folder)
    if code == "E0126" and "input" not in main.read_text(encoding="utf-8"):
        with main.open("a", encoding="utf-8") as file:
            file.write("\n" * MOST_CHARACTERS)
    if code == "E0127" and "links.dl" not in program:
        (folder / "links.dl").symlink_to("links.dl")
    try:
        if code == "E0734":
            items = compile_processes([main, folder / "S1.dl"]).warnings
        elif code == "E0740":
            items = compile_nodes(main).warnings
        elif code == "E0704" or "changes.dat" in program:
            compilation = compile_program(main)
            items = compilation.warnings
        else:
            items = compile_any(main, recursion=RECURSION.get(code, "ranks")).warnings
    except CompileError as error:
        items = error.diagnostics
    else:
        if "changes.dat" in program:
            assert not items
            return replayed(lower_rows(compilation.plan), folder / "changes.dat")
    return items, rendered(Diagnostics(list(items)), front(main)[0])


def replayed(program: RowProgram, commands: Path) -> tuple[tuple[Diagnostic, ...], str]:
    """What is said about commands for a program."""
    with commands.open("rb") as lines:
        reader = Reader(commands.name, lines)
        running = Replay(RowSession(program), reader, lambda line: None)
        errors: list[CompileError] = []
        running.run_all(lambda error: bool(errors.append(error)))
        error = errors[0] if errors else running.unfinished()
    if error is None:
        return (), ""
    sources = {source.name: source for source in error.sources}
    return error.diagnostics, "".join(render(item, sources) + "\n" for item in error.diagnostics)


def rewrite(code: str, output: str) -> None:
    """Put an output into the explanation of a code."""
    (file,) = (file for file in EXPLANATIONS.glob("*.txt") if f"==== {code}\n" in file.read_text(encoding="utf-8"))
    before, mark, after = file.read_text(encoding="utf-8").partition(f"==== {code}\n")
    after = re.sub(r"(?<=^---- text\n).*?(?=^---- )", lambda _: output, after, count=1, flags=re.MULTILINE | re.DOTALL)
    file.write_text(before + mark + after, encoding="utf-8")
    groups.cache_clear()
    sections.cache_clear()


@pytest.mark.parametrize("code", CODES)
def test_examples(code: str, tmp_path: Path, update_golden: bool) -> None:
    """The wrong program gives this code and no other, the mended one nothing at all."""
    found = section(code)
    items, output = reported(code, found.wrong, tmp_path / "wrong")
    if update_golden:
        rewrite(code, output)
        found = section(code)
    assert found.title == CODES[code]
    assert {item.code for item in items} == {code}, output
    assert found.output == output
    assert reported(code, found.mended, tmp_path / "mended")[1] == ""


def test_every_code_has_its_section() -> None:
    """In the order of the codes, under the heading of its group; no section is left over."""
    expected = {
        group: [code for code in CODES if code.startswith(tuple(prefix.split()))] for group, prefix in GROUPS.items()
    }
    assert {group: [*of_group] for group, (_, of_group) in groups().items()} == expected
    assert list(sections()) == list(CODES)


def test_tables(update_golden: bool) -> None:
    """The page has them behind its introduction."""
    page = ROOT / "docs" / PAGE
    introduction, mark, rest = page.read_text(encoding="utf-8").partition("## ")
    if update_golden:
        page.write_text(introduction + tables(), encoding="utf-8")
    else:
        assert mark + rest == tables()


def test_plain_text_of_a_section() -> None:
    """For the terminal: no marks of Markdown, programs indented, files named."""
    text = plain("E0119")
    assert text.startswith("E0119: A program file is not UTF-8.\n\nHere `cities.dl` was saved")
    assert '\ncities.dl:\n\n    input relation city(name: string)\n    abroad(X) :- city(X), X != "Orléans".\n' in text
    assert "\n    error[E0119]: `cities.dl` is not UTF-8 text\n      --> program.dl:1:9\n" in text
    assert not any("```" in plain(code) or "**" in plain(code) for code in CODES)
