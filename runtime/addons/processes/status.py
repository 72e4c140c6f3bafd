"""The status file of a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...system.log import Log
from ...system.places import make_folder
from .channels import read_regular, write_whole


def status_path(root: Path, process: str) -> Path:
    """Return the path of the status file of a process."""
    return root / "status" / f"{process}.json"


def write_status(root: Path, process: str, text: bytes, log: Log) -> bool:
    """Write the status of a process, and return whether that succeeded; if not, warn."""
    path = status_path(root, process)
    try:
        make_folder(path.parent)
        write_whole(path, text, forced=False)
    except OSError as error:
        log.warn(f"the status cannot be written: {error}")
        return False
    return True


def read_status(root: Path, process: str) -> dict[str, Any]:
    """Return the last status of a process; empty if it cannot be read."""
    try:
        said = json.loads(read_regular(status_path(root, process)))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
