"""What ``flintlog build`` makes: the table that lists it, and what is there against what should be.

A table, in ``pyproject.toml`` (``flintlog.toml`` has the same without the heading)::

    [tool.flintlog]
    output = "jobs"
    programs = [
        "rules/*.dl",
        { path = "network/*.dl", target = "processes", output = "jobs/network", outside = ["S2.host"] },
    ]
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flintlog.targets import PROCESSES, TARGETS
from flintlog.targets.signature import is_edited, is_generated

from .ir.syntax import RECURSIONS

#: The files that can have the table, in the order of looking.
CONFIGS = ("flintlog.toml", "pyproject.toml")


class ConfigError(Exception):
    """The table is not there, or not well formed; says which key of which file."""


@dataclass(frozen=True)
class Entry:
    """Programs that are compiled with the same options to one folder: one at a time, or as processes all together."""

    programs: tuple[Path, ...]
    output: Path
    target: str
    recursion: str
    format: bool
    outside: tuple[str, ...]
    include_path: tuple[Path, ...]

    def runs(self) -> Iterator[tuple[Path, ...]]:
        """The programs that are compiled together."""
        if self.target == PROCESSES:
            yield self.programs
        else:
            yield from ((program,) for program in self.programs)


@dataclass(frozen=True)
class Config:
    """A table: the file that has it, and its entries."""

    file: Path
    entries: tuple[Entry, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where files are written to, each folder once."""
        return tuple(dict.fromkeys(entry.output for entry in self.entries))


@dataclass(frozen=True)
class Made:
    """A file that the build makes: of which programs, and of all files that these include."""

    path: Path
    text: str
    programs: tuple[Path, ...]
    sources: tuple[Path, ...]


@dataclass(frozen=True)
class Finding:
    """A file that is not as the build makes it. ``state`` is missing, stale, edited (by hand, since it was made) or
    orphaned (the build does not make it any more)."""

    path: Path
    state: str
    difference: str = ""


# ---- the table -----------------------------------------------------------------------------------------------------


def find_config(start: Path) -> Path:
    """The file with the table, in ``start`` or the nearest folder above that has one; raises ConfigError."""
    for folder in (start, *start.parents):
        for name in CONFIGS:
            file = folder / name
            if file.is_file() and (name == CONFIGS[0] or "flintlog" in _parsed(file).get("tool", {})):
                return file
    raise ConfigError(
        f"neither {start} nor a folder above it has a flintlog.toml, or a pyproject.toml with [tool.flintlog]"
    )


def read_config(file: Path) -> Config:
    """Read a table. Raises ConfigError, and OSError if the file cannot be read."""
    parsed = _parsed(file)
    heading = "" if file.name == CONFIGS[0] else "tool.flintlog."
    table = parsed if not heading else parsed.get("tool", {}).get("flintlog")
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: there is no [tool.flintlog]")
    reader = _Table(file, heading)
    reader.check_keys(table, heading, (*_OPTIONS, "programs"))
    listed = table.get("programs")
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f'{file}: {heading}programs lists what to compile, as in programs = ["rules/*.dl"]')
    entries = []
    for number, item in enumerate(listed):
        place = f"{heading}programs[{number}]"
        given = {"path": item} if isinstance(item, str) else item
        if not isinstance(given, dict):
            raise ConfigError(f"{file}: {place} is neither a path nor a table with one")
        reader.check_keys(given, f"{place}.", ("path", *_OPTIONS))
        entries.append(reader.entry({**table, **given}, place))
    return Config(file, tuple(entries))


_OPTIONS = ("output", "target", "recursion", "format", "outside", "include-path")


