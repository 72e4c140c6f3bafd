"""The commands of a program, on its command line and as Python functions."""

from __future__ import annotations

import functools
import inspect
import operator
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..kernel.model import Program
from ..store.extensions import COMMANDS_OF_PARTS, FUNCTIONS_OF_PARTS, FURTHER, lacking_part
from .apply import APPLY, apply_batch
from .command_line import COMMANDS, PART_OPTIONS, Command, Invocation, run_commands
from .follow import FOLLOW
from .init import INIT, init_state
from .shared_options import has_derivations, is_explained
from .show import SHOW, read_relation
from .status import STATUS, state_status
from .verify import VERIFY, verify_state

BASIC_COMMANDS = (INIT, APPLY, FOLLOW, STATUS, SHOW, VERIFY)
"""The commands of all scripts."""


def commands_of(program: Program) -> dict[str, Command]:
    """Return the commands that there are for a program, by name, with the options of all parts."""
    parts = (COMMANDS[name] for name in dict.fromkeys([*COMMANDS_OF_PARTS, *COMMANDS]) if name in COMMANDS)
    return {
        command.name: replace(command, options=(*command.options, *PART_OPTIONS.get(command.name, ())))
        for command in (*BASIC_COMMANDS, *parts)
        if command.applies(program)
    }


def run_command(
    program: Program,
    argv: Sequence[str] | None = None,
    called: str = "",
) -> int:
    """Run a command of a program as :func:`run_commands` does."""
    lacking = functools.partial(lacking_command, program)
    invoke = functools.partial(Invocation, program)
    return run_commands(program, commands_of(program), invoke, argv, called, lacking)


def lacking_command(program: Program, asked: str, given: Sequence[str]) -> str:
    """Return why the script lacks a command that other scripts have; empty unless it does."""
    there = commands_of(program).keys() if asked != "depends" or has_derivations(program) else {asked}
    if asked not in COMMANDS_OF_PARTS.keys() - there:
        return ""
    # Another program may call the job.
    script = sys.argv[0] if [*given] == sys.argv[1:] and Path(sys.argv[0]).suffix == ".py" else "SCRIPT"
    again = shlex.join([asked, script, *given[given.index(asked) + 1 :]])
    return str(lacking_part(COMMANDS_OF_PARTS[asked], f"the command {asked}", again))


P = ParamSpec("P")
R = TypeVar("R")


def bound(command: Callable[Concatenate[Program, P], R], program: Program) -> Callable[P, R]:
    """Return a command bound to a program; its signature has the remaining parameters, whose values it checks."""
    full = inspect.signature(command)
    signature = full.replace(parameters=list(full.parameters.values())[1:])

    @functools.wraps(command)
    def run(*given: P.args, **named: P.kwargs) -> R:
        passed = signature.bind(*given, **named)
        for name, value in passed.arguments.items():
            passed.arguments[name] = checked_argument(signature.parameters[name], value)
        return command(program, *passed.args, **passed.kwargs)

    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def checked_argument(parameter: inspect.Parameter, value: Any) -> Any:
    """Return the value of a parameter, paths as text. Raise TypeError if it is declared to be text, a number or a truth
    value and is none."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    kinds = str(parameter.annotation).split(" | ")
    plain = {"str": str, "int": int, "bool": bool, "None": type(None)}
    if {*kinds} <= plain.keys() and type(value) not in map(plain.get, kinds):
        if "int" in kinds and hasattr(value, "__index__") and not isinstance(value, bool):
            return operator.index(value)  # as the numbers of NumPy
        if "str" in kinds and isinstance(value, str):
            return value
        raise TypeError(f"{parameter.name} is {value!r}; it must be {' or '.join(kinds)}")
    return value


class Job:
    """The commands of a program as functions: ``init``, ``apply`` and so on. Each takes a state, and a Spark session
    before it unless the command needs none; ``apply_micro_batch`` takes what ``foreachBatch`` passes before it."""

    def __init__(self, program: Program) -> None:
        """Bind all commands to the program."""
        self.program = program
        self.init = bound(init_state, program)
        self.apply = bound(apply_batch, program)
        self.status = bound(state_status, program)
        self.relation = bound(read_relation, program)
        self.verify = bound(verify_state, program)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the function of a part, bound to the program; raise AttributeError, with the option to compile with,
        if the script lacks the part."""
        if name not in FUNCTIONS_OF_PARTS:
            raise AttributeError(f"jobs have no function {name}")
        if name not in FURTHER or (name == "explain" and not is_explained(self.program)):
            command = {"import_archive": "import", "apply_micro_batch": ""}.get(name, name)
            line = f"{command} SCRIPT ..." if command else ""
            raise AttributeError(str(lacking_part(FUNCTIONS_OF_PARTS[name], f"the function {name}", line)))
        return bound(FURTHER[name], self.program)

    def __dir__(self) -> list[str]:
        """Return the names of the functions that are there, besides those of all objects."""
        return [*super().__dir__(), *(name for name in FUNCTIONS_OF_PARTS if name in FURTHER)]

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command that ``argv``, by default the command line, asks for; return its exit code."""
        return run_command(self.program, argv)
