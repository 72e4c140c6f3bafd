"""Try whether the queries of a workload can be measured: which of them, alone, stay within limits.

The answers of some path queries grow with the square of the graph. A query is left out if its state, hidden relations
included, has more than ``MOST_TUPLES`` tuples, or takes more than ``MOST_SECONDS`` of processor time to build.

Usage: ``python trial.py SCRIPT STATE FILES SECONDS``, where ``FILES`` is a JSON object of the files of input relations,
builds a state in a process that ends when the seconds are over; prints the number of tuples that are derived.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from in_session import load_job

MOST_TUPLES = 10_000_000
MOST_SECONDS = 60


def excess(script: Path, files: Mapping[str, str]) -> str:
    """Return which limit a job exceeds when it builds its state, in words; empty if it stays within them."""
    arguments = (script, script.with_suffix(".state"), json.dumps(files), MOST_SECONDS)
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode < 0:
        return f"not evaluated after {MOST_SECONDS} seconds of processor time"
    if done.returncode:
        return f"not evaluated: {done.stderr.strip().splitlines()[-1]}"
    tuples = int(done.stdout)
    return f"{tuples:,} tuples" if tuples > MOST_TUPLES else ""


def main() -> None:
    """Build the state within the seconds, and print the number of its tuples."""
    script, state, files, seconds = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    job = load_job(Path(script))
    job.init(None, state, json.loads(files), buckets=1, log=job.Log(quiet=True))
    stored = job.read_state(Path(state)).relations
    print(sum(stored[relation.table].rows for relation in job.PROGRAM.relations if relation.kind != "input"))


if __name__ == "__main__":
    main()
