"""Checks that a script runs with the runtime that it was compiled for."""

from __future__ import annotations

import hashlib
from importlib.metadata import PackageNotFoundError, version


def require_file(name: str, sha256: str) -> None:
    """Raise ImportError unless the module ``name``, a file beside the script, has this hash; CRLF counts as LF."""
    module = __import__(name)
    content = module.__loader__.get_data(module.__file__)  # type: ignore[union-attr]
    found = hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()
    if found != sha256:
        raise ImportError(
            f"{module.__file__} is not the runtime that this script was compiled for: compile all scripts in its "
            "folder with the same release of Flintlog (flintlog build), and submit the runtime that it writes"
        )


def require_package(release: str) -> None:
    """Raise ImportError unless this release of the package ``flintlog`` is installed."""
    try:
        found = version("flintlog")
    except PackageNotFoundError:
        found = "none"
    if found != release:
        raise ImportError(
            f"this script was compiled for the runtime of flintlog {release}, but {found} is installed: compile it "
            f"again, or install flintlog=={release}"
        )
