"""Networks that are nearly one that is solved: where to begin, and what to look at.

Where no event waits for itself the equations have one solution, and an iteration leads to it from any beginning. So it
may begin with the events of another network that has most of its modules, by their names, and only blocks whose
equations differ, and those that follow from what they change, need be evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mase_hw.beat_times.nodes import Latest, Reading, Run
from mase_hw.beat_times.patterns import Times

Given = Mapping[object, Times]
"""Times that are given from outside, by name."""


class Like:
    """A solved network, most of whose equations another network has.

    Args:
        twins: Of kinds of events of the other network, by the identity of their times: those of this one.
        changed: The blocks of the other one, by number, whose equations are not those of this one.
        frames: Frames of this one that are solved.
    """

    def __init__(self, twins: dict[int, Times], changed: set[int], frames: int) -> None:
        self.twins, self.changed, self.frames = twins, changed, frames


def compared(
    nodes: Sequence[Latest | Run], others: Sequence[Latest | Run], given: tuple[Given, Given], frames: int
) -> Like:
    """Find what differs between a network and a solved one, node by node.

    Args:
        nodes: The network's.
        others: Those of the solved one.
        given: What is given to either from outside.
        frames: Frames of it that are solved.
    """
    known = {other.name: other for other in others}
    twins = {
        id(mine): theirs for name, mine in given[0].items() if (theirs := given[1].get(name)) and _cut(mine, theirs)
    }
    for node in nodes:
        if (other := known.get(node.name)) is not None:
            twins |= {id(a): b for a, b in zip(node.outs, other.outs, strict=False) if _cut(a, b)}
    changed: set[int] = set()
    start = 0
    for node in nodes:
        if not _same(node, known.get(node.name), twins):
            changed.update(range(start, start + node.blocks))
        start += node.blocks
    return Like(twins, changed, frames)


def _cut(a: Times, b: Times) -> bool:
    return a.cuts == b.cuts


def _same(node: Latest | Run, other: Latest | Run | None, twins: Mapping[int, Times]) -> bool:
    """Whether two nodes have the same equations."""
    if other is None or len(node.readings) != len(other.readings):
        return False
    if not all(twins.get(id(a)) is b for a, b in zip(node.outs, other.outs, strict=False)):
        return False
    if not all(_reads(a, b, twins) for a, b in zip(node.readings, other.readings, strict=True)):
        return False
    if isinstance(node, Run) and isinstance(other, Run):
        if node.steps is not other.steps and _rates(node) != _rates(other):
            return False
        ours, theirs = node.plan.blocks, other.plan.blocks
        return len(ours) == len(theirs) and all(a is b for a, b in zip(ours, theirs, strict=True))
    return isinstance(node, Latest) and isinstance(other, Latest) and node.rising == other.rising


def _reads(a: Reading, b: Reading, twins: Mapping[int, Times]) -> bool:
    return twins.get(id(a.times)) is b.times and a.lag == b.lag and (a.covers is b.covers or a.covers == b.covers)


def _rates(node: Run) -> tuple[object, ...]:
    steps = node.steps
    return steps.delay, steps.pipe, steps.queue, steps.queue_lag, [reading is None for reading in node.taken]
