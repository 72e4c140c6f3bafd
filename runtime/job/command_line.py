"""The commands of programs: their options, and what they say while they run."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engines.options import Options
from ..kernel.errors import JobError, Passing, Refused, failure, remember_keys, without_keys
from ..kernel.model import Program
from ..kernel.values import value_text, visible
from ..spark.executor import executor_of
from ..spark.session import choose_executor, submitted
from ..store.executors import Executor
from ..store.extensions import further
from ..store.publish import check_cut, published_where
from ..store.request import Request
from ..store.retention import moment_after
from ..system.log import Log
from ..system.permissions import open_to_all, private_files
from ..system.places import given_place
from ..system.printing import discard_output, visible_lines
from .report import report_commit
from .shared_options import AddOptions, Parser

if TYPE_CHECKING:
    from ..spark.types import SparkSession

Report = Callable[[Mapping[str, Any]], Iterator[str]]
"""Returns the lines that report a result."""


class Metrics:
    """Appends a line of JSON to a file for each batch, and for each command that fails."""

    def __init__(self, file: str, program: str, command: str, state: str, log: Log) -> None:
        """Raise JobError if the file cannot be written."""
        self.file: Path | None = Path(file)
        self.log = log
        self.known = {"program": program, "command": command, "state": without_keys(state)}
        try:
            self.file.open("a", encoding="utf-8").close()
        except OSError as error:
            raise JobError(f"{file} cannot be written to: {error.strerror}") from error

    def add(self, result: Mapping[str, Any]) -> None:
        """Append the result of a batch, or the error of a command. A command must not fail, or appear to fail, because
        its result cannot be recorded."""
        if self.file is None:
            return
        told = {**self.known, **result}
        if "steps" in told:
            told["steps"] = [{key: step[key] for key in step if key != "tasks"} for step in told["steps"]]
        line = json.dumps({"time": moment_after(""), **told}, default=value_text, ensure_ascii=False)
        try:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(f"{line}\n")
        except OSError as error:
            self.log.warn(f"{self.file} gets no more measurements: {error}")
            self.file = None


class CommandCall:
    """A command of a program that was given."""

    def __init__(self, program: Any, command: Command, options: dict[str, Any], quiet: bool = False) -> None:
        """Take the options that all commands share; the others are left in ``options``."""
        self.program, self.command, self.options = program, command, options
        self.as_json = bool(options.pop("json"))
        self.quiet = bool(options.pop("quiet")) or quiet
        self.log_file = options.pop("log_file", None)
        self.log = Log(self.quiet)
        self.metrics: Any = None

    def run(self) -> int:
        """Run the command, and return its exit code; errors are raised."""
        self.begin()
        result = self.command.run(self)
        self.log.clear()
        if result is None:
            return 0
        self.tell(result)
        return 1 if result.get("differences") else 0

    def begin(self) -> None:
        """Open the log, and warn of places that everybody may change."""
        if self.log_file:
            self.log = Log(self.quiet, self.log_file)
        for place in (self.options.get("state"), self.options.get("publish")):
            warning = open_to_all(place) if isinstance(place, str) else ""
            if warning:
                self.log.warn(warning)

    def form(self) -> str:
        """Return the form in which to print rows."""
        form: str = self.options.pop("format")
        return "json" if self.as_json else form

    def failure(self, error: Exception) -> str:
        """Return the message for an error that is no bug; an empty string for any other."""
        return str(error) if isinstance(error, OSError) else ""

    def tell(self, result: Mapping[str, Any]) -> None:
        """Print a result, and measure it."""
        self.log.clear()
        if self.metrics:
            self.metrics.add(result)
        report = self.command.report(result)
        self.print([json.dumps(result, default=value_text)] if self.as_json else map(visible, report))

    def refuse(self, message: str, kind: str) -> int:
        """Say why the command fails, and return its exit code."""
        self.log.clear()
        said = visible_lines(without_keys(f"{self.command.name}: {message}"))
        with contextlib.suppress(OSError):
            print(said, file=sys.stderr, flush=True)
        if self.metrics:
            self.metrics.add({"error": said, "kind": kind})
        if self.as_json:
            self.print([json.dumps({"program": self.program.name, "error": said, "kind": kind})])
        return 1

    def print(self, lines: Iterable[str]) -> None:
        """Print lines at once. What the command did does not fail because nobody reads its result."""
        try:
            print(*lines, sep="\n", flush=True)
        except BrokenPipeError:
            discard_output()
        except OSError as error:
            discard_output()
            self.log.warn(f"the result cannot be printed: {error.strerror}")


class Invocation(CommandCall):
    """A command of a job that was given."""

    def __init__(self, program: Program, command: Command, options: dict[str, Any]) -> None:
        """Take the options of measurements, too."""
        # Spark-submit sends the standard error of a driver to its standard output, which is for results.
        super().__init__(program, command, options, submitted())
        self.measured, self.watched = options.pop("metrics", None), options.pop("openlineage", False)

    def begin(self) -> None:
        """Open the logs, and warn of places that everybody may change."""
        super().begin()
        if self.measured:
            self.metrics = Metrics(self.measured, self.program.name, self.command.name, self.options["state"], self.log)
        if self.watched:
            lineage = further("lineage", "openlineage", "sending events (--openlineage)")
            self.log.watcher = lineage(self.program, self.log)

    def failure(self, error: Exception) -> str:
        """Return the message for an error that is no bug; an empty string for any other."""
        return failure(error)

    def trouble(self, error: Passing) -> None:
        """Note an error after which the command goes on."""
        if self.metrics:
            self.metrics.add({"error": f"{self.command.name}: {error}", "kind": "passing"})


@dataclass(frozen=True)
class Command:
    """A command: what ``help`` says in the list and in its own ``description``, what adds its ``options``, what runs
    it, and what reports its result if it has one. It is there in programs for which it ``applies``."""

    name: str
    help: str
    description: str
    options: tuple[AddOptions, ...]
    run: Callable[[Any], Mapping[str, Any] | None]
    report: Report = report_commit
    applies: Callable[[Any], bool] = lambda program: True

    def add_to(self, commands: Any, program: Any, called: str) -> Parser:
        """Add the parser of the command to those of the others; ``called`` is how it is called, empty for the usual
        way."""
        named = {"prog": called} if called else {}
        parser: Parser = commands.add_parser(self.name, help=self.help, description=self.description, **named)
        for add in self.options:
            add(parser, program)
        return parser


COMMANDS: dict[str, Command] = {}
"""The commands of the parts that are there, by name. Their modules register them."""

PART_OPTIONS: dict[str, list[AddOptions]] = {}
"""What parts add to the options of other commands, by their names. The modules of the parts register it."""


def executor_for(call: Invocation, keep: bool = False) -> Executor:
    """Return the executor that the options of a command name."""
    return choose_executor(call.program.name, call.options.pop("on"), call.options.get("engine", "auto"), keep)


def on_executor(function: Callable[..., Mapping[str, Any]]) -> Callable[[Invocation], Mapping[str, Any]]:
    """Return what runs a function of a job as a command, with its options as arguments."""

    def run(call: Invocation) -> Mapping[str, Any]:
        executor = executor_for(call)
        return function(call.program, executor, log=call.log, **call.options)

    return run


def request_of(
    program: Program,
    spark: SparkSession | Executor | None,
    state: str,
    log: Log | None,
    options: Options | None = None,
    publish: str | None = None,
    by: str | None = None,
) -> Request:
    """Return the request of a command with these arguments: ``publish`` says where changes are published, and ``by``
    how they are cut. Raise JobError for a value that is impossible."""
    cut = check_cut(program, by)
    executor, root, where = executor_of(spark), given_place(state), published_where(publish)
    return Request(program, executor, root, log or Log(), options or Options(1), where, cut)


# Running


INTERRUPTED = 128 + signal.SIGINT
"""The exit code of a command that Ctrl-C has ended."""


def command_line(program: Any, commands: Mapping[str, Command], called: str = "") -> Parser:
    """Return the parser of the command line: all commands and their options. ``called`` is how commands are called,
    with ``{}`` for their names, if that is not by the script."""
    inputs = ", ".join(sorted(r.name for r in program.relations if r.kind == "input" and not r.clock)) or "none"
    parser = Parser(
        prog=called.partition(" {}")[0] or None,
        description=f"Keep the views of {program.name} exact while its inputs change. Input relations: {inputs}.",
        epilog="Exit codes: 0 for success, 1 for a failure, refused input or differences, 2 for a wrong command line.",
    )
    parsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in commands.items():
        command.add_to(parsers, program, called.format(name))
    return parser


def run_commands(
    program: Any,
    commands: Mapping[str, Command],
    invoke: Callable[[Command, dict[str, Any]], CommandCall],
    argv: Sequence[str] | None = None,
    called: str = "",
    lacking: Callable[[str, Sequence[str]], str] = lambda asked, given: "",
) -> int:
    """Run the command that ``argv``, by default the command line, asks for; ``invoke`` makes the call of it. ``called``
    is as for :func:`command_line`; ``lacking`` says why there is no command of a name. Return 0 if it succeeded, 1 if
    it was refused or failed, or if verify found differences, and INTERRUPTED."""
    given = sys.argv[1:] if argv is None else [*argv]
    alone = argv is None or bool(called)
    states = [
        after.removeprefix("--state=")
        for before, after in itertools.pairwise(["", *given])
        if before == "--state" or after.startswith("--state=")
    ]
    try:
        with private_files(states[0] if states else ""):
            for argument in given:
                remember_keys(argument)
            line = command_line(program, commands, called)
            reason = lacking(next((argument for argument in given if not argument.startswith("-")), ""), given)
            if reason:
                line.error(reason)
            options = vars(line.parse_args(given))
            return run_given(invoke(commands[options.pop("command")], options), alone)
    except KeyboardInterrupt:
        # Before the command has begun, or behind its end.
        if not alone:
            raise
        return INTERRUPTED


def run_given(call: CommandCall, alone: bool) -> int:
    """Run a command, in a process that is ``alone`` for it, and return as :func:`run_command`."""
    try:
        return call.run()
    except JobError as error:
        kind = "passing" if isinstance(error, Passing) else "refused" if isinstance(error, Refused) else "error"
        return call.refuse(str(error), kind)
    except KeyboardInterrupt:
        if not alone:
            raise
        call.refuse("interrupted; what is committed is published by the next command", "passing")
        return INTERRUPTED
    except Exception as error:
        call.log.clear()
        if not call.failure(error):
            said = traceback.format_exc()
            if without_keys(said) == said:
                raise
            print(without_keys(said), file=sys.stderr)
            return 1
        return call.refuse(call.failure(error), "passing")
    finally:
        if call.log.watcher:
            call.log.watcher.close()
