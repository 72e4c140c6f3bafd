"""What depends on a fact, and what is kept beside tuples: derivation sets and live proofs, in states of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..kernel.errors import JobError
from ..kernel.sql import plain_type
from ..kernel.values import Values, plain_value, value_text


def fact_text(relation: Any, values: Values) -> str:
    """Return a fact as derivation sets name it: ``link(1,"a")``."""
    texts = []
    for value, column in zip(values, relation.columns, strict=True):
        text = value_text(plain_value(value, column.type))
        if plain_type(column.type) == "string" and (column.type == "string" or value):
            text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        texts.append(text)
    return f"{relation.name}({','.join(texts)})"


def kept_beside(program: Any, name: str, kinds: Mapping[str, str]) -> Any:
    """Return the relation that keeps more of the tuples of another one, of one of some ``kinds``, each with its name;
    raise JobError if there is none."""
    kept = {r.annotates: r for r in program.relations if r.kind in kinds}
    if name not in kept:
        others = ", ".join(sorted(r.name for r in program.relations if not r.hidden and r.name in kept))
        lacking = " nor ".join(kinds.values())
        no = f"neither {lacking}" if len(kinds) > 1 else f"no {lacking}"
        raise JobError(f"{name} has {no}; these have: {others or 'none'}")
    return kept[name]


def report_dependents(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that list what depends on a fact."""
    if "identities" in result and not result["identities"]:
        yield f"{result['tuple']} is not there"
    elif not result["tuples"]:
        yield f"nothing depends on {result['tuple']}"
    for dependent in result["tuples"]:
        where = f"  at {dependent['process']}" if dependent.get("process") else ""
        sets = f"  in {dependent['sets']} of {dependent['of']} derivation sets" if "sets" in dependent else ""
        yield f"{dependent['tuple']}{where}{sets}"
    if result["more"]:
        yield f"... and {result['more']:,} more (--limit shows more)"
    for name in result["elsewhere"] if result.get("identities") else ():
        identities = " and ".join(result["identities"])
        yield f"{name} runs another program; ask its script: depends {identities}"
