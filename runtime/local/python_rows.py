"""Read rows that are tuples or dicts of Python objects, also those of NumPy and pandas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from ..inputs.records import Record
from ..inputs.typed_values import unfit_moment
from ..inputs.values import Absent, RowShape
from ..kernel.values import shown

MISSING_VALUES = ("NAType", "NaTType")
"""The types of the markers by which pandas tells that a value is missing, besides None."""


def unknown_columns(names: Iterable[Any], shape: RowShape) -> str:
    """Return a message about columns that a relation does not have; empty if there are none."""
    declared = [column.name for column in shape.relation.columns]
    unknown = [shown(name) for name in names if name not in declared]
    which = f"{shape.relation.name} has {', '.join(declared) or 'no columns'}"
    return f"there is no column {', '.join(unknown)}; {which}" if unknown else ""


def python_record(row: Any, shape: RowShape) -> Record:
    """Return a row as a record, or a message why it is none."""
    columns = [column.name for column in shape.relation.columns]
    if isinstance(row, Mapping):
        return unknown_columns(row, shape) or [
            *(plain(row[name]) if name in row else Absent.ABSENT for name in columns),
            Absent.ABSENT,
        ]
    values = row.tolist() if hasattr(row, "tolist") else row
    if not isinstance(values, tuple | list):
        return f"{shown(row)} is not a row, which is a tuple or a dict"
    if len(values) != len(columns):
        return f"{len(values)} values instead of {len(columns)}" + (f" ({', '.join(columns)})" if columns else "")
    return [*map(plain, values), Absent.ABSENT]


def plain(value: Any) -> Any:
    """Return a value as an object of Python's own types: without those of NumPy and pandas, and with lists for
    tuples."""
    kind = type(value)
    if kind.__module__ == "builtins" and kind not in (list, tuple):
        return value
    if isinstance(value, tuple | list) or (kind.__name__ == "ndarray" and value.ndim):
        return [plain(item) for item in value]
    if kind.__name__ in MISSING_VALUES:
        return None
    if kind.__name__ == "datetime64":
        return moment_of_numpy(value)
    if kind.__module__ == "numpy":
        return value.item()
    return moment_of_pandas(value) if kind.__name__ == "Timestamp" else value


def moment_of_numpy(value: Any) -> Any:
    """Return a ``datetime64``: None if it is missing, a date if its unit is days, and else a timestamp; Unfit if there
    is none."""
    if value != value:
        return None
    if "[D]" in str(value.dtype):
        moment = value.item()
    else:
        micros = value.astype("datetime64[us]")
        if micros.dtype < value.dtype and micros != value:
            return unfit_moment(str(value), finer=True)
        moment = micros.item() if micros.astype(value.dtype) == value else None
    return moment if isinstance(moment, date) else unfit_moment(str(value))


def moment_of_pandas(value: Any) -> Any:
    """Return a ``Timestamp`` of pandas as one of Python; Unfit if there is none."""
    if value.nanosecond:
        return unfit_moment(str(value), finer=True)
    try:
        return value.to_pydatetime(warn=False)
    except (ValueError, OverflowError):
        return unfit_moment(str(value))
