"""Diagnostics as documents: JSON for programs, and SARIF 2.1.0 for code hosts and editors."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from ..source import SourceFile, Span
from . import CODES, Diagnostic, severity_of
from .index import address, description, markdown, plain

_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


@dataclass(frozen=True)
class Place:
    """A range within one line of a file.

    ``file`` is a path as on the command line. Lines and columns count from 1, in characters; ``end_column`` is
    exclusive, and equals ``column`` where something is missing at the end of a line.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class DocumentFinding:
    """A diagnostic with its place on disk, and in ``places`` the place of each note, or None for a note without one."""

    diagnostic: Diagnostic
    place: Place
    places: tuple[Place | None, ...]


def findings(diagnostics: Iterable[Diagnostic], sources: Iterable[SourceFile]) -> tuple[DocumentFinding, ...]:
    """Return diagnostics with their places; ``sources`` are the files they refer to."""
    texts = {source.name: source for source in sources}
    return tuple(
        DocumentFinding(
            item,
            _place(item.span, texts),
            tuple(None if note.span is None else _place(note.span, texts) for note in item.notes),
        )
        for item in diagnostics
    )


def _place(span: Span, sources: Mapping[str, SourceFile]) -> Place:
    source = sources.get(span.file, SourceFile(span.file, ""))
    line = source.lines[span.line - 1] if span.line <= len(source.lines) else ""
    end = max(min(span.column + span.length, len(line) + 1), span.column)
    file = PurePath(os.path.normpath(source.shown)).as_posix()
    return Place(file, span.line, span.column, span.line, end)


# ---- JSON ------------------------------------------------------------------------------------------------------------


def json_document(found: Sequence[DocumentFinding], failures: Sequence[str]) -> str:
    """Return a JSON object: ``diagnostics``, by program and position, and ``failures``, which have no position."""
    return _printed({"diagnostics": [_json_diagnostic(finding) for finding in found], "failures": list(failures)})


def _json_diagnostic(finding: DocumentFinding) -> dict[str, Any]:
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


def sarif_document(found: Sequence[DocumentFinding], failures: Sequence[str]) -> str:
    """Return a SARIF log with one run.

    Its rules are all codes, in order, with their meanings. Reported codes carry their section of the documentation as
    help, so that readers do not need the site. Failures become notifications of the invocation.
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


def _sarif_result(finding: DocumentFinding) -> dict[str, Any]:
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
    """Return plain text in which SARIF finds no placeholders and no embedded links (section 3.11.6)."""
    return re.sub(r"\[(?=[^\]\n]*\]\()", r"\\[", _without_placeholders(text))


def _without_placeholders(text: str) -> str:
    """Return text with literal braces escaped, so that SARIF finds no placeholders (section 3.11.5)."""
    return text.replace("{", "{{").replace("}", "}}")


def _printed(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2)


DOCUMENTS: Mapping[str, Callable[[Sequence[DocumentFinding], Sequence[str]], str]] = {
    "json": json_document,
    "sarif": sarif_document,
}
"""The functions that print documents, by the document's name on the command line."""
