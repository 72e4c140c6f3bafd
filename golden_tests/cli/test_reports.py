"""``--diagnostics json`` and ``sarif``, and ``flintlog errors``: what other programs read, and where it leads."""

from __future__ import annotations

import json
import re
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from flintlog.compiler.diagnostics import CODES, LONGEST_EXCERPT
from flintlog.compiler.diagnostics import index as error_index
from flintlog.compiler.dialects import DIALECTS, FLINTLOG

from golden_tests import packed
from golden_tests.cli.test_commands import REACH, REFUSED, WARNED, flintlog, written
from golden_tests.frontend.test_errors import CASES, REPORTED
from golden_tests.language import test_error_index as explanations
from golden_tests.nightly import AT_NIGHT
from golden_tests.packed import Case

DIALECT_CASES = Path(packed.__file__).parent / "dialects"


def document(form: str, *programs: Path, code: int) -> Any:
    """The document that ``flintlog check`` prints about some programs, leaving with an exit code."""
    result = flintlog("check", "--diagnostics", form, *programs)
    assert result.exit_code == code
    return json.loads(result.stdout)


# ---- JSON ------------------------------------------------------------------------------------------------------------


def test_json(tmp_path: Path) -> None:
    """Every name that the help lists, in its order."""
    program = written(tmp_path / "refused.dl", REFUSED)
    place = {"file": program.as_posix(), "end_column": 8, "column": 1}
    found = document("json", program, code=1)
    assert list(found) == ["diagnostics", "failures"]
    assert found["failures"] == []
    unbound, arity = found["diagnostics"]
    assert unbound == {
        "code": "E0401",
        "severity": "error",
        "message": "`Y` of the head is not bound in the body",
        "file": program.as_posix(),
        "line": 3,
        "column": 6,
        "end_line": 3,
        "end_column": 7,
        "help": "bind it by a positive atom or an assignment in the body",
        "notes": [],
        "documentation": None,
    }
    assert arity == {
        "code": "E0203",
        "severity": "error",
        "message": "`p` has 2 columns, but 1 argument here",
        **place,
        "line": 4,
        "end_line": 4,
        "end_column": 5,
        "help": None,
        "notes": [{"message": "first derived here", **place, "line": 3, "end_line": 3, "end_column": 2}],
        "documentation": None,
    }
    assert list(arity) == list(unbound)
    assert all(name in flintlog("check", "--help").stdout for name in unbound)


def needs_options(case: Case) -> bool:
    """Whether a case is compiled in another way than the command does by itself."""
    return "[" in case.shows or any(heading.startswith("file process_") for heading in case.parts)


def test_json_says_what_the_text_says(tmp_path: Path) -> None:
    """All golden errors: the same diagnostics and notes in the same order, at the places that the carets show."""
    for case in (case for _, case in CASES if not needs_options(case)):
        text, program = case.parts[REPORTED], packed.written(case, ".dl", tmp_path)
        found = document("json", program, code=1 if "error[" in text else 0)["diagnostics"]
        headlines = [f"{item['severity']}[{item['code']}]: {item['message']}" for item in found]
        assert headlines == re.findall(r"^(?:error|warning)\[.*", text, re.MULTILINE)
        said = [item for diagnostic in found for item in (diagnostic, *diagnostic["notes"]) if item["file"]]
        shown = re.findall(r"^  --> (.*):(\d+):(\d+)\n(?:\d+ \| .*\n +\| \s*(\^+)$)?", text, re.MULTILINE)
        assert len(said) == len(shown)
        for item, (file, line, column, carets) in zip(said, shown, strict=True):
            path = program.parent / file
            assert Path(item["file"]) == path
            assert (item["line"], item["column"], item["end_line"]) == (int(line), int(column), int(line))
            if carets and "wide" not in str(program):
                behind = item["column"] == item["end_column"]
                width = min(item["end_column"] - item["column"], LONGEST_EXCERPT)
                assert width == (0 if behind else len(carets))


