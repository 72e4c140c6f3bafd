"""The part ``operations``: what an operator needs on the command line, and as functions of jobs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..log import Log
from ..model import Program
from ..parsers import COMMAND_PARTS, CommandPart, Shared, add_command, add_format, add_strategy, positive
from ..parts import FURTHER
from ..session import choose_executor
from .archive import export_state, import_state, report_export, report_import
from .changes import print_changes, read_changes
from .history import report_history, state_history
from .report import REPORTS
from .revert import report_revert, revert_batch
from .rollback import report_rollback, rollback_state
from .vacuum import report_vacuum, vacuum_state


def add_operations(
    program: Program, commands: Any, shared: Shared, found: Mapping[str, argparse.ArgumentParser]
) -> None:
    """Add the commands."""
    comparing = add_command(
        commands,
        "changes",
        [shared.common, shared.placed],
        "print how a relation has changed",
        "Print the net changes of a relation between two commits that are kept.",
    )
    comparing.add_argument("relation", metavar="REL", help="the relation")
    comparing.add_argument(
        "--from", dest="since", type=positive, required=True, metavar="COMMIT", help="the commit before the changes"
    )
    comparing.add_argument(
        "--to", dest="until", type=positive, metavar="COMMIT", help="the commit after the changes (default: the last)"
    )
    add_format(comparing, "rows")
    history = add_command(
        commands,
        "history",
        [shared.common],
        "list the commits",
        "List the last commits, the newest first: what made each of them, when, and what it changed.",
    )
    history.add_argument("--limit", type=positive, metavar="N", help="list at most N commits")
    returning = add_command(
        commands,
        "rollback",
        [shared.common, shared.placed, shared.publishing, shared.placing],
        "return to an earlier commit",
        "Make a commit that has the state of an earlier one again, and publish what this changes. Batches that came "
        "after it can be applied again.",
    )
    returning.add_argument("--to", type=positive, required=True, metavar="COMMIT", help="the commit to return to")
    add_own_batch(returning)
    reverting = add_command(
        commands,
        "revert",
        [shared.common, shared.running, shared.publishing, shared.placing],
        "undo one batch",
        "Apply the inverse of what a batch has changed in the input relations, as a batch of its own.",
    )
    reverting.add_argument("reverted", metavar="BATCH", help="the ID of the batch")
    add_own_batch(reverting)
    add_strategy(reverting)
    removing = add_command(
        commands,
        "vacuum",
        [shared.common, shared.keeping],
        "remove what is not kept any more",
        "Remove data files that no commit needs which is kept, what killed commands have left, and the changes that "
        "other commits have published in the state.",
    )
    removing.add_argument(
        "--keep-published",
        action="store_true",
        help="remove no published changes",
    )
    removing.add_argument(
        "--tombstones",
        action="append",
        default=[],
        metavar="REL=DISTANCE",
        help="remove the sequences of dead keys of this relation that are further behind its newest sequence",
    )
    removing.add_argument(
        "--forget-sequences",
        action="append",
        default=[],
        metavar="REL",
        help="remove all sequences of this relation, which keeps none from now on",
    )
    exporting = add_command(
        commands,
        "export",
        [shared.common],
        "write the state to an archive",
        "Write the last commit of the state to one file, with checksums. Jobs may work on the state meanwhile.",
    )
    exporting.add_argument("--to", required=True, metavar="FILE.tar", help="the archive, which must not exist yet")
    importing = add_command(
        commands,
        "import",
        [shared.common],
        "make a state from an archive",
        "Make a new state from an archive that export has written.",
    )
    importing.add_argument("archive", metavar="FILE.tar", help="the archive")


def add_own_batch(parser: argparse.ArgumentParser) -> None:
    """Add the option for the ID of a batch that undoes others."""
    parser.add_argument(
        "--batch", metavar="ID", help="the ID of the new batch; with a known ID, nothing changes (default: a new ID)"
    )


def run_changes(program: Program, log: Log, as_json: bool, arguments: dict[str, Any]) -> None:
    """Print the net changes of a relation."""
    executor = choose_executor(program.name, arguments.pop("on"))
    form, name = arguments.pop("format"), arguments.pop("relation")
    print_changes(program, executor, name=name, form="json" if as_json else form, **arguments)


def run_rollback(program: Program, log: Log, as_json: bool, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """Return to an earlier commit."""
    executor = choose_executor(program.name, arguments.pop("on"))
    return rollback_state(program, executor, log=log, **arguments)


def run_revert(program: Program, log: Log, as_json: bool, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """Undo a batch."""
    executor = choose_executor(program.name, arguments.pop("on"), arguments["engine"])
    return revert_batch(program, executor, log=log, **arguments)


COMMAND_PARTS["operations"] = CommandPart(
    add_operations,
    {
        "changes": run_changes,
        "export": lambda program, log, as_json, arguments: export_state(program, **arguments),
        "history": lambda program, log, as_json, arguments: state_history(program, **arguments),
        "import": lambda program, log, as_json, arguments: import_state(program, **arguments),
        "revert": run_revert,
        "rollback": run_rollback,
        "vacuum": lambda program, log, as_json, arguments: vacuum_state(program, log=log, **arguments),
    },
)
FURTHER.update(
    history=state_history,
    changes=read_changes,
    export=export_state,
    import_archive=import_state,
    revert=revert_batch,
    rollback=rollback_state,
    vacuum=vacuum_state,
)
REPORTS.update(
    {
        "export": report_export,
        "history": report_history,
        "import": report_import,
        "revert": report_revert,
        "rollback": report_rollback,
        "vacuum": report_vacuum,
    }
)
