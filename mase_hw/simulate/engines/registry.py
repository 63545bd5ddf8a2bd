"""The simulation engines, by name. All play the same plan and are judged by the same scoreboard."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, Unpack

from mase_hw.errors import refuse_unknown
from mase_hw.plugins import plugins
from mase_hw.simulate.build.simulator import Built, Place
from mase_hw.simulate.dut import Dut
from mase_hw.simulate.engines import batch, cocotb, fast
from mase_hw.simulate.plan import DEFAULTS, Limits, SimulationOptions
from mase_hw.simulate.result import SimResult
from mase_hw.streams import Beats


class Engine(Protocol):
    """What an engine can do; any module or object with these two."""

    def build(
        self,
        dut: Dut,
        build_dir: Path,
        options: SimulationOptions = DEFAULTS,
        **place: Unpack[Place],
    ) -> Built:
        """Build a simulator, or find a current one; :func:`mase_hw.simulate.build.simulator.build` has the details."""

    def simulate(
        self,
        built: Built,
        run_dir: Path,
        stimulus: Beats,
        expected: Beats,
        limits: Limits,
        options: SimulationOptions = DEFAULTS,
    ) -> SimResult:
        """Play stimulus and judge what comes out; :func:`mase_hw.simulate.engines.cocotb.simulate` has the details."""


ENGINES: dict[str, Engine] = {"batch": batch, "cocotb": cocotb, "fast": fast}


def engine(name: str) -> Engine:
    """The engine of that name, of the package or of a plug-in.

    Raises:
        ConfigError: If there is none.
    """
    known = ENGINES if name in tuple(ENGINES) else {**ENGINES, **plugins("engines")}
    refuse_unknown(name, known, "unknown simulation engine", field="engine")
    return known[name]
