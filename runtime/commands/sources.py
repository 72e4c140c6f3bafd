"""Feeds and tables on the command line: the command ``connect``, and options of others."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from ..log import Log
from ..model import Program
from ..parsers import COMMAND_PARTS, CommandPart, Shared, add_command
from ..session import choose_executor
from .connect import connect_feeds


def add_feeds(program: Program, commands: Any, shared: Shared, found: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add the command, and the options of those that read feeds."""
    connecting = add_command(
        commands,
        "connect",
        [shared.common, shared.placed],
        "connect relations with feeds and tables",
        "Say which feeds the rows of input relations come from. `init` then reads their rows, `apply` and `follow` "
        "what is new in them. Sources are delta:TABLE (the path or URI of a Delta table), "
        "iceberg:CATALOG/NAMESPACE.TABLE, table:NAME (what Spark reads), kafka-debezium://BROKER:PORT/TOPIC and "
        "files:DIR (a folder of change files). With --publish, keep output relations as tables from now on.",
    )
    connecting.add_argument("sources", nargs="*", metavar="REL=SOURCE", help="a relation and its source")
    connecting.add_argument(
        "--feeds", metavar="FILE.toml", help="a file that says for each relation: from, columns (other names), where"
    )
    connecting.add_argument(
        "--remove", action="append", default=[], metavar="REL", help="disconnect a relation; its rows stay"
    )
    add_tables(connecting, ", or none to keep none from now on")
    for parser in found.values():
        parser.add_argument(
            "--feed",
            dest="feeds",
            action="append",
            default=[],
            metavar="REL=SOURCE",
            help="read the connected feed of a relation at another place this time; can be repeated",
        )
    found["init"].add_argument(
        "--op-column",
        default="op",
        metavar="NAME",
        help="the operation column of change files in a connected folder (default: op)",
    )
    add_tables(found["init"])
    found["apply"].add_argument(
        "--resync",
        action="append",
        default=[],
        metavar="REL",
        help="compare the rows of a relation with those of its feed, and apply the difference; can be repeated",
    )


def add_tables(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add the option that says which tables output relations are kept as."""
    parser.add_argument(
        "--publish",
        metavar="PLACE",
        help="keep each output relation as a table at delta:FOLDER or iceberg:CATALOG.NAMESPACE, brought up to date "
        f"with each commit{more}",
    )


def run_connect(program: Program, log: Log, as_json: bool, arguments: dict[str, Any]) -> Mapping[str, Any]:
    """Connect relations with feeds."""
    executor = choose_executor(program.name, arguments.pop("on"))
    return connect_feeds(program, executor, log=log, **arguments)


COMMAND_PARTS["feeds"] = CommandPart(add_feeds, {"connect": run_connect})
