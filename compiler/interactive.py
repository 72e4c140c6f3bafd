"""A program at the keyboard: facts come and go, and what that changes is shown, with the reasons.

> + link(1, 2), link(2, 3)
+ reachable(1, 2)
+ reachable(1, 3)
+ reachable(2, 3)
> why reachable(1, 3)
reachable(1, 3)  by r2: ...
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from .naming import counted

#: How much of a relation or of what has changed is shown, unless there is a number.
SHOWN = 40

HELP = """\
+ link(1, 2), link(2, 3)   insert facts; what that changes is shown
- link(1, 2)               delete them
why reachable(1, 3)        why a tuple is there, or why not
reachable                  the tuples of a relation; `reachable 100` shows so many of them
relations                  all relations, with how many tuples they have
check                      recount everything from the rules
help, quit
"""

_FACT = re.compile(r"""\s*([\w.]+\s*(?:\((?:"(?:[^"\\]|\\.)*"|[^()"])*\))?)\s*(?:[,.;]|$)""")
_WORDS = ("why", "relations", "check", "help", "quit")


class Interactive:
    """Answers what is typed, about a session of a program."""

    def __init__(self, module: Any, session: Any, say: Callable[[str], None]) -> None:
        """``module`` is the program's; ``say`` prints a line."""
        self.module, self.session, self.say = module, session, say
        shown = [r for r in session.program.relations if not r.hidden]
        self.relations = {relation.name: relation for relation in shown}
        # Of a relation that is derived too, what comes from outside is kept apart, under the same name.
        self.inputs = {r.name: r for r in session.program.relations if r.kind == "input"}

    @property
    def words(self) -> list[str]:
        """What a line may begin with or mention."""
        return sorted([*_WORDS, *self.relations])

    def run(self, lines: Iterator[str]) -> bool:
        """Answer each line; whether none was refused."""
        right = True
        for line in lines:
            if line.strip() in ("quit", "exit"):
                break
            try:
                self.answer(line.strip())
            except self.module.JobError as error:
                self.say(f"error: {self.module.refusal(error)}")
                right = False
        return right

    def answer(self, line: str) -> None:
        """Do what a line says; raises the module's JobError."""
        word, _, rest = line.partition(" ")
        if not line or line.startswith("//"):
            return
        if line[0] in "+-":
            self.change(line[0], line[1:])
        elif word in ("why", "?") or line[0] == "?":
            self.why(rest if word in ("why", "?") else line[1:])
        elif line == "help":
            self.say(HELP.rstrip("\n"))
        elif line == "relations":
            for relation in self.relations.values():
                self.say(f"{relation.name}  {counted(len(self.session.rows(relation)), 'tuple')}")
        elif line == "check":
            found = self.session.differences()
            for finding in found:
                self.say(f"{finding['relation']}: {finding['problem']}")
            if not found:
                self.say("all is as the rules say")
        else:
            self.show(word, rest)

    def change(self, op: str, text: str) -> None:
        """Insert or delete facts, all of a line at once, and show what that changes."""
        changes: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}
        for fact in self.facts(text):
            named, values = self.module.parse_tuple(self.session.program, fact)
            relation = self.inputs.get(named.name)
            if relation is None:
                raise self.module.JobError(f"{named.name} is derived; only inputs can be changed")
            changes.setdefault(relation.table, []).append((op, values))
        self.session.apply(changes)
        lines = (
            f"{sign} {self.module.tuple_text(relation, row)}"
            for relation in self.relations.values()
            if relation.kind != "input"
            for sign, row in self.session.changes(relation)
        )
        self.list(lines, SHOWN, "no tuple that is derived has changed")

    def facts(self, text: str) -> list[str]:
        """The facts of a line, between commas."""
        found, place = [], 0
        while place < len(text) and text[place:].strip():
            match = _FACT.match(text, place)
            if match is None:
                raise self.module.JobError(f"{text[place:].strip()} is no fact; write one as in a program: link(1, 2)")
            found.append(match[1])
            place = match.end()
        if not found:
            raise self.module.JobError("write facts behind it: + link(1, 2), link(2, 3)")
        return found

    def why(self, text: str) -> None:
        """Show why a tuple is there, or why not."""
        for line in self.module.report_explanation(self.session.explain(text.strip().rstrip("."))):
            self.say(line)

    def show(self, name: str, rest: str) -> None:
        """Show a relation."""
        relation = self.relations.get(name.rstrip("."))
        if relation is None or not re.fullmatch(r"[0-9]{0,18}", rest.strip()):
            raise self.module.JobError(
                f"{name} {rest}".strip() + " is no command and no relation; `help` tells what is"
            )
        lines = (self.module.tuple_text(relation, row) for row in self.session.rows(relation))
        self.list(lines, int(rest) if rest.strip() else SHOWN, f"{relation.name} has no tuples")

    def list(self, lines: Iterator[str], most: int, otherwise: str) -> None:
        """Say some lines, and how many more there are."""
        first = [*islice(lines, most)]
        for line in first or [otherwise]:
            self.say(line)
        more = sum(1 for _ in lines)
        if more:
            self.say(f"... and {more:,} more")


def typed_lines(prompt: str, words: Sequence[str]) -> Generator[str]:
    """The lines that a person types, with completion of ``words`` and the history of earlier times; or what standard
    input has, if that is no person. Ctrl-C gives a line up, Ctrl-D ends."""
    if not sys.stdin.isatty():
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    history = _with_completion(words)
    try:
        while True:
            try:
                yield input(prompt)
            except KeyboardInterrupt:
                print()
            except EOFError:
                print()
                return
    finally:
        if history is not None:
            import readline

            with contextlib.suppress(OSError):
                readline.set_history_length(1000)
                readline.write_history_file(history)


def _with_completion(words: Sequence[str]) -> Path | None:
    """Set the line editor up; the file of the history, None if there is no such editor here."""
    try:
        import readline
    except ImportError:
        return None
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "flintlog"
    history = folder / "history"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(history)

    def complete(text: str, number: int) -> str | None:
        return next(islice((word for word in words if word.startswith(text)), number, None), None)

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()+-?")
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    return history
