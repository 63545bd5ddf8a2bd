"""Shared builds: the tiny designs of ``tests/sim``, built once a session for each engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mase_hw.simulate.build.simulator import SHORT_RUN, Built
from mase_hw.simulate.build.tools import BuildTools
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines.registry import ENGINES
from mase_hw.simulate.plan import SimulationOptions
from mase_hw.simulate.result import SimResult
from tests.sim.conftest import asked

Builder = Callable[..., Built]


def play(engine: str, built: Built, run_dir: Path, frames: int = 5, **options: Any) -> SimResult:
    """Random frames through a design that should pass them on unchanged."""
    stream = built.dut.streams[0]
    shape = (frames, *stream.shape)
    data = np.random.default_rng(1).integers(stream.fmt.min_mantissa, stream.fmt.max_mantissa, shape)
    beats = stream.pack(data)
    options = {"watchdog": 100, "max_cycles": 10_000, **options}
    return ENGINES[engine].simulate(built, run_dir, {"data_in_0": beats}, {"data_out_0": beats}, *asked(**options))


@pytest.fixture(scope="session")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines")


@pytest.fixture(scope="session")
def builder(tools: BuildTools, work: Path) -> Builder:
    """Build a design for an engine; the same name is built once."""

    def make(engine: str, dut: Dut, name: str, **options: Any) -> Built:
        more = {"cache_dir": work / "runtime-cache", "tools": tools, "cycles": SHORT_RUN}
        return ENGINES[engine].build(dut, work / engine / name, SimulationOptions(engine, **options), **more)

    return make
