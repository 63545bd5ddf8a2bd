"""Shared by the tests of the documentation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def workplace(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder whose ``build/runtime-cache`` is that of the session, of all its workers."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "runtime-cache"
    shared.mkdir(exist_ok=True)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "runtime-cache").symlink_to(shared, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
