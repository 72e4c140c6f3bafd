"""The command-line interface: it prints diagnostics and sets exit codes, nothing else.

Results go to standard output, messages about them to standard error. The exit code is 0 on success; 1 if a program, its
facts or a command in a command file is refused, or a certificate does not hold; 2 for a wrong command line, or a file
that cannot be read or written.
"""

from __future__ import annotations

from . import (
    build,
    certify,
    check,
    compile,
    diff,
    errors,
    explain,
    fmt,
    job,
    replay,
    report,
    run,
    simulate,
    test,
    topology,
)
from .main import main

COMMANDS = (
    build,
    certify,
    check,
    compile,
    diff,
    errors,
    explain,
    fmt,
    job,
    replay,
    report,
    run,
    simulate,
    test,
    topology,
)
"""The modules of the commands; each adds its command to the group when imported."""

__all__ = ["COMMANDS", "main"]
