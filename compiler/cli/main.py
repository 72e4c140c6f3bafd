"""The command group ``flintlog``."""

from __future__ import annotations

import gc
import io
import sys
from typing import Any

import click
from flintlog.runtime.engines.options import empty_argument
from flintlog.runtime.system.printing import discard_output

from ..naming import reason
from .options import UNUSABLE


class _Commands(click.Group):
    """A group whose commands end with a message if their output cannot be written."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line, whose empty arguments are variables that are not set."""
        empty = empty_argument(args)
        if empty:
            raise click.UsageError(empty, ctx)
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command line. If the reader of a pipe has closed it, Click itself exits with 1, without a message."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.filename is not None:
                raise
            discard_output()
            click.echo(f"error: cannot write the output: {reason(error)}", err=True)
            sys.exit(UNUSABLE)


DEFAULT_THRESHOLD = gc.get_threshold()
"""How often Python collects garbage."""


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="flintlog", prog_name="flintlog")
def main() -> None:
    """Compile distributed Datalog to PySpark jobs that keep materialized views exact while their inputs change."""
    # Nearly all objects live until the command ends; garbage collection took a quarter of the time.
    gc.set_threshold(1_000_000, 10, 10)
    # File names may contain bytes that cannot be encoded.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
