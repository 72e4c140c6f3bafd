"""Run a program interactively: change facts, show what follows from that, and explain tuples.

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

from flintlog.compiler.naming import counted
from flintlog.runtime.database.explain import stored_tuple_text
from flintlog.runtime.explain.proofs import report_explanation
from flintlog.runtime.inputs.tuples import parse_tuple
from flintlog.runtime.kernel.errors import JobError
from flintlog.runtime.kernel.model import Relation
from flintlog.runtime.kernel.values import plain_row, stored_row
from flintlog.runtime.local.session import Row, refusal
from flintlog.runtime.row_kernel.model import RowRelation

from .session import AnySession

SHOWN = 40
"""How many tuples of a relation, or changes, to show by default."""


def row_text(relation: Relation | RowRelation, row: Row) -> str:
    """Return a row of a relation in program syntax."""
    return stored_tuple_text(relation, stored_row(relation.columns, row))


HELP = """\
+ link(1, 2), link(2, 3)   insert facts, and show the resulting changes
- link(1, 2)               delete facts
why reachable(1, 3)        explain why a tuple is there, or why not
depends link(1, 2)         show what would change without a fact
reachable                  show a relation; `reachable 100` shows 100 tuples
relations                  list all relations and their numbers of tuples
check                      recompute everything from the rules, and compare
help, quit
"""

_FACT = re.compile(r"""\s*([\w.]+\s*(?:\((?:"(?:[^"\\]|\\.)*"|[^()"])*\))?)\s*(?:[,.;]|$)""")
_WORDS = ("why", "depends", "relations", "check", "help", "quit")


class Interactive:
    """Answers input lines about the session of a program."""

    def __init__(self, session: AnySession, say: Callable[[str], None]) -> None:
        """Index the relations of a session; ``say`` prints a line."""
        self.session, self.say = session, say
        shown = [r for r in session.program.relations if not r.hidden]
        self.relations = {relation.name: relation for relation in shown}
        # A relation that is both input and derived has a separate relation for its input, with the same name.
        self.inputs = {r.name: r for r in session.program.relations if r.kind == "input" and not r.clock}

    @property
    def words(self) -> list[str]:
        """Return the words that a line may begin with, and the relations that it may mention."""
        return sorted([*_WORDS, *self.relations])

    def run(self, lines: Iterator[str]) -> bool:
        """Answer each line; return whether none was refused."""
        right = True
        for line in lines:
            if line.strip() in ("quit", "exit"):
                break
            try:
                self.answer(line.strip())
            except JobError as error:
                self.say(f"error: {refusal(error)}")
                right = False
        return right

    def answer(self, line: str) -> None:
        """Answer a line; raise JobError if it is refused."""
        word, _, rest = line.partition(" ")
        if not line or line.startswith("//"):
            return
        if line[0] in "+-":
            self.change(line[0], line[1:])
        elif word in ("why", "?") or line[0] == "?":
            self.why(rest if word in ("why", "?") else line[1:])
        elif word == "depends":
            self.depends(rest)
        elif line == "help":
            self.say(HELP.rstrip("\n"))
        elif line == "relations":
            for relation in self.relations.values():
                self.say(f"{relation.name}  {counted(len(self.session.rows(relation)), 'tuple')}")
        elif line == "check":
            findings = self.session.differences()
            for finding in findings:
                self.say(f"{finding['relation']}: {finding['problem']}")
            if not findings:
                self.say("no differences")
        else:
            self.show(word, rest)

    def change(self, op: str, text: str) -> None:
        """Insert or delete the facts of a line in one batch, and show the resulting changes of derived relations."""
        changes: dict[str, list[tuple[str, tuple[Any, ...]]]] = {}
        for fact in self.facts(text):
            named, values = parse_tuple(self.session.program, fact)
            relation = self.inputs.get(named.name)
            if relation is None:
                raise JobError(f"{named.name} is derived; only inputs can be changed")
            changes.setdefault(relation.table, []).append((op, plain_row(relation.columns, values)))
        self.session.apply(changes)
        lines = (
            f"{sign} {row_text(relation, row)}"
            for relation in self.relations.values()
            if relation.kind != "input"
            for sign, row in self.session.changes(relation)
        )
        self.list(lines, SHOWN, "no derived tuples have changed")

    def facts(self, text: str) -> list[str]:
        """Return the facts in a line, which are separated by commas; raise JobError for anything else."""
        matches, place = [], 0
        while place < len(text) and text[place:].strip():
            match = _FACT.match(text, place)
            if match is None:
                raise JobError(f"{text[place:].strip()} is not a fact; write it as in a program: link(1, 2)")
            matches.append(match[1])
            place = match.end()
        if not matches:
            raise JobError("write facts after it: + link(1, 2), link(2, 3)")
        return matches

    def why(self, text: str) -> None:
        """Show why a tuple is in its relation, or why not."""
        for line in report_explanation(self.session.explain(text.strip().rstrip("."))):
            self.say(line)

    def depends(self, text: str) -> None:
        """Show the derived tuples that would go, or come, if a fact were deleted, which it is not."""
        facts = self.facts(text)
        if len(facts) != 1:
            raise JobError("write one fact: depends link(1, 2)")
        named, values = parse_tuple(self.session.program, facts[0])
        relation = self.inputs.get(named.name)
        if relation is None:
            raise JobError(f"{named.name} is derived; delete a fact of an input to see what depends on it")
        changes = self.session.without(relation, plain_row(relation.columns, values))
        if changes is None:
            self.say(f"{stored_tuple_text(named, values)} is not there")
            return
        lines = (f"{sign} {row_text(other, row)}" for other, sign, row in changes)
        self.list(lines, SHOWN, f"nothing depends on {stored_tuple_text(named, values)}")

    def show(self, name: str, rest: str) -> None:
        """Show the tuples of a relation."""
        relation = self.relations.get(name.rstrip("."))
        if relation is None or not re.fullmatch(r"[0-9]{0,18}", rest.strip()):
            raise JobError(f"{name} {rest}".strip() + " is neither a command nor a relation; type `help` for help")
        lines = (row_text(relation, row) for row in self.session.rows(relation))
        self.list(lines, int(rest) if rest.strip() else SHOWN, f"{relation.name} has no tuples")

    def list(self, lines: Iterator[str], most: int, otherwise: str) -> None:
        """Print the first ``most`` lines and the number of the others, or ``otherwise`` if there are none."""
        first = [*islice(lines, most)]
        for line in first or [otherwise]:
            self.say(line)
        more = sum(1 for _ in lines)
        if more:
            self.say(f"... and {more:,} more")


def typed_lines(prompt: str, words: Sequence[str]) -> Generator[str]:
    """Yield the lines typed at the terminal, with completion of ``words`` and a persistent history; or those of
    standard input if it is no terminal. Ctrl-C discards a line, Ctrl-D ends the input."""
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
    """Set up readline; return the path of its history file, or None if readline is missing."""
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
