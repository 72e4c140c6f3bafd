"""Bundle the modules of ``flintlog.runtime`` that a script needs into one text.

Runtime modules import each other by name and without cycles, and no two define the same name. In one file, in the
order of dependencies, they therefore need no imports of each other.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

PACKAGE = "flintlog.runtime"
WIDTH = 100


@dataclass(frozen=True)
class Module:
    """A module of the runtime: its ``name`` in the package (``inputs.records``), its docstring, the modules of the
    runtime that it ``needs``, its other ``imports``, those for type checkers only, and the ``body``, which is
    everything after these."""

    name: str
    doc: str
    needs: tuple[str, ...]
    imports: tuple[str, ...]
    typing_imports: tuple[str, ...]
    body: str

    @property
    def sha256(self) -> str:
        """Return the SHA-256 of the body in hexadecimal."""
        return hashlib.sha256(self.body.encode()).hexdigest()


#: An import of a runtime module inside a function.
_INNER = re.compile(r"^ +from (\.+[\w.]*) import [\w, ]+\n", re.MULTILINE)
#: The first line of a module that belongs neither to the docstring nor to an import.
_BODY = re.compile(r"^(?!from |import |if TYPE_CHECKING:|\)|\"\"\"| |\n)", re.MULTILINE)


@cache
def modules() -> dict[str, Module]:
    """Return all modules of the runtime by name, without the ``__init__`` modules of packages."""
    return {module.name: module for module in _read(files(PACKAGE), "")}


def _read(folder: Traversable, prefix: str) -> Iterator[Module]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and not entry.name.startswith("_"):
            yield from _read(entry, f"{prefix}{entry.name}.")
        elif entry.name.endswith(".py") and entry.name != "__init__.py":
            yield _module(prefix + entry.name.removesuffix(".py"), entry.read_text(encoding="utf-8"))


def _module(name: str, text: str) -> Module:
    docstring = text.index('"""', 3) + 3
    found = _BODY.search(text, docstring + 1)
    start = found.start() if found else len(text)
    head, body = ast.parse(text[:start]), text[start:]
    needs: list[str] = []
    imports: list[str] = []
    typing_imports: list[str] = []
    for statement in head.body[1:]:
        guarded = statement.body if isinstance(statement, ast.If) else [statement]
        for node in guarded:
            if isinstance(node, ast.ImportFrom) and node.level:
                needs.append(_absolute(name, node.level, node.module or ""))
            elif not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
                (typing_imports if isinstance(statement, ast.If) else imports).append(ast.unparse(node))
    for inner in _INNER.findall(body):
        level = len(inner) - len(inner.lstrip("."))
        needs.append(_absolute(name, level, inner[level:]))
    body = _INNER.sub("", body).strip("\n")
    return Module(name, ast.get_docstring(head) or "", tuple(needs), tuple(imports), tuple(typing_imports), body)


def _absolute(name: str, level: int, module: str) -> str:
    parts = name.split(".")[:-level]
    return ".".join([*parts, module] if module else parts)


@cache
def constants() -> frozenset[str]:
    """Return the constants of all modules, which the constants of a program must not shadow."""
    found = (
        re.findall(r"^([A-Z][A-Z0-9_]*)(?:, ([A-Z][A-Z0-9_]*))?(?=:| =)", m.body, re.M) for m in modules().values()
    )
    return frozenset(name for names in found for pair in names for name in pair if name)


def reachable(roots: Iterable[str]) -> tuple[Module, ...]:
    """Return ``roots`` and the modules that they need, each after its imports. Raise KeyError for an unknown module."""
    known, found = modules(), dict[str, Module]()

    def visit(name: str) -> None:
        if name not in found:
            module = known[name]
            for needed in module.needs:
                visit(needed)
            found[name] = module

    for root in roots:
        visit(root)
    return tuple(found.values())


def bundle(roots: Iterable[str]) -> str:
    """Return the text of ``roots`` and all modules that they need: the imports, then a section for each module."""
    chosen = reachable(roots)
    sections = ["\n".join(_imports(chosen))]
    sections += [f"{_heading(module)}\n\n\n{module.body}" for module in chosen]
    return "\n\n\n".join(sections)


def _heading(module: Module) -> str:
    title = f"# ---- runtime: {module.name}, {module.sha256[:12]} ".ljust(WIDTH, "-")
    return "\n".join([title, *(f"# {line}".rstrip() for line in module.doc.splitlines())])


def _imports(chosen: Iterable[Module]) -> Iterator[str]:
    """Yield the merged import statements, the standard library first, then those for type checkers only."""
    usual = {part for module in chosen for line in module.imports for part in _parts(line)}
    typing = {part for module in chosen for line in module.typing_imports for part in _parts(line)} - usual
    yield from _merged(usual)
    if typing:
        yield ""
        yield "if TYPE_CHECKING:"
        yield from (f"    {line}" for line in _merged(typing) if line)


def _parts(line: str) -> list[str]:
    """Split an import statement into one statement for each imported name."""
    start, mark, names = line.partition(" import ")
    return [f"{start}{mark}{name}" for name in names.split(", ")] if mark else [line]


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
