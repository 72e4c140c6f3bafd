"""What the tutorial says word by word: its files are written, and its commands run, in the order of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from golden_tests.integrations.environments import ROOT, WANTED

PAGE = ROOT / "docs" / "tutorial.md"
PIECE = re.compile(
    r"^<!-- file: (?P<file>\S+) -->\n```\w+\n(?P<text>.*?)^```$|^```console\n(?P<console>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^\$ (?P<command>.*)\n(?P<output>(?:(?!\$ ).*\n)*)", re.MULTILINE)


def pattern(shown: str) -> re.Pattern[str]:
    """What a command may print: ``...`` stands for anything, a line of it for any lines; seconds may differ, and how
    long a script is."""
    return re.compile("\n".join(map(line_pattern, shown.rstrip("\n").split("\n"))))


def line_pattern(line: str) -> str:
    """One line of what a command may print."""
    if line == "...":
        return r"(?:.*\n)*?.*"
    text = re.escape(line).replace(r"\.\.\.", ".*")
    text = re.sub(r"\d+\\\.\d\\ s\b", r"[\\d.]+ s", text)
    return re.sub(r"\(\d+\\ lines", r"(\\d+ lines", text)


@WANTED
def test_tutorial(tmp_path: Path) -> None:
    """Every command ends as it should and prints what stands below it."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    ran = 0
    for piece in PIECE.finditer(PAGE.read_text(encoding="utf-8")):
        if piece["file"]:
            file = tmp_path / piece["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(piece["text"], encoding="utf-8")
            continue
        for found in COMMAND.finditer(piece["console"]):
            command, shown = found["command"], found["output"]
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if command.startswith("flintlog") and "|" not in command else subprocess.PIPE,
                text=True,
                check=False,
            )
            assert done.returncode == (1 if "check rules/wrong" in command else 0), (command, done.stdout, done.stderr)
            printed = done.stdout.replace(str(tmp_path), "/home/you/access").rstrip("\n")
            assert pattern(shown).fullmatch(printed), f"$ {command}\n{printed}\n---- but the page has\n{shown}"
            ran += 1
    assert ran > 15
