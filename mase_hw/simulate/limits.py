"""How long a simulation of a design waits, from the timing that was predicted for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from mase_hw.simulate.inner_stalls import InnerStalls
from mase_hw.simulate.plan import Stalls

LEAST_TAIL = 128
"""Cycles that are waited for surplus beats, however fast a design is."""


class Waits(TypedDict):
    """Arguments of an engine's ``simulate``, in clock cycles.

    Args:
        watchdog: Cycles without a beat on any port after which stalls are lifted; as many again are a hang.
        max_cycles: Cycles after which an unfinished run is given up.
        tail_cycles: Least number of cycles to wait for surplus beats after the last expected one.
    """

    watchdog: int
    max_cycles: int
    tail_cycles: int


def likely(
    timing: Mapping[str, Any],
    frames: int,
    stalls: Stalls | None = None,
    inner: InnerStalls | None = None,
    resets: int = 0,
) -> int:
    """About how many clock cycles a run of a design takes, which decides how far its simulator is optimised.

    Args:
        timing: ``last`` and ``interval`` of the manifest, in cycles.
        frames: Frames to play.
        stalls: How unwilling the surroundings are; None for full rate.
        inner: How unwilling the edges inside are; None if they are as they are.
        resets: How often all frames are played again.
    """
    slow = (1.0 if stalls is None else stalls.slowdown) * (1.0 if inner is None else inner.slowdown)
    last, interval = int(timing["last"]), int(timing["interval"])
    # What follows the last beat is waited for as long as a frame takes.
    once = frames * interval + last + max(LEAST_TAIL, interval + last)
    return int(slow * once) * (1 + resets)


def waits(
    timing: Mapping[str, Any], frames: int, stalls: Stalls | None = None, inner: InnerStalls | None = None
) -> Waits:
    """How long to wait for a design.

    Args:
        timing: ``last`` and ``interval`` of the manifest, in cycles.
        frames: Frames to play.
        stalls: How unwilling the surroundings are; None for full rate.
        inner: How unwilling the edges inside are; None if they are as they are.

    A module works at most a whole frame without a beat, hence the watchdog. A surplus beat may follow as long after
    the last one as a whole frame takes through the design, and as one frame follows another, hence the tail. An engine
    waits no longer than twice what the whole run took, whatever was promised.
    """
    last, interval = int(timing["last"]), int(timing["interval"])
    inside = 1.0 if inner is None else inner.slowdown
    watchdog = int(inside * (4 * (last + interval) + 256))
    slow = inside * (1.0 if stalls is None else 4 * stalls.slowdown)
    return Waits(
        watchdog=watchdog,
        # The watchdog lifts all stalls after its time and needs as long again to call it a hang.
        max_cycles=int(slow * (frames + 2) * interval) + 4 * watchdog,
        tail_cycles=max(LEAST_TAIL, int(inside * (last + interval))),
    )
