"""Every option of the commands that only processes and nodes have, with values that are not meant, as
``job/test_hostile_options.py`` does for the commands of all jobs: a message and an exit code, never a traceback."""

from __future__ import annotations

import argparse
import shutil
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from flintlog.runtime.addons.processes.network import nodes_main
from flintlog.runtime.job.shared_options import Parser
from flintlog.runtime.system import ended

from golden_tests.addons.nodes.test_router import compiled
from golden_tests.job.test_hostile_options import VALUES, files, name_of
from golden_tests.nightly import by_day

PROGRAM, NODES = compiled(
    """
    input relation link(@src: string, dst: string)
    output relation back(@dst: string, src: string)
    back(@D, S) :- link(@S, D).
    """,
    2,
    {"a": 0, "b": 1},
)

COMMANDS = {
    "route": ["--root", "net"],
    "serve": ["--node", "0", "--root", "net", "--on", "here"],
    "compact-feeds": ["--node", "0", "--root", "net"],
    "show": ["--root", "net", "back"],
    "changes": ["--root", "net", "back"],
    "explain": ["--root", "net", 'back("b", "a")'],
}
"""The commands, each with what it cannot do without."""

NUMBERS = ("nan", "inf", "1e999", "9" * 400)
FILES = ("list.json", "broken.json", "latin.json", "net")


def values_for(tried: argparse.Action) -> Sequence[str]:
    """The values to try for an argument: numbers where it is one, files where it names one."""
    return (*VALUES, *(NUMBERS if tried.metavar in ("N", "SECONDS") else FILES if "FILE" in str(tried.metavar) else ()))


class Ending(threading.Event):
    """The event that ends a command, which comes when the command has nothing to do."""

    def wait(self, timeout: float | None = None) -> bool:
        """Check the pause that was asked for, and end."""
        assert timeout is not None and 0 <= timeout < threading.TIMEOUT_MAX, timeout
        self.set()
        return True


@pytest.fixture
def ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``serve`` and ``route`` end as soon as they are idle."""
    monkeypatch.setattr(ended, "Ended", Ending)
    monkeypatch.setattr(signal, "signal", lambda *_: signal.SIG_DFL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network, which has been fed, and files that options may name."""
    folder = tmp_path_factory.mktemp("place")
    fed = folder / "net" / "feeds" / "node0" / "link"
    fed.mkdir(parents=True)
    (fed / "1.csv").write_text("op,src,dst\n+,a,b\n", encoding="utf-8")
    (folder / "list.json").write_text("[1]", encoding="utf-8")
    (folder / "broken.json").write_text("{", encoding="utf-8")
    (folder / "latin.json").write_bytes(b'{"a": "\xe9"}')
    return folder


def parser_of(command: str, line: Sequence[str]) -> argparse.ArgumentParser:
    """The parser that a command makes for a line."""
    parsers: list[argparse.ArgumentParser] = []

    class Caught(Exception):
        """The parser is there."""

    def catch(self: Parser, *_: Any) -> None:
        parsers.append(self)
        raise Caught

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parser, "parse_args", catch)
        with pytest.raises(Caught):
            nodes_main(PROGRAM, NODES, [command, *line])
    return parsers[0]


@by_day(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_hostile_values(
    command: str,
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ending: None,
) -> None:
    """What is refused leaves all files as they are."""
    here, needed = tmp_path / "here", COMMANDS[command]
    for tried in parser_of(command, needed)._actions:
        if tried.nargs == 0:
            continue
        option = name_of(tried)
        for value in values_for(tried):
            shutil.rmtree(here, ignore_errors=True)
            shutil.copytree(place, here)
            monkeypatch.chdir(here)
            before = files(here)
            if tried.option_strings:
                line = [*needed]
                if option in line:
                    del line[line.index(option) : line.index(option) + 2]
                line += [f"{option}={value}"]
            else:
                line = [*(needed if command == "compact-feeds" else needed[:-1]), "--", value]
            try:
                code = nodes_main(PROGRAM, NODES, [command, *line])
            except SystemExit as end:
                code = end.code
            said = "".join(capsys.readouterr())
            assert code in (0, 1, 2) and "Traceback" not in said, (option, value)
            assert code == 0 or said.strip(), (option, value)
            if code == 2:
                shown = value[:99].encode(errors="backslashreplace").decode()
                assert option in said or shown in said or not value, (option, value, said)
                assert files(here) == before, (option, value)
            assert code == 2 or tried.metavar != "SECONDS" or value not in NUMBERS, (option, value)
