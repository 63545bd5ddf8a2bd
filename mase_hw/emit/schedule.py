"""The timing of a whole design, from the latency facets of its parts.

Every module says in which steps it works (:class:`mase_hw.steps.Steps`); :mod:`mase_hw.beat_times` follows every beat
through the design: forks, joins, FIFOs and back-pressure, frame by frame until the design repeats itself. Inputs are
offered at full rate, outputs always taken.

A module that says only when its results depart (:class:`mase_hw.catalogue.Latency` without steps) is followed exactly
in a design without forks and joins; otherwise a schedule is assumed for it, and the prediction is not exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mase_hw.beat_times import UNLIMITED, BeatNetwork, Evenly, Solved, Unpaused
from mase_hw.beat_times import Cycles as BeatCycles
from mase_hw.catalogue import Catalogue, Cycles, Hardware, Latency
from mase_hw.emit.checks.elaborate import check_beats
from mase_hw.emit.netlist import LOOP_ENTRY, TOP, Instance, Netlist, Pin
from mase_hw.hardware.external import (
    FETCHED,
    Tensor,
    fetch_interval,
    fill_cycles,
    held_blocks,
    source_stages,
    with_parameters,
)
from mase_hw.hardware.latency import timing_of
from mase_hw.hardware.manifest import InstanceTiming
from mase_hw.ops._slots import SLOT
from mase_hw.ops.products._cache import AHEAD, CACHE, READER, Cache, reader_of, stage_of, unit_beats
from mase_hw.steps import Counts, Steps
from mase_hw.streams import ceil_div

SOON = 10
"""Frames in which most designs settle."""
FRAMES = 40
"""Frames after which a design that has not settled is given up on."""
LONG_BEFORE = -(1 << 40)
"""Cycle in which beats come that nothing is to wait for."""


@dataclass(frozen=True)
class Schedule:
    """Predicted timing of a design; cycle 0 accepts the first beat of the first input.

    Args:
        fill: Cycles to the first beat of the first output.
        last: Cycles to the last beat of the first frame, over all outputs.
        interval: Cycles per frame in steady state.
        bottleneck: Instance or port that needs the most cycles per frame.
        instances: Timing by instance name.
        exact: Whether ``fill``, ``last`` and ``interval`` are exact.
    """

    fill: int
    last: int
    interval: int
    bottleneck: str
    instances: dict[str, InstanceTiming]
    exact: bool = True


@dataclass(frozen=True)
class Late:
    """A source that reads external memory.

    Args:
        instance: The source.
        port: That it drives.
        beats: Beats that are taken there in a frame of the design.
    """

    instance: Instance
    port: str
    beats: int

    @property
    def blocks(self) -> int:
        """Blocks that are read in a frame of the design."""
        tensor = Tensor.of(self.instance.parameters)
        return self.beats // (tensor.beats * (tensor.repeats if tensor.buffered else 1))

    @property
    def interval(self) -> int:
        """Cycles per frame in which they are read."""
        return fetch_interval(self.instance.parameters, self.blocks)

    def wait(self, interval: int) -> int:
        """Cycles that pass between the last use of a set and the first of the next one, of which less is held.

        Args:
            interval: Cycles per frame of the design; what is used last makes room meanwhile.
        """
        tensor = Tensor.of(self.instance.parameters)
        room, delay = (int(self.instance.parameters[name]) for name in ("ROOM", "DELAY"))
        missing = 2 * tensor.depth // tensor.sets - tensor.buffered - room * tensor.beats
        if not tensor.buffered or missing <= 0:
            return 0
        fetched = fetch_interval(self.instance.parameters, ceil_div(missing, tensor.beats)) + delay
        return max(fetched - interval // (tensor.sets * tensor.repeats), 0)

    def place(self, network: BeatNetwork) -> int:
        """Put it into a network; the edge of its beats. No frame begins before it holds all that it has room for."""
        name, blocks = self.instance.name, self.blocks
        edge = network.source(blocks, Evenly(blocks, blocks, -fill_cycles(self.instance.parameters)), (name, "blocks"))
        for number, stage in enumerate(source_stages(self.instance.parameters)):
            (edge,) = network.stage(stage, [edge], (name, number))
        return edge


@dataclass(frozen=True)
class Part:
    """One instance as the simulation sees it.

    Args:
        instance: The instance.
        inputs: Pins that drive its data inputs, in order of ports.
        beats: Beats per frame of the first of them.
        stages: Its steps.
        interval: Cycles per frame, by itself.
        latency: Its facet; None for a connector.
        known: Whether the steps are its own, not assumed.
        facets: Of its op; None for a connector.
    """

    instance: Instance
    inputs: tuple[Pin, ...]
    beats: int
    stages: tuple[Steps, ...]
    interval: int
    latency: Latency | None = None
    known: bool = True
    facets: Hardware | None = None


class Timeline:
    """A netlist as a network of beats.

    Args:
        netlist: The design.
        catalogue: Where its latency facets are.
        solved: What was computed before for networks with the same modules.
        positions: Of sequences in turn: of every token its position in its sequence, so many as make whole frames, all
            of which are one frame of the network. Every frame is one sequence if there are none.
    """

    def __init__(
        self, netlist: Netlist, catalogue: Catalogue, solved: Solved | None = None, positions: Sequence[int] = ()
    ) -> None:
        self.netlist = netlist
        self.solved = solved or Solved()
        self.into = {n.sink: n.source for n in netlist.nets}
        self._readers = {n.source: n.sink for n in netlist.nets}
        passes = {n.source: n.stream.repeat for n in netlist.nets}
        self.parts: dict[str, Part] = {}
        frames = len(positions) // netlist.slot.beats if netlist.slot is not None and positions else 1
        self._beats: dict[Pin, int] = {Pin(TOP, s.name): s.beats * frames for s in netlist.inputs}
        self._fetched = {instance.name: instance for instance in netlist.instances if instance.module == FETCHED}
        self.sources: dict[str, list[Late]] = {}
        """Of parts with parameters from external memory, where these come from."""
        self.caches = [instance for instance in netlist.instances if instance.op == CACHE]
        """Those of keys and values, in the order in which external memory is read."""
        for instance in netlist.instances:
            if netlist.ahead(instance.name):
                continue
            inputs = tuple(
                source
                for port in instance.ports
                if port.direction == "in"
                and not netlist.ahead((source := self.into[Pin(instance.name, port.name)]).instance)
            )
            beats = self._beats[inputs[0]]
            if instance.op == LOOP_ENTRY:
                self._beats[inputs[1]] = beats * (int(instance.parameters["PASSES"]) - 1)
            if instance.branches:
                out = next(p for p in instance.ports if p.direction == "out")
                for branch in range(instance.branches):
                    self._beats[Pin(instance.name, out.name, branch)] = beats
                self.parts[instance.name] = Part(instance, inputs, beats, (), beats)
                continue
            self.parts[instance.name] = part = _part(instance, inputs, beats, catalogue, positions)
            if late := self._late(part):
                self.sources[instance.name] = late
            outs = [p for p in instance.ports if p.direction == "out"]
            repeat = beats // part.stages[0].beats_in[0]
            taken, given = ([n * repeat for n in each] for each in (part.stages[0].beats_in, part.stages[-1].beats_out))
            self._beats |= {Pin(instance.name, p.name): n for p, n in zip(outs, given, strict=True)}
            came = [self._beats[pin] for pin in inputs]
            if not positions:
                check_beats(instance, came, taken, given, passes[inputs[0]])

    def _late(self, part: Part) -> list[Late]:
        """The sources of a part that read external memory."""
        found, name = [], part.instance.name
        for port in part.instance.ports:
            driver = self.into[Pin(name, port.name)] if port.direction == "in" else Pin(TOP, "")
            if (source := self._fetched.get(driver.instance)) is not None:
                found.append(Late(source, port.name, port.frame_beats * part.beats // part.stages[0].beats_in[0]))
        return found

    def stages_of(self, name: str) -> int:
        """Stages of a part, those of the sources of its parameters among them."""
        return len(self.parts[name].stages) + sum(len(source_stages(s.instance.parameters)) for s in self.late(name))

    @property
    def stages_before(self) -> int:
        """Stages before those of the parts: the reader of caches, and what makes words of what it reads."""
        return 1 + len(self.caches) if self.caches else 0

    @property
    def ahead(self) -> int:
        """Frames whose parameters are there before the first one begins, at most."""
        found = (source for sources in self.sources.values() for source in sources)
        return max((ceil_div(held_blocks(s.instance.parameters), s.blocks) for s in found), default=0)

    def late(self, name: str) -> Sequence[Late]:
        """The sources of a part that read external memory."""
        return self.sources.get(name, ())

    @property
    def exact(self) -> bool:
        """Whether all steps are known."""
        return all(part.known for part in self.parts.values())

    @property
    def joined(self) -> bool:
        """Whether any stream is forked or any streams are joined."""
        return any(part.instance.branches or len(part.inputs) > 1 for part in self.parts.values())

    def intervals(self) -> dict[str, int]:
        """Cycles per frame that every instance and port needs by itself."""
        ports = {s.name: s.beats for s in (*self.netlist.inputs, *self.netlist.outputs)}
        late = {s.instance.name: s.interval for sources in self.sources.values() for s in sources}
        reads = {READER: self._reader.steps - AHEAD} if self.caches else {}
        return ports | {name: part.interval for name, part in self.parts.items()} | late | reads

    @property
    def _reader(self) -> Steps:
        """What reads external memory for the caches."""
        given = [instance.parameters for instance in self.caches]
        rooms = tuple(int(each["ROOM"]) for each in given)
        return reader_of(tuple(map(Cache.of, given)), rooms, int(given[0]["DELAY"]))

    def _fetch(self, network: BeatNetwork, edges: dict[Pin, int]) -> None:
        """Put the reader into a network, and what makes words of a product of what it reads."""
        reads = self._reader
        begin = network.source(1, Evenly(1, 1, -reads.steps), (READER, "begin"))
        *read, tokens = network.stage(reads, [begin], READER)
        for instance, units in zip(self.caches, read, strict=True):
            stage = unit_beats(Cache.of(instance.parameters).beats)
            (edges[Pin(instance.name, READER)],) = network.stage(stage, [units], (READER, instance.name))
        edges[Pin(READER, self.caches[-1].name)] = tokens

    def beats(self, pin: Pin) -> int:
        """Beats per frame of a source."""
        return self._beats[pin]

    def data_pins(self) -> dict[Pin, Pin]:
        """What drives every data input."""
        pins = {Pin(name, port.name): port for name, part in self.parts.items() for port in part.instance.ports}
        return {
            pin: self.into[pin]
            for pin, port in pins.items()
            if port.direction == "in" and not self.netlist.ahead(self.into[pin].instance)
        }

    def paced(self, interval: int) -> dict[str, Evenly]:
        """When beats of the inputs are offered, evenly, with so many cycles per frame."""
        return {s.name: Evenly(s.beats, interval) for s in self.netlist.inputs}

    def network(
        self,
        offered: Mapping[str, Evenly | BeatCycles] | None = None,
        buffers: Mapping[Pin, Steps] | None = None,
    ) -> tuple[BeatNetwork, dict[Pin, int]]:
        """The network, and the edge of every source.

        Args:
            offered: When beats of the design's inputs are offered at the earliest; at full rate if missing.
            buffers: FIFOs in front of data inputs, by the input's pin; their edges are under the same pin.
        """
        network = BeatNetwork(self.solved)
        offered = offered or {}
        edges: dict[Pin, int] = {}
        for stream in self.netlist.inputs:
            pin = Pin(TOP, stream.name)
            edges[pin] = network.source(self._beats[pin], offered.get(stream.name), pin)
        for name in self.netlist.drained:
            network.sink(edges[Pin(TOP, name)])
        if self.caches:
            self._fetch(network, edges)
        for part in self.parts.values():
            self._place(network, edges, part, buffers or {})
        for stream in self.netlist.outputs:
            network.sink(edges[self.into[Pin(TOP, stream.name)]])
        return network, edges

    def apart(self, name: str, offered: Callable[[Pin], BeatCycles]) -> dict[Pin, BeatCycles]:
        """When a part outside the design offers the beats of its results, which are taken at once.

        Args:
            name: The part.
            offered: From what it reads to the cycles in which its beats come.
        """
        network = BeatNetwork(self.solved)
        edges: dict[Pin, int] = {}
        part = self.parts[name]
        for pin in dict.fromkeys(part.inputs):
            edges[pin] = network.source(self.beats(pin), offered(pin), pin)
        self._place(network, edges, part, {})
        results = [Pin(name, port.name) for port in part.instance.ports if port.direction == "out"]
        for pin in results:
            network.sink(edges[pin])
        network.advance()
        return {pin: network.edges[edges[pin]].offered for pin in results}

    def section(self, names: Collection[str], interval: int, buffers: Mapping[Pin, Steps]) -> BeatNetwork:
        """The network of some parts: what they read of others comes evenly, and what others read is taken at once.

        Args:
            names: The parts, in topological order.
            interval: Cycles per frame in which beats come.
            buffers: As for :meth:`network`.
        """
        network = BeatNetwork(self.solved)
        self._section(network, {}, names, interval, buffers)
        return network

    def behind(self, name: str, names: Sequence[str], interval: int, buffers: Mapping[Pin, Steps]) -> BeatNetwork:
        """The network of what follows from a part that has one stage, which makes a step in every cycle.

        What is read of others is always there. So no event comes later than in a design in which the part has a step
        in every cycle, counted from its first one; ``advance`` raises ``Overdue`` if that cannot be.

        Args:
            name: The part.
            names: Others, in topological order; those that do not follow from it are left out.
            interval: Steps of the part.
            buffers: As for :meth:`network`.
        """
        network = BeatNetwork(self.solved)
        edges: dict[Pin, int] = {}
        part = self.parts[name]
        (steps,) = part.stages
        ports = [p for p in part.instance.ports if p.direction == "out"]
        for port, at, pipe, queue in zip(ports, steps.emit_steps, steps.pipe, steps.queue, strict=True):
            pin = Pin(name, port.name)
            given = Unpaused(at, steps.steps, pipe, queue, steps.queue_lag)
            edges[pin] = network.source(self.beats(pin), given, pin)
        reached: list[str] = []
        drives = set(edges)
        for other in names:
            if other != name and drives.intersection(self.parts[other].inputs):
                reached.append(other)
                drives.update(pin for pin in self._beats if pin.instance == other)
        self._section(network, edges, reached, interval, buffers, LONG_BEFORE)
        return network

    def _section(
        self,
        network: BeatNetwork,
        edges: dict[Pin, int],
        names: Collection[str],
        interval: int,
        buffers: Mapping[Pin, Steps],
        start: int = 0,
    ) -> None:
        """Put parts into a network, with sources for what is not there, which begin in a given cycle, and sinks."""
        for name in names:
            for source in self.parts[name].inputs:
                if source not in edges:
                    beats = self.beats(source)
                    edges[source] = network.source(beats, Evenly(beats, interval, start), source)
            self._place(network, edges, self.parts[name], buffers)
        for sink, source in self.into.items():
            if source in edges and sink.instance not in names:
                network.sink(edges[source])

    def _place(self, network: BeatNetwork, edges: dict[Pin, int], part: Part, buffers: Mapping[Pin, Steps]) -> None:
        """Put a part, and FIFOs before it, behind the edges that it reads."""
        name = part.instance.name
        ports = [p for p in part.instance.ports if p.direction == "in"]
        wanted = [p for p in ports if not self.netlist.ahead(self.into[Pin(name, p.name)].instance)]
        inputs = []
        for port, source in zip(wanted, part.inputs, strict=True):
            pin = Pin(name, port.name)
            if source not in edges and part.instance.op == LOOP_ENTRY:
                edges[source] = network.ahead(self.beats(source))
            inputs.append(edges[source])
            if pin in buffers:
                inputs[-1] = edges[pin] = network.stage(buffers[pin], [edges[source]], pin)[0]
        outs = [p for p in part.instance.ports if p.direction == "out"]
        if part.instance.branches:
            for branch in range(part.instance.branches):
                edges[Pin(name, outs[0].name, branch)] = inputs[0]
            return
        # A FIFO that stands in the design is known by what reads it, as one that is tried there.
        known = self._readers[Pin(name, "out_data")] if part.instance.op == "fifo" else name
        # Only a FIFO drives what a loop began with.
        closes = edges.get(Pin(name, outs[0].name)) if outs else None
        late = self.late(name)
        for number, stage in enumerate(part.stages):
            if (words := edges.get(Pin(name, READER))) is not None:
                tokens = [edges[pin] for pin in (Pin(READER, name),) if pin in edges]
                inputs, stage = [*inputs, words, *tokens], stage_of(Cache.of(part.instance.parameters), bool(tokens))
            if late and number == len(part.stages) - 1:
                inputs = [*inputs, *(source.place(network) for source in late)]
                assert part.facets is not None  # its ports have names
                params = part.facets.record(part.instance.parameters)
                stage = _waiting(stage, part.facets.takes, params, tuple(source.port for source in late))
            inputs = network.stage(stage, inputs, (known, number) if number else known, closes)
        edges |= {Pin(name, port.name): edge for port, edge in zip(outs, inputs, strict=True)}


@dataclass(frozen=True)
class Followed:
    """What is known of a design from choosing the depths of its FIFOs.

    Args:
        network: Its first frame at full rate.
        edges: The edge of every source.
        interval: Cycles per frame at full rate.
    """

    network: BeatNetwork
    edges: dict[Pin, int]
    interval: int


def predict(
    netlist: Netlist, catalogue: Catalogue, followed: Followed | None = None, solved: Solved | None = None
) -> Schedule:
    """Predict fill latency and interval of a design.

    Where buffers fill up slowly before the slowest module, full rate takes very many frames to settle. So frames are
    offered at the interval of that module as well. No design is faster than its slowest module, and offering beats
    earlier makes no beat later: if it keeps up with such frames, this is its interval at full rate as well. If it
    settles slower than they come, it is further behind with every one of them, so that only its own cycles of
    dependences decide (the cycle mean of max-plus algebra; F. Baccelli et al., "Synchronization and Linearity", ch. 3),
    as they do at full rate.

    Args:
        netlist: The design.
        catalogue: Where the latency facets of its parts are.
        followed: What is known of it already.
        solved: What was computed before for networks with the same modules.
    """
    timeline = Timeline(netlist, catalogue, solved)
    intervals = timeline.intervals()
    bottleneck = max(intervals, key=lambda name: intervals[name])
    if not timeline.exact and not timeline.joined:
        return _chain(timeline, intervals, bottleneck)
    settled: int | None
    if followed is not None:
        network, edges, settled = followed.network, followed.edges, followed.interval
    else:
        network, edges = timeline.network()
        network.advance()
        settled = _settled(timeline, network, intervals[bottleneck])
    start = network.edges[edges[Pin(TOP, netlist.inputs[0].name)]].when_taken(0)
    timings = {}
    for name, part in timeline.parts.items():
        out = next(p for p in part.instance.ports if p.direction == "out")
        pin = Pin(name, out.name, 0 if part.instance.branches else None)
        first_in, first_out = (network.edges[edges[p]].when_offered(0) - start for p in (part.inputs[0], pin))
        timings[name] = InstanceTiming(first_in, first_out, part.interval)
    outputs = [network.edges[edges[timeline.into[Pin(TOP, s.name)]]] for s in netlist.outputs]
    last = max(out.when_offered(out.beats - 1) for out in outputs) - start
    interval = settled
    if interval is None:
        # It has not settled (branches of slightly different pace and deep FIFOs): what the last frames took.
        ends = outputs[0].offered[outputs[0].beats - 1 :: outputs[0].beats]
        half = len(ends) // 2
        interval = -(-int(ends[-1] - ends[-1 - half]) // half)
    # Sources of parameters hold what they have room for before the first frame begins.
    for sources in timeline.sources.values():
        timings |= {s.instance.name: InstanceTiming(0, 0, s.interval) for s in sources}
    exact = timeline.exact and settled is not None
    return Schedule(outputs[0].when_offered(0) - start, last, interval, bottleneck, timings, exact)


def _settled(timeline: Timeline, network: BeatNetwork, interval: int) -> int | None:
    """The interval of a design, if it settles with frames at the pace of its slowest part or at full rate."""
    paced = timeline.network(timeline.paced(interval))[0]
    for frames in (SOON, FRAMES):
        for each in (paced, network):
            if (settled := each.settle(frames)) is not None:
                return settled
    return None


def _chain(timeline: Timeline, intervals: dict[str, int], bottleneck: str) -> Schedule:
    """Without forks and joins no module waits for another one's back-pressure in the first frame."""
    netlist = timeline.netlist
    valid: dict[Pin, Cycles] = {Pin(TOP, s.name): np.arange(s.beats, dtype=np.int64) for s in netlist.inputs}
    timings = {}
    for name, part in timeline.parts.items():
        offered = valid[part.inputs[0]]
        assert part.latency is not None  # there is no fork
        # A frame of the design may be several of a module whose steps are known.
        departures = _alone(part, offered) if part.known else part.latency.departures(offered)
        out = next(p for p in part.instance.ports if p.direction == "out")
        valid[Pin(name, out.name)] = departures
        timings[name] = InstanceTiming(int(offered[0]), int(departures[0]), part.interval)
    outputs = [valid[timeline.into[Pin(TOP, s.name)]] for s in netlist.outputs]
    last = max(o.item(-1) for o in outputs)
    return Schedule(outputs[0].item(0), last, intervals[bottleneck], bottleneck, timings)


