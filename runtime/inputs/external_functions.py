"""External functions, which the user supplies in a Python file or as a mapping by name. Scripts of programs that
declare some have this module.

SQL may call them for rows that no derivation uses in the end. A failed call therefore returns NULL, and refuses the
batch only if a derivation needs the value, like arithmetic without a result.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from ..kernel.errors import JobError
from ..kernel.model import ExternalFunction, FunctionSource
from ..kernel.sql import decimal_size, element_type, is_list
from ..store.extensions import FURTHER
from .typed_values import read_bool, read_date, read_decimal, read_float, read_timestamp
from .values import Reader, read_int, read_string

FAILURES_LISTED = 3

FUNCTIONS_MODULE = "flintlog_functions"

PYTHON_TYPES: dict[str, tuple[type, Reader]] = {
    "int": (int, read_int),
    "float": (float, read_float),
    "string": (str, read_string),
    "bool": (bool, read_bool),
    "date": (date, read_date),
    "timestamp": (datetime, read_timestamp),
}


class Supplied:
    """The external functions of a program, as given to a run. ``sources`` maps each name to a hash of the file that
    defines the function, empty if there is no such file."""

    def __init__(self, program: Any, given: FunctionSource) -> None:
        """Take the functions from a file or a mapping; raise :class:`JobError` unless they match the declarations."""
        self.declared = program.functions
        declared = [function.name for function in program.functions]
        listed = ", ".join(map(str, program.functions))
        if given is None:
            raise JobError(f"{program.name} needs Python functions; pass their file with --functions FILE: {listed}")
        functions = given if isinstance(given, Mapping) else functions_of_file(str(given))
        missing = [name for name in declared if not callable(functions.get(name))]
        if missing:
            where = "the mapping of functions" if isinstance(given, Mapping) else str(given)
            raise JobError(f"{where} has no function {', '.join(missing)}; {program.name} declares {listed}")
        extra = sorted(set(functions) - set(declared)) if isinstance(given, Mapping) else []
        if extra:
            raise JobError(f"{program.name} declares no function {', '.join(extra)}, but {listed}")
        self.functions = {name: functions[name] for name in declared}
        self.sources: Mapping[str, str] = {n: file_hash(f) for n, f in self.functions.items()}
        self.failures: list[str] = []

    def define(self, engine: Any, notes: Path | None = None) -> None:
        """Register the functions with the engine; failed calls are noted here and, if given, in files in ``notes``."""
        # Tasks in threads of this process share the functions, but each has an engine of its own.
        failures = self.failures = []
        for declared in self.declared:
            call = functools.partial(call_supplied, declared, self.functions[declared.name], failures, notes)
            engine.define(declared, call)
        engine.failed_calls = functools.partial(failed_calls, failures, notes)

    def check(self, known: Mapping[str, str]) -> None:
        """Raise JobError if a state was made with other functions, as far as ``known`` hashes of files tell."""
        changed = [name for name, source in self.sources.items() if known.get(name) != source]
        if changed:
            raise JobError(
                f"the state was made with another version of {', '.join(changed)}: the file that defines it differs; "
                "`rebuild` recomputes the state with the functions as they are now"
            )


def failed_calls(failures: list[str], notes: Path | None) -> str:
    """Return the first failed calls as text to append to a message."""
    kept = [path.read_text(encoding="utf-8") for path in sorted(notes.glob("*"))] if notes else []
    listed = list(dict.fromkeys([*failures, *kept]))[:FAILURES_LISTED]
    return "".join(f"\n  {failure}" for failure in listed)


def functions_of_file(path: str) -> dict[str, Any]:
    """Execute a Python file and return what it defines; raise JobError if that fails."""
    spec = importlib.util.spec_from_file_location(FUNCTIONS_MODULE, path)
    try:
        assert spec is not None and spec.loader is not None, "its name does not end in .py"
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except Exception as error:
        raise JobError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    return vars(module)


def file_hash(function: Callable[..., Any]) -> str:
    """Return a hash of the file that defines a function, empty if there is none."""
    import hashlib
    import inspect

    try:
        return hashlib.sha256(Path(inspect.getfile(function)).read_bytes()).hexdigest()
    except (TypeError, OSError):
        return ""


def call_supplied(
    declared: ExternalFunction, function: Callable[..., Any], failures: list[str], notes: Path | None, *arguments: Any
) -> Any:
    """Return a function's value in the declared type, or None if an argument is None or the call fails, noting why. SQL
    passes one argument even to a function without parameters; it is dropped."""
    if any(argument is None for argument in arguments):
        return None
    arguments = arguments[: len(declared.parameters)]
    try:
        return supplied_value(function(*arguments), declared.result)
    except Exception as error:
        if len(failures) < FAILURES_LISTED:
            shown_arguments = ", ".join(map(repr, arguments))
            what = str(error) if isinstance(error, WrongResult) else f"{type(error).__name__}: {error}"
            failures.append(f"{declared.name}({shown_arguments}): {what}")
            if notes is not None:
                notes.mkdir(parents=True, exist_ok=True)
                (notes / uuid.uuid4().hex).write_text(failures[-1], encoding="utf-8")
        return None


class WrongResult(ValueError):
    """A function has returned a value that does not fit its declared type."""


def supplied_value(value: Any, kind: str) -> Any:
    """Return the result of a function as a value of its declared type; raise WrongResult if it does not fit."""
    if is_list(kind) and isinstance(value, list | tuple):
        return [supplied_value(item, element_type(kind)) for item in value]
    python_type, read = PYTHON_TYPES.get(kind, (list, read_string))
    if kind.startswith("decimal"):
        python_type, read = Decimal, functools.partial(read_decimal, *decimal_size(kind))
    fits = isinstance(value, python_type) and isinstance(value, bool) == (kind == "bool")
    if kind == "date":
        fits = fits and not isinstance(value, datetime)
    if kind == "float":
        fits = fits or (isinstance(value, int) and not isinstance(value, bool))
    if not fits:
        raise WrongResult(f"it returned {value!r}, which is no {kind}")
    try:
        return read(value)
    except ValueError as error:
        raise WrongResult(f"it returned {value!r}: {error}") from error


FURTHER["functions"] = Supplied
