"""Print a comparison of two programs: as text, as Markdown for a pull request, or as JSON."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from flintlog.targets.pyspark.python import visible

from ..diagnostics import listed
from ..ir.strata import METHODS
from ..naming import counted
from .comparison import (
    Detail,
    Layout,
    ProcessesComparison,
    ProgramComparison,
    ReaderChange,
    RuleChange,
    Upgrade,
    WrittenRule,
)

WIDTH = 100
"""The width of text, in columns."""

MOST_TOLD = 4
"""How many causes to list, at most."""


@dataclass(frozen=True)
class _Item:
    """An entry of a section: a keyword, a text, and lines that begin with ``-`` or ``+``."""

    word: str
    text: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Section:
    """A heading (of a ``level``, from 2 on) and the entries below it."""

    heading: str
    items: tuple[_Item, ...]
    level: int = 2


def text_report(found: ProgramComparison | ProcessesComparison, old: str, new: str) -> str:
    """Return the report as text, with invisible characters escaped."""
    title = f"From {old} to {new}"
    lines = [title, "=" * len(title), "", *textwrap.wrap(_summary(found), WIDTH), ""]
    for section in _sections(found):
        lines += [section.heading, ("-" if section.level == 2 else "~") * len(section.heading), ""]
        width = max((len(item.word) for item in section.items), default=0)
        for item in section.items:
            indent = " " * (width + 4)
            first = f"  {item.word.ljust(width)}  " if width else "  "
            rest = indent if width else "  "
            lines += textwrap.wrap(
                item.text,
                WIDTH,
                initial_indent=first,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
            lines += [f"{rest}  {line}" for line in item.lines]
        lines.append("")
    return visible("\n".join(lines))


def markdown_report(found: ProgramComparison | ProcessesComparison, old: str, new: str) -> str:
    """Return the report as Markdown, with invisible characters escaped."""
    lines = [f"## From {_code(old)} to {_code(new)}", "", _escaped(_summary(found)), ""]
    for section in _sections(found):
        lines += [f"{'#' * (section.level + 1)} {_escaped(section.heading)}", ""]
        for item in section.items:
            word = f"**{item.word}** " if item.word else ""
            lines.append(f"* {word}{_escaped(item.text)}")
        lines.append("")
        changed = [line for item in section.items for line in item.lines]
        if changed:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", "\n".join(changed))), default=0))
            lines += [f"{fence}diff", *changed, fence, ""]
    return visible("\n".join(lines))


def json_report(found: ProgramComparison | ProcessesComparison, old: str, new: str) -> str:
    """Return the report as one JSON object; docs/review.md describes its fields."""
    document: dict[str, Any] = {"old": old, "new": new, "same": found.same}
    if isinstance(found, ProgramComparison):
        document |= _document(found)
    else:
        document["processes"] = [
            {
                "change": process.change,
                "name": process.name,
                "comparison": None if process.comparison is None else _document(process.comparison),
            }
            for process in found.processes
        ]
        document["channels"] = [asdict(channel) for channel in found.channels]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _document(found: ProgramComparison) -> dict[str, Any]:
    return {"same_meaning": found.same_meaning, **asdict(found)}


REPORTS: Mapping[str, Callable[[ProgramComparison | ProcessesComparison, str, str], str]] = {
    "text": text_report,
    "markdown": markdown_report,
    "json": json_report,
}
"""The report functions by the format's name on the command line."""


def _code(text: str) -> str:
    return f"`{text}`"


