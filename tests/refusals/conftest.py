"""A folder with everything that the command lines of these tests name, made once a process."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mase_hw import cli
from tests.refusals.files import write_files


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, folders and a good bundle."""
    folder = tmp_path_factory.mktemp("place")
    before = Path.cwd()
    os.chdir(folder)
    try:
        write_files(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            assert cli.main(["compile", "m.py:build", "--out", "good"]) == cli.OK
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def untouched(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same as the working folder; afterwards nothing may have been written or removed."""
    monkeypatch.chdir(place)
    before = _listing(place)
    yield place
    assert _listing(place) == before, "something was written or removed"


def _listing(folder: Path) -> set[tuple[str, int]]:
    """Every file and its size; not what Python keeps of imported modules."""
    found = set[tuple[str, int]]()
    for here, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        found |= {(os.path.join(here, name), 0) for name in folders}
        found |= {(path := os.path.join(here, name), os.lstat(path).st_size) for name in files}
    return found
