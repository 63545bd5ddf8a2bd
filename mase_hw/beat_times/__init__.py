"""The cycle of every beat in a network of modules with static schedules.

Nothing in such a network depends on data, so every event (a beat offered, a beat taken, a step of a module) happens in
the first cycle that its dependencies allow: the least solution of equations of the form ``t = max(t' + constant)``.
They are iterated from below, a block of beats (some rows of a picture) at a time, until nothing changes; no event
waits for one of a later frame. Each equation commutes with a shift in time, so what a block gives for operands that
are the same but for a shift is looked up: the cost grows with what differs, and the result is that of the equations.
Those of a network that deadlocks have no solution: some event waits for itself, which is looked for.
"""

from mase_hw.beat_times.alone import heads, sustained
from mase_hw.beat_times.blocks import UNLIMITED
from mase_hw.beat_times.network import BeatNetwork
from mase_hw.beat_times.patterns import (
    HELD,
    MINUS_INFINITY,
    STARVED,
    WORKING,
    Cycles,
    Edge,
    Evenly,
    Solved,
    Unpaused,
    Waits,
)
from mase_hw.beat_times.solver import Overdue

__all__ = [
    "HELD",
    "MINUS_INFINITY",
    "STARVED",
    "UNLIMITED",
    "WORKING",
    "BeatNetwork",
    "Cycles",
    "Edge",
    "Evenly",
    "Overdue",
    "Solved",
    "Unpaused",
    "Waits",
    "heads",
    "sustained",
]
