"""The import graph of the standard library of the Python that runs this, and two refactorings of it.

The modules are read with :mod:`ast` and never imported. There is an edge ``importer -> imported`` for each import
statement, those within functions included, and from each submodule to its package, whose code Python runs first.
``from x import y`` depends on ``x`` and, where ``y`` is a module of its own, on ``x.y`` as well.

Run as a script it writes, in a fixed order and so with the same bytes every time::

    OUT/imports.csv                              importer,imported
    OUT/batches/1-imports-dropped/imports.csv    op,importer,imported
    OUT/batches/2-module-removed/imports.csv
"""

from __future__ import annotations

import argparse
import ast
import csv
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Edge = tuple[str, str]

FOREIGN = frozenset({"site-packages", "dist-packages", "__pycache__", "lib-dynload"})
"""Folders below the library that hold no modules of it."""

DEFERRABLE = ("csv", "plistlib", "statistics", "pdb", "netrc", "secrets", "ipaddress", "difflib")
"""Modules that a heavily imported module could do without, first choice first."""

REMOVABLE = ("optparse", "getopt", "fileinput", "sched", "pprint")
"""Old modules that a release might remove, first choice first."""

ADOPTABLE = ("tomllib", "json", "sqlite3", "graphlib", "zoneinfo", "wave")
"""Modules that others might take up, first choice first."""


@dataclass(frozen=True)
class Graph:
    """Modules by name and the sorted, distinct ``(importer, imported)`` pairs among them.

    ``unreadable`` are files that are no Python source of this version (the library ships some as test data).
    """

    modules: tuple[str, ...]
    edges: tuple[Edge, ...]
    unreadable: tuple[str, ...]


@dataclass(frozen=True)
class Batch:
    """A named set of changes to the edges; no edge is both deleted and inserted."""

    name: str
    story: str
    deletions: tuple[Edge, ...]
    insertions: tuple[Edge, ...]


def standard_library(root: Path | None = None) -> Graph:
    """Read the library below ``root``, by default that of the running interpreter."""
    root = root or Path(sysconfig.get_paths()["stdlib"])
    sources = dict(_sources(root))
    compiled = set(sys.builtin_module_names) | (set(sys.stdlib_module_names) - {"antigravity", "this"})
    known = frozenset(sources) | compiled
    edges: set[Edge] = set()
    unreadable: list[str] = []
    for module, path in sources.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(path.read_bytes(), filename=str(path))
        except (SyntaxError, ValueError):
            unreadable.append(module)
            continue
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        edges.update((module, imported) for imported in _imports(tree, package, known) if imported != module)
        parent = module.rpartition(".")[0]
        if parent in known:
            edges.add((module, parent))
    modules = {module for edge in edges for module in edge} | (set(sources) - set(unreadable))
    return Graph(tuple(sorted(modules)), tuple(sorted(edges)), tuple(sorted(unreadable)))


def _sources(root: Path) -> Iterator[tuple[str, Path]]:
    """Module names and files below ``root``, sorted; folders with a name that Python could not import are left out."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if FOREIGN.intersection(parts):
            continue
        if parts[-1] == "__init__":
            parts = parts[:-1]
        if parts and all(part.isidentifier() for part in parts):
            yield ".".join(parts), path


def _imports(tree: ast.AST, package: str, known: frozenset[str]) -> Iterator[str]:
    """The modules that the import statements of ``tree`` name, as far as they are known."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _longest_known(alias.name, known)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, package)
            if base is None:
                continue
            yield from _longest_known(base, known)
            for alias in node.names:
                if f"{base}.{alias.name}" in known:
                    yield f"{base}.{alias.name}"


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below ``node``; unlike :func:`ast.walk`, nothing of the expressions in them."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, field, ()):
            yield child
            yield from _statements(child)


def _absolute(node: ast.ImportFrom, package: str) -> str | None:
    """The absolute name that ``from ...x import`` names, or None if it leaves the top of the library."""
    if node.level == 0:
        return node.module
    parts = package.split(".") if package else []
    if node.level > len(parts):
        return None
    base = parts[: len(parts) - node.level + 1]
    return ".".join([*base, node.module] if node.module else base)


