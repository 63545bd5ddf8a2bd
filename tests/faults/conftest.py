"""The parts of the fault tests: designs with a fault, a disk that is full, and what must hold for every fault."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mase_hw.formats import FixedFormat
from mase_hw.simulate.build.simulator import SHORT_RUN, Built, build
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.result import SimResult
from mase_hw.streams import Stream

HERE = Path(__file__).parent
SLICE = HERE.parent / "sim" / "rtl" / "faulty_slice.sv"
LINK = HERE / "rtl" / "faulty_link.sv"
S8_4 = FixedFormat(8, 4)
BEATS = np.random.default_rng(1).integers(-128, 127, (30, 2))
"""Five frames of 6 beats; no two neighbours are equal."""


def dut(source: Path, fault: int = 0) -> Dut:
    """A pass-through of frames of 3 x 4 elements, two lanes per beat."""
    streams = (Stream("data_in_0", "in", (3, 4), S8_4, (2,)), Stream("data_out_0", "out", (3, 4), S8_4, (2,)))
    return Dut(source.stem, (source,), {"WIDTH": 8, "FAULT": fault}, streams)


def refused(result: SimResult) -> str:
    """The message of a result that says by every way it has that nothing was proven."""
    assert not result.passed and result.failure is not None, result.report()
    assert "FAILED" in result.report() and not result.to_json()["passed"]
    with pytest.raises(type(result.failure)) as caught:
        result.raise_on_failure()
    return str(caught.value)


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="session")
def good(tools: BuildTools, work: Path) -> Built:
    return build(dut(SLICE), work / "good", cache_dir=work / "cache", tools=tools, cycles=SHORT_RUN)


@pytest.fixture(scope="session")
def full_disk(tools: BuildTools, work: Path) -> Path:
    """A library that, loaded before all others, makes a folder a full disk."""
    library = work / "full_disk.so"
    command = [*tools.compiler, "-x", "c", "-shared", "-fPIC", "-o", str(library), str(HERE / "full_disk.c"), "-ldl"]
    subprocess.run(command, check=True, env=dict(os.environ))
    return library
