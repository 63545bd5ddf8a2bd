"""What FIFOs before joins need: the beats that wait for those at another input, not those that a join holds up.

With unlimited room a FIFO also takes in what comes faster than the modules behind the join take it. Such beats may as
well wait before: where they come from, back-pressure holds the modules that make them, and the beats in front of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from mase_hw.beat_times import UNLIMITED
from mase_hw.emit.netlist import Pin
from mase_hw.emit.schedule import Timeline
from mase_hw.hardware.memories import block_rams
from mase_hw.steps import Steps


def shorter(timeline: Timeline, depths: Mapping[Pin, int], fixed: Mapping[Pin, int]) -> dict[Pin, int]:
    """Depths that may do in place of longer ones, each of which takes fewer block RAMs and fills them.

    Every beat of the first frame is followed with unlimited room behind the joins as well, so that none of them is
    ever held up.

    Args:
        timeline: The design without FIFOs.
        depths: Depth of the FIFO before every data input that has one, with unlimited room.
        fixed: FIFOs that are as they are.
    """
    bits = {net.sink: net.stream.bits for net in timeline.netlist.nets}
    blocks = {
        pin: block_rams(depth, bits[pin])
        for pin, depth in depths.items()
        if pin not in fixed and len(timeline.parts[pin.instance].inputs) > 1
    }
    long = {pin: count for pin, count in blocks.items() if count > 1}
    if not long:
        return {}
    joins = {pin.instance for pin, count in blocks.items() if count}
    buffers = {pin: Steps.queued(1, UNLIMITED, 0) for pin, of in timeline.data_pins().items() if of.instance in joins}
    buffers |= {pin: Steps.queued(1, UNLIMITED, 1) for pin, depth in depths.items() if depth}
    buffers |= {pin: Steps.queued(1, depth) for pin, depth in fixed.items()}
    network, edges = timeline.network(buffers=buffers)
    network.advance()
    found = {}
    for pin, count in long.items():
        needed = network.most_held(edges[timeline.into[pin]], edges[pin])
        enough = max(block_rams(needed, bits[pin]), 1)
        if enough < count:
            found[pin] = _most(depths[pin], bits[pin], enough)
    return found


def _most(depth: int, bits: int, blocks: int) -> int:
    """The most beats, fewer than so many, that some block RAMs hold."""
    low, high = 1, depth
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if block_rams(middle, bits) <= blocks else (low, middle)
    return low
