"""The command ``flintlog job``."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import click

from ..naming import reason
from .main import DEFAULT_THRESHOLD, main
from .options import UNUSABLE


@main.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", metavar="COMMAND")
@click.argument("script", metavar="SCRIPT", type=click.Path(path_type=Path))
@click.argument("arguments", metavar="[ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def job(command: str, script: Path, arguments: tuple[str, ...]) -> None:
    """Run any command of a job, also one that its script does not contain.

    \b
      flintlog job explain jobs/reach.py --state state 'reachable(1, 3)'
      flintlog job rebuild jobs/reach.py --state state --buckets 16
      flintlog job history jobs/reach.py --help

    SCRIPT is a script of this release of Flintlog that was not edited since. The options are those
    of the job's own command line, and the exit code is that of the command.
    """
    from flintlog.targets.pyspark.load import WrongScript, load_script

    from ..diagnostics import escaped

    if str(script).startswith("-"):
        raise click.UsageError(f"give the script behind the command: flintlog job {command} SCRIPT {script} ...")
    try:
        loaded = load_script(script, command)
    except (WrongScript, OSError, ValueError) as error:
        said = reason(error) if isinstance(error, OSError) else error
        click.echo(escaped(f"error: cannot run {script}: {said}"), err=True)
        sys.exit(UNUSABLE)
    # A job may run for weeks.
    gc.set_threshold(*DEFAULT_THRESHOLD)
    sys.exit(loaded.run([command, *arguments]))
