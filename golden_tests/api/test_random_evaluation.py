"""Random programs and batches through the Python API, with rows in every form: the results are the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flintlog
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from flintlog import evaluation
from flintlog.runtime.engines.arrow import arrow_type

from golden_tests.checks import REFUSALS, insertions
from golden_tests.harness import Row, frozen_row
from golden_tests.nightly import by_day, seeds
from golden_tests.oracle.batches import Batch, apply, diff
from golden_tests.oracle.evaluate import evaluate
from golden_tests.oracle.language import Relation, parse
from golden_tests.random_search import MOST_ROUNDS, scenario_of


def arrow(rows: list[Row], columns: dict[str, str]) -> pa.Table:
    """Rows as an Arrow table."""
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    arrays = [pa.array(list(c), arrow_type(kind)) for c, kind in zip(values, columns.values(), strict=True)]
    if not columns:
        return pa.table({"row": pa.nulls(len(rows))}).select([])
    return pa.Table.from_arrays(arrays, names=list(columns))


FORMS: tuple[Callable[[list[Row], dict[str, str]], Any], ...] = (
    lambda rows, columns: rows,
    lambda rows, columns: (dict(zip(columns, row, strict=True)) for row in rows),
    arrow,
    lambda rows, columns: pl.from_arrow(arrow(rows, columns)) if columns else rows,
    lambda rows, columns: arrow(rows, columns).to_pandas(),
    lambda rows, columns: pd.DataFrame(rows, columns=list(columns)) if columns else rows,
)

READ: tuple[Callable[[flintlog.Rows], list[Any]], ...] = (
    lambda rows: rows.to_list(),
    lambda rows: [tuple(row.values()) for row in rows.to_dicts()],
    lambda rows: [tuple(row.values()) for row in rows.to_arrow().to_pylist()] if rows.columns else list(rows),
    lambda rows: rows.to_polars().rows() if rows.columns else list(rows),
)


def read(rows: flintlog.Rows, place: int) -> set[Row]:
    """Rows in one of the forms that the API returns, as the oracle holds them."""
    found = [frozen_row(row) for row in READ[place % len(READ)](rows)]
    assert len(set(found)) == len(found) == len(rows) == len(rows.to_pandas())
    return set(found)


@by_day(1)
@pytest.mark.parametrize("seed", seeds(4, 8))
def test_seeds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts, then batches: outputs and net changes, and nothing after a batch that is refused; and evaluated once, by
    rows or by columns."""
    monkeypatch.setattr(evaluation, "FEW_ROWS", 1000 if seed % 2 else -1)
    made = scenario_of(seed)
    program = parse(made.text)
    inputs: dict[str, set[Row]] = {}
    state: dict[str, set[Row]] = {}
    session: flintlog.Session | None = None
    with flintlog.Session(made.text, max_rounds=MOST_ROUNDS) as empty:
        columns = {r.name: dict(zip(empty[r.name].columns, empty[r.name].types, strict=True)) for r in program.inputs}

    def given(relation: Relation, batch: Batch, sign: str, place: int) -> Any:
        rows = [row for op, row in batch.get(relation.name, ()) if op == sign]
        return FORMS[place % len(FORMS)](rows, columns[relation.name])

    for number, batch in enumerate([insertions(made.inputs), *made.batches]):
        insert, delete = (
            {r.name: given(r, batch, sign, place) for place, r in enumerate(program.inputs, start=seed + number)}
            for sign in "+-"
        )
        try:
            after = apply(inputs, batch, program)
            expected = evaluate(program, after)
        except tuple(REFUSALS):
            with pytest.raises(flintlog.JobError):
                if session is None:
                    flintlog.evaluate(made.text, insert, max_rounds=MOST_ROUNDS)
                else:
                    session.apply(insert=insert, delete=delete)
            if session is None:
                return
        else:
            if session is None:
                session = flintlog.Session(made.text, insert, max_rounds=MOST_ROUNDS)
            else:
                changes = session.apply(insert=insert, delete=delete)
                net = diff(state, expected)
                for name, change in changes.items():
                    found = {("+", row) for row in read(change.inserted, seed + number)}
                    found |= {("-", row) for row in read(change.deleted, seed + number)}
                    assert found == net.get(name, set())
                    assert bool(change) == bool(found)
            inputs, state = after, expected
            if number == len(made.batches):
                once = flintlog.evaluate(made.text, inputs, max_rounds=MOST_ROUNDS)
                for name, rows in session.outputs().items():
                    assert repr(rows.to_list()) == repr(once[name].to_list())
        for name, rows in session.outputs().items():
            assert read(rows, seed + number) == (state[name] if name in state else inputs[name])
    assert session is not None
    session.close()