def _alone(part: Part, offered: Cycles) -> Cycles:
    """When the beats of a frame leave a module that is never stopped."""
    network = BeatNetwork()
    edges = [network.source(len(offered), offered)]
    for stage in (part.stages[0].with_room(UNLIMITED), *part.stages[1:]):
        edges = network.stage(stage, edges)
    network.sink(edges[0])
    network.advance()
    return network.edges[edges[0]].offered


def _part(
    instance: Instance, inputs: tuple[Pin, ...], beats: int, catalogue: Catalogue, positions: Sequence[int]
) -> Part:
    if instance.op == "fifo":
        depth = int(instance.parameters["DEPTH"])
        return Part(instance, inputs, beats, (Steps.queued(1, depth),), beats)
    if instance.op == CACHE:
        steps = Cache.of(instance.parameters).steps()
        return Part(instance, inputs, beats, (steps,), steps.steps)
    facets = catalogue[instance.op].hardware
    assert facets is not None  # only ops with hardware become instances
    latency = timing_of(instance.node, facets.latency, facets.record(instance.parameters))
    repeat = beats // latency.beats
    stages = latency.steps or (_assumed(instance, latency, len(inputs)),)
    if positions and facets.at_positions is not None and any(port.name == SLOT for port in instance.ports):
        stages = facets.at_positions(facets.record(instance.parameters), positions)
    return Part(instance, inputs, beats, stages, latency.interval * repeat, latency, bool(latency.steps), facets)


