"""Whether a design with given FIFOs ever stops: counts of beats without times.

Modules with static schedules that exchange beats through bounded buffers either get through every frame or stop at
the same beat, whatever the cycle in which each step happens. So it is enough to let every module go as far as it can,
again and again, until all frames are through or nothing moves.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field

from mase_hw.emit.netlist import TOP, Pin
from mase_hw.emit.schedule import Timeline
from mase_hw.steps import Counts, Steps

FRAMES = 3
"""Frames that must get through, so that frames overlap in every way."""


@dataclass
class _Edge:
    """Beats offered by the source, and taken by each sink."""

    offered: int = 0
    taken: list[int] = field(default_factory=list)
    open: bool = False

    def available(self, sink: int) -> int:
        """Beats a sink could have taken: an eager fork gives one beat more than its slowest sink has."""
        return min(self.offered, min(self.taken) + 1) if len(self.taken) + self.open > 1 else self.offered

    @property
    def gone(self) -> int:
        """Beats that all sinks took."""
        return min(self.taken, default=self.offered)


class _Counter:
    """Beats after steps, and steps before beats, over all frames."""

    def __init__(self, at: Counts, beats: int, steps: int) -> None:
        self.at, self.beats, self.steps = at.tolist(), beats, steps

    def before(self, steps: int) -> int:
        """Beats of steps ``0 .. steps - 1``."""
        frame, rest = divmod(steps, self.steps)
        # Beats that no step handles go with their frame.
        return frame * self.beats + bisect.bisect_left(self.at, rest)

    def step(self, beat: int) -> int:
        """The step of a beat; of one that no step handles, the next one that does."""
        frame, rest = divmod(beat, self.beats)
        if rest >= len(self.at):
            frame, rest = frame + 1, 0
        return frame * self.steps + int(self.at[rest]) if self.at else 1 << 62


class _Module:
    """A stage and how far it has come."""

    def __init__(self, steps: Steps, inputs: list[tuple[_Edge, int]], outputs: list[_Edge]) -> None:
        self.done = 0
        self.inputs, self.outputs = inputs, outputs
        self.room, self.queue = steps.room, steps.queue
        self.need, self.free = (
            [_Counter(at, beats, steps.steps) for at, beats in zip(of, steps.beats_in, strict=True)]
            for of in (steps.need_steps, steps.free_steps)
        )
        self.emit = [_Counter(at, len(at), steps.steps) for at in steps.emit_steps]

    def move(self) -> bool:
        """Go as far as possible; returns whether anything changed."""
        moved = False
        while self._once():
            moved = True
        return moved

    def _once(self) -> bool:
        before = (self.done, [e.taken[s] for e, s in self.inputs], [e.offered for e in self.outputs])
        reach = 1 << 62
        for (edge, sink), need, free, room in zip(self.inputs, self.need, self.free, self.room, strict=True):
            here = edge.available(sink)
            if room:
                here = edge.taken[sink] = max(edge.taken[sink], min(here, free.before(self.done) + room))
            reach = min(reach, need.step(here))
        outs = list(zip(self.outputs, self.emit, self.queue, strict=True))
        stops = [emit.step(edge.gone + queue) for edge, emit, queue in outs]
        self.done = max(self.done, min(reach, *stops))
        for index, (edge, emit, queue) in enumerate(outs):
            # A wired output offers what all else allows; the step is done when the beat is taken.
            others = min([reach, *stops[:index], *stops[index + 1 :]])
            edge.offered = max(edge.offered, emit.before(self.done if queue else others))
        for (edge, sink), free, room in zip(self.inputs, self.free, self.room, strict=True):
            if not room:
                edge.taken[sink] = max(edge.taken[sink], free.before(self.done))
        return before != (self.done, [e.taken[s] for e, s in self.inputs], [e.offered for e in self.outputs])


def finishes(timeline: Timeline, depths: dict[Pin, int]) -> bool:
    """Whether all frames get through.

    Args:
        timeline: The design without FIFOs.
        depths: Depth of the FIFO before every data input that has one.
    """
    edges = {Pin(TOP, s.name): _Edge(FRAMES * s.beats) for s in timeline.netlist.inputs}
    modules: list[_Module] = []

    def place(steps: Steps, sources: list[_Edge]) -> list[_Edge]:
        inputs = []
        for edge in sources:
            edge.taken.append(0)
            inputs.append((edge, len(edge.taken) - 1))
        outputs = [_Edge() for _ in steps.beats_out]
        modules.append(_Module(steps, inputs, outputs))
        return outputs

    for name, part in timeline.parts.items():
        ports = [p for p in part.instance.ports if p.direction == "in"]
        wanted = [p for p in ports if not timeline.netlist.ahead(timeline.into[Pin(name, p.name)].instance)]
        inputs = []
        for port, source in zip(wanted, part.inputs, strict=True):
            inputs.append(edges[source])
            if depth := depths.get(Pin(name, port.name)):
                inputs[-1] = place(Steps.queued(1, depth), [inputs[-1]])[0]
        outs = [p for p in part.instance.ports if p.direction == "out"]
        if part.instance.branches:
            edges |= {Pin(name, outs[0].name, branch): inputs[0] for branch in range(part.instance.branches)}
            continue
        for stage in part.stages:
            inputs = place(stage, inputs)
        edges |= {Pin(name, port.name): edge for port, edge in zip(outs, inputs, strict=True)}
    ends = [(edges[timeline.into[Pin(TOP, s.name)]], FRAMES * s.beats) for s in timeline.netlist.outputs]
    for edge, _ in ends:
        edge.open = True
    while any([module.move() for module in modules]):
        pass
    return all(min(edge.offered, min(edge.taken, default=beats) + 1) >= beats for edge, beats in ends)
