"""From compiled processes to files: a script each, the topology, and a script that runs them all."""

from __future__ import annotations

import json
from collections.abc import Mapping

from flintlog.compiler.ir import plan
from flintlog.compiler.ir.topology import Topology
from jinja2 import ChoiceLoader, PackageLoader

from .. import EmitOptions, module_name
from ..pyspark.emit import emit_with, template_environment
from .view import process_view

#: Support code beside that of a job, in the order of printing; the first block stands before the program.
OWN = ("inbox", "serve")


def emit_processes(topology: Topology, plans: Mapping[str, plan.Program], options: EmitOptions) -> Mapping[str, str]:
    """The files of a program of processes: their texts by name."""
    known = dict(plans)
    files = {}
    for process in topology.processes:
        view = process_view(process.name, topology, known)
        files[f"{module_name(process.name)}.py"] = emit_process(known[process.name], view, options)
    files["topology.json"] = topology_json(topology)
    return files


def emit_process(program: plan.Program, view: object, options: EmitOptions) -> str:
    """The script of a process."""
    own = PackageLoader("flintlog.templates", "processes")
    shared = PackageLoader("flintlog.templates", "pyspark")
    environment = template_environment(ChoiceLoader([own, shared]))
    return emit_with(
        environment, program, options.compiler, options.format, before=("shapes", "channels"), after=OWN, process=view
    )


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
