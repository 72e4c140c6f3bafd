"""``flintlog run --interactive`` and ``flintlog replay -`` at a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from flintlog.compiler import cli
from flintlog.compiler.pipeline import compile_program
from flintlog.local.given import rows_of_place
from flintlog.local.interactive import Interactive
from flintlog.local.session import session_of, session_program
from flintlog.runtime.local.facts import read_facts

from golden_tests.cli.test_commands import REACH, written
from golden_tests.documentation.pages import pieces

KEYED = "input relation item(id: int, s: string) primary key (id)\noutput p.\np(S, count<*>) :- item(_, S).\n"


def typed(program: str, folder: Path, *lines: str, code: int = 0) -> list[str]:
    """What is said to lines that no person types."""
    path = written(folder / "program.dl", program)
    text = "".join(f"{line}\n" for line in lines)
    found = CliRunner().invoke(cli.main, ["run", str(path), "-i"], input=text, catch_exceptions=False)
    assert found.exit_code == code, found.output
    return found.output.splitlines()


def test_facts_come_and_go(tmp_path: Path) -> None:
    """The net changes of a line; a fact that is there changes nothing."""
    assert typed(
        REACH, tmp_path, "+ link(1, 2), link(2, 3)", "+link(1,2).", "- link(1, 2)", "reachable", "reachable 0"
    ) == [
        "+ reachable(1, 2)",
        "+ reachable(1, 3)",
        "+ reachable(2, 3)",
        "no derived tuples have changed",
        "- reachable(1, 2)",
        "- reachable(1, 3)",
        "reachable(2, 3)",
        "reachable has no tuples",
        "... and 1 more",
    ]


def test_what_depends_on_a_fact(tmp_path: Path) -> None:
    """What would go, or come, without a fact, which stays; also with derivation sets."""
    program = f"{REACH}output alone.\nalone(X) :- link(X, _), !reachable(1, X).\n"
    facts = "+ link(1, 2), link(2, 3), link(1, 3), link(2, 2)"
    lines = [facts, "depends link(2, 3)", "depends link(1, 2).", "depends link(2, 2)", "depends link(7, 7)", "check"]
    assert typed(program, tmp_path, *lines)[5:] == [
        "- reachable(2, 3)",
        "- reachable(1, 2)",
        "+ alone(2)",
        "- reachable(2, 2)",
        "link(7, 7) is not there",
        "no differences",
    ]
    for wrong in ("depends reachable(1, 2)", "depends link(1, 2), link(2, 3)", "depends"):
        assert typed(REACH, tmp_path, wrong, code=1)[0].startswith("error: ")


def test_what_depends_on_a_given_fact(tmp_path: Path) -> None:
    """Only that, although everything was new in the batch with the given facts."""
    path = written(tmp_path / "program.dl", REACH)
    written(tmp_path / "facts" / "link.csv", "src,dst\n1,2\n2,3\n5,6\n")
    arguments = ["run", str(path), "-i", "--facts", str(tmp_path / "facts")]
    found = CliRunner().invoke(cli.main, arguments, input="depends link(5, 6)\ncheck\n", catch_exceptions=False)
    assert found.output.splitlines() == ["- reachable(5, 6)", "no differences"]


def test_inputs_that_are_derived_too(tmp_path: Path) -> None:
    """What comes from outside is changed, also where a fact or a rule of the program adds to it."""
    text = (
        "input relation link(x: int, y: int)\ninput derived relation tr(n: int)\noutput o.\n"
        "link(1, 2).\ntr(X) :- link(X, _).\no(X) :- tr(X).\n"
    )
    assert typed(text, tmp_path, "+ link(2, 3)", "+ tr(9)", "- tr(9), link(2, 3)", "- link(1, 2)") == [
        *("+ link(2, 3)", "+ tr(2)", "+ o(2)"),
        *("+ tr(9)", "+ o(9)"),
        *("- link(2, 3)", "- tr(2)", "- tr(9)", "- o(2)", "- o(9)"),
        "no derived tuples have changed",
    ]


def test_conflicting_rows(tmp_path: Path) -> None:
    """No option is advised that there is not."""
    said = typed(KEYED, tmp_path, '+ item(1, "a"), item(1, "b")', code=1)
    assert said[0].endswith("in one batch, and their order is unknown")


def test_why(tmp_path: Path) -> None:
    """A proof, and how far each rule comes; nothing is changed by asking."""
    lines = typed(REACH, tmp_path, "+ link(1, 2), link(2, 1)", "why reachable(1, 1)", "? reachable(3, 1)", "check")
    assert lines[4].startswith("reachable(1, 1)  by r2: ")
    assert lines[5:8] == [
        "├─ link(1, 2)  given",
        "└─ reachable(2, 1)  by r1: reachable(@S, D) :- link(@S, D).  (program.dl:3)",
        "   └─ link(2, 1)  given",
    ]
    assert lines[8] == "reachable(3, 1) is not there"
    assert lines[-1] == "no differences"


def test_values(tmp_path: Path) -> None:
    """Texts have anything in them; a key takes the place of the row that had it."""
    lines = typed(KEYED, tmp_path, '+ item(1, "a), (b"), item(2, "c,\\" d")', '+ item(1, "e")', "p", "relations")
    assert lines[:2] == ['+ p("a), (b", 1)', '+ p("c,\\" d", 1)']
    assert lines[2:4] == ['- p("a), (b", 1)', '+ p("e", 1)']
    assert lines[4:] == ['p("c,\\" d", 1)', 'p("e", 1)', "item  2 tuples", "p  2 tuples"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("+ reachable(1, 2)", "reachable is derived; only inputs can be changed"),
        ("+ link(1)", "link has 2 columns (src: int, dst: int), and link(1) has 1 values"),
        ('+ link(1, "x")', 'link(1, "x"): dst: '),
        ("+", "write facts after it"),
        ("+ link(1, 2), (", "( is not a fact"),
        ("- nothing(1)", "nothing"),
        ("why", "is not a tuple"),
        ("reachable many", "reachable many is neither a command nor a relation"),
        ("reachable 99999999999999999999", "is neither a command nor a relation"),
        ("reachable " + "9" * 5000, "is neither a command nor a relation"),
        ("reachable ²", "is neither a command nor a relation"),
        ("foo", "foo is neither a command nor a relation"),
    ],
)
def test_what_is_wrong(line: str, message: str, tmp_path: Path) -> None:
    """It is said, the rest goes on, and nothing was changed."""
    lines = typed(REACH, tmp_path, line, "// a comment", "", "+ link(1, 2)", "quit", "+ link(2, 3)", code=1)
    assert lines[0].startswith("error: ")
    assert message in lines[0]
    assert lines[1:] == ["+ reachable(1, 2)"]


def own_terminal() -> None:
    """Let Ctrl-C reach who reads from the terminal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """A command at a terminal."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        """Start it."""
        self.master, slave = pty.openpty()
        home = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "TERM": "dumb"}
        command = [sys.executable, "-m", "flintlog", *arguments]
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=home, cwd=folder, preexec_fn=own_terminal
        )
        os.close(slave)
        self.said = ""

    def send(self, text: str) -> None:
        """Type something."""
        os.write(self.master, text.encode())

    def wait(self, text: str, seconds: float = 60.0) -> None:
        """Wait until something was said, and forget what was said up to it."""
        end = time.monotonic() + seconds
        while text not in self.said:
            assert time.monotonic() < end, self.said
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.master, 4096).decode()
                except OSError:
                    assert text in self.said, self.said
        self.said = self.said.partition(text)[2]

    def ask(self, text: str, answer: str) -> None:
        """Type something as soon as it can be read, and wait for an answer."""
        self.wait("> ")
        self.send(text)
        if answer:
            self.wait(answer)

    def close(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(60)
        os.close(self.master)
        return code


def test_keyboard(tmp_path: Path) -> None:
    """Tab completes names, Ctrl-C gives a line up, and the history is there the next time."""
    written(tmp_path / "reach.dl", REACH)
    terminal = Terminal(tmp_path, "run", "reach.dl", "-i")
    terminal.ask("+ li\t(1, 2)\r", "+ reachable(1, 2)\r\n")
    terminal.ask("+ link(2,", "link(2,")
    # The line editor may miss a Ctrl-C while it is at work on what was typed.
    for _ in range(20):
        time.sleep(0.2)
        terminal.send("\x03")
        with contextlib.suppress(AssertionError):
            terminal.wait("\r\n", 2.0)
            break
    terminal.ask("rea\t\r", "reachable(1, 2)\r\n")
    terminal.ask("\x04", "")
    assert terminal.close() == 0
    again = Terminal(tmp_path, "run", "reach.dl", "-i")
    again.ask("\x1b[A\x1b[A\r", "+ reachable(1, 2)\r\n")
    again.ask("quit\r", "")
    assert again.close() == 0


def test_replay_at_a_keyboard(tmp_path: Path) -> None:
    """Commands can be completed, and one that is wrong ends nothing."""
    written(tmp_path / "reach.dl", REACH)
    terminal = Terminal(tmp_path, "replay", "reach.dl", "-")
    terminal.send("start;\r")
    terminal.send("ins\tlink(1);\r")
    terminal.wait("error")
    terminal.send("insert link(1, 2);\rcommit dump_changes;\r")
    terminal.wait("reachable{.src = 1, .dst = 2}: +1")
    terminal.send("exit;\r")
    assert terminal.close() == 1


def test_manual(tmp_path: Path) -> None:
    """The session on the page of the command line is what a session prints."""
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```text\n(> .*?)^```$", page, re.MULTILINE | re.DOTALL)
    for piece in pieces(page):
        if piece.mark == "file":
            written(tmp_path / piece.what, piece.text)
    compilation = compile_program(tmp_path / "reach.dl")
    program = session_program(compilation)
    said: list[str] = []
    session = session_of(program, 100, None, compilation=compilation)
    session.apply(read_facts(program, tmp_path / "facts", said.append, read=rows_of_place))
    answering = Interactive(session, said.append)
    for line in block.splitlines():
        if line.startswith("> "):
            said.append(line)
            answering.run(iter([line[2:]]))
    assert said == block.splitlines()
