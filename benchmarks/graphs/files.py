"""The files of generated data, and whether those in a folder are up to date.

    workloads/SCHEMA/KIND/paths/qN.dl              the queries; beside the kinds, generated.json
    SCHEMA-SIZE/full/pN.tsv.gz                     the edges of a symbol: source, target, sorted
    SCHEMA-SIZE/nodes.tsv, predicates.tsv          the nodes of each type, the name and the edges of each symbol
    SCHEMA-SIZE/scenarios/NAME/                    scenario.json, and for batches of edges also withheld.tsv.gz and
                                                   batchN.tsv.gz: op, symbol, source, target
    SCHEMA-SIZE/expected/KIND.csv.gz               size and checksum of each answer in each state, and of its changes
    SCHEMA-SIZE/generated.json                     the seed and the version, written last

The same seed gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

from .answers import Evaluator
from .generate import NOTHING, Graph, graph
from .paths import Query
from .scenarios import Scenario, scenarios
from .schemas import SCHEMAS
from .workloads import KINDS, used, workload

Workloads = dict[str, list[Query]]

MARK = "generated.json"
SMALL = 1000
"""The size of the graphs on which queries are tried."""

LARGEST_EXPECTED = 10_000
"""The largest size for which expected answers are computed; closures grow with its square."""

Say = Callable[[str], None]


def parse(name: str) -> tuple[str, int]:
    """Return the schema and the size that a name such as ``snb-10k`` stands for. Raises ValueError for other names."""
    found = re.fullmatch(rf"({'|'.join(SCHEMAS)})-([1-9][0-9]*)(k?)", name)
    if not found:
        raise ValueError(f"{name} is not SCHEMA-SIZE, such as {', '.join(f'{schema}-1k' for schema in SCHEMAS)}")
    return found[1], int(found[2]) * (1000 if found[3] else 1)


def version() -> str:
    """Return a hash of the generator's source files: other sources may give other data."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def ensure(folder: Path, names: Iterable[str], seed: int, say: Say) -> None:
    """Generate the named graphs, with workloads and all else, unless the folder has them of this seed and version.

    ``say`` is told what is being done.
    """
    stamp = {"generator": version(), "seed": seed}
    for name in names:
        schema, size = parse(name)
        origin = SCHEMAS[schema].workloads
        place = folder / "workloads" / origin
        queries = workloads(origin, seed)
        if not current(place, stamp):
            write_workloads(place, queries, stamp)
            say(f"{origin}: {', '.join(f'{kind} {len(some)}' for kind, some in queries.items())} queries")
        if not current(folder / name, stamp):
            write_dataset(folder / name, schema, size, queries, stamp, say)


def current(place: Path, stamp: dict[str, object]) -> bool:
    """Return whether a folder was completely written with a stamp."""
    mark = place / MARK
    return mark.is_file() and json.loads(mark.read_text(encoding="utf-8")) == stamp


def workloads(schema: str, seed: int) -> Workloads:
    """Return the workloads of a schema, which are tried on small graphs of all schemas that use them."""
    users = sorted(SCHEMAS.values(), key=lambda known: known.name != schema)
    small = [graph(known, SMALL, seed) for known in users if known.workloads == schema]
    return {kind: workload(kind, small, seed) for kind in KINDS}


def write_workloads(place: Path, queries: Workloads, stamp: dict[str, object]) -> None:
    """Write a program for each query."""
    shutil.rmtree(place, ignore_errors=True)
    for kind, some in queries.items():
        for query in some:
            path = place / kind / "paths" / f"{query.name}.dl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(query.program(f"Workload {kind}, {query.name}"), encoding="utf-8")
    write_json(place / MARK, stamp)


