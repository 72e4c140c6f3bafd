"""docs/cli.md has the commands of ``flintlog`` and all their options."""

from __future__ import annotations

import re

import click
import pytest
from flintlog.compiler.cli import main
from flintlog.compiler.cli.options import STAGES

from golden_tests.documentation.pages import ROOT, in_code, table

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def rows(mark: str) -> list[tuple[list[str], str]]:
    """The rows of the table behind a mark: what stands in code in their first cells, and their last cells."""
    return [(in_code(first), last) for first, last in table(PAGE, mark)]


def options(command: click.Command) -> list[click.Option]:
    """The options of a command, without ``--help``."""
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def takes(option: click.Option) -> list[str]:
    """What the page writes behind the name of an option: what it takes, or its choices."""
    if option.metavar:
        return [option.metavar]
    if isinstance(option.type, click.Choice):
        return list(option.type.choices)
    return [] if option.is_flag else ["N"]


def test_commands() -> None:
    """Each command stands in the table and has a section, with its arguments, and no other."""
    told = {name for names, _ in rows("commands") for name in names}
    arguments = {
        name: [str(parameter.metavar) for parameter in command.params if isinstance(parameter, click.Argument)]
        for name, command in main.commands.items()
    }
    assert told == {" ".join([name, *metavars]) for name, metavars in arguments.items()}
    sections = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    assert sorted(sections) == sorted(main.commands)


@pytest.mark.parametrize("name", sorted(main.commands))
def test_options(name: str) -> None:
    """Each option of a command stands in its table, with what it takes and its default, and no other."""
    found = {}
    for option in options(main.commands[name]):
        default = option.default if option.show_default else None
        found[frozenset(option.opts)] = (takes(option), default)
    told = {}
    for codes, meaning in rows(f"options of {name}"):
        words = [word for code in codes for word in code.split(" ")]
        given = [word for word in words if not word.startswith("-")]
        default = re.search(r"`?([^`\s]+)`? unless given$", meaning)
        told[frozenset(word for word in words if word.startswith("-"))] = (given, default and default[1])
    assert told.keys() == found.keys()
    for option, (given, default) in found.items():
        assert told[option][0] == given, option
        assert default is None or told[option][1] == str(default), option


def test_stages() -> None:
    """The page names the stages that can be printed."""
    (meaning,) = (meaning for codes, meaning in rows("options of compile") if codes == ["--dump STAGE"])
    assert re.findall("`([a-z]+)`", meaning) == [*STAGES, "all"]
