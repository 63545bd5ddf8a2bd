"""FIFOs that bring a design to the interval of its slowest stage, where bursts meet stages without room.

A stage that takes its beats unevenly, or gives them so, holds its neighbours up although each of them alone is fast
enough. The least interval of a network of buffers is the largest mean of its cycles of dependences, and room on a
stream cuts the cycles through it (F. Baccelli et al., "Synchronization and Linearity", ch. 3). With unlimited FIFOs
everywhere only the stages' own cycles are left, and the FIFOs in which beats pile up then are enough. From these the
search goes on to cheaper ones: without those that are not needed, each as short as it can be, each where the stream
takes fewer bits (S. Stuijk et al., "Exploring trade-offs in buffer requirements and throughput constraints for
synchronous dataflow graphs", DAC 2006). Every step is decided by following the beats exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence

from mase_hw.beat_times import UNLIMITED, BeatNetwork, Overdue
from mase_hw.emit.netlist import Pin
from mase_hw.emit.schedule import FRAMES, Part, Timeline
from mase_hw.steps import Steps

Depths = dict[Pin, int]
"""Depth of the FIFO before every data input that has one."""
AROUND = 8
"""Parts beside FIFOs that are followed at first while depths are searched."""
NEAR = 5
"""Parts over which a FIFO may move along a stream."""
SHOWN = 2
"""Frames in which most FIFOs that are too short show it."""
SOON = 400
"""Evaluations in which most FIFOs that are missing show it."""
REACHED = 64
"""Parts behind one that never pauses that so many evaluations reach."""


class RateSearch:
    """FIFOs with which a design, or a part of it, sustains the interval of the design's slowest stage.

    Args:
        timeline: The design without FIFOs; all of its steps are known.
        joins: Unlimited FIFOs before the joins of its reconvergent paths.
        names: The instances that are followed, in topological order; what they read from others comes evenly.
    """

    def __init__(self, timeline: Timeline, joins: Mapping[Pin, Steps], names: Collection[str] | None = None) -> None:
        self.timeline, self.joins = timeline, joins
        self.names = [name for name in timeline.parts if names is None or name in names]
        self.interval = max(timeline.intervals().values())
        self.pins = [p for p in timeline.data_pins() if p.instance in set(self.names) and p not in joins]
        self._bits = {net.sink: net.stream.bits for net in timeline.netlist.nets}
        self._steps: dict[int, Steps] = {}
        self._known: dict[frozenset[tuple[Pin, int]], bool] = {}
        self._last: BeatNetwork | None = None
        """How the last FIFOs that did, did."""
        self._shown: tuple[Depths, BeatNetwork] | None = None
        """The last FIFOs that were not refuted, and what follows from the part that never pauses."""

    def cost(self, depths: Mapping[Pin, int]) -> int:
        """Bits of all FIFOs."""
        return sum(depth * self._bits[pin] for pin, depth in depths.items())

    def piled_up(self) -> Depths:
        """The most beats that pile up before every input, FIFOs everywhere, where it is more than one."""
        buffers = {**self.joins, **dict.fromkeys(self.pins, self._fifo(UNLIMITED))}
        network, edges = self.timeline.network(self.timeline.paced(self.interval), buffers)
        if network.settle(FRAMES) != self.interval:
            return {}
        found = {}
        for pin in self.pins:
            before, behind = edges[self.timeline.into[pin]], edges[pin]
            if network.held(before, behind, 1):
                found[pin] = network.most_held(before, behind)
        return found

    def holds(self, depths: Mapping[Pin, int], shorter: Pin | None = None) -> bool:
        """Whether frames that come at the interval keep coming out at it.

        Args:
            depths: The FIFOs.
            shorter: An input, if they do but for its FIFO.
        """
        key = frozenset(depths.items())
        if key not in self._known:
            buffers = {**self.joins, **{pin: self._fifo(depth) for pin, depth in depths.items()}}
            if shorter is not None and self._refuted(depths, buffers, shorter):
                self._known[key] = False
                return False
            network = self.timeline.section(self.names, self.interval, buffers)
            network.begin_with(self._last)
            self._known[key] = network.settle(FRAMES, self.interval) == self.interval
            if self._known[key]:
                self._last = network
        return self._known[key]

    def _refuted(self, depths: Mapping[Pin, int], buffers: Mapping[Pin, Steps], shorter: Pin) -> bool:
        """Whether FIFOs are too short, as a saturated stage has to: most that are, in a part of a frame.

        A part with a step in every cycle of the interval pauses in no frame of a design that comes to repeat itself at
        this interval. What follows from it comes at the earliest as if nothing else were waited for. If it must wait
        for that, its steps have no times that repeat themselves; the first beat that shows it is enough.
        """
        name = self._ahead(shorter)
        if name is None:
            return False
        behind = self.names[self.names.index(name) + 1 :]
        if shorter not in depths:  # one that is missing shows early
            return _overdue(self.timeline.behind(name, behind[:REACHED], self.interval, buffers), SOON)
        network = self.timeline.behind(name, behind, self.interval, buffers)
        network.begin_with(self._longer(self._shown, depths))
        if _overdue(network):
            return True
        self._shown = dict(depths), network
        return False

    def _ahead(self, pin: Pin) -> str | None:
        """The last part before an input that never pauses."""
        before = self.names[: self.names.index(pin.instance)]
        return next((name for name in reversed(before) if self._never_pauses(self.timeline.parts[name])), None)

    def _never_pauses(self, part: Part) -> bool:
        """Whether a part has one stage, with a step in every cycle of the interval."""
        return len(part.stages) == 1 and part.stages[0].steps * part.beats == self.interval * part.stages[0].beats_in[0]

    @staticmethod
    def _longer(known: tuple[Depths, BeatNetwork] | None, depths: Mapping[Pin, int]) -> BeatNetwork | None:
        """A network, if none of its FIFOs is shorter than these and there are no others."""
        if known is None:
            return None
        longer, network = known
        alike = longer.keys() == depths.keys() and all(longer[pin] >= depth for pin, depth in depths.items())
        return network if alike else None

    def cheapest(self, depths: Depths, around: int) -> Depths:
        """Cheaper FIFOs that do as well, none of which can be left out or be shorter by a beat.

        Args:
            depths: FIFOs that do.
            around: Parts before the first FIFO and behind the last one that are followed with those in between. What
                is farther away may make more necessary.
        """
        if not depths:
            return {}
        depths = self._around(depths, around)._needed(depths, self._dearest(depths))
        here = self._around(depths, around)
        return here._shortened(here._moved(depths))

    def _around(self, depths: Container[Pin], around: int) -> RateSearch:
        """The same for the part of the design in which these FIFOs stand."""
        at = [self.names.index(pin.instance) for pin in self.pins if pin in depths] or [0]
        return RateSearch(self.timeline, self.joins, self.names[max(min(at) - around, 0) : max(at) + 1 + around])

    def _dearest(self, depths: Depths) -> list[Pin]:
        """Places of FIFOs, those of most bits first."""
        return sorted(depths, key=lambda pin: self.cost({pin: depths[pin]}), reverse=True)

    def _needed(self, depths: Depths, some: Sequence[Pin], fails: bool = False) -> Depths:
        """Without those of some FIFOs that can be left out, the first of them first.

        As many at a time as can be: if all can, so can each. Trials that fail are soon over.

        Args:
            depths: FIFOs that do.
            some: Those of them that are looked at.
            fails: Whether it is known that they cannot all be left out.
        """
        if not some:
            return depths
        without = {pin: depth for pin, depth in depths.items() if pin not in some}
        if not fails and self.holds(without, min(some, key=self.pins.index)):
            return without
        if len(some) == 1:
            return depths
        half = len(some) // 2
        depths = self._needed(depths, some[:half])
        return self._needed(depths, some[half:], fails=depths.keys().isdisjoint(some[:half]))

    def _shortened(self, depths: Depths) -> Depths:
        """Every FIFO as short as it can be, the one of most bits first."""
        for pin in self._dearest(depths):
            depths = {p: d for p, d in (depths | {pin: self._least(depths, pin)}).items() if d}
        return depths

    def _least(self, depths: Depths, pin: Pin) -> int:
        """The least depth of one FIFO that does; 0 for none.

        Trials that fail are soon over behind a part that never pauses; elsewhere they take many times longer than
        others, so it comes down in steps that hardly ever fail.
        """
        if self._ahead(pin) is not None:
            return self._least_by_halves(depths, pin)
        most = depths[pin]
        low, high, step = -1, most, 1
        while high - low > 1:
            middle = max(high - step, (low + high) // 2)
            trial = {p: d for p, d in (depths | {pin: middle}).items() if d}
            if self.holds(trial, pin):
                high, step = middle, 1 + (most - middle) // 4 if low < 0 else max((middle - low) // 32, 1)
            else:
                low, step = middle, max((high - middle) // 32, 1)
        return high

    def _least_by_halves(self, depths: Depths, pin: Pin) -> int:
        """The same in steps that grow until one fails, and are halved from there on."""
        low, high, step = -1, depths[pin], 1
        while high - low > 1:
            middle = max(high - step, low + 1) if low < 0 else (low + high) // 2
            if self.holds({p: d for p, d in (depths | {pin: middle}).items() if d}, pin):
                high, step = middle, 2 * step
            else:
                low = middle
        return high

    def _moved(self, depths: Depths) -> Depths:
        """The same with FIFOs moved to streams of fewer bits where as much of a frame in them does."""
        for pin in self._dearest(depths):
            others = {p: d for p, d in depths.items() if p != pin}
            for place in self._near(pin):
                share = -(-depths[pin] * self._beats(place) // self._beats(pin))
                trial = others | {place: others.get(place, 0) + share}
                if self._frame(place) < self._frame(pin) and self.holds(trial, pin):
                    depths = trial
                    break
        return depths

    def _frame(self, pin: Pin) -> int:
        """Bits of a frame of a stream."""
        return self._bits[pin] * self._beats(pin)

    def _beats(self, pin: Pin) -> int:
        return self.timeline.beats(self.timeline.into[pin])

    def _near(self, pin: Pin) -> Iterator[Pin]:
        """Inputs before and behind an input along its stream, the nearest first."""
        for step in (self._before, self._behind):
            reached = [pin]
            for _ in range(NEAR):
                reached = [other for each in reached for other in step(each)]
                yield from reached

    def _before(self, pin: Pin) -> list[Pin]:
        """The inputs of what gives this one its beats."""
        return [other for other in self.pins if other.instance == self.timeline.into[pin].instance]

    def _behind(self, pin: Pin) -> list[Pin]:
        """The inputs that read what this one's part gives."""
        return [other for other in self.pins if self.timeline.into[other].instance == pin.instance]

    def _fifo(self, depth: int) -> Steps:
        """A FIFO, the same object for the same depth: what is known of it is found by it."""
        return self._steps.setdefault(depth, Steps.queued(1, depth))


def _overdue(network: BeatNetwork, most: int | None = None) -> bool:
    """Whether so many evaluations show that an event cannot come as early as it has to."""
    try:
        for _ in range(SHOWN):
            if not network.advance(most):
                break
    except Overdue:
        return True
    return False
