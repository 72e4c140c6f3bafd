"""Bundle what a script needs of ``flintlog.runtime`` into one text.

Runtime modules import each other by name and without cycles, and no two define the same name. In one file, in the
order of dependencies, they therefore need no imports of each other. A bundle has the functions, classes and constants
that a script reaches by their names, each as it stands in its module, and the imports that these use. Classes are
whole: which of their methods a library calls, no name says, and few methods are without a use.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGE = "flintlog.runtime"
WIDTH = 100


@dataclass(frozen=True, eq=False)
class ModulePiece:
    """A statement at the top level of a module, with the comments above it and the docstring below it, as ``text``;
    the number of blank lines before it (``gap``); the names that it ``binds``, and those that it ``uses``, which may be
    local. A piece that binds none registers something: it is kept if anything of its module is."""

    text: str
    gap: int
    binds: tuple[str, ...]
    uses: frozenset[str]


@dataclass(frozen=True, eq=False)
class Module:
    """A module of the runtime: its ``name`` in the package (``inputs.records``), its docstring and its ``pieces``; the
    runtime modules of the names that it imports (``homes``), and those that it ``needs`` when it runs, not only for
    type checkers; its other ``imports``, as statements by the names that they bind, and those for type checkers."""

    name: str
    doc: str
    pieces: tuple[ModulePiece, ...]
    homes: Mapping[str, str]
    needs: frozenset[str]
    imports: Mapping[str, tuple[str, ...]]
    typing_imports: Mapping[str, tuple[str, ...]]

    @cached_property
    def binding(self) -> dict[str, ModulePiece]:
        """Return the pieces by the names that they bind."""
        return {name: piece for piece in self.pieces for name in piece.binds}


@dataclass(frozen=True)
class Section:
    """The part of a ``module`` that a bundle has: its ``names`` that are in use, with their pieces and imports."""

    module: Module
    names: frozenset[str]

    @property
    def pieces(self) -> tuple[ModulePiece, ...]:
        """Return the pieces, in order."""
        return tuple(p for p in self.module.pieces if not p.binds or not self.names.isdisjoint(p.binds))

    @property
    def body(self) -> str:
        """Return the text of the pieces, with as many blank lines between two as in the module."""
        kept, text, gap = {*self.pieces}, "", 0
        for piece in self.module.pieces:
            gap = max(gap, piece.gap)
            if piece in kept:
                text += "\n" * (gap + 1) + piece.text if text else piece.text
                gap = 0
        return text

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the body in hexadecimal."""
        return hashlib.sha256(self.body.encode()).hexdigest()


@cache
def texts() -> dict[str, str]:
    """Return the texts of all modules of the runtime by name; the names of packages end in ``__init__``."""
    return dict(_read(files(PACKAGE), ""))


@cache
def sources() -> dict[str, str]:
    """Return the texts of all modules of the runtime by name, without those of packages."""
    return {name: text for name, text in texts().items() if not name.endswith("__init__")}


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and not entry.name.startswith("_"):
            yield from _read(entry, f"{prefix}{entry.name}.")
        elif entry.name.endswith(".py"):
            yield prefix + entry.name.removesuffix(".py"), entry.read_text(encoding="utf-8")


@cache
def module(name: str) -> Module:
    """Return the module of the runtime with this name. Raise KeyError if there is none."""
    text = sources()[name]
    tree, lines = ast.parse(text), text.split("\n")
    homes: dict[str, str] = {}
    needs: set[str] = set()
    imports: tuple[dict[str, tuple[str, ...]], ...] = ({}, {})
    pieces: list[ModulePiece] = []
    end = tree.body[0].end_lineno or 0
    for statement in tree.body[1:]:
        start, end = end, statement.end_lineno or 0
        guarded = isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING"
        for node in statement.body if isinstance(statement, ast.If) and guarded else [statement]:
            if isinstance(node, ast.ImportFrom) and node.level:
                homes |= _homes(name, node)
                needs |= set() if guarded else {*_homes(name, node).values()}
            elif isinstance(node, ast.Import | ast.ImportFrom):
                for bound, line in _imported(node):
                    imports[guarded][bound] = (*imports[guarded].get(bound, ()), line)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                pieces[-1] = replace(pieces[-1], text="\n".join([pieces[-1].text, *lines[start:end]]))
            else:
                inside = [*ast.walk(node)]
                inner = [each for each in inside if isinstance(each, ast.ImportFrom) and each.level]
                for each in inner:
                    homes |= _homes(name, each)
                    needs |= {*_homes(name, each).values()}
                dropped = {number for each in inner for number in range(each.lineno - 1, each.end_lineno or 0)}
                kept = [lines[number] for number in range(start, end) if number not in dropped]
                gap = next(number for number, line in enumerate(kept) if line)
                uses = frozenset(each.id for each in inside if isinstance(each, ast.Name))
                pieces.append(ModulePiece("\n".join(kept[gap:]), gap, _bound(node), uses))
    doc = ast.get_docstring(tree) or ""
    return Module(name, doc, tuple(pieces), homes, frozenset(needs), *imports)


