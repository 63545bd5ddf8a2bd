"""Caches that start with the runtime compiled and no simulator."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mase_hw.simulate.build.runtime_cache import runtime
from mase_hw.simulate.build.simulator import COCOTB, Built, build
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from tests.sim.conftest import slice_dut

Builder = Callable[..., Built]


@pytest.fixture(autouse=True)
def _own_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the environment's: here every cache has its own."""
    monkeypatch.setenv("MASE_HW_RUNTIME", "")


@pytest.fixture(scope="session")
def compiled(tools: BuildTools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with a runtime in it; never changed by a test."""
    work = tmp_path_factory.mktemp("compiled")
    # What the environment has is that of these tools and flags; what it lacks is compiled.
    there = runtime(tools, work / "none", waves=False, optimise=COCOTB.optimise).folder
    shutil.copytree(there, work / "cache" / there.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASE_HW_RUNTIME", "")
        build(slice_dut(), work / "build", cache_dir=work / "cache", tools=tools)
    return work / "cache"


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    """A cache of the test's own; its files are links, so replace them instead of writing into them."""
    for there in compiled.glob("runtime-*"):
        shutil.copytree(there, tmp_path / "cache" / there.name, copy_function=os.link)
    return tmp_path / "cache"


@pytest.fixture
def filled(compiled: Path, folder: Path) -> Path:
    """The same cache with the simulator of a small design in it; copied, so that a test may damage it."""
    shutil.copytree(compiled / "simulators", folder / "simulators")
    return folder


@pytest.fixture
def make(folder: Path, tools: BuildTools, tmp_path: Path) -> Builder:
    """Build a design in a folder of that name."""

    def builder(name: str, dut: Dut | None = None, *, waves: bool = False) -> Built:
        return build(dut or slice_dut(), tmp_path / name, waves=waves, cache_dir=folder, tools=tools)

    return builder