def test_nothing_to_report(tmp_path: Path) -> None:
    """Empty lists, in both forms."""
    program = written(tmp_path / "reach.dl", REACH)
    assert document("json", program, code=0) == {"diagnostics": [], "failures": []}
    (run,) = document("sarif", program, code=0)["runs"]
    assert run["results"] == []
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert json.loads(flintlog("check", program, "--format", "json").stdout) == {"diagnostics": [], "failures": []}


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_failures_have_no_place(form: str, tmp_path: Path) -> None:
    """What cannot be read is said on standard error and in the document; the other programs are still reported."""
    program = written(tmp_path / "warned.dl", WARNED)
    result = flintlog("check", "--diagnostics", form, tmp_path / "{none}.dl", program)
    message = f"cannot read {tmp_path / '{none}.dl'}: no such file or directory"
    assert (result.exit_code, result.stderr) == (2, f"error: {message}\n")
    found = json.loads(result.stdout)
    if form == "json":
        assert found["failures"] == [message]
        assert [item["code"] for item in found["diagnostics"]] == ["W0801"]
    else:
        check_log(found)
        (run,) = found["runs"]
        escaped = message.replace("{none}", "{{none}}")
        notification = {"level": "error", "message": {"text": escaped}}
        assert run["invocations"] == [{"executionSuccessful": False, "toolExecutionNotifications": [notification]}]
        assert [item["ruleId"] for item in run["results"]] == ["W0801"]


