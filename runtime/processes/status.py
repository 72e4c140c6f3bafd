"""The status file of a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .channels import read_regular


def status_path(root: Path, process: str) -> Path:
    """Return the path of the status file of a process."""
    return root / "status" / f"{process}.json"


def read_status(root: Path, process: str) -> dict[str, Any]:
    """Return the last status of a process; empty if it cannot be read."""
    try:
        said = json.loads(read_regular(status_path(root, process)))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