@functools.lru_cache(maxsize=256)
def _waiting(stage: Steps, takes: Callable[[Any], Mapping[str, Counts]], params: Any, ports: tuple[str, ...]) -> Steps:
    """A stage that waits for parameters; kept, as a network knows long schedules by their identity."""
    taken = takes(params)
    return with_parameters(stage, [taken[port] for port in ports])


def _assumed(instance: Instance, latency: Latency, inputs: int) -> Steps:
    """Steps that could give these departures at full rate: beats needed and given at an even pace, a frame held."""
    arrivals = np.arange(latency.beats, dtype=np.int64)
    departures = latency.departures(*(arrivals,) * inputs)
    given = next(p.beats for p in instance.ports if p.direction == "out")
    count = max(latency.interval, latency.beats, given)
    take = np.arange(latency.beats, dtype=np.int64) * count // latency.beats
    emit = (np.arange(given, dtype=np.int64) + 1) * count // given - 1
    # As late as the facet says for the beat that is latest.
    pipe = max(int((departures - emit).max()), 1)
    needs = (take,) * inputs
    return Steps.at(
        count,
        needed=needs,
        freed=needs,
        emitted=emit,
        delay=(0,) * inputs,
        room=(latency.beats,) * inputs,
        pipe=pipe,
        queue=pipe + given,
    )
