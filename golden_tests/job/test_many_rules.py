"""Jobs of many rules: what a batch takes depends on what it touches, not on how many rules there are beside."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from golden_tests.harness import compile_text, load_script
from golden_tests.nightly import AT_NIGHT
from golden_tests.passes.test_large_programs import FEW, MOST, calls

PART = """
input relation e{n}(x: int, y: int)
output relation c{n}(x: int, y: int)
c{n}(X, Y) :- e{n}(X, Y).
c{n}(X, Z) :- c{n}(X, Y), e{n}(Y, Z).
d{n}(X, count<*>) :- c{n}(X, _), !e{n}(X, X).
"""


class ManyParts:
    """A job of parts that have nothing in common, each with rules and an input of its own."""

    def __init__(self, parts: int, folder: Path) -> None:
        """Build its state, with a path of a few edges in each part."""
        _, script = compile_text("".join(PART.format(n=n) for n in range(parts)))
        self.module: Any = load_script(script)
        self.state = folder / f"state-{parts}"
        rows = folder / "rows.csv"
        rows.write_text("x,y\n" + "".join(f"{n},{n + 1}\n" for n in range(8)), encoding="utf-8")
        self.quiet = self.module.Log(quiet=True)
        self.module.init(None, str(self.state), {f"e{n}": str(rows) for n in range(parts)}, log=self.quiet)
        self.changes = folder / "changes.csv"
        self.changes.write_text("op,x,y\n-,6,7\n", encoding="utf-8")

    def apply(self) -> None:
        """Delete an edge of the second part."""
        self.module.apply(None, str(self.state), {"e1": str(self.changes)}, log=self.quiet)


def statements(job: ManyParts, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The statements of a batch, by their beginnings."""
    found: Counter[str] = Counter()
    real = job.module.DuckEngine._execute

    def counted(engine: Any, sql: str, *more: Any) -> Any:
        found[" ".join(sql.split()[:5])] += 1
        return real(engine, sql, *more)

    monkeypatch.setattr(job.module.DuckEngine, "_execute", counted)
    job.apply()
    return found


@AT_NIGHT
def test_statements_depend_on_what_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six times the rules, and the same statements."""
    few, many = (statements(ManyParts(parts, tmp_path), monkeypatch) for parts in (2, 12))
    assert few == many and 10 < few.total() < 60


@AT_NIGHT
def test_work_grows_with_the_rules(tmp_path: Path) -> None:
    """What is done for each rule that nothing touches is not done for each pair of them."""
    calls(ManyParts(2, tmp_path).apply)
    size = 10
    once, twice = (calls(ManyParts(parts, tmp_path).apply) for parts in (size, 2 * size))
    found = {what: (once[what], count) for what, count in twice.items() if count > max(MOST * once[what], FEW)}
    assert found == {}, f"calls for {size} and {2 * size}"
