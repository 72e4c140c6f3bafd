"""Exit codes, and options shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ..dialects import DIALECTS

OK, REFUSED, UNUSABLE = 0, 1, 2


STAGES = ("syntax", "typed", "rewritten", "localized", "strata", "delta", "plan", "script")
"""The stages for ``--dump``: ``pipeline.STAGES``, which is imported only to compile a program, and the script."""

DUMPS = (
    *("syntax", "expand_paths", "resolve", "expand_options", "infer_types", "check_safety", "typed"),
    *("project_channels", "split_aggregates", "split_inputs", "bound_times", "separate_groups", "linearize"),
    *("annotate_derivations", "project_negations"),
    *("annotate_proofs", "mark_closures"),
    *("rewritten", "localize", "localized", "stratify", "check_monotone", "warn_invention", "strata"),
    *("derive_deltas", "delta", "plan_stages", "find_matrices", "gather_facts", "plan", "script"),
)
"""The choices of ``--dump``, in order: the result of each pass, and behind it the stage that the pass completes."""


programs_argument = click.argument(
    "programs", nargs=-1, required=True, metavar="PROG...", type=click.Path(path_type=Path)
)


diagnostics_option = click.option(
    "--diagnostics",
    "--format",
    "form",
    type=click.Choice(("text", "json", "sarif")),
    default="text",
    show_default=True,
    help="How to report errors and warnings: as text on standard error, or as one JSON or SARIF 2.1.0 document on "
    "standard output.",
)


recursion_option = click.option(
    "--recursion",
    type=click.Choice(("ranks", "derivation-sets")),
    default="ranks",
    show_default=True,
    help="How recursions are maintained: by ranks, or by derivation sets, which list all facts that a fact was derived "
    "from and can be very large.",
)


entries_option = click.option(
    "--max-entries",
    type=click.IntRange(min=1),
    metavar="N",
    default=10_000_000,
    show_default=True,
    help="With --recursion derivation-sets: stop if a recursion has more than N derivation sets.",
)


outside_option = click.option(
    "--outside",
    multiple=True,
    metavar="REL",
    help="In programs of processes: a relation, or a process with all its relations, that is fed from outside. Can be "
    "repeated.",
)


include_option = click.option(
    "--include-path",
    "include_path",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Another folder, besides that of the program, from which files may be included. Can be repeated.",
)


dialect_option = click.option(
    "--dialect",
    type=click.Choice(tuple(DIALECTS)),
    callback=lambda context, option, name: name or "",
    metavar="NAME",
    help=f"The language of the program: {', '.join(DIALECTS)}.  [default: by its suffix]",
)


functions_option = click.option(
    "--functions",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE.py",
    help="The Python file with the external functions of the program.",
)


def _amount(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """An amount of memory that DuckDB understands."""
    if given is None:
        return None
    from flintlog.runtime.engines.options import memory_size
    from flintlog.runtime.kernel.errors import JobError

    try:
        return memory_size(given).strip()
    except JobError as error:
        raise click.BadParameter(str(error)) from error


memory_option = click.option(
    "--memory-limit",
    callback=_amount,
    metavar="SIZE",
    help="Give up if DuckDB needs more memory than this, such as 2GB. Without it, what exceeds 80 % of the machine's "
    "memory is spilled to the disk.",
)

time_option = click.option(
    "--as-of",
    metavar="TIME",
    help="The time that `now` has, in UTC, such as 2026-03-01 or '2026-03-01 12:00:00'.  [default: that of the clock]",
)

rounds_option = click.option(
    "--max-rounds",
    type=click.IntRange(min=1),
    metavar="N",
    default=10_000,
    show_default=True,
    help="Stop a recursion that has not ended after N rounds.",
)


@dataclass(frozen=True)
class ProgramOptions:
    """How the programs of a command are read and their recursions maintained."""

    recursion: str = "ranks"
    include_path: tuple[Path, ...] = ()
    dialect: str = ""


@dataclass(frozen=True)
class SessionOptions:
    """What the evaluation of a program in this process is given, and when it stops."""

    max_rounds: int
    max_entries: int
    functions: Path | None = None
    memory_limit: str | None = None
    as_of: str | None = None

    @property
    def function_file(self) -> str | None:
        """The path of the file with the external functions."""
        return str(self.functions) if self.functions else None


Command = Callable[..., None]


def in_record(name: str, record: type) -> Callable[[Command], Command]:
    """Return a decorator, below those of the options, that passes their values to a command in one argument: those that
    are called as fields of ``record``. Other fields keep their defaults."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def collecting(**values: Any) -> None:
            own = {field.name: values.pop(field.name) for field in fields(record) if field.name in values}
            command(**values, **{name: record(**own)})

        return collecting

    return decorate
