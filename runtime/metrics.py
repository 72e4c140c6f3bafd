"""Measurements of commands, as lines of JSON in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import JobError, without_keys
from .log import Log
from .printing import value_text
from .retention import moment_after

MEASURED = ("init", "apply", "follow", "rollback", "revert", "rebuild", "upgrade", "compact", "recover", "vacuum")
"""The commands that are measured: those that make commits."""


class Metrics:
    """Appends a line of JSON to a file for each batch, and for each command that fails."""

    def __init__(self, file: str, program: str, command: str, state: str, log: Log) -> None:
        """Raise JobError if the file cannot be written."""
        self.file: Path | None = Path(file)
        self.log = log
        self.known = {"program": program, "command": command, "state": without_keys(state)}
        try:
            self.file.open("a", encoding="utf-8").close()
        except OSError as error:
            raise JobError(f"{file} cannot be written to: {error.strerror}") from error

    def add(self, result: Mapping[str, Any]) -> None:
        """Append the result of a batch, or the error of a command. What was done must not fail, or appear to fail,
        because it cannot be recorded."""
        if self.file is None:
            return
        told = {**self.known, **result}
        if "steps" in told:
            told["steps"] = [{key: step[key] for key in step if key != "tasks"} for step in told["steps"]]
        line = json.dumps({"time": moment_after(""), **told}, default=value_text, ensure_ascii=False)
        try:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(f"{line}\n")
        except OSError as error:
            self.log.warn(f"{self.file} gets no more measurements: {error}")
            self.file = None
