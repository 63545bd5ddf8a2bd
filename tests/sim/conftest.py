"""Shared builds: every test of the engine runs on a few tiny designs, built once a session."""

from __future__ import annotations

import dataclasses
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mase_hw.formats import FixedFormat
from mase_hw.simulate.build.simulator import SHORT_RUN, Built, build
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.plan import Limits, SimulationOptions
from mase_hw.streams import Stream

RTL = Path(__file__).parent / "rtl"
Builder = Callable[..., Built]
S8_4 = FixedFormat(8, 4)


def slice_dut(top: str = "faulty_slice", fmt: FixedFormat = S8_4, **parameters: int) -> Dut:
    """A pass-through of frames of 3 x 4 elements, two lanes per beat, so 6 beats per frame."""
    streams = (Stream("data_in_0", "in", (3, 4), fmt, (2,)), Stream("data_out_0", "out", (3, 4), fmt, (2,)))
    return Dut(top, (RTL / f"{top}.sv",), {"WIDTH": fmt.width, **parameters}, streams)


def asked(**given: Any) -> tuple[Limits, SimulationOptions]:
    """Limits and options of a simulation by keyword."""
    limits = {name: given.pop(name) for name in Limits.__dataclass_fields__ if name in given}
    return Limits(**limits), SimulationOptions(**given)


TOLD = {"FAULT": -1}
"""Parameters of a faulty slice that learns from its memory what is wrong with it: one simulator for all faults."""


def told(built: Built, folder: Path, fault: int, at: int = 5) -> Built:
    """A simulator of such a slice as it is run with a fault at a beat; the memory is written into ``folder``."""
    memory = folder / f"fault{fault}"
    memory.mkdir(parents=True)
    (memory / "fault.mem").write_text(f"{fault:x}\n{at:x}\n")
    return dataclasses.replace(built, dut=dataclasses.replace(built.dut, memory=memory))


def scripted(built: Built, folder: Path, script: str) -> Built:
    """A simulator that is a script of the shell."""
    path = folder / "fake"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return dataclasses.replace(built, executable=path)


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sim")


@pytest.fixture(scope="session")
def builder(tools: BuildTools, work: Path) -> Builder:
    """Build a design in a folder of its own; the same design and options are built once."""

    def make(dut: Dut, name: str, *, waves: bool = False) -> Built:
        return build(dut, work / name, waves=waves, cache_dir=work / "cache", tools=tools, cycles=SHORT_RUN)

    return make


@pytest.fixture(scope="session")
def good(builder: Builder) -> Built:
    return builder(slice_dut(), "good")
