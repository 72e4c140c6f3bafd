"""How feeds are defined: sources on the command line, and a file beside the program with names and filters.

The file is TOML, with a table per input relation::

    [link]
    from = "delta:/lake/link"                       # may be given on the command line instead
    columns = { src = "source_id", dst = "target_id" }
    where = "active"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...inputs.records import input_relation
from ...kernel.errors import JobError, reason
from ...kernel.model import Program
from ...kernel.values import shown
from ...store.batches import lost_race
from ...store.manifest import FeedRecord, connected_files, content_of
from ...store.sealed_records import check_seal, from_json, record_in, sealed
from ...system.places import make_folder, write_exclusively
from .kinds import split_source

DEFINITION_MEMBERS = ("from", "columns", "where")


def given_sources(given: str | Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """Return sources by relation, given as ``REL=SOURCE`` or as a mapping."""
    if isinstance(given, Mapping):
        return dict(given)
    sources = {}
    for item in [given] if isinstance(given, str) else given:
        name, separator, source = item.partition("=")
        if not separator or not re.fullmatch(r"[\w.]+", name) or not source:
            raise JobError(f"{item} is not of the form RELATION=SOURCE, such as link=delta:/lake/link")
        if name in sources:
            raise JobError(f"{name} is given two sources; a relation has one feed")
        sources[name] = source
    return sources


def read_definitions(path: str) -> dict[str, Mapping[str, Any]]:
    """Return what a file of definitions says, by relation; raise JobError if it is not one."""
    try:
        definitions = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JobError(f"{path} cannot be read: {reason(error)}") from error
    for name, members in definitions.items():
        unknown = sorted(members.keys() - {*DEFINITION_MEMBERS}) if isinstance(members, dict) else []
        if not isinstance(members, dict) or unknown:
            raise JobError(
                f"{path}: {name} must be a table with {', '.join(DEFINITION_MEMBERS)}"
                f"{f', not {unknown[0]}' if unknown else ''}"
            )
        columns = members.get("columns", {})
        texts = [members.get("from", ""), members.get("where", "")]
        texts += columns.values() if isinstance(columns, dict) else [columns]
        if not all(isinstance(text, str) for text in texts) or not isinstance(columns, dict):
            raise JobError(f'{path}: in {name}, `from` and `where` are text, and `columns` is {{ column = "name" }}')
    return definitions


def defined_feeds(
    program: Program, given: str | Iterable[str] | Mapping[str, str], path: str | None, known: Mapping[str, FeedRecord]
) -> dict[str, FeedRecord]:
    """Return the feeds that are to be connected, without positions. A relation that the file does not define keeps the
    names and the filter of its ``known`` feed. Raise JobError for what does not fit the program."""
    sources, definitions = given_sources(given), read_definitions(path) if path else {}
    feeds = {}
    for name in dict.fromkeys([*definitions, *sources]):
        relation = input_relation(program, name)
        if not relation.columns:
            raise JobError(f"{name} has no columns, so no feed can tell its rows")
        if name in definitions:
            members = definitions[name]
            record = FeedRecord(members.get("from", ""), members.get("columns", {}), members.get("where", ""))
        else:
            record = known.get(name, FeedRecord(""))
        record = replace(record.unread, source=sources.get(name, record.source))
        if not record.source:
            raise JobError(f"{path} does not say where {name} comes from; give {name}=SOURCE")
        own = {column.name for column in relation.columns}
        for column in record.columns:
            if column not in own:
                raise JobError(f"{name} has no column {shown(column)}; its columns are {', '.join(sorted(own))}")
        # Names that do not differ need not be kept.
        record = replace(record, columns={ours: theirs for ours, theirs in record.columns.items() if ours != theirs})
        if split_source(record.source)[0] == "files" and (record.columns or record.where):
            raise JobError(f"{name}: the columns of files: have the names of the relation's, and no filter")
        if split_source(record.source)[0] == "kafka-debezium" and record.where:
            raise JobError(f"{name}: kafka-debezium: has no filter (`where`); write one as a rule of the program")
        feeds[name] = record
    if not feeds:
        raise JobError("give RELATION=SOURCE, such as link=delta:/lake/link, or --feeds FILE.toml")
    return feeds


# Feeds of a state that is not built yet


@dataclass(frozen=True)
class Connected:
    """The feeds that were connected before the first commit."""

    feeds: Mapping[str, FeedRecord]


def connected_feeds(root: Path) -> Mapping[str, FeedRecord]:
    """Return the feeds that were connected before the first commit; raise JobError if their record is damaged."""
    files = connected_files(root)
    if not files:
        return {}
    try:
        data = content_of(files[-1])
        record = record_in(data)
        check_seal(data)
        connected: Connected = from_json(Connected, record)
    except ValueError as error:
        raise JobError(f"{files[-1]} is damaged ({error}): remove it, and `connect` the feeds again") from error
    return connected.feeds


def write_connected(root: Path, feeds: Mapping[str, FeedRecord]) -> None:
    """Record the feeds of a state that is not built yet; raise Passing if another command does so at the same time."""
    make_folder(root / "manifest")
    files = connected_files(root)
    number = int(files[-1].stem.partition("-")[2]) + 1 if files else 1
    if not write_exclusively(root / "manifest" / f"feeds-{number:012d}.json", sealed(Connected(feeds))):
        raise lost_race(root)
    remove_connected(files)


def remove_connected(files: Sequence[Path]) -> None:
    """Remove records that a later one, or a commit, has replaced."""
    for file in files:
        file.unlink(missing_ok=True)
