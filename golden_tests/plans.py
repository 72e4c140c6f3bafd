"""Which joins the statements of a job are planned as: to find those that compare every row with every other one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

#: Joins of DuckDB that compare all pairs of rows. Ranges have joins of their own.
SLOW_IN_DUCKDB = ("NESTED_LOOP_JOIN", "BLOCKWISE_NL_JOIN", "CROSS_PRODUCT")
#: And those of Spark.
SLOW_IN_SPARK = re.compile(r"(?:CartesianProduct|BroadcastNestedLoopJoin).*")
#: Statements with a query.
WITH_QUERY = re.compile(r"\s*(?:SELECT|WITH|INSERT|DELETE|CREATE (?:OR REPLACE )?TABLE \S+ AS)\b")


class PlansInDuckDB:
    """The slow joins in the statements of a job, in memory or in tasks of this process."""

    def __init__(self, module: Any) -> None:
        """Look at the plan of every statement from now on. ``module`` is the script of the job."""
        #: The statements with slow joins, and these.
        self.slow: dict[str, list[str]] = {}
        self.statements: set[str] = set()
        run_plainly = module.DuckEngine._execute

        def execute(engine: Any, sql: str, run: Any = None) -> Any:
            if WITH_QUERY.match(sql) and sql not in self.statements:
                self.statements.add(sql)
                ((_, text),) = run_plainly(engine, f"EXPLAIN (FORMAT json) {sql}").fetchall()
                found = [join for tree in json.loads(text) for join in slow_in_duckdb(tree)]
                if found:
                    self.slow[sql] = found
            return run_plainly(engine, sql, run)

        module.DuckEngine._execute = execute


def slow_in_duckdb(tree: dict[str, Any]) -> Iterator[str]:
    """The slow joins of a plan. A product with at most one row, which takes no longer than any other join, is not slow,
    and neither is one with rows that lack a value: if there is one, the batch is refused."""
    name, sides = tree["name"].strip(), tree["children"]
    few = name == "CROSS_PRODUCT" and any(map(is_one_row, sides))
    if name in SLOW_IN_DUCKDB and not few and not any(map(lacks_value, sides)):
        yield f"{name} {tree['extra_info'].get('Condition', '')}".strip()
    for side in sides:
        yield from slow_in_duckdb(side)


def is_one_row(tree: dict[str, Any]) -> bool:
    """Whether a side of a join has one row at most, as far as DuckDB knows."""
    return tree["extra_info"].get("Estimated Cardinality") in ("0", "1") or tree["name"].strip() == "EMPTY_RESULT"


def lacks_value(tree: dict[str, Any]) -> bool:
    """Whether a side of a join has only rows in which an expression has no value."""
    told = json.dumps(tree["extra_info"])
    return ("TRY(" in told and "IS NULL" in told) or any(map(lacks_value, tree["children"]))


def slow_in_spark(frame: Any) -> list[str]:
    """The slow joins of a query of Spark."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return [found[0] for found in SLOW_IN_SPARK.finditer(plan)]
