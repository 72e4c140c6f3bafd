"""The commands of a program, as Python functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from .cli import run_command
from .commands.apply import apply_batch
from .commands.compact import compact_state
from .commands.explain import explain_tuple
from .commands.init import init_state
from .commands.rebuild import rebuild_state
from .commands.recover import recover_state
from .commands.show import read_relation
from .commands.status import state_status
from .commands.upgrade import upgrade_state
from .commands.verify import verify_state
from .model import Program
from .parts import FUNCTIONS_OF_PARTS, FURTHER, lacking_part

P = ParamSpec("P")
R = TypeVar("R")


def bound(command: Callable[Concatenate[Program, P], R], program: Program) -> Callable[P, R]:
    """Return a command bound to a program; its signature has the remaining parameters."""

    @functools.wraps(command)
    def run(*given: P.args, **named: P.kwargs) -> R:
        return command(program, *given, **named)

    signature = inspect.signature(command)
    kept = list(signature.parameters.values())[1:]
    run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return run


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
        self.explain = bound(explain_tuple, program)
        self.verify = bound(verify_state, program)
        self.rebuild = bound(rebuild_state, program)
        self.upgrade = bound(upgrade_state, program)
        self.compact = bound(compact_state, program)
        self.recover = bound(recover_state, program)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the function of a part, bound to the program; raise AttributeError, with the option to compile with,
        if the script lacks the part."""
        if name not in FUNCTIONS_OF_PARTS:
            raise AttributeError(f"jobs have no function {name}")
        if name not in FURTHER:
            raise AttributeError(str(lacking_part(FUNCTIONS_OF_PARTS[name], f"the function {name}")))
        return bound(FURTHER[name], self.program)

    def __dir__(self) -> list[str]:
        """Return the names of the functions that are there, besides those of all objects."""
        return [*super().__dir__(), *(name for name in FUNCTIONS_OF_PARTS if name in FURTHER)]

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command that ``argv``, by default the command line, asks for; return its exit code."""
        return run_command(self.program, argv)
