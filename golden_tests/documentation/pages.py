"""Pages of the documentation, in pieces that can be tried.

A fenced block is a *file*, written as it stands, behind a line with its path, ``**`PATH`**``, which readers see too; a
*console*, whose ``$ `` lines are run and whose other lines they print; a *program* (``datalog``), which compiles by
itself, or with what stands before it in ``<!-- with: DECLARATIONS -->``; or something else, behind
``<!-- not run: REASON -->`` if it is commands (``sh``).
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

from click.testing import CliRunner
from flintlog.compiler import cli

from golden_tests.harness import load_script

ROOT = Path(__file__).parents[2]

FENCE = re.compile(
    r"^(?P<indent> *)(?:(?:<!-- (?P<mark>with|not run): (?P<what>.*?) -->|\*\*`(?P<file>[^`\n]+)`\*\*)\n(?: *\n)* *)?"
    r"```(?P<language>\w*)(?P<more>[^\n`]*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)

#: What a code host shows, by paths in the repository.
PAGES = [
    *("CHANGELOG.md", "CONTRIBUTING.md", "README.md"),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]

#: Where commands seem to run, on pages that show whole paths.
SHOWN_FOLDER = "/home/you/work"


@dataclass(frozen=True)
class Piece:
    """A fenced block, and what the line before it says."""

    mark: Literal["file", "with", "not run", ""]
    what: str
    language: str
    text: str
    line: int


def pieces(page: str) -> Iterator[Piece]:
    """The blocks of a page, in order."""
    for found in FENCE.finditer(page):
        line = page.count("\n", 0, found.start("language")) + 1
        mark, what = ("file", found["file"]) if found["file"] else (found["mark"] or "", found["what"] or "")
        yield Piece(mark, what, found["language"], text_of(found), line)  # type: ignore[arg-type]


def text_of(block: re.Match[str]) -> str:
    """The text of a block, without the indentation that it has in a list."""
    indent = len(block["indent"])
    return "".join(line[indent:] if line.strip() else line for line in block["text"].splitlines(keepends=True))


def table(page: str, mark: str) -> list[list[str]]:
    """The cells of the rows of the table behind ``<!-- MARK -->``, without its head; no rows if there is none."""
    found = re.search(rf"<!-- {mark} -->\n((?:\|.*\n)+)", page)
    lines = found[1].splitlines()[2:] if found else []
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def in_code(cell: str) -> list[str]:
    """What stands in code in a cell."""
    return [name.replace("\\|", "|") for name in re.findall("`([^`]+)`", cell)]


def follow(page: str, folder: Path, apart: bool = False) -> tuple[str, int]:
    """The page with what its commands print now, and how many commands there are.

    Files are written and commands are run in a folder, in order. What fits a line with ``...``, or differs in seconds
    only, stays as it is. ``apart`` runs every command in a process of its own, as a reader does; else ``flintlog`` and
    jobs that are not part of a pipeline run in this one.
    """
    ran = 0

    def answered(block: re.Match[str]) -> str:
        nonlocal ran
        text = text_of(block)
        if block["file"]:
            file = folder / block["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if block["language"] != "console":
            return block[0]
        ran += len(COMMAND.findall(text))
        text = COMMAND.sub(lambda found: f"$ {found['command']}\n{answer(found, folder, apart)}", text)
        return block[0].replace(block["text"], re.sub("^(?=.)", block["indent"], text, flags=re.MULTILINE))

    return FENCE.sub(answered, page), ran


def answer(found: re.Match[str], folder: Path, apart: bool) -> str:
    """What a command prints; what the page says if that fits."""
    printed = run(found["command"], folder, apart).replace(str(folder), SHOWN_FOLDER)
    printed = printed.rstrip("\n") + "\n" if printed.strip() else ""
    return found["output"] if pattern(found["output"]).fullmatch(printed) else printed


def run(command: str, folder: Path, apart: bool) -> str:
    """What a command prints: on both streams if it is ``flintlog``, on standard output otherwise."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = []
    plain = words and not apart and not re.search(r"[|<>;&$*]|^export\b", re.sub(r"'[^']*'", "", command))
    if plain and words[0] == "flintlog":
        with chdir(folder):
            return CliRunner().invoke(cli.main, words[1:], catch_exceptions=False, prog_name="flintlog").output
    alone = "--root" not in words  # That asks for all processes, in which this script may run others.
    if (
        plain
        and alone
        and words[0] in ("python", "spark-submit")
        and len(words) > 2
        and is_job(folder / words[1], words[2])
    ):
        return run_job(words[1], words[2:], folder, here=words[0] == "python")
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={
            **os.environ,
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "PYTHONWARNINGS": "ignore",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if command.startswith("flintlog") and "|" not in command else subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), (command, done.returncode, done.stdout, done.stderr)
    if done.returncode and not command.startswith(("flintlog", "diff")):
        raise AssertionError(f"$ {command}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def is_job(path: Path, command: str) -> bool:
    """Whether a command is one of a job that can run in this process: all but a process's own."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return "\ndef open_session(" in text and command != "serve"


def run_job(script: str, arguments: list[str], folder: Path, here: bool) -> str:
    """What a job prints on standard output, or its refusal: without Spark, or in the session that all tests share."""
    module: Any = load_script((folder / script).read_text(encoding="utf-8"))
    if here:
        module.active_session = lambda: None
    output, errors = io.StringIO(), io.StringIO()
    line = patch.object(sys, "argv", [script, *arguments])
    with chdir(folder), redirect_stdout(output), redirect_stderr(errors), line:
        code = module.main(arguments)
    refused = re.search(rf"^{arguments[0]}: .*", errors.getvalue(), re.MULTILINE | re.DOTALL)
    assert code == 0 or refused or output.getvalue(), (script, arguments, errors.getvalue())
    return output.getvalue() or (refused[0] if refused else "")


def pattern(shown: str) -> re.Pattern[str]:
    """What a command may print: ``...`` stands for anything, a line of it for any lines; seconds may differ, and how
    long a script and how large files are."""
    lines = [line_pattern(line) for line in shown.rstrip("\n").split("\n")]
    return re.compile("\n".join(lines) + r"\n?" if shown else "")


def line_pattern(line: str) -> str:
    """One line of what a command may print."""
    if line == "...":
        return r"(?:.*\n)*?.*"
    text = re.escape(line).replace(r"\.\.\.", ".*")
    text = re.sub(r"\d+\\\.\d\\ s\b", r"[\\d.]+ s", text)
    text = re.sub(r"with\\ [\d,]+\\ bytes", r"with [\\d,]+ bytes", text)
    return re.sub(r"\(\d+\\ lines", r"(\\d+ lines", text)