def write_dataset(place: Path, schema: str, size: int, queries: Workloads, stamp: dict[str, object], say: Say) -> None:
    """Write a graph, its scenarios and the expected answers."""
    shutil.rmtree(place, ignore_errors=True)
    seed = stamp["seed"]
    assert isinstance(seed, int)
    made = graph(SCHEMAS[schema], size, seed)
    say(f"{place.name}: {made.last_node + 1:,} nodes, {sum(len(one.pairs) for one in made.edges.values()):,} edges")
    write_graph(place, made)
    known = list(scenarios(made, used(queries), seed))
    for scenario in known:
        write_scenario(place / "scenarios" / scenario.name, scenario)
    if size <= LARGEST_EXPECTED:
        write_expected(place / "expected", made, queries, known, lambda text: say(f"{place.name}: {text}"))
    write_json(place / MARK, stamp)


def write_graph(place: Path, made: Graph) -> None:
    """Write nodes and edges."""
    for symbol, relation in made.edges.items():
        write_rows(place / "full" / f"{symbol}.tsv.gz", sorted(relation.pairs))
    spans = enumerate(made.nodes.items())
    types = [("type", "alias", "first_id", "last_id"), *((n, name, span[0], span[-1]) for n, (name, span) in spans)]
    (place / "nodes.tsv").write_text(lines(types), encoding="utf-8")
    symbols = [(made.schema.symbol(predicate), predicate) for predicate in made.schema.predicates]
    counts = [(symbol, alias, len(made.edges.get(symbol, NOTHING).pairs)) for symbol, alias in symbols]
    (place / "predicates.tsv").write_text(lines([("pred", "alias", "edges"), *counts]), encoding="utf-8")


def write_scenario(place: Path, scenario: Scenario) -> None:
    """Write what a scenario changes."""
    about: dict[str, object] = {"kind": scenario.kind, **scenario.about}
    if scenario.symbols:
        about["symbols"] = scenario.symbols
    else:
        write_rows(place / "withheld.tsv.gz", (("-", *row) for row in scenario.withheld))
        files = []
        for number, batch in enumerate(scenario.batches, start=1):
            rows = [*(("-", *row) for row in batch.deleted), *(("+", *row) for row in batch.inserted)]
            write_rows(place / f"batch{number}.tsv.gz", rows)
            said = {"file": f"batch{number}.tsv.gz", "inserts": len(batch.inserted), "deletes": len(batch.deleted)}
            files.append(said)
        about["batches"] = files
    write_json(place / "scenario.json", about)


COLUMNS = (
    *("query", "sem", "scenario", "batch", "card", "checksum"),
    *("ins_card", "ins_checksum", "del_card", "del_checksum"),
)


def write_expected(place: Path, made: Graph, queries: Workloads, known: list[Scenario], say: Say) -> None:
    """Write the size and the checksum of each answer, and of what appears in it and disappears from it.

    ``*`` is the identity over all nodes, which is what the column ``sem`` calls ``node``.
    """
    evaluator = Evaluator(made.last_node)
    rows: dict[str, list[tuple[object, ...]]] = {kind: [] for kind in queries}
    for kind, some in queries.items():
        for query in some:
            size = evaluator.size(query, made.edges)
            rows[kind].append((query.name, "node", "full", 0, *size, "", "", "", ""))
    for number, scenario in enumerate(known, start=1):
        say(f"expected answers, scenario {number} of {len(known)}, {scenario.name}")
        before = None
        for batch, state in enumerate(scenario.states()):
            for kind, some in queries.items():
                for query in some:
                    changes: tuple[object, ...] = ("", "", "", "")
                    if before is not None:
                        appeared, disappeared = evaluator.changes(query, before, state)
                        changes = (*appeared, *disappeared)
                    size = evaluator.size(query, state)
                    rows[kind].append((query.name, "node", scenario.name, batch, *size, *changes))
            before = state
    for kind, found in rows.items():
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([COLUMNS, *found])
        write_packed(place / f"{kind}.csv.gz", text.getvalue())


def lines(rows: Iterable[Iterable[object]]) -> str:
    """Return rows as lines of values between tabulators."""
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def write_rows(path: Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a packed file of rows."""
    write_packed(path, lines(rows))


def write_packed(path: Path, text: str) -> None:
    """Write a packed file; neither the time nor its name is in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        packed.write(text.encode())


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
