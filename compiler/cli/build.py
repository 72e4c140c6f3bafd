"""The command ``flintlog build``."""

from __future__ import annotations

from pathlib import Path

import click

from .main import main
from .options import diagnostics_option


@main.command()
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The file with the table.  [default: the nearest flintlog.toml or pyproject.toml, here or above]",
)
@click.option(
    "--check", is_flag=True, help="Write nothing; exit with 1 if a file differs from the build, and print a diff."
)
@click.option("--prune", is_flag=True, help="Remove generated files that the build no longer makes.")
@click.option("--force", is_flag=True, help="Overwrite files even if they were edited by hand.")
@click.option("-MD", "depends", is_flag=True, help="Write the dependencies of each file as rules for Make.")
@click.option(
    "-MF",
    "depfile",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The file for -MD.  [default: flintlog.d beside the table]",
)
@click.option("--watch", is_flag=True, help="Rebuild whenever a program or the table changes, until Ctrl-C.")
@diagnostics_option
def build(
    config: Path | None,
    check: bool,
    prune: bool,
    force: bool,
    depends: bool,
    depfile: Path | None,
    watch: bool,
    form: str,
) -> None:
    """Compile the programs of a project and write changed files.

    
    The table in pyproject.toml, or in flintlog.toml without the heading:
      [tool.flintlog]
      output = "jobs"            # the default
      programs = [
          "rules/*.dl",          # paths are relative to this file
          { path = "network.dl", target = "processes", output = "jobs/network" },
      ]
    Options for all programs, or for one: output, target, runtime, with, recursion, format,
    outside, include-path.

    A file is written only if its content changes. Files that were edited by hand are not overwritten.
    """
    if depfile is not None and not depends:
        raise click.UsageError("-MF names the file for -MD; give both")
    if check and (prune or force or depends or watch):
        raise click.UsageError("--check writes nothing; leave out --prune, --force, -MD and --watch")
    if watch and form != "text":
        raise click.UsageError(f"--watch never ends, but --diagnostics {form} prints one document at the end")
    from .builder import Building, watching

    building = Building(config, check=check, prune=prune, force=force, depends=depends, depfile=depfile, form=form)
    report = building.run()
    if watch and building.sources:
        for _ in watching(building):
            building.run()
    report.finish()
