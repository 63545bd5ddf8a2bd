"""Where waves show the first wrong beat."""

from __future__ import annotations

from mase_hw.simulate.plan import Limits
from mase_hw.simulate.result import SimResult
from mase_hw.simulate.waves.save_files import Mark


def first_wrong(result: SimResult) -> Mark | None:
    """The rising edge at which the first wrong beat is valid for the first time; None if no beat is wrong.

    Args:
        result: Of a run that was reset only once, at its start.
    """
    wrong = result.first_mismatch
    if wrong is None or not result.period:
        return None
    cycle = int(result.ports[wrong.stream].cycles.presented[wrong.beat_index])
    time = (cycle + Limits.reset_cycles) * result.period + result.period // 2
    return Mark(time, wrong.stream, wrong.lane)
