"""Run ``flintlog build``: compile what the table lists, then write, compare or remove files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from flintlog.targets import PROCESSES

from .. import CompileOptions, compile_process_files, emit
from ..build.table import (
    Config,
    ConfigError,
    Entry,
    FileFinding,
    MadeFile,
    compared,
    depfile,
    find_config,
    orphans,
    read_config,
)
from ..naming import counted, reason
from ..pipeline import compile_program
from .options import OK, REFUSED, UNUSABLE
from .reporting import Report, size_of

STATES = {
    "missing": "is missing",
    "stale": "is stale: its sources have changed",
    "edited": "was edited by hand or not made by a build",
    "orphaned": "is no longer made",
}
"""The description of each state of a finding."""


@dataclass
class Building:
    """A build that can be run repeatedly; the fields are the command's options."""

    config: Path | None
    check: bool = False
    prune: bool = False
    force: bool = False
    depends: bool = False
    depfile: Path | None = None
    form: str = "text"
    sources: tuple[Path, ...] = ()
    """The files read by the last run, for callers that rebuild on change."""

    def run(self) -> Report:
        """Build once; return the report, whose messages are printed already."""
        report = Report((), form=self.form)
        try:
            file = shown(self.config or find_config(Path.cwd()))
            self.sources = (file,)
            config = read_config(file)
        except ConfigError as error:
            report.fail(UNUSABLE, str(error))
            return report
        except OSError as error:
            report.fail(UNUSABLE, f"cannot read {error.filename}: {reason(error)}")
            return report
        report.programs = tuple(program for entry in config.entries for program in entry.programs)
        files: list[MadeFile] = []
        for entry in config.entries:
            for programs in entry.runs():
                files += self.files(entry, programs, report)
        self.sources = (file, *dict.fromkeys(path for one in files for path in one.sources), *report.programs)
        files = self.distinct(files, report)
        # What a program that is refused was compiled to before is no orphan.
        complete = report.code == OK
        done = self.compare(files, report) if self.check else self.write(files, report)
        if complete:
            self.orphaned(config, files, report)
        if self.depends and report.code == OK:
            self.write_depfile(config, files, report)
        click.echo(f"{counted(len(files), 'file')}, {done}", err=True)
        return report

    def files(self, entry: Entry, programs: tuple[Path, ...], report: Report) -> list[MadeFile]:
        """Return the files made from programs that are compiled together; none if the programs are refused."""
        files: list[MadeFile] = []
        options = CompileOptions(
            entry.target,
            entry.format,
            entry.recursion,
            include_path=entry.include_path,
            runtime=entry.runtime,
            parts=entry.parts,
            dialect=entry.dialect,
        )
        with report.reporting(*programs):
            if entry.target == PROCESSES:
                texts, processes = compile_process_files(programs, options, outside=entry.outside)
                warnings, read = processes.warnings, processes.sources
            else:
                compilation = compile_program(programs[0], None, entry.recursion, entry.include_path, entry.dialect)
                texts, warnings, read = emit(compilation, options), compilation.warnings, compilation.sources
            report.diagnostics(programs, warnings, read)
            sources = tuple(dict.fromkeys(Path(source.path) for source in read))
            files = [MadeFile(entry.output / name, text, programs, sources) for name, text in texts.items()]
            files += [MadeFile(entry.output / name, content) for name, content in options.shared.items()]
        return files

    def distinct(self, made: list[MadeFile], report: Report) -> list[MadeFile]:
        """Return each file once. Report files with the same path, except those that programs share."""
        first: dict[Path, MadeFile] = {}
        for one in made:
            earlier = first.setdefault(one.path, one)
            # Only what programs share is made by none of them.
            if earlier is not one and one.programs:
                report.fail(UNUSABLE, f"{earlier.programs[0]} and {one.programs[0]} both become {one.path}")
        return list(first.values())

    def compare(self, made: list[MadeFile], report: Report) -> str:
        """Report files that differ from the build; return their number in words."""
        findings = [finding for one in made if (finding := self.compared(one, report)) is not None]
        for finding in findings:
            report.fail(REFUSED, f"{finding.path} {STATES[finding.state]}")
            if self.form == "text" and finding.difference:
                click.echo(finding.difference, nl=False)
        return f"{counted(len(findings), 'difference')}"

    def write(self, made: list[MadeFile], report: Report) -> str:
        """Write files that differ, unless they were edited by hand; return their number in words."""
        written = 0
        for one in made:
            finding = self.compared(one, report)
            if finding is None:
                continue
            if finding.state == "edited" and not self.force:
                report.fail(REFUSED, f"{one.path} {STATES['edited']}; move the change elsewhere, or use --force")
                continue
            if report.write(one.path, one.content) is None:
                continue
            written += 1
            click.echo(f"wrote {one.path} ({size_of(one.content)})", err=True)
        return f"{written} written"

    def compared(self, made: MadeFile, report: Report) -> FileFinding | None:
        """Return how a file differs from the build; None if it does not, or if it cannot be read, which is reported."""
        with report.reporting(made.path):
            return compared(made)
        return None

    def orphaned(self, config: Config, made: list[MadeFile], report: Report) -> None:
        """Report generated files that the build no longer makes, or remove them with ``prune``."""
        for path in orphans(config.folders, (one.path for one in made)):
            if self.prune:
                path.unlink()
                click.echo(f"removed {path}", err=True)
            elif self.check:
                report.fail(REFUSED, f"{path} {STATES['orphaned']}; remove it with --prune")
            else:
                click.echo(f"{path} {STATES['orphaned']}; remove it with --prune", err=True)

    def write_depfile(self, config: Config, made: list[MadeFile], report: Report) -> None:
        """Write Make rules with the sources of each file."""
        path = self.depfile or config.file.parent / "flintlog.d"
        report.write(path, depfile(config.file, made, Path()))


def shown(path: Path) -> Path:
    """Return a path relative to the working directory if it is below it, otherwise the absolute path."""
    path = path.absolute()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def watching(building: Building) -> Iterator[None]:
    """Yield whenever a file read by the build, or a program beside one, has changed; return on Ctrl-C."""
    try:
        from watchfiles import watch
    except ImportError:
        raise click.ClickException("--watch needs watchfiles: pip install watchfiles") from None
    while True:
        folders = {path.absolute().parent for path in building.sources}
        sources = {path.absolute() for path in building.sources}
        click.echo(f"watching {counted(len(folders), 'folder')}; Ctrl-C ends", err=True)
        for changes in watch(*folders, recursive=False, raise_interrupt=False):
            if any(Path(path) in sources or path.endswith(".dl") for _, path in changes):
                break
        else:
            return
        yield