def _longest_known(name: str, known: frozenset[str]) -> Iterator[str]:
    """``a.b.c`` itself or, where that is an attribute and no module, the longest of its prefixes that is a module."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    if name:
        yield name


def affected_by(importers: Mapping[str, Sequence[str]], module: str) -> set[str]:
    """All modules that import ``module`` directly or through others: a plain breadth-first search."""
    found: set[str] = set()
    frontier = {module}
    while frontier:
        frontier = {importer for imported in frontier for importer in importers.get(imported, ())} - found
        found |= frontier
    return found


def importers_of(edges: Iterable[Edge]) -> Mapping[str, Sequence[str]]:
    """For each imported module, the modules that import it directly."""
    result: dict[str, list[str]] = {}
    for importer, imported in edges:
        result.setdefault(imported, []).append(importer)
    return result


def batches(graph: Graph) -> tuple[Batch, Batch]:
    """Two refactorings, chosen by the shape of the graph alone, so that every Python version has its own.

    1. Imports dropped: three edges on import cycles, each the only one by which the library's core depends on the
       module at its end, and a new module between one of the importers and ``sys``.
    2. A module removed: nobody imports it any more and its own imports are gone. A core module takes up another module
       that the core did not use, which brings a whole cycle of importers with it, and one dropped import comes back.
    """
    core = _core(graph)
    dropped = _only_ways_out(graph, core)[:3]
    light = f"{dropped[0][0]}_light"
    first = Batch(
        "1-imports-dropped",
        "; ".join(f"{importer} stops importing {imported}" for importer, imported in dropped) + f"; {light} is new",
        tuple(sorted(dropped)),
        ((dropped[0][0], light), (light, "sys")),
    )
    edges = sorted((set(graph.edges) - set(first.deletions)) | set(first.insertions))
    old = next(module for module in REMOVABLE if any(module in edge for edge in edges))
    heir = dropped[-1][0]
    new = next(module for module in ADOPTABLE if module not in core and module in graph.modules)
    second = Batch(
        "2-module-removed",
        f"{old} is removed; {heir} takes up {new}; {dropped[0][0]} imports {dropped[0][1]} again",
        tuple(edge for edge in edges if old in edge),
        tuple(sorted({(heir, new), dropped[0]})),
    )
    return first, second


def _core(graph: Graph) -> set[str]:
    """The modules on the largest import cycle: all that import and are imported by its most imported member."""
    importers = importers_of(graph.edges)
    imports = importers_of((imported, importer) for importer, imported in graph.edges)
    popularity = Counter(imported for _, imported in graph.edges)
    for hub in sorted(popularity, key=lambda module: (-popularity[module], module)):
        core = affected_by(importers, hub) & affected_by(imports, hub)
        if core:
            return core
    raise ValueError("the import graph has no cycle")


def _only_ways_out(graph: Graph, core: set[str]) -> list[Edge]:
    """The edges within ``core`` that are the only one from it to their end, :data:`DEFERRABLE` ends first.

    At most one for each importer.
    """
    importers = importers_of(edge for edge in graph.edges if core.issuperset(edge))
    ends = [*DEFERRABLE, *sorted(core.difference(DEFERRABLE))]
    by_importer: dict[str, Edge] = {}
    for imported in ends:
        sole = importers.get(imported, ())
        if len(sole) == 1:
            by_importer.setdefault(sole[0], (sole[0], imported))
    return list(by_importer.values())


def write(out: Path, graph: Graph, changes: Iterable[Batch]) -> None:
    """Write ``imports.csv`` and a folder per batch below ``out``."""
    _write_csv(out / "imports.csv", ("importer", "imported"), graph.edges)
    for batch in changes:
        rows = [("-", *edge) for edge in batch.deletions] + [("+", *edge) for edge in batch.insertions]
        _write_csv(out / "batches" / batch.name / "imports.csv", ("op", "importer", "imported"), rows)


def _write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main() -> None:
    """Write the graph and the batches, and say what they hold."""
    parser = argparse.ArgumentParser(description="Write the import graph of the standard library as CSV.")
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--root", type=Path, help="library to read instead of the running Python's")
    options = parser.parse_args()
    graph = standard_library(options.root)
    changes = batches(graph)
    write(options.out, graph, changes)
    print(f"{len(graph.modules):,} modules, {len(graph.edges):,} imports, {len(graph.unreadable)} files not read")
    for batch in changes:
        print(f"{batch.name}: -{len(batch.deletions)} +{len(batch.insertions)}: {batch.story}")


if __name__ == "__main__":
    main()
