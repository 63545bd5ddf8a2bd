"""The netlists of all devices as one, with links as modules: what the whole does in every cycle."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from mase_hw.beat_times import Solved
from mase_hw.catalogue import Catalogue, verilog_params
from mase_hw.devices.records import Link, not_divided
from mase_hw.devices.render import repacked
from mase_hw.emit.netlist import TOP, Instance, Net, Netlist, Pin, word_port
from mase_hw.emit.schedule import FRAMES, Timeline
from mase_hw.ops.structural import LinkParams, round_trip
from mase_hw.streams import Stream, ceil_div

Ends = Mapping[str, str]
"""Of the ports of a device's bundle that are ports of the whole, the names that they have there."""


@dataclass(frozen=True)
class On:
    """A device's part of the whole.

    Args:
        number: Of the device.
        netlist: Of its bundle.
        ends: Its ports that are ports of the whole.
    """

    number: int
    netlist: Netlist
    ends: Ends


def join(name: str, parts: Sequence[On], links: Sequence[Link]) -> Netlist:
    """One netlist of all devices.

    Args:
        name: Module of the whole.
        parts: In the order in which frames pass through them.
        links: Between them.

    Raises:
        UnsupportedError: If the two ends of a link take the elements of its tensor in another order.
    """
    whole = Netlist(name)
    sent: dict[str, Stream] = {}
    for part in parts:
        of, prefix = part.netlist, f"device_{part.number}."
        starts: dict[str, Pin] = {}
        for link in (each for each in links if each.sink == part.number):
            want = next(s for s in of.inputs if s.name == link.sink_port)
            starts[link.sink_port] = _linked(whole, link, sent[link.name], want)
        for stream in of.ports:
            if (outer := part.ends.get(stream.name)) is not None:
                named = dataclasses.replace(stream, name=outer, valid=f"{outer}_valid", ready=f"{outer}_ready")
                (whole.inputs if stream.direction == "in" else whole.outputs).append(named)
        whole.drained += [part.ends[port] for port in of.drained]
        whole.instances += [dataclasses.replace(i, name=prefix + i.name) for i in of.instances]
        out = {link.source_port: link for link in links if link.source == part.number}
        for net in of.nets:
            source, sink = net.source, net.sink
            if source.instance == TOP:
                source = starts.get(source.port) or Pin(TOP, part.ends[source.port])
            else:
                source = dataclasses.replace(source, instance=prefix + source.instance)
            if sink.instance != TOP:
                sink = dataclasses.replace(sink, instance=prefix + sink.instance)
            elif sink.port in out:
                link = out[sink.port]
                sent[link.name] = next(s for s in of.outputs if s.name == sink.port)
                sink = Pin(link.name, "in_data")
            else:
                sink = Pin(TOP, part.ends[sink.port])
            whole.nets.append(Net(prefix + net.name, source, sink, net.stream))
        whole.memories |= {prefix + instance: file for instance, file in of.memories.items()}
        whole.fifos += [msgspec.structs.replace(fifo, instance=prefix + fifo.instance) for fifo in of.fifos]
        whole.twins |= of.twins
        whole.files += [file for file in of.files if file not in whole.files]
        whole.external |= of.external
        whole.generated |= of.generated
    ends = [f"lib/{module}.sv" for module in ("link_send", "link_line", "link_receive", "stream_repack")]
    whole.add_files(*ends)
    whole.inputs.sort(key=_order)
    whole.outputs.sort(key=_order)
    whole.verify()
    return whole


def _linked(whole: Netlist, link: Link, have: Stream, want: Stream) -> Pin:
    """Put a link into the whole, and what changes its lanes behind it; where its beats come out."""
    if (have.shape, have.layout, have.fmt) != (want.shape, want.layout, want.fmt):
        raise not_divided(
            "two devices have the elements of a stream between them in different orders or formats",
            node=link.tensor,
            got=f"device {link.sink}: {list(want.shape)}, {want.fmt}, {want.layout or 'row-major'}",
            expected=f"device {link.source}: {list(have.shape)}, {have.fmt}, {have.layout or 'row-major'}",
            remedy="cut before or behind this node",
        )
    params = LinkParams(link.width, link.bits, link.clock_ratio, link.latency, link.credits)
    sides = word_port("in", have.beats, have.bits), word_port("out", have.beats, have.bits)
    # As a node of its own: nothing of the network is in it.
    whole.instances.append(Instance(link.name, "stream_link", verilog_params(params), sides, link.tensor, "link"))
    end = Pin(link.name, "out_data")
    if (repack := repacked(have, want)) is None:
        return end
    name = f"{link.name}_repack"
    parameters = verilog_params(repack)
    whole.instances.append(Instance(name, "stream_repack", parameters, repack.streams(), link.tensor, "repack"))
    whole.nets.append(Net(f"{link.name}_sent", end, Pin(name, "in_data"), have))
    return Pin(name, "out_data")


def _order(stream: Stream) -> int:
    return int(stream.name.rpartition("_")[2])


def with_credits(
    name: str,
    parts: Sequence[On],
    links: Sequence[Link],
    least: Mapping[str, int],
    catalogue: Catalogue,
    solved: Solved,
) -> list[Link]:
    """The links with as many words at the far side as they need.

    A link on a plain chain needs what is on its way, and what of credits is, for its full rate. Where it is on one of
    several ways between devices, words wait for those that come another way as well: with room for two frames on
    every such link all beats are followed, at the rate of the slowest module and of one frame from idle, as for the
    FIFOs of a design (:mod:`mase_hw.emit.fifos`), and it gets room for the most that are ever inside.

    Args:
        name: Module of the whole.
        parts: The devices.
        links: Between them; their credits are not looked at.
        least: Of every link the fewest words that are wanted.
        catalogue: Where the latency facets are.
        solved: What was computed before for networks with the same modules.
    """
    found = [
        msgspec.structs.replace(each, credits=max(round_trip(each.latency, each.clock_ratio), least[each.name]))
        for each in links
    ]
    several = {each.name for each in links if _on_a_cycle(each, links)}
    if not several:
        return found
    roomy = [
        msgspec.structs.replace(each, credits=each.credits + 2 * each.words) if each.name in several else each
        for each in found
    ]
    timeline = Timeline(join(name, parts, roomy), catalogue, solved)
    first, edges = timeline.network()
    first.advance()
    paced, paced_edges = timeline.network(timeline.paced(max(timeline.intervals().values())))
    paced.settle(FRAMES)
    for at, each in enumerate(found):
        if each.name in several:
            pin = Pin(each.name, "out_data")
            before = timeline.into[Pin(each.name, "in_data")]
            held = max(n.most_held(e[before], e[pin]) for n, e in ((first, edges), (paced, paced_edges)))
            words = held * ceil_div(each.width, each.bits)
            found[at] = msgspec.structs.replace(each, credits=max(each.credits, words))
    return found


def _on_a_cycle(link: Link, links: Sequence[Link]) -> bool:
    """Whether its ends are connected without it."""
    reached, todo = {link.source}, [link.source]
    while todo:
        at = todo.pop()
        for other in links:
            if other is link or at not in (other.source, other.sink):
                continue
            far = other.sink if at == other.source else other.source
            if far not in reached:
                reached.add(far)
                todo.append(far)
    return link.sink in reached
