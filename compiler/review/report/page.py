"""Render compiled programs as HTML pages: single files that need no network and run no script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintlog.targets import EmitOptions, module_name
from flintlog.targets.pyspark.emit import make_script, templates
from jinja2 import Environment

from ...ir.topology import NodesTopology, Topology
from ...naming import counted
from ...pipeline import Compilation
from ...processes import Processes
from .joblog import read_runs
from .nodes import nodes_view
from .topology import Flow, TopologyView, flows, topology_view
from .view import Link, ProgramView, ProgramViewer, Sources, SourceView, styles

LIGHT, DARK = "default", "github-dark"
"""The Pygments styles for code on light and dark pages, chosen for legibility."""


@dataclass(frozen=True)
class PageView:
    """Contents of a page; without processes it has one program, without a name."""

    title: str
    summary: str
    compiler: str
    contents: tuple[Link, ...]
    sources: tuple[SourceView, ...]
    topology: TopologyView | None
    programs: tuple[ProgramView, ...]


def report_page(found: Compilation | Processes, options: EmitOptions, logs: Mapping[str, str]) -> str:
    """Return the page about a program. ``logs`` are the texts of its job's log by the name of the main file or, for
    processes, of their logs by process name."""
    view = _processes(found, options, logs) if isinstance(found, Processes) else _program(found, options, logs)
    colours = {"light": styles(LIGHT), "dark": styles(DARK)}
    return _environment().get_template("page.html.jinja").render(view=view, **colours)


def topology_page(topology: Topology, title: str, flowed: Mapping[str, Flow]) -> str:
    """Return a page with the picture of a topology and, if it is known, what ``flowed`` through each channel."""
    view = topology_view(topology, flowed, {})
    return _environment().get_template("topology.html.jinja").render(title=title, topology=view)


def nodes_page(topology: NodesTopology, title: str, flowed: Mapping[str, Flow]) -> str:
    """Return a page about the nodes of a located program and, if it is known, what ``flowed`` through each channel."""
    return _environment().get_template("nodes.html.jinja").render(title=title, view=nodes_view(topology, flowed))


def _program(found: Compilation, options: EmitOptions, logs: Mapping[str, str]) -> PageView:
    name = found.sources[0].name
    sources = Sources(found.sources)
    script = make_script(found.plan, options)
    runs = read_runs(logs.get(name, ""))
    viewed = ProgramViewer(found, script, f"{module_name(name)}.py", sources, runs).view()
    contents = [
        Link("Program", "#source"),
        Link("Dependencies", f"#{viewed.anchor}-graph"),
        *([Link("Runs", f"#{viewed.anchor}-runs")] if viewed.runs else []),
        Link("Relations and rules", f"#{viewed.anchor}-rules"),
        Link("Script", f"#{viewed.anchor}-script"),
    ]
    return PageView(name, viewed.summary, options.compiler, tuple(contents), sources.views(), None, (viewed,))


def _processes(found: Processes, options: EmitOptions, logs: Mapping[str, str]) -> PageView:
    sources = Sources(found.sources)
    plans = {name: compilation.plan for name, compilation in found.compilations.items()}
    programs = []
    for name, plan in plans.items():
        script = make_script(plan, options)
        runs = read_runs(logs.get(name, ""))
        viewer = ProgramViewer(found.compilations[name], script, f"{module_name(name)}.py", sources, runs, name)
        programs.append(viewer.view())
    anchors = {viewed.name: f"#{viewed.anchor}" for viewed in programs}
    topology = topology_view(found.topology, flows(logs.values()), anchors)
    contents = (
        Link("Program", "#source"),
        Link("Processes", "#topology"),
        *(Link(viewed.name, f"#{viewed.anchor}") for viewed in programs),
    )
    title = ", ".join(source.name for source in found.sources)
    summary = f"{len(programs)} processes, {counted(len(found.topology.channels), 'channel')}"
    return PageView(title, summary, options.compiler, contents, sources.views(), topology, tuple(programs))


def _environment() -> Environment:
    return templates("report", autoescape=True)
