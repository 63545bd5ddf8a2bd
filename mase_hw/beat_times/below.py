"""Networks in which everything comes a little later than in one that is solved: where to begin, and what to look at.

If a FIFO has less room, or more delay, than in another network that is the same otherwise, no event comes earlier.
So the iteration from below may begin with the events of the other one, and only blocks whose equations differ, and
those that follow from what they change, need be evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

from mase_hw.beat_times.nodes import Latest, Reading, Run
from mase_hw.beat_times.patterns import Times


class Below:
    """A solved network in which no event is later than the same one of another network.

    Args:
        twins: Of every kind of events of the other network, by the identity of its times: those of this one.
        changed: The blocks of the other one, by number, whose equations are not those of this one.
        frames: Frames of this one that are solved.
    """

    def __init__(self, twins: dict[int, Times], changed: list[int], frames: int) -> None:
        self.twins, self.changed, self.frames = twins, changed, frames


def compared(nodes: Sequence[Latest | Run], others: Sequence[Latest | Run], frames: int) -> Below | None:
    """Find what differs between a network and a solved one, node by node; None if they are not made alike.

    Args:
        nodes: The network's.
        others: Those of the solved one.
        frames: Frames of it that are solved.
    """
    if len(nodes) != len(others):
        return None
    twins: dict[int, Times] = {}
    changed: list[int] = []
    start = 0
    for node, other in zip(nodes, others, strict=True):
        if type(node) is not type(other) or len(node.readings) != len(other.readings):
            return None
        pairs = [*zip(node.outs, other.outs, strict=True)]
        pairs += [(a.times, b.times) for a, b in zip(node.readings, other.readings, strict=True)]
        for mine, theirs in pairs:
            if twins.setdefault(id(mine), theirs) is not theirs or mine.cuts != theirs.cuts:
                return None
        if not _same(node, other):
            changed += range(start, start + node.blocks)
        start += node.blocks
    return Below(twins, changed, frames)


def _same(node: Latest | Run, other: Latest | Run) -> bool:
    if not all(_reads(a, b) for a, b in zip(node.readings, other.readings, strict=True)):
        return False
    if isinstance(node, Run) and isinstance(other, Run):
        if node.steps is not other.steps and _rates(node) != _rates(other):
            return False
        return all(a is b for a, b in zip(node.plan.blocks, other.plan.blocks, strict=True))
    return isinstance(node, Latest) and isinstance(other, Latest) and node.rising == other.rising


def _reads(a: Reading, b: Reading) -> bool:
    return a.lag == b.lag and a.covers == b.covers


def _rates(node: Run) -> tuple[object, ...]:
    steps = node.steps
    return steps.delay, steps.pipe, steps.queue, steps.queue_lag, [reading is None for reading in node.taken]
