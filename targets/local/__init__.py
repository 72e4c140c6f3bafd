"""Programs run in this process, in one DuckDB database: the very rules and algorithms of the generated job."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from types import ModuleType

from flintlog.compiler.ir import plan

_NUMBERS = itertools.count(1)


class MissingDuckDB(Exception):
    """DuckDB is not installed; the message says how to install it."""

    def __init__(self) -> None:
        super().__init__('DuckDB is not installed, which this command needs; pip install "flintlog[run]" brings it')


def load(program: plan.Program) -> ModuleType:
    """The module of a program: its ``Session`` keeps the relations, its ``JobError`` says why a batch is refused.

    Raises :class:`MissingDuckDB`.
    """
    if importlib.util.find_spec("duckdb") is None:
        raise MissingDuckDB
    from .emit import emit_module

    module = ModuleType(f"flintlog_program_{next(_NUMBERS)}")
    # Dataclasses look their module up.
    sys.modules[module.__name__] = module
    exec(compile(emit_module(program), module.__name__, "exec"), module.__dict__)
    return module