def _escaped(text: str) -> str:
    """Return text with Markdown's special characters escaped, except in code between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<>\[\]#|~])", r"\\\1", part) for part in parts)


# ---- contents --------------------------------------------------------------------------------------------------------


def _summary(found: ProgramComparison | ProcessesComparison) -> str:
    """Return the opening sentences of the report."""
    if found.same:
        return "Nothing changes."
    if isinstance(found, ProcessesComparison):
        counts = [
            *_counts("process", "processes", [p.change for p in found.processes]),
            *_counts("channel", "channels", [c.change for c in found.channels]),
        ]
        return f"{_joined(counts)}."
    if found.same_meaning:
        said = "No change of meaning: every relation has the same tuples."
        if found.upgrade is not None and found.upgrade.needed:
            said += " A state must be upgraded nevertheless."
        return said
    counts = [
        *_counts("rule", "rules", [rule.change for rule in found.rules if rule.change != "rewritten"]),
        *_counts("relation", "relations", [relation.change for relation in found.relations]),
        *_counts("function", "functions", [function.change for function in found.functions]),
    ]
    said = f"{_joined(counts)}."
    published = [r for r in found.readers if r.change == "stays"]
    other = [r for r in published if r.contents != "same"]
    if published:
        many = f"{len(other)} of {len(published)} published relations" if other else "No published relation"
        said += f" {many} that {'stays' if len(published) == 1 else 'stay'} may have different tuples."
        if len(published) == 1:
            said = f"{_joined(counts)}. The tuples of `{published[0].relation}` " + (
                "may differ." if other else "are the same."
            )
    return said


def _counts(one: str, many: str, changes: list[str]) -> Iterator[str]:
    """Yield counts such as ``2 rules added``, one for each kind of change that occurs."""
    for change in ("added", "removed", "changed"):
        number = changes.count(change)
        if number:
            yield f"{number} {one if number == 1 else many} {change}"


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _sections(found: ProgramComparison | ProcessesComparison) -> Iterator[_Section]:
    """Yield all sections that have entries."""
    if isinstance(found, ProgramComparison):
        yield from _comparison_sections(found, 2)
        return
    channels = tuple(
        _Item(
            channel.change,
            f"`{channel.relation}` from {_end(channel.sender)} to {_end(channel.reader)}: "
            + (
                f"`{channel.new}`, was `{channel.old}`"
                if channel.change == "changed"
                else f"`{channel.new or channel.old}`"
            ),
        )
        for channel in found.channels
    )
    if channels:
        yield _Section("Channels", channels)
    for process in found.processes:
        text = f"Process `{process.name}` is {process.change}."
        if process.comparison is not None:
            text += " A new version of a process does not accept the old state: start it in a new home."
        yield _Section(f"Process {process.name}", (_Item("", text),))
        if process.comparison is not None:
            yield from _comparison_sections(process.comparison, 3)


def _end(process: str) -> str:
    return "outside" if process == "outside" else f"`{process}`"


def _comparison_sections(found: ProgramComparison, level: int) -> Iterator[_Section]:
    if found.same:
        return
    sections = {
        "Rules": _about_rules(found),
        "Relations": _about_relations(found),
        "How it is maintained": _about_layouts(found),
        "Upgrade of a state": () if found.upgrade is None else _about_upgrade(found.upgrade),
        "Effects on readers": _about_readers(found.readers),
        "Warnings": (_Item(w.change, f"{w.code}, {w.place}: {w.message}") for w in found.warnings),
    }
    for heading, items in sections.items():
        listing = tuple(items)
        if listing:
            yield _Section(heading, listing, level)


def _about_rules(found: ProgramComparison) -> Iterator[_Item]:
    for change in found.rules:
        if change.change != "rewritten":
            yield _Item(change.change, _named(change), tuple(_both(change)))
    for change in found.rules:
        if change.change == "rewritten":
            words = {
                "label": "a different label",
                "variables": "different variable names",
                "order": "a different order of literals",
                "notation": "a different notation",
            }
            said = listed(words[way] for way in change.ways)
            yield _Item("same", f"{_named(change)} means the same: {said}", tuple(_both(change)))
    for function in found.functions:
        lines = (f"- {function.old}" if function.old else "", f"+ {function.new}" if function.new else "")
        yield _Item(function.change, f"function `{function.name}`", tuple(filter(None, lines)))


def _named(change: RuleChange) -> str:
    """Return the label and place of a rule, and the old ones where they differ."""
    label, place = f"`{change.rule.label}`", change.rule.place
    if change.old is None or change.new is None:
        return f"{label} ({place})"
    if change.old.label != change.new.label:
        return f"{label} ({place}), was `{change.old.label}` ({change.old.place})"
    return f"{label} ({place}{'' if change.old.place == place else f', was {change.old.place}'})"


def _both(change: RuleChange) -> Iterator[str]:
    for sign, rule in (("-", change.old), ("+", change.new)):
        if rule is not None:
            yield f"{sign} {_rule_text(rule)}"


def _rule_text(rule: WrittenRule) -> str:
    return f"{rule.label}: {rule.text}"


def _about_relations(found: ProgramComparison) -> Iterator[_Item]:
    for change in found.relations:
        if change.change == "changed":
            yield _Item("changed", f"`{change.name}`: {_joined(map(detail_text, change.details))}")
        else:
            yield _Item(change.change, f"`{change.new or change.old}`")


def detail_text(detail: Detail) -> str:
    """Return a difference between declarations as a clause."""
    old, new = (f"`{value}`" if value else "none" for value in (detail.old, detail.new))
    match detail.what:
        case "column added":
            return f"column `{detail.column}` ({new}) is added"
        case "column removed":
            return f"column `{detail.column}` ({old}) is removed"
        case "column renamed":
            return f"column {old} is called {new}"
        case "type":
            return f"column `{detail.column}` is {new}, was {old}"
        case "column order":
            return f"the columns are in the order {new}, were in {old}"
        case "location":
            return f"its location is {new}, was {old}"
        case "key":
            return f"its key is {new}, was {old}"
        case "role":
            return f"it is {new}, was {old}"
    return f"symmetric: {detail.new}, was {detail.old}"


def _about_layouts(found: ProgramComparison) -> Iterator[_Item]:
    for change in found.layouts:
        name = f"{'the helper ' if change.helper else ''}`{change.relation}`"
        old, new = change.old, change.new
        if old is None:
            yield _Item("new", f"{name} is {new.kind_reason} ({METHODS[new.kind]}); {_cut(new)}")
            continue
        said = []
        if old.kind != new.kind:
            said.append(f"is {new.kind_reason} ({METHODS[new.kind]}), was {old.kind_reason} ({METHODS[old.kind]})")
        if set(old.together) != set(new.together):
            before = "alone" if len(old.together) == 1 else f"with {_names(old.together, change.relation)}"
            after = "alone" if len(new.together) == 1 else f"with {_names(new.together, change.relation)}"
            said.append(f"is computed {after}, was {before}")
        if (old.bucketed, old.column) != (new.bucketed, new.column):
            said.append(f"{_cut(new)}; before, it {_cut(old).replace('is ', 'was ', 1)}")
        yield _Item("changed", f"{name} {'; '.join(said)}")
    if found.stages is not None:
        old_stages, new_stages = found.stages.old, found.stages.new
        text = f"{counted(len(new_stages), 'stage')}, before {counted(len(old_stages), 'stage')}"
        lines = tuple(
            f"{sign} stage {number}: {', '.join(stage.strata)} "
            f"({'one task per bucket' if stage.bucketed else 'gathered in one task'})"
            for sign, stages in (("-", old_stages), ("+", new_stages))
            for number, stage in enumerate(stages, 1)
        )
        old_reasons = {(stage.strata, stage.reason) for stage in old_stages}
        why = [
            f"stage {number}: {stage.reason[:1].lower()}{stage.reason[1:].rstrip('.')}"
            for number, stage in enumerate(new_stages, 1)
            if stage.reason and (stage.strata, stage.reason) not in old_reasons
        ]
        yield _Item("stages", "; ".join([text, *why]), lines)


def _names(together: Iterable[str], besides: str) -> str:
    return listed(f"`{name}`" for name in together if name != besides)


def _cut(layout: Layout) -> str:
    if layout.bucketed:
        return f"is divided into buckets of `{layout.column}` ({layout.pivot_reason})"
    return f"is gathered in one task ({layout.pivot_reason})"


def _about_upgrade(upgrade: Upgrade) -> Iterator[_Item]:
    if not upgrade.needed:
        yield _Item("", "Nothing to do: the new script continues with the state of the old one.")
        return
    inputs = {item.relation: item.need for item in upgrade.inputs}
    for need, text in (
        ("given", "`--input {0}=PATH`: `{0}` has different columns than its stored rows"),
        ("empty", "`--input {0}=PATH`, or `{0}` starts empty: it is new as an input"),
    ):
        for name in (name for name, kind in inputs.items() if kind == need):
            yield _Item("needs" if need == "given" else "takes", text.format(name))
    if upgrade.functions:
        names = listed(f"`{name}`" for name in upgrade.functions)
        yield _Item("needs", f"`--functions FILE.py`, with {names}: any change of the file recomputes every relation")
    for relation in upgrade.recomputed:
        filled = {"given": ", from the given rows", "empty": ", empty unless given", "refilled": ", from its rows"}
        how = filled.get(inputs.get(relation.relation, ""), "")
        yield _Item("recomputes", f"`{relation.relation}`{how}: {'; '.join(relation.reasons)}")
    if upgrade.helpers:
        yield _Item("recomputes", "relations that the compiler added for rules")
    if upgrade.following:
        read = "it reads" if len(upgrade.following) == 1 else "they read"
        yield _Item("follows", f"{listed(f'`{n}`' for n in upgrade.following)}, by the net changes of what {read}")
    still = [name for name in upgrade.kept if name not in upgrade.following]
    if still:
        yield _Item("keeps", listed(f"`{name}`" for name in still))
    for name in upgrade.dropped:
        yield _Item("drops", f"`{name}`, with all its tuples")
    for name in (n for n, need in inputs.items() if need == "dropped" and n not in upgrade.dropped):
        yield _Item("drops", f"the rows of `{name}`, which is no longer an input")


def _about_readers(readers: Iterable[ReaderChange]) -> Iterator[_Item]:
    for reader in readers:
        name = f"`{reader.relation}`"
        if reader.change != "stays":
            text = "is published from now on" if reader.change == "new" else "is no longer published"
            yield _Item(reader.change, f"{name} {text}")
            continue
        said = [*map(detail_text, reader.details)]
        if reader.contents == "may differ":
            causes = list(reader.causes)
            more = [f"{len(causes) - MOST_TOLD} more"] if len(causes) > MOST_TOLD else []
            said.append(f"its tuples may differ, since {listed([*causes[:MOST_TOLD], *more])}")
        else:
            said.append("its tuples are the same for the same inputs")
        yield _Item("differs" if reader.details or reader.causes else "same", f"{name}: {'; '.join(said)}")
