"""Diagnostics as documents that other programs read: JSON, and SARIF 2.1.0 for code hosts and editors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from .diagnostics import CODES, Diagnostic, severity_of
from .error_index import address, description, markdown, plain
from .source import SourceFile, Span

_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@dataclass(frozen=True)
class Place:
    """A stretch of one line of a file.

    ``file`` is a path as the command line gave it. Lines and columns count from 1, in characters; ``end_column`` stands
    behind the last one, and is ``column`` itself where something is missing behind the end of a line.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Finding:
    """A diagnostic with its places on disk; ``places`` has one for each note, None for a note without a place."""

    diagnostic: Diagnostic
    place: Place
    places: tuple[Place | None, ...]


def findings(program: Path, diagnostics: Iterable[Diagnostic], sources: Iterable[SourceFile]) -> tuple[Finding, ...]:
    """The diagnostics of the program at a path; ``sources`` are the files they are about."""
    texts = {source.name: source for source in sources}
    return tuple(
        Finding(
            item,
            _place(item.span, program, texts),
            tuple(None if note.span is None else _place(note.span, program, texts) for note in item.notes),
        )
        for item in diagnostics
    )


def _place(span: Span, program: Path, sources: Mapping[str, SourceFile]) -> Place:
    line = sources[span.file].lines[span.line - 1] if span.file in sources else ""
    end = max(min(span.column + span.length, len(line) + 1), span.column)
    file = PurePath(os.path.normpath(program.parent / span.file)).as_posix()
    return Place(file, span.line, span.column, span.line, end)


# ---- JSON ------------------------------------------------------------------------------------------------------------


def json_document(found: Sequence[Finding], failures: Sequence[str]) -> str:
    """One object: ``diagnostics`` in the order of the programs and their text, ``failures`` that have no place."""
    return _printed({"diagnostics": [_json_diagnostic(finding) for finding in found], "failures": list(failures)})


def _json_diagnostic(finding: Finding) -> dict[str, Any]:
    item = finding.diagnostic
    return {
        "code": item.code,
        "severity": item.severity,
        "message": item.message,
        **_json_place(finding.place),
        "help": item.help,
        "notes": [
            {"message": note.message, **_json_place(place)}
            for note, place in zip(item.notes, finding.places, strict=True)
        ],
        "documentation": address(item.code),
    }


def _json_place(place: Place | None) -> dict[str, Any]:
    names = ("file", "line", "column", "end_line", "end_column")
    return {name: None if place is None else getattr(place, name) for name in names}


# ---- SARIF -----------------------------------------------------------------------------------------------------------


def sarif_document(found: Sequence[Finding], failures: Sequence[str]) -> str:
    """A SARIF log of one run.

    Its rules are all codes, in order, with what they mean; those that were reported carry their section of the
    documentation as help, so that it can be read without the site.
    Failures are notifications of the invocation.
    """
    reported = {finding.diagnostic.code for finding in found}
    invocation: dict[str, Any] = {"executionSuccessful": not failures}
    if failures:
        invocation["toolExecutionNotifications"] = [
            {"level": "error", "message": {"text": _escaped(failure)}} for failure in failures
        ]
    run = {
        "tool": {
            "driver": {
                "name": "Flintlog",
                "version": version("flintlog"),
                "rules": [_sarif_rule(code, code in reported) for code in CODES],
            }
        },
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding) for finding in found],
    }
    return _printed({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _sarif_rule(code: str, reported: bool) -> dict[str, Any]:
    title = CODES[code]
    rule: dict[str, Any] = {
        "id": code,
        "name": "".join(word[:1].upper() + word[1:] for word in re.findall(r"\w+", title)),
        "shortDescription": {"text": _escaped(title)},
        "fullDescription": {"text": _escaped(description(code))},
        "defaultConfiguration": {"level": severity_of(code)},
    }
    if address(code) is not None:
        rule["helpUri"] = address(code)
    if reported:
        rule["help"] = {"text": _escaped(plain(code)), "markdown": _without_placeholders(markdown(code))}
    return rule


def _sarif_result(finding: Finding) -> dict[str, Any]:
    item = finding.diagnostic
    said = [item.message]
    said += [f"note: {note.message}" for note in item.notes if note.span is None]
    said += [f"help: {item.help}"] if item.help else []
    result: dict[str, Any] = {
        "ruleId": item.code,
        "ruleIndex": list(CODES).index(item.code),
        "level": item.severity,
        "message": {"text": _escaped("\n".join(said))},
        "locations": [_sarif_location(finding.place)],
    }
    related = [(note, place) for note, place in zip(item.notes, finding.places, strict=True) if place is not None]
    if related:
        result["relatedLocations"] = [
            {"id": number, **_sarif_location(place), "message": {"text": _escaped(note.message)}}
            for number, (note, place) in enumerate(related)
        ]
    return result


def _sarif_location(place: Place) -> dict[str, Any]:
    path = PurePath(place.file)
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": path.as_uri() if path.is_absolute() else quote(os.fsencode(path))},
            "region": {
                "startLine": place.line,
                "startColumn": place.column,
                "endLine": place.end_line,
                "endColumn": place.end_column,
            },
        }
    }


def _escaped(text: str) -> str:
    """Plain text in which SARIF sees no placeholders and no embedded links (section 3.11.6)."""
    return re.sub(r"\[(?=[^\]\n]*\]\()", r"\\[", _without_placeholders(text))


def _without_placeholders(text: str) -> str:
    """Text whose braces stand for themselves (section 3.11.5)."""
    return text.replace("{", "{{").replace("}", "}}")


def _printed(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2)


#: The documents by the name that the command line has for them.
DOCUMENTS: Mapping[str, Callable[[Sequence[Finding], Sequence[str]], str]] = {
    "json": json_document,
    "sarif": sarif_document,
}
