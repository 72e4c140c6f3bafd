"""Exit codes, and options shared by several commands."""

from __future__ import annotations

from pathlib import Path

import click

from ..dialects import DIALECTS

OK, REFUSED, UNUSABLE = 0, 1, 2


#: The stages for ``--dump``: ``pipeline.STAGES``, which is imported only to compile a program, and the script.
STAGES = ("syntax", "typed", "rewritten", "localized", "strata", "delta", "plan", "script")

#: What ``--dump`` prints, in order: the result of each pass, and behind it the stage that the pass completes.
DUMPS = (
    *("syntax", "expand_paths", "resolve", "expand_options", "infer_types", "check_safety", "typed"),
    *("project_channels", "split_aggregates", "split_inputs", "separate_groups", "linearize"),
    *("annotate_derivations", "project_negations"),
    *("annotate_proofs", "mark_closures"),
    *("rewritten", "localize", "localized", "stratify", "check_monotone", "warn_invention", "strata"),
    *("derive_deltas", "delta", "plan_stages", "find_matrices", "gather_facts", "plan", "script"),
)


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


rounds_option = click.option(
    "--max-rounds",
    type=click.IntRange(min=1),
    metavar="N",
    default=10_000,
    show_default=True,
    help="Stop a recursion that has not ended after N rounds.",
)
