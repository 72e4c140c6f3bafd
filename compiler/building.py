"""``flintlog build`` at work: compiles what the table lists, and writes, compares or removes files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from flintlog.targets import PROCESSES

from . import CompileOptions, compile_process_files, emit
from .build import (
    Config,
    ConfigError,
    Entry,
    Finding,
    Made,
    compared,
    depfile,
    find_config,
    orphans,
    read_config,
    sources_of,
)
from .cli import OK, REFUSED, UNUSABLE, Report, reason
from .naming import counted
from .pipeline import compile_program

#: What a finding says of its file.
STATES = {
    "missing": "is missing",
    "stale": "is stale: what it is made of has changed",
    "edited": "was edited by hand since it was made, or not made by a build",
    "orphaned": "is not made any more",
}


@dataclass
class Building:
    """A build, which can be run again and again."""

    config: Path | None
    check: bool = False
    prune: bool = False
    force: bool = False
    depends: bool = False
    depfile: Path | None = None
    form: str = "text"
    #: What the last run has read, for who wants to run it when that changes.
    sources: tuple[Path, ...] = ()

    def run(self) -> Report:
        """Build once; what there is to say is in the report, and printed."""
        report = Report((), self.form)
        try:
            file = shown(self.config or find_config(Path.cwd()))
            self.sources = (file,)
            config = read_config(file)
        except ConfigError as error:
            report.fail(UNUSABLE, str(error))
            return report
        except OSError as error:
            report.fail(UNUSABLE, f"cannot read {error.filename or file}: {reason(error)}")
            return report
        report.programs = tuple(program for entry in config.entries for program in entry.programs)
        made: list[Made] = []
        for entry in config.entries:
            for programs in entry.runs():
                made += self.files(entry, programs, report)
        self.sources = (file, *dict.fromkeys(path for one in made for path in one.sources), *report.programs)
        made = self.distinct(made, report)
        # What a program that is refused was compiled to before is no orphan.
        complete = report.code == OK
        done = self.compare(made, report) if self.check else self.write(made, report)
        if complete:
            self.orphaned(config, made, report)
        if self.depends and report.code == OK:
            self.write_depfile(config, made, report)
        click.echo(f"{counted(len(made), 'file')}, {done}", err=True)
        return report

    def files(self, entry: Entry, programs: tuple[Path, ...], report: Report) -> list[Made]:
        """The files of programs that are compiled together; none if they are refused."""
        found: list[Made] = []
        options = CompileOptions(entry.target, entry.format, entry.recursion, include_path=entry.include_path)
        with report.reporting(*programs):
            if entry.target == PROCESSES:
                texts, processes = compile_process_files(programs, options, outside=entry.outside)
                warnings, read = processes.warnings, processes.sources
            else:
                compilation = compile_program(programs[0], None, entry.recursion, entry.include_path)
                texts, warnings, read = emit(compilation, options), compilation.warnings, compilation.sources
            report.diagnostics(programs, warnings, read)
            sources = sources_of(programs, (source.name for source in read))
            found = [Made(entry.output / name, text, programs, sources) for name, text in texts.items()]
        return found

    def distinct(self, made: list[Made], report: Report) -> list[Made]:
        """The files, but for those that something else has made before."""
        first: dict[Path, Made] = {}
        for one in made:
            known = first.setdefault(one.path, one)
            if known is not one:
                report.fail(UNUSABLE, f"{known.programs[0]} and {one.programs[0]} both become {one.path}")
        return list(first.values())

    def compare(self, made: list[Made], report: Report) -> str:
        """Report what is not as it is built; how many that are, in words."""
        found = [finding for one in made if (finding := self.compared(one, report)) is not None]
        for finding in found:
            report.fail(REFUSED, f"{finding.path} {STATES[finding.state]}")
            if self.form == "text" and finding.difference:
                click.echo(finding.difference, nl=False)
        return f"{counted(len(found), 'difference')}"

    def write(self, made: list[Made], report: Report) -> str:
        """Write what differs, unless it was edited by hand; how many files that are, in words."""
        written = 0
        for one in made:
            finding = self.compared(one, report)
            if finding is None:
                continue
            if finding.state == "edited" and not self.force:
                report.fail(REFUSED, f"{one.path} {STATES['edited']}; move the change elsewhere, or build with --force")
                continue
            if report.write(one.path, one.text) is None:
                continue
            written += 1
            click.echo(f"wrote {one.path} ({counted(one.text.count(chr(10)), 'line')})", err=True)
        return f"{written} written"

    def compared(self, made: Made, report: Report) -> Finding | None:
        """How a file differs from what the build makes; None if it does not, or cannot be read, which is reported."""
        try:
            return compared(made)
        except OSError as error:
            report.fail(UNUSABLE, f"cannot read {made.path}: {reason(error)}")
            return None

    def orphaned(self, config: Config, made: list[Made], report: Report) -> None:
        """Report, or remove, what the build does not make any more."""
        for path in orphans(config.folders, (one.path for one in made)):
            if self.prune:
                path.unlink()
                click.echo(f"removed {path}", err=True)
            elif self.check:
                report.fail(REFUSED, f"{path} {STATES['orphaned']}; remove it with --prune")
            else:
                click.echo(f"{path} {STATES['orphaned']}; remove it with --prune", err=True)

    def write_depfile(self, config: Config, made: list[Made], report: Report) -> None:
        """Write what each file is made of."""
        path = self.depfile or config.file.parent / "flintlog.d"
        report.write(path, depfile(config.file, made, Path()))


def shown(path: Path) -> Path:
    """A path as people write it: relative to where they are, if it is below."""
    path = path.absolute()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def watching(building: Building) -> Iterator[None]:
    """Yields whenever something that the build reads, or a program beside it, has changed; ends with Ctrl-C."""
    try:
        from watchfiles import watch
    except ImportError:
        raise click.ClickException("--watch needs watchfiles: pip install watchfiles") from None
    while True:
        folders = {path.absolute().parent for path in building.sources}
        known = {path.absolute() for path in building.sources}
        click.echo(f"watching {counted(len(folders), 'folder')}; Ctrl-C ends", err=True)
        for changes in watch(*folders, recursive=False, raise_interrupt=False):
            if any(Path(path) in known or path.endswith(".dl") for _, path in changes):
                break
        else:
            return
        yield
