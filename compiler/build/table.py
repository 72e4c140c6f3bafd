"""The table for ``flintlog build``, and the comparison of existing files with the build.

The table in ``pyproject.toml`` (the same without the heading in ``flintlog.toml``)::

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

from flintlog.targets import DATABASE, PROCESSES, RUNTIMES, TARGETS, chosen_parts
from flintlog.targets.signature import is_edited, is_generated

from ..dialects import DIALECTS
from ..ir.syntax import RECURSIONS

CONFIGS = ("flintlog.toml", "pyproject.toml")
"""The files that may contain the table, in order of precedence within a folder."""


class ConfigError(Exception):
    """Raised when the table is missing or malformed; the message names the file and the key."""


@dataclass(frozen=True)
class Entry:
    """Programs compiled with the same options to one folder: one at a time or, as processes, all together."""

    programs: tuple[Path, ...]
    output: Path
    target: str
    recursion: str
    format: bool
    outside: tuple[str, ...]
    include_path: tuple[Path, ...]
    runtime: str
    parts: tuple[str, ...]
    dialect: str = ""

    def runs(self) -> Iterator[tuple[Path, ...]]:
        """Yield the programs that are compiled together."""
        if self.target == PROCESSES:
            yield self.programs
        else:
            yield from ((program,) for program in self.programs)


@dataclass(frozen=True)
class Config:
    """A table: the file that contains it, and its entries."""

    file: Path
    entries: tuple[Entry, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the output folders, each once."""
        return tuple(dict.fromkeys(entry.output for entry in self.entries))


@dataclass(frozen=True)
class MadeFile:
    """A file that the build makes, with its programs and all files that these include; no program is behind a file
    that scripts share."""

    path: Path
    content: str | bytes
    programs: tuple[Path, ...] = ()
    sources: tuple[Path, ...] = ()


@dataclass(frozen=True)
class FileFinding:
    """A file that differs from the build. Its ``state`` is missing, stale, edited (by hand, since it was made) or
    orphaned (no longer made by the build)."""

    path: Path
    state: str
    difference: str = ""


# ---- the table -----------------------------------------------------------------------------------------------------


def find_config(start: Path) -> Path:
    """Return the file with the table, in ``start`` or the nearest parent folder; raise ConfigError if there is none."""
    for folder in (start, *start.parents):
        for name in CONFIGS:
            file = folder / name
            if file.is_file() and (name == CONFIGS[0] or "flintlog" in _parsed(file).get("tool", {})):
                return file
    raise ConfigError(
        f"neither {start} nor a folder above it has a flintlog.toml, or a pyproject.toml with [tool.flintlog]"
    )


def read_config(file: Path) -> Config:
    """Read a table. Raise ConfigError, or OSError if the file cannot be read."""
    parsed = _parsed(file)
    heading = "" if file.name == CONFIGS[0] else "tool.flintlog."
    table = parsed if not heading else parsed.get("tool", {}).get("flintlog")
    if not isinstance(table, dict):
        raise ConfigError(f"{file}: there is no [tool.flintlog]")
    reader = _Table(file, heading)
    reader.check_keys(table, heading, (*_OPTIONS, "programs"))
    listed = table.get("programs")
    if not isinstance(listed, list) or not listed:
        raise ConfigError(f'{file}: {heading}programs must list the programs, as in programs = ["rules/*.dl"]')
    entries = []
    for number, item in enumerate(listed):
        place = f"{heading}programs[{number}]"
        options = {"path": item} if isinstance(item, str) else item
        if not isinstance(options, dict):
            raise ConfigError(f"{file}: {place} must be a path or a table with one")
        reader.check_keys(options, f"{place}.", ("path", *_OPTIONS))
        entries.append(reader.entry({**table, **options}, place))
    return Config(file, tuple(entries))


_OPTIONS = ("output", "target", "recursion", "format", "runtime", "with", "outside", "include-path", "dialect")


