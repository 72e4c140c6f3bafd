"""The command ``flintlog certify``."""

from __future__ import annotations

from pathlib import Path

import click

from ..naming import counted
from .main import main
from .options import (
    REFUSED,
    ProgramOptions,
    dialect_option,
    in_record,
    include_option,
    outside_option,
    programs_argument,
)
from .printing import echo
from .reporting import Report


@main.command()
@programs_argument
@outside_option
@include_option
@dialect_option
@in_record("options", ProgramOptions)
def certify(programs: tuple[Path, ...], outside: tuple[str, ...], options: ProgramOptions) -> None:
    """Print proofs that delta rules count changes exactly once.

    There is one certificate for each rule; the exit code is 1 if one does not hold.
    """
    from ..review.certify import certify as certificates

    report = Report(programs, options)
    for program, compilation in report.each(outside):
        certified = certificates(compilation.delta)
        for certificate in certified:
            echo(f"{certificate}\n")
        broken = [certificate.deltas.rule.label for certificate in certified if not certificate.holds]
        if broken:
            report.fail(REFUSED, f"{program}: the certificate does not hold for {', '.join(broken)}")
        else:
            click.echo(f"{program}: the certificate holds for {counted(len(certified), 'rule')}")
    report.finish()