def test_what_programs_share_is_reported_once(tmp_path: Path) -> None:
    """An included file with an error; its path is given from where the command runs."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "jobs").mkdir()
    library = written(tmp_path / "lib" / "links.dl", "input relation link(a: int, b: int\n")
    programs = [
        written(tmp_path / "jobs" / f"{name}.dl", f'include "../lib/links.dl"\noutput {name}.\n{name}(1).\n')
        for name in ("one", "two")
    ]
    (item,) = document("json", "--include-path", tmp_path / "lib", *programs, code=1)["diagnostics"]
    assert (item["file"], item["line"], item["code"]) == (library.as_posix(), 1, "E0104")


def test_compile_reports_too(tmp_path: Path) -> None:
    """The document on standard output, and the scripts where they belong."""
    warned, refused = written(tmp_path / "warned.dl", WARNED), written(tmp_path / "refused.dl", REFUSED)
    options = ("--no-format", "-o", tmp_path / "jobs", "--diagnostics", "json")
    result = flintlog("compile", refused, warned, *options)
    assert result.exit_code == 1
    assert [item["code"] for item in json.loads(result.stdout)["diagnostics"]] == ["E0401", "E0203", "W0801"]
    assert re.fullmatch(r"wrote .*warned\.py \(\d+ lines\)\n", result.stderr)
    assert [path.name for path in (tmp_path / "jobs").iterdir()] == ["warned.py"]


# ---- SARIF -----------------------------------------------------------------------------------------------------------

#: What SARIF 2.1.0 says of the objects that are used here: their properties, closed as in its JSON schema, "!" marking
#: those that the schema or the specification requires. A list has elements of one kind.
SARIF: dict[str, dict[str, Any]] = {
    "log": {"$schema": "uri", "version!": "2.1.0", "runs!": ["run"]},
    "run": {"tool!": "tool", "invocations": ["invocation"], "columnKind": "columnKind", "results": ["result"]},
    "tool": {"driver!": "component"},
    "component": {"name!": "text", "version": "text", "rules": ["rule"]},
    "rule": {
        "id!": "text",
        "name": "text",
        "shortDescription": "multiformat",
        "fullDescription": "multiformat",
        "help": "multiformat",
        "helpUri": "uri",
        "defaultConfiguration": "configuration",
    },
    "configuration": {"level": "level"},
    "multiformat": {"text!": "message text", "markdown": "message text"},
    "invocation": {"executionSuccessful!": "boolean", "toolExecutionNotifications": ["notification"]},
    "notification": {"level": "level", "message!": "message"},
    "message": {"text!": "message text"},
    "result": {
        "ruleId": "text",
        "ruleIndex": "index",
        "level": "level",
        "message!": "message",
        "locations": ["location"],
        "relatedLocations": ["location"],
    },
    "location": {"id": "index", "physicalLocation": "physical", "message": "message"},
    "physical": {"artifactLocation!": "artifact", "region": "region"},
    "artifact": {"uri": "reference"},
    "region": {"startLine!": "count", "startColumn": "count", "endLine": "count", "endColumn": "count"},
}

#: Simple values.
VALUES = {
    "2.1.0": lambda value: value == "2.1.0",
    "boolean": lambda value: isinstance(value, bool),
    "columnKind": lambda value: value in ("utf16CodeUnits", "unicodeCodePoints"),
    "count": lambda value: type(value) is int and value >= 1,
    "index": lambda value: type(value) is int and value >= 0,
    "level": lambda value: value in ("none", "note", "warning", "error"),
    "message text": lambda value: isinstance(value, str) and not re.search(r"[{}]", re.sub(r"\{\{|\}\}", "", value)),
    "reference": lambda value: re.fullmatch(r"[\w.~!$&'()*+,;=:@/%-]+", value, re.ASCII),
    "text": lambda value: isinstance(value, str) and value != "",
    "uri": lambda value: urlsplit(value).scheme in ("https", "http") and value.isascii(),
}


def check_log(log: Any) -> None:
    """Assert that a document is a SARIF log, and that what refers to each other in it agrees."""
    check_value(log, "log", "log")
    for run in log["runs"]:
        rules = run["tool"]["driver"]["rules"]
        for result in run["results"]:
            assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
            numbers = [location["id"] for location in result.get("relatedLocations", ())]
            assert numbers == list(range(len(numbers)))


def check_value(value: Any, kind: Any, path: str) -> None:
    """Assert that a value is of a kind of :data:`SARIF` or :data:`VALUES`."""
    if isinstance(kind, list):
        assert isinstance(value, list), path
        for place, element in enumerate(value):
            assert element not in value[:place] or kind == ["result"], f"{path}[{place}] is there twice"
            check_value(element, kind[0], f"{path}[{place}]")
    elif kind in VALUES:
        assert VALUES[kind](value), f"{path} is {value!r}, not {kind}"
    else:
        assert isinstance(value, dict), path
        known = {name.rstrip("!"): inner for name, inner in SARIF[kind].items()}
        assert value.keys() <= known.keys(), path
        assert {name.rstrip("!") for name in SARIF[kind] if name.endswith("!")} <= value.keys(), path
        for name, inner in value.items():
            check_value(inner, known[name], f"{path}.{name}")
        if kind == "region":
            assert (value["startLine"], value["startColumn"]) <= (value["endLine"], value["endColumn"]), path


#: Codes that need other options, or several files; and those of files that read of processes which are not there: these
#: belong together with files that have processes of these names.
OTHERWISE = {"E0126", "E0504", "E0704", "E0734", "E0735", "E0736", "E0740", "W0811", "W0812"}


@AT_NIGHT
def test_sarif_is_valid_for_all_golden_errors(tmp_path: Path) -> None:
    """One log for all of them, and for the wrong programs of explanations, in every dialect, but those of command files
    and of other options: what JSON says, in SARIF's words."""
    foreign = [
        packed.written(case, dialect.suffixes[0], tmp_path)
        for dialect in DIALECTS.values()
        if dialect is not FLINTLOG and dialect.suffixes
        for case in packed.cases_of(DIALECT_CASES / dialect.name / "refused.txt")
    ]
    expected = {code for code in CODES if code[1:3] != "09"} - OTHERWISE
    explained = [explanations.written(explanations.section(code).wrong, tmp_path / code) for code in sorted(expected)]
    programs = [*(packed.written(case, ".dl", tmp_path) for _, case in CASES), *foreign, *explained]
    log = document("sarif", *programs, code=1)
    check_log(log)
    (run,) = log["runs"]
    found = document("json", *programs, code=1)["diagnostics"]
    assert {item["code"] for item in found} == expected
    for item, result in zip(found, run["results"], strict=True):
        assert (result["ruleId"], result["level"]) == (item["code"], item["severity"])
        text = result["message"]["text"].replace("{{", "{").replace("}}", "}").replace("\\[", "[")
        assert text.startswith(item["message"])
        assert item["help"] is None or text.endswith(f"\nhelp: {item['help']}")
        places = [note for note in item["notes"] if note["file"]]
        assert all(f"\nnote: {note['message']}" in text for note in item["notes"] if not note["file"])
        for place, location in zip(
            [item, *places], result["locations"] + result.get("relatedLocations", []), strict=True
        ):
            physical = location["physicalLocation"]
            assert unquote(urlsplit(physical["artifactLocation"]["uri"]).path) == place["file"]
            assert list(physical["region"].values()) == [
                place[name] for name in ("line", "column", "end_line", "end_column")
            ]