@dataclass(frozen=True)
class _Table:
    """Reads what a file says; errors name the file and the key."""

    file: Path
    heading: str

    def check_keys(self, table: Mapping[str, Any], place: str, known: Sequence[str]) -> None:
        """Refuse keys that mean nothing."""
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                meant = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"
                raise ConfigError(f"{self.file}: {place}{key} is not an option; {meant}")

    def entry(self, given: Mapping[str, Any], place: str) -> Entry:
        """An entry, with the options of the table where it has none of its own."""
        folder = self.file.parent
        pattern = self.value(given, "path", place, str, None)
        programs = tuple(sorted(path for path in folder.glob(pattern) if path.is_file())) if pattern else ()
        if not programs:
            raise ConfigError(f"{self.file}: {place}: there is no file {pattern!r}")
        outside = self.value(given, "outside", place, list, [])
        including = self.value(given, "include-path", place, list, [])
        if not all(isinstance(name, str) and (folder / name).is_dir() for name in including):
            raise ConfigError(f"{self.file}: {place}.include-path is a list of folders")
        if not all(isinstance(name, str) for name in outside):
            raise ConfigError(f"{self.file}: {place}.outside is a list of names of relations")
        target = self.choice(given, "target", place, (*TARGETS, PROCESSES))
        if outside and target != PROCESSES:
            raise ConfigError(f'{self.file}: {place}.outside is for target = "{PROCESSES}"')
        return Entry(
            programs,
            folder / self.value(given, "output", place, str, "jobs"),
            target,
            self.choice(given, "recursion", place, RECURSIONS),
            self.value(given, "format", place, bool, True),
            tuple(outside),
            tuple(folder / name for name in including),
        )

    def value(self, given: Mapping[str, Any], key: str, place: str, kind: type, otherwise: Any) -> Any:
        """A value of some type."""
        found = given.get(key, otherwise)
        if not isinstance(found, kind):
            names = {str: "a string", bool: "true or false", list: "a list"}
            raise ConfigError(f"{self.file}: {place}.{key} is {names[kind]}, not {found!r}")
        return found

    def choice(self, given: Mapping[str, Any], key: str, place: str, known: Sequence[str]) -> str:
        """One of some words; the first of them unless one is given."""
        found: str = self.value(given, key, place, str, known[0])
        if found not in known:
            raise ConfigError(f"{self.file}: {place}.{key} is one of {', '.join(known)}, not {found!r}")
        return found


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


# ---- what is there -------------------------------------------------------------------------------------------------


def sources_of(programs: Iterable[Path], names: Iterable[str]) -> tuple[Path, ...]:
    """The files of programs, whose names are relative to the folders of these."""
    names = tuple(names)
    found = (program.parent / name for program in programs for name in names)
    return tuple(dict.fromkeys(path for path in found if path.is_file()))


def compared(made: Made) -> Finding | None:
    """How a file differs from what the build makes; None if it does not."""
    try:
        there = made.path.read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return Finding(made.path, "missing")
    if there == made.text:
        return None
    difference = "".join(
        difflib.unified_diff(
            there.splitlines(keepends=True),
            made.text.splitlines(keepends=True),
            f"{made.path} (as it is)",
            f"{made.path} (as it is built)",
        )
    )
    return Finding(made.path, "edited" if is_edited(there) or not is_generated(there) else "stale", difference)


def orphans(folders: Iterable[Path], made: Iterable[Path]) -> list[Path]:
    """The generated files in some folders that the build does not make."""
    known = {path.resolve() for path in made}
    found = []
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file() and path.resolve() not in known and _begins_generated(path):
                found.append(path)
    return found


def _begins_generated(path: Path) -> bool:
    with path.open("rb") as file:
        return is_generated(file.read(8192).decode(errors="replace"))


def depfile(config: Path, made: Iterable[Made], relative_to: Path) -> str:
    """Rules for Make: what each file is made of; a source that is gone is no error, as it is rebuilt then."""
    lines, known = [], dict.fromkeys([config])
    for one in made:
        needed = [_escaped(path, relative_to) for path in (*one.sources, config)]
        lines.append(f"{_escaped(one.path, relative_to)}: {' '.join(needed)}\n")
        known |= dict.fromkeys(one.sources)
    lines += [f"\n{_escaped(path, relative_to)}:\n" for path in known]
    return "".join(lines)


def _escaped(path: Path, relative_to: Path) -> str:
    """A path as Make reads it."""
    text = str(path.relative_to(relative_to) if path.is_relative_to(relative_to) else path)
    return text.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ").replace(":", "\\:")
