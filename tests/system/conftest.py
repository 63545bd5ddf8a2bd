"""A small system for tests of its software."""

from __future__ import annotations

from pathlib import Path

import pytest

from mase_hw.system import SystemOptions, make_system
from mase_hw.system.selftest import build_program
from tests.handoff.conftest import tiny as tiny
from tests.handoff.designs import emit

FAULTS = Path(__file__).with_name("faults.c")


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory, tiny: str) -> Path:
    """A system with two inputs and two outputs, and bursts that are shorter than a frame."""
    folder = tmp_path_factory.mktemp("pair")
    make_system(emit(folder / "bundle").path, folder / "system", SystemOptions(bus=32, burst=2, outstanding=2))
    build_program(folder / "system", main=FAULTS, name="faults", make=tiny)
    return folder / "system"


@pytest.fixture(scope="session")
def clocked(pair: Path, tiny: str) -> Path:
    """The same with a clock of its own for the core."""
    folder = pair.parent / "clocked"
    make_system(pair.parent / "bundle", folder, SystemOptions(bus=32, burst=2, outstanding=2, core_clock=True))
    build_program(folder, main=FAULTS, name="faults", make=tiny)
    return folder
