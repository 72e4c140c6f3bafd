"""Every page: its commands print what stands below them, and its programs compile."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flintlog.compiler import CompileOptions, compile_process_files, compile_source
from flintlog.compiler.diagnostics import CompileError
from flintlog.compiler.source import SourceFile

from golden_tests.documentation.pages import COMMAND, PAGES, ROOT, follow, pieces
from golden_tests.nightly import AT_NIGHT, by_day

#: Pages whose commands run in the repository, because they use its files.
IN_REPOSITORY = ("docs/review.md",)

#: The tutorial is followed by golden_tests/integrations/test_tutorial.py, in processes of its own.
ELSEWHERE = ("docs/tutorial.md",)

#: Guides whose commands run at night. By day those of three other guides run, one of which has tables.
LONG = [
    f"docs/guides/{name}.md" for name in ("blast_radius", "fraud_rings", "lineage", "routing_tables", "stable_entities")
]

UNFORMATTED = CompileOptions(format=False)


@by_day(12)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=AT_NIGHT if name in LONG else ()) for name in PAGES if name not in ELSEWHERE]
)
def test_commands(name: str, tmp_path: Path, update_golden: bool, request: pytest.FixtureRequest) -> None:
    """What stands below a command is what it prints, on a page that has commands."""
    page = (ROOT / name).read_text(encoding="utf-8")
    if not any(piece.language == "console" for piece in pieces(page)):
        assert not COMMAND.search(page)
        return
    if re.search(r"^\$ .*\bspark-submit \S+\.py ", page, re.MULTILINE):
        request.getfixturevalue("spark")
    made, ran = follow(page, ROOT if name in IN_REPOSITORY else tmp_path)
    if update_golden:
        (ROOT / name).write_text(made, encoding="utf-8")
        page = made
    assert ran
    assert made == page


@pytest.mark.parametrize("name", [name for name in PAGES if name not in ELSEWHERE])
def test_blocks(name: str) -> None:
    """A program compiles; commands that no test runs say why; readers see which file a block is."""
    page = (ROOT / name).read_text(encoding="utf-8")
    wrong = [f"{name}: write **`{file}`** above the block" for file in re.findall(r"<!-- file: (.*?) -->", page)]
    for piece in pieces(page):
        if piece.language == "datalog" and piece.mark in ("", "with"):
            text = f"{piece.what}\n{piece.text}" if piece.mark else piece.text
            source = SourceFile(f"{Path(name).name}_{piece.line}.dl", text)
            try:
                if re.search(r"^process ", text, re.MULTILINE):
                    compile_process_files([source], UNFORMATTED)
                else:
                    compile_source(source, UNFORMATTED)
            except CompileError as error:
                wrong.append(f"{name}:{piece.line}: {error}")
        if piece.language in ("sh", "") and piece.mark != "not run":
            wrong.append(f"{name}:{piece.line}: say in <!-- not run: REASON --> why no test runs these commands")
    assert not wrong, "\n".join(wrong)
