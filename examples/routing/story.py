"""Three routers: a link fails, a router is killed, and restarts elsewhere with empty state."""

import runpy
import signal
from pathlib import Path

import duckdb

Local = runpy.run_path("network/run_local.py")["Local"]
net = Local(Path("net").absolute())
homes = {name: net.root / "homes" / name for name in ("R1", "R2", "R3")}
files = iter(range(1000))


def tell(router: str, relation: str, *lines: str) -> None:
    """Give a router rows from outside, in a file of its own."""
    net.feed(router, relation, f"{next(files):04}.csv", "\n".join(lines) + "\n")


def links(*changes: tuple[str, str, str, int]) -> None:
    """Links come up, change or go down, at both ends."""
    for router in homes:
        ends = [(op, b if router == a else a, cost) for op, a, b, cost in changes if router in (a, b)]
        tell(router, "link", "op,neighbour,cost", *(f"{op},{other},{cost}" for op, other, cost in ends))


def routes(router: str, when: str) -> None:
    """Wait until all is quiet, and print what a router has published."""
    net.wait_until_quiet(300)
    changes = f"'{homes[router]}/state/published/{router}.route/changes/*/*.parquet'"
    query = f"select prefix, via, cost from {changes} group by all having arg_max(op, batch) = '+' order by all"
    for prefix, via, cost in duckdb.execute(query).fetchall():
        print(f"{when}: {router} to {prefix} via {via}, cost {cost}")


try:
    links(("+", "R1", "R2", 10), ("+", "R2", "R3", 10), ("+", "R1", "R3", 20))
    for name in homes:
        tell(name, "net", "op,prefix", f"+,10.{name[1]}.0.0/16")
        net.start(name)
    routes("R1", "all is up")
    links(("u", "R1", "R3", 15), ("-", "R1", "R2", 10))
    routes("R1", "R1-R2 is down")
    net.end("R3", signal.SIGKILL)
    links(("+", "R1", "R2", 10))
    routes("R1", "R3 is gone")
    homes["R3"] = net.root / "elsewhere"
    net.start("R3", homes["R3"])
    routes("R3", "R3 is back")
finally:
    for name in list(net.running):
        net.end(name)