@dataclass(frozen=True)
class _Table:
    """Reads the entries of a table; errors name the file and the key."""

    file: Path
    heading: str

    def check_keys(self, table: Mapping[str, Any], place: str, known: Sequence[str]) -> None:
        """Raise ConfigError for unknown keys."""
        for key in table:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"the known ones are {', '.join(known)}"
                raise ConfigError(f"{self.file}: {place}{key} is not an option; {hint}")

    def entry(self, given: Mapping[str, Any], place: str) -> Entry:
        """Return an entry; ``given`` contains its options, and those of the table that it does not override."""
        folder = self.file.parent
        pattern = self.value(given, "path", place, str, None)
        programs = tuple(sorted(path for path in folder.glob(pattern) if path.is_file())) if pattern else ()
        if not programs:
            raise ConfigError(f"{self.file}: {place}: there is no file {pattern!r}")
        outside = self.value(given, "outside", place, list, [])
        including = self.value(given, "include-path", place, list, [])
        if not all(isinstance(name, str) and (folder / name).is_dir() for name in including):
            raise ConfigError(f"{self.file}: {place}.include-path must be a list of folders")
        if not all(isinstance(name, str) for name in outside):
            raise ConfigError(f"{self.file}: {place}.outside must be a list of relation names")
        parts = self.value(given, "with", place, list, [])
        try:
            chosen = chosen_parts(parts)
        except ValueError as error:
            raise ConfigError(f"{self.file}: {place}.with must be a list of parts: {error}") from None
        target = self.choice(given, "target", place, (*TARGETS, PROCESSES))
        if outside and target != PROCESSES:
            raise ConfigError(f'{self.file}: {place}.outside requires target = "{PROCESSES}"')
        if target == DATABASE and ("runtime" in given or chosen):
            raise ConfigError(f'{self.file}: {place}: target = "{DATABASE}" has no runtime and with')
        if target == PROCESSES and chosen:
            raise ConfigError(f'{self.file}: {place}: target = "{PROCESSES}" has no with')
        return Entry(
            programs,
            folder / self.value(given, "output", place, str, "jobs"),
            target,
            self.choice(given, "recursion", place, RECURSIONS),
            self.value(given, "format", place, bool, True),
            tuple(outside),
            tuple(folder / name for name in including),
            self.choice(given, "runtime", place, RUNTIMES),
            chosen,
            self.choice(given, "dialect", place, tuple(DIALECTS)) if "dialect" in given else "",
        )

    def value(self, given: Mapping[str, Any], key: str, place: str, kind: type, otherwise: Any) -> Any:
        """Return the value of ``key``, or ``otherwise`` without one; raise ConfigError unless its type is ``kind``."""
        value = given.get(key, otherwise)
        if not isinstance(value, kind):
            names = {str: "a string", bool: "true or false", list: "a list"}
            raise ConfigError(f"{self.file}: {place}.{key} must be {names[kind]}, not {value!r}")
        return value

    def choice(self, given: Mapping[str, Any], key: str, place: str, known: Sequence[str]) -> str:
        """Return the value of ``key``, one of the words ``known``, by default the first."""
        chosen: str = self.value(given, key, place, str, known[0])
        if chosen not in known:
            raise ConfigError(f"{self.file}: {place}.{key} must be one of {', '.join(known)}, not {chosen!r}")
        return chosen


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None


# ---- existing files ------------------------------------------------------------------------------------------------


def compared(made: MadeFile) -> FileFinding | None:
    """Return how a file differs from the build, or None if it does not."""
    try:
        content = made.path.read_bytes()
    except FileNotFoundError:
        return FileFinding(made.path, "missing")
    if isinstance(made.content, bytes):
        if content == made.content:
            return None
        return FileFinding(made.path, "stale" if _begins_generated(made.path) else "edited")
    there = content.decode(errors="replace")
    if there == made.content:
        return None
    difference = "".join(
        difflib.unified_diff(
            there.splitlines(keepends=True),
            made.content.splitlines(keepends=True),
            f"{made.path} (as it is)",
            f"{made.path} (as it is built)",
        )
    )
    return FileFinding(made.path, "edited" if is_edited(there) or not is_generated(there) else "stale", difference)


def orphans(folders: Iterable[Path], made: Iterable[Path]) -> list[Path]:
    """Return the generated files in ``folders`` that the build does not make."""
    built = {path.resolve() for path in made}
    orphaned = []
    for folder in folders:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if path.is_file() and path.resolve() not in built and _begins_generated(path):
                orphaned.append(path)
    return orphaned


def _begins_generated(path: Path) -> bool:
    with path.open("rb") as file:
        return is_generated(file.read(8192).decode(errors="replace"))


def depfile(config: Path, made: Iterable[MadeFile], relative_to: Path) -> str:
    """Return Make rules with the sources of each file; a missing source causes a rebuild instead of an error."""
    lines, dependencies = [], dict.fromkeys([config])
    for one in made:
        needed = [_escaped(path, relative_to) for path in (*one.sources, config)]
        lines.append(f"{_escaped(one.path, relative_to)}: {' '.join(needed)}\n")
        dependencies |= dict.fromkeys(one.sources)
    lines += [f"\n{_escaped(path, relative_to)}:\n" for path in dependencies]
    return "".join(lines)


def _escaped(path: Path, relative_to: Path) -> str:
    """Return a path escaped for Make, relative to ``relative_to`` if it is below it."""
    text = str(path.relative_to(relative_to) if path.is_relative_to(relative_to) else path)
    return text.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ").replace(":", "\\:")
