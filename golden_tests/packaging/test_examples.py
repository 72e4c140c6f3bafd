"""The import graph that the demonstration reads: what counts as an import, and the batches made from it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from golden_tests.nightly import AT_NIGHT
from golden_tests.packaging.installations import ROOT, run

SCRIPT = ROOT / "examples" / "imports" / "import_graph.py"

LIBRARY = {
    "top.py": "import pkg.sub.leaf\nimport os.path, sys as system",
    "pkg/__init__.py": "from . import sub, version\nversion = 1",
    "pkg/sub/__init__.py": "from .leaf import thing\nfrom .. import other",
    "pkg/sub/leaf.py": "def later():\n    import top\n    from ..other import attribute",
    "pkg/other.py": "from .... import nothing\nfrom pkg.sub.leaf.thing import attribute\nimport not_in_the_library",
    "broken.py": "print 'old'",
    "no-module.py": "import top",
    "site-packages/foreign.py": "import top",
}


@pytest.fixture(scope="module")
def import_graph() -> ModuleType:
    """The example's module, which is no part of any package."""
    spec = importlib.util.spec_from_file_location("import_graph", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["import_graph"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A small library to read."""
    for name, text in LIBRARY.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return tmp_path / "lib"


def test_every_kind_of_import_is_an_edge(import_graph: ModuleType, library: Path) -> None:
    """Absolute, relative and late imports, submodules taken from packages, and packages of submodules."""
    graph = import_graph.standard_library(library)
    assert graph.unreadable == ("broken",)
    assert [f"{importer} {imported}" for importer, imported in graph.edges] == [
        "pkg pkg.sub",
        "pkg.other pkg",
        "pkg.other pkg.sub.leaf",
        "pkg.sub pkg",
        "pkg.sub pkg.other",
        "pkg.sub pkg.sub.leaf",
        "pkg.sub.leaf pkg.other",
        "pkg.sub.leaf pkg.sub",
        "pkg.sub.leaf top",
        "top os",
        "top pkg.sub.leaf",
        "top sys",
    ]


def test_affected_modules_are_all_that_import_it(import_graph: ModuleType) -> None:
    """Directly or through others; a module on a cycle is affected by its own change."""
    importers = import_graph.importers_of([("a", "b"), ("b", "c"), ("c", "b"), ("d", "a")])
    assert import_graph.affected_by(importers, "c") == {"a", "b", "c", "d"}
    assert import_graph.affected_by(importers, "d") == set()


@AT_NIGHT
def test_batches_change_the_graph_they_are_for(import_graph: ModuleType) -> None:
    """Deletions are there, insertions are not, and an edge that is deleted lies on an import cycle."""
    graph = import_graph.standard_library()
    edges = set(graph.edges)
    assert len(graph.modules) > 500
    for batch in import_graph.batches(graph):
        assert batch.deletions
        assert batch.insertions
        assert edges.issuperset(batch.deletions)
        assert edges.isdisjoint(batch.insertions)
        if batch.name.startswith("1"):
            importers = import_graph.importers_of(edges)
            for importer, imported in batch.deletions:
                assert importer in import_graph.affected_by(importers, importer)
                assert imported in import_graph.affected_by(importers, imported)
        edges = (edges - set(batch.deletions)) | set(batch.insertions)


def test_files_do_not_depend_on_the_hash_seed(library: Path, tmp_path: Path) -> None:
    """The same library gives the same bytes."""
    (library / "optparse.py").write_text("import top\n", encoding="utf-8")
    (library / "tomllib.py").touch()
    written = []
    for seed in ("1", "2026"):
        run(sys.executable, SCRIPT, tmp_path / seed, "--root", library, PYTHONHASHSEED=seed)
        paths = sorted((tmp_path / seed).rglob("*.csv"))
        written.append([(path.relative_to(tmp_path / seed), path.read_bytes()) for path in paths])
    assert len(written[0]) == 3
    assert written[0] == written[1]
