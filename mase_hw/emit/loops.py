"""Hardware that frames pass through several times: how its end is joined to its begin."""

from __future__ import annotations

import dataclasses

from mase_hw.catalogue import verilog_params
from mase_hw.emit.netlist import LOOP_ENTRY, LOOP_EXIT, Instance, Net, Netlist, Pin
from mase_hw.hardware.manifest import Fifo
from mase_hw.ops.structural import EntryParams, ExitParams, FifoParams, LoopParams, RepackParams
from mase_hw.streams import Stream


def close_loop(netlist: Netlist, enters: Pin, leaves: Pin, passes: int) -> None:
    """Send what leaves a part of a design back to where it entered, for all passes but the last.

    A FIFO on the way back holds a frame. No more of a frame is ever outside the modules of the part, so the FIFO never
    stops what leaves: whatever does not deadlock in one pass does not in several.

    Args:
        netlist: With its other FIFOs; changed, and verified again.
        enters: What drives the part, and nothing else.
        leaves: What the part gives.
        passes: Times that every frame passes through it, two or more.
    """
    (entered,) = (net for net in netlist.nets if net.source == enters)
    (left,) = (net for net in netlist.nets if net.source == leaves)
    given, got = left.stream, entered.stream
    first = _splice(netlist, entered, LOOP_ENTRY, EntryParams(got.bits, got.beats, passes))
    last = _splice(netlist, left, LOOP_EXIT, ExitParams(given.bits, given.beats, passes))
    count_passes(netlist, first)
    label, back = netlist.instance(last).node, Pin(last, "back_data")
    connectors: list[Instance] = []
    if not given.same_beats(got):
        repack = RepackParams(given.fmt.width, given.lanes, got.lanes, given.sizes[0], got.sizes[0])
        name = netlist.free(f"u_{label}_back_repack")
        connectors.append(Instance(name, "stream_repack", verilog_params(repack), repack.streams(), label, "repack"))
    fifo, name = FifoParams(got.bits, got.beats), netlist.free(f"u_{label}_back_fifo")
    unread = {"count": got.beats.bit_length()}
    connectors.append(Instance(name, "stream_fifo", verilog_params(fifo), fifo.streams(), label, "fifo", unread=unread))
    netlist.fifos.append(Fifo(name, f"{first}.back_data", str(back), got.beats, got.bits))
    at = netlist.instances.index(netlist.instance(last)) + 1
    netlist.instances[at:at] = connectors
    stream = given
    for instance in connectors:
        net = Net(
            netlist.free(f"net_{instance.name}"), back, Pin(instance.name, "in_data"), _repeated(stream, passes - 1)
        )
        netlist.nets.append(net)
        netlist.add_files(f"lib/{instance.module}.sv")
        back, stream = Pin(instance.name, "out_data"), got
    netlist.nets.append(Net(netlist.free(f"net_{name}_out"), back, Pin(first, "back_data"), _repeated(got, passes - 1)))
    netlist.verify()


def _repeated(stream: Stream, times: int) -> Stream:
    return dataclasses.replace(stream, repeat=times)


def _splice(netlist: Netlist, net: Net, module: str, params: LoopParams) -> str:
    """Put one end of the loop into a net, and return the name of the instance."""
    index = netlist.nets.index(net)
    owner = net.source.instance
    node = netlist.instance(owner).node if owner else net.source.port
    name = netlist.free(f"u_{node}_{module}")
    ports = params.streams()
    at = netlist.instances.index(netlist.instance(owner)) + 1 if owner else 0
    netlist.instances.insert(at, Instance(name, module, verilog_params(params), ports, node, module))
    netlist.nets[index] = Net(net.name, net.source, Pin(name, "in_data"), net.stream)
    netlist.nets.insert(index + 1, Net(netlist.free(f"{net.name}_loop"), Pin(name, "out_data"), net.sink, net.stream))
    netlist.add_files(f"lib/{module}.sv")
    return name


def count_passes(netlist: Netlist, entry: str) -> None:
    """Let the nets from the begin of a loop to its end carry a frame once per pass.

    Args:
        netlist: Changed.
        entry: The instance at the begin.
    """
    passes = int(netlist.instance(entry).parameters["PASSES"])
    reached, waiting = {entry}, [entry]
    while waiting:
        name = waiting.pop()
        for index, net in enumerate(netlist.nets):
            if net.source.instance == name:
                netlist.nets[index] = dataclasses.replace(net, stream=_repeated(net.stream, passes))
                behind = net.sink.instance
                if behind not in reached and netlist.instance(behind).op != LOOP_EXIT:
                    reached.add(behind)
                    waiting.append(behind)
