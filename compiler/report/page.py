"""From compiled programs to pages: one file each, which needs no network and runs no script."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flintlog.targets import EmitOptions, module_name
from flintlog.targets.processes.emit import make_processes
from flintlog.targets.pyspark.emit import make_script
from jinja2 import Environment, PackageLoader, StrictUndefined

from ..ir.topology import Topology
from ..pipeline import Compilation
from ..processes import Processes
from .joblog import read_runs
from .topology import TopologyView, flows, topology_view
from .view import Link, ProgramView, ProgramViewer, Sources, SourceView, styles

#: The styles of Pygments whose colours code has, in light and in dark: such that all of it can be read.
LIGHT, DARK = "default", "github-dark"


@dataclass(frozen=True)
class PageView:
    """Everything a page prints; a program that is not of processes is one program without a name."""

    title: str
    summary: str
    compiler: str
    contents: tuple[Link, ...]
    sources: tuple[SourceView, ...]
    topology: TopologyView | None
    programs: tuple[ProgramView, ...]
    light: str
    dark: str


def report_page(found: Compilation | Processes, options: EmitOptions, log: str = "", root: Path | None = None) -> str:
    """The page about a program; ``log`` is the text of a job's log, ``root`` the folder of a run of processes, both
    empty if there is none. Raises OSError if a log of ``root`` cannot be read."""
    view = _processes(found, options, root) if isinstance(found, Processes) else _program(found, options, log)
    return _environment().get_template("page.html.jinja").render(view=view)


def topology_page(topology: Topology, title: str, root: Path | None) -> str:
    """The page with the picture of a topology, and with what has flowed in a run whose folder is ``root``."""
    flowed = flows(root / "logs") if root is not None else {}
    view = topology_view(topology, flowed, {})
    return _environment().get_template("topology.html.jinja").render(title=title, topology=view)


def _program(found: Compilation, options: EmitOptions, log: str) -> PageView:
    name = found.sources[0].name
    sources = Sources(found.sources)
    script = make_script(found.plan, options.compiler, options.format)
    viewed = ProgramViewer(found, script, f"{module_name(name)}.py", sources, read_runs(log)).view()
    contents = [
        Link("Program", "#source"),
        Link("Dependencies", f"#{viewed.anchor}-graph"),
        *([Link("Runs", f"#{viewed.anchor}-runs")] if viewed.runs else []),
        Link("Relations and rules", f"#{viewed.anchor}-rules"),
        Link("Script", f"#{viewed.anchor}-script"),
    ]
    return _page(name, viewed.summary, options, contents, sources, None, (viewed,))


def _processes(found: Processes, options: EmitOptions, root: Path | None) -> PageView:
    sources = Sources(found.sources)
    plans = {name: compilation.plan for name, compilation in found.compilations.items()}
    scripts = make_processes(found.topology, plans, options)
    programs = []
    for process in found.topology.processes:
        name = process.name
        log = root / "logs" / f"{name}.log" if root is not None else None
        text = log.read_text(encoding="utf-8", errors="replace") if log is not None and log.exists() else ""
        viewer = ProgramViewer(
            found.compilations[name], scripts[name], f"{module_name(name)}.py", sources, read_runs(text), name
        )
        programs.append(viewer.view())
    anchors = {viewed.name: f"#{viewed.anchor}" for viewed in programs}
    topology = topology_view(found.topology, flows(root / "logs") if root is not None else {}, anchors)
    contents = [
        Link("Program", "#source"),
        Link("Processes", "#topology"),
        *(Link(viewed.name, f"#{viewed.anchor}") for viewed in programs),
    ]
    title = ", ".join(source.name for source in found.sources)
    summary = f"{len(programs)} processes, {len(found.topology.channels)} channels"
    return _page(title, summary, options, contents, sources, topology, tuple(programs))


def _page(
    title: str,
    summary: str,
    options: EmitOptions,
    contents: list[Link],
    sources: Sources,
    topology: TopologyView | None,
    programs: tuple[ProgramView, ...],
) -> PageView:
    return PageView(
        title=title,
        summary=summary,
        compiler=options.compiler,
        contents=tuple(contents),
        sources=sources.views(),
        topology=topology,
        programs=programs,
        light=styles(LIGHT),
        dark=styles(DARK),
    )


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("flintlog.templates", "report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
