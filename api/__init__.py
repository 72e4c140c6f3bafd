"""Flintlog as a library: compile programs, and evaluate and maintain them in this process, without Spark.

    import flintlog

    program = '''
    input relation link(src: int, dst: int)
    output relation reachable(src: int, dst: int)
    reachable(X, Y) :- link(X, Y).
    reachable(X, Z) :- link(X, Y), reachable(Y, Z).
    '''
    result = flintlog.evaluate(program, {"link": [(1, 2), (2, 3)]})
    assert result["reachable"].to_list() == [(1, 2), (1, 3), (2, 3)]

What a name needs is imported when the name is used for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flintlog.compiler import Compiled
    from flintlog.compiler.diagnostics import CompileError
    from flintlog.runtime.kernel.errors import JobError, Passing

    from .embedded import View, open
    from .evaluation import Change, Rows, Session, evaluate
    from .programs import compile

__all__ = [
    "Change",
    "CompileError",
    "Compiled",
    "JobError",
    "Passing",
    "Rows",
    "Session",
    "View",
    "compile",
    "evaluate",
    "open",
]

_MODULES = {
    "Change": ".evaluation",
    "CompileError": ".compiler.diagnostics",
    "Compiled": ".compiler",
    "JobError": ".runtime.kernel.errors",
    "Passing": ".runtime.kernel.errors",
    "Rows": ".evaluation",
    "Session": ".evaluation",
    "View": ".embedded",
    "compile": ".programs",
    "evaluate": ".evaluation",
    "open": ".embedded",
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(_MODULES[name], __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted({*globals(), *__all__})
