"""From which frame on a design at full rate keeps its interval, so that a simulation can hold it to that."""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.beat_times import Solved
from mase_hw.catalogue import Catalogue
from mase_hw.emit.netlist import TOP, Netlist, Pin
from mase_hw.emit.schedule import SOON, Followed, Schedule, Timeline

ALIKE = 3
"""Frames that must come at the interval, one after the other, before it counts as reached."""
CHAIN = 2
"""Frame from which a chain of modules keeps its interval, where steps of some of them are not known."""


def steady_frame(
    netlist: Netlist,
    catalogue: Catalogue,
    schedule: Schedule,
    solved: Solved | None = None,
    followed: Followed | None = None,
) -> int | None:
    """The first frame that ends just an interval after the one before, as do those after it; counted from 0.

    A frame ends where a simulation measures: at the last of the outputs and of the inputs that nothing reads.

    Args:
        netlist: The design.
        catalogue: Where the latency facets of its parts are.
        schedule: Its timing.
        solved: What was computed before for networks with the same modules.
        followed: What is known of it already.

    Returns:
        The frame; None if the timing is not exact, or if the first frames do not come to the interval.
    """
    if not schedule.exact:
        return None
    timeline = Timeline(netlist, catalogue, solved)
    if not timeline.exact:
        return CHAIN
    network, edges = timeline.network()
    if followed is not None:
        network.begin_with(followed.network)
    ends = [edges[timeline.into[Pin(TOP, stream.name)]] for stream in netlist.outputs]
    ends += [edges[Pin(TOP, name)] for name in netlist.drained]
    intervals: list[int] = []
    before = 0
    for frame in range(SOON + timeline.ahead):
        network.advance()
        offers = [network.edges[edge].offers for edge in ends]
        now = max(times.end(frame) for times in offers if times is not None)
        if frame:
            intervals.append(now - before)
        before = now
        if intervals[-ALIKE:] == [schedule.interval] * ALIKE:
            return _begin(intervals, schedule.interval)
    return None


def _begin(intervals: Sequence[int], interval: int) -> int:
    """The first frame of those at the end of a list that come at the interval."""
    at = len(intervals)
    while at and intervals[at - 1] == interval:
        at -= 1
    return at + 1
