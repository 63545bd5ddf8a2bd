"""A bundle for every test of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.emit.bundles import emit


@pytest.fixture(scope="session")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return emit(tmp_path_factory.mktemp("bundle") / "mlp").path


@pytest.fixture
def older(emitted: Path, tmp_path: Path) -> Path:
    shutil.copytree(emitted, tmp_path / "place" / "b")
    return tmp_path / "place" / "b"
