"""FIFOs: the shorter path between a fork and a join stores what the longer one delays; others keep up the rate.

A design with a fork and a join deadlocks if the shorter path cannot store the beats that pass the fork before the
longer path delivers its first beat. So every input of a join that lies on a cycle of the undirected netlist, which is
what makes the paths reconvergent, gets a FIFO if a beat ever waits there.

Depth: with unlimited FIFOs every beat of the design is followed, (1) through one frame at full rate, from idle, and (2)
through frames offered at the interval of the slowest module, until the design repeats itself. The FIFO gets as many
slots as are ever in use. Where several branches wait for the same stream, one FIFO before the fork may do for all
(:mod:`mase_hw.emit.delays`), and what only a slow layer behind the join holds up needs none
(:mod:`mase_hw.emit.joins`). Offering beats earlier never makes any beat later, so a design that sustains this rate
with these depths sustains full rate as well, and its first frame is as fast as with unlimited FIFOs. Whether a network
of modules with static schedules deadlocks depends on the depths and not on times, so neither stalls nor overlapping
frames can cause a deadlock.

A design that is slower than its slowest module then gets FIFOs on plain streams as well (:mod:`mase_hw.emit.rate`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass

from mase_hw.beat_times import UNLIMITED, BeatNetwork, Cycles, Solved
from mase_hw.catalogue import Catalogue
from mase_hw.emit.delays import Delay, find_delays, reconvergent, tightest
from mase_hw.emit.joins import shorter
from mase_hw.emit.netlist import CONNECTORS, TOP, Instance, Net, Netlist, Pin, word_port
from mase_hw.emit.rate import AROUND, Depths, RateSearch
from mase_hw.emit.rewire import delayed
from mase_hw.emit.schedule import FRAMES, Followed, Timeline
from mase_hw.errors import CatalogueError, ConfigError
from mase_hw.hardware.manifest import Fifo, Shortfall
from mase_hw.hardware.memories import block_rams
from mase_hw.ir import MaseGraph
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div

NEARLY = 2
"""Beats by which the depth of a FIFO is not known before all FIFOs are."""
OVERLAPPING = 3
"""Frames that must get through with given depths, so that frames overlap in every way."""


def insert_fifos(netlist: Netlist, graph: MaseGraph, solved: Solved | None = None) -> Followed | None:
    """Put the FIFOs into a netlist, which is verified again.

    Args:
        netlist: The design; changed only if nothing is refused.
        graph: Where the latency facets of its parts, and what is configured of FIFOs, are.
        solved: What was computed before for networks with the same modules.

    Returns:
        What was found of the timing of the design with these FIFOs; None if nothing was followed, or depths are given.

    Raises:
        ConfigError: If a depth names no data input, is negative, or would deadlock the design.
    """
    catalogue = graph.catalogue
    depths = {
        f"{node.name}.{port}": depth
        for node in graph.nodes
        for port, depth in graph.meta_of(node).hardware.fifo_depth.items()
    }
    timeline = Timeline(netlist, catalogue, solved)
    given = _given(timeline, depths)
    chosen = _choose(timeline, frozenset(), (), _during_waits(timeline, given) or None)
    if given:
        _check(timeline, chosen.depths, given)
    else:
        args = graph.note(HARDWARE_ARGS, HardwareArgs) or HardwareArgs()
        chosen = _with_delays(chosen, catalogue, args.fifo_slack)
        if args.rate_fifos and timeline.exact:
            chosen, netlist.shortfall = _at_rate(chosen, args.rate_fifo_bits)
        chosen = _shortened(chosen)
        netlist.instances[:], netlist.nets[:] = chosen.timeline.netlist.instances, chosen.timeline.netlist.nets
        netlist.memories = chosen.timeline.netlist.memories
    followed = chosen.followed
    wanted = {pin: depth for pin, depth in (chosen.depths | given).items() if depth}
    if wanted:
        names = put_fifos(netlist, chosen.timeline, wanted, given, chosen.rate)
        if followed is not None:
            known = followed.edges
            known |= {Pin(name, "out_data"): known[pin] for pin, name in names.items() if pin in known}
        netlist.verify()
    return None if given else followed


@dataclass(frozen=True)
class _Chosen:
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

    def no_slower(self, other: _Chosen) -> bool:
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


class _NoBetter(Exception):
    """The first frame shows that a design is no better than another one."""


def _choose(
    timeline: Timeline,
    tight: frozenset[Pin],
    late: tuple[Pin, ...],
    rate: Depths | None = None,
    other: _Chosen | None = None,
    like: _Chosen | None = None,
) -> _Chosen:
    """Depths for inputs of joins and those where beats are held back, with FIFOs for the rate if there are any.

    Args:
        timeline: The design without FIFOs.
        tight: Inputs that get none.
        late: Inputs where beats are held back.
        rate: FIFOs for the rate.
        other: A design that it has to be better than.
        like: One that has most of the modules, from which is begun.

    Raises:
        _NoBetter: If a beat leaves later than with those of the other one, or no fewer block RAMs are taken.
    """
    pins = list(dict.fromkeys([*(pin for pin in reconvergent(timeline) if pin not in tight), *late]))
    if not pins and rate is None:
        return _Chosen(timeline, tight, late, {}, None)
    depths, followed, rounds = _depths(timeline, pins, rate or {}, other, like.rounds if like else ())
    allowed = other.allowed if other else ()
    return _Chosen(timeline, tight, late, depths | (rate or {}), followed, rounds, rate or {}, allowed)


def _at_rate(chosen: _Chosen, most: int | None) -> tuple[_Chosen, Shortfall | None]:
    """The same with FIFOs on plain streams, if it is slower than its slowest part.

    Args:
        chosen: Without them.
        most: Bits that they may have; None for any number.

    Returns:
        With those that may be there, and what is missing then.
    """
    timeline = chosen.timeline

    def made(rate: Depths) -> _Chosen:
        return _choose(timeline, chosen.tight, chosen.late, chosen.rate | rate, like=chosen)

    slowest = max(timeline.intervals().values())
    if chosen.followed is None and not chosen.depths:
        chosen = made({})
    if chosen.interval == slowest:
        return chosen, None
    search = RateSearch(timeline, {pin: unlimited(delay=int(depth > 0)) for pin, depth in chosen.depths.items()})
    needed = search.piled_up()
    for around in (AROUND, 4 * AROUND, len(timeline.parts)):
        found = search.cheapest(needed, around)
        # Without any it is as slow as before: what makes it slow is farther away.
        if found and (best := made(found)).interval == slowest:
            break
    else:
        return chosen, None
    if most is None or search.cost(found) <= most:
        return best, None
    fits: Depths = {}
    for pin in sorted(found, key=lambda pin: search.cost({pin: found[pin]})):
        if search.cost(trial := fits | {pin: found[pin]}) <= most:
            fits = trial
    some = made(fits) if fits else chosen
    if some.interval is None or (chosen.interval is not None and some.interval >= chosen.interval):
        some = chosen
    return some, Shortfall(slowest, search.cost(found), most)


def _during_waits(timeline: Timeline, given: Container[Pin]) -> Depths:
    """FIFOs between the slowest part and layers behind it that wait for a set of parameters: what comes meanwhile.

    Layers farther behind wait at the same time, and all of them are faster than what goes on.

    Args:
        timeline: The design without FIFOs.
        given: Inputs where depths are given.
    """

    def passes(instance: Instance) -> int:
        return len(timeline.netlist.twins.get(instance.node, (instance.node,)))

    intervals = {name: part.interval * passes(part.instance) for name, part in timeline.parts.items()}
    slowest = max(intervals.values(), default=0)
    sources = [source for late in timeline.sources.values() for source in late]
    if any(source.interval * passes(source.instance) >= slowest for source in sources):
        return {}
    found: Depths = {}
    reached = {name for name, interval in intervals.items() if interval == slowest}
    for pin, source in timeline.data_pins().items():  # parts stand in topological order
        if source.instance not in reached:
            continue
        wait = max((source.wait(slowest) for source in timeline.late(pin.instance)), default=0)
        if not wait:
            reached.add(pin.instance)
        elif pin not in given:
            beats = timeline.beats(source) * passes(timeline.parts[pin.instance].instance)
            found[pin] = ceil_div(wait * beats, slowest)
    return found


def _shortened(chosen: _Chosen) -> _Chosen:
    """The same with FIFOs in which beats do not wait because a join is held up, where that saves block RAMs."""
    if chosen.followed is None or not chosen.timeline.exact:
        return chosen
    todo = [shorter(chosen.timeline, chosen.depths, chosen.rate)]
    short: Depths = {}
    while todo:
        trial = todo.pop()
        if not trial:
            continue
        made = _with_short(chosen, short | trial)
        if made is not None:
            short, chosen = short | trial, made
        elif len(trial) > 1:
            items, half = list(trial.items()), len(trial) // 2
            todo += [dict(items[half:]), dict(items[:half])]
    return chosen


def _with_short(chosen: _Chosen, short: Depths) -> _Chosen | None:
    """The same with FIFOs of given depths; None if that makes it slower, or takes no fewer block RAMs."""
    timeline, tight, late = chosen.timeline, chosen.tight, chosen.late
    others = tuple(pin for pin in late if pin not in short)
    try:
        made = _choose(timeline, tight.union(short), others, chosen.rate | short, other=chosen, like=chosen)
    except (CatalogueError, _NoBetter):
        return None
    better = made.blocks < chosen.blocks and made.no_slower(chosen)
    return dataclasses.replace(made, tight=tight, late=late, rate=chosen.rate) if better else None


def _with_delays(chosen: _Chosen, catalogue: Catalogue, slack: float) -> _Chosen:
    """The same with FIFOs before forks, as long as they save block RAMs.

    Args:
        chosen: A design.
        catalogue: Where the modules are described.
        slack: By what share of its cycles the first frame may take longer.
    """
    refused: set[Delay] = set()
    if chosen.followed is not None:
        leaves = chosen.leaves()
        later = int(slack * max(int(times[-1]) for times in leaves))
        chosen = dataclasses.replace(chosen, allowed=tuple(times + later for times in leaves))
    while chosen.followed is not None and chosen.timeline.exact:
        delays = find_delays(chosen.timeline, chosen.depths, catalogue)
        better = _apply(chosen, [delay for delay in delays if delay not in refused], catalogue, refused)
        if better is chosen:
            break
        chosen = better
    return chosen


def _apply(chosen: _Chosen, delays: Sequence[Delay], catalogue: Catalogue, refused: set[Delay]) -> _Chosen:
    """The same with these delays, or with those that make nothing slower and save what they promise.

    Args:
        chosen: A design.
        delays: What is tried.
        catalogue: Where the modules are described.
        refused: Those that did not do, each by itself, are added.
    """
    if not delays:
        return chosen
    netlist, tight, late, rate = chosen.timeline.netlist, chosen.tight, chosen.late, chosen.rate
    todo = [(delay.fork, delay.pins, tightest(delay, chosen.timeline, chosen.depths)) for delay in delays]
    while todo:
        (fork, pins, held), *todo = todo
        known = {held, *tight, *late, *rate, *(pin for _, others, _ in todo for pin in others)}
        if (rewired := delayed(netlist, fork, pins, known)) is None:
            continue
        netlist, queue, now = rewired
        tight = frozenset(now[pin] for pin in (held, *tight) if pin in now)
        late = (*(now[pin] for pin in late if pin in now), queue)
        rate = {now[pin]: depth for pin, depth in rate.items() if pin in now}
        todo = [(f, tuple(now[p] for p in ps), now[h]) for f, ps, h in todo if all(p in now for p in ps)]
    netlist.verify()
    try:
        behind = Timeline(netlist, catalogue, chosen.timeline.solved)
        made = _choose(behind, tight, late, rate or None, other=chosen, like=chosen)
    except (CatalogueError, _NoBetter):  # if it stops, some input needs a FIFO of its own
        made = chosen
    if made.blocks < chosen.blocks and made.no_slower(chosen):
        return made
    half = len(delays) // 2
    if not half:
        refused.update(delays)
        return chosen
    return _apply(_apply(chosen, delays[:half], catalogue, refused), delays[half:], catalogue, refused)


def _depths(
    timeline: Timeline,
    pins: list[Pin],
    rate: Depths,
    other: _Chosen | None = None,
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
                raise _NoBetter
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


def _given(timeline: Timeline, depths: Mapping[str, int]) -> dict[Pin, int]:
    names = {f"{timeline.parts[pin.instance].instance.node}.{pin.port}": pin for pin in timeline.data_pins()}
    given = {}
    for name, depth in depths.items():
        if name not in names:
            raise ConfigError(
                "a FIFO is asked for where there is no data input",
                node=name,
                field="hardware.fifo_depth",
                got=name,
                expected=f"one of {', '.join(sorted(names))}",
            )
        if depth < 0:
            raise ConfigError(
                "a FIFO cannot have a negative depth",
                node=name,
                field="hardware.fifo_depth",
                got=depth,
                expected=">= 0",
            )
        given[names[name]] = depth
    return given


def _check(timeline: Timeline, found: dict[Pin, int], given: dict[Pin, int]) -> None:
    """Refuse depths with which the design deadlocks."""

    def runs(depths: Depths) -> bool:
        buffers = {pin: Steps.queued(1, depth) for pin, depth in depths.items() if depth}
        network, _ = timeline.network(buffers=buffers)
        try:
            for _ in range(OVERLAPPING):
                network.advance()
        except CatalogueError:
            return False
        return True

    if runs(found | given):
        return
    for pin, depth in given.items():
        if pin not in found or found[pin] <= depth or not runs(found | given | {pin: found[pin]}):
            continue
        low, high = depth, found[pin]
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if runs(found | given | {pin: middle}) else (middle, high)
        raise ConfigError(
            "with a FIFO of this depth the design would deadlock",
            node=f"{timeline.parts[pin.instance].instance.node}.{pin.port}",
            field="hardware.fifo_depth",
            got=depth,
            expected=f"at least {high}; {found[pin]} for full speed",
        )
    raise ConfigError(
        "with FIFOs of these depths the design would deadlock",
        field="hardware.fifo_depth",
        got=", ".join(f"{timeline.parts[p.instance].instance.node}.{p.port}: {d}" for p, d in given.items()),
        expected=", ".join(
            f"{timeline.parts[p.instance].instance.node}.{p.port}: {found[p]}" for p in given if p in found
        )
        or "no FIFO",
    )


def put_fifos(
    netlist: Netlist, timeline: Timeline, depths: Depths, given: Collection[Pin] = (), rate: Collection[Pin] = ()
) -> dict[Pin, str]:
    """Put a FIFO before every pin, some of which were asked for and some are for the rate; their names."""
    taken = netlist.signals()
    into = {net.sink: net for net in netlist.nets}
    names: dict[Pin, str] = {}
    queues: dict[str, list[Instance]] = {}
    """By the name of the instance before which they stand."""
    behind: dict[Pin, Net] = {}
    for pin, depth in depths.items():
        net, reader = into[pin], netlist.instance(pin.instance)
        bits, beats = net.stream.bits, timeline.beats(net.source)
        name = names[pin] = netlist.free(f"{pin.instance}_{pin.port}_fifo", taken)
        instance = Instance(
            name,
            "stream_fifo",
            {"WIDTH": bits, "DEPTH": depth},
            (word_port("in", beats, bits), word_port("out", beats, bits)),
            reader.node,
            "fifo",
            unread={"count": depth.bit_length()},
        )
        queues.setdefault(pin.instance, []).append(instance)
        queued = netlist.free(f"{net.name}_queued", taken)
        behind[pin] = Net(queued, Pin(name, "out_data"), pin, net.stream)
        before = str(pin) if reader.op in CONNECTORS else f"{reader.node}.{pin.port}"
        netlist.fifos.append(Fifo(name, before, str(net.source), depth, bits, pin in given, pin in rate))
    netlist.instances[:] = [each for i in netlist.instances for each in (*queues.get(i.name, ()), i)]
    netlist.nets[:] = [
        each
        for net in netlist.nets
        for each in (
            (dataclasses.replace(net, sink=Pin(names[net.sink], "in_data")), behind[net.sink])
            if net.sink in behind
            else (net,)
        )
    ]
    netlist.add_files("lib/stream_fifo.sv")
    return names
