"""The installations, made once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden_tests.packaging.installations import (
    Installation,
    build_wheel,
    copy_tree,
    install_editable,
    install_wheel,
)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    return build_wheel(copy_tree(folder / "tree"), folder / "dist")


@pytest.fixture(scope="session")
def wheel_installation(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment with the wheel."""
    return install_wheel(wheel, tmp_path_factory.mktemp("from-wheel") / "venv")


@pytest.fixture(scope="session")
def editable_installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment with a copy of the repository, editable."""
    folder = tmp_path_factory.mktemp("editable")
    return install_editable(copy_tree(folder / "tree"), folder / "venv")


@pytest.fixture(params=["wheel", "editable"])
def installation(request: pytest.FixtureRequest) -> Installation:
    """Each kind of installation in turn."""
    made: Installation = request.getfixturevalue(f"{request.param}_installation")
    return made
