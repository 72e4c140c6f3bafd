"""The command group ``flintlog``."""

from __future__ import annotations

import gc
import io
import sys

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="flintlog", prog_name="flintlog")
def main() -> None:
    """Compile distributed Datalog to PySpark jobs that keep materialized views exact while their inputs change."""
    # Nearly all objects live until the command ends; garbage collection took a quarter of the time.
    gc.set_threshold(1_000_000, 10, 10)
    # File names may contain bytes that cannot be encoded.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
