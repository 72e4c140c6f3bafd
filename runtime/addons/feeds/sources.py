"""Feeds and tables on the command line: the command ``connect``, and options of others."""

from __future__ import annotations

from ...job.command_line import COMMANDS, PART_OPTIONS, Command, on_executor
from ...job.shared_options import AddOptions, add_place, add_state, option, several
from .connect import connect_feeds, report_connect

add_feed = option(
    "--feed",
    dest="feeds",
    action="append",
    default=[],
    metavar="REL=SOURCE",
    help="read the connected feed of a relation at another place this time; can be repeated",
)


add_resync = option(
    "--resync",
    action="append",
    default=[],
    metavar="REL",
    help="compare the rows of a relation with those of its feed, and apply the difference; can be repeated",
)

add_sources = several(
    option("sources", nargs="*", metavar="REL=SOURCE", help="a relation and its source"),
    option(
        "--feeds",
        metavar="FILE.toml",
        help="a file that says for each relation: from, columns (other names), where",
    ),
    option("--remove", action="append", default=[], metavar="REL", help="disconnect a relation; its rows stay"),
)


def add_tables(more: str = "") -> AddOptions:
    """Return what adds the option that says which tables output relations are kept as."""
    return option(
        "--publish",
        metavar="PLACE",
        help="keep each output relation as a table at delta:FOLDER or iceberg:CATALOG.NAMESPACE, brought up to date "
        f"with each commit{more}",
    )


COMMANDS["connect"] = Command(
    "connect",
    "connect relations with feeds and tables",
    "Say which feeds the rows of input relations come from. `init` then reads their rows, `apply` and `follow` "
    "what is new in them. Sources are delta:TABLE (the path or URI of a Delta table), "
    "iceberg:CATALOG/NAMESPACE.TABLE, table:NAME (what Spark reads), kafka-debezium://BROKER:PORT/TOPIC and "
    "files:DIR (a folder of change files). With --publish, keep output relations as tables from now on.",
    (
        add_state,
        add_place,
        add_sources,
        add_tables(", or none to keep none from now on"),
    ),
    on_executor(connect_feeds),
    report_connect,
)
PART_OPTIONS.setdefault("init", []).extend(
    [
        add_feed,
        option(
            "--op-column",
            default="op",
            metavar="NAME",
            help="the operation column of change files in a connected folder (default: op)",
        ),
        add_tables(),
    ]
)
PART_OPTIONS.setdefault("apply", []).extend([add_feed, add_resync])
PART_OPTIONS.setdefault("follow", []).append(add_feed)
