"""A full disk while a simulator is built: every tool that fails because of it is excused, and the disk is named."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import mase_hw
from mase_hw.errors import ConfigError, SimulationError, ToolError
from mase_hw.host.disk import full_disk, not_written
from mase_hw.simulate.build import runtime_cache
from mase_hw.simulate.build.simulator import build
from mase_hw.simulate.build.tools import BuildTools
from tests.faults.conftest import SLICE, dut
from tests.faults.test_environment import program

NO_SPACE = os.strerror(errno.ENOSPC)
FAILING = '#!/bin/sh\necho "error: cannot write: $SAID"\nexit 1\n'


@pytest.fixture(params=["said by the tool", "seen on the disk", "not full"])
def full(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """How a full disk shows; the start of what must be said about it."""
    said = request.param == "said by the tool"
    monkeypatch.setenv("SAID", NO_SPACE if said else "something else")
    if request.param == "not full":
        return None
    if not said:
        monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    return "the disk is full: free space" if said else "the disk of .* is full: free space"


def broken(tools: BuildTools, tmp_path: Path, **names: str) -> BuildTools:
    """Tools of which one fails."""
    script = program(tmp_path / "failing", FAILING)
    change: dict[str, Any] = {name: (str(script),) if name == "compiler" else script for name in names}
    return dataclasses.replace(tools, env={**tools.env, "SAID": os.environ["SAID"]}, **change)


def test_compiling_the_runtime(tools: BuildTools, tmp_path: Path, full: str | None) -> None:
    faulty = broken(tools, tmp_path, compiler="")
    library = runtime_cache.runtime(faulty, tmp_path / "cache", waves=False, optimise="-O1")
    remedy = full or "check the C\\+\\+ compiler"
    with pytest.raises(ToolError, match=f"(?s)runtime library does not compile.*what to do: {remedy}"):
        library.header()


def test_verilator(tools: BuildTools, tmp_path: Path, full: str | None) -> None:
    """That it could not write is no fault of the design."""
    kind, text = (
        (ToolError, f"cannot finish.*what to do: {full}") if full else (SimulationError, "refuses faulty_slice")
    )
    with pytest.raises(kind, match=f"(?s)Verilator {text}"):
        build(dut(SLICE), tmp_path / "b", cache_dir=tmp_path / "c", tools=broken(tools, tmp_path, verilator=""))
    assert not (tmp_path / "b" / "stamp.json").exists()


@pytest.mark.parametrize("ends", ["kill -XFSZ $$", "kill -KILL $$", "exit 153"])
def test_verilator_that_is_ended(tools: BuildTools, tmp_path: Path, ends: str) -> None:
    """By a limit of the shell, or for memory, or behind a script: it says nothing, and nothing against the design."""
    ended = dataclasses.replace(tools, verilator=program(tmp_path / "ended", f"#!/bin/sh\n{ends}\n"))
    with pytest.raises(ToolError, match=r"(?s)ended without a word.*exit code.*ulimit -a"):
        build(dut(SLICE), tmp_path / "b", cache_dir=tmp_path / "c", tools=ended)


def test_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's folder for temporary files may be the one that is full."""
    monkeypatch.setattr(
        "shutil.disk_usage", lambda place: SimpleNamespace(free=0 if place == Path("/full") else 1 << 40)
    )
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/full")
    assert full_disk(tmp_path, "") == "the disk of /full is full: free space, or choose another folder"
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert full_disk(tmp_path, "error: expected ';'") is None


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    design = mase_hw.compile(torch.nn.Linear(4, 3), torch.randn(1, 4), out=tmp_path / "bundle")
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"(?s)folder cannot be made.*not a folder.*to do: name another folder"):
        design.simulate(work_dir=tmp_path / "file" / "work")
    for number in (errno.ENOSPC, errno.EDQUOT):
        error = not_written("the build folder", tmp_path, OSError(number, os.strerror(number)), ToolError)
        assert type(error) is ToolError and error.remedy == "free space on its disk, or choose another folder"