def _homes(name: str, node: ast.ImportFrom) -> dict[str, str]:
    """Return the module of each name that the module ``name`` imports from the runtime."""
    parts = name.split(".")[: -node.level]
    return dict.fromkeys((alias.name for alias in node.names), ".".join([*parts, node.module or ""]).rstrip("."))


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield each name that an import binds, with a statement for it alone."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias.asname or alias.name.split(".")[0], f"import {ast.unparse(alias)}"
        elif node.module != "__future__":
            yield alias.asname or alias.name, f"from {node.module} import {ast.unparse(alias)}"


def _bound(node: ast.stmt) -> tuple[str, ...]:
    """Return the names that a statement binds; none if it does anything else."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return tuple(name.id for name in names if isinstance(name, ast.Name))


@cache
def constants() -> frozenset[str]:
    """Return the constants of all modules, which the constants of a program must not shadow."""
    found = (
        re.findall(r"^([A-Z][A-Z0-9_]*)(?:, ([A-Z][A-Z0-9_]*))?(?=:| =)", text, re.M) for text in sources().values()
    )
    return frozenset(name for names in found for pair in names for name in pair if name)


def reachable(roots: Iterable[str]) -> tuple[Module, ...]:
    """Return ``roots`` and the modules that they import, each after those, except for imports for types. Raise KeyError
    for an unknown module."""
    found: dict[str, Module] = {}

    def visit(name: str) -> None:
        if name not in found:
            visited = module(name)
            for needed in dict.fromkeys(visited.homes.values()):
                if needed in visited.needs:
                    visit(needed)
            found[name] = visited

    for root in roots:
        visit(root)
    while missing := {name for module in found.values() for name in module.homes.values()} - found.keys():
        for name in sorted(missing):
            visit(name)
    return tuple(found.values())


def sections(roots: Mapping[str, Iterable[str]]) -> tuple[Section, ...]:
    """Return what of the runtime a script needs that uses names of some modules, ``roots``, and what these register:
    a section for each module, in the order of dependencies."""
    used: dict[str, set[str]] = {}
    waiting = [(name, frozenset(names)) for name, names in roots.items()]
    while waiting:
        name, names = waiting.pop()
        visited = module(name)
        if name not in used:
            used[name] = set()
            names = names.union(*(piece.uses for piece in visited.pieces if not piece.binds))
        new, binding = names - used[name], visited.binding
        used[name] |= new
        waiting += [(name, binding[bound].uses) for bound in new & binding.keys()]
        waiting += [(visited.homes[bound], frozenset((bound,))) for bound in new & visited.homes.keys()]
    return tuple(Section(each, frozenset(used[each.name])) for each in reachable(roots) if each.name in used)


LAZY = re.compile(r"import (pyarrow[.\w]*) as (\w+)")
"""The imports that scripts can do when they need them."""


def bundle(roots: Mapping[str, Iterable[str]], lazy: bool = False) -> str:
    """Return the text of what a script needs of the runtime: the imports, then a section for each module; see
    :func:`sections`. If ``lazy``, PyArrow is imported when something of it is needed."""
    chosen = sections({**roots, "system.lazy": {"LazyLibrary"}} if lazy else roots)
    lines = [*_imports(chosen)]
    late = [match for line in lines if (match := LAZY.fullmatch(line))] if lazy else []
    imports = "\n".join(line for line in lines if not (lazy and LAZY.fullmatch(line)))
    texts = [imports.rstrip()]
    texts += [f"{_heading(section)}\n\n\n{section.body}" for section in chosen if section.pieces]
    texts += ["\n".join(f'{name} = LazyLibrary("{library}")' for library, name in (m.groups() for m in late))] * lazy
    return "\n\n\n".join(texts)


def _heading(section: Section) -> str:
    title = f"# ---- runtime: {section.module.name}, {section.sha256[:12]} ".ljust(WIDTH, "-")
    return "\n".join([title, *(f"# {line}".rstrip() for line in section.module.doc.splitlines())])


def _imports(chosen: Iterable[Section]) -> Iterator[str]:
    """Yield the merged import statements, the standard library first, then those for type checkers only."""
    usual: set[str] = set()
    typing: set[str] = set()
    for section in chosen:
        for found, imports in ((usual, section.module.imports), (typing, section.module.typing_imports)):
            found.update(line for name in section.names & imports.keys() for line in imports[name])
    typing -= usual
    yield from _merged(usual | ({"from typing import TYPE_CHECKING"} if typing else set()))
    if typing:
        yield ""
        yield "if TYPE_CHECKING:"
        yield from (f"    {line}" for line in _merged(typing) if line)


def _merged(lines: Iterable[str]) -> Iterator[str]:
    plain: dict[bool, set[str]] = {False: set(), True: set()}
    named: dict[bool, dict[str, set[str]]] = {False: {}, True: {}}
    for line in lines:
        words = line.split()
        foreign = words[1].split(".")[0] in ("duckdb", "pyarrow", "pyspark")
        if words[0] == "import":
            plain[foreign].add(line)
        else:
            names = line.partition(" import ")[2].split(", ")
            named[foreign].setdefault(words[1], set()).update(names)
    for foreign in (False, True):
        if foreign and (plain[True] or named[True]):
            yield ""
        yield from sorted(plain[foreign])
        for module, found in sorted(named[foreign].items()):
            yield f"from {module} import {', '.join(sorted(found))}"