def test_sarif_rules_are_the_codes(tmp_path: Path) -> None:
    """All of them, named and described; the documentation of those that were reported."""
    program = written(tmp_path / "warned.dl", WARNED)
    (run,) = document("sarif", program, code=0)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CODES)
    assert len({rule["name"] for rule in rules}) == len(rules)
    assert all(re.fullmatch(r"([A-Z0-9]\w*)+", rule["name"]) for rule in rules)
    assert [rule["shortDescription"]["text"] for rule in rules] == list(CODES.values())
    assert [rule["id"] for rule in rules if rule["defaultConfiguration"]["level"] == "warning"] == [
        code for code in CODES if code.startswith("W")
    ]
    (described,) = (rule for rule in rules if "help" in rule)
    assert described["id"] == "W0801"
    assert described["help"]["text"] == error_index.plain("W0801")
    assert described["help"]["markdown"] == error_index.sections()["W0801"]
    descriptions = [rule["fullDescription"]["text"] for rule in rules]
    assert all(text.endswith((".", "`")) and "```" not in text for text in descriptions)
    assert descriptions[list(CODES).index("W0801")] == error_index.description("W0801")


def test_sarif_names_files_by_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative to where the command runs if the program was given so; percent-encoded."""
    folder = tmp_path / "my jobs"
    folder.mkdir()
    written(folder / "größe 100%.dl", REFUSED)
    monkeypatch.chdir(tmp_path)
    for program, uri in [
        (Path("my jobs/größe 100%.dl"), "my%20jobs/gr%C3%B6%C3%9Fe%20100%25.dl"),
        (folder / "größe 100%.dl", (folder / "größe 100%.dl").as_uri()),
    ]:
        (run,) = document("sarif", program, code=1)["runs"]
        found = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]}
        assert found == {uri}


def test_sarif_takes_no_text_for_a_link_or_a_placeholder(tmp_path: Path) -> None:
    """Brackets and braces of a program stand for themselves."""
    program = written(tmp_path / "odd.dl", '{\ninput relation a(x: int)\np(X) :- a(X), X = "{0} [b](1)".\n')
    log = document("sarif", program, code=1)
    check_log(log)
    texts = [result["message"]["text"] for result in log["runs"][0]["results"]]
    assert texts[0] == "unexpected `{{`"
    assert r'`"{{0}} \[b](1)"` is string' in texts[1]


# ---- the documentation of the codes ----------------------------------------------------------------------------------


def test_addresses_lead_to_sections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The anchor of a heading is its text in small letters, in the site that the package names; without one there is
    no address, and links to other pages are their words."""
    linking = next(code for code, text in error_index.sections().items() if "(functions.md)" in text)
    assert {error_index.address(code) for code in CODES} == {None}
    assert "[functions.md]" not in error_index.markdown(linking) + error_index.plain(linking)
    named = Message()
    named["Project-URL"] = "Repository, https://code.example/flintlog"
    named["Project-URL"] = "Documentation, https://pages.example/flintlog/"
    monkeypatch.setattr(error_index, "metadata", lambda name: named)
    assert error_index.address("E0203") == "https://pages.example/flintlog/errors.html#e0203"
    assert "[functions.md](https://pages.example/flintlog/functions.html)" in error_index.markdown(linking)
    log = document("sarif", written(tmp_path / "warned.dl", WARNED), code=0)
    check_log(log)
    uris = [rule["helpUri"] for rule in log["runs"][0]["tool"]["driver"]["rules"]]
    assert uris == [error_index.address(code) for code in CODES]


def test_errors_command() -> None:
    """Without a code the list, with codes their sections."""
    result = flintlog("errors")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "".join(f"{code}: {title}\n" for code, title in CODES.items())
    result = flintlog("errors", "e0203", "W0801")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{error_index.plain('E0203')}\n\n{error_index.plain('W0801')}\n"
