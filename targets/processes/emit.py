"""From compiled processes to files: a script each, the topology, and a script that runs them all."""

from __future__ import annotations

import json
from collections.abc import Mapping

from flintlog.compiler.diagnostics import listed
from flintlog.compiler.ir import plan
from flintlog.compiler.ir.topology import Topology
from jinja2 import ChoiceLoader, PackageLoader

from .. import EmitOptions, module_name
from ..pyspark.emit import emit_with, format_script, template_environment
from .view import process_view

#: Support code of a process that stands behind that of a job, in the order of printing.
OWN = ("inbox", "kafka", "serve")


def emit_processes(topology: Topology, plans: Mapping[str, plan.Program], options: EmitOptions) -> Mapping[str, str]:
    """The files of a program of processes: their texts by name."""
    known = dict(plans)
    files = {}
    for process in topology.processes:
        view = process_view(process.name, topology, known)
        files[f"{module_name(process.name)}.py"] = emit_process(known[process.name], view, options)
    own = template_environment(PackageLoader("flintlog.templates", "processes"))
    sources = listed(dict.fromkeys(s.name for p in known.values() for s in p.program.sources))
    names = listed(process.name for process in topology.processes)
    text = own.get_template("run_local.py.jinja").render(compiler=options.compiler, sources=sources, listed=names)
    files["run_local.py"] = format_script(text) if options.format else text
    files["topology.json"] = topology_json(topology)
    files["topology.mmd"] = topology_mermaid(topology)
    return files


def emit_process(program: plan.Program, view: object, options: EmitOptions) -> str:
    """The script of a process."""
    own = PackageLoader("flintlog.templates", "processes")
    shared = PackageLoader("flintlog.templates", "pyspark")
    environment = template_environment(ChoiceLoader([own, shared]))
    return emit_with(
        environment, program, options.compiler, options.format, before=("shapes", "channels"), after=OWN, process=view
    )


def topology_mermaid(topology: Topology) -> str:
    """The topology as a Mermaid flowchart, which code hosts draw: processes, what flows between them, and feeds."""
    names = {process.name: f"p{number}" for number, process in enumerate(topology.processes)}
    lines = ["flowchart LR"]
    lines += [f'    {node}["{name}"]' for name, node in names.items()]
    for number, feed in enumerate(topology.feeds):
        lines.append(f'    f{number}[/"{feed.relation}"/] -.-> {names[feed.reader]}')
    for channel in topology.channels:
        what = channel.relation + (" with derivations" if channel.entries else "")
        lines.append(f'    {names[channel.sender]} -->|"{what}"| {names[channel.reader]}')
    return "\n".join(lines) + "\n"


def topology_json(topology: Topology) -> str:
    """The topology for programs: processes, channels with their columns, feeds, and recursions."""
    described = {
        "processes": [
            {"name": p.name, "script": f"{module_name(p.name)}.py", "outputs": list(p.outputs)}
            for p in topology.processes
        ],
        "channels": [
            {
                "relation": channel.relation,
                "sender": channel.sender,
                "reader": channel.reader,
                "columns": {column.name: str(column.type) for column in channel.columns},
                "derivations": channel.entries,
            }
            for channel in topology.channels
        ],
        "feeds": [
            {
                "relation": feed.relation,
                "reader": feed.reader,
                "columns": {column.name: str(column.type) for column in feed.columns},
            }
            for feed in topology.feeds
        ],
        "recursions": [list(names) for names in topology.recursions],
    }
    return json.dumps(described, indent=2) + "\n"
