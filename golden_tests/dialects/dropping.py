"""Drops parts of the parse trees of programs one by one, to find what a frontend reads and leaves out without a word.

A part is a subtree or a token. Without it, the program in Flintlog's own language must be another one, or be refused:
what makes no difference is said by nothing that a user sees.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from flintlog.compiler.diagnostics import Diagnostics
from flintlog.compiler.dialects import DIALECTS
from flintlog.compiler.ir.syntax_printer import syntax_text
from flintlog.compiler.source import SourceFile
from lark import Token, Tree

#: How a frontend fails for a tree that its grammar does not make.
_FAILURES = (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
#: The children to follow from the root of a tree to a part.
Way = tuple[int, ...]


@dataclass
class Hook:
    """The method of a frontend that returns the tree of a statement. The trees are kept, so that a program is parsed
    once, and given again with a part of one of them left out. ``moved`` has the names of what the method changes."""

    owner: type
    method: str
    moved: Sequence[str] = ()
    trees: list[Any] = field(default_factory=list)
    after: list[dict[str, Any]] = field(default_factory=list)

    def record(self, patch: pytest.MonkeyPatch) -> None:
        """Keep the trees of the program that is read next."""
        original = getattr(self.owner, self.method)
        self.trees, self.after = [], []

        def recorded(instance: Any, *arguments: Any) -> Any:
            found = original(instance, *arguments)
            self.trees.append(found)
            self.after.append({name: getattr(instance, name) for name in self.moved})
            return found

        patch.setattr(self.owner, self.method, recorded)

    def replay(self, patch: pytest.MonkeyPatch, number: int, path: Way) -> None:
        """Give the trees again, the one of a number without the part at ``path``."""
        calls = iter(range(len(self.trees)))

        def replayed(instance: Any, *arguments: Any) -> Any:
            call = next(calls)
            vars(instance).update(self.after[call])
            return _without(self.trees[call], path) if call == number else self.trees[call]

        patch.setattr(self.owner, self.method, replayed)


def _without(tree: Any, path: Way) -> Any:
    """Return a tree without the part at a path."""
    place, *rest = path
    children = list(tree.children)
    children[place : place + 1] = [_without(children[place], tuple(rest))] if rest else []
    return Tree(tree.data, children, tree.meta)


def _parts(tree: Any, path: Way = (), above: str = "") -> Iterator[tuple[Way, str]]:
    """Yield the paths of the parts of a tree, with what each is: the rules above it, and its own rule or token."""
    for place, part in enumerate(tree.children):
        within = f"{above} {tree.data}".strip()
        yield (*path, place), f"{within} {part.type if isinstance(part, Token) else part.data}"
        if isinstance(part, Tree):
            yield from _parts(part, (*path, place), str(tree.data))


def _read(dialect: str, text: str) -> str:
    """Return a program in Flintlog's own language with what is reported about it; or how its frontend fails, since
    trees without a part need not be those of the grammar."""
    diagnostics = Diagnostics()
    try:
        program = DIALECTS[dialect].read(SourceFile(f"program.{dialect}", text), diagnostics, lambda name: None)
        told = "".join(f"\n{item.code}: {item.message}" for item in diagnostics.items)
        return f"{syntax_text(program)}{program.files}{told}"
    except _FAILURES as error:
        return f"{type(error).__name__}"


def unnoticed(dialect: str, texts: Sequence[str], hook: Hook, signs: Collection[str]) -> dict[str, str]:
    """Return the parts that make no difference, by their rules, each with a program in which it makes none. The types
    of tokens in ``signs`` say nothing that the rule which has them does not say. Programs have no errors."""
    found: dict[str, str] = {}
    for text in texts:
        with pytest.MonkeyPatch.context() as patch:
            hook.record(patch)
            whole = _read(dialect, text)
        assert "\nE0" not in whole, whole
        for number, tree in enumerate(hook.trees):
            for path, what in _parts(tree) if isinstance(tree, Tree) else ():
                if what in found or what.rpartition(" ")[2] in signs:
                    continue
                with pytest.MonkeyPatch.context() as patch:
                    hook.replay(patch, number, path)
                    if _read(dialect, text) == whole:
                        found[what] = text
    return found


def constructs(dialect: str, texts: Sequence[str], hook: Hook) -> set[str]:
    """Return the rules of the trees of some programs."""
    found: set[str] = set()
    for text in texts:
        with pytest.MonkeyPatch.context() as patch:
            hook.record(patch)
            _read(dialect, text)
        found |= {str(part.data) for tree in hook.trees if isinstance(tree, Tree) for part in tree.iter_subtrees()}
    return found


def rules_of(grammar: Callable[[], Any]) -> set[str]:
    """Return the rules that trees of a grammar can have."""
    rules = grammar().rules
    return {
        str(rule.alias or rule.origin.name)
        for rule in rules
        if rule.alias or not (rule.options.expand1 or str(rule.origin.name).startswith(("_", "junk")))
    }
