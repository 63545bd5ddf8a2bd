"""Watches buffers and edges in the simulator: monitors that are bound into the modules of the library from outside."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mase_hw.resources import sim_root
from mase_hw.simulate.dut import Dut

MONITORS = ("exercise_edge", "exercise_buffer", "exercise_replay")
CONNECTOR = "exercise_stall"
"""What stands on a stalled edge."""
WATCHED = ("replay_buffer", "skid_buffer", "stream_check", "stream_fifo")
"""Modules of the library that have a monitor."""
ADDED = (*MONITORS, CONNECTOR, *(f"bind_{module}" for module in WATCHED))
"""Every source of the simulator that may be added to a design."""


def watched(dut: Dut) -> Dut:
    """The same design with monitors in the modules that it has, for the simulator only.

    Args:
        dut: A design.
    """
    there = {source.stem for source in dut.sources}
    bound = [f"bind_{module}" for module in WATCHED if module in there]
    monitors = MONITORS if bound else ()
    return dataclasses.replace(dut, sources=(*(file_of(name) for name in (*monitors, *bound)), *dut.sources))


def file_of(name: str) -> Path:
    """A source of the simulator."""
    return sim_root() / "exercise" / f"{name}.sv"
