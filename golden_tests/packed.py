"""Cases packed into files: many small programs, each with what becomes of it.

A case begins with a line ``==== name: what it shows``; lines ``---- heading`` divide its parts, the first of which is
the program. Other files of the program are parts ``file NAME``, with their encoding behind the name if it is not UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Case:
    """A program, with the other parts of the case by their headings."""

    name: str
    shows: str
    program: str
    parts: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = "".join(f"---- {heading}\n{text}" for heading, text in self.parts.items())
        return f"==== {self.name}{self.shows and f': {self.shows}'}\n{self.program}{parts}"


def cases_of(file: Path) -> list[Case]:
    """Return the cases of a file."""
    found = []
    for text in re.split(r"^==== ", file.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, body = text.split("\n", 1)
        name, _, shows = title.partition(": ")
        program, *parts = re.split(r"^---- (.*)\n", body, flags=re.MULTILINE)
        found.append(Case(name, shows, program, dict(zip(parts[::2], parts[1::2], strict=True))))
    assert len({case.name for case in found}) == len(found), "two cases have one name"
    return found


def check(file: Path, case: Case, made: Mapping[str, str], update: bool) -> None:
    """Fail unless the parts of a case are as ``made``; with ``update``, write them into the file."""
    if update:
        cases = cases_of(file)
        for other in cases:
            if other.name == case.name:
                other.parts |= made
        file.write_text("".join(map(str, cases)), encoding="utf-8")
        return
    for heading, text in made.items():
        assert text == case.parts.get(heading), heading


def loader(case: Case) -> Callable[[str], str | None]:
    """Return what gives the text of the other files of a case."""
    return lambda name: case.parts.get(f"file {name}")


def written(case: Case, suffix: str, folder: Path) -> Path:
    """Write the program of a case and its other files into a folder of their own, and return the main file."""
    home = folder / suffix[1:] / case.name
    for heading, text in [(f"file program{suffix}", case.program), *case.parts.items()]:
        if heading.startswith("file "):
            name, _, encoding = heading.removeprefix("file ").partition(" ")
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding=encoding or "utf-8")
    return home / f"program{suffix}"
