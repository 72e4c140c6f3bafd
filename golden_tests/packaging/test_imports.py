"""Modules import each other without circles, and no name stands for two things."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("compiler", "targets", "runtime")


@cache
def modules() -> dict[str, Path]:
    """The modules of the project by their names."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(name: str, inner: bool) -> frozenset[str]:
    """Return the modules that a module imports when it is imported or, if ``inner``, in its functions."""
    return frozenset(found(name, inner))


def found(name: str, inner: bool) -> Iterator[str]:
    """Yield the modules that :func:`imports` returns."""
    path = modules()[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node, within in nodes(ast.parse(path.read_text(encoding="utf-8")), False):
        if within != inner:
            continue
        if isinstance(node, ast.ImportFrom):
            # One dot is the package itself, and each further one the package around it.
            base = ["flintlog", *package][: len(package) + 2 - node.level] if node.level else []
            full = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield from known(f"{full}.{alias.name}", full)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield from known(alias.name)


def nodes(tree: ast.AST, within: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield the nodes below ``tree`` and whether they are in a function; blocks for type checkers are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node, within
        yield from nodes(node, within or isinstance(node, ast.FunctionDef | ast.Lambda))


def known(*names: str) -> Iterator[str]:
    """Yield the first of the names that is a module of the project, without ``flintlog``."""
    for name in names:
        if name.removeprefix("flintlog.") in modules() and name.startswith("flintlog."):
            yield name.removeprefix("flintlog.")
            return


def room(module: str) -> str:
    """Return the room of a module: the first part of its name, and in ``compiler`` the second one too."""
    parts = module.split(".")
    return ".".join(parts[:2] if parts[0] == "compiler" else parts[:1])


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a circle of a graph, empty if it has none."""
    sorter = TopologicalSorter({node: [other for other in others if other != node] for node, others in graph.items()})
    try:
        sorter.prepare()
    except ValueError as error:
        return list(error.args[1])
    return []


def test_no_circles_between_modules() -> None:
    """Whichever module is imported first, all that it needs is complete."""
    assert circle({name: imports(name, inner=False) for name in modules()}) == []


def test_imports_are_found() -> None:
    """Of packages and modules, by name and with dots, in functions and outside; not those for type checkers."""
    assert "compiler.ir.typed" in imports("compiler.passes.resolve", inner=False)
    assert "compiler.diagnostics" in imports("compiler.passes.resolve", inner=False)
    assert "compiler.pipeline" not in imports("compiler.cli.reporting", inner=False)
    assert "compiler.pipeline" in imports("compiler.cli.reporting", inner=True)
    assert "targets.pyspark.sql" in imports("targets.pyspark.view", inner=False)
    assert circle({"a": ["b"], "b": ["c"], "c": ["a"]}) != []


def test_a_class_name_says_one_thing() -> None:
    """No two classes of the project have one name."""
    places: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_tables_are_named_in_one_module() -> None:
    """No other module makes the name of a table by adding a suffix to that of a relation."""
    found = []
    for name, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for before, after in pairwise(node.values if isinstance(node, ast.JoinedStr) else ()):
                if isinstance(before, ast.FormattedValue) and isinstance(after, ast.Constant):
                    found += [name] * bool(re.match("__[a-z]", str(after.value)))
    assert found == []


def test_names_of_the_runtime_can_share_a_script() -> None:
    """No two modules of the runtime define one name, since a script may hold both."""
    places: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body if room(name) == "runtime" else ():
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            found = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.append(node.name)
            for own in found:
                places.setdefault(own, []).append(name)
    del places["__all__"]
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
