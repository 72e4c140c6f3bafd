"""Progress of a command on the terminal and in a log file."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..kernel.errors import JobError, without_keys
from .printing import visible_lines

if TYPE_CHECKING:
    from ..spark.types import SparkSession


class Log:
    """Reports progress on stderr, as one line that is rewritten on a terminal and one line per event elsewhere, and
    appends a line per event to a log file if there is one. A ``watcher`` (store.request) is told of batches."""

    def __init__(self, quiet: bool = False, file: str | None = None) -> None:
        """Start the clock; ``quiet`` leaves only warnings on stderr. Raise JobError if ``file`` cannot be written."""
        self.quiet = quiet
        self.file = None if file is None else Path(file)
        if self.file:
            try:
                self.file.open("a", encoding="utf-8").close()
            except OSError as error:
                raise JobError(f"{file} cannot be written to: {error.strerror}") from error
        self.live = not quiet and sys.stderr.isatty()
        self.started = time.monotonic()
        self.warnings: set[str] = set()
        self.watcher: Any = None

    def event(self, name: str, **fields: object) -> None:
        """Report an event; on a terminal it replaces the previous one."""
        seconds = round(time.monotonic() - self.started, 3)
        pairs = {"event": name, "seconds": seconds, **fields}
        logged = without_keys(" ".join(f"{key}={log_value(value)}" for key, value in pairs.items()))
        if self.file:
            try:
                with self.file.open("a", encoding="utf-8") as lines:
                    lines.write(f"{logged}\n")
            except OSError as error:
                # Completed work must not fail, or appear to fail, because its log cannot be written.
                self.warn(f"{self.file} gets no more events: {error}")
                self.file = None
        if self.live:
            values = "  ".join(f"{key} {log_value(value)}" for key, value in fields.items())
            line = without_keys(f"{seconds:6.1f} s  {name}  {values}")
            width = shutil.get_terminal_size().columns - 1
            self._say(f"\r\x1b[K{line[:width]}", end="")
        elif not self.quiet:
            self._say(logged)

    def warn(self, message: str) -> None:
        """Print a warning once, even when quiet; the work goes on."""
        message = without_keys(message)
        if message not in self.warnings:
            self.clear()
            self._say(visible_lines(f"warning: {message}"))
            self.warnings.add(message)

    def clear(self) -> None:
        """Clear the progress line on the terminal for the output that follows."""
        if self.live:
            self._say("\r\x1b[K", end="")

    def _say(self, text: str, end: str = "\n") -> None:
        """Print on stderr, ignoring the error if nobody reads it any more."""
        with contextlib.suppress(OSError):
            print(text, end=end, file=sys.stderr, flush=True)


def log_value(value: object) -> str:
    """Return a value in logfmt, quoted only where necessary."""
    text = f"{value:.3f}" if isinstance(value, float) else str(value)
    return text if re.fullmatch(r"[^\s\"=]+", text) else json.dumps(text, ensure_ascii=False)


def describe(spark: SparkSession, text: str) -> None:
    """Describe the Spark jobs that follow in Spark's UI; a Spark Connect session has no context for that."""
    if hasattr(spark, "sparkContext"):
        spark.sparkContext.setJobDescription(without_keys(text))
