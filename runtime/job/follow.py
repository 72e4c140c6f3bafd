"""The command ``follow``: apply what arrives in feeds or in a folder of batches."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from ..kernel.errors import Passing
from ..kernel.model import Program
from ..store.executors import Executor
from ..store.extensions import FEEDS, FURTHER, further
from ..system.ended import until_signal
from ..system.log import Log
from ..system.transient_errors import Troubles, obstacles_pass
from .apply import apply_batch, apply_one, check_batch_options
from .batch_folder import BatchFolder, batches_known
from .command_line import Command, Invocation, executor_for
from .shared_options import (
    add_cut,
    add_publish,
    add_reading,
    add_running,
    add_state,
    add_watching,
    option,
    seconds_option,
)

TICK = 10.0
"""How many seconds pass at least between two looks at what the time has changed, each of which is like a batch."""


def follow_batches(
    program: Program,
    executor: Executor,
    state: str,
    batches: str,
    poll: float,
    told: Callable[[dict[str, Any]], None],
    log: Log,
    ended: threading.Event,
    troubled: Callable[[Passing], None] | None = None,
    **options: Any,
) -> None:
    """Apply the batches of a folder, and those that arrive in it, until ``ended`` is set; call ``told`` with the result
    of each. The folder is looked at every ``poll`` seconds; a batch is applied once it has not changed between two
    looks. After an error that may pass, call ``troubled``, and try the same batch again, after pauses that grow. Raise
    JobError for a batch that is refused: a later one could depend on it."""
    folder = BatchFolder(batches, batches_known(program, state))
    log.event("follow", folder=batches, known=len(folder.known), on=executor.name, reason=executor.why)
    troubles, due = Troubles(log), 0.0
    while not ended.is_set():
        about: dict[str, str] = {}
        try:
            with obstacles_pass():
                waiting = folder.waiting(complete=False)
            for batch in waiting:
                about = {"batch": batch}
                told(apply_one(program, executor, state, folder, batch, log, options))
                troubles.over()
                if ended.is_set():
                    return
        except Passing as error:
            pause = troubles.note(str(error), **about)
            if troubled:
                troubled(error)
            ended.wait(pause)
            continue
        if not waiting:
            if program.clock is not None and time.monotonic() >= due:
                if result := FURTHER["follow time"](program, executor, state, log, options):
                    told(result)
                due = time.monotonic() + TICK
            ended.wait(poll)


def run_follow(call: Invocation) -> None:
    """Follow a folder of batches, or the connected feeds."""
    executor = executor_for(call, True)
    poll, batches = call.options.pop("poll"), call.options.pop("batches")
    if batches:
        check_batch_options(call)
    # PySpark replaces the handler of SIGINT: the batch that was interrupted changes nothing.
    with contextlib.suppress(KeyboardInterrupt):
        if batches:
            follow = functools.partial(follow_batches, call.program, executor, batches=batches, **call.options)
            follow(poll=poll, told=call.tell, log=call.log, ended=until_signal(), troubled=call.trouble)
        else:
            apply_once = functools.partial(apply_batch, call.program, executor, log=call.log, **call.options)
            follow_feeds = further("follow_feeds", FEEDS, "a feed to follow")
            follow_feeds(apply_once, poll, call.tell, call.log, until_signal(), call.trouble)


FOLLOW = Command(
    "follow",
    "apply batches as they arrive",
    "Apply what is new in the connected feeds again and again, or the batches in a folder, and those that arrive "
    "there, until SIGTERM or SIGINT. Give a batch a name that begins with a dot while it is being written.",
    (
        add_state,
        add_running,
        add_cut,
        add_publish,
        add_watching,
        option(
            "--batches",
            metavar="DIR",
            help="instead of feeds, a folder: each subfolder is a batch, and its name is the ID of the batch",
        ),
        option(
            "--poll",
            type=seconds_option,
            default=0.5,
            metavar="SECONDS",
            help="the interval at which to look for batches (default: %(default)s)",
        ),
        add_reading,
    ),
    run_follow,
)
