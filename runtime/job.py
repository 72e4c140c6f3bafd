"""The commands of a program, as Python functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from .cli import run_command
from .commands.apply import apply_batch
from .commands.archive import export_state, import_state
from .commands.changes import read_changes
from .commands.compact import compact_state
from .commands.connect import connect_feeds
from .commands.explain import explain_tuple
from .commands.history import state_history
from .commands.init import init_state
from .commands.micro_batch import apply_stream_batch
from .commands.rebuild import rebuild_state
from .commands.recover import recover_state
from .commands.revert import revert_batch
from .commands.rollback import rollback_state
from .commands.show import read_relation
from .commands.status import state_status
from .commands.upgrade import upgrade_state
from .commands.vacuum import vacuum_state
from .commands.verify import verify_state
from .model import Program

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
        self.connect = bound(connect_feeds, program)
        self.init = bound(init_state, program)
        self.apply = bound(apply_batch, program)
        self.apply_micro_batch = bound(apply_stream_batch, program)
        self.status = bound(state_status, program)
        self.relation = bound(read_relation, program)
        self.explain = bound(explain_tuple, program)
        self.verify = bound(verify_state, program)
        self.rebuild = bound(rebuild_state, program)
        self.upgrade = bound(upgrade_state, program)
        self.compact = bound(compact_state, program)
        self.recover = bound(recover_state, program)
        self.history = bound(state_history, program)
        self.changes = bound(read_changes, program)
        self.rollback = bound(rollback_state, program)
        self.revert = bound(revert_batch, program)
        self.vacuum = bound(vacuum_state, program)
        self.export = bound(export_state, program)
        self.import_archive = bound(import_state, program)

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command that ``argv``, by default the command line, asks for; return its exit code."""
        return run_command(self.program, argv)
