"""Places as Spark's readers and writers expect them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..system.places import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def spark_folder(place: Path | str) -> str:
    """Return an absolute place as Spark's writers expect it, with a scheme: never on another default file system."""
    return str(place) if scheme_of(str(place)) else f"file://{place}"


def spark_path(place: Path | str) -> str:
    """Return an absolute place as Spark's readers expect it, with glob characters escaped."""
    return as_pattern(spark_folder(place))


def as_pattern(place: str) -> str:
    """Return the pattern that only one place matches, as Spark's readers expect it."""
    return re.sub(r"([\\{}\[\]*?])", r"\\\1", place)


def write_parquet(frame: DataFrame, folder: Path) -> list[str]:
    """Write a frame as Parquet files into ``folder`` and return their paths."""
    frame.write.parquet(spark_folder(folder))
    return [str(file) for file in sorted(folder.glob("*.parquet"))]
