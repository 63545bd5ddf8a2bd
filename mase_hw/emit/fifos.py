"""FIFOs: the shorter path between a fork and a join stores what the longer one delays; others keep up the rate.

A design with a fork and a join deadlocks if the shorter path cannot store the beats that pass the fork before the
longer path delivers its first beat. So every input of a join that lies on a cycle of the undirected netlist, which is
what makes the paths reconvergent, gets a FIFO if a beat ever waits there.

How deep it is, :mod:`mase_hw.emit.depths` finds. Where several branches wait for the same stream, one FIFO before the
fork may do for all (:mod:`mase_hw.emit.delays`), and what only a slow layer behind the join holds up needs none.
Whether a network of modules with static schedules deadlocks depends on the depths and not on times, so neither stalls
nor overlapping frames can cause a deadlock.

A design that is slower than its slowest module then gets FIFOs on plain streams as well (:mod:`mase_hw.emit.rate`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Mapping, Sequence

from mase_hw.beat_times import Solved
from mase_hw.catalogue import Catalogue
from mase_hw.emit.delays import Delay, find_delays, tightest
from mase_hw.emit.depths import Chosen, NoBetterError, choose, shorter, unlimited
from mase_hw.emit.netlist import CONNECTORS, Instance, Net, Netlist, Pin, word_port
from mase_hw.emit.rate import AROUND, Depths, RateSearch
from mase_hw.emit.rewire import delayed
from mase_hw.emit.schedule import Followed, Timeline
from mase_hw.errors import CatalogueError, ConfigError, refuse_unknown
from mase_hw.hardware.manifest import Fifo, Shortfall
from mase_hw.ir import MaseGraph
from mase_hw.passes.mapping.add_hardware_metadata import HARDWARE_ARGS
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.steps import Steps
from mase_hw.streams import ceil_div

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
    chosen = choose(timeline, frozenset(), (), _during_waits(timeline, given) or None)
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


def _at_rate(chosen: Chosen, most: int | None) -> tuple[Chosen, Shortfall | None]:
    """The same with FIFOs on plain streams, if it is slower than its slowest part.

    Args:
        chosen: Without them.
        most: Bits that they may have; None for any number.

    Returns:
        With those that may be there, and what is missing then.
    """
    timeline = chosen.timeline

    def made(rate: Depths) -> Chosen:
        return choose(timeline, chosen.tight, chosen.late, chosen.rate | rate, like=chosen)

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


def _shortened(chosen: Chosen) -> Chosen:
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


def _with_short(chosen: Chosen, short: Depths) -> Chosen | None:
    """The same with FIFOs of given depths; None if that makes it slower, or takes no fewer block RAMs."""
    timeline, tight, late = chosen.timeline, chosen.tight, chosen.late
    others = tuple(pin for pin in late if pin not in short)
    try:
        made = choose(timeline, tight.union(short), others, chosen.rate | short, other=chosen, like=chosen)
    except (CatalogueError, NoBetterError):
        return None
    better = made.blocks < chosen.blocks and made.no_slower(chosen)
    return dataclasses.replace(made, tight=tight, late=late, rate=chosen.rate) if better else None


def _with_delays(chosen: Chosen, catalogue: Catalogue, slack: float) -> Chosen:
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


def _apply(chosen: Chosen, delays: Sequence[Delay], catalogue: Catalogue, refused: set[Delay]) -> Chosen:
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
        made = choose(behind, tight, late, rate or None, other=chosen, like=chosen)
    except (CatalogueError, NoBetterError):  # if it stops, some input needs a FIFO of its own
        made = chosen
    if made.blocks < chosen.blocks and made.no_slower(chosen):
        return made
    half = len(delays) // 2
    if not half:
        refused.update(delays)
        return chosen
    return _apply(_apply(chosen, delays[:half], catalogue, refused), delays[half:], catalogue, refused)


def _given(timeline: Timeline, depths: Mapping[str, int]) -> dict[Pin, int]:
    names = {f"{timeline.parts[pin.instance].instance.node}.{pin.port}": pin for pin in timeline.data_pins()}
    given = {}
    for name, depth in depths.items():
        message = "a FIFO is asked for where there is no data input"
        refuse_unknown(name, names, message, node=name, field="hardware.fifo_depth")
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
