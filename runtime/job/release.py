"""The check that a script runs with the release of the package that it was compiled for."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def require_package(release: str) -> None:
    """Raise ImportError unless this release of the package ``flintlog`` is installed."""
    try:
        installed = version("flintlog")
    except PackageNotFoundError:
        installed = "none"
    if installed != release:
        raise ImportError(
            f"this script was compiled for the runtime of flintlog {release}, but {installed} is installed: compile it "
            f"again, or install flintlog=={release}"
        )
