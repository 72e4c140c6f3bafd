"""The generator of graphs, path queries and updates in the manner of gMark, and what reads its files."""

from __future__ import annotations

import importlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pytest
from flintlog.compiler.pipeline import compile_program
from flintlog.compiler.source import SourceFile

from golden_tests.harness import MemoryJob
from golden_tests.nightly import AT_NIGHT, by_day
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import parse

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = ("answers", "files", "generate", "paths", "scenarios", "schemas", "workloads")
SEED = 3
NAME = "snb-100"


@pytest.fixture(scope="module")
def graphs() -> Iterator[Any]:
    """The modules of the generator, and those that read its files, which are scripts in a folder."""
    known = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    modules = {name: importlib.import_module(f"graphs.{name}") for name in MODULES}
    yield SimpleNamespace(gmark=importlib.import_module("gmark"), report=importlib.import_module("report"), **modules)
    sys.path.remove(str(BENCHMARKS))
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCHMARKS)):
            sys.modules.pop(name)


@pytest.fixture(scope="module")
def folder(graphs: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated data of a small graph."""
    made: Path = tmp_path_factory.mktemp("data")
    graphs.files.ensure(made, [NAME], SEED, lambda text: None)
    return made


@pytest.fixture(scope="module")
def small(graphs: Any) -> Any:
    """The small graph, its workloads and its scenarios by name."""
    queries = graphs.files.workloads("snb", SEED)
    graph = graphs.generate.graph(graphs.schemas.SNB, 100, SEED)
    known = graphs.scenarios.scenarios(graph, graphs.workloads.used(queries), SEED)
    return SimpleNamespace(graph=graph, queries=queries, scenarios={scenario.name: scenario for scenario in known})


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---- files -----------------------------------------------------------------------------------------------------------


def test_same_seed_same_bytes(folder: Path, tmp_path: Path) -> None:
    """Another process, whose hashes of strings are others, writes the same bytes; and it needs no PySpark."""
    program = (
        "import sys; from pathlib import Path; import gmark; from graphs import files\n"
        f"files.ensure(Path(sys.argv[1]), ['{NAME}'], {SEED}, print)\n"
        "assert 'pyspark' not in sys.modules"
    )
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS), "PYTHONHASHSEED": "12345"}
    command = [sys.executable, "-c", program, str(tmp_path)]
    said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    assert "snb-100: 105 nodes" in said
    assert contents(tmp_path) == contents(folder)


def test_another_seed_another_graph(graphs: Any, small: Any) -> None:
    """Graphs, queries and updates differ, and so do graphs of other sizes."""
    schema = graphs.schemas.SNB
    other = graphs.generate.graph(schema, 100, SEED + 1)
    assert {name: one.pairs for name, one in other.edges.items()} != {
        n: one.pairs for n, one in small.graph.edges.items()
    }
    queries = graphs.files.workloads("snb", SEED + 1)
    assert all(queries[kind] != small.queries[kind] for kind in ("rd", "rec", "nav"))
    known = graphs.scenarios.scenarios(small.graph, graphs.workloads.used(small.queries), SEED + 1)
    assert all(scenario.batches != small.scenarios[scenario.name].batches for scenario in known)


def test_up_to_date(graphs: Any, folder: Path, tmp_path: Path) -> None:
    """What is there is kept; another seed, or a graph that was not completely written, is generated again."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    before, said = contents(tmp_path), list[str]()
    graphs.files.ensure(tmp_path, [NAME], SEED, said.append)
    assert said == [] and contents(tmp_path) == before
    (tmp_path / NAME / "generated.json").unlink()
    (tmp_path / NAME / "full" / "p0.tsv.gz").write_bytes(b"")
    graphs.files.ensure(tmp_path, [NAME], SEED, said.append)
    assert said[0].startswith(f"{NAME}: 105 nodes") and contents(tmp_path) == before
    graphs.files.ensure(tmp_path, [NAME], SEED + 1, said.append)
    assert contents(tmp_path) != before
    assert json.loads((tmp_path / NAME / "generated.json").read_text(encoding="utf-8"))["seed"] == SEED + 1


def test_names(graphs: Any) -> None:
    """A name is a schema and a size."""
    assert graphs.files.parse("wdd-10k") == ("wdd", 10_000)
    assert graphs.files.parse("snb-250") == ("snb", 250)
    for name in ("snb", "snb-", "snb-0", "lubm-1k", "snb-1M", "snb-1k/.."):
        with pytest.raises(ValueError, match="is not SCHEMA-SIZE"):
            graphs.files.parse(name)


# ---- graphs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wd", "snb", "wdd"])
def test_graphs_follow_their_schema(graphs: Any, name: str) -> None:
    """Types have their shares or fixed numbers of nodes, one after the other; edges lead between the types they may."""
    schema = graphs.schemas.SCHEMAS[name]
    assert len(schema.predicates) == {"wd": 82, "wdd": 82, "snb": 27}[name]
    assert {edges.predicate for edges in schema.edges} == set(schema.predicates)
    graph = graphs.generate.graph(schema, 1000, SEED)
    first = 0
    for kind in schema.types:
        assert graph.nodes[kind.name].start == first
        first = graph.nodes[kind.name].stop
        assert len(graph.nodes[kind.name]) == (kind.fixed or round(1000 * kind.share))
    assert graph.last_node == first - 1
    types = np.repeat(np.arange(len(schema.types)), [len(span) for span in graph.nodes.values()])
    names = [kind.name for kind in schema.types]
    for symbol, relation in graph.edges.items():
        predicate = schema.predicates[int(symbol[1:])]
        possible = {(edges.source, edges.target) for edges in schema.edges if edges.predicate == predicate}
        assert {(names[types[source]], names[types[target]]) for source, target in relation.pairs} <= possible


def test_distributions(graphs: Any) -> None:
    """Degrees have the bounds, means and ratios of their distribution."""
    schemas, draw = graphs.schemas, graphs.generate.degrees
    rng = graphs.generate.stream(SEED, "test")
    uniform = Counter(draw(rng, schemas.Uniform(2, 5), 40_000, 100).tolist())
    assert uniform.keys() == {2, 3, 4, 5} and all(9_500 < count < 10_500 for count in uniform.values())
    gaussian = draw(rng, schemas.Gaussian(60, 20), 40_000, 1000)
    assert abs(gaussian.mean() - 60) < 1 and abs(gaussian.std() - 20) < 1 and gaussian.min() >= 0
    zipfian = Counter(draw(rng, schemas.Zipfian(2.5), 100_000, 1000).tolist())
    assert min(zipfian) == 1 and zipfian[1] > 70_000
    assert 5.2 < zipfian[1] / zipfian[2] < 6.1  # 2 ** 2.5 is 5.66
    assert 2.5 < zipfian[2] / zipfian[3] < 3.0  # 1.5 ** 2.5 is 2.76
    assert draw(rng, schemas.Gaussian(225, 25), 100, 7).max() == 7


def test_degrees_of_graphs(graphs: Any) -> None:
    """Each node has the degrees that the schema says: exactly one, at most one, about sixty, many for few."""
    snb = graphs.generate.graph(graphs.schemas.SNB, 1000, SEED)

    def degrees(graph: Any, predicate: str, source: str, target: str, end: int) -> list[int]:
        pairs = graph.edges[graph.schema.symbol(predicate)].pairs
        inside = [p for p in pairs if p[0] in graph.nodes[source] and p[1] in graph.nodes[target]]
        found = Counter(pair[end] for pair in inside)
        return [found[node] for node in graph.nodes[(source, target)[end]]]

    assert set(degrees(snb, "isLocatedIn", "Person", "City", 0)) == {1}
    assert set(degrees(snb, "hasCreator", "Message", "Person", 0)) == {1}
    assert set(degrees(snb, "containerOf", "Forum", "Post", 1)) == {1}
    assert set(degrees(snb, "studyAt", "Person", "University", 0)) == {0, 1, 2, 3}
    assert max(degrees(snb, "name", "Person", "String", 1)) == 1
    knows = degrees(snb, "knows", "Person", "Person", 0)
    assert knows.count(1) > len(knows) / 2 and max(knows) > 3
    wd, wdd = (graphs.generate.graph(graphs.schemas.SCHEMAS[name], 1000, SEED) for name in ("wd", "wdd"))
    assert max(degrees(wd, "hasReview", "Movie", "Review", 1)) == 1
    reviews = degrees(wdd, "hasReview", "Movie", "Review", 0)
    assert 40 < sum(reviews) / len(reviews) < 70
    assert 100 < np.mean(degrees(wdd, "friendOf", "User", "User", 0)) < 190
    assert len(wdd.edges) >= len(wd.edges) and edges_of(wdd) > 4 * edges_of(wd)


def edges_of(graph: Any) -> int:
    """The number of a graph's edges."""
    return sum(len(relation.pairs) for relation in graph.edges.values())


# ---- workloads and scenarios -----------------------------------------------------------------------------------------


@by_day(1)
@pytest.mark.parametrize("schema", ["snb", "wd"])
def test_workloads(graphs: Any, schema: str) -> None:
    """Each kind has its number of queries, which differ and connect nodes; in ``rec`` and ``nav`` all repeat paths."""
    queries = graphs.files.workloads(schema, SEED)
    graph = graphs.generate.graph(graphs.schemas.SCHEMAS[schema], 1000, SEED)
    evaluator = graphs.answers.Evaluator(graph.last_node)
    assert {kind: len(some) for kind, some in queries.items()} == {"rd": 10, "rec": 10, "nav": 5}
    for kind, some in queries.items():
        assert [query.name for query in some] == [f"q{number}" for number in range(len(some))]
        assert len({query.conjuncts for query in some}) == len(some)
        for query in some:
            pairs = evaluator.query(query, graph.edges)
            assert sum(len(targets - {source}) for source, targets in pairs.items()) >= 10
            assert kind == "rd" or any(isinstance(path, graphs.paths.Repeat) for path in paths_of(graphs, query))
    shapes = {(len(query.conjuncts), query.head) for query in queries["rd"]}
    assert len({count for count, _ in shapes}) > 1


def paths_of(graphs: Any, query: Any) -> list[Any]:
    """The paths of a query, and what they are made of."""
    found = [conjunct.path for conjunct in query.conjuncts]
    for path in found:
        found.extend(graphs.paths.parts(path))
    return found


def test_not_enough_queries(graphs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed that does not give all queries is refused."""
    monkeypatch.setattr(graphs.workloads, "CANDIDATES", 3)
    with pytest.raises(ValueError, match=r"seed 3 gives only \d of 10 queries for snb rd"):
        graphs.files.workloads("snb", SEED)


def test_texts(graphs: Any) -> None:
    """Paths are written in the language, with parentheses where they are needed."""
    paths = graphs.paths
    a, b = paths.Symbol("p1"), paths.Symbol("p2", inverse=True)
    known = {
        "p1(x, y)": a,
        "^p2(x, y)": b,
        "p1+(x, y)": paths.Repeat(a, "+"),
        "(^p2)*(x, y)": paths.Repeat(b, "*"),
        "(p1/^p2|p1)(x, y)": paths.Choice((paths.Sequence((a, b)), a)),
        "(p1/(p1|^p2)/p1*)(x, y)": paths.Sequence((a, paths.Choice((a, b)), paths.Repeat(a, "*"))),
        "(p1+/^p2)+(x, y)": paths.Repeat(paths.Sequence((paths.Repeat(a, "+"), b)), "+"),
    }
    for text, path in known.items():
        assert str(paths.Conjunct(path, "x", "y")) == text
    query = paths.Query("q7", ("x", "y"), (paths.Conjunct(paths.Repeat(b, "*"), "x", "y"), paths.Conjunct(a, "x", "y")))
    assert query.program("remark") == (
        "// remark\ninput relation p1(src: int, dst: int)\ninput relation p2(src: int, dst: int)\n"
        "input relation node(id: int)\ndomain node(id).\noutput q7.\n\nq7(x, y) :- (^p2)*(x, y), p1(x, y).\n"
    )


def test_scenarios(graphs: Any, small: Any) -> None:
    """Insertions are absent before and deletions present; sizes and symbols are those that the name says."""
    used = set(graphs.workloads.used(small.queries))
    assert len(small.scenarios) == 21
    for name, scenario in small.scenarios.items():
        kind, share = name.split("-")
        symbols = {row[0] for batch in scenario.batches for row in (*batch.inserted, *batch.deleted)}
        assert symbols <= (used if kind in ("symq", "symdel", "edgeq") else small.graph.edges.keys())
        state = {row for symbol, one in scenario.base.items() for row in ((symbol, *pair) for pair in one.pairs)}
        assert state == set(small.graph.all_edges()) - set(scenario.withheld)
        for batch in scenario.batches:
            assert not state & set(batch.inserted) and set(batch.deleted) <= state
            state = state - set(batch.deleted) | set(batch.inserted)
        *_, last = scenario.states()
        assert {(symbol, *pair) for symbol, one in last.items() for pair in one.pairs} == state
        if kind.startswith("sym"):
            assert set(scenario.symbols) == symbols and len(symbols) == max(1, round(27 * float(share)))
        else:
            assert len(scenario.batches) == 3 and all(b.inserted and b.deleted for b in scenario.batches)
    edges = graphs.generate.graph(graphs.schemas.SNB, 1000, SEED)
    batches = next(one for one in graphs.scenarios.scenarios(edges, used, SEED) if one.name == "edge-1pct").batches
    assert {len(batch.inserted) + len(batch.deleted) for batch in batches} == {2 * round(edges_of(edges) / 200)}
    assert set(batches[1].inserted) & set(batches[0].deleted)  # some edges come back


# ---- answers ---------------------------------------------------------------------------------------------------------


@AT_NIGHT
def test_answers(graphs: Any, small: Any) -> None:
    """Expected answers are those of the oracle, and those of a job, before and after updates."""
    evaluator = graphs.answers.Evaluator(small.graph.last_node)
    found: defaultdict[str, list[int]] = defaultdict(list)
    for kind, name in (("nav", "edgeq-1pct"), ("rec", "symdel-0.10"), ("rd", "symq-0.10")):
        queries, scenario = small.queries[kind], small.scenarios[name]
        text = whole_program(queries)
        job, program = MemoryJob(compile_program(SourceFile("gmark.dl", text))), parse(text)
        nodes = {"node": {(node,) for node in range(small.graph.last_node + 1)}}
        before: dict[str, set[Any]] = {}
        for state in scenario.states():
            inputs = {name: set(relation.pairs) for name, relation in state.items()} | nodes
            expected = evaluate(program, inputs)
            job.run(
                {
                    name: [
                        *(("-", row) for row in before.get(name, set()) - inputs.get(name, set())),
                        *(("+", row) for row in inputs.get(name, set()) - before.get(name, set())),
                    ]
                    for name in before.keys() | inputs.keys()
                }
            )
            before = inputs
            for query in queries:
                pairs = evaluator.query(query, state)
                rows = {(source, target) for source, targets in pairs.items() for target in targets}
                assert rows == expected[query.name] == job.rows(query.name), f"{kind} {query}"
                found[f"{kind} {query.name}"].append(len(rows))
        job.close()
    assert len({size for sizes in found.values() for size in sizes}) > 10
    assert sum(len(set(sizes)) > 1 for sizes in found.values()) > 3  # updates change answers


def whole_program(queries: list[Any]) -> str:
    """The program of all queries of a workload."""
    lines = [line for query in queries for line in query.program("").splitlines()[1:]]
    declarations = dict.fromkeys(line for line in lines if line.startswith(("input", "domain")))
    return "\n".join([*declarations, *(line for line in lines if not line.startswith(("input", "domain")))])


def test_closures(graphs: Any) -> None:
    """Closures of random graphs with cycles, chains and loops are those of a naive loop."""
    rng = random.Random(SEED)
    for nodes in (1, 2, 5, 9, 14):
        for _ in range(40):
            pairs = {(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(rng.randrange(2 * nodes))}
            expected = set(pairs)
            while more := {(a, d) for a, b in expected for c, d in pairs if b == c} - expected:
                expected |= more
            found = graphs.answers.closure(graphs.generate.Relation(frozenset(pairs)).forward)
            assert {(one, other) for one, some in found.items() for other in some} == expected


def test_matches(graphs: Any) -> None:
    """The ways in which a join holds are those of a loop over all bindings: for chains, stars and nested sequences."""
    paths, rng = graphs.paths, random.Random(SEED)
    pairs = {name: {(rng.randrange(6), rng.randrange(6)) for _ in range(12)} for name in ("p0", "p1")}
    state = {name: graphs.generate.Relation(frozenset(known)) for name, known in pairs.items()}
    evaluator = graphs.answers.Evaluator(5)

    def query(*ends: str) -> Any:
        conjuncts = (paths.Conjunct(paths.Symbol(f"p{end[0]}"), *end[1:]) for end in ends)
        return paths.Query("q", ("x", "y"), tuple(conjuncts))

    zero, one = pairs["p0"], pairs["p1"]
    chain = sum(b == c and d == e for a, b in zero for c, d in one for e, f in zero)
    star = sum(a == c == e for a, b in zero for c, d in one for e, f in zero)
    assert evaluator.matches(query("0xu", "1uv", "0vy"), state) == chain
    assert evaluator.matches(query("0uy", "1xu", "0zx"), state) == sum(
        b == c and a == f for a, b in one for c, d in zero for e, f in zero
    )
    assert evaluator.matches(query("0xy", "1xu", "0xv"), state) == star
    steps = paths.Sequence((paths.Symbol("p0"), paths.Symbol("p1"), paths.Symbol("p0")))
    nested = paths.Query("q", ("x", "y"), (paths.Conjunct(paths.Repeat(steps, "+"), "x", "y"),))
    assert evaluator.matches(nested, state) == max(chain, sum(map(len, evaluator.query(nested, state).values())))


def test_shapes_that_cannot_be_joined(graphs: Any) -> None:
    """A query whose conjuncts are no chains, stars or cycles is refused, not answered wrongly."""
    paths = graphs.paths
    ends = ("xa", "xb", "xc", "ab", "bc", "ac")
    clique = tuple(paths.Conjunct(paths.Symbol("p0"), *pair) for pair in ends)
    apart = (paths.Conjunct(paths.Symbol("p0"), "x", "z"), paths.Conjunct(paths.Symbol("p0"), "y", "v"))
    state = {"p0": graphs.generate.Relation(frozenset({(0, 1), (1, 0)}))}
    for conjuncts, head in ((clique, ("x", "x")), (apart, ("x", "y"))):
        with pytest.raises(ValueError, match="q0 is not made of chains, stars and cycles"):
            graphs.answers.Evaluator(1).query(paths.Query("q0", head, conjuncts), state)


def test_checksums(graphs: Any) -> None:
    """Python's checksum is that of the query that measures a job's answers."""
    pairs = {0: {0, 5, 104}, 7: {1}, 2**31: {2**31 - 2, 3}}
    values = ", ".join(f"({one}, {other})" for one, some in pairs.items() for other in some)
    with duckdb.connect() as database:
        rows = f"SELECT a::BIGINT, b::BIGINT FROM (VALUES {values}) AS t(a, b)"
        assert graphs.gmark.answer(database, rows) == graphs.answers.measured(pairs)
        assert graphs.gmark.answer(database, f"{rows} WHERE false") == graphs.answers.measured({}) == (0, 0)


# ---- what reads the files --------------------------------------------------------------------------------------------


def test_layout(graphs: Any, small: Any, folder: Path, tmp_path: Path) -> None:
    """``gmark.py`` reads the graph, the updates, the queries and the expected answers as they were generated."""
    dataset = graphs.gmark.Dataset(SEED, NAME, folder / NAME)
    read = graphs.gmark.Graphs(dataset, tmp_path)
    assert (dataset.schema, read.last_node, dataset.has_answers) == ("snb", small.graph.last_node, True)
    assert dataset.scenarios == sorted(small.scenarios)

    def rows(table: str) -> set[Any]:
        return set(read.database.execute(f"SELECT pred, src, dst FROM {table}").fetchall())

    assert rows("whole") == set(small.graph.all_edges())
    evaluator = graphs.answers.Evaluator(read.last_node)
    for name in ("sym-0.25", "symq-0.10", "symdel-0.10", "edge-1pct", "edgeq-0.1pct"):
        scenario = small.scenarios[name]
        assert read.batches(name) == len(scenario.batches)
        for number, state in enumerate(scenario.states()):
            edges = {(symbol, *pair) for symbol, relation in state.items() for pair in relation.pairs}
            assert rows(read.after(number) if number else "base") == edges
        for kind, queries in small.queries.items():
            expected = dataset.expected(kind)
            for query in queries:
                states = list(scenario.states())
                for number, state in enumerate(states):
                    found = {"": evaluator.size(query, state)}
                    if number:
                        changes = evaluator.changes(query, states[number - 1], state)
                        found |= dict(zip(("ins_", "del_"), changes, strict=True))
                    assert expected[query.name, name, number] == found
    job = graphs.gmark.compiled(dataset, "nav", graphs.gmark.query_files(dataset, "nav"), tmp_path)
    outputs = {relation.name for relation in job.PROGRAM.relations if relation.output}
    assert outputs == {query.name for query in small.queries["nav"]}
    inputs = {relation.name for relation in job.PROGRAM.relations if relation.kind == "input"}
    assert inputs - {"node"} == set().union(*(query.symbols for query in small.queries["nav"]))


@AT_NIGHT
def test_queries_left_out(graphs: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where answers are not known, queries whose answers are too large or take too long are left out and named."""
    data = tmp_path / "data"
    shutil.copytree(folder, data)
    shutil.rmtree(data / NAME / "expected")
    dataset = graphs.gmark.Dataset(SEED, NAME, data / NAME)
    read = graphs.gmark.Graphs(dataset, tmp_path / "graphs")
    names = {path.stem for path in graphs.gmark.query_files(dataset, "nav")}
    trial = sys.modules["trial"]
    sizes = {}
    for most in (-1, None):
        monkeypatch.setattr(trial, "MOST_TUPLES", sorted(sizes.values())[2] if most is None else most)
        run = graphs.gmark.Workload(dataset, "nav", read, tmp_path)
        if most is not None:
            sizes = {query: int(reason.split()[0].replace(",", "")) for query, reason in run.left_out.items()}
            assert sizes.keys() == names and run.queries == []
    assert set(run.left_out) == {query for query, size in sizes.items() if size > sorted(sizes.values())[2]}
    assert set(run.queries) == names - run.left_out.keys()
    monkeypatch.setattr(trial, "MOST_SECONDS", 0)
    script = tmp_path / f"{NAME}-nav" / "jobs" / "gmark_snb_nav.py"
    monkeypatch.setattr(graphs.gmark, "query_files", lambda dataset, name: [])
    assert "after 0 seconds of processor time" in trial.excess(script, {})


def test_wrong_options(graphs: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that is not there, and names of graphs that there are none of, are refused before anything starts."""
    for options, message in (
        (("--data", str(tmp_path), "--dataset", NAME), f"there is no {tmp_path / NAME}"),
        (("--dataset", "lubm-1k"), "lubm-1k is not SCHEMA-SIZE"),
    ):
        monkeypatch.setattr(sys, "argv", ["gmark.py", *options])
        monkeypatch.setattr(graphs.gmark, "GENERATED", tmp_path)
        assert graphs.gmark.main() == 1
        assert message in capsys.readouterr().err


def test_paper(graphs: Any) -> None:
    """The gains that follow from the paper's milliseconds are those that it prints."""
    gains = {
        schema: [graphs.gmark.gains(*pair)[3] for pair in numbers] for schema, numbers in graphs.gmark.PAPER.items()
    }
    assert gains == {
        "wd": ["13.2 %", "15.9 %", "15.4 %", "15.3 %", "14.3 %"],
        "snb": ["42.0 %", "40.6 %", "33.4 %", "31.8 %", "25.2 %"],
    }


def test_document(graphs: Any) -> None:
    """The results in the repository are those that the document shows; the first table has both graphs of the paper,
    the second several seeds."""
    known = json.loads((BENCHMARKS / "gmark.json").read_text(encoding="utf-8"))
    measured = [graphs.gmark.Measurement(**one) for one in known]
    assert graphs.gmark.as_json(measured) == (BENCHMARKS / "gmark.json").read_text(encoding="utf-8")
    document = (BENCHMARKS.parent / "docs" / "performance.md").read_text(encoding="utf-8")
    grids = graphs.gmark.documented(measured)
    assert [grid.name for grid in grids] == ["gmark paper", "gmark workloads"]
    for grid in grids:
        assert grid.markdown() in document, grid.name
    assert [row[:2] for row in grids[0].rows][::5] == [("wd", "0.05"), ("snb", "0.05")]
    assert len(grids[0].rows) == 10
