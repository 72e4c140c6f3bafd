"""The command ``flintlog explain``."""

from __future__ import annotations

from pathlib import Path

from .main import main
from .options import (
    ProgramOptions,
    dialect_option,
    in_record,
    include_option,
    outside_option,
    programs_argument,
    recursion_option,
)
from .printing import headed, print_coloured
from .reporting import Report


@main.command()
@programs_argument
@outside_option
@recursion_option
@include_option
@dialect_option
@in_record("options", ProgramOptions)
def explain(programs: tuple[Path, ...], outside: tuple[str, ...], options: ProgramOptions) -> None:
    """Describe how programs are evaluated and maintained.

    For each program, or each of its processes, print in prose: its relations, what is sent between locations, the
    strata, how changes are followed, and why.
    """
    from ..review.explain import explain as explanation

    report = Report(programs, options)
    texts = [explanation(compilation) for _, compilation in report.each(outside, warn=False)]
    if texts:
        print_coloured("\n\n".join(texts).rstrip("\n"), headed)
    report.finish()
