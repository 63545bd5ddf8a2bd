"""How deep the FIFOs before some inputs of a design have to be, and how the design does with them.

With unlimited FIFOs every beat of the design is followed, (1) through one frame at full rate, from idle, and (2)
through frames offered at the interval of the slowest module, until the design repeats itself. The FIFO gets as many
slots as are ever in use. Offering beats earlier never makes any beat later, so a design that sustains this rate with
these depths sustains full rate as well, and its first frame is as fast as with unlimited FIFOs.

What FIFOs before joins need are the beats that wait for those at another input, not those that a join holds up. With
unlimited room a FIFO also takes in what comes faster than the modules behind the join take it. Such beats may as well
wait before: where they come from, back-pressure holds the modules that make them, and the beats in front of these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mase_hw.beat_times import UNLIMITED, BeatNetwork, Cycles
from mase_hw.emit.delays import reconvergent
from mase_hw.emit.netlist import TOP, Pin
from mase_hw.emit.rate import Depths
from mase_hw.emit.schedule import FRAMES, Followed, Timeline
from mase_hw.hardware.memories import block_rams
from mase_hw.steps import Steps

NEARLY = 2
"""Beats by which the depth of a FIFO is not known before all FIFOs are."""


@dataclass(frozen=True)
class Chosen:
    """Depths for a design.

    Args:
        timeline: The design without FIFOs.
        tight: Inputs that get no FIFO, because their beats wait before a fork.
        late: Inputs where they wait.
        depths: Depth of the FIFO before every input; 0 for none.
        followed: How the design does with them.
        rounds: The networks that showed it, one after the other.
        rate: Those of these FIFOs that are there for the rate.
        allowed: When the beats of the first frame may leave at the latest, by output; as they do if nothing is said.
    """

    timeline: Timeline
    tight: frozenset[Pin]
    late: tuple[Pin, ...]
    depths: Depths
    followed: Followed | None
    rounds: tuple[BeatNetwork, ...] = ()
    rate: Depths = dataclasses.field(default_factory=dict)
    allowed: tuple[Cycles, ...] = ()

    @property
    def interval(self) -> int | None:
        """Cycles per frame, if they are known."""
        return None if self.followed is None else self.followed.interval

    @property
    def blocks(self) -> int:
        """Block RAMs of all FIFOs."""
        return _blocks(self.timeline, self.depths)

    def no_slower(self, other: Chosen) -> bool:
        """Whether no frame takes longer than with the other one."""
        ours, theirs = self.followed, other.followed
        return ours is not None and theirs is not None and ours.interval <= theirs.interval

    def later(self, timeline: Timeline, network: BeatNetwork, edges: Mapping[Pin, int]) -> bool:
        """Whether a beat of the first frame leaves another network later than is allowed."""
        theirs = _leaves(timeline, network, edges)
        return any(bool((a > b).any()) for a, b in zip(theirs, self.allowed or self.leaves(), strict=True))

    def leaves(self) -> list[Cycles]:
        """When the beats of the first frame leave this design."""
        assert self.followed is not None
        return _leaves(self.timeline, self.followed.network, self.followed.edges)


def _leaves(timeline: Timeline, network: BeatNetwork, edges: Mapping[Pin, int]) -> list[Cycles]:
    """When the beats of the first frame leave a design."""
    sources = [timeline.into[Pin(TOP, output.name)] for output in timeline.netlist.outputs]
    return [edge.offered[: edge.beats] for edge in (network.edges[edges[source]] for source in sources)]


def _blocks(timeline: Timeline, depths: Depths) -> int:
    """Block RAMs of all FIFOs."""
    bits = {net.sink: net.stream.bits for net in timeline.netlist.nets}
    return sum(block_rams(depth, bits[pin]) for pin, depth in depths.items())


class NoBetterError(Exception):
    """The first frame shows that a design is no better than another one."""


def choose(
    timeline: Timeline,
    tight: frozenset[Pin],
    late: tuple[Pin, ...],
    rate: Depths | None = None,
    other: Chosen | None = None,
    like: Chosen | None = None,
) -> Chosen:
    """Depths for inputs of joins and those where beats are held back, with FIFOs for the rate if there are any.

    Args:
        timeline: The design without FIFOs.
        tight: Inputs that get none.
        late: Inputs where beats are held back.
        rate: FIFOs for the rate.
        other: A design that it has to be better than.
        like: One that has most of the modules, from which is begun.

    Raises:
        NoBetterError: If a beat leaves later than with those of the other one, or no fewer block RAMs are taken.
    """
    pins = list(dict.fromkeys([*(pin for pin in reconvergent(timeline) if pin not in tight), *late]))
    if not pins and rate is None:
        return Chosen(timeline, tight, late, {}, None)
    depths, followed, rounds = _depths(timeline, pins, rate or {}, other, like.rounds if like else ())
    allowed = other.allowed if other else ()
    return Chosen(timeline, tight, late, depths | (rate or {}), followed, rounds, rate or {}, allowed)


def _depths(
    timeline: Timeline,
    pins: list[Pin],
    rate: Depths,
    other: Chosen | None = None,
    like: Sequence[BeatNetwork] = (),
) -> tuple[Depths, Followed | None, tuple[BeatNetwork, ...]]:
    """Depth of the FIFO before every pin, 0 where no beat ever waits; and how the design does with them, and what did.

    Every network begins with that of the same round of a design like this one, or with the one before.
    """
    chosen: set[Pin] = set()
    there = {pin: Steps.queued(1, depth) for pin, depth in rate.items()}
    # A FIFO costs a cycle, which can make beats of another branch wait that did not before.
    rounds: list[BeatNetwork] = []

    def begin() -> BeatNetwork | None:
        return like[len(rounds)] if len(rounds) < len(like) else rounds[-1] if rounds else None

    while True:
        buffers = {pin: unlimited(delay=int(pin in chosen)) for pin in pins} | there
        network, edges = timeline.network(buffers=buffers)
        network.begin_with(begin())
        network.advance()
        rounds.append(network)
        depths = _most_held(timeline, network, edges, pins, chosen)
        more = {pin for pin, depth in depths.items() if depth} - chosen
        if other is not None:
            # Frames that follow make no FIFO shorter; a FIFO that costs a cycle makes about a beat more or less wait.
            held = {pin: network.most_held(edges[timeline.into[pin]], edges[pin]) - NEARLY for pin in pins}
            if other.later(timeline, network, edges) or _blocks(timeline, held if more else depths) >= other.blocks:
                raise NoBetterError
        if not more:
            paced, paced_edges, interval = _at_pace(timeline, buffers, begin())
            rounds.append(paced)
            for pin, depth in _most_held(timeline, paced, paced_edges, pins, chosen).items():
                depths[pin] = max(depths[pin], depth)
            more = {pin for pin, depth in depths.items() if depth} - chosen
        if not more:
            break
        chosen |= more
    if not timeline.exact:
        # The steps of some module are assumed: a whole frame is enough whatever it does within one.
        depths = {pin: max(depth, timeline.beats(timeline.into[pin])) for pin, depth in depths.items()}
    return depths, None if interval is None else Followed(network, edges, interval), tuple(rounds)


def unlimited(delay: int = 0) -> Steps:
    """The steps of a FIFO that is never full, whose beats take so many cycles."""
    return Steps.queued(1, UNLIMITED, delay)


def _most_held(
    timeline: Timeline, network: BeatNetwork, edges: dict[Pin, int], pins: list[Pin], real: set[Pin]
) -> dict[Pin, int]:
    """Most beats that stand in each FIFO; with no delay of its own, only whether any beat waits."""
    depths = {}
    for pin in pins:
        before, behind = edges[timeline.into[pin]], edges[pin]
        if pin in real:
            depths[pin] = network.most_held(before, behind)
        else:
            depths[pin] = int(network.held(before, behind))
    return depths


def _at_pace(
    timeline: Timeline, buffers: dict[Pin, Steps], before: BeatNetwork | None
) -> tuple[BeatNetwork, dict[Pin, int], int | None]:
    """Frames at the pace of the slowest part, or the one the design shows if its other buffers do not keep that up.

    Args:
        timeline: The design without FIFOs.
        buffers: Its FIFOs.
        before: A network from which is begun.

    Returns:
        The network, its edges, and its interval at full rate if :func:`mase_hw.emit.schedule.predict` can conclude it.
    """
    slowest = interval = max(timeline.intervals().values())
    while True:
        network, edges = timeline.network(timeline.paced(interval), buffers)
        network.begin_with(before)
        settled = network.settle(FRAMES)
        if settled is not None:
            return network, edges, settled if interval == slowest or settled > interval else None
        output = timeline.netlist.outputs[0]
        ends = network.edges[edges[timeline.into[Pin(TOP, output.name)]]].taken[output.beats - 1 :: output.beats]
        half = len(ends) // 2
        shown = -(-int(ends[-1] - ends[half]) // (len(ends) - 1 - half))
        interval = max(shown, interval + 1)


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
    buffers = {pin: unlimited() for pin, of in timeline.data_pins().items() if of.instance in joins}
    buffers |= {pin: unlimited(delay=1) for pin, depth in depths.items() if depth}
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
